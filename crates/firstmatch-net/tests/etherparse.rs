//! Packet by packet against etherparse. Where the two differ on purpose, the difference has a name, its condition is
//! asserted, and a name that no packet earns fails the test.

mod common;

use std::collections::BTreeMap;

use common::{Frame, Rng, captures, damage, handmade, random};
use etherparse::err::Layer;
use etherparse::err::ipv6_exts::{HeaderError, HeaderSliceError};
use etherparse::{
    EtherType, IpAuthHeaderSlice, IpNumber, Ipv6ExtensionsSlice, Ipv6FragmentHeaderSlice, Ipv6RawExtHeaderSlice,
    LaxLinkExtSlice, LaxNetSlice, LaxSlicedPacket, LinkSlice, PacketBuilder, TransportSlice,
};
use firstmatch::schema::{Family, Source};
use firstmatch_net::source;
use firstmatch_net::wire::{Config, Headers, LinkType, Outcome, parse};

/// The permitted disagreements.
const DIFFERENCES: [&str; 14] = [
    // etherparse looks behind MACsec; here that is another ether type.
    "macsec",
    // etherparse believes the version nibble, whatever the ether type says.
    "version contradicts ether type",
    // etherparse then takes the captured length.
    "total length below header length",
    // etherparse wants the whole IPv4 header, addresses stand in its first 20 bytes.
    "options cut",
    // To etherparse AH extends IPv4 as well.
    "ah over ipv4",
    // Linux walks such a header, etherparse stops there.
    "hop-by-hop not at the start",
    "ah of length zero",
    // Its first 8 bytes are there, they name what follows.
    "extension header cut",
    // etherparse has no cap.
    "extension cap",
    // etherparse looks for further headers in the middle of a packet.
    "walks on in a later fragment",
    // etherparse reads either ICMP in either IP.
    "icmp of the other family",
    // etherparse reads no transport header of a fragment; a first one has it.
    "first fragment",
    // etherparse has no SCTP, DCCP or UDP-Lite.
    "other transport",
    // etherparse wants the whole transport header, fields stand at its beginning.
    "transport header cut or contradictory",
];

const CAP: usize = 8;
const CONFIG: Config = Config {
    fragments: firstmatch::policy::Fragments::Unknown,
    max_extension_headers: CAP,
    // What etherparse holds.
    max_vlan_tags: 3,
    max_mpls_labels: 8,
    metadata: 0,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Present(u128),
    Absent,
    Unknown,
}
use State::{Absent, Present, Unknown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    vlan: State,
    src: State,
    dst: State,
    proto: State,
    ports: [State; 2],
    icmp: [State; 2],
    flags: State,
}

const NOTHING: Fields = Fields {
    vlan: Unknown,
    src: Unknown,
    dst: Unknown,
    proto: Unknown,
    ports: [Unknown; 2],
    icmp: [Unknown; 2],
    flags: Unknown,
};

fn ours(headers: &Headers) -> Fields {
    let state = |source| match headers.value(source) {
        Some(value) => Present(value),
        None if headers.absent().contains(source) => Absent,
        None => Unknown,
    };
    Fields {
        vlan: state(Source::VlanVid),
        src: state(Source::Src),
        dst: state(Source::Dst),
        proto: state(Source::Proto),
        ports: [state(Source::SrcPort), state(Source::DstPort)],
        icmp: [state(Source::IcmpType), state(Source::IcmpCode)],
        flags: state(Source::TcpFlags),
    }
}

