//! `firstmatch-lab reproduce`: shows claims of papers beside measurements.
//!
//! `papers/README.md` documents the files.

mod claims;
mod contest;
mod counted;
mod distribution;
mod expansion;
mod experiment;
mod lists;
mod partitions;
mod sax_pac;
mod tables;
mod verdict;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};

use crate::machine::Machine;
use crate::report::records;
use claims::{Claim, Claims};
use experiment::{Entry, Experiments, Run};
use verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// PAPER/ENTRY to run, or PAPER for all of its entries. Without any, lists all entries
    entries: Vec<String>,
    /// Folder of the papers
    #[arg(long, value_name = "DIR", default_value = "papers")]
    papers: PathBuf,
    /// Folder of ClassBench parameter files, `acl1_seed` to `ipc2_seed`, from which rule sets are made instead of the
    /// profiles of these names
    #[arg(long, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// Write the result of each claim to the record.csv of its paper
    #[arg(long)]
    record: bool,
}

/// Result for a claim.
#[derive(Clone, Debug)]
struct Outcome {
    claim: String,
    measured: Measured,
}

/// Measurement of an experiment for a claim.
#[derive(Clone, Debug, PartialEq)]
enum Measured {
    Numbers(Vec<f64>),
    Text(String),
    /// Whether the first engine of the claim is better than the second in every comparison.
    Wins {
        holds: bool,
        what: String,
    },
}

/// Files of a paper.
struct Paper {
    key: String,
    folder: PathBuf,
    claims: Claims,
    experiments: Experiments,
}

impl Paper {
    fn read(papers: &Path, key: &str) -> anyhow::Result<Self> {
        let folder = papers.join(key);
        ensure!(folder.is_dir(), "there is no paper `{key}` in {}", papers.display());
        let claims = Claims::read(&folder.join("expected.toml"))?;
        let experiments = Experiments::read(&folder.join("experiment.toml"), &claims)?;
        Ok(Self { key: key.to_owned(), folder, claims, experiments })
    }

    /// Returns the entries that have claims or an experiment, in order.
    fn entries(&self) -> BTreeSet<&str> {
        let claimed = self.claims.claims.iter().map(|claim| claim.entry.as_str());
        claimed.chain(self.experiments.0.keys().map(String::as_str)).collect()
    }

    /// Returns the claims about an entry that no experiment measures.
    fn not_run<'a>(&'a self, entry: &'a str) -> impl Iterator<Item = &'a Claim> {
        let of_entry = self.claims.claims.iter().filter(move |claim| claim.entry == entry);
        of_entry.filter(|claim| !self.experiments.measure(&claim.id))
    }
}

