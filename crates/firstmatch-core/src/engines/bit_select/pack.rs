//! Packing of leaves into blocks.

use super::block::{BLOCK, Shape};
use super::tree::Leaves;
use crate::raw::{LINE_WORDS, Line, words_mut};
use crate::rule::Regions;

/// Number of blocks that are tried for the next leaf.
///
/// These are recent blocks with room, because neighbours in a table share regions.
const IN_MIND: usize = 8;

/// Blocks with the position of each leaf.
pub(super) struct Packed {
    /// Number of each leaf's first block.
    pub(super) places: Vec<u32>,
    pub(super) blocks: Vec<Line>,
}

/// Block under construction.
#[derive(Default)]
struct Block {
    regions: [u32; BLOCK],
    len: usize,
    more: Option<usize>,
}

impl Block {
    fn new(list: &[u32]) -> Self {
        let mut block = Self::default();
        block.add(list);
        block
    }

    fn regions(&self) -> &[u32] {
        &self.regions[..self.len]
    }

    /// Returns the number of distinct regions that the block would have with the regions of `list`.
    fn with(&self, list: &[u32]) -> usize {
        self.len + list.iter().filter(|region| !self.regions().contains(region)).count()
    }

    /// Adds the regions of `list` that the block lacks; there must be room.
    fn add(&mut self, list: &[u32]) {
        for region in list {
            if !self.regions().contains(region) {
                self.regions[self.len] = *region;
                self.len += 1;
            }
        }
    }
}

/// Assigns every leaf its block or blocks, and writes them.
///
/// Short leaves of a tree share a block if their regions fit together; a long leaf has several blocks of its own.
/// For example, leaves of the regions 1, 2, 3 and 2, 3, 4, 5 share a block of five. No two trees share a block,
/// because otherwise a region that a change takes out of one tree could still be found through the other.
pub(super) fn pack<'a>(
    trees: impl Iterator<Item = &'a Leaves>,
    shape: &Shape,
    regions: &Regions,
    ranks: &[u32],
) -> Packed {
    let mut blocks: Vec<Block> = Vec::new();
    let mut places = Vec::new();
    for leaves in trees {
        let mut in_mind: Vec<usize> = Vec::with_capacity(IN_MIND);
        places.extend(leaves.iter().map(|list| place(list, &mut blocks, &mut in_mind) as u32));
    }
    let mut lines = vec![Line::default(); blocks.len() * shape.lines()];
    let each = words_mut(&mut lines).chunks_exact_mut(shape.lines() * LINE_WORDS);
    let mut of = Vec::with_capacity(BLOCK);
    for (block, words) in blocks.iter_mut().zip(each) {
        block.regions[..block.len].sort_unstable();
        of.clear();
        of.extend(block.regions().iter().map(|&at| (ranks[at as usize], regions.get(at as usize))));
        shape.write(&of, block.more, words);
    }
    Packed { places, blocks: lines }
}

fn place(list: &[u32], blocks: &mut Vec<Block>, in_mind: &mut Vec<usize>) -> usize {
    let first = blocks.len();
    if list.len() > BLOCK {
        for part in list.chunks(BLOCK) {
            let more = Some(blocks.len() + 1);
            blocks.push(Block { more, ..Block::new(part) });
        }
        if let Some(last) = blocks.last_mut() {
            last.more = None;
        }
        return first;
    }
    if let Some(&at) = in_mind.iter().rev().find(|&&at| blocks[at].with(list) <= BLOCK) {
        blocks[at].add(list);
        return at;
    }
    if in_mind.len() == IN_MIND {
        let fullest = (0..IN_MIND).max_by_key(|&at| (blocks[in_mind[at]].len, IN_MIND - at));
        in_mind.remove(fullest.unwrap_or(0));
    }
    in_mind.push(first);
    blocks.push(Block::new(list));
    first
}
