//! Tests of `firstmatch check`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::fixture::Fixture;

const FOUND: &str = "\
default deny
permit tcp dst 192.0.2.0/24 dport 80
permit tcp dport 1-500
permit tcp dport 501-65535
deny tcp src 10.0.0.0/8 dport 20-600
deny tcp dport 80 dst 192.0.2.0/24
permit udp tcp_flags 0x02
permit icmp
permit icmp icmp_type echo-request
deny udp dport 53
";

#[test]
fn findings_are_shown_with_their_causes_and_a_packet() {
    let fixture = Fixture::new("check");
    fixture.write("found.rules", FOUND);
    fixture.write("clean.rules", "permit tcp dport 22\nmark 1 tcp\npermit\n");
    let lines: [&[&str]; 5] = [
        &["check", "found.rules"],
        &["check", "clean.rules"],
        &["check", "found.rules", "--max-work", "0"],
        &["check", "found.rules", "--fail-on", "shadowed,unknown"],
        &["check", "none.rules"],
    ];
    assert_snapshot!("check", lines.map(|line| fixture.shown(line)).join("\n"));
    for (kinds, code) in [("unmatchable", 1), ("undecided", 0), ("duplicate,undecided", 1)] {
        assert_eq!(fixture.run(&["check", "found.rules", "--fail-on", kinds]).0, code, "{kinds}");
    }
    fixture.write("bad.rules", "permit tcp\npermit src 10.0.0.1/8\n");
    let (code, out, err) = fixture.run(&["check", "bad.rules"]);
    assert!((code, &*out) == (2, "") && err.contains("bad.rules:2"), "{err}");
    // A warning about a rule that is no finding is shown as elsewhere.
    fixture.write("hint.rules", "permit tcp dport 22\nmark 1\n");
    let (_, _, of_classify) = fixture.run(&["classify", "hint.rules", "x.pcap"]);
    assert_eq!(fixture.run(&["check", "hint.rules"]).2, of_classify);
}

/// Values that others of a list hold are named once; kinds are chosen for all forms alike.
#[test]
fn held_values_and_chosen_kinds() {
    let fixture = Fixture::new("held");
    fixture.write(
        "h.rules",
        "set web = { 80, 443, 80-90, 80 }\npermit tcp src { 10.0.0.0/8, 10.1.0.0/16, 2001:db8::/32 } dport $web\n\
         deny tcp dport $web src { 192.0.2.0/25, 192.0.2.128/25, 192.0.2.100-192.0.2.200 }\npermit tcp dport 22\n\
         permit tcp dport { 22, 23 } icmp_type absent\ndeny tcp dport 22\n",
    );
    let (code, out, err) = fixture.run(&["check", "h.rules", "--only", "held-value"]);
    assert_eq!((code, &*err), (1, ""));
    let messages: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("h.rules:")).collect();
    assert_eq!(
        messages,
        [
            "2: 10.1.0.0/16 is in the list of `src` although 10.0.0.0/8 holds it",
            "2: 80 is in the list of `dport` although 80-90 holds it; others hold 1 more of its values",
            "3: 192.0.2.100-192.0.2.200 is in the list of `src` although others of the list hold it together",
            " 5 rules; 3 held-value; complete",
        ]
    );
    let (code, out, _) = fixture.run(&["check", "h.rules", "--only", "shadowed,duplicate", "--fail-on", "held-value"]);
    assert!(code == 0 && !out.contains("held") && out.contains("h.rules:6") && out.contains("1 duplicate"), "{out}");
    let (_, out, _) = fixture.run(&["check", "h.rules", "--only", "unmatchable", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["findings"], &value["summary"]), (&serde_json::json!([]), &serde_json::json!({})));
}

/// A last rule that states the default is no finding.
#[test]
fn the_default_may_be_stated() {
    let fixture = Fixture::new("stated");
    for (text, code) in [
        ("permit tcp dport 22\ndeny\n", 0),
        ("permit tcp dport 22\ndeny family ipv4\ndeny family ipv6\n", 0),
        ("default permit\ndeny tcp dport 22\npermit\n", 0),
        ("permit tcp dport 22\ndeny tcp\ndeny\n", 1),
        ("permit tcp dport 22\npermit\ndeny\n", 1),
    ] {
        fixture.write("s.rules", text);
        assert_eq!(fixture.run(&["check", "s.rules"]).0, code, "{text}");
    }
}

