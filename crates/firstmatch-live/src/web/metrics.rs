//! Metrics for Prometheus, in the text form of OpenMetrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use firstmatch::core::live::Count;
use firstmatch::{Outcome, Verdict};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::state::{LaneReading, Reading, State};
use super::text::unix;
use crate::{BATCH_BOUNDS, Counts};

/// Type of the answer.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns all metrics as text.
pub(super) fn encode(state: &Arc<State>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(Arc::clone(state))));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

/// Collector of everything: counts are read when they are asked for, so that a rule that is gone leaves no series.
#[derive(Debug)]
struct Metrics(Arc<State>);

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (state, reading) = (&*self.0, self.0.read());
        let mut out = Out(encoder);
        out.lanes(&reading.lanes)?;
        let interfaces = by_interface(&reading.lanes);
        out.interfaces(&interfaces)?;
        out.policy(&interfaces)?;
        out.rules(&reading)?;
        out.state(state, &reading)
    }
}

/// Returns the sums of the lanes of each interface.
pub(super) fn by_interface(lanes: &[LaneReading]) -> BTreeMap<&str, Counts> {
    let mut all: BTreeMap<&str, Counts> = BTreeMap::new();
    for lane in lanes {
        all.entry(&lane.interface).or_default().add_all(&lane.counts);
    }
    all
}

/// Returns all verdicts that have occurred, and before them `permit` and `deny` in any case.
pub(super) fn verdicts(lanes: &[LaneReading]) -> Vec<Verdict> {
    let mut all = vec![Verdict::Permit, Verdict::Deny];
    for (verdict, _) in lanes.iter().flat_map(|lane| &lane.counts.verdicts) {
        if !all.contains(verdict) {
            all.push(*verdict);
        }
    }
    all
}

struct Out<'e>(DescriptorEncoder<'e>);

