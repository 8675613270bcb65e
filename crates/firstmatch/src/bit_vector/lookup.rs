//! Lookups: chunks of keys taken through each dimension, then each through its vectors.

use super::{BitVector, Dimension, GROUP, GROUP_WORDS, Join};
use crate::alive::Alive;
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, MOST_LEVELS, Tree, words};

/// Keys in flight.
const CHUNK: usize = 64;
/// The rank of no region.
const NONE: u32 = u32::MAX;

/// The values of a chunk of keys, slot by slot.
#[derive(Debug)]
pub struct Slots(Box<[[u32; CHUNK]]>);

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        Self(vec![[0; CHUNK]; count].into())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
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
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let from = index * CHUNK;
            let keys = keys.slice(from, from + best.len());
            let mut ranks = [NONE; CHUNK];
            let ranks = &mut ranks[..best.len()];
            classify(isa, engine, keys, &mut slots.0);
            for group in 0..engine.groups {
                match engine.read.len() {
                    1 => intersect::<I, A, 1>(isa, engine, group, alive, &slots.0, ranks),
                    2 => intersect::<I, A, 2>(isa, engine, group, alive, &slots.0, ranks),
                    3 => intersect::<I, A, 3>(isa, engine, group, alive, &slots.0, ranks),
                    4 => intersect::<I, A, 4>(isa, engine, group, alive, &slots.0, ranks),
                    _ => intersect::<I, A, 0>(isa, engine, group, alive, &slots.0, ranks),
                }
            }
            for (best, &rank) in best.iter_mut().zip(&*ranks) {
                if let Some(&found) = engine.matches.get(rank as usize)
                    && Match::wins(found.priority, best)
                {
                    *best = Some(found);
                }
            }
        }
    }
}

/// The values of keys, slot by slot.
#[inline(always)]
fn classify<I: Isa>(isa: I, engine: &BitVector, keys: Keys<'_>, slots: &mut [[u32; CHUNK]]) {
    let (of_dimensions, of_joins) = slots.split_at_mut(engine.dimensions.len());
    for (dimension, slot) in engine.dimensions.iter().zip(&mut *of_dimensions) {
        match dimension {
            Dimension::Search { lane, tree } => match tree.depth() {
                1 => search::<I, 1>(isa, tree, keys, *lane, slot),
                2 => search::<I, 2>(isa, tree, keys, *lane, slot),
                3 => search::<I, 3>(isa, tree, keys, *lane, slot),
                4 => search::<I, 4>(isa, tree, keys, *lane, slot),
                _ => search::<I, MOST_LEVELS>(isa, tree, keys, *lane, slot),
            },
            Dimension::Direct { lane, shift, mask, values } => {
                for (slot, word) in slot.iter_mut().zip(column(keys, *lane)) {
                    *slot = values.get((word >> shift & mask) as usize).copied().unwrap_or(0);
                }
            }
        }
    }
    for (index, Join { slots: [a, b], values }) in engine.joins.iter().enumerate() {
        let (earlier, joined) = of_joins.split_at_mut(index);
        let of = |slot: usize| of_dimensions.get(slot).unwrap_or_else(|| &earlier[slot - of_dimensions.len()]);
        for ((joined, a), b) in joined[0].iter_mut().zip(of(*a)).zip(of(*b)).take(keys.len()) {
            *joined = values.get((a + b) as usize).copied().unwrap_or(0);
        }
    }
}

/// A lane of each key.
#[inline(always)]
fn column<'a>(keys: Keys<'a>, lane: usize) -> impl Iterator<Item = u32> + 'a {
    keys.words()[lane..].iter().step_by(keys.stride()).copied()
}

#[inline(always)]
fn search<I: Isa, const DEPTH: usize>(isa: I, tree: &Tree, keys: Keys<'_>, lane: usize, slot: &mut [u32; CHUNK]) {
    let (words, stride) = (keys.words(), keys.stride());
    for (slot, rows) in slot.chunks_mut(ABREAST).zip(words.chunks(ABREAST * stride)) {
        if let (Some(slot), true) = (slot.first_chunk_mut(), rows.len() == ABREAST * stride) {
            *slot = isa.find::<DEPTH, ABREAST>(tree, std::array::from_fn(|i| rows[i * stride + lane]));
            continue;
        }
        for (slot, row) in slot.iter_mut().zip(rows.chunks_exact(stride)) {
            [*slot] = isa.find::<DEPTH, 1>(tree, [row[lane]]);
        }
    }
}

/// Searches side by side.
const ABREAST: usize = 8;

/// The first region of a group that all vectors of a key have, where it is a better rank. `READ` is how many vectors are
/// read, or 0 for any number.
#[inline(always)]
fn intersect<I: Isa, A: Alive, const READ: usize>(
    isa: I,
    engine: &BitVector,
    group: usize,
    alive: A,
    slots: &[[u32; CHUNK]],
    ranks: &mut [u32],
) {
    let vectors = words(&engine.vectors).as_chunks::<GROUP_WORDS>().0;
    let living = living(alive, group);
    let living = (!A::ALL).then_some(&living);
    let vector = |slot: &[u32; CHUNK], i: usize| &vectors[slot[i] as usize + group];
    let read: [&[u32; CHUNK]; READ] = std::array::from_fn(|at| &slots[engine.read[at]]);
    for (i, rank) in ranks.iter_mut().enumerate().take(CHUNK) {
        let first = if READ == 0 {
            isa.first_common(engine.read.iter().map(|&slot| vector(&slots[slot], i)).chain(living))
        } else {
            isa.first_common(read.map(|slot| vector(slot, i)).into_iter().chain(living))
        };
        let found = if first < GROUP as u32 { first + (group * GROUP) as u32 } else { NONE };
        *rank = found.min(*rank);
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
