//! Security groups.

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;

use super::super::options::{Import, State};
use super::conditions::Service;
use super::{Entry, Way, choose, pass_over};
use crate::json::node::{Doc, Node, Object};

const WHAT: &str = "security group";

/// Members of a rule that name addresses elsewhere, with what they name.
const ELSEWHERE: [(&str, &str); 4] = [
    ("UserIdGroupPairs", "members of another group, which the file does not show"),
    ("PrefixListIds", "a list of prefixes, which the file does not show"),
    ("ReferencedGroupInfo", "members of another group, which the file does not show"),
    ("PrefixListId", "a list of prefixes, which the file does not show"),
];

/// Reads groups, as `describe-security-groups` prints them.
pub(super) fn read<'t>(doc: &mut Doc<'t>, at: Node<'t>, way: Way, import: &Import) -> Option<(Vec<Entry>, String)> {
    let mut lists = Vec::new();
    for node in doc.list(at, "list of security groups")? {
        let mut group = doc.object(node, WHAT)?;
        let name = group.need(doc, "GroupId")?;
        lists.push((doc.string(name, "id of a group", "text")?.into_owned(), node));
    }
    let chosen = choose(doc, at, WHAT, &lists, import)?;
    let note = begin(doc, at, &lists, &chosen, way, import)?;
    let mut entries = Vec::new();
    for node in chosen {
        let mut group = doc.object(node, WHAT)?;
        let member = if way == Way::In { "IpPermissions" } else { "IpPermissionsEgress" };
        let permissions = group.need(doc, member)?;
        for node in doc.list(permissions, "list of rules")? {
            permission(doc, node, way, &mut entries);
        }
    }
    Some((entries, note))
}

/// Checks the state that rules are read for, and returns the sentence that names the groups.
fn begin<'t>(
    doc: &mut Doc<'t>,
    at: Node<'t>,
    lists: &[(String, Node<'t>)],
    chosen: &[Node<'t>],
    way: Way,
    import: &Import,
) -> Option<String> {
    if import.state != State::New {
        let what = "a security group lets all packets of connections through that it knows, whatever its rules are";
        return doc.fault(at, what, "`--state new`, for packets that open connections");
    }
    let names: Vec<&str> = chosen
        .iter()
        .filter_map(|node| lists.iter().find(|(_, of)| std::ptr::eq(*of, *node)).map(|(name, _)| &**name))
        .collect();
    let way = if way == Way::In { "come in" } else { "go out (--hook output)" };
    Some(format!("this is what {} permits of packets that {way} and open connections", names.join(" or ")))
}

/// Reads a rule of a group.
fn permission<'t>(doc: &mut Doc<'t>, node: Node<'t>, way: Way, entries: &mut Vec<Entry>) -> Option<()> {
    let mut rule = doc.object(node, "rule of a group")?;
    let protocol = rule.need(doc, "IpProtocol")?;
    let pair = [rule.take("FromPort"), rule.take("ToPort")];
    let service = Service::read(doc, protocol, pair)?;
    for (member, what) in &ELSEWHERE[..2] {
        if let Some(node) = rule.take(member)
            && let Some(first) = doc.list(node, "list")?.first()
        {
            return doc.fault(first, format_args!("this names {what}"), "a rule with the addresses in its place");
        }
    }
    for (member, name, family) in [("IpRanges", "CidrIp", Family::Ipv4), ("Ipv6Ranges", "CidrIpv6", Family::Ipv6)] {
        let Some(ranges) = rule.take(member) else { continue };
        for node in doc.list(ranges, "list of ranges")? {
            let mut range = doc.object(node, "range of addresses")?;
            let addresses = range.need(doc, name)?;
            let comment = description(doc, &mut range)?;
            range.finish(doc);
            let product = service.of_range(doc, addresses, family, way)?;
            entries.push(Entry { span: doc.span(node), family, action: Action::Permit, product, comment });
        }
    }
    rule.finish(doc);
    Some(())
}

/// Reads rules, as `describe-security-group-rules` prints them.
pub(super) fn of_rules<'t>(doc: &mut Doc<'t>, at: Node<'t>, way: Way, import: &Import) -> Option<(Vec<Entry>, String)> {
    let nodes = doc.list(at, "list of rules")?;
    let mut lists: Vec<(String, Node<'t>)> = Vec::new();
    let mut of_group = Vec::new();
    for &node in &nodes {
        let mut rule = doc.object(node, "rule of a group")?;
        let name = rule.need(doc, "GroupId")?;
        let name = doc.string(name, "id of a group", "text")?.into_owned();
        if !lists.iter().any(|(known, _)| *known == name) {
            lists.push((name.clone(), node));
        }
        of_group.push(name);
    }
    let chosen = choose(doc, at, WHAT, &lists, import)?;
    let note = begin(doc, at, &lists, &chosen, way, import)?;
    let is_chosen = |name: &str| {
        let list = lists.iter().find(|(known, _)| known == name);
        list.is_some_and(|(_, node)| chosen.iter().any(|of| std::ptr::eq(*of, *node)))
    };
    let mut entries = Vec::new();
    for (node, name) in nodes.into_iter().zip(&of_group) {
        if is_chosen(name) {
            rule(doc, node, way, &mut entries);
        }
    }
    Some((entries, note))
}

/// Reads a rule that names its group.
fn rule<'t>(doc: &mut Doc<'t>, node: Node<'t>, way: Way, entries: &mut Vec<Entry>) -> Option<()> {
    let mut rule = doc.object(node, "rule of a group")?;
    let is_egress = rule.need(doc, "IsEgress")?;
    if doc.boolean(is_egress, "direction")? != (way == Way::Out) {
        return Some(());
    }
    let protocol = rule.need(doc, "IpProtocol")?;
    let pair = [rule.take("FromPort"), rule.take("ToPort")];
    let service = Service::read(doc, protocol, pair)?;
    for (member, what) in &ELSEWHERE[2..] {
        if let Some(node) = rule.take(member) {
            return doc.fault(node, format_args!("this names {what}"), "a rule with the addresses in its place");
        }
    }
    let comment = description(doc, &mut rule)?;
    let ranges = [rule.take("CidrIpv4"), rule.take("CidrIpv6")];
    pass_over(&mut rule, &["SecurityGroupRuleId", "SecurityGroupRuleArn", "GroupId", "GroupOwnerId", "Tags"]);
    rule.finish(doc);
    let (range, family) = match ranges {
        [Some(range), None] => (range, Family::Ipv4),
        [None, Some(range)] => (range, Family::Ipv6),
        _ => return doc.fault(node, "a rule without addresses", "`CidrIpv4` or `CidrIpv6`"),
    };
    let product = service.of_range(doc, range, family, way)?;
    entries.push(Entry { span: doc.span(node), family, action: Action::Permit, product, comment });
    Some(())
}

/// Returns the description of a range, if it has one.
fn description<'t>(doc: &mut Doc<'t>, object: &mut Object<'t>) -> Option<Option<String>> {
    let Some(node) = object.take("Description") else { return Some(None) };
    let text = doc.string(node, "description", "text")?;
    Some(Some(text.into_owned()).filter(|text| !text.is_empty()))
}
