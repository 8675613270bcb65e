//! Published boxes, and the search of them.

use crate::engine::Match;
use crate::key::Keys;
use crate::raw::{Isa, Line};

/// Number of boxes of a block.
pub(super) const BLOCK: usize = 8;
/// Maximum number of packets that are compared together.
pub(super) const CHUNK: usize = 64;

/// Boxes in blocks of eight.
///
/// ```text
/// for each key word   8 × lo │ 8 × hi      one cache line
/// ```
///
/// Places behind the last box repeat it, because no bounds are empty for every comparison.
#[derive(Debug)]
pub(super) struct Boxes {
    key_words: usize,
    blocks: usize,
    bounds: Box<[Line]>,
    /// Answer of each box of a block, and `None` for a packet in no box.
    answers: Box<[[Option<Match>; BLOCK + 1]]>,
}

/// Outcome of a search for up to 64 packets.
#[derive(Debug)]
pub(super) struct Found {
    /// Answer of a box for each packet in one, otherwise `None`.
    pub(super) answers: [Option<Match>; CHUNK],
    /// Indices of the packets in no box, in order.
    pub(super) open: [u8; CHUNK],
}

impl Found {
    pub(super) fn new() -> Self {
        Self { answers: [None; CHUNK], open: [0; CHUNK] }
    }

    /// Improves matches by the answers that were found.
    #[inline(always)]
    pub(super) fn improve(&self, best: &mut [Option<Match>]) {
        for (best, answer) in best.iter_mut().zip(&self.answers) {
            if let Some(found) = answer.filter(|found| Match::wins(found.priority, best)) {
                *best = Some(found);
            }
        }
    }
}

impl Boxes {
    /// Makes room for `most` boxes.
    pub(super) fn new(key_words: usize, most: usize) -> Self {
        let blocks = most.div_ceil(BLOCK);
        let bounds = vec![Line::default(); blocks * key_words].into_boxed_slice();
        Self { key_words, blocks: 0, bounds, answers: vec![[None; BLOCK + 1]; blocks].into_boxed_slice() }
    }

    pub(super) fn clear(&mut self) {
        self.blocks = 0;
    }

    /// Number of places for boxes in the published blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks * BLOCK
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Fills a block with boxes, eight at most and one at least: bounds, all `lo` before all `hi`, and answers.
    pub(super) fn push_block<'a>(&mut self, boxes: impl Iterator<Item = (&'a [u32], Option<Match>)> + Clone) {
        let block = self.blocks;
        let count = boxes.clone().take(BLOCK).count();
        for (at, (bounds, answer)) in boxes.cycle().take(count * BLOCK).enumerate().take(BLOCK) {
            let (lo, hi) = bounds.split_at(self.key_words);
            for (word, line) in self.bounds[block * self.key_words..][..self.key_words].iter_mut().enumerate() {
                (line.0[at], line.0[BLOCK + at]) = (lo[word], hi[word]);
            }
            self.answers[block][at] = answer;
        }
        self.blocks += usize::from(count > 0);
    }

    /// Fills the next block with boxes that hold the key of zeros alone, and have no answer.
    pub(super) fn push_zero(&mut self) {
        self.bounds[self.blocks * self.key_words..][..self.key_words].fill(Line::default());
        self.answers[self.blocks] = [None; BLOCK + 1];
        self.blocks += 1;
    }

    /// Returns the number of the first box that holds a key, in the order in which boxes were published.
    pub(super) fn position(&self, key: &[u32]) -> Option<usize> {
        let blocks = self.bounds.chunks_exact(self.key_words).take(self.blocks).enumerate();
        let holds = |lines: &[Line], at: usize| {
            lines.iter().zip(key).all(|(line, word)| line.0[at] <= *word && *word <= line.0[BLOCK + at])
        };
        let mut boxes = blocks.flat_map(|(block, lines)| (0..BLOCK).map(move |at| (block * BLOCK + at, lines, at)));
        boxes.find(|(_, lines, at)| holds(lines, *at)).map(|(number, ..)| number)
    }

    /// Searches the boxes for up to 64 keys, and returns how many of them are in none.
    ///
    /// If no box is published, the answers of `found` are not set.
    #[inline(always)]
    pub(super) fn find<I: Isa, const KEY_WORDS: usize>(&self, isa: I, keys: Keys<'_>, found: &mut Found) -> usize {
        let key_words = if KEY_WORDS == 0 { self.key_words } else { KEY_WORDS };
        let stride = key_words.next_multiple_of(4);
        let Found { answers, open } = found;
        let mut left = keys.len().min(CHUNK);
        (0..left).for_each(|key| open[key] = key as u8);
        for (lines, of) in self.bounds.chunks_exact(key_words).zip(&self.answers).take(self.blocks) {
            let mut next = 0;
            for at in 0..left {
                let key = open[at];
                let row = &keys.words()[usize::from(key) * stride..][..key_words];
                let hits = hits::<I, KEY_WORDS>(isa, lines, row);
                answers[usize::from(key) % CHUNK] = of[(hits | 1 << BLOCK).trailing_zeros() as usize % (BLOCK + 1)];
                open[next] = key;
                next += usize::from(hits & 0xFF == 0);
            }
            left = next;
            if left == 0 {
                break;
            }
        }
        left
    }
}

/// Returns which boxes of a block hold a key; bits above the eighth may be set.
#[inline(always)]
fn hits<I: Isa, const KEY_WORDS: usize>(isa: I, lines: &[Line], row: &[u32]) -> u32 {
    let of = |hits, (line, word): (&Line, &u32)| hits & isa.within8(&line.0, *word);
    // A loop of a known length needs no jump.
    match (lines.first_chunk::<KEY_WORDS>(), row.first_chunk::<KEY_WORDS>()) {
        (Some(lines), Some(row)) if KEY_WORDS > 0 => lines.iter().zip(row).fold(u32::MAX, of),
        _ => lines.iter().zip(row).fold(u32::MAX, of),
    }
}
