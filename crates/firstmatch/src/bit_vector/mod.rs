//! `bit_vector`: one search a lane, each with a vector of the regions that its value leaves, and the first bit that all
//! vectors have.
//!
//! # Idea
//! The bounds of all regions cut a lane into elementary intervals. The regions that hold an interval are a vector, one
//! bit each in the order of rank; intervals with equal vectors are one class. A key's classes are found lane by lane;
//! its first match is the first bit that the vectors of all its classes have. What the rules look like does not matter:
//! neither how they overlap nor how often a lane is left open.
//!
//! Lanes of few classes are joined: a table over pairs or triples of classes says the class of all, so that one vector is
//! read in place of two or three. A lane that no region asks about is left out.
//!
//! # Layout in memory
//! - *Search trees*: the leading bits of a word, at most twelve, choose a node; a node is a cache line of eight bounds,
//!   and for each of the nine ways between them the next node or, on the last level, a value. All ways are as long, equal
//!   nodes are one, and so many bits are taken as make the tree shallowest. A lane of less than 2<sup>10</sup> values has a
//!   value for each instead, and so have the four bytes of a ternary lane, since a mask asks about each byte by itself; one
//!   of less than 2<sup>17</sup> has pages of such, of which equal ones are one.
//! - *Joins*: a value for each pair or triple of classes. A value, of 16 bits, is the place of a vector or a part of a
//!   place in a join.
//! - *Vectors*: groups of 1,024 bits, two cache lines each.
//! - *Matches*: rule and priority by region, 16 bytes each.
//!
//! # Cost
//! 64 keys go through a lane together, eight side by side, so that their searches overlap: five instructions a level of
//! nodes, of which lanes of ClassBench sets with a thousand rules have one to three. Pages and joins are a load or two.
//! Then every key reads the vectors whole, two lines each for every 1,024 regions, without leaving early. There is no
//! branch that depends on a key but whether it has a match. Of what is left of a batch when eights are taken from it,
//! four keys or more are padded to eight, fewer are gone through key by key.
//!
//! Vectors take classes × regions bits: they grow with the square of the rules, so that this is an engine for one or two
//! thousand regions. A build stops where they outgrow [`Config::vectors`].
//!
//! # Paper
//! T. V. Lakshman and D. Stiliadis, *High-Speed Policy-based Packet Forwarding Using Efficient Multi-dimensional Range
//! Matching* (SIGCOMM 1998): bit vectors by elementary interval. Joined lanes are those of P. Gupta and N. McKeown's
//! RFC (SIGCOMM 1999), used for the smallest only.
//!
//! # Deviations
//! - The lanes are searched with vector instructions over many keys at once, not by hardware in parallel.
//! - Vectors are read whole: a summary of words that are not zero, or leaving at the first hit, costs a branch that
//!   cannot be predicted, which takes longer than the rest of a group.

mod build;
mod classes;
mod lookup;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::alive::{All, Base, Dead};
use crate::budget::{Budget, Visits};
use crate::engine::{Engine, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::{Lowered, RuleId};
use crate::schema::Schema;
use crate::simd::{Level, Line, Pages, Table, Tree, dispatch};
use crate::work::Work;

/// How to build [`BitVector`].
#[derive(Clone, Debug)]
pub struct Config {
    /// What it may take.
    pub budget: Budget,
    /// The instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// The most bytes of vectors: where they outgrow a second-level cache, trees are faster.
    pub vectors: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, vectors: 1 << 20 }
    }
}

/// A classifier that intersects bit vectors.
#[derive(Debug)]
pub struct BitVector {
    schema: Schema,
    level: Level,
    /// What finds the class of a key, one or more a lane.
    dimensions: Box<[Dimension]>,
    /// Classes of pairs, in the order in which they are looked up: the slots behind the dimensions'.
    joins: Box<[Join]>,
    /// The slots whose values are vectors to be read.
    read: Box<[usize]>,
    vectors: Box<[Line]>,
    /// Places of vectors count in eights of bytes, as addresses are made of in one go; or in groups of bits, where the
    /// vectors are too many for that or of more than one group.
    is_near: bool,
    /// Groups of a vector.
    groups: usize,
    /// By region.
    matches: Box<[Match]>,
    rules: usize,
}

/// Finds the class of a key in a lane. Its value says where that leads: to a vector, or to a part of a join's place.
#[derive(Debug)]
enum Dimension {
    /// By the interval it is in.
    Search { lane: usize, tree: Tree },
    /// By its value, or a part of it.
    Direct { lane: usize, values: Table },
    /// By its value.
    Paged { lane: usize, pages: Pages },
}

/// The class of two or three classes.
#[derive(Debug)]
struct Join {
    /// The slots they are in, whose values add up to a place.
    slots: [usize; 2],
    third: Option<usize>,
    values: Table,
}

