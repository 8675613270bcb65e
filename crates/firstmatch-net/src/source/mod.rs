//! Captures, traces, tables and flow logs, streamed from files, from standard input or from any reader.
//!
//! [`open`] looks at the first bytes and undoes gzip and zstd, even one inside the other. It returns a [`Capture`]
//! (pcap or pcapng), a [`FlowLog`], a [`Table`] (text whose first line names columns) or, for any other text, a
//! [`Trace`]. Memory holds one buffer, whose size [`Limits`] bounds. [`Frames`] hold the packets of up to 8 MiB, or of
//! one buffer.
//!
//! If a file ends in the middle of a packet or line, everything whole before it is delivered, then the end.
//! [`Capture::cut`], [`Trace::cut`] and [`Rows::cut`] return what is missing. If a file contradicts itself, or its
//! compressed stream is damaged (a checksum is wrong), everything before the fault is delivered, then an error. Rule
//! files are stricter: half a rule file is an error.

mod ahead;
mod capture;
mod cells;
mod columns;
mod decimal;
mod error;
mod flows;
mod frames;
mod gzip;
mod lines;
mod objects;
mod pcapng;
mod raw;
mod reader;
mod table;
mod text;
mod time;
mod trace;
mod window;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use capture::{Capture, Packet};
pub use columns::{BYTES_COLUMNS, NEXT_HEADER_COLUMN, header_columns};
pub use error::{Cut, SourceError};
pub use flows::{ColumnsError, Flow, FlowCounts, FlowFormat, FlowLog, FlowOptions, FlowWeight, Flows};
pub use frames::Frames;
pub use table::{Row, Rows, Table};
pub use text::{read_text, read_text_with};
pub use trace::{Trace, TraceFlags, TraceRecord};

use raw::{Format, Sniffed};

/// Limits on the memory that reading a file may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest packet record of a capture in bytes; a longer one is an error.
    pub max_record: usize,
    /// Longest line of a trace or table in bytes; a longer one is an error.
    pub max_line: usize,
    /// Longest text that [`read_text`] accepts, in bytes after decompression.
    pub max_text: usize,
}

impl Default for Limits {
    /// Returns limits of 16 MiB per record, 4 KiB per line and 512 MiB per text.
    fn default() -> Self {
        Self { max_record: 16 << 20, max_line: 4096, max_text: 512 << 20 }
    }
}

/// Opened input, by its format.
#[derive(Debug)]
pub enum Input {
    /// Packets with their headers.
    Capture(Capture),
    /// 5-tuples in text.
    Trace(Trace),
    /// Header fields in text, between commas.
    Table(Table),
    /// Flows in text.
    Flows(FlowLog),
}

/// Formats of input that can be asked for, because the text alone may leave it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputFormat {
    /// Capture (pcap, pcapng).
    Capture,
    /// ClassBench trace.
    Trace,
    /// Table of header fields.
    Table,
    /// Flow log.
    Flows(FlowFormat),
}

impl Input {
    /// Returns the input as one of this format, whatever its text seems to be.
    ///
    /// # Errors
    /// If one is a capture and the other is text.
    pub fn with_format(self, format: InputFormat) -> Result<Self, SourceError> {
        if format == InputFormat::Capture {
            return self.into_capture().map(Self::Capture);
        }
        let lines = match self {
            Self::Capture(capture) => {
                return Err(SourceError::not(capture.name(), capture.format_name(), "text"));
            }
            Self::Trace(trace) => trace.into_lines(),
            Self::Table(table) => table.into_lines(),
            Self::Flows(flows) => flows.into_lines(),
        };
        Ok(match format {
            InputFormat::Flows(format) => Self::Flows(FlowLog::of_lines(lines, format)),
            InputFormat::Table => Self::Table(Table::of_lines(lines)),
            InputFormat::Trace | InputFormat::Capture => Self::Trace(Trace::of_lines(lines)),
        })
    }

    /// Returns the capture.
    ///
    /// # Errors
    /// If the input has another format; the error names the format that it seems to have.
    pub fn into_capture(self) -> Result<Capture, SourceError> {
        match self {
            Self::Capture(capture) => Ok(capture),
            Self::Trace(trace) => {
                Err(SourceError::not(trace.name(), &trace.looks_like(), "a capture (pcap or pcapng)"))
            }
            Self::Table(table) => Err(table.refused("a capture (pcap or pcapng)")),
            Self::Flows(flows) => Err(flows.refused("a capture (pcap or pcapng)")),
        }
    }

    /// Returns the trace.
    ///
    /// # Errors
    /// If the input has another format; the error names the format that it seems to have.
    pub fn into_trace(self) -> Result<Trace, SourceError> {
        match self {
            Self::Trace(trace) => Ok(trace),
            Self::Capture(capture) => {
                Err(SourceError::not(capture.name(), capture.format_name(), "a trace (text, a packet a line)"))
            }
            Self::Table(table) => Err(table.refused("a trace (text, a packet a line)")),
            Self::Flows(flows) => Err(flows.refused("a trace (text, a packet a line)")),
        }
    }

