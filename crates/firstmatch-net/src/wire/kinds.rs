//! Kinds of common frames, recognised by a few loads and compares.
//!
//! A kind is known from the ether type, the first bytes of IP and two lengths. No branch depends on the family, a VLAN
//! tag or the protocol, because mixed traffic would mispredict it. With vector instructions, eight frames are
//! recognised side by side.
//!
//! ```text
//! bytes from the ether type on   0  1    2  3      4  5      6  7      8  9       10   11
//! IPv4                           08 00   45 tos    length    id        fragment   ttl  protocol
//! IPv6                           86 dd   6. ..     .. ..     length    next .     .    .
//! ```

use firstmatch_core::raw::{LANES, Lanes, LanesKernel, Level, with_lanes};

use super::ip::is_extension;

/// Number of kinds; the index has one bit for the family, one for a VLAN tag and two for the fields after IP.
pub(super) const KINDS: usize = 16;
/// Index of a frame that is not common.
pub(super) const UNCOMMON: u8 = KINDS as u8;
pub(super) const IPV6_BIT: u8 = 8;
/// Bit for a tag; it equals the length of a tag, too.
pub(super) const TAG_BIT: u8 = 4;
/// Groups of protocols by the fields after IP.
const NOTHING: u8 = 0;
const PORTS_ONLY: u8 = 1;
const PORTS_AND_FLAGS: u8 = 2;
const TYPE_AND_CODE: u8 = 3;
/// A protocol of IPv4 and one of IPv6 for each group.
pub(super) const SAMPLES: [[u8; 2]; 4] = [[47, 59], [17, 17], [6, 6], [1, 58]];
/// Number of bytes after IP that are read, by group of protocols.
const NEEDED: [u8; 4] = [0, 4, 14, 2];
/// Place of the ether type in an untagged frame.
pub(super) const TYPE: usize = 12;
/// Number of bytes from the ether type to the ports of IPv4.
pub(super) const IPV4_BYTES: usize = 26;
/// Number of bytes that every common frame has, with a tag or without.
pub(super) const LEAST: usize = TYPE + 4 + IPV4_BYTES;

/// Ether type, version and header length, in the first four bytes; the first byte is lowest.
const IPV4: [u32; 2] = [0x00ff_ffff, 0x0045_0008];
/// Ether type and version.
const IPV6: [u32; 2] = [0x00f0_ffff, 0x0060_dd86];
/// More fragments or an offset, in the bytes 8 to 11 of IPv4.
const FRAGMENT: u32 = 0xff3f;

/// Bounds of common frames, by family and protocol.
///
/// An entry has the kind without a tag in its lowest byte, and the minimum bytes from the ether type on in the next
/// one. The bits above are a length that the IP header must exceed.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    bounds: Box<[u32; 512]>,
}

impl Kinds {
    /// Returns the kinds of all protocols; `is_kind` says whether a kind has frames.
    pub(super) fn new(is_kind: impl Fn(u8) -> bool) -> Self {
        let bounds = |at: usize| bounds(at >= 256, at as u8, &is_kind);
        Self { bounds: Box::new(std::array::from_fn(bounds)) }
    }

    /// Returns the kind of an Ethernet frame, or [`UNCOMMON`].
    #[inline(always)]
    pub(super) fn of(&self, frame: &[u8]) -> u8 {
        let Some(first) = frame.first_chunk::<LEAST>() else { return UNCOMMON };
        let outer = u16::from_be_bytes([first[TYPE], first[TYPE + 1]]);
        // 0x8100 and 0x9100 differ in one bit.
        let is_tagged = (outer & 0xefff == 0x8100) | (outer == 0x88a8);
        let at = TYPE + 4 * usize::from(is_tagged);
        let word = |at: usize| u32::from_le_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]]);
        let (start, length, behind) = (word(at), word(at + 4), word(at + 8));
        let is_ipv6 = start & IPV6[0] == IPV6[1];
        let is_ipv4 = (start & IPV4[0] == IPV4[1]) & (behind & FRAGMENT == 0);
        let protocol = if is_ipv6 { behind & 0xff } else { behind >> 24 };
        let bounds = self.bounds[usize::from(is_ipv6) * 256 + protocol as usize];
        let stated = ((if is_ipv6 { length >> 16 } else { length }) as u16).swap_bytes();
        let is_whole = (u32::from(stated) > bounds >> 16) & (frame.len() - at >= (bounds >> 8 & 0xff) as usize);
        if (is_ipv4 | is_ipv6) & is_whole { bounds as u8 | (u8::from(is_tagged) * TAG_BIT) } else { UNCOMMON }
    }

    /// Finds the kinds of frames like [`Kinds::of`]; elements without a frame get any kind.
    #[inline(always)]
    pub(super) fn of_all<const N: usize>(&self, level: Level, frames: &[&[u8]], kinds: &mut [u8; N]) {
        const { assert!(N.is_multiple_of(LANES)) };
        if level == Level::Scalar {
            kinds.iter_mut().zip(frames).for_each(|(kind, frame)| *kind = self.of(frame));
        } else {
            with_lanes(level, OfAll { bounds: &self.bounds, frames, kinds: kinds.as_chunks_mut().0 });
        }
    }
}

