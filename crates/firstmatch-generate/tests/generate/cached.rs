//! Changes rules of every kind in `meta` while threads look up through rule caches.
//!
//! Each answer must be one of the rules at some moment of its batch. `CHURN_CHANGES` sets the number of changes
//! (4,000), over all profiles.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::common::generate;
use firstmatch_core::cache::rule::{Config, Growth, RuleCache};
use firstmatch_core::live::{self, Engine, Kind, RebuildJob, Strategy, Writer};
use firstmatch_core::rule::{ExpansionLimits, Lowered, Priority, RuleId, RuleSpec, lower};
use firstmatch_core::{Classifier, KeyBuf, Match, RuleSet};
use firstmatch_generate::{Profile, keys, rules};

/// Profiles of the rules.
const PROFILES: [&str; 3] = ["acl1", "fw1", "ipc1"];
/// Number of keys that packets have.
const KEYS: usize = 256;
/// Number of commits between two rests of the writer, at most.
const BURST: usize = 128;
/// Number of changes from the beginning of a rebuild to its end.
const LATER: usize = 20;
/// Number of batches of each reader in a rest of the writer.
const REST: u64 = 8;

/// Change of a rule: its number among all rules, and the id that it has from then on, if any.
type Change = (usize, Option<RuleId>);

/// Commits of the writer so far.
#[derive(Default)]
struct Log {
    /// Changes of each commit, in order.
    changes: RwLock<Vec<Change>>,
    /// Number of batches of all readers.
    batches: AtomicU64,
    is_done: AtomicBool,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % n
    }
}

/// All rules with their regions, and the keys of the packets.
struct Case {
    specs: Vec<RuleSpec>,
    all: Lowered,
    /// Range of the regions of each rule.
    ranges: Vec<std::ops::Range<usize>>,
    keys: KeyBuf,
}

impl Case {
    fn new(profile: Profile, seed: u64) -> Self {
        let all = generate(&rules::Config { rules: 400, seed, profile, ..Default::default() });
        let schema = all.schemas()[0].clone();
        let lowered = lower(&all, &schema, &ExpansionLimits::default()).expect("it fits");
        let config = keys::Config { keys: KEYS, seed, ..Default::default() };
        let keys = keys::generate(&lowered, &config).expect("there are keys");
        let specs: Vec<RuleSpec> = all.iter().map(|rule| rule.spec.clone()).collect();
        let mut ranges = vec![0..0; specs.len()];
        let numbers: Vec<Priority> = specs.iter().map(|spec| spec.priority).collect();
        for (rule, range) in lowered.by_rule() {
            ranges[numbers.binary_search(&rule.priority).expect("rules are in order")] = range;
        }
        Self { specs, all: lowered, ranges, keys }
    }

    fn holds(&self, rule: usize, key: &[u32]) -> bool {
        self.ranges[rule].clone().any(|at| self.all.regions().get(at).contains(key))
    }
}

/// The right answers, change by change.
struct Oracle<'a> {
    case: &'a Case,
    live: Vec<Option<RuleId>>,
    /// Number of the first live rule that holds each key.
    first: Vec<Option<usize>>,
    generation: usize,
}

impl<'a> Oracle<'a> {
    fn new(case: &'a Case, live: Vec<Option<RuleId>>) -> Self {
        let mut oracle = Self { case, live, first: vec![None; case.keys.len()], generation: 0 };
        (0..oracle.first.len()).for_each(|key| oracle.first[key] = oracle.search(key, 0));
        oracle
    }

    fn search(&self, key: usize, from: usize) -> Option<usize> {
        let row = self.case.keys.keys();
        (from..self.live.len()).find(|&rule| self.live[rule].is_some() && self.case.holds(rule, row.row(key)))
    }

    fn change(&mut self, (rule, id): Change) {
        self.live[rule] = id;
        self.generation += 1;
        for key in 0..self.first.len() {
            let first = self.first[key];
            if id.is_none() && first == Some(rule) {
                self.first[key] = self.search(key, rule + 1);
            } else if id.is_some()
                && first.is_none_or(|first| rule < first)
                && self.case.holds(rule, self.case.keys.keys().row(key))
            {
                self.first[key] = Some(rule);
            }
        }
    }

    fn answer(&self, key: usize) -> Option<Match> {
        let rule = self.first[key]?;
        self.live[rule].map(|id| Match { rule: id, priority: self.case.specs[rule].priority })
    }
}

