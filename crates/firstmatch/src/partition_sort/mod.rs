//! PartitionSort: rules parted into few sets that can be sorted, each a search tree.
//!
//! # Idea
//! Rules are sorted in an order of fields if, field after field, those that were equal so far are equal or apart. Then a
//! packet has one place among them, found as in any search tree: rules that it is left of, or right of, on the first
//! field that tells cannot match. Few sets of rules that can be sorted hold a whole rule set; each has an order of fields
//! of its own. They are searched in order of their best priority as long as that can improve the match.
//!
//! # Layout in memory
//! All is in one arena of cache lines. An entry is a region whole (bounds, priority, id: one line for an IPv4 5-tuple,
//! two for IPv6); entries of equal bounds are a list in order of priority. Above them are B-trees, one level of trees a
//! lane: a node tells up to 8 (one line) or 16 (two) intervals of a lane apart by where they begin, and a lane on which
//! all that is below is equal has no node. Where intervals end is not looked at before the entry: at most one can be the
//! packet's. Lines come in pieces that never move.
//!
//! # Cost
//! Memory is linear: an entry, 12 bytes to find it by its rule, and its share of nodes that are at least a quarter full.
//! A lookup takes O(lanes + log n) nodes and tests one region a partition, more only where ternary regions have equal
//! hulls. Up to 64 walks are under way at a time, one node a round: the keys of a batch in one partition or, where the
//! keys are few, in several. An insertion is one walk in each partition up to the one that takes the region, and splits
//! O(log n) nodes there; a removal is one walk and takes no memory. When the rules of the best priority went, a partition
//! keeps a bound that is too good, until a pass over it is paid for by half as many removals: O(1) amortised, and O(n)
//! for that one removal.
//!
//! There are never more partitions than [`Config::most_partitions`], and no list of equal entries has more than 256:
//! what would need more is kept beside them and tested eight regions at a time by every lookup it can improve;
//! [`Stats::untabled`] counts it.
//!
//! # Paper
//! Yingchareonthawornchai, Daly, Liu and Torng, "A Sorted-Partitioning Approach to Fast and Scalable Dynamic Packet
//! Classification", IEEE/ACM Transactions on Networking 26(4), 2018, and ICNP 2016; described in section II-C of the
//! TupleMerge paper (see [`tuple`](crate::tuple)).
//!
//! # Deviations
//! - A field is a lane: an IPv6 address is four, each with its place in the order.
//! - Nodes are B-tree nodes tested with vector instructions, not binary; entries are told apart by no more lanes than it
//!   takes.
//! - The order of a new partition begins with the lanes on which its first region is narrowest. While a partition has at
//!   most `Config::reorder` regions it takes any order in which a region that did not fit does, beginning with the lanes
//!   that tell most regions apart. Any lane on which the regions are sorted may come next without losing an order, so
//!   the search is exact.
//! - A build inserts rules in order of priority; the offline choice of fields is not used. Online insertion in random
//!   order makes three times the partitions that the TupleMerge paper counts for PartitionSort: with 256k rules 33 on the
//!   mean over twelve seeds, where the paper has 11 (`papers/tuplemerge/record.csv`, entry `fig2`).
//! - A ternary region is sorted by the hull of its interval, and its masks are compared at the entry.

mod arena;
mod lookup;
mod node;
mod order;
#[cfg(test)]
mod tests;
mod tree;
mod update;

use std::fmt;

use crate::budget::Budget;
use crate::engine::{Engine, Match, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::parts::{Places, Rest};
use crate::rule::{Lowered, Regions, RuleId};
use crate::schema::Schema;
use crate::simd::{Level, dispatch};
use arena::Arena;
use lookup::{Lookup, Scratch};
use update::Partition;

/// How to build [`PartitionSort`].
#[derive(Clone, Debug)]
pub struct Config {
    /// What it may take.
    pub budget: Budget,
    /// The instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// How many regions a partition may have to be sorted in another order of lanes, where a new region then fits.
    pub reorder: usize,
    /// How many partitions there may be. Regions that would need more are tested one after the other, eight at a time.
    pub most_partitions: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, reorder: 10, most_partitions: 128 }
    }
}

