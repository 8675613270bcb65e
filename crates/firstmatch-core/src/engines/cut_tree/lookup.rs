//! Lookups: keys walk down the trees, one by one or sixteen side by side.

use super::structure::{CutTree, LAST, NO_LIST};
use crate::engine::Match;
use crate::engines::shared::BLOCK;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, dispatch};

/// Number of keys that walk side by side.
const SIDE_BY_SIDE: usize = 16;
/// Maximum number of lists that wait to be tested.
const NOTES: usize = 128;

/// Observer of the nodes and blocks that a walk reads.
pub(super) trait Touches {
    #[inline(always)]
    fn node(&mut self, _index: u32) {}
    #[inline(always)]
    fn block(&mut self, _ranks: &[u32]) {}
}

/// Observer of lookups in use, which ignores everything.
pub(super) struct Unseen;

impl Touches for Unseen {}

/// Lookup of a batch.
pub(super) struct Lookup<'a, T> {
    pub(super) engine: &'a CutTree,
    pub(super) keys: &'a Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
    /// Whether the keys walk one by one.
    pub(super) is_alone: bool,
    pub(super) touches: T,
}

/// Improves `best` for each key.
pub(super) fn improve(engine: &CutTree, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    let is_alone = !engine.is_interleaved || best.len() == 1;
    dispatch(engine.level, Lookup { engine, keys, best, is_alone, touches: Unseen });
}

impl<T: Touches> Kernel for Lookup<'_, T> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, keys, best, is_alone, mut touches } = self;
        if engine.matches.is_empty() {
            return;
        }
        if is_alone {
            for (at, best) in best.iter_mut().enumerate() {
                let bound = bound(engine, best);
                let mut rank = bound;
                one(isa, engine, keys.row(at), &mut rank, &mut touches);
                settle(engine, bound, rank, best);
            }
            return;
        }
        for (chunk, best) in best.chunks_mut(SIDE_BY_SIDE).enumerate() {
            let keys = keys.slice(chunk * SIDE_BY_SIDE, chunk * SIDE_BY_SIDE + best.len());
            let mut bounds = [0; SIDE_BY_SIDE];
            bounds.iter_mut().zip(&*best).for_each(|(rank, best)| *rank = bound(engine, best));
            let mut ranks = bounds;
            several(isa, engine, keys, &mut ranks[..best.len()]);
            for (best, (&bound, &rank)) in best.iter_mut().zip(bounds.iter().zip(&ranks)) {
                settle(engine, bound, rank, best);
            }
        }
    }
}

/// Returns the rank that a region has to beat.
#[inline(always)]
fn bound(engine: &CutTree, best: &Option<Match>) -> u32 {
    match best {
        None => engine.matches.len() as u32,
        Some(best) => engine.matches.partition_point(|of| of.priority < best.priority) as u32,
    }
}

#[inline(always)]
fn settle(engine: &CutTree, bound: u32, rank: u32, best: &mut Option<Match>) {
    if rank < bound {
        *best = Some(engine.matches[rank as usize]);
    }
}

/// Returns the child of a node that a key goes to; 0 from a leaf, because the first node is a root.
#[inline(always)]
fn child(engine: &CutTree, node: &[u32; 4], key: &[u32]) -> u32 {
    let mut cuts = u64::from(node[2]) | u64::from(node[3]) << 32;
    if cuts == 0 {
        return 0;
    }
    let mut cell = 0;
    while cuts != 0 {
        let (word, shift, bits) = (cuts as usize & 0xFF, cuts as u32 >> 8 & 31, cuts as u32 >> 13 & 7);
        let value = key[word].min(engine.caps[word]);
        cell = cell << bits | value >> shift & ((1 << bits) - 1);
        cuts >>= 16;
    }
    node[0] + cell
}

/// Lowers `best` to the first region of a list that holds a key.
#[inline(always)]
fn test<I: Isa, T: Touches>(isa: I, engine: &CutTree, list: u32, key: &[u32], best: &mut u32, touches: &mut T) {
    let key_words = engine.caps.len();
    for index in list.. {
        let block = engine.block(index);
        let (bounds, rest) = block.split_at(2 * BLOCK * key_words);
        let (masks, ranks) = rest.split_at(2 * BLOCK * engine.ternary.len());
        if ranks[0] & !LAST >= *best {
            return;
        }
        touches.block(&ranks[..BLOCK]);
        let mut hits = isa.inside8(bounds, key, key_words);
        for (word, masks) in engine.ternary.iter().zip(masks.as_chunks::<16>().0) {
            hits &= isa.masked8(masks, key[*word]);
        }
        if hits != 0 {
            *best = (ranks[hits.trailing_zeros() as usize % BLOCK] & !LAST).min(*best);
            return;
        }
        if ranks[0] & LAST != 0 {
            return;
        }
    }
}

/// Takes one key through the trees.
#[inline(always)]
fn one<I: Isa, T: Touches>(isa: I, engine: &CutTree, key: &[u32], best: &mut u32, touches: &mut T) {
    for (root, &first) in (0..).zip(&engine.roots) {
        // Later trees have larger ranks only.
        if first >= *best {
            return;
        }
        let mut at = root;
        loop {
            touches.node(at);
            let node = engine.node(at);
            if node[1] != NO_LIST {
                test(isa, engine, node[1], key, best, touches);
            }
            match child(engine, node, key) {
                0 => break,
                next => at = next,
            }
        }
    }
}

/// Takes up to sixteen keys through the trees; while one waits for memory, others go on.
#[inline(always)]
fn several<I: Isa>(isa: I, engine: &CutTree, keys: Keys<'_>, best: &mut [u32]) {
    let (mut live, mut at) = ([0u8; SIDE_BY_SIDE], [0u32; SIDE_BY_SIDE]);
    let mut notes = [(0u8, 0u32); NOTES];
    for (root, &first) in (0..).zip(&engine.roots) {
        let mut count = 0;
        for (key, best) in (0u8..).zip(&*best) {
            live[count % SIDE_BY_SIDE] = key;
            at[usize::from(key) % SIDE_BY_SIDE] = root;
            count += usize::from(first < *best);
        }
        let mut noted = 0;
        while count > 0 {
            if noted > NOTES - SIDE_BY_SIDE {
                flush(isa, engine, keys, &notes[..noted], best);
                noted = 0;
            }
            let mut left = 0;
            for i in 0..count {
                let key = live[i];
                let place = &mut at[usize::from(key) % SIDE_BY_SIDE];
                let node = engine.node(*place);
                if node[1] != NO_LIST {
                    isa.prefetch_lines(&engine.blocks, node[1] as usize * engine.block_lines, engine.block_lines);
                    notes[noted] = (key, node[1]);
                    noted += 1;
                }
                let next = child(engine, node, keys.row(usize::from(key)));
                if next != 0 {
                    isa.prefetch(engine.node(next));
                    *place = next;
                    live[left] = key;
                    left += 1;
                }
            }
            count = left;
        }
        flush(isa, engine, keys, &notes[..noted], best);
    }
}

/// Tests the lists that keys have met on their walks.
#[inline(always)]
fn flush<I: Isa>(isa: I, engine: &CutTree, keys: Keys<'_>, notes: &[(u8, u32)], best: &mut [u32]) {
    for &(key, list) in notes {
        let key = usize::from(key);
        test(isa, engine, list, keys.row(key), &mut best[key], &mut Unseen);
    }
}
