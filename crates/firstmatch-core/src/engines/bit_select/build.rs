//! Building: packs the leaves of the planned trees and joins their nodes.
//!
//! If the fastest trees exceed the budget, the search is repeated among those that should fit.

use std::sync::Arc;

use super::bits::Cubes;
use super::columns::Kind;
use super::config::Config;
use super::inserted::Inserted;
use super::layout::{EMPTY, EntryLayout, Node, Tree};
use super::plan::{Planned, Search};
use super::structure::{BitSelect, Roots};
use super::tree::{DraftEntry, DraftTarget};
use super::writing::FreeBlocks;
use super::{block, change, pack, plan};
use crate::engine::Match;
use crate::engine::budget::Visits;
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::Lowered;

/// Bytes of blocks that need no prefetch: half of a second-level cache of 1 MiB.
const NEAR: usize = 512 << 10;

/// Builds the engine, with the roots `like` if they still serve.
pub(super) fn build(
    set: &Lowered,
    config: &Config,
    level: Level,
    visits: &Visits,
    like: Option<&Roots>,
) -> Result<BitSelect, BuildError> {
    let regions = set.regions();
    let shape = block::Shape::new(set.schema(), regions, set.by_rule().count(), config.lean);
    let cubes = Cubes::new(set.schema(), regions, level, visits);
    let run_bytes = config.budget.run_bytes;
    let within = |planned: Planned| {
        visits.check()?;
        let built = join(set, shape.clone(), level, &planned);
        let needed = built.bytes().iter().map(|(_, bytes)| bytes).sum();
        if needed > run_bytes { Err(BuildError::bytes(needed, run_bytes)) } else { Ok(built) }
    };
    match &config.shape {
        Some(shape) => within(plan::forced(regions, &cubes, shape)),
        None => {
            let lines = shape.lines();
            let search = |room| Search::new(regions, &cubes, lines, room);
            let alike = like.and_then(|like| search(run_bytes).like(like));
            if let Some(Ok(built)) = alike.map(within) {
                return Ok(built);
            }
            within(search(usize::MAX).chosen()).or_else(|error| match error.bytes_needed() {
                Some(_) => within(search(run_bytes).chosen()),
                None => Err(error),
            })
        }
    }
}

fn join(set: &Lowered, shape: block::Shape, level: Level, planned: &Planned) -> BitSelect {
    let (regions, drafts) = (set.regions(), &planned.drafts);
    let matches: Arc<[Match]> = set.by_rule().map(|(rule, _)| rule).collect();
    let layout = EntryLayout::new(0, matches.len(), shape.has_short_ranks);
    let mut ranks = Vec::with_capacity(regions.len());
    for (index, (_, range)) in set.by_rule().enumerate() {
        ranks.extend(range.map(|_| layout.rank(index as u32 + 1)));
    }
    let packed = pack::pack(drafts.iter().map(|draft| &draft.leaves), &shape, regions, &ranks);
    let blocks = packed.blocks.len() / shape.lines();
    let room = change::room(blocks);
    let indices = room.max(drafts.iter().map(|draft| draft.nodes.len()).sum());
    let layout = EntryLayout::new(indices, matches.len(), shape.has_short_ranks);
    let (mut trees, mut nodes, mut table) = (Vec::new(), Vec::new(), Vec::new());
    let mut leaves = 0;
    for draft in drafts {
        let (first_node, first_entry) = (nodes.len(), table.len());
        let entry = |DraftEntry { to, best }: DraftEntry| match to {
            DraftTarget::Node(node) => layout.entry(ranks[best as usize], first_node as u32 + node, false),
            DraftTarget::Leaf(leaf) => layout.entry(ranks[best as usize], packed.places[leaves + leaf as usize], true),
        };
        table.extend(draft.table.iter().map(|way| way.map_or(EMPTY, entry)));
        nodes.extend(draft.nodes.iter().map(|&node| Node { base: node.base + first_entry as u32, ..node }));
        let Some(&root) = nodes.last() else { continue };
        let (levels, longest, open) = (draft.levels(), draft.longest(), draft.open);
        trees.push(Tree { root, levels, longest, open });
        leaves += draft.leaves.len();
    }
    // The last entry is for the root of the overflow tree.
    table.push(EMPTY);
    BitSelect {
        schema: set.schema().clone(),
        level,
        columns: Kind::of(&shape, set.schema().stride(), level),
        shape,
        trees: trees.into(),
        has_overflow_tree: false,
        nodes: nodes.into(),
        table: table.into(),
        layout,
        is_large: size_of_val(&packed.blocks[..]) > NEAR,
        blocks: packed.blocks,
        room,
        free_blocks: FreeBlocks::default(),
        append_block: Box::default(),
        matches,
        regions: regions.len(),
        removed: Box::default(),
        removed_rules: 0,
        removed_regions: 0,
        inserted: Inserted::new(regions.key_words()),
        planned: planned.cost,
    }
}
