//! `bit_vector`: an engine that intersects one vector of rules for each word of a key.
//!
//! # Idea
//! Regions of a rule that differ in one word only are united to a *product*: one set of values for each word. For
//! example, `dport { 22, 80 } proto { 6, 17 }` is four regions and one product. Most rules are one product.
//!
//! The bounds of all products cut each word of the key into elementary intervals. An interval has a vector with one bit
//! per product, in order of rank, which is set if the product holds the interval. Intervals with equal vectors are one
//! class. A lookup finds the class of each word. The first match is the first bit that is set in the vectors of all
//! these classes.
//!
//! For example, rule 0 is source 10.0.0.0/8 and port 80, and rule 1 is source 10.1.0.0/16. A packet from 10.1.2.3 to
//! port 443 has the source vector {0, 1} and the port vector {1}. Their first common bit is 1, so rule 1 matches.
//!
//! Overlaps and open fields do not slow a lookup down, because every lookup reads equally many vectors.
//!
//! Words of few classes are joined: a table gives the class of each pair or triple of classes. One vector is then read
//! in place of two or three. A word that no product constrains is left out.
//!
//! # Layout in memory
//! - *Search trees*: the leading bits of a word, at most twelve, choose a node. A node is a cache line of eight bounds
//!   and nine children: the next nodes or, on the last level, values. All paths are equally long, and equal nodes are
//!   stored once. The number of leading bits is the one that makes the tree shallowest.
//! - *Tables*: a word of less than 2<sup>10</sup> values has an entry for each value instead. A longer ternary word has
//!   a table for each eight of the bits that masks test, because a mask constrains each bit by itself. Masks do not
//!   test bits that the interval of a region fixes.
//! - *Pages*: a word of less than 2<sup>17</sup> values has pages of such entries, and equal pages are stored once.
//! - *Joins*: a value for each pair or triple of classes. A value, of 16 bits, is the position of a vector or a part of
//!   a position in a join.
//! - *Vectors*: one cache line each for up to 512 products, otherwise groups of 1,024 bits, two cache lines each.
//! - *Matches*: rule and priority by product, 16 bytes each, and 4 bytes per rule that locate its products.
//!
//! # Cost
//! 64 keys go through a word together, eight side by side, so that their searches overlap. A level of nodes takes five
//! instructions; words of ClassBench sets with a thousand rules have one to three levels. Pages and joins are a load or
//! two. Then every key reads the vectors, two lines each for every 1,024 products. The next 1,024 are left out once all
//! keys of a chunk have a match. The only branch that depends on a single key is whether it has a match.
//!
//! A remainder of four to seven keys is padded to eight; fewer keys are looked up one by one. For example, 77 keys are
//! looked up as 64, 8 and 5 padded to 8, but 75 keys as 64, 8 and three single keys.
//!
//! Vectors take classes × products bits. They grow with the square of the rules if most rules differ in some word, so
//! that this is an engine for one or two thousand such rules. A build stops where they outgrow [`Config::vectors`].
//! Rules that repeat each other have few classes: 10,000 identical ones take 1,280 bytes per class. The number of
//! regions matters little, because the regions of a rule are mostly one product.
//!
//! # Paper
//! T. V. Lakshman and D. Stiliadis, *High-Speed Policy-based Packet Forwarding Using Efficient Multi-dimensional Range
//! Matching* (SIGCOMM 1998): bit vectors by elementary interval. Words are joined as in P. Gupta and N. McKeown's RFC
//! (SIGCOMM 1999), but only the words with the fewest classes.
//!
//! # Deviations
//! - The words are searched with vector instructions over many keys at once, not by hardware in parallel.
//! - A key's groups are read whole. A summary of non-zero words, or leaving at the first hit, would need an
//!   unpredictable branch. Its misprediction takes longer than the rest of a group.
//! - Built from the registry ([`ENGINES`](super::registry::ENGINES)), a field of several words is first looked up as one
//!   number, if lists would otherwise multiply word by word. For example, 2,000 IPv6 hosts are one set. The base of rules
//!   that change is not built so.

