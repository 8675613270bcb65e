//! Structs of Arrow's C data interface, 72 and 80 bytes, and checked access to arrays of the caller's.

use std::ffi::{CStr, c_char, c_void};

use crate::status::{Failure, Status};

/// Type of an array, as Arrow's C data interface has it.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowSchema {
    /// Type, for example `S` for 16 bits without a sign.
    pub format: *const c_char,
    /// Name of the column, or null.
    pub name: *const c_char,
    /// Metadata, which is not read.
    pub metadata: *const c_char,
    /// Sum of flags, which are not read.
    pub flags: i64,
    /// Number of children.
    pub n_children: i64,
    /// Types of the children.
    pub children: *mut *mut ArrowSchema,
    /// Type of a dictionary, or null.
    pub dictionary: *mut ArrowSchema,
    /// Function that frees it; null once it was called.
    pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    /// Memory of the producer's.
    pub private_data: *mut c_void,
}

/// Array, as Arrow's C data interface has it.
#[derive(Debug)]
#[repr(C)]
pub struct ArrowArray {
    /// Number of rows.
    pub length: i64,
    /// Number of nulls, or -1 if nobody has counted.
    pub null_count: i64,
    /// Number of rows to skip in every buffer and child.
    pub offset: i64,
    /// Number of buffers.
    pub n_buffers: i64,
    /// Number of children.
    pub n_children: i64,
    /// Buffers: validity, then what the type has.
    pub buffers: *mut *const c_void,
    /// Children.
    pub children: *mut *mut ArrowArray,
    /// Values of a dictionary, or null.
    pub dictionary: *mut ArrowArray,
    /// Function that frees it; null once it was called.
    pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    /// Memory of the producer's.
    pub private_data: *mut c_void,
}

/// Array of the caller's with its type. Numbers and pointers of the structs were checked, as far as one can.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'a> {
    pub(crate) name: &'a str,
    pub(crate) format: &'a str,
    pub(crate) rows: usize,
    schema: &'a ArrowSchema,
    array: &'a ArrowArray,
    offset: usize,
}

/// Column of a struct, of which only name and format were looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child<'a> {
    pub(crate) name: &'a str,
    pub(crate) format: &'a str,
    schema: *const ArrowSchema,
    array: *const ArrowArray,
    parent: Column<'a>,
}

impl<'a> Child<'a> {
    /// Checks the column, and returns it with the rows of its struct.
    pub(crate) fn column(&self) -> Result<Column<'a>, Failure> {
        // SAFETY: the promise of the caller of `Column::new` for the struct holds for its columns.
        let column = unsafe { Column::new(self.schema, self.array)? };
        if column.rows < self.parent.offset + self.parent.rows {
            return Err(Failure::invalid(format!("column \"{}\" has {} rows", column.name, column.rows)));
        }
        // The rows of a struct are those of its columns behind both offsets.
        Ok(Column { rows: self.parent.rows, offset: column.offset + self.parent.offset, ..column })
    }
}

fn number(value: i64, name: &str) -> Result<usize, Failure> {
    // Sums of two numbers and products with 16 bytes are far below the largest `usize` then.
    const MOST: i64 = 1 << 48;
    match usize::try_from(value) {
        Ok(number) if value <= MOST => Ok(number),
        _ => Err(Failure::invalid(format!("column \"{name}\" has a length, an offset or a count of {value}"))),
    }
}

/// Returns a text of a schema, or an empty one for null.
///
/// # Safety
/// `text` must be null or end with NUL.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Ok("");
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Failure::invalid("a name or a format is not UTF-8"))
}

impl<'a> Column<'a> {
    /// Checks a schema and an array, and returns them as a column.
    ///
    /// # Safety
    /// Each pointer must be null or point to a struct valid under Arrow's specification. The structs must not change
    /// during `'a`.
    pub(crate) unsafe fn new(schema: *const ArrowSchema, array: *const ArrowArray) -> Result<Self, Failure> {
        let is_bad = schema.is_null() || array.is_null() || !schema.is_aligned() || !array.is_aligned();
        if is_bad {
            return Err(Failure::invalid("a schema or an array is null or unaligned"));
        }
        // SAFETY: the caller's promise.
        let (schema, array) = unsafe { (&*schema, &*array) };
        if schema.release.is_none() || array.release.is_none() {
            return Err(Failure::invalid("a schema or an array was released"));
        }
        // SAFETY: the caller's promise.
        let (name, format) = unsafe { (text(schema.name)?, text(schema.format)?) };
        if !schema.dictionary.is_null() || !array.dictionary.is_null() {
            return Err(Failure::new(Status::Unsupported, format!("column \"{name}\" has a dictionary")));
        }
        let (rows, offset) = (number(array.length, name)?, number(array.offset, name)?);
        number(array.n_buffers, name)?;
        Ok(Self { name, format, rows, schema, array, offset })
    }

