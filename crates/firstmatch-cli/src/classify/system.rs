//! `--system`: the packets of the input, held in memory, through an arrangement of threads.
//!
//! Each address family gets a plane of its own. The messages of a pass are made before its clock starts. A pass ends
//! when all its packets have come back, and every answer is compared with that of the engine alone.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use firstmatch_core::engines::registry::{Entry, Settings};
use firstmatch_core::rule::{Lowered, lower};
use firstmatch_core::{Classifier, KeyBuf, Match};
use firstmatch_net::plane::Plane;
use firstmatch_net::systems::Rows;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::timing::median;
use crate::args::{ClassifyArgs, System};
use crate::rules::Loaded;
use crate::systems::{Engines, Running, threads};

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
        let engines = Engines::build(system, (engine, settings), &lowered)?;
        reports.push(measure(&engines, args, system, keys, &lowered, stopped)?);
    }
    Ok(reports)
}

/// Sends the packets of one family through the system, pass after pass.
fn measure(
    engines: &Engines,
    args: &ClassifyArgs,
    system: System,
    keys: &KeyBuf,
    lowered: &Lowered,
    stopped: &dyn Fn() -> bool,
) -> anyhow::Result<SystemReport> {
    let (expected, alone_ns) = alone(&*engines.whole(), keys, args.batch.into());
    let threads = threads(system, args.systems.threads.as_ref(), lowered)?;
    let running: Running<Rows> = engines.start(system, &threads, args.batch.into(), lowered)?;
    let packets = keys.len();
    let (mut walls, mut cpus, mut different) = (Vec::new(), Vec::new(), 0);
    for pass in 0..args.repeat.unwrap_or(1) {
        if pass > 0 && stopped() {
            break;
        }
        let messages = Rows::of(keys, args.batch.into(), engines.width());
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
