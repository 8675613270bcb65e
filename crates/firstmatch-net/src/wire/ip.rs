//! Parser of IP and of the headers after it; total, like the parser of the link.

use firstmatch_core::policy::Fragments;
use firstmatch_core::schema::{ExtensionHeader, Family, Source};

use super::headers::{
    DST, EXT, FRAGMENT as FRAGMENT_WORD, ICMP as ICMP_WORD, LENGTH as LENGTH_WORD, NET, PORTS, PROTO, SRC, SourceSet,
    TCP_FLAGS, TTL,
};
use super::{Config, Headers, Outcome};

pub(super) const IPV4_ADDRESSES: SourceSet = SourceSet::of(&[Source::Ipv4Src, Source::Ipv4Dst]);
const FLAGS: SourceSet = SourceSet::of(&[Source::TcpFlags]);
/// Fields that every IP header has in one place.
const STATED: SourceSet = SourceSet::of(&[Source::IpDscp, Source::Dscp, Source::Ttl]);
const LENGTH: SourceSet = SourceSet::of(&[Source::Length]);
const FRAGMENTED: SourceSet = SourceSet::of(&[Source::Fragment]);
const EXT_HEADERS: SourceSet = SourceSet::of(&[Source::ExtHeaders]);
const ROUTING_TYPE: SourceSet = SourceSet::of(&[Source::RoutingType]);
/// Fields that an IPv4 header holds.
const IPV4: SourceSet = SourceSet::ADDRESSES.union(PROTO).union(IPV4_ADDRESSES).union(STATED).union(FRAGMENTED);
const UPPER: SourceSet = SourceSet::UPPER;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const ROUTING_BIT: u8 = 0x02;

#[inline]
pub(super) fn be16(bytes: [u8; 2]) -> u16 {
    u16::from_be_bytes(bytes)
}

/// Returns the bytes from `at` on; empty if the slice ends before.
#[inline]
pub(super) fn from(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// Whether the header is of another version than `version`.
#[inline]
fn contradicts(packet: &[u8], version: u8) -> bool {
    packet.first().is_some_and(|first| first >> 4 != version)
}

#[inline]
pub(super) fn ipv4(config: &Config, packet: &[u8], out: &mut Headers) -> Outcome {
    if contradicts(packet, 4) {
        return Outcome::Malformed;
    }
    out.family = Some(Family::Ipv4);
    let Some(head) = packet.first_chunk::<20>() else { return Outcome::Truncated };
    let head_len = usize::from(head[0] & 15) * 4;
    let total = usize::from(be16([head[2], head[3]]));
    if head_len < 20 || (total != 0 && total < head_len) {
        return Outcome::Malformed;
    }
    // If a header's options are cut off, the whole header is unknown, as if it were cut anywhere else.
    if packet.len() < head_len {
        return Outcome::Truncated;
    }
    out.words[SRC + 3] = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
    out.words[DST + 3] = u32::from_be_bytes([head[16], head[17], head[18], head[19]]);
    let proto = head[9];
    out.words[NET] = be16([head[1], proto]).into();
    out.words[TTL] = head[8].into();
    out.present = out.present.union(IPV4);
    out.absent = out.absent.union(SourceSet::EXTENSIONS);
    let fragment = be16([head[6], head[7]]);
    let body = Body { bytes: from(packet, head_len), len: (total != 0).then(|| total - head_len) };
    let outcome = if fragment & 0x1fff != 0 {
        out.words[FRAGMENT_WORD] = LATER;
        later_fragment(config, out)
    } else {
        out.words[FRAGMENT_WORD] = (fragment >> 13 & 1).into();
        upper(proto, ICMP, body, fragment & 0x2000 != 0, out)
    };
    with_length(outcome, total as u32, out)
}

/// Value of [`Source::Fragment`] in a fragment after the first.
const LATER: u32 = 2;

/// Sets the length of the packet, unless it is 0, which means that none is stated.
///
/// Returns `outcome`, or `Malformed` if it is `Complete` while the length is unknown.
#[inline]
fn with_length(outcome: Outcome, length: u32, out: &mut Headers) -> Outcome {
    if length != 0 {
        out.words[LENGTH_WORD] = length;
        out.present = out.present.union(LENGTH);
        return outcome;
    }
    if outcome == Outcome::Complete { Outcome::Malformed } else { outcome }
}

/// Handles a fragment other than the first; the fields of its IP header are already known.
fn later_fragment(config: &Config, out: &mut Headers) -> Outcome {
    match config.fragments {
        Fragments::Unknown => Outcome::Fragment,
        Fragments::Layer3 => {
            out.absent = out.absent.union(UPPER);
            out.layer3 = true;
            Outcome::Complete
        }
    }
}

/// Captured bytes after an IP header, padding included.
#[derive(Clone, Copy)]
struct Body<'a> {
    bytes: &'a [u8],
    /// Length in bytes that the IP header states, if it states one.
    len: Option<usize>,
}

