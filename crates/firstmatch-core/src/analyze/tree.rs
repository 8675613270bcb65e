//! Box tree: the regions of a rule set, found by a point or by a box, within a range of ranks.
//!
//! A node has the hull of its regions, their least and greatest rank, and the verdicts among them. A leaf has up to
//! eight regions. A node is split by a word: the regions that fill its hull there against the others, or those that
//! begin below the median against the others. Wide rules cannot be separated by words, so where no such split pays, a
//! node is split by rank.

use super::piece::{Piece, contains, holds, overlap};

/// Most regions of a leaf.
const LEAF: usize = 8;

/// Regions of a rule set over the same words, with the rank of each one's rule.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    words: usize,
    /// Pieces of each region, word by word.
    pieces: Vec<Piece>,
    ranks: Vec<u32>,
    nodes: Vec<Node>,
    /// Smallest and largest value of each word, node by node.
    hulls: Vec<Piece>,
    /// Indices of the regions of all leaves.
    order: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    least: u32,
    most: u32,
    /// Verdicts of its rules, one bit each.
    verdicts: u64,
    /// Two children, or start and end of the leaf's regions.
    below: Below,
}

#[derive(Clone, Copy, Debug)]
enum Below {
    Children(u32, u32),
    Regions(u32, u32),
}

/// Rules that a question is about: a range of ranks, without some of them.
#[derive(Clone, Copy)]
pub(super) struct Among<'a> {
    pub(super) from: u32,
    pub(super) below: u32,
    /// Rule that does not count.
    pub(super) without: Option<u32>,
    /// Rules that do not count any more, by rank.
    pub(super) removed: &'a [bool],
    /// Verdict of each rule, as a bit.
    pub(super) verdicts: &'a [u64],
    /// Verdicts that count.
    pub(super) of: u64,
}

impl Among<'_> {
    fn takes_node(&self, node: &Node) -> bool {
        node.least < self.below && node.most >= self.from && node.verdicts & self.of != 0
    }

    pub(super) fn takes(&self, rank: u32) -> bool {
        (self.from..self.below).contains(&rank)
            && self.without != Some(rank)
            && !self.removed[rank as usize]
            && self.verdicts[rank as usize] & self.of != 0
    }
}

impl Tree {
    /// Builds the tree of regions, given as flat pieces; `ranks` are the ranks of their rules, in order.
    pub(super) fn build(words: usize, pieces: Vec<Piece>, ranks: Vec<u32>, verdicts: &[u64]) -> Self {
        let mut tree = Self { words, pieces, ranks, nodes: Vec::new(), hulls: Vec::new(), order: Vec::new() };
        if !tree.ranks.is_empty() {
            let all = (0..tree.ranks.len() as u32).collect();
            tree.grow(all, verdicts);
        }
        tree
    }

    /// Returns the pieces of a region.
    pub(super) fn region(&self, index: usize) -> &[Piece] {
        &self.pieces[index * self.words..][..self.words]
    }

    /// Returns the rank of a region's rule.
    pub(super) fn rank(&self, index: usize) -> u32 {
        self.ranks[index]
    }

    fn hull(&self, node: u32) -> &[Piece] {
        &self.hulls[node as usize * self.words..][..self.words]
    }

    /// Adds the node of some regions and returns its number.
    fn grow(&mut self, mut regions: Vec<u32>, verdicts: &[u64]) -> u32 {
        let number = self.nodes.len() as u32;
        let (mut least, mut most, mut found) = (u32::MAX, 0, 0);
        for &region in &regions {
            let rank = self.ranks[region as usize];
            (least, most, found) = (least.min(rank), most.max(rank), found | verdicts[rank as usize]);
        }
        for word in 0..self.words {
            let of = |region: &u32| self.pieces[*region as usize * self.words + word];
            let lo = regions.iter().map(|region| of(region).lo).min().unwrap_or(0);
            let hi = regions.iter().map(|region| of(region).hi).max().unwrap_or(0);
            self.hulls.push(Piece::interval(lo, hi));
        }
        self.nodes.push(Node { least, most, verdicts: found, below: Below::Regions(0, 0) });
        self.nodes[number as usize].below = if regions.len() <= LEAF {
            // Regions are in order of rank, because splits keep it.
            let start = self.order.len() as u32;
            self.order.append(&mut regions);
            Below::Regions(start, self.order.len() as u32)
        } else {
            let (one, other) = self.split(number, regions);
            let one = self.grow(one, verdicts);
            Below::Children(one, self.grow(other, verdicts))
        };
        number
    }

