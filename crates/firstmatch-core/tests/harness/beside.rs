//! Counts and queries beside a writer: no packet is lost, and no query makes a thread wait.
//!
//! Nor is a packet counted for another rule.
//!
//! `BESIDE_DECISIONS` (in all), `BESIDE_COMMITS` and `BESIDE_SECONDS` make both tests longer, as `./ci.sh beside` does.
//! That also prints the counts and the longest time that each thread took for one operation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch_core::live::{self, Config, Count, Engine, Kind, RuleCounters, Strategy, Writer};
use firstmatch_core::rule::{FieldValues, RuleId, RuleSet, RuleSpec};
use firstmatch_core::{Classifier, Schema};

use crate::case::Case;
use crate::corners;
use crate::generate::rule_set;
use crate::limit::{Stop, within};
use crate::rng::Rng;

const READERS: u64 = 4;
const BATCH: usize = 32;
const RULES: usize = 300;

/// Returns a number from the environment; where there is none, `short`.
fn number(name: &str, short: u64) -> u64 {
    std::env::var(name).map_or(short, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[expect(clippy::print_stdout, reason = "figures of a test that was asked for")]
fn print(what: &str) {
    if std::env::vars().any(|(name, _)| name.starts_with("BESIDE_")) {
        println!("{what}");
    }
}

fn start(config: &Config) -> (Engine, Writer, Vec<FieldValues>) {
    let schema = Schema::ipv4();
    let mut rng = Rng::new(11);
    let rules = rule_set(&schema, &mut rng, RULES);
    let packets = corners::of_set(&rules, &schema, &mut rng, 512);
    let (mut engines, writer) = live::open(rules, config).expect("no budget");
    (engines.remove(0), writer, packets)
}

/// Replaces one of the first rules, which most packets meet, by its like.
fn replace(writer: &mut Writer, rng: &mut Rng) {
    let rule = writer.rules().iter().nth(rng.below(16)).expect("there are more").clone();
    let mut transaction = writer.begin();
    transaction.replace(rule.id, RuleSpec { priority: rule.priority, ..rule.spec }).expect("it fits");
    match transaction.commit() {
        Ok(_) => {}
        Err(error) => {
            assert!(error.needs_rebuild(), "{error}");
            rebuild(writer);
        }
    }
}

fn rebuild(writer: &mut Writer) {
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("it is the last");
}

/// Looks packets up and counts them, batch by batch; returns the answers by rule.
///
/// It ends after `decisions`, when all commits are done. Where commits come meanwhile some packets are counted late.
fn count(
    engine: &Engine,
    counter_shard: &mut live::CounterShard,
    case: &Case,
    decisions: u64,
    done: &AtomicBool,
) -> Tally {
    let (mut scratch, mut answers) = (engine.scratch(), vec![None; BATCH]);
    let (keys, mut tally) = (case.keys.keys(), Tally::new());
    let mut decided = 0;
    while decided < decisions as usize || !done.load(Ordering::Relaxed) {
        let from = decided % (keys.len() - BATCH);
        engine.classify_batch(&mut scratch, keys.slice(from, from + BATCH), &mut answers);
        for found in answers.iter().flatten() {
            counter_shard.add(found.rule, 1, 60);
            *tally.entry(found.rule).or_insert(0) += 1;
        }
        decided += BATCH;
        // Where cores are short, a thread that is stopped here has no batch for the writer to wait for.
        thread::yield_now();
    }
    tally
}

type Tally = HashMap<RuleId, u64>;

/// Each rule has the packets it was answered for, and removed rules have the rest.
///
/// Four threads count while rules are replaced, in place and in an overlay, with rebuilds between.
#[test]
fn every_packet_is_counted_for_its_rule() {
    within(3_600, || {
        for in_place in [0, 1 << 20] {
            let (decisions, commits) = (number("BESIDE_DECISIONS", 100_000), number("BESIDE_COMMITS", 1_000));
            count_beside_commits(in_place, decisions, commits);
        }
    });
}

fn count_beside_commits(in_place: usize, decisions: u64, commits: u64) {
    let kind = Some(Kind::BitSelect);
    let (engine, mut writer, packets) =
        start(&Config { strategy: kind.into(), in_place: Some(in_place), ..Config::default() });
    let schema = Schema::ipv4();
    let case = Case::new(&RuleSet::new(schema.clone()), &schema, packets);
    let (done, mut rng, mut committed) = (AtomicBool::new(false), Rng::new(in_place as u64), 0);
    let tallies = thread::scope(|scope| {
        let read = |mut counter_shard: live::CounterShard| {
            let (engine, case, done) = (&engine, &case, &done);
            move || count(engine, &mut counter_shard, case, decisions / READERS, done)
        };
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read(writer.counter_shard()))).collect();
        let stop = Stop(&done);
        while committed < commits {
            replace(&mut writer, &mut rng);
            committed += 1;
            if writer.rebuild_is_due() {
                rebuild(&mut writer);
            }
        }
        drop(stop);
        readers.into_iter().map(|reader| reader.join().expect("no panic")).collect::<Vec<_>>()
    });
    let mut want = Tally::new();
    tallies.into_iter().flatten().for_each(|(rule, packets)| *want.entry(rule).or_insert(0) += packets);
    let total: u64 = want.values().sum();
    let rules = want.len();
    let of = |packets: u64| Count { packets, bytes: 60 * packets };
    for rule in writer.rules().iter() {
        let want = want.remove(&rule.id).unwrap_or(0);
        assert_eq!(writer.count(rule.id), Some(of(want)), "rule {}", rule.id);
    }
    assert_eq!(writer.removed_count(), of(want.values().sum()), "of {total} packets");
    assert!(!want.is_empty() && total > decisions / 2, "{} rules were removed, {total} packets met one", want.len());
    print(&format!(
        "{committed} commits and {} rebuilds: {total} packets met one of {rules} rules, {} of them removed since",
        engine.epoch(),
        want.len(),
    ));
}

