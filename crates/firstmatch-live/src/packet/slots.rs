//! A receive ring of TPACKET_V2, whose frames are sent on: a slot for each frame, handed over at once.
#![expect(unsafe_code, reason = "memory that is shared with the kernel")]

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::tpacket2_hdr;

use super::block::{RESERVED, Tag};
use super::memory::Memory;
use super::ring::SocketMeter;
use super::send::Sender;
use super::socket::{KeptOut, Socket};
use crate::Interface;
use crate::path::{BATCH, Frame, FrameSender, Meter, Path, Sent};

/// Bytes of the memory that the kernel takes at once; a slot does not cross its end.
const BLOCK: usize = 256 << 10;
/// Bytes of a slot that are no part of the frame, at most: the kernel's header, an address and the reserve.
const OVERHEAD: usize = 128;
/// Bytes of the header of Ethernet, with two tags.
const ETHERNET: usize = 22;
/// Bytes that a slot's size is a multiple of.
const SLOT: usize = 2 << 10;

/// Path from one interface to another. A frame is sent from the slot that it was received in.
///
/// # Invariants
/// - `next` is below the number of slots, and `frames.len()` at most that number.
/// - A slot whose status has the bit TP_STATUS_USER belongs to this program, and the kernel leaves it alone until the
///   status is 0 again. The `frames.len()` slots before `next` belong to this program, one for each frame, which is
///   within its slot.
#[derive(Debug)]
pub struct Slots {
    name: String,
    meter: Arc<SocketMeter>,
    sender: Arc<Sender>,
    memory: Memory,
    /// Bytes of a slot.
    slot: usize,
    kept_out: KeptOut,
    next: usize,
    frames: Vec<Frame>,
}

impl Slots {
    /// Opens paths, each with a ring of `mib` MiB. No frame comes in before [`Path::start`].
    ///
    /// A slot has room for a packet of the first interface's MTU with two VLAN tags. A longer frame is cut, and never
    /// sent on.
    ///
    /// # Errors
    /// If the process lacks the capability CAP_NET_RAW, an interface is gone, or there is not enough memory.
    pub fn open(from: &Interface, to: &Interface, mib: usize, paths: usize) -> io::Result<Vec<Self>> {
        let slot = (from.mtu()? + ETHERNET + OVERHEAD).next_multiple_of(SLOT).min(BLOCK);
        let (mut opened, mut group) = (Vec::with_capacity(paths), None);
        for _ in 0..paths {
            let path = Self::open_one(from, to, mib, slot, paths > 1)?;
            if paths > 1 {
                group = Some(path.meter.socket.join(group)?);
            }
            opened.push(path);
        }
        Ok(opened)
    }

    fn open_one(from: &Interface, to: &Interface, mib: usize, slot: usize, is_grouped: bool) -> io::Result<Self> {
        let (socket, packet) = (Socket::open()?, libc::SOL_PACKET);
        socket.set(packet, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as c_int))?;
        socket.set(packet, libc::PACKET_RESERVE, &RESERVED)?;
        socket.set(packet, libc::PACKET_IGNORE_OUTGOING, &1)?;
        let blocks = (mib << 20) / BLOCK;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: (blocks * (BLOCK / slot)) as u32,
        };
        socket.set(packet, libc::PACKET_RX_RING, &request)?;
        let memory = Memory::map(&socket, blocks * BLOCK)?;
        socket.keep_out(KeptOut::All)?;
        socket.bind(from.index(), true)?;
        socket.receive_all(from.index())?;
        let (name, meter) = (from.name().to_owned(), Arc::new(SocketMeter::new(socket)));
        let kept_out = if is_grouped { KeptOut::Outgoing } else { KeptOut::None };
        let (sender, frames) = (Arc::new(Sender::open(to, false)?), Vec::with_capacity(BATCH));
        Ok(Self { name, meter, sender, memory, slot, kept_out, next: 0, frames })
    }

    fn socket(&self) -> &Socket {
        &self.meter.socket
    }

    fn slots(&self) -> usize {
        self.memory.size() / BLOCK * (BLOCK / self.slot)
    }

    /// Returns the place of a slot in the memory.
    fn place(&self, slot: usize) -> Range<usize> {
        let in_block = BLOCK / self.slot;
        let start = slot / in_block * BLOCK + slot % in_block * self.slot;
        start..start + self.slot
    }

    /// Returns the slot of a frame that is taken, by the frame's number.
    fn slot_of(&self, number: usize) -> usize {
        let slots = self.slots();
        (self.next + slots - self.frames.len() + number) % slots
    }

    /// Takes the next slot, if the kernel has handed it over.
    fn take_one(&mut self) -> bool {
        let place = self.place(self.next);
        if self.memory.word(place.start).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the slot is ours by its status, and the ring is borrowed as mutable, so there is no slice of it.
        let slot = unsafe { self.memory.bytes_mut(place.clone()) };
        let mut frame = read(slot);
        frame.range = frame.range.start + place.start..frame.range.end + place.start;
        self.frames.push(frame);
        self.next = (self.next + 1) % self.slots();
        true
    }
}

