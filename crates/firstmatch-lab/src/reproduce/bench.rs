//! Rule sets with their packets, on which engines are built, timed and updated.

use anyhow::{Context, ensure};
use firstmatch_core::rule::{Action, Conditions, Lowered, Priority, Regions, RuleSpec};
use firstmatch_core::{Classifier, KeyBuf, Match, NamedCounts, RuleSet, Schema, Updatable};
use firstmatch_generate::trace::{self, Coverage};
use indicatif::ProgressBar;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;

use crate::definition::{Engine, Updates};
use crate::digest::Running;
use crate::measure::Pace;
use crate::measure::replay::{Rows, Run};
use crate::measure::updates::Plan;
use crate::statistics::Summary;
use crate::workload::{self, Workload};

/// Packets that are looked up.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Traffic {
    /// Headers of the rules, drawn uniformly.
    #[default]
    Synthetic,
    /// Random headers, nearly all of which match a last catch-all rule, repeated each round.
    Default,
    /// The same headers, but caches have seen none of them before.
    New,
}

/// Extent of the measurements on a rule set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) packets: usize,
    /// Number of rounds of lookups, in which the engines take turns.
    pub(super) rounds: usize,
    /// Number of updates, half of them insertions.
    pub(super) updates: usize,
}

impl Default for Scale {
    fn default() -> Self {
        Self { packets: 100_000, rounds: 5, updates: 200_000 }
    }
}

/// Maximum number of packets that warm up an engine, before its first round of lookups.
const WARM_UP: usize = 100_000;

/// Rule set with its packets.
pub(super) struct Workbench {
    set: RuleSet,
    pub(super) work: Workload,
    traffic: Traffic,
    seed: u64,
    scale: Scale,
}

/// Figures of lookups.
pub(super) struct Lookups {
    /// Microseconds per packet of each engine.
    pub(super) micros: Vec<f64>,
    /// Answers, on which all engines agree.
    pub(super) answers: Vec<Option<Match>>,
}

impl Workbench {
    /// Draws the packets of a rule set.
    ///
    /// With `headers_a_rule` they are drawn from that many headers per rule; otherwise each packet has a header of its
    /// own.
    pub(super) fn new(
        mut set: RuleSet,
        traffic: Traffic,
        headers_a_rule: Option<usize>,
        seed: u64,
        scale: Scale,
    ) -> anyhow::Result<Self> {
        let mut trace =
            trace::Config { headers: scale.packets, seed, coverage: Coverage::Drawn, ..trace::Config::default() };
        if traffic != Traffic::Synthetic {
            with_default_rule(&mut set)?;
            trace.headers = 1;
        } else if let Some(each) = headers_a_rule {
            trace.headers = each.saturating_mul(set.len()).clamp(1, scale.packets);
        }
        let mut work = workload::drawn(&set, &trace)?;
        if traffic != Traffic::Synthetic {
            work.keys = random_keys(work.schema(), scale.packets, seed);
        } else if trace.headers < scale.packets {
            work.keys = drawn_again(&work.keys, work.schema(), scale.packets, seed);
        }
        Ok(Self { set, work, traffic, seed, scale })
    }

    /// Builds an engine from the rules.
    pub(super) fn build(&self, engine: &Engine) -> anyhow::Result<Box<dyn Classifier>> {
        built_of(&self.work.lowered, engine, self.seed)
    }

