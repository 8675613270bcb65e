//! Decoded values of a block of rows.

use std::ops::Range;

use firstmatch::core::schema::{Family, Field, IPV6_EXTENSIONS, Source};
use firstmatch::formats::{parse_ipv4, parse_ipv6};

use crate::column::{Bytes, Column, Integers, Values, each_type, fixed, large, small, view};
use crate::text::{ethernet, is_blank, number, protocol};

/// Kinds of a decoded value.
pub(crate) mod kind {
    /// No value.
    pub(crate) const NULL: u8 = 0;
    /// A value of at most 32 bits, among them an IPv4 address.
    pub(crate) const NARROW: u8 = 1;
    /// A value of a field of more than 32 bits, among them an IPv6 address.
    pub(crate) const WIDE: u8 = 2;
    /// Something that is no value of the field.
    pub(crate) const BAD: u8 = 3;
}
use kind::{BAD, NARROW, NULL, WIDE};

/// Content of a column: the way its bytes, texts and integers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Addresses: text, 4 or 16 bytes in network order, or integers of at most 32 bits for IPv4.
    Address,
    /// Numbers up to `max`: integers, up to 16 bytes in network order, or text.
    Number {
        /// Largest number.
        max: u128,
        /// Spelling of numbers in text.
        text: NumberText,
    },
    /// IPv4 addresses: text, integers, or bytes as [`Content::Number`] reads them, but 16 bytes and IPv6 addresses in text
    /// are IPv4-mapped.
    MappedIpv4,
}

/// Spelling of numbers in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberText {
    /// Decimal, or hexadecimal behind `0x`.
    Decimal,
    /// Hexadecimal.
    Hexadecimal,
    /// Decimal, or the name of an IP protocol.
    Protocol,
    /// The same of IPv6's next header: null where that is an extension header, behind which the protocol stands.
    NextHeader,
    /// Address of Ethernet, as `00:1b:21:00:00:0a`.
    Ethernet,
}

impl Content {
    /// Returns the content of a column that fills a field.
    pub fn of(field: &Field) -> Self {
        let text = match field.source() {
            Some(Source::Src | Source::Dst | Source::Ipv4Src | Source::Ipv4Dst) => return Self::Address,
            Some(Source::Proto | Source::IpProto) => NumberText::Protocol,
            Some(Source::EthSrc | Source::EthDst) => NumberText::Ethernet,
            _ => NumberText::Decimal,
        };
        Self::Number { max: field.max(), text }
    }

    /// Whether values are of the kind [`WIDE`].
    fn is_wide(self) -> bool {
        matches!(self, Self::Number { max, .. } if max > u32::MAX.into())
    }
}

/// Decoded values of a block, one a row.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    pub(crate) kinds: Vec<u8>,
    /// Values of the kind [`NARROW`].
    pub(crate) narrow: Vec<u32>,
    /// Values of the kind [`WIDE`]; shorter than the block if there is none.
    pub(crate) wide: Vec<u128>,
}

/// Value that one text or byte string stands for.
#[derive(Clone, Copy)]
enum Read {
    Null,
    Narrow(u32),
    Wide(u128),
    Bad,
}

