//! The attempts of one choice: candidates are built, compared on several sorts of traffic, and one of them is taken.

use super::Config;
use super::candidate::{Candidate, FEW, Kind, Lookups, Outcome, VECTORS};
use super::choose::{Choice, Chosen};
use super::limits::{self, Cap};
use super::model;
use super::traffic::{self, Sample, Traffic};
use super::trial;
use crate::alive::Base as _;
use crate::bit_select::{self, BitSelect, Roots};
use crate::bit_vector::{self, BitVector};
use crate::budget::{Budget, Visits};
use crate::engine::Engine as _;
use crate::error::BuildError;
use crate::key::Keys;
use crate::linear::{self, Linear};
use crate::parts::wide::{MOST, Wide};
use crate::rule::Lowered;
use crate::simd::Level;
use crate::tuple::{self, TupleMerge};

/// Of candidates whose worst ratio is this much above the least, as a part, the first by order is taken; and nanoseconds
/// that no ratio counts.
const TIE: (f64, f64) = (0.05, 0.25);
/// The part of all visits that predicting one candidate may take.
const SHARE: usize = 16;
/// A candidate is timed whose worst predicted ratio is up to this many times the least; this many nanoseconds do not
/// count. Predictions are for packets that all differ, and can be three times what packets take that come again: the
/// example `choice` shows it with 100,000 rules of the profile `fw4`.
const MARGIN: (f64, f64) = (4.0, 2.0);
/// The instruction set that predictions were fitted with, and the margin with any other.
const FITTED: Level = Level::Avx2;
const UNKNOWN: f64 = 6.0;
/// Keys that predictions are made from, at most and at least.
const KEYS: usize = 1024;
const FEWEST: usize = 8;
/// A candidate whose worst case has this many times the tests of another's has to be this many times as fast everywhere.
const DEEP: (usize, f64) = (100, 2.0);
/// A candidate of more bytes than the first number that has this many times the bytes of another is out where the other
/// takes at most this many times as long on every sort of traffic: two bases that are about as fast under a trial are not
/// beside other programs that need the cache.
const HEAVY: (usize, usize, f64) = (1 << 20, 4, 2.0);
/// A prediction spares a candidate the timing only if it is for one whose worst case has at most this many times its
/// tests: predictions of long walks are the least sure.
const DEEPER: usize = 2;
/// Region visits a region that building a TupleMerge may take beside another candidate: twice what rules take that are
/// not made to be in its way.
const BESIDE: usize = 340;
/// Region visits that are always worth it.
const SMALL: usize = 1 << 18;

/// The attempts of one choice.
pub(super) struct Trials<'a> {
    set: &'a Lowered,
    config: &'a Config,
    run_bytes: usize,
    wide: &'a [Wide],
    /// Roots of a base that the next one may keep.
    pub(super) like: Option<&'a Roots>,
    candidates: [Candidate; 4],
    /// Why the last one was refused that was.
    pub(super) refusal: Option<BuildError>,
    /// Visits of regions by lookups that compare candidates.
    compared: usize,
}

/// A candidate with what a packet takes on each sample, predicted.
struct Built {
    base: Chosen,
    nanos: Vec<f64>,
    tests: usize,
    bytes: usize,
    badness: f64,
}

impl<'a> Trials<'a> {
    pub(super) fn new(set: &'a Lowered, config: &'a Config, run_bytes: usize, wide: &'a [Wide]) -> Self {
        let few = set.regions().len() <= FEW;
        let candidates = Kind::ALL.map(|kind| {
            let outcome = match config.kind {
                Some(forced) if forced != kind => Outcome::NotAsked,
                None if few && kind != Kind::Linear => Outcome::FewRegions,
                None if kind == Kind::BitVector && set.regions().len() > VECTORS => Outcome::ManyVectors,
                _ => Outcome::NotNeeded,
            };
            Candidate { kind, outcome, on: Default::default(), ratio: None, takes: None, visits: None }
        });
        Self { set, config, run_bytes, wide, like: None, candidates, refusal: None, compared: 0 }
    }

