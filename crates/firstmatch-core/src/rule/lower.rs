//! Lowering: rules on whole fields become products of sets, and regions over key words.
//!
//! No other code knows prefixes, sets, negation and fields wider than a key word. The tests of a condition are united,
//! and complements taken, on whole values *before* values are split into words. For example, `dport not { 80, 443 }` is
//! the complement of two values: the intervals 0 to 79, 81 to 442 and 444 to 65,535, so three regions. Packets that
//! lack a field are a box of their own: `vlan_vid { 5, absent }` is two regions.
//!
//! # Invariants
//! - The regions of one rule never overlap (tests `one_test`, `two_tests` and `several_tests` of
//!   `tests/harness/lowering.rs`).
//! - The boxes of a condition on a field of `k` words are bounded (same tests; `the_bounds_are_tight`). A prefix or a
//!   value under a mask is one box, and a range at most `2k - 1`. The complement of `n` prefixes is at most `n + 1`
//!   ranges. The complement of a value under a mask of `m` bits is at most `m` values under masks.
//! - A list of prefixes stays a list of prefixes if few of them touch (`a_list_of_prefixes_stays_one`). Otherwise one
//!   range among them would make an engine keep two bounds for each.
//!
//! A union of `n` intervals takes a sort. Values under different masks are compared pair by pair, which
//! [`ExpansionLimits::mask_comparisons`] bounds.

mod intervals;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use intervals::unite as unite_intervals;
use intervals::{complement, interval, prefixes_if_near, unite};

use super::condition::Test;
use super::conditions::ConditionRef;
use super::expansion::{Excess, ExpansionLimits};
use super::lowered::{Lowered, LoweredRules};
use super::matched::Match;
use super::products::{bytes_each, cross};
use super::region::{Region, Regions};
use super::set::RuleSet;
use super::spec::{Rule, RuleSpec};
use crate::error::BuildError;
use crate::schema::{Field, Schema};

/// Numbers of regions and bytes that a set has left for its next rule.
struct Room {
    regions: usize,
    bytes: usize,
}

impl Room {
    /// Takes the room of the regions of a rule, of `each` bytes each.
    fn take(
        &mut self,
        regions: usize,
        each: usize,
        rule: &RuleSpec,
        expansion: &ExpansionLimits,
    ) -> Result<(), BuildError> {
        match regions {
            _ if regions > self.regions => return Err(expansion.set_too_large(rule.line)),
            _ if regions > self.bytes / each => return Err(expansion.set_takes_too_much(rule.line)),
            _ => {}
        }
        self.regions -= regions;
        self.bytes -= regions * each;
        Ok(())
    }
}

/// Lowers every rule of a set for one of its schemas.
///
/// Regions are counted, and made once they are asked for.
///
/// # Errors
/// If a rule or the set exceeds a limit of `expansion`; the error names the line and the limit.
///
/// ```
/// use firstmatch_core::rule::{ExpansionLimits, lower};
///
/// let text = "family ipv4\ndeny tcp dport { 23, 80 }\npermit\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let lowered = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// assert_eq!(lowered.regions().len(), 3); // two of the first rule
/// assert_eq!(lowered.regions().get(0).lo, [0, 0, 0, 23, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lower(set: &RuleSet, schema: &Schema, expansion: &ExpansionLimits) -> Result<Lowered, BuildError> {
    lower_all(set, schema, expansion, false)
}

/// Lowers every rule of a set to a product of sets, even if its regions are too many.
///
/// Engines that search field by field take the products. All others refuse rules whose regions exceed a limit, with the
/// error of [`Lowered::expanded`].
///
/// # Errors
/// If one condition of a rule exceeds a limit, or the sets of a field all together have too many boxes.
pub fn lower_products(set: &RuleSet, schema: &Schema, expansion: &ExpansionLimits) -> Result<Lowered, BuildError> {
    lower_all(set, schema, expansion, true)
}

/// Does the same as [`lower_products`] without the rules that test live sets.
pub(crate) fn lower_fixed(set: &RuleSet, schema: &Schema, expansion: &ExpansionLimits) -> Result<Lowered, BuildError> {
    lower_some(set, set.iter().filter(|rule| !rule.tests_live_sets()), schema, expansion, true)
}

