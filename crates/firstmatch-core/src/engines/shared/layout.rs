//! Orders in which the nodes of a tree lie in memory.
//!
//! Children of a node are found as first child plus index, so they lie together. A layout therefore moves *groups*: a
//! group is the children of one node. The first group holds the roots.

use std::collections::VecDeque;

/// Number of groups that do not fit into the rest of a page after which the page is closed.
const MISFITS: usize = 64;

/// Order in which the nodes of a tree lie in memory.
///
/// Shaikot's dissertation, sections 3.3.1 and 3.3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// In the order in which the build made them.
    AsBuilt,
    /// Level by level.
    BreadthFirst,
    /// Each group before the groups below it, one after another.
    DepthFirst,
    /// Van Emde Boas: the upper half of the levels, then each tree below it, and again within each part.
    VanEmdeBoas,
    /// Blocks of one page: a group with the groups below it, breadth first, until the page is full. A larger group
    /// begins anywhere.
    Pages,
    /// Blocks of one page, each of blocks of one cache line; groups of up to a line never straddle two.
    PagesAndLines,
}

/// Children of one node, which lie together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) nodes: usize,
    /// Groups below its nodes, in order.
    pub(crate) below: Vec<usize>,
}

/// Places of all groups.
#[derive(Debug)]
pub(crate) struct Placement {
    /// Index of the first node of each group.
    pub(crate) first: Vec<usize>,
    /// Number of nodes, including unused ones between blocks.
    pub(crate) nodes: usize,
}

/// Places the groups of a tree, whose first group holds the roots.
///
/// A page has `page` nodes, a cache line `line` nodes. A group below several nodes belongs to the node that a walk
/// level by level reaches first.
pub(crate) fn place(groups: &[Group], layout: Layout, page: usize, line: usize) -> Placement {
    let mut tree = Tree::of(groups);
    if matches!(layout, Layout::Pages | Layout::PagesAndLines) {
        tree.heaviest_first(groups);
    }
    let mut cursor = Cursor { first: vec![0; groups.len()], next: 0 };
    match layout {
        Layout::AsBuilt => (0..groups.len()).for_each(|group| cursor.put(groups, group)),
        Layout::BreadthFirst => tree.order.iter().for_each(|&group| cursor.put(groups, group)),
        Layout::DepthFirst => {
            let mut stack: Vec<usize> = tree.order.first().copied().into_iter().collect();
            while let Some(group) = stack.pop() {
                cursor.put(groups, group);
                stack.extend(tree.below[group].iter().rev());
            }
        }
        Layout::VanEmdeBoas => {
            if let Some(&root) = tree.order.first() {
                let (mut order, mut under) = (Vec::with_capacity(groups.len()), Vec::new());
                tree.van_emde_boas(root, tree.height(), &mut order, &mut under);
                order.into_iter().for_each(|group| cursor.put(groups, group));
            }
        }
        Layout::Pages => {
            for block in tree.blocks(groups, &tree.order, page) {
                cursor.begin(total(groups, &block), page);
                block.into_iter().for_each(|group| cursor.put(groups, group));
            }
        }
        Layout::PagesAndLines => {
            for block in tree.blocks(groups, &tree.order, page) {
                cursor.begin(total(groups, &block), page);
                for block in tree.blocks(groups, &block, line) {
                    cursor.begin(total(groups, &block), line);
                    block.into_iter().for_each(|group| cursor.put(groups, group));
                }
            }
        }
    }
    Placement { first: cursor.first, nodes: cursor.next }
}

fn total(groups: &[Group], block: &[usize]) -> usize {
    block.iter().map(|&group| groups[group].nodes).sum()
}

struct Cursor {
    first: Vec<usize>,
    next: usize,
}

impl Cursor {
    /// Goes on to the next unit of `unit` nodes, unless `nodes` nodes fit in the rest of this unit, or in no unit.
    fn begin(&mut self, nodes: usize, unit: usize) {
        let used = self.next % unit;
        if used > 0 && used + nodes > unit && nodes <= unit {
            self.next += unit - used;
        }
    }

    fn put(&mut self, groups: &[Group], group: usize) {
        self.first[group] = self.next;
        self.next += groups[group].nodes;
    }
}

/// Groups as a tree: each group is below only one other.
struct Tree {
    /// All groups, level by level.
    order: Vec<usize>,
    below: Vec<Vec<usize>>,
    depth: Vec<usize>,
}

