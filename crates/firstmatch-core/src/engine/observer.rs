//! Observers of the steps that lookups take.

use crate::raw::{Kernel, Level, dispatch, dispatch_scalar};

/// Step of a lookup that reads memory of its engine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Node of a tree below its root.
    Node,
    /// Block of eight regions.
    Block,
    /// Candidates among 64 tables.
    Plane,
    /// Bucket of a hash table.
    Bucket,
    /// Region that is tested by itself.
    Entry,
    /// Group of bits of a vector.
    Group,
}

/// Observer of a lookup's steps.
///
/// Lookups report their steps to the set of live rules. That set usually ignores them, so that they take no time.
/// A [`StepCounter`](super::steps::StepCounter) counts them.
pub(crate) trait Observer: Copy {
    /// Whether steps are counted. Lookups that count are compiled in one form, because their speed does not matter.
    const COUNTS: bool = false;

    /// Records a step.
    #[inline(always)]
    fn saw(self, _step: Step) {}
}

/// Runs a kernel with the observer `A` at `level`, or without vectors if it counts.
#[inline(always)]
pub(crate) fn dispatch_for<A: Observer>(level: Level, kernel: impl Kernel) {
    if A::COUNTS { dispatch_scalar(kernel) } else { dispatch(level, kernel) }
}
