//! Tests of `firstmatch explain`.

use insta::assert_snapshot;

use crate::fixture::Fixture;

#[test]
fn packets_by_hand() {
    let fixture = Fixture::new("by-hand");
    let mut shown = String::new();
    for packet in [
        "tcp 10.1.2.3:4040 > 192.0.2.7:443",
        "tcp 10.1.2.3:4040 -> 192.0.2.7:22 flags 0x12",
        "udp [2001:db8::1]:53 > [2001:db8::2]:5353",
        "udp [2001:db8::1]:53>[2001:db8::2]:53 vlan 7",
        "icmp 10.0.0.1 > 10.0.0.2 type 8 code 0",
        "icmp 10.0.0.1 > 10.0.0.2 type echo-reply",
        "proto 47 10.0.0.1 > 10.0.0.2",
        "gre 2001:db8::1 > [2001:db8::2] vlan 7",
        "icmpv6 ::1 > ::2 type 128",
    ] {
        shown.push_str(&fixture.shown(&["explain", "x.rules", packet]));
        shown.push('\n');
    }
    assert_snapshot!("by-hand", shown);
    // The words are apart, as a shell without quotes passes them.
    let (code, out, _) = fixture.run(&["explain", "x.rules", "tcp", "1.1.1.1:1", ">", "2.2.2.2:22", "--rule", "9"]);
    assert!(code == 0 && out.contains("deny, by x.rules:4") && out.contains("but x.rules:4 comes first"), "{out}");
}

#[test]
fn rules_asked_about() {
    let fixture = Fixture::new("asked");
    let line =
        ["explain", "x.rules", "tcp 10.1.2.3:4040 > 198.51.100.1:443", "--rule", "5", "--rule", "9", "--rule", "7"];
    assert_snapshot!("asked", fixture.shown(&line));
    fixture.write("many.rules", "permit tcp\n".repeat(9) + "deny dport { 1, 2, 3, 4, 5, 6, 7, 8-9 } src not ::/1\n");
    let line = ["explain", "many.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2", "--rule", "10"];
    assert_snapshot!("asked-many", fixture.shown(&line));
}

#[test]
fn rules_and_packets_by_names() {
    let fixture = Fixture::new("names");
    fixture.write(
        "new.rules",
        "deny tcp syn,!ack dport ssh src 10.0.0.0/8\npermit tcp established dport > 1023\ndeny icmp_code port-unreachable\n",
    );
    for (packet, line) in [
        ("tcp 10.1.2.3:4040 > 192.0.2.7:22 flags syn", 1),
        ("tcp 10.1.2.3:4040 > 192.0.2.7:22 flags syn,psh", 1),
        ("tcp 10.1.2.3:4040 > 192.0.2.7:4000 flags syn,ack", 2),
        ("tcp 10.1.2.3:4040 > 192.0.2.7:4000 flags rst", 2),
        ("tcp 10.1.2.3:4040 > 192.0.2.7:22 flags syn,ack", 0),
        ("tcp 10.1.2.3:4040 > 192.0.2.7:4000 flags syn", 0),
        ("icmp 10.0.0.1 > 10.0.0.2 type 3 code 3", 3),
        ("icmp 10.0.0.1 > 10.0.0.2 type 11 code 3", 0),
        ("icmpv6 ::1 > ::2 type 1 code 4", 3),
        ("icmpv6 ::1 > ::2 type 1 code 3", 0),
    ] {
        let (code, out, err) = fixture.run(&["explain", "new.rules", packet]);
        let by = if line > 0 { format!("by new.rules:{line}") } else { "no rule matches".to_owned() };
        assert!(code == 0 && err.is_empty() && out.contains(&by), "{packet}: {out}{err}");
    }
    let (code, _, err) = fixture.run(&["explain", "new.rules", "tcp 10.1.2.3:1 > 192.0.2.7:2 flags syn,akc"]);
    assert!(code == 2 && err.contains("`flags syn,akc`: expected"), "{code} {err}");
}

