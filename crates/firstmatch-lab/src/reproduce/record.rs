//! Record of a paper's claims: `record.csv`.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::Paper;
use super::verdict::Verdict;
use crate::machine::Machine;
use crate::report::records;

/// Result of one claim.
///
/// A claim that was not run has no measurement, commit, date, source of sets or machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) paper: String,
    pub(super) entry: String,
    pub(super) id: String,
    pub(super) claim: String,
    pub(super) unit: String,
    pub(super) claimed: String,
    pub(super) measured: String,
    pub(super) ratio: String,
    pub(super) shape: String,
    pub(super) verdict: String,
    /// Commit of the code, with a `+` if code was changed.
    pub(super) commit: String,
    pub(super) date: String,
    /// Source of generated rule sets: `profiles` or `parameter files`.
    pub(super) sets: String,
    pub(super) machine: String,
    /// Digest of the rules, the keys and the answers; empty for entries without rules.
    pub(super) digest: String,
}

/// Rows of a paper, written to its file one by one.
pub(super) struct Record<'a> {
    paper: &'a Paper,
    machine: &'a Machine,
    sets: &'static str,
    rows: Vec<Row>,
}

impl<'a> Record<'a> {
    /// Reads the record of a paper; there are no rows without the file.
    pub(super) fn open(paper: &'a Paper, machine: &'a Machine, seeds: bool) -> anyhow::Result<Self> {
        let path = paper.folder.join("record.csv");
        let rows = match fs::read_to_string(&path) {
            Ok(text) => records::rows(&path, &text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        Ok(Self { paper, machine, sets: if seeds { "parameter files" } else { "profiles" }, rows })
    }

    /// Replaces the row of a claim and writes the file, so that a run that is aborted later keeps it.
    ///
    /// Rows of claims that no longer exist are left out.
    pub(super) fn put(&mut self, mut row: Row) -> anyhow::Result<()> {
        if row.verdict != Verdict::NotRun.name() {
            let Machine { cpu, cores, commit, date } = self.machine;
            row.commit.clone_from(commit);
            row.date.clone_from(date);
            row.sets = self.sets.to_owned();
            row.machine = format!("{cpu}, {cores} cores");
        }
        let claims = &self.paper.claims.claims;
        let place = |row: &Row| claims.iter().position(|claim| claim.id == row.id && claim.entry == row.entry);
        self.rows.retain(|old| old.id != row.id && place(old).is_some());
        self.rows.push(row);
        self.rows.sort_by_key(|row| (row.entry.clone(), place(row)));
        self.write()
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> PathBuf {
        self.paper.folder.join("record.csv")
    }

    /// Writes the figures over time of an entry to a file of its own, `<entry>.csv`.
    pub(super) fn put_course(&self, entry: &str, course: &str) -> anyhow::Result<()> {
        let path = self.paper.folder.join(format!("{entry}.csv"));
        let Machine { commit, date, .. } = self.machine;
        let head = format!("# firstmatch-lab reproduce {}/{entry}; commit {commit}; {date}\n", self.paper.key);
        fs::write(&path, head + course).with_context(|| path.display().to_string())
    }

    /// Writes a new file and puts it in the place of the old one, which is never half written.
    fn write(&self) -> anyhow::Result<()> {
        let mut out = Vec::new();
        writeln!(out, "# firstmatch-lab reproduce {}", self.paper.key)?;
        let mut csv = csv::Writer::from_writer(&mut out);
        self.rows.iter().try_for_each(|row| csv.serialize(row))?;
        csv.flush()?;
        drop(csv);
        let (path, new) = (self.path(), self.paper.folder.join("record.csv.new"));
        fs::write(&new, out).with_context(|| new.display().to_string())?;
        fs::rename(&new, &path).with_context(|| path.display().to_string())
    }
}
