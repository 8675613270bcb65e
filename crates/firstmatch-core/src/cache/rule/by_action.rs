//! Rules seen by their actions: all rules of an action are one rule.
//!
//! Boxes over this view have one action each, which several rules may give. They are fewer and hold more packets than
//! boxes of one rule, but an answer no longer says which rule it is from.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::{Classifier, Engine, Match, Overlaps, Probe, Scratch, Stats};
use crate::key::Keys;
use crate::live::{BatchReader, Handle};
use crate::policy::Verdict;
use crate::rule::{Region, RuleId, RuleSet};
use crate::schema::Schema;

/// Classifier whose matches stand for actions, and the search of its rules for a maker of boxes.
///
/// Each match has the priority of the first rule, and in place of its id that of its action, for
/// [`ByAction::verdict`]. So [`RuleCache::new`](super::RuleCache::new) and [`BoxUpdater::new`](super::BoxUpdater::new)
/// with such a view as classifier and as search make the boxes of the paper.
///
/// ```
/// use std::sync::Arc;
///
/// use firstmatch_core::cache::rule::{BoxSearch, BoxUpdater, ByAction, Config};
/// use firstmatch_core::engines::cut_tree::{self, CutTree, Method};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{KeyBuf, Verdict};
///
/// // Port 5 is of the first rule and port 6 of the second, and one box holds both.
/// let text = "schema {\n port 16 range\n}\npermit port 5\npermit port 5-9\ndeny port 0-65535\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let lowered = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// // As in the paper, one tree of HyperCuts looks packets up and proves boxes.
/// let tree = Arc::new(CutTree::build(&lowered, &cut_tree::Config::paper(Method::HyperCuts))?);
/// let by_action = Arc::new(ByAction::new(tree.clone(), tree, &rules));
/// let mut updater = BoxUpdater::new(by_action.clone(), by_action, &Config::paper())?;
///
/// let mut keys = KeyBuf::new(lowered.schema());
/// [5, 6].into_iter().for_each(|port| keys.push()[0] = port);
/// let (mut boxes, mut search, mut best) = (updater.boxes(), BoxSearch::new(2), [None; 2]);
/// for at in 0..2 {
///     updater.sample(keys.keys().slice(at, at + 1));
///     updater.publish(&mut boxes);
/// }
/// assert_eq!(updater.evolving(), 1);
/// assert!(boxes.improve(updater.engine().version(), &mut search, &keys.keys(), &mut best).is_empty());
/// assert_eq!(best.map(|found| found.map(ByAction::verdict)), [Some(Verdict::Permit); 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ByAction {
    engine: Arc<dyn Classifier>,
    search: Arc<dyn Overlaps>,
    verdicts: Verdicts,
    /// Reader of the actions of live rules, for the search. It is never waited for if one thread makes boxes.
    reader: Mutex<Option<BatchReader>>,
}

#[derive(Clone, Debug)]
enum Verdicts {
    /// Verdicts by slot.
    Fixed(Arc<[Verdict]>),
    /// Verdicts from live rules, each batch in one generation; the index is that of the schema.
    Live(Handle, usize),
}

impl Verdicts {
    fn reader(&self) -> Option<BatchReader> {
        match self {
            Self::Fixed(_) => None,
            Self::Live(handle, _) => Some(handle.reader()),
        }
    }
}

impl ByAction {
    /// Returns the view of `engine` and `search`, which must have the rules of `rules`; these must not change.
    pub fn new(engine: Arc<dyn Classifier>, search: Arc<dyn Overlaps>, rules: &RuleSet) -> Self {
        let mut verdicts = vec![Verdict::Match; rules.slots()];
        rules.iter().for_each(|rule| verdicts[rule.id.slot()] = rule.action.into());
        Self::with(engine, search, Verdicts::Fixed(verdicts.into()))
    }

    /// Returns the view of live rules; `None` if they do not search for regions.
    ///
    /// They must be configured with `overlaps` and `attachments`, because the attachments have the actions.
    ///
    /// # Panics
    /// If there is no schema of this index.
    pub fn live(handle: &Handle, schema: usize) -> Option<Self> {
        let engine = handle.engine(schema);
        let search = engine.overlaps()?;
        Some(Self::with(Arc::new(engine), search, Verdicts::Live(handle.clone(), schema)))
    }

