//! Lookups: chunks of keys taken through each dimension, then each through its vectors.

use super::{BitVector, Dimension, GROUP, GROUP_LINES, GROUP_WORDS, Join};
use crate::alive::Alive;
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, MOST_LEVELS, words};

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
        let (slots, matches) = (&mut slots.0[..count], &engine.matches[..]);
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let from = index * CHUNK;
            let keys = keys.slice(from, from + best.len());
            // Rows of eight words, as those of IPv4 are: nothing is then multiplied or checked.
            match keys.stride() {
                8 => search::<I, 8>(isa, engine, keys, slots),
                _ => search::<I, 0>(isa, engine, keys, slots),
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
                    _ => intersect::<I, A, 0>(isa, engine, group, alive, slots, ranks),
                }
            }
            for (best, &rank) in best.iter_mut().zip(&*ranks) {
                if let Some(&found) = matches.get(rank as usize)
                    && Match::wins(found.priority, best)
                {
                    *best = Some(found);
                }
            }
        }
    }
}

/// The values of the dimensions. `STRIDE` is that of the keys, or 0 for any.
#[inline(always)]
fn search<I: Isa, const STRIDE: usize>(isa: I, engine: &BitVector, keys: Keys<'_>, slots: &mut [[u16; CHUNK]]) {
    for (dimension, slot) in engine.dimensions.iter().zip(slots) {
        match dimension {
            Dimension::Search { lane, tree } => match tree.depth() {
                0 => each::<STRIDE>(
                    keys,
                    *lane,
                    slot,
                    #[inline(always)]
                    |word| isa.find::<0>(tree, word),
                ),
                1 => each::<STRIDE>(
                    keys,
                    *lane,
                    slot,
                    #[inline(always)]
                    |word| isa.find::<1>(tree, word),
                ),
                2 => each::<STRIDE>(
                    keys,
                    *lane,
                    slot,
                    #[inline(always)]
                    |word| isa.find::<2>(tree, word),
                ),
                3 => each::<STRIDE>(
                    keys,
                    *lane,
                    slot,
                    #[inline(always)]
                    |word| isa.find::<3>(tree, word),
                ),
                4 => each::<STRIDE>(
                    keys,
                    *lane,
                    slot,
                    #[inline(always)]
                    |word| isa.find::<4>(tree, word),
                ),
                _ => each::<STRIDE>(
                    keys,
                    *lane,
                    slot,
                    #[inline(always)]
                    |word| isa.find::<MOST_LEVELS>(tree, word),
                ),
            },
            Dimension::Paged { lane, pages } => each::<STRIDE>(
                keys,
                *lane,
                slot,
                #[inline(always)]
                |word| pages.get(isa, word),
            ),
            Dimension::Direct { lane, values } => each::<STRIDE>(
                keys,
                *lane,
                slot,
                #[inline(always)]
                |word| values.get(isa, word),
            ),
        }
    }
}

/// The values of all keys, which `value` gives for what they have in a lane.
#[inline(always)]
fn each<const STRIDE: usize>(keys: Keys<'_>, lane: usize, slot: &mut [u16; CHUNK], value: impl Fn(u32) -> u16) {
    let (stride, lane) = if STRIDE == 0 { (keys.stride(), lane) } else { (STRIDE, lane % STRIDE) };
    let (slots, rest) = slot[..keys.len().min(CHUNK)].as_chunks_mut::<EIGHT>();
    let (rows, last) = keys.words().split_at(slots.len() * EIGHT * stride);
    for (slots, rows) in slots.iter_mut().zip(rows.chunks_exact(EIGHT * stride)) {
        // Written at once: what a write might change would be read again behind each.
        let mut found = [0; EIGHT];
        for (found, row) in found.iter_mut().zip(rows.chunks_exact(stride)) {
            *found = value(row[lane]);
        }
        *slots = found;
    }
    for (slot, row) in rest.iter_mut().zip(last.chunks_exact(stride)) {
        *slot = value(row[lane]);
    }
}

/// The values of the joins.
#[inline(always)]
fn join<I: Isa>(isa: I, engine: &BitVector, slots: &mut [[u16; CHUNK]], keys: usize) {
    let eights = keys.div_ceil(EIGHT);
    for (index, Join { slots: joined, values }) in engine.joins.iter().enumerate() {
        let (known, new) = slots.split_at_mut(engine.dimensions.len() + index);
        for (at, new) in new[0].as_chunks_mut::<EIGHT>().0.iter_mut().enumerate().take(eights) {
            let mut places = [0u16; EIGHT];
            for &slot in joined {
                for (place, &part) in places.iter_mut().zip(&known[slot].as_chunks::<EIGHT>().0[at]) {
                    *place = place.wrapping_add(part);
                }
            }
            for place in &mut places {
                *place = values.get(isa, u32::from(*place));
            }
            *new = places;
        }
    }
}

/// The first region of a group that all vectors of a key have, where it is a better rank. `READ` is how many vectors are
/// read, or 0 for any number.
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
    let rank = |first: u32| if first < GROUP as u32 { first + (group * GROUP) as u32 } else { NONE };
    let mut done = 0;
    if READ > 0 {
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
            let first = isa.first_common8(lines, places, living);
            for (found, first) in ranks.iter_mut().zip(first) {
                *found = rank(first).min(*found);
            }
            done += EIGHT;
        }
    }
    let vectors = words(&engine.vectors).as_chunks::<GROUP_WORDS>().0;
    while done < ranks.len() {
        let read = engine.read.iter().map(|&slot| &vectors[usize::from(slots[slot][done % CHUNK]) + group]);
        ranks[done] = rank(isa.first_common(read.chain(living))).min(ranks[done]);
        done += 1;
    }
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
