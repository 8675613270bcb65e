//! Subjects of a measurement: engines and yardsticks, built.

use anyhow::{anyhow, ensure};
use firstmatch_core::{Classifier, KeyBuf, Match, Stats};

use super::replay::{self, FromFrames, Rows};
use super::round::{Cell, Round};
use crate::clock::{Taken, timed};
use crate::definition;
use crate::engines::Recipe;
use crate::memory::{Counted, counted};
use crate::statistics::Summary;
use crate::workload::{Source, Workload};
#[cfg(feature = "rte-acl")]
use crate::yardstick::rte_acl;
use crate::yardstick::{LimitRun, limit};

/// Role of a subject in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// First engine of the definition; [`Role::Again`] is its second build, for the noise floor.
    First,
    Again,
    Engine,
    /// Yardsticks.
    Limit,
    Linear,
    RteAcl,
    /// Line of `rte_acl` over a second table of the same rules, for the noise floor of that line.
    #[cfg_attr(not(any(test, feature = "rte-acl")), expect(dead_code, reason = "only the feature makes it"))]
    RteAclAgain,
}

/// Engine in one configuration, with its build.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) built: anyhow::Result<Built>,
    /// Constructors; `None` for a yardstick that has none.
    pub(crate) recipe: Option<Recipe>,
}

/// Result and costs of a build.
pub(crate) struct Built {
    form: Form,
    pub(crate) stats: Stats,
    /// CPU seconds of the builds.
    pub(crate) seconds: Summary,
    pub(crate) run_bytes: usize,
    /// Bytes of scratch for each thread that looks up.
    pub(crate) scratch_bytes: usize,
    pub(crate) peak_bytes: usize,
}

enum Form {
    Rows(Box<dyn Classifier>),
    Limit(LimitRun),
    #[cfg(feature = "rte-acl")]
    RteAcl(rte_acl::RteAcl),
}

/// Most seconds of repeated builds, which give a median.
const BUILD_SECONDS: f64 = 1.0;
const MOST_BUILDS: usize = 5;
/// Subjects that are built faster than this, in seconds, are built anew for every round.
const QUICK_SECONDS: f64 = 0.1;

impl Subject {
    /// Builds all engines of a definition, the first twice, and the yardsticks.
    pub(crate) fn all(definition: &definition::Definition, work: &Workload, right: &[Option<Match>]) -> Vec<Self> {
        let mut all = Vec::new();
        for (index, engine) in definition.engines.iter().enumerate() {
            let role = match (index, engine.engine.as_str()) {
                (0, _) => Role::First,
                (_, "linear") if engine.is_plain() => Role::Linear,
                _ => Role::Engine,
            };
            all.push(Self::engine(engine.name().to_owned(), role, engine, work));
            if index == 0 {
                all.push(Self::engine(format!("{} again", engine.name()), Role::Again, engine, work));
            }
        }
        all.push(Self::limit(work, right));
        if !all.iter().any(|subject| subject.role == Role::Linear) {
            let linear = definition::Engine::plain("linear");
            all.push(Self::engine("linear".to_owned(), Role::Linear, &linear, work));
        }
        all
    }

    fn engine(name: String, role: Role, engine: &definition::Engine, work: &Workload) -> Self {
        let recipe = match engine.recipe() {
            Ok(recipe) => recipe,
            Err(error) => return Self { name, role, built: Err(error), recipe: None },
        };
        let built = build(|| (recipe.build)(&work.lowered)).map_err(Into::into).map(|(engine, seconds, memory)| {
            let (_, scratch) = counted(|| engine.scratch());
            Built {
                stats: engine.stats(),
                form: Form::Rows(engine),
                seconds,
                run_bytes: memory.kept,
                scratch_bytes: scratch.kept,
                peak_bytes: memory.peak,
            }
        });
        Self { name, role, built, recipe: Some(recipe) }
    }

    fn limit(work: &Workload, right: &[Option<Match>]) -> Self {
        let (run, taken) = timed(|| limit(&work.lowered, right));
        let none = || anyhow!("keys of {} words are beyond it", work.schema().words().len());
        let built = run.ok_or_else(none).map(|run| {
            let stats = run.table.stats();
            let bytes = stats.total_bytes();
            let seconds = Summary::exactly(taken.cpu.as_secs_f64());
            Built { form: Form::Limit(run), stats, seconds, run_bytes: bytes, scratch_bytes: 0, peak_bytes: bytes }
        });
        Self { name: "limit".to_owned(), role: Role::Limit, built, recipe: None }
    }

    /// Builds the engine anew if that is quick, so that its place in memory varies by round.
    pub(crate) fn move_elsewhere(&mut self, work: &Workload) {
        if let (Ok(built), Some(recipe)) = (&mut self.built, &self.recipe)
            && built.seconds.median < QUICK_SECONDS
            && let Ok(engine) = (recipe.build)(&work.lowered)
        {
            built.form = Form::Rows(engine);
        }
    }

    /// Returns the lines of `rte_acl` for a workload, with notes about them; none in a build without it.
    #[cfg(feature = "rte-acl")]
    pub(crate) fn rte_acl(source: &Source<'_>, work: &Workload) -> (Vec<Self>, Vec<String>) {
        let (lines, notes) = rte_acl::lines(source, work);
        let subject = |line: rte_acl::Line| {
            let built = line.acl.map(|acl| {
                let figures = acl.figures();
                Built {
                    stats: firstmatch_core::Engine::stats(&acl),
                    form: Form::RteAcl(acl),
                    seconds: Summary::exactly(figures.seconds),
                    run_bytes: figures.run_bytes,
                    scratch_bytes: 0,
                    peak_bytes: figures.peak_bytes,
                }
            });
            let role = if line.is_again { Role::RteAclAgain } else { Role::RteAcl };
            Self { name: line.name, role, built, recipe: None }
        };
        (lines.into_iter().map(subject).collect(), notes)
    }

