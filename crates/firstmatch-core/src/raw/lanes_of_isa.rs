//! [`Lanes`] of each instruction set.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
use super::lanes::{LANES, Lanes};
use super::scalar::Scalar;

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
