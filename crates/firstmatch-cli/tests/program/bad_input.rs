//! Bad input of every kind: its messages, and exit code 2.

use insta::assert_snapshot;

use crate::fixture::Fixture;

/// Without the feature `live`, the command says which one is missing.
#[cfg(not(feature = "live"))]
#[test]
fn watch_names_the_feature_that_is_missing() {
    let fixture = Fixture::new("no-live");
    let (code, out, err) = fixture.run(&["watch", "x.rules", "lo"]);
    assert!((code, &*out) == (2, "") && err.contains("cargo install firstmatch-cli --features live"), "{err}");
}

#[test]
fn bad_commands_and_bad_files() {
    let fixture = Fixture::new("bad");
    fixture.write("empty", "");
    fixture.write("binary", [0u8, 159, 146, 150, 7, 7, 7, 7]);
    fixture.write("latin1.rules", b"permit tcp\ndeny udp # caf\xe9\n");
    fixture.write("bad.trace", "1 2 3 4 6 0\n1 2 3 4 999 0\n");
    fixture.write("garbage.pcap", [&[0xd4, 0xc3, 0xb2, 0xa1][..], &[0xff; 100]].concat());
    std::fs::create_dir(fixture.folder.join("folder")).unwrap();
    let mut shown = String::new();
    for line in [
        &["classify"][..],
        &["classify", "x.rules"],
        &["sort", "x.rules"],
        &["classify", "missing.rules", "x.pcap"],
        &["classify", "x.rules", "missing.pcap"],
        &["classify", "folder", "x.pcap"],
        &["classify", "x.rules", "folder"],
        &["classify", "x.pcap", "x.pcap"],
        &["classify", "x.rules", "x.rules"],
        &["classify", "cb.rules", "cb.rules"],
        &["classify", "empty", "x.pcap"],
        &["classify", "x.rules", "empty"],
        &["classify", "binary", "x.pcap"],
        &["classify", "x.rules", "binary"],
        &["classify", "latin1.rules", "x.pcap"],
        &["classify", "x.rules", "bad.trace"],
        &["classify", "x.rules", "garbage.pcap"],
        &["classify", "-", "-"],
        &["classify", "x.rules", "x.pcap", "--engine", "quick"],
        &["classify", "x.rules", "x.pcap", "--check", "some"],
        &["classify", "x.rules", "x.pcap", "--check", "0"],
        &["classify", "x.rules", "x.pcap", "--repeat", "0"],
        &["classify", "x.rules", "x.pcap", "--batch", "0"],
        &["classify", "x.rules", "x.pcap", "--csv", "missing/out.csv"],
        &["classify", "cb.rules", "cb.trace", "--flags"],
        &["classify", "cb.rules", "x.pcap", "--flags"],
    ] {
        shown.push_str(&fixture.shown(line));
        shown.push('\n');
    }
    assert_eq!(shown.matches("exit code 2").count(), shown.matches("$ firstmatch").count(), "{shown}");
    assert_snapshot!("bad-input", shown);
}

/// Each limit on regions can be reached, and the message names the option that raises it.
#[test]
fn limits_are_named_by_their_options() {
    let fixture = Fixture::new("limits-named");
    fixture.write("lists.rules", "permit tcp dport 22\npermit udp sport { 1, 3, 5 } dport { 1, 3, 5 }\n");
    fixture.write("masks.rules", "permit src { 0.0.0.1/0.0.0.1, 0.0.0.2/0.0.0.2, 0.0.0.4/0.0.0.4 }\n");
    for (rules, option, limit) in [
        ("lists.rules", "--max-regions-per-rule", "8"),
        ("lists.rules", "--max-regions", "9"),
        ("lists.rules", "--max-region-bytes", "500"),
        ("masks.rules", "--max-mask-comparisons", "2"),
    ] {
        let shown = fixture.shown(&["classify", rules, "x.pcap", "--engine", "bit_select", option, limit]);
        assert!(shown.contains("exit code 2") && shown.contains(option.trim_start_matches('-')), "{shown}");
        let shown = fixture.shown(&["classify", rules, "x.pcap", option, "100000"]);
        assert!(!shown.contains("exit code 2"), "{shown}");
        let shown = fixture.shown(&["convert", rules, option, "none"]);
        assert!(shown.contains("exit code 2") && shown.contains(option), "{shown}");
    }
}

