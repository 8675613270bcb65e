//! `--system`: the packets of the input, held in memory, through an arrangement of threads.
//!
//! Each address family gets a plane of its own. The messages of a pass are made before its clock starts. A pass ends
//! when all its packets have come back, and every answer is compared with that of the engine alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use firstmatch_core::cache::rule::{self, BoxUpdater};
use firstmatch_core::engines::interval_tree::{self, Npf};
use firstmatch_core::engines::registry::{Entry, Settings};
use firstmatch_core::engines::rfc::{self, Rfc};
use firstmatch_core::rule::{Lowered, lower};
use firstmatch_core::{Classifier, KeyBuf, Match};
use firstmatch_net::plane::{Dispatch, Link, Plane, PlaneBuilder};
use firstmatch_net::systems::pnpf::QueueController;
use firstmatch_net::systems::rfc::Cut;
use firstmatch_net::systems::shared::SharedBoxes;
use firstmatch_net::systems::{self, LookupView, Rows, Step, chain, pnpf};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::timing::median;
use crate::args::{ClassifyArgs, System};
use crate::engines;
use crate::rules::Loaded;

/// Pause of an updater of boxes after each round, so that it leaves the core to workers where there are few.
const PAUSE: Duration = Duration::from_micros(50);

/// Figures of a system, for the packets of one family.
#[derive(Debug, Serialize)]
pub(super) struct SystemReport {
    pub(super) system: &'static str,
    /// Threads by stage, as `--threads` has them.
    pub(super) threads: Vec<usize>,
    pub(super) engine: String,
    pub(super) family: Option<&'static str>,
    pub(super) packets: u64,
    pub(super) passes: usize,
    /// Nanoseconds a packet of the engine alone, on one thread.
    pub(super) alone_ns: f64,
    /// Nanoseconds a packet from the first message in to the last one out; the median of the passes.
    pub(super) wall_ns: f64,
    /// Nanoseconds of CPU a packet, of all threads; the median of the passes.
    pub(super) cpu_ns: f64,
    /// Answers that are not those of the engine alone.
    pub(super) different: u64,
    /// Packets that each stage took, in all passes.
    pub(super) stages: Vec<StageReport>,
    /// Packets that shared boxes answered, in all passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) box_hits: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct StageReport {
    pub(super) name: String,
    pub(super) workers: usize,
    pub(super) packets: u64,
}

/// Running plane with what is read of it beside its counters.
struct Running {
    plane: Plane<Rows>,
    boxes: Option<Arc<SharedBoxes>>,
    /// Number of words that steps pass on for each packet.
    width: usize,
}

/// Runs a system over the packets that are held, once a family.
pub(super) fn run(
    loaded: &Loaded,
    args: &ClassifyArgs,
    (engine, settings): (&Entry, &Settings),
    held: &[KeyBuf],
    stopped: &dyn Fn() -> bool,
) -> anyhow::Result<Vec<SystemReport>> {
    let Some(system) = args.systems.system else { return Ok(Vec::new()) };
    let mut reports = Vec::new();
    for (schema, keys) in loaded.file.rules.schemas().iter().zip(held).filter(|(_, keys)| !keys.is_empty()) {
        let lowered =
            lower(&loaded.file.rules, schema, &loaded.expansion()).context("the rules have too many regions")?;
        let engine = Engines::build(args, system, (engine, settings), &lowered)?;
        reports.push(engine.measure(args, system, keys, &lowered, stopped)?);
    }
    Ok(reports)
}

/// Engine of a system: one whose steps are public, or any.
enum Engines {
    Npf(Arc<Npf>),
    Rfc(Arc<Rfc>),
    Any(Arc<dyn Classifier>),
}

