//! `--csv`: a line for each packet.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;

use super::stretch::Stretch;
use crate::rules::Loaded;

pub(super) struct Writer {
    csv: csv::Writer<Box<dyn Write>>,
    name: String,
}

const HEADER: [&str; 7] = ["packet", "outcome", "rule", "line", "action", "verdict", "bytes"];

impl Writer {
    /// Creates the file, or takes standard output for `-`, and writes the header.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let (name, out): (_, Box<dyn Write>) = if name == "-" {
            ("standard output".to_owned(), Box::new(io::stdout().lock()))
        } else {
            let file = File::create(path).with_context(|| format!("{name}: cannot be written"))?;
            (name, Box::new(file))
        };
        let mut writer = Self { csv: csv::WriterBuilder::new().buffer_capacity(1 << 16).from_writer(out), name };
        writer.row(&HEADER)?;
        Ok(writer)
    }

    pub(super) fn write(&mut self, loaded: &Loaded, stretch: &Stretch) -> anyhow::Result<()> {
        let packets = stretch.batch.records().iter().zip(&stretch.answers);
        for (number, (record, answer)) in (stretch.first..).zip(packets) {
            let rule = answer.and_then(|found| loaded.rule(found.rule));
            let verdict =
                if record.outcome.is_classified() { loaded.verdict(*answer) } else { loaded.file.policy.unknown };
            self.row(&[
                &number.to_string(),
                record.outcome.name(),
                &rule.map_or(String::new(), |rule| rule.id.to_string()),
                &rule.map_or(String::new(), |rule| loaded.line_of(rule).to_string()),
                &rule.map_or(String::new(), |rule| rule.action.to_string()),
                &verdict.to_string(),
                &record.bytes.to_string(),
            ])?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.csv.flush().with_context(|| self.failed())
    }

    fn row(&mut self, row: &[&str; 7]) -> anyhow::Result<()> {
        let written = self.csv.write_record(row).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        });
        written.with_context(|| self.failed())
    }

    fn failed(&self) -> String {
        format!("{}: cannot be written", self.name)
    }
}
