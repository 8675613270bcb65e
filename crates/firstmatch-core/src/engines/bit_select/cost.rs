//! Estimated costs of lookups, counted on walks of keys drawn inside the regions.

use std::rc::Rc;

use super::bits::Cubes;
use super::block::BLOCK;
use super::layout::Entry;
use super::tree::{Draft, DraftEntry, DraftTarget};
use crate::engine::budget::Visits;
use crate::engines::shared::wide::wide;
use crate::raw::{Isa, Kernel, Level, Line, dispatch};
use crate::rule::Regions;

/// Instructions of a lookup itself, of a root, of a node below a root, and of a block.
///
/// Blocks are those of IPv4 5-tuples. The values are fitted to lookups in plans for the ClassBench sets of 1k and 10k
/// rules. Lookups of batches have five times the weight of single keys; alone they would halve the value for roots.
/// For example, two roots and one block in each of their trees cost 34 + 2 · 25 + 2 · 48 = 180.
const LOOKUP: f64 = 34.0;
pub(super) const ROOT: f64 = 25.0;
const NODE: f64 = 50.0;
const TEST: f64 = 48.0;
/// Additional instructions of a node in trees far larger than [`NEAR`].
///
/// Their tables are further away, because the near caches do not hold them.
const FAR_NODE: f64 = 50.0;
/// Instructions for a block that does not end its list, and for one more round of a batch.
///
/// Most of that time goes to branch mispredictions.
const LONG: f64 = 100.0;
const ROUND: f64 = 200.0;
/// Two caches: additional instructions of a node in trees far larger than the cache, and the bytes of the cache.
///
/// The first is a first-level cache, the other half of a second-level cache.
const CACHES: [(f64, f64); 2] = [(8.0, (48 << 10) as f64), (130.0, (512 << 10) as f64)];
/// Largest size of trees, as a multiple of the blocks with every region once.
///
/// Trees of at most [`NEAR`] bytes are allowed anyway, if there is room.
const MOST: f64 = 5.0;
const NEAR: f64 = (256 << 10) as f64;
/// Number of keys of a batch.
const BATCH: usize = 32;
/// Number of trees that a walk takes together.
const GROUP: usize = 4;
/// Number of keys of a sample, and number of tries for each key.
const KEYS: usize = 512;
const TRIES: usize = 8;

/// Tree with the entries that its root has for the keys of a sample.
pub(super) struct Tree {
    pub(super) draft: Draft,
    ways: Vec<Option<DraftEntry>>,
    /// Estimated bytes of the tree.
    bytes: f64,
}

/// Key with the regions that it passes as if they were not there.
#[derive(Clone, Copy)]
struct Walker<'a> {
    key: &'a [u32],
    passed: &'a [u32],
}

impl Walker<'_> {
    fn is_held(&self, regions: &Regions, region: u32) -> bool {
        regions.get(region as usize).contains(self.key) && !self.passed.contains(&region)
    }
}

/// Keys on which plans are judged.
pub(super) struct Sample {
    /// Bytes of a block.
    block: usize,
    /// Largest number of bytes of trees, and the number of copies of all regions that fit in them.
    pub(super) most_bytes: f64,
    pub(super) copies: f64,
    key_words: usize,
    keys: Vec<u32>,
    /// Wide regions, which every second pair of keys passes as if they were not there.
    ///
    /// Otherwise most walks might end in a wide region and cost the same in every plan. The trees could then be
    /// useless for traffic that passes these regions.
    wide: Vec<u32>,
}

