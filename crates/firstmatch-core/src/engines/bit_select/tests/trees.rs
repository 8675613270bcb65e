//! Lookups through any number of trees, and the bounds in entries.

use super::bits::{Bits, Cubes};
use super::plan::Search;
use super::*;
use crate::engine::tombstones::Tombstones;
use crate::engines::shared::wide::Random;
use crate::rule::{Priority, Regions};

/// Number of fields of 20 bits; a rule tests one of them.
const KINDS: usize = 9;

/// Returns a schema of these fields and a port, whose ranges no node separates.
fn schema() -> Schema {
    let of = |at: usize| Field::new(&format!("f{at}"), 20, Kind::Range, None);
    let ports = Field::new("port", 16, Kind::Range, None);
    Schema::new(None, (0..KINDS).map(of).chain([ports]).collect())
}

/// Returns rules of `values` values in each of some fields; no node separates the `each` rules of one value.
fn rules(kinds: usize, values: usize, each: usize) -> Lowered {
    let mut random = Random(values as u64);
    let mut tests: Vec<Vec<(usize, Test)>> = Vec::new();
    for at in 0..kinds * values * each {
        let value = (at / each % values) as u128 * 0x1F35 % (1 << 20);
        let lo = random.below(3000) as u128;
        tests.push(vec![
            (at / each / values, Test::Value(value)),
            (KINDS, Test::Range { lo, hi: lo + 200 + random.below(2500) as u128 }),
        ]);
    }
    // The order of priority does not follow the order of fields.
    (1..tests.len()).rev().for_each(|at| tests.swap(at, random.below(at + 1)));
    set(&schema(), tests)
}

/// Returns keys whose fields mostly have values of rules, so that rules of several trees hold a key.
fn keys_of(all: &Lowered, count: usize) -> KeyBuf {
    let (mut random, mut keys) = (Random(9), KeyBuf::new(all.schema()));
    for _ in 0..count {
        let key = keys.push();
        for _ in 0..2 * KINDS {
            let region = all.regions().get(random.below(all.regions().len()));
            (0..KINDS).filter(|&word| region.lo[word] == region.hi[word]).for_each(|word| key[word] = region.lo[word]);
            key[KINDS] = random.between(region.lo[KINDS], region.hi[KINDS]);
        }
    }
    keys
}

/// A key that no rule holds.
fn idle(schema: &Schema) -> Vec<u32> {
    let mut key = vec![0; schema.stride()];
    (0..KINDS).for_each(|word| key[word] = (1 << 20) - 1);
    key
}

/// Returns, for each key, the first region that holds it and has no tombstone.
fn scan(all: &Lowered, keys: &KeyBuf, dead: Option<&Tombstones>) -> Vec<Option<Match>> {
    let counts = |at: usize| dead.is_none_or(|dead| !dead.is_marked(all.rules()[at].rule));
    let first = |row: &[u32]| (0..all.rules().len()).find(|&at| counts(at) && all.regions().get(at).contains(row));
    (0..keys.len()).map(|at| first(keys.keys().row(at)).map(|at| all.rules()[at])).collect()
}

/// Panics unless an engine answers as `want` says, in batches of several lengths.
///
/// Each key is also looked up alone among keys that no rule holds, at every place where eight keys begin or end.
fn check(engine: &BitSelect, keys: &KeyBuf, want: &[Option<Match>], dead: Option<&Tombstones>, what: &str) {
    let ask = |keys: Keys<'_>| {
        let mut got = vec![None; keys.len()];
        match dead {
            None => Engine::improve(engine, &mut (), &keys, &mut got),
            Some(dead) => engine.improve_live(&mut (), &keys, dead, &mut got),
        }
        got
    };
    for length in [keys.len(), 1, 2, 3, 4, 33] {
        for from in (0..keys.len()).step_by(length) {
            let to = (from + length).min(keys.len());
            assert_eq!(ask(keys.keys().slice(from, to)), want[from..to], "{what}, batch {from}..{to}");
        }
    }
    let idle = idle(Engine::schema(engine));
    for at in (0..keys.len()).step_by(3) {
        for place in [0, 7, 8, 16, 31] {
            let mut batch = KeyBuf::new(Engine::schema(engine));
            for i in 0..32 {
                batch.push().copy_from_slice(if i == place { keys.keys().row(at) } else { &idle });
            }
            let got = ask(batch.keys());
            let expected: Vec<_> = (0..32).map(|i| if i == place { want[at] } else { None }).collect();
            assert_eq!(got, expected, "{what}, key {at} alone at {place}");
        }
    }
}

