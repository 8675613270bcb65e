//! Lookups: chunks of keys taken through all trees in lock step.

use super::block::{self, Columns, NONE, Plain};
use super::{BitSelect, EMPTY, Entry, LEAF, Node, Tree};
use crate::alive::Alive;
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, words};

/// Keys in flight.
const CHUNK: usize = 64;
/// Trees whose roots are passed together.
const TOGETHER: usize = 4;
/// So few keys are gone through one by one.
const ALONE: usize = 3;
/// Keys that are listed at once.
const EIGHT: usize = 8;

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
        match Plain::of(shape, self.keys.stride()) {
            Some(plain) => self.each(isa, plain),
            None => self.each(isa, shape),
        }
    }
}

impl<A: Alive> Lookup<'_, A> {
    #[inline(always)]
    fn each<I: Isa>(self, isa: I, columns: impl Columns) {
        let Self { engine, alive, keys, best } = self;
        if best.len() <= ALONE {
            for (i, best) in best.iter_mut().enumerate() {
                improve(best, engine, alone(isa, engine, columns, alive, keys.row(i)));
            }
            return;
        }
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let from = index * CHUNK;
            let mut chunk = Chunk {
                engine,
                words: keys.slice(from, from + best.len()).words(),
                stride: keys.stride(),
                count: best.len().min(CHUNK),
                ranks: [NONE; CHUNK],
                leaves: List { keys: [0; CHUNK + EIGHT], count: 0 },
                nodes: List { keys: [0; CHUNK + EIGHT], count: 0 },
            };
            for trees in engine.trees.chunks(TOGETHER) {
                match trees {
                    [a] => chunk.search(isa, columns, alive, [a]),
                    [a, b] => chunk.search(isa, columns, alive, [a, b]),
                    [a, b, c] => chunk.search(isa, columns, alive, [a, b, c]),
                    [a, b, c, d, ..] => chunk.search(isa, columns, alive, [a, b, c, d]),
                    [] => {}
                }
            }
            for (best, &rank) in best.iter_mut().zip(&chunk.ranks) {
                improve(best, engine, rank);
            }
        }
    }
}

#[inline(always)]
fn improve(best: &mut Option<Match>, engine: &BitSelect, rank: u32) {
    if let Some(found) = engine.rule_of(rank)
        && Match::wins(found.priority, best)
    {
        *best = Some(found);
    }
}

/// The best rank for one key, whose trees are gone through in the order of what their roots promise.
#[inline(always)]
fn alone<I: Isa, A: Alive>(isa: I, engine: &BitSelect, columns: impl Columns, alive: A, key: &[u32]) -> u32 {
    let mut rank = NONE;
    for trees in engine.trees.chunks(TOGETHER) {
        let mut entries = [EMPTY; TOGETHER];
        for (tree, entry) in trees.iter().zip(&mut entries) {
            *entry = step(isa, columns, &tree.root, &engine.table, key);
        }
        let mut limit = engine.limit(rank);
        loop {
            let [a, b, c, d] = entries;
            let mut at = a.min(b).min(c.min(d));
            if at >= limit {
                break;
            }
            entries = entries.map(|entry| if entry == at { EMPTY } else { entry });
            while at & LEAF == 0 {
                at = engine
                    .nodes
                    .get(engine.index(at))
                    .map_or(EMPTY, |node| step(isa, columns, node, &engine.table, key));
            }
            if at < limit {
                let mut next = Some(engine.index(at));
                while let Some(block) = next.map(|at| columns.block(words(&engine.blocks), at))
                    && block::first_rank(block) < rank
                {
                    rank = rank.min(block::rank_of(block, columns.hits(isa, block, key), alive));
                    next = block::more(block);
                }
                limit = engine.limit(rank);
            }
        }
    }
    rank
}

/// Places in a chunk.
struct List {
    keys: [u8; CHUNK + EIGHT],
    count: usize,
}

impl List {
    /// Lists a key if it is to be, without a branch.
    #[inline(always)]
    fn add(&mut self, key: usize, listed: bool) {
        self.keys[self.count & (CHUNK - 1)] = key as u8;
        self.count += usize::from(listed);
    }

    /// Lists those of eight keys that `which` has bits for.
    #[inline(always)]
    fn add_eight(&mut self, from: usize, which: u32) {
        let places = PLACES[which as usize & 0xFF].wrapping_add(from as u64 * 0x0101_0101_0101_0101);
        if let Some(keys) = self.keys[self.count & (2 * CHUNK - 1)..].first_chunk_mut() {
            *keys = places.to_le_bytes();
        }
        self.count += which.count_ones() as usize;
    }

    #[inline(always)]
    fn get(&self, at: usize) -> usize {
        usize::from(self.keys[at & (CHUNK - 1)]) & (CHUNK - 1)
    }
}

/// The places of the bits of a byte, ascending, each a byte.
const PLACES: [u64; 256] = {
    let mut places = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                places[byte] |= bit << (8 * count);
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    places
};

/// Keys on their way through trees.
struct Chunk<'a> {
    engine: &'a BitSelect,
    words: &'a [u32],
    stride: usize,
    count: usize,
    /// The best rank found for each.
    ranks: [u32; CHUNK],
    leaves: List,
    nodes: List,
}

