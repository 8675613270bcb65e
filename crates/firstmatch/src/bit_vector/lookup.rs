//! Lookups: chunks of keys taken through each dimension, then each through its vectors.

use super::{BitVector, Dimension, GROUP, GROUP_LINES, GROUP_WORDS, Join};
use crate::alive::Alive;
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, MOST_LEVELS, Table, Tree, words};

/// Keys in flight.
const CHUNK: usize = 64;
/// Keys side by side.
const EIGHT: usize = 8;
/// The rank of no region.
const NONE: u32 = u32::MAX;

/// The values of a chunk of keys, slot by slot; at least as many slots as the engine has that was last asked.
#[derive(Debug, Default)]
pub struct Slots(Vec<[u16; CHUNK]>);

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        Self(vec![[0; CHUNK]; count])
    }
}

pub(super) struct Lookup<'a, A> {
    pub(super) engine: &'a BitVector,
    pub(super) slots: &'a mut Slots,
    pub(super) alive: A,
    pub(super) keys: Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl<A: Alive> Kernel for Lookup<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, slots, alive, keys, best } = self;
        let count = engine.dimensions.len() + engine.joins.len();
        if slots.0.len() < count {
            slots.0.resize(count, [0; CHUNK]);
        }
        let slots = &mut slots.0[..count];
        let (eights, rest) = best.split_at_mut(best.len() / EIGHT * EIGHT);
        for (index, best) in eights.chunks_mut(CHUNK).enumerate() {
            let from = index * CHUNK;
            let keys = keys.slice(from, from + best.len());
            // Rows of eight words, as those of IPv4 are: nothing is then multiplied or checked.
            match keys.stride() {
                8 => search::<I, 8>(isa, engine, keys, slots),
                _ => search::<I, 1>(isa, engine, keys, slots),
            }
            join(isa, engine, slots, best.len());
            let mut ranks = [NONE; CHUNK];
            let ranks = &mut ranks[..best.len()];
            for group in 0..engine.groups {
                match engine.read.len() {
                    1 => intersect::<I, A, 1>(isa, engine, group, alive, slots, ranks),
                    2 => intersect::<I, A, 2>(isa, engine, group, alive, slots, ranks),
                    3 => intersect::<I, A, 3>(isa, engine, group, alive, slots, ranks),
                    4 => intersect::<I, A, 4>(isa, engine, group, alive, slots, ranks),
                    _ => intersect_any(isa, engine, group, alive, slots, ranks),
                }
            }
            improve(best, &engine.matches, ranks);
        }
        for (index, best) in rest.iter_mut().enumerate() {
            let rank = alone(isa, engine, alive, keys.row(eights.len() + index), slots);
            improve(std::slice::from_mut(best), &engine.matches, &[rank]);
        }
    }
}

/// The rank for one key: fewer than eight are gone through one by one.
#[inline(always)]
fn alone<I: Isa, A: Alive>(isa: I, engine: &BitVector, alive: A, key: &[u32], slots: &mut [[u16; CHUNK]]) -> u32 {
    for (dimension, slot) in engine.dimensions.iter().zip(&mut *slots) {
        slot[0] = match dimension {
            Dimension::Search { lane, tree } => {
                let word = [key[*lane]];
                let [value] = match tree.depth() {
                    0 => isa.find(tree.view::<0>(), word),
                    1 => isa.find(tree.view::<1>(), word),
                    2 => isa.find(tree.view::<2>(), word),
                    3 => isa.find(tree.view::<3>(), word),
                    4 => isa.find(tree.view::<4>(), word),
                    _ => isa.find(tree.view::<MOST_LEVELS>(), word),
                };
                value
            }
            Dimension::Paged { lane, pages } => pages.view().get(isa, key[*lane]),
            Dimension::Direct { lane, values } => values.view().get(isa, key[*lane]),
        };
    }
    for (index, Join { slots: [a, b], third, values }) in engine.joins.iter().enumerate() {
        let third = third.map_or(0, |slot| slots[slot][0]);
        let sum = u32::from(slots[*a][0]) + u32::from(slots[*b][0]) + u32::from(third);
        slots[engine.dimensions.len() + index][0] = values.view().get(isa, sum);
    }
    let vectors = words(&engine.vectors).as_chunks::<GROUP_WORDS>().0;
    for group in 0..engine.groups {
        let read = engine.read.iter().map(|&slot| &vectors[usize::from(slots[slot][0]) + group]);
        let mut first = isa.first_common(read.clone());
        if !A::ALL && first < GROUP as u32 && !alive.is_alive(group * GROUP + first as usize) {
            first = isa.first_common(read.chain([&living(alive, group)]));
        }
        if first < GROUP as u32 {
            return (group * GROUP) as u32 + first;
        }
    }
    NONE
}

