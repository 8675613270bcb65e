//! Updates beside readers, for engines with a writer and readers of their own.
//!
//! A random half of the rules is live at first. Then random rules are inserted and removed, with equal probability, one
//! update per transaction, lowering included. A reader at full speed has a core of its own. The writer shares a core
//! with the thread that rebuilds. If the engine refuses an update for want of a rebuild, another one is drawn later.
//!
//! At the end the answers are compared with those of `linear` over the live rules. Then the reader is timed once more
//! with the writer stopped. The rules are in the same changed state, so the difference is the cost of the writer. For
//! example, 40 ns per key afterwards and 50 ns beside the writer give a share of 0.8.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use firstmatch_core::live::{self, Engine, RebuildJob, Rebuilt, Retired, Writer};
use firstmatch_core::rule::{RuleId, RuleSpec};
use firstmatch_core::{BuildError, Classifier, KeyBuf, RuleSet};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Pace;
use super::subject::{Role, Subject};
use super::updates::compare;
use crate::clock::{cpu_time, timed};
use crate::definition::UnderUpdates;
use crate::statistics::Summary;
use crate::workload::Workload;

/// Updates between two readings of the clocks.
///
/// If the writer was off its core meanwhile, the commits of all of them are left out of the latencies.
const STRIDE: usize = 16;
/// Time off the core that counts as an interruption from outside.
const OFF: Duration = Duration::from_micros(20);
/// Time for which the reader is timed before the rules change, and after.
const QUIET: Duration = Duration::from_millis(1000);

/// Figures at each rate, with their units.
pub(crate) const FIGURES: [(&str, &str); 12] = [
    ("updates", "updates/s"),
    ("reader, share with the writer stopped", "ratio"),
    ("reader before", "ns/key"),
    ("reader beside", "ns/key"),
    ("reader after", "ns/key"),
    ("overlay at most", "rules"),
    ("overlay's cap", "rules"),
    ("rebuilds", "rebuilds/s"),
    ("commit, p50", "us"),
    ("commit, p99", "us"),
    ("commit, p99.9", "us"),
    ("commit, max", "us"),
];

/// Figures of each sitting, by subject and rate.
pub(crate) struct Sittings(Vec<Vec<Vec<[f64; FIGURES.len()]>>>);

impl Sittings {
    pub(crate) fn new(subjects: usize) -> Self {
        Self(vec![Vec::new(); subjects])
    }

    /// Runs a sitting of every engine with a writer; a failure replaces the subject's build.
    pub(crate) fn sit(
        &mut self,
        updates: &UnderUpdates,
        subjects: &mut [Subject],
        work: &Workload,
        rules: &RuleSet,
        pace: &Pace,
    ) {
        for (of_subject, subject) in self.0.iter_mut().zip(subjects) {
            let Some(config) = subject.recipe.as_ref().and_then(|recipe| recipe.live.clone()) else { continue };
            if subject.built.is_err() || subject.role == Role::Again {
                continue;
            }
            of_subject.resize(updates.rates.len(), Vec::new());
            for (figures, &rate) in of_subject.iter_mut().zip(&updates.rates) {
                pace.progress(&format!("{}, {rate} updates a second", subject.name));
                match run(updates, rate, &config, work, rules, pace).context("updates beside readers") {
                    Ok(of_sitting) => figures.push(of_sitting),
                    Err(error) => {
                        subject.built = Err(error);
                        break;
                    }
                }
            }
        }
    }

    /// Returns the figures of each subject at each rate.
    pub(crate) fn summaries(self) -> Vec<Vec<[Summary; FIGURES.len()]>> {
        let of_rate = |sittings: Vec<[f64; FIGURES.len()]>| {
            let figures: Vec<Summary> = (0..FIGURES.len())
                .filter_map(|at| Summary::of(&sittings.iter().map(|figures| figures[at]).collect::<Vec<_>>()))
                .collect();
            figures.try_into().ok()
        };
        self.0.into_iter().map(|rates| rates.into_iter().filter_map(of_rate).collect()).collect()
    }
}

