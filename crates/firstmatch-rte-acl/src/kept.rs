//! Rules as the caller gave them, packed without loss.
//!
//! A rule of five fields takes 96 bytes in C, but most of them are the same in every rule. Only bytes that differ
//! somewhere are kept for each rule; all others are read from a template, the first rule. Any configuration can
//! therefore be built from packed rules. For example, an IPv4 5-tuple keeps some 26 bytes: addresses, lengths, ports,
//! protocol, and the low bytes of priority and user data.
//!
//! Rules are added to a tail of whole rules, which the next build packs. Removed rules keep their place until a build
//! finds as many of them as others, so that a removal moves no rule.

use std::collections::TryReserveError;

use crate::abi::{RULE_HEAD, RuleName};
use crate::names::Names;

/// Number of bytes of a rule that have a meaning before its first field.
const DATA: usize = 12;

/// Head of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) category_mask: u32,
    pub(crate) priority: i32,
    pub(crate) userdata: u32,
}

impl Head {
    /// Reads the head of a rule of at least 12 bytes.
    pub(crate) fn of(rule: &[u8]) -> Self {
        let word = |at: usize| rule[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        Self { category_mask: word(0), priority: word(4) as i32, userdata: word(8) }
    }
}

/// Rules of a context, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Bytes of a whole rule.
    stride: usize,
    /// First rule, whose bytes count where `varying` has none.
    template: Vec<u8>,
    /// Positions of the bytes that differ between rules, ascending.
    varying: Vec<u32>,
    /// Bytes at the varying positions, rule after rule.
    packed: Vec<u8>,
    /// Number of packed rules.
    packed_rules: usize,
    /// Whole rules that are not packed yet.
    tail: Vec<u8>,
    /// Bits of the removed rules, and their number.
    gone: Vec<u64>,
    gone_rules: usize,
    /// Index by name, from the first removal on.
    names: Option<Names>,
}

impl Kept {
    /// Builds a list without rules of `stride` bytes.
    pub(crate) fn new(stride: usize) -> Self {
        Self { stride, ..Self::default() }
    }

