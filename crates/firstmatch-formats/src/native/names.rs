//! Names of the native format: protocols and ether types.

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

/// Names of the values of the field for fragments.
pub(super) const FRAGMENTS: [(&str, u8); 3] = [("none", 0), ("first", 1), ("later", 2)];

pub(super) fn fragment(name: &str) -> Option<u8> {
    FRAGMENTS.iter().find(|f| f.0 == name).map(|f| f.1)
}

/// Returns the name of a value of the field for fragments, if it has one.
pub fn fragment_name(number: u8) -> Option<&'static str> {
    FRAGMENTS.iter().find(|f| f.1 == number).map(|f| f.0)
}

/// Words of other rule languages, each with the native word.
const FOREIGN: [(&str, &str); 44] = [
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
    ("frag", "fragment"),
    ("fragments", "fragment"),
    ("tos", "dscp"),
    ("hoplimit", "ttl"),
    ("hop_limit", "ttl"),
    ("len", "length"),
    ("exthdr", "ext_headers"),
    ("rt", "routing_type"),
    ("rt_type", "routing_type"),
    ("hbh", "hop-by-hop"),
    ("dstopts", "destination"),
    ("type", "icmp_type"),
    ("code", "icmp_code"),
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

/// Returns the name of an ether type in files with their own schema, if it has one.
pub(crate) fn ether_type_name(number: u16) -> Option<&'static str> {
    ETHER_TYPES.iter().find(|t| t.1 == number).map(|t| t.0)
}
