//! Choice of the cuts of a node.

use super::boxes::{Ranges, Side, ones};
use super::config::{Config, Dimension, Method};
use crate::engine::budget::Visits;

/// Largest number of words that a node cuts, and of bits of each.
pub(super) const MOST_CUTS: usize = 4;
pub(super) const MOST_BITS: u32 = 7;
/// Words from this index on are not cut, because a cut has eight bits for its word.
pub(super) const MOST_WORDS: usize = 256;
/// Largest number of references that one node may make, which bounds the memory of its cut.
pub(super) const MOST_REFERENCES: usize = 1 << 24;

/// Cut of one word into `2^bits` equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cut {
    pub(super) word: usize,
    pub(super) bits: u32,
}

/// Length of the longest list of the cells of a cut, and the sum of the lengths of all lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tally {
    pub(super) longest: usize,
    pub(super) sum: usize,
}

/// Number of cells of some cuts.
pub(super) fn cells(cuts: &[Cut]) -> usize {
    1 << cuts.iter().map(|cut| cut.bits).sum::<u32>()
}

/// Calls `visit` with each cell that a region reaches; cells that contradict its value under a mask are left out.
///
/// The part of the first word is the most significant in the number of a cell. For example, with cuts into 4 and 2
/// parts, part 2 of the first word and part 1 of the second are cell 2 · 2 + 1 = 5.
pub(super) fn reached(ranges: &Ranges<'_>, rank: u32, sides: &[Side], cuts: &[Cut], mut visit: impl FnMut(usize)) {
    let (mut first, mut last, mut shifts) = ([0; MOST_CUTS], [0; MOST_CUTS], [0; MOST_CUTS]);
    for (at, cut) in cuts.iter().enumerate() {
        let side = sides[cut.word];
        let (lo, hi) = side.clip(ranges.of(rank, cut.word));
        shifts[at] = side.bits - cut.bits;
        first[at] = (lo - side.base) >> shifts[at];
        last[at] = (hi - side.base) >> shifts[at];
    }
    let ternary = ranges.region(rank).ternary;
    let contradicts = |parts: &[u32; MOST_CUTS]| {
        ternary.is_some_and(|(value, mask)| {
            cuts.iter().zip(parts.iter().zip(&shifts)).any(|(cut, (&part, &shift))| {
                let here = mask[cut.word] & (ones(cut.bits) << shift);
                (part << shift ^ value[cut.word]) & here != 0
            })
        })
    };
    let mut parts = first;
    loop {
        if ternary.is_none() || !contradicts(&parts) {
            visit(cuts.iter().zip(&parts).fold(0, |cell, (cut, &part)| cell << cut.bits | part as usize));
        }
        // The next combination, the last word fastest.
        let Some(at) = (0..cuts.len()).rev().find(|&at| parts[at] < last[at]) else { return };
        parts[at] += 1;
        parts[at + 1..cuts.len()].copy_from_slice(&first[at + 1..cuts.len()]);
    }
}

/// Node that is to be cut.
pub(super) struct Node<'a> {
    pub(super) ranges: &'a Ranges<'a>,
    pub(super) list: &'a [u32],
    pub(super) sides: &'a [Side],
    pub(super) config: &'a Config,
    pub(super) visits: &'a Visits,
}

