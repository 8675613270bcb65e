//! TupleMerge: rules hashed by the bits their tuples share, in few tables.
//!
//! # Idea
//! A tuple says how many bits of each field a rule fixes. Tuple space search keeps one hash table for each tuple that
//! occurs; a lookup probes them all. TupleMerge lets a table hold every rule that fixes *at least* the table's bits, so
//! far fewer tables do, and bounds the rules that then share a key by splitting a table when one key collects more than
//! `c`. Tables stand in order of their best priority: a lookup stops at the first that cannot beat what it has.
//!
//! # Layout in memory
//! A table is its tuple (one mask a lane) and buckets of one cache line, eight tags and eight groups each. A group is
//! a run of whole entries (bounds, priority, id: one cache line for an IPv4 5-tuple, two for IPv6) in order of
//! priority. So a probe that finds nothing touches one line, and a hit one more for each region tested.
//!
//! # Cost
//! Memory is linear: a region is one entry, 16 bytes to find it by its rule, and its share of a table 35 to 69 % full.
//! A lookup probes each table once at most and tests at most `c` regions a table, unless more than `c` rules cannot be
//! told apart by any tuple; [`Stats`] says so. A batch goes through a table in three stages, each asking early for the
//! memory of the next: hash, compare tags, test regions. An insertion takes O(tables + c), and a split, which moves
//! the rules of a table that fit a longer tuple, O(table); a removal takes O(c) and, spread over removals, O(1) for the
//! bound on a table's best priority.
//!
//! # Paper
//! Daly, Bruschi, Linguaglossa, Pontarelli, Rossi, Tollet, Torng and Yourtchenko, "TupleMerge: Fast Software Packet
//! Processing for Online Packet Classification", IEEE/ACM Transactions on Networking 27(4), 2019, section III: the
//! online algorithm (tuple selection III-C2, insertion III-C3, deletion III-C4, classification III-C1).
//!
//! # Deviations
//! - "Not specific enough" (III-C3) is made exact: the common tuple of the colliding rules equals the table's, or
//!   still leaves more than `c` of them on one key. The average of the two lengths is then rounded up, since rounded
//!   down it would make no progress between 0 and 1; and the bits taken are those of the rule that has most.
//! - A rule whose first compatible table is at the limit goes to a later one with room, if there is one, before that
//!   table is split (`Config::spill`). Rule sets full of ranges and negations, whose tuples say little, would otherwise
//!   split off one table after another under the same tuple: 135 tables against 47 for the IPv6 half of the example
//!   rules. `c` is then 8 by default, not 40: the ClassBench sets do not mind, those rules take half the time.
//! - Rules that share one tuple and one key cannot be split apart at all; their group may exceed `c`.
//! - Deletion (III-C4) also lowers the bound on the table's best priority, in steps of O(1) a removal, and drops a table
//!   that became empty. The authors' code loses every later table there.
//! - Widths other than 32 bits: the distances of III-C2 grow with the width, so 4 bits of an IPv4 address are 16 of an
//!   IPv6 address.
//! - Ternary fields bring their own mask bits to the tuple, as III-A allows; a range counts as its longest containing
//!   prefix, as III-D1 does, and is compared as a range.
//! - The hash is keyed with a seed of the process: whoever sends packets or rules cannot choose collisions.

mod lookup;
mod pool;
mod table;
#[cfg(test)]
mod tests;
#[expect(clippy::module_inception, reason = "the paper's word for what the module is about")]
mod tuple;
mod update;

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};

use crate::budget::Budget;
use crate::engine::{Engine, Match, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::rule::{Lowered, Regions, RuleId};
use crate::schema::Schema;
use crate::simd::{Level, dispatch};
use lookup::{Lookup, Scratch};
use pool::Pool;
use table::Table;
use tuple::Shape;
use update::Places;

/// How to build [`TupleMerge`].
#[derive(Clone, Debug)]
pub struct Config {
    /// What it may take.
    pub budget: Budget,
    /// The instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// `c`: how many regions may share a key before their table is split. At least 1.
    pub collision_limit: usize,
    /// Whether a rule whose first compatible table is at the limit goes to a later one with room before that table is
    /// split.
    pub spill: bool,
    /// The seed of the hash; `None` takes a random one of this process.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, collision_limit: 8, spill: true, seed: None }
    }
}

impl Config {
    /// The paper's own values for the online algorithm: `c` = 40 (section IV-B), and a crowded table is split at once.
    pub fn paper() -> Self {
        Self { collision_limit: 40, spill: false, ..Self::default() }
    }
}