impl Out<'_> {
    fn family(
        &mut self,
        name: &str,
        help: &str,
        of: MetricType,
        write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let name = format!("firstmatch_{name}");
        write(self.0.encode_descriptor(&name, help, None, of)?)
    }

    fn counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = ([(&'l str, &'l str); N], u64)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, |mut of| {
            series.into_iter().try_for_each(|(labels, value)| {
                of.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
            })
        })
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.family(name, help, MetricType::Counter, |mut of| of.encode_counter::<NoLabelSet, _, f64>(&value, None))
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, |mut of| of.encode_gauge(&value))
    }

    /// Writes the counts of each lane.
    fn lanes(&mut self, lanes: &[LaneReading]) -> fmt::Result {
        let verdicts: Vec<(Verdict, String)> = verdicts(lanes).into_iter().map(|of| (of, of.to_string())).collect();
        let workers: Vec<String> = lanes.iter().map(|lane| lane.worker.to_string()).collect();
        let (mut decided, mut of_lane) = (Vec::new(), Vec::new());
        for (lane, worker) in lanes.iter().zip(&workers) {
            let of = [("interface", &*lane.interface), ("worker", worker)];
            let of_verdict =
                verdicts.iter().map(|(verdict, name)| ([of[0], of[1], ("verdict", name)], lane.counts.of(*verdict)));
            decided.extend(of_verdict);
            of_lane.push((of, lane));
        }
        let packets = decided.iter().map(|(labels, count)| (*labels, count.packets));
        self.counters("packets", "Decided packets.", packets)?;
        let bytes = decided.iter().map(|(labels, count)| (*labels, count.bytes));
        self.counters("bytes", "Bytes of decided packets on the wire.", bytes)?;
        let lost = of_lane.iter().map(|(labels, lane)| (*labels, lane.statistics.lost));
        self.counters("ring_dropped_packets", "Frames that found the ring full.", lost)?;
        let unsent = of_lane.iter().map(|(labels, lane)| (*labels, lane.counts.unsent));
        self.counters("send_dropped_packets", "Frames to be sent on that the kernel refused.", unsent)
    }

    /// Writes the sums of the lanes of each interface.
    fn interfaces(&mut self, interfaces: &BTreeMap<&str, Counts>) -> fmt::Result {
        let mut outcomes = Vec::new();
        for (name, counts) in interfaces {
            let of_outcome = Outcome::ALL.into_iter().zip(counts.outcomes);
            outcomes.extend(
                of_outcome.map(|(outcome, count)| ([("interface", *name), ("outcome", outcome.name())], count.packets)),
            );
        }
        self.counters("outcome_packets", "Decided packets by how much of their headers could be read.", outcomes)?;
        let each =
            |of: fn(&Counts) -> u64| interfaces.iter().map(move |(name, counts)| ([("interface", *name)], of(counts)));
        let unfinished = each(|counts| counts.unfinished);
        let help = "Frames whose checksum the sender has left to its network card.";
        self.counters("unfinished_checksum_packets", help, unfinished)?;
        self.counters("cut_packets", "Frames of which only the first part was received.", each(|counts| counts.cut))?;
        let dropped = interfaces.values().map(|counts| counts.samples_dropped).sum();
        self.counter("samples_dropped", "Denied packets that the file of samples was too slow for.", dropped)?;
        let help = "Times from the receipt of a batch until it was decided and sent on.";
        self.family("batch_seconds", help, MetricType::Histogram, |mut of| {
            interfaces.iter().try_for_each(|(name, counts)| {
                let bounds = BATCH_BOUNDS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
                let buckets: Vec<(f64, u64)> = bounds.zip(counts.batches.by_time).collect();
                let (sum, count) = (counts.batches.nanoseconds as f64 / 1e9, counts.batches.by_time.iter().sum());
                of.encode_family(&[("interface", *name)])?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            })
        })
    }

    /// Writes the packets that no rule has decided.
    fn policy(&mut self, interfaces: &BTreeMap<&str, Counts>) -> fmt::Result {
        let of = |count: fn(&Counts) -> u64| interfaces.values().map(count).sum();
        let unknown = of(|counts| counts.unknown().packets);
        let default = of(|counts| counts.all().packets - counts.matched.packets) - unknown;
        let series = [([("basis", "default")], default), ([("basis", "unknown")], unknown)];
        self.counters("policy_packets", "Packets that no rule has decided.", series)
    }

    /// Writes the counts of rules. Those without series of their own, and those that are gone, are one sum.
    fn rules(&mut self, Reading { rules: list, by_rule, removed, .. }: &Reading) -> fmt::Result {
        let (mut other, mut own) = (*removed, Vec::new());
        for ((rule, has_metrics), count) in list.rules.iter().zip(&list.has_metrics).zip(by_rule) {
            if *has_metrics {
                let line = rule.line.map_or_else(String::new, |line| line.to_string());
                own.push((rule.id.to_string(), rule.label.as_deref().unwrap_or_default(), line, rule, count));
            } else {
                other = Count { packets: other.packets + count.packets, bytes: other.bytes + count.bytes };
            }
        }
        let series = own.iter().map(|(id, label, _, _, count)| ([("rule", &**id), ("label", *label)], *count));
        let packets = series.clone().map(|(labels, count)| (labels, count.packets));
        self.counters("rule_packets", "Packets that a rule has decided.", packets)?;
        let bytes = series.map(|(labels, count)| (labels, count.bytes));
        self.counters("rule_bytes", "Bytes of packets that a rule has decided.", bytes)?;
        let help = "Packets that rules without series of their own have decided.";
        self.counter("other_rules_packets", help, other.packets)?;
        let help = "Bytes of packets that rules without series of their own have decided.";
        self.counter("other_rules_bytes", help, other.bytes)?;
        self.family("rule_info", "Line and text of a rule.", MetricType::Gauge, |mut of| {
            own.iter().try_for_each(|(id, label, line, rule, _)| {
                let text = rule.text.as_deref().unwrap_or_default();
                let labels = [("rule", &**id), ("label", label), ("line", line), ("text", text)];
                of.encode_family(&labels)?.encode_gauge(&1u64)
            })
        })
    }

    /// Writes facts of the program and its rules.
    fn state(&mut self, state: &State, reading: &Reading) -> fmt::Result {
        let control = state.control();
        let [done, refused] = control.reloads;
        let reloads = [([("result", "done")], done), ([("result", "refused")], refused)];
        self.counters("reloads", "Times that the rules were read anew.", reloads)?;
        let help = "Time at which rules were last put in service.";
        self.gauge("last_reload_success_timestamp_seconds", help, unix(control.success))?;
        self.gauge("generation", "Number of changes of the rules so far.", state.firewall.generation())?;
        self.gauge("rules", "Number of rules in service.", reading.rules.rules.len() as u64)?;
        self.gauge("memory_bytes", "Bytes of the engines.", control.memory as u64)?;
        let is_open = reading.lanes.iter().any(|lane| lane.counts.undecided > 0);
        self.gauge("failed_open", "Whether frames pass without rules, after a fault.", u64::from(is_open))?;
        let about = &state.about;
        let labels = [("version", about.version), ("engine", &*about.engine), ("system", &*about.system)];
        self.family("build_info", "Version and settings of the program.", MetricType::Gauge, |mut of| {
            of.encode_family(&labels)?.encode_gauge(&1u64)
        })
    }
}
