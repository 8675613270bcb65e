//! Unusual rules, and numbers of rules, of starts and of bits on both sides of a border.

use super::*;
use crate::rule::{ExpansionLimits, lower};
use crate::test_rules::of_text;

fn value(field: usize, value: u32) -> (usize, Test) {
    (field, Test::Value(value.into()))
}

fn range(field: usize, lo: u32, hi: u32) -> (usize, Test) {
    (field, Test::Range { lo: lo.into(), hi: hi.into() })
}

fn schema(widths: &[u32], kind: Kind) -> Schema {
    let field = |(at, &width): (usize, &u32)| Field::new(&format!("f{at}"), width, kind, None);
    Schema::new(None, widths.iter().enumerate().map(field).collect())
}

/// Compares the answers of every configuration at and beside the bounds of all regions.
fn check_all(set: &Lowered, said: &str) {
    let keys = bounds_of(set, 1);
    for config in configs() {
        check(&build(set, &config), set, &keys, &format!("{said}, {config:?}"));
    }
}

/// No rule, one rule, rules of all packets, and fields that few rules constrain.
#[test]
fn few_rules_and_open_fields() {
    let schema = schema(&[16, 32, 8], Kind::Range);
    let open = Vec::new;
    for (said, rules, searches) in [
        ("no rule", vec![], 0),
        ("one rule", vec![vec![value(0, 7), range(1, 5, 900)]], 2),
        ("one rule of all packets", vec![open()], 1),
        ("rules of all packets", vec![open(); 3], 1),
        ("a field that one rule constrains", vec![open(), vec![value(1, 7)], open()], 1),
        ("a rule before others of all packets", vec![vec![range(2, 3, 4)], open(), open()], 1),
        ("equal rules", vec![vec![value(0, 7), value(2, 7)]; 5], 2),
        ("values of one field", vec![vec![value(0, 7)], vec![value(0, 9)], vec![value(0, 7)]], 1),
        ("values of one field, and another rule", vec![vec![value(0, 7)], open(), vec![value(0, 9)]], 1),
        ("equal vectors in two fields", (0..9).map(|at| vec![value(0, at), value(2, at)]).collect(), 2),
    ] {
        let set = set(&schema, rules);
        check_all(&set, said);
        assert_eq!(build(&set, &Config { seed: Some(1), ..Config::plain() }).searches.len(), searches, "{said}");
    }
}

/// Lookups do not confuse `u32::MAX` as a value with its other meanings.
///
/// It is the largest value of a word, the padding of tree nodes, and the mark of a free hash slot (`FREE`).
#[test]
fn the_largest_value_of_a_word() {
    let schema = schema(&[32, 32], Kind::Range);
    let values = [u32::MAX, 0, u32::MAX - 1].map(|at| vec![value(0, at), value(1, at)]);
    check_all(&set(&schema, values), "values");
    let last = [vec![range(0, u32::MAX, u32::MAX)], vec![range(0, 5, u32::MAX - 1), value(1, u32::MAX)], vec![]];
    check_all(&set(&schema, last), "intervals");
}

/// An absent port is in no range, even one up to the largest port; rules that leave the port open still match.
#[test]
fn absent_ports_beside_the_largest_one() {
    let text = "family ipv4\ndeny dport 65535\npermit sport { 0, 7, 65535 } proto 6\npermit proto 1\n\
                deny src 10.0.0.0/9 dport 65534";
    let rules = of_text(text);
    let set = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default()).expect("within the limits");
    check_all(&set, "ports");
}

/// Starts at the borders of one, two and three levels of a tree.
#[test]
fn numbers_of_starts_of_a_tree() {
    let schema = schema(&[32, 48], Kind::Range);
    for count in [15, 16, 17, 272, 273u32] {
        // Ranges are nested and end with the word, so that each has a start of its own, and the last is the largest.
        let start = |at: u32| if at + 1 == count { u32::MAX } else { 9 + at * 1000 };
        // The last range constrains the lower word, too.
        let wide = |at: u32| {
            let lo = if at + 1 == count { 0xFFFF << 32 | 7 } else { u128::from(at + 1) << 32 };
            (1, Test::Range { lo, hi: (1 << 48) - 1 })
        };
        let rules = (0..count).rev().map(|at| vec![range(0, start(at), u32::MAX), wide(at)]);
        let set = set(&schema, rules);
        let keys = bounds_of(&set, 1 + count as usize / 20);
        for config in [Config::plain(), Config::default()] {
            let engine = build(&set, &Config { seed: Some(2), ..config });
            check(&engine, &set, &keys, &format!("{count} starts"));
            let levels = engine.searches.iter().map(|search| match search {
                Search::Tree { tree, .. } => tree.levels(),
                _ => panic!("ranges are searched in trees"),
            });
            let want = [
                if count < 17 {
                    1
                } else if count < 273 {
                    2
                } else {
                    3
                },
                if count < 73 { 2 } else { 3 },
            ];
            assert_eq!(levels.collect::<Vec<_>>(), want, "{count} starts");
        }
    }
}

