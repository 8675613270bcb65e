//! Headers between the ether type and IP, or in place of IP: MPLS, PPP over Ethernet, ARP.
//!
//! Like the parser's, the functions here are total over slices.

use firstmatch_core::schema::Source;

use super::headers::{DST, MPLS, NET, SRC, SourceSet};
use super::ip::{IPV4_ADDRESSES, be16, from, ipv4, ipv6};
use super::links::ppp_protocol;
use super::{Config, Headers, Outcome};

pub(super) const LABEL: SourceSet = SourceSet::of(&[Source::MplsLabel, Source::MplsTc]);

/// Reads a label stack and the IP packet behind it.
///
/// Only the packet's first nibble shows what a stack carries (RFC 4928). A pseudowire whose payload happens to begin
/// with 4 or 6 is taken for IP, as routers do.
pub(super) fn mpls(config: &Config, mut rest: &[u8], out: &mut Headers) -> Outcome {
    const BOTTOM: u32 = 0x100;
    let mut labels = 0;
    loop {
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
            break;
        }
    }
    match rest.first().map(|first| first >> 4) {
        None => Outcome::Truncated,
        Some(4) => ipv4(config, rest, out),
        Some(6) => ipv6(config, rest, out),
        Some(_) => Outcome::NotIp,
    }
}

/// Reads the headers of a PPPoE session (RFC 2516) and of PPP, and the IP packet behind them.
///
/// The length that PPPoE states bounds the packet, because the bytes after it are padding.
/// `ppp` reads the PPP packet.
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
    let (behind, len) = (from(rest, 6), usize::from(be16([a, b])));
    let payload = behind.get(..len).unwrap_or(behind);
    match ppp(config, payload, out) {
        // The capture has all of the payload, so the packet itself is too short.
        Outcome::Truncated if behind.len() >= len => Outcome::Malformed,
        outcome => outcome,
    }
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

/// Reads ARP as OpenFlow 1.0 does; to everything else ARP is not IP.
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
