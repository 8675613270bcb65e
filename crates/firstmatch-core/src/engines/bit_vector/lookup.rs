//! Lookups: chunks of keys go through each dimension, then each key through its vectors.

use super::{BitVector, Dimension, FAR, GROUP, GROUP_WORDS, Join, NEAR, Rows, SHORT_WORDS};
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, LINE_WORDS, MOST_LEVELS, Tree, words};

/// Number of keys in flight.
const CHUNK: usize = 64;
/// Number of keys side by side.
const EIGHT: usize = 8;
/// Minimum number of keys of a remainder that are padded to eight; fewer go one by one.
const PADDED: usize = 4;
/// Rank of no product.
const NONE: u32 = u32::MAX;

/// Values of a chunk of keys, slot by slot.
///
/// There are at least as many slots as the engine has that last used it.
#[derive(Debug, Default)]
pub struct Slots(Vec<[u16; CHUNK]>);

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        Self(vec![[0; CHUNK]; count])
    }
}

/// Lookup of a batch.
///
/// The kernel borrows it, and it borrows the keys, so that neither is copied. A copy may be read in wider pieces than
/// it was just written in. Store forwarding cannot serve such a load, which waits until all earlier stores are done.
pub(super) struct Lookup<'a, A> {
    pub(super) engine: &'a BitVector,
    pub(super) slots: &'a mut Slots,
    pub(super) live_rules: A,
    pub(super) keys: &'a Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl<A: LiveRules> Kernel for &mut Lookup<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let &mut Lookup { engine, ref mut slots, live_rules, keys, ref mut best } = self;
        let count = engine.dimensions.len() + engine.joins.len();
        if slots.0.len() < count {
            slots.0.resize(count, [0; CHUNK]);
        }
        let slots = &mut slots.0[..count];
        let mut from = 0;
        while from < best.len() {
            // Whole eights go first, then a few keys padded to eight.
            let left = best.len() - from;
            let count = if left < EIGHT { left } else { (left / EIGHT * EIGHT).min(CHUNK) };
            if count < PADDED {
                break;
            }
            let keys = keys.slice(from, from + count);
            let best = &mut best[from..from + count];
            from += count;
            // Rows of eight words, as those of IPv4, need no multiplication and no bounds check.
            match keys.stride() {
                8 if count >= EIGHT => search::<I, 8>(isa, engine, keys, slots),
                _ => search::<I, 1>(isa, engine, keys, slots),
            }
            join(engine, slots, count);
            let mut ranks = [[NONE; EIGHT]; CHUNK / EIGHT];
            let ranks = &mut ranks[..count.div_ceil(EIGHT)];
            for group in 0..engine.groups {
                // Later groups cannot lower a rank.
                if group > 0 && ranks.as_flattened()[..count].iter().all(|&rank| rank != NONE) {
                    break;
                }
                (0..count).for_each(|_| live_rules.saw(Step::Group));
                let living = living(live_rules, group);
                let among = (!A::ALL).then_some(&living);
                match engine.read.len() {
                    _ if A::COUNTS => intersect_any(isa, engine, group, among, slots, ranks),
                    1 => intersect::<I, 1>(isa, engine, group, among, slots, ranks),
                    2 => intersect::<I, 2>(isa, engine, group, among, slots, ranks),
                    3 => intersect::<I, 3>(isa, engine, group, among, slots, ranks),
                    4 => intersect::<I, 4>(isa, engine, group, among, slots, ranks),
                    5 => intersect::<I, 5>(isa, engine, group, among, slots, ranks),
                    6 => intersect::<I, 6>(isa, engine, group, among, slots, ranks),
                    7 => intersect::<I, 7>(isa, engine, group, among, slots, ranks),
                    8 => intersect::<I, 8>(isa, engine, group, among, slots, ranks),
                    _ => intersect_any(isa, engine, group, among, slots, ranks),
                }
            }
            improve(best, &engine.matches, ranks);
        }
        for (index, best) in best.iter_mut().enumerate().skip(from) {
            let rank = alone(isa, engine, live_rules, keys.row(index), slots);
            improve_one(best, &engine.matches, rank);
        }
    }
}

