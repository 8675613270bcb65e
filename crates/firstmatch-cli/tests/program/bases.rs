//! Tests of the options that choose an engine, its base and its limits.

use crate::fixture::Fixture;

/// An engine that was asked for by name says which limit it exceeds and what raises it.
#[test]
fn a_limit_says_how_to_raise_it() {
    let fixture = Fixture::new("limits");
    let rule = |at: u32| {
        let [_, b, c, d] = (at * 7919).to_be_bytes();
        format!("permit tcp src 10.{b}.{c}.{d} dst 172.16.{c}.0/24 sport {}-{} dport {}\n", at % 3000, 4000 + at, at)
    };
    fixture.write("many.rules", format!("family ipv4\n{}", (1..=4000).map(rule).collect::<String>()));
    fixture.write("cb.trace", "167772161\t3221225991\t1024\t80\t6\t0\n");
    let said = |more: &[&str]| {
        let (code, _, error) = fixture.run(&[&["classify", "many.rules", "cb.trace"], more].concat());
        (code, error)
    };
    let (code, error) = said(&["--engine", "bit_vector"]);
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("the limit of the engine bit_vector itself; `--option vectors=8388608` allows the most"),
        "{error}"
    );
    for limit in ["--worst-tests", "--worst-lines", "--build-bytes", "--build-visits"] {
        let (code, error) = said(&[limit, "3", "--base", "bit_select"]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("the limit is 3") && error.contains(&format!("the limit set by {limit}")), "{error}");
        assert_eq!(said(&[limit, "100000000", "--base", "bit_select"]).0, 0, "{limit}");
    }
    assert_eq!(fixture.run(&["engines", "many.rules", "--build-bytes", "3"]).0, 2, "nothing is built of 3 bytes");
}

/// Only the default engine has bases.
#[test]
fn other_engines_have_no_base() {
    let fixture = Fixture::new("no-base");
    for engine in ["meta", "linear", "tuplemerge"] {
        let (code, _, error) = fixture.run(&["classify", "x.rules", "x.pcap", "--base", "linear", "--engine", engine]);
        let says = format!("--base is of the engine meta, and --engine {engine} was asked for");
        assert_eq!((code, error.contains(&says)), if engine == "meta" { (0, false) } else { (2, true) }, "{error}");
    }
}

/// One base serves every address family; otherwise there are as many bases as families.
#[test]
fn bases_are_as_many_as_families() {
    let fixture = Fixture::new("bases");
    for (rules, input, families) in [("x.rules", "x.pcap", 2), ("cb.rules", "cb.trace", 1)] {
        for bases in 1..=3 {
            let mut line = vec!["classify", rules, input];
            (0..bases).for_each(|_| line.extend(["--base", "linear"]));
            let (code, _, error) = fixture.run(&line);
            if bases == 1 || bases == families {
                assert_eq!(code, 0, "{rules}, {bases} bases: {error}");
            } else {
                let says = format!(
                    "--base names {bases} bases; expected one, or as many as the rules have address families, {families}"
                );
                assert!(code == 2 && error.contains(&says), "{rules}, {bases} bases: {error}");
            }
        }
    }
}
