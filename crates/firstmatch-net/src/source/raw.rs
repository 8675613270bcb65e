//! Byte streams: opened, counted, decompressed, and recognised by their first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ahead::Ahead;
use super::gzip::Members;
use super::{Progress, SourceError, Stopped};

/// Number of first bytes by which the format is recognised.
const PREFIX: usize = 1024;
/// Maximum number of nested compressed streams that are undone.
const MAX_NESTING: usize = 4;
/// Largest zstd window accepted, as a power of two: 128 MiB, the zstd program's default.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Format that the first bytes show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Pcap,
    PcapNg,
    Text,
    /// Any other format, with its description.
    Binary(Box<str>),
}

/// Decompressed stream whose format is known.
pub(super) struct Sniffed {
    pub(super) name: Box<str>,
    pub(super) format: Format,
    /// First bytes of the stream; `stream` delivers them again.
    pub(super) prefix: Vec<u8>,
    pub(super) stream: Stream,
    pub(super) progress: Progress,
}

/// Decompressed stream.
pub(super) struct Stream {
    reader: Box<dyn Read + Send>,
    name: Box<str>,
    state: Arc<State>,
    /// Compressions undone, the outermost first.
    layers: Vec<&'static str>,
    /// First fault met. Every later read returns it again, because a decoder may report a wrong checksum once and then
    /// claim a regular end.
    fault: Option<ReadFault>,
}

/// End of the file itself, below all decoders, noted by [`Counted`].
#[derive(Debug, Default)]
struct State {
    failed: AtomicBool,
    stopped: AtomicBool,
    /// Whether bytes that are no gzip follow a gzip stream.
    has_trailer: Arc<AtomicBool>,
}

/// Failure of a read.
#[derive(Clone, Debug)]
pub(super) enum ReadFault {
    /// The file cannot be read, or its compressed stream is damaged.
    Failed(SourceError),
    /// The stream ends before its end mark, or reading was stopped; the text describes it.
    Cut(String),
}

impl Stream {
    /// Reads some bytes into `into` and returns their number, which is 0 only at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, ReadFault> {
        let error = loop {
            match self.reader.read(into) {
                Ok(0) => return self.fault.clone().map_or(Ok(0), Err),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
        };
        let fault = self.fault.clone().unwrap_or_else(|| self.fault_of(&error));
        self.fault = Some(fault.clone());
        Err(fault)
    }

    fn fault_of(&self, error: &io::Error) -> ReadFault {
        if self.state.stopped.load(Ordering::Relaxed) {
            return ReadFault::Cut("reading was stopped".to_owned());
        }
        if self.layers.is_empty() || self.state.failed.load(Ordering::Relaxed) {
            return ReadFault::Failed(SourceError::io(&self.name, "read it", error));
        }
        if self.state.has_trailer.load(Ordering::Relaxed) {
            return ReadFault::Cut("bytes that are no gzip follow the gzip stream".to_owned());
        }
        // The innermost is named first, so the list is reversed.
        let layers: Vec<&str> = self.layers.iter().rev().copied().collect();
        let layers = layers.join(" in ");
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadFault::Cut(format!("the {layers} stream ends before its end mark")),
            _ => {
                let what = format!("the {layers} stream is damaged ({error})");
                ReadFault::Failed(SourceError::stream(&self.name, what))
            }
        }
    }

    /// Decompresses on another thread from now on, if the stream is compressed.
    pub(super) fn decompress_aside(&mut self) -> Result<(), SourceError> {
        if self.layers.is_empty() {
            return Ok(());
        }
        let reader = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        let ahead = Ahead::start(reader);
        self.reader =
            Box::new(ahead.map_err(|error| SourceError::io(&self.name, "start a thread to undo it", &error))?);
        Ok(())
    }

    /// Returns the outermost compression, if there is one.
    pub(super) fn compressed(&self) -> Option<&'static str> {
        self.layers.first().copied()
    }
}

/// Reader that counts bytes and remembers a failure.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
    state: Arc<State>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let result = self.inner.read(into);
        match &result {
            Ok(count) => _ = self.count.fetch_add(*count as u64, Ordering::Relaxed),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => match error.get_ref() {
                Some(why) if why.is::<Stopped>() => self.state.stopped.store(true, Ordering::Relaxed),
                _ => self.state.failed.store(true, Ordering::Relaxed),
            },
        }
        result
    }
}