    /// Splits the regions of a node in two parts, neither of which is empty.
    fn split(&self, node: u32, regions: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
        let count = regions.len() as f64;
        let mut best: (f64, usize, Option<u32>) = (f64::INFINITY, 0, None);
        let mut starts: Vec<u32> = Vec::with_capacity(regions.len());
        for (word, hull) in self.hull(node).iter().enumerate().filter(|(_, hull)| hull.lo < hull.hi) {
            let of = |region: u32| self.pieces[region as usize * self.words + word];
            let filled = regions.iter().filter(|&&region| of(region).lo == hull.lo && of(region).hi == hull.hi).count();
            let share = filled as f64;
            if filled < regions.len() && share * 8.0 >= count {
                let cost = share + 0.6 * (count - share);
                if cost < best.0 {
                    best = (cost, word, None);
                }
            }
            starts.clear();
            starts.extend(regions.iter().map(|&region| of(region).lo));
            let middle = starts.len() / 2;
            let median = *starts.select_nth_unstable(middle).1;
            let lower = regions.iter().filter(|&&region| of(region).lo < median).count();
            let crossing = regions.iter().filter(|&&region| of(region).lo < median && of(region).hi >= median).count();
            if lower > 0 {
                let cost = lower.max(regions.len() - lower) as f64 + crossing as f64;
                if cost < best.0 {
                    best = (cost, word, Some(median));
                }
            }
        }
        let (cost, word, median) = best;
        if cost == f64::INFINITY || cost > 0.65 * count && regions.len() > 64 {
            let mut regions = regions;
            let behind = regions.split_off(regions.len() / 2);
            return (regions, behind);
        }
        let hull = self.hull(node)[word];
        regions.into_iter().partition(|&region| {
            let piece = self.pieces[region as usize * self.words + word];
            median.map_or(piece.lo == hull.lo && piece.hi == hull.hi, |median| piece.lo < median)
        })
    }

    /// Visits regions until `f` returns true, in the nodes that `enter` accepts, lesser ranks first.
    fn walk(&self, mut enter: impl FnMut(&Node, &[Piece]) -> bool, mut f: impl FnMut(usize) -> bool) {
        let mut stack = Vec::with_capacity(64);
        if !self.nodes.is_empty() {
            stack.push(0);
        }
        while let Some(number) = stack.pop() {
            let node = &self.nodes[number as usize];
            if !enter(node, self.hull(number)) {
                continue;
            }
            match node.below {
                Below::Children(one, other) => {
                    let first_is_less = self.nodes[one as usize].least <= self.nodes[other as usize].least;
                    stack.extend(if first_is_less { [other, one] } else { [one, other] });
                }
                Below::Regions(start, end) => {
                    for &region in &self.order[start as usize..end as usize] {
                        if f(region as usize) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Returns the least rank with a region for which `is_it` is true, among nodes for which `may_have_it` is true.
    fn least(
        &self,
        among: Among<'_>,
        may_have_it: impl Fn(&[Piece]) -> bool,
        is_it: impl Fn(&[Piece]) -> bool,
    ) -> Option<u32> {
        let best = std::cell::Cell::new(among.below);
        self.walk(
            |node, hull| among.takes_node(node) && node.least < best.get() && may_have_it(hull),
            |region| {
                let rank = self.ranks[region];
                if rank < best.get() && among.takes(rank) && is_it(self.region(region)) {
                    best.set(rank);
                }
                false
            },
        );
        (best.get() < among.below).then_some(best.get())
    }

    /// Returns the least rank in `among` with a region that has the key.
    pub(super) fn first(&self, key: &[u32], among: Among<'_>) -> Option<u32> {
        self.least(among, |hull| contains(hull, key), |region| contains(region, key))
    }

    /// Returns the least rank in `among` with one region that holds all of the box.
    pub(super) fn holder(&self, of: &[Piece], among: Among<'_>) -> Option<u32> {
        self.least(among, |hull| holds(hull, of), |region| holds(region, of))
    }

    /// Returns the least rank in `among` with a region that overlaps the box.
    pub(super) fn next(&self, of: &[Piece], among: Among<'_>) -> Option<u32> {
        self.least(among, |hull| overlap(hull, of), |region| overlap(region, of))
    }

    /// Calls `f` with each region in `among` that overlaps the box, in no order, until it returns true.
    pub(super) fn overlaps(&self, of: &[Piece], among: Among<'_>, mut f: impl FnMut(usize) -> bool) {
        self.walk(
            |node, hull| among.takes_node(node) && overlap(hull, of),
            |region| among.takes(self.ranks[region]) && overlap(self.region(region), of) && f(region),
        );
    }
}
