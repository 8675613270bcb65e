//! Lookups: keys side by side by halving, or one by one in trees that turn.

use super::config::Batches;
use super::scratch::{BATCH, FoundSets, Shapes};
use super::sets::{BLOCK, Lists, Sets, Vectors};
use super::shape::{Walked, halvings};
use super::structure::{Npf, Word};
use crate::engine::Match;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, LINE_WORDS, halve};

/// Batches of fewer keys are searched key by key.
const FEW: usize = 4;

/// Observer of the steps of lookups.
pub(super) trait Watch {
    /// A word was searched in `nodes` nodes and `halvings` steps of halving, and a walk followed `edges` edges.
    fn searched(&mut self, _edges: u32, _nodes: u32, _halvings: u32) {}

    /// Parts of a set were read: blocks or entries, and lines of memory.
    fn read(&mut self, _parts: usize, _lines: usize) {}
}

/// Observer that sees nothing.
pub(super) struct Unwatched;

impl Watch for Unwatched {}

/// Lookup of a batch.
pub(super) struct Lookup<'a, 'w, W> {
    pub(super) engine: &'a Npf,
    pub(super) shapes: &'a mut Shapes,
    pub(super) keys: &'a Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
    pub(super) batches: Batches,
    pub(super) watch: &'w mut W,
}

impl<W: Watch> Kernel for Lookup<'_, '_, W> {
    #[inline(always)]
    fn run<I: Isa>(self, _isa: I) {
        let Self { engine, shapes, keys, best, batches, watch } = self;
        if engine.matches.is_empty() {
            return;
        }
        for (chunk, best) in best.chunks_mut(BATCH).enumerate() {
            let keys = keys.slice(chunk * BATCH, chunk * BATCH + best.len());
            if batches == Batches::Turn || best.len() < FEW {
                for (at, best) in best.iter_mut().enumerate() {
                    improve(engine, alone(engine, shapes, keys.row(at), watch), best);
                }
                continue;
            }
            search(engine, &mut shapes.found, keys, best.len(), watch);
            for (at, best) in best.iter_mut().enumerate() {
                improve(engine, first(engine, &mut shapes.found, keys.row(at), at, watch), best);
            }
        }
    }
}

#[inline(always)]
fn improve(engine: &Npf, found: Option<usize>, best: &mut Option<Match>) {
    if let Some(found) = found {
        engine.matches[found].improve(best);
    }
}

/// Finds the sets of up to 32 keys side by side.
///
/// A short batch repeats its last key, so that the loops have a fixed length.
#[inline(always)]
fn search<W: Watch>(engine: &Npf, found: &mut FoundSets, keys: Keys<'_>, count: usize, watch: &mut W) {
    for lane in 0..BATCH {
        let row = keys.row(lane.min(count - 1));
        for (values, &word) in found.sets.iter_mut().zip(&engine.read) {
            values[lane] = row[word];
        }
    }
    // The sets of each word replace its values.
    for (&word, found) in engine.read.iter().zip(&mut found.sets) {
        let Word { starts, sets, .. } = &engine.words[word];
        *found = halve(starts, found).map(|interval| sets[interval as usize]);
        (0..count).for_each(|_| watch.searched(0, 0, halvings(starts.len())));
    }
}

/// Returns the first product that all words of a key of a batch have.
#[inline(always)]
pub(super) fn first<W: Watch>(
    engine: &Npf,
    found: &mut FoundSets,
    key: &[u32],
    lane: usize,
    watch: &mut W,
) -> Option<usize> {
    if engine.read.is_empty() {
        return (0..engine.matches.len()).find(|&product| engine.passes(product, key));
    }
    match &engine.sets {
        Sets::Vectors(vectors) => first_common(engine, vectors, &found.sets, &mut found.places, key, lane, watch),
        Sets::Lists(lists) => {
            found.places.fill([0; 2]);
            lists.iter().for_each(|_| watch.read(0, 3));
            first_listed(engine, lists, found, key, lane, 0, watch)
        }
    }
}

