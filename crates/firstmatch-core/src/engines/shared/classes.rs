//! Sets of products as rows of words, and classes of equal rows.
//!
//! An engine decides what a row is: a bit vector of products, or a sorted list of their numbers.

use crate::engine::budget::{Visits, reserve};
use crate::error::BuildError;
use crate::raw::{Hasher, secrets};

/// Set of products that changes, one bit each.
#[derive(Clone)]
pub(crate) struct Set(pub(crate) Vec<u32>);

impl Set {
    /// Returns the empty set in a vector of `words` words.
    pub(crate) fn none(words: usize) -> Self {
        Self(vec![0; words])
    }

    pub(crate) fn toggle(&mut self, product: usize) {
        self.0[product / 32] ^= 1 << (product % 32);
    }
}

/// Distinct rows of any length, each with a number: its class.
pub(crate) struct Classes {
    /// Words of the rows, one row behind the other.
    rows: Vec<u32>,
    /// Number of words up to the end of each row.
    ends: Vec<usize>,
    hasher: Hasher,
    /// Hash of each row.
    hashes: Vec<u32>,
    /// Open hash table of the classes: 1 + the number of a class, or 0 in a free slot.
    ///
    /// At most half of the slots are in use. A class takes the first free slot from the slot of its hash on.
    table: Vec<u32>,
}

/// Number of words that are hashed at a time.
const HASHED: usize = 32;

/// Limits of a build: bytes that rows may take, and visits of regions.
///
/// A visit is counted for each product that enters or leaves a set, and for each word of a row.
pub(crate) struct Room<'a> {
    pub(crate) allowed: usize,
    pub(crate) visits: &'a Visits,
}

impl Default for Classes {
    /// Returns no classes.
    fn default() -> Self {
        let hasher = Hasher::new(HASHED, secrets(None));
        Self { rows: Vec::new(), ends: Vec::new(), hasher, hashes: Vec::new(), table: Vec::new() }
    }
}

impl Classes {
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Number of bytes of memory, including reserved ones.
    pub(crate) fn bytes(&self) -> usize {
        let numbers = self.rows.capacity() + self.hashes.capacity() + self.table.capacity();
        numbers * size_of::<u32>() + self.ends.capacity() * size_of::<usize>()
    }

    /// Returns all rows, one behind the other.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the row of a class.
    pub(crate) fn row(&self, class: usize) -> &[u32] {
        let start = class.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rows[start..self.ends[class]]
    }

    /// Returns the class of a row, which is new if no other row is equal.
    ///
    /// # Errors
    /// If a new row exceeds the bytes of `room`, or there were too many visits.
    pub(crate) fn of(&mut self, row: &[u32], room: &Room<'_>) -> Result<u32, BuildError> {
        room.visits.add(row.len());
        room.visits.check()?;
        // Some slot is always free, otherwise `find` would not end.
        if 2 * self.len() >= self.table.len() {
            self.grow();
        }
        let hash = self.hash(row);
        let at = match self.find(hash, |number| self.row(number as usize) == row) {
            Ok(number) => return Ok(number),
            Err(free) => free,
        };
        let needed = size_of_val(&self.rows[..]) + size_of_val(row);
        if needed > room.allowed {
            return Err(BuildError::bytes(needed, room.allowed));
        }
        reserve(&mut self.rows, row.len(), false)?;
        let number = self.len() as u32;
        self.table[at] = number + 1;
        self.hashes.push(hash);
        self.rows.extend_from_slice(row);
        self.ends.push(self.rows.len());
        Ok(number)
    }

    /// Returns the hash of a row of any length.
    fn hash(&self, row: &[u32]) -> u32 {
        row.chunks(HASHED).fold(row.len() as u32, |sum, words| {
            let mut padded = [0; HASHED];
            padded[..words.len()].copy_from_slice(words);
            // The hash takes pairs of words; most lists are short.
            let padded = &padded[..words.len().next_multiple_of(2)];
            (sum ^ self.hasher.hash(padded, &[u32::MAX; HASHED][..padded.len()])).wrapping_mul(0x9E37_79B1)
        })
    }

    /// Returns the class with this hash that `is_meant` accepts, or else the first free slot.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::truncated;

    /// Rows of any length are one class if they are equal, whatever their hashes are.
    #[test]
    fn equal_rows_of_any_length_are_one_class() {
        let rows: Vec<Vec<u32>> = (0..200u32).map(|at| (0..at % 67).map(|word| word * (at % 3)).collect()).collect();
        let check = || {
            let (visits, mut classes) = (Visits::default(), Classes::default());
            let room = Room { allowed: usize::MAX, visits: &visits };
            let numbers: Vec<u32> = rows.iter().map(|row| classes.of(row, &room).expect("no limit")).collect();
            for (row, &number) in rows.iter().zip(&numbers) {
                assert_eq!(classes.row(number as usize), row);
                let first = rows.iter().position(|other| other == row).expect("it is there");
                assert_eq!(number, numbers[first]);
            }
            assert_eq!(classes.rows().len(), (0..classes.len()).map(|class| classes.row(class).len()).sum::<usize>());
            let full = Room { allowed: size_of_val(classes.rows()), visits: &visits };
            assert!(classes.of(&rows[100], &full).is_ok() && classes.of(&[7; 3], &full).is_err());
        };
        check();
        truncated(check);
    }
}
