//! Inserts and removes rules of every kind in `meta` while it is rebuilt now and then.
//!
//! It must answer like `linear` built from the current rules. `CHURN_STEPS` sets the number of changes (20,000),
//! `CHURN_SEEDS` the number of sets for each profile (2).

use super::common::generate;
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::live::{self, RebuildJob, Rebuilt, Strategy};
use firstmatch_core::rule::{ExpansionLimits, RuleId, RuleSpec, lower};
use firstmatch_core::{Classifier, RuleSet};
use firstmatch_generate::{Profile, keys, rules};

/// Number of changes between comparisons.
const EVERY: usize = 1000;

/// A rebuild and the step at which its next stage happens.
///
/// It runs and is installed some steps later, and then catches up with the changes made meanwhile.
enum Job {
    None,
    Begun(Box<RebuildJob>, usize),
    Done(Box<Rebuilt>, usize),
}

/// A set with half of its rules live at first; then rules come and go at random.
struct Churn {
    state: u64,
    specs: Vec<RuleSpec>,
    away: Vec<usize>,
    there: Vec<(usize, RuleId)>,
    writer: live::Writer,
    engine: live::Engine,
    job: Job,
    rebuilds: usize,
}

fn below(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
    (*state >> 33) as usize % n
}

impl Churn {
    fn new(all: &RuleSet, seed: u64, config: &live::Config) -> Self {
        let mut state = seed;
        let specs: Vec<_> = all.iter().map(|rule| rule.spec.clone()).collect();
        let mut away: Vec<usize> = (0..specs.len()).collect();
        (1..away.len()).rev().for_each(|at| away.swap(at, below(&mut state, at + 1)));
        let mut first = away.split_off(specs.len() / 2);
        first.sort_unstable();
        let mut set = RuleSet::new(all.schemas()[0].clone());
        let there = first.iter().map(|&at| (at, set.insert(specs[at].clone()).expect("a free priority"))).collect();
        let (mut engines, writer) = live::open(set, config).expect("no budget");
        let engine = engines.remove(0);
        Self { state, specs, away, there, writer, engine, job: Job::None, rebuilds: 0 }
    }

    fn below(&mut self, n: usize) -> usize {
        below(&mut self.state, n)
    }

    fn step(&mut self, step: usize) {
        self.job = match std::mem::replace(&mut self.job, Job::None) {
            Job::None if self.writer.rebuild_is_due() => {
                Job::Begun(Box::new(self.writer.begin_rebuild()), step + self.below(400))
            }
            Job::Begun(job, at) if at <= step => {
                Job::Done(Box::new(job.run().expect("no budget")), step + self.below(100))
            }
            Job::Done(rebuilt, at) if at <= step => {
                match self.writer.install(*rebuilt) {
                    Ok(_) => self.rebuilds += 1,
                    Err(error) => assert!(error.needs_rebuild(), "{error}"),
                }
                Job::None
            }
            job => job,
        };
        let comes = self.below(2) == 0 && !self.away.is_empty() || self.there.len() < 2;
        let at = self.below(if comes { self.away.len() } else { self.there.len() });
        let mut transaction = self.writer.begin();
        let change = match comes {
            true => transaction.insert(self.specs[self.away[at]].clone()).map(Some),
            false => transaction.remove(self.there[at].1).map(|_| None),
        };
        match (change.expect("it is right"), transaction.commit()) {
            (Some(id), Ok(_)) => self.there.push((self.away.swap_remove(at), id)),
            (None, Ok(_)) => self.away.push(self.there.swap_remove(at).0),
            (_, Err(error)) => assert!(error.needs_rebuild(), "{error}"),
        }
    }
}

fn asked(name: &str, otherwise: usize) -> usize {
    let asked = std::env::var(name).ok();
    asked.map_or(otherwise, |number| number.parse().unwrap_or_else(|error| panic!("{name}={number}: {error}")))
}

#[test]
fn rules_come_and_go_as_linear_says() {
    let (steps, seeds) = (asked("CHURN_STEPS", 20_000), asked("CHURN_SEEDS", 2) as u64);
    for name in ["acl1", "acl3", "fw1", "fw4", "ipc1"] {
        let mut rebuilds = 0;
        for (seed, base) in (0..seeds).flat_map(|seed| [(seed, None), (seed, Some(live::Kind::BitSelect))]) {
            let profile: Profile = name.parse().expect("a profile");
            let size = [1200, 600, 2000, 3000][seed as usize % 4];
            let all = generate(&rules::Config { rules: size, seed, profile, ..Default::default() });
            let schema = all.schemas()[0].clone();
            let lowered = lower(&all, &schema, &ExpansionLimits::default()).expect("it fits");
            let keys = keys::Config { keys: 3000, seed, ..Default::default() };
            let keys = keys::generate(&lowered, &keys).expect("there are keys");
            // The first that fits, so that the base is the same on every machine.
            let config = live::Config {
                strategy: base.map_or(Strategy::FirstFit, Strategy::Force),
                seed: Some(1),
                ..Default::default()
            };
            let mut churn = Churn::new(&all, seed, &config);
            let mut scratch = Classifier::scratch(&churn.engine);
            let [mut answers, mut right] = [(); 2].map(|()| vec![None; keys.len()]);
            for step in 0..steps {
                churn.step(step);
                if (step + 1) % EVERY != 0 && step + 1 != steps {
                    continue;
                }
                let lowered = lower(churn.writer.rules(), &schema, &ExpansionLimits::default()).expect("it fits");
                let linear = Linear::build(&lowered, &linear::Config::default()).expect("no budget");
                Classifier::classify_batch(&linear, &mut Classifier::scratch(&linear), keys.keys(), &mut right);
                churn.engine.classify_batch(&mut scratch, keys.keys(), &mut answers);
                let wrong = (0..keys.len()).find(|&at| answers[at] != right[at]);
                let wrong = wrong.map(|at| (keys.keys().row(at), answers[at], right[at]));
                assert_eq!(wrong, None, "{name}, seed {seed}, {base:?}, step {step}");
            }
            rebuilds += churn.rebuilds;
        }
        assert!(rebuilds > 0, "{name} was never rebuilt");
    }
}
