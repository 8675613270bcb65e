//! A receive ring of TPACKET_V3: blocks of frames that the kernel fills and this program empties.
//!
//! It is right for counting, because the kernel hands over many frames at once. Frames that are sent on come late, but
//! they may be large: a block takes merged frames, which have up to 64 KiB.
#![expect(unsafe_code, reason = "memory that is shared with the kernel")]

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::block::{self, RESERVED, STATUS, VNET_HEADER};
use super::memory::Memory;
use super::send::Sender;
use super::socket::{KeptOut, Socket};
use crate::Interface;
use crate::path::{BATCH, Frame, FrameSender, Meter, Path, Sent, Statistics};

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
/// Time in milliseconds after which the kernel hands over a block that is not full: where frames are counted, and where
/// they are sent on.
const TIMEOUTS: [u32; 2] = [10, 1];

/// Frames that a ring receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Frames that come in from the wire.
    #[default]
    In,
    /// Frames that come in, and those that this host sends.
    Both,
}

/// Options of receive rings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingConfig {
    /// Size of a ring in MiB.
    pub mib: usize,
    /// Frames that are received.
    pub direction: Direction,
    /// Whether frames for other hosts are received, too, which a mirror port has.
    pub is_promiscuous: bool,
    /// Number of rings. The kernel deals out frames by their flow.
    pub rings: usize,
}

impl Default for RingConfig {
    fn default() -> Self {
        Self { mib: 8, direction: Direction::In, is_promiscuous: true, rings: 1 }
    }
}

/// Receive ring of an interface. Its frames are copies, or they are sent on out of another interface.
///
/// # Invariants
/// - `next` is below the number of blocks.
/// - A block whose status has the bit TP_STATUS_USER belongs to this program, and the kernel leaves it alone until the
///   status is 0 again. `Path::take` reads the status first, and writes it after the last frame was finished. While
///   `is_held`, the block before `next` belongs to this program.
/// - The ranges of `frames` are within that block.
#[derive(Debug)]
pub struct Ring {
    name: String,
    meter: Arc<SocketMeter>,
    /// Sender of frames with the headers before them, if they are sent on.
    sender: Option<Arc<Sender>>,
    memory: Memory,
    /// Frames that are kept out after the start.
    kept_out: KeptOut,
    next: usize,
    is_held: bool,
    /// Frames of the block that is held.
    frames: Vec<Frame>,
    /// Places of the frames that are taken and not finished.
    taken: Range<usize>,
}

/// Socket of a ring with its counts so far.
#[derive(Debug)]
pub(super) struct SocketMeter {
    pub(super) socket: Socket,
    all: Mutex<Statistics>,
}

impl Ring {
    /// Opens the rings of an interface, to look at copies of its frames. No frame comes in before [`Path::start`].
    ///
    /// # Errors
    /// If the process lacks the capability CAP_NET_RAW, or there is not enough memory.
    pub fn open(interface: &Interface, config: &RingConfig) -> io::Result<Vec<Self>> {
        Self::open_all(interface, None, config)
    }

    /// Opens paths to another interface, each with a ring of `mib` MiB, for frames that are merged or whose checksums are
    /// unfinished: they are sent on as they are, and the second interface does what the first had left to do.
    ///
    /// # Errors
    /// As for [`Ring::open`].
    pub fn open_to(from: &Interface, to: &Interface, mib: usize, paths: usize) -> io::Result<Vec<Self>> {
        let config = RingConfig { mib, rings: paths, ..RingConfig::default() };
        Self::open_all(from, Some(to), &config)
    }

    fn open_all(interface: &Interface, to: Option<&Interface>, config: &RingConfig) -> io::Result<Vec<Self>> {
        let mut rings: Vec<Self> = Vec::with_capacity(config.rings);
        let mut group = None;
        for _ in 0..config.rings {
            let ring = Self::open_one(interface, to, config)?;
            if config.rings > 1 {
                group = Some(ring.socket().join(group)?);
            }
            rings.push(ring);
        }
        Ok(rings)
    }

