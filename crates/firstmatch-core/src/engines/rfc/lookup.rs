//! Lookups: chunks of keys go through each leaf, then through each table.

use std::hint::black_box;
use std::ops::Range;

use super::compact::Ranked;
use super::config::{BatchWalk, BitCount};
use super::entries::Entries;
use super::leaves::{Leaf, Search};
use super::structure::{Cross, Rfc, Slot};
use super::table::Cells;
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

/// Lookup of a batch, or of some of its slots.
pub(super) struct Lookup<'a> {
    pub(super) engine: &'a Rfc,
    pub(super) classes: &'a mut ClassSlots,
    pub(super) keys: &'a Keys<'a>,
    pub(super) slots: Range<usize>,
    /// Classes that this lookup shares with lookups of other slots for the same keys; empty if it fills all slots.
    pub(super) words: &'a mut [u64],
    pub(super) best: &'a mut [Option<Match>],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, classes, keys, slots, words, best } = self;
        let (all, width) = (engine.slots(), words.len() / best.len().max(1));
        if classes.0.len() < all {
            classes.0.resize(all, [0; CHUNK]);
        }
        let classes = &mut classes.0[..all];
        let mut from = 0;
        while from < best.len() {
            let left = best.len() - from;
            let is_batch = engine.walk == BatchWalk::Batch && left >= TOGETHER;
            let count = if is_batch { left.min(CHUNK) } else { 1 };
            let words = &mut words[from * width..(from + count) * width];
            if width > 0 {
                load(words, width, slots.start, classes);
            }
            if is_batch {
                chunk(isa, engine, keys.slice(from, from + count), slots.clone(), classes);
            } else {
                alone(isa, engine, keys.row(from), slots.clone(), classes);
            }
            if width > 0 {
                store(words, width, slots.clone(), classes);
            }
            if slots.contains(&(all - 1)) {
                let found = &classes[all - 1];
                best[from..from + count].iter_mut().zip(found).for_each(|(best, &entry)| improve(engine, best, entry));
            }
            from += count;
        }
    }
}

/// Loads the classes of the first `slots` slots from words of at most [`CHUNK`] keys.
#[inline(always)]
fn load(words: &[u64], width: usize, slots: usize, classes: &mut [[u32; CHUNK]]) {
    for (slot, classes) in classes.iter_mut().enumerate().take(slots.min(2 * width)) {
        let halves = words.chunks_exact(width).map(|words| (words[slot / 2] >> (slot % 2 * 32)) as u32);
        classes.iter_mut().zip(halves).for_each(|(class, half)| *class = half);
    }
}

/// Stores the classes of some slots into words of at most [`CHUNK`] keys.
#[inline(always)]
fn store(words: &mut [u64], width: usize, slots: Range<usize>, classes: &[[u32; CHUNK]]) {
    for slot in slots.start..slots.end.min(2 * width) {
        let shift = slot % 2 * 32;
        for (words, &class) in words.chunks_exact_mut(width).zip(&classes[slot]) {
            let word = &mut words[slot / 2];
            *word = *word & !(u64::from(u32::MAX) << shift) | u64::from(class) << shift;
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

/// Finds the classes of one key in `slots`, and returns the last one.
#[inline(always)]
fn alone<I: Isa>(isa: I, engine: &Rfc, key: &[u32], slots: Range<usize>, classes: &mut [[u32; CHUNK]]) -> u32 {
    let waits = engine.walk == BatchWalk::Reads;
    let mut entry = 0;
    for slot in slots {
        let nothing = if waits { nothing_of(entry) } else { 0 };
        entry = match engine.slot(slot) {
            Slot::Leaf(leaf) => one(isa, leaf, leaf.column.of(key[leaf.column.word]) + nothing),
            Slot::Table(cross) => cross.cells.get(index(cross, classes, 0) + nothing as usize, engine.count),
        };
        classes[slot][0] = entry;
    }
    entry
}

/// Returns 0, computed from a class so that neither compiler nor processor knows it before the class is read.
#[inline(always)]
fn nothing_of(class: u32) -> u32 {
    // Classes are counted by `u32`, and far below its half: a table of so many would take gigabytes.
    black_box(class) >> 31
}

/// Count of the reads of accessory tables that lookups make.
pub(super) struct AccessoryReads<'a> {
    pub(super) engine: &'a Rfc,
    pub(super) classes: &'a mut ClassSlots,
    pub(super) keys: &'a Keys<'a>,
    pub(super) reads: &'a mut u64,
}

impl Kernel for AccessoryReads<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, classes, keys, reads } = self;
        for at in 0..keys.len() {
            alone(isa, engine, keys.row(at), 0..engine.slots(), &mut classes.0);
            for cross in &engine.tables {
                if let Cells::SubTables(tables) = &cross.cells {
                    *reads += u64::from(tables.is_outside(index(cross, &classes.0, 0)));
                }
            }
        }
    }
}

