//! Fields, schemas and the lanes they lower to.
//!
//! A [`Schema`] is an ordered list of [`Field`]s. Engines never see fields: they see *lanes*, unsigned integers of
//! at most 32 bits. A field wider than 32 bits is several lanes, most significant first; a field that may be absent
//! has one more value, `2^width`, in its top lane.

mod presence;

use std::fmt;
use std::sync::Arc;

pub use presence::{IPV6_EXTENSIONS, family_of_protocol};

/// The widest field, in bits.
pub const MAX_FIELD_BITS: u32 = 128;
/// The most fields a schema may have.
pub const MAX_FIELDS: usize = 64;

/// An address family. A schema may belong to one; a dual-stack rule set has a schema for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IP version 4.
    Ipv4,
    /// IP version 6.
    Ipv6,
}

impl Family {
    /// `"ipv4"` or `"ipv6"`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }

    /// `"IPv4"` or `"IPv6"`, for messages.
    pub(crate) const fn pretty(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    /// The width of an address in bits.
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

/// How rules usually test a field. Every field accepts every form of test; the kind tells engines which bits are
/// worth indexing (TupleMerge shortens prefix fields only) and formats how to write a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One value, as an IP protocol.
    Exact,
    /// A prefix, as an address.
    Prefix,
    /// A closed range, as a port.
    Range,
    /// A value under a mask, as TCP flags.
    Mask,
}

/// The header field that fills a [`Field`] when packets are parsed.
///
/// Those up to [`Source::VlanVid`] are what rules for IP networks test. They are read through MPLS labels and PPP over
/// Ethernet, and a frame that is not IP has none of the first ten.
///
/// The others are what OpenFlow switches match on. Of these, [`Source::Ipv4Src`] to [`Source::TpDst`] are read as
/// OpenFlow 1.0 reads them: in the packet that the ether type behind the VLAN tags names and no deeper, so they are
/// absent behind an MPLS label or a PPP header; ARP fills the addresses and the protocol. A frame of another ether type
/// lacks them and is classified all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The source address of the IP header.
    Src,
    /// The destination address of the IP header.
    Dst,
    /// The IPv4 protocol, or the first next-header of IPv6 that is no extension header.
    Proto,
    /// The source port of TCP, UDP, UDP-Lite, SCTP or DCCP.
    SrcPort,
    /// The destination port of the same.
    DstPort,
    /// The type of ICMP (in IPv4) or ICMPv6 (in IPv6).
    IcmpType,
    /// The code of the same.
    IcmpCode,
    /// The TCP flags, CWR to FIN (8 bits).
    TcpFlags,
    /// The extension headers that an IPv6 packet carries, a bit for each of [`ExtensionHeader::ALL`] (8 bits). Absent in
    /// IPv4.
    ExtHeaders,
    /// The type of the routing headers of an IPv6 packet. Absent where it has none.
    RoutingType,
    /// The VLAN identifier of the outermost tag.
    VlanVid,
    /// The interface that the packet came in by (32 bits). Every packet has it.
    InPort,
    /// A number that whoever reads packets puts beside them (64 bits). Every packet has it.
    Metadata,
    /// The source address of the Ethernet header (48 bits).
    EthSrc,
    /// The destination address of the Ethernet header.
    EthDst,
    /// The ether type behind all VLAN tags (16 bits), the implied one where a link carries IP without any. Absent in
    /// 802.3 frames, which have a length in its place.
    EthType,
    /// The priority code point of the outermost VLAN tag (3 bits).
    VlanPcp,
    /// The outermost MPLS label (20 bits).
    MplsLabel,
    /// The traffic class of the outermost MPLS label (3 bits).
    MplsTc,
    /// The source address of IPv4, or the sender's protocol address of ARP for IPv4.
    Ipv4Src,
    /// The destination address of IPv4, or the target's protocol address of ARP for IPv4.
    Ipv4Dst,
    /// The protocol as [`Source::Proto`], or the low byte of the operation of ARP.
    IpProto,
    /// The differentiated services code point of IPv4 and IPv6 (6 bits).
    IpDscp,
    /// The source port as [`Source::SrcPort`]. ICMP has none: its type and code are fields of their own.
    TpSrc,
    /// The destination port of the same.
    TpDst,
}

