//! Verdict cache: boxes of packets with one verdict, before any classifier.
//!
//! A box of a [rule cache](firstmatch_core::cache::rule) has one rule, so that counts of rules stay true. Here it may
//! have several rules of one action, as in the paper of Storm. For example, `permit src 10.0.0.0/8` and `permit tcp`
//! share a box if no rule that denies comes before. So an answer from a box has a verdict but no rule, and a cache of
//! verdicts is a [`Decider`], not a classifier.
//!
//! Boxes grow to the hull of their samples. For the maker of boxes, all rules of an action are one rule.
//!
//! # Invariants
//! - An answer from a box is the verdict under the rules at the start of the batch (`tests/net/systems/verdict.rs`).

use std::fmt;
use std::sync::{Arc, Mutex};

use firstmatch_core::cache::rule::{AnswerBoxes, BoxSearch, BoxUpdater, Config, Growth};
use firstmatch_core::live::{BatchReader, Handle};
use firstmatch_core::policy::Basis;
use firstmatch_core::rule::Region;
use firstmatch_core::{
    BuildError, Classifier, Engine, KeyBuf, Keys, Match, Overlaps, Policy, Probe, RuleId, RuleSet, Schema, Scratch,
    Stats, Verdict,
};

use crate::plane::lock;

/// Verdict on a packet, and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Verdict on the packet.
    pub verdict: Verdict,
    /// Origin of the verdict.
    pub basis: Basis,
}

/// Decider about packets, which need not know the rule of each.
pub trait Decider {
    /// State of one thread.
    type Scratch;

    /// Builds the state of one thread.
    ///
    /// # Errors
    /// If this machine lacks a forced instruction set.
    fn scratch(&self) -> Result<Self::Scratch, BuildError>;

    /// Writes the answer for each key of `keys` to `out`.
    ///
    /// # Panics
    /// If `out` does not have one element for each key, or the keys are not of the schema.
    fn decide_batch(&self, scratch: &mut Self::Scratch, keys: Keys<'_>, out: &mut [Answer]);
}

/// Classifier with a cache of verdicts in front of it.
///
/// ```
/// use std::sync::Arc;
///
/// use firstmatch_core::cache::rule::Config;
/// use firstmatch_core::engines::linear::{self, Linear};
/// use firstmatch_core::policy::Basis;
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{KeyBuf, Policy, Verdict};
/// use firstmatch_net::systems::verdict::{Answer, Decider, VerdictCache};
///
/// let text = "family ipv4\npermit src 10.0.0.0/8\n";
/// let rules = firstmatch_formats::parse(text, &Default::default())?.rules;
/// let lowered = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine = Arc::new(Linear::build(&lowered, &linear::Config::default())?);
/// let mut config = Config::paper();
/// config.sample = [1; 2];
/// let cache = VerdictCache::new(engine.clone(), engine, &rules, Policy::default(), &config);
///
/// let mut keys = KeyBuf::new(lowered.schema());
/// keys.push()[0] = 0x0A00_0001;
/// let mut scratch = cache.scratch()?;
/// let mut answers = [Answer { verdict: Verdict::Deny, basis: Basis::Policy }];
/// for basis in [Basis::Rule, Basis::Cached] {
///     cache.decide_batch(&mut scratch, keys.keys(), &mut answers);
///     assert_eq!(answers, [Answer { verdict: Verdict::Permit, basis }]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VerdictCache {
    rules: Rules,
    search: Arc<dyn Overlaps>,
    policy: Policy,
    config: Config,
}

impl VerdictCache {
    /// Puts a cache in front of `engine`. `engine` and `search` must have the rules of `rules`, which must not change.
    pub fn new(
        engine: Arc<dyn Classifier>,
        search: Arc<dyn Overlaps>,
        rules: &RuleSet,
        policy: Policy,
        config: &Config,
    ) -> Self {
        let slots = rules.iter().map(|rule| rule.id.slot() + 1).max().unwrap_or(0);
        let mut verdicts = vec![Verdict::Match; slots];
        rules.iter().for_each(|rule| verdicts[rule.id.slot()] = rule.action.into());
        Self::with(Rules { engine, verdicts: Verdicts::Fixed(verdicts.into()) }, search, policy, config)
    }

