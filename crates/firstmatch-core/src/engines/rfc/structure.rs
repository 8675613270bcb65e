//! Parts that a lookup reads: leaves, tables and matches.

use super::config::BatchWalk;
use super::leaves::Leaf;
use super::table::Entries;
use crate::engine::Match;
use crate::raw::Level;
use crate::schema::Schema;

/// Classifier that maps classes to classes by tables, up to the first rule that matches.
#[derive(Debug)]
pub struct Rfc {
    pub(super) schema: Schema,
    pub(super) level: Level,
    pub(super) walk: BatchWalk,
    /// Searches of the first phase; their classes fill the first slots.
    pub(super) leaves: Box<[Leaf]>,
    /// Tables in the order in which they are looked up; each fills the next slot.
    pub(super) tables: Box<[Cross]>,
    /// Rule and priority of each rule with a region, in order.
    pub(super) matches: Box<[Match]>,
    /// Number of regions of the rules.
    pub(super) regions: usize,
}

/// Table from the classes of two or three slots to one class.
///
/// The last table has 0 where no rule matches, and otherwise one more than the index of the first rule.
#[derive(Debug)]
pub(super) struct Cross {
    pub(super) slots: [usize; 2],
    pub(super) third: Option<usize>,
    /// Number of classes of the second slot, and of the third.
    pub(super) counts: [u32; 2],
    pub(super) entries: Entries,
    /// Number of classes; of the last table, the number of rules and one more.
    pub(super) classes: u32,
    /// Whether the entries of a batch are prefetched.
    pub(super) prefetches: bool,
}

impl Rfc {
    /// Returns the bytes on the heap by part.
    pub(super) fn bytes(&self) -> Vec<(&'static str, usize)> {
        let leaves: usize = self.leaves.iter().map(Leaf::bytes).sum();
        let mut all = vec![("leaves", size_of_val(&self.leaves[..]) + leaves)];
        let named = self.tables.iter().zip(NAMES);
        all.extend(named.map(|(table, &name)| (name, table.entries.bytes())));
        let others: usize = self.tables.iter().skip(NAMES.len()).map(|table| table.entries.bytes()).sum();
        all.extend((others > 0).then_some(("other tables", others)));
        all.push(("operands", size_of_val(&self.tables[..])));
        all.push(("matches", size_of_val(&self.matches[..])));
        all
    }

    /// Number of cache lines that a lookup reads, without the match.
    pub(super) fn lines(&self) -> usize {
        self.leaves.iter().map(Leaf::lines).sum::<usize>() + self.tables.len()
    }
}

/// Names of the tables in statistics, in the order in which they are looked up.
const NAMES: &[&str] = &[
    "table 1", "table 2", "table 3", "table 4", "table 5", "table 6", "table 7", "table 8", "table 9", "table 10",
    "table 11", "table 12",
];