impl Source {
    /// All of them, in order.
    pub const ALL: [Self; 25] = [
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

    /// The usual name of the field it fills, as `tcp_flags`.
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

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// How many bits packets hold there; of the addresses of IP, in packets of this family.
    pub const fn width(self, family: Family) -> u32 {
        match self {
            Self::Src | Self::Dst => family.address_bits(),
            Self::Metadata => 64,
            Self::EthSrc | Self::EthDst => 48,
            Self::InPort | Self::Ipv4Src | Self::Ipv4Dst => 32,
            Self::MplsLabel => 20,
            Self::SrcPort | Self::DstPort | Self::EthType | Self::TpSrc | Self::TpDst => 16,
            Self::VlanVid => 12,
            Self::Proto | Self::IcmpType | Self::IcmpCode | Self::TcpFlags | Self::IpProto => 8,
            Self::ExtHeaders | Self::RoutingType => 8,
            Self::IpDscp => 6,
            Self::VlanPcp | Self::MplsTc => 3,
        }
    }

    /// How rules usually test it.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Src | Self::Dst | Self::Ipv4Src | Self::Ipv4Dst => Kind::Prefix,
            Self::SrcPort | Self::DstPort | Self::TpSrc | Self::TpDst => Kind::Range,
            Self::TcpFlags | Self::ExtHeaders | Self::Metadata => Kind::Mask,
            _ => Kind::Exact,
        }
    }

    /// Whether some packets lack it.
    pub const fn is_optional(self) -> bool {
        !matches!(self, Self::Src | Self::Dst | Self::Proto | Self::InPort | Self::Metadata)
    }
}

/// An extension header of IPv6 that parsers walk through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtensionHeader {
    /// The name in rules, as `routing`.
    pub name: &'static str,
    /// The number by which the header before it announces it.
    pub next_header: u8,
    /// Its bit in [`Source::ExtHeaders`].
    pub bit: u8,
}

impl ExtensionHeader {
    /// All of them, in order of their bits.
    pub const ALL: [Self; 5] = [
        Self { name: "hop-by-hop", next_header: 0, bit: 0x01 },
        Self { name: "routing", next_header: 43, bit: 0x02 },
        Self { name: "fragment", next_header: 44, bit: 0x04 },
        Self { name: "destination", next_header: 60, bit: 0x08 },
        Self { name: "ah", next_header: 51, bit: 0x10 },
    ];

    /// Returns the one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|header| header.name == name)
    }

    /// Returns the one that this bit stands for.
    pub fn by_bit(bit: u128) -> Option<Self> {
        Self::ALL.into_iter().find(|header| u128::from(header.bit) == bit)
    }
}

/// One field of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: Box<str>,
    width: u32,
    kind: Kind,
    source: Option<Source>,
    optional: bool,
}

impl Field {
    /// A field that every packet has.
    ///
    /// # Panics
    /// When `width` is 0 or above [`MAX_FIELD_BITS`]: schemas are written by programs, not read from outside.
    pub fn new(name: &str, width: u32, kind: Kind, source: Option<Source>) -> Self {
        assert!((1..=MAX_FIELD_BITS).contains(&width), "field {name}: width {width} is not in 1..={MAX_FIELD_BITS}");
        Self { name: name.into(), width, kind, source, optional: false }
    }

    /// The same field, but packets may lack it.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// The name rules use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The width in bits, without the extra value for absent.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// How rules usually test it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The header field it comes from, if any.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// Whether a packet may lack it.
    pub fn is_optional(&self) -> bool {
        self.optional
    }

    /// The largest value, `2^width - 1`.
    pub fn max(&self) -> u128 {
        u128::MAX >> (128 - self.width)
    }

    /// See [`Schema::identity_of`]. FNV-1a, the same on every machine.
    fn identity(&self, index: usize, family: Option<Family>) -> u32 {
        let source = self.source.map_or("", Source::name);
        let numbers = [index as u8, self.width as u8, family.map_or(0, |family| 1 + family as u8)];
        let bytes = self.name.bytes().chain([0]).chain(source.bytes()).chain([0]).chain(numbers);
        let hash =
            bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
        (hash ^ hash >> 32) as u32
    }
}

