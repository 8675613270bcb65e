//! Building: regions are shared out to trees, lists to nodes, leaves to blocks.

use std::collections::HashMap;

use super::bits::{self, Bits, Cubes, Limits};
use super::block::{BLOCK, Shape};
use super::{BitSelect, Config, LEAF, Node, Tree};
use crate::error::BuildError;
use crate::engine::Match;
use crate::rule::Lowered;
use crate::simd::{Level, Line};

/// Regions that make no tree of their own: they are one leaf.
const FEW: usize = 2 * BLOCK;
/// The most bits of a node.
const MOST_BITS: u32 = 16;

struct Builder<'a> {
    config: &'a Config,
    cubes: Cubes,
    nodes: Vec<Node>,
    table: Vec<u32>,
    /// Lists of regions, in order; in the table a leaf stands under its number here until it has a block.
    leaves: Vec<Box<[u32]>>,
    /// What a list has become.
    known: HashMap<Box<[u32]>, u32>,
}

pub(super) fn build(set: &Lowered, config: &Config, level: Level) -> Result<BitSelect, BuildError> {
    let regions = set.regions();
    let shape = Shape::new(set.schema(), regions);
    let mut builder = Builder {
        config,
        cubes: Cubes::new(regions),
        nodes: Vec::new(),
        table: Vec::new(),
        leaves: Vec::new(),
        known: HashMap::new(),
    };
    let mut matches: Vec<Match> = Vec::new();
    let mut ranks: Vec<u32> = Vec::with_capacity(regions.len());
    for (rule, range) in set.by_rule() {
        ranks.extend(range.map(|_| matches.len() as u32));
        matches.push(rule);
    }
    let mut left: Vec<u32> = (0..regions.len() as u32).collect();
    let mut trees = Vec::new();
    while !left.is_empty() {
        let last = trees.len() + 1 >= config.trees || left.len() <= FEW;
        let (tree, rest) = builder.tree(&left, last);
        builder.known.clear();
        trees.push(tree);
        left = rest;
    }
    let (places, longest, blocks) = pack(&builder.leaves, &shape, set, &ranks);
    let place = |handle: u32| if handle & LEAF != 0 { LEAF | places[(handle & !LEAF) as usize] } else { handle };
    for entry in &mut builder.table {
        *entry = place(*entry);
    }
    for tree in &mut trees {
        tree.root = place(tree.root);
        tree.longest = longest;
    }
    let built = BitSelect {
        schema: set.schema().clone(),
        level,
        shape,
        trees: trees.into(),
        nodes: builder.nodes.into(),
        table: builder.table.into(),
        blocks: blocks.into(),
        matches: matches.into(),
        regions: regions.len(),
        is_large: false,
    };
    let mut built = built;
    built.is_large = size_of_val(&built.blocks[..]) > 512 << 10;
    let needed = built.bytes().iter().map(|(_, bytes)| bytes).sum();
    if needed > config.budget.run_bytes {
        return Err(BuildError::bytes(needed, config.budget.run_bytes));
    }
    Ok(built)
}

