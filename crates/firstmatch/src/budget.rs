//! Caps a build keeps.

use std::cell::Cell;

use crate::error::BuildError;

/// What a built engine may take. A build that would need more fails with a [`BuildError`] whose
/// [`budget_exceeded`](BuildError::budget_exceeded) is true. What it takes while it builds is another matter, and that of
/// [`meta::Limits`](crate::meta::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes the engine may hold once built.
    pub run_bytes: usize,
}

impl Default for Budget {
    /// No cap.
    fn default() -> Self {
        Self { run_bytes: usize::MAX }
    }
}

/// Visits of regions by a build, counted as they are made. Who finds that there were too many stops.
#[derive(Debug)]
pub(crate) struct Visits {
    made: Cell<usize>,
    most: usize,
}

impl Visits {
    /// At most so many.
    pub(crate) fn new(most: usize) -> Self {
        Self { made: Cell::new(0), most }
    }

    #[inline]
    pub(crate) fn add(&self, visits: usize) {
        self.made.set(self.made.get().saturating_add(visits));
    }

    pub(crate) fn made(&self) -> usize {
        self.made.get()
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.made() > self.most
    }

    /// # Errors
    /// When there were too many.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.are_too_many() { Err(BuildError::visits(self.made(), self.most)) } else { Ok(()) }
    }
}

impl Default for Visits {
    /// No cap.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}
