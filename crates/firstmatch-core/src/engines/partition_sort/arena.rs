//! Arena: cache lines, in runs of which entries and nodes are stored.
//!
//! Lines come in pieces that never move, and a run lies within one. There is a free list for each size: the first word
//! of a free run is the next free run.

use std::ops::Range;

use crate::engine::Match;
use crate::engines::shared::{Chunked, PIECE, match_of, match_words, priority_of};
use crate::raw::{LINE_WORDS, Line, words, words_mut};
use crate::rule::{Priority, Region};

/// Marks the absence of a run or an entry.
pub(super) const NONE: u32 = u32::MAX;
/// Number of lines that handles can name.
const MOST_LINES: usize = 1 << 30;

#[derive(Debug)]
pub(super) struct Arena {
    key_words: usize,
    lines_per_entry: usize,
    pub(super) lines: Chunked<Line>,
    /// Lines of the newest piece that were never used.
    fresh: Range<u32>,
    /// Head of the free list of each size in lines.
    free: Box<[u32]>,
}

impl Arena {
    pub(super) fn new(key_words: usize) -> Self {
        let lines_per_entry = Self::lines_for(key_words);
        let free = vec![NONE; lines_per_entry.max(2) + 1].into();
        Self { key_words, lines_per_entry, lines: Chunked::default(), fresh: 0..0, free }
    }

    /// Number of lines of an entry over `key_words` words.
    ///
    /// It has the bounds, the priority, the id, the next entry of the group and the ternary part.
    #[inline(always)]
    pub(super) const fn lines_for(key_words: usize) -> usize {
        (2 * key_words + 6).div_ceil(LINE_WORDS)
    }

    #[inline(always)]
    pub(super) fn key_words(&self) -> usize {
        self.key_words
    }

    #[inline(always)]
    pub(super) fn lines_per_entry(&self) -> usize {
        self.lines_per_entry
    }

    pub(super) fn bytes(&self) -> usize {
        self.lines.bytes() + size_of_val(&self.free[..])
    }

    /// Returns the maximum bytes that new runs, of `lines` lines in all, take.
    pub(super) fn growth(&self, lines: usize) -> usize {
        if lines <= self.fresh.len() {
            return 0;
        }
        // Runs do not straddle pieces, so that less than the longest run may be left over in each.
        let pieces = lines.div_ceil(PIECE - self.lines_per_entry.max(2));
        self.lines.growth(self.lines.len() + pieces * PIECE)
    }

    /// Whether runs of `lines` lines may be more than handles can name.
    pub(super) fn is_full(&self, lines: usize) -> bool {
        self.lines.len() + lines + PIECE > MOST_LINES
    }

    /// Returns a new run of `size` lines.
    pub(super) fn allocate(&mut self, size: usize) -> u32 {
        if let Some(at) = self.pop_free(size) {
            return at;
        }
        if size == 1
            && let Some(at) = self.pop_free(2)
        {
            self.release(at + 1, 1);
            return at;
        }
        if self.fresh.len() < size {
            self.fresh.clone().for_each(|line| self.release(line, 1));
            let start = self.lines.len() as u32;
            self.lines.grow(self.lines.len() + PIECE, Line::default());
            self.fresh = start..start + PIECE as u32;
        }
        let at = self.fresh.start;
        self.fresh.start += size as u32;
        at
    }

    fn pop_free(&mut self, size: usize) -> Option<u32> {
        let at = Some(self.free[size]).filter(|&at| at != NONE)?;
        self.free[size] = self.run(at)[0];
        Some(at)
    }

    pub(super) fn release(&mut self, at: u32, size: usize) {
        let next = std::mem::replace(&mut self.free[size], at);
        self.run_mut(at, 1)[0] = next;
    }

    /// Returns the words from a line on, to the end of its piece.
    #[inline(always)]
    pub(super) fn run(&self, at: u32) -> &[u32] {
        let piece = self.lines.piece(at as usize).map_or(&[][..], |piece| &piece[at as usize % PIECE..]);
        words(piece)
    }

    pub(super) fn run_mut(&mut self, at: u32, size: usize) -> &mut [u32] {
        let place = at as usize % PIECE;
        let piece = self.lines.piece_mut(at as usize).map_or(&mut [][..], |piece| &mut piece[place..place + size]);
        words_mut(piece)
    }

