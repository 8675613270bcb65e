//! Flow logs: text with a flow a row, each as the headers of the packet that opened it.
//!
//! | format | rows | directions of a row |
//! |---|---|---|
//! | [`FlowFormat::Aws`] | VPC flow logs, versions 2 and later: columns between blanks, or between commas | one |
//! | [`FlowFormat::Zeek`] | `conn.log`: columns between tabs behind `#fields` | two |
//! | [`FlowFormat::Nfdump`] | `nfdump -o csv`, of both generations | one or two |
//! | [`FlowFormat::Suricata`] | `eve.json`: events of the type `flow`, an object a line | two |
//! | [`FlowFormat::Azure`] | flow logs of network security groups and of virtual networks: tuples in records | two |
//! | [`FlowFormat::Gcp`] | VPC flow logs as log entries, an object a line or in an array | one |
//!
//! Zeek also writes JSON, an object a line.
//!
//! A log states some fields of packets. [`Flow::headers`] has these as present or absent, and all others as unknown.
//! Rules that test an unknown field cannot decide such a row.

mod columns;
mod delimited;
mod json;
mod protocols;
mod row;
mod sniff;
mod values;

use std::fmt;

use firstmatch_core::Diagnostic;
use firstmatch_core::policy::Fragments;
use firstmatch_core::schema::{Family, Source};

use super::lines::{Fault, Lines};
use super::objects::{self, Objects};
use super::raw::Sniffed;
use super::window::Window;
use super::{Cut, Limits, Progress, SourceError};
use crate::wire::{Batch, Extractor, Headers, SourceSet};
pub use columns::ColumnsError;
use columns::Named;
use delimited::Delimited;
use json::Json;
pub use row::FlowWeight;
use row::{IcmpInPorts, RowValues};
pub(super) use sniff::format_of;

/// Formats of flow logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowFormat {
    /// VPC flow logs of AWS, as text.
    Aws,
    /// The log `conn` of Zeek.
    Zeek,
    /// CSV of nfdump.
    Nfdump,
    /// Events of Suricata (EVE).
    Suricata,
    /// Flow logs of Azure, of network security groups or virtual networks.
    Azure,
    /// VPC flow logs of Google Cloud.
    Gcp,
}

impl FlowFormat {
    /// Returns the name with an article, for example "a flow log of AWS".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aws => "a flow log of AWS",
            Self::Zeek => "a log of connections of Zeek",
            Self::Nfdump => "a flow log of nfdump",
            Self::Suricata => "a log of events of Suricata",
            Self::Azure => "a flow log of Azure",
            Self::Gcp => "a flow log of Google Cloud",
        }
    }
}

/// Settings for reading a flow log.
///
/// ```
/// use firstmatch_net::source::FlowOptions;
///
/// let options = FlowOptions::default().columns(["src=pkt-srcaddr", "dst=pkt-dstaddr"])?.skip_bad(true);
/// assert!(FlowOptions::default().columns(["source=pkt-srcaddr"]).is_err());
/// # let _ = options;
/// # Ok::<(), firstmatch_net::source::ColumnsError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FlowOptions {
    named: Named,
    skips_bad: bool,
    has_both_ways: bool,
    metadata: u64,
}

impl FlowOptions {
    /// Adds columns: `PART=NAME` names the column of a part of flows; other items are the names of all columns in their
    /// order, for files that do not name them.
    ///
    /// The parts are `src`, `dst`, `sport`, `dport`, `proto`, `icmp_type`, `icmp_code`, `tcp_flags`, `packets`, `bytes`,
    /// `packets_back` and `bytes_back`.
    ///
    /// # Errors
    /// If there is no such part, a part has two columns, or a name is empty.
    pub fn columns(mut self, items: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, ColumnsError> {
        for item in items {
            self.named.add(item.as_ref())?;
        }
        Ok(self)
    }

    /// Counts malformed rows and passes over them. Default: the first one is an error.
    #[must_use]
    pub fn skip_bad(mut self, skips: bool) -> Self {
        self.skips_bad = skips;
        self
    }

    /// Delivers the way back of rows with both directions, too.
    #[must_use]
    pub fn both_ways(mut self, both: bool) -> Self {
        self.has_both_ways = both;
        self
    }

    /// Sets the metadata of every packet. Default: 0.
    #[must_use]
    pub fn metadata(mut self, metadata: u64) -> Self {
        self.metadata = metadata;
        self
    }
}

/// Flow log whose rows [`FlowLog::into_flows`] reads.
pub struct FlowLog {
    lines: Lines,
    format: FlowFormat,
}

impl FlowLog {
    pub(super) fn new(sniffed: Sniffed, format: FlowFormat, limits: &Limits) -> Self {
        Self::of_lines(Lines::new(sniffed, limits), format)
    }

