//! Building: regions are shared out to trees, lists to nodes and leaves.

use std::collections::HashMap;

use super::bits::{self, Bits, Cubes, Limits};
use super::block::{BLOCK, Shape};
use super::{BitSelect, Config, EMPTY, Node, Parting, Tree, pack};
use crate::error::BuildError;
use crate::rule::Lowered;
use crate::simd::{Level, gather};

/// So many regions make no tree: they are one leaf.
const FEW: usize = 2 * BLOCK;
/// The most bits of a node.
const MOST_BITS: u32 = 16;
/// Bytes of blocks that need not be asked for early: half of a second-level cache of 1 MiB.
const NEAR: usize = 512 << 10;

struct Builder<'a> {
    config: &'a Config,
    cubes: Cubes,
    /// How many more copies nodes below the roots may make.
    copies: usize,
    nodes: Vec<Node>,
    table: Vec<Option<Way>>,
    /// Lists of regions in order of rank.
    leaves: Vec<Box<[u32]>>,
    /// What lists of the tree in hand have become.
    known: HashMap<Box<[u32]>, To>,
}

/// Where an entry of a table leads, and the best region there.
#[derive(Clone, Copy)]
struct Way {
    to: To,
    best: u32,
}

/// By number.
#[derive(Clone, Copy)]
enum To {
    Node(usize),
    Leaf(usize),
}

pub(super) fn build(set: &Lowered, config: &Config, level: Level) -> Result<BitSelect, BuildError> {
    let regions = set.regions();
    let shape = Shape::new(set.schema(), regions);
    let mut builder = Builder {
        config,
        cubes: Cubes::new(regions),
        copies: (regions.len() as f64 * config.growth) as usize,
        nodes: Vec::new(),
        table: Vec::new(),
        leaves: Vec::new(),
        known: HashMap::new(),
    };
    let trees = builder.trees(regions.len());
    let (mut matches, mut ranks) = (Vec::new(), Vec::with_capacity(regions.len()));
    for (rule, range) in set.by_rule() {
        ranks.extend(range.map(|_| matches.len() as u32));
        matches.push(rule);
    }
    let packed = pack::pack(&builder.leaves, &shape, regions, &ranks);
    let blocks = packed.blocks.len() / shape.lines();
    let parting = Parting::new(blocks.max(builder.nodes.len()), matches.len());
    let entry = |Way { to, best }: Way| match to {
        To::Node(node) => parting.entry(ranks[best as usize], node as u32, false),
        To::Leaf(leaf) => parting.entry(ranks[best as usize], packed.places[leaf], true),
    };
    let table = builder.table.iter().map(|way| way.map_or(EMPTY, entry)).collect();
    let built = BitSelect {
        schema: set.schema().clone(),
        level,
        shape,
        trees: trees.into(),
        nodes: builder.nodes.into(),
        table,
        parting,
        is_large: size_of_val(&packed.blocks[..]) > NEAR,
        blocks: packed.blocks.into(),
        matches: matches.into(),
        regions: regions.len(),
    };
    let needed = built.bytes().iter().map(|(_, bytes)| bytes).sum();
    if needed > config.budget.run_bytes {
        return Err(BuildError::bytes(needed, config.budget.run_bytes));
    }
    Ok(built)
}