/// Returns the rank for one key.
#[inline(always)]
fn alone<I: Isa, A: LiveRules>(
    isa: I,
    engine: &BitVector,
    live_rules: A,
    key: &[u32],
    slots: &mut [[u16; CHUNK]],
) -> u32 {
    for (dimension, slot) in engine.dimensions.iter().zip(&mut *slots) {
        slot[0] = match dimension {
            Dimension::Search { word, tree } => {
                let (once, again) = ([key[*word]], [&key[*word]]);
                let [value] = match tree.depth() {
                    0 => isa.find(tree.view::<0>(), once, again),
                    1 => isa.find(tree.view::<1>(), once, again),
                    2 => isa.find(tree.view::<2>(), once, again),
                    3 => isa.find(tree.view::<3>(), once, again),
                    4 => isa.find(tree.view::<4>(), once, again),
                    _ => isa.find(tree.view::<MOST_LEVELS>(), once, again),
                };
                value
            }
            Dimension::Paged { word, pages } => pages.view().get(isa, key[*word]),
            Dimension::Direct { word, values } => values.view().get(isa, key[*word]),
        };
    }
    for (index, Join { slots: [a, b], third, values }) in engine.joins.iter().enumerate() {
        let third = third.map_or(0, |slot| slots[slot][0]);
        let sum = u32::from(slots[*a][0]) + u32::from(slots[*b][0]) + u32::from(third);
        slots[engine.dimensions.len() + index][0] = values.view().get(isa, sum);
    }
    for group in 0..engine.groups {
        live_rules.saw(Step::Group);
        let mut first = first_common(isa, engine, group, None, slots, 0);
        if !A::ALL && first < GROUP as u32 && !live_rules.is_live(group * GROUP + first as usize) {
            first = first_common(isa, engine, group, Some(&living(live_rules, group)), slots, 0);
        }
        if first < GROUP as u32 {
            return (group * GROUP) as u32 + first;
        }
    }
    NONE
}

/// Improves the matches of a chunk by the ranks found.
///
/// It is not inlined, because it needs no vector instructions, and the code around it would leave it no registers.
#[inline(never)]
fn improve(best: &mut [Option<Match>], matches: &[Match], ranks: &[[u32; EIGHT]]) {
    let (eights, rest) = best.as_chunks_mut::<EIGHT>();
    let (ranks, padded) = ranks.split_at(eights.len());
    for (best, ranks) in eights.iter_mut().zip(ranks) {
        for (best, &rank) in best.iter_mut().zip(ranks) {
            improve_one(best, matches, rank);
        }
    }
    for (best, &rank) in rest.iter_mut().zip(padded.as_flattened()) {
        improve_one(best, matches, rank);
    }
}

/// Improves the match of one key by the rank found.
#[inline(always)]
fn improve_one(best: &mut Option<Match>, matches: &[Match], rank: u32) {
    if let Some(found) = matches.get(rank as usize) {
        found.improve(best);
    }
}