    /// Returns the columns of a struct. Only their names are looked at, because not every column is used.
    pub(crate) fn children(&self) -> Result<Vec<Child<'a>>, Failure> {
        let count = number(self.array.n_children, self.name)?;
        if self.schema.n_children != self.array.n_children {
            return Err(Failure::invalid(format!("schema and array of \"{}\" differ in their columns", self.name)));
        }
        if count > 0 && (self.schema.children.is_null() || self.array.children.is_null()) {
            return Err(Failure::invalid(format!("the columns of \"{}\" are null", self.name)));
        }
        let child = |index: usize| {
            // SAFETY: both have `count` children by Arrow's specification, which the caller of `new` promised.
            let (schema, array) = unsafe { (*self.schema.children.add(index), *self.array.children.add(index)) };
            if schema.is_null() || !schema.is_aligned() {
                return Err(Failure::invalid(format!("a column of \"{}\" is null or unaligned", self.name)));
            }
            // SAFETY: the promise of the caller of `new`. A schema that was released has no texts any more.
            let texts = unsafe {
                let schema = &*schema;
                schema.release.map(|_| (text(schema.name), text(schema.format)))
            };
            // A name that is not UTF-8 is no field's.
            let (name, format) = texts.map_or(("", ""), |(name, format)| (name.unwrap_or(""), format.unwrap_or("")));
            Ok(Child { name, format, schema, array, parent: *self })
        };
        (0..count).map(child).collect()
    }

    /// Returns the buffer of an index, which must be there if there is a row.
    fn buffer(&self, index: usize) -> Result<*const u8, Failure> {
        let has = usize::try_from(self.array.n_buffers).is_ok_and(|count| index < count);
        if !has || self.array.buffers.is_null() {
            return Err(Failure::invalid(format!("column \"{}\" lacks buffer {index}", self.name)));
        }
        // SAFETY: there are as many buffers by Arrow's specification.
        Ok(unsafe { *self.array.buffers.add(index) }.cast())
    }

    /// Returns the bits that say which rows are not null; null if all are not.
    pub(crate) fn validity(&self) -> Result<Validity<'a>, Failure> {
        let bits = if self.array.null_count == 0 { std::ptr::null() } else { self.buffer(0)? };
        Ok(Validity { bits, offset: self.offset, rows: self.rows, _array: self.array })
    }

    /// Returns the values of a buffer, one a row and `more`, which may be unaligned.
    pub(crate) fn values<T: Copy>(&self, buffer: usize, more: usize) -> Result<Values<'a, T>, Failure> {
        let first = self.buffer(buffer)?.cast::<T>();
        if first.is_null() && self.rows > 0 {
            return Err(Failure::invalid(format!("buffer {buffer} of column \"{}\" is null", self.name)));
        }
        Ok(Values { first, offset: self.offset, rows: self.rows + more, _array: self.array })
    }

    /// Returns the values of a buffer, `length` bytes a row.
    pub(crate) fn fixed(&self, buffer: usize, length: usize) -> Result<Fixed<'a>, Failure> {
        let first = self.buffer(buffer)?;
        if first.is_null() && self.rows > 0 {
            return Err(Failure::invalid(format!("buffer {buffer} of column \"{}\" is null", self.name)));
        }
        Ok(Fixed { bytes: Bytes { first, _array: self.array }, offset: self.offset, rows: self.rows, length })
    }

    /// Returns the bytes of a buffer, which may be null.
    pub(crate) fn bytes(&self, buffer: usize) -> Result<Bytes<'a>, Failure> {
        Ok(Bytes { first: self.buffer(buffer)?, _array: self.array })
    }
}

/// Bits that say which rows of a column are not null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity<'a> {
    bits: *const u8,
    offset: usize,
    rows: usize,
    _array: &'a ArrowArray,
}

impl Validity<'_> {
    /// Whether a row is not null.
    ///
    /// # Panics
    /// If the column has no such row.
    #[inline]
    pub(crate) fn has(&self, row: usize) -> bool {
        assert!(row < self.rows, "the column has {} rows", self.rows);
        let bit = self.offset + row;
        // SAFETY: the buffer has a bit for each row by Arrow's specification.
        self.bits.is_null() || unsafe { *self.bits.add(bit / 8) } >> (bit % 8) & 1 == 1
    }
}

/// Values of a column's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a, T> {
    first: *const T,
    offset: usize,
    rows: usize,
    _array: &'a ArrowArray,
}

impl<T: Copy> Values<'_, T> {
    /// Returns the value of a row.
    ///
    /// # Panics
    /// If the buffer has no value for it.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> T {
        assert!(row < self.rows, "the buffer has {} values", self.rows);
        // SAFETY: the buffer has a value for each row by Arrow's specification; it may be unaligned.
        unsafe { self.first.add(self.offset + row).read_unaligned() }
    }
}

/// Bytes of a column's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    first: *const u8,
    _array: &'a ArrowArray,
}

impl<'a> Bytes<'a> {
    /// Returns `length` bytes from `start` on, or none if the buffer is null.
    ///
    /// # Safety
    /// The bytes must lie in the buffer, as the column's offsets say or its type does.
    #[inline]
    pub(crate) unsafe fn get(&self, start: usize, length: usize) -> &'a [u8] {
        if length == 0 || self.first.is_null() {
            return &[];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.first.add(start), length) }
    }
}

/// Values of a fixed number of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed<'a> {
    bytes: Bytes<'a>,
    offset: usize,
    rows: usize,
    length: usize,
}

impl<'a> Fixed<'a> {
    /// Returns the bytes of a row.
    ///
    /// # Panics
    /// If the buffer has no value for it.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        assert!(row < self.rows, "the buffer has {} values", self.rows);
        // SAFETY: the buffer has a value for each row by Arrow's specification.
        unsafe { self.bytes.get((self.offset + row) * self.length, self.length) }
    }
}
