//! The native format, written: directives, then a rule a line.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Sink, Unwritable, WriteError, as_range, fragments_name};
use crate::format::native::{icmp_type_numbers, protocol_name};
use crate::policy::{Policy, Verdict};
use crate::rule::{Action, Condition, Rule, RuleSet, Test};
use crate::schema::{Family, Field, Kind, Schema, Source};

/// The fields that a schema has only if some rule uses them, in its order.
const EXTRA: [Source; 4] = [Source::IcmpType, Source::IcmpCode, Source::TcpFlags, Source::VlanVid];

/// Writes rules and policy in the [native format](crate::format::native).
///
/// Read back, the rules are equal but for priorities, ids and lines, which follow from the new lines; a set that was
/// itself read from a native file has tests and conditions equal to the letter. Tests that the format knows under
/// another form only are written in that form: prefixes of numbers as ranges, tests of addresses without a family as
/// one of each family.
///
/// # Errors
/// When the format cannot hold the schema or the policy, or `out` fails.
pub fn native(rules: &RuleSet, policy: &Policy, out: &mut dyn Write) -> Result<(), WriteError> {
    let mut sink = Sink::new(out);
    let writer = Writer { rules };
    writer.check_schema(&mut sink);
    let family = match rules.schemas() {
        [one] => one.family().map_or("inet", Family::name),
        _ => "inet",
    };
    sink.text(&format!("family {family}\n"));
    for (name, verdict) in [("default", policy.default), ("unknown", policy.unknown)] {
        if !matches!(verdict, Verdict::Permit | Verdict::Deny) {
            sink.fault(Unwritable::new(format!("`{name} {verdict}` cannot be written: only permit and deny can")));
        }
        sink.text(&format!("{name} {verdict}\n"));
    }
    sink.text(&format!("fragments {}\n", fragments_name(policy.fragments)));
    if !rules.is_empty() {
        sink.text("\n");
    }
    // With a schema that it does not know, faults of rules would only repeat what is said of the schema.
    if sink.faults.is_empty() {
        sink.rules(rules, |rule, text| writer.rule(rule, text));
    }
    sink.finish()
}

/// A rule of a set as a line of the [native format](crate::format::native), without the line's end.
///
/// # Errors
/// When the format does not know a field of the rule.
pub fn native_rule(rules: &RuleSet, rule: &Rule) -> Result<String, Unwritable> {
    let mut text = String::new();
    Writer { rules }.rule(rule, &mut text).map_err(|fault| fault.by(rule))?;
    Ok(text)
}

struct Writer<'s> {
    rules: &'s RuleSet,
}

/// Writing to a `String` does not fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{ let _ = write!($out, $($arg)*); }};
}

