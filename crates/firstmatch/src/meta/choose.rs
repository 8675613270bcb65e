//! Which engine serves a rule set: of those that fit, what lookups take is predicted, and those near the best are timed;
//! or the first by order is taken. The last of them fits wherever one does.

use std::ops::Range;

use super::candidate::{Candidate, FEW, Kind, Outcome, VECTORS};
use super::limits::{self, Cap};
use super::model;
use super::{Config, trial};
use crate::alive::{Base, Dead};
use crate::bit_select::{self, BitSelect, Roots};
use crate::bit_vector::{self, BitVector};
use crate::budget::{Budget, Visits};
use crate::engine::{Engine, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::linear::{self, Linear};
use crate::rule::{Lowered, RuleId};
use crate::simd::Level;
use crate::tuple::{self, TupleMerge};
use crate::work::Work;

/// What a lookup of any base, or of an overlay, may write to.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) tuples: <TupleMerge as Engine>::Scratch,
    vectors: <BitVector as Engine>::Scratch,
}

impl Scratch {
    pub(super) fn new(overlay: &TupleMerge, base: Option<&Chosen>) -> Self {
        let vectors = if let Some(Chosen::BitVector(base)) = base { base.new_scratch() } else { Default::default() };
        Self { tuples: overlay.new_scratch(), vectors }
    }
}

/// Of candidates that take so little more than the fastest the first by order is taken: as a part, and in nanoseconds.
const TIE: (f64, f64) = (0.05, 0.25);
/// The region visits that predicting and timing may take where nothing is said.
const TRIAL: usize = 1 << 25;
/// The part of them that predicting one candidate may take.
const SHARE: usize = 32;
/// Predicted to take so many times as long as the fastest, or so many nanoseconds longer, a candidate is timed. Two
/// predictions that are each a fifth off, one up and one down, are 1.5 apart.
const MARGIN: (f64, f64) = (1.5, 2.0);
/// Where rules change, the base that takes changes in place may be so many times as slow as the fastest: an overlay beside
/// that takes longer.
const CHANGING: f64 = 3.0;
/// The instruction set that predictions were fitted with, and the margin with any other.
const FITTED: Level = Level::Avx2;
const UNKNOWN: f64 = 6.0;
/// Keys that predictions are made from, at most and at least.
const KEYS: usize = 1024;
const FEWEST: usize = 8;

/// What was chosen among what.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// In the order of [`Kind::ALL`].
    pub(super) candidates: [Candidate; 4],
    /// The kind that was forced.
    pub(super) asked: Option<Kind>,
    /// The regions there were when the kind was last chosen by time, measured or predicted; `None` where it was not.
    timed_with: Option<usize>,
    /// Visits of regions that comparing candidates has made or, in the worst case, may have made.
    pub(super) compared: usize,
}

