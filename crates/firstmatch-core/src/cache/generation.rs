//! Generations of a cache: states of the rules, to which its entries belong.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Classifier;
use crate::engine::generation::fresh_generation;

/// Number of the current state of the rules; no other state in this process has it.
#[derive(Debug)]
pub(super) struct Generation(AtomicU64);

impl Generation {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(fresh_generation()))
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Begins a generation: batches that start after this has returned use nothing cached before.
    pub(super) fn begin(&self) {
        // A maximum, because the thread with the smaller number may come last.
        self.0.fetch_max(fresh_generation(), Ordering::AcqRel);
    }

    /// Returns the state that answers belong to: the generation, and the version of the classifier behind the cache.
    pub(super) fn state(&self, inner: &dyn Classifier) -> (u64, u64) {
        (self.get(), inner.version())
    }

    /// Returns the version of the cache's own answers.
    pub(super) fn version(&self, inner: &dyn Classifier) -> u64 {
        // Generations only rise. The classifier's version may fall where another classifier was put behind the cache,
        // but then the generation has risen. So generations are as far apart as the versions of one classifier go.
        let (generation, version) = self.state(inner);
        (generation << 32).wrapping_add(version)
    }
}
