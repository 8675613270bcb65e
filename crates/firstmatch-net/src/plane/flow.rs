//! Hashes of flows, which decide the worker that a packet goes to.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher, RandomState};

use firstmatch_core::KeyBuf;
use firstmatch_core::schema::{Schema, Source};

use crate::wire::{Config, Headers, LinkType, SourceSet, parse};

/// Fields that packets of one flow have in common.
const FLOW: [Source; 10] = [
    Source::Src,
    Source::Dst,
    Source::Proto,
    Source::SrcPort,
    Source::DstPort,
    Source::Ipv4Src,
    Source::Ipv4Dst,
    Source::IpProto,
    Source::TpSrc,
    Source::TpDst,
];
/// Fields that stand for the flow if there is no IP header.
const LINK: [Source; 3] = [Source::EthType, Source::EthSrc, Source::EthDst];

/// Keyed hash of flows: addresses, protocol and ports.
///
/// The key is random for each hash, so that nobody can choose flows that all go to one worker. [`FlowHash::with_seed`]
/// fixes it. Both directions of a connection are two flows.
///
/// ```
/// use firstmatch_net::plane::FlowHash;
/// use firstmatch_net::wire::Headers;
/// use firstmatch_core::schema::Family;
///
/// let hash = FlowHash::new();
/// let headers = |port| Headers::of_five_tuple(Family::Ipv4, 1, 2, port, 80, 6);
/// assert_eq!(hash.of_headers(&headers(4040)), hash.of_headers(&headers(4040).with_tcp_flags(2)));
/// assert_ne!(hash.of_headers(&headers(4040)), hash.of_headers(&headers(4041)));
/// ```
#[derive(Clone, Debug)]
pub struct FlowHash(Key);

#[derive(Clone, Debug)]
enum Key {
    Random(RandomState),
    Fixed(u64),
}

impl FlowHash {
    /// Returns a hash with a random key.
    #[expect(clippy::new_without_default, reason = "a default that differs each time would surprise")]
    pub fn new() -> Self {
        Self(Key::Random(RandomState::new()))
    }

    /// Returns a hash whose key is made from `seed`, so that a run can be repeated.
    pub fn with_seed(seed: u64) -> Self {
        Self(Key::Fixed(seed))
    }

    fn hasher(&self) -> DefaultHasher {
        match &self.0 {
            Key::Random(random) => random.build_hasher(),
            Key::Fixed(seed) => {
                let mut hasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
                hasher.write_u64(*seed);
                hasher
            }
        }
    }

    /// Returns the hash of the flow of a packet with these headers.
    ///
    /// Later fragments have no ports, so they may go elsewhere than the other packets of their flow. Without an IP
    /// header the ether type and the Ethernet addresses count.
    pub fn of_headers(&self, headers: &Headers) -> u64 {
        let mut hasher = self.hasher();
        let fields = if headers.family().is_some() { &FLOW[..5] } else { &LINK[..] };
        for &field in fields {
            match headers.value(field) {
                Some(value) => hasher.write_u128(value),
                None => hasher.write_u8(0),
            }
        }
        hasher.finish()
    }

    /// Returns the hash of the flow of a frame, as [`FlowHash::of_headers`].
    pub fn of_frame(&self, link: LinkType, frame: &[u8]) -> u64 {
        self.of_headers(&parse(&Config::default(), link, frame))
    }

    /// Returns the hash for the rows of a schema.
    ///
    /// It takes the key words of addresses, protocol and ports, or all key words if the schema has none of these
    /// fields. For example, the TCP flags of a row do not count, because they differ within a flow.
    pub fn of_rows(&self, schema: &Schema) -> RowHash {
        let is_flow =
            |field: usize| schema.fields()[field].source().is_some_and(|source| SourceSet::of(&FLOW).contains(source));
        let indices = 0..schema.words().len();
        let mut words: Vec<usize> = indices.clone().filter(|&word| is_flow(schema.words()[word].field)).collect();
        if words.is_empty() {
            words = indices.collect();
        }
        RowHash { hash: self.clone(), words: words.into() }
    }
}

