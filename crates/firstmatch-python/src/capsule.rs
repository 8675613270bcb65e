//! Capsules of Arrow's interface for Python: tables in, streams out. The only unsafe code of the package.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// Reader of the batches of a table.
pub(crate) type Reader = Box<dyn RecordBatchReader + Send>;

/// Returns a reader of the batches of any table that offers a stream or an array of Arrow.
///
/// # Errors
/// `TypeError` if it offers neither, `ValueError` if its stream was consumed or has columns without a table.
pub(crate) fn reader(table: &Bound<'_, PyAny>) -> PyResult<Reader> {
    if let Some(method) = method(table, "__arrow_c_stream__")? {
        let capsule = method.call0()?.cast_into::<PyCapsule>()?;
        let stream = pointer::<FFI_ArrowArrayStream>(&capsule, c"arrow_array_stream")?;
        // SAFETY: a capsule of this name points to a stream (Arrow's PyCapsule interface). An empty one stays behind.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
        let reader = RecordBatchStreamReader::try_new(stream).map_err(|error| not_read(table, &error))?;
        return Ok(Box::new(reader));
    }
    if let Some(method) = method(table, "__arrow_c_array__")? {
        let pair = method.call0()?.cast_into::<PyTuple>()?;
        let (schema, array) =
            (pair.get_item(0)?.cast_into::<PyCapsule>()?, pair.get_item(1)?.cast_into::<PyCapsule>()?);
        let schema = pointer::<FFI_ArrowSchema>(&schema, c"arrow_schema")?;
        let array = pointer::<FFI_ArrowArray>(&array, c"arrow_array")?;
        // SAFETY: capsules of these names point to a schema and an array of it (Arrow's PyCapsule interface). The array
        // is moved out, and an empty one stays behind.
        let data =
            unsafe { from_ffi(FFI_ArrowArray::from_raw(array), &*schema) }.map_err(|error| not_read(table, &error))?;
        if !matches!(data.data_type(), DataType::Struct(_)) {
            return Err(PyTypeError::new_err("one column is no table; name it: pyarrow.table({\"src\": …})"));
        }
        let batch = RecordBatch::from(StructArray::from(data));
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    Err(no_table(table))
}

/// Returns the columns of a table, reading no rows if it states them.
///
/// # Errors
/// As [`reader`].
pub(crate) fn schema(table: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    let Some(method) = method(table, "__arrow_c_schema__")? else { return Ok(reader(table)?.schema()) };
    let capsule = method.call0()?.cast_into::<PyCapsule>()?;
    let schema = pointer::<FFI_ArrowSchema>(&capsule, c"arrow_schema")?;
    // SAFETY: a capsule of this name points to a schema, which is only read.
    let field = Field::try_from(unsafe { &*schema }).map_err(|error| not_read(table, &error))?;
    match field.data_type() {
        DataType::Struct(fields) => Ok(Arc::new(Schema::new(fields.clone()))),
        _ => Err(no_table(table)),
    }
}

/// Returns a capsule with a stream of batches.
pub(crate) fn stream<'py>(py: Python<'py>, reader: Reader) -> PyResult<Bound<'py, PyCapsule>> {
    // A consumer that moves the stream out leaves an empty one, which releases nothing.
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

fn method<'py>(table: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    // Classes have the method, too, but it belongs to their instances.
    if table.is_instance_of::<pyo3::types::PyType>() {
        return Ok(None);
    }
    table.getattr_opt(name)
}

fn pointer<T>(capsule: &Bound<'_, PyCapsule>, name: &CStr) -> PyResult<*mut T> {
    Ok(capsule.pointer_checked(Some(name))?.as_ptr().cast())
}

fn type_name(table: &Bound<'_, PyAny>) -> String {
    table.get_type().qualname().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

fn no_table(table: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{} is no table; a table is a pyarrow Table, RecordBatch or RecordBatchReader, a Polars or pandas DataFrame, a \
         DuckDB relation, or anything else with __arrow_c_stream__ or __arrow_c_array__",
        type_name(table)
    ))
}

fn not_read(table: &Bound<'_, PyAny>, error: &ArrowError) -> PyErr {
    let of = type_name(table);
    match error {
        ArrowError::CDataInterface(what) if what.contains("released") => {
            PyValueError::new_err(format!("the stream of this {of} was read already; a stream can be read once"))
        }
        _ => PyValueError::new_err(format!("this {of} cannot be read as a table: {error}")),
    }
}

/// Returns a capsule with the columns of a table.
pub(crate) fn schema_of<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}
