//! Memory that kernel and program share: the chunks for frames, and the four kinds of rings that lend them.
#![expect(unsafe_code, reason = "memory that is shared with the kernel")]

use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{io, slice};

use rustix::net::xdp::{XdpRingOffset, XdpUmemReg, XdpUmemRegFlags};

/// Bytes of a chunk, which holds one frame.
pub(super) const CHUNK: usize = 2048;

/// Side that may use a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// This program.
    Program,
    /// The kernel, for a frame that comes in: from the fill ring to the receive ring.
    Receiver,
    /// The kernel, for a frame that goes out: from the send ring to the completion ring.
    Sender,
}

/// Chunks of one direction.
///
/// # Invariants
/// - The memory of a chunk is read only while its owner is the program ([`Pool::bytes`]).
/// - The kernel gives back only what it has: a chunk changes its owner only from the expected one ([`Pool::pass`]).
#[derive(Debug)]
pub(super) struct Pool {
    memory: Arc<Mapping>,
    /// Offset of the first chunk in the memory.
    first: usize,
    owners: Vec<Owner>,
    /// Number of chunks by owner.
    counts: [usize; 3],
}

impl Pool {
    /// Returns two pools of `chunks` chunks each in one memory, and the memory for the kernel.
    pub(super) fn pair(chunks: usize) -> io::Result<(XdpUmemReg, [Self; 2])> {
        let memory = Arc::new(Mapping::new(None, 2 * chunks * CHUNK)?);
        let registration = XdpUmemReg {
            addr: memory.at.as_ptr().expose_provenance() as u64,
            len: memory.size as u64,
            chunk_size: CHUNK as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        let pool = |first| Self {
            memory: Arc::clone(&memory),
            first,
            owners: vec![Owner::Program; chunks],
            counts: [chunks, 0, 0],
        };
        Ok((registration, [pool(0), pool(chunks * CHUNK)]))
    }

    /// Returns the addresses of all chunks.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        (self.first as u64..).step_by(CHUNK).take(self.owners.len())
    }

    /// Returns the number of chunks that an owner has.
    pub(super) fn count(&self, owner: Owner) -> usize {
        self.counts[owner as usize]
    }

    /// Passes the chunk around an address to another owner, and returns the chunk's own address.
    ///
    /// # Panics
    /// If it is no chunk of this pool, or `from` does not have it.
    pub(super) fn pass(&mut self, address: u64, from: Owner, to: Owner) -> u64 {
        let owner = &mut self.owners[(address as usize).wrapping_sub(self.first) / CHUNK];
        assert_eq!(*owner, from, "owner of the chunk at {address}");
        *owner = to;
        self.counts[from as usize] -= 1;
        self.counts[to as usize] += 1;
        address - address % CHUNK as u64
    }

    /// Returns bytes of a chunk that this program owns.
    ///
    /// # Panics
    /// If they are not in one chunk, or the chunk belongs to the kernel.
    pub(super) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        let chunk = range.start.wrapping_sub(self.first) / CHUNK;
        assert!(
            range.start <= range.end && range.end <= self.first + (chunk + 1) * CHUNK,
            "bytes {range:?} of a chunk"
        );
        assert_eq!(self.owners[chunk], Owner::Program, "owner of the bytes {range:?}");
        // SAFETY: the range is within one chunk of this pool, so within the memory. The kernel does not write to a chunk
        // of the program, and it becomes the kernel's again only by `pass`, which borrows the pool alone.
        unsafe { slice::from_raw_parts(self.memory.at.as_ptr().add(range.start), range.len()) }
    }
}

/// Frame in a receive or send ring: `struct xdp_desc`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) options: u32,
}

/// Entries that consist of integers alone.
pub(super) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for Descriptor {}

/// Ring of entries of `T`, mapped from a socket.
///
/// The indices of both sides grow without end and wrap at 32 bits; an entry stands at its index modulo the size.
#[derive(Debug)]
struct Ring<T> {
    memory: Mapping,
    place: XdpRingOffset,
    size: u32,
    /// Index of this side, which the kernel learns when it is stored.
    own: u32,
    entries: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    fn map(socket: BorrowedFd<'_>, offset: u64, size: u32, place: XdpRingOffset) -> io::Result<Self> {
        let bytes = place.desc as usize + size as usize * size_of::<T>();
        let memory = Mapping::new(Some((socket, offset)), bytes)?;
        Ok(Self { memory, place, size, own: 0, entries: PhantomData })
    }

