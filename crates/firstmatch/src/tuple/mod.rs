//! Tuple spaces: rules hashed by the bits that their tuples share. TupleMerge, online and offline, and Tuple Space
//! Search.
//!
//! # Idea
//! A tuple says how many bits of each field a rule fixes. Tuple Space Search keeps one hash table for each tuple that
//! occurs. TupleMerge lets a table hold every rule that fixes *at least* the table's bits, so far fewer tables do, and
//! bounds the rules that then share a key: online by splitting a table when one key collects more than `c`, offline by
//! choosing the tables with all rules at hand. Whichever the tables are, a key first asks which of them can match it at
//! all: for leading bits of each field, a row of one bit a table, and the tables whose bit all rows have. On the
//! ClassBench sets one or two are left. They are probed in order of their best priority as long as that can improve
//! the match.
//!
//! # Layout in memory
//! The rows of candidates are words of 64 tables, some hundred to some thousand for each of seven lengths of the IPv4
//! 5-tuple. A table is its tuple (one mask a lane) and buckets of one cache line, eight tags and eight groups each. A
//! group is a run of whole entries (bounds, priority, id: one cache line for an IPv4 5-tuple, two for IPv6) in order of
//! priority. So a probe that finds nothing touches one line, and a hit one more for each region tested. Entries and
//! the places of rules grow by chunks that never move. Free runs of entries are cut where a shorter one is asked for, and
//! joined where they lie side by side; a group of more than 16 has a chunk to itself, given back when it goes.
//!
//! # Cost
//! Memory is linear: a region is one entry, 12 bytes to find it by its rule, its share of a table 37 to 56 % full, and
//! a few bytes of rows. A lookup probes each table once at most and tests at most `c` regions a table, unless more than
//! `c` rules cannot be told apart by any tuple; [`Stats`] says so. A batch goes through its tables in rounds, one table a
//! key and round, and through a round in three stages, each asking early for the memory of the next: hash, compare
//! tags, test regions. An insertion takes O(tables + c), and a split, which moves the rules of a table that fit a longer
//! tuple, O(table); a removal takes O(c). Spread over changes, both take O(1) for the bounds on the tables' best
//! priorities, for bits of rows that no longer hold, for numbering the tables anew in their order, and for joining free
//! runs. One change in many then takes O(regions): of 500,000 random updates of 50,000 rules the longest, each measured
//! six times, took 4.7 to 5.6 ms on three ClassBench sets, and it is the numbering, which tells the rows of every region
//! again, once in as many insertions as there are regions; the rows of one table take up to 2.5 ms, its best priority
//! 0.7, its growth 0.1 (tried once, by no definition of the benchmarks).
//!
//! There are never more tables than [`Config::most_tables`], and no group has more than 1,024 regions: what would need
//! more is kept beside the tables and tested eight regions at a time by every lookup it can improve;
//! [`Stats::untabled`] counts it.
//!
//! # Paper
//! Daly, Bruschi, Linguaglossa, Pontarelli, Rossi, Tollet, Torng and Yourtchenko, "TupleMerge: Fast Software Packet
//! Processing for Online Packet Classification", IEEE/ACM Transactions on Networking 27(4), 2019, section III: tuple
//! selection III-C2, insertion III-C3, deletion III-C4, classification III-C1, offline table selection III-C5.
//! Srinivasan, Suri and Varghese, "Packet Classification using Tuple Space Search", SIGCOMM 1999: the tables without
//! merging, and the preclassifier (section II-B2 of the former).
//!
//! # Deviations
//! - The paper has no preclassifier; ours is one of hashed rows, and always there. It stands where the authors put
//!   Bloom filters before tables: it answers for 64 tables at a time, with seven loads for an IPv4 5-tuple.
//! - "Not specific enough" (III-C3) is made exact: the common tuple of the colliding rules equals the table's, or
//!   still leaves more than `c` of them on one key. The average of the two lengths is then rounded up, since rounded
//!   down it would make no progress between 0 and 1; and the bits taken are those of the rule that has most.
//! - A rule whose first compatible table is at the limit goes to a later one with room, if there is one, before that
//!   table is split (`Config::spill`). Rule sets full of ranges and negations, whose tuples say little, would otherwise
//!   split off one table after another under the same tuple: 135 tables against 47 for the IPv6 half of the example
//!   rules. `c` is then 8 by default, not 40: the ClassBench sets take as long with any from 3 to 40 (geometric means of
//!   21.8 to 23.8 ns over twelve of 1,000 rules and 30.0 to 32.4 over eight of 10,000, all in one run, in no order of `c`;
//!   tried once, by no definition of the benchmarks), but with less than 8 some of 1,000 rules need more than 64 tables.
//! - With `Config::spill`, the first 24 tuples get tables as they are, and a rule the table of its very tuple if there
//!   is one: the rows answer for 64 tables at a time, so that these cost nothing and what they hold is told apart better.
//!   Merging begins behind them. In batches of 32, beside Tuple Space Search in one run, that is 7 and 5 % faster in the
//!   geometric means over twelve ClassBench sets of 1,000 and 10,000 rules. Of several other tables that have room a rule
//!   goes to the one of most bits, not to the first. Where there is such a table, 28 tuples get tables as they are: rules
//!   that come in random order find a general table early, which would take them all.
//!   Lookups after 400,000 random updates took 1.28 and 1.26 times as long as in a fresh build of the same rules without
//!   that, and 1.08 and 1.20 with it (geometric means over the same sets, all in one run, batches of 256;
//!   tried once, by no definition of the benchmarks). What is left is in the order of the rules: with 40 such tables a key
//!   of fw1_10k, ipc1_10k and acl3_10k made 3.1, 6.1 and 8.5 probes and 2.7, 3.0 and 5.4 tests of regions after random
//!   updates, and 2.4, 3.5 and 6.0 probes and 1.0, 2.9 and 3.3 tests in a fresh build, since tables are fewer, more
//!   general, and have their best priorities closer together.
//! - Rules that share one tuple and one key cannot be split apart at all; their group may exceed `c`.
//! - Deletion (III-C4) also lowers the bound on the table's best priority, in steps of O(1) a removal, and drops a table
//!   that became empty. The authors' code loses every later table there.
//! - Offline, a rule is one of its regions, keys are counted by their hash, and rules that come later are inserted as
//!   online. Equally good tuples of III-C5 are tried for size only where they are equal in the first missing rule.
//! - Tables are separate, not one table with their number in the key (III-D1), so that a split and the search for a
//!   table's best priority see that table's entries alone. Both ways side by side, all tables of generated sets probed
//!   for every key in batches of 64 (`acl1`, `fw1`, `ipc1`, AMD Zen 5; tried once, by no definition of the benchmarks):
//!   6.2 to 7.8 ns a probe separate and 10.4 to 11.7 shared with 1,000 rules, 8.1 to 8.9 and 7.5 to 8.0 with 10,000, 8.4
//!   to 10.1 and 9.6 to 10.5 with 100,000.
//! - No Bloom filters before tables, which are optional in the paper. A filter of one word of 64 bits a bucket, 14 to 21
//!   bits a group, asked between the hash and the bucket for one or two bits of one word, was slower behind the rows on
//!   each of 27 ClassBench sets, by 6 % at least: the rows leave few probes that fail, and such a probe touches one line
//!   as the filter does. Without the rows it helps, but far less than they do. Geometric means over twelve sets of 1,000
//!   rules, twelve of 10,000 and three of 100,000 in batches of 256, all in one process a set, in interleaved rounds
//!   (tried once, by no definition of the benchmarks): 21.1, 23.8 and 34.7 ns a key with the rows, which are kept; 24.0,
//!   26.6 and 40.3 with rows and filters of one bit a key, 24.7, 27.3 and 43.2 of two; 129.1, 141.0 and 193.4 with neither;
//!   100.6, 104.4 and 158.6 with filters of one bit alone, 99.6, 103.6 and 150.0 of two.
//! - Wide fields: an address is one field whatever its width, its length the bits of all its lanes. VPP relaxes an IPv6
//!   address of 128 bits to 64 and one of 64 to 56, leaves every other length, and calls lengths close within 4 bits.
//!   Ours follows III-C2 in proportion: 4 bits of an IPv4 address are 16 of an IPv6 address, "close" is 16 bits, and a
//!   length is classed by its share of the width (a /48 as a /12, a /64 as a /16, a /128 as a /32, which loses 16 bits).
//!   They are taken from the lowest lane up. A smaller address goes with its port as at 32 bits, also in OpenFlow's
//!   schema; a field that is not a prefix keeps all its bits, however wide. No step is made for lengths that are usual
//!   in IPv6: a table that a step has made too general is split, one that it has left too specific is never mended.
//! - Ternary fields bring their own mask bits to the tuple, as III-A allows; a range counts as its longest containing
//!   prefix, as III-D1 does, and is compared as a range.
//! - The hash is keyed with a seed of the process: whoever sends packets or rules cannot choose collisions.

