//! Measures a plane of threads on this machine:
//!
//!     cargo run --profile dist -p firstmatch-net --features plane --example plane -- [ROUNDS [RULES]]
//!
//! It makes up rules (1,000 by default) and 100,000 IPv4 keys, and prints one line a figure. Ways that are compared
//! take turns in every round.
//!
//! - `replicated`: workers pull batches of 256 keys from memory and classify them. `wall_mpps` is millions of packets a
//!   second of wall time. `cpu_ns` is thread CPU time a packet, over all workers. A speed-up is the ratio of the
//!   medians over all rounds, with the quartiles of the rounds' own ratios: where the speed of a machine changes from
//!   moment to moment, the median of these ratios is too low. That by wall time needs as many idle cores as workers.
//!   That by CPU time is `workers × cpu_ns of one / cpu_ns of all`; it has the cost of sharing memory and caches, and
//!   not that of other programs.
//! - `bare`: the same without a plane, by threads that share nothing but rules and keys. It shows the speed-up that the
//!   machine allows.
//! - `pipelined`: batches go from the caller through two stages of half of the rules each, and back.
//! - `stop`: milliseconds from a stop with full rings until the last batch has come out and every worker has closed its
//!   rings.
//! - `idle`: CPU milliseconds that a plane of eight workers uses in a second without packets.
//! - `lossless`: the highest rate of a paced caller at which a lossy entrance drops nothing in 0.3 s.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch_core::engines::registry::{ENGINES, Settings};
use firstmatch_core::rule::{ExpansionLimits, FieldValues, RuleSet, lower};
use firstmatch_core::{Classifier, KeyBuf, Match};
use firstmatch_net::plane::{Deal, Link, Message, Outputs, Pace, PlaneBuilder, Pulled, highest_rate};
use firstmatch_testkit::rng::Rng;
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
/// Name and measurement of a way to classify all keys: rules and keys, workers, passes over the keys.
type Way = (&'static str, fn(&Arc<Fixture>, usize, u64) -> Outcome<(f64, f64)>);

const KEYS: usize = 100_000;
const BATCH: usize = 256;

/// Keys of one batch with their answers.
struct Rows {
    keys: KeyBuf,
    best: Vec<Option<Match>>,
}

impl Message for Rows {
    fn packets(&self) -> usize {
        self.best.len()
    }

    fn flow(&self) -> u64 {
        0
    }
}

/// Rules as one engine and as two, and keys.
struct Fixture {
    whole: Arc<dyn Classifier>,
    halves: [Arc<dyn Classifier>; 2],
    keys: KeyBuf,
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(15), |n| n.parse())?;
    let rules: usize = args.next().map_or(Ok(1000), |n| n.parse())?;
    let fixture = Arc::new(fixture(rules)?);
    let mut out = std::io::stdout().lock();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = thread::available_parallelism()?;
    writeln!(out, "cores,{cores}\nload,{}", load.trim())?;

    let ways: [Way; 2] = [("replicated", replicated), ("bare", bare)];
    let mut times: [[Vec<(f64, f64)>; 2]; 2] = Default::default();
    for _ in 0..rounds {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            for (at, times) in times.iter_mut().enumerate() {
                times.push(way(&fixture, at + 1, 60)?);
            }
        }
    }
    for ((name, _), [one, two]) in ways.iter().zip(&times) {
        for (workers, times) in [(1, one), (2, two)] {
            let [_, wall, best] = quartiles(times.iter().map(|time| time.0));
            let [least, cpu, _] = quartiles(times.iter().map(|time| time.1));
            writeln!(out, "{name},{workers} workers,wall_mpps median {wall:.2} upper quartile {best:.2}")?;
            writeln!(out, "{name},{workers} workers,cpu_ns lower quartile {least:.2} median {cpu:.2}")?;
        }
        let both = || one.iter().zip(two);
        let wall = quartiles(both().map(|(one, two)| two.0 / one.0));
        let cpu = quartiles(both().map(|(one, two)| 2.0 * one.1 / two.1));
        let medians = |times: &[(f64, f64)]| {
            let of = |get: fn(&(f64, f64)) -> f64| quartiles(times.iter().map(get))[1];
            (of(|time| time.0), of(|time| time.1))
        };
        let (one, two) = (medians(one), medians(two));
        for (what, speed_up, [lower, _, upper]) in [("wall", two.0 / one.0, wall), ("CPU", 2.0 * one.1 / two.1, cpu)] {
            writeln!(out, "{name},speed-up by {what} time,of medians {speed_up:.3} quartiles {lower:.3} {upper:.3}")?;
        }
    }

    let mut rates: Vec<f64> = (0..rounds).map(|_| pipelined(&fixture, 20)).collect::<Outcome<_>>()?;
    rates.sort_by(f64::total_cmp);
    writeln!(out, "pipelined,2 stages,wall_mpps best {:.2} median {:.2}", rates[rounds - 1], rates[rounds / 2])?;

    let mut stops: Vec<f64> = (0..rounds * 4).map(|_| stop(&fixture)).collect::<Outcome<_>>()?;
    stops.sort_by(f64::total_cmp);
    writeln!(out, "stop,ms,median {:.2} most {:.2}", stops[stops.len() / 2], stops[stops.len() - 1])?;

    let plane = chain(&fixture, 4, Link::new()).start()?;
    thread::sleep(Duration::from_millis(50));
    let before = time(ClockId::ProcessCPUTime);
    thread::sleep(Duration::from_secs(1));
    writeln!(out, "idle,CPU ms a second,{:.3}", (time(ClockId::ProcessCPUTime) - before).as_secs_f64() * 1e3)?;
    drop(plane);

    let found = highest_rate(100_000, 200_000_000, 10, |rate| lossless(&fixture, rate).unwrap_or(false));
    writeln!(out, "lossless,1 + 1 workers,{:.2} mpps", found.unwrap_or_default() as f64 / 1e6)?;
    Ok(())
}

