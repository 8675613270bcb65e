//! Tests of the library's example `copies`: its decisions and their order are those of `classify`, and the guide quotes
//! it.

#[expect(dead_code, reason = "the example's `main` is not called")]
#[path = "../../../firstmatch/examples/copies.rs"]
mod example;

use crate::fixture::{Fixture, capture, packets};

/// Runs the example; returns what it wrote, and its error as text.
fn run(fixture: &Fixture, line: &[&str]) -> (String, Result<(), String>) {
    let at = |name: &&str| match name.contains('.') {
        true => fixture.folder.join(name).to_string_lossy().into_owned(),
        false => (*name).to_owned(),
    };
    let mut out = Vec::new();
    let done = example::run(line.iter().map(at), &mut out).map_err(|error| error.to_string());
    (String::from_utf8(out).unwrap(), done)
}

/// Returns the lines that the example should write, by the lines of `classify --csv`.
fn expected(fixture: &Fixture, rules: &str, input: &str) -> String {
    let (code, out, err) = fixture.run(&["classify", rules, input, "--base", "linear", "--csv", "-"]);
    assert!(code == 0 || err.contains("packet"), "{err}");
    let mut lines = String::new();
    for row in csv::Reader::from_reader(out.as_bytes()).records().map(Result::unwrap) {
        let line = if row[3].is_empty() { "0" } else { &row[3] };
        lines += &format!("{} {} {line} {}\n", &row[0], &row[5], &row[1]);
    }
    lines
}

#[test]
fn decisions_and_order_are_those_of_classify() {
    let fixture = Fixture::new("copies");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for name in ["edge.rules", "edge.pcapng"] {
        fixture.write(name, std::fs::read(format!("{examples}/{name}")).unwrap());
    }
    // Packets of every outcome, in more batches than the window of three workers has.
    let some = packets();
    let odd: Vec<_> = (0..20_000).map(|at| some[at % some.len()].clone()).collect();
    let odd = capture(&odd);
    let cut = &odd[..odd.len() - 7];
    // A record that claims too many bytes, behind 12,000 whole packets.
    let before: usize = 24 + (0..12_000).map(|at| 16 + some[at % some.len()].len()).sum::<usize>();
    let mut bad = odd.clone();
    bad[before + 8..][..4].copy_from_slice(&[0xff; 4]);
    fixture.write("odd.pcap", &odd);
    fixture.write("cut.pcap", cut);
    fixture.write("bad.pcap", &bad);

    for (rules, input, packets, fault) in [
        ("edge.rules", "edge.pcapng", 9_071, ""),
        ("x.rules", "x.pcap", 10, ""),
        ("x.rules", "odd.pcap", 20_000, ""),
        ("x.rules", "cut.pcap", 19_999, "cut at byte"),
        ("x.rules", "bad.pcap", 12_000, "packet 12001 at byte"),
    ] {
        let wanted = expected(&fixture, rules, input);
        assert_eq!(wanted.lines().count(), packets, "{input}");
        for workers in ["1", "3"] {
            let (lines, done) = run(&fixture, &[rules, input, workers]);
            assert!(lines == wanted, "{rules} {input} with {workers} workers");
            let told = done.err().unwrap_or_default();
            assert!(told.is_empty() == fault.is_empty() && told.contains(fault), "{input}: {told}");
        }
    }
}

#[test]
fn bad_input_is_an_error() {
    let fixture = Fixture::new("copies-bad");
    fixture.write("bad.rules", "permit\npermit tpc\n");
    fixture.write("bytes.pcap", [0, 1, 2, 3]);
    for (line, told) in [
        (&[][..], "usage: copies"),
        (&["x.rules"], "usage: copies"),
        (&["no.rules", "x.pcap"], "there is no such file"),
        (&["bad.rules", "x.pcap"], "2:8: "),
        (&["x.rules", "no.pcap"], "there is no such file"),
        (&["x.rules", "x.rules"], "expected a capture"),
        (&["x.rules", "bytes.pcap"], "expected a capture"),
        (&["x.rules", "x.pcap", "0"], "0 workers; expected 1 to"),
        (&["x.rules", "x.pcap", "many"], "expected 1 to 255"),
        (&["x.rules", "x.pcap", "256"], "expected 1 to 255"),
    ] {
        let (out, done) = run(&fixture, line);
        let error = done.unwrap_err();
        assert!(out.is_empty() && error.contains(told), "{line:?}: {error}");
    }
}

/// The guide's code is compiled and run, because examples have each of its lines in the same order. Those of a page of
/// the documentation are among them.
#[test]
fn the_guide_quotes_the_examples() {
    let guide = include_str!("../../../../docs/threads.md");
    let line = |line: &'static str| line.trim().trim_start_matches("/// ");
    let trimmed = |text: &'static str| text.lines().map(line).collect::<Vec<_>>().join("\n");
    let examples = [
        include_str!("../../../firstmatch/examples/copies.rs"),
        include_str!("../../../firstmatch/examples/router.rs"),
        include_str!("../../../firstmatch/src/sets.rs"),
    ];
    let examples = examples.map(trimmed);
    let quotes: Vec<_> = guide.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(quotes.len() >= 4, "the guide has {} quotes", quotes.len());
    for quote in quotes {
        assert!(examples.iter().any(|example| example.contains(&trimmed(quote))), "no example has\n{quote}");
    }
}