#[derive(Default)]
struct Notes(BTreeMap<&'static str, usize>);

impl Notes {
    fn add(&mut self, name: &'static str) {
        assert!(DIFFERENCES.contains(&name), "{name} is not listed");
        *self.0.entry(name).or_default() += 1;
    }
}

/// What the parser must say, as etherparse sees the frame.
fn expected(frame: &Frame, headers: &Headers, notes: &mut Notes) -> Fields {
    let mut fields = NOTHING;
    let theirs = match frame.link {
        LinkType::Ethernet => LaxSlicedPacket::from_ethernet(&frame.bytes).ok(),
        LinkType::Raw => LaxSlicedPacket::from_ip(&frame.bytes).ok(),
        _ => unreachable!("not compared"),
    };
    let stopped = theirs.as_ref().and_then(|p| p.stop_err.as_ref()).map(|(_, layer)| *layer);
    let exts: &[LaxLinkExtSlice<'_>] = theirs.as_ref().map_or(&[], |p| &p.link_exts);
    let mut ip = &frame.bytes[..];
    let mut ether_type = None;
    if frame.link == LinkType::Ethernet {
        let Some(theirs) = &theirs else {
            assert!(frame.bytes.len() < 14);
            return fields;
        };
        let Some(LinkSlice::Ethernet2(link)) = &theirs.link else { panic!("no ethernet in {theirs:?}") };
        let mut last = link.ether_type();
        ip = &ip[14..];
        fields.vlan = match exts.first() {
            Some(LaxLinkExtSlice::Vlan(tag)) => Present(tag.vlan_identifier().value().into()),
            None if stopped == Some(Layer::VlanHeader) => Unknown,
            _ => Absent,
        };
        for ext in exts {
            match ext {
                LaxLinkExtSlice::Vlan(tag) => last = tag.ether_type(),
                LaxLinkExtSlice::Macsec(_) => {
                    notes.add("macsec");
                    assert_eq!(headers.reason(), Outcome::NotIp);
                    return fields;
                }
            }
            ip = &ip[4..];
        }
        ether_type = Some(last);
    } else {
        fields.vlan = Absent;
    }
    let net = theirs.as_ref().and_then(|p| p.net.as_ref());
    let says = |number: u16| ether_type.is_none_or(|ether_type| ether_type == EtherType(number));
    let net = match net {
        Some(LaxNetSlice::Ipv4(_)) if !says(0x0800) => None,
        Some(LaxNetSlice::Ipv6(_)) if !says(0x86dd) => None,
        net => net,
    };
    match net {
        Some(LaxNetSlice::Ipv4(v4)) => {
            let head = v4.header();
            let total = usize::from(head.total_len());
            if total != 0 && total < head.slice().len() {
                notes.add("total length below header length");
                assert_eq!(headers.reason(), Outcome::Malformed);
                return fields;
            }
            fields.src = Present(u32::from(head.source_addr()).into());
            fields.dst = Present(u32::from(head.destination_addr()).into());
            fields.proto = Present(head.protocol().0.into());
            if head.fragments_offset().value() != 0 {
                return fields;
            }
            if head.protocol() == IpNumber(51) {
                notes.add("ah over ipv4");
                return no_upper(fields);
            }
            let upper = Upper { proto: head.protocol(), icmp: 1, bytes: v4.payload().payload };
            upper_fields(fields, &upper, v4.payload().fragmented, theirs.as_ref(), notes)
        }
        Some(LaxNetSlice::Ipv6(v6)) => {
            fields.src = Present(v6.header().source_addr().to_bits());
            fields.dst = Present(v6.header().destination_addr().to_bits());
            let declared = usize::from(v6.header().payload_length());
            let payload = &ip[40..];
            let payload = if declared == 0 { payload } else { &payload[..payload.len().min(declared)] };
            let declared = (declared != 0).then_some(declared);
            ipv6_fields(fields, v6.header().next_header(), payload, declared, theirs.as_ref(), notes)
        }
        _ => {
            let version = ip.first().map(|byte| byte >> 4);
            if theirs.as_ref().is_some_and(|p| matches!(p.net, Some(LaxNetSlice::Ipv4(_) | LaxNetSlice::Ipv6(_)))) {
                notes.add("version contradicts ether type");
                assert_eq!(headers.reason(), Outcome::Malformed);
            } else if version == Some(4) && says(0x0800) && ip.len() >= 20 && ip[0] & 15 >= 5 {
                let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
                let head = usize::from(ip[0] & 15) * 4;
                assert!(ip.len() < head, "etherparse refused {frame:?}");
                if total != 0 && total < head {
                    assert_eq!(headers.reason(), Outcome::Malformed);
                    return fields;
                }
                notes.add("options cut");
                fields.src = Present(u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]).into());
                fields.dst = Present(u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]).into());
                fields.proto = Present(ip[9].into());
                if u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0 {
                    fields = only_of(fields, ip[9], 1);
                }
            }
            fields
        }
    }
}