#[test]
fn packets_without_a_field() {
    let fixture = Fixture::new("absent");
    fixture.write("tags.rules", "permit vlan_vid { absent, 7 } dst 192.0.2.0/24\ndeny dport absent\n");
    for (packet, asked, shown) in [
        ("tcp 10.0.0.1:1 > 192.0.2.7:22", "1", "holds  vlan_vid { absent, 7 }  packet: absent"),
        ("tcp 10.0.0.1:1 > 192.0.2.7:22 vlan 7", "1", "holds  vlan_vid { absent, 7 }  packet: 7"),
        ("tcp 10.0.0.1:1 > 192.0.2.7:22 vlan 8", "1", "FAILS  vlan_vid { absent, 7 }  packet: 8"),
        ("tcp 10.0.0.1:1 > 192.0.2.7:22", "2", "FAILS  dport absent  packet: 22"),
        ("icmp 10.0.0.1 > 192.0.2.7 vlan 8", "2", "holds  dport absent  packet: absent"),
    ] {
        let (code, out, err) = fixture.run(&["explain", "tags.rules", packet, "--rule", asked]);
        assert!(code == 0 && err.is_empty() && out.contains(shown), "{packet}: {out}{err}");
    }
    let (code, out, err) = fixture.run(&["classify", "tags.rules", "x.pcap", "--check", "all"]);
    assert!(code == 0, "{out}{err}");
}

#[test]
fn fragments_and_other_fields_of_the_ip_header() {
    let fixture = Fixture::new("ip-header");
    let rules = "deny fragment later dst 192.0.2.0/24\npermit ttl 64 length < 100 dscp 0 fragment none\n";
    fixture.write("frag.rules", rules);
    // A file that asks for ports hides the later fragment, unless it says what becomes of such.
    fixture.write("ports.rules", format!("{rules}permit dport 22\n"));
    fixture.write("layer3.rules", format!("fragments layer3\n{rules}permit dport 22\n"));
    for (file, packet, shown) in [
        ("frag.rules", "x.pcap#8", "deny, by frag.rules:1"),
        ("frag.rules", "x.pcap#8", "fragment later"),
        ("frag.rules", "x.pcap#0", "permit, by frag.rules:2"),
        ("frag.rules", "x.pcap#3", "permit, by frag.rules:2"),
        ("ports.rules", "x.pcap#8", "no rule was asked"),
        ("layer3.rules", "x.pcap#8", "deny, by layer3.rules:2"),
    ] {
        let (code, out, err) = fixture.run(&["explain", file, packet]);
        assert!(code == 0 && err.is_empty() && out.contains(shown), "{file} {packet}: {out}{err}");
    }
    let line = ["explain", "frag.rules", "x.pcap#0", "--rule", "1", "--rule", "2"];
    let (_, out, _) = fixture.run(&line);
    assert!(out.contains("FAILS  fragment later") && out.contains("packet: none"), "{out}");
    for file in ["frag.rules", "ports.rules", "layer3.rules"] {
        let (code, out, err) = fixture.run(&["classify", file, "x.pcap", "--check", "all"]);
        assert!(code == 0, "{file}: {out}{err}");
        let (code, native, err) = fixture.run(&["convert", file, "--to", "native"]);
        assert!(code == 0 && native.contains("deny fragment later dst 192.0.2.0/24"), "{native}{err}");
    }
    fixture
        .write("table.csv", "src,dst,sport,dport,proto,fragment,ttl,length,dscp\n1.1.1.1,192.0.2.1,,,6,later,5,40,0\n");
    let (code, out, err) = fixture.run(&["explain", "frag.rules", "table.csv", "--packet", "0"]);
    assert!(code == 0 && out.contains("by frag.rules:1"), "{out}{err}");
}

#[test]
fn sets_of_files() {
    let fixture = Fixture::new("include");
    fixture.write("bad.txt", "# hosts\n10.0.0.1\n192.0.2.0/24\n");
    fixture.write("set.rules", "set bad = { include \"bad.txt\" }\ndeny src $bad\npermit\n");
    let packet = "tcp 10.0.0.1:1 > 10.0.0.2:22";
    let (code, out, err) = fixture.run(&["explain", "set.rules", packet]);
    assert!(code == 0 && err.is_empty() && out.contains("deny, by set.rules:2"), "{out}{err}");
    let (code, out, err) = fixture.run(&["convert", "set.rules", "--to", "native"]);
    assert!(code == 0 && out.contains("deny src { 10.0.0.1, 192.0.2.0/24 }"), "{out}{err}");
    fixture.write("bad.txt", "# hosts\n10.0.0.1\n192.0.2.0/33\n");
    let (code, _, err) = fixture.run(&["explain", "set.rules", packet]);
    assert!(code == 2 && err.contains("`bad.txt`, line 3, column 11") && err.contains("set.rules:1:13"), "{err}");
    for file in ["none.txt", "-"] {
        fixture.write("set.rules", format!("set bad = {{ include \"{file}\" }}\ndeny src $bad\n"));
        let (code, _, err) = fixture.run(&["explain", "set.rules", packet]);
        assert!(code == 2 && err.contains(&format!("`{file}` is not included")), "{err}");
    }
}

