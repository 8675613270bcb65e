//! Invariants of the parser, which hold for every frame.
#![allow(dead_code, unreachable_pub, reason = "each user takes a part of it")]

use firstmatch_core::schema::{Family, Field, Kind, Source};
use firstmatch_core::{KeyBuf, Schema};
use firstmatch_formats::Options;
use firstmatch_net::wire::{Config, Extractor, Headers, LinkType, Outcome, parse_on};

/// Extractor, the rows that it fills, and the rows that its values are pushed into.
pub type WithBuffers = (Extractor, KeyBuf, KeyBuf);

/// Parses a frame, `bytes` long on the wire, and checks the invariants on it.
///
/// # Invariants
///
/// - Each field is present, absent or unknown.
/// - Each schema gives one outcome.
/// - A row holds the same values as [`Extractor::values`] returns.
pub fn check(config: &Config, link: LinkType, frame: &[u8], bytes: usize, extractors: &mut [WithBuffers]) -> Headers {
    let headers = parse_on(config, 0, link, frame, bytes as u32);
    assert!(headers.present().intersection(headers.absent()).is_empty());
    assert_eq!(headers.unknown().is_empty(), headers.reason() == Outcome::Complete, "{headers:?}");
    assert!(headers.reason() == Outcome::Complete || !headers.reason().is_classified());
    for source in Source::ALL {
        assert_eq!(headers.value(source).is_some(), headers.present().contains(source));
    }
    for (extractor, filled, pushed) in extractors {
        let outcome = extractor.outcome(&headers);
        let values = extractor.values(&headers);
        assert_eq!(values.is_some(), outcome.is_classified());
        if let Some(values) = values {
            extractor.fill(&headers, filled.push());
            pushed.push_values(&values);
            assert_eq!(filled.keys().words(), pushed.keys().words(), "{values:?}");
            filled.clear();
            pushed.clear();
        }
    }
    headers
}

/// Checks that `headers` state nothing that `more` contradicts.
///
/// `more` are headers of the same frame, with more of it captured or read under looser caps.
pub fn check_grows(headers: &Headers, more: &Headers) {
    for source in Source::ALL {
        if headers.present().contains(source) {
            assert_eq!(headers.value(source), more.value(source), "{source:?} of {headers:?}, then {more:?}");
        }
        assert!(!headers.absent().contains(source) || more.absent().contains(source), "{headers:?}, then {more:?}");
    }
}

/// Returns extractors of many schemas, also of odd ones.
pub fn extractors() -> Vec<WithBuffers> {
    let mut schemas = vec![Schema::ipv4(), Schema::ipv6()];
    schemas.push(Schema::openflow());
    for bits in [3, 16, 20] {
        schemas.push(Schema::with_word_bits(None, Schema::openflow().fields().to_vec(), bits));
    }
    for family in [Family::Ipv4, Family::Ipv6] {
        schemas.push(Schema::five_tuple(family, &Source::ALL[5..]));
        schemas.push(of_sources(family, &[Source::Dst, Source::Src]));
        schemas.push(of_sources(family, &[Source::VlanVid]));
        for bits in [2, 7, 17, 31] {
            let fields = Source::ALL.iter().map(|&source| Field::from_source(source, family)).collect();
            schemas.push(Schema::with_word_bits(Some(family), fields, bits));
        }
        // Fields wider than their header fields.
        schemas.push(Schema::new(
            Some(family),
            vec![
                Field::new("port", 70, Kind::Range, Some(Source::DstPort)).optional(),
                Field::new("dst", 128, Kind::Prefix, Some(Source::Dst)).optional(),
                Field::new("vid", 90, Kind::Range, Some(Source::VlanVid)).optional(),
                Field::new("pcp", 40, Kind::Range, Some(Source::VlanPcp)).optional(),
                Field::new("label", 66, Kind::Range, Some(Source::MplsLabel)).optional(),
                Field::new("from", 99, Kind::Range, Some(Source::EthSrc)).optional(),
            ],
        ));
    }
    let new = |schema: &Schema| Extractor::new(schema).expect("sources");
    let mut extractors: Vec<Extractor> = schemas.iter().map(new).collect();
    // Fields that packets hide and no rule tests, optional or not, of one word or several.
    let own = "schema {\nto 128 prefix from dst\nproto_ 8 exact from proto\nvid 12 exact from vlan_vid\n\
               mac 48 exact from eth_src optional\nport 16 range from dport optional\nlabel 20 exact from mpls_label\n}\n";
    for text in ["permit src 10.0.0.0/8", "permit tcp_flags 0x02/0x02 ext_headers 0", &format!("{own}permit proto_ 6")]
    {
        let rules = firstmatch_formats::parse(text, &Options::default()).expect(text).rules;
        let for_rules = |schema: &Schema| Extractor::for_rules(schema, &rules).expect("sources");
        extractors.extend(rules.schemas().iter().map(for_rules));
    }
    let buffers = |of: &Extractor| (KeyBuf::new(of.schema()), KeyBuf::new(of.schema()));
    let with_buffers = |(extractor, (filled, pushed))| (extractor, filled, pushed);
    extractors.into_iter().map(|extractor| (extractor.clone(), buffers(&extractor))).map(with_buffers).collect()
}

fn of_sources(family: Family, sources: &[Source]) -> Schema {
    Schema::new(Some(family), sources.iter().map(|&source| Field::from_source(source, family)).collect())
}
