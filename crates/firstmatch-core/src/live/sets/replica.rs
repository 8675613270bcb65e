//! Rules of live sets in one replica, and lookups in them.
//!
//! A rule has a bit. For each field, the class of the key's address has a row of the rules whose condition on the field
//! holds. The rows of all fields are intersected, and the rules that are left are compared by priority. Conditions on
//! other fields are compared as regions.
//!
//! For example, `deny src $bad tcp` has bit 0, the class of 192.0.2.1 in `src` has the row {0}, and the row of rules
//! that leave `dst` open is {0}. So rule 0 is left, and its region is compared with the protocol of the key.

use std::ops::Range;
use std::sync::Arc;

use super::leaf::Leaf;
use super::rows::ones;
use super::tree::Start;
use crate::engine::Match;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, Level, dispatch};
use crate::rule::{Priority, Regions};
use crate::schema::{Family, Schema};

/// Number of keys that go down a tree together.
const CHUNK: usize = 32;
/// Largest number of address fields of a schema.
pub(super) const MOST_FIELDS: usize = 2;

/// Rules of live sets of all schemas; without memory before the first such rule.
#[derive(Clone, Debug)]
pub(in crate::live) struct SetRules {
    pub(super) parts: Vec<PartRules>,
    level: Level,
}

impl Default for SetRules {
    fn default() -> Self {
        Self { parts: Vec::new(), level: Level::Scalar }
    }
}

/// Lookup of keys in the rules of one schema.
struct Improve<'a, 'k, T> {
    rules: &'a RulesOf<T>,
    keys: &'a Keys<'k>,
    best: &'a mut [Option<Match>],
}

impl<T: Start> Kernel for Improve<'_, '_, T> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        self.rules.run(isa, self.keys, self.best);
    }
}

/// Rules of live sets of one schema.
#[derive(Clone, Debug)]
pub(super) enum PartRules {
    Ipv4(RulesOf<u32>),
    Ipv6(RulesOf<u128>),
}

#[derive(Clone, Debug)]
pub(super) struct RulesOf<T> {
    pub(super) fields: Vec<FieldRules<T>>,
    /// Rules by bit.
    pub(super) rules: Vec<Option<SetRule>>,
    /// Number of rules, and the smallest of their priorities.
    pub(super) count: usize,
    first: Priority,
}

/// Address field of a schema.
#[derive(Clone, Debug)]
pub(super) struct FieldRules<T> {
    words: Range<usize>,
    pub(super) leaf: Leaf<T>,
}

#[derive(Clone, Debug)]
pub(super) struct SetRule {
    pub(super) rule: Match,
    /// Regions of the conditions on other fields; `None` if there are none.
    pub(super) rest: Option<Arc<Regions>>,
}

impl SetRules {
    /// Builds the replica without rules.
    pub(super) fn new(schemas: &[Schema], level: Level) -> Self {
        let part = |schema: &Schema| match schema.family() {
            Some(Family::Ipv6) => PartRules::Ipv6(RulesOf::new(schema)),
            _ => PartRules::Ipv4(RulesOf::new(schema)),
        };
        Self { parts: schemas.iter().map(part).collect(), level }
    }

    /// Returns a replica of the same schemas without rules.
    pub(super) fn without_rules(&self) -> Self {
        let part = |part: &PartRules| match part {
            PartRules::Ipv4(part) => PartRules::Ipv4(part.without_rules()),
            PartRules::Ipv6(part) => PartRules::Ipv6(part.without_rules()),
        };
        Self { parts: self.parts.iter().map(part).collect(), level: self.level }
    }

    /// Number of rules that may match packets of a schema.
    #[inline(always)]
    pub(in crate::live) fn rules(&self, part: usize) -> usize {
        match self.parts.get(part) {
            None => 0,
            Some(PartRules::Ipv4(part)) => part.count,
            Some(PartRules::Ipv6(part)) => part.count,
        }
    }

    /// Improves `best` by the rules of a schema.
    #[inline(always)]
    pub(in crate::live) fn improve(&self, part: usize, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        if self.rules(part) > 0 {
            match &self.parts[part] {
                PartRules::Ipv4(rules) => dispatch(self.level, Improve { rules, keys, best }),
                PartRules::Ipv6(rules) => dispatch(self.level, Improve { rules, keys, best }),
            }
        }
    }

    /// Returns the heap bytes.
    pub(in crate::live) fn bytes(&self) -> usize {
        let each = |part: &PartRules| match part {
            PartRules::Ipv4(part) => part.bytes(),
            PartRules::Ipv6(part) => part.bytes(),
        };
        self.parts.capacity() * size_of::<PartRules>() + self.parts.iter().map(each).sum::<usize>()
    }

