//! Keys that no packet has, and keys made possible.
//!
//! The key space holds TCP without ports, ports of ICMP, and a source port without a destination port. A rule that only
//! such keys reach never decides about a packet. Only boxes that are surely impossible count. One box too many would
//! make a rule look shadowed that is not; one too few only makes an example odd.
//!
//! Only classified packets have keys, so the fields that are needed count. For example, no classified TCP packet lacks
//! its ports if these are needed. Otherwise a packet that was cut short before its ports is classified, too, and nothing
//! is said about them.

use super::cover::{Cover, Work, search};
use super::hidden::{self, FRAGMENT_BIT, LATER, ROUTING_BIT, UPPER};
use super::piece::{Piece, contains, holds, overlap};
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
    ip: IpWords,
    /// Words of fields that are not needed, each with the value that most packets have.
    free: Vec<(usize, u32)>,
}

/// Words of IP packets that depend on other words.
#[derive(Clone, Copy, Debug, Default)]
struct IpWords {
    fragment: Option<usize>,
    /// Bits of extension headers, of IPv6 alone.
    extensions: Option<usize>,
    /// Routing type and its absent value, of IPv6 alone.
    routing: Option<(usize, u32)>,
    length: Option<usize>,
}

/// Fields that decide which keys packets have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed<'a> {
    pub(super) fragments: Fragments,
    /// Whether a packet is classified only if the field is known, by field.
    pub(super) fields: &'a [bool],
    /// Whether some rule tests the field, by field.
    pub(super) tested: &'a [bool],
    /// Whether packets have one more routing header than their bits of extension headers show.
    pub(super) has_more_routing: bool,
}

/// Field that packets of some protocols have, and others lack.
#[derive(Clone, Debug)]
struct Dependent {
    words: std::ops::Range<usize>,
    absent: u32,
    /// Protocols of packets with the field; `None` if all packets of the schema have it.
    protocols: Option<&'static [u8]>,
    is_needed: bool,
}

/// Length of a packet in bytes that is enough for all headers.
const USUAL: u32 = 100;

/// Fields that every IP packet has, beside its addresses.
const OF_IP: [Source; 4] = [Source::Dscp, Source::Ttl, Source::Length, Source::Fragment];

impl Possible {
    /// Returns the keys that no classified packet has; without `needed`, only the keys that no row can have.
    pub(super) fn new(schema: &Schema, needed: Option<Needed<'_>>) -> Self {
        let mut made = Maker { schema, boxes: Vec::new() };
        for field in 0..schema.fields().len() {
            made.absent_without_value(field);
        }
        let rows = made.boxes.len();
        let (mut protocol, mut dependents, mut ip, mut free) = (None, Vec::new(), IpWords::default(), Vec::new());
        if let Some(needed) = needed {
            made.of_parsed(needed);
            let find = |source| schema.index_of_source(source).map(|field| schema.words_of(field).start);
            if schema.family().is_some() && find(Source::Src).is_some() {
                let is_free = |source| schema.index_of_source(source).is_some_and(|field| !needed.fields[field]);
                let absent = hidden::absent(schema, Source::VlanVid).map(|(_, absent)| absent.lo).unwrap_or_default();
                for (source, usual) in [(Source::VlanVid, absent), (Source::Ttl, 64), (Source::Length, USUAL)] {
                    free.extend(find(source).filter(|_| is_free(source)).map(|word| (word, usual)));
                }
                (ip.fragment, ip.length) = (find(Source::Fragment), find(Source::Length));
            }
            if schema.family() == Some(Family::Ipv6) && find(Source::Src).is_some() {
                ip.extensions = find(Source::ExtHeaders);
                ip.routing = find(Source::RoutingType).and_then(|word| Some((word, schema.words()[word].absent?)));
            }
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
                let is_needed = needed.fields[index];
                dependents.push(Dependent { words, absent, protocols, is_needed });
            }
        }
        Self { boxes: made.boxes, rows, words: schema.words().len(), protocol, dependents, ip, free }
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

    /// Whether no packet is in a box, for certain.
    pub(super) fn is_empty(&self, of: &[Piece], work: &mut Work) -> bool {
        let overlapping = self.boxes.chunks_exact(self.words).filter(|impossible| overlap(impossible, of));
        let entries: Vec<Piece> = overlapping.flatten().copied().collect();
        search(of, &entries, work) == Cover::Covered
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
            let is_later = self.ip.fragment.is_some_and(|word| other[word] == LATER);
            let protocol = if is_later { u32::MAX } else { protocol };
            if self.dependents.iter().all(|dependent| dependent.fit(protocol, &mut other, of)) {
                self.ip.repair(&mut other, of);
                key.copy_from_slice(&other);
                return;
            }
        }
    }
}

