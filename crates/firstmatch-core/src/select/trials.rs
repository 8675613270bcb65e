//! Choice of a base: builds candidates, compares them on sorts of traffic, and takes one.

use super::candidate::{Candidate, FEW, Outcome};
use super::choice::Choice;
use super::config::Config;
use super::limits::Limits;
use super::strategy::Strategy;
use super::traffic::{self, Sample, Traffic};
use super::trial::{self, worst_ratio};
use crate::engine::base::{Build, Choices};
use crate::engine::budget::Visits;
use crate::engines::registry::{AnyBase, Kind};
use crate::engines::shared::wide::{MOST, Wide};
use crate::error::{BuildError, Cap};
use crate::rule::{FAR_MORE, Lowered};

/// Relative and absolute (ns) difference of times that counts as equal.
///
/// Among the candidates whose worst ratio is at most 5 % above the least, the first by order is chosen. A time at most
/// 0.25 ns above the least counts as equal to it.
const TIE: (f64, f64) = (0.05, 0.25);
/// The search for unmatched keys may make one in this many of all region visits, and so may the count of lines.
const SHARE: usize = 16;
/// Factors of worst-case tests and of speed that rule out a deep candidate.
///
/// A candidate with a hundred times another's tests must be twice as fast on every sort of traffic. If a lookup touches
/// fewer lines than it makes tests, the lines count instead.
const DEEP: (usize, f64) = (100, 2.0);
/// Bytes, factor of bytes and factor of time that rule out a heavy candidate.
///
/// A candidate of more than 1 MiB is ruled out by another with at most a quarter of its bytes, if that takes at most
/// twice as long on every sort of traffic. For example, TupleMerge has eight times the bytes of `bit_select` on 100,000
/// addresses of one rule. A large base that ties in the trial loses in practice, because other programs share the
/// cache.
const HEAVY: (usize, usize, f64) = (1 << 20, 4, 2.0);

/// Attempts of one choice.
pub(crate) struct Trials<'a> {
    set: &'a Lowered,
    /// The same rules, with as many regions as keys are drawn from.
    shown: &'a Lowered,
    config: &'a Config,
    run_bytes: usize,
    wide: &'a [Wide],
    /// Choices that an earlier base made, which the new one may keep.
    pub(crate) like: Option<&'a Choices>,
    candidates: Vec<Candidate>,
    /// Reason for the last refusal.
    pub(crate) refusal: Option<BuildError>,
    /// Number of region visits by the lookups that compare candidates.
    compared: usize,
}

/// Candidate that has been built, with the figures that count beside its speed.
struct Built {
    base: AnyBase,
    tests: usize,
    lines: usize,
    bytes: usize,
    badness: f64,
}

impl<'a> Trials<'a> {
    pub(crate) fn new(
        set: &'a Lowered,
        shown: &'a Lowered,
        config: &'a Config,
        run_bytes: usize,
        wide: &'a [Wide],
    ) -> Self {
        let (needed, allowed) = (set.region_count(), FAR_MORE);
        let is_far_more = set.has_far_more_regions();
        let candidate = |&kind: &Kind| {
            let outcome = match config.strategy.forced() {
                Some(forced) if forced != kind => Outcome::NotAsked,
                None if needed <= FEW && !kind.is_list() => Outcome::FewRegions,
                None if is_far_more && !kind.takes_products() => Outcome::TooManyRegions { needed, allowed },
                _ => Outcome::NotNeeded,
            };
            Candidate { kind, outcome, nanos: Default::default(), ratio: None, takes: None, visits: None }
        };
        let candidates = Kind::ALL.iter().map(candidate).collect();
        Self { set, shown, config, run_bytes, wide, like: None, candidates, refusal: None, compared: 0 }
    }

    /// Allows candidates that were not asked for.
    pub(crate) fn ask_for_any(&mut self) {
        let is_left = |of: &&mut Candidate| of.outcome == Outcome::NotAsked;
        self.candidates.iter_mut().filter(is_left).for_each(|of| of.outcome = Outcome::NotNeeded);
    }