impl Sample {
    /// Draws keys inside regions: half at corners, half anywhere.
    ///
    /// Trees may take `room` bytes, with blocks of `lines` cache lines.
    pub(super) fn new(regions: &Regions, visits: &Visits, lines: usize, room: usize) -> Self {
        let (key_words, count) = (regions.key_words().max(1), regions.len().min(KEYS));
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = move || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 32) as u32
        };
        let mut keys = Vec::with_capacity(count * key_words);
        for index in 0..TRIES * count {
            if keys.len() == count * key_words {
                break;
            }
            let own = ((u64::from(random()) * regions.len() as u64) >> 32) as usize;
            let region = regions.get(own);
            let start = keys.len();
            let is_corner = index % 2 == 0;
            for word in 0..regions.key_words() {
                let (lo, hi) = (region.lo[word], region.hi[word]);
                let any = lo + ((u64::from(random()) * (u64::from(hi - lo) + 1)) >> 32) as u32;
                let value = if is_corner { [lo, hi][random() as usize >> 31] } else { any };
                keys.push(region.ternary.map_or(value, |(of, mask)| of[word] | value & !mask[word]));
            }
            if !region.contains(&keys[start..]) {
                keys.truncate(start);
            }
        }
        let wide = wide(regions, visits).iter().map(|wide| wide.region as u32).collect();
        let block = lines * size_of::<Line>();
        // A table has some entries however few regions there are.
        let least = (regions.len().div_ceil(BLOCK) * block + (1 << 10)) as f64;
        let most_bytes = (MOST * least).max(NEAR).min(room as f64);
        Self { block, most_bytes, copies: most_bytes / least, key_words, keys, wide }
    }

    fn walker(&self, at: usize) -> Walker<'_> {
        let key = &self.keys[at * self.key_words..][..self.key_words];
        Walker { key, passed: if at & 2 == 0 { &[] } else { &self.wide } }
    }

    /// Estimates the bytes of a tree, and takes each key through its root.
    pub(super) fn tree(&self, draft: Draft, level: Level) -> Tree {
        let mut ways = Vec::with_capacity(self.keys.len() / self.key_words);
        dispatch(level, Roots { sample: self, draft: &draft, ways: &mut ways });
        let bytes = draft.table.len() * size_of::<Entry>() + blocks(&draft) * self.block;
        Tree { draft, ways, bytes: bytes as f64 }
    }

    /// Returns the mean cost of a lookup in instructions.
    pub(super) fn cost(&self, trees: &[Rc<Tree>], regions: &Regions, cubes: &Cubes<'_>) -> f64 {
        let mut counts = Counts::default();
        let Cubes { level, visits, .. } = *cubes;
        dispatch(level, Walk { sample: self, trees, regions, visits, counts: &mut counts });
        let Counts { nodes, blocks, long, rounds, .. } = counts;
        let bytes = bytes(trees);
        let node = NODE + FAR_NODE * (1.0 - NEAR / bytes).max(0.0);
        let each = [(node, nodes), (TEST, blocks), (LONG, long), (ROUND, rounds)];
        let walks: f64 = each.map(|(cost, count)| cost * count as f64).iter().sum();
        let far: f64 = CACHES.map(|(cost, near)| cost * (1.0 - near / bytes).max(0.0)).iter().sum();
        let keys = (self.keys.len() / self.key_words).max(1);
        LOOKUP + ROOT * trees.len() as f64 + walks / keys as f64 + far
    }
}

/// Kernel that takes all keys through a root.
struct Roots<'a> {
    sample: &'a Sample,
    draft: &'a Draft,
    ways: &'a mut Vec<Option<DraftEntry>>,
}

impl Kernel for Roots<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { sample, draft, ways } = self;
        let root = draft.nodes.last();
        for key in sample.keys.chunks_exact(sample.key_words) {
            ways.push(root.and_then(
                #[inline(always)]
                |root| draft.step(isa, root, key),
            ));
        }
    }
}

/// Kernel that takes all keys through trees.
struct Walk<'a> {
    sample: &'a Sample,
    trees: &'a [Rc<Tree>],
    regions: &'a Regions,
    visits: &'a Visits,
    counts: &'a mut Counts,
}

