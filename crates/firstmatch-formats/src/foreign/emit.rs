//! Rules from the unfolded list, with their lines, labels and warnings.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use firstmatch_core::analyze::covered;
use firstmatch_core::policy::{Fragments, Policy, Verdict};
use firstmatch_core::rule::{Priority, RuleSet, RuleSpec, count_regions};
use firstmatch_core::schema::{Family, Schema};

use super::chains::{ChainRule, Effect, Emitted, UnfoldLimits, unfold};
use super::view::{Hooks, View};
use crate::error::ParseError;
use crate::native::{ALWAYS, INET};
use crate::report::{Message, Report, Span, Warnings};
use crate::{Fields, Labels, MAX_LABEL, Options, RuleFile, visible};

/// Returns the rules of the view that the options ask for; `None` after a fault.
pub(super) fn rules(hooks: &Hooks, family: Family, options: &Options, report: &mut Report<'_>) -> Option<RuleFile> {
    let view = hooks.view(&options.import, report)?;
    of_views(&[(view, family)], options, report)
}

/// Returns the rules of views of one family each; `None` after a fault.
///
/// Notes and policy are those of the first one.
pub(super) fn of_views(views: &[(View, Family)], options: &Options, report: &mut Report<'_>) -> Option<RuleFile> {
    let all_rules = || views.iter().flat_map(|(view, _)| &view.chains).flat_map(|chain| &chain.rules);
    let limits = UnfoldLimits::of(all_rules().count());
    let mut list = Vec::new();
    for (view, family) in views {
        match unfold(&view.chains, view.base.chain, view.base.policy, *family, limits) {
            Ok(of_view) => list.extend(of_view.into_iter().map(|emitted| (*family, emitted))),
            Err(error) => {
                report.fault(error.span, || error.message);
                return None;
            }
        }
    }
    let spans: BTreeMap<u32, &ChainRule> = all_rules().map(|rule| (rule.span.line, rule)).collect();
    let file = rule_file(views, &list, options, |line| spans[&line].span, report)?;
    if options.max_warnings > 0 {
        warn_of_labels(&spans, report);
        let scope = if views[0].0.is_whole { "" } else { "in this view " };
        warn_of_dead_lines(&spans, &list, &file.rules, scope, report);
    }
    Some(file)
}

/// Returns a file with its warnings, or its faults.
pub(super) fn finish(read: Option<RuleFile>, report: Report<'_>) -> Result<RuleFile, ParseError> {
    let Warnings { kept: warnings, more: more_warnings, never } = report.finish()?;
    let file = read.expect("a file without rules has a fault");
    Ok(RuleFile { warnings, more_warnings, never, ..file })
}

