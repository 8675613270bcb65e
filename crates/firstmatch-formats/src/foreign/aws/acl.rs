//! Network ACLs.

use std::collections::BTreeMap;

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;

use super::super::options::Import;
use super::conditions::{Pair, Service};
use super::{Entry, Way, choose};
use crate::json::node::{Doc, Node, Object};

const WHAT: &str = "network ACL";

/// Reads ACLs, as `describe-network-acls` prints them.
pub(super) fn read<'t>(doc: &mut Doc<'t>, at: Node<'t>, way: Way, import: &Import) -> Option<(Vec<Entry>, String)> {
    let mut lists = Vec::new();
    for node in doc.list(at, "list of network ACLs")? {
        let mut acl = doc.object(node, WHAT)?;
        let name = acl.need(doc, "NetworkAclId")?;
        lists.push((doc.string(name, "id of an ACL", "text")?.into_owned(), node));
    }
    let chosen = choose(doc, at, WHAT, &lists, import)?;
    let [acl] = chosen[..] else {
        return doc.fault(at, "several ACLs as one list", "one, because a subnet has one");
    };
    let name = lists.iter().find(|(_, node)| std::ptr::eq(*node, acl)).map_or("", |(name, _)| name);
    let way_name = if way == Way::In { "come in" } else { "go out (--hook output)" };
    let note = format!("this is the ACL {name} for packets that {way_name}");
    let mut acl = doc.object(acl, WHAT)?;
    let entries = acl.need(doc, "Entries")?;
    let mut by_number: BTreeMap<(u32, bool), Entry> = BTreeMap::new();
    for node in doc.list(entries, "list of entries")? {
        let Some(Some((number, entry))) = entry(doc, node, way) else { continue };
        // Entries of both families may have one number, as those of the implicit denial do.
        let line = entry.span.line;
        if let Some(other) = by_number.insert((number, entry.family == Family::Ipv6), entry) {
            let what =
                format!("a second entry with the number {number}, as that on line {}", other.span.line.min(line));
            return doc.fault(node, what, "another number");
        }
    }
    Some((by_number.into_values().collect(), note))
}

/// Reads an entry; the inner `None` is one for the other direction.
fn entry<'t>(doc: &mut Doc<'t>, node: Node<'t>, way: Way) -> Option<Option<(u32, Entry)>> {
    let mut object = doc.object(node, "entry")?;
    let egress = object.need(doc, "Egress")?;
    if doc.boolean(egress, "direction")? != (way == Way::Out) {
        return Some(None);
    }
    let number = object.need(doc, "RuleNumber")?;
    let Some(number) = number.parse().ok().filter(|number| (1..=32768).contains(number)) else {
        return doc.fault(number, "no number of an entry", "1 to 32768");
    };
    let action = object.need(doc, "RuleAction")?;
    let action = doc.choice(action, "action", &[("allow", Action::Permit), ("deny", Action::Deny)])?;
    let protocol = object.need(doc, "Protocol")?;
    let ports = pair(doc, &mut object, "PortRange", ["From", "To"])?;
    let icmp = pair(doc, &mut object, "IcmpTypeCode", ["Type", "Code"])?;
    let is_icmp = matches!(protocol, "\"1\"" | "\"58\"" | "\"icmp\"" | "\"icmpv6\"");
    let service = Service::read(doc, protocol, if is_icmp { icmp } else { ports })?;
    let ranges = [object.take("CidrBlock"), object.take("Ipv6CidrBlock")];
    object.finish(doc);
    let (range, family) = match ranges {
        [Some(range), None] => (range, Family::Ipv4),
        [None, Some(range)] => (range, Family::Ipv6),
        _ => return doc.fault(node, "an entry without addresses", "`CidrBlock` or `Ipv6CidrBlock`"),
    };
    let product = service.of_range(doc, range, family, way)?;
    Some(Some((number, Entry { span: doc.span(node), family, action, product, comment: None })))
}

/// Returns both members of an object that need not be there.
fn pair<'t>(doc: &mut Doc<'t>, of: &mut Object<'t>, name: &'static str, ends: [&'static str; 2]) -> Option<Pair<'t>> {
    let Some(node) = of.take(name) else { return Some([None, None]) };
    let mut object = doc.object(node, "pair of numbers")?;
    let pair = ends.map(|end| object.take(end));
    object.finish(doc);
    Some(pair)
}
