//! Frames in a block of a receive ring.

use std::ffi::c_int;
use std::mem::offset_of;

use libc::{tpacket_block_desc, tpacket_hdr_v1, tpacket_hdr_variant1, tpacket3_hdr};

use crate::path::Frame;

/// Offset of the header of the first version within a block's own.
const HEADER: usize = offset_of!(tpacket_block_desc, hdr);
/// Offset of the word that says whom a block belongs to.
pub(super) const STATUS: usize = HEADER + offset_of!(tpacket_hdr_v1, block_status);
/// Bytes before each frame for a VLAN tag that is put back.
pub(super) const RESERVED: c_int = 16;
/// Bytes of the header that says what a frame's sender has left to do (`virtio_net_hdr`).
pub(super) const VNET_HEADER: usize = 10;
/// Bytes of a VLAN tag: its type and its value.
const TAG: usize = 4;
/// Bytes of the two addresses before the tag.
const ADDRESSES: usize = 12;
/// Type of a VLAN tag where the kernel states none.
const TAG_TYPE: u16 = 0x8100;

/// Finds the frames of a block, and puts the VLAN tags that the kernel took out of them back.
///
/// For example, a frame at 98 whose tag was taken out begins at 94 afterwards: its two addresses have moved down by 4
/// bytes, and the tag stands behind them. The kernel leaves these bytes free.
///
/// Before each frame stand `header_of_frame` bytes about it, which move along: 0 or [`VNET_HEADER`].
pub(super) fn find(block: &mut [u8], header_of_frame: usize, frames: &mut Vec<Frame>) {
    frames.clear();
    let header = |field: usize| word(block, HEADER + field);
    let Some(count) = header(offset_of!(tpacket_hdr_v1, num_pkts)) else { return };
    let Some(mut at) = header(offset_of!(tpacket_hdr_v1, offset_to_first_pkt)).map(|at| at as usize) else { return };
    for _ in 0..count {
        // The kernel writes these; were one wrong, the rest of the block would count as lost.
        let Some((frame, next)) = one(block, at, header_of_frame) else { return };
        frames.push(frame);
        at += next;
    }
}

/// Returns the frame whose header begins at a place, and the distance of the next header.
fn one(block: &mut [u8], at: usize, header: usize) -> Option<(Frame, usize)> {
    const VARIANT: usize = offset_of!(tpacket3_hdr, hv1);
    let field = |field: usize| word(block, at + field);
    let status = field(offset_of!(tpacket3_hdr, tp_status))?;
    let (captured, bytes) =
        (field(offset_of!(tpacket3_hdr, tp_snaplen))? as usize, field(offset_of!(tpacket3_hdr, tp_len))?);
    let time = (field(offset_of!(tpacket3_hdr, tp_sec))?, field(offset_of!(tpacket3_hdr, tp_nsec))?);
    let next = field(offset_of!(tpacket3_hdr, tp_next_offset))? as usize;
    let tag = field(VARIANT + offset_of!(tpacket_hdr_variant1, tp_vlan_tci))? as u16;
    let tag_type = half(block, at + VARIANT + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid))?;
    let start = at + usize::from(half(block, at + offset_of!(tpacket3_hdr, tp_mac))?);
    let mut frame = Frame {
        range: start..start.checked_add(captured)?,
        bytes,
        is_unfinished: status & libc::TP_STATUS_CSUMNOTREADY != 0,
        time,
    };
    block.get(frame.range.clone())?;
    if let Some(tag) = Tag::of(status, tag, tag_type) {
        tag.put_back(block, &mut frame, header);
    }
    Some((frame, next))
}

/// VLAN tag that the kernel took out of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    kind: u16,
    value: u16,
}

impl Tag {
    /// Returns the tag of a frame by its status, if it has one.
    pub(super) fn of(status: u32, value: u16, kind: u16) -> Option<Self> {
        let has = |bit| status & bit != 0;
        let kind = if has(libc::TP_STATUS_VLAN_TPID_VALID) { kind } else { TAG_TYPE };
        has(libc::TP_STATUS_VLAN_VALID).then_some(Self { kind, value })
    }

    /// Puts the tag back into a frame of `memory`, before which stand `header` bytes about it.
    pub(super) fn put_back(self, memory: &mut [u8], frame: &mut Frame, header: usize) {
        let start = frame.range.start;
        let (true, Some(to)) = (frame.range.len() >= ADDRESSES, start.checked_sub(header + TAG)) else { return };
        memory.copy_within(start - header..start + ADDRESSES, to);
        let tag = &mut memory[start + ADDRESSES - TAG..start + ADDRESSES];
        tag[..2].copy_from_slice(&self.kind.to_be_bytes());
        tag[2..].copy_from_slice(&self.value.to_be_bytes());
        if header == VNET_HEADER {
            lengthen(&mut memory[to..to + VNET_HEADER]);
        }
        (frame.range.start, frame.bytes) = (start - TAG, frame.bytes + TAG as u32);
    }
}

/// Makes a header true for a frame that has a tag more: its headers are longer, and its checksum begins later.
fn lengthen(header: &mut [u8]) {
    const FLAGS: usize = 0;
    const NEEDS_CHECKSUM: u8 = 1;
    const LENGTH: usize = 2;
    const CHECKSUM: usize = 6;
    let is_partial = header[FLAGS] & NEEDS_CHECKSUM != 0;
    let mut add = |at: usize| {
        let value = u16::from_ne_bytes([header[at], header[at + 1]]).wrapping_add(TAG as u16);
        header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    };
    add(LENGTH);
    if is_partial {
        add(CHECKSUM);
    }
}

