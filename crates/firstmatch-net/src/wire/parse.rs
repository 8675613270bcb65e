//! Header parser: total functions over slices.

use firstmatch_core::policy::Fragments;
use firstmatch_core::schema::{ExtensionHeader, Family, Source};

use super::headers::{DST, ICMP as ICMP_WORD};
use super::headers::{ETH_DST, ETH_SRC, ETH_TYPE, EXT, IN_PORT, NET, PORTS, PROTO, SRC, SourceSet, TCP_FLAGS, VLAN};
use super::non_ip::{arp, mpls, pppoe};
use super::{Config, Headers, LinkType, Outcome};

const VLAN_TAG: SourceSet = SourceSet::of(&[Source::VlanVid, Source::VlanPcp]);
const ETH_ADDRESSES: SourceSet = SourceSet::of(&[Source::EthSrc, Source::EthDst]);
const TYPE: SourceSet = SourceSet::of(&[Source::EthType]);
pub(super) const LABEL: SourceSet = SourceSet::of(&[Source::MplsLabel, Source::MplsTc]);
pub(super) const IPV4_ADDRESSES: SourceSet = SourceSet::of(&[Source::Ipv4Src, Source::Ipv4Dst]);
const FLAGS: SourceSet = SourceSet::of(&[Source::TcpFlags]);
const DSCP: SourceSet = SourceSet::of(&[Source::IpDscp]);
const EXT_HEADERS: SourceSet = SourceSet::of(&[Source::ExtHeaders]);
const ROUTING_TYPE: SourceSet = SourceSet::of(&[Source::RoutingType]);
/// Fields that an IPv4 header holds.
const IPV4: SourceSet = SourceSet::ADDRESSES.union(PROTO).union(IPV4_ADDRESSES).union(DSCP);
/// Fields that a packet without a link layer lacks.
const LINK: SourceSet = VLAN_TAG.union(ETH_ADDRESSES).union(LABEL);
/// Fields that a frame lacks if its ether type is none that is read.
const NOTHING_INSIDE: SourceSet = LABEL.union(SourceSet::OPENFLOW);
const UPPER: SourceSet = SourceSet::UPPER;

const ETHER_IPV4: u16 = 0x0800;
const ETHER_ARP: u16 = 0x0806;
const ETHER_IPV6: u16 = 0x86dd;
const ETHER_MPLS: u16 = 0x8847;
const ETHER_MPLS_MULTICAST: u16 = 0x8848;
const ETHER_PPP_SESSION: u16 = 0x8864;
/// Least ether type; a smaller number is the length of an 802.3 frame.
const ETHER_FIRST: u16 = 0x0600;

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

/// Finds the headers of one frame of interface 0. Never panics, allocates nothing.
#[inline]
pub fn parse(config: &Config, link: LinkType, frame: &[u8]) -> Headers {
    parse_on(config, 0, link, frame)
}

/// Finds the headers of one frame of the interface `interface`. Never panics, allocates nothing.
///
/// A frame that names another interface itself, as Linux cooked captures of version 2 do, keeps that one.
#[inline]
pub fn parse_on(config: &Config, interface: u32, link: LinkType, frame: &[u8]) -> Headers {
    let mut headers = Headers::new(interface, config.metadata);
    parse_frame(config, link, frame, &mut headers);
    headers
}

/// Finds the headers of one frame, as [`parse_on`], and overwrites `out` with them.
///
/// It is faster than [`parse_on`], because it moves no headers. Moving them stalls on failed store forwarding: the
/// loads of the copy are wider than the stores just before them.
#[inline]
pub fn parse_into(config: &Config, interface: u32, link: LinkType, frame: &[u8], out: &mut Headers) {
    *out = Headers::new(interface, config.metadata);
    parse_frame(config, link, frame, out);
}

/// Finds the headers of one frame; `out` is still as [`Headers::new`] returns it.
#[inline(never)]
pub(super) fn parse_frame(config: &Config, link: LinkType, frame: &[u8], out: &mut Headers) {
    out.reason = read_link(config, link, frame, out);
}

#[inline]
pub(super) fn be16(bytes: [u8; 2]) -> u16 {
    u16::from_be_bytes(bytes)
}

