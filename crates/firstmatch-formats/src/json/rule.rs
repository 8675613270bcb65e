//! Reader and writer of rules: actions, conditions, tests.

use crate::no_label;
use std::num::NonZeroU32;

use firstmatch_core::RuleId;
use firstmatch_core::rule::{Action, Condition, ConditionRef, Priority, Rule, RuleSpec, Test};
use firstmatch_core::schema::{Family, Field, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use super::node::{Doc, Node, Object, shown, string};
use super::schema::FAMILIES;
use super::value::{self, Given, Look, number, of_field, read_number, read_up_to};

#[derive(Serialize)]
pub(super) struct RuleOut {
    id: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<NonZeroU32>,
    priority: Value,
    action: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'static str>,
    conditions: Vec<ConditionOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Box<str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    audit: bool,
}

#[derive(Serialize)]
struct ConditionOut {
    field: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    not: bool,
    tests: Vec<TestOut>,
}

impl RuleOut {
    pub(super) fn new(schemas: &[Schema], rule: &Rule, label: Option<&str>, audit: bool) -> Self {
        let condition = |condition: ConditionRef<'_>| ConditionOut {
            field: schemas[0].fields()[condition.field].name().to_owned(),
            not: condition.negated,
            tests: condition.tests().map(|test| TestOut::new(schemas, condition.field, test)).collect(),
        };
        Self {
            id: number(rule.id.get().into()),
            line: rule.line,
            priority: number(rule.priority.0.into()),
            action: action_out(rule.action),
            family: rule.family.map(Family::name),
            conditions: rule.conditions.iter().map(condition).collect(),
            label: label.map(Box::from),
            audit,
        }
    }
}

pub(super) fn action_out(action: Action) -> Value {
    match action {
        Action::Permit => "permit".into(),
        Action::Deny => "deny".into(),
        Action::Match => "match".into(),
        Action::Mark(number) => json!({ "mark": number }),
    }
}

/// Test in one of its forms.
#[derive(Default, Serialize)]
struct TestOut {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    any: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    absent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lo: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hi: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'static str>,
}

impl TestOut {
    fn new(schemas: &[Schema], field: usize, (family, test): (Option<Family>, Test)) -> Self {
        let look = Look::new(schemas, field, family);
        let show = |value| Some(of_field(value, look));
        let mut out = match test {
            Test::Value(value) => Self { value: show(value), ..Self::default() },
            Test::Absent => Self { absent: true, ..Self::default() },
            // The writer refuses rules of live sets.
            Test::Set(_) => Self::default(),
            Test::Prefix { len: 0, .. } => Self { any: true, ..Self::default() },
            Test::Prefix { value, len } => Self { value: show(value), length: Some(len), ..Self::default() },
            Test::Range { lo, hi } => Self { lo: show(lo), hi: show(hi), ..Self::default() },
            Test::Mask { value, mask } => Self { value: show(value), mask: show(mask), ..Self::default() },
        };
        // In a set of two families an address shows its own family.
        let told = schemas.len() > 1 && matches!(look, Look::Address(_)) && !out.any && !out.absent;
        out.family = family.filter(|_| !told).map(Family::name);
        out
    }
}

/// Rule as the document states it.
///
/// Members that it leaves out are set once all rules are known.
pub(super) struct RuleIn<'t> {
    pub(super) node: Node<'t>,
    pub(super) id: Option<(RuleId, Node<'t>)>,
    pub(super) priority: Option<(Priority, Node<'t>)>,
    pub(super) label: Option<Box<str>>,
    pub(super) is_audit: bool,
    /// Rule with priority 0 until then.
    pub(super) spec: RuleSpec,
}

pub(super) fn read_rule<'t>(doc: &mut Doc<'t>, node: Node<'t>, schemas: &[Schema]) -> Option<RuleIn<'t>> {
    let before = doc.count();
    let mut object = doc.object(node, "rule")?;
    let id = object.take("id").and_then(|node| {
        let id = read_number(node).and_then(|id| RuleId::from_u64(u64::try_from(id).ok()?));
        match id {
            Some(id) => Some((id, node)),
            None => doc.fault(node, format_args!("{} is no id", shown(node)), "a number from 1, none twice"),
        }
    });
    let line = object.take("line").and_then(|node| {
        let line = read_number(node).and_then(|line| NonZeroU32::new(u32::try_from(line).ok()?));
        match line {
            Some(line) => Some(line),
            None => doc.fault(node, format_args!("{} is no line", shown(node)), format!("1 to {}", u32::MAX)),
        }
    });
    let priority = object.take("priority").and_then(|node| {
        let priority = read_up_to(doc, node, "priority", u64::MAX.into())?;
        Some((Priority(priority as u64), node))
    });
    let action = object.need(doc, "action").and_then(|node| read_action(doc, node));
    let family = object.take("family").and_then(|node| {
        let family = doc.choice(node, "family", &FAMILIES)?;
        if schemas.iter().any(|schema| schema.family() == Some(family)) {
            return Some(family);
        }
        doc.fault(node, format_args!("there is no schema of family {}", shown(node)), "")
    });
    let conditions = object.need(doc, "conditions");
    let label = object.take("label").and_then(|node| read_label(doc, node));
    let is_audit = object.take("audit").and_then(|node| doc.boolean(node, "statement"));
    object.finish(doc);
    let conditions = conditions.and_then(|node| read_conditions(doc, node, schemas));
    if doc.count() > before {
        return None;
    }
    let spec =
        RuleSpec { priority: Priority(0), action: action?, conditions: conditions?.into(), family, line, value: 0 };
    Some(RuleIn { node, id, priority, label, is_audit: is_audit.unwrap_or(false), spec })
}

fn read_label<'t>(doc: &mut Doc<'t>, node: Node<'t>) -> Option<Box<str>> {
    let Some(label) = string(node) else {
        return doc.fault(node, format_args!("{} is no label", shown(node)), "a text");
    };
    match no_label(&label) {
        Some(fault) => doc.fault(node, fault, "a short text without quotes"),
        None => Some(label.into_owned().into()),
    }
}

