//! Costs of threads on this machine, and models of planes made of them.
//!
//! Giving a core away, waking a thread and looking for work are timed by themselves. Handing a message on cannot be, so
//! its cost is fitted on relays: planes that do next to nothing. Lookups take no part in the fit. Service times are
//! those of the run that is simulated, because the machine's speed changes from run to run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch_core::KeyBuf;

use super::measure::{Lookups, Ran, Service, Setup, on_cores};
use super::simulate::{Costs, Feed, Link, Model, Spread, Stage, Work, simulate};
use crate::statistics::Summary;

/// Messages that a worker takes from a ring at once, as a plane does by default.
pub(crate) const CHUNK: usize = 32;
/// Messages that a ring holds.
pub(crate) const CAPACITY: usize = 16;
/// Looks of a thread that has a core of its own, before it blocks, as in the plane.
const SPINS: u32 = 256;
/// Nanoseconds that Linux lets a thread run while others are ready, with two to eight cores.
const QUANTUM: f64 = 3e6;
/// Packets of a run that says how long others should be.
const TRIAL: u64 = 20_000;
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

/// Plane with its figures of each round.
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) lookups: Lookups,
    pub(crate) setup: Setup,
    /// Service times of a message and throughput, of each round.
    pub(crate) rounds: Vec<Round>,
}

/// Figures of one run of a plane.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// Service times of the source and of each step.
    pub(crate) services: Vec<Service>,
    /// Packets in millions a second.
    pub(crate) mpps: f64,
}

impl From<Ran> for Round {
    fn from(ran: Ran) -> Self {
        Self { mpps: ran.mpps(), services: ran.services }
    }
}

/// Planes to be measured, by name.
pub(crate) type Planned = (String, Lookups, Setup);

impl Sample {
    /// Measures planes in turns.
    ///
    /// # Errors
    /// If a plane cannot run.
    pub(crate) fn all(planes: Vec<Planned>, effort: Effort) -> anyhow::Result<Vec<Self>> {
        let sample = |(name, lookups, setup)| Self { name, lookups, setup, rounds: Vec::new() };
        let mut samples: Vec<Self> = planes.into_iter().map(sample).collect();
        for _ in 0..effort.rounds.max(1) {
            for sample in &mut samples {
                let run = |packets| {
                    let setup = Setup { packets, ..sample.setup.clone() };
                    anyhow::Ok(Round::from(sample.lookups.run(&setup)?))
                };
                // A short run says how many packets take as long as asked for, and warms up.
                let first = run(TRIAL)?.mpps;
                sample.rounds.push(run(((first * effort.seconds * 1e6) as u64).max(TRIAL))?);
            }
        }
        Ok(samples)
    }

    /// Returns the round of median throughput.
    pub(crate) fn median(&self) -> &Round {
        let mut rounds: Vec<&Round> = self.rounds.iter().collect();
        rounds.sort_unstable_by(|a, b| a.mpps.total_cmp(&b.mpps));
        rounds[rounds.len() / 2]
    }

    /// Returns half the interquartile range of the throughput over its median.
    pub(crate) fn spread(&self) -> f64 {
        let all: Vec<f64> = self.rounds.iter().map(|round| round.mpps).collect();
        Summary::of(&all).map_or(0.0, |all| all.spread())
    }

    /// Returns by how much simulated throughput exceeds measured throughput, as a ratio: the median of the rounds.
    ///
    /// Each round is simulated for `nanos` nanoseconds, with its own service times.
    pub(crate) fn ratio(&self, costs: &Costs, nanos: f64) -> f64 {
        let of = |round: &Round| {
            simulate(&model(costs, &self.lookups, &self.setup, &round.services), nanos).mpps / round.mpps
        };
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }
}

fn median(figures: &[f64]) -> f64 {
    Summary::of(figures).map_or(f64::NAN, |all| all.median)
}

/// Times single operations, and fits the costs of handing on to relays over `keys`.
///
/// Returns the relays, too.
///
/// # Errors
/// If a relay cannot run.
pub(crate) fn fit(keys: &Arc<KeyBuf>, cores: usize, effort: Effort) -> anyhow::Result<(Costs, Vec<Sample>)> {
    let (look, switch) = yielding()?;
    let (wake, latency) = waking();
    let costs = Costs { look, switch, wake, latency, spin: spinning(), quantum: QUANTUM, ..Costs::NONE };
    let relays = Sample::all(relays(keys, cores), effort)?;
    Ok((fitted(costs, &relays), relays))
}

/// Returns the costs of handing on with which simulated relays are most as measured.
///
/// The sum of the logarithms of the ratios is least, so that a relay that something held up counts no more than others.
/// On one core sending and receiving cannot be told apart, so they have equal shares there.
fn fitted(costs: Costs, relays: &[Sample]) -> Costs {
    let with = |[both, send_far, take_far]: [f64; 3]| {
        let half = both / 2.0;
        Costs { send: half, receive: half, send_far, take_far, ..costs }
    };
    let miss = |at: [f64; 3]| relays.iter().map(|relay| relay.ratio(&with(at), 2e6).ln().abs()).sum();
    with(least([100.0, 100.0, 100.0], [100.0, 100.0, 100.0], miss))
}

