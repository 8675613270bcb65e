//! Bounds of changes in place: slots that a region reaches, and the largest costs of the engine.

use super::*;

/// Returns the number of slots that a region reaches from a node, without a limit.
fn slots(engine: &BitSelect, number: usize, region: &Region<'_>, seen: &mut HashSet<usize>) -> usize {
    let node = *engine.node(number);
    let (value, open) = node.bits.of_region(engine.level, region);
    let mut here = Vec::new();
    each((value as usize, open as usize), |index| {
        here.push(Slot { at: node.base + index as u32, index: index as u32, node: number as u32 });
    });
    let mut count = here.len();
    for slot in &here {
        if let Target::Node(below) = engine.to(slot)
            && seen.insert(below)
        {
            count += slots(engine, below, region, seen);
        }
    }
    count
}

/// A region is put into the leaves of up to 128 slots, and refused with one slot more.
#[test]
fn a_region_reaches_at_most_128_slots() {
    let schema = Schema::ipv4();
    let hosts = (0..4000u128).map(|at| vec![(0, Test::Value(at << 13)), (1, Test::Value(at << 9))]);
    let all = set(&schema, hosts);
    let engine = BitSelect::build(&all, &scalar()).expect("no budget");
    let mut counts = HashSet::new();
    for field in [0, 1] {
        for (length, value) in (0..=32).flat_map(|length| [0, 77 << 13, 3999 << 9].map(|value| (length, value))) {
            let open = u32::MAX.checked_shr(length).unwrap_or(0);
            let [mut lo, mut hi] = [[77 << 13, 77 << 9, 0, 0, 0], [77 << 13, 77 << 9, 1 << 16, 1 << 16, 255]];
            (lo[field], hi[field]) = (value & !open, value | open);
            let region = Region { lo: &lo, hi: &hi, ternary: None };
            for tree in 0..engine.trees.len() {
                let count = slots(&engine, engine.nodes.len() + tree, &region, &mut HashSet::new());
                let mut reached = Reached::new();
                let reached = engine.reach_in(tree, &region, &mut reached).map(|_| reached.count);
                assert_eq!(reached, Some(count).filter(|&count| count <= 128), "tree {tree}, {region:?}");
                counts.insert(count);
            }
        }
    }
    assert!(counts.contains(&128), "no region reaches just 128: {counts:?}");
    assert!(counts.iter().any(|&count| count > 128), "{counts:?}");
}

/// The bounds that an engine states for all changes do not change when the overflow tree is made.
#[test]
fn bounds_hold_for_rules_of_most_keys() {
    let schema = Schema::ipv4();
    let hosts = (0..1000u128).map(|i| vec![(0, Test::Value(i * 0x0001_0101)), (1, Test::Value(i << 22))]);
    let all = set(&schema, hosts.chain((0..32).map(|i| vec![(3, Test::Range { lo: i + 10, hi: 40_000 })])));
    let rules: Vec<Ranged> = all.by_rule().collect();
    let mut engine = Walk::with(&all, scalar(), rules[..1000].to_vec(), Vec::new(), Random(1)).engine;
    let (before, mut came) = (engine.most(), 0);
    for (rule, range) in &rules[1000..] {
        let mut regions = Regions::new(schema.words().len());
        regions.push(all.regions().get(range.start));
        came += usize::from(engine.insert_rule(*rule, 1000, &regions));
        let (after, stats) = (engine.most(), Engine::stats(&engine));
        assert_eq!([after.lines, after.tests], [before.lines, before.tests], "{stats:?}");
        assert!(stats.total_bytes() <= after.bytes, "{after:?} {stats:?}");
        assert!(stats.worst_lines <= before.lines && stats.worst_tests <= before.tests, "{before:?} {stats:?}");
    }
    assert!(engine.has_overflow_tree && came >= 8, "{came} came");
}

/// Returns the number of blocks of the longest list.
fn longest(engine: &BitSelect) -> usize {
    let list = |first| std::iter::successors(Some(first), |&block| engine.more(block)).count();
    let slots = (0..engine.table.len() as u32).map(|at| Slot { at, index: 0, node: 0 });
    let lists =
        slots.filter_map(|slot| if let Target::Block(first) = engine.to(&slot) { Some(list(first)) } else { None });
    lists.max().unwrap_or(0)
}

/// The stated worst case grows with the longest list, but not for a rule that fits into a block.
#[test]
fn the_worst_case_is_the_longest_list_there_was() {
    let schema = Schema::ipv4();
    let hosts = (0..1300u128).map(|i| vec![(0, Test::Value(i % 1000 * 0x0001_0101)), (1, Test::Value(i << 21))]);
    let all = set(&schema, hosts);
    let rules = || all.by_rule().enumerate();
    let built = rules().filter(|(at, _)| at % 4 < 3).map(|(_, rule)| rule).collect();
    let mut engine = Walk::with(&all, scalar(), built, Vec::new(), Random(1)).engine;
    let stated = |engine: &BitSelect| engine.trees.iter().map(|tree| tree.longest).max();
    let (mut most, mut came) = (longest(&engine), 0);
    assert_eq!(stated(&engine), Some(most));
    for (at, (rule, range)) in rules().filter(|(at, _)| at % 4 == 3) {
        let mut regions = Regions::new(schema.words().len());
        regions.push(all.regions().get(range.start));
        came += usize::from(engine.insert_rule(rule, at - at / 4, &regions));
        most = most.max(longest(&engine));
        assert_eq!(stated(&engine), Some(most));
    }
    assert!(came > 300, "{came} came");
}
