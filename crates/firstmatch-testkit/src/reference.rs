//! Reference for the parser, built on etherparse: the expected state of each header field.
//!
//! Where the two differ on purpose, the difference has a name in [`DIFFERENCES`] and its condition is asserted. Labels,
//! PPP and the heads of some link types, a few bytes each, are read here, because etherparse does not read them. The
//! packets behind them are etherparse's again.
#![allow(dead_code, unreachable_pub, reason = "each user takes a part of it")]

mod ip;
mod links;

use std::collections::BTreeMap;
use std::fmt;

use etherparse::err::linux_sll;
use etherparse::{
    ArpPacketSlice, Ipv4HeaderSlice, Ipv6HeaderSlice, LaxSlicedPacket, LinkSlice, LinuxSllHeaderSlice,
    LinuxSllProtocolType,
};
use firstmatch_core::policy::Fragments;
use firstmatch_core::schema::{Family, Source};
use firstmatch_net::wire::{Config, Headers, LinkType, Outcome, parse_on};

use ip::ip;
use links::{cooked, logged_or_serial, ppi, radiotap, wlan};

use crate::frames::Frame;

/// Permitted differences.
pub const DIFFERENCES: [&str; 14] = [
    // etherparse knows a few hardware types and packet types of cooked captures and refuses the others.
    "cooked frame of other hardware",
    // etherparse needs the whole of an ARP packet, but the fields are at its beginning.
    "arp cut",
    // etherparse believes the version nibble, whatever the ether type says.
    "version contradicts ether type",
    // etherparse then takes the captured length.
    "total length below header length",
    // To etherparse AH extends IPv4 as well.
    "ah over ipv4",
    // Linux walks such a header, etherparse stops there.
    "hop-by-hop not at the start",
    "ah of length zero",
    // etherparse has no cap.
    "extension cap",
    // To etherparse the number after such a header is a protocol.
    "extension header that is not read",
    // etherparse looks for further headers in the middle of a packet.
    "walks on in a later fragment",
    // etherparse reads either ICMP in either IP.
    "icmp of the other family",
    // etherparse reads no transport header of a fragment, but a first one has it.
    "first fragment",
    // etherparse has no SCTP, DCCP or UDP-Lite.
    "other transport",
    // etherparse needs the whole transport header, but the fields are at its beginning.
    "transport header cut or contradictory",
];

const CAP: usize = 8;
const INTERFACE: u32 = 3;
const CONFIG: Config = Config {
    fragments: Fragments::Unknown,
    max_extension_headers: CAP,
    // Most tags that etherparse holds.
    max_vlan_tags: 3,
    max_mpls_labels: CAP,
    metadata: 0x1122_3344_5566_7788,
    simd: None,
};