    /// Returns the table.
    ///
    /// # Errors
    /// If the input has another format; the error names the format that it seems to have.
    pub fn into_table(self) -> Result<Table, SourceError> {
        let wanted = "a table of header fields (text, the first line names the columns)";
        match self {
            Self::Table(table) => Ok(table),
            Self::Capture(capture) => Err(SourceError::not(capture.name(), capture.format_name(), wanted)),
            Self::Trace(trace) => Err(SourceError::not(trace.name(), &trace.looks_like(), wanted)),
            Self::Flows(flows) => Err(flows.refused(wanted)),
        }
    }

    /// Decompresses on another thread from now on, some buffers ahead. An uncompressed input stays as it is.
    ///
    /// The thread ends with the input, at an error, or some buffers after the input was dropped.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn decompress_aside(mut self) -> Result<Self, SourceError> {
        match &mut self {
            Self::Capture(capture) => capture.window().decompress_aside()?,
            Self::Trace(trace) => trace.window().decompress_aside()?,
            Self::Table(table) => table.window().decompress_aside()?,
            Self::Flows(flows) => flows.window().decompress_aside()?,
        }
        Ok(self)
    }

    /// Returns a handle that shows how far reading has come.
    pub fn progress(&self) -> Progress {
        match self {
            Self::Capture(capture) => capture.progress(),
            Self::Trace(trace) => trace.progress(),
            Self::Table(table) => table.progress(),
            Self::Flows(flows) => flows.progress(),
        }
    }
}

/// Progress of a reader, in bytes of the file as it is stored. It is cheap to clone and to read, from any thread.
#[derive(Clone, Debug)]
pub struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    /// Returns the number of bytes taken from the file so far. It is ahead of the packets, because of the buffer in
    /// between.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the size of the file in bytes, if it is a regular file.
    pub fn total(&self) -> Option<u64> {
        self.total
    }
}

/// Opens a file, or standard input for `-`.
///
/// # Errors
/// If the file cannot be opened, is a directory, is empty, or has an unknown format.
pub fn open(path: &Path) -> Result<Input, SourceError> {
    open_with(path, &Limits::default())
}

/// Opens a file as [`open`] does, with other limits.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, limits: &Limits) -> Result<Input, SourceError> {
    input(raw::open(path)?, limits)
}

/// Opens a file and reads its bytes through the reader that `wrap` builds on top. That reader may, for example, poll a
/// file that keeps it waiting, and end the input with [`Stopped`].
///
/// # Errors
/// As [`open`], and if `wrap` fails.
pub fn open_through(
    path: &Path,
    limits: &Limits,
    wrap: impl FnOnce(File) -> io::Result<Box<dyn Read + Send>>,
) -> Result<Input, SourceError> {
    input(raw::open_through(path, wrap)?, limits)
}

/// Error by which a reader ends its input early.
///
/// Everything whole so far is delivered, the rest counts as cut off. A regular end (`Ok(0)`) would mean that the file
/// is complete, so that the beginning of a line would be taken for a line.
///
/// ```
/// use firstmatch_net::source::Stopped;
///
/// let error = std::io::Error::from(Stopped);
/// assert_eq!(error.to_string(), "reading was stopped");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reading was stopped")
    }
}

impl std::error::Error for Stopped {}

impl From<Stopped> for io::Error {
    fn from(stopped: Stopped) -> Self {
        Self::other(stopped)
    }
}

/// Reads packets from any reader. Messages show `name` in place of a path.
///
/// # Errors
/// If the input is empty, cannot be read, or has an unknown format.
pub fn from_reader(name: &str, reader: Box<dyn Read + Send>, limits: &Limits) -> Result<Input, SourceError> {
    input(raw::sniff(name, reader, None)?, limits)
}

fn input(sniffed: Sniffed, limits: &Limits) -> Result<Input, SourceError> {
    if sniffed.format == Format::Text
        && let Some(format) = flows::format_of(&sniffed.prefix)
    {
        return Ok(Input::Flows(FlowLog::new(sniffed, format, limits)));
    }
    match sniffed.format {
        Format::Pcap | Format::PcapNg => Ok(Input::Capture(Capture::new(sniffed, limits))),
        Format::Text if table::is_table(&sniffed.prefix) => Ok(Input::Table(Table::new(sniffed, limits))),
        Format::Text => Ok(Input::Trace(Trace::new(sniffed, limits))),
        Format::Binary(what) => {
            let wanted = "a capture (pcap or pcapng) or text, plain or compressed by gzip or zstd";
            Err(SourceError::not(&sniffed.name, &what, wanted))
        }
    }
}
