//! `firstmatch-lab reproduce`: shows claims of papers beside measurements.
//!
//! `papers/README.md` documents the files.

mod adapt;
mod bench;
mod boxes;
mod built;
mod callgrind;
mod claims;
mod contest;
mod counted;
mod example;
mod experiment;
mod figures;
mod lists;
mod rate;
mod record;
mod sax_pac;
mod sweep;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use indicatif::HumanDuration;

use crate::machine::Machine;
use claims::{Claim, Claims};
use experiment::{Entry, Experiments};
use record::{Record, Row};
pub(crate) use verdict::Verdict;

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
    /// Write the result of each claim to the record.csv of its paper as soon as it is known
    #[arg(long)]
    record: bool,
}

/// Exit code of a run that had no experiment.
const NOTHING_RUN: u8 = 3;

/// Result for a claim.
#[derive(Clone, Debug)]
struct Outcome {
    claim: String,
    measured: Measured,
    reach: Reach,
    /// Measurements if the times of an engine were otherwise, within [`NOISE`]; none where nothing was timed.
    nearby: Vec<(Measured, Reach)>,
    /// Digest of the rules, the keys and the answers; empty without rules.
    digest: String,
    /// Figures over time, as CSV that is kept beside the record.
    course: Option<String>,
}

impl Outcome {
    /// Returns the outcome of a measurement without noise, or of one that is only stated.
    fn exact(claim: &str, measured: Measured, digest: &str) -> Self {
        let (claim, digest) = (claim.to_owned(), digest.to_owned());
        Self { claim, measured, reach: Reach::Whole, nearby: Vec::new(), digest, course: None }
    }
}

/// Share by which the mean times of an engine may differ between two runs.
///
/// A verdict that turns within it is undecided.
const NOISE: f64 = 0.1;
/// Factors on times at the two ends of that.
const NEARBY: [f64; 2] = [1.0 + NOISE, 1.0 / (1.0 + NOISE)];

/// Measurement of an experiment for a claim.
#[derive(Clone, Debug, PartialEq)]
enum Measured {
    Numbers(Vec<f64>),
    /// Numbers that a simulation projected to a machine with more cores.
    Projected(Vec<f64>),
    Text(String),
    /// Figures of the first contestant and the second, in every comparison.
    Pairs {
        pairs: Vec<(f64, f64)>,
        what: String,
    },
}

/// How far a measurement reaches where it is about an optimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// All of it was measured.
    Whole,
    /// The optimum lies on the edge of the grid: the true one may lie beyond.
    Edge,
    /// The numbers are lower bounds, because an optimum that they compare with lies on the edge.
    LowerBound,
}

/// Takes each outcome as soon as it is known.
type Emit<'a> = &'a mut dyn FnMut(Outcome) -> anyhow::Result<()>;

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
        self.claims.entries().chain(self.experiments.entries().map(|(name, _, _)| name)).collect()
    }

    /// Returns the claims about an entry that no experiment measures.
    fn not_run<'a>(&'a self, entry: &'a str) -> impl Iterator<Item = &'a Claim> {
        let of_entry = self.claims.claims.iter().filter(move |claim| claim.entry == entry);
        of_entry.filter(|claim| !self.experiments.measure(&claim.id))
    }
}

