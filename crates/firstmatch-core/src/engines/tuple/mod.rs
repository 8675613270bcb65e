//! Tuple spaces: TupleMerge, online and offline, and Tuple Space Search.
//!
//! # Idea
//! A tuple says how many bits of each field a rule fixes. Tuple Space Search keeps one hash table for each tuple that
//! occurs. TupleMerge lets a table hold every rule that fixes *at least* the table's bits, so that far fewer tables do.
//!
//! It bounds the rules that then share a key. Online, a table is split when one key collects more than `c`; offline,
//! the tables are chosen with all rules at hand. For example, a table of 16 source bits takes rules for 10.1.0.0/16 and
//! 10.1.2.0/24.
//!
//! A lookup first finds the tables that can match its key at all, the candidates. The leading bits of each field choose
//! a row with one bit per table. The candidates are the tables whose bit is set in all these rows; on the ClassBench
//! sets they are few. They are probed in order of their best priority as long as that can improve the match. Without
//! [`Config::preclassifier`] every table is a candidate, as in the paper.
//!
//! # Layout in memory
//! - *Rows* of candidates are words of 64 bits, one bit per table. The IPv4 5-tuple has rows for seven prefix lengths,
//!   some hundred to some thousand for each.
//! - A *table* has a tuple (one mask per key word) and buckets. A bucket is one cache line: eight tags, eight groups.
//! - *Groups* are runs of whole entries (bounds, priority, id: one cache line for an IPv4 5-tuple, two for IPv6) in
//!   order of priority. So a probe that finds nothing touches one line, and a hit one more for each region tested.
//!
//! Entries and the index from rules to entries grow by chunks, so that no growth moves all of them. A free run of
//! entries is cut when a shorter one is needed, and adjacent free runs are joined from time to time. A group of more
//! than 16 entries has its own chunk, which is freed with the group.
//!
//! # Cost
//! Memory is linear: a region takes one entry, 12 bytes to find it by its rule, and a few bytes of rows. It has a share
//! of a table that is 37 to 56 % full. A lookup probes each table once at most and tests at most `c` regions a table.
//! It tests more only if no tuple can separate more than `c` rules; [`Stats::longest_bucket`] shows this.
//!
//! A batch goes through its tables in rounds, one table per key and round. A round has three stages: hash, compare
//! tags, test regions. Each stage prefetches the memory of the next. A single key is taken through its tables one by
//! one, until no other candidate can improve its match.
//!
//! An insertion takes O(tables + c), and a removal O(c). A split moves the rules of a table that fit a longer tuple and
//! takes O(table). Some work is O(1) when spread over changes: tightening the tables' best priorities, clearing stale
//! row bits, renumbering the tables in their order, and joining free runs. So a rare change takes O(regions). The
//! renumbering takes longest, because it sets the row bits of every region again. It happens about once in as many
//! insertions as there are regions.
//!
//! There are never more tables than [`Config::most_tables`], and no group has more than 1,024 regions. Regions that
//! would need more go to an overflow list. A lookup tests the list, eight regions at a time, if that can improve its
//! match. [`Stats::overflow`] is the number of regions in the list.
//!
//! # Paper
//! Daly, Bruschi, Linguaglossa, Pontarelli, Rossi, Tollet, Torng and Yourtchenko, "TupleMerge: Fast Software Packet
//! Processing for Online Packet Classification", IEEE/ACM Transactions on Networking 27(4), 2019, section III: tuple
//! selection III-C2, insertion III-C3, deletion III-C4, classification III-C1, offline table selection III-C5.
//! Srinivasan, Suri and Varghese, "Packet Classification using Tuple Space Search", SIGCOMM 1999: the tables without
//! merging, and the preclassifier (section II-B2 of the former).
//!
//! # Deviations
//! - The paper has no preclassifier; ours is one of hashed rows. It stands where the authors put Bloom filters before
//!   tables: it answers for 64 tables at a time, with seven loads for an IPv4 5-tuple. [`Config::paper`] has none.
//! - Tuple Space Search has the bits of all fields in its tuples. The authors' simulator hashes the two addresses
//!   alone, as does [`Config::paper_tss`]; then more rules share a key, and no table separates them.
//! - "Not specific enough" (III-C3) is made exact: the common tuple of the colliding rules equals the table's, or
//!   leaves more than `c` rules on one key. The average of the two lengths is then rounded up, because rounded down it
//!   would make no progress between 0 and 1. The added bits come from the rule with most bits in that field.
//! - A rule whose first compatible table has `c` rules of its key goes to a later table with room; only if there is
//!   none, the first is split (`Config::spill`). Otherwise rule sets full of ranges and negations, whose tuples have
//!   few bits, would split off one table after another under the same tuple. `c` is then 8 by default, not 40. Lookups
//!   hardly depend on it, but with less than 8 some small sets need more than 64 tables.
//! - With `Config::spill`, the first 24 tuples each get a table of exactly this tuple, and their rules go there. These
//!   tables cost nothing, because the rows answer for 64 at a time, and they separate their rules better. Rules of
//!   later tuples share tables.
//! - With `Config::spill`, a rule goes to the most specific table with room, not to the first. If some table can take
//!   the rule, the first 28 tuples, not 24, get tables of their own. Otherwise a general table, which rules in random
//!   order create early, would take all rules.
//! - These two choices make lookups after random updates faster, but still slower than in a fresh build of the same
//!   rules. That is due to the order of the rules: tables are then fewer, more general, and have their best priorities
//!   closer together.
//! - Rules that share one tuple and one key cannot be split apart at all; their group may exceed `c`. Once it has four
//!   times as many, another split is tried only when its length is a power of two, also by [`Config::paper`].
//! - Deletion (III-C4) also updates the bound on the table's best priority, which takes O(1) per removal on average. It
//!   drops a table that became empty. The authors' code loses every later table there.
//! - Offline, each region counts as a rule, keys are counted by their hash, and rules that come later are inserted as
//!   online. Tuples of III-C5 are compared by the size of their tables only if they miss the same rule first.
//! - Tables are separate, not one table with their number in the key (III-D1). So a split and the search for a table's
//!   best priority read only that table's entries. A probe of a separate table takes less time in small sets, and about
//!   as long in large ones.
//! - No Bloom filters before tables, which are optional in the paper. Behind the rows, a filter of one word per bucket
//!   made lookups slower on every ClassBench set tried. That is because the rows leave few probes that fail, and such a
//!   probe touches one line, as the filter does. Without the rows a filter helps, but far less than the rows do.
//! - Wide fields: an address is one field whatever its width, its length the bits of all its words. VPP relaxes an IPv6
//!   address of 128 bits to 64 and one of 64 to 56, and leaves every other length. It calls lengths close within 4
//!   bits. Ours follows III-C2 in proportion: 4 bits of an IPv4 address are 16 of an IPv6 address, and "close" is 16
//!   bits. A length is classed by its share of the width. For example, a /48 is classed as a /12, a /64 as a /16, and a
//!   /128 as a /32, which loses 16 bits.
//! - Bits are dropped from the lowest word up. The shorter address is dropped together with its port, as at 32 bits;
//!   also in OpenFlow's schema. A field that is not a prefix keeps all its bits, however wide. Lengths that are usual
//!   in IPv6 get no special treatment. A split repairs a tuple that is too general; nothing repairs one that is too
//!   specific.
//! - Ternary fields bring their own mask bits to the tuple, as III-A allows. A range counts as its longest containing
//!   prefix, as in III-D1, and is compared as a range.
//! - The hash is keyed with a seed of the process, so that a sender of packets or rules cannot choose collisions.