/// Builds the set of the list, over the fields that it tests, and the policy of the hook.
fn rule_file(
    views: &[(View, Family)],
    list: &[(Family, Emitted)],
    options: &Options,
    span_of: impl Fn(u32) -> Span,
    report: &mut Report<'_>,
) -> Option<RuleFile> {
    let conditions: Vec<_> =
        list.iter().map(|(family, emitted)| emitted.product.conditions(*family, views.len() > 1)).collect();
    let mut fields: Vec<usize> = (0..INET.len()).collect();
    if options.fields == Fields::Used {
        let used = |field: usize| conditions.iter().any(|conditions| conditions.on(field).is_some());
        fields.retain(|&field| field < ALWAYS || used(field));
    }
    let sources: Vec<_> = fields[ALWAYS..].iter().map(|&field| INET[field]).collect();
    let schemas: Vec<_> = views.iter().map(|(_, family)| Schema::five_tuple(*family, &sources)).collect();
    let place = |field: usize| fields.iter().position(|&of| of == field).unwrap_or(field);
    let mut rules = match <[Schema; 2]>::try_from(schemas) {
        Ok([ipv4, ipv6]) => RuleSet::dual(ipv4, ipv6),
        Err(mut one) => RuleSet::new(one.swap_remove(0)),
    };
    let mut labels = Labels::new();
    let before = report.count();
    for ((index, (family, emitted)), conditions) in (1u32..).zip(list).zip(conditions) {
        // The order is that of the list. Lines are those of the file, which several rules may share.
        let (priority, line) = (Priority::of_line(index), NonZeroU32::new(emitted.line));
        let conditions = conditions.renumbered(place);
        let family = Some(*family).filter(|_| views.len() > 1);
        let spec = RuleSpec { priority, action: emitted.action, conditions, family, line, value: 0 };
        let span = span_of(emitted.line);
        if !report.is_full()
            && let Some(schema) = rules.schemas().iter().find(|schema| family.is_none() || schema.family() == family)
            && let Err(error) = count_regions(schema, &RuleSpec { line: None, ..spec.clone() }, &options.expansion)
        {
            report.fault(span, || error.to_string());
        }
        match rules.insert(spec) {
            Ok(id) => _ = emitted.label.as_deref().map(|label| labels.insert(id, label_of(label).into())),
            // This happens only if the list has more rules than a set.
            Err(error) => _ = report.fault(span, || error.to_string()),
        }
    }
    rules.shrink_to_fit();
    let view = &views[0].0;
    let default = Verdict::from(view.base.policy);
    let policy = Policy { default, fragments: Fragments::Layer3, ..Policy::default() };
    (report.count() == before).then(|| RuleFile { labels, notes: view.notes.clone(), ..RuleFile::new(rules, policy) })
}

/// Returns a text as a label: without characters that no label has, and short enough.
fn label_of(text: &str) -> String {
    let clean = visible(text).replace(['"', '\n', '\t'], "'");
    match clean.char_indices().rev().nth(MAX_LABEL - 1) {
        Some((at, _)) if at > 0 => {
            format!("…{}", clean.chars().skip(clean.chars().count() - MAX_LABEL + 1).collect::<String>())
        }
        _ => clean,
    }
}

/// Warns of comments that labels cannot hold as they are.
fn warn_of_labels(rules: &BTreeMap<u32, &ChainRule>, report: &mut Report<'_>) {
    let emitting = rules.values().filter(|rule| rule.effect != Effect::Nothing && rule.effect.target().is_none());
    for rule in emitting {
        if rule.comment.as_ref().is_some_and(|comment| label_of(comment) != *comment) {
            report.warn(
                rule.span,
                || "the label differs from the comment, which has a quote, an invisible character or too many",
            );
        }
    }
}

/// Warns of lines that decide no packet: an earlier rule takes all packets of each rule that they became.
fn warn_of_dead_lines(
    lines: &BTreeMap<u32, &ChainRule>,
    list: &[(Family, Emitted)],
    rules: &RuleSet,
    scope: &str,
    report: &mut Report<'_>,
) {
    let mut alive: BTreeMap<u32, usize> = BTreeMap::new();
    list.iter().for_each(|(_, emitted)| *alive.entry(emitted.line).or_default() += 1);
    let mut by: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    covered(rules, |rule, covering| {
        let line = rule.line.map_or(0, u32::from);
        by.entry(line).or_default().extend(covering.by.iter().filter_map(|rule| rule.line.map(u32::from)));
        alive.entry(line).and_modify(|count| *count -= 1);
    });
    for (line, rule) in lines {
        let decides = matches!(rule.effect, Effect::Verdict(_)) && !rule.products.is_empty();
        if !decides || alive.get(line).is_some_and(|count| *count > 0) {
            continue;
        }
        let mut others = by.remove(line).unwrap_or_default();
        others.retain(|other| other != line);
        others.sort_unstable();
        others.dedup();
        let others: Vec<String> = others.iter().map(u32::to_string).collect();
        let why = match &others[..] {
            [] => "no packet reaches it".to_owned(),
            [one] => format!("the rule on line {one} takes all its packets"),
            [before @ .., last] => format!("the rules on lines {} and {last} take all its packets", before.join(", ")),
        };
        report.warn_of_never(rule.span, || Message::new(format!("{scope}the rule never decides: {why}")));
    }
}