    fn open_one(interface: &Interface, to: Option<&Interface>, config: &RingConfig) -> io::Result<Self> {
        let socket = Socket::open()?;
        let packet = libc::SOL_PACKET;
        socket.set(packet, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as c_int))?;
        socket.set(packet, libc::PACKET_RESERVE, &RESERVED)?;
        socket.set(packet, libc::PACKET_IGNORE_OUTGOING, &c_int::from(config.direction == Direction::In))?;
        if to.is_some() {
            socket.use_headers()?;
        }
        let blocks = (config.mib << 20) / BLOCK;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (blocks * (BLOCK / 2048)) as u32,
            tp_retire_blk_tov: TIMEOUTS[usize::from(to.is_some())],
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(packet, libc::PACKET_RX_RING, &request)?;
        let memory = Memory::map(&socket, blocks * BLOCK)?;
        socket.keep_out(KeptOut::All)?;
        socket.bind(interface.index(), true)?;
        if config.is_promiscuous {
            socket.receive_all(interface.index())?;
        }
        let meter = Arc::new(SocketMeter::new(socket));
        let is_grouped = config.rings > 1;
        let kept_out = if is_grouped && config.direction == Direction::In { KeptOut::Outgoing } else { KeptOut::None };
        let name = interface.name().to_owned();
        let sender = to.map(|to| Sender::open(to, true).map(Arc::new)).transpose()?;
        Ok(Self { name, meter, sender, memory, kept_out, next: 0, is_held: false, frames: Vec::new(), taken: 0..0 })
    }

    fn socket(&self) -> &Socket {
        &self.meter.socket
    }

    /// Takes the next block, if the kernel has handed it over.
    fn hold(&mut self) -> bool {
        let start = self.next * BLOCK;
        if self.memory.word(start + STATUS).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        self.next = (self.next + 1) % (self.memory.size() / BLOCK);
        self.is_held = true;
        let header = self.before();
        // SAFETY: the block is ours by its status, and the ring is borrowed as mutable, so there is no slice of it.
        let bytes = unsafe { self.memory.bytes_mut(start..start + BLOCK) };
        block::find(bytes, header, &mut self.frames);
        for frame in &mut self.frames {
            frame.range = frame.range.start + start..frame.range.end + start;
        }
        true
    }

    /// Returns the bytes of the block before `next`.
    fn held(&self) -> Range<usize> {
        let blocks = self.memory.size() / BLOCK;
        let start = (self.next + blocks - 1) % blocks * BLOCK;
        start..start + BLOCK
    }

    /// Returns a part of the block that is held.
    fn part(&self, part: Range<usize>) -> &[u8] {
        let Range { start, end } = part;
        let block = self.held();
        assert!(self.is_held && block.start <= start && end <= block.end, "a frame of another block");
        // SAFETY: the block is ours until it is released, which takes the ring as mutable. Its word is touched there alone.
        unsafe { self.memory.bytes(start..end) }
    }

    /// Gives the block back to the kernel, if there is one.
    fn release(&mut self) {
        if std::mem::take(&mut self.is_held) {
            let word = self.held().start + STATUS;
            self.memory.word(word).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.frames.clear();
        self.taken = 0..0;
    }
}

impl Path for Ring {
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
        while self.taken.end == self.frames.len() {
            self.release();
            if !self.hold() {
                return false;
            }
        }
        self.taken = self.taken.end..self.frames.len().min(self.taken.end + BATCH);
        true
    }

    fn frames(&self) -> &[Frame] {
        &self.frames[self.taken.clone()]
    }

    fn bytes(&self, frame: &Frame) -> &[u8] {
        self.part(frame.range.clone())
    }

    fn finish(&mut self, mut passes: impl FnMut(usize, &Frame) -> bool) -> Sent {
        let mut sent = Sent::default();
        if let Some(sender) = &self.sender {
            let passing = self.frames().iter().enumerate().filter(|(at, frame)| passes(*at, frame));
            let mut frames = Vec::with_capacity(self.taken.len());
            frames.extend(passing.map(|(_, frame)| IoSlice::new(self.whole(frame))));
            // The kernel copies the bytes.
            sent = sender.send(&frames);
        }
        self.taken = self.taken.end..self.taken.end;
        if self.taken.end == self.frames.len() {
            self.release();
        }
        sent
    }

    fn sender(&self) -> Option<Arc<dyn FrameSender>> {
        self.sender.clone().map(|sender| sender as Arc<dyn FrameSender>)
    }

    fn before(&self) -> usize {
        if self.sender.is_some() { VNET_HEADER } else { 0 }
    }

    fn whole(&self, frame: &Frame) -> &[u8] {
        self.part(frame.range.start - self.before()..frame.range.end)
    }

    fn meter(&self) -> Arc<dyn Meter> {
        Arc::clone(&self.meter) as Arc<dyn Meter>
    }
}

impl SocketMeter {
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, all: Mutex::default() }
    }
}

impl Meter for SocketMeter {
    fn statistics(&self) -> io::Result<Statistics> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(self.socket.take_statistics()?);
        Ok(*all)
    }
}
