//! Names of the native format: protocols, ether types, ICMP types.

use firstmatch_core::schema::Family;

pub(super) const PROTOCOLS: [(&str, u8); 17] = [
    ("tcp", 6),
    ("udp", 17),
    ("icmp", 1),
    ("icmpv6", 58),
    ("igmp", 2),
    ("ipip", 4),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
];

pub(super) fn protocol(name: &str) -> Option<u8> {
    PROTOCOLS.iter().find(|p| p.0 == name).map(|p| p.1)
}

/// Whether a word names a family of packets rather than one protocol.
pub(super) fn is_family(word: &str) -> bool {
    matches!(word, "ipv4" | "ipv6")
}

/// Names of ether types, known only in files with their own schema.
pub(super) const ETHER_TYPES: [(&str, u16); 8] = [
    ("ipv4", 0x0800),
    ("arp", 0x0806),
    ("vlan", 0x8100),
    ("ipv6", 0x86dd),
    ("mpls", 0x8847),
    ("mpls-multicast", 0x8848),
    ("pppoe", 0x8864),
    ("lldp", 0x88cc),
];

pub(super) fn ether_type(name: &str) -> Option<u16> {
    ETHER_TYPES.iter().find(|t| t.0 == name).map(|t| t.1)
}

/// Names of ICMP types, each with its number in ICMP and in ICMPv6.
pub(super) const ICMP_TYPES: [IcmpType; 13] = [
    ("echo-request", Some(8), Some(128)),
    ("echo-reply", Some(0), Some(129)),
    ("unreachable", Some(3), Some(1)),
    ("packet-too-big", None, Some(2)),
    ("time-exceeded", Some(11), Some(3)),
    ("parameter-problem", Some(12), Some(4)),
    ("redirect", Some(5), Some(137)),
    ("router-solicitation", Some(10), Some(133)),
    ("router-advertisement", Some(9), Some(134)),
    ("neighbor-solicitation", None, Some(135)),
    ("neighbor-advertisement", None, Some(136)),
    ("timestamp-request", Some(13), None),
    ("timestamp-reply", Some(14), None),
];

pub(super) type IcmpType = (&'static str, Option<u8>, Option<u8>);

pub(super) fn icmp_type(name: &str) -> Option<[(Family, Option<u8>); 2]> {
    ICMP_TYPES.iter().find(|t| t.0 == name).map(|t| [(Family::Ipv4, t.1), (Family::Ipv6, t.2)])
}

/// Words of other rule languages, each with the native word.
const FOREIGN: [(&str, &str); 36] = [
    ("accept", "permit"),
    ("allow", "permit"),
    ("pass", "permit"),
    ("drop", "deny"),
    ("block", "deny"),
    ("reject", "deny"),
    ("discard", "deny"),
    ("from", "src"),
    ("saddr", "src"),
    ("source", "src"),
    ("sip", "src"),
    ("to", "dst"),
    ("daddr", "dst"),
    ("destination", "dst"),
    ("dip", "dst"),
    ("port", "dport"),
    ("protocol", "proto"),
    ("srcport", "sport"),
    ("dstport", "dport"),
    ("flags", "tcp_flags"),
    ("vlan", "vlan_vid"),
    ("exthdr", "ext_headers"),
    ("rt", "routing_type"),
    ("rt_type", "routing_type"),
    ("hbh", "hop-by-hop"),
    ("dstopts", "destination"),
    ("ping", "echo-request"),
    ("icmp6", "icmpv6"),
    ("ipv6-icmp", "icmpv6"),
    ("define", "set"),
    ("inet4", "ipv4"),
    ("ip4", "ipv4"),
    ("v4", "ipv4"),
    ("inet6", "ipv6"),
    ("ip6", "ipv6"),
    ("v6", "ipv6"),
];

/// Returns the candidate that was probably meant by an unknown word.
pub(super) fn suggest<'c>(word: &str, candidates: impl Iterator<Item = &'c str> + Clone) -> Option<&'c str> {
    let meant = FOREIGN.iter().find(|f| f.0.eq_ignore_ascii_case(word)).map(|f| f.1);
    let known = meant.and_then(|meant| candidates.clone().find(|&c| c == meant));
    known.or_else(|| crate::suggest::nearest(word, candidates))
}

/// Returns the name of a protocol in rule files, if it has one.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS.iter().find(|p| p.1 == number).map(|p| p.0)
}

/// Returns the number of a protocol by its name in rule files.
pub fn protocol_number(name: &str) -> Option<u8> {
    protocol(name)
}

/// Returns the name of an ICMP type (of an ICMPv6 type for IPv6) in rule files, if any.
pub fn icmp_type_name(family: Family, number: u8) -> Option<&'static str> {
    let of = |t: &&IcmpType| if family == Family::Ipv4 { t.1 } else { t.2 };
    ICMP_TYPES.iter().find(|t| of(t) == Some(number)).map(|t| t.0)
}

/// Returns the number of an ICMP type (of an ICMPv6 type for IPv6) by its name in rule files.
pub fn icmp_type_number(family: Family, name: &str) -> Option<u8> {
    icmp_type(name)?.into_iter().find(|(of, _)| *of == family)?.1
}

/// Returns the name of each ICMP type with its numbers in ICMP and in ICMPv6.
pub(crate) fn icmp_type_numbers() -> impl Iterator<Item = (&'static str, [Option<u8>; 2])> {
    ICMP_TYPES.iter().map(|&(name, four, six)| (name, [four, six]))
}

/// Returns the name of an ether type in files with their own schema, if it has one.
pub(crate) fn ether_type_name(number: u16) -> Option<&'static str> {
    ETHER_TYPES.iter().find(|t| t.1 == number).map(|t| t.0)
}
