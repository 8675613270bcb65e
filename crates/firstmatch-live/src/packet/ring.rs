//! A receive ring of TPACKET_V3: blocks of frames that the kernel fills and this program empties.
#![expect(unsafe_code, reason = "memory that is shared with the kernel")]

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, slice};

use super::block::{self, Frame, STATUS};
use super::socket::{KeptOut, Socket, Statistics};
use crate::Interface;

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
/// Bytes before each frame for a VLAN tag that is put back.
const RESERVED: c_int = 16;
/// Time in milliseconds after which the kernel hands over a block that is not full.
const TIMEOUT: u32 = 10;

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

/// Receive ring of an interface.
///
/// # Invariants
/// - `next` is below the number of blocks.
/// - A block whose status has the bit TP_STATUS_USER belongs to this program, and the kernel leaves it alone until the
///   status is 0 again. [`Ring::take`] reads the status first, and [`Block`] writes it last.
#[derive(Debug)]
pub struct Ring {
    meter: Arc<Meter>,
    memory: Memory,
    /// Frames that are kept out after the start.
    kept_out: KeptOut,
    next: usize,
    frames: Vec<Frame>,
}

/// Socket of a ring with its counts so far, which other threads may read.
#[derive(Debug)]
pub struct Meter {
    socket: Socket,
    all: Mutex<Statistics>,
}

/// Block of frames, which goes back to the kernel when it is dropped.
#[derive(Debug)]
pub struct Block<'r> {
    bytes: &'r mut [u8],
    /// Frames of the block, in order of receipt.
    pub frames: &'r [Frame],
}

impl Ring {
    /// Opens the rings of an interface. No frame comes in before [`Ring::start`].
    ///
    /// # Errors
    /// If the process lacks the capability CAP_NET_RAW, or there is not enough memory.
    pub fn open(interface: &Interface, config: &RingConfig) -> io::Result<Vec<Self>> {
        let mut rings: Vec<Self> = Vec::with_capacity(config.rings);
        let mut group = None;
        for _ in 0..config.rings {
            let ring = Self::open_one(interface, config)?;
            if config.rings > 1 {
                // Without the flag for fragments the kernel would put them together, so that N rings would receive other
                // packets than one. The kernel picks the number of the group, so that two programs share none.
                let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
                let value = group.unwrap_or(0) | ((libc::PACKET_FANOUT_HASH | unique) << 16) as c_int;
                ring.socket().set(libc::SOL_PACKET, libc::PACKET_FANOUT, &value)?;
                let joined: c_int = ring.socket().get(libc::SOL_PACKET, libc::PACKET_FANOUT)?;
                group = Some(joined & 0xFFFF);
            }
            rings.push(ring);
        }
        Ok(rings)
    }

    fn open_one(interface: &Interface, config: &RingConfig) -> io::Result<Self> {
        let socket = Socket::open()?;
        let packet = libc::SOL_PACKET;
        socket.set(packet, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as c_int))?;
        socket.set(packet, libc::PACKET_RESERVE, &RESERVED)?;
        socket.set(packet, libc::PACKET_IGNORE_OUTGOING, &c_int::from(config.direction == Direction::In))?;
        let blocks = (config.mib << 20) / BLOCK;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (blocks * (BLOCK / 2048)) as u32,
            tp_retire_blk_tov: TIMEOUT,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(packet, libc::PACKET_RX_RING, &request)?;
        let memory = Memory::map(&socket, blocks * BLOCK)?;
        socket.keep_out(KeptOut::All)?;
        socket.bind(interface.index(), true)?;
        if config.is_promiscuous {
            let request = libc::packet_mreq {
                mr_ifindex: interface.index() as c_int,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            socket.set(packet, libc::PACKET_ADD_MEMBERSHIP, &request)?;
        }
        let meter = Arc::new(Meter { socket, all: Mutex::default() });
        let is_grouped = config.rings > 1;
        let kept_out = if is_grouped && config.direction == Direction::In { KeptOut::Outgoing } else { KeptOut::None };
        Ok(Self { meter, memory, kept_out, next: 0, frames: Vec::new() })
    }

    /// Lets frames in.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn start(&self) -> io::Result<()> {
        self.socket().keep_out(self.kept_out)
    }

    /// Lets no more frames in. Those in the ring stay there.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn stop(&self) -> io::Result<()> {
        self.socket().keep_out(KeptOut::All)
    }

    /// Returns the socket, which is readable while a block is ready.
    pub fn socket(&self) -> &Socket {
        &self.meter.socket
    }

    /// Returns the counts of the ring, which other threads may read.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Takes the next block, if the kernel has handed it over.
    pub fn take(&mut self) -> Option<Block<'_>> {
        let start = self.next * BLOCK;
        if self.memory.status(start).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next = (self.next + 1) % (self.memory.size / BLOCK);
        // SAFETY: the block is within the memory, and ours by its status. The borrow of the ring ends with the block, so
        // there is one such slice at a time.
        let bytes = unsafe { slice::from_raw_parts_mut(self.memory.at.as_ptr().add(start), BLOCK) };
        block::find(bytes, &mut self.frames);
        Some(Block { bytes, frames: &self.frames })
    }
}

impl Meter {
    /// Returns all counts so far.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn statistics(&self) -> io::Result<Statistics> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(self.socket.take_statistics()?);
        Ok(*all)
    }
}

impl Block<'_> {
    /// Returns the bytes of a frame of this block.
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        &self.bytes[frame.range.clone()]
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        let status = (&raw mut self.bytes[STATUS]).cast::<AtomicU32>();
        // SAFETY: blocks begin at pages, so the word is aligned. The slice is not used after this.
        unsafe { &*status }.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// Memory of a ring, mapped until it is dropped.
#[derive(Debug)]
struct Memory {
    at: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Memory {}

impl Memory {
    fn map(socket: &Socket, size: usize) -> io::Result<Self> {
        use std::os::fd::AsFd;
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, socket.as_fd().as_raw_fd());
        // SAFETY: the kernel chooses the place, so nothing is replaced.
        let at = unsafe { libc::mmap(ptr::null_mut(), size, access, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, size })
    }

    /// Returns the status of the block that begins at an offset.
    fn status(&self, start: usize) -> &AtomicU32 {
        // SAFETY: blocks begin at pages, so the word is aligned, and it is within the memory. No slice of the block is
        // alive, because `Ring::take` borrows the ring for as long as its block lives.
        unsafe { &*self.at.as_ptr().add(start + STATUS).cast::<AtomicU32>() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing borrows it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.size) };
    }
}
