//! The engine's parts: those that lookups read, and those that only changes need.

use std::sync::Arc;

use super::block;
use super::columns::Kind;
use super::inserted::Inserted;
use super::layout::{Entry, EntryLayout, Limits, Node, Tree};
use super::writing::FreeBlocks;
use crate::engine::observer::Observer;
use crate::engine::tombstones::{LiveRules, Tombstones};
use crate::raw::{Level, Line};
use crate::rule::Match;
use crate::schema::Schema;

/// Bytes that an `Arc` allocates beside its value: two counts.
const ARC: usize = 2 * size_of::<usize>();

/// Classifier of trees whose nodes select key bits.
#[derive(Clone, Debug)]
pub struct BitSelect {
    pub(super) schema: Schema,
    pub(super) level: Level,
    pub(super) shape: block::Shape,
    /// Form of the columns of blocks.
    pub(super) columns: Kind,
    pub(super) trees: Box<[Tree]>,
    /// Whether the last tree is the overflow tree, for regions that reach too many entries.
    pub(super) has_overflow_tree: bool,
    pub(super) nodes: Box<[Node]>,
    pub(super) table: Box<[Entry]>,
    /// Entry layout: the bits of ranks and of table entries.
    pub(super) layout: EntryLayout,
    pub(super) blocks: Vec<Line>,
    /// Rules that the engine was built with, in order.
    pub(super) matches: Arc<[Match]>,
    pub(super) regions: usize,
    /// Largest number of blocks after changes.
    pub(super) room: usize,
    pub(super) free_blocks: FreeBlocks,
    /// Append block of each node, then of each root. Empty until one is needed.
    pub(super) append_block: Box<[u32]>,
    /// Bitmap of the built rules that have been removed, by position. Empty until one is removed.
    pub(super) removed: Box<[u64]>,
    /// Number of built rules that have been removed.
    pub(super) removed_rules: usize,
    /// Number of regions of the removed built rules.
    pub(super) removed_regions: usize,
    pub(super) inserted: Inserted,
    /// Estimated instructions of a lookup when the roots were chosen.
    pub(super) planned: f64,
    /// Whether the blocks take more than half a mebibyte, so that lookups prefetch them.
    pub(super) is_large: bool,
}

/// Roots of trees with the estimated cost of a lookup when they were chosen.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    pub(super) trees: Box<[Tree]>,
    pub(super) planned: f64,
}

impl BitSelect {
    /// Returns the roots of the built trees, for another build.
    pub(crate) fn roots(&self) -> Roots {
        Roots { trees: self.built_trees().into(), planned: self.planned }
    }

    /// Returns the trees that the engine was built with, without the overflow tree.
    pub(super) fn built_trees(&self) -> &[Tree] {
        &self.trees[..self.trees.len() - usize::from(self.has_overflow_tree)]
    }

    /// Returns the parts of the entry layout that a lookup needs.
    #[inline(always)]
    pub(super) fn limits(&self) -> Limits {
        self.layout.limits()
    }

    /// Returns the rule of a rank, built or inserted.
    #[inline(always)]
    pub(super) fn rule_of(&self, rank: u32) -> Option<Match> {
        if !block::is_rank(rank) {
            return None;
        }
        match self.layout.place(rank) {
            Some(place) => self.matches.get(place).copied(),
            None => self.inserted.of(rank, self.layout),
        }
    }

    pub(crate) fn rules(&self) -> usize {
        self.matches.len() - self.removed_rules + self.inserted.rules()
    }

    /// Returns the most cache lines and region tests of a lookup.
    ///
    /// Every tree's longest list is taken to have at least `blocks` blocks.
    pub(super) fn worst(&self, blocks: usize) -> (usize, usize) {
        let tests: usize = self.trees.iter().map(|tree| tree.longest.max(blocks)).sum();
        let steps: usize = self.trees.iter().map(|tree| tree.levels).sum();
        (tests * self.shape.lines() + 2 * steps + 1, tests * block::BLOCK)
    }

    /// Returns the bytes of the built rules, which all clones share.
    pub(super) fn match_bytes(&self) -> usize {
        ARC + size_of_val(&self.matches[..])
    }

    /// Returns the bytes on the heap by part.
    pub(super) fn bytes(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("nodes", size_of_val(&self.nodes[..])),
            ("tables", size_of_val(&self.table[..])),
            ("blocks", self.blocks.capacity() * size_of::<Line>()),
            ("matches", self.match_bytes()),
            (
                "changes",
                self.inserted.bytes()
                    + self.free_blocks.bytes()
                    + size_of_val(&self.append_block[..])
                    + size_of_val(&self.removed[..]),
            ),
            ("shape", self.shape.bytes() + size_of_val(&self.trees[..])),
        ]
    }
}

/// Tombstones of built rules, looked up by rank. Inserted rules are removed in place.
#[derive(Clone, Copy)]
pub(super) struct Marks<'a> {
    pub(super) tombstones: &'a Tombstones,
    pub(super) layout: EntryLayout,
}

impl Observer for Marks<'_> {}

impl LiveRules for Marks<'_> {
    const ALL: bool = false;

    #[inline(always)]
    fn is_live(self, rank: usize) -> bool {
        self.layout.place(rank as u32).is_none_or(|place| self.tombstones.is_live(place))
    }

    #[inline(always)]
    fn of_eight(self, block: usize) -> u32 {
        (0..8).fold(0, |eight, at| eight | u32::from(self.is_live(8 * block + at)) << at)
    }
}