    /// Lets candidates that were not asked for be tried.
    pub(super) fn ask_for_any(&mut self) {
        let many = self.set.regions().len() > VECTORS;
        for of in self.candidates.iter_mut().filter(|of| of.outcome == Outcome::NotAsked) {
            of.outcome = if many && of.kind == Kind::BitVector { Outcome::ManyVectors } else { Outcome::NotNeeded };
        }
    }

    /// Lets candidates that were refused for what is in memory beside them be tried by themselves.
    pub(super) fn try_alone(&mut self) {
        let is_large = |outcome| matches!(outcome, Outcome::Refused { cap: Cap::BuildBytes, .. });
        self.candidates.iter_mut().filter(|of| is_large(of.outcome)).for_each(|of| of.outcome = Outcome::NotNeeded);
    }

    /// Returns the first that may be tried, that no cap is in the way of and that keeps the default limits; where none
    /// does, the first of those that are less than twice as bad as the least bad.
    pub(super) fn first_by_order(&mut self) -> Result<Option<Chosen>, BuildError> {
        let mut built: Vec<Built> = Vec::new();
        for kind in Kind::ALL {
            if self.of(kind).outcome == Outcome::NotNeeded
                && let Some(base) = self.build(kind, bytes(&built))?
            {
                built.push(self.built(base, Vec::new()));
                self.leave_deep(&mut built);
                if built.iter().any(|built| built.badness <= 1.0) {
                    break;
                }
            }
        }
        Ok((!built.is_empty()).then(|| built.swap_remove(0).base))
    }

    /// Returns the candidate whose worst ratio to the fastest, over all sorts of traffic, is the least: measured, where
    /// several are predicted to be about as good. Comparing takes no more than `visits` visits of regions.
    pub(super) fn fastest(&mut self, visits: usize) -> Result<Option<Chosen>, BuildError> {
        // The keys alone would take more than a build may.
        if trial::bytes(self.set) > self.config.limits.build_bytes {
            return Ok(None);
        }
        let count = trial::keys(self.set);
        let mut samples = traffic::of_rules(self.set, self.wide, count);
        let mut built: Vec<Built> = Vec::new();
        for kind in Kind::ALL {
            if self.of(kind).outcome != Outcome::NotNeeded {
                continue;
            }
            if let Some(outcome) = self.left_out(kind, &built)? {
                self.of(kind).outcome = outcome;
                continue;
            }
            // Candidates that are to be timed are in memory side by side.
            let beside = trial::bytes(self.set) + bytes(&built);
            let most = self.set.regions().len() * BESIDE + SMALL;
            let most = if kind == Kind::TupleMerge && !built.is_empty() { most } else { usize::MAX };
            let Some(base) = self.build_within(kind, beside, most)? else { continue };
            if built.is_empty() && samples.iter().all(|sample| sample.traffic != Traffic::Unmatched) {
                let (sample, made) = traffic::unmatched(self.set, self.wide, &base, count, visits / SHARE);
                self.compared += made;
                samples.extend(sample);
            }
            let nanos = self.predict(&base, &samples, visits / SHARE);
            built.push(self.built(base, nanos));
            self.leave_deep(&mut built);
            self.leave_slow(&mut built);
        }
        let bases: Vec<&Chosen> = built.iter().map(|built| &built.base).collect();
        let left = visits.saturating_sub(self.compared);
        let is_timed = bases.len() > 1 && self.margin() > 1.0;
        let timed = if is_timed { trial::time(&bases, &samples, left) } else { None };
        let (mut nanos, tie) = match timed {
            Some(timed) => {
                self.compared += timed.visits;
                for (base, nanos) in bases.iter().zip(&timed.nanos) {
                    let on = &mut self.of(base.kind()).on;
                    samples
                        .iter()
                        .zip(nanos)
                        .for_each(|(sample, &nanos)| on[sample.traffic as usize].nanos = Some(nanos));
                }
                (timed.nanos, TIE)
            }
            None => {
                built.iter().for_each(|built| self.of(built.base.kind()).outcome = Outcome::left(&built.nanos));
                // What was predicted tells all apart.
                (built.iter().map(|built| built.nanos.clone()).collect(), (0.0, 0.0))
            }
        };
        self.leave_hardly_faster(&mut built, &mut nanos);
        let ratios: Vec<f64> = (0..nanos.len()).map(|at| worst_ratio(&nanos, at, tie.1, |_| true)).collect();
        for (built, ratio) in built.iter().zip(&ratios) {
            self.of(built.base.kind()).ratio = ratio.is_finite().then_some(*ratio);
        }
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let at = ratios.iter().position(|&ratio| ratio <= least * (1.0 + tie.0));
        Ok(at.map(|at| built.swap_remove(at).base))
    }

