//! Findings by line, for files in which several rules come from one line.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use firstmatch_core::RuleId;
use firstmatch_core::analyze::{Finding, Kind, Report};

use crate::rules::Loaded;

/// Kinds of findings about rules that can go, the kind that says most first.
const REMOVABLE: [Kind; 4] = [Kind::Redundant, Kind::Shadowed, Kind::Duplicate, Kind::Unmatchable];

/// Makes one finding of those about the rules of a line; a line can go only if all its rules can.
pub(super) fn merge(report: &mut Report, loaded: &Loaded) {
    let line_of = |id: RuleId| loaded.rule(id).map_or(0, |rule| loaded.line_of(rule));
    let mut rules: BTreeMap<u32, usize> = BTreeMap::new();
    loaded.file.rules.iter().for_each(|rule| *rules.entry(loaded.line_of(rule)).or_default() += 1);
    report.rules = rules.len();
    let mut of_lines: BTreeMap<u32, Vec<Finding>> = BTreeMap::new();
    let mut others = HashSet::new();
    let (removable, kept) =
        std::mem::take(&mut report.findings).into_iter().partition(|it| REMOVABLE.contains(&it.kind));
    for finding in Vec::<Finding>::into_iter(removable) {
        of_lines.entry(line_of(finding.rule)).or_default().push(finding);
    }
    of_lines.retain(|line, findings| rules.get(line) == Some(&findings.len()));
    report.findings.extend(of_lines.into_iter().filter_map(|(line, findings)| merged(line, findings, &line_of)));
    for mut finding in Vec::<Finding>::into_iter(kept) {
        let line = line_of(finding.rule);
        finding.by.retain(|&by| line_of(by) != line);
        let by: BTreeSet<u32> = finding.by.iter().map(|&by| line_of(by)).collect();
        let is_own = finding.kind == Kind::Overlap && by.is_empty();
        if !is_own && others.insert((finding.kind.name(), line, by)) {
            report.findings.push(finding);
        }
    }
}

/// Returns one finding for those about all rules of a line.
fn merged(line: u32, findings: Vec<Finding>, line_of: &dyn Fn(RuleId) -> u32) -> Option<Finding> {
    let rank = |finding: &Finding| REMOVABLE.iter().position(|kind| *kind == finding.kind);
    let mut seen = HashSet::from([line]);
    let by: Vec<RuleId> =
        findings.iter().flat_map(|finding| &finding.by).copied().filter(|&by| seen.insert(line_of(by))).collect();
    let must_stay = findings.iter().any(|finding| finding.must_stay);
    let mut first = findings.into_iter().min_by_key(rank)?;
    (first.by, first.must_stay) = (by, must_stay);
    Some(first)
}
