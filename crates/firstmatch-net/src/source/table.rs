//! Tables of header fields: the first line names the fields, each other line is a packet.
//!
//! ```text
//! src,dst,sport,dport,proto,bytes
//! 10.0.0.1,192.0.2.80,40000,443,tcp,1500
//! 10.0.0.2,192.0.2.1,,,icmp,84
//! ```

use std::fmt;

use firstmatch_core::Schema;
use firstmatch_core::rule::FieldValues;
use firstmatch_core::schema::{Field, Source};
use firstmatch_formats::native::parse_value;

use super::lines::{Fault, Lines};
use super::raw::Sniffed;
use super::window::Window;
use super::{Cut, Limits, Progress, SourceError};

/// Table of header fields whose first line [`Table::into_rows`] reads, for given schemas.
pub struct Table {
    lines: Lines,
    progress: Progress,
}

/// Name of the optional column that is no field: the packet's bytes on the wire.
const BYTES: &str = "bytes";

impl Table {
    pub(super) fn new(sniffed: Sniffed, limits: &Limits) -> Self {
        let Sniffed { name, stream, progress, .. } = sniffed;
        Self { lines: Lines::new(name, stream, limits), progress }
    }

    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// Returns a handle that tells how far reading has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
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
    /// the schema in any order, each once. A column `bytes` may be added, unless a field has that name.
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
        match columns(line, schemas) {
            Ok(columns) => {
                let values = FieldValues { family: None, values: vec![None; fields.len()] };
                let (schemas, lines, progress) = (schemas.to_vec(), self.lines, self.progress);
                Ok(Rows { lines, schemas, columns, values, bytes: 0, rows: 0, done: false, progress })
            }
            Err(fault) => Err(self.lines.error(fault)),
        }
    }
}

/// Content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Field(usize),
    Bytes,
}

fn columns(line: &[u8], schemas: &[Schema]) -> Result<Vec<Column>, Fault> {
    let Some(schema) = schemas.first() else { return Ok(Vec::new()) };
    let names = || schema.fields().iter().map(Field::name).collect::<Vec<_>>().join(", ");
    let mut out = Vec::new();
    for cell in cells(line) {
        let cell = cell?;
        let name = String::from_utf8_lossy(cell.bytes);
        let column = match schema.index_of(&name) {
            Some(field) => Column::Field(field),
            None if name == BYTES => Column::Bytes,
            None => {
                let message = if name.is_empty() {
                    "a column without a name".to_owned()
                } else {
                    format!("there is no field {name}")
                };
                return Err(cell.fault(message, &format!("each of {} and, if need be, {BYTES}", names())));
            }
        };
        if out.contains(&column) {
            return Err(cell.fault(format!("there are two columns {name}"), "each column once"));
        }
        out.push(column);
    }
    let missing = (0..schema.fields().len()).find(|&field| !out.contains(&Column::Field(field)));
    if let Some(field) = missing.and_then(|field| schema.fields().get(field)) {
        let message = format!("the column {} is missing", field.name());
        return Err(Fault::new(line.trim_ascii_end().len(), 0, message, Some(&format!("each of {}", names()))));
    }
    Ok(out)
}

/// Rows of a table.
pub struct Rows {
    lines: Lines,
    schemas: Vec<Schema>,
    columns: Vec<Column>,
    values: FieldValues,
    bytes: u32,
    rows: u64,
    done: bool,
    progress: Progress,
}

/// Row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Index of the schema that the row belongs to.
    pub schema: usize,
    /// Values of the row's fields; each fits that schema.
    pub values: &'a FieldValues,
    /// Length of the packet on the wire in bytes; 0 where the table does not state it.
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

    /// Returns a handle that tells how far reading has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
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
        let read = read_row(line, &self.schemas, &self.columns, &mut self.values, &mut self.bytes);
        read.map(Some).map_err(|fault| self.lines.error(fault))
    }
}

fn read_row(
    line: &[u8],
    schemas: &[Schema],
    columns: &[Column],
    values: &mut FieldValues,
    bytes: &mut u32,
) -> Result<usize, Fault> {
    let count = line.iter().filter(|&&byte| byte == b',').count() + 1;
    if count != columns.len() {
        let start = if count < columns.len() { line.trim_ascii_end().len() } else { place_of(line, columns.len()) };
        let end = line.trim_ascii_end().len().max(start);
        let expected = format!("{}, as the first line names", columns.len());
        return Err(Fault::new(start, end - start, format!("this line has {count} columns"), Some(&expected)));
    }
    let which = schema_of(line, schemas, columns)?;
    let Some(schema) = schemas.get(which) else { return Ok(0) };
    values.family = schema.family();
    for (cell, &column) in cells(line).zip(columns) {
        let cell = cell?;
        match column {
            Column::Bytes => *bytes = cell.number()?,
            Column::Field(index) => {
                if let (Some(value), Some(field)) = (values.values.get_mut(index), schema.fields().get(index)) {
                    *value = match cell.bytes {
                        [] if field.is_optional() => None,
                        _ => Some(cell.value(schema, index)?),
                    };
                }
            }
        }
    }
    Ok(which)
}

