//! Tests of `firstmatch prove`.

use crate::fixture::Fixture;

#[test]
fn engines_agree_with_the_rules() {
    let fixture = Fixture::new("prove");
    let (code, out, err) = fixture.run(&["prove", "x.rules", "--packets", "1000"]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    for family in ["ipv4", "ipv6"] {
        assert!(out.contains(family), "{out}");
    }
    let lines: Vec<&str> = out.lines().filter(|line| line.contains(" agrees at ")).collect();
    // Both families, every engine.
    assert!(lines.len() >= 26 && lines.iter().all(|line| line.contains("1,000 packets, of ")), "{out}");
    fixture.write("small.rules", "schema {\na 8 range\nb 4 exact optional\n}\npermit a 3-90 b 7\ndeny a 50-60\n");
    let (code, out, _) = fixture.run(&["prove", "small.rules", "--engine", "rfc"]);
    assert!(code == 0 && out.contains("rfc") && out.contains("one of each cell"), "{out}");
    let (code, _, err) = fixture.run(&["prove", "x.rules", "--engine", "quick"]);
    assert!(code == 2 && err.contains("quick"), "{err}");
}
