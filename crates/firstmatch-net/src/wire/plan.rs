//! Fast path for common frames: fills the rows of a kind straight from the frame.
//!
//! A frame is *common* if it is Ethernet with at most one VLAN tag, IPv4 without options or IPv6 without extension
//! headers, no fragment, and whole as far as fields are read. All common frames of one [`Kind`] have the same fields at
//! the same places, so outcome, schema and values for absent are known in advance. [`Kinds`] finds the kind of a frame.
//! [`Plan::new`] parses one sample of each kind with [`parse_frame`] and keeps the result. Every other frame is parsed
//! by [`parse_frame`].
//!
//! For example, an untagged TCP segment over IPv4 has its ports 34 bytes from its start. Its row of a 5-tuple is three
//! loads (source, destination, both ports) and the protocol.
//!
//! # Invariants
//!
//! - A common frame gets the row, the schema and the outcome that [`parse_frame`] would give it (`tests/net/fast.rs`, and
//!   the fuzz target `frames`).

use firstmatch_core::schema::Family;

use super::extract::{Extractor, WordOp};
use super::headers::{
    DST, ETH_DST, ETH_SRC, ETH_TYPE, EXT, FRAGMENT, Headers, ICMP, LENGTH, NET, PORTS, SRC, TCP_FLAGS, TTL, VLAN, ZERO,
};
use super::kinds::{IPV4_BYTES, IPV6_BIT, KINDS, Kinds, SAMPLES, TAG_BIT, TYPE};
use super::parse::parse_frame;
use super::{Config, LinkType, Outcome};

/// Maximum number of schemas that the packets of a batch have rows in.
pub(super) const TARGETS: usize = 3;
/// Target of packets that have no row.
pub(super) const NO_TARGET: u8 = TARGETS as u8;
/// Form of the first words of a row; each form has its own function that fills them.
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
    /// Index of the schema.
    pub(super) group: u8,
    pub(super) outcome: Outcome,
    head: Head,
    /// Mask of both ports, and the values that absent ports have; the source port is in the low half.
    ports: [u64; 2],
    /// Words after the head.
    words: Box<[Load]>,
}

/// Word of a row: bits of four bytes of the frame, or a constant.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Index of the first of the four bytes.
    at: u8,
    shift: u8,
    bits: u32,
    /// Bits that are always set: the value for absent, or none.
    set: u32,
}

/// Kinds of common frames for the schemas of one batch.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) recognised: Kinds,
    kinds: Box<[Kind; KINDS]>,
    /// Outcomes by kind, in one cache line.
    outcomes: [Outcome; KINDS],
    /// Target of IPv4 and of IPv6, if every kind of the family is classified.
    families: [Option<u8>; 2],
    /// Index in `targets`, by kind, or [`NO_TARGET`] unless the frames are classified.
    target_of_kind: [u8; 2 * KINDS],
    /// Schemas that packets of IPv4, of IPv6 and of neither have rows in; they may be the same.
    pub(super) targets: [Target; TARGETS],
}

/// Schema that packets of a batch have rows in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Index of the schema.
    pub(super) schema: u8,
    /// Form of all rows of common frames, if it is the form of one family and no words follow it.
    pub(super) row: Head,
}

impl Plan {
    /// Returns the plan for these extractors; `route` returns the index of a packet's schema and its outcome there.
    ///
    /// `schemas` are those of packets of IPv4, of IPv6 and of neither; they may be the same.
    pub(super) fn new<'e>(
        config: &Config,
        schemas: [u8; TARGETS],
        extractor: impl Fn(usize) -> Option<&'e Extractor>,
        route: impl Fn(&Headers) -> (usize, Outcome),
    ) -> Self {
        let kind = |index: usize| {
            let index = index as u8;
            let sample = sample(index);
            let mut headers = Headers::new(0, config.metadata);
            parse_frame(config, LinkType::Ethernet, &sample, sample.len() as u32, &mut headers);
            let (group, outcome) = route(&headers);
            let extractor = extractor(group).filter(|_| headers.reason() == Outcome::Complete)?;
            Kind::new(index, &headers, extractor, group, outcome)
        };
        let kinds: [_; KINDS] = std::array::from_fn(kind);
        let is_one = |index: u8| kinds.get(usize::from(index)).is_some_and(Option::is_some);
        let recognised = Kinds::new(|index| is_one(index) && is_one(index | TAG_BIT));
        let target = |schema: u8| -> Target {
            let of_schema = kinds.iter().flatten().filter(|kind| kind.outcome.is_classified() && kind.group == schema);
            let mut rows = of_schema.map(|kind| if kind.words.is_empty() { kind.head } else { Head::Empty });
            let first = rows.next().unwrap_or(Head::Empty);
            Target { schema, row: if rows.all(|row| row == first) { first } else { Head::Empty } }
        };
        let target_of_kind = |index: usize| -> u8 {
            let kind = kinds.get(index).and_then(Option::as_ref).filter(|kind| kind.outcome.is_classified());
            kind.map_or(NO_TARGET, |kind| target_of(&schemas, kind.group))
        };
        let target_of_kind: [u8; 2 * KINDS] = std::array::from_fn(target_of_kind);
        let families = [0, KINDS / 2].map(|first| {
            let mut kinds = kinds[first..][..KINDS / 2].iter().flatten();
            let is_classified = kinds.all(|kind| kind.outcome.is_classified());
            target_of_kind[first..][..KINDS / 2].iter().copied().find(|&of| of != NO_TARGET).filter(|_| is_classified)
        });
        let targets = schemas.map(target);
        let kinds = Box::new(kinds.map(|kind| kind.unwrap_or_else(Kind::none)));
        let outcomes = kinds.each_ref().map(|kind| kind.outcome);
        Self { recognised, kinds, outcomes, families, target_of_kind, targets }
    }

    /// Returns the target of the packets of a schema.
    pub(super) fn target_of(&self, schema: u8) -> u8 {
        target_of(&self.targets.map(|target| target.schema), schema)
    }

    /// Returns the target of a family's kinds, if all of them are classified.
    #[inline(always)]
    pub(super) fn family(&self, is_ipv6: bool) -> Option<u8> {
        self.families[usize::from(is_ipv6)]
    }

    /// Returns the target of a kind or of [`UNCOMMON`].
    #[inline(always)]
    pub(super) fn target(&self, kind: u8) -> u8 {
        self.target_of_kind[usize::from(kind) % (2 * KINDS)]
    }

    /// Returns the kind of an index other than [`UNCOMMON`].
    #[inline(always)]
    pub(super) fn kind(&self, index: u8) -> &Kind {
        &self.kinds[usize::from(index) % KINDS]
    }

    /// Returns the outcome of a kind other than [`UNCOMMON`].
    #[inline(always)]
    pub(super) fn outcome(&self, index: u8) -> Outcome {
        self.outcomes[usize::from(index) % KINDS]
    }
}

