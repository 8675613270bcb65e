//! Choice of the engine that serves a rule set, the *base*.
//!
//! `choose` gets a rule set and a budget. Candidates that fit the budget and [`Limits`] are built (`trials`) and timed
//! side by side on several sorts of [`Traffic`] (`trial`). The candidate with the least worst ratio to the fastest is
//! taken. A candidate that is only of use for rules that nothing separates is built if the counted lookups of all
//! others touch many cache lines. Nothing here knows of updates, and nothing starts a thread.
//!
//! Rules may have far more regions than products of sets. Then only engines of products are candidates, and keys are
//! drawn from a sample of the regions.
//!
//! No model predicts lookup times. A model needs a built base to count in, so it would save only the timing. The first
//! round of timing already shows which candidates are far slower, and these get no second round.

mod candidate;
pub(crate) mod choice;
pub(crate) mod choose;
mod config;
pub(crate) mod limits;
mod sample;
mod strategy;
pub(crate) mod traffic;
pub(crate) mod trial;
pub(crate) mod trials;

pub use crate::engines::registry::{Kind, UnknownKind};
pub use crate::error::Cap;
pub(crate) use candidate::FEW;
pub use candidate::{Candidate, Outcome};
pub(crate) use config::Config;
pub use limits::Limits;
pub use strategy::{Calls, Strategy};
pub use traffic::Traffic;
