//! The one operation of an instruction set that tables and trees need.

/// Instruction set that can gather bits.
pub(crate) trait Gather: Copy {
    /// Returns the bits of `word` under `mask`, moved together at the low end.
    ///
    /// For example, the word `0b1100` under the mask `0b1010` gives `0b10`.
    fn gather(self, word: u64, mask: u64) -> u64;
}

/// Returns the bits of `word` under `mask`, moved together at the low end.
#[inline(always)]
pub(crate) fn gather(word: u64, mut mask: u64) -> u64 {
    let low = mask.trailing_zeros() % u64::BITS;
    if (mask >> low) & (mask >> low).wrapping_add(1) == 0 {
        return (word & mask) >> low;
    }
    let (mut gathered, mut place) = (0, 0);
    while mask != 0 {
        gathered |= (word >> mask.trailing_zeros() & 1) << place;
        mask &= mask - 1;
        place += 1;
    }
    gathered
}
