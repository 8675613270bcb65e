//! Expected content of frames of links that etherparse does not read.

use firstmatch_core::schema::Source;
use firstmatch_net::wire::{LinkType, Outcome};

use super::{ETH, Fields, Inside, be16, mac, protocol};

/// Returns the content that the head of a cooked frame states.
///
/// Frame relay, 802.11 with its radio header and netlink have no ether type; the number 4 is 802.2.
pub(super) fn cooked(hardware: u16, protocol: u16, rest: &[u8]) -> Inside<'_> {
    match protocol {
        _ if matches!(hardware, 770 | 803 | 824) => Inside::Nothing,
        4 => llc(rest),
        0..0x600 => Inside::Nothing,
        _ => Inside::Type(protocol, rest),
    }
}

/// Returns the packet behind an 802.2 header: of an ether type if there is SNAP without a vendor.
pub(super) fn llc(bytes: &[u8]) -> Inside<'_> {
    match bytes {
        [0xaa, 0xaa, 3, 0, 0, 0, high, low, rest @ ..] if *high > 5 => Inside::Type(be16(&[*high, *low]), rest),
        [] | [0xaa] | [0xaa, 0xaa] | [0xaa, 0xaa, 3] | [0xaa, 0xaa, 3, 0] => Inside::Cut,
        [0xaa, 0xaa, 3, 0, 0] | [0xaa, 0xaa, 3, 0, 0, 0] | [0xaa, 0xaa, 3, 0, 0, 0, _] => Inside::Cut,
        _ => Inside::Untyped,
    }
}

/// Returns the bytes behind a radio's header, which is at least `least` bytes long.
fn behind_radio<'a>(bytes: &'a [u8], least: usize) -> Result<&'a [u8], Inside<'a>> {
    match bytes {
        _ if bytes.len() < least => Err(Inside::Cut),
        [0, _, low, high, ..] if be16(&[*high, *low]) >= 8 => {
            bytes.get(be16(&[*high, *low]).into()..).ok_or(Inside::Cut)
        }
        _ => Err(Inside::Broken),
    }
}

/// Returns the link type and the frame behind a PPI header.
pub(super) fn ppi(bytes: &[u8]) -> Result<(LinkType, &[u8]), Inside<'_>> {
    let rest = behind_radio(bytes, 8)?;
    let link = LinkType::from_number(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]));
    if link == LinkType::Ppi { Err(Inside::Broken) } else { Ok((link, rest)) }
}

/// Returns the content of a frame of 802.11 behind a radiotap header.
pub(super) fn radiotap<'a>(bytes: &'a [u8], fields: &mut Fields) -> Inside<'a> {
    let rest = match behind_radio(bytes, 4) {
        Ok(rest) => rest,
        Err(inside) => return inside,
    };
    let len = bytes.len() - rest.len();
    let words = bytes[4..len].chunks_exact(4).take_while(|word| word[3] & 0x80 != 0).count() + 1;
    let mut at = 4 + 4 * words;
    if bytes[4] & 1 != 0 {
        at = at.div_ceil(8) * 8 + 8;
    }
    let is_padded = bytes[4] & 2 != 0 && at < len && bytes[at] & 0x20 != 0;
    wlan(rest, is_padded, fields)
}

