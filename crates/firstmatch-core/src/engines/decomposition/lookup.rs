//! Lookups: keys go through the searches side by side, then each merges its vectors.

use std::collections::HashSet;

use super::config::MOST_IN_FLIGHT;
use super::rows::{Form, Unwatched, Watch};
use super::structure::{Decomposition, Join, Search};
use crate::engine::Match;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, LINE_WORDS};

/// Values of the keys in flight, slot by slot.
///
/// There are at least as many slots as the engine has that last used it.
#[derive(Debug)]
pub struct Places {
    slots: Vec<[u32; MOST_IN_FLIGHT]>,
    /// Concatenated words of each key, for one search.
    wide: [u64; MOST_IN_FLIGHT],
    /// Vectors of one key.
    own: Vec<u32>,
}

impl Places {
    pub(super) fn new(slots: usize, read: usize) -> Self {
        Self { slots: vec![[0; MOST_IN_FLIGHT]; slots], wide: [0; MOST_IN_FLIGHT], own: vec![0; read] }
    }
}

/// Lookup of a batch.
pub(super) struct Lookup<'a, W> {
    pub(super) engine: &'a Decomposition,
    pub(super) places: &'a mut Places,
    pub(super) keys: &'a Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
    pub(super) watch: W,
}

/// Counter of the different lines that each merge reads.
#[derive(Default)]
pub(super) struct LineCounter {
    pub(super) lines: u64,
    seen: HashSet<(usize, usize)>,
}

impl LineCounter {
    fn end(&mut self) {
        self.lines += self.seen.len() as u64;
        self.seen.clear();
    }
}

/// Observer of whole lookups.
pub(super) trait Watcher {
    type Own: Watch;
    fn own(&mut self) -> &mut Self::Own;
    /// A key has merged its vectors.
    fn end(&mut self);
}

impl Watcher for Unwatched {
    type Own = Self;

    #[inline(always)]
    fn own(&mut self) -> &mut Self {
        self
    }

    #[inline(always)]
    fn end(&mut self) {}
}

impl Watch for LineCounter {
    fn line(&mut self, slot: usize, line: usize) {
        self.seen.insert((slot, line));
    }
}

impl Watcher for &mut LineCounter {
    type Own = LineCounter;

    fn own(&mut self) -> &mut LineCounter {
        self
    }

    fn end(&mut self) {
        LineCounter::end(self);
    }
}

impl<W: Watcher> Kernel for Lookup<'_, W> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, places, keys, best, mut watch } = self;
        if engine.matches.is_empty() {
            return;
        }
        let count = engine.searches.len() + engine.joins.len();
        let Places { slots, wide, own } = places;
        if slots.len() < count {
            slots.resize(count, [0; MOST_IN_FLIGHT]);
        }
        own.resize(engine.read.len(), 0);
        for (chunk, best) in best.chunks_mut(engine.in_flight).enumerate() {
            let keys = keys.slice(chunk * engine.in_flight, chunk * engine.in_flight + best.len());
            search(isa, engine, keys, &mut wide[..best.len()], slots);
            for (key, best) in best.iter_mut().enumerate() {
                own.iter_mut().zip(&engine.read).for_each(|(own, &slot)| *own = slots[slot][key]);
                let found = engine.vectors.first(own, engine.stop, engine.sub_vector, watch.own());
                watch.end();
                if let Some(found) = found {
                    engine.matches[found].improve(best);
                }
            }
        }
    }
}

/// Finds the places of the vectors of all keys, search by search.
#[inline(always)]
fn search<I: Isa>(
    isa: I,
    engine: &Decomposition,
    keys: Keys<'_>,
    wide: &mut [u64],
    slots: &mut [[u32; MOST_IN_FLIGHT]],
) {
    let count = wide.len();
    for (search, slot) in engine.searches.iter().zip(&mut *slots) {
        let found = &mut slot[..count];
        match search {
            Search::Tree { parts, tree } => {
                for (at, wide) in wide.iter_mut().enumerate() {
                    let row = keys.row(at);
                    // A first word of 64 bits does not exist, so nothing is shifted out.
                    *wide = parts.iter().fold(0, |value, &(word, bits)| value << bits | u64::from(row[word]));
                }
                tree.find(isa, wide, found);
            }
            Search::Hash { words, hash } => {
                for (at, found) in found.iter_mut().enumerate() {
                    let (row, mut key) = (keys.row(at), [0; LINE_WORDS]);
                    key.iter_mut().zip(words).for_each(|(key, &word)| *key = row[word]);
                    *found = hash.find(&key);
                }
            }
            Search::Bits { word, mask, values } => {
                for (at, found) in found.iter_mut().enumerate() {
                    let bits = isa.gather(u64::from(keys.row(at)[*word]), u64::from(*mask));
                    *found = values[bits as usize];
                }
            }
        }
    }
    for (index, Join { slots: [a, b], values }) in engine.joins.iter().enumerate() {
        let (known, new) = slots.split_at_mut(engine.searches.len() + index);
        for (at, found) in new[0][..count].iter_mut().enumerate() {
            *found = values[(known[*a][at] + known[*b][at]) as usize];
        }
    }
    if count > 1 {
        for &slot in &engine.read {
            for &place in &slots[slot][..count] {
                let line = if engine.vectors.form == Form::Sparse { 1 } else { engine.vectors.row_lines };
                isa.prefetch(&engine.vectors.lines[place as usize * line]);
            }
        }
    }
}
