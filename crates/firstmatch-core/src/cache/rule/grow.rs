//! Boxes that grow to the hull of their samples, as in the paper (Algorithm 1).
//!
//! For example, a box of the samples 2 and 5 is 2 to 5 if all of it is one rule's.

use super::config::Config;
use super::evolving::Evolving;
use super::step::{Check, Outcome, Step};
use crate::engine::{Match, Overlaps, Probe};
use crate::rule::Region;

impl Check {
    fn accepts(self) -> bool {
        self.matched.is_some_and(|matched| self.conflict.is_none_or(|conflict| matched < conflict))
    }

    fn visit(&mut self, own: Match, probe: &mut Probe, found: Match, region: &Region<'_>) {
        let priority = found.priority.0;
        if found.rule != own.rule {
            self.conflict = Some(priority);
        } else if holds(region, probe) {
            self.matched = Some(priority);
        } else {
            return;
        }
        // Only a better region can still change the outcome.
        probe.below = Some(priority);
    }
}

/// Goes on with the boxes that the sample may join, by about `tests` regions.
pub(super) fn slice(step: &mut Step, boxes: &Evolving, rules: &dyn Overlaps, config: &Config, tests: usize) -> Outcome {
    // Boxes of no rule do not grow, because nothing holds them.
    let Some(own) = step.answer else { return point(step) };
    if step.next == 0 && step.grown.is_none() && config.home_first {
        if !rules.home(own, &step.key, &mut step.probe) {
            return Outcome::None;
        }
        let (lo, hi) = step.home.split_at_mut(step.key.len());
        lo.copy_from_slice(&step.probe.lo);
        hi.copy_from_slice(&step.probe.hi);
    }
    loop {
        let Some(mut check) = step.grown.take().or_else(|| next(step, boxes, config)) else { return point(step) };
        let visit = &mut |probe: &mut Probe, found, region: Region<'_>| check.visit(own, probe, found, &region);
        match rules.visit(&mut step.probe, step.cursor, tests, visit) {
            Some(cursor) => {
                (step.cursor, step.grown) = (cursor, Some(check));
                return Outcome::Open;
            }
            None if check.accepts() => return Outcome::Grown(check.number),
            // Without a limit, a sample is tried with all boxes at once.
            None if tests == usize::MAX => {}
            None => return Outcome::Open,
        }
    }
}

/// Begins with the next box of the sample's rule, and makes the probe its hull with the sample.
fn next(step: &mut Step, boxes: &Evolving, config: &Config) -> Option<Check> {
    let tries = config.tries.min(boxes.by_age().len());
    while let Some(&number) = boxes.by_age().get(step.next).filter(|_| step.next < tries) {
        step.next += 1;
        if boxes.answer(number) != step.answer {
            continue;
        }
        let (lo, hi) = boxes.bounds(number).split_at(step.key.len());
        let (home_lo, home_hi) = step.home.split_at(step.key.len());
        let probe = &mut step.probe;
        let mut is_home = true;
        for (word, &value) in step.key.iter().enumerate() {
            (probe.lo[word], probe.hi[word]) = (lo[word].min(value), hi[word].max(value));
            is_home &= home_lo[word] <= probe.lo[word] && probe.hi[word] <= home_hi[word];
        }
        if is_home || !config.home_first {
            (probe.below, step.cursor) = (None, 0);
            return Some(Check { number, matched: None, conflict: None });
        }
    }
    None
}

/// Makes the probe a box of the sample alone.
fn point(step: &mut Step) -> Outcome {
    step.probe.lo.copy_from_slice(&step.key);
    step.probe.hi.copy_from_slice(&step.key);
    Outcome::New
}

/// Whether a region holds all of the box.
///
/// Under a mask it may hold less than its interval, so that such a word has to be a single value.
fn holds(region: &Region<'_>, probe: &Probe) -> bool {
    let inside = |word: usize| region.lo[word] <= probe.lo[word] && probe.hi[word] <= region.hi[word];
    let passes = |word: usize| {
        region.ternary.is_none_or(|(value, mask)| {
            // The bits that vary in the box, and all below them, must be open.
            let varies = (probe.lo[word] ^ probe.hi[word]).checked_ilog2().map_or(0, |top| u32::MAX >> (31 - top));
            mask[word] & varies == 0 && probe.lo[word] & mask[word] == value[word]
        })
    };
    (0..probe.lo.len()).all(|word| inside(word) && passes(word))
}