/// Runs entries and prints what they show; a verdict that fails is no error.
///
/// The exit code is [`NOTHING_RUN`] if none of the entries has an experiment.
pub(crate) fn reproduce(args: &ReproduceArgs, machine: &Machine, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.entries.is_empty() {
        list(&args.papers, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut wanted: Vec<(Paper, Option<String>)> = Vec::new();
    for name in &args.entries {
        let (key, only) = name.split_once('/').map_or((name.as_str(), None), |(key, entry)| (key, Some(entry)));
        let paper = Paper::read(&args.papers, key)?;
        if let Some(only) = only {
            let known: Vec<&str> = paper.entries().into_iter().collect();
            ensure_entry(&paper, only, &known)?;
        }
        wanted.push((paper, only.map(str::to_owned)));
    }
    writeln!(out, "{}, {} cores; commit {}; {}", machine.cpu, machine.cores, machine.commit, machine.date)?;
    let mut ran = 0;
    for (paper, only) in &wanted {
        ran += one(args, paper, only.as_deref(), machine, out)?;
    }
    Ok(if ran == 0 { ExitCode::from(NOTHING_RUN) } else { ExitCode::SUCCESS })
}

fn ensure_entry(paper: &Paper, entry: &str, known: &[&str]) -> anyhow::Result<()> {
    if let Some(unclaimed) = paper.claims.unclaimed.iter().find(|unclaimed| unclaimed.entry == entry) {
        bail!("{}/{entry} has nothing to compare: {}", paper.key, unclaimed.why);
    }
    ensure!(known.contains(&entry), "{} has no entry `{entry}`; expected one of {}", paper.key, known.join(", "));
    Ok(())
}

/// Runs the entries of a paper, or one of them, and returns the number of experiments.
fn one(
    args: &ReproduceArgs,
    paper: &Paper,
    only: Option<&str>,
    machine: &Machine,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    let key = &paper.key;
    let mut record = args.record.then(|| Record::open(paper, machine, args.seeds.is_some())).transpose()?;
    if paper.experiments.0.is_empty() {
        writeln!(out, "\n{key} has no experiments: nothing is measured, its claims are listed alone")?;
    }
    let mut verdicts = Vec::new();
    let mut ran: Vec<&str> = Vec::new();
    for name in paper.entries().into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
        let mut rows = Vec::new();
        let mut judge = |outcome: Outcome| {
            let claim = paper.claims.get(&outcome.claim);
            let claim = claim.with_context(|| format!("{key}: there is no claim `{}`", outcome.claim))?;
            let (row, verdict) = judged(key, claim, Some(&outcome));
            verdicts.push(verdict);
            if let Some(record) = &mut record {
                record.put(row.clone())?;
                outcome.course.iter().try_for_each(|course| record.put_course(&claim.entry, course))?;
            }
            rows.push(row);
            Ok(())
        };
        let experiment = paper.experiments.of(name);
        let from = Instant::now();
        match experiment {
            Some((experiment, _)) if !ran.contains(&experiment) => {
                let entry = &paper.experiments.0[experiment];
                run(entry, args.seeds.as_deref(), out, &format!("{key}/{experiment}"), &mut judge)?;
                ran.push(experiment);
            }
            Some(_) => {}
            None => writeln!(out, "\n{key}/{name}: there is no experiment")?,
        }
        let taken = from.elapsed();
        for setup in paper.claims.setup.iter().filter(|setup| setup.entry == name) {
            writeln!(out, "set-up: {setup}")?;
        }
        for claim in paper.not_run(name) {
            let (row, verdict) = judged(key, claim, None);
            verdicts.push(verdict);
            record.as_mut().map_or(Ok(()), |record| record.put(row.clone()))?;
            rows.push(row);
        }
        print(&rows, out)?;
        if taken > WORTH_SAYING {
            writeln!(out, "took {}", HumanDuration(taken))?;
        }
        if let Some((experiment, shows)) = experiment.filter(|(experiment, _)| *experiment != name) {
            writeln!(out, "\n{key}/{name}: {shows} Measured with {experiment}.")?;
        }
    }
    let counts = Verdict::ALL.iter().map(|&verdict| {
        let count = verdicts.iter().filter(|&&other| other == verdict).count();
        format!("{} {count}", verdict.name())
    });
    writeln!(out, "\n{key}: {}: {}", counted(verdicts.len()), counts.collect::<Vec<_>>().join(", "))?;
    if let Some(record) = record {
        writeln!(out, "recorded in {}", record.path().display())?;
    }
    Ok(ran.len())
}

/// Least duration of an experiment that is printed.
const WORTH_SAYING: Duration = Duration::from_secs(1);

fn counted(claims: usize) -> String {
    if claims == 1 { "1 claim".to_owned() } else { format!("{claims} claims") }
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
        let mut all = 0;
        for name in paper.entries() {
            let shows = paper.experiments.of(name).map(|(_, shows)| shows.to_owned());
            let (tested, open): (Vec<_>, Vec<_>) = paper.not_run(name).partition(|claim| claim.tested.is_some());
            let (tested, count) = (tested.len(), open.len());
            let tested = (tested > 0).then(|| format!("shown by tests: {}", counted(tested)));
            all += count;
            let not_run = (count > 0).then(|| format!("not run: {}", counted(count)));
            let parts: Vec<String> = [shows, tested, not_run].into_iter().flatten().collect();
            writeln!(out, "{key}/{name}: {}", parts.join("; "))?;
        }
        writeln!(out, "{key}: not run: {all} of {}", counted(paper.claims.claims.len()))?;
    }
    Ok(())
}

fn run(entry: &Entry, seeds: Option<&Path>, out: &mut dyn Write, name: &str, emit: Emit<'_>) -> anyhow::Result<()> {
    writeln!(out, "\n{name}: {}", entry.shows.trim())?;
    entry.run.run(seeds, out, emit).with_context(|| name.to_owned())
}

/// Returns the row of a claim and its verdict; without an outcome the claim is not run, or a test shows it.
fn judged(key: &str, claim: &Claim, outcome: Option<&Outcome>) -> (Row, Verdict) {
    let verdict = outcome.map_or_else(|| Verdict::without_run(claim), |outcome| Verdict::of(claim, outcome));
    let tested = || claim.tested.as_ref().map(|test| format!("test {test}"));
    let row = Row {
        paper: key.to_owned(),
        entry: claim.entry.clone(),
        id: claim.id.clone(),
        claim: claim.claim.clone(),
        unit: claim.unit.clone().unwrap_or_default(),
        claimed: claim.claimed(),
        measured: outcome.map(|outcome| verdict::shown(&outcome.measured)).or_else(tested).unwrap_or_default(),
        ratio: outcome.map(|outcome| verdict::ratio(claim, &outcome.measured)).unwrap_or_default(),
        shape: claim.shape_text(),
        verdict: verdict.name().to_owned(),
        digest: outcome.map(|outcome| outcome.digest.clone()).unwrap_or_default(),
        ..Row::default()
    };
    (row, verdict)
}

/// Prints claims and measurements side by side.
fn print(rows: &[Row], out: &mut dyn Write) -> anyhow::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["claim", "claimed", "measured", "ratio", "shape", "verdict"]);
    for Row { claim, unit, claimed, measured, ratio, shape, verdict, .. } in rows {
        let with_unit =
            |text: &str| if unit.is_empty() || text.is_empty() { text.to_owned() } else { format!("{text} {unit}") };
        table.add_row([claim, &with_unit(claimed), &with_unit(measured), ratio, shape, verdict]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = numbers.fold((0, 0.0), |(count, sum), number| (count + 1, sum + number));
    sum / f64::from(count.max(1))
}