    /// Returns why a candidate is not worth building beside others.
    fn left_out(&self, kind: Kind, built: &[Built]) -> Result<Option<Outcome>, BuildError> {
        let Some(first) = built.first() else { return Ok(None) };
        match kind {
            Kind::Linear => {
                let regions = self.set.regions().len();
                let keeps = built.iter().any(|built| built.badness <= 1.0);
                let (cap, allowed) = (Cap::WorstTests, limits::Limits::WORST_TESTS);
                let is_deep = self.config.limits.badness(0, regions) > 1.0 && keeps;
                Ok(is_deep.then_some(Outcome::Deep { cap, needed: regions, allowed }))
            }
            Kind::TupleMerge => {
                let Some((probe, regions)) = trial::probe(self.set, self.config)? else { return Ok(None) };
                let longest = probe.stats().longest_bucket;
                if longest > trial::CROWDED {
                    return Ok(Some(Outcome::LongBuckets { longest }));
                }
                // Rules in a table of more take no less.
                let work = probe.work(traffic::drawn(&regions, KEYS).keys());
                let nanos = model::predict(kind, &work, &self.config.machine).nanos;
                let is_slow = first.nanos.iter().all(|&other| nanos > other * self.margin());
                Ok(is_slow.then_some(Outcome::Sampled { picoseconds: (nanos * 1e3) as u64 }))
            }
            _ => Ok(None),
        }
    }

    /// Returns the nanoseconds that a lookup is predicted to take on each sample, from keys that make no more than
    /// `visits` visits in the worst case; infinite where too few do.
    fn predict(&mut self, base: &Chosen, samples: &[Sample], visits: usize) -> Vec<f64> {
        let most = visits / samples.len().max(1) / base.visits();
        samples.iter().map(|sample| self.predict_one(base, sample.traffic, sample.keys.keys(), most)).collect()
    }

    fn predict_one(&mut self, base: &Chosen, traffic: Traffic, keys: Keys<'_>, most: usize) -> f64 {
        let few = keys.len().min(KEYS).min(most);
        if few < FEWEST {
            return f64::INFINITY;
        }
        let work = base.work(keys.slice(0, few));
        debug_assert!(work.visits <= few * base.visits(), "{work:?} of {few} keys");
        self.compared += work.visits;
        let predicted = model::predict(base.kind(), &work, &self.config.machine);
        self.of(base.kind()).on[traffic as usize] = Lookups { predicted: Some(predicted), nanos: None };
        predicted.nanos
    }

    fn built(&self, base: Chosen, nanos: Vec<f64>) -> Built {
        let stats = base.stats();
        let (tests, bytes) = (stats.worst_tests, stats.total_bytes());
        Built { badness: self.badness(&base), base, nanos, tests, bytes }
    }

