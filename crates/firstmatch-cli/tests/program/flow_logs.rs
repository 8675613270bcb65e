//! Tests of flow logs as the packets of a run.

use std::io::Write;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::fixture::Fixture;

const AWS: &str = "\
version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status
2 1 eni-1 10.0.0.1 192.0.2.7 40000 443 6 20 4249 1418530010 1418530070 ACCEPT OK
2 1 eni-1 10.0.0.2 192.0.2.7 40001 22 6 3 180 1418530010 1418530070 REJECT OK
2 1 eni-1 10.0.0.3 192.0.2.9 5353 53 17 9000000000 9999999999999 1418530010 1418530070 ACCEPT OK
2 1 eni-1 10.0.0.4 192.0.2.9 0 0 1 4 336 1418530010 1418530070 ACCEPT OK
2 1 eni-1 2001:db8::1 2001:db8::2 40000 443 6 7 700 1418530010 1418530070 ACCEPT OK
2 1 eni-1 - - - - - - - 1418530010 1418530070 - NODATA
2 1 eni-1 - 10.0.0.1 1 2 6 1 40 1418530010 1418530070 ACCEPT OK
";
const RULES: &str =
    "deny tcp dport 22\npermit tcp dst { 192.0.2.0/24, 2001:db8::/32 } dport 443\npermit udp dport 53\n";

/// Returns the object that `--json` prints, and standard error.
fn json(fixture: &Fixture, line: &[&str]) -> (i32, Value, String) {
    let (code, out, err) = fixture.run(&[line, &["--json"]].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}")), err)
}

#[test]
fn rows_are_decided_and_weighed() {
    let fixture = Fixture::new("flow-logs");
    fixture.write("f.rules", RULES);
    fixture.write("vpc.log", AWS);
    assert_snapshot!("flows-summary", fixture.shown(&["classify", "f.rules", "vpc.log", "--check", "all"]));
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(AWS.replace('\n', "\r\n").as_bytes()).unwrap();
    fixture.write("vpc.log.gz", zipped.finish().unwrap());
    for workers in ["1", "2"] {
        let (code, answer, err) =
            json(&fixture, &["classify", "f.rules", "vpc.log", "vpc.log.gz", "--workers", workers]);
        assert_eq!((code, &*err), (0, ""));
        assert_eq!(answer["verdicts"], json!({ "deny": 4, "permit": 6 }));
        let flows = json!({
            "rows": 14, "flows": 10, "continued": 0, "ways_back": 0, "packets": 18_000_000_068_u64, "without_traffic": 2,
            "without_address": 2, "malformed": 0, "unknown_fields": {},
        });
        assert_eq!(answer["flows"], flows);
        let hits: Vec<_> = answer["rule_hits"].as_array().unwrap().iter().collect();
        let of = |line: u64, name: &str| hits.iter().find(|of| of["line"] == line).map(|of| of[name].clone()).unwrap();
        assert_eq!([of(2, "packets"), of(2, "flow_packets"), of(2, "bytes")], [json!(4), json!(54), json!(9898)]);
        assert_eq!([of(3, "packets"), of(3, "bytes")], [json!(2), json!(19_999_999_999_998_u64)]);
    }
    let (code, out, _) = fixture.run(&["classify", "f.rules", "vpc.log", "--csv", "-"]);
    assert!(code == 0 && out.contains("2,complete,3,3,permit,permit,9999999999999,,\n"), "{out}");
    let (code, out, _) = fixture.run(&["explain", "f.rules", "vpc.log#1"]);
    assert!(code == 0 && out.contains("number 1 of vpc.log, line 3") && out.contains("deny"), "{out}");
    let (code, out, _) = fixture.run(&["engines", "f.rules", "--count", "vpc.log"]);
    assert!(code == 0 && out.contains("4 packets, steps a packet"), "{out}");
    let (code, out, _) = fixture.run(&["diff", "f.rules", "x.rules", "vpc.log"]);
    assert!(code < 2, "{out}");
}

#[test]
fn lacking_fields_and_flags_are_named() {
    let fixture = Fixture::new("flow-fields");
    fixture.write("f.rules", "permit tcp tcp_flags 0x02/0x12\npermit icmp icmp_type echo-request\npermit udp\n");
    fixture.write("vpc.log", AWS);
    assert_snapshot!("flows-unknown", fixture.shown(&["classify", "f.rules", "vpc.log"]));
    fixture.write("few.log", "srcaddr dstaddr action\n10.0.0.1 10.0.0.2 ACCEPT\n");
    let (code, answer, _) = json(&fixture, &["classify", "f.rules", "few.log"]);
    assert_eq!((code, &answer["outcomes"]), (0, &json!({ "lacks-field": 1 })));
    assert_eq!(answer["flows"]["unknown_fields"], json!({ "proto": 1, "icmp_type": 1, "tcp_flags": 1 }));
}

#[test]
fn malformed_rows_end_the_input_or_are_left_out() {
    let fixture = Fixture::new("flow-faults");
    fixture.write("f.rules", RULES);
    fixture.write("bad.log", AWS.replacen("192.0.2.7 40001", "192.0.2.777 40001", 1));
    assert_snapshot!("flows-fault", fixture.shown(&["classify", "f.rules", "bad.log"]));
    let (code, answer, err) = json(&fixture, &["classify", "f.rules", "bad.log", "--skip-bad"]);
    assert_eq!((code, &answer["flows"]["malformed"], &answer["packets"]), (0, &json!(1), &json!(4)));
    let warning =
        "bad.log: 1 row was malformed and left out; the first is line 3, column 20: 192.0.2.777 is no address";
    assert!(err.contains(warning), "{err}");
    let (code, _, err) = fixture.run(&["explain", "f.rules", "bad.log#2"]);
    assert!(code == 2 && err.contains("192.0.2.777 is no address"), "{err}");
    let (code, out, _) = fixture.run(&["explain", "f.rules", "bad.log#1", "--skip-bad"]);
    assert!(code == 0 && out.contains("number 1 of bad.log, line 4"), "{out}");
}

