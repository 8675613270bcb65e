//! The engine's parts: what lookups read and changes write.

use std::fmt;

use super::candidates::{self, Candidates};
use super::config::{Config, MOST_TABLES, Merge};
use super::offline;
use super::pool::Pool;
use super::table::Table;
use super::tuple::Shape;
use crate::engine::budget::Visits;
use crate::engine::{Stats, Updatable};
use crate::engines::shared::{OverflowList, Places, with_room};
use crate::error::{BuildError, UpdateError};
use crate::raw::{Hasher, Level, secrets};
use crate::rule::{Lowered, Regions, RuleId};
use crate::schema::Schema;

/// Classifier over tuple spaces: TupleMerge, online and offline, and Tuple Space Search.
///
/// ```
/// use firstmatch_core::engines::tuple::{Config, TupleMerge};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine = TupleMerge::build(&rules, &Config::default())?;
/// let mut keys = KeyBuf::new(engine.schema());
/// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, 443, 6]);
/// assert_eq!(engine.classify(&mut engine.scratch(), keys.keys()).map(|found| found.rule.slot()), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TupleMerge {
    pub(super) schema: Schema,
    pub(super) level: Level,
    pub(super) budget: usize,
    pub(super) merge: Merge,
    pub(super) limit: usize,
    pub(super) spill: bool,
    pub(super) most_tables: usize,
    /// Upper bound of the length of any group so far.
    pub(super) longest: usize,
    pub(super) shape: Shape,
    pub(super) hasher: Hasher,
    pub(super) candidates: Candidates,
    pub(super) pool: Pool,
    /// Tables by number; `None` where a table was dropped.
    pub(super) tables: Vec<Option<Table>>,
    /// Bounds of the tables by number, filled up to whole planes.
    pub(super) bounds: Vec<Bounds>,
    /// Hash of each table's tuple, by number.
    pub(super) fingerprints: Vec<u32>,
    /// Tables in order of their best priority.
    pub(super) order: Vec<u32>,
    /// Overflow list: the regions that no table takes.
    pub(super) overflow: OverflowList,
    pub(super) places: Places,
    pub(super) rules: usize,
    pub(super) regions: usize,
    /// Insertions since the tables were numbered.
    pub(super) inserted: usize,
    /// Number of times that changes have looked at a region.
    ///
    /// An inserted region counts once for each table. Another region counts whenever a change walks its group or
    /// table.
    pub(super) visits: usize,
    /// Bytes on the heap of all tables.
    pub(super) table_bytes: usize,
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
            most_tables: config.most_tables.min(MOST_TABLES),
            longest: 0,
            shape: Shape::new(schema, config.fields),
            hasher: Hasher::new(schema.stride(), &mut secret),
            candidates: Candidates::new(schema, secret(), config.preclassifier),
            pool: Pool::new(schema.words().len()),
            tables: Vec::new(),
            bounds: Vec::new(),
            fingerprints: Vec::new(),
            order: Vec::new(),
            overflow: OverflowList::new(schema.words().len()),
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
        set.expanded()?;
        let mut engine = Self::new(set.schema(), config)?;
        let mut regions = Regions::new(set.schema().words().len());
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
        for &rule in set.unmatchable() {
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
        }
        if engine.are_out_of_order() {
            engine.renumber(engine.regions);
        }
        Ok(engine)
    }

    /// Inserts every region where the offline algorithm puts it.
    pub(super) fn choose_tables(&mut self, set: &Lowered) -> Result<(), BuildError> {
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
    /// Each table is given as its tuple (one mask per key word) and the rules of its entries, group by group.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (Vec<u32>, Vec<RuleId>)> {
        self.in_order().map(|table| {
            let tuple = table.tuple()[..self.shape.key_words()].to_vec();
            let entries = table.groups().flat_map(|(_, group)| self.pool.group(group));
            (tuple, entries.filter_map(|entry| self.pool.found(entry)).map(|found| found.rule).collect())
        })
    }

    /// Number of rules with at least one region.
    pub(crate) fn rules(&self) -> usize {
        self.rules
    }

    /// Returns statistics without bytes in O(tables); the worst case is an upper bound.
    pub(crate) fn bound(&self) -> Stats {
        let mut stats = Stats {
            rules: self.rules,
            regions: self.regions,
            tables: self.order.len(),
            worst_tests: self.overflow.len(),
            worst_lines: self.candidate_lines() + self.overflow.lines(),
            overflow: self.overflow.len(),
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

    /// Number of cache lines that a lookup reads to find its candidates among 64 tables.
    pub(crate) fn lines_per_plane(&self) -> usize {
        self.candidates.lines_per_plane()
    }

    /// Number of cache lines that a lookup reads to find its candidates.
    pub(super) fn candidate_lines(&self) -> usize {
        self.tables.len().div_ceil(candidates::PLANE) * self.lines_per_plane()
    }

    pub(super) fn in_order(&self) -> impl Iterator<Item = &Table> {
        self.order.iter().filter_map(|&t| self.tables[t as usize].as_ref())
    }

    /// Returns the bytes on the heap in O(1), kept up to date by every change.
    pub(crate) fn bytes(&self) -> usize {
        self.hasher.bytes()
            + self.shape.bytes()
            + self.candidates.bytes()
            + self.overflow.bytes()
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
            overflow: self.overflow.clone(),
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

/// Bounds on the priorities that a table can give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Lower bound of the priorities of the table.
    pub(super) best: u64,
    /// Lower bound of the priorities of all tables of higher numbers.
    pub(super) after: u64,
}

impl Bounds {
    pub(super) const NONE: Self = Self { best: u64::MAX, after: u64::MAX };
}
