//! Limits that a build keeps.

use std::cell::Cell;

use crate::error::BuildError;

/// Memory that a built engine may take.
///
/// A build that would need more fails with a [`BuildError`] whose [`budget_exceeded`](BuildError::budget_exceeded) is
/// true. Limits on the memory of the build itself are in [`live::Limits`](crate::live::Limits).
///
/// ```
/// use firstmatch_core::engines::registry::{ENGINES, Settings};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::Budget;
///
/// let text = "family ipv4\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let mut settings = Settings::default();
/// settings.budget = Budget { run_bytes: 10 };
/// let error = (ENGINES[0].build)(&rules, &settings).expect_err("a rule takes more than ten bytes");
/// assert!(error.budget_exceeded());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes on the heap that the engine may hold once built.
    pub run_bytes: usize,
}

impl Budget {
    /// Bytes that an engine whose tables multiply may hold if no budget is set: 4 GiB.
    ///
    /// These are `rfc` and `bitmap_rfc`. Under rules made to attack them they would ask for hundreds of gigabytes.
    pub const UNSET_BYTES: usize = u32::MAX as usize;

    /// Returns the bytes of the budget, or [`Self::UNSET_BYTES`] if there is none.
    pub(crate) fn bytes_or_unset(self) -> usize {
        if self.run_bytes == usize::MAX { Self::UNSET_BYTES } else { self.run_bytes }
    }
}

/// Makes room for `more` elements, exactly if `is_exact` is set.
///
/// # Errors
/// If the allocator has no memory for them, so that a build ends with an error and not the process.
pub(crate) fn reserve<T>(vec: &mut Vec<T>, more: usize, is_exact: bool) -> Result<(), BuildError> {
    let made = if is_exact { vec.try_reserve_exact(more) } else { vec.try_reserve(more) };
    made.map_err(|_| BuildError::memory((vec.len().saturating_add(more)).saturating_mul(size_of::<T>())))
}

/// Returns an empty vector with room for `count` elements.
///
/// # Errors
/// If the allocator has no memory for them.
pub(crate) fn with_room<T>(count: usize) -> Result<Vec<T>, BuildError> {
    let mut vec = Vec::new();
    reserve(&mut vec, count, true)?;
    Ok(vec)
}

impl Default for Budget {
    /// Returns a budget without a limit.
    fn default() -> Self {
        Self { run_bytes: usize::MAX }
    }
}

/// Number of region visits of a build, counted as they are made, and its limit.
///
/// A build stops at the first check that finds too many.
#[derive(Debug)]
pub(crate) struct Visits {
    made: Cell<usize>,
    most: usize,
}

impl Visits {
    /// Builds a counter that allows at most `most` visits.
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

    /// Returns the number of visits that may still be made.
    pub(crate) fn left(&self) -> usize {
        self.most.saturating_sub(self.made())
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.made() > self.most
    }

    /// Fails once more visits were made than allowed.
    ///
    /// # Errors
    /// If too many visits were made.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.are_too_many() { Err(BuildError::visits(self.made(), self.most)) } else { Ok(()) }
    }
}

impl Default for Visits {
    /// Returns a counter without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room that no machine has is an error with the bytes, and leaves the vector as it was.
    #[test]
    fn room_that_no_machine_has_is_an_error() {
        let mut vec = vec![1u64, 2];
        for is_exact in [true, false] {
            for more in [usize::MAX, usize::MAX / 8, isize::MAX as usize / 8] {
                let error = reserve(&mut vec, more, is_exact).expect_err("there is no such memory");
                assert!(error.budget_exceeded() && error.to_string().starts_with("there is no memory for "), "{error}");
            }
            assert!(reserve(&mut vec, 9, is_exact).is_ok() && vec.capacity() >= 11);
            assert_eq!(vec, [1, 2]);
        }
    }
}
