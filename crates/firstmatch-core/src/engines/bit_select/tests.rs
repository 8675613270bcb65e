mod blocks;
mod entries;
mod trees;

use super::layout::{BETWEEN, LEAF};
use super::*;
use crate::engine::budget::Budget;
use crate::engine::tests::steps;
use crate::engines::shared::wide::Random;
use crate::key::KeyBuf;
use crate::rule::Test;
use crate::schema::{Field, Kind};
use crate::test_rules::set;

fn build(set: &Lowered) -> BitSelect {
    BitSelect::build(set, &Config::default()).expect("no budget")
}

/// Builds lean blocks however few the regions are.
fn build_lean(set: &Lowered) -> BitSelect {
    BitSelect::build(set, &Config { lean: 0, ..Config::default() }).expect("no budget")
}

fn lines(schema: &Schema, rules: impl IntoIterator<Item = Vec<(usize, Test)>>) -> usize {
    build(&set(schema, rules)).shape.lines()
}

#[test]
fn columns_are_as_narrow_as_values_allow() {
    let field = |width| Field::new(&format!("f{width}"), width, Kind::Range, None);
    let range = |field: usize| (field, Test::Range { lo: 1, hi: 5 });
    let all = || [vec![]];
    let of = |widths: &[u32]| Schema::new(None, widths.iter().map(|&width| field(width)).collect());
    // A line holds the ranks and one column of byte bounds, or three of single values.
    assert_eq!(lines(&of(&[8]), [vec![range(0)]]), 1);
    assert_eq!(lines(&of(&[8, 7]), [vec![range(0), range(1)]]), 2);
    assert_eq!(lines(&of(&[8, 7, 6]), all()), 1);
    assert_eq!(lines(&of(&[8, 7, 6, 5]), all()), 2);
    assert_eq!(lines(&of(&[8, 16, 9]), all()), 2);
    assert_eq!(lines(&of(&[17, 16]), all()), 3);
    assert_eq!(lines(&Schema::new(None, vec![field(16).optional(), field(15).optional()]), all()), 2);
}

/// Prefixes of addresses and single protocols take less room than other intervals.
///
/// Columns that would save no lines have two bounds.
#[test]
fn five_tuples_have_columns_of_their_own() {
    let net = |bits: u32| Test::Prefix { value: 1 << bits, len: 12 };
    let some = Test::Range { lo: 1 << 32, hi: 5 << 32 };
    let few = Test::Range { lo: 6, hi: 17 };
    let kind = |schema: &Schema, tests: &[(usize, Test)]| {
        let engine = build(&set(schema, [tests.to_vec(), vec![(4, Test::Value(6))], vec![]]));
        (engine.shape.lines(), format!("{:?}", engine.columns).split('(').next().map(String::from))
    };
    let expected = |lines: usize, kind: &str| (lines, Some(kind.to_string()));
    let (four, six) = (Schema::ipv4(), Schema::ipv6());
    assert_eq!(kind(&four, &[(0, net(20))]), expected(3, "Plain4"));
    assert_eq!(kind(&four, &[(0, few)]), expected(4, "Wide4"));
    assert_eq!(kind(&four, &[(4, few)]), expected(4, "Wide4"));
    assert_eq!(kind(&four, &[(4, Test::Value(255))]), expected(4, "Wide4"));
    assert_eq!(kind(&six, &[(0, net(120))]), expected(6, "Plain6"));
    assert_eq!(kind(&six, &[(4, few)]), expected(7, "Any"));
    assert_eq!(kind(&six, &[(0, some), (1, some)]), expected(10, "Any"));
}