impl Builder<'_> {
    /// A tree, and the regions that it does not hold.
    fn tree(&mut self, list: &[u32], last: bool) -> (Tree, Vec<u32>) {
        let most = self.most_bits(list.len());
        let open = if last { None } else { Some(self.config.copies) };
        let bits = bits::choose(&self.cubes, list, Limits { bits: most, open, growth: self.config.growth });
        let (mut here, mut rest) = (Vec::new(), Vec::new());
        for &region in list {
            let fits = open.is_none_or(|open| bits.open(self.cubes.of(region)) <= open);
            if fits { here.push(region) } else { rest.push(region) }
        }
        let root = if bits.count() == 0 || here.len() <= FEW {
            self.leaf(&here)
        } else {
            self.node(&here, &bits, self.config.levels - 1)
        };
        let levels = self.levels(root);
        (Tree { root, levels, longest: 0 }, rest)
    }

    fn most_bits(&self, regions: usize) -> u32 {
        (regions * self.config.fan_out).max(2).ilog2().min(MOST_BITS)
    }

    /// Steps below a handle to the deepest leaf.
    fn levels(&self, handle: u32) -> usize {
        // Nodes stand behind what they refer to, so one pass from the first finds the depth of each.
        let mut depth = vec![0usize; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let entries = &self.table[node.base as usize..][..1 << node.mask.count_ones()];
            let below = entries.iter().map(|&e| if e & LEAF != 0 { 0 } else { depth[e as usize] }).max();
            depth[index] = 1 + below.unwrap_or(0);
        }
        if handle & LEAF != 0 { 0 } else { depth[handle as usize] }
    }

    fn subtree(&mut self, list: &[u32], levels: usize) -> u32 {
        if let Some(&handle) = self.known.get(list) {
            return handle;
        }
        let handle = if list.len() <= BLOCK || levels == 0 {
            self.leaf(list)
        } else {
            let limits = Limits { bits: self.most_bits(list.len()), open: None, growth: self.config.growth };
            let bits = bits::choose(&self.cubes, list, limits);
            if bits.count() == 0 { self.leaf(list) } else { self.node(list, &bits, levels - 1) }
        };
        self.known.insert(list.into(), handle);
        handle
    }

    fn leaf(&mut self, list: &[u32]) -> u32 {
        self.leaves.push(list.into());
        LEAF | (self.leaves.len() - 1) as u32
    }

    fn node(&mut self, list: &[u32], bits: &Bits, levels: usize) -> u32 {
        let (mask, lanes) = mask(bits);
        let entries = 1usize << bits.count();
        let base = self.table.len();
        self.table.resize(base + entries, 0);
        // The lists of all entries, one behind the other.
        let mut starts = vec![0u32; entries + 1];
        let select = |cube: &[(u32, u32)], part: fn(&(u32, u32)) -> u32| {
            gather(u64::from(part(&cube[usize::from(lanes[0])])) << 32 | u64::from(part(&cube[usize::from(lanes[1])])), mask) as usize
        };
        let each = |builder: &Self, region: u32, put: &mut dyn FnMut(usize)| {
            let cube = builder.cubes.of(region);
            let value = select(cube, |word| word.0);
            let open = select(cube, |word| !word.1);
            let mut some = 0usize;
            loop {
                put(value | some);
                some = some.wrapping_sub(open) & open;
                if some == 0 {
                    break;
                }
            }
        };
        for &region in list {
            each(self, region, &mut |entry| starts[entry + 1] += 1);
        }
        for entry in 0..entries {
            starts[entry + 1] += starts[entry];
        }
        let mut next = starts.clone();
        let mut lists = vec![0u32; starts[entries] as usize];
        for &region in list {
            each(self, region, &mut |entry| {
                lists[next[entry] as usize] = region;
                next[entry] += 1;
            });
        }
        let mut last: Option<(std::ops::Range<usize>, u32)> = None;
        for entry in 0..entries {
            let range = starts[entry] as usize..starts[entry + 1] as usize;
            let list = &lists[range.clone()];
            let handle = match &last {
                Some((earlier, handle)) if lists[earlier.clone()] == *list => *handle,
                _ => self.subtree(list, levels),
            };
            last = Some((range, handle));
            self.table[base + entry] = handle;
        }
        self.nodes.push(Node { mask, lanes, base: base as u32 });
        (self.nodes.len() - 1) as u32
    }
}

fn mask(bits: &Bits) -> (u64, [u16; 2]) {
    let of = |index: usize| bits.lanes.get(index).copied().unwrap_or((bits.lanes[0].0, 0));
    let (first, second) = (of(0), of(1));
    (u64::from(first.1) << 32 | u64::from(second.1), [first.0 as u16, second.0 as u16])
}

fn gather(word: u64, mut mask: u64) -> u64 {
    let (mut gathered, mut place) = (0, 0);
    while mask != 0 {
        gathered |= (word >> mask.trailing_zeros() & 1) << place;
        mask &= mask - 1;
        place += 1;
    }
    gathered
}

/// Shares leaves out to blocks: neighbours that have room together share one, for a block may hold more than a leaf
/// asks for. Where each leaf starts, and the blocks of the longest.
fn pack(leaves: &[Box<[u32]>], shape: &Shape, set: &Lowered, ranks: &[u32]) -> (Vec<u32>, usize, Vec<Line>) {
    let mut places = vec![0u32; leaves.len()];
    let mut blocks: Vec<Vec<u32>> = Vec::new();
    let mut more: Vec<Option<u32>> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut longest = 1;
    for (leaf, list) in leaves.iter().enumerate() {
        if list.len() > BLOCK {
            let count = list.len().div_ceil(BLOCK);
            longest = longest.max(count);
            places[leaf] = blocks.len() as u32;
            for (i, part) in list.chunks(BLOCK).enumerate() {
                more.push((i + 1 < count).then_some(blocks.len() as u32 + 1));
                blocks.push(part.to_vec());
            }
            continue;
        }
        let fits = open.iter().rposition(|&block| {
            let new = list.iter().filter(|region| !blocks[block].contains(region)).count();
            blocks[block].len() + new <= BLOCK
        });
        let block = match fits {
            Some(at) => open[at],
            None => {
                if open.len() == 8 {
                    let fullest = (0..open.len()).max_by_key(|&at| (blocks[open[at]].len(), std::cmp::Reverse(at)));
                    open.remove(fullest.unwrap_or(0));
                }
                open.push(blocks.len());
                more.push(None);
                blocks.push(Vec::new());
                blocks.len() - 1
            }
        };
        for region in list {
            if !blocks[block].contains(region) {
                blocks[block].push(*region);
            }
        }
        places[leaf] = block as u32;
    }
    let mut lines = vec![Line::default(); blocks.len() * shape.lines()];
    for ((block, more), lines) in blocks.iter_mut().zip(more).zip(lines.chunks_exact_mut(shape.lines())) {
        block.sort_unstable();
        let regions: Vec<_> =
            block.iter().map(|&r| (ranks[r as usize], set.regions().get(r as usize))).collect();
        shape.write(&regions, more, lines);
    }
    (places, longest, lines)
}
