//! Planes of lookups over packets in memory, on threads of this machine.
//!
//! A [`Lookups`] is a lookup in steps, one for each stage of a plane. A [`Setup`] says how many workers each stage has
//! and how packets come in. A plane in the form `replicated` has one step, the whole lookup; its workers take packets
//! from memory, or from a source with a rate. So do the first workers of the papers' pipelines. In the other forms one
//! more thread, the source, brings the packets in.
//! Service times are measured in the run itself, because a machine's speed changes from one moment to the next.

mod controlled;
mod rows;
mod stopwatch;
mod storm;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use firstmatch_core::engines::interval_tree::{self, Npf};
use firstmatch_core::engines::rfc::{self, Rfc};
use firstmatch_core::rule::{ExpansionLimits, Lowered, lower};
use firstmatch_core::{Classifier, KeyBuf, Match, RuleSet};
use firstmatch_net::plane::{Deal, Link, PlaneBuilder, PlaneCounters, Seat};
use firstmatch_net::systems::copies::Fetched;
use firstmatch_net::systems::rfc::Cut;
use firstmatch_net::systems::{self, LookupView, Step, chain, copies, fields, parts, pnpf};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Deserialize;

use rows::{Rows, Slots};
use stopwatch::{Stopwatch, Times};

pub(crate) use stopwatch::Service;
pub(crate) use storm::{StormTimes, cpu};

/// Form of a plane.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// One stage, whose workers do whole lookups.
    Replicated,
    /// A stage for each part of the rules, in order of priority; each passes the best match so far on.
    Parts,
    /// A stage for each key word, which passes on the regions that match so far, and one that takes the first.
    Fields,
    /// The seven stages of the engine `npf`, one for each key word between two more.
    Pnpf,
    /// One stage, whose workers do whole lookups in trees of `npf` that they share.
    Locked,
    /// Two or three stages of leaves and tables of the engine `bitmap_rfc`.
    Classes,
    /// A stage of boxes and one of whole lookups, which [`StormTimes`] has.
    Storm,
    /// One stage, whose workers do whole lookups behind boxes that one updater makes for all.
    Shared,
}

/// Lookup in steps, one for each stage.
#[derive(Clone)]
pub(crate) struct Lookups {
    form: Form,
    steps: Vec<Step<Rows>>,
    keys: Arc<KeyBuf>,
    /// Number of 64-bit words of a packet that steps pass on.
    width: usize,
}

/// Workers, rings and packets of a plane.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Number of workers of each stage.
    pub(crate) workers: Vec<usize>,
    /// Most packets of a message.
    pub(crate) batch: usize,
    /// Messages that a ring holds.
    pub(crate) capacity: usize,
    /// Cores that the threads may use.
    pub(crate) cores: usize,
    /// Packets, which come in as fast as the plane takes them.
    pub(crate) packets: u64,
}

/// Result of a run of a plane.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) counters: PlaneCounters,
    pub(crate) wall: Duration,
    /// Workers of each stage at the end, where a controller changes them.
    pub(crate) active: Vec<usize>,
    /// Service times of the source, then of each step.
    pub(crate) services: Vec<Service>,
}