impl Choice {
    /// The kind for so many regions, if they have not become twice or half as many since one was chosen: that one, or
    /// the one that takes changes in place, if it may and was not much slower.
    fn kept(&self, regions: usize, in_place: bool) -> Option<(Kind, usize)> {
        let then = self.timed_with.filter(|&then| then <= 2 * regions && regions <= 2 * then)?;
        let chosen = self.candidates.iter().find(|candidate| candidate.outcome == Outcome::Chosen)?;
        let takes_changes = self.candidates.iter().find(|candidate| candidate.kind == Kind::BitSelect)?;
        let slower = |known: fn(&Candidate) -> Option<f64>| Some(known(takes_changes)? / known(chosen)?);
        let slower = slower(|of| of.nanos).or_else(|| slower(|of| of.predicted.map(|of| of.nanos)));
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
    let mut trials = Trials::new(set, config, run_bytes);
    trials.like = before.and_then(|before| before.roots.as_ref());
    if is_timed
        && let Some((kind, then)) = before.and_then(|before| before.choice.kept(regions, config.in_place != Some(0)))
        && let Some(base) = trials.build(kind, 0)?
    {
        return Ok(trials.end(base, Outcome::Kept, Some(then)));
    }
    if is_timed {
        trials.like = None;
        if let Some(base) = trials.fastest(trial)? {
            return Ok(trials.end(base, Outcome::Slower, Some(regions)));
        }
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

/// The attempts of one choice.
struct Trials<'a> {
    set: &'a Lowered,
    config: &'a Config,
    run_bytes: usize,
    /// Of a base that another may be like.
    like: Option<&'a Roots>,
    candidates: [Candidate; 4],
    /// Why the last one was refused that was.
    refusal: Option<BuildError>,
    /// Visits of regions by lookups that compare candidates.
    compared: usize,
}

impl<'a> Trials<'a> {
    fn new(set: &'a Lowered, config: &'a Config, run_bytes: usize) -> Self {
        let few = set.regions().len() <= FEW;
        let candidates = Kind::ALL.map(|kind| {
            let outcome = match config.kind {
                Some(forced) if forced != kind => Outcome::NotAsked,
                None if few && kind != Kind::Linear => Outcome::FewRegions,
                None if kind == Kind::BitVector && set.regions().len() > VECTORS => Outcome::ManyVectors,
                _ => Outcome::NotNeeded,
            };
            Candidate { kind, outcome, predicted: None, nanos: None, takes: None, visits: None }
        });
        Self { set, config, run_bytes, like: None, candidates, refusal: None, compared: 0 }
    }

    /// Those that were not asked for may be tried.
    fn ask_for_any(&mut self) {
        let many = self.set.regions().len() > VECTORS;
        for of in self.candidates.iter_mut().filter(|of| of.outcome == Outcome::NotAsked) {
            of.outcome = if many && of.kind == Kind::BitVector { Outcome::ManyVectors } else { Outcome::NotNeeded };
        }
    }

    /// The first that may be tried and that no cap is in the way of.
    fn first_by_order(&mut self) -> Result<Option<Chosen>, BuildError> {
        for kind in Kind::ALL {
            if self.of(kind).outcome == Outcome::NotNeeded
                && let Some(base) = self.build(kind, 0)?
            {
                return Ok(Some(base));
            }
        }
        Ok(None)
    }

    /// The fastest of those that may be tried and that no cap is in the way of: measured, where some are predicted to be
    /// about as fast; predicting and timing them takes no more than so many visits of regions.
    fn fastest(&mut self, visits: usize) -> Result<Option<Chosen>, BuildError> {
        let keys = trial::drawn(self.set, KEYS);
        let mut built: Vec<(Chosen, f64)> = Vec::new();
        for kind in Kind::ALL {
            if self.of(kind).outcome != Outcome::NotNeeded {
                continue;
            }
            if kind == Kind::TupleMerge
                && !built.is_empty()
                && let Some(longest) = trial::long_buckets(self.set, self.config)?
            {
                self.of(kind).outcome = Outcome::LongBuckets { longest };
                continue;
            }
            // Those that are to be timed are there side by side.
            let bytes = |(base, _): &(Chosen, f64)| base.stats().total_bytes();
            let beside = trial::bytes(self.set) + built.iter().map(bytes).sum::<usize>();
            if let Some(base) = self.build(kind, beside)? {
                let nanos = self.predict(&base, keys.keys(), visits / SHARE);
                built.push((base, nanos));
                self.leave_slow(&mut built);
            }
        }
        drop(keys);
        let bases: Vec<&Chosen> = built.iter().map(|(base, _)| base).collect();
        let left = visits.saturating_sub(self.compared);
        let timed = if bases.len() > 1 { trial::time(self.set, &bases, left) } else { None };
        let nanos = timed.map(|timed| {
            self.compared += timed.visits;
            timed.nanos
        });
        if let Some(nanos) = &nanos {
            bases.iter().zip(nanos).for_each(|(base, &nanos)| self.of(base.kind()).nanos = Some(nanos));
        } else {
            built.iter().for_each(|(base, nanos)| self.of(base.kind()).outcome = Outcome::left(*nanos));
        }
        // What was predicted tells all apart.
        let (nanos, tie) = match nanos {
            Some(nanos) => (nanos, TIE),
            None => (built.iter().map(|&(_, nanos)| nanos).collect(), (0.0, 0.0)),
        };
        let least = nanos.iter().copied().fold(f64::INFINITY, f64::min);
        let at = nanos.iter().position(|&nanos| nanos <= (least * (1.0 + tie.0)).max(least + tie.1));
        Ok(at.map(|at| built.swap_remove(at).0))
    }

    /// The nanoseconds that a lookup is predicted to take, from keys that make no more than so many visits in the worst
    /// case; without end where too few do.
    fn predict(&mut self, base: &Chosen, keys: Keys<'_>, visits: usize) -> f64 {
        let few = keys.len().min(visits / base.visits());
        if few < FEWEST {
            return f64::INFINITY;
        }
        let work = base.work(keys.slice(0, few));
        debug_assert!(work.visits <= few * base.visits(), "{work:?} of {few} keys");
        self.compared += work.visits;
        let predicted = model::predict(base.kind(), &work, &self.config.machine);
        self.of(base.kind()).predicted = Some(predicted);
        predicted.nanos
    }

    /// Drops those of which another is predicted to be far faster.
    fn leave_slow(&mut self, built: &mut Vec<(Chosen, f64)>) {
        let fitted = Level::choose(self.config.simd).is_ok_and(|level| level == FITTED);
        let margin = self.config.margin.unwrap_or(if fitted { MARGIN.0 } else { UNKNOWN });
        let more = if margin > 1.0 { MARGIN.1 } else { 0.0 };
        let least = built.iter().map(|&(_, nanos)| nanos).fold(f64::INFINITY, f64::min);
        built.retain(|(base, nanos)| {
            let is_near = *nanos <= (least * margin).max(least + more);
            if !is_near {
                self.of(base.kind()).outcome = Outcome::left(*nanos);
            }
            is_near
        });
    }

    fn of(&mut self, kind: Kind) -> &mut Candidate {
        // `ALL` has every kind.
        let at = Kind::ALL.iter().position(|&of| of == kind).unwrap_or(0);
        &mut self.candidates[at]
    }

    /// Builds one beside others of so many bytes, if no cap is in the way.
    fn build(&mut self, kind: Kind, beside: usize) -> Result<Option<Chosen>, BuildError> {
        let limits = &self.config.limits;
        let visits = Visits::new(limits.build_visits);
        let within = |cap, needed, allowed| if needed > allowed { Err((cap, needed, allowed)) } else { Ok(()) };
        let attempt = || {
            within(Cap::BuildBytes, limits::build_bytes(kind, self.set).saturating_add(beside), limits.build_bytes)?;
            let base = match build(kind, self.set, self.config, self.run_bytes, &visits, self.like) {
                Ok(base) => base,
                Err(error) => {
                    return match (error.bytes_needed(), error.visits_made()) {
                        (Some((needed, allowed)), _) => Err((Cap::RunBytes, needed, allowed)),
                        (_, Some((made, allowed))) => Err((Cap::BuildVisits, made, allowed)),
                        _ => Ok(Err(error)),
                    };
                }
            };
            let stats = base.stats();
            within(Cap::WorstLines, stats.worst_lines, limits.worst_lines)?;
            within(Cap::WorstTests, stats.worst_tests, limits.worst_tests)?;
            Ok(Ok(base))
        };
        let attempt = attempt();
        self.of(kind).visits = (visits.made() > 0).then_some(visits.made());
        match attempt {
            Ok(base) => {
                let base = base?;
                let stats = base.stats();
                self.of(kind).takes = Some([stats.total_bytes(), stats.worst_lines, stats.worst_tests]);
                Ok(Some(base))
            }
            Err((cap, needed, allowed)) => {
                self.of(kind).outcome = Outcome::Refused { cap, needed, allowed };
                self.refusal = Some(match cap {
                    Cap::RunBytes => BuildError::bytes(needed, allowed),
                    cap => BuildError::limit(cap.says(needed, allowed)),
                });
                Ok(None)
            }
        }
    }

    /// Takes a base; the others that would have fitted were left for this reason.
    fn end(mut self, base: Chosen, left: Outcome, timed_with: Option<usize>) -> (Chosen, Choice) {
        self.candidates.iter_mut().filter(|of| of.outcome == Outcome::NotNeeded).for_each(|of| of.outcome = left);
        self.of(base.kind()).outcome = Outcome::Chosen;
        let Self { candidates, compared, .. } = self;
        (base, Choice { candidates, asked: self.config.kind, timed_with, compared })
    }
}

fn build(
    kind: Kind,
    set: &Lowered,
    config: &Config,
    run_bytes: usize,
    visits: &Visits,
    like: Option<&Roots>,
) -> Result<Chosen, BuildError> {
    let (budget, simd) = (Budget { run_bytes }, config.simd);
    Ok(match kind {
        Kind::Linear => Chosen::Linear(Linear::build_within(set, &linear::Config { budget, simd }, visits)?),
        Kind::BitSelect => {
            let config = bit_select::Config { budget, simd, ..Default::default() };
            Chosen::BitSelect(BitSelect::build_within(set, &config, visits, like)?)
        }
        Kind::BitVector => {
            // Who asks for it by name gets it for as many rules as its vectors can be told apart.
            let vectors = if config.kind == Some(kind) { usize::MAX } else { bit_vector::Config::default().vectors };
            let config = bit_vector::Config { budget, simd, vectors };
            Chosen::BitVector(BitVector::build_within(set, &config, visits)?)
        }
        Kind::TupleMerge => {
            let budget = Budget { run_bytes: run_bytes.saturating_sub(size_of::<TupleMerge>()) };
            let config = tuple::Config { budget, simd, seed: config.seed, ..Default::default() };
            Chosen::TupleMerge(Box::new(TupleMerge::build_within(set, &config, visits)?))
        }
    })
}
