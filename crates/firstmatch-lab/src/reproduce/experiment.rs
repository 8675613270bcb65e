//! Experiments of a paper: `experiment.toml`.

use std::collections::BTreeMap;
use std::io::Write;
use std::iter;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::claims::Claims;
use super::{Emit, adapt, boxes, built, callgrind, contest, example, rate, sweep};

/// Entries by name.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Experiments(pub(super) BTreeMap<String, Entry>);

/// Experiment for one figure, table or section.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    /// Text that says what it shows.
    pub(super) shows: String,
    /// Other entries that the same run measures, with what they show.
    #[serde(default)]
    pub(super) also: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(super) run: Run,
}

/// Defines the kinds of experiments: the name in the file, and the parameters in their module.
///
/// The parameters have a list `claims`, whose members have an `id`; the module has a function `run`.
macro_rules! kinds {
    ($($(#[$about:meta])* $name:literal = $module:ident::$kind:ident;)*) => {
        /// Kind of experiment, with its parameters.
        #[derive(Debug, Deserialize)]
        #[serde(tag = "run")]
        pub(super) enum Run {
            $($(#[$about])* #[serde(rename = $name)] $kind($module::$kind),)*
        }

        impl Run {
            /// Returns the ids of the claims that the experiment measures.
            fn claims(&self) -> Vec<&str> {
                match self {
                    $(Self::$kind(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),)*
                }
            }

            pub(super) fn run(
                &self,
                seeds: Option<&Path>,
                out: &mut dyn Write,
                emit: Emit<'_>,
            ) -> anyhow::Result<()> {
                match self {
                    $(Self::$kind(run) => $module::run(run, seeds, out, emit),)*
                }
            }
        }
    };
}

kinds! {
    /// Structure or answers of engines over a few rules.
    "example" = example::Example;
    /// Search trees that turn with traffic.
    "adapt" = adapt::Adapt;
    /// Instructions and loads of lookups by decomposition.
    "callgrind" = callgrind::Callgrind;
    /// Comparison of speed or memory on generated rule sets.
    "contest" = contest::Contest;
    /// Hits and boxes of a rule cache.
    "boxes" = boxes::Boxes;
    /// Bytes by part, tables and other counts of what was built, by the number of rules.
    "built" = built::Structures;
    /// Lookups and statistics by a value of the configuration.
    "sweep" = sweep::Sweep;
    /// Highest rates without loss of planes of threads.
    "rate" = rate::Rate;
}

impl Experiments {
    /// Returns whether some experiment measures a claim.
    pub(super) fn measure(&self, claim: &str) -> bool {
        self.0.values().any(|entry| entry.run.claims().contains(&claim))
    }

    /// Returns the name of the experiment that measures an entry, and the text that says what the entry shows.
    pub(super) fn of(&self, entry: &str) -> Option<(&str, &str)> {
        self.entries().find(|(name, _, _)| *name == entry).map(|(_, experiment, shows)| (experiment, shows))
    }

    /// Returns each measured entry, the name of its experiment and what it shows.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.0.iter().flat_map(|(experiment, Entry { shows, also, .. })| {
            let also = also.iter();
            let all = iter::once((experiment, shows)).chain(also);
            all.map(|(name, shows)| (name.as_str(), experiment.as_str(), shows.trim()))
        })
    }

    /// Reads and checks the experiments of a paper; there are none without the file.
    pub(super) fn read(path: &Path, claims: &Claims) -> anyhow::Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let all: Self = toml::from_str(&text).with_context(|| path.display().to_string())?;
        for (name, entry) in &all.0 {
            let here = || format!("{}: entry `{name}`", path.display());
            for also in entry.also.keys() {
                let once = all.entries().filter(|(other, _, _)| other == also).count() == 1;
                ensure!(once, "{}: another experiment measures `{also}`, too", here());
            }
            for id in entry.run.claims() {
                let about = claims.get(id).map(|claim| &claim.entry);
                let measured = about.is_some_and(|about| about == name || entry.also.contains_key(about));
                ensure!(measured, "{}: there is no claim `{id}` about it, or about an entry in `also`", here());
            }
        }
        Ok(all)
    }
}
