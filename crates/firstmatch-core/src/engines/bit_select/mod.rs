//! `bit_select`: a few trees of bit-selecting nodes over blocks of eight regions.
//!
//! # Idea
//! A node concatenates selected bits of a key into the index of a table entry.
//!
//! The bits come from at most two fields; of a field in several pairs of key words, each pair counts as one. They
//! need be neither leading nor adjacent, because rules often share their leading bits and cuts from the top would
//! waste levels. For example, where every source address begins with 10, none of its first eight bits is selected:
//! they split no list.
//!
//! A region leaves a bit open if keys with either value of the bit may lie in it. Such a region is copied into both
//! halves of the table. Bits are chosen one by one: each time the bit that gives the shortest lists for the copies it
//! makes. A region that leaves many of a root's bits open would be copied often, so it goes to another tree with
//! other bits. Regions thus separate by the fields in which they are specific. For example, 2,000 rules for single
//! source addresses and 2,000 for single destination addresses build two trees, one over source bits and one over
//! destination bits.
//!
//! On the ClassBench sets most walks are one node and one leaf a tree.
//!
//! The number of bits that a region may leave open is chosen tree by tree. A beam search tries a few values for each
//! tree and keeps the two plans whose lookups cost least. The cost is counted on keys drawn inside the regions. The
//! choice therefore depends on the rules alone, and the same rules build the same trees.
//!
//! Neighbouring short lists share a block of eight, because each region is compared whole: regions of another leaf do
//! no harm. Blocks thus stay nearly full however fine the tables are.
//!
//! # Layout in memory
//! A key consists of 32-bit words; an address of IPv6 takes four of them. A region is one interval per key word.
//!
//! - *Nodes*, 32 bytes: two pairs of neighbouring key words, each read as 64 bits, a mask for each, the start of the
//!   table.
//! - *Tables*, 4 bytes an entry: a lower bound of the ranks behind the entry, then a node or the leaf's first block.
//!   The low bits of the bound are dropped where they do not fit. Equal lists of one tree share their node or leaf.
//! - *Blocks*: eight ranks in ascending order, the block that continues the list, then the key words column by
//!   column, as narrow as their values allow. A bound takes 8, 16 or 32 bits; a ternary word takes a value and a mask
//!   of 32 bits each. A longer list continues in further blocks.
//! - *Matches*: rule and priority by rank, 16 bytes a rule. Ranks are up to 1,024 apart.
//!
//! Columns have special forms for common cases:
//!
//! - An optional word of 8 or 16 bits has one value more than these bits hold, for absent. A bit of the region says
//!   instead whether the region requires the field.
//! - A field that is a prefix in every region takes 4 bytes per key word instead of 8. One more byte counts its open
//!   bits.
//! - A word of 8 bits for which every region asks for one value or all takes 1 byte.
//! - From 4,096 regions on (`Config::lean`), words that no region constrains may have no column, and ranks of at most
//!   2,045 rules may have 16 bits. This is used only if it makes blocks smaller: a block of a list of IPv4 addresses
//!   is then one cache line.
//!
//! A block of an IPv4 5-tuple is three cache lines, or four if some address is no prefix or some protocol a range. A
//! block of an IPv6 5-tuple is six to ten lines. For example, the three lines of an IPv4 5-tuple hold:
//!
//! ```text
//! line 0   ranks 8 × 4 B │ next block 4 B │ required ports 4 B │ protocols 8 × 1 B │ open address bits 2 × 8 × 1 B
//! line 1   lower port bounds 8 × (2 + 2) B │ upper port bounds 8 × (2 + 2) B
//! line 2   source prefixes 8 × 4 B │ destination prefixes 8 × 4 B
//! ```
//!
//! # Changes
//! A replica that no reader uses takes rules in and out in place; [`meta`](crate::live) has two replicas. An inserted
//! rule gets a rank between those of its neighbours and is added to the leaves that it reaches. If the block there is
//! full, the entries that reach it get a block of their own, with their regions of the old one. A removed rule is
//! taken out of its leaves. Neither change moves anything else. Changed places are put on a dirty list, from which
//! the other replica copies them instead of repeating the change.
//!
//! An inserted rule that reaches more than 128 entries goes to the overflow list, which is tested for every key
//! without a better match. If `n` blocks were built, there may be `2 n + min(n, 512) + 64`. When these are used up,
//! unreferenced blocks are searched for. A change may therefore take as long as one pass over tables and blocks.
//!
//! Some changes are refused, and the caller has to make them elsewhere:
//!
//! - an insertion that makes a list longer than four blocks, or for which no block is left,
//! - a 33rd rule between the same two built rules, or one for which no rank is free,
//! - a rule with a region that the columns cannot hold,
//! - the removal of a built rule that reaches more than 128 entries.
//!
//! # Cost
//! A lookup takes 32 keys at once through the roots of up to four trees, in three passes. In the first pass each key
//! follows the entry with the lowest bound to its leaf, level by level, and is tested against the leaf's block. The
//! second pass does the same for the next entry, if its bound still permits a better rank. The third pass takes all
//! remaining entries that do. Each pass waits for the slowest key of the one before, so there are only three for four
//! trees.
//!
//! The next block of a longer list is tested only if the one before had no hit, after the other keys. Remaining work
//! is listed without branches; only a list that continues and a field that the key lacks take one. Up to three keys
//! are looked up one by one. There the leaves of the two best entries are both tested, because a branch misprediction
//! takes longer than the second test. If the blocks take more than half a mebibyte, the target of an entry is
//! prefetched as soon as it is known.
//!
//! A lookup visits at most trees × (levels + blocks of the longest leaf); `stats()` has both. A build reads each list
//! once for each bit that it selects. A list of more than 2,048 regions is judged by a sample. Each step of the
//! search builds at most eight candidate trees: four for each of two plans.
//!
//! Copies are bounded per node and per tree. Trees are discarded if they take more than 256 KiB and more than five
//! times the memory that holds every region once. No rule set can therefore make the build explode: regions that no
//! bits separate become long leaves. Up to 2,048 regions may use all of that memory, because one tree of many copies
//! can be the fastest, most of all for single keys.
//!
//! # Paper
//! None. Cutting trees go back to Gupta and McKeown's HiCuts (Hot Interconnects 1999); Daly and Torng's ByteCuts
//! (INFOCOM 2018) extracts interior bits.
//!
//! # Deviations
//! None.

