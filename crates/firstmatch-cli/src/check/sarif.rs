//! Findings for code review: SARIF 2.1.0 (OASIS, 2020).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

use firstmatch_core::analyze::Kind;
use serde_json::{Value, json};

use super::{Checked, Item, json};
use crate::args::{HELD_VALUE, UNUSED_SET};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Maximum number of results, because programs that show them take no more of one run.
const MOST: usize = 5000;

pub(super) fn print(checked: &Checked<'_>, out: &mut dyn Write) -> io::Result<()> {
    let items = checked.items();
    let others = [(UNUSED_SET, "No rule uses the set"), (HELD_VALUE, "Others of a list hold a value of it")];
    let all = Kind::ALL.map(|kind| (kind.name(), description(kind))).into_iter().chain(others);
    let kinds: Vec<&str> = all.clone().map(|(kind, _)| kind).collect();
    let rules = all.map(|(kind, text)| {
        json!({ "id": kind, "shortDescription": { "text": text }, "defaultConfiguration": { "level": "warning" } })
    });
    let rules: Vec<Value> = rules.collect();
    let mut seen = HashMap::new();
    let results: Vec<Value> = items.iter().take(MOST).map(|item| result(checked, item, &kinds, &mut seen)).collect();
    let mut notes = Vec::new();
    if !checked.report.is_complete() {
        notes.push(
            json!({ "level": "warning", "message": { "text": "some questions exceed their cap and are undecided" } }),
        );
    }
    if items.len() > MOST {
        let text = format!("the first {MOST} of {} findings are listed", items.len());
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
        Kind::Overlap => "An earlier rule of another verdict takes packets of the rule",
        _ => "A cap ended a question about the rule",
    }
}

fn result(checked: &Checked<'_>, item: &Item<'_>, kinds: &[&str], seen: &mut HashMap<u64, usize>) -> Value {
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
    let related = item.by.iter().enumerate().map(|(id, &rule)| {
        let text = format!("this rule: {}", checked.verdict(rule));
        json!({ "id": id, "physicalLocation": place(checked.line(rule)), "message": { "text": text } })
    });
    // The text of the rule, not its line, so that a finding keeps its identity when lines move.
    let mut hasher = DefaultHasher::new();
    (item.kind, &item.text).hash(&mut hasher);
    let count = seen.entry(hasher.finish()).or_insert(0);
    *count += 1;
    json!({
        "ruleId": item.kind,
        "ruleIndex": kinds.iter().position(|kind| *kind == item.kind),
        "level": if checked.is_severe(item) { "warning" } else { "note" },
        "message": { "text": item.message },
        "locations": [{ "physicalLocation": place(item.line) }],
        "relatedLocations": related.collect::<Vec<_>>(),
        "partialFingerprints": { "rule/v1": format!("{:016x}:{count}", hasher.finish()) },
        "properties": { "packet": item.packet.map(|packet| json::packet(checked.fields(packet), packet)) },
    })
}