/// The TupleMerge classifier, online.
pub struct TupleMerge {
    schema: Schema,
    level: Level,
    budget: usize,
    limit: usize,
    spill: bool,
    /// No group was ever longer; kept where there is a budget.
    longest: usize,
    shape: Shape,
    /// Random numbers that key the hashes.
    secrets: Box<[u64]>,
    pool: Pool,
    /// By number; `None` where a table was dropped.
    tables: Vec<Option<Table>>,
    /// The tables in order of their best priority.
    order: Vec<u32>,
    places: Places,
    rules: usize,
    regions: usize,
    /// The bytes of `tables[..]` beyond themselves.
    table_bytes: usize,
}

impl TupleMerge {
    /// Without rules.
    ///
    /// # Errors
    /// When this machine lacks the forced instruction set, or the budget has no room for an engine without rules.
    pub fn new(schema: &Schema, config: &Config) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        let random = RandomState::new();
        let fixed = BuildHasherDefault::<DefaultHasher>::default();
        let secret = |i: u64| config.seed.map_or_else(|| random.hash_one(i), |seed| fixed.hash_one((seed, i)));
        let engine = Self {
            schema: schema.clone(),
            level,
            budget: config.budget.run_bytes,
            limit: config.collision_limit.max(1),
            spill: config.spill,
            longest: 0,
            shape: Shape::new(schema),
            secrets: (0..=schema.stride() as u64 / 2).map(secret).collect(),
            pool: Pool::new(schema.lanes().len()),
            tables: Vec::new(),
            order: Vec::new(),
            places: Places::default(),
            rules: 0,
            regions: 0,
            table_bytes: 0,
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
            for index in range {
                regions.push(set.regions().get(index));
            }
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
        }
        regions.clear();
        for &rule in set.nowhere() {
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
        }
        Ok(engine)
    }

    /// The tables in the order they are visited: for each the tuple (one mask a lane) and the rules of its entries,
    /// group by group. For tests against the paper's tables, and for people.
    pub fn tables(&self) -> impl Iterator<Item = (Vec<u32>, Vec<RuleId>)> {
        self.in_order().map(|table| {
            let tuple = table.tuple()[..self.shape.lanes()].to_vec();
            let entries = table.groups().flat_map(|(_, group)| self.pool.group(group));
            (tuple, entries.filter_map(|entry| self.pool.found(entry)).map(|found| found.rule).collect())
        })
    }

    fn in_order(&self) -> impl Iterator<Item = &Table> {
        self.order.iter().filter_map(|&t| self.tables[t as usize].as_ref())
    }

    /// Bytes on the heap, kept up to date by every change; O(1).
    fn bytes(&self) -> usize {
        size_of_val(&self.secrets[..])
            + self.shape.bytes()
            + self.pool.bytes()
            + self.table_bytes
            + self.tables.capacity() * size_of::<Option<Table>>()
            + self.order.capacity() * size_of::<u32>()
            + self.places.bytes()
    }
}

impl fmt::Debug for TupleMerge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TupleMerge").field("rules", &self.rules).field("tables", &self.order.len()).finish()
    }
}

impl Engine for TupleMerge {
    type Scratch = Scratch;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Scratch {
        Scratch::new(self.shape.stride())
    }

    fn fits(&self, scratch: &Scratch) -> bool {
        scratch.fits(self.shape.stride())
    }

    /// Takes O(regions).
    fn stats(&self) -> Stats {
        let longest = |table: &Table| table.groups().map(|(_, group)| self.pool.group_len(group)).max().unwrap_or(0);
        let worst: Vec<usize> = self.in_order().map(longest).collect();
        let tests: usize = worst.iter().sum();
        let buckets: usize = self.in_order().map(Table::longest_walk).sum();
        let tables = self.table_bytes
            + self.tables.capacity() * size_of::<Option<Table>>()
            + self.order.capacity() * size_of::<u32>();
        Stats {
            rules: self.rules,
            regions: self.regions,
            bytes: vec![
                ("entries", self.pool.bytes()),
                ("tables", tables),
                ("places of rules", self.places.bytes()),
                ("tuples and keys", size_of_val(&self.secrets[..]) + self.shape.bytes()),
            ],
            tables: self.order.len(),
            worst_tests: tests,
            worst_lines: buckets + tests * self.pool.lines_per_entry(),
            longest_bucket: worst.into_iter().max().unwrap_or(0),
            keeps_shadowed: true,
        }
    }

    fn improve(&self, scratch: &mut Scratch, keys: Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, Lookup { engine: self, scratch, keys, best });
    }
}

impl Updatable for TupleMerge {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        self.insert_rule(rule, regions)
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        self.remove_rule(rule)
    }
}
