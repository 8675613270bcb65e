//! `bit_select`: trees of few, wide levels whose nodes select bits, with leaves of eight regions tested at once.
//!
//! # Idea
//! # Layout in memory
//! # Cost
//! # Paper
//! # Deviations

mod bits;
mod block;
mod build;
mod lookup;

use block::Shape;

use crate::budget::Budget;
use crate::engine::{Engine, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::Lowered;
use crate::schema::Schema;
use crate::simd::{Level, Line, dispatch};

/// How to build [`BitSelect`].
#[derive(Clone, Debug)]
pub struct Config {
    /// What it may take.
    pub budget: Budget,
    /// The instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// The most trees that rules are shared out to.
    pub trees: usize,
    /// The most levels of a tree above its leaves.
    pub levels: usize,
    /// Entries of a node's table a region below it, at most.
    pub fan_out: usize,
    /// How many times a region may stand in a tree's first table, as a power of two, before it goes to the next tree.
    pub copies: u32,
    /// How many entries a node's lists may hold in all, as a multiple of the regions above it.
    pub growth: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, trees: 4, levels: 3, fan_out: 4, copies: 2, growth: 4.0 }
    }
}

/// A classifier of trees that select bits.
#[derive(Debug)]
pub struct BitSelect {
    schema: Schema,
    level: Level,
    shape: Shape,
    trees: Box<[Tree]>,
    nodes: Box<[Node]>,
    table: Box<[u32]>,
    blocks: Box<[Line]>,
    /// By rank.
    matches: Box<[Match]>,
    regions: usize,
    /// Whether it is larger than a cache that answers at once.
    is_large: bool,
}

/// One tree.
#[derive(Clone, Copy, Debug)]
struct Tree {
    root: u32,
    /// Steps from the root after which every walk has come to a leaf.
    levels: usize,
    /// The most blocks of one leaf.
    longest: usize,
}

/// Selects bits of two lanes as the index into its part of the table, whose entries are nodes or leaves.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Over the first lane's word in the upper half and the second's in the lower.
    mask: u64,
    lanes: [u16; 2],
    base: u32,
}

/// Set in the handle of a leaf; the rest is its first block. Without it a handle is a node.
const LEAF: u32 = 1 << 31;

impl BitSelect {
    /// Builds it.
    ///
    /// # Errors
    /// When it would exceed the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level)
    }

    fn bytes(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("nodes", size_of_val(&self.nodes[..])),
            ("tables", size_of_val(&self.table[..])),
            ("blocks", size_of_val(&self.blocks[..])),
            ("matches", size_of_val(&self.matches[..])),
            ("shape", self.shape.bytes() + size_of_val(&self.trees[..])),
        ]
    }
}

impl Engine for BitSelect {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        let tests: usize = self.trees.iter().map(|tree| tree.longest).sum();
        let steps: usize = self.trees.iter().map(|tree| tree.levels).sum();
        Stats {
            rules: self.matches.len(),
            regions: self.regions,
            bytes: self.bytes(),
            tables: self.trees.len(),
            worst_tests: tests * block::BLOCK,
            worst_lines: tests * self.shape.lines() + 2 * steps + 1,
            longest_bucket: self.trees.iter().map(|tree| tree.longest * block::BLOCK).max().unwrap_or(0),
            keeps_shadowed: true,
        }
    }

    fn improve(&self, _scratch: &mut (), keys: Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, lookup::Lookup { engine: self, keys, best });
    }
}

impl BitSelect {
    /// Experiment only.
    #[doc(hidden)]
    pub fn describe(&self, keys: Keys<'_>) -> String {
        let words = crate::simd::words(&self.blocks);
        let size = self.shape.lines() * 16;
        let mut out = format!("nodes {} table {} blocks {} |", self.nodes.len(), self.table.len(), self.blocks.len() / self.shape.lines());
        let mut best = vec![block::NONE; keys.len()];
        for tree in &self.trees {
            let (mut blocks, mut steps) = (0usize, 0usize);
            for i in 0..keys.len() {
                let key = keys.row(i);
                let mut h = tree.root;
                while h & LEAF == 0 {
                    steps += 1;
                    let n = &self.nodes[h as usize];
                    let mut ix = 0u64; let mut p = 0;
                    let w = u64::from(key[usize::from(n.lanes[0])]) << 32 | u64::from(key[usize::from(n.lanes[1])]);
                    for b in 0..64 { if n.mask >> b & 1 == 1 { ix |= (w >> b & 1) << p; p += 1; } }
                    h = self.table[n.base as usize + ix as usize];
                }
                let mut b = Some((h & !LEAF) as usize);
                while let Some(x) = b {
                    let block = &words[x * size..][..size];
                    if block[0] >= best[i] { break; }
                    blocks += 1;
                    for r in 0..8 {
                        let m = block[r];
                        if m == block::NONE { break; }
                        let _ = m;
                    }
                    struct T<'a>(&'a block::Shape, &'a [u32], &'a [u32], u32);
                    impl crate::simd::Kernel for &mut T<'_> { fn run<I: crate::simd::Isa>(self, isa: I) { self.3 = self.0.hits(isa, self.1, self.2); } }
                    let mut t = T(&self.shape, block, key, 0);
                    dispatch(Level::Scalar, &mut t);
                    let r = block::rank_of(block, t.3);
                    if r != block::NONE { best[i] = best[i].min(r); break; }
                    b = block::more(block);
                }
            }
            out += &format!(" [lv {} steps {:.2} blocks {:.2} longest {}]", tree.levels, steps as f64 / keys.len() as f64, blocks as f64 / keys.len() as f64, tree.longest);
        }
        out
    }
}