/// Schemas whose words differ from a 5-tuple in one respect are not searched as a 5-tuple, and give right answers.
#[test]
fn schemas_like_five_tuples_are_not_taken_for_them() {
    let prefix = |width: u32, name| Field::new(name, width, Kind::Prefix, None);
    let exact = |width: u32, name| Field::new(name, width, Kind::Exact, None);
    let port = |name| Field::new(name, 16, Kind::Range, None);
    let ports = || vec![port("sport").optional(), port("dport").optional()];
    let four = || vec![prefix(32, "src"), prefix(32, "dst")];
    let six = || vec![prefix(128, "src"), prefix(128, "dst")];
    let all = |fields: [Vec<Field>; 3]| Schema::new(None, fields.concat());
    for (schema, expected) in [
        (all([four(), ports(), vec![exact(8, "proto")]]), "Plain4"),
        (all([six(), ports(), vec![exact(8, "proto")]]), "Plain6"),
        (all([vec![prefix(64, "both")], ports(), vec![exact(8, "proto")]]), "Any"),
        (all([vec![prefix(32, "src"), exact(8, "zone")], ports(), vec![exact(8, "proto")]]), "Any"),
        (all([four(), ports(), vec![exact(7, "proto")]]), "Any"),
        (all([four(), ports(), vec![prefix(32, "next")]]), "Any"),
        (all([four(), ports(), vec![exact(8, "proto"), exact(8, "zone")]]), "Any"),
        (all([four(), ports(), vec![exact(8, "proto"), port("zone")]]), "Any"),
        (all([four(), vec![port("sport"), port("dport")], vec![exact(8, "proto")]]), "Any"),
        (all([four(), vec![port("sport").optional(), port("dport")], vec![exact(8, "proto")]]), "Any"),
        (all([four(), vec![exact(8, "proto")], ports()]), "Any"),
        (all([vec![prefix(64, "a"), prefix(64, "b"), prefix(128, "dst")], ports(), vec![exact(8, "proto")]]), "Any"),
        (all([six(), ports(), vec![exact(8, "proto"), exact(8, "zone")]]), "Any"),
    ] {
        let mut random = Random(schema.words().len() as u64);
        let rule = |random: &mut Random| {
            let test = |(index, field): (usize, &Field)| {
                let some = random.below(4) as u128;
                let test = match (field.kind(), random.below(3)) {
                    (_, 0) => return None,
                    (Kind::Prefix, len) => {
                        let len = [1, field.width() / 2 + 1, field.width()][len];
                        Test::Prefix { value: some << (field.width() - len) & field.max(), len }
                    }
                    (Kind::Range, _) => Test::Range { lo: some, hi: some + 1 },
                    _ => Test::Value(some),
                };
                Some((index, test))
            };
            schema.fields().iter().enumerate().filter_map(test).collect::<Vec<_>>()
        };
        let rules = set(&schema, (0..200).map(|_| rule(&mut random)).collect::<Vec<_>>());
        let engine = build(&rules);
        assert!(format!("{:?}", engine.columns).starts_with(expected), "{:?} for {schema:?}", engine.columns);
        let by_rule: Vec<(Match, Range<usize>)> = rules.by_rule().collect();
        let mut keys = KeyBuf::new(&schema);
        for _ in 0..1000 {
            let [of, other] = [(); 2].map(|()| rules.regions().get(random.below(rules.regions().len())));
            for (word, value) in keys.push().iter_mut().enumerate().take(of.lo.len()) {
                *value = [of.lo[word], of.hi[word], of.lo[word], other.lo[word]][random.below(4)];
            }
        }
        let mut answers = vec![None; keys.len()];
        Engine::improve(&engine, &mut (), &keys.keys(), &mut answers);
        for (at, answer) in answers.into_iter().enumerate() {
            let holds =
                |range: &Range<usize>| range.clone().any(|of| rules.regions().get(of).contains(keys.keys().row(at)));
            let want = by_rule.iter().find(|(_, range)| holds(range)).map(|(rule, _)| *rule);
            assert_eq!(answer, want, "key {at} of {schema:?}");
        }
    }
}

