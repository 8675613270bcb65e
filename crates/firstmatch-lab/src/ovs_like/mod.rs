//! `ovs_like`: a baseline with the caches of Open vSwitch, not a claim about its code.
//!
//! # Idea
//! Rules that only compare bits under masks are grouped into subtables, one for each mask. The slow path searches
//! subtables in order of their best priority until none can improve the match. Its result depends only on the bits that
//! the searched subtables compare. The answer therefore holds for every packet with the same bits, and is kept under
//! that mask as a *megaflow*. Megaflows need no order, because every megaflow that matches a packet has the right
//! answer. A table of whole keys, the exact-match cache, comes first.
//!
//! For example, the first subtable compares 8 bits of the source and the second 24 bits of the destination. A packet
//! that matches in the first gives a megaflow of 8 bits; any other packet gives one of 32 bits.
//!
//! # Layout in memory
//! One hash table holds all subtables, keyed by the subtable's number and the bits under its mask. Another one holds
//! the megaflows; it has a fixed size and is in the scratch of a thread. The exact-match cache is
//! [`FlowCache`](firstmatch_core::cache::flow::FlowCache) with two ways, which never steps aside.
//!
//! # Cost
//! A packet that the exact-match cache lacks probes the masks of megaflows, in order of their recent hits. If none
//! matches, it probes the subtables up to the one that decides.
//!
//! # Paper
//! Pfaff, Pettit, Koponen and others, "The Design and Implementation of Open vSwitch", NSDI 2015: priority sorting 5.2,
//! megaflows and un-wildcarding 4.2 and 5.1, the order of masks 6, the exact-match cache 4.1. Daly et al.,
//! "TupleMerge", IEEE/ACM Transactions on Networking 27(4), 2019, section V-E, compare with it.
//!
//! # Deviations
//! - No staged lookup, prefix tries or partitions (5.3 to 5.5), which un-wildcard fewer bits. Megaflows here are
//!   narrower, so more of them are made.
//! - Nothing is revalidated or expires: full megaflows are all dropped.
//! - A key always enters the exact-match cache; later versions of Open vSwitch enter one in a hundred.
//! - Slow path and datapath are one process and one thread, so an upcall costs only its lookups.
//! - Ranges become prefixes at the build, because a switch's configuration has to contain prefixes.

mod masks;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use firstmatch_core::rule::Lowered;
use firstmatch_core::{Engine, Keys, Match, Schema, Stats};

use masks::Masked;
use table::Table;

/// Number of lookups between two sortings of the megaflows' masks.
const REORDER: usize = 1 << 16;

/// Subtables and megaflows, without the exact-match cache.
#[derive(Debug)]
pub(crate) struct OvsLike {
    schema: Schema,
    rules: usize,
    regions: usize,
    /// Subtables in order of their best priority.
    subtables: Box<[Subtable]>,
    /// Masks of megaflows, `stride` words each.
    megamasks: Box<[u32]>,
    table: Table,
    megaflows: usize,
    /// Identity of this engine, because megaflows are valid for its rules only.
    identity: Arc<()>,
}

#[derive(Clone, Debug)]
struct Subtable {
    mask: Box<[u32]>,
    /// Best match in the subtable.
    best: Match,
    /// Index of the mask of megaflows decided here: the bits of this subtable and all before it.
    megamask: u32,
}

impl OvsLike {
    /// Builds the engine with room for `megaflows` megaflows.
    pub(crate) fn build(rules: &Lowered, megaflows: usize) -> Self {
        let schema = rules.schema();
        let stride = schema.stride();
        let mut masked: Vec<Masked> = Vec::new();
        for (region, found) in rules.regions().iter().zip(rules.rules()) {
            masks::of_region(schema, &region, *found, &mut masked);
        }
        // Subtable by subtable, each with its best rule first.
        masked.sort_by(|a, b| (&a.mask, a.found.priority).cmp(&(&b.mask, b.found.priority)));
        let mut groups: Vec<&[Masked]> = masked.chunk_by(|a, b| a.mask == b.mask).collect();
        groups.sort_by_key(|group| group[0].found.priority);

        let mut table = Table::new(stride, masked.len());
        let (mut union, mut megamasks) = (vec![0; stride], Vec::new());
        let mut subtables = Vec::with_capacity(groups.len());
        for (number, group) in (0..).zip(&groups) {
            // Only the best of rules with equal values can win.
            group.iter().for_each(|rule| table.insert_first(number, &rule.value, Some(rule.found)));
            union.iter_mut().zip(&group[0].mask).for_each(|(union, mask)| *union |= mask);
            if megamasks.len() < stride || megamasks[megamasks.len() - stride..] != union {
                megamasks.extend(&union);
            }
            let megamask = (megamasks.len() / stride - 1) as u32;
            subtables.push(Subtable { mask: group[0].mask.clone().into(), best: group[0].found, megamask });
        }
        if subtables.is_empty() {
            // Without subtables nothing is compared: one megaflow holds every packet.
            megamasks.extend(&union);
        }
        Self {
            schema: schema.clone(),
            rules: rules.by_rule().count(),
            regions: rules.regions().len(),
            subtables: subtables.into(),
            megamasks: megamasks.into(),
            table,
            megaflows: megaflows.max(1),
            identity: Arc::default(),
        }
    }

