//! Lookups through many tables and long walks, with and without a match to beat.

use super::*;
use crate::KeyBuf;
use crate::engine::tests::steps;
use crate::raw::Level;
use crate::raw::truncated;

/// A rule of this slot and priority with the regions of some tests.
fn lowered(schema: &Schema, slot: u32, priority: u64, tests: Vec<(usize, Test)>) -> (Match, Regions) {
    let mut regions = Regions::new(schema.words().len());
    lower_rule(schema, &spec(0, tests), &ExpansionLimits::default(), &mut regions).expect("lowers");
    (Match { rule: RuleId::new(slot, 0), priority: Priority(priority) }, regions)
}

/// Panics unless each key gets the best of the rules that hold it, or keeps a better match.
///
/// Lookups start with no match, or with one that is just better, just worse or the best rule itself.
fn check(engine: &TupleMerge, rules: &[(Match, Regions)], keys: &KeyBuf, what: &str) {
    let rows = keys.keys();
    let mut scratch = Engine::new_scratch(engine);
    for offset in 0..4 {
        let mut best = Vec::new();
        let mut want = Vec::new();
        for at in 0..keys.len() {
            let holds = |regions: &Regions| regions.iter().any(|region| region.contains(rows.row(at)));
            let first = rules.iter().filter(|(_, regions)| holds(regions)).map(|(rule, _)| *rule);
            let first = first.min_by_key(|rule| rule.priority);
            let priority = first.map_or(Priority(1 << 40), |rule| rule.priority);
            let other = |priority| Some(Match { rule: RuleId::new(1 << 20, 0), priority: Priority(priority) });
            let (start, end) = match (at + offset) % 4 {
                0 => (None, first),
                1 => (other(priority.0 - 1), other(priority.0 - 1)),
                2 => (other(priority.0 + 1), first.or(other(priority.0 + 1))),
                _ => (first, first),
            };
            best.push(start);
            want.push(end);
        }
        for (at, (&start, want)) in best.iter().zip(&want).enumerate() {
            let mut alone = [start];
            Engine::improve(engine, &mut scratch, &rows.slice(at, at + 1), &mut alone);
            assert_eq!(alone[0], *want, "{what}, key {at} by itself");
        }
        Engine::improve(engine, &mut scratch, &rows, &mut best);
        assert_eq!(best, want, "{what}");
        for at in (0..keys.len()).step_by(7) {
            let found = engine.classify(&mut engine.scratch(), rows.slice(at, at + 1));
            let holds = |regions: &Regions| regions.iter().any(|region| region.contains(rows.row(at)));
            let first = rules.iter().filter(|(_, regions)| holds(regions)).map(|(rule, _)| *rule);
            assert_eq!(found, first.min_by_key(|rule| rule.priority), "{what}, one key");
        }
    }
}

/// Tuple space search at every level, with candidates and without.
fn searches(seed: u64) -> impl Iterator<Item = Config> {
    let both = |level| {
        let with = move |preclassifier| Config { simd: Some(level), preclassifier, ..Config::tss() };
        [true, false].map(with)
    };
    Level::available().flat_map(both).map(move |config| Config { seed: Some(seed), ..config })
}

/// Lookups find the best rule in 200 tables, whatever match they have to beat, and the next one after its removal.
///
/// A key may match in all tables, whose numbers are in any order of their best rules.
#[test]
fn the_best_of_many_tables_is_found_from_any_start() {
    let schema = Schema::ipv4();
    let prefix = |len| Test::Prefix { value: 0, len };
    for config in searches(1) {
        for seed in 0..4u64 {
            let mut random = Random(seed + 1);
            let mut order: Vec<u64> = (0..200).collect();
            match seed {
                0 => {}
                1 => order.reverse(),
                _ => (1..order.len()).rev().for_each(|at| order.swap(at, random.below(at as u64 + 1) as usize)),
            }
            let mut engine = TupleMerge::new(&schema, &config).expect("no budget");
            let mut rules = Vec::new();
            for (slot, &at) in (0..).zip(&order) {
                let tests = vec![(0, prefix(1 + slot % 20)), (1, prefix(1 + slot / 20))];
                let (rule, regions) = lowered(&schema, slot, 100 + 10 * at, tests);
                engine.insert(rule, &regions).expect("no budget");
                rules.push((rule, regions));
            }
            assert_eq!(engine.order.len(), 200);
            let mut keys = KeyBuf::new(&schema);
            for at in 0..90u32 {
                // In all tables, or in those of shorter prefixes alone.
                let bits = |of: u32| if of == 0 { 0 } else { u32::MAX >> of };
                keys.push()[..2].copy_from_slice(&[bits(at % 9 * 3), bits(at / 9)]);
            }
            check(&engine, &rules, &keys, &format!("{config:?}, seed {seed}"));
            while rules.len() > 100 {
                let best = (0..rules.len()).min_by_key(|&at| rules[at].0.priority).expect("some");
                let (rule, _) = rules.swap_remove(best);
                engine.remove(rule.rule).expect("it is there");
                if rules.len() % 20 == 0 {
                    super::check(&engine);
                    check(&engine, &rules, &keys, &format!("{config:?}, seed {seed}, {} left", rules.len()));
                }
            }
        }
    }
}

