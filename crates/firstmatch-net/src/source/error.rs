//! Errors of sources, and the part that is missing from a cut file.

use std::fmt;
use std::io;

use firstmatch_core::Diagnostic;

/// Reason why a file could not be read, or not to its end. Packets read before the error stay valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    name: Box<str>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Io { doing: &'static str, kind: io::ErrorKind, text: Box<str> },
    Directory,
    Empty { compressed: Option<&'static str> },
    Not { looks: Box<str>, wanted: &'static str },
    Stream { text: Box<str> },
    Record { packet: u64, offset: u64, what: Box<str> },
    TooLarge { limit: usize },
    Line(Box<Diagnostic>),
}

impl SourceError {
    fn new(name: &str, kind: Kind) -> Self {
        Self { name: name.into(), kind }
    }

    pub(super) fn io(name: &str, doing: &'static str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::IsADirectory {
            return Self::directory(name);
        }
        Self::new(name, Kind::Io { doing, kind: error.kind(), text: error.to_string().into() })
    }

    pub(super) fn directory(name: &str) -> Self {
        Self::new(name, Kind::Directory)
    }

    pub(super) fn empty(name: &str, compressed: Option<&'static str>) -> Self {
        Self::new(name, Kind::Empty { compressed })
    }

    pub(super) fn not(name: &str, looks: &str, wanted: &'static str) -> Self {
        Self::new(name, Kind::Not { looks: looks.into(), wanted })
    }

    pub(super) fn stream(name: &str, text: String) -> Self {
        Self::new(name, Kind::Stream { text: text.into() })
    }

    pub(super) fn record(name: &str, packet: u64, offset: u64, what: String) -> Self {
        Self::new(name, Kind::Record { packet, offset, what: what.into() })
    }

    pub(super) fn too_large(name: &str, limit: usize) -> Self {
        Self::new(name, Kind::TooLarge { limit })
    }

    pub(super) fn line(name: &str, diagnostic: Diagnostic) -> Self {
        Self::new(name, Kind::Line(Box::new(diagnostic)))
    }

    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fault in a line of text, to be shown with that line.
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match &self.kind {
            Kind::Line(diagnostic) => Some(diagnostic),
            _ => None,
        }
    }

    /// Returns the number, from 1, of the packet that could not be read.
    pub fn packet(&self) -> Option<u64> {
        match self.kind {
            Kind::Record { packet, .. } => Some(packet),
            _ => None,
        }
    }

    /// Returns the offset in bytes of that packet, or of the block in its place.
    ///
    /// It counts in the decompressed capture.
    pub fn offset(&self) -> Option<u64> {
        match self.kind {
            Kind::Record { offset, .. } => Some(offset),
            _ => None,
        }
    }

    /// Returns the kind of the error, if the system reported it.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self.kind {
            Kind::Io { kind, .. } => Some(kind),
            Kind::Directory => Some(io::ErrorKind::IsADirectory),
            _ => None,
        }
    }

    /// Whether the file was empty, or empty once decompressed.
    pub fn is_empty(&self) -> bool {
        matches!(self.kind, Kind::Empty { .. })
    }

    /// Whether the file holds another format than the one asked for.
    pub fn is_other_format(&self) -> bool {
        matches!(self.kind, Kind::Not { .. })
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &self.kind {
            Kind::Io { kind: io::ErrorKind::NotFound, .. } => f.write_str("there is no such file"),
            Kind::Io { doing, text, .. } => write!(f, "cannot {doing}: {text}"),
            Kind::Directory => f.write_str("this is a directory; expected a file"),
            Kind::Empty { compressed: None } => f.write_str("there is nothing in it"),
            Kind::Empty { compressed: Some(how) } => write!(f, "there is nothing in it once {how} is undone"),
            Kind::Not { looks, wanted } => write!(f, "this is {looks}; expected {wanted}"),
            Kind::Stream { text } => f.write_str(text),
            Kind::Record { packet, offset, what } => write!(f, "packet {packet} at byte {offset}: {what}"),
            Kind::TooLarge { limit } => write!(f, "there are more than {limit} bytes in it, the most allowed"),
            Kind::Line(diagnostic) => write!(f, "{diagnostic}"),
        }
    }
}

impl std::error::Error for SourceError {}

/// Part that is missing from a file that ends early. Every whole packet or line before it was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub(super) name: Box<str>,
    pub(super) whole: u64,
    pub(super) offset: u64,
    pub(super) what: Box<str>,
}

impl Cut {
    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of whole packets (whole lines, for a trace).
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Returns the offset of the incomplete part, in bytes of the decompressed file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// Writes, for example, `x.pcap: cut at byte 1432, after 12 that are whole: …`.
impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, whole, offset, what } = self;
        write!(f, "{name}: cut at byte {offset}, after {whole} that are whole: {what}")
    }
}