impl Tree {
    fn of(groups: &[Group]) -> Self {
        let (mut order, mut depth) = (Vec::with_capacity(groups.len()), vec![usize::MAX; groups.len()]);
        let mut below = vec![Vec::new(); groups.len()];
        let mut queue = VecDeque::new();
        if !groups.is_empty() {
            depth[0] = 0;
            queue.push_back(0);
        }
        while let Some(group) = queue.pop_front() {
            order.push(group);
            for &child in &groups[group].below {
                if depth[child] == usize::MAX {
                    depth[child] = depth[group] + 1;
                    below[group].push(child);
                    queue.push_back(child);
                }
            }
        }
        debug_assert_eq!(order.len(), groups.len(), "every group is below the roots");
        Self { order, below, depth }
    }

    /// Orders the groups below each one by the nodes of their trees, because more packets go where more rules are.
    fn heaviest_first(&mut self, groups: &[Group]) {
        let mut weights: Vec<usize> = groups.iter().map(|group| group.nodes).collect();
        for &group in self.order.iter().rev() {
            weights[group] += self.below[group].iter().map(|&below| weights[below]).sum::<usize>();
            self.below[group].sort_by_key(|&below| std::cmp::Reverse(weights[below]));
        }
    }

    /// Number of levels.
    fn height(&self) -> usize {
        self.order.last().map_or(0, |&group| self.depth[group] + 1)
    }

    /// Appends `height` levels from `root` on to `order`, and the groups that follow to `under`.
    fn van_emde_boas(&self, root: usize, height: usize, order: &mut Vec<usize>, under: &mut Vec<usize>) {
        if height <= 1 {
            order.push(root);
            under.extend(&self.below[root]);
            return;
        }
        let lower = height.div_ceil(2);
        let mut between = Vec::new();
        self.van_emde_boas(root, height - lower, order, &mut between);
        between.into_iter().for_each(|root| self.van_emde_boas(root, lower, order, under));
    }

