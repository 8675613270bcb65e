//! Sets of values of a field, each stored once.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Range;

use super::region::{Region, Regions};

/// Sets of values of one field by number, as boxes over the field's own words.
///
/// Equal sets have one number. For example, `dport { 80, 443 }` in 40 rules is one set of two boxes.
#[derive(Clone, Debug)]
pub(crate) struct FieldSets {
    /// Boxes of all sets, one set behind the other.
    boxes: Regions,
    /// Number of boxes before the first of each set, then the number of all boxes.
    firsts: Vec<u32>,
    /// Hash of each set.
    hashes: Vec<u32>,
    /// Open hash table of the sets: 1 + the number of a set, or 0 in a free slot.
    ///
    /// At most half of the slots are in use. A set takes the first free slot from the slot of its hash on.
    table: Vec<u32>,
    hasher: RandomState,
}

impl FieldSets {
    /// Builds a list without sets, for a field of `key_words` words.
    pub(super) fn new(key_words: usize) -> Self {
        let (firsts, hasher) = (vec![0], RandomState::new());
        Self { boxes: Regions::new(key_words), firsts, hashes: Vec::new(), table: Vec::new(), hasher }
    }

    /// Returns the number of the set of these boxes, which is new if no set has the same boxes in the same order.
    pub(super) fn number<'a>(&mut self, boxes: impl Iterator<Item = Region<'a>> + Clone) -> u32 {
        if 2 * self.len() >= self.table.len() {
            self.grow();
        }
        let mut hasher = self.hasher.build_hasher();
        boxes.clone().for_each(|Region { lo, hi, ternary }| (lo, hi, ternary).hash(&mut hasher));
        let (hash, count) = (hasher.finish() as u32, boxes.clone().count());
        let is_same = |number: u32| {
            self.hashes[number as usize] == hash
                && self.range(number).len() == count
                && self.of(number).zip(boxes.clone()).all(|(own, other)| own == other)
        };
        let mut slot = hash as usize & (self.table.len() - 1);
        while let Some(number) = self.table[slot].checked_sub(1) {
            if is_same(number) {
                return number;
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
        // A field has at most 2^24 boxes, so the numbers fit.
        let number = self.len() as u32;
        self.table[slot] = number + 1;
        self.hashes.push(hash);
        boxes.for_each(|of| self.boxes.push(of));
        self.firsts.push(self.boxes.len() as u32);
        number
    }

    /// Doubles the table.
    fn grow(&mut self) {
        let mut table = vec![0; (2 * self.table.len()).max(8)];
        for (number, &hash) in (1..).zip(&self.hashes) {
            let mut slot = hash as usize & (table.len() - 1);
            while table[slot] != 0 {
                slot = (slot + 1) & (table.len() - 1);
            }
            table[slot] = number;
        }
        self.table = table;
    }

    /// Number of sets.
    pub(crate) fn len(&self) -> usize {
        self.firsts.len() - 1
    }

    /// Returns the boxes of all sets, one set behind the other.
    pub(crate) fn boxes(&self) -> &Regions {
        &self.boxes
    }

    /// Returns the indices of the boxes of a set.
    pub(crate) fn range(&self, number: u32) -> Range<usize> {
        self.firsts[number as usize] as usize..self.firsts[number as usize + 1] as usize
    }

    /// Returns the boxes of a set, which do not overlap.
    pub(crate) fn of(&self, number: u32) -> impl ExactSizeIterator<Item = Region<'_>> + Clone {
        self.range(number).map(|index| self.boxes.get(index))
    }

    /// Number of bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        let numbers = self.firsts.capacity() + self.hashes.capacity() + self.table.capacity();
        self.boxes.bytes() + numbers * size_of::<u32>()
    }
}
