//! ClassBench traces: a packet a line, `src dst sport dport proto rule` in decimal.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch::Diagnostic;
use firstmatch::schema::Family;

use super::raw::Sniffed;
use super::window::Window;
use super::{Cut, Limits, Progress, SourceError};
use crate::wire::Headers;

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// IPv6 if an address is written with colons or is above 2^32 - 1, else IPv4.
    pub family: Family,
    /// The source address.
    pub src: u128,
    /// The destination address.
    pub dst: u128,
    /// The source port.
    pub sport: u16,
    /// The destination port.
    pub dport: u16,
    /// The protocol.
    pub proto: u8,
    /// The flags that the form of seven columns has before the rule.
    pub flags: Option<u16>,
    /// The number of the rule the line was made for, as written; where it is said to be -1, `None`.
    pub rule: Option<u64>,
}

impl TraceRecord {
    /// The headers such a packet has; its ports are never absent.
    pub fn headers(&self) -> Headers {
        let headers = Headers::of_five_tuple(self.family, self.src, self.dst, self.sport, self.dport, self.proto);
        match self.flags {
            Some(flags) => headers.with_tcp_flags(flags as u8),
            None => headers,
        }
    }
}

/// A trace, read line by line. Empty lines and lines that start with `#` are passed over.
pub struct Trace {
    name: Box<str>,
    window: Window,
    max_line: usize,
    /// The line last read.
    line: u32,
    records: u64,
    /// How many columns the first line has: all others must have as many.
    columns: Option<usize>,
    first_line: Box<str>,
    cut: Option<Cut>,
    done: bool,
    progress: Progress,
}

impl Trace {
    pub(super) fn new(sniffed: Sniffed, limits: &Limits) -> Self {
        let Sniffed { name, prefix, stream, progress, .. } = sniffed;
        let first_line: String =
            String::from_utf8_lossy(&prefix).lines().next().unwrap_or("").chars().take(40).collect();
        Self {
            name,
            window: Window::new(stream),
            max_line: limits.max_line,
            line: 0,
            records: 0,
            columns: None,
            first_line: first_line.into(),
            cut: None,
            done: false,
            progress,
        }
    }

