//! Columns of the caller's as fields of packets, or as frames.

use firstmatch::core::Schema;
use firstmatch::core::schema::{Family, Field, Source};
use firstmatch_columns::{Bytes, Column, Content, Decoder, Input, NumberText, Prepared, Values, family_of};

use super::abi::{Array, Child, Copies, NULL};
use crate::status::{Failure, Status};

/// Columns with the names of fields, ready to be decoded.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    pub(crate) decoder: Decoder,
    /// Values of each field of the decoder.
    pub(crate) inputs: Vec<Input<'a>>,
}

impl<'a> Fields<'a> {
    /// Returns the columns for the fields of rules, for rows of the family asked for, if there is one.
    ///
    /// # Errors
    /// If no column has the name of a field, two have the same, one has a format that is not read, or nothing says of
    /// which family the rows are.
    pub(crate) fn new(
        schemas: &[Schema],
        columns: &[Child<'a>],
        copies: &'a Copies,
        asked: Option<Family>,
    ) -> Result<Self, Failure> {
        // Schemas of two families have the same fields.
        let fields = schemas[0].fields();
        if !fields.iter().any(|field| columns.iter().any(|column| column.name == field.name())) {
            let names: Vec<_> = fields.iter().map(Field::name).collect();
            return Err(Failure::invalid(format!("no column has the name of a field: {}", names.join(", "))));
        }
        let of_field = |field: &Field| {
            let mut named = columns.iter().filter(|column| column.name == field.name());
            let first = named.next().filter(|column| column.format != NULL);
            if named.next().is_some() {
                return Err(Failure::invalid(format!("two columns are named \"{}\"", field.name())));
            }
            first.map(|column| column.column(copies)).transpose()
        };
        let values: Vec<_> = fields.iter().map(of_field).collect::<Result<_, _>>()?;
        let addresses = fields.iter().zip(&values).filter(|(field, _)| is_address(field));
        let fixed = schema_of(schemas, addresses.filter_map(|(_, column)| column.as_ref()), asked)?;
        let schema = fixed.map(|index| &schemas[index]);
        let input = |(field, column): (&Field, Option<Column<'a>>)| match column {
            None => Input::Absent,
            Some(column) => {
                let content = content_of(field, &column, schema);
                Input::Columns(vec![Prepared::new(column, content)])
            }
        };
        let inputs = fields.iter().zip(values).map(input).collect();
        Ok(Self { decoder: Decoder::new(schemas, fixed, false), inputs })
    }
}

/// Whether a field has an address of a packet.
fn is_address(field: &Field) -> bool {
    matches!(field.source(), Some(Source::Src | Source::Dst))
}

/// Returns the only family that addresses in a column can have; `None` if each row has its own.
fn only_family(column: &Column<'_>) -> Option<Family> {
    match column.values() {
        Values::Dictionary(_, values) => only_family(values),
        Values::Binary(Bytes::Fixed(_, width)) if *width != 16 => Some(Family::Ipv4),
        _ => family_of(column),
    }
}

/// Returns the index of the schema of all rows, by the family asked for or the columns of addresses; `None` if each row
/// has its own.
fn schema_of<'c, 'a: 'c>(
    schemas: &[Schema],
    mut addresses: impl Iterator<Item = &'c Column<'a>>,
    asked: Option<Family>,
) -> Result<Option<usize>, Failure> {
    let mut has_addresses = false;
    let known = addresses.find_map(|column| {
        has_addresses = true;
        only_family(column)
    });
    let is_mixed = asked.is_none() && known.is_none() && has_addresses;
    let can_differ = |schema: &Schema| {
        let has = |source| schema.index_of_source(source).is_some();
        schema.family().is_some() && has(Source::Src) && has(Source::Dst)
    };
    if is_mixed && schemas.iter().all(can_differ) {
        return Ok(None);
    }
    if schemas.len() == 1 && asked.is_none() {
        return Ok(Some(0));
    }
    let family = asked.or(known).ok_or_else(|| {
        Failure::invalid("no column \"src\" or \"dst\" has the family of the rows, and the options do not say it")
    })?;
    let index = schemas.iter().position(|schema| schema.family() == Some(family));
    index.map(Some).ok_or_else(|| Failure::invalid("the rules have no schema for the family of the columns"))
}

/// Returns the way to read the column of a field, for rows of a schema or of each row's own.
fn content_of(field: &Field, column: &Column<'_>, schema: Option<&Schema>) -> Content {
    let content = Content::of(field);
    let Some(schema) = schema.filter(|_| content == Content::Address) else { return content };
    let values = match column.values() {
        Values::Dictionary(_, values) => values.values(),
        values => values,
    };
    let max = schema.index_of(field.name()).map_or(field.max(), |at| schema.fields()[at].max());
    match values {
        _ if is_address(field) && schema.family() == Some(Family::Ipv4) => Content::MappedIpv4,
        // Numbers have the family of the schema, whatever their width.
        Values::Integers(_) | Values::Binary(Bytes::Fixed(..)) => Content::Number { max, text: NumberText::Decimal },
        _ => content,
    }
}

/// Whether values of a format are frames.
fn is_frames(format: &str) -> bool {
    matches!(format, "z" | "Z" | "vz")
}

/// Frames of a column of binary.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    name: &'a str,
    column: Column<'a>,
}

impl<'a> Frames<'a> {
    /// Returns the frames of an array.
    ///
    /// # Errors
    /// If it is not of binary, or as [`Child::column`].
    pub(crate) fn of_array(array: &Array<'a>, copies: &'a Copies) -> Result<Self, Failure> {
        if !is_frames(array.format) || array.has_dictionary() {
            let message = format!("the array has the format \"{}\", not a struct or binary", array.format);
            return Err(Failure::new(Status::Unsupported, message));
        }
        Ok(Self { name: array.name, column: array.column(copies)? })
    }

    /// Returns the frames of a column of a struct.
    ///
    /// # Errors
    /// As [`Frames::of_array`].
    pub(crate) fn of_child(child: &Child<'a>, copies: &'a Copies) -> Result<Self, Failure> {
        if !is_frames(child.format) {
            return Err(Failure::invalid(format!("column \"frame\" has the format \"{}\"", child.format)));
        }
        Ok(Self { name: child.name, column: child.column(copies)? })
    }

    /// Returns the frame of a row, which is empty for null.
    ///
    /// # Errors
    /// If its bytes do not lie in their buffer.
    pub(crate) fn get(&self, row: usize) -> Result<&[u8], Failure> {
        if !self.column.has(row) {
            return Ok(&[]);
        }
        let outside = || Failure::invalid(format!("row {row} of column \"{}\" lies outside of its buffer", self.name));
        self.column.bytes(row).ok_or_else(outside)
    }
}