/// Returns the content of a frame of 802.11.
pub(super) fn wlan<'a>(bytes: &'a [u8], is_padded: bool, fields: &mut Fields) -> Inside<'a> {
    let Some(&[kind, flags]) = bytes.first_chunk() else { return Inside::Cut };
    match kind {
        _ if kind & 3 != 0 => return Inside::Broken,
        // Data with a payload, with QoS or without.
        0x08 | 0x18 | 0x28 | 0x38 | 0x88 | 0x98 | 0xa8 | 0xb8 => {}
        _ => {
            fields.put_all(&ETH, super::Absent);
            return Inside::Nothing;
        }
    }
    let has_qos = kind > 0x80;
    let mut len = 24;
    if flags & 3 == 3 {
        len += 6;
    }
    let qos = len;
    if has_qos {
        len += if flags & 0x80 != 0 { 6 } else { 2 };
    }
    if bytes.len() < len {
        return Inside::Cut;
    }
    let (destination, source) = [(4, 10), (16, 10), (4, 16), (16, 24)][usize::from(flags & 3)];
    fields.put(Source::EthDst, mac(&bytes[destination..destination + 6]));
    fields.put(Source::EthSrc, mac(&bytes[source..source + 6]));
    if flags & 0x40 != 0 || has_qos && bytes[qos] >= 0x80 {
        return Inside::Hidden(Outcome::NotIp);
    }
    if bytes[22] & 15 != 0 {
        return Inside::Hidden(Outcome::Fragment);
    }
    if is_padded {
        len = len.div_ceil(4) * 4;
    }
    llc(bytes.get(len..).unwrap_or_default())
}

/// Returns the content of a frame of PPP, Cisco HDLC or a packet filter's log.
pub(super) fn logged_or_serial(link: LinkType, bytes: &[u8]) -> Inside<'_> {
    let first = bytes.first().copied();
    let of_family = |family: u8, packet| match family {
        2 => Inside::Ip(Some(4), packet),
        10 | 23 | 24 | 28 | 30 => Inside::Ip(Some(6), packet),
        _ => Inside::Nothing,
    };
    let is_cisco = link == LinkType::PppHdlc && matches!(first, None | Some(0x0f | 0x8f));
    match link {
        _ if is_cisco || link == LinkType::CiscoHdlc => match bytes.get(2..4) {
            Some([0..=5, _]) => Inside::Nothing,
            Some(kind) => Inside::Type(be16(kind), &bytes[4..]),
            None => Inside::Cut,
        },
        LinkType::Pflog => match (first, bytes.get(1)) {
            (Some(len), Some(_)) if len < 4 => Inside::Broken,
            (Some(len), Some(&family)) => match bytes.get(len.div_ceil(4) as usize * 4..) {
                Some(packet) => of_family(family, packet),
                None => Inside::Cut,
            },
            _ => Inside::Cut,
        },
        LinkType::Nflog => {
            if bytes.len() < 4 || bytes[1] != 0 {
                return if bytes.len() < 4 { Inside::Cut } else { Inside::Broken };
            }
            let mut at = 4;
            while at + 4 <= bytes.len() {
                let is_little = bytes[at + 3] == 0;
                let pick = |low: usize, high: usize| usize::from(bytes[at + low]) | usize::from(bytes[at + high]) << 8;
                let (len, kind) = if is_little { (pick(0, 1), pick(2, 3)) } else { (pick(1, 0), pick(3, 2)) };
                if len < 4 || kind > 255 {
                    return Inside::Broken;
                }
                if kind == 9 {
                    return of_family(bytes[0], &bytes[at + 4..bytes.len().min(at + len)]);
                }
                at += len.div_ceil(4) * 4;
            }
            Inside::Cut
        }
        _ => {
            let skipped = match (link, bytes) {
                (LinkType::PppWithDirection, [_, 0xff, 3, ..]) => 3,
                (LinkType::PppWithDirection, _) => 1,
                (LinkType::PppPppd, [0 | 1, 3, ..]) | (_, [0xff, 3, ..]) => 2,
                _ => 0,
            };
            // One byte does not show whether framing or a protocol begins.
            let is_short = match link {
                LinkType::PppWithDirection => bytes.get(1..) == Some(&[0xff]),
                LinkType::PppPppd => matches!(bytes, [0 | 1 | 0xff]),
                _ => bytes == [0xff],
            };
            match protocol(bytes.get(skipped..).unwrap_or_default()).filter(|_| !is_short) {
                Some((Some(version), packet)) => Inside::Ip(Some(version), packet),
                Some((None, _)) => Inside::Nothing,
                None => Inside::Cut,
            }
        }
    }
}