    /// Largest number of cache lines that a lookup in the trees of a schema touches, and of regions that it tests.
    pub(in crate::live) fn worst(&self, part: usize) -> [usize; 2] {
        match self.parts.get(part) {
            None => [0; 2],
            Some(PartRules::Ipv4(part)) => part.worst(),
            Some(PartRules::Ipv6(part)) => part.worst(),
        }
    }
}

impl<T: Start> RulesOf<T> {
    fn new(schema: &Schema) -> Self {
        let fields = (0..schema.fields().len()).filter(|&field| schema.has_addresses(field)).take(MOST_FIELDS);
        let each = |field| FieldRules { words: schema.words_of(field), leaf: Leaf::new() };
        Self { fields: fields.map(each).collect(), rules: Vec::new(), count: 0, first: Priority(u64::MAX) }
    }

    fn without_rules(&self) -> Self {
        let each = |of: &FieldRules<T>| FieldRules { words: of.words.clone(), leaf: Leaf::new() };
        let fields = self.fields.iter().map(each).collect();
        Self { fields, rules: Vec::new(), count: 0, first: Priority(u64::MAX) }
    }

    /// Sets or removes the rule of a bit.
    pub(super) fn set(&mut self, bit: u16, rule: Option<SetRule>) {
        let bit = usize::from(bit);
        if self.rules.len() <= bit {
            self.rules.resize(bit + 1, None);
        }
        self.rules[bit] = rule;
        let all = self.rules.iter().flatten();
        (self.count, self.first) =
            all.fold((0, Priority(u64::MAX)), |(count, first), of| (count + 1, first.min(of.rule.priority)));
    }

    /// Improves keys whose best match does not come before all rules of live sets.
    #[inline(always)]
    fn run<I: Isa>(&self, isa: I, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let mut tested = self.fields.iter().filter(|of| of.leaf.tested > 0);
        // A rule of live sets tests one of the fields.
        let Some(first) = tested.next() else { return };
        let second = tested.next();
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let start = index * CHUNK;
            let (mut asked, mut count) = ([0u8; CHUNK], 0);
            for (i, best) in best.iter().enumerate() {
                asked[count % CHUNK] = i as u8;
                count += usize::from(best.is_none_or(|best| best.priority > self.first));
            }
            let asked = &asked[..count];
            let mut classes = [[0u32; CHUNK]; MOST_FIELDS];
            for (classes, of) in classes.iter_mut().zip([Some(first), second].into_iter().flatten()) {
                let mut addresses = [T::ENDS[0]; CHUNK];
                for (address, &i) in addresses.iter_mut().zip(asked) {
                    *address = T::of_words(&keys.row(start + usize::from(i))[of.words.clone()]);
                }
                of.leaf.tree.find_all(isa, &addresses[..count], &mut classes[..count]);
                classes[..count].iter().for_each(|&class| of.leaf.rows.prefetch(isa, class));
            }
            let of_first = &first.leaf;
            for (at, &i) in asked.iter().enumerate() {
                let [one, two] = classes.map(|classes| classes[at % CHUNK]);
                let also = second.map(|of| &of.leaf);
                let summary = of_first.summary(one) & also.map_or(u64::MAX, |of| of.summary(two));
                for word in ones(summary) {
                    let bits = of_first.word(one, word) & also.map_or(u64::MAX, |of| of.word(two, word));
                    let i = usize::from(i);
                    self.decide(keys.row(start + i), word, bits, &mut best[i]);
                }
            }
        }
    }

    /// Improves the best match of a key by the rules of these bits.
    #[inline(always)]
    fn decide(&self, row: &[u32], word: usize, bits: u64, best: &mut Option<Match>) {
        for bit in ones(bits) {
            let Some(Some(SetRule { rule, rest })) = self.rules.get(word * 64 + bit) else { continue };
            if best.is_none_or(|best| rule.priority < best.priority)
                && rest.as_ref().is_none_or(|rest| rest.iter().any(|region| region.contains(row)))
            {
                *best = Some(*rule);
            }
        }
    }

    fn bytes(&self) -> usize {
        let rest = |rule: &SetRule| rule.rest.as_ref().map_or(0, |rest| size_of::<Regions>() + rest.bytes());
        self.fields.capacity() * size_of::<FieldRules<T>>()
            + self.fields.iter().map(|of| of.leaf.bytes()).sum::<usize>()
            + self.rules.capacity() * size_of::<Option<SetRule>>()
            // The regions are shared by both replicas, and counted for each.
            + self.rules.iter().flatten().map(rest).sum::<usize>()
    }

    fn worst(&self) -> [usize; 2] {
        if self.count == 0 {
            return [0; 2];
        }
        let tests = self.rules.iter().flatten().map(|of| of.rest.as_ref().map_or(1, |rest| rest.len())).sum();
        let lines = self.fields.iter().filter(|of| of.leaf.tested > 0).map(|of| of.leaf.lines()).sum::<usize>();
        [lines + 2 * self.count, tests]
    }
}
