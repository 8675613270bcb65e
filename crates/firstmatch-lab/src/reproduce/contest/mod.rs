//! Contests of engines over generated rule sets, by profile and size of the sets.

mod claims;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_core::rule::{Action, Conditions, Priority, Regions, RuleSpec};
use firstmatch_core::{Classifier, KeyBuf, Match, RuleSet, Schema};
use firstmatch_generate::trace;
use firstmatch_generate::trace::Coverage;
use indicatif::ProgressBar;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;

use super::Outcome;
use super::lists::Lists;
use crate::clock::timed;
use crate::definition::{Engine, Updates};
use crate::engines::Recipe;
use crate::measure::Pace;
use crate::measure::replay::{Rows, Run};
use crate::measure::updates::Plan;
use crate::memory::counted;
use crate::statistics::Summary;
use crate::transform::Transform;
use crate::workload::{self, Workload};
use claims::About;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contest {
    measures: Vec<Measure>,
    profiles: Vec<String>,
    sizes: Vec<usize>,
    /// Number of rule sets of each profile and size, each with its own seed.
    lists: u64,
    /// Smoothing of prefix lengths, in bits.
    #[serde(default)]
    smoothing: u8,
    /// Transformation of the rules before anything else.
    transform: Option<Transform>,
    #[serde(default = "synthetic")]
    traffics: Vec<Traffic>,
    /// Number of headers per rule, from which synthetic packets are drawn.
    ///
    /// By default there is a header for each packet.
    headers_a_rule: Option<usize>,
    /// Number of keys per call.
    #[serde(default = "one")]
    batch: usize,
    engines: Vec<Engine>,
    pub(super) claims: Vec<About>,
}

/// Measures of a contest.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Measure {
    /// Microseconds per packet.
    Lookup,
    /// Microseconds per update, half of them insertions, half removals.
    Update,
    /// MiB at run time.
    Memory,
    /// Milliseconds to build, or to insert all rules.
    Build,
    /// Tables or partitions.
    Tables,
    /// Most cache lines of a lookup per table or partition, on average, as the engine states.
    Lines,
}

/// Packets that are looked up.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Traffic {
    /// Headers of the rules, drawn uniformly.
    Synthetic,
    /// Random headers, nearly all of which match a last catch-all rule, repeated each round.
    Default,
    /// The same headers, but caches have seen none of them before.
    New,
}

fn synthetic() -> Vec<Traffic> {
    vec![Traffic::Synthetic]
}

fn one() -> usize {
    1
}

/// Number of packets of a list.
const PACKETS: usize = 100_000;
/// Number of rounds of lookups, in which the engines take turns.
const ROUNDS: usize = 5;
/// Number of updates, half of them insertions.
const UPDATES: usize = 200_000;

/// Figures of each engine by profile and size: the mean over the lists.
struct Figures<'a> {
    run: &'a Contest,
    measure: Measure,
    traffic: Traffic,
    means: Vec<Vec<Vec<f64>>>,
}

