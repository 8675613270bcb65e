//! Experiments of a paper: `experiment.toml`.

use std::collections::BTreeMap;
use std::iter;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::claims::Claims;
use super::contest::Contest;
use super::distribution::Distribution;
use super::expansion::{Expansion, Prefixes};
use super::memory::Memory;
use super::model::Model;
use super::partitions::Partitions;
use super::rate::Rate;
use super::series::Series;
use super::sweep::Sweep;
use super::tables::Tables;

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

/// Kind of experiment, with its parameters.
#[derive(Debug, Deserialize)]
#[serde(tag = "run", rename_all = "lowercase")]
pub(super) enum Run {
    /// Tables of a few rules, rule by rule.
    Tables(Tables),
    /// Number of tables that generated rule sets take.
    Partitions(Partitions),
    /// Comparison of speed or memory on generated rule sets.
    Contest(Contest),
    /// Bytes by part and by the number of rules.
    Memory(Memory),
    /// Packets a second through a rule set that changes.
    Series(Series),
    /// Times predicted from statistics, beside measured ones.
    Model(Model),
    /// Lookups and statistics by a value of the configuration.
    Sweep(Sweep),
    /// Distribution of the times of single packets.
    Distribution(Distribution),
    /// Highest rates without loss of planes of threads.
    Rate(Rate),
    /// Prefixes of a range.
    Prefixes(Prefixes),
    /// Growth of generated rule sets when ranges become prefixes.
    Expansion(Expansion),
}

impl Run {
    /// Returns the ids of the claims that an experiment of this kind measures.
    fn claims(&self) -> Vec<&str> {
        match self {
            Self::Tables(run) => run.builds.iter().map(|build| build.claim.as_str()).collect(),
            Self::Contest(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),
            Self::Memory(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),
            Self::Series(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),
            Self::Model(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),
            Self::Sweep(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),
            Self::Distribution(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),
            Self::Partitions(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),
            Self::Rate(run) => run.claims.iter().map(|claim| claim.id.as_str()).collect(),
            Self::Prefixes(run) => vec![&run.claim],
            Self::Expansion(run) => vec![&run.claim],
        }
    }
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