    /// Times lookups in interleaved rounds; all engines must answer as the first does.
    ///
    /// Each engine takes as many keys a call as its batch says, or all the one batch. The scratch of an engine, with its
    /// caches, lives through all rounds; if every header is new, each pass gets a new one.
    pub(super) fn lookups(
        &self,
        engines: &[(&str, Box<dyn Classifier>)],
        batches: &[usize],
    ) -> anyhow::Result<Lookups> {
        ensure!(!engines.is_empty() && !batches.contains(&0), "there is no engine, or no packet in a batch");
        let keys = &self.work.keys;
        let mut micros = vec![Vec::new(); engines.len()];
        let mut right: Option<Vec<Option<Match>>> = None;
        let mut replays: Vec<Rows<'_>> = engines.iter().map(|(_, engine)| Rows::new(&**engine, keys.keys())).collect();
        for (which, replay) in replays.iter_mut().enumerate() {
            replay.batched(keys.len().min(WARM_UP), batches[which % batches.len()]);
        }
        for round in 0..self.scale.rounds {
            for turn in 0..engines.len() {
                let which = (turn + round) % engines.len();
                let replay = &mut replays[which];
                if self.traffic == Traffic::New {
                    *replay = Rows::new(&*engines[which].1, keys.keys());
                }
                let taken = replay.batched(keys.len(), batches[which % batches.len()]);
                micros[which].push(taken.cpu.as_secs_f64() * 1e6 / keys.len() as f64);
                let right = right.get_or_insert_with(|| replay.answers.clone());
                ensure!(*right == replay.answers, "{} gives other answers", engines[which].0);
            }
        }
        let medians = micros.iter().map(|micros| Summary::of(micros).map_or(f64::NAN, |all| all.median)).collect();
        Ok(Lookups { micros: medians, answers: right.unwrap_or_default() })
    }

    /// Returns the microseconds per update of each engine.
    pub(super) fn updates(&self, engines: &[Engine]) -> anyhow::Result<Vec<f64>> {
        let updates = Updates { count: self.scale.updates, readers: 0, rounds: 1 };
        let pace = Pace { brief: false, bar: ProgressBar::hidden() };
        let plan = Plan::draw(&updates, &self.work, &pace).context("there are fewer than two rules")?;
        let one = |engine: &Engine| {
            let rates = plan.run(&engine.recipe()?, &self.work, &self.set);
            rates.map(|(rate, _)| 1e6 / rate).with_context(|| engine.name().to_owned())
        };
        engines.iter().map(one).collect()
    }

    /// Returns the answers of an engine.
    pub(super) fn answers(&self, engine: &dyn Classifier) -> Vec<Option<Match>> {
        let mut answers = vec![None; self.work.keys.len()];
        engine.classify_batch(&mut engine.scratch(), self.work.keys.keys(), &mut answers);
        answers
    }

    /// Returns the steps per packet that an engine counts under a name.
    pub(super) fn count(&self, engine: &dyn Classifier, name: &str) -> anyhow::Result<f64> {
        let mut answers = vec![None; self.work.keys.len()];
        let counts = engine.count_batch(&mut engine.scratch(), &self.work.keys.keys(), &mut answers);
        Ok(count_of(&counts, name)? / self.work.keys.len() as f64)
    }

    /// Adds the rules, the keys and their answers to a digest.
    pub(super) fn add_to(&self, digest: &mut Running, answers: &[Option<Match>]) {
        digest.add_rules(&self.set);
        digest.add_answers(&self.set, &self.work, answers);
    }
}

/// Returns a count of an engine by name, or the sum of several joined by `+`.
pub(super) fn count_of(counts: &NamedCounts, names: &str) -> anyhow::Result<f64> {
    let known = || counts.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let one = |name| counts.get(name).with_context(|| format!("nothing counts `{name}`; expected one of {}", known()));
    names.split('+').try_fold(0.0, |sum, name| Ok(sum + one(name)? as f64))
}

/// Builds an engine by inserting rules in random order.
///
/// An engine that takes no updates, or chooses its tables for a whole set, is built from the set.
pub(super) fn built_of(lowered: &Lowered, engine: &Engine, seed: u64) -> anyhow::Result<Box<dyn Classifier>> {
    let recipe = engine.recipe()?;
    let Some(empty) = recipe.empty.as_ref().filter(|_| engine.engine != "tuplemerge_offline") else {
        return Ok((recipe.build)(lowered)?);
    };
    let mut built = empty(lowered.schema())?;
    let mut order: Vec<_> = lowered.by_rule().collect();
    order.shuffle(&mut Pcg64::seed_from_u64(seed));
    let mut regions = Regions::new(lowered.schema().words().len());
    for (rule, range) in order {
        regions.clear();
        range.for_each(|at| regions.push(lowered.regions().get(at)));
        built.insert(rule, &regions)?;
    }
    Ok(built)
}

