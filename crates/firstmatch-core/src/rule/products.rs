//! Rules as products of sets of values, one set for each field.

use std::ops::Range;
use std::sync::OnceLock;

use super::expansion::ExpansionLimits;
use super::id::RuleId;
use super::matched::Match;
use super::region::{Region, Regions};
use super::sets::FieldSets;
use crate::error::BuildError;
use crate::schema::Schema;

/// Regions in order of priority, each with its rule.
#[derive(Clone, Debug)]
pub(super) struct RuleRegions {
    pub(super) regions: Regions,
    pub(super) rules: Vec<Match>,
}

/// Rules in order of priority as products of numbered sets, one set for each field.
///
/// A key lies in a product if the value of each field lies in the field's set. A rule on 2,000 sources, 2,000
/// destinations and 20 ports is one product over sets of 4,020 boxes, and 80 million regions.
#[derive(Clone, Debug)]
pub(crate) struct RuleProducts {
    sets: Box<[FieldSets]>,
    /// Number of the set of each field, product by product.
    rows: Vec<u32>,
    /// Rule of each product.
    rules: Vec<Match>,
    /// Number of regions of all products, and of their bytes.
    regions: usize,
    region_bytes: usize,
    limits: ExpansionLimits,
    /// Rules that exceed a limit by themselves, with the error.
    refusals: Vec<(RuleId, BuildError)>,
    /// Error of the first rule with which all rules so far exceed a limit.
    excess: Option<BuildError>,
    /// Regions of all products, made when they are first asked for.
    expanded: OnceLock<RuleRegions>,
}

impl RuleProducts {
    /// Builds a list without products.
    pub(super) fn new(schema: &Schema, limits: &ExpansionLimits) -> Self {
        let sets = (0..schema.fields().len()).map(|field| FieldSets::new(schema.words_of(field).len()));
        Self {
            sets: sets.collect(),
            rows: Vec::new(),
            rules: Vec::new(),
            regions: 0,
            region_bytes: 0,
            limits: *limits,
            refusals: Vec::new(),
            excess: None,
            expanded: OnceLock::new(),
        }
    }

    /// Builds a list without products under the same limits.
    pub(super) fn empty_like(&self) -> Self {
        let sets = self.sets.iter().map(|sets| FieldSets::new(sets.boxes().key_words())).collect();
        Self {
            sets,
            rows: Vec::new(),
            rules: Vec::new(),
            regions: 0,
            region_bytes: 0,
            limits: self.limits,
            refusals: Vec::new(),
            excess: None,
            expanded: OnceLock::new(),
        }
    }

    /// Adds a product with the boxes of each field.
    pub(super) fn push(&mut self, rule: Match, boxes: &[&Regions]) {
        for (sets, boxes) in self.sets.iter_mut().zip(boxes) {
            self.rows.push(sets.number((0..boxes.len()).map(|index| boxes.get(index))));
        }
        self.pushed(rule);
    }

    /// Adds a region as a product of one box for each field.
    pub(super) fn push_region(&mut self, rule: Match, region: Region<'_>) {
        let mut start = 0;
        for sets in &mut self.sets {
            let own = start..start + sets.boxes().key_words();
            start = own.end;
            let ternary = region.ternary.map(|(value, mask)| (&value[own.clone()], &mask[own.clone()]));
            let ternary = ternary.filter(|(_, mask)| mask.iter().any(|&mask| mask != 0));
            let part = Region { lo: &region.lo[own.clone()], hi: &region.hi[own], ternary };
            self.rows.push(sets.number(std::iter::once(part)));
        }
        self.pushed(rule);
    }

    /// Adds products of another list, which are all of one rule.
    pub(super) fn push_of(&mut self, other: &Self, products: Range<usize>) {
        for product in products {
            for (sets, (from, number)) in self.sets.iter_mut().zip(other.of(product)) {
                self.rows.push(sets.number(from.of(number)));
            }
            let rule = other.rules[product];
            self.pushed(rule);
            if self.refusals.last().is_none_or(|(of, _)| *of != rule.rule) {
                self.refusals.extend(other.refusals.iter().find(|(of, _)| *of == rule.rule).cloned());
            }
            self.excess = self.excess.take().or_else(|| Some(self.excess()?.with_rule(rule.rule)));
        }
    }