mod build;
mod lookup;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::engine::base::{Base, BaseEngine, Build};
use crate::engine::budget::{Budget, Visits};
use crate::engine::entry::{Entry, Settings};
use crate::engine::observer::Step;
use crate::engine::options::{self, Knob, Set};
use crate::engine::steps::StepCounter;
use crate::engine::tombstones::{All, Tombstones};
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::engines::shared::{Products, build_by_fields};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::{LINE_WORDS, Level, Line, Pages, Table, Tree, dispatch, dispatch_scalar};
use crate::rule::{Lowered, RuleId};
use crate::schema::Schema;

/// Configuration of [`BitVector`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Limit on the memory of the built engine.
    pub budget: Budget,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Maximum bytes of vectors.
    ///
    /// Engines with trees are faster once the vectors outgrow a second-level cache.
    pub vectors: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, vectors: 1 << 20 }
    }
}

/// Classifier that intersects bit vectors.
///
/// ```
/// use firstmatch_core::engines::bit_vector::{Config, BitVector};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine = BitVector::build(&rules, &Config::default())?;
/// let mut keys = KeyBuf::new(engine.schema());
/// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, 443, 6]);
/// assert_eq!(engine.classify(&mut engine.scratch(), keys.keys()).map(|found| found.rule.slot()), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BitVector {
    schema: Schema,
    level: Level,
    /// Searches that find the classes of a key's words.
    dimensions: Box<[Dimension]>,
    /// Joins in the order in which they are looked up; their slots follow the dimensions'.
    joins: Box<[Join]>,
    /// Slots whose values are positions of vectors to be read.
    read: Box<[usize]>,
    vectors: Box<[Line]>,
    rows: Rows,
    /// Number of groups of a vector.
    groups: usize,
    /// Rule and priority of each product, by rank.
    matches: Box<[Match]>,
    /// Number of products before the first of each rule, then the number of all products.
    firsts: Box<[u32]>,
    /// Number of regions of the rules.
    regions: usize,
}

/// Search for the class of a key in one word.
///
/// Its value is the position of a vector, or a part of a position in a join.
#[derive(Debug)]
enum Dimension {
    /// Tree over the intervals of the word.
    Search { word: usize, tree: Tree },
    /// Table over the values of the word, or of some of its bits.
    Direct { word: usize, values: Table },
    /// Pages over the values of the word.
    Paged { word: usize, pages: Pages },
}

/// Table from the classes of two or three slots to one class.
#[derive(Debug)]
struct Join {
    /// Slots whose values add up to a position in `values`.
    slots: [usize; 2],
    third: Option<usize>,
    values: Table,
}

/// Length of the rows that lookups read (each is one group of a vector), and unit of the positions of vectors.
///
/// A position in units of 8 bytes becomes an address in one step. It has 16 bits, so such vectors have one group and
/// take at most 512 KiB. For example, the third vector of near rows begins at byte 256 and has position 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// Vectors of at most 512 bits, one line each; positions count 8 bytes.
    Short,
    /// Vectors of one group; positions count 8 bytes.
    Near,
    /// Any number of groups; positions count groups.
    Far,
}

/// Number of bits of a group, then 32-bit words of a group and of a short row.
const GROUP: usize = 1024;
const GROUP_WORDS: usize = GROUP / 32;
const SHORT_WORDS: usize = LINE_WORDS;
/// Number of bytes of a position's unit, for far vectors and for the others.
const FAR: usize = GROUP / 8;
const NEAR: usize = 8;
/// Maximum bytes of vectors, because their positions have 16 bits.
const MOST_BYTES: usize = FAR << 16;

impl Rows {
    /// Number of 32-bit words of a row.
    #[inline(always)]
    const fn words(self) -> usize {
        match self {
            Self::Short => SHORT_WORDS,
            Self::Near | Self::Far => GROUP_WORDS,
        }
    }