    /// The file, or what stands for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn looks_like(&self) -> String {
        format!("text (it starts with {:?})", self.first_line)
    }

    /// How many records were delivered.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The line of the record last delivered, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// What is missing, once [`Trace::next`] has come to the end of a compressed stream that is cut.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// How far reading has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The next record; `None` at the end, also of a stream that is cut, and after an error.
    ///
    /// # Errors
    /// When the file cannot be read or a line is not a record; [`SourceError::diagnostic`] shows the line.
    #[expect(clippy::should_implement_trait, reason = "as Capture::next")]
    pub fn next(&mut self) -> Result<Option<TraceRecord>, SourceError> {
        if self.done {
            return Ok(None);
        }
        let result = self.advance();
        match result {
            Ok(Some(_)) => self.records += 1,
            _ => self.done = true,
        }
        result
    }

    fn advance(&mut self) -> Result<Option<TraceRecord>, SourceError> {
        loop {
            let Some(len) = self.find_line()? else { return Ok(None) };
            self.line = self.line.saturating_add(1);
            let mut line = self.window.bytes().get(..len).unwrap_or_default();
            if self.line == 1 {
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            let parsed = if line.trim_ascii().is_empty() || line.starts_with(b"#") {
                Ok(None)
            } else {
                record(line, self.columns).map(Some)
            };
            match parsed {
                Err(fault) => return Err(SourceError::line(&self.name, fault.at(self.line, line))),
                Ok(parsed) => {
                    self.window.consume(len + 1);
                    if let Some((record, columns)) = parsed {
                        self.columns = Some(columns);
                        return Ok(Some(record));
                    }
                }
            }
        }
    }

    /// The length of the next line without its end, once it is all at hand; `None` at the end.
    fn find_line(&mut self) -> Result<Option<usize>, SourceError> {
        let mut searched = 0;
        loop {
            let bytes = self.window.bytes();
            let here = bytes.len();
            let found = bytes.iter().skip(searched).position(|&byte| byte == b'\n').map(|at| searched + at);
            if let Some(len) = found.filter(|&len| len <= self.max_line) {
                return Ok(Some(len));
            }
            if found.is_some() || here > self.max_line {
                let fault = Fault::new(1, 0, format!("this line is longer than {} bytes", self.max_line), None);
                let start = bytes.get(..bytes.len().min(80)).unwrap_or_default();
                return Err(SourceError::line(&self.name, fault.at(self.line.saturating_add(1), start)));
            }
            searched = here;
            if !self.window.need(here + 1)? {
                return Ok(self.last_line(here));
            }
        }
    }

    /// The last line, without an end of its own. Of a cut stream it may be half a line that still reads like one.
    fn last_line(&mut self, len: usize) -> Option<usize> {
        if let Some(fault) = self.window.fault() {
            let (name, whole, offset) = (self.name.clone(), self.records, self.window.offset());
            self.cut = Some(Cut { name, whole, offset, what: fault.into() });
            return None;
        }
        (len > 0).then_some(len)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("name", &self.name)
            .field("records", &self.records)
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

/// What is wrong with a line; columns are counted in bytes until the line is at hand as text.
struct Fault {
    start: usize,
    len: usize,
    message: String,
    expected: Option<String>,
}

impl Fault {
    fn new(start: usize, len: usize, message: String, expected: Option<&str>) -> Self {
        Self { start, len, message, expected: expected.map(str::to_owned) }
    }

    fn at(self, line: u32, bytes: &[u8]) -> Diagnostic {
        let text = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned();
        let chars = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().count() as u32;
        let column = 1 + chars(bytes.get(..self.start).unwrap_or_default());
        let width = chars(bytes.get(self.start..self.start + self.len).unwrap_or_default());
        Diagnostic { line, column, width, message: self.message, expected: self.expected, text }
    }
}

const COLUMNS: &str = "src dst sport dport proto rule, or flags before the rule";

/// Reads one line and says how many columns it has.
fn record(line: &[u8], columns: Option<usize>) -> Result<(TraceRecord, usize), Fault> {
    // One more than any form has.
    let mut words = [Word { start: 0, bytes: &[] }; 8];
    let mut count = 0;
    for (slot, word) in words.iter_mut().zip(split(line)) {
        *slot = word;
        count += 1;
    }
    if line.starts_with(b"@") {
        let message = "this is a ClassBench rule, not a packet".to_owned();
        return Err(Fault::new(0, 1, message, Some(COLUMNS)));
    }
    let [src, dst, sport, dport, proto, sixth, seventh, _] = words;
    let src_value = address(src)?;
    let dst_value = address(dst)?;
    let (sport, dport) = (number(sport, 0xffff, "a port")?, number(dport, 0xffff, "a port")?);
    let proto = number(proto, 0xff, "a protocol")?;
    let (flags, rule) = match count {
        6 => (None, sixth),
        7 => (Some(number(sixth, 0xffff, "flags")? as u16), seventh),
        _ => return Err(column_count(line, count, COLUMNS)),
    };
    if columns.is_some_and(|columns| columns != count) {
        let before = if count == 6 { "7 columns, as the lines before" } else { "6 columns, as the lines before" };
        return Err(column_count(line, count, before));
    }
    let rule = if rule.bytes == b"-1" { None } else { Some(number(rule, u128::from(u64::MAX), "a rule's number")?) };
    let high = u128::from(u32::MAX);
    let is6 = |(value, family): (u128, Option<Family>)| family == Some(Family::Ipv6) || value > high;
    let family = if is6(src_value) || is6(dst_value) { Family::Ipv6 } else { Family::Ipv4 };
    for (word, (_, written)) in [(src, src_value), (dst, dst_value)] {
        if written.is_some_and(|written| written != family) {
            let message = "the two addresses belong to different families".to_owned();
            return Err(Fault::new(word.start, word.bytes.len(), message, Some("two of IPv4 or two of IPv6")));
        }
    }
    let record = TraceRecord {
        family,
        src: src_value.0,
        dst: dst_value.0,
        sport: sport as u16,
        dport: dport as u16,
        proto: proto as u8,
        flags,
        rule: rule.map(|rule| rule as u64),
    };
    Ok((record, count))
}

fn column_count(line: &[u8], count: usize, expected: &str) -> Fault {
    let (start, len, count) = match split(line).nth(7) {
        Some(word) => (word.start, word.bytes.len(), split(line).count()),
        None => (line.trim_ascii_end().len(), 0, count),
    };
    Fault::new(start, len, format!("this line has {count} columns"), Some(expected))
}

/// A word of a line, and where it begins.
#[derive(Clone, Copy)]
struct Word<'a> {
    start: usize,
    bytes: &'a [u8],
}

fn split(line: &[u8]) -> impl Iterator<Item = Word<'_>> {
    let mut at = 0;
    let words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).map(move |bytes| {
        let word = Word { start: at, bytes };
        at += bytes.len() + 1;
        word
    });
    words.filter(|word| !word.bytes.is_empty())
}

fn bad(word: Word<'_>, message: &str, expected: &str) -> Fault {
    let text = String::from_utf8_lossy(word.bytes);
    let message = if word.bytes.is_empty() { "the line ends here".to_owned() } else { format!("{text} {message}") };
    Fault::new(word.start, word.bytes.len(), message, Some(expected))
}

/// A number, decimal or hexadecimal after `0x`.
fn number(word: Word<'_>, max: u128, what: &str) -> Result<u128, Fault> {
    let value = match word.bytes {
        [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() => digits.iter().try_fold(0u128, |value, &digit| {
            value.checked_mul(16)?.checked_add(char::from(digit).to_digit(16)?.into())
        }),
        [] => None,
        digits => digits.iter().try_fold(0u128, |value, &digit| {
            value.checked_mul(10)?.checked_add(char::from(digit).to_digit(10)?.into())
        }),
    };
    let fault = |message| bad(word, message, &format!("{what}, a number from 0 to {max}"));
    match value {
        Some(value) if value <= max => Ok(value),
        Some(_) => Err(fault("is too large")),
        None => Err(fault("is no such number")),
    }
}

/// An address as a number, with its family where the way it is written tells.
fn address(word: Word<'_>) -> Result<(u128, Option<Family>), Fault> {
    let text = || std::str::from_utf8(word.bytes).unwrap_or("");
    let fault = || bad(word, "is no address", "an address, as 167772161, 10.0.0.1 or 2001:db8::1");
    if word.bytes.contains(&b':') {
        let address: Ipv6Addr = text().parse().map_err(|_| fault())?;
        return Ok((address.to_bits(), Some(Family::Ipv6)));
    }
    if word.bytes.contains(&b'.') {
        let address: Ipv4Addr = text().parse().map_err(|_| fault())?;
        return Ok((address.to_bits().into(), Some(Family::Ipv4)));
    }
    number(word, u128::MAX, "an address").map(|value| (value, None)).map_err(|_| fault())
}
