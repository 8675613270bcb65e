//! Engine of the caller's choice that answers before the base.

use std::fmt;
use std::sync::Arc;

use super::left_right::ARC;
use crate::engine::entry::{Entry, Settings};
use crate::engine::{Classifier, Match, NamedCounts, Scratch, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::Lowered;
use crate::select::Limits;

/// Engine that answers first, over the rules that the base has.
///
/// A front is built anew with each base, and stays as it was built in between. Insertions go to the overlay and
/// removals leave tombstones, as beside any base that does not change in place. A key whose answer has a tombstone is
/// looked up in the base. So any engine serves rules that change: one of the
/// [registry](crate::engines::registry::ENGINES), one behind a [cache](crate::cache), or one of the caller's own.
///
/// If it has no room or cannot be built for rules that have changed, the base answers alone until a later rebuild can build it again.
///
/// The first batch of a reader after a rebuild builds a new scratch if the old one no longer fits. Only that allocates.
///
/// ```
/// use firstmatch_core::engines::registry::ENGINES;
/// use firstmatch_core::live::{self, Config, Front};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let hypercuts = ENGINES.iter().find(|entry| entry.name == "hypercuts").expect("it is there");
/// let config = Config { front: Some(Front::of(hypercuts, &[])), ..Config::default() };
/// let (engines, mut writer) = live::open(rules, &config)?;
/// let first = writer.rules().iter().next().expect("two rules").id;
/// let mut transaction = writer.begin();
/// transaction.remove(first)?; // beside readers
/// transaction.commit()?;
/// assert_eq!(engines[0].explain().front.map(|(name, _)| name), Some("hypercuts"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Front {
    name: &'static str,
    build: Arc<Build>,
}

type Build = dyn Fn(&Lowered, &Settings) -> Result<Box<dyn Classifier>, BuildError> + Send + Sync;

impl Front {
    /// Returns a front that `build` makes from rules.
    ///
    /// The settings have the budget that is left, instruction set, seed, bytes and visits of the build from the
    /// [configuration](super::Config), and no options. The engine must be for the schema of the rules, and its answers
    /// must not change, because it is not told of changes.
    pub fn new(
        name: &'static str,
        build: impl Fn(&Lowered, &Settings) -> Result<Box<dyn Classifier>, BuildError> + Send + Sync + 'static,
    ) -> Self {
        Self { name, build: Arc::new(build) }
    }

    /// Returns an engine that is known by name as a front, with values of its own options.
    pub fn of(entry: &Entry, options: &[(String, String)]) -> Self {
        let (build, options) = (entry.build, options.to_vec());
        Self::new(entry.name, move |rules, settings| {
            build(rules, &Settings { options: options.clone(), ..settings.clone() })
        })
    }

    /// Builds the engine under `limits`; its budget has room for the struct around it, too.
    pub(super) fn build(
        &self,
        set: &Lowered,
        mut settings: Settings,
        limits: &Limits,
    ) -> Result<FrontEngine, BuildError> {
        let (needed, run_bytes) = (FrontEngine::OWN_BYTES, settings.budget.run_bytes);
        settings.budget.run_bytes =
            run_bytes.checked_sub(needed).ok_or_else(|| BuildError::bytes(needed, run_bytes))?;
        settings.visits = limits.build_visits;
        settings.build_bytes = limits.build_bytes;
        let engine = (self.build)(set, &settings)?;
        if engine.schema() != set.schema() {
            return Err(BuildError::refused(format!("the engine {} is for other fields than the rules", self.name)));
        }
        let mut stats = engine.stats();
        stats.bytes.shrink_to_fit();
        stats.counts = NamedCounts::default();
        let kept = limits.check(stats.worst_lines, stats.worst_tests);
        kept.map_err(|(cap, needed, allowed)| BuildError::limit(cap, needed, allowed))?;
        let front = FrontEngine { name: self.name, engine, stats };
        let bytes = front.bytes();
        if bytes > run_bytes { Err(BuildError::bytes(bytes, run_bytes)) } else { Ok(front) }
    }
}

/// Shows the name.
impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Front").field(&self.name).finish()
    }
}

/// Front that has been built, for both replicas and for queries.
#[derive(Debug)]
pub(super) struct FrontEngine {
    name: &'static str,
    engine: Box<dyn Classifier>,
    /// Statistics of the engine, which stay the same and may take long to compute.
    stats: Stats,
}

impl FrontEngine {
    /// Bytes of the struct behind an `Arc`.
    const OWN_BYTES: usize = ARC + size_of::<Self>();

    pub(super) fn scratch(&self) -> Scratch {
        self.engine.scratch()
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the statistics of the engine, without open counts.
    pub(super) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Improves every key over the rules that the engine was built from.
    #[inline]
    pub(super) fn improve(&self, scratch: &mut Option<Scratch>, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.engine.improve_batch(scratch.get_or_insert_with(|| self.engine.scratch()), keys, best);
    }

    /// Improves every key in the same way, and returns the steps that this took.
    pub(super) fn count(
        &self,
        scratch: &mut Option<Scratch>,
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
    ) -> NamedCounts {
        self.engine.count_batch(scratch.get_or_insert_with(|| self.engine.scratch()), keys, best)
    }

    /// Returns the heap bytes of the struct and the engine.
    pub(super) fn bytes(&self) -> usize {
        let parts = self.stats.bytes.capacity() * size_of::<(&str, usize)>();
        Self::OWN_BYTES + parts + size_of_val(&*self.engine) + self.stats.total_bytes()
    }
}