    /// Partitions `members`, which go level by level, into blocks of at most `capacity` nodes.
    ///
    /// A block has the first member that is in no block yet, then its descendants that fit, breadth first and the
    /// heaviest tree before others. A descendant that does not fit is left for another block, and after [`MISFITS`] of
    /// them the block is closed. If descendants end before the block is full, the next first member follows. A larger
    /// group is a block of its own, with the groups that fit in the rest of its last unit.
    fn blocks(&self, groups: &[Group], members: &[usize], capacity: usize) -> Vec<Vec<usize>> {
        let mut open = vec![false; groups.len()];
        members.iter().for_each(|&group| open[group] = true);
        let (mut blocks, mut block, mut room) = (Vec::new(), Vec::new(), 0);
        for &first in members {
            if !open[first] {
                continue;
            }
            let nodes = groups[first].nodes;
            if nodes > room && !block.is_empty() {
                blocks.push(std::mem::take(&mut block));
            }
            if block.is_empty() {
                room = nodes.next_multiple_of(capacity).max(capacity);
            }
            let (mut queue, mut misfits) = (VecDeque::from([first]), 0);
            while misfits < MISFITS
                && let Some(group) = queue.pop_front()
            {
                if open[group] && groups[group].nodes <= room {
                    open[group] = false;
                    room -= groups[group].nodes;
                    block.push(group);
                    queue.extend(&self.below[group]);
                } else {
                    misfits += 1;
                }
            }
            room = if misfits < MISFITS { room } else { 0 };
        }
        blocks.extend((!block.is_empty()).then_some(block));
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Binary tree of `count` groups of one node, numbered level by level.
    fn binary(count: usize) -> Vec<Group> {
        let below = |at: usize| (2 * at + 1..=2 * at + 2).filter(|&child| child < count).collect();
        (0..count).map(|at| Group { nodes: 1, below: below(at) }).collect()
    }

    /// Nodes of a page and of a line.
    const PAGE: usize = 16;
    const LINE: usize = 4;
    const LAYOUTS: [Layout; 6] = [
        Layout::AsBuilt,
        Layout::BreadthFirst,
        Layout::DepthFirst,
        Layout::VanEmdeBoas,
        Layout::Pages,
        Layout::PagesAndLines,
    ];

    /// Pseudo-random tree with groups of 1 to 40 nodes, some of them below several nodes.
    fn wild(count: usize, seed: u64) -> Vec<Group> {
        let mut state = seed;
        let mut next = |below: usize| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) as usize % below
        };
        let sizes = [1, 2, 2, 4, 4, 8, 16, 40];
        let mut groups: Vec<Group> =
            (0..count).map(|_| Group { nodes: sizes[next(sizes.len())], below: Vec::new() }).collect();
        for at in 1..count {
            let above = next(at.min(9)) + at - at.min(9);
            groups[above].below.push(at);
            if next(5) == 0 {
                groups[next(at)].below.push(at);
            }
        }
        groups
    }

    /// No two groups share a node, in any layout, and only layouts in blocks leave nodes unused.
    #[test]
    fn groups_lie_apart() {
        for groups in [binary(1), binary(63), binary(100), wild(300, 3), wild(777, 5)] {
            for layout in LAYOUTS {
                let Placement { first, nodes } = place(&groups, layout, PAGE, LINE);
                let mut used = vec![false; nodes];
                for (group, &first) in groups.iter().zip(&first) {
                    for node in &mut used[first..first + group.nodes] {
                        assert!(!std::mem::replace(node, true), "{layout:?}");
                    }
                }
                let sum: usize = groups.iter().map(|group| group.nodes).sum();
                let is_padded = matches!(layout, Layout::Pages | Layout::PagesAndLines);
                assert!(nodes == sum || is_padded, "{layout:?}: {nodes} of {sum}");
                assert!(nodes <= 2 * sum + PAGE, "{layout:?}: {nodes} of {sum}");
                assert_eq!(first[0], 0, "{layout:?}");
            }
        }
    }

    /// Section 3.3.1, Figure 3.4: four levels are cut in the middle, so a path of four nodes lies in two pages of
    /// three.
    #[test]
    fn a_binary_tree_as_in_the_dissertation() {
        let tree = place(&binary(15), Layout::VanEmdeBoas, PAGE, LINE).first;
        assert_eq!(tree, [0, 1, 2, 3, 6, 9, 12, 4, 5, 7, 8, 10, 11, 13, 14]);
        for leaf in 7..15usize {
            let path = std::iter::successors(Some(leaf), |&at| (at > 0).then(|| (at - 1) / 2));
            let mut pages: Vec<usize> = path.map(|at| tree[at] / 3).collect();
            pages.dedup();
            assert_eq!(pages.len(), 2, "leaf {leaf}");
        }
        // With three levels, the lower two are one part.
        assert_eq!(place(&binary(7), Layout::VanEmdeBoas, PAGE, LINE).first, [0, 1, 4, 2, 3, 5, 6]);
    }

    #[test]
    fn orders_of_a_small_tree() {
        let of = |layout| place(&binary(7), layout, 3, 3).first;
        assert_eq!(of(Layout::BreadthFirst), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(of(Layout::DepthFirst), [0, 1, 4, 2, 3, 5, 6]);
        // Pages of three nodes: the root with its children, then each pair of leaves as far as it fits.
        assert_eq!(of(Layout::Pages), [0, 1, 2, 3, 4, 5, 6]);
    }

    /// A page has a group together with groups below it, so that only layouts in blocks keep paths in few pages.
    #[test]
    fn pages_gather_what_lies_below() {
        let tree = binary(1023);
        let pages = |layout| {
            let first = place(&tree, layout, PAGE, LINE).first;
            let paths = (511..1023usize).map(|leaf| {
                let path = std::iter::successors(Some(leaf), |&at| (at > 0).then(|| (at - 1) / 2));
                let mut pages: Vec<usize> = path.map(|at| first[at] / PAGE).collect();
                pages.dedup();
                pages.len()
            });
            paths.sum::<usize>() as f64 / 512.0
        };
        let [breadth, blocked] = [Layout::BreadthFirst, Layout::Pages].map(pages);
        assert!(breadth > 6.5 && blocked < 4.2, "{breadth} and {blocked}");
    }

    /// A group of at most a line never straddles two lines in a layout with blocks of lines.
    #[test]
    fn groups_of_a_line_do_not_straddle_lines() {
        let groups = wild(500, 9);
        let straddles = |layout| {
            let first = place(&groups, layout, 256, LINE).first;
            let small = groups.iter().zip(first).filter(|(group, _)| group.nodes <= LINE);
            small.filter(|(group, first)| first % LINE + group.nodes > LINE).count()
        };
        assert_eq!(straddles(Layout::PagesAndLines), 0);
        assert!(straddles(Layout::Pages) > 20);
    }
}
