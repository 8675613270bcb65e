//! Tests of `firstmatch classify --system`.

use serde_json::Value;

use crate::fixture::Fixture;

/// Returns dual-stack rules and packets of both families for them.
fn fixture(name: &str) -> Fixture {
    let fixture = Fixture::new(name);
    let rules: String =
        (0..40).map(|net| format!("permit tcp src 10.{net}.0.0/16 dport {}-9000\n", 10 * net)).collect();
    fixture.write("s.rules", format!("deny udp dport 53\n{rules}permit src 2001:db8::/32 dport 22\n"));
    let packet = |at: u32| match at % 5 {
        0 => format!("2001:db8::{at:x},2001:db8::1,6,{at},22\n"),
        1 => format!("10.0.0.1,10.9.9.9,17,{at},53\n"),
        _ => format!("10.{}.0.{},192.0.2.1,6,{at},{}\n", at % 45, at % 200, at % 700),
    };
    let packets: String = (0..6_000).map(packet).collect();
    fixture.write("s.csv", format!("src,dst,proto,sport,dport\n{packets}"));
    fixture
}

/// Every system answers as the engine alone, in both families, and each stage takes all packets.
#[test]
fn every_system_answers_as_its_engine() {
    let fixture = fixture("systems");
    for (system, engine, threads, stages) in [
        ("copies", "meta", "3", 1),
        ("copies", "tuplemerge", "1", 1),
        ("shared", "hypercuts", "2-1", 2),
        ("storm", "hypercuts", "1-1-1", 3),
        ("storm", "linear", "4-2-1", 3),
        ("pnpf", "npf", "1-2-1", 7),
        ("rfc", "rfc", "1-1", 2),
        ("rfc", "bitmap_rfc", "2-1-2", 3),
    ] {
        let words = ["classify", "s.rules", "s.csv", "--json", "--repeat", "2", "--batch", "20"];
        let own = ["--system", system, "--engine", engine, "--threads", threads];
        let (code, out, err) = fixture.run(&[&words[..], &own].concat());
        assert_eq!((code, &*err), (0, ""), "{system} {engine}");
        let value: Value = serde_json::from_str(&out).expect("it is JSON");
        let systems = value["systems"].as_array().expect("both families");
        let packets: u64 = systems.iter().map(|of| of["packets"].as_u64().expect("a number")).sum();
        assert_eq!((systems.len(), packets), (2, 6_000), "{system} {engine}");
        for of in systems {
            let taken = |at: usize| of["stages"][at]["packets"].as_u64().expect("a number");
            let all = 2 * of["packets"].as_u64().expect("a number");
            assert_eq!((of["different"].as_u64(), of["passes"].as_u64(), taken(0)), (Some(0), Some(2), all));
            assert_eq!((&of["system"], &of["engine"]), (&Value::from(system), &Value::from(engine)));
            // An address of IPv6 has four words, each with a stage of its own.
            let more = if system == "pnpf" && of["family"] == "ipv6" { 6 } else { 0 };
            assert_eq!(of["stages"].as_array().map(Vec::len), Some(stages + more), "{system}");
            if system == "storm" {
                let hits = of["box_hits"].as_u64().expect("a number");
                assert_eq!(taken(1), all - hits, "{system} {engine}");
            }
        }
    }
    let (code, out, err) = fixture.run(&["classify", "s.rules", "s.csv", "--system", "pnpf", "--option", "paper=true"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(
        out.contains("pnpf 1-1-1 over npf, ipv6") && out.contains("every answer is that of the engine alone"),
        "{out}"
    );
}

#[test]
fn systems_refuse_what_they_cannot_do() {
    let fixture = fixture("no-systems");
    for (words, expected) in [
        (&["--system", "storm", "--threads", "2-1"][..], "--threads of the system storm are threads of boxes"),
        (&["--system", "storm", "--threads", "2-1-2"], "and 1 for the boxes, as 4-2-1"),
        (&["--system", "shared", "--threads", "2-0"], "expected numbers from 1 to 255"),
        (&["--system", "rfc", "--threads", "1"], "threads of two or three stages"),
        (&["--system", "pnpf", "--threads", "1-100-1"], "expected at most 256"),
        (
            &["--system", "pnpf", "--engine", "rfc"],
            "the system pnpf is of the engine npf, and --engine rfc was asked for",
        ),
        (&["--system", "rfc", "--option", "prun=false"], "has no option `prun`"),
        (&["--system", "copies", "--rule-cache", "8"], "cannot be used with"),
        (&["--system", "rfc", "--build-visits", "1"], "region visits or more; the limit is 1"),
        (&["--threads", "2"], "--system <NAME>"),
    ] {
        let (code, out, err) = fixture.run(&[&["classify", "s.rules", "s.csv"], words].concat());
        assert!((code, &*out) == (2, "") && err.contains(expected), "{words:?}: {err}");
    }
}
