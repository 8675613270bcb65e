//! Command `firstmatch check`: rules that never decide, and rules that change no verdict.

mod json;
mod sarif;
mod text;

use std::collections::BTreeMap;

pub(crate) use json::packet;

use firstmatch_core::Diagnostic;
use firstmatch_core::analyze::{Analysis, Config, Finding, Kind, Report};
use firstmatch_core::policy::Verdict;
use firstmatch_core::rule::{FieldValues, Rule};
use firstmatch_core::schema::Field;

use crate::args::CheckArgs;
use crate::rules::{self, Loaded};
use crate::{End, answer_to};

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<End> {
    let Some(loaded) = rules::load_quietly(&args.rules, args.flags, args.limits.expansion())? else {
        return Ok(End::BadInput);
    };
    let mut config = Config::default();
    config.expansion = args.limits.expansion();
    config.limits.work = args.max_work;
    config.limits.total_work = args.max_total_work;
    let analysis = match Analysis::new(&loaded.file.rules, &loaded.file.policy, &config) {
        Ok(analysis) => analysis,
        Err(error) => {
            loaded.build_error(&error, None);
            return Ok(End::BadInput);
        }
    };
    let checked = Checked::new(&loaded, analysis.check());
    let mut out = answer_to(false);
    match (args.json, args.sarif) {
        (true, _) => json::print(&checked, &mut out)?,
        (_, true) => sarif::print(&checked, &mut out)?,
        _ => text::print(&checked, &mut out)?,
    }
    let fails = |kind: Kind| args.fail_on.is_empty() || args.fail_on.contains(&kind);
    let is_bad = checked.report.findings.iter().any(|finding| fails(finding.kind));
    Ok(if is_bad { End::BadAnswer } else { End::Done })
}

/// Report with the rules that it is about.
struct Checked<'a> {
    loaded: &'a Loaded,
    report: Report,
    /// Warnings of the rule file, by line.
    warnings: BTreeMap<u32, &'a Diagnostic>,
}

impl<'a> Checked<'a> {
    fn new(loaded: &'a Loaded, report: Report) -> Self {
        let warnings = loaded.file.warnings.iter().map(|warning| (warning.line, warning)).collect();
        let checked = Self { loaded, report, warnings };
        // Other warnings are about rules that were not found.
        let found: Vec<u32> = checked.report.findings.iter().map(|finding| checked.line(finding.rule)).collect();
        loaded.show_warnings_but(|warning| found.contains(&warning.line));
        checked
    }

    fn rule(&self, id: firstmatch_core::RuleId) -> &'a Rule {
        self.loaded.rule(id).expect("the analysis names rules of the set")
    }

    fn line(&self, id: firstmatch_core::RuleId) -> u32 {
        self.loaded.line_of(self.rule(id))
    }

    fn verdict(&self, id: firstmatch_core::RuleId) -> Verdict {
        self.rule(id).action.into()
    }

    /// Returns the number of findings of each kind that occurred.
    fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.report.findings.iter().for_each(|finding| *counts.entry(finding.kind.name()).or_insert(0) += 1);
        counts
    }

    /// Returns the sentence about a finding, without its place.
    fn message(&self, finding: &Finding) -> String {
        let own = self.verdict(finding.rule);
        let lines: Vec<String> = finding.by.iter().map(|&rule| self.line(rule).to_string()).collect();
        let causes = match &lines[..] {
            [] => String::new(),
            [one] => format!("the rule on line {one}"),
            [before @ .., last] => format!("the rules on lines {} and {last}", before.join(", ")),
        };
        let others = finding.by.iter().filter(|&&rule| self.verdict(rule) != own);
        let mut verdicts: Vec<String> = others.map(|&rule| self.verdict(rule).to_string()).collect();
        verdicts.sort_unstable();
        verdicts.dedup();
        let but = if verdicts.is_empty() {
            String::new()
        } else {
            format!(" ({} there, {own} here)", verdicts.join(" and "))
        };
        match finding.kind {
            Kind::Unmatchable => {
                let warning = self.warnings.get(&self.line(finding.rule)).map(|warning| warning.message.as_str());
                let known = warning.filter(|message| message.starts_with("this rule can never match"));
                known.map_or("this rule can never match: no packet meets its conditions".to_owned(), str::to_owned)
            }
            Kind::Duplicate => format!("this rule never decides: {causes} has the same conditions{but}"),
            Kind::Shadowed if lines.len() == 1 => {
                format!("this rule never decides: {causes} takes all its packets{but}")
            }
            Kind::Shadowed => format!("this rule never decides: {causes} together take all its packets{but}"),
            Kind::Redundant => {
                let then = match lines.is_empty() {
                    true => "later rules or the default give".to_owned(),
                    false => format!("{causes} and those between give"),
                };
                let then = if finding.by.len() == 1 { format!("{causes} gives") } else { then };
                format!("without this rule nothing changes: {then} all its packets the same verdict, {own}")
            }
            _ => "undecided: the question about this rule exceeds its cap (--max-work, --max-total-work)".to_owned(),
        }
    }

    /// Returns the fields of the schema that a packet belongs to.
    fn fields(&self, packet: &FieldValues) -> &[Field] {
        self.loaded.file.rules.schema(packet.family).map_or(&[], |schema| schema.fields())
    }
}
