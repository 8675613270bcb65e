//! Buffer that slides over a stream.

use super::SourceError;
use super::raw::{ReadFault, Stream};

/// Bytes of a stream from [`Window::offset`] on, at least as many as were asked for.
pub(super) struct Window {
    stream: Stream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of `buffer[start]`.
    offset: u64,
    ended: bool,
    /// Reason why the stream ended too early.
    fault: Option<String>,
    /// Whether bytes of the buffer that were already consumed are still needed.
    is_held: bool,
    /// Buffers before this one that are still needed.
    held: Vec<Vec<u8>>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
}

/// Minimum free room in bytes for a read.
const CHUNK: usize = 64 << 10;
/// Maximum number of buffers kept for reuse, 8 MiB.
const MOST_SPARE: usize = 64;

impl Window {
    pub(super) fn new(stream: Stream) -> Self {
        let buffer = vec![0; 2 * CHUNK];
        Self {
            stream,
            buffer,
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
            fault: None,
            is_held: false,
            held: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Decompresses the stream on another thread, if it is compressed.
    pub(super) fn decompress_aside(&mut self) -> Result<(), SourceError> {
        self.stream.decompress_aside()
    }

    /// Holds the buffer until [`Window::release`], and returns its index there.
    ///
    /// Bytes at a [`Window::place`] in it then stay where they are, whatever is read.
    #[inline]
    pub(super) fn hold(&mut self) -> usize {
        self.is_held = true;
        self.held.len()
    }

    /// Takes buffers of an earlier [`Window::release`] for reuse.
    pub(super) fn reuse(&mut self, buffers: Vec<Vec<u8>>) {
        self.spare.extend(buffers.into_iter().filter(|buffer| buffer.len() == 2 * CHUNK));
        self.spare.truncate(MOST_SPARE);
    }

    /// Returns the held buffers, in order, and holds none any more.
    pub(super) fn release(&mut self) -> Vec<Vec<u8>> {
        self.next_buffer();
        std::mem::take(&mut self.held)
    }

    /// Continues in another buffer with the bytes at hand, if this one is held.
    fn next_buffer(&mut self) {
        if !self.is_held {
            return;
        }
        let len = self.end - self.start;
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(buffer.len().max(2 * CHUNK).max(len), 0);
        buffer[..len].copy_from_slice(&self.buffer[self.start..self.end]);
        self.held.push(std::mem::replace(&mut self.buffer, buffer));
        (self.is_held, self.start, self.end) = (false, 0, len);
    }

    /// Returns the offset in the stream at which the window begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the reason why the stream ended too early, if it did.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns the bytes at hand.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns the bytes `start..end` of the buffer, counted as [`Window::place`] counts them.
    ///
    /// They may have been consumed since.
    #[inline]
    pub(super) fn at(&self, start: usize, end: usize) -> &[u8] {
        self.buffer.get(start..end).unwrap_or_default()
    }

    /// Returns the place in the buffer at which the window begins, for [`Window::at`].
    ///
    /// It is valid until more is read.
    #[inline]
    pub(super) fn place(&self) -> usize {
        self.start
    }

    /// Reads until `n` bytes are at hand; returns false if the stream ends before.
    ///
    /// The buffer doubles only when bytes that are really there leave too little room. So a length that a file merely
    /// claims allocates nothing.
    #[inline]
    pub(super) fn need(&mut self, n: usize) -> Result<bool, SourceError> {
        if self.end - self.start >= n { Ok(true) } else { self.read_until(n) }
    }

    #[cold]
    fn read_until(&mut self, n: usize) -> Result<bool, SourceError> {
        while self.end - self.start < n {
            if self.ended {
                return Ok(false);
            }
            if self.buffer.len() - self.end < CHUNK {
                self.next_buffer();
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
                if self.buffer.len() - self.end < CHUNK {
                    self.buffer.resize(self.buffer.len() * 2, 0);
                }
            }
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(ReadFault::Failed(error)) => {
                    self.ended = true;
                    return Err(error);
                }
                Err(ReadFault::Cut(what)) => {
                    self.ended = true;
                    self.fault = Some(what);
                }
            }
        }
        Ok(true)
    }

    /// Consumes `n` bytes that are at hand.
    #[inline]
    pub(super) fn consume(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Skips `n` bytes, at hand or not; returns false if the stream ends before.
    ///
    /// The buffer need not hold all of them at a time.
    pub(super) fn skip(&mut self, mut n: u64) -> Result<bool, SourceError> {
        loop {
            let here = n.min((self.end - self.start) as u64);
            self.consume(here as usize);
            n -= here;
            if n == 0 {
                return Ok(true);
            }
            if !self.need(1)? {
                return Ok(false);
            }
        }
    }
}