impl<'a> Chunk<'a> {
    /// Takes every key through the roots of all trees: first to the one that promises the best rank, then to those that
    /// may hold a better one than was found there.
    #[inline(always)]
    fn search<I: Isa, const TREES: usize>(
        &mut self,
        isa: I,
        columns: impl Columns,
        alive: impl Alive,
        trees: [&Tree; TREES],
    ) {
        let engine = self.engine;
        let (mut entries, mut first) = ([[EMPTY; CHUNK]; TREES], [EMPTY; CHUNK]);
        let roots = trees.map(|tree| (tree.root, &engine.table[tree.root.base as usize..]));
        for i in 0..self.count {
            let i = i & (CHUNK - 1);
            let key = self.key(columns, i);
            let mut least = EMPTY;
            for ((root, table), entries) in roots.iter().zip(&mut entries) {
                entries[i] = table.get(root.index(isa, columns, key)).copied().unwrap_or(EMPTY);
                least = least.min(entries[i]);
            }
            first[i] = least;
        }
        if engine.is_large {
            first[..self.count].iter().for_each(|&entry| self.prefetch(isa, entry));
        }
        let mut at = first;
        self.list(isa, &at, &[EMPTY; CHUNK]);
        self.follow(isa, columns, alive, &mut at);
        if TREES > 1 {
            for entries in &mut entries {
                self.list(isa, entries, &first);
                self.follow(isa, columns, alive, entries);
            }
        }
    }

    /// Lists the keys whose entries may lead to a better rank and are not those that have been followed.
    #[inline(always)]
    fn list<I: Isa>(&mut self, isa: I, entries: &[Entry; CHUNK], followed: &[Entry; CHUNK]) {
        (self.leaves.count, self.nodes.count) = (0, 0);
        let groups = entries.as_chunks::<EIGHT>().0.iter().zip(followed.as_chunks().0).zip(self.ranks.as_chunks().0);
        for (index, ((entries, followed), ranks)) in groups.enumerate().take(self.count.div_ceil(EIGHT)) {
            let limits: &[Entry; EIGHT] = &ranks.map(|rank| self.engine.limit(rank));
            let (goes_on, odd) = isa.below8(entries, limits, followed);
            self.leaves.add_eight(index * EIGHT, goes_on & odd);
            self.nodes.add_eight(index * EIGHT, goes_on & !odd);
        }
    }

    /// Takes the listed keys to their leaves, level by level, and tests these.
    #[inline(always)]
    fn follow<I: Isa>(&mut self, isa: I, columns: impl Columns, alive: impl Alive, at: &mut [Entry; CHUNK]) {
        let engine = self.engine;
        while self.nodes.count > 0 {
            let listed = std::mem::take(&mut self.nodes.count);
            for index in 0..listed {
                let i = self.nodes.get(index);
                let Some(node) = engine.nodes.get(engine.index(at[i])) else { continue };
                let entry = step(isa, columns, node, &engine.table, self.key(columns, i));
                at[i] = entry;
                self.prefetch(isa, entry);
                let (goes_on, is_leaf) = (entry < engine.limit(self.ranks[i]), entry & LEAF != 0);
                self.leaves.add(i, goes_on & is_leaf);
                self.nodes.add(i, goes_on & !is_leaf);
            }
        }
        self.test(isa, columns, alive, at);
    }

    /// Tests the first block of every listed leaf, then the next one of those that have more that may be better.
    #[inline(always)]
    fn test<I: Isa>(&mut self, isa: I, columns: impl Columns, alive: impl Alive, at: &mut [Entry; CHUNK]) {
        let engine = self.engine;
        let blocks = words(&engine.blocks);
        while self.leaves.count > 0 {
            let listed = std::mem::take(&mut self.leaves.count);
            for index in 0..listed {
                let i = self.leaves.get(index);
                let block = columns.block(blocks, engine.index(at[i]));
                let hits = columns.hits(isa, block, self.key(columns, i));
                let rank = block::rank_of(block, hits, alive);
                self.ranks[i] = self.ranks[i].min(rank);
                if let Some(more) = block::more(block) {
                    at[i] = (more as Entry) << 1 | LEAF;
                    let better = block::first_rank(columns.block(blocks, more)) < self.ranks[i];
                    self.leaves.add(i, rank == NONE && better);
                }
            }
        }
    }

    /// Asks for what an entry leads to, where that is not near anyway.
    #[inline(always)]
    fn prefetch<I: Isa>(&self, isa: I, entry: Entry) {
        let engine = self.engine;
        if !engine.is_large {
            return;
        }
        let index = engine.index(entry);
        if entry & LEAF == 0 {
            if let Some(node) = engine.nodes.get(index) {
                isa.prefetch(node);
            }
            return;
        }
        let lines = engine.shape.lines();
        for line in engine.blocks.iter().skip(index * lines).take(lines) {
            isa.prefetch(line);
        }
    }

    #[inline(always)]
    fn key(&self, columns: impl Columns, i: usize) -> &'a [u32] {
        columns.key(self.words, self.stride, i)
    }
}

impl Node {
    /// The bits that it selects of a key.
    #[inline(always)]
    fn index<I: Isa>(&self, isa: I, columns: impl Columns, key: &[u32]) -> usize {
        let [high, low] = self.lanes.map(|lane| u64::from(key[columns.lane(lane)]));
        isa.gather(high << 32 | low, self.mask) as usize
    }
}

#[inline(always)]
fn step<I: Isa>(isa: I, columns: impl Columns, node: &Node, table: &[Entry], key: &[u32]) -> Entry {
    table.get(node.base as usize + node.index(isa, columns, key)).copied().unwrap_or(EMPTY)
}
