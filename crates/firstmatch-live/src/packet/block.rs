//! Frames in a block of a receive ring.

use std::mem::offset_of;

use libc::{tpacket_block_desc, tpacket_hdr_v1, tpacket_hdr_variant1, tpacket3_hdr};

use crate::path::Frame;

/// Offset of the header of the first version within a block's own.
const HEADER: usize = offset_of!(tpacket_block_desc, hdr);
/// Offset of the word that says whom a block belongs to.
pub(super) const STATUS: usize = HEADER + offset_of!(tpacket_hdr_v1, block_status);
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
pub(super) fn find(block: &mut [u8], frames: &mut Vec<Frame>) {
    frames.clear();
    let header = |field: usize| word(block, HEADER + field);
    let Some(count) = header(offset_of!(tpacket_hdr_v1, num_pkts)) else { return };
    let Some(mut at) = header(offset_of!(tpacket_hdr_v1, offset_to_first_pkt)).map(|at| at as usize) else { return };
    for _ in 0..count {
        // The kernel writes these; were one wrong, the rest of the block would count as lost.
        let Some((frame, next)) = one(block, at) else { return };
        frames.push(frame);
        at += next;
    }
}

/// Returns the frame whose header begins at a place, and the distance of the next header.
fn one(block: &mut [u8], at: usize) -> Option<(Frame, usize)> {
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
    if status & libc::TP_STATUS_VLAN_VALID != 0 && captured >= ADDRESSES {
        let tag_type = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tag_type } else { TAG_TYPE };
        let start = start.checked_sub(TAG)?;
        block.copy_within(start + TAG..start + TAG + ADDRESSES, start);
        let place = &mut block[start + ADDRESSES..start + ADDRESSES + TAG];
        place[..2].copy_from_slice(&tag_type.to_be_bytes());
        place[2..].copy_from_slice(&tag.to_be_bytes());
        (frame.range.start, frame.bytes) = (start, bytes + TAG as u32);
    }
    Some((frame, next))
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
        find(&mut bytes, &mut frames);
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
                find(&mut bytes, &mut frames);
                assert!(frames.iter().all(|frame| frame.range.end <= bytes.len()));
            }
        }
        find(&mut [], &mut frames);
        assert!(frames.is_empty());
    }
}
