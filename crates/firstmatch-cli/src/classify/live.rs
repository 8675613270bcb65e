//! The answer of the commands on live traffic, in the form in which `classify` gives its own.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use firstmatch::{Firewall, RuleId, Verdict};
use firstmatch_core::rule::Rule;
use firstmatch_core::{Schema, Stats, live};
use firstmatch_live::Counts;
use firstmatch_live::path::Statistics;
use firstmatch_net::wire::Outcome;
use serde::Serialize;

use super::report::{EngineStats, Report, RuleHits, Timing};
use super::summary;
use super::tally::Count;
use crate::args::LiveArgs;
use crate::diagnostics;
use crate::format::{BOLD, DIM, counted, thousands};
use crate::rules::Loaded;

/// Figures of an interface that was watched.
#[derive(Debug, Serialize)]
struct LiveReport {
    #[serde(flatten)]
    report: Report,
    losses: Losses,
    interfaces: Vec<OfInterface>,
    reloads: Reloads,
    generation: u64,
    /// Packets decided by rules that are no longer in the file.
    removed_rules_packets: u64,
}

/// Frames of an interface: `received` is the sum of `decided` and `lost`.
#[derive(Debug, Serialize)]
struct Losses {
    received: u64,
    decided: u64,
    /// Frames that found the ring full.
    lost: u64,
    /// Decided frames of which only the first part was received.
    cut: u64,
    /// Decided frames whose checksum the sender has left to the network card.
    unfinished_checksums: u64,
    /// Samples of denied packets that were not written, because the writer was behind.
    samples_dropped: u64,
    #[serde(flatten)]
    forwarded: Forwarded,
}

/// Frames that were sent on: `sent` and `unsent` are those permitted and whole, and those undecided.
#[derive(Clone, Copy, Debug, Serialize)]
struct Forwarded {
    sent: u64,
    /// Frames that the kernel has refused to send.
    unsent: u64,
    /// Frames that passed without rules, after a panic.
    undecided: u64,
}

/// Frames that came from one interface.
#[derive(Debug, Serialize)]
struct OfInterface {
    name: String,
    received: u64,
    decided: u64,
    lost: u64,
    denied: u64,
    #[serde(flatten)]
    forwarded: Forwarded,
}

/// Number of times that the rules were read anew, by the result.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Reloads {
    pub(crate) done: u64,
    pub(crate) refused: u64,
}

/// Frames of an interface, and the rules at the end.
pub(crate) struct Watched<'a> {
    pub(crate) args: &'a LiveArgs,
    /// Name of the interface.
    pub(crate) input: String,
    pub(crate) loaded: &'a Loaded,
    pub(crate) firewall: &'a Firewall,
    /// Schemas and figures of the engines, where they are not the firewall's.
    pub(crate) engines: Option<&'a [(Schema, Stats)]>,
    /// Rules in service, each with its id there and as it is in the file.
    pub(crate) rules: Vec<(RuleId, &'a Rule)>,
    pub(crate) counts: Counts,
    pub(crate) statistics: Statistics,
    /// The same by the interface that frames came from.
    pub(crate) interfaces: Vec<(String, Counts, Statistics)>,
    pub(crate) reloads: Reloads,
    pub(crate) wall: Duration,
    pub(crate) warnings: Vec<String>,
}