/// Returns the first product that the vectors of all words have.
#[inline(always)]
fn first_common<W: Watch>(
    engine: &Npf,
    vectors: &[Vectors],
    rows: &[[u32; BATCH]],
    places: &mut [[usize; 2]],
    key: &[u32],
    lane: usize,
    watch: &mut W,
) -> Option<usize> {
    let summary = vectors[0].summary;
    vectors.iter().for_each(|_| watch.read(0, summary.div_ceil(LINE_WORDS / 2) + 1));
    // Most engines have one word of bits for blocks, so that no places of further blocks are needed.
    let of_rows = rows.iter().map(|rows| rows[lane] as usize + summary);
    let first = common_at(engine, vectors, rows, 0, of_rows, key, lane, watch);
    if first.is_some() || summary == 1 {
        return first;
    }
    for ((vectors, rows), [stored, _]) in vectors.iter().zip(rows).zip(&mut *places) {
        *stored = vectors.stored(rows[lane]);
    }
    (1..summary).find_map(|at| {
        for ((vectors, rows), [stored, _]) in vectors.iter().zip(rows).zip(&mut *places) {
            *stored += vectors.own_summary(rows[lane], at - 1).count_ones() as usize;
        }
        common_at(engine, vectors, rows, at, places.iter().map(|[stored, _]| *stored), key, lane, watch)
    })
}

/// Returns the first product from `from` on that all lists have, and moves their places on.
///
/// Products of the shortest list are searched for in the others, up to one that lacks the product. There the search goes
/// on with the next product that the other has.
#[inline(always)]
fn next_listed<W: Watch>(
    lists: &[Lists],
    sets: &[[u32; BATCH]],
    places: &mut [[usize; 2]],
    lane: usize,
    from: u32,
    watch: &mut W,
) -> Option<u32> {
    let length = |at: &usize| lists[*at].len(sets[*at][lane]);
    let shortest = (0..lists.len()).min_by_key(length)?;
    let mut reach = |at: usize, least: u32| {
        let (mut looked, before) = (0, places[at]);
        let next = lists[at].reach(sets[at][lane], &mut places[at], least, &mut looked);
        let lines: usize = places[at].iter().zip(before).map(|(to, from)| to / LINE_WORDS - from / LINE_WORDS).sum();
        watch.read(looked, lines.min(looked));
        next
    };
    let mut product = from;
    'products: loop {
        product = reach(shortest, product)?;
        for at in (0..lists.len()).filter(|at| *at != shortest) {
            let next = reach(at, product)?;
            if next != product {
                product = next;
                continue 'products;
            }
        }
        return Some(product);
    }
}

/// Returns the first product from `from` on that all lists have and whose masks a key passes.
#[inline(always)]
fn first_listed<W: Watch>(
    engine: &Npf,
    lists: &[Lists],
    found: &mut FoundSets,
    key: &[u32],
    lane: usize,
    mut from: u32,
    watch: &mut W,
) -> Option<usize> {
    loop {
        let product = next_listed(lists, &found.sets, &mut found.places, lane, from, watch)?;
        if engine.passes(product as usize, key) {
            return Some(product as usize);
        }
        from = product + 1;
    }
}

/// Returns the first product that the vectors of all words have in the blocks of word number `at` of their summaries.
///
/// `stored` has, for each vector, the place of the first of these blocks that it stores.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a loop body of one caller")]
fn common_at<W: Watch>(
    engine: &Npf,
    vectors: &[Vectors],
    rows: &[[u32; BATCH]],
    at: usize,
    stored: impl Iterator<Item = usize> + Clone,
    key: &[u32],
    lane: usize,
    watch: &mut W,
) -> Option<usize> {
    let all = || vectors.iter().zip(rows);
    let narrow = |common, (vectors, rows): (&Vectors, &[u32; BATCH])| {
        common & (vectors.own_summary(rows[lane], at) | vectors.open[at])
    };
    let mut common = all().fold(u64::MAX, narrow);
    while common != 0 {
        let block = at * BLOCK + common.trailing_zeros() as usize;
        common &= common - 1;
        let mut bits = u64::MAX;
        for ((vectors, rows), stored) in all().zip(stored.clone()) {
            bits &= vectors.block(block, vectors.own_summary(rows[lane], at), stored);
        }
        watch.read(vectors.len(), 2 * vectors.len());
        if let Some(found) = first_passing(engine, block, bits, key) {
            return Some(found);
        }
    }
    None
}

/// Returns the first product of a block whose masks a key passes.
#[inline(always)]
fn first_passing(engine: &Npf, block: usize, mut bits: u64, key: &[u32]) -> Option<usize> {
    while bits != 0 {
        let product = block * BLOCK + bits.trailing_zeros() as usize;
        if engine.passes(product, key) {
            return Some(product);
        }
        bits &= bits - 1;
    }
    None
}