mod candidates;
mod config;
mod describe;
mod lookup;
mod offline;
mod pool;
mod probe;
mod round;
mod search;
mod single;
mod structure;
mod table;
#[cfg(test)]
mod tests;
#[expect(clippy::module_inception, reason = "the paper's word for what the module is about")]
mod tuple;
mod update;

use std::ops::Range;

use crate::engine::base::{Base, BaseEngine, Build, visits_of};
use crate::engine::budget::Budget;
use crate::engine::entry::{Entry, Settings};
use crate::engine::observer::Step;
use crate::engine::options::{self, Knob, Set};
use crate::engine::steps::StepCounter;
use crate::engine::tombstones::{All, Tombstones, marks_bytes};
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::{Lowered, RuleId};
use crate::schema::Schema;
use round::Scratch;
use structure::Bounds;
use table::Table;

use config::MOST_TABLES;
pub use config::{Config, Merge, TupleFields};
pub use structure::TupleMerge;

impl Engine for TupleMerge {
    type Scratch = Scratch;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Scratch {
        Scratch::new()
    }

    /// Returns the statistics in O(regions).
    fn stats(&self) -> Stats {
        let longest = |table: &Table| table.groups().map(|(_, group)| self.pool.group_len(group)).max().unwrap_or(0);
        let worst: Vec<usize> = self.in_order().map(longest).collect();
        let buckets: usize = self.in_order().map(Table::longest_walk).sum();
        let tables = self.table_bytes
            + self.tables.capacity() * size_of::<Option<Table>>()
            + (self.order.capacity() + self.fingerprints.capacity()) * size_of::<u32>()
            + self.bounds.capacity() * size_of::<Bounds>();
        let tests = worst.iter().sum::<usize>() + self.overflow.len();
        Stats {
            bytes: vec![
                ("entries", self.pool.bytes()),
                ("tables", tables),
                ("places of rules", self.places.bytes()),
                ("candidates", self.candidates.bytes()),
                ("rest", self.overflow.bytes()),
                ("tuples and keys", self.hasher.bytes() + self.shape.bytes()),
            ],
            worst_tests: tests,
            worst_lines: self.candidate_lines()
                + buckets
                + (tests - self.overflow.len()) * self.pool.lines_per_entry()
                + self.overflow.lines(),
            longest_bucket: worst.into_iter().max().unwrap_or(0),
            ..self.bound()
        }
    }

