//! Fields that OpenFlow switches match on: by hand, and behind labels and PPP.
//!
//! `agreement.rs` compares every field with etherparse.

use firstmatch_core::Schema;
use firstmatch_core::schema::{Family, Field, Source};
use firstmatch_net::source::{self, Limits, Packet};
use firstmatch_net::wire::{Batch, Config, Extractor, Headers, LinkType, Outcome, SourceSet, parse, parse_on};
use firstmatch_testkit::frames::{Frame, arp, ethernet, handmade, ipv4, ipv6, mpls, pppoe, random, set_checksum, udp};
use firstmatch_testkit::rng::Rng;

/// Returns a configuration with the three VLAN tags that etherparse holds.
fn config() -> Config {
    Config { max_vlan_tags: 3, metadata: 0x1122_3344_5566_7788, ..Config::default() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Present(u128),
    Absent,
    Unknown,
}
use State::{Absent, Present, Unknown};

fn state(headers: &Headers, source: Source) -> State {
    match headers.value(source) {
        Some(value) => Present(value),
        None if headers.absent().contains(source) => Absent,
        None => Unknown,
    }
}

/// Returns the preset's row for a frame as text, in which `-` is absent.
///
/// If the frame is not classified, it is the outcome.
fn row(frame: &Frame) -> String {
    let extractor = Extractor::new(&Schema::openflow()).expect("sources");
    let headers = parse_on(&config(), 3, frame.link, &frame.bytes, frame.bytes.len() as u32);
    let Some(values) = extractor.values(&headers) else { return extractor.outcome(&headers).to_string() };
    let hex = |index: usize| matches!(index, 1..=4 | 9 | 10);
    let value = |(index, value): (usize, &Option<u128>)| match value {
        None => "-".to_owned(),
        Some(value) if hex(index) => format!("{value:x}"),
        Some(value) => value.to_string(),
    };
    values.values.iter().enumerate().map(value).collect::<Vec<_>>().join(" ")
}

#[test]
fn handmade_frames_have_these_rows() {
    let ip = "a010203 c0a80405";
    let beside = "3 1122334455667788";
    let macs = "20000000002 20000000001";
    let expected = [
        ("tcp", format!("{beside} {macs} 800 - - - - {ip} 6 0 12345 443")),
        ("icmp", format!("{beside} {macs} 800 - - - - {ip} 1 0 - -")),
        ("later fragment", "fragment".to_owned()),
        ("tagged", format!("{beside} {macs} 800 100 1 - - {ip} 17 0 5353 53")),
        ("tagged twice", format!("{beside} {macs} 86dd 100 0 - - - - 6 0 12345 443")),
        ("tagged five times", "vlan-cap".to_owned()),
        ("icmpv6", format!("{beside} {macs} 86dd - - - - - - 58 0 - -")),
        ("a long chain", "extension-cap".to_owned()),
        ("arp", format!("{beside} {macs} 806 12 5 - - {ip} 2 - - -")),
        ("arp for something else", format!("{beside} {macs} 806 - - - - - - 0 - - -")),
        ("one label", format!("{beside} {macs} 8847 - - {} 5 - - - - - -", 0x12345)),
        ("labels", format!("{beside} {macs} 8848 7 0 {} 0 - - - - - -", 0xfffff)),
        ("too many labels", format!("{beside} {macs} 8847 - - 16 0 - - - - - -")),
        ("pppoe", format!("{beside} {macs} 8864 7 0 - - - - - - - -")),
        ("pppoe, lcp", format!("{beside} {macs} 8864 - - - - - - - - - -")),
        ("pppoe discovery", format!("{beside} {macs} 8863 - - - - - - - - - -")),
        ("802.3", format!("{beside} {macs} 5ff - - - - - - - - - -")),
        ("802.3, snap", format!("{beside} {macs} 800 - - - - {ip} 17 0 5353 53")),
        ("802.3, snap of a vendor", format!("{beside} {macs} 5ff - - - - - - - - - -")),
        ("802.3, spanning tree", format!("{beside} {macs} 5ff - - - - - - - - - -")),
        ("vn-tag", format!("{beside} {macs} 8926 7 0 - - - - - - - -")),
        ("e-tag", format!("{beside} {macs} 893f 7 0 - - - - - - - -")),
        ("backbone", format!("{beside} {macs} 88e7 - - - - - - - - - -")),
        ("pseudowire to 45", format!("{beside} {macs} 8847 - - 16 0 - - - - - -")),
        ("raw ipv4", format!("{beside} - - 800 - - - - {ip} 17 0 5353 53")),
        ("raw ipv6", format!("{beside} - - 86dd - - - - - - 6 0 12345 443")),
        ("link ipv6", format!("{beside} - - 86dd - - - - - - 6 0 12345 443")),
        ("loopback little", format!("{beside} - - 800 - - - - {ip} 17 0 5353 53")),
        ("cooked", format!("{beside} 20000000009 - 800 - - - - {ip} 17 0 5353 53")),
        ("loopback of an ether type", format!("{beside} - - 800 - - - - {ip} 17 0 5353 53")),
        ("cooked 802.2", format!("{beside} 20000000009 - 86dd - - - - - - 6 0 12345 443")),
        ("cooked netlink", format!("{beside} 20000000009 - - - - - - - - - - - -")),
        // The frame names the interface itself.
        ("cooked 2", "77 1122334455667788 - - 86dd - - - - - - 6 0 12345 443".to_owned()),
        ("ppp", format!("{beside} - - 800 - - - - {ip} 17 0 5353 53")),
        ("ppp, lcp", format!("{beside} - - - - - - - - - - - - -")),
        ("ppp of pppd", format!("{beside} - - 800 - - - - {ip} 17 0 5353 53")),
        ("ppp with direction", format!("{beside} - - 86dd - - - - - - 6 0 12345 443")),
        ("pppoe as a link", format!("{beside} - - 800 - - - - {ip} 17 0 5353 53")),
        ("cisco hdlc", format!("{beside} - - 800 - - - - {ip} 17 0 5353 53")),
        ("cisco hdlc, slarp", format!("{beside} - - 8035 - - - - - - - - - -")),
        ("pflog", format!("{beside} - - 800 - - - - {ip} 17 0 5353 53")),
        ("nflog, big", format!("{beside} - - 86dd - - - - - - 6 0 12345 443")),
        ("nflog without a packet", "truncated".to_owned()),
        ("802.11", format!("{beside} 20202020202 30303030303 800 - - - - {ip} 17 0 5353 53")),
        ("802.11, ordered", format!("{beside} 40404040404 30303030303 86dd - - - - - - 6 0 12345 443")),
        ("802.11, encrypted", "not-ip".to_owned()),
        ("802.11, beacon", format!("{beside} - - - - - - - - - - - - -")),
        ("802.11, several packets", "not-ip".to_owned()),
        ("802.11, later fragment", "fragment".to_owned()),
        ("radiotap, padded", format!("{beside} 30303030303 10101010101 800 - - - - {ip} 17 0 5353 53")),
        ("ppi", format!("{beside} 20202020202 30303030303 800 - - - - {ip} 17 0 5353 53")),
        ("bluetooth", "unknown-link".to_owned()),
    ];
    let frames = handmade();
    for (name, expected) in expected {
        let (_, frame) = frames.iter().find(|(known, _)| *known == name).expect(name);
        assert_eq!(row(frame), expected, "{name}");
    }
    let expedited = {
        let mut packet = ipv4(17, 0, &[], &udp());
        packet[1] = 0xbb;
        ethernet(&[], 0x0800, &packet)
    };
    assert_eq!(row(&expedited), format!("{beside} {macs} 800 - - - - {ip} 17 46 5353 53"));
    let mut packet = ipv6(17, &udp());
    packet[..2].copy_from_slice(&[0x6b, 0x9f]);
    assert_eq!(row(&ethernet(&[], 0x86dd, &packet)), format!("{beside} {macs} 86dd - - - - - - 17 46 5353 53"));
}

#[test]
fn a_fragment_without_ports_is_classified_where_the_policy_says_so() {
    let extractor = Extractor::new(&Schema::openflow()).expect("sources");
    let config = Config { fragments: firstmatch_core::policy::Fragments::Layer3, ..config() };
    let headers = parse(&config, LinkType::Raw, &ipv4(17, 0x2003, &[], &udp()));
    assert_eq!(extractor.outcome(&headers), Outcome::FragmentLayer3);
    assert_eq!(state(&headers, Source::TpDst), Absent);
}

const IP: [Source; 8] = [
    Source::Src,
    Source::Dst,
    Source::Proto,
    Source::SrcPort,
    Source::DstPort,
    Source::IcmpType,
    Source::IcmpCode,
    Source::TcpFlags,
];

#[test]
fn behind_labels_and_ppp_is_the_same_packet() {
    let mut rng = Rng::new(32);
    let (mut complete, mut not_ip) = ([0; 2], 0);
    for round in 0..60_000 {
        let inner = random(&mut rng);
        if inner.link != LinkType::Raw {
            continue;
        }
        let version = inner.bytes[0] >> 4;
        let labelled = round % 2 == 0;
        let labels = 1 + rng.below(8);
        let mut entries: Vec<u32> = (0..labels).map(|_| rng.next() as u32).collect();
        if rng.one_in(4) {
            entries[labels - 1] = if version == 4 { 64 } else { 2 << 12 | 64 };
        }
        let mut frame = if labelled {
            ethernet(&[], rng.any_of(&[0x8847, 0x8848]), &mpls(&entries, &inner.bytes))
        } else {
            let short: &[u8] = if version == 6 { &[0x57] } else { &[0x21] };
            let protocol = if rng.one_in(4) { short.to_vec() } else { [&[0], short].concat() };
            ethernet(&[], 0x8864, &pppoe(&protocol, &inner.bytes))
        };
        let cut = rng.one_in(2);
        let (head, whole) = (frame.bytes.len() - inner.bytes.len(), frame.bytes.len());
        if cut {
            frame.bytes.truncate(head + rng.below(inner.bytes.len() + 1));
        } else if !labelled {
            let padding = rng.below(30);
            frame.bytes.extend(rng.bytes(padding));
        }
        let bytes = if cut { whole } else { frame.bytes.len() };
        let headers = parse_on(&config(), 0, frame.link, &frame.bytes, bytes as u32);
        if labelled && headers.reason() == Outcome::NotIp {
            not_ip += 1;
            continue;
        }
        // Before checksum and lengths are there, a packet behind labels may be of a pseudowire.
        if labelled && headers.reason() == Outcome::Truncated && headers.family().is_none() {
            assert!(cut && IP.iter().all(|&source| state(&headers, source) != Absent), "{frame:02x?}");
            continue;
        }
        let end = (frame.bytes.len() - head).min(inner.bytes.len());
        let link = match version {
            _ if labelled => LinkType::Raw,
            6 => LinkType::Ipv6,
            _ => LinkType::Ipv4,
        };
        let bare = parse(&config(), link, &inner.bytes[..end]);
        for source in IP {
            assert_eq!(state(&headers, source), state(&bare, source), "{source:?} of {frame:02x?}");
        }
        assert_eq!(headers.family(), bare.family(), "{frame:02x?}");
        let reason = match bare.reason() {
            Outcome::Truncated if !labelled && end == inner.bytes.len() => Outcome::Malformed,
            reason => reason,
        };
        assert_eq!(headers.reason(), reason, "{frame:02x?}");
        assert!(SourceSet::OPENFLOW.minus(headers.absent()).is_empty());
        let label = entries.first().filter(|_| labelled).map(|entry| u128::from(entry >> 12));
        assert_eq!(headers.value(Source::MplsLabel), label);
        complete[usize::from(labelled)] += usize::from(headers.reason() == Outcome::Complete);
    }
    assert!(complete.iter().all(|&count| count > 1_000), "{complete:?}");
    assert!((1..complete[1]).contains(&not_ip), "{not_ip}; {complete:?}");
}

#[test]
fn labels_and_ppp_that_make_no_sense_are_not_read() {
    let five = |ether_type, payload: &[u8], config: &Config| {
        let frame = ethernet(&[], ether_type, payload);
        let extractor = Extractor::new(&Schema::ipv4()).expect("sources");
        extractor.outcome(&parse(config, frame.link, &frame.bytes))
    };
    let plain = ipv4(17, 0, &[], &udp());
    let labels = |count: usize, cap: usize| {
        five(0x8847, &mpls(&vec![0; count], &plain), &Config { max_mpls_labels: cap, ..Config::default() })
    };
    assert_eq!([labels(1, 1), labels(2, 1)], [Outcome::Complete, Outcome::MplsCap]);
    assert_eq!([labels(1, 0), labels(20, 20)], [Outcome::MplsCap, Outcome::Complete]);
    let session = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut payload = pppoe(&[0, 0x21], &plain);
        change(&mut payload);
        five(0x8864, &payload, &Config::default())
    };
    assert_eq!(session(&|_| {}), Outcome::Complete);
    assert_eq!(session(&|p| p[0] = 0x12), Outcome::Malformed, "another version");
    assert_eq!(session(&|p| p[1] = 0xa7), Outcome::NotIp, "not session data");
    assert_eq!(session(&|p| p[5] = 1), Outcome::Malformed, "no room for the protocol");
    assert_eq!(session(&|p| p[5] = 2), Outcome::Malformed, "nothing but the protocol");
    assert_eq!(session(&|p| p[5] = 25), Outcome::Malformed, "IP claims more than the session gives it");
    assert_eq!(session(&|p| p[4] = 1), Outcome::Complete, "the capture is shorter than the packet");
    assert_eq!(session(&|p| p.truncate(7)), Outcome::Truncated);
    assert_eq!(session(&|p| p[7] = 0x57), Outcome::Malformed, "PPP says IPv6");
    assert_eq!(session(&|p| p[6..8].copy_from_slice(&[0x80, 0x21])), Outcome::NotIp, "IPCP");
}

