//! Tests of `firstmatch convert`, and of JSON rule files in the other commands.

use std::io::Write;
use std::process::Stdio;

use insta::assert_snapshot;

use crate::fixture::{Fixture, result};

#[test]
fn each_format() {
    let fixture = Fixture::new("convert");
    let mut shown = String::new();
    fixture.write(
        "five.rules",
        "family ipv4\nmatch tcp dst 192.0.2.0/24 dport 80\nmatch src 10.0.0.0/8 sport 1024-65535\n",
    );
    for line in [
        &["convert", "x.rules"][..],
        &["convert", "x.rules", "--to", "json"],
        &["convert", "cb.rules", "--flags", "ignore"],
        &["convert", "cb.rules", "--flags", "keep", "--to", "classbench"],
        &["convert", "cb.rules", "--flags", "keep", "--to", "json"],
        &["convert", "five.rules", "--to", "classbench"],
    ] {
        shown.push_str(&fixture.shown(line));
        shown.push('\n');
    }
    assert_snapshot!("convert", shown);
}

#[test]
fn what_cannot_be_converted_is_named_and_nothing_is_written() {
    let fixture = Fixture::new("convert-bad");
    fixture.write("bad.rules", "permit tpc\n");
    fixture.write("old", "as it was\n");
    fixture.write("bad.json", "{\n  \"format\": \"firstmatch-rules\", \"version\": 1,\n  \"schemas\": [\"ipv4\"],\n  \"rules\": [\n    {\"action\": \"permit\", \"conditions\": [{\"field\": \"dprot\", \"tests\": []}]},\n  ]\n}\n");
    fixture.write(
        "faults.json",
        fixture.read("bad.json").replace("},\n  ]", "},\n    {\"action\": \"drop\", \"conditions\": []}\n  ]"),
    );
    fixture.write("odd.json", "{\"format\": \"firstmatch-rules\", \"version\": 1, \"schemas\": [{\"fields\": [{\"name\": \"tenant\", \"width\": 24, \"kind\": \"exact\"}]}],\n\"rules\": [\n  {\"action\": \"permit\", \"conditions\": [{\"field\": \"tenant\", \"tests\": [{\"value\": 7}]}]}]}\n");
    let mut shown = String::new();
    for line in [
        &["convert", "x.rules", "--to", "classbench", "-o", "old"][..],
        &["convert", "cb.rules", "-o", "old"],
        &["convert", "cb.rules", "--flags", "keep", "-o", "old"],
        &["convert", "odd.json", "--to", "classbench", "-o", "old"],
        &["convert", "bad.rules", "-o", "old"],
        &["convert", "bad.json", "-o", "old"],
        &["convert", "faults.json", "-o", "old"],
        &["convert", "missing.rules", "-o", "old"],
        &["convert", "x.rules", "-o", "missing/x"],
        &["convert", "x.rules", "-o", "."],
        &["convert", "x.rules", "--to", "iptables"],
        &["convert"],
        &["completions", "tcsh"],
        &["manual", "--dir", "old"],
    ] {
        shown.push_str(&fixture.shown(line));
        shown.push('\n');
        assert_eq!(fixture.read("old"), "as it was\n", "{line:?}");
    }
    assert_eq!(shown.matches("exit code 2").count(), shown.matches("$ firstmatch").count(), "{shown}");
    assert_eq!(std::fs::read_dir(&fixture.folder).unwrap().count(), 9);
    assert_snapshot!("convert-bad", shown);
}

/// With `--all-fields`, rules added later may test fields that those of the file do not.
#[test]
fn json_may_have_every_field() {
    let fixture = Fixture::new("all-fields");
    fixture.write("one.rules", "family ipv4\npermit tcp\n");
    fixture.write("own.rules", "schema openflow\npermit tcp\n");
    let (code, json, _) = fixture.run(&["convert", "one.rules", "--to", "json", "--all-fields"]);
    assert_eq!(code, 0);
    fixture.write("all.json", &json);
    let all = "{ \"action\": \"deny\", \"priority\": 1, \"conditions\": [{\"field\": \"vlan_vid\", \"tests\": [{\"value\": 20}]}] },\n    {\"id\"";
    fixture.write("more.json", json.replacen("{\"id\"", all, 1));
    let mut shown = fixture.shown(&["convert", "more.json"]);
    for line in [
        &["convert", "one.rules", "--all-fields"][..],
        &["convert", "one.rules", "--to", "classbench", "--all-fields"],
        &["convert", "all.json", "--to", "json", "--all-fields"],
        &["convert", "own.rules", "--to", "json", "--all-fields"],
        &["convert", "cb.rules", "--to", "json", "--all-fields"],
        &["convert", "all.json", "--to", "native"],
    ] {
        shown.push_str(&fixture.shown(line));
        shown.push('\n');
    }
    assert_snapshot!("all-fields", shown);
}

