//! Live sets in the commands, which take the members of the file.

use crate::fixture::Fixture;

const LIVE: &str = "live set bad = { include \"bad.txt\", 10.9.0.0/16 }\n\
    deny src $bad tcp dport { 22, 443 }\n\
    permit dst not $bad tcp\n";

/// Every command answers as for the same rules without a live set.
#[test]
fn commands_take_the_members_of_the_file() {
    let fixture = Fixture::new("live-sets");
    fixture.write("bad.txt", "# hosts\n10.1.2.3\n2001:db8::/32\n");
    fixture.write("live.rules", LIVE);
    let plain = "\ndeny src { 10.1.2.3, 2001:db8::/32, 10.9.0.0/16 } tcp dport { 22, 443 }\n\
        permit dst not { 10.1.2.3, 2001:db8::/32, 10.9.0.0/16 } tcp\n";
    fixture.write("plain.rules", plain);
    let (code, out, err) = fixture.run(&["diff", "live.rules", "plain.rules"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, _, err) = fixture.run(&["check", "live.rules"]);
    assert_eq!(code, 0, "{err}");
    let answers = |rules: &str| {
        let (code, out, err) = fixture.run(&["classify", rules, "x.pcap", "--check", "all"]);
        assert_eq!(code, 0, "{err}");
        // The texts of the rules differ.
        let counts = out.replace(rules, "RULES");
        let counts = counts.lines().filter(|line| line.contains("RULES:"));
        counts.map(|line| line.split(" %").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(answers("live.rules"), answers("plain.rules"));

    let packet = "tcp 10.1.2.3:4040 > 192.0.2.7:443";
    let (code, out, _) = fixture.run(&["explain", "live.rules", packet, "--rule", "2", "--rule", "3"]);
    assert!(code == 0 && out.contains("verdict  deny, by live.rules:2\n"), "{out}");
    assert!(out.contains("         10.1.2.3 is in $bad\n") && out.contains("holds  src $bad "), "{out}");
    assert!(out.contains("holds  dst not $bad "), "{out}");
    let (_, out, _) = fixture.run(&["explain", "live.rules", "tcp 10.9.0.1:1 > 192.0.2.7:443"]);
    assert!(out.contains("         10.9.0.0/16 is in $bad\n"), "{out}");
}

/// Only the native format holds live sets.
#[test]
fn other_formats_refuse_live_sets() {
    let fixture = Fixture::new("live-sets-convert");
    fixture.write("bad.txt", "10.1.2.3\n");
    fixture.write("live.rules", LIVE);
    let (code, out, err) = fixture.run(&["convert", "live.rules"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("\nlive set bad = { 10.1.2.3, 10.9.0.0/16 }\n"), "{out}");
    assert!(out.contains("\npermit dst not $bad tcp\n"), "{out}");
    for to in ["json", "classbench"] {
        let (code, out, err) = fixture.run(&["convert", "live.rules", "--to", to]);
        assert!(code != 0 && out.is_empty() && err.contains("live set"), "{to}: {err}");
    }
    fixture.write("nested.rules", "live set a = { 10.0.0.1 }\nset b = { $a }\ndeny src $b\n");
    let (code, _, err) = fixture.run(&["check", "nested.rules"]);
    assert!(code != 0 && err.contains("nested.rules:2:11") && err.contains("no other set can hold"), "{err}");
}
