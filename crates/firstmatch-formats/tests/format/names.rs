//! Rules by the names of services, TCP flags and ICMP codes, and comparisons.
#![expect(clippy::unwrap_used, reason = "tests")]

use firstmatch_core::rule::{Condition, RuleSpec, Test};
use firstmatch_core::schema::Family::{self, Ipv4, Ipv6};
use firstmatch_formats::native::{icmp_code_numbers, service_names, service_port, tcp_flag};
use firstmatch_formats::{Format, Options, RuleFile, parse_rule, write};

use crate::faults::diagnose;

fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Conditions of each rule, with the names of their fields.
fn conditions(text: &str) -> Vec<Vec<(String, Condition)>> {
    let file = parse(text);
    let fields = file.rules.schemas()[0].fields();
    let named = |condition: Condition| (fields[condition.field].name().to_owned(), condition);
    file.rules.iter().map(|rule| rule.conditions.to_vec().into_iter().map(named).collect()).collect()
}

/// Asserts that two rules in words mean the same.
fn same(one: &str, other: &str) {
    assert_eq!(conditions(one), conditions(other), "{one} and {other}");
}

fn written(file: &RuleFile) -> String {
    let mut text = String::new();
    write::write(file, Format::Native, &mut text).unwrap();
    text
}

/// Texts with names and comparisons, each with its faults; `faults` and `hints` check them.
#[rustfmt::skip]
pub(crate) const NAMES: &[(&str, &[&str])] = &[
    ("permit dport ssh-https proto ssh\n",
     &[
        "1:14+9 unknown name `ssh-https`; expected the name of a service or a number up to 65535",
        "1:30+3 proto takes no name of a service; expected a protocol's name or a number up to 255",
     ]),
    ("permit syn tcp\npermit udp !ack\npermit established\n",
     &[
        "1:8+3 `syn` does not stand after tcp; expected `tcp syn`, or `tcp_flags syn`",
        "2:12+1 `!` has no place here; expected a field, a protocol or the end of the line",
        "3:8+11 `established` does not stand after tcp; expected `tcp established`, or `tcp_flags established`",
     ]),
    ("permit tcp syn,!akc dport 99999\npermit tcp syn,,ack\npermit tcp syn,dport 80\n",
     &[
        "1:16+4 `akc` where a TCP flag should be; did you mean `ack`?",
        "1:27+5 99999 is too large for dport; expected a number up to 65535",
        "2:16+1 `,` where a TCP flag should be; expected fin, syn, rst, psh, ack, urg, ece, cwr",
        "3:16+5 `dport` where a TCP flag should be; expected fin, syn, rst, psh, ack, urg, ece, cwr",
     ]),
    ("permit tcp syn,!syn\npermit tcp syn,established\npermit tcp !established\npermit tcp syn tcp_flags 2\n",
     &[
        "1:16+4 the flag `syn` stands twice",
        "2:16+11 `established` beside other flags; expected it alone",
        "3:12+12 `!` before established, which is several flags; expected `tcp_flags not established`",
        "4:16+11 there is already a condition on tcp_flags, in column 12; expected one condition a field: a list takes several values",
     ]),
    ("permit tcp_flags { syn, !ack }\nset s = { !ack }\npermit dport !22 sport { !22 }\npermit dport syn\n",
     &[
        "1:25+4 `!ack` in a list, of whose values one is enough; expected flags without braces, all of which must hold",
        "2:11+4 `!ack` in a list, of whose values one is enough; expected flags without braces, all of which must hold",
        "3:14+1 `!` before a value; expected `not` behind the field: `dport not 22`",
        "3:26+3 `!` before a value in a list; expected `except` behind the value that contains it",
        "4:14+3 dport takes no TCP flags; expected the name of a service or a number up to 65535",
     ]),
    ("schema openflow\npermit tcp syn\n",
     &["2:12+3 the schema has no field for TCP flags"]),
    ("permit dport > 65535\npermit dport >= 65536\npermit dport < 0\npermit dport <= 65536\npermit dport > 80-90\n",
     &[
        "1:14+7 no value of dport is above 65535; expected a number up to 65535",
        "2:14+8 no value of dport is above 65535; expected a number up to 65535",
        "3:14+3 no number is below 0; expected the name of a service or a number up to 65535",
        "4:14+8 65536 is too large for dport; expected a number up to 65535",
        "5:18+1 `-` has no place here; expected a field, a protocol or the end of the line",
     ]),
    ("permit src > 10.0.0.1 dst > 5\npermit dport > ssh\npermit dport >\npermit dport > { 5 }\n",
     &[
        "1:12+10 an IPv4 address after `>`; expected a number, or a range of addresses",
        "1:27+3 dst takes no numbers; expected an address, a prefix or a range of addresses",
        "2:16+3 `ssh` is neither a number nor an address; expected a number",
        "3:15+0 nothing after `>`; expected a number",
        "4:16+1 `{` after `>`; expected a number",
     ]),
    ("permit icmp_code { port-unreachable, ttl-exceeded }\n",
     &["1:8+44 codes of the types unreachable and time-exceeded; expected codes of one type: a rule for each type"]),
    ("permit icmp_type echo-request icmp_code port-unreachable\npermit icmp_type 3 icmp_code port-unreachable\n",
     &[
        "1:31+26 codes of the type unreachable, where the condition on the type, in column 8, is another; expected `icmp_type unreachable`",
        "2:20+26 codes of the type unreachable, where the condition on the type, in column 8, is another; expected `icmp_type unreachable`",
     ]),
    ("permit icmp_code not port-unreachable\npermit icmp_code not port-unreachable icmp_type not unreachable\n",
     &[
        "1:8+30 `not` before codes of the type unreachable, which the rule does not ask for; expected `icmp_type unreachable` in the rule, too",
        "2:8+30 codes of the type unreachable, where the condition on the type, in column 39, is another; expected `icmp_type unreachable`",
     ]),
    ("family ipv6\npermit icmp_code host-unreachable\npermit icmp_code unreachable\npermit icmp_code port-unreachible\n",
     &[
        "2:18+16 `host-unreachable` does not exist in IPv6; expected the name of an ICMP code or a number up to 255",
        "3:18+11 icmp_code takes no ICMP type; expected the name of an ICMP code or a number up to 255",
        "4:18+16 unknown name `port-unreachible`; did you mean `port-unreachable`?",
     ]),
    ("schema {\n c 8 exact from icmp_code optional\n}\npermit c port-unreachable\n",
     &["4:10+16 c takes no names: a code has one number in ICMP, another in ICMPv6; expected a number up to 255"]),
];