mod candidates;
mod lookup;
mod offline;
mod pool;
mod table;
#[cfg(test)]
mod tests;
#[expect(clippy::module_inception, reason = "the paper's word for what the module is about")]
mod tuple;
mod update;
mod work;

use std::fmt;
use std::ops::Range;

use crate::alive::{All, Base, Dead};
use crate::budget::{Budget, Visits};
use crate::engine::{Engine, Match, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::parts::{Places, Rest, with_room};
use crate::rule::{Lowered, Regions, RuleId};
use crate::schema::Schema;
use crate::simd::{Hasher, Level, dispatch, secrets};
use crate::work::Work;
use candidates::Candidates;
use lookup::{Bounds, Lookup, Scratch};
use pool::Pool;
use table::Table;
use tuple::Shape;

/// How to build [`TupleMerge`].
#[derive(Clone, Debug)]
pub struct Config {
    /// What it may take.
    pub budget: Budget,
    /// The instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// How rules of different tuples share tables.
    pub merge: Merge,
    /// `c`: how many regions may share a key before their table is split. At least 1. Without merging it says nothing.
    pub collision_limit: usize,
    /// Whether a rule whose first compatible table is at the limit goes to a later one with room before that table is
    /// split, and whether the first tuples get tables of their own.
    pub spill: bool,
    /// How many tables there may be. Regions that would need more are tested one after the other, eight at a time.
    pub most_tables: usize,
    /// The seed of the hash; `None` takes a random one of this process.
    pub seed: Option<u64>,
}

/// How rules of different tuples share tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merge {
    /// Not at all: Tuple Space Search.
    None,
    /// As they come (sections III-C2 to III-C4).
    Online,
    /// The tables of a build are chosen with all its rules at hand (section III-C5); later rules come as online.
    Offline,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            simd: None,
            merge: Merge::Online,
            collision_limit: 8,
            spill: true,
            most_tables: 512,
            seed: None,
        }
    }
}

