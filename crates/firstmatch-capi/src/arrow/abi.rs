//! Structs of Arrow's C data interface, 72 and 80 bytes, and arrays of the caller's as borrowed columns.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};

use firstmatch_columns::{Bits, Bytes, Column, Integers, Values};

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

/// Format of a column of nulls, which has no buffer.
pub(crate) const NULL: &str = "n";

/// Array of the caller's with its type. Numbers and pointers of the structs were checked, as far as one can.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array<'a> {
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
    parent: Array<'a>,
}

/// Copies of buffers of numbers that are not aligned in memory of the caller's.
#[derive(Debug, Default)]
pub(crate) struct Copies(RefCell<Vec<Vec<u64>>>);

impl Copies {
    /// Returns `count` numbers, copied if they are not aligned.
    ///
    /// # Safety
    /// `T` must be a type of integers of at most 8 bytes, and `first` must lead to `count` of them, which do not change
    /// as long as the result is used.
    unsafe fn align<T: Copy>(&self, first: *const T, count: usize) -> Result<&[T], Failure> {
        if first.is_aligned() {
            // SAFETY: the caller's promise.
            return Ok(unsafe { std::slice::from_raw_parts(first, count) });
        }
        let (bytes, mut copy) = (count * size_of::<T>(), Vec::<u64>::new());
        let room = copy.try_reserve_exact(bytes.div_ceil(size_of::<u64>()));
        room.map_err(|_| Failure::new(Status::NoMemory, "there is no memory for a copy of an unaligned buffer"))?;
        let start = copy.as_mut_ptr().cast::<T>();
        self.0.borrow_mut().push(copy);
        // SAFETY: the vector has room for the bytes, which any alignment of integers suits. Its memory stays until
        // `self` is dropped, because no vector is taken out or changed again.
        unsafe {
            std::ptr::copy_nonoverlapping(first.cast::<u8>(), start.cast(), bytes);
            Ok(std::slice::from_raw_parts(start, count))
        }
    }
}

impl<'a> Child<'a> {
    /// Checks the column, and returns it with the rows of its struct.
    fn array(&self) -> Result<Array<'a>, Failure> {
        // SAFETY: the promise of the caller of `Array::new` for the struct holds for its columns.
        let array = unsafe { Array::new(self.schema, self.array, None)? };
        if array.rows < self.parent.offset + self.parent.rows {
            return Err(Failure::invalid(format!("column \"{}\" has {} rows", array.name, array.rows)));
        }
        // The rows of a struct are those of its columns behind both offsets.
        Ok(Array { rows: self.parent.rows, offset: array.offset + self.parent.offset, ..array })
    }

    /// Returns the column, in which a row is null where that of its struct is.
    ///
    /// # Errors
    /// If structs or buffers contradict themselves, or the format is not read.
    pub(crate) fn column(&self, copies: &'a Copies) -> Result<Column<'a>, Failure> {
        let array = self.array()?;
        let validity = [self.parent.validity()?, array.validity()?];
        Ok(Column::new(array.rows, validity.into_iter().flatten(), array.values(copies)?))
    }
}

