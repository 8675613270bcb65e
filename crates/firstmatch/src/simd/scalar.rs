//! The operations without vector instructions.

use super::{Hasher, Isa, Kernel, Probes};

#[derive(Clone, Copy)]
pub(super) struct Scalar;

impl Isa for Scalar {
    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) {
        kernel.run(self);
    }

    #[inline(always)]
    fn inside(self, entry: &[u32], key: &[u32], lanes: usize) -> bool {
        let (lo, hi) = entry[..2 * lanes].split_at(lanes);
        lo.iter().zip(hi).zip(key).all(|((lo, hi), k)| lo <= k && k <= hi)
    }

    #[inline(always)]
    fn equal8(self, words: &[u32; 8], word: u32) -> u32 {
        bits(|i| words[i] == word)
    }

    #[inline(always)]
    fn inside8(self, block: &[u32], key: &[u32], lanes: usize) -> u32 {
        let lanes = block.chunks_exact(16).zip(key).take(lanes);
        lanes.fold(0xFF, |hits, (lane, &k)| hits & bits(|i| lane[i] <= k && k <= lane[i + 8]))
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
    fn pick8(self, probes: &Probes, row: &[u32]) -> [u32; 8] {
        std::array::from_fn(|i| probes.place(i, row[probes.lane[i] as usize] >> probes.shift[i]))
    }

    #[inline(always)]
    fn prefetch<T>(self, _place: &T) {}
}

#[inline(always)]
fn bits(test: impl Fn(usize) -> bool) -> u32 {
    (0..8).fold(0, |bits, i| bits | u32::from(test(i)) << i)
}