fn lower_all(
    set: &RuleSet,
    schema: &Schema,
    expansion: &ExpansionLimits,
    is_deferred: bool,
) -> Result<Lowered, BuildError> {
    lower_some(set, set.iter(), schema, expansion, is_deferred)
}

/// Lowers some rules of a set, with the members that live sets have now.
fn lower_some<'r>(
    set: &RuleSet,
    rules: impl Iterator<Item = &'r Rule>,
    schema: &Schema,
    expansion: &ExpansionLimits,
    is_deferred: bool,
) -> Result<Lowered, BuildError> {
    let mut lowering = Lowering {
        schema,
        expansion,
        room: Room { regions: expansion.most_per_set(), bytes: expansion.region_bytes },
        plain: Regions::new(schema.words().len()),
        lowered: Lowered::empty(schema),
    };
    for rule in rules {
        let resolved = (!set.live_sets().is_empty() && rule.tests_live_sets()).then(|| set.resolve(rule));
        let rule = resolved.as_ref().unwrap_or(rule);
        lowering.push(rule).map_err(|error| error.with_rule(rule.id))?;
        if let Some(error) = lowering.lowered.refused().filter(|_| !is_deferred) {
            return Err(error);
        }
    }
    Ok(lowering.lowered)
}

/// Lowering of a rule set, rule by rule.
struct Lowering<'a> {
    schema: &'a Schema,
    expansion: &'a ExpansionLimits,
    room: Room,
    /// Region of a plain rule that becomes a product.
    plain: Regions,
    lowered: Lowered,
}

impl Lowering<'_> {
    /// Adds a rule as a region if all rules so far have one each, otherwise as a product.
    fn push(&mut self, rule: &Rule) -> Result<(), BuildError> {
        let Self { schema, expansion, plain, lowered, .. } = self;
        let this = Match { rule: rule.id, priority: rule.priority };
        if rule.family.is_some() && rule.family != schema.family() {
            lowered.unmatchable.push(this);
            return Ok(());
        }
        if expansion.regions_per_rule > 0 {
            plain.clear();
            let out = match &mut lowered.rules {
                LoweredRules::Regions(all) => &mut all.regions,
                LoweredRules::Products(_) => &mut *plain,
            };
            if lower_plain(schema, rule, out) {
                match &mut lowered.rules {
                    LoweredRules::Regions(all) => all.rules.push(this),
                    LoweredRules::Products(products) => products.push_region(this, plain.get(0)),
                }
                return self.take(rule, Ok(1), false);
            }
        }
        let choices = choices(schema, rule, expansion)?;
        let is_ternary = choices.iter().any(|boxes| !boxes.regions.ternary_words().is_empty());
        let count = product(schema, rule, expansion, &choices);
        match (&mut lowered.rules, &count) {
            (_, Ok(0)) => {
                lowered.unmatchable.push(this);
                return Ok(());
            }
            (LoweredRules::Regions(all), Ok(1)) => {
                cross(&each(&choices), &mut all.regions);
                all.rules.push(this);
            }
            _ => {
                let boxes: Vec<&Regions> = choices.iter().map(|boxes| &boxes.regions).collect();
                lowered.become_products(expansion).push(this, &boxes);
            }
        }
        self.take(rule, count, is_ternary)
    }

    /// Takes the room of the regions of a rule; if there is none, notes it in products.
    fn take(&mut self, rule: &Rule, count: Result<usize, BuildError>, is_ternary: bool) -> Result<(), BuildError> {
        let Self { schema, expansion, room, lowered, .. } = self;
        let mut take = |count| room.take(count, bytes_each(schema.words().len(), is_ternary), rule, expansion);
        let LoweredRules::Products(products) = &mut lowered.rules else { return count.and_then(take) };
        match count.map(&mut take) {
            Ok(Ok(())) => {}
            Ok(Err(excess)) => products.exceed(excess.with_rule(rule.id)),
            Err(refusal) => products.refuse(rule.id, refusal.with_rule(rule.id)),
        }
        let (most, boxes) = (expansion.most_per_set(), products.sets().iter().map(|sets| sets.boxes().len()).max());
        // One box more is that of all values.
        if products.len() > most || boxes > Some(most + 1) {
            return Err(expansion.set_too_large(rule.line));
        }
        Ok(())
    }
}

