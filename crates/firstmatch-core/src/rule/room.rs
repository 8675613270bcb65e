//! Priorities for rules that are put at a place in the order, and room for them.
//!
//! # Idea
//! A rule between two others gets the midpoint of their priorities. Rules that are put one after another at the same
//! place would halve the gap each time: the 33rd between two lines of a file found no room. So the rules that were put
//! last tell a run: from the third on, each takes 1/1,024 of the gap and leaves the rest. For example, 10,000 rules put
//! before the same rule, one by one, find room.
//!
//! Other patterns may still use a gap up. Then the rules around it move apart: the smallest aligned window of
//! priorities is spread evenly that holds few rules for its size. This is list labelling (Bender et al., "Two Simplified
//! Algorithms for Maintaining Order in a List", 2002): on average an insertion moves O(log rules) rules.

use super::id::{Priority, RuleId};
use super::set::RuleSet;

/// Part of a gap that a rule of a run takes: one of this many.
const RUN: u64 = 1024;
/// Least distance of rules that were moved apart.
const LEAST_STEP: u128 = 256;

/// Place of a new rule between two neighbours; `None` stands for an end of the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) low: Option<(RuleId, Priority)>,
    pub(crate) high: Option<(RuleId, Priority)>,
}

impl Place {
    /// Place of the only rule.
    pub(crate) const NOWHERE: Self = Self { low: None, high: None };

    /// Returns a free priority at this place; `None` if there is none.
    ///
    /// `last` is the rule that was put at a place last.
    pub(crate) fn free(self, last: Option<Placed>) -> Option<Priority> {
        let line = Priority::of_line(1).0;
        let end = match (self.low, self.high) {
            (None, None) => return Some(Priority(line)),
            (Some((_, low)), None) => match low.0.checked_add(line) {
                Some(next) => return Some(Priority(next)),
                None => u64::MAX,
            },
            (_, Some((_, high))) => high.0,
        };
        let start = self.low.map_or(0, |(_, low)| low.0);
        let gap = end.checked_sub(start).filter(|&gap| gap > 1)?;
        let step = (gap / RUN).max(1);
        let beside = self.beside(last);
        Some(Priority(match beside.filter(|_| last.is_some_and(|last| last.beside == beside)) {
            Some(End::Low) => start + step,
            Some(End::High) => end - step,
            // No rule is on the other side.
            None if self.low.is_none() => end - step,
            None => start + gap / 2,
        }))
    }

    /// Returns the neighbour that is the rule put last.
    fn beside(self, last: Option<Placed>) -> Option<End> {
        let is_last = |of: Option<(RuleId, Priority)>| of.zip(last).is_some_and(|((id, _), last)| id == last.id);
        if is_last(self.low) {
            return Some(End::Low);
        }
        is_last(self.high).then_some(End::High)
    }

    /// Notes that rule `id` was put here, behind `last`.
    pub(crate) fn placed(self, id: RuleId, last: Option<Placed>) -> Placed {
        Placed { id, beside: self.beside(last) }
    }
}

/// Neighbour of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Low,
    High,
}

/// Rule that was put at a place, and its neighbour that was put before it.
///
/// Rules of a run have the same neighbour: each is behind the one before, or each before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    id: RuleId,
    beside: Option<End>,
}

/// Priorities that make room at a place.
#[derive(Debug)]
pub(crate) struct Room {
    /// Rules that move, with their new priorities.
    pub(crate) moves: Vec<(RuleId, Priority)>,
    /// Free priority at the place, once they have moved.
    pub(crate) free: Priority,
}

impl RuleSet {
    /// Returns the place directly before a priority that a live rule has.
    pub(crate) fn place_before(&self, next: Priority) -> Place {
        let of = |rule: &super::Rule| (rule.id, rule.priority);
        Place { low: self.before(next).map(of), high: self.at(next).map(of) }
    }

    /// Returns the place directly behind a priority that a live rule has.
    pub(crate) fn place_after(&self, previous: Priority) -> Place {
        let of = |rule: &super::Rule| (rule.id, rule.priority);
        Place { low: self.at(previous).map(of), high: self.after(previous).map(of) }
    }

