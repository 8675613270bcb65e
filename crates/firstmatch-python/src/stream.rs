//! Decisions that are made as they are read.

use std::collections::VecDeque;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use firstmatch::Firewall;
use pyo3::PyErr;

use crate::capsule::Reader;
use crate::classify::Form;
use crate::error::guarded;
use crate::work::Work;

/// Batches of decisions on a table that is read once.
pub(crate) struct ClassifiedStream {
    firewall: Firewall,
    work: Work,
    form: Form,
    reader: Reader,
    ready: VecDeque<RecordBatch>,
    is_over: bool,
}

impl ClassifiedStream {
    pub(crate) fn new(firewall: Firewall, work: Work, form: Form, reader: Reader) -> Self {
        Self { firewall, work, form, reader, ready: VecDeque::new(), is_over: false }
    }

    fn advance(&mut self) -> Result<(), PyErr> {
        let batches = self.work.pull(&mut self.reader)?;
        self.is_over = batches.is_empty();
        let tasks = self.form.decide(&self.firewall, &mut self.work, &batches).map_err(|fault| fault.error())?;
        self.ready.extend(self.form.batches(tasks));
        Ok(())
    }
}

impl Iterator for ClassifiedStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.is_over {
            if let Err(error) = guarded(|| self.advance()) {
                self.is_over = true;
                return Some(Err(ArrowError::ExternalError(Box::new(error))));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

impl RecordBatchReader for ClassifiedStream {
    fn schema(&self) -> SchemaRef {
        self.form.schema().clone()
    }
}
