//! Tests of rule sets: slots, ids and what is refused.

use super::*;
use crate::rule::{Action, Condition, Conditions};
use crate::schema::Kind;

fn spec(priority: u64) -> RuleSpec {
    RuleSpec {
        priority: Priority(priority),
        action: Action::Permit,
        conditions: Conditions::default(),
        family: None,
        line: None,
        value: 0,
    }
}

#[test]
fn a_rule_takes_56_bytes_and_its_conditions() {
    assert_eq!(size_of::<Slot>(), 56);
}

#[test]
fn shrinking_changes_nothing() {
    let mut set = RuleSet::new(Schema::ipv4());
    let ids: Vec<_> = (0..100).map(|p| set.insert(spec(p * 7 % 101)).expect("insert")).collect();
    ids.iter().step_by(3).for_each(|&id| assert!(set.remove(id).is_ok()));
    let before: Vec<_> = set.iter().cloned().collect();
    set.shrink_to_fit();
    assert!(before.iter().eq(set.iter()) && before.iter().all(|rule| set.get(rule.id) == Some(rule)));
    assert!(before.iter().all(|rule| set.at(rule.priority) == Some(rule)));
}

#[test]
fn renumbered_rules_keep_their_order_and_ids() {
    let mut set = RuleSet::new(Schema::ipv4());
    let ids = [9, 7, 8].map(|priority| set.insert(spec(priority)).expect("insert"));
    assert_eq!(Priority::between(Priority(7), Priority(8)), None);
    set.renumber();
    let order: Vec<_> = set.iter().map(|rule| (rule.id, rule.priority)).collect();
    let line = Priority::of_line;
    assert_eq!(order, [(ids[1], line(1)), (ids[2], line(2)), (ids[0], line(3))]);
    assert!(set.iter().all(|rule| set.at(rule.priority) == Some(rule)));
}

#[test]
fn slots_are_reused_and_stale_ids_refused() {
    let mut set = RuleSet::new(Schema::ipv4());
    let first = set.insert(spec(1)).expect("insert");
    set.remove(first).expect("remove");
    let second = set.insert(spec(1)).expect("insert again");
    assert_eq!((first.slot(), second.slot()), (0, 0));
    assert_ne!(first, second);
    assert!(set.remove(first).is_err() && set.get(first).is_none());
    assert!(set.insert(spec(1)).is_err());
    assert_eq!((set.len(), set.slots()), (1, 1));
}

/// Ids of undone insertions are not reused, even if the slot goes back to the rule before.
#[test]
fn undone_ids_do_not_come_back() {
    let mut set = RuleSet::new(Schema::ipv4());
    let mut given = std::collections::BTreeSet::new();
    let first = set.insert(spec(1)).expect("insert");
    assert!(given.insert(first));
    for round in 0..5 {
        let rule = set.remove(first).expect("it is live");
        let taken = [10, 11].map(|priority| set.insert(spec(priority)).expect("insert"));
        assert!(taken.iter().all(|&id| given.insert(id)), "round {round}: {taken:?}");
        taken.into_iter().rev().for_each(|id| set.undo_insert(id));
        set.undo_remove(rule);
        assert!(set.iter().map(|rule| rule.id).eq([first]) && taken.iter().all(|&id| set.get(id).is_none()));
    }
    set.remove(first).expect("it is live");
    let next = [1, 2, 3].map(|priority| set.insert(spec(priority)).expect("insert"));
    assert!(next.iter().all(|&id| given.insert(id)), "{next:?}");
    assert_eq!(set.slots(), 3);
    // A slot whose counts are all spent is not used again.
    let last = RuleId::new(9, u32::MAX - 1);
    set.insert_as(last, spec(20)).expect("insert");
    let rule = set.remove(last).expect("it is live");
    let id = set.insert(spec(21)).expect("insert");
    assert_eq!((id.slot(), id.reuse()), (9, u32::MAX));
    set.undo_insert(id);
    set.undo_remove(rule);
    set.remove(last).expect("it is live");
    assert_ne!(set.insert(spec(22)).expect("insert").slot(), 9);
}

/// Undoing an insertion leaves the reuse count of the slot that undoing the rule's removal recorded.
#[test]
fn an_undone_rule_that_came_back_keeps_the_count() {
    let mut set = RuleSet::new(Schema::ipv4());
    let mut given = std::collections::BTreeSet::new();
    let mut insert = |set: &mut RuleSet| {
        let id = set.insert(spec(1)).expect("insert");
        assert!(given.insert(id), "{id} is given twice");
        id
    };
    for _ in 0..3 {
        // Insert, remove and insert, then undo all of it.
        let first = insert(&mut set);
        let rule = set.remove(first).expect("it is live");
        let second = insert(&mut set);
        set.undo_insert(second);
        set.undo_remove(rule);
        set.undo_insert(first);
        assert!(set.is_empty() && set.passed.is_empty());
    }
    for _ in 0..9 {
        let id = insert(&mut set);
        set.remove(id).expect("it is live");
    }
    assert_eq!(set.slots(), 1);
}

