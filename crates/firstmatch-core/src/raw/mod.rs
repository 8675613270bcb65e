//! Instruction sets: the only unsafe code of the core.
//!
//! An instruction set is a zero-sized token that implements `Isa`. Only `dispatch` hands one out, after it has
//! detected the set on this machine. A lookup is a `Kernel`, generic over the token. `Isa::vectorize` compiles it
//! whole for the set, so that the operations inline into its loops.
//!
//! Operations take arrays and slices and are safe to call. The scalar ones are always compiled and tested, because
//! they define the answers of the others.
//!
//! Code outside the core uses [`Lanes`], eight words side by side, in the same manner ([`with_lanes`]).
//!
//! There are also a lock that no thread waits for and a box that knows the type of its value. They are safe to use.
#![expect(
    unsafe_code,
    reason = "vector intrinsics, casts from lines to words and to known types, a lock; each block says what it relies on"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod erased;
mod gather;
mod halving;
mod hash;
mod isa;
mod lanes;
mod lanes_of_isa;
mod line;
mod scalar;
mod sync;
mod tree;
mod try_lock;

pub(crate) use erased::Erased;
pub(crate) use gather::gather;
pub(crate) use halving::halve;
#[cfg(test)]
pub(crate) use hash::tests::truncated;
pub(crate) use hash::{Hasher, secrets};
pub(crate) use isa::{Isa, Kernel, Probes};
pub use lanes::{LANES, Lanes, LanesKernel};
pub(crate) use line::{LINE_WORDS, Line, word, words, words_mut};
pub(crate) use tree::{MOST_LEVELS, Pages, Table, Tree};
pub(crate) use try_lock::TryLock;

use crate::error::BuildError;

/// Instruction set that lookups can be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// No vector instructions.
    Scalar,
    /// AVX2 with BMI1, BMI2, LZCNT and POPCNT.
    Avx2,
}

impl Level {
    /// All levels, the best last.
    pub const ALL: [Self; 2] = [Self::Scalar, Self::Avx2];

    /// Whether this machine has the level.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::Avx2::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => false,
        }
    }

    /// Returns the levels of this machine, the best last.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|level| level.is_available())
    }

    /// Returns the name: `scalar` or `avx2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
        }
    }

    /// Returns the best level of this machine that is at most `most`, or the best of all.
    pub fn best(most: Option<Self>) -> Self {
        Self::available().filter(|&level| most.is_none_or(|most| level <= most)).last().unwrap_or(Self::Scalar)
    }

    /// Returns the forced level, or else the best of this machine.
    ///
    /// # Errors
    /// If this machine lacks the forced level.
    pub(crate) fn choose(forced: Option<Self>) -> Result<Self, BuildError> {
        match forced {
            Some(level) if level.is_available() => Ok(level),
            Some(level) => Err(BuildError::simd(level.name())),
            None => Ok(Self::best(None)),
        }
    }
}

/// Prefetches the cache line of a place in memory, if the machine has an instruction for it.
///
/// It is public for engines outside this crate.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    avx2::prefetch(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
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
    dispatch_scalar(kernel);
}

/// Runs a kernel with vectors on processors that may have them, and without on others.
///
/// So the kernel is compiled once. Another kernel must serve x86-64 machines at [`Level::Scalar`].
///
/// # Panics
/// If the machine is an x86-64 without [`Level::Avx2`].
#[inline(always)]
pub(crate) fn dispatch_vectors(kernel: impl Kernel) {
    #[cfg(target_arch = "x86_64")]
    avx2::Avx2::detect().expect("the level is available").vectorize(kernel);
    #[cfg(not(target_arch = "x86_64"))]
    dispatch_scalar(kernel);
}

/// Runs a kernel without vectors, as every machine can.
///
/// Counted lookups use it: their kernels are then compiled for one level alone.
#[inline(always)]
pub(crate) fn dispatch_scalar(kernel: impl Kernel) {
    kernel.run_apart(scalar::Scalar);
}

/// Runs a kernel at a level that this machine has, as [`Level::best`] says.
///
/// ```
/// use firstmatch_core::raw::{Lanes, LanesKernel, Level, with_lanes};
///
/// /// Doubles eight words.
/// struct Double<'a>(&'a mut [u8; 8]);
///
/// impl LanesKernel for Double<'_> {
///     #[inline(always)]
///     fn run(self, lanes: impl Lanes) {
///         let words = lanes.words(self.0.map(u32::from));
///         *self.0 = lanes.low_bytes(lanes.shl::<1>(words));
///     }
/// }
///
/// let mut bytes = [1, 2, 3, 4, 5, 6, 7, 8];
/// with_lanes(Level::best(None), Double(&mut bytes));
/// assert_eq!(bytes, [2, 4, 6, 8, 10, 12, 14, 16]);
/// ```
#[inline(always)]
pub fn with_lanes(level: Level, kernel: impl LanesKernel) {
    dispatch(level, Of(kernel));
}

