//! Costs of threads on this machine, and models of planes made of them.
//!
//! Giving a core away, waking a thread, looking for work and working beside a busy core are timed by themselves. Handing
//! a message on cannot be, so its cost is fitted on relays: planes that do next to nothing. Costs of lookups take no part
//! in the fit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch_core::KeyBuf;

use super::measure::{Load, Lookups, Setup, on_cores};
use super::simulate::{Costs, Feed, Link, Model, Spread, Stage, Work, simulate};
use crate::statistics::Summary;

/// Messages that a worker takes from a ring at once, as a plane does by default.
const CHUNK: usize = 32;
/// Messages that a ring holds.
pub(crate) const CAPACITY: usize = 16;
/// Looks of a thread that has a core of its own, before it blocks, as in the plane.
const SPINS: u32 = 256;
/// Nanoseconds that Linux lets a thread run while others are ready, with two to eight cores.
const QUANTUM: f64 = 3e6;
/// Rounds of the timing of one operation.
const ROUNDS: u32 = 400;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Number of rounds, in which all planes take turns; figures are medians.
    pub(crate) rounds: usize,
    /// Seconds of one run of a plane.
    pub(crate) seconds: f64,
}

/// Costs of planes on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaneCosts {
    /// Costs that do not depend on what a message carries.
    pub(crate) costs: Costs,
    /// Nanoseconds more for a message that comes from another core.
    pub(crate) remote: f64,
    /// Nanoseconds for a byte of a message that comes from another core.
    pub(crate) byte: f64,
}

/// Plane with its medians: service times and throughput.
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) lookups: Lookups,
    pub(crate) setup: Setup,
    /// CPU nanoseconds for a message, of the source and of each step, each alone on one core.
    pub(crate) nanos: Vec<f64>,
    /// Packets in millions a second.
    pub(crate) mpps: f64,
    /// Half the interquartile range of the throughput over its median.
    pub(crate) spread: f64,
}

/// Planes to be measured, by name.
pub(crate) type Planned = (String, Lookups, Setup);

impl Sample {
    /// Measures planes in turns.
    ///
    /// # Errors
    /// If a plane cannot run.
    pub(crate) fn all(planes: Vec<Planned>, effort: Effort) -> anyhow::Result<Vec<Self>> {
        let mut figures = vec![(Vec::new(), Vec::new()); planes.len()];
        for _ in 0..effort.rounds.max(1) {
            for ((_, lookups, setup), (nanos, mpps)) in planes.iter().zip(&mut figures) {
                let alone = lookups.alone(setup.batch, CAPACITY + CHUNK, 30);
                let a_packet = alone.iter().sum::<f64>() / setup.batch as f64;
                let packets = (effort.seconds * 1e9 / a_packet.max(1.0)) as u64 * setup.cores as u64;
                let setup = Setup { load: Load::Full { packets: packets.max(1) }, ..setup.clone() };
                nanos.push(alone);
                mpps.push(lookups.run(&setup)?.mpps());
            }
        }
        let sample = |((name, lookups, setup), (nanos, mpps)): (Planned, (Vec<Vec<f64>>, Vec<f64>))| {
            let step = |at: usize| median(&nanos.iter().map(|alone: &Vec<f64>| alone[at]).collect::<Vec<_>>());
            let nanos = (0..nanos[0].len()).map(step).collect();
            let spread = Summary::of(&mpps).map_or(0.0, |all| all.spread());
            Self { name, lookups, setup, nanos, mpps: median(&mpps), spread }
        };
        Ok(planes.into_iter().zip(figures).map(sample).collect())
    }

    /// Returns the throughput of the model of the plane, in millions of packets a second.
    pub(crate) fn simulated(&self, costs: &PlaneCosts, nanos: f64) -> f64 {
        simulate(&costs.model(&self.lookups, &self.setup, &self.nanos), nanos).mpps
    }