impl Body<'_> {
    /// Returns the reason why the first `n` bytes are missing.
    #[cold]
    fn why_not(self, n: usize, more_fragments: bool) -> Outcome {
        match self.len {
            Some(len) if len < n && more_fragments => Outcome::FirstFragmentShort,
            Some(len) if len < n => Outcome::Malformed,
            _ => Outcome::Truncated,
        }
    }

    /// Returns the first `N` bytes, if they are there.
    #[inline]
    fn first<const N: usize>(self) -> Option<[u8; N]> {
        if self.len.is_some_and(|len| len < N) { None } else { self.bytes.first_chunk().copied() }
    }
}

/// Reads the transport header; `icmp` is the family's protocol number of ICMP.
#[inline]
fn upper(proto: u8, icmp: u8, body: Body<'_>, more_fragments: bool, out: &mut Headers) -> Outcome {
    match proto {
        TCP | UDP | UDP_LITE | SCTP | DCCP => {
            let has = if proto == TCP { SourceSet::PORTS.union(FLAGS) } else { SourceSet::PORTS };
            out.absent = out.absent.union(UPPER.minus(has));
            let Some([a, b, c, d]) = body.first() else { return body.why_not(4, more_fragments) };
            out.words[PORTS] = u32::from_be_bytes([a, b, c, d]);
            out.present = out.present.union(SourceSet::PORTS);
            if proto == TCP {
                let Some(head) = body.first::<14>() else { return body.why_not(14, more_fragments) };
                out.words[TCP_FLAGS] = head[13].into();
                out.present = out.present.union(FLAGS);
            }
        }
        _ if proto == icmp => {
            out.absent = out.absent.union(UPPER.minus(SourceSet::ICMP));
            let Some([kind, code]) = body.first() else { return body.why_not(2, more_fragments) };
            out.words[ICMP_WORD] = be16([kind, code]).into();
            out.present = out.present.union(SourceSet::ICMP);
        }
        _ => out.absent = out.absent.union(UPPER),
    }
    Outcome::Complete
}

/// Whether `next` is the number of an extension header in IANA's registry, except for ESP.
///
/// ESP ends the chain and counts as the protocol, as is usual, because the bytes after it are encrypted.
#[inline]
pub(super) const fn is_extension(next: u8) -> bool {
    is_walked(next) || matches!(next, 135 | 139 | 140 | 253 | 254)
}

#[inline]
const fn is_walked(next: u8) -> bool {
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION)
}

/// Extension headers walked through so far.
#[derive(Clone, Copy, Default)]
struct Walked {
    bits: u8,
    /// Type of the last routing header.
    routing_type: u8,
    /// Whether there are routing headers of several types.
    mixed: bool,
}

impl Walked {
    fn add(&mut self, kind: u8, [_, _, routing_type, ..]: [u8; 8]) {
        let bit = ExtensionHeader::ALL.iter().find(|header| header.next_header == kind).map_or(0, |header| header.bit);
        if kind == ROUTING {
            self.mixed |= self.bits & bit != 0 && self.routing_type != routing_type;
            self.routing_type = routing_type;
        }
        self.bits |= bit;
    }

