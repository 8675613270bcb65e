//! The engine's parts: what lookups read and changes write.

use std::fmt;

use super::arena::Arena;
use super::config::Config;
use crate::engine::Updatable;
use crate::engine::budget::Visits;
use crate::engines::shared::{OverflowList, Places};
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::{Lowered, Regions};
use crate::schema::Schema;

/// Classifier of sorted partitions.
///
/// ```
/// use firstmatch_core::engines::partition_sort::{Config, PartitionSort};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine = PartitionSort::build(&rules, &Config::default())?;
/// let mut keys = KeyBuf::new(engine.schema());
/// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, 443, 6]);
/// assert_eq!(engine.classify(&mut engine.scratch(), keys.keys()).map(|found| found.rule.slot()), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PartitionSort {
    pub(super) schema: Schema,
    pub(super) level: Level,
    pub(super) budget: usize,
    pub(super) reorder: usize,
    pub(super) most_partitions: usize,
    pub(super) arena: Arena,
    /// Partitions in order of their best priority.
    pub(super) partitions: Vec<Partition>,
    /// Overflow list: the regions that no partition takes.
    pub(super) overflow: OverflowList,
    pub(super) places: Places,
    pub(super) rules: usize,
    pub(super) regions: usize,
    /// Number of region visits by insertions.
    pub(super) visits: usize,
}

impl PartitionSort {
    /// Returns an engine without rules.
    ///
    /// # Errors
    /// If this machine lacks the forced instruction set, or the budget has no room for an engine without rules.
    pub fn new(schema: &Schema, config: &Config) -> Result<Self, BuildError> {
        let key_words = schema.words().len();
        let engine = Self {
            schema: schema.clone(),
            level: Level::choose(config.simd)?,
            budget: config.budget.run_bytes,
            reorder: config.reorder,
            most_partitions: config.most_partitions,
            arena: Arena::new(key_words),
            partitions: Vec::new(),
            overflow: OverflowList::new(key_words),
            places: Places::new(),
            rules: 0,
            regions: 0,
            visits: 0,
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

    /// Does the same within a limit on visits.
    ///
    /// Inserting a region takes one visit, one for each partition that it is compared with, and one for each word of each
    /// region of a small partition that looks for another order.
    pub(super) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        set.expanded()?;
        let mut engine = Self::new(set.schema(), config)?;
        let mut regions = Regions::new(set.schema().words().len());
        for (rule, range) in set.by_rule() {
            regions.clear();
            range.for_each(|index| regions.push(set.regions().get(index)));
            visits.add(regions.len());
            visits.check()?;
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
            visits.add(std::mem::take(&mut engine.visits));
        }
        visits.check()?;
        regions.clear();
        for &rule in set.unmatchable() {
            engine.insert(rule, &regions).map_err(|error| error.into_build_error(rule.rule))?;
        }
        Ok(engine)
    }

    /// Returns the bytes on the heap, kept up to date by every change.
    pub(super) fn bytes(&self) -> usize {
        self.arena.bytes() + self.partition_bytes() + self.overflow.bytes() + self.places.bytes()
    }

    pub(super) fn partition_bytes(&self) -> usize {
        self.partitions.capacity() * size_of::<Partition>() + self.partitions.len() * self.arena.key_words()
    }
}

impl fmt::Debug for PartitionSort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionSort").field("rules", &self.rules).field("partitions", &self.partitions.len()).finish()
    }
}

/// Regions that are sorted in one order of words.
#[derive(Debug)]
pub(super) struct Partition {
    /// Lower bound of the priorities of its regions.
    pub(super) best: u64,
    pub(super) root: u32,
    /// Number by which `places` refers to it; it never changes.
    pub(super) number: u32,
    /// Number of regions.
    pub(super) len: usize,
    /// Number of removals since a region of the best priority was removed.
    pub(super) loose: usize,
    pub(super) order: Box<[u8]>,
}

#[cfg(test)]
impl Partition {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn order(&self) -> &[u8] {
        &self.order
    }
}