/// Finds the values of the dimensions. `STRIDE` is the stride of the keys, or 1 for any stride.
#[inline(always)]
fn search<I: Isa, const STRIDE: usize>(isa: I, engine: &BitVector, keys: Keys<'_>, slots: &mut [[u16; CHUNK]]) {
    for (dimension, slot) in engine.dimensions.iter().zip(slots) {
        match dimension {
            Dimension::Search { word, tree } => match tree.depth() {
                0 => descend::<I, STRIDE, 0>(isa, tree, keys, *word, slot),
                1 => descend::<I, STRIDE, 1>(isa, tree, keys, *word, slot),
                2 => descend::<I, STRIDE, 2>(isa, tree, keys, *word, slot),
                3 => descend::<I, STRIDE, 3>(isa, tree, keys, *word, slot),
                4 => descend::<I, STRIDE, 4>(isa, tree, keys, *word, slot),
                _ => descend::<I, STRIDE, MOST_LEVELS>(isa, tree, keys, *word, slot),
            },
            Dimension::Paged { word, pages } => {
                let pages = pages.view();
                each_word::<STRIDE>(
                    keys,
                    *word,
                    slot,
                    #[inline(always)]
                    move |word| pages.get(isa, word),
                );
            }
            Dimension::Direct { word, values } => {
                let values = values.view();
                each_word::<STRIDE>(
                    keys,
                    *word,
                    slot,
                    #[inline(always)]
                    move |word| values.get(isa, word),
                );
            }
        }
    }
}

#[inline(always)]
fn descend<I: Isa, const STRIDE: usize, const DEPTH: usize>(
    isa: I,
    tree: &Tree,
    keys: Keys<'_>,
    word: usize,
    slot: &mut [u16; CHUNK],
) {
    let tree = tree.view::<DEPTH>();
    each::<STRIDE>(
        keys,
        word,
        slot,
        #[inline(always)]
        move |words, again| isa.find::<DEPTH, EIGHT>(tree, words, again),
    );
}

/// Finds the values of all keys by `value`, from word `word` of each key.
#[inline(always)]
fn each_word<const STRIDE: usize>(
    keys: Keys<'_>,
    word: usize,
    slot: &mut [u16; CHUNK],
    value: impl Fn(u32) -> u16 + Copy,
) {
    each::<STRIDE>(
        keys,
        word,
        slot,
        #[inline(always)]
        move |words, _| {
            let mut values = [0; EIGHT];
            for (found, key) in values.iter_mut().zip(words) {
                *found = value(key);
            }
            values
        },
    );
}

/// Finds the values of all keys by `values`, eight side by side.
///
/// `values` gets their words twice, by value and by reference.
#[inline(always)]
fn each<const STRIDE: usize>(
    keys: Keys<'_>,
    word: usize,
    slot: &mut [u16; CHUNK],
    values: impl Fn([u32; EIGHT], [&u32; EIGHT]) -> [u16; EIGHT],
) {
    let mut column = [0; CHUNK];
    let (words, word) = if STRIDE == 1 {
        let rows = keys.words().chunks_exact(keys.stride());
        let count = rows.len().min(CHUNK);
        column.iter_mut().zip(rows).for_each(|(value, row)| *value = row[word]);
        (&column[..count.next_multiple_of(EIGHT)], 0)
    } else {
        (keys.words(), word % STRIDE)
    };
    let rows = words.as_chunks::<STRIDE>().0.as_chunks::<EIGHT>().0;
    // The compiler must not know that this is `word`, otherwise it would read the words once and copy them.
    let same = std::hint::black_box(word) % STRIDE;
    for (slots, rows) in slot.as_chunks_mut::<EIGHT>().0.iter_mut().zip(rows) {
        let (mut words, mut again) = ([0; EIGHT], [&0; EIGHT]);
        for ((value, again), row) in words.iter_mut().zip(&mut again).zip(rows) {
            (*value, *again) = (row[word], &row[same]);
        }
        *slots = values(words, again);
    }
}

/// Finds the values of the joins.
#[inline(always)]
fn join(engine: &BitVector, slots: &mut [[u16; CHUNK]], keys: usize) {
    let eights = keys.div_ceil(EIGHT);
    for (index, Join { slots: [a, b], third, values }) in engine.joins.iter().enumerate() {
        let (known, new) = slots.split_at_mut(engine.dimensions.len() + index);
        let of = |slot: usize| &known[slot].as_chunks().0[..eights];
        let found = &mut new[0].as_chunks_mut().0[..eights];
        match third {
            None => values.view().get_sums([of(*a), of(*b)], found),
            Some(c) => values.view().get_sums([of(*a), of(*b), of(*c)], found),
        }
    }
}

