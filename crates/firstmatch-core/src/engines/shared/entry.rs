//! First words of the entries of several engines.
//!
//! The words are `lo` of every key word, `hi` of every key word, two for the priority and two for the rule's id. For
//! example, an entry of the IPv4 5-tuple has 5 + 5 + 2 + 2 = 14 words: 56 bytes, less than a cache line.

use crate::engine::Match;
use crate::rule::{Priority, RuleId};

/// Returns the words of priority and id, which stand behind the bounds.
pub(crate) fn match_words(rule: Match) -> [u32; 4] {
    let (priority, id) = (rule.priority.0, rule.rule.get());
    [priority as u32, (priority >> 32) as u32, id as u32, (id >> 32) as u32]
}

/// Returns the priority of an entry over `key_words` key words.
#[inline(always)]
pub(crate) fn priority_of(entry: &[u32], key_words: usize) -> Priority {
    Priority(u64::from(entry[2 * key_words + 1]) << 32 | u64::from(entry[2 * key_words]))
}

/// Returns the rule and priority of an entry; `None` if the id is not that of a rule.
#[inline(always)]
pub(crate) fn match_of(entry: &[u32], key_words: usize) -> Option<Match> {
    let id = u64::from(entry[2 * key_words + 3]) << 32 | u64::from(entry[2 * key_words + 2]);
    RuleId::from_u64(id).map(|rule| Match { rule, priority: priority_of(entry, key_words) })
}
