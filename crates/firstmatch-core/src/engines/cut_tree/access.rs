//! Accesses to memory: lines and pages that walks touch, and the model of the dissertation.

use super::config::NODE_BYTES;
use super::lookup::{Lookup, Touches};
use super::structure::{CutTree, LAST};
use crate::engine::{Match, NamedCounts};
use crate::key::Keys;
use crate::raw::dispatch_scalar;

/// Sizes and times of the access model of section 3.3.4.
///
/// Depths count levels of the tree; times may have any unit, the same for both.
#[derive(Clone, Copy, Debug)]
pub struct AccessModel {
    /// Depth of the tree.
    pub tree_depth: u32,
    /// Depth of the part of the tree in a page.
    pub page_depth: u32,
    /// Depth of the part of the tree in a cache line.
    pub line_depth: u32,
    /// Time of a page that is not in the TLB.
    pub page_time: f64,
    /// Time of a cache line that is in no cache.
    pub line_time: f64,
}

impl AccessModel {
    /// Returns the time of a lookup with nothing in any cache.
    ///
    /// For example, a tree of depth 4 in pages of depth 2 and lines of depth 1 takes two pages of two lines each: with
    /// times of 100 and 10 that is 240.
    pub fn cold(&self) -> f64 {
        self.pages() * (self.page_time + self.lines() * self.line_time)
    }

    /// Returns the time of a lookup where the first `cached_depth` levels are in the last cache.
    ///
    /// In the example before, with two levels there, it is 120.
    pub fn warm(&self, cached_depth: u32) -> f64 {
        let missing = 1.0 - f64::from(cached_depth) / f64::from(self.tree_depth);
        missing * self.pages() * self.lines() * self.line_time + self.page_time * (self.pages() - 1.0)
    }

    fn pages(&self) -> f64 {
        f64::from(self.tree_depth.div_ceil(self.page_depth))
    }

    fn lines(&self) -> f64 {
        f64::from(self.page_depth.div_ceil(self.line_depth))
    }
}

/// Number of nodes in a line.
const LINE_NODES: u32 = 4;

/// Counter of the nodes and blocks that walks read, and of the lines and pages that each walk reads of nodes.
#[derive(Default)]
struct Counter {
    page_nodes: u32,
    nodes: u64,
    blocks: u64,
    tests: u64,
    node_lines: u64,
    node_pages: u64,
    /// Lines and pages of the current walk.
    lines: Vec<u32>,
    pages: Vec<u32>,
}

impl Counter {
    /// Adds up the lines and pages of a walk.
    fn end(&mut self) {
        for (seen, sum) in [(&mut self.lines, &mut self.node_lines), (&mut self.pages, &mut self.node_pages)] {
            seen.sort_unstable();
            seen.dedup();
            *sum += seen.len() as u64;
            seen.clear();
        }
    }
}

impl Touches for &mut Counter {
    fn node(&mut self, index: u32) {
        self.nodes += 1;
        self.lines.push(index / LINE_NODES);
        self.pages.push(index / self.page_nodes);
    }

    fn block(&mut self, ranks: &[u32]) {
        self.blocks += 1;
        // The last region of a list fills its block.
        let own = ranks.windows(2).filter(|pair| pair[0] & !LAST != pair[1] & !LAST).count();
        self.tests += 1 + own as u64;
    }
}

/// Places of the nodes that a walk reads.
impl Touches for &mut Vec<usize> {
    fn node(&mut self, index: u32) {
        self.push(index as usize * NODE_BYTES);
    }
}

impl CutTree {
    /// Returns the offset of each node that the lookup of a key reads, in order.
    ///
    /// Offsets count bytes from the first node on, 16 per node. A cache simulator can use them. If there are several
    /// keys, only the first is looked up.
    ///
    /// # Panics
    /// If there is no key.
    ///
    /// ```
    /// use firstmatch_core::engines::cut_tree::{Config, CutTree};
    /// use firstmatch_core::rule::{ExpansionLimits, RuleSet, lower};
    /// use firstmatch_core::{KeyBuf, Schema};
    ///
    /// let schema = Schema::ipv4();
    /// let rules = lower(&RuleSet::new(schema.clone()), &schema, &ExpansionLimits::default())?;
    /// let tree = CutTree::build(&rules, &Config::default())?;
    /// let mut keys = KeyBuf::new(&schema);
    /// keys.push();
    /// assert_eq!(tree.walk(&keys.keys()), [0; 0], "without a rule nothing is read");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn walk(&self, keys: &Keys<'_>) -> Vec<usize> {
        let (mut places, key) = (Vec::new(), keys.slice(0, 1));
        let lookup = Lookup { engine: self, keys: &key, best: &mut [None], is_alone: true, touches: &mut places };
        dispatch_scalar(lookup);
        places
    }
}

/// Looks keys up one by one, and counts the steps.
///
/// `node lines` and `node pages` count each line and page of nodes once per walk. `lines` counts the lines of nodes, of
/// whole blocks and of the match.
pub(super) fn count(engine: &CutTree, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
    let mut counter = Counter { page_nodes: engine.page_nodes as u32, ..Counter::default() };
    let mut found = 0;
    for (at, best) in best.iter_mut().enumerate() {
        let (key, before) = (keys.slice(at, at + 1), *best);
        let best = std::slice::from_mut(best);
        dispatch_scalar(Lookup { engine, keys: &key, best, is_alone: true, touches: &mut counter });
        found += u64::from(best[0] != before);
        counter.end();
    }
    let Counter { nodes, blocks, tests, node_lines, node_pages, .. } = counter;
    NamedCounts::from([
        ("nodes", nodes),
        ("blocks", blocks),
        ("tests", tests),
        ("node lines", node_lines),
        ("node pages", node_pages),
        ("lines", node_lines + blocks * engine.block_lines as u64 + found),
    ])
}
