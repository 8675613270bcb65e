//! Caps on bases beyond the bytes they may hold.

use super::choose::Kind;
use crate::rule::Lowered;

/// What a base may take beyond the [budget](crate::Budget). A candidate that may exceed a cap is refused, and the
/// [explanation](super::Explanation) has both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on the heap while a base is built, itself and candidates beside it included, rules not. Held against an upper
    /// bound by counts, so a base may be refused that would have needed less.
    pub build_bytes: usize,
    /// Cache lines that one lookup can be made to touch.
    pub worst_lines: usize,
    /// Regions that one lookup can be made to test.
    pub worst_tests: usize,
}

impl Default for Limits {
    /// No cap.
    fn default() -> Self {
        Self { build_bytes: usize::MAX, worst_lines: usize::MAX, worst_tests: usize::MAX }
    }
}

/// A cap that a candidate did not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// [`Budget::run_bytes`](crate::Budget::run_bytes), or what other things leave of it.
    RunBytes,
    /// [`Limits::build_bytes`]
    BuildBytes,
    /// [`Limits::worst_lines`]
    WorstLines,
    /// [`Limits::worst_tests`]
    WorstTests,
}

impl Cap {
    pub(super) fn says(self, needed: usize, allowed: usize) -> String {
        match self {
            Self::RunBytes => format!("it needs {needed} bytes or more, the budget leaves {allowed}"),
            Self::BuildBytes => format!("building it may take {needed} bytes, the limit is {allowed}"),
            Self::WorstLines => format!("a packet can touch {needed} cache lines, the limit is {allowed}"),
            Self::WorstTests => format!("a packet can be tested against {needed} regions, the limit is {allowed}"),
        }
    }
}

/// The most bytes that building a base takes on the heap, itself included.
pub(super) fn build_bytes(kind: Kind, set: &Lowered) -> usize {
    let (regions, lanes) = (set.regions().len(), set.schema().lanes().len());
    let _ = (kind, lanes);
    regions
}
