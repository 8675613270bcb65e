//! Keys that no packet has, and keys made possible.
//!
//! The key space holds TCP without ports, ports of ICMP, and a source port without a destination port. A rule that only
//! such keys reach never decides about a packet. Only boxes that are surely impossible count. One box too many would
//! make a rule look shadowed that is not; one too few only makes an example odd.

use super::piece::{Piece, contains, holds};
use crate::policy::Fragments;
use crate::schema::{Family, IPV6_EXTENSIONS, Schema, Source};

/// Fields that packets have together or not at all.
const TOGETHER: [(Source, Source); 6] = [
    (Source::SrcPort, Source::DstPort),
    (Source::TpSrc, Source::TpDst),
    (Source::IcmpType, Source::IcmpCode),
    (Source::VlanVid, Source::VlanPcp),
    (Source::MplsLabel, Source::MplsTc),
    (Source::Ipv4Src, Source::Ipv4Dst),
];

/// Keys of a schema that no packet has, and the protocol that fields depend on.
#[derive(Clone, Debug)]
pub(super) struct Possible {
    /// Impossible boxes, as flat pieces.
    pub(super) boxes: Vec<Piece>,
    /// Number of their pieces, at the beginning, that no row may have.
    rows: usize,
    words: usize,
    /// Word of the protocol, if one field is the protocol.
    protocol: Option<usize>,
    dependents: Vec<Dependent>,
}

/// Field that packets of some protocols have, and others lack.
#[derive(Clone, Debug)]
struct Dependent {
    words: std::ops::Range<usize>,
    absent: u32,
    /// Protocols of packets with the field; `None` if all packets of the schema have it.
    protocols: Option<&'static [u8]>,
}

/// Fields that every IP packet has, beside its addresses.
const OF_IP: [Source; 4] = [Source::Dscp, Source::Ttl, Source::Length, Source::Fragment];

impl Possible {
    /// Returns the keys that no parsed packet has; unless `is_parsed`, only the keys that no row can have.
    pub(super) fn new(schema: &Schema, fragments: Fragments, is_parsed: bool) -> Self {
        let mut made = Maker { schema, boxes: Vec::new() };
        for field in 0..schema.fields().len() {
            made.absent_without_value(field);
        }
        let rows = made.boxes.len();
        let (mut protocol, mut dependents) = (None, Vec::new());
        if is_parsed {
            made.of_parsed(fragments);
            protocol = schema.index_of_source(Source::Proto).map(|field| schema.words_of(field).start);
            for (index, field) in schema.fields().iter().enumerate() {
                let words = schema.words_of(index);
                let absent = schema.words()[words.start].absent;
                let (Some(absent), Some(source)) = (absent, field.source()) else { continue };
                let is_ip = schema.index_of_source(Source::Src).is_some();
                let protocols = match (source, schema.family()) {
                    _ if is_deep(source) => source.protocols(schema.family()),
                    _ if is_ip && OF_IP.contains(&source) => None,
                    (Source::ExtHeaders, Some(Family::Ipv6)) => None,
                    (Source::ExtHeaders | Source::RoutingType, _) => Some(&[][..]),
                    _ => continue,
                };
                dependents.push(Dependent { words, absent, protocols });
            }
        }
        Self { boxes: made.boxes, rows, words: schema.words().len(), protocol, dependents }
    }

    /// Whether a packet may have this key.
    pub(super) fn is_possible(&self, key: &[u32]) -> bool {
        !self.boxes.chunks_exact(self.words).any(|impossible| contains(impossible, key))
    }

    /// Whether a row may be this key: an absent field of several words has no value in its lower words.
    pub(super) fn is_row(&self, key: &[u32]) -> bool {
        !self.boxes[..self.rows].chunks_exact(self.words).any(|impossible| contains(impossible, key))
    }

    /// Whether one impossible box holds all of a box.
    pub(super) fn is_impossible(&self, of: &[Piece]) -> bool {
        self.boxes.chunks_exact(self.words).any(|impossible| holds(impossible, of))
    }

    /// Changes a key of a box so that the fields that its protocol lacks are absent and the others present.
    ///
    /// If the box forbids that, it tries some other protocols of the box. If all fail, the key may stay impossible.
    pub(super) fn repair(&self, key: &mut [u32], of: &[Piece]) {
        let own = self.protocol.map_or(0, |word| key[word]);
        let ends = self.protocol.map_or([0, 0], |word| [of[word].lo, of[word].hi]);
        for protocol in [own, 6, 17, 1, 58, 47, 59, ends[0], ends[1]] {
            let mut other = key.to_vec();
            if let Some(word) = self.protocol {
                other[word] = protocol;
            }
            if self.protocol.is_some_and(|word| !of[word].contains(protocol)) {
                continue;
            }
            if self.dependents.iter().all(|dependent| dependent.fit(protocol, &mut other, of)) {
                key.copy_from_slice(&other);
                return;
            }
        }
    }
}

impl Dependent {
    /// Makes the field present or absent, as packets of the protocol have it; returns false if the box forbids that.
    fn fit(&self, protocol: u32, key: &mut [u32], of: &[Piece]) -> bool {
        let top = self.words.start;
        let is_present = self.protocols.is_none_or(|all| all.iter().any(|&own| u32::from(own) == protocol));
        match (is_present, key[top] == self.absent) {
            (true, false) => true,
            (false, true) => self.words.clone().skip(1).all(|word| key[word] == 0),
            (true, true) => {
                self.words.clone().for_each(|word| key[word] = of[word].lo);
                key[top] < self.absent
            }
            (false, false) => {
                self.words.clone().for_each(|word| key[word] = if word == top { self.absent } else { 0 });
                self.words.clone().all(|word| of[word].contains(key[word]))
            }
        }
    }
}

