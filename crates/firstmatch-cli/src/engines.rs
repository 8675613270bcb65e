//! Engines by name, and the command `firstmatch engines`.

use std::io::Write;
use std::path::Path;

use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::engines::registry::{ENGINES, Entry, Settings};
use firstmatch_core::live;
use firstmatch_core::rule::Lowered;
use firstmatch_core::{BuildError, Classifier};

use crate::args::{ChoiceArgs, EnginesArgs};
pub(crate) use crate::engine_names::{DEFAULT, names};
use crate::{End, rules};

/// Engine as the program offers it.
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    /// Description in a line.
    pub(crate) summary: &'static str,
    /// Function that builds the engine; the configuration is for `meta`.
    pub(crate) build: Build,
}

type Build = Box<dyn Fn(&Lowered, &live::Config) -> Result<Box<dyn Classifier>, BuildError>>;

impl Engine {
    /// Builds the engine, behind a flow cache of `cache` entries if that is given.
    pub(crate) fn build_behind(
        &self,
        rules: &Lowered,
        config: &live::Config,
        cache: Option<u32>,
    ) -> Result<Box<dyn Classifier>, BuildError> {
        let built = (self.build)(rules, config)?;
        Ok(match cache {
            Some(entries) => {
                let config = flow::Config { entries: entries as usize, ..flow::Config::default() };
                Box::new(FlowCache::new(built, &config)?)
            }
            None => built,
        })
    }
}

/// Returns the engine `meta`, then those of the registry.
pub(crate) fn all() -> impl Iterator<Item = Engine> {
    let meta = Engine {
        name: DEFAULT,
        summary: "the engine that suits the rules; `firstmatch engines RULES` says which and why (default)",
        build: Box::new(|rules, config| Ok(Box::new(live::Engine::build(rules, config)?))),
    };
    let entry = |&Entry { name, summary, build, .. }: &Entry| {
        let build = Box::new(move |rules: &Lowered, _: &live::Config| build(rules, &Settings::default()));
        Engine { name, summary, build }
    };
    std::iter::once(meta).chain(ENGINES.iter().map(entry))
}

/// Returns the configuration of `meta`, the same for all commands.
///
/// All of them therefore take the same base.
pub(crate) fn meta_config(args: &ChoiceArgs) -> live::Config {
    let limits = live::Limits {
        worst_tests: args.worst_tests,
        worst_lines: args.worst_lines,
        build_bytes: args.build_bytes.unwrap_or(usize::MAX),
        build_visits: args.build_visits.unwrap_or(usize::MAX),
    };
    live::Config { limits, ..Default::default() }
}

/// Returns which limit made the build fail, and how to raise it.
///
/// An engine other than `meta` has limits of its own, which no option raises.
pub(crate) fn how_to_raise(engine: &str, error: &BuildError) -> Option<String> {
    let cap = error.cap()?;
    if engine != DEFAULT {
        let help = match engine.parse::<live::Kind>() {
            Ok(base) => format!("`--base {base}` has no such limit"),
            Err(_) => format!("`--engine {DEFAULT}` takes a base that fits"),
        };
        return Some(format!("that is the limit of the engine {engine} itself; {help}"));
    }
    let option = match cap {
        live::Cap::WorstTests => "--worst-tests",
        live::Cap::WorstLines => "--worst-lines",
        live::Cap::BuildBytes => "--build-bytes",
        live::Cap::BuildVisits => "--build-visits",
        live::Cap::RunBytes => return None,
    };
    Some(format!("that is the limit set by {option}; a larger one there, or none, lets it be built"))
}

pub(crate) fn named(name: &str) -> Option<Engine> {
    all().find(|engine| engine.name == name)
}

/// Runs the command `firstmatch engines`.
pub(crate) fn run(args: &EnginesArgs, out: &mut dyn Write) -> anyhow::Result<End> {
    match &args.rules {
        Some(path) => explain(path, args, out),
        None => list(out).map(|()| End::Done),
    }
}

fn list(out: &mut dyn Write) -> anyhow::Result<()> {
    let width = names().map(str::len).max().unwrap_or(0);
    for engine in all() {
        writeln!(out, "{:width$}  {}", engine.name, engine.summary)?;
    }
    Ok(())
}

/// Prints the base that `meta` takes for each family of a rule file, and the reasons.
fn explain(path: &Path, args: &EnginesArgs, out: &mut dyn Write) -> anyhow::Result<End> {
    let Some(loaded) = rules::load(path, args.flags, args.limits.expansion())? else { return Ok(End::BadInput) };
    let Some(lowered) = loaded.lower() else { return Ok(End::BadInput) };
    let config = meta_config(&args.choice);
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
    writeln!(
        out,
        "\nWhat is timed can turn out otherwise another time; `classify --base {}` takes this again.",
        bases.join(",")
    )?;
    Ok(End::Done)
}
