//! Packets for every cell of the rules: the bounds of all regions divide each word into classes that no rule tells
//! apart, and a cell is one class for each word. Where values are numbered by classes already, each number is one.

use super::analysis::{Analysis, SEED};
use super::beyond::Beyond;
use super::piece::{Piece, and};
use crate::rule::RuleId;

/// Extent to which packets stand for all packets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampled {
    /// Number of packets.
    pub packets: u64,
    /// Number of cells.
    pub cells: f64,
    /// Whether there is a packet of every cell.
    pub is_all: bool,
}

impl Analysis<'_> {
    /// Calls `f` with the keys of at most `most` packets of the schema of index `schema`, and the first rule of each.
    ///
    /// If there are at most `most` cells and no masks, each cell has one key. Otherwise the keys are the corners of all
    /// regions with their neighbours, the corners of overlaps, and keys of cells drawn at random, as far as `most`
    /// allows. Where values are numbered by classes, a key has any value of each class. The tree of boxes finds the rule. A key may be one that no packet has, but it can always be a row. Every
    /// call draws the same keys.
    ///
    /// # Panics
    /// If there is no such schema.
    pub fn sample(&mut self, schema: usize, most: u64, mut f: impl FnMut(&[u32], Option<RuleId>)) -> Sampled {
        self.random = SEED;
        let (classes, has_masks) = self.classes(schema);
        let cells = classes.iter().map(|class| class.len() as f64).product::<f64>();
        let mut packets = 0;
        let count = self.rules.len() as u32;
        let mut take = |of: &Self, key: &[u32]| {
            let list = &of.lists[schema];
            if packets < most && list.possible.is_row(key) {
                packets += 1;
                let first = list.first(key, of.among(0, count)).map(|rank| of.rules[rank as usize].id);
                match &list.classes {
                    None => f(key, first),
                    Some(classes) => {
                        let mut random = packets;
                        let values = classes.values(key, || {
                            random = random.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                            random >> 32
                        });
                        f(&values, first);
                    }
                }
            }
        };
        if cells <= most as f64 && !has_masks {
            let mut at = vec![0; classes.len()];
            loop {
                let key: Vec<u32> = at.iter().zip(&classes).map(|(&at, class)| class[at]).collect();
                take(self, &key);
                // Counts up the places of all words, the last one fastest.
                let Some(word) = (0..at.len()).rev().find(|&word| at[word] + 1 < classes[word].len()) else { break };
                at[word] += 1;
                at[word + 1..].fill(0);
            }
            return Sampled { packets, cells, is_all: true };
        }
        for rank in 0..count {
            for of in self.boxes(schema, rank) {
                self.corners(schema, &of, &mut |key| take(self, key));
                let below = self.lists[schema].tree.next(&of, self.among(0, rank));
                for earlier in below.iter().flat_map(|&below| self.boxes(schema, below)) {
                    if let Some(shared) = and(&of, &earlier) {
                        take(self, &shared.iter().map(|piece| piece.hi).collect::<Vec<_>>());
                    }
                }
            }
        }
        // A drawn key that cannot be a row counts as a draw, too, so that the loop ends.
        for _ in 0..most {
            let key: Vec<u32> = classes.iter().map(|class| class[self.draw() as usize % class.len()]).collect();
            take(self, &key);
        }
        Sampled { packets, cells, is_all: false }
    }

    /// Returns a value of each class of each word, and whether some word is under a mask.
    ///
    /// For a word under a mask, only some of its classes are returned.
    fn classes(&self, schema: usize) -> (Vec<Vec<u32>>, bool) {
        let list = &self.lists[schema];
        let mut classes: Vec<Vec<u32>> = list.schema.words().iter().map(|_| vec![0]).collect();
        let mut has_masks = false;
        for (rank, _) in self.rules.iter().enumerate() {
            for of in self.boxes(schema, rank as u32) {
                for ((class, piece), word) in classes.iter_mut().zip(&of).zip(list.schema.words()) {
                    class.push(piece.lo);
                    class.extend((piece.hi < word.max).then(|| piece.hi + 1));
                    has_masks |= piece.mask != 0;
                }
            }
        }
        for (words, part) in list.beyond.iter().flat_map(Beyond::parts) {
            for (word, piece) in words.zip(part) {
                classes[word].push(piece.lo);
                classes[word].extend((piece.hi < list.schema.words()[word].max).then(|| piece.hi + 1));
                has_masks |= piece.mask != 0;
            }
        }
        for class in &mut classes {
            class.sort_unstable();
            class.dedup();
        }
        (classes, has_masks)
    }

    /// Calls `f` with both ends of a box, and with each end one further in one word.
    fn corners(&self, schema: usize, of: &[Piece], f: &mut impl FnMut(&[u32])) {
        let ends: [Vec<u32>; 2] =
            [of.iter().map(|piece| piece.lo).collect(), of.iter().map(|piece| piece.hi).collect()];
        for (end, word) in ends.iter().flat_map(|end| (0..=of.len()).map(move |word| (end, word))) {
            let mut key = end.clone();
            if let Some(value) = key.get_mut(word) {
                let max = self.lists[schema].schema.words()[word].max;
                *value = if *value == of[word].lo { value.saturating_sub(1) } else { value.saturating_add(1).min(max) };
            }
            f(&key);
        }
    }
}
