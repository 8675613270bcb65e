//! `rfc` and `bitmap_rfc`: recursive flow classification, a fixed number of table reads for each packet.
//!
//! # Idea
//! Two values of a word have the same *class* if the same rules hold them. A table maps two classes, of two words, to
//! the class of both. Such tables form a tree, and its root holds the first rule that matches. So a lookup is one
//! search for each word and one read for each table. It compares no rule, and the number of reads does not depend on
//! the rules.
//!
//! For example, rule 0 is source 10.0.0.0/8 and port 80, and rule 1 is source 10.1.0.0/16. Sources have three classes:
//! held by no rule, by rule 0, and by both. Ports have two: 80 and the others. The table of both words has 3 × 2
//! entries: none, none, rule 0, none, rule 0, rule 1.
//!
//! Tables multiply classes, so that a bad tree takes many times the bytes of a good one. The builder counts the classes
//! of every subset of up to seven words, and takes the tree of the fewest bytes. With more than 1,000 products of rules
//! it counts the classes of two samples, and extrapolates their growth. It knows the size of a table before it
//! allocates it. If the table exceeds the budget, it plans another tree with the true numbers of classes so far, at
//! most four times.
//!
//! Lists of rules are *pruned*: a rule is dropped from a class if an earlier rule covers it in all words still to come
//! ([`Config::prune`]). It can never be the first match there, and classes that it alone told apart become one.
//!
//! # Layout in memory
//! - *Leaves*: a search tree, pages or a table that map the values of a word to classes, as in
//!   [`bit_vector`](mod@crate::engines::bit_vector). A longer word under masks has one more for each eight bits that
//!   masks test. With [`LeafKind::Chunks`] each is a table over 16 bits, and over 65,537 values for an optional port.
//! - *Tables*: the entry of the classes a and b is at `a · m + b`, with `m` the classes of the second word. Entries
//!   have 16 bits up to 65,536 classes, otherwise 32. The paper's tree has tables of three classes, too.
//! - *Compact tables* ([`TableForm`]) store each run of equal entries once. A *ranked bitmap* has 12 bytes for 64
//!   entries: 64 bits mark where runs begin, and 32 bits count the runs before. All values stand in one array, so that
//!   the number of bits up to an entry is the place of its value. A *sub-table* of the paper has 20 bytes for 32
//!   entries: a bitmap and eight values. With more runs it has six values, and the place of the others in the
//!   *accessory table*.
//! - *Last table*: 0 where no rule matches, and otherwise one more than the index of the first rule.
//! - *Matches*: rule and priority of each rule, 16 bytes each.
//!
//! # Cost
//! Each leaf reads one to six cache lines, each table one, or up to three if it is compact, and the match one. 64 keys
//! go through a leaf or a table together, so that their reads overlap. Fewer than four keys go one by one.
//!
//! A build takes time in proportion to the product of the classes of each joined pair; plain tables take such memory.
//! [`Config::build_bytes`] limits the rules, their lists and the runs that it keeps besides. Compact tables are written
//! row by row, so that the plain table is never there. Tables are counted against the budget before memory is asked
//! for, or against [`Budget::UNSET_BYTES`](crate::Budget::UNSET_BYTES) without one. [`Config::visits`] ends a build that
//! would take minutes.
//!
//! # Place beside other engines
//! [`bit_vector`](mod@crate::engines::bit_vector) reads vectors of one bit for each region, so it suits one or two
//! thousand regions. Here the number of tables that a lookup reads does not depend on the number of rules. In exchange,
//! tables may take hundreds of times the memory of [`bit_select`](mod@crate::engines::bit_select), which tests regions
//! and takes tens of bytes for each. So use these engines if the number of reads must be fixed, and for comparison with
//! the papers.
//!
//! Batches of 32 on the twelve ClassBench sets, on one core (definitions `classes-1k` and `classes-10k`), geometric
//! mean and worst set. At 10,000 rules both are over the eleven sets that fit 1 GiB: `fw4` is refused.
//!
//! | | 1,000 rules: ns | MB | 10,000 rules: ns | MB |
//! |---|---|---|---|---|
//! | `bit_vector` | 13, 16 | 0.16, 0.36 | refused | |
//! | `bit_select` | 12, 23 | 0.09, 0.25 | 13, 19 | 0.6, 0.9 |
//! | `rfc` | 18, 22 | 0.43, 1.0 | 23, 31 | 42, 288 |
//! | `bitmap_rfc` | 21, 28 | 0.15, 0.26 | 27, 38 | 8.8, 57 |
//!
//! # Invariants
//! - A class number is below the number of classes of its slot, so that every place is inside its table
//!   (`tests::every_place_is_inside_its_table`).
//! - Equal rules build equal bytes, because classes are numbered in the order of their first pair
//!   (`tests::equal_rules_build_equal_tables`).
//!
//! # Paper
//! D. Liu, Z. Chen, B. Hua, N. Yu and X. Tang, *High-performance Packet Classification Algorithm for Multithreaded IXP
//! Network Processor* (ACM TECS 7(2), 2008), after P. Gupta and N. McKeown, *Packet Classification on Multiple Fields*
//! (SIGCOMM 1999). [`Config::paper`] has the paper's chunks, tree and order of reads.
//!
//! # Deviations
//! - By default, leaves are whole words and the tree is planned. [`Config::paper`] takes chunks of 16 bits and the tree
//!   of the paper. The paper's four fields have no protocol, so ours is joined to the table of the destination.
//! - Pruning and plans are ours; [`Config::paper`] has neither.
//! - Classes are lists of rules in place of bit vectors. Rules that leave all words of a table open are in no list.
//! - Only the first rule of a class is kept. So removing a rule takes a new build, and the engine is never a base.
//! - [`Config::bitmap`] has ranked bitmaps in place of sub-tables, so that no lookup branches to an accessory table. It
//!   orders classes for few runs ([`ClassOrder`]).
//! - The paper prints two rules for sub-tables that spill. Ours keeps six of eight values, as its text says (section
//!   4.2). Its figure 4 takes all values below eight from the sub-table, where the last two are the address.
//! - With shifts, the paper leaves illegal entries undefined. Ours have the value of the entry before, so that they
//!   begin no run.
//! - Built from the registry ([`ENGINES`](super::registry::ENGINES)), a field of several words is first looked up as one
//!   number, if lists would otherwise multiply word by word. For example, 2,000 IPv6 hosts are one set.
//! - All tables are in one memory. [`Rfc::improve_in`] lets each thread do one stage of a lookup.

