//! `decomposition`: a search for each field, and the rules that all searches have in common.
//!
//! # Idea
//! A rule is one or more *products*, each with one set of values per field. Each group of fields (a *superfield*) is
//! searched on its own. A search gives a vector with one bit per product, in order of rank. The bit is set if the
//! product holds the values of the key. The AND of all vectors has the products that match, and its first bit is the
//! answer.
//!
//! Ranges and prefixes are searched in a tree of interval starts, exact values in a hash table. Equal vectors are
//! stored once. For example, rule 0 is VLAN 100 and rule 1 port 80: VLAN 100 has the vector 11, any other 01; port 80
//! has 11, any other 10. A packet of VLAN 7 to port 80 has 01 and 11, so rule 1 matches.
//!
//! # When to take it
//! The cost of its lookups depends on the number of rules and fields, and hardly on their contents. So use it for rules
//! of many fields that no tree separates, and to repeat the paper's measurements. If trees can separate the rules,
//! [`bit_select`](mod@crate::engines::bit_select) is several times faster and smaller. So `meta` builds it only where
//! lookups of all other candidates touch many cache lines. For example, 10,000 nested ranges of ports take `bit_select`
//! thousands of lines a packet, and this engine four.
//!
//! Batches of 32 on generated rules over the 15 fields of OpenFlow, on one core (definition `decomposition`), ns and
//! MB:
//!
//! | | 1,000 rules | 10,000 rules | 32,768 rules |
//! |---|---|---|---|
//! | default | 198, 0.3 | 273, 4.1 | 551, 28 |
//! | [`Config::paper`] with [`Stop::Zero`], 16 keys in flight | 228, 0.3 | 773, 24 | 1,375, 250 |
//! | [`Config::paper`], 16 keys in flight | 209, 0.3 | 812, 24 | 2,206, 250 |
//! | [`Config::plain`], 16 keys in flight | 435, 0.3 | 1,331, 21 | 4,024, 207 |
//! | `bit_select` | 55, 0.1 | 52, 1.3 | 69, 4.0 |
//! | `linear` | 495, 0.2 | 2,157, 1.8 | 5,653, 5.8 |
//!
//! # Layout in memory
//! - *Trees*: nodes are cache lines of 16 starts of 32 bits, or 8 of 64 bits for concatenated words. A child's place
//!   follows from the place of its parent and the number of the parent's starts that are at most the key.
//! - *Hash tables*: slots with the words of a value and the place of its vector, padded to a power of two. A value is
//!   in one of the slots that two hashes choose (cuckoo hashing); a search reads both.
//! - *Tables*: an entry for each value of up to eight bits that masks test, or for each pair of classes
//!   ([`Superfields`]). By default, a word of less than 2<sup>10</sup> values also has an entry for each value, and so
//!   has one of less than 2<sup>17</sup> that is cut into a thousand intervals.
//! - *Vectors* ([`RowForm`]): *flat* ones have all bits, in whole cache lines. *Summed* ones also have a bit per line.
//!   *Sparse* ones begin with a bit for each 64-bit word. If there are more than 64 of these bits, the number of stored
//!   words before each 64 of them follows. Then come the words that are not zero. For example, rules 3, 70 and 20,000
//!   of 32,768 take 64 bytes of bits, 16 of numbers and 24 of words, padded to 128.
//! - *Single vectors*: place and first product of each vector, 8 bytes each, if by default lookups read only one.
//! - *Matches*: rule and priority by product, 16 bytes each, and 4 bytes per rule that locate its products.
//!
//! # Cost
//! A search reads one line per level of a tree, or two of a hash table. A merge reads one line of each flat vector for
//! every 512 products, and at most the lines that a sparse vector fills. A single vector is not read, but its first
//! product. Searches run side by side for
//! [`Config::interleave`] keys, so that their reads overlap.
//!
//! Vectors take classes × products bits at most, and are counted before they are made. [`Config::build_bytes`] limits
//! the sets of rules that a build keeps.
//!
//! # Paper
//! Y. R. Qu, S. Zhou and V. K. Prasanna, *Performance Modeling and Optimizations for Decomposition-based Large-scale
//! Packet Classification on Multi-core Processors* (University of Southern California, about 2014).
//! [`Config::paper`] has its grouped fields and early termination, [`Config::plain`] neither.
//!
//! # Deviations
//! - Regions of a rule that form a product of sets share one bit.
//! - The paper's range trees are binary. Ours have 16 or 8 starts a node also in [`Config::paper`], so that 1,024
//!   starts take three levels in place of eleven; a level compares all starts of a node at once.
//! - A value that is not in a hash table has the vector of the rules that leave the field open, and an absent value is
//!   a value like any other.
//! - Where a rule leaves a leading field of a group open, the paper's cross product explodes. Such a group is searched
//!   field by field.
//! - Built from the registry ([`ENGINES`](super::registry::ENGINES)), a field of several words is first looked up as one
//!   number, if lists would otherwise multiply word by word. For example, 2,000 IPv6 hosts are one set. The base of rules
//!   that change is not built so.
//! - Keys in flight on one thread stand for the paper's concurrent threads.
//! - By default ([`Config::default`]): sparse vectors, merges that end once no rule is left, groups chosen by the
//!   rules, and the sparsest vectors first.