    /// Puts a cache in front of live rules; `None` if they do not search for regions.
    ///
    /// They must be configured with `overlaps` and `attachments`, because the attachments have the actions.
    ///
    /// # Panics
    /// If there is no schema of this index.
    pub fn live(handle: &Handle, schema: usize, policy: Policy, config: &Config) -> Option<Self> {
        let engine = handle.engine(schema);
        let search = engine.overlaps()?;
        let rules = Rules { engine: Arc::new(engine), verdicts: Verdicts::Live(handle.clone(), schema) };
        Some(Self::with(rules, search, policy, config))
    }

    fn with(rules: Rules, search: Arc<dyn Overlaps>, policy: Policy, config: &Config) -> Self {
        let mut config = config.clone();
        // A home is a region of one rule, and packets that match no rule have no action.
        (config.growth, config.home_first, config.unmatched) = (Growth::Grow, false, false);
        Self { rules, search, policy, config }
    }
}

/// State of one thread of a [`VerdictCache`].
#[derive(Debug)]
pub struct VerdictScratch {
    lookups: Lookups,
    updater: BoxUpdater,
    boxes: AnswerBoxes,
    search: BoxSearch,
    best: Vec<Option<Match>>,
    /// Keys in no box.
    misses: KeyBuf,
    /// Number of lookups until the next sample.
    left: usize,
}

impl Decider for VerdictCache {
    type Scratch = VerdictScratch;

    fn scratch(&self) -> Result<VerdictScratch, BuildError> {
        let by_action =
            ByAction { rules: self.rules.clone(), search: Arc::clone(&self.search), reader: self.rules.reader() };
        let by_action = Arc::new(by_action);
        let updater = BoxUpdater::new(by_action.clone(), by_action, &self.config)?;
        Ok(VerdictScratch {
            lookups: self.rules.lookups(),
            boxes: updater.boxes(),
            updater,
            search: BoxSearch::new(0),
            best: Vec::new(),
            misses: KeyBuf::new(self.rules.engine.schema()),
            left: self.config.sample[0],
        })
    }

    fn decide_batch(&self, scratch: &mut VerdictScratch, keys: Keys<'_>, out: &mut [Answer]) {
        let VerdictScratch { lookups, updater, boxes, search, best, misses, left } = scratch;
        best.clear();
        best.resize(keys.len(), None);
        // Read before the boxes, so that no box of other rules gives an answer.
        let open = boxes.improve(self.rules.engine.version(), search, &keys, best);
        for (out, best) in out.iter_mut().zip(&*best) {
            let verdict = best.map_or(self.policy.default, |found| verdict(found.rule));
            *out = Answer { verdict, basis: Basis::Cached };
        }
        misses.clear();
        open.iter().for_each(|&at| misses.push().copy_from_slice(keys.row(at as usize)));
        best.clear();
        best.resize(open.len(), None);
        self.rules.look_up(lookups, &misses.keys(), best, |miss, found| {
            let (verdict, basis) = found.map_or((self.policy.default, Basis::Policy), |(_, of)| (of, Basis::Rule));
            out[open[miss] as usize] = Answer { verdict, basis };
        });
        if *left > keys.len() {
            *left -= keys.len();
        } else if !keys.is_empty() {
            let at = left.saturating_sub(1);
            if updater.sample(keys.slice(at, at + 1)) {
                updater.publish(boxes);
            }
            *left = self.config.sample[1].max(1);
        }
    }
}

impl fmt::Debug for VerdictCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerdictCache").field("rules", &self.rules).field("policy", &self.policy).finish()
    }
}

/// Classifier whose rules have verdicts.
#[derive(Clone, Debug)]
struct Rules {
    engine: Arc<dyn Classifier>,
    verdicts: Verdicts,
}

#[derive(Clone, Debug)]
enum Verdicts {
    /// Verdicts by slot.
    Fixed(Arc<[Verdict]>),
    /// Verdicts from live rules, each batch in one generation; the index is that of the schema.
    Live(Handle, usize),
}

/// State of one thread for lookups of misses.
#[derive(Debug)]
struct Lookups {
    fixed: Scratch,
    live: Option<BatchReader>,
}

