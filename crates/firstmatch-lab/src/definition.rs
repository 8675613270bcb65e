//! Definitions of measurements, as TOML; `benchmarks/README.md` documents the format.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use firstmatch_core::raw::Level;
use firstmatch_core::schema::Family;
use firstmatch_generate::attack::Attack;
use firstmatch_generate::profile::{FULL_PROFILES, PROFILES, Profile};
use serde::Deserialize;

/// Definition of a measurement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    /// Name of its file, without the extension.
    #[serde(skip)]
    pub(crate) name: String,
    /// Path of its file.
    #[serde(skip)]
    pub(crate) path: PathBuf,
    /// Text that says what the measurement shows.
    pub(crate) shows: String,
    pub(crate) sets: Vec<Set>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) lookup: Option<Lookup>,
    pub(crate) instructions: Option<Instructions>,
    pub(crate) updates: Option<Updates>,
    pub(crate) under_updates: Option<UnderUpdates>,
}

/// Rules and the packets to look up, from files or generated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    pub(crate) name: String,
    rules: Option<String>,
    trace: Option<String>,
    generate: Option<Generate>,
    /// Whether packets are looked up in the order of the trace.
    #[serde(default)]
    pub(crate) in_order: bool,
    /// Digest of rules, keys and answers; if it is missing or wrong, the run says the right one.
    pub(crate) digest: Option<String>,
}

/// Source of a set.
#[derive(Clone, Debug)]
pub(crate) enum Origin<'a> {
    Files { rules: PathBuf, trace: PathBuf },
    Generated(&'a Generate),
}

/// Profile whose rules are over the 15 fields of OpenFlow.
pub(crate) const OPENFLOW: &str = "openflow";

/// Profile whose rules are on groups of addresses and ports.
pub(crate) const POLICY: &str = "policy";

/// Parameters of rules and headers drawn from a seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Generate {
    /// Shape of the rules: a profile or an attack.
    #[serde(deserialize_with = "profile")]
    pub(crate) profile: Shape,
    pub(crate) rules: usize,
    pub(crate) seed: u64,
    #[serde(default = "ipv4", deserialize_with = "family")]
    pub(crate) family: Family,
    pub(crate) headers: usize,
    /// Exponent of Zipf's law; without it every rule is equally likely.
    pub(crate) zipf: Option<f64>,
    /// Number of flows that start per second; without it packets do not come in flows.
    pub(crate) flows: Option<f64>,
    #[serde(default)]
    pub(crate) unmatched: f64,
}

/// Shape of generated rules.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Profile(Box<Profile>),
    Attack(Attack),
    Openflow,
    Policy,
}

/// Engine in one configuration.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Engine {
    pub(crate) engine: String,
    /// Name in tables; by default that of the engine.
    name: Option<String>,
    /// Values of its configuration that differ from the defaults.
    #[serde(default)]
    pub(crate) config: toml::Table,
    #[serde(default, deserialize_with = "level")]
    pub(crate) simd: Option<Level>,
    /// Budget at run time, in bytes.
    pub(crate) run_bytes: Option<usize>,
    /// Number of keys of the flow cache in front of it.
    pub(crate) flow_cache: Option<usize>,
    /// Number of boxes of the rule cache in front of it, behind any flow cache.
    pub(crate) rule_cache: Option<usize>,
    /// Whether the rule cache makes its boxes as the paper does.
    #[serde(default)]
    pub(crate) grows_boxes: bool,
    /// Whether the caches step aside where they do not pay; they do by default.
    pub(crate) steps_aside: Option<bool>,
}

/// Parameters of timed lookups.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Lookup {
    pub(crate) batches: Vec<usize>,
    /// Whether single lookups are also timed where each answer chooses the next key.
    pub(crate) dependent: bool,
    /// Whether packets are also looked up from frames in memory, whose keys all lookups use.
    pub(crate) frames: bool,
    /// Numbers of threads beyond one, each with the largest batch.
    pub(crate) threads: Vec<usize>,
    pub(crate) rounds: usize,
}

impl Default for Lookup {
    fn default() -> Self {
        Self { batches: vec![1, 8, 32, 256], dependent: true, frames: false, threads: Vec::new(), rounds: 15 }
    }
}

/// Parameters of lookups whose instructions Callgrind counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Instructions {
    pub(crate) batches: Vec<usize>,
    /// Number of lookups that are counted, after as many that warm the engine up.
    pub(crate) lookups: usize,
}

impl Default for Instructions {
    fn default() -> Self {
        Self { batches: vec![1, 32], lookups: 4096 }
    }
}

/// Parameters of timed updates.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Updates {
    /// Number of updates, half of them insertions, half removals.
    pub(crate) count: usize,
    /// Number of threads that look up meanwhile.
    pub(crate) readers: usize,
    pub(crate) rounds: usize,
}

impl Default for Updates {
    fn default() -> Self {
        Self { count: 1_000_000, readers: 1, rounds: 5 }
    }
}

