//! Fast way for common frames: sorts them into kinds, and fills the rows of a kind straight from the frame.
//!
//! A frame is *common* if it is Ethernet with at most one VLAN tag, IPv4 without options or IPv6 without extension
//! headers, no fragment, and whole as far as fields are read. All common frames of one [`Kind`] have the same fields at
//! the same places, so outcome, schema and values for absent are known before the frame. [`Plan::new`] parses one
//! sample of each kind with [`parse_frame`] and keeps the result. Every other frame is parsed by [`parse_frame`].
//!
//! For example, an untagged TCP segment over IPv4 has its ports 34 bytes from its start. Its row of a 5-tuple is three
//! loads (source, destination, both ports) and the protocol.
//!
//! # Invariants
//!
//! - A common frame gets the row, the schema and the outcome that [`parse_frame`] would give it (`tests/fast.rs`, and
//!   the fuzz target `frames`).

use firstmatch_core::schema::Family;

use super::extract::{Extractor, WordOp};
use super::headers::{DST, ETH_DST, ETH_SRC, ETH_TYPE, EXT, Headers, ICMP, NET, PORTS, SRC, TCP_FLAGS, VLAN, ZERO};
use super::parse::{be16, is_extension, parse_frame};
use super::{Config, LinkType, Outcome};

/// Number of kinds; the index has a bit for the family, a bit for a VLAN tag and two for what is behind IP.
const KINDS: usize = 16;
/// Index of a frame that is not common.
pub(super) const UNCOMMON: u8 = KINDS as u8;
pub(super) const IPV6_BIT: u8 = 8;
const TAG_BIT: u8 = 4;
/// Groups of protocols by the fields behind IP, each with a protocol of IPv4 and of IPv6 as a sample.
const NOTHING: u8 = 0;
const PORTS_ONLY: u8 = 1;
const PORTS_AND_FLAGS: u8 = 2;
const TYPE_AND_CODE: u8 = 3;
const SAMPLES: [[u8; 2]; 4] = [[47, 59], [17, 17], [6, 6], [1, 58]];
/// Bytes behind IP that are read, by group of protocols.
const NEEDED: [u8; 4] = [0, 4, 14, 2];
/// Place of the ether type in an untagged frame, and the bytes from there to the ports of IPv4.
const TYPE: usize = 12;
pub(super) const IPV4_BYTES: usize = 26;
/// Bytes that every common frame has, with a tag or without.
const LEAST: usize = TYPE + 4 + IPV4_BYTES;

/// Start of the common headers of a family: places from the ether type on, and bits that are tested.
struct Start {
    /// Bits of the ether type and the first two bytes of IP, of which the first is the lowest, and their value.
    mask: u32,
    value: u32,
    /// Place of the length that IP states.
    length: usize,
    /// Bits of the two bytes of fragments that must be zero.
    fragment: u16,
    /// Place of the protocol.
    proto: usize,
}

/// Ether type, version and no options; neither more fragments nor an offset.
const IPV4: Start = Start { mask: 0xff_ffff, value: 0x45_0008, length: 4, fragment: 0xff3f, proto: 11 };
/// Ether type and version.
const IPV6: Start = Start { mask: 0xf0_ffff, value: 0x60_dd86, length: 6, fragment: 0, proto: 8 };

/// Kind of the frames with a protocol, without the tag, and their least lengths.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    index: u8,
    /// Least bytes behind the ether type.
    bytes: u8,
    /// A length that the IP header must exceed.
    stated: u16,
}

impl Bounds {
    /// Bounds of a protocol without common frames: no header states more.
    const NONE: Self = Self { index: UNCOMMON, bytes: 0, stated: u16::MAX };

    /// Returns the bounds of a protocol of IPv4 or IPv6; `is_kind` says whether a kind has frames.
    fn of(is_ipv6: bool, proto: u8, is_kind: impl Fn(u8) -> bool) -> Self {
        let group = match proto {
            6 => PORTS_AND_FLAGS,
            17 | 33 | 132 | 136 => PORTS_ONLY,
            icmp if icmp == SAMPLES[usize::from(TYPE_AND_CODE)][usize::from(is_ipv6)] => TYPE_AND_CODE,
            _ => NOTHING,
        };
        let index = group | if is_ipv6 { IPV6_BIT } else { 0 };
        if is_ipv6 && is_extension(proto) || !is_kind(index) {
            return Self::NONE;
        }
        let needed = NEEDED[usize::from(group)];
        let header = if is_ipv6 { 40 } else { 20 };
        // Words are loads of four bytes. IPv6 states the length behind its header, and 0 states nothing.
        let stated = if is_ipv6 { u16::from(needed.max(1)) } else { u16::from(needed) + 20 };
        Self { index, bytes: 2 + header + needed.max(4), stated: stated - 1 }
    }
}

