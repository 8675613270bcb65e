//! Conditions that hold for packets without a field.

use firstmatch_core::rule::{FieldValues, Test, first_match};
use firstmatch_core::schema::Family;
use firstmatch_formats::{Format, Options, RuleFile, write};

use crate::faults::diagnose;

fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn an_absent_field_is_a_value_of_its_own() {
    let file = parse(
        "set untagged = { absent, 1 }\n\
         permit vlan_vid absent dport 1\n\
         permit vlan_vid { 5, absent } dport 2\n\
         permit vlan_vid $untagged dport 3\n\
         permit vlan_vid not { absent, 7 } dport 4\n\
         permit vlan_vid not absent dport 5\n\
         permit vlan_vid family ipv6 absent dport 6\n\
         permit dport absent vlan_vid 9\n",
    );
    assert!(file.warnings.is_empty(), "{:?}", file.warnings);
    for (family, dport, vlan, line) in [
        (Family::Ipv4, Some(1), None, Some(2)),
        (Family::Ipv4, Some(1), Some(0), None),
        (Family::Ipv4, Some(2), None, Some(3)),
        (Family::Ipv4, Some(2), Some(5), Some(3)),
        (Family::Ipv4, Some(2), Some(4), None),
        (Family::Ipv4, Some(3), None, Some(4)),
        (Family::Ipv4, Some(3), Some(1), Some(4)),
        (Family::Ipv4, Some(3), Some(2), None),
        (Family::Ipv4, Some(4), None, None),
        (Family::Ipv4, Some(4), Some(7), None),
        (Family::Ipv4, Some(4), Some(8), Some(5)),
        (Family::Ipv4, Some(5), None, None),
        (Family::Ipv4, Some(5), Some(4095), Some(6)),
        (Family::Ipv4, Some(6), None, None),
        (Family::Ipv6, Some(6), None, Some(7)),
        (Family::Ipv6, Some(6), Some(1), None),
        (Family::Ipv4, None, Some(9), Some(8)),
        (Family::Ipv4, Some(9), Some(9), None),
        (Family::Ipv4, None, None, None),
    ] {
        let values = vec![Some(1), Some(2), Some(3).filter(|_| dport.is_some()), dport, Some(6), vlan];
        let packet = FieldValues { family: Some(family), values };
        let found = first_match(&file.rules, &packet).map(|rule| rule.line.unwrap().get());
        assert_eq!(found, line, "{packet:?}");
    }
}

#[test]
fn absent_is_written_and_read_again() {
    let text = "family inet\ndefault deny\nunknown deny\nfragments unknown\n\n\
                permit vlan_vid absent\n\
                permit vlan_vid { 5, absent, 7-9 }\n\
                deny vlan_vid not absent tcp_flags { family ipv4 absent, syn }\n\
                deny ext_headers family ipv6 absent icmp_type { absent, echo-request }\n";
    let file = parse(text);
    let mut native = String::new();
    write::write(&file, Format::Native, &mut native).unwrap();
    assert_eq!(native, text);
    let tests: Vec<_> = file.rules.iter().next().unwrap().conditions.to_vec().remove(0).tests;
    assert_eq!(tests, [(None, Test::Absent)]);
    let one = parse("family ipv4\nmatch dport absent\n");
    let error = write::write(&one, Format::ClassBench, &mut String::new()).unwrap_err().to_string();
    assert!(error.contains("`absent`"), "{error}");
}

#[test]
fn fields_of_every_packet_are_never_absent() {
    for (text, expected) in [
        (
            "permit src absent\n",
            "1:12+6 src is never absent: every packet has it; expected an address, a prefix or a range of addresses",
        ),
        (
            "set s = { absent }\npermit proto { tcp, $s }\n",
            "2:21+2 `$s` (line 1): proto is never absent: every packet has it; expected a protocol's name or a number up to 255",
        ),
        (
            "schema {\n a 8 exact\n b 8 exact optional\n}\npermit a absent b absent\n",
            "5:10+6 a is never absent: every packet has it; expected a number up to 255",
        ),
        (
            "schema {\n a 8 exact\n absent 8 exact\n}\npermit a 1\n",
            "3:2+6 `absent` has a meaning in rules; expected another name for the field",
        ),
        ("permit vlan_vid absent-5\n", "1:17+8 unknown name `absent-5`; expected a number up to 4095"),
    ] {
        assert_eq!(diagnose(text), [expected], "{text}");
    }
}

#[test]
#[cfg(feature = "json")]
fn absent_is_a_test_of_json() {
    use firstmatch_formats::json;
    let file = parse("permit vlan_vid { 5, absent }\ndeny ext_headers family ipv6 absent\n");
    let document = json::write(&file).unwrap();
    assert!(document.contains("\"absent\""), "{document}");
    let again = json::read(&document, &Options::default()).unwrap().file;
    let specs = |file: &RuleFile| file.rules.iter().map(|rule| rule.spec.clone()).collect::<Vec<_>>();
    assert_eq!(specs(&again), specs(&file));
    let schemas =
        r#"{ "format": "firstmatch-rules", "version": 1, "schemas": ["ipv4"], "rules": [ { "action": "deny","#;
    for (field, value, message) in
        [("src", "true", "the field is never absent (src has 32 bits)"), ("dport", "false", "`false` after \"absent\"")]
    {
        let text = format!(
            r#"{schemas} "conditions": [ {{ "field": "{field}", "tests": [ {{ "absent": {value} }} ] }} ] }} ] }}"#
        );
        let faults = json::read(&text, &Options::default()).unwrap_err().faults;
        assert!(faults.len() == 1 && faults[0].message.contains(message), "{faults:?}");
    }
}

/// What a protocol lacks is no contradiction where the rule asks for its absence.
#[test]
fn absence_contradicts_nothing() {
    for text in [
        "permit udp tcp_flags absent\n",
        "permit icmp dport absent\n",
        "permit family ipv4 ext_headers absent\n",
        "permit src 10.0.0.0/8 routing_type absent\n",
        "permit udp tcp_flags { absent, syn }\n",
        "schema openflow\npermit eth_type arp tp_dst absent\n",
        "schema openflow\npermit eth_type 0x1234 ip_proto absent\n",
    ] {
        assert_eq!(diagnose(text), [""; 0], "{text}");
    }
    let warned = |text: &str| diagnose(text)[0].starts_with("warning ");
    assert!(
        warned("permit udp tcp_flags not absent\n") && warned("permit family ipv4 ext_headers family ipv6 absent\n")
    );
    let covered = diagnose("permit vlan_vid { absent, 1-9 }\ndeny vlan_vid absent tcp\ndeny vlan_vid { absent, 12 }\n");
    assert_eq!(covered.len(), 1, "{covered:?}");
    assert!(covered[0].contains("the rule on line 1 takes all its packets"), "{covered:?}");
    assert_eq!(
        diagnose("permit vlan_vid not { 5, absent }\npermit vlan_vid absent\npermit vlan_vid any tcp\n"),
        [""; 0]
    );
}
