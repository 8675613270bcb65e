//! Configurations of Cisco IOS, IOS-XE, IOS-XR, NX-OS and ASA, of which one access list is read.
//!
//! ```text
//! object-group network SERVERS
//!  host 192.0.2.7
//!  192.0.2.128 255.255.255.128
//! ip access-list extended EDGE
//!  remark web servers
//!  10 permit tcp any object-group SERVERS eq 80 443
//!  20 permit tcp any any established
//! ```
//!
//! - [`Import::list`] chooses among several lists. Faults of the others do not count.
//! - Numbers order the entries. One without a number stands behind all before it.
//! - An entry that permits packets by what stands behind the IP header has a second product, for later fragments.

mod address;
mod config;
mod entry;
mod groups;
mod names;
mod ports;
mod reader;
mod top;
mod words;

use std::collections::HashMap;

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;

use super::chains::{Chain, ChainRule, Effect};
use super::options::{Hook, Import};
use super::product::Product;
use super::values::{ICMP_TYPE, PROTO, Values};
use super::view::{Base, View};
use crate::report::{Message, Report, Span, quote};
use config::{Config, List, ListKind};
use entry::{Content, Entry};
use reader::Reader;

/// Signal that a fault is noted and the rest of the line is meaningless.
#[derive(Debug)]
struct Stop;

/// Largest number of pieces of the implicit entries that are looked at.
const MAX_PIECES: usize = 1000;

/// Reads the access list that the options ask for; `None` after a fault.
pub(super) fn read(text: &str, is_nxos: bool, import: &Import, report: &mut Report<'_>) -> Option<(View, Family)> {
    let config = config::read(text, report);
    let list = choose(&config, import, report)?;
    let (Some(kind), Some(family)) = (list.kind, list.kind.and(family(list))) else {
        report.fault(list.heading, || {
            let message = Message::new(format!("the access list {} has no entries", quote(list.name)));
            message.expected("an entry, because routers let everything through an empty list")
        });
        return None;
    };
    if kind == ListKind::AsaStandard {
        report.fault(list.heading, || {
            Message::new("a standard list of ASA, which filters no packets").expected("an extended list")
        });
        return None;
    }
    let before = report.count();
    let mut reader = Reader::new(&config, report, family, kind);
    let entries: Vec<_> = list.entries.iter().filter_map(|line| Some((line.span, reader.entry(line).ok()?))).collect();
    let mut notes = Vec::new();
    if import.list.is_none() {
        notes.push(format!("this is the access list {}, the only one", list.name));
    }
    let mut rules = ordered(entries, list, &mut notes, report);
    if report.count() > before {
        return None;
    }
    if rules.is_empty() {
        report.fault(list.heading, || {
            let message = Message::new(format!("the access list {} has no entries in force", quote(list.name)));
            message.expected("an entry, because routers let everything through an empty list")
        });
        return None;
    }
    if kind == ListKind::Ipv6 {
        add_discovery(&mut rules, list, is_nxos || config.is_nxos, report);
    }
    let base = Base { hook: Hook::Forward, chain: 0, policy: Action::Deny, name: "" };
    let chains = vec![Chain { name: list.name.to_owned(), rules }];
    Some((View { chains, base, notes, is_whole: true }, family))
}

/// Returns the family of a list; that of ASA is IPv6 if each of its entries says so.
fn family(list: &List<'_>) -> Option<Family> {
    let is_of = |line: &words::Line<'_>| line.words.iter().any(|word| word.text == "any6" || word.text.contains(':'));
    let mut entries = list.entries.iter().filter(|line| line.words[0].text != "remark").peekable();
    entries.peek()?;
    let is_v6 = list.is_ipv6() || list.kind == Some(ListKind::Asa) && entries.all(is_of);
    Some(if is_v6 { Family::Ipv6 } else { Family::Ipv4 })
}

/// Returns the list that the options ask for, or the only one.
fn choose<'c, 't>(config: &'c Config<'t>, import: &Import, report: &mut Report<'_>) -> Option<&'c List<'t>> {
    let full_name = |list: &List<'_>| format!("{} {}", if list.is_ipv6() { "ipv6" } else { "ipv4" }, list.name);
    let with_entries: Vec<&List<'_>> = config.lists.iter().filter(|list| family(list).is_some()).collect();
    let found: Vec<&List<'_>> = match &import.list {
        Some(name) => config.lists.iter().filter(|list| list.name == name || full_name(list) == *name).collect(),
        None => with_entries.clone(),
    };
    if let [list] = found[..] {
        return Some(list);
    }
    let names = if found.is_empty() { &with_entries } else { &found };
    let is_unique = |list: &List<'_>| names.iter().filter(|other| other.name == list.name).count() == 1;
    let names: Vec<String> = names
        .iter()
        .map(|list| match is_unique(list) {
            true => format!("`--list {}` ({} entries)", list.name, list.entries.len()),
            false => format!("`--list '{}'` ({} entries)", full_name(list), list.entries.len()),
        })
        .collect();
    let what = match (&import.list, found.len()) {
        (Some(name), 0) => format!("there is no access list {}", quote(name)),
        (Some(name), _) => format!("there are several access lists {}", quote(name)),
        (None, 0) => "there is no access list with entries".to_owned(),
        (None, _) => "there are several access lists, and each is a list of its own".to_owned(),
    };
    let span =
        found.first().or(config.lists.first().as_ref()).map_or(Span { line: 1, ..Span::default() }, |l| l.heading);
    let expected =
        if names.is_empty() { "`ip access-list extended NAME` and its entries".to_owned() } else { names.join(" or ") };
    report.fault(span, || Message::new(what).expected(expected));
    None
}

