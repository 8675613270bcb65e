//! `bit_select`: a few trees of wide nodes that select bits, with leaves of eight regions tested at once.
//!
//! # Idea
//! A node takes some bits of at most two fields, or of two pairs of lanes where fields have more, not only leading ones
//! and not next to each other, as the index into a table: rules share their leading bits, so cuts from the top waste
//! levels. Bits are chosen one by one, each time the
//! one that leaves the shortest lists for the copies it makes. A region that leaves many of a root's bits open would
//! be copied often: it goes to another tree, whose root selects other bits. So the regions part by what they are
//! specific in, and no table says how. On the ClassBench sets most walks are one step and one leaf a tree.
//!
//! How many bits a region may leave open is chosen tree by tree. A few values are tried for each, keys drawn inside the
//! regions walk through what is there so far, and the two plans whose lookups cost least are gone on with. So a build
//! knows what it builds for from the rules alone, and the same rules build the same trees.
//!
//! A leaf may hold more regions than lead to it, because each is compared whole: neighbouring short lists share a
//! block of eight. That keeps blocks nearly full however fine the tables are.
//!
//! # Layout in memory
//! - *Nodes*: two pairs of neighbouring lanes, each read as one word of 64 bits, the masks over them, where the table
//!   starts: 32 bytes. *Tables*: 4 bytes an entry, which is
//!   a node or a leaf's first block, and before that the best rank behind it, without the bits that find no room. Equal
//!   lists of one tree share what they lead to.
//! - *Blocks*: eight ranks, up to the ninth word where the list goes on, then the lanes column by column, as narrow as
//!   their values allow: 8, 16 or 32 bits for each bound; value and mask of 32 bits for lanes that are ternary. The value
//!   for absent of an optional lane of 8 or 16 bits is one more than they hold: a bit of the region says instead whether
//!   it requires the field. A field that is a prefix in every region has a word a lane and a byte for the open bits
//!   instead of two words a lane; a lane of 8 bits of which regions ask for one value or all has one byte. A block of an
//!   IPv4 5-tuple is three cache lines, or four where some address is no prefix or some protocol a range; one of an IPv6
//!   5-tuple six, or up to ten. Blocks are sorted by rank; a longer list goes on in further blocks. Of 4,096 regions and
//!   more, fields that no region asks for have no columns, and ranks of at most 2,045 rules 16 bits, where that makes
//!   blocks smaller: of a list of IPv4 addresses they are one cache line.
//! - *Matches*: rule and priority by rank, 16 bytes a rule. Ranks are up to 1,024 apart.
//!
//! # Changes
//! A copy that nobody reads takes rules in and out in place: [`meta`](crate::meta) has two. A rule that comes gets a
//! rank between its neighbours' and goes to the leaves that it reaches: to the block there if that has room, else these
//! entries get a block of their own, with what is theirs in the old one. A rule that goes is taken out of its leaves.
//! Neither moves anything else. What is touched is noted, and the other copy takes that over instead of doing the
//! change again. A rule that comes and reaches more than 128 entries goes to a list that every key is tested against,
//! unless it has a better match. There may be three times as many blocks as were built, of more than 512 twice as many
//! and 512; where these end, blocks that nothing leads to any more are looked for, so a change takes now and then as
//! long as to read tables and blocks once. Refused, and left to others, are lists that would be longer than four blocks,
//! a 33rd rule between the same two, what no block is left for, and to take out a rule that it was built with and that
//! reaches more than 128 entries.
//!
//! # Cost
//! 32 keys go through the roots of up to four trees at once. Each then follows the entry of the best rank to its leaf,
//! level by level, and is tested against its block; then that of the next best one, where it may still hold a better
//! rank; then all others that may. The next block of a longer list is tested only where the one before had no hit,
//! after the other keys. What goes on is listed without a branch; whether a list goes on, and whether the key lacks a
//! field, are branches. Each such pass waits for the last key of the one before, so there are no more than these three
//! for four trees. Three keys and fewer are gone through one by one: the leaves of the two best entries are both tested,
//! since a branch that is not foreseen takes longer than the second test; where a key needs it seldom, that costs some
//! 5 %. Above half a mebibyte of blocks, what an entry leads to is asked for as soon as it is known.
//!
//! A lookup visits at most the trees times (levels + the blocks of the longest leaf): `stats()` has both. A build looks
//! at each list once for each bit it selects; longer lists are judged by 2,048 of their regions. What it tries comes to
//! about five times the trees it keeps. Copies are bounded for each node and for each tree, and trees that take over
//! five times the memory of all regions once, and over 256 KiB, are not kept, so no rule set makes it explode: what
//! cannot be parted becomes long leaves. For up to 2,048 regions that memory is made use of: one tree of many copies may
//! be the fastest, most of all for single keys (a third less on some ClassBench sets).
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