    /// Returns another view of the same rules, so that each thread that makes boxes has its own.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::with(Arc::clone(&self.engine), Arc::clone(&self.search), self.verdicts.clone())
    }

    fn with(engine: Arc<dyn Classifier>, search: Arc<dyn Overlaps>, verdicts: Verdicts) -> Self {
        let reader = Mutex::new(verdicts.reader());
        Self { engine, search, verdicts, reader }
    }

    /// Returns the verdict that a match of such a view stands for.
    pub fn verdict(found: Match) -> Verdict {
        match (found.rule.reuse(), found.rule.slot() as u32) {
            (0, 0) => Verdict::Permit,
            (0, 1) => Verdict::Deny,
            (0, _) => Verdict::Match,
            (high, low) => Verdict::Mark((high - 1) << 16 | low),
        }
    }
}

/// Returns the rule that stands for all rules of a verdict.
fn stand_in(verdict: Verdict) -> RuleId {
    match verdict {
        Verdict::Permit => RuleId::new(0, 0),
        Verdict::Deny => RuleId::new(1, 0),
        Verdict::Match => RuleId::new(2, 0),
        Verdict::Mark(number) => RuleId::new(number & 0xFFFF, 1 + (number >> 16)),
    }
}

/// Replaces each match by a better one, with the stand-in for its rule.
fn put(found: &[Option<Match>], best: &mut [Option<Match>], verdict: &dyn Fn(RuleId) -> Verdict) {
    for (best, found) in best.iter_mut().zip(found) {
        if let Some(found) = found.filter(|found| Match::wins(found.priority, best)) {
            *best = Some(Match { rule: stand_in(verdict(found.rule)), ..found });
        }
    }
}

impl fmt::Debug for ByAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByAction").field("engine", &self.engine).field("verdicts", &self.verdicts).finish()
    }
}

/// State of one thread for lookups.
#[derive(Debug)]
pub struct ByActionScratch {
    fixed: Scratch,
    live: Option<BatchReader>,
    own: Vec<Option<Match>>,
}

impl Engine for ByAction {
    type Scratch = ByActionScratch;

    fn schema(&self) -> &Schema {
        self.engine.schema()
    }

    fn new_scratch(&self) -> ByActionScratch {
        ByActionScratch { fixed: self.engine.scratch(), live: self.verdicts.reader(), own: Vec::new() }
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }

    fn version(&self) -> u64 {
        self.engine.version()
    }

    fn improve(&self, scratch: &mut ByActionScratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let ByActionScratch { fixed, live, own } = scratch;
        own.clear();
        own.extend_from_slice(best);
        match (&self.verdicts, live) {
            (Verdicts::Live(_, schema), Some(reader)) => reader.read(|mut snapshot| {
                snapshot.improve(*schema, keys, own);
                put(own, best, &|rule| snapshot.attached(rule).action.into());
            }),
            (Verdicts::Fixed(verdicts), _) => {
                self.engine.improve_batch(fixed, keys, own);
                put(own, best, &|rule| verdicts[rule.slot()]);
            }
            (Verdicts::Live(..), None) => unreachable!("live rules have a reader"),
        }
    }
}

impl Overlaps for ByAction {
    fn prepare(&self, probe: &mut Probe) {
        self.search.prepare(probe);
    }

    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        let mut search = |of: &dyn Fn(RuleId) -> Verdict| {
            self.search.visit(probe, cursor, most, &mut |probe, found, region| {
                visit(probe, Match { rule: stand_in(of(found.rule)), ..found }, region);
            })
        };
        match (&self.verdicts, &mut *self.reader.lock().unwrap_or_else(PoisonError::into_inner)) {
            // Actions of a later generation than the regions do no harm, because the updater then drops its result.
            (Verdicts::Live(..), Some(reader)) => {
                reader.read(|snapshot| search(&|rule| snapshot.attached(rule).action.into()))
            }
            (Verdicts::Fixed(verdicts), _) => search(&|rule| verdicts[rule.slot()]),
            (Verdicts::Live(..), None) => unreachable!("live rules have a reader"),
        }
    }

    /// Finds no home, because an action has none: boxes are to grow, without [`Config::home_first`](super::Config::home_first).
    fn home(&self, _: Match, _: &[u32], _: &mut Probe) -> bool {
        false
    }
}
