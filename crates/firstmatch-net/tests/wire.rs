//! What the parser says of packets made by hand, cut, damaged and drawn at random.

mod common;
mod invariants;

use common::{Rng, chain, damage, ethernet, handmade, ipv4, ipv6, random, tcp, udp};
use firstmatch::policy::Fragments;
use firstmatch::rule::FieldValues;
use firstmatch::schema::{Family, Field, Kind, Source};
use firstmatch::{KeyBuf, Match, Policy, RuleId, Schema};
use firstmatch_net::wire::{Batch, Config, Extractor, Headers, LinkType, Outcome, parse};
use invariants::{check, check_grows, extractors};

fn layer3() -> Config {
    Config { fragments: Fragments::Layer3, ..Config::default() }
}

fn schema(family: Family, sources: &[Source]) -> Schema {
    Schema::new(Some(family), sources.iter().map(|&source| Field::from_source(source, family)).collect())
}

fn outcome(config: &Config, link: LinkType, frame: &[u8], schema: &Schema) -> Outcome {
    Extractor::new(schema).expect("sources").outcome(&parse(config, link, frame))
}

/// Outcome of an Ethernet-less packet under the 5-tuple of its family.
fn five(packet: &[u8]) -> Outcome {
    let schema = if packet[0] >> 4 == 4 { Schema::ipv4() } else { Schema::ipv6() };
    outcome(&Config::default(), LinkType::Raw, packet, &schema)
}

#[test]
fn handmade_frames_end_as_they_should() {
    let both = [Schema::ipv4(), Schema::ipv6()];
    let mut batch = Batch::new(&Config::default(), &both).expect("sources");
    let mut layer3 = Batch::new(&layer3(), &both).expect("sources");
    for (name, frame) in handmade() {
        let (expected, under_layer3) = match name {
            "icmp" | "esp" | "ah over ipv4" | "icmpv6" | "no next header" | "mobility" => {
                (Outcome::NoPorts, Outcome::NoPorts)
            }
            "later fragment" | "last fragment" | "later ipv6 fragment" => (Outcome::Fragment, Outcome::FragmentLayer3),
            "later ipv6 fragment, then options" => (Outcome::Fragment, Outcome::Fragment),
            "tagged five times" => (Outcome::VlanCap, Outcome::VlanCap),
            "a long chain" => (Outcome::ExtensionCap, Outcome::ExtensionCap),
            "too many labels" => (Outcome::MplsCap, Outcome::MplsCap),
            "mpls over a pseudowire"
            | "pppoe, lcp"
            | "pppoe discovery"
            | "arp"
            | "arp for something else"
            | "802.3"
            | "cooked netlink" => (Outcome::NotIp, Outcome::NotIp),
            "bluetooth" => (Outcome::UnknownLink, Outcome::UnknownLink),
            _ => (Outcome::Complete, Outcome::Complete),
        };
        assert_eq!(batch.push_frame(frame.link, &frame.bytes, 100), expected, "{name}");
        assert_eq!(layer3.push_frame(frame.link, &frame.bytes, 100), under_layer3, "{name}");
    }
}

#[test]
fn every_field_has_its_value() {
    let value = |frame: &[u8], source| parse(&Config::default(), LinkType::Ethernet, frame).value(source);
    let v4 = ethernet(&[(0x88a8, 0xf064), (0x8100, 7)], 0x0800, &ipv4(6, 0, &[1; 8], &tcp(0xc2))).bytes;
    assert_eq!(value(&v4, Source::Src), Some(0x0a01_0203));
    assert_eq!(value(&v4, Source::Dst), Some(0xc0a8_0405));
    assert_eq!(value(&v4, Source::Proto), Some(6));
    assert_eq!(value(&v4, Source::SrcPort), Some(12345));
    assert_eq!(value(&v4, Source::DstPort), Some(443));
    assert_eq!(value(&v4, Source::TcpFlags), Some(0xc2));
    assert_eq!(value(&v4, Source::VlanVid), Some(0x064));
    assert_eq!(value(&v4, Source::IcmpType), None);
    let (next, body) = chain(&[0, 51, 44], 1, 0, 58, &[135, 3]);
    let v6 = ethernet(&[], 0x86dd, &ipv6(next, &body)).bytes;
    assert_eq!(value(&v6, Source::Src), Some(0x2001_0db8_0000_0001_0203_0405_0607_0809));
    assert_eq!(value(&v6, Source::Dst), Some(0xfe80_0000_0000_0000_1112_1314_1516_1718));
    assert_eq!(value(&v6, Source::Proto), Some(58));
    assert_eq!((value(&v6, Source::IcmpType), value(&v6, Source::IcmpCode)), (Some(135), Some(3)));
    assert_eq!((value(&v6, Source::VlanVid), value(&v6, Source::SrcPort)), (None, None));
}

