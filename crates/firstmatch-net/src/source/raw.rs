//! Bytes: opened, counted, decompressed, and looked at.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use super::{Progress, SourceError};

/// How many first bytes are looked at.
const PREFIX: usize = 1024;
/// How often a compressed stream may hold another.
const MAX_NESTING: usize = 4;
/// The largest zstd window accepted, as a power of two: 128 MiB, what the zstd program accepts unasked.
const ZSTD_WINDOW_LOG: u32 = 27;

/// What the first bytes say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Pcap,
    PcapNg,
    Text,
    /// Something else, in words.
    Binary(Box<str>),
}

/// A decompressed stream whose beginning is known.
pub(super) struct Sniffed {
    pub(super) name: Box<str>,
    pub(super) format: Format,
    /// The first bytes; they come again from `stream`.
    pub(super) prefix: Vec<u8>,
    pub(super) stream: Stream,
    pub(super) progress: Progress,
}

/// A decompressed stream.
pub(super) struct Stream {
    reader: Box<dyn Read + Send>,
    name: Box<str>,
    /// Set when it was the file that failed, not what is stored in it.
    failed: Arc<AtomicBool>,
    /// The compressions undone, the outermost first.
    layers: Vec<&'static str>,
}

/// How a read can fail.
pub(super) enum ReadFault {
    /// The file cannot be read.
    File(SourceError),
    /// The file can be read, but its compressed stream is cut or damaged; in words.
    Stream(String),
}

impl Stream {
    /// Reads some bytes; 0 only at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, ReadFault> {
        loop {
            let error = match self.reader.read(into) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            if self.layers.is_empty() || self.failed.load(Ordering::Relaxed) {
                return Err(ReadFault::File(SourceError::io(&self.name, "read it", &error)));
            }
            let layers = self.layers.join(" in ");
            return Err(ReadFault::Stream(match error.kind() {
                io::ErrorKind::UnexpectedEof => format!("the {layers} stream ends before its end mark"),
                _ => format!("the {layers} stream is damaged ({error})"),
            }));
        }
    }

    /// The outermost compression, if there is one.
    pub(super) fn compressed(&self) -> Option<&'static str> {
        self.layers.first().copied()
    }
}

/// Counts what is read and remembers a failure.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let result = self.inner.read(into);
        match &result {
            Ok(count) => _ = self.count.fetch_add(*count as u64, Ordering::Relaxed),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
        result
    }
}

/// Bytes already read, then the rest.
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

/// Opens a file, or standard input for `-`.
pub(super) fn open(path: &Path) -> Result<Sniffed, SourceError> {
    if path.as_os_str() == "-" {
        return sniff("standard input", Box::new(io::stdin()), None);
    }
    let name = path.display().to_string();
    let error = |error: io::Error| SourceError::io(&name, "open it", &error);
    let file = File::open(path).map_err(error)?;
    let metadata = file.metadata().map_err(error)?;
    if metadata.is_dir() {
        return Err(SourceError::directory(&name));
    }
    sniff(&name, Box::new(file), metadata.is_file().then_some(metadata.len()))
}

/// Looks at the first bytes and undoes compressions.
pub(super) fn sniff(name: &str, reader: Box<dyn Read + Send>, total: Option<u64>) -> Result<Sniffed, SourceError> {
    let (count, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let progress = Progress { read: Arc::clone(&count), total };
    let reader = Box::new(Counted { inner: reader, count, failed: Arc::clone(&failed) });
    let mut stream = Stream { reader, name: name.into(), failed, layers: Vec::new() };
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
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, rest)))
        } else {
            let decoder = zstd::Decoder::new(rest).and_then(|mut decoder| {
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Ok(decoder)
            });
            Box::new(decoder.map_err(|error| SourceError::io(name, "start to undo zstd", &error))?)
        };
    }
}

/// As many first bytes as there are, up to [`PREFIX`].
fn first_bytes(stream: &mut Stream) -> Result<Vec<u8>, SourceError> {
    let mut prefix = vec![0; PREFIX];
    let mut len = 0;
    while let Some(room) = prefix.get_mut(len..).filter(|room| !room.is_empty()) {
        match stream.read(room) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(ReadFault::File(error)) => return Err(error),
            // The fault comes again when the stream is read past what it gave.
            Err(ReadFault::Stream(_)) if len > 0 => break,
            Err(ReadFault::Stream(what)) => return Err(SourceError::stream(&stream.name, what)),
        }
    }
    prefix.truncate(len);
    Ok(prefix)
}

fn format_of(prefix: &[u8]) -> Format {
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

/// Whether no byte is a control character that texts do not have, and few are not UTF-8: where those are is said later,
/// by line and column.
fn is_text(prefix: &[u8]) -> bool {
    let printable = |&byte: &u8| byte >= 0x20 && byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c);
    let invalid: usize = prefix.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    prefix.iter().all(printable) && invalid * 4 <= prefix.len()
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
        assert!(matches!(format_of(b"ab\0"), Format::Binary(_)));
        assert!(matches!(format_of(b"\xd4\xc3"), Format::Binary(_)));
        assert!(matches!(format_of(b"PK\x03\x04"), Format::Binary(what) if what.contains("zip")));
    }
}
