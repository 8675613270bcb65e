//! ClassBench writer: one rule per line, with columns separated by tabs.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Sink, Unwritable, WriteError, as_prefix, as_range};
use crate::RuleFile;
use firstmatch_core::policy::Policy;
use firstmatch_core::rule::{Action, ConditionRef, Rule, RuleSet, Test};
use firstmatch_core::schema::{Family, Field, Kind, Schema};

const FIELDS: usize = 5;

/// Writes rules as a [ClassBench](crate::classbench) filter set.
///
/// A line is `@10.0.0.0/8 <tab> 192.0.2.0/24 <tab> 0 : 65535 <tab> 80 : 80 <tab> 0x06/0xFF`, and `<tab> 0x0000/0x0200`
/// for the flags if the schema has a field `flags`.
///
/// The format has one family per file, no policy, and no action but [`Action::Match`]. Each field has one prefix
/// (addresses), range (ports) or value under a mask (protocol, flags). Tests of another form are written if they pass
/// the same values. A rule that requires ports of any number cannot be written, because `0 : 65535` is no condition.
///
/// # Errors
/// If the format cannot hold the rules or the policy, or `out` fails.
pub fn classbench(rules: &RuleSet, policy: &Policy, out: &mut dyn Write) -> Result<(), WriteError> {
    all(rules, policy, |_| None, out)
}

/// Writes a rule file as [`classbench`] does; a rule with a label and an audit rule are faults.
pub(super) fn file(file: &RuleFile, out: &mut dyn Write) -> Result<(), WriteError> {
    let (rules, labels) = file.all_rules();
    let fault = |rule: &Rule| match labels.get(&rule.id) {
        _ if file.is_audit(rule) => Some("an audit rule".to_owned()),
        label => label.map(|label| format!("the label \"{label}\"")),
    };
    all(rules, &file.policy, fault, out)
}

fn all(
    rules: &RuleSet,
    policy: &Policy,
    fault: impl Fn(&Rule) -> Option<String>,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let mut sink = Sink::new(out);
    let family = check_set(rules, policy, &mut sink);
    if let Some(family) = family {
        sink.rules(rules, |rule, text| match fault(rule) {
            Some(what) => Err(Unwritable::new(format!("{what}, for which ClassBench has no place"))),
            None => write_rule(&rules.schemas()[0], family, rule, text),
        });
    }
    sink.finish()
}

/// Returns the family of the set, if its schema can be written.
fn check_set(rules: &RuleSet, policy: &Policy, sink: &mut Sink<'_>) -> Option<Family> {
    let closed = Policy::default();
    if *policy != closed {
        let mut opened = Vec::new();
        for (name, verdict, default) in
            [("default", policy.default, closed.default), ("unknown", policy.unknown, closed.unknown)]
        {
            opened.extend((verdict != default).then(|| format!("`{name} {verdict}`")));
        }
        if policy.fragments != closed.fragments {
            opened.push(format!("`fragments {}`", super::fragments_name(policy.fragments)));
        }
        sink.fault(Unwritable::new(format!("ClassBench has no policy: {} cannot be written", opened.join(", "))));
    }
    if let Some((_, set)) = rules.live_sets().iter().next() {
        sink.fault(Unwritable::new(format!("ClassBench has no live sets: `{}` cannot be written", set.name())));
    }
    if rules.is_empty() {
        sink.fault(Unwritable::new("there are no rules: a ClassBench file without any says nothing"));
    }
    let [schema] = rules.schemas() else {
        let what = "the rules are for IPv4 and IPv6; a ClassBench file is for one family, which `family ipv4` or \
                    `family ipv6` would say";
        sink.fault(Unwritable::new(what));
        return None;
    };
    let Some(family) = schema.family() else {
        sink.fault(Unwritable::new("the schema is of no address family"));
        return None;
    };
    let mut wanted = Schema::five_tuple(family, &[]).fields().to_vec();
    wanted.push(Field::new("flags", 16, Kind::Mask, None));
    let mut good = true;
    for (index, field) in schema.fields().iter().enumerate() {
        if wanted.get(index) == Some(field) {
            continue;
        }
        good = false;
        // The fault of a field beyond the 5-tuple names a rule with a condition on it.
        let by = rules.iter().find(|rule| rule.conditions.on(index).is_some());
        let fault = Unwritable::new("ClassBench has no such field").of(field.name());
        sink.fault(by.map_or(fault.clone(), |rule| fault.by(rule)));
    }
    if schema.fields().len() < FIELDS {
        good = false;
        let fault = Unwritable::new("the schema lacks this field, which ClassBench always has");
        sink.fault(fault.of(wanted[schema.fields().len()].name()));
    }
    good.then_some(family)
}

