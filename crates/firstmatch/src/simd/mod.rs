//! Instruction sets: the only unsafe code of the core.
//!
//! An instruction set is a zero-sized token that implements `Isa`; only `dispatch` makes one, after it has
//! seen that the machine has the set. A lookup is a `Kernel`, generic over the token: `Isa::vectorize` compiles
//! it whole for the set, so the operations inline into its loops. Operations take arrays and slices and are safe to
//! call; the scalar ones are always compiled and tested, and say what the others must answer.
#![expect(
    unsafe_code,
    reason = "vector intrinsics and the cast from lines to words; each block says what it relies on"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod hash;
mod line;
mod scalar;
mod tree;

#[cfg(test)]
pub(crate) use hash::tests::truncated;
pub(crate) use hash::{Hasher, secrets};
pub(crate) use line::{LINE_WORDS, Line, words, words_mut};
pub(crate) use scalar::gather;
pub(crate) use tree::{MOST_LEVELS, Pages, Table, Tree, TreeView};

use crate::error::BuildError;

/// An instruction set that lookups can be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// No vector instructions.
    Scalar,
    /// AVX2 with BMI1, BMI2, LZCNT and POPCNT.
    Avx2,
}

impl Level {
    /// Every level, the best last.
    pub const ALL: [Self; 2] = [Self::Scalar, Self::Avx2];

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::Avx2::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => false,
        }
    }

    /// The levels of this machine, the best last.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|level| level.is_available())
    }

    /// The name: `scalar`, `avx2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
        }
    }

    /// The forced level, or the best of this machine.
    pub(crate) fn choose(forced: Option<Self>) -> Result<Self, BuildError> {
        match forced {
            Some(level) if level.is_available() => Ok(level),
            Some(level) => Err(BuildError::simd(level.name())),
            None => Ok(Self::available().last().unwrap_or(Self::Scalar)),
        }
    }
}