    fn pushed(&mut self, rule: Match) {
        self.rules.push(rule);
        let (product, words) = (self.rules.len() - 1, self.sets.iter().map(|sets| sets.boxes().key_words()).sum());
        let is_ternary = self.of(product).any(|(sets, number)| sets.of(number).any(|part| part.ternary.is_some()));
        let count = self.count(product);
        self.regions = self.regions.saturating_add(count);
        self.region_bytes = self.region_bytes.saturating_add(count.saturating_mul(bytes_each(words, is_ternary)));
        self.expanded.take();
    }

    /// Notes why the regions of the last rule are too many.
    pub(super) fn refuse(&mut self, rule: RuleId, error: BuildError) {
        self.refusals.push((rule, error));
    }

    /// Notes why the regions of all rules are too many with the last one, unless they were before.
    pub(super) fn exceed(&mut self, error: BuildError) {
        self.excess.get_or_insert(error);
    }

    /// Returns the error of the limit that all regions exceed, if they do.
    fn excess(&self) -> Option<BuildError> {
        let is_large = self.regions > self.limits.most_per_set();
        let takes_much =
            || (self.region_bytes > self.limits.region_bytes).then(|| self.limits.set_takes_too_much(None));
        is_large.then(|| self.limits.set_too_large(None)).or_else(takes_much)
    }

    /// Number of products.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns the same products over other fields; `boxes` has those of each set, field by field.
    pub(super) fn over(&self, schema: &Schema, boxes: &[Vec<Regions>]) -> Self {
        let mut over = Self::new(schema, &self.limits);
        let of_field = |(sets, boxes): (&mut FieldSets, &Vec<Regions>)| -> Vec<u32> {
            boxes.iter().map(|boxes| sets.number((0..boxes.len()).map(|index| boxes.get(index)))).collect()
        };
        let numbers: Vec<_> = over.sets.iter_mut().zip(boxes).map(of_field).collect();
        for product in 0..self.len() {
            over.rows.extend(self.of(product).zip(&numbers).map(|((_, number), of)| of[number as usize]));
            over.pushed(self.rules[product]);
        }
        over
    }

    /// Returns the rule of each product.
    pub(crate) fn rules(&self) -> &[Match] {
        &self.rules
    }

    /// Number of regions of all products.
    pub(crate) fn regions(&self) -> usize {
        self.regions
    }

    /// Returns the sets of each field.
    pub(crate) fn sets(&self) -> &[FieldSets] {
        &self.sets
    }

    /// Returns the sets of each field, with the number of the one that a product has.
    pub(crate) fn of(&self, product: usize) -> impl Iterator<Item = (&FieldSets, u32)> {
        self.sets.iter().zip(self.rows[product * self.sets.len()..].iter().copied())
    }

    /// Returns the number of the set that a product has in a field.
    pub(crate) fn number(&self, product: usize, field: usize) -> u32 {
        self.rows[product * self.sets.len() + field]
    }

    /// Returns the number of regions of a product.
    pub(crate) fn count(&self, product: usize) -> usize {
        self.of(product).fold(1, |count, (sets, number)| count.saturating_mul(sets.range(number).len()))
    }

    /// Returns bounds on the number of products over words, and on the intervals of a word of them all.
    ///
    /// A set of a wide field, or with masks, is at most as many products as it has boxes.
    pub(super) fn word_products(&self) -> (usize, usize) {
        let is_whole = |sets: &FieldSets| sets.boxes().key_words() == 1 && sets.boxes().ternary_words().is_empty();
        let is_whole: Vec<bool> = self.sets.iter().map(is_whole).collect();
        (0..self.len()).fold((0usize, 0usize), |(products, intervals), product| {
            let (mut own, mut most) = (1usize, 1);
            for ((sets, number), &is_whole) in self.of(product).zip(&is_whole) {
                let boxes = sets.range(number).len();
                own = if is_whole { own } else { own.saturating_mul(boxes) };
                most = if is_whole { most.max(boxes) } else { most };
            }
            (products.saturating_add(own), intervals.saturating_add(own.saturating_mul(most)))
        })
    }