/// Lowers one rule, appends its regions to `out` and returns their number.
///
/// The number is 0 for a rule that no packet of this schema matches. A [`RuleSet`] with this schema must have accepted
/// the rule.
///
/// # Errors
/// If the rule exceeds a limit of `expansion`, or tests a live set, whose members [`lower`] knows from the rule set;
/// `out` is then unchanged.
pub fn lower_rule(
    schema: &Schema,
    rule: &RuleSpec,
    expansion: &ExpansionLimits,
    out: &mut Regions,
) -> Result<usize, BuildError> {
    if rule.family.is_some() && rule.family != schema.family() {
        return Ok(0);
    }
    if expansion.regions_per_rule > 0 && lower_plain(schema, rule, out) {
        return Ok(1);
    }
    if rule.tests_live_sets() {
        return Err(BuildError::refused("it tests a live set, whose members only its rule set has".to_owned()));
    }
    let choices = choices(schema, rule, expansion)?;
    let count = product(schema, rule, expansion, &choices)?;
    if count > 0 {
        out.reserve(count);
        cross(&each(&choices), out);
    }
    Ok(count)
}

/// Whether some packet of a schema matches a rule.
///
/// # Errors
/// If one condition exceeds a limit of `expansion`. All conditions together may have too many regions.
pub fn can_match(schema: &Schema, rule: &RuleSpec, expansion: &ExpansionLimits) -> Result<bool, BuildError> {
    let choices = choices(schema, rule, expansion)?;
    let counts = || schema.fields().iter().map(Field::name).zip(choices.iter().map(|boxes| boxes.regions.len()));
    let can_match = counts().all(|(_, count)| count > 0);
    match counts().find(|&(_, count)| can_match && count > expansion.most_per_rule()) {
        Some(alone) => Err(expansion.product_too_large(rule, std::iter::once(alone))),
        None => Ok(can_match),
    }
}

/// Counts the regions that [`lower_rule`] would append, without building them.
///
/// # Errors
/// As for [`lower_rule`].
pub fn count_regions(schema: &Schema, rule: &RuleSpec, expansion: &ExpansionLimits) -> Result<usize, BuildError> {
    product(schema, rule, expansion, &choices(schema, rule, expansion)?)
}

/// Returns the ranges of all boxes of each field.
fn each(choices: &[Boxes]) -> Vec<(&Regions, Range<usize>)> {
    choices.iter().map(|boxes| (&boxes.regions, 0..boxes.regions.len())).collect()
}

/// Returns the boxes of each field over its own words.
///
/// A field without a condition has one box that holds every value.
fn choices(schema: &Schema, rule: &RuleSpec, expansion: &ExpansionLimits) -> Result<Vec<Boxes>, BuildError> {
    let boxes = |(index, field): (usize, &Field)| match rule.conditions.on(index) {
        None => Ok(Boxes::everything(schema, index)),
        Some(condition) => match pieces(condition, field, schema, expansion) {
            Ok(pieces) => {
                let mut boxes = Boxes::split(schema, index, &pieces);
                if !condition.negated && condition.tests_for(schema.family()).any(|test| test == Test::Absent) {
                    boxes.push_absent(schema, index);
                }
                Ok(boxes)
            }
            Err(excess) => Err(expansion.condition_too_large(rule, field.name(), excess)),
        },
    };
    schema.fields().iter().enumerate().map(boxes).collect()
}

/// Counts the ways to choose a box for each field.
fn product(
    schema: &Schema,
    rule: &RuleSpec,
    expansion: &ExpansionLimits,
    choices: &[Boxes],
) -> Result<usize, BuildError> {
    let counts = choices.iter().map(|boxes| boxes.regions.len());
    let product = counts.clone().try_fold(1, usize::checked_mul);
    product.filter(|&n| n <= expansion.most_per_rule()).ok_or_else(|| {
        let fields = schema.fields().iter().map(Field::name).zip(counts);
        expansion.product_too_large(rule, fields)
    })
}