/// Returns the bytes from `at` on; none where the slice ends before.
#[inline]
pub(super) fn from(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// Reads a frame from its link header on.
///
/// Like every function below that returns an [`Outcome`], it returns the reason why fields are still unknown, or
/// `Complete`.
#[inline]
fn read_link(config: &Config, link: LinkType, frame: &[u8], out: &mut Headers) -> Outcome {
    if link == LinkType::Ethernet {
        let Some((head, rest)) = frame.split_first_chunk::<14>() else { return Outcome::Truncated };
        let [a, b, c, d, e, f, source @ .., high, low] = *head;
        put_mac(out, ETH_DST, [a, b, c, d, e, f]);
        put_mac(out, ETH_SRC, source);
        out.present = out.present.union(ETH_ADDRESSES);
        return ether(config, be16([high, low]), rest, out);
    }
    other_link(config, link, frame, out)
}

#[inline]
fn put_mac(out: &mut Headers, first: usize, [a, b, c, d, e, f]: [u8; 6]) {
    out.words[first] = be16([a, b]).into();
    out.words[first + 1] = u32::from_be_bytes([c, d, e, f]);
}

fn other_link(config: &Config, link: LinkType, frame: &[u8], out: &mut Headers) -> Outcome {
    match link {
        LinkType::Ethernet | LinkType::LinuxSll => {
            let Some((head, rest)) = frame.split_first_chunk::<16>() else { return Outcome::Truncated };
            let [_, _, h, w, l, m, a, b, c, d, e, f, _, _, p, q] = *head;
            cooked_source(be16([l, m]), [a, b, c, d, e, f], out);
            cooked(config, be16([h, w]), be16([p, q]), rest, out)
        }
        LinkType::LinuxSll2 => {
            let Some((head, rest)) = frame.split_first_chunk::<20>() else {
                // The interface in the frame was cut off; the capture's would be another.
                out.present = out.present.minus(SourceSet::of(&[Source::InPort]));
                return Outcome::Truncated;
            };
            let [p, q, _, _, i, j, k, l, h, w, _, m, a, b, c, d, e, f, _, _] = *head;
            out.words[IN_PORT] = u32::from_be_bytes([i, j, k, l]);
            cooked_source(m.into(), [a, b, c, d, e, f], out);
            cooked(config, be16([h, w]), be16([p, q]), rest, out)
        }
        LinkType::Other(_) => Outcome::UnknownLink,
        _ => {
            out.absent = LINK;
            match link {
                LinkType::Ipv4 => bare(config, Some(4), frame, out),
                LinkType::Ipv6 => bare(config, Some(6), frame, out),
                LinkType::Loopback | LinkType::OpenBsdLoop => {
                    let Some((head, rest)) = frame.split_first_chunk::<4>() else { return Outcome::Truncated };
                    let big = u32::from_be_bytes(*head);
                    let swapped = link == LinkType::Loopback && big > 0xffff;
                    match if swapped { big.swap_bytes() } else { big } {
                        2 => bare(config, Some(4), rest, out),
                        // Linux 10, Windows 23, NetBSD and OpenBSD 24, FreeBSD 28, Darwin 30.
                        10 | 23 | 24 | 28 | 30 => bare(config, Some(6), rest, out),
                        _ => {
                            out.absent = LINK.union(TYPE).union(SourceSet::OPENFLOW);
                            Outcome::NotIp
                        }
                    }
                }
                _ => bare(config, frame.first().map(|first| first >> 4), frame, out),
            }
        }
    }
}

/// Reads IP that no ether type announces, of `version`.
///
/// `version` is `None` where the packet has no first byte that would show it.
fn bare(config: &Config, version: Option<u8>, packet: &[u8], out: &mut Headers) -> Outcome {
    let ether_type = match version {
        None => return Outcome::Truncated,
        Some(4) => ETHER_IPV4,
        Some(6) => ETHER_IPV6,
        Some(_) => return Outcome::Malformed,
    };
    network(config, ether_type, packet, out)
}

/// Notes the sender's address, if it has 6 bytes. A cooked header has no destination address.
fn cooked_source(len: u16, address: [u8; 6], out: &mut Headers) {
    const SOURCE: SourceSet = SourceSet::of(&[Source::EthSrc]);
    out.absent = ETH_ADDRESSES;
    if len == 6 {
        put_mac(out, ETH_SRC, address);
        out.present = out.present.union(SOURCE);
        out.absent = ETH_ADDRESSES.minus(SOURCE);
    }
}

/// Reads a cooked capture from its ether type on.
///
/// Frame relay (770), 802.11 with a radio header (803) and netlink (824) have none: that place of the header means
/// nothing there, or something else.
fn cooked(config: &Config, hardware: u16, protocol: u16, rest: &[u8], out: &mut Headers) -> Outcome {
    if matches!(hardware, 770 | 803 | 824) {
        out.absent = out.absent.union(VLAN_TAG).union(TYPE).union(NOTHING_INSIDE);
        return Outcome::NotIp;
    }
    ether(config, protocol, rest, out)
}

#[inline]
fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, 0x8100 | 0x88a8 | 0x9100)
}

#[inline]
fn ether(config: &Config, ether_type: u16, rest: &[u8], out: &mut Headers) -> Outcome {
    if is_tag(ether_type) {
        return tagged(config, rest, out);
    }
    out.absent = out.absent.union(VLAN_TAG);
    network(config, ether_type, rest, out)
}

fn tagged(config: &Config, mut rest: &[u8], out: &mut Headers) -> Outcome {
    let mut tags = 0;
    loop {
        let Some((tag, inner)) = rest.split_first_chunk::<4>() else { return Outcome::Truncated };
        if tags == 0 {
            out.words[VLAN] = be16([tag[0], tag[1]]).into();
            out.present = out.present.union(VLAN_TAG);
        }
        if tags >= config.max_vlan_tags {
            return Outcome::VlanCap;
        }
        tags += 1;
        let ether_type = be16([tag[2], tag[3]]);
        if !is_tag(ether_type) {
            return network(config, ether_type, inner, out);
        }
        rest = inner;
    }
}

