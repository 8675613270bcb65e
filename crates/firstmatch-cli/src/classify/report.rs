//! Figures of the answer; `--json` prints them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Write};
use std::time::Duration;

use firstmatch::Firewall;
use firstmatch_core::cache::{flow, rule};
use firstmatch_core::rule::{Rule, RuleId};
use firstmatch_core::{Schema, Stats};
use firstmatch_net::wire::Outcome;
use serde::Serialize;

use super::flows::FlowReport;
use super::system::SystemReport;
use super::tally::{Count, Tally};
use super::timing::median;
use super::what_if::{AuditHits, WhatIfReport};
use super::{Job, Packets};
use crate::args::ClassifyArgs;
use crate::rules::Loaded;

/// Figures in the order in which they are printed.
///
/// Bytes are 0 if the input states no lengths.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) engine: String,
    pub(super) rules_file: String,
    pub(super) input: String,
    /// Counts of each input.
    pub(super) files: Vec<FileCounts>,
    pub(super) rules: usize,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) matched: u64,
    /// Packets that were classified but matched no rule.
    pub(super) unmatched: u64,
    /// Packets that were not classified.
    pub(super) unknown: u64,
    /// Packets by outcome, for the outcomes that occurred.
    pub(super) outcomes: BTreeMap<&'static str, u64>,
    /// Packets by the action of the rule that matched.
    pub(super) actions: BTreeMap<String, u64>,
    /// All packets by verdict.
    pub(super) verdicts: BTreeMap<String, u64>,
    /// Rows of flow logs; each flow counts as a packet in the other figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flows: Option<FlowReport>,
    pub(super) rule_hits: Vec<RuleHits>,
    /// Nanoseconds per packet to look up, decide and count; `null` if nothing was classified.
    pub(super) ns_per_packet: Option<f64>,
    pub(super) timing: Timing,
    /// Packets per second from opening the input to its end. With one worker, the time of checking is left out, because
    /// nothing else goes on meanwhile.
    pub(super) packets_per_second: Option<f64>,
    pub(super) seconds: f64,
    pub(super) build_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule_cache: Option<RuleCacheCounts>,
    /// Figures of a system of threads, by family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) systems: Vec<SystemReport>,
    pub(super) engines: Vec<EngineStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check: Option<CheckResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) what_if: Option<WhatIfReport>,
    /// Packets that audit rules would decide, if there are audit rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) audit: Vec<AuditHits>,
    pub(super) warnings: Vec<String>,
    /// Reason why the input could not be read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(skip)]
    pub(super) is_trace: bool,
    #[serde(skip)]
    pub(super) by_verdict: BTreeMap<String, Count>,
    #[serde(skip)]
    pub(super) by_outcome: Vec<(Outcome, Count)>,
}

/// Counts of one input, or of all inputs so far.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FileCounts {
    input: String,
    /// Number of the first packet, because packets are numbered through all inputs.
    first_packet: u64,
    pub(super) packets: u64,
    bytes: u64,
    /// Packets by verdict.
    verdicts: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RuleHits {
    pub(super) id: u64,
    pub(super) line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets of the flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flow_packets: Option<u64>,
    /// Id of the rule in the file.
    #[serde(skip)]
    pub(super) in_file: RuleId,
}

/// Way in which `ns_per_packet` was measured.
#[derive(Debug, Serialize)]
#[serde(tag = "method", rename_all = "lowercase")]
pub(super) enum Timing {
    /// Median of passes over all keys.
    Passes { passes: usize, fastest_ns: Option<f64>, slowest_ns: Option<f64> },
    /// Number of packets in the stretches that were long enough to be timed.
    Stretches { timed_packets: u64 },
}

/// Figures of one of the engines.
#[derive(Debug, Serialize)]
pub(super) struct EngineStats {
    pub(super) family: Option<&'static str>,
    pub(super) rules: usize,
    regions: usize,
    pub(super) bytes: usize,
    tables: usize,
    worst_tests: usize,
    longest_bucket: usize,
}

/// Lookups of rule caches by their path, their samples, and the boxes that they made from these.
#[derive(Debug, Serialize)]
pub(super) struct RuleCacheCounts {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) passed_by: u64,
    pub(super) samples: u64,
    pub(super) boxes: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct CheckResult {
    pub(super) packets: u64,
    pub(super) differences: u64,
}