    fn stride(&self) -> usize {
        self.schema.stride()
    }

    /// Returns the first rule that matches, and the mask of the resulting megaflow.
    fn slow_path(&self, row: &[u32], masked: &mut [u32]) -> (Option<Match>, u32) {
        let (mut found, mut megamask) = (None, 0);
        for (number, subtable) in (0..).zip(&self.subtables) {
            if !Match::wins(subtable.best.priority, &found) {
                break;
            }
            mask_row(row, &subtable.mask, masked);
            megamask = subtable.megamask;
            let candidate = self.table.find(number, masked).flatten();
            found = candidate.filter(|candidate| Match::wins(candidate.priority, &found)).or(found);
        }
        (found, megamask)
    }
}

#[inline]
fn mask_row(row: &[u32], mask: &[u32], masked: &mut [u32]) {
    masked.iter_mut().zip(row).zip(mask).for_each(|((masked, row), mask)| *masked = row & mask);
}

/// Megaflows of a thread, of a fixed size.
#[derive(Debug)]
pub(crate) struct Megaflows {
    identity: Arc<()>,
    table: Table,
    /// Masks in use with their recent hits, sorted by hits from time to time.
    order: Vec<(u32, u32)>,
    /// Whether each mask is in use.
    in_use: Box<[bool]>,
    lookups: usize,
    masked: Box<[u32]>,
}

impl Megaflows {
    fn clear(&mut self) {
        self.table.clear();
        self.order.clear();
        self.in_use.fill(false);
    }

    /// Sorts the masks by the packets they matched since the last time.
    fn reorder(&mut self) {
        self.order.sort_unstable_by_key(|&(mask, held)| (std::cmp::Reverse(held), mask));
        self.order.iter_mut().for_each(|(_, held)| *held = 0);
        self.lookups = 0;
    }
}

impl Engine for OvsLike {
    type Scratch = Megaflows;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Megaflows {
        let masks = self.megamasks.len() / self.stride();
        Megaflows {
            identity: Arc::clone(&self.identity),
            table: Table::new(self.stride(), self.megaflows),
            order: Vec::with_capacity(masks),
            in_use: vec![false; masks].into(),
            lookups: 0,
            masked: vec![0; self.stride()].into(),
        }
    }

    fn fits(&self, scratch: &Megaflows) -> bool {
        Arc::ptr_eq(&scratch.identity, &self.identity)
    }

    fn stats(&self) -> Stats {
        let masks: usize = self.subtables.iter().map(|subtable| size_of_val(&subtable.mask[..])).sum();
        Stats {
            rules: self.rules,
            regions: self.regions,
            bytes: vec![
                ("subtables", size_of_val(&self.subtables[..]) + masks),
                ("rules", self.table.bytes()),
                ("megaflow masks", size_of_val(&self.megamasks[..])),
            ],
            tables: self.subtables.len(),
            worst_tests: self.subtables.len() + self.megamasks.len() / self.stride(),
            keeps_shadowed: false,
            ..Stats::default()
        }
    }

    fn improve(&self, scratch: &mut Megaflows, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let stride = self.stride();
        for (index, best) in best.iter_mut().enumerate() {
            let row = keys.row(index);
            let Megaflows { table, order, masked, .. } = scratch;
            let held = order.iter_mut().find_map(|(mask, held)| {
                mask_row(row, &self.megamasks[*mask as usize * stride..][..stride], masked);
                let answer = table.find(*mask, masked)?;
                *held += 1;
                Some(answer)
            });
            let found = held.unwrap_or_else(|| self.upcall(scratch, row));
            if let Some(found) = found.filter(|found| Match::wins(found.priority, best)) {
                *best = Some(found);
            }
            scratch.lookups += 1;
            if scratch.lookups == REORDER {
                scratch.reorder();
            }
        }
    }
}

impl OvsLike {
    /// Searches the slow path and keeps the result as a megaflow.
    fn upcall(&self, scratch: &mut Megaflows, row: &[u32]) -> Option<Match> {
        let (found, megamask) = self.slow_path(row, &mut scratch.masked);
        if scratch.table.len() == self.megaflows {
            scratch.clear();
        }
        let stride = self.stride();
        mask_row(row, &self.megamasks[megamask as usize * stride..][..stride], &mut scratch.masked);
        scratch.table.insert_first(megamask, &scratch.masked, found);
        if !std::mem::replace(&mut scratch.in_use[megamask as usize], true) {
            scratch.order.push((megamask, 0));
        }
        found
    }
}
