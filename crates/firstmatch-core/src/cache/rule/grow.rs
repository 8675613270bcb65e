//! Boxes that grow to the hull of their samples, as in the paper (Algorithm 1).
//!
//! For example, a box of the samples 2 and 5 is 2 to 5 if all of it is one rule's.

use super::check::BoxCheck;
use super::config::Config;
use super::evolving::Evolving;
use super::step::{Growing, Outcome, Step};
use crate::engine::Overlaps;

/// Continues with the boxes that the sample may join, by about `tests` regions.
pub(super) fn slice(step: &mut Step, boxes: &Evolving, rules: &dyn Overlaps, config: &Config, tests: usize) -> Outcome {
    // Boxes of no rule do not grow, because no region holds them.
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
        let Some(mut growing) = step.grown.take().or_else(|| next(step, boxes, config)) else { return point(step) };
        let next = rules.visit(&mut step.probe, step.cursor, tests, &mut |probe, found, region| {
            growing.check.visit(found.rule == own.rule, probe, found, &region);
        });
        match next {
            Some(cursor) => {
                (step.cursor, step.grown) = (cursor, Some(growing));
                return Outcome::Open;
            }
            None if growing.check.accepts() => return Outcome::Grown(growing.number),
            // Without a limit, a sample is tried with all boxes at once.
            None if tests == usize::MAX => {}
            None => return Outcome::Open,
        }
    }
}

/// Begins with the next box of the sample's rule, and makes the probe its hull with the sample.
fn next(step: &mut Step, boxes: &Evolving, config: &Config) -> Option<Growing> {
    let tries = config.tries.min(boxes.by_age().len());
    while let Some(&number) = boxes.by_age().get(step.next).filter(|_| step.next < tries) {
        step.next += 1;
        if boxes.answer(number).map(|answer| answer.rule) != step.answer.map(|answer| answer.rule) {
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
            return Some(Growing { number, check: BoxCheck::default() });
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