/// Words of exactly 64 bits are one search, and those of 65 bits are two.
#[test]
fn words_of_64_bits_are_searched_together() {
    let optional = Schema::new(None, vec![Field::new("f", 64, Kind::Prefix, None).optional()]);
    for (schema, columns) in [
        (schema(&[64], Kind::Prefix), vec![Column::Intervals(vec![0, 1])]),
        (optional, vec![Column::Intervals(vec![0, 1]), Column::Intervals(vec![2])]),
    ] {
        let rule = |len: u32| {
            let value = u128::from(0xF0F0_1234_8765_4321u64 >> (64 - len) << (64 - len));
            vec![(0, Test::Prefix { value, len })]
        };
        let set = set(&schema, [64, 63, 40, 33, 32, 31, 17, 1].map(rule));
        assert_eq!(columns_of(&set, &Config::plain()), columns);
        check_all(&set, "prefixes");
    }
}

/// An address of IPv6 is two trees of 64 bits.
#[test]
fn addresses_of_ipv6() {
    let hosts = "src 2001:db8:1::5";
    let nets = "dst 2001:db8:0:ff00::/56\ndeny dst 2001:db8::/33 dport 80\npermit src 2001:db8:1::/64 proto 6";
    let rules = of_text(&format!("deny {hosts} sport {{ 22, 80 }}\npermit {nets}\npermit src 2001:db8:1::/96"));
    let set = lower(&rules, &rules.schemas()[1], &ExpansionLimits::default()).expect("within the limits");
    let all = columns_of(&set, &Config::plain());
    for words in [[0, 1], [2, 3], [4, 5]] {
        assert!(all.contains(&Column::Intervals(words.to_vec())), "{all:?}");
    }
    // No destination is longer than 64 bits.
    assert!(!all.contains(&Column::Intervals(vec![6, 7])), "{all:?}");
    check_all(&set, "addresses");
}

/// Masks over each byte of a word, over several, and beside exact values of it.
#[test]
fn masks_in_each_byte() {
    let schema = schema(&[32, 8], Kind::Mask);
    let mask = |mask: u32, value: u32| (0, Test::Mask { value: (value & mask).into(), mask: mask.into() });
    let bytes = [0, 8, 16, 24].map(|byte| vec![mask(0x5A << byte, 0x4848_4848), value(1, byte)]);
    let more = [vec![mask(0x8001_4002, u32::MAX)], vec![value(0, 77)], vec![mask(0x0100_0001, 1), value(1, 3)], vec![]];
    let set = set(&schema, bytes.into_iter().chain(more));
    let mut keys = bounds_of(&set, 1);
    for at in 0..400u32 {
        keys.push()[..2].copy_from_slice(&[at.wrapping_mul(0x9E37_79B1), at % 5 * 8]);
        keys.push()[..2].copy_from_slice(&[0x4848_4848 ^ 1 << (at % 32), at / 32 % 4 * 8]);
    }
    for config in configs() {
        let engine = build(&set, &config);
        check(&engine, &set, &keys, &format!("{config:?}"));
        let masked = engine.searches.iter().filter(|search| matches!(search, Search::Bits { .. }));
        assert!(masked.count() >= 2, "{config:?}");
    }
}

/// A value that is in no hash table matches the rules that leave the field open, or none.
#[test]
fn values_that_no_rule_names() {
    let schema = schema(&[32, 32], Kind::Exact);
    let named = (0..40u32).map(|at| vec![value(0, at * 3), value(1, at * 5)]);
    check_all(&set(&schema, named.clone()), "none is open");
    let of_one = named.chain([vec![value(0, 1)], vec![value(1, 1)], vec![]]);
    check_all(&set(&schema, of_one), "some leave one field open, and the last both");
}

/// Numbers of rules at the borders of lines and of words of summaries, with a wildcard behind them.
#[test]
fn borders_of_lines_and_groups() {
    let schema =
        Schema::new(None, vec![Field::new("a", 16, Kind::Range, None), Field::new("b", 32, Kind::Range, None)]);
    for count in [0u32, 1, 2, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097] {
        let rule = |at: u32| vec![(0, Test::Value(u128::from(at % 700))), (1, Test::Value(u128::from(u32::MAX - at)))];
        let rules = (0..count).map(rule).chain((count % 2 == 0).then(|| vec![(0, Test::Range { lo: 5, hi: 90 })]));
        let set = set(&schema, rules);
        let mut keys = KeyBuf::new(&schema);
        for at in (0..count + 2).step_by(1 + count as usize / 100).chain([count.saturating_sub(1)]) {
            keys.push()[..2].copy_from_slice(&[at % 700, u32::MAX - at]);
            keys.push()[..2].copy_from_slice(&[6, 5]);
        }
        for rows in [RowForm::Flat, RowForm::Summed, RowForm::Sparse] {
            for superfields in [Superfields::Fields, Superfields::Chosen] {
                let config = Config { rows, superfields, seed: Some(1), ..Config::default() };
                check(&build(&set, &config), &set, &keys, &format!("{count} rules, {rows:?}, {superfields:?}"));
            }
        }
    }
}

