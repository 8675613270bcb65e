//! ClassBench traces: one packet per line, `src dst sport dport proto rule` in decimal.
//!
//! ClassBench's own `trace_generator` writes one more column before the rule, for the flags of the rule that the packet
//! was drawn from. It holds `flags << 16 | mask`, and 0 or 4294967295 for a rule without a mask. In every case the
//! upper 16 bits are flags that match the rule. For example, the rule `0x1000/0x1000` gives 0x10001000, or 268439552,
//! and the packet has the flags 0x1000.
//!
//! A column in hexadecimal, which that program never writes, holds the packet's flags as they are.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::rule::FieldValues;
use firstmatch_core::schema::{Family, Field, Schema};

use super::lines::{Fault, Lines};
use super::raw::Sniffed;
use super::window::Window;
use super::{Cut, Limits, Progress, SourceError};
use crate::wire::Headers;

/// Line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// IPv6 if an address is written with colons or is above 2^32 - 1, otherwise IPv4.
    pub family: Family,
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Protocol.
    pub proto: u8,
    /// Flags, in the column before the rule, if the line has seven columns.
    pub flags: Option<TraceFlags>,
    /// Number of the rule that the line was made for, as written; `None` for -1.
    pub rule: Option<u64>,
}

/// Flags that a line of a trace states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFlags {
    /// Packet's flags, written in hexadecimal. The low 8 bits are those of TCP.
    Plain(u16),
    /// Flags that match a rule, as `trace_generator` writes them. Their bits are those of ClassBench's filter sets.
    ClassBench(u16),
}

/// Name of the field that holds ClassBench's flags column in a schema; no header fills it.
const FLAGS_FIELD: &str = "flags";

impl TraceRecord {
    /// Returns the headers that such a packet has; its ports are never absent.
    pub fn headers(&self) -> Headers {
        let headers = Headers::of_five_tuple(self.family, self.src, self.dst, self.sport, self.dport, self.proto);
        match self.flags {
            Some(TraceFlags::Plain(flags)) => headers.with_tcp_flags(flags as u8),
            _ => headers,
        }
    }

    /// Returns the values of the fields of `schema`, ClassBench's flags column among them.
    ///
    /// The result is `None` if the record lacks a field that is not optional or is of another family.
    pub fn values(&self, schema: &Schema) -> Option<FieldValues> {
        let headers = self.headers();
        let mut values = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let value = match (field.source(), self.flags) {
                (Some(source), _) => headers.value(source),
                (None, Some(TraceFlags::Plain(flags) | TraceFlags::ClassBench(flags)))
                    if field.name() == FLAGS_FIELD =>
                {
                    Some(flags.into())
                }
                (None, _) => None,
            };
            if value.is_none() && !field.is_optional() {
                return None;
            }
            values.push(value);
        }
        let values = FieldValues { family: schema.family(), values };
        (schema.family() == Some(self.family)).then_some(values)
    }
}

/// Whether `schema` has a family and ClassBench's flags column, which rules may test.
fn has_flags(schema: &Schema) -> bool {
    let column = |field: &Field| field.source().is_none() && field.name() == FLAGS_FIELD && field.width() == 16;
    schema.family().is_some() && schema.fields().iter().any(column)
}

/// Reader of a trace, line by line. Empty lines and lines that start with `#` are passed over.
pub struct Trace {
    lines: Lines,
    records: u64,
    /// Number of columns of the first line; all other lines must have as many.
    columns: Option<usize>,
    /// Whether each line must state the flags of ClassBench.
    flags_needed: bool,
    done: bool,
}

impl Trace {
    pub(super) fn new(sniffed: Sniffed, limits: &Limits) -> Self {
        Self::of_lines(Lines::new(sniffed, limits))
    }

    pub(super) fn of_lines(lines: Lines) -> Self {
        Self { lines, records: 0, columns: None, flags_needed: false, done: false }
    }

