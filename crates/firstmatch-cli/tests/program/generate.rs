//! Tests of `firstmatch generate`, and of its output and of tables in the other commands.

use insta::assert_snapshot;

use crate::fixture::Fixture;

#[test]
fn rules_and_a_trace_of_them() {
    let fixture = Fixture::new("generate");
    assert_snapshot!("help-generate-rules", fixture.shown(&["generate", "rules", "--help"]));
    assert_snapshot!("help-generate-trace", fixture.shown(&["generate", "trace", "--help"]));
    let rules = ["generate", "rules", "--profile", "fw", "--rules", "200", "--seed", "3"];
    let (code, text, err) = fixture.run(&rules);
    assert_eq!((code, &*err, text.lines().count()), (0, "", 200));
    assert_eq!(fixture.run(&rules).1, text, "the same seed, the same bytes");
    fixture.write("fw.rules", text);
    let (code, trace, err) = fixture.run(&["generate", "trace", "fw.rules", "--headers", "3000", "--zipf", "1"]);
    assert_eq!((code, trace.lines().count()), (0, 3000), "{err}");
    fixture.write("fw.trace", trace);
    for engine in ["meta", "linear", "tuplemerge", "tuplemerge_offline", "bit_select", "bit_vector", "tss"] {
        let line = ["classify", "fw.rules", "fw.trace", "--engine", engine, "--check", "all", "--json"];
        let (code, out, err) = fixture.run(&line);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &value["matched"], &value["unmatched"]), (0, &3000.into(), &0.into()), "{err}");
    }
    let line = ["generate", "trace", "fw.rules", "--headers", "3000", "--zipf", "1", "--format", "pcap"];
    let output = fixture.command(&line).output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), 24 + 3000 * (16 + 64));
    fixture.write("fw.pcap", output.stdout);
    for engine in ["meta", "linear", "tuplemerge"] {
        let line = ["classify", "fw.rules", "fw.pcap", "--engine", engine, "--check", "all", "--json"];
        let (code, out, err) = fixture.run(&line);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &value["matched"], &value["bytes"]), (0, &3000.into(), &192_000.into()), "{err}");
        assert_eq!(value["check"], serde_json::json!({ "packets": 3000, "differences": 0 }));
    }
    let native = ["generate", "rules", "--family", "inet", "--format", "native", "--rules", "50", "--mark", "0.2"];
    let (code, text, err) = fixture.run(&native);
    assert_eq!((code, &*err), (0, ""));
    fixture.write("inet.rules", text);
    assert_eq!(fixture.run(&["classify", "inet.rules", "x.pcap", "--check", "all"]).0, 0);
}

/// Rules that test more than addresses, ports and protocols have traces too, as tables and captures.
#[test]
fn traces_of_any_rules() {
    let fixture = Fixture::new("generate-any");
    fixture.write("any.rules", "permit icmp icmp_type 8\ndeny tcp tcp_flags 0x02/0x12\npermit vlan_vid 7\n");
    let knobs = ["--headers", "3000", "--entropy", "1", "--phases", "3", "--attack", "0.2", "--attack-burst", "16"];
    for (format, file) in [("table", "any.csv"), ("pcap", "any.pcap")] {
        let line = [&["generate", "trace", "any.rules", "--format", format][..], &knobs].concat();
        let output = fixture.command(&line).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fixture.write(file, output.stdout);
        let (code, out, err) = fixture.run(&["classify", "any.rules", file, "--check", "all", "--json"]);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &value["matched"]), (0, &3000.into()), "{err}");
        assert_eq!(value["check"], serde_json::json!({ "packets": 3000, "differences": 0 }));
    }
    let (code, _, err) = fixture.run(&["generate", "trace", "any.rules"]);
    assert!(code == 2 && err.contains("no column for the field") && err.contains("--format table"), "{code} {err}");
    // Only a field without room has that way out.
    let (code, _, err) = fixture.run(&["generate", "trace", "any.rules", "--entropy", "99", "--format", "pcap"]);
    assert!(code == 2 && err.contains("from 0 to 32") && !err.contains("--format table"), "{code} {err}");
    let full = ["generate", "rules", "--profile", "ipc1-full", "--rules", "300"];
    assert_eq!(fixture.run(&full).1.lines().count(), 300);
}

