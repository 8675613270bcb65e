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
const NEEDED: [u32; 4] = [0, 4, 14, 2];
/// Bounds of a kind without frames: no header states this length.
const NEVER: [u32; 2] = [u32::MAX; 2];
/// Index of the kind by family and protocol, without the tag.
static KIND_OF: [[u8; 256]; 2] = [kinds_of(0), kinds_of(1)];
/// Bytes that every common frame has: two addresses, a tag, the ether type and a header of IPv4.
const LEAST: usize = 38;

/// Start of the common headers of a family.
struct Start {
    /// Ether type, the first byte in the low half.
    ether_type: u16,
    /// Bits of the first eight bytes of IP that are tested, the first byte the lowest, and their value.
    mask: u64,
    value: u64,
    /// Bits to the right of the length.
    length_shift: u32,
}

/// Version, no options, neither more fragments nor an offset.
const IPV4: Start = Start { ether_type: 0x0008, mask: 0xff3f_0000_0000_00ff, value: 0x45, length_shift: 16 };
/// Version.
const IPV6: Start = Start { ether_type: 0xdd86, mask: 0xf0, value: 0x60, length_shift: 32 };

const fn kinds_of(family: usize) -> [u8; 256] {
    let mut kinds = [0; 256];
    let mut proto = 0;
    while proto < 256 {
        let group = match proto as u8 {
            6 => PORTS_AND_FLAGS,
            17 | 33 | 132 | 136 => PORTS_ONLY,
            icmp if icmp == SAMPLES[TYPE_AND_CODE as usize][family] => TYPE_AND_CODE,
            _ => NOTHING,
        };
        let is_read = family == 0 || !is_extension(proto as u8);
        kinds[proto] = if is_read { group | (family as u8 * IPV6_BIT) } else { UNCOMMON };
        proto += 1;
    }
    kinds
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

/// Common frames that have the same fields at the same places.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Index of the byte behind the IP header.
    upper: u8,
    /// Index of the schema.
    pub(super) group: u8,
    pub(super) outcome: Outcome,
    head: Head,
    /// Masks of the ports, and the values that absent ports have; source first.
    ports: [[u32; 2]; 2],
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
    /// Least bytes of a frame, and least length that its IP header states, of each kind.
    ///
    /// No header states as much as [`NEVER`].
    bounds: [[u32; 2]; KINDS],
    /// Whether every kind of IPv4 is classified, and every kind of IPv6.
    classifies: [bool; 2],
    /// Index of the schema of IPv4's kinds, and of IPv6's. A schema fits a family, so all kinds of one have the same.
    schemas: [u8; 2],
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
        let bounds = std::array::from_fn(|index| if kinds[index].is_some() { bounds(index as u8) } else { NEVER });
        let classifies = [0, KINDS / 2].map(|first| {
            let of_family = kinds[first..first + KINDS / 2].iter().flatten();
            of_family.into_iter().all(|kind| kind.outcome.is_classified())
        });
        let schemas = [0, KINDS / 2].map(|first| {
            let of_family = kinds[first..first + KINDS / 2].iter().flatten();
            of_family.map(|kind| kind.group).next().unwrap_or_default()
        });
        Self { kinds: Box::new(kinds.map(|kind| kind.unwrap_or_else(Kind::none))), bounds, classifies, schemas }
    }

    /// Whether all common frames of IPv6, or of IPv4, are classified.
    #[inline(always)]
    pub(super) fn classifies(&self, ipv6: bool) -> bool {
        self.classifies[usize::from(ipv6)]
    }

    /// Returns the index of the schema of common frames of IPv6, or of IPv4.
    #[inline(always)]
    pub(super) fn schema(&self, ipv6: bool) -> u8 {
        self.schemas[usize::from(ipv6)]
    }

    /// Returns the kind of an Ethernet frame, or [`UNCOMMON`].
    ///
    /// It has no branch that depends on the protocol, because mixed traffic would mispredict it.
    #[inline(always)]
    pub(super) fn kind_of(&self, frame: &[u8]) -> u8 {
        let Some(first) = frame.first_chunk::<LEAST>() else { return UNCOMMON };
        let outer = be16([first[12], first[13]]);
        let is_tagged = (outer == 0x8100) | (outer == 0x88a8) | (outer == 0x9100);
        let Some(at_type) = first[12 + 4 * usize::from(is_tagged)..].first_chunk::<22>() else { return UNCOMMON };
        let ether_type = u16::from_le_bytes([at_type[0], at_type[1]]);
        let is_ipv6 = usize::from(ether_type == IPV6.ether_type);
        let expected = &[IPV4, IPV6][is_ipv6];
        let [_, _, ip @ ..] = at_type;
        let [a, b, c, d, e, f, g, h, ..] = *ip;
        let start = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let stated = u32::from(((start >> expected.length_shift) as u16).swap_bytes());
        let kind = KIND_OF[is_ipv6][usize::from(ip[9 - 3 * is_ipv6])];
        let index = (kind | (u8::from(is_tagged) * TAG_BIT)) & (UNCOMMON - 1);
        let [least, least_stated] = self.bounds[usize::from(index)];
        let is_ip = (ether_type == expected.ether_type) & (start & expected.mask == expected.value);
        let fits = is_ip & (kind != UNCOMMON) & (stated >= least_stated) & (frame.len() >= least as usize);
        if fits { index } else { UNCOMMON }
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

/// Returns the least bytes of a frame of this kind, and the least length that its IP header states.
fn bounds(index: u8) -> [u32; 2] {
    let needed = NEEDED[usize::from(index % TAG_BIT)];
    // IPv6 states the length behind its header, and 0 states nothing.
    let stated = if is_ipv6(index) { needed.max(1) } else { needed + 20 };
    // Words are loads of four bytes.
    [u32::from(places(index).1) + needed.max(4), stated]
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
        let (words, ports) = (Box::default(), [[0; 2]; 2]);
        Self { upper: 0, group: 0, outcome: Outcome::NotIp, head: Head::Empty, ports, words }
    }

    /// Returns the kind of frames with these headers; `None` if its rows need words that no four bytes hold.
    fn new(index: u8, headers: &Headers, extractor: &Extractor, group: usize, outcome: Outcome) -> Option<Self> {
        let (network, upper) = places(index);
        let ops = if outcome.is_classified() { extractor.words() } else { &[] };
        let head = head_of(ops, is_ipv6(index));
        let (of_head, behind) = ops.split_at(match head {
            Head::Ipv4 => 5,
            Head::Ipv6 => 11,
            Head::Empty => 0,
        });
        let ports = match of_head {
            [.., source, destination, _] => [source, destination].map(|op| {
                let present = headers.present().mask_of(op.source);
                [op.bits & present, op.absent & !present]
            }),
            _ => [[0; 2]; 2],
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
            Head::Ipv4 => self.fill_ipv4(frame, row),
            Head::Ipv6 => self.fill_ipv6(frame, row),
            Head::Empty => self.fill_words(0, frame, row),
        }
    }

    #[inline(always)]
    fn fill_ipv4(&self, frame: &[u8], row: &mut [u32]) {
        const HEAD: usize = 20;
        let Some(bytes) = from_network::<HEAD, { HEAD + 4 }>(self.upper, frame) else { return };
        let Some(words) = row.first_chunk_mut::<5>() else { return };
        let &[_, _, _, src, dst, ports] = fours(bytes);
        let ports = u32::from_be_bytes(ports);
        words[0] = u32::from_be_bytes(src);
        words[1] = u32::from_be_bytes(dst);
        words[2] = self.port(0, ports >> 16);
        words[3] = self.port(1, ports);
        words[4] = bytes[9].into();
        self.fill_words(5, frame, row);
    }

    #[inline(always)]
    fn fill_ipv6(&self, frame: &[u8], row: &mut [u32]) {
        const HEAD: usize = 40;
        let Some(bytes) = from_network::<HEAD, { HEAD + 4 }>(self.upper, frame) else { return };
        let Some(words) = row.first_chunk_mut::<11>() else { return };
        let [_, _, addresses @ .., ports] = fours::<44, 11>(bytes);
        let addresses: &[[u8; 4]; 8] = addresses;
        for (word, bytes) in words.iter_mut().zip(addresses) {
            *word = u32::from_be_bytes(*bytes);
        }
        let ports = u32::from_be_bytes(*ports);
        words[8] = self.port(0, ports >> 16);
        words[9] = self.port(1, ports);
        words[10] = bytes[6].into();
        self.fill_words(11, frame, row);
    }

    #[inline(always)]
    fn port(&self, which: usize, value: u32) -> u32 {
        let [bits, set] = self.ports[which];
        value & bits | set
    }

    #[inline(always)]
    fn fill_words(&self, first: usize, frame: &[u8], row: &mut [u32]) {
        if !self.words.is_empty() {
            self.fill_behind(first, frame, row);
        }
    }

    #[inline(never)]
    fn fill_behind(&self, first: usize, frame: &[u8], row: &mut [u32]) {
        for (load, word) in self.words.iter().zip(row.iter_mut().skip(first)) {
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

/// Returns the bytes in fours; `M` is a quarter of `N`.
#[inline(always)]
fn fours<const N: usize, const M: usize>(bytes: &[u8; N]) -> &[[u8; 4]; M] {
    const { assert!(N == 4 * M) };
    let (fours, _) = bytes.as_chunks();
    fours.first_chunk().unwrap_or(&[[0; 4]; M])
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
