//! One direction of a bridge: frames from the receive ring of one interface to the send ring of the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::memory::{CHUNK, Consumer, Descriptor, Owner, Pool, Producer};
use super::port::{Memory, Port, check_tags};
use super::program::Mode;
use crate::Interface;
use crate::path::{BATCH, Frame, Meter, Path, Sent, Statistics};

/// Maximum number of entries of a send ring.
const SEND: u32 = 1024;
/// Number of frames that the kernel sends in one call.
const KICK: u32 = 32;
/// Number of calls without effect after which frames stay in the send ring.
const TRIES: u32 = 3;

/// Options of a bridge over AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct XdpConfig {
    /// Memory for the frames of each direction in MiB, rounded up to a power of two; a frame takes 2 KiB.
    pub mib: usize,
    /// Whether interfaces may be used that take VLAN tags out of frames; see [`Interface::takes_tags_out`].
    pub allow_tag_offload: bool,
}

impl Default for XdpConfig {
    fn default() -> Self {
        Self { mib: 8, allow_tag_offload: false }
    }
}

/// One direction of a bridge, which receives from one interface and sends to the other.
///
/// Frames that were taken stay where they are until [`Path::finish`] sends them from there, or gives their chunks
/// back. The rings, except the send ring, have room for all chunks, so they are never full.
///
/// # Invariants
/// - Each chunk is the program's, or in one ring; `Pool::pass` checks it whenever one moves.
/// - A chunk is the program's exactly while its frame is in `frames`.
#[derive(Debug)]
pub struct Forwarder {
    name: String,
    from: Arc<Port>,
    /// Keeps the program at the other interface, whose frames would reach the host otherwise.
    _to: Arc<Port>,
    sender: OwnedFd,
    pool: Pool,
    fill: Producer<u64>,
    receive: Consumer<Descriptor>,
    send: Producer<Descriptor>,
    complete: Consumer<u64>,
    meter: Arc<XdpMeter>,
    frames: Vec<Frame>,
    /// Frames in the send ring that were not counted as sent or lost yet.
    uncounted: u32,
    /// Frames among the uncounted ones that the interface has refused.
    refused: u32,
}

/// Counts of one direction.
#[derive(Debug)]
struct XdpMeter {
    port: Arc<Port>,
    taken: AtomicU64,
}

/// Frames that were taken from the receive ring, and those lost before.
///
/// Lost frames found no free chunk, or were longer than 1,792 bytes. Frames that the driver drops before the program runs
/// are not counted, nor those before the start or after the stop.
impl Meter for XdpMeter {
    fn statistics(&self) -> io::Result<Statistics> {
        let mut all = self.port.losses()?;
        all.received = self.taken.load(Ordering::Relaxed) + all.lost;
        Ok(all)
    }
}

impl Forwarder {
    /// Opens a bridge: the direction from `a` to `b`, and that from `b` to `a`.
    ///
    /// From now on the host receives no frame of the interfaces. None is forwarded before [`Path::start`].
    ///
    /// # Errors
    /// If the process lacks one of the capabilities CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_IPC_LOCK, the kernel is
    /// older than Linux 5.10 or has no AF_XDP, or an interface takes out VLAN tags, has several queues, or an XDP program
    /// already.
    pub fn open_pair(a: &Interface, b: &Interface, config: &XdpConfig) -> io::Result<[Self; 2]> {
        let chunks = (config.mib.max(1) << 20).div_ceil(CHUNK).next_power_of_two();
        let size = u32::try_from(chunks).ok().filter(|size| *size <= 1 << 24).ok_or(io::ErrorKind::InvalidInput)?;
        if !config.allow_tag_offload {
            check_tags(a)?;
            check_tags(b)?;
        }
        let (registration, [pool_a, pool_b]) = Pool::pair(chunks)?;
        let (port_a, rings_a) = Port::open(a, Memory::New(&registration), size)?;
        let (port_b, rings_b) = Port::open(b, Memory::Of(&port_a), size)?;
        let (sender_b, send_b) = port_b.sender(b, size.min(SEND))?;
        let (sender_a, send_a) = port_a.sender(a, size.min(SEND))?;
        let (port_a, port_b) = (Arc::new(port_a), Arc::new(port_b));
        let one = |name: &Interface, from: &Arc<Port>, to: &Arc<Port>, sender, pool, fill, receive, send, complete| {
            let name = name.name().to_owned();
            let meter = Arc::new(XdpMeter { port: Arc::clone(from), taken: AtomicU64::new(0) });
            let (from, to, frames) = (Arc::clone(from), Arc::clone(to), Vec::with_capacity(chunks));
            let (uncounted, refused) = (0, 0);
            let mut one = Self {
                name,
                from,
                _to: to,
                sender,
                pool,
                fill,
                receive,
                send,
                complete,
                meter,
                frames,
                uncounted,
                refused,
            };
            for chunk in one.pool.addresses() {
                one.recycle(chunk, Owner::Program);
            }
            one.fill.publish();
            one
        };
        Ok([
            one(a, &port_a, &port_b, sender_b, pool_a, rings_a.fill, rings_a.receive, send_b, rings_b.complete),
            one(b, &port_b, &port_a, sender_a, pool_b, rings_b.fill, rings_b.receive, send_a, rings_a.complete),
        ])
    }

