//! Tests of the union of masked values.

use super::*;
use crate::engines::shared::wide::Random;
use crate::rule::{Action, Condition, Priority, SetId};

fn cubes(of: &[(u128, u128)]) -> Vec<Cube> {
    of.iter().map(|&(value, mask)| Cube { value, mask }).collect()
}

/// Returns the union of cubes over six bits as values and masks, and the comparisons that it took.
fn union(of: &[(u128, u128)]) -> (Vec<(u128, u128)>, usize) {
    let open = u128::MAX << 6;
    let of: Vec<_> = of.iter().map(|&(value, mask)| (value, mask | open)).collect();
    let mut left = Allowance { pieces: 1000, comparisons: 1000 };
    let out = disjoint(cubes(&of), &mut left).unwrap_or_else(|_| panic!("it is small"));
    (out.iter().map(|cube| (cube.value, cube.mask & !open)).collect(), 1000 - left.comparisons)
}

#[test]
fn values_inside_others_vanish_in_any_order() {
    let wide = (0b01_0000, 0b01_0000);
    for list in [vec![(0b11_0101, 0b11_1111), wide, (0b01_0001, 0b01_0011)], vec![wide, (0b01_0000, 0b11_1111)]] {
        assert_eq!(union(&list).0, [wide], "{list:?}");
    }
    // Values under one mask are not compared, and none appears twice.
    let (out, compared) = union(&[(5, 63), (1, 63), (5, 63), (9, 63), (1, 63)]);
    assert_eq!((out, compared), (vec![(1, 63), (5, 63), (9, 63)], 0));
}

#[test]
fn a_union_has_each_value_once() {
    let mut random = Random(1);
    for _ in 0..2000 {
        let mut list = vec![(0, 0); 1 + random.below(5)];
        for (value, mask) in &mut list {
            *mask = random.below(64) as u128;
            *value = random.below(64) as u128 & *mask;
        }
        let (out, _) = union(&list);
        for at in 0..64 {
            let of = |list: &[(u128, u128)]| list.iter().filter(|(value, mask)| at & mask == *value).count();
            assert_eq!(of(&out), of(&list).min(1), "{at:06b} of {list:?}: {out:?}");
        }
    }
}

/// A rule of a live set is refused by itself, because its members are the rule set's: negated it would hold for all.
#[test]
fn rules_of_live_sets_are_not_lowered_alone() {
    let (schema, set) = (Schema::ipv4(), SetId::new(0));
    for negated in [false, true] {
        let conditions = vec![Condition { field: 0, negated, tests: vec![(None, Test::Set(set))] }].into();
        let (priority, action) = (Priority(1), Action::Deny);
        let rule = RuleSpec { priority, action, conditions, family: None, line: None, value: 0 };
        let mut out = Regions::new(schema.words().len());
        let error = lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut out).expect_err("no members");
        assert!(error.to_string().contains("live set") && out.is_empty(), "{error}");
    }
}
