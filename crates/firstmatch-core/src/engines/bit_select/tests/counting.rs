//! Costs of lookups, counted: keys walk as `lookup` takes them.

use crate::engine::cost::Cost;
use crate::engine::tombstones::All;
use crate::engines::bit_select::block::{self, NONE};
use crate::engines::bit_select::columns::{CHUNK, Columns, rank_of};
use crate::engines::bit_select::layout::{EMPTY, Entry, LEAF};
use crate::engines::bit_select::lookup::TOGETHER;
use crate::engines::bit_select::structure::BitSelect;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, dispatch, words};

/// Counts of what the keys met.
#[derive(Default)]
struct Counts {
    nodes: usize,
    blocks: usize,
}

pub(in crate::engines::bit_select) fn of(engine: &BitSelect, keys: Keys<'_>) -> Cost {
    let mut counts = Counts::default();
    dispatch(engine.level, Walk { engine, keys, counts: &mut counts });
    let Counts { nodes, blocks } = counts;
    let lines = keys.len() * (engine.trees.len() + 1) + 2 * nodes + blocks * engine.shape.lines();
    Cost::of(keys.len(), lines, blocks * block::BLOCK)
}

struct Walk<'a> {
    engine: &'a BitSelect,
    keys: Keys<'a>,
    counts: &'a mut Counts,
}

impl Kernel for Walk<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, keys, counts } = self;
        let limits = engine.limits();
        for from in (0..keys.len()).step_by(CHUNK) {
            let mut ranks = [NONE; CHUNK];
            for (group, trees) in engine.trees.chunks(TOGETHER).enumerate() {
                for (key, rank) in (from..keys.len()).zip(&mut ranks) {
                    let key = keys.row(key);
                    let mut entries = [EMPTY; TOGETHER];
                    for (entry, tree) in entries.iter_mut().zip(trees) {
                        *entry = engine.table[tree.root.base as usize + tree.root.index(isa, &engine.shape, key)];
                    }
                    entries.sort_unstable();
                    // First the best entry of the first trees, then the next one, then all others that may be better.
                    let passes: [&[Entry]; 3] = match group {
                        0 => [&entries[..1], &entries[1..2], &entries[2..]],
                        _ => [&[], &entries[..1], &entries[1..]],
                    };
                    for entries in passes {
                        let most = limits.of(*rank);
                        for &entry in entries.iter().filter(|&&entry| entry != EMPTY && entry < most) {
                            walk(isa, engine, key, entry, rank, counts);
                        }
                    }
                }
            }
        }
    }
}

/// Takes a key to a leaf and through its list while a better rank is possible.
#[inline(always)]
fn walk<I: Isa>(isa: I, engine: &BitSelect, key: &[u32], mut at: Entry, rank: &mut u32, counts: &mut Counts) {
    let (limits, columns, blocks) = (engine.limits(), &engine.shape, words(&engine.blocks));
    let most = limits.of(*rank);
    let mut tested = 0;
    while at & LEAF == 0 && at < most {
        let Some(node) = engine.nodes.get(limits.index(at)) else { break };
        counts.nodes += 1;
        at = engine.table[node.base as usize + node.index(isa, columns, key)];
    }
    let mut next = Some(limits.index(at)).filter(|_| at != EMPTY && at < most);
    while let Some(block) = next.and_then(|at| columns.block(blocks, at)) {
        if tested > 0 && columns.rank(block, 0) >= *rank {
            break;
        }
        tested += 1;
        let found = rank_of(columns, block, columns.hits(isa, block, key), All);
        *rank = found.min(*rank);
        next = block::goes_on(found);
    }
    counts.blocks += tested;
}