/// Rules on long lists are decided whatever their regions; one beyond the limits even so is named, the others decided.
#[test]
fn questions_go_on_beyond_the_limits_on_regions() {
    let fixture = Fixture::new("limits-questions");
    let lists = "permit udp sport { 1, 3, 5 } dport { 1, 3, 5 }\npermit udp sport 3 dport { 1, 5 }\n";
    let types = "permit icmp icmp_type { 3, 5, 11 } icmp_code { 1, 3, 5 }\n";
    fixture.write("lists.rules", lists);
    fixture.write("both.rules", format!("{lists}{types}"));
    fixture.write("more.rules", format!("{lists}{types}").replace("11 }", "12 }"));
    let limit = ["--max-regions-per-rule", "8"];
    let run = |line: &[&str]| fixture.run(&[line, &limit[..]].concat());
    let (code, out, err) = run(&["check", "lists.rules"]);
    assert!(code == 1 && out.contains("takes all its packets") && out.contains("complete"), "{out}{err}");
    let (code, out, err) = run(&["check", "both.rules"]);
    assert!(code == 1 && out.contains("takes all its packets"), "{out}{err}");
    assert!(
        out.contains("both.rules:3") && out.contains("undecided: this rule exceeds the limits on regions"),
        "{out}"
    );
    let (code, out, err) = run(&["diff", "both.rules", "both.rules"]);
    assert!(code == 0 && out.contains("nothing differs, for any packet"), "{out}{err}");
    let (code, out, err) = run(&["diff", "both.rules", "more.rules"]);
    let named = ["both.rules:3 is undecided", "more.rules:3 is undecided", "0 pairs of rules differ"];
    assert!(code == 1 && named.iter().all(|named| out.contains(named)) && !out.contains("--max-work"), "{out}{err}");
    let (_, out, err) = run(&["diff", "both.rules", "more.rules", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["beyond_limits"], serde_json::json!(["both.rules:3", "more.rules:3"]), "{err}");
    let (code, out, err) = run(&["prove", "both.rules", "--packets", "20000"]);
    assert!(code == 0 && out.matches("agrees at").count() > 2 && out.contains("not built: "), "{out}{err}");
}

/// A limit that refuses an engine is named with what helps.
#[test]
fn limits_of_engines_are_named_by_what_raises_them() {
    let fixture = Fixture::new("engine-limits");
    fixture.write("many.rules", (1..40).map(|port| format!("permit tcp dport {port}\n")).collect::<String>());
    for option in ["--worst-lines", "--build-bytes", "--build-visits"] {
        let (code, _, err) = fixture.run(&["classify", "many.rules", "x.pcap", option, "1"]);
        let help = format!("; that is the limit set by {option}; a larger one there, or none, lets it be built\n");
        assert!(code == 2 && err.contains(&help), "{err}");
    }
}

/// Long lists of either family are served by every engine of products, whose tables would not fit as regions.
#[test]
fn long_lists_are_served_by_engines_of_products() {
    let fixture = Fixture::new("long-lists");
    let list = |prefix: &str| (1..2001).map(|n| format!("{prefix}{n:x}")).collect::<Vec<_>>().join(", ");
    let hosts = |from: usize| (from..from + 4000).step_by(2).map(|n| format!("10.0.{}.{}", n / 256, n % 256));
    let hosts = |from: usize| hosts(from).collect::<Vec<_>>().join(", ");
    let ports = (0..20).map(|n| (50 * n + 1000).to_string()).collect::<Vec<_>>().join(", ");
    for (src, dst) in [(hosts(0), hosts(8000)), (list("2001:db8:7::5:"), list("2001:db8:9::"))] {
        fixture.write("lists.rules", format!("permit tcp src {{ {src} }} dst {{ {dst} }} dport {{ {ports} }}\n"));
        for engine in ["linear", "bit_vector", "set_pairs", "decomposition", "npf", "rfc", "bitmap_rfc"] {
            let shown = fixture.shown(&["classify", "lists.rules", "x.pcap", "--engine", engine]);
            assert!(shown.contains("exit code 0"), "{engine}: {shown}");
        }
    }
}

#[test]
fn bad_rules() {
    let fixture = Fixture::new("bad-rules");
    let mut shown = String::new();
    let odd = (0..1100).map(|n| (2 * n + 1).to_string()).collect::<Vec<_>>().join(", ");
    for rules in [
        "permit tpc\n",
        "permit src 10.0.0.1/8 dport 99999\r\n\tdeny proto tcp é\r\nset a = { 80\n",
        "set unused = { 1 }\npermit src 10.0.0.0/8 dst ::/0\ndeny dport not any\n",
        &"permit dport 0-99999\n".repeat(25),
        &format!("permit src not {{ 0.0.0.1/0.0.0.1, 0.0.2.0/0.0.2.0 }} sport {{ {odd} }} dport {{ {odd} }}\n"),
        &format!("permit dport {{ {}99999 }}\n", "80, ".repeat(5000)),
        "permit \0\u{1b}[31m\n",
        "@10.0.0.0/8\n@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t9 : 8\t0x06/0xFF\n",
    ] {
        fixture.write("bad.rules", rules);
        // An engine of regions is refused too many of them.
        let engine = if rules.contains(&odd) { "bit_select" } else { "linear" };
        shown.push_str(&fixture.shown(&["classify", "bad.rules", "x.pcap", "--top", "0", "--engine", engine]));
        shown.push('\n');
    }
    assert_snapshot!("bad-rules", shown);
}
