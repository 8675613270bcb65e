//! Systems: arrangements of threads over the engine of one address family.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use firstmatch_core::Classifier;
use firstmatch_core::cache::rule::{self, BoxUpdater};
use firstmatch_core::engines::interval_tree::Npf;
use firstmatch_core::engines::registry::{Entry, Settings};
use firstmatch_core::engines::rfc::{self, Rfc};
use firstmatch_core::rule::Lowered;
use firstmatch_net::plane::{Dispatch, Link, Message, Plane, PlaneBuilder};
use firstmatch_net::systems::pnpf::QueueController;
use firstmatch_net::systems::rfc::Cut;
use firstmatch_net::systems::shared::SharedBoxes;
use firstmatch_net::systems::storm::SplitMessage;
use firstmatch_net::systems::{self, LookupView, Step, chain, pnpf};

use crate::args::{System, Threads};
use crate::engines;

/// Pause of an updater of boxes after each round, so that it leaves the core to workers where there are few.
const PAUSE: Duration = Duration::from_micros(50);

/// Running plane with what is read of it beside its counters.
pub(crate) struct Running<T: Message> {
    pub(crate) plane: Plane<T>,
    pub(crate) boxes: Option<Arc<SharedBoxes>>,
}

/// Engine of a system: one whose steps are public, or any.
pub(crate) enum Engines {
    Npf(Arc<Npf>),
    Rfc(Arc<Rfc>),
    Any(Arc<dyn Classifier>),
}

impl Engines {
    /// Builds the engine for the rules of one family.
    pub(crate) fn build(
        system: System,
        (engine, settings): (&Entry, &Settings),
        lowered: &Lowered,
    ) -> anyhow::Result<Self> {
        let failed = || format!("the engine {}", engine.name);
        match (system, engine.name) {
            (System::Pnpf, "npf") => Ok(Self::Npf(Arc::new(Npf::build_by(lowered, settings).with_context(failed)?))),
            (System::Rfc, name @ ("rfc" | "bitmap_rfc")) => {
                let config = if name == "rfc" { rfc::Config::default() } else { rfc::Config::bitmap() };
                Ok(Self::Rfc(Arc::new(Rfc::build_by(lowered, settings, config).with_context(failed)?)))
            }
            (System::Pnpf | System::Rfc, name) => {
                let own = if system == System::Pnpf { "npf" } else { "rfc or bitmap_rfc" };
                bail!("the system {} is of the engine {own}, and --engine {name} was asked for", system.name())
            }
            _ => {
                let built = engines::alone(engine, settings, lowered).with_context(failed)?;
                Ok(Self::Any(built.into()))
            }
        }
    }

    /// Returns the whole lookup.
    pub(crate) fn whole(&self) -> Arc<dyn Classifier> {
        match self {
            Self::Npf(engine) => Arc::<Npf>::clone(engine),
            Self::Rfc(engine) => Arc::<Rfc>::clone(engine),
            Self::Any(engine) => Arc::clone(engine),
        }
    }

    /// Starts the plane of a system.
    ///
    /// Messages need as many words for each packet as [`Engines::width`] says.
    pub(crate) fn start<T: SplitMessage>(
        &self,
        system: System,
        threads: &[usize],
        batch: usize,
        lowered: &Lowered,
    ) -> anyhow::Result<Running<T>> {
        let mut builder = PlaneBuilder::new();
        let link = Link::new().dispatch(Dispatch::RoundRobin);
        let mut controlled = None;
        match (system, self) {
            (System::Pnpf, Self::Npf(engine)) => {
                let mut config = pnpf::Config::paper();
                (config.rows, config.word, config.decide) = (threads[0], threads[1], threads[2]);
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
                let cut = if threads.len() == 2 { Cut::Phases } else { Cut::Reads };
                let stages = chain(&mut builder, &systems::rfc::steps(engine, cut), threads, link);
                builder.enter(stages[0], link).leave(stages[stages.len() - 1], link);
            }
            (System::Storm | System::Shared, _) => {
                let updater = BoxUpdater::over(self.whole(), lowered, &rule::Config::default())?;
                let boxes = SharedBoxes::new(updater, threads[0]);
                let plane = systems::plane(self.whole(), Some(&boxes), &threads[..threads.len() - 1], batch, PAUSE)?;
                return Ok(Running { plane, boxes: Some(boxes) });
            }
            _ => {
                let plane = systems::plane(self.whole(), None, threads, batch, PAUSE)?;
                return Ok(Running { plane, boxes: None });
            }
        }
        let mut plane = builder.start()?;
        if let Some((stages, config)) = controlled {
            let controller = QueueController::start(&stages, config.scaling, plane.control());
            plane.control_by(config.period, controller)?;
        }
        Ok(Running { plane, boxes: None })
    }

    /// Returns the number of words that the steps pass on for each packet.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Npf(engine) => pnpf::width(engine),
            Self::Rfc(engine) => engine.width(),
            Self::Any(_) => 0,
        }
    }
}

/// Returns the threads of each stage: those that were asked for, or one each.
pub(crate) fn threads(system: System, asked: Option<&Threads>, lowered: &Lowered) -> anyhow::Result<Vec<usize>> {
    let (form, lengths, default): (_, &[usize], &[usize]) = match system {
        System::Copies => ("N threads of whole lookups", &[1], &[2]),
        System::Shared => ("N threads of whole lookups, and 1 for the boxes, as 2-1", &[2], &[1, 1]),
        System::Storm => ("threads of boxes, of whole lookups, and 1 for the boxes, as 4-2-1", &[3], &[1, 1, 1]),
        System::Pnpf => ("threads of rows, of each word, and of decisions, as 1-3-1", &[3], &[1, 1, 1]),
        System::Rfc => ("threads of two or three stages, as 1-1", &[2, 3], &[1, 1]),
    };
    let asked = asked.map_or(default, |threads| &threads.0);
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
