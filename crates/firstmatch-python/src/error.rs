//! Exceptions.

use firstmatch::core::Diagnostic;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(firstmatch, RuleError, PyValueError, "Rules have faults; `faults` lists them.");
create_exception!(firstmatch, ColumnError, PyValueError, "Columns of a table do not fit the rules.");
create_exception!(
    firstmatch,
    RowError,
    PyValueError,
    "A row has a value that its field cannot have: `value` in `column` of `row`, counted from 0."
);

/// A fault of a rule file, or a warning about one.
#[pyclass(frozen, get_all, eq, hash, module = "firstmatch")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fault {
    /// The line, from 1.
    line: u32,
    /// The column, from 1, in characters.
    column: u32,
    /// Fault, in words.
    message: String,
    /// Expected text, if that can be said.
    help: Option<String>,
    /// The line as it is written.
    text: String,
}

#[pymethods]
impl Fault {
    fn __str__(&self) -> String {
        let Self { line, column, message, help, .. } = self;
        let help = help.as_ref().map_or(String::new(), |help| format!("; expected {help}"));
        format!("{line}:{column}: {message}{help}")
    }

    fn __repr__(&self) -> String {
        format!("<Fault {}>", self.__str__())
    }
}

impl From<&Diagnostic> for Fault {
    fn from(of: &Diagnostic) -> Self {
        let Diagnostic { line, column, message, expected, text, .. } = of;
        Self { line: *line, column: *column, message: message.clone(), help: expected.clone(), text: text.clone() }
    }
}

/// Returns the exception for faults of rules, behind the name of their file.
pub(crate) fn faulty(name: &str, faults: &[Diagnostic], more: usize) -> PyErr {
    let faults: Vec<Fault> = faults.iter().map(Fault::from).collect();
    let prefix = if name.is_empty() { String::new() } else { format!("{name}:") };
    let mut lines: Vec<String> = faults.iter().map(|fault| format!("{prefix}{}", fault.__str__())).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    with_faults(lines.join("\n"), faults)
}

fn with_faults(message: String, faults: Vec<Fault>) -> PyErr {
    let error = RuleError::new_err(message);
    Python::attach(|py| {
        // Exceptions take any attribute.
        let _: PyResult<()> = error.value(py).setattr("faults", faults);
    });
    error
}

/// Returns the exception for rules that cannot be built or changed.
pub(crate) fn refused(error: &firstmatch::Error) -> PyErr {
    if error.faults().is_empty() { with_faults(error.to_string(), Vec::new()) } else { faulty("", error.faults(), 0) }
}

/// Returns the exception for a value of a row.
pub(crate) fn bad_row(row: usize, column: &str, value: &str, why: &str) -> PyErr {
    let error =
        RowError::new_err(format!("row {row}, column \"{column}\": {value} {why}; errors=\"null\" keeps such rows"));
    Python::attach(|py| {
        let of = error.value(py);
        let _: PyResult<()> = of.setattr("row", row).and_then(|()| of.setattr("column", column));
        let _: PyResult<()> = of.setattr("value", value);
    });
    error
}

/// Runs `body` and returns a panic in it as `RuntimeError`, because `except Exception` misses a panic's own exception.
pub(crate) fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(PyRuntimeError::new_err(format!("a bug in firstmatch: {}", text.unwrap_or_default())))
    })
}
