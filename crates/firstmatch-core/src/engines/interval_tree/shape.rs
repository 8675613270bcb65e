//! Shapes of trees: nodes, walks, rotations, and their bounds.

use super::config::{Config, MOST_SAMPLE, Turns};
use crate::raw::halve;

/// Marks the absence of a node.
pub(super) const NONE: u32 = u32::MAX;
/// Number of lookups over which the mean of edges is taken.
const WINDOW: u32 = 4096;
/// Smallest number of counted hits of each node between two halvings.
const LEAST_HITS: u32 = 16;

/// Node of an elementary interval; its number is that of the interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) lo: u32,
    pub(super) hi: u32,
    pub(super) children: [u32; 2],
    /// Counted hits of the node, or of its whole subtree ([`Turns`]).
    pub(super) popularity: u32,
}

/// Search tree over the intervals of a word, which one worker turns by its traffic.
///
/// # Invariants
/// - The nodes in order are the intervals in order, after any rotations (`in_order` in the tests).
/// - With [`Turns::Subtrees`], a node's counter is at least the sum of its children's counters (`sums_hold` in the
///   tests).
#[derive(Clone, Debug)]
pub struct Shape {
    pub(super) nodes: Vec<Node>,
    pub(super) root: u32,
    turns: Turns,
    threshold: u32,
    /// Largest number of edges of a walk.
    pub(super) cap: u32,
    /// Number of lookups between two reconstructions.
    reconstruct_after: Option<u64>,
    /// Mean edges above which a reconstruction is due.
    longest_mean: u32,
    /// Counted hits until counters are halved.
    halve_after: u64,
    pub(super) is_due: bool,
    lookups_since: u64,
    hits_since: u64,
    window: Window,
    counters: ShapeCounters,
}

/// Sums of a shape since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeCounters {
    /// Number of lookups.
    pub lookups: u64,
    /// Number of edges that walks followed.
    pub edges: u64,
    /// Number of rotations.
    pub rotations: u64,
    /// Number of walks that met the cap and halved instead.
    pub capped: u64,
    /// Number of reconstructions.
    pub reconstructions: u64,
    /// Number of halvings of all counters.
    pub halvings: u64,
}

/// Edges of the lookups since the last window was full.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    lookups: u32,
    edges: u64,
}

impl Window {
    /// Adds a lookup, and returns the edges of the window once it is full.
    #[inline(always)]
    fn add(&mut self, edges: u32) -> Option<u64> {
        self.lookups += 1;
        self.edges += u64::from(edges);
        (self.lookups == WINDOW).then(|| std::mem::take(self).edges)
    }
}

/// Interval that a walk has found, and its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Walked {
    pub(super) interval: u32,
    pub(super) edges: u32,
    /// Whether the walk met the cap.
    pub(super) is_capped: bool,
}

/// Number of steps of a search by halving.
pub(super) fn halvings(intervals: usize) -> u32 {
    usize::BITS - intervals.saturating_sub(1).leading_zeros()
}

/// Returns the largest number of edges of a walk.
///
/// A walk cannot have more edges than the other nodes.
pub(super) fn cap(intervals: usize, config: &Config) -> u32 {
    let most = intervals.saturating_sub(1) as u32;
    let height = halvings(intervals + 1);
    config.depth_cap.map_or(most, |beyond| beyond.saturating_add(2 * height).min(most))
}

