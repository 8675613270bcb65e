//! Expected fields of an IP packet and of its transport header.

use etherparse::err::ipv6_exts::{HeaderError, HeaderSliceError};
use etherparse::{
    IpAuthHeaderSlice, IpNumber, Ipv6ExtensionsSlice, Ipv6FragmentHeaderSlice, Ipv6RawExtHeaderSlice, LaxNetSlice,
    LaxSlicedPacket, TransportSlice,
};
use firstmatch_core::schema::Source;
use firstmatch_net::wire::{Headers, Outcome};

use super::State::{self, Absent, Present, Unknown};
use super::{ADDRESSES, CAP, EXTENSIONS, Fields, ICMP, IPV4_ADDRESSES, Notes, PORTS, PROTO, be16};

/// Puts the expected fields of an IP packet, of this version if one was announced.
pub(super) fn ip(version: Option<u8>, packet: &[u8], headers: &Headers, fields: &mut Fields, notes: &mut Notes) {
    let theirs = LaxSlicedPacket::from_ip(packet).ok();
    let net = theirs.as_ref().and_then(|p| p.net.as_ref());
    let Some(says) = packet.first().map(|first| first >> 4) else { return };
    if version.is_some_and(|version| version != says) {
        if net.is_some() {
            notes.add("version contradicts ether type");
        }
        return assert_eq!(headers.reason(), Outcome::Malformed);
    }
    match net {
        Some(LaxNetSlice::Ipv4(v4)) => {
            let head = v4.header();
            let total = usize::from(head.total_len());
            if total != 0 && total < head.slice().len() {
                notes.add("total length below header length");
                return assert_eq!(headers.reason(), Outcome::Malformed);
            }
            let addresses = [head.source_addr(), head.destination_addr()].map(|a| Present(u32::from(a).into()));
            ipv4_fields(fields, addresses, head.protocol().0, head.dcp().value());
            fields.put(Source::Ttl, Present(head.ttl().into()));
            fields.put(Source::Length, if total == 0 { Unknown } else { Present(total as u128) });
            let fragment = match (head.fragments_offset().value(), head.more_fragments()) {
                (0, more) => more.into(),
                _ => 2,
            };
            fields.put(Source::Fragment, Present(fragment));
            if head.fragments_offset().value() != 0 {
                return assert_eq!(headers.reason(), Outcome::Fragment);
            }
            if head.protocol() == IpNumber(51) {
                notes.add("ah over ipv4");
                return no_upper(fields);
            }
            let upper = Upper { proto: head.protocol(), icmp: 1, bytes: v4.payload().payload };
            upper_fields(fields, &upper, v4.payload().fragmented, theirs.as_ref(), notes);
        }
        Some(LaxNetSlice::Ipv6(v6)) => {
            let head = v6.header();
            fields.put(Source::Src, Present(head.source_addr().to_bits()));
            fields.put(Source::Dst, Present(head.destination_addr().to_bits()));
            fields.put_all(&[Source::IpDscp, Source::Dscp], Present(head.dscp().value().into()));
            fields.put(Source::Ttl, Present(head.hop_limit().into()));
            fields.put_all(&IPV4_ADDRESSES, Absent);
            let declared = usize::from(head.payload_length());
            fields.put(Source::Length, if declared == 0 { Unknown } else { Present(declared as u128 + 40) });
            let payload = &packet[40..];
            let payload = if declared == 0 { payload } else { &payload[..payload.len().min(declared)] };
            ipv6_fields(fields, head.next_header(), payload, theirs.as_ref(), notes);
        }
        _ if says == 4 && packet.len() >= 20 && packet[0] & 15 >= 5 => {
            let (total, head) = (usize::from(be16(&packet[2..])), usize::from(packet[0] & 15) * 4);
            assert!(packet.len() < head, "etherparse refused {packet:02x?}");
            if total != 0 && total < head {
                return assert_eq!(headers.reason(), Outcome::Malformed);
            }
            // Malformed where a PPPoE header states a length that ends there.
            assert!(matches!(headers.reason(), Outcome::Truncated | Outcome::Malformed), "{headers:?}");
        }
        // The packet is cut inside its fixed part, or its header length is below 20.
        _ if says == 4 => assert!(packet.len() < 20 || packet[0] & 15 < 5),
        _ if says == 6 => assert!(packet.len() < 40),
        _ => assert_eq!(headers.reason(), Outcome::NotIp),
    }
}

