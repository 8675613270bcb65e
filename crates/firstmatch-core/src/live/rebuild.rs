//! Rebuilds: begun by the writer, run on any thread, installed by the writer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::build::new_part;
use super::config::Config;
use super::log::{Changes, changed};
use super::snapshot::{Part, State};
use super::store::Store;
use crate::engine::tombstones::marks_bytes;
use crate::error::{BuildError, UpdateError};
use crate::rule::Regions;
use crate::select::choice::Before;

/// Rebuild that has been begun: new bases, to be built from the rules of one generation.
///
/// It owns all that it needs, so any thread may run it.
///
/// ```
/// use firstmatch_core::live::{self, Config};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let (_, mut writer) = live::open(rules, &Config::default())?;
/// let job = writer.begin_rebuild();
/// let rebuilt = std::thread::spawn(|| job.run()).join().expect("no panic")?; // beside commits and lookups
/// let retired = writer.install(rebuilt)?;
/// drop(retired); // frees the old base
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is rebuilt until it is run and installed"]
pub struct RebuildJob {
    pub(super) feed: Arc<Feed>,
    pub(super) config: Config,
    pub(super) sources: Vec<Source>,
    /// Bytes taken by everything except the bases, their tombstones and their filters.
    pub(super) reserved: usize,
}

/// New bases with tombstones and overlays, for the writer that began the rebuild to install.
#[derive(Debug)]
#[must_use = "nothing changes until it is installed"]
pub struct Rebuilt {
    pub(super) feed: Arc<Feed>,
    pub(super) parts: Vec<Option<Renewed>>,
    /// Number of pieces of the feed that the new bases have caught up with.
    pub(super) caught_up: usize,
    /// Rules that the bases were built from.
    pub(super) sources: Vec<Source>,
}

/// Bases and overlays that a rebuild has replaced.
///
/// Dropping it frees their memory. That takes a while, and any thread may do it.
#[derive(Debug, Default)]
pub struct Retired {
    pub(super) epoch: u64,
    pub(super) _parts: Vec<Renewed>,
    pub(super) _sources: Vec<Source>,
    pub(super) _states: Vec<State>,
}

impl Retired {
    /// Number of rebuilds installed so far, this one included.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// Error: a rebuild was not installed, with the reason.
///
/// It hands back the rebuild if that can be installed later.
#[derive(Debug)]
pub struct InstallError {
    pub(super) error: UpdateError,
    pub(super) rebuilt: Option<Box<Rebuilt>>,
}

impl InstallError {
    /// Returns the reason.
    pub fn error(&self) -> &UpdateError {
        &self.error
    }

    /// Returns the rebuild; `None` if it cannot be installed any more.
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

/// New part of both replicas, and the rules of its base.
#[derive(Debug)]
pub(super) struct Renewed {
    pub(super) copies: [Part; 2],
    pub(super) store: Arc<Store>,
}

/// Rules of one schema when the rebuild was begun.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) before: Before,
    pub(super) store: Arc<Store>,
    pub(super) changes: Vec<Arc<Changes>>,
    /// Bytes of the part without its overlays, if its rules are unchanged.
    pub(super) unchanged: Option<usize>,
}

/// Pieces of changes committed since the rebuild was begun, until the rebuild takes them.
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
    /// Builds the new bases and applies to them the changes that are committed meanwhile.
    ///
    /// This is nearly all of the work of a rebuild, and it touches neither the writer nor the readers.
    ///
    /// # Errors
    /// If no base fits the budget any more. The rules stay as they are, and the job is gone.
    pub fn run(self) -> Result<Rebuilt, BuildError> {
        let Self { feed, config, sources, mut reserved } = self;
        reserved += sources.iter().filter_map(|source| source.unchanged).sum::<usize>();
        let mut parts = Vec::with_capacity(sources.len());
        for (number, source) in sources.iter().enumerate() {
            if source.unchanged.is_some() {
                parts.push(None);
                continue;
            }
            let changes: Vec<&Changes> = source.changes.iter().map(|piece| &**piece).collect();
            let store = changed(&source.store.set, &changes, number);
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
        let renew = |(part, store): (Part, Store)| Renewed { copies: [part.clone(), part], store: Arc::new(store) };
        let parts = parts.into_iter().map(|part| part.map(renew)).collect();
        Ok(Rebuilt { feed, parts, caught_up, sources })
    }
}

/// Applies `changes` to replicas of a part whose base was built before them.
pub(super) fn catch_up(
    copies: &mut [&mut Part],
    store: &Store,
    changes: &Changes,
    number: usize,
) -> Result<(), BuildError> {
    let mut regions = Regions::new(store.set.schema().words().len());
    for at in 0..changes.len() {
        let (rule, inserted) = changes.get(at, number, &mut regions);
        for part in &mut *copies {
            part.change(rule, inserted, store).map_err(|error| error.into_build_error(rule.rule))?;
        }
    }
    Ok(())
}

/// Rebuild that has been begun, as the writer remembers it.
#[derive(Debug)]
pub(super) struct Running {
    /// Feed of the job; gone when both the job and its result are dropped.
    feed: Weak<Feed>,
    /// Number of pieces of the log when the rebuild was begun.
    pub(super) pieces: usize,
}

impl Running {
    pub(super) fn new(feed: &Arc<Feed>, pieces: usize) -> Self {
        Self { feed: Arc::downgrade(feed), pieces }
    }

    pub(super) fn feed(&self) -> Option<Arc<Feed>> {
        self.feed.upgrade()
    }

    pub(super) fn is_live(&self) -> bool {
        self.feed.strong_count() > 0
    }

    pub(super) fn is_of(&self, rebuilt: &Rebuilt) -> bool {
        std::ptr::eq(self.feed.as_ptr(), Arc::as_ptr(&rebuilt.feed))
    }
}
