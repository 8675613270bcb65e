//! Counted lookups.

use std::cell::Cell;

use super::observer::{Observer, Step};
use super::tombstones::LiveRules;

/// Set of all rules that counts the steps of its lookups.
#[derive(Debug, Default)]
pub(crate) struct StepCounter([Cell<u64>; 6]);

impl StepCounter {
    /// Returns the number of steps of one kind.
    pub(crate) fn of(&self, step: Step) -> u64 {
        self.0[step as usize].get()
    }
}

impl Observer for &StepCounter {
    const COUNTS: bool = true;

    fn saw(self, step: Step) {
        let count = &self.0[step as usize];
        count.set(count.get() + 1);
    }
}

impl LiveRules for &StepCounter {
    const ALL: bool = true;

    fn is_live(self, _place: usize) -> bool {
        true
    }

    fn of_eight(self, _block: usize) -> u32 {
        0xFF
    }
}