impl Cells {
    /// Returns the value of a row: `Ok(None)` for null.
    ///
    /// # Errors
    /// If the row has something that is no value of the column's content.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn get(&self, row: usize) -> Result<Option<u128>, Malformed> {
        match self.kinds[row] {
            NULL => Ok(None),
            NARROW => Ok(Some(self.narrow[row].into())),
            WIDE => Ok(Some(self.wide[row])),
            _ => Err(Malformed),
        }
    }

    /// Replaces the cells by the values of some rows of a column.
    ///
    /// # Panics
    /// If the column does not have these rows.
    pub fn decode(&mut self, column: &Column<'_>, rows: Range<usize>, content: Content) {
        assert!(rows.end <= column.rows(), "the column has {} rows", column.rows());
        self.resize(rows.len());
        self.decode_values(column, rows, content);
        if matches!(content, Content::Number { text: NumberText::NextHeader, .. }) {
            for (kind, &protocol) in self.kinds.iter_mut().zip(&self.narrow) {
                let is_extension = IPV6_EXTENSIONS.iter().any(|&extension| protocol == u32::from(extension));
                *kind = if *kind == NARROW && is_extension { NULL } else { *kind };
            }
        }
    }

    fn decode_values(&mut self, column: &Column<'_>, rows: Range<usize>, content: Content) {
        match column.values() {
            Values::Null => self.kinds.fill(NULL),
            Values::Integers(integers) => self.integers(*integers, column, rows, content),
            Values::Text(bytes) => self.texts(bytes, column, rows, content, |row| row),
            Values::Binary(bytes) => self.binaries(bytes, column, rows, content, |row| row),
            Values::Dictionary(indices, values) => match values.values() {
                Values::Text(bytes) if !values.may_have_nulls() => {
                    self.texts(bytes, column, rows, content, |row| indices.at(row));
                }
                Values::Binary(bytes) if !values.may_have_nulls() => {
                    self.binaries(bytes, column, rows, content, |row| indices.at(row));
                }
                _ => self.by_row(column, rows, content),
            },
        }
    }

    /// Decodes texts; the one of a row is at `at(row)`.
    fn texts(
        &mut self,
        bytes: &Bytes<'_>,
        column: &Column<'_>,
        rows: Range<usize>,
        content: Content,
        at: impl Fn(usize) -> usize,
    ) {
        match content {
            Content::Address => self.bytes(bytes, column, rows, at, address_text),
            Content::MappedIpv4 => self.bytes(bytes, column, rows, at, |text| mapped(address_text(text))),
            Content::Number { max, text: NumberText::Decimal } => {
                self.bytes(bytes, column, rows, at, |text| decimal(text, max));
            }
            Content::Number { max, text } => self.bytes(bytes, column, rows, at, |it| number_text(it, max, text)),
        }
    }

    /// Decodes byte strings; the one of a row is at `at(row)`.
    fn binaries(
        &mut self,
        bytes: &Bytes<'_>,
        column: &Column<'_>,
        rows: Range<usize>,
        content: Content,
        at: impl Fn(usize) -> usize,
    ) {
        match content {
            Content::Address => self.bytes(bytes, column, rows, at, address_bytes),
            Content::Number { max, .. } => self.bytes(bytes, column, rows, at, |it| number_bytes(it, max)),
            Content::MappedIpv4 => self.bytes(bytes, column, rows, at, mapped_bytes),
        }
    }

    /// Makes room for `rows` rows. Old values stay.
    pub(crate) fn resize(&mut self, rows: usize) {
        self.kinds.resize(rows, NULL);
        self.narrow.resize(rows, 0);
    }

    fn set(&mut self, index: usize, read: Read) {
        self.kinds[index] = match read {
            Read::Null => NULL,
            Read::Bad => BAD,
            Read::Narrow(value) => {
                self.narrow[index] = value;
                NARROW
            }
            Read::Wide(value) => {
                if self.wide.len() < self.kinds.len() {
                    self.wide.resize(self.kinds.len(), 0);
                }
                self.wide[index] = value;
                WIDE
            }
        };
    }

    /// Sets all rows to null, or to a value: the first cell of `one`.
    pub(crate) fn fill(&mut self, rows: usize, one: Option<&Self>) {
        self.resize(rows);
        let kind = one.map_or(NULL, |one| one.kinds[0]);
        self.kinds.fill(kind);
        match (kind, one) {
            (NARROW, Some(one)) => self.narrow.fill(one.narrow[0]),
            (WIDE, Some(one)) => {
                self.wide.clear();
                self.wide.resize(rows, one.wide[0]);
            }
            _ => {}
        }
    }

    /// Replaces null rows by the rows of other cells.
    pub(crate) fn coalesce(&mut self, other: &Self) {
        for index in 0..self.kinds.len() {
            if self.kinds[index] == NULL && other.kinds[index] != NULL {
                self.copy(index, other, index);
            }
        }
    }

    fn copy(&mut self, to: usize, other: &Self, from: usize) {
        let read = match other.kinds[from] {
            NULL => Read::Null,
            NARROW => Read::Narrow(other.narrow[from]),
            WIDE => Read::Wide(other.wide[from]),
            _ => Read::Bad,
        };
        self.set(to, read);
    }

    /// Replaces the cells by rows of a dictionary that was decoded.
    pub(crate) fn look_up(&mut self, column: &Column<'_>, rows: Range<usize>, table: &Self) {
        self.resize(rows.len());
        let Values::Dictionary(indices, _) = column.values() else { unreachable!("a table belongs to a dictionary") };
        each_type!(indices, indices => {
            for (index, row) in rows.enumerate() {
                if !column.has(row) {
                    self.kinds[index] = NULL;
                    continue;
                }
                // A negative index becomes one far behind the end.
                let at = indices[row] as usize;
                match table.kinds.get(at) {
                    Some(&NARROW) => (self.kinds[index], self.narrow[index]) = (NARROW, table.narrow[at]),
                    Some(_) => self.copy(index, table, at),
                    None => self.kinds[index] = BAD,
                }
            }
        });
    }

    /// Decodes a dictionary of dictionaries, or one with null values, row by row.
    fn by_row(&mut self, column: &Column<'_>, rows: Range<usize>, content: Content) {
        let mut one = Self::default();
        for (index, row) in rows.enumerate() {
            match column.resolve(row) {
                None => self.kinds[index] = NULL,
                Some((values, at)) if at < values.rows() => {
                    one.decode(values, at..at + 1, content);
                    self.copy(index, &one, 0);
                }
                Some(_) => self.kinds[index] = BAD,
            }
        }
    }

    #[expect(clippy::cast_lossless, clippy::unnecessary_cast, reason = "the same loop is compiled for each type")]
    fn integers(&mut self, integers: Integers<'_>, column: &Column<'_>, rows: Range<usize>, content: Content) {
        let max = match content {
            Content::Address | Content::MappedIpv4 => u32::MAX.into(),
            Content::Number { max, .. } => max,
        };
        if content.is_wide() {
            self.wide.resize(self.kinds.len(), 0);
            each_type!(integers, values => {
                for ((kind, wide), &value) in self.kinds.iter_mut().zip(&mut self.wide).zip(&values[rows.clone()]) {
                    let value = i128::from(value);
                    *wide = value as u128;
                    *kind = if value < 0 || *wide > max { BAD } else { WIDE };
                }
            });
        } else {
            let max = max as u32;
            each_type!(integers, values => {
                let mut is_bad = false;
                for (narrow, &value) in self.narrow.iter_mut().zip(&values[rows.clone()]) {
                    *narrow = value as u32;
                    // A negative number becomes one that is too large.
                    is_bad |= value as u64 > max.into();
                }
                self.kinds.fill(NARROW);
                if is_bad {
                    for (kind, &value) in self.kinds.iter_mut().zip(&values[rows.clone()]) {
                        *kind = if value as u64 > max.into() { BAD } else { NARROW };
                    }
                }
            });
        }
        if column.may_have_nulls() {
            for (kind, row) in self.kinds.iter_mut().zip(rows) {
                *kind = if column.has(row) { *kind } else { NULL };
            }
        }
    }

    /// Decodes byte strings with `read`, compiled for each layout.
    fn bytes(
        &mut self,
        bytes: &Bytes<'_>,
        column: &Column<'_>,
        rows: Range<usize>,
        at: impl Fn(usize) -> usize,
        read: impl Fn(&[u8]) -> Read,
    ) {
        match bytes {
            Bytes::Small(offsets, bytes) => self.strings(column, rows, |row| small(offsets, bytes, at(row)), read),
            Bytes::Large(offsets, bytes) => self.strings(column, rows, |row| large(offsets, bytes, at(row)), read),
            Bytes::Views(views, buffers) => self.strings(column, rows, |row| view(views, buffers, at(row)), read),
            Bytes::Fixed(bytes, width) => self.strings(column, rows, |row| fixed(bytes, *width, at(row)), read),
        }
    }

    #[inline]
    fn strings<'a>(
        &mut self,
        column: &Column<'_>,
        rows: Range<usize>,
        get: impl Fn(usize) -> Option<&'a [u8]>,
        read: impl Fn(&[u8]) -> Read,
    ) {
        let may_be_null = column.may_have_nulls();
        for (index, row) in rows.enumerate() {
            if may_be_null && !column.has(row) {
                self.kinds[index] = NULL;
            } else {
                self.set(index, get(row).map_or(Read::Bad, &read));
            }
        }
    }
}

