//! Steps over vectors of words.
//!
//! They are safe to call because every caller has an `Avx2` token.

use std::arch::x86_64::*;

#[inline(always)]
pub(super) fn load8(words: &[u32; 8]) -> __m256i {
    // SAFETY: an unaligned load of the 32 bytes behind the reference; AVX is there, an `Avx2` token exists in every
    // caller.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline(always)]
pub(super) fn load4(words: &[u32; 4]) -> __m128i {
    // SAFETY: an unaligned load of the 16 bytes behind the reference; SSE2 is part of x86-64.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

/// Returns one bit for each 32-bit lane that is all ones.
#[inline(always)]
pub(super) fn bits8(v: __m256i) -> u32 {
    // SAFETY: needs AVX, see `load8`.
    unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(v)) as u32 }
}

/// Returns all ones in the lanes where `lo <= k <= hi`, unsigned.
#[inline(always)]
pub(super) fn between8(lo: __m256i, k: __m256i, hi: __m256i) -> __m256i {
    // SAFETY: needs AVX2, see `load8`.
    unsafe { _mm256_cmpeq_epi32(_mm256_min_epu32(_mm256_max_epu32(k, lo), hi), k) }
}

/// Returns one bit for each of four lanes where `lo <= k <= hi`, unsigned.
#[inline(always)]
pub(super) fn between4(lo: __m128i, k: __m128i, hi: __m128i) -> u32 {
    // SAFETY: needs SSE4.1, which AVX2 implies, see `load8`.
    unsafe {
        let inside = _mm_cmpeq_epi32(_mm_min_epu32(_mm_max_epu32(k, lo), hi), k);
        _mm_movemask_ps(_mm_castsi128_ps(inside)) as u32
    }
}

#[inline(always)]
pub(super) fn zero() -> __m256i {
    // SAFETY: needs AVX, see `load8`.
    unsafe { _mm256_setzero_si256() }
}

/// Moves the upper 32 bits of each 64 to the place of the lower ones.
#[inline(always)]
fn upper(v: __m256i) -> __m256i {
    // SAFETY: needs AVX2, see `load8`.
    unsafe { _mm256_srli_epi64::<32>(v) }
}

/// Adds the products of neighbouring words of `(row & mask) + secret` to each 64-bit lane.
#[inline(always)]
pub(super) fn add_products(sum: __m256i, row: __m256i, mask: __m256i, secret: __m256i) -> __m256i {
    // SAFETY: needs AVX2, see `load8`.
    unsafe {
        let words = _mm256_add_epi32(_mm256_and_si256(row, mask), secret);
        _mm256_add_epi64(sum, _mm256_mul_epu32(words, upper(words)))
    }
}

/// Returns four words, then zeros.
#[inline(always)]
pub(super) fn widen(words: &[u32; 4]) -> __m256i {
    // SAFETY: needs AVX, see `load8`.
    unsafe { _mm256_zextsi128_si256(load4(words)) }
}

/// Returns the sum of the lanes of 64 bits.
#[inline(always)]
pub(super) fn total(v: __m256i) -> u64 {
    // SAFETY: needs AVX2, see `load8`.
    unsafe {
        let two = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
        _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) as u64
    }
}

/// Returns a row of 16 or 32 words in vectors of eight; missing ones are 0.
#[inline(always)]
pub(super) fn parts<const WORDS: usize>(row: &[u32; WORDS]) -> [__m256i; 4] {
    const { assert!(WORDS == 16 || WORDS == 32) };
    match row.as_chunks::<8>().0 {
        [a, b, c, d] => [load8(a), load8(b), load8(c), load8(d)],
        [a, b] => [load8(a), load8(b), zero(), zero()],
        _ => [zero(); 4],
    }
}

/// Returns the index of the first of `WORDS` words that is not 0; `WORDS` if there is none.
#[inline(always)]
pub(super) fn first_word<const WORDS: usize>([a, b, c, d]: [__m256i; 4]) -> usize {
    // SAFETY: needs AVX2, see `load8`. Words that are not 0 saturate to values that are not 0. Narrowing puts the
    // lower halves of all vectors before the upper ones, so their order is restored.
    unsafe {
        if WORDS == 16 {
            let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(a, b));
            let none = _mm256_movemask_epi8(_mm256_cmpeq_epi16(halves, zero())) as u32;
            return (!u64::from(none)).trailing_zeros() as usize / 2;
        }
        let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let none = _mm256_cmpeq_epi8(_mm256_permutevar8x32_epi32(bytes, order), zero());
        (!u64::from(_mm256_movemask_epi8(none) as u32)).trailing_zeros() as usize
    }
}
