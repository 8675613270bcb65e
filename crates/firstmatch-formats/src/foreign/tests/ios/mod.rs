//! Configurations of Cisco: worked values, faults, and lists against an evaluation of their conditions.

mod config;
mod faults;
mod groups;
mod random;
mod words;
mod written;

use firstmatch_core::schema::{Family, Source};

use super::super::options::Import;
use super::{native, packet, plain, verdict};
use crate::{Fields, Format, Options, RuleFile, parse};

/// Reads a configuration, with the list of a name if there are several.
#[track_caller]
fn read(text: &str, list: Option<&str>) -> RuleFile {
    let import = Import { list: list.map(str::to_owned), ..Import::default() };
    let options = Options { import, format: Some(Format::Ios), ..Options::default() };
    parse(text, &options).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Returns the native rules of the entries of an extended list.
#[track_caller]
fn of_entries(entries: &str) -> Vec<String> {
    native(&read(&format!("ip access-list extended A\n{entries}"), None))
}

/// Returns rules without their permit, with names as numbers.
fn bare(rules: &[String], family: &str) -> Vec<String> {
    let plain_of = |rule: &String| {
        let text = format!("family {family}\n{rule}\n");
        native(&parse(&text, &Options::default()).unwrap_or_else(|error| panic!("{rule}: {error}"))).concat()
    };
    rules.iter().map(plain_of).collect()
}

/// Later fragments pass where an entry permits by ports, and not where it denies.
#[test]
fn later_fragments_pass_permits_with_ports() {
    let text = "access-list 101 permit tcp any host 192.0.2.7 eq 80\naccess-list 101 deny ip any any\n";
    let options = Options { fields: Fields::All, ..Options::default() };
    let file = parse(text, &options).expect("a list");
    let to = |proto, fragment| {
        let mut values = packet("10.0.0.1", &[(Source::Proto, proto), (Source::Fragment, fragment)]);
        values[1] = Some(0xC000_0207);
        values
    };
    let with_ports = |dport| {
        let mut values = to(6, 0);
        (values[2], values[3], values[7]) = (Some(4040), Some(dport), Some(2));
        values
    };
    for (values, expected) in [
        (to(6, 2), "permit"),
        (to(17, 2), "deny"),
        (with_ports(80), "permit"),
        (with_ports(81), "deny"),
        (packet("10.0.0.1", &[(Source::Proto, 6), (Source::Fragment, 2)]), "deny"),
    ] {
        assert_eq!(verdict(&file, Family::Ipv4, &values), expected, "{values:?}");
    }
    assert_eq!(of_entries(" deny tcp any any eq 80\n permit ip any any\n"), ["deny tcp dport 80", "permit"]);
    assert_eq!(file.policy.default.to_string(), "deny");
    assert_eq!(crate::write::fragments_name(file.policy.fragments), "layer3");
}

/// Every form of a condition, as the native format writes it.
#[test]
fn conditions_are_read_as_they_mean() {
    for (entry, expected) in [
        ("ip any any", ""),
        ("ipv4 any any", ""),
        ("tcp any any", "tcp"),
        ("6 any any", "tcp"),
        ("ahp any any", "proto 51"),
        ("ipinip any any", "proto 4"),
        ("nos any any", "proto 94"),
        ("ip host 10.0.0.1 any", "src 10.0.0.1"),
        ("ip any host 10.0.0.1", "dst 10.0.0.1"),
        ("ip 10.1.0.0 0.0.255.255 any", "src 10.1.0.0/16"),
        ("ip 10.0.0.7 0.255.255.0 any", "src 10.0.0.7/255.0.0.255"),
        ("ip 10.0.0.0 0.0.0.6 any", "src 10.0.0.0/255.255.255.249"),
        ("ip 0.0.0.0 255.255.255.255 any", ""),
        ("ip 10.0.0.1 0.0.0.0 any", "src 10.0.0.1"),
        ("ip 10.1.0.0/16 192.0.2.0/24", "src 10.1.0.0/16 dst 192.0.2.0/24"),
        ("ip any any dscp af41", "dscp 34"),
        ("ip any any dscp ef log", "dscp 46"),
        ("ip any any dscp cs3", "dscp 24"),
        ("ip any any dscp default", "dscp 0"),
        ("ip any any dscp 63", "dscp 63"),
        ("ip any any precedence critical", "dscp 40-47"),
        ("ip any any precedence 0", "dscp 0-7"),
        ("ip any any ttl eq 255", "ttl 255"),
        ("ip any any ttl lt 5 log-input", "ttl 0-4"),
        ("ip any any ttl range 5 7", "ttl 5-7"),
        ("ip any any ttl neq 1 2", "ttl not 1-2"),
        ("ip any any fragments", "fragment later"),
        ("tcp any any fragments log", "tcp fragment later"),
        ("udp host 10.0.0.1 any fragments dscp 8", "udp src 10.0.0.1 fragment later dscp 8"),
        ("ip any any counter seen", ""),
    ] {
        let rules = of_entries(&format!(" permit {entry}\n"));
        assert_eq!(bare(&rules, "ipv4"), [plain(expected)], "{entry}");
    }
    // Conditions behind the IP header have a rule for later fragments, too.
    for (entry, expected) in [
        ("tcp any any eq www", "tcp dport 80"),
        ("tcp any eq 20 ftp 22 any", "tcp sport { 20-22 }"),
        ("udp any any eq 53 domain 123", "udp dport { 53, 123 }"),
        ("tcp any neq 22 any", "tcp sport not 22"),
        ("tcp any any neq 22 23", "tcp dport not 22-23"),
        ("tcp any gt 1023 any lt 1024", "tcp sport 1024-65535 dport 0-1023"),
        ("sctp any any range 5000 5010", "proto 132 dport 5000-5010"),
        ("tcp any any gt 0", "tcp dport 1-65535"),
        ("tcp any any established", "tcp tcp_flags { 0x04, 0x10 }"),
        ("tcp any any eq 80 established log", "tcp dport 80 tcp_flags { 0x04, 0x10 }"),
        ("tcp any any syn", "tcp tcp_flags 0x02/0x02"),
        ("tcp any any match-all +syn -ack", "tcp tcp_flags 0x02/0x12"),
        ("tcp any any match-any +syn +ack", "tcp tcp_flags not 0x00/0x12"),
        ("tcp any any match-any +syn -ack", "tcp tcp_flags not 0x10/0x12"),
        ("icmp any any echo", "icmp icmp_type 8"),
        ("icmp any any unreachable", "icmp icmp_type 3"),
        ("icmp any any port-unreachable", "icmp icmp_type 3 icmp_code 3"),
        ("icmp any any 3 4 log", "icmp icmp_type 3 icmp_code 4"),
        ("icmp any any 13", "icmp icmp_type 13"),
        ("icmp any any administratively-prohibited", "icmp icmp_type 3 icmp_code 13"),
        ("icmp any any ttl-exceeded ttl gt 5", "icmp icmp_type 11 icmp_code 0 ttl 6-255"),
        ("icmp any any ttl eq 1", "icmp ttl 1"),
    ] {
        let is_alone = entry.ends_with("ttl eq 1");
        let permits = bare(&of_entries(&format!(" permit {entry}\n")), "ipv4");
        let denies = bare(&of_entries(&format!(" deny {entry}\n permit 7 any any\n")), "ipv4");
        let wanted = plain(expected.replace("{ 0x04, 0x10 }", "not 0x00/0x14").as_str());
        assert_eq!(permits[0], wanted, "{entry}");
        assert_eq!(permits.len(), if is_alone { 1 } else { 2 }, "{entry}: {permits:?}");
        assert_eq!(denies.len(), 2, "{entry}: {denies:?}");
        assert_eq!(denies[0], wanted.replacen("permit", "deny", 1), "{entry}");
        if !is_alone {
            let ttl = if entry.contains("ttl gt") { " ttl 6-255" } else { "" };
            let later = plain(&format!(
                "{} fragment later{ttl}",
                expected.split(' ').next().unwrap_or_default().replace("proto", "proto 132")
            ));
            assert_eq!(permits[1], later, "{entry}");
        }
    }
}

/// Names of ports and messages are those of routers.
#[test]
fn names_are_those_of_routers() {
    for (name, port) in [
        ("cmd", 514),
        ("syslog", 514),
        ("lpd", 515),
        ("pim-auto-rp", 496),
        ("non500-isakmp", 4500),
        ("msrpc", 135),
        ("drip", 3949),
        ("onep-tls", 15002),
        ("who", 513),
        ("biff", 512),
        ("mobile-ip", 434),
        ("tacacs", 49),
    ] {
        let rules = of_entries(&format!(" deny udp any any eq {name}\n"));
        assert_eq!(bare(&rules, "ipv4"), bare(&[format!("deny udp dport {port}")], "ipv4"), "{name}");
    }
    for (name, of_type, code) in [
        ("echo-reply", 0, None),
        ("packet-too-big", 3, Some(4)),
        ("host-unknown", 3, Some(7)),
        ("redirect", 5, None),
        ("reassembly-timeout", 11, Some(1)),
        ("traceroute", 30, None),
        ("parameter-problem", 12, None),
        ("source-quench", 4, None),
        ("precedence-unreachable", 3, Some(15)),
        ("host-isolated", 3, Some(8)),
    ] {
        let code = code.map_or(String::new(), |code: u8| format!(" icmp_code {code}"));
        let rules = of_entries(&format!(" deny icmp any any {name}\n"));
        assert_eq!(bare(&rules, "ipv4"), bare(&[format!("deny icmp icmp_type {of_type}{code}")], "ipv4"), "{name}");
    }
}

#[test]
fn standard_lists_test_the_source_alone() {
    for text in [
        "access-list 10 remark people\naccess-list 10 permit 10.1.0.0 0.0.255.255\naccess-list 10 deny 10.0.0.9 log\n\
         access-list 10 permit host 10.0.0.1\naccess-list 10 deny any\n",
        "ip access-list standard 10\n permit 10.1.0.0 0.0.255.255\n deny   10.0.0.9 log\n permit host 10.0.0.1\n deny any\n",
        "ip access-list standard people\n 20 deny 10.0.0.9 log\n 10 permit 10.1.0.0/16\n 40 deny any\n 30 permit 10.0.0.1\n",
    ] {
        let rules = native(&read(text, None));
        assert_eq!(rules, ["permit src 10.1.0.0/16", "deny src 10.0.0.9", "permit src 10.0.0.1", "deny"], "{text}");
    }
}

/// Numbers order entries, and one without a number stands behind all before it.
#[test]
fn numbers_order_the_list() {
    let rules = of_entries(" 30 permit 7 any any\n permit 8 any any\n 10 permit 9 any any\n 35 permit 10 any any\n");
    assert_eq!(rules, ["permit proto 9", "permit proto 7", "permit proto 10", "permit proto 8"]);
    let file = read("ip access-list extended A\n 20 permit 7 any any\n 10 permit 8 any any\n", None);
    let lines: Vec<u32> = file.rules.iter().filter_map(|rule| rule.line.map(u32::from)).collect();
    assert_eq!(lines, [3, 2]);
    // A list that is entered twice goes on, and numbered lines belong to the list of that name.
    let twice = "access-list 101 permit 7 any any\nip access-list extended 101\n 5 deny 7 any any\n!\naccess-list 101 deny 8 any any\n";
    assert_eq!(native(&read(twice, None)), ["deny proto 7", "permit proto 7", "deny proto 8"]);
}

#[test]
fn remarks_are_labels() {
    let text = "ip access-list extended A\n remark ----------\n remark web   servers\n remark of all\n permit 7 any any\n \
                permit 8 any any\n remark mail\n permit 9 any any\n";
    let file = read(text, None);
    let labels: Vec<&str> = file.rules.iter().map(|rule| &*file.labels[&rule.id]).collect();
    assert_eq!(labels, ["web servers of all", "web servers of all", "mail"]);
    // A remark without a number goes with the entry behind it.
    let text = "ip access-list extended A\n remark twenty\n 20 permit 7 any any\n 10 permit 8 any any\n";
    let file = read(text, None);
    let labels: Vec<Option<&str>> =
        file.rules.iter().map(|rule| file.labels.get(&rule.id).map(|label| &**label)).collect();
    assert_eq!(labels, [None, Some("twenty")]);
    // A remark with the number of an entry stands before it.
    let file = read(
        "ip access-list extended A\n 20 permit 7 any any\n 10 remark ten\n 10 permit 8 any any\n 20 remark x\n",
        None,
    );
    let labels: Vec<Option<&str>> =
        file.rules.iter().map(|rule| file.labels.get(&rule.id).map(|label| &**label)).collect();
    assert_eq!(
        (native(&file), labels),
        (vec!["permit proto 8".to_owned(), "permit proto 7".to_owned()], vec![Some("ten"); 2])
    );
}

/// Lists of IPv6 have their own names, and permit neighbour discovery behind their entries.
#[test]
fn ipv6_has_neighbour_discovery_behind_its_entries() {
    let text = "ipv6 access-list A\n sequence 20 permit tcp 2001:db8::/32 any eq 22\n permit icmp any host 2001:db8::1 packet-too-big sequence 10\n \
                deny ipv6 any 2001:db8:1::/48 routing\n permit udp any any routing-type 2\n";
    let file = read(text, None);
    let discovery = "permit icmpv6 icmp_type 135-136";
    assert_eq!(
        bare(&native(&file), "ipv6"),
        bare(
            &[
                "permit icmpv6 dst 2001:db8::1 icmp_type 2",
                "permit icmpv6 dst 2001:db8::1 fragment later",
                "permit tcp src 2001:db8::/32 dport 22",
                "permit tcp src 2001:db8::/32 fragment later",
                "deny dst 2001:db8:1::/48 ext_headers routing",
                "permit udp routing_type 2",
                discovery,
            ]
            .map(str::to_owned),
            "ipv6"
        )
    );
    assert_eq!(file.warnings.len(), 1, "{:?}", file.warnings);
    assert!(file.warnings[0].message.contains("permits `nd-ns` and `nd-na` of neighbour discovery"));
    assert_eq!(
        (file.warnings[0].line, file.rules.iter().last().and_then(|rule| rule.line).map(u32::from)),
        (1, Some(1))
    );
    // No rule is added where entries decide these packets already.
    for last in ["deny ipv6 any any", "permit icmp any any nd-na\n permit icmp any any nd-ns", "deny icmp any any"] {
        let file = read(&format!("ipv6 access-list A\n permit tcp any any\n {last}\n"), None);
        assert!(file.warnings.is_empty() && !bare(&native(&file), "ipv6").contains(&discovery.to_owned()), "{last}");
    }
    let options = Options { format: Some(Format::Nxos), ..Options::default() };
    let file = parse("ipv6 access-list A\n 10 permit tcp any any\n", &options).expect("a list");
    assert_eq!(native(&file)[1], "permit icmpv6 icmp_type 133-136");
}

/// Lists of ASA have masks of networks, and no rule for later fragments.
#[test]
fn lists_of_asa_have_masks_of_networks() {
    let text = "access-list out extended permit tcp 10.0.0.0 255.0.0.0 host 192.0.2.7 eq https log 4 interval 60\n\
                access-list out extended deny ip any4 10.1.0.0 255.255.0.0 log disable\n\
                access-list out extended permit ip any6 any\n\
                access-list out extended permit icmp any any echo inactive\n\
                access-list out remark the rest\naccess-list out extended permit udp any eq ntp any range 1 5\n";
    let file = read(text, None);
    assert_eq!(
        native(&file),
        ["permit tcp src 10.0.0.0/8 dst 192.0.2.7 dport 443", "deny dst 10.1.0.0/16", "permit udp sport 123 dport 1-5"]
    );
    assert_eq!(file.notes[1], "of 5 entries of the access list out, 1 are for the other family, 1 are inactive");
    let v6 = "access-list out extended permit tcp 2001:db8::/32 any6 eq ssh\n";
    assert_eq!(native(&read(v6, None)), ["permit tcp src 2001:db8::/32 dport 22"]);
}
