//! Rebuilds: begun by the writer, run wherever the caller likes, installed by the writer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Config;
use super::change::{marks_bytes, new_part};
use super::changes::{Changes, changed};
use super::choose::Before;
use super::state::{Part, State};
use super::store::Store;
use crate::error::{BuildError, UpdateError};
use crate::rule::Regions;

/// New bases to be built from the rules of one generation. It holds all it needs, so any thread may run it.
#[derive(Debug)]
#[must_use = "nothing is rebuilt until it is run and installed"]
pub struct RebuildJob {
    pub(super) feed: Arc<Feed>,
    pub(super) config: Config,
    pub(super) sources: Vec<Source>,
    /// Bytes that all but the bases, their marks and filters take.
    pub(super) reserved: usize,
}

/// New bases with their marks and overlays, to be installed by the writer that began the rebuild.
#[derive(Debug)]
#[must_use = "nothing changes until it is installed"]
pub struct Rebuilt {
    pub(super) feed: Arc<Feed>,
    pub(super) parts: Vec<Option<Renewed>>,
    /// How many pieces of what has changed since they have.
    pub(super) caught_up: usize,
    /// What they were made from.
    pub(super) sources: Vec<Source>,
}

/// What a rebuild has replaced. To drop it gives back the memory of old bases and overlays: a matter of milliseconds, on
/// whatever thread.
#[derive(Debug, Default)]
pub struct Retired {
    pub(super) epoch: u64,
    pub(super) _parts: Vec<Renewed>,
    pub(super) _sources: Vec<Source>,
    pub(super) _states: Vec<State>,
}

impl Retired {
    /// How many rebuilds there have been.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// Says why a rebuild was not installed, with the rebuild where it may be later.
#[derive(Debug)]
pub struct InstallError {
    pub(super) error: UpdateError,
    pub(super) rebuilt: Option<Box<Rebuilt>>,
}

impl InstallError {
    /// Returns why it was not installed.
    pub fn error(&self) -> &UpdateError {
        &self.error
    }

    /// Returns what was to be installed; `None` where it cannot be any more.
    pub fn into_rebuilt(self) -> Option<Rebuilt> {
        self.rebuilt.map(|rebuilt| *rebuilt)
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for InstallError {}

/// A part for both copies, and the rules of its base.
#[derive(Debug)]
pub(super) struct Renewed {
    pub(super) copies: [Part; 2],
    pub(super) store: Arc<Store>,
}

/// The rules of one schema when the rebuild was begun.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) before: Before,
    pub(super) store: Arc<Store>,
    pub(super) changes: Vec<Arc<Changes>>,
    /// Bytes of the part, overlays not counted, where nothing has changed.
    pub(super) unchanged: Option<usize>,
}

/// What has changed since the rebuild was begun, in pieces, until it has taken them.
#[derive(Debug, Default)]
pub(super) struct Feed(Mutex<Vec<Arc<Changes>>>);

impl Feed {
    pub(super) fn put(&self, pieces: &[Arc<Changes>]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(pieces);
    }

    fn take(&self) -> Vec<Arc<Changes>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RebuildJob {
    /// Builds the new bases and does to them what changes meanwhile: all of the work, and nothing of it touches the writer
    /// or the readers.
    ///
    /// # Errors
    /// When no base fits the budget any more. The rules stay as they are, and the job is gone.
    pub fn run(self) -> Result<Rebuilt, BuildError> {
        let Self { feed, config, sources, mut reserved } = self;
        reserved += sources.iter().filter_map(|source| source.unchanged).sum::<usize>();
        let mut parts = Vec::with_capacity(sources.len());
        for (number, source) in sources.iter().enumerate() {
            if source.unchanged.is_some() {
                parts.push(None);
                continue;
            }
            let store = changed(&source.store.set, &source.changes, number);
            reserved += 2 * marks_bytes(&store);
            let part = new_part(&store, &config, &mut reserved, Some(&source.before))?;
            parts.push(Some((part, Store::new(store))));
        }
        let mut caught_up = 0;
        loop {
            let pieces = feed.take();
            if pieces.is_empty() {
                break;
            }
            caught_up += pieces.len();
            for (number, part) in parts.iter_mut().enumerate() {
                if let Some((part, store)) = part {
                    pieces.iter().try_for_each(|piece| catch_up(&mut [part], store, piece, number))?;
                }
            }
        }
        let renew = |(mut part, store): (Part, Store)| {
            part.leads_none();
            Renewed { copies: [part.clone(), part], store: Arc::new(store) }
        };
        let parts = parts.into_iter().map(|part| part.map(renew)).collect();
        Ok(Rebuilt { feed, parts, caught_up, sources })
    }
}

/// Does to copies of a part what has changed since its base was built.
pub(super) fn catch_up(
    copies: &mut [&mut Part],
    store: &Store,
    changes: &Changes,
    number: usize,
) -> Result<(), BuildError> {
    let mut regions = Regions::new(store.set.schema().lanes().len());
    for at in 0..changes.len() {
        let (rule, inserted) = changes.get(at, number, &mut regions);
        for part in &mut *copies {
            part.change(rule, inserted, store).map_err(|error| error.into_build_error(rule.rule))?;
        }
    }
    Ok(())
}

/// A rebuild that has been begun.
#[derive(Debug)]
pub(super) struct Running {
    /// Of the job, as long as there is one or what it has made.
    feed: Weak<Feed>,
    /// How many pieces of the log it was begun with.
    pub(super) pieces: usize,
}

impl Running {
    pub(super) fn new(feed: &Arc<Feed>, pieces: usize) -> Self {
        Self { feed: Arc::downgrade(feed), pieces }
    }

    pub(super) fn feed(&self) -> Option<Arc<Feed>> {
        self.feed.upgrade()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.feed.strong_count() > 0
    }

    pub(super) fn is_of(&self, rebuilt: &Rebuilt) -> bool {
        std::ptr::eq(self.feed.as_ptr(), Arc::as_ptr(&rebuilt.feed))
    }
}