    /// Returns the regions of all products, those of one product one behind the other.
    ///
    /// # Errors
    /// If a limit refuses a rule or all of them. Nothing is multiplied then.
    pub(super) fn expanded(&self) -> Result<&RuleRegions, BuildError> {
        match (self.expanded.get(), self.refused()) {
            (Some(all), _) => Ok(all),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(self.expanded.get_or_init(|| self.expand())),
        }
    }

    /// Returns the reason why the rules cannot be expanded, if there is one.
    pub(super) fn refused(&self) -> Option<BuildError> {
        let refusal = self.refusals.first().map(|(_, error)| error).or(self.excess.as_ref());
        refusal.cloned().or_else(|| self.excess())
    }

    fn expand(&self) -> RuleRegions {
        let rules = (0..self.len()).flat_map(|product| std::iter::repeat_n(self.rules[product], self.count(product)));
        let mut all = Vec::with_capacity(self.regions);
        all.extend(rules);
        RuleRegions { regions: self.regions_of(0..self.len()), rules: all }
    }

    /// Returns the regions of some products.
    pub(super) fn regions_of(&self, products: Range<usize>) -> Regions {
        let mut regions = Regions::new(self.sets.iter().map(|sets| sets.boxes().key_words()).sum());
        regions.reserve(products.clone().map(|product| self.count(product)).sum());
        for product in products {
            let choices: Vec<_> = self.of(product).map(|(sets, number)| (sets.boxes(), sets.range(number))).collect();
            cross(&choices, &mut regions);
        }
        regions
    }

    /// Returns the indices of the products of a rule.
    pub(super) fn of_rule(&self, rule: Match) -> Range<usize> {
        let first = self.rules.partition_point(|of| of.priority < rule.priority);
        first..first + self.rules[first..].iter().take_while(|&&of| of == rule).count()
    }

    /// Number of bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        let expanded = self.expanded.get().map_or(0, RuleRegions::bytes);
        let sets = self.sets.iter().map(|sets| size_of::<FieldSets>() + sets.bytes()).sum::<usize>();
        let rows = self.rows.capacity() * size_of::<u32>() + self.rules.capacity() * size_of::<Match>();
        size_of::<Self>() + sets + rows + expanded
    }
}

impl RuleRegions {
    /// Returns the regions as products of one box for each field.
    pub(super) fn products(&self, schema: &Schema, limits: &ExpansionLimits) -> RuleProducts {
        let mut products = RuleProducts::new(schema, limits);
        self.rules.iter().zip(self.regions.iter()).for_each(|(&rule, region)| products.push_region(rule, region));
        products
    }

    /// Number of bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.regions.bytes() + self.rules.capacity() * size_of::<Match>()
    }
}

/// Number of bytes that a region of some key words takes, with its rule.
pub(super) fn bytes_each(key_words: usize, is_ternary: bool) -> usize {
    let parts = if is_ternary { 4 } else { 2 };
    parts * key_words * size_of::<u32>() + size_of::<Match>()
}