fn run(
    updates: &UnderUpdates,
    rate: u64,
    config: &live::Config,
    work: &Workload,
    rules: &RuleSet,
    pace: &Pace,
) -> anyhow::Result<[f64; FIGURES.len()]> {
    let (mut churn, set) = Churn::new(rules)?;
    let (engines, mut writer) = live::open(set, config)?;
    let engine = engines
        .iter()
        .find(|engine| Classifier::schema(*engine) == work.schema())
        .ok_or_else(|| anyhow!("it has no engine for this schema"))?;
    let (seconds, quiet) = if pace.brief { (0.2, QUIET / 20) } else { (updates.seconds, QUIET) };
    let until = |length: Duration| {
        let from = Instant::now();
        move || from.elapsed() >= length
    };
    let cores = cores();
    let alone = || {
        thread::scope(|scope| {
            let reader = scope.spawn(|| read(engine, &work.keys, updates.batch, cores[0], until(quiet)));
            reader.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    };
    let before = alone();
    let done = AtomicBool::new(false);
    let (outcome, beside) = thread::scope(|scope| {
        let reader = scope.spawn(|| read(engine, &work.keys, updates.batch, cores[0], || done.load(Ordering::Relaxed)));
        let (jobs, to_run) = channel();
        let (to_install, rebuilt) = channel();
        // The rebuilding thread and the writer both run on the writer's core.
        let writing = scope.spawn(|| {
            pin(cores[1]);
            let rebuilds = Rebuilds { jobs, rebuilt, count: 0 };
            write(engine, &mut writer, &mut churn, rate, Duration::from_secs_f64(seconds), rebuilds)
        });
        let core = cores[1];
        scope.spawn(move || rebuild(core, &to_run, &to_install));
        let outcome = writing.join().unwrap_or_else(|panic| resume_unwind(panic));
        done.store(true, Ordering::Relaxed);
        (outcome, reader.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let Written { count, wall, most, cap, rebuilds, mut commits } = outcome?;
    compare(engine, writer.rules(), work)?;
    let after = alone();
    commits.sort_unstable();
    let micros = |share: f64| {
        let at = (share * commits.len().saturating_sub(1) as f64) as usize;
        commits.get(at).map_or(f64::NAN, |nanos| f64::from(*nanos) / 1000.0)
    };
    let seconds = wall.as_secs_f64();
    Ok([
        count as f64 / seconds,
        after / beside,
        before,
        beside,
        after,
        most as f64,
        cap as f64,
        rebuilds as f64 / seconds,
        micros(0.5),
        micros(0.99),
        micros(0.999),
        micros(1.0),
    ])
}

/// Live rules and the others.
struct Churn {
    specs: Vec<RuleSpec>,
    live: Vec<(usize, RuleId)>,
    outside: Vec<usize>,
    random: Pcg64,
}

impl Churn {
    /// Creates the state with the set of the rules that are live at the start.
    fn new(rules: &RuleSet) -> anyhow::Result<(Self, RuleSet)> {
        let specs: Vec<RuleSpec> = rules.iter().map(|rule| rule.spec.clone()).collect();
        ensure!(specs.len() >= 2, "it has fewer than two rules");
        let mut random = Pcg64::seed_from_u64(1);
        let mut outside: Vec<usize> = (0..specs.len()).collect();
        outside.shuffle(&mut random);
        let mut inside = outside.split_off(specs.len() / 2);
        // In order, as from a file.
        inside.sort_unstable();
        let mut set = match rules.schemas() {
            [one] => RuleSet::new(one.clone()),
            [ipv4, ipv6, ..] => RuleSet::dual(ipv4.clone(), ipv6.clone()),
            [] => return Err(anyhow!("it has no schema")),
        };
        let live = inside.into_iter().map(|at| Ok((at, set.insert(specs[at].clone())?)));
        let live = live.collect::<anyhow::Result<Vec<_>>>()?;
        Ok((Self { specs, live, outside, random }, set))
    }

    /// Draws an update, commits it and returns the nanoseconds of the commit.
    ///
    /// The result is `None` if the commit is refused until a rebuild is installed; nothing has changed then.
    fn step(&mut self, writer: &mut Writer) -> anyhow::Result<Option<u32>> {
        let Self { specs, live, outside, random } = self;
        let inserts = (random.random::<bool>() || live.len() < 2) && !outside.is_empty();
        let mut transaction = writer.begin();
        let (at, id) = if inserts {
            let at = random.random_range(0..outside.len());
            (at, transaction.insert(specs[outside[at]].clone())?)
        } else {
            let at = random.random_range(0..live.len());
            transaction.remove(live[at].1)?;
            (at, live[at].1)
        };
        let start = Instant::now();
        let committed = transaction.commit();
        let nanos = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
        match committed {
            Err(error) if error.needs_rebuild() => return Ok(None),
            committed => committed.map(drop)?,
        }
        if inserts {
            live.push((outside.swap_remove(at), id));
        } else {
            outside.push(live.swap_remove(at).0);
        }
        Ok(Some(nanos))
    }
}

/// Channels to the thread that rebuilds.
struct Rebuilds {
    jobs: Sender<Work>,
    rebuilt: Receiver<Result<Rebuilt, BuildError>>,
    count: usize,
}

/// Work for that thread.
enum Work {
    Run(Box<RebuildJob>),
    Drop(Box<Retired>),
}

impl Rebuilds {
    /// Installs a finished rebuild, and begins one that is due.
    fn look(&mut self, writer: &mut Writer) -> anyhow::Result<()> {
        let gone = || anyhow!("the thread that rebuilds is gone");
        if let Ok(rebuilt) = self.rebuilt.try_recv() {
            match writer.install(rebuilt?) {
                Ok(retired) => {
                    self.jobs.send(Work::Drop(Box::new(retired))).map_err(|_| gone())?;
                    self.count += 1;
                }
                // The new overlay has no room for the backlog; the next rebuild starts from the changed rules.
                Err(error) if error.needs_rebuild() => {}
                Err(error) => return Err(error.into()),
            }
        }
        if writer.rebuild_is_due() {
            self.jobs.send(Work::Run(Box::new(writer.begin_rebuild()))).map_err(|_| gone())?;
        }
        Ok(())
    }
}

fn rebuild(core: Option<usize>, work: &Receiver<Work>, to_install: &Sender<Result<Rebuilt, BuildError>>) {
    pin(core);
    for work in work {
        match work {
            Work::Run(job) => {
                if to_install.send(job.run()).is_err() {
                    return;
                }
            }
            Work::Drop(retired) => drop(retired),
        }
    }
}

/// Results of the writer.
struct Written {
    count: u64,
    wall: Duration,
    /// Most rules in the overlay, read once per stride.
    most: usize,
    cap: usize,
    rebuilds: usize,
    /// Nanoseconds of each commit.
    commits: Vec<u32>,
}

/// Makes updates at `rate` per second, or as many as possible if it is 0.
fn write(
    engine: &Engine,
    writer: &mut Writer,
    churn: &mut Churn,
    rate: u64,
    length: Duration,
    mut rebuilds: Rebuilds,
) -> anyhow::Result<Written> {
    let (mut count, mut most, mut commits) = (0, 0, Vec::new());
    let cap = engine.overlay().1;
    let start = Instant::now();
    while start.elapsed() < length {
        rebuilds.look(writer)?;
        if rate > 0 && count as f64 > start.elapsed().as_secs_f64() * rate as f64 {
            thread::sleep(Duration::from_micros(50));
            continue;
        }
        let before = commits.len();
        let (outcome, taken) = timed(|| -> anyhow::Result<()> {
            for _ in 0..STRIDE {
                let Some(nanos) = churn.step(writer)? else { break };
                commits.push(nanos);
            }
            Ok(())
        });
        outcome?;
        let done = commits.len() - before;
        count += done as u64;
        most = most.max(engine.overlay().0);
        if taken.wall.saturating_sub(taken.cpu) > OFF {
            commits.truncate(before);
        }
        if done == 0 {
            thread::yield_now();
        }
    }
    Ok(Written { count, wall: start.elapsed(), most, cap, rebuilds: rebuilds.count, commits })
}

/// Looks up until `done`; returns CPU nanoseconds per key.
fn read(engine: &Engine, keys: &KeyBuf, batch: usize, core: Option<usize>, done: impl Fn() -> bool) -> f64 {
    pin(core);
    let mut scratch = engine.scratch();
    let mut answers = vec![None; batch.min(keys.len())];
    let (mut from, mut count) = (0, 0);
    let start = cpu_time();
    while !done() {
        for _ in 0..STRIDE {
            let to = keys.len().min(from + answers.len());
            engine.classify_batch(&mut scratch, keys.keys().slice(from, to), &mut answers[..to - from]);
            count += to - from;
            from = if to == keys.len() { 0 } else { to };
        }
    }
    cpu_time().saturating_sub(start).as_nanos() as f64 / count as f64
}

/// Returns the cores of the reader and of the writer; `None` if there are not two.
fn cores() -> [Option<usize>; 2] {
    let Ok(set) = sched_getaffinity(None) else { return [None; 2] };
    let mut free = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core));
    let (first, second) = (free.next(), free.next());
    if second.is_some() { [first, second] } else { [None; 2] }
}

/// Pins this thread to a core; if that fails, the thread runs on any core.
fn pin(core: Option<usize>) {
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core);
        let _elsewhere = sched_setaffinity(None, &set);
    }
}

#[cfg(test)]
mod tests {
    use firstmatch_generate::rules;
    use firstmatch_generate::trace;
    use indicatif::ProgressBar;

    use super::*;
    use crate::workload;

    /// A small overlay forces rebuilds beside readers; the answers are compared at the end.
    #[test]
    fn rules_change_beside_readers() {
        let set = rules::generate(&rules::Config { rules: 2000, seed: 3, ..Default::default() }).expect("rules");
        let work =
            workload::drawn(&set, &trace::Config { headers: 5000, seed: 4, ..Default::default() }).expect("keys");
        let updates = UnderUpdates { rates: Vec::new(), seconds: 0.0, batch: 32 };
        let pace = Pace { brief: true, bar: ProgressBar::hidden() };
        // With 0 in place, every insertion goes to the overlay.
        for (rate, in_place) in [(0, Some(0)), (20_000, Some(0)), (0, None), (20_000, None)] {
            let config = live::Config { overlay: Some(64), in_place, seed: Some(1), ..Default::default() };
            let figures = run(&updates, rate, &config, &work, &set, &pace).expect("right answers");
            let [count, share, before, beside, after, most, cap, ..] = figures;
            assert!(count > 0.0 && before > 0.0 && (share - after / beside).abs() < 1e-9, "{figures:?}");
            assert!((most > 0.0 || in_place.is_none()) && most <= cap && cap == 64.0, "{figures:?}");
        }
    }
}
