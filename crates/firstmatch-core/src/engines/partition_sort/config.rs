//! Configuration of the engine.

use crate::engine::budget::Budget;
use crate::raw::Level;

/// Configuration of [`PartitionSort`](super::PartitionSort).
#[derive(Clone, Debug)]
pub struct Config {
    /// Limit on the memory of the engine.
    pub budget: Budget,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Maximum number of regions of a partition that may change its order of words.
    ///
    /// It changes the order if a new region then fits.
    pub reorder: usize,
    /// Maximum number of partitions.
    ///
    /// Regions that would need more go to an overflow list, which is tested eight regions at a time.
    pub most_partitions: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, reorder: 10, most_partitions: 128 }
    }
}

impl Config {
    /// Returns the paper's own values, which are the defaults: partitions of up to ten regions may change their order.
    pub fn paper() -> Self {
        Self::default()
    }
}