/// A pseudowire's frames may begin like IP; label, checksum and lengths tell them apart.
#[test]
fn behind_labels_label_checksum_or_lengths_decide() {
    let behind = |label: u32, packet: &[u8], captured: usize, bytes: usize| {
        let frame = ethernet(&[], 0x8847, &mpls(&[label << 12], packet)).bytes;
        parse_on(&config(), 0, LinkType::Ethernet, &frame[..18 + captured], 18 + bytes as u32)
    };
    let headers = |packet: &[u8], captured: usize, bytes: usize| behind(16, packet, captured, bytes);
    let reason = |packet: &[u8], captured: usize, bytes: usize| headers(packet, captured, bytes).reason();
    let (v4, v6) = (ipv4(17, 0, &[], &udp()), ipv6(17, &udp()));
    for packet in [&v4, &v6] {
        let len = packet.len();
        assert_eq!(reason(packet, len, len), Outcome::Complete);
        assert_eq!(reason(&[&packet[..], &[0; 64]].concat(), len + 64, len + 64), Outcome::Complete, "padding");
        assert_eq!(reason(packet, len - 1, len - 1), Outcome::NotIp, "more is stated than there is");
        assert_eq!(reason(packet, len - 8, len), Outcome::Complete, "the capture is cut behind the ports");
        assert_eq!(reason(packet, 19, len), Outcome::Truncated);
        assert_eq!(reason(packet, 19, 19), Outcome::NotIp);
    }
    // A wrong checksum alone is no reason to doubt, but a wrong version or length is.
    for byte in 0..20 {
        let mut packet = v4.clone();
        packet[byte] ^= 0x10;
        let expected = match byte {
            0 | 2 | 3 => Outcome::NotIp,
            6 | 7 => Outcome::Fragment,
            _ => Outcome::Complete,
        };
        assert_eq!(reason(&packet, packet.len(), packet.len()), expected, "byte {byte}");
    }
    let mut wrong = v4.clone();
    wrong[10] ^= 1;
    let len = wrong.len();
    let padded = |packet: &[u8], padding: usize| [packet, &vec![0; padding]].concat();
    for (padding, expected) in [(0, Outcome::Complete), (14, Outcome::Complete), (15, Outcome::NotIp)] {
        assert_eq!(reason(&padded(&wrong, padding), len + padding, len + padding), expected, "{padding}");
        // The label 0 announces IPv4, whatever its checksum and its lengths.
        let announced = behind(0, &padded(&wrong, padding), len + padding, len + padding);
        assert_eq!((announced.reason(), announced.family()), (Outcome::Complete, Some(Family::Ipv4)), "{padding}");
    }
    assert_eq!(reason(&padded(&v4, 65), len + 65, len + 65), Outcome::Complete, "a right checksum");
    assert_eq!(behind(0, &v6, v6.len(), v6.len()).reason(), Outcome::Complete, "the lengths still decide");
    assert_eq!(behind(2, &padded(&v6, 65), v6.len() + 65, v6.len() + 65).reason(), Outcome::Complete);
    assert_eq!(behind(2, &wrong, len, len).reason(), Outcome::Complete);
    for (label, first) in [(0, 0x15), (0, 0x00), (2, 0x55)] {
        let mut packet = v4.clone();
        packet[0] = first;
        assert_eq!(behind(label, &packet, len, len).reason(), Outcome::NotIp, "{label} {first:#x}");
    }
    let mut broken = v4.clone();
    broken[0] = 0x44;
    assert_eq!(behind(0, &broken, len, len).reason(), Outcome::Malformed, "a header of 16 bytes");
    let mut whole = v4.clone();
    whole[2..4].fill(0);
    set_checksum(&mut whole);
    let unknown = headers(&whole, whole.len(), whole.len()).unknown();
    assert_eq!(unknown, SourceSet::of(&[Source::Length]), "segmentation offload states no length");
    assert_eq!(reason(&[&v6[..], &[0; 65]].concat(), v6.len() + 65, v6.len() + 65), Outcome::NotIp);
}