    /// Allows candidates of regions that are far more than products.
    pub(crate) fn allow_regions(&mut self) {
        let is_left = |of: &&mut Candidate| matches!(of.outcome, Outcome::TooManyRegions { .. });
        self.candidates.iter_mut().filter(is_left).for_each(|of| of.outcome = Outcome::NotNeeded);
    }

    /// Allows candidates that were refused because of the memory beside them, to be tried alone.
    pub(crate) fn try_alone(&mut self) {
        let is_large = |outcome| matches!(outcome, Outcome::Refused { cap: Cap::BuildBytes, .. });
        self.candidates.iter_mut().filter(|of| is_large(of.outcome)).for_each(|of| of.outcome = Outcome::NotNeeded);
    }

    /// Returns the first allowed candidate that no cap refuses and that keeps the default limits.
    ///
    /// If none keeps them, it returns the first among the candidates less than twice as bad as the least bad.
    pub(crate) fn first_by_order(&mut self) -> Result<Option<AnyBase>, BuildError> {
        let mut built: Vec<Built> = Vec::new();
        for &kind in Kind::ALL {
            if self.of(kind).outcome == Outcome::NotNeeded
                && let Some(base) = self.build(kind, bytes(&built))?
            {
                built.push(self.built(base));
                self.leave_deep(&mut built);
                if built.iter().any(|built| built.badness <= 1.0) {
                    break;
                }
            }
        }
        Ok((!built.is_empty()).then(|| built.swap_remove(0).base))
    }

    /// Returns the candidate with the least worst ratio to the fastest over all sorts of traffic.
    ///
    /// Comparing makes at most `visits` region visits. If they are too few to time any candidate, it returns `None`.
    pub(crate) fn fastest(&mut self, visits: usize) -> Result<Option<AnyBase>, BuildError> {
        // The keys alone would take more than a build may.
        if trial::bytes(self.shown) > self.config.limits.build_bytes {
            return Ok(None);
        }
        let count = trial::keys(self.shown);
        let mut samples = traffic::of_rules(self.shown, self.wide, count);
        let mut built: Vec<Built> = Vec::new();
        for &kind in Kind::ALL {
            if self.of(kind).outcome != Outcome::NotNeeded {
                continue;
            }
            let left_out = self.left_out(kind, &built).or_else(|| self.good_without(kind, &built, &samples, visits));
            if let Some(outcome) = left_out {
                self.of(kind).outcome = outcome;
                continue;
            }
            // Candidates to be timed are in memory side by side.
            let beside = trial::bytes(self.shown) + bytes(&built);
            let most = if built.is_empty() { usize::MAX } else { kind.build_visits(self.set) };
            let Some(base) = self.build_within(kind, beside, most)? else { continue };
            if built.is_empty() && samples.iter().all(|sample| sample.traffic != Traffic::Unmatched) {
                let (sample, made) = traffic::unmatched(self.shown, self.wide, &base, count, visits / SHARE);
                self.compared += made;
                samples.extend(sample);
            }
            built.push(self.built(base));
            self.leave_deep(&mut built);
        }
        if built.len() < 2 {
            return Ok(built.pop().map(|built| built.base));
        }
        let mut nanos = self.time(&mut built, &samples, visits);
        self.leave_hardly_faster(&mut built, &mut nanos);
        let ratios: Vec<f64> = (0..nanos.len()).map(|at| worst_ratio(&nanos, at, TIE.1)).collect();
        for (built, ratio) in built.iter().zip(&ratios) {
            self.of(built.base.kind()).ratio = Some(*ratio);
        }
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let at = ratios.iter().position(|&ratio| ratio <= least * (1.0 + TIE.0));
        Ok(at.map(|at| built.swap_remove(at).base))
    }

