//! Python package of firstmatch: rules over Arrow tables, data frames and captures.
//!
//! The way of a table: `capsule` takes it over without a copy, `request` and `logs` find the columns of
//! fields, `arrays` borrows their buffers, `work` reads blocks of rows into keys on several threads, and
//! `classify` or `tally` takes the decisions. The package's documentation is in `python/firstmatch`.
#![deny(unsafe_code)]

mod arrays;
#[expect(unsafe_code, reason = "capsules hold pointers")]
mod capsule;
mod capture;
mod classify;
mod error;
mod explain;
mod firewall;
mod logs;
mod questions;
mod request;
mod stream;
mod table;
mod tally;
mod update;
mod work;

use std::path::PathBuf;

use pyo3::prelude::*;

/// Returns the packets of a capture (pcap or pcapng) as a stream: time, link type, length, header fields and frame.
///
/// Header fields that cannot be read are null, like those that a packet lacks. Rules decide frames, not these columns:
/// `classify` and `tally` take the column `frame` before any other.
#[pyfunction]
fn read_capture(py: Python<'_>, path: PathBuf) -> PyResult<table::Stream> {
    py.detach(|| capture::read(&path)).map(table::Stream::new)
}

/// Names of the logs whose columns are known.
#[pyfunction]
fn presets() -> Vec<&'static str> {
    logs::PRESETS.iter().map(|preset| preset.name).collect()
}

#[pymodule(gil_used = false)]
mod _firstmatch {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::error::Fault;
    #[pymodule_export]
    use crate::firewall::Firewall;
    #[pymodule_export]
    use crate::table::{Stream, Table};
    #[pymodule_export]
    use crate::update::Update;
    #[pymodule_export]
    use crate::{presets, read_capture};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("RuleError", py.get_type::<crate::error::RuleError>())?;
        module.add("ColumnError", py.get_type::<crate::error::ColumnError>())?;
        module.add("RowError", py.get_type::<crate::error::RowError>())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
