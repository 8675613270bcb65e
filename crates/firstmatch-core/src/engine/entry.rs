//! Facts about an engine for programs and tests.

use super::budget::{Budget, Visits};
use super::options::EngineOption;
use super::traits::{Classifier, Updatable};
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::Lowered;
use crate::schema::Schema;

/// Settings that every engine has, and options of its own by name.
///
/// ```
/// use firstmatch_core::engines::registry::{ENGINES, Settings};
/// use firstmatch_core::rule::Lowered;
/// use firstmatch_core::{Classifier, Schema};
///
/// let entry = ENGINES.iter().find(|entry| entry.name == "tuplemerge").expect("it is there");
/// assert!((entry.options)().iter().any(|option| option.name == "collision_limit"));
/// let settings = Settings::default().with_option("collision_limit", "40");
/// let engine = (entry.build)(&Lowered::empty(&Schema::ipv4()), &settings)?;
/// assert_eq!(engine.stats().rules, 0);
/// # Ok::<(), firstmatch_core::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Memory that the engine may take.
    pub budget: Budget,
    /// Instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// Seed of hashes; `None` takes a random one of this process.
    pub seed: Option<u64>,
    /// Maximum number of region visits of the build.
    ///
    /// A visit is about the work of comparing one region with another. A build that needs more visits is refused.
    pub visits: usize,
    /// Maximum heap bytes of the build, as far as the engine counts them.
    ///
    /// `rfc`, `bitmap_rfc` and `decomposition` count the sets of rules that they keep. Every engine counts what it holds
    /// once built.
    pub build_bytes: usize,
    /// Values of the engine's own options, by name; see [`Entry::options`].
    pub options: Vec<(String, String)>,
}

impl Default for Settings {
    /// Returns settings without a limit and without options.
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            simd: None,
            seed: None,
            visits: usize::MAX,
            build_bytes: usize::MAX,
            options: Vec::new(),
        }
    }
}

impl Settings {
    /// Adds the value of an option of the engine.
    pub fn with_option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the bytes that the built engine may hold, which are also part of the bytes of the build.
    pub(crate) fn budget(&self) -> Budget {
        Budget { run_bytes: self.budget.run_bytes.min(self.build_bytes) }
    }

    /// Returns the limit on the visits of a build.
    pub(crate) fn visits(&self) -> Visits {
        Visits::new(self.visits)
    }
}

/// Function that builds an engine from rules.
pub type Build = fn(&Lowered, &Settings) -> Result<Box<dyn Classifier>, BuildError>;
/// Function that builds an engine whose rules change.
pub type BuildUpdatable = fn(&Lowered, &Settings) -> Result<Box<dyn Updatable>, BuildError>;

/// Engine that is known by name.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Name; for example, `bit_select`.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Returns the engine's own options, each with its meaning and its values.
    pub options: fn() -> Vec<EngineOption>,
    /// Builds the engine from rules.
    pub build: Build,
    /// Builds the same engine for an owner that inserts and removes rules, if it takes updates.
    ///
    /// To begin without rules, build it from [`Lowered::empty`].
    pub updatable: Option<BuildUpdatable>,
}

impl Entry {
    /// Returns the entry of an engine that takes no updates and has no options.
    pub const fn new(name: &'static str, summary: &'static str, build: Build) -> Self {
        Self { name, summary, options: Vec::new, build, updatable: None }
    }

    /// Checks the options of `settings`, without rules. Limits are not checked, because they depend on the rules.
    ///
    /// # Errors
    /// If the engine lacks an option, or an option does not take its value.
    pub fn check(&self, settings: &Settings) -> Result<(), BuildError> {
        let settings = Settings { options: settings.options.clone(), ..Settings::default() };
        match (self.build)(&Lowered::empty(&Schema::ipv4()), &settings) {
            Err(error) if !error.budget_exceeded() => Err(error),
            _ => Ok(()),
        }
    }
}