/// Lowers a rule whose conditions are each an interval that is one box.
///
/// Returns false and appends nothing for other rules. Most rules are plain, so that a set of a million is lowered
/// without an allocation for each.
fn lower_plain(schema: &Schema, rule: &RuleSpec, out: &mut Regions) -> bool {
    out.push_intervals(schema.words().iter().map(|word| (0, word.max)));
    let plain = rule.conditions.iter().all(|condition| {
        let field = &schema.fields()[condition.field];
        let mut tests = condition.tests_for(schema.family());
        let (Some(test), None, false) = (tests.next(), tests.next(), condition.negated) else { return false };
        let Some((lo, hi)) = interval(test, field) else { return false };
        // Below the first word where the ends differ, the low end must be 0 and the high end full.
        let mut open = false;
        schema.words_of(condition.field).all(|index| {
            let word = &schema.words()[index];
            let (low, high) = (word.part(lo), word.part(hi));
            let (to_low, to_high) = out.last_interval(index);
            (*to_low, *to_high) = (low, high);
            let fits = !open || (low, high) == (0, word.bits);
            open |= low != high;
            fits
        })
    });
    if !plain {
        out.pop_intervals();
    }
    plain
}

/// Part of a field's values: the values of an interval that lie in a cube, which is a value under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    lo: u128,
    hi: u128,
    cube: Cube,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cube {
    value: u128,
    mask: u128,
}

const EVERY: Cube = Cube { value: 0, mask: 0 };

/// Returns the values that satisfy a condition, as disjoint pieces.
fn pieces(
    condition: ConditionRef<'_>,
    field: &Field,
    schema: &Schema,
    expansion: &ExpansionLimits,
) -> Result<Vec<Piece>, Excess> {
    let (mut intervals, mut cubes) = (Vec::new(), Vec::new());
    let mut any = false;
    for test in condition.tests_for(schema.family()) {
        any = true;
        match (interval(test, field), test) {
            (Some(interval), _) => intervals.push(interval),
            (None, Test::Mask { value, mask }) => cubes.push(Cube { value, mask }),
            (None, _) => {}
        }
    }
    if !any {
        return Ok(Vec::new());
    }
    let intervals = unite(intervals);
    let gaps = complement(&intervals, field.max());
    let mut left = Allowance { pieces: expansion.regions_per_rule, comparisons: expansion.mask_comparisons };
    // Without cubes: the intervals or, negated, the gaps between them. With cubes: the intervals, then the parts of the
    // cubes in the gaps; negated, the parts of the gaps that no cube holds.
    let mut out = Vec::new();
    if !condition.negated {
        let parts = prefixes_if_near(&intervals).unwrap_or(intervals);
        out.extend(parts.into_iter().map(|(lo, hi)| Piece { lo, hi, cube: EVERY }));
    }
    let parts = match condition.negated {
        false => disjoint(cubes, &mut left)?,
        true => cubes.iter().try_fold(vec![EVERY], |rest, cube| subtract(&rest, cube, field.max(), &mut left))?,
    };
    let has_cubes = parts != [EVERY];
    for &(lo, hi) in &gaps {
        if has_cubes {
            left.compare(parts.len())?;
        }
        out.extend(parts.iter().map(|&cube| Piece { lo, hi, cube }).filter(Piece::holds_something));
        left.check(out.len())?;
    }
    Ok(out)
}

/// Number of pieces that a condition may have, and of comparisons left to find them.
struct Allowance {
    pieces: usize,
    comparisons: usize,
}

impl Allowance {
    fn compare(&mut self, times: usize) -> Result<(), Excess> {
        self.comparisons = self.comparisons.checked_sub(times).ok_or(Excess::Comparisons)?;
        Ok(())
    }

    fn check(&self, pieces: usize) -> Result<(), Excess> {
        if pieces > self.pieces { Err(Excess::Pieces(pieces)) } else { Ok(()) }
    }
}

