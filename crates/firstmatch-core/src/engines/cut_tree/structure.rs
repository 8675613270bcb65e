//! The built trees: nodes, blocks of regions, and facts about them.

use super::boxes::Ranges;
use super::build::{Grown, ROOT_BYTES, grow};
use super::config::{Config, Layout, NODE_BYTES, Walk};
use crate::engine::Match;
use crate::engine::budget::Visits;
use crate::engines::shared::{BLOCK, Columns, Group, place};
use crate::error::BuildError;
use crate::raw::{LINE_WORDS, Level, Line, word, words, words_mut};
use crate::rule::Lowered;
use crate::schema::Schema;

/// Stands for the first block of a node without a list.
pub(super) const NO_LIST: u32 = u32::MAX;
/// Bit of the first rank of a block that ends its list.
pub(super) const LAST: u32 = 1 << 31;
/// Batches walk interleaved in trees of at least this many bytes.
///
/// On an AMD EPYC with second-level caches of 1 MiB, interleaved walks took 1.0 to 1.2 times as long up to 1.7 MiB, 0.8
/// to 1.0 times at 2 MiB, and 0.4 to 0.7 times from 5 MiB on; as long at any size where lists are long, as of
/// firewalls.
const FAR_BYTES: usize = 2 << 20;
/// Number of words of a node, and of nodes in a line.
pub(super) const NODE_WORDS: usize = NODE_BYTES / size_of::<u32>();
const LINE_NODES: usize = LINE_WORDS / NODE_WORDS;

/// Decision trees over the regions of a rule set.
#[derive(Debug)]
pub struct CutTree {
    pub(super) schema: Schema,
    pub(super) level: Level,
    pub(super) is_interleaved: bool,
    pub(super) page_nodes: usize,
    /// Largest value of each word that nodes see.
    pub(super) caps: Box<[u32]>,
    pub(super) ternary: Box<[usize]>,
    /// Best rank of each root; the roots are the first nodes.
    pub(super) roots: Box<[u32]>,
    pub(super) nodes: Box<[Line]>,
    pub(super) blocks: Box<[Line]>,
    pub(super) block_lines: usize,
    pub(super) matches: Box<[Match]>,
    pub(super) facts: Facts,
}

/// Facts recorded when the trees were built.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) rules: usize,
    pub(super) nodes: usize,
    pub(super) lists: usize,
    pub(super) references: usize,
    pub(super) refused: usize,
    /// Number of levels, including that of the roots.
    pub(super) height: usize,
    pub(super) longest: usize,
    pub(super) worst_tests: usize,
    pub(super) worst_lines: usize,
    pub(super) keeps_shadowed: bool,
}

