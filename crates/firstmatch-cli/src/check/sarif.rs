//! Findings for code review: SARIF 2.1.0 (OASIS, 2020).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

use firstmatch_core::analyze::{Finding, Kind};
use serde_json::{Value, json};

use super::{Checked, json};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Most results, because programs that show them take no more of one run.
const MOST: usize = 5000;

pub(super) fn print(checked: &Checked<'_>, out: &mut dyn Write) -> io::Result<()> {
    let findings = &checked.report.findings;
    let rules = Kind::ALL.map(|kind| {
        json!({ "id": kind.name(), "shortDescription": { "text": description(kind) }, "defaultConfiguration": { "level": "warning" } })
    });
    let mut seen = HashMap::new();
    let results: Vec<Value> = findings.iter().take(MOST).map(|finding| result(checked, finding, &mut seen)).collect();
    let mut notes = Vec::new();
    if !checked.report.is_complete() {
        notes.push(
            json!({ "level": "warning", "message": { "text": "some questions exceed their cap and are undecided" } }),
        );
    }
    if findings.len() > MOST {
        let text = format!("the first {MOST} of {} findings are listed", findings.len());
        notes.push(json!({ "level": "warning", "message": { "text": text } }));
    }
    let value = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "firstmatch", "version": env!("CARGO_PKG_VERSION"), "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{ "executionSuccessful": true, "toolExecutionNotifications": notes }],
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}

fn description(kind: Kind) -> &'static str {
    match kind {
        Kind::Unmatchable => "No packet meets the rule's conditions",
        Kind::Duplicate => "An earlier rule has the same conditions",
        Kind::Shadowed => "Earlier rules take all packets of the rule",
        Kind::Redundant => "Without the rule no verdict changes",
        _ => "A cap ended a question about the rule",
    }
}

fn result(checked: &Checked<'_>, finding: &Finding, seen: &mut HashMap<u64, usize>) -> Value {
    let own = checked.verdict(finding.rule);
    let is_severe = finding.kind == Kind::Unmatchable || finding.by.iter().any(|&rule| checked.verdict(rule) != own);
    let place = |line: u32| {
        let uri = checked.loaded.name.replace('\\', "/");
        // A rule without a line has a location without a region.
        let region = (line > 0).then(|| json!({ "startLine": line }));
        let mut location = json!({ "artifactLocation": { "uri": uri } });
        if let Some(region) = region {
            location["region"] = region;
        }
        location
    };
    let related = finding.by.iter().enumerate().map(|(id, &rule)| {
        let text = format!("this rule: {}", checked.verdict(rule));
        json!({ "id": id, "physicalLocation": place(checked.line(rule)), "message": { "text": text } })
    });
    // The text of the rule, not its line, so that a finding stays the same when lines move.
    let mut hasher = DefaultHasher::new();
    (finding.kind.name(), checked.loaded.text_of(checked.rule(finding.rule))).hash(&mut hasher);
    let count = seen.entry(hasher.finish()).or_insert(0);
    *count += 1;
    json!({
        "ruleId": finding.kind.name(),
        "ruleIndex": Kind::ALL.iter().position(|kind| *kind == finding.kind),
        "level": if is_severe { "warning" } else { "note" },
        "message": { "text": checked.message(finding) },
        "locations": [{ "physicalLocation": place(checked.line(finding.rule)) }],
        "relatedLocations": related.collect::<Vec<_>>(),
        "partialFingerprints": { "rule/v1": format!("{:016x}:{count}", hasher.finish()) },
        "properties": { "packet": finding.packet.as_ref().map(|packet| json::packet(checked.fields(packet), packet)) },
    })
}
