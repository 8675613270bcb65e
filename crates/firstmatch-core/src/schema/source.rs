//! Address families, forms of tests, and the header fields that packets are read into.

use std::fmt;

/// Address family.
///
/// A schema belongs to one or to none; a dual-stack rule set has a schema for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IP version 4.
    Ipv4,
    /// IP version 6.
    Ipv6,
}

impl Family {
    /// Returns `"ipv4"` or `"ipv6"`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }

    /// Returns `"IPv4"` or `"IPv6"`, for messages.
    pub const fn pretty(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    /// Width of an address, in bits.
    pub const fn address_bits(self) -> u32 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Form of test that rules usually apply to a field.
///
/// Every field accepts every form of test. The kind tells engines which bits are worth indexing (TupleMerge shortens
/// prefix fields only), and formats how to write a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One value, like an IP protocol.
    Exact,
    /// Prefix, like an address.
    Prefix,
    /// Closed range, like a port.
    Range,
    /// Value under a mask, like TCP flags.
    Mask,
}

/// Header field that fills a [`Field`](super::Field) when packets are parsed.
///
/// Rules for IP networks test the sources up to [`Source::Length`]. They are read through MPLS labels and PPP over
/// Ethernet. A frame that is not IP has none of them but [`Source::VlanVid`].
///
/// OpenFlow switches match on the others. Like OpenFlow 1.0, the parser reads [`Source::Ipv4Src`] to [`Source::TpDst`]
/// in the packet that the ether type behind the VLAN tags names, and no deeper. They are therefore absent behind an
/// MPLS label or a PPP header. ARP fills the addresses and the protocol. A frame of another ether type lacks them and
/// is classified all the same.
///
/// ```
/// use firstmatch_core::Schema;
/// use firstmatch_core::schema::Source;
///
/// let sources: Vec<_> = Schema::ipv4().fields().iter().filter_map(|field| field.source()).collect();
/// assert_eq!(sources, [Source::Src, Source::Dst, Source::SrcPort, Source::DstPort, Source::Proto]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// Source address of the IP header.
    Src,
    /// Destination address of the IP header.
    Dst,
    /// IPv4 protocol, or the first next-header of IPv6 that is no extension header.
    Proto,
    /// Source port of TCP, UDP, UDP-Lite, SCTP or DCCP.
    SrcPort,
    /// Destination port of TCP, UDP, UDP-Lite, SCTP or DCCP.
    DstPort,
    /// Type of ICMP (in IPv4) or ICMPv6 (in IPv6).
    IcmpType,
    /// Code of ICMP (in IPv4) or ICMPv6 (in IPv6).
    IcmpCode,
    /// TCP flags, CWR to FIN (8 bits).
    TcpFlags,
    /// Extension headers that an IPv6 packet carries (8 bits); absent in IPv4.
    ///
    /// It has a bit for each of [`ExtensionHeader::ALL`].
    ExtHeaders,
    /// Type of the routing headers of an IPv6 packet; absent where it has none.
    RoutingType,
    /// VLAN identifier of the outermost tag (12 bits).
    VlanVid,
    /// Whether an IP packet is a fragment (2 bits): 0 for none, 1 for the first, 2 for a later one.
    Fragment,
    /// Differentiated services code point of the IP header (6 bits).
    Dscp,
    /// Time to live of IPv4, hop limit of IPv6.
    Ttl,
    /// Length of an IP packet with its header, in bytes (17 bits, because that of IPv6 may be 65,575).
    ///
    /// Unknown where the header states none.
    Length,
    /// Interface that the packet came in by (32 bits). Every packet has it.
    InPort,
    /// Number that the reader of packets puts beside them (64 bits). Every packet has it.
    Metadata,
    /// Source address of the Ethernet header (48 bits).
    EthSrc,
    /// Destination address of the Ethernet header (48 bits).
    EthDst,
    /// Ether type behind all VLAN tags (16 bits).
    ///
    /// The implied one where a link carries IP without any. Absent in 802.3 frames, which have a length in its place.
    EthType,
    /// Priority code point of the outermost VLAN tag (3 bits).
    VlanPcp,
    /// Outermost MPLS label (20 bits).
    MplsLabel,
    /// Traffic class of the outermost MPLS label (3 bits).
    MplsTc,
    /// Source address of IPv4, or the sender's protocol address of ARP for IPv4.
    Ipv4Src,
    /// Destination address of IPv4, or the target's protocol address of ARP for IPv4.
    Ipv4Dst,
    /// Protocol as [`Source::Proto`], or the low byte of the operation of ARP.
    IpProto,
    /// Differentiated services code point of IPv4 and IPv6 (6 bits).
    IpDscp,
    /// Source port as [`Source::SrcPort`].
    ///
    /// ICMP has none, because its type and code are fields of their own.
    TpSrc,
    /// Destination port as [`Source::DstPort`].
    TpDst,
}