mod build;
mod columns;
mod config;
mod cuckoo;
mod lookup;
mod rows;
mod structure;
#[cfg(test)]
mod tests;
mod tree;

pub use config::{Config, RowForm, Stop, Superfields};
pub use structure::Decomposition;

use std::ops::Range;

use crate::engine::base::{Base, BaseEngine, Build, visits_of};
use crate::engine::budget::{Budget, Visits};
use crate::engine::entry::{Entry, Settings};
use crate::engine::options;
use crate::engine::tombstones::{All, LiveRules, Tombstones};
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::engines::shared::{Products, build_by_fields};
use crate::error::{BuildError, Cap};
use crate::key::Keys;
use crate::raw::{LINE_WORDS, Level, dispatch, dispatch_scalar};
use crate::rule::{Lowered, RuleId};
use crate::schema::Schema;
use rows::Unwatched;

impl Decomposition {
    /// Builds the engine from the regions of `set`.
    ///
    /// # Errors
    /// If it would exceed the budget or [`Config::build_bytes`], the rules have more than four million products, hash
    /// functions find no place for all values, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default())
    }

    /// Builds the engine with the limits and the options of `settings`.
    fn build_by(rules: &Lowered, settings: &Settings) -> Result<Self, BuildError> {
        let mut config =
            Config { budget: settings.budget(), simd: settings.simd, seed: settings.seed, ..Config::default() };
        options::configure(config::OPTIONS, &settings.options, &mut config)?;
        config.build_bytes = config.build_bytes.min(settings.build_bytes);
        Self::build_within(rules, &config, &settings.visits())
    }

    /// Builds the engine within the visits of regions that `visits` allows.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits)
    }

    fn improve_among<A: LiveRules>(
        &self,
        places: &mut lookup::Places,
        live_rules: A,
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
    ) {
        dispatch(self.level, lookup::Lookup { engine: self, places, live_rules, keys, best, watch: Unwatched });
    }
}

impl Engine for Decomposition {
    type Scratch = lookup::Places;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> lookup::Places {
        lookup::Places::new(self.searches.len() + self.joins.len(), self.in_flight, self.read.len())
    }

    fn stats(&self) -> Stats {
        Stats {
            rules: self.firsts.len() - 1,
            regions: self.regions,
            bytes: self.bytes(),
            tables: 1,
            worst_tests: self.matches.len(),
            worst_lines: self.search_lines() + self.merge_lines() + 1,
            longest_bucket: 0,
            overflow: 0,
            keeps_shadowed: true,
            counts: NamedCounts::from([
                ("fields", self.schema.fields().len() as u64),
                ("trees", self.search_kinds()[0] as u64),
                ("hashes", self.search_kinds()[1] as u64),
                ("joins", self.joins.len() as u64),
                ("vectors read", self.read.len() as u64),
                ("vector lines", self.vectors.lines.len() as u64),
            ]),
        }
    }

    fn improve(&self, scratch: &mut lookup::Places, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.improve_among(scratch, All, keys, best);
    }

    /// Counts searches, joins and lines of vectors, and the 64-bit words and cache lines of all these and of matches.
    ///
    /// Each merge counts as a test of every product.
    fn count(&self, scratch: &mut lookup::Places, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        if self.matches.is_empty() {
            return NamedCounts::default();
        }
        let mut counter = lookup::LineCounter::default();
        let mut alone = vec![None; best.len()];
        dispatch_scalar(lookup::Lookup {
            engine: self,
            places: scratch,
            live_rules: All,
            keys,
            best: &mut alone,
            watch: &mut counter,
        });
        let (count, found) = (best.len() as u64, alone.iter().flatten().count() as u64);
        for (best, found) in best.iter_mut().zip(&alone) {
            found.iter().for_each(|found| found.improve(best));
        }
        NamedCounts::from([
            ("searches", count * self.searches.len() as u64),
            ("joins", count * self.joins.len() as u64),
            ("vector lines", counter.lines),
            ("tests", count * self.matches.len() as u64),
            ("words", count * self.search_words() as u64 + counter.lines * structure::WORDS64 as u64 + 2 * found),
            ("lines", count * self.search_lines() as u64 + counter.lines + found),
        ])
    }
}

