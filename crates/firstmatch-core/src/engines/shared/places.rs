//! Places of the regions of each rule.

use super::chunked::Chunked;

/// Places of the regions of each rule, by slot.
///
/// The first place of a rule stands at its slot, further places in a linked list in `more`. The free items of `more`
/// are also a linked list.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    first: Chunked<Place>,
    more: Chunked<Place>,
    /// Index of the first free item of `more`.
    free: u32,
}

/// Place of one region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Index of the region in its table, partition or overflow list.
    ///
    /// For a rule without regions: the reuse count of its id.
    pub(crate) at: u32,
    /// Number of the table or partition, or one of the three constants below.
    pub(crate) part: u32,
    /// Index in `more` of the next place of the rule.
    next: u32,
}

/// Value of `part`: no rule has this slot.
pub(crate) const VACANT: u32 = u32::MAX;
/// Value of `part`: the rule of this slot has no region here.
pub(crate) const UNMATCHABLE: u32 = u32::MAX - 1;
/// Value of `part`: the region is in the overflow list.
pub(crate) const OVERFLOW: u32 = u32::MAX - 2;
const END: u32 = u32::MAX;

const NO_PLACE: Place = Place { at: 0, part: VACANT, next: END };

impl Places {
    pub(crate) fn new() -> Self {
        Self { first: Chunked::default(), more: Chunked::default(), free: END }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.first.bytes() + self.more.bytes()
    }

    /// Returns an upper bound of the bytes that adding one place of a rule takes.
    ///
    /// `regions` is the number of the rule's regions including this one; the first needs no item of `more`.
    pub(crate) fn growth(&self, slot: usize, regions: usize) -> usize {
        self.first.growth_at(slot) + if regions > 1 { self.more.growth(self.more.len() + 1) } else { 0 }
    }

    /// Returns an upper bound of the bytes that adding `regions` places of a rule takes, if it has none yet.
    pub(crate) fn growth_by(&self, slot: usize, regions: usize) -> usize {
        self.first.growth_at(slot) + self.more.growth(self.more.len() + regions.saturating_sub(1))
    }

    /// Number of slots: one more than the largest slot so far.
    pub(crate) fn slots(&self) -> usize {
        self.first.len()
    }

    pub(crate) fn get(&self, slot: usize) -> Place {
        self.first.get(slot).copied().unwrap_or(NO_PLACE)
    }

