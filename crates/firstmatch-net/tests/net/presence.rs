//! Comparison of the core's table of which packets have a field with the parser.

use firstmatch_core::analyze::{self, Analysis};
use firstmatch_core::policy::{Fragments, Policy};
use firstmatch_core::rule::RuleSet;
use firstmatch_core::schema::{Family, Field, IPV6_EXTENSIONS, Schema, Source};
use firstmatch_net::wire::{self, Batch, Config, LinkType};
use firstmatch_testkit::frames::{Frame, any, set_checksum};
use firstmatch_testkit::rng::Rng;

/// Returns a frame of this ether type with IP inside, as far as the ether type may carry it.
fn frame(ether_type: u16, family: Family, protocol: u8) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(ether_type.to_be_bytes());
    let mut ip = match family {
        Family::Ipv4 => {
            let mut head = vec![0x45, 0, 0, 84, 0, 0, 0, 0, 64, protocol, 0, 0];
            head.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            head
        }
        Family::Ipv6 => [vec![0x60, 0, 0, 0, 0, 64, protocol, 64], vec![1; 32]].concat(),
    };
    let mut payload = [0; 64];
    (payload[1], payload[3], payload[5], payload[12]) = (7, 9, 64, 5 << 4);
    ip.extend(payload);
    if family == Family::Ipv4 {
        set_checksum(&mut ip);
    }
    match ether_type {
        0x0806 => frame.extend([0, 1, 8, 0, 6, 4, 0, 1].into_iter().chain([1; 20])),
        0x8847 | 0x8848 => frame.extend([0, 0, 0x11, 64].into_iter().chain(ip)),
        0x8864 => {
            let protocol: u16 = if family == Family::Ipv4 { 0x21 } else { 0x57 };
            let len = ip.len() as u16 + 2;
            frame.extend([0x11, 0, 0, 7].into_iter().chain(len.to_be_bytes()).chain(protocol.to_be_bytes()).chain(ip));
        }
        0x8926 => frame.extend([0; 4].into_iter().chain(own(family)).chain(ip)),
        0x893f => frame.extend([0; 6].into_iter().chain(own(family)).chain(ip)),
        0x88e7 => frame.extend([0; 16].into_iter().chain(own(family)).chain(ip)),
        _ => frame.extend(ip),
    }
    frame
}

fn own(family: Family) -> [u8; 2] {
    if family == Family::Ipv4 { [0x08, 0x00] } else { [0x86, 0xdd] }
}

/// No frame has values that an analysis of rules takes for impossible.
#[test]
fn parsed_packets_are_possible() {
    let fields = |family: Option<Family>| {
        let fields = Source::ALL.map(|source| Field::from_source(source, family.unwrap_or(Family::Ipv4)));
        Schema::new(family, fields.into())
    };
    let five = |family| Schema::five_tuple(family, &[Source::TcpFlags, Source::IcmpType, Source::IcmpCode]);
    let sets = [
        RuleSet::dual(five(Family::Ipv4), five(Family::Ipv6)),
        RuleSet::dual(fields(Some(Family::Ipv4)), fields(Some(Family::Ipv6))),
        RuleSet::new(Schema::openflow()),
    ];
    let mut rng = Rng::new(77);
    let frames: Vec<Frame> = (0..40_000).map(|_| any(&mut rng)).collect();
    for fragments in [Fragments::Unknown, Fragments::Layer3] {
        let policy = Policy { fragments, ..Policy::default() };
        for rules in &sets {
            let schemas = rules.schemas();
            let mut config = analyze::Config::default();
            config.keys = analyze::KeySpace::ParsedWhole;
            let analysis = Analysis::new(rules, &policy, &config).expect("no rules");
            let batch = Batch::for_policy(&policy, schemas).expect("sources");
            let mut count = 0;
            for frame in &frames {
                let headers = wire::parse(batch.config(), frame.link, &frame.bytes);
                let Some(values) = batch.values(&headers) else { continue };
                assert!(analysis.is_possible(&values), "{frame:02x?}: {values:?} over {schemas:?}");
                count += 1;
            }
            assert!(count > 1_000, "{count} of {schemas:?}");
        }
    }
}

#[test]
fn a_field_is_there_where_the_table_says() {
    let config = Config::default();
    for family in [Family::Ipv4, Family::Ipv6] {
        let own = if family == Family::Ipv4 { 0x0800 } else { 0x86dd };
        for protocol in 0..=u8::MAX {
            if family == Family::Ipv6 && (IPV6_EXTENSIONS.contains(&protocol) || protocol == 59) {
                continue;
            }
            let headers = wire::parse(&config, LinkType::Ethernet, &frame(own, family, protocol));
            for source in Source::ALL {
                let Some(protocols) = source.protocols(Some(family)) else { continue };
                let is_there = headers.value(source).is_some();
                assert_eq!(
                    is_there,
                    protocols.contains(&protocol),
                    "{} in {family} of protocol {protocol}",
                    source.name()
                );
            }
        }
        for ether_type in [own, 0x0806, 0x8926, 0x893f, 0x88e7, 0x8847, 0x8848, 0x8864, 0x88cc] {
            let headers = wire::parse(&config, LinkType::Ethernet, &frame(ether_type, family, 6));
            for source in Source::ALL {
                // No frame here has a routing header.
                let of_tcp = source.protocols(Some(family)).is_none_or(|all| all.contains(&6));
                let Some(kinds) = source.ether_types().filter(|_| of_tcp && source != Source::RoutingType) else {
                    continue;
                };
                let expected = kinds.contains(&ether_type) && source.family().is_none_or(|required| required == family);
                let is_there = headers.value(source).is_some();
                assert_eq!(is_there, expected, "{} behind {ether_type:#06x}, {family}", source.name());
            }
        }
    }
    // An extension header is never the protocol of IPv6, because the protocol comes after it. The first five are
    // followed.
    for extension in IPV6_EXTENSIONS.into_iter().take(5) {
        let headers = wire::parse(&config, LinkType::Ethernet, &frame(0x86dd, Family::Ipv6, extension));
        assert_ne!(headers.value(Source::Proto), Some(extension.into()));
    }
}
