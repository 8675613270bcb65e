//! Choice of the engine that serves a rule set.
//!
//! Lookups of each engine that fits are predicted, and those near the best are timed. Otherwise the first by order is
//! chosen. The last engine by order fits whenever any does.

use std::ops::Range;

use super::Config;
use super::candidate::{Candidate, FEW, Kind, Outcome};
use super::traffic::Traffic;
use super::trials::Trials;
use crate::engine::base::Base;
use crate::engine::budget::Visits;
use crate::engine::cost::Work;
use crate::engine::tombstones::Dead;
use crate::engine::{Engine, Match, Stats};
use crate::engines::bit_select::{BitSelect, Roots};
use crate::engines::bit_vector::BitVector;
use crate::engines::linear::Linear;
use crate::engines::shared::wide::{MOST, Wide, wide};
use crate::engines::tuple::TupleMerge;
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::{Lowered, RuleId};
use crate::schema::Schema;

/// Scratch for the lookups of any base and of an overlay.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) tuples: <TupleMerge as Engine>::Scratch,
    vectors: <BitVector as Engine>::Scratch,
}

impl Scratch {
    /// Builds a scratch for every base over the overlay's schema.
    ///
    /// So a base that replaces another finds all that it needs.
    pub(crate) fn new(overlay: &TupleMerge) -> Self {
        Self { tuples: overlay.new_scratch(), vectors: BitVector::largest_scratch(overlay.schema()) }
    }
}

/// Default of region visits that comparing candidates may make.
const TRIAL: usize = 1 << 26;
/// Factor of time up to which a base that changes in place is preferred where rules change.
///
/// An overlay beside the faster base would cost more.
const CHANGING: f64 = 2.0;

/// Result of a choice, with all candidates.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// Candidates in the order of [`Kind::ALL`].
    pub(crate) candidates: [Candidate; 4],
    /// Kind that was forced.
    pub(crate) asked: Option<Kind>,
    /// Number of regions when the kind was last chosen by time, measured or predicted.
    ///
    /// It is `None` if the kind was not chosen by time.
    pub(crate) timed_with: Option<usize>,
    /// Region visits made to compare candidates; timed lookups count as in the worst case.
    pub(crate) compared: usize,
    /// Whether no candidate keeps the default limits.
    pub(crate) is_over_defaults: bool,
    /// Wide rules with their ranks; without one of them the base may no longer suit.
    pub(crate) wide: [Option<(RuleId, usize)>; MOST],
}

impl Choice {
    /// Returns the kind for `set` and the regions it was chosen with, if the choice still holds.
    ///
    /// It holds if the number of regions has changed by a factor of at most two and all wide rules are still there. No
    /// new rule may hold most keys, either. For example, a choice for 1,000 regions holds from 500 to 2,000. The kind
    /// is the one chosen. If `in_place` and it was hardly slower, it is the one that changes in place.
    pub(crate) fn kept(&self, set: &Lowered, wide: &[Wide], in_place: bool) -> Option<(Kind, usize)> {
        let regions = set.regions().len();
        let then = self.timed_with.filter(|&then| then <= 2 * regions && regions <= 2 * then)?;
        let was_wide = |rule: RuleId| self.wide.iter().flatten().any(|&(wide, _)| wide == rule);
        let mut others = wide.iter().filter(|wide| wide.is_most).map(|wide| set.rules()[wide.region].rule);
        let left = set.by_rule().filter(|(rule, _)| was_wide(rule.rule)).count();
        if left < self.wide.iter().flatten().count() || others.any(|rule| !was_wide(rule)) {
            return None;
        }
        let chosen = self.candidates.iter().find(|candidate| candidate.outcome == Outcome::Chosen)?;
        let takes_changes = self.candidates.iter().find(|candidate| candidate.kind == Kind::BitSelect)?;
        let slower = Traffic::ALL.iter().enumerate().filter_map(|(at, _)| {
            let [own, other] = [takes_changes.on[at], chosen.on[at]];
            let measured = own.nanos.zip(other.nanos);
            let (own, other) = measured.or(own.predicted.zip(other.predicted).map(|(a, b)| (a.nanos, b.nanos)))?;
            Some(own / other)
        });
        let slower = slower.reduce(f64::max);
        let takes_over = in_place && slower.is_some_and(|times| times <= CHANGING);
        let kind = if takes_over { Kind::BitSelect } else { chosen.kind };
        Some((kind, then))
    }
}

/// Facts about a base for the one that replaces it.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    choice: Choice,
    roots: Option<Roots>,
}

impl Before {
    pub(crate) fn of(base: &Chosen, choice: &Choice) -> Self {
        let roots = if let Chosen::BitSelect(base) = base { Some(base.roots()) } else { None };
        Self { choice: choice.clone(), roots }
    }
}

/// Base of an engine.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are two, on the heap")]
pub(crate) enum Chosen {
    Linear(Linear),
    BitSelect(BitSelect),
    BitVector(BitVector),
    TupleMerge(Box<TupleMerge>),
}

macro_rules! each {
    ($chosen:expr, $base:ident, $scratch:ident => $do:expr) => {
        match $chosen {
            Chosen::Linear($base) => {
                let $scratch = &mut ();
                $do
            }
            Chosen::BitSelect($base) => {
                let $scratch = &mut ();
                $do
            }
            Chosen::BitVector($base) => {
                let $scratch = &mut $scratch.vectors;
                $do
            }
            Chosen::TupleMerge($base) => {
                let $scratch = &mut $scratch.tuples;
                $do
            }
        }
    };
}