fn write_rule(schema: &Schema, family: Family, rule: &Rule, out: &mut String) -> Result<(), Unwritable> {
    if rule.action != Action::Match {
        let what = format!("the action `{}`: ClassBench rules have none, which is `match`", rule.action);
        return Err(Unwritable::new(what));
    }
    out.push('@');
    for (index, field) in schema.fields().iter().enumerate() {
        if index > 0 {
            out.push('\t');
        }
        let test = test_of(rule, index).map_err(|what| Unwritable::new(what).of(field.name()))?;
        let column = match field.kind() {
            Kind::Prefix => prefix(test, family),
            Kind::Range => ports(test),
            Kind::Exact | Kind::Mask => masked(test, field),
        };
        out.push_str(&column.map_err(|what| Unwritable::new(what).of(field.name()))?);
    }
    Ok(())
}

/// Returns the one test of the rule on a field; `None` if there is no condition.
fn test_of(rule: &Rule, field: usize) -> Result<Option<Test>, String> {
    let Some(condition) = rule.conditions.on(field).map(ConditionRef::unpack) else { return Ok(None) };
    if condition.negated {
        return Err("`not`: ClassBench has no negation".into());
    }
    match condition.tests[..] {
        [(_, Test::Absent)] => Err("`absent`: ClassBench has no packets without a field".into()),
        [(_, Test::Set(_))] => Err("a live set: ClassBench has none".into()),
        // The set has one family, so that a test for it is a test for all packets.
        [(_, test)] => Ok(Some(test)),
        _ => Err(format!("a list of {} values: ClassBench holds one prefix, range or mask", condition.tests.len())),
    }
}

/// Writes a prefix. Without a condition its length is 0, because every packet has addresses.
fn prefix(test: Option<Test>, family: Family) -> Result<String, String> {
    let width = family.address_bits();
    let test = test.unwrap_or(Test::Prefix { value: 0, len: 0 });
    let Some((value, len)) = as_prefix(test, width) else {
        return Err(match test {
            Test::Mask { .. } => "a mask that is none of a prefix".into(),
            _ => "a range of addresses that is no prefix".into(),
        });
    };
    Ok(match family {
        Family::Ipv4 => format!("{}/{len}", Ipv4Addr::from(value as u32)),
        Family::Ipv6 => format!("{}/{len}", Ipv6Addr::from(value)),
    })
}

fn ports(test: Option<Test>) -> Result<String, String> {
    let Some(test) = test else { return Ok("0 : 65535".into()) };
    match as_range(test, 16) {
        Some((0, 0xFFFF)) => {
            Err("every port, but a packet must have one: in ClassBench `0 : 65535` holds for packets without ports too"
                .into())
        }
        Some((lo, hi)) => Ok(format!("{lo} : {hi}")),
        None => Err("a mask that is no range".into()),
    }
}

/// Writes protocol or flags.
///
/// Without a condition the mask is 0, because every packet has them.
fn masked(test: Option<Test>, field: &Field) -> Result<String, String> {
    let (max, digits) = (field.max(), field.width() as usize / 4);
    let (value, mask) = match test {
        None => (0, 0),
        Some(Test::Mask { value, mask }) => (value, mask),
        Some(test) => {
            let (value, len) = as_prefix(test, field.width()).ok_or("a range that is no value under a mask")?;
            (value, max & !max.checked_shr(len).unwrap_or(0))
        }
    };
    Ok(format!("0x{value:0digits$X}/0x{mask:0digits$X}"))
}