/// Returns the union of cubes as cubes that do not overlap.
fn disjoint(mut cubes: Vec<Cube>, left: &mut Allowance) -> Result<Vec<Cube>, Excess> {
    // Wide cubes come first, so that the ones inside them vanish. A list of values under the same mask needs no
    // comparison beyond the sort, because different cubes of one mask do not overlap.
    cubes.sort_unstable_by_key(|cube| (cube.mask.count_ones(), cube.mask, cube.value));
    cubes.dedup();
    let mut out = Vec::with_capacity(cubes.len());
    let mut wider = 0;
    for (index, &cube) in cubes.iter().enumerate() {
        if index > 0 && cubes[index - 1].mask != cube.mask {
            wider = index;
        }
        let all = u128::MAX;
        let rest = cubes[..wider].iter().try_fold(vec![cube], |rest, earlier| subtract(&rest, earlier, all, left))?;
        out.extend(rest);
        left.check(out.len())?;
    }
    Ok(out)
}

/// Returns the parts of disjoint cubes outside `taken`, as disjoint cubes.
///
/// For example, two free bits without the value `10` are `0?` and `11`.
fn subtract(from: &[Cube], taken: &Cube, max: u128, left: &mut Allowance) -> Result<Vec<Cube>, Excess> {
    left.compare(from.len())?;
    let mut out = Vec::with_capacity(from.len());
    for &cube in from {
        if (cube.value ^ taken.value) & cube.mask & taken.mask != 0 {
            out.push(cube); // They have no value in common.
            continue;
        }
        // Bit by bit: the values that agree with `taken` so far and differ in this bit.
        let mut rest = cube;
        let mut bits = taken.mask & !cube.mask & max;
        while bits != 0 {
            let bit = 1u128 << (127 - bits.leading_zeros());
            bits &= !bit;
            out.push(Cube { value: rest.value | (!taken.value & bit), mask: rest.mask | bit });
            rest = Cube { value: rest.value | (taken.value & bit), mask: rest.mask | bit };
        }
        left.check(out.len())?;
    }
    Ok(out)
}

impl Piece {
    fn holds_something(&self) -> bool {
        self.cube.first_from(self.lo).is_some_and(|first| first <= self.hi)
    }
}

impl Cube {
    /// Returns the smallest value of this cube that is at least `from`.
    ///
    /// For example, the smallest value of `1?0` that is at least 5 is 6.
    fn first_from(&self, from: u128) -> Option<u128> {
        let differ = (from ^ self.value) & self.mask;
        if differ == 0 {
            return Some(from);
        }
        let top = 1u128 << (127 - differ.leading_zeros());
        // Free bits below the raised one fall to 0, and compared bits to the cube's value.
        let raise = |bit: u128| (from & !(bit - 1) & !self.mask) | bit & !self.mask | self.value;
        if self.value & top != 0 {
            return Some(raise(top));
        }
        // `from` is above the cube at `top`: the lowest free bit above it that is still 0 must rise.
        let free = !self.mask & !from & !(top | (top - 1));
        (free != 0).then(|| raise(1 << free.trailing_zeros()))
    }
}

/// Pieces of one field, as boxes over the words of that field alone.
struct Boxes {
    regions: Regions,
}

impl Boxes {
    fn everything(schema: &Schema, field: usize) -> Self {
        let words = &schema.words()[schema.words_of(field)];
        let mut regions = Regions::new(words.len());
        let hi: Vec<u32> = words.iter().map(|word| word.max).collect();
        regions.push(Region { lo: &vec![0; words.len()], hi: &hi, ternary: None });
        Self { regions }
    }

    /// Adds the box of packets that lack the field: the top word has its value for absent.
    fn push_absent(&mut self, schema: &Schema, field: usize) {
        let words = &schema.words()[schema.words_of(field)];
        let lo: Vec<u32> = words.iter().map(|word| word.absent.unwrap_or(0)).collect();
        let hi: Vec<u32> = words.iter().map(|word| word.absent.unwrap_or(word.bits)).collect();
        self.regions.push(Region { lo: &lo, hi: &hi, ternary: None });
    }