/// No file but a ClassBench filter set has a column of flags.
#[test]
fn flags_for_other_files_are_warned_of() {
    let fixture = Fixture::new("no-flags");
    fixture.write("one.rules", "family ipv4\npermit tcp\n");
    let (_, json, _) = fixture.run(&["convert", "one.rules", "--to", "json"]);
    fixture.write("one.json", &json);
    for line in [
        &["convert", "one.rules", "--flags", "keep"][..],
        &["convert", "one.json", "--flags", "ignore"],
        &["engines", "one.rules", "--flags"],
        &["generate", "trace", "one.rules", "--flags", "--headers", "10", "--format", "table"],
    ] {
        let (code, out, err) = fixture.run(line);
        let said =
            format!("warning: {}: --flags changes nothing", line.iter().find(|word| word.contains("one.")).unwrap());
        assert!(code == 0 && !out.is_empty() && err.contains(&said), "{line:?}: {code} {err}");
    }
    let (_, _, err) = fixture.run(&["convert", "cb.rules", "--flags", "ignore"]);
    assert!(!err.contains("changes nothing"), "{err}");
}

/// The warnings about rules do not depend on their format.
#[test]
fn json_has_the_warnings_of_native_rules() {
    let fixture = Fixture::new("warned");
    fixture.write(
        "warned.rules",
        "permit icmp dport 22\ndeny tcp\ndeny ah\npermit tcp dport 80\npermit family ipv4 icmpv6\n",
    );
    let mut shown = fixture.shown(&["convert", "warned.rules", "-o", "warned.json"]);
    shown.push_str(&fixture.shown(&["convert", "warned.json"]));
    assert_snapshot!("warned", shown);
}