use crate::alive::{Alive, All, Base, Dead};
use crate::budget::{Budget, Visits};
use crate::engine::{Engine, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::{Lowered, RuleId};
use crate::schema::Schema;
use crate::simd::{Level, Line};
use crate::work::Work;

/// How to build [`BitSelect`].
#[derive(Clone, Debug)]
pub struct Config {
    /// What it may take.
    pub budget: Budget,
    /// The instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// How its trees are; `None` chooses for each what promises the fastest lookups.
    pub shape: Option<Shape>,
    /// Number of regions from which on blocks leave out what no region asks for, where that makes them smaller. Fewer
    /// keep a column for every field, because rules that come later may ask for it.
    pub lean: usize,
}

impl Default for Config {
    /// No budget, the best instruction set, the fastest trees, lean blocks from 4,096 regions on.
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, shape: None, lean: 4096 }
    }
}

/// How trees are built.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The most trees that regions are shared out to; at least one.
    pub trees: usize,
    /// The most levels of a tree above its leaves; at least one.
    pub levels: usize,
    /// The most entries of a node's table for each region that it parts.
    pub fan_out: usize,
    /// How many bits of a root a region may leave open before it goes to the next tree.
    pub open: u32,
    /// How often regions may stand in the lists of a node, and in those of all nodes below the roots, as a multiple of
    /// their number.
    pub growth: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { trees: 4, levels: 3, fan_out: 4, open: 2, growth: 4.0 }
    }
}

/// What is allocated beside the value of an `Arc`: two counts.
const ARC: usize = 2 * size_of::<usize>();

/// A classifier of trees that select bits.
#[derive(Clone, Debug)]
pub struct BitSelect {
    schema: Schema,
    level: Level,
    shape: block::Shape,
    trees: Box<[Tree]>,
    /// Whether the last of them is for regions that have come and reach too many entries of all others.
    has_wide: bool,
    nodes: Box<[Node]>,
    table: Box<[Entry]>,
    /// How an entry is parted.
    parting: Parting,
    blocks: Vec<Line>,
    /// The rules that it was built with, in order.
    matches: Arc<[Match]>,
    regions: usize,
    /// How many blocks it may come to have.
    room: usize,
    spare: change::Spare,
    /// Each node's block for lists to come, by the node's number; those of roots come behind them.
    filling: Box<[u32]>,
    /// Which of the rules that it was built with have been taken out, how many, and how many regions they had.
    gone: Box<[u64]>,
    gone_rules: usize,
    gone_regions: usize,
    added: Added,
    /// Where it may differ from the copy that was changed before it.
    touched: Vec<Place>,
    /// What lookups cost when its roots were chosen, as counted.
    planned: f64,
    /// Whether its blocks are more than a cache that answers at once holds.
    is_large: bool,
}

/// What trees begin with, and what lookups cost when they were chosen, as counted.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    trees: Box<[Tree]>,
    planned: f64,
}

/// One tree.
#[derive(Clone, Copy, Debug)]
struct Tree {
    root: Node,
    /// The most nodes of a walk.
    levels: usize,
    /// The most blocks of one leaf.
    longest: usize,
    /// How many bits of the root its regions may leave open.
    open: Option<u32>,
}

/// Selects bits as the index into its part of the table, whose entries are nodes or leaves.
#[derive(Clone, Copy, Debug)]
struct Node {
    bits: Selector,
    base: u32,
}

/// An entry of a table: from the highest bit on the best rank behind it, as far as bits are left for that; the node or
/// the leaf's first block that it leads to; whether that is a leaf.
type Entry = u32;

const LEAF: Entry = 1;
/// The entry that leads nowhere.
const EMPTY: Entry = Entry::MAX;

/// How ranks are made and an entry is parted. Between the ranks of neighbours others find room.
#[derive(Clone, Copy, Debug)]
struct Parting {
    /// Bits of an index.
    index: u32,
    /// Low bits of a rank that find no room in an entry.
    dropped: u32,
    /// Low bits of a rank that are 0 for the rules that a set was built with.
    between: u32,
    /// No rank is as high.
    end: u32,
}

/// The most bits for what comes between two rules, and the least where ranks have 16 bits.
const BETWEEN: u32 = 10;
const SHORT_BETWEEN: u32 = 5;

