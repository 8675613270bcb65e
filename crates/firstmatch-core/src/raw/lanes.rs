//! Eight words side by side: operations for computations outside the core.
//!
//! [`with_lanes`](super::with_lanes) compiles a [`LanesKernel`] for an instruction set. The kernel is written once.

/// Number of words side by side.
pub const LANES: usize = 8;

/// Operations on eight words side by side.
///
/// A *mask* is a word of all ones or all zeros in each lane.
pub trait Lanes: Copy {
    /// Eight words.
    type Words: Copy;

    /// Returns words that are all equal.
    fn splat(self, word: u32) -> Self::Words;

    /// Returns these words.
    fn words(self, words: [u32; LANES]) -> Self::Words;

    /// Returns the four words of each record, the first words of all records first; the first byte of a word is lowest.
    fn columns(self, records: [&[u8; 16]; LANES]) -> [Self::Words; 4];

    /// Returns the bits that are set in both.
    fn and(self, a: Self::Words, b: Self::Words) -> Self::Words;

    /// Returns the bits that are set in either.
    fn or(self, a: Self::Words, b: Self::Words) -> Self::Words;

    /// Returns the difference, which wraps.
    fn sub(self, a: Self::Words, b: Self::Words) -> Self::Words;

    /// Returns the words shifted right by `BITS` bits.
    fn shr<const BITS: i32>(self, a: Self::Words) -> Self::Words;

    /// Returns the words shifted left by `BITS` bits.
    fn shl<const BITS: i32>(self, a: Self::Words) -> Self::Words;

    /// Returns the mask of the lanes that are equal.
    fn equal(self, a: Self::Words, b: Self::Words) -> Self::Words;

    /// Returns the mask of the lanes in which `a` is greater than `b`, both as signed numbers.
    fn greater(self, a: Self::Words, b: Self::Words) -> Self::Words;

    /// Returns `a` in the lanes of the mask, `b` in the others.
    fn select(self, mask: Self::Words, a: Self::Words, b: Self::Words) -> Self::Words;

    /// Returns the entries of a table at indices, of which the lowest nine bits count.
    fn pick(self, table: &[u32; 512], index: Self::Words) -> Self::Words;

    /// Returns the lowest byte of each word.
    fn low_bytes(self, a: Self::Words) -> [u8; LANES];
}

/// Computation over [`Lanes`].
///
/// It must be `#[inline(always)]` all the way down, because a function that is not inlined is compiled without the
/// instruction set.
pub trait LanesKernel {
    /// Runs the computation.
    fn run(self, lanes: impl Lanes);
}