/// Batches, few keys and single keys get the first rule from any tree or, if that has a tombstone, the next rule.
///
/// There are one to nine trees, with leaves of one block and of several, below one level of nodes and more.
#[test]
fn any_number_of_trees_is_searched() {
    for level in Level::available() {
        let (mut seen, mut deep, mut long) = ([0; KINDS + 1], 0, 0);
        for kinds in 1..=KINDS {
            for (values, each) in [(24, 1), (3, 12)] {
                let all = rules(kinds, values, each);
                let keys = keys_of(&all, 120);
                let mut dead = Tombstones::none(all.rules().len(), all.rules().len());
                for (at, rule) in all.rules().iter().enumerate().filter(|(at, _)| at % 3 == 0) {
                    dead.mark(rule.rule, at..at + 1);
                }
                let want = [None, Some(&dead)].map(|dead| scan(&all, &keys, dead));
                assert!(want[0].iter().flatten().count() * 2 > keys.len());
                for fan_out in [1, 8] {
                    let shape = Shape { trees: kinds, levels: 4, fan_out, open: 0, growth: 4.0 };
                    let config = Config { simd: Some(level), shape: Some(shape), ..Config::default() };
                    let engine = BitSelect::build(&all, &config).expect("no budget");
                    let what = format!("{level:?}, {kinds} kinds of {values} values, fan-out {fan_out}");
                    check(&engine, &keys, &want[0], None, &what);
                    check(&engine, &keys, &want[1], Some(&dead), &what);
                    assert!(engine.trees.iter().all(|tree| tree.levels <= 4), "{what}");
                    seen[engine.trees.len()] += 1;
                    deep += usize::from(engine.trees.iter().filter(|tree| tree.levels > 1).count() > 2);
                    long += usize::from(engine.trees.iter().filter(|tree| tree.longest > 1).count() > 2);
                }
            }
        }
        assert!(seen[1..].iter().all(|&seen| seen > 0), "trees of engines: {seen:?}");
        assert!(deep > 0 && long > 0, "{deep} with nodes below roots, {long} with long lists");
    }
}

/// A batch tests as many blocks of one tree as its keys one by one, with and without nodes before the leaves.
#[test]
fn a_batch_tests_no_block_twice() {
    let mut deep = 0;
    for (values, each, fan_out) in [(24, 1, 8), (300, 12, 1), (300, 12, 8)] {
        let all = rules(1, values, each);
        let keys = keys_of(&all, 200);
        let shape = Shape { trees: 1, levels: 4, fan_out, open: 0, growth: 4.0 };
        let engine = BitSelect::build(&all, &Config { shape: Some(shape), ..Config::default() }).expect("no budget");
        assert_eq!(engine.trees.len(), 1);
        deep += usize::from(engine.trees[0].levels > 1);
        let blocks = |keys: Keys<'_>| steps(&engine, keys, "blocks");
        let alone: usize = (0..keys.len()).map(|at| blocks(keys.keys().slice(at, at + 1))).sum();
        assert_eq!(blocks(keys.keys()), alone, "{values} values of {each} rules, fan-out {fan_out}");
    }
    assert!(deep > 1, "{deep} with nodes below the root");
}

/// Returns rules, rules to insert among them, and a key.
///
/// The rules are for 2,200 hosts, half of them by source, so that an entry has room for only some bits of a rank. The
/// rules to insert come behind the first 1,100, in turn by the source and by the destination of the key.
fn crowded() -> (Lowered, Vec<(Match, Regions)>, Vec<u32>) {
    let host = |at: u128| vec![(at as usize % 2, Test::Value((at << 12) + 1))];
    let schema = Schema::ipv4();
    let all = set(&schema, (0..2200).map(host));
    let before = all.rules()[1099].priority.0;
    let key = vec![5 << 20, 7 << 20, 0, 50, 6, 0, 0, 0];
    let between = (0..24u32).map(|at| {
        let (word, port) = (at as usize % 2, at % 50);
        let (mut lo, mut hi) = (vec![0; 5], schema.words().iter().map(|word| word.max).collect::<Vec<u32>>());
        (lo[word], hi[word]) = (key[word], key[word]);
        (lo[3], hi[3]) = (port, 60);
        let mut regions = Regions::new(5);
        regions.push(crate::rule::Region { lo: &lo, hi: &hi, ternary: None });
        let priority = Priority(before + 1 + u64::from(at));
        (Match { rule: RuleId::new(5000 + at, 0), priority }, regions)
    });
    let between = between.collect();
    (all, between, key)
}

