//! Eight words side by side, for computations outside the core.
//!
//! [`with_lanes`] compiles a [`LanesKernel`] for an instruction set. The kernel is written once, over [`Lanes`].

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
use super::isa::{Isa, Kernel};
use super::scalar::Scalar;
use super::{Level, dispatch};

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

impl Lanes for Scalar {
    type Words = [u32; LANES];

    #[inline(always)]
    fn splat(self, word: u32) -> Self::Words {
        [word; LANES]
    }

    #[inline(always)]
    fn words(self, words: [u32; LANES]) -> Self::Words {
        words
    }

    #[inline(always)]
    fn columns(self, records: [&[u8; 16]; LANES]) -> [Self::Words; 4] {
        let word = |record: &[u8; 16], at: usize| {
            u32::from_le_bytes([record[4 * at], record[4 * at + 1], record[4 * at + 2], record[4 * at + 3]])
        };
        std::array::from_fn(|at| records.map(|record| word(record, at)))
    }

    #[inline(always)]
    fn and(self, a: Self::Words, b: Self::Words) -> Self::Words {
        std::array::from_fn(|i| a[i] & b[i])
    }

    #[inline(always)]
    fn or(self, a: Self::Words, b: Self::Words) -> Self::Words {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn sub(self, a: Self::Words, b: Self::Words) -> Self::Words {
        std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
    }

    #[inline(always)]
    fn shr<const BITS: i32>(self, a: Self::Words) -> Self::Words {
        a.map(|word| word >> BITS)
    }

    #[inline(always)]
    fn shl<const BITS: i32>(self, a: Self::Words) -> Self::Words {
        a.map(|word| word << BITS)
    }

    #[inline(always)]
    fn equal(self, a: Self::Words, b: Self::Words) -> Self::Words {
        std::array::from_fn(|i| u32::from(a[i] == b[i]).wrapping_neg())
    }

    #[inline(always)]
    fn greater(self, a: Self::Words, b: Self::Words) -> Self::Words {
        std::array::from_fn(|i| u32::from(a[i].cast_signed() > b[i].cast_signed()).wrapping_neg())
    }

    #[inline(always)]
    fn select(self, mask: Self::Words, a: Self::Words, b: Self::Words) -> Self::Words {
        std::array::from_fn(|i| if mask[i] != 0 { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn pick(self, table: &[u32; 512], index: Self::Words) -> Self::Words {
        index.map(|index| table[index as usize % 512])
    }

    #[inline(always)]
    fn low_bytes(self, a: Self::Words) -> [u8; LANES] {
        a.map(|word| word as u8)
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    type Words = __m256i;

    #[inline(always)]
    fn splat(self, word: u32) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_set1_epi32(word.cast_signed()) }
    }

    #[inline(always)]
    fn words(self, words: [u32; LANES]) -> __m256i {
        // SAFETY: an unaligned load of the 32 bytes of the array; needs AVX, which the token proves.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn columns(self, records: [&[u8; 16]; LANES]) -> [__m256i; 4] {
        // SAFETY: unaligned loads of the 16 bytes behind each reference; needs AVX2, which the token proves.
        unsafe {
            let load = |at: usize| _mm_loadu_si128(records[at].as_ptr().cast());
            // Records 0 to 3 in the lower halves, 4 to 7 in the upper ones.
            let [a, b, c, d] =
                std::array::from_fn(|at| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(at)), load(at + 4)));
            let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
            let (above_ab, above_cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(above_ab, above_cd),
                _mm256_unpackhi_epi64(above_ab, above_cd),
            ]
        }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn shr<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_srli_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn shl<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_slli_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn equal(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_cmpeq_epi32(a, b) }
    }

    #[inline(always)]
    fn greater(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_cmpgt_epi32(a, b) }
    }

    #[inline(always)]
    fn select(self, mask: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: needs AVX2, which the token proves.
        unsafe { _mm256_blendv_epi8(b, a, mask) }
    }

    #[inline(always)]
    fn pick(self, table: &[u32; 512], index: __m256i) -> __m256i {
        // SAFETY: no index is above 511, so each load is within the table; needs AVX2, which the token proves.
        unsafe {
            let index = _mm256_and_si256(index, _mm256_set1_epi32(511));
            _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), index)
        }
    }

    #[inline(always)]
    fn low_bytes(self, a: __m256i) -> [u8; LANES] {
        // SAFETY: needs AVX2, which the token proves.
        let bytes = unsafe {
            let order = _mm256_set1_epi64x(0xc08_0400);
            let low = _mm256_shuffle_epi8(a, order);
            let both = _mm256_permutevar8x32_epi32(low, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4));
            _mm_cvtsi128_si64(_mm256_castsi256_si128(both))
        };
        bytes.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernel that compares every operation with the scalar one, on pseudo-random words near the ends of their range.
    struct Compare;

    impl LanesKernel for Compare {
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
                let mask = Scalar.greater(b, a);
                let bytes: [[u8; 16]; LANES] = std::array::from_fn(|_| std::array::from_fn(|_| next() as u8));
                let table: [u32; 512] = std::array::from_fn(|_| next());
                let (x, y, m) = (lanes.words(a), lanes.words(b), lanes.words(mask));
                let columns = lanes.columns(bytes.each_ref()).map(|words| all(lanes, words));
                assert_eq!(columns, Scalar.columns(bytes.each_ref()));
                assert_eq!(all(lanes, x), a);
                assert_eq!(all(lanes, lanes.splat(a[0])), Scalar.splat(a[0]));
                assert_eq!(all(lanes, lanes.and(x, y)), Scalar.and(a, b));
                assert_eq!(all(lanes, lanes.or(x, y)), Scalar.or(a, b));
                assert_eq!(all(lanes, lanes.sub(x, y)), Scalar.sub(a, b));
                assert_eq!(all(lanes, lanes.shr::<7>(x)), Scalar.shr::<7>(a));
                assert_eq!(all(lanes, lanes.shl::<9>(x)), Scalar.shl::<9>(a));
                assert_eq!(all(lanes, lanes.equal(x, y)), Scalar.equal(a, b));
                assert_eq!(all(lanes, lanes.greater(x, y)), Scalar.greater(a, b));
                assert_eq!(all(lanes, lanes.select(m, x, y)), Scalar.select(mask, a, b));
                assert_eq!(all(lanes, lanes.pick(&table, x)), Scalar.pick(&table, a));
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
    fn every_level_answers_as_the_scalar_one() {
        for level in Level::available() {
            with_lanes(level, Compare);
        }
    }
}