    /// Returns how many times the worst case of a base is as bad as the default limits.
    pub(super) fn badness(&self, base: &Chosen) -> f64 {
        let stats = base.stats();
        self.config.limits.badness(stats.worst_lines, stats.worst_tests)
    }

    fn margin(&self) -> f64 {
        let fitted = Level::choose(self.config.simd).is_ok_and(|level| level == FITTED);
        self.config.margin.unwrap_or(if fitted { MARGIN.0 } else { UNKNOWN })
    }

    /// Drops candidates whose worst case is over the default limits, where another's is not; else those that are at
    /// least twice as bad as the least bad.
    fn leave_deep(&mut self, built: &mut Vec<Built>) {
        let least = built.iter().map(|built| built.badness).fold(f64::INFINITY, f64::min);
        built.retain(|built| {
            let keeps = built.badness <= 1.0 || least > 1.0 && built.badness < 2.0 * least;
            if !keeps {
                let stats = built.base.stats();
                let (cap, needed, allowed) = self.config.limits.over_default(stats.worst_lines, stats.worst_tests);
                self.of(built.base.kind()).outcome = Outcome::Deep { cap, needed, allowed };
            }
            keeps
        });
    }

    /// Drops candidates that are predicted to be far slower than another whose worst case is hardly worse. Where the
    /// prediction is to decide all are kept until it does.
    fn leave_slow(&mut self, built: &mut Vec<Built>) {
        let margin = self.margin();
        if margin <= 1.0 {
            return;
        }
        let nanos: Vec<Vec<f64>> = built.iter().map(|built| built.nanos.clone()).collect();
        let tests: Vec<usize> = built.iter().map(|built| built.tests).collect();
        let ratio = |at: usize| worst_ratio(&nanos, at, MARGIN.1, |other| tests[other] <= DEEPER * tests[at]);
        let ratios: Vec<f64> = (0..nanos.len()).map(ratio).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let mut ratios = ratios.into_iter();
        built.retain(|built| {
            let is_near = ratios.next().is_some_and(|ratio| ratio <= least * margin);
            if !is_near {
                self.of(built.base.kind()).outcome = Outcome::left(&built.nanos);
            }
            is_near
        });
    }

    /// Drops candidates whose worst case is a hundred times that of another than which they are not far faster on every
    /// sample, and those that take far more memory than another which is not far slower on any.
    fn leave_hardly_faster(&mut self, built: &mut Vec<Built>, nanos: &mut Vec<Vec<f64>>) {
        let is_hardly_faster = |at: usize| {
            let others = (0..built.len()).filter(|&other| built[at].tests >= DEEP.0 * built[other].tests.max(1));
            let mut faster =
                others.map(|other| nanos[at].iter().zip(&nanos[other]).all(|(own, of)| own * DEEP.1 <= *of));
            faster.any(|is_faster| !is_faster)
        };
        let is_heavy = |at: usize| {
            let bytes = built[at].bytes;
            let mut lighter =
                (0..built.len()).filter(|&other| bytes > HEAVY.0 && bytes >= HEAVY.1 * built[other].bytes);
            // A candidate that was not compared has infinite times, which say nothing.
            lighter.any(|other| {
                nanos[at].iter().zip(&nanos[other]).all(|(own, of)| of.is_finite() && *of <= own * HEAVY.2)
            })
        };
        let left_out = |at: usize| match built[at] {
            Built { tests, .. } if is_hardly_faster(at) => Some(Outcome::HardlyFaster { tests }),
            Built { bytes, .. } if is_heavy(at) => Some(Outcome::Heavy { bytes }),
            _ => None,
        };
        let outcomes: Vec<Option<Outcome>> = (0..built.len()).map(left_out).collect();
        for (built, outcome) in built.iter().zip(&outcomes) {
            let candidate = self.of(built.base.kind());
            candidate.outcome = outcome.unwrap_or(candidate.outcome);
        }
        let mut each = outcomes.iter();
        built.retain(|_| each.next() == Some(&None));
        let mut each = outcomes.iter();
        nanos.retain(|_| each.next() == Some(&None));
    }

