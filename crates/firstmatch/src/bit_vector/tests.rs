use super::*;
use crate::engine::Classifier;
use crate::key::KeyBuf;
use crate::rule::Test;
use crate::test_rules::set;

fn build(set: &Lowered) -> BitVector {
    BitVector::build(set, &Config::default()).expect("enough room")
}

#[test]
fn lanes_that_say_nothing_are_left_out() {
    let schema = Schema::ipv4();
    let engine = build(&set(&schema, (0..50).map(|i| vec![(1, Test::Value(i * 77)), (4, Test::Value(i % 7))])));
    // The destination is searched, the protocol has a class a value.
    let kinds: Vec<_> = engine.dimensions.iter().map(|of| matches!(of, Dimension::Search { .. })).collect();
    assert_eq!((kinds, engine.read.len()), (vec![true, false], 1));
    // Rules that ask for nothing at all are still matched.
    let engine = build(&set(&schema, [vec![], vec![]]));
    let mut keys = KeyBuf::new(&schema);
    keys.push();
    let found = engine.classify(&mut engine.scratch(), keys.keys());
    assert_eq!((engine.dimensions.len(), found), (1, Some(engine.matches[0])));
}

#[test]
fn lanes_of_few_classes_are_joined() {
    let schema = Schema::ipv4();
    let rule = |i: u128| {
        let net = |i: u128| Test::Prefix { value: i << 20, len: 12 };
        vec![(0, net(i)), (1, net(i * 7 % 500)), (2, Test::Value(i % 3)), (3, Test::Value(i % 20))]
    };
    let engine = build(&set(&schema, (0..500).map(rule)));
    // 4 classes of one port and 21 of the other are joined, 501 of sources and of destinations are not.
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
    assert_eq!((engine.groups, engine.vectors.len()), (3, 2 * 3001 * 3 * GROUP_LINES + 1));
}

#[test]
fn the_same_rules_build_the_same_bytes() {
    let rules = || (0..300u128).map(|i| vec![(0, Test::Prefix { value: i << 16, len: 16 }), (3, Test::Value(i % 90))]);
    let schema = Schema::ipv4();
    assert_eq!(format!("{:?}", build(&set(&schema, rules()))), format!("{:?}", build(&set(&schema, rules()))));
}