/// Returns the first index of a schema; every schema that a packet has a row in is among `schemas`.
fn target_of(schemas: &[u8; TARGETS], schema: u8) -> u8 {
    schemas.iter().position(|&of| of == schema).map_or(NO_TARGET, |at| at as u8)
}

/// Whether a kind is one of IPv6.
#[inline(always)]
fn is_ipv6(index: u8) -> bool {
    index & IPV6_BIT != 0
}

/// Returns the indices of the first byte of IP and of the first byte after its header.
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
        Self { group: 0, outcome: Outcome::NotIp, head: Head::Empty, ports, words }
    }

    /// Returns the kind of frames with these headers; `None` if no four bytes hold one of the words of its rows.
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
        Some(Self { group: group as u8, outcome, head, ports, words: behind.iter().map(load).collect::<Option<_>>()? })
    }

    /// Fills the words of a row, which is of the kind's schema, from a frame of this kind.
    #[inline(always)]
    pub(super) fn fill(&self, index: u8, frame: &[u8], row: &mut [u32]) {
        match self.head {
            Head::Ipv4 => self.fill_ipv4(index, frame, row),
            Head::Ipv6 => self.fill_ipv6(index, frame, row),
            Head::Empty => {}
        }
        if !self.words.is_empty() {
            self.fill_behind(frame, row);
        }
    }

    /// Fills the head of a row whose head is [`Head::Ipv4`], from a frame of the kind of this index.
    #[inline(always)]
    pub(super) fn fill_ipv4(&self, index: u8, frame: &[u8], row: &mut [u32]) {
        let Some(at_type) = at_type::<IPV4_BYTES>(index, frame) else { return };
        let Some(words) = row.first_chunk_mut::<5>() else { return };
        [words[0], words[1]] = two_words(at_type, 14);
        [words[2], words[3]] = self.ports(at_type);
        words[4] = at_type[11].into();
    }

    /// Fills the head of a row whose head is [`Head::Ipv6`], from a frame of the kind of this index.
    #[inline(always)]
    pub(super) fn fill_ipv6(&self, index: u8, frame: &[u8], row: &mut [u32]) {
        let Some(at_type) = at_type::<46>(index, frame) else { return };
        let Some(words) = row.first_chunk_mut::<11>() else { return };
        for at in 0..4 {
            [words[2 * at], words[2 * at + 1]] = two_words(at_type, 10 + 8 * at);
        }
        [words[8], words[9]] = self.ports(at_type);
        words[10] = at_type[8].into();
    }

    /// Returns the source and destination port from the last four bytes of `bytes`. A port that frames of this kind
    /// lack gets its absent value.
    #[inline(always)]
    fn ports<const N: usize>(&self, bytes: &[u8; N]) -> [u32; 2] {
        let ports = u64::from(u32::from_be_bytes(bytes.last_chunk().copied().unwrap_or_default()));
        let [bits, set] = self.ports;
        let ports = (ports >> 16 | ports << 32) & bits | set;
        [ports as u32, (ports >> 32) as u32]
    }

    /// Fills the words after the head of a row.
    #[inline(never)]
    pub(super) fn fill_behind(&self, frame: &[u8], row: &mut [u32]) {
        for (load, word) in self.words.iter().zip(row.iter_mut().skip(self.head.words())) {
            let at = usize::from(load.at);
            let bytes = frame.get(at..at + 4).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
            *word = u32::from_be_bytes(bytes) >> (load.shift & 31) & load.bits | load.set;
        }
    }
}

/// Returns the bytes from the ether type on of a frame of the kind of this index.
#[inline(always)]
fn at_type<const N: usize>(index: u8, frame: &[u8]) -> Option<&[u8; N]> {
    frame.get(TYPE + usize::from(index & TAG_BIT)..)?.first_chunk()
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
    // Bits beyond the word come from the next word.
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
        TTL => (network + if is_ipv6 { 4 } else { 5 }, 0),
        // IPv6 states the length without its header, and a load cannot add that.
        LENGTH if is_ipv6 => return None,
        // The field is wider than that of IPv4.
        LENGTH => return Some(Load { at: network, shift: op.shift, bits: op.bits & 0xffff, set: 0 }),
        // A common frame is no fragment.
        FRAGMENT => return constant(0),
        EXT => return constant(0),
        ZERO => return constant(0),
        // Metadata and the interface are in no frame.
        _ => return None,
    };
    let shift = op.shift + shift;
    // Bits left of the field belong to other fields, and `op.bits` masks them.
    (shift < 32).then_some(Load { at, shift, bits: op.bits, set: 0 })
}
