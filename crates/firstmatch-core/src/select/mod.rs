//! Choice of the engine that serves a rule set, the *base*.
//!
//! `choose` is asked for a rule set under a budget. Candidates that budget and [`Limits`] have room for are built
//! (`trials`). Lookups on several sorts of [`Traffic`] are predicted by a `model` of a [`Machine`], and candidates near
//! the best are timed (`trial`). The one whose worst ratio to the fastest is the least is taken. Nothing here knows of
//! updates, and nothing starts a thread.

mod candidate;
pub(crate) mod choose;
pub(crate) mod limits;
mod machine;
pub(crate) mod model;
pub(crate) mod traffic;
pub(crate) mod trial;
pub(crate) mod trials;
mod weights;

pub use crate::error::Cap;
pub(crate) use candidate::FEW;
pub use candidate::{Candidate, Kind, Lookups, Outcome, UnknownKind};
pub use limits::Limits;
pub use machine::{BadMachine, Machine};
pub use model::Prediction;
pub use traffic::Traffic;

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