impl Engines {
    fn build(
        args: &ClassifyArgs,
        system: System,
        (engine, settings): (&Entry, &Settings),
        lowered: &Lowered,
    ) -> anyhow::Result<Self> {
        let is_paper = match &args.option[..] {
            [] => false,
            [(name, value)] if name == "paper" => value == "true",
            _ if matches!(system, System::Pnpf | System::Rfc) => {
                bail!("the system {} takes the option paper and no other", system.name())
            }
            _ => false,
        };
        match (system, &*args.engine) {
            (System::Pnpf, "npf") => {
                let config = if is_paper { interval_tree::Config::paper() } else { interval_tree::Config::default() };
                Ok(Self::Npf(Arc::new(Npf::build(lowered, &config).context("the engine npf")?)))
            }
            (System::Rfc, name @ ("rfc" | "bitmap_rfc")) => {
                let config = match (name, is_paper) {
                    ("bitmap_rfc", true) => rfc::Config::paper_bitmap(),
                    ("bitmap_rfc", false) => rfc::Config::bitmap(),
                    (_, true) => rfc::Config::paper(),
                    (_, false) => rfc::Config::default(),
                };
                Ok(Self::Rfc(Arc::new(Rfc::build(lowered, &config).with_context(|| format!("the engine {name}"))?)))
            }
            (System::Pnpf | System::Rfc, name) => {
                let own = if system == System::Pnpf { "npf" } else { "rfc or bitmap_rfc" };
                bail!("the system {} is of the engine {own}, and --engine {name} was asked for", system.name())
            }
            (_, name) => {
                let built = engines::alone(engine, settings, lowered).with_context(|| format!("the engine {name}"))?;
                Ok(Self::Any(built.into()))
            }
        }
    }

    fn whole(&self) -> Arc<dyn Classifier> {
        match self {
            Self::Npf(engine) => Arc::<Npf>::clone(engine),
            Self::Rfc(engine) => Arc::<Rfc>::clone(engine),
            Self::Any(engine) => Arc::clone(engine),
        }
    }

    fn measure(
        &self,
        args: &ClassifyArgs,
        system: System,
        keys: &KeyBuf,
        lowered: &Lowered,
        stopped: &dyn Fn() -> bool,
    ) -> anyhow::Result<SystemReport> {
        let (expected, alone_ns) = alone(&*self.whole(), keys, args.batch.into());
        let threads = threads(args, system, lowered)?;
        let running = self.start(system, &threads, args.batch.into(), lowered)?;
        let packets = keys.len();
        let (mut walls, mut cpus, mut different) = (Vec::new(), Vec::new(), 0);
        for pass in 0..args.repeat.unwrap_or(1) {
            if pass > 0 && stopped() {
                break;
            }
            let messages = Rows::of(keys, args.batch.into(), running.width);
            let (wall, cpu, answers) = carry(&running.plane, messages)?;
            walls.push(wall.as_nanos() as f64 / packets as f64);
            cpus.push(cpu.as_nanos() as f64 / packets as f64);
            different += answers.iter().zip(&expected).filter(|(one, other)| one != other).count() as u64;
        }
        let (passes, [wall_ns, cpu_ns]) = (
            walls.len(),
            [walls, cpus].map(|mut times| {
                times.sort_unstable_by(f64::total_cmp);
                median(&times).unwrap_or(0.0)
            }),
        );
        running.plane.stop();
        let counters = running.plane.join()?;
        let stages = counters.stages.iter().map(|stage| StageReport {
            name: stage.name.clone(),
            workers: stage.workers.len(),
            packets: stage.sum().taken.packets,
        });
        Ok(SystemReport {
            system: system.name(),
            threads,
            engine: args.engine.clone(),
            family: keys.schema().family().map(firstmatch_core::schema::Family::name),
            packets: packets as u64,
            passes,
            alone_ns,
            wall_ns,
            cpu_ns,
            different,
            stages: stages.collect(),
            box_hits: running.boxes.map(|boxes| boxes.counts().hits),
        })
    }

