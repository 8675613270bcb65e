//! Reader of a whole document.

use std::collections::HashMap;

use crate::foreign;
use crate::report::Warnings;
use crate::{Labels, Options, Part, RuleFile, contradiction, extension_as_protocol};
use firstmatch_core::analyze::covered;
use firstmatch_core::policy::{Fragments, Policy, Verdict};
use firstmatch_core::rule::{Priority, Rule};
use firstmatch_core::{Diagnostic, RuleId, RuleSet, Schema};

use super::node::{Doc, Node, shown};
use super::rule::{RuleIn, read_action, read_rule};
use super::schema;
use super::value::read_number;
use super::{FORMAT, Faults, Read, VERSION};

/// Bounds on the slot of an id, because slots index arrays.
///
/// Otherwise a file with few rules and an enormous id would need enormous arrays. For example, a file of 100 rules may
/// have slots below 67,136.
const IDS_PER_RULE: usize = 16;
const IDS_ALWAYS: usize = 1 << 16;

/// Reads a rule file.
pub fn read(text: &str, options: &Options) -> Result<Read, Faults> {
    let (mut doc, root) = Doc::new(text, options.max_faults)?;
    let read = read_document(&mut doc, root, options);
    match read {
        Some(read) if doc.is_good() => Ok(read),
        _ => Err(match foreign::in_json(text) {
            Some(fault) => Faults { faults: vec![fault], more: 0 },
            None => doc.into_faults(),
        }),
    }
}

fn read_document<'t>(doc: &mut Doc<'t>, root: Node<'t>, options: &Options) -> Option<Read> {
    let mut object = doc.object(root, "rule file")?;
    let format = object.need(doc, "format");
    let version = object.need(doc, "version");
    let schemas = object.need(doc, "schemas");
    let policy = object.take("policy");
    let rules = object.need(doc, "rules");
    object.finish(doc);
    if let Some(node) = format {
        doc.choice(node, "format", &[(FORMAT, ())]);
    }
    if let Some(node) = version
        && read_number(node) != Some(VERSION.into())
    {
        return doc.fault(node, format_args!("{} is no version that is known", shown(node)), VERSION.to_string());
    }
    let policy = policy.map_or(Some(Policy::default()), |node| read_policy(doc, node));
    // Rules cannot be read without schemas.
    let schemas = schema::read_all(doc, schemas?)?;
    let nodes = doc.list(rules?, "list of rules")?;
    let rules: Vec<_> = nodes.iter().filter_map(|&node| read_rule(doc, node, &schemas)).collect();
    let complete = rules.len() == nodes.len();
    let Rules { set, nodes, labels, audits } = rule_set(doc, schemas, rules, complete)?;
    let mut file = RuleFile { labels, ..RuleFile::new(set, policy?) };
    if !audits.is_empty() {
        file.audited = Some(Box::new(file.clone()));
        for id in audits {
            file.labels.remove(&id);
            // The set holds every rule that was read.
            let _ = file.rules.remove(id);
        }
    }
    let Warnings { kept, more, never } = warnings(doc, &file.rules, &nodes, options);
    (file.warnings, file.more_warnings, file.never) = (kept, more, never);
    let lines = nodes.iter().map(|node| node.map_or(0, |node| doc.line(node))).collect();
    Some(Read { file, lines })
}

/// Returns the warnings, as in native files, in the order of lines.
fn warnings<'t>(doc: &Doc<'t>, rules: &RuleSet, nodes: &[Option<Node<'t>>], options: &Options) -> Warnings {
    if options.max_warnings == 0 {
        return Warnings::default();
    }
    let (mut kept, mut more, mut never) = (Vec::new(), 0, Vec::new());
    let line = |rule: &Rule| nodes[rule.id.slot()].map_or(0, |node| doc.line(node));
    let mut warn = |rule: &Rule, what: String, expected: Option<&str>| match nodes[rule.id.slot()] {
        Some(node) if kept.len() < options.max_warnings => {
            kept.push(doc.about(node, what, expected.map(str::to_owned)));
        }
        _ => more += 1,
    };
    let name = |part| match part {
        Part::Family => "its family".to_owned(),
        Part::Condition(field) => format!("the condition on {}", rules.schemas()[0].fields()[field].name()),
        Part::Set => "the schema".to_owned(),
    };
    for rule in rules.iter() {
        if let Some(found) = contradiction(rules.schemas(), rule) {
            never.extend(found.is_certain().then(|| line(rule)));
            warn(rule, found.describe(name), None);
        } else if let Some((field, number)) = extension_as_protocol(rules.schemas(), rule) {
            let what = format!(
                "{} names {number}, which never holds in IPv6, where it is an extension header",
                name(Part::Condition(field))
            );
            warn(rule, what, Some("\"family\": \"ipv4\", if that is meant"));
        }
    }
    covered(rules, |rule, covering| {
        never.push(line(rule));
        warn(rule, covering.describe(line), None);
    });
    kept.sort_by_key(|warning: &Diagnostic| (warning.line, warning.column));
    never.sort_unstable();
    never.dedup();
    Warnings { kept, more, never }
}

