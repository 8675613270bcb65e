//! Packets to test with: made by hand, drawn at random or damaged at random, all from seeds.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::io::{self, Read};
use std::path::PathBuf;

use firstmatch_net::source::{Input, Limits, SourceError, from_reader};
use firstmatch_net::wire::LinkType;

use crate::rng::Rng;

mod links;

use links::{fabric, nflog, radio, serial_or_logged, snap};
pub use links::{radiotap, wlan};

/// Reader that gives at most `step` bytes at a time.
pub struct Slow {
    pub bytes: Vec<u8>,
    pub at: usize,
    pub step: usize,
}

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = &self.bytes[self.at..];
        let count = left.len().min(into.len()).min(self.step);
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Opens these bytes, read `step` at a time.
pub fn slow(bytes: &[u8], step: usize) -> Result<Input, SourceError> {
    from_reader("test", Box::new(Slow { bytes: bytes.to_vec(), at: 0, step }), &Limits::default())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub link: LinkType,
    pub bytes: Vec<u8>,
}

pub const MAC: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// Returns an Ethernet frame with these tags (ether type and tag control) around a payload.
pub fn ethernet(tags: &[(u16, u16)], ether_type: u16, payload: &[u8]) -> Frame {
    let mut bytes = MAC.to_vec();
    for (kind, control) in tags {
        bytes.extend(kind.to_be_bytes());
        bytes.extend(control.to_be_bytes());
    }
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend(payload);
    Frame { link: LinkType::Ethernet, bytes }
}

/// Returns an IPv4 packet with right lengths; `fragment` is the word of flags and offset.
pub fn ipv4(proto: u8, fragment: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    assert!(options.len().is_multiple_of(4) && options.len() <= 40);
    let head = 20 + options.len();
    let mut bytes = vec![0x40 | (head / 4) as u8, 0];
    bytes.extend(((head + payload.len()) as u16).to_be_bytes());
    bytes.extend([0, 7]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, proto, 0, 0, 10, 1, 2, 3, 192, 168, 4, 5]);
    bytes.extend(options);
    bytes.extend(payload);
    set_checksum(&mut bytes);
    bytes
}

