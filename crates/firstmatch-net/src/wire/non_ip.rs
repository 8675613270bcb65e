//! Headers between the ether type and IP, or in place of IP: MPLS, PPP over Ethernet, ARP.
//!
//! Like the functions of the parser, those here are total over slices.

use firstmatch_core::schema::Source;

use super::headers::{CUT, DST, MPLS, NET, SRC, SourceSet};
use super::ip::{IPV4_ADDRESSES, be16, from, ipv4, ipv6};
use super::links::ppp_protocol;
use super::{Config, Headers, Outcome};

pub(super) const LABEL: SourceSet = SourceSet::of(&[Source::MplsLabel, Source::MplsTc]);

/// Reads a label stack and the IP packet behind it.
pub(super) fn mpls(config: &Config, mut rest: &[u8], out: &mut Headers) -> Outcome {
    const BOTTOM: u32 = 0x100;
    let mut labels = 0;
    let bottom = loop {
        let Some((entry, inner)) = rest.split_first_chunk::<4>() else { return Outcome::Truncated };
        let entry = u32::from_be_bytes(*entry);
        if labels == 0 {
            out.words[MPLS] = entry;
            out.present = out.present.union(LABEL);
        }
        if labels >= config.max_mpls_labels {
            return Outcome::MplsCap;
        }
        labels += 1;
        rest = inner;
        if entry & BOTTOM != 0 {
            break entry >> 12;
        }
    };
    match version(bottom, rest, rest.len() + out.words[CUT] as usize) {
        Ok(4) => ipv4(config, rest, out),
        Ok(_) => ipv6(config, rest, out),
        Err(outcome) => outcome,
    }
}

/// Returns the version of the IP packet after a label stack, `len` bytes long on the wire with the bytes that follow
/// it.
///
/// The labels 0 and 2 at the bottom announce IPv4 and IPv6 (RFC 3032), if the packet's version agrees. Nothing else
/// states what a stack carries (RFC 4928). For example, a frame in a pseudowire may begin with an address whose first
/// nibble is 4 or 6. So IPv4 has a right header checksum, and states no more bytes than there are. If its checksum is
/// wrong, it must state all of them, except for the padding of a short frame. IPv6 has no checksum, so its length must
/// leave no more than padding after the packet.
fn version(bottom: u32, packet: &[u8], len: usize) -> Result<u8, Outcome> {
    /// Label "IPv4 explicit null".
    const IPV4_NULL: u32 = 0;
    /// Label "IPv6 explicit null".
    const IPV6_NULL: u32 = 2;
    /// Maximum number of bytes after an IPv6 packet: padding of a short frame, its check sequence, trailers of
    /// switches.
    const PADDING: usize = 64;
    /// Maximum length in bytes of a packet and its padding in an Ethernet frame of the least length, 64 bytes.
    ///
    /// Such a frame has 14 bytes before the label and at least one label. Its last 4 bytes are the check sequence.
    const SHORT: usize = 64 - 14 - 4;
    let first = *packet.first().ok_or(Outcome::Truncated)?;
    let (version, head_len) = match first >> 4 {
        version @ 4 if bottom == IPV4_NULL => return Ok(version),
        version @ 6 if bottom == IPV6_NULL => return Ok(version),
        4 => (4, usize::from(first & 15) * 4),
        6 => (6, 40),
        _ => return Err(Outcome::NotIp),
    };
    if head_len < 20 || len < head_len {
        return Err(Outcome::NotIp);
    }
    let head = packet.get(..head_len).ok_or(Outcome::Truncated)?;
    let words = || head.as_chunks::<2>().0.iter().map(|word| be16(*word));
    let stated = |at: usize| words().nth(at).map_or(0, usize::from);
    let is_ip = if version == 4 {
        let total = stated(1);
        let sum = words().map(u64::from).sum::<u64>();
        // The sum is never 0, because the version is not, so a remainder of 0 means a right checksum.
        let is_right = sum % 0xffff == 0;
        let is_inside = (head_len..=len).contains(&total);
        if is_right { total == 0 || is_inside } else { total == len || len <= SHORT && is_inside }
    } else {
        let end = head_len + stated(2);
        (end..=end + PADDING).contains(&len)
    };
    if is_ip { Ok(version) } else { Err(Outcome::NotIp) }
}

/// Reads the first `len` bytes of `rest`; only padding follows them.
pub(super) fn bounded(
    rest: &[u8],
    len: u16,
    out: &mut Headers,
    read: impl FnOnce(&[u8], &mut Headers) -> Outcome,
) -> Outcome {
    let len = usize::from(len);
    let payload = rest.get(..len).unwrap_or(rest);
    out.words[CUT] = (len - payload.len()) as u32;
    match read(payload, out) {
        // The capture has all of the payload, so the packet itself is too short.
        Outcome::Truncated if payload.len() == len => Outcome::Malformed,
        outcome => outcome,
    }
}

/// Reads the headers of a PPPoE session (RFC 2516) and of PPP, and the IP packet behind them.
///
/// The length that PPPoE states bounds the packet. `ppp` reads the PPP packet.
pub(super) fn pppoe(
    config: &Config,
    rest: &[u8],
    out: &mut Headers,
    ppp: fn(&Config, &[u8], &mut Headers) -> Outcome,
) -> Outcome {
    const VERSION_AND_TYPE: u8 = 0x11;
    const SESSION_DATA: u8 = 0;
    if rest.first().is_some_and(|&first| first != VERSION_AND_TYPE) {
        return Outcome::Malformed;
    }
    let Some(&[_, code, _, _, a, b]) = rest.first_chunk() else { return Outcome::Truncated };
    if code != SESSION_DATA {
        return Outcome::NotIp;
    }
    bounded(from(rest, 6), be16([a, b]), out, |payload, out| ppp(config, payload, out))
}

/// Reads a PPP packet without framing (RFC 1661).
pub(super) fn ppp(config: &Config, packet: &[u8], out: &mut Headers) -> Outcome {
    match ppp_protocol(packet) {
        None => Outcome::Truncated,
        Some((0x0021, rest)) => ipv4(config, rest, out),
        Some((0x0057, rest)) => ipv6(config, rest, out),
        Some(_) => Outcome::NotIp,
    }
}

/// Reads ARP as OpenFlow 1.0 does; for all other fields ARP is not IP.
///
/// The low byte of the operation is the protocol. ARP for IPv4 has its protocol addresses as the IPv4 addresses.
pub(super) fn arp(packet: &[u8], out: &mut Headers) {
    const OPERATION: SourceSet = SourceSet::of(&[Source::IpProto]);
    const FOR_IPV4: [u8; 2] = [0x08, 0x00];
    out.absent = out.absent.union(SourceSet::OPENFLOW.minus(OPERATION).minus(IPV4_ADDRESSES));
    let Some(&[_, _, kind_high, kind_low, hardware, protocol, _, operation]) = packet.first_chunk() else { return };
    out.words[NET] = operation.into();
    out.present = out.present.union(OPERATION);
    if [kind_high, kind_low] != FOR_IPV4 || protocol != 4 {
        out.absent = out.absent.union(IPV4_ADDRESSES);
        return;
    }
    let hardware = usize::from(hardware);
    let addresses = [(Source::Ipv4Src, SRC, 8 + hardware), (Source::Ipv4Dst, DST, 12 + 2 * hardware)];
    for (source, first, at) in addresses {
        if let Some(address) = from(packet, at).first_chunk() {
            out.words[first + 3] = u32::from_be_bytes(*address);
            out.present = out.present.union(SourceSet::of(&[source]));
        }
    }
}
