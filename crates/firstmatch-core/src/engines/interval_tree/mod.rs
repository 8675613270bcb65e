//! `npf`: a search tree for each word, which turns with the traffic, and the rules that all words have in common.
//!
//! # Idea
//! The bounds of all rules cut each word of a key into *elementary intervals*. Each interval has the set of all rules
//! that hold it. A lookup finds the interval of each word and intersects the sets; the first rule that is left is the
//! answer.
//!
//! The intervals of a word are the nodes of a binary search tree. Hits are counted, and a node that is hit more than
//! its parent is turned above it. So values that come often are found near the root. For example, the intervals from 0,
//! 10, 20, 30 and 40 are a tree with root 20. After four hits of 40 its root is 40, and further hits follow no edge.
//!
//! Intervals and sets are shared and never change. Each worker has its own trees in its scratch.
//!
//! # When to take it
//! Use it to repeat the measurements of the thesis, and to study trees that turn with traffic. For speed, take
//! [`bit_select`](mod@crate::engines::bit_select).
//!
//! # Layout in memory
//! - *Intervals*: the first value of each interval of a word, sorted, and the set of each, 8 bytes per interval.
//! - *Sets* ([`SetForm`]): a sparse vector has a bit for each block of 64 products, and then the blocks that are not
//!   empty. Rules that leave a word open are in a separate vector, which is added to each block that is read. For
//!   example, product 3 of 100 is two words: bit 0 set, then bit 3 set. Equal sets are stored once, and an interval has
//!   the place of its set's first word.
//! - *Matches*: rule and priority by product, 16 bytes each, and value and mask of each word for products with masks.
//! - *Scratch*: 20 bytes per node, 8 for each interval of the longest tree, and room for an intersection of vectors.
//!
//! # Cost
//! In batches of 32 over twelve ClassBench seeds, a lookup takes a third of the time of `linear` with 1,000 rules, 38
//! to 98 ns, and a fourteenth with 10,000, 58 to 142 ns (definitions `intervals-1k` and `intervals-10k`).
//!
//! Batches are searched by halving, 32 keys side by side ([`Batches::Halve`]), because walks in trees differ from key
//! to key and overlap less. Fewer than four keys go one by one through the trees, and stop once no rule is left.
//!
//! A word takes at most [`Npf::worst_steps`] steps under any traffic: a walk of more edges than the cap halves the
//! sorted starts instead. Vectors take sets × products bits at most. The budget is checked before they are stored.
//!
//! # Defences
//! - *Cap*: [`Config::depth_cap`] bounds each walk.
//! - *Reconstruction*: a tree with capped walks, or with long walks on average, is rebuilt by its counters. For a tree
//!   of *n* nodes this happens at most once in *n* × [`Config::reconstruct`] lookups.
//! - *Halving*: counters are halved from time to time, so that a change of traffic shows soon.
//! - *Sampling*: one packet in [`Config::sample`] is counted.
//!
//! # Paper
//! N. Shaikot, dissertation (2012), chapter 4. [`Config::paper`] is its form, without defences.
//!
//! # Deviations
//! - An interval has the set of *all* rules that hold it. If later rules overwrote the set, matches would be lost.
//! - A node is turned if it leads its parent by at least the threshold. The thesis tests for equality, which a node
//!   that is already further ahead never meets.
//! - By default ([`Turns::Subtrees`]), a node is turned if the parts of the tree that rise were hit more than the parts
//!   that sink. A node between its parent and its grandparent is turned above both if that raises more hits. Such trees
//!   stay near the optimal ones even if larger values are hit more often.
//! - Lists are intersected by search, up to the first rule that all words so far have: rules of the shortest list are
//!   searched for in the others. The thesis does not say how it intersects.
//! - Built from the registry ([`ENGINES`](super::registry::ENGINES)), a field of several words is first looked up as one
//!   number, if lists would otherwise multiply word by word. For example, 2,000 IPv6 hosts are one set.
//! - An absent value is a value like any other, with its own interval if rules constrain the field.

mod build;
mod config;
mod lookup;
mod scratch;
mod sets;
mod shape;
mod stages;
mod structure;
#[cfg(test)]
mod tests;

pub use config::{Batches, Config, SetForm, Turns};
pub use scratch::Shapes;
pub use shape::{Shape, ShapeCounters};
pub use stages::{Decider, WordTree};
pub use structure::Npf;

use crate::engine::budget::Visits;
use crate::engine::entry::{Entry, Settings};
use crate::engine::options;
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::engines::shared::build_by_fields;
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::{Level, dispatch, dispatch_scalar};
use crate::rule::Lowered;
use crate::schema::Schema;
use lookup::{Lookup, Unwatched, Watch};

/// Steps of a lookup in trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Walk {
    /// First match.
    pub found: Option<Match>,
    /// Edges followed in each tree that was searched, in the order of the words.
    pub edges: Vec<u32>,
    /// Steps of halving of walks that met the cap.
    pub halvings: u32,
}