#[test]
fn only_what_the_schema_asks_for_can_make_a_packet_unknown() {
    use Source::{Dst, DstPort, IcmpType, Proto, Src, SrcPort, TcpFlags, VlanVid};
    let v4 = |sources: &[Source]| schema(Family::Ipv4, sources);
    let v6 = |sources: &[Source]| schema(Family::Ipv6, sources);
    let (strict, lax) = (Config::default(), layer3());
    let raw = LinkType::Raw;

    let later = ipv4(17, 0x2003, &[], &udp());
    assert_eq!(outcome(&strict, raw, &later, &v4(&[Src, Dst])), Outcome::Complete);
    assert_eq!(outcome(&strict, raw, &later, &v4(&[Src, Dst, Proto])), Outcome::Complete);
    assert_eq!(outcome(&strict, raw, &later, &v4(&[Src, DstPort])), Outcome::Fragment);
    assert_eq!(outcome(&strict, raw, &later, &v4(&[Src, IcmpType])), Outcome::Fragment);
    assert_eq!(outcome(&lax, raw, &later, &v4(&[Src, DstPort])), Outcome::FragmentLayer3);
    assert_eq!(outcome(&lax, raw, &later, &v4(&[Src, Proto])), Outcome::Complete);

    // The receiver of an IPv6 packet believes the first fragment's protocol alone.
    let (next, body) = chain(&[44], 0, 8, 17, &udp());
    let later = ipv6(next, &body);
    assert_eq!(outcome(&strict, raw, &later, &v6(&[Src, Dst])), Outcome::Complete);
    assert_eq!(outcome(&strict, raw, &later, &v6(&[Src, Proto])), Outcome::Fragment);
    assert_eq!(outcome(&lax, raw, &later, &v6(&[Src, Proto])), Outcome::Complete);
    assert_eq!(outcome(&lax, raw, &later, &v6(&[Src, Proto, SrcPort])), Outcome::FragmentLayer3);

    let icmp = ipv4(1, 0, &[], &[8, 0]);
    assert_eq!(outcome(&strict, raw, &icmp, &v4(&[Src, Proto])), Outcome::Complete);
    assert_eq!(outcome(&strict, raw, &icmp, &v4(&[Src, IcmpType])), Outcome::Complete);
    assert_eq!(outcome(&strict, raw, &icmp, &v4(&[Src, IcmpType, SrcPort])), Outcome::NoPorts);
    // ICMP is no protocol of IPv6, nor the other way round: its fields are absent, not read.
    assert!(parse(&strict, raw, &ipv6(1, &[8, 0])).absent().contains(IcmpType));
    assert!(parse(&strict, raw, &ipv4(58, 0, &[], &[135, 0])).absent().contains(IcmpType));

    // A TCP header of 4 bytes has ports; flags take 14.
    let short = ipv4(6, 0, &[], &tcp(2)[..13]);
    assert_eq!(outcome(&strict, raw, &short, &Schema::ipv4()), Outcome::Complete);
    assert_eq!(outcome(&strict, raw, &short, &v4(&[Src, TcpFlags])), Outcome::Malformed);
    let short = ipv4(6, 0x2000, &[], &tcp(2)[..13]);
    assert_eq!(outcome(&strict, raw, &short, &v4(&[Src, TcpFlags])), Outcome::FirstFragmentShort);
    assert_eq!(outcome(&strict, raw, &ipv4(6, 0, &[], &tcp(2))[..33], &v4(&[Src, TcpFlags])), Outcome::Truncated);

    // A frame that is not IP still has its tag.
    let arp = ethernet(&[(0x8100, 5)], 0x0806, &[0; 28]);
    let tags = Schema::new(None, vec![Field::from_source(VlanVid, Family::Ipv4)]);
    assert_eq!(outcome(&strict, arp.link, &arp.bytes, &tags), Outcome::Complete);
    assert_eq!(outcome(&strict, arp.link, &arp.bytes, &v4(&[VlanVid])), Outcome::NotIp);
    assert_eq!(outcome(&strict, raw, &icmp, &tags), Outcome::Complete);
}