/// Lowers each key's rank to the first product of a group that all its vectors have.
///
/// `READ` is the number of vectors that are read.
#[inline(always)]
fn intersect<I: Isa, const READ: usize>(
    isa: I,
    engine: &BitVector,
    group: usize,
    among: Option<&[u32; GROUP_WORDS]>,
    slots: &[[u16; CHUNK]],
    ranks: &mut [[u32; EIGHT]],
) {
    let lines = &engine.vectors[group * GROUP_WORDS / LINE_WORDS..];
    let mut places: [&[[u16; EIGHT]]; READ] = [&[]; READ];
    for (places, &slot) in places.iter_mut().zip(&engine.read) {
        *places = &slots[slot].as_chunks().0[..ranks.len()];
    }
    match engine.rows {
        // Without a common bit, the result is at least the number of bits of a row, so it is no product's rank.
        Rows::Short => {
            let among = among.and_then(|among| among.first_chunk());
            isa.first_common8::<READ, SHORT_WORDS, NEAR>(lines, places, among, ranks);
        }
        Rows::Near => isa.first_common8::<READ, GROUP_WORDS, NEAR>(lines, places, among, ranks),
        Rows::Far => {
            let mut first = [[0; EIGHT]; CHUNK / EIGHT];
            let first = &mut first[..ranks.len()];
            isa.first_common8::<READ, GROUP_WORDS, FAR>(lines, places, among, first);
            for (old, &first) in ranks.as_flattened_mut().iter_mut().zip(first.as_flattened()) {
                *old = rank(group, first).min(*old);
            }
        }
    }
}

/// Does the same as `intersect` for any number of vectors.
#[inline(always)]
fn intersect_any<I: Isa>(
    isa: I,
    engine: &BitVector,
    group: usize,
    among: Option<&[u32; GROUP_WORDS]>,
    slots: &[[u16; CHUNK]],
    ranks: &mut [[u32; EIGHT]],
) {
    for (key, found) in ranks.as_flattened_mut().iter_mut().enumerate() {
        *found = rank(group, first_common(isa, engine, group, among, slots, key)).min(*found);
    }
}

/// Returns the first bit of a group that all vectors of one key have; `GROUP` or more if there is none.
#[inline(always)]
fn first_common<I: Isa>(
    isa: I,
    engine: &BitVector,
    group: usize,
    among: Option<&[u32; GROUP_WORDS]>,
    slots: &[[u16; CHUNK]],
    key: usize,
) -> u32 {
    let words = words(&engine.vectors);
    let place = |&slot: &usize| usize::from(slots[slot][key]) * engine.rows.unit();
    let read = engine.read.iter();
    if engine.rows == Rows::Short {
        let row = |slot| words[place(slot)..].first_chunk::<SHORT_WORDS>().expect("a row");
        let first = isa.first_common(read.map(row).chain(among.and_then(|among| among.first_chunk())));
        return if first < 32 * SHORT_WORDS as u32 { first } else { NONE };
    }
    let row = |slot| words[place(slot) + group * GROUP_WORDS..].first_chunk::<GROUP_WORDS>().expect("a row");
    isa.first_common(read.map(row).chain(among))
}

/// Returns the rank of the first common bit of a group, or `NONE`.
#[inline(always)]
fn rank(group: usize, first: u32) -> u32 {
    if first < GROUP as u32 { first + (group * GROUP) as u32 } else { NONE }
}

/// Returns the live products of a group, one bit each.
#[inline(always)]
fn living<A: LiveRules>(live_rules: A, group: usize) -> [u32; GROUP_WORDS] {
    let mut living = [0; GROUP_WORDS];
    if !A::ALL {
        for eight in 0..GROUP / 8 {
            living[eight / 4] |= live_rules.of_eight(group * GROUP / 8 + eight) << (eight % 4 * 8);
        }
    }
    living
}