/// Something that is no value of a column's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

fn address_text(text: &[u8]) -> Read {
    match parse_ipv4(text) {
        Some(address) => Read::Narrow(address),
        None => match parse_ipv6(text) {
            Some(address) => Read::Wide(address),
            None if is_blank(text) => Read::Null,
            None => Read::Bad,
        },
    }
}

fn address_bytes(bytes: &[u8]) -> Read {
    match *bytes {
        [a, b, c, d] => Read::Narrow(u32::from_be_bytes([a, b, c, d])),
        _ => bytes.try_into().map_or(Read::Bad, |bytes| Read::Wide(u128::from_be_bytes(bytes))),
    }
}

/// Returns the IPv4 address that an IPv4-mapped IPv6 address stands for.
fn mapped(read: Read) -> Read {
    match read {
        Read::Wide(address) if address >> 32 == 0xFFFF => Read::Narrow(address as u32),
        Read::Wide(_) => Read::Bad,
        other => other,
    }
}

fn mapped_bytes(bytes: &[u8]) -> Read {
    match bytes.len() {
        16 => mapped(address_bytes(bytes)),
        _ => number_bytes(bytes, u32::MAX.into()),
    }
}

fn within(value: u128, max: u128) -> Read {
    match value {
        _ if value > max => Read::Bad,
        _ if max > u32::MAX.into() => Read::Wide(value),
        _ => Read::Narrow(value as u32),
    }
}

