//! Invariants of a structure that changes in place, which need no list of its rules.

use super::*;

/// Largest number of blocks of a structure that debug builds check after each change.
const CHECKED: usize = 64;

impl BitSelect {
    /// Checks the invariants, if this is a debug build and the structure is small; returns `is_changed`.
    pub(in super::super) fn checked(&self, is_changed: bool) -> bool {
        if cfg!(debug_assertions) && self.blocks.len() <= CHECKED * self.shape.lines() {
            self.check_invariants();
        }
        is_changed
    }

    /// Checks the invariants.
    ///
    /// - No block stands in the lists of two trees, and there are no more blocks than there is room for.
    /// - A list is in order of rank and no longer than its tree says. Every block of it but the last has a region.
    ///
    /// # Panics
    /// If one of them does not hold.
    pub(super) fn check_invariants(&self) {
        assert!(self.blocks.len() <= self.room * self.shape.lines(), "there is room for all blocks");
        let mut tree_of = vec![None; self.blocks.len() / self.shape.lines()];
        for (number, tree) in self.trees.iter().enumerate() {
            let (mut nodes, mut seen) = (vec![tree.root], vec![false; self.nodes.len()]);
            while let Some(node) = nodes.pop() {
                for at in 0..1u32 << node.bits.count() {
                    match self.to(&Slot { at: node.base + at, index: at, node: 0 }) {
                        Target::Node(below) if !std::mem::replace(&mut seen[below], true) => {
                            nodes.push(self.nodes[below]);
                        }
                        Target::Block(first) => self.check_list(first, (number, tree.longest), &mut tree_of),
                        _ => {}
                    }
                }
            }
        }
    }

    fn check_list(&self, first: usize, (tree, longest): (usize, usize), tree_of: &mut [Option<usize>]) {
        let list = || std::iter::successors(Some(first), |&block| self.more(block));
        for block in list() {
            assert_eq!(*tree_of[block].get_or_insert(tree), tree, "block {block} is in two trees");
            let is_last = self.more(block).is_none();
            assert!(is_last || self.shape.len(self.block(block)) > 0, "an empty block ends a list");
        }
        let blocks = list().count();
        assert!(blocks <= longest.max(1), "a list of {blocks} blocks where the tree says {longest}");
        let ranks = list().flat_map(|block| {
            let words = self.block(block);
            (0..self.shape.len(words)).map(|at| self.shape.rank(words, at))
        });
        assert!(ranks.is_sorted(), "a list is in order of rank");
    }
}