pub(super) fn run(run: &Contest, seeds: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<Vec<Outcome>> {
    ensure!(!run.profiles.is_empty() && !run.sizes.is_empty() && run.lists > 0, "there is no rule set");
    ensure!(!run.engines.is_empty() && run.batch > 0, "there is no engine, or no packet in a batch");
    let zeros = vec![vec![vec![0.0; run.sizes.len()]; run.profiles.len()]; run.engines.len()];
    let kinds = run.traffics.iter().flat_map(|&traffic| run.measures.iter().map(move |&measure| (traffic, measure)));
    let figures = kinds.map(|(traffic, measure)| Figures { run, measure, traffic, means: zeros.clone() });
    let mut all: Vec<Figures<'_>> = figures.collect();
    let bar = ProgressBar::new((run.profiles.len() * run.sizes.len()) as u64 * run.lists);
    for (p, name) in run.profiles.iter().enumerate() {
        let lists = Lists::of(name, seeds)?;
        for (s, &size) in run.sizes.iter().enumerate() {
            for seed in 1..=run.lists {
                for figures in &mut all {
                    let list = List::new(run, figures.traffic, &lists, size, seed);
                    let measured = list.and_then(|list| list.measure(figures.measure));
                    let measured = measured.with_context(|| format!("{name}, {size} rules"))?;
                    for (e, figure) in measured.into_iter().enumerate() {
                        figures.means[e][p][s] += figure / run.lists as f64;
                    }
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    all.iter().try_for_each(|figures| figures.print(out))?;
    let of = |about: &About| {
        let wanted = |figures: &&Figures<'_>| {
            about.measure.is_none_or(|measure| measure == figures.measure)
                && about.traffic.is_none_or(|traffic| traffic == figures.traffic)
        };
        let figures = all.iter().find(wanted);
        figures.with_context(|| format!("claim `{}`: the entry has no such measure or traffic", about.id))?.about(about)
    };
    run.claims.iter().map(of).collect()
}

/// Rule set with its packets.
struct List<'a> {
    run: &'a Contest,
    traffic: Traffic,
    set: RuleSet,
    work: Workload,
    seed: u64,
}

impl<'a> List<'a> {
    fn new(run: &'a Contest, traffic: Traffic, lists: &Lists, size: usize, seed: u64) -> anyhow::Result<Self> {
        let mut set = lists.list(size, run.smoothing, seed)?;
        if let Some(transform) = run.transform {
            set = transform.apply(&set)?;
        }
        let mut trace = trace::Config { headers: PACKETS, seed, coverage: Coverage::Drawn, ..trace::Config::default() };
        if traffic != Traffic::Synthetic {
            with_default_rule(&mut set)?;
            trace.headers = 1;
        } else if let Some(each) = run.headers_a_rule {
            trace.headers = each.saturating_mul(set.len()).clamp(1, PACKETS);
        }
        let mut work = workload::drawn(&set, &trace)?;
        if traffic != Traffic::Synthetic {
            work.keys = random_keys(work.schema(), seed);
        } else if trace.headers < PACKETS {
            work.keys = drawn_again(&work.keys, work.schema(), seed);
        }
        Ok(Self { run, traffic, set, work, seed })
    }

    /// Returns the figure of each engine.
    fn measure(&self, measure: Measure) -> anyhow::Result<Vec<f64>> {
        let recipes = self.run.engines.iter().map(Engine::recipe).collect::<anyhow::Result<Vec<_>>>()?;
        let engines = || recipes.iter().zip(&self.run.engines);
        if measure == Measure::Lookup {
            let built = engines().map(|(recipe, engine)| self.build(recipe, engine));
            return self.lookups(&built.collect::<anyhow::Result<Vec<_>>>()?);
        }
        let of = |(recipe, engine)| {
            if measure == Measure::Update {
                return self.update(recipe, engine);
            }
            let ((built, taken), memory) = counted(|| timed(|| self.build(recipe, engine)));
            let stats = built?.stats();
            Ok(match measure {
                Measure::Memory => memory.kept as f64 / f64::from(1 << 20),
                Measure::Build => taken.cpu.as_secs_f64() * 1e3,
                Measure::Tables => stats.tables as f64,
                _ => stats.worst_lines as f64 / stats.tables.max(1) as f64,
            })
        };
        engines().map(of).collect()
    }

    /// Builds an engine by inserting the rules in random order.
    ///
    /// An engine that takes no updates, or chooses its tables for a whole set, is built from the set.
    fn build(&self, recipe: &Recipe, engine: &Engine) -> anyhow::Result<Box<dyn Classifier>> {
        let lowered = &self.work.lowered;
        let Some(empty) = recipe.empty.as_ref().filter(|_| engine.engine != "tuplemerge_offline") else {
            return Ok((recipe.build)(lowered)?);
        };
        let mut built = empty(lowered.schema())?;
        let mut order: Vec<_> = lowered.by_rule().collect();
        order.shuffle(&mut Pcg64::seed_from_u64(self.seed));
        let mut regions = Regions::new(lowered.schema().words().len());
        for (rule, range) in order {
            regions.clear();
            range.for_each(|at| regions.push(lowered.regions().get(at)));
            built.insert(rule, &regions)?;
        }
        Ok(built)
    }

    /// Times lookups in interleaved rounds; all engines must answer as the first does.
    ///
    /// Caches stay as the round before left them, except if every header is new.
    fn lookups(&self, engines: &[Box<dyn Classifier>]) -> anyhow::Result<Vec<f64>> {
        let keys = &self.work.keys;
        let mut micros = vec![Vec::new(); engines.len()];
        let mut right: Option<Vec<Option<Match>>> = None;
        let mut replays: Vec<Rows<'_>> = engines.iter().map(|engine| Rows::new(&**engine, keys.keys())).collect();
        for round in 0..=ROUNDS {
            for turn in 0..engines.len() {
                let which = (turn + round) % engines.len();
                let replay = &mut replays[which];
                if self.traffic == Traffic::New {
                    *replay = Rows::new(&*engines[which], keys.keys());
                }
                let taken = replay.batched(keys.len(), self.run.batch);
                let right = right.get_or_insert_with(|| replay.answers.clone());
                ensure!(*right == replay.answers, "{} gives other answers", self.run.engines[which].name());
                // The first round warms up.
                if round > 0 {
                    micros[which].push(taken.cpu.as_secs_f64() * 1e6 / keys.len() as f64);
                }
            }
        }
        Ok(micros.iter().map(|micros| Summary::of(micros).map_or(f64::NAN, |all| all.median)).collect())
    }

    /// Returns the microseconds per update.
    fn update(&self, recipe: &Recipe, engine: &Engine) -> anyhow::Result<f64> {
        let updates = Updates { count: UPDATES, readers: 0, rounds: 1 };
        let pace = Pace { brief: false, bar: ProgressBar::hidden() };
        let plan = Plan::draw(&updates, &self.work, &pace).context("there are fewer than two rules")?;
        let (rate, _) = plan.run(recipe, &self.work, &self.set).with_context(|| engine.name().to_owned())?;
        Ok(1e6 / rate)
    }
}

/// Appends a rule that matches everything.
fn with_default_rule(set: &mut RuleSet) -> anyhow::Result<()> {
    let last = set.iter().next_back().map_or(0, |rule| rule.priority.0);
    let priority = Priority(last.checked_add(1).context("there is no priority behind the last rule's")?);
    let conditions = Conditions::default();
    set.insert(RuleSpec { priority, action: Action::Permit, conditions, family: None, line: None, value: 0 })?;
    Ok(())
}

/// Draws packets from keys, each equally likely.
fn drawn_again(keys: &KeyBuf, schema: &Schema, seed: u64) -> KeyBuf {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut drawn = KeyBuf::new(schema);
    for _ in 0..PACKETS {
        drawn.push().copy_from_slice(keys.keys().row(random.random_range(0..keys.len())));
    }
    drawn
}

/// Draws keys of values that are present.
fn random_keys(schema: &Schema, seed: u64) -> KeyBuf {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut keys = KeyBuf::new(schema);
    for _ in 0..PACKETS {
        for (word, place) in schema.words().iter().zip(keys.push()) {
            *place = random.random_range(0..=word.absent.map_or(word.max, |absent| absent - 1));
        }
    }
    keys
}
