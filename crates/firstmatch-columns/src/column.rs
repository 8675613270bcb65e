//! Columns in Arrow's memory layouts, as borrowed slices.

use std::fmt::Write as _;

/// Bitmap in which a set bit stands for a value and a clear one for null, the least significant bit of a byte first.
#[derive(Clone, Copy, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Bits<'a> {
    /// Returns the bitmap whose first row is bit `offset` of `bytes`.
    pub fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset }
    }

    /// Whether the bit of a row is set; false behind the end.
    #[inline]
    pub fn has(&self, row: usize) -> bool {
        let bit = self.offset + row;
        self.bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }
}

/// Byte strings, by Arrow's layout.
#[derive(Clone, Debug)]
pub enum Bytes<'a> {
    /// Offsets of 32 bits, one more than rows, and the bytes that they lead to.
    Small(&'a [i32], &'a [u8]),
    /// Offsets of 64 bits, one more than rows, and the bytes that they lead to.
    Large(&'a [i64], &'a [u8]),
    /// Views, and the buffers that they lead to.
    ///
    /// | bytes of a view | content |
    /// |---|---|
    /// | 0 to 3 | length |
    /// | 4 to 15 | the byte string, if it has at most 12 bytes |
    /// | 8 to 11 | index of its buffer, if it has more |
    /// | 12 to 15 | offset in that buffer, if it has more |
    Views(&'a [[u8; 16]], Vec<&'a [u8]>),
    /// The same number of bytes in each row.
    Fixed(&'a [u8], usize),
}

impl<'a> Bytes<'a> {
    /// Returns the bytes of a row; `None` if they do not lie in their buffer.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Self::Small(offsets, bytes) => small(offsets, bytes, row),
            Self::Large(offsets, bytes) => large(offsets, bytes, row),
            Self::Views(views, buffers) => view(views, buffers, row),
            Self::Fixed(bytes, width) => fixed(bytes, *width, row),
        }
    }
}

#[inline]
pub(crate) fn small<'a>(offsets: &[i32], bytes: &'a [u8], row: usize) -> Option<&'a [u8]> {
    // A negative offset becomes one far behind the end.
    bytes.get(*offsets.get(row)? as usize..*offsets.get(row.checked_add(1)?)? as usize)
}

#[inline]
pub(crate) fn large<'a>(offsets: &[i64], bytes: &'a [u8], row: usize) -> Option<&'a [u8]> {
    bytes.get(*offsets.get(row)? as usize..*offsets.get(row.checked_add(1)?)? as usize)
}

#[inline]
pub(crate) fn view<'a>(views: &'a [[u8; 16]], buffers: &[&'a [u8]], row: usize) -> Option<&'a [u8]> {
    const INLINE: usize = 12;
    let view = views.get(row)?;
    let [a, b, c, d, _, _, _, _, e, f, g, h, i, j, k, l] = *view;
    let length = u32::from_ne_bytes([a, b, c, d]) as usize;
    if length <= INLINE {
        return view.get(4..4 + length);
    }
    let (buffer, start) = (u32::from_ne_bytes([e, f, g, h]) as usize, u32::from_ne_bytes([i, j, k, l]) as usize);
    buffers.get(buffer)?.get(start..start.checked_add(length)?)
}

#[inline]
pub(crate) fn fixed(bytes: &[u8], width: usize, row: usize) -> Option<&[u8]> {
    bytes.get(row.checked_mul(width)?..)?.get(..width)
}

/// Integers of a column.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of Rust's types")]
pub enum Integers<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
}

/// Runs an expression with `$values` bound to the slice of integers, whichever their type is.
macro_rules! each_type {
    ($integers:expr, $values:ident => $body:expr) => {
        match $integers {
            Integers::U8($values) => $body,
            Integers::U16($values) => $body,
            Integers::U32($values) => $body,
            Integers::U64($values) => $body,
            Integers::I8($values) => $body,
            Integers::I16($values) => $body,
            Integers::I32($values) => $body,
            Integers::I64($values) => $body,
        }
    };
}
pub(crate) use each_type;

impl Integers<'_> {
    /// Number of integers.
    pub fn len(&self) -> usize {
        each_type!(self, values => values.len())
    }

    /// Whether there is no integer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index that a row has into a dictionary; one behind every end if it has none.
    #[inline]
    pub(crate) fn at(&self, row: usize) -> usize {
        each_type!(self, values => values.get(row).map_or(usize::MAX, |&index| index as usize))
    }

    /// Returns the integer of a row; `None` behind the end.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i128> {
        each_type!(self, values => values.get(row).map(|&value| i128::from(value)))
    }
}