/// The limit of a rank passes every entry that may lead to a better rank.
///
/// The bound of an entry lacks the rank bits that do not fit. Of entries that lead to no better rank, the limit passes
/// only some whose rank differs from a better rank in these bits alone.
#[test]
fn limits_let_through_what_may_be_better() {
    let few = set(&Schema::ipv4(), (0..40u128).map(|at| vec![(0, Test::Value(at << 12))]));
    let mut dropping = 0;
    for all in [few, crowded().0] {
        let engine = build(&all);
        let (layout, limits) = (engine.layout, engine.limits());
        let last = (1u32 << layout.index) - 1;
        dropping += usize::from(layout.dropped > 0);
        let all_ranks = 1..layout.end;
        let some = all_ranks.clone().step_by(997).chain([1, 2, 1 << layout.dropped, layout.end - 1]);
        for rank in some {
            let limit = limits.of(rank);
            for better in [1, rank / 2, rank.saturating_sub(1 << layout.dropped), rank - 1] {
                let is_better = all_ranks.contains(&better) && better < rank;
                assert!(!is_better || layout.entry(better, last, true) < limit, "{better} is better than {rank}");
            }
            for worse in [rank + (1 << layout.dropped), rank + (2 << layout.dropped)] {
                let is_worse = worse <= layout.end;
                assert!(!is_worse || layout.entry(worse, 0, false) >= limit, "{worse} is worse than {rank}");
            }
        }
        // If no rule was found, every entry passes except the one that leads nowhere.
        for none in [block::NONE, u32::MAX, layout.end] {
            let limit = limits.of(none);
            assert!(layout.entry(layout.end - 1, last, true) < limit, "{none}");
        }
        for (index, is_leaf) in [(0, true), (last, false), (last / 3, true)] {
            let entry = layout.entry(layout.end - 1, index, is_leaf);
            assert_eq!((limits.index(entry), entry & LEAF != 0), (index as usize, is_leaf));
        }
    }
    assert_eq!(dropping, 1, "some engine drops bits, some does not");
}

/// If entries of two trees have equal bounds, the best rule is found in either tree and, once it is removed, the next.
#[test]
fn equal_promises_of_two_trees_are_both_followed() {
    let (all, between, key) = crowded();
    for seed in 0..8u64 {
        let mut engine = build(&all);
        assert!(engine.trees.len() == 2 && engine.layout.dropped > 0, "{} trees", engine.trees.len());
        let (mut random, mut order) = (Random(seed), between.clone());
        match seed {
            0 => {}
            1 => order.reverse(),
            _ => (1..order.len()).rev().for_each(|at| order.swap(at, random.below(at + 1))),
        }
        order.retain(|(rule, regions)| engine.insert_rule(*rule, 1100, regions));
        assert!(order.len() >= 8, "{} came", order.len());
        order.sort_by_key(|(rule, _)| rule.priority);
        let mut keys = KeyBuf::new(all.schema());
        (0..40).for_each(|_| keys.push().copy_from_slice(&key));
        for removed in 0..=order.len() {
            let want = order.get(removed).map(|(rule, _)| *rule);
            for length in [1, 2, 40] {
                let mut got = vec![None; length];
                Engine::improve(&engine, &mut (), &keys.keys().slice(0, length), &mut got);
                assert!(got.iter().all(|got| *got == want), "seed {seed}, {removed} gone: {got:?} instead of {want:?}");
            }
            order.get(removed).inspect(|(rule, _)| assert!(engine.remove_inserted_rule(*rule, 1100)));
        }
    }
}

