//! Invariants of a structure that changes in place, checked between changes.

use super::*;

/// Checks the invariants of the structure, where `held` are its rules.
///
/// - Ranks rise with priorities, none is given twice, and each leads to its rule.
/// - No block stands in the lists of two trees, and there are no more blocks than there is room for.
/// - A list is in order of rank and no longer than its tree says. Every block of it but the last has a region.
/// - The bound of an entry is not above the rank of any region that reaches it. Every entry that a region reaches
///   leads to a list with that region.
///
/// # Panics
/// If one of them does not hold.
pub(super) fn check_invariants(engine: &BitSelect, all: &Lowered, held: &[Ranged]) {
    let mut ranks: Vec<(Priority, u32, Match)> = Vec::new();
    for (rule, _) in held {
        let before = engine.matches.partition_point(|of| of.priority < rule.priority);
        let is_first = engine.matches.get(before) == Some(rule) && engine.has_built_rule(before);
        let inserted = engine.inserted.rank_of(rule.rule, before as u32);
        let rank = if is_first { engine.layout.rank(before as u32 + 1) } else { inserted.expect("a rule has a rank") };
        assert_eq!(engine.rule_of(rank), Some(*rule), "rank {rank}");
        ranks.push((rule.priority, rank, *rule));
    }
    ranks.sort_unstable_by_key(|(priority, ..)| *priority);
    assert!(ranks.windows(2).all(|pair| pair[0].1 < pair[1].1), "ranks rise with priorities");
    assert!(engine.blocks.len() <= engine.room * engine.shape.lines(), "there is room for all blocks");
    let rank_of: HashMap<RuleId, u32> = ranks.iter().map(|(_, rank, rule)| (rule.rule, *rank)).collect();
    let mut tree_of = vec![None; engine.blocks.len() / engine.shape.lines()];
    for (number, tree) in engine.trees.iter().enumerate() {
        let mut nodes = vec![tree.root];
        let mut seen = HashSet::new();
        while let Some(node) = nodes.pop() {
            for at in 0..1u32 << node.bits.count() {
                let slot = Slot { at: node.base + at, index: at, node: 0 };
                match engine.to(&slot) {
                    Target::Nothing => {}
                    Target::Node(below) => nodes.extend(seen.insert(below).then(|| engine.nodes[below])),
                    Target::Block(first) => check_list(engine, first, (number, tree.longest), &mut tree_of),
                }
            }
        }
    }
    for (rule, range) in held {
        for region in range.clone().map(|at| all.regions().get(at)) {
            let Some((_, reached)) = engine.reach_any(&region) else { continue };
            for slot in reached.slots() {
                let entry = engine.table[slot.at as usize];
                let promised = u64::from(entry) >> (engine.layout.index + 1);
                let rank = rank_of[&rule.rule];
                assert!(promised <= u64::from(rank >> engine.layout.dropped), "an entry promises too little");
                if let Target::Block(first) = engine.to(slot) {
                    assert!(list(engine, first).contains(&rank), "a region is missing from a leaf that it reaches");
                }
            }
        }
    }
}

/// Returns the ranks of a list, block by block.
fn list(engine: &BitSelect, first: usize) -> Vec<u32> {
    let (mut ranks, mut next) = (Vec::new(), Some(first));
    while let Some(block) = next {
        let words = engine.block(block);
        ranks.extend((0..engine.shape.len(words)).map(|at| engine.shape.rank(words, at)));
        next = engine.more(block);
    }
    ranks
}

fn check_list(engine: &BitSelect, first: usize, (tree, longest): (usize, usize), tree_of: &mut [Option<usize>]) {
    let (mut blocks, mut next) = (0, Some(first));
    while let Some(block) = next {
        assert_eq!(*tree_of[block].get_or_insert(tree), tree, "block {block} is in two trees");
        blocks += 1;
        next = engine.more(block);
        assert!(next.is_none() || engine.shape.len(engine.block(block)) > 0, "an empty block ends a list");
    }
    assert!(blocks <= longest.max(1), "a list of {blocks} blocks where the tree says {longest}");
    assert!(list(engine, first).is_sorted(), "a list is in order of rank");
}

/// Returns the number of stale regions that a lookup finds or could come to find.
///
/// A stale region is not there, and no equal region is.
pub(super) fn left(engine: &BitSelect, there: &[Region<'_>], away: &[Region<'_>]) -> usize {
    let there: HashSet<_> = there.iter().map(|region| (region.lo, region.hi, region.ternary)).collect();
    let words = engine.shape.lines() * LINE_WORDS;
    let is_left = |region: &&Region<'_>| {
        let mut alone = vec![0; words];
        engine.shape.write(&[(0, **region)], None, &mut alone);
        let mut both = vec![0; 2 * words];
        blocks_of(engine, region).into_iter().any(|block| {
            both[..words].copy_from_slice(engine.block(block));
            (0..engine.shape.len(&both)).any(|at| {
                engine.shape.write(&[], None, &mut both[words..]);
                engine.shape.add_copy(&mut both, (0, at), words);
                both[words + 1..] == alone[1..]
            })
        })
    };
    let away = away.iter().filter(|region| engine.shape.holds(region));
    away.filter(|region| !there.contains(&(region.lo, region.hi, region.ternary))).filter(is_left).count()
}

/// Returns the blocks where a lookup could find a region, and the append blocks of its nodes.
fn blocks_of(engine: &BitSelect, region: &Region<'_>) -> Vec<usize> {
    let Some((_, reached)) = engine.reach_any(region) else { return Vec::new() };
    let mut blocks = Vec::new();
    for slot in reached.slots() {
        let mut next = if let Target::Block(block) = engine.to(slot) { Some(block) } else { None };
        while let Some(block) = next {
            blocks.push(block);
            next = engine.more(block);
        }
        blocks.extend(engine.append_block(slot.node as usize));
    }
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}
