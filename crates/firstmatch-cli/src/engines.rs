//! Engines by name, and the command `firstmatch engines`.

use std::io::Write;
use std::path::Path;

use anyhow::bail;
use firstmatch::{Firewall, Rebuilds};
use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::cache::rule::{self, RuleCache};
use firstmatch_core::engines::registry::{Entry, OptionValues, Settings};
use firstmatch_core::live::{self, Front, META};
use firstmatch_core::rule::{Lowered, lower_products};
use firstmatch_core::{BuildError, Classifier, Schema, Scratch};

use crate::args::{ChoiceArgs, EnginesArgs};
pub(crate) use crate::engine_names::{DEFAULT, all, named, names};
use crate::rules::Loaded;
use crate::{End, rules};

/// Caches before an engine: the entries of a flow cache and the boxes of a rule cache, if there are to be any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caches {
    pub(crate) flows: Option<u32>,
    pub(crate) boxes: Option<u32>,
}

impl Caches {
    /// Puts the caches before an engine for `rules`.
    fn before(self, engine: Box<dyn Classifier>, rules: &Lowered) -> Result<Box<dyn Classifier>, BuildError> {
        let mut built = engine;
        if let Some(boxes) = self.boxes {
            let mut config = rule::Config::default();
            config.boxes = boxes as usize;
            built = Box::new(RuleCache::over(built, rules, &config)?);
        }
        if let Some(entries) = self.flows {
            let config = flow::Config { entries: entries as usize, ..flow::Config::default() };
            built = Box::new(FlowCache::new(built, &config)?);
        }
        Ok(built)
    }
}

/// Number of regions up to which a list stands behind a front that answers every packet.
const MOST_IN_LIST: usize = 1 << 20;

/// Serves rules by an engine behind caches; `bases` are those of `meta`, none, one, or one for each family.
///
/// # Errors
/// If the rules have too many regions, or the engine cannot be built for them.
pub(crate) fn serve(
    loaded: &Loaded,
    engine: &Entry,
    settings: &Settings,
    bases: &[live::Kind],
    caches: Caches,
) -> Result<Firewall, firstmatch::Error> {
    let is_meta = engine.name == DEFAULT;
    let own = if is_meta { settings.clone() } else { Settings::default() };
    let mut config = live::Config::of(&own)?;
    let mut forced = bases.iter().map(|&base| live::Strategy::Force(base));
    config.strategy = forced.next().unwrap_or(config.strategy);
    config.ipv6_strategy = forced.next();
    if !is_meta || caches != Caches::default() {
        let (name, build, of_meta, settings) = (engine.name, engine.build, config, settings.clone());
        let front = Front::new(name, move |rules, _| {
            let built = if is_meta { frozen(rules, &of_meta)? } else { build(rules, &settings)? };
            caches.before(built, rules)
        });
        // No rule changes here, so the base never answers: a list takes least, unless there are far too many regions.
        let rules = &loaded.file.rules;
        let has_several = |schema: &Schema| {
            let mut conditions = rules.iter().flat_map(|rule| rule.conditions.iter());
            conditions.any(|of| of.negated || of.tests_for(schema.family()).nth(1).is_some())
        };
        let is_long = rules.schemas().iter().filter(|schema| has_several(schema)).any(|schema| {
            let lowered = lower_products(rules, schema, &loaded.expansion());
            lowered.is_ok_and(|lowered| lowered.region_count() > MOST_IN_LIST)
        });
        // Lists of IPv6 are one product over whole addresses alone.
        let kinds = match is_long {
            true => [live::Kind::BitVector, live::Kind::SetPairs],
            false => [live::Kind::Linear; 2],
        };
        let [strategy, ipv6] = kinds.map(live::Strategy::Force);
        config = live::Config { strategy, ipv6_strategy: Some(ipv6), front: Some(front), ..live::Config::default() };
    }
    // The packets come in batches that suit their source.
    let builder = Firewall::builder().live(config).expansion_limits(loaded.expansion());
    let builder = builder.rebuilds(Rebuilds::Caller).values_only(true);
    builder.build_set(loaded.file.rules.clone(), loaded.file.policy)
}

/// Serves rules that are read anew while packets are counted for each of them.
///
/// # Errors
/// As for [`serve`], or if a field of the rules has no packet header to come from.
#[cfg(all(feature = "live", target_os = "linux"))]
pub(crate) fn serve_live(loaded: &Loaded, engine: &Entry, settings: &Settings) -> Result<Firewall, firstmatch::Error> {
    let is_meta = engine.name == DEFAULT;
    let own = if is_meta { settings.clone() } else { Settings::default() };
    let mut config = live::Config::of(&own)?;
    if !is_meta {
        let (build, settings) = (engine.build, settings.clone());
        config.front = Some(Front::new(engine.name, move |rules, _| build(rules, &settings)));
    }
    let builder = Firewall::builder().live(config).expansion_limits(loaded.expansion()).counters(true);
    builder.build_file(loaded.with_live_sets().clone())
}

/// Builds an engine over rules that do not change, for a system of threads.
///
/// # Errors
/// If the engine cannot be built for them.
pub(crate) fn alone(engine: &Entry, settings: &Settings, rules: &Lowered) -> Result<Box<dyn Classifier>, BuildError> {
    if engine.name == DEFAULT {
        return frozen(rules, &live::Config::of(settings)?);
    }
    (engine.build)(rules, settings)
}

