//! A lookup in parts of the rules: each step improves on the best match of the steps before it.

use std::sync::Arc;

use firstmatch_core::{Classifier, RuleId, RuleSet};

use super::step::{LookupMessage, Step};

/// Divides rules into `parts` sets of consecutive rules, whose sizes differ by at most one rule.
///
/// Rules keep their ids and priorities. For example, 5 rules in 2 parts give the first 2 and the last 3.
///
/// # Panics
/// If `parts` is 0.
pub fn divide(set: &RuleSet, parts: usize) -> Vec<RuleSet> {
    let ids: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
    let part = |at: usize| {
        let own = at * ids.len() / parts..(at + 1) * ids.len() / parts;
        let mut part = set.clone();
        for (_, &id) in ids.iter().enumerate().filter(|(index, _)| !own.contains(index)) {
            part.remove(id).expect("the id is of a rule of the set");
        }
        part
    };
    assert!(parts > 0, "rules are divided into at least one part");
    (0..parts).map(part).collect()
}

/// Returns a step for each engine, `part 1` and so on; the engines should come in order of priority.
pub fn steps<T: LookupMessage>(engines: impl IntoIterator<Item = Arc<dyn Classifier>>) -> Vec<Step<T>> {
    let step = |(at, engine)| Step::improving(format!("part {}", at + 1), engine);
    engines.into_iter().enumerate().map(step).collect()
}