fn no_upper(fields: Fields) -> Fields {
    Fields { ports: [Absent; 2], icmp: [Absent; 2], flags: Absent, ..fields }
}

fn has_ports(proto: u8) -> bool {
    matches!(proto, 6 | 17 | 33 | 132 | 136)
}

/// Absent what this protocol has not; unknown the rest.
fn only_of(fields: Fields, proto: u8, icmp: u8) -> Fields {
    let mut fields = no_upper(fields);
    if has_ports(proto) {
        fields.ports = [Unknown; 2];
    }
    if proto == 6 {
        fields.flags = Unknown;
    }
    if proto == icmp {
        fields.icmp = [Unknown; 2];
    }
    fields
}

struct Upper<'a> {
    proto: IpNumber,
    icmp: u8,
    bytes: &'a [u8],
}

fn upper_fields(
    fields: Fields,
    upper: &Upper<'_>,
    fragmented: bool,
    theirs: Option<&LaxSlicedPacket<'_>>,
    notes: &mut Notes,
) -> Fields {
    let (proto, bytes) = (upper.proto.0, upper.bytes);
    let mut fields = only_of(fields, proto, upper.icmp);
    match theirs.and_then(|p| p.transport.as_ref()) {
        Some(TransportSlice::Tcp(tcp)) => {
            fields.ports = [tcp.source_port(), tcp.destination_port()].map(|port| Present(port.into()));
            let bits = [tcp.fin(), tcp.syn(), tcp.rst(), tcp.psh(), tcp.ack(), tcp.urg(), tcp.ece(), tcp.cwr()];
            let bits = bits.iter().enumerate().fold(0, |all, (bit, &set)| all | u128::from(set) << bit);
            fields.flags = Present(bits);
        }
        Some(TransportSlice::Udp(udp)) => {
            fields.ports = [udp.source_port(), udp.destination_port()].map(|port| Present(port.into()));
        }
        Some(TransportSlice::Icmpv4(icmp)) if upper.icmp == 1 => {
            fields.icmp = [icmp.type_u8(), icmp.code_u8()].map(|value| Present(value.into()));
        }
        Some(TransportSlice::Icmpv6(icmp)) if upper.icmp == 58 => {
            fields.icmp = [icmp.type_u8(), icmp.code_u8()].map(|value| Present(value.into()));
        }
        Some(TransportSlice::Icmpv4(_) | TransportSlice::Icmpv6(_)) => notes.add("icmp of the other family"),
        Some(TransportSlice::Igmp(_)) => assert_eq!(proto, 2),
        None if has_ports(proto) || proto == upper.icmp => {
            if fragmented {
                notes.add("first fragment");
            } else if matches!(proto, 33 | 132 | 136) {
                notes.add("other transport");
            } else {
                let offset = bytes.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
                let strict = match proto {
                    6 => bytes.len() < 20 || offset < 20 || offset > bytes.len(),
                    _ => bytes.len() < 8,
                };
                assert!(strict || theirs.is_some_and(|p| p.stop_err.is_some()), "no transport in {theirs:?}");
                notes.add("transport header cut or contradictory");
            }
            let pair =
                |at: usize| bytes.get(at..at + 2).map(|two| Present(u16::from_be_bytes([two[0], two[1]]).into()));
            if has_ports(proto) && bytes.len() >= 4 {
                fields.ports = [0, 2].map(|at| pair(at).unwrap_or(Unknown));
            }
            if proto == 6 && bytes.len() >= 14 {
                fields.flags = Present(bytes[13].into());
            }
            if proto == upper.icmp && bytes.len() >= 2 {
                fields.icmp = [bytes[0], bytes[1]].map(|value| Present(value.into()));
            }
        }
        None => {}
    }
    fields
}

