//! Regions that overlap a box, found by a walk over all cells that the box reaches.
//!
//! Children that were merged are walked once, and each region is tested once.

use std::collections::HashSet;

use super::boxes::ones;
use super::structure::{CutTree, LAST, NO_LIST};
use crate::engine::{Match, Overlaps, Probe};
use crate::engines::shared::BLOCK;
use crate::rule::Region;

/// Nodes to visit, each with the part of the box that lies in it: an interval of the low bits of each word.
///
/// The low bits are enough, because nodes below cut no others. So a subtree that several cells share is walked in the
/// same way from each of them.
#[derive(Default)]
struct Walk {
    /// Number of key words.
    width: usize,
    /// Place of each node, then its lower and its upper bounds.
    steps: Vec<u32>,
    /// The step that was taken last.
    step: Vec<u32>,
    /// Cuts of its node, as word, shift, bits, bounds of the box in it, and the part of the cell that is made.
    cuts: Vec<(usize, u32, u32, [u32; 2], u32)>,
}

impl Walk {
    /// Takes the next step; returns false if there is none.
    fn next(&mut self) -> bool {
        let Some(at) = self.steps.len().checked_sub(1 + 2 * self.width) else { return false };
        self.step.clear();
        self.step.extend_from_slice(&self.steps[at..]);
        self.steps.truncate(at);
        true
    }

    /// Adds the children of an inner node whose cells the box reaches.
    fn push_cells(&mut self, node: &[u32; 4]) {
        let Self { width, steps, step, cuts } = self;
        cuts.clear();
        cuts.extend(CutTree::cuts(node).map(|(word, shift, bits)| {
            let below = ones(shift + bits);
            let (lo, hi) = (step[1 + word], step[1 + *width + word]);
            // A box that leaves the bits of the node reaches all of its cells.
            let (lo, hi) = if (lo ^ hi) & !below == 0 { (lo & below, hi & below) } else { (0, below) };
            (word, shift, bits, [lo, hi], lo >> shift)
        }));
        loop {
            let from = steps.len();
            steps.extend_from_slice(step);
            let mut child = 0;
            for &(word, shift, bits, [lo, hi], part) in cuts.iter() {
                child = child << bits | part;
                // Cells between the ends are reached whole.
                steps[from + 1 + word] = if part == lo >> shift { lo & ones(shift) } else { 0 };
                let last = if part == hi >> shift { hi & ones(shift) } else { ones(shift) };
                steps[from + 1 + *width + word] = last;
            }
            steps[from] = node[0] + child;
            // The last cut changes first.
            let Some(at) = cuts.iter().rposition(|&(_, shift, _, [_, hi], part)| part < hi >> shift) else { return };
            cuts[at].4 += 1;
            for (_, shift, _, [lo, _], part) in &mut cuts[at + 1..] {
                *part = *lo >> *shift;
            }
        }
    }
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
        let mut walk = Walk { width: self.caps.len(), ..Walk::default() };
        let (mut walked, mut listed) = (HashSet::new(), HashSet::new());
        for (root, &first) in (0..).zip(&self.roots) {
            if self.matches.get(first as usize).is_none_or(|found| !probe.takes(found.priority.0)) {
                continue;
            }
            let capped = |bounds: &[u32]| bounds.iter().zip(&self.caps).map(|(&value, &cap)| value.min(cap)).collect();
            let (lo, hi): (Vec<u32>, Vec<u32>) = (capped(&probe.lo), capped(&probe.hi));
            walk.steps.push(root);
            walk.steps.extend(lo.into_iter().chain(hi));
            while walk.next() {
                let node = self.node(walk.step[0]);
                probe.visited += 1;
                // Merged children lead to the same nodes, and a leaf has the same list for any box.
                let is_leaf = CutTree::cuts(node).next().is_none();
                if !is_leaf && !walked.insert((node[0], node[1], walk.step[1..].to_vec())) {
                    continue;
                }
                if node[1] != NO_LIST && (!is_leaf || listed.insert(node[1])) {
                    self.visit_list(node[1], probe, &mut seen, visit);
                }
                if !is_leaf {
                    walk.push_cells(node);
                }
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
}
