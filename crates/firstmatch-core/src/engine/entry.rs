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

/// Function that builds an engine from rules.
pub type Build = fn(&Lowered, &Settings) -> Result<Box<dyn Classifier>, BuildError>;
/// Function that builds an engine whose rules change.
pub type BuildUpdatable = fn(&Lowered, &Settings) -> Result<Box<dyn Updatable>, BuildError>;

/// Engine that is known by name, with everything but these settings at its default.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Name; for example, `bit_select`.
    pub name: &'static str,
    /// Description in a line.
    pub summary: &'static str,
    /// Builds the engine from rules.
    pub build: Build,
    /// Builds the same engine for an owner who inserts and removes rules, if it takes updates.
    ///
    /// Without rules at first, it is built from [`Lowered::empty`].
    pub updatable: Option<BuildUpdatable>,
}

impl Entry {
    /// Returns the entry of an engine that takes no updates.
    pub const fn new(name: &'static str, summary: &'static str, build: Build) -> Self {
        Self { name, summary, build, updatable: None }
    }
}