impl Watched<'_> {
    /// Prints the answer as JSON or for people.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let report = self.report();
        if self.args.json {
            // The summary shows the warnings itself.
            self.warnings.iter().for_each(|warning| diagnostics::warning(warning));
            serde_json::to_writer_pretty(&mut *out, &report)?;
            return writeln!(out);
        }
        summary::print(&report.report, self.loaded, self.args.top, out)?;
        report.print(out)
    }

    fn report(&self) -> LiveReport {
        let Self { args, loaded, firewall, counts, statistics, .. } = self;
        let (mut actions, mut rule_hits, mut of_rules) = (BTreeMap::new(), Vec::new(), Count::default());
        for &(id, rule) in &self.rules {
            let count = count(firewall.count(id).unwrap_or_default());
            of_rules.add(count);
            if count.packets > 0 {
                *actions.entry(rule.action.to_string()).or_insert(0) += count.packets;
                rule_hits.push(RuleHits::new(loaded, rule, id, count));
            }
        }
        let (all, unknown, matched) = (count(counts.all()), counts.unknown().packets, count(counts.matched));
        let by_verdict: BTreeMap<_, _> =
            counts.verdicts.iter().map(|(verdict, of)| (verdict.to_string(), count(*of))).collect();
        let by_outcome = Outcome::ALL.into_iter().zip(counts.outcomes.map(count));
        let by_outcome: Vec<_> = by_outcome.filter(|(_, count)| count.packets > 0).collect();
        let seconds = self.wall.as_secs_f64();
        let report = Report {
            engine: args.engine.clone(),
            rules_file: loaded.name.clone(),
            input: self.input.clone(),
            files: Vec::new(),
            rules: loaded.file.rules.len(),
            packets: all.packets,
            bytes: all.bytes,
            matched: matched.packets,
            unmatched: all.packets - unknown - matched.packets,
            unknown,
            outcomes: by_outcome.iter().map(|(outcome, count)| (outcome.name(), count.packets)).collect(),
            actions,
            verdicts: by_verdict.iter().map(|(name, count)| (name.clone(), count.packets)).collect(),
            flows: None,
            rule_hits,
            ns_per_packet: None,
            timing: Timing::Stretches { timed_packets: 0 },
            packets_per_second: (all.packets > 0 && seconds > 0.0).then(|| all.packets as f64 / seconds),
            seconds,
            build_seconds: 0.0,
            rule_cache: None,
            systems: Vec::new(),
            engines: self.engines.map_or_else(|| EngineStats::of(firewall), EngineStats::of_system),
            check: None,
            what_if: None,
            audit: Vec::new(),
            warnings: self.warnings.clone(),
            error: None,
            is_trace: false,
            by_verdict,
            by_outcome,
        };
        let losses = Losses {
            received: statistics.received,
            decided: all.packets,
            lost: statistics.lost,
            cut: counts.cut,
            unfinished_checksums: counts.unfinished,
            samples_dropped: counts.samples_dropped,
            forwarded: Forwarded::of(counts),
        };
        let of_interface = |(name, counts, statistics): &(String, Counts, Statistics)| OfInterface {
            name: name.clone(),
            received: statistics.received,
            decided: counts.all().packets,
            lost: statistics.lost,
            denied: counts.of(Verdict::Deny).packets,
            forwarded: Forwarded::of(counts),
        };
        LiveReport {
            report,
            losses,
            interfaces: self.interfaces.iter().map(of_interface).collect(),
            reloads: self.reloads,
            generation: firewall.generation(),
            removed_rules_packets: matched.packets - of_rules.packets,
        }
    }
}

impl LiveReport {
    /// Prints the figures that `classify` has not, for people.
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let are_many = self.interfaces.len() > 1;
        for of in &self.interfaces {
            let [received, decided, lost] = [of.received, of.decided, of.lost].map(thousands);
            let name = if are_many { &of.name } else { "interface" };
            write!(out, "{BOLD}{name:<9}{BOLD:#}   {received} received = {decided} decided + {lost} lost in the ring")?;
            let Forwarded { sent, unsent, .. } = of.forwarded;
            match are_many {
                true => writeln!(out, "; {} sent on, {} refused by the kernel", thousands(sent), thousands(unsent))?,
                false => writeln!(out)?,
            }
        }
        let asides = [
            (self.losses.cut, "decided by their first part, because they are longer than the ring takes"),
            (self.losses.unfinished_checksums, "without a checksum yet, which the sender has left to its network card"),
            (self.losses.forwarded.undecided, "passed without rules, after a thread had failed"),
            (self.losses.samples_dropped, "denied but not written, because the file took them too slowly"),
            (self.removed_rules_packets, "decided by rules that are no longer in the file"),
        ];
        for (packets, what) in asides.into_iter().filter(|(packets, _)| *packets > 0) {
            writeln!(out, "            {DIM}{} {what}{DIM:#}", counted(packets, "packet"))?;
        }
        let Reloads { done, refused } = self.reloads;
        if done + refused > 0 {
            writeln!(out, "{BOLD}reloads{BOLD:#}     {} done, {} refused", thousands(done), thousands(refused))?;
        }
        out.flush()
    }
}

impl Forwarded {
    fn of(counts: &Counts) -> Self {
        Self { sent: counts.sent, unsent: counts.unsent, undecided: counts.undecided }
    }
}

fn count(of: live::Count) -> Count {
    Count { packets: of.packets, bytes: of.bytes, in_flows: 0 }
}