/// One lane: at most 32 bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The index of its field in the schema.
    pub field: usize,
    /// How far its value stands to the left in the field, in bits.
    pub shift: u32,
    /// The largest value a key may hold here. In the top lane of an optional field this is the value for absent.
    pub max: u32,
    /// The bits a value of this lane may set, as a mask.
    pub bits: u32,
    /// `Some(v)` in the top lane of an optional field: the lane's value when the field is absent.
    pub absent: Option<u32>,
}

impl Lane {
    /// The part of a field's value that this lane holds.
    pub(crate) fn part(&self, value: u128) -> u32 {
        value.checked_shr(self.shift).unwrap_or(0) as u32 & self.bits
    }
}

/// An ordered list of fields, and the lanes they lower to. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Schema(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    fields: Vec<Field>,
    family: Option<Family>,
    lanes: Vec<Lane>,
    /// Field `f` has the lanes `first[f]..first[f + 1]`.
    first: Vec<usize>,
    /// A hash of what each field is.
    identities: Vec<u32>,
}

impl Schema {
    /// A schema of these fields.
    ///
    /// # Panics
    /// When there is no field, or more than [`MAX_FIELDS`], or two have the same name.
    pub fn new(family: Option<Family>, fields: Vec<Field>) -> Self {
        Self::with_lane_bits(family, fields, 32)
    }

    /// The same with narrower lanes. For tests that walk every key of a small domain: with lanes of 2 bits, fields of
    /// 2 to 8 bits already exercise everything that wide fields do.
    ///
    /// # Panics
    /// As [`Schema::new`], or when `lane_bits` is not in `1..=32`.
    pub fn with_lane_bits(family: Option<Family>, fields: Vec<Field>, lane_bits: u32) -> Self {
        assert!((1..=MAX_FIELDS).contains(&fields.len()), "a schema has 1 to {MAX_FIELDS} fields");
        assert!((1..=32).contains(&lane_bits), "a lane has 1 to 32 bits");
        let mut lanes = Vec::new();
        let mut first = vec![0];
        for (index, field) in fields.iter().enumerate() {
            assert!(fields[..index].iter().all(|f| f.name != field.name), "two fields are named {}", field.name);
            let total = field.width + u32::from(field.optional);
            // The top lane takes what does not fill a whole lane.
            let mut left = total;
            while left > 0 {
                let width = if left.is_multiple_of(lane_bits) { lane_bits } else { left % lane_bits };
                let top = left == total;
                left -= width;
                let bits = u32::MAX >> (32 - width);
                let absent = (top && field.optional).then(|| 1 << (width - 1));
                lanes.push(Lane { field: index, shift: left, max: absent.unwrap_or(bits), bits, absent });
            }
            first.push(lanes.len());
        }
        let identities = fields.iter().enumerate().map(|(index, field)| field.identity(index, family)).collect();
        Self(Arc::new(Inner { fields, family, lanes, first, identities }))
    }

    /// The IPv4 5-tuple: `src`, `dst` (32 bits), `sport`, `dport` (16, optional), `proto` (8). Five lanes.
    pub fn ipv4() -> Self {
        Self::five_tuple(Family::Ipv4, &[])
    }

    /// The IPv6 5-tuple: as [`Schema::ipv4`] with addresses of 128 bits. Eleven lanes.
    pub fn ipv6() -> Self {
        Self::five_tuple(Family::Ipv6, &[])
    }

    /// The 5-tuple of a family followed by `extra` header fields, each under its usual name
    /// (see [`Field::from_source`]).
    pub fn five_tuple(family: Family, extra: &[Source]) -> Self {
        let five = [Source::Src, Source::Dst, Source::SrcPort, Source::DstPort, Source::Proto];
        let fields = five.iter().chain(extra).map(|&source| Field::from_source(source, family)).collect();
        Self::new(Some(family), fields)
    }

    /// The 15 fields that OpenFlow 1.x switches match on, of no family: `in_port` 32, `metadata` 64, `eth_src` and
    /// `eth_dst` 48, `eth_type` 16, `vlan_vid` 12, `vlan_pcp` 3, `mpls_label` 20, `mpls_tc` 3, `ipv4_src` and
    /// `ipv4_dst` 32, `ip_proto` 8, `ip_dscp` 6, `tp_src` and `tp_dst` 16 bits. All but the first two are optional.
    /// Twenty lanes. [`Source`] tells what packets hold there.
    pub fn openflow() -> Self {
        let sources = [
            Source::InPort,
            Source::Metadata,
            Source::EthSrc,
            Source::EthDst,
            Source::EthType,
            Source::VlanVid,
            Source::VlanPcp,
            Source::MplsLabel,
            Source::MplsTc,
            Source::Ipv4Src,
            Source::Ipv4Dst,
            Source::IpProto,
            Source::IpDscp,
            Source::TpSrc,
            Source::TpDst,
        ];
        // None of them depends on the family.
        Self::new(None, sources.map(|source| Field::from_source(source, Family::Ipv4)).into())
    }

