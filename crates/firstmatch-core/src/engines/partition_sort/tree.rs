//! Trees: a partition's rules in their order, one key word after the other.
//!
//! A word on which all rules below a node are equal has no node there. The nodes of one word, below one interval of the
//! word before, are a B-tree. All its leaves are equally deep, and lead to the nodes of the next word or to entries.

use super::arena::{Arena, NONE};
use super::node::{ENTRY, Node, WIDE_ROOM, is_entry, line_of, room};

/// Step of a walk: a node, and the index of the child that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    node: u32,
    word: u32,
    at: usize,
    /// Start of the next interval to the right of the child's interval, on the same word.
    next: Option<u32>,
}

/// Place of a region in a tree, relative to the walk to its lower bounds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fit {
    /// Among the regions with the same bounds, of which this is the first.
    Equal(u32),
    /// Left or right of `entry` on word `word`, and disjoint from its neighbours there.
    ///
    /// If `bottom` is `top`, there are no nodes on this word: a new one must hold the region and everything below
    /// `path[top..]`. Otherwise the region is a new child of the node `path[bottom - 1]`.
    Beside { word: u32, top: usize, bottom: usize, entry: u32 },
    /// None: the region overlaps another region without being equal to it.
    Nowhere,
}

impl Arena {
    /// Returns the first entry of the only group that could hold `point`; `path` gets the walk.
    pub(super) fn walk(&self, root: u32, point: &[u32], path: &mut Vec<Step>) -> u32 {
        path.clear();
        let mut handle = root;
        while !is_entry(handle) {
            let (word, _, keys, children) = self.parts(handle);
            let value = point[word as usize];
            let at = keys.iter().map(|&key| usize::from(key <= value)).sum();
            let above = path.last().filter(|step| step.word == word).and_then(|step: &Step| step.next);
            path.push(Step { node: handle, word, at, next: keys.get(at).copied().or(above) });
            handle = children[at];
        }
        line_of(handle)
    }

    /// Returns where a region belongs, if all regions of the tree stay sorted with it.
    pub(super) fn fit(&self, root: u32, order: &[u8], lo: &[u32], hi: &[u32], path: &mut Vec<Step>) -> Fit {
        let entry = self.walk(root, lo, path);
        let (entry_lo, entry_hi) = self.bounds(entry);
        let mut bottom = 0;
        for &word in order {
            let top = bottom;
            bottom += path[top..].iter().take_while(|step| step.word == u32::from(word)).count();
            let i = usize::from(word);
            if (lo[i], hi[i]) == (entry_lo[i], entry_hi[i]) {
                continue;
            }
            let is_behind = entry_hi[i] < lo[i];
            let next = path[top..bottom].last().and_then(|step| step.next);
            // If the entry's interval begins behind `lo`, it is the leftmost one, because the walk takes the last
            // interval that begins at or before `lo`.
            let is_apart = if is_behind { next.is_none_or(|next| hi[i] < next) } else { hi[i] < entry_lo[i] };
            return if is_apart { Fit::Beside { word: u32::from(word), top, bottom, entry } } else { Fit::Nowhere };
        }
        Fit::Equal(entry)
    }

    /// Links the first entry of a group into the tree, where it fits.
    ///
    /// If it joins equal entries, it must be alone in its own group before.
    pub(super) fn link(&mut self, root: &mut u32, path: &[Step], fit: Fit, new: u32) {
        let (word, top, bottom, old) = match fit {
            Fit::Nowhere => return,
            Fit::Equal(first) => {
                let first = self.join(first, new);
                return self.replace(root, path, first | ENTRY);
            }
            Fit::Beside { word, top, bottom, entry } => (word, top, bottom, entry),
        };
        let (old_lo, new_lo) = (self.bounds(old).0[word as usize], self.bounds(new).0[word as usize]);
        let is_behind = old_lo < new_lo;
        if top == bottom {
            let below = path.get(top).map_or(old | ENTRY, |step| step.node);
            let mut node = Node::new(word);
            node.insert(0, old_lo, below);
            node.insert(usize::from(is_behind), new_lo, new | ENTRY);
            let handle = self.add_node(&node);
            return self.replace(root, &path[..top], handle);
        }
        let (mut at, mut key, mut child) = (path[bottom - 1].at + usize::from(is_behind), new_lo, new | ENTRY);
        for depth in (top..bottom).rev() {
            let step = path[depth];
            let mut node = self.read(step.node);
            node.keys[0] = old_lo;
            node.insert(at, key, child);
            if node.len <= WIDE_ROOM {
                let handle = self.update(step.node, &node);
                return self.replace(root, &path[..depth], handle);
            }
            let right = node.split_off(node.len.div_ceil(2));
            let left = self.update(step.node, &node);
            (key, child) = (right.keys[0], self.add_node(&right));
            if depth > top {
                self.replace(root, &path[..depth], left);
                at = path[depth - 1].at + 1;
            } else {
                let mut above = Node::new(word);
                above.insert(0, 0, left);
                above.insert(1, key, child);
                let handle = self.add_node(&above);
                self.replace(root, &path[..depth], handle);
            }
        }
    }

