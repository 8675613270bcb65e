//! Memory of a ring, which the kernel and this program share.
#![expect(unsafe_code, reason = "memory that is shared with the kernel")]

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;
use std::{io, slice};

use super::socket::Socket;

/// Memory of a ring, mapped until it is dropped.
#[derive(Debug)]
pub(super) struct Memory {
    at: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps the ring of a socket, which has `size` bytes.
    pub(super) fn map(socket: &Socket, size: usize) -> io::Result<Self> {
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, socket.as_fd().as_raw_fd());
        // SAFETY: the kernel chooses the place, so nothing is replaced.
        let at = unsafe { libc::mmap(ptr::null_mut(), size, access, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, size })
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the word of the kernel's at an offset, by which a part of the memory changes hands.
    ///
    /// # Panics
    /// If the word is not within the memory, or not aligned.
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.size, "a word at {at} of {} bytes", self.size);
        // SAFETY: the word is aligned and within the memory. A slice that has it is dead by the promise of its caller.
        unsafe { &*self.at.as_ptr().add(at).cast::<AtomicU32>() }
    }

    /// Returns a part of the memory.
    ///
    /// # Safety
    /// The part belongs to this program for as long as the slice lives: the kernel leaves it alone, and neither
    /// [`Memory::word`] nor [`Memory::bytes_mut`] is called for bytes of it.
    ///
    /// # Panics
    /// If the part is not within the memory.
    pub(super) unsafe fn bytes(&self, part: Range<usize>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= self.size, "{part:?} of {} bytes", self.size);
        // SAFETY: the part is within the memory, and the caller promises the rest.
        unsafe { slice::from_raw_parts(self.at.as_ptr().add(part.start), part.len()) }
    }

    /// Returns a part of the memory to be changed.
    ///
    /// # Safety
    /// As for [`Memory::bytes`], and there is no other slice of the part.
    ///
    /// # Panics
    /// If the part is not within the memory.
    pub(super) unsafe fn bytes_mut(&mut self, part: Range<usize>) -> &mut [u8] {
        assert!(part.start <= part.end && part.end <= self.size, "{part:?} of {} bytes", self.size);
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr().add(part.start), part.len()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing borrows it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.size) };
    }
}
