//! Reader on a thread of its own, some buffers ahead.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Bytes of a buffer. Smaller ones wake the reading thread more often than it has work.
const BUFFER: usize = 512 << 10;
/// Number of filled buffers that may wait.
const AHEAD: usize = 3;

/// Reader whose bytes another thread reads ahead.
///
/// That thread ends at the end of its reader, at an error, or once the buffers are no longer taken. No thread waits for
/// its end, because its reader may block for ever.
pub(super) struct Ahead {
    filled: Receiver<io::Result<Filled>>,
    to_fill: Sender<Box<[u8]>>,
    current: Option<Filled>,
    at: usize,
}

/// Buffer and the number of its bytes that were read.
struct Filled {
    buffer: Box<[u8]>,
    len: usize,
}

impl Ahead {
    /// Starts a thread that reads from `reader`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn start(reader: Box<dyn Read + Send>) -> io::Result<Self> {
        let (give, filled) = sync_channel(AHEAD);
        let (to_fill, empty) = channel();
        // One more is being filled, and one is being read.
        for _ in 0..AHEAD + 2 {
            // The receiver is there, so nothing is refused.
            let _ = to_fill.send(vec![0; BUFFER].into_boxed_slice());
        }
        thread::Builder::new().name("decompress".to_owned()).spawn(move || read_all(reader, &empty, &give))?;
        Ok(Self { filled, to_fill, current: None, at: 0 })
    }
}

/// Reads everything into empty buffers and hands them on.
fn read_all(mut reader: Box<dyn Read + Send>, empty: &Receiver<Box<[u8]>>, give: &SyncSender<io::Result<Filled>>) {
    while let Ok(mut buffer) = empty.recv() {
        let read = loop {
            match reader.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let is_last = !matches!(read, Ok(1..));
        if give.send(read.map(|len| Filled { buffer, len })).is_err() || is_last {
            return;
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(Filled { buffer, len }) = &self.current {
                let left = buffer.get(self.at..*len).unwrap_or_default();
                if !left.is_empty() {
                    let count = left.len().min(into.len());
                    into[..count].copy_from_slice(&left[..count]);
                    self.at += count;
                    return Ok(count);
                }
            }
            if let Some(Filled { buffer, .. }) = self.current.take() {
                // The thread may have ended, which the next line finds out.
                let _ = self.to_fill.send(buffer);
            }
            match self.filled.recv() {
                Ok(Ok(Filled { len: 0, .. })) | Err(_) => return Ok(0),
                Ok(Ok(filled)) => (self.current, self.at) = (Some(filled), 0),
                Ok(Err(error)) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns the given pieces, one per call, then an error or the end.
    struct Pieces(Vec<Vec<u8>>, Option<io::ErrorKind>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return self.1.take().map_or(Ok(0), |kind| Err(kind.into()));
            }
            let piece = self.0.remove(0);
            into[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn bytes_then_the_error_then_the_end() {
        let pieces: Vec<Vec<u8>> = (0..50).map(|piece: u8| vec![piece; 1 + 1000 * usize::from(piece)]).collect();
        for error in [None, Some(io::ErrorKind::UnexpectedEof)] {
            let mut ahead = Ahead::start(Box::new(Pieces(pieces.clone(), error))).expect("a thread");
            let (mut bytes, mut part) = (Vec::new(), [0; 777]);
            let end = loop {
                match ahead.read(&mut part) {
                    Ok(0) => break None,
                    Ok(count) => bytes.extend_from_slice(&part[..count]),
                    Err(error) => break Some(error.kind()),
                }
            };
            assert!(bytes == pieces.concat() && end == error, "{} bytes, {end:?}", bytes.len());
            assert_eq!(ahead.read(&mut part).expect("the end"), 0);
        }
    }

    /// A thread whose buffers are no longer read ends, although its reader does not.
    #[test]
    fn a_reader_without_end_is_given_up() {
        struct Endless(Sender<()>);
        impl Read for Endless {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                into.fill(7);
                let _ = self.0.send(());
                Ok(into.len())
            }
        }
        let (read, reads) = channel();
        let mut ahead = Ahead::start(Box::new(Endless(read))).expect("a thread");
        assert!(ahead.read(&mut [0; 10]).is_ok_and(|count| count == 10));
        drop(ahead);
        // The iterator ends once the reader is dropped.
        assert!(reads.iter().count() <= AHEAD + 2);
    }
}
