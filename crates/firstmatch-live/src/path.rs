//! Paths of frames: from a receive ring, through the rules, to wherever the path leads.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Maximum number of frames that a path takes at once.
pub const BATCH: usize = 256;

/// Frame in the memory of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes of that memory that are the frame, or the part of it that was captured.
    pub range: std::ops::Range<usize>,
    /// Length on the wire in bytes.
    pub bytes: u32,
    /// Whether the sender has left the checksum to the network card.
    pub is_unfinished: bool,
    /// Time of receipt: seconds since 1970 and nanoseconds.
    pub time: (u32, u32),
}

impl Frame {
    /// Whether a part of the frame was not captured.
    pub fn is_cut(&self) -> bool {
        self.range.len() < self.bytes as usize
    }
}

/// Counts of the kernel for the receipt of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that reached the path, those lost included.
    pub received: u64,
    /// Frames that found the ring full.
    pub lost: u64,
}

impl Statistics {
    /// Adds the counts of another path, or of a later time.
    pub fn add(&mut self, more: Self) {
        self.received += more.received;
        self.lost += more.lost;
    }
}

/// Number of frames that were sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames that the kernel has taken.
    pub sent: u64,
    /// Frames that it has refused, because a queue was full or the interface down.
    pub lost: u64,
}

/// Sender of frames out of an interface, for any thread.
pub trait FrameSender: Send + Sync {
    /// Sends frames in this order, each as [`Path::whole`] returns it.
    fn send(&self, frames: &[IoSlice<'_>]) -> Sent;
}

/// Reader of the counts of a path, for other threads than its own.
pub trait Meter: Send + Sync {
    /// Returns all counts so far. The kernel may count in 32 bits, so this must be called every now and then.
    ///
    /// # Errors
    /// If the system call fails.
    fn statistics(&self) -> io::Result<Statistics>;
}

/// Way of frames on one thread: taken in order of receipt, looked at in place, and given back.
pub trait Path: Send + 'static {
    /// Returns the name of the interface that frames come from.
    fn interface(&self) -> &str;

    /// Lets frames in. No frame is taken before.
    ///
    /// # Errors
    /// If the system call fails.
    fn start(&self) -> io::Result<()>;

    /// Lets no more frames in. Those that were received can still be taken.
    ///
    /// # Errors
    /// If the system call fails.
    fn stop(&self) -> io::Result<()>;

    /// Returns a file that is readable while there are frames.
    fn ready(&self) -> BorrowedFd<'_>;

    /// Takes the next frames, at most [`BATCH`]; returns whether there are any. Those taken before must be
    /// [finished](Self::finish).
    fn take(&mut self) -> bool;

    /// Returns the frames that are taken and not finished, in order of receipt.
    fn frames(&self) -> &[Frame];

    /// Returns the bytes of a frame that is taken and not finished.
    fn bytes(&self, frame: &Frame) -> &[u8];

    /// Sends on the frames that `passes` is true for, by their places in [`frames`](Self::frames), if the path leads to
    /// another interface, and gives back all frames.
    fn finish(&mut self, passes: impl FnMut(usize, &Frame) -> bool) -> Sent;

    /// Returns the number of frames that were sent on and that no [`finish`](Self::finish) has counted yet.
    fn waiting(&self) -> u64 {
        0
    }

    /// Whether [`finish`](Self::finish) is to be called soon though no frame may come.
    fn is_congested(&self) -> bool {
        self.waiting() > 0
    }

    /// Returns a sender to the interface that the path leads to; `None` if it leads nowhere, or frames can only be sent on
    /// from where they are.
    fn sender(&self) -> Option<Arc<dyn FrameSender>> {
        None
    }

    /// Returns the number of bytes before each frame that a sender wants.
    fn before(&self) -> usize {
        0
    }

    /// Returns the bytes of a frame that is taken and not finished, as a sender wants them.
    fn whole(&self, frame: &Frame) -> &[u8] {
        self.bytes(frame)
    }

    /// Returns the counts of the kernel, which other threads may read.
    fn meter(&self) -> Arc<dyn Meter>;
}
