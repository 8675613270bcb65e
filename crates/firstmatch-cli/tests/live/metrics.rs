//! Metrics, as another program reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Once;

use firstmatch_testkit::skip;
use prometheus_parse::{Scrape, Value};

use crate::http::{get, state_after, state_when};
use crate::namespace::{Folder, inside};
use crate::ports::ports;
use crate::traffic::{Sender, frame, rules};
use crate::watch::{Watch, command, run};

/// Series by name and labels.
struct Metrics(BTreeMap<(String, BTreeMap<String, String>), f64>);

impl Metrics {
    /// Reads all series but the texts of rules, which hold more than this parser takes.
    fn of(address: SocketAddr) -> Self {
        let reply = get(address, "/metrics");
        assert!(reply.head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{}", reply.head);
        assert!(reply.text.ends_with("# EOF\n"));
        check_by_python(&reply.text);
        let (info, lines): (Vec<&str>, _) =
            reply.text.lines().partition(|line| line.starts_with("firstmatch_rule_info{"));
        assert!(!info.is_empty());
        let samples = Scrape::parse(lines.into_iter().map(|line| Ok(line.to_owned()))).unwrap().samples;
        let mut all = BTreeMap::new();
        for sample in samples {
            let values = match sample.value {
                Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => vec![(String::new(), value)],
                Value::Histogram(counts) => {
                    counts.iter().map(|count| (count.less_than.to_string(), count.count)).collect()
                }
                Value::Summary(_) => panic!("{}", sample.metric),
            };
            for (bound, value) in values {
                let mut labels: BTreeMap<String, String> =
                    sample.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                labels.insert("le".to_owned(), bound);
                let before = all.insert((sample.metric.clone(), labels.clone()), value);
                assert!(before.is_none(), "{} {labels:?} occurs twice", sample.metric);
            }
        }
        Self(all)
    }

    /// Returns the values of a name, each with the value of a label.
    fn by(&self, name: &str, label: &str) -> Vec<(String, f64)> {
        let of_name = self.0.iter().filter(|((of, _), _)| of == name);
        of_name.map(|((_, labels), value)| (labels.get(label).cloned().unwrap_or_default(), *value)).collect()
    }

    fn sum(&self, name: &str) -> f64 {
        let values = self.by(name, "");
        assert!(!values.is_empty(), "there is no {name}");
        values.iter().map(|(_, value)| value).sum()
    }

    /// Asserts that the packets and bytes of rules and policy are all of them.
    fn assert_sums(&self, packets: f64) {
        let of = |names: &[&str]| names.iter().map(|name| self.sum(name)).sum::<f64>();
        let by_rule = ["rule_packets_total", "other_rules_packets_total", "policy_packets_total"];
        let by_rule = by_rule.map(|name| format!("firstmatch_{name}"));
        assert_eq!(of(&by_rule.each_ref().map(|name| &**name)), packets);
        assert_eq!(of(&["firstmatch_packets_total"]), packets);
        assert_eq!(of(&["firstmatch_outcome_packets_total"]), packets);
    }
}

/// Has the strict parser of Prometheus' own library for Python read the text, where it is installed.
fn check_by_python(text: &str) {
    const PROGRAM: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
seen = set()
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        assert key not in seen, key
        seen.add(key)
assert len(seen) > 50
";
    let has = Command::new("python3").args(["-c", "import prometheus_client"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        static SAID: Once = Once::new();
        return SAID.call_once(|| skip("SKIP metrics: there is no prometheus_client for python3"));
    }
    let mut child = Command::new("python3").args(["-c", PROGRAM]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
}

/// Sums hold, no series comes twice, and rules that are gone leave none.
#[test]
fn sums_hold_and_rules_that_are_gone_leave_no_series() {
    inside("metrics::sums_hold_and_rules_that_are_gone_leave_no_series", || {
        let folder = Folder::new("metrics");
        // Two rules have the same text and label; packets to ports above theirs are for no rule.
        let twice = "deny udp dport 1001 label \"x\\y\"\n".repeat(2);
        let text = format!("{twice}{}", rules());
        let path = folder.write("x.rules", &text);
        let (mut watch, address) = Watch::listen(&path, "vb", &["--metric-rules", "60", "--no-watch-file"]);
        let before = Metrics::of(address);
        before.assert_sums(0.0);
        assert_eq!(before.by("firstmatch_outcome_packets_total", "outcome").len(), 15);
        assert_eq!(before.by("firstmatch_packets_total", "verdict").len(), 2);
        assert_eq!(before.by("firstmatch_rule_packets_total", "rule").len(), 60);
        let sender = Sender::new("va");
        (0..2_000).for_each(|number| sender.send(&frame(number)));
        // Frames that are no IP are unknown, and a port that no rule has.
        let mut other = frame(0);
        (other[12], other[13]) = (0x88, 0xB5);
        (0..7).for_each(|_| sender.send(&other));
        let mut other = frame(0);
        other[36] = 0xFF;
        (0..5).for_each(|_| sender.send(&other));
        let state = state_after(address, 2_012);
        let now = Metrics::of(address);
        now.assert_sums(2_012.0);
        // The first of both decides its packets; 58 of the hundred others have series of their own.
        let by_rule = now.by("firstmatch_rule_packets_total", "rule");
        let expected = |rule: &str| if rule == "2" || rule == "4" { 0.0 } else { 20.0 };
        assert!(by_rule.iter().all(|(rule, packets)| *packets == expected(rule)), "{by_rule:?}");
        assert_eq!(now.sum("firstmatch_other_rules_packets_total"), 42.0 * 20.0);
        let policy: BTreeMap<_, _> = now.by("firstmatch_policy_packets_total", "basis").into_iter().collect();
        assert_eq!((policy["default"], policy["unknown"]), (5.0, 7.0));
        let verdicts: BTreeMap<_, _> = now.by("firstmatch_packets_total", "verdict").into_iter().collect();
        assert_eq!((verdicts["permit"], verdicts["deny"]), (1_000.0, 1_012.0));
        assert_eq!(now.sum("firstmatch_bytes_total"), 2_012.0 * 60.0);
        assert_eq!(state["removed_rules_packets"], 0);
        let batches = now.by("firstmatch_batch_seconds", "le");
        assert!(batches.iter().any(|(bound, count)| bound == "inf" && *count > 0.0), "{batches:?}");
        assert_eq!(now.sum("firstmatch_ring_dropped_packets_total"), 0.0);
        // One rule of each kind goes, and one comes before all.
        let lines: Vec<&str> = text.lines().collect();
        let rest = [&["permit udp dport 9"], &lines[..1], &lines[2..10], &lines[11..90], &lines[91..]].concat();
        folder.write("x.rules", rest.join("\n"));
        watch.send("-HUP");
        watch.wait_for("99 rules kept, 1 new, 3 removed");
        state_when(address, |state| state["reloads"]["done"] == 1);
        let after = Metrics::of(address);
        after.assert_sums(2_012.0);
        let series = |metrics: &Metrics| -> Vec<String> {
            metrics.by("firstmatch_rule_packets_total", "rule").into_iter().map(|(rule, _)| rule).collect()
        };
        let has = series(&after);
        let gone: BTreeSet<_> = series(&before).into_iter().filter(|rule| !has.contains(rule)).collect();
        assert_eq!(gone.iter().collect::<Vec<_>>(), ["1", "11"], "the second of both stays");
        assert_eq!(has.len(), 59, "the new rule has a series, and no rule that had none");
        assert_eq!(after.sum("firstmatch_other_rules_packets_total"), 44.0 * 20.0);
        let reloads: BTreeMap<_, _> = after.by("firstmatch_reloads_total", "result").into_iter().collect();
        assert_eq!((reloads["done"], reloads["refused"]), (1.0, 0.0));
        assert_eq!((after.sum("firstmatch_rules"), after.sum("firstmatch_generation")), (100.0, 1.0));
        assert!(after.sum("firstmatch_memory_bytes") > 1_000.0 && after.sum("firstmatch_build_info") == 1.0);
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!(answer.count("removed_rules_packets"), 60);
    });
}

/// A refused file is counted, and its fault is shown with line and column.
#[test]
fn a_refused_file_is_counted_and_shown() {
    inside("metrics::a_refused_file_is_counted_and_shown", || {
        let folder = Folder::new("refusals");
        let path = folder.write("x.rules", "deny udp\npermit\n");
        let (mut watch, address) = Watch::listen(&path, "vb", &[]);
        let loaded = Metrics::of(address).sum("firstmatch_last_reload_success_timestamp_seconds");
        folder.write("x.rules", "deny udp\npermit u");
        watch.wait_for("the old rules stay");
        let refused = |number: u64| {
            let state = state_when(address, |state| state["reloads"]["refused"] == number);
            state["reloads"]["last"].clone()
        };
        let fault = refused(1);
        assert_eq!((&fault["result"], &fault["line"], &fault["column"]), (&"refused".into(), &2.into(), &8.into()));
        assert!(fault["text"].as_str().unwrap().contains("`u`"), "{fault}");
        std::fs::remove_file(&path).unwrap();
        watch.wait_for("the old rules stay");
        let fault = refused(2);
        let text = fault["text"].as_str().unwrap();
        assert!(text.starts_with("x.rules: ") && text.contains("o such file"), "{text}");
        let metrics = Metrics::of(address);
        let reloads: BTreeMap<_, _> = metrics.by("firstmatch_reloads_total", "result").into_iter().collect();
        assert_eq!((reloads["done"], reloads["refused"]), (0.0, 2.0));
        assert_eq!(metrics.sum("firstmatch_last_reload_success_timestamp_seconds"), loaded);
        assert_eq!(get(address, "/healthz").text, "ok\n", "the old rules are in service");
    });
}

/// A bridge has the same metrics for both interfaces, whatever looks packets up, and says why it has denied them.
#[test]
fn a_bridge_has_metrics_of_both_interfaces() {
    inside("metrics::a_bridge_has_metrics_of_both_interfaces", || {
        ports(false);
        let folder = Folder::new("both");
        let path = folder.write("x.rules", rules());
        for system in ["copies", "rfc", "storm"] {
            let line =
                ["bridge", path.to_str().unwrap(), "vb", "vc", "--json", "--listen", "127.0.0.1:0", "--system", system];
            let mut bridge = run(command(&line));
            let address = bridge.wait_for_address();
            for (name, number) in [("va", 0..1_000), ("vd", 0..500)] {
                let sender = Sender::new(name);
                number.for_each(|number| sender.send(&frame(number)));
            }
            let state = state_when(address, |state| state["losses"]["sent"] == 750);
            state_after(address, 1_500);
            let metrics = Metrics::of(address);
            metrics.assert_sums(1_500.0);
            let packets = metrics.by("firstmatch_packets_total", "interface");
            let of = |name: &str| packets.iter().filter(|(of, _)| of == name).map(|(_, packets)| packets).sum::<f64>();
            assert_eq!((of("vb"), of("vc")), (1_000.0, 500.0), "{system}");
            assert_eq!(metrics.sum("firstmatch_send_dropped_packets_total"), 0.0);
            assert_eq!(metrics.sum("firstmatch_failed_open"), 0.0);
            assert_eq!(metrics.by("firstmatch_build_info", "system"), [(system.to_owned(), 1.0)]);
            assert_eq!((&state["command"], &state["system"]), (&"bridge".into(), &system.into()));
            assert_eq!(state["interfaces"].as_array().unwrap().len(), 2);
            let denied = get(address, "/api/denied").json();
            let denied = denied.as_array().unwrap();
            assert!(!denied.is_empty() && denied.iter().all(|denied| denied["differs"] == false), "{denied:?}");
            let is_odd = |denied: &serde_json::Value| denied["then"]["line"].as_u64().is_some_and(|line| line % 2 == 0);
            assert!(denied.iter().all(is_odd), "the rules on even lines deny: {denied:?}");
            bridge.finish().assert_exact();
        }
    });
}