/// Builds the base that `meta` takes for rules that do not change, without the layer for changes.
fn frozen(rules: &Lowered, config: &live::Config) -> Result<Box<dyn Classifier>, BuildError> {
    let engine = live::Engine::build(rules, config)?;
    Ok(match engine.frozen() {
        Some(frozen) => Box::new(frozen),
        None => Box::new(engine),
    })
}

/// Returns the counts of the rule cache in a scratch of an engine behind [`Caches`]; zeros without a cache.
pub(crate) fn rule_cache_counts(scratch: &Scratch) -> rule::Counts {
    RuleCache::<Box<dyn Classifier>>::counts(scratch)
}

/// Returns the settings of an engine.
///
/// They are the same for all commands, so all commands take the same base of `meta`.
///
/// # Errors
/// If a limit is given that only `meta` has, or if the engine lacks an option that is given.
pub(crate) fn settings(engine: &Entry, args: &ChoiceArgs, options: &[(String, String)]) -> anyhow::Result<Settings> {
    let mut settings = Settings::default();
    settings.visits = args.build_visits.unwrap_or(usize::MAX);
    let of_meta = [
        ("--worst-tests", "worst_tests", args.worst_tests),
        ("--worst-lines", "worst_lines", args.worst_lines),
        ("--build-bytes", "build_bytes", args.build_bytes),
    ];
    for (flag, name, limit) in of_meta {
        let Some(limit) = limit else { continue };
        if engine.name != DEFAULT {
            bail!("{flag} is of the engine {DEFAULT}, and --engine {} was asked for", engine.name);
        }
        settings = settings.with_option(name, &limit.to_string());
    }
    for (name, value) in options {
        settings = settings.with_option(name, value);
    }
    if let Err(error) = engine.check(&settings) {
        bail!("engine {}: {error}", engine.name);
    }
    Ok(settings)
}

/// Returns the limit that made the build fail, and how to raise it.
pub(crate) fn how_to_raise(engine: &str, error: &BuildError) -> Option<String> {
    let cap = error.cap()?;
    let option = match cap {
        live::Cap::BuildVisits if engine.ends_with("rfc") => {
            return Some("the smaller of --build-visits and `--option visits=N` sets that limit".to_owned());
        }
        live::Cap::BuildVisits => "--build-visits",
        // An engine other than `meta` has limits of its own.
        _ if engine != DEFAULT => {
            let name = if cap == live::Cap::BuildBytes { "build_bytes" } else { "vectors" };
            let mut options = all().find(|of| of.name == engine).into_iter().flat_map(|of| (of.options)());
            let help = match options.find(|option| option.name == name).map(|option| option.values) {
                Some(OptionValues::CountWithin { most, .. }) => format!("`--option {name}={most}` allows the most"),
                Some(_) => format!("`--option {name}=BYTES` sets another"),
                None => format!("`--engine {DEFAULT}` takes a base that fits"),
            };
            return Some(format!("that is the limit of the engine {engine} itself; {help}"));
        }
        live::Cap::WorstTests => "--worst-tests",
        live::Cap::WorstLines => "--worst-lines",
        live::Cap::BuildBytes => "--build-bytes",
        live::Cap::RunBytes => return None,
    };
    Some(format!("that is the limit set by {option}; a larger one there, or none, lets it be built"))
}

/// Runs the command `firstmatch engines`.
pub(crate) fn run(args: &EnginesArgs, out: &mut dyn Write) -> anyhow::Result<End> {
    match &args.rules {
        None => list(args.options, out).map(|()| End::Done),
        Some(path) => explain(path, args, out),
    }
}

/// Prints each engine and, if `options` is true, its options.
fn list(options: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let width = names().map(str::len).max().unwrap_or(0);
    for engine in all() {
        let default =
            if engine.name == DEFAULT { "; `firstmatch engines RULES` says which and why (default)" } else { "" };
        writeln!(out, "{:width$}  {}{default}", engine.name, engine.summary)?;
        for option in (engine.options)().iter().filter(|_| options) {
            writeln!(out, "{:width$}    {}: {} ({})", "", option.name, option.summary, option.values)?;
        }
    }
    Ok(())
}

/// Prints the base that `meta` takes for each family of a rule file, and the reasons.
fn explain(path: &Path, args: &EnginesArgs, out: &mut dyn Write) -> anyhow::Result<End> {
    let Some(loaded) = rules::load(path, args.reading())? else { return Ok(End::BadInput) };
    let Some(lowered) = loaded.lower() else { return Ok(End::BadInput) };
    let config = live::Config::of(&settings(&META, &args.choice, &[])?)?;
    let mut bases: Vec<&str> = Vec::new();
    for (index, rules) in lowered.iter().enumerate() {
        let engine = match live::Engine::build(rules, &config) {
            Ok(engine) => engine,
            Err(error) => {
                loaded.build_error(&error, how_to_raise(DEFAULT, &error));
                return Ok(End::BadInput);
            }
        };
        if index > 0 {
            writeln!(out)?;
        }
        if let Some(family) = rules.schema().family() {
            writeln!(out, "{family}")?;
        }
        let explained = engine.explain();
        writeln!(out, "{explained}")?;
        bases.push(explained.kind.name());
    }
    writeln!(out, "\nTimings vary between runs. To use these engines again: `classify --base {}`.", bases.join(","))?;
    Ok(End::Done)
}