type Ask<'a> = Box<dyn FnMut() + Send + 'a>;

/// Longest time that a thread took for one operation, and the number of operations.
struct Longest {
    times: u64,
    longest: Duration,
    /// The same without the time in which the thread was ready and had no core.
    stalled: Duration,
}

/// Returns how long this thread has been ready without a core, as Linux counts it; zero where nothing counts that.
fn without_core() -> Duration {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = counts.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Calls `what`; returns the time that it took, and the time without what the thread had no core.
fn timed(what: impl FnOnce()) -> (Duration, Duration) {
    let (before, start) = (without_core(), Instant::now());
    what();
    let took = start.elapsed();
    (took, took.saturating_sub(without_core().saturating_sub(before)))
}

fn time(done: &AtomicBool, mut what: impl FnMut()) -> Longest {
    let mut of = Longest { times: 0, longest: Duration::ZERO, stalled: Duration::ZERO };
    while !done.load(Ordering::Relaxed) {
        let (took, stalled) = timed(&mut what);
        (of.longest, of.stalled) = (of.longest.max(took), of.stalled.max(stalled));
        of.times += 1;
    }
    of
}

/// Explanations, statistics and counts in loops, and a writer at full rate, all go on.
///
/// A thread that only looks at the clock shows what the machine itself takes. With fewer cores than threads each waits
/// for a core, so that time is printed apart.
#[test]
fn queries_and_a_writer_go_on() {
    let seconds = number("BESIDE_SECONDS", 0);
    within(seconds + 120, move || {
        let (engine, mut writer, _) =
            start(&Config { strategy: Strategy::Force(Kind::BitSelect), ..Config::default() });
        let (counters, done, mut rng) = (writer.counters(), AtomicBool::new(false), Rng::new(5));
        let ids: Vec<RuleId> = writer.rules().iter().map(|rule| rule.id).collect();
        let (mut counter_shard, rules) = (writer.counter_shard(), engine.explain().rules);
        thread::scope(|scope| {
            let stop = Stop(&done);
            let (engine, done, ids) = (&engine, &done, &ids);
            let asks: [(&str, Ask<'_>); 5] = [
                ("explain", Box::new(|| assert_eq!(engine.explain().rules, rules))),
                ("stats", Box::new(|| assert_eq!(engine.stats().rules, rules))),
                ("counters", Box::new(|| ids.iter().for_each(|&id| whole(&counters, id)))),
                ("counting", Box::new(|| ids.iter().for_each(|&id| counter_shard.add(id, 1, 60)))),
                ("the clock", Box::new(|| {})),
            ];
            let asks = asks.map(|(name, what)| (name, scope.spawn(move || time(done, what))));
            let (start, mut commits, mut rebuilds) = (Instant::now(), 0, Duration::ZERO);
            let (mut longest, mut stalled) = (Duration::ZERO, Duration::ZERO);
            while commits < 1_000 || start.elapsed() < Duration::from_secs(seconds) {
                let times = timed(|| replace(&mut writer, &mut rng));
                (longest, stalled) = (longest.max(times.0), stalled.max(times.1));
                commits += 1;
                if writer.rebuild_is_due() {
                    let before = Instant::now();
                    rebuild(&mut writer);
                    rebuilds = rebuilds.max(before.elapsed());
                }
            }
            drop(stop);
            print(&format!(
                "{commits} commits, the longest {longest:?}, {stalled:?} of it with a core (a rebuild {rebuilds:?})"
            ));
            for (name, thread) in asks {
                let Longest { times, longest, stalled } = thread.join().expect("no panic");
                assert!(times > 0, "{name}: not once beside {commits} commits");
                print(&format!("{name}: {times} times, the longest {longest:?}, {stalled:?} of it with a core"));
            }
        });
    });
}

fn whole(counters: &RuleCounters, id: RuleId) {
    let Count { packets, bytes } = counters.count(id);
    assert_eq!(bytes, 60 * packets);
}