pub(super) fn read_action<'t>(doc: &mut Doc<'t>, node: Node<'t>) -> Option<Action> {
    let words = [("permit", Action::Permit), ("deny", Action::Deny), ("match", Action::Match)];
    if let Some(&(_, action)) = words.iter().find(|(word, _)| string(node).as_deref() == Some(word)) {
        return Some(action);
    }
    if !node.starts_with('{') {
        let expected = "\"permit\", \"deny\", \"match\" or {\"mark\": 7}";
        return doc.fault(node, format_args!("{} is no action", shown(node)), expected);
    }
    let mut object = doc.object(node, "action")?;
    let mark = object.need(doc, "mark");
    object.finish(doc);
    let mark = mark.and_then(|node| read_up_to(doc, node, "mark", u32::MAX.into()))?;
    Some(Action::Mark(mark as u32))
}

fn read_conditions<'t>(doc: &mut Doc<'t>, node: Node<'t>, schemas: &[Schema]) -> Option<Vec<Condition>> {
    let nodes = doc.list(node, "list of conditions")?;
    let mut out: Vec<Condition> = Vec::with_capacity(nodes.len().min(schemas[0].fields().len()));
    for node in nodes {
        let Some((condition, name)) = read_condition(doc, node, schemas) else { continue };
        if out.iter().any(|earlier| earlier.field == condition.field) {
            let what = format!("there is already a condition on {}", shown(name));
            let _: Option<()> = doc.fault(name, what, "one condition a field, with several tests");
        } else {
            out.push(condition);
        }
    }
    Some(out)
}

/// Returns a condition, and the node of its field's name.
fn read_condition<'t>(doc: &mut Doc<'t>, node: Node<'t>, schemas: &[Schema]) -> Option<(Condition, Node<'t>)> {
    let mut object = doc.object(node, "condition")?;
    let name = object.need(doc, "field");
    let negated = object.take("not");
    let tests = object.need(doc, "tests");
    object.finish(doc);
    let negated = negated.map_or(Some(false), |node| doc.boolean(node, "statement"));
    let name = name?;
    let field = string(name).and_then(|name| schemas[0].index_of(&name));
    let Some(field) = field else {
        let names: Vec<_> = schemas[0].fields().iter().map(Field::name).collect();
        let expected = if names.len() > 20 { String::new() } else { format!("one of {}", names.join(", ")) };
        return doc.fault(name, format_args!("there is no field {}", shown(name)), expected);
    };
    let tests = tests?;
    let nodes = doc.list(tests, "list of tests")?;
    if nodes.is_empty() {
        return doc.fault(tests, "a condition without tests holds for nothing", "a test");
    }
    let read: Vec<_> = nodes.iter().filter_map(|&node| read_test(doc, node, schemas, field)).collect();
    let complete = read.len() == nodes.len();
    complete.then_some((Condition { field, negated: negated?, tests: read }, name))
}

const FORMS: &str = "{\"value\"}, {\"value\", \"length\"}, {\"value\", \"mask\"}, {\"lo\", \"hi\"}, {\"any\": true} or {\"absent\": true}";