impl Watch for Walk {
    fn searched(&mut self, edges: u32, _nodes: u32, halvings: u32) {
        self.edges.push(edges);
        self.halvings += halvings;
    }
}

/// Sums of the steps of lookups.
#[derive(Default)]
struct Counter {
    trees: u64,
    edges: u64,
    nodes: u64,
    halvings: u64,
    parts: u64,
    lines: u64,
}

impl Watch for Counter {
    fn searched(&mut self, edges: u32, nodes: u32, halvings: u32) {
        self.trees += 1;
        self.edges += u64::from(edges);
        self.nodes += u64::from(nodes);
        self.halvings += u64::from(halvings);
    }

    fn read(&mut self, parts: usize, lines: usize) {
        self.parts += parts as u64;
        self.lines += lines as u64;
    }
}

impl Npf {
    /// Builds the engine from the regions of `set`.
    ///
    /// # Errors
    /// If it would exceed the budget, an option is out of bounds, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default())
    }

    /// Builds the engine as the [registry](crate::engines::registry) does: the defaults with the limits and the options
    /// of `settings`.
    ///
    /// # Errors
    /// As for [`Npf::build`], and if there is no such option, or an option does not take its value.
    pub fn build_by(rules: &Lowered, settings: &Settings) -> Result<Self, BuildError> {
        let mut config = Config { budget: settings.budget(), simd: settings.simd, ..Config::default() };
        options::configure(config::OPTIONS, &settings.options, &mut config)?;
        Self::build_within(rules, &config, &settings.visits())
    }

    /// Builds the engine within the visits of regions that `visits` allows.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits)
    }

    /// Finds the first match of a key in the trees of `scratch`, turns them, and returns the steps.
    ///
    /// ```
    /// use firstmatch_core::engines::interval_tree::{Config, Npf};
    /// use firstmatch_core::rule::Lowered;
    /// use firstmatch_core::{Engine, Schema};
    ///
    /// let engine = Npf::build(&Lowered::empty(&Schema::ipv4()), &Config::paper())?;
    /// let walk = engine.walk(&mut engine.new_scratch(), &[0; 5]);
    /// assert!(walk.found.is_none() && walk.edges.is_empty());
    /// # Ok::<(), firstmatch_core::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If the key has fewer words than the schema.
    pub fn walk(&self, scratch: &mut Shapes, key: &[u32]) -> Walk {
        if !self.fits(scratch) {
            *scratch = self.new_scratch();
        }
        let mut walk = Walk::default();
        if !self.matches.is_empty() {
            walk.found = lookup::alone(self, scratch, key, &mut walk).map(|found| self.matches[found]);
        }
        walk
    }
}

impl Engine for Npf {
    type Scratch = Shapes;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Shapes {
        Shapes::new(self)
    }

    fn fits(&self, scratch: &Shapes) -> bool {
        scratch.number == self.number
    }

    fn stats(&self) -> Stats {
        Stats {
            rules: self.rules,
            regions: self.regions,
            bytes: self.bytes(),
            tables: self.words.len(),
            worst_tests: self.matches.len(),
            worst_lines: self.worst_lines(),
            longest_bucket: self.longest(),
            overflow: 0,
            keeps_shadowed: true,
            counts: NamedCounts::from([
                ("nodes", self.words.iter().map(|word| word.starts.len() as u64).sum()),
                ("words read", self.read.len() as u64),
                ("scratch bytes", self.scratch_bytes() as u64),
            ]),
        }
    }

    fn improve(&self, scratch: &mut Shapes, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let batches = self.config.batches;
        dispatch(self.level, Lookup { engine: self, shapes: scratch, keys, best, batches, watch: &mut Unwatched });
    }

    /// Counts trees searched, edges, nodes, steps of halving, blocks or entries of sets looked at, and lines of memory.
    ///
    /// Each intersection counts as a test of every product.
    fn count(&self, scratch: &mut Shapes, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        if self.matches.is_empty() {
            return NamedCounts::default();
        }
        let (mut counter, count) = (Counter::default(), best.len() as u64);
        let batches = self.config.batches;
        dispatch_scalar(Lookup { engine: self, shapes: scratch, keys, best, batches, watch: &mut counter });
        let Counter { trees, edges, nodes, halvings, parts, lines } = counter;
        NamedCounts::from([
            ("trees", trees),
            ("edges", edges),
            ("nodes", nodes),
            ("halvings", halvings),
            ("parts", parts),
            ("tests", count * self.matches.len() as u64),
            ("lines", nodes + halvings + trees + lines + count),
        ])
    }

    fn structure(&self) -> Option<String> {
        Some(self.describe())
    }
}

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "npf",
    summary: "a search tree for each word that turns with the traffic, as the thesis",
    options: || options::options(config::OPTIONS),
    build: |rules, settings| build_by_fields(rules, settings, Npf::build_by),
    updatable: None,
};
