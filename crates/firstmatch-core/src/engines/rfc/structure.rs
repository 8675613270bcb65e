//! Parts that a lookup reads: leaves, tables and matches.

use super::config::{BatchWalk, BitCount};
use super::leaves::Leaf;
use super::table::Cells;
use crate::engine::Match;
use crate::raw::Level;
use crate::schema::Schema;

/// Classifier that maps classes to classes by tables, up to the first rule that matches.
#[derive(Debug)]
pub struct Rfc {
    pub(super) schema: Schema,
    pub(super) level: Level,
    pub(super) walk: BatchWalk,
    pub(super) count: BitCount,
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
    /// Number of classes of the second slot, and of the third; with shifts, the next powers of two.
    pub(super) counts: [u32; 2],
    /// Binary logarithms of both, if places are found by shifts.
    pub(super) shifts: Option<[u32; 2]>,
    pub(super) cells: Cells,
    /// Number of entries.
    pub(super) length: usize,
    /// Number of classes; of the last table, the number of rules and one more.
    pub(super) classes: u32,
    /// Whether the entries of a batch are prefetched.
    pub(super) prefetches: bool,
}

/// Search or table that fills a slot.
pub(super) enum Slot<'a> {
    Leaf(&'a Leaf),
    Table(&'a Cross),
}

impl Rfc {
    /// Returns the search or table that fills slot `slot`.
    #[inline(always)]
    pub(super) fn slot(&self, slot: usize) -> Slot<'_> {
        match self.leaves.get(slot) {
            Some(leaf) => Slot::Leaf(leaf),
            None => Slot::Table(&self.tables[slot - self.leaves.len()]),
        }
    }

    /// Returns the bytes on the heap by part.
    pub(super) fn bytes(&self) -> Vec<(&'static str, usize)> {
        let leaves: usize = self.leaves.iter().map(Leaf::bytes).sum();
        let mut all = vec![("leaves", size_of_val(&self.leaves[..]) + leaves)];
        let (mut others, mut other_accessories) = (0, 0);
        for (at, Cross { cells, .. }) in self.tables.iter().enumerate() {
            let (bytes, accessories) = (cells.bytes(), cells.accessory_bytes());
            match NAMES.get(at) {
                Some(&[name, of_accessories]) => {
                    all.push((name, bytes));
                    all.extend((accessories > 0).then_some((of_accessories, accessories)));
                }
                None => (others, other_accessories) = (others + bytes, other_accessories + accessories),
            }
        }
        let rest = [("other tables", others), ("other accessories", other_accessories)];
        all.extend(rest.into_iter().filter(|&(_, bytes)| bytes > 0));
        all.push(("operands", size_of_val(&self.tables[..])));
        all.push(("matches", size_of_val(&self.matches[..])));
        all
    }

    /// Number of cache lines that a lookup reads, without the match.
    pub(super) fn lines(&self) -> usize {
        let of_table = |table: &Cross| if matches!(table.cells, Cells::Plain(_)) { 1 } else { 3 };
        self.leaves.iter().map(Leaf::lines).sum::<usize>() + self.tables.iter().map(of_table).sum::<usize>()
    }

    /// Counts the bitmaps of compact tables, the bits that are set in them, and bitmaps by their bits.
    pub(super) fn bitmaps(&self) -> Option<[(&'static str, u64); 4]> {
        if self.tables.iter().all(|table| matches!(table.cells, Cells::Plain(_))) {
            return None;
        }
        let mut counts = [("bitmaps", 0), ("bits set", 0), ("bitmaps of one bit", 0), ("bitmaps of over 8 bits", 0)];
        for bits in self.tables.iter().flat_map(|table| table.cells.bits_set()) {
            let more = [1, u64::from(bits), u64::from(bits == 1), u64::from(bits > 8)];
            counts.iter_mut().zip(more).for_each(|((_, count), more)| *count += more);
        }
        Some(counts)
    }
}

/// Names of tables and their accessory tables in statistics, in the order in which tables are looked up.
const NAMES: &[[&str; 2]] = &[
    ["table 1", "accessories 1"],
    ["table 2", "accessories 2"],
    ["table 3", "accessories 3"],
    ["table 4", "accessories 4"],
    ["table 5", "accessories 5"],
    ["table 6", "accessories 6"],
    ["table 7", "accessories 7"],
    ["table 8", "accessories 8"],
    ["table 9", "accessories 9"],
    ["table 10", "accessories 10"],
    ["table 11", "accessories 11"],
    ["table 12", "accessories 12"],
];
