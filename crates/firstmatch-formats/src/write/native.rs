//! Native writer: directives, then one rule per line.

use std::fmt::Write;

use super::items::{Look, items, plain, protocol};
use super::{Sink, Unwritable, WriteError, fragments_name};
use crate::native::{ALWAYS, FieldInfo, INET, KINDS, Takes, is_field_name, written_flags};
use crate::{Labels, RuleFile};
use firstmatch_core::policy::{Policy, Verdict};
use firstmatch_core::rule::{Action, Condition, LiveSets, Rule, RuleSet, Test};
use firstmatch_core::schema::{Family, Field, Schema, Source};

/// Writes to a `String`, which does not fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{ let _ = write!($out, $($arg)*); }};
}

/// Writes rules and policy in the [native format](crate::native).
///
/// Read back, the rules are equal except for priorities, ids and lines, which follow from the new lines. If the set
/// itself was read from a native file, tests and conditions are exactly equal. Tests that the format has only in
/// another form are written in that form. For example, most prefixes of numbers become ranges, and a test of addresses
/// without a family becomes one test per family.
///
/// # Errors
/// If the format cannot hold the schema, the policy or a rule, or `out` fails.
pub fn native(rules: &RuleSet, policy: &Policy, out: &mut dyn Write) -> Result<(), WriteError> {
    all(rules, policy, &Labels::new(), |_| false, out)
}

/// Writes a rule file as [`native`] does, with its labels and audit rules.
pub(super) fn file(file: &RuleFile, out: &mut dyn Write) -> Result<(), WriteError> {
    let (rules, labels) = file.all_rules();
    all(rules, &file.policy, labels, |rule| file.is_audit(rule), out)
}

fn all(
    rules: &RuleSet,
    policy: &Policy,
    labels: &Labels,
    is_audit: impl Fn(&Rule) -> bool,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let mut sink = Sink::new(out);
    head(rules, &mut sink);
    for (name, verdict) in [("default", policy.default), ("unknown", policy.unknown)] {
        if !matches!(verdict, Verdict::Permit | Verdict::Deny) {
            sink.fault(Unwritable::new(format!("`{name} {verdict}` cannot be written: only permit and deny can")));
        }
        sink.text(&format!("{name} {verdict}\n"));
    }
    sink.text(&format!("fragments {}\n", fragments_name(policy.fragments)));
    write_live_sets(rules, &mut sink);
    if !rules.is_empty() {
        sink.text("\n");
    }
    // If the schema is unknown, faults of rules would only repeat its fault.
    if sink.faults.is_empty() {
        let fields = looks(rules);
        sink.rules(rules, |rule, text| {
            text.push_str(if is_audit(rule) { "audit " } else { "" });
            write_rule(rules, &fields, rule, text)?;
            if let Some(label) = labels.get(&rule.id) {
                put!(text, " label \"{label}\"");
            }
            Ok(())
        });
    }
    sink.finish()
}

/// Largest number of members of a live set on one line.
const ON_A_LINE: usize = 6;

/// Writes the live sets with the members that they have now.
fn write_live_sets(rules: &RuleSet, sink: &mut Sink<'_>) {
    for (index, (_, set)) in rules.live_sets().iter().enumerate() {
        let name = set.name();
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !is_name {
            sink.fault(Unwritable::new(format!("`{name}` is no name for a set in the native format")));
        }
        let mut text = String::new();
        put!(text, "{}live set {name} = {{", if index == 0 { "\n" } else { "" });
        let (is_long, mut comma) = (set.len() > ON_A_LINE, "");
        for member in set.members() {
            put!(text, "{comma}{}{member}", if is_long { "\n    " } else { " " });
            comma = ",";
        }
        text.push_str(if is_long { "\n}\n" } else { " }\n" });
        sink.text(&text);
    }
}

