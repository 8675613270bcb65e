//! What programs and tests know of an engine.

use super::budget::Budget;
use super::traits::{Classifier, Updatable};
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::Lowered;

/// Settings that every engine has.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Memory that the engine may take.
    pub budget: Budget,
    /// Instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// Seed of hashes; `None` takes a random one of this process.
    pub seed: Option<u64>,
}

/// Engine that is known by name, with everything but these settings at its default.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Name; for example, `bit_select`.
    pub name: &'static str,
    /// Description in a line.
    pub summary: &'static str,
    /// Builds the engine from rules.
    pub build: fn(&Lowered, &Settings) -> Result<Box<dyn Classifier>, BuildError>,
    /// Builds the same engine for an owner who inserts and removes rules, if it takes updates.
    ///
    /// Without rules at first, it is built from [`Lowered::empty`].
    pub updatable: Option<fn(&Lowered, &Settings) -> Result<Box<dyn Updatable>, BuildError>>,
}

impl Entry {
    /// Returns the entry of an engine that takes no updates.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        build: fn(&Lowered, &Settings) -> Result<Box<dyn Classifier>, BuildError>,
    ) -> Self {
        Self { name, summary, build, updatable: None }
    }
}
