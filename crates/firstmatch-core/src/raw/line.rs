//! Cache lines as the unit of storage.

/// Number of words in a cache line.
pub(crate) const LINE_WORDS: usize = 16;

/// One cache line of words.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u32; LINE_WORDS]);

/// Returns the words of consecutive lines.
#[inline(always)]
pub(crate) fn words(lines: &[Line]) -> &[u32] {
    let count = lines.len() * LINE_WORDS;
    // SAFETY: `Line` is `repr(C)`, 64 bytes of `u32` without padding, so the slice is `count` initialised words.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), count) }
}

/// Returns the words of consecutive lines for writing.
#[inline(always)]
pub(crate) fn words_mut(lines: &mut [Line]) -> &mut [u32] {
    let count = lines.len() * LINE_WORDS;
    // SAFETY: as in `words`; the borrow is exclusive and every bit pattern is a valid `u32`.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), count) }
}

/// Returns two words as one of 64 bits, the first in the lower half.
#[inline(always)]
pub(crate) fn word([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
