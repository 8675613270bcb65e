//! Match modules that can be held, with their options.

use firstmatch_core::schema::Family;

/// Match module of a rule, as `-m` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Module {
    /// Ports, and flags of TCP, of this protocol.
    Transport(u8),
    Icmp,
    Multiport,
    State,
    Conntrack,
    Comment,
    IpRange,
    Ttl,
    HopLimit,
    Dscp,
    Length,
    Mark,
    AddrType,
    Limit,
    Routing,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Protocols with ports.
pub(super) const WITH_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];

impl Module {
    /// Returns the module of a name; `None` if it is unknown, or cannot be held.
    pub(super) fn of_name(name: &str, family: Family) -> Option<Self> {
        Some(match (name, family) {
            ("tcp", _) => Self::Transport(TCP),
            ("udp", _) => Self::Transport(UDP),
            ("dccp", _) => Self::Transport(33),
            ("sctp", _) => Self::Transport(132),
            ("icmp", Family::Ipv4) | ("icmp6" | "icmpv6", Family::Ipv6) => Self::Icmp,
            ("multiport", _) => Self::Multiport,
            ("state", _) => Self::State,
            ("conntrack", _) => Self::Conntrack,
            ("comment", _) => Self::Comment,
            ("iprange", _) => Self::IpRange,
            ("ttl", Family::Ipv4) => Self::Ttl,
            ("hl", Family::Ipv6) => Self::HopLimit,
            ("dscp", _) => Self::Dscp,
            ("length", _) => Self::Length,
            ("mark" | "connmark", _) => Self::Mark,
            ("addrtype", _) => Self::AddrType,
            ("limit", _) => Self::Limit,
            ("rt", Family::Ipv6) => Self::Routing,
            _ => return None,
        })
    }

    /// Returns the module that `-p` alone brings with it.
    pub(super) fn of_protocol(number: u8, family: Family) -> Option<Self> {
        match (number, family) {
            (TCP | UDP | 33 | 132, _) => Some(Self::Transport(number)),
            (1, Family::Ipv4) | (58, Family::Ipv6) => Some(Self::Icmp),
            _ => None,
        }
    }

    /// Returns the usual name of an option of the module; `None` if the module has no such option.
    pub(super) fn option(self, word: &str) -> Option<&'static str> {
        Some(match (self, word) {
            (Self::Transport(_), "--sport" | "--source-port") => "--sport",
            (Self::Transport(_), "--dport" | "--destination-port") => "--dport",
            (Self::Transport(TCP), "--tcp-flags") => "--tcp-flags",
            (Self::Transport(TCP), "--syn") => "--syn",
            (Self::Icmp, "--icmp-type" | "--icmpv6-type") => "--icmp-type",
            (Self::Multiport, "--sports" | "--source-ports") => "--sports",
            (Self::Multiport, "--dports" | "--destination-ports") => "--dports",
            (Self::Multiport, "--ports") => "--ports",
            (Self::State, "--state") | (Self::Conntrack, "--ctstate") => "--ctstate",
            (Self::Comment, "--comment") => "--comment",
            (Self::IpRange, "--src-range") => "--src-range",
            (Self::IpRange, "--dst-range") => "--dst-range",
            (Self::Ttl, "--ttl-eq") | (Self::HopLimit, "--hl-eq") => "--ttl-eq",
            (Self::Ttl, "--ttl-lt") | (Self::HopLimit, "--hl-lt") => "--ttl-lt",
            (Self::Ttl, "--ttl-gt") | (Self::HopLimit, "--hl-gt") => "--ttl-gt",
            (Self::Dscp, "--dscp") => "--dscp",
            (Self::Dscp, "--dscp-class") => "--dscp-class",
            (Self::Length, "--length") => "--length",
            (Self::Mark, "--mark") => "--mark",
            (Self::AddrType, "--src-type") => "--src-type",
            (Self::AddrType, "--dst-type") => "--dst-type",
            (Self::Limit, "--limit") => "--limit",
            (Self::Limit, "--limit-burst") => "--limit-burst",
            (Self::Routing, "--rt-type") => "--rt-type",
            _ => return None,
        })
    }

    /// Whether `!` may stand before an option.
    pub(super) fn may_negate(option: &str) -> bool {
        !matches!(option, "--comment" | "--limit" | "--limit-burst" | "--ttl-lt" | "--ttl-gt")
    }

    /// Whether the module holds for everything of its protocol if it has no option.
    pub(super) fn may_be_bare(self) -> bool {
        matches!(self, Self::Transport(_) | Self::Icmp | Self::Limit)
    }
}