mod added;
mod asked;
mod bits;
mod block;
mod build;
mod change;
mod columns;
mod cost;
mod lookup;
mod pack;
mod plan;
mod prefixes;
mod selector;
mod single;
#[cfg(test)]
mod tests;
mod tree;
mod work;

use std::ops::Range;
use std::sync::Arc;

use added::Added;
use change::Place;
pub(crate) use selector::{Selector, pair};

use crate::engine::base::Base;
use crate::engine::budget::{Budget, Visits};
use crate::engine::cost::Work;
use crate::engine::tombstones::{Alive, All, Dead};
use crate::engine::{Engine, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::{Level, Line};
use crate::rule::{Lowered, RuleId};
use crate::schema::Schema;

/// Configuration of a [`BitSelect`] build.
#[derive(Clone, Debug)]
pub struct Config {
    /// Memory that the built engine may take.
    pub budget: Budget,
    /// Instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// Shape of the trees; `None` searches for the trees with the fastest lookups.
    pub shape: Option<Shape>,
    /// Number of regions from which blocks may omit columns that no region constrains.
    ///
    /// Columns are omitted only if that makes blocks smaller. Smaller sets keep a column for every field, because
    /// rules inserted later may constrain it.
    pub lean: usize,
}

impl Default for Config {
    /// Returns no budget, the best instruction set, the fastest trees and `lean` 4,096.
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, shape: None, lean: 4096 }
    }
}

/// Limits on the trees of a build.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Largest number of trees that regions are shared out to; at least one.
    pub trees: usize,
    /// Largest number of levels of a tree above its leaves; at least one.
    pub levels: usize,
    /// Largest number of table entries of a node for each region in its list.
    pub fan_out: usize,
    /// Number of a root's bits that a region may leave open before it goes to the next tree.
    pub open: u32,
    /// Largest number of copies per region, in the lists of one node.
    ///
    /// The same factor bounds the copies in all nodes below the root of one tree.
    pub growth: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { trees: 4, levels: 3, fan_out: 4, open: 2, growth: 4.0 }
    }
}

/// Bytes that an `Arc` allocates beside its value: two counts.
const ARC: usize = 2 * size_of::<usize>();