/// Returns a rule of a set as a line of the [native format](crate::native).
///
/// The line has no end of line.
///
/// # Errors
/// If the format does not know a field of the rule, or one of its tests.
pub fn native_rule(rules: &RuleSet, rule: &Rule) -> Result<String, Unwritable> {
    let mut text = String::new();
    write_rule(rules, &looks(rules), rule, &mut text).map_err(|fault| fault.by(rule))?;
    Ok(text)
}

/// Writes the directive that determines the fields of the rules.
fn head(rules: &RuleSet, sink: &mut Sink<'_>) {
    match rules.schemas() {
        [one] if one.family().is_none() => own_schema(one, sink),
        schemas => {
            check_networks(rules, sink);
            let family = if let [one] = schemas { one.family().map_or("inet", Family::name) } else { "inet" };
            sink.text(&format!("family {family}\n"));
        }
    }
}

fn own_schema(schema: &Schema, sink: &mut Sink<'_>) {
    if *schema == Schema::openflow() {
        return sink.text("schema openflow\n");
    }
    let mut text = String::from("schema {\n");
    let mut address = None;
    for field in schema.fields() {
        let (name, width) = (field.name(), field.width());
        if !is_field_name(name) {
            sink.fault(Unwritable::new("this is no name for a field in the native format").of(name));
        }
        let kind = KINDS.iter().find(|(_, kind)| *kind == field.kind()).map_or("exact", |(name, _)| name);
        put!(text, "    {name} {width} {kind}");
        if let Some(source) = field.source() {
            if [Family::Ipv4, Family::Ipv6].iter().all(|&family| source.width(family) != width) {
                let what = format!("a field from {} of {width} bits", source.name());
                sink.fault(Unwritable::new(what).of(name));
            }
            if matches!(source, Source::Src | Source::Dst) && *address.get_or_insert(width) != width {
                let what = "source and destination addresses of different families";
                sink.fault(Unwritable::new(what).of(name));
            }
            put!(text, " from {}", source.name());
        }
        text.push_str(if field.is_optional() { " optional\n" } else { "\n" });
    }
    if *schema != Schema::new(None, schema.fields().to_vec()) {
        sink.fault(Unwritable::new(NARROW));
    }
    text.push_str("}\n");
    sink.text(&text);
}

const NARROW: &str = "the schema's words are narrower than 32 bits";

/// Checks that a reader of rules for IP networks would build the same schemas.
fn check_networks(rules: &RuleSet, sink: &mut Sink<'_>) {
    for schema in rules.schemas() {
        // A set of two schemas has both families.
        let Some(family) = schema.family() else { return };
        let mut wanted = INET[..ALWAYS].to_vec();
        wanted.extend(INET[ALWAYS..].iter().filter(|source| schema.index_of_source(**source).is_some()));
        for (index, field) in schema.fields().iter().enumerate() {
            let Some(expected) = wanted.get(index).map(|&source| Field::from_source(source, family)) else {
                return sink.fault(Unwritable::new(NO_SUCH_FIELD).of(field.name()));
            };
            if *field != expected {
                let (name, width) = (expected.name(), expected.width());
                let what =
                    format!("field {} of the schema is `{name}` of {width} bits in the native format", index + 1);
                return sink.fault(Unwritable::new(what).of(field.name()));
            }
        }
        if let Some(source) = wanted.get(schema.fields().len()) {
            let what = "the schema lacks this field, which the native format always has";
            return sink.fault(Unwritable::new(what).of(source.name()));
        }
        if *schema != Schema::five_tuple(family, &wanted[ALWAYS..]) {
            return sink.fault(Unwritable::new(NARROW));
        }
    }
    // A reader builds only the fields that rules use, so a field that no rule names would be lost.
    let mut used = [false; INET.len()];
    rules.iter().flat_map(|rule| rule.conditions.iter()).for_each(|c| used[c.field] = true);
    for (index, field) in rules.schemas()[0].fields().iter().enumerate().skip(ALWAYS) {
        if !used[index] {
            let what = "the schema has this field but no rule a condition on it: the native format has only fields \
                        that rules use";
            sink.fault(Unwritable::new(what).of(field.name()));
        }
    }
}

