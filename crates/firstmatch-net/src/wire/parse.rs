//! Header parser, down to the ether type: total functions over slices.

use firstmatch_core::schema::Source;

use super::headers::{CUT, ETH_DST, ETH_SRC, ETH_TYPE, IN_PORT, SourceSet, VLAN};
use super::ip::{be16, ipv4, ipv6};
use super::links::{ETHER_FIRST, Inside, inside, ppp};
use super::non_ip::{self, LABEL, arp, bounded, mpls, pppoe};
use super::wlan::{Wlan, llc, ppi, radiotap, wlan};
use super::{Config, Headers, LinkType, Outcome};

const VLAN_TAG: SourceSet = SourceSet::of(&[Source::VlanVid, Source::VlanPcp]);
const ETH_ADDRESSES: SourceSet = SourceSet::of(&[Source::EthSrc, Source::EthDst]);
const TYPE: SourceSet = SourceSet::of(&[Source::EthType]);
/// Fields that a packet without a link layer lacks.
const LINK: SourceSet = VLAN_TAG.union(ETH_ADDRESSES).union(LABEL);
/// Fields that a frame lacks if its ether type is not one that is read.
const NOTHING_INSIDE: SourceSet = LABEL.union(SourceSet::OPENFLOW);

const ETHER_IPV4: u16 = 0x0800;
const ETHER_ARP: u16 = 0x0806;
const ETHER_IPV6: u16 = 0x86dd;
const ETHER_MPLS: u16 = 0x8847;
const ETHER_MPLS_MULTICAST: u16 = 0x8848;
const ETHER_PPP_SESSION: u16 = 0x8864;
/// Tag of a virtual interface, of 4 bytes.
const VN_TAG: u16 = 0x8926;
/// Tag of a port extender (802.1BR), of 6 bytes.
const E_TAG: u16 = 0x893f;
/// Tag of a service of a provider backbone bridge (802.1ah).
const I_TAG: u16 = 0x88e7;
/// Number that OpenFlow uses if an 802.3 frame has no ether type.
const ETHER_NONE: u16 = 0x05ff;

/// Finds the headers of one whole frame of interface 0. Never panics, allocates nothing.
#[inline]
pub fn parse(config: &Config, link: LinkType, frame: &[u8]) -> Headers {
    parse_on(config, 0, link, frame, frame.len() as u32)
}

/// Finds the headers of one frame of the interface `interface`, `bytes` long on the wire.
///
/// A frame that names another interface itself, as Linux cooked captures of version 2 do, keeps that one. If the
/// capture cut the frame, `frame` is shorter than `bytes`. Never panics, allocates nothing.
#[inline]
pub fn parse_on(config: &Config, interface: u32, link: LinkType, frame: &[u8], bytes: u32) -> Headers {
    let mut headers = Headers::new(interface, config.metadata);
    parse_frame(config, link, frame, bytes, &mut headers);
    headers
}

/// Finds the headers of one frame, as [`parse_on`], and overwrites `out` with them.
///
/// It is faster than [`parse_on`], because it moves no headers. Moving them stalls on failed store forwarding: the
/// loads of the copy are wider than the stores just before them.
#[inline]
pub fn parse_into(config: &Config, interface: u32, link: LinkType, frame: &[u8], bytes: u32, out: &mut Headers) {
    *out = Headers::new(interface, config.metadata);
    parse_frame(config, link, frame, bytes, out);
}

/// Finds the headers of one frame; `out` must be as [`Headers::new`] returns it.
#[inline(never)]
pub(super) fn parse_frame(config: &Config, link: LinkType, frame: &[u8], bytes: u32, out: &mut Headers) {
    out.words[CUT] = bytes.saturating_sub(frame.len() as u32);
    out.reason = read_link(config, link, frame, out);
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

/// Reads a frame of any link but Ethernet.
///
/// Not inlined, like the other rare paths, because it would slow down the path of plain IP over Ethernet.
#[inline(never)]
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
        LinkType::PppoeSession => {
            out.absent = LINK;
            let outcome = pppoe(config, frame, out, |config, packet, out| behind(config, ppp(packet), out));
            if outcome == Outcome::NotIp { behind(config, Inside::NotIp, out) } else { outcome }
        }
        LinkType::Ieee80211 => radio(config, wlan(frame, false), out),
        LinkType::Radiotap => radio(config, radiotap(frame).and_then(|(frame, is_padded)| wlan(frame, is_padded)), out),
        LinkType::Ppi => match ppi(frame) {
            Ok((LinkType::Ppi, _)) => Outcome::Malformed,
            Ok((link, frame)) => read_link(config, link, frame, out),
            Err(outcome) => outcome,
        },
        _ => behind(config, inside(link, frame), out),
    }
}

/// Reads the packet after the header of a link without Ethernet addresses.
fn behind(config: &Config, inside: Inside<'_>, out: &mut Headers) -> Outcome {
    out.absent = LINK;
    match inside {
        Inside::Ip(version, packet) => {
            let version = version.or(packet.first().map(|first| first >> 4));
            bare(config, version, packet, out)
        }
        Inside::Type(ether_type, rest) => {
            out.absent = ETH_ADDRESSES;
            ether_type.map_or(Outcome::Truncated, |ether_type| ether(config, ether_type, rest, out))
        }
        Inside::NotIp => {
            out.absent = LINK.union(TYPE).union(SourceSet::OPENFLOW);
            Outcome::NotIp
        }
        Inside::Bad(outcome) => outcome,
    }
}

