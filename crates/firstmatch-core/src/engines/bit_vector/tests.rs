use super::*;
use crate::engine::Classifier;
use crate::engine::tests::steps;
use crate::key::KeyBuf;
use crate::raw::truncated;
use crate::rule::Test;
use crate::schema::{Field, Kind};
use crate::test_rules::set;

fn build(set: &Lowered) -> BitVector {
    BitVector::build(set, &Config::default()).expect("enough room")
}

#[test]
fn words_that_say_nothing_are_left_out() {
    let schema = Schema::ipv4();
    let engine = build(&set(&schema, (0..50).map(|i| vec![(1, Test::Value(i * 77)), (4, Test::Value(i % 7))])));
    // The destination has a search tree, the protocol a table.
    let kinds: Vec<_> = engine.dimensions.iter().map(|of| matches!(of, Dimension::Search { .. })).collect();
    assert_eq!((kinds, engine.read.len()), (vec![true, false], 1));
    let stats = Engine::stats(&engine);
    assert_eq!((stats.tables, stats.overflow, stats.longest_bucket), (1, 0, 0));
    // Rules without conditions are still matched.
    let engine = build(&set(&schema, [vec![], vec![]]));
    let mut keys = KeyBuf::new(&schema);
    keys.push();
    let found = engine.classify(&mut engine.scratch(), keys.keys());
    assert_eq!((engine.dimensions.len(), found), (1, Some(engine.matches[0])));
}

#[test]
fn words_of_few_classes_are_joined() {
    let schema = Schema::ipv4();
    let rule = |i: u128| {
        let net = |i: u128| Test::Prefix { value: i << 20, len: 12 };
        vec![(0, net(i)), (1, net(i * 7 % 500)), (2, Test::Value(i % 3)), (3, Test::Value(i % 20))]
    };
    let engine = build(&set(&schema, (0..500).map(rule)));
    // Ports of 4 and 21 classes are joined; sources and destinations, of 501 each, are not.
    assert_eq!((engine.joins.len(), engine.read.len()), (1, 3));
    assert_eq!(engine.joins[0].values.bytes(), 2 * (4usize * 21).next_power_of_two());
}

#[test]
fn vectors_that_find_no_room_are_refused() {
    let set = set(&Schema::ipv4(), (0..3000).map(|i| vec![(0, Test::Value(i * 999)), (1, Test::Value(i * 77))]));
    let config = Config { vectors: 1 << 20, ..Config::default() };
    assert!(BitVector::build(&set, &config).expect_err("twice 3,001 vectors of 384 bytes").budget_exceeded());
    let config = Config { vectors: 3 << 20, ..Config::default() };
    let engine = BitVector::build(&set, &config).expect("three groups of regions");
    assert_eq!((engine.groups, engine.vectors.len()), (3, 2 * 3001 * 3 * 2 + 1));
}

#[test]
fn the_same_rules_build_the_same_bytes() {
    let rules = || (0..300u128).map(|i| vec![(0, Test::Prefix { value: i << 16, len: 16 }), (3, Test::Value(i % 90))]);
    let schema = Schema::ipv4();
    assert_eq!(format!("{:?}", build(&set(&schema, rules()))), format!("{:?}", build(&set(&schema, rules()))));
}

/// Returns a generator of small numbers.
fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % below
    }
}

/// Returns rules over fields of 32 bits, each with too many classes to be joined.
///
/// Each rule has a range of one field, or of two if there are many. Every third rule has a prefix of another field.
fn over(fields: usize, rules: usize) -> Lowered {
    let mut random = random(rules as u64);
    let all = (0..fields).map(|at| Field::new(&format!("f{at}"), 32, Kind::Range, None)).collect();
    let tests = |at: usize| {
        let lo = ((at as u128 * 2654435) % (1 << 24)) << 8;
        let range = Test::Range { lo, hi: (lo + (1 << 11) + random(1 << 20) as u128).min(0xFFFF_FFFF) };
        let mut tests = vec![(at % fields, range)];
        if fields > 4 {
            tests.push(((at + fields / 2) % fields, range));
        }
        if at.is_multiple_of(3) && fields > 1 {
            tests.push(((at + 1) % fields, Test::Prefix { value: (random(8) as u128) << 29, len: 3 }));
        }
        tests
    };
    set(&Schema::new(None, all), (0..rules).map(tests).collect::<Vec<_>>())
}

