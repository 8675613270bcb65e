//! Headers of links other than plain Ethernet, and frames with them.

use firstmatch_net::wire::LinkType;

use super::{Frame, ethernet, pppoe};
use crate::rng::Rng;

/// Returns the header of Linux's netfilter log: a prefix of 2 bytes, and the head of a packet of `len` bytes.
pub(super) fn nflog(family: u8, is_big: bool, len: usize) -> Vec<u8> {
    let order = |number: u16| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let values = [order(6), order(10), [b'a', 0], [0; 2], order(len as u16 + 4), order(9)];
    [&[family, 0, 0, 7][..], &values.concat()].concat()
}

/// Returns a frame of PPP, Cisco HDLC or a packet filter's log around an IP packet, mostly of the right kind.
pub(super) fn serial_or_logged(rng: &mut Rng, is_ipv6: bool, packet: &[u8]) -> Frame {
    let with_head = |link, head: &[u8]| Frame { link, bytes: [head, packet].concat() };
    let low = if is_ipv6 { 0x57 } else { 0x21 };
    let protocol = if rng.one_in(4) { vec![low] } else { vec![rng.any_of(&[0, 0, 0, 0x80]), low] };
    let framing = rng.any_of(&[&[][..], &[0xff, 3], &[0xff, 3], &[1, 3], &[0x0f, 0]]);
    let family = rng.any_of(&[if is_ipv6 { 10 } else { 2 }, 24, 2, 7]);
    match rng.below(7) {
        0 => with_head(
            rng.any_of(&[LinkType::Ppp, LinkType::PppHdlc, LinkType::PppPppd]),
            &[framing, &protocol].concat(),
        ),
        1 => with_head(LinkType::PppWithDirection, &[&[rng.below(2) as u8][..], framing, &protocol].concat()),
        2 => {
            let kind = u16::to_be_bytes(rng.any_of(&[if is_ipv6 { 0x86dd } else { 0x0800 }, 0x8035, 0x8847, 0x8100]));
            with_head(rng.any_of(&[LinkType::CiscoHdlc, LinkType::PppHdlc]), &[&[0x0f, 0], &kind[..]].concat())
        }
        3 => {
            let len = rng.any_of(&[61, 64, 100, 3]);
            with_head(
                LinkType::Pflog,
                &[&[len, family][..], &rng.bytes(usize::from(len).next_multiple_of(4) - 2)].concat(),
            )
        }
        4 => Frame { link: LinkType::PppoeSession, bytes: pppoe(&protocol, packet) },
        _ => with_head(LinkType::Nflog, &nflog(family, rng.one_in(2), packet.len())),
    }
}

/// Returns an 802.2 header, mostly with SNAP and the ether type of an IP version.
pub(super) fn snap(rng: &mut Rng, is_ipv6: bool) -> Vec<u8> {
    let mut bytes = vec![0xaa, 0xaa, 3, 0, 0, 0];
    if rng.one_in(6) {
        let at = rng.below(6);
        bytes[at] ^= 1 << rng.below(8);
    }
    bytes.extend(u16::to_be_bytes(rng.any_of(&[
        if is_ipv6 { 0x86dd } else { 0x0800 },
        0x8100,
        0x0004,
        0x0806,
        0x8847,
    ])));
    bytes
}

/// Returns the header of an 802.11 frame with the kind and the flags of its control field.
///
/// The address N consists of the byte N. `fragment` is the number of a fragment, `qos` the low byte of QoS.
pub fn wlan(kind: u8, flags: u8, fragment: u8, qos: u8) -> Vec<u8> {
    let mut bytes = vec![kind, flags, 0, 0];
    (1..=3).for_each(|address| bytes.extend([address; 6]));
    bytes.extend([fragment, 7]);
    if flags & 3 == 3 {
        bytes.extend([4; 6]);
    }
    if kind & 0x80 != 0 {
        bytes.extend([qos, 0]);
        if flags & 0x80 != 0 {
            bytes.extend([9; 4]);
        }
    }
    bytes
}

/// Returns a radiotap header with `words` words of bits, and with flags, behind a time where `has_time`.
pub fn radiotap(flags: u8, has_time: bool, words: usize) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for word in 0..words {
        let more = if word + 1 < words { 1 << 31 } else { 0 };
        bytes.extend(u32::to_le_bytes(if word == 0 { 2 | u32::from(has_time) | more } else { more }));
    }
    if has_time {
        bytes.resize(bytes.len().next_multiple_of(8) + 8, 0xff);
    }
    bytes.extend([flags, 0]);
    bytes[2] = bytes.len() as u8;
    bytes
}

/// Returns a frame of 802.11, bare or behind the header of a radio, mostly of data.
pub(super) fn radio(rng: &mut Rng, is_ipv6: bool, packet: &[u8]) -> Frame {
    let kind = rng.any_of(&[0x08, 0x88, 0x88, 0x88, 0x80, 0x48, 0xc8, 0xb4, 0x09]);
    let flags = rng.any_of(&[0, 1, 2, 3, 1, 2, 0x41, 0x82, 0x83]);
    let (fragment, qos) = (rng.any_of(&[0, 0, 0, 0x31, 0x10]), rng.any_of(&[0, 0, 5, 0x80]));
    let mut frame = wlan(kind, flags, fragment, qos);
    let head = radiotap(rng.any_of(&[0, 0x10, 0x20]), rng.one_in(2), 1 + rng.below(3));
    let form = rng.below(3);
    if form == 1 && head[head.len() - 2] == 0x20 {
        frame.resize(frame.len().next_multiple_of(4), 0);
    }
    frame.extend(snap(rng, is_ipv6));
    frame.extend(packet);
    let dlt = rng.any_of(&[105, 105, 105, 127, 1, 101, 192, 147]);
    match form {
        0 => Frame { link: LinkType::Ieee80211, bytes: frame },
        1 => Frame { link: LinkType::Radiotap, bytes: [head, frame].concat() },
        _ => Frame { link: LinkType::Ppi, bytes: [vec![0, 0, 12, 0, dlt, 0, 0, 0, 9, 9, 9, 9], frame].concat() },
    }
}

/// Returns a frame with VLAN tags and with tags of virtual interfaces, port extenders or backbone bridges.
pub(super) fn fabric(rng: &mut Rng, tags: &[(u16, u16)], is_ipv6: bool, packet: &[u8]) -> Frame {
    let mut payload = Vec::new();
    let mut kind = rng.any_of(&[0x8926, 0x893f, 0x88e7]);
    let first = kind;
    for _ in 0..rng.below(3) {
        let next = rng.any_of(&[0x8100, 0x8926, 0x893f, 0x88e7]);
        payload.extend(rng.bytes(tag_len(kind) - 2));
        payload.extend(u16::to_be_bytes(next));
        kind = next;
    }
    payload.extend(rng.bytes(tag_len(kind) - 2));
    let ether_type = rng.any_of(&[if is_ipv6 { 0x86dd } else { 0x0800 }, 0x8847, 0x8864, 0x0040]);
    payload.extend(u16::to_be_bytes(ether_type));
    payload.extend(packet);
    ethernet(tags, first, &payload)
}

/// Returns the number of bytes of a tag behind its ether type, with the next ether type.
fn tag_len(kind: u16) -> usize {
    match kind {
        0x8926 => 6,
        0x893f => 8,
        0x88e7 => 18,
        _ => 4,
    }
}