/// A rule as somebody writes it who knows no manual.
#[test]
fn a_rule_in_plain_words_is_understood() {
    let rule = "deny tcp syn,!ack dport ssh src 10.0.0.0/8\n";
    assert_eq!(diagnose(rule), [""; 0]);
    same(rule, "deny proto 6 tcp_flags 0x02/0x12 dport 22 src 10.0.0.0/8\n");
    same("permit tcp syn , ! ack dport>=1024\n", "permit tcp tcp_flags syn,!ack dport 1024-65535\n");
}

#[test]
fn flags_are_bits_that_must_all_hold() {
    for (flags, mask) in [
        ("syn", "0x02/0x02"),
        ("!syn", "0/0x02"),
        ("syn,ack", "0x12/0x12"),
        ("ack,!fin,!rst", "0x10/0x15"),
        ("fin,syn,rst,psh,ack,urg,ece,cwr", "0xff/0xff"),
        ("established", "{ 0x10/0x10, 0x04/0x04 }"),
        ("established", "{ ack, rst }"),
    ] {
        same(&format!("permit tcp {flags}\n"), &format!("permit tcp tcp_flags {mask}\n"));
        if !mask.contains('{') {
            same(&format!("permit tcp_flags not {flags}\n"), &format!("permit tcp_flags not {mask}\n"));
        }
    }
    same("set s = { syn, established, 0 }\npermit tcp_flags $s\n", "permit tcp_flags { syn, ack, rst, 0 }\n");
    same("permit tcp_flags family ipv4 syn,!ack\n", "permit tcp_flags family ipv4 0x02/0x12\n");
    assert_eq!(["fin", "syn", "cwr", "established", "SYN"].map(tcp_flag), [Some(1), Some(2), Some(0x80), None, None]);
    // A field of the schema's own stands before the name of a flag.
    let own = "schema {\n proto 8 exact from proto\n f 8 mask from tcp_flags optional\n syn 8 exact\n}\n";
    same(&format!("{own}permit tcp syn 7\n"), &format!("{own}permit proto 6 syn 7\n"));
    same(&format!("{own}permit tcp ack syn 7\n"), &format!("{own}permit proto 6 f ack syn 7\n"));
}