/// Returns the rules of the entries in the order of their numbers, with the remarks before them as comments.
fn ordered(
    entries: Vec<(Span, Entry)>,
    list: &List<'_>,
    notes: &mut Vec<String>,
    report: &mut Report<'_>,
) -> Vec<ChainRule> {
    let (mut last, mut lines): (u64, HashMap<u64, u32>) = (0, HashMap::new());
    let (mut of_other_family, mut inactive) = (0, 0);
    let (mut all, mut remarks) = (Vec::new(), Vec::new());
    for (span, Entry { number, content }) in entries {
        // A remark without a number has that of the entry that follows it.
        if matches!(content, Content::Nothing) || number.is_none() && matches!(content, Content::Remark(_)) {
            remarks.push((span, content));
            continue;
        }
        let number = number.unwrap_or(last + 10);
        if !matches!(content, Content::Remark(_)) {
            last = last.max(number);
            if let Some(first) = lines.insert(number, span.line) {
                let what = format!("a second entry with the number {number}, as that on line {first}");
                report.fault(span, || Message::new(what).expected("another number"));
            }
        }
        of_other_family += usize::from(matches!(content, Content::OfOtherFamily));
        inactive += usize::from(matches!(content, Content::Inactive));
        all.extend(remarks.drain(..).map(|(span, content)| (number, span, content)));
        all.push((number, span, content));
    }
    let parts = [(of_other_family, "are for the other family"), (inactive, "are inactive")];
    let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if !parts.is_empty() {
        notes.push(format!("of {} entries of the access list {}, {}", lines.len(), list.name, parts.join(", ")));
    }
    all.sort_by_key(|(number, ..)| *number);
    let (mut rules, mut comment, mut is_open) = (Vec::new(), String::new(), false);
    for (_, span, content) in all {
        match content {
            // Lines of remarks without a letter are frames.
            Content::Remark(text) if text.contains(char::is_alphanumeric) => {
                if !std::mem::replace(&mut is_open, true) {
                    comment.clear();
                }
                comment.push_str(if comment.is_empty() { "" } else { " " });
                comment.push_str(&text);
            }
            Content::Rule(action, products) => {
                is_open = false;
                let comment = Some(comment.clone()).filter(|comment| !comment.is_empty());
                rules.push(rule(span, action, products, comment));
            }
            _ => {}
        }
    }
    rules
}

fn rule(span: Span, action: Action, products: Vec<Product>, comment: Option<String>) -> ChainRule {
    ChainRule {
        span,
        products,
        interfaces: Vec::new(),
        unheld: Vec::new(),
        is_of_other_state: false,
        effect: Effect::Verdict(action),
        comment,
    }
}

/// Adds the implicit entries of a list of IPv6, unless earlier ones decide all their packets.
fn add_discovery(rules: &mut Vec<ChainRule>, list: &List<'_>, is_nxos: bool, report: &mut Report<'_>) {
    let types = Values::of([(if is_nxos { 133 } else { 135 }, 136)]);
    let all = Product::default().restrict(PROTO, Values::one(58)).and_then(|icmp| icmp.restrict(ICMP_TYPE, types));
    let mut left: Vec<Product> = all.iter().cloned().collect();
    for product in rules.iter().flat_map(|rule| &rule.products) {
        let mut rest = Vec::new();
        left.iter().for_each(|of| of.minus(product, Family::Ipv6, &mut rest));
        left = rest;
        if left.len() > MAX_PIECES {
            break;
        }
    }
    if left.is_empty() {
        return;
    }
    let (systems, types) =
        if is_nxos { ("NX-OS", "`nd-ns`, `nd-na` and routers") } else { ("IOS and IOS-XR", "`nd-ns` and `nd-na`") };
    report.warn(list.heading, || {
        let what = format!("behind its entries, the list permits {types} of neighbour discovery, as {systems} do");
        Message::new(what).expected("`deny ipv6 any any` at the end, if they are to be denied")
    });
    rules.push(rule(list.heading, Action::Permit, all.into_iter().collect(), Some("implicit".to_owned())));
}
