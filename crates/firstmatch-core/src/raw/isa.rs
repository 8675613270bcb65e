//! The operations of an instruction set, and computations that are compiled for one.

use super::gather::Gather;
use super::hash::Hasher;
use super::lanes::Lanes;
use super::line::Line;
use super::tree::TreeView;

/// Vector operations of an instruction set.
pub(crate) trait Isa: Gather + Lanes {
    /// Runs a kernel that is compiled for this set.
    fn vectorize<K: Kernel>(self, kernel: K);

    /// Runs a step of a lookup: without vectors in a function of its own, otherwise inlined.
    ///
    /// Without vectors a step of many operations takes much longer than a call. A kernel that inlines it in several
    /// places takes long to compile.
    fn call<T>(self, step: impl FnOnce() -> T) -> T;

    /// Whether a key lies in a region.
    ///
    /// `entry` holds `lo` of `key_words` words, then `hi` (nowhere below `lo`), then at least as many more words as
    /// `key` has padding. `key` is one row; its length is a multiple of 4.
    fn inside(self, entry: &[u32], key: &[u32], key_words: usize) -> bool;

    /// Returns which of eight words equal `word`, as bits from the lowest.
    fn equal8(self, words: &[u32; 8], word: u32) -> u32;

    /// Counts the words that are at most `word`, among those whose bits are set in `among`.
    fn count_at_most(self, words: &[u32; 16], among: u32, word: u32) -> usize;

    /// Returns which of eight regions hold a key, as bits from the lowest.
    ///
    /// `block` holds for each word of the key eight `lo`, then eight `hi`, nowhere below `lo`.
    fn inside8(self, block: &[u32], key: &[u32], key_words: usize) -> u32;

    /// Returns which of eight values under masks hold a word: eight `value`, then eight `mask`.
    fn masked8(self, value_mask: &[u32; 16], word: u32) -> u32;

    /// Returns the hash of a row under a tuple, as [`Hasher::hash`] does.
    fn hash(self, hasher: &Hasher, row: &[u32], tuple: &[u32]) -> u32;

    /// Returns the bits that are set in all the words that eight probes choose for a row.
    ///
    /// A row has a multiple of 4 words, and more words than the largest `word` of the probes.
    ///
    /// # Panics
    /// If a probe chooses a word beyond `words`.
    fn common8(self, probes: &Probes, row: &[u32], words: &[u64]) -> u64;

    /// Counts, for each bit from the lowest, the words in which it is 1; counts wrap at 256.
    fn count_ones64<T>(self, list: &[T], word: impl Fn(&T) -> u64) -> [u8; 64];

    /// Looks up the table entry of each row at the bits that two masks select from its words.
    ///
    /// The bits of the second word stand above those of the first.
    ///
    /// # Panics
    /// If the table has fewer entries than the bits can select.
    fn choose8<T>(
        self,
        table: &[u32],
        masks: [u64; 2],
        rows: &[[T; 8]],
        words: impl Fn(&T) -> [u64; 2],
        entries: &mut [[u32; 8]],
    );

    /// Returns which of eight prefixes hold a row.
    ///
    /// `values` has, for each word of the row, the words of the eight prefixes. `open` has a byte for each prefix, four
    /// to a word, the first lowest: the number of open bits at the prefix's end.
    fn prefixes8(self, values: &[[u32; 8]], open: &[u32; 2], row: &[u32]) -> u32;

    /// Returns which of eight intervals hold a word: eight `lo`, then `hi`, nowhere below `lo`.
    fn within8(self, bounds: &[u32; 16], word: u32) -> u32;

    /// Returns which of eight intervals meet the interval from `from` to `to`.
    ///
    /// `bounds` has eight `lo`, then eight `hi`, nowhere below `lo`.
    fn overlaps8(self, bounds: &[u32; 16], from: u32, to: u32) -> u32;

    /// Returns which of eight pairs of 16-bit intervals hold a pair of words.
    ///
    /// `bounds` has eight pairs of `lo`, then eight of `hi`, nowhere below `lo`; a pair is a `u32`, its first half
    /// lowest. The words have at most 31 bits, and words above the highest value of 16 bits count as that value.
    fn within8_halves(self, bounds: &[u32; 16], pair: &[u32; 2]) -> u32;

