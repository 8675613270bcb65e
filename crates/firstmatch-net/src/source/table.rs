//! Tables of header fields: the first line names the fields, and each other line is a packet.
//!
//! ```text
//! src,dst,sport,dport,proto,bytes
//! 10.0.0.1,192.0.2.80,40000,443,tcp,1500
//! 10.0.0.2,192.0.2.1,,,icmp,84
//! ```
//!
//! Semicolons or tabs may separate the cells, and columns may have the names of tshark. For example, this writes a
//! table: `tshark -T fields -E header=y -E occurrence=f -e ip.src -e ip.dst -e ip.proto -e tcp.srcport …`.

use std::fmt;

use firstmatch_core::Schema;
use firstmatch_core::rule::FieldValues;
use firstmatch_core::schema::{Field, IPV6_EXTENSIONS, Source};
use firstmatch_formats::native::parse_value;
use firstmatch_formats::{parse_ipv4, parse_ipv6};

use super::cells::{Cell, Cells, separator};
use super::columns::{Column, columns};
use super::decimal::decimal;
use super::lines::{Fault, Lines};
use super::raw::Sniffed;
use super::window::Window;
use super::{Cut, Limits, Progress, SourceError};

/// Table of header fields whose first line [`Table::into_rows`] reads, for given schemas.
pub struct Table {
    lines: Lines,
}

impl Table {
    pub(super) fn new(sniffed: Sniffed, limits: &Limits) -> Self {
        Self::of_lines(Lines::new(sniffed, limits))
    }

    pub(super) fn of_lines(lines: Lines) -> Self {
        Self { lines }
    }

    pub(super) fn into_lines(self) -> Lines {
        self.lines
    }

    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// Returns a handle that shows how far reading has come.
    pub fn progress(&self) -> Progress {
        self.lines.progress()
    }

    pub(super) fn window(&mut self) -> &mut Window {
        self.lines.window()
    }

    /// Returns the error for a caller that wants another format.
    pub fn refused(&self, wanted: &'static str) -> SourceError {
        SourceError::not(self.name(), "a table of header fields", wanted)
    }

    /// Reads the first line and returns the rows for a rule set's schemas.
    ///
    /// With two schemas, the first address of a row decides which one the row belongs to. The columns are the fields of
    /// the schema in any order, each once. A field may also have several columns with names of tshark, of which a row
    /// fills one. A column `bytes` may be added, unless a field has that name. Columns of fields that the schema lacks
    /// are ignored.
    ///
    /// # Errors
    /// If the file cannot be read, or the first line names a column that is no field or leaves one out.
    ///
    /// # Panics
    /// If `schemas` is empty or its first schema has no fields.
    pub fn into_rows(mut self, schemas: &[Schema]) -> Result<Rows, SourceError> {
        let fields = schemas.first().map_or(&[][..], Schema::fields);
        assert!(!fields.is_empty(), "a table is read for a schema");
        let Some(line) = self.lines.next(0)? else {
            let what = "there is no line that names the columns".to_owned();
            return Err(self.lines.error(Fault::new(0, 0, what, Some("the names of fields between commas"))));
        };
        let mut cells = Cells::new(separator(line));
        match cells.read(line).and_then(|()| columns(line, &cells, &schemas[0])) {
            Ok(columns) => {
                let values = FieldValues { family: None, values: vec![None; fields.len()] };
                let (schemas, lines) = (schemas.to_vec(), self.lines);
                Ok(Rows { lines, cells, schemas, columns, values, bytes: 0, rows: 0, done: false })
            }
            Err(fault) => Err(self.lines.error(fault)),
        }
    }
}

/// Rows of a table.
pub struct Rows {
    lines: Lines,
    cells: Cells,
    schemas: Vec<Schema>,
    columns: Vec<Column>,
    values: FieldValues,
    bytes: u32,
    rows: u64,
    done: bool,
}

/// Row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Index of the schema that the row belongs to.
    pub schema: usize,
    /// Values of the row's fields; each fits that schema.
    pub values: &'a FieldValues,
    /// Length of the packet on the wire in bytes; 0 if the table does not state it.
    pub bytes: u32,
}

