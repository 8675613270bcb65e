//! Writer of access lists of Cisco IOS, one for each family.
//!
//! # Later fragments
//!
//! Routers let a later fragment through where an entry permits packets by ports, types or flags. A rule here never
//! matches it, because it lacks these. So a list is written in one of two forms:
//!
//! - As it is, if every such rule is followed by a permit for the later fragments of its addresses and protocol, which
//!   the entry then stands for. Lists that were read from a router are so.
//! - Otherwise in two parts. The first has `fragments` in each entry and decides all later fragments, so that the
//!   second, which decides all other packets, never sees one.
//!
//! For example, `permit tcp dport 80` before `deny` becomes `deny ip any any fragments`, `permit tcp any any eq 80` and
//! `deny ip any any`.

mod conditions;
mod shapes;

use std::fmt::Write;

use firstmatch_core::policy::{Fragments, Policy, Verdict};
use firstmatch_core::rule::{Action, Rule, RuleSet};
use firstmatch_core::schema::{Family, Schema, Source};

use super::{Sink, Unwritable, WriteError};
use crate::RuleFile;
use shapes::{Part, Shape, part};

/// Largest number of entries that one rule may become.
const MAX_ENTRIES: usize = 1024;
/// Largest number of characters of a remark.
const MAX_REMARK: usize = 100;

/// Fields that later fragments lack in IPv4.
const BEHIND: [Source; 5] = [Source::SrcPort, Source::DstPort, Source::IcmpType, Source::IcmpCode, Source::TcpFlags];

/// Writes a rule file as access lists.
pub(super) fn file(file: &RuleFile, out: &mut dyn Write) -> Result<(), WriteError> {
    let mut sink = Sink::new(out);
    let (all, _) = file.all_rules();
    for rule in all.iter().filter(|rule| file.is_audit(rule)) {
        sink.fault(Unwritable::new("an audit rule, for which access lists have no place").by(rule));
    }
    check_set(&file.rules, &file.policy, &mut sink);
    if sink.faults.is_empty() {
        for schema in file.rules.schemas() {
            list(file, schema, &mut sink);
        }
        sink.faults.sort_by_key(|fault| fault.line);
    }
    sink.finish()
}

fn check_set(rules: &RuleSet, policy: &Policy, sink: &mut Sink<'_>) {
    for (name, verdict) in [("default", policy.default), ("unknown", policy.unknown)] {
        let is_held = verdict == Verdict::Deny || name == "default" && verdict == Verdict::Permit;
        if !is_held {
            sink.fault(Unwritable::new(format!("`{name} {verdict}`, which access lists cannot say")));
        }
    }
    if let Some((_, set)) = rules.live_sets().iter().next() {
        sink.fault(Unwritable::new(format!("access lists have no live sets: `{}` cannot be written", set.name())));
    }
    let is_inet = |schema: &Schema| schema.family().is_some() && schema.index_of_source(Source::Src).is_some();
    if !rules.schemas().iter().all(is_inet) {
        sink.fault(Unwritable::new("the fields are not those of IP networks"));
    }
}

/// Rule for the packets of one family.
struct Held<'r> {
    rule: &'r Rule,
    label: Option<&'r str>,
    part: Part,
}

impl Held<'_> {
    fn permits(&self) -> bool {
        self.rule.action == Action::Permit
    }

    /// Whether the entries of the rule take exactly its packets, so that they need no other form.
    fn is_plain(&self) -> bool {
        let Part { header, later, whole } = &self.part;
        match later {
            // Entries without a condition behind the header take later fragments, too.
            Some(later) if !whole.is_empty() => {
                whole.iter().all(|shape| !shape.is_behind()) && whole.iter().map(|shape| &shape.protocol).eq(later)
            }
            Some(_) => true,
            None => header.is_empty() || !self.permits() && whole.iter().all(Shape::is_behind),
        }
    }

    /// Whether the rule permits later fragments of a protocol, and of the addresses of `of`.
    fn permits_later(&self, of: &Self, protocol: &Option<u8>) -> bool {
        let is_same = |later: &Vec<Option<u8>>| later.contains(protocol) || later.contains(&None);
        self.permits() && self.part.header == of.part.header && self.part.later.as_ref().is_some_and(is_same)
    }
}