#[test]
fn lengths_and_versions_that_contradict_are_malformed() {
    let right = ipv4(17, 0, &[], &udp());
    let with = |at: usize, value: u8| {
        let mut packet = right.clone();
        packet[at] = value;
        packet
    };
    assert_eq!(five(&right), Outcome::Complete);
    assert_eq!(five(&with(0, 0x44)), Outcome::Malformed, "a header of 16 bytes");
    assert_eq!(five(&with(0, 0x4f)), Outcome::Malformed, "a header longer than the packet");
    assert_eq!(five(&with(3, 19)), Outcome::Malformed, "a packet shorter than its header");
    assert_eq!(five(&with(3, 20)), Outcome::Malformed, "no room for ports; what follows is padding");
    assert_eq!(five(&with(3, 23)), Outcome::Malformed);
    assert_eq!(five(&with(3, 24)), Outcome::Complete);
    assert_eq!(five(&with(3, 0)), Outcome::Complete, "a total length of 0 means all there is");
    assert_eq!(five(&with(2, 0xff)), Outcome::Complete, "the capture is shorter than the packet");
    assert_eq!(five(&right[..23]), Outcome::Truncated);
    assert_eq!(five(&ipv4(17, 0x2000, &[], &[0; 3])), Outcome::FirstFragmentShort);
    assert_eq!(outcome(&Config::default(), LinkType::Raw, &[0x50; 40], &Schema::ipv4()), Outcome::Malformed);
    assert_eq!(outcome(&Config::default(), LinkType::Raw, &[], &Schema::ipv4()), Outcome::Truncated);

    // The ether type says one thing, the packet another: nothing of it is believed.
    let crossed = ethernet(&[], 0x86dd, &right);
    assert_eq!(outcome(&Config::default(), crossed.link, &crossed.bytes, &Schema::ipv4()), Outcome::Malformed);

    let mut packet = ipv6(17, &udp());
    packet[5] = 3;
    assert_eq!(five(&packet), Outcome::Malformed);
    packet[5] = 0;
    assert_eq!(five(&packet), Outcome::Complete, "a payload length of 0 means all there is");
    let (next, mut body) = chain(&[60], 2, 0, 17, &[]);
    assert_eq!(five(&ipv6(next, &body)), Outcome::Malformed, "the chain ends, ports do not begin");
    body[1] = 3;
    assert_eq!(five(&ipv6(next, &body)), Outcome::Malformed, "an option header beyond the payload");
    let (next, body) = chain(&[44, 60], 1, 1, 17, &[]);
    assert_eq!(five(&ipv6(next, &body)), Outcome::FirstFragmentShort);
}

