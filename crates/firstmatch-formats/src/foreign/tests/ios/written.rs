//! Rules written as access lists, and read again: they decide the same.

use firstmatch_core::policy::Fragments;
use firstmatch_core::schema::{Family, Source};
use firstmatch_testkit::rng::Rng;

use super::super::super::options::Import;
use super::super::{all_fields, verdict};
use super::random::{list, packets};
use crate::write::write;
use crate::{Fields, Format, Options, RuleFile, parse};

/// Writes rules as access lists.
fn written(file: &RuleFile) -> Result<String, crate::write::WriteError> {
    let mut text = String::new();
    write(file, Format::Ios, &mut text).map(|()| text)
}

#[track_caller]
fn native(text: &str) -> RuleFile {
    parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Reads the list of a family, with all fields.
#[track_caller]
fn back(text: &str, family: Family) -> RuleFile {
    let name = if family == Family::Ipv4 { "RULES-IPV4" } else { "RULES-IPV6" };
    let import = Import { list: Some(name.into()), ..Import::default() };
    let options = Options { import, format: Some(Format::Ios), fields: Fields::All, ..Options::default() };
    parse(text, &options).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn rules_are_entries() {
    let head = "family ipv4\nfragments layer3\n";
    for (rules, expected) in [
        (
            "deny tcp dst 192.0.2.7 dport { 22, 25, 30-39 }\n",
            " deny tcp any host 192.0.2.7 eq 22 25\n deny tcp any host 192.0.2.7 range 30 39\n deny ip any any\n",
        ),
        ("permit src 10.0.0.0/8\n", " permit ip 10.0.0.0 0.255.255.255 any\n deny ip any any\n"),
        ("permit src 10.0.0.7/255.0.0.255\n", " permit ip 10.0.0.7 0.255.255.0 any\n deny ip any any\n"),
        (
            "permit udp src 10.0.0.1-10.0.0.6\n",
            " permit udp host 10.0.0.1 any\n permit udp 10.0.0.2 0.0.0.1 any\n permit udp 10.0.0.4 0.0.0.1 any\n \
             permit udp host 10.0.0.6 any\n deny ip any any\n",
        ),
        ("deny tcp sport not 80 dport > 1023\n", " deny tcp any neq 80 any range 1024 65535\n deny ip any any\n"),
        ("deny tcp established\n", " deny tcp any any established\n deny ip any any\n"),
        ("deny tcp syn,!ack\n", " deny tcp any any match-all +syn -ack\n deny ip any any\n"),
        ("deny tcp_flags not syn,!ack tcp\n", " deny tcp any any match-any -syn +ack\n deny ip any any\n"),
        (
            "deny icmp icmp_type { 8, 3 } icmp_code 0-1\n",
            " deny icmp any any 3 0\n deny icmp any any 3 1\n deny icmp any any 8 0\n deny icmp any any 8 1\n deny ip any any\n",
        ),
        (
            "deny fragment later\npermit dscp { 40-47, 8 } ttl 255\n",
            " deny ip any any fragments\n permit ip any any dscp 8 ttl eq 255\n permit ip any any precedence 5 ttl eq 255\n deny ip any any\n",
        ),
        ("permit gre label \"tunnels  of all\"\n", " remark tunnels of all\n permit gre any any\n deny ip any any\n"),
        // A permit by ports takes later fragments, which the rule behind it permits.
        ("permit tcp dport 80\npermit tcp fragment later\n", " permit tcp any any eq 80\n deny ip any any\n"),
        // Otherwise they are decided first.
        (
            "permit tcp dport 80\ndeny udp\npermit\n",
            " deny udp any any fragments\n permit ip any any fragments\n deny ip any any fragments\n permit tcp any any eq 80\n deny udp any any\n permit ip any any\n deny ip any any\n",
        ),
        (
            "permit tcp dport { 80, absent }\n",
            " permit tcp any any fragments\n deny ip any any fragments\n permit tcp any any eq 80\n deny ip any any\n",
        ),
    ] {
        let text = written(&native(&format!("{head}{rules}"))).unwrap_or_else(|error| panic!("{rules}: {error}"));
        assert_eq!(text, format!("ip access-list extended RULES-IPV4\n{expected}!\n"), "{rules}");
    }
    let text = written(&native("default permit\ndeny tcp dport 22\npermit src 2001:db8::/32\n")).expect("rules");
    let v4 = "ip access-list extended RULES-IPV4\n deny ip any any fragments\n deny tcp any any eq 22\n permit ip any any\n!\n";
    let v6 = "ipv6 access-list RULES-IPV6\n deny ipv6 any any fragments\n deny tcp any any eq 22\n permit ipv6 2001:db8::/32 any\n \
              permit ipv6 any any\n!\n";
    assert_eq!(text, format!("{v4}{v6}"));
}

#[test]
fn what_lists_cannot_hold_is_an_error_with_its_line() {
    for (rules, expected) in [
        ("permit\nmark 7 tcp\n", "line 2: the action `mark 7`"),
        ("permit length > 100\n", "line 1: length: a field that access lists do not test"),
        ("permit vlan_vid 5\n", "line 1: vlan_vid: "),
        ("permit fragment first\n", "line 1: fragment: first fragments apart"),
        ("permit dport 80\n", "line 1: dport: ports of DCCP and UDP-Lite"),
        ("permit proto not tcp\n", "line 1: proto: protocol 0"),
        ("permit tcp ece\n", "line 1: tcp_flags: the flags ECE and CWR"),
        ("permit tcp tcp_flags 0x02\n", "line 1: tcp_flags: the flags ECE and CWR"),
        ("permit tcp tcp_flags not { syn, ack }\n", "line 1: tcp_flags: `not` before several"),
        ("permit icmp icmp_code 3 icmp_type any\n", "line 1: icmp_code: codes without types"),
        ("permit family ipv6 ttl 5\n", "line 1: ttl: a hop limit"),
        ("permit ext_headers routing\n", "line 1: ext_headers: "),
        ("permit src 2001:db8::7/ffff:ffff::ffff\n", "line 1: src: a mask that is none of a prefix"),
        (
            "permit tcp src 10.0.0.1-10.127.255.254 dst 10.0.0.1-10.127.255.254\n",
            "line 1: the rule becomes 3872 entries",
        ),
        ("unknown permit\n", "`unknown permit`"),
        ("audit deny tcp\n", "line 1: an audit rule"),
        ("live set bad = { }\ndeny src $bad\n", "access lists have no live sets: `bad`"),
        ("schema openflow\npermit ip_proto 6\n", "the fields are not those of IP networks"),
    ] {
        let error = written(&native(rules)).expect_err(rules).to_string();
        assert!(error.contains(expected), "{rules}: {error}");
    }
}

/// Lists of a router are written in one part, and decide as before.
#[test]
fn lists_that_were_read_decide_the_same() {
    let mut rng = Rng::new(5);
    let options = Options { format: Some(Format::Ios), max_warnings: 0, ..all_fields(Options::default()) };
    let (mut lists, mut with_two_parts) = (0, 0);
    for _ in 0..200 {
        let family = if rng.below(3) == 0 { Family::Ipv6 } else { Family::Ipv4 };
        let (_, text) = list(&mut rng, family);
        let file = parse(&text, &options).expect("a list");
        let again = match written(&file) {
            Ok(again) => again,
            Err(error) => panic!("{text}\n{error}"),
        };
        lists += 1;
        with_two_parts += usize::from(again.contains(" deny ip any any fragments\n") && !text.contains("fragments"));
        let read = back(&again, family);
        for seen in packets(&mut rng) {
            let values = seen.values(family);
            let expected = verdict(&file, family, &values);
            assert_eq!(verdict(&read, family, &values), expected, "{seen:?}\n{text}\n{again}");
        }
    }
    assert!(lists == 200 && with_two_parts == 0, "{with_two_parts} of {lists}");
}

/// Returns a condition of a native rule.
fn condition(rng: &mut Rng, is_v4: bool) -> String {
    let not = if rng.below(3) == 0 { "not " } else { "" };
    let port = 1 + rng.below(4);
    let net = if is_v4 { "10.0.0." } else { "2001:db8::" };
    let len = if is_v4 { 31 } else { 127 };
    match rng.below(16) {
        0 => format!("src {not}{net}{}/{len}", 2 * rng.below(3)),
        1 => format!("dst {not}{{ {net}1, {net}4-{net}{} }}", 5 + rng.below(4)),
        2 => format!("tcp dport {not}{port}"),
        3 => format!("tcp dport {{ {port}, absent }}"),
        4 => format!("udp sport {port}-4 dport {{ 1-2, 9 }}"),
        5 => "tcp established".to_owned(),
        6 => format!("tcp_flags {not}0x02/0x12 tcp"),
        7 => format!("{} icmp_type {not}{}", if is_v4 { "icmp" } else { "icmpv6" }, [3, 8][rng.below(2)]),
        8 => format!("{} icmp_type any", if is_v4 { "icmp" } else { "icmpv6" }),
        9 => "fragment later".to_owned(),
        10 => "fragment 0-1 udp".to_owned(),
        11 => format!("dscp {not}0-8"),
        12 => "proto { tcp, udp, esp } dport absent".to_owned(),
        13 => "tcp dport any".to_owned(),
        14 => "tcp".to_owned(),
        _ => "tcp_flags { absent, syn } proto { tcp, 50 }".to_owned(),
    }
}

/// Rules of any kind decide the same in one part or in two, or have an error.
#[test]
fn rules_decide_the_same_as_entries() {
    let mut rng = Rng::new(9);
    let (mut lists, mut with_two_parts) = (0, 0);
    for round in 0..400 {
        let family = if rng.below(3) == 0 { Family::Ipv6 } else { Family::Ipv4 };
        let is_v4 = family == Family::Ipv4;
        let fragments = ["layer3", "layer3", "unknown"][rng.below(3)];
        let mut text =
            format!("family {}\ndefault {}\nfragments {fragments}\n", family.name(), ["permit", "deny"][rng.below(2)]);
        for _ in 0..1 + rng.below(6) {
            text.push_str(&format!("{} {}\n", ["permit", "deny"][rng.below(2)], condition(&mut rng, is_v4)));
        }
        let options = Options { fields: Fields::All, max_warnings: 0, ..Options::default() };
        let file = parse(&text, &options).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let again = written(&file).unwrap_or_else(|error| panic!("{text}\n{error}"));
        lists += 1;
        with_two_parts += usize::from(again.matches("any any fragments\n").count() > 0);
        let read = back(&again, family);
        let schema = &file.rules.schemas()[0];
        let tested = file.rules.tested_fields(schema);
        let hidden = [Source::SrcPort, Source::DstPort, Source::IcmpType, Source::TcpFlags];
        let hidden: &[Source] = if is_v4 { &hidden } else { &[&hidden[..], &[Source::Proto]].concat() };
        let hides = hidden.iter().any(|source| schema.index_of_source(*source).is_some_and(|field| tested[field]));
        for seen in packets(&mut rng) {
            let values = seen.values(family);
            let is_unknown = seen.is_later && file.policy.fragments == Fragments::Unknown && hides;
            let own = |file: &RuleFile| verdict(file, family, &values);
            let expected = if is_unknown { "deny".to_owned() } else { own(&file) };
            assert_eq!(own(&read), expected, "{round}: {seen:?}\n{text}\n{again}");
        }
    }
    assert!(lists == 400 && with_two_parts > 100, "{with_two_parts} of {lists}");
}
