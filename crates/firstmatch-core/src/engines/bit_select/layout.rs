//! Nodes, table entries and ranks: how they are laid out.

use crate::engine::selector::Selector;

/// One tree of a [`BitSelect`](super::BitSelect).
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    pub(super) root: Node,
    /// Largest number of nodes on a walk.
    pub(super) levels: usize,
    /// Largest number of blocks of one leaf.
    pub(super) longest: usize,
    /// Number of the root's bits that a region of the tree may leave open; `None` is no limit.
    pub(super) open: Option<u32>,
}

/// Node that indexes its part of the table by selected key bits. Entries are nodes or leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) bits: Selector,
    pub(super) base: u32,
}

/// Table entry: from the highest bit a lower bound of ranks, an index, and the leaf flag.
///
/// The bound is the best rank behind the entry, without the bits that [`EntryLayout`] drops. The index names a node or
/// a leaf's first block.
///
/// ```text
/// rank >> dropped │ index │ 1 if leaf
/// ```
pub(super) type Entry = u32;

pub(super) const LEAF: Entry = 1;
/// Entry that leads nowhere.
pub(super) const EMPTY: Entry = Entry::MAX;

/// Layout of ranks and table entries. Gaps between built ranks are for inserted rules.
///
/// For example, 4,400 rules with indices below 1,700 have ranks 1,024 apart. An entry then has 11 bits for the index
/// and 1 for the leaf flag. The remaining 20 bits are three too few for the largest rank, so that the three lowest
/// bits of ranks are dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryLayout {
    /// Number of bits of an index.
    pub(super) index: u32,
    /// Number of low bits of a rank that do not fit into an entry.
    pub(super) dropped: u32,
    /// Number of low bits of a rank that are 0 for built rules.
    pub(super) between: u32,
    /// Exclusive upper bound of ranks.
    pub(super) end: u32,
}

/// Largest value of [`EntryLayout::between`].
pub(super) const BETWEEN: u32 = 10;
/// Smallest value of [`EntryLayout::between`] for which ranks have 16 bits.
const SHORT_BETWEEN: u32 = 5;

impl EntryLayout {
    /// Lays out indices below `indices` and ranks of `rules` rules; short ranks have 16 bits.
    ///
    /// No rank fills the bits of an entry with ones, because these are the bits of [`EMPTY`].
    pub(super) fn new(indices: usize, rules: usize, is_short: bool) -> Self {
        // At most 2^24 regions are lowered, so some bits are left for the gaps, and ranks are below 2^31.
        let unused = if is_short { u32::BITS - 16 } else { 1 };
        let between = BETWEEN.min((rules as u32 + 2).leading_zeros().saturating_sub(unused));
        let end = (rules as u32 + 1) << between;
        let index = usize::BITS - indices.leading_zeros();
        let room = Entry::BITS.saturating_sub(1 + index);
        let dropped = (0..u32::BITS).find(|&dropped| u64::from(end) >> dropped < (1 << room) - 1).unwrap_or(0);
        Self { index, dropped, between, end }
    }

    /// Whether 16 bits are enough for the ranks of `rules` rules with gaps between them.
    pub(super) fn is_short(rules: usize) -> bool {
        rules + 2 < 1 << (16 - SHORT_BETWEEN)
    }

    /// Returns the rank of built rule number `rules`, counted from 1; 0 gives 0.
    pub(super) fn rank(self, rules: u32) -> u32 {
        rules << self.between
    }

    /// Returns the number of built rules with a rank of at most `rank`.
    #[inline(always)]
    pub(super) fn before(self, rank: u32) -> u32 {
        rank >> self.between
    }

    /// Returns the position of the built rule with this rank; `None` for an inserted rule.
    #[inline(always)]
    pub(super) fn place(self, rank: u32) -> Option<usize> {
        let is_first = rank & ((1 << self.between) - 1) == 0;
        is_first.then(|| self.last_place(rank))
    }

    /// Returns the position of the last built rule with a rank of at most `rank`.
    ///
    /// For a value that is no rank the position is beyond all rules.
    #[inline(always)]
    pub(super) fn last_place(self, rank: u32) -> usize {
        (self.before(rank) as usize).wrapping_sub(1)
    }

    /// Returns the parts of this layout that a lookup needs.
    #[inline(always)]
    pub(super) fn limits(self) -> Limits {
        let Self { index, dropped, end, .. } = self;
        Limits { ranks: end, rounding: (1 << dropped) - 1, dropped, index }
    }

    pub(super) fn entry(self, rank: u32, index: u32, is_leaf: bool) -> Entry {
        (rank >> self.dropped) << (self.index + 1) | index << 1 | if is_leaf { LEAF } else { 0 }
    }
}

/// Parts of the entry layout that a lookup needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) ranks: u32,
    pub(super) rounding: u32,
    pub(super) dropped: u32,
    pub(super) index: u32,
}

impl Limits {
    /// Returns the exclusive upper limit of entries that may lead to a better rank than `rank`.
    ///
    /// For example, with three dropped bits and `rank` 20 the limit is the bound 3, which stands for ranks from 24
    /// on. The bound 2 stands for ranks 16 to 23, of which some are better.
    #[inline(always)]
    pub(super) fn of(self, rank: u32) -> Entry {
        // The rank is at most `ranks`, so the sum does not overflow.
        ((rank.min(self.ranks) + self.rounding) >> self.dropped) << (self.index + 1)
    }

    /// Returns the index of the node or block that `entry` leads to.
    #[inline(always)]
    pub(super) fn index(self, entry: Entry) -> usize {
        ((entry >> 1) & ((1 << self.index) - 1)) as usize
    }

    /// Returns the entry that leads to a block, without a bound.
    #[inline(always)]
    pub(super) fn leaf(self, block: usize) -> Entry {
        (block as Entry) << 1 | LEAF
    }
}