/// The places of a rule are the indices of its products.
impl Base for Decomposition {
    /// Returns the number of 32-bit words of vectors that a lookup reads; each counts as one visit.
    fn visits(&self) -> usize {
        visits_of(self.merge_lines() * LINE_WORDS)
    }

    fn places(&self) -> usize {
        self.matches.len()
    }

    fn places_of(&self, _rule: RuleId, rank: usize, _regions: Range<usize>) -> Range<usize> {
        self.firsts[rank] as usize..self.firsts[rank + 1] as usize
    }
}

/// Maximum bytes of the vectors of a base, unless the engine is forced, and of the sets that its build keeps.
///
/// For example, 10,000 nested port ranges take 14 MB. The bytes grow with the square of such rules.
const MOST_BYTES: usize = 128 << 20;

impl BaseEngine for Decomposition {
    const NAME: &'static str = "decomposition";
    const TAKES_PRODUCTS: bool = true;
    /// Its lookups take as long whatever the rules look like, and trees are several times faster if they separate rules.
    const WORTH_LINES: usize = 48;

    fn build_base(set: &Lowered, how: &Build<'_>) -> Result<Self, BuildError> {
        let level = Level::choose(how.simd)?;
        let most = if how.is_forced { usize::MAX } else { MOST_BYTES };
        let budget = Budget { run_bytes: how.run_bytes.min(most) };
        let config = Config { budget, simd: how.simd, seed: how.seed, ..Config::default() };
        let config = Config { build_bytes: config.build_bytes.min(most), ..config };
        build::build(set, &config, level, how.visits).map_err(|error| match error.cap() {
            // Sets that exceed their own limit become vectors that exceed it, and too many products cannot have any.
            None | Some(Cap::BuildBytes) => BuildError::bytes(usize::MAX, budget.run_bytes),
            Some(_) => error,
        })
    }

    /// Returns a bound from the numbers of regions and words, and from the bytes that sets and vectors may take.
    ///
    /// Each word takes its intervals and their sets, which take up to three times as much while they grow, and vectors.
    /// They stop growing at 128 MiB, or at 1 GiB of sets if the engine is forced.
    fn build_bytes(set: &Lowered, is_forced: bool) -> usize {
        let (products, intervals) = set.word_products();
        // More products than these are refused as soon as they are counted.
        let (products, intervals) = (products.min(1 << 24), intervals.min(1 << 30));
        let ternary = set.ternary_words().len();
        let key_words = set.schema().words().len();
        let (intervals, dimensions) = (2 * intervals + 1, key_words + 4 * ternary);
        let row = products.div_ceil(8) + 128;
        let sets = (key_words * intervals * row + 4 * ternary * 256 * row).min(if is_forced {
            usize::MAX / 8
        } else {
            MOST_BYTES
        });
        let searches = key_words * intervals * 96 + dimensions * build::table_bytes(intervals);
        Products::build_bytes(set).saturating_add(searches + 4 * sets + (1 << 20))
    }

    /// Returns ten times the visits of sets that it serves well, plus the most that 2,048 regions take.
    fn build_visits(set: &Lowered) -> usize {
        set.region_count().saturating_mul(16_384).saturating_add(1 << 24)
    }

    fn largest_scratch(schema: &Schema) -> lookup::Places {
        // A word has at most five searches: its own and four bytes under masks. There are fewer joins than searches.
        let searches = 5 * schema.words().len();
        lookup::Places::new(2 * searches, Config::default().interleave, searches)
    }

    fn improve_live(
        &self,
        scratch: &mut lookup::Places,
        keys: &Keys<'_>,
        tombstones: &Tombstones,
        best: &mut [Option<Match>],
    ) {
        self.improve_among(scratch, tombstones, keys, best);
    }
}

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "decomposition",
    summary: "a search for each field, and the rules that all searches have in common; as the paper, for many fields",
    options: || options::options(config::OPTIONS),
    build: |rules, settings| build_by_fields(rules, settings, Decomposition::build_by),
    updatable: None,
};