impl Writer<'_> {
    /// Whether a reader of the rules would come to the same schemas.
    fn check_schema(&self, sink: &mut Sink<'_>) {
        for schema in self.rules.schemas() {
            let Some(family) = schema.family() else {
                let what = "the schema is of no address family: the native format is over IPv4, IPv6 or both";
                return sink.fault(Unwritable::new(what));
            };
            let fields = schema.fields();
            let mut wanted: Vec<Source> =
                vec![Source::Src, Source::Dst, Source::SrcPort, Source::DstPort, Source::Proto];
            wanted.extend(EXTRA.iter().filter(|source| schema.index_of_source(**source).is_some()));
            for (index, field) in fields.iter().enumerate() {
                let Some(expected) = wanted.get(index).map(|&source| Field::from_source(source, family)) else {
                    let what = "the native format has no such field";
                    return sink.fault(Unwritable::new(what).of(field.name()));
                };
                if *field != expected {
                    let what = format!(
                        "field {} of the schema is `{}` of {} bits in the native format",
                        index + 1,
                        expected.name(),
                        expected.width()
                    );
                    return sink.fault(Unwritable::new(what).of(field.name()));
                }
            }
            if fields.len() < wanted.len() {
                let name = Field::from_source(wanted[fields.len()], family).name().to_owned();
                let what = "the schema lacks this field, which the native format always has";
                return sink.fault(Unwritable::new(what).of(&name));
            }
            if *schema != Schema::five_tuple(family, &wanted[5..]) {
                return sink.fault(Unwritable::new("the schema's lanes are narrower than 32 bits"));
            }
        }
        // A field the schema has makes packets unknown that hide it: one that no rule names would be lost.
        let mut used = [false; 5 + EXTRA.len()];
        self.rules.iter().flat_map(|rule| &rule.conditions).for_each(|c| used[c.field] = true);
        for (index, field) in self.rules.schemas()[0].fields().iter().enumerate().skip(5) {
            if !used[index] {
                let what = "the schema has this field but no rule a condition on it: the native format has only fields that rules use";
                sink.fault(Unwritable::new(what).of(field.name()));
            }
        }
    }

    fn rule(&self, rule: &Rule, out: &mut String) -> Result<(), Unwritable> {
        match rule.action {
            Action::Mark(number) => put!(out, "mark {number}"),
            action => put!(out, "{action}"),
        }
        if let Some(family) = rule.family {
            put!(out, " family {family}");
        }
        for condition in &rule.conditions {
            self.condition(condition, out)?;
        }
        Ok(())
    }

    fn condition(&self, condition: &Condition, out: &mut String) -> Result<(), Unwritable> {
        let field = &self.rules.schemas()[0].fields()[condition.field];
        let known = field.source().filter(|&source| {
            self.rules.schemas().iter().all(|schema| {
                let here = &schema.fields()[condition.field];
                schema.family().is_some_and(|family| *here == Field::from_source(source, family))
            })
        });
        let Some(source) = known else {
            return Err(Unwritable::new("the native format has no such field").of(field.name()));
        };
        out.push(' ');
        if let (Source::Proto, false, [(None, Test::Value(number))]) = (source, condition.negated, &condition.tests[..])
            && let Some(name) = protocol(*number)
            // `permit ipv6` would look like a rule for all of IPv6.
            && name != Family::Ipv6.name()
        {
            out.push_str(name);
            return Ok(());
        }
        let not = if condition.negated { " not" } else { "" };
        put!(out, "{}{not} ", field.name());
        if let [(None, Test::Prefix { len: 0, .. })] = condition.tests[..] {
            out.push_str("any");
            return Ok(());
        }
        let items = self.items(condition, field, source);
        match &items[..] {
            [one] => out.push_str(one),
            _ => put!(out, "{{ {} }}", items.join(", ")),
        }
        Ok(())
    }

    /// The tests of a condition as items, in order.
    fn items(&self, condition: &Condition, field: &Field, source: Source) -> Vec<String> {
        let families: Vec<Family> = self.rules.schemas().iter().filter_map(Schema::family).collect();
        let is_address = matches!(source, Source::Src | Source::Dst);
        let mut items = Vec::with_capacity(condition.tests.len());
        let mut rest = &condition.tests[..];
        while let Some((&(family, test), after)) = rest.split_first() {
            if source == Source::IcmpType
                && let Some((name, count)) = icmp_name(rest, &families)
            {
                items.push(name.to_owned());
                rest = &rest[count..];
                continue;
            }
            rest = after;
            match family {
                Some(family) if is_address => items.push(address(test, family)),
                None if is_address => items.extend(families.iter().map(|&family| address(test, family))),
                None => items.push(number(test, field, source)),
                // The name of an ICMP type, or of a protocol, is narrowed just as a number is.
                Some(family) => items.push(format!("family {family} {}", number(test, field, source))),
            }
        }
        items
    }
}

/// The name of an ICMP type that reads as exactly the first of these tests, and how many they are.
fn icmp_name(tests: &[(Option<Family>, Test)], families: &[Family]) -> Option<(&'static str, usize)> {
    icmp_type_numbers().find_map(|(name, numbers)| {
        let of = |family: &Family| {
            let number = numbers[usize::from(*family == Family::Ipv6)]?;
            Some((Some(*family), Test::Value(number.into())))
        };
        let wanted: Vec<_> = families.iter().filter_map(of).collect();
        (!wanted.is_empty() && tests.starts_with(&wanted)).then_some((name, wanted.len()))
    })
}

fn protocol(number: u128) -> Option<&'static str> {
    u8::try_from(number).ok().and_then(protocol_name)
}

fn address(test: Test, family: Family) -> String {
    // A set takes no value wider than its field: IPv4 addresses have 32 bits.
    let show = |value: u128| match family {
        Family::Ipv4 => Ipv4Addr::from(value as u32).to_string(),
        Family::Ipv6 => Ipv6Addr::from(value).to_string(),
    };
    match test {
        Test::Value(value) => show(value),
        Test::Prefix { value, len } => format!("{}/{len}", show(value)),
        Test::Range { lo, hi } => format!("{}-{}", show(lo), show(hi)),
        Test::Mask { value, mask } => format!("{}/{}", show(value), show(mask)),
    }
}

fn number(test: Test, field: &Field, source: Source) -> String {
    let show = |value: u128| if field.kind() == Kind::Mask { format!("{value:#04x}") } else { value.to_string() };
    match test {
        Test::Value(value) if source == Source::Proto => protocol(value).map_or_else(|| show(value), str::to_owned),
        Test::Value(value) => show(value),
        Test::Range { lo, hi } => format!("{}-{}", show(lo), show(hi)),
        Test::Mask { value, mask } => format!("{value:#04x}/{mask:#04x}"),
        // Numbers have no prefixes in the native format.
        Test::Prefix { value, len } => match as_range(test, field.width()) {
            Some((lo, hi)) if len < field.width() => number(Test::Range { lo, hi }, field, source),
            _ => number(Test::Value(value), field, source),
        },
    }
}
