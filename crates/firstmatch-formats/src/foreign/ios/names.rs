//! Names in access lists: protocols, ports, ICMP messages, classes of DSCP.
//!
//! They are those of the routers, which differ from the names of native rules; for example, `syslog` is port 514 and
//! `echo` the ICMP message that others call echo-request.

use firstmatch_core::schema::Family;

const PROTOCOLS: [(&str, u8); 22] = [
    ("ah", 51),
    ("ahp", 51),
    ("eigrp", 88),
    ("esp", 50),
    ("gre", 47),
    ("icmp", 1),
    ("icmp6", 58),
    ("icmpv6", 58),
    ("igmp", 2),
    ("igrp", 9),
    ("ipinip", 4),
    ("ipsec", 50),
    ("nos", 94),
    ("ospf", 89),
    ("pcp", 108),
    ("pim", 103),
    ("pptp", 47),
    ("sctp", 132),
    ("snp", 109),
    ("tcp", 6),
    ("udp", 17),
    ("vrrp", 112),
];

/// Returns the number of a protocol, by name or number; `icmp` is that of the family.
pub(super) fn protocol(word: &str, family: Family) -> Option<u8> {
    match word {
        "icmp" if family == Family::Ipv6 => Some(58),
        _ => number(word, 255).map(|number| number as u8).or_else(|| of(&PROTOCOLS, word)),
    }
}

/// Ports by name; a name has the same port in TCP and in UDP.
const PORTS: [(&str, u16); 79] = [
    ("aol", 5190),
    ("bgp", 179),
    ("biff", 512),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("cifs", 3020),
    ("citrix-ica", 1494),
    ("cmd", 514),
    ("ctiqbe", 2748),
    ("daytime", 13),
    ("discard", 9),
    ("dnsix", 195),
    ("domain", 53),
    ("drip", 3949),
    ("echo", 7),
    ("exec", 512),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("gopher", 70),
    ("h323", 1720),
    ("hostname", 101),
    ("http", 80),
    ("https", 443),
    ("ident", 113),
    ("imap4", 143),
    ("irc", 194),
    ("isakmp", 500),
    ("klogin", 543),
    ("kshell", 544),
    ("ldap", 389),
    ("ldaps", 636),
    ("ldp", 646),
    ("login", 513),
    ("lotusnotes", 1352),
    ("lpd", 515),
    ("mobile-ip", 434),
    ("msrpc", 135),
    ("nameserver", 42),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ss", 139),
    ("netbios-ssn", 139),
    ("nfs", 2049),
    ("nntp", 119),
    ("non500-isakmp", 4500),
    ("ntp", 123),
    ("onep-plain", 15001),
    ("onep-tls", 15002),
    ("pcanywhere-data", 5631),
    ("pcanywhere-status", 5632),
    ("pim-auto-rp", 496),
    ("pop2", 109),
    ("pop3", 110),
    ("pptp", 1723),
    ("rip", 520),
    ("ripv6", 521),
    ("rsh", 514),
    ("rtsp", 554),
    ("secureid-udp", 5510),
    ("sip", 5060),
    ("smtp", 25),
    ("snmp", 161),
    ("snmptrap", 162),
    ("ssh", 22),
    ("sunrpc", 111),
    ("syslog", 514),
    ("tacacs", 49),
    ("talk", 517),
    ("telnet", 23),
    ("tftp", 69),
    ("time", 37),
    ("uucp", 540),
    ("vxlan", 4789),
    ("who", 513),
    ("whois", 43),
    ("www", 80),
    ("xdmcp", 177),
];

/// Returns a port, by name or number.
pub(super) fn port(word: &str) -> Option<u16> {
    number(word, 0xFFFF).map(|port| port as u16).or_else(|| of(&PORTS, word))
}

/// ICMP type with its code, if the name has one.
type Icmp = (u8, Option<u8>);

