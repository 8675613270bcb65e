//! Rules that a base was built from, for the writer and for rebuilds.

use std::ops::Range;

use crate::engine::Match;
use crate::engine::tombstones::slots;
use crate::rule::{Lowered, Priority, Regions};

/// Rules in order, with the position of each.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) set: Lowered,
    /// Position of each rule, indexed by slot.
    found: Box<[Found]>,
    /// All priorities in order, and every [`EVERY`]th of them.
    order: Box<[Priority]>,
    every: Box<[Priority]>,
}

/// Distance between the priorities that a search looks at first.
///
/// There are so few of these that they stay in a cache. For example, with 100,000 priorities a search looks among
/// 6,250, then among 16.
const EVERY: usize = 16;

/// Position of a rule: the numbers of rules and of regions before its own.
///
/// The number of regions only counts where they are made, which are fewer than 2<sup>32</sup>.
#[derive(Clone, Copy, Debug)]
struct Found {
    rank: u32,
    start: u32,
}

impl Store {
    pub(super) fn new(set: Lowered) -> Self {
        let mut found = vec![Found { rank: u32::MAX, start: u32::MAX }; slots(&set)];
        for (rank, (rule, regions)) in set.by_rule().enumerate() {
            let start = u32::try_from(regions.start).unwrap_or(u32::MAX);
            found[rule.rule.slot()] = Found { rank: rank as u32, start };
        }
        let order: Box<[Priority]> = set.by_rule().map(|(rule, _)| rule.priority).collect();
        let every = order.iter().step_by(EVERY).copied().collect();
        Self { set, found: found.into(), order, every }
    }

    /// Returns the rank of a rule and the range of its regions; `None` if it is not here.
    pub(super) fn find(&self, rule: Match) -> Option<(usize, Range<usize>)> {
        let Found { rank, start } = *self.found.get(rule.rule.slot())?;
        let (rank, start) = (rank as usize, start as usize);
        let count = self.set.count_of(rule, start);
        (count > 0).then(|| (rank, start..start.saturating_add(count)))
    }

    /// Returns the number of rules with a smaller priority value than `priority`.
    pub(super) fn before(&self, priority: Priority) -> usize {
        let near = self.every.partition_point(|&of| of < priority).saturating_sub(1);
        let rules = &self.order[near * EVERY..];
        near * EVERY + rules[..rules.len().min(EVERY)].partition_point(|&of| of < priority)
    }

    /// Whether the regions `range` of the stored rule `rule` equal `regions`.
    pub(super) fn has(&self, rule: Match, range: Range<usize>, regions: &Regions) -> bool {
        range.len() == regions.len() && self.set.has(rule, range, regions)
    }

    /// Returns the heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.set.bytes() + size_of_val(&self.found[..]) + size_of_val(&self.order[..]) + size_of_val(&self.every[..])
    }
}
