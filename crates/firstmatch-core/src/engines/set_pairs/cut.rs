//! Elementary intervals of a field, and the limits of a build.

use std::cell::Cell;

use crate::engine::budget::Visits;
use crate::engines::shared::{self, Classes, FieldSet, FieldWords};
use crate::error::{BuildError, Cap};

/// Limits of a build: bytes of the tables that it keeps, and visits.
pub(super) struct Room<'a> {
    taken: Cell<usize>,
    allowed: usize,
    pub(super) visits: &'a Visits,
}

/// Elementary intervals of a field.
pub(super) struct Cut {
    /// Start of each interval, the first of which is 0, and its class.
    pub(super) starts: Vec<u128>,
    pub(super) numbers: Vec<u32>,
    /// Class of an absent value that stands apart.
    pub(super) absent: u32,
    /// Labels of the sets that hold each class, in order: the label four times, plus the level.
    pub(super) rows: Classes,
}

impl<'a> Room<'a> {
    pub(super) fn new(allowed: usize, visits: &'a Visits) -> Self {
        Self { taken: Cell::new(0), allowed, visits }
    }

    /// Takes room for tables of some bytes.
    pub(super) fn take(&self, bytes: usize) -> Result<(), BuildError> {
        let taken = self.taken.get().saturating_add(bytes);
        self.taken.set(taken);
        if taken > self.allowed { Err(BuildError::limit(Cap::BuildBytes, taken, self.allowed)) } else { Ok(()) }
    }

    /// Number of bytes taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.get()
    }

    /// Gives back what was taken since `taken` bytes were.
    pub(super) fn give_back(&self, taken: usize) {
        self.taken.set(taken);
    }

    /// Returns the class of a row.
    pub(super) fn intern(&self, classes: &mut Classes, row: &[u32]) -> Result<u32, BuildError> {
        let before = classes.len();
        let class = classes.of(row, &shared::Room { allowed: usize::MAX, visits: self.visits })?;
        if classes.len() > before {
            // A row, its end, its hash and two slots of a table that is half full.
            self.take((row.len() + 7) * size_of::<u32>())?;
        }
        Ok(class)
    }

    /// Cuts a field at the ends of sets with their labels, which ascend. `level_of` gives the level, below four, of an
    /// interval that has one more value than its argument.
    pub(super) fn cut(
        &self,
        words: &FieldWords,
        sets: &[(u32, &FieldSet)],
        level_of: impl Fn(u128) -> u32,
    ) -> Result<Cut, BuildError> {
        let mut changes: Vec<(u128, u32)> = Vec::new();
        for &(label, set) in sets {
            for &(lo, hi) in &set.intervals {
                let label = label << 2 | level_of(hi - lo);
                changes.push((lo, label));
                changes.extend((hi < words.most()).then(|| (hi + 1, label)));
            }
        }
        self.visits.add(changes.len());
        self.visits.check()?;
        changes.sort_unstable();
        let (mut rows, mut here) = (Classes::default(), Vec::new());
        let (mut starts, mut numbers) = (Vec::new(), Vec::new());
        let without = [(0, None)].into_iter().filter(|_| changes.first().is_none_or(|&(value, _)| value > 0));
        let by_value = changes.chunk_by(|a, b| a.0 == b.0).map(|of| (of[0].0, Some(of)));
        for (start, changes) in without.chain(by_value) {
            for &(_, label) in changes.unwrap_or_default() {
                match here.binary_search(&label) {
                    Ok(at) => drop(here.remove(at)),
                    Err(at) => here.insert(at, label),
                }
            }
            let class = self.intern(&mut rows, &here)?;
            if numbers.last() != Some(&class) {
                self.take(size_of::<u128>() + 2 * size_of::<u32>())?;
                starts.push(start);
                numbers.push(class);
            }
        }
        let of_absent: Vec<u32> = sets.iter().filter(|(_, set)| set.absent).map(|(label, _)| label << 2 | 3).collect();
        let absent = if words.has_absent() { self.intern(&mut rows, &of_absent)? } else { 0 };
        Ok(Cut { starts, numbers, absent, rows })
    }
}
