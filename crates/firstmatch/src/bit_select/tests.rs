use std::collections::HashSet;

use super::*;
use crate::rule::{Region, Test};
use crate::schema::{Field, Kind};
use crate::simd::LINE_WORDS;
use crate::test_rules::set;

fn build(set: &Lowered) -> BitSelect {
    BitSelect::build(set, &Config::default()).expect("no budget")
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
    // A line has room for what stands first and one column of bytes, or three where one value is all that is asked for.
    assert_eq!(lines(&of(&[8]), [vec![range(0)]]), 1);
    assert_eq!(lines(&of(&[8, 7]), [vec![range(0), range(1)]]), 2);
    assert_eq!(lines(&of(&[8, 7, 6]), all()), 1);
    assert_eq!(lines(&of(&[8, 7, 6, 5]), all()), 2);
    assert_eq!(lines(&of(&[8, 16, 9]), all()), 2);
    assert_eq!(lines(&of(&[17, 16]), all()), 3);
    assert_eq!(lines(&Schema::new(None, vec![field(16).optional(), field(15).optional()]), all()), 2);
}

/// Addresses that are prefixes and single protocols take less than other intervals of them; what needs no fewer lines
/// has bounds.
#[test]
fn five_tuples_have_columns_of_their_own() {
    let net = |bits: u32| Test::Prefix { value: 1 << bits, len: 12 };
    let some = Test::Range { lo: 1 << 32, hi: 5 << 32 };
    let few = Test::Range { lo: 6, hi: 17 };
    let kind = |schema: &Schema, tests: &[(usize, Test)]| {
        let engine = build(&set(schema, [tests.to_vec(), vec![(4, Test::Value(6))], vec![]]));
        (engine.shape.lines(), format!("{:?}", engine.shape.kind()).split('(').next().map(String::from))
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

/// Fields of each number of lanes, and more that may be absent than a word has bytes: keys from the corners of rules, and
/// with a lane of another's, have the first that holds them.
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
        let mut keys = crate::key::KeyBuf::new(&schema);
        for index in 0..20_000 {
            let corner = || {
                let region = all.regions().get(random(all.regions().len()));
                (0..region.lo.len()).map(|lane| [region.lo[lane], region.hi[lane]][random(2)]).collect::<Vec<u32>>()
            };
            let (mut key, other) = (corner(), corner());
            for _ in 0..index % 4 {
                let lane = random(key.len());
                key[lane] = [schema.lanes()[lane].max, other[lane]][random(2)];
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

/// A rule that comes needs columns that hold it: those of narrow blocks hold prefixes, and one protocol or all.
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
        let mut regions = crate::rule::Regions::new(schema.lanes().len());
        regions.push(last);
        let rule =
            Match { rule: RuleId::new(1000 + at as u32, 0), priority: crate::rule::Priority((1 << 60) + at as u64) };
        assert_eq!(engine.shape.holds(&last), is_held, "{test:?}");
        assert_eq!(engine.insert(rule, 100, &regions), is_held, "{test:?}");
    }
}

#[test]
fn regions_part_by_what_they_are_specific_in() {
    let host = |field: usize, host: u128| vec![(field, Test::Value(host << 20))];
    let engine = build(&set(&Schema::ipv4(), (0..4000).map(|i| host(i as usize % 2, i))));
    let stats = Engine::stats(&engine);
    // One tree selects bits of the sources, one of the destinations.
    assert_eq!((engine.trees.len(), stats.worst_lines), (2, 2 * (2 + 3) + 1), "{stats:?}");
    assert!(engine.blocks.len() <= 3 * 800, "{} lines", engine.blocks.len());
}

#[test]
fn short_lists_share_blocks() {
    let nets = (0..1000u128).map(|i| vec![(0, Test::Prefix { value: i << 12, len: 20 })]);
    let engine = build(&set(&Schema::ipv4(), nets));
    assert!(engine.blocks.len() <= 3 * (1000 / 8 + 10), "{} lines", engine.blocks.len());
}

/// Rules that overlap all over the place cannot be parted: the copies stay bounded, and long leaves say so.
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
        // Those of the roots and those below, and blocks that are not full.
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

/// Rules come and go in place, many more than there were, in two copies by turns, of which each follows the other; keys
/// from the corners of those that are there and those that were have the first that holds them, and what is refused
/// changes nothing.
#[test]
fn rules_come_and_go_in_place() {
    // The prefixes of IPv6 reach from the first lane into the second.
    for (schema, shift, more) in [(Schema::ipv4(), 0, 0), (Schema::ipv6(), 80, 16)] {
        // Most of the steps of the first kind are rules that come, until there is no room.
        let (_, [came, refused, kept]) = come_and_go(&schema, shift, more, &[(4000, 7), (4000, 4)]);
        assert!(
            came > 2000 && refused > 1000 && kept < 100,
            "{came} came, {refused} were refused, {kept} could not go"
        );
    }
}

/// Where as many rules go as come, blocks that nothing leads to any more are used again, and there is room without end;
/// where they only come, it is said when room ends.
#[test]
fn blocks_are_used_again() {
    let schema = Schema::ipv4();
    let (engine, [came, refused, _]) = come_and_go(&schema, 0, 0, &[(15_000, 4)]);
    let blocks = engine.blocks.len() / engine.shape.lines();
    assert!(
        came > 7000 && refused == 0 && blocks <= engine.room,
        "{came} came, {refused} were refused, {blocks} blocks"
    );
    assert!(engine.spare.bytes() > 0 && !engine.is_short_of_room());
    let (engine, [_, refused, _]) = come_and_go(&schema, 0, 0, &[(4000, 8)]);
    assert!(refused > 0 && engine.is_short_of_room(), "{refused} were refused");
}

/// Prefixes of up to 32 bits are shifted so far to the left and are so much longer. In so many steps each, so many of
/// eight are rules that come. The engine, and how many came, were refused and could not go.
fn come_and_go(schema: &Schema, shift: u32, more: u32, steps: &[(usize, usize)]) -> (BitSelect, [usize; 3]) {
    let mut state = 3u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) % below
    };
    let mut tests = || -> Vec<(usize, Test)> {
        let mut prefix = |field: usize, from: u64| {
            let len = (from + random(33 - from)) as u32;
            let value = u128::from(random(1 << 12) << 20 | random(4));
            (field, Test::Prefix { value: value >> (32 - len) << (32 - len + shift), len: len + more })
        };
        let (a, b) = (prefix(0, 0), prefix(1, 8));
        let lo = u128::from(random(9) * 7);
        vec![a, b, (3, Test::Range { lo, hi: lo + u128::from(random(3) * 5000) }), (4, Test::Value(6))]
    };
    let all = set(schema, (0..6000).map(|_| tests()));
    // The first 2,000 of all priorities, shuffled, are there at the start.
    let mut order: Vec<(Match, Range<usize>)> = all.by_rule().collect();
    let mut random = move |below: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % below
    };
    (1..order.len()).rev().for_each(|i| order.swap(i, random(i + 1)));
    let mut there = order.split_off(4000);
    let mut away = order;
    there.sort_by_key(|(rule, _)| rule.priority);
    let mut first = Lowered::empty(all.schema());
    there.iter().for_each(|(rule, range)| range.clone().for_each(|at| first.push(*rule, all.regions().get(at))));
    let mut engine = build(&first);
    let mut other = engine.clone();
    let built: Vec<Match> = first.by_rule().map(|(rule, _)| rule).collect();
    let regions = |range: &Range<usize>| {
        let mut regions = crate::rule::Regions::new(all.schema().lanes().len());
        range.clone().for_each(|at| regions.push(all.regions().get(at)));
        regions
    };
    let (mut refused, mut came, mut kept) = (0, 0, 0);
    let weights = steps.iter().flat_map(|&(steps, weight)| std::iter::repeat_n(weight, steps));
    for (step, weight) in weights.enumerate() {
        other.follow(&engine);
        std::mem::swap(&mut other, &mut engine);
        if random(8) < weight && !away.is_empty() {
            let (rule, range) = away.swap_remove(random(away.len()));
            let before = built.partition_point(|of| of.priority < rule.priority);
            let is_in = engine.insert(rule, before, &regions(&range));
            (came, refused) = (came + usize::from(is_in), refused + usize::from(!is_in));
            if is_in { &mut there } else { &mut away }.push((rule, range));
        } else {
            let (rule, range) = there.swap_remove(random(there.len()));
            let place = built.partition_point(|of| of.priority < rule.priority);
            let is_first = built.get(place) == Some(&rule) && engine.has_first(place);
            let gone = match is_first {
                true => engine.remove_first(place, range.clone().map(|at| all.regions().get(at))),
                false => engine.remove_added(rule, place),
            };
            assert!(gone || is_first, "what came can go");
            kept += usize::from(!gone);
            if gone { &mut away } else { &mut there }.push((rule, range));
        }
        assert_eq!((engine.rules(), Engine::stats(&engine).regions), (there.len(), there.len()));
        if step % 100 != 99 {
            continue;
        }
        let regions_of = |list: &[(Match, Range<usize>)]| -> Vec<_> {
            list.iter().map(|(_, range)| all.regions().get(range.start)).collect()
        };
        assert_eq!(left(&engine, &regions_of(&there), &regions_of(&away)), 0, "step {step}");
        if step % 500 != 499 {
            continue;
        }
        other.follow(&engine);
        let bytes = |of: &BitSelect| {
            let mut of = of.clone();
            of.leads_none();
            format!("{of:?}")
        };
        assert!(bytes(&other) == bytes(&engine), "step {step}");
        let mut keys = crate::key::KeyBuf::new(all.schema());
        for list in [&there, &away] {
            for _ in 0..1000 {
                let region = all.regions().get(list[random(list.len())].1.start);
                let key = keys.push();
                (0..region.lo.len()).for_each(|lane| key[lane] = [region.lo[lane], region.hi[lane]][random(2)]);
            }
        }
        let mut answers = vec![None; keys.len()];
        Engine::improve(&engine, &mut (), &keys.keys(), &mut answers);
        for (at, answer) in answers.iter().enumerate() {
            let holds = |range: &Range<usize>| all.regions().get(range.start).contains(keys.keys().row(at));
            let right = there.iter().filter(|(_, range)| holds(range)).map(|(rule, _)| *rule);
            assert_eq!(*answer, right.min_by_key(|rule| rule.priority), "step {step}");
        }
    }
    (engine, [came, refused, kept])
}