    /// Returns by how much the simulated throughput exceeds the measured one, in per cent.
    pub(crate) fn error(&self, costs: &PlaneCosts) -> f64 {
        (self.simulated(costs, 1e8) / self.mpps - 1.0) * 100.0
    }
}

fn median(figures: &[f64]) -> f64 {
    Summary::of(figures).map_or(f64::NAN, |all| all.median)
}

impl PlaneCosts {
    /// Times single operations, and fits the costs of handing on to relays over `keys`.
    ///
    /// Returns the relays, too.
    ///
    /// # Errors
    /// If a relay cannot run.
    pub(crate) fn fit(keys: &Arc<KeyBuf>, cores: usize, effort: Effort) -> anyhow::Result<(Self, Vec<Sample>)> {
        let (look, switch) = yielding()?;
        let (wake, latency) = waking();
        let crowd = if cores > 1 { crowding(keys, effort) } else { 0.0 };
        let costs = Costs { look, switch, wake, latency, spin: spinning(), quantum: QUANTUM, crowd, ..Costs::NONE };
        let relays = Sample::all(relays(keys, cores), effort)?;
        Ok((Self { costs, remote: 0.0, byte: 0.0 }.fitted(&relays), relays))
    }

    /// Returns the costs of a message and of a byte with which simulated relays are most as measured.
    fn fitted(self, relays: &[Sample]) -> Self {
        let with = |[message, remote, byte]: [f64; 3]| Self { costs: Costs { message, ..self.costs }, remote, byte };
        let miss = |at: [f64; 3]| -> f64 {
            let of = |relay: &Sample| (relay.simulated(&with(at), 3e6) / relay.mpps).ln().powi(2);
            relays.iter().map(of).sum()
        };
        with(least([100.0, 100.0, 0.1], [100.0, 100.0, 0.1], miss))
    }

    /// Returns the model of a plane; `nanos` are the service times of a message, the source's first.
    pub(crate) fn model(&self, lookups: &Lookups, setup: &Setup, nanos: &[f64]) -> Model {
        let is_full = matches!(setup.load, Load::Full { .. });
        let feed = match setup.load {
            Load::Full { .. } => Feed::Full,
            Load::Paced { rate, .. } => Feed::Paced { packets_a_second: rate as f64, spread: Spread::Fixed },
        };
        let stage = |workers: usize, feed: Feed, message: f64| {
            let work = Work { message, packet: 0.0, spread: Spread::Fixed };
            Stage { workers, feed, work }
        };
        let (stages, links) = if lookups.is_replicated() && is_full {
            (vec![stage(setup.workers[0], feed, nanos.iter().sum())], Vec::new())
        } else {
            let steps = setup.workers.iter().zip(&nanos[1..]).map(|(&count, &time)| stage(count, Feed::Rings, time));
            let stages: Vec<Stage> = [stage(1, feed, nanos[0])].into_iter().chain(steps).collect();
            let link = |to: usize| {
                let is_lossy = to == 1 && !is_full;
                Link { from: to - 1, to, capacity: setup.capacity, is_lossy, share: 1.0 }
            };
            let links = (1..stages.len()).map(link).collect();
            (stages, links)
        };
        let mut costs = self.costs;
        if setup.cores > 1 {
            costs.message += self.remote;
            costs.packet = self.byte * lookups.packet_bytes() as f64;
        }
        let mut model =
            Model { stages, links, cores: setup.cores, batch: setup.batch as f64, chunk: CHUNK, costs, seed: 1 };
        // Cores without a thread do nothing.
        model.cores = model.cores.min(model.threads());
        model
    }
}

/// Returns the relays that costs are fitted on, at every number of cores from 1, by doubling.
fn relays(keys: &Arc<KeyBuf>, cores: usize) -> Vec<Planned> {
    let mut planes = Vec::new();
    // Stages, passes over the keys, words of bits, and packets of a message.
    for (stages, passes, width, batch) in [(1, 4, 0, 32), (1, 4, 0, 8), (2, 4, 0, 32), (2, 2, 16, 32), (3, 8, 4, 16)] {
        let lookups = Lookups::relay(keys, stages, passes, width);
        for (workers, cores) in settings(cores) {
            let load = Load::Full { packets: 0 };
            let setup = Setup { workers: vec![workers; stages], batch, capacity: CAPACITY, cores, load };
            planes.push((format!("relay of {stages}, batch {batch}, {width} words"), lookups.clone(), setup));
        }
    }
    planes
}

