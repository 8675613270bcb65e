//! What a node selects of a key.

use crate::engine::fixed_bits;
use crate::rule::Region;
use crate::simd::{Isa, gather, word};

/// Some bits of two pairs of neighbouring lanes: at most 32 in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Over the words that [`pair`] makes of the pairs.
    pub(crate) masks: [u64; 2],
    /// Ascending; both the same where there is one.
    pub(crate) pairs: [u16; 2],
}

/// A pair of neighbouring lanes, the first in the lower half: 0 for what is not there.
#[inline(always)]
pub(crate) fn pair(row: &[u32], at: usize) -> u64 {
    word([2 * at, 2 * at + 1].map(|lane| row.get(lane).copied().unwrap_or(0)))
}

impl Selector {
    /// How many bits.
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.masks[0].count_ones() + self.masks[1].count_ones()
    }

    /// The selected bits of two pairs, those of the first lowest.
    #[inline(always)]
    pub(crate) fn select(self, gather: impl Fn(u64, u64) -> u64, pair: impl Fn(usize) -> u64) -> u64 {
        self.of_words(
            gather,
            #[inline(always)]
            |i| pair(usize::from(self.pairs[i])),
        )
    }

    /// The same of the two pairs by their place here.
    #[inline(always)]
    pub(crate) fn of_words(self, gather: impl Fn(u64, u64) -> u64, word: impl Fn(usize) -> u64) -> u64 {
        let [low, high] = [0, 1].map(|i| gather(word(i), self.masks[i]));
        low | high << (self.masks[0].count_ones() & 63)
    }

    /// The same with an instruction set.
    #[inline(always)]
    pub(crate) fn select_with<I: Isa>(self, isa: I, pair: impl Fn(usize) -> u64) -> u64 {
        self.select(
            #[inline(always)]
            |word, mask| isa.gather(word, mask),
            pair,
        )
    }

    /// Those of a region: their value, and which are open.
    pub(crate) fn of_region(self, region: &Region<'_>) -> (u64, u64) {
        let lanes = region.lo.len();
        let fixed = |lane: usize| if lane < lanes { u64::from(fixed_bits(region, lane)) } else { 0 };
        let fixed = |at: usize| fixed(2 * at) | fixed(2 * at + 1) << 32;
        (self.select(gather, |at| pair(region.lo, at) & fixed(at)), self.select(gather, |at| !fixed(at)))
    }
}