#[test]
fn a_name_of_a_service_is_its_number() {
    same("permit dport { ssh, domain, dns, 80 } sport not https\n", "permit dport { 22, 53, 53, 80 } sport not 443\n");
    same("set s = { l2tp, ntp }\npermit udp dport $s\n", "permit udp dport { 1701, 123 }\n");
    same("permit l2tp\n", "permit proto 115\n");
    let openflow = "schema openflow\npermit tp_dst ";
    same(&format!("{openflow}bgp\n"), &format!("{openflow}179\n"));
    let names: Vec<_> = (0..=u16::MAX).flat_map(|port| service_names(port).map(move |name| (name, port))).collect();
    assert!(names.len() >= 150, "{}", names.len());
    for (name, port) in names {
        assert_eq!(service_port(name), Some(port), "{name}");
        same(&format!("permit dport {name}\n"), &format!("permit dport {port}\n"));
    }
    assert_eq!((service_names(80).collect::<Vec<_>>(), service_port("HTTP")), (vec!["http", "www"], None));
}

#[test]
fn comparisons_are_ranges_to_the_end_of_the_field() {
    same("permit dport > 1023 sport < 1024\n", "permit dport 1024-65535 sport 0-1023\n");
    same("permit dport >= 1024 sport <= 0x3ff\n", "permit dport 1024-65535 sport 0-1023\n");
    same("permit dport not { < 5, > 65534, 7 }\n", "permit dport not { 0-4, 65535-65535, 7 }\n");
    same("set high = { >= 0xC000 }\npermit dport $high\n", "permit dport 49152-65535\n");
    same(
        "permit icmp_type > 127 icmp_code <= 3 vlan_vid < 4095\n",
        "permit icmp_type 128-255 icmp_code 0-3 vlan_vid 0-4094\n",
    );
    let own = "schema {\n wide 128 range\n}\npermit wide ";
    let max = u128::MAX;
    same(&format!("{own}> 5\n"), &format!("{own}6-{max}\n"));
    same(&format!("{own}>= {max}\n"), &format!("{own}{max}-{max}\n"));
    assert!(firstmatch_formats::parse(&format!("{own}> {max}\n"), &Options::default()).is_err());
}

#[test]
fn a_code_asks_for_its_type() {
    let test = |family, value| (Some(family), Test::Value(value));
    let of = |text: &str| {
        let all = conditions(text).remove(0);
        all.into_iter().map(|(name, condition)| (name, condition.tests)).collect::<Vec<_>>()
    };
    let port = [test(Ipv4, 3), test(Ipv6, 4)].to_vec();
    let unreachable = [test(Ipv4, 3), test(Ipv6, 1)].to_vec();
    let expected = [("icmp_code".to_owned(), port), ("icmp_type".to_owned(), unreachable)];
    assert_eq!(of("permit icmp_code port-unreachable\n"), expected);
    assert_eq!(of("permit icmp_code port-unreachable icmp_type unreachable\n"), expected);
    for (text, other) in [
        (
            "permit icmp_code { host-unreachable, port-unreachable }\n",
            "permit icmp_code { family ipv4 1, family ipv4 3, family ipv6 4 } icmp_type unreachable\n",
        ),
        (
            "permit icmp icmp_type 3 icmp_code port-unreachable\n",
            "permit icmp icmp_type 3 icmp_code { family ipv4 3, family ipv6 4 }\n",
        ),
        (
            "permit family ipv6 icmp_type 1 icmp_code port-unreachable\n",
            "permit family ipv6 icmp_type 1 icmp_code { family ipv4 3, family ipv6 4 }\n",
        ),
        (
            "permit icmp_type unreachable icmp_code not admin-prohibited\n",
            "permit icmp_type unreachable icmp_code not { family ipv4 13, family ipv6 1 }\n",
        ),
        (
            "set c = { ttl-exceeded, reassembly-timeout }\npermit icmp_code $c\n",
            "permit icmp_code { family ipv4 0, family ipv6 0, family ipv4 1, family ipv6 1 } icmp_type time-exceeded\n",
        ),
        (
            "family ipv4\npermit icmp_code port-unreachable\n",
            "family ipv4\npermit icmp_code family ipv4 3 icmp_type unreachable\n",
        ),
        ("permit icmp_code family ipv6 port-unreachable\n", "permit icmp_code family ipv6 4 icmp_type unreachable\n"),
    ] {
        same(text, other);
        assert_eq!(diagnose(text), [""; 0], "{text}");
    }
    assert_eq!(icmp_code_numbers(Ipv4, "ttl-exceeded"), Some((11, 0)));
    assert_eq!(icmp_code_numbers(Ipv4, "unreachable"), None);
}