    /// Starts the plane of a system.
    fn start(&self, system: System, threads: &[usize], batch: usize, lowered: &Lowered) -> anyhow::Result<Running> {
        let mut builder = PlaneBuilder::new();
        let link = Link::new().dispatch(Dispatch::RoundRobin);
        let (mut width, mut controlled) = (0, None);
        match (system, self) {
            (System::Pnpf, Self::Npf(engine)) => {
                let mut config = pnpf::Config::paper();
                (config.rows, config.word, config.decide) = (threads[0], threads[1], threads[2]);
                width = pnpf::width(engine);
                // The rows are there; a message gets places for answers and for handles.
                let rows = Step::on_packets("rows", || {
                    |view: LookupView<'_>| {
                        view.best.fill(None);
                        view.words.fill(0);
                    }
                });
                let stages = pnpf::stages(&mut builder, &pnpf::steps(engine, rows), &config);
                builder.enter(stages[0], config.link());
                controlled = Some((stages, config));
            }
            (System::Rfc, Self::Rfc(engine)) => {
                width = engine.width();
                let cut = if threads.len() == 2 { Cut::Phases } else { Cut::Reads };
                let stages = chain(&mut builder, &systems::rfc::steps(engine, cut), threads, link);
                builder.enter(stages[0], link).leave(stages[stages.len() - 1], link);
            }
            (System::Storm | System::Shared, _) => {
                let updater = BoxUpdater::over(self.whole(), lowered, &rule::Config::default())?;
                let boxes = SharedBoxes::new(updater, threads[0]);
                let plane = Rows::plane(self.whole(), Some(&boxes), &threads[..threads.len() - 1], batch, PAUSE)?;
                return Ok(Running { plane, boxes: Some(boxes), width });
            }
            _ => {
                let plane = Rows::plane(self.whole(), None, threads, batch, PAUSE)?;
                return Ok(Running { plane, boxes: None, width });
            }
        }
        let mut plane = builder.start()?;
        if let Some((stages, config)) = controlled {
            let controller = QueueController::start(&stages, config.scaling, plane.control());
            plane.control_by(config.period, controller)?;
        }
        Ok(Running { plane, boxes: None, width })
    }
}

/// Returns the threads of each stage: those that were asked for, or one each.
fn threads(args: &ClassifyArgs, system: System, lowered: &Lowered) -> anyhow::Result<Vec<usize>> {
    let (form, lengths, default): (_, &[usize], &[usize]) = match system {
        System::Copies => ("N threads of whole lookups", &[1], &[2]),
        System::Shared => ("N threads of whole lookups, and 1 for the boxes, as 2-1", &[2], &[1, 1]),
        System::Storm => ("threads of boxes, of whole lookups, and 1 for the boxes, as 4-2-1", &[3], &[1, 1, 1]),
        System::Pnpf => ("threads of rows, of each word, and of decisions, as 1-3-1", &[3], &[1, 1, 1]),
        System::Rfc => ("threads of two or three stages, as 1-1", &[2, 3], &[1, 1]),
    };
    let asked = args.systems.threads.as_ref().map_or(default, |threads| &threads.0);
    let has_one_updater = !matches!(system, System::Shared | System::Storm) || asked.last() == Some(&1);
    if !lengths.contains(&asked.len()) || !has_one_updater {
        bail!("--threads of the system {} are {form}", system.name());
    }
    // A stage a word: too many threads would be a surprise.
    let words = if system == System::Pnpf { lowered.schema().words().len() } else { 1 };
    let all: usize = asked.iter().sum::<usize>() + (words - 1) * asked.get(1).copied().unwrap_or(0);
    if all > MOST_THREADS {
        bail!("--threads make {all} threads; expected at most {MOST_THREADS}");
    }
    Ok(asked.to_vec())
}

/// Maximum number of threads of a system.
const MOST_THREADS: usize = 256;

/// Returns the answers of an engine on one thread, and the nanoseconds a packet.
fn alone(engine: &dyn Classifier, keys: &KeyBuf, batch: usize) -> (Vec<Option<Match>>, f64) {
    let (mut scratch, mut answers) = (engine.scratch(), vec![None; keys.len()]);
    let start = Instant::now();
    for (at, answers) in (0..).step_by(batch).zip(answers.chunks_mut(batch)) {
        engine.improve_batch(&mut scratch, &keys.keys().slice(at, at + answers.len()), answers);
    }
    let nanos = start.elapsed().as_nanos() as f64 / keys.len() as f64;
    (answers, nanos)
}

/// Sends all messages through a plane; returns the time until all packets have come back, the CPU time of all threads
/// and the answers.
fn carry(plane: &Plane<Rows>, messages: Vec<Rows>) -> anyhow::Result<(Duration, Duration, Vec<Option<Match>>)> {
    let (start, cpu) = (Instant::now(), process_time());
    let answers = Rows::carry(plane, messages);
    let (wall, cpu) = (start.elapsed(), process_time().saturating_sub(cpu));
    let answers =
        answers.map_err(|fault| fault.map_or_else(|| anyhow!("the plane ended early"), |fault| anyhow!(fault)))?;
    Ok((wall, cpu, answers))
}

/// Returns the CPU time of all threads of this process.
fn process_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