/// Returns the first product that holds a key, and searches one word of the key after another.
///
/// With [`Config::bypass`](super::Config::bypass), it stops once no product is left.
pub(super) fn alone<W: Watch>(engine: &Npf, shapes: &mut Shapes, key: &[u32], watch: &mut W) -> Option<usize> {
    let Shapes { shapes: trees, sampler, sums, pairs, found, .. } = shapes;
    let is_counted = sampler.counts();
    let (mut edges, mut restarts) = (0, false);
    let (mut held, mut listed): (Option<(&Vectors, u32)>, Option<u32>) = (None, Some(0));
    let (mut read, mut is_empty) = (0, false);
    for (at, word) in engine.words.iter().enumerate() {
        let interval = match trees.get_mut(at) {
            Some(tree) => {
                let before = tree.counters().reconstructions;
                let Walked { interval, edges: own, is_capped } = tree.find(&word.starts, key[at], is_counted, sums);
                restarts |= tree.counters().reconstructions != before;
                edges += own;
                watch.searched(own, own + 1, if is_capped { halvings(word.starts.len()) } else { 0 });
                interval
            }
            None => {
                watch.searched(0, 0, halvings(word.starts.len()));
                halve(&word.starts, &[key[at]])[0]
            }
        };
        if word.is_open {
            continue;
        }
        let set = word.sets[interval as usize];
        is_empty = match &engine.sets {
            Sets::Lists(lists) => {
                (found.sets[read][0], found.places[read]) = (set, [0; 2]);
                watch.read(0, 3);
                let FoundSets { sets, places } = &mut *found;
                listed = listed.and_then(|from| next_listed(&lists[..=read], sets, places, 0, from, watch));
                listed.is_none()
            }
            Sets::Vectors(all) if read == 0 => {
                held = Some((&all[0], set));
                watch.read(0, all[0].summary.div_ceil(LINE_WORDS / 2) + 1);
                all[0].is_empty(set)
            }
            Sets::Vectors(all) => {
                narrow_pairs(&all[read], set, held.take(), pairs, watch);
                pairs.is_empty()
            }
        };
        read += 1;
        if is_empty && engine.config.bypass {
            break;
        }
    }
    if restarts {
        sampler.restart();
    }
    sampler.add(edges);
    if read == 0 {
        return (0..engine.matches.len()).find(|&product| engine.passes(product, key));
    }
    if is_empty {
        return None;
    }
    if let Some((vectors, row)) = held {
        pairs.clear();
        vectors.each_block(row, |at, bits| pairs.push((at as u32, bits)));
        watch.read(pairs.len(), 2 * pairs.len());
    }
    if let (Sets::Lists(lists), Some(from)) = (&engine.sets, listed) {
        return first_listed(engine, lists, found, key, 0, from, watch);
    }
    pairs.iter().find_map(|&(at, bits)| first_passing(engine, at as usize, bits, key))
}

/// Intersects the blocks so far, or the blocks of the set `held`, with a set.
#[inline(always)]
fn narrow_pairs<W: Watch>(
    vectors: &Vectors,
    row: u32,
    held: Option<(&Vectors, u32)>,
    pairs: &mut Vec<(u32, u64)>,
    watch: &mut W,
) {
    let mut stored = vectors.stored(row);
    if let Some((other, of_other)) = held {
        pairs.clear();
        let mut stored_of_other = other.stored(of_other);
        for at in 0..vectors.summary {
            let (own, others) = (vectors.own_summary(row, at), other.own_summary(of_other, at));
            let mut common = (own | vectors.open[at]) & (others | other.open[at]);
            while common != 0 {
                let block = at * BLOCK + common.trailing_zeros() as usize;
                common &= common - 1;
                watch.read(2, 4);
                let bits = vectors.block(block, own, stored) & other.block(block, others, stored_of_other);
                if bits != 0 {
                    pairs.push((block as u32, bits));
                }
            }
            stored += own.count_ones() as usize;
            stored_of_other += others.count_ones() as usize;
        }
    } else {
        let mut word = 0;
        pairs.retain_mut(|(block, bits)| {
            // Pairs come in order, so the blocks before them are counted once.
            while word < *block as usize / BLOCK {
                stored += vectors.own_summary(row, word).count_ones() as usize;
                word += 1;
            }
            *bits &= vectors.block(*block as usize, vectors.own_summary(row, word), stored);
            watch.read(1, 2);
            *bits != 0
        });
    }
    watch.read(0, vectors.summary.div_ceil(LINE_WORDS / 2) + 1);
}