/// Rules of core routers have four fields, and every form of packets has them.
#[test]
fn rules_without_a_protocol() {
    let fixture = Fixture::new("generate-core");
    let rules = ["generate", "rules", "--profile", "core", "--rules", "5000", "--seed", "1"];
    let (code, text, err) = fixture.run(&rules);
    assert_eq!((code, &*err), (0, ""));
    assert!(text.starts_with("schema {\n    src 32 prefix from src\n") && !text.contains("tcp"), "{text}");
    fixture.write("core.rules", text);
    for (format, file) in [("classbench", "core.trace"), ("table", "core.csv"), ("pcap", "core.pcap")] {
        let line = ["generate", "trace", "core.rules", "--headers", "8000", "--format", format];
        let output = fixture.command(&line).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fixture.write(file, output.stdout);
        for engine in ["meta", "linear", "tuplemerge"] {
            let line = ["classify", "core.rules", file, "--engine", engine, "--check", "all", "--json"];
            let (code, out, err) = fixture.run(&line);
            let value: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!((code, &value["matched"]), (0, &8000.into()), "{file}, {engine}: {err}");
            assert_eq!(value["check"], serde_json::json!({ "packets": 8000, "differences": 0 }));
        }
    }
    // Other sizes are made, with a warning.
    for count in ["999", "17001"] {
        let (code, out, err) = fixture.run(&["generate", "rules", "--profile", "core", "--rules", count]);
        assert!(code == 0 && out.lines().count() > 900, "{code}");
        assert!(err.starts_with("warning: the profile core stands for 1000 to 17000 rules"), "{err}");
    }
    let (code, out, err) = fixture.run(&["generate", "rules", "--profile", "core", "--format", "classbench"]);
    assert_eq!((code, &*out), (2, ""));
    assert!(err.contains("have no protocol") && err.contains("--format native"), "{err}");
    let (code, _, err) = fixture.run(&["generate", "rules", "--profile", "core", "--family", "inet"]);
    assert!(code == 2 && err.contains("of one family"), "{err}");
}

/// A policy names its groups as sets, and every command reads it as any other rule file.
#[test]
fn policies() {
    let fixture = Fixture::new("generate-policy");
    let few = ["generate", "rules", "--profile", "policy", "--rules", "12", "--seed", "2"];
    assert_snapshot!("policy", fixture.shown(&few));
    for (family, trace) in [("ipv4", "classbench"), ("ipv6", "classbench"), ("inet", "table")] {
        let rules = ["generate", "rules", "--profile", "policy", "--rules", "300", "--family", family];
        let (code, text, err) = fixture.run(&rules);
        assert_eq!((code, &*err), (0, ""));
        assert!(text.contains("set hosts_1 = {") && text.contains(" dport $ports_"), "{text}");
        fixture.write("policy.rules", text);
        let line = ["generate", "trace", "policy.rules", "--headers", "2000", "--drawn", "--format", trace];
        let (code, packets, err) = fixture.run(&line);
        assert_eq!(code, 0, "{err}");
        fixture.write("policy.packets", packets);
        for engine in ["meta", "linear", "bit_vector"] {
            let line = ["classify", "policy.rules", "policy.packets", "--engine", engine, "--check", "all", "--json"];
            let (code, out, err) = fixture.run(&line);
            let value: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!((code, &value["matched"]), (0, &2000.into()), "{family}, {engine}: {err}");
            assert_eq!(value["check"], serde_json::json!({ "packets": 2000, "differences": 0 }));
        }
    }
    for (option, said) in [
        (&["--format", "classbench"][..], "--format native"),
        (&["--disorder", "0.1"], "no `--disorder`"),
        (&["--catch-all"], "or `--catch-all`"),
        (&["--rules", "1048577"], "1 to 1048576"),
    ] {
        let line = [&["generate", "rules", "--profile", "policy"][..], option].concat();
        let (code, out, err) = fixture.run(&line);
        assert!(code == 2 && out.is_empty() && err.contains(said), "{line:?}: {err}");
    }
}

#[test]
fn what_cannot_be_generated() {
    let fixture = Fixture::new("generate-bad");
    for line in [
        &["generate", "rules", "--rules", "0"][..],
        &["generate", "rules", "--disorder", "2"],
        &["generate", "rules", "--profile", "none"],
        &["generate", "rules", "--family", "inet"],
        &["generate", "trace", "x.rules", "--pareto", "1"],
        &["generate", "trace", "cb.rules", "--entropy", "31"],
        &["generate", "trace", "cb.rules", "--attack", "2"],
        &["generate", "trace", "cb.rules", "--attack-burst", "2"],
        &["generate", "trace", "cb.rules", "--phases", "2"],
        &["generate", "trace", "cb.rules", "--zipf", "1", "--entropy", "1"],
        &["generate", "trace", "nothing.rules"],
        &["generate", "trace", "cb.rules", "--headers", "1"],
    ] {
        let (code, out, err) = fixture.run(line);
        assert_eq!((code, &*out), (2, ""), "{line:?}");
        assert!(err.starts_with("error: "), "{line:?}: {err}");
    }
}