mod build;
mod columns;
mod compact;
mod config;
mod describe;
mod entries;
mod join;
mod leaves;
mod lists;
mod lookup;
mod order;
mod plan;
mod prune;
mod runs;
mod stages;
mod structure;
mod table;
#[cfg(test)]
mod tests;

pub use config::{BatchWalk, BitCount, ClassOrder, Config, LeafKind, PlaceBy, TableForm, TreeChoice};
pub use structure::Rfc;

use crate::engine::budget::Visits;
use crate::engine::entry::{Entry, Settings};
use crate::engine::options;
use crate::engine::{Classifier, Engine, Match, NamedCounts, Stats};
use crate::engines::shared::build_by_fields;
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::{Level, dispatch_scalar};
use crate::rule::Lowered;
use crate::schema::Schema;

impl Rfc {
    /// Builds the engine from the regions of `set`.
    ///
    /// ```
    /// use firstmatch_core::engines::rfc::{Config, Rfc};
    /// use firstmatch_core::rule::Lowered;
    /// use firstmatch_core::{Engine, Schema};
    ///
    /// let none = Lowered::empty(&Schema::ipv4());
    /// let engine = Rfc::build(&none, &Config::bitmap())?;
    /// assert_eq!(engine.stats().rules, 0);
    /// # Ok::<(), firstmatch_core::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If it would exceed the budget or [`Config::build_bytes`], or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::new(config.visits))
    }

    /// Builds the engine as the [registry](crate::engines::registry) does: `config` with the limits and the options of
    /// `settings`.
    ///
    /// # Errors
    /// As for [`Rfc::build`], and if there is no such option, or an option does not take its value.
    pub fn build_by(rules: &Lowered, settings: &Settings, config: Config) -> Result<Self, BuildError> {
        let mut config = Config { budget: settings.budget(), simd: settings.simd, ..config };
        options::configure(config::OPTIONS, &settings.options, &mut config)?;
        config.build_bytes = config.build_bytes.min(settings.build_bytes);
        Self::build_within(rules, &config, &Visits::new(settings.visits.min(config.visits)))
    }

    /// Builds the engine within the visits of regions that `visits` allows.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits)
    }
}