impl Report {
    pub(super) fn new(job: &Job<'_>, args: &ClassifyArgs, packets: &Packets, passes: &[f64], build: Duration) -> Self {
        let (loaded, tally) = (job.loaded, &job.tally);
        let (mut actions, mut rule_hits) = (BTreeMap::new(), Vec::new());
        for rule in loaded.file.rules.iter() {
            let count = tally.of_rule(rule.id);
            if count.packets > 0 {
                *actions.entry(rule.action.to_string()).or_insert(0) += count.packets;
                let hits = RuleHits::new(loaded, rule, rule.id, count);
                rule_hits.push(hits.with_flows(packets.flows.as_ref().map(|_| count.in_flows)));
            }
        }
        if loaded.goes_by_line() {
            rule_hits = RuleHits::by_line(rule_hits);
        }
        let by_verdict = by_verdict(loaded, tally);
        let all = tally.all();
        let outcomes = Outcome::ALL.into_iter().zip(tally.outcomes).filter(|(_, count)| count.packets > 0);
        let by_outcome: Vec<_> = outcomes.collect();
        let timing = match args.repeat {
            Some(_) => Timing::Passes {
                passes: passes.len(),
                fastest_ns: passes.first().copied(),
                slowest_ns: passes.last().copied(),
            },
            None => Timing::Stretches { timed_packets: job.nanos.packets() },
        };
        let seconds = job.wall.as_secs_f64();
        let check = job.checker.as_ref();
        Self {
            engine: args.engine.clone(),
            rules_file: loaded.name.clone(),
            input: FileCounts::names(&packets.files),
            files: packets.files.clone(),
            rules: loaded.file.rules.len(),
            packets: all.packets,
            bytes: all.bytes,
            matched: tally.matched().packets,
            unmatched: tally.unmatched.packets,
            unknown: tally.unknown().packets,
            outcomes: by_outcome.iter().map(|(outcome, count)| (outcome.name(), count.packets)).collect(),
            actions,
            verdicts: by_verdict.iter().map(|(name, count)| (name.clone(), count.packets)).collect(),
            flows: packets.flows.as_ref().map(|counts| FlowReport::new(counts, all.in_flows)),
            rule_hits,
            ns_per_packet: if args.repeat.is_some() { median(passes) } else { job.nanos.nanos_per_packet() },
            timing,
            packets_per_second: (all.packets > 0 && seconds > 0.0).then(|| all.packets as f64 / seconds),
            seconds,
            build_seconds: build.as_secs_f64(),
            rule_cache: args.rule_cache.map(|_| RuleCacheCounts::new(&tally.rule_cache)),
            systems: Vec::new(),
            engines: EngineStats::of(job.lookups.firewall()),
            what_if: job.what_if.as_ref().map(|what_if| what_if.report(loaded)),
            audit: job.audit.as_ref().map_or(Vec::new(), |audit| audit.audit(loaded)),
            check: check.map(|check| CheckResult { packets: check.checked, differences: check.different }),
            warnings: packets.warnings.clone(),
            error: packets.fault.as_ref().map(|fault| fault.error.to_string()),
            is_trace: packets.is_trace,
            by_verdict,
            by_outcome,
        }
    }

    /// Returns the word for what is decided, for a number of which `s` follows.
    pub(super) fn unit(&self) -> &'static str {
        if self.flows.is_some() { "flow" } else { "packet" }
    }

    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

/// Returns the packets by verdict.
fn by_verdict(loaded: &Loaded, tally: &Tally) -> BTreeMap<String, Count> {
    let policy = &loaded.file.policy;
    let rules = loaded.file.rules.iter().map(|rule| (rule.action.to_string(), tally.of_rule(rule.id)));
    let others = [(policy.default.to_string(), tally.unmatched), (policy.unknown.to_string(), tally.unknown())];
    let mut all = BTreeMap::new();
    for (verdict, count) in rules.chain(others).filter(|(_, count)| count.packets > 0) {
        all.entry(verdict).or_insert_with(Count::default).add(count);
    }
    all
}