impl Ran {
    /// Returns the packets that came in, in millions a second.
    pub(crate) fn mpps(&self) -> f64 {
        self.counters.accepted as f64 / self.wall.as_secs_f64() / 1e6
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builder of the engine of a whole lookup or of a part of one.
pub(crate) type BuildEngine<'a> = &'a dyn Fn(&Lowered) -> anyhow::Result<Box<dyn Classifier>>;

impl Lookups {
    /// Builds a lookup of `stages` steps over the first schema of the rules.
    ///
    /// # Errors
    /// If the form has another number of stages, or an engine cannot be built.
    pub(crate) fn build(
        form: Form,
        set: &RuleSet,
        keys: &Arc<KeyBuf>,
        stages: usize,
        engine: BuildEngine<'_>,
    ) -> anyhow::Result<Self> {
        let schema = keys.schema();
        let lowered = |set: &RuleSet| lower(set, schema, &ExpansionLimits::default());
        let mut width = 0;
        let steps = match form {
            Form::Replicated => {
                ensure!(stages == 1, "{stages} stages; expected one, the whole lookup");
                vec![copies::whole(engine(&lowered(set)?)?.into())]
            }
            Form::Parts => {
                ensure!((1..=set.len()).contains(&stages), "{stages} stages of {} rules", set.len());
                let part = |part: &RuleSet| anyhow::Ok(engine(&lowered(part)?)?.into());
                let engines = parts::divide(set, stages).iter().map(part).collect::<anyhow::Result<Vec<_>>>()?;
                parts::steps(engines)
            }
            Form::Fields => {
                let lowered = lowered(set)?;
                width = fields::width(&lowered)?;
                let words = schema.words().len();
                ensure!(stages == words + 1, "{stages} stages; expected {}, one a key word and one more", words + 1);
                fields::steps(&lowered)?
            }
            Form::Pnpf => {
                let engine = Arc::new(Npf::build(&lowered(set)?, &interval_tree::Config::paper())?);
                width = pnpf::width(&engine);
                let wanted = schema.words().len() + 2;
                ensure!(stages == wanted, "{stages} stages; expected {wanted}, one a key word and two more");
                let fresh = || |view: LookupView<'_>| view.best.fill(None);
                pnpf::steps(&engine, Step::on_packets("rows", fresh))
            }
            Form::Locked => {
                ensure!(stages == 1, "{stages} stages; expected one, the whole lookup");
                vec![pnpf::shared(&Arc::new(Npf::build(&lowered(set)?, &interval_tree::Config::paper())?))]
            }
            Form::Classes => {
                let engine = Arc::new(Rfc::build(&lowered(set)?, &rfc::Config::paper_bitmap())?);
                width = engine.width();
                let cut = match stages {
                    2 => Cut::Phases,
                    3 => Cut::Reads,
                    _ => anyhow::bail!("{stages} stages; expected two or three"),
                };
                systems::rfc::steps(&engine, cut)
            }
            Form::Storm | Form::Shared => anyhow::bail!("a form with boxes needs packets that are split"),
        };
        Ok(Self { form, steps, keys: Arc::clone(keys), width })
    }

    /// Builds a lookup of `stages` steps, each of which reads every word of its packets' rows `passes` times.
    ///
    /// It finds nothing. Each step also writes the answers and the `width` words of its packets, as those of lookups
    /// do. So the costs of handing messages on can be fitted on it.
    pub(crate) fn relay(keys: &Arc<KeyBuf>, stages: usize, passes: usize, width: usize) -> Self {
        let work = move || {
            move |LookupView { keys, best, words }: LookupView<'_>| {
                let mut sum = 0u32;
                for _ in 0..passes {
                    let words = std::hint::black_box(keys.words());
                    sum = words.iter().fold(sum, |sum, word| sum.rotate_left(5) ^ word);
                }
                words.iter_mut().for_each(|word| *word ^= u64::from(sum));
                best.fill(None);
                std::hint::black_box((best, words));
            }
        };
        let step = |at: usize| Step::on_packets(format!("relay {}", at + 1), work);
        Self { form: Form::Parts, steps: (0..stages).map(step).collect(), keys: Arc::clone(keys), width }
    }

    /// Returns the names of the steps.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(Step::name)
    }

    /// Returns whether workers of the first stage take the packets of a full load from memory, without a ring.
    pub(crate) fn takes(&self) -> bool {
        matches!(self.form, Form::Replicated | Form::Locked | Form::Classes)
    }

    /// Carries all packets once through a plane and returns their answers.
    ///
    /// # Errors
    /// If the plane cannot start, a worker panicked, a packet was lost, or `setup` has workers for other stages.
    pub(crate) fn answers(&self, setup: &Setup) -> anyhow::Result<Vec<Option<Match>>> {
        let answers = Arc::new(Mutex::new(vec![None; self.keys.len()]));
        let packets = self.keys.len() as u64;
        let ran = self.carry(&Setup { packets, ..setup.clone() }, Some(&answers))?;
        let (came, lost) = (ran.counters.accepted, ran.counters.lost);
        ensure!(came == self.keys.len() as u64 && lost == 0, "{came} packets came in and {lost} were lost");
        Ok(std::mem::take(&mut *lock(&answers)))
    }

    /// Runs a plane to the end of its load.
    ///
    /// # Errors
    /// If the plane cannot start, a worker panicked, or the cores cannot be set.
    pub(crate) fn run(&self, setup: &Setup) -> anyhow::Result<Ran> {
        self.carry(setup, None)
    }