/// Classifier of trees whose nodes select key bits.
#[derive(Clone, Debug)]
pub struct BitSelect {
    schema: Schema,
    level: Level,
    shape: block::Shape,
    trees: Box<[Tree]>,
    /// Whether the last tree is the overflow tree, for regions that reach too many entries.
    has_wide: bool,
    nodes: Box<[Node]>,
    table: Box<[Entry]>,
    /// Entry layout: the bits of ranks and of table entries.
    parting: Parting,
    blocks: Vec<Line>,
    /// Rules that the engine was built with, in order.
    matches: Arc<[Match]>,
    regions: usize,
    /// Largest number of blocks that changes may bring it to.
    room: usize,
    spare: change::Spare,
    /// Append block of each node, then of each root. Empty until one is needed.
    filling: Box<[u32]>,
    /// Bitmap of the built rules that have been removed, by position. Empty until one is removed.
    /// Number of built rules that have been removed.
    gone: Box<[u64]>,
    /// Number of regions of the removed built rules.
    gone_rules: usize,
    gone_regions: usize,
    added: Added,
    /// Dirty list: places where this replica may differ from the other one.
    touched: Vec<Place>,
    /// Estimated instructions of a lookup when the roots were chosen.
    planned: f64,
    /// Whether the blocks take more than half a mebibyte, so that lookups prefetch them.
    is_large: bool,
}

/// Roots of trees with the estimated cost of a lookup when they were chosen.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    trees: Box<[Tree]>,
    planned: f64,
}

/// One tree of a [`BitSelect`].
#[derive(Clone, Copy, Debug)]
struct Tree {
    root: Node,
    /// Largest number of nodes on a walk.
    levels: usize,
    /// Largest number of blocks of one leaf.
    longest: usize,
    /// Number of the root's bits that a region of the tree may leave open; `None` is no limit.
    open: Option<u32>,
}

/// Node that indexes its part of the table by selected key bits. Entries are nodes or leaves.
#[derive(Clone, Copy, Debug)]
struct Node {
    bits: Selector,
    base: u32,
}

/// Table entry: from the highest bit a lower bound of ranks, an index, and the leaf flag.
///
/// The bound is that of the best rank behind the entry, without the bits that [`Parting`] drops. The index is that of
/// a node or of a leaf's first block.
///
/// ```text
/// rank >> dropped │ index │ 1 if leaf
/// ```
type Entry = u32;

const LEAF: Entry = 1;
/// Entry that leads nowhere.
const EMPTY: Entry = Entry::MAX;

/// Layout of ranks and table entries. Gaps between built ranks are for inserted rules.
///
/// For example, 4,400 rules with indices below 1,700 have ranks 1,024 apart. An entry then has 11 bits for the index
/// and 1 for the leaf flag. The remaining 20 bits are three too few for the largest rank, so that the three lowest
/// bits of ranks are dropped.
#[derive(Clone, Copy, Debug)]
struct Parting {
    /// Number of bits of an index.
    index: u32,
    /// Number of low bits of a rank that do not fit into an entry.
    dropped: u32,
    /// Number of low bits of a rank that are 0 for built rules.
    between: u32,
    /// Exclusive upper bound of ranks.
    end: u32,
}

/// Largest number of rank bits between two built rules, and the smallest for short ranks.
const BETWEEN: u32 = 10;
const SHORT_BETWEEN: u32 = 5;

impl Parting {
    /// Lays out indices below `indices` and ranks of `rules` rules; short ranks have 16 bits.
    ///
    /// No rank fills the bits of an entry with ones, because these are the bits of [`EMPTY`].
    fn new(indices: usize, rules: usize, is_short: bool) -> Self {
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
    fn is_short(rules: usize) -> bool {
        rules + 2 < 1 << (16 - SHORT_BETWEEN)
    }

    /// Returns the rank of built rule number `rules`, counted from 1; 0 gives 0.
    fn rank(self, rules: u32) -> u32 {
        rules << self.between
    }

    /// Returns the number of built rules with a rank of at most `rank`.
    #[inline(always)]
    fn before(self, rank: u32) -> u32 {
        rank >> self.between
    }

    /// Returns the position of the built rule with this rank; `None` for an inserted rule.
    #[inline(always)]
    fn place(self, rank: u32) -> Option<usize> {
        let is_first = rank & ((1 << self.between) - 1) == 0;
        is_first.then(|| self.last_place(rank))
    }

    /// Returns the position of the last built rule with a rank of at most `rank`.
    ///
    /// For a value that is no rank the position is beyond all rules.
    #[inline(always)]
    fn last_place(self, rank: u32) -> usize {
        (self.before(rank) as usize).wrapping_sub(1)
    }

    fn entry(self, rank: u32, index: u32, is_leaf: bool) -> Entry {
        (rank >> self.dropped) << (self.index + 1) | index << 1 | if is_leaf { LEAF } else { 0 }
    }
}

impl Roots {
    /// Returns the bits that each tree's root selects.
    ///
    /// Each region fixes all but a few of these bits in some tree, unless no bits separate it from the others.
    pub(crate) fn selected(&self) -> impl Iterator<Item = Selector> {
        self.trees.iter().map(|tree| tree.root.bits)
    }
}

/// Parts of the entry layout that a lookup needs.
#[derive(Clone, Copy, Debug)]
struct Limits {
    ranks: u32,
    rounding: u32,
    dropped: u32,
    index: u32,
}

impl Limits {
    /// Returns the exclusive upper limit of entries that may lead to a better rank than `rank`.
    ///
    /// For example, with three dropped bits and `rank` 20 the limit is the bound 3, which stands for ranks from 24
    /// on. The bound 2 stands for ranks 16 to 23, of which some are better.
    #[inline(always)]
    fn of(self, rank: u32) -> Entry {
        // The rank is at most `ranks`, so the sum does not overflow.
        ((rank.min(self.ranks) + self.rounding) >> self.dropped) << (self.index + 1)
    }