    /// Writes an entry, alone in its group; returns its first line.
    pub(super) fn add_entry(&mut self, rule: Match, region: &Region<'_>) -> u32 {
        let (key_words, size) = (self.key_words, self.lines_per_entry);
        let ternary = region.ternary.map_or(NONE, |(value, mask)| {
            let at = self.allocate(size);
            let words = self.run_mut(at, size);
            words[..key_words].copy_from_slice(value);
            words[key_words..2 * key_words].copy_from_slice(mask);
            at
        });
        let at = self.allocate(size);
        let entry = self.run_mut(at, size);
        entry[..key_words].copy_from_slice(region.lo);
        entry[key_words..2 * key_words].copy_from_slice(region.hi);
        entry[2 * key_words..2 * key_words + 4].copy_from_slice(&match_words(rule));
        entry[2 * key_words + 4..2 * key_words + 6].copy_from_slice(&[NONE, ternary]);
        at
    }

    pub(super) fn drop_entry(&mut self, at: u32) {
        let ternary = self.run(at)[2 * self.key_words + 5];
        if ternary != NONE {
            self.release(ternary, self.lines_per_entry);
        }
        self.release(at, self.lines_per_entry);
    }

    /// Returns the `lo` of every word, and the `hi` of every word.
    pub(super) fn bounds(&self, entry: u32) -> (&[u32], &[u32]) {
        self.run(entry)[..2 * self.key_words].split_at(self.key_words)
    }

    pub(super) fn priority(&self, entry: u32) -> Priority {
        priority_of(self.run(entry), self.key_words)
    }

    pub(super) fn found(&self, entry: u32) -> Option<Match> {
        match_of(self.run(entry), self.key_words)
    }

    /// Returns the entry behind this one in its group.
    #[inline(always)]
    pub(super) fn next(&self, entry: u32) -> Option<u32> {
        Some(self.run(entry)[2 * self.key_words + 4]).filter(|&next| next != NONE)
    }

    fn set_next(&mut self, entry: u32, next: Option<u32>) {
        let at = 2 * self.key_words + 4;
        self.run_mut(entry, self.lines_per_entry)[at] = next.unwrap_or(NONE);
    }

    /// Returns the entries of a group: equal bounds, the best priority first.
    pub(super) fn group(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), |&entry| self.next(entry))
    }

    /// Puts an entry into a group; returns the first entry of the group after that.
    pub(super) fn join(&mut self, first: u32, entry: u32) -> u32 {
        let priority = self.priority(entry);
        let before = self.group(first).take_while(|&other| self.priority(other) < priority).last();
        let behind = before.map_or(Some(first), |before| self.next(before));
        self.set_next(entry, behind);
        let Some(before) = before else { return entry };
        self.set_next(before, Some(entry));
        first
    }

    /// Takes an entry out of a group; returns the first entry of the group after that, if any is left.
    pub(super) fn leave(&mut self, first: u32, entry: u32) -> Option<u32> {
        let behind = self.next(entry);
        let before = self.group(first).take_while(|&other| other != entry).last();
        let Some(before) = before else { return behind };
        self.set_next(before, behind);
        Some(first)
    }

    /// Whether the ternary part of an entry, if it has one, holds a key.
    #[inline(always)]
    pub(super) fn passes_ternary(&self, entry: &[u32], key_words: usize, key: &[u32]) -> bool {
        let ternary = entry[2 * key_words + 5];
        if ternary == NONE {
            return true;
        }
        let (value, mask) = self.run(ternary)[..2 * key_words].split_at(key_words);
        value.iter().zip(mask).zip(key).all(|((value, mask), k)| k & mask == *value)
    }

    /// Panics unless each line belongs to exactly one run of `used` (start and length) or free run, or was never used.
    #[cfg(test)]
    pub(super) fn check(&self, used: impl Iterator<Item = (u32, usize)>) {
        let mut seen = vec![false; self.lines.len()];
        let mut see = |at: u32, size: usize, what: &str| {
            for (line, seen) in (at..).zip(&mut seen[at as usize..][..size]) {
                assert!(!std::mem::replace(seen, true), "line {line} is {what} and something else");
            }
        };
        see(self.fresh.start, self.fresh.len(), "unused");
        used.for_each(|(at, size)| see(at, size, "in use"));
        for (size, &first) in self.free.iter().enumerate() {
            let mut next = first;
            while next != NONE {
                see(next, size, "free");
                next = self.run(next)[0];
            }
        }
        let lost = seen.iter().filter(|&&is_seen| !is_seen).count();
        assert_eq!(lost, 0, "lines are neither used nor free");
    }
}