/// Looks up batches through a cache until the writer is done; returns the hits.
fn read(number: u64, engine: &Engine, oracle: &mut Oracle<'_>, log: &Log) -> u64 {
    let mut config = Config::default();
    (config.sample, config.steps_aside, config.window) = ([1; 2], false, 64);
    if number % 2 == 1 {
        (config.growth, config.tests) = (Growth::Grow, 2);
    }
    let overlaps = engine.overlaps().expect("they are asked for");
    let cache = RuleCache::new(engine.clone(), overlaps, &config).expect("no level is forced");
    let _stop = Stop(log);
    let (mut scratch, mut random, case) = (cache.scratch(), Random(number), oracle.case);
    while !log.is_done.load(Ordering::Acquire) {
        // The first keys come most often.
        let chosen: Vec<usize> =
            (0..1 + random.below(32)).map(|_| random.below(KEYS) * random.below(KEYS) / KEYS).collect();
        let mut keys = KeyBuf::new(case.keys.schema());
        for &key in &chosen {
            let row = case.keys.keys().row(key);
            keys.push()[..row.len()].copy_from_slice(row);
        }
        let mut got = vec![None; chosen.len()];
        let before = engine.generation() as usize;
        cache.classify_batch(&mut scratch, keys.keys(), &mut got);
        let after = engine.generation() as usize;
        let is_right = |oracle: &Oracle<'_>, at: usize| got[at] == oracle.answer(chosen[at]);
        let mut right = vec![false; chosen.len()];
        loop {
            // A commit is noted behind its generation.
            let changes = log.changes.read().expect("the writer goes on");
            let known = changes.len().min(after);
            for generation in oracle.generation..=known {
                if generation > oracle.generation {
                    oracle.change(changes[generation - 1]);
                }
                if generation >= before {
                    right.iter_mut().enumerate().for_each(|(at, right)| *right |= is_right(oracle, at));
                }
            }
            drop(changes);
            if known == after {
                break;
            }
            thread::yield_now();
        }
        let wrong = right.iter().position(|right| !right);
        let wrong = wrong.map(|at| (case.keys.keys().row(chosen[at]), got[at], oracle.answer(chosen[at])));
        assert_eq!(wrong, None, "reader {number}, generations {before} to {after}");
        log.batches.fetch_add(1, Ordering::Relaxed);
    }
    RuleCache::<Engine>::counts(&scratch).lookups.hits
}

/// Stops all threads when one ends, even by a panic.
struct Stop<'a>(&'a Log);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.is_done.store(true, Ordering::Release);
    }
}

/// Commits `changes` changes in bursts; returns the number of rebuilds.
fn write(writer: &mut Writer, case: &Case, log: &Log, mut live: Vec<Option<RuleId>>, changes: usize) -> usize {
    let (mut random, mut done, mut rebuilds) = (Random(changes as u64), 0, 0);
    let mut job: Option<(RebuildJob, usize)> = None;
    while done < changes {
        for _ in 0..(1 + random.below(BURST)).min(changes - done) {
            // A rebuild catches up with some changes.
            job = match job {
                None if writer.rebuild_is_due() => Some((writer.begin_rebuild(), LATER)),
                Some((job, 0)) => {
                    rebuilds += 1;
                    let rebuilt = job.run().expect("no budget");
                    writer.install(rebuilt).expect("it is the last");
                    None
                }
                job => job.map(|(job, left)| (job, left - 1)),
            };
            let rule = random.below(case.specs.len());
            let mut transaction = writer.begin();
            live[rule] = match live[rule] {
                Some(id) => transaction.remove(id).map(|()| None).expect("it is live"),
                None => Some(transaction.insert(case.specs[rule].clone()).expect("its priority is free")),
            };
            transaction.commit().expect("the overlay has room");
            log.changes.write().expect("readers go on").push((rule, live[rule]));
            done += 1;
        }
        let rested = log.batches.load(Ordering::Relaxed) + 2 * REST;
        while log.batches.load(Ordering::Relaxed) < rested {
            assert!(!log.is_done.load(Ordering::Relaxed), "a reader has failed");
            thread::yield_now();
        }
    }
    rebuilds
}

#[expect(clippy::print_stdout, reason = "figures of a test that was asked for")]
fn print(what: &str) {
    println!("{what}");
}

#[test]
fn caches_beside_a_writer_answer_as_the_rules_say() {
    let asked = std::env::var("CHURN_CHANGES").map_or(Ok(4_000), |number| number.parse::<usize>());
    let changes = asked.unwrap_or_else(|error| panic!("CHURN_CHANGES: {error}"));
    let runs = PROFILES.len() * 2;
    let mut all = [0; 3];
    for (seed, name) in (0..).zip(PROFILES.iter().flat_map(|name| [name; 2])) {
        let case = Case::new(name.parse().expect("a profile"), seed);
        let mut set = RuleSet::new(case.keys.schema().clone());
        let half = case.specs.iter().enumerate();
        let live: Vec<Option<RuleId>> =
            half.map(|(at, spec)| (at % 2 == 0).then(|| set.insert(spec.clone()).expect("a free priority"))).collect();
        // Half of the runs change the base in place, the others go through the overlay.
        let kind = if seed % 2 == 0 { Kind::BitSelect } else { Kind::TupleMerge };
        let config =
            live::Config { strategy: Strategy::Force(kind), overlaps: true, seed: Some(1), ..Default::default() };
        let (engines, mut writer) = live::open(set, &config).expect("no budget");
        let (engine, log) = (&engines[0], &Log::default());
        let rebuilds = thread::scope(|scope| {
            let stop = Stop(log);
            let readers = [0, 1].map(|number| {
                let mut oracle = Oracle::new(&case, live.clone());
                scope.spawn(move || read(number, engine, &mut oracle, log))
            });
            let rebuilds = write(&mut writer, &case, log, live.clone(), changes.div_ceil(runs));
            drop(stop);
            all[1] += readers.map(|reader| reader.join().expect("the right answers")).iter().sum::<u64>();
            rebuilds
        });
        all[0] += log.changes.read().expect("no panic").len() as u64;
        all[2] += rebuilds as u64;
    }
    let [changed, hits, rebuilds] = all;
    print(&format!("{changed} changes and {rebuilds} rebuilds beside caches: {hits} hits, no wrong answer"));
    assert!(changed >= changes as u64 && hits > changed && rebuilds > 0, "{changed} changes, {hits}, {rebuilds}");
}