/// Keys have the first rule that holds them, for fields of each number of words.
///
/// More fields may be absent than a word has bytes. Keys are drawn from the corners of rules, with words of other
/// rules.
#[test]
fn columns_of_every_kind_are_asked() {
    let state = std::cell::Cell::new(7u64);
    let random = |below: usize| {
        state.set(state.get().wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F));
        (state.get() >> 33) as usize % below
    };
    let optional = (0..11).map(|i| Field::new(&format!("o{i}"), [16, 8][i % 2], Kind::Range, None).optional());
    let nets = [32, 20, 64, 48, 96, 128].map(|width| Field::new(&format!("p{width}"), width, Kind::Prefix, None));
    let last = Field::new("last", 128, Kind::Prefix, None).optional();
    let schema = Schema::new(None, optional.chain(nets).chain([last]).collect());
    let tests = |is_single: bool| -> Vec<(usize, Test)> {
        let test = |(index, field): (usize, &Field)| {
            let (max, some) = (field.max(), random(3) as u128);
            let test = match (field.kind(), random(6)) {
                (_, 0..=2) => return None,
                (Kind::Prefix, at) => {
                    let width = field.width();
                    Test::Prefix { value: some << (width - 2), len: [3, width / 2 + 1, width][at - 3] }
                }
                (_, 3) => Test::Range { lo: 0, hi: max },
                (_, 4) if is_single => Test::Value(max - 1 - some),
                (_, 4) => Test::Range { lo: some, hi: max - random(2) as u128 },
                _ => Test::Value(some),
            };
            Some((index, test))
        };
        schema.fields().iter().enumerate().filter_map(test).collect()
    };
    for is_single in [false, true] {
        let all = set(&schema, (0..300).map(|_| tests(is_single)).collect::<Vec<_>>());
        let engine = build(&all);
        assert!(engine.shape.optional.len() == 11 && engine.shape.prefixes.len() == 7);
        assert_eq!(engine.shape.singles.is_empty(), !is_single);
        let rules: Vec<(Match, Range<usize>)> = all.by_rule().collect();
        let mut keys = KeyBuf::new(&schema);
        for index in 0..20_000 {
            let corner = || {
                let region = all.regions().get(random(all.regions().len()));
                (0..region.lo.len()).map(|word| [region.lo[word], region.hi[word]][random(2)]).collect::<Vec<u32>>()
            };
            let (mut key, other) = (corner(), corner());
            for _ in 0..index % 4 {
                let word = random(key.len());
                key[word] = [schema.words()[word].max, other[word]][random(2)];
            }
            keys.push()[..key.len()].copy_from_slice(&key);
        }
        let mut answers = vec![None; keys.len()];
        Engine::improve(&engine, &mut (), &keys.keys(), &mut answers);
        for (at, answer) in answers.iter().enumerate() {
            let holds =
                |range: &Range<usize>| range.clone().any(|of| all.regions().get(of).contains(keys.keys().row(at)));
            assert_eq!(*answer, rules.iter().find(|(_, range)| holds(range)).map(|(rule, _)| *rule));
        }
        let found = answers.iter().flatten().count();
        assert!((10_000..20_000).contains(&found), "{found} of the keys are in a rule");
    }
}

/// Insertion needs columns that hold the rule.
///
/// Narrow columns hold prefixes of addresses, and one protocol or all.
#[test]
fn what_columns_do_not_hold_is_refused() {
    let schema = Schema::ipv4();
    let nets = (0..100u128).map(|i| vec![(0, Test::Prefix { value: i << 20, len: 12 }), (4, Test::Value(6))]);
    let mut engine = build(&set(&schema, nets));
    let (few, net) = (Test::Range { lo: 6, hi: 17 }, Test::Prefix { value: 1 << 20, len: 20 });
    let cases =
        [(0, net, true), (0, few, false), (4, Test::Value(17), true), (4, few, false), (4, Test::Value(255), false)];
    for (at, (field, test, is_held)) in cases.into_iter().enumerate() {
        let address = (field != 0).then_some((0, net));
        let region = set(&schema, [address.into_iter().chain([(field, test)]).collect::<Vec<_>>()]);
        let last = region.regions().get(region.regions().len() - 1);
        let mut regions = Regions::new(schema.words().len());
        regions.push(last);
        let rule =
            Match { rule: RuleId::new(1000 + at as u32, 0), priority: crate::rule::Priority((1 << 60) + at as u64) };
        assert_eq!(engine.shape.holds(&last), is_held, "{test:?}");
        assert_eq!(engine.insert_rule(rule, 100, &regions), is_held, "{test:?}");
    }
}

