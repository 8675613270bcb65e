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
//! [`bit_select`](mod@crate::engines::bit_select) is several times faster and smaller.
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
//!   ([`Superfields`]).
//! - *Vectors* ([`RowForm`]): *flat* ones have all bits, in whole cache lines. *Summed* ones also have a bit per line.
//!   *Sparse* ones begin with a bit for each 64-bit word. If there are more than 64 of these bits, the number of stored
//!   words before each 64 of them follows. Then come the words that are not zero. For example, rules 3, 70 and 20,000
//!   of 32,768 take 64 bytes of bits, 16 of numbers and 24 of words, padded to 128.
//! - *Matches*: rule and priority by product, 16 bytes each.
//!
//! # Cost
//! A search reads one line per level of a tree, or two of a hash table. A merge reads one line of each flat vector for
//! every 512 products, and at most the lines that a sparse vector fills. Searches run side by side for
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
//! - A value that is not in a hash table has the vector of the rules that leave the field open, and an absent value is
//!   a value like any other.
//! - Where a rule leaves a leading field of a group open, the paper's cross product explodes. Such a group is searched
//!   field by field.
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

use crate::engine::budget::Visits;
use crate::engine::entry::Entry;
use crate::engine::options;
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::{Level, dispatch, dispatch_scalar};
use crate::rule::Lowered;
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

    /// Builds the engine within the visits of regions that `visits` allows.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits)
    }
}

impl Engine for Decomposition {
    type Scratch = lookup::Places;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> lookup::Places {
        lookup::Places::new(self.searches.len() + self.joins.len(), self.read.len())
    }

    fn stats(&self) -> Stats {
        Stats {
            rules: self.rules,
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
        dispatch(self.level, lookup::Lookup { engine: self, places: scratch, keys, best, watch: Unwatched });
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
        let lookup = lookup::Lookup { engine: self, places: scratch, keys, best: &mut alone, watch: &mut counter };
        dispatch_scalar(lookup);
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

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "decomposition",
    summary: "a search for each field, and the rules that all searches have in common; as the paper, for many fields",
    options: || options::options(config::OPTIONS),
    build: |rules, settings| {
        let mut config =
            Config { budget: settings.budget, simd: settings.simd, seed: settings.seed, ..Config::default() };
        options::configure(config::OPTIONS, &settings.options, &mut config)?;
        Ok(Box::new(Decomposition::build_within(rules, &config, &settings.visits())?))
    },
    updatable: None,
};