/// The chain is walked here with etherparse's headers one by one: its own iterator reads out of bounds where a chain
/// ends early (0.21, a debug assertion of the standard library stops it).
fn ipv6_fields(
    fields: Fields,
    first: IpNumber,
    payload: &[u8],
    declared: Option<usize>,
    theirs: Option<&LaxSlicedPacket<'_>>,
    notes: &mut Notes,
) -> Fields {
    let (mut next, mut rest, mut walked, mut fragmented, mut resumed) = (first, payload, 0, false, false);
    loop {
        let (exts, number, after, error) = Ipv6ExtensionsSlice::from_slice_lax(next, rest);
        let (mut kind, mut left) = (next, exts.slice());
        while !left.is_empty() {
            walked += 1;
            if walked > CAP {
                notes.add("extension cap");
                return fields;
            }
            let (following, len) = match kind {
                IpNumber(44) => {
                    let fragment = Ipv6FragmentHeaderSlice::from_slice(left).expect("walked before");
                    fragmented |= fragment.is_fragmenting_payload();
                    if fragment.fragment_offset().value() != 0 {
                        if left.len() > 8 || error.is_some() {
                            notes.add("walks on in a later fragment");
                        }
                        return fields;
                    }
                    (fragment.next_header(), 8)
                }
                IpNumber(51) => {
                    let auth = IpAuthHeaderSlice::from_slice(left).expect("walked before");
                    (auth.next_header(), auth.slice().len())
                }
                _ => {
                    let ext = Ipv6RawExtHeaderSlice::from_slice(left).expect("walked before");
                    (ext.next_header(), ext.slice().len())
                }
            };
            (kind, left) = (following, &left[len..]);
        }
        (next, rest) = (number, after);
        if error.is_some() && walked == CAP {
            notes.add("extension cap");
            return fields;
        }
        match error.map(|(error, _)| error) {
            None => break,
            Some(HeaderSliceError::Content(HeaderError::HopByHopNotAtStart)) => {
                assert_eq!(next, IpNumber(0));
                notes.add("hop-by-hop not at the start");
                resumed = true;
                continue;
            }
            Some(HeaderSliceError::Content(HeaderError::IpAuth(_))) if rest.len() >= 8 => {
                assert_eq!((next, rest[1]), (IpNumber(51), 0));
                notes.add("ah of length zero");
                (next, rest) = (IpNumber(rest[0]), &rest[8..]);
                walked += 1;
                resumed = true;
                if !is_extension(next) {
                    break;
                }
                if walked == CAP {
                    notes.add("extension cap");
                    return fields;
                }
            }
            Some(_) => {
                if rest.len() < 8 || is_extension(IpNumber(rest[0])) {
                    return fields;
                }
                let units = usize::from(rest[1]);
                let len = if next == IpNumber(51) { (units + 2) * 4 } else { (units + 1) * 8 };
                assert!(rest.len() < len, "etherparse refused {rest:?}");
                if declared.is_some_and(|declared| declared - (payload.len() - rest.len()) < len) {
                    return fields;
                }
                notes.add("extension header cut");
                return only_of(Fields { proto: Present(rest[0].into()), ..fields }, rest[0], 58);
            }
        }
    }
    let fields = Fields { proto: Present(next.0.into()), ..fields };
    let upper = Upper { proto: next, icmp: 58, bytes: rest };
    let theirs = theirs.filter(|p| !resumed || p.stop_err.is_some());
    upper_fields(fields, &upper, fragmented, theirs, notes)
}

fn is_extension(number: IpNumber) -> bool {
    matches!(number.0, 0 | 43 | 44 | 51 | 60)
}

fn compare(frame: &Frame, notes: &mut Notes) {
    let headers = parse(&CONFIG, frame.link, &frame.bytes);
    let fields = expected(frame, &headers, notes);
    assert_eq!(ours(&headers), fields, "{frame:02x?}\n{headers:?}");
    if let Present(_) = fields.src {
        let v4 =
            matches!(fields.src, Present(value) if value <= u32::MAX.into()) && headers.family() == Some(Family::Ipv4);
        assert!(v4 || headers.family() == Some(Family::Ipv6));
    }
}