/// [`FlowHash`] of rows of one schema.
#[derive(Clone, Debug)]
pub struct RowHash {
    hash: FlowHash,
    words: Box<[usize]>,
}

impl RowHash {
    /// Returns the hash of the flow of a row.
    ///
    /// # Panics
    /// If the row has fewer words than the schema.
    pub fn of(&self, row: &[u32]) -> u64 {
        let mut hasher = self.hash.hasher();
        self.words.iter().for_each(|&word| hasher.write_u32(row[word]));
        hasher.finish()
    }

    /// Deals rows to `parts` buffers by their flow; each keeps the order of its rows.
    ///
    /// # Panics
    /// If `parts` is 0.
    pub fn split(&self, keys: &KeyBuf, parts: usize) -> Vec<KeyBuf> {
        let mut split = vec![KeyBuf::new(keys.schema()); parts];
        let rows = keys.keys();
        for row in (0..rows.len()).map(|row| rows.row(row)) {
            split[(self.of(row) % parts as u64) as usize].push().copy_from_slice(row);
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use firstmatch_core::schema::Family;

    use super::*;

    fn headers(number: u32) -> Headers {
        Headers::of_five_tuple(Family::Ipv4, number.into(), 7, (number % 50) as u16, 80, 6)
    }

    #[test]
    fn workers_get_even_shares_and_keys_differ() {
        let (one, other) = (FlowHash::new(), FlowHash::new());
        let mut shares = [0u32; 4];
        let mut equal = 0;
        for number in 0..4000 {
            let hash = one.of_headers(&headers(number));
            shares[(hash % 4) as usize] += 1;
            equal += u32::from(hash % 4 == other.of_headers(&headers(number)) % 4);
        }
        assert!(shares.iter().all(|share| (800..1200).contains(share)), "{shares:?}");
        assert!((800..1200).contains(&equal), "the keys agree on {equal} of 4,000 flows, a quarter by chance");
        let seeded = |seed| FlowHash::with_seed(seed).of_headers(&headers(1));
        assert!(seeded(1) == seeded(1) && seeded(1) != seeded(2));
    }

    #[test]
    fn a_split_keeps_rows_flows_and_order() {
        let schema = Schema::ipv4();
        let mut keys = KeyBuf::new(&schema);
        for number in 0..1000u32 {
            keys.push()[0] = number % 100;
        }
        let hash = FlowHash::new().of_rows(&schema);
        let parts = hash.split(&keys, 3);
        assert_eq!(parts.iter().map(KeyBuf::len).sum::<usize>(), 1000);
        for (at, part) in parts.iter().enumerate() {
            assert!(part.len() > 100);
            let rows: Vec<u32> = (0..part.len()).map(|row| part.keys().row(row)[0]).collect();
            assert!(rows.iter().all(|&first| {
                let mut row = keys.keys().row(0).to_vec();
                row[0] = first;
                hash.of(&row) % 3 == at as u64
            }));
            let expected: Vec<u32> = (0..1000).map(|n| n % 100).filter(|first| rows.contains(first)).collect();
            assert_eq!(rows, expected);
        }
    }

    #[test]
    fn frames_and_fields_beside_the_flow() {
        let hash = FlowHash::new();
        let (ipv4, arp) = (firstmatch_testkit::frames::ipv4(17, 0, &[], &[0, 1, 0, 2, 0, 8, 0, 0]), [7; 30]);
        assert_eq!(hash.of_frame(LinkType::Raw, &ipv4), hash.of_frame(LinkType::Ipv4, &ipv4));
        let mut other = ipv4.clone();
        *other.last_mut().expect("it has a header") = 9; // the checksum
        assert_eq!(hash.of_frame(LinkType::Raw, &ipv4), hash.of_frame(LinkType::Raw, &other));
        other[16] ^= 1; // the destination
        assert_ne!(hash.of_frame(LinkType::Raw, &ipv4), hash.of_frame(LinkType::Raw, &other));
        assert_ne!(hash.of_frame(LinkType::Ethernet, &arp), hash.of_frame(LinkType::Ethernet, &[8; 30]));
    }
}
