//! Result of a choice, and when it still holds.

use super::candidate::{Candidate, Outcome};
use crate::engine::base::Choices;
use crate::engines::registry::{AnyBase, Kind};
use crate::engines::shared::wide::{MOST, Wide};
use crate::rule::{Lowered, RuleId};

/// Largest ratio of times at which a base that changes in place is preferred, if rules change.
///
/// An overlay beside the faster base would cost more.
const CHANGING: f64 = 2.0;

/// Result of a choice, with all candidates.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// Candidates in the order of [`Kind::ALL`].
    pub(crate) candidates: Vec<Candidate>,
    /// Kind that was forced.
    pub(crate) asked: Option<Kind>,
    /// Number of regions when the kind was last chosen by time.
    ///
    /// It is `None` if the kind was not chosen by time.
    pub(crate) timed_with: Option<usize>,
    /// Number of region visits made to compare candidates; a timed lookup counts with its worst case.
    pub(crate) compared: usize,
    /// Whether no candidate keeps the default limits.
    pub(crate) is_over_defaults: bool,
    /// Wide rules with their ranks; without one of them the base may no longer suit.
    pub(crate) wide: [Option<(RuleId, usize)>; MOST],
}

impl Choice {
    /// Returns the kind for `set`, and the number of regions it was chosen with, if the choice still holds.
    ///
    /// It holds if the number of regions has changed by a factor of at most two and all wide rules are still there. No
    /// new rule may hold most keys, either. For example, a choice for 1,000 regions holds from 500 to 2,000. The kind
    /// stays the same, or becomes the kind that changes in place if `in_place` is set and that was hardly slower.
    pub(crate) fn kept(&self, set: &Lowered, wide: &[Wide], in_place: bool) -> Option<(Kind, usize)> {
        let regions = set.region_count();
        let then = self.timed_with.filter(|&then| then <= 2 * regions && regions <= 2 * then)?;
        let was_wide = |rule: RuleId| self.wide.iter().flatten().any(|&(wide, _)| wide == rule);
        let mut others = wide.iter().filter(|wide| wide.is_most).map(|wide| set.rules()[wide.region].rule);
        let left = set.by_rule().filter(|(rule, _)| was_wide(rule.rule)).count();
        if left < self.wide.iter().flatten().count() || others.any(|rule| !was_wide(rule)) {
            return None;
        }
        let chosen = self.candidates.iter().find(|candidate| candidate.outcome == Outcome::Chosen)?;
        let takes_changes = self.candidates.iter().find(|candidate| candidate.kind.changes_in_place())?;
        let pairs = takes_changes.nanos.iter().zip(&chosen.nanos).filter_map(|(own, other)| own.zip(*other));
        let slower = pairs.map(|(own, other)| own / other).reduce(f64::max);
        let takes_over = in_place && slower.is_some_and(|times| times <= CHANGING);
        let kind = if takes_over { takes_changes.kind } else { chosen.kind };
        Some((kind, then))
    }
}

/// Facts about a base for the one that replaces it.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    pub(super) choice: Choice,
    pub(super) choices: Option<Choices>,
}

impl Before {
    pub(crate) fn of(base: &AnyBase, choice: &Choice) -> Self {
        Self { choice: choice.clone(), choices: base.choices() }
    }
}