impl Rows {
    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// Returns the number of rows delivered so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the line of the row last delivered, from 1.
    pub fn line(&self) -> u32 {
        self.lines.line()
    }

    /// Returns what is missing, once [`Rows::next`] has ended a cut compressed stream.
    pub fn cut(&self) -> Option<&Cut> {
        self.lines.cut()
    }

    /// Returns a handle that shows how far reading has come.
    pub fn progress(&self) -> Progress {
        self.lines.progress()
    }

    /// Returns the next row; `None` at the end, also of a cut stream, and after an error.
    ///
    /// # Errors
    /// If the file cannot be read or a line is no row; [`SourceError::diagnostic`] returns the line.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its values")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, SourceError> {
        if self.done {
            return Ok(None);
        }
        match self.advance() {
            Ok(Some(schema)) => {
                self.rows += 1;
                Ok(Some(Row { schema, values: &self.values, bytes: self.bytes }))
            }
            other => {
                self.done = true;
                other.map(|_| None)
            }
        }
    }

    /// Reads the next line into `values` and `bytes` and returns the index of its schema.
    fn advance(&mut self) -> Result<Option<usize>, SourceError> {
        let Some(line) = self.lines.next(self.rows)? else { return Ok(None) };
        let read = read_row(line, &mut self.cells, &self.schemas, &self.columns, &mut self.values, &mut self.bytes);
        read.map(Some).map_err(|fault| self.lines.error(fault))
    }
}

/// Reads a line into `values` and `bytes` and returns the index of its schema.
fn read_row(
    line: &[u8],
    cells: &mut Cells,
    schemas: &[Schema],
    columns: &[Column],
    values: &mut FieldValues,
    bytes: &mut u32,
) -> Result<usize, Fault> {
    cells.read(line)?;
    let count = cells.len();
    if count != columns.len() {
        let (start, end) = (cells.end_of(line, columns.len()), line.trim_ascii_end().len());
        let expected = format!("{}, as the first line names", columns.len());
        let message = format!("this line has {count} columns");
        return Err(Fault::new(start, end.saturating_sub(start), message, Some(&expected)));
    }
    let which = schema_of(cells, schemas, columns);
    let Some(schema) = schemas.get(which) else { return Ok(0) };
    values.family = schema.family();
    values.values.fill(None);
    for (cell, &column) in cells.iter().zip(columns) {
        if column == Column::Bytes {
            *bytes = cell.number()?;
        }
        let Some(index) = column.field().filter(|_| !cell.bytes.is_empty()) else { continue };
        let value = value_of(&cell, schema, index)?;
        if matches!(column, Column::NextHeader(_)) && IPV6_EXTENSIONS.iter().any(|&number| value == number.into()) {
            let message = format!("{value} is an extension header, behind which the protocol is");
            return Err(cell.fault(message, "the number of a protocol"));
        }
        if let Some(place) = values.values.get_mut(index)
            && place.replace(value).is_some()
        {
            let name = schema.fields().get(index).map_or("", Field::name);
            let message = format!("a second value of {name}");
            return Err(cell.fault(message, "a value in one of the columns of this field"));
        }
    }
    let fields = values.values.iter().zip(schema.fields()).enumerate();
    let missing = fields.filter(|(_, (value, field))| value.is_none() && !field.is_optional()).map(|(index, _)| index);
    for index in missing {
        let mut of_field = cells.iter().zip(columns).filter(|(_, column)| column.field() == Some(index));
        if let Some((cell, _)) = of_field.next() {
            // Called for its error, which describes the values of this field.
            value_of(&cell, schema, index)?;
        }
    }
    Ok(which)
}

