//! Tuple spaces: TupleMerge, online and offline, and Tuple Space Search.
//!
//! # Idea
//! A tuple says how many bits of each field a rule fixes. Tuple Space Search keeps one hash table for each tuple that
//! occurs. TupleMerge lets a table hold every rule that fixes *at least* the table's bits, so that far fewer tables do.
//!
//! It bounds the rules that then share a key. Online, a table is split when one key collects more than `c`; offline,
//! the tables are chosen with all rules at hand. For example, a table of 16 source bits takes rules for 10.1.0.0/16 and
//! 10.1.2.0/24.
//!
//! A lookup first asks which tables can match its key at all. The leading bits of each field choose a row of one bit a
//! table, and the candidates are the tables whose bit all rows have. Few are left on the ClassBench sets. They are
//! probed in order of their best priority as long as that can improve the match.
//!
//! # Layout in memory
//! - *Rows* of candidates are words of 64 tables, some hundred to some thousand for each of seven prefix lengths of the
//!   IPv4 5-tuple.
//! - *Tables* are a tuple (one mask a key word) and buckets of one cache line, eight tags and eight groups each.
//! - *Groups* are runs of whole entries (bounds, priority, id: one cache line for an IPv4 5-tuple, two for IPv6) in
//!   order of priority. So a probe that finds nothing touches one line, and a hit one more for each region tested.
//!
//! Entries and the index from rules to entries grow by chunks, so that no growth moves all of them. Free runs of
//! entries are cut where a shorter one is asked for, and joined where they lie side by side. A group of more than 16
//! has a chunk to itself, given back when it goes.
//!
//! # Cost
//! Memory is linear: a region takes one entry, 12 bytes to find it by its rule, and a few bytes of rows. It has a share
//! of a table that is 37 to 56 % full. A lookup probes each table once at most and tests at most `c` regions a table.
//! It tests more only if no tuple tells more than `c` rules apart; [`Stats`] says so.
//!
//! A batch goes through its tables in rounds, one table a key and round. A round has three stages: hash, compare tags,
//! test regions. Each stage prefetches the memory of the next.
//!
//! An insertion takes O(tables + c), and a removal O(c). A split moves the rules of a table that fit a longer tuple and
//! takes O(table). Some work is O(1) when spread over changes: tightening the tables' best priorities, clearing stale
//! row bits, renumbering the tables in their order, and joining free runs. One change in many then takes O(regions).
//! The longest is the renumbering, once in as many insertions as there are regions, because it sets the row bits of
//! every region again.
//!
//! There are never more tables than [`Config::most_tables`], and no group has more than 1,024 regions. Regions that
//! would need more go to an overflow list. Every lookup that it can improve tests it, eight regions at a time;
//! [`Stats::untabled`] counts its regions.
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
//!   leaves more than `c` on one key. The average of the two lengths is then rounded up, because rounded down it would
//!   make no progress between 0 and 1. The bits taken are those of the rule that has most.
//! - A rule whose first compatible table is at the limit goes to a later one with room, before that table is split
//!   (`Config::spill`). Otherwise rule sets full of ranges and negations, whose tuples say little, would split off one
//!   table after another under the same tuple. `c` is then 8 by default, not 40. Lookups hardly depend on it, but with
//!   less than 8 some small sets need more than 64 tables.
//! - With `Config::spill`, the first 24 tuples get tables as they are, and a rule the table of its very tuple if there
//!   is one. These tables cost nothing, because the rows answer for 64 at a time, and their rules are told apart
//!   better. Merging begins behind them.
//! - With `Config::spill`, a rule goes to the one of most bits among several other tables that have room, not to the
//!   first. Where there is such a table, 28 tuples get tables as they are. Otherwise a general table, which rules in
//!   random order find early, would take them all.
//! - These two choices make lookups after random updates faster, but still slower than in a fresh build of the same
//!   rules. That is due to the order of the rules: tables are then fewer, more general, and have their best priorities
//!   closer together.
//! - Rules that share one tuple and one key cannot be split apart at all; their group may exceed `c`.
//! - Deletion (III-C4) also lowers the bound on the table's best priority, in steps of O(1) a removal. It drops a table
//!   that became empty. The authors' code loses every later table there.
//! - Offline, a rule is one of its regions, keys are counted by their hash, and rules that come later are inserted as
//!   online. Equally good tuples of III-C5 are tried for size only where they are equal in the first missing rule.
//! - Tables are separate, not one table with their number in the key (III-D1). So a split and the search for a table's
//!   best priority see that table's entries alone. A probe of a separate table takes less time in small sets, and about
//!   as long in large ones.
//! - No Bloom filters before tables, which are optional in the paper. Behind the rows, a filter of one word a bucket
//!   made lookups slower on every ClassBench set tried. That is because the rows leave few probes that fail, and such a
//!   probe touches one line, as the filter does. Without the rows a filter helps, but far less than they do.
//! - Wide fields: an address is one field whatever its width, its length the bits of all its words. VPP relaxes an IPv6
//!   address of 128 bits to 64 and one of 64 to 56, and leaves every other length. It calls lengths close within 4
//!   bits. Ours follows III-C2 in proportion: 4 bits of an IPv4 address are 16 of an IPv6 address, and "close" is 16
//!   bits. A length is classed by its share of the width. For example, a /48 is classed as a /12, a /64 as a /16, and a
//!   /128 as a /32, which loses 16 bits.
//! - Bits are taken from the lowest word up. A smaller address goes with its port as at 32 bits, also in OpenFlow's
//!   schema. A field that is not a prefix keeps all its bits, however wide. No step is made for lengths that are usual
//!   in IPv6. A split mends a step that is too general, but nothing mends one that is too specific.
//! - Ternary fields bring their own mask bits to the tuple, as III-A allows. A range counts as its longest containing
//!   prefix, as III-D1 does, and is compared as a range.
//! - The hash is keyed with a seed of the process, so that a sender of packets or rules cannot choose collisions.

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