    /// Returns all places of a rule.
    pub(crate) fn of(&self, slot: usize) -> impl Iterator<Item = Place> + '_ {
        let mut next = Some(self.get(slot)).filter(|place| !matches!(place.part, VACANT | UNMATCHABLE));
        std::iter::from_fn(move || {
            let place = next?;
            next = self.more.get(place.next as usize).copied();
            Some(place)
        })
    }

    pub(crate) fn is_vacant(&self, slot: usize) -> bool {
        self.get(slot).part == VACANT
    }

    pub(crate) fn add(&mut self, slot: usize, at: u32, part: u32) {
        self.first.hold(slot, NO_PLACE);
        let old = self.get(slot);
        let next = match (old.part, self.more.get_mut(self.free as usize)) {
            (VACANT | UNMATCHABLE, _) => END,
            (_, Some(free)) => {
                let next = std::mem::replace(free, old).next;
                std::mem::replace(&mut self.free, next)
            }
            (_, None) => self.more.push(old, NO_PLACE) as u32,
        };
        if let Some(first) = self.first.get_mut(slot) {
            *first = Place { at, part, next };
        }
    }

    /// Removes one place of a rule and returns it; `None` if the rule has no more.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Place> {
        let first = self.first.get_mut(slot).filter(|place| place.part != VACANT)?;
        let place = std::mem::replace(first, NO_PLACE);
        if let Some(next) = self.more.get_mut(place.next as usize) {
            *first = *next;
            next.next = std::mem::replace(&mut self.free, place.next);
        }
        Some(place)
    }

    /// Gives tables or partitions new numbers: number `n` becomes `numbers[n]`.
    pub(crate) fn renumber(&mut self, numbers: &[u32]) {
        for place in self.first.iter_mut().chain(self.more.iter_mut()) {
            place.part = numbers.get(place.part as usize).copied().unwrap_or(place.part);
        }
    }

    /// Records that a region of this rule has moved; `from` and `to` are index and part.
    pub(crate) fn moved(&mut self, slot: usize, from: (u32, u32), to: (u32, u32)) {
        let is_it = |place: &&mut Place| (place.at, place.part) == from;
        let mut next = self.get(slot).next;
        if let Some(place) = self.first.get_mut(slot).filter(is_it) {
            (place.at, place.part) = to;
            return;
        }
        while let Some(place) = self.more.get_mut(next as usize) {
            next = place.next;
            if is_it(&place) {
                (place.at, place.part) = to;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engines::shared::wide::Random;

    /// Only the place that agrees both in the index and in the part moves.
    #[test]
    fn the_very_place_moves() {
        let all = [(3, 7), (3, 8), (4, 7), (4, 8)];
        for from in all {
            let mut places = Places::new();
            all.into_iter().for_each(|(at, part)| places.add(2, at, part));
            places.moved(2, from, (30, 70));
            let moved = |of: (u32, u32)| if of == from { (30, 70) } else { of };
            let given: Vec<_> = std::iter::from_fn(|| places.take(2)).map(|place| (place.at, place.part)).collect();
            // The last is the first.
            assert_eq!(given, all.into_iter().rev().map(moved).collect::<Vec<_>>(), "{from:?}");
        }
    }

    /// Places of rules are added, moved and removed in any order. Each rule gives back exactly its own places, freed
    /// memory is reused, and no change takes more than predicted.
    #[test]
    fn rules_have_their_places() {
        let (mut places, mut random) = (Places::new(), Random(2));
        let mut model: BTreeMap<usize, Vec<(u32, u32)>> = BTreeMap::new();
        let (mut next, mut most, mut slots) = (0, 0, 0);
        for step in 0..6000 {
            let slot = random.below(40) * if step < 3000 { 1 } else { 9 };
            let of = model.entry(slot).or_default();
            match random.below(if step / 500 % 2 == 0 { 6 } else { 9 }) {
                0..4 if of.len() < 20 => {
                    let before = (places.bytes(), places.growth(slot, of.len() + 1));
                    next += 1;
                    places.add(slot, next, next % 5);
                    of.push((next, next % 5));
                    slots = slots.max(slot + 1);
                    assert!(places.bytes() <= before.0 + before.1, "{} bytes after {before:?}", places.bytes());
                }
                4 if !of.is_empty() => {
                    let at = random.below(of.len());
                    next += 1;
                    places.moved(slot, of[at], (next, 7));
                    of[at] = (next, 7);
                }
                5 if !of.is_empty() => {
                    // One that is not there moves nothing.
                    places.moved(slot, (0, 99), (1, 1));
                }
                _ => {
                    let bytes = places.bytes();
                    let taken = places.take(slot).map(|place| (place.at, place.part));
                    assert_eq!(taken.is_some(), !of.is_empty());
                    of.retain(|of| Some(*of) != taken);
                    assert_eq!(places.bytes(), bytes, "to give back takes nothing");
                }
            }
            let left = |slot: usize| model.get(&slot).map_or(0, Vec::len);
            assert!((0..400).all(|slot| places.is_vacant(slot) == (left(slot) == 0)), "step {step}");
            assert_eq!(places.slots(), slots);
            // The first of a rule stands at its slot.
            most = most.max(model.values().map(|of| of.len().saturating_sub(1)).sum::<usize>());
            assert!(places.more.len() <= most, "{} further places, {most} at a time", places.more.len());
        }
        places.renumber(&[10, 11, 12]);
        for (slot, mut of) in model {
            let renumbered = |part: u32| if part < 3 { part + 10 } else { part };
            let mut given: Vec<_> =
                std::iter::from_fn(|| places.take(slot)).map(|place| (place.at, place.part)).collect();
            of.iter_mut().for_each(|(_, part)| *part = renumbered(*part));
            given.sort_unstable();
            of.sort_unstable();
            assert_eq!(given, of, "slot {slot}");
        }
    }
}
