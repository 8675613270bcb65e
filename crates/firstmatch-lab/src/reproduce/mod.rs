//! `firstmatch-lab reproduce`: what papers state beside what is measured here. `papers/README.md` documents the files.

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

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};

use crate::machine::Machine;
use crate::report::records;
use claims::Claims;
use experiment::{Entry, Experiments, Run};
use verdict::Verdict;

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// What to run: PAPER/ENTRY, or PAPER for all of its entries. Without any: what there is
    entries: Vec<String>,
    /// The folder of the papers
    #[arg(long, value_name = "DIR", default_value = "papers")]
    papers: PathBuf,
    /// A folder of ClassBench parameter files, `acl1_seed` to `ipc2_seed`: rule sets are made of them instead of the
    /// profiles of these names
    #[arg(long, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// Record nothing
    #[arg(long)]
    no_record: bool,
}

/// What came of a claim.
#[derive(Clone, Debug)]
struct Outcome {
    claim: String,
    measured: Measured,
}

/// What an experiment found out about a claim.
#[derive(Clone, Debug, PartialEq)]
enum Measured {
    Numbers(Vec<f64>),
    Text(String),
    /// Whether the first of the two that the claim names is better than the second wherever they were compared.
    Wins {
        holds: bool,
        what: String,
    },
}

/// A paper's files.
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
        if let Some(only) = &only
            && !paper.experiments.0.contains_key(only)
        {
            let known: Vec<_> = paper.experiments.0.keys().map(String::as_str).collect();
            bail!("{key} has no entry `{only}`; expected one of {}", known.join(", "));
        }
        let chosen = paper.experiments.0.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == *name));
        for (name, entry) in chosen {
            let outcomes = run(entry, args.seeds.as_deref(), out, &format!("{key}/{name}"))?;
            let rows = judge(&paper, name, &outcomes, out)?;
            if !args.no_record {
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
        if entry.path().join("experiment.toml").exists() {
            keys.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    keys.sort_unstable();
    for key in keys {
        let paper = Paper::read(papers, &key)?;
        for (name, entry) in &paper.experiments.0 {
            writeln!(out, "{key}/{name}: {}", entry.shows.trim())?;
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

/// Prints claimed and measured side by side; the rows of the record.
fn judge(paper: &Paper, entry: &str, outcomes: &[Outcome], out: &mut dyn Write) -> anyhow::Result<Vec<[String; 9]>> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["claim", "claimed", "measured", "ratio", "shape", "verdict"]);
    let mut rows = Vec::new();
    for Outcome { claim: id, measured } in outcomes {
        let claim = paper.claims.get(id).with_context(|| format!("{}: there is no claim `{id}`", paper.key))?;
        let verdict = Verdict::of(claim, measured);
        let row = [
            paper.key.clone(),
            entry.to_owned(),
            claim.claim.clone(),
            claim.unit.clone().unwrap_or_default(),
            claim.claimed(),
            verdict::shown(measured),
            verdict::ratio(claim, measured),
            claim.shape.to_string(),
            verdict.name().to_owned(),
        ];
        let [_, _, what, unit, claimed, found, ratio, shape, verdict] = &row;
        let with_unit = |text: &str| if unit.is_empty() { text.to_owned() } else { format!("{text} {unit}") };
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

/// Columns of a record: those that [`judge`] gives, then what ran.
const COLUMNS: [&str; 10] =
    ["paper", "entry", "claim", "unit", "claimed", "measured", "ratio", "shape", "verdict", "by"];

/// Puts the rows of an entry in the place of those that are there; the other entries keep theirs.
fn record(
    paper: &Paper,
    machine: &Machine,
    seeds: bool,
    entry: &str,
    rows: Vec<[String; 9]>,
) -> anyhow::Result<PathBuf> {
    let path = paper.folder.join("record.csv");
    let Machine { cpu, cores, commit, date } = machine;
    let by = format!("{commit}, {date}{}", if seeds { ", parameter files" } else { "" });
    let mut all: Vec<Vec<String>> = match std::fs::read_to_string(&path) {
        Ok(text) => records::rows(&path, &text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    all.retain(|row| row.get(1).is_none_or(|name| name != entry && paper.experiments.0.contains_key(name)));
    all.extend(rows.into_iter().map(|row| row.into_iter().chain([by.clone()]).collect()));
    // In the order of the entries; those of an entry stay as they are.
    all.sort_by(|a, b| a.get(1).cmp(&b.get(1)));
    let mut out = Vec::new();
    writeln!(out, "# {cpu}, {cores} cores")?;
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
                    assert_eq!(row[8], "holds", "{row:?}");
                    judged += 1;
                }
            }
        }
        assert_eq!(judged, 3);
    }
}
