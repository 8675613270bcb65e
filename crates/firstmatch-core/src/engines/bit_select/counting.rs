//! Costs of lookups, counted: keys walk as [`lookup`](super::lookup) takes them.

use super::block::{self, NONE};
use super::columns::{CHUNK, Columns, Kind, Plain4, rank_of};
use super::layout::{EMPTY, Entry, LEAF};
use super::lookup::TOGETHER;
use super::structure::BitSelect;
use crate::engine::cost::Cost;
use crate::engine::tombstones::All;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, dispatch, words};

/// Counts of what the keys of a chunk met.
#[derive(Default)]
struct Counts {
    nodes: usize,
    blocks: usize,
    /// Leaves of which a second block is tested.
    long: usize,
    /// Walks in the second tree of a key and in further ones.
    further: usize,
    /// Nodes and blocks of the slowest key, summed over the passes.
    rounds: usize,
}

pub(super) fn of(engine: &BitSelect, keys: Keys<'_>) -> Cost {
    let mut counts = Counts::default();
    dispatch(engine.level, Walk { engine, keys, counts: &mut counts });
    let Counts { nodes, blocks, long, further, rounds } = counts;
    let (count, trees, lines) = (keys.len(), engine.trees.len(), engine.shape.lines());
    // Blocks of more lines than in an IPv4 5-tuple take longer, and so do roots where the columns are not known at
    // compile time.
    let (roots, columns) = match engine.columns {
        Kind::Any => (count * trees, blocks * lines),
        _ => (0, blocks * (lines - Plain4::LINES)),
    };
    let counts = [count * trees, nodes, blocks, long, further, rounds, columns.max(roots)];
    let bytes = engine.bytes().into_iter().filter(|(part, _)| ["nodes", "tables", "blocks"].contains(part));
    let bytes = bytes.map(|(_, bytes)| bytes).sum();
    Cost::each(count, counts, count * (trees + 1) + 2 * nodes + blocks * lines, bytes).visiting(blocks * block::BLOCK)
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
                let mut deepest = [[0; 2]; 3];
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
                    for (pass, entries) in passes.into_iter().enumerate() {
                        let most = limits.of(*rank);
                        for &entry in entries.iter().filter(|&&entry| entry != EMPTY && entry < most) {
                            counts.further += usize::from(pass > 0);
                            let walked = walk(isa, engine, key, entry, rank, counts);
                            deepest[pass] = [0, 1].map(|i| deepest[pass][i].max(walked[i]));
                        }
                    }
                }
                counts.rounds += deepest.as_flattened().iter().sum::<usize>();
            }
        }
    }
}

/// Takes a key to a leaf and through its list while a better rank is possible.
///
/// Returns the numbers of nodes and blocks.
#[inline(always)]
fn walk<I: Isa>(
    isa: I,
    engine: &BitSelect,
    key: &[u32],
    mut at: Entry,
    rank: &mut u32,
    counts: &mut Counts,
) -> [usize; 2] {
    let (limits, columns, blocks) = (engine.limits(), &engine.shape, words(&engine.blocks));
    let most = limits.of(*rank);
    let (mut nodes, mut tested) = (0, 0);
    while at & LEAF == 0 && at < most {
        let Some(node) = engine.nodes.get(limits.index(at)) else { break };
        nodes += 1;
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
    counts.long += usize::from(tested > 1);
    counts.nodes += nodes;
    counts.blocks += tested;
    [nodes, tested]
}