/// Apart: it needs no instruction set, and among all the rest it would find no registers.
#[inline(never)]
fn improve(best: &mut [Option<Match>], matches: &[Match], ranks: &[u32]) {
    for (best, &rank) in best.iter_mut().zip(ranks) {
        if let Some(&found) = matches.get(rank as usize)
            && Match::wins(found.priority, best)
        {
            *best = Some(found);
        }
    }
}

/// The values of the dimensions. `STRIDE` is that of the keys, or 1 for any.
#[inline(always)]
fn search<I: Isa, const STRIDE: usize>(isa: I, engine: &BitVector, keys: Keys<'_>, slots: &mut [[u16; CHUNK]]) {
    for (dimension, slot) in engine.dimensions.iter().zip(slots) {
        match dimension {
            Dimension::Search { lane, tree } => match tree.depth() {
                0 => descend::<I, STRIDE, 0>(isa, tree, keys, *lane, slot),
                1 => descend::<I, STRIDE, 1>(isa, tree, keys, *lane, slot),
                2 => descend::<I, STRIDE, 2>(isa, tree, keys, *lane, slot),
                3 => descend::<I, STRIDE, 3>(isa, tree, keys, *lane, slot),
                4 => descend::<I, STRIDE, 4>(isa, tree, keys, *lane, slot),
                _ => descend::<I, STRIDE, MOST_LEVELS>(isa, tree, keys, *lane, slot),
            },
            Dimension::Paged { lane, pages } => {
                let pages = pages.view();
                each_word::<STRIDE>(
                    keys,
                    *lane,
                    slot,
                    #[inline(always)]
                    move |word| pages.get(isa, word),
                );
            }
            Dimension::Direct { lane, values } => {
                let values = values.view();
                each_word::<STRIDE>(
                    keys,
                    *lane,
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
    lane: usize,
    slot: &mut [u16; CHUNK],
) {
    let tree = tree.view::<DEPTH>();
    each::<STRIDE>(
        keys,
        lane,
        slot,
        #[inline(always)]
        move |words| isa.find::<DEPTH, EIGHT>(tree, words),
    );
}

/// The values of all keys, which `value` gives for what they have in a lane.
#[inline(always)]
fn each_word<const STRIDE: usize>(
    keys: Keys<'_>,
    lane: usize,
    slot: &mut [u16; CHUNK],
    value: impl Fn(u32) -> u16 + Copy,
) {
    each::<STRIDE>(
        keys,
        lane,
        slot,
        #[inline(always)]
        move |words| {
            let mut values = [0; EIGHT];
            for (found, word) in values.iter_mut().zip(words) {
                *found = value(word);
            }
            values
        },
    );
}

/// The same, for eight keys side by side.
#[inline(always)]
fn each<const STRIDE: usize>(
    keys: Keys<'_>,
    lane: usize,
    slot: &mut [u16; CHUNK],
    values: impl Fn([u32; EIGHT]) -> [u16; EIGHT],
) {
    let mut column = [0; CHUNK];
    let (words, lane) = if STRIDE == 1 {
        let rows = keys.words().chunks_exact(keys.stride());
        let count = rows.len().min(CHUNK);
        column.iter_mut().zip(rows).for_each(|(word, row)| *word = row[lane]);
        (&column[..count], 0)
    } else {
        (keys.words(), lane % STRIDE)
    };
    let rows = words.as_chunks::<STRIDE>().0.as_chunks::<EIGHT>().0;
    for (slots, rows) in slot.as_chunks_mut::<EIGHT>().0.iter_mut().zip(rows) {
        let mut words = [0; EIGHT];
        for (word, row) in words.iter_mut().zip(rows) {
            *word = row[lane];
        }
        *slots = values(words);
    }
}

/// The values of the joins.
#[inline(always)]
fn join<I: Isa>(isa: I, engine: &BitVector, slots: &mut [[u16; CHUNK]], keys: usize) {
    for (index, Join { slots: [a, b], third, values }) in engine.joins.iter().enumerate() {
        let (known, new) = slots.split_at_mut(engine.dimensions.len() + index);
        match third {
            None => add(isa, [&known[*a], &known[*b]], values, &mut new[0], keys),
            Some(c) => add(isa, [&known[*a], &known[*b], &known[*c]], values, &mut new[0], keys),
        }
    }
}

/// Values by the sums of others.
#[inline(always)]
fn add<I: Isa, const PARTS: usize>(
    isa: I,
    parts: [&[u16; CHUNK]; PARTS],
    values: &Table,
    sums: &mut [u16; CHUNK],
    keys: usize,
) {
    let values = values.view();
    for (at, sums) in sums.as_chunks_mut::<EIGHT>().0.iter_mut().enumerate().take(keys.div_ceil(EIGHT)) {
        for (i, found) in sums.iter_mut().enumerate() {
            let mut sum = 0;
            for part in parts {
                sum += u32::from(part.as_chunks::<EIGHT>().0[at][i]);
            }
            *found = values.get(isa, sum);
        }
    }
}

/// The first region of a group that all vectors of a key have, where it is a better rank. `READ` is how many vectors are
/// read.
#[inline(always)]
fn intersect<I: Isa, A: Alive, const READ: usize>(
    isa: I,
    engine: &BitVector,
    group: usize,
    alive: A,
    slots: &[[u16; CHUNK]],
    ranks: &mut [u32],
) {
    let living = living(alive, group);
    let living = (!A::ALL).then_some(&living);
    let lines = &engine.vectors[group * GROUP_LINES..];
    let mut read = [&slots[0]; READ];
    for (read, &slot) in read.iter_mut().zip(&engine.read) {
        *read = &slots[slot];
    }
    for (at, ranks) in ranks.as_chunks_mut::<EIGHT>().0.iter_mut().enumerate().take(CHUNK / EIGHT) {
        let mut places = [&[0; EIGHT]; READ];
        for (places, slot) in places.iter_mut().zip(read) {
            *places = &slot.as_chunks::<EIGHT>().0[at];
        }
        if engine.groups == 1 {
            // Where nothing is found, this is no region's rank either.
            isa.first_common8(lines, places, living, ranks);
        } else {
            let (mut first, old) = ([0; EIGHT], *ranks);
            isa.first_common8(lines, places, living, &mut first);
            *ranks = std::array::from_fn(|i| rank(group, first[i]).min(old[i]));
        }
    }
}

/// The same for any number of vectors.
#[inline(always)]
fn intersect_any<I: Isa, A: Alive>(
    isa: I,
    engine: &BitVector,
    group: usize,
    alive: A,
    slots: &[[u16; CHUNK]],
    ranks: &mut [u32],
) {
    let living = living(alive, group);
    let living = (!A::ALL).then_some(&living);
    let vectors = words(&engine.vectors).as_chunks::<GROUP_WORDS>().0;
    for (i, found) in ranks.iter_mut().enumerate().take(CHUNK) {
        let read = engine.read.iter().map(|&slot| &vectors[usize::from(slots[slot][i]) + group]);
        *found = rank(group, isa.first_common(read.chain(living))).min(*found);
    }
}

/// The rank of the first common bit of a group.
#[inline(always)]
fn rank(group: usize, first: u32) -> u32 {
    if first < GROUP as u32 { first + (group * GROUP) as u32 } else { NONE }
}

/// The regions of a group that count.
#[inline(always)]
fn living<A: Alive>(alive: A, group: usize) -> [u32; GROUP_WORDS] {
    let mut living = [0; GROUP_WORDS];
    if !A::ALL {
        for eight in 0..GROUP / 8 {
            living[eight / 4] |= alive.of_eight(group * GROUP / 8 + eight) << (eight % 4 * 8);
        }
    }
    living
}