/// How many regions that are not there are left where a lookup could find them, or could come to find them, as no region
/// that is there is the same.
fn left(engine: &BitSelect, there: &[Region<'_>], away: &[Region<'_>]) -> usize {
    let there: HashSet<_> = there.iter().map(|region| (region.lo, region.hi)).collect();
    let words = engine.shape.lines() * LINE_WORDS;
    let is_left = |region: &&Region<'_>| {
        let mut alone = vec![0; words];
        engine.shape.write(&[(0, **region)], None, &mut alone);
        let mut both = vec![0; 2 * words];
        engine.blocks_of(region).into_iter().any(|block| {
            both[..words].copy_from_slice(engine.block(block));
            (0..engine.shape.len(&both)).any(|at| {
                engine.shape.write(&[], None, &mut both[words..]);
                engine.shape.add_copy(&mut both, (0, at), words);
                both[words + 1..] == alone[1..]
            })
        })
    };
    away.iter().filter(|region| !there.contains(&(region.lo, region.hi))).filter(is_left).count()
}

/// Rules that hold most keys come to a list apart, as many as it has room for, in order of priority, and go again; the
/// roots that another build may take are those of the others.
#[test]
fn rules_for_most_keys_come_in_place() {
    let schema = Schema::ipv4();
    let hosts: Vec<_> =
        (0..1000u128).map(|i| vec![(0, Test::Value(i * 0x0001_0101)), (1, Test::Value(i << 22))]).collect();
    let all =
        set(&schema, hosts.iter().cloned().chain((0..40).map(|i| vec![(3, Test::Range { lo: i + 10, hi: 40_000 })])));
    let (mut first, rules): (_, Vec<_>) = (Lowered::empty(all.schema()), all.by_rule().collect());
    rules[..1000].iter().for_each(|(rule, range)| first.push(*rule, all.regions().get(range.start)));
    let mut engine = build(&first);
    let (trees, roots) = (engine.trees.len(), engine.roots().selected().count());
    let ask = |engine: &BitSelect, port: u32| {
        let mut keys = crate::key::KeyBuf::new(all.schema());
        (0..40).for_each(|i| keys.push()[..5].copy_from_slice(&[i * 0x0001_0101, (i << 22) + i % 2, 0, port, 6]));
        let mut answers = vec![None; keys.len()];
        Engine::improve(engine, &mut (), &keys.keys(), &mut answers);
        answers.iter().map(|of| of.map(|found| found.rule.slot())).collect::<Vec<_>>()
    };
    let want = |wide: Option<usize>| (0..40).map(|i| if i % 2 == 0 { Some(i) } else { wide }).collect::<Vec<_>>();
    let mut came: Vec<usize> = (0..40).map(|i| 1000 + i * 7 % 40).collect();
    came.retain(|&at| {
        let mut regions = crate::rule::Regions::new(schema.lanes().len());
        regions.push(all.regions().get(rules[at].1.start));
        engine.insert(rules[at].0, 1000, &regions)
    });
    assert_eq!(came.len(), 32, "{came:?}");
    came.sort_unstable();
    assert_eq!((engine.trees.len(), engine.roots().selected().count()), (trees + 1, roots));
    let mut copy = build(&first);
    copy.follow(&engine);
    for engine in [&engine, &copy] {
        assert_eq!(ask(engine, 20_000), want(Some(1000)));
        assert_eq!(ask(engine, 10), want(Some(1000)));
        assert_eq!(ask(engine, 7), want(None));
    }
    for at in came {
        assert_eq!(ask(&engine, 20_000), want(Some(at)));
        assert!(engine.remove_added(rules[at].0, 1000));
    }
    assert_eq!(ask(&engine, 20_000), want(None));
    assert_eq!(engine.rules(), 1000);
}

/// The roots of one build serve another of mostly the same rules, for less work; where lookups would cost more others are
/// found.
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
        let masks: Vec<_> = built.roots().selected().collect();
        (masks, visits.made(), built.roots())
    };
    let (masks, _, roots) = with(&sources, None);
    let (_, alone, _) = with(&mostly, None);
    let (kept, less, _) = with(&mostly, Some(&roots));
    assert!(kept == masks && less * 2 < alone, "{less} visits, {alone} without the roots");
    assert_eq!(with(&destinations, Some(&roots)).0, with(&destinations, None).0);
}
