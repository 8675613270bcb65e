//! Insertions and removals.

use super::arena::{Arena, NONE};
use super::node::ENTRY;
use super::order;
use super::structure::{Partition, PartitionSort};
use super::tree::{Fit, Step};
use crate::engine::{Match, Updatable};
use crate::engines::shared::places::{OVERFLOW, Place, UNMATCHABLE};
use crate::engines::shared::vec_growth;
use crate::error::UpdateError;
use crate::rule::{Region, Regions, RuleId};

/// Maximum number of regions of a group; further equal regions go to other partitions.
pub(super) const LONGEST: usize = 256;

impl Updatable for PartitionSort {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        let slot = rule.rule.slot();
        if regions.key_words() != self.arena.key_words() {
            return Err(UpdateError::key_words(regions.key_words(), self.arena.key_words()));
        }
        if !self.places.is_vacant(slot) {
            return Err(UpdateError::present(rule.rule));
        }
        for (before, region) in regions.iter().enumerate() {
            if let Err(error) = self.check_budget(slot, before) {
                // Regions that are in already go again, which takes no memory.
                if before > 0 {
                    self.remove(rule.rule)?;
                }
                return Err(error);
            }
            self.insert_region(rule, &region);
        }
        if regions.is_empty() {
            let needed = self.bytes().saturating_add(self.places.growth(slot, 0));
            if needed > self.budget {
                return Err(UpdateError::bytes(needed, self.budget));
            }
            self.places.add(slot, rule.rule.reuse(), UNMATCHABLE);
        }
        Ok(())
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        let slot = rule.slot();
        if self.places.is_vacant(slot) || !self.holds(rule, self.places.get(slot)) {
            return Err(UpdateError::stale(rule));
        }
        while let Some(place) = self.places.take(slot) {
            if place.part == UNMATCHABLE {
                continue;
            }
            if place.part != OVERFLOW {
                self.remove_from_partition(place);
            } else if let Some((moved, from)) = self.overflow.take(place.at) {
                self.places.moved(moved.rule.slot(), (from, OVERFLOW), (place.at, OVERFLOW));
            }
            self.regions -= 1;
            self.rules -= usize::from(self.places.is_vacant(slot));
        }
        Ok(())
    }
}

impl PartitionSort {
    /// Refuses the next region of a rule if it might exceed the budget.
    ///
    /// The rule has `before` regions already. The next may start a partition, split every node of a walk, have a
    /// partition built anew, or go to the overflow list.
    pub(super) fn check_budget(&self, slot: usize, before: usize) -> Result<(), UpdateError> {
        if self.budget == usize::MAX {
            return Ok(());
        }
        let partitions = vec_growth(self.partitions.len(), self.partitions.capacity(), 1);
        let needed = self.bytes()
            + self.places.growth(slot, before + 1)
            + partitions * size_of::<Partition>()
            + self.arena.key_words()
            + self.arena.growth(self.most_lines())
            + self.overflow.growth();
        if needed > self.budget { Err(UpdateError::bytes(needed, self.budget)) } else { Ok(()) }
    }

    /// Returns the most lines that an insertion takes.
    ///
    /// These are the entry, its ternary part, and two lines per node. The nodes are those that are split on one word,
    /// its new root, and the nodes of a partition that is built anew.
    fn most_lines(&self) -> usize {
        let regions = self.partitions.iter().map(|partition| partition.len).max().unwrap_or(0);
        // All nodes of a word but its first have at least four children.
        let height = regions.max(1).ilog2() as usize / 2 + 1;
        2 * (self.arena.lines_per_entry() + height + 1 + self.reorder + 1)
    }

    fn insert_region(&mut self, rule: Match, region: &Region<'_>) {
        let (at, number) =
            self.insert_into_partition(rule, region).unwrap_or_else(|| (self.overflow.add(rule, region), OVERFLOW));
        self.regions += 1;
        self.rules += usize::from(self.places.is_vacant(rule.rule.slot()));
        self.places.add(rule.rule.slot(), at, number);
    }

    /// Inserts a region into the first partition in which it fits, or into a new one.
    ///
    /// Returns its entry and the number of the partition; `None` if that would need one partition too many.
    fn insert_into_partition(&mut self, rule: Match, region: &Region<'_>) -> Option<(u32, u32)> {
        if self.arena.is_full(self.most_lines()) {
            return None;
        }
        let mut path = Vec::with_capacity(32);
        let fitting = (0..self.partitions.len()).find_map(|index| {
            let fit = self.fit(index, region, &mut path);
            (!matches!(fit, Fit::Nowhere)).then_some((index, fit))
        });
        if fitting.is_none() && self.partitions.len() >= self.most_partitions {
            return None;
        }
        let entry = self.arena.add_entry(rule, region);
        let index = match fitting {
            Some((index, fit)) => {
                self.arena.link(&mut self.partitions[index].root, &path, fit, entry);
                index
            }
            None => self.new_partition(entry),
        };
        let partition = &mut self.partitions[index];
        partition.len += 1;
        let number = partition.number;
        if rule.priority.0 < partition.best {
            partition.best = rule.priority.0;
            self.sort_in(index);
        }
        Some((entry, number))
    }

