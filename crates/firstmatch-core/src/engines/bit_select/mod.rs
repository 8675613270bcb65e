//! `bit_select`: a few trees of bit-selecting nodes over blocks of eight regions.
//!
//! # Idea
//! A node concatenates selected bits of a key into the index of a table entry.
//!
//! The bits come from at most two fields, in two pairs of neighbouring key words. They need be neither leading nor
//! adjacent, because rules often share their leading bits and cuts from the top would waste levels. For example, where
//! every source address begins with 10, none of its first eight bits is selected: they split no list.
//!
//! A root also selects the bit that says whether a packet has a field, if most regions of the tree require that field.
//! Otherwise packets without it would be tested against regions that cannot hold them. For example, ICMP packets have
//! no ports and share no list with the many rules for ports.
//!
//! A region leaves a bit open if keys with either value of the bit may lie in it. Such a region is copied into both
//! halves of the table. Bits are chosen one by one: each time the bit that gives the shortest lists for the copies it
//! makes. A region that leaves many of a root's bits open would be copied often, so it goes to another tree with
//! other bits. Regions thus separate by the fields in which they are specific. For example, 2,000 rules for single
//! source addresses and 2,000 for single destination addresses build two trees, one over source bits and one over
//! destination bits.
//!
//! On the ClassBench sets most walks visit one node and one leaf per tree.
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
//! - *Tables*, 4 bytes per entry: a lower bound of the ranks behind the entry, then a node or the leaf's first block.
//!   Low bits of the bound that do not fit are dropped. Equal lists of one tree share their node or leaf.
//! - *Blocks*: eight ranks in ascending order, the block that continues the list, then the key words column by
//!   column, as narrow as their values allow. A bound takes 8, 16 or 32 bits; a ternary word takes a value and a mask
//!   of 32 bits each. A longer list continues in further blocks.
//! - *Matches*: rule and priority by rank, 16 bytes per rule. Ranks are up to 1,024 apart.
//!
//! Columns have special forms for common cases:
//!
//! - An optional word of 8 or 16 bits has one value more than these bits hold, for absent. A bit of the region says
//!   instead whether the region requires the field.
//! - A field that is a prefix in every region takes 4 bytes per key word instead of 8. One more byte counts its open
//!   bits.
//! - A word of 8 bits takes 1 byte if every region accepts one value of it, or all values.
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
//! taken out of its leaves. Neither change moves anything else. Each replica gets every change.
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
//! remaining entries whose bounds do. Each pass waits for the slowest key of the pass before, so there are only three
//! passes for four trees.
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

mod bits;
mod block;
mod build;
mod change;
mod columns;
mod config;
mod constraints;
mod cost;
mod inserted;
mod layout;
mod lookup;
mod pack;
mod plan;
mod prefixes;
mod single;
mod structure;
#[cfg(test)]
mod tests;
mod tree;
mod writing;

use std::ops::Range;
use std::sync::Arc;

use structure::Marks;

pub use config::{Config, Shape};
pub use structure::BitSelect;
use structure::Roots;

use crate::engine::base::{Base, BaseEngine, Build, Choices, InPlace, Most, visits_of};
use crate::engine::budget::{Budget, Visits};
use crate::engine::entry::Entry;
use crate::engine::observer::Step;
use crate::engine::options::{self, Knob, Set};
use crate::engine::selector::Selector;
use crate::engine::steps::StepCounter;
use crate::engine::tombstones::{All, Tombstones};
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::Level;
use crate::rule::{Lowered, Regions, RuleId};
use crate::schema::Schema;

impl BitSelect {
    /// Builds the engine.
    ///
    /// # Errors
    /// If it would exceed the budget, or if this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default(), None)
    }

    /// Returns a bound on the bytes on the heap during a build, including the engine itself.
    ///
    /// It is twice the bytes that the worst known sets need, plus an allowance for small sets. A region of IPv4 5-tuples
    /// counts as 2,360 bytes, because plans are compared.
    pub fn build_bound(set: &Lowered) -> usize {
        let key_words = set.schema().words().len() + set.regions().ternary_words().len();
        set.regions().len() * (32 * key_words + 2200) + (16 << 10)
    }

    /// Builds the engine within a cap on region visits, with the roots `like` if they serve.
    ///
    /// They serve while a lookup costs hardly more than when they were chosen. A build that keeps them takes a fraction
    /// of the work, because it searches for no root bits.
    pub(crate) fn build_within(
        set: &Lowered,
        config: &Config,
        visits: &Visits,
        like: Option<&Roots>,
    ) -> Result<Self, BuildError> {
        set.expanded()?;
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits, like)
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
            regions: self.regions - self.removed_regions + self.inserted.regions(),
            bytes: self.bytes(),
            tables: self.trees.len(),
            worst_tests,
            worst_lines,
            overflow: 0,
            longest_bucket: self.trees.iter().map(|tree| tree.longest * block::BLOCK).max().unwrap_or(0),
            keeps_shadowed: true,
            ..Stats::default()
        }
    }

    fn improve(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        lookup::lookup(self, All, keys, best);
    }

    /// Counts nodes below roots, blocks, the regions in them, and cache lines.
    ///
    /// Every key reads a line of each root and of its table, and one of its match.
    fn count(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let counter = StepCounter::default();
        lookup::counted(self, &counter, keys, best);
        let [nodes, blocks] = [Step::Node, Step::Block].map(|step| counter.of(step));
        let lines = (best.len() * (2 * self.trees.len() + 1)) as u64 + 2 * nodes + blocks * self.shape.lines() as u64;
        let tests = blocks * block::BLOCK as u64;
        NamedCounts::from([("nodes", nodes), ("blocks", blocks), ("tests", tests), ("lines", lines)])
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

    fn visits(&self) -> usize {
        visits_of(self.worst(0).1)
    }

    fn choices(&self) -> Option<Choices> {
        Some(Arc::new(self.roots()))
    }

    fn selectors(&self) -> Vec<Selector> {
        self.built_trees().iter().map(|tree| tree.root.bits).collect()
    }

    fn in_place(&self) -> Option<&dyn InPlace> {
        Some(self)
    }

    fn in_place_mut(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }
}