/// Classifies all keys `times` times over; returns millions of packets a second and nanoseconds of CPU time a packet.
fn replicated(fixture: &Arc<Fixture>, workers: usize, times: u64) -> Outcome<(f64, f64)> {
    let deal = Arc::new(Deal::new(KEYS, BATCH, times));
    let spent = Arc::new(Mutex::new(Duration::ZERO));
    let (shared, sum) = (Arc::clone(fixture), Arc::clone(&spent));
    let mut builder = PlaneBuilder::<Rows>::new();
    builder.source("everything", workers, move |_| {
        let (fixture, deal, sum) = (Arc::clone(&shared), Arc::clone(&deal), Arc::clone(&sum));
        let (mut scratch, mut best) = (fixture.whole.scratch(), vec![None; BATCH]);
        let start = time(ClockId::ThreadCPUTime);
        move |_: &mut Outputs<Rows>| {
            let Some(range) = deal.next() else {
                let spent = time(ClockId::ThreadCPUTime) - start;
                *sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += spent;
                return Pulled::End;
            };
            let best = &mut best[..range.len()];
            fixture.whole.classify_batch(&mut scratch, fixture.keys.keys().slice(range.start, range.end), best);
            std::hint::black_box(&best);
            Pulled::Packets(range.len())
        }
    });
    let start = Instant::now();
    let counters = builder.start()?.join()?;
    let wall = start.elapsed();
    let spent = *spent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let packets = counters.accepted as f64;
    Ok((packets / wall.as_secs_f64() / 1e6, spent.as_secs_f64() * 1e9 / packets))
}

/// Does the same with threads of their own, each of which has its share of the passes over the keys.
fn bare(fixture: &Arc<Fixture>, threads: usize, times: u64) -> Outcome<(f64, f64)> {
    let start = Instant::now();
    let passes = times / threads as u64;
    let one = || {
        let (mut scratch, mut best) = (fixture.whole.scratch(), vec![None; BATCH]);
        let start = time(ClockId::ThreadCPUTime);
        for at in (0..passes).flat_map(|_| (0..KEYS).step_by(BATCH)) {
            let keys = fixture.keys.keys().slice(at, KEYS.min(at + BATCH));
            let best = &mut best[..keys.len()];
            fixture.whole.classify_batch(&mut scratch, keys, best);
            std::hint::black_box(&best);
        }
        time(ClockId::ThreadCPUTime) - start
    };
    let spent: Duration = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let packets = (passes * threads as u64 * KEYS as u64) as f64;
    Ok((packets / start.elapsed().as_secs_f64() / 1e6, spent.as_secs_f64() * 1e9 / packets))
}

/// Returns the lower quartile, the median and the upper quartile.
fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

/// Returns a builder of two stages, each with half of the rules and `workers` workers.
fn chain(fixture: &Arc<Fixture>, workers: usize, enter: Link) -> PlaneBuilder<Rows> {
    let mut builder = PlaneBuilder::new();
    let [first, second] = [0, 1].map(|half| {
        let fixture = Arc::clone(fixture);
        builder.stage(&format!("half{half}"), workers, move |_| {
            let engine = Arc::clone(&fixture.halves[half]);
            let mut scratch = engine.scratch();
            move |mut rows: Rows, out: &mut Outputs<Rows>| {
                engine.improve_batch(&mut scratch, &rows.keys.keys(), &mut rows.best);
                out.send(rows);
            }
        })
    });
    builder.enter(first, enter).link(first, second, Link::new()).leave(second, Link::new());
    builder
}

/// Carries all keys `times` times over; returns millions of packets a second.
fn pipelined(fixture: &Arc<Fixture>, times: usize) -> Outcome<f64> {
    let plane = chain(fixture, 1, Link::new()).start()?;
    let mut spare: Vec<Rows> = (0..64).map(|_| empty(fixture)).collect();
    let (mut at, mut received) = (0, 0);
    let start = Instant::now();
    while received < KEYS * times {
        while let Some(mut rows) = spare.pop().filter(|_| at < KEYS * times) {
            at += fill(fixture, &mut rows, at % KEYS);
            plane.send(rows)?;
        }
        let Some(rows) = plane.recv() else { break };
        received += rows.best.len();
        spare.push(rows);
    }
    let wall = start.elapsed();
    plane.join()?;
    Ok(received as f64 / wall.as_secs_f64() / 1e6)
}

