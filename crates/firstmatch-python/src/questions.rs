//! Tables about rules: all of them, those that decide nothing, and differences of two policies.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::Schema;
use firstmatch::core::analyze::{self, Config, Differences};
use firstmatch::core::rule::{FieldValues, RuleSet};
use firstmatch::{RuleId, Verdict, show};
use pyo3::PyResult;

use crate::error::{RuleError, refused};
use crate::firewall::Firewall;
use crate::table::column;

/// Returns the text of a rule as one line.
pub(crate) fn text_of(rule: &str) -> String {
    rule.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<_> = columns.iter().map(|(name, array)| column(name, array.data_type().clone())).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length")
}

fn texts<T: AsRef<str>>(of: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(of.into_iter().collect::<StringArray>())
}

fn lines(of: impl Iterator<Item = Option<u32>>) -> ArrayRef {
    Arc::new(of.map(|line| line.map(|line| line as i32)).collect::<Int32Array>())
}

fn ids(of: impl Iterator<Item = Option<RuleId>>) -> ArrayRef {
    Arc::new(of.map(|id| id.map(|id| id.get() as i64)).collect::<Int64Array>())
}

/// Line and verdict of live rules, by id.
type Known = HashMap<RuleId, (Option<u32>, Verdict)>;

fn known<'a>(rules: impl Iterator<Item = &'a firstmatch::core::rule::Rule>) -> Known {
    rules.map(|rule| (rule.id, (rule.line.map(u32::from), rule.action.into()))).collect()
}

/// Returns the live rules, the first to match first.
pub(crate) fn rules(firewall: &firstmatch::Firewall) -> RecordBatch {
    let all = firewall.rules();
    batch(vec![
        ("line", lines(all.iter().map(|rule| rule.line.map(u32::from)))),
        ("rule", ids(all.iter().map(|rule| Some(rule.id)))),
        ("verdict", texts(all.iter().map(|rule| Some(rule.action.to_string())))),
        ("label", texts(all.iter().map(|rule| rule.label.as_deref()))),
        ("text", texts(all.iter().map(|rule| rule.text.as_deref().map(text_of)))),
    ])
}

/// Returns the rules that never decide, and those without which no verdict changes.
pub(crate) fn check(firewall: &firstmatch::Firewall) -> PyResult<RecordBatch> {
    let known = known(firewall.update().rules());
    let report = firewall.check().map_err(|error| refused(&error))?;
    let of = |id: RuleId| known.get(&id).copied();
    let line =
        |id: &RuleId| of(*id).and_then(|(line, _)| line).map_or_else(|| format!("rule {id}"), |line| line.to_string());
    let found = &report.findings;
    Ok(batch(vec![
        ("kind", texts(found.iter().map(|it| Some(it.kind.name())))),
        ("line", lines(found.iter().map(|it| of(it.rule).and_then(|(line, _)| line)))),
        ("rule", ids(found.iter().map(|it| Some(it.rule)))),
        ("verdict", texts(found.iter().map(|it| of(it.rule).map(|(_, verdict)| verdict.to_string())))),
        ("by", texts(found.iter().map(|it| Some(it.by.iter().map(line).collect::<Vec<_>>().join(", "))))),
        ("must_stay", Arc::new(found.iter().map(|it| Some(it.must_stay)).collect::<BooleanArray>())),
        ("text", texts(found.iter().map(|it| firewall.rule(it.rule).map(|text| text_of(&text))))),
        ("packet", texts(found.iter().map(|it| it.packet.as_ref().map(|packet| example(&firewall.schemas(), packet))))),
    ]))
}

fn example(schemas: &[firstmatch::core::Schema], packet: &FieldValues) -> String {
    let schema = schemas.iter().find(|schema| schema.family() == packet.family).unwrap_or(&schemas[0]);
    show::values(schema, packet, &[]).join("; ")
}

/// Returns the pairs of rules by which two policies give some packet different verdicts; none if there is no such
/// packet.
pub(crate) fn diff(before: &Firewall, after: &Firewall) -> PyResult<RecordBatch> {
    let (one, other) = (before.reread()?, after.reread()?);
    let (found, sides) = match (&one, &other) {
        (Some(one), Some(other)) => {
            let sides = [&one.rules, &other.rules].map(|rules: &RuleSet| known(rules.iter()));
            if !analyze::comparable(&one.rules, &other.rules) {
                return Err(RuleError::new_err("rules over different schemas of their own cannot be compared"));
            }
            let found = analyze::diff((&one.rules, &one.policy), (&other.rules, &other.policy), &Config::default());
            (found.map_err(|error| RuleError::new_err(error.to_string()))?, sides)
        }
        _ => {
            let sides = [before, after].map(|side| known(side.inner.update().rules()));
            (before.inner.diff(&after.inner, 0).map_err(|error| refused(&error))?, sides)
        }
    };
    Ok(differences(&found, &sides))
}

/// A difference, as a row of the table.
struct Row {
    kind: &'static str,
    rules: [Option<RuleId>; 2],
    verdicts: [Option<Verdict>; 2],
    packets: Option<&'static str>,
    packet: Option<String>,
}

fn differences(found: &Differences, sides: &[Known; 2]) -> RecordBatch {
    let mut rows: Vec<Row> = Vec::new();
    for pair in &found.pairs {
        let packet = Some(example(&found.schemas, &pair.packet));
        rows.push(Row { kind: "rules", rules: pair.rules, verdicts: pair.verdicts.map(Some), packets: None, packet });
    }
    for of in &found.one_sided {
        let mut rules = [None; 2];
        rules[of.side] = of.rule;
        let packet = Some(show::values(&found.schemas[of.schema], &of.packet, &of.hidden).join("; "));
        let packets = Some(of.packets);
        rows.push(Row { kind: "one-sided", rules, verdicts: of.verdicts.map(Some), packets, packet });
    }
    if let Some(verdicts) = found.unknown {
        let packets = Some("packets that neither classifies");
        rows.push(Row { kind: "unknown", rules: [None; 2], verdicts: verdicts.map(Some), packets, packet: None });
    }
    let undecided = |packets| Row {
        kind: "undecided",
        rules: [None; 2],
        verdicts: [None; 2],
        packets: Some(packets),
        packet: None,
    };
    rows.extend(found.needs_differ.iter().map(|_| undecided("packets that hide a field which only one tests")));
    rows.extend((0..found.undecided).map(|_| undecided("a question that exceeded its limit")));
    let beyond = found.beyond.iter().flatten();
    rows.extend(beyond.map(|_| undecided("a rule that exceeds the limits on regions")));
    let line = |side: usize, row: &Row| row.rules[side].and_then(|id| sides[side].get(&id)?.0);
    let verdict = |side: usize, row: &Row| row.verdicts[side].map(|verdict| verdict.to_string());
    batch(vec![
        ("kind", texts(rows.iter().map(|row| Some(row.kind)))),
        ("line_before", lines(rows.iter().map(|row| line(0, row)))),
        ("line_after", lines(rows.iter().map(|row| line(1, row)))),
        ("verdict_before", texts(rows.iter().map(|row| verdict(0, row)))),
        ("verdict_after", texts(rows.iter().map(|row| verdict(1, row)))),
        ("packets", texts(rows.iter().map(|row| row.packets))),
        ("packet", texts(rows.iter().map(|row| row.packet.as_deref()))),
    ])
}
