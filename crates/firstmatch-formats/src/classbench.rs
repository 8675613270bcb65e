//! ClassBench filter sets, as the generator of Taylor and Turner writes them.
//!
//! ```text
//! @10.0.0.0/8 <tab> 192.0.2.0/24 <tab> 0 : 65535 <tab> 80 : 80 <tab> 0x06/0xFF <tab> 0x0000/0x0200
//! source      destination           source ports   destination ports  protocol     flags (may be missing)
//! ```
//!
//! - The first line has the highest priority. Exact duplicates are kept. Blank lines and lines that start with `#` are
//!   skipped.
//! - A rule states no action: [`Action::Match`].
//! - A prefix of length 0, the ports `0 : 65535` and a mask of 0 are no condition.
//! - Addresses may be IPv6. All addresses of a file have the family of its first rule, whose 5-tuple is the schema.
//! - The flags column (16 bits, read by no parser of packets) is checked and left out. With [`Options::flags`] it is
//!   the last field of the schema, `flags`.
//! - Bits outside a prefix or a mask are dropped with a warning: the generator writes none, but other tools do, and
//!   mean the prefix. For example, `10.0.0.1/8` is read as `10.0.0.0/8`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use super::hidden::{self, is_hidden};
use super::report::{Message, Report, Span, Warnings, quote};
use super::{BOM, MAX_LINES, Options, RuleFile};
use crate::error::ParseError;
use firstmatch_core::policy::Policy;
use firstmatch_core::rule::{Action, Conditions, Priority, RuleSet, RuleSpec, Test, pack};
use firstmatch_core::schema::{Family, Field, Kind, Schema};

/// Fields by their index in the schema.
const SRC: usize = 0;
const DST: usize = 1;
const SPORT: usize = 2;
const DPORT: usize = 3;
const PROTO: usize = 4;
const FLAGS: usize = 5;

/// Reads a ClassBench filter set.
///
/// # Errors
/// If the file has a fault. The error holds all faults, in order, up to [`Options::max_faults`].
pub fn parse(text: &str, options: &Options) -> Result<RuleFile, ParseError> {
    let mut report = Report::new(text, options);
    let mut rules: Option<RuleSet> = None;
    let mut line = 0u32;
    let mut start = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    while start < text.len() {
        let end = text.as_bytes()[start..].iter().position(|&b| b == b'\n').map_or(text.len(), |at| start + at);
        line = line.saturating_add(1);
        let without_cr = start + text[start..end].strip_suffix('\r').unwrap_or(&text[start..end]).len();
        let mut row = Row { text, line, line_start: start, pos: start, end: without_cr, report: &mut report };
        start = end + 1;
        row.blanks();
        if row.has_hidden() || row.pos == row.end || row.byte() == Some(b'#') {
            continue;
        }
        if let Some(spec) = row.rule(&mut rules, options) {
            let span = row.span(row.line_start);
            // This happens only if a file has more lines than there are priorities.
            if let Some(Err(error)) = rules.as_mut().map(|rules| rules.insert(spec)) {
                report.fault(span, || error.to_string());
            }
        }
    }
    let mut rules = rules.unwrap_or_else(|| empty_set(Family::Ipv4, options));
    report.warn_of_covered(&rules);
    let Warnings { kept: warnings, more: more_warnings, never } = report.finish()?;
    rules.shrink_to_fit();
    Ok(RuleFile { warnings, more_warnings, never, ..RuleFile::new(rules, Policy::default()) })
}

fn empty_set(family: Family, options: &Options) -> RuleSet {
    let mut fields = Schema::five_tuple(family, &[]).fields().to_vec();
    if options.flags {
        fields.push(Field::new("flags", 16, Kind::Mask, None));
    }
    RuleSet::new(Schema::new(Some(family), fields))
}

/// Signal that a fault is noted and the rest of the line is meaningless.
struct Stop;

/// Line that is read from left to right.
struct Row<'t, 'r> {
    text: &'t str,
    line: u32,
    line_start: usize,
    pos: usize,
    end: usize,
    report: &'r mut Report<'t>,
}

