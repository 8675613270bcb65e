//! B+-tree from addresses to classes, one replica of it.
//!
//! Each *start* has the class of the addresses from it to the next start. For example, if 16 to 31 have class 5 and
//! all others class 0, the starts are 0, 16 and 32 with the classes 0, 5 and 0.
//!
//! # Layout in memory
//! A node has 16 starts and 16 values: 128 bytes for IPv4, 320 for IPv6. A value of an inner node is the number of a
//! node, a value of a leaf is a class. Unused starts hold the largest address, and unused values repeat the last one.
//! So a lookup needs no length: the number of starts up to a key gives the right value even for the largest address.
//!
//! # Invariants
//! - The first start is 0, and is never deleted.
//! - A start of an inner node equals the first start below it (`check_invariants`).
//! - A node that lost a start and has fewer than [`LEAST`] joins a neighbour if both fit three quarters of a node.

use crate::raw::Isa;
use crate::rule::Address;

/// Number of starts of a node.
const WIDTH: usize = 16;
/// Number of starts below which a node joins its neighbour.
const LEAST: usize = WIDTH / 4;
/// Largest number of starts of two nodes that join.
const JOINED: usize = WIDTH * 3 / 4;
/// Largest number of levels; starts would have to outnumber 2<sup>32</sup> nodes for more.
const LEVELS: usize = 24;

/// Address with the comparison of a node.
pub(super) trait Start: Address {
    /// Number of starts that are at most `key`.
    fn rank<I: Isa>(isa: I, starts: &[Self; WIDTH], key: Self) -> usize;
}

impl Start for u32 {
    #[inline(always)]
    fn rank<I: Isa>(isa: I, starts: &[Self; WIDTH], key: Self) -> usize {
        isa.count_at_most(starts, 0xFFFF, key)
    }
}

impl Start for u128 {
    #[inline(always)]
    fn rank<I: Isa>(_: I, starts: &[Self; WIDTH], key: Self) -> usize {
        starts.iter().map(|&start| usize::from(start <= key)).sum()
    }
}

/// Node: an inner one, or a leaf.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Node<T> {
    starts: [T; WIDTH],
    values: [u32; WIDTH],
}

/// Tree of starts.
#[derive(Debug)]
pub(super) struct Tree<T> {
    nodes: Vec<Node<T>>,
    /// Number of starts of each node; lookups do without.
    lens: Vec<u8>,
    free: Vec<u32>,
    root: u32,
    /// Number of inner levels.
    depth: usize,
    starts: usize,
}

/// Piece: addresses between two starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<T> {
    pub(super) start: T,
    pub(super) class: u32,
    /// Start of the next piece; `None` for the last one.
    pub(super) next: Option<T>,
}

/// Way from the root to a leaf: a node and an index in it for each level.
#[derive(Clone, Copy)]
struct Way {
    steps: [(u32, u8); LEVELS],
    len: usize,
}

impl Way {
    fn at(&self, level: usize) -> (u32, usize) {
        let (node, index) = self.steps[level];
        (node, index.into())
    }
}

impl<T: Clone> Clone for Tree<T> {
    /// Returns a copy of the same capacity, so that equal changes leave both with the same memory.
    fn clone(&self) -> Self {
        let mut nodes = Vec::with_capacity(self.nodes.capacity());
        nodes.extend_from_slice(&self.nodes);
        let mut lens = Vec::with_capacity(self.lens.capacity());
        lens.extend_from_slice(&self.lens);
        let mut free = Vec::with_capacity(self.free.capacity());
        free.extend_from_slice(&self.free);
        Self { nodes, lens, free, ..*self }
    }
}

impl<T: Address> Node<T> {
    /// Returns the index of the last start that is at most `key`.
    #[inline(always)]
    fn find(&self, key: T, len: usize) -> usize {
        let rank: usize = self.starts.iter().map(|&start| usize::from(start <= key)).sum();
        rank.min(len).saturating_sub(1)
    }

    /// Fills what lies behind the first `len` starts.
    fn pad(&mut self, len: usize) {
        let last = self.values[len.saturating_sub(1)];
        self.starts[len..].fill(T::ENDS[1]);
        self.values[len..].fill(last);
    }
}

impl<T: Address> Tree<T> {
    /// Builds the tree in which all addresses have class 0.
    pub(super) fn new() -> Self {
        let node = Node { starts: [T::ENDS[1]; WIDTH], values: [0; WIDTH] };
        let mut tree = Self { nodes: vec![node], lens: vec![1], free: Vec::new(), root: 0, depth: 0, starts: 1 };
        tree.nodes[0].starts[0] = T::ENDS[0];
        tree
    }

