//! Summary of the answer for people.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{self, Write};

use super::report::{Report, RuleCacheCounts, RuleHits, Timing};
use super::system::{StageReport, SystemReport};
use super::tally::Count;
use super::what_if::{AuditHits, WhatIfReport};
use crate::format::{BOLD, DIM, Table, bytes, clip, counted, percent, short, thousands};
use crate::rules::Loaded;

/// Maximum number of characters of a rule's text that are shown.
const RULE_WIDTH: usize = 72;

pub(super) fn print(report: &Report, loaded: &Loaded, top: usize, out: &mut dyn Write) -> io::Result<()> {
    let size = if report.is_trace { String::new() } else { format!(", {}", bytes(report.bytes)) };
    let packets = counted(report.packets, report.unit());
    let inside =
        report.flows.as_ref().map_or(String::new(), |flows| format!(" of {}", counted(flows.packets, "packet")));
    writeln!(out, "{BOLD}{}{BOLD:#}: {packets}{inside}{size}", report.input)?;
    let memory: usize = report.engines.iter().map(|engine| engine.bytes).sum();
    let rules = counted(report.rules as u64, "rule");
    writeln!(out, "{BOLD}{}{BOLD:#}: {rules}; {} in {}", loaded.name, report.engine, bytes(memory as u64))?;

    let verdicts = report.by_verdict.iter().map(|(name, &count)| (name.clone(), count)).collect();
    counts(report, "verdict", verdicts, out)?;
    let policy = &loaded.file.policy;
    let mut asides = Vec::new();
    if report.unmatched > 0 {
        asides.push(format!("{} matched no rule: {}", thousands(report.unmatched), policy.default));
    }
    if report.unknown > 0 {
        asides.push(format!("{} could not be classified: {}", thousands(report.unknown), policy.unknown));
    }
    if !asides.is_empty() {
        writeln!(out, "{DIM}{}{DIM:#}", asides.join("; "))?;
    }
    let outcomes = report.by_outcome.iter().map(|&(outcome, count)| (outcome.to_string(), count)).collect();
    counts(report, "outcome", outcomes, out)?;
    top_rules(report, loaded, top, out)?;
    if let Some(flows) = &report.flows {
        flows.print(out)?;
    }
    audit(report, out)?;
    speed(report, out)?;
    report.systems.iter().try_for_each(|of| system(of, out))?;
    if let Some(what_if) = &report.what_if {
        changes(report, what_if, top, out)?;
    }
    if let Some(check) = &report.check {
        let checked = counted(check.packets, report.unit());
        match check.differences {
            0 => writeln!(out, "{BOLD}check{BOLD:#}       the oracle agrees on {checked}")?,
            n => writeln!(
                out,
                "{BOLD}check       FAILED: the oracle disagrees on {} of {checked}{BOLD:#}",
                thousands(n)
            )?,
        }
    }
    for warning in &report.warnings {
        writeln!(out, "{BOLD}warning{BOLD:#}     {warning}")?;
    }
    out.flush()
}

/// Prints a table of packets by `what`, the rows with most packets first.
fn counts(report: &Report, what: &str, mut rows: Vec<(String, Count)>, out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_by_key(|(_, count)| Reverse(count.packets));
    writeln!(out)?;
    let share = |count: &Count| percent(count.packets, report.packets);
    if report.is_trace {
        let mut table = Table::new([what, " packets", " share"]);
        for (name, count) in rows {
            table.row([name, thousands(count.packets), share(&count)]);
        }
        return table.print(out);
    }
    if report.flows.is_some() {
        let mut table = Table::new([what, " flows", " share", " packets", " bytes"]);
        for (name, count) in rows {
            table.row([name, thousands(count.packets), share(&count), thousands(count.in_flows), bytes(count.bytes)]);
        }
        return table.print(out);
    }
    let mut table = Table::new([what, " packets", " share", " bytes"]);
    for (name, count) in rows {
        table.row([name, thousands(count.packets), share(&count), bytes(count.bytes)]);
    }
    table.print(out)
}

fn top_rules(report: &Report, loaded: &Loaded, top: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut hits: Vec<&RuleHits> = report.rule_hits.iter().collect();
    hits.sort_by_key(|hits| (Reverse(hits.packets), hits.line, hits.id));
    if hits.is_empty() || top == 0 {
        return Ok(());
    }
    writeln!(out)?;
    let shown: Vec<[String; 6]> = hits.iter().take(top).filter_map(|hits| rule_row(report, loaded, hits)).collect();
    if report.flows.is_some() {
        let mut table = Table::new(["top rules", " flows", " share", " packets", " bytes", "rule"]);
        shown.into_iter().for_each(|row| table.row(row));
        table.print(out)?;
    } else {
        let mut table = Table::new(["top rules", " packets", " share", "rule"]);
        shown.into_iter().for_each(|[place, packets, share, _, _, text]| table.row([place, packets, share, text]));
        table.print(out)?;
    }
    let others = hits.len().saturating_sub(top);
    let (all, what) = match loaded.goes_by_line() {
        true => (loaded.file.rules.iter().map(|rule| loaded.line_of(rule)).collect::<BTreeSet<_>>().len(), "line"),
        false => (report.rules, "rule"),
    };
    let idle = all - hits.len();
    let idle = match idle {
        0 => String::new(),
        idle => format!("{} matched no {}", counted(idle as u64, what), report.unit()),
    };
    match (others, idle.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => writeln!(out, "{DIM}{idle}{DIM:#}"),
        (_, true) => writeln!(out, "{DIM}and {} more{DIM:#}", thousands(others as u64)),
        (_, false) => writeln!(out, "{DIM}and {} more; {idle}{DIM:#}", thousands(others as u64)),
    }
}