#[test]
fn caps_are_kept() {
    let chain_of = |n: usize, cap: usize| {
        let (next, body) = chain(&vec![60; n], 0, 0, 17, &udp());
        let config = Config { max_extension_headers: cap, ..Config::default() };
        outcome(&config, LinkType::Raw, &ipv6(next, &body), &Schema::ipv6())
    };
    assert_eq!([chain_of(3, 3), chain_of(4, 3)], [Outcome::Complete, Outcome::ExtensionCap]);
    assert_eq!([chain_of(0, 0), chain_of(1, 0)], [Outcome::Complete, Outcome::ExtensionCap]);
    let tags = |n: usize, cap: usize| {
        let config = Config { max_vlan_tags: cap, ..Config::default() };
        let frame = ethernet(&vec![(0x8100, 9); n], 0x0800, &ipv4(17, 0, &[], &udp()));
        outcome(&config, frame.link, &frame.bytes, &Schema::ipv4())
    };
    assert_eq!([tags(2, 2), tags(3, 2)], [Outcome::Complete, Outcome::VlanCap]);
    assert_eq!([tags(0, 0), tags(1, 0)], [Outcome::Complete, Outcome::VlanCap]);
}

#[test]
fn a_schema_that_packets_cannot_fill_is_refused_by_the_name_of_the_field() {
    let schema = Schema::new(None, vec![Field::new("tenant", 24, Kind::Exact, None)]);
    let error = Extractor::new(&schema).expect_err("no source");
    assert_eq!((error.field(), error.to_string().contains("tenant")), ("tenant", true));
    let schema = Schema::new(None, vec![Field::new("mac", 47, Kind::Exact, Some(Source::EthDst))]);
    assert!(Extractor::new(&schema).expect_err("too narrow").to_string().contains("48"));
    let schema = Schema::new(Some(Family::Ipv6), vec![Field::new("src", 64, Kind::Prefix, Some(Source::Src))]);
    assert!(Extractor::new(&schema).expect_err("too narrow").to_string().contains("128"));
    assert!(Batch::new(&Config::default(), &[Schema::ipv4(), schema]).is_err());
    // A field that is not optional is never made up.
    let schema = Schema::new(Some(Family::Ipv4), vec![Field::new("p", 16, Kind::Range, Some(Source::DstPort))]);
    let icmp = ipv4(1, 0, &[], &[8, 0]);
    assert_eq!(outcome(&Config::default(), LinkType::Raw, &icmp, &schema), Outcome::LacksField);
}

#[test]
fn fill_agrees_with_values_on_every_packet() {
    let mut rng = Rng(11);
    let mut extractors = extractors();
    let mut outcomes = [0; Outcome::ALL.len()];
    for round in 0..60_000 {
        let mut frame = random(&mut rng);
        if round % 3 == 0 {
            damage(&mut rng, &mut frame);
        }
        let config = if round % 2 == 0 { Config::default() } else { layer3() };
        let headers = check(&config, frame.link, &frame.bytes, &mut extractors);
        outcomes[extractors[0].0.outcome(&headers).index()] += 1;
    }
    // The generator reaches all of them, but for links it does not draw and fields that are all optional.
    for outcome in Outcome::ALL {
        let drawn =
            !matches!(outcome, Outcome::LacksField | Outcome::UnknownLink | Outcome::ExtensionCap | Outcome::MplsCap);
        assert!(outcomes[outcome.index()] > 100 || !drawn, "{outcome}: {outcomes:?}");
    }
}

#[test]
fn a_frame_cut_anywhere_never_has_a_wrong_value() {
    let mut rng = Rng(12);
    let mut extractors = extractors();
    let mut frames: Vec<_> = handmade().into_iter().map(|(_, frame)| frame).collect();
    frames.extend((0..2000).map(|_| random(&mut rng)));
    for frame in frames {
        for config in [Config::default(), layer3()] {
            let whole = parse(&config, frame.link, &frame.bytes);
            let mut before = parse(&config, frame.link, &[]);
            for cut in 0..=frame.bytes.len() {
                let headers = check(&config, frame.link, &frame.bytes[..cut], &mut extractors);
                check_grows(&headers, &whole);
                // More bytes never make anything less known.
                check_grows(&before, &headers);
                before = headers;
            }
        }
    }
}

