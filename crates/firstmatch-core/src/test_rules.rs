//! Rules for the unit tests of engines.

use std::net::IpAddr;
use std::num::NonZeroU32;

use crate::rule::{Action, Condition, ExpansionLimits, Lowered, Priority, RuleSet, RuleSpec, Test, lower};
use crate::schema::{Family, Schema};

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
    lower(&set, schema, &ExpansionLimits::default()).expect("within the caps")
}

/// Builds the rules of a text over the 5-tuple, one per line: an action, then fields with a value or values in braces.
///
/// Values are numbers, addresses and prefixes. The set is dual-stack unless the first line is `family ipv4`.
pub(crate) fn of_text(text: &str) -> RuleSet {
    let is_ipv4 = text.starts_with("family ipv4\n");
    let mut set = if is_ipv4 { RuleSet::new(Schema::ipv4()) } else { RuleSet::dual(Schema::ipv4(), Schema::ipv6()) };
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.starts_with("family")) {
        let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
        let action = if words.next() == Some("permit") { Action::Permit } else { Action::Deny };
        let mut conditions = Vec::new();
        while let Some(name) = words.next() {
            let field = ["src", "dst", "sport", "dport", "proto"].iter().position(|&of| of == name);
            let field = field.unwrap_or_else(|| panic!("{name} is no field of the 5-tuple"));
            let first = words.next().expect("a value");
            let values: Vec<&str> =
                if first == "{" { words.by_ref().take_while(|&word| word != "}").collect() } else { vec![first] };
            conditions.push(Condition { field, negated: false, tests: values.into_iter().map(test).collect() });
        }
        let (priority, conditions) = (Priority::of_line(line), conditions.into());
        let spec = RuleSpec { priority, action, conditions, family: None, line: NonZeroU32::new(line), value: 0 };
        set.insert(spec).expect("a rule that fits");
    }
    set
}

fn test(value: &str) -> (Option<Family>, Test) {
    let (address, len) = value.split_once('/').map_or((value, None), |(address, len)| (address, len.parse().ok()));
    match address.parse() {
        Ok(IpAddr::V4(address)) => {
            (Some(Family::Ipv4), Test::Prefix { value: u32::from(address).into(), len: len.unwrap_or(32) })
        }
        Ok(IpAddr::V6(address)) => {
            (Some(Family::Ipv6), Test::Prefix { value: address.into(), len: len.unwrap_or(128) })
        }
        Err(_) => (None, Test::Value(value.parse().expect("a number"))),
    }
}
