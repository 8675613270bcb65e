//! Lookups: keys go through the searches side by side, then each merges its vectors.

use std::collections::HashSet;

use super::config::MOST_IN_FLIGHT;
use super::rows::{Form, Unwatched, Watch};
use super::structure::{Decomposition, Join, NONE, Search, Single};
use crate::engine::Match;
use crate::engine::tombstones::LiveRules;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, LINE_WORDS};

/// Values of the keys in flight, slot by slot: as many in each slot as the engine has keys in flight.
///
/// There are at least as many slots as the engine has that last used it.
#[derive(Debug)]
pub struct Places {
    slots: Vec<u32>,
    /// Concatenated words of each key, for one search.
    wide: [u64; MOST_IN_FLIGHT],
    /// Vectors of one key.
    own: Vec<u32>,
}

impl Places {
    pub(super) fn new(slots: usize, in_flight: usize, read: usize) -> Self {
        Self { slots: vec![0; slots * in_flight], wide: [0; MOST_IN_FLIGHT], own: vec![0; read] }
    }
}

/// Lookup of a batch.
pub(super) struct Lookup<'a, A, W> {
    pub(super) engine: &'a Decomposition,
    pub(super) places: &'a mut Places,
    pub(super) live_rules: A,
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

impl<A: LiveRules, W: Watcher> Kernel for Lookup<'_, A, W> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, places, live_rules, keys, best, mut watch } = self;
        if engine.matches.is_empty() {
            return;
        }
        let (in_flight, read) = (engine.in_flight, engine.read.len());
        let words = (engine.searches.len() + engine.joins.len()) * in_flight;
        let Places { slots, wide, own } = places;
        slots.resize(words.max(slots.len()), 0);
        own.resize(read.max(own.len()), 0);
        let (slots, own) = (&mut slots[..words], &mut own[..read]);
        for (chunk, best) in best.chunks_mut(in_flight).enumerate() {
            let keys = keys.slice(chunk * in_flight, chunk * in_flight + best.len());
            search(isa, engine, keys, &mut wide[..best.len()], slots);
            for (key, best) in best.iter_mut().enumerate() {
                own.iter_mut().zip(&engine.read).for_each(|(own, &slot)| *own = slots[slot * in_flight + key]);
                let found = first(engine, live_rules, own, watch.own());
                watch.end();
                if let Some(found) = found {
                    engine.matches[found].improve(best);
                }
            }
        }
    }
}

/// Returns the first live product that the vectors at `own` have in common.
#[inline(always)]
fn first<A: LiveRules>(
    engine: &Decomposition,
    live_rules: A,
    own: &mut [u32],
    watch: &mut impl Watch,
) -> Option<usize> {
    if let Some(Single { place, first }) = engine.single.get(own[0] as usize).copied() {
        watch.line(usize::MAX, 0);
        if first == NONE || A::ALL || live_rules.is_live(first as usize) {
            return (first != NONE).then_some(first as usize);
        }
        own[0] = place;
    }
    engine.vectors.first(live_rules, own, engine.stop, engine.sub_vector, watch)
}

/// Finds the places of the vectors of all keys, search by search.
#[inline(always)]
fn search<I: Isa>(isa: I, engine: &Decomposition, keys: Keys<'_>, wide: &mut [u64], slots: &mut [u32]) {
    let (count, in_flight) = (wide.len(), engine.in_flight);
    for (search, slot) in engine.searches.iter().zip(slots.chunks_exact_mut(in_flight)) {
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
            Search::Direct { word, values } => {
                found.iter_mut().enumerate().for_each(|(at, found)| *found = values[keys.row(at)[*word] as usize]);
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
        let (known, new) = slots.split_at_mut((engine.searches.len() + index) * in_flight);
        for (at, found) in new[..count].iter_mut().enumerate() {
            *found = values[(known[a * in_flight + at] + known[b * in_flight + at]) as usize];
        }
    }
    if count > 1 && engine.single.is_empty() {
        for &slot in &engine.read {
            for &place in &slots[slot * in_flight..][..count] {
                let line = if engine.vectors.form == Form::Sparse { 1 } else { engine.vectors.row_lines };
                isa.prefetch(&engine.vectors.lines[place as usize * line]);
            }
        }
    }
}