impl Kernel for Walk<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { sample, trees, regions, visits, counts } = self;
        let keys = sample.keys.len() / sample.key_words;
        for from in (0..keys).step_by(BATCH) {
            let (batch, before) = (from..keys.min(from + BATCH), counts.blocks);
            let mut best = [u32::MAX; BATCH];
            for trees in trees.chunks(GROUP) {
                let mut ways = [[None; GROUP]; BATCH];
                batch.clone().zip(&mut ways).for_each(|(at, ways)| *ways = sorted(trees, at));
                // First the best entry of a key, then the next one, then all others that may be better.
                for now in [0..1, 1..2, 2..GROUP] {
                    counts.pass();
                    for (at, (ways, best)) in batch.clone().zip(ways.iter().zip(&mut best)) {
                        let limit = *best;
                        let ways = ways[now.clone()].iter().flatten();
                        for &(tree, way) in ways.filter(|(_, way)| way.best < limit) {
                            follow(isa, &trees[tree].draft, way, sample.walker(at), regions, best, counts);
                        }
                    }
                }
            }
            visits.add((counts.blocks - before) * BLOCK);
            if visits.are_too_many() {
                break;
            }
        }
        counts.pass();
    }
}

/// Returns the trees whose roots lead a key on, each with the entry there, the best first.
fn sorted(trees: &[Rc<Tree>], at: usize) -> [Option<(usize, DraftEntry)>; GROUP] {
    let mut ways = [None; GROUP];
    trees.iter().zip(&mut ways).enumerate().for_each(|(tree, (of, way))| *way = of.ways[at].map(|way| (tree, way)));
    ways.sort_unstable_by_key(|way| way.map_or(u32::MAX, |(_, way)| way.best));
    ways
}

/// Returns the estimated bytes of trees.
pub(super) fn bytes(trees: &[Rc<Tree>]) -> f64 {
    trees.iter().map(|tree| tree.bytes).sum()
}

/// Returns the estimated number of blocks that the leaves of a tree are packed into.
fn blocks(draft: &Draft) -> usize {
    let of = |len: usize| if len > BLOCK { len.next_multiple_of(BLOCK) } else { len };
    draft.leaves.iter().map(|list| of(list.len())).sum::<usize>() / BLOCK
}

/// Counts of the steps of walks.
#[derive(Default)]
struct Counts {
    nodes: usize,
    blocks: usize,
    /// Blocks that do not end their list.
    long: usize,
    rounds: usize,
    /// Largest numbers of nodes and of blocks that a key met in this pass.
    deepest: [usize; 2],
}

impl Counts {
    /// Ends a pass of a batch.
    fn pass(&mut self) {
        self.rounds += self.deepest.iter().sum::<usize>();
        self.deepest = [0; 2];
    }
}

/// Takes a key to a leaf and through its list while a better region is possible.
#[inline(always)]
fn follow<I: Isa>(
    isa: I,
    draft: &Draft,
    mut way: DraftEntry,
    walker: Walker<'_>,
    regions: &Regions,
    best: &mut u32,
    counts: &mut Counts,
) {
    let (mut nodes, mut blocks) = (0, 0);
    while way.best < *best {
        match way.to {
            DraftTarget::Node(node) => {
                nodes += 1;
                match draft.step(isa, &draft.nodes[node as usize], walker.key) {
                    Some(next) => way = next,
                    None => break,
                }
            }
            DraftTarget::Leaf(leaf) => {
                let list = draft.leaves.get(leaf);
                for (index, block) in list.chunks(BLOCK).enumerate() {
                    if block[0] >= *best {
                        break;
                    }
                    blocks += 1;
                    if let Some(&hit) = block.iter().find(|&&region| walker.is_held(regions, region)) {
                        *best = hit.min(*best);
                        break;
                    }
                    counts.long += usize::from((index + 1) * BLOCK < list.len());
                }
                break;
            }
        }
    }
    counts.nodes += nodes;
    counts.blocks += blocks;
    counts.deepest = [counts.deepest[0].max(nodes), counts.deepest[1].max(blocks)];
}
