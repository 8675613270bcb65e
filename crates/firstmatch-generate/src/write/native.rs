//! The native format.

use std::io::Write;

use firstmatch::RuleSet;
use firstmatch::rule::{Action, Condition, Rule, Test};
use firstmatch::schema::{Family, Field, Schema};

use super::{address, condition, interval};
use crate::error::WriteError;

const FORMAT: &str = "native rules";

/// The fields the format knows.
const FIELDS: [&str; 9] = ["src", "dst", "proto", "sport", "dport", "icmp_type", "icmp_code", "tcp_flags", "vlan_vid"];

/// Writes a set in the native format: `family ipv4` or `family ipv6` in the first line where it has one family, then
/// one rule a line.
///
/// The format states an action for every rule and knows nine fields. A test that is for one family of a dual-stack
/// set must be one of an address. A rule confined to a family without an address to say so gets the family's
/// all-holding prefix.
///
/// # Errors
/// When the writer fails, or a rule has what the format cannot hold; what was written by then stays.
pub fn native<W: Write>(set: &RuleSet, mut out: W) -> Result<(), WriteError> {
    let fail = |what: String| Err(WriteError::unsupported(0, FORMAT, what));
    let schema = &set.schemas()[0];
    if let Some(field) = schema.fields().iter().find(|field| !FIELDS.contains(&field.name())) {
        return fail(format!("there is no field {}", field.name()));
    }
    let only = match set.schemas() {
        [single] => match single.family() {
            Some(family) => Some(family),
            None => return fail("its rules are for IPv4, IPv6 or both, the set has no family".into()),
        },
        _ => None,
    };
    if let Some(family) = only {
        writeln!(out, "family {family}")?;
    }
    let mut line = String::new();
    for (place, rule) in set.iter().enumerate() {
        line.clear();
        Line { schema, only, text: &mut line }
            .rule(rule)
            .map_err(|what| WriteError::unsupported(place, FORMAT, what))?;
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// The line of one rule; errors say what the format cannot hold.
struct Line<'s> {
    schema: &'s Schema,
    only: Option<Family>,
    text: &'s mut String,
}

impl Line<'_> {
    fn rule(&mut self, rule: &Rule) -> Result<(), String> {
        match rule.action {
            Action::Match => return Err("every rule states an action, this one states none".into()),
            action => self.add(format_args!("{action}")),
        }
        if let Some(family) = rule.family.filter(|_| self.only.is_none()) {
            self.confine(rule, family)?;
        }
        rule.conditions.iter().try_for_each(|condition| self.condition(condition))
    }

    /// Says that a rule of a dual-stack set is for one family alone.
    fn confine(&mut self, rule: &Rule, family: Family) -> Result<(), String> {
        let addresses = ["src", "dst"].map(|name| (name, self.schema.index_of(name)));
        let says_so = |condition: &Condition| condition.tests.iter().all(|(of, _)| *of == Some(family));
        let mut free = None;
        for (name, index) in addresses {
            match index.and_then(|index| condition(rule, index)) {
                Some(condition) if says_so(condition) => return Ok(()),
                Some(_) => {}
                None => free = index.map(|_| name).or(free),
            }
        }
        let Some(name) = free else { return Err(format!("its addresses do not say that it is for {family} alone")) };
        self.add(format_args!(" {name} {}/0", address(family, 0)));
        Ok(())
    }

    fn condition(&mut self, condition: &Condition) -> Result<(), String> {
        let field = &self.schema.fields()[condition.field];
        self.add(format_args!(" {}", field.name()));
        if condition.negated {
            self.text.push_str(" not");
        }
        match condition.tests[..] {
            [(None, Test::Prefix { len: 0, .. })] => self.text.push_str(" any"),
            [(of, test)] => {
                self.text.push(' ');
                self.item(field, of, test)?;
            }
            ref tests => {
                self.text.push_str(" { ");
                for (at, &(of, test)) in tests.iter().enumerate() {
                    self.text.push_str(if at == 0 { "" } else { ", " });
                    self.item(field, of, test)?;
                }
                self.text.push_str(" }");
            }
        }
        Ok(())
    }

    fn item(&mut self, field: &Field, of: Option<Family>, test: Test) -> Result<(), String> {
        let is_address = matches!(field.name(), "src" | "dst");
        match (is_address, of.or(self.only)) {
            (true, Some(family)) => self.address_item(family, test),
            (true, None) => {
                return Err(format!("an address of {} is of one family, {test:?} is of both", field.name()));
            }
            (false, _) if of.is_some() && self.only.is_none() => {
                return Err(format!("a test of {} is for both families, {test:?} for one", field.name()));
            }
            (false, _) => self.number_item(field, test),
        }
        Ok(())
    }

    fn address_item(&mut self, family: Family, test: Test) {
        let at = |bits| address(family, bits);
        match test {
            Test::Value(value) => self.add(format_args!("{}", at(value))),
            Test::Prefix { value, len } => self.add(format_args!("{}/{len}", at(value))),
            Test::Range { lo, hi } => self.add(format_args!("{}-{}", at(lo), at(hi))),
            Test::Mask { value, mask } => self.add(format_args!("{}/{}", at(value), at(mask))),
        }
    }

    fn number_item(&mut self, field: &Field, test: Test) {
        match (test, interval(test, field)) {
            (Test::Mask { value, mask }, _) => self.add(format_args!("{value:#x}/{mask:#x}")),
            (_, Some((lo, hi))) if lo == hi => self.add(format_args!("{lo}")),
            (_, Some((lo, hi))) => self.add(format_args!("{lo}-{hi}")),
            // Only masks are no intervals.
            (_, None) => {}
        }
    }

    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        // A string never refuses.
        let _: std::fmt::Result = std::fmt::Write::write_fmt(self.text, text);
    }
}
