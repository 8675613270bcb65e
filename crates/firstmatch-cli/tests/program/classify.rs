//! Tests of `firstmatch classify` and `firstmatch engines`.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::Value;

use crate::fixture::{Fixture, capture, packets, result};

#[test]
fn help() {
    let fixture = Fixture::new("help");
    assert_snapshot!("help", fixture.shown(&["--help"]));
    assert_snapshot!("help-classify", fixture.shown(&["classify", "--help"]));
    assert_snapshot!("help-explain", fixture.shown(&["explain", "--help"]));
    assert_snapshot!("engines", fixture.shown(&["engines"]));
    assert_snapshot!("engines-of-a-file", fixture.shown(&["engines", "x.rules"]));
    let (code, out, _) = fixture.run(&["--version"]);
    assert_eq!((code, out), (0, format!("firstmatch {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn summary() {
    let fixture = Fixture::new("summary");
    let summary = fixture.shown(&["classify", "x.rules", "x.pcap"]);
    assert_snapshot!("summary", summary);
    assert_snapshot!("summary-top", fixture.shown(&["classify", "x.rules", "x.pcap", "--top", "2", "--check", "all"]));
    assert_snapshot!("summary-trace", fixture.shown(&["classify", "cb.rules", "cb.trace", "--engine", "linear"]));
    fixture.write("open.rules", "default permit\nunknown permit\nfragments layer3\n");
    assert_snapshot!("summary-open", fixture.shown(&["classify", "open.rules", "x.pcap"]));
    fixture.write("none.pcap", capture(&[]));
    assert_snapshot!("summary-no-packets", fixture.shown(&["classify", "x.rules", "none.pcap", "--check", "5"]));
    // Both engines, every batch length and the repeated passes give the same answer.
    for line in [
        &["--engine", "linear"][..],
        &["--batch", "1"],
        &["--batch", "4096"],
        &["--flow-cache", "5"],
        &["--repeat", "3"],
    ] {
        let other = fixture.shown(&[&["classify", "x.rules", "x.pcap"], line].concat());
        assert_eq!(other.split_once("exit code").unwrap().1, summary.split_once("exit code").unwrap().1, "{line:?}");
    }
}

/// Warnings about rules that never decide are one line before an answer; other warnings stay.
#[test]
fn rules_that_never_decide_are_one_line() {
    let fixture = Fixture::new("never");
    let mut rules = "permit tcp\nset unused = { 1 }\n".to_owned();
    rules.extend((0..30).map(|port| format!("deny tcp dport {port}\n")));
    fixture.write("never.rules", &rules);
    let (code, _, errors) = fixture.run(&["classify", "never.rules", "x.pcap"]);
    let line = "warning: never.rules: 30 rules decide no packet; `firstmatch check never.rules` shows why\n";
    assert!(code == 0 && errors.ends_with(line) && !errors.contains("more warnings"), "{errors}");
    assert!(errors.contains("the set `unused` is never used") && errors.lines().count() < 10, "{errors}");
    let (_, found, _) = fixture.run(&["check", "never.rules"]);
    assert_eq!(found.matches("deny tcp dport").count(), 30, "{found}");
    fixture.write("never.rules", "permit tcp\ndeny tcp dport 22\n");
    let (_, _, errors) = fixture.run(&["classify", "never.rules", "x.pcap", "--what-if", "never.rules"]);
    let one = "warning: never.rules: 1 rule decides no packet; `firstmatch check never.rules` shows why\n";
    assert_eq!(errors.matches(one).count(), 2, "{errors}");
}

/// A rule cache changes no answer, and says what it did: here it learns, because there are few packets.
#[test]
fn rule_caches_are_counted() {
    let fixture = Fixture::new("rule-cache");
    let (_, plain, _) = fixture.run(&["classify", "x.rules", "x.pcap", "--json"]);
    for workers in ["1", "2"] {
        let line =
            ["classify", "x.rules", "x.pcap", "--json", "--rule-cache", "24", "--check", "all", "--workers", workers];
        let (code, out, _) = fixture.run(&line);
        let of = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (plain, cached) = (of(&plain), of(&out));
        assert_eq!((code, &cached["rule_hits"]), (0, &plain["rule_hits"]));
        let counts = &cached["rule_cache"];
        let all = ["hits", "misses", "passed_by"].map(|name| counts[name].as_u64().unwrap()).iter().sum::<u64>();
        assert_eq!(all, cached["packets"].as_u64().unwrap() - cached["unknown"].as_u64().unwrap(), "{counts}");
        assert!(plain.get("rule_cache").is_none());
    }
    let (_, out, _) = fixture.run(&["classify", "x.rules", "x.pcap", "--rule-cache", "8"]);
    assert!(out.contains("rule cache  0 of ") && out.contains(" from 0 samples"), "{out}");
    let (code, _, error) = fixture.run(&["classify", "x.rules", "x.pcap", "--rule-cache", "8", "--flow-cache", "8"]);
    assert!(code == 2 && error.contains("cannot be used with"), "{error}");
}

/// A rate is what its time says, and a whole run is no faster than its lookups.
#[test]
fn figures_of_speed_agree() {
    let fixture = Fixture::new("speed");
    for line in [&["--repeat", "5"][..], &[]] {
        let (_, out, _) = fixture.run(&[&["classify", "x.rules", "x.pcap"], line].concat());
        let after =
            |head: &str| out.lines().find_map(|line| line.strip_prefix(head)).unwrap_or_else(|| panic!("{out}"));
        let (nanos, rest) = after("classifier  ").split_once(" ns a packet (").unwrap();
        let rate = rest.split_once(" packets/s").unwrap().0;
        let (nanos, rate) = (nanos.parse::<f64>().unwrap(), number(rate));
        // Both are rounded.
        assert!((0.9..1.1).contains(&(nanos * rate / 1e9)), "{out}");
        if let Some((_, times)) = rest.split_once("; the median of 5 passes, ") {
            let (fastest, slowest) = times.trim_end_matches(')').split_once(" to ").unwrap();
            let [fastest, slowest] = [fastest, slowest].map(|time| time.parse::<f64>().unwrap());
            assert!(0.0 < fastest && fastest <= nanos && nanos <= slowest, "{out}");
        } else {
            let (all, seconds) = after("end to end  ").split_once(" packets/s (").unwrap();
            let seconds: f64 = seconds.trim_end_matches(" s)").parse().unwrap();
            assert!(number(all) < rate && seconds < 60.0, "{out}");
        }
    }
}

/// Reads a number with a unit, for example 2.5 M.
fn number(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    number.parse::<f64>().unwrap() * 1000f64.powi(["", "k", "M", "G"].iter().position(|&of| of == unit).unwrap() as i32)
}

/// Returns the object that `--json` prints.
fn json(fixture: &Fixture, line: &[&str]) -> Value {
    let (code, out, err) = fixture.run(&[line, &["--json"]].concat());
    assert_eq!((code, &*err), (0, ""));
    serde_json::from_str(&out).unwrap()
}

/// Options of an engine are listed, set and refused by name.
#[test]
fn options_of_engines() {
    let fixture = Fixture::new("options");
    let (code, out, err) = fixture.run(&["engines", "--options"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(
        out.contains("collision_limit: most regions that share a key") && out.contains("(a whole number)"),
        "{out}"
    );
    let classify = |more: &[&str]| fixture.run(&[&["classify", "x.rules", "x.pcap", "--check", "all"], more].concat());
    let (code, out, err) =
        classify(&["--engine", "tuplemerge", "--option", "collision_limit=1", "--option", "spill=false"]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    assert_eq!(classify(&["--option", "base=linear"]).0, 0);
    for (more, expected) in [
        (
            &["--engine", "tss", "--option", "speed=1"][..],
            "engine tss: this engine has no option `speed`; expected one of",
        ),
        (&["--engine", "linear", "--option", "speed=1"], "has no option `speed`; expected none"),
        (&["--engine", "tss", "--option", "spill=maybe"], "option spill: `maybe` is not true or false"),
        (&["--option", "base=fastest"], "`fastest` is not bit_select or bit_vector or"),
        (&["--option", "spill"], "expected NAME=VALUE"),
        (&["--engine", "linear", "--worst-tests", "3"], "--worst-tests is of the engine meta"),
        (&["--engine", "linear", "--build-visits", "1"], "that is the limit set by --build-visits"),
    ] {
        let (code, _, err) = classify(more);
        assert!(code == 2 && err.contains(expected), "{more:?}: {err}");
    }
}

/// Every engine says how many steps the packets take, or that it counts none.
#[test]
fn steps_of_a_trace() {
    let fixture = Fixture::new("steps");
    for (rules, packets, count) in [("cb.rules", "cb.trace", 3), ("x.rules", "x.pcap", 1)] {
        let (code, out, err) = fixture.run(&["engines", rules, "--count", packets]);
        assert_eq!((code, &*err), (0, ""), "{out}");
        assert!(out.contains(" packets, steps a packet\n") && out.lines().count() > 7 * count.min(1), "{out}");
        for expected in ["linear              blocks ", ", tests ", ", lines ", "partitionsort       counts nothing"] {
            assert!(out.contains(expected), "{expected}: {out}");
        }
    }
    let (code, _, err) = fixture.run(&["engines", "cb.rules", "--count", "nowhere.trace"]);
    assert!(code == 2 && err.contains("nowhere.trace"), "{err}");
}

#[test]
fn json_object() {
    let fixture = Fixture::new("json");
    let mut value = json(&fixture, &["classify", "x.rules", "x.pcap", "--check", "3"]);
    for name in ["ns_per_packet", "packets_per_second", "seconds", "build_seconds"] {
        assert!(value[name].as_f64().unwrap() > 0.0, "{name}");
        value[name] = "[time]".into();
    }
    for engine in value["engines"].as_array_mut().unwrap() {
        assert!(engine["bytes"].as_u64().unwrap() > 0);
        engine["bytes"] = "[memory]".into();
    }
    assert_snapshot!("json", serde_json::to_string_pretty(&value).unwrap());

    let value = json(&fixture, &["classify", "cb.rules", "cb.trace", "--repeat", "4"]);
    assert_eq!((value["packets"].as_u64(), value["bytes"].as_u64()), (Some(3), Some(0)));
    assert_eq!((&value["timing"]["method"], &value["timing"]["passes"]), (&"passes".into(), &4.into()));
    assert_eq!(value["actions"], serde_json::json!({ "match": 2 }));
    assert_eq!(value["outcomes"], serde_json::json!({ "complete": 3 }));
    assert!(value["ns_per_packet"].as_f64().unwrap() > 0.0);
}

/// Several inputs are one, with counts for each.
#[test]
fn several_inputs_are_read_as_one() {
    let fixture = Fixture::new("several");
    let capture = std::fs::read(fixture.folder.join("x.pcap")).unwrap();
    fixture.write("cut.pcap", &capture[..capture.len() - 1]);
    fixture.write("joined.pcap", [&capture[..], &capture].concat());
    let json = |line: &[&str]| {
        let (code, out, err) = fixture.run(&[line, &["--json"]].concat());
        (code, serde_json::from_str::<Value>(&out).unwrap(), err)
    };
    let (_, one, _) = json(&["classify", "x.rules", "x.pcap"]);
    let (_, lines, _) = fixture.run(&["classify", "x.rules", "x.pcap", "--csv", "-"]);
    for workers in ["1", "3"] {
        let line = ["classify", "x.rules", "x.pcap", "cut.pcap", "x.pcap", "--workers", workers, "--check", "all"];
        let (code, value, err) = json(&[&line[..], &["--csv", "all.csv"]].concat());
        assert!(code == 0 && err.starts_with("warning: cut.pcap"), "{err}");
        let files = value["files"].as_array().unwrap();
        let of = |name: &str| files.iter().map(|file| file[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("input"), ["x.pcap", "cut.pcap", "x.pcap"]);
        assert_eq!(
            (of("first_packet"), of("packets")),
            (vec![0.into(), 10.into(), 19.into()], vec![10.into(), 9.into(), 10.into()])
        );
        assert_eq!((&files[0]["verdicts"], &files[2]["verdicts"]), (&one["verdicts"], &one["verdicts"]));
        let sum = |name: &str| files.iter().map(|file| file["verdicts"][name].as_u64().unwrap_or(0)).sum::<u64>();
        for (verdict, packets) in value["verdicts"].as_object().unwrap() {
            assert_eq!(sum(verdict), packets.as_u64().unwrap(), "{verdict}");
        }
        assert_eq!((&value["packets"], &value["check"]["differences"]), (&29.into(), &0.into()));
        // Packets are numbered through.
        let all = fixture.read("all.csv");
        let rest = |line: &str| line.split_once(',').map(|(_, rest)| rest.to_owned());
        let last: Vec<_> = all.lines().skip(1 + 19).map(rest).collect();
        assert_eq!(last, lines.lines().skip(1).map(rest).collect::<Vec<_>>());
        assert!(all.lines().skip(1).enumerate().all(|(at, line)| line.starts_with(&format!("{at},"))), "{all}");
        // A fault ends all inputs, behind the answer.
        let (code, value, err) =
            json(&["classify", "x.rules", "x.pcap", "joined.pcap", "cut.pcap", "x.pcap", "--workers", workers]);
        assert_eq!((code, &value["packets"]), (2, &20.into()), "{err}");
        assert_eq!(value["warnings"], serde_json::json!(["cut.pcap and 1 more were not read"]));
        assert!(err.contains("joined.pcap"), "{err}");
    }
    for (line, expected) in [
        (&["x.pcap", "none.pcap"][..], "none.pcap"),
        (&["x.pcap", "x.rules"], "x.rules"),
        (&["x.pcap", "cb.trace"], "cb.trace is a trace, but the inputs before it are not; expected a capture"),
        (&["-", "-"], "standard input"),
        (&["x.pcap", "cut.pcap", "--csv", "cut.pcap"], "cut.pcap"),
    ] {
        let (code, out, err) = fixture.run(&[&["classify", "x.rules"], line].concat());
        assert!((code, &*out) == (2, "") && err.contains(expected), "{line:?}: {code}: {out}{err}");
    }
}

/// Packets of a link type that is not read are denied, and a warning names the type.
#[test]
fn link_types_that_are_not_read_are_named() {
    let fixture = Fixture::new("links");
    let mut bytes = std::fs::read(fixture.folder.join("x.pcap")).unwrap();
    let ethernet = 20 + bytes[20..24].iter().position(|&byte| byte == 1).unwrap();
    for (number, name) in [(220, "link type 220, USB of Linux"), (97, "link type 97")] {
        bytes[ethernet] = number;
        fixture.write("usb.pcap", &bytes);
        for workers in ["1", "2"] {
            let line = ["classify", "x.rules", "usb.pcap", "--workers", workers, "--json"];
            let (code, out, err) = fixture.run(&line);
            let value: Value = serde_json::from_str(&out).unwrap();
            let warning = format!("usb.pcap: {} packets of {name} could not be read: deny", value["packets"]);
            assert_eq!((code, err), (0, format!("warning: {warning}\n")));
            assert_eq!(value["warnings"], serde_json::json!([warning]));
            assert_eq!(value["outcomes"], serde_json::json!({ "unknown-link": value["packets"] }));
        }
        let (_, out, _) = fixture.run(&["classify", "x.rules", "usb.pcap"]);
        assert!(out.contains(&format!("packets of {name} could not be read")), "{out}");
        let (_, out, _) = fixture.run(&["explain", "x.rules", "usb.pcap#0"]);
        assert!(out.contains(&format!(" of {name}, which is not read, captured 2023-")), "{out}");
    }
}

#[test]
fn csv_to_a_file_and_to_standard_output() {
    let fixture = Fixture::new("csv");
    let (code, summary, err) = fixture.run(&["classify", "x.rules", "x.pcap", "--csv", "out.csv"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(summary.contains("top rules"));
    let lines = fixture.read("out.csv");
    assert_snapshot!("csv", lines);
    let (code, out, err) = fixture.run(&["classify", "x.rules", "x.pcap", "--csv", "-"]);
    assert_eq!((code, out), (0, lines.clone()));
    assert!(err.contains("top rules"));
    let (code, out, err) = fixture.run(&["classify", "x.rules", "x.pcap", "--csv", "-", "--json"]);
    assert_eq!((code, out), (0, lines));
    assert_eq!(serde_json::from_str::<Value>(&err).unwrap()["packets"], 10);
}

#[test]
fn the_figures_add_up_over_many_stretches() {
    let fixture = Fixture::new("stretches");
    let some = packets();
    let many: Vec<_> = (0..20_000).map(|i| some[i % some.len()].clone()).collect();
    fixture.write("many.pcap", capture(&many));
    for line in [&["--check", "1000"][..], &["--check", "all"], &["--repeat", "2", "--check", "7"]] {
        let value = json(&fixture, &[&["classify", "x.rules", "many.pcap", "--csv", "out.csv"], line].concat());
        let number = |name: &str| value[name].as_u64().unwrap();
        let sum = |name: &str| value[name].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum::<u64>();
        assert_eq!(number("packets"), 20_000);
        assert_eq!(number("bytes"), many.iter().map(|p| p.len() as u64).sum::<u64>());
        assert_eq!(number("matched") + number("unmatched") + number("unknown"), 20_000);
        assert_eq!((sum("outcomes"), sum("verdicts"), sum("actions")), (20_000, 20_000, number("matched")));
        let hits: u64 = value["rule_hits"].as_array().unwrap().iter().map(|h| h["packets"].as_u64().unwrap()).sum();
        assert_eq!(hits, number("matched"));
        assert_eq!(value["check"]["differences"], 0);
        let classified = number("packets") - number("unknown");
        let checked = value["check"]["packets"].as_u64().unwrap();
        assert_eq!(checked, line.last().unwrap().parse().unwrap_or(classified));
        // The lines of `--csv` say the same, packet by packet.
        let lines = fixture.read("out.csv");
        let rows: Vec<Vec<&str>> = lines.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert!(rows.iter().enumerate().all(|(at, row)| row[0] == at.to_string() && row.len() == 9));
        assert!(rows.iter().enumerate().all(|(at, row)| row[1..] == rows[at % some.len()][1..]));
    }
}

#[test]
fn packets_and_rules_come_from_standard_input_too() {
    let fixture = Fixture::new("stdin");
    let with_stdin = |line: &[&str], file: &str| {
        let stdin = File::open(fixture.folder.join(file)).unwrap();
        result(&fixture.command(line).stdin(stdin).output().unwrap())
    };
    let (code, out, _) = with_stdin(&["classify", "x.rules", "-"], "x.pcap");
    assert!(code == 0 && out.starts_with("standard input: 10 packets"), "{out}");
    let (code, out, _) = with_stdin(&["classify", "-", "x.pcap"], "x.rules");
    assert!(code == 0 && out.contains("standard input:5"), "{out}");
}

#[test]
fn a_cut_capture_gives_what_is_whole_and_a_warning() {
    let fixture = Fixture::new("cut");
    let whole = std::fs::read(fixture.folder.join("x.pcap")).unwrap();
    fixture.write("cut.pcap", &whole[..whole.len() - 3]);
    assert_snapshot!("cut", fixture.shown(&["classify", "x.rules", "cut.pcap", "--top", "0"]));
    assert_eq!(fixture.run(&["classify", "x.rules", "cut.pcap", "--json"]).0, 0);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let fixture = Fixture::new("pipe");
    let some = packets();
    let many: Vec<_> = (0..30_000).map(|i| some[i % some.len()].clone()).collect();
    fixture.write("many.pcap", capture(&many));
    for line in [
        &["classify", "x.rules", "many.pcap", "--csv", "-"][..],
        &["classify", "x.rules", "many.pcap", "--json"],
        &["classify", "x.rules", "many.pcap"],
        &["explain", "x.rules", "many.pcap#0"],
        &["engines"],
        &["engines", "x.rules"],
        &["--help"],
    ] {
        let mut child = fixture.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The reader closes the pipe before it reads.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let (code, _, err) = result(&output);
        assert_eq!(code, 0, "{line:?}: {err}");
        assert!(!err.contains("error") && !err.contains("panicked"), "{line:?}: {err}");
    }
}

#[test]
fn the_examples_are_right() {
    let fixture = Fixture::new("examples");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let (rules, capture) = (format!("{examples}/edge.rules"), format!("{examples}/edge.pcapng"));
    for engine in ["meta", "tuplemerge", "tuplemerge_offline", "bit_select", "bit_vector", "tss", "linear"] {
        let value = json(&fixture, &["classify", &rules, &capture, "--check", "all", "--engine", engine]);
        assert!(value["packets"].as_u64().unwrap() >= 5000);
        assert_eq!(value["check"]["differences"], 0);
        assert!(value["rule_hits"].as_array().unwrap().len() > 100);
    }
}

#[test]
fn compressed_files_are_read() {
    let fixture = Fixture::new("compressed");
    for name in ["x.rules", "x.pcap"] {
        let out = File::create(fixture.folder.join(format!("{name}.gz"))).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
        encoder.write_all(&std::fs::read(fixture.folder.join(name)).unwrap()).unwrap();
        encoder.finish().unwrap();
    }
    let (code, out, err) = fixture.run(&["classify", "x.rules.gz", "x.pcap.gz"]);
    assert!(code == 0 && out.contains("10 packets"), "{err}");
}

#[test]
fn flags_of_a_trace_decide_where_rules_test_them() {
    let fixture = Fixture::new("flags");
    // The rule of the fixture wants bit 0x0200 clear; the second is for the rest of the hosts.
    let line = |flags: u32, rule: u32| format!("167772161\t3221225991\t1024\t80\t6\t{flags}\t{rule}\n");
    let lines = line(0x0200, 0) + &line(0x0200_0200, 1) + &line(0, 1) + &line(u32::MAX, 1);
    fixture.write("own.trace", &lines);
    for engine in ["meta", "linear"] {
        let value =
            json(&fixture, &["classify", "cb.rules", "own.trace", "--flags", "--check", "all", "--engine", engine]);
        let hits: Vec<_> = value["rule_hits"].as_array().unwrap().iter().map(|hit| hit["packets"].clone()).collect();
        assert_eq!((hits, &value["check"]["differences"]), (vec![2.into(), 2.into()], &0.into()), "{engine}");
    }
    let value = json(&fixture, &["classify", "cb.rules", "own.trace"]);
    assert_eq!(value["rule_hits"][0]["packets"], 4, "without the field the first rule takes all");
    // A packet of the other family is unknown.
    fixture.write("both.trace", lines + "::1 ::2 1 2 6 0 1\n");
    let value = json(&fixture, &["classify", "cb.rules", "both.trace", "--flags", "--check", "all"]);
    assert_eq!(value["outcomes"], serde_json::json!({ "complete": 4, "other-family": 1 }));
}

#[test]
fn only_what_rules_test_makes_a_packet_unknown() {
    let fixture = Fixture::new("demand");
    let plain = packets();
    // A later fragment, and a UDP packet that ends before its ports.
    let mut cut = plain[6].clone();
    cut.truncate(14 + 4 + 20);
    fixture.write("odd.pcap", capture(&[plain[8].clone(), cut]));
    for (rules, outcomes) in [
        ("permit src 10.0.0.0/8\n", serde_json::json!({ "complete": 2 })),
        ("permit src 10.0.0.0/8\ndeny dport 22\n", serde_json::json!({ "fragment": 1, "truncated": 1 })),
        ("family ipv6\npermit src ::/0\n", serde_json::json!({ "other-family": 2 })),
    ] {
        fixture.write("few.rules", rules);
        let value = json(&fixture, &["classify", "few.rules", "odd.pcap", "--check", "all"]);
        assert_eq!((&value["outcomes"], &value["check"]["differences"]), (&outcomes, &0.into()), "{rules}");
        let (code, out, _) = fixture.run(&["explain", "few.rules", "odd.pcap#0"]);
        assert_eq!(
            (code, out.contains("no rule was asked")),
            (0, rules.contains("22") || rules.contains("ipv6")),
            "{out}"
        );
    }
    let (_, out, _) = fixture.run(&["explain", "few.rules", "odd.pcap#0"]);
    assert!(out.contains("the rules are for packets of the other family alone (other-family)"), "{out}");
}

/// Audit rules decide nothing, and are counted with what they would do; `--changed` lists packets.
#[test]
fn audit_rules_are_counted() {
    let fixture = Fixture::new("audit");
    let rules = fixture.read("x.rules");
    let (_, plain, _) = fixture.run(&["classify", "x.rules", "x.pcap", "--json"]);
    let plain: Value = serde_json::from_str(&plain).unwrap();
    // The first audit rule takes everything, the last one what is left to it.
    let first = rules.lines().position(|line| line.starts_with("deny") || line.starts_with("permit")).unwrap();
    let mut lines: Vec<&str> = rules.lines().collect();
    lines.insert(first, "audit deny ttl 0-255");
    lines.push("audit permit");
    fixture.write("audit.rules", lines.join("\n"));
    for workers in ["1", "2"] {
        let (code, out, err) =
            fixture.run(&["classify", "audit.rules", "x.pcap", "--json", "--workers", workers, "--check", "all"]);
        assert_eq!(code, 0, "{err}");
        let value: Value = serde_json::from_str(&out).unwrap();
        for name in ["packets", "outcomes", "verdicts", "unknown", "rules"] {
            assert_eq!(value[name], plain[name], "{name}");
        }
        let audit = value["audit"].as_array().unwrap();
        assert_eq!(audit.len(), 2);
        let classified = plain["matched"].as_u64().unwrap() + plain["unmatched"].as_u64().unwrap();
        let denied = plain["verdicts"]["deny"].as_u64().unwrap() - plain["unknown"].as_u64().unwrap();
        assert_eq!((&audit[0]["packets"], &audit[0]["line"]), (&classified.into(), &(first + 1).into()));
        assert_eq!(audit[0]["changed_packets"], classified - denied);
        assert_eq!((&audit[1]["packets"], &audit[1]["changed_packets"]), (&0.into(), &0.into()));
    }
    let (_, out, _) = fixture.run(&["classify", "audit.rules", "x.pcap"]);
    assert!(out.contains("audit rules") && out.contains("audit deny ttl 0-255"), "{out}");

    let (_, out, _) = fixture.run(&["explain", "audit.rules", "tcp 10.0.0.1:1 > 192.0.2.80:443"]);
    assert!(out.contains(&format!("would decide, were it in force: audit.rules:{}", first + 1)), "{out}");

    // A table has the fields of the rules that decide alone.
    fixture.write("t.csv", "src,dst,sport,dport,proto,icmp_type,vlan_vid\n10.0.0.1,192.0.2.80,1,22,tcp,,\n");
    let (code, _, err) = fixture.run(&["classify", "audit.rules", "t.csv"]);
    assert!(code == 2 && err.contains("audit rules of audit.rules test others"), "{err}");
    assert_eq!(fixture.run(&["explain", "audit.rules", "t.csv#0"]).0, 0);
    fixture.write("same.rules", format!("{rules}\naudit permit dport 22\n"));
    assert_eq!(fixture.run(&["classify", "same.rules", "t.csv"]).0, 0);

    fixture.write("open.rules", "default permit\nunknown permit\n");
    let changed = &["classify", "x.rules", "x.pcap", "--what-if", "open.rules", "--changed"];
    let (code, out, err) = fixture.run(&[&changed[..], &["-"]].concat());
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines[0], lines.len()), (0, "packet,bytes,line,verdict,new_line,new_verdict,time", 7), "{err}");
    assert!(lines[1..].iter().all(|line| line.ends_with(",,permit,2023-11-14T22:13:20.000123000Z")), "{out}");
    assert_eq!(fixture.run(&[&changed[..], &["open.rules"]].concat()).0, 2);
    assert_eq!(fixture.run(&["classify", "x.rules", "x.pcap", "--changed", "c.csv"]).0, 2);
}

/// Packets are counted by the two rules whose verdicts differ, and `explain` gives both.
#[test]
fn a_dry_run_counts_changed_verdicts() {
    let fixture = Fixture::new("what-if");
    let rules = fixture.read("x.rules");
    fixture.write(
        "new.rules",
        rules.replace("deny tcp dport 22", "permit tcp dport 22").replace("mark 7 udp", "mark 8 udp"),
    );
    fixture.write("open.rules", "default permit\nunknown permit\n");
    let json = |line: &[&str]| {
        let (code, out, err) = fixture.run(&[&["classify", "x.rules", "x.pcap", "--json"], line].concat());
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()["what_if"].clone()
    };
    assert_eq!(json(&[]), Value::Null);
    assert_eq!(
        (&json(&["--what-if", "x.rules"])["packets"], &json(&["--what-if", "x.rules"])["pairs"]),
        (&0.into(), &serde_json::json!([]))
    );
    for workers in ["1", "2"] {
        let new = json(&["--what-if", "new.rules", "--workers", workers, "--check", "all"]);
        assert_eq!(new["packets"], 2);
        let pairs = serde_json::json!([
            { "before": { "line": 4, "verdict": "deny" }, "after": { "line": 4, "verdict": "permit" }, "packets": 1, "bytes": 54 },
            { "before": { "line": 6, "verdict": "mark 7" }, "after": { "line": 6, "verdict": "mark 8" }, "packets": 1, "bytes": 66 },
        ]);
        assert_eq!(new["pairs"], pairs);
        // Every packet passes under the other rules: those that were denied or marked change.
        assert_eq!(json(&["--what-if", "open.rules", "--workers", workers])["packets"], 6);
    }
    let (_, out, _) = fixture.run(&["classify", "x.rules", "x.pcap", "--what-if", "open.rules", "--top", "1"]);
    assert!(
        out.contains("under open.rules 6 packets (60.0 %) get another verdict")
            && out.contains("permit without a rule"),
        "{out}"
    );
    // Traces of other rules, and tables of the same fields.
    let (code, out, err) = fixture.run(&["classify", "cb.rules", "cb.trace", "--what-if", "x.rules", "--json"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["what_if"]["packets"], 3);
    fixture.write("t.csv", "src,dst,sport,dport,proto,icmp_type,vlan_vid\n10.0.0.1,192.0.2.80,1,22,tcp,,\n");
    let table = |other: &str| fixture.run(&["classify", "x.rules", "t.csv", "--what-if", other]);
    assert_eq!(table("new.rules").0, 0);
    let (code, _, err) = table("open.rules");
    assert!(code == 2 && err.contains("open.rules has others"), "{err}");
    assert_eq!(table("none.rules").0, 2);
}
