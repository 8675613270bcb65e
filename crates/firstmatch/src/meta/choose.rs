//! Which engine serves a rule set: of those that fit, what lookups take is predicted, and those near the best are timed;
//! or the first by order is taken. The last of them fits wherever one does.

use std::ops::Range;

use super::Config;
use super::candidate::{Candidate, FEW, Kind, Outcome};
use super::traffic::Traffic;
use super::trials::Trials;
use crate::alive::{Base, Dead};
use crate::bit_select::{BitSelect, Roots};
use crate::bit_vector::BitVector;
use crate::budget::Visits;
use crate::engine::{Engine, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::linear::Linear;
use crate::parts::wide::{MOST, Wide, wide};
use crate::rule::{Lowered, RuleId};
use crate::schema::Schema;
use crate::tuple::TupleMerge;
use crate::work::Work;

/// What a lookup of any base, or of an overlay, may write to.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) tuples: <TupleMerge as Engine>::Scratch,
    vectors: <BitVector as Engine>::Scratch,
}

impl Scratch {
    /// For every base over the overlay's schema, so that a base that replaces another finds all it needs.
    pub(super) fn new(overlay: &TupleMerge) -> Self {
        Self { tuples: overlay.new_scratch(), vectors: BitVector::largest_scratch(overlay.schema()) }
    }
}

/// The region visits that comparing candidates may make where nothing is said.
const TRIAL: usize = 1 << 26;
/// Where rules change, the base that takes changes in place may take this many times as long as the one chosen: an
/// overlay beside that takes longer.
const CHANGING: f64 = 2.0;

/// What was chosen among what.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// In the order of [`Kind::ALL`].
    pub(super) candidates: [Candidate; 4],
    /// The kind that was forced.
    pub(super) asked: Option<Kind>,
    /// The regions there were when the kind was last chosen by time, measured or predicted; `None` where it was not.
    pub(super) timed_with: Option<usize>,
    /// Visits of regions that comparing candidates has made or, in the worst case, may have made.
    pub(super) compared: usize,
    /// Whether no candidate keeps the default limits.
    pub(super) is_over_defaults: bool,
    /// The wide rules, each with how many rules come before it: without one of them the base may suit no longer.
    pub(super) wide: [Option<(RuleId, usize)>; MOST],
}

impl Choice {
    /// Returns the kind for a set, if what it was chosen for still holds: the regions have not become twice or half as
    /// many, its wide rules are still there and none came that holds most keys. That is the kind chosen or, if it may
    /// and was hardly slower, the one that takes changes in place.
    pub(super) fn kept(&self, set: &Lowered, wide: &[Wide], in_place: bool) -> Option<(Kind, usize)> {
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

/// What a base tells the one that replaces it.
#[derive(Clone, Debug)]
pub(super) struct Before {
    choice: Choice,
    roots: Option<Roots>,
}

impl Before {
    pub(super) fn of(base: &Chosen, choice: &Choice) -> Self {
        let roots = if let Chosen::BitSelect(base) = base { Some(base.roots()) } else { None };
        Self { choice: choice.clone(), roots }
    }
}

/// The base of an engine.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are two, on the heap")]
pub(super) enum Chosen {
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
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Linear(_) => Kind::Linear,
            Self::BitSelect(_) => Kind::BitSelect,
            Self::BitVector(_) => Kind::BitVector,
            Self::TupleMerge(_) => Kind::TupleMerge,
        }
    }

    pub(super) fn schema(&self) -> &Schema {
        match self {
            Self::Linear(base) => base.schema(),
            Self::BitSelect(base) => base.schema(),
            Self::BitVector(base) => base.schema(),
            Self::TupleMerge(base) => base.schema(),
        }
    }

    /// Improves every key over all rules. With the base that is the fastest for most sets, that is one comparison.
    #[inline(always)]
    pub(super) fn improve(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        if let Self::BitSelect(base) = self {
            return base.improve(&mut (), keys, best);
        }
        self.improve_other(scratch, keys, best);
    }

    #[inline(never)]
    fn improve_other(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        each!(self, base, scratch => base.improve(scratch, keys, best));
    }

    /// Improves every key over the rules that are not marked.
    pub(super) fn improve_alive(
        &self,
        scratch: &mut Scratch,
        keys: &Keys<'_>,
        dead: &Dead,
        best: &mut [Option<Match>],
    ) {
        each!(self, base, scratch => base.improve_alive(scratch, keys, dead, best));
    }

    pub(super) fn stats(&self) -> Stats {
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

    /// Whether a rule that it was built from has not been taken out.
    pub(super) fn has_first(&self, rank: usize) -> bool {
        if let Self::BitSelect(base) = self { base.has_first(rank) } else { true }
    }

    /// Bytes that it shares with what it is a copy of.
    pub(super) fn shared_bytes(&self) -> usize {
        if let Self::BitSelect(base) = self { base.shared_bytes() } else { 0 }
    }

    /// The most visits of regions by a lookup, in whole blocks of eight; a word of a vector is one.
    pub(super) fn visits(&self) -> usize {
        match self {
            Self::BitVector(base) => base.words(),
            _ => self.stats().worst_tests.next_multiple_of(8).max(8),
        }
    }

    /// What lookups of these keys do.
    pub(super) fn work(&self, keys: Keys<'_>) -> Work {
        match self {
            Self::Linear(base) => base.work(keys),
            Self::BitSelect(base) => base.work(keys),
            Self::BitVector(base) => base.work(keys),
            Self::TupleMerge(base) => base.work(keys),
        }
    }

    pub(super) fn places(&self) -> usize {
        match self {
            Self::Linear(base) => base.places(),
            Self::BitSelect(base) => base.places(),
            Self::BitVector(base) => base.places(),
            Self::TupleMerge(base) => base.places(),
        }
    }

    pub(super) fn places_of(&self, rule: RuleId, rank: usize, regions: Range<usize>) -> Range<usize> {
        match self {
            Self::Linear(base) => base.places_of(rule, rank, regions),
            Self::BitSelect(base) => base.places_of(rule, rank, regions),
            Self::BitVector(base) => base.places_of(rule, rank, regions),
            Self::TupleMerge(base) => base.places_of(rule, rank, regions),
        }
    }
}

/// Builds the base of a rule set within so many bytes; `before` is that of the rules it comes from. Where there is one,
/// rules that have outgrown the kind that is forced get the first by order that fits.
///
/// # Errors
/// When none fits, or for the first rules the one that is forced does not: what the last one said.
pub(super) fn choose(
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
        && let Some((kind, then)) = before.and_then(|before| before.choice.kept(set, &wide, config.in_place != Some(0)))
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
        // Each was to be built beside the keys of its trial. Without them one may keep the cap on builds.
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
