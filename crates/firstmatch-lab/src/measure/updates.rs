//! Updates: the number per second that an engine takes.
//!
//! The protocol is that of the TupleMerge paper (Daly et al., IEEE/ACM Transactions on Networking 27(4), 2019, section
//! IV-A). A random half of the rules is live at first. Then random rules are inserted and removed, half and half, in
//! shuffled order. If the drawn kind has no candidate, the other is taken. For example, an insertion becomes a removal
//! when all rules are live. Lowering and drawing are not timed. At the end the answers are compared with those of
//! `linear` over the live rules.
//!
//! With readers, the engine is behind a lock, because only its sole owner may change it. Readers take the lock for a
//! batch, the writer for an update.

use std::panic::resume_unwind;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::rule::{ExpansionLimits, Regions, lower};
use firstmatch_core::{Classifier, KeyBuf, Match, RuleSet, Updatable, UpdateError};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::Pace;
use super::lookup::turns;
use super::subject::Subject;
use crate::clock::{Taken, timed};
use crate::definition::Updates;
use crate::engines::Recipe;
use crate::statistics::Summary;
use crate::workload::Workload;

/// Duration of a round with readers.
const WITH_READERS: Duration = Duration::from_secs(2);
/// Number of updates between two readings of the clock.
const STRIDE: usize = 64;
/// Number of keys that a reader looks up at a time.
const BATCH: usize = 256;
/// Number of keys compared at the end.
const COMPARED: usize = 2000;

/// Updates of a workload, drawn once and the same for every engine.
pub(crate) struct Plan {
    rules: Vec<(Match, Regions)>,
    start: Vec<usize>,
    /// Whether to insert, and the index of the rule.
    steps: Vec<(bool, usize)>,
}

/// For each subject, the updates per second of each round, without and with readers.
///
/// Each pair is of CPU time and of wall time.
pub(crate) struct Rates(Vec<[(Vec<f64>, Vec<f64>); 2]>);

impl Rates {
    pub(crate) fn new(subjects: usize) -> Self {
        Self((0..subjects).map(|_| Default::default()).collect())
    }

    /// Runs a sitting's rounds of every engine that takes updates, interleaved.
    ///
    /// A failure replaces the subject's build.
    pub(crate) fn sit(
        &mut self,
        updates: &Updates,
        subjects: &mut [Subject],
        work: &Workload,
        rules: &RuleSet,
        pace: &Pace,
    ) {
        let Some(plan) = Plan::draw(updates, work, pace) else { return };
        for round in 0..pace.rounds(updates.rounds) {
            for which in turns(subjects.len(), round) {
                let subject = &mut subjects[which];
                let (Ok(_), Some(recipe)) = (&subject.built, &subject.recipe) else { continue };
                if recipe.empty.is_none() {
                    continue;
                }
                pace.progress(&format!("{}, updates", subject.name));
                let alone = plan.run(recipe, work, rules).map(|rate| (0, rate));
                let with = (updates.readers > 0)
                    .then(|| plan.run_with_readers(recipe, work, rules, updates.readers).map(|rate| (1, rate)));
                let both: anyhow::Result<Vec<_>> = [Some(alone), with].into_iter().flatten().collect();
                match both.context("updates") {
                    Ok(both) => both.into_iter().for_each(|(readers, (cpu, wall))| {
                        self.0[which][readers].0.push(cpu);
                        self.0[which][readers].1.push(wall);
                    }),
                    Err(error) => subject.built = Err(error),
                }
            }
        }
    }

    /// Returns the figures of each subject without and with readers, of CPU and of wall time.
    pub(crate) fn summaries(self) -> Vec<[Option<(Summary, Summary)>; 2]> {
        let summaries = |(cpu, wall): (Vec<f64>, Vec<f64>)| Some((Summary::of(&cpu)?, Summary::of(&wall)?));
        self.0.into_iter().map(|rates| rates.map(summaries)).collect()
    }
}

impl Plan {
    /// Draws the updates; `None` if there are fewer than two rules.
    pub(crate) fn draw(updates: &Updates, work: &Workload, pace: &Pace) -> Option<Self> {
        let lowered = &*work.lowered;
        let regions_of = |range: std::ops::Range<usize>| {
            let mut regions = Regions::new(lowered.schema().words().len());
            range.for_each(|index| regions.push(lowered.regions().get(index)));
            regions
        };
        let rules: Vec<_> = lowered.by_rule().map(|(rule, range)| (rule, regions_of(range))).collect();
        if rules.len() < 2 {
            return None;
        }
        let mut random = Pcg64::seed_from_u64(1);
        let mut outside: Vec<usize> = (0..rules.len()).collect();
        outside.shuffle(&mut random);
        let mut inside = outside.split_off(rules.len() / 2);
        let start = inside.clone();
        let count = if pace.brief { updates.count.min(2000) } else { updates.count };
        let mut kinds: Vec<bool> = (0..count).map(|i| i % 2 == 0).collect();
        kinds.shuffle(&mut random);
        let mut step = |wanted: bool| {
            let insert = if wanted { !outside.is_empty() } else { inside.is_empty() };
            let (from, to) = if insert { (&mut outside, &mut inside) } else { (&mut inside, &mut outside) };
            let rule = from.swap_remove(random.random_range(0..from.len()));
            to.push(rule);
            (insert, rule)
        };
        let steps = kinds.into_iter().map(&mut step).collect();
        Some(Self { rules, start, steps })
    }