#[test]
fn drawn_and_damaged_packets_agree() {
    let mut rng = Rng(21);
    let mut notes = Notes::default();
    let mut classified = 0;
    for round in 0..300_000 {
        let mut frame = random(&mut rng);
        if round % 2 == 0 {
            damage(&mut rng, &mut frame);
        }
        compare(&frame, &mut notes);
        classified += usize::from(parse(&CONFIG, frame.link, &frame.bytes).reason() == Outcome::Complete);
    }
    for name in DIFFERENCES {
        assert!(notes.0.contains_key(name), "no packet shows: {name}; {:?}", notes.0);
    }
    assert!((100_000..250_000).contains(&classified), "{classified} of 300,000 wholly known");
}

#[test]
fn handmade_packets_agree_cut_anywhere() {
    let mut notes = Notes::default();
    for (_, frame) in handmade() {
        // What is behind labels and PPP is compared in tests/openflow.rs.
        let walled = [0x8847, 0x8848, 0x8864];
        let ether_type = parse(&CONFIG, frame.link, &frame.bytes).value(Source::EthType);
        if matches!(frame.link, LinkType::Ethernet | LinkType::Raw) && !ether_type.is_some_and(|t| walled.contains(&t))
        {
            for cut in 0..=frame.bytes.len() {
                compare(&Frame { link: frame.link, bytes: frame.bytes[..cut].to_vec() }, &mut notes);
            }
        }
    }
}

#[test]
fn packets_etherparse_built_agree() {
    let mut rng = Rng(22);
    let mut notes = Notes::default();
    let mac = [1, 2, 3, 4, 5, 6];
    for _ in 0..5_000 {
        let payload = rng.below(40);
        let payload = rng.bytes(payload);
        let (a, b) = (rng.next() as u16, rng.next() as u16);
        let vid = etherparse::VlanId::try_new(a & 0xfff).expect("12 bits");
        let v4 = || PacketBuilder::ethernet2(mac, mac).ipv4([10, 0, 0, a as u8], [10, 1, b as u8, 9], 9);
        let v6 = || PacketBuilder::ethernet2(mac, mac).single_vlan(vid).ipv6([a as u8; 16], [b as u8; 16], 9);
        let mut bytes = Vec::new();
        match rng.below(6) {
            0 => v4().tcp(a, b, 1, 2).syn().ack(3).write(&mut bytes, &payload),
            1 => v4().udp(a, b).write(&mut bytes, &payload),
            2 => v4().icmpv4_echo_request(a, b).write(&mut bytes, &payload),
            3 => v6().tcp(a, b, 1, 2).fin().write(&mut bytes, &payload),
            4 => v6().udp(a, b).write(&mut bytes, &payload),
            _ => v6().icmpv6_echo_reply(a, b).write(&mut bytes, &payload),
        }
        .expect("built");
        let frame = Frame { link: LinkType::Ethernet, bytes };
        assert_eq!(parse(&CONFIG, frame.link, &frame.bytes).reason(), Outcome::Complete);
        compare(&frame, &mut notes);
    }
    assert!(notes.0.is_empty(), "{:?}", notes.0);
}

#[test]
fn real_captures_agree() {
    let captures = captures();
    if captures.is_empty() {
        println!("NOT TESTED: pcap-parser's captures are not in cargo's registry folder");
        return;
    }
    let mut notes = Notes::default();
    let (mut packets, mut compared) = (0, 0);
    for path in captures {
        let mut capture = source::open(&path).and_then(source::Input::into_capture).expect("a capture");
        loop {
            let packet = match capture.next() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(error) => {
                    println!("{error}");
                    break;
                }
            };
            packets += 1;
            let frame = Frame { link: packet.link, bytes: packet.data.to_vec() };
            if matches!(frame.link, LinkType::Ethernet | LinkType::Raw) {
                compared += 1;
                compare(&frame, &mut notes);
            }
        }
        println!("{}: {} packets, cut: {:?}", path.display(), capture.packets(), capture.cut());
    }
    println!("{packets} packets, {compared} compared, {:?}", notes.0);
    assert!(compared > 1000, "{compared} of {packets} compared");
}
