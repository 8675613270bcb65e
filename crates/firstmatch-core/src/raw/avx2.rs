//! Operations with AVX2.

mod vectors;

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicBool, Ordering};

use vectors::{add_products, between4, between8, bits8, first_word, load4, load8, parts, total, widen, zero};

use super::gather::Gather;
use super::hash::Hasher;
use super::isa::{Isa, Kernel, Probes};
use super::line::{Line, word};
use super::tree::{Node, TreeView};

/// Proof that the machine has AVX2, BMI1, BMI2, LZCNT and POPCNT: only `detect` makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// Returns the proof, if the machine has all features.
    ///
    /// A success is remembered, because testing five features takes longer than looking up a single key.
    #[inline(always)]
    pub(super) fn detect() -> Option<Self> {
        (SEEN.load(Ordering::Relaxed) || Self::look()).then_some(Self(()))
    }

    #[cold]
    fn look() -> bool {
        let all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        SEEN.store(all, Ordering::Relaxed);
        all
    }
}

/// Whether the machine has been seen to have all features.
static SEEN: AtomicBool = AtomicBool::new(false);

impl Gather for Avx2 {
    #[inline(always)]
    fn gather(self, word: u64, mask: u64) -> u64 {
        // SAFETY: needs BMI2, which the token proves.
        unsafe { _pext_u64(word, mask) }
    }
}