#[test]
fn tables_of_header_fields() {
    let fixture = Fixture::new("tables");
    fixture.write(
        "x.csv",
        "src,dst,sport,dport,proto,icmp_type,vlan_vid,bytes\n\
         10.0.0.1,192.0.2.80,40000,443,tcp,,,1500\n\
         10.0.0.2,192.0.2.1,,,icmp,8,,84\n\
         2001:db8::9,2001:db8::1,1,2,tcp,,7,60\n",
    );
    assert_snapshot!("table", fixture.shown(&["classify", "x.rules", "x.csv", "--check", "all"]));
    assert_snapshot!("table-explained", fixture.shown(&["explain", "x.rules", "x.csv#2"]));
    fixture.write("bad.csv", "src,dst,sport,dport,proto,icmp_type,vlan_vid\n10.0.0.1,192.0.2.80,70000,443,tcp,,\n");
    assert_snapshot!("table-bad", fixture.shown(&["classify", "x.rules", "bad.csv"]));
}

#[test]
fn rules_over_other_fields() {
    let fixture = Fixture::new("openflow");
    fixture.write(
        "of.rules",
        "schema openflow\npermit eth_type arp\npermit ip_proto 6 tp_dst { 80, 443 } in_port 0\npermit vlan_vid 7\n",
    );
    assert_snapshot!("openflow", fixture.shown(&["classify", "of.rules", "x.pcap", "--check", "all"]));
    assert_snapshot!("openflow-explained", fixture.shown(&["explain", "of.rules", "x.pcap#0", "--rule", "3"]));
    fixture.write("metadata.rules", "schema openflow\npermit metadata 0x100000002 eth_type ipv4\n");
    // A fragment and a frame that is cut have an ether type too.
    for (packets, count) in [("x.pcap", 7), ("cb.trace", 3)] {
        for (metadata, count) in [("0x100000002", count), ("4294967298", count), ("2", 0)] {
            let line = ["classify", "metadata.rules", packets, "--metadata", metadata, "--check", "all", "--json"];
            let (code, out, err) = fixture.run(&line);
            let value: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!((code, &value["matched"]), (0, &count.into()), "{line:?} {err}");
        }
        let packet = format!("{packets}#0");
        let (code, out, _) = fixture.run(&["explain", "metadata.rules", &packet, "--metadata", "0x100000002"]);
        assert!(code == 0 && out.contains("permit, by metadata.rules:2"), "{out}");
    }
    let no_metadata = [
        fixture.shown(&["classify", "x.rules", "x.pcap", "--metadata", "1"]),
        fixture.shown(&["explain", "x.rules", "x.pcap#0", "--metadata", "1"]),
        fixture.shown(&["classify", "metadata.rules", "x.pcap", "--metadata", "0x10000000000000000"]),
    ];
    assert_snapshot!("no-metadata", no_metadata.join("\n"));
    fixture.write("own.rules", "schema {\n  tenant 24 exact\n  dst 32 prefix from dst\n}\npermit tenant 7\n");
    assert_snapshot!("own-schema-without-source", fixture.shown(&["classify", "own.rules", "x.pcap"]));
    fixture.write("own.csv", "tenant,dst\n7,10.0.0.1\n8,10.0.0.1\n");
    assert_snapshot!("own-schema", fixture.shown(&["classify", "own.rules", "own.csv", "--check", "all"]));
    // Rows are counted to the last, however many share a stretch.
    for rows in [1, 2, 3, 4095, 4096, 4097] {
        fixture.write("rows.csv", format!("tenant,dst\n{}", "7,10.0.0.1\n".repeat(rows)));
        for check in [&["--check", "all"][..], &[]] {
            let line = [&["classify", "own.rules", "rows.csv", "--json"], check].concat();
            let (code, out, err) = fixture.run(&line);
            let value: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!((code, &value["packets"], &value["matched"]), (0, &rows.into(), &rows.into()), "{line:?} {err}");
        }
    }
}