    fn split(schema: &Schema, field: usize, pieces: &[Piece]) -> Self {
        let words = &schema.words()[schema.words_of(field)];
        let mut regions = Regions::new(words.len());
        for piece in pieces {
            if let ([word], true) = (words, piece.cube == EVERY) {
                regions.push_intervals(std::iter::once((word.part(piece.lo), word.part(piece.hi))));
                continue;
            }
            // The absent value of a 128-bit field stands at bit 128, which u128 does not hold: it is in no piece.
            let part = |v: u128| -> Vec<u32> { words.iter().map(|word| word.part(v)).collect() };
            let (value, mask) = (part(piece.cube.value), part(piece.cube.mask));
            let full: Vec<u32> = words.iter().map(|word| word.bits).collect();
            split_interval(&part(piece.lo), &part(piece.hi), &full, &mut |lo, hi| {
                push_box(&mut regions, lo, hi, &value, &mask);
            });
        }
        Self { regions }
    }
}

/// Splits the interval between two rows of `k` words into at most `2k - 1` boxes.
///
/// A row is read as one number. For example, with words of 8 bits, `01 F0` to `03 0F` is three boxes: `01 F0-FF`,
/// `02 00-FF` and `03 00-0F`.
fn split_interval(lo: &[u32], hi: &[u32], full: &[u32], emit: &mut dyn FnMut(&[u32], &[u32])) {
    // Words that agree stay as they are; the interval opens at the first that differs.
    let Some(open) = lo.iter().zip(hi).position(|(l, h)| l != h) else { return emit(lo, hi) };
    let key_words = lo.len();
    let wide = |from: &[u32], at: usize, low: u32, high: u32, emit: &mut dyn FnMut(&[u32], &[u32])| {
        let (mut l, mut h) = (from.to_vec(), from.to_vec());
        (l[at], h[at]) = (low, high);
        l[at + 1..].fill(0);
        h[at + 1..].copy_from_slice(&full[at + 1..]);
        emit(&l, &h);
    };
    // An end needs no box of its own if all its words behind `open` are 0 (low end) or full (high end).
    let low_end = (open + 1..key_words).rev().find(|&word| lo[word] != 0);
    let high_end = (open + 1..key_words).rev().find(|&word| hi[word] != full[word]);
    if let Some(last) = low_end {
        for word in (open + 1..=last).rev() {
            let start = if word == last { lo[word] } else { lo[word].wrapping_add(1) };
            if word == last || lo[word] < full[word] {
                wide(lo, word, start, full[word], emit);
            }
        }
    }
    let (from, to) = (lo[open] + u32::from(low_end.is_some()), hi[open] - u32::from(high_end.is_some()));
    if from <= to {
        wide(lo, open, from, to, emit);
    }
    if let Some(last) = high_end {
        for word in open + 1..=last {
            if word == last {
                wide(hi, word, 0, hi[word], emit);
            } else if hi[word] > 0 {
                wide(hi, word, 0, hi[word] - 1, emit);
            }
        }
    }
}

/// Adds the part of a box that lies in a cube, if there is any.
///
/// The intervals shrink to the hull. A word whose mask says no more than its interval is not ternary.
fn push_box(out: &mut Regions, lo: &[u32], hi: &[u32], value: &[u32], mask: &[u32]) {
    let key_words = lo.len();
    let (mut l, mut h, mut v, mut m) = (lo.to_vec(), hi.to_vec(), value.to_vec(), mask.to_vec());
    for word in 0..key_words {
        let cube = Cube { value: u128::from(v[word]), mask: u128::from(m[word]) };
        let flipped = Cube { value: u128::from(!v[word] & m[word]), mask: cube.mask };
        let Some(first) = cube.first_from(u128::from(l[word])).filter(|&x| x <= u128::from(h[word])) else { return };
        // The largest value of the cube up to `hi` is the mirror of the smallest from the mirrored `hi` on.
        let last = flipped.first_from(u128::from(!h[word])).map(|x| !(x as u32));
        (l[word], h[word]) = (first as u32, last.unwrap_or(first as u32));
        // One value, or the mask of a prefix: the interval says the same.
        let free = !m[word];
        if l[word] == h[word] || free & free.wrapping_add(1) == 0 {
            (v[word], m[word]) = (0, 0);
        }
    }
    let ternary = m.iter().any(|&mask| mask != 0).then_some((&v[..], &m[..]));
    out.push(Region { lo: &l, hi: &h, ternary });
}