/// Bits of a group, and its words and lines.
const GROUP: usize = 1024;
const GROUP_WORDS: usize = GROUP / 32;
const GROUP_LINES: usize = GROUP / 512;
/// Bytes of a group, and the bytes that near places count in.
const FAR: usize = GROUP / 8;
const NEAR: usize = 8;

impl BitVector {
    /// Builds it.
    ///
    /// # Errors
    /// When it would exceed the budget or [`Config::vectors`], or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default())
    }

    /// The same within so many visits of regions.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits)
    }

    /// Returns a scratch that serves every engine over a schema.
    pub(crate) fn largest_scratch(schema: &Schema) -> lookup::Slots {
        // A lane is at most one dimension and four bytes under masks, and there are fewer joins than dimensions.
        lookup::Slots::new(10 * schema.lanes().len())
    }

    /// The words of vectors that a lookup reads.
    pub(crate) fn words(&self) -> usize {
        self.read.len() * self.groups * GROUP_WORDS
    }

    /// Which of the groups of all vectors a place is that of.
    #[inline(always)]
    fn group_at(&self, place: u16) -> usize {
        if self.is_near { usize::from(place) / (FAR / NEAR) } else { usize::from(place) }
    }

    /// Bytes on the heap by part.
    fn bytes(&self) -> Vec<(&'static str, usize)> {
        let of = |dimension: &Dimension| match dimension {
            Dimension::Search { tree, .. } => tree.bytes(),
            Dimension::Direct { values, .. } => values.bytes(),
            Dimension::Paged { pages, .. } => pages.bytes(),
        };
        let joins: usize = self.joins.iter().map(|join| join.values.bytes()).sum();
        vec![
            ("searches", size_of_val(&self.dimensions[..]) + self.dimensions.iter().map(of).sum::<usize>()),
            ("joins", size_of_val(&self.joins[..]) + joins),
            ("vectors", size_of_val(&self.vectors[..]) + size_of_val(&self.read[..])),
            ("matches", size_of_val(&self.matches[..])),
        ]
    }
}

impl Engine for BitVector {
    type Scratch = lookup::Slots;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> lookup::Slots {
        lookup::Slots::new(self.dimensions.len() + self.joins.len())
    }

    fn stats(&self) -> Stats {
        let lines = |dimension: &Dimension| match dimension {
            Dimension::Search { tree, .. } => tree.depth() + 1,
            Dimension::Direct { .. } => 1,
            Dimension::Paged { .. } => 2,
        };
        let searches: usize = self.dimensions.iter().map(lines).sum();
        Stats {
            rules: self.rules,
            regions: self.matches.len(),
            bytes: self.bytes(),
            tables: 1,
            worst_tests: self.matches.len(),
            worst_lines: searches + self.joins.len() + self.read.len() * self.groups * GROUP_LINES + 1,
            longest_bucket: 0,
            untabled: 0,
            keeps_shadowed: true,
        }
    }

    fn improve(&self, scratch: &mut lookup::Slots, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, &mut lookup::Lookup { engine: self, slots: scratch, alive: All, keys, best });
    }
}

/// The places of a rule are its regions.
impl Base for BitVector {
    fn places(&self) -> usize {
        self.matches.len()
    }

    fn places_of(&self, _rule: RuleId, _rank: usize, regions: Range<usize>) -> Range<usize> {
        regions
    }

    /// Every key meets the same.
    fn work(&self, _keys: Keys<'_>) -> Work {
        let (mut searches, mut levels, mut values) = (0, 0, 0);
        for dimension in &self.dimensions {
            match dimension {
                Dimension::Search { tree, .. } => (searches, levels) = (searches + 1, levels + tree.depth()),
                Dimension::Direct { .. } => values += 1,
                Dimension::Paged { .. } => values += 2,
            }
        }
        let vectors = self.read.len() * self.groups;
        let further = if self.groups > 1 { self.groups } else { 0 };
        // Rows of eight words are read faster than others.
        let others = if self.schema.stride() == 8 { 0 } else { self.dimensions.len() };
        // Up to four vectors are read by a loop of their own.
        let many = if self.read.len() > 4 { vectors } else { 0 };
        let counts = [searches, levels, values, self.joins.len(), vectors, further, others, many];
        let lines = searches + levels + values + self.joins.len() + vectors * GROUP_LINES;
        let bytes = self.bytes().iter().filter(|(part, _)| *part != "matches").map(|(_, bytes)| bytes).sum();
        Work::each(1, counts, lines, bytes)
    }

    fn improve_alive(&self, scratch: &mut lookup::Slots, keys: &Keys<'_>, dead: &Dead, best: &mut [Option<Match>]) {
        dispatch(self.level, &mut lookup::Lookup { engine: self, slots: scratch, alive: dead, keys, best });
    }
}