    /// Number of levels.
    pub(super) fn levels(&self) -> usize {
        self.depth + 1
    }

    /// Returns the heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T>>() + self.lens.capacity() + self.free.capacity() * size_of::<u32>()
    }

    /// Replaces each key's entry of `found` by the key's class.
    ///
    /// Keys go down the tree level by level, so that their cache misses overlap.
    #[inline(always)]
    pub(super) fn find_all<I: Isa>(&self, isa: I, keys: &[T], found: &mut [u32])
    where
        T: Start,
    {
        found.fill(self.root);
        for level in 0..=self.depth {
            for (key, found) in keys.iter().zip(&mut *found) {
                let node = &self.nodes[*found as usize];
                *found = node.values[T::rank(isa, &node.starts, *key).wrapping_sub(1) % WIDTH];
                if level < self.depth
                    && let Some(next) = self.nodes.get(*found as usize)
                {
                    isa.prefetch(&next.starts[0]);
                    isa.prefetch(&next.values[0]);
                }
            }
        }
    }

    /// Returns the piece that holds an address.
    pub(super) fn piece(&self, address: T) -> Piece<T> {
        let (mut node, mut next) = (self.root as usize, None);
        for level in 0..=self.depth {
            let (of, len) = (&self.nodes[node], usize::from(self.lens[node]));
            let index = of.find(address, len);
            if index + 1 < len {
                next = Some(of.starts[index + 1]);
            }
            if level == self.depth {
                return Piece { start: of.starts[index], class: of.values[index], next };
            }
            node = of.values[index] as usize;
        }
        unreachable!("the last level has the leaves")
    }

    /// Sets the class from `start` to the next start; returns the class that `start` had if it was there.
    pub(super) fn put(&mut self, start: T, class: u32) -> Option<u32> {
        let way = self.way(start);
        let (node, index) = way.at(way.len - 1);
        let (of, len) = (&mut self.nodes[node as usize], usize::from(self.lens[node as usize]));
        if of.starts[index] == start {
            let old = std::mem::replace(&mut of.values[index], class);
            of.pad(len);
            return Some(old);
        }
        self.starts += 1;
        self.insert(&way, way.len - 1, start, class);
        None
    }

    /// Deletes a start; returns the class that it had if it was there.
    pub(super) fn delete(&mut self, start: T) -> Option<u32> {
        let way = self.way(start);
        let (node, index) = way.at(way.len - 1);
        let of = &self.nodes[node as usize];
        if of.starts[index] != start || start == T::ENDS[0] {
            return None;
        }
        let old = of.values[index];
        self.starts -= 1;
        self.remove(&way, way.len - 1);
        Some(old)
    }

    fn way(&self, key: T) -> Way {
        let mut way = Way { steps: [(0, 0); LEVELS], len: self.depth + 1 };
        let mut node = self.root;
        for step in &mut way.steps[..=self.depth] {
            let of = &self.nodes[node as usize];
            let index = of.find(key, self.lens[node as usize].into());
            *step = (node, index as u8);
            node = of.values[index];
        }
        way
    }

    /// Inserts an entry behind the index of a level; a full node is split.
    fn insert(&mut self, way: &Way, level: usize, start: T, value: u32) {
        let (node, index) = way.at(level);
        let (at, len) = (index + 1, usize::from(self.lens[node as usize]));
        if len < WIDTH {
            self.insert_at(node, at, start, value);
            return;
        }
        // Starts that ascend, as those of a list in order, leave full nodes behind.
        let kept = if at == WIDTH { WIDTH } else { WIDTH / 2 };
        let right = self.new_node();
        let old = self.nodes[node as usize];
        let of = &mut self.nodes[right as usize];
        of.starts[..WIDTH - kept].copy_from_slice(&old.starts[kept..]);
        of.values[..WIDTH - kept].copy_from_slice(&old.values[kept..]);
        (self.lens[right as usize], self.lens[node as usize]) = ((WIDTH - kept) as u8, kept as u8);
        of.pad(WIDTH - kept);
        self.nodes[node as usize].pad(kept);
        if at <= kept && kept < WIDTH {
            self.insert_at(node, at, start, value);
        } else {
            self.insert_at(right, at - kept, start, value);
        }
        let first = self.nodes[right as usize].starts[0];
        if level > 0 {
            return self.insert(way, level - 1, first, right);
        }
        let root = self.new_node();
        let of = &mut self.nodes[root as usize];
        (of.starts[0], of.values[0]) = (T::ENDS[0], node);
        (of.starts[1], of.values[1]) = (first, right);
        of.pad(2);
        self.lens[root as usize] = 2;
        (self.root, self.depth) = (root, self.depth + 1);
    }

    fn insert_at(&mut self, node: u32, at: usize, start: T, value: u32) {
        let (of, len) = (&mut self.nodes[node as usize], usize::from(self.lens[node as usize]));
        of.starts.copy_within(at..len, at + 1);
        of.values.copy_within(at..len, at + 1);
        (of.starts[at], of.values[at]) = (start, value);
        of.pad(len + 1);
        self.lens[node as usize] += 1;
    }

    /// Removes the entry at the index of a level, and mends the levels above.
    fn remove(&mut self, way: &Way, level: usize) {
        let (node, index) = way.at(level);
        let (of, len) = (&mut self.nodes[node as usize], usize::from(self.lens[node as usize]));
        of.starts.copy_within(index + 1..len, index);
        of.values.copy_within(index + 1..len, index);
        let len = len - 1;
        of.pad(len);
        self.lens[node as usize] = len as u8;
        if level == 0 {
            return self.lower_root();
        }
        if len == 0 {
            self.free.push(node);
            return self.remove(way, level - 1);
        }
        if index == 0 {
            self.mend(way, level - 1, self.nodes[node as usize].starts[0]);
        }
        if len < LEAST {
            self.join(way, level - 1);
        }
    }

    /// Sets the first start below an entry, as far up as it is the first of its node.
    fn mend(&mut self, way: &Way, level: usize, first: T) {
        for level in (0..=level).rev() {
            let (node, index) = way.at(level);
            self.nodes[node as usize].starts[index] = first;
            if index > 0 {
                return;
            }
        }
    }

    /// Joins the child at the index of a level with the next or the previous one, if both are small.
    fn join(&mut self, way: &Way, level: usize) {
        let (node, index) = way.at(level);
        let len = usize::from(self.lens[node as usize]);
        let left = if index + 1 < len { index } else { index.saturating_sub(1) };
        if left + 1 >= len {
            return;
        }
        let [a, b] = [left, left + 1].map(|index| self.nodes[node as usize].values[index]);
        let [of_a, of_b] = [a, b].map(|child| usize::from(self.lens[child as usize]));
        if of_a + of_b > JOINED {
            return;
        }
        let moved = self.nodes[b as usize];
        let to = &mut self.nodes[a as usize];
        to.starts[of_a..of_a + of_b].copy_from_slice(&moved.starts[..of_b]);
        to.values[of_a..of_a + of_b].copy_from_slice(&moved.values[..of_b]);
        to.pad(of_a + of_b);
        self.lens[a as usize] = (of_a + of_b) as u8;
        self.free.push(b);
        let mut way = *way;
        way.steps[level].1 = (left + 1) as u8;
        self.remove(&way, level);
    }

    /// Replaces a root with one child by the child.
    fn lower_root(&mut self) {
        while self.depth > 0 && self.lens[self.root as usize] == 1 {
            self.free.push(self.root);
            self.root = self.nodes[self.root as usize].values[0];
            self.depth -= 1;
        }
    }

    fn new_node(&mut self) -> u32 {
        let node = Node { starts: [T::ENDS[1]; WIDTH], values: [0; WIDTH] };
        if let Some(free) = self.free.pop() {
            self.nodes[free as usize] = node;
            self.lens[free as usize] = 0;
            return free;
        }
        if self.nodes.len() == self.nodes.capacity() {
            // A quarter more at a time, because memory is bounded and readers have the other replica meanwhile.
            let more = self.nodes.len() / 4 + 4;
            self.nodes.reserve_exact(more);
            self.lens.reserve_exact(more);
        }
        self.nodes.push(node);
        self.lens.push(0);
        // Fewer than 2^32 addresses of IPv4, or members in memory, have starts.
        (self.nodes.len() - 1) as u32
    }

    /// Returns all starts with their classes, in order.
    #[cfg(test)]
    pub(super) fn list(&self) -> Vec<(T, u32)> {
        let mut out = Vec::new();
        let mut next = Some(T::ENDS[0]);
        while let Some(start) = next {
            let piece = self.piece(start);
            out.push((piece.start, piece.class));
            next = piece.next;
        }
        out
    }

    /// Checks the invariants of all nodes.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        let mut level = vec![self.root];
        for depth in 0..=self.depth {
            let mut below = Vec::new();
            for &node in &level {
                let (of, len) = (&self.nodes[node as usize], usize::from(self.lens[node as usize]));
                assert!(len > 0 && of.starts[..len].is_sorted_by(|a, b| a < b));
                assert!(of.starts[len..].iter().all(|&start| start == T::ENDS[1]));
                assert!(of.values[len..].iter().all(|&value| value == of.values[len - 1]));
                if depth < self.depth {
                    for (&start, &child) in of.starts.iter().zip(&of.values[..len]) {
                        assert_eq!(start, self.nodes[child as usize].starts[0]);
                        below.push(child);
                    }
                } else {
                    below.extend(std::iter::repeat_n(0, len));
                }
            }
            level = below;
        }
        assert_eq!(level.len(), self.starts);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::raw::{Kernel, Level, dispatch};

    struct Find<'a, T>(&'a Tree<T>, &'a [T], &'a mut [u32]);

    impl<T: Start> Kernel for Find<'_, T> {
        #[inline(always)]
        fn run<I: Isa>(self, isa: I) {
            self.0.find_all(isa, self.1, self.2);
        }
    }

    /// Finds keys at every level of the machine, with the same answers.
    fn found_by<T: Start>(tree: &Tree<T>, keys: &[T], found: &mut [u32]) {
        for (round, level) in Level::available().enumerate() {
            let before = found.to_vec();
            dispatch(level, Find(tree, keys, found));
            assert!(round == 0 || before == found);
        }
    }

    /// Starts, pieces and lookups equal those of a map, while the tree grows to several levels and shrinks again.
    fn is_a_map<T: Start>(place: impl Fn(u32) -> T) {
        let mut state = 11u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) as u32 % below
        };
        let (mut tree, mut map) = (Tree::new(), BTreeMap::from([(T::ENDS[0], 0)]));
        let mut deepest = 0;
        for step in 0..30_000u32 {
            // Grows, stays, shrinks.
            let keep = [9, 5, 1][step as usize / 10_000];
            let start = if random(64) == 0 { T::ENDS[1] } else { place(random(1 << 12)) };
            if random(10) < keep {
                assert_eq!(tree.put(start, step), map.insert(start, step));
            } else if start != T::ENDS[0] {
                assert_eq!(tree.delete(start), map.remove(&start));
            } else {
                assert_eq!(tree.delete(start), None);
            }
            deepest = deepest.max(tree.depth);
            if step % 500 == 0 {
                tree.check_invariants();
                assert!(tree.list().into_iter().eq(map.iter().map(|(&start, &class)| (start, class))));
            }
            let keys: Vec<T> = (0..8).map(|_| place(random(1 << 13))).chain(T::ENDS).collect();
            let mut found = vec![0; keys.len()];
            found_by(&tree, &keys, &mut found);
            for (&key, &found) in keys.iter().zip(&found) {
                let piece = tree.piece(key);
                let before = map.range(..=key).next_back().map(|(&start, &class)| (start, class));
                let behind = (std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded);
                let next = map.range(behind).next().map(|(&start, _)| start);
                assert_eq!((Some((piece.start, piece.class)), piece.next), (before, next));
                assert_eq!(found, piece.class);
            }
        }
        while map.len() > 1 {
            let (start, class) = map.pop_last().expect("several");
            assert_eq!(tree.delete(start), Some(class));
        }
        tree.check_invariants();
        assert!(deepest >= 2 && tree.depth == 0 && tree.nodes.len() == tree.free.len() + 1);
    }

    #[test]
    fn a_tree_of_ipv4_is_a_map() {
        is_a_map(|place| place << 7);
    }

    #[test]
    fn a_tree_of_ipv6_is_a_map() {
        is_a_map(|place| u128::from(place) << 61 | u128::from(place & 3) << 3);
    }

    /// A list in order fills its nodes.
    #[test]
    fn ascending_starts_fill_nodes() {
        let mut tree = Tree::<u32>::new();
        (1..10_000u32).for_each(|start| _ = tree.put(start * 3, start));
        assert!(tree.nodes.len() < 10_000 * 11 / (WIDTH * 10), "{} nodes", tree.nodes.len());
    }

    /// Nodes that lost most starts join, so that memory does not grow with what was there before.
    #[test]
    fn sparse_nodes_join() {
        let mut tree = Tree::<u32>::new();
        for round in 0..20u32 {
            (0..20_000u32).for_each(|at| _ = tree.put((at << 12) + round + 1, at));
            (0..20_000u32).filter(|at| at % 16 != 0).for_each(|at| _ = tree.delete((at << 12) + round + 1));
        }
        tree.check_invariants();
        // 20 × 1,250 starts are left, and 20,000 more were there at the end.
        assert!(tree.nodes.len() < 12_000, "{} nodes", tree.nodes.len());
    }
}