/// If the fastest trees exceed the budget, trees that fit are built instead.
#[test]
fn smaller_trees_serve_a_smaller_budget() {
    let mut random = Random(4);
    // Regions that leave many bits open are copied often if there is memory.
    let mut net = |field: usize| {
        let len = [0, 4, 8, 12, 16, 20, 32][random.below(7)] as u32;
        let value = u128::from(random.next() >> 32 << 32 >> len.max(1) >> (32 - len));
        (field, Test::Prefix { value: value << (32 - len) & u128::from(u32::MAX), len })
    };
    let all = set(&Schema::ipv4(), (0..600).map(|_| vec![net(0), net(1)]).collect::<Vec<_>>());
    let bytes = |engine: &BitSelect| Engine::stats(engine).total_bytes();
    let free = bytes(&build(&all));
    let mut enough = Vec::new();
    for percent in (5..100).step_by(5) {
        let budget = Budget { run_bytes: free * percent / 100 };
        match BitSelect::build(&all, &Config { budget, ..Config::default() }) {
            Ok(built) => {
                assert!(bytes(&built) <= budget.run_bytes, "{} bytes in {budget:?}", bytes(&built));
                enough.push(percent);
            }
            Err(error) => assert!(error.budget_exceeded(), "{error}"),
        }
    }
    assert!(enough.len() > 3 && enough[0] > 5, "of {free} bytes these parts are enough: {enough:?}");
}

/// 600 rules for a port of some network, and one for all packets.
fn services() -> Lowered {
    let mut random = Random(12);
    let mut service = || {
        let net = Test::Prefix { value: (random.below(1 << 16) as u128) << 16, len: 16 };
        vec![(0, net), (3, Test::Value(random.below(2000) as u128))]
    };
    let tests: Vec<_> = (0..600).map(|_| service()).chain([vec![]]).collect();
    set(&Schema::ipv4(), tests)
}

/// Whether nodes select the bit that says that a packet has no destination port.
fn select_absent(nodes: impl IntoIterator<Item = Selector>) -> bool {
    let absent = Schema::ipv4().words()[3].absent.expect("ports are optional");
    let mut words = nodes.into_iter().flat_map(|node| Bits::of(node).words);
    words.any(|(word, bits)| word == 3 && bits & absent != 0)
}

/// Packets without ports are hardly tested against the many rules for ports.
#[test]
fn packets_without_ports_pass_rules_for_ports() {
    let all = services();
    let engine = build(&all);
    assert!(select_absent(engine.selectors()));
    let mut keys = KeyBuf::new(all.schema());
    for region in all.regions().iter().take(600) {
        keys.push()[..5].copy_from_slice(&[region.lo[0], 9, 1 << 16, 1 << 16, 1]);
    }
    let mut best = vec![None; keys.len()];
    let blocks = engine.count(&mut (), &keys.keys(), &mut best).get("blocks").expect("it counts them");
    assert!(best.iter().all(|best| *best == all.rules().last().copied()));
    assert!(blocks < 700, "{blocks} blocks for 600 packets");
}

/// Roots select no absent bit if there is no room for it.
#[test]
fn a_bit_for_absent_gives_way_to_the_room() {
    let all = services();
    let visits = Visits::default();
    let cubes = Cubes::new(all.schema(), all.regions(), Level::Scalar, &visits);
    let selects = (4..80).map(|kibibytes| {
        let planned = Search::new(all.regions(), &cubes, 3, kibibytes << 10).chosen();
        select_absent(planned.drafts.iter().filter_map(|draft| draft.nodes.last()).map(|root| root.bits))
    });
    let selects: Vec<bool> = selects.collect();
    assert!(selects.contains(&false) && selects.ends_with(&[true; 8]), "{selects:?}");
}

/// A selector reads two pairs of neighbouring words, and takes any bits of these four words.
#[test]
fn pairs_begin_at_any_word() {
    for (words, pairs) in [
        (vec![(1, 0xF0), (3, 1 << 16), (4, 3)], [1, 3]),
        (vec![(0, 1), (1, 2), (2, 4), (3, 8)], [0, 2]),
        (vec![(4, 0x80)], [3, 3]),
        (vec![(2, 7), (4, 1)], [2, 3]),
        (vec![], [0, 0]),
    ] {
        let bits = Bits { words };
        let selector = bits.selector(5);
        assert_eq!((selector.pairs, selector.count()), (pairs, bits.count()), "{bits:?}");
        assert_eq!(Bits::of(selector), bits);
    }
}
