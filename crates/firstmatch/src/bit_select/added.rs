//! Rules that have come since the trees were built.

use super::Parting;
use crate::engine::Match;
use crate::rule::{Priority, Region, Regions, RuleId};
use crate::simd::secrets;

/// The most rules between two neighbours of those that were there before.
const MOST_BETWEEN: usize = 32;
/// No row.
const NO_ROW: u32 = u32::MAX;

/// Rules by rank, and their regions.
#[derive(Clone, Debug)]
pub(super) struct Added {
    /// By the keyed hash of how many of the old rules come before; those with the same number stand side by side. A power
    /// of two, at most half full, or none.
    places: Vec<Option<Rule>>,
    key: u64,
    rules: usize,
    regions: usize,
    rows: Rows,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) rank: u32,
    pub(super) rule: Match,
    /// The row of its first region.
    first: u32,
}

impl Added {
    pub(super) fn new(lanes: usize) -> Self {
        Self { places: Vec::new(), key: 0, rules: 0, regions: 0, rows: Rows::new(lanes) }
    }

    pub(super) fn rules(&self) -> usize {
        self.rules
    }

    pub(super) fn regions(&self) -> usize {
        self.regions
    }

    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Option<Rule>>() + self.rows.words.capacity() * size_of::<u32>()
    }

    fn home(&self, before: u32) -> usize {
        let hash = (u64::from(before) + 1).wrapping_mul(self.key);
        (hash >> 32) as usize & self.places.len().wrapping_sub(1)
    }

    /// The rules of one cluster, from where those with a number may begin to the first empty place.
    #[inline]
    fn cluster(&self, before: u32) -> impl Iterator<Item = (usize, &Rule)> {
        let (mask, mut at) = (self.places.len().wrapping_sub(1), self.home(before));
        std::iter::from_fn(move || {
            let place = at & mask;
            at += 1;
            self.places.get(place)?.as_ref().map(|rule| (place, rule))
        })
    }

    /// The rule of a rank.
    #[inline]
    pub(super) fn of(&self, rank: u32, parting: Parting) -> Option<Match> {
        self.cluster(parting.before(rank)).find(|(_, of)| of.rank == rank).map(|(_, of)| of.rule)
    }

    /// The rank of a rule before which so many of the old ones come.
    pub(super) fn rank_of(&self, rule: RuleId, before: u32) -> Option<u32> {
        self.cluster(before).find(|(_, of)| of.rule.rule == rule).map(|(_, of)| of.rank)
    }

    /// A rank for one more rule there, if there is room.
    pub(super) fn free_rank(&self, before: u32, priority: Priority, parting: Parting) -> Option<u32> {
        let (mut lo, mut hi) = (parting.rank(before), parting.rank(before + 1));
        let mut between = 0;
        for (_, of) in self.cluster(before).filter(|(_, of)| parting.before(of.rank) == before) {
            between += 1;
            if of.rule.priority < priority { lo = lo.max(of.rank) } else { hi = hi.min(of.rank) }
        }
        (between < MOST_BETWEEN && hi - lo > 1).then_some(lo + (hi - lo) / 2)
    }

    pub(super) fn insert(&mut self, rank: u32, rule: Match, regions: &Regions, parting: Parting) {
        if self.places.is_empty() {
            let mut secret = secrets(None);
            self.key = u64::from(secret()) << 32 | u64::from(secret()) | 1;
        }
        if 2 * (self.rules + 1) > self.places.len() {
            let places = vec![None; (2 * self.places.len()).max(64)];
            let old = std::mem::replace(&mut self.places, places);
            old.into_iter().flatten().for_each(|rule| self.set(rule, parting));
        }
        let first = self.rows.keep(regions);
        self.set(Rule { rank, rule, first }, parting);
        self.rules += 1;
        self.regions += regions.len();
    }

    fn set(&mut self, rule: Rule, parting: Parting) {
        let (mask, mut at) = (self.places.len() - 1, self.home(parting.before(rule.rank)));
        while self.places[at & mask].is_some() {
            at += 1;
        }
        self.places[at & mask] = Some(rule);
    }

    /// Gives the regions of a rule, and forgets it.
    pub(super) fn remove(&mut self, rank: u32, parting: Parting, mut each: impl FnMut(&Region<'_>)) {
        let Some((mut hole, &Rule { first, .. })) = self.cluster(parting.before(rank)).find(|(_, of)| of.rank == rank)
        else {
            return;
        };
        self.regions -= self.rows.forget(first, &mut each);
        self.rules -= 1;
        // Those behind it move up, as far as they may.
        let mask = self.places.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(rule) = self.places[at] else { break };
            let home = self.home(parting.before(rule.rank));
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.places[hole] = Some(rule);
                hole = at;
            }
        }
        self.places[hole] = None;
    }
}

/// Regions, a row each: the row of the next one of the rule, or of the next one that is free, then `lo`, `hi`, and value
/// and mask.
#[derive(Clone, Debug)]
struct Rows {
    lanes: usize,
    words: Vec<u32>,
    free: u32,
}

impl Rows {
    fn new(lanes: usize) -> Self {
        Self { lanes, words: Vec::new(), free: NO_ROW }
    }

    fn width(&self) -> usize {
        1 + 4 * self.lanes
    }

    /// The row of the first.
    fn keep(&mut self, regions: &Regions) -> u32 {
        let (width, mut next) = (self.width(), NO_ROW);
        for region in regions.iter() {
            let row = self.free;
            let row = if row == NO_ROW {
                self.words.resize(self.words.len() + width, 0);
                (self.words.len() / width - 1) as u32
            } else {
                self.free = self.words[row as usize * width];
                row
            };
            let words = &mut self.words[row as usize * width..][..width];
            words[0] = next;
            next = row;
            let none = (&[][..], &[][..]);
            let (value, mask) = region.ternary.unwrap_or(none);
            words[1..].fill(0);
            for (at, part) in [region.lo, region.hi, value, mask].into_iter().enumerate() {
                words[1 + at * self.lanes..][..part.len()].copy_from_slice(part);
            }
        }
        next
    }

    /// Gives back a rule's; how many there were.
    fn forget(&mut self, first: u32, each: &mut impl FnMut(&Region<'_>)) -> usize {
        let (width, mut row, mut count) = (self.width(), first, 0);
        while row != NO_ROW {
            let words = &mut self.words[row as usize * width..][..width];
            let next = words[0];
            words[0] = self.free;
            self.free = row;
            let mut parts = words[1..].chunks_exact(self.lanes.max(1));
            let mut part = || parts.next().unwrap_or(&[]);
            let (lo, hi, value, mask) = (part(), part(), part(), part());
            each(&Region { lo, hi, ternary: mask.iter().any(|&bits| bits != 0).then_some((value, mask)) });
            (row, count) = (next, count + 1);
        }
        count
    }
}