use crate::engine::base::Base;
use crate::engine::budget::{Budget, Visits};
use crate::engine::cost::Work;
use crate::engine::tombstones::{All, Dead};
use crate::engine::{Engine, Match, Stats, Updatable};
use crate::engines::shared::{Places, Rest, with_room};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::raw::{Hasher, Level, dispatch, secrets};
use crate::rule::{Lowered, Regions, RuleId};
use crate::schema::Schema;
use candidates::Candidates;
use lookup::{Bounds, Lookup, Scratch};
use pool::Pool;
use table::Table;
use tuple::Shape;

/// Configuration of [`TupleMerge`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Limit on the memory of the engine.
    pub budget: Budget,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Whether and when rules of different tuples share tables.
    pub merge: Merge,
    /// `c`: most regions that share a key before their table is split; at least 1.
    ///
    /// It has no effect without merging.
    pub collision_limit: usize,
    /// Whether a rule goes to a later table with room before a crowded table is split.
    ///
    /// The crowded one is its first compatible table. The first tuples also get tables of their own.
    pub spill: bool,
    /// Maximum number of tables.
    ///
    /// Regions that would need more go to an overflow list, which is tested eight regions at a time.
    pub most_tables: usize,
    /// Seed of the hash; `None` takes a random one of this process.
    pub seed: Option<u64>,
}

/// Whether and when rules of different tuples share tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merge {
    /// Never: Tuple Space Search.
    None,
    /// As rules come (sections III-C2 to III-C4).
    Online,
    /// When the tables of a build are chosen, with all its rules at hand (section III-C5).
    ///
    /// Later rules come as online.
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
    /// Returns the paper's values for the online algorithm.
    ///
    /// `c` is 40 (section IV-B), and a crowded table is split at once.
    pub fn paper() -> Self {
        Self { collision_limit: 40, spill: false, ..Self::default() }
    }

    /// Returns the paper's values for the offline algorithm: `c` = 8 (section IV-B).
    pub fn offline() -> Self {
        Self { merge: Merge::Offline, spill: false, ..Self::default() }
    }

    /// Returns the configuration of Tuple Space Search: a table for each tuple.
    pub fn tss() -> Self {
        Self { merge: Merge::None, ..Self::default() }
    }
}

/// Classifier over tuple spaces: TupleMerge, online and offline, and Tuple Space Search.
pub struct TupleMerge {
    schema: Schema,
    level: Level,
    budget: usize,
    merge: Merge,
    limit: usize,
    spill: bool,
    most_tables: usize,
    /// Upper bound of the length of a group, now and before.
    longest: usize,
    shape: Shape,
    hasher: Hasher,
    candidates: Candidates,
    pool: Pool,
    /// Tables by number; `None` where a table was dropped.
    tables: Vec<Option<Table>>,
    /// Bounds by number, in whole planes.
    bounds: Vec<Bounds>,
    /// Hash of each table's tuple, by number.
    fingerprints: Vec<u32>,
    /// Tables in order of their best priority.
    order: Vec<u32>,
    /// Overflow list: the regions that no table takes.
    rest: Rest,
    places: Places,
    rules: usize,
    regions: usize,
    /// Insertions since the tables were numbered.
    inserted: usize,
    /// Number of times that changes have looked at a region.
    ///
    /// A region to be inserted counts once for each table, others whenever their group or table is gone through.
    visits: usize,
    /// Bytes on the heap of all tables.
    table_bytes: usize,
}

impl TupleMerge {
    /// Returns an engine without rules.
    ///
    /// # Errors
    /// If this machine lacks the forced instruction set, or the budget has no room for an engine without rules.
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

    /// Returns an engine with the rules of a lowered set, inserted in order of priority.
    ///
    /// # Errors
    /// If this machine lacks the forced instruction set or the budget has no room.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default())
    }

    /// Does the same within the visits of regions that `visits` allows.
    ///
    /// The offline algorithm does not count any.
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

    /// Returns the tables in the order of their best priority.
    ///
    /// A table is its tuple (one mask a key word) and the rules of its entries, group by group. For tests against the
    /// paper's tables, and for people.
    pub fn tables(&self) -> impl Iterator<Item = (Vec<u32>, Vec<RuleId>)> {
        self.in_order().map(|table| {
            let tuple = table.tuple()[..self.shape.lanes()].to_vec();
            let entries = table.groups().flat_map(|(_, group)| self.pool.group(group));
            (tuple, entries.filter_map(|entry| self.pool.found(entry)).map(|found| found.rule).collect())
        })
    }

    /// Number of rules that have a region here.
    pub(crate) fn rules(&self) -> usize {
        self.rules
    }

    /// Returns statistics without bytes in O(tables); the worst case is an upper bound.
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

    /// Returns the bytes on the heap in O(1), kept up to date by every change.
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

    /// Returns the statistics in O(regions).
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
