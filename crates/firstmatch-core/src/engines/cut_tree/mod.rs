//! `hicuts` and `hypercuts`: decision trees that cut the key space into equal cells.
//!
//! # Idea
//! An inner node cuts its box of the key space into 2<sup>k</sup> equal cells, and a key goes to the cell that holds
//! it. A leaf holds the few regions that touch its cell, in order of priority, which are tested eight at a time. HiCuts
//! cuts one key word per node, HyperCuts up to four at once.
//!
//! For example, with regions for ports 0 to 99 and for port 80 beside a wildcard, a first node cuts ports into 128
//! cells of 512 ports. The first cell has all three regions, each other cell the wildcard alone, and equal lists are
//! stored once.
//!
//! A region that spans several cells is copied into each. Memory is therefore the weakness, and the build counts bytes
//! while it cuts, under a cap ([`Config::region_bytes`]). The longest list is cut first, so that the bytes go to the
//! worst case first. A build fails only if a single list of all regions is too large.
//!
//! If one tree would copy regions often, they are separated by whether source and destination are wide, into up to
//! four trees. A lookup goes through the trees in order of their best ranks, while they can improve its match.
//!
//! # Choice of cuts
//! - *HyperCuts* takes the words with at least as many different intervals as the mean over all words, four at most. It
//!   adds a bit at a time, each to the word whose longest list of a cell is then shortest, while cells are at most
//!   `space_factor` · √n for n regions. After two additions without a gain it goes back to the last gain.
//! - *HiCuts* doubles the cells of each word while references and cells are at most `space_factor` · n. It takes the
//!   word whose longest list is shortest, or the one with the most different intervals ([`Dimension`]).
//! - If nothing helps although intervals differ, *zoom* cuts one word down to the part where they differ.
//!
//! Before it is cut, a box is compacted to the smallest aligned one around its regions. Cells with the same regions in
//! the same relative places share their subtree. Packets without a field take the path of its largest value; this is
//! safe, because lists test the true word.
//!
//! # Layout in memory
//! A node has 16 bytes for every schema; the children of a node lie together:
//!
//! ```text
//! 0..4    index of the first child
//! 4..8    first block of the node's own list, or none
//! 8..16   up to four cuts of 16 bits: word 8 │ shift 5 │ bits 3; none in a leaf
//! ```
//!
//! The cell of a key is the concatenation of `(key[word] >> shift) & (2^bits - 1)`. A block is that of
//! [`linear`](crate::engines::linear), eight regions column by column, with the rank of each behind. Bit 31 of its
//! first rank ends the list. A block of IPv4 5-tuples has six lines. Beside them are one [`Match`] per region and the
//! largest value of each word.
//!
//! [`Layout`] orders groups of children: as built, breadth first, depth first, in van Emde Boas order, or in blocks of
//! pages and cache lines. Where the gaps of pages do not fit the cap, nodes lie depth first.
//!
//! # Cost
//! A lookup visits one node per level of each tree, and the lists of these nodes. `stats` has the maximum numbers of
//! tests and lines. A list ends at the first block whose ranks cannot improve the answer. In trees of at least 2 MiB
//! sixteen keys walk side by side; a smaller tree is faster key by key, because the processor overlaps such lookups by
//! itself.
//!
//! A build makes at most [`Config::visits`] visits per region, and holds the lists of leaves, their boxes and the cells
//! of one node at a time: at most 2<sup>24</sup> references.
//!
//! # Paper
//! - P. Gupta and N. McKeown, *Packet Classification using Hierarchical Intelligent Cuttings* (Hot Interconnects 1999).
//! - S. Singh, F. Baboescu, G. Varghese and J. Wang, *Packet Classification Using Multidimensional Cutting* (SIGCOMM
//!   2003).
//! - The layouts and the access model ([`AccessModel`]): S. Shaikot, dissertation (Washington State University 2012),
//!   chapter 3.
//!
//! [`Config::paper`] has the dissertation's algorithms. It does not state the limit of a leaf and the space factor, so
//! these are 16 and 4.
//!
//! # Deviations
//! - Boxes are aligned, so a node needs no division. The dissertation's may have any bounds.
//! - The cap on memory and the bound on visits stay on in [`Config::paper`], because some rule sets would take all
//!   memory otherwise.
//! - Only the first 64 regions of a cell are tested for covering a later one.
//! - Separation, zoom, growth limits, the order of cuts by length, and shared subtrees are ours; `Config::paper` turns
//!   the first three off.

mod access;
mod boxes;
mod build;
mod choose;
mod config;
mod describe;
mod lookup;
mod overlaps;
mod structure;
#[cfg(test)]
mod tests;

pub use access::AccessModel;
pub use config::{Config, Dimension, Layout, Method, Walk};
pub use structure::CutTree;

use crate::engine::entry::{Entry, Settings};
use crate::engine::options;
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::Lowered;
use crate::schema::Schema;
use config::OPTIONS;

impl Engine for CutTree {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        let facts = self.facts;
        Stats {
            rules: facts.rules,
            regions: self.matches.len(),
            bytes: self.bytes(),
            tables: self.roots.len(),
            worst_tests: facts.worst_tests,
            worst_lines: facts.worst_lines,
            longest_bucket: facts.longest,
            overflow: 0,
            keeps_shadowed: facts.keeps_shadowed,
            counts: NamedCounts::from([
                ("nodes", facts.nodes as u64),
                ("height", facts.height as u64),
                ("lists", facts.lists as u64),
                ("references", facts.references as u64),
                ("cuts without room", facts.refused as u64),
            ]),
        }
    }

    fn improve(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        lookup::improve(self, keys, best);
    }

    /// Counts nodes, blocks, tests, and lines and pages of nodes, for keys that are looked up one by one.
    fn count(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        access::count(self, keys, best)
    }

    /// Returns a line for each tree; for example, `[sport/2: {r1} [dport/2: {r2} {r1 r3}]]`.
    fn structure(&self) -> Option<String> {
        Some(describe::describe(self))
    }
}

fn built(method: Method, rules: &Lowered, settings: &Settings) -> Result<CutTree, BuildError> {
    let mut config = Config { method, ..Config::default() };
    options::configure(OPTIONS, &settings.options, &mut config)?;
    let (budget, simd) = (settings.budget(), settings.simd);
    CutTree::build_within(rules, &Config { budget, simd, ..config }, &settings.visits())
}

/// Entries of the registry.
pub(crate) const HICUTS: Entry = Entry {
    name: "hicuts",
    summary: "decision trees that cut one key word a node: the classic, within a cap on memory",
    options: || options::options(OPTIONS),
    build: |rules, settings| Ok(Box::new(built(Method::HiCuts, rules, settings)?)),
    updatable: None,
};
pub(crate) const HYPERCUTS: Entry = Entry {
    name: "hypercuts",
    summary: "decision trees that cut up to four key words a node, within a cap on memory",
    build: |rules, settings| Ok(Box::new(built(Method::HyperCuts, rules, settings)?)),
    ..HICUTS
};