fn number_bytes(bytes: &[u8], max: u128) -> Read {
    if !(1..=16).contains(&bytes.len()) {
        return Read::Bad;
    }
    within(bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte)), max)
}

/// Reads a decimal number of up to nine digits, which nearly all are; others as [`number_text`] does.
#[inline]
fn decimal(text: &[u8], max: u128) -> Read {
    if !(1..=9).contains(&text.len()) || !text.iter().all(u8::is_ascii_digit) {
        return number_text(text, max, NumberText::Decimal);
    }
    within(text.iter().fold(0u32, |value, &byte| value * 10 + u32::from(byte - b'0')).into(), max)
}

fn number_text(text: &[u8], max: u128, spelling: NumberText) -> Read {
    if is_blank(text) {
        return Read::Null;
    }
    let value = match spelling {
        // The name `icmp` is above the largest protocol.
        NumberText::Protocol | NumberText::NextHeader => match protocol(text) {
            Some(Some(number)) if text[0].is_ascii_digit() => Some(number.into()),
            Some(Some(named)) => return Read::Narrow(named),
            Some(None) => return Read::Null,
            None => None,
        },
        NumberText::Ethernet => ethernet(text),
        NumberText::Decimal | NumberText::Hexadecimal => number(text, spelling == NumberText::Hexadecimal),
    };
    value.map_or(Read::Bad, |value| within(value, max))
}

/// Column that is ready to be decoded, block by block and on several threads.
#[derive(Clone, Debug)]
pub struct Prepared<'a> {
    column: Column<'a>,
    content: Content,
    /// Decoded values of a dictionary, unless it has more of them than rows.
    table: Option<Cells>,
}

