//! Boxes that are carved: regions from which those of better rules are cut away.
//!
//! For example, rule 1 is 1 to 9 and the better rule 0 is 4 to 5. A sample of 7 makes the box 6 to 9.

use super::step::{Outcome, Step};
use crate::engine::{Overlaps, Probe};
use crate::rule::Region;
use crate::schema::Word;

/// Continues the box of the current sample, by about `tests` regions.
pub(super) fn slice(step: &mut Step, rules: &dyn Overlaps, words: &[Word], tests: usize) -> Outcome {
    if !std::mem::replace(&mut step.has_begun, true) && !begin(step, rules, words) {
        return Outcome::None;
    }
    let (key, own) = (&step.key, step.answer);
    let mut is_right = true;
    let next = rules.visit(&mut step.probe, step.cursor, tests, &mut |probe, found, region| {
        if Some(found.rule) != own.map(|own| own.rule) {
            is_right &= cut(probe, key, &region);
        }
    });
    match next {
        _ if !is_right => Outcome::None,
        Some(next) => {
            step.cursor = next;
            Outcome::Open
        }
        None => Outcome::New,
    }
}

/// Begins with the region of the sample's rule, or with everything where no rule matches.
fn begin(step: &mut Step, rules: &dyn Overlaps, words: &[Word]) -> bool {
    let probe = &mut step.probe;
    probe.below = step.answer.map(|own| own.priority.0);
    match step.answer {
        Some(own) => rules.home(own, &step.key, probe),
        None => {
            probe.lo.fill(0);
            probe.hi.iter_mut().zip(words).for_each(|(hi, word)| *hi = word.max);
            true
        }
    }
}

/// Cuts a region that does not hold the key off the box, on the word that keeps most of the box.
///
/// Returns whether the region does not hold the key.
fn cut(probe: &mut Probe, key: &[u32], region: &Region<'_>) -> bool {
    let mut best: Option<(f64, usize, [u32; 2])> = None;
    for (word, &value) in key.iter().enumerate() {
        let [lo, hi] = [probe.lo[word], probe.hi[word]];
        let mut candidate = |from: u32, to: u32| {
            let share = (f64::from(to - from) + 1.0) / (f64::from(hi - lo) + 1.0);
            if best.is_none_or(|(most, ..)| share > most) {
                best = Some((share, word, [from, to]));
            }
        };
        if value < region.lo[word] {
            candidate(lo, hi.min(region.lo[word] - 1));
        }
        if value > region.hi[word] {
            candidate(lo.max(region.hi[word] + 1), hi);
        }
        if let Some((values, masks)) = region.ternary {
            let differs = (value ^ values[word]) & masks[word];
            if differs != 0 {
                // All values that agree with the key from this bit on differ from the region there.
                let below = (1 << differs.ilog2()) - 1;
                candidate(lo.max(value & !below), hi.min(value | below));
            }
        }
    }
    let Some((_, word, [lo, hi])) = best else { return false };
    (probe.lo[word], probe.hi[word]) = (lo, hi);
    true
}