    /// The family its addresses belong to, if it has one.
    pub fn family(&self) -> Option<Family> {
        self.0.family
    }

    /// The fields in order.
    pub fn fields(&self) -> &[Field] {
        &self.0.fields
    }

    /// The index of the field of this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.0.fields.iter().position(|f| &*f.name == name)
    }

    /// The index of the field filled from this header field.
    pub fn index_of_source(&self, source: Source) -> Option<usize> {
        self.0.fields.iter().position(|f| f.source == Some(source))
    }

    /// All lanes in order.
    pub fn lanes(&self) -> &[Lane] {
        &self.0.lanes
    }

    /// The lanes of one field, as indices into [`Schema::lanes`].
    pub fn lanes_of(&self, field: usize) -> std::ops::Range<usize> {
        self.0.first[field]..self.0.first[field + 1]
    }

    /// A hash of the place, name, width, source and family of a field: equal where a condition on the field means the
    /// same.
    pub(crate) fn identity_of(&self, field: usize) -> u32 {
        self.0.identities[field]
    }

    /// Words from one row of keys to the next: the lanes rounded up to a multiple of 4.
    pub fn stride(&self) -> usize {
        self.0.lanes.len().next_multiple_of(4)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields().iter().map(|field| format!("{}:{}", field.name, field.width));
        f.debug_struct("Schema").field("family", &self.0.family).field("fields", &fields.collect::<Vec<_>>()).finish()
    }
}

impl Field {
    /// The field that holds a header field, under its usual name, width and kind.
    pub fn from_source(source: Source, family: Family) -> Self {
        let field = Self::new(source.name(), source.width(family), source.kind(), Some(source));
        if source.is_optional() { field.optional() } else { field }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_lanes_the_documentation_states() {
        assert_eq!(Schema::ipv4().lanes().len(), 5);
        assert_eq!(Schema::ipv4().stride(), 8);
        assert_eq!(Schema::ipv6().lanes().len(), 11);
        assert_eq!(Schema::ipv6().stride(), 12);
        assert_eq!(Schema::openflow().lanes().len(), 20);
        assert_eq!(Schema::openflow().stride(), 20);
        let fields: Vec<_> = Schema::openflow().fields().iter().map(|f| (f.name().to_owned(), f.width())).collect();
        let expected = "in_port 32, metadata 64, eth_src 48, eth_dst 48, eth_type 16, vlan_vid 12, vlan_pcp 3, \
                        mpls_label 20, mpls_tc 3, ipv4_src 32, ipv4_dst 32, ip_proto 8, ip_dscp 6, tp_src 16, tp_dst 16";
        let written: Vec<_> = fields.iter().map(|(name, width)| format!("{name} {width}")).collect();
        assert_eq!(written.join(", "), expected);
        let port = Schema::ipv4().lanes()[2];
        assert_eq!((port.max, port.bits, port.absent), (1 << 16, 0x1_FFFF, Some(1 << 16)));
    }

    #[test]
    fn sources_are_listed_in_order_under_distinct_names() {
        for (index, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(source as usize, index);
            assert_eq!(Source::by_name(source.name()), Some(source));
            let field = Field::from_source(source, Family::Ipv6);
            assert_eq!((field.name(), field.width()), (source.name(), source.width(Family::Ipv6)));
        }
        assert_eq!(Source::by_name("IN_PORT"), None);
    }

    #[test]
    fn a_wide_optional_field_keeps_its_absent_bit_in_a_lane_of_its_own() {
        let schema = Schema::new(None, vec![Field::new("f", 64, Kind::Exact, None).optional()]);
        let widths: Vec<_> = schema.lanes().iter().map(|l| (l.bits.count_ones(), l.shift, l.max)).collect();
        assert_eq!(widths, [(1, 64, 1), (32, 32, u32::MAX), (32, 0, u32::MAX)]);
    }
}
