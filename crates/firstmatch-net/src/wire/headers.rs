//! What a frame's headers say.

use firstmatch::schema::{Family, Source};

use super::Outcome;

/// Words of [`Headers::words`], most significant first where a field has several. Fields of one byte or two that
/// packets hold side by side share a word.
pub(super) const SRC: usize = 0;
pub(super) const DST: usize = 4;
/// The differentiated services field, then the protocol in the low byte.
pub(super) const NET: usize = 8;
/// The source port, then the destination port.
pub(super) const PORTS: usize = 9;
/// Type, then code.
pub(super) const ICMP: usize = 10;
pub(super) const TCP_FLAGS: usize = 11;
/// The tag control information: priority, a bit, identifier.
pub(super) const VLAN: usize = 12;
/// An entry of the label stack: label, traffic class, a bit, a byte.
pub(super) const MPLS: usize = 13;
pub(super) const ETH_TYPE: usize = 14;
/// Always zero.
pub(super) const ZERO: usize = 15;
pub(super) const ETH_DST: usize = 16;
pub(super) const ETH_SRC: usize = 18;
pub(super) const METADATA: usize = 20;
pub(super) const IN_PORT: usize = 22;
/// The type of the routing headers, then a bit for each extension header in the low byte.
pub(super) const EXT: usize = 23;
/// How many words there are. A power of two, so that an index under a mask needs no check.
pub(super) const WORDS: usize = 32;

/// Where a header field stands in [`Headers::words`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its first word, and how many it has.
    pub(super) first: usize,
    pub(super) count: usize,
    /// How far it stands to the left in its word; 0 where it has several.
    pub(super) shift: u32,
    /// Its width, in packets that have most of it.
    pub(super) bits: u32,
}

pub(super) const fn place(source: Source) -> Place {
    // An IPv4 address stands in the last of the four words.
    let bits = source.width(Family::Ipv6);
    let (first, count, shift) = match source {
        Source::Src => (SRC, 4, 0),
        Source::Dst => (DST, 4, 0),
        Source::Proto | Source::IpProto => (NET, 1, 0),
        Source::IpDscp => (NET, 1, 10),
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

/// The protocol, under either name.
pub(super) const PROTO: SourceSet = SourceSet::of(&[Source::Proto, Source::IpProto]);

/// A set of header fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceSet(u32);

impl SourceSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self::of(&Source::ALL);
    /// The two addresses of IP.
    pub const ADDRESSES: Self = Self::of(&[Source::Src, Source::Dst]);
    /// The two ports, under either name.
    pub const PORTS: Self = Self::of(&[Source::SrcPort, Source::DstPort, Source::TpSrc, Source::TpDst]);
    /// Type and code of ICMP or ICMPv6.
    pub const ICMP: Self = Self::of(&[Source::IcmpType, Source::IcmpCode]);
    /// What stands behind the IP header and its extensions.
    pub const UPPER: Self = Self::PORTS.union(Self::ICMP).union(Self::of(&[Source::TcpFlags]));
    /// The fields of extension headers of IPv6; absent in IPv4.
    pub const EXTENSIONS: Self = Self::of(&[Source::ExtHeaders, Source::RoutingType]);
    /// What every packet has, wherever it comes from.
    pub const ALWAYS: Self = Self::of(&[Source::InPort, Source::Metadata]);
    /// A field that no packet has.
    pub(super) const NOWHERE: Self = Self(1 << 31);
    /// What OpenFlow reads in the packet that the ether type names, and no deeper.
    pub const OPENFLOW: Self =
        Self::of(&[Source::Ipv4Src, Source::Ipv4Dst, Source::IpProto, Source::IpDscp, Source::TpSrc, Source::TpDst]);

    /// These.
    pub const fn of(sources: &[Source]) -> Self {
        let (mut bits, mut rest) = (0, sources);
        while let [first, others @ ..] = rest {
            bits |= 1 << (*first as u32);
            rest = others;
        }
        Self(bits)
    }

    /// Whether this one is in it.
    #[inline]
    pub const fn contains(self, source: Source) -> bool {
        self.0 >> (source as u32) & 1 != 0
    }

    /// Whether it is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in one or the other.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[inline]
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this one but not in the other.
    #[inline]
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// All ones if it holds the field of this bit, else zero.
    #[inline]
    pub(super) const fn mask_of(self, bit: u32) -> u32 {
        ((self.0 & bit != 0) as u32).wrapping_neg()
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }
}

/// What a frame's headers say: each header field is present, absent (known not to be there) or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// An address takes four words, the most significant first; an IPv4 address is in the last of them.
    pub(super) words: [u32; WORDS],
    pub(super) present: SourceSet,
    pub(super) absent: SourceSet,
    pub(super) family: Option<Family>,
    /// Why the fields that are neither present nor absent are unknown; `Complete` where there is none.
    pub(super) reason: Outcome,
    /// Whether fields are absent because this is a later fragment.
    pub(super) layer3: bool,
}

impl Headers {
    /// Nothing known but what every packet has.
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

    /// The headers of a packet known by its 5-tuple alone, as a trace line states it. The ports are present whatever
    /// the protocol, the fields that a trace cannot state are absent; interface and metadata are 0. Bits of an address
    /// beyond its family's width are dropped.
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

    /// The same headers of a packet that came in by this interface.
    #[must_use]
    pub fn with_in_port(mut self, in_port: u32) -> Self {
        self.words[IN_PORT] = in_port;
        self
    }

    /// The same headers with this number beside them.
    #[must_use]
    pub fn with_metadata(mut self, metadata: u64) -> Self {
        self.words[METADATA] = (metadata >> 32) as u32;
        self.words[METADATA + 1] = metadata as u32;
        self
    }

    /// The same headers with these TCP flags.
    #[must_use]
    pub fn with_tcp_flags(mut self, flags: u8) -> Self {
        const FLAGS: SourceSet = SourceSet::of(&[Source::TcpFlags]);
        self.words[TCP_FLAGS] = flags.into();
        self.present = self.present.union(FLAGS);
        self.absent = self.absent.minus(FLAGS);
        self
    }

    fn put_address(&mut self, first: usize, address: u128) {
        for (word, shift) in self.words.iter_mut().skip(first).zip([96, 64, 32, 0]) {
            *word = (address >> shift) as u32;
        }
    }

    /// The family of the IP header, if there is one.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// The header fields that are there.
    pub fn present(&self) -> SourceSet {
        self.present
    }

    /// The header fields known not to be there.
    pub fn absent(&self) -> SourceSet {
        self.absent
    }

    /// The header fields that may or may not be there: [`Headers::reason`] says why nobody knows.
    pub fn unknown(&self) -> SourceSet {
        SourceSet::ALL.minus(self.present).minus(self.absent)
    }

    /// Why fields are unknown; [`Outcome::Complete`] where none is.
    pub fn reason(&self) -> Outcome {
        self.reason
    }

    /// The value of a header field that is present.
    pub fn value(&self, source: Source) -> Option<u128> {
        let Place { first, count, shift, bits } = place(source);
        let words = self.words.iter().skip(first).take(count);
        let value = || words.fold(0, |value, &word| value << 32 | u128::from(word)) >> shift;
        self.present.contains(source).then(|| value() & u128::MAX >> (128 - bits))
    }
}
