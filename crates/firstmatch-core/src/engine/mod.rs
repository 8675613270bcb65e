//! The traits of engines, and the types that all engines share.
//!
//! An engine's author implements [`Engine`]; users hold a [`Classifier`] or an [`Updatable`].

pub(crate) mod base;
pub(crate) mod budget;
mod counts;
pub(crate) mod entry;
pub(crate) mod generation;
pub(crate) mod observer;
pub(crate) mod options;
mod overlaps;
pub(crate) mod selector;
mod stats;
pub(crate) mod steps;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tombstones;
mod traits;

pub use crate::rule::Match;
pub use counts::NamedCounts;
pub use overlaps::{Overlaps, Probe};
pub use stats::Stats;
pub use traits::{Classifier, Engine, Scratch, Updatable};
