//! `firstmatch-lab`: recomputes every figure in this project's documents.
#![deny(unsafe_code)]

mod clock;
mod definition;
mod digest;
mod engines;
mod leads;
mod machine;
mod measure;
mod memory;
mod ovs_like;
mod planes;
mod readme;
mod record;
mod report;
mod reproduce;
mod statistics;
mod table;
mod transform;
mod valgrind;
mod view;
mod views;
mod workload;
mod yardstick;

use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use indicatif::ProgressBar;

use definition::Definition;
use machine::Machine;
use measure::{Bench, Fault, Pace, Report};
use record::Row;
use view::View;

/// Laboratory of firstmatch: measures it beside its yardsticks.
#[derive(Debug, Parser)]
#[command(
    name = "firstmatch-lab",
    version,
    after_help = "\
Exit codes: 0 done, 1 an answer was wrong, 2 the command or a file is bad, 3 nothing was run because the paper has no \
experiment."
)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure what definitions state: lookups, memory, builds and updates, beside limit, linear and rte_acl
    #[command(after_help = "\
Examples:
  firstmatch-lab measure --test
  firstmatch-lab measure generated-1k
  firstmatch-lab measure classbench --sets ~/classbench
  firstmatch-lab measure my.toml --record")]
    Measure(MeasureArgs),
    /// Run a paper's experiments and print its claims beside the measurements
    #[command(after_help = "\
Examples:
  firstmatch-lab reproduce
  firstmatch-lab reproduce tuplemerge/table1
  firstmatch-lab reproduce tuplemerge

Exit codes: 0 done, whatever the verdicts, 2 the command, a file or an answer is bad, 3 nothing was run because no \
entry has an experiment.")]
    Reproduce(reproduce::ReproduceArgs),
    /// Measure planes of threads, simulate them, and project them to more cores than there are
    #[command(after_help = "\
Examples:
  firstmatch-lab planes
  firstmatch-lab planes --rounds 9 --project 128

Costs of threads are fitted on planes that look nothing up. Every figure says whether it was measured or projected. \
No other program should run meanwhile.")]
    Planes(planes::PlanesArgs),
    /// Write one HTML page with the plots and tables of all records, and print its path
    #[command(after_help = "\
Examples:
  firstmatch-lab report
  firstmatch-lab report --out report.html")]
    Report(report::ReportArgs),
    /// Print the table of the README, from the newest records of a processor model
    #[command(after_help = "\
Examples:
  firstmatch-lab readme amd-epyc-family-25-model-17 --write README.md")]
    Readme(readme::ReadmeArgs),
    /// Look keys up, warm, between marks: a process of its own for valgrind
    #[command(hide = true)]
    WatchedLookups(valgrind::ChildArgs),
    /// Build a table of rte_acl and print its costs: a process of its own for `measure`
    #[cfg(feature = "rte-acl")]
    #[command(hide = true)]
    BuildRteAcl(yardstick::rte_acl::ChildArgs),
}

#[derive(Debug, Args)]
struct MeasureArgs {
    /// Definitions: names of files in benchmarks/definitions, or paths. All of them if none is named
    definitions: Vec<String>,
    /// Folder of the rule sets and traces that are not part of the repository
    #[arg(long, env = "FIRSTMATCH_SETS", value_name = "DIR")]
    sets: Option<PathBuf>,
    /// Do everything once and briefly, only to check the answers
    #[arg(long, conflicts_with = "record")]
    test: bool,
    /// Write a record of each definition, below benchmarks/record or another folder
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "benchmarks/record")]
    record: Option<PathBuf>,
}

/// Folder of the definitions that are given by name.
const DEFINITIONS: &str = "benchmarks/definitions";

fn main() -> ExitCode {
    let lab = Lab::parse();
    let end = match &lab.command {
        Command::Measure(args) => measure(args),
        Command::Reproduce(args) => reproduce::reproduce(args, &Machine::here(), &mut stdout().lock()),
        Command::Planes(args) => planes::planes(args, &Machine::here(), &mut stdout().lock()),
        Command::WatchedLookups(args) => valgrind::child(args).map(|()| ExitCode::SUCCESS),
        Command::Report(args) => report(args),
        Command::Readme(args) => readme::readme(args, &mut stdout().lock()),
        #[cfg(feature = "rte-acl")]
        Command::BuildRteAcl(args) => yardstick::rte_acl::child(args).map(|()| ExitCode::SUCCESS),
    };
    end.unwrap_or_else(|error| {
        // If standard error is closed, the message is lost.
        let _gone = writeln!(stderr(), "error: {error:#}");
        ExitCode::from(2)
    })
}