    /// Returns where a region belongs in a partition; a small one may take another order for it.
    fn fit(&mut self, index: usize, region: &Region<'_>, path: &mut Vec<Step>) -> Fit {
        let Self { arena, partitions, visits, .. } = self;
        let partition = &mut partitions[index];
        *visits = visits.wrapping_add(1);
        let mut fit = arena.fit(partition.root, &partition.order, region.lo, region.hi, path);
        if matches!(fit, Fit::Nowhere)
            && partition.len <= self.reorder
            && let Some(order) = {
                *visits = visits.wrapping_add((partition.len + 1) * arena.key_words());
                arena.other_order(partition.root, region)
            }
        {
            partition.order = order;
            arena.build_anew(&mut partition.root, &partition.order, path);
            fit = arena.fit(partition.root, &partition.order, region.lo, region.hi, path);
        }
        match fit {
            Fit::Equal(first) if arena.group(first).nth(LONGEST - 1).is_some() => Fit::Nowhere,
            fit => fit,
        }
    }

    /// Adds a partition of one entry, which is not counted yet; returns its index.
    fn new_partition(&mut self, entry: u32) -> usize {
        let alone = &self.arena.run(entry)[..2 * self.arena.key_words()];
        let order = order::choose(&[alone]).unwrap_or_default();
        let is_free = |number: &u32| self.partitions.iter().all(|partition| partition.number != *number);
        let number = (0..).find(is_free).unwrap_or_default();
        self.partitions.push(Partition { best: u64::MAX, root: entry | ENTRY, number, len: 0, loose: 0, order });
        self.partitions.len() - 1
    }

    /// Moves a partition to its position in the order after its best priority has changed.
    fn sort_in(&mut self, index: usize) {
        let best = self.partitions[index].best;
        let others = self.partitions.iter().enumerate().filter(|&(other, _)| other != index);
        let to = others.filter(|(_, partition)| partition.best < best).count();
        if index < to {
            self.partitions[index..=to].rotate_left(1);
        } else {
            self.partitions[to..=index].rotate_right(1);
        }
    }

    /// Whether the rule at this slot is `rule` and not another use of the slot.
    fn holds(&self, rule: RuleId, place: Place) -> bool {
        let found = match place.part {
            UNMATCHABLE => return place.at == rule.reuse(),
            OVERFLOW => self.overflow.rule(place.at),
            _ => self.arena.found(place.at),
        };
        found.is_some_and(|found| found.rule == rule)
    }

    fn remove_from_partition(&mut self, place: Place) {
        let Some(index) = self.partitions.iter().position(|partition| partition.number == place.part) else { return };
        let priority = self.arena.priority(place.at).0;
        let partition = &mut self.partitions[index];
        self.arena.unlink(&mut partition.root, place.at);
        self.arena.drop_entry(place.at);
        partition.len -= 1;
        partition.loose += usize::from(priority == partition.best || partition.loose > 0);
        if partition.root == NONE {
            self.partitions.remove(index);
        } else if partition.loose * 2 > partition.len {
            // A pass takes as many steps as there are groups, so it has waited for half as many removals.
            (partition.loose, partition.best) = (0, u64::MAX);
            let (arena, best) = (&self.arena, &mut partition.best);
            arena.visit(partition.root, |first, _| *best = arena.priority(first).0.min(*best));
            self.sort_in(index);
        }
    }
}

impl Arena {
    /// Returns an order of words in which all regions of a tree and `region` are sorted.
    fn other_order(&self, root: u32, region: &Region<'_>) -> Option<Box<[u8]>> {
        let more = [region.lo, region.hi].concat();
        let mut regions = vec![&more[..]];
        self.visit(root, |first, _| regions.push(&self.run(first)[..more.len()]));
        order::choose(&regions)
    }

    /// Builds a tree anew in an order of words in which its regions are sorted.
    fn build_anew(&mut self, root: &mut u32, order: &[u8], path: &mut Vec<Step>) {
        let groups = self.take_apart(*root);
        for (index, first) in groups.into_iter().enumerate() {
            if index == 0 {
                *root = first | ENTRY;
                continue;
            }
            let (lo, hi) = self.bounds(first);
            let fit = self.fit(*root, order, lo, hi, path);
            self.link(root, path, fit, first);
        }
    }
}
