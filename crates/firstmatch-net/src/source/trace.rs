//! ClassBench traces: a packet a line, `src dst sport dport proto rule` in decimal.
//!
//! ClassBench's own `trace_generator` writes a column more before the rule, for the flags of the rule that the packet
//! was drawn from: `flags << 16 | mask`, and 0 or 4294967295 for a rule without a mask. In either case the upper 16
//! bits are flags that the rule takes. A column in hexadecimal, which that program never writes, holds the packet's
//! flags as they are.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch::rule::FieldValues;
use firstmatch::schema::{Family, Field, Schema};

use super::lines::{Fault, Lines};
use super::raw::Sniffed;
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
    pub flags: Option<TraceFlags>,
    /// The number of the rule the line was made for, as written; where it is said to be -1, `None`.
    pub rule: Option<u64>,
}

/// The flags of a line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFlags {
    /// The packet's flags, written in hexadecimal. The low 8 bits are those of TCP.
    Plain(u16),
    /// Flags that a rule takes, as `trace_generator` writes them. Their bits are those of ClassBench's filter sets.
    ClassBench(u16),
}

/// The field that the flags column of ClassBench becomes in a schema, which no header fills.
const FLAGS_FIELD: &str = "flags";

impl TraceRecord {
    /// The headers such a packet has; its ports are never absent.
    pub fn headers(&self) -> Headers {
        let headers = Headers::of_five_tuple(self.family, self.src, self.dst, self.sport, self.dport, self.proto);
        match self.flags {
            Some(TraceFlags::Plain(flags)) => headers.with_tcp_flags(flags as u8),
            _ => headers,
        }
    }

    /// Returns the values of the fields of a schema that has the flags column of ClassBench; `None` where the record
    /// lacks one of them or is of another family.
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

/// Whether rules over this schema test the flags column of ClassBench: the 5-tuple of a family and that column.
fn has_flags(schema: &Schema) -> bool {
    let column = |field: &Field| field.source().is_none() && field.name() == FLAGS_FIELD && field.width() == 16;
    schema.family().is_some() && schema.fields().iter().any(column)
}

/// A trace, read line by line. Empty lines and lines that start with `#` are passed over.
pub struct Trace {
    lines: Lines,
    records: u64,
    /// How many columns the first line has: all others must have as many.
    columns: Option<usize>,
    /// Each line must state the flags of ClassBench.
    flags_needed: bool,
    first_line: Box<str>,
    done: bool,
    progress: Progress,
}

impl Trace {
    pub(super) fn new(sniffed: Sniffed, limits: &Limits) -> Self {
        let Sniffed { name, prefix, stream, progress, .. } = sniffed;
        let first_line: String =
            String::from_utf8_lossy(&prefix).lines().next().unwrap_or("").chars().take(40).collect();
        let lines = Lines::new(name, stream, limits);
        Self {
            lines,
            records: 0,
            columns: None,
            flags_needed: false,
            first_line: first_line.into(),
            done: false,
            progress,
        }
    }

    /// Whether rules over these schemas test the flags column of ClassBench. Then every line must state it, and
    /// [`TraceRecord::values`] has the packets.
    pub fn need_flags_for(&mut self, schemas: &[Schema]) -> bool {
        self.flags_needed = schemas.iter().any(has_flags);
        self.flags_needed
    }

    /// The file, or what stands for it.
    pub fn name(&self) -> &str {
        self.lines.name()
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
        self.lines.line()
    }

    /// What is missing, once [`Trace::next`] has come to the end of a compressed stream that is cut.
    pub fn cut(&self) -> Option<&Cut> {
        self.lines.cut()
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

/// Conditions on a line.
struct Form {
    columns: Option<usize>,
    flags_needed: bool,
}

/// Reads one line and says how many columns it has.
fn record(line: &[u8], Form { columns, flags_needed }: Form) -> Result<(TraceRecord, usize), Fault> {
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

/// The column before the rule, whose form tells what it holds.
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
