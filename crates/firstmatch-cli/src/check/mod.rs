//! Command `firstmatch check`: rules that never decide, and rules that change no verdict.

mod json;
mod lines;
mod sarif;
mod text;

use std::collections::BTreeMap;

pub(crate) use json::packet;

use firstmatch::show;
use firstmatch_core::analyze::{Analysis, Config, Finding, HeldValue, Kind, Overlapping, Report, held_values};
use firstmatch_core::policy::Verdict;
use firstmatch_core::rule::{FieldValues, Rule};
use firstmatch_core::schema::{Family, Field};
use firstmatch_core::{Diagnostic, RuleId};
use firstmatch_formats::visible;

use crate::args::{CheckArgs, HELD_VALUE, UNUSED_SET};
use crate::rules::{self, Loaded};
use crate::{End, answer_to};

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<End> {
    let Some(loaded) = rules::load_quietly(&args.rules, args.reading())? else {
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
    let overlapping = args.overlaps.then(|| analysis.clone().overlaps(MOST_OVERLAPS));
    let checked = Checked::new(&loaded, analysis.check(), overlapping, &args.only);
    let mut out = answer_to(false);
    match (args.json, args.sarif) {
        (true, _) => json::print(&checked, &mut out)?,
        (_, true) => sarif::print(&checked, &mut out)?,
        _ => text::print(&checked, &mut out)?,
    }
    let fails = |item: &Item<'_>| args.fail_on.is_empty() || args.fail_on.contains(&item.kind);
    let is_bad = checked.items().iter().any(fails);
    Ok(if is_bad { End::BadAnswer } else { End::Done })
}

/// Maximum number of pairs of overlapping rules that are looked for.
const MOST_OVERLAPS: usize = 1000;

/// Finding as it is shown.
struct Item<'a> {
    kind: &'static str,
    line: u32,
    /// Text of the rule or set.
    text: String,
    /// Sentence about it, without its place.
    message: String,
    /// Rule that it is about; `None` for a set.
    rule: Option<RuleId>,
    /// Rules that cause it.
    by: &'a [RuleId],
    packet: Option<&'a FieldValues>,
    /// Whether the rule must stay, see [`Finding::must_stay`].
    must_stay: bool,
}

/// Report with the rules that it is about.
struct Checked<'a> {
    loaded: &'a Loaded,
    report: Report,
    held: Vec<HeldValue>,
    /// Whether more rules overlap than were looked for.
    has_more_overlaps: bool,
    /// Warnings of the rule file, by line.
    warnings: BTreeMap<u32, &'a Diagnostic>,
    /// Kinds that are shown; all if empty.
    only: &'a [&'static str],
}

impl<'a> Checked<'a> {
    fn new(loaded: &'a Loaded, mut report: Report, overlapping: Option<Overlapping>, only: &'a [&'static str]) -> Self {
        let warnings = loaded.file.warnings.iter().map(|warning| (warning.line, warning)).collect();
        let overlapping = overlapping.unwrap_or_default();
        report.findings.extend(overlapping.findings());
        report.undecided += overlapping.undecided;
        if loaded.goes_by_line() {
            lines::merge(&mut report, loaded);
        }
        let mut checked = Self {
            loaded,
            report,
            held: held_values(&loaded.file.rules),
            has_more_overlaps: overlapping.has_more,
            warnings,
            only: &[],
        };
        // Other warnings are about rules that have no finding.
        let found: Vec<u32> = checked.items().iter().map(|item| item.line).collect();
        loaded.show_warnings_but(|warning| found.contains(&warning.line));
        checked.only = only;
        checked
    }

    /// Returns the findings, the sets that no rule uses and the values that others hold, in the order of lines.
    fn items(&self) -> Vec<Item<'_>> {
        let mut items: Vec<Item<'_>> = Vec::new();
        for finding in &self.report.findings {
            let (kind, line) = (finding.kind.name(), self.line(finding.rule));
            let (text, message) = (self.loaded.text_of(self.rule(finding.rule)), self.message(finding));
            let (rule, by, packet) = (Some(finding.rule), &finding.by[..], finding.packet.as_ref());
            items.push(Item { kind, line, text, message, rule, by, packet, must_stay: finding.must_stay });
        }
        // One finding a list, because a list may have thousands of values and its rule as many characters.
        for of_list in self.held.chunk_by(|one, other| (one.rule, one.field) == (other.rule, other.field)) {
            let held = &of_list[0];
            let (line, text) = (self.line(held.rule), self.loaded.text_of(self.rule(held.rule)));
            let (kind, rule, by, message) =
                (HELD_VALUE, Some(held.rule), &[][..], self.held_message(held, of_list.len() - 1));
            items.push(Item { kind, line, text, message, rule, by, packet: None, must_stay: false });
        }
        for &line in &self.loaded.file.unused_sets {
            let Some(warning) = self.warnings.get(&line) else { continue };
            let (text, message) = (visible(warning.text.trim()).into_owned(), warning.message.clone());
            let (kind, by) = (UNUSED_SET, &[][..]);
            items.push(Item { kind, line, text, message, rule: None, by, packet: None, must_stay: false });
        }
        items.retain(|item| self.only.is_empty() || self.only.contains(&item.kind));
        items.sort_by_key(|item| (item.line, item.rule.map(|rule| self.rule(rule).priority)));
        items
    }