fn ipv4_fields(fields: &mut Fields, addresses: [State; 2], proto: u8, dscp: u8) {
    for ((source, of_ipv4), state) in ADDRESSES.into_iter().zip(IPV4_ADDRESSES).zip(addresses) {
        fields.put_all(&[source, of_ipv4], state);
    }
    fields.put_all(&PROTO, Present(proto.into()));
    fields.put_all(&[Source::IpDscp, Source::Dscp], Present(dscp.into()));
    fields.put_all(&EXTENSIONS, Absent);
}

/// Extension headers of a packet: the bit of each, and the types of the routing headers.
#[derive(Default)]
struct Extensions {
    bits: u128,
    types: Vec<u8>,
}

impl Extensions {
    fn add(&mut self, kind: IpNumber, header: &[u8]) {
        let place = [0, 43, 44, 60, 51].iter().position(|&number| number == kind.0).expect("walked");
        self.bits |= 1 << place;
        if kind == IpNumber(43) && !self.types.contains(&header[2]) {
            self.types.push(header[2]);
        }
    }

    /// Puts the fields of a chain that ends with `proto`; returns false if the rest is not read.
    fn end(&self, proto: IpNumber, fields: &mut Fields, notes: &mut Notes) -> bool {
        if matches!(proto.0, 135 | 139 | 140 | 253 | 254) {
            notes.add("extension header that is not read");
            return false;
        }
        fields.put_all(&PROTO, Present(proto.0.into()));
        fields.put(Source::ExtHeaders, Present(self.bits));
        let of_type = match self.types[..] {
            [] => Absent,
            [one] => Present(one.into()),
            _ => Unknown,
        };
        fields.put(Source::RoutingType, of_type);
        true
    }
}

fn no_upper(fields: &mut Fields) {
    fields.put_all(&PORTS, Absent);
    fields.put_all(&ICMP, Absent);
    fields.put(Source::TcpFlags, Absent);
}

fn has_ports(proto: u8) -> bool {
    matches!(proto, 6 | 17 | 33 | 132 | 136)
}

/// Makes the fields that this protocol lacks absent and the others unknown.
fn only_of(fields: &mut Fields, proto: u8, icmp: u8) {
    no_upper(fields);
    if has_ports(proto) {
        fields.put_all(&PORTS, Unknown);
    }
    if proto == 6 {
        fields.put(Source::TcpFlags, Unknown);
    }
    if proto == icmp {
        fields.put_all(&ICMP, Unknown);
    }
}

struct Upper<'a> {
    proto: IpNumber,
    icmp: u8,
    bytes: &'a [u8],
}

fn put_ports(fields: &mut Fields, source: u16, destination: u16) {
    fields.put_all(&[Source::SrcPort, Source::TpSrc], Present(source.into()));
    fields.put_all(&[Source::DstPort, Source::TpDst], Present(destination.into()));
}

fn put_icmp(fields: &mut Fields, kind: u8, code: u8) {
    fields.put(Source::IcmpType, Present(kind.into()));
    fields.put(Source::IcmpCode, Present(code.into()));
}