    fn of(&mut self, kind: Kind) -> &mut Candidate {
        // `ALL` has every kind.
        let at = Kind::ALL.iter().position(|&of| of == kind).unwrap_or(0);
        &mut self.candidates[at]
    }

    /// Builds one beside others of `beside` bytes, if no cap is in the way.
    pub(super) fn build(&mut self, kind: Kind, beside: usize) -> Result<Option<Chosen>, BuildError> {
        self.build_within(kind, beside, usize::MAX)
    }

    /// The same within `most` visits of regions, which is no cap but what a candidate is worth.
    fn build_within(&mut self, kind: Kind, beside: usize, most: usize) -> Result<Option<Chosen>, BuildError> {
        let limits = &self.config.limits;
        let visits = Visits::new(limits.build_visits.min(most));
        let attempt = || {
            let needed = limits::build_bytes(kind, self.set).saturating_add(beside);
            if needed > limits.build_bytes {
                return Err((Cap::BuildBytes, needed, limits.build_bytes));
            }
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
            limits.check(stats.worst_lines, stats.worst_tests)?;
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
            Err((Cap::BuildVisits, made, allowed)) if allowed < limits.build_visits => {
                self.of(kind).outcome = Outcome::LongBuild { visits: made };
                Ok(None)
            }
            Err((cap, needed, allowed)) => {
                self.of(kind).outcome = Outcome::Refused { cap, needed, allowed };
                self.refusal = Some(match cap {
                    Cap::RunBytes => BuildError::bytes(needed, allowed),
                    cap => BuildError::limit(cap, needed, allowed),
                });
                Ok(None)
            }
        }
    }

    /// Takes a base; the others that would have fitted were left for this reason.
    pub(super) fn end(mut self, base: Chosen, left: Outcome, timed_with: Option<usize>) -> (Chosen, Choice) {
        self.candidates.iter_mut().filter(|of| of.outcome == Outcome::NotNeeded).for_each(|of| of.outcome = left);
        self.of(base.kind()).outcome = Outcome::Chosen;
        let is_over_defaults = self.badness(&base) > 1.0;
        let rank_of = |wide: &Wide| {
            let found = self.set.by_rule().enumerate().find(|(_, (_, regions))| regions.contains(&wide.region));
            found.map(|(rank, (rule, _))| (rule.rule, rank))
        };
        let mut each: Vec<_> = self.wide.iter().filter_map(rank_of).collect();
        each.dedup();
        let mut wide = [None; MOST];
        wide.iter_mut().zip(each).for_each(|(to, wide)| *to = Some(wide));
        let Self { candidates, compared, .. } = self;
        (base, Choice { candidates, asked: self.config.kind, timed_with, compared, is_over_defaults, wide })
    }
}

/// Returns the worst ratio, over all samples, of what a candidate takes to the least of those that count.
/// `slack` nanoseconds more than the least are no more.
fn worst_ratio(nanos: &[Vec<f64>], at: usize, slack: f64, counts: impl Fn(usize) -> bool) -> f64 {
    let ratio = |(sample, &own): (usize, &f64)| {
        let others = nanos.iter().enumerate().filter(|(other, _)| counts(*other)).map(|(_, nanos)| nanos[sample]);
        let least = others.fold(own, f64::min);
        if own <= least + slack { 1.0 } else { own / least }
    };
    nanos[at].iter().enumerate().map(ratio).fold(1.0, f64::max)
}

/// Bytes of candidates that are there side by side.
fn bytes(built: &[Built]) -> usize {
    built.iter().map(|built| built.base.stats().total_bytes()).sum()
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
            // A caller that asks for it by name gets it for as many rules as its vectors can be told apart.
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

#[cfg(test)]
mod tests;