impl Config {
    /// The paper's own values for the online algorithm: `c` = 40 (section IV-B), and a crowded table is split at once.
    pub fn paper() -> Self {
        Self { collision_limit: 40, spill: false, ..Self::default() }
    }

    /// The paper's own values for the offline algorithm: `c` = 8 (section IV-B).
    pub fn offline() -> Self {
        Self { merge: Merge::Offline, spill: false, ..Self::default() }
    }

    /// Tuple Space Search: a table for each tuple.
    pub fn tss() -> Self {
        Self { merge: Merge::None, ..Self::default() }
    }
}

/// The classifier over tuple spaces: TupleMerge, online and offline, and Tuple Space Search.
pub struct TupleMerge {
    schema: Schema,
    level: Level,
    budget: usize,
    merge: Merge,
    limit: usize,
    spill: bool,
    most_tables: usize,
    /// No group was ever longer.
    longest: usize,
    shape: Shape,
    hasher: Hasher,
    candidates: Candidates,
    pool: Pool,
    /// By number; `None` where a table was dropped.
    tables: Vec<Option<Table>>,
    /// By number, in whole planes.
    bounds: Vec<Bounds>,
    /// By number: a hash of the table's tuple.
    fingerprints: Vec<u32>,
    /// The tables in order of their best priority.
    order: Vec<u32>,
    /// The regions that no table takes.
    rest: Rest,
    places: Places,
    rules: usize,
    regions: usize,
    /// Insertions since the tables were numbered.
    inserted: usize,
    /// How often changes have looked at a region: at one to be inserted once for each table, at others whenever their
    /// group or table is gone through.
    visits: usize,
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
        let mut secret = secrets(config.seed);
        let engine = Self {
            schema: schema.clone(),
            level,
            budget: config.budget.run_bytes,
            merge: config.merge,
            limit: config.collision_limit.max(1),
            spill: config.spill,
            most_tables: config.most_tables.min(u32::MAX as usize / 2),
            longest: 0,
            shape: Shape::new(schema),
            hasher: Hasher::new(schema.stride(), &mut secret),
            candidates: Candidates::new(schema, secret()),
            pool: Pool::new(schema.lanes().len()),
            tables: Vec::new(),
            bounds: Vec::new(),
            fingerprints: Vec::new(),
            order: Vec::new(),
            rest: Rest::new(schema.lanes().len()),
            places: Places::new(),
            rules: 0,
            regions: 0,
            inserted: 0,
            visits: 0,
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
        Self::build_within(set, config, &Visits::default())
    }