/// The first of several rules is found, whether the others are in the same line, the same sub-vector or a later one.
#[test]
fn the_first_of_several_matches_is_found() {
    let schema = schema(&[16, 16], Kind::Range);
    let set = set(&schema, (0..1300).map(|at| vec![value(0, at % 400), range(1, at % 7, 9 + at / 400)]));
    let mut keys = KeyBuf::new(&schema);
    for at in (0..401).step_by(9) {
        (5..13).for_each(|port| keys.push()[..2].copy_from_slice(&[at, port]));
    }
    for rows in [RowForm::Flat, RowForm::Summed, RowForm::Sparse] {
        for stop in [Stop::Never, Stop::Hit, Stop::Zero] {
            for sub_vector in [512, 1024, 8192] {
                let config = Config { rows, stop, sub_vector, seed: Some(1), ..Config::default() };
                check(&build(&set, &config), &set, &keys, &format!("{rows:?}, {stop:?}, {sub_vector}"));
            }
        }
    }
}

/// A match of another engine is kept if it is better, and replaced if it is not.
#[test]
fn better_matches_are_kept() {
    let two = set(&schema(&[16], Kind::Range), [vec![range(0, 3, 9)], vec![]]);
    for (own, other) in [(0, 1), (1, 0)] {
        let mut one = Lowered::empty(two.schema());
        one.push(two.rules()[own], two.regions().get(own));
        let mut keys = KeyBuf::new(two.schema());
        keys.push()[0] = 5;
        for config in configs() {
            let (engine, mut best) = (build(&one, &config), [Some(two.rules()[other])]);
            engine.improve(&mut engine.new_scratch(), &keys.keys(), &mut best);
            assert_eq!(best, [Some(two.rules()[0])], "{config:?}");
        }
    }
}

/// Numbers of rules at which the summary of lines gets a second word, in every form and with every end of a merge.
#[test]
fn borders_of_words_of_summaries() {
    let schema = schema(&[16, 16], Kind::Range);
    for count in [32_767, 32_768, 32_769u32] {
        let rules = (0..count).map(|at| vec![value(0, at / 182), range(1, at % 182, at % 182)]);
        let set = set(&schema, rules);
        let mut keys = KeyBuf::new(&schema);
        for at in [0, 1, 511, 512, 4095, 4096, 20_000, 32_255, 32_256, 32_766, 32_767, 32_768, 32_769] {
            keys.push()[..2].copy_from_slice(&[at / 182, at % 182]);
            keys.push()[..2].copy_from_slice(&[at / 182, 182]);
        }
        for (rows, stop, sub_vector) in [
            (RowForm::Flat, Stop::Never, 8192),
            (RowForm::Flat, Stop::Hit, 1024),
            (RowForm::Flat, Stop::Zero, 512),
            (RowForm::Flat, Stop::Zero, 8192),
            (RowForm::Summed, Stop::Zero, 512),
            (RowForm::Auto, Stop::Zero, 512),
        ] {
            let config =
                Config { rows, stop, sub_vector, seed: Some(1), superfields: Superfields::Fields, ..Config::default() };
            check(&build(&set, &config), &set, &keys, &format!("{count} rules, {rows:?}, {stop:?}, {sub_vector}"));
        }
    }
}

/// Rules with tombstones are passed over in every form of vectors, also where one vector decides alone.
#[test]
fn dead_rules_are_passed_over() {
    let one = set(&schema(&[16], Kind::Range), (0..1300).map(|at| vec![range(0, 3 * at, 3 * at + 900)]));
    let two = |at| vec![range(0, at, 2000 - at), range(1, at / 2, 4000)];
    for (set, step) in [(one, 7), (set(&schema(&[16, 16], Kind::Range), (0..600).map(two)), 3)] {
        let keys = bounds_of(&set, 29);
        for config in configs() {
            let engine = build(&set, &config);
            for left in [1, 2, step, 10_000] {
                let mut dead = Tombstones::none(engine.places(), set.regions().len());
                for rank in (0..set.regions().len()).filter(|rank| rank % left != 0 || left > step) {
                    dead.mark(set.rules()[rank].rule, engine.places_of(set.rules()[rank].rule, rank, rank..rank + 1));
                }
                let mut found = vec![None; keys.len()];
                engine.improve_live(&mut engine.new_scratch(), &keys.keys(), &dead, &mut found);
                for (at, found) in found.into_iter().enumerate() {
                    let key = &keys.keys().row(at)[..set.schema().words().len()];
                    let holds = |rank: &usize| set.regions().get(*rank).contains(key) && dead.is_live(*rank);
                    let want = (0..set.regions().len()).find(holds).map(|rank| set.rules()[rank]);
                    assert_eq!(found, want, "key {at}, one of {left} rules left, {config:?}");
                }
            }
        }
    }
}