impl Shape {
    /// Builds the balanced tree.
    pub(super) fn new(starts: &[u32], config: &Config) -> Self {
        let count = starts.len();
        let end = |at: usize| starts.get(at + 1).map_or(u32::MAX, |next| next - 1);
        let node = |at: usize| Node { lo: starts[at], hi: end(at), children: [NONE; 2], popularity: 0 };
        let of_nodes = |number: u32| u64::from(number) * count as u64;
        let hits = config.halve_after.map(|packets| (packets / config.sample).max(LEAST_HITS));
        let mut shape = Self {
            nodes: (0..count).map(node).collect(),
            root: NONE,
            turns: config.turns,
            threshold: config.threshold,
            cap: cap(count, config),
            reconstruct_after: config.reconstruct.map(of_nodes),
            longest_mean: halvings(count).saturating_add(config.mean_path),
            halve_after: hits.map_or(u64::MAX, of_nodes),
            is_due: false,
            lookups_since: 0,
            hits_since: 0,
            window: Window::default(),
            counters: ShapeCounters::default(),
        };
        let sums: Vec<u64> = (0..=count as u64).collect();
        // Each node starts with as many hits as it has descendants.
        shape.root = plant(&mut shape.nodes, &sums, 0, |size| size as u32 - 1);
        shape
    }