impl Parting {
    /// For indices below these and so many rules; no rank's bits are all ones, which are those of [`EMPTY`]. Short ranks
    /// have 16 bits.
    fn new(indices: usize, rules: usize, is_short: bool) -> Self {
        // At most 2^24 regions are lowered: some bits are left, and ranks are below 2^31.
        let unused = if is_short { u32::BITS - 16 } else { 1 };
        let between = BETWEEN.min((rules as u32 + 2).leading_zeros().saturating_sub(unused));
        let end = (rules as u32 + 1) << between;
        let index = usize::BITS - indices.leading_zeros();
        let room = Entry::BITS.saturating_sub(1 + index);
        let dropped = (0..u32::BITS).find(|&dropped| u64::from(end) >> dropped < (1 << room) - 1).unwrap_or(0);
        Self { index, dropped, between, end }
    }

    /// Whether 16 bits are enough for the ranks of so many rules and of those that come between.
    fn is_short(rules: usize) -> bool {
        rules + 2 < 1 << (16 - SHORT_BETWEEN)
    }

    /// The rank of the last of so many rules; 0 for none.
    fn rank(self, rules: u32) -> u32 {
        rules << self.between
    }

    /// How many of the rules that were there first come before a rank that is between them.
    #[inline(always)]
    fn before(self, rank: u32) -> u32 {
        rank >> self.between
    }

    /// The place of the rule of a rank among those that were there first, if it is one of them.
    #[inline(always)]
    fn place(self, rank: u32) -> Option<usize> {
        let is_first = rank & ((1 << self.between) - 1) == 0;
        is_first.then(|| self.last_place(rank))
    }

    /// The place of the last rule that was there first and does not come behind a rank; none is as high for what is no
    /// rank.
    #[inline(always)]
    fn last_place(self, rank: u32) -> usize {
        (self.before(rank) as usize).wrapping_sub(1)
    }

    fn entry(self, rank: u32, index: u32, is_leaf: bool) -> Entry {
        (rank >> self.dropped) << (self.index + 1) | index << 1 | if is_leaf { LEAF } else { 0 }
    }
}

impl Roots {
    /// The bits that each tree's root selects. Each region fixes all but a few of those of some tree, unless nothing
    /// parts it from the others.
    pub(crate) fn selected(&self) -> impl Iterator<Item = Selector> {
        self.trees.iter().map(|tree| tree.root.bits)
    }
}

/// What a walk needs of the parting.
#[derive(Clone, Copy, Debug)]
struct Limits {
    ranks: u32,
    rounding: u32,
    dropped: u32,
    index: u32,
}

impl Limits {
    /// What an entry must be below to lead to a better rank.
    #[inline(always)]
    fn of(self, rank: u32) -> Entry {
        // What is added does not overflow.
        ((rank.min(self.ranks) + self.rounding) >> self.dropped) << (self.index + 1)
    }

    /// Where an entry leads.
    #[inline(always)]
    fn index(self, entry: Entry) -> usize {
        ((entry >> 1) & ((1 << self.index) - 1)) as usize
    }

    /// The entry that leads to a block, whatever its rank.
    #[inline(always)]
    fn leaf(self, block: usize) -> Entry {
        (block as Entry) << 1 | LEAF
    }
}

impl BitSelect {
    /// Builds it.
    ///
    /// # Errors
    /// When it would exceed the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default(), None)
    }

    /// The same within so many visits of regions. For rules that mostly are those of another, its roots are taken as
    /// long as lookups cost hardly more than when they were chosen: a fraction of the work.
    pub(crate) fn build_within(
        set: &Lowered,
        config: &Config,
        visits: &Visits,
        like: Option<&Roots>,
    ) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits, like)
    }

    /// The roots of its trees.
    pub(crate) fn roots(&self) -> Roots {
        Roots { trees: self.homes().into(), planned: self.planned }
    }

    /// The trees that it was built with.
    fn homes(&self) -> &[Tree] {
        &self.trees[..self.trees.len() - usize::from(self.has_wide)]
    }

    /// What a walk compares entries with.
    #[inline(always)]
    fn limits(&self) -> Limits {
        let Parting { index, dropped, end, .. } = self.parting;
        Limits { ranks: end, rounding: (1 << dropped) - 1, dropped, index }
    }

    /// The rule of a rank.
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

    /// The most cache lines and regions of a lookup, were every tree's longest list at least so many blocks.
    fn worst(&self, blocks: usize) -> (usize, usize) {
        let tests: usize = self.trees.iter().map(|tree| tree.longest.max(blocks)).sum();
        let steps: usize = self.trees.iter().map(|tree| tree.levels).sum();
        (tests * self.shape.lines() + 2 * steps + 1, tests * block::BLOCK)
    }

    /// Bytes that it shares with what it is a copy of.
    pub(crate) fn shared_bytes(&self) -> usize {
        ARC + size_of_val(&self.matches[..])
    }

    /// Bytes on the heap by part.
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

/// Marks of the rules that were there first, by rank; the others are taken out.
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

/// The place of a rule is how many come before it.
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
