//! Choice of the engine that serves a rule set.
//!
//! Every engine that fits is timed, or the first in the order of kinds is chosen. The last kind fits whenever any does.

use super::candidate::{FEW, Outcome};
use super::choice::{Before, Choice};
use super::config::Config;
use super::sample::sample;
use super::strategy::Strategy;
use super::trials::Trials;
use crate::engine::budget::Visits;
use crate::engines::registry::AnyBase;
use crate::engines::shared::wide::wide;
use crate::error::BuildError;
use crate::rule::Lowered;

/// Builds the base of a rule set within `run_bytes` bytes.
///
/// `before` describes the base that it replaces. If there is one, rules that have outgrown the forced kind get the
/// first kind by order that fits.
///
/// # Errors
/// If no kind fits, or if the forced kind does not fit and there is no `before`. The error is that of the last attempt.
pub(crate) fn choose(
    set: &Lowered,
    config: &Config,
    run_bytes: usize,
    before: Option<&Before>,
) -> Result<(AnyBase, Choice), BuildError> {
    // Some of the regions stand for all if these are too many.
    let some = set.has_far_more_regions().then(|| sample(set));
    let shown = some.as_ref().unwrap_or(set);
    let regions = shown.region_count();
    let is_timed = config.strategy == Strategy::Measure && regions > FEW;
    let wide = if regions > FEW { wide(shown.regions(), &Visits::default()) } else { Vec::new() };
    let mut trials = Trials::new(set, shown, config, run_bytes, &wide);
    trials.like = before.and_then(|before| before.choices.as_ref());
    if is_timed
        && let Some((kind, then)) = before.and_then(|before| before.choice.kept(shown, &wide, config.changes_in_place))
        && let Some(base) = trials.build(kind, 0)?
        && trials.badness(&base) <= 1.0
    {
        return Ok(trials.end(base, Outcome::Kept, Some(then)));
    }
    if is_timed {
        trials.like = None;
        if let Some(base) = trials.fastest(config.trial)? {
            return Ok(trials.end(base, Outcome::Slower, Some(regions)));
        }
        // Each candidate had to fit beside the keys of its trial. Without these keys, one may keep the cap on builds.
        trials.try_alone();
    }
    if let Some(base) = trials.first_by_order()? {
        return Ok(trials.end(base, Outcome::NotNeeded, None));
    }
    if some.is_some() && config.strategy.forced().is_none() {
        // No engine of products fits.
        set.expanded()?;
        trials.allow_regions();
        if let Some(base) = trials.first_by_order()? {
            return Ok(trials.end(base, Outcome::NotNeeded, None));
        }
    }
    if config.strategy.forced().is_some() && before.is_some() {
        trials.ask_for_any();
        if let Some(base) = trials.first_by_order()? {
            return Ok(trials.end(base, Outcome::NotNeeded, None));
        }
    }
    // At least one kind was tried, and each that failed has left a reason.
    Err(trials.refusal.unwrap_or_else(|| BuildError::bytes(0, run_bytes)))
}