/// Reader that first returns bytes that were read already.
struct Replay<R> {
    first: Vec<u8>,
    at: usize,
    rest: R,
}

impl<R: Read> Read for Replay<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.first.get(self.at..).unwrap_or_default();
        if left.is_empty() {
            return self.rest.read(into);
        }
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Length in bytes of the checksum that a zstd frame may end with.
const CHECKSUM: usize = 4;

/// Reader that delivers the last [`CHECKSUM`] bytes of a stream in a call of their own.
///
/// The zstd decoder drops everything that it decoded in the call that finds the checksum wrong. To lose no packet, the
/// call that sees the checksum decodes nothing else.
struct ChecksumApart<R> {
    inner: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// Error that ended the stream, if one did. It is reported after the bytes before it.
    error: Option<io::Error>,
}

impl<R: Read> ChecksumApart<R> {
    fn new(inner: R) -> Self {
        Self { inner, buffer: vec![0; 64 << 10], start: 0, end: 0, ended: false, error: None }
    }
}

impl<R: Read> BufRead for ChecksumApart<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while !self.ended && self.end - self.start <= CHECKSUM {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => (self.ended, self.error) = (true, Some(error)),
            }
        }
        if self.start == self.end
            && let Some(error) = self.error.take()
        {
            return Err(error);
        }
        let end = if self.ended { self.end } else { self.end - CHECKSUM };
        Ok(&self.buffer[self.start..end])
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }
}

impl<R: Read> Read for ChecksumApart<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

/// Opens a file, or standard input for `-`.
pub(super) fn open(path: &Path) -> Result<Sniffed, SourceError> {
    if path.as_os_str() == "-" {
        return sniff("standard input", Box::new(io::stdin()), None);
    }
    open_through(path, |file| Ok(Box::new(file)))
}

/// Opens a file and reads its bytes through the reader that `wrap` builds on top.
pub(super) fn open_through(
    path: &Path,
    wrap: impl FnOnce(File) -> io::Result<Box<dyn Read + Send>>,
) -> Result<Sniffed, SourceError> {
    let name = path.display().to_string();
    let error = |error: io::Error| SourceError::io(&name, "open it", &error);
    let file = File::open(path).map_err(error)?;
    let metadata = file.metadata().map_err(error)?;
    if metadata.is_dir() {
        return Err(SourceError::directory(&name));
    }
    sniff(&name, wrap(file).map_err(error)?, metadata.is_file().then_some(metadata.len()))
}

/// Recognises the format of a stream by its first bytes.
///
/// Compressions are undone first, at most [`MAX_NESTING`].
pub(super) fn sniff(name: &str, reader: Box<dyn Read + Send>, total: Option<u64>) -> Result<Sniffed, SourceError> {
    let (count, state) = (Arc::new(AtomicU64::new(0)), Arc::new(State::default()));
    let progress = Progress { read: Arc::clone(&count), total };
    let reader = Box::new(Counted { inner: reader, count, state: Arc::clone(&state) });
    let mut stream = Stream { reader, name: name.into(), state, layers: Vec::new(), fault: None };
    loop {
        let prefix = first_bytes(&mut stream)?;
        if prefix.is_empty() {
            return Err(SourceError::empty(name, stream.compressed()));
        }
        let rest = Replay { first: prefix.clone(), at: 0, rest: stream.reader };
        let how = match prefix.as_slice() {
            [0x1f, 0x8b, 8, ..] => "gzip",
            // A frame, or a skippable frame before one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => "zstd",
            _ => {
                stream.reader = Box::new(rest);
                return Ok(Sniffed { name: name.into(), format: format_of(&prefix), prefix, stream, progress });
            }
        };
        if stream.layers.len() == MAX_NESTING {
            let what = format!("this is {} inside {MAX_NESTING} other compressed streams, the most allowed", how);
            return Err(SourceError::stream(name, what));
        }
        stream.layers.push(how);
        stream.reader = if how == "gzip" {
            Box::new(Members::new(BufReader::with_capacity(64 << 10, rest), Arc::clone(&stream.state.has_trailer)))
        } else {
            let decoder = zstd::Decoder::with_buffer(ChecksumApart::new(rest)).and_then(|mut decoder| {
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Ok(decoder)
            });
            Box::new(decoder.map_err(|error| SourceError::io(name, "start to undo zstd", &error))?)
        };
    }
}

