//! Cuckoo hashing: each value is in one of a few slots, which its hashes choose.

use super::config::MOST_SLOTS;
use crate::error::BuildError;
use crate::raw::{Hasher, LINE_WORDS, Line, secrets, words, words_mut};

/// Mark of a free slot, in place of a vector number.
const FREE: u32 = u32::MAX;
/// Number of moves after which an insertion is given up.
const MOVES: usize = 500;
/// Choices of hash functions that are tried before the table grows.
const CHOICES: usize = 8;
/// Largest number of words of a value, so that a slot fits a line.
pub(super) const MOST_WORDS: usize = LINE_WORDS - 1;

/// Hash table of exact values of some words.
#[derive(Debug)]
pub(super) struct Cuckoo {
    /// Number of words of a value. A slot has `stride` words: a value, its vector, and padding to a power of two.
    words: usize,
    pub(super) stride: usize,
    pub(super) slots: usize,
    hashers: Box<[Hasher]>,
    pub(super) table: Box<[Line]>,
    /// Vector of values that are not in the table.
    miss: u32,
}

impl Cuckoo {
    /// Builds a table of distinct `keys` of `words` words each, and the vector number of each in `values`.
    ///
    /// # Errors
    /// If 64 slots per value are not enough, which may happen with a single hash function.
    pub(super) fn new(
        words: usize,
        keys: &[u32],
        values: &[u32],
        miss: u32,
        functions: usize,
        slots: f64,
        seed: Option<u64>,
    ) -> Result<Self, BuildError> {
        debug_assert!(words <= MOST_WORDS && keys.len() == words * values.len());
        let (mut secret, stride) = (secrets(seed), (words + 1).next_power_of_two());
        let mut count = ((values.len() as f64 * slots) as usize).max(functions).max(2);
        loop {
            for _ in 0..CHOICES {
                let hashers = (0..functions).map(|_| Hasher::new(words.next_multiple_of(2), &mut secret)).collect();
                let lines = (count * stride).div_ceil(LINE_WORDS);
                let mut table = vec![Line::default(); lines].into_boxed_slice();
                words_mut(&mut table).chunks_exact_mut(stride).for_each(|slot| slot[words] = FREE);
                let mut all = Self { words, stride, slots: count, hashers, table, miss };
                if keys.chunks_exact(words).zip(values).all(|(key, &value)| all.insert(key, value, &mut secret)) {
                    return Ok(all);
                }
            }
            count += count / 10 + 1;
            if count > MOST_SLOTS * values.len().max(8) {
                let what = format!("{} values have no place in {count} slots by {functions} hashes", values.len());
                return Err(BuildError::refused(what));
            }
        }
    }

    /// Returns the slot of a value by one of the functions.
    #[inline(always)]
    pub(super) fn place(&self, function: usize, key: &[u32; LINE_WORDS]) -> usize {
        let even = self.words.next_multiple_of(2);
        let hash = self.hashers[function].hash(&key[..even], &[u32::MAX; LINE_WORDS][..even]);
        ((u64::from(hash) * self.slots as u64) >> 32) as usize
    }

    fn slot(&mut self, place: usize) -> &mut [u32] {
        &mut words_mut(&mut self.table)[place * self.stride..][..self.stride]
    }

    /// Inserts a value, which may displace others; returns false if it was given up.
    fn insert(&mut self, key: &[u32], value: u32, random: &mut impl FnMut() -> u32) -> bool {
        let (mut key, mut value, mut left) = (padded(key), value, None);
        for _ in 0..MOVES {
            let places: Vec<usize> = (0..self.hashers.len()).map(|function| self.place(function, &key)).collect();
            let own = self.words;
            if let Some(&free) = places.iter().find(|&&place| self.slot(place)[own] == FREE) {
                let slot = self.slot(free);
                slot[..own].copy_from_slice(&key[..own]);
                slot[own] = value;
                return true;
            }
            // The slot that the value was displaced from is no choice, unless it is the only one.
            let others: Vec<usize> = places.iter().copied().filter(|&place| Some(place) != left).collect();
            let choices = if others.is_empty() { &places } else { &others };
            let place = choices[random() as usize % choices.len()];
            let slot = self.slot(place);
            let displaced = (padded(&slot[..own]), slot[own]);
            slot[..own].copy_from_slice(&key[..own]);
            slot[own] = value;
            (key, value) = displaced;
            left = Some(place);
        }
        false
    }

    /// Number of cache lines that a search reads.
    pub(super) fn lines(&self) -> usize {
        self.hashers.len()
    }

    /// Number of 64-bit words that a search reads.
    pub(super) fn search_words(&self) -> usize {
        self.hashers.len() * self.stride.div_ceil(2)
    }

    /// Number of bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        let hashers: usize = self.hashers.iter().map(Hasher::bytes).sum();
        size_of_val(&self.table[..]) + size_of_val(&self.hashers[..]) + hashers
    }

    /// Returns the vector number of the value in `key`, or `miss` if the table lacks it.
    ///
    /// Words of `key` behind the value must be 0.
    #[inline(always)]
    pub(super) fn find(&self, key: &[u32; LINE_WORDS]) -> u32 {
        let (mut found, table) = (self.miss, words(&self.table));
        for function in 0..self.hashers.len() {
            let slot = &table[self.place(function, key) * self.stride..][..self.stride];
            let differs = slot[..self.words].iter().zip(key).fold(0, |differs, (own, key)| differs | (own ^ key));
            found = if differs == 0 && slot[self.words] != FREE { slot[self.words] } else { found };
        }
        found
    }
}

/// Returns a value with zeros behind it, as lookups need it.
fn padded(key: &[u32]) -> [u32; LINE_WORDS] {
    let mut all = [0; LINE_WORDS];
    all[..key.len()].copy_from_slice(key);
    all
}