impl Possible {
    /// Gives the fields of a key that are not needed the values that most packets of its protocol have, as far as the
    /// box allows.
    pub(super) fn settle(&self, key: &mut [u32], of: &[Piece]) {
        let is_later = self.ip.fragment.is_some_and(|word| key[word] == LATER);
        let protocol = self.protocol.map_or(u32::MAX, |word| if is_later { u32::MAX } else { key[word] });
        for dependent in self.dependents.iter().filter(|dependent| !dependent.is_needed) {
            let mut other = key.to_vec();
            if dependent.fit(protocol, &mut other, of) {
                key.copy_from_slice(&other);
            }
        }
        let usual = self.free.iter().filter(|&&(word, usual)| of[word].contains(usual));
        usual.for_each(|&(word, usual)| key[word] = usual);
        if let Some(word) = self.ip.extensions.filter(|&word| self.has_free_word(word)) {
            let bits = key[word];
            key[word] = 0;
            self.ip.repair_extensions(key, of);
            if !of[word].contains(key[word]) {
                key[word] = bits;
            }
        }
    }

    /// Whether the field of a word is not needed.
    fn has_free_word(&self, word: usize) -> bool {
        self.dependents.iter().any(|of| of.words.start == word && !of.is_needed)
    }
}

impl IpWords {
    /// Changes extension headers and length, as far as the box allows, to what the other words ask for.
    fn repair(self, key: &mut [u32], of: &[Piece]) {
        self.repair_extensions(key, of);
        if let Some(word) = self.length {
            // Most packets are that long.
            let usual = of[word].and(Piece::interval(USUAL, u16::MAX.into()));
            key[word] = usual.map_or(key[word], |usual| usual.lo);
        }
    }

