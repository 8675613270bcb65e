//! Links without an Ethernet header, and the packets that their headers announce.
//!
//! Like the functions of the parser, those here are total over slices.

use super::ip::{be16, from};
use super::{LinkType, Outcome};

/// Least ether type; a smaller number is the length of an 802.3 frame.
pub(super) const ETHER_FIRST: u16 = 0x0600;

/// Content of a frame, as its link header states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside<'f> {
    /// IP of this version; `None` if only the packet itself states it.
    Ip(Option<u8>, &'f [u8]),
    /// Packet of an ether type; `None` if the frame ends before it.
    Type(Option<u16>, &'f [u8]),
    /// Anything else.
    NotIp,
    /// Header that ends too early, or contradicts itself.
    Bad(Outcome),
}

/// Reads the header of a link that has no Ethernet addresses.
///
/// | link | header |
/// |---|---|
/// | loopback | 4 bytes: protocol family, or an ether type |
/// | PPP | optional `ff 03`; protocol of one byte or two |
/// | PPP with direction | 1 byte, then PPP |
/// | PPP of pppd | direction in place of `ff`, then `03` and PPP |
/// | Cisco HDLC | address, control, ether type |
/// | PFLOG | its length, protocol family and more, filled up to 4 bytes |
/// | NFLOG | family, version 0, resource, then values, one of which is the packet |
pub(super) fn inside(link: LinkType, frame: &[u8]) -> Inside<'_> {
    match link {
        LinkType::Ipv4 => Inside::Ip(Some(4), frame),
        LinkType::Ipv6 => Inside::Ip(Some(6), frame),
        LinkType::Loopback | LinkType::OpenBsdLoop => {
            let Some((head, rest)) = frame.split_first_chunk::<4>() else { return Inside::Type(None, &[]) };
            let big = u32::from_be_bytes(*head);
            let is_swapped = link == LinkType::Loopback && big > 0xffff;
            let family = if is_swapped { big.swap_bytes() } else { big };
            match u16::try_from(family) {
                Ok(ether_type @ ETHER_FIRST..) => Inside::Type(Some(ether_type), rest),
                _ => of_family(family, rest),
            }
        }
        // Without a first byte it could be either.
        LinkType::PppHdlc if matches!(frame.first(), None | Some(0x0f | 0x8f)) => cisco(frame),
        LinkType::Ppp | LinkType::PppHdlc => framed(frame),
        LinkType::PppWithDirection => framed(from(frame, 1)),
        LinkType::PppPppd => match frame {
            [0 | 1 | 0xff] => Inside::Bad(Outcome::Truncated),
            [0 | 1 | 0xff, 0x03, packet @ ..] | packet => ppp(packet),
        },
        LinkType::CiscoHdlc => cisco(frame),
        LinkType::Pflog => pflog(frame),
        LinkType::Nflog => nflog(frame),
        _ => Inside::Ip(None, frame),
    }
}

/// Returns IP of the version that a protocol family stands for.
fn of_family(family: u32, packet: &[u8]) -> Inside<'_> {
    match family {
        2 => Inside::Ip(Some(4), packet),
        // Linux 10, Windows 23, NetBSD and OpenBSD 24, FreeBSD 28, Darwin 30.
        10 | 23 | 24 | 28 | 30 => Inside::Ip(Some(6), packet),
        _ => Inside::NotIp,
    }
}

/// Reads PPP with the address and control bytes of HDLC framing, or without (RFC 1662).
fn framed(packet: &[u8]) -> Inside<'_> {
    match packet {
        [0xff] => Inside::Bad(Outcome::Truncated),
        [0xff, 0x03, packet @ ..] | packet => ppp(packet),
    }
}

/// Reads PPP without framing (RFC 1661).
pub(super) fn ppp(packet: &[u8]) -> Inside<'_> {
    match ppp_protocol(packet) {
        None => Inside::Bad(Outcome::Truncated),
        Some((0x0021, rest)) => Inside::Ip(Some(4), rest),
        Some((0x0057, rest)) => Inside::Ip(Some(6), rest),
        Some(_) => Inside::NotIp,
    }
}

/// Splits a PPP packet into its protocol, of two bytes or one, and the rest.
///
/// Only the last byte of a protocol is odd. For example, `00 21` is IPv4, and so is `21` alone: its first byte is odd,
/// so it is also the last.
pub(super) fn ppp_protocol(packet: &[u8]) -> Option<(u16, &[u8])> {
    match packet {
        [low, rest @ ..] if low & 1 != 0 => Some((u16::from(*low), rest)),
        [high, low, rest @ ..] => Some((be16([*high, *low]), rest)),
        _ => None,
    }
}

fn cisco(frame: &[u8]) -> Inside<'_> {
    match frame {
        [_, _, high, low, rest @ ..] => match be16([*high, *low]) {
            ..ETHER_FIRST => Inside::NotIp,
            ether_type => Inside::Type(Some(ether_type), rest),
        },
        _ => Inside::Type(None, &[]),
    }
}

/// Reads the header of OpenBSD's packet filter log, whose first byte is its length without padding.
fn pflog(frame: &[u8]) -> Inside<'_> {
    let Some(&[len, family]) = frame.first_chunk() else { return Inside::Bad(Outcome::Truncated) };
    if len < 4 {
        return Inside::Bad(Outcome::Malformed);
    }
    let len = usize::from(len).next_multiple_of(4);
    match frame.get(len..) {
        Some(packet) => of_family(family.into(), packet),
        None => Inside::Bad(Outcome::Truncated),
    }
}

/// Reads the header of Linux's netfilter log: values with lengths and types in the byte order of the machine.
///
/// Types are below 256, so the zero byte of a type shows the order.
fn nflog(frame: &[u8]) -> Inside<'_> {
    const PAYLOAD: u8 = 9;
    let Some((&[family, version, ..], mut rest)) = frame.split_first_chunk::<4>() else {
        return Inside::Bad(Outcome::Truncated);
    };
    if version != 0 {
        return Inside::Bad(Outcome::Malformed);
    }
    while let Some(&[a, b, c, d]) = rest.first_chunk() {
        let (len, kind) = match [c, d] {
            [kind, 0] => (u16::from_le_bytes([a, b]), kind),
            [0, kind] => (be16([a, b]), kind),
            _ => return Inside::Bad(Outcome::Malformed),
        };
        let len = usize::from(len);
        if len < 4 {
            return Inside::Bad(Outcome::Malformed);
        }
        if kind == PAYLOAD {
            return of_family(family.into(), &rest[4..len.min(rest.len())]);
        }
        rest = from(rest, len.next_multiple_of(4));
    }
    // A capture that was cut between two values looks the same.
    Inside::Bad(Outcome::Truncated)
}