impl Source {
    /// All sources in order.
    pub const ALL: [Self; 29] = [
        Self::Src,
        Self::Dst,
        Self::Proto,
        Self::SrcPort,
        Self::DstPort,
        Self::IcmpType,
        Self::IcmpCode,
        Self::TcpFlags,
        Self::ExtHeaders,
        Self::RoutingType,
        Self::VlanVid,
        Self::Fragment,
        Self::Dscp,
        Self::Ttl,
        Self::Length,
        Self::InPort,
        Self::Metadata,
        Self::EthSrc,
        Self::EthDst,
        Self::EthType,
        Self::VlanPcp,
        Self::MplsLabel,
        Self::MplsTc,
        Self::Ipv4Src,
        Self::Ipv4Dst,
        Self::IpProto,
        Self::IpDscp,
        Self::TpSrc,
        Self::TpDst,
    ];

    /// Returns the usual name of the field it fills, like `tcp_flags`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Src => "src",
            Self::Dst => "dst",
            Self::Proto => "proto",
            Self::SrcPort => "sport",
            Self::DstPort => "dport",
            Self::IcmpType => "icmp_type",
            Self::IcmpCode => "icmp_code",
            Self::TcpFlags => "tcp_flags",
            Self::ExtHeaders => "ext_headers",
            Self::RoutingType => "routing_type",
            Self::VlanVid => "vlan_vid",
            Self::Fragment => "fragment",
            Self::Dscp => "dscp",
            Self::Ttl => "ttl",
            Self::Length => "length",
            Self::InPort => "in_port",
            Self::Metadata => "metadata",
            Self::EthSrc => "eth_src",
            Self::EthDst => "eth_dst",
            Self::EthType => "eth_type",
            Self::VlanPcp => "vlan_pcp",
            Self::MplsLabel => "mpls_label",
            Self::MplsTc => "mpls_tc",
            Self::Ipv4Src => "ipv4_src",
            Self::Ipv4Dst => "ipv4_dst",
            Self::IpProto => "ip_proto",
            Self::IpDscp => "ip_dscp",
            Self::TpSrc => "tp_src",
            Self::TpDst => "tp_dst",
        }
    }

    /// Returns the source of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// Width of the header field, in bits; addresses of IP have the width of `family`.
    pub const fn width(self, family: Family) -> u32 {
        match self {
            Self::Src | Self::Dst => family.address_bits(),
            Self::Metadata => 64,
            Self::EthSrc | Self::EthDst => 48,
            Self::InPort | Self::Ipv4Src | Self::Ipv4Dst => 32,
            Self::MplsLabel => 20,
            Self::SrcPort | Self::DstPort | Self::EthType | Self::TpSrc | Self::TpDst => 16,
            Self::Length => 17,
            Self::VlanVid => 12,
            Self::Proto | Self::IcmpType | Self::IcmpCode | Self::TcpFlags | Self::IpProto => 8,
            Self::ExtHeaders | Self::RoutingType | Self::Ttl => 8,
            Self::IpDscp | Self::Dscp => 6,
            Self::VlanPcp | Self::MplsTc => 3,
            Self::Fragment => 2,
        }
    }

    /// Returns the form of test that rules usually apply to it.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Src | Self::Dst | Self::Ipv4Src | Self::Ipv4Dst => Kind::Prefix,
            Self::SrcPort | Self::DstPort | Self::TpSrc | Self::TpDst | Self::Ttl | Self::Length => Kind::Range,
            Self::TcpFlags | Self::ExtHeaders | Self::Metadata => Kind::Mask,
            _ => Kind::Exact,
        }
    }

    /// Whether some packets lack it.
    pub const fn is_optional(self) -> bool {
        !matches!(self, Self::Src | Self::Dst | Self::Proto | Self::InPort | Self::Metadata)
    }
}

/// Extension header of IPv6 that parsers walk through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtensionHeader {
    /// Name in rules, like `routing`.
    pub name: &'static str,
    /// Number by which the header before it announces it.
    pub next_header: u8,
    /// Bit that stands for it in [`Source::ExtHeaders`].
    pub bit: u8,
}

impl ExtensionHeader {
    /// All extension headers in order of their bits.
    pub const ALL: [Self; 5] = [
        Self { name: "hop-by-hop", next_header: 0, bit: 0x01 },
        Self { name: "routing", next_header: 43, bit: 0x02 },
        Self { name: "fragment", next_header: 44, bit: 0x04 },
        Self { name: "destination", next_header: 60, bit: 0x08 },
        Self { name: "ah", next_header: 51, bit: 0x10 },
    ];

    /// Returns the extension header of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|header| header.name == name)
    }

    /// Returns the extension header that this bit stands for.
    pub fn by_bit(bit: u128) -> Option<Self> {
        Self::ALL.into_iter().find(|header| u128::from(header.bit) == bit)
    }
}