/// Form of the first words of a row, which a function of its own fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Words 0 to 4 are the 5-tuple of IPv4.
    Ipv4,
    /// Words 0 to 10 are the 5-tuple of IPv6.
    Ipv6,
    /// No word.
    Empty,
}

impl Head {
    /// Number of words.
    fn words(self) -> usize {
        match self {
            Self::Ipv4 => 5,
            Self::Ipv6 => 11,
            Self::Empty => 0,
        }
    }
}

/// Common frames that have the same fields at the same places.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Index of the byte behind the IP header.
    upper: u8,
    /// Index of the schema.
    pub(super) group: u8,
    pub(super) outcome: Outcome,
    head: Head,
    /// Mask of both ports, and the values that absent ports have; the source port is in the low half.
    ports: [u64; 2],
    /// Words behind the head.
    words: Box<[Load]>,
}

/// Word of a row: bits of four bytes of the frame, or a constant.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Index of the first of the four bytes.
    at: u8,
    shift: u8,
    bits: u32,
    /// Bits that are set in any case: the value for absent, or none.
    set: u32,
}

/// Kinds of common frames for the schemas of one batch.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    kinds: Box<[Kind; KINDS]>,
    /// Kinds by protocol, of IPv4 and of IPv6.
    bounds: Box<[[Bounds; 256]; 2]>,
    /// What the kinds of IPv4 have in common, and those of IPv6.
    families: [CommonFacts; 2],
}

/// Facts about all common frames of one family.
///
/// A schema fits a family, so all of them have the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommonFacts {
    /// Index of the schema.
    pub(super) schema: u8,
    /// Whether every kind is classified.
    pub(super) is_classified: bool,
    /// Form of all rows, if every kind is classified: a head and nothing behind it, or [`Head::Empty`].
    pub(super) row: Head,
}