/// Number of times that each permitted difference was seen.
#[derive(Debug, Default)]
pub struct Notes(pub BTreeMap<&'static str, usize>);

impl Notes {
    fn add(&mut self, name: &'static str) {
        assert!(DIFFERENCES.contains(&name), "{name} is not listed");
        *self.0.entry(name).or_default() += 1;
    }
}

/// Asserts that the parser returns the expected fields for this frame, of any link type.
pub fn compare(frame: &Frame, notes: &mut Notes) -> Headers {
    let headers = parse_on(&CONFIG, INTERFACE, frame.link, &frame.bytes, frame.bytes.len() as u32);
    let expected = expected(frame, &headers, notes);
    assert_eq!(Fields::of(&headers), expected, "{frame:02x?}\n{headers:?}");
    if let Present(_) = expected.get(Source::Src) {
        let family = if expected.get(Source::Ipv4Src) == Absent { None } else { Some(Family::Ipv4) };
        assert!(family.is_none_or(|family| headers.family() == Some(family)) && headers.family().is_some());
    }
    headers
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Present(u128),
    Absent,
    Unknown,
}
use State::{Absent, Present, Unknown};

/// State of every header field.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fields([State; Source::ALL.len()]);

impl Fields {
    fn of(headers: &Headers) -> Self {
        Self(Source::ALL.map(|source| match headers.value(source) {
            Some(value) => Present(value),
            None if headers.absent().contains(source) => Absent,
            None => Unknown,
        }))
    }

    fn get(&self, source: Source) -> State {
        self.0[source as usize]
    }

    fn put(&mut self, source: Source, state: State) {
        self.0[source as usize] = state;
    }

    fn put_all(&mut self, sources: &[Source], state: State) {
        sources.iter().for_each(|&source| self.put(source, state));
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(Source::ALL.iter().map(|source| (source.name(), self.get(*source)))).finish()
    }
}

const ETH: [Source; 2] = [Source::EthSrc, Source::EthDst];
const TAG: [Source; 2] = [Source::VlanVid, Source::VlanPcp];
const LABEL: [Source; 2] = [Source::MplsLabel, Source::MplsTc];
const ADDRESSES: [Source; 2] = [Source::Src, Source::Dst];
const IPV4_ADDRESSES: [Source; 2] = [Source::Ipv4Src, Source::Ipv4Dst];
const PROTO: [Source; 2] = [Source::Proto, Source::IpProto];
const PORTS: [Source; 4] = [Source::SrcPort, Source::DstPort, Source::TpSrc, Source::TpDst];
const ICMP: [Source; 2] = [Source::IcmpType, Source::IcmpCode];
const EXTENSIONS: [Source; 2] = [Source::ExtHeaders, Source::RoutingType];
/// Fields that OpenFlow reads behind the ether type.
const OPENFLOW: [Source; 6] =
    [Source::Ipv4Src, Source::Ipv4Dst, Source::IpProto, Source::IpDscp, Source::TpSrc, Source::TpDst];

fn be16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

fn mac(bytes: &[u8]) -> State {
    Present(bytes.iter().fold(0, |all, &byte| all << 8 | u128::from(byte)))
}

/// Content of a frame, as its link header states it.
enum Inside<'a> {
    /// Packet of this ether type; tags may come first.
    Type(u16, &'a [u8]),
    /// IP of this version, or of the version that it states.
    Ip(Option<u8>, &'a [u8]),
    /// Something that has no ether type.
    Nothing,
    /// 802.3 frame without an ether type.
    Untyped,
    /// Packet that is not read, for this reason; it may be of any kind.
    Hidden(Outcome),
    /// The frame ends in its link header.
    Cut,
    /// Its link header contradicts itself.
    Broken,
}

fn expected(frame: &Frame, headers: &Headers, notes: &mut Notes) -> Fields {
    let mut fields = Fields([Unknown; Source::ALL.len()]);
    fields.put(Source::InPort, Present(INTERFACE.into()));
    fields.put(Source::Metadata, Present(CONFIG.metadata.into()));
    put_frame(frame.link, &frame.bytes, headers, &mut fields, notes);
    fields
}

/// Puts the expected fields of a frame of this link type.
fn put_frame(of: LinkType, bytes: &[u8], headers: &Headers, fields: &mut Fields, notes: &mut Notes) {
    match of {
        LinkType::Other(_) => assert_eq!(headers.reason(), Outcome::UnknownLink),
        LinkType::PppoeSession => {
            [&ETH[..], &TAG, &LABEL].iter().for_each(|absent| fields.put_all(absent, Absent));
            session(bytes, true, headers, fields, notes);
        }
        LinkType::Ppi => match ppi(bytes) {
            Ok((of, inner)) => put_frame(of, inner, headers, fields, notes),
            Err(inside) => put_inside(inside, headers, fields, notes),
        },
        _ => put_inside(link(of, bytes, fields, notes), headers, fields, notes),
    }
}

fn put_inside(inside: Inside<'_>, headers: &Headers, fields: &mut Fields, notes: &mut Notes) {
    match inside {
        Inside::Hidden(reason) => assert_eq!(headers.reason(), reason),
        Inside::Untyped => {
            fields.put_all(&TAG, Absent);
            untyped(headers, fields);
        }
        Inside::Broken => assert_eq!(headers.reason(), Outcome::Malformed),
        Inside::Cut => assert_eq!(headers.reason(), Outcome::Truncated),
        Inside::Nothing => {
            assert_eq!(headers.reason(), Outcome::NotIp);
            for absent in [&TAG[..], &LABEL, &OPENFLOW, &[Source::EthType]] {
                fields.put_all(absent, Absent);
            }
        }
        Inside::Type(ether_type, rest) => typed(ether_type, rest, headers, fields, notes),
        Inside::Ip(version, rest) => {
            fields.put_all(&TAG, Absent);
            fields.put_all(&LABEL, Absent);
            match version.or(rest.first().map(|first| first >> 4)) {
                Some(version @ (4 | 6)) => {
                    let ether_type = if version == 4 { 0x0800 } else { 0x86dd };
                    fields.put(Source::EthType, Present(ether_type));
                    ip(Some(version), rest, headers, fields, notes);
                }
                Some(_) => assert_eq!(headers.reason(), Outcome::Malformed),
                None => assert_eq!(headers.reason(), Outcome::Truncated),
            }
        }
    }
}

fn link<'a>(of: LinkType, bytes: &'a [u8], fields: &mut Fields, notes: &mut Notes) -> Inside<'a> {
    match of {
        LinkType::Ethernet => {
            let Ok(theirs) = LaxSlicedPacket::from_ethernet(bytes) else {
                assert!(bytes.len() < 14);
                return Inside::Cut;
            };
            let Some(LinkSlice::Ethernet2(link)) = &theirs.link else { panic!("no ethernet in {theirs:?}") };
            fields.put(Source::EthSrc, mac(&link.source()));
            fields.put(Source::EthDst, mac(&link.destination()));
            Inside::Type(link.ether_type().0, &bytes[14..])
        }
        LinkType::LinuxSll => {
            if bytes.len() < 16 {
                return Inside::Cut;
            }
            fields.put_all(&ETH, Absent);
            if be16(&bytes[4..]) == 6 {
                fields.put(Source::EthSrc, mac(&bytes[6..12]));
            }
            match LinuxSllHeaderSlice::from_slice(bytes) {
                Ok(head) => match head.protocol_type() {
                    LinuxSllProtocolType::Ignored(_) | LinuxSllProtocolType::NetlinkProtocolType(_) => Inside::Nothing,
                    of => cooked(be16(&bytes[2..]), of.into(), &bytes[16..]),
                },
                Err(linux_sll::HeaderSliceError::Len(error)) => panic!("{error}"),
                Err(linux_sll::HeaderSliceError::Content(_)) => {
                    notes.add("cooked frame of other hardware");
                    cooked(be16(&bytes[2..]), be16(&bytes[14..]), &bytes[16..])
                }
            }
        }
        LinkType::LinuxSll2 => {
            if bytes.len() < 20 {
                // The interface is one of the fields that are cut off.
                fields.put(Source::InPort, Unknown);
                return Inside::Cut;
            }
            fields.put(Source::InPort, Present(u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]).into()));
            fields.put_all(&ETH, Absent);
            if bytes[11] == 6 {
                fields.put(Source::EthSrc, mac(&bytes[12..18]));
            }
            cooked(be16(&bytes[8..]), be16(bytes), &bytes[20..])
        }
        LinkType::Ieee80211 => wlan(bytes, false, fields),
        LinkType::Radiotap => radiotap(bytes, fields),
        LinkType::Loopback | LinkType::OpenBsdLoop => {
            fields.put_all(&ETH, Absent);
            let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return Inside::Cut };
            let either = [u32::from_be_bytes(*head), u32::from_le_bytes(*head)];
            let orders = if of == LinkType::Loopback { 2 } else { 1 };
            if let Some(ether_type) = either[..orders].iter().find(|number| (0x600..0x1_0000).contains(*number)) {
                Inside::Type(*ether_type as u16, rest)
            } else if either[..orders].contains(&2) {
                Inside::Ip(Some(4), rest)
            } else if either[..orders].iter().any(|family| [10, 23, 24, 28, 30].contains(family)) {
                Inside::Ip(Some(6), rest)
            } else {
                Inside::Nothing
            }
        }
        LinkType::Ppp
        | LinkType::PppHdlc
        | LinkType::PppPppd
        | LinkType::PppWithDirection
        | LinkType::CiscoHdlc
        | LinkType::Pflog
        | LinkType::Nflog => {
            fields.put_all(&ETH, Absent);
            let inside = logged_or_serial(of, bytes);
            // Cisco HDLC may have tags and labels.
            let has_type = match of {
                LinkType::PppHdlc => matches!(bytes.first(), None | Some(0x0f | 0x8f)),
                link => link == LinkType::CiscoHdlc,
            };
            if matches!(inside, Inside::Cut | Inside::Broken) && !has_type {
                fields.put_all(&TAG, Absent);
                fields.put_all(&LABEL, Absent);
            }
            inside
        }
        _ => {
            fields.put_all(&ETH, Absent);
            let version = match of {
                LinkType::Ipv4 => Some(4),
                LinkType::Ipv6 => Some(6),
                _ => None,
            };
            Inside::Ip(version, bytes)
        }
    }
}

