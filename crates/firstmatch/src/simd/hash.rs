//! The keyed hash of the bits of a key that a tuple has.
//!
//! NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message Authentication", CRYPTO 1999): the
//! sum of the products of neighbouring words, each with a secret word added. Whoever does not know the secret words
//! makes two keys collide with probability 2^-32, whichever keys he takes; and eight keys are hashed at a time.

/// Two neighbouring lanes, their masks and their secret words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The first of the two lanes.
    pub(super) lane: usize,
    pub(super) mask: [u32; 2],
    pub(super) secret: [u32; 2],
}

/// The hash function of a tuple.
#[derive(Debug)]
pub(crate) struct Hasher {
    /// The pairs of lanes of which the tuple has a bit; the others would add a constant.
    pub(super) pairs: Box<[Pair]>,
    /// The secret words of the last step, which brings the sum to 32 bits.
    pub(super) last: [u32; 2],
}

impl Hasher {
    /// For a tuple, padded to an even number of lanes, from at least half as many secret numbers and one.
    pub(crate) fn new(tuple: &[u32], secrets: &[u64]) -> Self {
        let halves = |secret: u64| [secret as u32, (secret >> 32) as u32];
        let (last, secrets) = secrets.split_last().map_or(([0; 2], secrets), |(last, rest)| (halves(*last), rest));
        let pairs = tuple.as_chunks::<2>().0.iter().zip(secrets).enumerate();
        let pairs = pairs.map(|(i, (&mask, &secret))| Pair { lane: 2 * i, mask, secret: halves(secret) });
        Self { pairs: pairs.filter(|pair| pair.mask != [0, 0]).collect(), last }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.pairs[..])
    }

    /// The most bytes it may take for this many lanes.
    pub(crate) fn most_bytes(lanes: usize) -> usize {
        lanes.div_ceil(2) * size_of::<Pair>()
    }

    /// The hash of one row, padded with zeros to an even number of lanes.
    #[inline(always)]
    pub(crate) fn hash(&self, row: &[u32]) -> u32 {
        self.hash_with(|lane| row[lane])
    }

    #[inline(always)]
    pub(super) fn hash_with(&self, word: impl Fn(usize) -> u32) -> u32 {
        let sum = self.pairs.iter().fold(0u64, |sum, Pair { lane, mask, secret }| {
            let a = (word(*lane) & mask[0]).wrapping_add(secret[0]);
            let b = (word(lane + 1) & mask[1]).wrapping_add(secret[1]);
            sum.wrapping_add(u64::from(a) * u64::from(b))
        });
        let (low, high) = ((sum as u32).wrapping_add(self.last[0]), ((sum >> 32) as u32).wrapping_add(self.last[1]));
        let product = u64::from(low) * u64::from(high);
        product as u32 ^ (product >> 32) as u32
    }
}
