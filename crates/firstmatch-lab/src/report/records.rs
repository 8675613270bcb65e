//! Records that `measure` and other programs left below a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use csv::StringRecord;
use serde::de::DeserializeOwned;

use crate::record::Row;

/// Record that `measure` wrote about one definition.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) path: PathBuf,
    /// Name of its folder: the processor.
    pub(crate) machine: String,
    pub(crate) date: String,
    pub(crate) definition: String,
    /// Comments at its head: machine and commit, the command, notes.
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// Table that another program wrote.
#[derive(Clone, Debug)]
pub(crate) struct Other {
    pub(crate) path: PathBuf,
    pub(crate) machine: String,
    pub(crate) date: String,
    pub(crate) head: Vec<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Newest record of each definition and machine, sorted by machine, then by definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub(crate) measured: Vec<Record>,
    pub(crate) others: Vec<Other>,
}

/// Start of the second line of a record of `measure`, before the name of the definition.
const COMMAND: &str = "firstmatch-lab measure ";

impl Records {
    /// Reads all records below a folder, `<machine>/<date>-<name>.csv`; none if it is missing.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut newest = BTreeMap::new();
        for machine in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
            for path in entries(&machine)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "csv")) {
                // A later date comes later in the order, and replaces the earlier record.
                let (_, name) = date_and_name(&path)?;
                newest.insert((machine.clone(), name), path);
            }
        }
        let mut records = Self::default();
        for ((machine, _), path) in newest {
            records.add(&machine, path)?;
        }
        Ok(records)
    }

    fn add(&mut self, machine: &Path, path: PathBuf) -> anyhow::Result<()> {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let head: Vec<String> =
            text.lines().map_while(|line| line.strip_prefix('#')).map(|line| line.trim().to_owned()).collect();
        let machine = machine.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (date, _) = date_and_name(&path)?;
        match head.get(1).and_then(|line| line.strip_prefix(COMMAND)).map(str::to_owned) {
            Some(definition) => {
                let rows = rows(&path, &text)?;
                self.measured.push(Record { path, machine, date, definition, head, rows });
            }
            None => {
                let columns = reader(&text).headers().map(cells).map_err(|error| at(&path, &error))?;
                let lines =
                    reader(&text).into_records().map(|row| row.map(|row| cells(&row))).collect::<Result<_, _>>();
                let rows = lines.map_err(|error| at(&path, &error))?;
                self.others.push(Other { path, machine, date, head, columns, rows });
            }
        }
        Ok(())
    }

    /// Returns the machines without duplicates.
    pub(crate) fn machines(&self) -> Vec<&str> {
        let mut machines: Vec<&str> = self.measured.iter().map(|record| record.machine.as_str()).collect();
        machines.dedup();
        machines
    }
}

fn cells(row: &StringRecord) -> Vec<String> {
    row.iter().map(str::to_owned).collect()
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let paths = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = paths.with_context(|| folder.display().to_string())?;
    paths.sort_unstable();
    Ok(paths)
}

fn date_and_name(path: &Path) -> anyhow::Result<(String, String)> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let good = |date: &str| date.parse::<jiff::civil::Date>().is_ok();
    let parts = stem.get(..10).filter(|date| good(date)).zip(stem.get(10..).and_then(|rest| rest.strip_prefix('-')));
    let parts = parts.map(|(date, name)| (date.to_owned(), name.to_owned()));
    parts.ok_or_else(|| anyhow!("{}: expected a name like 2026-11-21-definition.csv", path.display()))
}

fn reader(text: &str) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes())
}

/// Reads the rows of a CSV file whose heads are the names of fields.
pub(crate) fn rows<T: DeserializeOwned>(path: &Path, text: &str) -> anyhow::Result<Vec<T>> {
    reader(text).into_deserialize().collect::<Result<_, _>>().map_err(|error| at(path, &error))
}

/// Returns an error with the file and, if it is known, the line.
fn at(path: &Path, error: &csv::Error) -> anyhow::Error {
    let line = error.position().map(csv::Position::line);
    let what = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => match err.field() {
            Some(field) => format!("column {}: {}", field + 1, err.kind()),
            None => err.kind().to_string(),
        },
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("expected {expected_len} columns, found {len}")
        }
        _ => error.to_string(),
    };
    match line {
        Some(line) => anyhow!("{}:{line}: {what}", path.display()),
        None => anyhow!("{}: {what}", path.display()),
    }
}
