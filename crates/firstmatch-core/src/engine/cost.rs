//! Costs that lookups have met, counted for tests of the stated worst case.

use std::cell::Cell;

use super::observer::{Observer, Step};
use super::tombstones::LiveRules;

/// Costs of the lookups of some keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Number of cache lines read, per key.
    pub(crate) lines: f64,
    /// Number of regions that all keys together were tested against.
    pub(crate) visits: usize,
}

impl Cost {
    /// Builds the cost of `keys` keys that read `lines` cache lines and made `visits` tests of regions.
    pub(crate) fn of(keys: usize, lines: usize, visits: usize) -> Self {
        Self { lines: lines as f64 / keys.max(1) as f64, visits }
    }
}

/// Counts of the steps that lookups took.
#[derive(Debug, Default)]
pub(crate) struct Counts([Cell<usize>; 5]);

impl Counts {
    /// Returns the number of steps of one kind.
    pub(crate) fn of(&self, step: Step) -> usize {
        self.0[step as usize].get()
    }
}

/// Set of all rules whose lookups are counted.
impl LiveRules for &Counts {
    const ALL: bool = true;

    fn is_live(self, _place: usize) -> bool {
        true
    }

    fn of_eight(self, _block: usize) -> u32 {
        0xFF
    }
}

impl Observer for &Counts {
    fn saw(self, step: Step) {
        let count = &self.0[step as usize];
        count.set(count.get() + 1);
    }
}

pub(crate) mod tests;