/// Reads the frame of a slot, and puts the VLAN tag that the kernel took out of it back.
fn read(slot: &mut [u8]) -> Frame {
    let word = |field: usize| slot[field..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let half = |field: usize| slot[field..].first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
    let status = word(offset_of!(tpacket2_hdr, tp_status));
    let start = usize::from(half(offset_of!(tpacket2_hdr, tp_mac)));
    let captured = word(offset_of!(tpacket2_hdr, tp_snaplen)) as usize;
    let mut frame = Frame {
        range: start..start + captured,
        bytes: word(offset_of!(tpacket2_hdr, tp_len)),
        is_unfinished: status & libc::TP_STATUS_CSUMNOTREADY != 0,
        time: (word(offset_of!(tpacket2_hdr, tp_sec)), word(offset_of!(tpacket2_hdr, tp_nsec))),
    };
    let tag =
        Tag::of(status, half(offset_of!(tpacket2_hdr, tp_vlan_tci)), half(offset_of!(tpacket2_hdr, tp_vlan_tpid)));
    if start < size_of::<tpacket2_hdr>() || slot.get(frame.range.clone()).is_none() {
        // The kernel writes these; were one wrong, the frame would be one of which nothing is known.
        frame.range = 0..0;
    } else if let Some(tag) = tag {
        tag.put_back(slot, &mut frame, 0);
    }
    frame
}

impl Path for Slots {
    fn interface(&self) -> &str {
        &self.name
    }

    fn start(&self) -> io::Result<()> {
        self.socket().keep_out(self.kept_out)
    }

    fn stop(&self) -> io::Result<()> {
        self.socket().keep_out(KeptOut::All)
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }

    fn take(&mut self) -> bool {
        let most = BATCH.min(self.slots());
        while self.frames.len() < most && self.take_one() {}
        !self.frames.is_empty()
    }

    fn frames(&self) -> &[Frame] {
        &self.frames
    }

    fn bytes(&self, frame: &Frame) -> &[u8] {
        let Range { start, end } = frame.range;
        if start == end {
            return &[];
        }
        let slot = start / BLOCK * (BLOCK / self.slot) + start % BLOCK / self.slot;
        let slots = self.slots();
        let before_next = (self.next + 2 * slots - 1 - slot) % slots;
        assert!(before_next < self.frames.len() && end <= self.place(slot).end, "a frame that is not taken");
        // SAFETY: the slot is ours until `finish`, which takes the path as mutable. Its word is touched there alone.
        unsafe { self.memory.bytes(start..end) }
    }

    fn finish(&mut self, mut passes: impl FnMut(usize, &Frame) -> bool) -> Sent {
        let passing = self.frames.iter().enumerate().filter(|(at, frame)| passes(*at, frame));
        let mut frames = Vec::with_capacity(self.frames.len());
        frames.extend(passing.map(|(_, frame)| IoSlice::new(self.bytes(frame))));
        // The kernel copies the bytes.
        let sent = self.sender.send(&frames);
        for number in 0..self.frames.len() {
            let word = self.place(self.slot_of(number)).start;
            self.memory.word(word).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.frames.clear();
        sent
    }

    fn sender(&self) -> Option<Arc<dyn FrameSender>> {
        Some(Arc::clone(&self.sender) as Arc<dyn FrameSender>)
    }

    fn meter(&self) -> Arc<dyn Meter> {
        Arc::clone(&self.meter) as Arc<dyn Meter>
    }
}