    /// Returns the index of the node or block that `entry` leads to.
    #[inline(always)]
    fn index(self, entry: Entry) -> usize {
        ((entry >> 1) & ((1 << self.index) - 1)) as usize
    }

    /// Returns the entry that leads to a block, without a bound.
    #[inline(always)]
    fn leaf(self, block: usize) -> Entry {
        (block as Entry) << 1 | LEAF
    }
}

impl BitSelect {
    /// Builds the engine.
    ///
    /// # Errors
    /// If it would exceed the budget, or if this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default(), None)
    }

    /// Builds the engine within a cap on region visits, with the roots `like` if they serve.
    ///
    /// They serve while a lookup costs hardly more than when they were chosen. Such a build takes a fraction of the
    /// work, because it searches for no root bits.
    pub(crate) fn build_within(
        set: &Lowered,
        config: &Config,
        visits: &Visits,
        like: Option<&Roots>,
    ) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits, like)
    }

    /// Returns the roots of the built trees, for another build.
    pub(crate) fn roots(&self) -> Roots {
        Roots { trees: self.homes().into(), planned: self.planned }
    }

    /// Returns the trees that the engine was built with, without the overflow tree.
    fn homes(&self) -> &[Tree] {
        &self.trees[..self.trees.len() - usize::from(self.has_wide)]
    }

    /// Returns the parts of the entry layout that a lookup needs.
    #[inline(always)]
    fn limits(&self) -> Limits {
        let Parting { index, dropped, end, .. } = self.parting;
        Limits { ranks: end, rounding: (1 << dropped) - 1, dropped, index }
    }

    /// Returns the rule of a rank, built or inserted.
    #[inline(always)]
    fn rule_of(&self, rank: u32) -> Option<Match> {
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
    fn worst(&self, blocks: usize) -> (usize, usize) {
        let tests: usize = self.trees.iter().map(|tree| tree.longest.max(blocks)).sum();
        let steps: usize = self.trees.iter().map(|tree| tree.levels).sum();
        (tests * self.shape.lines() + 2 * steps + 1, tests * block::BLOCK)
    }

    /// Returns the bytes that all clones share.
    pub(crate) fn shared_bytes(&self) -> usize {
        ARC + size_of_val(&self.matches[..])
    }

    /// Returns the bytes on the heap by part.
    fn bytes(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("nodes", size_of_val(&self.nodes[..])),
            ("tables", size_of_val(&self.table[..])),
            ("blocks", self.blocks.capacity() * size_of::<Line>()),
            ("matches", self.shared_bytes()),
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

impl Engine for BitSelect {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        let (worst_lines, worst_tests) = self.worst(0);
        Stats {
            rules: self.rules(),
            regions: self.regions - self.gone_regions + self.added.regions(),
            bytes: self.bytes(),
            tables: self.trees.len(),
            worst_tests,
            worst_lines,
            untabled: 0,
            longest_bucket: self.trees.iter().map(|tree| tree.longest * block::BLOCK).max().unwrap_or(0),
            keeps_shadowed: true,
        }
    }

    fn improve(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        lookup::lookup(self, All, keys, best);
    }
}

/// Tombstones of built rules, looked up by rank. Inserted rules are removed in place.
#[derive(Clone, Copy)]
struct Marks<'a> {
    dead: &'a Dead,
    parting: Parting,
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

/// Each built rule has one place, the number of rules before it.
impl Base for BitSelect {
    fn places(&self) -> usize {
        self.matches.len()
    }

    fn places_of(&self, _rule: RuleId, rank: usize, _regions: Range<usize>) -> Range<usize> {
        rank..rank + 1
    }

    fn work(&self, keys: Keys<'_>) -> Work {
        work::of(self, keys)
    }

    fn improve_alive(&self, _scratch: &mut (), keys: &Keys<'_>, dead: &Dead, best: &mut [Option<Match>]) {
        let alive = Marks { dead, parting: self.parting };
        lookup::lookup(self, alive, keys, best);
    }
}