/// Sets the header checksum of an IPv4 packet, as far as its header is there.
pub fn set_checksum(packet: &mut [u8]) {
    let len = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    let Some(header) = packet.get_mut(..len).filter(|_| len >= 20) else { return };
    header[10..12].fill(0);
    let mut sum: u32 = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    header[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
}

/// Returns an IPv6 packet with right lengths, whose `payload` begins with the header `next`.
pub fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend(0x2001_0db8_0000_0001_0203_0405_0607_0809u128.to_be_bytes());
    bytes.extend(0xfe80_0000_0000_0000_1112_1314_1516_1718u128.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub fn tcp(flags: u8) -> Vec<u8> {
    let mut bytes = vec![0x30, 0x39, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    bytes.extend(b"payload");
    bytes
}

pub fn udp() -> Vec<u8> {
    vec![0x14, 0xe9, 0x00, 0x35, 0, 12, 0, 0, 1, 2, 3, 4]
}

/// Returns an ARP packet for IPv4 over Ethernet, from 10.1.2.3 to 192.168.4.5.
pub fn arp(operation: u16) -> Vec<u8> {
    let mut bytes = vec![0, 1, 8, 0, 6, 4];
    bytes.extend(operation.to_be_bytes());
    bytes.extend([2, 0, 0, 0, 0, 1, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 192, 168, 4, 5]);
    bytes
}

/// Returns a packet under a stack of labels, the last of which has the bottom-of-stack bit.
pub fn mpls(entries: &[u32], packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let bottom = if index + 1 == entries.len() { 0x100 } else { 0 };
        bytes.extend((entry & !0x100 | bottom).to_be_bytes());
    }
    bytes.extend(packet);
    bytes
}

/// Returns a packet of a PPPoE session.
pub fn pppoe(protocol: &[u8], packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x11, 0, 0x12, 0x34];
    bytes.extend(((protocol.len() + packet.len()) as u16).to_be_bytes());
    bytes.extend(protocol);
    bytes.extend(packet);
    bytes
}

/// Returns the first number and the bytes of a chain of IPv6 extension headers.
///
/// `proto` and `payload` stand behind the headers. `fragment` is the word of offset and flags in fragment headers.
pub fn chain(kinds: &[u8], units: u8, fragment: u16, proto: u8, payload: &[u8]) -> (u8, Vec<u8>) {
    let mut bytes = Vec::new();
    for (index, &kind) in kinds.iter().enumerate() {
        let next = kinds.get(index + 1).copied().unwrap_or(proto);
        match kind {
            44 => {
                bytes.extend([next, 0]);
                bytes.extend(fragment.to_be_bytes());
                bytes.extend([0, 0, 0, 9]);
            }
            51 => {
                let words = units % 4 + 1;
                bytes.extend([next, words]);
                bytes.extend(std::iter::repeat_n(0xaa, usize::from(words) * 4 + 6));
            }
            _ => {
                // Routing headers at the places 2n and 2n + 1 of a chain are of one type, others differ.
                let routing_type = if kind == 43 { (index / 2) as u8 } else { 0 };
                bytes.extend([next, units, routing_type]);
                bytes.extend(std::iter::repeat_n(0, usize::from(units) * 8 + 5));
            }
        }
    }
    bytes.extend(payload);
    (kinds.first().copied().unwrap_or(proto), bytes)
}

/// Returns a frame of some kind that exists, mostly right.
pub fn random(rng: &mut Rng) -> Frame {
    let proto = rng.any_of(&[6, 6, 6, 17, 17, 1, 58, 132, 136, 33, 50, 51, 59, 2, 47, 135, 89, 255]);
    let len = rng.any_of(&[0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 14, 19, 20, 21, 30, 60]);
    let mut payload = rng.bytes(len);
    if proto == 6 && payload.len() > 12 && !rng.one_in(8) {
        payload[12] = 0x50;
    }
    let (mut packet, ether_type) = if rng.one_in(2) {
        let options = if rng.one_in(3) { rng.below(11) * 4 } else { 0 };
        let options = rng.bytes(options);
        let fragment = rng.any_of(&[0, 0, 0, 0, 0x4000, 0x2000, 0x2000, 0x2001, 0x00b9, 0x8000]);
        let mut packet = ipv4(proto, fragment, &options, &payload);
        if rng.one_in(12) {
            let total = rng.any_of(&[0, 0, 3, 19, 20, 21, 24, 33, 0xffff]);
            packet[2..4].copy_from_slice(&u16::to_be_bytes(total));
        }
        if rng.one_in(40) {
            packet[0] = rng.next() as u8;
        }
        for byte in &mut packet[12..20] {
            *byte = rng.next() as u8;
        }
        if !rng.one_in(20) {
            set_checksum(&mut packet);
        }
        (packet, 0x0800)
    } else {
        let count = rng.any_of(&[0, 0, 0, 1, 1, 2, 3, 9]);
        let mut kinds: Vec<u8> = (0..count).map(|_| rng.any_of(&[60, 43, 44, 44, 51, 60])).collect();
        if rng.one_in(3) {
            kinds.insert(0, 0);
        }
        if rng.one_in(20) {
            kinds.push(0);
        }
        if rng.one_in(20) {
            kinds.push(rng.any_of(&[135, 139, 140, 253, 254]));
        }
        let fragment = rng.any_of(&[0, 0, 1, 1, 8, 9, 0xfff8, 6]);
        let units = rng.any_of(&[0, 0, 1, 2]);
        let (next, body) = chain(&kinds, units, fragment, proto, &payload);
        let mut packet = ipv6(next, &body);
        if rng.one_in(12) {
            let len = rng.any_of(&[0, 0, 1, 4, 8, 13, 14, 0xffff]);
            packet[4..6].copy_from_slice(&u16::to_be_bytes(len));
        }
        for byte in &mut packet[8..40] {
            *byte = rng.next() as u8;
        }
        (packet, 0x86dd)
    };
    if rng.one_in(4) {
        let padding = rng.below(20);
        packet.extend(rng.bytes(padding));
    }
    if rng.one_in(6) {
        return Frame { link: LinkType::Raw, bytes: packet };
    }
    let tags = rng.any_of(&[0, 0, 0, 0, 1, 1, 2, 3, 4, 5]);
    let tags: Vec<_> = (0..tags).map(|_| (rng.any_of(&[0x8100, 0x88a8, 0x9100]), rng.next() as u16)).collect();
    let ether_type = if rng.one_in(12) { rng.any_of(&[0x0806, 0x88e5, 0x0003, 0x86dd, 0x0800]) } else { ether_type };
    ethernet(&tags, ether_type, &packet)
}

/// Returns a frame of any kind.
///
/// It is a frame that [`random`] draws, or its packet behind another link header, tags, labels or PPP; or ARP.
pub fn any(rng: &mut Rng) -> Frame {
    let frame = random(rng);
    if frame.link != LinkType::Raw && !rng.one_in(20) {
        return frame;
    }
    let with_head = |link, head: &[u8]| Frame { link, bytes: [head, &frame.bytes].concat() };
    let (is_ipv6, tags) = (frame.bytes[0] >> 4 == 6, rng.any_of(&[0, 0, 1]));
    let tags = vec![(0x8100, rng.next() as u16); tags];
    let ether_type = u16::to_be_bytes(rng.any_of(&[if is_ipv6 { 0x86dd } else { 0x0800 }, 0x8100, 0x0004, 0x0806]));
    // Ethernet, PPP, frame relay, loopback, GRE, 802.11 with its radio header, netlink, none.
    let hardware = u16::to_be_bytes(rng.any_of(&[1, 1, 512, 770, 772, 778, 803, 824, 0xfffe]));
    let source_len = rng.any_of(&[0, 6, 6, 8]);
    match rng.below(16) {
        0 => frame,
        12 => radio(rng, is_ipv6, &frame.bytes),
        13 => {
            let packet = [snap(rng, is_ipv6), frame.bytes].concat();
            let len = if rng.one_in(6) { rng.below(0x600) } else { packet.len() };
            let padding = rng.below(20);
            ethernet(&tags, len as u16, &[packet, rng.bytes(padding)].concat())
        }
        14 | 15 => fabric(rng, &tags, is_ipv6, &frame.bytes),
        10 | 11 => serial_or_logged(rng, is_ipv6, &frame.bytes),
        1 => {
            let mut head = [&[0, rng.any_of(&[0, 3, 4, 9])], &hardware[..], &[0, source_len], &rng.bytes(8)].concat();
            head.extend(ether_type);
            if ether_type == [0, 4] {
                head.extend(snap(rng, is_ipv6));
            }
            with_head(LinkType::LinuxSll, &head)
        }
        2 => {
            let mut head =
                [&ether_type[..], &[0; 2], &rng.bytes(4), &hardware, &[0, source_len], &rng.bytes(8)].concat();
            if ether_type == [0, 4] {
                head.extend(snap(rng, is_ipv6));
            }
            with_head(LinkType::LinuxSll2, &head)
        }
        3 => {
            let family = u32::to_be_bytes(rng.any_of(&[2, 10, 24, 28, 30, 7, 0x0800, 0x86dd, 0x8100, 0x0806, 0x05ff]));
            let little: Vec<u8> = family.into_iter().rev().collect();
            match rng.below(3) {
                0 => with_head(LinkType::OpenBsdLoop, &family),
                1 => with_head(LinkType::Loopback, &family),
                _ => with_head(LinkType::Loopback, &little),
            }
        }
        4 => with_head(if is_ipv6 { LinkType::Ipv6 } else { LinkType::Ipv4 }, &[]),
        5 | 6 => {
            let count = rng.any_of(&[1, 1, 2, 3, 8, 9]);
            let mut entries: Vec<u32> = (0..count).map(|_| rng.next() as u32).collect();
            if rng.one_in(4) {
                // A last label that announces a version of IP.
                entries[count - 1] = (rng.any_of(&[0, 2]) << 12) | 64;
            }
            ethernet(&tags, rng.any_of(&[0x8847, 0x8848]), &mpls(&entries, &frame.bytes))
        }
        7 | 8 => {
            let low = if is_ipv6 { 0x57 } else { 0x21 };
            let protocol = if rng.one_in(4) { vec![low] } else { vec![0, low] };
            let mut session = pppoe(&protocol, &frame.bytes);
            if rng.one_in(6) {
                session[5] = rng.next() as u8;
            }
            let padding = rng.below(20);
            session.extend(rng.bytes(padding));
            ethernet(&tags, 0x8864, &session)
        }
        _ => {
            let mut packet = arp(rng.next() as u16);
            if rng.one_in(3) {
                packet[4..6].copy_from_slice(&[rng.any_of(&[0, 6, 8]), rng.any_of(&[4, 4, 0, 16])]);
                packet.extend([9; 40]);
            }
            ethernet(&tags, 0x0806, &packet)
        }
    }
}

/// Changes some bytes of a frame or cuts its end off.
pub fn damage(rng: &mut Rng, frame: &mut Frame) {
    for _ in 0..rng.below(4) {
        if !frame.bytes.is_empty() {
            let at = rng.below(frame.bytes.len());
            frame.bytes[at] = if rng.one_in(2) { rng.next() as u8 } else { frame.bytes[at] ^ 1 << rng.below(8) };
        }
    }
    if rng.one_in(2) {
        frame.bytes.truncate(rng.below(frame.bytes.len() + 1));
    }
}

/// Returns frames of every kind, right and complete, by name.
pub fn handmade() -> Vec<(&'static str, Frame)> {
    let v4 = |proto, fragment, payload: &[u8]| ethernet(&[], 0x0800, &ipv4(proto, fragment, &[], payload));
    let v6 = |kinds: &[u8], fragment, proto, payload: &[u8]| {
        let (next, body) = chain(kinds, 1, fragment, proto, payload);
        ethernet(&[], 0x86dd, &ipv6(next, &body))
    };
    let with_head = |link, head: &[u8], packet: &[u8]| Frame { link, bytes: [head, packet].concat() };
    let plain = ipv4(17, 0, &[], &udp());
    let plain6 = ipv6(6, &tcp(0x12));
    let sll = |hardware: [u8; 2], ether_type: u16| {
        let mut head = [0; 16];
        head[2..4].copy_from_slice(&hardware);
        head[4..12].copy_from_slice(&[0, 6, 2, 0, 0, 0, 0, 9]);
        head[14..].copy_from_slice(&ether_type.to_be_bytes());
        head
    };
    let snap = |ether_type: u16| [&[0xaa, 0xaa, 3, 0, 0, 0][..], &ether_type.to_be_bytes()].concat();
    let of_802_3 = |llc: &[u8], packet: &[u8]| {
        let payload = [llc, packet].concat();
        ethernet(&[], payload.len() as u16, &[payload, vec![0; 7]].concat())
    };
    let of_802_11 = [wlan(0x88, 1, 0, 0), snap(0x0800)].concat();
    // Frame of a pseudowire, to an address that begins with `first`.
    let wired = |first: u8| mpls(&[0x0001_0000], &[&[first, 0, 0, 50][..], &[7; 8], &[8, 0], &plain].concat());
    let with_type = |ether_type: u16, packet: &[u8]| [&ether_type.to_be_bytes()[..], packet].concat();
    let mut sll2 = [0; 20];
    sll2[..2].copy_from_slice(&0x86dd_u16.to_be_bytes());
    sll2[4..8].copy_from_slice(&77_u32.to_be_bytes());
    vec![
        ("tcp", v4(6, 0, &tcp(0x12))),
        ("tcp with options", ethernet(&[], 0x0800, &ipv4(6, 0x4000, &[1; 40], &tcp(0x10)))),
        ("udp", v4(17, 0, &udp())),
        ("udp padded", ethernet(&[], 0x0800, &[&plain[..], &[0; 18]].concat())),
        ("icmp", v4(1, 0, &[8, 0, 1, 2, 0, 0, 0, 0])),
        ("esp", v4(50, 0, &[1; 16])),
        ("ah over ipv4", v4(51, 0, &[6; 24])),
        ("first fragment", v4(17, 0x2000, &udp())),
        ("later fragment", v4(17, 0x2003, &udp())),
        ("last fragment", v4(6, 0x0003, &tcp(2))),
        ("tagged", ethernet(&[(0x8100, 0x2064)], 0x0800, &plain)),
        ("tagged twice", ethernet(&[(0x88a8, 0x0064), (0x8100, 7)], 0x86dd, &plain6)),
        ("tagged five times", ethernet(&[(0x9100, 1); 5], 0x0800, &plain)),
        ("tcp over ipv6", v6(&[], 0, 6, &tcp(0x02))),
        ("icmpv6", v6(&[0], 0, 58, &[135, 0, 0, 0, 0, 0, 0, 0])),
        ("a chain", v6(&[0, 60, 43, 51, 60], 0, 132, &udp())),
        ("a long chain", v6(&[60; 9], 0, 17, &udp())),
        ("atomic fragment", v6(&[0, 44], 0, 17, &udp())),
        ("first ipv6 fragment", v6(&[44, 60], 1, 6, &tcp(0x18))),
        ("later ipv6 fragment", v6(&[44], 0x0559, 6, &tcp(0x18))),
        ("later ipv6 fragment, then options", v6(&[44, 60], 8, 6, &tcp(0x18))),
        ("no next header", v6(&[], 0, 59, &[1, 2, 3])),
        ("mobility", v6(&[], 0, 135, &[59, 0, 0, 0, 0, 0, 0, 0])),
        ("an experiment in a chain", v6(&[0, 253, 60], 0, 6, &tcp(2))),
        ("routing headers of one type", v6(&[43, 43], 0, 17, &udp())),
        ("routing headers of two types", v6(&[43, 60, 43], 0, 17, &udp())),
        ("arp", ethernet(&[(0x8100, 0xa00c)], 0x0806, &arp(0x0002))),
        ("arp for something else", ethernet(&[], 0x0806, &[0; 28])),
        ("one label", ethernet(&[], 0x8847, &mpls(&[0x1234_5a40], &plain))),
        ("labels", ethernet(&[(0x8100, 7)], 0x8848, &mpls(&[0xffff_f000, 1 << 12, 0x40], &plain6))),
        ("too many labels", ethernet(&[], 0x8847, &mpls(&[0x0001_0000; 9], &plain))),
        ("mpls over a pseudowire", ethernet(&[], 0x8847, &mpls(&[0x0001_0000], &[0; 20]))),
        ("pppoe", ethernet(&[(0x8100, 7)], 0x8864, &pppoe(&[0x00, 0x21], &plain))),
        ("pppoe, compressed", ethernet(&[], 0x8864, &[&pppoe(&[0x57], &plain6)[..], &[0; 9]].concat())),
        ("pppoe, lcp", ethernet(&[], 0x8864, &pppoe(&[0xc0, 0x21], &[1, 1, 0, 4]))),
        ("pppoe discovery", ethernet(&[], 0x8863, &[0x11, 9, 0, 0, 0, 0])),
        ("802.3", ethernet(&[], 0x0026, &[0xaa; 38])),
        ("802.3, snap", of_802_3(&snap(0x0800), &plain)),
        ("802.3, snap of a vendor", of_802_3(&[0xaa, 0xaa, 3, 0, 0, 12, 8, 0], &plain)),
        ("802.3, spanning tree", of_802_3(&[0x42, 0x42, 3], &[0; 35])),
        ("vn-tag", ethernet(&[], 0x8926, &[&[0; 4][..], &[0x81, 0, 0, 7], &with_type(0x0800, &plain)].concat())),
        ("e-tag", ethernet(&[(0x8100, 7)], 0x893f, &[&[0; 6][..], &with_type(0x86dd, &plain6)].concat())),
        ("backbone", ethernet(&[], 0x88e7, &[&[0; 4][..], &MAC, &with_type(0x0800, &plain)].concat())),
        ("pseudowire to 45", ethernet(&[], 0x8847, &wired(0x45))),
        ("pseudowire to 60", ethernet(&[], 0x8847, &wired(0x60))),
        ("raw ipv4", with_head(LinkType::Raw, &[], &plain)),
        ("raw ipv6", with_head(LinkType::Raw, &[], &plain6)),
        ("link ipv4", with_head(LinkType::Ipv4, &[], &plain)),
        ("link ipv6", with_head(LinkType::Ipv6, &[], &plain6)),
        ("loopback little", with_head(LinkType::Loopback, &[2, 0, 0, 0], &plain)),
        ("loopback big", with_head(LinkType::Loopback, &[0, 0, 0, 30], &plain6)),
        ("loopback of an ether type", with_head(LinkType::Loopback, &[0, 8, 0, 0], &plain)),
        ("loopback openbsd", with_head(LinkType::OpenBsdLoop, &[0, 0, 0, 24], &plain6)),
        ("cooked", with_head(LinkType::LinuxSll, &sll([0, 1], 0x0800), &plain)),
        ("cooked 802.2", with_head(LinkType::LinuxSll, &[&sll([0, 1], 4)[..], &snap(0x86dd)].concat(), &plain6)),
        ("cooked netlink", with_head(LinkType::LinuxSll, &sll([3, 56], 0x0800), &plain)),
        ("cooked 2", with_head(LinkType::LinuxSll2, &sll2, &plain6)),
        ("ppp", with_head(LinkType::Ppp, &[0xff, 3, 0, 0x21], &plain)),
        ("ppp without framing", with_head(LinkType::Ppp, &[0x57], &plain6)),
        ("ppp, lcp", with_head(LinkType::PppHdlc, &[0xff, 3, 0xc0, 0x21], &[1, 1, 0, 4])),
        ("ppp of pppd", with_head(LinkType::PppPppd, &[1, 3, 0x21], &plain)),
        ("ppp with direction", with_head(LinkType::PppWithDirection, &[0, 0xff, 3, 0, 0x57], &plain6)),
        ("pppoe as a link", Frame { link: LinkType::PppoeSession, bytes: pppoe(&[0, 0x21], &plain) }),
        ("cisco hdlc", with_head(LinkType::CiscoHdlc, &[0x0f, 0, 0x08, 0x00], &plain)),
        ("cisco hdlc, slarp", with_head(LinkType::PppHdlc, &[0x8f, 0, 0x80, 0x35], &[0; 18])),
        ("pflog", with_head(LinkType::Pflog, &[&[61, 2][..], &[0; 62]].concat(), &plain)),
        ("nflog", with_head(LinkType::Nflog, &nflog(2, false, plain.len()), &plain)),
        ("nflog, big", with_head(LinkType::Nflog, &nflog(10, true, plain6.len()), &plain6)),
        ("nflog without a packet", with_head(LinkType::Nflog, &[2, 0, 0, 0, 5, 0, 10, 0, 1, 0, 0, 0], &[])),
        ("802.11", with_head(LinkType::Ieee80211, &of_802_11, &plain)),
        ("802.11, ordered", with_head(LinkType::Ieee80211, &[wlan(0x88, 0x83, 0, 0), snap(0x86dd)].concat(), &plain6)),
        ("802.11, encrypted", with_head(LinkType::Ieee80211, &wlan(0x08, 0x42, 0, 0), &plain)),
        ("802.11, beacon", with_head(LinkType::Ieee80211, &wlan(0x80, 0, 0, 0), &[0; 40])),
        ("802.11, several packets", with_head(LinkType::Ieee80211, &wlan(0x88, 2, 0, 0x80), &plain)),
        ("802.11, later fragment", with_head(LinkType::Ieee80211, &wlan(0x08, 2, 1, 0), &plain)),
        (
            "radiotap, padded",
            with_head(
                LinkType::Radiotap,
                &[radiotap(0x20, true, 2), wlan(0x88, 2, 0, 0), vec![0; 2], snap(0x0800)].concat(),
                &plain,
            ),
        ),
        ("ppi", with_head(LinkType::Ppi, &[&[0, 0, 8, 0, 105, 0, 0, 0], &of_802_11[..]].concat(), &plain)),
        ("bluetooth", with_head(LinkType::Other(201), &[], &plain)),
    ]
}

/// Returns the captures that come with pcap-parser's source, where cargo has unpacked it.
pub fn captures() -> Vec<PathBuf> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let registries = cargo.into_iter().flat_map(|cargo| entries(cargo.join("registry/src")));
    let crates = registries.flat_map(entries);
    let wanted =
        crates.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("pcap-parser-")));
    let files = wanted.flat_map(|path| entries(path.join("assets")));
    files.filter(|path| path.extension().is_some_and(|e| e == "pcap" || e == "pcapng")).collect()
}