/// Draws keys from the corners of regions, some words from another region.
fn keys_of(all: &Lowered, count: usize) -> KeyBuf {
    let (mut random, mut keys) = (random(9), KeyBuf::new(all.schema()));
    for _ in 0..count {
        let [a, b] = [(); 2].map(|()| all.regions().get(random(all.regions().len())));
        let key = keys.push();
        for (word, value) in key.iter_mut().enumerate().take(a.lo.len()) {
            let of = if random(8) == 0 { b } else { a };
            *value = [of.lo[word], of.hi[word], of.hi[word].wrapping_add(1)][random(5) % 3];
        }
    }
    keys
}

/// Panics unless keys find the first regions that hold them, in batches of several lengths.
///
/// The regions of marked rules count in one half of the lookups and not in the other.
fn check(engine: &BitVector, all: &Lowered, keys: &KeyBuf, tombstones: &Tombstones) {
    let is_marked = |at: usize| tombstones.is_marked(all.rules()[at].rule);
    let first = |row: &[u32], with_marked: bool| {
        let holds = |at: &usize| (with_marked || !is_marked(*at)) && all.regions().get(*at).contains(row);
        (0..all.regions().len()).find(holds).map(|at| all.rules()[at])
    };
    let rows = keys.keys();
    for with_marked in [true, false] {
        let want: Vec<_> = (0..keys.len()).map(|at| first(rows.row(at), with_marked)).collect();
        let mut scratch = Engine::new_scratch(engine);
        for length in [keys.len(), 1, 3, 4, 7, 8, 65] {
            for from in (0..keys.len()).step_by(length.max(keys.len() / 16)) {
                let to = (from + length).min(keys.len());
                let mut got = vec![None; to - from];
                match with_marked {
                    true => Engine::improve(engine, &mut scratch, &rows.slice(from, to), &mut got),
                    false => engine.improve_live(&mut scratch, &rows.slice(from, to), tombstones, &mut got),
                }
                assert_eq!(got, want[from..to], "batch {from}..{to}, with marked rules: {with_marked}");
            }
        }
        let matched = want.iter().flatten().count();
        assert!(matched * 8 >= keys.len(), "{matched} of {} keys match", keys.len());
    }
}

/// Every loop over vectors is right at every level, with and without tombstones.
///
/// Keys read one to nine vectors, of one group and of several, short, near and far.
#[test]
fn every_number_of_vectors_is_read() {
    let mut seen = Vec::new();
    for level in Level::available() {
        for fields in 1..=9 {
            for rules in [512, 1000, 1100, 2300] {
                let all = over(fields, rules);
                let config = Config { simd: Some(level), vectors: 8 << 20, ..Config::default() };
                let engine = BitVector::build(&all, &config).expect("enough room");
                assert_eq!((engine.read.len(), engine.groups), (fields, rules.div_ceil(GROUP)), "{rules} rules");
                let slots = all.rules().iter().map(|rule| rule.rule.slot() + 1).max().unwrap_or(0);
                let mut dead = Tombstones::none(engine.places(), slots);
                for (at, &rule) in all.rules().iter().enumerate().filter(|(at, _)| at % 7 < 3 || at / 64 % 5 == 1) {
                    dead.mark(rule.rule, at..at + 1);
                }
                check(&engine, &all, &keys_of(&all, 160), &dead);
                seen.push((level, engine.read.len(), engine.groups, engine.rows));
            }
        }
        // Two classes per rule and field, in one group. Positions are far, because there are more than 4,096 vectors,
        // or more than 8,192 short ones.
        for (fields, rules) in [(3, 1000), (9, 512)] {
            let range = |at: u128| Test::Range { lo: at << 20, hi: (at << 20) + (1 << 20) + 99 };
            let ranges = |at: u128| (0..fields).map(|field| (field, range(at))).collect();
            let wide = set(over(fields, 9).schema(), (0..rules).map(ranges).collect::<Vec<_>>());
            let config = Config { simd: Some(level), vectors: 8 << 20, ..Config::default() };
            let engine = BitVector::build(&wide, &config).expect("enough room");
            let slots = wide.rules().len();
            let mut keys = KeyBuf::new(wide.schema());
            for at in (0..160).map(|at| 31 * at % rules as u32) {
                let key = keys.push();
                (0..fields).for_each(|field| key[field] = (at << 20) + at % 2 * 150);
                // Half of the keys have one field of another rule.
                key[..fields].iter_mut().skip(at as usize % (2 * fields)).take(1).for_each(|word| *word += 1 << 22);
            }
            check(&engine, &wide, &keys, &Tombstones::none(engine.places(), slots));
            assert_eq!((engine.groups, engine.rows), (1, Rows::Far));
            seen.push((level, engine.read.len(), engine.groups, engine.rows));
        }
    }
    for level in Level::available() {
        for read in 1..=9 {
            for groups in 1..=3 {
                assert!(seen.iter().any(|of| (of.0, of.1, of.2) == (level, read, groups)), "{seen:?}");
            }
            for rows in [Rows::Short, Rows::Near] {
                assert!(seen.iter().any(|of| (of.0, of.1, of.3) == (level, read, rows)), "{rows:?}: {seen:?}");
            }
        }
    }
}

