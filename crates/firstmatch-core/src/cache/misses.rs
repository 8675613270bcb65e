//! Keys of a batch that a cache could not answer, gathered for the classifier.

use crate::engine::{Classifier, Match, Scratch};
use crate::key::Keys;
use crate::raw::{LINE_WORDS, Line, words, words_mut};

/// Maximum number of misses that are handed on together: two chunks of 64 keys.
pub(super) const MOST_MISSES: usize = 128;

/// Misses that were not handed on yet.
#[derive(Debug)]
pub(super) struct Misses {
    count: usize,
    /// Keys, row after row.
    rows: Box<[Line]>,
    /// Index of each key in the batch.
    places: [u32; MOST_MISSES],
    best: [Option<Match>; MOST_MISSES],
}

impl Misses {
    pub(super) fn new(stride: usize) -> Self {
        let rows = vec![Line::default(); (MOST_MISSES * stride).div_ceil(LINE_WORDS)].into_boxed_slice();
        Self { count: 0, rows, places: [0; MOST_MISSES], best: [None; MOST_MISSES] }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds the key at `place` of the batch, with its match to beat; returns its number.
    #[inline(always)]
    pub(super) fn push(&mut self, row: &[u32], place: u32, best: Option<Match>) -> usize {
        let at = self.count;
        words_mut(&mut self.rows)[at * row.len()..][..row.len()].copy_from_slice(row);
        (self.places[at], self.best[at]) = (place, best);
        self.count += 1;
        at
    }

    /// Asks the classifier for all keys.
    #[inline(always)]
    pub(super) fn ask(&mut self, inner: &dyn Classifier, scratch: &mut Scratch, key_words: usize) {
        let rows = &words(&self.rows)[..self.count * key_words.next_multiple_of(4)];
        let Some(keys) = Keys::new(rows, key_words) else { unreachable!("whole rows from the start of a line") };
        inner.improve_batch(scratch, &keys, &mut self.best[..self.count]);
    }

    /// Returns row, place and match of each key, and forgets all of them.
    #[inline(always)]
    pub(super) fn take(&mut self, stride: usize) -> impl Iterator<Item = (&[u32], u32, Option<Match>)> {
        let count = std::mem::take(&mut self.count);
        let rows = words(&self.rows).chunks_exact(stride);
        rows.zip(&self.places).zip(&self.best).take(count).map(|((row, place), best)| (row, *place, *best))
    }
}