/// Lean blocks have no columns for fields that no region constrains.
///
/// They refuse rules that constrain such a field.
#[test]
fn lean_blocks_hold_what_their_regions_ask_for() {
    let schema = Schema::ipv4();
    let host = |i: u128| vec![(0, Test::Value(i * 7919))];
    let all = set(&schema, (0..200).map(host));
    let mut engine = build_lean(&all);
    assert_eq!((engine.shape.lines(), engine.shape.has_short_ranks), (1, true));
    assert_eq!((build(&all).shape.lines(), build(&all).shape.has_short_ranks), (3, false));
    let cases = [(host(1000), true), (vec![(2, Test::Value(80))], false), (vec![(4, Test::Value(6))], false)];
    for (at, (tests, is_held)) in cases.into_iter().enumerate() {
        let regions = set(&schema, [tests]).regions().clone();
        let priority = crate::rule::Priority((1 << 60) + at as u64);
        let rule = Match { rule: RuleId::new(1000 + at as u32, 0), priority };
        assert_eq!(engine.shape.holds(&regions.get(0)), is_held);
        assert_eq!(engine.insert_rule(rule, 200, &regions), is_held);
    }
    // Ranks of 16 bits have gaps for inserted rules; otherwise ranks have 32 bits.
    let lean = |rules: u128| build_lean(&set(&schema, (0..rules).map(host)));
    let (short, long) = (lean(2045), lean(2046));
    assert_eq!((short.shape.has_short_ranks, short.layout.between, short.shape.lines()), (true, 5, 1));
    assert!(short.layout.end < 0xFFFF);
    assert_eq!((long.shape.has_short_ranks, long.layout.between, long.shape.lines()), (false, BETWEEN, 2));
}

#[test]
fn regions_part_by_what_they_are_specific_in() {
    let host = |field: usize, host: u128| vec![(field, Test::Value(host << 20))];
    let engine = build(&set(&Schema::ipv4(), (0..4000).map(|i| host(i as usize % 2, i))));
    let stats = Engine::stats(&engine);
    // One tree selects source bits, one destination bits.
    assert_eq!((engine.trees.len(), stats.worst_lines), (2, 2 * (2 + 3) + 1), "{stats:?}");
    assert!(engine.blocks.len() <= 3 * 800, "{} lines", engine.blocks.len());
}

#[test]
fn short_lists_share_blocks() {
    let nets = (0..1000u128).map(|i| vec![(0, Test::Prefix { value: i << 12, len: 20 })]);
    let engine = build(&set(&Schema::ipv4(), nets));
    assert!(engine.blocks.len() <= 3 * (1000 / 8 + 10), "{} lines", engine.blocks.len());
}

/// Rules that overlap everywhere build bounded copies and long leaves.
#[test]
fn nothing_explodes() {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        u128::from(state >> 32)
    };
    let mut mask = |bits: u32| (0..bits).fold(0u128, |mask, _| mask | 1 << (random() % 32));
    let masks: Vec<_> = (0..3000)
        .map(|i| {
            let (a, b) = (mask(3), mask(3));
            vec![(0, Test::Mask { value: a & i, mask: a }), (1, Test::Mask { value: b & (i << 20), mask: b })]
        })
        .collect();
    let ranges = (0..3000u128).map(|i| {
        let around = |middle: u128| Test::Range { lo: middle - middle.min(i * 7), hi: middle + i * 3 };
        vec![(2, around(20_000)), (3, around(30_000))]
    });
    for rules in [masks, ranges.collect()] {
        let set = set(&Schema::ipv4(), rules);
        let engine = build(&set);
        let stats = Engine::stats(&engine);
        let shares = engine.blocks.len() as f64 / engine.shape.lines() as f64 / (3000.0 / 8.0);
        // Copies of the roots and of the nodes below, in blocks that are not full.
        assert!(shares <= 3.0 * 2.0 * Shape::default().growth, "{shares} times the regions, {stats:?}");
        assert!(stats.worst_tests <= 4 * 3000, "{stats:?}");
    }
}