#[test]
fn columns_and_formats_are_given_by_hand() {
    let fixture = Fixture::new("flow-columns");
    fixture.write("f.rules", RULES);
    fixture.write("nat.log", "srcaddr dstaddr pkt-dstaddr dstport protocol\n10.0.0.1 10.9.9.9 192.0.2.7 443 6\n");
    let verdicts = |more: &[&str]| {
        let (code, answer, err) = json(&fixture, &[&["classify", "f.rules"], more].concat());
        assert_eq!((code, &*err), (0, ""), "{more:?}");
        answer["verdicts"].clone()
    };
    assert_eq!(verdicts(&["nat.log"]), json!({ "deny": 1 }));
    assert_eq!(verdicts(&["nat.log", "--columns", "dst=pkt-dstaddr"]), json!({ "permit": 1 }));
    fixture.write("own.csv", "client,server,port,how\n10.0.0.1,192.0.2.7,443,tcp\n10.0.0.1,192.0.2.7,22,tcp\n");
    let own = "src=client,dst=server,dport=port,proto=how";
    assert_eq!(verdicts(&["own.csv", "--columns", own]), json!({ "deny": 1, "permit": 1 }));
    fixture.write("bare.txt", "10.0.0.1 192.0.2.7 443 tcp\n");
    assert_eq!(verdicts(&["bare.txt", "--columns", "srcaddr,dstaddr,dstport,protocol"]), json!({ "permit": 1 }));
    for (line, expected) in [
        (&["nat.log", "--columns", "to=x"][..], "--columns: flows have no to; expected one of src, dst"),
        (&["nat.log", "--columns", "src=x"], "there is no column x"),
        (&["x.pcap", "--skip-bad"], "--skip-bad is for flow logs, and x.pcap is none"),
        (&["x.pcap", "--format", "aws"], "this is a pcap capture; expected text"),
        (&["nat.log", "-f", "capture"], "this is a flow log of AWS; expected a capture"),
        (&["nat.log", "-f", "table"], "there is no field"),
        (&["nat.log", "x.pcap"], "x.pcap is a capture, but the inputs before it are not; expected a flow log of AWS"),
        (&["nat.log", "-f", "netflow"], "[possible values: capture, trace, table, aws, zeek"),
    ] {
        let (code, _, err) = fixture.run(&[&["classify", "f.rules"], line].concat());
        assert!(code == 2 && err.contains(expected), "{line:?}: {err}");
    }
    fixture.write("own.rules", "schema {\ntenant 24 exact\n}\npermit tenant 7\n");
    let (code, _, err) = fixture.run(&["classify", "own.rules", "nat.log"]);
    assert!(code == 2 && err.contains("these rules cannot be applied to nat.log"), "{err}");
}

#[test]
fn ways_back_are_decided_on_request() {
    let fixture = Fixture::new("flow-ways");
    fixture.write("f.rules", "permit tcp dport 443\n");
    fixture.write(
        "conn.log",
        "#separator \\x09\n#path\tconn\n#fields\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\torig_pkts\tresp_pkts\n\
         10.0.0.1\t40000\t192.0.2.7\t443\ttcp\t10\t8\n10.0.0.1\t40001\t192.0.2.7\t443\ttcp\t1\t0\n",
    );
    let (_, there, _) = json(&fixture, &["classify", "f.rules", "conn.log"]);
    assert_eq!((&there["verdicts"], &there["flows"]["packets"]), (&json!({ "permit": 2 }), &json!(11)));
    let (_, both, _) = json(&fixture, &["classify", "f.rules", "conn.log", "--both-ways", "--check", "all"]);
    assert_eq!((&both["verdicts"], &both["flows"]["packets"]), (&json!({ "deny": 1, "permit": 2 }), &json!(19)));
    assert_eq!((&both["flows"]["ways_back"], &both["check"]["packets"]), (&json!(1), &json!(3)));
    fixture.write("vpc.log", AWS);
    let (_, _, err) = json(&fixture, &["classify", "f.rules", "vpc.log", "--both-ways"]);
    assert!(err.contains("--both-ways changes nothing, because a row of a flow log of AWS has one direction"), "{err}");
}

/// The manual's example prints what the manual shows.
#[test]
fn the_example_of_the_manual_runs() {
    let manual = include_str!("../../../../docs/flow-logs.md");
    let mut blocks = manual.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let fixture = Fixture::new("flow-manual");
    fixture.write("vpc.log", blocks.next().unwrap());
    fixture.write("edge.rules", blocks.next().unwrap());
    let (code, out, err) = fixture.run(&["classify", "edge.rules", "vpc.log"]);
    assert_eq!((code, &*err), (0, ""));
    let without_memory = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("; meta in ").next().unwrap().to_owned()).collect()
    };
    let (shown, printed) = (without_memory(blocks.next().unwrap()), without_memory(&out));
    assert_eq!(printed[..shown.len()], shown, "{out}");
}