/// Values of a column, by Arrow's layout.
#[derive(Clone, Debug)]
pub enum Values<'a> {
    /// No values: every row is null.
    Null,
    /// Integers.
    Integers(Integers<'a>),
    /// Texts.
    Text(Bytes<'a>),
    /// Byte strings, in network order where they stand for numbers.
    Binary(Bytes<'a>),
    /// Indices into another column.
    Dictionary(Integers<'a>, Box<Column<'a>>),
}

/// Column of a table: values in one of Arrow's layouts, and which rows have one.
///
/// ```
/// use firstmatch_columns::{Bits, Bytes, Column, Values};
///
/// let text = Values::Text(Bytes::Small(&[0, 8, 8, 16], b"10.0.0.110.0.0.2"));
/// let column = Column::new(3, [Bits::new(&[0b101], 0)], text);
/// assert_eq!((column.show(0).as_str(), column.has(1)), ("\"10.0.0.1\"", false));
/// ```
#[derive(Clone, Debug)]
pub struct Column<'a> {
    rows: usize,
    validity: Vec<Bits<'a>>,
    values: Values<'a>,
}

impl<'a> Column<'a> {
    /// Returns a column of `rows` rows; a row is null if one of the bitmaps says so.
    ///
    /// There may be several bitmaps, because a value in a struct is null where the struct is.
    pub fn new(rows: usize, validity: impl IntoIterator<Item = Bits<'a>>, values: Values<'a>) -> Self {
        Self { rows, validity: validity.into_iter().collect(), values }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the values, of which those of null rows mean nothing.
    pub fn values(&self) -> &Values<'a> {
        &self.values
    }

    /// Whether some rows may be null.
    pub fn may_have_nulls(&self) -> bool {
        !self.validity.is_empty()
    }

    /// Whether a row is not null, as far as the bitmaps of this column say.
    #[inline]
    pub fn has(&self, row: usize) -> bool {
        self.validity.iter().all(|bits| bits.has(row))
    }

    /// Returns the column of values and the row in it that a row of this one stands for; `None` for null.
    ///
    /// The row lies behind the end of its column if an index is out of range.
    pub(crate) fn resolve(&self, row: usize) -> Option<(&Self, usize)> {
        let mut at = (self, row);
        loop {
            let (column, row) = at;
            if row >= column.rows {
                return Some(at);
            }
            if !column.has(row) {
                return None;
            }
            let Values::Dictionary(indices, values) = &column.values else { return Some(at) };
            at = (values, indices.at(row));
        }
    }

    /// Returns the bytes of a row; `None` if it is null, an integer, or not in its buffer.
    pub fn bytes(&self, row: usize) -> Option<&[u8]> {
        match self.resolve(row)? {
            (Self { values: Values::Text(bytes) | Values::Binary(bytes), .. }, row) => bytes.get(row),
            _ => None,
        }
    }

    /// Returns the value of a row for a message: a number, text between quotes, bytes in hexadecimal, or `null`.
    pub fn show(&self, row: usize) -> String {
        /// Maximum number of bytes that are shown.
        const MOST: usize = 80;
        let Some((column, row)) = self.resolve(row) else { return "null".to_owned() };
        let unread = || "a value outside of its buffer".to_owned();
        match &column.values {
            Values::Integers(integers) => integers.get(row).map_or_else(unread, |value| value.to_string()),
            Values::Text(bytes) => bytes.get(row).map_or_else(unread, |text| {
                let shown = String::from_utf8_lossy(text.get(..MOST).unwrap_or(text));
                format!("{shown:?}{}", if text.len() > MOST { "…" } else { "" })
            }),
            Values::Binary(bytes) => bytes.get(row).map_or_else(unread, |bytes| {
                let mut shown = "0x".to_owned();
                bytes.iter().take(MOST).for_each(|byte| _ = write!(shown, "{byte:02x}"));
                shown
            }),
            Values::Null | Values::Dictionary(..) => unread(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_out_of_range_lead_to_no_value() {
        let text = Values::Text(Bytes::Small(&[0, 1, 2, 3], b"abc"));
        for validity in [None, Some(Bits::new(&[0b111], 0))] {
            let values = Column::new(3, validity, text.clone());
            let column = Column::new(3, [], Values::Dictionary(Integers::I8(&[-1, 3, 2]), Box::new(values)));
            assert_eq!([0, 1, 2].map(|row| column.bytes(row)), [None, None, Some(&b"c"[..])]);
            assert_eq!(column.show(0), "a value outside of its buffer");
        }
    }
}