/// Whether the field is one behind IP, wherever the IP header is.
fn is_deep(source: Source) -> bool {
    use Source::{DstPort, IcmpCode, IcmpType, SrcPort, TcpFlags};
    matches!(source, SrcPort | DstPort | TcpFlags | IcmpType | IcmpCode)
}

struct Maker<'s> {
    schema: &'s Schema,
    boxes: Vec<Piece>,
}

impl Maker<'_> {
    /// Adds a box that is confined in some words.
    fn add(&mut self, confined: &[(usize, Piece)]) {
        let start = self.boxes.len();
        self.boxes.extend(self.schema.words().iter().map(|word| Piece::interval(0, word.max)));
        for &(word, piece) in confined {
            self.boxes[start + word] = piece;
        }
    }

    fn top(&self, field: usize) -> usize {
        self.schema.words_of(field).start
    }

    /// Returns the piece of the field's top word for present values.
    fn present(&self, field: usize) -> (usize, Piece) {
        let top = self.top(field);
        let word = self.schema.words()[top];
        (top, Piece::interval(0, word.absent.map_or(word.max, |absent| absent - 1)))
    }

    /// Returns the piece of the field's top word for the absent value, if packets may lack the field.
    fn absent(&self, field: usize) -> Option<(usize, Piece)> {
        let top = self.top(field);
        let absent = self.schema.words()[top].absent?;
        Some((top, Piece::interval(absent, absent)))
    }

    /// Adds keys in which an absent field has a value in its lower words.
    fn absent_without_value(&mut self, field: usize) {
        let Some(absent) = self.absent(field) else { return };
        for word in self.schema.words_of(field).skip(1) {
            let max = self.schema.words()[word].max;
            self.add(&[absent, (word, Piece::interval(1, max))]);
        }
    }

    fn of_parsed(&mut self, fragments: Fragments) {
        let find = |source| self.schema.index_of_source(source);
        let [proto, ip_proto, ether_type] = [Source::Proto, Source::IpProto, Source::EthType].map(find);
        for (field, source) in self.sources() {
            let protocols = source.protocols(self.schema.family());
            let of = if is_deep(source) { proto } else { ip_proto };
            if let (Some(protocols), Some(of)) = (protocols, of) {
                let allowed: Vec<u32> = protocols.iter().map(|&protocol| protocol.into()).collect();
                self.needs(field, of, &allowed);
                // A later fragment of TCP lacks its ports; of ARP the protocol is the operation.
                if let Some(absent) = self.absent(field).filter(|_| is_deep(source) && fragments == Fragments::Unknown)
                {
                    for &protocol in &allowed {
                        self.add(&[absent, (self.top(of), Piece::interval(protocol, protocol))]);
                    }
                }
            }
            if let (Some(types), Some(of)) = (source.ether_types(), ether_type) {
                let mut allowed: Vec<u32> = types.iter().map(|&kind| kind.into()).collect();
                allowed.sort_unstable();
                self.needs(field, of, &allowed);
            }
            match (source.family(), self.schema.family()) {
                (Some(Family::Ipv6), Some(Family::Ipv4)) => self.add(&[self.present(field)]),
                (Some(Family::Ipv6), Some(Family::Ipv6)) if source == Source::ExtHeaders => {
                    let absent = self.absent(field);
                    absent.iter().for_each(|absent| self.add(&[*absent]));
                }
                _ => {}
            }
        }
        if let (Some(proto), Some(Family::Ipv6)) = (proto, self.schema.family()) {
            for extension in IPV6_EXTENSIONS {
                self.add(&[(self.top(proto), Piece::interval(extension.into(), extension.into()))]);
            }
        }
        // A packet with addresses of IP has the rest of the header, too.
        let is_ip = find(Source::Src).is_some();
        for field in OF_IP.into_iter().filter(|_| is_ip).filter_map(find) {
            let absent = self.absent(field);
            absent.iter().for_each(|absent| self.add(&[*absent]));
        }
        for (one, other) in TOGETHER {
            let find = |source| self.schema.index_of_source(source);
            if let (Some(one), Some(other)) = (find(one), find(other)) {
                for (absent, present) in [(one, other), (other, one)] {
                    if let Some(absent) = self.absent(absent) {
                        self.add(&[absent, self.present(present)]);
                    }
                }
            }
        }
    }

    fn sources(&self) -> Vec<(usize, Source)> {
        let fields = self.schema.fields().iter().enumerate();
        fields.filter_map(|(index, field)| Some((index, field.source()?))).collect()
    }

    /// Adds keys in which `field` is present while the value of `of` is none of the allowed ones, which are sorted.
    fn needs(&mut self, field: usize, of: usize, allowed: &[u32]) {
        if field == of || self.schema.words_of(of).len() != 1 {
            return;
        }
        let (word, all) = (self.top(of), self.schema.words()[self.top(of)].max);
        let mut from = 0;
        for &value in allowed {
            if value > from {
                self.add(&[self.present(field), (word, Piece::interval(from, value - 1))]);
            }
            from = value + 1;
        }
        if from <= all {
            self.add(&[self.present(field), (word, Piece::interval(from, all))]);
        }
    }
}
