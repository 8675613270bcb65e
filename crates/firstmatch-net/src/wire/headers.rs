//! Header fields of one frame, and sets of header fields.

use firstmatch_core::policy::Fragments;
use firstmatch_core::schema::{Family, Source};

use super::Outcome;

/// Index of the source address in [`Headers::words`]; the next constants are for other fields.
///
/// A field of several words has its most significant one first. Fields of one or two bytes that packets hold side by
/// side share a word.
pub(super) const SRC: usize = 0;
pub(super) const DST: usize = 4;
/// Differentiated services field, then the protocol in the low byte.
pub(super) const NET: usize = 8;
/// Source port, then the destination port.
pub(super) const PORTS: usize = 9;
/// Type, then code.
pub(super) const ICMP: usize = 10;
pub(super) const TCP_FLAGS: usize = 11;
/// Tag control information: priority, a bit, identifier.
pub(super) const VLAN: usize = 12;
/// Entry of the label stack: label, traffic class, a bit, a byte.
pub(super) const MPLS: usize = 13;
pub(super) const ETH_TYPE: usize = 14;
/// Word that is always zero.
pub(super) const ZERO: usize = 15;
pub(super) const ETH_DST: usize = 16;
pub(super) const ETH_SRC: usize = 18;
pub(super) const METADATA: usize = 20;
pub(super) const IN_PORT: usize = 22;
/// Type of the routing headers, then a bit for each extension header in the low byte.
pub(super) const EXT: usize = 23;
/// Number of bytes on the wire that the capture lacks; not a field.
pub(super) const CUT: usize = 24;
/// Time to live of IPv4 or hop limit of IPv6.
pub(super) const TTL: usize = 25;
/// Length of the IP packet.
pub(super) const LENGTH: usize = 26;
/// 0 for no fragment, 1 for the first, 2 for a later one.
pub(super) const FRAGMENT: usize = 27;
/// Number of words. It is a power of two, so that an index under a mask needs no bounds check.
pub(super) const WORDS: usize = 32;

/// Place of a header field in [`Headers::words`].
///
/// For example, `vlan_pcp` is the word [`VLAN`] shifted right by 13, of which 3 bits count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Index of the first word, and number of words.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Number of bits to the right of the field in its word; 0 if it has several words.
    pub(super) shift: u32,
    /// Width in bits; if the families differ, that of IPv6.
    pub(super) bits: u32,
}

pub(super) const fn place(source: Source) -> Place {
    // An IPv4 address is in the last of the four words.
    let bits = source.width(Family::Ipv6);
    let (first, count, shift) = match source {
        Source::Src => (SRC, 4, 0),
        Source::Dst => (DST, 4, 0),
        Source::Proto | Source::IpProto => (NET, 1, 0),
        Source::IpDscp | Source::Dscp => (NET, 1, 10),
        Source::Ttl => (TTL, 1, 0),
        Source::Length => (LENGTH, 1, 0),
        Source::Fragment => (FRAGMENT, 1, 0),
        Source::SrcPort | Source::TpSrc => (PORTS, 1, 16),
        Source::DstPort | Source::TpDst => (PORTS, 1, 0),
        Source::IcmpType => (ICMP, 1, 8),
        Source::IcmpCode => (ICMP, 1, 0),
        Source::TcpFlags => (TCP_FLAGS, 1, 0),
        Source::ExtHeaders => (EXT, 1, 0),
        Source::RoutingType => (EXT, 1, 8),
        Source::VlanVid => (VLAN, 1, 0),
        Source::VlanPcp => (VLAN, 1, 13),
        Source::InPort => (IN_PORT, 1, 0),
        Source::Metadata => (METADATA, 2, 0),
        Source::EthSrc => (ETH_SRC, 2, 0),
        Source::EthDst => (ETH_DST, 2, 0),
        Source::EthType => (ETH_TYPE, 1, 0),
        Source::MplsLabel => (MPLS, 1, 12),
        Source::MplsTc => (MPLS, 1, 9),
        Source::Ipv4Src => (SRC + 3, 1, 0),
        Source::Ipv4Dst => (DST + 3, 1, 0),
    };
    Place { first, count, shift, bits }
}

/// Protocol, under either name.
pub(super) const PROTO: SourceSet = SourceSet::of(&[Source::Proto, Source::IpProto]);

/// Set of header fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceSet(u32);

