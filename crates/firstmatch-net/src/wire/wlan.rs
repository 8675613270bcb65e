//! 802.11, bare or after the header of a radio, and 802.2 inside it.
//!
//! Like the functions of the parser, those here are total over slices.

use super::ip::{be16, from};
use super::links::{ETHER_FIRST, Inside};
use super::{LinkType, Outcome};

/// Frame of 802.11, read as far as its payload.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wlan<'f> {
    /// Frame that carries data.
    Data {
        /// Destination and source.
        addresses: [[u8; 6]; 2],
        /// Payload, or the reason why it cannot be read.
        content: Result<&'f [u8], Outcome>,
    },
    /// Frame for the radio network itself: management, control, or data without bytes.
    NoData,
}

/// Reads the header of an 802.11 frame; `is_padded` means that padding up to 4 bytes follows it.
///
/// ```text
/// 0        2         4          10         16         22        24           30   32
/// control  duration  address 1  address 2  address 3  sequence  [address 4]  [QoS]  [HT control]  payload
/// ```
///
/// Encrypted payloads and payloads of several packets (A-MSDU) are not read. A later fragment has none of the headers.
pub(super) fn wlan(frame: &[u8], is_padded: bool) -> Result<Wlan<'_>, Outcome> {
    const DATA: u8 = 2;
    let &[kind, flags] = frame.first_chunk().ok_or(Outcome::Truncated)?;
    let (version, kind, subtype) = (kind & 3, kind >> 2 & 3, kind >> 4);
    if version != 0 {
        return Err(Outcome::Malformed);
    }
    let (has_no_data, has_qos) = (subtype & 4 != 0, subtype & 8 != 0);
    if kind != DATA || has_no_data {
        return Ok(Wlan::NoData);
    }
    let [to_ds, from_ds, is_encrypted, is_ordered] = [0x01, 0x02, 0x40, 0x80].map(|bit| flags & bit != 0);
    let qos_at = if to_ds && from_ds { 30 } else { 24 };
    let len = qos_at + if has_qos { 2 } else { 0 } + if has_qos && is_ordered { 4 } else { 0 };
    let header = frame.get(..len).ok_or(Outcome::Truncated)?;
    let address = |at: usize| from(header, at).first_chunk().copied().unwrap_or_default();
    let addresses = match (to_ds, from_ds) {
        (false, false) => [4, 10],
        (false, true) => [4, 16],
        (true, false) => [16, 10],
        (true, true) => [16, 24],
    };
    let byte = |at: usize| header.get(at).copied().unwrap_or_default();
    let holds_several = has_qos && byte(qos_at) & 0x80 != 0;
    let content = if is_encrypted || holds_several {
        Err(Outcome::NotIp)
    } else if byte(22) & 0x0f != 0 {
        Err(Outcome::Fragment)
    } else {
        Ok(from(frame, if is_padded { len.next_multiple_of(4) } else { len }))
    };
    Ok(Wlan::Data { addresses: addresses.map(address), content })
}

/// Returns the ether type in the header of 802.2 with SNAP, and the packet.
///
/// The type is `None` if the header is cut. Anything but a SNAP header without a vendor's number is [`Inside::NotIp`].
pub(super) fn llc(payload: &[u8]) -> Inside<'_> {
    const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];
    if SNAP.iter().zip(payload).any(|(expected, byte)| expected != byte) {
        return Inside::NotIp;
    }
    match from(payload, SNAP.len()) {
        [high, low, packet @ ..] => match be16([*high, *low]) {
            ..ETHER_FIRST => Inside::NotIp,
            ether_type => Inside::Type(Some(ether_type), packet),
        },
        _ => Inside::Type(None, &[]),
    }
}

/// Returns the frame after a radiotap header, and whether the frame's own header is padded.
///
/// The header has its length, then words whose bits show the values that it holds; the last of them has no bit 31. The
/// first value may be a time of 8 bytes, the next are flags; each is aligned to its size.
pub(super) fn radiotap(frame: &[u8]) -> Result<(&[u8], bool), Outcome> {
    const TIME: u32 = 1;
    const FLAGS: u32 = 2;
    const MORE: u32 = 1 << 31;
    const PADDED: u8 = 0x20;
    let &[version, _, low, high] = frame.first_chunk().ok_or(Outcome::Truncated)?;
    let len = usize::from(u16::from_le_bytes([low, high]));
    if version != 0 || len < 8 {
        return Err(Outcome::Malformed);
    }
    let (header, rest) = frame.split_at_checked(len).ok_or(Outcome::Truncated)?;
    let present = || header.as_chunks::<4>().0.iter().skip(1).map(|word| u32::from_le_bytes(*word));
    let more = present().take_while(|word| word & MORE != 0).count();
    let first = present().next().unwrap_or_default();
    let at = 4 + 4 * (more + 1);
    let at = if first & TIME != 0 { at.next_multiple_of(8) + 8 } else { at };
    let is_padded = first & FLAGS != 0 && header.get(at).is_some_and(|flags| flags & PADDED != 0);
    Ok((rest, is_padded))
}

/// Returns the frame behind a PPI header, and its link type.
pub(super) fn ppi(frame: &[u8]) -> Result<(LinkType, &[u8]), Outcome> {
    let &[version, _, low, high, a, b, c, d] = frame.first_chunk().ok_or(Outcome::Truncated)?;
    let len = usize::from(u16::from_le_bytes([low, high]));
    if version != 0 || len < 8 {
        return Err(Outcome::Malformed);
    }
    let rest = frame.get(len..).ok_or(Outcome::Truncated)?;
    Ok((LinkType::from_number(u32::from_le_bytes([a, b, c, d])), rest))
}