/// Runs entries and prints what they show; a verdict that fails is no error.
pub(crate) fn reproduce(args: &ReproduceArgs, machine: &Machine, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.entries.is_empty() {
        list(&args.papers, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut wanted: Vec<(String, Option<String>)> = Vec::new();
    for name in &args.entries {
        let (paper, entry) = name.split_once('/').map_or((name.as_str(), None), |(paper, entry)| (paper, Some(entry)));
        wanted.push((paper.to_owned(), entry.map(str::to_owned)));
    }
    writeln!(out, "{}, {} cores; commit {}; {}", machine.cpu, machine.cores, machine.commit, machine.date)?;
    for (key, only) in wanted {
        let paper = Paper::read(&args.papers, &key)?;
        let entries = paper.entries();
        if let Some(only) = &only
            && !entries.contains(only.as_str())
        {
            let known: Vec<_> = entries.into_iter().collect();
            bail!("{key} has no entry `{only}`; expected one of {}", known.join(", "));
        }
        for name in entries.into_iter().filter(|name| only.as_ref().is_none_or(|only| only == name)) {
            let outcomes = match paper.experiments.0.get(name) {
                Some(entry) => run(entry, args.seeds.as_deref(), out, &format!("{key}/{name}"))?,
                None => Vec::new(),
            };
            if outcomes.is_empty() {
                writeln!(out, "\n{key}/{name}: there is no experiment")?;
            }
            let rows = judge(&paper, name, &outcomes, out)?;
            if args.record {
                let path = record(&paper, machine, args.seeds.is_some(), name, rows)?;
                writeln!(out, "recorded in {}", path.display())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(papers: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(papers).with_context(|| papers.display().to_string())?;
    let mut keys: Vec<String> = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().join("expected.toml").exists() {
            keys.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    keys.sort_unstable();
    for key in keys {
        let paper = Paper::read(papers, &key)?;
        for name in paper.entries() {
            let shows = paper.experiments.0.get(name).map(|entry| entry.shows.trim().to_owned());
            let not_run = match paper.not_run(name).count() {
                0 => None,
                1 => Some("not run: 1 claim".to_owned()),
                count => Some(format!("not run: {count} claims")),
            };
            let parts: Vec<String> = [shows, not_run].into_iter().flatten().collect();
            writeln!(out, "{key}/{name}: {}", parts.join("; "))?;
        }
    }
    Ok(())
}

fn run(entry: &Entry, seeds: Option<&Path>, out: &mut dyn Write, name: &str) -> anyhow::Result<Vec<Outcome>> {
    writeln!(out, "\n{name}: {}", entry.shows.trim())?;
    match &entry.run {
        Run::Tables(run) => tables::run(run, out),
        Run::Partitions(run) => partitions::run(run, seeds, out),
        Run::Contest(run) => contest::run(run, seeds, out),
        Run::Distribution(run) => distribution::run(run, seeds, out),
        Run::Prefixes(run) => expansion::prefixes_of(run, out),
        Run::Expansion(run) => expansion::growth(run, seeds, out),
    }
    .with_context(|| name.to_owned())
}

/// Prints claims and measurements side by side, and returns the rows of the record.
///
/// The claims that no experiment measures come last.
fn judge(paper: &Paper, entry: &str, outcomes: &[Outcome], out: &mut dyn Write) -> anyhow::Result<Vec<[String; 9]>> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["claim", "claimed", "measured", "ratio", "shape", "verdict"]);
    let mut judged = Vec::new();
    for Outcome { claim: id, measured } in outcomes {
        let claim = paper.claims.get(id).with_context(|| format!("{}: there is no claim `{id}`", paper.key))?;
        let verdict = Verdict::of(claim, measured);
        judged.push((claim, verdict::shown(measured), verdict::ratio(claim, measured), verdict));
    }
    judged.extend(paper.not_run(entry).map(|claim| (claim, String::new(), String::new(), Verdict::NotRun)));
    let mut rows = Vec::new();
    for (claim, measured, ratio, verdict) in judged {
        let row = [
            paper.key.clone(),
            entry.to_owned(),
            claim.claim.clone(),
            claim.unit.clone().unwrap_or_default(),
            claim.claimed(),
            measured,
            ratio,
            claim.shape.to_string(),
            verdict.name().to_owned(),
        ];
        let [_, _, what, unit, claimed, found, ratio, shape, verdict] = &row;
        let with_unit =
            |text: &str| if unit.is_empty() || text.is_empty() { text.to_owned() } else { format!("{text} {unit}") };
        table.add_row([what, &with_unit(claimed), &with_unit(found), ratio, shape, verdict]);
        rows.push(row);
    }
    writeln!(out, "{table}")?;
    Ok(rows)
}

fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = numbers.fold((0, 0.0), |(count, sum), number| (count + 1, sum + number));
    sum / f64::from(count.max(1))
}

/// Columns of a record: those of [`judge`], then commit, date and machine of the run.
const COLUMNS: [&str; 11] =
    ["paper", "entry", "claim", "unit", "claimed", "measured", "ratio", "shape", "verdict", "by", "machine"];

/// Replaces the rows of an entry in the record; the other entries keep theirs.
fn record(
    paper: &Paper,
    machine: &Machine,
    seeds: bool,
    entry: &str,
    rows: Vec<[String; 9]>,
) -> anyhow::Result<PathBuf> {
    let path = paper.folder.join("record.csv");
    let Machine { cpu, cores, commit, date } = machine;
    let entries = paper.entries();
    let by = format!("{commit}, {date}{}", if seeds { ", parameter files" } else { "" });
    let mut all: Vec<Vec<String>> = match std::fs::read_to_string(&path) {
        Ok(text) => records::rows(&path, &text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    all.retain(|row| row.get(1).is_none_or(|name| name != entry && entries.contains(name.as_str())));
    let machine = format!("{cpu}, {cores} cores");
    for row in rows {
        let ran = row[8] != Verdict::NotRun.name();
        let [by, machine] = [&by, &machine].map(|text| if ran { text.clone() } else { String::new() });
        all.push(row.into_iter().chain([by, machine]).collect());
    }
    // The sort is stable, so that the rows of an entry keep their order.
    all.sort_by(|a, b| a.get(1).cmp(&b.get(1)));
    let mut out = Vec::new();
    writeln!(out, "# firstmatch-lab reproduce {}", paper.key)?;
    let mut csv = csv::Writer::from_writer(&mut out);
    csv.write_record(COLUMNS)?;
    all.iter().try_for_each(|row| csv.write_record(row))?;
    csv.flush()?;
    drop(csv);
    std::fs::write(&path, out).with_context(|| path.display().to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_paper_of_the_repository_is_good() {
        let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let mut count = 0;
        for entry in std::fs::read_dir(&papers).expect("papers") {
            let folder = entry.expect("a folder").path();
            if folder.is_dir() {
                Claims::read(&folder.join("expected.toml")).expect("good claims");
                assert!(folder.join("README.md").exists(), "{}", folder.display());
                count += 1;
            }
        }
        assert_eq!(count, 5);
    }

    /// The worked examples of the paper are small enough for every run of the tests.
    #[test]
    fn the_worked_examples_are_the_papers() {
        let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let paper = Paper::read(&papers, "tuplemerge").expect("good files");
        let mut judged = 0;
        for (name, entry) in &paper.experiments.0 {
            if let Run::Tables(_) | Run::Prefixes(_) = entry.run {
                let outcomes = run(entry, None, &mut Vec::new(), name).expect("a run");
                for row in judge(&paper, name, &outcomes, &mut Vec::new()).expect("claims") {
                    assert!(["holds", "not run"].contains(&row[8].as_str()), "{row:?}");
                    judged += usize::from(row[8] == "holds");
                }
            }
        }
        assert_eq!(judged, 3);
    }

    /// The record of every paper has a row for each claim.
    ///
    /// A claim without an experiment is marked as not run, and every other row names its machine.
    #[test]
    fn records_have_a_row_for_every_claim() {
        let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        for key in ["bitmap-rfc", "decomposition", "shaikot", "storm", "tuplemerge"] {
            let paper = Paper::read(&papers, key).expect("good files");
            let path = paper.folder.join("record.csv");
            let text = std::fs::read_to_string(&path).expect("a record");
            let rows: Vec<Vec<String>> = records::rows(&path, &text).expect("good rows");
            for claim in &paper.claims.claims {
                let of_claim = |row: &&Vec<String>| row[1] == claim.entry && row[2] == claim.claim;
                let row = rows.iter().find(of_claim).unwrap_or_else(|| panic!("{key}: no row of `{}`", claim.id));
                assert_eq!(row[8] == "not run", !paper.experiments.measure(&claim.id), "{row:?}");
                assert_eq!(row[8] == "not run", row[10].is_empty(), "{row:?}");
            }
        }
    }
}