    /// Returns the sums since the shape was made.
    pub fn counters(&self) -> ShapeCounters {
        self.counters
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of edges from the root to the deepest node.
    pub fn height(&self) -> usize {
        let (mut deepest, mut left) = (0, vec![(self.root, 0)]);
        while let Some((at, depth)) = left.pop() {
            deepest = depth.max(deepest);
            let children = self.nodes[at as usize].children;
            left.extend(children.iter().filter(|&&child| child != NONE).map(|&child| (child, depth + 1)));
        }
        deepest
    }

    /// Returns the start of each interval and the number of edges to its node, in order.
    ///
    /// An attacker who can read this would send values of the deepest nodes.
    pub fn depths(&self) -> Vec<(u32, u32)> {
        let mut depths: Vec<(u32, u32)> = self.nodes.iter().map(|node| (node.lo, 0)).collect();
        let mut left = vec![(self.root, 0)];
        while let Some((at, depth)) = left.pop() {
            depths[at as usize].1 = depth;
            let children = self.nodes[at as usize].children;
            left.extend(children.iter().filter(|&&child| child != NONE).map(|&child| (child, depth + 1)));
        }
        depths
    }

    /// Returns the largest number of edges of a walk, after which it halves instead.
    pub fn cap(&self) -> u32 {
        self.cap
    }

    /// Finds the interval of a key. If `is_counted`, counts the hit, and turns the node up if it now leads its parent.
    ///
    /// It takes at most [`cap`](Self::cap) + 1 nodes and ⌈log₂ n⌉ steps of halving.
    #[inline(always)]
    pub(super) fn find(&mut self, starts: &[u32], key: u32, is_counted: bool, sums: &mut [u64]) -> Walked {
        if self.is_due && self.reconstruct_after.is_some_and(|after| self.lookups_since >= after) {
            self.reconstruct(sums);
        }
        let (mut grand, mut parent, mut at, mut edges) = (NONE, NONE, self.root, 0);
        let is_capped = loop {
            let node = &self.nodes[at as usize];
            let next = if key < node.lo {
                node.children[0]
            } else if key > node.hi {
                node.children[1]
            } else {
                break false;
            };
            if edges == self.cap {
                break true;
            }
            edges += 1;
            (grand, parent, at) = (parent, at, next);
        };
        if is_capped {
            [at] = halve(starts, &[key]);
            self.counters.capped += 1;
            self.is_due = self.reconstruct_after.is_some();
        } else if is_counted {
            self.hit(grand, parent, at);
        }
        self.lookups_since += 1;
        self.counters.lookups += 1;
        self.counters.edges += u64::from(edges);
        if let Some(sum) = self.window.add(edges) {
            self.is_due |= self.reconstruct_after.is_some() && sum > u64::from(WINDOW) * u64::from(self.longest_mean);
        }
        Walked { interval: at, edges, is_capped }
    }

    /// Counts a hit, rotates once if the node leads its parent, and halves all counters if that is due.
    fn hit(&mut self, grand: u32, parent: u32, at: u32) {
        let is_full = match self.turns {
            Turns::Popularity => {
                let node = &mut self.nodes[at as usize].popularity;
                *node = node.saturating_add(1);
                let own = *node;
                if parent != NONE && own >= self.count(parent).saturating_add(self.threshold) {
                    self.rotate(grand, parent, at);
                }
                own == u32::MAX
            }
            Turns::Subtrees => {
                let great = self.count_path(at, grand);
                if parent != NONE {
                    self.turn(great, grand, parent, at);
                }
                self.count(self.root) == u32::MAX
            }
        };
        self.hits_since += 1;
        if is_full || self.hits_since >= self.halve_after {
            self.halve_counters();
        }
    }

    /// Adds a hit to all nodes from the root to `to`, and returns the parent of `grand`, which is on this path.
    fn count_path(&mut self, to: u32, grand: u32) -> u32 {
        let (mut at, mut great) = (self.root, NONE);
        while at != to {
            let node = &mut self.nodes[at as usize];
            node.popularity += 1;
            // Numbers of nodes are in the order of their intervals.
            let next = node.children[usize::from(to > at)];
            if next == grand {
                great = at;
            }
            at = next;
        }
        self.nodes[to as usize].popularity += 1;
        great
    }

    /// Turns `at` above its parent if more hits rise than sink, or else above parent and grandparent if that is so then.
    ///
    /// The second is for a node between its parent and its grandparent, whose inner subtree would not rise by one turn.
    /// Both turns raise the node by two levels and its subtrees by one; the grandparent sinks with its other subtree.
    fn turn(&mut self, great: u32, grand: u32, parent: u32, at: u32) {
        let (side, children) = (self.side(parent, at), self.nodes[at as usize].children);
        let [inner, outer] = [1 - side, side].map(|side| u64::from(self.count(children[side])));
        let [own, whole] = [at, parent].map(|node| u64::from(self.count(node)));
        let threshold = u64::from(self.threshold);
        if own - inner >= whole - own + threshold {
            self.rotate(grand, parent, at);
        } else if grand != NONE
            && self.side(grand, parent) != side
            && 2 * own - inner - outer >= u64::from(self.count(grand)) - whole + threshold
        {
            self.rotate(grand, parent, at);
            self.rotate(great, grand, at);
        }
    }

    /// Returns the counter of a node, and 0 for no node.
    fn count(&self, at: u32) -> u32 {
        if at == NONE { 0 } else { self.nodes[at as usize].popularity }
    }

    /// Returns the side of `parent` on which `at` is.
    fn side(&self, parent: u32, at: u32) -> usize {
        usize::from(self.nodes[parent as usize].children[1] == at)
    }

    /// Turns `at` above its parent.
    pub(super) fn rotate(&mut self, grand: u32, parent: u32, at: u32) {
        let side = self.side(parent, at);
        let inner = self.nodes[at as usize].children[1 - side];
        if self.turns == Turns::Subtrees {
            let whole = self.count(parent);
            let sunk = whole - self.count(at) + self.count(inner);
            self.nodes[parent as usize].popularity = sunk;
            self.nodes[at as usize].popularity = whole;
        }
        self.nodes[parent as usize].children[side] = inner;
        self.nodes[at as usize].children[1 - side] = parent;
        if grand == NONE {
            self.root = at;
        } else {
            let side = self.side(grand, parent);
            self.nodes[grand as usize].children[side] = at;
        }
        self.counters.rotations += 1;
    }

    /// Halves all counters, so that new traffic counts more than old.
    pub(super) fn halve_counters(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.popularity /= 2);
        self.hits_since = 0;
        self.counters.halvings += 1;
    }

