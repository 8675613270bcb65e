//! Names of iptables: protocols, ICMP types, classes of DSCP.
//!
//! They are those that iptables knows itself, or has from the usual `/etc/protocols`. The files of the machine that
//! reads the rules are not asked.

use firstmatch_core::schema::Family;

use crate::native::service_port;

/// Protocols by name. `ipip` is not protocol 4, as in other formats, but 94.
const PROTOCOLS: [(&str, u8); 31] = [
    ("tcp", 6),
    ("udp", 17),
    ("icmp", 1),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("igmp", 2),
    ("ipencap", 4),
    ("ipv4", 4),
    ("egp", 8),
    ("igp", 9),
    ("dccp", 33),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ipv6-crypt", 50),
    ("ah", 51),
    ("ipv6-auth", 51),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("eigrp", 88),
    ("ospf", 89),
    ("ipip", 94),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
];

/// Further protocols of IPv6 that are extension headers here.
const MOBILITY: [(&str, u8); 4] = [("mh", 135), ("ipv6-mh", 135), ("mobility-header", 135), ("hip", 139)];

/// Returns the number of a protocol; `all` is 0.
pub(super) fn protocol(name: &str) -> Option<u8> {
    let lower = name.to_ascii_lowercase();
    let known = PROTOCOLS.iter().chain(&MOBILITY).find(|(known, _)| *known == lower);
    known.map(|&(_, number)| number).or_else(|| (lower == "all").then_some(0))
}

/// Returns a port by number, or by the name of a service.
pub(super) fn port(word: &str) -> Option<u16> {
    super::number(word, 0xFFFF).map(|port| port as u16).or_else(|| service_port(word))
}

/// ICMP type with its code, if the name has one.
type Icmp = (&'static str, u8, Option<u8>);

const ICMP: [Icmp; 37] = [
    ("echo-reply", 0, None),
    ("pong", 0, None),
    ("destination-unreachable", 3, None),
    ("network-unreachable", 3, Some(0)),
    ("host-unreachable", 3, Some(1)),
    ("protocol-unreachable", 3, Some(2)),
    ("port-unreachable", 3, Some(3)),
    ("fragmentation-needed", 3, Some(4)),
    ("source-route-failed", 3, Some(5)),
    ("network-unknown", 3, Some(6)),
    ("host-unknown", 3, Some(7)),
    ("network-prohibited", 3, Some(9)),
    ("host-prohibited", 3, Some(10)),
    ("TOS-network-unreachable", 3, Some(11)),
    ("TOS-host-unreachable", 3, Some(12)),
    ("communication-prohibited", 3, Some(13)),
    ("host-precedence-violation", 3, Some(14)),
    ("precedence-cutoff", 3, Some(15)),
    ("source-quench", 4, None),
    ("redirect", 5, None),
    ("network-redirect", 5, Some(0)),
    ("host-redirect", 5, Some(1)),
    ("TOS-network-redirect", 5, Some(2)),
    ("TOS-host-redirect", 5, Some(3)),
    ("echo-request", 8, None),
    ("ping", 8, None),
    ("router-advertisement", 9, None),
    ("router-solicitation", 10, None),
    ("time-exceeded", 11, None),
    ("ttl-exceeded", 11, None),
    ("ttl-zero-during-transit", 11, Some(0)),
    ("ttl-zero-during-reassembly", 11, Some(1)),
    ("parameter-problem", 12, None),
    ("ip-header-bad", 12, Some(0)),
    ("required-option-missing", 12, Some(1)),
    ("timestamp-request", 13, None),
    ("timestamp-reply", 14, None),
];

const ICMPV6: [Icmp; 29] = [
    ("destination-unreachable", 1, None),
    ("no-route", 1, Some(0)),
    ("communication-prohibited", 1, Some(1)),
    ("beyond-scope", 1, Some(2)),
    ("address-unreachable", 1, Some(3)),
    ("port-unreachable", 1, Some(4)),
    ("failed-policy", 1, Some(5)),
    ("reject-route", 1, Some(6)),
    ("packet-too-big", 2, None),
    ("time-exceeded", 3, None),
    ("ttl-exceeded", 3, None),
    ("ttl-zero-during-transit", 3, Some(0)),
    ("ttl-zero-during-reassembly", 3, Some(1)),
    ("parameter-problem", 4, None),
    ("bad-header", 4, Some(0)),
    ("unknown-header-type", 4, Some(1)),
    ("unknown-option", 4, Some(2)),
    ("echo-request", 128, None),
    ("ping", 128, None),
    ("echo-reply", 129, None),
    ("pong", 129, None),
    ("router-solicitation", 133, None),
    ("router-advertisement", 134, None),
    ("neighbour-solicitation", 135, None),
    ("neighbor-solicitation", 135, None),
    ("neighbour-advertisement", 136, None),
    ("neighbor-advertisement", 136, None),
    ("redirect", 137, None),
    ("mld-listener-query", 130, None),
];

/// Returns the type and the code of an ICMP message by name.
pub(super) fn icmp(name: &str, family: Family) -> Option<(u8, Option<u8>)> {
    let names = if family == Family::Ipv4 { &ICMP[..] } else { &ICMPV6[..] };
    names.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).map(|&(_, of_type, code)| (of_type, code))
}

/// Returns the number of a class of DSCP, such as `AF41`.
pub(super) fn dscp_class(name: &str) -> Option<u8> {
    let lower = name.to_ascii_lowercase();
    let digit = |text: &str, last: u8| text.parse::<u8>().ok().filter(|n| text.len() == 1 && *n <= last);
    match lower.as_str() {
        "be" => Some(0),
        "ef" => Some(46),
        _ if let Some(class) = lower.strip_prefix("cs") => digit(class, 7).map(|class| 8 * class),
        _ => {
            let (class, drop) = lower.strip_prefix("af")?.split_at_checked(1)?;
            let (class, drop) = (digit(class, 4)?, digit(drop, 3)?);
            (class > 0 && drop > 0).then_some(8 * class + 2 * drop)
        }
    }
}