    /// Returns which of eight byte intervals hold a byte: eight `lo`, then eight `hi`.
    ///
    /// `hi` is nowhere below `lo`. Four bytes stand in a word, the first lowest.
    fn within8_bytes(self, bounds: &[u32; 4], byte: u8) -> u32;

    /// Returns which of eight bytes, four to a word, the first lowest, are one of two.
    fn either8_bytes(self, bytes: &[u32; 2], either: [u8; 2]) -> u32;

    /// Returns which of twelve spans of 16-bit values hold a value, and have a bit of `bits`.
    ///
    /// `line` has twelve first values, then twelve spans, the largest distance from the first value, two to a word, then
    /// twelve bytes of bits, four to a word. Its last word does not matter.
    fn spans12(self, line: &Line, value: u16, bits: u8) -> u32;

    /// Returns which of eight words are below their limits, and which are odd, as bits.
    fn below8(self, words: &[u32; 8], limits: &[u32; 8]) -> (u32, u32);

    /// Returns which of eight words are odd, as bits from the lowest.
    fn odd8(self, words: &[u32; 8]) -> u32;

    /// Finds the values of some words in a tree, level by level, so that the searches overlap.
    ///
    /// `again` refers to the same words. They are read a second time because one load spreads a word over a vector.
    /// From a register, that takes one more instruction.
    fn find<const DEPTH: usize, const WORDS: usize>(
        self,
        tree: TreeView<'_, DEPTH>,
        words: [u32; WORDS],
        again: [&u32; WORDS],
    ) -> [u16; WORDS];

    /// Returns the index of the first bit that is set in all rows, from the lowest.
    ///
    /// If there is none, it returns the number of bits of a row, or more. A row has 16 or 32 words.
    fn first_common<'a, const WORDS: usize>(self, rows: impl Iterator<Item = &'a [u32; WORDS]> + Clone) -> u32;

    /// Finds the first common bit of the rows of each key, for keys in groups of eight.
    ///
    /// The answers are those of [`Isa::first_common`]. `places` has the places of a key's rows, in units of `UNIT`
    /// bytes, which must be whole words. `among` is one more row for every key. `lines` must have one more line behind
    /// the last row.
    ///
    /// # Panics
    /// If there is no row at a place, or if there are fewer places than answers.
    fn first_common8<const ROWS: usize, const WORDS: usize, const UNIT: usize>(
        self,
        lines: &[Line],
        places: [&[[u16; 8]]; ROWS],
        among: Option<&[u32; WORDS]>,
        found: &mut [[u32; 8]],
    );

    /// Prefetches the cache line of a place in memory.
    fn prefetch<T>(self, place: &T);

    /// Prefetches `count` lines starting at `first`; lines beyond `lines` are ignored.
    fn prefetch_lines(self, lines: &[Line], first: usize, count: usize);
}

/// Eight positions in an array, each chosen by a word of a row.
///
/// A position is `start + ((row[word] >> shift) * factor >> right)`, with wrapping arithmetic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probes {
    pub(crate) word: [u32; 8],
    /// Shifts below 32, like `right`.
    pub(crate) shift: [u32; 8],
    pub(crate) factor: [u32; 8],
    pub(crate) right: [u32; 8],
    pub(crate) start: [u32; 8],
}

impl Probes {
    /// Returns the position for a word that is already picked and shifted.
    #[inline(always)]
    pub(crate) fn place(&self, i: usize, value: u32) -> u32 {
        (value.wrapping_mul(self.factor[i]) >> self.right[i]).wrapping_add(self.start[i])
    }
}

/// Computation that is compiled for an instruction set.
///
/// Implementations must be `#[inline(always)]` all the way down, because a function that is not inlined is compiled
/// without the instruction set.
pub(crate) trait Kernel: Sized {
    /// Runs the computation with the operations of `isa`.
    fn run<I: Isa>(self, isa: I);

    /// Runs the computation compiled for AVX2.
    ///
    /// It is a method, so that the compiler places it beside the kernel and compiles engines side by side. A function
    /// of this module that took a kernel would be compiled with those of all other engines, one after another.
    ///
    /// # Safety
    /// The machine must have the features, as the token of AVX2 proves.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn run_avx2<I: Isa>(self, isa: I) {
        self.run(isa);
    }

    /// Runs the computation in a function of its own, so that no other path sets up its stack.
    #[inline(never)]
    fn run_apart<I: Isa>(self, isa: I) {
        self.run(isa);
    }
}