impl Isa for Avx2 {
    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) {
        // SAFETY: the token proves that the machine has the features.
        unsafe { kernel.run_avx2(self) }
    }

    #[inline(always)]
    fn call<T>(self, step: impl FnOnce() -> T) -> T {
        step()
    }

    #[inline(always)]
    fn inside(self, entry: &[u32], key: &[u32], key_words: usize) -> bool {
        let (mut lo, mut hi, mut left) = (entry, &entry[key_words..], key_words);
        let mut key = key;
        while let Some((k, rest)) = key.split_first_chunk::<8>() {
            let (Some((l, lo_rest)), Some((h, hi_rest))) = (lo.split_first_chunk::<8>(), hi.split_first_chunk::<8>())
            else {
                break;
            };
            // Words beyond `key_words` are no bounds, so the answers for them are ignored.
            let want = if left >= 8 { 0xFF } else { (1 << left) - 1 };
            if bits8(between8(load8(l), load8(k), load8(h))) & want != want {
                return false;
            }
            (key, lo, hi, left) = (rest, lo_rest, hi_rest, left.saturating_sub(8));
            if left == 0 {
                return true;
            }
        }
        while let (Some((k, rest)), Some((l, lo_rest)), Some((h, hi_rest))) =
            (key.split_first_chunk::<4>(), lo.split_first_chunk::<4>(), hi.split_first_chunk::<4>())
        {
            let want = if left >= 4 { 0xF } else { (1 << left) - 1 };
            if between4(load4(l), load4(k), load4(h)) & want != want {
                return false;
            }
            (key, lo, hi, left) = (rest, lo_rest, hi_rest, left.saturating_sub(4));
        }
        assert!(left == 0, "an entry holds as many words as a row after its lower bounds");
        true
    }

    #[inline(always)]
    fn equal8(self, words: &[u32; 8], word: u32) -> u32 {
        // SAFETY: needs AVX2, see `load8`.
        bits8(unsafe { _mm256_cmpeq_epi32(load8(words), _mm256_set1_epi32(word as i32)) })
    }

    #[inline(always)]
    fn count_at_most(self, words: &[u32; 16], among: u32, word: u32) -> usize {
        let [first, second] = words.as_chunks::<8>().0 else { return 0 };
        // SAFETY: needs AVX, see `load8`.
        let k = unsafe { _mm256_set1_epi32(word as i32) };
        // SAFETY: needs AVX2, see `load8`.
        let at_most = |half| bits8(unsafe { _mm256_cmpeq_epi32(_mm256_max_epu32(load8(half), k), k) });
        ((at_most(first) | at_most(second) << 8) & among).count_ones() as usize
    }

    #[inline(always)]
    fn inside8(self, block: &[u32], key: &[u32], key_words: usize) -> u32 {
        let mut hits = 0xFF;
        for (bounds, &word) in block.as_chunks::<16>().0.iter().zip(key).take(key_words) {
            let [lo, hi] = bounds.as_chunks::<8>().0 else { return 0 };
            // SAFETY: needs AVX, see `load8`.
            let k = unsafe { _mm256_set1_epi32(word as i32) };
            hits &= bits8(between8(load8(lo), k, load8(hi)));
            if hits == 0 {
                return 0;
            }
        }
        hits
    }

    #[inline(always)]
    fn masked8(self, value_mask: &[u32; 16], word: u32) -> u32 {
        let [value, mask] = value_mask.as_chunks::<8>().0 else { return 0 };
        // SAFETY: needs AVX2, see `load8`.
        bits8(unsafe {
            _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(word as i32), load8(mask)), load8(value))
        })
    }

    #[inline(always)]
    fn hash(self, hasher: &Hasher, row: &[u32], tuple: &[u32]) -> u32 {
        // Both slices are cut to the length of the row, so that the compiler knows the length of the loop if it knows
        // that of the row.
        let row_len = row.len();
        let ((rows, row), (masks, mask)) = (row.as_chunks::<8>(), tuple[..row_len].as_chunks::<8>());
        let (secrets, secret) = hasher.secret[..row_len].as_chunks::<8>();
        let mut sum = zero();
        for ((row, mask), secret) in rows.iter().zip(masks).zip(secrets) {
            sum = add_products(sum, load8(row), load8(mask), load8(secret));
        }
        if let (Some(row), Some(mask), Some(secret)) = (row.first_chunk(), mask.first_chunk(), secret.first_chunk()) {
            sum = add_products(sum, widen(row), widen(mask), widen(secret));
        }
        hasher.finish(total(sum))
    }

    #[inline(always)]
    fn common8(self, probes: &Probes, row: &[u32], words: &[u64]) -> u64 {
        let picked = match <&[u32; 8]>::try_from(row) {
            // SAFETY: needs AVX2, see `load8`; each word is below 8, since it is below the length of the row.
            Ok(row) => unsafe { _mm256_permutevar8x32_epi32(load8(row), load8(&probes.word)) },
            Err(_) => {
                let mut picked = [0; 8];
                for (place, &word) in picked.iter_mut().zip(&probes.word) {
                    *place = row[word as usize];
                }
                load8(&picked)
            }
        };
        let count = u32::try_from(words.len()).unwrap_or(u32::MAX);
        // SAFETY: needs AVX2, see `load8`.
        let (beyond, places) = unsafe {
            let values = _mm256_srlv_epi32(picked, load8(&probes.shift));
            let rows = _mm256_srlv_epi32(_mm256_mullo_epi32(values, load8(&probes.factor)), load8(&probes.right));
            let at = _mm256_add_epi32(rows, load8(&probes.start));
            let count = _mm256_set1_epi32(count as i32);
            let beyond = bits8(_mm256_cmpeq_epi32(_mm256_max_epu32(at, count), at));
            let (low, high) = (_mm256_castsi256_si128(at), _mm256_extracti128_si256::<1>(at));
            let pairs = [low, _mm_unpackhi_epi64(low, low), high, _mm_unpackhi_epi64(high, high)];
            let mut places = [0; 4];
            for (place, pair) in places.iter_mut().zip(pairs) {
                *place = _mm_cvtsi128_si64(pair) as u64;
            }
            (beyond, places)
        };
        assert!(beyond == 0, "a probe chooses a word that is there");
        let mut common = u64::MAX;
        for pair in places {
            // SAFETY: no place is at or beyond `count`, which is at most the number of words.
            common &= unsafe { words.get_unchecked(pair as u32 as usize) & words.get_unchecked((pair >> 32) as usize) };
        }
        common
    }

    #[inline(always)]
    fn count_ones64<T>(self, list: &[T], word: impl Fn(&T) -> u64) -> [u8; 64] {
        // SAFETY: needs AVX2, which the token proves; the stores are of two times 32 bytes.
        unsafe {
            let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            // Repeats each byte eight times.
            let times = |byte: i64| 0x0101_0101_0101_0101 * byte;
            let spread = [0, 4].map(|at| _mm256_setr_epi64x(times(at), times(at + 1), times(at + 2), times(at + 3)));
            let mut counts = [zero(); 2];
            for entry in list {
                let word = _mm256_set1_epi64x(word(entry) as i64);
                for (count, spread) in counts.iter_mut().zip(spread) {
                    let ones = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(word, spread), bit), bit);
                    *count = _mm256_sub_epi8(*count, ones);
                }
            }
            let mut bytes = [0; 64];
            for (bytes, count) in bytes.chunks_exact_mut(32).zip(counts) {
                _mm256_storeu_si256(bytes.as_mut_ptr().cast(), count);
            }
            bytes
        }
    }

    #[inline(always)]
    fn choose8<T>(
        self,
        table: &[u32],
        masks: [u64; 2],
        rows: &[[T; 8]],
        words: impl Fn(&T) -> [u64; 2],
        entries: &mut [[u32; 8]],
    ) {
        let bits = masks.map(u64::count_ones);
        let most = 1usize.checked_shl(bits[0] + bits[1]).expect("few bits");
        assert!(most <= table.len(), "a table has an entry for all bits that are named");
        // SAFETY: the table has an entry for all bits that are selected.
        unsafe {
            match masks {
                [_, 0] => self.choose_each8::<T, true, false>(table, masks, rows, words, entries),
                [0, _] => self.choose_each8::<T, false, true>(table, masks, rows, words, entries),
                _ => self.choose_each8::<T, true, true>(table, masks, rows, words, entries),
            }
        }
    }

    #[inline(always)]
    fn prefixes8(self, values: &[[u32; 8]], open: &[u32; 2], row: &[u32]) -> u32 {
        // SAFETY: needs AVX2, see `load8`. Shifts by 32 and more leave 0. Numbers of open bits fit into the lower
        // half of each lane. A shuffle spreads them, because the compiler would compare values that it knows to be
        // bytes with 32 once more.
        unsafe {
            let spread = load8(&[0, 1, 2, 3, 4, 5, 6, 7].map(|byte| byte | 0x8080_8000));
            let open = _mm256_shuffle_epi8(_mm256_set1_epi64x(word(*open) as i64), spread);
            let mut differ = zero();
            for ((values, &word), after) in values.iter().zip(row).zip((0..values.len() as i32).rev()) {
                let open = if after == 0 { open } else { _mm256_subs_epu16(open, _mm256_set1_epi32(32 * after)) };
                let bits = _mm256_xor_si256(load8(values), _mm256_set1_epi32(word as i32));
                differ = _mm256_or_si256(differ, _mm256_srlv_epi32(bits, open));
            }
            bits8(_mm256_cmpeq_epi32(differ, zero()))
        }
    }

    #[inline(always)]
    fn within8(self, bounds: &[u32; 16], word: u32) -> u32 {
        let [lo, hi] = bounds.as_chunks::<8>().0 else { return 0 };
        // SAFETY: needs AVX, see `load8`.
        let k = unsafe { _mm256_set1_epi32(word as i32) };
        bits8(between8(load8(lo), k, load8(hi)))
    }

    #[inline(always)]
    fn overlaps8(self, bounds: &[u32; 16], from: u32, to: u32) -> u32 {
        let [lo, hi] = bounds.as_chunks::<8>().0 else { return 0 };
        // SAFETY: needs AVX2, see `load8`.
        bits8(unsafe {
            let largest = _mm256_max_epu32(load8(lo), _mm256_set1_epi32(from as i32));
            let smallest = _mm256_min_epu32(load8(hi), _mm256_set1_epi32(to as i32));
            _mm256_cmpeq_epi32(_mm256_min_epu32(largest, smallest), largest)
        })
    }

    #[inline(always)]
    fn within8_halves(self, bounds: &[u32; 16], pair: &[u32; 2]) -> u32 {
        let [lo, hi] = bounds.as_chunks::<8>().0 else { return 0 };
        // SAFETY: needs AVX2, see `load8`; the pair is read as the eight bytes that it is.
        bits8(unsafe {
            let words = _mm256_set1_epi64x(pair.as_ptr().cast::<i64>().read_unaligned());
            let k = _mm256_packus_epi32(words, words);
            _mm256_cmpeq_epi32(_mm256_min_epu16(_mm256_max_epu16(k, load8(lo)), load8(hi)), k)
        })
    }

    #[inline(always)]
    fn within8_bytes(self, bounds: &[u32; 4], byte: u8) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let (lo, k) = (load4(bounds), _mm_set1_epi8(byte as i8));
            let hi = _mm_unpackhi_epi64(lo, lo);
            let inside = _mm_cmpeq_epi8(_mm_min_epu8(_mm_max_epu8(k, lo), hi), k);
            _mm_movemask_epi8(inside) as u32 & 0xFF
        }
    }

    #[inline(always)]
    fn either8_bytes(self, bytes: &[u32; 2], either: [u8; 2]) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let bytes = _mm_cvtsi64_si128(word(*bytes) as i64);
            let [a, b] = either.map(|byte| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8)));
            _mm_movemask_epi8(_mm_or_si128(a, b)) as u32 & 0xFF
        }
    }

    #[inline(always)]
    fn spans12(self, line: &Line, value: u16, bits: u8) -> u32 {
        let words = line.0.as_ptr();
        // SAFETY: needs AVX2, see `load8`. Unaligned loads of 32 bytes at 0 and 24 and of 16 bytes at 48 of a line of 64.
        unsafe {
            let firsts = _mm256_loadu_si256(words.cast());
            let spans = _mm256_loadu_si256(words.add(6).cast());
            let bytes = _mm_loadu_si128(words.add(12).cast());
            let distances = _mm256_sub_epi16(_mm256_set1_epi16(value as i16), firsts);
            let within = _mm256_cmpeq_epi16(_mm256_min_epu16(distances, spans), distances);
            let within = _mm_packs_epi16(_mm256_castsi256_si128(within), _mm256_extracti128_si256::<1>(within));
            let without = _mm_cmpeq_epi8(_mm_and_si128(bytes, _mm_set1_epi8(bits as i8)), _mm_setzero_si128());
            _mm_movemask_epi8(_mm_andnot_si128(without, within)) as u32 & 0xFFF
        }
    }

    #[inline(always)]
    fn below8(self, words: &[u32; 8], limits: &[u32; 8]) -> (u32, u32) {
        let k = load8(words);
        // SAFETY: needs AVX2, see `load8`.
        let at_least = unsafe { _mm256_cmpeq_epi32(_mm256_max_epu32(k, load8(limits)), k) };
        (bits8(at_least) ^ 0xFF, self.odd8(words))
    }

    #[inline(always)]
    fn odd8(self, words: &[u32; 8]) -> u32 {
        // SAFETY: needs AVX2, see `load8`.
        bits8(unsafe { _mm256_slli_epi32::<31>(load8(words)) })
    }

    #[inline(always)]
    fn find<const DEPTH: usize, const WORDS: usize>(
        self,
        tree: TreeView<'_, DEPTH>,
        words: [u32; WORDS],
        again: [&u32; WORDS],
    ) -> [u16; WORDS] {
        let mut places = [0; WORDS];
        let mut wide = [zero(); WORDS];
        for ((place, word), (wide, again)) in places.iter_mut().zip(words).zip(wide.iter_mut().zip(again)) {
            *place = tree.root(self, word);
            // SAFETY: needs AVX, see `load8`.
            *wide = unsafe { _mm256_set1_epi32(*again as i32) };
        }
        for _ in 0..DEPTH {
            for (place, &wide) in places.iter_mut().zip(&wide) {
                // SAFETY: the place is from the root or from a node, and fewer than `DEPTH` nodes came before.
                let Node { bounds, next } = unsafe { tree.node(*place) };
                // SAFETY: a load of the 32 bytes behind the reference; needs AVX2, see `load8`.
                let above = bits8(unsafe { _mm256_cmpgt_epi32(wide, _mm256_load_si256(bounds.as_ptr().cast())) });
                *place = next[above.count_ones() as usize & (next.len() - 1)];
            }
        }
        places
    }

    #[inline(always)]
    fn first_common<'a, const WORDS: usize>(self, rows: impl Iterator<Item = &'a [u32; WORDS]> + Clone) -> u32 {
        // SAFETY: needs AVX2, see `load8`.
        let mut common = unsafe { [_mm256_set1_epi32(-1); 4] };
        for row in rows.clone() {
            for (common, part) in common.iter_mut().zip(parts(row)) {
                // SAFETY: as above.
                *common = unsafe { _mm256_and_si256(*common, part) };
            }
        }
        let first = first_word::<WORDS>(common);
        // The word is read from the rows again, because it would take longer to come back from a store of eight.
        let word = rows.fold(u32::MAX, |word, row| word & row[first & (WORDS - 1)]);
        32 * first as u32 + word.trailing_zeros()
    }

    #[inline(always)]
    fn first_common8<const ROWS: usize, const WORDS: usize, const UNIT: usize>(
        self,
        lines: &[Line],
        places: [&[[u16; 8]]; ROWS],
        among: Option<&[u32; WORDS]>,
        found: &mut [[u32; 8]],
    ) {
        const { assert!(UNIT.is_multiple_of(size_of::<u32>())) };
        // One more line stands behind the last row.
        let row = size_of::<[u32; WORDS]>();
        let last = size_of_val(lines).checked_sub(row + size_of::<Line>()).expect("a row") / UNIT;
        // SAFETY: needs AVX2, see `load8`.
        let last = unsafe { _mm_set1_epi16(last.min(usize::from(u16::MAX)) as u16 as i16) };
        for (at, found) in found.iter_mut().enumerate() {
            let places = places.map(
                #[inline(always)]
                |places| &places[at],
            );
            // SAFETY: unaligned loads of the 16 bytes behind references; needs AVX2, see `load8`.
            let beyond = unsafe {
                let mut most = last;
                for places in places {
                    most = _mm_max_epu16(most, _mm_loadu_si128(places.as_ptr().cast()));
                }
                _mm_movemask_epi8(_mm_cmpeq_epi16(most, last)) != 0xFFFF
            };
            assert!(!beyond, "each place is that of a row");
            // Four keys are taken at a time, because eight in a row take longer.
            for (half, found) in found.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                for (i, found) in found.iter_mut().enumerate() {
                    // SAFETY: needs AVX2, see `load8`.
                    let mut common = among.map_or(unsafe { [_mm256_set1_epi32(-1); 4] }, parts);
                    let mut rows = [lines.as_ptr().cast::<[u32; WORDS]>(); ROWS];
                    for (row, places) in rows.iter_mut().zip(places) {
                        // SAFETY: each place is that of a row, a whole number of words behind the first line.
                        unsafe {
                            *row = row.byte_add(usize::from(places[4 * half + i]) * UNIT);
                            for (common, part) in common.iter_mut().zip(parts(&**row)) {
                                *common = _mm256_and_si256(*common, part);
                            }
                        }
                    }
                    let first = first_word::<WORDS>(common);
                    let mut word = among.map_or(u32::MAX, |among| among[first & (WORDS - 1)]);
                    for row in rows {
                        // SAFETY: `first` is at most `WORDS`, and a line follows each row: the next row, or the line
                        // behind the last row.
                        word &= unsafe { *row.cast::<u32>().add(first) };
                    }
                    *found = 32 * first as u32 + word.trailing_zeros();
                }
            }
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, place: &T) {
        prefetch(place);
    }

    #[inline(always)]
    fn prefetch_lines(self, lines: &[Line], first: usize, count: usize) {
        for line in first..first + count {
            // SAFETY: as below.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(lines.as_ptr().wrapping_add(line).cast()) };
        }
    }
}

