//! Stages of Storm's form, timed one after another on one thread, and models of its planes.
//!
//! The smallest plane has four threads, so its rates are projected. Boxes are made first, by samples of all packets.
//! Then each message is compared with them, and packets in none are gathered and looked up, so that both times are of
//! the packets that the stages have.

use std::sync::Arc;
use std::time::Instant;

use firstmatch_core::cache::rule::{BoxSearch, BoxUpdater, Config};
use firstmatch_core::rule::Lowered;
use firstmatch_core::{Classifier, KeyBuf, Match};
use firstmatch_net::systems::advice::StageTimes;
use firstmatch_net::systems::storm::Assignment;

use super::stopwatch::Service;
use crate::planes::simulate::{Costs, Feed, Gathered, Link, Model, Spread, Stage, Work};

/// Samples for boxes before anything is timed.
const SAMPLES: usize = 2048;
/// Packets that say which share is in no box while boxes are made.
const JUDGED: usize = 1000;
/// Packets that all rings between the stages hold, as in the paper.
const QUEUED: u64 = 1000;

/// Nanoseconds for which a thread looks for work, longer than any simulation.
const SPIN: f64 = 1e12;

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
    /// Takes the times of stages before an engine, and returns them with the answers.
    ///
    /// # Errors
    /// If there are too few packets, or the list of regions cannot be built.
    pub(crate) fn take(
        engine: Box<dyn Classifier>,
        lowered: &Lowered,
        keys: &KeyBuf,
        batch: usize,
    ) -> anyhow::Result<(Self, Vec<Option<Match>>)> {
        anyhow::ensure!(keys.len() >= SAMPLES + JUDGED, "{} packets; expected some thousands", keys.len());
        let (engine, schema, keys): (Arc<dyn Classifier>, _, _) = (engine.into(), keys.schema(), keys.keys());
        let mut updater = BoxUpdater::over(Arc::clone(&engine), lowered, &Config::paper())?;
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
        Ok((Self { cache, full, batch, missed, course: course.into() }, answers))
    }

    /// Returns the times a packet, and the share of packets in a box.
    pub(crate) fn stages(&self) -> StageTimes {
        let packet = |service: &Service| service.mean / self.batch as f64;
        StageTimes { cache: packet(&self.cache), full: packet(&self.full), hits: 1.0 - self.missed }
    }

    /// Returns the time until all boxes are made, in nanoseconds.
    pub(crate) fn warm_up(&self) -> f64 {
        self.course.last().map_or(0.0, |(time, _)| *time)
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
        let period = self.warm_up() / self.course.len() as f64;
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