    /// Returns the way in which the interface runs the program.
    pub fn mode(&self) -> Mode {
        self.from.program.mode
    }

    /// Makes the kernel send what is in the send ring, and counts what left it. Returns whether the interface sends.
    ///
    /// In copy mode the kernel sends in this call alone, so the ring's flag that asks for a call is always set. Older
    /// kernels show only at the end of the ring how far they are, hence the number of calls.
    fn kick(&mut self, all: &mut Sent) -> bool {
        self.send.publish();
        let mut tries = TRIES + self.send.waiting() / KICK;
        let mut is_up = true;
        while self.send.waiting() > 0 && tries > 0 && is_up {
            let before = self.send.waiting();
            match send(&self.sender, &[], SendFlags::DONTWAIT) {
                // The interface has refused one frame, which has left the ring.
                Err(Errno::BUSY) => self.refused += 1,
                Err(Errno::NETDOWN | Errno::NXIO) => is_up = false,
                _ => tries -= u32::from(self.send.waiting() == before),
            }
        }
        let left = self.uncounted - self.send.waiting();
        let lost = self.refused.min(left);
        (self.uncounted, self.refused) = (self.uncounted - left, self.refused - lost);
        all.sent += u64::from(left - lost);
        all.lost += u64::from(lost);
        is_up
    }

    /// Takes back chunks of frames that were sent, and gives all free chunks to the receiver.
    fn reclaim(&mut self) {
        let (pool, fill) = (&mut self.pool, &mut self.fill);
        self.complete.drain(usize::MAX, |address| fill.push(pool.pass(address, Owner::Sender, Owner::Receiver)));
        self.fill.publish();
    }

    /// Puts a chunk into the fill ring.
    fn recycle(&mut self, address: u64, from: Owner) {
        self.fill.push(self.pool.pass(address, from, Owner::Receiver));
    }
}

impl Path for Forwarder {
    fn interface(&self) -> &str {
        &self.name
    }

    fn start(&self) -> io::Result<()> {
        self.from.let_in()
    }

    /// A process that has given up root may not do this before Linux 5.19.
    fn stop(&self) -> io::Result<()> {
        Ok(self.from.program.keep_out()?)
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    fn take(&mut self) -> bool {
        self.reclaim();
        if self.frames.is_empty() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let time = (now.as_secs() as u32, now.subsec_nanos());
            let (pool, frames) = (&mut self.pool, &mut self.frames);
            let taken = self.receive.drain(BATCH, |entry| {
                pool.pass(entry.address, Owner::Receiver, Owner::Program);
                let start = entry.address as usize;
                let range = start..start + entry.bytes as usize;
                frames.push(Frame { range, bytes: entry.bytes, is_unfinished: false, time });
            });
            self.meter.taken.fetch_add(taken as u64, Ordering::Relaxed);
        }
        !self.frames.is_empty()
    }

    fn frames(&self) -> &[Frame] {
        &self.frames
    }

    fn bytes(&self, frame: &Frame) -> &[u8] {
        self.pool.bytes(&frame.range)
    }

    /// Frames that the interface does not take at once wait in the send ring, and a later call counts them. If the
    /// interface is down, frames are lost that come when others wait.
    fn finish(&mut self, mut passes: impl FnMut(usize, &Frame) -> bool) -> Sent {
        let mut all = Sent::default();
        let mut can_send = self.kick(&mut all);
        let mut frames = std::mem::take(&mut self.frames);
        for (place, frame) in frames.drain(..).enumerate() {
            let address = frame.range.start as u64;
            if !passes(place, &frame) {
                self.recycle(address, Owner::Program);
                continue;
            }
            can_send = can_send && (self.send.room() > 0 || (self.kick(&mut all) && self.send.room() > 0));
            if can_send {
                self.pool.pass(address, Owner::Program, Owner::Sender);
                self.send.push(Descriptor { address, bytes: frame.bytes, options: 0 });
                self.uncounted += 1;
            } else {
                self.recycle(address, Owner::Program);
                all.lost += 1;
            }
        }
        self.frames = frames;
        self.kick(&mut all);
        self.reclaim();
        all
    }

    fn waiting(&self) -> u64 {
        self.uncounted.into()
    }

    /// While the interface has all chunks, frames are lost until these are taken back, and no frame comes that would say
    /// so.
    fn is_congested(&self) -> bool {
        self.uncounted > 0 || self.pool.count(Owner::Receiver) == 0
    }

    fn meter(&self) -> Arc<dyn Meter> {
        Arc::clone(&self.meter) as Arc<dyn Meter>
    }
}