impl CutTree {
    /// Builds the engine.
    ///
    /// # Errors
    /// If a list of all regions alone would exceed the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default())
    }

    /// Builds the engine within a limit on visits, after which cutting ends.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        let (regions, schema) = (set.expanded()?.len(), set.schema());
        visits.add(regions);
        visits.check()?;
        let ternary = set.regions().ternary_words().into_boxed_slice();
        let columns = Columns { key_words: schema.words().len(), ternary: &ternary };
        let block_lines = (columns.words() + BLOCK).div_ceil(LINE_WORDS);
        let block_bytes = block_lines * size_of::<Line>();
        let fixed =
            size_of_val(set.rules()) + size_of_val(&ternary[..]) + schema.words().len() * size_of::<u32>() + ROOT_BYTES;
        // A tree of one leaf.
        let least = size_of::<Line>() + regions.div_ceil(BLOCK) * block_bytes;
        let run_bytes = config.budget.run_bytes;
        let Some(allowed) = run_bytes.checked_sub(fixed).filter(|&allowed| allowed >= least) else {
            return Err(BuildError::bytes(fixed + least, run_bytes));
        };
        // Blocks of an IPv4 5-tuple are six lines.
        let per_region = config.region_bytes.saturating_mul(block_lines.div_ceil(6));
        let asked = per_region.saturating_mul(regions).saturating_add(config.extra_bytes);
        let cap = asked.max(least).min(allowed);
        let most = config.visits.saturating_mul(regions.max(64)).min(visits.left());
        let own = Visits::new(most);
        let ranges = Ranges::new(set);
        let grown = grow(&ranges, config, cap, block_bytes, &own);
        visits.add(own.made().min(most));
        Ok(Self::encode(&ranges, grown, config, level, cap, ternary, block_lines))
    }

    /// Lays the trees out in memory.
    fn encode(
        ranges: &Ranges<'_>,
        grown: Grown,
        config: &Config,
        level: Level,
        cap: usize,
        ternary: Box<[usize]>,
        block_lines: usize,
    ) -> Self {
        let set = ranges.set;
        let page_nodes = (config.page_bytes / NODE_BYTES).clamp(1, u32::MAX as usize);
        let (first, slots) = Self::placed(&grown, config.layout, page_nodes, cap, block_lines);
        // Nodes in order of their places, so that lists follow them.
        let mut order: Vec<(u32, u32)> = Vec::with_capacity(grown.nodes.len());
        for (group, &place) in grown.groups.iter().zip(&first) {
            order.extend((0..group.count).map(|at| (place as u32 + at, group.first + at)));
        }
        order.sort_unstable();
        let mut nodes = vec![Line::default(); slots.div_ceil(LINE_NODES)];
        let node_words = words_mut(&mut nodes);
        node_words.chunks_exact_mut(NODE_WORDS).for_each(|node| node[1] = NO_LIST);
        let mut blocks = vec![Line::default(); grown.lists.blocks() * block_lines];
        let columns = Columns { key_words: ranges.words(), ternary: &ternary };
        let (mut starts, mut next) = (std::collections::HashMap::new(), 0);
        for &(place, number) in &order {
            let own = &grown.nodes[number as usize];
            let draft = own.alias.map_or(own, |alias| &grown.nodes[alias as usize]);
            let node = &mut node_words[place as usize * NODE_WORDS..][..NODE_WORDS];
            node[0] = draft.group.map_or(0, |group| first[group as usize] as u32);
            if let Some(list) = draft.list {
                node[1] = *starts.entry(list).or_insert_with(|| {
                    let start = next;
                    for ranks in grown.lists.get(list).chunks(BLOCK) {
                        let block = &mut words_mut(&mut blocks)[next as usize * block_lines * LINE_WORDS..];
                        write_block(columns, block, ranks, set);
                        next += 1;
                    }
                    words_mut(&mut blocks)[((next as usize - 1) * block_lines * LINE_WORDS) + columns.words()] |= LAST;
                    start
                });
            }
            let mut cuts = 0u64;
            for (at, (cut, &shift)) in draft.cuts.iter().zip(&draft.shifts).enumerate() {
                cuts |= (cut.word as u64 | u64::from(shift) << 8 | u64::from(cut.bits) << 13) << (16 * at);
            }
            (node[2], node[3]) = (cuts as u32, (cuts >> 32) as u32);
        }
        let roots = 0..grown.groups[0].count;
        let roots: Box<[u32]> = roots.map(|root| best_rank(&grown, root).unwrap_or(u32::MAX)).collect();
        let is_far = nodes.len() * size_of::<Line>() + blocks.len() * size_of::<Line>() >= FAR_BYTES;
        let facts = facts(&grown, block_lines, roots.len(), set, config);
        Self {
            schema: set.schema().clone(),
            level,
            is_interleaved: config.walk == Walk::Interleaved || config.walk == Walk::BySize && is_far,
            page_nodes,
            caps: ranges.caps.clone(),
            ternary,
            roots,
            nodes: nodes.into(),
            blocks: blocks.into(),
            block_lines,
            matches: set.rules().into(),
            facts,
        }
    }

    /// Returns the place of the first node of each group, and the number of places.
    ///
    /// If the gaps of pages would exceed the cap, nodes lie depth first, which leaves no gaps.
    fn placed(grown: &Grown, layout: Layout, page_nodes: usize, cap: usize, block_lines: usize) -> (Vec<usize>, usize) {
        let mut groups: Vec<Group> =
            grown.groups.iter().map(|group| Group { nodes: group.count as usize, below: Vec::new() }).collect();
        for (group, siblings) in grown.groups.iter().enumerate() {
            let nodes = &grown.nodes[siblings.first as usize..][..siblings.count as usize];
            groups[group].below = nodes.iter().filter_map(|node| node.group.map(|group| group as usize)).collect();
        }
        let placed = place(&groups, layout, page_nodes, LINE_NODES);
        let blocks = grown.lists.blocks() * block_lines * size_of::<Line>();
        let cap = cap.saturating_sub((grown.groups[0].count as usize - 1) * ROOT_BYTES);
        if (placed.nodes * NODE_BYTES).next_multiple_of(64) + blocks <= cap {
            return (placed.first, placed.nodes);
        }
        let placed = place(&groups, Layout::DepthFirst, page_nodes, LINE_NODES);
        (placed.first, placed.nodes)
    }

    #[inline(always)]
    pub(super) fn node(&self, index: u32) -> &[u32; NODE_WORDS] {
        &words(&self.nodes).as_chunks::<NODE_WORDS>().0[index as usize]
    }

    /// Returns the cuts of a node: for each its word, the number of bits below it, and its number of bits.
    #[inline(always)]
    pub(super) fn cuts(node: &[u32; NODE_WORDS]) -> impl Iterator<Item = (usize, u32, u32)> + use<> {
        let mut cuts = word([node[2], node[3]]);
        std::iter::from_fn(move || {
            let own = (cuts as usize & 0xFF, cuts as u32 >> 8 & 31, cuts as u32 >> 13 & 7);
            cuts >>= 16;
            // A cut has at least one bit, so that 0 ends the cuts.
            (own.2 != 0).then_some(own)
        })
    }

    /// Returns the words of a block, its ranks behind its columns.
    #[inline(always)]
    pub(super) fn block(&self, index: u32) -> &[u32] {
        let words_of_block = self.block_lines * LINE_WORDS;
        &words(&self.blocks)[index as usize * words_of_block..][..words_of_block]
    }

    /// Returns the ranks of the regions of a list, by its first block.
    pub(super) fn list(&self, first: u32) -> Vec<u32> {
        let mut ranks: Vec<u32> = Vec::new();
        for index in first.. {
            let own = &self.block(index)[self.columns().words()..][..BLOCK];
            ranks.extend(own.iter().map(|rank| rank & !LAST));
            if own[0] & LAST != 0 {
                break;
            }
        }
        // The last region fills its block.
        ranks.dedup();
        ranks
    }

    #[inline(always)]
    pub(super) fn columns(&self) -> Columns<'_> {
        Columns { key_words: self.caps.len(), ternary: &self.ternary }
    }

    /// Returns the bytes on the heap by part.
    pub(super) fn bytes(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("nodes", size_of_val(&self.nodes[..])),
            ("lists", size_of_val(&self.blocks[..])),
            ("matches", size_of_val(&self.matches[..])),
            (
                "words and roots",
                size_of_val(&self.caps[..]) + size_of_val(&self.ternary[..]) + size_of_val(&self.roots[..]),
            ),
        ]
    }
}