/// Returns the entry of a protocol.
fn bounds(is_ipv6: bool, protocol: u8, is_kind: &impl Fn(u8) -> bool) -> u32 {
    let group = match protocol {
        6 => PORTS_AND_FLAGS,
        17 | 33 | 132 | 136 => PORTS_ONLY,
        icmp if icmp == SAMPLES[usize::from(TYPE_AND_CODE)][usize::from(is_ipv6)] => TYPE_AND_CODE,
        _ => NOTHING,
    };
    let index = group | if is_ipv6 { IPV6_BIT } else { 0 };
    if is_ipv6 && is_extension(protocol) || !is_kind(index) {
        // No header states a larger length.
        return u32::from(u16::MAX) << 16;
    }
    let needed = NEEDED[usize::from(group)];
    let header = if is_ipv6 { 40 } else { 20 };
    // Words are loads of four bytes. IPv6 states the length after its header, and 0 means that none is stated.
    let stated = if is_ipv6 { u32::from(needed.max(1)) } else { u32::from(needed) + 20 };
    let bytes = 2 + header + u32::from(needed.max(4));
    u32::from(index) | bytes << 8 | (stated - 1) << 16
}

/// Kernel of [`Kinds::of_all`].
struct OfAll<'a, 'f> {
    bounds: &'a [u32; 512],
    frames: &'a [&'f [u8]],
    kinds: &'a mut [[u8; LANES]],
}

impl LanesKernel for OfAll<'_, '_> {
    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        let (eights, rest) = self.frames.as_chunks::<LANES>();
        let (kinds, behind) = self.kinds.split_at_mut(eights.len().min(self.kinds.len()));
        for (frames, kinds) in eights.iter().zip(kinds) {
            *kinds = eight(lanes, self.bounds, frames);
        }
        if let Some(kinds) = behind.first_mut().filter(|_| !rest.is_empty()) {
            let mut frames: [&[u8]; LANES] = [&[]; LANES];
            frames.iter_mut().zip(rest).for_each(|(to, frame)| *to = frame);
            *kinds = eight(lanes, self.bounds, &frames);
        }
    }
}

/// Returns the sixteen bytes from the ether type on, or zeros if the frame is too short to be common.
#[inline(always)]
fn head(frame: &[u8]) -> &[u8; 16] {
    const NONE: &[u8; 16] = &[0; 16];
    frame.first_chunk::<LEAST>().and_then(|first| first[TYPE..].first_chunk()).unwrap_or(NONE)
}

/// Returns the kinds of eight frames.
#[inline(always)]
fn eight<L: Lanes>(lanes: L, bounds: &[u32; 512], frames: &[&[u8]; LANES]) -> [u8; LANES] {
    let heads = frames.map(head);
    // Longer frames are whole as well.
    let left = lanes.words(frames.map(|frame| frame.len().min(0xffff) as u32));
    let [a, b, c, d] = lanes.columns(heads);
    let word = |word: u32| lanes.splat(word);
    let is = |words: L::Words, [mask, value]: [u32; 2]| lanes.equal(lanes.and(words, word(mask)), word(value));

    // 0x8100 and 0x9100 differ in one bit.
    let is_tagged = lanes.or(is(a, [0xffef, 0x0081]), is(a, [0xffff, 0xa888]));
    let untag = |tagged, untagged| lanes.select(is_tagged, tagged, untagged);
    let (start, length, behind) = (untag(b, a), untag(c, b), untag(d, c));
    let left = lanes.sub(left, untag(word(TYPE as u32 + 4), word(TYPE as u32)));

    let is_ipv6 = is(start, IPV6);
    let is_ipv4 = lanes.and(is(start, IPV4), is(behind, [FRAGMENT, 0]));
    let protocol = lanes.select(is_ipv6, lanes.or(lanes.and(behind, word(0xff)), word(256)), lanes.shr::<24>(behind));
    let bounds = lanes.pick(bounds, protocol);
    let stated = lanes.select(is_ipv6, lanes.shr::<16>(length), lanes.and(length, word(0xffff)));
    let stated = lanes.or(lanes.shr::<8>(stated), lanes.shl::<8>(lanes.and(stated, word(0xff))));
    let is_whole = lanes.and(
        lanes.greater(stated, lanes.shr::<16>(bounds)),
        lanes.greater(left, lanes.sub(lanes.and(lanes.shr::<8>(bounds), word(0xff)), word(1))),
    );
    let is_common = lanes.and(lanes.or(is_ipv4, is_ipv6), is_whole);
    let kind = lanes.or(bounds, lanes.and(is_tagged, word(TAG_BIT.into())));
    lanes.low_bytes(lanes.select(is_common, kind, word(UNCOMMON.into())))
}