    fn repair_extensions(self, key: &mut [u32], of: &[Piece]) {
        let Some(word) = self.extensions else { return };
        let has_fragment = self.fragment.is_some_and(|fragment| (1..=LATER).contains(&key[fragment]));
        let has_routing = self.routing.is_some_and(|(routing, absent)| key[routing] != absent);
        let others = key[word] & 0x1F & !(FRAGMENT_BIT | ROUTING_BIT);
        let bits = [(has_fragment, FRAGMENT_BIT), (has_routing, ROUTING_BIT)];
        let asked = bits.iter().filter(|(has, _)| *has).fold(0, |all, (_, bit)| all | bit);
        let found =
            [others | asked, asked, others | asked | FRAGMENT_BIT].into_iter().find(|&at| of[word].contains(at));
        key[word] = found.unwrap_or(key[word]);
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

impl Needed<'_> {
    /// Whether a classified packet surely shows the field or surely lacks it.
    ///
    /// Packets may hide these fields while they show their addresses. For example, a length of 0 is hidden.
    fn shows(&self, field: usize, source: Source) -> bool {
        let may_be_hidden =
            is_deep(source) || matches!(source, Source::Length | Source::ExtHeaders | Source::RoutingType);
        self.fields[field] || !may_be_hidden
    }
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

    fn of_parsed(&mut self, needed: Needed<'_>) {
        let find = |source| self.schema.index_of_source(source);
        let [proto, ip_proto, ether_type] = [Source::Proto, Source::IpProto, Source::EthType].map(find);
        for (field, source) in self.sources() {
            let protocols = source.protocols(self.schema.family());
            let of = if is_deep(source) { proto } else { ip_proto };
            if let (Some(protocols), Some(of)) = (protocols, of)
                && needed.shows(field, source)
            {
                let allowed: Vec<u32> = protocols.iter().map(|&protocol| protocol.into()).collect();
                self.needs(field, of, &allowed);
                if is_deep(source) {
                    self.has(field, of, &allowed, needed.fragments);
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
            let shown = |source| self.schema.index_of_source(source).filter(|&field| needed.shows(field, source));
            if let (Some(one), Some(other)) = (shown(one), shown(other)) {
                for (absent, present) in [(one, other), (other, one)] {
                    if let Some(absent) = self.absent(absent) {
                        self.add(&[absent, self.present(present)]);
                    }
                }
            }
        }
        if let Some(family) = self.schema.family().filter(|_| is_ip) {
            self.fragments(family, needed);
            self.extensions(family, needed);
            self.lengths(family, needed);
        }
    }

    /// Adds keys of fragments that no packet has.
    fn fragments(&mut self, family: Family, needed: Needed<'_>) {
        let find = |source| self.schema.index_of_source(source);
        let Some(fragment) = find(Source::Fragment).map(|field| self.top(field)) else { return };
        self.add(&[(fragment, Piece::interval(LATER + 1, LATER + 1))]);
        let is_needed =
            |sources: &[Source]| sources.iter().filter_map(|&source| find(source)).any(|at| needed.fields[at]);
        let also = [Source::Proto, Source::ExtHeaders, Source::RoutingType];
        let hides = is_needed(&UPPER) || family == Family::Ipv6 && is_needed(&also);
        let later = (fragment, Piece::interval(LATER, LATER));
        match needed.fragments {
            Fragments::Unknown if hides => self.add(&[later]),
            Fragments::Unknown => {}
            Fragments::Layer3 => {
                let present: Vec<_> =
                    UPPER.iter().filter_map(|&source| find(source)).map(|at| self.present(at)).collect();
                present.into_iter().for_each(|present| self.add(&[later, present]));
            }
        }
    }

    /// Adds keys whose extension headers contradict other fields.
    fn extensions(&mut self, family: Family, needed: Needed<'_>) {
        let shown = |source| self.schema.index_of_source(source).filter(|&field| needed.shows(field, source));
        let (Family::Ipv6, Some(bits)) = (family, shown(Source::ExtHeaders)) else { return };
        let word = self.top(bits);
        let with = |value: u32, mask: u32| Piece::new(0, 0xFF, value, mask).map(|piece| (word, piece));
        let mut boxes: Vec<Vec<(usize, Piece)>> =
            (5..8).filter_map(|bit| with(1 << bit, 1 << bit)).map(|at| vec![at]).collect();
        if let Some(fragment) = self.schema.index_of_source(Source::Fragment) {
            let is_one = (self.top(fragment), Piece::interval(1, LATER));
            boxes.extend(with(0, FRAGMENT_BIT).map(|without| vec![without, is_one]));
        }
        if let Some(routing) = shown(Source::RoutingType) {
            boxes.extend(with(0, ROUTING_BIT).map(|without| vec![without, self.present(routing)]));
            boxes.extend(
                with(ROUTING_BIT, ROUTING_BIT).zip(self.absent(routing)).map(|(with, absent)| vec![with, absent]),
            );
        }
        boxes.iter().for_each(|of| self.add(of));
    }

    /// Adds keys whose length is too small for the headers that they have.
    fn lengths(&mut self, family: Family, needed: Needed<'_>) {
        let find = |source| self.schema.index_of_source(source);
        let Some(length) = find(Source::Length).filter(|&field| needed.fields[field]) else { return };
        let word = self.top(length);
        let (least, header, most) = match family {
            Family::Ipv4 => (20, 20, u32::from(u16::MAX)),
            // A length of 0 behind the header states none.
            Family::Ipv6 => (41, 40, u32::from(u16::MAX) + 40),
        };
        let all = self.schema.words()[word].absent.map_or(self.schema.words()[word].max, |absent| absent - 1);
        self.add(&[(word, Piece::interval(0, least - 1))]);
        self.add(&[(word, Piece::interval(most + 1, all))]);
        // Transport headers, then extension headers; each of these has 8 bytes or more.
        let mut upper: Vec<(u32, Vec<(usize, Piece)>)> = vec![(0, Vec::new())];
        for (source, bytes) in UPPER.into_iter().zip([4, 4, 14, 2, 2]) {
            if let Some(field) = find(source).filter(|&field| needed.fields[field]) {
                upper.push((bytes, vec![self.present(field)]));
            }
        }
        // Bytes of extension headers, given a set of them.
        let extensions = |set: u32| {
            let more = if needed.has_more_routing { ROUTING_BIT } else { 0 };
            8 * ((set | more).count_ones() + more.count_ones())
        };
        let mut before: Vec<(u32, Vec<(usize, Piece)>)> = vec![(extensions(0), Vec::new())];
        if family == Family::Ipv6 {
            let fragment = find(Source::Fragment).map(|field| (self.top(field), Piece::interval(1, LATER)));
            let routing =
                find(Source::RoutingType).filter(|&field| needed.fields[field]).map(|field| self.present(field));
            before.extend(fragment.map(|fragment| (extensions(FRAGMENT_BIT), vec![fragment])));
            before.extend(routing.map(|routing| (extensions(ROUTING_BIT), vec![routing])));
            let both = extensions(FRAGMENT_BIT | ROUTING_BIT);
            before.extend(fragment.zip(routing).map(|(fragment, routing)| (both, vec![fragment, routing])));
            // All sets of extension headers, if rules can tell them apart.
            if let Some(bits) = find(Source::ExtHeaders).filter(|&bits| needed.tested[bits] && needed.tested[length]) {
                let top = self.top(bits);
                let piece = |set: u32| Some((extensions(set), vec![(top, Piece::new(0, 0xFF, set, set)?)]));
                before.extend((1..32).filter_map(piece));
            }
        }
        for (bytes, headers) in &before {
            for (more, transport) in &upper {
                if bytes + more > 0 {
                    let short = (word, Piece::interval(least, header + bytes + more - 1));
                    self.add(&[&headers[..], transport, &[short]].concat());
                }
            }
        }
    }

    /// Adds keys in which `field` is absent while the value of `of` is one of the protocols whose packets have it.
    ///
    /// Later fragments have it in another packet. Where they are classified it is absent in them; of ARP the protocol is
    /// the operation.
    fn has(&mut self, field: usize, of: usize, protocols: &[u32], fragments: Fragments) {
        let Some(absent) = self.absent(field) else { return };
        let fragment = self.schema.index_of_source(Source::Fragment).map(|field| self.top(field));
        let is_whole = fragment.map(|word| (word, Piece::interval(0, LATER - 1)));
        let whole: Vec<(usize, Piece)> = match fragments {
            Fragments::Unknown => Vec::new(),
            Fragments::Layer3 if is_whole.is_none() => return,
            Fragments::Layer3 => is_whole.into_iter().collect(),
        };
        for &protocol in protocols {
            let protocol = (self.top(of), Piece::interval(protocol, protocol));
            self.add(&[&[absent, protocol], &whole[..]].concat());
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
