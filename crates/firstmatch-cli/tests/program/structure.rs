//! Tests of `firstmatch engines RULES --structure NAME`.

use crate::fixture::Fixture;

const GUIDE: &str = include_str!("../../../../docs/algorithms.md");

/// Returns the first block of the guide that begins so.
fn block(start: &str) -> &'static str {
    let block =
        GUIDE.split("```").find(|block| block.contains('\n') && block.split_once('\n').unwrap().1.starts_with(start));
    block.unwrap().split_once('\n').unwrap().1
}

/// A reader of the guide prints what it shows: every line of a structure and its counts stand there.
#[test]
fn the_guide_can_be_printed() {
    let fixture = Fixture::new("guide");
    fixture.write("guide.rules", block("schema {"));
    fixture.write("guide.csv", block("addr,port,kind"));
    for (engine, options) in [
        ("linear", &[][..]),
        ("tuplemerge", &["paper=true"]),
        ("bit_select", &[]),
        ("bit_vector", &[]),
        ("hicuts", &["paper=true", "binth=3"]),
        ("hypercuts", &["paper=true", "binth=3"]),
        ("rfc", &["leaves=chunks"]),
        ("decomposition", &["plain=true"]),
        ("npf", &[]),
    ] {
        let mut words = vec!["engines", "guide.rules", "--structure", engine, "--count", "guide.csv"];
        options.iter().for_each(|option| words.extend(["--option", option]));
        let (code, out, err) = fixture.run(&words);
        assert_eq!((code, &*err), (0, ""), "{engine}");
        assert!(out.lines().any(|line| line.starts_with(&format!("{engine}: "))), "{out}");
        for line in out.lines().filter(|line| !line.is_empty()) {
            let is_none = line.ends_with("no description of its structure");
            assert!(is_none || GUIDE.lines().any(|said| said == line), "{engine}: the guide lacks\n{line}");
        }
    }
}

#[test]
fn structures_of_both_families_and_what_is_refused() {
    let fixture = Fixture::new("structures");
    let (code, out, err) = fixture.run(&["engines", "x.rules", "--structure", "hypercuts", "--count", "x.pcap"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.starts_with("ipv4\n") && out.contains("\nipv6\n") && out.contains(", a packet of "), "{out}");
    for (words, expected) in [
        (&["x.rules", "--structure", "nothing"][..], "invalid value"),
        (&["x.rules", "--structure", "linear", "--option", "binth=3"], "this engine has no option"),
        (&["--structure", "linear"], "<RULES>"),
        (&["x.rules", "--option", "paper=true"], "--structure <NAME>"),
        (&["none.rules", "--structure", "linear"], "there is no such file"),
    ] {
        let (code, out, err) = fixture.run(&[&["engines"], words].concat());
        assert!((code, &*out) == (2, "") && err.contains(expected), "{words:?}: {err}");
    }
}