impl Rules {
    fn reader(&self) -> Mutex<Option<BatchReader>> {
        Mutex::new(self.lookups().live)
    }

    fn lookups(&self) -> Lookups {
        let live = match &self.verdicts {
            Verdicts::Fixed(_) => None,
            Verdicts::Live(handle, _) => Some(handle.reader()),
        };
        Lookups { fixed: self.engine.scratch(), live }
    }

    /// Improves `best`, and calls `take` with the index, match and verdict of each key.
    fn look_up(
        &self,
        lookups: &mut Lookups,
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
        mut take: impl FnMut(usize, Option<(Match, Verdict)>),
    ) {
        match (&self.verdicts, &mut lookups.live) {
            (Verdicts::Live(_, schema), Some(reader)) => reader.read(|mut snapshot| {
                snapshot.improve(*schema, keys, best);
                for (at, found) in best.iter().enumerate() {
                    take(at, found.map(|found| (found, snapshot.attached(found.rule).action.into())));
                }
            }),
            (Verdicts::Fixed(verdicts), _) => {
                self.engine.improve_batch(&mut lookups.fixed, keys, best);
                for (at, found) in best.iter().enumerate() {
                    take(at, found.map(|found| (found, verdicts[found.rule.slot()])));
                }
            }
            (Verdicts::Live(..), None) => unreachable!("live rules have a reader"),
        }
    }
}

/// The rules as their updater sees them: all rules of an action are one rule.
struct ByAction {
    rules: Rules,
    search: Arc<dyn Overlaps>,
    /// Reader of the actions of live rules. Neither a search nor a lookup ever waits for it, because one thread does
    /// both.
    reader: Mutex<Option<BatchReader>>,
}

impl fmt::Debug for ByAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByAction").field("rules", &self.rules).finish()
    }
}

impl Engine for ByAction {
    type Scratch = (Lookups, Vec<Option<Match>>);

    fn schema(&self) -> &Schema {
        self.rules.engine.schema()
    }

    fn new_scratch(&self) -> Self::Scratch {
        (self.rules.lookups(), Vec::new())
    }

    fn stats(&self) -> Stats {
        self.rules.engine.stats()
    }

    fn version(&self) -> u64 {
        self.rules.engine.version()
    }

    fn improve(&self, (lookups, own): &mut Self::Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        own.clear();
        own.extend_from_slice(best);
        self.rules.look_up(lookups, keys, own, |at, found| {
            if let Some((found, verdict)) = found.filter(|(found, _)| Match::wins(found.priority, &best[at])) {
                best[at] = Some(Match { rule: rule(verdict), ..found });
            }
        });
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
                visit(probe, Match { rule: rule(of(found.rule)), ..found }, region);
            })
        };
        match (&self.rules.verdicts, &mut *lock(&self.reader)) {
            // Actions of a later generation than the regions do no harm, because the updater then drops its result.
            (Verdicts::Live(..), Some(reader)) => {
                reader.read(|snapshot| search(&|rule| snapshot.attached(rule).action.into()))
            }
            (Verdicts::Fixed(verdicts), _) => search(&|rule| verdicts[rule.slot()]),
            (Verdicts::Live(..), None) => unreachable!("live rules have a reader"),
        }
    }

    /// Finds no home, because boxes that grow freely need none.
    fn home(&self, _: Match, _: &[u32], _: &mut Probe) -> bool {
        false
    }
}

/// Returns the rule that stands for all rules of a verdict.
fn rule(verdict: Verdict) -> RuleId {
    match verdict {
        Verdict::Permit => RuleId::new(0, 0),
        Verdict::Deny => RuleId::new(1, 0),
        Verdict::Match => RuleId::new(2, 0),
        Verdict::Mark(number) => RuleId::new(number & 0xFFFF, 1 + (number >> 16)),
    }
}

/// Returns the verdict that a rule stands for.
fn verdict(rule: RuleId) -> Verdict {
    match (rule.reuse(), rule.slot() as u32) {
        (0, 0) => Verdict::Permit,
        (0, 1) => Verdict::Deny,
        (0, _) => Verdict::Match,
        (high, low) => Verdict::Mark((high - 1) << 16 | low),
    }
}
