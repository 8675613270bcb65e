//! Columns of the caller's as fields of a schema, or as frames.

use firstmatch::core::Schema;
use firstmatch::core::schema::{Family, Field};

use super::abi::{Bytes, Child, Column, Fixed, Validity, Values};
use crate::status::{Failure, Status};

/// Values of one field.
#[derive(Debug)]
pub(crate) struct FieldColumn<'a> {
    max: u128,
    pub(crate) is_optional: bool,
    /// Values with their validity; `None` if every row is null.
    values: Option<(Validity<'a>, Reader<'a>)>,
}

/// Value that its field cannot have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfRange;

/// Format of a column of nulls, which has no buffer.
const NULL: &str = "n";

/// Values by their format.
#[derive(Debug)]
enum Reader<'a> {
    U8(Values<'a, u8>),
    U16(Values<'a, u16>),
    U32(Values<'a, u32>),
    U64(Values<'a, u64>),
    I8(Values<'a, i8>),
    I16(Values<'a, i16>),
    I32(Values<'a, i32>),
    I64(Values<'a, i64>),
    /// Bytes in network order.
    Bytes(Fixed<'a>),
    /// IPv4 addresses as IPv4-mapped IPv6.
    Mapped(Fixed<'a>),
}

/// Returns the big-endian number of some bytes.
fn big_endian(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte))
}

/// Whether a column has the addresses of a packet.
fn is_address(name: &str) -> bool {
    name == "src" || name == "dst"
}

fn unsupported(column: &Column<'_>) -> Failure {
    Failure::new(Status::Unsupported, format!("column \"{}\" has the format \"{}\"", column.name, column.format))
}

/// Returns the number of bytes of a format of fixed binary.
fn fixed(format: &str) -> Option<usize> {
    format.strip_prefix("w:")?.parse().ok().filter(|bytes| (1..=16).contains(bytes))
}

impl<'a> FieldColumn<'a> {
    fn new(child: Option<&Child<'a>>, field: &Field, family: Option<Family>) -> Result<Self, Failure> {
        let (max, is_optional) = (field.max(), field.is_optional());
        let Some(child) = child.filter(|child| child.format != NULL) else {
            return Ok(Self { max, is_optional, values: None });
        };
        let column = child.column()?;
        let reader = match column.format {
            "C" => Reader::U8(column.values(1, 0)?),
            "S" => Reader::U16(column.values(1, 0)?),
            "I" => Reader::U32(column.values(1, 0)?),
            "L" => Reader::U64(column.values(1, 0)?),
            "c" => Reader::I8(column.values(1, 0)?),
            "s" => Reader::I16(column.values(1, 0)?),
            "i" => Reader::I32(column.values(1, 0)?),
            "l" => Reader::I64(column.values(1, 0)?),
            format => match fixed(format).ok_or_else(|| unsupported(&column))? {
                16 if family == Some(Family::Ipv4) && is_address(field.name()) => Reader::Mapped(column.fixed(1, 16)?),
                bytes => Reader::Bytes(column.fixed(1, bytes)?),
            },
        };
        Ok(Self { max, is_optional, values: Some((column.validity()?, reader)) })
    }

    /// Returns the value of a row; `None` for null.
    pub(crate) fn get(&self, row: usize) -> Result<Option<u128>, OutOfRange> {
        let Some((_, reader)) = self.values.as_ref().filter(|(validity, _)| validity.has(row)) else {
            return Ok(None);
        };
        let value = match reader {
            Reader::U8(values) => Some(values.get(row).into()),
            Reader::U16(values) => Some(values.get(row).into()),
            Reader::U32(values) => Some(values.get(row).into()),
            Reader::U64(values) => Some(values.get(row).into()),
            Reader::I8(values) => u128::try_from(values.get(row)).ok(),
            Reader::I16(values) => u128::try_from(values.get(row)).ok(),
            Reader::I32(values) => u128::try_from(values.get(row)).ok(),
            Reader::I64(values) => u128::try_from(values.get(row)).ok(),
            Reader::Bytes(values) => Some(big_endian(values.get(row))),
            Reader::Mapped(values) => {
                let address = big_endian(values.get(row));
                (address >> 32 == 0xFFFF).then_some(address & 0xFFFF_FFFF)
            }
        };
        value.filter(|&value| value <= self.max).map(Some).ok_or(OutOfRange)
    }
}

/// Returns the index of the schema for columns: the one of the family asked for, otherwise of the columns' addresses.
pub(crate) fn schema_of(schemas: &[Schema], columns: &[Child<'_>], asked: Option<Family>) -> Result<usize, Failure> {
    if schemas.len() == 1 && asked.is_none() {
        return Ok(0);
    }
    let has_addresses = |column: &&Child<'_>| is_address(column.name) && column.format != NULL;
    let by_column = |column: &Child<'_>| if fixed(column.format) == Some(16) { Family::Ipv6 } else { Family::Ipv4 };
    let family = asked.or_else(|| columns.iter().find(has_addresses).map(by_column));
    let family = family.ok_or_else(|| {
        Failure::invalid("no column \"src\" or \"dst\" has the family of the rows, and the options do not say it")
    })?;
    let index = schemas.iter().position(|schema| schema.family() == Some(family));
    index.ok_or_else(|| Failure::invalid("the rules have no schema for the family of the columns"))
}

/// Returns a column for each field of a schema; every row is null where there is none.
///
/// # Errors
/// If no column has the name of a field, two have the same, or one has a format that is not read.
pub(crate) fn fields_of<'a>(schema: &Schema, columns: &[Child<'a>]) -> Result<Vec<FieldColumn<'a>>, Failure> {
    if !schema.fields().iter().any(|field| columns.iter().any(|column| column.name == field.name())) {
        let names: Vec<_> = schema.fields().iter().map(Field::name).collect();
        return Err(Failure::invalid(format!("no column has the name of a field: {}", names.join(", "))));
    }
    let of_field = |field: &Field| {
        let mut named = columns.iter().filter(|column| column.name == field.name());
        let first = named.next();
        if named.next().is_some() {
            return Err(Failure::invalid(format!("two columns are named \"{}\"", field.name())));
        }
        FieldColumn::new(first, field, schema.family())
    };
    schema.fields().iter().map(of_field).collect()
}

/// Frames of a column of binary.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    name: &'a str,
    validity: Validity<'a>,
    offsets: Offsets<'a>,
    bytes: Bytes<'a>,
}

#[derive(Debug)]
enum Offsets<'a> {
    Small(Values<'a, i32>),
    Large(Values<'a, i64>),
}

impl<'a> Frames<'a> {
    /// Returns the frames of a column; `None` if it is not binary.
    pub(crate) fn new(column: &Column<'a>) -> Result<Option<Self>, Failure> {
        let offsets = match column.format {
            "z" => Offsets::Small(column.values(1, 1)?),
            "Z" => Offsets::Large(column.values(1, 1)?),
            _ => return Ok(None),
        };
        Ok(Some(Self { name: column.name, validity: column.validity()?, offsets, bytes: column.bytes(2)? }))
    }

    /// Returns the frame of a row, which is empty for null.
    pub(crate) fn get(&self, row: usize) -> Result<&'a [u8], Failure> {
        if !self.validity.has(row) {
            return Ok(&[]);
        }
        let (start, end) = match &self.offsets {
            Offsets::Small(offsets) => (i64::from(offsets.get(row)), i64::from(offsets.get(row + 1))),
            Offsets::Large(offsets) => (offsets.get(row), offsets.get(row + 1)),
        };
        let span = usize::try_from(start).ok().zip(usize::try_from(end).ok()).filter(|(start, end)| start <= end);
        let (start, end) = span.ok_or_else(|| {
            Failure::invalid(format!("row {row} of column \"{}\" goes from byte {start} to {end}", self.name))
        })?;
        // SAFETY: offsets lie in the buffer of bytes by Arrow's specification.
        Ok(unsafe { self.bytes.get(start, end - start) })
    }
}