impl Builder<'_> {
    /// Shares all regions out to trees.
    fn trees(&mut self, regions: usize) -> Vec<Tree> {
        let mut left: Vec<u32> = (0..regions as u32).collect();
        let mut trees = Vec::new();
        while !left.is_empty() {
            let is_last = trees.len() + 1 >= self.config.trees || left.len() <= FEW;
            let first = self.leaves.len();
            let (root, rest) = self.root(&left, is_last);
            let longest = self.leaves[first..].iter().map(|list| list.len().div_ceil(BLOCK)).max().unwrap_or(0);
            trees.push(Tree { root: self.nodes[root], levels: self.levels(root), longest });
            // A tree's nodes and leaves are its own: only within it does a list say all about where a walk is.
            self.known.clear();
            left = rest;
        }
        trees
    }

    /// The root of a tree, and the regions that the tree does not hold.
    fn root(&mut self, list: &[u32], is_last: bool) -> (usize, Vec<u32>) {
        let open = if is_last { None } else { Some(self.config.open) };
        let limits = Limits { bits: self.most_bits(list.len()), open, growth: self.config.growth };
        let bits = bits::choose(&self.cubes, list, limits);
        let fits = |region: &u32| open.is_none_or(|open| bits.open(self.cubes.of(*region)) <= open);
        let (here, rest): (Vec<u32>, Vec<u32>) = list.iter().copied().partition(fits);
        let bits = if here.len() <= FEW { Bits::default() } else { bits };
        let lists = self.lists(&here, &bits);
        (self.node(&bits, &lists, self.config.levels.max(1) - 1), rest)
    }

    fn most_bits(&self, regions: usize) -> u32 {
        (regions * self.config.fan_out).max(2).ilog2().min(MOST_BITS)
    }

    /// The most nodes of a walk from a node.
    fn levels(&self, node: usize) -> usize {
        // Nodes stand behind those they lead to, so one pass from the first finds the levels of each.
        let mut levels = vec![0; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let ways = self.table[node.base as usize..][..1 << node.mask.count_ones()].iter().flatten();
            let of = |way: &Way| if let To::Node(node) = way.to { levels[node] } else { 0 };
            levels[index] = 1 + ways.map(of).max().unwrap_or(0);
        }
        levels[node]
    }

    /// What a list becomes below a root, with so many levels left.
    fn subtree(&mut self, list: &[u32], levels: usize) -> To {
        if let Some(&to) = self.known.get(list) {
            return to;
        }
        let to = match self.parted(list, levels) {
            Some(node) => To::Node(node),
            None => {
                self.leaves.push(list.into());
                To::Leaf(self.leaves.len() - 1)
            }
        };
        self.known.insert(list.into(), to);
        to
    }

    /// A node, if the list needs one and there is one that pays.
    fn parted(&mut self, list: &[u32], levels: usize) -> Option<usize> {
        if list.len() <= BLOCK || levels == 0 {
            return None;
        }
        let limits = Limits { bits: self.most_bits(list.len()), open: None, growth: self.config.growth };
        let bits = bits::choose(&self.cubes, list, limits);
        if bits.count() == 0 {
            return None;
        }
        let lists = self.lists(list, &bits);
        self.copies = self.copies.checked_sub(lists.regions.len().saturating_sub(list.len()))?;
        Some(self.node(&bits, &lists, levels - 1))
    }

    fn node(&mut self, bits: &Bits, lists: &Lists, levels: usize) -> usize {
        let base = self.table.len();
        let entries = lists.starts.len() - 1;
        self.table.resize(base + entries, None);
        let mut last: Option<(&[u32], Way)> = None;
        for entry in 0..entries {
            let list = lists.of(entry);
            let Some(&best) = list.first() else { continue };
            let way = match last {
                Some((earlier, way)) if earlier == list => way,
                _ => Way { to: self.subtree(list, levels), best },
            };
            last = Some((list, way));
            self.table[base + entry] = Some(way);
        }
        let (mask, lanes) = select(bits);
        self.nodes.push(Node { mask, lanes, base: base as u32 });
        self.nodes.len() - 1
    }

    /// The list of every entry of a node.
    fn lists(&self, list: &[u32], bits: &Bits) -> Lists {
        let (mask, lanes) = select(bits);
        let mut starts = vec![0usize; (1 << bits.count()) + 1];
        let each = |region: u32, put: &mut dyn FnMut(usize)| {
            let [a, b] = lanes.map(|lane| self.cubes.of(region)[usize::from(lane)]);
            let value = gather(u64::from(a.0) << 32 | u64::from(b.0), mask) as usize;
            let open = gather(u64::from(!a.1) << 32 | u64::from(!b.1), mask) as usize;
            // Every value of the open bits.
            let mut some = 0usize;
            loop {
                put(value | some);
                some = some.wrapping_sub(open) & open;
                if some == 0 {
                    return;
                }
            }
        };
        list.iter().for_each(|&region| each(region, &mut |entry| starts[entry + 1] += 1));
        for entry in 1..starts.len() {
            starts[entry] += starts[entry - 1];
        }
        let mut next = starts.clone();
        let mut regions = vec![0; starts[starts.len() - 1]];
        for &region in list {
            each(region, &mut |entry| {
                regions[next[entry]] = region;
                next[entry] += 1;
            });
        }
        Lists { starts, regions }
    }
}

/// The lists of a node's entries, one behind the other.
struct Lists {
    starts: Vec<usize>,
    regions: Vec<u32>,
}

impl Lists {
    fn of(&self, entry: usize) -> &[u32] {
        &self.regions[self.starts[entry]..self.starts[entry + 1]]
    }
}

/// Bits as a node has them: a mask over two words, and their lanes.
fn select(bits: &Bits) -> (u64, [u16; 2]) {
    let first = bits.lanes.first().copied().unwrap_or((0, 0));
    let second = bits.lanes.get(1).copied().unwrap_or((first.0, 0));
    (u64::from(first.1) << 32 | u64::from(second.1), [first.0 as u16, second.0 as u16])
}
