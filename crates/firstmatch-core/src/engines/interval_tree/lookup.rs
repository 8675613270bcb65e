//! Lookups: keys side by side by halving, or one by one in trees that turn.

use super::config::Batches;
use super::scratch::{BATCH, Shapes};
use super::sets::{BLOCK, Lists, Sets, Vectors};
use super::shape::{Walked, halve, halvings};
use super::structure::{Npf, Word};
use crate::engine::Match;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, LINE_WORDS};

/// Number of keys below which they are searched one by one.
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
            search(engine, shapes, keys, best.len(), watch);
            for (at, best) in best.iter_mut().enumerate() {
                improve(engine, first(engine, shapes, keys.row(at), at, watch), best);
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

/// Finds the classes of up to 32 keys side by side.
///
/// A short batch repeats its last key, so that the loops have a fixed length.
#[inline(always)]
fn search<W: Watch>(engine: &Npf, shapes: &mut Shapes, keys: Keys<'_>, count: usize, watch: &mut W) {
    for &at in &engine.read {
        let Word { starts, classes, .. } = &engine.words[at];
        let mut values = [0; BATCH];
        values.iter_mut().enumerate().for_each(|(key, value)| *value = keys.row(key.min(count - 1))[at]);
        let (mut base, mut left) = ([0u32; BATCH], starts.len());
        while left > 1 {
            let half = left / 2;
            for (base, &value) in base.iter_mut().zip(&values) {
                // A comparison and a multiplication need no branch.
                *base += u32::from(starts[*base as usize + half] <= value) * half as u32;
            }
            left -= half;
        }
        for (class, &base) in shapes.classes[at].iter_mut().zip(&base) {
            *class = classes[base as usize];
        }
        (0..count).for_each(|_| watch.searched(0, 0, halvings(starts.len())));
    }
}

/// Returns the first product that all words of a key of a batch have.
#[inline(always)]
fn first<W: Watch>(engine: &Npf, shapes: &mut Shapes, key: &[u32], lane: usize, watch: &mut W) -> Option<usize> {
    let Shapes { classes, stored, list, .. } = shapes;
    match engine.read.first().map(|&word| &engine.words[word].sets) {
        None => (0..engine.matches.len()).find(|&product| engine.passes(product, key)),
        Some(Sets::Vectors(Vectors { summary, .. })) => {
            first_common(engine, classes, stored, key, (lane, *summary), watch)
        }
        Some(Sets::Lists(_)) => {
            let mut is_first = true;
            for &word in &engine.read {
                let Sets::Lists(lists) = &engine.words[word].sets else { continue };
                narrow_list(lists, classes[word][lane], list, is_first, watch);
                is_first = false;
            }
            let mut all = list.iter().map(|&product| product as usize);
            all.find(|&product| engine.passes(product, key))
        }
    }
}

/// Returns the first product that the vectors of all words have.
#[inline(always)]
fn first_common<W: Watch>(
    engine: &Npf,
    classes: &[[u32; BATCH]],
    stored: &mut [usize],
    key: &[u32],
    (lane, summary): (usize, usize),
    watch: &mut W,
) -> Option<usize> {
    let vectors = |word: usize| match &engine.words[word].sets {
        Sets::Vectors(vectors) => vectors,
        Sets::Lists(_) => unreachable!("all words have sets of one form"),
    };
    for &word in &engine.read {
        stored[word] = vectors(word).stored(classes[word][lane]);
        watch.read(0, summary.div_ceil(LINE_WORDS / 2) + 1);
    }
    for at in 0..summary {
        let mut common = u64::MAX;
        for &word in &engine.read {
            let vectors = vectors(word);
            common &= vectors.own_summary(classes[word][lane], at) | vectors.open[at];
        }
        while common != 0 {
            let block = at * BLOCK + common.trailing_zeros() as usize;
            common &= common - 1;
            let mut bits = u64::MAX;
            for &word in &engine.read {
                let vectors = vectors(word);
                bits &= vectors.block(block, vectors.own_summary(classes[word][lane], at), stored[word]);
            }
            watch.read(engine.read.len(), 2 * engine.read.len());
            if let Some(found) = first_passing(engine, block, bits, key) {
                return Some(found);
            }
        }
        for &word in &engine.read {
            stored[word] += vectors(word).own_summary(classes[word][lane], at).count_ones() as usize;
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

/// Returns the first product that holds a key, whose words are searched one by one.
///
/// It leaves once no product is left, if [`Config::bypass`](super::Config::bypass) says so.
pub(super) fn alone<W: Watch>(engine: &Npf, shapes: &mut Shapes, key: &[u32], watch: &mut W) -> Option<usize> {
    let Shapes { shapes: trees, sampler, sums, pairs, list, .. } = shapes;
    let is_counted = sampler.counts();
    let (mut edges, mut restarts) = (0, false);
    let mut held: Option<(&Vectors, u32)> = None;
    let (mut is_first, mut is_empty) = (true, false);
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
                halve(&word.starts, key[at])
            }
        };
        if word.is_open {
            continue;
        }
        let class = word.classes[interval as usize];
        is_empty = match (&word.sets, held) {
            (Sets::Lists(lists), _) => {
                narrow_list(lists, class, list, is_first, watch);
                list.is_empty()
            }
            (Sets::Vectors(vectors), None) if is_first => {
                held = Some((vectors, class));
                watch.read(0, vectors.summary.div_ceil(LINE_WORDS / 2) + 1);
                vectors.is_empty(class)
            }
            (Sets::Vectors(vectors), held_now) => {
                narrow_pairs(vectors, class, held_now, pairs, watch);
                held = None;
                pairs.is_empty()
            }
        };
        is_first = false;
        if is_empty && engine.config.bypass {
            break;
        }
    }
    if restarts {
        sampler.restart();
    }
    sampler.add(edges);
    if is_first {
        return (0..engine.matches.len()).find(|&product| engine.passes(product, key));
    }
    if is_empty {
        return None;
    }
    if let Some((vectors, class)) = held {
        pairs.clear();
        vectors.each_block(class, |at, bits| pairs.push((at as u32, bits)));
        watch.read(pairs.len(), 2 * pairs.len());
    }
    if let Some(Sets::Lists(_)) = engine.read.first().map(|&word| &engine.words[word].sets) {
        return list.iter().map(|&product| product as usize).find(|&product| engine.passes(product, key));
    }
    pairs.iter().find_map(|&(at, bits)| first_passing(engine, at as usize, bits, key))
}

/// Intersects the blocks so far, or those of the set `held`, with a set.
#[inline(always)]
fn narrow_pairs<W: Watch>(
    vectors: &Vectors,
    class: u32,
    held: Option<(&Vectors, u32)>,
    pairs: &mut Vec<(u32, u64)>,
    watch: &mut W,
) {
    let mut stored = vectors.stored(class);
    if let Some((other, of_other)) = held {
        pairs.clear();
        let mut stored_of_other = other.stored(of_other);
        for at in 0..vectors.summary {
            let (own, others) = (vectors.own_summary(class, at), other.own_summary(of_other, at));
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
                stored += vectors.own_summary(class, word).count_ones() as usize;
                word += 1;
            }
            *bits &= vectors.block(*block as usize, vectors.own_summary(class, word), stored);
            watch.read(1, 2);
            *bits != 0
        });
    }
    watch.read(0, vectors.summary.div_ceil(LINE_WORDS / 2) + 1);
}

/// Intersects the products so far with a list, or takes the list if it is the first.
#[inline(always)]
fn narrow_list<W: Watch>(lists: &Lists, class: u32, list: &mut Vec<u32>, is_first: bool, watch: &mut W) {
    let (mut own, mut open) = lists.of(class);
    let parts = own.len() + open.len();
    watch.read(parts, parts / LINE_WORDS + 3);
    let next = |from: &mut &[u32], least: u32| {
        while let [first, rest @ ..] = *from
            && *first < least
        {
            *from = rest;
        }
        from.first() == Some(&least)
    };
    if !is_first {
        list.retain(|&product| next(&mut own, product) || next(&mut open, product));
        return;
    }
    list.clear();
    loop {
        let from = match (own.first(), open.first()) {
            (Some(a), Some(b)) if a < b => &mut own,
            (_, Some(_)) => &mut open,
            (Some(_), None) => &mut own,
            (None, None) => return,
        };
        list.push(from[0]);
        *from = &from[1..];
    }
}