#[inline]
fn network(config: &Config, ether_type: u16, rest: &[u8], out: &mut Headers) -> Outcome {
    out.words[ETH_TYPE] = ether_type.into();
    out.present = out.present.union(TYPE);
    match ether_type {
        ETHER_IPV4 => {
            out.absent = out.absent.union(LABEL);
            ipv4(config, rest, out)
        }
        ETHER_IPV6 => {
            out.absent = out.absent.union(LABEL);
            ipv6(config, rest, out)
        }
        _ => other_network(config, ether_type, rest, out),
    }
}

fn other_network(config: &Config, ether_type: u16, rest: &[u8], out: &mut Headers) -> Outcome {
    match ether_type {
        ETHER_ARP => {
            out.absent = out.absent.union(LABEL);
            arp(rest, out);
            Outcome::NotIp
        }
        ETHER_MPLS | ETHER_MPLS_MULTICAST => {
            let outcome = mpls(config, rest, out);
            hide(out);
            outcome
        }
        ETHER_PPP_SESSION => {
            out.absent = out.absent.union(LABEL);
            let outcome = pppoe(config, rest, out);
            hide(out);
            outcome
        }
        _ => {
            out.absent = out.absent.union(NOTHING_INSIDE);
            if ether_type < ETHER_FIRST {
                out.present = out.present.minus(TYPE);
                out.absent = out.absent.union(TYPE);
            }
            Outcome::NotIp
        }
    }
}

/// Makes the fields of OpenFlow absent, behind a header that OpenFlow does not look behind.
fn hide(out: &mut Headers) {
    out.present = out.present.minus(SourceSet::OPENFLOW);
    out.absent = out.absent.union(SourceSet::OPENFLOW);
}

/// Whether a header of another version stands where one of `version` should.
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
    // A header whose options are cut off is unknown as a whole, like one that is cut anywhere else.
    if packet.len() < head_len {
        return Outcome::Truncated;
    }
    out.words[SRC + 3] = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
    out.words[DST + 3] = u32::from_be_bytes([head[16], head[17], head[18], head[19]]);
    let proto = head[9];
    out.words[NET] = be16([head[1], proto]).into();
    out.present = out.present.union(IPV4);
    out.absent = out.absent.union(SourceSet::EXTENSIONS);
    let fragment = be16([head[6], head[7]]);
    if fragment & 0x1fff != 0 {
        return later_fragment(config, out);
    }
    let body = Body { bytes: from(packet, head_len), len: (total != 0).then(|| total - head_len) };
    upper(proto, ICMP, body, fragment & 0x2000 != 0, out)
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

/// Bytes behind an IP header, as far as they were captured, padding included.
#[derive(Clone, Copy)]
struct Body<'a> {
    bytes: &'a [u8],
    /// Length in bytes that the IP header states, if it states one.
    len: Option<usize>,
}

impl Body<'_> {
    /// Returns the reason why the first `n` bytes are not there.
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

/// Reads the transport header; `icmp` is the family's number of ICMP.
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
/// ESP ends the chain and counts as the protocol, as is usual, because the bytes behind it are encrypted.
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

    /// Sets the fields that a whole chain, which ends with `proto`, makes known.
    #[inline]
    fn tell(self, proto: u8, out: &mut Headers) {
        out.words[NET] |= u32::from(proto);
        out.words[EXT] = be16([self.routing_type, self.bits]).into();
        out.present = out.present.union(PROTO).union(EXT_HEADERS);
        if self.bits & ROUTING_BIT == 0 {
            out.absent = out.absent.union(ROUTING_TYPE);
        } else if !self.mixed {
            out.present = out.present.union(ROUTING_TYPE);
        }
    }

    /// Returns `outcome`, or `Malformed` if it is `Complete` while the routing type is unknown.
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
    out.present = out.present.union(SourceSet::ADDRESSES).union(DSCP);
    out.absent = out.absent.union(IPV4_ADDRESSES);
    let len = usize::from(be16([head[4], head[5]]));
    let body = Body { bytes, len: (len != 0).then_some(len) };
    if is_extension(head[6]) {
        return extensions(config, head[6], body, out);
    }
    Walked::default().tell(head[6], out);
    upper(head[6], ICMPV6, body, false, out)
}

fn extensions(config: &Config, mut next: u8, mut body: Body<'_>, out: &mut Headers) -> Outcome {
    let (mut more_fragments, mut walked) = (false, Walked::default());
    for count in 0.. {
        if !is_extension(next) {
            walked.tell(next, out);
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
    if config.fragments == Fragments::Unknown || is_extension(next) {
        return Outcome::Fragment;
    }
    walked.tell(next, out);
    walked.outcome(later_fragment(config, out))
}
