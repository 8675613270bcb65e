//! Verdict cache: boxes of packets with one verdict, before any classifier.
//!
//! A box of a [rule cache](firstmatch_core::cache::rule) has one rule, so that counts of rules stay true. Here it may
//! have several rules of one action, as in the paper of Storm. For example, `permit src 10.0.0.0/8` and `permit tcp`
//! share a box if no rule that denies comes before. So an answer from a box has a verdict but no rule, and a cache of
//! verdicts is a [`Decider`], not a classifier.
//!
//! Boxes grow to the hull of their samples. For the maker of boxes, all rules of an action are one rule
//! ([`ByAction`]).
//!
//! # Invariants
//! - An answer from a box is the verdict under the rules at the start of the batch (`tests/net/systems/verdict.rs`).

use std::fmt;
use std::sync::Arc;

use firstmatch_core::cache::rule::{AnswerBoxes, BoxSearch, BoxUpdater, ByAction, Config, Growth};
use firstmatch_core::live::Handle;
use firstmatch_core::policy::Basis;
use firstmatch_core::{BuildError, Classifier, KeyBuf, Keys, Match, Overlaps, Policy, RuleSet, Scratch, Verdict};

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
    rules: ByAction,
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
        Self::with(ByAction::new(engine, search, rules), policy, config)
    }

    /// Puts a cache in front of live rules; `None` if they do not search for regions.
    ///
    /// They must be configured with `overlaps` and `attachments`, because the attachments have the actions.
    ///
    /// # Panics
    /// If there is no schema of this index.
    pub fn live(handle: &Handle, schema: usize, policy: Policy, config: &Config) -> Option<Self> {
        Some(Self::with(ByAction::live(handle, schema)?, policy, config))
    }

    fn with(rules: ByAction, policy: Policy, config: &Config) -> Self {
        let mut config = config.clone();
        // A home is a region of one rule, and packets that match no rule have no action.
        (config.growth, config.home_first, config.unmatched) = (Growth::Grow, false, false);
        Self { rules, policy, config }
    }
}

/// State of one thread of a [`VerdictCache`].
#[derive(Debug)]
pub struct VerdictScratch {
    lookups: Scratch,
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
        let by_action = Arc::new(self.rules.again());
        let updater = BoxUpdater::new(by_action.clone(), by_action, &self.config)?;
        Ok(VerdictScratch {
            lookups: self.rules.scratch(),
            boxes: updater.boxes(),
            updater,
            search: BoxSearch::new(0),
            best: Vec::new(),
            misses: KeyBuf::new(self.rules.schema()),
            left: self.config.sample[0],
        })
    }

    fn decide_batch(&self, scratch: &mut VerdictScratch, keys: Keys<'_>, out: &mut [Answer]) {
        let VerdictScratch { lookups, updater, boxes, search, best, misses, left } = scratch;
        best.clear();
        best.resize(keys.len(), None);
        // Read before the boxes, so that no box of other rules gives an answer.
        let open = boxes.improve(self.rules.version(), search, &keys, best);
        for (out, best) in out.iter_mut().zip(&*best) {
            let verdict = best.map_or(self.policy.default, ByAction::verdict);
            *out = Answer { verdict, basis: Basis::Cached };
        }
        misses.clear();
        open.iter().for_each(|&at| misses.push().copy_from_slice(keys.row(at as usize)));
        best.clear();
        best.resize(open.len(), None);
        self.rules.improve_batch(lookups, &misses.keys(), best);
        for (&at, found) in open.iter().zip(&*best) {
            let of_rule = |found| (ByAction::verdict(found), Basis::Rule);
            let (verdict, basis) = found.map_or((self.policy.default, Basis::Policy), of_rule);
            out[at as usize] = Answer { verdict, basis };
        }
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