    fn improve(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        lookup::improve(self, All, scratch, keys, best);
    }

    /// Counts rows of candidates, buckets, entries, blocks of the overflow list, tests of regions, and cache lines.
    fn count(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let counter = StepCounter::default();
        lookup::improve(self, &counter, scratch, keys, best);
        let [planes, buckets, entries, blocks] =
            [Step::Plane, Step::Bucket, Step::Entry, Step::Block].map(|step| counter.of(step));
        let lines = planes * self.lines_per_plane() as u64
            + buckets
            + entries * self.pool.lines_per_entry() as u64
            + blocks * self.overflow.lines_per_block() as u64;
        // The last block of the overflow list may hold fewer than eight regions.
        let tests = entries + (8 * blocks).min((best.len() * self.overflow.len()) as u64);
        NamedCounts::from([
            ("candidate rows", planes),
            ("buckets", buckets),
            ("entries", entries),
            ("blocks", blocks),
            ("tests", tests),
            ("lines", lines),
        ])
    }

    /// Returns a line for each table, in the order of best priorities; for example, `(3,2){r1 r4}`.
    fn structure(&self) -> Option<String> {
        Some(describe::tables(self))
    }
}

/// The place of a rule is its slot.
impl Base for TupleMerge {
    fn visits(&self) -> usize {
        visits_of(Engine::stats(self).worst_tests)
    }

    fn places(&self) -> usize {
        self.places.slots()
    }

    fn places_of(&self, rule: RuleId, _rank: usize, _regions: Range<usize>) -> Range<usize> {
        rule.slot()..rule.slot() + 1
    }
}

impl BaseEngine for TupleMerge {
    const NAME: &'static str = "tuplemerge";

    fn build_base(set: &Lowered, how: &Build<'_>) -> Result<Self, BuildError> {
        let &Build { run_bytes, simd, seed, visits, .. } = how;
        Self::build_within(set, &Config { budget: Budget { run_bytes }, simd, seed, ..Config::default() }, visits)
    }