impl Plan {
    /// Returns the plan for these extractors; `route` returns the index of a packet's schema and its outcome there.
    pub(super) fn new<'e>(
        config: &Config,
        extractor: impl Fn(usize) -> Option<&'e Extractor>,
        route: impl Fn(&Headers) -> (usize, Outcome),
    ) -> Self {
        let kind = |index: usize| {
            let index = index as u8;
            let sample = sample(index);
            let mut headers = Headers::new(0, config.metadata);
            parse_frame(config, LinkType::Ethernet, &sample, &mut headers);
            let (group, outcome) = route(&headers);
            let extractor = extractor(group).filter(|_| headers.reason() == Outcome::Complete)?;
            Kind::new(index, &headers, extractor, group, outcome)
        };
        let kinds: [_; KINDS] = std::array::from_fn(kind);
        let is_one = |index: u8| kinds.get(usize::from(index)).is_some_and(Option::is_some);
        let is_kind = |index: u8| is_one(index) && is_one(index | TAG_BIT);
        let bounds =
            [false, true].map(|is_ipv6| std::array::from_fn(|proto| Bounds::of(is_ipv6, proto as u8, is_kind)));
        let families = [0, KINDS / 2].map(|first| {
            let of_family = || kinds[first..first + KINDS / 2].iter().flatten();
            CommonFacts {
                schema: of_family().map(|kind| kind.group).next().unwrap_or_default(),
                is_classified: of_family().all(|kind| kind.outcome.is_classified()),
                row: of_family()
                    .map(|kind| if kind.words.is_empty() { kind.head } else { Head::Empty })
                    .next()
                    .unwrap_or(Head::Empty),
            }
        });
        Self { kinds: Box::new(kinds.map(|kind| kind.unwrap_or_else(Kind::none))), bounds: Box::new(bounds), families }
    }

    /// Returns the facts about common frames of IPv6, or of IPv4.
    #[inline(always)]
    pub(super) fn family(&self, ipv6: bool) -> &CommonFacts {
        &self.families[usize::from(ipv6)]
    }

    /// Finds the kinds of frames, and returns whether not all are common ones of one family that are classified.
    #[inline(always)]
    pub(super) fn kinds_of(&self, frames: &[&[u8]], kinds: &mut [u8]) -> bool {
        let (mut any, mut all) = (0, u8::MAX);
        for (frame, kind) in frames.iter().zip(kinds) {
            *kind = self.kind_of(frame);
            any |= *kind;
            all &= *kind;
        }
        let is_one_family = any & UNCOMMON == 0 && (any ^ all) & IPV6_BIT == 0;
        !is_one_family || !self.family(any & IPV6_BIT != 0).is_classified
    }

    /// Whether a frame is a common one of IPv6.
    #[inline(always)]
    pub(super) fn is_ipv6(&self, frame: &[u8]) -> bool {
        self.kind_of(frame) & IPV6_BIT != 0
    }

    /// Returns the kind of an Ethernet frame, or [`UNCOMMON`].
    ///
    /// It has no branch that depends on the protocol, because mixed traffic would mispredict it.
    #[inline(always)]
    pub(super) fn kind_of(&self, frame: &[u8]) -> u8 {
        let is_ipv6 = |ether_type| ether_type == IPV6.value as u16;
        self.start(frame, is_ipv6).map_or(UNCOMMON, |(index, _)| index)
    }

    /// Returns the kind of a common frame of IPv6, or of IPv4, and its bytes from the ether type on.
    #[inline(always)]
    pub(super) fn common<'f>(&self, ipv6: bool, frame: &'f [u8]) -> Option<(u8, &'f [u8; IPV4_BYTES])> {
        let at_type = frame.first_chunk::<LEAST>()?[TYPE..].first_chunk()?;
        // Most frames have no tag, so their places are constants.
        let index = self.kind_at(ipv6, at_type, frame.len() - TYPE);
        if index != UNCOMMON { Some((index, at_type)) } else { self.tagged(ipv6, frame) }
    }

    /// Does the same for a frame with a tag.
    #[inline(never)]
    fn tagged<'f>(&self, ipv6: bool, frame: &'f [u8]) -> Option<(u8, &'f [u8; IPV4_BYTES])> {
        let (index, at_type) = self.start(frame, |_| ipv6)?;
        (index != UNCOMMON).then_some((index, at_type))
    }

    /// Returns the kind of a frame of the family that `is_ipv6` says of the ether type, and its bytes from there on.
    ///
    /// The kind is [`UNCOMMON`] if the frame is not common; the result is `None` if it is short as well.
    #[inline(always)]
    fn start<'f>(&self, frame: &'f [u8], is_ipv6: impl Fn(u16) -> bool) -> Option<(u8, &'f [u8; IPV4_BYTES])> {
        let first = frame.first_chunk::<LEAST>()?;
        let outer = be16([first[TYPE], first[TYPE + 1]]);
        // 0x8100 and 0x9100 differ in one bit.
        let is_tagged = (outer & 0xefff == 0x8100) | (outer == 0x88a8);
        let at = TYPE + 4 * usize::from(is_tagged);
        let at_type = first[at..].first_chunk()?;
        let index = self.kind_at(is_ipv6(u16::from_le_bytes([at_type[0], at_type[1]])), at_type, frame.len() - at);
        Some((index | if index != UNCOMMON { u8::from(is_tagged) * TAG_BIT } else { 0 }, at_type))
    }

    /// Returns the kind, without the tag, of a frame with these of its `behind` bytes from the ether type on.
    #[inline(always)]
    fn kind_at(&self, ipv6: bool, at_type: &[u8; IPV4_BYTES], behind: usize) -> u8 {
        let family = usize::from(ipv6);
        let start = &[IPV4, IPV6][family];
        let [a, b, c, d, ..] = *at_type;
        let is_ip = (u32::from_le_bytes([a, b, c, d]) & start.mask == start.value)
            & (u16::from_le_bytes([at_type[8], at_type[9]]) & start.fragment == 0);
        let bounds = self.bounds[family][usize::from(at_type[start.proto])];
        let stated = be16([at_type[start.length], at_type[start.length + 1]]);
        let is_whole = (stated > bounds.stated) & (behind >= usize::from(bounds.bytes));
        if is_ip & is_whole { bounds.index } else { UNCOMMON }
    }

    /// Returns the kind of an index other than [`UNCOMMON`].
    #[inline(always)]
    pub(super) fn kind(&self, index: u8) -> &Kind {
        &self.kinds[usize::from(index & (UNCOMMON - 1))]
    }
}

/// Whether a kind is one of IPv6.
#[inline(always)]
fn is_ipv6(index: u8) -> bool {
    index & IPV6_BIT != 0
}