impl Chosen {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Linear(_) => Kind::Linear,
            Self::BitSelect(_) => Kind::BitSelect,
            Self::BitVector(_) => Kind::BitVector,
            Self::TupleMerge(_) => Kind::TupleMerge,
        }
    }

    pub(crate) fn schema(&self) -> &Schema {
        match self {
            Self::Linear(base) => base.schema(),
            Self::BitSelect(base) => base.schema(),
            Self::BitVector(base) => base.schema(),
            Self::TupleMerge(base) => base.schema(),
        }
    }

    /// Improves every key over all rules.
    ///
    /// With `bit_select`, the fastest base for most sets, the dispatch is one comparison.
    #[inline(always)]
    pub(crate) fn improve(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        if let Self::BitSelect(base) = self {
            return base.improve(&mut (), keys, best);
        }
        self.improve_other(scratch, keys, best);
    }

    #[inline(never)]
    fn improve_other(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        each!(self, base, scratch => base.improve(scratch, keys, best));
    }

    /// Improves every key over the rules without a tombstone.
    pub(crate) fn improve_alive(
        &self,
        scratch: &mut Scratch,
        keys: &Keys<'_>,
        dead: &Dead,
        best: &mut [Option<Match>],
    ) {
        each!(self, base, scratch => base.improve_alive(scratch, keys, dead, best));
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = match self {
            Self::Linear(base) => Engine::stats(base),
            Self::BitSelect(base) => Engine::stats(base),
            Self::BitVector(base) => Engine::stats(base),
            Self::TupleMerge(base) => Engine::stats(&**base),
        };
        if let Self::TupleMerge(base) = self {
            stats.bytes.push(("base", size_of_val(&**base)));
        }
        stats.bytes.shrink_to_fit();
        stats
    }

    /// Whether the rule of this rank is still in the base that was built with it.
    pub(crate) fn has_first(&self, rank: usize) -> bool {
        if let Self::BitSelect(base) = self { base.has_first(rank) } else { true }
    }

    /// Returns the bytes that a copy shares with its original.
    pub(crate) fn shared_bytes(&self) -> usize {
        if let Self::BitSelect(base) = self { base.shared_bytes() } else { 0 }
    }

    /// Returns the maximum region visits of a lookup, in whole blocks of eight.
    ///
    /// One word of a bit vector counts as one visit.
    pub(crate) fn visits(&self) -> usize {
        match self {
            Self::BitVector(base) => base.words(),
            _ => self.stats().worst_tests.next_multiple_of(8).max(8),
        }
    }

    /// Returns the counted cost of looking up `keys`.
    pub(crate) fn work(&self, keys: Keys<'_>) -> Work {
        match self {
            Self::Linear(base) => base.work(keys),
            Self::BitSelect(base) => base.work(keys),
            Self::BitVector(base) => base.work(keys),
            Self::TupleMerge(base) => base.work(keys),
        }
    }

    pub(crate) fn places(&self) -> usize {
        match self {
            Self::Linear(base) => base.places(),
            Self::BitSelect(base) => base.places(),
            Self::BitVector(base) => base.places(),
            Self::TupleMerge(base) => base.places(),
        }
    }

    pub(crate) fn places_of(&self, rule: RuleId, rank: usize, regions: Range<usize>) -> Range<usize> {
        match self {
            Self::Linear(base) => base.places_of(rule, rank, regions),
            Self::BitSelect(base) => base.places_of(rule, rank, regions),
            Self::BitVector(base) => base.places_of(rule, rank, regions),
            Self::TupleMerge(base) => base.places_of(rule, rank, regions),
        }
    }
}

/// Builds the base of a rule set within `run_bytes` bytes.
///
/// `before` describes the base that it replaces. If there is one, rules that have outgrown the forced kind get the
/// first kind by order that fits.
///
/// # Errors
/// If no kind fits, or if the forced one does not fit the first rules. The error is that of the last attempt.
pub(crate) fn choose(
    set: &Lowered,
    config: &Config,
    run_bytes: usize,
    before: Option<&Before>,
) -> Result<(Chosen, Choice), BuildError> {
    let regions = set.regions().len();
    let trial = config.trial.unwrap_or(TRIAL);
    let is_timed = config.kind.is_none() && regions > FEW && trial > 0;
    let wide = if regions > FEW { wide(set.regions(), &Visits::default()) } else { Vec::new() };
    let mut trials = Trials::new(set, config, run_bytes, &wide);
    trials.like = before.and_then(|before| before.roots.as_ref());
    if is_timed
        && let Some((kind, then)) = before.and_then(|before| before.choice.kept(set, &wide, config.changes_in_place))
        && let Some(base) = trials.build(kind, 0)?
        && trials.badness(&base) <= 1.0
    {
        return Ok(trials.end(base, Outcome::Kept, Some(then)));
    }
    if is_timed {
        trials.like = None;
        if let Some(base) = trials.fastest(trial)? {
            return Ok(trials.end(base, Outcome::Slower, Some(regions)));
        }
        // Each candidate had to fit beside the keys of its trial. Without them one may keep the cap on builds.
        trials.try_alone();
    }
    if let Some(base) = trials.first_by_order()? {
        return Ok(trials.end(base, Outcome::NotNeeded, None));
    }
    if config.kind.is_some() && before.is_some() {
        trials.ask_for_any();
        if let Some(base) = trials.first_by_order()? {
            return Ok(trials.end(base, Outcome::NotNeeded, None));
        }
    }
    // Every list of kinds to try has at least one.
    Err(trials.refusal.unwrap_or_else(|| BuildError::bytes(0, run_bytes)))
}