#[test]
fn the_same_rules_build_the_same_bytes() {
    let rules = || (0..500u128).map(|i| vec![(0, Test::Prefix { value: i << 16, len: 16 }), (3, Test::Value(i % 90))]);
    let schema = Schema::ipv4();
    assert_eq!(format!("{:?}", build(&set(&schema, rules()))), format!("{:?}", build(&set(&schema, rules()))));
}

/// The roots of one build serve a build of mostly the same rules, for less work.
///
/// If lookups would cost more, other roots are found.
#[test]
fn roots_are_kept_while_they_serve() {
    let net = |field: usize, from: u128| vec![(field, Test::Prefix { value: from << 16, len: 16 })];
    let schema = Schema::ipv4();
    let sources = set(&schema, (0..2000).map(|i| net(0, i * 29)));
    let mostly = set(&schema, (50..1950).map(|i| net(0, i * 29)));
    let destinations = set(&schema, (0..2000).map(|i| net(1, i * 29)));
    let with = |set: &Lowered, like: Option<&Roots>| {
        let visits = Visits::default();
        let built = BitSelect::build_within(set, &Config::default(), &visits, like).expect("no cap");
        let masks: Vec<_> = built.selectors();
        (masks, visits.made(), built.roots())
    };
    let (masks, _, roots) = with(&sources, None);
    let (_, alone, _) = with(&mostly, None);
    let (kept, less, _) = with(&mostly, Some(&roots));
    assert!(kept == masks && less * 2 < alone, "{less} visits, {alone} without the roots");
    assert_eq!(with(&destinations, Some(&roots)).0, with(&destinations, None).0);
}

/// A budget is taken to the byte. If no trees fit it, the error has the needed and the allowed bytes.
#[test]
fn a_budget_is_taken_to_the_byte() {
    let bytes = |of: &BitSelect| Engine::stats(of).total_bytes();
    for seed in 1..5u128 {
        let nets = (0..60 * seed).map(|at| {
            let len = 4 + (at * seed % 29) as u32;
            let value = (at * 0x0153_9A71) & 0xFFFF_FFFF;
            vec![(0, Test::Prefix { value: value >> (32 - len) << (32 - len), len }), (3, Test::Value(at % 50))]
        });
        let all = set(&Schema::ipv4(), nets);
        for shape in [None, Some(Shape::default())] {
            let with = |run_bytes| {
                let budget = Budget { run_bytes };
                BitSelect::build(&all, &Config { budget, shape, ..Config::default() })
            };
            let needed = bytes(&with(usize::MAX).expect("no budget"));
            assert_eq!(with(needed).map(|built| bytes(&built)).ok(), Some(needed));
            for less in [needed - 1, needed * 7 / 8, needed * 3 / 4, needed / 2] {
                match with(less) {
                    Ok(built) => {
                        assert!(bytes(&built) <= less && shape.is_none());
                    }
                    Err(refused) => {
                        let (said, allowed) = refused.bytes_needed().expect("it is for bytes");
                        assert!(allowed == less && (said == needed || shape.is_none() && said > less));
                    }
                }
            }
            let refused = with(1000).expect_err("nothing is as small").bytes_needed();
            assert!(refused.is_some_and(|(needed, allowed)| needed > allowed && allowed == 1000), "{refused:?}");
        }
    }
}

