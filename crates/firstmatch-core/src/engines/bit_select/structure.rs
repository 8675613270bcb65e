//! The engine's parts: what lookups read, and beside it what changes alone need.

use std::sync::Arc;

use super::added::Added;
use super::block;
use super::columns::Kind;
use super::layout::{Entry, Limits, Node, Parting, Tree};
use super::writing::{Place, Spare};
use crate::engine::tombstones::{Alive, Dead};
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
    pub(super) has_wide: bool,
    pub(super) nodes: Box<[Node]>,
    pub(super) table: Box<[Entry]>,
    /// Entry layout: the bits of ranks and of table entries.
    pub(super) parting: Parting,
    pub(super) blocks: Vec<Line>,
    /// Rules that the engine was built with, in order.
    pub(super) matches: Arc<[Match]>,
    pub(super) regions: usize,
    /// Largest number of blocks that changes may bring it to.
    pub(super) room: usize,
    pub(super) spare: Spare,
    /// Append block of each node, then of each root. Empty until one is needed.
    pub(super) filling: Box<[u32]>,
    /// Bitmap of the built rules that have been removed, by position. Empty until one is removed.
    pub(super) gone: Box<[u64]>,
    /// Number of built rules that have been removed.
    pub(super) gone_rules: usize,
    /// Number of regions of the removed built rules.
    pub(super) gone_regions: usize,
    pub(super) added: Added,
    /// Dirty list: places where this replica may differ from the other one.
    pub(super) touched: Vec<Place>,
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
        Roots { trees: self.homes().into(), planned: self.planned }
    }

    /// Returns the trees that the engine was built with, without the overflow tree.
    pub(super) fn homes(&self) -> &[Tree] {
        &self.trees[..self.trees.len() - usize::from(self.has_wide)]
    }

    /// Returns the parts of the entry layout that a lookup needs.
    #[inline(always)]
    pub(super) fn limits(&self) -> Limits {
        let Parting { index, dropped, end, .. } = self.parting;
        Limits { ranks: end, rounding: (1 << dropped) - 1, dropped, index }
    }

    /// Returns the rule of a rank, built or inserted.
    #[inline(always)]
    pub(super) fn rule_of(&self, rank: u32) -> Option<Match> {
        if !block::is_rank(rank) {
            return None;
        }
        match self.parting.place(rank) {
            Some(place) => self.matches.get(place).copied(),
            None => self.added.of(rank, self.parting),
        }
    }

    pub(crate) fn rules(&self) -> usize {
        self.matches.len() - self.gone_rules + self.added.rules()
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
                self.added.bytes()
                    + self.spare.bytes()
                    + size_of_val(&self.filling[..])
                    + size_of_val(&self.gone[..])
                    + self.touched.capacity() * size_of::<Place>(),
            ),
            ("shape", self.shape.bytes() + size_of_val(&self.trees[..])),
        ]
    }
}

/// Tombstones of built rules, looked up by rank. Inserted rules are removed in place.
#[derive(Clone, Copy)]
pub(super) struct Marks<'a> {
    pub(super) dead: &'a Dead,
    pub(super) parting: Parting,
}

impl Alive for Marks<'_> {
    const ALL: bool = false;

    #[inline(always)]
    fn is_alive(self, rank: usize) -> bool {
        self.parting.place(rank as u32).is_none_or(|place| self.dead.is_alive(place))
    }

    #[inline(always)]
    fn of_eight(self, block: usize) -> u32 {
        (0..8).fold(0, |eight, at| eight | u32::from(self.is_alive(8 * block + at)) << at)
    }
}
