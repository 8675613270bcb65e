//! Names of protocols in logs, as IANA and the programs that write logs have them.

use firstmatch_formats::native::protocol_number;

/// Protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Number(u8),
    /// ICMP by name: 1 in IPv4, 58 in IPv6.
    Icmp,
}

/// Names beyond those of rule files, in lower case.
const NAMES: [(&str, u8); 44] = [
    ("hopopt", 0),
    ("ggp", 3),
    ("ipencap", 4),
    ("ipv4", 4),
    ("st", 5),
    ("egp", 8),
    ("igp", 9),
    ("pup", 12),
    ("hmp", 20),
    ("xns-idp", 22),
    ("rdp", 27),
    ("iso-tp4", 29),
    ("xtp", 36),
    ("ddp", 37),
    ("idpr-cmtp", 38),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("idrp", 45),
    ("rsvp", 46),
    ("skip", 57),
    ("icmp6", 58),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("rspf", 73),
    ("vmtp", 81),
    ("eigrp", 88),
    ("ospfigp", 89),
    ("ax.25", 93),
    ("etherip", 97),
    ("encap", 98),
    ("ipcomp", 108),
    ("isis", 124),
    ("fc", 133),
    ("mobility-header", 135),
    ("mpls-in-ip", 137),
    ("manet", 138),
    ("hip", 139),
    ("shim6", 140),
    ("wesp", 141),
    ("rohc", 142),
    ("ethernet", 143),
    ("nsh", 145),
    ("reserved", 255),
];

/// Returns the protocol of a name in any case; `None` if there is no such name.
///
/// The inner `None` stands for names by which logs say that they do not know it, and for `ipip`, which is 4 in some
/// programs and 94 in others.
pub(super) fn by_name(name: &[u8]) -> Option<Option<Protocol>> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    let number = match &*name {
        "icmp" => return Some(Some(Protocol::Icmp)),
        "unknown" | "unknown_transport" | "ipip" => return Some(None),
        name => protocol_number(name).or_else(|| NAMES.iter().find(|(of, _)| *of == name).map(|(_, number)| *number)),
    };
    number.map(|number| Some(Protocol::Number(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_number_in_any_case() {
        assert!(NAMES.iter().all(|(name, _)| protocol_number(name).is_none()), "rule files have these names, too");
        let mut names = NAMES.map(|(name, _)| name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        let number = |name: &str| by_name(name.as_bytes()).flatten();
        assert_eq!([number("TCP"), number("EIGRP")], [6, 88].map(|number| Some(Protocol::Number(number))));
        assert_eq!([number("Ipv6-Icmp"), number("GRE")], [58, 47].map(|number| Some(Protocol::Number(number))));
        assert_eq!((by_name(b"IPIP"), by_name(b"tpc"), by_name(b"\xff")), (Some(None), None, None));
        assert_eq!(number("icmp"), Some(Protocol::Icmp));
    }
}