    /// Times candidates side by side, and returns the nanoseconds of each on every sample.
    ///
    /// It drops the candidates whose share of the visits is too small. If that is all of them, no outcome changes.
    fn time(&mut self, built: &mut Vec<Built>, samples: &[Sample], visits: usize) -> Vec<Vec<f64>> {
        let bases: Vec<&AnyBase> = built.iter().map(|built| &built.base).collect();
        let timed = trial::time(&bases, samples, self.config.calls, visits.saturating_sub(self.compared));
        self.compared += timed.visits;
        let mut nanos = timed.nanos;
        let is_timed = |nanos: &Vec<f64>| nanos.iter().all(|nanos| nanos.is_finite());
        let is_any = nanos.iter().any(is_timed);
        for (built, nanos) in built.iter().zip(&nanos) {
            let candidate = self.of(built.base.kind());
            if is_timed(nanos) {
                samples.iter().zip(nanos).for_each(|(of, &nanos)| candidate.nanos[of.traffic as usize] = Some(nanos));
            } else if is_any {
                candidate.outcome = Outcome::Untimed;
            }
        }
        let mut each = nanos.iter().map(is_timed);
        built.retain(|_| each.next() == Some(true));
        nanos.retain(is_timed);
        nanos
    }

    /// Returns the reason not to build a candidate beside those in `built`, if there is one.
    fn left_out(&self, kind: Kind, built: &[Built]) -> Option<Outcome> {
        let needed = kind.tests_of(self.set)?;
        let keeps = built.iter().any(|built| built.badness <= 1.0);
        let is_deep = self.config.limits.badness(0, needed) > 1.0 && keeps;
        is_deep.then_some(Outcome::Deep { cap: Cap::WorstTests, needed, allowed: Limits::WORST_TESTS })
    }

    /// Returns the outcome of a candidate that is only of use beside bad ones, if one of `built` is good.
    ///
    /// Counting takes at most a [`SHARE`] of `visits`.
    fn good_without(&mut self, kind: Kind, built: &[Built], samples: &[Sample], visits: usize) -> Option<Outcome> {
        let (worth, worth_bytes) = (kind.worth_lines(), kind.worth_bytes());
        if let Some(bytes) = built.iter().map(|built| built.bytes).min().filter(|&bytes| bytes < worth_bytes) {
            return Some(Outcome::SmallWithout { bytes, worth: worth_bytes });
        }
        if worth == 0 {
            return None;
        }
        let share = visits / SHARE / built.len().max(1);
        let mut lines = |built: &Built| {
            let (lines, made) = trial::lines(&built.base, samples, share);
            self.compared += made;
            lines
        };
        let lines = built.iter().map(&mut lines).min()?;
        (lines < worth).then_some(Outcome::GoodWithout { lines, worth })
    }

    fn built(&self, base: AnyBase) -> Built {
        let stats = base.stats();
        let (tests, lines, bytes) = (stats.worst_tests, stats.worst_lines, stats.total_bytes());
        Built { badness: self.badness(&base), base, tests, lines, bytes }
    }

    /// Returns how many times as bad as the default limits the worst case of a base is.
    ///
    /// Regions that a vector tests together count as the words that are read, because these take the time.
    pub(crate) fn badness(&self, base: &AnyBase) -> f64 {
        let stats = base.stats();
        self.config.limits.badness(stats.worst_lines, stats.worst_tests.min(base.visits()))
    }

    /// Drops candidates over the default limits if another keeps them.
    ///
    /// If none does, it drops those that are at least twice as bad as the least bad.
    fn leave_deep(&mut self, built: &mut Vec<Built>) {
        let least = built.iter().map(|built| built.badness).fold(f64::INFINITY, f64::min);
        built.retain(|built| {
            let keeps = built.badness <= 1.0 || least > 1.0 && built.badness < 2.0 * least;
            if !keeps {
                let stats = built.base.stats();
                let (cap, needed, allowed) =
                    self.config.limits.over_default(stats.worst_lines, stats.worst_tests.min(built.base.visits()));
                self.of(built.base.kind()).outcome = Outcome::Deep { cap, needed, allowed };
            }
            keeps
        });
    }