/// One word of two, the first in the lower half.
#[inline(always)]
pub(crate) fn word([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The vector operations of an instruction set.
pub(crate) trait Isa: Copy {
    /// Runs a kernel compiled for this set.
    fn vectorize<K: Kernel>(self, kernel: K);

    /// Whether a key lies in a region: `entry` holds `lo` of `lanes` words, then `hi` (nowhere below `lo`), then at
    /// least as many more words as `key` has padding; `key` is one row (its length a multiple of 4).
    fn inside(self, entry: &[u32], key: &[u32], lanes: usize) -> bool;

    /// Which of eight words equal `word`, as bits from the lowest.
    fn equal8(self, words: &[u32; 8], word: u32) -> u32;

    /// How many of the words that `among` names, as bits from the lowest, are at most `word`.
    fn count_at_most(self, words: &[u32; 16], among: u32, word: u32) -> usize;

    /// Which of eight regions hold a key, as bits from the lowest. `block` holds for each lane eight `lo`, then
    /// eight `hi`, nowhere below `lo`.
    fn inside8(self, block: &[u32], key: &[u32], lanes: usize) -> u32;

    /// Which of eight values under masks hold a word: eight `value`, then eight `mask`.
    fn masked8(self, value_mask: &[u32; 16], word: u32) -> u32;

    /// The hash of a row under a tuple, as [`Hasher::hash`] says.
    fn hash(self, hasher: &Hasher, row: &[u32], tuple: &[u32]) -> u32;

    /// The bits that all words have which eight probes choose for a row. A row has a multiple of 4 words, all lanes
    /// among them.
    ///
    /// # Panics
    /// When a probe chooses a word that is not there.
    fn common8(self, probes: &Probes, row: &[u32], words: &[u64]) -> u64;

    /// In how many words each bit is 1, from the lowest; of 256 words a count would start again at 0.
    fn count_ones64<T>(self, list: &[T], word: impl Fn(&T) -> u64) -> [u8; 64];

    /// The bits of a word that a mask names, moved together at the low end.
    fn gather(self, word: u64, mask: u64) -> u64;

    /// For each of some rows the entry of a table at the bits that two masks name of the words that it stands for, those
    /// of the second above those of the first.
    ///
    /// # Panics
    /// When there are more bits than the table has entries for.
    fn choose8<T>(
        self,
        table: &[u32],
        masks: [u64; 2],
        rows: &[[T; 8]],
        words: impl Fn(&T) -> [u64; 2],
        entries: &mut [[u32; 8]],
    );

    /// Which of eight prefixes hold a row: for each of its words those of the prefixes, then in a byte how many of the last
    /// bits of each are open, four to a word, the first lowest.
    fn prefixes8(self, values: &[[u32; 8]], open: &[u32; 2], row: &[u32]) -> u32;

    /// Which of eight intervals of words hold a word: eight `lo`, then eight `hi`, nowhere below `lo`.
    fn within8(self, bounds: &[u32; 16], word: u32) -> u32;

    /// Which of eight pairs of intervals of 16 bits hold a pair of words of at most 31 bits, each taken for the highest
    /// of 16 bits where it is higher: eight pairs of `lo`, then of `hi`, nowhere below `lo`; a pair is a word, the first
    /// in its lower half.
    fn within8_halves(self, bounds: &[u32; 16], pair: &[u32; 2]) -> u32;

    /// Which of eight intervals of bytes hold a byte: eight `lo`, then eight `hi`, nowhere below `lo`; four to a word,
    /// the first lowest.
    fn within8_bytes(self, bounds: &[u32; 4], byte: u8) -> u32;

    /// Which of eight bytes, four to a word, the first lowest, are one of two.
    fn either8_bytes(self, bytes: &[u32; 2], either: [u8; 2]) -> u32;

    /// Which of eight words are below a limit each, and which are odd, as bits from the lowest.
    fn below8(self, words: &[u32; 8], limits: &[u32; 8]) -> (u32, u32);

    /// Which of eight words are odd, as bits from the lowest.
    fn odd8(self, words: &[u32; 8]) -> u32;

    /// The values that a tree has for some words, level by level, so that a search waits while others go on. `again` are
    /// the same words: read a second time, they are spread over vectors as they come, while what a register has takes an
    /// instruction more.
    fn find<const DEPTH: usize, const WORDS: usize>(
        self,
        tree: TreeView<'_, DEPTH>,
        words: [u32; WORDS],
        again: [&u32; WORDS],
    ) -> [u16; WORDS];

    /// The first bit that all of some rows have, from the lowest of the first word on; 1,024 or more where there is none.
    fn first_common<'a>(self, rows: impl Iterator<Item = &'a [u32; 32]> + Clone) -> u32;

    /// For eights of keys, the first bit that the rows at some places have, as [`Isa::first_common`] says; `among` is one
    /// more row, the same for all. A row is two lines, and a line more stands behind the last. Places count in so many
    /// bytes, whole words.
    ///
    /// # Panics
    /// When there is no row at a place, or fewer places than bits to be found.
    fn first_common8<const ROWS: usize, const UNIT: usize>(
        self,
        lines: &[Line],
        places: [&[[u16; 8]]; ROWS],
        among: Option<&[u32; 32]>,
        found: &mut [[u32; 8]],
    );

    /// Asks for the cache line of a place in memory.
    fn prefetch<T>(self, place: &T);

    /// Asks for so many lines from a place on. Nothing happens for those that are not there.
    fn prefetch_lines(self, lines: &[Line], first: usize, count: usize);
}

/// Eight places in an array, each chosen by a word of a row: `start + ((row[lane] >> shift) * factor >> right)`, with
/// wrapping arithmetic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probes {
    pub(crate) lane: [u32; 8],
    /// Below 32, as `right`.
    pub(crate) shift: [u32; 8],
    pub(crate) factor: [u32; 8],
    pub(crate) right: [u32; 8],
    pub(crate) start: [u32; 8],
}

impl Probes {
    /// The place for a word already picked and shifted.
    #[inline(always)]
    pub(crate) fn place(&self, i: usize, value: u32) -> u32 {
        (value.wrapping_mul(self.factor[i]) >> self.right[i]).wrapping_add(self.start[i])
    }
}

/// Asks for the cache line of a place in memory, where the machine has an instruction for that: for engines written
/// outside this crate.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    avx2::prefetch(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// A computation to be compiled for an instruction set. Implementations are `#[inline(always)]` all the way down:
/// what is not inlined is compiled without the set.
pub(crate) trait Kernel {
    /// Runs it with the operations of `isa`.
    fn run<I: Isa>(self, isa: I);
}

/// Runs a kernel at a level that [`Level::choose`] has returned.
#[inline]
pub(crate) fn dispatch(level: Level, kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx2
        && let Some(isa) = avx2::Avx2::detect()
    {
        return isa.vectorize(kernel);
    }
    debug_assert_eq!(level, Level::Scalar);
    without(kernel);
}

