//! Invariants of a structure that changes in place, checked between changes.

use super::*;

/// Checks the invariants of the structure, and of its rules, which are `held`.
///
/// - Ranks rise with priorities, none is given twice, and each leads to its rule.
/// - The bound of an entry is not above the rank of any region that reaches it. Every entry that a region reaches
///   leads to a list with that region.
///
/// # Panics
/// If one of them does not hold.
pub(super) fn check_rules(engine: &BitSelect, all: &Lowered, held: &[Ranged]) {
    engine.check_invariants();
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
    let rank_of: HashMap<RuleId, u32> = ranks.iter().map(|(_, rank, rule)| (rule.rule, *rank)).collect();
    for (rule, range) in held {
        for region in range.clone().map(|at| all.regions().get(at)) {
            let mut reached = Reached::new();
            if engine.reach_any(&region, &mut reached).is_none() {
                continue;
            }
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

/// Returns the number of stale regions that a lookup finds or could come to find.
///
/// A region is stale if neither it nor an equal region is in the engine.
pub(super) fn left(engine: &BitSelect, there: &[Region<'_>], away: &[Region<'_>]) -> usize {
    let there: HashSet<_> = there.iter().map(|region| (region.lo, region.hi, region.ternary)).collect();
    let words = engine.shape.lines() * LINE_WORDS;
    let is_left = |region: &&Region<'_>| {
        let mut alone = vec![0; words];
        engine.shape.write(&[(0, **region)], None, &mut alone);
        let mut copy = vec![0; words];
        blocks_of(engine, region).into_iter().map(|block| engine.block(block)).any(|block| {
            (0..engine.shape.len(block)).any(|at| {
                engine.shape.write(&[], None, &mut copy);
                engine.shape.add_copy(block, at, &mut copy);
                copy[1..] == alone[1..]
            })
        })
    };
    let away = away.iter().filter(|region| engine.shape.holds(region));
    away.filter(|region| !there.contains(&(region.lo, region.hi, region.ternary))).filter(is_left).count()
}

/// Returns the blocks where a lookup could find a region, and the append blocks of its nodes.
fn blocks_of(engine: &BitSelect, region: &Region<'_>) -> Vec<usize> {
    let mut reached = Reached::new();
    if engine.reach_any(region, &mut reached).is_none() {
        return Vec::new();
    }
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