/// A build that needs positions of more than 16 bits is refused, at any memory limit.
///
/// One that needs all 16 bits is right up to the last vector.
#[test]
fn places_of_more_than_16_bits_are_refused() {
    let hosts = |count: u128| set(&Schema::ipv4(), (0..count).map(|at| vec![(0, Test::Value(3 * at + 1))]));
    let config = Config { vectors: 64 << 20, ..Config::default() };
    // One class each and one for all other values, of eight groups: 65,536 positions.
    let all = hosts(8191);
    let engine = BitVector::build(&all, &config).expect("all places have 16 bits");
    let mut keys = KeyBuf::new(all.schema());
    (0..8191).rev().step_by(16).for_each(|at| keys.push()[0] = 3 * at + 1);
    let mut got = vec![None; keys.len()];
    Engine::improve(&engine, &mut Engine::new_scratch(&engine), &keys.keys(), &mut got);
    let want: Vec<_> = all.rules().iter().rev().step_by(16).copied().map(Some).collect();
    assert_eq!(got, want);
    for count in [8192, 9500] {
        let refused = BitVector::build(&hosts(count), &config).expect_err("some place has 17 bits");
        assert!(refused.budget_exceeded(), "{refused}");
    }
}

/// Vectors with equal hashes are still told apart.
#[test]
fn hashes_that_collide_are_told_apart() {
    let all = over(2, 250);
    let engine = truncated(|| build(&all));
    check(&engine, &all, &keys_of(&all, 300), &Tombstones::none(engine.places(), all.rules().len()));
    assert_eq!(format!("{engine:?}"), format!("{:?}", build(&all)), "the hash decides nothing");
}

/// A rule with a mask tests every bit of the mask, in each byte of a word.
#[test]
fn every_byte_of_a_mask_is_asked() {
    let schema = Schema::new(None, vec![Field::new("a", 32, Kind::Mask, None), Field::new("b", 8, Kind::Exact, None)]);
    // The highest bit but one is left open, so that no bit below it is in the bounds.
    let mask = |bit: u32| (1u128 << bit | 1 << ((bit + 9) % 32)) & !(1 << 30) | 1 << 31;
    let value = |bit: u32| 0x5A3C_960Fu128 & mask(bit);
    for bit in (0..32).filter(|&bit| bit != 30) {
        let all = set(&schema, [vec![(0, Test::Mask { value: value(bit), mask: mask(bit) })]]);
        let engine = build(&all);
        let mut keys = KeyBuf::new(&schema);
        let inside = 0x5A3C_960Fu32;
        let flipped = (0..32).map(|flip| inside ^ 1 << flip);
        flipped.chain([inside]).for_each(|key| keys.push()[0] = key);
        let mut got = vec![None; keys.len()];
        Engine::improve(&engine, &mut Engine::new_scratch(&engine), &keys.keys(), &mut got);
        for (at, got) in got.into_iter().enumerate() {
            let is_open = at == 32 || mask(bit) >> at & 1 == 0;
            assert_eq!(got.is_some(), is_open, "bit {at} of the mask {:x}", mask(bit));
        }
    }
}

