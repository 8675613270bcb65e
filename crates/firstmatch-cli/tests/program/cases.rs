//! Tests of `firstmatch test`.

use insta::assert_snapshot;

use crate::fixture::Fixture;

#[test]
fn cases_are_compared_and_failures_explained() {
    let fixture = Fixture::new("cases");
    fixture.write(
        "good.cases",
        "# Who may reach the servers.\n\n\
         tcp 10.1.2.3:4040 > 192.0.2.7:443 => permit   # by line 5\n\
         tcp 10.1.2.3:4040 > 192.0.2.7:443 => line 5\n\
         tcp 10.1.2.3:4040 > 192.0.2.7:22 => deny\n\
         udp 10.0.0.1:53 > 10.0.0.2:53 => mark 7\n\
         proto 47 10.0.0.1 > 10.0.0.2 => unmatched\n\
         proto 47 10.0.0.1 > 10.0.0.2 => deny\n\
         tcp [2001:db8::1]:1 > [2001:db8::2]:80 => line 5\n",
    );
    fixture.write("failing.cases", "tcp 10.1.2.3:1 > 192.0.2.7:22 => line 9\nudp 1.1.1.1:1 > 2.2.2.2:2 => permit\n");
    fixture.write(
        "bad.cases",
        "tcp 1.1.1.1:1 > 2.2.2.2:2\n  tcp 1.1.1.1:1 > 2.2.2.2:2 => perhaps\ntcp 1.1.1.1 => deny\n\
         tcp 1.1.1.1:1 > 2.2.2.2:2 => line 2\nudp 1.1.1.1:1 > 2.2.2.2:2 => mark x\n",
    );
    let shown = ["good.cases", "failing.cases", "bad.cases", "none.cases"]
        .map(|cases| fixture.shown(&["test", "x.rules", cases]));
    assert_snapshot!("cases", shown.join("\n"));
    fixture.write("label.rules", "permit tcp dport 443 label \"the web\"\ndeny label \"all else\"\n");
    fixture.write(
        "label.cases",
        "tcp 1.1.1.1:1 > 2.2.2.2:443 => label \"the web\"\nudp 1.1.1.1:1 > 2.2.2.2:2 => label \"all else\"\n",
    );
    assert_eq!(fixture.run(&["test", "label.rules", "label.cases"]).0, 0);
    let (_, out, _) = fixture.run(&["classify", "label.rules", "x.pcap", "--csv", "-", "--json"]);
    assert!(out.contains(",the web,") && out.contains(",all else,"), "{out}");
    // A packet whose field cannot be read is expected to be unknown, which these packets are not.
    fixture.write("unknown.cases", "udp 1.1.1.1:1 > 2.2.2.2:2 => unknown\n");
    assert_eq!(fixture.run(&["test", "x.rules", "unknown.cases"]).0, 1);
    // Without a case nothing is tested.
    fixture.write("empty.cases", "# none yet\n\n");
    let (code, out, err) = fixture.run(&["test", "x.rules", "empty.cases"]);
    assert!((code, &*out) == (2, "") && err.contains("empty.cases: no case"), "{err}");
}

