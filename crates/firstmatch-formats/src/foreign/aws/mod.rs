//! Security groups and network ACLs of AWS, as `aws ec2 describe-…` prints them.
//!
//! ```text
//! { "SecurityGroups": [ { "GroupId": "sg-1", "IpPermissions": [
//!   { "IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [ { "CidrIp": "10.0.0.0/8" } ] } ] } ] }
//! ```
//!
//! - A group permits what any of its rules does, and denies the rest. It is read for packets that open connections,
//!   because it permits all others of connections that it knows.
//! - The entries of an ACL are decided in the order of their numbers, wherever they stand.
//! - Members of rules that are not known are faults, because they may be conditions.

mod acl;
mod conditions;
mod groups;

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;

use super::chains::{Chain, ChainRule, Effect};
use super::emit;
use super::options::{Hook, Import};
use super::product::Product;
use super::view::{Base, View};
use crate::error::ParseError;
use crate::json::node::{Doc, Node, Object};
use crate::report::{Report, Span};
use crate::{BOM, Options, RuleFile};

/// Direction of the packets that a list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// Rule for packets of one family.
struct Entry {
    span: Span,
    family: Family,
    action: Action,
    product: Product,
    comment: Option<String>,
}

/// Reads the list that the options ask for.
pub(super) fn read(text: &str, options: &Options) -> Result<RuleFile, ParseError> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let (mut doc, root) =
        Doc::new(text, options.max_faults).map_err(|faults| ParseError::new(faults.faults, faults.more))?;
    let read = document(&mut doc, root, &options.import);
    let Some((entries, note)) = read.filter(|_| doc.is_good()) else {
        let faults = doc.into_faults();
        return Err(ParseError::new(faults.faults, faults.more));
    };
    let mut report = Report::new(text, options);
    let views = views(entries, note);
    let file = emit::of_views(&views, options, &mut report);
    emit::finish(file, report)
}

/// Returns the entries of the list in order, and a sentence that names it.
fn document<'t>(doc: &mut Doc<'t>, root: Node<'t>, import: &Import) -> Option<(Vec<Entry>, String)> {
    let way = match import.hook {
        None | Some(Hook::Input) => Way::In,
        Some(Hook::Output) => Way::Out,
        Some(Hook::Forward) => {
            return doc.fault(
                root,
                "lists of AWS are for packets that come in or go out",
                "`--hook input` or `--hook output`",
            );
        }
    };
    let mut object = doc.object(root, "output of `aws ec2`")?;
    if let Some(node) = object.take("NextToken") {
        return doc.fault(node, "the output goes on elsewhere", "all of it, as `aws ec2` prints without `--max-items`");
    }
    if let Some(node) = object.take("NetworkAcls") {
        return acl::read(doc, node, way, import);
    }
    if let Some(node) = object.take("SecurityGroupRules") {
        return groups::of_rules(doc, node, way, import);
    }
    let node = object.need(doc, "SecurityGroups")?;
    groups::read(doc, node, way, import)
}

/// Returns the nodes of the lists that the options name, or of the only one.
///
/// `lists` has each list's name, and where it begins.
fn choose<'t>(
    doc: &mut Doc<'t>,
    at: Node<'t>,
    what: &str,
    lists: &[(String, Node<'t>)],
    import: &Import,
) -> Option<Vec<Node<'t>>> {
    let choices = || match lists.len() {
        0..=12 => lists.iter().map(|(name, _)| format!("`--list {name}`")).collect::<Vec<_>>().join(" or "),
        _ => format!("`--list {}` or another one", lists[0].0),
    };
    let Some(wanted) = &import.list else {
        return match lists {
            [(_, only)] => Some(vec![only]),
            [] => doc.fault(at, format_args!("there is no {what}"), ""),
            _ => doc.fault(at, format_args!("there are several {what}s, and each is a list of its own"), choices()),
        };
    };
    let of_name = |name: &str| lists.iter().find(|(known, _)| known == name).map(|(_, node)| *node);
    let mut found = Vec::new();
    for name in wanted.split(',') {
        match of_name(name) {
            Some(node) => found.push(node),
            None => return doc.fault(at, format_args!("there is no {what} `{name}`"), choices()),
        }
    }
    Some(found)
}

/// Passes over the members of an object that are no conditions.
fn pass_over(object: &mut Object<'_>, names: &[&'static str]) {
    names.iter().for_each(|name| _ = object.take(name));
}

/// Returns a view for each family that has an entry; that of IPv4 if there is none.
fn views(entries: Vec<Entry>, note: String) -> Vec<(View, Family)> {
    let mut by_family = [(Family::Ipv4, Vec::new()), (Family::Ipv6, Vec::new())];
    for Entry { span, family, action, product, comment } in entries {
        let rules = &mut by_family[usize::from(family == Family::Ipv6)].1;
        rules.push(ChainRule {
            span,
            products: vec![product],
            interfaces: Vec::new(),
            unheld: Vec::new(),
            is_of_other_state: false,
            effect: Effect::Verdict(action),
            comment,
        });
    }
    let is_empty = by_family.iter().all(|(_, rules)| rules.is_empty());
    let view = |rules: Vec<ChainRule>| {
        let base = Base { hook: Hook::Input, chain: 0, policy: Action::Deny, name: "" };
        View { chains: vec![Chain { name: String::new(), rules }], base, notes: vec![note.clone()], is_whole: true }
    };
    let with_rules =
        by_family.into_iter().filter(|(family, rules)| !rules.is_empty() || is_empty && *family == Family::Ipv4);
    with_rules.map(|(family, rules)| (view(rules), family)).collect()
}