    /// The same within so many visits of regions, which the offline algorithm does not count.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let mut engine = Self::new(set.schema(), config)?;
        let mut regions = Regions::new(set.schema().lanes().len());
        if engine.bytes() + engine.candidates.growth(set.regions().len(), 1) <= engine.budget {
            engine.renumber(set.regions().len());
        }
        if config.merge == Merge::Offline {
            engine.choose_tables(set)?;
        }
        for (rule, range) in set.by_rule().filter(|_| config.merge != Merge::Offline) {
            regions.clear();
            for index in range {
                regions.push(set.regions().get(index));
            }
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
            visits.add(std::mem::take(&mut engine.visits));
            visits.check()?;
        }
        regions.clear();
        for &rule in set.nowhere() {
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
        }
        if !engine.order.is_sorted() {
            engine.renumber(engine.regions);
        }
        Ok(engine)
    }

    /// Inserts every region where the offline algorithm puts it.
    fn choose_tables(&mut self, set: &Lowered) -> Result<(), BuildError> {
        let into_build = |rule: RuleId| move |error: UpdateError| error.into_build_error(rule);
        let tables = offline::tables(&self.shape, &self.hasher, set.regions(), self.limit);
        for (number, (tuple, regions)) in tables.into_iter().enumerate() {
            let mut table = None;
            for index in regions {
                let (rule, region) = (set.rules()[index as usize], set.regions().get(index as usize));
                self.check_budget(rule.rule.slot(), 1, &region).map_err(into_build(rule.rule))?;
                if table.is_none() && number < self.most_tables {
                    table = Some(self.new_table(&tuple));
                }
                let (lo, _) = self.rows(&region);
                self.insert_into(table, rule, &region, &lo);
            }
        }
        Ok(())
    }

    /// The tables in the order of their best priority: for each the tuple (one mask a lane) and the rules of its entries,
    /// group by group. For tests against the paper's tables, and for people.
    pub fn tables(&self) -> impl Iterator<Item = (Vec<u32>, Vec<RuleId>)> {
        self.in_order().map(|table| {
            let tuple = table.tuple()[..self.shape.lanes()].to_vec();
            let entries = table.groups().flat_map(|(_, group)| self.pool.group(group));
            (tuple, entries.filter_map(|entry| self.pool.found(entry)).map(|found| found.rule).collect())
        })
    }

    /// How many rules have a region here.
    pub(crate) fn rules(&self) -> usize {
        self.rules
    }

    /// Statistics without bytes, of which the worst case is an upper bound; O(tables).
    pub(crate) fn bound(&self) -> Stats {
        let mut stats = Stats {
            rules: self.rules,
            regions: self.regions,
            tables: self.order.len(),
            worst_tests: self.rest.len(),
            worst_lines: self.candidate_lines() + self.rest.lines(),
            untabled: self.rest.len(),
            keeps_shadowed: true,
            ..Stats::default()
        };
        for (longest, walk) in self.in_order().map(Table::bound) {
            stats.worst_tests += longest;
            stats.worst_lines += walk + longest * self.pool.lines_per_entry();
            stats.longest_bucket = stats.longest_bucket.max(longest);
        }
        stats
    }

    /// Number of cache lines that a lookup reads to know its candidates among 64 tables.
    pub(crate) fn lines_per_plane(&self) -> usize {
        self.candidates.lines_per_plane()
    }

    /// Number of cache lines that a lookup reads to know its candidates.
    fn candidate_lines(&self) -> usize {
        self.tables.len().div_ceil(candidates::PLANE) * self.lines_per_plane()
    }

    fn in_order(&self) -> impl Iterator<Item = &Table> {
        self.order.iter().filter_map(|&t| self.tables[t as usize].as_ref())
    }

    /// Bytes on the heap, kept up to date by every change; O(1).
    pub(crate) fn bytes(&self) -> usize {
        self.hasher.bytes()
            + self.shape.bytes()
            + self.candidates.bytes()
            + self.rest.bytes()
            + self.pool.bytes()
            + self.table_bytes
            + self.tables.capacity() * size_of::<Option<Table>>()
            + (self.order.capacity() + self.fingerprints.capacity()) * size_of::<u32>()
            + self.bounds.capacity() * size_of::<Bounds>()
            + self.places.bytes()
    }
}