/// No id is given twice, whatever is inserted and removed and however often the set is restored.
#[test]
fn an_id_is_never_given_twice() {
    let mut state = 3u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) as usize % n
    };
    // A restored set does not know what was undone elsewhere, so a round has the one or the other.
    for round in 0..40 {
        let mut set = RuleSet::new(Schema::ipv4());
        let mut given = std::collections::BTreeSet::new();
        for step in 0..300u64 {
            let live: Vec<_> = set.iter().map(|rule| rule.id).collect();
            match below(20) {
                0 if round % 2 == 0 => {
                    // Restored from its live rules.
                    let mut rules: Vec<_> = set.iter().cloned().collect();
                    rules.sort_by_key(|rule| rule.id.slot());
                    let mut new = RuleSet::new(Schema::ipv4());
                    for rule in &rules {
                        new.insert_as(rule.id, rule.spec.clone()).expect("slots ascend");
                    }
                    new.pass_slots(set.slots());
                    assert!(new.iter().eq(set.iter()));
                    set = new;
                }
                1 => {
                    let id = RuleId::new((set.slots() + below(4)) as u32, below(3) as u32);
                    set.insert_as(id, spec(step)).expect("the slot is behind all others");
                    assert!(given.insert(id), "{id} is given twice");
                }
                2..10 if !live.is_empty() => {
                    set.remove(live[below(live.len())]).expect("it is live");
                }
                10..14 if round % 2 == 1 && !live.is_empty() => {
                    // Part of a transaction, undone.
                    let rule = set.remove(live[below(live.len())]).expect("it is live");
                    let id = set.insert(spec(step)).expect("insert");
                    assert!(given.insert(id), "{id} is given twice");
                    set.undo_insert(id);
                    set.undo_remove(rule);
                }
                _ => {
                    let id = set.insert(spec(step)).expect("insert");
                    assert!(given.insert(id), "{id} is given twice");
                }
            }
        }
    }
}

#[test]
fn ids_can_be_restored_in_ascending_order() {
    let mut set = RuleSet::new(Schema::ipv4());
    for (id, priority) in [(RuleId::new(1, 0), 7), (RuleId::new(4, 9), 3)] {
        set.insert_as(id, spec(priority)).expect("insert");
        assert_eq!(set.get(id).map(|rule| rule.priority), Some(Priority(priority)));
    }
    assert!(set.insert_as(RuleId::new(4, 10), spec(1)).is_err() && set.insert_as(RuleId::new(2, 0), spec(1)).is_err());
    assert!(set.insert_as(RuleId::new(5, 0), spec(7)).is_err());
    assert_eq!((set.len(), set.slots()), (2, 5));
    let slots: Vec<_> = (10..14).map(|p| set.insert(spec(p)).expect("insert").slot()).collect();
    assert_eq!(slots, [5, 6, 7, 8], "rules that were removed elsewhere may have had the other slots");
}

#[test]
fn ids_can_be_restored_without_a_gap() {
    let mut set = RuleSet::new(Schema::ipv4());
    for slot in 0..3 {
        set.insert_as(RuleId::new(slot, 2), spec(slot.into())).expect("the slot is behind all others");
    }
    assert!(set.insert_as(RuleId::new(2, 3), spec(9)).is_err());
    assert_eq!((set.len(), set.slots()), (3, 3));
    assert_eq!(set.insert(spec(8)).expect("insert").slot(), 3);
}

/// A condition is bound to its field in both families: a set whose field differs in either refuses the rule.
#[test]
fn conditions_are_bound_to_fields_of_both_families() {
    let over = |family, width| Schema::new(Some(family), vec![Field::new("a", width, Kind::Exact, None)]);
    let dual = |four, six| RuleSet::dual(over(Family::Ipv4, four), over(Family::Ipv6, six));
    let condition = Condition { field: 0, negated: false, tests: vec![(None, Test::Value(1))] };
    let mut set = dual(8, 16);
    let id = set.insert(RuleSpec { conditions: [condition].into(), ..spec(1) }).expect("it fits");
    let bound = set.get(id).expect("it is live").spec.clone();
    for (four, six, fits) in [(8, 16, true), (9, 16, false), (8, 17, false), (16, 8, false)] {
        let inserted = dual(four, six).insert(bound.clone());
        assert_eq!(inserted.is_ok(), fits, "{four} {six}");
        assert!(fits || inserted.is_err_and(|error| error.is_for_other_fields()));
    }
}

#[test]
fn a_rule_that_does_not_fit_changes_nothing() {
    let mut set = RuleSet::new(Schema::ipv4());
    let with = |field, test| RuleSpec {
        conditions: [Condition { field, negated: false, tests: vec![(None, test)] }].into(),
        ..spec(9)
    };
    for bad in [
        with(5, Test::Value(0)),
        with(2, Test::Value(65536)),
        with(0, Test::Prefix { value: 1, len: 31 }),
        with(0, Test::Prefix { value: 0, len: 33 }),
        with(2, Test::Range { lo: 2, hi: 1 }),
        with(2, Test::Range { lo: 0, hi: 65536 }),
        with(4, Test::Mask { value: 3, mask: 1 }),
        RuleSpec { family: Some(Family::Ipv6), ..spec(9) },
    ] {
        assert!(set.insert(bad.clone()).is_err(), "{bad:?}");
    }
    let error = set.insert(with(5, Test::Value(0))).expect_err("the schema has five fields");
    assert!(error.to_string().contains("there is no field 5") && !error.is_for_other_fields(), "{error}");
    assert_eq!((set.len(), set.slots()), (0, 0));
    assert!(set.insert(with(0, Test::Prefix { value: 0, len: 0 })).is_ok());
}