impl Node<'_> {
    /// Returns the cuts of the node; none if no cut tells its regions apart.
    pub(super) fn cuts(&self) -> Vec<Cut> {
        let unique: Vec<usize> = (0..self.ranges.words()).map(|word| self.unique(word)).collect();
        if unique.iter().all(|&unique| unique <= 1) {
            return Vec::new();
        }
        let found = match self.config.method {
            Method::HiCuts => self.hicuts(&unique),
            Method::HyperCuts => self.hypercuts(&unique),
        };
        let is_long = self.list.len() >= 2 * self.config.binth.max(1);
        if found.is_empty() && self.config.zoom && is_long { self.zoom(&unique) } else { found }
    }

    /// Number of different intervals of a word inside the box; 1 for words that cannot be cut.
    fn unique(&self, word: usize) -> usize {
        let side = self.sides[word];
        if side.bits == 0 || word >= MOST_WORDS {
            return 1;
        }
        self.visits.add(self.list.len());
        let clipped = self.list.iter().map(|&rank| side.clip(self.ranges.of(rank, word)));
        let mut intervals: Vec<_> = clipped.collect();
        intervals.sort_unstable();
        intervals.dedup();
        intervals.len()
    }

    /// Counts the lists that cuts make; `None` if their sum exceeds `most`.
    fn tally(&self, cuts: &[Cut], most: usize) -> Option<Tally> {
        let mut lengths = vec![0u32; cells(cuts)];
        let (mut sum, most) = (0, most.min(MOST_REFERENCES));
        for &rank in self.list {
            reached(self.ranges, rank, self.sides, cuts, |cell| {
                lengths[cell] += 1;
                sum += 1;
            });
            if sum > most {
                break;
            }
        }
        self.visits.add(sum + lengths.len());
        let longest = lengths.into_iter().max().unwrap_or(0) as usize;
        (sum <= most).then_some(Tally { longest, sum })
    }

    fn most_bits(&self, word: usize) -> u32 {
        self.sides[word].bits.min(MOST_BITS)
    }

    /// Cuts one word. For each word, the cells are doubled while references and cells stay in bounds.
    fn hicuts(&self, unique: &[usize]) -> Vec<Cut> {
        let count = self.list.len();
        let most = (self.config.space_factor * count as f64) as usize;
        let mut best: Option<((Tally, usize), Cut)> = None;
        for (word, &unique) in unique.iter().enumerate().filter(|(_, unique)| **unique > 1) {
            let mut kept = None;
            for bits in 1..=self.most_bits(word) {
                let cut = Cut { word, bits };
                match self.tally(&[cut], most) {
                    Some(tally) if tally.sum + cells(&[cut]) <= most => kept = Some((tally, cut)),
                    _ => break,
                }
            }
            let Some((tally, cut)) = kept.filter(|(tally, _)| tally.longest < count) else { continue };
            let is_better = best.as_ref().is_none_or(|((other, others), _)| match self.config.dimension {
                Dimension::ShortestList => tally < *other,
                Dimension::MostUnique => (unique, other.longest) > (*others, tally.longest),
            });
            if is_better {
                best = Some(((tally, unique), cut));
            }
        }
        best.into_iter().map(|(_, cut)| cut).collect()
    }

    /// Cuts the words with the most different intervals, or all words if these do not help.
    fn hypercuts(&self, unique: &[usize]) -> Vec<Cut> {
        let mean = unique.iter().sum::<usize>() as f64 / unique.len() as f64;
        let mut words: Vec<usize> = (0..unique.len()).filter(|&word| unique[word] > 1).collect();
        words.sort_by_key(|&word| std::cmp::Reverse(unique[word]));
        let candidates: Vec<usize> = words.iter().copied().filter(|&word| unique[word] as f64 >= mean).collect();
        let found = self.doubled(&candidates[..candidates.len().min(MOST_CUTS)], 2);
        if found.is_empty() && words.len() > candidates.len().min(MOST_CUTS) { self.doubled(&words, 5) } else { found }
    }

    /// Adds one bit after another to the cuts, and returns the cuts of the last gain.
    ///
    /// Each bit goes to the word whose longest list is then shortest. It ends after `patience` additions without a
    /// gain, or when cells or references exceed their bounds.
    fn doubled(&self, words: &[usize], patience: usize) -> Vec<Cut> {
        let count = self.list.len();
        let most_cells = (self.config.space_factor * (count as f64).sqrt()).max(2.0);
        let most = self.config.growth * count as f64;
        let most = if most.is_finite() { most as usize } else { usize::MAX };
        let (mut cuts, mut best, mut idle): (Vec<Cut>, _, _) = (Vec::new(), count, 0);
        let mut gained: Vec<Cut> = Vec::new();
        while idle < patience && !self.visits.are_too_many() {
            let with = |&word: &usize| {
                let mut cuts = cuts.clone();
                match cuts.iter_mut().find(|cut| cut.word == word) {
                    Some(cut) => cut.bits += 1,
                    None => cuts.push(Cut { word, bits: 1 }),
                }
                let fits = cuts.len() <= MOST_CUTS && cuts.iter().all(|cut| cut.bits <= self.most_bits(cut.word));
                if !fits || cells(&cuts) as f64 > most_cells || cells(&cuts) > MOST_REFERENCES {
                    return None;
                }
                self.tally(&cuts, most).map(|tally| (tally, cuts))
            };
            let Some((tally, next)) = words.iter().filter_map(with).min_by_key(|(tally, _)| *tally) else { break };
            cuts = next;
            if tally.longest < best {
                (best, idle) = (tally.longest, 0);
                gained.clone_from(&cuts);
            } else {
                idle += 1;
            }
        }
        gained
    }

    /// Cuts the word whose differing regions lie in the smallest part of the box down to that part.
    ///
    /// For example, with a rule for each port from 1 to 200 and a wildcard, cuts of a few bits leave all rules in one
    /// cell. The hull of the rules that do not fill the box has 8 of 16 bits, so the word is cut by seven bits at once.
    fn zoom(&self, unique: &[usize]) -> Vec<Cut> {
        let mut best: Option<(u32, usize, Cut)> = None;
        for (word, _) in unique.iter().enumerate().filter(|(_, unique)| **unique > 1) {
            let side = self.sides[word];
            let parts = self.list.iter().filter(|&&rank| !self.ranges.fills(rank, word, side));
            let (mut lo, mut hi, mut count) = (u32::MAX, 0, 0);
            for &rank in parts {
                let (from, to) = side.clip(self.ranges.of(rank, word));
                (lo, hi, count) = (lo.min(from), hi.max(to), count + 1);
            }
            if count == 0 {
                continue;
            }
            let saved = side.bits - Side::around(lo, hi).bits;
            let bits = (saved + 1).min(self.most_bits(word));
            if best.as_ref().is_none_or(|(most, others, _)| (saved, count) > (*most, *others)) {
                best = Some((saved, count, Cut { word, bits }));
            }
        }
        self.visits.add(self.list.len());
        best.into_iter().map(|(_, _, cut)| cut).collect()
    }
}