#[test]
fn rules_of_one_family() {
    let fixture = Fixture::new("families");
    fixture.write(
        "of.rules",
        "deny family ipv6 tcp dport { family ipv6 2, 3 }\npermit dport { family ipv4 2, family ipv6 3 }\n",
    );
    let packets = ["tcp 1.1.1.1:1 > 2.2.2.2:2", "tcp [::1]:1 > [::2]:2"];
    let shown = packets.map(|packet| fixture.shown(&["explain", "of.rules", packet, "--rule", "1", "--rule", "2"]));
    assert_snapshot!("families", shown.join("\n"));
}

/// The time of a packet is that of the capture, to the nanosecond; a trace, and a simple packet of pcapng, have none.
#[test]
fn packets_have_the_time_of_their_capture() {
    let fixture = Fixture::new("times");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let (rules, capture) = (&*format!("{examples}/edge.rules"), &*format!("{examples}/edge.pcapng"));
    let (code, lines, err) = fixture.run(&["classify", rules, capture, "--csv", "-"]);
    assert_eq!(code, 0, "{err}");
    let times: Vec<&str> = lines.lines().filter_map(|line| line.rsplit(',').next()).collect();
    assert_eq!((times.len(), times[0], times[1]), (9_072, "time", "2026-11-21T21:34:53.202994052Z"));
    assert_eq!(times[9_071], "2026-11-21T21:35:10.711130980Z");
    for number in [0, 1, 5_000, 9_070] {
        let (_, out, err) = fixture.run(&["explain", rules, capture, "--packet", &number.to_string()]);
        let first = out.lines().next().unwrap_or_default();
        assert!(first.ends_with(&format!(", captured {}", times[number + 1])), "{first} {err}");
    }

    // A section, an interface of Ethernet, and a simple packet.
    let section = [0x0a0d_0d0au32, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
    let words = [&section[..], &[1, 20, 1, 0, 20], &[3, 20, 4, 0, 20]].concat();
    fixture.write("simple.pcapng", words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    for (rules, file) in [("x.rules", "simple.pcapng"), ("cb.rules", "cb.trace")] {
        let (_, lines, err) = fixture.run(&["classify", rules, file, "--csv", "-"]);
        assert!(lines.lines().count() > 1 && lines.lines().skip(1).all(|line| line.ends_with(',')), "{lines} {err}");
        let (_, out, _) = fixture.run(&["explain", rules, file, "--packet", "0"]);
        assert!(out.starts_with("packet   number 0 of") && !out.contains("captured"), "{out}");
    }
}

#[test]
fn packets_of_a_file() {
    let fixture = Fixture::new("of-a-file");
    let mut shown = String::new();
    for packet in ["x.pcap#0", "x.pcap#5", "x.pcap#6", "x.pcap#7", "x.pcap#8", "x.pcap#9", "x.pcap#10"] {
        shown.push_str(&fixture.shown(&["explain", "x.rules", packet]));
        shown.push('\n');
    }
    shown.push_str(&fixture.shown(&["explain", "x.rules", "x.pcap", "--packet", "3"]));
    shown.push_str(&fixture.shown(&["explain", "cb.rules", "cb.trace#1"]));
    assert_snapshot!("of-a-file", shown);
    // The verdict that `explain` gives for a packet is the one that `classify` counts.
    let (_, lines, _) = fixture.run(&["classify", "x.rules", "x.pcap", "--csv", "-"]);
    for line in lines.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let (code, out, _) = fixture.run(&["explain", "x.rules", &format!("x.pcap#{}", fields[0])]);
        let by = if fields[3].is_empty() { String::new() } else { format!(", by x.rules:{}", fields[3]) };
        assert!(code == 0 && out.contains(&format!("\nverdict  {}{by}", fields[5])), "{line}\n{out}");
    }
}

#[test]
fn what_cannot_be_explained() {
    let fixture = Fixture::new("unexplained");
    let mut shown = String::new();
    for line in [
        &["x.rules"][..],
        &["x.rules", "x.pcap"],
        &["x.rules", "missing.pcap#1"],
        &["x.rules", "missing.pcap", "--packet", "1"],
        &["x.rules", "cb.rules#0"],
        &["x.rules", ""],
        &["x.rules", "tpc 1.1.1.1:1 > 2.2.2.2:2"],
        &["x.rules", "tcp 1.1.1.1:1"],
        &["x.rules", "tcp 1.1.1.1:1 2.2.2.2:2"],
        &["x.rules", "tcp 1.1.1.1 > 2.2.2.2"],
        &["x.rules", "gre 1.1.1.1:1 > 2.2.2.2:2"],
        &["x.rules", "tcp 1.1.1.1:1 > [::1]:2"],
        &["x.rules", "tcp 1.1.1.1:1 > 2.2.2.2:99999"],
        &["x.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2 type 8"],
        &["x.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2 flags 256"],
        &["x.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2 vlan"],
        &["x.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2 hops 5"],
        &["x.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2", "--rule", "3"],
        &["missing.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2"],
    ] {
        shown.push_str(&fixture.shown(&[&["explain"], line].concat()));
        shown.push('\n');
    }
    assert!(!shown.contains("exit code 0"), "{shown}");
    assert_snapshot!("unexplained", shown);
}

#[test]
fn what_has_no_use_is_refused() {
    let fixture = Fixture::new("unused");
    fixture.write("of.rules", "schema openflow\npermit metadata 7\n");
    fixture.write("of.csv", "in_port,metadata,eth_src,eth_dst,eth_type,vlan_vid,vlan_pcp,mpls_label,mpls_tc,ipv4_src,ipv4_dst,ip_proto,ip_dscp,tp_src,tp_dst\n1,7,,,,,,,,,,,,,\n");
    let tcp = "tcp 1.1.1.1:1 > 2.2.2.2:2";
    let mut shown = String::new();
    for line in [
        &["x.rules", tcp, "--metadata", "7"][..],
        &["of.rules", "of.csv#0", "--metadata", "7"],
        &["of.rules", tcp, "--metadata", "+7"],
        &["x.rules", tcp, "--packet", "3"],
        &["x.rules", "x.pcap#1", "--packet", "3"],
        &["x.rules", "x.pcap#+1"],
        &["x.rules", "icmp 1.1.1.1 > 2.2.2.2 type 8 type 0"],
        &["x.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2 vlan +7"],
        &["x.rules", "proto +6 1.1.1.1:1 > 2.2.2.2:2"],
    ] {
        shown.push_str(&fixture.shown(&[&["explain"], line].concat()));
        shown.push('\n');
    }
    assert!(!shown.contains("exit code 0"), "{shown}");
    assert_snapshot!("unused", shown);
}

#[test]
fn numbers_are_taken_up_to_their_ends() {
    let fixture = Fixture::new("numbers");
    let tagged = |vlan: &str| fixture.run(&["explain", "x.rules", &format!("tcp 1.1.1.1:1 > 2.2.2.2:2 vlan {vlan}")]);
    assert_eq!(tagged("4095").0, 0);
    let (code, _, error) = tagged("4096");
    assert!(code == 2 && error.contains("`vlan 4096`: at most 4095"), "{error}");
    // The nearest rule may be before or after the line that was asked for.
    fixture.write("far.rules", "permit tcp\n\n\n\n\n\n\ndeny udp\n");
    for (asked, nearest) in [("3", 1), ("6", 8), ("99", 8)] {
        let (code, _, error) = fixture.run(&["explain", "far.rules", "tcp 1.1.1.1:1 > 2.2.2.2:2", "--rule", asked]);
        assert!(code == 2 && error.contains(&format!("the nearest is on line {nearest}\n")), "{asked}: {error}");
    }
}
