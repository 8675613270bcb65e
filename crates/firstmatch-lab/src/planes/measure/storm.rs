//! Storm's stages, timed one after another on one thread, models of its planes, and planes that run.
//!
//! Boxes are of one action, and are made first, by samples of all packets. Then each message is compared with them, and
//! packets in none are gathered and looked up, so that both times are of the packets that the stages have. Planes that
//! run have more threads than cores, so that their CPU time a packet counts, and the model is judged by it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use firstmatch_core::cache::rule::{BoxSearch, BoxUpdater, ByAction, Config};
use firstmatch_core::{Classifier, KeyBuf, Verdict};
use firstmatch_net::systems::advice::StageTimes;
use firstmatch_net::systems::shared::SharedBoxes;
use firstmatch_net::systems::storm::Assignment;
use firstmatch_net::systems::{self, Rows};
use rustix::time::{ClockId, clock_gettime};

use super::stopwatch::Service;
use crate::planes::simulate::{Costs, Feed, Gathered, Link, Model, Spread, Stage, Work, simulate};

/// Samples for boxes before anything is timed.
const SAMPLES: usize = 2048;
/// Packets that say which share is in no box while boxes are made.
const JUDGED: usize = 1000;
/// Packets that all rings between the stages hold, as in the paper.
const QUEUED: u64 = 1000;

/// Nanoseconds for which a thread looks for work, longer than any simulation.
const SPIN: f64 = 1e12;

/// Nanoseconds for which a plane that runs is simulated, and messages that its rings hold.
const SIMULATED: f64 = 2e7;
const CAPACITY: usize = 64;
/// Pause of the updater of a plane that runs, so that hardly any of its CPU time is the updater's, and runs of it.
const PAUSE: Duration = Duration::from_millis(100);
const RUNS: usize = 8;

/// Runs a plane of workers that share boxes or of Storm's stages, and returns the least CPU time a packet of
/// several runs, of all threads in nanoseconds.
///
/// Boxes are made before packets are counted, and the updater goes on beside them.
///
/// # Errors
/// If the plane has a fault, or a verdict is wrong.
pub(crate) fn cpu(
    view: &ByAction,
    keys: &KeyBuf,
    (batch, workers): (usize, &[usize]),
    verdicts: &[Option<Verdict>],
) -> anyhow::Result<f64> {
    let view = Arc::new(view.again());
    let mut updater = BoxUpdater::new(view.clone(), view.clone(), &Config::paper())?;
    for sample in 0..SAMPLES.min(keys.len()) {
        updater.sample(keys.keys().slice(sample, sample + 1));
    }
    let boxes = SharedBoxes::new(updater, workers[0]);
    let plane = systems::plane(view, Some(&boxes), workers, batch, PAUSE)?;
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let messages = Rows::of(keys, batch, 0);
        let before = clock_gettime(ClockId::ProcessCPUTime);
        let answers = Rows::carry(&plane, messages);
        let after = clock_gettime(ClockId::ProcessCPUTime);
        let answers =
            answers.map_err(|fault| fault.map_or_else(|| anyhow!("it ended early"), |fault| anyhow!(fault)))?;
        ensure!(
            answers.iter().map(|found| found.map(ByAction::verdict)).eq(verdicts.iter().copied()),
            "a wrong verdict"
        );
        let nanos = (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
        least = least.min(nanos as f64 / keys.len() as f64);
    }
    plane.stop();
    plane.join()?;
    Ok(least)
}

/// Times of both stages, and the share of packets in no box from the start on.
#[derive(Clone, Debug)]
pub(crate) struct StormTimes {
    /// Search of a message, and lookup of as many packets in no box.
    cache: Service,
    full: Service,
    pub(crate) batch: usize,
    /// Share of packets in no box once boxes are made.
    missed: f64,
    /// Share at the start and after each publication, by nanoseconds of the updater.
    course: Arc<[(f64, f64)]>,
}

impl StormTimes {
    /// Takes the times of stages over a view of the rules, and compares their verdicts with the right ones.
    ///
    /// # Errors
    /// If there are too few packets, or a verdict is wrong.
    pub(crate) fn take(
        view: &ByAction,
        keys: &KeyBuf,
        batch: usize,
        verdicts: &[Option<Verdict>],
    ) -> anyhow::Result<Self> {
        ensure!(keys.len() >= SAMPLES + JUDGED, "{} packets; expected some thousands", keys.len());
        let (engine, schema, keys) = (Arc::new(view.again()), keys.schema(), keys.keys());
        let mut updater = BoxUpdater::new(engine.clone(), engine.clone(), &Config::paper())?;
        let (mut boxes, mut search, version) = (updater.boxes(), BoxSearch::new(JUDGED), engine.version());
        let (mut course, mut elapsed) = (vec![(0.0, 1.0)], 0.0);
        for sample in 0..SAMPLES {
            let at = sample * (keys.len() - JUDGED) / SAMPLES;
            let start = Instant::now();
            let is_new = updater.sample(keys.slice(at, at + 1));
            if is_new {
                updater.publish(&mut boxes);
            }
            elapsed += start.elapsed().as_nanos() as f64;
            if is_new {
                let next = keys.slice(at + 1, at + 1 + JUDGED);
                let open = boxes.improve(version, &mut search, &next, &mut [None; JUDGED]).len();
                course.push((elapsed, open as f64 / JUDGED as f64));
            }
        }
        let (mut scratch, mut answers) = (engine.scratch(), vec![None; keys.len()]);
        let (mut misses, mut places, mut found) = (KeyBuf::new(schema), Vec::new(), Vec::new());
        let (mut cached, mut full, mut missed) = (Vec::new(), Vec::new(), 0);
        for from in (0..keys.len()).step_by(batch) {
            let to = keys.len().min(from + batch);
            let start = Instant::now();
            let open = boxes.improve(version, &mut search, &keys.slice(from, to), &mut answers[from..to]);
            open.iter().for_each(|&at| misses.push().copy_from_slice(keys.row(from + at as usize)));
            cached.push(start.elapsed().as_nanos() as f64);
            places.extend(open.iter().map(|&at| from + at as usize));
            missed += open.len();
            if places.len() >= batch || (to == keys.len() && !places.is_empty()) {
                found.clear();
                found.resize(places.len(), None);
                let start = Instant::now();
                engine.improve_batch(&mut scratch, &misses.keys(), &mut found);
                full.push(start.elapsed().as_nanos() as f64 * batch as f64 / places.len() as f64);
                places.drain(..).zip(&found).for_each(|(place, found)| answers[place] = *found);
                misses.clear();
            }
        }
        let missed = missed as f64 / keys.len() as f64;
        let (cache, full) = (Service::of(cached), Service::of(full));
        ensure!(
            answers.iter().map(|found| found.map(ByAction::verdict)).eq(verdicts.iter().copied()),
            "a wrong verdict"
        );
        Ok(Self { cache, full, batch, missed, course: course.into() })
    }