    pub(super) fn of_lines(lines: Lines, format: FlowFormat) -> Self {
        Self { lines, format }
    }

    pub(super) fn into_lines(self) -> Lines {
        self.lines
    }

    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// Returns the format.
    pub fn format(&self) -> FlowFormat {
        self.format
    }

    /// Returns a handle that shows how far reading has come.
    pub fn progress(&self) -> Progress {
        self.lines.progress()
    }

    pub(super) fn window(&mut self) -> &mut Window {
        self.lines.window()
    }

    /// Returns the error for a caller that wants another format.
    pub(super) fn refused(&self, wanted: &'static str) -> SourceError {
        SourceError::not(self.name(), self.format.name(), wanted)
    }

    /// Returns the flows.
    pub fn into_flows(mut self, options: FlowOptions) -> Flows {
        let FlowOptions { named, skips_bad, has_both_ways, metadata } = options;
        let start = self.lines.beginning().trim();
        let is_json = match self.format {
            FlowFormat::Aws | FlowFormat::Nfdump => false,
            FlowFormat::Zeek => start.starts_with('{'),
            FlowFormat::Suricata | FlowFormat::Azure | FlowFormat::Gcp => true,
        };
        let reader = if is_json {
            let max_bytes = self.lines.allow_records();
            let has_lines = matches!(self.format, FlowFormat::Zeek | FlowFormat::Suricata);
            let objects = (!has_lines).then(|| Objects::new(max_bytes));
            Reader::Json(Box::new(Json::new(self.format, &named)), objects)
        } else {
            Reader::Delimited(Box::new(Delimited::new(self.format, named)))
        };
        if self.format == FlowFormat::Zeek {
            self.lines.keep_comments();
        }
        Flows {
            reader,
            format: self.format,
            lines: self.lines,
            skips_bad,
            has_both_ways,
            metadata,
            row: RowValues::default(),
            back_is_due: false,
            headers: Headers::of_fields(None, Fragments::Unknown, []),
            counts: FlowCounts::default(),
            needed: [SourceSet::NONE; 2],
            done: false,
        }
    }
}

/// Reader of rows.
enum Reader {
    Delimited(Box<Delimited>),
    /// Objects, a line each unless the second part reads them.
    Json(Box<Json>, Option<Objects>),
}

impl Reader {
    /// Whether a fault is one of a row, not of the columns.
    fn has_columns(&self) -> bool {
        match self {
            Self::Delimited(of) => of.has_columns(),
            Self::Json(of, _) => of.has_columns(),
        }
    }

    /// Reads the next row into `row`; `None` at the end.
    #[inline]
    fn next(
        &mut self,
        lines: &mut Lines,
        whole: u64,
        row: &mut RowValues,
    ) -> Result<Option<Result<RowKind, Fault>>, SourceError> {
        match self {
            Self::Delimited(of) => Ok(lines.next(whole)?.map(|line| of.read(line, row))),
            Self::Json(of, _) if of.is_midway() => Ok(Some(of.read(lines.current(), row))),
            Self::Json(of, reader) => {
                if reader.as_ref().is_some_and(Objects::is_at_start) && objects::is_line(lines)? {
                    *reader = None;
                }
                let has_row = match reader {
                    None => lines.next(whole)?.is_some(),
                    Some(objects) => objects.next(lines, whole)?,
                };
                Ok(has_row.then(|| of.read(lines.current(), row)))
            }
        }
    }