/// Walks that begin in the last bucket find their hosts in the first ones, whether tags are equal or not.
#[test]
fn walks_around_the_end_are_taken() {
    let schema = Schema::ipv4();
    for config in searches(5) {
        for is_truncated in [false, true] {
            let new = || TupleMerge::new(&schema, &config).expect("no budget");
            let mut engine = if is_truncated { truncated(new) } else { new() };
            let mut tuple = vec![0; schema.stride()];
            tuple[0] = u32::MAX;
            let hash = |engine: &TupleMerge, host: u32| {
                let mut row = vec![0; schema.stride()];
                row[0] = host;
                engine.hasher.hash(&row, &tuple)
            };
            // All of them in the last 16th: the last bucket where there are no more than 16 of them.
            let hosts: Vec<u32> = (1..).filter(|&host| hash(&engine, host) >= 0xF000_0000).take(50).collect();
            let mut rules = Vec::new();
            for (slot, &host) in (0..).zip(&hosts) {
                let tests = vec![(0, Test::Value(u128::from(host)))];
                let (rule, regions) = lowered(&schema, slot, 1000 - u64::from(slot), tests);
                engine.insert(rule, &regions).expect("no budget");
                rules.push((rule, regions));
            }
            let table = engine.in_order().next().expect("one table");
            assert!(table.buckets().len() <= 16 && table.longest_walk() > 4, "{} buckets", table.buckets().len());
            let mut keys = KeyBuf::new(&schema);
            hosts.iter().chain([&0, &7]).for_each(|&host| keys.push()[0] = host);
            let what = format!("{config:?}, truncated hashes: {is_truncated}");
            check(&engine, &rules, &keys, &what);
            // Each host is tested once, however many of them have the tag of the key.
            let tests = |at| steps(&engine, keys.keys().slice(at, at + 1), "tests");
            let most = (0..keys.len()).map(tests).max().expect("keys");
            assert!(most <= if is_truncated { 50 } else { 8 }, "{what}: {most} tests");
            while rules.len() > 3 {
                let (rule, _) = rules.remove(rules.len() * 3 / 7);
                engine.remove(rule.rule).expect("it is there");
                if rules.len() % 9 == 0 {
                    super::check(&engine);
                    check(&engine, &rules, &keys, &what);
                }
            }
        }
    }
}

/// Single keys find the best live rule, in tables and in the overflow list, while tombstones are set one by one.
#[test]
fn single_keys_find_live_rules_beside_an_overflow_list() {
    let schema = Schema::ipv4();
    let prefix = |len| Test::Prefix { value: 0, len };
    for config in searches(1) {
        let config = Config { most_tables: 13, ..config };
        let mut engine = TupleMerge::new(&schema, &config).expect("no budget");
        let mut rules = Vec::new();
        for slot in 0..40 {
            let tests = vec![(0, prefix(1 + slot % 20)), (1, prefix(1 + slot / 20))];
            let (rule, regions) = lowered(&schema, slot, 100 + u64::from(slot * 7 % 40), tests);
            engine.insert(rule, &regions).expect("no budget");
            rules.push((rule, regions));
        }
        assert_eq!((engine.order.len(), engine.overflow.len()), (13, 27));
        let mut keys = KeyBuf::new(&schema);
        for at in 0..20u32 {
            keys.push()[..2].copy_from_slice(&[u32::MAX >> (1 + at), u32::MAX >> (1 + at % 3)]);
        }
        check(&engine, &rules, &keys, &format!("{config:?}"));
        let mut dead = Tombstones::none(engine.places(), 40);
        while let Some(best) = (0..rules.len()).min_by_key(|&at| rules[at].0.priority) {
            let (rule, _) = rules.swap_remove(best);
            dead.mark(rule.rule, engine.places_of(rule.rule, 0, 0..0));
            for at in 0..keys.len() {
                let (key, mut found) = (keys.keys().slice(at, at + 1), [None]);
                engine.improve_live(&mut Scratch::new(), &key, &dead, &mut found);
                let holding =
                    rules.iter().filter(|(_, regions)| regions.iter().any(|region| region.contains(key.row(0))));
                let want = holding.map(|(rule, _)| *rule).min_by_key(|rule| rule.priority);
                assert_eq!(found[0], want, "{config:?}, key {at}, {} rules left", rules.len());
            }
        }
    }
}
