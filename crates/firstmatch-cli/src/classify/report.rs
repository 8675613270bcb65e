//! Figures of the answer; `--json` prints them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use firstmatch_core::Classifier;
use firstmatch_core::cache::{flow, rule};
use firstmatch_net::wire::Outcome;
use serde::Serialize;

use super::tally::Count;
use super::timing::median;
use super::{Job, Packets};
use crate::args::ClassifyArgs;

/// Figures in the order in which they are printed.
///
/// Bytes are 0 where the input states no lengths.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) engine: String,
    rules_file: String,
    pub(super) input: String,
    pub(super) rules: usize,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) matched: u64,
    /// Packets that were classified but matched no rule.
    pub(super) unmatched: u64,
    /// Packets that were not classified.
    pub(super) unknown: u64,
    /// Packets by outcome, for the outcomes that occurred.
    outcomes: BTreeMap<&'static str, u64>,
    /// Packets by the action of the rule that matched.
    actions: BTreeMap<String, u64>,
    /// All packets by verdict.
    verdicts: BTreeMap<String, u64>,
    pub(super) rule_hits: Vec<RuleHits>,
    /// Nanoseconds per packet of the classifier alone; `null` if nothing was classified.
    pub(super) ns_per_packet: Option<f64>,
    pub(super) timing: Timing,
    /// Packets per second from opening the input to its end; with one worker without the time of checking, which then
    /// goes on while nothing else does.
    pub(super) packets_per_second: Option<f64>,
    pub(super) seconds: f64,
    build_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule_cache: Option<RuleCacheCounts>,
    pub(super) engines: Vec<EngineStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check: Option<CheckResult>,
    pub(super) warnings: Vec<String>,
    /// Reason why the input could not be read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    pub(super) is_trace: bool,
    #[serde(skip)]
    pub(super) by_verdict: BTreeMap<String, Count>,
    #[serde(skip)]
    pub(super) by_outcome: Vec<(Outcome, Count)>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RuleHits {
    pub(super) id: u64,
    pub(super) line: u32,
    pub(super) packets: u64,
    pub(super) bytes: u64,
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

/// Lookups of rule caches by their path, the samples that they took and the boxes that they made of them.
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
        let (mut actions, mut by_verdict, mut rule_hits) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut verdict = |verdict: String, count: Count| {
            if count.packets > 0 {
                by_verdict.entry(verdict).or_insert_with(Count::default).add(count);
            }
        };
        for rule in loaded.file.rules.iter() {
            let count = tally.of_rule(rule.id);
            if count.packets > 0 {
                *actions.entry(rule.action.to_string()).or_insert(0) += count.packets;
                verdict(rule.action.to_string(), count);
                let Count { packets, bytes } = count;
                rule_hits.push(RuleHits { id: rule.id.get(), line: loaded.line_of(rule), packets, bytes });
            }
        }
        verdict(loaded.file.policy.default.to_string(), tally.unmatched);
        verdict(loaded.file.policy.unknown.to_string(), tally.unknown());
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
            input: packets.name.clone(),
            rules: loaded.file.rules.len(),
            packets: all.packets,
            bytes: all.bytes,
            matched: tally.matched().packets,
            unmatched: tally.unmatched.packets,
            unknown: tally.unknown().packets,
            outcomes: by_outcome.iter().map(|(outcome, count)| (outcome.name(), count.packets)).collect(),
            actions,
            verdicts: by_verdict.iter().map(|(name, count)| (name.clone(), count.packets)).collect(),
            rule_hits,
            ns_per_packet: if args.repeat.is_some() { median(passes) } else { job.nanos.nanos_per_packet() },
            timing,
            packets_per_second: (all.packets > 0 && seconds > 0.0).then(|| all.packets as f64 / seconds),
            seconds,
            build_seconds: build.as_secs_f64(),
            rule_cache: args.rule_cache.map(|_| RuleCacheCounts::new(&tally.rule_cache)),
            engines: job.engines.classifiers().iter().map(|engine| EngineStats::new(&**engine)).collect(),
            check: check.map(|check| CheckResult { packets: check.checked, differences: check.different }),
            warnings: packets.warnings.clone(),
            error: packets.fault.as_ref().map(ToString::to_string),
            is_trace: packets.is_trace,
            by_verdict,
            by_outcome,
        }
    }

    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

impl RuleCacheCounts {
    fn new(counts: &rule::Counts) -> Self {
        let flow::Counts { hits, misses, passed_by } = counts.lookups;
        Self { hits, misses, passed_by, samples: counts.samples, boxes: counts.boxes }
    }
}

impl EngineStats {
    fn new(engine: &dyn Classifier) -> Self {
        let stats = engine.stats();
        Self {
            family: engine.schema().family().map(firstmatch_core::schema::Family::name),
            rules: stats.rules,
            regions: stats.regions,
            bytes: stats.total_bytes(),
            tables: stats.tables,
            worst_tests: stats.worst_tests,
            longest_bucket: stats.longest_bucket,
        }
    }
}