struct Of<K>(K);

impl<K: LanesKernel> Kernel for Of<K> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        self.0.run(isa);
    }
}

#[cfg(test)]
mod tests {
    use super::gather::Gather as _;
    use super::*;

    /// Kernel that compares every operation with the scalar one.
    ///
    /// The words are pseudo-random and near the edges of `u32`.
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
            for key_words in 1..=13usize {
                for _ in 0..4000 {
                    let mut key: Vec<u32> = (0..key_words).map(|_| next()).collect();
                    let near = |k: u32, r: u32| if r > 2 { k } else { r };
                    let lo: Vec<u32> = key.iter().map(|&k| near(k, next()).min(k)).collect();
                    let mut hi: Vec<u32> = key.iter().map(|&k| near(k, next()).max(k)).collect();
                    if next() & 1 == 0 {
                        let word = next() as usize % key_words;
                        hi[word] = hi[word].saturating_sub(1).max(lo[word]);
                    }
                    key.resize(key_words.next_multiple_of(4), 0);
                    let mut entry = [&lo[..], &hi[..]].concat();
                    entry.resize(2 * key_words + 5, 0xDEAD_BEEF);
                    let want = plain.inside(&entry, &key, key_words);
                    assert_eq!(isa.inside(&entry, &key, key_words), want);
                    if want {
                        hits += 1;
                    } else {
                        misses += 1;
                    }

                    let words: Vec<[u32; 2]> = (0..20 * key_words).map(|_| [next(), next()]).collect();
                    let word = |&[low, high]: &[u32; 2]| u64::from(low) | u64::from(high) << 32;
                    assert_eq!(isa.count_ones64(&words, word), plain.count_ones64(&words, word));

                    let mut block: Vec<u32> = (0..key_words * 16).map(|_| next()).collect();
                    for bounds in block.chunks_exact_mut(16) {
                        for i in 0..8 {
                            (bounds[i], bounds[i + 8]) = (bounds[i].min(bounds[i + 8]), bounds[i].max(bounds[i + 8]));
                        }
                    }
                    assert_eq!(isa.inside8(&block, &key, key_words), plain.inside8(&block, &key, key_words));
                    let tags: [u32; 8] = std::array::from_fn(|_| next());
                    assert_eq!(isa.equal8(&tags, key[0]), plain.equal8(&tags, key[0]));
                    for bounds in block.as_chunks::<16>().0 {
                        let among = u32::from(next() as u16) & !0x11;
                        assert_eq!(
                            isa.count_at_most(bounds, among, key[0]),
                            plain.count_at_most(bounds, among, key[0])
                        );
                        assert_eq!(isa.within8(bounds, key[0]), plain.within8(bounds, key[0]));
                        let (from, to) = (key[0], key[0].saturating_add(key[1] % 5));
                        assert_eq!(isa.overlaps8(bounds, from, to), plain.overlaps8(bounds, from, to));
                    }
                    // Halves and bytes are made into intervals: upper bounds are raised to the lower ones.
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
                    let line = Line(std::array::from_fn(|at| next() & if at < 12 { u32::MAX } else { next() }));
                    for value in [0, a as u16, (line.0[3] >> 16) as u16, line.0[8] as u16, u16::MAX] {
                        assert_eq!(isa.spans12(&line, value, b as u8), plain.spans12(&line, value, b as u8));
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
                    let (values, open) = prefix(32 * key_words.min(7));
                    let row = &key[..key_words.min(7)];
                    assert_eq!(isa.prefixes8(&values, &open, row), plain.prefixes8(&values, &open, row));
                    let masks: [u32; 16] = std::array::from_fn(|_| next());
                    assert_eq!(isa.masked8(&masks, key[0]), plain.masked8(&masks, key[0]));
                }
                let stride = key_words.next_multiple_of(4);
                for _ in 0..200 {
                    let hasher = Hasher::new(stride, &mut next);
                    let tuple: Vec<u32> = (0..stride).map(|_| next()).collect();
                    let row: Vec<u32> = (0..stride).map(|_| next()).collect();
                    assert_eq!(isa.hash(&hasher, &row, &tuple), hasher.hash(&row, &tuple));
                    let probes = Probes {
                        word: std::array::from_fn(|_| next() % stride as u32),
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
                    compare_rows::<I, 32>(isa, &rows, &lines, places);
                    compare_rows::<I, 16>(isa, &rows, &lines, places);
                }
            }
            assert!(hits > 1000 && misses > 1000, "{hits} hits, {misses} misses");
        }
    }

