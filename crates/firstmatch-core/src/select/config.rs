//! Configuration of a choice.

use super::limits::Limits;
use super::strategy::{Calls, Strategy};
use crate::raw::Level;

/// Configuration of a choice. [`live::Config`](crate::live::Config) explains each field.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) strategy: Strategy,
    pub(crate) calls: Calls,
    pub(crate) trial: usize,
    pub(crate) limits: Limits,
    pub(crate) simd: Option<Level>,
    pub(crate) seed: Option<u64>,
    /// Whether a base that changes in place is preferred where rules have changed.
    pub(crate) changes_in_place: bool,
}

#[cfg(test)]
impl Default for Config {
    fn default() -> Self {
        let (strategy, calls, limits) = (Strategy::default(), Calls::default(), Limits::default());
        Self { strategy, calls, trial: 1 << 26, limits, simd: None, seed: None, changes_in_place: true }
    }
}
