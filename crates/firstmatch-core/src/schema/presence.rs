//! Presence of header fields: the protocols and ether types of the packets that have them.
//!
//! For example, only a packet of protocol 6 has TCP flags. The parser of packets (`firstmatch-net`) is tested against
//! this table.

use super::source::{Family, Source};

/// Protocols of packets with ports.
const PORTS: &[u8] = &[6, 17, 33, 132, 136];
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Ether types of IP as OpenFlow reads it: no deeper than the ether type says.
const IP: &[u16] = &[0x0800, 0x86dd];
/// Ether types that IP may stand behind: its own, MPLS, PPP over Ethernet, VN-Tag, E-Tag and backbone bridges.
const DEEP_IP: &[u16] = &[0x0800, 0x86dd, 0x8847, 0x8848, 0x8864, 0x8926, 0x893f, 0x88e7];

/// Next headers of IPv6 that are extension headers.
///
/// [`Source::Proto`] comes behind them and is never one itself.
pub const IPV6_EXTENSIONS: [u8; 10] = [0, 43, 44, 51, 60, 135, 139, 140, 253, 254];

impl Source {
    /// Returns the protocols of the packets of a family that have this field.
    ///
    /// `None` if the field does not depend on the protocol. Without a family, the protocols of both.
    pub const fn protocols(self, family: Option<Family>) -> Option<&'static [u8]> {
        match (self, family) {
            (Self::SrcPort | Self::DstPort | Self::TpSrc | Self::TpDst, _) => Some(PORTS),
            (Self::TcpFlags, _) => Some(&[6]),
            (Self::IcmpType | Self::IcmpCode, Some(Family::Ipv4)) => Some(&[ICMP]),
            (Self::IcmpType | Self::IcmpCode, Some(Family::Ipv6)) => Some(&[ICMPV6]),
            (Self::IcmpType | Self::IcmpCode, None) => Some(&[ICMP, ICMPV6]),
            _ => None,
        }
    }

    /// Returns the ether types of the frames that have this field.
    ///
    /// `None` if the field does not depend on the ether type.
    pub const fn ether_types(self) -> Option<&'static [u16]> {
        match self {
            Self::Src
            | Self::Dst
            | Self::Proto
            | Self::SrcPort
            | Self::DstPort
            | Self::IcmpType
            | Self::IcmpCode
            | Self::TcpFlags
            | Self::ExtHeaders
            | Self::RoutingType
            | Self::Fragment
            | Self::Dscp
            | Self::Ttl
            | Self::Length => Some(DEEP_IP),
            Self::MplsLabel | Self::MplsTc => Some(&[0x8847, 0x8848]),
            Self::Ipv4Src | Self::Ipv4Dst => Some(&[0x0800, 0x0806]),
            Self::IpProto => Some(&[0x0800, 0x0806, 0x86dd]),
            Self::IpDscp | Self::TpSrc | Self::TpDst => Some(IP),
            Self::VlanVid
            | Self::VlanPcp
            | Self::InPort
            | Self::Metadata
            | Self::EthSrc
            | Self::EthDst
            | Self::EthType => None,
        }
    }

    /// Returns the only family whose packets have this field; `None` if packets of both families may have it.
    pub const fn family(self) -> Option<Family> {
        match self {
            Self::ExtHeaders | Self::RoutingType => Some(Family::Ipv6),
            _ => None,
        }
    }

    /// Whether the field is the protocol, whichever way it is read.
    pub const fn is_protocol(self) -> bool {
        matches!(self, Self::Proto | Self::IpProto)
    }
}

/// Returns the family that a protocol belongs to, if it belongs to one.
pub const fn family_of_protocol(protocol: u8) -> Option<Family> {
    match protocol {
        ICMP => Some(Family::Ipv4),
        ICMPV6 => Some(Family::Ipv6),
        _ => None,
    }
}