/// Puts the expected fields for an ether type and the bytes behind it.
///
/// The first VLAN tag counts, wherever it is. Behind a tag of another kind OpenFlow sees nothing.
fn typed(mut ether_type: u16, mut rest: &[u8], headers: &Headers, fields: &mut Fields, notes: &mut Notes) {
    let (mut tags, mut fabric) = (0, None);
    let is_cut = loop {
        let len = match ether_type {
            0x8100 | 0x88a8 | 0x9100 => 4,
            0x8926 => 6,
            0x893f => 8,
            0x88e7 => 18,
            _ => break false,
        };
        if len > 4 && fabric.is_none() {
            fabric = Some(ether_type);
        }
        if rest.len() < len {
            assert_eq!(headers.reason(), Outcome::Truncated);
            break true;
        }
        if len == 4 && fields.get(Source::VlanVid) == Unknown {
            let tag = etherparse::SingleVlanHeaderSlice::from_slice(rest).expect("four bytes");
            fields.put(Source::VlanVid, Present(tag.vlan_identifier().value().into()));
            fields.put(Source::VlanPcp, Present(tag.priority_code_point().value().into()));
        }
        if tags == CONFIG.max_vlan_tags {
            assert_eq!(headers.reason(), Outcome::VlanCap);
            break true;
        }
        tags += 1;
        (ether_type, rest) = (be16(&rest[len - 2..]), &rest[len..]);
    };
    if !is_cut {
        if fields.get(Source::VlanVid) == Unknown {
            fields.put_all(&TAG, Absent);
        }
        network(ether_type, rest, 0, headers, fields, notes);
    }
    if let Some(ether_type) = fabric {
        fields.put_all(&LABEL, Absent);
        fields.put_all(&OPENFLOW, Absent);
        fields.put(Source::EthType, Present(ether_type.into()));
    }
}

