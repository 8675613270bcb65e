//! Tests of `firstmatch diff`.

use insta::assert_snapshot;
use serde_json::Value;

use crate::fixture::Fixture;

#[test]
fn differences_are_shown_with_both_rules_and_a_packet() {
    let fixture = Fixture::new("diff");
    let before = "default deny\npermit tcp src 10.0.0.0/8\npermit icmp\n";
    let files = [
        ("before.rules", before.to_owned()),
        ("after.rules", format!("# a comment\ndeny tcp src 10.0.0.0/9 dport 22\n{before}")),
        ("same.rules", "permit icmp\npermit tcp src { 10.0.0.0/9, 10.128.0.0/9 }\n".to_owned()),
        ("policy.rules", format!("unknown permit\n{before}permit udp\n")),
    ];
    files.iter().for_each(|(name, text)| fixture.write(name, text));
    let shown = ["after.rules", "same.rules", "policy.rules", "cb.rules", "none.rules"]
        .map(|after| fixture.shown(&["diff", "before.rules", after]));
    assert_snapshot!("diff", shown.join("\n"));
    let (code, out, _) = fixture.run(&["diff", "policy.rules", "after.rules", "--most", "1"]);
    assert!(code == 1 && out.contains("and 1 pair more (--most)"), "{out}");
    let (code, _, err) = fixture.run(&["diff", "-", "-"]);
    assert!(code == 2 && err.contains("standard input"), "{err}");

    // The packet of each pair gets the two verdicts from `explain`.
    let (code, out, _) = fixture.run(&["diff", "before.rules", "after.rules", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &value["equal"], &value["all_pairs"]), (1, &false.into(), &1.into()));
    let pair = &value["pairs"][0];
    let packet = &pair["packet"];
    let text = format!("tcp {}:{} > {}:{}", packet["src"], packet["sport"], packet["dst"], packet["dport"]);
    for (file, side) in [("before.rules", "before"), ("after.rules", "after")] {
        let (_, explained, _) = fixture.run(&["explain", file, &text.replace('"', "")]);
        let verdict = pair[side]["verdict"].as_str().unwrap();
        let line = &pair[side]["rule"]["line"];
        assert!(explained.contains(&format!("verdict  {verdict}, by {file}:{line}")), "{explained}");
    }
    // Regions of the packets, and the packets of a capture that they are.
    let (code, out, _) = fixture.run(&["diff", "before.rules", "after.rules", "--regions", "9"]);
    assert!(code == 1 && out.contains("    region src 10.0.0.0/9 dport 22 proto tcp\n"), "{out}");
    let (code, out, err) = fixture.run(&["diff", "x.rules", "policy.rules", "x.pcap", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}"));
    let (_, classified, _) = fixture.run(&["classify", "x.rules", "x.pcap", "--what-if", "policy.rules", "--json"]);
    let what_if = serde_json::from_str::<Value>(&classified).unwrap()["what_if"].clone();
    assert_eq!((code, &value["traffic"]), (1, &what_if));
    assert!(what_if["packets"].as_u64() > Some(0));
    let (code, out, _) = fixture.run(&["diff", "x.rules", "policy.rules", "x.pcap"]);
    assert!(code == 1 && out.contains("get another verdict"), "{out}");
    assert_eq!(fixture.run(&["diff", "x.rules", "policy.rules", "none.pcap"]).0, 2);
    let (code, out, _) = fixture.run(&["diff", "before.rules", "before.rules", "--json"]);
    assert_eq!((code, &serde_json::from_str::<Value>(&out).unwrap()["equal"]), (0, &true.into()));
}