/// Rules with names are written with names, and read as the same rules.
#[test]
fn names_are_written_and_read_again() {
    let head = "family inet\ndefault deny\nunknown deny\nfragments unknown\n\n";
    let text = format!(
        "{head}deny tcp tcp_flags syn,!ack dport 22\n\
         permit tcp tcp_flags {{ ack, rst }}\n\
         permit tcp_flags not syn\n\
         permit tcp_flags {{ syn, 0x10/0x12, 0x02 }}\n\
         permit icmp_code {{ port-unreachable, host-unreachable }} icmp_type unreachable\n\
         permit icmp_type time-exceeded icmp_code not {{ ttl-exceeded, 7 }}\n\
         permit icmp_type {{ unreachable, redirect }} icmp_code family ipv4 1\n\
         permit icmp_code {{ family ipv4 3, family ipv6 4 }}\n"
    );
    // The last rule names no type, so its codes have no names either.
    let file = parse(&text);
    assert_eq!(written(&file), text);
    let specs = |file: &RuleFile| file.rules.iter().map(|rule| rule.spec.clone()).collect::<Vec<RuleSpec>>();
    let named = parse("permit tcp established\npermit icmp_code port-unreachable\npermit dport < 1024\n");
    let again = parse(&written(&named));
    let plain = |file: &RuleFile| {
        specs(file).into_iter().map(|spec| (spec.action, spec.conditions, spec.family)).collect::<Vec<_>>()
    };
    assert_eq!(plain(&named), plain(&again));
}

#[test]
fn states_of_fragments_have_names() {
    same("permit fragment { none, first } ttl > 1\n", "permit fragment { 0, 1 } ttl 2-255\n");
    same("permit fragment not later ext_headers fragment\n", "permit fragment not 2 ext_headers 0x04/0x04\n");
    same("permit ext_headers { ah, fragment } fragment later\n", "permit ext_headers { 0x10/0x10, 4/4 } fragment 2\n");
    let own = "schema {\n f 2 exact from fragment optional\n}\npermit f ";
    same(&format!("{own}later\n"), &format!("{own}2\n"));
    let text = "family inet\ndefault deny\nunknown deny\nfragments unknown\n\n\
                deny fragment { first, later } length 1500-131071 dscp not 46\n";
    assert_eq!(written(&parse(text)), text);
    assert_eq!(
        diagnose("permit fragment latr dscp 64\n"),
        [
            "1:17+4 unknown name `latr`; did you mean `later`?",
            "1:27+2 64 is too large for dscp; expected a number up to 63",
        ]
    );
}

#[test]
fn rules_for_a_set_have_names_too() {
    let options = Options { fields: firstmatch_formats::Fields::All, ..Options::default() };
    let all = firstmatch_formats::parse("permit tcp\n", &options).unwrap();
    let some = parse("permit tcp\n");
    let priority = firstmatch_core::rule::Priority(9);
    for rule in ["deny tcp syn dport ssh", "deny icmp_code port-unreachable"] {
        assert!(parse_rule(&all.rules, priority, rule, &options).is_ok(), "{rule}");
        let error = parse_rule(&some.rules, priority, rule, &options).unwrap_err();
        assert!(error.faults()[0].message.contains("the rules have no field `"), "{error}");
    }
    let one_family: Family = Ipv6;
    let rule = parse_rule(&all.rules, priority, "deny family ipv6 icmp_code no-route", &options).unwrap();
    assert_eq!(rule.spec.family, Some(one_family));
}