const NO_SUCH_FIELD: &str = "the native format has no such field in rules for IP networks";

/// Returns the form of each field's values; `None` for fields that the format does not know.
fn looks(rules: &RuleSet) -> Vec<Option<Look>> {
    let schemas = rules.schemas();
    let own = schemas.len() == 1 && schemas[0].family().is_none();
    let mut protocols = 0;
    let look = |(index, field): (usize, &Field)| {
        let known = own
            || field.source().is_some_and(|source| INET.contains(&source))
                && schemas.iter().all(|schema| {
                    let here = &schema.fields()[index];
                    let usual = |family, source| *here == Field::from_source(source, family);
                    schema.family().zip(here.source()).is_some_and(|(family, source)| usual(family, source))
                });
        let takes = FieldInfo::of(field, schemas[0].family()).takes;
        protocols += usize::from(takes == Takes::Protocol);
        // The name of a protocol alone stands for the first field of protocols.
        let first_protocol = takes == Takes::Protocol && protocols == 1;
        known.then(|| Look {
            takes,
            own,
            first_protocol,
            families: schemas.iter().filter_map(Schema::family).collect(),
        })
    };
    schemas[0].fields().iter().enumerate().map(look).collect()
}

fn write_rule(rules: &RuleSet, looks: &[Option<Look>], rule: &Rule, out: &mut String) -> Result<(), Unwritable> {
    match rule.action {
        Action::Mark(number) => put!(out, "mark {number}"),
        action => put!(out, "{action}"),
    }
    if let Some(family) = rule.family {
        put!(out, " family {family}");
    }
    let fields = rules.schemas()[0].fields();
    let of_type = rule.conditions.iter().find_map(|condition| {
        looks[condition.field].as_ref()?.icmp_type(&condition.unpack(), &fields[condition.field])
    });
    for condition in rule.conditions.iter() {
        let field = &fields[condition.field];
        let Some(look) = &looks[condition.field] else { return Err(Unwritable::new(NO_SUCH_FIELD).of(field.name())) };
        out.push(' ');
        write_condition(&condition.unpack(), field, look, of_type, rules.live_sets(), out)
            .map_err(|what| Unwritable::new(what).of(field.name()))?;
    }
    Ok(())
}

fn write_condition(
    condition: &Condition,
    field: &Field,
    look: &Look,
    of_type: Option<&str>,
    sets: &LiveSets,
    out: &mut String,
) -> Result<(), String> {
    let one = match condition.tests[..] {
        [(None, test)] if look.first_protocol && !condition.negated => Some(plain(test, field, look)),
        _ => None,
    };
    if let Some(Test::Value(number)) = one
        && let Some(name) = protocol(number)
        // `permit ipv6` would look like a rule for all of IPv6.
        && name != Family::Ipv6.name()
    {
        out.push_str(name);
        return Ok(());
    }
    let not = if condition.negated { " not" } else { "" };
    put!(out, "{}{not} ", field.name());
    // In a set of one family an address is for all packets, with or without a family.
    let is_for_all =
        |of: Option<Family>| of.is_none() || (matches!(look.takes, Takes::Address(_)) && look.families.len() == 1);
    if let [(of, Test::Prefix { len: 0, .. })] = condition.tests[..]
        && is_for_all(of)
    {
        out.push_str("any");
        return Ok(());
    }
    if let (Takes::TcpFlags, [(None, test)]) = (look.takes, &condition.tests[..])
        && let Some(flags) = written_flags(*test)
    {
        out.push_str(&flags);
        return Ok(());
    }
    let items = items(condition, field, look, of_type, sets)?;
    match &items[..] {
        [one] => out.push_str(one),
        _ => put!(out, "{{ {} }}", items.join(", ")),
    }
    Ok(())
}
