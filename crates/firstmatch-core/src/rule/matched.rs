//! The answer of a lookup.

use super::id::{Priority, RuleId};

/// Rule that matched a packet.
///
/// ```
/// use firstmatch_core::rule::Priority;
/// use firstmatch_core::{Match, RuleId};
///
/// let best = Some(Match { rule: RuleId::new(4, 0), priority: Priority(40) });
/// assert!(Match::wins(Priority(39), &best) && !Match::wins(Priority(41), &best));
/// assert!(Match::wins(Priority(41), &None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// Id of the rule.
    pub rule: RuleId,
    /// Priority of the rule; the smaller wins.
    pub priority: Priority,
}

impl Match {
    /// Whether a rule of this priority wins over `best`.
    #[inline]
    pub fn wins(priority: Priority, best: &Option<Self>) -> bool {
        best.is_none_or(|b| priority < b.priority)
    }

    /// Replaces `best` if this match is better.
    #[inline(always)]
    pub(crate) fn improve(self, best: &mut Option<Self>) {
        if Self::wins(self.priority, best) {
            *best = Some(self);
        }
    }
}