    /// Whether lines are rows, so that a reader can go on behind one that is too long.
    fn has_lines(&self) -> bool {
        !matches!(self, Self::Json(_, Some(_)))
    }
}

/// Result of reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKind {
    /// A row, whose values were read.
    Row,
    /// A row that says that there was no traffic.
    NoTraffic,
    /// No row: a header, a comment or a summary.
    None,
}

/// Number of rows of a flow log by their fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowCounts {
    /// Rows that were read, among them the next three.
    pub read: u64,
    /// Rows that say that there was no traffic.
    pub without_traffic: u64,
    /// Rows that lack an address.
    pub without_address: u64,
    /// Rows that were malformed and passed over.
    pub malformed: u64,
    /// Fault of the first malformed row.
    pub first_malformed: Option<Diagnostic>,
    /// Flows delivered in the direction that opened them.
    pub flows: u64,
    /// Rows delivered of flows that an earlier row has counted.
    pub continued: u64,
    /// Ways back delivered.
    pub ways_back: u64,
    unknown: [u64; Source::ALL.len()],
}

impl Default for FlowCounts {
    fn default() -> Self {
        Self {
            read: 0,
            without_traffic: 0,
            without_address: 0,
            malformed: 0,
            first_malformed: None,
            flows: 0,
            continued: 0,
            ways_back: 0,
            unknown: [0; Source::ALL.len()],
        }
    }
}

impl FlowCounts {
    #[cold]
    fn add_unknown(&mut self, fields: SourceSet) {
        for (count, source) in self.unknown.iter_mut().zip(Source::ALL) {
            *count += u64::from(fields.contains(source));
        }
    }

    /// Returns the fields that made flows unknown ([`Flows::count_unknown_in`]), each with the number of flows.
    pub fn unknown_fields(&self) -> impl Iterator<Item = (Source, u64)> {
        Source::ALL.into_iter().zip(self.unknown).filter(|&(_, count)| count > 0)
    }

    /// Adds the counts of another log.
    pub fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.without_traffic += other.without_traffic;
        self.without_address += other.without_address;
        self.malformed += other.malformed;
        self.first_malformed = self.first_malformed.take().or_else(|| other.first_malformed.clone());
        self.flows += other.flows;
        self.continued += other.continued;
        self.ways_back += other.ways_back;
        self.unknown.iter_mut().zip(other.unknown).for_each(|(count, more)| *count += more);
    }
}

/// Flows of a log, in its order.
pub struct Flows {
    reader: Reader,
    format: FlowFormat,
    lines: Lines,
    skips_bad: bool,
    has_both_ways: bool,
    metadata: u64,
    row: RowValues,
    /// Whether the way back of `row` comes next.
    back_is_due: bool,
    headers: Headers,
    counts: FlowCounts,
    /// Fields that rules need of IPv4 and of IPv6 flows.
    needed: [SourceSet; 2],
    done: bool,
}

/// Flow in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow<'a> {
    /// Headers of its first packet, as far as the log states them.
    pub headers: &'a Headers,
    /// Packets and bytes that it stands for.
    pub weight: FlowWeight,
    /// Whether this is the way back of the flow before it.
    pub is_back: bool,
}

impl Flows {
    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// Returns the format.
    pub fn format(&self) -> FlowFormat {
        self.format
    }

    /// Returns the number of rows so far by their fate.
    pub fn counts(&self) -> &FlowCounts {
        &self.counts
    }

    /// Counts the fields that flows leave open and that `batch` needs, from now on.
    pub fn count_unknown_in(&mut self, batch: &Batch) {
        for (needed, family) in self.needed.iter_mut().zip([Family::Ipv4, Family::Ipv6]) {
            let mut all = (0..batch.schemas()).map(|schema| batch.extractor(schema));
            let of = all.find(|extractor| extractor.family().is_none_or(|of| of == family));
            *needed = of.map_or(SourceSet::NONE, Extractor::needed);
        }
    }