#[test]
fn a_cut_arp_packet_is_unknown_to_openflow_alone() {
    let frame = ethernet(&[], 0x0806, &arp(1));
    let openflow = Extractor::new(&Schema::openflow()).expect("sources");
    let inet = Extractor::new(&Schema::ipv4()).expect("sources");
    let fields = |sources: &[Source]| sources.iter().map(|&s| Field::from_source(s, Family::Ipv4)).collect();
    let operation = Extractor::new(&Schema::new(None, fields(&[Source::IpProto]))).expect("sources");
    for cut in 14..=frame.bytes.len() {
        let headers = parse(&config(), frame.link, &frame.bytes[..cut]);
        assert_eq!(inet.outcome(&headers), Outcome::NotIp);
        let expected = if cut < 14 + 28 { Outcome::Truncated } else { Outcome::NoPorts };
        assert_eq!(openflow.outcome(&headers), expected, "cut at {cut}");
        let expected = if cut < 14 + 8 { Outcome::Truncated } else { Outcome::Complete };
        assert_eq!(operation.outcome(&headers), expected, "cut at {cut}");
    }
}

#[test]
fn a_batch_takes_the_interface_from_the_packet_and_the_metadata_from_the_configuration() {
    let config = Config { metadata: u64::MAX - 1, ..Config::default() };
    let mut batch = Batch::new(&config, &[Schema::openflow()]).expect("sources");
    let frame = ethernet(&[], 0x0800, &ipv4(17, 0, &[], &udp()));
    let packet = Packet { link: frame.link, interface: 5, data: &frame.bytes, original_len: 60, time: None };
    assert_eq!(batch.push(&packet), Outcome::Complete);
    assert_eq!(batch.push_frame(frame.link, &frame.bytes, 60), Outcome::Complete);
    let headers = parse(&config, frame.link, &frame.bytes).with_in_port(u32::MAX).with_metadata(7 << 32);
    assert_eq!(batch.push_headers(&headers, 60), Outcome::Complete);
    let start = |row: usize| batch.keys(0).row(row)[..3].to_vec();
    assert_eq!(start(0), [5, u32::MAX, u32::MAX - 1]);
    assert_eq!(start(1), [0, u32::MAX, u32::MAX - 1]);
    assert_eq!(start(2), [u32::MAX, 7, 0]);
}

