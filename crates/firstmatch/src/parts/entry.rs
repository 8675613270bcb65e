//! What entries of several engines begin with: `lo` of every lane, `hi` of every lane, the priority, the rule's id.

use crate::engine::Match;
use crate::rule::{Priority, RuleId};

/// The words of rule and priority, behind the bounds.
pub(crate) fn match_words(rule: Match) -> [u32; 4] {
    let (priority, id) = (rule.priority.0, rule.rule.get());
    [priority as u32, (priority >> 32) as u32, id as u32, (id >> 32) as u32]
}

#[inline(always)]
pub(crate) fn priority_of(entry: &[u32], lanes: usize) -> Priority {
    Priority(u64::from(entry[2 * lanes + 1]) << 32 | u64::from(entry[2 * lanes]))
}

#[inline(always)]
pub(crate) fn match_of(entry: &[u32], lanes: usize) -> Option<Match> {
    let id = u64::from(entry[2 * lanes + 3]) << 32 | u64::from(entry[2 * lanes + 2]);
    RuleId::from_u64(id).map(|rule| Match { rule, priority: priority_of(entry, lanes) })
}