/// Appends one region for each way to choose a box per field. The last field changes fastest.
///
/// Each field has a range of boxes over its own words, which is not empty.
pub(super) fn cross(choices: &[(&Regions, Range<usize>)], out: &mut Regions) {
    let mut at: Vec<usize> = choices.iter().map(|(_, range)| range.start).collect();
    let [mut lo, mut hi, mut value, mut mask] = [(); 4].map(|()| vec![0; out.key_words()]);
    let mut turn = 0;
    loop {
        // Fields before `turn` keep their box.
        let mut start = choices[..turn].iter().map(|(boxes, _)| boxes.key_words()).sum::<usize>();
        for ((boxes, _), &index) in choices[turn..].iter().zip(&at[turn..]) {
            let part = boxes.get(index);
            let of = start..start + part.lo.len();
            lo[of.clone()].copy_from_slice(part.lo);
            hi[of.clone()].copy_from_slice(part.hi);
            match part.ternary {
                Some((v, m)) => {
                    value[of.clone()].copy_from_slice(v);
                    mask[of.clone()].copy_from_slice(m);
                }
                None => mask[of.clone()].fill(0),
            }
            start = of.end;
        }
        value.iter_mut().zip(&mask).for_each(|(value, mask)| *value &= mask);
        let ternary = mask.iter().any(|&m| m != 0).then_some((&value[..], &mask[..]));
        out.push(Region { lo: &lo, hi: &hi, ternary });
        let Some(next) = (0..choices.len()).rev().find(|&field| at[field] + 1 < choices[field].1.end) else { return };
        turn = next;
        at[turn] += 1;
        at[turn + 1..].iter_mut().zip(&choices[turn + 1..]).for_each(|(at, (_, range))| *at = range.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Action, Condition, Lowered, Priority, RuleSet, RuleSpec, Test, lower_products};
    use crate::schema::{Field, Kind};

    /// Rules that are copied are refused as rules that are lowered, whichever rules are left.
    #[test]
    fn copied_rules_are_refused_as_lowered_ones() {
        let fields = ["x", "y"].map(|name| Field::new(name, 8, Kind::Mask, None));
        let schema = Schema::new(None, fields.to_vec());
        // The first and the third have 16 regions, the second has 4 under masks, the others 2 and 1.
        let odd = |count: u128| (0..count).map(|value| (None, Test::Value(2 * value))).collect::<Vec<_>>();
        let masks = [1, 2].map(|value| (None, Test::Mask { value: value << 4, mask: value << 4 })).to_vec();
        let lists = [[odd(4), odd(4)], [masks, odd(2)], [odd(4), odd(4)], [odd(2), odd(1)], [odd(1), odd(1)]];
        let rule = |(line, tests): (u64, &[Vec<_>; 2])| {
            let condition =
                |(field, tests): (usize, &Vec<_>)| Condition { field, negated: false, tests: tests.clone() };
            let conditions = tests.iter().enumerate().map(condition).collect::<Vec<_>>().into();
            let (action, priority) = (Action::Permit, Priority(line));
            RuleSpec { priority, action, conditions, family: None, line: None, value: 0 }
        };
        let limits = |regions_per_rule, regions_per_set, region_bytes| ExpansionLimits {
            regions_per_rule,
            regions_per_set,
            region_bytes,
            ..ExpansionLimits::default()
        };
        let mut refused = 0;
        for limits in [
            limits(8, 100, 10_000),
            limits(16, 30, 10_000),
            limits(16, 12, 10_000),
            limits(16, 100, 400),
            limits(16, 100, 150),
        ] {
            let mut set = RuleSet::new(schema.clone());
            (1..).zip(&lists).for_each(|of| _ = set.insert(rule(of)).expect("it fits"));
            let whole = lower_products(&set, &schema, &limits).expect("few pieces");
            let all: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
            for kept in 0..1u32 << lists.len() {
                let mut left = set.clone();
                let is_kept = |at: usize| kept >> at & 1 == 1;
                let removed = all.iter().enumerate().filter(|(at, _)| !is_kept(*at));
                removed.for_each(|(_, id)| _ = left.remove(*id));
                let mut copied: Lowered = whole.empty_like();
                for (found, range) in whole.kept_by_rule().filter(|(found, _)| left.get(found.rule).is_some()) {
                    copied.push_of(&whole, found, range);
                }
                let lowered = lower_products(&left, &schema, &limits).expect("few pieces");
                let reason = |of: &Lowered| of.refused().map(|error| (error.rule(), error.to_string()));
                // A lone rule of one region is kept as a region.
                if lowered.products().is_some() {
                    assert_eq!(reason(&copied), reason(&lowered), "{limits:?} {kept:b}");
                }
                refused += usize::from(copied.refused().is_some());
            }
        }
        assert!((40..140).contains(&refused), "{refused}");
    }
}