/// Apart, so that what it needs of the stack is not made ready where vectors are there.
#[inline(never)]
fn without(kernel: impl Kernel) {
    scalar::Scalar.vectorize(kernel);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation on pseudo-random words near the edges of `u32`, against the scalar answers.
    struct Compare;

    impl Kernel for Compare {
        fn run<I: Isa>(self, isa: I) {
            let plain = scalar::Scalar;
            let edge = [0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, u32::MAX - 1, u32::MAX];
            let mut state = 1u64;
            let mut next = || {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                edge[(state >> 61) as usize]
            };
            let (mut hits, mut misses) = (0, 0);
            for lanes in 1..=13usize {
                for _ in 0..4000 {
                    let mut key: Vec<u32> = (0..lanes).map(|_| next()).collect();
                    let near = |k: u32, r: u32| if r > 2 { k } else { r };
                    let lo: Vec<u32> = key.iter().map(|&k| near(k, next()).min(k)).collect();
                    let mut hi: Vec<u32> = key.iter().map(|&k| near(k, next()).max(k)).collect();
                    if next() & 1 == 0 {
                        let lane = next() as usize % lanes;
                        hi[lane] = hi[lane].saturating_sub(1).max(lo[lane]);
                    }
                    key.resize(lanes.next_multiple_of(4), 0);
                    let mut entry = [&lo[..], &hi[..]].concat();
                    entry.resize(2 * lanes + 5, 0xDEAD_BEEF);
                    let want = plain.inside(&entry, &key, lanes);
                    assert_eq!(isa.inside(&entry, &key, lanes), want);
                    if want {
                        hits += 1;
                    } else {
                        misses += 1;
                    }

                    let words: Vec<[u32; 2]> = (0..20 * lanes).map(|_| [next(), next()]).collect();
                    let word = |&[low, high]: &[u32; 2]| u64::from(low) | u64::from(high) << 32;
                    assert_eq!(isa.count_ones64(&words, word), plain.count_ones64(&words, word));

                    let mut block: Vec<u32> = (0..lanes * 16).map(|_| next()).collect();
                    for lane in block.chunks_exact_mut(16) {
                        for i in 0..8 {
                            (lane[i], lane[i + 8]) = (lane[i].min(lane[i + 8]), lane[i].max(lane[i + 8]));
                        }
                    }
                    assert_eq!(isa.inside8(&block, &key, lanes), plain.inside8(&block, &key, lanes));
                    let tags: [u32; 8] = std::array::from_fn(|_| next());
                    assert_eq!(isa.equal8(&tags, key[0]), plain.equal8(&tags, key[0]));
                    for bounds in block.as_chunks::<16>().0 {
                        let among = u32::from(next() as u16) & !0x11;
                        assert_eq!(
                            isa.count_at_most(bounds, among, key[0]),
                            plain.count_at_most(bounds, among, key[0])
                        );
                        assert_eq!(isa.within8(bounds, key[0]), plain.within8(bounds, key[0]));
                    }
                    // Intervals of halves and bytes from any words: the upper bounds are raised to the lower ones.
                    let halves: [u16; 32] = std::array::from_fn(|_| next() as u16);
                    let half = |i: usize| if i < 16 { halves[i] } else { halves[i].max(halves[i - 16]) };
                    let bounds = std::array::from_fn(|i| u32::from(half(2 * i)) | u32::from(half(2 * i + 1)) << 16);
                    let (a, b) = (next() & 0x1FFFF, next() >> 12);
                    assert_eq!(isa.within8_halves(&bounds, &[a, b]), plain.within8_halves(&bounds, &[a, b]));
                    let byte = |i: usize| {
                        let byte = |i: usize| halves[i] as u8;
                        if i < 8 { byte(i) } else { byte(i).max(byte(i - 8)) }
                    };
                    let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|j| byte(4 * i + j)));
                    let bounds = std::array::from_fn(word);
                    assert_eq!(isa.within8_bytes(&bounds, a as u8), plain.within8_bytes(&bounds, a as u8));
                    let bytes = [bounds[0], bounds[1]];
                    for either in [[a as u8, byte(5)], [byte(2), b as u8]] {
                        assert_eq!(isa.either8_bytes(&bytes, either), plain.either8_bytes(&bytes, either));
                    }
                    let (word, mask) = (u64::from(next()) << 32 | u64::from(next()), u64::from(next()) << 27 | 5);
                    assert_eq!(isa.gather(word, mask), plain.gather(word, mask));
                    let masks =
                        [u64::from(next() & 0x21) << 40 | u64::from(next() & 0x8) << 9, u64::from(next() & 0x11)];
                    let table: [u32; 64] = std::array::from_fn(|_| next());
                    let pairs: [[u64; 2]; 8] =
                        std::array::from_fn(|_| [word.rotate_left(next() & 63), u64::from(next()) << 9 ^ word]);
                    let (mut entries, mut want) = ([[0; 8]], [[0; 8]]);
                    for masks in [masks, [masks[0], 0], [0, masks[1]]] {
                        isa.choose8(&table, masks, &[pairs], |pair| *pair, &mut entries);
                        plain.choose8(&table, masks, &[pairs], |pair| *pair, &mut want);
                        assert_eq!(entries, want);
                    }
                    let [eight, limits]: [[u32; 8]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| next()));
                    assert_eq!(isa.odd8(&eight), plain.odd8(&eight));
                    assert_eq!(isa.below8(&eight, &limits), plain.below8(&eight, &limits));
                    let mut prefix = |bits: usize| {
                        let open: [u8; 8] = std::array::from_fn(|_| (next() >> 3) as u8 % (bits as u8 + 1));
                        let values: Vec<[u32; 8]> = (0..bits / 32).map(|_| std::array::from_fn(|_| next())).collect();
                        let open = [0, 4].map(|at| u32::from_le_bytes(std::array::from_fn(|i| open[at + i])));
                        (values, open)
                    };
                    let (values, open) = prefix(32 * lanes.min(7));
                    let row = &key[..lanes.min(7)];
                    assert_eq!(isa.prefixes8(&values, &open, row), plain.prefixes8(&values, &open, row));
                    let masks: [u32; 16] = std::array::from_fn(|_| next());
                    assert_eq!(isa.masked8(&masks, key[0]), plain.masked8(&masks, key[0]));
                }
                let stride = lanes.next_multiple_of(4);
                for _ in 0..200 {
                    let hasher = Hasher::new(stride, &mut next);
                    let tuple: Vec<u32> = (0..stride).map(|_| next()).collect();
                    let row: Vec<u32> = (0..stride).map(|_| next()).collect();
                    assert_eq!(isa.hash(&hasher, &row, &tuple), hasher.hash(&row, &tuple));
                    let probes = Probes {
                        lane: std::array::from_fn(|_| next() % stride as u32),
                        shift: std::array::from_fn(|_| next() % 32),
                        factor: std::array::from_fn(|_| next()),
                        right: std::array::from_fn(|_| 26 + next() % 6),
                        start: std::array::from_fn(|_| next() % 37),
                    };
                    let mut bits = || u64::from(next()) << 32 | u64::from(next()) << 5;
                    let words: [u64; 100] = std::array::from_fn(|_| u64::MAX ^ 1 << (bits() % 64));
                    assert_eq!(isa.common8(&probes, &row, &words), plain.common8(&probes, &row, &words));
                    let mut rows: [[u32; 32]; 3] = std::array::from_fn(|_| std::array::from_fn(|_| next() & next()));
                    let last = next() as usize % 33;
                    rows[0].iter_mut().enumerate().filter(|(at, _)| *at != last).for_each(|(_, word)| *word &= 1 << 31);
                    let lines: Vec<Line> = rows
                        .as_flattened()
                        .as_chunks()
                        .0
                        .iter()
                        .map(|&line| Line(line))
                        .chain([Line::default()])
                        .collect();
                    let mut eights = || std::array::from_fn(|_| std::array::from_fn(|_| next() as u16 % 3));
                    let places: [[[u16; 8]; 2]; 2] = [eights(), eights()];
                    for among in [None, Some(&rows[2])] {
                        let capped = |found: [[u32; 8]; 2]| found.map(|of| of.map(|bit| bit.min(1024)));
                        let (mut found, mut want) = ([[0; 8]; 2], [[0; 8]; 2]);
                        isa.first_common8::<2, 128>(&lines, [&places[0], &places[1]], among, &mut found);
                        plain.first_common8::<2, 128>(&lines, [&places[0], &places[1]], among, &mut want);
                        assert_eq!(capped(found), capped(want));
                        let near = places.map(|of| of.map(|eight| eight.map(|place| place * 16)));
                        isa.first_common8::<2, 8>(&lines, [&near[0], &near[1]], among, &mut found);
                        assert_eq!(capped(found), capped(want));
                    }
                    for count in 1..=3 {
                        let rows = || rows[..count].iter();
                        assert_eq!(isa.first_common(rows()).min(1024), plain.first_common(rows()).min(1024));
                    }
                }
            }
            assert!(hits > 1000 && misses > 1000, "{hits} hits, {misses} misses");
        }
    }

    #[test]
    fn every_level_answers_as_the_scalar_one() {
        for level in Level::available() {
            dispatch(level, Compare);
        }
    }
}