    /// Rebuilds the tree by the hits of its nodes, to which it adds their mean.
    ///
    /// The new counters are half of the weights of the subtrees. Otherwise the next hits would undo the new shape.
    #[cold]
    pub(super) fn reconstruct(&mut self, sums: &mut [u64]) {
        let own = |nodes: &[Node], at: usize| {
            let of = |at: u32| if at == NONE { 0 } else { u64::from(nodes[at as usize].popularity) };
            let Node { popularity, children: [left, right], .. } = nodes[at];
            match self.turns {
                Turns::Popularity => u64::from(popularity),
                Turns::Subtrees => u64::from(popularity) - of(left) - of(right),
            }
        };
        let mut total = 0;
        for (at, sum) in sums[..self.nodes.len()].iter_mut().enumerate() {
            *sum = own(&self.nodes, at);
            total += *sum;
        }
        // A weight of at least 1 keeps the depth logarithmic.
        let mean = (total / self.nodes.len() as u64).max(1);
        self.rebuild(sums, mean);
        self.counters.reconstructions += 1;
    }

    /// Rebuilds the tree by `weights`, the weight of each node, after adding `more` to each.
    ///
    /// `weights` must have one place more than there are nodes; it is overwritten.
    pub(super) fn rebuild(&mut self, weights: &mut [u64], more: u64) {
        let sums = &mut weights[..=self.nodes.len()];
        let mut sum = 0;
        for before in &mut *sums {
            (*before, sum) = (sum, sum + *before + more);
        }
        self.root = plant(&mut self.nodes, sums, 0, |weight| u32::try_from(weight / 2).unwrap_or(u32::MAX));
        (self.is_due, self.lookups_since, self.window) = (false, 0, Window::default());
    }
}

/// Links the nodes from number `first` on to a tree by their weights, and returns its root.
///
/// `sums` has the sum of the weights before each node, then the sum of all. A root is the first node at which the sum
/// exceeds half of its range's weight. `popularity` turns the weight of a subtree into its root's counter.
fn plant(nodes: &mut [Node], sums: &[u64], first: usize, popularity: fn(u64) -> u32) -> u32 {
    let (Some(&from), Some(&to)) = (sums.first(), sums.last()) else { return NONE };
    if sums.len() == 1 {
        return NONE;
    }
    let own = sums[1..].partition_point(|&sum| 2 * u128::from(sum - from) <= u128::from(to - from));
    let left = plant(nodes, &sums[..=own], first, popularity);
    let right = plant(nodes, &sums[own + 1..], first + own + 1, popularity);
    let node = &mut nodes[first + own];
    (node.children, node.popularity) = ([left, right], popularity(to - from));
    (first + own) as u32
}

/// Choice of the packets whose hits are counted: one of every `interval` packets.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    /// Interval that a dynamic sampler begins with and never goes below.
    least: u32,
    pub(super) interval: u32,
    /// Number of packets up to the next counted one.
    left: u64,
    is_dynamic: bool,
    window: Window,
    /// Smallest number of edges of any full window so far.
    fewest: u64,
}

impl Sampler {
    pub(super) fn new(config: &Config) -> Self {
        let least = config.sample;
        let (window, fewest) = (Window::default(), u64::MAX);
        Self { least, interval: least, left: 1, is_dynamic: config.dynamic, window, fewest }
    }

    /// Whether the hits of the next packet count.
    #[inline(always)]
    pub(super) fn counts(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = self.interval.into();
        true
    }

    /// Adds the edges of a packet. The interval grows while walks are more than twice as long as in the best window.
    #[inline(always)]
    pub(super) fn add(&mut self, edges: u32) {
        if !self.is_dynamic {
            return;
        }
        if let Some(sum) = self.window.add(edges) {
            self.fewest = self.fewest.min(sum);
            let is_long = sum > self.fewest.saturating_mul(2);
            let next = if is_long { 2 * self.interval } else { self.interval / 2 };
            self.interval = next.clamp(self.least, MOST_SAMPLE);
        }
    }

    /// Stops counting packets, or counts again from the next packet on.
    pub(super) fn freeze(&mut self, is_frozen: bool) {
        self.left = if is_frozen { u64::MAX } else { 1 };
    }

    /// Forgets the smallest number of edges, because a tree was rebuilt.
    pub(super) fn restart(&mut self) {
        self.fewest = u64::MAX;
    }
}