/// Returns the best rank of the regions below a root.
fn best_rank(grown: &Grown, root: u32) -> Option<u32> {
    let (mut best, mut waiting) = (None, vec![root]);
    while let Some(node) = waiting.pop() {
        let node = &grown.nodes[node as usize];
        let own = node.list.map(|list| grown.lists.get(list)[0]);
        best = own.into_iter().chain(best).min();
        let group = node.group.map(|group| &grown.groups[group as usize]);
        waiting.extend(group.into_iter().flat_map(|group| group.first..group.first + group.count));
    }
    best
}

/// Writes up to eight regions to a block; the last one fills the rest.
fn write_block(columns: Columns<'_>, block: &mut [u32], ranks: &[u32], set: &Lowered) {
    for at in 0..BLOCK {
        let rank = ranks[at.min(ranks.len() - 1)];
        columns.write(block, at, set.regions(), rank as usize);
        block[columns.words() + at] = rank;
    }
}

/// Returns facts about the trees: sizes, and the worst case of a lookup.
fn facts(grown: &Grown, block_lines: usize, roots: usize, set: &Lowered, config: &Config) -> Facts {
    /// Maxima over all walks from a node on.
    #[derive(Clone, Copy, Default)]
    struct Most {
        tests: usize,
        lines: usize,
        height: usize,
    }
    let mut most = vec![Most::default(); grown.nodes.len()];
    let mut longest = 0;
    // Children follow their parents, and an alias its sibling.
    for number in (0..grown.nodes.len()).rev() {
        let node = &grown.nodes[number];
        let mut below = Most::default();
        if let Some(group) = node.group {
            let group = &grown.groups[group as usize];
            for child in group.first..group.first + group.count {
                let child = most[grown.nodes[child as usize].alias.unwrap_or(child) as usize];
                below.tests = below.tests.max(child.tests);
                below.lines = below.lines.max(child.lines);
                below.height = below.height.max(child.height);
            }
        }
        let own = node.list.map_or(0, |list| grown.lists.get(list).len());
        longest = longest.max(own);
        most[number] = Most {
            tests: below.tests + own,
            lines: below.lines + 1 + own.div_ceil(BLOCK) * block_lines,
            height: below.height + 1,
        };
    }
    let of_roots = &most[..roots];
    Facts {
        rules: set.by_rule().count(),
        nodes: grown.nodes.len(),
        lists: grown.lists.len(),
        references: grown.lists.references(),
        refused: grown.refused,
        height: of_roots.iter().map(|most| most.height).max().unwrap_or(0),
        longest,
        worst_tests: of_roots.iter().map(|most| most.tests).sum(),
        worst_lines: of_roots.iter().map(|most| most.lines).sum::<usize>() + 1,
        keeps_shadowed: !config.remove_covered,
    }
}
