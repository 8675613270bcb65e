//! Selected bits of a key.

use crate::raw::{Isa, Kernel, Level, dispatch, word};
use crate::rule::Region;
use crate::rule::fixed_bits;

/// Some bits of two pairs of neighbouring key words: at most 32 bits in all.
///
/// A pair may begin at any word. For example, the pair at word 3 of an IPv4 5-tuple is destination port and protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Masks over the 64 bits that [`pair`] returns for each pair.
    pub(crate) masks: [u64; 2],
    /// First word of each pair, ascending; both are the same if there is only one pair.
    pub(crate) pairs: [u16; 2],
}

/// Returns the word `first` and the next one as 64 bits, the first lowest; missing words are 0.
#[inline(always)]
pub(crate) fn pair(row: &[u32], first: usize) -> u64 {
    word([first, first + 1].map(|word| row.get(word).copied().unwrap_or(0)))
}

impl Selector {
    /// Returns the number of selected bits.
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.masks[0].count_ones() + self.masks[1].count_ones()
    }

    /// Returns the selected bits of two pairs, with the bits of the first pair lowest.
    ///
    /// For example, the masks `0b101` and `0b10` put bits 0 and 2 of the first pair below bit 1 of the second.
    #[inline(always)]
    pub(crate) fn select_with<I: Isa>(self, isa: I, pair: impl Fn(usize) -> u64) -> u64 {
        let [low, high] = [0, 1].map(
            #[inline(always)]
            |i| isa.gather(pair(usize::from(self.pairs[i])), self.masks[i]),
        );
        low | high << (self.masks[0].count_ones() & 63)
    }

    /// Returns the selected bits of a region: their value, and a mask of the bits that the region leaves open.
    pub(crate) fn of_region(self, level: Level, region: &Region<'_>) -> (u64, u64) {
        let open = |word: usize| u64::from(if word < region.lo.len() { !fixed_bits(region, word) } else { u32::MAX });
        let pairs = self.pairs.map(usize::from).map(|at| {
            let open = open(at) | open(at + 1) << 32;
            (pair(region.lo, at) & !open, open)
        });
        self.of_pairs(level, pairs)
    }

    /// Returns the selected bits of values and of masks, given a value and a mask for each pair.
    pub(crate) fn of_pairs(self, level: Level, pairs: [(u64, u64); 2]) -> (u64, u64) {
        let mut selected = (0, 0);
        dispatch(level, Both { masks: self.masks, pairs, selected: &mut selected });
        selected
    }
}

/// Kernel that selects bits of values and of masks.
struct Both<'a> {
    /// Masks over the pairs.
    masks: [u64; 2],
    pairs: [(u64, u64); 2],
    selected: &'a mut (u64, u64),
}

impl Kernel for Both<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { masks: [low, high], pairs: [a, b], selected } = self;
        let shift = low.count_ones() & 63;
        selected.0 = isa.gather(a.0, low) | isa.gather(b.0, high) << shift;
        selected.1 = isa.gather(a.1, low) | isa.gather(b.1, high) << shift;
    }
}
