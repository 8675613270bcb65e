//! Parser on packets made by hand, cut, damaged and drawn at random.

use firstmatch_core::policy::Fragments;
use firstmatch_core::rule::{FieldValues, RuleSet, first_match};
use firstmatch_core::schema::{Family, Field, Kind, Source};
use firstmatch_core::{KeyBuf, Match, Policy, RuleId, Schema};
use firstmatch_formats::Options;
use firstmatch_net::wire::{Batch, Config, Extractor, LinkType, Outcome, parse};
use firstmatch_testkit::frames::{chain, damage, ethernet, handmade, ipv4, ipv6, random, tcp, udp};
use firstmatch_testkit::rng::Rng;

fn layer3() -> Config {
    Config { fragments: Fragments::Layer3, ..Config::default() }
}

fn schema(family: Family, sources: &[Source]) -> Schema {
    Schema::new(Some(family), sources.iter().map(|&source| Field::from_source(source, family)).collect())
}

fn outcome(config: &Config, link: LinkType, frame: &[u8], schema: &Schema) -> Outcome {
    Extractor::new(schema).expect("sources").outcome(&parse(config, link, frame))
}

/// Returns the outcome of a packet without Ethernet under the 5-tuple of its family.
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
            "icmp" | "esp" | "ah over ipv4" | "icmpv6" | "no next header" => (Outcome::NoPorts, Outcome::NoPorts),
            "mobility" | "an experiment in a chain" => (Outcome::UnknownExtension, Outcome::UnknownExtension),
            "later fragment" | "last fragment" | "later ipv6 fragment" => (Outcome::Fragment, Outcome::FragmentLayer3),
            "later ipv6 fragment, then options" | "802.11, later fragment" => (Outcome::Fragment, Outcome::Fragment),
            "tagged five times" => (Outcome::VlanCap, Outcome::VlanCap),
            "a long chain" => (Outcome::ExtensionCap, Outcome::ExtensionCap),
            "too many labels" => (Outcome::MplsCap, Outcome::MplsCap),
            "mpls over a pseudowire"
            | "pppoe, lcp"
            | "pppoe discovery"
            | "arp"
            | "arp for something else"
            | "802.3"
            | "802.3, snap of a vendor"
            | "802.3, spanning tree"
            | "pseudowire to 45"
            | "pseudowire to 60"
            | "802.11, encrypted"
            | "802.11, beacon"
            | "802.11, several packets"
            | "ppp, lcp"
            | "cisco hdlc, slarp"
            | "cooked netlink" => (Outcome::NotIp, Outcome::NotIp),
            "nflog without a packet" => (Outcome::Truncated, Outcome::Truncated),
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
fn fragments_dscp_ttl_and_length_are_fields_of_ip() {
    use Source::{Dscp, DstPort, Fragment, Length, Src, Ttl};
    let config = Config::default();
    let of = |family, sources: &[Source]| Extractor::new(&schema(family, sources)).expect("sources");
    for (bits, value) in [(0x4000, 0), (0x2000, 1), (0x2005, 2), (0x0005, 2)] {
        let mut packet = ipv4(17, bits, &[1; 4], &udp());
        (packet[1], packet[8]) = (0xb9, 63);
        let headers = parse(&config, LinkType::Raw, &packet);
        let found = [Fragment, Dscp, Ttl, Length].map(|source| headers.value(source));
        assert_eq!(found, [value, 46, 63, packet.len() as u128].map(Some), "{bits:#x}");
        assert_eq!(of(Family::Ipv4, &[Src, Fragment, Ttl]).outcome(&headers), Outcome::Complete);
        let ports = of(Family::Ipv4, &[Fragment, DstPort]).outcome(&headers);
        assert_eq!(ports == Outcome::Fragment, value == 2, "{bits:#x}: {ports:?}");
        // A length of 0 states none, and only rules that test it care.
        packet[2..4].fill(0);
        let headers = parse(&config, LinkType::Raw, &packet);
        assert!(headers.unknown().contains(Length) && headers.value(Ttl) == Some(63));
        assert!(!of(Family::Ipv4, &[Src, Length]).outcome(&headers).is_classified());
        assert_eq!(of(Family::Ipv4, &[Src, Ttl]).outcome(&headers), Outcome::Complete);
    }
    for (kinds, bits, value) in
        [(&[][..], 0, Some(0)), (&[44], 0, Some(0)), (&[0, 44], 1, Some(1)), (&[44, 60], 8, Some(2)), (&[135], 0, None)]
    {
        let (next, body) = chain(kinds, 1, bits, 17, &udp());
        let mut packet = ipv6(next, &body);
        (packet[0], packet[1], packet[7]) = (0x6b, 0x90, 254);
        for config in [config, layer3()] {
            let headers = parse(&config, LinkType::Raw, &packet);
            assert_eq!(headers.value(Fragment), value, "{kinds:?}");
            assert_eq!(headers.unknown().contains(Fragment), value.is_none());
            let found = [Dscp, Ttl, Length].map(|source| headers.value(source));
            assert_eq!(found, [46, 254, packet.len() as u128].map(Some), "{kinds:?}");
        }
        packet[4..6].fill(0);
        assert!(parse(&config, LinkType::Raw, &packet).unknown().contains(Length));
    }
}