/// Writes the list of one family.
fn list(file: &RuleFile, schema: &Schema, sink: &mut Sink<'_>) {
    let Some(family) = schema.family() else { return };
    let mut rules = Vec::new();
    for rule in file.rules.iter() {
        if rule.family.is_some_and(|of| of != family) {
            continue;
        }
        match part(rule, schema, family) {
            Ok(Some(part)) => {
                let label = file.labels.get(&rule.id).map(|label| &**label);
                rules.push(Held { rule, label, part });
            }
            // No packet of the family matches.
            Ok(None) => {}
            Err(fault) => {
                // The list of the other family may have the same fault.
                let fault = fault.by(rule);
                if !sink.faults.contains(&fault) {
                    sink.fault(fault);
                }
            }
        }
    }
    if !sink.faults.is_empty() {
        return;
    }
    let is_v6 = family == Family::Ipv6;
    let (heading, all) =
        if is_v6 { ("ipv6 access-list RULES-IPV6", "ipv6") } else { ("ip access-list extended RULES-IPV4", "ip") };
    let mut list = Writer { family, text: format!("{heading}\n"), label: None };
    let tested = file.rules.tested_fields(schema);
    let tests = |source: &Source| schema.index_of_source(*source).is_some_and(|field| tested[field]);
    let hides =
        BEHIND.iter().any(tests) || is_v6 && [Source::Proto, Source::ExtHeaders, Source::RoutingType].iter().any(tests);
    let default = if file.policy.default == Verdict::Permit { "permit" } else { "deny" };
    if file.policy.fragments == Fragments::Unknown && hides {
        put(&mut list.text, format_args!(" deny {all} any any fragments\n"));
        rules.iter().for_each(|held| list.whole(held));
    } else if let Some(implied) = implied(&rules) {
        for (held, _) in rules.iter().zip(implied).filter(|(_, is_implied)| !is_implied) {
            if held.part.whole.is_empty() { list.later(held) } else { list.whole(held) }
        }
    } else {
        rules.iter().for_each(|held| list.later(held));
        put(&mut list.text, format_args!(" {default} {all} any any fragments\n"));
        rules.iter().for_each(|held| list.whole(held));
    }
    put(&mut list.text, format_args!(" {default} {all} any any\n!\n"));
    sink.text(&list.text);
}

/// Returns for each rule whether entries of those before it stand for it, as routers treat later fragments; `None` if
/// the list needs two parts.
fn implied(rules: &[Held<'_>]) -> Option<Vec<bool>> {
    let mut implied = vec![false; rules.len()];
    for (at, held) in rules.iter().enumerate().filter(|(_, held)| !held.is_plain()) {
        let is_by_ports = held.permits() && held.part.later.is_none() && held.part.whole.iter().all(Shape::is_behind);
        let next = || (at + 1..rules.len()).take_while(|&next| rules[next].permits());
        for shape in &held.part.whole {
            let cover =
                next().find(|&next| rules[next].permits_later(held, &shape.protocol)).filter(|_| is_by_ports)?;
            let Part { later, whole, .. } = &rules[cover].part;
            let is_same = later.as_ref().is_some_and(|later| later[..] == [shape.protocol]);
            implied[cover] |= is_same && whole.is_empty();
        }
    }
    Some(implied)
}

/// Writer of the entries of a list.
struct Writer<'r> {
    family: Family,
    text: String,
    /// Label that stands in front.
    label: Option<&'r str>,
}

impl<'r> Writer<'r> {
    /// Writes the entries of a rule for packets that are no later fragments.
    fn whole(&mut self, held: &Held<'r>) {
        self.remark(held, !held.part.whole.is_empty());
        let action = held.rule.action;
        for shape in &held.part.whole {
            shape.entries(&held.part.header, self.family, |entry| {
                put(&mut self.text, format_args!(" {action} {entry}\n"));
            });
        }
    }

    /// Writes the entries of a rule for later fragments.
    fn later(&mut self, held: &Held<'r>) {
        self.remark(held, held.part.later.is_some());
        let action = held.rule.action;
        for protocol in held.part.later.iter().flatten() {
            let shape = Shape::of(*protocol);
            let put = |entry: &str| put(&mut self.text, format_args!(" {action} {entry} fragments\n"));
            shape.entries(&held.part.header, self.family, put);
        }
    }

    /// Writes the label of a rule, unless it stands in front already.
    fn remark(&mut self, held: &Held<'r>, has_entries: bool) {
        if !has_entries || self.label == held.label {
            return;
        }
        self.label = held.label;
        let mut line = String::new();
        for word in held.label.unwrap_or_default().split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > MAX_REMARK {
                put(&mut self.text, format_args!(" remark {line}\n"));
                line.clear();
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
        if !line.is_empty() {
            put(&mut self.text, format_args!(" remark {line}\n"));
        }
    }
}

/// Writes to a `String`, which does not fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
