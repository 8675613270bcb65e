//! Hash table over rows under masks.

use std::hash::BuildHasher;

use firstmatch_core::Match;
use hashbrown::{DefaultHashBuilder, HashTable};

/// Map from a mask's number and the words under it to an answer, allocated at once.
#[derive(Debug)]
pub(super) struct Table {
    stride: usize,
    hasher: DefaultHashBuilder,
    index: HashTable<u32>,
    /// For each entry, the number of the mask, then the words.
    keys: Vec<u32>,
    answers: Vec<Option<Match>>,
}

impl Table {
    /// Creates a table with room for `capacity` entries.
    pub(super) fn new(stride: usize, capacity: usize) -> Self {
        Self {
            stride,
            hasher: DefaultHashBuilder::default(),
            index: HashTable::with_capacity(capacity),
            keys: Vec::with_capacity(capacity * (1 + stride)),
            answers: Vec::with_capacity(capacity),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.index.allocation_size() + self.keys.capacity() * size_of::<u32>() + size_of_val(&self.answers[..])
    }

    fn hash(&self, mask: u32, words: &[u32]) -> u64 {
        self.hasher.hash_one((mask, words))
    }

    fn entry(&self, mask: u32, words: &[u32]) -> Option<usize> {
        let is = |&at: &u32| {
            let key = &self.keys[at as usize * (1 + self.stride)..][..1 + self.stride];
            key[0] == mask && key[1..] == *words
        };
        self.index.find(self.hash(mask, words), is).map(|&at| at as usize)
    }

    /// Returns the answer stored for `words` under `mask`.
    pub(super) fn find(&self, mask: u32, words: &[u32]) -> Option<Option<Match>> {
        self.entry(mask, words).map(|at| self.answers[at])
    }

    /// Stores an answer unless there is one.
    pub(super) fn insert_first(&mut self, mask: u32, words: &[u32], answer: Option<Match>) {
        if self.entry(mask, words).is_some() {
            return;
        }
        let (stride, hasher, keys) = (self.stride, &self.hasher, &self.keys);
        let again = |&at: &u32| {
            let key = &keys[at as usize * (1 + stride)..][..1 + stride];
            hasher.hash_one((key[0], &key[1..]))
        };
        self.index.insert_unique(self.hasher.hash_one((mask, words)), self.answers.len() as u32, again);
        self.keys.push(mask);
        self.keys.extend(words);
        self.answers.push(answer);
    }

    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.keys.clear();
        self.answers.clear();
    }
}