/// Puts the expected fields for an ether type that is no tag's and the bytes behind it.
///
/// `missing` bytes more are stated than there are.
fn network(ether_type: u16, rest: &[u8], missing: usize, headers: &Headers, fields: &mut Fields, notes: &mut Notes) {
    if ether_type < 0x600 {
        return of_802_3(ether_type, rest, headers, fields, notes);
    }
    fields.put(Source::EthType, Present(ether_type.into()));
    match ether_type {
        0x0800 | 0x86dd => {
            fields.put_all(&LABEL, Absent);
            ip(Some(if ether_type == 0x0800 { 4 } else { 6 }), rest, headers, fields, notes);
        }
        0x0806 => {
            assert_eq!(headers.reason(), Outcome::NotIp);
            fields.put_all(&LABEL, Absent);
            arp(rest, fields, notes);
        }
        0x8847 | 0x8848 => {
            labels(rest, missing, headers, fields, notes);
            fields.put_all(&OPENFLOW, Absent);
        }
        0x8864 => {
            fields.put_all(&LABEL, Absent);
            session(rest, false, headers, fields, notes);
            fields.put_all(&OPENFLOW, Absent);
        }
        _ => {
            assert_eq!(headers.reason(), Outcome::NotIp);
            fields.put_all(&LABEL, Absent);
            fields.put_all(&OPENFLOW, Absent);
        }
    }
}

