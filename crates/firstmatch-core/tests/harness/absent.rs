//! Rules that ask for packets without a field, on every engine.

use firstmatch_core::rule::{Condition, ExpansionLimits, FieldValues, RuleSet, Test, lower};
use firstmatch_core::schema::{Field, Schema};

use crate::case::Case;
use crate::corners;
use crate::engines::engines;
use crate::generate::{rule_set, schemas};
use crate::rng::Rng;

/// Returns the rules of a set with `absent` in place of, or beside, every third condition on an optional field.
fn with_absent(set: &RuleSet, schema: &Schema, rng: &mut Rng) -> RuleSet {
    let mut out = RuleSet::new(schema.clone());
    for rule in set.iter() {
        let mut spec = rule.spec.clone();
        let change = |mut condition: Condition| {
            if schema.fields()[condition.field].is_optional() && rng.percent(35) {
                if rng.percent(50) {
                    condition.tests.clear();
                }
                condition.tests.push((None, Test::Absent));
            }
            condition
        };
        spec.conditions = rule.conditions.to_vec().into_iter().map(change).collect();
        out.insert(spec).expect("the field is optional");
    }
    out
}

#[test]
fn packets_without_a_field_are_found() {
    let engines = engines();
    let mut decided = 0;
    for (index, (name, schema)) in schemas().into_iter().enumerate() {
        if !schema.fields().iter().any(Field::is_optional) {
            continue;
        }
        let mut rng = Rng::new(500 + index as u64);
        for (rules, packets) in [(6, 150), (80, 500)] {
            let drawn = rule_set(&schema, &mut rng, rules);
            let set = with_absent(&drawn, &schema, &mut rng);
            let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
            let packets: Vec<FieldValues> = corners::of_set(&set, &schema, &mut rng, packets);
            let case = Case::new(&set, &schema, packets.clone());
            for (packet, answer) in packets.iter().zip(&case.want) {
                let rule = answer.and_then(|answer| set.get(answer.rule));
                let asks = rule.is_some_and(|rule| {
                    rule.conditions.iter().any(|condition| packet.values[condition.field].is_none())
                });
                decided += usize::from(asks);
            }
            for subject in &engines {
                if let Err(what) = case.check(&*subject.build(&lowered)) {
                    panic!("{}: {name}, {rules} rules: {what}", subject.name);
                }
            }
        }
    }
    assert!(decided > 400, "{decided} packets match because they lack a field");
}
