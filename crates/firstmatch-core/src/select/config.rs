//! What a choice is made with.

use super::limits::Limits;
use super::machine::Machine;
use crate::engines::registry::Kind;
use crate::raw::Level;

/// What a choice is made with. [`live::Config`](crate::live::Config) explains each.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) kind: Option<Kind>,
    pub(crate) trial: Option<usize>,
    pub(crate) margin: Option<f64>,
    pub(crate) machine: Machine,
    pub(crate) limits: Limits,
    pub(crate) simd: Option<Level>,
    pub(crate) seed: Option<u64>,
    /// Whether a base that changes in place is preferred where rules have changed.
    pub(crate) changes_in_place: bool,
}

#[cfg(test)]
impl Default for Config {
    fn default() -> Self {
        let (kind, trial, margin, simd, seed) = (None, None, None, None, None);
        let (machine, limits) = (Machine::default(), Limits::default());
        Self { kind, trial, margin, machine, limits, simd, seed, changes_in_place: true }
    }
}
