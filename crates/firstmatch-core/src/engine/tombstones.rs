//! Tombstones: rules marked as removed in an engine that stays as it was built.

use std::ops::Range;

use super::observer::Observer;
use crate::rule::{Lowered, RuleId};

/// Set of the live rules of an engine.
///
/// Lookups are compiled for each implementation, so that they test no tombstones if no rule is dead. They also report
/// their steps to it.
pub(crate) trait LiveRules: Observer {
    /// Whether all rules are live.
    const ALL: bool;

    /// Whether the rule at `place` is live.
    fn is_live(self, place: usize) -> bool;

    /// Returns the live places among `8 * block..8 * block + 8`, as bits from the lowest.
    fn of_eight(self, block: usize) -> u32;
}

/// Set of all rules: none has a tombstone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct All;

impl Observer for All {}

impl LiveRules for All {
    const ALL: bool = true;

    #[inline(always)]
    fn is_live(self, _place: usize) -> bool {
        true
    }

    #[inline(always)]
    fn of_eight(self, _block: usize) -> u32 {
        0xFF
    }
}

/// Tombstones of an engine: a bit for each place, and one for each slot of its rules.
///
/// The bits by slot are needed because a match has the slot of its rule, but not the place.
#[derive(Clone, Debug)]
pub(crate) struct Tombstones {
    words: Box<[u64]>,
    slots: Box<[u64]>,
    places: usize,
    rules: usize,
}

impl Tombstones {
    /// Builds tombstones for this many places and slots, none of them set.
    pub(crate) fn none(places: usize, slots: usize) -> Self {
        let words = |bits: usize| vec![0; bits.div_ceil(64)].into();
        Self { words: words(places), slots: words(slots), places, rules: 0 }
    }

    /// Bytes that tombstones for this many places and slots take.
    pub(crate) fn bytes_for(places: usize, slots: usize) -> usize {
        (places.div_ceil(64) + slots.div_ceil(64)) * size_of::<u64>()
    }

    /// Number of dead rules.
    pub(crate) fn rules(&self) -> usize {
        self.rules
    }

    /// Sets the tombstone of `rule`, which must be live and have these places.
    pub(crate) fn mark(&mut self, rule: RuleId, places: Range<usize>) {
        debug_assert!(!places.is_empty() && places.end <= self.places && places.clone().all(|p| self.is_live(p)));
        self.rules += 1;
        places.for_each(|place| self.words[place / 64] |= 1 << (place % 64));
        self.slots[rule.slot() / 64] |= 1 << (rule.slot() % 64);
    }

    /// Clears the tombstone of `rule`, which must be dead and have these places.
    pub(crate) fn unmark(&mut self, rule: RuleId, places: Range<usize>) {
        debug_assert!(!places.is_empty() && places.end <= self.places && !places.clone().any(|p| self.is_live(p)));
        self.rules -= 1;
        places.for_each(|place| self.words[place / 64] &= !(1 << (place % 64)));
        self.slots[rule.slot() / 64] &= !(1 << (rule.slot() % 64));
    }

    /// Whether `rule`, a rule of the engine, is dead.
    #[inline(always)]
    pub(crate) fn is_marked(&self, rule: RuleId) -> bool {
        let slot = rule.slot();
        self.slots.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 != 0)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.words[..]) + size_of_val(&self.slots[..])
    }
}

impl Observer for &Tombstones {}

impl LiveRules for &Tombstones {
    const ALL: bool = false;

    #[inline(always)]
    fn is_live(self, place: usize) -> bool {
        self.words.get(place / 64).is_none_or(|word| word >> (place % 64) & 1 == 0)
    }

    #[inline(always)]
    fn of_eight(self, block: usize) -> u32 {
        let word = self.words.get(block / 8).copied().unwrap_or(0);
        // Places past the last have no rule.
        let here = self.places.saturating_sub(block * 8).min(8);
        !(word >> (block % 8 * 8)) as u32 & ((1 << here) - 1)
    }
}

/// Returns one more than the largest slot of the rules, 0 for none.
pub(crate) fn slots(set: &Lowered) -> usize {
    let rules = set.kept_by_rule().map(|(rule, _)| rule).chain(set.unmatchable().iter().copied());
    rules.map(|rule| rule.rule.slot() + 1).max().unwrap_or(0)
}

/// Returns the maximum bytes of tombstones for a base over `set`.
///
/// There is one bit for each slot, and one for each region or slot, whichever are more. If a limit refuses the
/// regions, products of sets of words count instead.
pub(crate) fn marks_bytes(set: &Lowered) -> usize {
    let slots = slots(set);
    let places = if set.refused().is_some() { set.word_products().0 } else { set.region_count() };
    Tombstones::bytes_for(places.max(slots), slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mark sets the bits of all places and of the slot of its rule, and no others. Unmarking clears them again.
    #[test]
    fn marks_are_of_one_rule() {
        let (places, slots) = (203, 150);
        assert_eq!(Tombstones::none(places, slots).bytes(), Tombstones::bytes_for(places, slots));
        assert_eq!(Tombstones::bytes_for(64, 65), 3 * 8);
        let mut dead = Tombstones::none(places, slots);
        let rules = [(0u32, 0..1), (63, 60..70), (64, 1..3), (65, 127..129), (149, 195..203), (1, 70..71)];
        let mut marked: Vec<usize> = Vec::new();
        let check = |dead: &Tombstones, marked: &[usize]| {
            assert_eq!(dead.rules(), marked.len());
            let is_marked = |slot: u32| marked.iter().any(|&at| rules[at].0 == slot);
            // Slots beyond the first `slots` belong to rules that came later, which are not marked.
            assert!((0..300u32).all(|slot| dead.is_marked(RuleId::new(slot, 3)) == is_marked(slot)), "{marked:?}");
            let is_dead = |place: usize| marked.iter().any(|&at| rules[at].1.contains(&place));
            assert!((0..300).all(|place| dead.is_live(place) != is_dead(place)), "{marked:?}");
            for block in 0..40 {
                let bit = |at: usize| 8 * block + at < places && !is_dead(8 * block + at);
                let want = (0..8).fold(0, |eight, at| eight | u32::from(bit(at)) << at);
                assert_eq!(dead.of_eight(block), want, "block {block}, {marked:?}");
            }
        };
        check(&dead, &marked);
        for round in 0..3 {
            for at in 0..rules.len() {
                let at = (at * 5 + round) % rules.len();
                let (slot, places) = rules[at].clone();
                dead.mark(RuleId::new(slot, 7), places);
                marked.push(at);
                check(&dead, &marked);
            }
            while !marked.is_empty() {
                let (slot, places) = rules[marked.remove(round % marked.len())].clone();
                dead.unmark(RuleId::new(slot, 7), places);
                check(&dead, &marked);
            }
        }
    }
}