/// Reads the first bytes of a stream, up to [`PREFIX`].
fn first_bytes(stream: &mut Stream) -> Result<Vec<u8>, SourceError> {
    let mut prefix = vec![0; PREFIX];
    let mut len = 0;
    while let Some(room) = prefix.get_mut(len..).filter(|room| !room.is_empty()) {
        match stream.read(room) {
            Ok(0) => break,
            Ok(count) => len += count,
            // The stream keeps the fault for the reads after these bytes.
            Err(_) if len > 0 => break,
            Err(ReadFault::Failed(error)) => return Err(error),
            Err(ReadFault::Cut(what)) => return Err(SourceError::stream(&stream.name, what)),
        }
    }
    prefix.truncate(len);
    Ok(prefix)
}

/// Returns the format that the first bytes of a file show.
pub(super) fn format_of(prefix: &[u8]) -> Format {
    let known = |what: &str| Format::Binary(what.into());
    match prefix {
        [0xd4, 0xc3, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xc3, 0xd4, ..] => Format::Pcap,
        [0x4d, 0x3c, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0x3c, 0x4d, ..] => Format::Pcap,
        [0x34, 0xcd, 0xb2, 0xa1, ..] => Format::Pcap,
        [0xa1, 0xb2, 0xcd, 0x34, ..] => known("a big-endian capture of the modified pcap format, which is not read"),
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => Format::PcapNg,
        [b's', b'n', b'o', b'o', b'p', 0, ..] => known("a snoop capture, which is not read (editcap converts it)"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => known("compressed by xz, which is not undone here"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, ..] => known("compressed by bzip2, which is not undone here"),
        [0x04, 0x22, 0x4d, 0x18, ..] => known("compressed by lz4, which is not undone here"),
        [b'P', b'K', 3, 4, ..] => known("a zip archive"),
        [0x7f, b'E', b'L', b'F', ..] => known("a program (ELF)"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => known("text in UTF-16 (save it as UTF-8)"),
        _ if is_text(prefix) => Format::Text,
        _ => {
            let first: Vec<_> = prefix.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            Format::Binary(format!("binary data of no known kind (it starts with {})", first.join(" ")).into())
        }
    }
}

/// Whether `prefix` looks like text.
///
/// Text may have control characters that are unusual in text, and bytes that are not UTF-8, if they are at most a
/// quarter. Each of them is reported later, by line and column.
fn is_text(prefix: &[u8]) -> bool {
    let printable = |&byte: &u8| byte >= 0x20 && byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c);
    let invalid: usize = prefix.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    let control = prefix.iter().filter(|byte| !printable(byte)).count();
    (invalid + control) * 4 <= prefix.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell() {
        assert_eq!(format_of(b"\x0a\x0d\x0d\x0a"), Format::PcapNg);
        assert_eq!(format_of(b"\xa1\xb2\x3c\x4d"), Format::Pcap);
        assert_eq!(format_of(b"1 2 3\r\n"), Format::Text);
        assert_eq!(format_of("règle".as_bytes()), Format::Text);
        assert_eq!(format_of(b"caf\xe9 noir"), Format::Text);
        // At most one byte in four of text is not UTF-8.
        assert_eq!(format_of(b"abc\xe9"), Format::Text);
        assert!(matches!(format_of(b"ab\xe9"), Format::Binary(_)));
        assert!(matches!(format_of(b"ab\0"), Format::Binary(_)));
        assert_eq!(format_of(b"permit \0\x1b tcp\n"), Format::Text);
        assert!(matches!(format_of(b"a\xe9\0bcd"), Format::Binary(_)));
        assert!(matches!(format_of(b"\xd4\xc3"), Format::Binary(_)));
        assert!(matches!(format_of(b"PK\x03\x04"), Format::Binary(what) if what.contains("zip")));
    }
}
