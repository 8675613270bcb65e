//! The built engine: searches, joins and vectors.

use super::config::Stop;
use super::cuckoo::Cuckoo;
use super::rows::{Form, Vectors};
use super::tree::Tree;
use crate::engine::Match;
use crate::raw::{LINE_WORDS, Level};
use crate::schema::Schema;

/// 64-bit words of a cache line.
pub(super) const WORDS64: usize = LINE_WORDS / 2;

/// Classifier that searches fields one by one and merges the vectors that the searches give.
///
/// ```
/// use firstmatch_core::engines::decomposition::{Config, Decomposition};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine = Decomposition::build(&rules, &Config::default())?;
/// let mut keys = KeyBuf::new(engine.schema());
/// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, 443, 6]);
/// assert_eq!(engine.classify(&mut engine.scratch(), keys.keys()).map(|found| found.rule.slot()), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Decomposition {
    pub(super) schema: Schema,
    pub(super) level: Level,
    pub(super) searches: Box<[Search]>,
    /// Joins in the order in which they are looked up; their slots follow those of searches.
    pub(super) joins: Box<[Join]>,
    /// Slots whose vectors are read, in the order in which they are merged.
    pub(super) read: Box<[usize]>,
    /// Number of lines of the longest vector of each slot in `read`.
    pub(super) longest: Box<[usize]>,
    pub(super) vectors: Vectors,
    /// Each vector, if lookups read only one; its number is then the value of the slot.
    pub(super) single: Box<[Single]>,
    pub(super) stop: Stop,
    pub(super) sub_vector: usize,
    pub(super) in_flight: usize,
    /// Rule and priority of each product, by rank.
    pub(super) matches: Box<[Match]>,
    /// Number of products before the first of each rule, then the number of all products.
    pub(super) firsts: Box<[u32]>,
    pub(super) regions: usize,
}

/// Vector that alone decides about a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Single {
    pub(super) place: u32,
    /// First product of the vector, or [`NONE`], so that the vector is read only if that product has a tombstone.
    pub(super) first: u32,
}

/// Number of no product.
pub(super) const NONE: u32 = u32::MAX;

/// Search for the vector of a key, or for its class in a join.
#[derive(Debug)]
pub(super) enum Search {
    /// Tree over concatenated words; `parts` has each word and its number of bits.
    Tree { parts: Box<[(usize, u32)]>, tree: Tree },
    /// Hash table of exact values of words.
    Hash { words: Box<[usize]>, hash: Cuckoo },
    /// Table over the values of a word.
    Direct { word: usize, values: Box<[u32]> },
    /// Table over the bits of a word that `mask` names.
    Bits { word: usize, mask: u32, values: Box<[u32]> },
}

/// Table from the classes of two slots to a vector, or to a class in a further join.
#[derive(Debug)]
pub(super) struct Join {
    /// Slots whose values add up to a place in `values`.
    pub(super) slots: [usize; 2],
    pub(super) values: Box<[u32]>,
}

impl Decomposition {
    /// Number of cache lines that the searches and joins of a key read.
    pub(super) fn search_lines(&self) -> usize {
        let of = |search: &Search| match search {
            Search::Tree { tree, .. } => tree.levels() + 1,
            Search::Hash { hash, .. } => hash.lines(),
            Search::Direct { .. } | Search::Bits { .. } => 1,
        };
        self.searches.iter().map(of).sum::<usize>() + self.joins.len()
    }

    /// Number of 64-bit words that the searches and joins of a key read.
    pub(super) fn search_words(&self) -> usize {
        let of = |search: &Search| match search {
            // The place of a vector is half a word.
            Search::Tree { tree, .. } => tree.levels() * WORDS64 + 1,
            Search::Hash { hash, .. } => hash.search_words(),
            Search::Direct { .. } | Search::Bits { .. } => 1,
        };
        self.searches.iter().map(of).sum::<usize>() + self.joins.len()
    }

    /// Number of searches by tree or table, and by hash.
    pub(super) fn search_kinds(&self) -> [usize; 2] {
        let hashes = self.searches.iter().filter(|search| matches!(search, Search::Hash { .. })).count();
        [self.searches.len() - hashes, hashes]
    }

    /// Number of cache lines that the merge of a key reads at most.
    pub(super) fn merge_lines(&self) -> usize {
        let Vectors { form, row_lines, groups, .. } = self.vectors;
        // A summary of several words may begin in one line and end in another.
        let summary = if groups == 1 { 1 } else { groups.div_ceil(WORDS64) + 1 };
        // A line of the list of single vectors; one that removed rules are left out of is read, too.
        usize::from(!self.single.is_empty())
            + match form {
                Form::Flat => self.read.len() * row_lines,
                Form::Summed => self.read.len() * (summary + row_lines),
                Form::Sparse => self.longest.iter().sum(),
            }
    }

    /// Returns the bytes on the heap by part.
    pub(super) fn bytes(&self) -> Vec<(&'static str, usize)> {
        let (mut trees, mut hashes) = (0, 0);
        for search in &self.searches {
            match search {
                Search::Tree { parts, tree } => trees += size_of_val(&parts[..]) + tree.bytes(),
                Search::Hash { words, hash } => hashes += size_of_val(&words[..]) + hash.bytes(),
                Search::Direct { values, .. } | Search::Bits { values, .. } => trees += size_of_val(&values[..]),
            }
        }
        let joins: usize = self.joins.iter().map(|join| size_of_val(&join.values[..])).sum();
        let order = size_of_val(&self.single[..]) + size_of_val(&self.read[..]) + size_of_val(&self.longest[..]);
        vec![
            ("searches", size_of_val(&self.searches[..]) + trees),
            ("hashes", hashes),
            ("joins", size_of_val(&self.joins[..]) + joins),
            ("vectors", size_of_val(&self.vectors.lines[..]) + size_of_val(&self.vectors.summaries[..]) + order),
            ("matches", size_of_val(&self.matches[..]) + size_of_val(&self.firsts[..])),
        ]
    }
}