/// Packets by hand state every field of an IP packet.
#[test]
fn packets_by_hand_state_all_fields() {
    let fixture = Fixture::new("all-by-hand");
    let conditions = [
        ("ttl 1", "udp 10.0.0.1:1 > 10.0.0.2:2 ttl 1", "udp 10.0.0.1:1 > 10.0.0.2:2"),
        ("dscp 46", "icmp 10.0.0.1 > 10.0.0.2 dscp 46", "icmp 10.0.0.1 > 10.0.0.2 dscp 10"),
        ("length > 1500", "udp 10.0.0.1:1 > 10.0.0.2:2 length 1501", "udp 10.0.0.1:1 > 10.0.0.2:2 length 1500"),
        ("length 41-60", "proto 59 2001:db8::1 > 2001:db8::2 length 41", "proto 59 2001:db8::1 > 2001:db8::2"),
        ("fragment later", "tcp 10.0.0.1 > 10.0.0.2 fragment later", "tcp 10.0.0.1:1 > 10.0.0.2:2 fragment first"),
        ("fragment first", "udp [::1]:1 > [::2]:2 fragment first", "udp ::1 > ::2 fragment later"),
        (
            "ext_headers { ah, destination }",
            "udp [::1]:1 > [::2]:2 ext_headers hop-by-hop,ah",
            "udp [::1]:1 > [::2]:2 ext_headers hop-by-hop,routing,fragment",
        ),
        ("routing_type 3", "udp [::1]:1 > [::2]:2 routing_type 3", "udp [::1]:1 > [::2]:2 ext_headers routing"),
    ];
    for (condition, inside, outside) in conditions {
        fixture.write("one.rules", format!("permit {condition}\n"));
        fixture.write("one.cases", format!("{inside} => line 1\n{outside} => unmatched\n"));
        let (code, out, err) = fixture.run(&["test", "one.rules", "one.cases"]);
        assert_eq!((code, &*err), (0, ""), "{condition}: {out}");
    }
    for (packet, expected) in [
        ("udp 10.0.0.1:1 > 10.0.0.2:2 fragment later", "a later fragment has no ports"),
        ("udp 10.0.0.1:1 > 10.0.0.2:2 length 19", "expected 20 to 65535, the bytes of an IPv4 packet"),
        ("udp 10.0.0.1:1 > 10.0.0.2:2 ext_headers ah", "IPv4 has no `ext_headers`"),
        ("udp [::1]:1 > [::2]:2 ext_headers esp", "`esp` is no extension header"),
        ("udp 10.0.0.1:1 > 10.0.0.2:2 ttl 256", "`ttl 256`"),
        ("src 10.0.0.1, dst 10.0.0.2, proto udp, sport 1", "the rules test `dport`"),
        ("src 10.0.0.1, src 10.0.0.2", "`src` is stated twice"),
        ("src 10.0.0.1, dport any", "`dport any`"),
        ("src 10.0.0.1, dst: 10.0.0.2", "`dst:` is no field"),
        ("dport 22; absent: sport 1", "`sport 1` is not stated as expected"),
        ("dport 22", "expected `src` and `dst`"),
    ] {
        let (code, _, err) = fixture.run(&["explain", "x.rules", packet]);
        assert!(code == 2 && err.contains(expected), "{packet}: {err}");
    }
}

/// Examples of `check` and `diff`, as printed, are packets that are decided as the finding says.
#[test]
fn printed_examples_are_packets() {
    let fixture = Fixture::new("printed-examples");
    let pairs = [
        ("permit tcp dst 192.0.2.0/24 dport 22\ndeny src 10.0.0.0/8\n", "permit tcp dport 22\n"),
        ("permit family ipv6 ext_headers routing routing_type 0\n", "deny ext_headers { ah, routing }\npermit\n"),
        ("permit icmp icmp_type echo-request\n", "permit icmp ttl > 1\npermit vlan_vid 7 dscp 46 tcp syn\n"),
        ("permit dst 192.0.2.0/24\n", "permit dst 192.0.2.0/24\ndeny tcp dport 22\npermit udp\n"),
        ("fragments layer3\npermit udp dport 53\npermit fragment later\n", "permit udp dport 53\n"),
        ("schema openflow\npermit eth_type arp\n", "schema openflow\nmark 3 in_port 7 eth_src 02:00:00:00:00:01\n"),
        (
            "schema {\nx 8 range\ny 8 mask optional\n}\ndeny x 3-9\npermit\n",
            "schema {\nx 8 range\ny 8 mask optional\n}\npermit y 1\n",
        ),
        ("family ipv4\npermit udp\n", "permit udp\n"),
    ];
    let mut count = 0;
    for (before, after) in pairs {
        fixture.write("a.rules", before);
        fixture.write("b.rules", after);
        let (code, json, err) = fixture.run(&["diff", "a.rules", "b.rules", "--json"]);
        assert_eq!((code, &*err), (1, ""), "{before}");
        let (_, text, _) = fixture.run(&["diff", "a.rules", "b.rules"]);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let found = |name: &str| value[name].as_array().unwrap().clone();
        let all = [found("pairs"), found("one_sided")].concat();
        let examples: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("for example ")).collect();
        assert_eq!(all.len(), examples.len());
        for (side, file) in [("before", "a.rules"), ("after", "b.rules")] {
            let cases: String = all
                .iter()
                .zip(&examples)
                .map(|(of, example)| {
                    let is_unknown = of[side]["unknown"] == true;
                    let verdict = of[side]["verdict"].as_str().unwrap();
                    format!("{example} => {}\n", if is_unknown { "unknown" } else { verdict })
                })
                .collect();
            fixture.write("of.cases", &cases);
            let (code, out, err) = fixture.run(&["test", file, "of.cases"]);
            assert_eq!((code, &*err), (0, ""), "{before}{after}{cases}{out}");
            count += examples.len();
        }
    }
    assert!(count > 30, "{count}");
}