/// Parameters of lookups beside updates, for engines with readers and a writer.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UnderUpdates {
    /// Updates per second; 0 is as many as possible.
    pub(crate) rates: Vec<u64>,
    /// Duration of each rate in a sitting, in seconds.
    pub(crate) seconds: f64,
    /// Number of keys that the reader looks up at a time.
    pub(crate) batch: usize,
}

impl Default for UnderUpdates {
    fn default() -> Self {
        Self { rates: vec![100_000, 300_000, 0], seconds: 5.0, batch: 32 }
    }
}

impl Definition {
    /// Reads and checks a definition.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut definition: Self = toml::from_str(&text).with_context(|| path.display().to_string())?;
        definition.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        definition.path = path.to_owned();
        definition.check().with_context(|| path.display().to_string())?;
        Ok(definition)
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.shows.trim().is_empty(), "`shows` is empty; expected a paragraph on what is shown");
        ensure!(!self.sets.is_empty(), "there is no set; expected [[sets]]");
        ensure!(!self.engines.is_empty(), "there is no engine; expected [[engines]]");
        for (index, set) in self.sets.iter().enumerate() {
            self.origin(set, None).map(drop).or_else(|fault| match fault {
                Missing::Sets => Ok(()),
                Missing::Origin(what) => bail!("set {}, `{}`: {what}", index + 1, set.name),
            })?;
        }
        for generate in self.sets.iter().filter_map(|set| set.generate.as_ref()) {
            let headers = !matches!(generate.profile, Shape::Openflow)
                || generate.family == Family::Ipv4 && generate.unmatched == 0.0;
            ensure!(
                headers,
                "profile `{OPENFLOW}` has no family, and all its packets match; expected neither of the two"
            );
        }
        for (index, engine) in self.engines.iter().enumerate() {
            engine.recipe().with_context(|| format!("engine {}, `{}`", index + 1, engine.name()))?;
        }
        let names: Vec<&str> = self.engines.iter().map(Engine::name).collect();
        for (index, name) in names.iter().enumerate() {
            ensure!(!names[..index].contains(name), "two engines are called `{name}`; expected a `name` for one");
        }
        if let Some(lookup) = &self.lookup {
            let whole = |numbers: &[usize], least| numbers.iter().all(|n| (least..=1 << 20).contains(n));
            ensure!(whole(&lookup.batches, 1), "[lookup] batches: expected numbers from 1 to {}", 1 << 20);
            ensure!(!lookup.batches.is_empty(), "[lookup] batches is empty");
            ensure!(whole(&lookup.threads, 2), "[lookup] threads: expected numbers from 2 on");
            ensure!((1..=1000).contains(&lookup.rounds), "[lookup] rounds: expected a number from 1 to 1000");
        }
        if let Some(Instructions { batches, lookups }) = &self.instructions {
            let numbers = batches.iter().chain([lookups]).all(|number| (1..=1 << 20).contains(number));
            ensure!(numbers, "[instructions] batches and lookups: expected numbers from 1 to {}", 1 << 20);
            ensure!(!batches.is_empty(), "[instructions] batches is empty");
        }
        if let Some(updates) = &self.updates {
            ensure!((2..=1 << 30).contains(&updates.count), "[updates] count: expected a number from 2 to {}", 1 << 30);
            ensure!((1..=1000).contains(&updates.rounds), "[updates] rounds: expected a number from 1 to 1000");
            ensure!(updates.readers <= 1000, "[updates] readers: expected a number up to 1000");
        }
        if let Some(updates) = &self.under_updates {
            ensure!(!updates.rates.is_empty(), "[under_updates] rates is empty");
            let seconds = (0.1..=3600.0).contains(&updates.seconds);
            ensure!(seconds, "[under_updates] seconds: expected a number from 0.1 to 3600");
            let batch = (1..=1 << 20).contains(&updates.batch);
            ensure!(batch, "[under_updates] batch: expected a number from 1 to {}", 1 << 20);
        }
        Ok(())
    }

    /// Returns whether packets are also looked up from frames.
    pub(crate) fn frames(&self) -> bool {
        self.lookup.as_ref().is_some_and(|lookup| lookup.frames)
    }

    /// Returns the source of `set`.
    ///
    /// Paths are relative to the definition; those that start with `$SETS/` lie in `sets`.
    pub(crate) fn origin<'a>(&self, set: &'a Set, sets: Option<&Path>) -> Result<Origin<'a>, Missing> {
        match (&set.rules, &set.trace, &set.generate) {
            (None, None, Some(generate)) => Ok(Origin::Generated(generate)),
            (Some(rules), Some(trace), None) => {
                Ok(Origin::Files { rules: self.resolve(rules, sets)?, trace: self.resolve(trace, sets)? })
            }
            _ => Err(Missing::Origin("expected `rules` and `trace`, or `generate`")),
        }
    }

    fn resolve(&self, path: &str, sets: Option<&Path>) -> Result<PathBuf, Missing> {
        let base = match path.strip_prefix("$SETS/") {
            Some(rest) => sets.ok_or(Missing::Sets)?.join(rest),
            None => self.path.parent().unwrap_or(Path::new("")).join(path),
        };
        // Files may be compressed.
        let with = |end: &str| PathBuf::from(format!("{}{end}", base.display()));
        Ok(["", ".zst", ".gz"].map(with).into_iter().find(|path| path.exists()).unwrap_or(base))
    }
}