    /// Number of 32-bit words of a position's unit.
    #[inline(always)]
    const fn unit(self) -> usize {
        match self {
            Self::Short | Self::Near => NEAR / size_of::<u32>(),
            Self::Far => FAR / size_of::<u32>(),
        }
    }
}

impl BitVector {
    /// Builds the engine from the regions of `set`.
    ///
    /// # Errors
    /// If it would exceed the budget or [`Config::vectors`], or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default())
    }

    /// Builds the engine with the limits and the options of `settings`.
    fn build_by(rules: &Lowered, settings: &Settings) -> Result<Self, BuildError> {
        let mut config = Config { budget: settings.budget(), simd: settings.simd, ..Config::default() };
        options::configure(OPTIONS, &settings.options, &mut config)?;
        Self::build_within(rules, &config, &settings.visits())
    }

    /// Builds the engine within the visits of regions that `visits` allows.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits)
    }

    /// Number of cache lines that a key's searches and joins read.
    fn search_lines(&self) -> usize {
        let lines = |dimension: &Dimension| match dimension {
            Dimension::Search { tree, .. } => tree.depth() + 1,
            Dimension::Direct { .. } => 1,
            Dimension::Paged { .. } => 2,
        };
        self.dimensions.iter().map(lines).sum::<usize>() + self.joins.len()
    }

    /// Number of cache lines of a vector.
    fn vector_lines(&self) -> usize {
        self.groups * self.rows.words() / LINE_WORDS
    }

    /// Returns the bytes on the heap by part.
    fn bytes(&self) -> Vec<(&'static str, usize)> {
        let of = |dimension: &Dimension| match dimension {
            Dimension::Search { tree, .. } => tree.bytes(),
            Dimension::Direct { values, .. } => values.bytes(),
            Dimension::Paged { pages, .. } => pages.bytes(),
        };
        let joins: usize = self.joins.iter().map(|join| join.values.bytes()).sum();
        vec![
            ("searches", size_of_val(&self.dimensions[..]) + self.dimensions.iter().map(of).sum::<usize>()),
            ("joins", size_of_val(&self.joins[..]) + joins),
            ("vectors", size_of_val(&self.vectors[..]) + size_of_val(&self.read[..])),
            ("matches", size_of_val(&self.matches[..]) + size_of_val(&self.firsts[..])),
        ]
    }
}

impl Engine for BitVector {
    type Scratch = lookup::Slots;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> lookup::Slots {
        lookup::Slots::new(self.dimensions.len() + self.joins.len())
    }

    fn stats(&self) -> Stats {
        Stats {
            rules: self.firsts.len() - 1,
            regions: self.regions,
            bytes: self.bytes(),
            tables: 1,
            worst_tests: self.matches.len(),
            worst_lines: self.search_lines() + self.read.len() * self.vector_lines() + 1,
            longest_bucket: 0,
            overflow: 0,
            keeps_shadowed: true,
            counts: NamedCounts::from([("vectors", (self.vectors.len() / self.vector_lines().max(1)) as u64)]),
        }
    }

    fn improve(&self, scratch: &mut lookup::Slots, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, &mut lookup::Lookup { engine: self, slots: scratch, live_rules: All, keys, best });
    }

    /// Counts searches and joins of classes, groups of bits read of vectors, products tested, and cache lines.
    fn count(&self, scratch: &mut lookup::Slots, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let (counter, count) = (StepCounter::default(), best.len() as u64);
        dispatch_scalar(&mut lookup::Lookup { engine: self, slots: scratch, live_rules: &counter, keys, best });
        let groups = counter.of(Step::Group);
        let read = groups * self.read.len() as u64;
        let lines = count * self.search_lines() as u64 + read * (self.rows.words() / LINE_WORDS) as u64;
        NamedCounts::from([
            ("searches", count * self.dimensions.len() as u64),
            ("joins", count * self.joins.len() as u64),
            ("vector groups", read),
            ("tests", groups * self.matches.len().min(GROUP) as u64),
            ("lines", lines),
        ])
    }
}