impl SourceSet {
    /// Set without fields.
    pub const NONE: Self = Self(0);
    /// Set of all header fields.
    pub const ALL: Self = Self::of(&Source::ALL);
    /// Two addresses of IP.
    pub const ADDRESSES: Self = Self::of(&[Source::Src, Source::Dst]);
    /// Two ports, under either name.
    pub const PORTS: Self = Self::of(&[Source::SrcPort, Source::DstPort, Source::TpSrc, Source::TpDst]);
    /// Type and code of ICMP or ICMPv6.
    pub const ICMP: Self = Self::of(&[Source::IcmpType, Source::IcmpCode]);
    /// Fields that come after the IP header and its extensions.
    pub const UPPER: Self = Self::PORTS.union(Self::ICMP).union(Self::of(&[Source::TcpFlags]));
    /// Fields of IPv6's extension headers; absent in IPv4.
    pub const EXTENSIONS: Self = Self::of(&[Source::ExtHeaders, Source::RoutingType]);
    /// Fields that every packet has, wherever it comes from.
    pub const ALWAYS: Self = Self::of(&[Source::InPort, Source::Metadata]);
    /// Field that no packet has.
    pub(super) const NOWHERE: Self = Self(1 << 31);
    /// Fields that OpenFlow reads in the packet that the ether type names, and no deeper.
    pub const OPENFLOW: Self =
        Self::of(&[Source::Ipv4Src, Source::Ipv4Dst, Source::IpProto, Source::IpDscp, Source::TpSrc, Source::TpDst]);

    /// Returns the set of these fields.
    pub const fn of(sources: &[Source]) -> Self {
        let (mut bits, mut rest) = (0, sources);
        while let [first, others @ ..] = rest {
            bits |= 1 << (*first as u32);
            rest = others;
        }
        Self(bits)
    }

    /// Whether the set has this field.
    #[inline]
    pub const fn contains(self, source: Source) -> bool {
        self.0 >> (source as u32) & 1 != 0
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the fields that are in either set.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the fields that are in both sets.
    #[inline]
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the fields that are in this set but not in the other.
    #[inline]
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns all ones if the set has the field of this bit, otherwise zero.
    #[inline]
    pub(super) const fn mask_of(self, bit: u32) -> u32 {
        ((self.0 & bit != 0) as u32).wrapping_neg()
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }
}

/// Header fields of a frame: each is present, absent (known not to be there) or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Values of the fields. An address takes four words, the most significant first, and an IPv4 address is in the
    /// last of them.
    pub(super) words: [u32; WORDS],
    pub(super) present: SourceSet,
    pub(super) absent: SourceSet,
    pub(super) family: Option<Family>,
    /// Reason why fields are neither present nor absent; `Complete` if none is unknown.
    pub(super) reason: Outcome,
    /// Whether fields are absent because this is a later fragment.
    pub(super) layer3: bool,
}

impl Headers {
    /// Returns headers in which only the fields that every packet has are known.
    #[inline]
    pub(super) fn new(in_port: u32, metadata: u64) -> Self {
        let mut headers = Self {
            words: [0; WORDS],
            present: SourceSet::ALWAYS,
            absent: SourceSet::NONE,
            family: None,
            reason: Outcome::Complete,
            layer3: false,
        };
        headers.words[IN_PORT] = in_port;
        headers.words[METADATA] = (metadata >> 32) as u32;
        headers.words[METADATA + 1] = metadata as u32;
        headers
    }

    /// Returns the headers of a packet known by its 5-tuple alone, as a trace line states it.
    ///
    /// The ports are present whatever the protocol, and fields that a trace cannot state are absent. Interface and
    /// metadata are 0. Bits of an address beyond its family's width are dropped.
    pub fn of_five_tuple(family: Family, src: u128, dst: u128, sport: u16, dport: u16, proto: u8) -> Self {
        let mut headers = Self::new(0, 0);
        headers.family = Some(family);
        let keep = u128::MAX >> (128 - family.address_bits());
        headers.put_address(SRC, src & keep);
        headers.put_address(DST, dst & keep);
        headers.words[PORTS] = u32::from(sport) << 16 | u32::from(dport);
        headers.words[NET] = proto.into();
        let stated = SourceSet::ADDRESSES.union(SourceSet::PORTS).union(PROTO).union(SourceSet::of(&[Source::EthType]));
        headers.present = headers.present.union(stated);
        headers.words[ETH_TYPE] = if family == Family::Ipv4 { 0x0800 } else { 0x86dd };
        if family == Family::Ipv4 {
            headers.present = headers.present.union(SourceSet::of(&[Source::Ipv4Src, Source::Ipv4Dst]));
        }
        headers.absent = SourceSet::ALL.minus(headers.present);
        headers
    }

