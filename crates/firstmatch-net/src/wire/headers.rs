//! What a frame's headers say.

use firstmatch::schema::{Family, Source};

use super::Outcome;

/// Words of [`Headers::words`], most significant first. The word before the first of a field is another field's, so
/// whoever combines two words must stay within one.
pub(super) const SRC: usize = 0;
pub(super) const DST: usize = 4;
pub(super) const PROTO: usize = 8;
pub(super) const SPORT: usize = 9;
pub(super) const DPORT: usize = 10;
pub(super) const ICMP_TYPE: usize = 11;
pub(super) const ICMP_CODE: usize = 12;
pub(super) const TCP_FLAGS: usize = 13;
pub(super) const VLAN: usize = 14;
/// Always zero.
pub(super) const ZERO: usize = 15;

/// The first word of a header field, and how many there are.
pub(super) const fn words_of(source: Source) -> (usize, usize) {
    match source {
        Source::Src => (SRC, 4),
        Source::Dst => (DST, 4),
        Source::Proto => (PROTO, 1),
        Source::SrcPort => (SPORT, 1),
        Source::DstPort => (DPORT, 1),
        Source::IcmpType => (ICMP_TYPE, 1),
        Source::IcmpCode => (ICMP_CODE, 1),
        Source::TcpFlags => (TCP_FLAGS, 1),
        Source::VlanVid => (VLAN, 1),
    }
}

/// A set of header fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceSet(u16);

impl SourceSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self::of(&[
        Source::Src,
        Source::Dst,
        Source::Proto,
        Source::SrcPort,
        Source::DstPort,
        Source::IcmpType,
        Source::IcmpCode,
        Source::TcpFlags,
        Source::VlanVid,
    ]);
    /// The two addresses.
    pub const ADDRESSES: Self = Self::of(&[Source::Src, Source::Dst]);
    /// The two ports.
    pub const PORTS: Self = Self::of(&[Source::SrcPort, Source::DstPort]);
    /// Type and code of ICMP or ICMPv6.
    pub const ICMP: Self = Self::of(&[Source::IcmpType, Source::IcmpCode]);
    /// What stands behind the IP header and its extensions.
    pub const UPPER: Self =
        Self::of(&[Source::SrcPort, Source::DstPort, Source::IcmpType, Source::IcmpCode, Source::TcpFlags]);

    /// These.
    pub const fn of(sources: &[Source]) -> Self {
        let (mut bits, mut rest) = (0, sources);
        while let [first, others @ ..] = rest {
            bits |= 1 << (*first as u16);
            rest = others;
        }
        Self(bits)
    }

    /// Whether this one is in it.
    #[inline]
    pub const fn contains(self, source: Source) -> bool {
        self.0 >> (source as u16) & 1 != 0
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
    pub(super) const fn mask_of(self, bit: u16) -> u32 {
        ((self.0 & bit != 0) as u32).wrapping_neg()
    }

    pub(super) const fn bits(self) -> u16 {
        self.0
    }
}

/// What a frame's headers say: each header field is present, absent (known not to be there) or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// An address takes four words, the most significant first; an IPv4 address is in the last of them.
    pub(super) words: [u32; 16],
    pub(super) present: SourceSet,
    pub(super) absent: SourceSet,
    pub(super) family: Option<Family>,
    /// Why the fields that are neither present nor absent are unknown; `Complete` where there is none.
    pub(super) reason: Outcome,
    /// Whether fields are absent because this is a later fragment.
    pub(super) layer3: bool,
}

impl Headers {
    /// Nothing known.
    pub(super) const fn new() -> Self {
        Self {
            words: [0; 16],
            present: SourceSet::NONE,
            absent: SourceSet::NONE,
            family: None,
            reason: Outcome::Complete,
            layer3: false,
        }
    }

    /// The headers of a packet known by its 5-tuple alone, as a trace line states it. The ports are present whatever
    /// the protocol, the fields that a trace cannot state are absent. Bits of an address beyond its family's width
    /// are dropped.
    pub fn of_five_tuple(family: Family, src: u128, dst: u128, sport: u16, dport: u16, proto: u8) -> Self {
        let mut headers = Self::new();
        headers.family = Some(family);
        let keep = u128::MAX >> (128 - family.address_bits());
        headers.put_address(SRC, src & keep);
        headers.put_address(DST, dst & keep);
        headers.words[SPORT] = sport.into();
        headers.words[DPORT] = dport.into();
        headers.words[PROTO] = proto.into();
        headers.present = SourceSet::ADDRESSES.union(SourceSet::PORTS).union(SourceSet::of(&[Source::Proto]));
        headers.absent = SourceSet::ALL.minus(headers.present);
        headers
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
        let (first, count) = words_of(source);
        let words = self.words.iter().skip(first).take(count);
        self.present.contains(source).then(|| words.fold(0, |value, &word| value << 32 | u128::from(word)))
    }
}
