//! Caps a build keeps.

/// What a built engine may take. A build that would need more fails with a [`BuildError`](crate::BuildError) whose
/// [`budget_exceeded`](crate::BuildError::budget_exceeded) is true, before it has taken it.
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