/// Returns place, packets, share, packets of flows, bytes and text of a rule.
fn rule_row(report: &Report, loaded: &Loaded, hits: &RuleHits) -> Option<[String; 6]> {
    let rule = loaded.rule(hits.in_file)?;
    let (share, text) = (percent(hits.packets, report.packets), clip(&loaded.text_of(rule), RULE_WIDTH));
    let in_flows = thousands(hits.flow_packets.unwrap_or(0));
    Some([loaded.place(rule), thousands(hits.packets), share, in_flows, bytes(hits.bytes), text])
}

/// Prints how many packets each audit rule would decide.
fn audit(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.audit.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(["audit rules", " packets", " changed", "rule"]);
    for AuditHits { line, packets, changed_packets, text, .. } in &report.audit {
        let place = format!("{}:{line}", report.rules_file);
        table.row([place, thousands(*packets), thousands(*changed_packets), clip(text, RULE_WIDTH)]);
    }
    table.print(out)
}

/// Prints the packets that the other rules decide differently, by pair of rules.
pub(super) fn changes(report: &Report, what_if: &WhatIfReport, top: usize, out: &mut dyn Write) -> io::Result<()> {
    let packets = counted(what_if.packets, report.unit());
    let share = percent(what_if.packets, report.packets);
    writeln!(out, "\n{BOLD}what if{BOLD:#}     under {} {packets} ({share}) get another verdict", what_if.rules_file)?;
    if what_if.pairs.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(["verdict", "under the other rules", " packets", " share"]);
    for pair in what_if.pairs.iter().take(top) {
        let (before, after) = (pair.before.text(&report.rules_file), pair.after.text(&what_if.rules_file));
        table.row([before, after, thousands(pair.packets), percent(pair.packets, report.packets)]);
    }
    table.print(out)?;
    match what_if.pairs.len().saturating_sub(top) {
        0 => Ok(()),
        more => writeln!(out, "{DIM}and {} more{DIM:#}", counted(more as u64, "pair")),
    }
}

/// Prints the figures of a system of threads.
fn system(of: &SystemReport, out: &mut dyn Write) -> io::Result<()> {
    let threads: Vec<String> = of.threads.iter().map(usize::to_string).collect();
    let (threads, family) = (threads.join("-"), of.family.map_or(String::new(), |family| format!(", {family}")));
    let passes = counted(of.passes as u64, "pass").replace("passs", "passes");
    writeln!(out, "{BOLD}system{BOLD:#}      {} {threads} over {}{family}", of.system, of.engine)?;
    writeln!(
        out,
        "            {:.1} ns a packet, {:.1} ns of CPU ({} in {passes}); the engine alone {:.1} ns",
        of.wall_ns,
        of.cpu_ns,
        counted(of.packets, "packet"),
        of.alone_ns
    )?;
    let stage = |stage: &StageReport| format!("{} × {} {}", stage.name, stage.workers, thousands(stage.packets));
    let stages: Vec<String> = of.stages.iter().map(stage).collect();
    writeln!(out, "            {DIM}packets by stage: {}{DIM:#}", stages.join(", "))?;
    if let Some(hits) = of.box_hits {
        let all = of.packets * of.passes as u64;
        writeln!(out, "            {DIM}boxes answered {} ({}){DIM:#}", thousands(hits), percent(hits, all))?;
    }
    match of.different {
        0 => writeln!(out, "            every answer is that of the engine alone"),
        count => writeln!(
            out,
            "            {BOLD}{} differ from those of the engine alone{BOLD:#}",
            counted(count, "answer")
        ),
    }
}

fn speed(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    let unit = report.unit();
    if let Some(nanos) = report.ns_per_packet {
        let rate = short(1e9 / nanos.max(f64::MIN_POSITIVE));
        let how = match &report.timing {
            Timing::Passes { passes, fastest_ns, slowest_ns } => {
                let (fastest, slowest) = (fastest_ns.unwrap_or(nanos), slowest_ns.unwrap_or(nanos));
                format!(
                    "; the median of {}, {fastest:.1} to {slowest:.1}",
                    counted(*passes as u64, "pass").replace("passs", "passes")
                )
            }
            Timing::Stretches { .. } => String::new(),
        };
        writeln!(out, "{BOLD}classifier{BOLD:#}  {nanos:.1} ns a {unit} ({rate} {unit}s/s{how})")?;
    }
    if let Some(RuleCacheCounts { hits, misses, passed_by, samples, boxes }) = report.rule_cache {
        let all = thousands(hits + misses + passed_by);
        let from =
            format!("{} from {}", counted(boxes as u64, "box").replace("boxs", "boxes"), counted(samples, "sample"));
        let past = thousands(passed_by);
        writeln!(
            out,
            "{BOLD}rule cache{BOLD:#}  {} of {all} lookups hit, {past} went past it; {from}",
            thousands(hits)
        )?;
    }
    if let Some(rate) = report.packets_per_second {
        writeln!(out, "{BOLD}end to end{BOLD:#}  {} {unit}s/s ({:.3} s)", short(rate), report.seconds)?;
    }
    Ok(())
}
