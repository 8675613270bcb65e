//! Selected bits of a key.

use crate::raw::{Isa, gather, word};
use crate::rule::Region;
use crate::rule::fixed_bits;

/// Some bits of two pairs of neighbouring key words: at most 32 bits in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Masks over the 64 bits that [`pair`] returns for each pair.
    pub(crate) masks: [u64; 2],
    /// Numbers of the pairs, ascending; both are the same if there is one.
    pub(crate) pairs: [u16; 2],
}

/// Returns two neighbouring key words as 64 bits, the first lowest; missing words are 0.
#[inline(always)]
pub(crate) fn pair(row: &[u32], at: usize) -> u64 {
    word([2 * at, 2 * at + 1].map(|word| row.get(word).copied().unwrap_or(0)))
}

impl Selector {
    /// Returns the number of selected bits.
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.masks[0].count_ones() + self.masks[1].count_ones()
    }

    /// Returns the selected bits of two pairs, those of the first pair lowest.
    ///
    /// For example, the masks `0b101` and `0b10` put bits 0 and 2 of the first pair below bit 1 of the second.
    #[inline(always)]
    pub(crate) fn select(self, gather: impl Fn(u64, u64) -> u64, pair: impl Fn(usize) -> u64) -> u64 {
        self.of_words(
            gather,
            #[inline(always)]
            |i| pair(usize::from(self.pairs[i])),
        )
    }

    /// Returns the same; `word` takes 0 or 1 for the first or second pair.
    #[inline(always)]
    pub(crate) fn of_words(self, gather: impl Fn(u64, u64) -> u64, word: impl Fn(usize) -> u64) -> u64 {
        let [low, high] = [0, 1].map(|i| gather(word(i), self.masks[i]));
        low | high << (self.masks[0].count_ones() & 63)
    }

    /// Returns the same as [`Self::select`] with an instruction set.
    #[inline(always)]
    pub(crate) fn select_with<I: Isa>(self, isa: I, pair: impl Fn(usize) -> u64) -> u64 {
        self.select(
            #[inline(always)]
            |word, mask| isa.gather(word, mask),
            pair,
        )
    }

    /// Returns the selected bits of a region: their value, and a mask of those it leaves open.
    pub(crate) fn of_region(self, region: &Region<'_>) -> (u64, u64) {
        let key_words = region.lo.len();
        let fixed = |word: usize| if word < key_words { u64::from(fixed_bits(region, word)) } else { 0 };
        let fixed = |at: usize| fixed(2 * at) | fixed(2 * at + 1) << 32;
        (self.select(gather, |at| pair(region.lo, at) & fixed(at)), self.select(gather, |at| !fixed(at)))
    }
}
