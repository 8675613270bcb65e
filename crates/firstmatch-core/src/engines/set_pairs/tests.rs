//! Worked examples, and what stays small.

use super::*;
use crate::engine::Classifier;
use crate::key::KeyBuf;
use crate::rule::{
    Action, Condition, ExpansionLimits, FieldValues, Priority, RuleSet, RuleSpec, Test, first_match, lower_products,
};
use crate::schema::{Field, Kind};

/// Condition: a field, whether it is negated, and the ranges of its values.
type On<'a> = (usize, bool, &'a [(u128, u128)]);

fn rules(schema: &Schema, rules: &[&[On<'_>]]) -> RuleSet {
    let mut set = RuleSet::new(schema.clone());
    for (line, conditions) in (1..).zip(rules) {
        let of = |&(field, negated, ranges): &On<'_>| {
            let tests = ranges.iter().map(|&(lo, hi)| (None, Test::Range { lo, hi })).collect();
            Condition { field, negated, tests }
        };
        let conditions = conditions.iter().map(of).collect::<Vec<_>>().into();
        let priority = Priority::of_line(line);
        set.insert(RuleSpec { priority, action: Action::Permit, conditions, family: None, line: None, value: 0 })
            .expect("it fits");
    }
    set
}

fn built(set: &RuleSet) -> SetPairs {
    let lowered = lower_products(set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the limits");
    SetPairs::build(&lowered, &Config::default()).expect("no budget")
}

fn schema(widths: &[u32]) -> Schema {
    let field = |(at, &width): (usize, &u32)| Field::new(&format!("f{at}"), width, Kind::Range, None);
    Schema::new(None, widths.iter().enumerate().map(field).collect())
}

/// Asserts that the engine answers as the oracle for packets of these values.
fn assert_answers(set: &RuleSet, engine: &SetPairs, packets: impl Iterator<Item = Vec<Option<u128>>>) {
    let packets: Vec<FieldValues> = packets.map(|values| FieldValues { family: None, values }).collect();
    let mut keys = KeyBuf::new(&engine.schema);
    packets.iter().for_each(|packet| keys.push_values(packet));
    let mut found = vec![None; packets.len()];
    engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut found);
    for (packet, found) in packets.iter().zip(found) {
        assert_eq!(found.map(|of| of.rule), first_match(set, packet).map(|of| of.id), "{packet:?}");
    }
}

/// Two groups that overlap, each a part of its own where both hold a value, a rule with an open axis, and one with most of a field.
#[test]
fn the_worked_example_has_these_pairs_and_answers() {
    let (g, h): (&[_], &[_]) = (&[(1, 1), (4, 7), (9, 9)], &[(4, 5), (12, 15)]);
    let schema = schema(&[4, 4]);
    let set =
        rules(&schema, &[&[(0, false, g), (1, false, h)], &[(0, false, h)], &[(0, true, g), (1, false, &[(3, 3)])]]);
    let engine = built(&set);
    let classes: Vec<usize> = engine.axes.iter().map(|axis| axis.classes.len()).collect();
    assert_eq!((engine.bounds.pairs, classes), (1, vec![4, 3]));
    assert_answers(&set, &engine, (0..256).map(|key| vec![Some(key >> 4), Some(key & 15)]));
    let text = "f0: classes of parts {} {1} {2 1} {2}\nf1: classes of parts {} {1} {2}\npair 1 2: {r1}\n";
    assert_eq!(engine.describe(), text);
}

/// A set of many members is one class of one part, wherever its members lie.
#[test]
fn members_of_one_set_are_one_class() {
    let schema = schema(&[32, 32, 16]);
    let members: Vec<(u128, u128)> = (0..2000).map(|at| (at * 1_000_003, at * 1_000_003)).collect();
    let ports: Vec<(u128, u128)> = (0..20).map(|at| (at * 7, at * 7)).collect();
    let set = rules(&schema, &[&[(0, false, &members), (1, false, &members), (2, false, &ports)]]);
    let lowered = lower_products(&set, &schema, &ExpansionLimits::default()).expect("products have no limit");
    assert!(lowered.expanded().is_err() && lowered.region_count() > 1 << 26);
    let engine = SetPairs::build(&lowered, &Config::default()).expect("no budget");
    assert_eq!((engine.bounds.pairs, engine.bounds.tests, engine.axes[0].classes.len()), (1, 1, 2));
    assert!(Engine::stats(&engine).total_bytes() < 80 << 10, "{engine:?}");
    let near = |at: u128| [at * 1_000_003, at * 1_000_003 + 1];
    let pairs = (0..300).flat_map(|at| near(at).map(|a| near(1999 - at).map(|b| (a, b, at % 150)))).flatten();
    assert_answers(&set, &engine, pairs.map(|(a, b, port)| vec![Some(a), Some(b), Some(port)]));
}

/// Lists longer than a length can say, and more classes of the fourth field than bits, give the same answers.
#[test]
fn long_lists_and_many_values_of_the_fourth_field() {
    let schema = schema(&[17, 17, 10, 5]);
    let conditions: Vec<Vec<On<'_>>> = vec![vec![(0, false, &[(5, 9)]), (1, false, &[(3, 3)])]; 200];
    let few: Vec<[(u128, u128); 1]> = (0..200).map(|at| [(at * 5, at * 5 + 2)]).collect();
    let kinds: Vec<Vec<(u128, u128)>> =
        (0..200).map(|at| vec![(at % 32, at % 32), (at * 7 % 29, at * 7 % 29 + 1)]).collect();
    for open in [false, true] {
        let all: Vec<Vec<On<'_>>> = conditions
            .iter()
            .enumerate()
            .map(|(at, pair)| {
                let mut own = if open && at > 0 { Vec::new() } else { pair.clone() };
                own.extend([(2, false, &few[at][..]), (3, false, &kinds[at][..])]);
                own
            })
            .collect();
        let all: Vec<&[On<'_>]> = all.iter().map(Vec::as_slice).collect();
        let set = rules(&schema, &all);
        let engine = built(&set);
        assert!(engine.fourth.is_some() && engine.third.is_some() && !engine.residue.sets.is_empty());
        let keys = (0..1024).flat_map(|value| (0..32).map(move |kind| (value, kind)));
        assert_answers(&set, &engine, keys.map(|(value, kind)| vec![Some(7), Some(3), Some(value), Some(kind)]));
    }
}
