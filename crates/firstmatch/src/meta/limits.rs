//! Caps on bases beyond the bytes they may hold.

use super::candidate::Kind;
use super::change::marks_bytes;
use crate::rule::Lowered;

/// What a base may take beyond the [budget](crate::Budget). A candidate that may exceed a cap is refused, and the
/// [explanation](super::Explanation) has both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on the heap while a base is built and timed, itself and candidates beside it included, rules not. Held against
    /// a bound by counts of regions and lanes, so a base may be refused that would have needed less: of 5-tuples of IPv4 a
    /// region counts as 2,360 bytes for `bit_select`, which compares plans, 448 for `tuplemerge` and 64 for `linear`; for
    /// `bit_vector` as 8,325 where there are 1,000 and twice that where there are 2,000.
    pub build_bytes: usize,
    /// Cache lines that one lookup can be made to touch.
    pub worst_lines: usize,
    /// Regions that one lookup can be made to test.
    pub worst_tests: usize,
    /// Visits of regions by the build of a base, counted while it is built: what time it takes, but the same on every
    /// machine and under every load. A build that makes more stops soon after. Every [`Candidate`](super::Candidate) that
    /// was built says how many it made. A region takes `linear` one; `tuplemerge` 6 to 170, or hundreds where rules are made
    /// to be in its way; `bit_select` 80 to 3,000, less in a rebuild; `bit_vector` 70 to 900, and more the more there are.
    pub build_visits: usize,
}

impl Default for Limits {
    /// No cap.
    fn default() -> Self {
        Self { build_bytes: usize::MAX, worst_lines: usize::MAX, worst_tests: usize::MAX, build_visits: usize::MAX }
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
    /// [`Limits::build_visits`]
    BuildVisits,
}

impl Cap {
    pub(super) fn says(self, needed: usize, allowed: usize) -> String {
        match self {
            Self::RunBytes => format!("it needs {needed} bytes or more, the budget leaves {allowed}"),
            Self::BuildBytes => format!("building it may take {needed} bytes, the limit is {allowed}"),
            Self::WorstLines => format!("a packet can touch {needed} cache lines, the limit is {allowed}"),
            Self::WorstTests => format!("a packet can be tested against {needed} regions, the limit is {allowed}"),
            Self::BuildVisits => format!("building it takes {needed} region visits or more, the limit is {allowed}"),
        }
    }
}

/// The most bytes that building a base takes on the heap, itself included. For `linear` that is what it needs; for the
/// others twice what the worst sets known take, those made to explode among them, and what little sets start with.
pub(super) fn build_bytes(kind: Kind, set: &Lowered) -> usize {
    let (regions, slots) = (set.regions().len(), marks_bytes(set) * 8);
    let lanes = set.schema().lanes().len() + set.regions().ternary_lanes().len();
    match kind {
        Kind::Linear => regions.next_multiple_of(8) * (8 * lanes + 24) + 2048,
        Kind::BitSelect => regions * (32 * lanes + 2200) + (16 << 10),
        Kind::BitVector => {
            // Each lane's classes, their vectors twice or four times while they grow, and joins.
            let vector = regions.next_multiple_of(1024) / 8;
            lanes * (2 * regions + 1) * (6 * vector + 64) + (512 << 10)
        }
        Kind::TupleMerge => regions * (48 * lanes + 160) + slots * 24 + (16 << 10),
    }
}