impl<'a> Prepared<'a> {
    /// Returns a column of this content. The values of a dictionary are decoded here, once.
    ///
    /// That pays if rows share values: with more values than rows, the rows are decoded instead.
    pub fn new(column: Column<'a>, content: Content) -> Self {
        let table = match column.values() {
            Values::Dictionary(_, values) if values.rows() <= column.rows() || is_number(values) => {
                let mut table = Cells::default();
                match values.values() {
                    Values::Dictionary(..) => table.by_row(values, 0..values.rows(), content),
                    _ => table.decode(values, 0..values.rows(), content),
                }
                Some(table)
            }
            _ => None,
        };
        Self { column, content, table }
    }

    /// Returns the column.
    pub fn column(&self) -> &Column<'a> {
        &self.column
    }

    /// Replaces `sizes` by the numbers of some rows, 0 for null, and returns the first row, counted from `rows.start`,
    /// that has something else.
    ///
    /// # Panics
    /// If the column does not have these rows.
    #[expect(clippy::cast_lossless, clippy::unnecessary_cast, reason = "the same loop is compiled for each type")]
    pub fn sizes(&self, rows: Range<usize>, cells: &mut Cells, sizes: &mut Vec<u64>) -> Option<usize> {
        sizes.clear();
        if let (Values::Integers(integers), false) = (self.column.values(), self.column.may_have_nulls()) {
            each_type!(integers, values => {
                let mut all = 0;
                sizes.extend(values[rows.clone()].iter().map(|&value| {
                    all |= value as i128;
                    value as u64
                }));
                if all >= 0 {
                    return None;
                }
            });
        }
        self.decode(rows, cells);
        sizes.clear();
        sizes.extend(cells.kinds.iter().enumerate().map(|(row, &kind)| match kind {
            NARROW => cells.narrow[row].into(),
            WIDE => u64::try_from(cells.wide[row]).unwrap_or(u64::MAX),
            _ => 0,
        }));
        cells.kinds.iter().position(|&kind| kind == BAD)
    }

    /// Decodes some rows.
    ///
    /// # Panics
    /// If the column does not have these rows.
    pub fn decode(&self, rows: Range<usize>, cells: &mut Cells) {
        match &self.table {
            Some(table) => cells.look_up(&self.column, rows, table),
            None => cells.decode(&self.column, rows, self.content),
        }
    }
}

fn is_number(column: &Column<'_>) -> bool {
    matches!(column.values(), Values::Integers(_))
}

/// Returns the only family that addresses in these columns can have; `None` if rows may differ.
///
/// Integers are IPv4, and byte strings of a fixed length are of the family with that length.
pub fn family_of(column: &Column<'_>) -> Option<Family> {
    match column.values() {
        Values::Integers(_) | Values::Binary(Bytes::Fixed(_, 4)) => Some(Family::Ipv4),
        Values::Binary(Bytes::Fixed(_, 16)) => Some(Family::Ipv6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(values: Values<'_>, rows: usize, content: Content) -> Vec<Result<Option<u128>, Malformed>> {
        let mut cells = Cells::default();
        Prepared::new(Column::new(rows, [], values), content).decode(0..rows, &mut cells);
        (0..rows).map(|row| cells.get(row)).collect()
    }

    #[test]
    fn mapped_addresses_are_ipv4_in_text_and_in_bytes() {
        let texts = Values::Text(Bytes::Small(&[0, 8, 23, 26, 27, 28], b"10.0.0.1::ffff:10.0.0.1::1-x"));
        let wanted = [Ok(Some(0x0A00_0001)), Ok(Some(0x0A00_0001)), Err(Malformed), Ok(None), Err(Malformed)];
        assert_eq!(decoded(texts, 5, Content::MappedIpv4), wanted);
        let bytes = b"\x0a\0\0\x01\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x07";
        let bytes = Values::Binary(Bytes::Large(&[0, 4, 20, 36, 37, 37], bytes));
        let wanted = [Ok(Some(0x0A00_0001)), Ok(Some(0x0A00_0001)), Err(Malformed), Ok(Some(7)), Err(Malformed)];
        assert_eq!(decoded(bytes, 5, Content::MappedIpv4), wanted);
    }
}
