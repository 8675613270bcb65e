//! Findings for people.

use std::io::{self, Write};

use firstmatch::show;

use super::Checked;
use crate::format::{BOLD, DIM, clip, counted};

/// Most characters of a rule's text that are shown.
const RULE_WIDTH: usize = 100;

pub(super) fn print(checked: &Checked<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Checked { loaded, report, .. } = checked;
    for finding in &report.findings {
        let rule = checked.rule(finding.rule);
        writeln!(out, "{BOLD}{}{BOLD:#}: {}", loaded.place(rule), checked.message(finding))?;
        writeln!(out, "    {}", clip(&loaded.text_of(rule), RULE_WIDTH))?;
        let schema = finding.packet.as_ref().and_then(|packet| loaded.file.rules.schema(packet.family));
        if let (Some(packet), Some(schema)) = (&finding.packet, schema) {
            let lines = show::values(schema, packet);
            writeln!(out, "    {DIM}for example {}{DIM:#}", lines.join("; "))?;
        }
    }
    if !report.findings.is_empty() {
        writeln!(out)?;
    }
    let counts = checked.counts();
    let found: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let found = if found.is_empty() { "nothing found".to_owned() } else { found.join(", ") };
    let complete = if report.is_complete() { "complete" } else { "not complete" };
    writeln!(out, "{BOLD}{}{BOLD:#}: {}; {found}; {complete}", loaded.name, counted(report.rules as u64, "rule"))?;
    out.flush()
}