fn number(value: i64, name: &str) -> Result<usize, Failure> {
    // Sums of two numbers and products with 16 bytes are far below the largest `isize` then.
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

/// Returns the number of bytes of a format of fixed binary.
fn fixed(format: &str) -> Option<usize> {
    format.strip_prefix("w:")?.parse().ok().filter(|bytes| (1..=16).contains(bytes))
}

impl<'a> Array<'a> {
    /// Checks a schema and an array, and returns them together, with the name of the schema unless there is another.
    ///
    /// # Safety
    /// Each pointer must be null or point to a struct valid under Arrow's specification. The structs must not change
    /// during `'a`.
    pub(crate) unsafe fn new(
        schema: *const ArrowSchema,
        array: *const ArrowArray,
        name: Option<&'a str>,
    ) -> Result<Self, Failure> {
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
        let (own, format) = unsafe { (text(schema.name)?, text(schema.format)?) };
        let name = name.unwrap_or(own);
        if schema.dictionary.is_null() != array.dictionary.is_null() {
            let message = format!("column \"{name}\" has a dictionary in its schema or in its array alone");
            return Err(Failure::invalid(message));
        }
        let (rows, offset) = (number(array.length, name)?, number(array.offset, name)?);
        number(array.n_buffers, name)?;
        Ok(Self { name, format, rows, schema, array, offset })
    }

    /// Whether values are indices into a dictionary.
    pub(crate) fn has_dictionary(&self) -> bool {
        !self.schema.dictionary.is_null()
    }

    /// Whether the array is a struct.
    pub(crate) fn is_struct(&self) -> bool {
        self.format == "+s" && !self.has_dictionary()
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

    /// Returns the rows as a column of their own.
    ///
    /// # Errors
    /// As [`Child::column`].
    pub(crate) fn column(&self, copies: &'a Copies) -> Result<Column<'a>, Failure> {
        Ok(Column::new(self.rows, self.validity()?, self.values(copies)?))
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

    /// Returns the first `length` bytes of a buffer, which may be null if that is 0.
    fn bytes(&self, index: usize, length: usize) -> Result<&'a [u8], Failure> {
        let first = self.buffer(index)?;
        match length {
            0 => Ok(&[]),
            _ if first.is_null() => Err(self.is_null(index)),
            // SAFETY: the buffer has these bytes by Arrow's specification, whose promise the caller of `new` made.
            _ => Ok(unsafe { std::slice::from_raw_parts(first, length) }),
        }
    }

    /// Returns the numbers of a buffer: one for each row and `more`, or none if there is no row.
    ///
    /// # Safety
    /// `T` must be the type of integers that the format has, of at most 8 bytes.
    unsafe fn numbers<T: Copy>(&self, index: usize, more: usize, copies: &'a Copies) -> Result<&'a [T], Failure> {
        let first = self.buffer(index)?.cast::<T>();
        match self.rows {
            0 => Ok(&[]),
            _ if first.is_null() => Err(self.is_null(index)),
            // SAFETY: the buffer has a number for each row by Arrow's specification, and the caller's promise.
            rows => unsafe { copies.align(first.add(self.offset), rows + more) },
        }
    }

    /// Returns the bits that say which rows are not null; `None` if all are not.
    fn validity(&self) -> Result<Option<Bits<'a>>, Failure> {
        if self.array.null_count == 0 || self.rows == 0 || self.format == NULL || self.buffer(0)?.is_null() {
            return Ok(None);
        }
        Ok(Some(Bits::new(self.bytes(0, (self.offset + self.rows).div_ceil(8))?, self.offset)))
    }

    fn values(&self, copies: &'a Copies) -> Result<Values<'a>, Failure> {
        if !self.has_dictionary() {
            return self.plain(copies);
        }
        let indices = self.integers(copies)?.ok_or_else(|| self.unsupported())?;
        // SAFETY: the promise of the caller of `new` holds for the dictionary.
        let values = unsafe { Self::new(self.schema.dictionary, self.array.dictionary, Some(self.name))? };
        if values.has_dictionary() {
            let message = format!("column \"{}\" has a dictionary of dictionaries", self.name);
            return Err(Failure::new(Status::Unsupported, message));
        }
        let values = Column::new(values.rows, values.validity()?, values.plain(copies)?);
        Ok(Values::Dictionary(indices, Box::new(values)))
    }

    /// Returns the values of an array without a dictionary.
    fn plain(&self, copies: &'a Copies) -> Result<Values<'a>, Failure> {
        if let Some(integers) = self.integers(copies)? {
            return Ok(Values::Integers(integers));
        }
        Ok(match self.format {
            NULL => Values::Null,
            "u" => Values::Text(self.small(copies)?),
            "U" => Values::Text(self.large(copies)?),
            "vu" => Values::Text(self.views()?),
            "z" => Values::Binary(self.small(copies)?),
            "Z" => Values::Binary(self.large(copies)?),
            "vz" => Values::Binary(self.views()?),
            format => {
                let width = fixed(format).ok_or_else(|| self.unsupported())?;
                let bytes = self.bytes(1, if self.rows == 0 { 0 } else { (self.offset + self.rows) * width })?;
                Values::Binary(Bytes::Fixed(bytes.get(self.offset * width..).unwrap_or_default(), width))
            }
        })
    }

    fn integers(&self, copies: &'a Copies) -> Result<Option<Integers<'a>>, Failure> {
        // SAFETY: each format has its type.
        let integers = unsafe {
            match self.format {
                "C" => Integers::U8(self.numbers(1, 0, copies)?),
                "S" => Integers::U16(self.numbers(1, 0, copies)?),
                "I" => Integers::U32(self.numbers(1, 0, copies)?),
                "L" => Integers::U64(self.numbers(1, 0, copies)?),
                "c" => Integers::I8(self.numbers(1, 0, copies)?),
                "s" => Integers::I16(self.numbers(1, 0, copies)?),
                "i" => Integers::I32(self.numbers(1, 0, copies)?),
                "l" => Integers::I64(self.numbers(1, 0, copies)?),
                _ => return Ok(None),
            }
        };
        Ok(Some(integers))
    }

    /// Returns byte strings with offsets of 32 bits.
    fn small(&self, copies: &'a Copies) -> Result<Bytes<'a>, Failure> {
        // SAFETY: the offsets of these formats have this type.
        let offsets = unsafe { self.numbers::<i32>(1, 1, copies)? };
        Ok(Bytes::Small(offsets, self.bytes(2, self.end(offsets.last().copied().map(i64::from))?)?))
    }

    /// Returns byte strings with offsets of 64 bits.
    fn large(&self, copies: &'a Copies) -> Result<Bytes<'a>, Failure> {
        // SAFETY: the offsets of these formats have this type.
        let offsets = unsafe { self.numbers::<i64>(1, 1, copies)? };
        Ok(Bytes::Large(offsets, self.bytes(2, self.end(offsets.last().copied())?)?))
    }

    /// Returns the number of bytes that offsets lead to. The last one is the largest by Arrow's specification, so that
    /// a row with a larger one has no bytes.
    fn end(&self, last: Option<i64>) -> Result<usize, Failure> {
        number(last.unwrap_or(0), self.name)
    }

    /// Returns byte strings by views.
    fn views(&self) -> Result<Bytes<'a>, Failure> {
        const VIEW: usize = 16;
        if self.rows == 0 {
            return Ok(Bytes::Views(&[], Vec::new()));
        }
        let views = self.bytes(1, (self.offset + self.rows) * VIEW)?.as_chunks().0;
        let count = number(self.array.n_buffers, self.name)?;
        // The last buffer has the size of each buffer of bytes, which stand between it and the views.
        let last = count.checked_sub(1).filter(|&last| last >= 2);
        let last = last.ok_or_else(|| Failure::invalid(format!("column \"{}\" lacks buffer 2", self.name)))?;
        let sizes = self.buffer(last)?.cast::<i64>();
        if sizes.is_null() && last > 2 {
            return Err(self.is_null(last));
        }
        let bytes = |index: usize| {
            // SAFETY: there is a size for each of these buffers by Arrow's specification; it may be unaligned.
            let size = unsafe { sizes.add(index - 2).read_unaligned() };
            self.bytes(index, number(size, self.name)?)
        };
        Ok(Bytes::Views(views.get(self.offset..).unwrap_or_default(), (2..last).map(bytes).collect::<Result<_, _>>()?))
    }

    fn is_null(&self, buffer: usize) -> Failure {
        Failure::invalid(format!("buffer {buffer} of column \"{}\" is null", self.name))
    }

    /// Returns the failure for an array whose format is not read.
    fn unsupported(&self) -> Failure {
        Failure::new(Status::Unsupported, format!("column \"{}\" has the format \"{}\"", self.name, self.format))
    }
}