/// Parts of [`Isa::choose8`].
///
/// They are functions because a closure that is called eight times is not inlined.
impl Avx2 {
    /// Looks up the entries of all rows, and stores eight at once.
    ///
    /// They are soon read eight at once. Without store forwarding, such a load would wait for eight single stores.
    ///
    /// # Safety
    /// The table has an entry for all bits that the masks select. If `LOW` or `HIGH` is false, its mask is 0.
    #[inline(always)]
    unsafe fn choose_each8<T, const LOW: bool, const HIGH: bool>(
        self,
        table: &[u32],
        masks: [u64; 2],
        rows: &[[T; 8]],
        words: impl Fn(&T) -> [u64; 2],
        entries: &mut [[u32; 8]],
    ) {
        for ([a, b, c, d, e, f, g, h], entries) in rows.iter().zip(entries) {
            // SAFETY: the caller keeps the condition of `entry`; an unaligned store of 32 bytes; needs AVX, see
            // `load8`.
            unsafe {
                let eight = _mm256_setr_epi32(
                    self.entry::<LOW, HIGH>(table, masks, words(a)),
                    self.entry::<LOW, HIGH>(table, masks, words(b)),
                    self.entry::<LOW, HIGH>(table, masks, words(c)),
                    self.entry::<LOW, HIGH>(table, masks, words(d)),
                    self.entry::<LOW, HIGH>(table, masks, words(e)),
                    self.entry::<LOW, HIGH>(table, masks, words(f)),
                    self.entry::<LOW, HIGH>(table, masks, words(g)),
                    self.entry::<LOW, HIGH>(table, masks, words(h)),
                );
                _mm256_storeu_si256(entries.as_mut_ptr().cast(), eight);
            }
        }
    }

    /// Returns the table entry at the bits that the masks select from `words`.
    ///
    /// # Safety
    /// As for [`Self::choose_each8`].
    #[inline(always)]
    unsafe fn entry<const LOW: bool, const HIGH: bool>(self, table: &[u32], masks: [u64; 2], words: [u64; 2]) -> i32 {
        let low = if LOW { self.gather(words[0], masks[0]) } else { 0 };
        let high = if HIGH { self.gather(words[1], masks[1]) << (masks[0].count_ones() & 63) } else { 0 };
        // SAFETY: the index has no more bits than the masks name.
        unsafe { *table.get_unchecked((low | high) as usize) as i32 }
    }
}

/// Prefetches the cache line of a place; every machine of this architecture can.
#[inline(always)]
pub(super) fn prefetch<T>(place: &T) {
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) }
}