    /// Drops candidates that are hardly faster than another with a far better worst case or far less memory.
    ///
    /// [`DEEP`] and [`HEAVY`] have the factors.
    fn leave_hardly_faster(&mut self, built: &mut Vec<Built>, nanos: &mut Vec<Vec<f64>>) {
        let is_hardly_faster = |at: usize| {
            // A lookup that touches few lines is short, however many rules it tests there: `bit_vector` tests 512 per
            // line.
            let work = |of: usize| built[of].tests.min(built[of].lines);
            let others = (0..built.len()).filter(|&other| work(at) >= DEEP.0 * work(other).max(1));
            let mut faster =
                others.map(|other| nanos[at].iter().zip(&nanos[other]).all(|(own, of)| own * DEEP.1 <= *of));
            faster.any(|is_faster| !is_faster)
        };
        let is_heavy = |at: usize| {
            let bytes = built[at].bytes;
            let mut lighter =
                (0..built.len()).filter(|&other| bytes > HEAVY.0 && bytes >= HEAVY.1 * built[other].bytes);
            lighter.any(|other| nanos[at].iter().zip(&nanos[other]).all(|(own, of)| *of <= own * HEAVY.2))
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

    /// Builds a candidate beside others of `beside` bytes, if no cap refuses it.
    pub(crate) fn build(&mut self, kind: Kind, beside: usize) -> Result<Option<AnyBase>, BuildError> {
        self.build_within(kind, beside, usize::MAX)
    }

    /// Builds a candidate like [`Self::build`], within `most` region visits.
    ///
    /// `most` is no cap, but the effort that the candidate is worth.
    fn build_within(&mut self, kind: Kind, beside: usize, most: usize) -> Result<Option<AnyBase>, BuildError> {
        let limits = &self.config.limits;
        let visits = Visits::new(limits.build_visits.min(most));
        let attempt = || {
            let is_forced = self.config.strategy == Strategy::Force(kind);
            if !kind.takes_products()
                && let Err(error) = self.set.expanded()
            {
                return Ok(Err(error));
            }
            let needed = kind.build_bytes(self.set, is_forced).saturating_add(beside);
            if needed > limits.build_bytes {
                return Err((Cap::BuildBytes, needed, limits.build_bytes));
            }
            let how = build(kind, self.config, self.run_bytes, &visits, self.like);
            let base = match kind.build(self.set, &how) {
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
                self.of(kind).outcome = match cap {
                    Cap::RunBytes if allowed < self.run_bytes => Outcome::Outgrown { needed, allowed },
                    cap => Outcome::Refused { cap, needed, allowed },
                };
                self.refusal = Some(match cap {
                    Cap::RunBytes if allowed < self.run_bytes => BuildError::own_limit(needed, allowed),
                    Cap::RunBytes => BuildError::bytes(needed, allowed),
                    cap => BuildError::limit(cap, needed, allowed),
                });
                Ok(None)
            }
        }
    }

    /// Ends the choice with `base`; `left` is the outcome of the other candidates that would have fitted.
    pub(crate) fn end(mut self, base: AnyBase, left: Outcome, timed_with: Option<usize>) -> (AnyBase, Choice) {
        self.candidates.iter_mut().filter(|of| of.outcome == Outcome::NotNeeded).for_each(|of| of.outcome = left);
        self.of(base.kind()).outcome = Outcome::Chosen;
        let is_over_defaults = self.badness(&base) > 1.0;
        let rank_of = |wide: &Wide| {
            let found = self.shown.by_rule().enumerate().find(|(_, (_, regions))| regions.contains(&wide.region));
            found.map(|(rank, (rule, _))| (rule.rule, rank))
        };
        let mut each: Vec<_> = self.wide.iter().filter_map(rank_of).collect();
        each.dedup();
        let mut wide = [None; MOST];
        wide.iter_mut().zip(each).for_each(|(to, wide)| *to = Some(wide));
        let Self { candidates, compared, .. } = self;
        (
            base,
            Choice { candidates, asked: self.config.strategy.forced(), timed_with, compared, is_over_defaults, wide },
        )
    }
}

/// Returns the bytes of candidates that are in memory side by side.
fn bytes(built: &[Built]) -> usize {
    built.iter().map(|built| built.bytes).sum()
}

/// Returns the settings that a base of a kind is built with.
fn build<'a>(
    kind: Kind,
    config: &Config,
    run_bytes: usize,
    visits: &'a Visits,
    like: Option<&'a Choices>,
) -> Build<'a> {
    let &Config { simd, seed, .. } = config;
    Build { run_bytes, simd, seed, is_forced: config.strategy == Strategy::Force(kind), visits, like }
}

#[cfg(test)]
mod tests;
