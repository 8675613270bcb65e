//! Operations without vector instructions.

use super::gather::{Gather, gather};
use super::hash::Hasher;
use super::isa::{Isa, Kernel, Probes};
use super::line::{self, Line};
use super::tree::TreeView;

#[derive(Clone, Copy)]
pub(super) struct Scalar;

impl Gather for Scalar {
    /// It is not inlined, because lookups without vectors have many calls, each of which would take time to compile.
    #[inline(never)]
    fn gather(self, word: u64, mask: u64) -> u64 {
        gather(word, mask)
    }
}

impl Isa for Scalar {
    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) {
        kernel.run(self);
    }

    #[inline(never)]
    fn call<T>(self, step: impl FnOnce() -> T) -> T {
        step()
    }

    #[inline(always)]
    fn inside(self, entry: &[u32], key: &[u32], key_words: usize) -> bool {
        let (lo, hi) = entry[..2 * key_words].split_at(key_words);
        lo.iter().zip(hi).zip(key).all(|((lo, hi), k)| lo <= k && k <= hi)
    }

    #[inline(always)]
    fn equal8(self, words: &[u32; 8], word: u32) -> u32 {
        bits(|i| words[i] == word)
    }

    #[inline(always)]
    fn count_at_most(self, words: &[u32; 16], among: u32, word: u32) -> usize {
        (0..16).map(|i| usize::from(words[i] <= word) & (among >> i) as usize & 1).sum()
    }

    #[inline(always)]
    fn inside8(self, block: &[u32], key: &[u32], key_words: usize) -> u32 {
        let bounds = block.chunks_exact(16).zip(key).take(key_words);
        bounds.fold(0xFF, |hits, (ends, &k)| hits & bits(|i| ends[i] <= k && k <= ends[i + 8]))
    }

    #[inline(always)]
    fn masked8(self, value_mask: &[u32; 16], word: u32) -> u32 {
        bits(|i| word & value_mask[i + 8] == value_mask[i])
    }

    #[inline(always)]
    fn hash(self, hasher: &Hasher, row: &[u32], tuple: &[u32]) -> u32 {
        hasher.hash(row, tuple)
    }

    #[inline(always)]
    fn common8(self, probes: &Probes, row: &[u32], words: &[u64]) -> u64 {
        let place = |i: usize| probes.place(i, row[probes.word[i] as usize] >> probes.shift[i]);
        (0..8).fold(u64::MAX, |common, i| common & words[place(i) as usize])
    }

    /// Counts the ones in each bit position; the counters of every eighth position share a word.
    #[inline(always)]
    fn count_ones64<T>(self, list: &[T], word: impl Fn(&T) -> u64) -> [u8; 64] {
        let mut counts = [0u64; 8];
        for word in list.iter().map(word) {
            counts.iter_mut().enumerate().for_each(|(bit, count)| *count += word >> bit & 0x0101_0101_0101_0101);
        }
        let counts = counts.map(u64::to_le_bytes);
        std::array::from_fn(|bit| counts[bit % 8][bit / 8])
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
        for (entry, row) in entries.as_flattened_mut().iter_mut().zip(rows.as_flattened()) {
            let [low, high] = [0, 1].map(|at| self.gather(words(row)[at], masks[at]));
            *entry = table[(low | high << masks[0].count_ones()) as usize];
        }
    }

    #[inline(always)]
    fn prefixes8(self, values: &[[u32; 8]], open: &[u32; 2], row: &[u32]) -> u32 {
        bits(|i| {
            let open = open[i / 4] >> (i % 4 * 8) & 0xFF;
            let behind = (0..values.len() as u32).rev().map(|after| open.saturating_sub(u32::BITS * after));
            let mut differ =
                values.iter().zip(row).zip(behind).map(|((of, word), open)| (of[i] ^ word).checked_shr(open));
            differ.all(|differ| differ.unwrap_or(0) == 0)
        })
    }

    #[inline(always)]
    fn within8(self, bounds: &[u32; 16], word: u32) -> u32 {
        bits(|i| bounds[i] <= word && word <= bounds[i + 8])
    }

    #[inline(always)]
    fn overlaps8(self, bounds: &[u32; 16], from: u32, to: u32) -> u32 {
        bits(|i| bounds[i] <= to && from <= bounds[i + 8])
    }

    #[inline(always)]
    fn within8_halves(self, bounds: &[u32; 16], words: &[u32; 2]) -> u32 {
        let [a, b] = words.map(|word| word.min(u32::from(u16::MAX)) as u16);
        let pair = |i: usize| (bounds[i] as u16, (bounds[i] >> 16) as u16);
        bits(|i| {
            let (lo, hi) = (pair(i), pair(i + 8));
            lo.0 <= a && a <= hi.0 && lo.1 <= b && b <= hi.1
        })
    }

    #[inline(always)]
    fn within8_bytes(self, bounds: &[u32; 4], byte: u8) -> u32 {
        let at = |i: usize| (bounds[i / 4] >> (i % 4 * 8)) as u8;
        bits(|i| at(i) <= byte && byte <= at(i + 8))
    }

    #[inline(always)]
    fn either8_bytes(self, bytes: &[u32; 2], either: [u8; 2]) -> u32 {
        bits(|i| either.contains(&((bytes[i / 4] >> (i % 4 * 8)) as u8)))
    }

    #[inline(always)]
    fn spans12(self, line: &Line, value: u16, bits: u8) -> u32 {
        let half = |at: usize| (line.0[at / 2] >> (at % 2 * 16)) as u16;
        let byte = |at: usize| (line.0[12 + at / 4] >> (at % 4 * 8)) as u8;
        let holds = |at: usize| value.wrapping_sub(half(at)) <= half(12 + at) && byte(at) & bits != 0;
        (0..12).fold(0, |found, at| found | u32::from(holds(at)) << at)
    }

    #[inline(always)]
    fn below8(self, words: &[u32; 8], limits: &[u32; 8]) -> (u32, u32) {
        (bits(|i| words[i] < limits[i]), self.odd8(words))
    }

    #[inline(always)]
    fn odd8(self, words: &[u32; 8]) -> u32 {
        bits(|i| words[i] & 1 == 1)
    }

    #[inline(always)]
    fn find<const DEPTH: usize, const WORDS: usize>(
        self,
        tree: TreeView<'_, DEPTH>,
        words: [u32; WORDS],
        _again: [&u32; WORDS],
    ) -> [u16; WORDS] {
        words.map(|word| {
            (0..DEPTH).fold(tree.root(self, word), |place, _| {
                // SAFETY: the place is from the root or from a node, and fewer than `DEPTH` nodes came before.
                let node = unsafe { tree.node(place) };
                node.next[node.bounds.iter().filter(|&&bound| (word as i32) > bound).count()]
            })
        })
    }

    #[inline(always)]
    fn first_common<'a, const WORDS: usize>(self, rows: impl Iterator<Item = &'a [u32; WORDS]> + Clone) -> u32 {
        let word = |at: usize| rows.clone().fold(u32::MAX, |word, row| word & row[at]);
        let found = (0..WORDS).map(|at| (at, word(at))).find(|&(_, word)| word != 0);
        found.map_or(u32::MAX, |(at, word)| 32 * at as u32 + word.trailing_zeros())
    }

    #[inline(always)]
    fn first_common8<const ROWS: usize, const WORDS: usize, const UNIT: usize>(
        self,
        lines: &[Line],
        places: [&[[u16; 8]]; ROWS],
        among: Option<&[u32; WORDS]>,
        found: &mut [[u32; 8]],
    ) {
        let words = line::words(lines);
        let row = |place: u16| words[usize::from(place) * UNIT / size_of::<u32>()..].first_chunk().expect("a row");
        for (i, found) in found.as_flattened_mut().iter_mut().enumerate() {
            *found = self.first_common(places.iter().map(|of| row(of[i / 8][i % 8])).chain(among));
        }
    }

    #[inline(always)]
    fn prefetch<T>(self, _place: &T) {}

    #[inline(always)]
    fn prefetch_lines(self, _lines: &[Line], _first: usize, _count: usize) {}
}

#[inline(always)]
fn bits(test: impl Fn(usize) -> bool) -> u32 {
    (0..8).fold(0, |bits, i| bits | u32::from(test(i)) << i)
}