/// Returns the indices of the first byte of IP and of the first byte behind its header.
fn places(index: u8) -> (u8, u8) {
    let network = if index & TAG_BIT != 0 { 18 } else { 14 };
    (network, network + if is_ipv6(index) { 40 } else { 20 })
}

/// Returns a frame of the kind of this index.
fn sample(index: u8) -> Vec<u8> {
    let is_ipv6 = is_ipv6(index);
    let proto = SAMPLES[usize::from(index % TAG_BIT)][usize::from(is_ipv6)];
    let mut frame = vec![0; 12];
    if index & TAG_BIT != 0 {
        frame.extend([0x81, 0, 0, 0]);
    }
    match is_ipv6 {
        false => {
            frame.extend([8, 0, 0x45, 0, 0, 84, 0, 0, 0, 0, 64, proto]);
            frame.extend([0; 10]);
        }
        true => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 64, proto, 64]);
            frame.extend([0; 32]);
        }
    }
    frame.extend([0; 64]);
    frame
}

impl Kind {
    /// Returns a kind without frames.
    fn none() -> Self {
        let (words, ports) = (Box::default(), [0; 2]);
        Self { upper: 0, group: 0, outcome: Outcome::NotIp, head: Head::Empty, ports, words }
    }

    /// Returns the kind of frames with these headers; `None` if its rows need words that no four bytes hold.
    fn new(index: u8, headers: &Headers, extractor: &Extractor, group: usize, outcome: Outcome) -> Option<Self> {
        let (network, upper) = places(index);
        let ops = if outcome.is_classified() { extractor.words() } else { &[] };
        let head = head_of(ops, is_ipv6(index));
        let (of_head, behind) = ops.split_at(head.words());
        let ports = match of_head {
            [.., source, destination, _] => {
                let present = |op: &WordOp| headers.present().mask_of(op.source);
                let bits = [source, destination].map(|op| op.bits & present(op));
                let set = [source, destination].map(|op| op.absent & !present(op));
                [bits, set].map(|[source, destination]| u64::from(source) | u64::from(destination) << 32)
            }
            _ => [0; 2],
        };
        let load = |op| load_of(op, headers, network, upper);
        Some(Self {
            upper,
            group: group as u8,
            outcome,
            head,
            ports,
            words: behind.iter().map(load).collect::<Option<_>>()?,
        })
    }

    /// Fills the words of a row, which is of the kind's schema, from a frame of this kind.
    #[inline(always)]
    pub(super) fn fill(&self, frame: &[u8], row: &mut [u32]) {
        match self.head {
            Head::Ipv4 => {
                let at_type = frame.get(usize::from(self.upper) - 22..).and_then(|bytes| bytes.first_chunk());
                at_type.into_iter().for_each(|at_type| self.fill_ipv4(at_type, row));
            }
            Head::Ipv6 => self.fill_ipv6(frame, row),
            Head::Empty => {}
        }
        if !self.words.is_empty() {
            self.fill_behind(frame, row);
        }
    }

    /// Fills the head of a row whose head is [`Head::Ipv4`], given the bytes of its frame from the ether type on.
    #[inline(always)]
    pub(super) fn fill_ipv4(&self, at_type: &[u8; IPV4_BYTES], row: &mut [u32]) {
        let Some(words) = row.first_chunk_mut::<5>() else { return };
        [words[0], words[1]] = two_words(at_type, 14);
        [words[2], words[3]] = self.ports(at_type);
        words[4] = at_type[IPV4.proto].into();
    }

    /// Fills the head of a row whose head is [`Head::Ipv6`].
    #[inline(always)]
    pub(super) fn fill_ipv6(&self, frame: &[u8], row: &mut [u32]) {
        const HEAD: usize = 40;
        let Some(bytes) = from_network::<HEAD, { HEAD + 4 }>(self.upper, frame) else { return };
        let Some(words) = row.first_chunk_mut::<11>() else { return };
        for at in 0..4 {
            [words[2 * at], words[2 * at + 1]] = two_words(bytes, 8 + 8 * at);
        }
        [words[8], words[9]] = self.ports(bytes);
        words[10] = bytes[6].into();
    }

    /// Returns both ports, the last four of these bytes, or what stands for absent ones.
    #[inline(always)]
    fn ports<const N: usize>(&self, bytes: &[u8; N]) -> [u32; 2] {
        let ports = u64::from(u32::from_be_bytes(bytes.last_chunk().copied().unwrap_or_default()));
        let [bits, set] = self.ports;
        let ports = (ports >> 16 | ports << 32) & bits | set;
        [ports as u32, (ports >> 32) as u32]
    }