/// Puts the expected fields of an 802.3 frame from behind its length on.
fn of_802_3(len: u16, rest: &[u8], headers: &Headers, fields: &mut Fields, notes: &mut Notes) {
    let len = usize::from(len);
    let missing = len.saturating_sub(rest.len());
    match links::llc(&rest[..rest.len().min(len)]) {
        Inside::Type(ether_type, packet) => network(ether_type, packet, missing, headers, fields, notes),
        Inside::Cut if missing > 0 => assert_eq!(headers.reason(), Outcome::Truncated),
        _ => untyped(headers, fields),
    }
}

/// Puts the fields of an 802.3 frame without an ether type, as OpenFlow sees it.
fn untyped(headers: &Headers, fields: &mut Fields) {
    assert_eq!(headers.reason(), Outcome::NotIp);
    fields.put(Source::EthType, Present(0x05ff));
    fields.put_all(&LABEL, Absent);
    fields.put_all(&OPENFLOW, Absent);
}

/// Puts the expected fields of ARP as OpenFlow reads it.
///
/// The operation is the protocol, and the addresses count if they are those of IPv4.
fn arp(rest: &[u8], fields: &mut Fields, notes: &mut Notes) {
    fields.put_all(&[Source::IpDscp, Source::TpSrc, Source::TpDst], Absent);
    let address = |bytes: &[u8]| match bytes.try_into() {
        Ok(bytes) => Present(u32::from_be_bytes(bytes).into()),
        Err(_) => Unknown,
    };
    let Ok(theirs) = ArpPacketSlice::from_slice(rest) else {
        notes.add("arp cut");
        let Some(head) = rest.first_chunk::<8>() else { return };
        fields.put(Source::IpProto, Present(head[7].into()));
        let for_ipv4 = be16(&head[2..]) == 0x0800 && head[5] == 4;
        let at = 8 + usize::from(head[4]);
        for (source, at) in IPV4_ADDRESSES.into_iter().zip([at, at + 4 + usize::from(head[4])]) {
            fields.put(source, if for_ipv4 { address(rest.get(at..at + 4).unwrap_or_default()) } else { Absent });
        }
        return;
    };
    fields.put(Source::IpProto, Present(u128::from(theirs.operation().0 & 0xff)));
    let for_ipv4 = theirs.proto_addr_type().0 == 0x0800 && theirs.proto_addr_size() == 4;
    for (source, bytes) in
        IPV4_ADDRESSES.into_iter().zip([theirs.sender_protocol_addr(), theirs.target_protocol_addr()])
    {
        fields.put(source, if for_ipv4 { address(bytes) } else { Absent });
    }
}

/// Puts the expected fields for a stack of labels and the bytes behind it.
fn labels(rest: &[u8], missing: usize, headers: &Headers, fields: &mut Fields, notes: &mut Notes) {
    let (entries, _) = rest.as_chunks::<4>();
    let entries: Vec<u32> = entries.iter().map(|entry| u32::from_be_bytes(*entry)).collect();
    if let Some(first) = entries.first() {
        fields.put(Source::MplsLabel, Present((first >> 12).into()));
        fields.put(Source::MplsTc, Present((first >> 9 & 7).into()));
    }
    match entries.iter().position(|entry| entry & 0x100 != 0).map(|bottom| bottom + 1) {
        Some(depth) if depth <= CAP => {
            let packet = &rest[depth * 4..];
            match is_ip(entries[depth - 1] >> 12, packet, packet.len() + missing) {
                None => assert_short(headers),
                Some(true) => ip(None, packet, headers, fields, notes),
                Some(false) => assert_eq!(headers.reason(), Outcome::NotIp, "{packet:02x?}"),
            }
        }
        _ if entries.len() > CAP => assert_eq!(headers.reason(), Outcome::MplsCap),
        _ => assert_short(headers),
    }
}