impl Engine for Rfc {
    type Scratch = lookup::ClassSlots;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> lookup::ClassSlots {
        lookup::ClassSlots::new(self.slots())
    }

    fn stats(&self) -> Stats {
        let entries: usize = self.tables.iter().map(|table| table.length).sum();
        let classes: u64 = self.leaves.iter().map(|leaf| u64::from(leaf.classes)).sum();
        let own = [("leaves", self.leaves.len() as u64), ("classes of leaves", classes), ("entries", entries as u64)];
        let counts = match self.bitmaps() {
            Some([all, bits, of_one, of_many]) => {
                let [leaves, classes, entries] = own;
                NamedCounts::from([leaves, classes, entries, all, bits, of_one, of_many])
            }
            None => NamedCounts::from(own),
        };
        Stats {
            rules: self.matches.len(),
            regions: self.regions,
            bytes: self.bytes(),
            tables: self.tables.len(),
            worst_tests: 0,
            worst_lines: self.lines() + 1,
            longest_bucket: 0,
            overflow: 0,
            keeps_shadowed: false,
            counts,
        }
    }

    fn improve(&self, scratch: &mut lookup::ClassSlots, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.improve_in(scratch, 0..self.slots(), keys, &mut [], best);
    }

    /// Counts searches of leaves, reads of tables and of accessory tables, and the cache lines of all these.
    ///
    /// A compact table takes one read, and up to three lines.
    fn count(&self, scratch: &mut lookup::ClassSlots, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let (count, mut reads) = (best.len() as u64, 0);
        self.improve(scratch, keys, best);
        let accessories = lookup::AccessoryReads {
            engine: self,
            classes: scratch,
            keys: &keys.slice(0, best.len()),
            reads: &mut reads,
        };
        dispatch_scalar(accessories);
        NamedCounts::from([
            ("searches", count * self.leaves.len() as u64),
            ("table reads", count * self.tables.len() as u64),
            ("accessory reads", reads),
            ("lines", count * self.lines() as u64),
        ])
    }

    /// Lists the classes of values of leaves that are tables, the entries of all tables, and bitmaps with elements.
    fn structure(&self) -> Option<String> {
        Some(describe::describe(self))
    }
}

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "rfc",
    summary: "tables of classes that multiply the words of a key: a fixed number of reads, and much memory",
    options: || options::options(config::OPTIONS),
    build: |rules, settings| built(rules, settings, Config::default()),
    updatable: None,
};

/// Entry of the registry of the engine with compact tables.
pub(crate) const BITMAP: Entry = Entry {
    name: "bitmap_rfc",
    summary: "as rfc, with runs of equal entries stored once under bitmaps: less memory, and somewhat slower",
    options: || options::options(config::OPTIONS),
    build: |rules, settings| built(rules, settings, Config::bitmap()),
    updatable: None,
};

/// Builds an engine by name.
fn built(rules: &Lowered, settings: &Settings, config: Config) -> Result<Box<dyn Classifier>, BuildError> {
    build_by_fields(rules, settings, |rules, settings| Rfc::build_by(rules, settings, config.clone()))
}
