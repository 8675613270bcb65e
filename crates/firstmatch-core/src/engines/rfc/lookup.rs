//! Lookups: chunks of keys go through each leaf, then through each table.

use super::config::BatchWalk;
use super::leaves::{Leaf, Search};
use super::structure::{Cross, Rfc};
use super::table::Entries;
use crate::engine::Match;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, MOST_LEVELS, Tree};

/// Number of keys in flight.
const CHUNK: usize = 64;
/// Number of keys side by side.
const EIGHT: usize = 8;
/// Minimum number of keys that go through a table together.
const TOGETHER: usize = 4;

/// Classes of a chunk of keys, slot by slot.
#[derive(Debug, Default)]
pub struct ClassSlots(Vec<[u32; CHUNK]>);

impl ClassSlots {
    pub(super) fn new(slots: usize) -> Self {
        Self(vec![[0; CHUNK]; slots])
    }
}

/// Lookup of a batch.
pub(super) struct Lookup<'a> {
    pub(super) engine: &'a Rfc,
    pub(super) classes: &'a mut ClassSlots,
    pub(super) keys: &'a Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, classes, keys, best } = self;
        let slots = engine.leaves.len() + engine.tables.len();
        if classes.0.len() < slots {
            classes.0.resize(slots, [0; CHUNK]);
        }
        let classes = &mut classes.0[..slots];
        let mut from = 0;
        while engine.walk == BatchWalk::Batch && best.len() - from >= TOGETHER {
            let count = (best.len() - from).min(CHUNK);
            chunk(isa, engine, keys.slice(from, from + count), classes);
            let found = classes.last().expect("a table");
            for (best, &entry) in best[from..from + count].iter_mut().zip(found) {
                improve(engine, best, entry);
            }
            from += count;
        }
        for (at, best) in best.iter_mut().enumerate().skip(from) {
            let entry = alone(isa, engine, keys.row(at), classes);
            improve(engine, best, entry);
        }
    }
}

/// Improves the match of a key by the entry of the last table.
#[inline(always)]
fn improve(engine: &Rfc, best: &mut Option<Match>, entry: u32) {
    if let Some(found) = engine.matches.get((entry as usize).wrapping_sub(1)) {
        found.improve(best);
    }
}

/// Finds the classes of one key, and returns the entry of the last table.
#[inline(always)]
fn alone<I: Isa>(isa: I, engine: &Rfc, key: &[u32], classes: &mut [[u32; CHUNK]]) -> u32 {
    for (leaf, class) in engine.leaves.iter().zip(&mut *classes) {
        class[0] = one(isa, leaf, key[leaf.column.word]);
    }
    let mut entry = 0;
    for (at, cross) in engine.tables.iter().enumerate() {
        entry = cross.entries.get(index(cross, classes, 0));
        classes[engine.leaves.len() + at][0] = entry;
    }
    entry
}

/// Returns the place of a key's entry.
#[inline(always)]
fn index(cross: &Cross, classes: &[[u32; CHUNK]], key: usize) -> usize {
    let Cross { slots: [a, b], third, counts, .. } = cross;
    let pair = u64::from(classes[*a][key]) * u64::from(counts[0]) + u64::from(classes[*b][key]);
    match third {
        None => pair as usize,
        Some(c) => (pair * u64::from(counts[1]) + u64::from(classes[*c][key])) as usize,
    }
}

/// Finds the class of a word.
#[inline(always)]
fn one<I: Isa>(isa: I, leaf: &Leaf, word: u32) -> u32 {
    let value = leaf.column.of(word);
    match &leaf.search {
        Search::Tree(tree) => {
            let (once, again) = ([value], [&value]);
            let [class] = match tree.depth() {
                0 => isa.find(tree.view::<0>(), once, again),
                1 => isa.find(tree.view::<1>(), once, again),
                2 => isa.find(tree.view::<2>(), once, again),
                3 => isa.find(tree.view::<3>(), once, again),
                4 => isa.find(tree.view::<4>(), once, again),
                _ => isa.find(tree.view::<MOST_LEVELS>(), once, again),
            };
            u32::from(class)
        }
        Search::Pages(pages) => u32::from(pages.view().get(isa, value)),
        Search::Bits(table) => u32::from(table.view().get(isa, value)),
        Search::Values(entries) => entries.get(value as usize),
    }
}

/// Finds the classes of at most [`CHUNK`] keys.
#[inline(always)]
fn chunk<I: Isa>(isa: I, engine: &Rfc, keys: Keys<'_>, classes: &mut [[u32; CHUNK]]) {
    let count = keys.len();
    let mut column = [0; CHUNK];
    for (leaf, found) in engine.leaves.iter().zip(&mut *classes) {
        let rows = keys.words().chunks_exact(keys.stride());
        column.iter_mut().zip(rows).for_each(|(value, row)| *value = leaf.column.of(row[leaf.column.word]));
        let column = &column[..count.next_multiple_of(EIGHT)];
        let found = &mut found[..column.len()];
        match &leaf.search {
            Search::Tree(tree) => match tree.depth() {
                0 => descend::<I, 0>(isa, tree, column, found),
                1 => descend::<I, 1>(isa, tree, column, found),
                2 => descend::<I, 2>(isa, tree, column, found),
                3 => descend::<I, 3>(isa, tree, column, found),
                4 => descend::<I, 4>(isa, tree, column, found),
                _ => descend::<I, MOST_LEVELS>(isa, tree, column, found),
            },
            Search::Pages(pages) => {
                let pages = pages.view();
                found.iter_mut().zip(column).for_each(|(class, &value)| *class = u32::from(pages.get(isa, value)));
            }
            Search::Bits(table) => {
                let table = table.view();
                found.iter_mut().zip(column).for_each(|(class, &value)| *class = u32::from(table.get(isa, value)));
            }
            Search::Values(entries) => {
                found.iter_mut().zip(column).for_each(|(class, &value)| *class = entries.get(value as usize));
            }
        }
    }
    let mut places = [0; CHUNK];
    for (at, cross) in engine.tables.iter().enumerate() {
        let places = &mut places[..count];
        places.iter_mut().enumerate().for_each(|(key, place)| *place = index(cross, classes, key));
        let found = &mut classes[engine.leaves.len() + at][..count];
        match &cross.entries {
            Entries::Short(entries) => read(isa, cross, entries, places, found),
            Entries::Long(entries) => read(isa, cross, entries, places, found),
        }
    }
}

/// Reads the entries of a table at some places.
#[inline(always)]
fn read<I: Isa, T: Copy + Into<u32>>(isa: I, cross: &Cross, entries: &[T], places: &[usize], found: &mut [u32]) {
    if cross.prefetches {
        places.iter().filter_map(|&place| entries.get(place)).for_each(|entry| isa.prefetch(entry));
    }
    found
        .iter_mut()
        .zip(places)
        .for_each(|(class, &place)| *class = entries.get(place).map_or(0, |&entry| entry.into()));
}

/// Finds the classes of values in a tree, eight side by side.
#[inline(always)]
fn descend<I: Isa, const DEPTH: usize>(isa: I, tree: &Tree, column: &[u32], found: &mut [u32]) {
    let tree = tree.view::<DEPTH>();
    for (found, values) in found.as_chunks_mut::<EIGHT>().0.iter_mut().zip(column.as_chunks::<EIGHT>().0) {
        *found = isa.find::<DEPTH, EIGHT>(tree, *values, values.each_ref()).map(u32::from);
    }
}