    /// Sets the fields that are known once the whole chain, which ends with `proto`, is known.
    ///
    /// `fragment` is the value of [`Source::Fragment`].
    #[inline]
    fn tell(self, proto: u8, fragment: u32, out: &mut Headers) {
        out.words[NET] |= u32::from(proto);
        out.words[FRAGMENT_WORD] = fragment;
        out.words[EXT] = be16([self.routing_type, self.bits]).into();
        out.present = out.present.union(PROTO).union(EXT_HEADERS).union(FRAGMENTED);
        if self.bits & ROUTING_BIT == 0 {
            out.absent = out.absent.union(ROUTING_TYPE);
        } else if !self.mixed {
            out.present = out.present.union(ROUTING_TYPE);
        }
    }

    /// Returns `outcome`, or `Malformed` if it is `Complete` but routing headers differ in type.
    #[inline]
    fn outcome(self, outcome: Outcome) -> Outcome {
        if self.mixed && outcome == Outcome::Complete { Outcome::Malformed } else { outcome }
    }
}

#[inline]
pub(super) fn ipv6(config: &Config, packet: &[u8], out: &mut Headers) -> Outcome {
    if contradicts(packet, 6) {
        return Outcome::Malformed;
    }
    out.family = Some(Family::Ipv6);
    let Some((head, bytes)) = packet.split_first_chunk::<40>() else { return Outcome::Truncated };
    let ([first, second, ..], addresses) = (head, head.split_at(8).1);
    // The traffic class goes where IPv4 has its differentiated services field.
    out.words[NET] = u32::from(be16([*first, *second])) << 4 & 0xff00;
    for (word, bytes) in out.words.iter_mut().skip(SRC).zip(addresses.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    out.words[TTL] = head[7].into();
    out.present = out.present.union(SourceSet::ADDRESSES).union(STATED);
    out.absent = out.absent.union(IPV4_ADDRESSES);
    let len = usize::from(be16([head[4], head[5]]));
    let body = Body { bytes, len: (len != 0).then_some(len) };
    let outcome = if is_extension(head[6]) {
        extensions(config, head[6], body, out)
    } else {
        Walked::default().tell(head[6], 0, out);
        upper(head[6], ICMPV6, body, false, out)
    };
    with_length(outcome, if len == 0 { 0 } else { len as u32 + 40 }, out)
}

fn extensions(config: &Config, mut next: u8, mut body: Body<'_>, out: &mut Headers) -> Outcome {
    let (mut more_fragments, mut walked) = (false, Walked::default());
    for count in 0.. {
        if !is_extension(next) {
            walked.tell(next, more_fragments.into(), out);
            return walked.outcome(upper(next, ICMPV6, body, more_fragments, out));
        }
        if !is_walked(next) {
            return Outcome::UnknownExtension;
        }
        if count == config.max_extension_headers {
            break;
        }
        let Some(head) = body.first::<8>() else { return body.why_not(8, more_fragments) };
        walked.add(next, head);
        let len = match next {
            FRAGMENT => {
                let fragment = be16([head[2], head[3]]);
                if fragment >> 3 != 0 {
                    return later_ipv6_fragment(config, head[0], walked, out);
                }
                more_fragments |= fragment & 1 != 0;
                8
            }
            AUTHENTICATION => (usize::from(head[1]) + 2) * 4,
            _ => (usize::from(head[1]) + 1) * 8,
        };
        if body.bytes.len() < len || body.len.is_some_and(|body| body < len) {
            return body.why_not(len, more_fragments);
        }
        body = Body { bytes: from(body.bytes, len), len: body.len.map(|body| body - len) };
        next = head[0];
    }
    Outcome::ExtensionCap
}

fn later_ipv6_fragment(config: &Config, next: u8, walked: Walked, out: &mut Headers) -> Outcome {
    out.words[FRAGMENT_WORD] = LATER;
    out.present = out.present.union(FRAGMENTED);
    if config.fragments == Fragments::Unknown || is_extension(next) {
        return Outcome::Fragment;
    }
    walked.tell(next, LATER, out);
    walked.outcome(later_fragment(config, out))
}