    /// Returns an index of the ring, at one of the kernel's offsets.
    fn index(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel states offsets within its ring, aligned for the index. Both sides use it atomically.
        unsafe { &*self.memory.at.as_ptr().add(offset as usize).cast::<AtomicU32>() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.index(self.place.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.index(self.place.consumer)
    }

    /// Returns the place of an entry, which is aligned and within the memory.
    fn entry(&self, index: u32) -> *mut T {
        let entries = self.memory.at.as_ptr().wrapping_add(self.place.desc as usize).cast::<T>();
        entries.wrapping_add((index & (self.size - 1)) as usize)
    }
}

/// Ring that this program fills: a fill or send ring.
#[derive(Debug)]
pub(super) struct Producer<T>(Ring<T>);

impl<T: Entry> Producer<T> {
    /// Maps a ring of `size` entries, a power of two.
    pub(super) fn map(socket: BorrowedFd<'_>, offset: u64, size: u32, place: XdpRingOffset) -> io::Result<Self> {
        Ring::map(socket, offset, size, place).map(Self)
    }

    /// Returns the number of entries that the kernel has not taken yet.
    pub(super) fn waiting(&self) -> u32 {
        // Acquire: the kernel has read the entries that it took before this program writes others in their place.
        self.0.own.wrapping_sub(self.0.consumer().load(Ordering::Acquire))
    }

    /// Returns the number of entries that fit in.
    pub(super) fn room(&self) -> u32 {
        self.0.size - self.waiting()
    }

    /// Writes an entry, which the kernel sees after [`Producer::publish`].
    ///
    /// # Panics
    /// If the ring is full.
    pub(super) fn push(&mut self, entry: T) {
        assert!(self.room() > 0, "a full ring of {} entries", self.0.size);
        // SAFETY: the place is aligned and within the memory. The kernel reads it after the index was stored.
        unsafe { self.0.entry(self.0.own).write(entry) };
        self.0.own = self.0.own.wrapping_add(1);
    }

    /// Shows the kernel all entries that were written.
    pub(super) fn publish(&mut self) {
        // Release: the kernel reads the entries after it has read this index.
        self.0.producer().store(self.0.own, Ordering::Release);
    }
}

/// Ring that the kernel fills: a receive or completion ring.
#[derive(Debug)]
pub(super) struct Consumer<T>(Ring<T>);

impl<T: Entry> Consumer<T> {
    /// Maps a ring of `size` entries, a power of two.
    pub(super) fn map(socket: BorrowedFd<'_>, offset: u64, size: u32, place: XdpRingOffset) -> io::Result<Self> {
        Ring::map(socket, offset, size, place).map(Self)
    }

    /// Takes the oldest entries, at most `most`, and returns their number.
    pub(super) fn drain(&mut self, most: usize, mut each: impl FnMut(T)) -> usize {
        // Acquire: the kernel has written the entries, and the frames that they name, before this index.
        let ready = self.0.producer().load(Ordering::Acquire).wrapping_sub(self.0.own) as usize;
        let count = ready.min(most);
        for _ in 0..count {
            // SAFETY: the place is aligned and within the memory. The kernel has written the entry, and leaves it alone
            // until the index below says that it was read.
            each(unsafe { self.0.entry(self.0.own).read() });
            self.0.own = self.0.own.wrapping_add(1);
        }
        if count > 0 {
            // Release: the entries were read before the kernel writes others in their place.
            self.0.consumer().store(self.0.own, Ordering::Release);
        }
        count
    }
}

/// Pages that are mapped until this is dropped.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives out its address and size alone; those that use it say why they may.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a ring of a socket, or new pages.
    fn new(ring: Option<(BorrowedFd<'_>, u64)>, size: usize) -> io::Result<Self> {
        let (flags, fd, offset) = match ring {
            Some((socket, offset)) => (libc::MAP_SHARED, socket.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses the place, so nothing is replaced.
        let at = unsafe { libc::mmap64(ptr::null_mut(), size, access, flags, fd, offset as libc::off64_t) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, size })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing borrows it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.size) };
    }
}