impl FileCounts {
    /// Returns the counts of all inputs together.
    pub(super) fn of_all(loaded: &Loaded, tally: &Tally) -> Self {
        let verdicts = by_verdict(loaded, tally).into_iter().map(|(verdict, count)| (verdict, count.packets));
        let Count { packets, bytes, .. } = tally.all();
        Self { input: String::new(), first_packet: 0, packets, bytes, verdicts: verdicts.collect() }
    }

    /// Returns the names of all inputs, or of the first if there are many.
    fn names(files: &[Self]) -> String {
        match files {
            [first, _, _, _, ..] => format!("{} and {} more", first.input, files.len() - 1),
            _ => files.iter().map(|file| &*file.input).collect::<Vec<_>>().join(", "),
        }
    }

    /// Returns the counts of the input `name` alone, whose packets are numbered from `first_packet` on; `before` are the
    /// counts before that input.
    pub(super) fn since(mut self, before: &Self, name: &str, first_packet: u64) -> Self {
        for (verdict, packets) in &mut self.verdicts {
            *packets -= before.verdicts.get(verdict).copied().unwrap_or(0);
        }
        self.verdicts.retain(|_, packets| *packets > 0);
        let (packets, bytes) = (self.packets - before.packets, self.bytes - before.bytes);
        Self { input: name.to_owned(), first_packet, packets, bytes, verdicts: self.verdicts }
    }
}

impl RuleHits {
    /// Returns the packets of a rule of the file, which has the id `id` in service.
    pub(super) fn new(loaded: &Loaded, rule: &Rule, id: RuleId, count: Count) -> Self {
        let (line, label) = (loaded.line_of(rule), loaded.label_of(rule).map(str::to_owned));
        let Count { packets, bytes, .. } = count;
        Self { id: id.get(), line, label, packets, bytes, flow_packets: None, in_file: rule.id }
    }

    /// Returns the same with the packets of the flows, if they are flows.
    fn with_flows(self, flow_packets: Option<u64>) -> Self {
        Self { flow_packets, ..self }
    }
}

impl RuleHits {
    /// Adds up the rules of each line; a label stays if all have it.
    fn by_line(hits: Vec<Self>) -> Vec<Self> {
        let mut lines: BTreeMap<u32, Self> = BTreeMap::new();
        for of in hits {
            match lines.entry(of.line) {
                Entry::Vacant(line) => _ = line.insert(of),
                Entry::Occupied(mut line) => {
                    let line = line.get_mut();
                    line.label.take_if(|label| of.label.as_deref() != Some(&**label));
                    (line.packets, line.bytes) = (line.packets + of.packets, line.bytes + of.bytes);
                    line.flow_packets = line.flow_packets.zip(of.flow_packets).map(|(all, more)| all + more);
                }
            }
        }
        lines.into_values().collect()
    }
}

impl RuleCacheCounts {
    fn new(counts: &rule::Counts) -> Self {
        let flow::Counts { hits, misses, passed_by } = counts.lookups;
        Self { hits, misses, passed_by, samples: counts.samples, boxes: counts.boxes }
    }
}

impl EngineStats {
    /// Returns the figures of the engine of each schema that answers first.
    pub(super) fn of(firewall: &Firewall) -> Vec<Self> {
        let schemas = firewall.schemas();
        let all = firewall.stats().into_iter().zip(firewall.engines()).zip(&*schemas);
        all.map(|((stats, engine), schema)| Self::new(schema, engine.front.map_or(stats, |(_, front)| front))).collect()
    }

    /// Returns the figures of the engines of a system.
    #[cfg(all(feature = "live", target_os = "linux"))]
    pub(super) fn of_system(engines: &[(Schema, Stats)]) -> Vec<Self> {
        engines.iter().map(|(schema, stats)| Self::new(schema, stats.clone())).collect()
    }

    fn new(schema: &Schema, stats: Stats) -> Self {
        Self {
            family: schema.family().map(firstmatch_core::schema::Family::name),
            rules: stats.rules,
            regions: stats.regions,
            bytes: stats.total_bytes(),
            tables: stats.tables,
            worst_tests: stats.worst_tests,
            longest_bucket: stats.longest_bucket,
        }
    }
}