/// Appends a rule that matches everything.
fn with_default_rule(set: &mut RuleSet) -> anyhow::Result<()> {
    let last = set.iter().next_back();
    let line = last.and_then(|rule| rule.line).map_or(1, |line| line.get().saturating_add(1));
    let priority = last.map_or(0, |rule| rule.priority.0).checked_add(1);
    let priority = Priority(priority.context("there is no priority behind the last rule's")?);
    let (conditions, line) = (Conditions::default(), std::num::NonZeroU32::new(line));
    set.insert(RuleSpec { priority, action: Action::Permit, conditions, family: None, line, value: 0 })?;
    Ok(())
}

/// Draws packets from keys, each equally likely.
fn drawn_again(keys: &KeyBuf, schema: &Schema, packets: usize, seed: u64) -> KeyBuf {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut drawn = KeyBuf::new(schema);
    for _ in 0..packets {
        drawn.push().copy_from_slice(keys.keys().row(random.random_range(0..keys.len())));
    }
    drawn
}

/// Draws keys of values that are present.
fn random_keys(schema: &Schema, packets: usize, seed: u64) -> KeyBuf {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut keys = KeyBuf::new(schema);
    for _ in 0..packets {
        for (word, place) in schema.words().iter().zip(keys.push()) {
            *place = random.random_range(0..=word.absent.map_or(word.max, |absent| absent - 1));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use firstmatch_core::{Keys, Stats};

    use super::*;
    use crate::reproduce::lists::{Bias, Lists};

    /// Engine that matches nothing and counts its scratches.
    #[derive(Debug)]
    struct Scratches {
        schema: Schema,
        made: Arc<AtomicUsize>,
    }

    impl firstmatch_core::Engine for Scratches {
        type Scratch = u8;

        fn schema(&self) -> &Schema {
            &self.schema
        }

        fn new_scratch(&self) -> u8 {
            self.made.fetch_add(1, Ordering::Relaxed);
            0
        }

        fn stats(&self) -> Stats {
            Stats::default()
        }

        fn improve(&self, _: &mut u8, _: &Keys<'_>, _: &mut [Option<Match>]) {}
    }

    fn workbench(traffic: Traffic, headers_a_rule: Option<usize>) -> Workbench {
        let set = Lists::of("acl1", None::<&Path>).and_then(|lists| lists.list(20, Bias::default(), 1)).expect("rules");
        Workbench::new(set, traffic, headers_a_rule, 1, Scale::default()).expect("packets")
    }

    #[test]
    fn a_scratch_lives_through_all_rounds_unless_headers_are_new() {
        let new = (Traffic::New, 1 + Scale::default().rounds);
        for (traffic, expected) in [(Traffic::Synthetic, 1), (Traffic::Default, 1), new] {
            let bench = workbench(traffic, None);
            let made = Arc::new(AtomicUsize::new(0));
            let engine = Scratches { schema: bench.work.schema().clone(), made: Arc::clone(&made) };
            bench.lookups(&[("scratches", Box::new(engine))], &[256]).expect("answers");
            assert_eq!(made.load(Ordering::Relaxed), expected, "{traffic:?}");
        }
    }

    #[test]
    fn packets_come_from_few_headers_or_match_the_last_rule() {
        let rows = |bench: &Workbench| -> std::collections::HashSet<Vec<u32>> {
            let keys = bench.work.keys.keys();
            (0..bench.work.keys.len()).map(|row| keys.row(row).to_vec()).collect()
        };
        let few = workbench(Traffic::Synthetic, Some(3));
        assert!(few.work.keys.len() == few.scale.packets && rows(&few).len() <= 3 * few.set.len());
        let default = workbench(Traffic::Default, None);
        let answers = default.answers(&*default.build(&Engine::plain("linear")).expect("an engine"));
        let last = default.set.iter().next_back().map(|rule| rule.id);
        let to_last = answers.iter().filter(|answer| answer.map(|found| found.rule) == last).count();
        assert!(to_last * 10 > default.scale.packets * 9, "{to_last}");
        let line = default.set.iter().next_back().and_then(|rule| rule.line);
        assert_eq!(line.map(u32::from), Some(default.set.len() as u32), "the last rule has a line of its own");
    }
}
