//! Boxes of nodes: one aligned interval for each key word.

use crate::rule::{Lowered, Region};

/// Aligned interval of a word: `base` to `base + 2^bits - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Side {
    pub(super) base: u32,
    pub(super) bits: u32,
}

impl Side {
    /// Returns the smallest aligned interval that holds `lo..=hi`.
    pub(super) fn around(lo: u32, hi: u32) -> Self {
        let bits = 32 - (lo ^ hi).leading_zeros();
        Self { base: lo & !ones(bits), bits }
    }

    pub(super) fn last(self) -> u32 {
        self.base | ones(self.bits)
    }

    /// Returns the part of an interval that lies in this one; the two have a value in common.
    pub(super) fn clip(self, (lo, hi): (u32, u32)) -> (u32, u32) {
        (lo.max(self.base), hi.min(self.last()))
    }

    /// Returns one of the `2^cut` equal parts.
    pub(super) fn part(self, cut: u32, at: u32) -> Self {
        let bits = self.bits - cut;
        Self { base: self.base | at.checked_shl(bits).unwrap_or(0), bits }
    }
}

/// Returns a number whose `bits` lowest bits are set.
pub(super) fn ones(bits: u32) -> u32 {
    u32::MAX.checked_shr(32 - bits).unwrap_or(0)
}

/// Regions as the tree sees them, in order of rank.
///
/// The tree has no value for an absent field: a key without the field takes the path of the largest value. Lists test
/// the true word.
pub(super) struct Ranges<'a> {
    pub(super) set: &'a Lowered,
    /// Largest value of each word that the tree sees.
    pub(super) caps: Box<[u32]>,
    words: usize,
    /// For each region `lo` of every word, then `hi` of every word.
    bounds: Vec<u32>,
}

impl<'a> Ranges<'a> {
    pub(super) fn new(set: &'a Lowered) -> Self {
        let words = set.schema().words();
        let caps: Box<[u32]> = words
            .iter()
            .map(|word| if word.absent.is_some() { word.max.saturating_sub(1) } else { word.max })
            .collect();
        let mut bounds = Vec::with_capacity(2 * words.len() * set.regions().len());
        for region in set.regions().iter() {
            for side in [region.lo, region.hi] {
                bounds.extend(side.iter().zip(&caps).map(|(&value, &cap)| value.min(cap)));
            }
        }
        Self { set, words: words.len(), caps, bounds }
    }

    /// Number of regions.
    pub(super) fn len(&self) -> usize {
        self.set.regions().len()
    }

    /// Number of words.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// Returns the interval of a region in a word.
    #[inline]
    pub(super) fn of(&self, rank: u32, word: usize) -> (u32, u32) {
        let at = 2 * self.words * rank as usize + word;
        (self.bounds[at], self.bounds[at + self.words])
    }

    /// Returns a region itself.
    pub(super) fn region(&self, rank: u32) -> Region<'_> {
        self.set.regions().get(rank as usize)
    }

    /// Returns the box of all keys.
    pub(super) fn whole(&self) -> Box<[Side]> {
        self.caps.iter().map(|&cap| Side::around(0, cap)).collect()
    }

    /// Returns the smallest box around the parts of some regions that lie in a box.
    pub(super) fn compacted(&self, list: &[u32], sides: &[Side]) -> Box<[Side]> {
        let hull = |(word, side): (usize, &Side)| {
            let parts = list.iter().map(|&rank| side.clip(self.of(rank, word)));
            let (lo, hi) = parts.fold((u32::MAX, 0), |(lo, hi), (from, to)| (from.min(lo), to.max(hi)));
            if lo <= hi { Side::around(lo, hi) } else { *side }
        };
        sides.iter().enumerate().map(hull).collect()
    }

    /// Whether a region fills a side of a box.
    pub(super) fn fills(&self, rank: u32, word: usize, side: Side) -> bool {
        let (lo, hi) = self.of(rank, word);
        lo <= side.base && side.last().min(self.caps[word]) <= hi
    }

    /// Whether `first`, which comes before `second`, holds all keys of `second` in a box.
    ///
    /// A packet without a field takes the path of its largest value. So a region for all values does not cover a region
    /// that also takes packets without the field.
    pub(super) fn covers(&self, first: u32, second: u32, sides: &[Side]) -> bool {
        let (a, b) = (self.region(first), self.region(second));
        let is_inside = sides.iter().enumerate().all(|(word, side)| {
            let reaches_end = side.last() >= self.caps[word];
            let last = if reaches_end { u32::MAX } else { side.last() };
            let (lo, hi) = (b.lo[word].max(side.base), b.hi[word].min(last));
            // A region for packets without the field alone begins behind the side.
            a.lo[word] <= lo && hi <= a.hi[word]
        });
        let same_masks = match (a.ternary, b.ternary) {
            (None, _) => true,
            (Some((_, mask)), None) => mask.iter().all(|&mask| mask == 0),
            (Some(a), Some(b)) => {
                let masks = a.1.iter().zip(b.1).zip(a.0.iter().zip(b.0));
                masks.into_iter().all(|((mask, other), (value, other_value))| {
                    mask & other == *mask && (value ^ other_value) & mask == 0
                })
            }
        };
        is_inside && same_masks
    }
}