/// Reads the packet after the header of an 802.11 frame.
fn radio(config: &Config, wlan: Result<Wlan<'_>, Outcome>, out: &mut Headers) -> Outcome {
    let (addresses, content) = match wlan {
        Ok(Wlan::Data { addresses, content }) => (addresses, content),
        Ok(Wlan::NoData) => return behind(config, Inside::NotIp, out),
        Err(outcome) => return outcome,
    };
    let [destination, source] = addresses;
    put_mac(out, ETH_DST, destination);
    put_mac(out, ETH_SRC, source);
    out.present = out.present.union(ETH_ADDRESSES);
    content.map_or_else(|outcome| outcome, |payload| of_802_2(config, payload, out))
}

/// Reads a packet behind an 802.2 header, whose length nothing states.
fn of_802_2(config: &Config, payload: &[u8], out: &mut Headers) -> Outcome {
    match llc(payload) {
        Inside::Type(Some(ether_type), packet) => ether(config, ether_type, packet, out),
        Inside::NotIp => {
            out.absent = out.absent.union(VLAN_TAG);
            untyped(out)
        }
        _ => Outcome::Truncated,
    }
}

/// Reads an 802.3 frame from its length on.
fn of_802_3(config: &Config, len: u16, rest: &[u8], out: &mut Headers) -> Outcome {
    out.present = out.present.minus(TYPE);
    let is_whole = rest.len() >= usize::from(len);
    bounded(rest, len, out, |payload, out| match llc(payload) {
        Inside::Type(Some(ether_type), packet) => network(config, ether_type, packet, out),
        Inside::Type(None, _) if !is_whole => Outcome::Truncated,
        _ => untyped(out),
    })
}

/// Notes that an 802.3 frame has no ether type, as OpenFlow does.
fn untyped(out: &mut Headers) -> Outcome {
    out.words[ETH_TYPE] = ETHER_NONE.into();
    out.present = out.present.union(TYPE);
    out.absent = out.absent.union(NOTHING_INSIDE);
    Outcome::NotIp
}

/// Reads IP of `version` that no ether type announces.
///
/// `version` is `None` if the packet has no first byte that would show it.
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
/// Frame relay (770), 802.11 with a radio header (803) and netlink (824) have no ether type: that place of the header
/// has no meaning there, or another one. A number too small for an ether type names the content: 4 is 802.2.
fn cooked(config: &Config, hardware: u16, protocol: u16, rest: &[u8], out: &mut Headers) -> Outcome {
    const LLC: u16 = 4;
    match protocol {
        _ if matches!(hardware, 770 | 803 | 824) => {}
        LLC => return of_802_2(config, rest, out),
        ETHER_FIRST.. => return ether(config, protocol, rest, out),
        _ => {}
    }
    out.absent = out.absent.union(VLAN_TAG).union(TYPE).union(NOTHING_INSIDE);
    Outcome::NotIp
}

/// Returns the number of bytes after the ether type of a tag, including the next ether type; 0 if it is not a tag.
#[inline]
fn tag_len(ether_type: u16) -> usize {
    match ether_type {
        0x8100 | 0x88a8 | 0x9100 => 4,
        VN_TAG => 6,
        E_TAG => 8,
        // A service instance, then the two addresses of a customer's frame.
        I_TAG => 18,
        _ => 0,
    }
}

#[inline]
fn ether(config: &Config, ether_type: u16, rest: &[u8], out: &mut Headers) -> Outcome {
    if tag_len(ether_type) > 0 {
        return tagged(config, ether_type, rest, out);
    }
    out.absent = out.absent.union(VLAN_TAG);
    network(config, ether_type, rest, out)
}

/// Reads tags and the packet behind them.
///
/// The first VLAN tag counts. For OpenFlow a frame ends at its first tag of another kind.
#[inline(never)]
fn tagged(config: &Config, mut ether_type: u16, mut rest: &[u8], out: &mut Headers) -> Outcome {
    let (mut tags, mut seen_as) = (0, None);
    let outcome = loop {
        let len = tag_len(ether_type);
        if len == 0 {
            out.absent = out.absent.union(VLAN_TAG.minus(out.present));
            break network(config, ether_type, rest, out);
        }
        if len > 4 {
            seen_as = seen_as.or(Some(ether_type));
        }
        let Some((&[.., high, low], inner)) = rest.split_at_checked(len) else { break Outcome::Truncated };
        if let (4, &[a, b, ..]) = (len, rest)
            && !out.present.contains(Source::VlanVid)
        {
            out.words[VLAN] = be16([a, b]).into();
            out.present = out.present.union(VLAN_TAG);
        }
        if tags >= config.max_vlan_tags {
            break Outcome::VlanCap;
        }
        tags += 1;
        (ether_type, rest) = (be16([high, low]), inner);
    };
    if let Some(ether_type) = seen_as {
        hide(out);
        out.words[ETH_TYPE] = ether_type.into();
        out.present = out.present.minus(LABEL).union(TYPE);
        out.absent = out.absent.union(LABEL).minus(TYPE);
    }
    outcome
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

#[inline(never)]
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
            let outcome = pppoe(config, rest, out, non_ip::ppp);
            hide(out);
            outcome
        }
        ..ETHER_FIRST => of_802_3(config, ether_type, rest, out),
        _ => {
            out.absent = out.absent.union(NOTHING_INSIDE);
            Outcome::NotIp
        }
    }
}

/// Makes the fields of OpenFlow absent, after a header that OpenFlow does not look through.
fn hide(out: &mut Headers) {
    out.present = out.present.minus(SourceSet::OPENFLOW);
    out.absent = out.absent.union(SourceSet::OPENFLOW);
}
