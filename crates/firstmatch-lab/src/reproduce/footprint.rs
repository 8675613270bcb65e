//! Effective size of the last cache: how much of a larger footprint it answers.

use std::hint::black_box;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Bytes of a row: reads are of whole rows at random places, as vectors of 32K rules are read.
const ROW: usize = 4096;
/// Rows that a measurement reads.
const READS: usize = 40_000;
/// Footprints: one that the last cache holds, one that it hardly matters for, and those in between, in MiB.
const NEAR: usize = 2;
const FAR: usize = 512;
const BETWEEN: [usize; 3] = [32, 64, 128];

/// Measures the bytes of the last cache that help a program with a larger footprint.
///
/// A read from a footprint F takes `near + (1 − S / F) · (far − near)` if a share S / F of it is in the cache; S is the
/// mean over several F. Other programs have their part of the cache, so it is less than what the processor has.
pub(super) fn effective_cache() -> f64 {
    let rows = vec![1u64; FAR * (1 << 20) / 8];
    let time = |mebibytes: usize| nanos(&rows[..mebibytes * (1 << 20) / 8]);
    let (near, far) = (time(NEAR), time(FAR));
    let of = |mebibytes: usize| {
        let missed = ((time(mebibytes) - near) / (far - near)).clamp(0.0, 1.0);
        (1.0 - missed) * (mebibytes * (1 << 20)) as f64
    };
    BETWEEN.map(of).iter().sum::<f64>() / BETWEEN.len() as f64
}

/// Returns the least time per row of several passes.
fn nanos(words: &[u64]) -> f64 {
    let rows = words.len() * 8 / ROW;
    let mut random = Pcg64::seed_from_u64(1);
    let places: Vec<usize> = (0..READS).map(|_| random.random_range(0..rows)).collect();
    let pass = || {
        let from = Instant::now();
        let read = |&row: &usize| words[row * ROW / 8..][..ROW / 8].iter().fold(0, |sum, word| sum ^ word);
        black_box(places.iter().map(read).fold(0, |sum: u64, one| sum.wrapping_add(one)));
        from.elapsed().as_secs_f64() * 1e9 / READS as f64
    };
    // The first pass fills the cache.
    pass();
    (0..5).map(|_| pass()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_footprints_take_longer() {
        let words = vec![1u64; (64 << 20) / 8];
        assert!(nanos(&words) > nanos(&words[..(16 << 10) / 8]));
    }
}