#[test]
fn garbage_never_panics() {
    let mut rng = Rng(13);
    let mut extractors = extractors();
    let links = [0, 1, 12, 101, 108, 113, 228, 229, 276, 147].map(LinkType::from_number);
    for _ in 0..100_000 {
        let len = rng.below(120);
        let mut frame = rng.bytes(len);
        let link = rng.pick(&links);
        if let Some(first) = frame.first_mut().filter(|_| rng.0.is_multiple_of(2)) {
            *first = 0x40 | *first & 0x2f;
        }
        check(&Config::default(), link, &frame, &mut extractors);
    }
}

#[test]
fn a_batch_sorts_by_family_and_scatters_back() {
    let mut batch = Batch::for_policy(&Policy::default(), &[Schema::ipv4(), Schema::ipv6()]).expect("sources");
    let mut single = Batch::new(&Config::default(), &[Schema::ipv4()]).expect("sources");
    let mut rng = Rng(14);
    for round in 1..4 {
        let frames: Vec<_> = (0..500 * round).map(|_| random(&mut rng)).collect();
        for (index, frame) in frames.iter().enumerate() {
            let outcome = batch.push_frame(frame.link, &frame.bytes, index as u32);
            let headers = parse(&Config::default(), frame.link, &frame.bytes);
            let alone = single.push_frame(frame.link, &frame.bytes, 0);
            match headers.family() {
                Some(Family::Ipv6) => assert_eq!(alone, Outcome::OtherFamily),
                _ => assert_eq!(alone, outcome),
            }
            let record = batch.records()[index];
            assert_eq!((record.outcome, record.bytes), (outcome, index as u32));
            assert_eq!(record.place.is_some(), outcome.is_classified());
            if let Some((schema, row)) = record.place {
                let values: FieldValues = batch.values(&headers).expect("classified");
                let mut expected = KeyBuf::new(batch.extractor(schema.into()).schema());
                expected.push_values(&values);
                assert_eq!(batch.keys(schema.into()).row(row as usize), expected.keys().row(0));
                assert_eq!(values.family, headers.family());
            }
        }
        let mut answers = vec![None; batch.len()];
        for schema in 0..batch.schemas() {
            let rows = batch.packets(schema).iter();
            let by_row: Vec<_> = rows
                .map(|&packet| {
                    let rule = RuleId::new(packet, schema as u32);
                    Some(Match { rule, priority: firstmatch::rule::Priority(1) })
                })
                .collect();
            batch.scatter(schema, &by_row, &mut answers);
        }
        for (index, (answer, record)) in answers.iter().zip(batch.records()).enumerate() {
            let expected = record.place.map(|(schema, _)| RuleId::new(index as u32, schema.into()));
            assert_eq!(answer.map(|m| m.rule), expected);
        }
        batch.clear();
        single.clear();
        assert!(batch.is_empty() && batch.keys(0).is_empty());
    }
}

#[test]
fn a_packet_known_by_its_five_tuple_has_ports_whatever_its_protocol() {
    let headers = Headers::of_five_tuple(Family::Ipv4, 1, u128::MAX, 3, 4, 50);
    let mut batch = Batch::new(&Config::default(), &[Schema::ipv4(), Schema::ipv6()]).expect("sources");
    assert_eq!(batch.push_headers(&headers, 0), Outcome::Complete);
    assert_eq!(&batch.keys(0).row(0)[..5], [1, u32::MAX, 3, 4, 50]);
    assert_eq!(headers.value(Source::Dst), Some(u128::from(u32::MAX)));
    assert_eq!(headers.with_tcp_flags(2).value(Source::TcpFlags), Some(2));
    let headers = Headers::of_five_tuple(Family::Ipv6, 1 << 96, 2, 3, 4, 6);
    assert_eq!(batch.push_headers(&headers, 0), Outcome::Complete);
    assert_eq!(&batch.keys(1).row(0)[..11], [1, 0, 0, 0, 0, 0, 0, 2, 3, 4, 6]);
}