impl Config {
    /// The paper's own values, which are ours: up to ten regions are sorted anew.
    pub fn paper() -> Self {
        Self::default()
    }
}

/// The classifier of sorted partitions.
pub struct PartitionSort {
    schema: Schema,
    level: Level,
    budget: usize,
    reorder: usize,
    most_partitions: usize,
    arena: Arena,
    /// In order of their best priority.
    partitions: Vec<Partition>,
    /// The regions that no partition takes.
    rest: Rest,
    places: Places,
    rules: usize,
    regions: usize,
}

impl PartitionSort {
    /// Without rules.
    ///
    /// # Errors
    /// When this machine lacks the forced instruction set, or the budget has no room for an engine without rules.
    pub fn new(schema: &Schema, config: &Config) -> Result<Self, BuildError> {
        let lanes = schema.lanes().len();
        let engine = Self {
            schema: schema.clone(),
            level: Level::choose(config.simd)?,
            budget: config.budget.run_bytes,
            reorder: config.reorder,
            most_partitions: config.most_partitions,
            arena: Arena::new(lanes),
            partitions: Vec::new(),
            rest: Rest::new(lanes),
            places: Places::new(),
            rules: 0,
            regions: 0,
        };
        let needed = engine.bytes();
        if needed > engine.budget { Err(BuildError::bytes(needed, engine.budget)) } else { Ok(engine) }
    }

    /// With the rules of a lowered set, inserted in order of priority.
    ///
    /// # Errors
    /// When this machine lacks the forced instruction set or the budget has no room.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let mut engine = Self::new(set.schema(), config)?;
        let mut regions = Regions::new(set.schema().lanes().len());
        for (rule, range) in set.by_rule() {
            regions.clear();
            range.for_each(|index| regions.push(set.regions().get(index)));
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
        }
        regions.clear();
        for &rule in set.nowhere() {
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
        }
        Ok(engine)
    }

    /// Bytes on the heap, kept up to date by every change.
    fn bytes(&self) -> usize {
        self.arena.bytes() + self.partition_bytes() + self.rest.bytes() + self.places.bytes()
    }

    fn partition_bytes(&self) -> usize {
        self.partitions.capacity() * size_of::<Partition>() + self.partitions.len() * self.arena.lanes()
    }
}

impl fmt::Debug for PartitionSort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionSort").field("rules", &self.rules).field("partitions", &self.partitions.len()).finish()
    }
}

impl Engine for PartitionSort {
    type Scratch = Scratch;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Scratch {
        Scratch::new()
    }

    /// Takes O(regions).
    fn stats(&self) -> Stats {
        let (mut longest, mut tests, mut lines) = (0, 0, 0);
        for partition in &self.partitions {
            let (mut group, mut deepest) = (0, 0);
            self.arena.visit(partition.root, |first, depth| {
                group = self.arena.group(first).count().max(group);
                deepest = depth.max(deepest);
            });
            longest = group.max(longest);
            tests += group;
            // A ternary part is as long as an entry.
            lines += 2 * deepest + 2 * group * self.arena.lines_per_entry();
        }
        Stats {
            rules: self.rules,
            regions: self.regions,
            bytes: vec![
                ("entries and nodes", self.arena.bytes()),
                ("partitions", self.partition_bytes()),
                ("places of rules", self.places.bytes()),
                ("rest", self.rest.bytes()),
            ],
            tables: self.partitions.len(),
            worst_tests: tests + self.rest.len(),
            worst_lines: lines + self.rest.lines(),
            untabled: self.rest.len(),
            longest_bucket: longest,
            keeps_shadowed: true,
        }
    }

    fn improve(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, Lookup { engine: self, scratch, keys: *keys, best });
    }
}

impl Updatable for PartitionSort {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        self.insert_rule(rule, regions)
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        self.remove_rule(rule)
    }
}
