//! Counts of the results of each rule, which survive builds.
//!
//! Each rule has one counter from the first build with it until it is removed. Every table that has the rule refers to
//! this counter, so that lookups in an old table count for the same rule as those in the new one.
//!
//! # Invariants
//! - Each counter is the table's or among those of [`Gone`], never both: `Context::publish` moves them under the lock
//!   that replaces the table. So the sum over both never falls, and no result is lost (test
//!   `no_result_is_lost_beside_a_writer`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kept::Head;

/// Rule with its counter.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) priority: i32,
    pub(crate) userdata: u32,
    counter: Arc<AtomicU64>,
}

impl Counted {
    /// Returns a rule without results.
    pub(crate) fn new(head: Head) -> Self {
        Self { priority: head.priority, userdata: head.userdata, counter: Arc::default() }
    }

    /// Counts a result.
    #[inline]
    pub(crate) fn count(&self) {
        self.counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of results.
    pub(crate) fn results(&self) -> u64 {
        self.counter.load(Ordering::Relaxed)
    }
}

/// Number of bytes on the heap of a counter: the number and two counts of references.
pub(crate) const COUNTER_BYTES: usize = size_of::<AtomicU64>() + 2 * size_of::<usize>();

/// Results of the rules that have left the table.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    /// Results of rules that no table has any more.
    total: u64,
    /// Rules that a thread may still count in an old table.
    used: Vec<Option<Counted>>,
}

impl Gone {
    /// Adds rules that left the table.
    pub(crate) fn add(&mut self, rules: Vec<Option<Counted>>) {
        self.settle();
        match self.used.is_empty() {
            true => self.used = rules,
            false => self.used.extend(rules),
        }
    }

    /// Returns the number of results.
    pub(crate) fn results(&mut self) -> u64 {
        self.settle();
        self.total + self.used.iter().flatten().map(Counted::results).sum::<u64>()
    }

    /// Adds up the rules that no table has any more, and frees their memory.
    fn settle(&mut self) {
        let used = std::mem::take(&mut self.used);
        for mut rule in used.into_iter().flatten() {
            match Arc::get_mut(&mut rule.counter) {
                Some(results) => self.total += *results.get_mut(),
                None => self.used.push(Some(rule)),
            }
        }
    }
}