/// Fills all rings, stops and drains; returns the milliseconds of the latter.
fn stop(fixture: &Arc<Fixture>) -> Outcome<f64> {
    let plane = chain(fixture, 1, Link::new()).start()?;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut at = 0;
            loop {
                let mut rows = empty(fixture);
                at = (at + fill(fixture, &mut rows, at)) % KEYS;
                if plane.send(rows).is_err() {
                    break;
                }
            }
        });
        // Nobody receives, so that the rings fill up to the entrance.
        while plane.counters().rings.iter().any(|ring| ring.queued().messages < ring.capacity as u64) {
            thread::yield_now();
        }
        let start = Instant::now();
        plane.stop();
        while plane.recv().is_some() {}
        let counters = plane.counters();
        assert_eq!(counters.accepted, counters.delivered, "everything comes out");
        Ok(start.elapsed().as_secs_f64() * 1e3)
    })
}

/// Sends at a rate into a lossy entrance for 0.3 s; returns whether nothing was dropped and the sender kept the rate.
fn lossless(fixture: &Arc<Fixture>, rate: u64) -> Outcome<bool> {
    let plane = chain(fixture, 1, Link::lossy()).start()?;
    let (packets, mut pace) = (rate * 3 / 10, Pace::new(rate));
    thread::scope(|scope| {
        let receiving = scope.spawn(|| while plane.recv().is_some() {});
        while pace.taken() < packets {
            let mut rows = empty(fixture);
            let due = pace.take(BATCH);
            if due > 0 {
                fill(fixture, &mut rows, pace.taken() as usize % KEYS);
                let _ = plane.send(rows);
            }
        }
        plane.stop();
        receiving.join().map_err(|_| "the receiver panicked")
    })?;
    // A sender that falls behind for good does not reach the rate, whatever is dropped.
    let counters = plane.join()?;
    Ok(counters.dropped == 0 && pace.late() < Duration::from_millis(100))
}

fn empty(fixture: &Fixture) -> Rows {
    Rows { keys: KeyBuf::new(fixture.keys.schema()), best: Vec::new() }
}

/// Fills a batch with the keys from `at` on and returns their number.
fn fill(fixture: &Fixture, rows: &mut Rows, at: usize) -> usize {
    let keys = fixture.keys.keys().slice(at, KEYS.min(at + BATCH));
    rows.keys.clear();
    rows.keys.push_rows(keys.len()).copy_from_slice(keys.words());
    rows.best.clear();
    rows.best.resize(keys.len(), None);
    keys.len()
}

fn fixture(rules: usize) -> Outcome<Fixture> {
    let mut rng = Rng::new(1);
    let mut text = "family ipv4\n".to_owned();
    for _ in 0..rules {
        let (a, b, c) = (rng.below(16), rng.below(256), rng.below(256));
        let (port, proto) = (rng.below(60_000), rng.any_of(&["tcp", "udp"]));
        text += &format!("permit {proto} src 10.{a}.0.0/16 dst 192.{b}.{c}.0/24 dport {port}-{}\n", port + 99);
    }
    let set: RuleSet = firstmatch_formats::parse(&text, &Default::default())?.rules;
    let schema = set.schemas()[0].clone();
    let entry = ENGINES.iter().find(|entry| entry.name == "bit_select").ok_or("there is no bit_select")?;
    let build = |set: &RuleSet| -> Outcome<Arc<dyn Classifier>> {
        let lowered = lower(set, &schema, &ExpansionLimits::default())?;
        Ok((entry.build)(&lowered, &Settings::default())?.into())
    };
    let ids: Vec<_> = set.iter().map(|rule| rule.id).collect();
    let without = |ids: &[firstmatch_core::RuleId]| -> Outcome<RuleSet> {
        let mut half = set.clone();
        ids.iter().try_for_each(|&id| half.remove(id).map(drop))?;
        Ok(half)
    };
    let (first, second) = ids.split_at(ids.len() / 2);
    let halves = [build(&without(second)?)?, build(&without(first)?)?];
    let mut keys = KeyBuf::new(&schema);
    for _ in 0..KEYS {
        let (source, target) = (0x0A00_0000 + rng.below(1 << 20), 0xC000_0000 + rng.below(1 << 24));
        let values = [source, target, rng.below(1 << 16), rng.below(1 << 16), rng.any_of(&[6, 17])];
        let values = values.map(|value| Some(value as u128)).to_vec();
        keys.push_values(&FieldValues { family: schema.family(), values });
    }
    Ok(Fixture { whole: build(&set)?, halves, keys })
}

fn time(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}