impl Clone for TupleMerge {
    fn clone(&self) -> Self {
        Self {
            schema: self.schema.clone(),
            shape: self.shape.clone(),
            hasher: self.hasher.clone(),
            candidates: self.candidates.clone(),
            pool: self.pool.clone(),
            tables: with_room(&self.tables),
            bounds: with_room(&self.bounds),
            fingerprints: with_room(&self.fingerprints),
            order: with_room(&self.order),
            rest: self.rest.clone(),
            places: self.places.clone(),
            ..*self
        }
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
        Scratch::new()
    }

    /// Takes O(regions).
    fn stats(&self) -> Stats {
        let longest = |table: &Table| table.groups().map(|(_, group)| self.pool.group_len(group)).max().unwrap_or(0);
        let worst: Vec<usize> = self.in_order().map(longest).collect();
        let buckets: usize = self.in_order().map(Table::longest_walk).sum();
        let tables = self.table_bytes
            + self.tables.capacity() * size_of::<Option<Table>>()
            + (self.order.capacity() + self.fingerprints.capacity()) * size_of::<u32>()
            + self.bounds.capacity() * size_of::<Bounds>();
        let tests = worst.iter().sum::<usize>() + self.rest.len();
        Stats {
            rules: self.rules,
            regions: self.regions,
            bytes: vec![
                ("entries", self.pool.bytes()),
                ("tables", tables),
                ("places of rules", self.places.bytes()),
                ("candidates", self.candidates.bytes()),
                ("rest", self.rest.bytes()),
                ("tuples and keys", self.hasher.bytes() + self.shape.bytes()),
            ],
            tables: self.order.len(),
            worst_tests: tests,
            worst_lines: self.candidate_lines()
                + buckets
                + (tests - self.rest.len()) * self.pool.lines_per_entry()
                + self.rest.lines(),
            untabled: self.rest.len(),
            longest_bucket: worst.into_iter().max().unwrap_or(0),
            keeps_shadowed: true,
        }
    }

    fn improve(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, Lookup { engine: self, alive: All, scratch, keys: *keys, best });
    }
}

/// The place of a rule is its slot.
impl Base for TupleMerge {
    fn places(&self) -> usize {
        self.places.slots()
    }

    fn places_of(&self, rule: RuleId, _rank: usize, _regions: Range<usize>) -> Range<usize> {
        rule.slot()..rule.slot() + 1
    }

    fn work(&self, keys: Keys<'_>) -> Work {
        work::of(self, keys)
    }

    fn improve_alive(&self, scratch: &mut Scratch, keys: &Keys<'_>, dead: &Dead, best: &mut [Option<Match>]) {
        dispatch(self.level, Lookup { engine: self, alive: dead, scratch, keys: *keys, best });
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
