use super::*;
use crate::rule::{Action, Caps, Condition, Priority, RuleSet, RuleSpec, Test, lower};
use crate::schema::{Field, Kind};

fn set(schema: &Schema, rules: impl IntoIterator<Item = Vec<(usize, Test)>>) -> Lowered {
    let mut set = RuleSet::new(schema.clone());
    for (index, tests) in rules.into_iter().enumerate() {
        let one = |(field, test)| Condition { field, negated: false, tests: vec![(None, test)] };
        let conditions = tests.into_iter().map(one).collect();
        let priority = Priority::of_line(index as u32 + 1);
        let spec = RuleSpec { priority, action: Action::Match, conditions, family: None, line: None };
        set.insert(spec).expect("a rule that fits");
    }
    lower(&set, schema, &Caps::default()).expect("within the caps")
}

fn build(set: &Lowered) -> BitSelect {
    BitSelect::build(set, &Config::default()).expect("no budget")
}

fn lines(schema: &Schema) -> usize {
    build(&set(schema, [vec![]])).shape.lines()
}

#[test]
fn columns_are_as_narrow_as_values_allow() {
    assert_eq!(lines(&Schema::ipv4()), 4);
    let field = |width| Field::new(&format!("f{width}"), width, Kind::Range, None);
    // Twelve words of head leave room for one column of bytes in the first line.
    assert_eq!(lines(&Schema::new(None, vec![field(8)])), 1);
    assert_eq!(lines(&Schema::new(None, vec![field(8), field(7)])), 2);
    assert_eq!(lines(&Schema::new(None, vec![field(8), field(16), field(9)])), 2);
    assert_eq!(lines(&Schema::new(None, vec![field(17), field(16)])), 3);
    assert_eq!(lines(&Schema::new(None, vec![field(16).optional(), field(15).optional()])), 2);
}

#[test]
fn regions_part_by_what_they_are_specific_in() {
    let host = |field: usize, host: u128| vec![(field, Test::Value(host * 0x0101_0101))];
    let engine = build(&set(&Schema::ipv4(), (0..200).map(|i| host(i as usize % 2, i))));
    let stats = Engine::stats(&engine);
    // One tree selects bits of the sources, one of the destinations.
    assert_eq!((engine.trees.len(), stats.worst_lines), (2, 2 * (2 + 4) + 1), "{stats:?}");
    assert!(engine.blocks.len() <= 4 * 40, "{} lines", engine.blocks.len());
}

#[test]
fn short_lists_share_blocks() {
    let nets = (0..1000u128).map(|i| vec![(0, Test::Prefix { value: i << 12, len: 20 })]);
    let engine = build(&set(&Schema::ipv4(), nets));
    assert!(engine.blocks.len() <= 4 * (1000 / 8 + 10), "{} lines", engine.blocks.len());
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
