//! The keyed hash of the bits of a row that a tuple has.
//!
//! NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message Authentication", CRYPTO 1999): the
//! sum of the products of neighbouring words, each with a secret word added. Whoever does not know the secret words
//! makes two keys collide with probability 2^-32, whichever keys he takes; and all the products of a row are made at
//! a time.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};

/// Secret numbers: random ones of this process, or those of a seed.
pub(crate) fn secrets(seed: Option<u64>) -> impl FnMut() -> u32 {
    let random = RandomState::new();
    let fixed = BuildHasherDefault::<DefaultHasher>::default();
    let mut count = 0u64;
    move || {
        count += 1;
        seed.map_or_else(|| random.hash_one(count), |seed| fixed.hash_one((seed, count))) as u32
    }
}

/// The hash function, for every tuple of an engine.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    /// A secret word for each word of a row.
    pub(super) secret: Box<[u32]>,
    /// The secret words of the last step, which brings the sum to 32 bits.
    pub(super) last: [u32; 2],
}

impl Hasher {
    /// For rows of `stride` words, an even number, from a source of secret numbers.
    pub(crate) fn new(stride: usize, mut secret: impl FnMut() -> u32) -> Self {
        Self { secret: (0..stride).map(|_| secret()).collect(), last: [secret(), secret()] }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.secret[..])
    }

    /// The hash of a row under a tuple, both of as many words as the hasher was made for.
    #[inline(always)]
    pub(crate) fn hash(&self, row: &[u32], tuple: &[u32]) -> u32 {
        let pairs = row.as_chunks::<2>().0.iter().zip(tuple.as_chunks::<2>().0).zip(self.secret.as_chunks::<2>().0);
        self.finish(pairs.fold(0u64, |sum, ((row, mask), secret)| {
            let [a, b] = [0, 1].map(|i| (row[i] & mask[i]).wrapping_add(secret[i]));
            sum.wrapping_add(u64::from(a) * u64::from(b))
        }))
    }

    #[inline(always)]
    pub(super) fn finish(&self, sum: u64) -> u32 {
        let (low, high) = ((sum as u32).wrapping_add(self.last[0]), ((sum >> 32) as u32).wrapping_add(self.last[1]));
        let product = u64::from(low) * u64::from(high);
        product as u32 ^ (product >> 32) as u32
    }
}