    /// Fills the words behind the head of a row.
    #[inline(never)]
    pub(super) fn fill_behind(&self, frame: &[u8], row: &mut [u32]) {
        for (load, word) in self.words.iter().zip(row.iter_mut().skip(self.head.words())) {
            let at = usize::from(load.at);
            let bytes = frame.get(at..at + 4).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
            *word = u32::from_be_bytes(bytes) >> (load.shift & 31) & load.bits | load.set;
        }
    }
}

/// Returns the header of IP, `HEAD` bytes long, and the four bytes behind it.
#[inline(always)]
fn from_network<const HEAD: usize, const ALL: usize>(upper: u8, frame: &[u8]) -> Option<&[u8; ALL]> {
    frame.get(usize::from(upper) - HEAD..)?.first_chunk()
}

/// Returns eight bytes as two words.
///
/// One load and one store of 64 bits are faster than two of 32.
#[inline(always)]
fn two_words<const N: usize>(bytes: &[u8; N], at: usize) -> [u32; 2] {
    let eight = bytes[at..].first_chunk().copied().unwrap_or_default();
    let words = u64::from_be_bytes(eight);
    [(words >> 32) as u32, words as u32]
}

/// Returns the form of the first words.
fn head_of(ops: &[WordOp], is_ipv6: bool) -> Head {
    let (head, addresses) = match is_ipv6 {
        false => (Head::Ipv4, vec![SRC + 3, DST + 3]),
        true => (Head::Ipv6, (SRC..SRC + 4).chain(DST..DST + 4).collect()),
    };
    let addresses = addresses.into_iter().map(|word| (word, 0, u32::MAX));
    let wanted = addresses.chain([(PORTS, 16, 0xffff), (PORTS, 0, 0xffff), (NET, 0, 0xff)]);
    let wanted: Vec<_> = wanted.collect();
    let is_there = |(op, &(word, shift, bits)): (&WordOp, &(usize, u8, u32))| {
        (usize::from(op.low), op.shift, op.bits) == (word, shift, bits)
    };
    if ops.len() >= wanted.len() && ops.iter().zip(&wanted).all(is_there) { head } else { Head::Empty }
}

/// Returns the load that does what `op` does to these headers; `None` if no load of four bytes does.
fn load_of(op: &WordOp, headers: &Headers, network: u8, upper: u8) -> Option<Load> {
    let constant = |set| Some(Load { at: 0, shift: 0, bits: 0, set });
    if headers.present().mask_of(op.source) == 0 {
        return constant(op.absent);
    }
    if op.bits == 0 {
        return constant(0);
    }
    let is_ipv6 = headers.family() == Some(Family::Ipv6);
    // Bits beyond the word come from the next one.
    if u32::from(op.shift) + op.bits.ilog2() > 31 && usize::from(op.high) != ZERO {
        return None;
    }
    let address = |word: usize| match (is_ipv6, word % 4) {
        (true, at) => Some((network + 8 + 16 * (word / 4) as u8 + 4 * at as u8, 0)),
        (false, 3) => Some((network + 12 + 4 * (word / 4) as u8, 0)),
        _ => None,
    };
    // Each word of the headers is four bytes of the frame, shifted right.
    let (at, shift) = match usize::from(op.low) {
        word @ SRC..NET => match address(word) {
            Some(place) => place,
            None => return constant(0),
        },
        // The protocol is in the low byte, and the differentiated services field is above it.
        NET if op.shift < 8 => (network + if is_ipv6 { 3 } else { 6 }, 0),
        NET => (network, if is_ipv6 { 12 } else { 8 }),
        PORTS => (upper, 0),
        ICMP => (upper, 16),
        TCP_FLAGS => (upper + 10, 0),
        VLAN => (12, 0),
        ETH_TYPE => (network - 4, 0),
        ETH_DST => (0, 16),
        word if word == ETH_DST + 1 => (2, 0),
        ETH_SRC => (4, 0),
        word if word == ETH_SRC + 1 => (8, 0),
        EXT => return constant(0),
        ZERO => return constant(0),
        // Metadata and the interface are in no frame.
        _ => return None,
    };
    let shift = op.shift + shift;
    // Bits left of the field belong to other fields, and `op.bits` masks them.
    (shift < 32).then_some(Load { at, shift, bits: op.bits, set: 0 })
}