    /// Returns a copy of the list.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn copy(&self) -> Result<Self, TryReserveError> {
        fn copy<T: Copy>(from: &[T]) -> Result<Vec<T>, TryReserveError> {
            let mut to = Vec::new();
            to.try_reserve_exact(from.len())?;
            to.extend_from_slice(from);
            Ok(to)
        }
        let [template, packed, tail] = [&self.template, &self.packed, &self.tail].map(|bytes| copy(bytes));
        let (varying, gone) = (copy(&self.varying)?, copy(&self.gone)?);
        let (template, packed, tail) = (template?, packed?, tail?);
        let Self { stride, packed_rules, gone_rules, .. } = *self;
        Ok(Self { stride, template, varying, packed, packed_rules, tail, gone, gone_rules, names: None })
    }

    /// Number of rules that are left.
    pub(crate) fn len(&self) -> usize {
        self.places() - self.gone_rules
    }

    /// Number of rules and of removed rules that still have a place.
    pub(crate) fn places(&self) -> usize {
        self.packed_rules + self.tail.len().checked_div(self.stride).unwrap_or(0)
    }

    /// Returns the indices of the rules that are left, in the order in which they were added.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> {
        (0..self.places()).filter(|&index| !self.is_gone(index))
    }

    /// Whether the rule of index `index` was removed.
    pub(crate) fn is_gone(&self, index: usize) -> bool {
        self.gone.get(index / 64).is_some_and(|bits| bits >> (index % 64) & 1 == 1)
    }

    /// Whether as many rules are gone as are left, so that [`Self::compact`] is worth its time.
    pub(crate) fn is_sparse(&self) -> bool {
        self.gone_rules > 0 && self.gone_rules >= self.len()
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.names.as_ref().map_or(0, Names::bytes) + self.gone.capacity() * 8;
        self.template.capacity() + self.varying.capacity() * 4 + self.packed.capacity() + self.tail.capacity() + names
    }

    /// Removes every rule and frees the memory.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.stride);
    }

    /// Makes room for `count` more rules.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), TryReserveError> {
        self.tail.try_reserve(count.saturating_mul(self.stride))?;
        match self.names.is_some() {
            true => self.index(count),
            false => Ok(()),
        }
    }

    /// Makes the index by name, or room in it for `count` more rules.
    fn index(&mut self, count: usize) -> Result<(), TryReserveError> {
        let places = self.places();
        self.gone.try_reserve((places + count).div_ceil(64).saturating_sub(self.gone.len()))?;
        self.gone.resize(self.gone.len().max(places.div_ceil(64)), 0);
        let is_new = self.names.is_none();
        let mut names = self.names.take().unwrap_or_default();
        let reserved = names.reserve((places + count).max(1), |index| self.name(index));
        if is_new {
            reserved?;
            (0..places).for_each(|_| names.add(|index| self.name(index), |index| self.is_gone(index)));
            self.names = Some(names);
            return Ok(());
        }
        self.names = Some(names);
        reserved
    }

    fn name(&self, index: usize) -> RuleName {
        let Head { priority, userdata, .. } = self.head(index);
        RuleName { priority, userdata }
    }

    /// Adds a whole rule, for which there is room.
    pub(crate) fn push(&mut self, rule: &[u8]) {
        let start = self.tail.len();
        self.tail.extend_from_slice(rule);
        // Padding has no meaning and may hold anything.
        let padding = DATA.min(rule.len())..RULE_HEAD.min(rule.len());
        self.tail[start..][padding].fill(0);
        if let Some(mut names) = self.names.take() {
            names.add(|index| self.name(index), |index| self.is_gone(index));
            self.names = Some(names);
        }
    }

    /// Writes the rule of index `index`, which must be there, to `rule`, which has the length of a whole rule.
    pub(crate) fn read(&self, index: usize, rule: &mut [u8]) {
        match index.checked_sub(self.packed_rules) {
            Some(behind) => rule.copy_from_slice(&self.tail[behind * self.stride..][..self.stride]),
            None => {
                rule.copy_from_slice(&self.template);
                let bytes = &self.packed[index * self.varying.len()..][..self.varying.len()];
                self.varying.iter().zip(bytes).for_each(|(&at, &byte)| rule[at as usize] = byte);
            }
        }
    }

    /// Returns the head of the rule of index `index`, which must be there.
    pub(crate) fn head(&self, index: usize) -> Head {
        match index.checked_sub(self.packed_rules) {
            Some(behind) => Head::of(&self.tail[behind * self.stride..]),
            None => self.packed_head(self.heads(), index),
        }
    }

    /// Returns the positions of the bytes of a head that differ between rules.
    fn heads(&self) -> &[u32] {
        &self.varying[..self.varying.partition_point(|&at| (at as usize) < DATA)]
    }

    /// Returns the head of a packed rule, of which `heads` are the positions that differ.
    #[inline]
    fn packed_head(&self, heads: &[u32], index: usize) -> Head {
        let mut head = [0; DATA];
        head.copy_from_slice(&self.template[..DATA]);
        let bytes = &self.packed[index * self.varying.len()..][..heads.len()];
        heads.iter().zip(bytes).for_each(|(&at, &byte)| head[at as usize] = byte);
        Head::of(&head)
    }

    /// Makes the index by name, so that [`Self::remove`] can be called; returns the number of rules of `names`.
    ///
    /// The first call goes through all rules. A name that occurs twice counts twice.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn find(&mut self, names: &[RuleName]) -> Result<usize, TryReserveError> {
        self.index(0)?;
        let (kept, Some(index)) = (&*self, &self.names) else { return Ok(0) };
        let count = |&name: &RuleName| {
            let rules = index.rules_of(name, |index| kept.name(index));
            rules.take_while(|&index| !kept.is_gone(index)).count()
        };
        Ok(names.iter().map(count).sum())
    }

    /// Removes the rules of a name, and calls `removed` with the index of each; returns their number.
    ///
    /// It looks at these rules alone. Without [`Self::find`] since the last rule was added, it may find none.
    pub(crate) fn remove(&mut self, name: RuleName, mut removed: impl FnMut(usize)) -> usize {
        let Some(names) = self.names.take() else { return 0 };
        let (mut gone, mut count) = (std::mem::take(&mut self.gone), 0);
        for index in names.rules_of(name, |index| self.name(index)) {
            let (Some(bits), bit) = (gone.get_mut(index / 64), 1 << (index % 64)) else { break };
            // Rules of a name are removed together.
            if *bits & bit != 0 {
                break;
            }
            *bits |= bit;
            removed(index);
            count += 1;
        }
        (self.names, self.gone) = (Some(names), gone);
        self.gone_rules += count;
        count
    }

    /// Frees the places of removed rules. There must be no tail.
    pub(crate) fn compact(&mut self) {
        let (width, mut left) = (self.varying.len(), 0);
        for index in 0..self.packed_rules {
            if !self.is_gone(index) {
                self.packed.copy_within(index * width..(index + 1) * width, left * width);
                left += 1;
            }
        }
        self.packed.truncate(left * width);
        (self.packed_rules, self.gone_rules) = (left, 0);
        self.gone.clear();
        self.names = None;
    }

    /// Packs the tail.
    ///
    /// # Errors
    /// If there is no memory; the rules are then as before.
    pub(crate) fn pack(&mut self) -> Result<(), TryReserveError> {
        if self.tail.is_empty() {
            return Ok(());
        }
        let template = if self.template.is_empty() { &self.tail[..self.stride] } else { &self.template[..] };
        let mut differs = vec![0; self.stride];
        self.varying.iter().for_each(|&at| differs[at as usize] = 1);
        for rule in self.tail.chunks_exact(self.stride) {
            differs.iter_mut().zip(rule).zip(template).for_each(|((differs, byte), first)| *differs |= byte ^ first);
        }
        let varying: Vec<u32> = (0..).zip(&differs).filter(|&(_, &differs)| differs != 0).map(|(at, _)| at).collect();
        let mut packed = Vec::new();
        packed.try_reserve_exact(self.places() * varying.len())?;
        let mut first = Vec::new();
        first.try_reserve_exact(self.stride)?;
        first.extend_from_slice(template);
        let mut rule = vec![0; self.stride];
        for index in 0..self.places() {
            self.read(index, &mut rule);
            packed.extend(varying.iter().map(|&at| rule[at as usize]));
        }
        self.packed_rules = self.places();
        (self.template, self.varying, self.packed, self.tail) = (first, varying, packed, Vec::new());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use firstmatch_testkit::rng::Rng;

    use super::*;

    #[test]
    fn packed_rules_are_read_as_they_were_added() {
        let mut rng = Rng::new(1);
        for round in 0..200 {
            let stride = 12 + rng.below(120);
            let (mut kept, mut rules) = (Kept::new(stride), Vec::<Vec<u8>>::new());
            let common = rng.bytes(stride);
            let varying: Vec<_> = (0..stride).filter(|_| rng.percent(20)).collect();
            for _ in 0..rng.below(5) {
                let count = rng.below(20);
                kept.reserve(count).expect("memory");
                for _ in 0..count {
                    let mut rule = common.clone();
                    varying.iter().filter(|_| round % 2 == 0 || rng.below(9) > 6).for_each(|&at| rule[at] ^= at as u8);
                    kept.push(&rule);
                    rule[DATA..RULE_HEAD.min(stride)].fill(0);
                    rules.push(rule);
                }
                if rng.percent(70) {
                    kept.pack().expect("memory");
                    assert!(kept.tail.is_empty());
                }
            }
            assert_eq!(kept.len(), rules.len());
            let mut out = vec![0; stride];
            for (index, rule) in rules.iter().enumerate() {
                kept.read(index, &mut out);
                assert_eq!(&out, rule);
                assert_eq!(kept.head(index), Head::of(rule));
            }
            kept.clear();
            assert_eq!((kept.len(), kept.bytes()), (0, 0));
        }
    }

    /// Rules are found by name, the last first, whatever was added, removed, packed or compacted before.
    #[test]
    fn rules_are_found_by_name() {
        let mut rng = Rng::new(2);
        for round in 0..60 {
            let names = 1 + rng.below(if round % 3 == 0 { 3 } else { 200 });
            // Rules that are left, by number of addition.
            let (mut kept, mut left, mut added) = (Kept::new(20), Vec::<(u32, RuleName)>::new(), 0u32);
            for _ in 0..rng.below(120) {
                let name = |rng: &mut Rng| {
                    let name = rng.below(names) as u32;
                    RuleName { priority: 1 + (name / 7) as i32, userdata: name % 7 }
                };
                match rng.below(5) {
                    0 | 1 => {
                        let count = rng.below(40);
                        kept.reserve(count).expect("memory");
                        for _ in 0..count {
                            let name = name(&mut rng);
                            let words = [1, name.priority.cast_unsigned(), name.userdata, 0, added];
                            kept.push(words.map(u32::to_ne_bytes).as_flattened());
                            left.push((added, name));
                            added += 1;
                        }
                    }
                    2 | 3 => {
                        let names: Vec<_> = (0..rng.below(4)).map(|_| name(&mut rng)).collect();
                        let mut first = names.clone();
                        first.sort_unstable();
                        first.dedup();
                        let are = left.iter().filter(|(_, name)| first.contains(name)).count();
                        assert_eq!(kept.find(&first).expect("memory"), are);
                        let mut removed = 0;
                        for &name in &names {
                            let mut last = usize::MAX;
                            removed += kept.remove(name, |index| {
                                assert!(index < last);
                                last = index;
                            });
                        }
                        left.retain(|(_, name)| !names.contains(name));
                        assert_eq!(removed, are);
                    }
                    _ => {
                        kept.pack().expect("memory");
                        if kept.is_sparse() {
                            kept.compact();
                            assert_eq!(kept.places(), left.len());
                        }
                        assert!(kept.places() <= 2 * left.len());
                        if rng.percent(20) {
                            kept = kept.copy().expect("memory");
                        }
                    }
                }
                let mut out = [0; 20];
                let are = kept.indices().map(|index| {
                    kept.read(index, &mut out);
                    let number = u32::from_ne_bytes(*out[16..].first_chunk().expect("four bytes"));
                    (number, kept.name(index))
                });
                assert!(are.eq(left.iter().copied()) && kept.len() == left.len(), "round {round}");
            }
        }
    }

    /// A removal looks at rules of its name alone.
    #[test]
    fn a_removal_goes_to_its_rules() {
        let (mut kept, count) = (Kept::new(20), 100_000u32);
        kept.reserve(count as usize).expect("memory");
        for at in 0..count {
            kept.push([1, 1 + at / 1000, at % 500, 0, at].map(u32::to_ne_bytes).as_flattened());
        }
        kept.pack().expect("memory");
        let name = |userdata| RuleName { priority: 77, userdata };
        assert_eq!(kept.find(&[name(3), name(500)]).expect("memory"), 2);
        let names = kept.names.take().expect("it was made");
        for userdata in [3, 499, 500] {
            let asked = std::cell::Cell::new(0);
            let rules = names.rules_of(name(userdata), |index| {
                asked.set(asked.get() + 1);
                kept.name(index)
            });
            let rules: Vec<_> = rules.collect();
            assert_eq!(rules.len(), if userdata < 500 { 2 } else { 0 });
            assert!(asked.get() < 50, "{} rules were looked at", asked.get());
        }
        assert_eq!(names.bytes(), (262_144 + 100_000) * 4);
    }

    #[test]
    fn constant_bytes_take_no_memory() {
        let mut kept = Kept::new(96);
        kept.reserve(1000).expect("memory");
        for index in 0..1000u32 {
            let mut rule = [7; 96];
            rule[16..20].copy_from_slice(&index.to_ne_bytes());
            kept.push(&rule);
        }
        kept.pack().expect("memory");
        assert_eq!((kept.varying.len(), kept.packed.len()), (2, 2000));
        assert_eq!(kept.bytes(), 2000 + kept.varying.capacity() * 4 + 96);
    }
}
