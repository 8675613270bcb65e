//! Results: tables in memory, and streams that are read once.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt8Type, UInt32Type};
use arrow_array::{Array, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple};

use crate::capsule::{self, Reader};

/// Table in memory, for any library that reads Arrow: `pyarrow.table(t)`, `polars.DataFrame(t)`, or `t` in DuckDB.
#[pyclass(frozen, module = "firstmatch")]
#[derive(Debug)]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    pub(crate) fn of(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }
}

fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore it.
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        capsule::stream(py, Box::new(RecordBatchIterator::new(batches, Arc::clone(&self.schema))))
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        names(&self.schema)
    }

    /// Returns the columns as lists of Python's values, by name.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (index, field) in self.schema.fields().iter().enumerate() {
            let list = PyList::empty(py);
            for batch in &self.batches {
                append(&list, batch.column(index))?;
            }
            dict.set_item(field.name(), list)?;
        }
        Ok(dict)
    }

    /// Returns a pyarrow Table over the same memory.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// Returns a pandas DataFrame; columns of whole numbers stay whole where some are missing.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("firstmatch.pandas")?.call_method1("frame_of", (slf,))
    }

    /// Returns a Polars DataFrame over the same memory.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("firstmatch._show")?.call_method1("table", (slf,))?.extract()
    }

    /// Returns the first rows.
    #[pyo3(signature = (rows=10))]
    fn head(&self, rows: usize) -> Self {
        let mut left = rows;
        let batches = self.batches.iter().map_while(|batch| {
            let taken = left.min(batch.num_rows());
            left -= taken;
            (taken > 0).then(|| batch.slice(0, taken))
        });
        Self { schema: Arc::clone(&self.schema), batches: batches.collect() }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let _ = py;
        Err(PyValueError::new_err("a Table is not pickled; pickle what to_pyarrow() returns"))
    }
}

/// Appends the values of an array of a result.
fn append(list: &Bound<'_, PyList>, array: &dyn Array) -> PyResult<()> {
    for row in 0..array.len() {
        if array.is_null(row) {
            list.append(list.py().None())?;
            continue;
        }
        match array.data_type() {
            DataType::Dictionary(key, _) => {
                let (keys, values) = match **key {
                    DataType::Int8 => {
                        let of = array.as_dictionary::<Int8Type>();
                        (i64::from(of.keys().value(row)), of.values())
                    }
                    _ => {
                        let of = array.as_dictionary::<Int32Type>();
                        (i64::from(of.keys().value(row)), of.values())
                    }
                };
                list.append(values.as_string::<i32>().value(keys as usize))?;
            }
            DataType::Utf8 => list.append(array.as_string::<i32>().value(row))?,
            DataType::Binary => list.append(PyBytes::new(list.py(), array.as_binary::<i32>().value(row)))?,
            DataType::LargeBinary => list.append(PyBytes::new(list.py(), array.as_binary::<i64>().value(row)))?,
            DataType::Boolean => list.append(array.as_boolean().value(row))?,
            DataType::Int16 => list.append(array.as_primitive::<Int16Type>().value(row))?,
            DataType::Int32 => list.append(array.as_primitive::<Int32Type>().value(row))?,
            DataType::Int64 => list.append(array.as_primitive::<Int64Type>().value(row))?,
            DataType::UInt8 => list.append(array.as_primitive::<UInt8Type>().value(row))?,
            DataType::UInt32 => list.append(array.as_primitive::<UInt32Type>().value(row))?,
            DataType::Timestamp(..) => list.append(array.as_primitive::<TimestampNanosecondType>().value(row))?,
            other => return Err(PyValueError::new_err(format!("no Python value for {other}"))),
        }
    }
    Ok(())
}

/// Rows that are made as they are read, once: `pyarrow.table(s)`, `firewall.tally(s)`, or batch by batch by
/// `pyarrow.RecordBatchReader.from_stream(s)`.
#[pyclass(frozen, module = "firstmatch")]
pub(crate) struct Stream {
    schema: SchemaRef,
    reader: Mutex<Option<Reader>>,
}

impl Stream {
    pub(crate) fn new(reader: Reader) -> Self {
        Self { schema: reader.schema(), reader: Mutex::new(Some(reader)) }
    }

    fn take(&self) -> PyResult<Reader> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        reader.ok_or_else(|| PyValueError::new_err("this stream was read already; a stream can be read once"))
    }
}

#[pymethods]
impl Stream {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule::stream(py, self.take()?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema_of(py, &self.schema)
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        names(&self.schema)
    }

    /// Reads all rows into memory.
    fn read_all(&self, py: Python<'_>) -> PyResult<Table> {
        let reader = self.take()?;
        let schema = Arc::clone(&self.schema);
        let batches: Result<Vec<_>, _> = py.detach(|| reader.collect());
        Ok(Table::new(schema, batches.map_err(|error| PyValueError::new_err(error.to_string()))?))
    }

    fn __repr__(&self) -> String {
        format!("<Stream of {}>", names(&self.schema).join(", "))
    }
}

/// Returns a column of a result.
pub(crate) fn column(name: &str, of: DataType) -> Field {
    Field::new(name, of, true)
}