/// Returns the offset of the comma before the column of index `column`.
///
/// For example, column 2 of `a,b,c` has its comma at offset 3. The result is the length of the line where it has no
/// such column.
fn place_of(line: &[u8], column: usize) -> usize {
    let mut commas = line.iter().enumerate().filter(|(_, byte)| **byte == b',').map(|(at, _)| at);
    commas.nth(column.saturating_sub(1)).unwrap_or(line.len())
}

/// Returns the index of the schema that a line belongs to.
///
/// With two schemas it is the one of the first address's family.
fn schema_of(line: &[u8], schemas: &[Schema], columns: &[Column]) -> Result<usize, Fault> {
    let [first, second] = schemas else { return Ok(0) };
    let is_address = |column: &Column| match column {
        Column::Field(index) => {
            matches!(first.fields().get(*index).and_then(Field::source), Some(Source::Src | Source::Dst))
        }
        Column::Bytes => false,
    };
    let Some((cell, _)) = cells(line).zip(columns).find(|(_, column)| is_address(column)) else { return Ok(0) };
    let six = cell?.bytes.contains(&b':');
    let of = |schema: &Schema| schema.family().is_some_and(|family| (family.address_bits() == 128) == six);
    Ok(usize::from(!of(first) && of(second)))
}

/// Cell of a line without blanks and quotes around it, and its offset in the line.
#[derive(Clone, Copy)]
struct Cell<'a> {
    start: usize,
    bytes: &'a [u8],
}

fn cells(line: &[u8]) -> impl Iterator<Item = Result<Cell<'_>, Fault>> {
    let mut at = 0;
    line.split(|&byte| byte == b',').map(move |bytes| {
        let start = at + bytes.len() - bytes.trim_ascii_start().len();
        at += bytes.len() + 1;
        let bytes = bytes.trim_ascii();
        match bytes {
            [b'"', inside @ .., b'"'] => Ok(Cell { start: start + 1, bytes: inside.trim_ascii() }),
            [b'"', ..] => {
                Err(Cell { start, bytes }.fault("a quote without its end".to_owned(), "a value, or one between quotes"))
            }
            _ => Ok(Cell { start, bytes }),
        }
    })
}

impl Cell<'_> {
    fn fault(&self, message: String, expected: &str) -> Fault {
        Fault::new(self.start, self.bytes.len(), message, Some(expected))
    }

    fn value(&self, schema: &Schema, field: usize) -> Result<u128, Fault> {
        let Ok(text) = std::str::from_utf8(self.bytes) else {
            return Err(self.fault("this is not UTF-8".to_owned(), "text in UTF-8"));
        };
        parse_value(schema, field, text).map_err(|error| {
            let name = schema.fields().get(field).map_or("", |field| field.name());
            let what = if text.is_empty() { format!("{name} is never absent") } else { error.what().to_owned() };
            self.fault(what, error.expected())
        })
    }

    /// Returns the cell as a length in bytes; 0 for an empty cell.
    fn number(&self) -> Result<u32, Fault> {
        let digits = self
            .bytes
            .iter()
            .try_fold(0u32, |value, digit| value.checked_mul(10)?.checked_add(char::from(*digit).to_digit(10)?));
        digits.ok_or_else(|| {
            let text = String::from_utf8_lossy(self.bytes);
            self.fault(format!("{text} is no number of bytes"), "a number up to 4294967295")
        })
    }
}

/// Whether `prefix` begins a table.
///
/// The first line that is neither blank nor a comment then names columns.
pub(super) fn is_table(prefix: &[u8]) -> bool {
    let text = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    let mut lines = text.split(|&byte| byte == b'\n');
    let Some(line) = lines.find(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#")) else { return false };
    let is_name = |cell: &[u8]| {
        let cell = cell.trim_ascii();
        let cell = cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell).trim_ascii();
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        cell.first().is_some_and(u8::is_ascii_alphabetic) && cell.iter().all(inside)
    };
    // The first column is enough, because a fault in the others is shown by line and column.
    line.split(|&byte| byte == b',').next().is_some_and(is_name)
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
