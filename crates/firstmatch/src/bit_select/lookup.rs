//! Lookups: chunks of keys taken through each tree in lock step.

use super::block::{self, NONE};
use super::{BitSelect, LEAF, Node, Tree};
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, LINE_WORDS, words};

/// Keys in flight.
const CHUNK: usize = 64;

pub(super) struct Lookup<'a> {
    pub(super) engine: &'a BitSelect,
    pub(super) keys: Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, keys, best } = self;
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let from = index * CHUNK;
            let keys = keys.slice(from, from + best.len());
            let mut ranks = [NONE; CHUNK];
            for tree in &engine.trees {
                walk(isa, engine, tree, keys, &mut ranks);
            }
            for (best, &rank) in best.iter_mut().zip(&ranks) {
                if let Some(&found) = engine.matches.get(rank as usize)
                    && Match::wins(found.priority, best)
                {
                    *best = Some(found);
                }
            }
        }
    }
}

/// Takes up to [`CHUNK`] keys through a tree: first all to their leaves, one level at a time, then those whose leaf may
/// hold a better rank through its first block, then those through the next that have one.
#[inline(always)]
fn walk<I: Isa>(isa: I, engine: &BitSelect, tree: &Tree, keys: Keys<'_>, ranks: &mut [u32; CHUNK]) {
    let count = keys.len().min(CHUNK);
    let (words_of_keys, stride) = (keys.words(), keys.stride());
    let mut handles = [tree.root; CHUNK];
    for _ in 0..tree.levels {
        for (handle, key) in handles.iter_mut().zip(words_of_keys.chunks_exact(stride)) {
            *handle = step(isa, &engine.nodes, &engine.table, *handle, key);
        }
    }
    let words = words(&engine.blocks);
    let size = engine.shape.lines() * LINE_WORDS;
    let block_of = |handle: u32| &words[(handle & !LEAF) as usize * size..][..size];
    let (mut list, mut listed) = ([0u8; CHUNK], 0);
    for i in 0..count {
        list[listed & (CHUNK - 1)] = i as u8;
        listed += usize::from(block::first_rank(block_of(handles[i])) < ranks[i]);
    }
    while listed > 0 {
        let mut left = 0;
        for at in 0..listed {
            let i = usize::from(list[at & (CHUNK - 1)]) & (CHUNK - 1);
            let block = block_of(handles[i]);
            let hits = engine.shape.hits(isa, block, &words_of_keys[i * stride..][..stride]);
            let rank = block::rank_of(block, hits);
            ranks[i] = ranks[i].min(rank);
            if let Some(more) = block::more(block) {
                handles[i] = more as u32;
                list[left & (CHUNK - 1)] = i as u8;
                left += usize::from(rank == NONE && block::first_rank(block_of(more as u32)) < ranks[i]);
            }
        }
        listed = left;
    }
}

#[inline(always)]
fn step<I: Isa>(isa: I, nodes: &[Node], table: &[u32], handle: u32, key: &[u32]) -> u32 {
    let is_leaf = handle & LEAF != 0;
    let Some(node) = nodes.get(if is_leaf { 0 } else { handle as usize }) else { return handle };
    let word = |lane: u16| u64::from(key[usize::from(lane)]);
    let index = isa.gather(word(node.lanes[0]) << 32 | word(node.lanes[1]), node.mask);
    let next = table.get(node.base as usize + index as usize).copied().unwrap_or(LEAF);
    if is_leaf { handle } else { next }
}