/// Asserts that a packet is cut, which is a contradiction where an 802.3 frame states a length that ends there.
fn assert_short(headers: &Headers) {
    assert!(matches!(headers.reason(), Outcome::Truncated | Outcome::Malformed), "{headers:?}");
}

/// Whether a packet behind labels, of `whole` bytes with its trailer, is IP.
///
/// It is behind a last label of 0 (IPv4) or 2 (IPv6) with that version. IPv6 has a trailer of at most 64 bytes, IPv4 a
/// right checksum, or no trailer beyond the padding to 46 bytes.
/// The result is `None` if its header is cut.
fn is_ip(label: u32, packet: &[u8], whole: usize) -> Option<bool> {
    let first = *packet.first()?;
    if (label, first >> 4) == (0, 4) || (label, first >> 4) == (2, 6) {
        return Some(true);
    }
    let head = match first {
        0x45..=0x4f => usize::from(first % 16) * 4,
        0x60..=0x6f => 40,
        _ => return Some(false),
    };
    if whole < head {
        return Some(false);
    }
    if packet.len() < head {
        return None;
    }
    let is_ipv4 = Ipv4HeaderSlice::from_slice(packet).is_ok_and(|head| {
        let (len, total) = (head.slice().len(), usize::from(head.total_len()));
        let sum: u32 = head.slice().chunks(2).map(|word| u32::from(be16(word))).sum();
        let is_sum = (sum >> 16) + (sum & 0xffff) == 0xffff;
        let is_inside = total >= len && total <= whole;
        is_sum && total == 0 || is_inside && (is_sum || total == whole || whole <= 46)
    });
    let is_ipv6 = Ipv6HeaderSlice::from_slice(packet).is_ok_and(|head| {
        let end = 40 + usize::from(head.payload_length());
        end <= whole && whole <= end + 64
    });
    Some(is_ipv4 || is_ipv6)
}

/// Puts the expected fields for a PPPoE session and the bytes behind it.
///
/// Without an ether type before it, as a link of its own, it shows that of the IP packet.
fn session(rest: &[u8], is_link: bool, headers: &Headers, fields: &mut Fields, notes: &mut Notes) {
    if rest.first().is_some_and(|&first| first != 0x11) {
        return assert_eq!(headers.reason(), Outcome::Malformed);
    }
    let Some((head, payload)) = rest.split_first_chunk::<6>() else {
        return assert_eq!(headers.reason(), Outcome::Truncated);
    };
    let payload = &payload[..payload.len().min(be16(&head[4..]).into())];
    let (version, packet) = match (head[1], protocol(payload)) {
        (0, None) => return assert!(matches!(headers.reason(), Outcome::Truncated | Outcome::Malformed)),
        (0, Some((Some(version), packet))) => (version, packet),
        _ => {
            if is_link {
                fields.put_all(&OPENFLOW, Absent);
                fields.put(Source::EthType, Absent);
            }
            return assert_eq!(headers.reason(), Outcome::NotIp);
        }
    };
    if is_link {
        fields.put(Source::EthType, Present(if version == 4 { 0x0800 } else { 0x86dd }));
    }
    ip(Some(version), packet, headers, fields, notes);
}

/// Returns the version of IP that the protocol of a PPP packet names, if any, and the rest of the packet.
fn protocol(packet: &[u8]) -> Option<(Option<u8>, &[u8])> {
    let (protocol, rest) = match packet {
        [low, rest @ ..] if low % 2 == 1 => (u16::from(*low), rest),
        [high, low, rest @ ..] => (be16(&[*high, *low]), rest),
        _ => return None,
    };
    Some((if protocol == 0x21 { Some(4) } else { (protocol == 0x57).then_some(6) }, rest))
}