/// Returns the place of a key's entry.
#[inline(always)]
fn index(cross: &Cross, classes: &[[u32; CHUNK]], key: usize) -> usize {
    let Cross { slots: [a, b], third, counts, shifts, .. } = cross;
    if let Some([second, last]) = *shifts {
        let pair = u64::from(classes[*a][key]) << second | u64::from(classes[*b][key]);
        return third.map_or(pair, |c| pair << last | u64::from(classes[c][key])) as usize;
    }
    let pair = u64::from(classes[*a][key]) * u64::from(counts[0]) + u64::from(classes[*b][key]);
    match third {
        None => pair as usize,
        Some(c) => (pair * u64::from(counts[1]) + u64::from(classes[*c][key])) as usize,
    }
}

/// Finds the class of a value.
#[inline(always)]
fn one<I: Isa>(isa: I, leaf: &Leaf, value: u32) -> u32 {
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

/// Finds the classes of at most [`CHUNK`] keys in `slots`.
#[inline(always)]
fn chunk<I: Isa>(isa: I, engine: &Rfc, keys: Keys<'_>, slots: Range<usize>, classes: &mut [[u32; CHUNK]]) {
    // All slots share these buffers, because clearing them takes as long as some reads.
    let (mut column, mut places) = ([0; CHUNK], [0; CHUNK]);
    for slot in slots {
        match engine.slot(slot) {
            Slot::Leaf(leaf) => search(isa, leaf, keys, &mut column, &mut classes[slot]),
            Slot::Table(cross) => combine(isa, engine, cross, &mut places[..keys.len()], slot, classes),
        }
    }
}

/// Searches a leaf for the values of at most [`CHUNK`] keys.
#[inline(always)]
fn search<I: Isa>(isa: I, leaf: &Leaf, keys: Keys<'_>, column: &mut [u32; CHUNK], found: &mut [u32; CHUNK]) {
    let rows = keys.words().chunks_exact(keys.stride());
    column.iter_mut().zip(rows).for_each(|(value, row)| *value = leaf.column.of(row[leaf.column.word]));
    let column = &column[..keys.len().next_multiple_of(EIGHT)];
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

/// Reads a table for as many keys as there are places, and puts their classes into `slot`.
#[inline(always)]
fn combine<I: Isa>(
    isa: I,
    engine: &Rfc,
    cross: &Cross,
    places: &mut [usize],
    slot: usize,
    classes: &mut [[u32; CHUNK]],
) {
    places.iter_mut().enumerate().for_each(|(key, place)| *place = index(cross, classes, key));
    let found = &mut classes[slot][..places.len()];
    let finds = engine.count == BitCount::FindFirst;
    match &cross.cells {
        Cells::Plain(Entries::Short(entries)) => read(isa, cross, entries, places, found),
        Cells::Plain(Entries::Long(entries)) => read(isa, cross, entries, places, found),
        Cells::Ranked(ranked) if finds => read_ranked::<I, true>(isa, cross, ranked, places, found),
        Cells::Ranked(ranked) => read_ranked::<I, false>(isa, cross, ranked, places, found),
        Cells::SubTables(tables) => {
            if cross.prefetches {
                places.iter().filter_map(|&place| tables.first(place)).for_each(|word| isa.prefetch(word));
            }
            match (tables.shape.bitmap(), finds) {
                (1, false) => each(places, found, |place| tables.get::<true, false>(place)),
                (1, true) => each(places, found, |place| tables.get::<true, true>(place)),
                (_, false) => each(places, found, |place| tables.get::<false, false>(place)),
                (_, true) => each(places, found, |place| tables.get::<false, true>(place)),
            }
        }
    }
}

/// Finds the entry of each place by `entry`.
#[inline(always)]
fn each(places: &[usize], found: &mut [u32], entry: impl Fn(usize) -> u32) {
    found.iter_mut().zip(places).for_each(|(class, &place)| *class = entry(place));
}

/// Reads the entries of a table of ranked bitmaps at some places.
#[inline(always)]
fn read_ranked<I: Isa, const FIND: bool>(
    isa: I,
    cross: &Cross,
    ranked: &Ranked,
    places: &mut [usize],
    found: &mut [u32],
) {
    // Places of values overwrite those of entries, so that reads of both arrays overlap among keys.
    places.iter_mut().for_each(|place| *place = ranked.place::<FIND>(*place));
    match &ranked.values {
        Entries::Short(values) => read(isa, cross, values, places, found),
        Entries::Long(values) => read(isa, cross, values, places, found),
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