fn read_test<'t>(
    doc: &mut Doc<'t>,
    node: Node<'t>,
    schemas: &[Schema],
    field: usize,
) -> Option<(Option<Family>, Test)> {
    let mut object = doc.object(node, "test")?;
    let given = object.take("family");
    let family = given.map(|node| doc.choice(node, "family", &FAMILIES));
    let values = read_values(doc, &mut object, &schemas[0].fields()[field]);
    object.finish(doc);
    let family = family.map_or(Some(None), |family| family.map(Some))?;
    let (test, of) = values?;
    let (at, addresses) = (given.unwrap_or(node), of.0);
    // In a set of two families an address shows its own family; a set of one family has nothing to show.
    let family = match (family, addresses) {
        (Some(family), Some(address)) if family != address => {
            return doc.fault(at, format_args!("an {address} address in a test for {family}"), "");
        }
        (None, Some(address)) if schemas.len() > 1 => Some(address),
        (family, _) => family,
    };
    let mut fits = schemas.iter().filter(|schema| family.is_none() || schema.family() == family).peekable();
    if fits.peek().is_none() {
        return doc.fault(at, format_args!("there is no schema of family {}", family.map_or("", Family::name)), "");
    }
    for schema in fits {
        let here = &schema.fields()[field];
        if let Some(address) = addresses.filter(|address| address.address_bits() != here.width()) {
            return doc.fault(
                of.1,
                format_args!("an {address} address for {} of {} bits", here.name(), here.width()),
                "",
            );
        }
        if let Some(what) = misfit(test, here) {
            return doc.fault(of.1, format_args!("{what} ({} has {} bits)", here.name(), here.width()), "");
        }
    }
    Some((family, test))
}

/// Family of the addresses of a test, if it has any, and the node of its last value.
type Of<'t> = (Option<Family>, Node<'t>);

fn read_values<'t>(doc: &mut Doc<'t>, object: &mut Object<'t>, field: &Field) -> Option<(Test, Of<'t>)> {
    let whole = object.node();
    object.knows(&["any", "absent", "value", "length", "mask", "lo", "hi", "family"]);
    for (name, test) in [("any", Test::Prefix { value: 0, len: 0 }), ("absent", Test::Absent)] {
        if object.has(name) {
            let node = object.take(name)?;
            if node != "true" {
                return doc.fault(node, format_args!("{} after \"{name}\"", shown(node)), "true");
            }
            return Some((test, (None, whole)));
        }
    }
    let has = ["value", "length", "mask", "lo", "hi"].map(|name| object.has(name));
    let (first, second) = match has {
        [true, false, false, false, false] => ("value", None),
        [true, true, false, false, false] => ("value", Some("length")),
        [true, false, true, false, false] => ("value", Some("mask")),
        [false, false, false, true, true] => ("lo", Some("hi")),
        _ => {
            for name in ["value", "length", "mask", "lo", "hi"] {
                let _: Option<Node<'_>> = object.take(name);
            }
            return doc.fault(whole, "a test of no known form", FORMS);
        }
    };
    let first_node = object.take(first)?;
    let second_node = second.and_then(|name| object.take(name));
    let one = value::read(doc, first_node, field);
    if second == Some("length") {
        let width = match one {
            Some(Given::Address(family, _)) => family.address_bits(),
            // The width is that of the wider family; the length is checked later.
            _ => 128.min(if value::is_address(field) { 128 } else { field.width() }),
        };
        let at = second_node?;
        let len = read_up_to(doc, at, "prefix length", width.into())?;
        let one = one?;
        return Some((Test::Prefix { value: one.bits(), len: len as u32 }, (one.family(), first_node)));
    }
    let Some(at) = second_node else { return Some((Test::Value(one?.bits()), (one?.family(), first_node))) };
    let two = value::read(doc, at, field);
    let (one, two) = (one?, two?);
    if one.family() != two.family() {
        return doc.fault(at, format_args!("{} and {} are not of one kind", shown(first_node), shown(at)), "");
    }
    let test = if second == Some("mask") {
        Test::Mask { value: one.bits(), mask: two.bits() }
    } else {
        Test::Range { lo: one.bits(), hi: two.bits() }
    };
    Some((test, (one.family(), at)))
}

/// Returns the reason why a field does not take a test, if it does not.
fn misfit(test: Test, field: &Field) -> Option<&'static str> {
    let max = field.max();
    match test {
        Test::Value(value) if value > max => Some("the value is too large"),
        Test::Prefix { len, .. } if len > field.width() => Some("the prefix is too long"),
        Test::Prefix { value, .. } if value > max => Some("the value is too large"),
        Test::Prefix { value, len } if value & max.checked_shr(len).unwrap_or(0) != 0 => {
            Some("the value has bits outside its prefix")
        }
        Test::Range { hi, .. } if hi > max => Some("the largest value is too large"),
        Test::Range { lo, hi } if lo > hi => Some("the range is reversed"),
        Test::Absent if !field.is_optional() => Some("the field is never absent"),
        Test::Mask { mask, .. } if mask > max => Some("the mask is too large"),
        Test::Mask { value, mask } if value & !mask != 0 => Some("the value has bits outside its mask"),
        _ => None,
    }
}