    /// Returns the lines of `rte_acl`: none in this build.
    #[cfg(not(feature = "rte-acl"))]
    pub(crate) fn rte_acl(_source: &Source<'_>, _work: &Workload) -> (Vec<Self>, Vec<String>) {
        Default::default()
    }
}

/// Builds an engine a few times; returns the times of all builds and the memory of the last.
fn build<T, E>(make: impl Fn() -> Result<T, E>) -> Result<(T, Summary, Counted), E> {
    let mut seconds = Vec::new();
    loop {
        let ((made, taken), memory) = counted(|| timed(&make));
        let made = made?;
        seconds.push(taken.cpu.as_secs_f64());
        if let Some(summary) = Summary::of(&seconds)
            && (seconds.len() == MOST_BUILDS || seconds.iter().sum::<f64>() + summary.max > BUILD_SECONDS)
        {
            return Ok((made, summary, memory));
        }
    }
}

impl Built {
    /// Returns the keys and answers of a round that replace the trace's, for `limit`.
    pub(crate) fn limit_keys(&self) -> Option<(&KeyBuf, &[Option<Match>])> {
        match &self.form {
            Form::Limit(run) => Some((&run.keys, &run.answers)),
            _ => None,
        }
    }

    /// Makes one pass over keys of a round and compares the answers.
    pub(crate) fn pass(&self, round: &Round, cell: Cell, from: usize, to: usize) -> anyhow::Result<Taken> {
        self.with_replay(round, cell, from, to, |replay, count| match cell {
            Cell::Batch(batch) | Cell::Frames(batch) => (replay::Run::batched(replay, count, batch), false),
            Cell::Dependent => (replay::Run::dependent(replay, count), true),
        })
    }

    /// Returns whether the subject has figures of a cell.
    ///
    /// `limit` has no figures from frames, because its keys are replaced by entries of its table.
    pub(crate) fn takes(&self, cell: Cell) -> bool {
        !matches!((&self.form, cell), (Form::Limit(_), Cell::Frames(_)))
    }

    /// Returns the latencies of the batches of a pass, in nanoseconds.
    pub(crate) fn latencies(&self, round: &Round, batch: usize, from: usize, to: usize) -> anyhow::Result<Vec<f64>> {
        let cell = Cell::Batch(batch);
        self.with_replay(round, cell, from, to, |replay, count| (replay::Run::latencies(replay, count, batch), false))
    }

    /// Runs `run` on a replay over keys or frames of a round, then compares the answers.
    ///
    /// It compares all answers, or those on the path of dependent lookups.
    fn with_replay<T>(
        &self,
        round: &Round,
        cell: Cell,
        from: usize,
        to: usize,
        run: impl FnOnce(&mut dyn replay::Run, usize) -> (T, bool),
    ) -> anyhow::Result<T> {
        let (keys, right) = round.of(self.limit_keys().is_some());
        let (keys, right) = (keys.slice(from, to), &right[from..to]);
        let frames = round.frames().filter(|_| matches!(cell, Cell::Frames(_)));
        let (out, on_path, answers) = match (&self.form, frames) {
            (Form::Rows(classifier), Some(frames)) => {
                let mut replay = FromFrames::new(&**classifier, round.schema(), &frames.all[from..to], &frames.config)?;
                let (out, on_path) = run(&mut replay, to - from);
                (out, on_path, replay.answers)
            }
            #[cfg(feature = "rte-acl")]
            (Form::RteAcl(acl), Some(frames)) => {
                let mut replay = acl.replay_frames(&frames.all[from..to])?;
                let (out, on_path) = run(&mut replay, to - from);
                (out, on_path, replay.answers())
            }
            (Form::Rows(classifier), None) => rows(&**classifier, keys, run),
            (Form::Limit(limit), _) => rows(&*limit.table, keys, run),
            #[cfg(feature = "rte-acl")]
            (Form::RteAcl(acl), None) => {
                let mut replay = acl.replay(keys);
                let (out, on_path) = run(&mut replay, keys.len());
                (out, on_path, replay.answers())
            }
        };
        let wrong = match on_path {
            false => (0..right.len()).find(|&at| answers[at] != right[at]),
            true => replay::path(right, right.len()).find(|&at| answers[at] != right[at]),
        };
        ensure!(wrong.is_none(), wrong.map_or(String::new(), |at| describe(answers[at], right[at])));
        Ok(out)
    }
}

fn rows<T>(
    classifier: &dyn Classifier,
    keys: firstmatch_core::Keys<'_>,
    run: impl FnOnce(&mut dyn replay::Run, usize) -> (T, bool),
) -> (T, bool, Vec<Option<Match>>) {
    let mut replay = Rows::new(classifier, keys);
    let (out, on_path) = run(&mut replay, keys.len());
    (out, on_path, replay.answers)
}

fn describe(answer: Option<Match>, right: Option<Match>) -> String {
    let rule = |answer: Option<Match>| answer.map_or("no rule".to_owned(), |found| format!("rule {}", found.rule));
    format!("a wrong answer: {}, where {} is right", rule(answer), rule(right))
}
