//! Lookups: chunks of keys taken through each dimension, then each through its vectors.

use super::{BitVector, Dimension, GROUP, GROUP_WORDS, Join, PAGE};
use crate::alive::Alive;
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, MOST_LEVELS, Tree, words};

/// Keys in flight.
const CHUNK: usize = 64;
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
fn classify<I: Isa>(isa: I, engine: &BitVector, keys: Keys<'_>, slots: &mut [[u16; CHUNK]]) {
    // Rows of eight words, as those of IPv4 are: nothing is then multiplied or checked.
    match keys.stride() {
        8 => search::<I, 8>(isa, engine, keys, slots),
        _ => search::<I, 0>(isa, engine, keys, slots),
    }
    let (of_dimensions, of_joins) = slots.split_at_mut(engine.dimensions.len());
    for (index, Join { slots: [a, b], values }) in engine.joins.iter().enumerate() {
        let (earlier, joined) = of_joins.split_at_mut(index);
        let of = |slot: usize| of_dimensions.get(slot).unwrap_or_else(|| &earlier[slot - of_dimensions.len()]);
        let groups =
            joined[0].as_chunks_mut::<ABREAST>().0.iter_mut().zip(of(*a).as_chunks().0).zip(of(*b).as_chunks().0);
        for ((joined, a), b) in groups.take(keys.len().div_ceil(ABREAST)) {
            let (a, b): (&[u16; ABREAST], &[u16; ABREAST]) = (a, b);
            *joined = std::array::from_fn(|i| at(values, usize::from(a[i]) + usize::from(b[i])));
        }
    }
}

#[inline(always)]
fn at(values: &[u16], place: usize) -> u16 {
    values.get(place).copied().unwrap_or(0)
}

/// The values of the dimensions. `STRIDE` is that of the keys, or 0 for any.
#[inline(always)]
fn search<I: Isa, const STRIDE: usize>(isa: I, engine: &BitVector, keys: Keys<'_>, slots: &mut [[u16; CHUNK]]) {
    for (dimension, slot) in engine.dimensions.iter().zip(slots) {
        match dimension {
            Dimension::Search { lane, tree } => match tree.depth() {
                1 => descend::<I, STRIDE, 1>(isa, tree, keys, *lane, slot),
                2 => descend::<I, STRIDE, 2>(isa, tree, keys, *lane, slot),
                3 => descend::<I, STRIDE, 3>(isa, tree, keys, *lane, slot),
                4 => descend::<I, STRIDE, 4>(isa, tree, keys, *lane, slot),
                _ => descend::<I, STRIDE, MOST_LEVELS>(isa, tree, keys, *lane, slot),
            },
            Dimension::Paged { lane, pages, values } => {
                each_word::<STRIDE>(keys, *lane, slot, |word| {
                    let page = usize::from(at(pages, (word / PAGE as u32) as usize));
                    at(values, page * PAGE + word as usize % PAGE)
                });
            }
            Dimension::Direct { lane, shift, mask, values } => {
                each_word::<STRIDE>(keys, *lane, slot, |word| at(values, (word >> shift & mask) as usize));
            }
        }
    }
}

/// Searches by values. `value` gives one.
#[inline(always)]
fn each_word<const STRIDE: usize>(keys: Keys<'_>, lane: usize, slot: &mut [u16; CHUNK], value: impl Fn(u32) -> u16) {
    each::<STRIDE>(keys, lane, slot, |words: [u32; ABREAST]| words.map(&value), &value);
}

#[inline(always)]
fn descend<I: Isa, const STRIDE: usize, const DEPTH: usize>(
    isa: I,
    tree: &Tree,
    keys: Keys<'_>,
    lane: usize,
    slot: &mut [u16; CHUNK],
) {
    let abreast = |words| isa.find::<DEPTH, ABREAST>(tree, words).map(|value| value as u16);
    each::<STRIDE>(keys, lane, slot, abreast, |word| isa.find::<DEPTH, 1>(tree, [word])[0] as u16);
}

/// Hands a lane of all keys out, many abreast, the last ones singly.
#[inline(always)]
fn each<const STRIDE: usize>(
    keys: Keys<'_>,
    lane: usize,
    slot: &mut [u16; CHUNK],
    abreast: impl Fn([u32; ABREAST]) -> [u16; ABREAST],
    single: impl Fn(u32) -> u16,
) {
    let (stride, lane) = if STRIDE == 0 { (keys.stride(), lane) } else { (STRIDE, lane % STRIDE) };
    let (slots, rest) = slot[..keys.len().min(CHUNK)].as_chunks_mut::<ABREAST>();
    let (rows, last) = keys.words().split_at(slots.len() * ABREAST * stride);
    for (slots, rows) in slots.iter_mut().zip(rows.chunks_exact(ABREAST * stride)) {
        *slots = abreast(std::array::from_fn(|i| rows[i * stride + lane]));
    }
    for (slot, row) in rest.iter_mut().zip(last.chunks_exact(stride)) {
        *slot = single(row[lane]);
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
    slots: &[[u16; CHUNK]],
    ranks: &mut [u32],
) {
    let vectors = words(&engine.vectors).as_chunks::<GROUP_WORDS>().0;
    let living = living(alive, group);
    let living = (!A::ALL).then_some(&living);
    let vector = |slot: &[u16; CHUNK], i: usize| &vectors[usize::from(slot[i]) + group];
    let read: [&[u16; CHUNK]; READ] = std::array::from_fn(|at| &slots[engine.read[at]]);
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