    /// Asserts that `isa` and the scalar code find the same first common bits.
    ///
    /// Each row is the first `WORDS` words of one of `rows`; `lines` holds the same rows back to back.
    fn compare_rows<I: Isa, const WORDS: usize>(
        isa: I,
        rows: &[[u32; 32]; 3],
        lines: &[Line],
        places: [[[u16; 8]; 2]; 2],
    ) {
        let (plain, bits) = (scalar::Scalar, 32 * WORDS as u32);
        let rows = rows.each_ref().map(|row| row.first_chunk::<WORDS>().expect("as long"));
        for among in [None, Some(rows[2])] {
            let capped = |found: [[u32; 8]; 2]| found.map(|of| of.map(|bit| bit.min(bits)));
            let (mut found, mut want) = ([[0; 8]; 2], [[0; 8]; 2]);
            isa.first_common8::<2, WORDS, 128>(lines, [&places[0], &places[1]], among, &mut found);
            plain.first_common8::<2, WORDS, 128>(lines, [&places[0], &places[1]], among, &mut want);
            assert_eq!(capped(found), capped(want));
            let near = places.map(|of| of.map(|eight| eight.map(|place| place * 16)));
            isa.first_common8::<2, WORDS, 8>(lines, [&near[0], &near[1]], among, &mut found);
            assert_eq!(capped(found), capped(want));
        }
        for count in 1..=3 {
            let rows = || rows[..count].iter().copied();
            assert_eq!(isa.first_common(rows()).min(bits), plain.first_common(rows()).min(bits));
        }
    }

    #[test]
    fn every_level_answers_as_the_scalar_one() {
        for level in Level::available() {
            dispatch(level, Compare);
        }
    }

    /// Kernel that compares every operation with the scalar one, on pseudo-random words near the ends of their range.
    struct CompareLanes;

    impl LanesKernel for CompareLanes {
        #[inline(always)]
        fn run(self, lanes: impl Lanes) {
            let mut state = 7u64;
            let mut next = || {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                let word = (state >> 32) as u32;
                if word & 3 == 0 { [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX][word as usize % 5] } else { word }
            };
            for _ in 0..10_000 {
                let [a, mut b]: [[u32; LANES]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| next()));
                let at = next() as usize % LANES;
                b[at] = a[at];
                let mask = scalar::Scalar.greater(b, a);
                let bytes: [[u8; 16]; LANES] = std::array::from_fn(|_| std::array::from_fn(|_| next() as u8));
                let table: [u32; 512] = std::array::from_fn(|_| next());
                let (x, y, m) = (lanes.words(a), lanes.words(b), lanes.words(mask));
                let columns = lanes.columns(bytes.each_ref()).map(|words| all(lanes, words));
                assert_eq!(columns, scalar::Scalar.columns(bytes.each_ref()));
                assert_eq!(all(lanes, x), a);
                assert_eq!(all(lanes, lanes.splat(a[0])), scalar::Scalar.splat(a[0]));
                assert_eq!(all(lanes, lanes.and(x, y)), scalar::Scalar.and(a, b));
                assert_eq!(all(lanes, lanes.or(x, y)), scalar::Scalar.or(a, b));
                assert_eq!(all(lanes, lanes.sub(x, y)), scalar::Scalar.sub(a, b));
                assert_eq!(all(lanes, lanes.shr::<7>(x)), scalar::Scalar.shr::<7>(a));
                assert_eq!(all(lanes, lanes.shl::<9>(x)), scalar::Scalar.shl::<9>(a));
                assert_eq!(all(lanes, lanes.equal(x, y)), scalar::Scalar.equal(a, b));
                assert_eq!(all(lanes, lanes.greater(x, y)), scalar::Scalar.greater(a, b));
                assert_eq!(all(lanes, lanes.select(m, x, y)), scalar::Scalar.select(mask, a, b));
                assert_eq!(all(lanes, lanes.pick(&table, x)), scalar::Scalar.pick(&table, a));
            }
        }
    }

    /// Returns the words, byte by byte.
    #[inline(always)]
    fn all<L: Lanes>(lanes: L, words: L::Words) -> [u32; LANES] {
        let bytes = [
            lanes.low_bytes(words),
            lanes.low_bytes(lanes.shr::<8>(words)),
            lanes.low_bytes(lanes.shr::<16>(words)),
            lanes.low_bytes(lanes.shr::<24>(words)),
        ];
        std::array::from_fn(|i| u32::from_le_bytes(bytes.map(|of| of[i])))
    }

    #[test]
    fn lanes_of_every_level_answer_as_the_scalar_ones() {
        for level in Level::available() {
            with_lanes(level, CompareLanes);
        }
    }
}