    /// Makes the last step of a walk lead to `handle`; without steps, the root.
    fn replace(&mut self, root: &mut u32, path: &[Step], handle: u32) {
        match path.last() {
            Some(step) => self.set_child(step.node, step.at, handle),
            None => *root = handle,
        }
    }

    /// Takes an entry out of a tree, without taking memory.
    pub(super) fn unlink(&mut self, root: &mut u32, entry: u32) {
        let mut path = Vec::with_capacity(32);
        let first = self.walk(*root, self.bounds(entry).0, &mut path);
        if let Some(first) = self.leave(first, entry) {
            return self.replace(root, &path, first | ENTRY);
        }
        let Some(last) = path.last() else {
            *root = NONE;
            return;
        };
        let mut at = last.at;
        for depth in (0..path.len()).rev() {
            let step = path[depth];
            let mut node = self.read(step.node);
            node.remove(at);
            if at == 0 {
                self.raise(&path[..depth], node.word, node.keys[0]);
            }
            let above = depth.checked_sub(1).map(|above| path[above]).filter(|above| above.word == step.word);
            let Some(above) = above.filter(|_| node.is_underfull()) else {
                let handle = if node.len == 1 {
                    self.drop_node(step.node);
                    node.children[0]
                } else {
                    self.update(step.node, &node)
                };
                return self.replace(root, &path[..depth], handle);
            };
            let Some(gone) = self.refill(above, step.node, node) else { return };
            at = gone;
        }
    }

    /// Updates the key above a node, because the smallest value below it is now `lo`.
    fn raise(&mut self, path: &[Step], word: u32, lo: u32) {
        let mut of_word = path.iter().rev().take_while(|step| step.word == word);
        if let Some(&Step { node, at, .. }) = of_word.find(|step| step.at > 0) {
            self.set_key(node, at, lo);
        }
    }

    /// Refills a node that has too few children from a sibling, or merges the two.
    ///
    /// Returns the index of the child that is removed by a merge.
    fn refill(&mut self, above: Step, handle: u32, node: Node) -> Option<usize> {
        let right_at = above.at.max(1);
        let (_, _, keys, children) = self.parts(above.node);
        let (key, left_handle, right_handle) = (keys[right_at - 1], children[right_at - 1], children[right_at]);
        let (mut left, right) =
            if left_handle == handle { (node, self.read(right_handle)) } else { (self.read(left_handle), node) };
        left.append(&right, key);
        let (left_room, right_room) = (room(left_handle), room(right_handle));
        // A merged node has at most three quarters of a wide node's children, otherwise the next insertion might split
        // it again.
        if left.len <= left_room.max(right_room).min(WIDE_ROOM * 3 / 4) {
            let (kept, gone) =
                if left_room >= right_room { (left_handle, right_handle) } else { (right_handle, left_handle) };
            self.write(kept, &left);
            self.drop_node(gone);
            self.set_child(above.node, right_at - 1, kept);
            return Some(right_at);
        }
        let len = (left.len / 2).clamp(left.len.saturating_sub(right_room), left_room);
        let right = left.split_off(len);
        self.write(left_handle, &left);
        self.write(right_handle, &right);
        self.set_key(above.node, right_at, right.keys[0]);
        None
    }

    /// Visits the groups of a tree in order: the first entry of each and its depth.
    pub(super) fn visit(&self, root: u32, mut group: impl FnMut(u32, usize)) {
        let mut open = if root == NONE { Vec::new() } else { vec![(root, 0)] };
        while let Some((handle, depth)) = open.pop() {
            if is_entry(handle) {
                group(line_of(handle), depth);
            } else {
                open.extend(self.parts(handle).3.iter().rev().map(|&child| (child, depth + 1)));
            }
        }
    }

    /// Drops all nodes of a tree; returns the first entries of its groups, in order.
    pub(super) fn take_apart(&mut self, root: u32) -> Vec<u32> {
        let (mut open, mut groups) = (vec![root], Vec::new());
        while let Some(handle) = open.pop() {
            if is_entry(handle) {
                groups.push(line_of(handle));
            } else {
                open.extend(self.parts(handle).3.iter().rev());
                self.drop_node(handle);
            }
        }
        groups
    }
}