/// Returns the maximum bytes of the vectors of a base.
///
/// If the engine is forced, the only limit is that positions have 16 bits. Otherwise the default applies, because
/// beyond it trees are faster and smaller.
fn vectors(is_forced: bool) -> usize {
    if is_forced { MOST_BYTES } else { Config::default().vectors }
}

/// The places of a rule are the indices of its products.
impl Base for BitVector {
    /// Returns the number of 32-bit words of vectors that a lookup reads; each counts as one visit.
    fn visits(&self) -> usize {
        self.read.len() * self.vector_lines() * LINE_WORDS
    }

    fn places(&self) -> usize {
        self.matches.len()
    }

    fn places_of(&self, _rule: RuleId, rank: usize, _regions: Range<usize>) -> Range<usize> {
        self.firsts[rank] as usize..self.firsts[rank + 1] as usize
    }
}

impl BaseEngine for BitVector {
    const NAME: &'static str = "bit_vector";
    const TAKES_PRODUCTS: bool = true;

    fn build_base(set: &Lowered, how: &Build<'_>) -> Result<Self, BuildError> {
        let config =
            Config { budget: Budget { run_bytes: how.run_bytes }, simd: how.simd, vectors: vectors(how.is_forced) };
        Self::build_within(set, &config, how.visits)
    }

    /// Returns a bound from the numbers of regions and words, and from the bytes that vectors may take.
    ///
    /// Each word takes its intervals, their classes, and vectors. These take twice or four times as much while they
    /// grow, and the joins. The vectors of a word stop growing at 1 MiB, or at 8 MiB if the engine is forced.
    ///
    /// For example, a rule of one region over IPv4 5-tuples counts as 8,696 bytes in a set of 1,000 rules, and as 3,004
    /// in a set of 10,000.
    fn build_bytes(set: &Lowered, is_forced: bool) -> usize {
        let (products, intervals) = set.word_products();
        // More products than these are refused as soon as they are counted.
        let (products, intervals) = (products.min(1 << 24), intervals.min(1 << 30));
        let ternary = set.ternary_words().len();
        let key_words = set.schema().words().len() + ternary;
        let intervals = 2 * intervals + 1;
        let dimensions = set.schema().words().len() + 4 * ternary;
        let vectors = (key_words * intervals * 6 * (products.next_multiple_of(GROUP) / 8))
            .min((3 * dimensions + 4) * vectors(is_forced));
        Products::build_bytes(set).saturating_add(key_words * intervals * 64 + vectors + (512 << 10))
    }

    /// Returns ten times the visits of large sets that it serves well, plus the most that 2,048 regions take.
    ///
    /// Rules can be made to need many more: repeated lists of addresses cut a word into many intervals of few classes.
    fn build_visits(set: &Lowered) -> usize {
        set.region_count().saturating_mul(512).saturating_add(1 << 24)
    }

    fn largest_scratch(schema: &Schema) -> lookup::Slots {
        // A word has at most five dimensions: its own and four bytes under masks. There are fewer joins than
        // dimensions.
        lookup::Slots::new(10 * schema.words().len())
    }

    fn improve_live(
        &self,
        scratch: &mut lookup::Slots,
        keys: &Keys<'_>,
        tombstones: &Tombstones,
        best: &mut [Option<Match>],
    ) {
        dispatch(self.level, &mut lookup::Lookup { engine: self, slots: scratch, live_rules: tombstones, keys, best });
    }
}

/// Options by name.
const OPTIONS: &[Knob<Config>] = &[Knob {
    name: "vectors",
    summary: "maximum bytes of vectors",
    set: Set::Within([0, MOST_BYTES, 1], |config, bytes| config.vectors = bytes),
}];

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "bit_vector",
    summary: "a vector of rules for each key word, and the first bit of all: as fast whatever 1,000 rules look like",
    options: || options::options(OPTIONS),
    build: |rules, settings| build_by_fields(rules, settings, BitVector::build_by),
    updatable: None,
};