/// Returns numbers of workers a stage with numbers of cores: one worker and two, on 1 core, 2, 4 and so on.
pub(crate) fn settings(cores: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = std::iter::successors(Some(1), |cores| Some(cores * 2)).take_while(move |&some| some <= cores);
    all.flat_map(|cores| [(1, cores), (2, cores)])
}

/// Returns a place where `miss` is least, by steps that are halved; no coordinate becomes negative.
fn least<const N: usize>(start: [f64; N], steps: [f64; N], miss: impl Fn([f64; N]) -> f64) -> [f64; N] {
    let (mut at, mut steps) = (start, steps);
    let mut best = miss(at);
    for _ in 0..6 {
        loop {
            let before = best;
            for axis in 0..N {
                for step in [steps[axis], -steps[axis]] {
                    let mut tried = at;
                    tried[axis] = (tried[axis] + step).max(0.0);
                    let found = miss(tried);
                    if found < best {
                        (at, best) = (tried, found);
                        break;
                    }
                }
            }
            if best >= before {
                break;
            }
        }
        steps = steps.map(|step| step / 2.0);
    }
    at
}

/// Times giving a core away: without another thread, and what a change to another one adds.
fn yielding() -> anyhow::Result<(f64, f64)> {
    let of = |threads: usize| {
        let barrier = Barrier::new(threads);
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    barrier.wait();
                    (0..50 * ROUNDS).for_each(|_| thread::yield_now());
                });
            }
        });
        start.elapsed().as_nanos() as f64 / f64::from(50 * ROUNDS) / threads as f64
    };
    let (alone, shared) = on_cores(1, || (of(1), of(2)))?;
    Ok((alone, (shared - alone).max(0.0)))
}

/// Times waking a thread: for the one that wakes, and until the other runs.
fn waking() -> (f64, f64) {
    let (asked, answered, at) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let ended = AtomicBool::new(false);
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let (mut costs, mut latencies) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                thread::park();
                if asked.swap(false, Ordering::AcqRel) {
                    at.store(now(), Ordering::Relaxed);
                    answered.fetch_add(1, Ordering::Release);
                }
            }
        });
        for round in 0..u64::from(ROUNDS) {
            thread::sleep(Duration::from_micros(50));
            let before = now();
            asked.store(true, Ordering::Release);
            sleeper.thread().unpark();
            costs.push((now() - before) as f64);
            while answered.load(Ordering::Acquire) <= round {
                thread::yield_now();
            }
            latencies.push(at.load(Ordering::Relaxed).saturating_sub(before) as f64);
        }
        ended.store(true, Ordering::Release);
        sleeper.thread().unpark();
    });
    (median(&costs), median(&latencies))
}

/// Times work beside a busy core; returns the share by which it is slower than alone.
fn crowding(keys: &Arc<KeyBuf>, effort: Effort) -> f64 {
    let time = || -> f64 { Lookups::relay(keys, 1, 64, 0).alone(32, 64, 100).iter().sum() };
    let slower = (0..effort.rounds.max(3)).map(|_| {
        let alone = time();
        let ended = AtomicBool::new(false);
        let beside = thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    time();
                }
            });
            let beside = time();
            ended.store(true, Ordering::Relaxed);
            beside
        });
        (beside / alone - 1.0).max(0.0)
    });
    median(&slower.collect::<Vec<_>>())
}

