//! Arrays of Arrow as borrowed columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, BinaryViewArray, RecordBatch, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use firstmatch_columns::{Bits, Bytes, Column, Content, Integers, Values};

/// Returns the column of a batch that a path leads to: an index among the columns, then indices among the fields of
/// structs.
pub(crate) fn at<'a>(batch: &'a RecordBatch, path: &[usize]) -> Column<'a> {
    let (mut array, mut validity) = (batch.column(path[0]).as_ref(), Vec::new());
    for &child in &path[1..] {
        validity.extend(bits(array.nulls()));
        array = array.as_struct().column(child).as_ref();
    }
    validity.extend(bits(array.nulls()));
    Column::new(array.len(), validity, values(array))
}

/// Returns the bitmap of an array, unless no row is null.
fn bits(nulls: Option<&NullBuffer>) -> Option<Bits<'_>> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    Some(Bits::new(nulls.validity(), nulls.offset()))
}

fn views(views: &[u8]) -> &[[u8; 16]] {
    views.as_chunks().0
}

fn integers(array: &dyn Array) -> Option<Integers<'_>> {
    Some(match array.data_type() {
        DataType::UInt8 => Integers::U8(array.as_primitive::<UInt8Type>().values()),
        DataType::UInt16 => Integers::U16(array.as_primitive::<UInt16Type>().values()),
        DataType::UInt32 => Integers::U32(array.as_primitive::<UInt32Type>().values()),
        DataType::UInt64 => Integers::U64(array.as_primitive::<UInt64Type>().values()),
        DataType::Int8 => Integers::I8(array.as_primitive::<Int8Type>().values()),
        DataType::Int16 => Integers::I16(array.as_primitive::<Int16Type>().values()),
        DataType::Int32 => Integers::I32(array.as_primitive::<Int32Type>().values()),
        DataType::Int64 => Integers::I64(array.as_primitive::<Int64Type>().values()),
        _ => return None,
    })
}

/// Returns the values of an array whose type [`accepts`] takes.
fn values(array: &dyn Array) -> Values<'_> {
    if let Some(integers) = integers(array) {
        return Values::Integers(integers);
    }
    match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Values::Text(Bytes::Small(array.value_offsets(), array.value_data()))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            Values::Text(Bytes::Large(array.value_offsets(), array.value_data()))
        }
        DataType::Utf8View => {
            let array: &StringViewArray = array.as_string_view();
            Values::Text(view_bytes(array.views().inner().as_slice(), array.data_buffers()))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Values::Binary(Bytes::Small(array.value_offsets(), array.value_data()))
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            Values::Binary(Bytes::Large(array.value_offsets(), array.value_data()))
        }
        DataType::BinaryView => {
            let array: &BinaryViewArray = array.as_binary_view();
            Values::Binary(view_bytes(array.views().inner().as_slice(), array.data_buffers()))
        }
        DataType::FixedSizeBinary(width) => {
            let width = usize::try_from(*width).unwrap_or(0);
            Values::Binary(Bytes::Fixed(array.as_fixed_size_binary().value_data(), width))
        }
        DataType::Dictionary(key, _) => match **key {
            DataType::Int8 => dictionary::<Int8Type>(array),
            DataType::Int16 => dictionary::<Int16Type>(array),
            DataType::Int32 => dictionary::<Int32Type>(array),
            DataType::Int64 => dictionary::<Int64Type>(array),
            DataType::UInt8 => dictionary::<UInt8Type>(array),
            DataType::UInt16 => dictionary::<UInt16Type>(array),
            DataType::UInt32 => dictionary::<UInt32Type>(array),
            _ => dictionary::<UInt64Type>(array),
        },
        _ => Values::Null,
    }
}

fn view_bytes<'a>(of: &'a [u8], buffers: &'a [arrow_buffer::Buffer]) -> Bytes<'a> {
    Bytes::Views(views(of), buffers.iter().map(arrow_buffer::Buffer::as_slice).collect())
}

fn dictionary<K: ArrowDictionaryKeyType>(array: &dyn Array) -> Values<'_> {
    let array = array.as_dictionary::<K>();
    let own = array.values().as_ref();
    let column = Column::new(own.len(), bits(own.nulls()), values(own));
    match integers(array.keys()) {
        Some(keys) => Values::Dictionary(keys, Box::new(column)),
        None => Values::Null,
    }
}

/// Checks that a column of a type can have a content.
///
/// # Errors
/// If it cannot; the text says why.
pub(crate) fn accepts(of: &DataType, content: Content) -> Result<(), String> {
    use DataType::{
        Binary, BinaryView, Dictionary, FixedSizeBinary, Float16, Float32, Float64, Int8, Int16, Int32, Int64,
        LargeBinary, LargeUtf8, Null, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let is_address = content == Content::Address;
    match of {
        Dictionary(_, values) => accepts(values, content),
        Null | Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => Ok(()),
        UInt32 | UInt64 | Int64 => Ok(()),
        UInt8 | UInt16 | Int8 | Int16 | Int32 if !is_address => Ok(()),
        FixedSizeBinary(4 | 16) => Ok(()),
        FixedSizeBinary(1..=16) if !is_address => Ok(()),
        Int32 => Err("int32, in which half of all addresses are negative; cast it to uint32".to_owned()),
        Float16 | Float32 | Float64 if !is_address => Err(format!(
            "{}, which holds no whole numbers; in pandas, convert_dtypes() keeps them whole where some are missing",
            type_name(of)
        )),
        _ => Err(format!("{}, which is no {}", type_name(of), if is_address { "address" } else { "number" })),
    }
}

/// Returns the name of a type as Arrow's Python library shows it, for the types that tables of flows have.
pub(crate) fn type_name(of: &DataType) -> String {
    match of {
        DataType::Float64 => "double".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::LargeUtf8 => "large_string".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}