    /// Returns twice the bytes that the worst known sets need, plus an allowance for small sets.
    ///
    /// A region of IPv4 5-tuples counts as 448 bytes.
    fn build_bytes(set: &Lowered, _is_forced: bool) -> usize {
        let (regions, slots) = (set.regions(), marks_bytes(set) * 8);
        let key_words = set.schema().words().len() + regions.ternary_words().len();
        regions.len() * (48 * key_words + 160) + slots * 24 + (16 << 10)
    }

    /// Returns twice the visits that rule sets need unless made to attack the engine, plus an allowance for small sets.
    fn build_visits(set: &Lowered) -> usize {
        set.regions().len() * 340 + (1 << 18)
    }

    fn largest_scratch(_schema: &Schema) -> Scratch {
        Scratch::new()
    }

    fn improve_live(
        &self,
        scratch: &mut Scratch,
        keys: &Keys<'_>,
        tombstones: &Tombstones,
        best: &mut [Option<Match>],
    ) {
        lookup::improve(self, tombstones, scratch, keys, best);
    }
}

/// Options by name.
const OPTIONS: &[Knob<Config>] = &[
    Knob {
        name: "paper",
        summary: "whether to start from the paper's own values",
        set: Set::Switch(|config, is_paper| {
            if is_paper {
                *config = match config.merge {
                    Merge::Online => Config::paper(),
                    Merge::Offline => Config::paper_offline(),
                    Merge::None => Config::paper_tss(),
                };
            }
        }),
    },
    Knob {
        name: "collision_limit",
        summary: "most regions that share a key before their table is split, at least 1",
        set: Set::Within([1, usize::MAX, 1], |config, limit| config.collision_limit = limit),
    },
    Knob {
        name: "spill",
        summary: "whether a rule goes to a later table with room before a crowded table is split",
        set: Set::Switch(|config, spill| config.spill = spill),
    },
    Knob {
        name: "most_tables",
        summary: "largest number of tables",
        set: Set::Within([0, MOST_TABLES, 1], |config, tables| config.most_tables = tables),
    },
    Knob {
        name: "preclassifier",
        summary: "whether a key asks which tables can match before it probes any of them",
        set: Set::Switch(|config, asks| config.preclassifier = asks),
    },
    Knob {
        name: "fields",
        summary: "fields whose bits are in tuples",
        set: Set::OneOf(&["all", "addresses"], |config, at| {
            config.fields = [TupleFields::All, TupleFields::Addresses][at];
        }),
    },
];

/// Entries of the registry.
pub(crate) const ONLINE: Entry = Entry {
    name: "tuplemerge",
    summary: "few hash tables, found by the bits that rules share: fast, and rules come and go",
    options: || options::options(OPTIONS),
    build: |rules, settings| Ok(Box::new(built(Config::default(), rules, settings)?)),
    updatable: Some(|rules, settings| Ok(Box::new(built(Config::default(), rules, settings)?))),
};
pub(crate) const OFFLINE: Entry = Entry {
    name: "tuplemerge_offline",
    summary: "the same with fewer tables, chosen with all rules at hand: slower to build",
    build: |rules, settings| Ok(Box::new(built(Config::offline(), rules, settings)?)),
    updatable: Some(|rules, settings| Ok(Box::new(built(Config::offline(), rules, settings)?))),
    ..ONLINE
};
pub(crate) const TSS: Entry = Entry {
    name: "tss",
    summary: "a hash table for every combination of prefix lengths, as Open vSwitch has them",
    build: |rules, settings| Ok(Box::new(built(Config::tss(), rules, settings)?)),
    updatable: Some(|rules, settings| Ok(Box::new(built(Config::tss(), rules, settings)?))),
    ..ONLINE
};

fn built(mut config: Config, rules: &Lowered, settings: &Settings) -> Result<TupleMerge, BuildError> {
    options::configure(OPTIONS, &settings.options, &mut config)?;
    let (budget, simd, seed) = (settings.budget(), settings.simd, settings.seed);
    TupleMerge::build_within(rules, &Config { budget, simd, seed, ..config }, &settings.visits())
}