/// Times the looks of a thread that waits on a core of its own.
fn spinning() -> f64 {
    let flag = AtomicBool::new(false);
    let start = Instant::now();
    for _ in 0..ROUNDS * SPINS {
        if !std::hint::black_box(&flag).load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_place_is_found() {
        let miss = |[x, y]: [f64; 2]| (x - 340.0).powi(2) / 1e4 + (y - 0.7).powi(2) + (x - 340.0) * (y - 0.7) / 1e3;
        let [x, y] = least([100.0, 0.0], [100.0, 0.5], miss);
        assert!((x - 340.0).abs() < 4.0 && (y - 0.7).abs() < 0.02, "{x} {y}");
        assert_eq!(least([1.0], [1.0], |[x]| x), [0.0], "nothing is negative");
    }

    #[test]
    fn settings_double_the_cores() {
        assert_eq!(settings(1).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
        assert_eq!(settings(5).map(|(_, cores)| cores).collect::<Vec<_>>(), [1, 1, 2, 2, 4, 4]);
    }

    fn keys() -> Arc<KeyBuf> {
        let mut keys = KeyBuf::new(&firstmatch_core::Schema::ipv4());
        (0..256).for_each(|at| keys.push()[0] = at);
        Arc::new(keys)
    }

    /// Costs that relays were simulated with are found again.
    #[test]
    fn costs_are_found_again() {
        let costs =
            Costs { look: 300.0, switch: 1200.0, wake: 800.0, latency: 5e3, spin: 5e3, crowd: 0.1, ..Costs::NONE };
        let known = PlaneCosts { costs: Costs { message: 250.0, ..costs }, remote: 150.0, byte: 0.4 };
        let sample = |(name, lookups, setup): Planned| {
            let nanos = vec![100.0; setup.workers.len() + 1];
            let mut sample = Sample { name, lookups, setup, nanos, mpps: 0.0, spread: 0.0 };
            sample.mpps = sample.simulated(&known, 3e6);
            sample
        };
        let samples: Vec<Sample> = relays(&keys(), 2).into_iter().map(sample).collect();
        let found = PlaneCosts { costs, remote: 0.0, byte: 0.0 }.fitted(&samples);
        for sample in &samples {
            assert!(sample.error(&found).abs() < 5.0, "{}: {found:?}", sample.name);
        }
        assert!(
            (found.costs.message - 250.0).abs() < 40.0
                && (found.remote - 150.0).abs() < 60.0
                && (found.byte - 0.4).abs() < 0.1,
            "{found:?}"
        );
    }

    /// The model has the threads of the plane: a source and the workers, or workers that are their own source.
    #[test]
    fn a_model_has_the_threads_of_its_plane() {
        let relay = Lookups::relay(&keys(), 2, 1, 3);
        let load = Load::Full { packets: 1 };
        let mut setup = Setup { workers: vec![3, 2], batch: 8, capacity: 4, cores: 2, load };
        let costs = PlaneCosts { costs: Costs::NONE, remote: 0.0, byte: 0.5 };
        let model = costs.model(&relay, &setup, &[10.0, 20.0, 30.0]);
        assert_eq!(model.stages.iter().map(|stage| stage.workers).collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!(model.stages.iter().map(|stage| stage.work.message).collect::<Vec<_>>(), [10.0, 20.0, 30.0]);
        assert_eq!(
            model.links.iter().map(|link| (link.from, link.to, link.is_lossy)).collect::<Vec<_>>(),
            [(0, 1, false), (1, 2, false)]
        );
        assert!((model.costs.packet - 0.5 * relay.packet_bytes() as f64).abs() < 1e-9);
        setup.load = Load::Paced { packets: 1, rate: 1000 };
        let paced = costs.model(&relay, &setup, &[10.0, 20.0, 30.0]);
        assert!(paced.links[0].is_lossy && !paced.links[1].is_lossy, "{paced:?}");
    }

    #[test]
    fn operations_take_time() {
        let (look, switch) = yielding().expect("one core");
        let (wake, latency) = waking();
        assert!(look > 0.0 && switch >= 0.0 && wake > 0.0 && latency > 0.0 && spinning() > 0.0);
    }
}