/// Below a rule for nearly all keys, the trees suit the other keys as if it were missing.
#[test]
fn a_wide_first_rule_changes_no_plan() {
    let mut random = Random(3);
    let mut prefix = |least: u32| {
        let len = least + random.below(33 - least as usize) as u32;
        Test::Prefix { value: u128::from(random.next() as u32 >> (32 - len)) << (32 - len), len }
    };
    let rules: Vec<Vec<(usize, Test)>> = (0..4000u128)
        .map(|at| match at % 4 {
            0 => vec![(1, prefix(12)), (3, Test::Value(at % 50)), (4, Test::Value(6))],
            1 => vec![(0, prefix(8)), (3, Test::Range { lo: at, hi: 65535 })],
            _ => vec![(0, prefix(12)), (1, prefix(12)), (4, Test::Value(6 + 11 * (at & 1)))],
        })
        .collect();
    // All sources but one /24, as two regions.
    let hole = 0xC633_6400u32;
    let wide = [(0, u128::from(hole) - 1), (u128::from(hole) + 256, u128::from(u32::MAX))];
    let wide = wide.map(|(lo, hi)| vec![(0, Test::Range { lo, hi })]);
    let schema = Schema::ipv4();
    let (without, with) = (set(&schema, rules.clone()), set(&schema, wide.into_iter().chain(rules)));
    let mut keys = KeyBuf::new(&schema);
    for (at, region) in without.regions().iter().enumerate() {
        keys.push()[..5].copy_from_slice(&[hole | (at as u32 % 256), region.lo[1], 9, region.lo[3], region.lo[4]]);
    }
    let tests = |set: &Lowered| steps(&build(set), keys.keys(), "tests");
    let (without, with) = (tests(&without), tests(&with));
    assert!(2 * with <= 3 * without, "{with} tests for {without} without the rule");
}

/// Counted lookups have one kernel, which takes the steps of the kernel in use for any columns, level and batch.
#[test]
fn counted_lookups_take_the_steps_of_others() {
    let of_bits = |width: u32, at: u32| Test::Prefix { value: u128::from(at) << (width - 12), len: 12 };
    let few = Test::Range { lo: 6, hi: 17 };
    let (mut seen, mut nodes) = (Vec::new(), 0);
    for (schema, width, proto) in [
        (Schema::ipv4(), 32, Test::Value(6)),
        (Schema::ipv4(), 32, few),
        (Schema::ipv6(), 128, Test::Value(6)),
        (Schema::ipv6(), 128, few),
    ] {
        let rules = (0..4000).map(|at: u32| match at % 3 {
            0 => vec![(1, of_bits(width, at)), (3, Test::Value(u128::from(at % 50))), (4, proto)],
            1 => vec![(0, of_bits(width, at / 4)), (3, Test::Range { lo: u128::from(at), hi: 65535 })],
            _ => vec![(0, of_bits(width, at)), (1, of_bits(width, at / 8))],
        });
        let all = set(&schema, rules.collect::<Vec<_>>());
        let mut keys = KeyBuf::new(&schema);
        all.regions().iter().for_each(|region| keys.push()[..region.lo.len()].copy_from_slice(region.lo));
        for level in Level::available() {
            // Nodes below the roots.
            let shape = Shape { trees: 2, levels: 4, fan_out: 1, open: 0, growth: 4.0 };
            let config = Config { simd: Some(level), shape: Some(shape), ..Config::default() };
            let engine = BitSelect::build(&all, &config).expect("no budget");
            // Other forms would be looked up with vectors whatever the level says.
            let has_vectors = level != Level::Scalar || !cfg!(target_arch = "x86_64");
            assert!(has_vectors || matches!(engine.columns, columns::Kind::Any), "{:?}", engine.columns);
            for length in [1, 2, 3, 4, 33, keys.len()] {
                let keys = keys.keys().slice(0, length);
                let (used, counted) = (StepCounter::default(), StepCounter::default());
                let [mut best, mut other] = [vec![None; length], vec![None; length]];
                lookup::lookup(&engine, &used, &keys, &mut best);
                lookup::counted(&engine, &counted, &keys, &mut other);
                let of = |counter: &StepCounter| [Step::Node, Step::Block].map(|step| counter.of(step));
                assert_eq!((best, of(&used)), (other, of(&counted)), "{level:?}, {:?}, {length}", engine.columns);
                assert!(of(&used)[1] > 0);
                nodes += of(&used)[0];
            }
            seen.extend(format!("{:?}", engine.columns).split('(').next().map(String::from));
        }
    }
    seen.sort_unstable();
    seen.dedup();
    // Without vectors, x86-64 machines use the general form alone.
    let is_general = cfg!(target_arch = "x86_64") && !Level::Avx2.is_available();
    assert_eq!(seen, if is_general { &["Any"][..] } else { &["Any", "Plain4", "Plain6", "Wide4"] });
    assert!(nodes > 0);
}