impl InPlace for BitSelect {
    fn most(&self) -> Most {
        let (lines, tests) = self.most_cost();
        Most { bytes: self.most_bytes(), lines, tests }
    }

    fn shared_bytes(&self) -> usize {
        self.match_bytes()
    }

    fn insert_in_place(&mut self, rule: Match, before: usize, regions: &Regions) -> bool {
        let is_changed = self.insert_rule(rule, before, regions);
        self.checked(is_changed)
    }

    fn remove_inserted(&mut self, rule: Match, before: usize) -> bool {
        let is_changed = self.changes() > 0 && self.remove_inserted_rule(rule, before);
        self.checked(is_changed)
    }

    fn remove_built(&mut self, rank: usize, regions: &Regions, range: Range<usize>) -> bool {
        let is_changed = self.remove_built_rule(rank, range.map(|at| regions.get(at)));
        self.checked(is_changed)
    }

    fn has_built(&self, rank: usize) -> bool {
        self.has_built_rule(rank)
    }

    fn changed_rules(&self) -> usize {
        self.rules()
    }

    fn changes(&self) -> usize {
        self.inserted.rules() + self.removed_rules
    }

    fn is_short_of_room(&self) -> bool {
        self.free_blocks.was_little
    }
}

impl BaseEngine for BitSelect {
    const NAME: &'static str = "bit_select";
    const CHANGES_IN_PLACE: bool = true;

    fn build_base(set: &Lowered, how: &Build<'_>) -> Result<Self, BuildError> {
        let config = Config { budget: Budget { run_bytes: how.run_bytes }, simd: how.simd, ..Config::default() };
        let like = how.like.and_then(|like| like.downcast_ref());
        Self::build_within(set, &config, how.visits, like)
    }

    fn build_bytes(set: &Lowered, _is_forced: bool) -> usize {
        Self::build_bound(set)
    }

    fn largest_scratch(_schema: &Schema) {}

    fn improve_live(&self, _scratch: &mut (), keys: &Keys<'_>, tombstones: &Tombstones, best: &mut [Option<Match>]) {
        let live_rules = Marks { tombstones, layout: self.layout };
        lookup::lookup_live(self, live_rules, keys, best);
    }

    fn replica(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// Largest number of trees, levels, table entries and copies that an option takes.
const MOST_IN_SHAPE: usize = 1024;

/// Options by name. Options of a shape force that shape.
const OPTIONS: &[Knob<Config>] = &[
    Knob {
        name: "trees",
        summary: "largest number of trees",
        set: Set::Within([1, MOST_IN_SHAPE, 1], |config, trees| config.shape.get_or_insert_default().trees = trees),
    },
    Knob {
        name: "levels",
        summary: "largest number of levels of a tree",
        set: Set::Within([1, MOST_IN_SHAPE, 1], |config, levels| config.shape.get_or_insert_default().levels = levels),
    },
    Knob {
        name: "fan_out",
        summary: "largest number of table entries of a node per region in its list",
        set: Set::Within([1, MOST_IN_SHAPE, 1], |config, fan_out| {
            config.shape.get_or_insert_default().fan_out = fan_out;
        }),
    },
    Knob {
        name: "open",
        summary: "number of a root's bits that a region may leave open before it goes to the next tree",
        set: Set::Within([0, 64, 1], |config, open| config.shape.get_or_insert_default().open = open as u32),
    },
    Knob {
        name: "growth",
        summary: "largest number of copies per region in the lists of one node",
        set: Set::Number([1, MOST_IN_SHAPE as u32], |config, growth| {
            config.shape.get_or_insert_default().growth = growth;
        }),
    },
    Knob {
        name: "lean",
        summary: "number of regions from which blocks may omit columns that no region constrains",
        set: Set::Count(|config, lean| config.lean = lean),
    },
];

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "bit_select",
    summary: "a few trees of wide nodes that select bits: fast and small, for rules that stay",
    options: || options::options(OPTIONS),
    build: |rules, settings| {
        let (budget, simd) = (settings.budget(), settings.simd);
        let mut config = Config { budget, simd, ..Config::default() };
        options::configure(OPTIONS, &settings.options, &mut config)?;
        Ok(Box::new(BitSelect::build_within(rules, &config, &settings.visits(), None)?))
    },
    updatable: None,
};