    /// Returns the headers of a packet of which fields are stated: a value, or `None` for a field known to be absent.
    ///
    /// Other fields are unknown, as if the packet ended before them. With [`Fragments::Layer3`], those behind the IP
    /// header of a later fragment are absent, as in a parsed packet. Interface and metadata are 0 unless they are
    /// stated. Bits beyond a field's width are dropped.
    ///
    /// ```
    /// use firstmatch_core::policy::Fragments;
    /// use firstmatch_core::schema::{Family, Source};
    /// use firstmatch_net::wire::Headers;
    ///
    /// let fields = [(Source::Proto, Some(6)), (Source::DstPort, Some(22)), (Source::IcmpType, None)];
    /// let headers = Headers::of_fields(Some(Family::Ipv4), Fragments::Unknown, fields);
    /// assert_eq!(headers.value(Source::DstPort), Some(22));
    /// assert!(headers.absent().contains(Source::IcmpType) && headers.unknown().contains(Source::SrcPort));
    /// ```
    pub fn of_fields(
        family: Option<Family>,
        fragments: Fragments,
        fields: impl IntoIterator<Item = (Source, Option<u128>)>,
    ) -> Self {
        let mut headers = Self::new(0, 0);
        headers.family = family;
        for (source, value) in fields {
            let (of, Place { first, count, shift, bits }) = (SourceSet::of(&[source]), place(source));
            let Some(value) = value else {
                headers.absent = headers.absent.union(of);
                headers.present = headers.present.minus(of);
                continue;
            };
            headers.present = headers.present.union(of);
            let mask = u128::MAX >> (128 - bits) << shift;
            for (index, word) in headers.words[first..first + count].iter_mut().enumerate() {
                let at = 32 * (count - 1 - index);
                let (own, value) = ((mask >> at) as u32, (value << shift >> at) as u32);
                *word = *word & !own | value & own;
            }
        }
        let is_later = headers.value(Source::Fragment) == Some(2);
        if is_later && fragments == Fragments::Layer3 {
            headers.absent = headers.absent.union(SourceSet::UPPER.minus(headers.present));
            headers.layer3 = true;
        }
        if !headers.unknown().is_empty() {
            headers.reason = if is_later { Outcome::Fragment } else { Outcome::Truncated };
        }
        headers
    }

    /// Returns the same headers for a packet that came in by the interface `in_port`.
    #[must_use]
    pub fn with_in_port(mut self, in_port: u32) -> Self {
        self.words[IN_PORT] = in_port;
        self
    }

    /// Returns the same headers with the metadata `metadata`.
    #[must_use]
    pub fn with_metadata(mut self, metadata: u64) -> Self {
        self.words[METADATA] = (metadata >> 32) as u32;
        self.words[METADATA + 1] = metadata as u32;
        self
    }

    /// Returns the same headers with the TCP flags `flags`.
    #[must_use]
    pub fn with_tcp_flags(mut self, flags: u8) -> Self {
        const FLAGS: SourceSet = SourceSet::of(&[Source::TcpFlags]);
        self.words[TCP_FLAGS] = flags.into();
        self.present = self.present.union(FLAGS);
        self.absent = self.absent.minus(FLAGS);
        self
    }

    #[inline]
    pub(super) fn put_address(&mut self, first: usize, address: u128) {
        for (word, shift) in self.words.iter_mut().skip(first).zip([96, 64, 32, 0]) {
            *word = (address >> shift) as u32;
        }
    }

    /// Returns the family of the IP header, if there is one.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// Returns the header fields that are present.
    pub fn present(&self) -> SourceSet {
        self.present
    }

    /// Returns the header fields known to be absent.
    pub fn absent(&self) -> SourceSet {
        self.absent
    }

    /// Returns the header fields that may or may not be there; [`Headers::reason`] has the reason.
    pub fn unknown(&self) -> SourceSet {
        SourceSet::ALL.minus(self.present).minus(self.absent)
    }

    /// Returns the reason why fields are unknown; [`Outcome::Complete`] if none is.
    pub fn reason(&self) -> Outcome {
        self.reason
    }

    /// Returns the value of a header field that is present.
    pub fn value(&self, source: Source) -> Option<u128> {
        let Place { first, count, shift, bits } = place(source);
        let words = self.words.iter().skip(first).take(count);
        let value = || words.fold(0, |value, &word| value << 32 | u128::from(word)) >> shift;
        self.present.contains(source).then(|| value() & u128::MAX >> (128 - bits))
    }
}
