//! Work for the box of one sample, which goes on from batch to batch.

use super::check::BoxCheck;
use crate::engine::{Match, Probe};

/// Work for one sample that no box holds.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) is_active: bool,
    pub(super) key: Box<[u32]>,
    pub(super) answer: Option<Match>,
    pub(super) probe: Probe,
    pub(super) cursor: u64,
    /// Whether the probe is the box to carve.
    pub(super) has_begun: bool,
    /// Place by age of the next box to grow, and the check of the current one.
    pub(super) next: usize,
    pub(super) grown: Option<Growing>,
    /// Bounds of the region of the sample's rule, if boxes must stay in it.
    pub(super) home: Box<[u32]>,
}

/// Check of whether an evolving box may grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growing {
    pub(super) number: u16,
    pub(super) check: BoxCheck,
}

/// Result of one slice of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It goes on.
    Open,
    /// The probe is the box of the sample.
    New,
    /// The probe is the new box of this evolving one.
    Grown(u16),
    /// There is no box, because the rules have changed since the answer.
    None,
}

impl Step {
    pub(super) fn new(key_words: usize) -> Self {
        let mut probe = Probe::new(&vec![0; key_words], &vec![0; key_words]);
        probe.row.reserve(4 * key_words);
        Self {
            is_active: false,
            key: vec![0; key_words].into(),
            answer: None,
            probe,
            cursor: 0,
            has_begun: false,
            next: 0,
            grown: None,
            home: vec![0; 2 * key_words].into(),
        }
    }

    pub(super) fn begin(&mut self, key: &[u32], answer: Option<Match>) {
        self.key.copy_from_slice(&key[..self.key.len()]);
        (self.answer, self.is_active, self.cursor, self.has_begun, self.next) = (answer, true, 0, false, 0);
        self.grown = None;
    }
}