/// Up to 4,096 vectors are near, because positions of 16 bits count 8 bytes; with one more, the vectors are far.
///
/// In both forms, lookups find the first and the last vector.
#[test]
fn near_places_have_16_bits() {
    let fields = (0..4).map(|at| Field::new(&format!("f{at}"), 32, Kind::Exact, None)).collect();
    let schema = Schema::new(None, fields);
    // A class for each rule and one for all other values, in each of four fields.
    for (rules, rows) in [(1022, Rows::Near), (1023, Rows::Near), (1024, Rows::Far)] {
        let host = |at: u128| (0..4).map(|field| (field, Test::Value(9 * at + 4))).collect::<Vec<_>>();
        let all = set(&schema, (0..rules).map(host));
        let engine = BitVector::build(&all, &Config { vectors: 8 << 20, ..Config::default() }).expect("enough room");
        assert_eq!((engine.read.len(), engine.rows), (4, rows), "{rules} rules");
        assert_eq!(engine.vectors.len(), 4 * (rules as usize + 1) * 2 + 1);
        // Each rule, and each time with one field of another.
        let mut keys = KeyBuf::new(&schema);
        for at in (0..rules as u32).rev().step_by(5) {
            for other in 0..5 {
                let key = keys.push();
                (0..4).for_each(|field| key[field] = 9 * at + 4);
                if other < 4 {
                    key[other] = 9 * (at / 2) + 5 * (at % 2) + 4;
                }
            }
        }
        let mut got = vec![None; keys.len()];
        Engine::improve(&engine, &mut Engine::new_scratch(&engine), &keys.keys(), &mut got);
        let whole = got.iter().skip(4).step_by(5);
        assert!(whole.zip((0..rules as usize).rev().step_by(5)).all(|(got, at)| *got == Some(all.rules()[at])));
        let others = got.iter().enumerate().filter(|(at, _)| at % 5 != 4);
        assert_eq!(others.filter(|(_, got)| got.is_some()).count(), 0, "{rules} rules");
    }
}

/// The stated bound counts the lines that a lookup reads for each kind of word.
///
/// A table takes one line, pages two, a tree one per level and one for the value, and a join one. A vector takes one
/// line for up to 512 regions, otherwise two per group.
#[test]
fn each_kind_of_word_is_in_the_bound() {
    let schema = Schema::ipv4();
    let net = |i: u128| Test::Prefix { value: i << 20, len: 12 };
    let rule = |i: u128| {
        vec![
            (0, net(i)),
            (1, net(i * 7 % 500)),
            (2, Test::Value(i % 300 * 5)),
            (3, Test::Value(i % 5)),
            (4, Test::Value(i % 9)),
        ]
    };
    let mut kinds = [0; 4];
    for (rules, key_words, vector) in [(500, 5, 1), (600, 5, 2), (1500, 5, 4), (1500, 3, 4), (20, 5, 1)] {
        let tests = (0..rules).map(|i| rule(i).into_iter().rev().take(key_words).collect::<Vec<_>>());
        let all = set(&schema, tests.collect::<Vec<_>>());
        let engine = BitVector::build(&all, &Config { vectors: 8 << 20, ..Config::default() }).expect("enough room");
        let mut lines = engine.joins.len() + engine.read.len() * vector + 1;
        kinds[3] += engine.joins.len();
        for dimension in &engine.dimensions {
            let (kind, own) = match dimension {
                Dimension::Direct { .. } => (0, 1),
                Dimension::Paged { .. } => (1, 2),
                Dimension::Search { tree, .. } => (2, tree.depth() + 1),
            };
            (kinds[kind], lines) = (kinds[kind] + 1, lines + own);
        }
        let stats = Engine::stats(&engine);
        assert_eq!((stats.worst_lines, stats.worst_tests, stats.regions), (lines, rules as usize, rules as usize));
        // Every lookup reads exactly that many lines, one of them for its match, which is not counted here.
        let met = steps(&engine, keys_of(&all, 1).keys(), "lines");
        assert_eq!(met + 1, lines, "{rules} rules over {key_words} words");
    }
    assert!(kinds.iter().all(|&kind| kind > 0), "words of each kind and joins: {kinds:?}");
}

/// A budget is taken to the byte, and one byte less is refused with both numbers.
#[test]
fn a_budget_is_taken_to_the_byte() {
    let all = set(&Schema::ipv4(), (0..300).map(|i| vec![(0, Test::Value(i * 999)), (3, Test::Value(i % 70))]));
    let with = |run_bytes| BitVector::build(&all, &Config { budget: Budget { run_bytes }, ..Config::default() });
    let needed = Engine::stats(&with(usize::MAX).expect("no budget")).total_bytes();
    assert!(with(needed).is_ok());
    assert_eq!(with(needed - 1).expect_err("a byte is missing").bytes_needed(), Some((needed, needed - 1)));
}
