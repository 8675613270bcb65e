//! PartitionSort: rules partitioned into few sets that can be sorted, each a search tree.
//!
//! # Idea
//! Rules are sorted in an order of fields if, field after field, rules that were equal so far are equal or disjoint. A
//! packet then has one position among them, found as in any search tree. Rules to the left or right of it cannot match.
//! A whole rule set is divided into few sets of rules that can be sorted, the partitions, each with its own order of
//! fields. They are searched in order of their best priority as long as that can improve the match.
//!
//! For example, `tcp dport 22`, `tcp dport 80-90` and `udp` are sorted by protocol, then port. `tcp dport 85-99` goes
//! to another partition, because it overlaps the second rule and is not equal to it.
//!
//! # Layout in memory
//! All is in one arena of cache lines, which come in pieces that never move. An entry is a whole region (bounds,
//! priority, id): one line for an IPv4 5-tuple, two for IPv6. Entries of equal bounds are a list in order of priority.
//!
//! Above the entries are B-trees, one level of trees per key word. A node separates up to 8 (one line) or 16 (two)
//! intervals of a word by their starts. A word on which all entries below are equal has no node. The ends of intervals
//! are only compared at the entry, because at most one interval can hold the packet.
//!
//! # Cost
//! Memory is linear: a region takes an entry, 12 bytes to find it by its rule, and its share of nodes that are at least
//! a quarter full. In each partition, a lookup takes O(words + log n) nodes and tests one region, or more if ternary
//! regions have equal hulls. The walks of up to 64 keys advance together, one node per round. If few walks are left,
//! the walks of the next partition join them.
//!
//! An insertion is one walk in each partition up to the one that takes the region, and splits O(log n) nodes there. A
//! removal is one walk and takes no memory. After the rules of the best priority are removed, the partition's bound is
//! too good. After half as many removals as it has regions, a pass over the partition corrects the bound. That is O(1)
//! amortised, and O(n) for that one removal.
//!
//! There are never more partitions than [`Config::most_partitions`], and no list of equal entries has more than 256.
//! Regions that would need more go to an overflow list. A lookup tests the list, eight regions at a time, if that can
//! improve its match. [`Stats::overflow`] is the number of regions in the list.
//!
//! # Paper
//! Yingchareonthawornchai, Daly, Liu and Torng, "A Sorted-Partitioning Approach to Fast and Scalable Dynamic Packet
//! Classification", IEEE/ACM Transactions on Networking 26(4), 2018, and ICNP 2016; described in section II-C of the
//! TupleMerge paper (see [`tuple`](crate::engines::tuple)).
//!
//! # Deviations
//! - A field is a key word: an IPv6 address is four, each with its position in the order.
//! - Nodes are B-tree nodes tested with vector instructions, not binary. Only the words that separate entries have
//!   nodes.
//! - The order of a new partition begins with the words on which its first region is narrowest. If a region does not
//!   fit, a partition of at most `Config::reorder` regions takes any order in which it does. That order begins with the
//!   words that separate most regions. The search for it is exact, because any word on which the regions are sorted may
//!   come next without ruling out an order.
//! - A build inserts rules in order of priority; the offline choice of fields is not used. Online insertion in random
//!   order makes 33 partitions of 256k rules, on the mean over twelve seeds whose prefix lengths are smoothed by 2 bits
//!   (`papers/tuplemerge/record.csv`, entry `fig2`). The TupleMerge paper has 11, which sets without smoothing give,
//!   too.
//! - A ternary region is sorted by the hull of its interval, and its masks are compared at the entry.

mod arena;
mod config;
mod lookup;
mod node;
mod order;
mod structure;
#[cfg(test)]
mod tests;
mod tree;
mod update;

use crate::engine::entry::{Entry, Settings};
use crate::engine::options::{self, Knob, Set};
use crate::engine::{Engine, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::dispatch;
use crate::rule::Lowered;
use crate::schema::Schema;
use lookup::{Lookup, Scratch};

pub use config::Config;
pub use structure::PartitionSort;

impl Engine for PartitionSort {
    type Scratch = Scratch;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Scratch {
        Scratch::new()
    }

    /// Returns the statistics in O(regions).
    fn stats(&self) -> Stats {
        let (mut longest, mut tests, mut lines) = (0, 0, 0);
        for partition in &self.partitions {
            let (mut group, mut deepest) = (0, 0);
            self.arena.visit(partition.root, |first, depth| {
                group = self.arena.group(first).count().max(group);
                deepest = depth.max(deepest);
            });
            longest = group.max(longest);
            tests += group;
            // A ternary part is as long as an entry.
            lines += 2 * deepest + 2 * group * self.arena.lines_per_entry();
        }
        Stats {
            rules: self.rules,
            regions: self.regions,
            bytes: vec![
                ("entries and nodes", self.arena.bytes()),
                ("partitions", self.partition_bytes()),
                ("places of rules", self.places.bytes()),
                ("rest", self.overflow.bytes()),
            ],
            tables: self.partitions.len(),
            worst_tests: tests + self.overflow.len(),
            worst_lines: lines + self.overflow.lines(),
            overflow: self.overflow.len(),
            longest_bucket: longest,
            keeps_shadowed: true,
            ..Stats::default()
        }
    }

    fn improve(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, Lookup { engine: self, scratch, keys: *keys, best });
    }
}

/// Options by name.
const OPTIONS: &[Knob<Config>] = &[
    Knob {
        name: "paper",
        summary: "whether to start from the paper's own values",
        set: Set::Switch(|config, is_paper| {
            if is_paper {
                *config = Config::paper();
            }
        }),
    },
    Knob {
        name: "reorder",
        summary: "largest number of regions of a partition that may take another order of words",
        set: Set::Count(|config, regions| config.reorder = regions),
    },
    Knob {
        name: "most_partitions",
        summary: "largest number of partitions",
        set: Set::Count(|config, partitions| config.most_partitions = partitions),
    },
];

fn built(rules: &Lowered, settings: &Settings) -> Result<PartitionSort, BuildError> {
    let mut config = Config::default();
    options::configure(OPTIONS, &settings.options, &mut config)?;
    let (budget, simd) = (settings.budget(), settings.simd);
    PartitionSort::build_within(rules, &Config { budget, simd, ..config }, &settings.visits())
}

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "partitionsort",
    summary: "a few search trees of rules that can be sorted: rules come and go",
    options: || options::options(OPTIONS),
    build: |rules, settings| Ok(Box::new(built(rules, settings)?)),
    updatable: Some(|rules, settings| Ok(Box::new(built(rules, settings)?))),
};