/// Reason why a set has no source.
#[derive(Debug)]
pub(crate) enum Missing {
    /// Its files lie in a folder that was not given.
    Sets,
    /// The definition does not state it.
    Origin(&'static str),
}

impl Engine {
    /// Returns whether this is an engine in its paper's configuration, without caches or a budget.
    pub(crate) fn is_paper(&self, engine: &str) -> bool {
        let config = [("paper".to_owned(), toml::Value::Boolean(true))].into_iter().collect();
        *self == Self { name: self.name.clone(), config, ..Self::plain(engine) }
    }

    /// Returns the name in tables.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.engine)
    }

    /// Returns an engine in its default configuration, as a yardstick.
    pub(crate) fn plain(engine: &str) -> Self {
        Self {
            engine: engine.to_owned(),
            name: None,
            config: toml::Table::new(),
            simd: None,
            run_bytes: None,
            flow_cache: None,
            rule_cache: None,
            grows_boxes: false,
            steps_aside: None,
        }
    }

    /// Returns whether the configuration is the default.
    pub(crate) fn is_plain(&self) -> bool {
        let is_cached = self.flow_cache.is_some() || self.rule_cache.is_some();
        self.config.is_empty() && self.simd.is_none() && self.run_bytes.is_none() && !is_cached
    }
}

fn one_of<'de, D: serde::Deserializer<'de>, T>(
    deserializer: D,
    names: &[&str],
    find: impl Fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    let wanted = || format!("there is no `{name}`; expected one of {}", names.join(", "));
    find(&name).ok_or_else(|| serde::de::Error::custom(wanted()))
}

fn profile<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Shape, D::Error> {
    let find = |name: &str| match (Profile::from_str(name), Attack::from_str(name)) {
        (Ok(profile), _) => Some(Shape::Profile(Box::new(profile))),
        (_, Ok(attack)) => Some(Shape::Attack(attack)),
        _ => [(OPENFLOW, Shape::Openflow), (POLICY, Shape::Policy)]
            .into_iter()
            .find(|(of, _)| *of == name)
            .map(|of| of.1),
    };
    let profiles = PROFILES.into_iter().chain(FULL_PROFILES);
    let names: Vec<&str> = profiles.chain(Attack::ALL.map(Attack::name)).chain([OPENFLOW, POLICY]).collect();
    one_of(deserializer, &names, find)
}

fn ipv4() -> Family {
    Family::Ipv4
}

fn family<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Family, D::Error> {
    let both = [Family::Ipv4, Family::Ipv6];
    one_of(deserializer, &both.map(Family::name), |name| both.into_iter().find(|family| family.name() == name))
}

fn level<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Level>, D::Error> {
    let find = |name: &str| Level::ALL.into_iter().find(|level| level.name() == name);
    one_of(deserializer, &Level::ALL.map(Level::name), find).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_of_the_repository_is_good() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/definitions");
        let mut count = 0;
        for entry in fs::read_dir(folder).expect("definitions") {
            let definition = Definition::read(&entry.expect("a file").path()).expect("a good definition");
            for set in &definition.sets {
                assert!(set.digest.is_some(), "{}: {}", definition.name, set.name);
                if let Ok(Origin::Files { rules, trace }) = definition.origin(set, None) {
                    assert!(rules.exists() && trace.exists(), "{}: {}", definition.name, set.name);
                }
            }
            count += 1;
        }
        assert!(count > 0);
    }

    /// Sets of all definitions have equal digests if and only if they are the same set.
    #[test]
    fn digests_tell_sets_apart() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/definitions");
        let mut sets = Vec::new();
        for entry in fs::read_dir(folder).expect("definitions") {
            let definition = Definition::read(&entry.expect("a file").path()).expect("a good definition");
            for set in &definition.sets {
                let origin = definition.origin(set, Some(Path::new("sets"))).expect("it says where it comes from");
                // `acl` is a name of `acl1`, and likewise for `fw` and `ipc`.
                let mut origin = format!("{origin:?}, frames: {}", definition.frames());
                for kind in ["acl", "fw", "ipc"] {
                    origin = origin.replace(&format!("name: \"{kind}1\""), &format!("name: \"{kind}\""));
                }
                sets.push((set.digest.clone(), origin, format!("{}: {}", definition.name, set.name)));
            }
        }
        assert!(sets.len() > 100);
        for (index, (digest, origin, name)) in sets.iter().enumerate() {
            for (other_digest, other_origin, other) in &sets[..index] {
                assert_eq!(digest == other_digest, origin == other_origin, "{name} and {other}");
            }
        }
    }
}