/// Returns the model of a plane; `services` are the service times, the source's first.
pub(crate) fn model(costs: &Costs, lookups: &Lookups, setup: &Setup, services: &[Service]) -> Model {
    let stage = |workers: usize, feed: Feed, service: &Service| {
        let spread = Spread::Measured(Arc::clone(&service.shape));
        Stage { workers, feed, work: Work { message: service.mean, packet: 0.0, spread } }
    };
    let steps = setup.workers.iter().zip(&services[1..]).map(|(&count, service)| stage(count, Feed::Rings, service));
    let mut stages: Vec<Stage> = steps.collect();
    if lookups.takes() {
        stages[0].feed = Feed::Full;
        stages[0].work.message += services[0].mean;
    } else {
        stages.insert(0, stage(1, Feed::Full, &services[0]));
    }
    let link = |to: usize| Link { from: to - 1, to, capacity: setup.capacity, is_lossy: false, share: 1.0 };
    let links = (1..stages.len()).map(link).collect();
    let batch = setup.batch as f64;
    let (cores, gathered) = (setup.cores, None);
    let mut model = Model { stages, links, gathered, cores, batch, chunk: CHUNK, costs: *costs, seed: 1 };
    // Cores without a thread do nothing.
    model.cores = model.cores.min(model.threads());
    model
}

/// Returns the relays that costs are fitted on, at every number of cores from 1, by doubling.
fn relays(keys: &Arc<KeyBuf>, cores: usize) -> Vec<Planned> {
    let mut planes = Vec::new();
    // Stages, passes over the keys, words of bits, and packets of a message.
    for (stages, passes, width, batch) in [(1, 4, 0, 32), (1, 4, 0, 8), (2, 4, 0, 32), (2, 2, 16, 32), (3, 8, 4, 16)] {
        let lookups = Lookups::relay(keys, stages, passes, width);
        for (workers, cores) in settings(cores) {
            let setup = Setup { workers: vec![workers; stages], batch, capacity: CAPACITY, cores, packets: 0 };
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
        let costs = Costs { look: 300.0, switch: 1200.0, wake: 800.0, latency: 5e3, spin: 5e3, ..Costs::NONE };
        let known = Costs { send: 60.0, receive: 60.0, send_far: 150.0, take_far: 500.0, ..costs };
        let sample = |(name, lookups, setup): Planned| {
            let services = vec![Service::fixed(100.0); setup.workers.len() + 1];
            let mpps = simulate(&model(&known, &lookups, &setup, &services), 2e6).mpps;
            Sample { name, lookups, setup, rounds: vec![Round { services, mpps }] }
        };
        let samples: Vec<Sample> = relays(&keys(), 4).into_iter().map(sample).collect();
        let found = fitted(costs, &samples);
        for sample in &samples {
            let ratio = sample.ratio(&found, 2e6);
            assert!((ratio - 1.0).abs() < 0.08, "{}: {ratio}, {found:?}", sample.name);
        }
        for (found, known) in
            [(found.send, 60.0), (found.send_far, 150.0), (found.receive, 60.0), (found.take_far, 500.0)]
        {
            assert!((found - known).abs() < 0.2 * known + 10.0, "{found}, expected {known}");
        }
    }

    /// The model has the threads of the plane: a source and the workers, or workers that are their own source.
    #[test]
    fn a_model_has_the_threads_of_its_plane() {
        let relay = Lookups::relay(&keys(), 2, 1, 3);
        let setup = Setup { workers: vec![3, 2], batch: 8, capacity: 4, cores: 2, packets: 1 };
        let of = |setup: &Setup| model(&Costs::NONE, &relay, setup, &[10.0, 20.0, 30.0].map(Service::fixed));
        let full = of(&setup);
        assert_eq!(full.stages.iter().map(|stage| stage.workers).collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!(full.stages.iter().map(|stage| stage.work.message).collect::<Vec<_>>(), [10.0, 20.0, 30.0]);
        assert_eq!(full.links.iter().map(|link| (link.from, link.to)).collect::<Vec<_>>(), [(0, 1), (1, 2)]);
    }

    /// A measured relay has a service time of each step.
    #[test]
    fn service_times_are_of_the_run() {
        let few = Effort { rounds: 2, seconds: 1e-3 };
        let planned = relays(&keys(), 1).into_iter().take(3).collect();
        for sample in Sample::all(planned, few).expect("relays run") {
            let median = sample.median();
            assert_eq!((sample.rounds.len(), median.services.len()), (2, 1 + sample.setup.workers.len()));
            assert!(median.mpps > 0.0 && median.services.iter().all(|service| service.mean > 0.0), "{median:?}");
        }
    }

    #[test]
    fn operations_take_time() {
        let (look, switch) = yielding().expect("one core");
        let (wake, latency) = waking();
        assert!(look > 0.0 && switch >= 0.0 && wake > 0.0 && latency > 0.0 && spinning() > 0.0);
    }
}