    /// Whether an item may mean that the file does something else than intended.
    fn is_severe(&self, item: &Item<'_>) -> bool {
        let Some(rule) = item.rule else { return false };
        item.kind == Kind::Unmatchable.name() || item.by.iter().any(|&by| self.verdict(by) != self.verdict(rule))
    }

    fn rule(&self, id: RuleId) -> &'a Rule {
        self.loaded.rule(id).expect("the analysis names rules of the set")
    }

    fn line(&self, id: RuleId) -> u32 {
        self.loaded.line_of(self.rule(id))
    }

    fn verdict(&self, id: RuleId) -> Verdict {
        self.rule(id).action.into()
    }

    /// Returns the number of findings of each kind that occurred.
    fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.items().iter().for_each(|item| *counts.entry(item.kind).or_insert(0) += 1);
        counts
    }

    /// Returns the sentence about a value that others of its list hold.
    fn held_message(&self, held: &HeldValue, more: usize) -> String {
        let condition = self.rule(held.rule).conditions.on(held.field).expect("the analysis names conditions");
        let schema = |family: Option<Family>| {
            let all = self.loaded.file.rules.schemas().iter();
            all.clone().find(|schema| family.is_none() || schema.family() == family).or(all.clone().next())
        };
        let text = |index: usize| {
            let (family, test) = condition.tests().nth(index)?;
            let field = &schema(family)?.fields()[held.field];
            Some((field.name(), show::test(test, family, field)))
        };
        let Some((field, value)) = text(held.test) else { return String::new() };
        let message = match held.by.and_then(text) {
            Some((_, by)) if by == value => format!("{value} is twice in the list of `{field}`"),
            Some((_, by)) => format!("{value} is in the list of `{field}` although {by} holds it"),
            None => format!("{value} is in the list of `{field}` although others of the list hold it together"),
        };
        if more == 0 { message } else { format!("{message}; others hold {more} more of its values") }
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
        let message = match finding.kind {
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
            Kind::Overlap => {
                format!("{causes} {} packets from this rule{but}", if lines.len() == 1 { "takes" } else { "take" })
            }
            Kind::Redundant => {
                let then = match lines.is_empty() {
                    true => "later rules or the default give".to_owned(),
                    false => format!("{causes} and those between give"),
                };
                let then = if finding.by.len() == 1 { format!("{causes} gives") } else { then };
                format!("without this rule nothing changes: {then} all its packets the same verdict, {own}")
            }
            _ if self.report.beyond.contains(&finding.rule) => {
                "undecided: this rule exceeds the limits on regions (--max-regions-per-rule, --max-regions)".to_owned()
            }
            _ => "undecided: the question about this rule exceeds its cap (--max-work, --max-total-work)".to_owned(),
        };
        let stays = "; it must stay, because it makes packets unknown that hide what it tests";
        let view = if self.loaded.has_views() { "in this view, " } else { "" };
        view.to_owned() + &message + if finding.must_stay { stays } else { "" }
    }

    /// Returns the fields of the schema that a packet belongs to.
    fn fields(&self, packet: &FieldValues) -> &[Field] {
        self.loaded.file.rules.schema(packet.family).map_or(&[], |schema| schema.fields())
    }
}