    /// Finds room at a place without a free priority.
    ///
    /// A window of 2^`i` priorities may hold 2^(`i` · `bits` / 64) rules, where 2^`bits` is at least twice the number of
    /// all rules. So the window of all priorities always has room.
    pub(crate) fn room(&self, place: Place) -> Room {
        let bits = u64::from(usize::BITS - (self.len() + 1).leading_zeros()) + 1;
        let near = place.low.or(place.high).map_or(0, |(_, priority)| priority.0);
        let mut i = 1;
        let (start, step) = loop {
            let (size, start) = (1u128 << i, if i == 64 { 0 } else { near >> i << i });
            let count = self.ids_within(start, size).count() as u128;
            let step = size / (count + 2);
            let has_room = count < 1 << (i * bits / 64) && step >= LEAST_STEP;
            if has_room || i == 64 {
                break (start, step);
            }
            i += 1;
        };
        let mut next = u128::from(start);
        let mut take = || {
            next += step;
            // The window ends within the numbers of 64 bits.
            Priority(next as u64)
        };
        let (mut moves, mut free) = (Vec::new(), None);
        for (id, priority) in self.ids_within(start, 1 << i) {
            if free.is_none() && place.low.is_none_or(|(_, low)| priority > low) {
                free = Some(take());
            }
            let to = take();
            moves.extend((to != priority).then_some((id, to)));
        }
        Room { moves, free: free.unwrap_or_else(take) }
    }

    /// Returns the rules of `size` priorities from `start` on.
    fn ids_within(&self, start: u64, size: u128) -> impl Iterator<Item = (RuleId, Priority)> {
        let last = (u128::from(start) + (size - 1)) as u64;
        self.within(Priority(start), Priority(last)).map(|rule| (rule.id, rule.priority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Action, Conditions, RuleSpec};
    use crate::schema::Schema;

    fn put(set: &mut RuleSet, place: Place, last: Option<Placed>, moved: &mut usize) -> RuleId {
        let priority = place.free(last).unwrap_or_else(|| {
            let room = set.room(place);
            *moved += room.moves.len();
            let old = set.move_to(&room.moves);
            assert_eq!(old.len(), room.moves.len());
            room.free
        });
        let (action, conditions) = (Action::Permit, Conditions::default());
        set.insert(RuleSpec { priority, action, conditions, family: None, line: None, value: 0 }).expect("it is free")
    }

    /// Rules stay in the order in which they are put, whatever the pattern, and few of them move.
    #[test]
    fn rules_are_put_where_they_belong() {
        const COUNT: usize = 10_000;
        let mut state = 1u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) as usize % n
        };
        for (pattern, most_moved) in
            [("before", 0), ("after", 0), ("zigzag", 5), ("random", 1), ("ends", 0), ("few", 5)]
        {
            let mut set = RuleSet::new(Schema::ipv4());
            let mut moved = 0;
            let mut order: Vec<RuleId> = (0..2)
                .map(|_| {
                    let place = set.iter().next_back().map_or(Place::NOWHERE, |rule| set.place_after(rule.priority));
                    put(&mut set, place, None, &mut moved)
                })
                .collect();
            let mut last = None;
            for step in 0..COUNT {
                // Index of the new rule.
                let at = match pattern {
                    "before" => order.len() - 1,
                    "after" => 1,
                    "zigzag" => 1 + step.div_ceil(2),
                    "random" => below(order.len() + 1),
                    "ends" => step % 2 * order.len(),
                    // Between the first few rules.
                    _ => below(order.len().min(5) + 1),
                };
                let place = match order.get(at) {
                    Some(&next) => set.place_before(set.get(next).expect("it is live").priority),
                    None => set.place_after(set.get(order[at - 1]).expect("it is live").priority),
                };
                let id = put(&mut set, place, last, &mut moved);
                order.insert(at, id);
                last = Some(place.placed(id, last));
            }
            assert!(set.iter().map(|rule| rule.id).eq(order), "{pattern}");
            assert!(moved <= most_moved * COUNT, "{pattern}: {moved} moved");
        }
    }

    /// Room is found between neighbouring numbers, also at both ends of all priorities.
    #[test]
    fn there_is_room_everywhere() {
        for priorities in [vec![0, 1, 2], vec![u64::MAX - 2, u64::MAX - 1, u64::MAX], vec![0, u64::MAX], vec![7]] {
            let mut set = RuleSet::new(Schema::ipv4());
            let (action, conditions) = (Action::Permit, Conditions::default());
            let spec = |&priority: &u64| RuleSpec {
                priority: Priority(priority),
                action,
                conditions: conditions.clone(),
                family: None,
                line: None,
                value: 0,
            };
            let mut order: Vec<RuleId> =
                priorities.iter().map(|priority| set.insert(spec(priority)).expect("it is free")).collect();
            for round in 0..300 {
                for at in [0, order.len() / 2, order.len()] {
                    let place = match order.get(at) {
                        Some(&next) => set.place_before(set.get(next).expect("it is live").priority),
                        None => set.place_after(set.get(order[at - 1]).expect("it is live").priority),
                    };
                    // Without `last`, as if other places were used between.
                    let id = put(&mut set, place, None, &mut 0);
                    order.insert(at, id);
                }
                assert!(set.iter().map(|rule| rule.id).eq(order.iter().copied()), "{priorities:?}, round {round}");
            }
        }
    }
}