#[test]
fn extension_headers_are_a_field_of_ipv6() {
    use Source::{ExtHeaders, Proto, RoutingType, Src};
    let read = |config: &Config, kinds: &[u8], fragment, proto| {
        let (next, body) = chain(kinds, 1, fragment, proto, &udp());
        parse(config, LinkType::Raw, &ipv6(next, &body))
    };
    for (kinds, bits, routing_type) in [
        (&[][..], 0, None),
        (&[0], 0x01, None),
        (&[43], 0x02, Some(0)),
        (&[44], 0x04, None),
        (&[60], 0x08, None),
        (&[51], 0x10, None),
        (&[0, 60, 43, 44, 51, 60], 0x1f, Some(1)),
        (&[43, 43], 0x02, Some(0)),
    ] {
        for proto in [17, 50, 59] {
            let headers = read(&Config::default(), kinds, 0, proto);
            assert_eq!(
                (headers.value(ExtHeaders), headers.value(RoutingType)),
                (Some(bits), routing_type),
                "{kinds:?}"
            );
            assert_eq!(
                (headers.absent().contains(RoutingType), headers.reason()),
                (routing_type.is_none(), Outcome::Complete)
            );
            assert_eq!(headers.value(Proto), Some(proto.into()));
        }
    }
    // Routing headers of several types make the packet unknown, but only to rules that test the type.
    let headers = read(&Config::default(), &[43, 60, 43], 0, 17);
    assert_eq!((headers.value(ExtHeaders), headers.value(RoutingType)), (Some(0x0a), None));
    assert!(headers.unknown().contains(RoutingType) && headers.reason() == Outcome::Malformed);
    let of = |sources: &[Source]| Extractor::new(&schema(Family::Ipv6, sources)).expect("sources");
    assert_eq!(of(&[Src, ExtHeaders]).outcome(&headers), Outcome::Complete);
    assert_eq!(of(&[Src, RoutingType]).outcome(&headers), Outcome::Malformed);
    // The rest of the chain may be in another packet, or behind a header that is not read.
    let later = read(&Config::default(), &[0, 44], 8, 17);
    assert!(later.unknown().contains(ExtHeaders) && later.unknown().contains(RoutingType));
    let later = read(&layer3(), &[0, 44], 8, 17);
    assert_eq!((later.value(ExtHeaders), later.absent().contains(RoutingType)), (Some(0x05), true));
    for unread in [135, 139, 140, 253, 254] {
        for kinds in [&[unread][..], &[0, unread], &[43, unread, 60], &[44, unread]] {
            let headers = read(&Config::default(), kinds, 0, 17);
            assert_eq!(headers.reason(), Outcome::UnknownExtension, "{kinds:?}");
            for source in [Proto, ExtHeaders, RoutingType, Source::IpProto, Source::DstPort] {
                assert!(headers.unknown().contains(source), "{kinds:?}: {source:?}");
            }
            assert_eq!(of(&[Src]).outcome(&headers), Outcome::Complete);
        }
        assert_eq!(read(&Config::default(), &[], 0, unread).reason(), Outcome::UnknownExtension);
        // In IPv4 it is a protocol like any other.
        assert_eq!(five(&ipv4(unread, 0, &[], &[0; 8])), Outcome::NoPorts);
    }
    let absent = parse(&Config::default(), LinkType::Raw, &ipv4(17, 0, &[], &udp())).absent();
    assert!(absent.contains(ExtHeaders) && absent.contains(RoutingType));
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
    // ICMP is no protocol of IPv6, nor ICMPv6 of IPv4: its fields are absent, not read.
    assert!(parse(&strict, raw, &ipv6(1, &[8, 0])).absent().contains(IcmpType));
    assert!(parse(&strict, raw, &ipv4(58, 0, &[], &[135, 0])).absent().contains(IcmpType));

    // A TCP header of 4 bytes has ports, but flags need 14 bytes.
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

fn rules(text: &str) -> RuleSet {
    firstmatch_formats::parse(text, &Options::default()).expect(text).rules
}

#[test]
fn only_what_rules_test_can_make_a_packet_unknown() {
    let later = ipv4(17, 0x2003, &[], &udp());
    let cut = &ipv4(17, 0, &[], &udp())[..20];
    let (next, body) = chain(&[44], 0, 8, 17, &udp());
    let later6 = ipv6(next, &body);
    let icmp = ipv4(1, 0, &[], &[8, 0]);
    let broken = [&[0x44][..], &ipv4(17, 0, &[], &udp())[1..]].concat();
    let (next, body) = chain(&[135], 0, 0, 17, &udp());
    let mobile = ipv6(next, &body);
    use Outcome::{Complete, Fragment, Malformed, NoPorts, OtherFamily, Truncated, UnknownExtension};
    for (text, expected) in [
        ("permit src 10.0.0.0/8\n", [Complete, Complete, Complete, Complete, Malformed, Complete]),
        ("permit\n", [Complete, Complete, Complete, Complete, Malformed, Complete]),
        ("permit udp\n", [Complete, Complete, Fragment, Complete, Malformed, UnknownExtension]),
        (
            "permit src 10.0.0.0/8\ndeny dport 22\n",
            [Fragment, Truncated, Fragment, NoPorts, Malformed, UnknownExtension],
        ),
        // A rule that cannot hold in a family needs no field there.
        ("permit src 10.0.0.0/8 dport 22\n", [Fragment, Truncated, Complete, NoPorts, Malformed, Complete]),
        ("permit family ipv6 dport 22\n", [Complete, Complete, Fragment, Complete, Malformed, UnknownExtension]),
        ("family ipv4\npermit src 10.0.0.0/8\n", [Complete, Complete, OtherFamily, Complete, Malformed, OtherFamily]),
    ] {
        let mut batch = Batch::for_rules(&Config::default(), &rules(text)).expect("sources");
        let packets = [&later[..], cut, &later6, &icmp, &broken, &mobile];
        let outcomes = packets.map(|packet| batch.push_frame(LinkType::Raw, packet, 0));
        assert_eq!(outcomes, expected, "{text}");
        // A batch that does not know the rules needs all fields.
        let mut all = Batch::new(&Config::default(), &[Schema::ipv4(), Schema::ipv6()]).expect("sources");
        let outcomes = packets.map(|packet| all.push_frame(LinkType::Raw, packet, 0));
        assert_eq!(outcomes, [Fragment, Truncated, Fragment, NoPorts, Malformed, UnknownExtension]);
    }
    // A field that every packet should have is needed if rules test it.
    let own = "schema {\n  vid 12 exact from vlan_vid\n  to 32 prefix from dst\n}\n";
    for (rule, expected) in [("permit to 192.168.0.0/16\n", Complete), ("permit vid 7\n", Outcome::LacksField)] {
        let mut batch = Batch::for_rules(&Config::default(), &rules(&format!("{own}{rule}"))).expect("sources");
        assert_eq!(batch.push_frame(LinkType::Raw, &icmp, 0), expected, "{rule}");
    }
}

/// A packet that hides fields has the same answer as every packet that it may be.
#[test]
fn what_rules_do_not_test_changes_no_answer() {
    let mut rng = Rng::new(31);
    let conditions = [
        "src 10.0.0.0/8",
        "dst not 192.168.0.0/16",
        "src 2000::/3",
        "udp",
        "proto not { 6, 58 }",
        "sport 0-40000",
        "dport any",
        "icmp_type echo-request",
        "icmp_code 0",
        "tcp_flags 0x02/0x12",
        "vlan_vid 0-2000",
        "ext_headers fragment",
        "ext_headers not { hop-by-hop, ah }",
        "routing_type 0",
        "family ipv6",
    ];
    let (mut more, mut classified) = (0, 0);
    for _ in 0..400 {
        let mut text = String::new();
        for _ in 0..1 + rng.below(3) {
            text.push_str(rng.any_of(&["permit", "deny"]));
            let first = rng.below(conditions.len());
            text.push_str(&format!(" {}", conditions[first]));
            let second = rng.below(conditions.len());
            let names = [first, second].map(|at| conditions[at].split(' ').next().expect("a name"));
            let names = names.map(|name| if name == "udp" { "proto" } else { name });
            if names[0] != names[1] {
                text.push_str(&format!(" {}", conditions[second]));
            }
            text.push('\n');
        }
        let rules = rules(&text);
        let config = if rng.one_in(2) { Config::default() } else { layer3() };
        let mut some = Batch::for_rules(&config, &rules).expect("sources");
        let mut all = Batch::new(&config, rules.schemas()).expect("sources");
        for _ in 0..60 {
            let mut frame = random(&mut rng);
            if rng.one_in(3) {
                damage(&mut rng, &mut frame);
            }
            let headers = parse(&config, frame.link, &frame.bytes);
            let (some, all) = (some.push_headers(&headers, 0), all.push_headers(&headers, 0));
            assert!(some.is_classified() || !all.is_classified(), "{text}: {all}, then {some}");
            classified += usize::from(all.is_classified());
            more += usize::from(some.is_classified() && !all.is_classified());
        }
        for (index, schema) in rules.schemas().iter().enumerate() {
            let extractor = some.extractor(index);
            let hidden: Vec<usize> = (0..schema.fields().len())
                .filter(|&field| !extractor.needed().contains(schema.fields()[field].source().expect("a source")))
                .collect();
            let mut frame = random(&mut rng);
            damage(&mut rng, &mut frame);
            let Some(values) = extractor.values(&parse(&config, frame.link, &frame.bytes)) else { continue };
            let answer = first_match(&rules, &values).map(|rule| rule.id);
            for _ in 0..20 {
                let mut other = values.clone();
                for &field in &hidden {
                    let max = schema.fields()[field].max();
                    other.values[field] = Some(u128::from(rng.next()) & max);
                }
                assert_eq!(first_match(&rules, &other).map(|rule| rule.id), answer, "{text}: {values:?}, {other:?}");
            }
        }
    }
    assert!(more > 1000 && classified > 10_000, "{more} more than {classified}");
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
    assert_eq!(five(&with(0, 0x4f)), Outcome::Malformed, "a header longer than the packet states");
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

    // The ether type and the packet contradict each other: no field of the packet is believed.
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

/// An IP header or an extension header that is cut short hides the protocol that it names.
#[test]
fn headers_that_are_cut_short_are_unknown() {
    let by_protocol = |config: &Config, packet: &[u8]| {
        let rules = rules("deny proto 6\ndeny proto 17\npermit");
        Batch::for_rules(config, &rules).expect("sources").push_frame(LinkType::Raw, packet, packet.len() as u32)
    };
    for config in [Config::default(), layer3()] {
        for fragment in [0, 0x2000, 0x0003] {
            let whole = ipv4(47, fragment, &[1; 40], &[]);
            assert!(fragment == 3 || by_protocol(&config, &whole).is_classified());
            for cut in 20..60 {
                assert_eq!(by_protocol(&config, &whole[..cut]), Outcome::Truncated, "{cut} bytes");
            }
        }
        for kind in [0, 43, 51, 60] {
            let (next, body) = chain(&[kind], 5, 0, 47, &[]);
            let whole = ipv6(next, &body);
            assert!(by_protocol(&config, &whole).is_classified(), "{kind}");
            for cut in 40..whole.len() {
                assert_eq!(by_protocol(&config, &whole[..cut]), Outcome::Truncated, "{kind}, {cut} bytes");
            }
            // Whatever the header states of its length, and where the packet states none.
            let mut longer = whole.clone();
            (longer[4], longer[5], longer[41]) = (0, 0, 255);
            assert_eq!(by_protocol(&config, &longer), Outcome::Truncated, "{kind}");
        }
    }
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

/// Where every packet has a row of one schema, answers are in order of arrival already.
#[test]
fn a_batch_sorts_by_family_and_scatters_back() {
    let mut batch = Batch::for_policy(&Policy::default(), &[Schema::ipv4(), Schema::ipv6()]).expect("sources");
    let mut single = Batch::new(&Config::default(), &[Schema::ipv4()]).expect("sources");
    let mut rng = Rng::new(14);
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
            let has_row = |&schema: &usize| batch.packets(schema).last() == Some(&(index as u32));
            let schema = (0..batch.schemas()).find(has_row);
            assert_eq!(schema.is_some(), outcome.is_classified());
            if let Some(schema) = schema {
                let values: FieldValues = batch.values(&headers).expect("classified");
                let mut expected = KeyBuf::new(batch.extractor(schema).schema());
                expected.push_values(&values);
                let row = batch.packets(schema).len() - 1;
                assert_eq!(batch.keys(schema).row(row), expected.keys().row(0));
                assert_eq!(values.family, headers.family());
            }
        }
        let (mut answers, mut schemas) = (vec![None; batch.len()], vec![None; batch.len()]);
        for schema in 0..batch.schemas() {
            batch.packets(schema).iter().for_each(|&packet| schemas[packet as usize] = Some(schema as u32));
            let rows = batch.packets(schema).iter();
            let by_row: Vec<_> = rows
                .map(|&packet| {
                    let rule = RuleId::new(packet, schema as u32);
                    Some(Match { rule, priority: firstmatch_core::rule::Priority(1) })
                })
                .collect();
            batch.scatter(schema, &by_row, &mut answers);
        }
        for (index, (answer, schema)) in answers.iter().zip(schemas).enumerate() {
            assert_eq!(answer.map(|m| m.rule), schema.map(|schema| RuleId::new(index as u32, schema)));
        }
        batch.clear();
        single.clear();
        assert!(batch.is_empty() && batch.keys(0).is_empty());
    }
}

/// Only the loopback header of the capturing machine's byte order may be swapped; OpenBSD's is always big-endian.
#[test]
fn a_swapped_loopback_header_is_one_of_its_machine() {
    let frame = |head: [u8; 4]| [&head[..], &ipv4(17, 0, &[], &udp())].concat();
    for (link, head, expected) in [
        (LinkType::Loopback, [2, 0, 0, 0], Outcome::Complete),
        (LinkType::Loopback, [0, 0, 0, 2], Outcome::Complete),
        (LinkType::OpenBsdLoop, [0, 0, 0, 2], Outcome::Complete),
        (LinkType::OpenBsdLoop, [2, 0, 0, 0], Outcome::NotIp),
    ] {
        assert_eq!(outcome(&Config::default(), link, &frame(head), &Schema::ipv4()), expected, "{link:?} {head:?}");
    }
}

/// A packet that is a first fragment twice is one if either header says so.
#[test]
fn either_fragment_header_says_that_more_follow() {
    let packet = |more: [u8; 2]| {
        let headers = [[44, 0, 0, more[0], 0, 0, 0, 1], [17, 0, 0, more[1], 0, 0, 0, 2]].concat();
        ipv6(44, &[&headers[..], &udp()[..2]].concat())
    };
    for (more, expected) in [
        ([0, 0], Outcome::Malformed),
        ([1, 0], Outcome::FirstFragmentShort),
        ([0, 1], Outcome::FirstFragmentShort),
        ([1, 1], Outcome::FirstFragmentShort),
    ] {
        assert_eq!(five(&packet(more)), expected, "{more:?}");
    }
}

/// Without a family, the width of an address says which packets a schema is for.
#[test]
fn the_width_of_an_address_shows_the_family() {
    let frames = [ipv4(17, 0, &[], &[0; 8]), ipv6(17, &[0; 8])];
    for source in [Source::Src, Source::Dst] {
        for (width, outcomes) in [
            (32, [Outcome::Complete, Outcome::OtherFamily]),
            (127, [Outcome::Complete, Outcome::OtherFamily]),
            (128, [Outcome::OtherFamily, Outcome::Complete]),
        ] {
            let schema = Schema::new(None, vec![Field::new("address", width, Kind::Prefix, Some(source))]);
            let is = frames.each_ref().map(|frame| outcome(&Config::default(), LinkType::Raw, frame, &schema));
            assert_eq!(is, outcomes, "{source:?} of {width} bits");
        }
    }
}