    pub(super) fn into_lines(self) -> Lines {
        self.lines
    }

    /// Returns whether rules over `schemas` may test the flags column of ClassBench.
    ///
    /// If so, every line must state the flags from now on, and [`TraceRecord::values`] returns the packets.
    pub fn need_flags_for(&mut self, schemas: &[Schema]) -> bool {
        self.flags_needed = schemas.iter().any(has_flags);
        self.flags_needed
    }

    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    pub(super) fn window(&mut self) -> &mut Window {
        self.lines.window()
    }

    pub(super) fn looks_like(&self) -> String {
        self.lines.looks_like()
    }

    /// Returns the number of records delivered so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the line of the record last delivered, from 1.
    pub fn line(&self) -> u32 {
        self.lines.line()
    }

    /// Returns what is missing, once [`Trace::next`] has ended a cut compressed stream.
    pub fn cut(&self) -> Option<&Cut> {
        self.lines.cut()
    }

    /// Returns a handle that shows how far reading has come.
    pub fn progress(&self) -> Progress {
        self.lines.progress()
    }

    /// Returns the next record; `None` at the end, also of a cut stream, and after an error.
    ///
    /// # Errors
    /// If the file cannot be read or a line is not a record; [`SourceError::diagnostic`] returns the line.
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
        let Some(line) = self.lines.next(self.records)? else { return Ok(None) };
        let form = Form { columns: self.columns, flags_needed: self.flags_needed };
        let (record, columns) = record(line, form).map_err(|fault| self.lines.error(fault))?;
        self.columns = Some(columns);
        Ok(Some(record))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("name", &self.name())
            .field("records", &self.records)
            .field("cut", &self.cut())
            .finish_non_exhaustive()
    }
}

const COLUMNS: &str = "src dst sport dport proto rule, or flags before the rule";

/// Conditions that a line must meet.
struct Form {
    columns: Option<usize>,
    flags_needed: bool,
}

/// Reads one line and returns it with its number of columns.
fn record(line: &[u8], Form { columns, flags_needed }: Form) -> Result<(TraceRecord, usize), Fault> {
    // One more word than any form has columns.
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
        6 if flags_needed => return Err(column_count(line, count, FLAGS_NEEDED)),
        6 => (None, sixth),
        7 => (Some(flags(sixth)?), seventh),
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

const FLAGS_NEEDED: &str = "7 columns, the flags before the rule: the rules test them";
const FLAGS: &str = "`flags << 16 | mask` in decimal, as ClassBench writes it, or flags from 0x0000 to 0xffff";

/// Reads the column before the rule; its form shows whether it holds the packet's flags or the rule's.
fn flags(word: Word<'_>) -> Result<TraceFlags, Fault> {
    let no_flags = |_| bad(word, "is no flags", FLAGS);
    if word.bytes.starts_with(b"0x") || word.bytes.starts_with(b"0X") {
        return number(word, 0xffff, "flags").map(|flags| TraceFlags::Plain(flags as u16)).map_err(no_flags);
    }
    let column = number(word, u32::MAX.into(), "flags").map_err(no_flags)? as u32;
    if column != 0 && column as u16 == 0 {
        return Err(bad(word, "states flags under an empty mask", FLAGS));
    }
    Ok(TraceFlags::ClassBench((column >> 16) as u16))
}

fn column_count(line: &[u8], count: usize, expected: &str) -> Fault {
    let (start, len, count) = match split(line).nth(7) {
        Some(word) => (word.start, word.bytes.len(), split(line).count()),
        None => (line.trim_ascii_end().len(), 0, count),
    };
    Fault::new(start, len, format!("this line has {count} columns"), Some(expected))
}

/// Word of a line, and its offset in the line.
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

/// Reads a number of at most `max`, decimal or hexadecimal after `0x`.
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

/// Reads an address as a number, with its family if the notation shows it.
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