/// Reads a section with an Ethernet, a raw and a cooked interface, and a packet of each.
#[test]
fn each_packet_of_a_capture_has_the_link_type_of_its_interface() {
    let block = |kind: u32, body: &[u8]| {
        let len = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, body, &len].concat()
    };
    let frames = handmade();
    let frame = |name| &frames.iter().find(|(known, _)| *known == name).expect("known").1;
    let frames = [frame("tagged"), frame("raw ipv6"), frame("cooked 2"), frame("one label")];
    let mut file = block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    for frame in frames {
        file.extend(block(1, &[&frame.link.number().to_le_bytes()[..], &[0; 6]].concat()));
    }
    for interface in [2_u32, 0, 1, 3, 0] {
        let bytes = &frames[interface as usize].bytes;
        let head = [interface, 0, 0, bytes.len() as u32, bytes.len() as u32].map(u32::to_le_bytes).concat();
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        file.extend(block(6, &[&head[..], bytes, &vec![0; padding]].concat()));
    }
    let opened = source::from_reader("test", Box::new(std::io::Cursor::new(file)), &Limits::default());
    let mut capture = opened.and_then(source::Input::into_capture).expect("a capture");
    let mut batch = Batch::new(&Config::default(), &[Schema::openflow()]).expect("sources");
    while let Some(packet) = capture.next().expect("whole") {
        assert!(batch.push(&packet).is_classified());
    }
    let field = |index: usize| {
        let word = Schema::openflow().words_of(index).start;
        (0..5).map(|row| batch.keys(0).row(row)[word]).collect::<Vec<_>>()
    };
    assert_eq!(field(0), [77, 0, 1, 3, 0]);
    assert_eq!(field(4), [0x86dd, 0x0800, 0x86dd, 0x8847, 0x0800]);
    assert_eq!(field(5), [1 << 12, 100, 1 << 12, 1 << 12, 100]);
}