fn read_policy<'t>(doc: &mut Doc<'t>, node: Node<'t>) -> Option<Policy> {
    let mut object = doc.object(node, "policy")?;
    let mut policy = Policy::default();
    for (name, verdict) in [("default", &mut policy.default), ("unknown", &mut policy.unknown)] {
        if let Some(node) = object.take(name)
            && let Some(action) = read_action(doc, node)
        {
            *verdict = Verdict::from(action);
        }
    }
    if let Some(node) = object.take("fragments") {
        let words = [("unknown", Fragments::Unknown), ("layer3", Fragments::Layer3)];
        if let Some(fragments) = doc.choice(node, "treatment of fragments", &words) {
            policy.fragments = fragments;
        }
    }
    object.finish(doc);
    Some(policy)
}

/// Rules that were read.
struct Rules<'t> {
    /// All rules, audit rules among them.
    set: RuleSet,
    /// Node of each rule, by slot.
    nodes: Vec<Option<Node<'t>>>,
    labels: Labels,
    audits: Vec<RuleId>,
}

/// Returns the set of the rules, each under its id if it has one, and their nodes by slot.
fn rule_set<'t>(
    doc: &mut Doc<'t>,
    schemas: Vec<Schema>,
    mut rules: Vec<RuleIn<'t>>,
    complete: bool,
) -> Option<Rules<'t>> {
    let with = rules.iter().filter(|rule| rule.priority.is_some()).count();
    let mut seen = HashMap::with_capacity(with);
    for (index, rule) in rules.iter_mut().enumerate() {
        let Some((priority, node)) = rule.priority else {
            if with > 0 {
                let what = "the member \"priority\" is missing, which other rules have";
                let _: Option<()> =
                    doc.fault(rule.node, what, "one in every rule, or in none: their order then counts");
            }
            rule.spec.priority = Priority::of_line(u32::try_from(index + 1).ok()?);
            continue;
        };
        rule.spec.priority = priority;
        if let Some(line) = seen.insert(priority, doc.line(rule.node)) {
            let what = format!("the priority {} is that of the rule on line {line}", shown(node));
            let _: Option<()> = doc.fault(node, what, "another for every rule");
        }
    }
    let most = rules.len().saturating_mul(IDS_PER_RULE).saturating_add(IDS_ALWAYS);
    let mut slots: HashMap<usize, RuleId> = HashMap::new();
    for (id, node) in rules.iter().filter_map(|rule| rule.id) {
        if id.slot() >= most {
            let what = format!("{} is too large an id for {} rules", shown(node), rules.len());
            let _: Option<()> = doc.fault(node, what, format!("a place up to {most}"));
        } else if let Some(earlier) = slots.insert(id.slot(), id) {
            let what = format!("the id {} has the place of the id {earlier}", shown(node));
            let _: Option<()> = doc.fault(node, what, "another for every rule");
        }
    }
    if !complete || !doc.is_good() {
        return None;
    }
    // Rules with ids come first, in ascending order; the others take slots behind them.
    rules.sort_by_key(|rule| rule.id.map_or(usize::MAX, |(id, _)| id.slot()));
    let mut schemas = schemas.into_iter();
    let mut set = match (schemas.next()?, schemas.next()) {
        (one, None) => RuleSet::new(one),
        (four, Some(six)) => RuleSet::dual(four, six),
    };
    let mut nodes = vec![None; rules.len()];
    let (mut labels, mut audits) = (Labels::new(), Vec::new());
    for RuleIn { node, id, label, is_audit, spec, .. } in rules {
        let inserted = match id {
            Some((id, _)) => set.insert_as(id, spec).map(|()| id),
            None => set.insert(spec),
        };
        match inserted {
            Ok(id) => {
                nodes.resize(nodes.len().max(id.slot() + 1), None);
                nodes[id.slot()] = Some(node);
                labels.extend(label.map(|label| (id, label)));
                audits.extend(is_audit.then_some(id));
            }
            // Every reason why a set refuses a rule today is a fault above. This is for reasons that may be added.
            Err(error) => return doc.fault(node, error, ""),
        }
    }
    set.shrink_to_fit();
    Some(Rules { set, nodes, labels, audits })
}
