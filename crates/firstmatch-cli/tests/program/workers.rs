//! Tests of `classify --workers`: the same bytes as from one worker, in every output.

use serde_json::Value;

use crate::fixture::{Fixture, capture, packets};

/// Runs `classify` and returns exit code, both outputs without figures of time, and the lines of `--csv`.
fn outputs(fixture: &Fixture, line: &[&str], workers: &str) -> (String, Option<String>) {
    let line = [&["classify"], line, &["--base", "bit_select", "--workers", workers]].concat();
    let shown = if line.contains(&"--json") {
        let (code, out, err) = fixture.run(&line);
        let mut value: Value = serde_json::from_str(&out).unwrap();
        for name in ["ns_per_packet", "packets_per_second", "seconds", "build_seconds"] {
            assert!(value[name].as_f64().unwrap() > 0.0, "{name}");
            value[name] = "[time]".into();
        }
        value["timing"]["fastest_ns"].take();
        value["timing"]["slowest_ns"].take();
        format!("{code}\n{value:#}\n{err}")
    } else {
        fixture.shown(&line).split_once("exit code").unwrap().1.to_owned()
    };
    let csv = fixture.folder.join("out.csv");
    let lines = csv.exists().then(|| fixture.read("out.csv"));
    let _ = std::fs::remove_file(csv);
    (shown, lines)
}

#[test]
fn answers_are_those_of_one_worker() {
    let fixture = Fixture::new("workers");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let (edge_rules, edge) = (format!("{examples}/edge.rules"), format!("{examples}/edge.pcapng"));
    let generate = |line: &[&str]| {
        let output = fixture.command(&[&["generate"], line].concat()).output().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    fixture.write("fw.rules", generate(&["rules", "--profile", "fw", "--rules", "200", "--seed", "3"]));
    // 30,000 packets are seven stretches, more than two workers have under way.
    let bytes = generate(&["trace", "fw.rules", "--headers", "30000", "--format", "pcap"]);
    // A record that contradicts itself ends the second capture in its fourth stretch.
    let mut bad = bytes.clone();
    bad[24 + 18_000 * (16 + 64) + 8..][..4].copy_from_slice(&[0xff; 4]);
    fixture.write("bad.pcap", &bad);
    fixture.write("fw.pcap", &bytes);
    fixture.write("cut.pcap", &bytes[..bytes.len() - 7]);
    let some = packets();
    let odd: Vec<_> = (0..50_000).map(|at| some[at % some.len()].clone()).collect();
    fixture.write("odd.pcap", capture(&odd));

    let modes: [&[&str]; 8] = [
        &[],
        &["--json", "--csv", "out.csv"],
        &["--check", "all", "--json"],
        &["--check", "100", "--csv", "out.csv"],
        &["--csv", "-"],
        &["--repeat", "2", "--json"],
        &["--flow-cache", "64", "--csv", "out.csv"],
        &["--batch", "7", "--top", "3"],
    ];
    for (rules, input, code) in [
        (&*edge_rules, &*edge, 0),
        ("fw.rules", "fw.pcap", 0),
        ("fw.rules", "bad.pcap", 2),
        ("fw.rules", "cut.pcap", 0),
        ("x.rules", "odd.pcap", 0),
        ("x.rules", "x.pcap", 0),
        ("cb.rules", "cb.trace", 0),
    ] {
        for mode in modes {
            let line = [&[rules, input], mode].concat();
            let one = outputs(&fixture, &line, "1");
            assert!(one.0.trim_start().starts_with(&code.to_string()), "{line:?}: {}", one.0);
            assert_eq!(one.1.is_some(), mode.contains(&"out.csv"));
            for workers in ["2", "3"] {
                assert!(outputs(&fixture, &line, workers) == one, "{line:?} with {workers} workers");
            }
        }
    }
}

#[test]
fn the_number_of_workers_is_bounded() {
    let fixture = Fixture::new("workers-bounded");
    for count in ["0", "65", "-1", "many", "1000"] {
        let (code, out, err) = fixture.run(&["classify", "x.rules", "x.pcap", &format!("--workers={count}")]);
        assert_eq!((code, &*out), (2, ""), "{err}");
        assert!(err.contains("--workers <N>") && (count == "many" || err.contains("1..=64")), "{err}");
    }
    // Far more workers than cores.
    let (code, out, err) = fixture.run(&["classify", "x.rules", "x.pcap", "--workers", "64"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.starts_with("x.pcap: 10 packets"), "{out}");
}

/// Output that cannot be written ends the run, also while workers are busy.
#[test]
fn a_full_disk_ends_the_workers() {
    let fixture = Fixture::new("workers-disk");
    let some = packets();
    let many: Vec<_> = (0..60_000).map(|at| some[at % some.len()].clone()).collect();
    fixture.write("many.pcap", capture(&many));
    let line = ["classify", "x.rules", "many.pcap", "--workers", "2", "--csv", "/dev/full"];
    let (code, _, err) = fixture.run(&line);
    assert!(code == 2 && err.contains("/dev/full: cannot be written"), "{code}: {err}");
}