const ICMP: [(&str, Icmp); 44] = [
    ("administratively-prohibited", (3, Some(13))),
    ("alternate-address", (6, None)),
    ("conversion-error", (31, None)),
    ("dod-host-prohibited", (3, Some(10))),
    ("dod-net-prohibited", (3, Some(9))),
    ("echo", (8, None)),
    ("echo-reply", (0, None)),
    ("general-parameter-problem", (12, Some(0))),
    ("host-isolated", (3, Some(8))),
    ("host-precedence-unreachable", (3, Some(14))),
    ("host-redirect", (5, Some(1))),
    ("host-tos-redirect", (5, Some(3))),
    ("host-tos-unreachable", (3, Some(12))),
    ("host-unknown", (3, Some(7))),
    ("host-unreachable", (3, Some(1))),
    ("information-reply", (16, None)),
    ("information-request", (15, None)),
    ("mask-reply", (18, None)),
    ("mask-request", (17, None)),
    ("mobile-redirect", (32, None)),
    ("net-redirect", (5, Some(0))),
    ("net-tos-redirect", (5, Some(2))),
    ("net-tos-unreachable", (3, Some(11))),
    ("net-unreachable", (3, Some(0))),
    ("network-unknown", (3, Some(6))),
    ("no-room-for-option", (12, Some(2))),
    ("option-missing", (12, Some(1))),
    ("packet-too-big", (3, Some(4))),
    ("parameter-problem", (12, None)),
    ("port-unreachable", (3, Some(3))),
    ("precedence-unreachable", (3, Some(15))),
    ("protocol-unreachable", (3, Some(2))),
    ("reassembly-timeout", (11, Some(1))),
    ("redirect", (5, None)),
    ("router-advertisement", (9, None)),
    ("router-solicitation", (10, None)),
    ("source-quench", (4, None)),
    ("source-route-failed", (3, Some(5))),
    ("time-exceeded", (11, None)),
    ("timestamp-reply", (14, None)),
    ("timestamp-request", (13, None)),
    ("traceroute", (30, None)),
    ("ttl-exceeded", (11, Some(0))),
    ("unreachable", (3, None)),
];

const ICMPV6: [(&str, Icmp); 28] = [
    ("beyond-scope", (1, Some(2))),
    ("echo", (128, None)),
    ("echo-reply", (129, None)),
    ("echo-request", (128, None)),
    ("header", (4, Some(0))),
    ("hop-limit", (3, Some(0))),
    ("membership-query", (130, None)),
    ("membership-reduction", (132, None)),
    ("membership-report", (131, None)),
    ("mld-query", (130, None)),
    ("mld-reduction", (132, None)),
    ("mld-report", (131, None)),
    ("nd-na", (136, None)),
    ("nd-ns", (135, None)),
    ("neighbor-advertisement", (136, None)),
    ("neighbor-solicitation", (135, None)),
    ("next-header", (4, Some(1))),
    ("no-admin", (1, Some(1))),
    ("no-route", (1, Some(0))),
    ("packet-too-big", (2, None)),
    ("parameter-option", (4, Some(2))),
    ("parameter-problem", (4, None)),
    ("port-unreachable", (1, Some(4))),
    ("reassembly-timeout", (3, Some(1))),
    ("router-advertisement", (134, None)),
    ("router-renumbering", (138, None)),
    ("router-solicitation", (133, None)),
    ("time-exceeded", (3, None)),
];

/// Returns the type and the code of an ICMP message by name.
pub(super) fn icmp(name: &str, family: Family) -> Option<Icmp> {
    match (name, family) {
        (_, Family::Ipv4) => of(&ICMP, name),
        ("unreachable", Family::Ipv6) => Some((1, None)),
        (_, Family::Ipv6) => of(&ICMPV6, name),
    }
}

const PRECEDENCES: [&str; 8] =
    ["routine", "priority", "immediate", "flash", "flash-override", "critical", "internet", "network"];

/// Returns a precedence, by name or number.
pub(super) fn precedence(word: &str) -> Option<u8> {
    let named = || PRECEDENCES.iter().position(|name| *name == word).map(|number| number as u8);
    number(word, 7).map(|number| number as u8).or_else(named)
}

/// Returns a DSCP, by number or by the name of its class, such as `af41`.
pub(super) fn dscp(word: &str) -> Option<u8> {
    let digit = |text: &str, first: u8, last: u8| {
        text.parse::<u8>().ok().filter(|n| text.len() == 1 && (first..=last).contains(n))
    };
    match word {
        "default" => Some(0),
        "ef" => Some(46),
        _ if let Some(number) = number(word, 63) => Some(number as u8),
        _ if let Some(class) = word.strip_prefix("cs") => digit(class, 1, 7).map(|class| 8 * class),
        _ => {
            let (class, drop) = word.strip_prefix("af")?.split_at_checked(1)?;
            Some(8 * digit(class, 1, 4)? + 2 * digit(drop, 1, 3)?)
        }
    }
}

/// Bits of the TCP flags by name.
pub(super) fn tcp_flag(name: &str) -> Option<u8> {
    of(&[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 0x10), ("urg", 0x20)], name)
}

/// Reads a decimal number up to `max`.
pub(super) fn number(word: &str, max: u64) -> Option<u64> {
    let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    if is_number { word.parse().ok().filter(|&number| number <= max) } else { None }
}

fn of<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}