fn word(block: &[u8], at: usize) -> Option<u32> {
    block.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn half(block: &[u8], at: usize) -> Option<u16> {
    block.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a block of frames, each with its length on the wire, its status and its tag, as the kernel writes them.
    fn block(frames: &[(&[u8], u32, u32, u16)]) -> Vec<u8> {
        let mut block = vec![0; 64];
        put(&mut block, HEADER + offset_of!(tpacket_hdr_v1, num_pkts), frames.len() as u32);
        put(&mut block, HEADER + offset_of!(tpacket_hdr_v1, offset_to_first_pkt), 64);
        for &(data, bytes, status, tag) in frames {
            let mut one = vec![0xEE; 98];
            one.extend(data);
            one.resize(one.len().next_multiple_of(16), 0xEE);
            let next = one.len() as u32;
            for (field, value) in [
                (offset_of!(tpacket3_hdr, tp_next_offset), next),
                (offset_of!(tpacket3_hdr, tp_sec), 7),
                (offset_of!(tpacket3_hdr, tp_nsec), 9),
                (offset_of!(tpacket3_hdr, tp_snaplen), data.len() as u32),
                (offset_of!(tpacket3_hdr, tp_len), bytes),
                (offset_of!(tpacket3_hdr, tp_status), status),
                (offset_of!(tpacket3_hdr, hv1) + offset_of!(tpacket_hdr_variant1, tp_vlan_tci), tag.into()),
            ] {
                put(&mut one, field, value);
            }
            one[offset_of!(tpacket3_hdr, tp_mac)..][..2].copy_from_slice(&98u16.to_ne_bytes());
            one[offset_of!(tpacket3_hdr, hv1) + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid)..][..2]
                .copy_from_slice(&0x88A8u16.to_ne_bytes());
            block.extend(one);
        }
        block
    }

    fn put(block: &mut [u8], at: usize, value: u32) {
        block[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// Tags stand where they were on the wire, whether or not the kernel states their type; the rest stays as it is.
    #[test]
    fn tags_come_back_and_cut_frames_are_known() {
        let data: Vec<u8> = (0..60).collect();
        let (tagged, typed) =
            (libc::TP_STATUS_VLAN_VALID, libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID);
        let mut bytes = block(&[
            (&data, 60, 1, 0),
            (&data, 60, tagged | libc::TP_STATUS_CSUMNOTREADY, 42),
            (&data[..40], 60, typed, 0xE007),
            (&data[..8], 60, tagged, 42),
        ]);
        let mut frames = Vec::new();
        find(&mut bytes, 0, &mut frames);
        let all: Vec<_> = frames.iter().map(|frame| bytes[frame.range.clone()].to_vec()).collect();
        let with = |tag: [u8; 4], end: usize| [&data[..12], &tag, &data[12..end]].concat();
        assert_eq!(
            all,
            [data.clone(), with([0x81, 0, 0, 42], 60), with([0x88, 0xA8, 0xE0, 7], 40), data[..8].to_vec()]
        );
        assert_eq!(frames.iter().map(|frame| frame.bytes).collect::<Vec<_>>(), [60, 64, 64, 60]);
        assert_eq!(frames.iter().map(Frame::is_cut).collect::<Vec<_>>(), [false, false, true, true]);
        assert_eq!(frames.iter().map(|frame| frame.is_unfinished).collect::<Vec<_>>(), [false, true, false, false]);
        assert_eq!(frames[0].time, (7, 9));
    }

    /// The header before a tagged frame moves along, and counts the tag where it counts headers.
    #[test]
    fn headers_before_frames_move_along() {
        let data: Vec<u8> = (0..60).collect();
        for (flags, checksum) in [(0u8, 34u16), (1, 38)] {
            let mut bytes = block(&[(&data, 60, libc::TP_STATUS_VLAN_VALID, 42)]);
            let fields = [54u16, 1448, 34, 16].map(u16::to_ne_bytes).concat();
            let at = 64 + 98 - VNET_HEADER;
            bytes[at..at + 2].copy_from_slice(&[flags, 1]);
            bytes[at + 2..at + 10].copy_from_slice(&fields);
            let mut frames = Vec::new();
            find(&mut bytes, VNET_HEADER, &mut frames);
            let start = frames[0].range.start;
            assert_eq!((start, frames[0].bytes), (64 + 94, 64));
            let header = [&[flags, 1][..], &[58u16, 1448, checksum, 16].map(u16::to_ne_bytes).concat()].concat();
            assert_eq!(bytes[start - VNET_HEADER..start], header);
            assert_eq!(bytes[start..start + 16], [&data[..12], &[0x81, 0, 0, 42]].concat());
        }
    }

    /// Wrong numbers in headers lead nowhere outside the block.
    #[test]
    fn wrong_headers_end_the_block() {
        let data = [1; 60];
        let good = block(&[(&data, 60, 1, 0), (&data, 60, 1, 0)]);
        let mut frames = Vec::new();
        for at in (0..good.len() - 4).step_by(2) {
            for wrong in [0, 1, 0xFFFF_FFFF, 0x7FFF_FFFF, 300] {
                let mut bytes = good.clone();
                put(&mut bytes, at, wrong);
                if at == HEADER + offset_of!(tpacket_hdr_v1, num_pkts) && wrong > 1000 {
                    continue;
                }
                find(&mut bytes, 0, &mut frames);
                assert!(frames.iter().all(|frame| frame.range.end <= bytes.len()));
            }
        }
        find(&mut [], 0, &mut frames);
        assert!(frames.is_empty());
    }
}
