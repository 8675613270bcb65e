//! Rules for the unit tests of engines.

use crate::rule::{Action, Caps, Condition, Lowered, Priority, RuleSet, RuleSpec, Test, lower};
use crate::schema::Schema;

/// Lowers rules in order, each given as the tests of some fields.
pub(crate) fn set(schema: &Schema, rules: impl IntoIterator<Item = Vec<(usize, Test)>>) -> Lowered {
    let mut set = RuleSet::new(schema.clone());
    for (index, tests) in rules.into_iter().enumerate() {
        let one = |(field, test)| Condition { field, negated: false, tests: vec![(None, test)] };
        let conditions = tests.into_iter().map(one).collect();
        let priority = Priority::of_line(index as u32 + 1);
        let spec = RuleSpec { priority, action: Action::Match, conditions, family: None, line: None, value: 0 };
        set.insert(spec).expect("a rule that fits");
    }
    lower(&set, schema, &Caps::default()).expect("within the caps")
}