    /// Returns the line of the row last delivered, from 1.
    pub fn line(&self) -> u32 {
        self.lines.line()
    }

    /// Returns what is missing, once [`Flows::next`] has ended a cut compressed stream.
    pub fn cut(&self) -> Option<&Cut> {
        self.lines.cut()
    }

    /// Returns a handle that shows how far reading has come.
    pub fn progress(&self) -> Progress {
        self.lines.progress()
    }

    /// Returns the next flow; `None` at the end, also of a cut stream, and after an error.
    ///
    /// # Errors
    /// If the file cannot be read, its columns are unknown, or a row is malformed, unless such rows are skipped;
    /// [`SourceError::diagnostic`] returns the line.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its headers")]
    pub fn next(&mut self) -> Result<Option<Flow<'_>>, SourceError> {
        if self.done {
            return Ok(None);
        }
        match self.advance() {
            Ok(Some(is_back)) => {
                let weight = if is_back { self.row.back.unwrap_or_default() } else { self.row.there };
                let weight = FlowWeight { flows: u64::from(!self.row.continues), ..weight };
                let of = usize::from(self.headers.family() == Some(Family::Ipv6));
                let open = self.needed[of].intersection(self.headers.unknown());
                if !open.is_empty() {
                    self.counts.add_unknown(open);
                }
                Ok(Some(Flow { headers: &self.headers, weight, is_back }))
            }
            other => {
                self.done = true;
                other.map(|_| None)
            }
        }
    }

    /// Reads up to the next flow, and returns whether it is a way back.
    #[inline]
    fn advance(&mut self) -> Result<Option<bool>, SourceError> {
        let icmp = IcmpInPorts::of(self.format);
        if std::mem::take(&mut self.back_is_due)
            && let Some(fields) = self.row.fields(icmp, true)
        {
            self.counts.ways_back += 1;
            self.headers = Headers::of_flow(&fields, self.metadata);
            return Ok(Some(true));
        }
        loop {
            let read = match self.reader.next(&mut self.lines, self.counts.read, &mut self.row) {
                Ok(Some(read)) => read,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.too_long(error)?;
                    continue;
                }
            };
            match read {
                Ok(RowKind::None) => continue,
                Ok(RowKind::NoTraffic) => self.counts.without_traffic += 1,
                Ok(RowKind::Row) => match self.row.fields(icmp, false) {
                    Some(fields) => {
                        self.counts.read += 1;
                        *if self.row.continues { &mut self.counts.continued } else { &mut self.counts.flows } += 1;
                        self.back_is_due = self.has_both_ways && self.row.has_back();
                        self.headers = Headers::of_flow(&fields, self.metadata);
                        return Ok(Some(false));
                    }
                    None => self.counts.without_address += 1,
                },
                Err(fault) => {
                    let error = self.lines.error(fault);
                    if !self.skips_bad || !self.reader.has_columns() {
                        return Err(error);
                    }
                    self.count_malformed(&error);
                }
            }
            self.counts.read += 1;
        }
    }

    /// Passes over a line that is too long, if malformed rows are skipped.
    #[cold]
    fn too_long(&mut self, error: SourceError) -> Result<(), SourceError> {
        let can_go_on = self.skips_bad && self.reader.has_columns() && self.reader.has_lines();
        if error.diagnostic().is_none() || !can_go_on {
            return Err(error);
        }
        self.count_malformed(&error);
        self.counts.read += 1;
        self.lines.pass_over()
    }

    #[cold]
    fn count_malformed(&mut self, error: &SourceError) {
        self.counts.malformed += 1;
        if self.counts.first_malformed.is_none() {
            self.counts.first_malformed = error.diagnostic().cloned();
        }
    }
}

impl fmt::Debug for FlowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowLog").field("name", &self.name()).field("format", &self.format).finish_non_exhaustive()
    }
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows")
            .field("name", &self.name())
            .field("format", &self.format)
            .field("counts", &self.counts)
            .field("cut", &self.cut())
            .finish_non_exhaustive()
    }
}
