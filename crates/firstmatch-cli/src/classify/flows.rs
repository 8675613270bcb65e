//! Flow logs: rows by their fate, in the answer and as warnings.

use std::collections::BTreeMap;
use std::io::{self, Write};

use firstmatch_core::Diagnostic;
use firstmatch_core::schema::Source;
use firstmatch_net::source::{FlowCounts, FlowFormat, Flows};
use firstmatch_net::wire::Batch;
use serde::Serialize;

use crate::format::{BOLD, counted, thousands};

/// Rows of flow logs by their fate.
#[derive(Debug, Serialize)]
pub(super) struct FlowReport {
    /// Rows that were read.
    rows: u64,
    flows: u64,
    /// Rows of flows that earlier rows have counted.
    continued: u64,
    ways_back: u64,
    /// Packets of all flows and ways back.
    pub(super) packets: u64,
    without_traffic: u64,
    without_address: u64,
    malformed: u64,
    /// Flows by the fields that rules test and their log lacks.
    unknown_fields: BTreeMap<&'static str, u64>,
}

impl FlowReport {
    pub(super) fn new(counts: &FlowCounts, packets: u64) -> Self {
        let FlowCounts { read, without_traffic, without_address, malformed, flows, continued, ways_back, .. } = *counts;
        let unknown_fields = counts.unknown_fields().map(|(source, count)| (source.name(), count)).collect();
        Self {
            rows: read,
            flows,
            continued,
            ways_back,
            packets,
            without_traffic,
            without_address,
            malformed,
            unknown_fields,
        }
    }

    /// Prints the rows in words.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let parts = [
            (self.flows, "flow"),
            (self.continued, "of flows that go on"),
            (self.without_traffic, "without traffic"),
            (self.without_address, "without address"),
            (self.malformed, "malformed"),
        ];
        let part = |&(count, what): &(u64, &str)| match what {
            "flow" => counted(count, what),
            what => format!("{} {what}", thousands(count)),
        };
        let parts: Vec<String> = parts.iter().filter(|(count, _)| *count > 0).map(part).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        let rows = counted(self.rows, "row");
        writeln!(out, "\n{BOLD}log{BOLD:#}         {rows}{parts}")?;
        if self.ways_back > 0 {
            writeln!(out, "            {} ways back", thousands(self.ways_back))?;
        }
        if !self.unknown_fields.is_empty() {
            let fields = self.unknown_fields.iter().map(|(field, count)| format!("{field} {}", thousands(*count)));
            let fields: Vec<String> = fields.collect();
            writeln!(out, "            flows that lack a field of the rules: {}", fields.join(", "))?;
        }
        Ok(())
    }
}

/// Returns the warnings about a flow log: malformed rows, rules that test what no flow has, and an option without effect.
pub(super) fn warnings(name: &str, flows: &Flows, batch: &Batch, both_ways: bool) -> Vec<String> {
    let (counts, mut warnings) = (flows.counts(), Vec::new());
    if both_ways && counts.flows > 0 && matches!(flows.format(), FlowFormat::Aws | FlowFormat::Gcp) {
        let log = flows.format().name();
        warnings.push(format!("{name}: --both-ways changes nothing, because a row of {log} has one direction"));
    }
    if let Some(first) = &counts.first_malformed {
        let rows = counted(counts.malformed, "row");
        let was = if counts.malformed == 1 { "was" } else { "were" };
        let Diagnostic { line, column, message, .. } = first;
        warnings.push(format!(
            "{name}: {rows} {was} malformed and left out; the first is line {line}, column {column}: {message}"
        ));
    }
    let tests_flags = |schema| batch.extractor(schema).needed().contains(Source::TcpFlags);
    if counts.flows > 0 && (0..batch.schemas()).any(tests_flags) {
        warnings.push(format!(
            "{name}: the rules test tcp_flags, and a flow has those of all its packets together; a flow that opens is \
             decided as its SYN"
        ));
    }
    warnings
}