/// Returns the index of the schema that a line belongs to.
///
/// With two schemas it is the one of the first address's family.
fn schema_of(cells: &Cells, schemas: &[Schema], columns: &[Column]) -> usize {
    let [first, second] = schemas else { return 0 };
    let is_address = |column: &Column| {
        let source = column.field().and_then(|index| first.fields().get(index)?.source());
        matches!(source, Some(Source::Src | Source::Dst))
    };
    let mut addresses = cells.iter().zip(columns).filter(|(cell, column)| is_address(column) && !cell.bytes.is_empty());
    let Some((cell, _)) = addresses.next() else { return 0 };
    let six = cell.bytes.contains(&b':');
    let of = |schema: &Schema| schema.family().is_some_and(|family| (family.address_bits() == 128) == six);
    usize::from(!of(first) && of(second))
}

/// Reads a cell as the value of a field.
#[inline]
fn value_of(cell: &Cell<'_>, schema: &Schema, field: usize) -> Result<u128, Fault> {
    match plain_value(cell.bytes, schema, field) {
        Some(value) => Ok(value),
        None => any_value(cell, schema, field),
    }
}

/// Reads an address or the decimal number of a protocol or port, which most cells hold; `None` for any other text.
#[inline]
fn plain_value(text: &[u8], schema: &Schema, index: usize) -> Option<u128> {
    let field = schema.fields().get(index)?;
    match (field.source()?, field.width()) {
        (Source::Src | Source::Dst | Source::Ipv4Src | Source::Ipv4Dst, 32) => parse_ipv4(text).map(u128::from),
        (Source::Src | Source::Dst, 128) => parse_ipv6(text),
        (Source::Proto | Source::IpProto | Source::SrcPort | Source::DstPort | Source::TpSrc | Source::TpDst, _) => {
            let is_plain = text.len() == 1 || text.first() != Some(&b'0');
            decimal(text).map(u128::from).filter(|&value| is_plain && value <= field.max())
        }
        _ => None,
    }
}

/// Reads a cell in any of the notations of rules.
fn any_value(cell: &Cell<'_>, schema: &Schema, field: usize) -> Result<u128, Fault> {
    let Ok(text) = std::str::from_utf8(cell.bytes) else {
        return Err(cell.fault("this is not UTF-8".to_owned(), "text in UTF-8"));
    };
    parse_value(schema, field, text).map_err(|error| {
        let name = schema.fields().get(field).map_or("", Field::name);
        let what = if text.is_empty() { format!("{name} is never absent") } else { error.what().to_owned() };
        cell.fault(what, error.expected())
    })
}

/// Whether `prefix` begins a table.
///
/// That is the case if the first line that is neither blank nor a comment names columns.
pub(super) fn is_table(prefix: &[u8]) -> bool {
    let text = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    let mut lines = text.split(|&byte| byte == b'\n');
    let Some(line) = lines.find(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#")) else { return false };
    let is_name = |cell: &[u8]| {
        let cell = cell.trim_ascii();
        let cell = cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell).trim_ascii();
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        cell.first().is_some_and(u8::is_ascii_alphabetic) && cell.iter().all(inside)
    };
    // The first column is enough, because a fault in another one is reported by line and column.
    let separator = separator(line);
    line.split(|&byte| byte == separator).next().is_some_and(is_name)
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("name", &self.name())
            .field("columns", &self.columns)
            .field("rows", &self.rows)
            .field("cut", &self.cut())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_values_are_those_of_rules() {
        let numbers = (0..300u32).chain([9999, 65_535, 65_536, 1 << 24, u32::MAX]).map(|number| number.to_string());
        let others =
            ["", "-1", "007", "00", "0x6", "1.2.3", "1.2.3.4", "1.2.3.04", "::", "1::2", "::1.2.3.4", "tcp", "1 "];
        let texts: Vec<String> = numbers.chain(others.map(str::to_owned)).collect();
        let mut plain = 0;
        for schema in [Schema::ipv4(), Schema::ipv6(), Schema::openflow()] {
            for (index, text) in
                (0..schema.fields().len()).flat_map(|index| texts.iter().map(move |text| (index, text)))
            {
                if let Some(value) = plain_value(text.as_bytes(), &schema, index) {
                    assert_eq!(parse_value(&schema, index, text).ok(), Some(value), "{index} {text}");
                    plain += 1;
                }
            }
        }
        assert!(plain > 2000, "{plain}");
    }
}
