//! Lookups: chunks of keys taken through each tree in lock step.

use super::block::{self, Columns, NONE, Plain, Shape};
use super::{BitSelect, LEAF, Node, Tree};
use crate::alive::Alive;
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, LINE_WORDS, words};

/// Keys in flight.
const CHUNK: usize = 64;

pub(super) struct Lookup<'a, A> {
    pub(super) engine: &'a BitSelect,
    pub(super) alive: A,
    pub(super) keys: Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl<A: Alive> Kernel for Lookup<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let shape = &self.engine.shape;
        match Plain::of(shape) {
            Some(plain) => self.each(isa, plain),
            None => self.each(isa, shape),
        }
    }
}

impl<A: Alive> Lookup<'_, A> {
    #[inline(always)]
    fn each<I: Isa>(self, isa: I, columns: impl Columns) {
        let Self { engine, alive, keys, best } = self;
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let from = index * CHUNK;
            let mut chunk = Chunk {
                engine,
                words: keys.slice(from, from + best.len()).words(),
                stride: keys.stride(),
                count: best.len().min(CHUNK),
                handles: [0; CHUNK],
                ranks: [NONE; CHUNK],
                list: [0; CHUNK],
            };
            for tree in &engine.trees {
                chunk.walk(isa, tree);
                chunk.test(isa, columns, alive);
            }
            for (best, &rank) in best.iter_mut().zip(&chunk.ranks) {
                if let Some(&found) = engine.matches.get(rank as usize)
                    && Match::wins(found.priority, best)
                {
                    *best = Some(found);
                }
            }
        }
    }
}

/// Keys on their way through a tree.
struct Chunk<'a> {
    engine: &'a BitSelect,
    words: &'a [u32],
    stride: usize,
    count: usize,
    /// Where each key is.
    handles: [u32; CHUNK],
    /// The best rank found for each.
    ranks: [u32; CHUNK],
    /// The keys that go on.
    list: [u8; CHUNK],
}

impl<'a> Chunk<'a> {
    /// Takes every key to its leaf: all through the root, then level by level those that have not come to one.
    #[inline(always)]
    fn walk<I: Isa>(&mut self, isa: I, tree: &Tree) {
        let engine = self.engine;
        let Some(root) = engine.nodes.get(tree.root as usize) else {
            self.handles = [tree.root; CHUNK];
            return;
        };
        let mut left = 0;
        for i in 0..self.count {
            let i = i & (CHUNK - 1);
            let next = step(isa, root, &engine.table, self.key(i));
            self.handles[i] = next;
            self.prefetch(isa, next);
            self.list[left & (CHUNK - 1)] = i as u8;
            left += usize::from(next & LEAF == 0);
        }
        while left > 0 {
            let listed = left;
            left = 0;
            for at in 0..listed {
                let i = usize::from(self.list[at & (CHUNK - 1)]) & (CHUNK - 1);
                let Some(node) = engine.nodes.get(self.handles[i] as usize) else { continue };
                let next = step(isa, node, &engine.table, self.key(i));
                self.handles[i] = next;
                self.prefetch(isa, next);
                self.list[left & (CHUNK - 1)] = i as u8;
                left += usize::from(next & LEAF == 0);
            }
        }
    }

    /// Tests the first block of every leaf that may hold a better rank, then the next one of those that have more.
    #[inline(always)]
    fn test<I: Isa>(&mut self, isa: I, columns: impl Columns, alive: impl Alive) {
        let engine = self.engine;
        let words = words(&engine.blocks);
        let size = engine.shape.lines() * LINE_WORDS;
        let block_of = |handle: u32| &words[(handle & !LEAF) as usize * size..][..size];
        let mut left = 0;
        for i in 0..self.count {
            let i = i & (CHUNK - 1);
            self.list[left & (CHUNK - 1)] = i as u8;
            left += usize::from(block::first_rank(block_of(self.handles[i])) < self.ranks[i]);
        }
        while left > 0 {
            let listed = left;
            left = 0;
            for at in 0..listed {
                let i = usize::from(self.list[at & (CHUNK - 1)]) & (CHUNK - 1);
                let block = block_of(self.handles[i]);
                let hits = columns.hits(isa, block, self.key(i));
                let rank = block::rank_of(block, hits, alive);
                self.ranks[i] = self.ranks[i].min(rank);
                if let Some(more) = block::more(block) {
                    self.handles[i] = more as u32;
                    self.list[left & (CHUNK - 1)] = i as u8;
                    let better = block::first_rank(block_of(more as u32)) < self.ranks[i];
                    left += usize::from(rank == NONE && better);
                }
            }
        }
    }

    /// Asks for what a handle stands for, where that is not near anyway.
    #[inline(always)]
    fn prefetch<I: Isa>(&self, isa: I, handle: u32) {
        let engine = self.engine;
        if !engine.is_large {
            return;
        }
        if handle & LEAF == 0 {
            if let Some(node) = engine.nodes.get(handle as usize) {
                isa.prefetch(node);
            }
            return;
        }
        let lines = engine.shape.lines();
        for line in engine.blocks.iter().skip((handle & !LEAF) as usize * lines).take(lines) {
            isa.prefetch(line);
        }
    }

    #[inline(always)]
    fn key(&self, i: usize) -> &'a [u32] {
        &self.words[i * self.stride..][..self.stride]
    }
}

#[inline(always)]
fn step<I: Isa>(isa: I, node: &Node, table: &[u32], key: &[u32]) -> u32 {
    let word = |lane: u16| u64::from(key[usize::from(lane)]);
    let index = isa.gather(word(node.lanes[0]) << 32 | word(node.lanes[1]), node.mask);
    table.get(node.base as usize + index as usize).copied().unwrap_or(LEAF)
}

impl Columns for &Shape {
    #[inline(always)]
    fn hits<I: Isa>(self, isa: I, block: &[u32], key: &[u32]) -> u32 {
        Shape::hits(self, isa, block, key)
    }
}
