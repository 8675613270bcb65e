//! Writer for `--csv` and `--changed`: one line per packet.

use std::io;
use std::path::Path;

use anyhow::Context;

use super::stretch::Stretch;
use crate::format::time;
use crate::output::Output;
use crate::rules::Loaded;

pub(super) struct Writer {
    /// Output; `None` once it is finished.
    csv: Option<csv::Writer<Output>>,
    name: String,
    is_stdout: bool,
}

/// Columns of the packets of `--csv`.
pub(super) const PACKETS: [&str; 9] =
    ["packet", "outcome", "rule", "line", "action", "verdict", "bytes", "label", "time"];
/// Columns of the packets of `--changed`.
pub(super) const CHANGED: [&str; 7] = ["packet", "bytes", "line", "verdict", "new_line", "new_verdict", "time"];

impl Writer {
    /// Begins the file, or takes standard output for `-`, and writes the header.
    ///
    /// Until [`Writer::finish`] the file keeps the content it had before.
    pub(super) fn create(path: &Path, header: &[&str]) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let out = Output::create(path).with_context(|| format!("{name}: cannot be written"))?;
        let is_stdout = out.is_stdout();
        let name = if is_stdout { "standard output".to_owned() } else { name };
        let csv = Some(csv::WriterBuilder::new().buffer_capacity(1 << 16).from_writer(out));
        let mut writer = Self { csv, name, is_stdout };
        writer.row(header)?;
        Ok(writer)
    }

    /// Whether the lines go to standard output.
    pub(super) fn is_stdout(&self) -> bool {
        self.is_stdout
    }

    pub(super) fn write(&mut self, loaded: &Loaded, stretch: &Stretch) -> anyhow::Result<()> {
        let packets = stretch.batch.records().iter().zip(&stretch.decisions).zip(stretch.times());
        for (at, ((record, decision), nanos)) in packets.enumerate() {
            let number = stretch.first + at as u64;
            let rule = decision.rule.and_then(|id| loaded.rule(id));
            self.row(&[
                &number.to_string(),
                record.outcome.name(),
                &rule.map_or(String::new(), |rule| rule.id.to_string()),
                &rule.map_or(String::new(), |rule| loaded.line_of(rule).to_string()),
                &rule.map_or(String::new(), |rule| rule.action.to_string()),
                &decision.verdict.to_string(),
                &stretch.count(at, record).bytes.to_string(),
                rule.and_then(|rule| loaded.label_of(rule)).unwrap_or_default(),
                &nanos.map_or(String::new(), time),
            ])?;
        }
        Ok(())
    }

    /// Ends the file, which then replaces the file of its name.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let Some(csv) = self.csv.take() else { return Ok(()) };
        let finished = csv.into_inner().map_err(csv::IntoInnerError::into_error).and_then(Output::finish);
        finished.with_context(|| self.failed())
    }

    pub(super) fn row(&mut self, row: &[&str]) -> anyhow::Result<()> {
        let Some(csv) = &mut self.csv else { return Ok(()) };
        let written = csv.write_record(row).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        });
        written.with_context(|| self.failed())
    }

    fn failed(&self) -> String {
        format!("{}: cannot be written", self.name)
    }
}