    /// Returns the CPU nanoseconds a packet that the simulation has for a plane that [`cpu`] runs: of Storm's stages
    /// with these workers, or of workers that do the work of both.
    pub(crate) fn simulated_cpu(&self, costs: &Costs, workers: &[usize], cores: usize) -> f64 {
        let stage = |workers, feed, nanos| {
            let work = Work { message: nanos, packet: 0.0, spread: Spread::Fixed };
            Stage { workers, feed, work }
        };
        let link = |from, to, share| Link { from, to, capacity: CAPACITY, is_lossy: false, share };
        // The caller's threads send and receive.
        let (source, sink) = (stage(1, Feed::Full, 0.0), stage(1, Feed::Rings, 0.0));
        let (cache, full) = (self.cache.mean, self.full.mean);
        let mut model = Model {
            stages: vec![source, stage(workers[0], Feed::Rings, cache + self.missed * full), sink],
            links: vec![link(0, 1, 1.0), link(1, 2, 1.0)],
            gathered: None,
            cores,
            batch: self.batch as f64,
            chunk: crate::planes::costs::CHUNK,
            costs: *costs,
            seed: 1,
        };
        if let [_, lookups] = *workers {
            model.stages[1].work.message = cache;
            model.stages.push(stage(lookups, Feed::Rings, full));
            model.links =
                vec![link(0, 1, 1.0), link(1, 3, self.missed), link(1, 2, 1.0 - self.missed), link(3, 2, 1.0)];
            model.gathered = Some(Gathered { link: 1, course: Arc::new([(0.0, self.missed)]), dynamic: None });
        }
        let outcome = simulate(&model, SIMULATED);
        outcome.busy * cores as f64 / outcome.mpps * 1e3
    }

    /// Returns the times a packet, and the share of packets in a box.
    pub(crate) fn stages(&self) -> StageTimes {
        let packet = |service: &Service| service.mean / self.batch as f64;
        StageTimes { cache: packet(&self.cache), full: packet(&self.full), hits: 1.0 - self.missed }
    }

    /// Returns the time from which on fewer packets are in no box than twice as many as at last, in nanoseconds.
    pub(crate) fn warm_up(&self) -> f64 {
        let cold = self.course.iter().rfind(|(_, share)| *share > 2.0 * self.missed);
        cold.map_or(0.0, |(time, _)| *time)
    }

    /// Returns the model of a plane whose workers of boxes take `rate` packets a second from memory.
    ///
    /// It starts without boxes if it `is_cold`. Threads look for work as long as it takes, as the paper's do on cores
    /// of their own. The updater has a core that takes no part.
    pub(crate) fn model(&self, costs: &Costs, assignment: Assignment, rate: f64, is_cold: bool) -> Model {
        let stage = |workers, feed, service: &Service| {
            let spread = Spread::Measured(Arc::clone(&service.shape));
            Stage { workers, feed, work: Work { message: service.mean, packet: 0.0, spread } }
        };
        let workers = assignment.workers();
        let feed = Feed::Paced { packets_a_second: rate / workers.cache as f64, spread: Spread::Fixed };
        let rings = match assignment {
            Assignment::Dynamic(by) => by.more_full.cache * by.more_full.full,
            _ => workers.cache * workers.full,
        };
        let queued = (QUEUED as usize / rings / self.batch).max(1);
        let period = self.course.last().map_or(0.0, |(time, _)| *time) / self.course.len() as f64;
        let dynamic = match assignment {
            Assignment::Dynamic(by) => Some((by, (queued * rings * self.batch) as u64, period)),
            _ => None,
        };
        let course = if is_cold { Arc::clone(&self.course) } else { Arc::new([(0.0, self.missed)]) };
        Model {
            stages: vec![stage(workers.cache, feed, &self.cache), stage(workers.full, Feed::Rings, &self.full)],
            links: vec![Link { from: 0, to: 1, capacity: queued, is_lossy: true, share: 1.0 }],
            gathered: Some(Gathered { link: 0, course, dynamic }),
            cores: workers.cache + workers.full,
            batch: self.batch as f64,
            chunk: crate::planes::costs::CHUNK,
            costs: Costs { spin: SPIN, ..*costs },
            seed: 1,
        }
    }
}
