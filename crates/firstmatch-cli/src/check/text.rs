//! Findings for people.

use std::io::{self, Write};

use firstmatch::show;

use super::Checked;
use crate::format::{BOLD, DIM, clip, counted};

/// Maximum number of characters of a rule's text that are shown.
const RULE_WIDTH: usize = 100;

pub(super) fn print(checked: &Checked<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Checked { loaded, report, .. } = checked;
    let items = checked.items();
    for item in &items {
        writeln!(out, "{BOLD}{}:{}{BOLD:#}: {}", loaded.name, item.line, item.message)?;
        writeln!(out, "    {}", clip(&item.text, RULE_WIDTH))?;
        let schema = item.packet.and_then(|packet| loaded.file.rules.schema(packet.family));
        if let (Some(packet), Some(schema)) = (item.packet, schema) {
            let lines = show::values(schema, packet, &[]);
            writeln!(out, "    {DIM}for example {}{DIM:#}", lines.join("; "))?;
        }
    }
    if checked.has_more_overlaps {
        writeln!(out, "{DIM}more rules overlap than these{DIM:#}")?;
    }
    if !items.is_empty() {
        writeln!(out)?;
    }
    let counts = checked.counts();
    let found: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let found = if found.is_empty() { "nothing found".to_owned() } else { found.join(", ") };
    let complete = if report.is_complete() { "complete" } else { "not complete" };
    writeln!(out, "{BOLD}{}{BOLD:#}: {}; {found}; {complete}", loaded.name, counted(report.rules as u64, "rule"))?;
    out.flush()
}
