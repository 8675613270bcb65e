//! Sets of regions as vectors, and classes of what has equal ones.

use std::collections::HashMap;

use super::GROUP_WORDS;
use crate::budget::Visits;
use crate::error::BuildError;

/// A set of regions that changes.
#[derive(Clone)]
pub(super) struct Set(pub(super) Vec<u32>);

impl Set {
    pub(super) fn none(groups: usize) -> Self {
        Self(vec![0; groups * GROUP_WORDS])
    }

    pub(super) fn toggle(&mut self, region: usize) {
        self.0[region / 32] ^= 1 << (region % 32);
    }
}

/// Different vectors by number.
#[derive(Default)]
pub(super) struct Classes {
    numbers: HashMap<Box<[u32]>, u32>,
    /// One behind the other.
    vectors: Vec<u32>,
}

/// Bytes that vectors may still take, and visits of regions so far: one for each region that enters or leaves a set, and
/// one for each word of a vector.
pub(super) struct Room<'a> {
    pub(super) allowed: usize,
    pub(super) visits: &'a Visits,
}

impl Classes {
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn vectors(&self) -> &[u32] {
        &self.vectors
    }

    pub(super) fn vector(&self, class: usize) -> &[u32] {
        let words = self.vectors.len() / self.len().max(1);
        &self.vectors[class * words..][..words]
    }

    /// The class of a vector; a new one takes room.
    pub(super) fn of(&mut self, vector: &[u32], room: &Room<'_>) -> Result<u32, BuildError> {
        room.visits.add(vector.len());
        room.visits.check()?;
        if let Some(&number) = self.numbers.get(vector) {
            return Ok(number);
        }
        let needed = size_of_val(&self.vectors[..]) + size_of_val(vector);
        if needed > room.allowed {
            return Err(BuildError::bytes(needed, room.allowed));
        }
        let number = self.len() as u32;
        self.numbers.insert(vector.into(), number);
        self.vectors.extend_from_slice(vector);
        Ok(number)
    }
}