    /// Returns the updates per second of CPU time and of wall time.
    pub(crate) fn run(&self, recipe: &Recipe, work: &Workload, rules: &RuleSet) -> anyhow::Result<(f64, f64)> {
        let mut engine = self.started(recipe, work)?;
        let (outcome, taken) = timed(|| self.steps.iter().try_for_each(|step| self.apply(&mut *engine, step)));
        outcome?;
        self.compare(&*engine, self.steps.len(), work, rules)?;
        Ok(rates(self.steps.len(), taken))
    }

    /// Returns the same rates while other threads look up.
    fn run_with_readers(
        &self,
        recipe: &Recipe,
        work: &Workload,
        rules: &RuleSet,
        readers: usize,
    ) -> anyhow::Result<(f64, f64)> {
        let engine = RwLock::new(self.started(recipe, work)?);
        let poisoned = || anyhow!("a reader panicked");
        let done = AtomicBool::new(false);
        let (count, taken) = thread::scope(|scope| {
            let running: Vec<_> = (0..readers).map(|_| scope.spawn(|| read(&engine, &work.keys, &done))).collect();
            let until = Instant::now() + WITH_READERS;
            let (count, taken) = timed(|| -> anyhow::Result<usize> {
                for (index, step) in self.steps.iter().enumerate() {
                    if index % STRIDE == 0 && Instant::now() > until {
                        return Ok(index);
                    }
                    self.apply(&mut **engine.write().map_err(|_| poisoned())?, step)?;
                }
                Ok(self.steps.len())
            });
            done.store(true, Ordering::Relaxed);
            running.into_iter().for_each(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            count.map(|count| (count, taken))
        })?;
        let engine = engine.into_inner().map_err(|_| poisoned())?;
        self.compare(&*engine, count, work, rules)?;
        Ok(rates(count, taken))
    }

    /// Builds an engine with the rules of the start.
    fn started(&self, recipe: &Recipe, work: &Workload) -> anyhow::Result<Box<dyn Updatable>> {
        let empty = recipe.empty.as_ref().ok_or_else(|| anyhow!("it takes no updates"))?;
        let mut engine = empty(work.schema())?;
        for &rule in &self.start {
            engine.insert(self.rules[rule].0, &self.rules[rule].1)?;
        }
        Ok(engine)
    }

    fn apply(&self, engine: &mut dyn Updatable, &(insert, rule): &(bool, usize)) -> Result<(), UpdateError> {
        let (rule, regions) = &self.rules[rule];
        if insert { engine.insert(*rule, regions) } else { engine.remove(rule.rule) }
    }

    /// Compares the answers after `steps` updates with those of `linear` over the live rules.
    fn compare(&self, engine: &dyn Updatable, steps: usize, work: &Workload, set: &RuleSet) -> anyhow::Result<()> {
        let mut live = vec![false; self.rules.len()];
        self.start.iter().for_each(|&rule| live[rule] = true);
        self.steps[..steps].iter().for_each(|&(insert, rule)| live[rule] = insert);
        let mut rest = set.clone();
        for (_, (rule, _)) in live.iter().zip(&self.rules).filter(|(live, _)| !**live) {
            rest.remove(rule.rule)?;
        }
        compare(engine, &rest, work).context("after updates")
    }
}

/// Compares the answers of an engine to some keys with those of `linear` over the live rules.
pub(super) fn compare(engine: &dyn Classifier, live: &RuleSet, work: &Workload) -> anyhow::Result<()> {
    let right = Linear::build(&lower(live, work.schema(), &ExpansionLimits::default())?, &linear::Config::default())?;
    let keys = work.keys.keys().slice(0, work.keys.len().min(COMPARED));
    let answers = |engine: &dyn Classifier| {
        let mut answers = vec![None; keys.len()];
        engine.classify_batch(&mut engine.scratch(), keys, &mut answers);
        answers
    };
    let (got, want) = (answers(engine), answers(&right));
    let different = got.iter().zip(&want).filter(|(got, want)| got != want).count();
    ensure!(different == 0, "{different} of {} answers are wrong", keys.len());
    Ok(())
}

fn rates(count: usize, taken: Taken) -> (f64, f64) {
    (count as f64 / taken.cpu.as_secs_f64(), count as f64 / taken.wall.as_secs_f64())
}

fn read(engine: &RwLock<Box<dyn Updatable>>, keys: &KeyBuf, done: &AtomicBool) {
    let Ok(mut scratch) = engine.read().map(|engine| engine.scratch()) else { return };
    let mut answers = vec![None; BATCH.min(keys.len())];
    let mut from = 0;
    while !done.load(Ordering::Relaxed) {
        let Ok(engine) = engine.read() else { return };
        let to = keys.len().min(from + answers.len());
        engine.classify_batch(&mut scratch, keys.keys().slice(from, to), &mut answers[..to - from]);
        from = if to == keys.len() { 0 } else { to };
    }
}
