//! Sets of products as bit vectors, and classes of equal vectors.

use crate::engine::budget::Visits;
use crate::error::BuildError;
use crate::raw::Hasher;

/// Set of products that changes, one bit each.
#[derive(Clone)]
pub(super) struct Set(pub(super) Vec<u32>);

impl Set {
    /// Returns the empty set in a vector of `words` words.
    pub(super) fn none(words: usize) -> Self {
        Self(vec![0; words])
    }

    pub(super) fn toggle(&mut self, product: usize) {
        self.0[product / 32] ^= 1 << (product % 32);
    }
}

/// Distinct vectors, each with a number: its class.
#[derive(Default)]
pub(super) struct Classes {
    /// Words of the vectors, one vector behind the other.
    vectors: Vec<u32>,
    /// Hash of each vector.
    hashes: Vec<u32>,
    /// Open hash table of the classes: 1 + the number of a class, or 0 in a free slot.
    ///
    /// At most half of the slots are in use. A class is in the first slot, from the one of its hash on, that was free.
    table: Vec<u32>,
}

/// Limits of a build: bytes that vectors may take, and visits of regions.
///
/// A visit is counted for each product that enters or leaves a set, and for each word of a vector.
pub(super) struct Room<'a> {
    pub(super) allowed: usize,
    pub(super) visits: &'a Visits,
    /// Hash function of vectors.
    pub(super) hasher: &'a Hasher,
}

impl Classes {
    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn vectors(&self) -> &[u32] {
        &self.vectors
    }

    pub(super) fn vector(&self, class: usize) -> &[u32] {
        let words = self.vectors.len() / self.len().max(1);
        &self.vectors[class * words..][..words]
    }

    /// Returns the class of a vector, a new one if no other is equal.
    ///
    /// # Errors
    /// If a new vector exceeds the bytes of `room`, or there were too many visits.
    pub(super) fn of(&mut self, vector: &[u32], room: &Room<'_>) -> Result<u32, BuildError> {
        room.visits.add(vector.len());
        room.visits.check()?;
        // Some slot is always free, otherwise `find` would not end.
        if 2 * self.len() >= self.table.len() {
            self.grow();
        }
        let hash = room.hasher.hash(vector, vector);
        let at = match self.find(hash, |number| self.vector(number as usize) == vector) {
            Ok(number) => return Ok(number),
            Err(free) => free,
        };
        let needed = size_of_val(&self.vectors[..]) + size_of_val(vector);
        if needed > room.allowed {
            return Err(BuildError::bytes(needed, room.allowed));
        }
        let number = self.len() as u32;
        self.table[at] = number + 1;
        self.hashes.push(hash);
        self.vectors.extend_from_slice(vector);
        Ok(number)
    }

    /// Returns the number of this hash that `is_meant` accepts, or the first free slot.
    fn find(&self, hash: u32, is_meant: impl Fn(u32) -> bool) -> Result<u32, usize> {
        let last = self.table.len() - 1;
        let mut at = hash as usize & last;
        loop {
            match self.table[at].checked_sub(1) {
                None => return Err(at),
                Some(number) if self.hashes[number as usize] == hash && is_meant(number) => return Ok(number),
                Some(_) => at = (at + 1) & last,
            }
        }
    }

    fn grow(&mut self) {
        self.table = vec![0; (2 * self.table.len()).max(64)];
        for number in 0..self.len() {
            if let Err(free) = self.find(self.hashes[number], |_| false) {
                self.table[free] = number as u32 + 1;
            }
        }
    }
}
