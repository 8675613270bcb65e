//! Regions that overlap a box, found by a walk over all cells that the box reaches.
//!
//! Children that were merged are walked once, and each region is tested once.

use std::collections::HashSet;

use super::boxes::ones;
use super::structure::{CutTree, LAST, NO_LIST};
use crate::engine::{Match, Overlaps, Probe};
use crate::engines::shared::BLOCK;
use crate::rule::Region;

/// Node with the part of the box that lies in it: an interval of the low bits of each word.
///
/// The low bits are enough, because nodes below cut no others. So a subtree that several cells share is walked in the
/// same way from each of them.
struct Step {
    node: u32,
    lo: Box<[u32]>,
    hi: Box<[u32]>,
}

/// Goes through the nodes without stopping, so that the only cursor is 0.
impl Overlaps for CutTree {
    fn visit(
        &self,
        probe: &mut Probe,
        _cursor: u64,
        _most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        let mut seen = std::mem::take(&mut probe.seen);
        seen.clear();
        seen.resize(self.matches.len().div_ceil(64), 0);
        let capped = |bounds: &[u32]| bounds.iter().zip(&self.caps).map(|(&value, &cap)| value.min(cap)).collect();
        for (root, &first) in (0..).zip(&self.roots) {
            if self.matches.get(first as usize).is_none_or(|found| !probe.takes(found.priority.0)) {
                continue;
            }
            let mut steps = vec![Step { node: root, lo: capped(&probe.lo), hi: capped(&probe.hi) }];
            let mut walked = HashSet::new();
            while let Some(step) = steps.pop() {
                let node = self.node(step.node);
                probe.visited += 1;
                // Merged children lead to the same nodes, and a leaf has the same list for any box.
                let is_leaf = CutTree::cuts(node).next().is_none();
                let bounds = if is_leaf { Default::default() } else { (step.lo.clone(), step.hi.clone()) };
                if !walked.insert((if is_leaf { NO_LIST } else { node[0] }, node[1], bounds)) {
                    continue;
                }
                if node[1] != NO_LIST {
                    self.visit_list(node[1], probe, &mut seen, visit);
                }
                self.push_cells(&step, &mut steps);
            }
        }
        probe.seen = seen;
        None
    }

    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool {
        let first = self.matches.partition_point(|of| of.priority < rule.priority);
        let own = self.matches[first..].iter().take_while(|of| **of == rule).count();
        if own == 0 {
            return false;
        }
        let (mut is_there, mut point) = (false, Probe::new(key, key));
        self.visit(&mut point, 0, usize::MAX, &mut |_, of, region| {
            if of == rule && region.contains(key) {
                probe.become_home(&region, key);
                is_there = true;
            }
        });
        is_there
    }
}

impl CutTree {
    /// Tests the regions of a list that were not tested before, and visits those that overlap the probe.
    fn visit_list(
        &self,
        list: u32,
        probe: &mut Probe,
        seen: &mut [u64],
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) {
        let (columns, mut row) = (self.columns(), std::mem::take(&mut probe.row));
        for index in list.. {
            let block = self.block(index);
            let ranks = &block[columns.words()..][..BLOCK];
            for (at, rank) in ranks.iter().map(|rank| (rank & !LAST) as usize).enumerate() {
                let found = self.matches[rank];
                if !probe.takes(found.priority.0) || seen[rank / 64] >> (rank % 64) & 1 != 0 {
                    continue;
                }
                // The box never grows, so that a region outside it stays outside.
                seen[rank / 64] |= 1 << (rank % 64);
                probe.tested += 1;
                columns.read(block, at, &mut row, |region| {
                    if probe.overlaps(&region) {
                        visit(probe, found, region);
                    }
                });
            }
            if ranks[0] & LAST != 0 {
                break;
            }
        }
        probe.row = row;
    }

    /// Adds the children of a node whose cells the box reaches.
    fn push_cells(&self, step: &Step, steps: &mut Vec<Step>) {
        let node = self.node(step.node);
        if CutTree::cuts(node).next().is_none() {
            return;
        }
        let mut cells = vec![Step { node: 0, lo: step.lo.clone(), hi: step.hi.clone() }];
        for (word, shift, bits) in CutTree::cuts(node) {
            let below = ones(shift + bits);
            let (lo, hi) = (step.lo[word], step.hi[word]);
            // A box that leaves the bits of the node reaches all of its cells.
            let (lo, hi) = if (lo ^ hi) & !below == 0 { (lo & below, hi & below) } else { (0, below) };
            let (first, last) = (lo >> shift, hi >> shift);
            cells = cells
                .iter()
                .flat_map(|cell| {
                    (first..=last).map(move |part| {
                        let mut own = Step { node: cell.node << bits | part, lo: cell.lo.clone(), hi: cell.hi.clone() };
                        // Cells between the ends are reached whole.
                        own.lo[word] = if part == first { lo & ones(shift) } else { 0 };
                        own.hi[word] = if part == last { hi & ones(shift) } else { ones(shift) };
                        own
                    })
                })
                .collect();
        }
        steps.extend(cells.into_iter().map(|cell| Step { node: node[0] + cell.node, ..cell }));
    }
}