fn measure(args: &MeasureArgs) -> anyhow::Result<ExitCode> {
    let paths = match &args.definitions[..] {
        [] => all_definitions().with_context(|| DEFINITIONS.to_owned())?,
        named => named.iter().map(|name| path_of(name)).collect(),
    };
    let (mut wrong, mut bad) = (false, false);
    let machine = Machine::here();
    let mut out = stdout().lock();
    writeln!(out, "{}, {} cores; commit {}; {}", machine.cpu, machine.cores, machine.commit, machine.date)?;
    for path in paths {
        let read = Definition::read(&path).and_then(|definition| {
            if definition.instructions.is_some() {
                valgrind::find().with_context(|| format!("{}, [instructions]", path.display()))?;
            }
            Ok(definition)
        });
        let definition = match read {
            Ok(definition) => definition,
            Err(error) => {
                bad = true;
                writeln!(out, "\nnot run: {error:#}")?;
                continue;
            }
        };
        wrong |= one(args, &machine, &definition, &mut out)?;
    }
    Ok(match (wrong, bad) {
        (true, _) => ExitCode::from(1),
        (_, true) => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    })
}

fn report(args: &report::ReportArgs) -> anyhow::Result<ExitCode> {
    let path = report::write(args, Path::new(DEFINITIONS))?;
    writeln!(stdout(), "{}", path.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs one definition and returns whether an answer was wrong.
fn one(args: &MeasureArgs, machine: &Machine, definition: &Definition, out: &mut dyn Write) -> anyhow::Result<bool> {
    writeln!(out, "\n{}: {}", definition.name, definition.shows.trim())?;
    let mut wrong = false;
    let (mut rows, mut notes): (Vec<Row>, Vec<String>) = Default::default();
    notes.extend(measure::missing());
    notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    // Each set with its benches, or the reason why it has none. All are built before the first is measured.
    let mut pace = Pace { brief: args.test, bar: ProgressBar::new_spinner() };
    let mut benches = Vec::new();
    for set in &definition.sets {
        pace.at(&set.name);
        benches.push((set, measure::prepare(definition, set, args.sets.as_deref(), &pace)));
    }
    for sitting in 1..=pace.sittings() {
        for (set, prepared) in &mut benches {
            pace.at(&format!("sitting {sitting}, {}", set.name));
            if let Ok(parts) = prepared
                && let Err(fault) = parts.iter_mut().try_for_each(|bench| bench.sit(&pace))
            {
                *prepared = Err(fault);
            }
        }
    }
    pace.bar.finish_and_clear();
    for (set, prepared) in benches {
        match prepared {
            Ok(parts) => {
                for report in parts.into_iter().map(Bench::report) {
                    let of_report = record::rows(definition, &report);
                    print(out, &report, &of_report)?;
                    rows.extend(of_report);
                    notes.extend(report.notes.iter().map(|note| format!("{}: {note}", report.set)));
                }
            }
            Err(Fault::NotRun(why)) => writeln!(out, "\n{}: not run: {why}", set.name)?,
            Err(Fault::Wrong(what)) => {
                wrong = true;
                writeln!(out, "\n{}: FAILED: {what}", set.name)?;
            }
        }
    }
    out.flush()?;
    for (title, table) in views::of_record(&View::new(&rows)) {
        writeln!(out, "\n{title}\n{table}")?;
    }
    if let Some(folder) = args.record.as_ref().filter(|_| !rows.is_empty()) {
        let path = record::write(folder, machine, definition, &notes, &rows)?;
        writeln!(out, "recorded in {}", path.display())?;
    }
    Ok(wrong)
}

/// Prints the figures of one set, and why an engine has none.
fn print(out: &mut dyn Write, report: &Report, rows: &[Row]) -> anyhow::Result<()> {
    let Report { set, rules, regions, keys, .. } = report;
    let [rule_bytes, region_bytes] = [report.rule_bytes, report.region_bytes].map(table::bytes);
    writeln!(out, "\n{set}: {rules} rules ({rule_bytes}), {regions} regions ({region_bytes}), {keys} keys")?;
    let view = View::new(rows);
    for (_, table) in view.sets.iter().flat_map(|set| views::of_set(&view, set)) {
        writeln!(out, "{table}")?;
    }
    report.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    for line in &report.lines {
        if let Err(error) = &line.built {
            writeln!(out, "{}: {error:#}", line.name)?;
        }
    }
    Ok(())
}

fn path_of(name: &str) -> PathBuf {
    let path = Path::new(name);
    if path.extension().is_some() { path.to_owned() } else { Path::new(DEFINITIONS).join(format!("{name}.toml")) }
}

fn all_definitions() -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(DEFINITIONS)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    paths.sort_unstable();
    Ok(paths)
}