#[test]
fn a_round_trip_is_the_identity() {
    let fixture = Fixture::new("convert-round");
    let edge = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.rules")).unwrap();
    fixture.write("edge.rules", edge);
    let convert =
        |line: &[&str]| assert_eq!(fixture.run(&[&["convert"], line].concat()), (0, String::new(), String::new()));
    convert(&["edge.rules", "-o", "a.rules"]);
    convert(&["edge.rules", "-o", "a.json"]);
    convert(&["a.rules", "-o", "b.rules"]);
    convert(&["a.json", "-o", "b.json"]);
    convert(&["a.json", "-o", "c.rules"]);
    assert_eq!(fixture.read("a.rules"), fixture.read("b.rules"));
    assert_eq!(fixture.read("a.json"), fixture.read("b.json"));
    assert_eq!(fixture.read("a.rules"), fixture.read("c.rules"));
    // From standard input to standard output.
    let mut child = fixture.command(&["convert", "-", "--to", "native"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(fixture.read("a.json").as_bytes()).unwrap();
    let (code, out, err) = result(&child.wait_with_output().unwrap());
    assert_eq!((code, &*err), (0, ""));
    assert_eq!(out, fixture.read("a.rules"));
    // ClassBench without its flags is converted there and back.
    convert(&["cb.rules", "--flags", "ignore", "-o", "cb.json"]);
    convert(&["cb.json", "-o", "cb5.txt", "--to", "classbench"]);
    convert(&["cb5.txt", "-o", "cb5.rules"]);
    convert(&["cb5.rules", "-o", "cb6.txt", "--to", "classbench"]);
    assert_eq!(fixture.read("cb5.txt"), fixture.read("cb6.txt"));
    assert_eq!(
        fixture.read("cb5.txt"),
        fixture.read("cb.rules").replace("\t0x0000/0x0200", "").replace("\t0x0000/0x0000", "")
    );
}

#[test]
fn json_rules_in_the_other_commands() {
    let fixture = Fixture::new("json-rules");
    let (code, _, _) = fixture.run(&["convert", "x.rules", "-o", "x.json"]);
    assert_eq!(code, 0);
    let mut shown = fixture.shown(&["classify", "x.json", "x.pcap", "--check", "all"]);
    shown.push_str(&fixture.shown(&["explain", "x.json", "x.pcap#0", "--rule", "34"]));
    shown.push_str(&fixture.shown(&["explain", "x.json", "x.pcap#0", "--rule", "2"]));
    // All rules stand on one line.
    fixture.write("short.json", fixture.read("x.json").replace('\n', " "));
    shown.push_str(&fixture.shown(&["explain", "short.json", "x.pcap#0", "--rule", "1"]));
    // This rule is beyond the limits on regions, which engines of products do not need.
    let odd = (0..1100).map(|n| format!("{{\"value\":{}}}", 2 * n + 1)).collect::<Vec<_>>().join(",");
    let condition = |field: &str| format!("{{\"field\":\"{field}\",\"tests\":[{odd}]}}");
    fixture.write(
        "large.json",
        format!(
            "{{\"format\":\"firstmatch-rules\",\"version\":1,\"schemas\":[\"ipv4\"],\"rules\":[\n{{\"action\":\"deny\",\"conditions\":[{},{}]}}]}}",
            condition("sport"),
            condition("dport")
        ),
    );
    shown.push_str(&fixture.shown(&["classify", "large.json", "x.pcap", "--engine", "bit_select"]));
    assert_snapshot!("json-rules", shown);
    // The verdict for a packet does not depend on the format of the rules.
    let verdicts = |rules: &str| {
        let (code, lines, _) = fixture.run(&["classify", rules, "x.pcap", "--csv", "-"]);
        assert_eq!(code, 0);
        let keep = |line: &str| {
            let fields: Vec<_> = line.split(',').collect();
            [fields[0], fields[1], fields[2], fields[4], fields[5]].join(",")
        };
        lines.lines().map(keep).collect::<Vec<_>>()
    };
    assert_eq!(verdicts("x.json"), verdicts("x.rules"));
    assert_eq!(verdicts("short.json"), verdicts("x.rules"));
}

#[test]
fn completions_and_manual() {
    let fixture = Fixture::new("manual");
    assert_snapshot!("help-convert", fixture.shown(&["convert", "--help"]));
    let (code, page, err) = fixture.run(&["manual"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(page.contains(".TH firstmatch 1") && page.contains("firstmatch\\-convert(1)"), "{page}");
    let (code, out, err) = fixture.run(&["manual", "--dir", "man/man1"]);
    assert_eq!((code, &*out, &*err), (0, "", ""));
    assert_eq!(fixture.read("man/man1/firstmatch.1"), page);
    let mut names: Vec<_> = std::fs::read_dir(fixture.folder.join("man/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_snapshot!("manual-pages", names.join("\n"));
    let page = fixture.read("man/man1/firstmatch-convert.1");
    assert_snapshot!("manual-convert", page.replace(env!("CARGO_PKG_VERSION"), "[version]"));
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, out, err) = fixture.run(&["completions", shell]);
        assert_eq!((code, &*err), (0, ""), "{shell}");
        assert!(out.contains("convert") && out.contains("output"), "{shell}");
    }
    // A shell that is installed accepts its script.
    let (_, script, _) = fixture.run(&["completions", "bash"]);
    fixture.write("script", script);
    if let Ok(status) = std::process::Command::new("bash").args(["-n", "script"]).current_dir(&fixture.folder).status()
    {
        assert!(status.success());
    }
}

/// Rules that test the flags column are counted, and a line is shown without the end that Windows gives it.
#[test]
fn rules_of_flags_are_counted() {
    let fixture = Fixture::new("convert-flags");
    let rule = "@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0200/0x0200\r\n";
    for (count, others) in [(1, ""), (2, ", and so does another"), (3, ", and so do 2 more")] {
        fixture.write("flags.rules", rule.repeat(count));
        let (code, _, err) = fixture.run(&["convert", "flags.rules"]);
        let said = format!("this rule tests the flags column{others}\n");
        assert!(code == 2 && err.contains(&said) && !err.contains('\r'), "{err:?}");
    }
}
