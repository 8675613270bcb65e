//! Columns: which words are searched together, and by which search.

use std::ops::Range;

use super::config::{Config, Superfields};
use super::cuckoo::MOST_WORDS;
use crate::engines::shared::{Interval, Products, eights};
use crate::schema::{Schema, Source, Word};

/// Largest number of bits of exact values that are hashed together.
const EXACT_BITS: u32 = 128;

/// Words that are searched together; every word of the schema that rules constrain is in one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Intervals of words, the most significant word first.
    Intervals(Vec<usize>),
    /// Exact values of words; a product has one value in each word, or leaves all words open.
    Exact(Vec<usize>),
    /// Values of the bits of a word that masks test.
    Masked { word: usize, bits: u32 },
}

/// Intervals of each product in each word, by product.
pub(super) struct Cells<'a> {
    pub(super) words: &'a [Word],
    products: &'a Products,
    /// Positions of each product's intervals in the list of a word, by word and product.
    ranges: Vec<Vec<Range<usize>>>,
    tested: Vec<u32>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(schema: &'a Schema, products: &'a Products) -> Self {
        let ranges = products.intervals.iter().map(|intervals| {
            let (mut ranges, mut start) = (vec![0..0; products.len()], 0);
            for own in intervals.chunk_by(|a, b| a.0 == b.0) {
                let end = start + own.len();
                ranges[own[0].0] = start..end;
                start = end;
            }
            ranges
        });
        let ranges = ranges.collect();
        let tested = (0..schema.words().len()).map(|word| products.tested(word)).collect();
        Self { words: schema.words(), products, ranges, tested }
    }

    /// Returns the intervals of a product in a word.
    pub(super) fn of(&self, word: usize, product: usize) -> &[(usize, Interval)] {
        &self.products.intervals[word][self.ranges[word][product].clone()]
    }

    /// Returns the only value of a product in a word, if it has one.
    pub(super) fn single(&self, word: usize, product: usize) -> Option<u32> {
        match self.of(word, product) {
            &[(_, (lo, hi))] if lo == hi => Some(lo),
            _ => None,
        }
    }

    fn is_open(&self, word: usize, product: usize) -> bool {
        matches!(self.of(word, product), &[(_, (0, hi))] if hi == self.words[word].max)
    }

    /// Number of bits of the values of some words.
    pub(super) fn bits(&self, words: &[usize]) -> u32 {
        words.iter().map(|&word| width(&self.words[word])).sum()
    }

    /// Whether each product either has a single value in every word or leaves every word open.
    fn is_exact(&self, words: &[usize]) -> bool {
        let one = |product| {
            words.iter().all(|&word| self.single(word, product).is_some())
                || words.iter().all(|&word| self.is_open(word, product))
        };
        words.len() <= MOST_WORDS
            && words.iter().all(|&word| self.tested[word] == 0)
            && (0..self.products.len()).all(one)
    }

    /// Whether each product is one interval of the concatenated words.
    ///
    /// That is, it has single values in the leading words, one interval in the next word, and leaves the others open.
    fn is_interval(&self, words: &[usize]) -> bool {
        let one = |product| {
            let mut words = words.iter().skip_while(|&&word| self.single(word, product).is_some());
            words.next().is_none_or(|&word| self.of(word, product).len() == 1)
                && words.all(|&word| self.is_open(word, product))
        };
        self.bits(words) <= u64::BITS
            && words.iter().all(|&word| self.tested[word] == 0)
            && (0..self.products.len()).all(one)
    }

    /// Whether no product constrains a word.
    fn says_nothing(&self, word: usize) -> bool {
        self.tested[word] == 0 && (0..self.products.len()).all(|product| self.is_open(word, product))
    }

    /// Returns the first and last value of `product` in `words`, read as one number.
    ///
    /// `is_interval(words)` must hold.
    pub(super) fn interval(&self, words: &[usize], product: usize) -> (u64, u64) {
        words.iter().fold((0, 0), |(lo, hi), &word| {
            let own = self.of(word, product);
            let (first, last) = own.first().zip(own.last()).map_or((0, 0), |(first, last)| (first.1.0, last.1.1));
            let bits = width(&self.words[word]);
            (lo << bits | u64::from(first), hi << bits | u64::from(last))
        })
    }
}

/// Number of bits of the values of a word.
pub(super) fn width(word: &Word) -> u32 {
    u32::BITS - word.max.leading_zeros()
}

/// Returns the columns of a rule set.
pub(super) fn columns(schema: &Schema, cells: &Cells<'_>, config: &Config) -> Vec<Column> {
    let mut left: Vec<usize> = (0..schema.fields().len()).collect();
    let mut all = Vec::new();
    if config.superfields == Superfields::Paper {
        for group in of_paper(schema) {
            let words: Vec<usize> = group.iter().flat_map(|&field| schema.words_of(field)).collect();
            let says_nothing = words.iter().all(|&word| cells.says_nothing(word));
            let is_group = if says_nothing {
                true
            } else if config.hash_groups && cells.is_exact(&words) {
                all.push(Column::Exact(words));
                true
            } else if cells.is_interval(&words) {
                all.push(Column::Intervals(words));
                true
            } else {
                false
            };
            left.retain(|field| !is_group || !group.contains(field));
        }
    }
    for field in left {
        let words: Vec<usize> = schema.words_of(field).filter(|&word| !cells.says_nothing(word)).collect();
        if words.is_empty() {
            continue;
        }
        if cells.is_exact(&words) {
            all.push(Column::Exact(words));
            continue;
        }
        let mut rest = &words[..];
        while !rest.is_empty() {
            let most = (2..=rest.len()).rev().find(|&count| cells.is_interval(&rest[..count])).unwrap_or(1);
            all.push(Column::Intervals(rest[..most].to_vec()));
            all.extend(
                rest[..most]
                    .iter()
                    .flat_map(|&word| eights(cells.tested[word]).map(move |bits| Column::Masked { word, bits })),
            );
            rest = &rest[most..];
        }
    }
    if config.superfields == Superfields::Chosen && config.hash_groups {
        all = together(all, cells);
    }
    all
}

/// Combines exact columns whose values, taken together, are still exact and have at most 128 bits.
fn together(all: Vec<Column>, cells: &Cells<'_>) -> Vec<Column> {
    let mut kept: Vec<Column> = Vec::new();
    for column in all {
        if let Column::Exact(words) = &column {
            let joined = kept.iter_mut().find_map(|other| match other {
                Column::Exact(others) => {
                    let both = [&others[..], words].concat();
                    (cells.bits(&both) <= EXACT_BITS && cells.is_exact(&both)).then_some((others, both))
                }
                _ => None,
            });
            if let Some((others, both)) = joined {
                *others = both;
                continue;
            }
        }
        kept.push(column);
    }
    kept
}

/// Returns the fields of the paper's two groups, if the schema has all of them.
fn of_paper(schema: &Schema) -> Vec<Vec<usize>> {
    use Source::{EthType, InPort, IpDscp, IpProto, MplsLabel, MplsTc, VlanPcp, VlanVid};
    let groups: [&[Source]; 2] = [&[EthType, MplsLabel, IpDscp], &[InPort, VlanVid, VlanPcp, IpProto, MplsTc]];
    let of = |group: &[Source]| group.iter().map(|&source| schema.index_of_source(source)).collect::<Option<Vec<_>>>();
    groups.into_iter().map(of).collect::<Option<_>>().unwrap_or_default()
}