/// Overlaps are reported on request, and sets that no rule uses always, in each form.
#[test]
fn overlaps_and_unused_sets() {
    let fixture = Fixture::new("overlaps");
    fixture.write("o.rules", "set web = { 80 }\ndeny tcp dport 23\npermit src 10.0.0.0/8\nmark 1 udp\n");
    let (code, out, err) = fixture.run(&["check", "o.rules"]);
    assert_eq!((code, &*err), (1, ""));
    assert!(out.contains("o.rules:1: the set `web` is never used") && out.contains("1 unused-set"), "{out}");
    assert_eq!(fixture.run(&["check", "o.rules", "--fail-on", "shadowed"]).0, 0);
    let (_, out, _) = fixture.run(&["check", "o.rules", "--overlaps", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let of = |name: &str| value["findings"].as_array().unwrap().iter().map(|f| f[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of("kind"), of("line")),
        (["unused-set", "overlap", "overlap"].map(Value::from).to_vec(), [1, 3, 4].map(Value::from).to_vec(),)
    );
    assert_eq!(value["findings"][1]["by"][0]["line"], 2);
    assert_eq!(value["findings"][1]["packet"]["dport"], 23);
    let (_, out, _) = fixture.run(&["check", "o.rules", "--overlaps", "--sarif"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let results = value["runs"][0]["results"].as_array().unwrap();
    let ids: Vec<_> = results.iter().map(|result| result["ruleId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["unused-set", "overlap", "overlap"]);
    let rules = value["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    for result in results {
        assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], result["ruleId"]);
    }
}

/// The packet of a finding is one of its rule: `explain` says that an earlier rule decides.
#[test]
fn findings_for_programs() {
    let fixture = Fixture::new("check-json");
    fixture.write("found.rules", FOUND);
    let (code, out, err) = fixture.run(&["check", "found.rules", "--json"]);
    assert_eq!((code, &*err), (1, ""));
    let value: Value = serde_json::from_str(&out).unwrap();
    let findings = value["findings"].as_array().unwrap();
    let of = |name: &str| findings.iter().map(|finding| finding[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("line"), [2, 5, 6, 7, 9, 10]);
    assert_eq!(of("kind"), ["redundant", "shadowed", "duplicate", "unmatchable", "shadowed", "redundant"]);
    let causes =
        |at: usize| findings[at]["by"].as_array().unwrap().iter().map(|by| by["line"].clone()).collect::<Vec<_>>();
    assert_eq!((causes(1), causes(3)), (vec![3.into(), 4.into()], vec![]));
    assert_eq!((&value["complete"], &value["summary"]["shadowed"]), (&true.into(), &2.into()));
    let packet = &findings[1]["packet"];
    let text = format!("tcp {}:{} > {}:{}", packet["src"], packet["sport"], packet["dst"], packet["dport"]);
    let (_, explained, _) = fixture.run(&["explain", "found.rules", &text.replace('"', ""), "--rule", "5"]);
    assert!(explained.contains("comes first"), "{explained}");

    let (code, out, _) = fixture.run(&["check", "found.rules", "--sarif"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &value["version"]), (1, &"2.1.0".into()));
    let results = value["runs"][0]["results"].as_array().unwrap();
    let rules = &value["runs"][0]["tool"]["driver"]["rules"];
    assert_eq!(results.len(), 6);
    for (result, finding) in results.iter().zip(findings) {
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["region"]["startLine"], finding["line"]);
        assert_eq!((&place["artifactLocation"]["uri"], &result["ruleId"]), (&"found.rules".into(), &finding["kind"]));
        assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], result["ruleId"]);
        assert_eq!(result["relatedLocations"].as_array().unwrap().len(), finding["by"].as_array().unwrap().len());
    }
    // A finding keeps its fingerprint where lines move.
    fixture.write("moved.rules", format!("# a comment\n\n{FOUND}"));
    let (_, out, _) = fixture.run(&["check", "moved.rules", "--sarif"]);
    let moved: Value = serde_json::from_str(&out).unwrap();
    for (result, moved) in results.iter().zip(moved["runs"][0]["results"].as_array().unwrap()) {
        assert_eq!(result["partialFingerprints"], moved["partialFingerprints"]);
    }
}