fn upper_fields(
    fields: &mut Fields,
    upper: &Upper<'_>,
    fragmented: bool,
    theirs: Option<&LaxSlicedPacket<'_>>,
    notes: &mut Notes,
) {
    let (proto, bytes) = (upper.proto.0, upper.bytes);
    only_of(fields, proto, upper.icmp);
    match theirs.and_then(|p| p.transport.as_ref()) {
        Some(TransportSlice::Tcp(tcp)) => {
            put_ports(fields, tcp.source_port(), tcp.destination_port());
            let bits = [tcp.fin(), tcp.syn(), tcp.rst(), tcp.psh(), tcp.ack(), tcp.urg(), tcp.ece(), tcp.cwr()];
            let bits = bits.iter().enumerate().fold(0, |all, (bit, &set)| all | u128::from(set) << bit);
            fields.put(Source::TcpFlags, Present(bits));
        }
        Some(TransportSlice::Udp(udp)) => put_ports(fields, udp.source_port(), udp.destination_port()),
        Some(TransportSlice::Icmpv4(icmp)) if upper.icmp == 1 => put_icmp(fields, icmp.type_u8(), icmp.code_u8()),
        Some(TransportSlice::Icmpv6(icmp)) if upper.icmp == 58 => put_icmp(fields, icmp.type_u8(), icmp.code_u8()),
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
            if has_ports(proto) && bytes.len() >= 4 {
                put_ports(fields, be16(bytes), be16(&bytes[2..]));
            }
            if proto == 6 && bytes.len() >= 14 {
                fields.put(Source::TcpFlags, Present(bytes[13].into()));
            }
            if proto == upper.icmp && bytes.len() >= 2 {
                put_icmp(fields, bytes[0], bytes[1]);
            }
        }
        None => {}
    }
}

/// Puts the expected fields of an IPv6 packet, whose chain it walks header by header.
///
/// etherparse's own iterator (0.21) reads out of bounds where a chain ends early. A debug assertion of the standard
/// library stops it there.
fn ipv6_fields(
    fields: &mut Fields,
    first: IpNumber,
    payload: &[u8],
    theirs: Option<&LaxSlicedPacket<'_>>,
    notes: &mut Notes,
) {
    let (mut next, mut rest, mut walked, mut fragmented, mut resumed) = (first, payload, 0, false, false);
    let mut extensions = Extensions::default();
    loop {
        let (exts, number, after, error) = Ipv6ExtensionsSlice::from_slice_lax(next, rest);
        let (mut kind, mut left) = (next, exts.slice());
        while !left.is_empty() {
            walked += 1;
            if walked > CAP {
                notes.add("extension cap");
                return;
            }
            let (following, len) = match kind {
                IpNumber(44) => {
                    let fragment = Ipv6FragmentHeaderSlice::from_slice(left).expect("walked before");
                    fragmented |= fragment.is_fragmenting_payload();
                    if fragment.fragment_offset().value() != 0 {
                        fields.put(Source::Fragment, Present(2));
                        if left.len() > 8 || error.is_some() {
                            notes.add("walks on in a later fragment");
                        }
                        return;
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
            extensions.add(kind, left);
            (kind, left) = (following, &left[len..]);
        }
        (next, rest) = (number, after);
        if error.is_some() && walked == CAP {
            notes.add("extension cap");
            return;
        }
        match error.map(|(error, _)| error) {
            None => break,
            Some(HeaderSliceError::Content(HeaderError::HopByHopNotAtStart)) => {
                assert_eq!(next, IpNumber(0));
                notes.add("hop-by-hop not at the start");
                resumed = true;
                continue;
            }
            // The header was refused for its content, or because less than 12 bytes of it are there.
            Some(_) if next == IpNumber(51) && rest.len() >= 8 && rest[1] == 0 => {
                notes.add("ah of length zero");
                extensions.add(next, rest);
                (next, rest) = (IpNumber(rest[0]), &rest[8..]);
                walked += 1;
                resumed = true;
                if !is_extension(next) {
                    break;
                }
                if walked == CAP {
                    notes.add("extension cap");
                    return;
                }
            }
            // The header is cut short, and hides what is behind it.
            Some(_) => return,
        }
    }
    if !extensions.end(next, fields, notes) {
        return;
    }
    fields.put(Source::Fragment, Present(fragmented.into()));
    let upper = Upper { proto: next, icmp: 58, bytes: rest };
    let theirs = theirs.filter(|p| !resumed || p.stop_err.is_some());
    upper_fields(fields, &upper, fragmented, theirs, notes);
}

fn is_extension(number: IpNumber) -> bool {
    matches!(number.0, 0 | 43 | 44 | 51 | 60)
}