    fn carry(&self, setup: &Setup, answers: Option<&Arc<Mutex<Vec<Option<Match>>>>>) -> anyhow::Result<Ran> {
        let stages = self.steps.len();
        ensure!(setup.workers.len() == stages, "workers of {} stages; expected {stages}", setup.workers.len());
        let times: Vec<Arc<Times>> = (0..=stages).map(|_| Arc::default()).collect();
        let is_own = self.takes();
        // Workers that do everything themselves have a message each, so that none waits for another.
        let threads = 1 + setup.workers.iter().sum::<usize>();
        let is_whole = is_own && stages == 1;
        let (all, each) = if is_whole { (setup.workers[0], 1) } else { (1, threads * (2 * setup.capacity + 1)) };
        let slots: Arc<[Slots]> = (0..all).map(|_| Slots::new(each, &self.keys, self.width)).collect();
        let steps: Vec<Step<Rows>> =
            (0..stages).map(|at| self.timed(at, &times[at + 1], &slots, answers, !self.is_controlled(setup))).collect();
        let mut builder = PlaneBuilder::<Rows>::new();
        let fetch = self.source(setup, &times[0], &slots);
        if self.is_controlled(setup) {
            return self.controlled(setup, &steps, fetch, &times, &slots);
        }
        let lossless = Link::new().capacity(setup.capacity);
        if is_own {
            let source = copies::source(&mut builder, steps[0].name(), setup.workers[0], &steps[..1], fetch);
            let rest = chain(&mut builder, &steps[1..], &setup.workers[1..], lossless);
            if let Some(&next) = rest.first() {
                builder.link(source, next, lossless);
            }
        } else {
            let source = copies::source(&mut builder, "source", 1, &[], fetch);
            let stages = chain(&mut builder, &steps, &setup.workers, lossless);
            builder.link(source, stages[0], lossless);
        }
        let (counters, wall) = on_cores(setup.cores, || {
            let start = Instant::now();
            let counters = builder.start()?.join()?;
            anyhow::Ok((counters, start.elapsed()))
        })??;
        let services = times.iter().map(|times| times.take()).collect();
        Ok(Ran { counters, wall, active: Vec::new(), services })
    }

    /// Returns a step whose service times are taken. The last one keeps the answers, and gives buffers back if it `ends`
    /// the plane.
    fn timed(
        &self,
        at: usize,
        times: &Arc<Times>,
        slots: &Arc<[Slots]>,
        answers: Option<&Arc<Mutex<Vec<Option<Match>>>>>,
        ends: bool,
    ) -> Step<Rows> {
        let is_last = at + 1 == self.steps.len();
        let answers = answers.filter(|_| is_last).cloned();
        let (times, slots) = (Arc::clone(times), Arc::clone(slots));
        self.steps[at].clone().wrapped(move |seat, mut work| {
            let (own, slots) = (seat.worker % slots.len(), Arc::clone(&slots));
            let (mut watch, answers) = (Stopwatch::new(&times), answers.clone());
            move |rows: Rows| {
                watch.time(|| {
                    let rows = work(rows)?;
                    if let Some(answers) = &answers {
                        lock(answers)[rows.rows.clone()].copy_from_slice(&rows.buffers.best);
                    }
                    if !(is_last && ends) {
                        return Some(rows);
                    }
                    slots[own].give_back(rows);
                    None
                })
            }
        })
    }

    /// Returns a factory of functions that take packets from memory. All of them share the packets.
    fn source(
        &self,
        setup: &Setup,
        times: &Arc<Times>,
        slots: &Arc<[Slots]>,
    ) -> impl Fn(&Seat) -> Box<dyn FnMut() -> Fetched<Rows>> + Send + Sync + use<> {
        let (&Setup { batch, packets, .. }, keys) = (setup, self.keys.len());
        let deal = Arc::new(Deal::new(keys, batch, packets.div_ceil(keys.max(1) as u64)));
        let (times, slots) = (Arc::clone(times), Arc::clone(slots));
        move |seat| {
            let (own, slots) = (seat.worker % slots.len(), Arc::clone(&slots));
            let (mut next, mut number) = (0, 0);
            let mut rows = move |range: Range<usize>| {
                number += 1;
                Fetched::Message(slots[own].rows(&mut next, number - 1, range))
            };
            let mut watch = Stopwatch::new(&times);
            let deal = Arc::clone(&deal);
            Box::new(move || watch.time(|| deal.next().map_or(Fetched::End, &mut rows)))
        }
    }
}

/// Runs `run` with this thread, and those that it starts, on the first `cores` of the cores that it may use.
///
/// # Errors
/// If there are fewer cores, or they cannot be set.
pub(super) fn on_cores<T>(cores: usize, run: impl FnOnce() -> T) -> anyhow::Result<T> {
    let all = sched_getaffinity(None).context("the cores of this thread")?;
    let own: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect();
    ensure!((1..=own.len()).contains(&cores), "{cores} cores; expected 1 to {}", own.len());
    let mut few = CpuSet::new();
    own[..cores].iter().for_each(|&core| few.set(core));
    sched_setaffinity(None, &few).context("setting the cores of this thread")?;
    let result = run();
    sched_setaffinity(None, &all).context("setting the cores of this thread")?;
    Ok(result)
}