impl<'t> Row<'t, '_> {
    fn rule(&mut self, rules: &mut Option<RuleSet>, options: &Options) -> Option<RuleSpec> {
        let before = self.report.count();
        if self.byte() == Some(b'@') {
            self.pos += 1;
        } else {
            let span = Span { end: self.pos, ..self.span(self.pos) };
            self.report.fault(span, || Message::new("a rule without its `@`").expected("`@` and the source prefix"));
        }
        let mut packed = Vec::with_capacity(64);
        let mut condition = |field, test: Option<Test>| {
            if let Some(test) = test {
                pack(field, false, &[(None, test)], &mut packed);
            }
        };
        condition(SRC, self.prefix("the source prefix", rules, options).ok()?);
        condition(DST, self.prefix("the destination prefix", rules, options).ok()?);
        condition(SPORT, self.ports("the source ports").ok()?);
        condition(DPORT, self.ports("the destination ports").ok()?);
        condition(PROTO, self.masked("the protocol", 0xFF).ok()?);
        self.blanks();
        if self.pos < self.end {
            let flags = self.masked("the flags", 0xFFFF).ok()?;
            if options.flags {
                condition(FLAGS, flags);
            }
        }
        self.blanks();
        if self.pos < self.end {
            let span = self.word();
            self.report.fault(span, || {
                Message::new(format!("unexpected {}", quote(span.text(self.text)))).expected("the end of the line")
            });
        }
        let line = NonZeroU32::new(self.line).filter(|line| line.get() <= MAX_LINES);
        if line.is_none() {
            let span = self.span(self.line_start);
            self.report.fault(span, || format!("a file has at most {MAX_LINES} lines"));
        }
        let priority = Priority::of_line(self.line);
        let conditions = Conditions::from_packed(&packed);
        let spec = RuleSpec { priority, action: Action::Match, conditions, family: None, line, value: 0 };
        (self.report.count() == before).then_some(spec)
    }

    /// Whether the line has a hidden character, which is then noted as a fault.
    ///
    /// Comments may have any but carriage returns, because the author of the file sees the text after one as a line of
    /// its own.
    fn has_hidden(&mut self) -> bool {
        let is_comment = self.byte() == Some(b'#');
        let is_bad = |c: char| c == '\r' || (!is_comment && is_hidden(c));
        let found = self.text[self.pos..self.end].char_indices().find(|&(_, c)| is_bad(c));
        let Some((at, c)) = found else { return false };
        let start = self.pos + at;
        let span = Span { start, end: start + c.len_utf8(), ..self.span(start) };
        self.report.fault(span, || format!("the character {}, has no place here", hidden::name(c)));
        true
    }

    /// Reads `address/len`; `None` if there is no condition, or a fault of this column alone.
    fn prefix(&mut self, what: &str, rules: &mut Option<RuleSet>, options: &Options) -> Result<Option<Test>, Stop> {
        let span = self.needed(what)?;
        let word = span.text(self.text);
        let expected = "an address, `/` and the prefix length";
        let Some((address, len)) = word.split_once('/') else {
            return self.bad(span, Message::new(format!("{what} {} has no length", quote(word))).expected(expected));
        };
        let parsed = match address.parse::<Ipv4Addr>() {
            Ok(address) => Some((Family::Ipv4, u128::from(address.to_bits()))),
            Err(_) => address.parse::<Ipv6Addr>().ok().map(|address| (Family::Ipv6, address.to_bits())),
        };
        let Some((family, value)) = parsed else {
            let span = Span { end: span.start + address.len(), ..span };
            return self.bad(span, Message::new(format!("{} is no address", quote(address))).expected(expected));
        };
        let schema = rules.get_or_insert_with(|| empty_set(family, options)).schemas()[0].family();
        if let Some(first) = schema.filter(|&first| first != family) {
            let message = format!("an {family} address in a file whose first rule is {first}");
            return self.bad(span, Message::new(message).expected("one family a file"));
        }
        let width = family.address_bits();
        let Some(len) = decimal(len).filter(|&len| len <= width) else {
            let message = format!("{} is no prefix length", quote(len));
            let span = Span { start: span.end - len.len(), ..span };
            return self.bad(span, Message::new(message).expected(format!("0 to {width}")));
        };
        let free = u128::MAX.checked_shr(128 - (width - len)).unwrap_or(0);
        if value & free != 0 {
            self.report.warn(span, || format!("{} has bits outside its prefix; they are dropped", quote(word)));
        }
        Ok((len > 0).then_some(Test::Prefix { value: value & !free, len }))
    }

    /// Reads `lo : hi`, with or without blanks.
    fn ports(&mut self, what: &str) -> Result<Option<Test>, Stop> {
        self.blanks();
        let start = self.pos;
        let lo = self.port(what)?;
        self.blanks();
        if self.byte() != Some(b':') {
            let span = Span { end: self.pos, ..self.span(self.pos) };
            self.report.fault(span, || Message::new(format!("{what} have no end")).expected("`:` and the last port"));
            return Err(Stop);
        }
        self.pos += 1;
        self.blanks();
        let hi = self.port(what)?;
        let (Some(lo), Some(hi)) = (lo, hi) else { return Ok(None) };
        if lo > hi {
            let message = format!("{what} are reversed: {lo} is above {hi}");
            return self.bad(self.span(start), Message::new(message).expected(format!("`{hi} : {lo}`")));
        }
        let (low, high) = (lo.into(), hi.into());
        Ok(match (lo, hi) {
            (0, 0xFFFF) => None,
            _ if lo == hi => Some(Test::Value(low)),
            _ => Some(Test::Range { lo: low, hi: high }),
        })
    }

    /// Reads a port; `None` if there is a fault of this column alone.
    fn port(&mut self, what: &str) -> Result<Option<u32>, Stop> {
        let start = self.pos;
        while self.byte().is_some_and(|b| b.is_ascii_digit()) {
            self.pos += 1;
        }
        let span = self.span(start);
        let port = decimal(span.text(self.text)).filter(|&port| port <= 0xFFFF);
        if port.is_none() {
            let span = if start == self.pos { self.wrong_port() } else { span };
            let word = span.text(self.text);
            let message = match word {
                "" => format!("{what} are missing"),
                _ => format!("{} is no port", quote(word)),
            };
            let is_missing = word.is_empty() && self.byte() != Some(b':');
            self.report.fault(span, || Message::new(message).expected("two ports from 0 to 65535: `lo : hi`"));
            if is_missing {
                return Err(Stop);
            }
        }
        Ok(port)
    }

    /// Returns the text that stands in place of a port, up to the `:` after it.
    fn wrong_port(&mut self) -> Span {
        let start = self.pos;
        while self.byte().is_some_and(|b| !matches!(b, b' ' | b'\t' | b':')) {
            self.pos += 1;
        }
        self.span(start)
    }

    /// Reads `value/mask`, both hexadecimal.
    fn masked(&mut self, what: &str, max: u32) -> Result<Option<Test>, Stop> {
        let span = self.needed(what)?;
        let word = span.text(self.text);
        let parts = word.split_once('/').and_then(|(value, mask)| Some((hex(value)?, hex(mask)?)));
        let Some((value, mask)) = parts.filter(|&(value, mask)| value <= max && mask <= max) else {
            let expected = format!("a value and a mask up to {max:#X}: `0x06/0xFF`");
            return self.bad(span, Message::new(format!("{what} {} is no good", quote(word))).expected(expected));
        };
        if value & !mask != 0 {
            self.report.warn(span, || format!("{} has bits outside its mask; they are dropped", quote(word)));
        }
        let value = value & mask;
        Ok(match mask {
            0 => None,
            _ if mask == max => Some(Test::Value(value.into())),
            _ => Some(Test::Mask { value: value.into(), mask: mask.into() }),
        })
    }

    /// Notes a fault of a column that was read to its end, so that the next column is read, too.
    fn bad(&mut self, span: Span, message: Message) -> Result<Option<Test>, Stop> {
        self.report.fault(span, || message);
        Ok(None)
    }

    /// Reads the next word; notes a fault if the line ends before it.
    fn needed(&mut self, what: &str) -> Result<Span, Stop> {
        self.blanks();
        let span = self.word();
        if span.start == span.end {
            self.report.fault(span, || format!("the line ends before {what}"));
            return Err(Stop);
        }
        Ok(span)
    }

    fn word(&mut self) -> Span {
        let start = self.pos;
        while self.byte().is_some_and(|b| !matches!(b, b' ' | b'\t')) {
            self.pos += 1;
        }
        self.span(start)
    }

    fn blanks(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t')) {
            self.pos += 1;
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes()[..self.end].get(self.pos).copied()
    }

    /// Returns the span from `start` to the current position.
    fn span(&self, start: usize) -> Span {
        Span { line: self.line, line_start: self.line_start, start, end: self.pos }
    }
}

fn decimal(word: &str) -> Option<u32> {
    word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

fn hex(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}
