//! `firstmatch-lab readme`: makes the README's table from a processor model's newest records.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;

use crate::leads::{Peer, least};
use crate::record::{FRAME_TO_DECISION, Row};
use crate::report::records::{Record, Records};
use crate::statistics::geometric_mean;
use crate::table::{Table, number, or_dash, percent};
use crate::view::View;

#[derive(Debug, Args)]
pub(crate) struct ReadmeArgs {
    /// Processor model: a folder of records
    machine: String,
    /// Folder of the records
    #[arg(long, value_name = "DIR", default_value = "benchmarks/record")]
    record: PathBuf,
    /// Put the table into a file as well, in place of this model's table there, or else the first
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Columns: the end of a set's name, and the definition with its lookups.
const COLUMNS: [(&str, &str); 3] = [("1k", "fastest-1k"), ("10k", "fastest-10k"), ("100k", "fastest-100k")];
/// Definitions with lookups from frames, by column.
const FRAMES: [&str; COLUMNS.len()] = ["frames-1k", "frames-10k", "frames-100k"];
/// Definition with rules on groups, for all columns.
const POLICIES: &str = "policies";
/// Definition with changes beside a reader, for all columns.
const CHANGES: &str = "updates-under-load";
/// Engine whose figures the table has.
const OURS: &str = "meta";
const BATCH: usize = 32;
/// Lines around the table in a file.
const BEGIN: &str = "<!-- firstmatch-lab readme ";
const END: &str = "<!-- end of the table -->";

/// Prints the table, and writes it into a file if `args` names one.
pub(crate) fn readme(args: &ReadmeArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let records = Records::read(&args.record)?;
    let of_machine: Vec<&Record> = records.measured.iter().filter(|record| record.machine == args.machine).collect();
    let known = records.machines().join(", ");
    ensure!(!of_machine.is_empty(), "there is no record of `{}`; expected one of {known}", args.machine);
    let text = Claims::of(&of_machine).text(&args.machine);
    if let Some(path) = &args.write {
        let named = || path.display().to_string();
        let file = fs::read_to_string(path).with_context(named)?;
        // The table of this machine is replaced, or else the first.
        let own = format!("{BEGIN}{} -->", args.machine);
        let begin = file.find(&own).or_else(|| file.find(BEGIN));
        let parts = begin.and_then(|at| Some((&file[..at], file[at..].split_once(END)?.1)));
        let (before, after) = parts.with_context(|| format!("{}: expected `{BEGIN}…` and `{END}`", path.display()))?;
        fs::write(path, format!("{before}{}{after}", text.trim_end())).with_context(named)?;
    }
    write!(out, "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the machine whose table a README has.
pub(crate) fn machine(readme: &str) -> Option<&str> {
    let (_, rest) = readme.split_once(BEGIN)?;
    rest.split_once(" -->").map(|(machine, _)| machine)
}

/// Returns the README's table without the marks of Markdown.
pub(crate) fn table(records: &[&Record]) -> Table {
    let mut table = Claims::of(records).table;
    table.rows.iter_mut().flatten().for_each(|cell| *cell = cell.replace('`', ""));
    table
}

/// Cells of a row, by column.
type Cells = [Option<String>; COLUMNS.len()];

/// Records of a machine by column, and the table made from them.
struct Claims<'a> {
    lookups: [Option<&'a Record>; COLUMNS.len()],
    frames: [Option<&'a Record>; COLUMNS.len()],
    policies: Option<&'a Record>,
    changes: Option<&'a Record>,
    table: Table,
}

impl<'a> Claims<'a> {
    fn of(records: &[&'a Record]) -> Self {
        let named = |name: &str| records.iter().copied().find(|record| record.definition == name);
        let lookups = COLUMNS.map(|(_, definition)| named(definition));
        let mut table = Table::new(&[""]);
        table.head.extend(COLUMNS.iter().zip(lookups).map(|((size, _), record)| match record {
            Some(record) => format!("{size} rules, {} sets", View::new(&record.rows).sets.len()),
            None => format!("{size} rules"),
        }));
        let (policies, changes) = (named(POLICIES), named(CHANGES));
        let mut claims = Self { lookups, frames: FRAMES.map(named), policies, changes, table };
        claims.times(lookups, "lookup", "a prepared key");
        claims.times(claims.frames, FRAME_TO_DECISION, "from a frame to a decision");
        claims.policies();
        claims.changes();
        claims.bytes();
        claims
    }

    /// Adds a row with a cell for each record, unless all cells are empty.
    fn row(&mut self, name: String, cells: Cells) {
        if cells.iter().any(Option::is_some) {
            self.table.rows.push(std::iter::once(name).chain(cells.map(or_dash)).collect());
        }
    }

    /// Adds the times of our engine with its worst set, and those of `rte_acl` with the set where they come nearest.
    fn times(&mut self, records: [Option<&Record>; COLUMNS.len()], measure: &str, what: &str) {
        let figure = (measure, Some(BATCH));
        let own = records.map(|record| {
            let times = by_set(record?, &|name| name == OURS, figure, |_| 1.0)?;
            let (set, worst) = times.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
            Some(format!("{} ({} on `{set}`)", number(mean(&times)?), number(*worst)))
        });
        self.row(format!("`{OURS}`, ns {what}"), own);
        for (peer, name) in [(Peer::Avx2, "`rte_acl` up to AVX2"), (Peer::Any, "`rte_acl` with AVX-512")] {
            // A machine without AVX-512 has no figures of it.
            let is_avx512 = |row: &Row| row.engine.contains("avx512");
            let has_lines = |record: &&Record| peer == Peer::Avx2 || record.rows.iter().any(is_avx512);
            let times = records.map(|record| {
                let record = record.filter(has_lines)?;
                let nanos = mean(&by_set(record, &|name| peer.is(name), figure, |_| 1.0)?)?;
                let lead = least(&record.rows, OURS, (measure, BATCH), peer)?;
                Some(format!("{} (× {} on `{}`)", number(nanos), number(lead.ratio), lead.set))
            });
            self.row(format!("{name}, ns {what}"), times);
        }
    }

    /// Adds the times and bytes of our engine on rules on groups.
    fn policies(&mut self) {
        let Some(record) = self.policies else { return };
        let cells = COLUMNS.map(|(size, _)| {
            let of = |measure: &str, batch, scale: fn(&Row) -> f64| {
                let rows = of_size(record, size).filter(|row| row.engine == OURS);
                let rows = rows.filter(|row| row.measure == measure && row.batch == batch);
                rows.map(|row| Some((row.set.as_str(), row.median? * scale(row)))).collect::<Option<Vec<_>>>()
            };
            let times = of("lookup", Some(BATCH), |_| 1.0)?;
            let bytes = mean(&of("run", None, |row| 1.0 / row.rules.max(1) as f64)?)?;
            let (set, worst) = times.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
            Some(format!("{} ({} on `{set}`), {}", number(mean(&times)?), number(*worst), number(bytes)))
        });
        self.row(format!("`{OURS}`, rules on groups: ns a prepared key, bytes a rule"), cells);
    }

    /// Adds the changes a second beside a reader, on the least favourable set of each size.
    fn changes(&mut self) {
        let Some(record) = self.changes else { return };
        const MEASURE: &str = "under updates, as many as can be: updates";
        let cells = COLUMNS.map(|(size, _)| {
            let rows = of_size(record, size).filter(|row| row.engine == OURS && row.measure == MEASURE);
            let least = rows.filter_map(|row| row.median).reduce(f64::min)?;
            Some(format!("{:.0},000", least / 1000.0))
        });
        self.row(format!("`{OURS}`, changes a second beside a reader, at least"), cells);
    }

    fn bytes(&mut self) {
        let of = |record: &Record, name: &str| {
            mean(&by_set(record, &|engine| engine == name, ("run", None), |row| 1.0 / row.rules.max(1) as f64)?)
        };
        let cells = self.lookups.map(|record| {
            let record = record?;
            Some(format!("{} and {}", number(of(record, OURS)?), number(of(record, "rte_acl avx2")?)))
        });
        self.row(format!("bytes a rule: `{OURS}` and `rte_acl`"), cells);
    }

    fn text(&self, machine: &str) -> String {
        let Table { head, rows, .. } = &self.table;
        let mut text = format!("{BEGIN}{machine} -->\n| | {} |\n|---|---|---|---|\n", head[1..].join(" | "));
        rows.iter().for_each(|cells| text += &format!("| {} |\n", cells.join(" | ")));
        let records: Vec<&Record> =
            self.lookups.into_iter().chain(self.frames).chain([self.policies, self.changes]).flatten().collect();
        let links = records.iter().map(|record| {
            let file = record.path.file_name().unwrap_or_default().to_string_lossy();
            let about = record.head.first().and_then(|head| head.split_once("; ")).map_or("", |(_, about)| about);
            format!("[{}](benchmarks/record/{machine}/{file}) ({about})", record.definition)
        });
        let links = links.collect::<Vec<_>>().join(", ");
        let head = records.first().and_then(|record| record.head.first()?.split("; ").next()).unwrap_or(machine);
        let floors: Vec<String> = self.lookups.into_iter().flatten().filter_map(noise_floor).map(percent).collect();
        text + &format!("\n{head}: {links}. Noise floors are at most {}.\n{END}\n", floors.join(", "))
    }
}

/// Returns the rows of the sets of a size; for example, those of `acl1_10k` for `10k`.
fn of_size<'r>(record: &'r Record, size: &str) -> impl Iterator<Item = &'r Row> {
    record.rows.iter().filter(move |row| row.set.rsplit_once('_').is_some_and(|(_, end)| end == size))
}

/// Returns the most by which two builds of one engine, or two tables of `rte_acl`, differ on a set.
fn noise_floor(record: &Record) -> Option<f64> {
    let rows = record.rows.iter().filter(|row| row.measure == "lookup" && row.batch == Some(BATCH));
    rows.filter(|row| row.median.is_some()).filter_map(|row| row.noise_floor).reduce(f64::max)
}

/// Returns the least median of some engines on each of a record's sets, scaled by `scale`.
///
/// The result is `None` if a set has no such median, because a mean would be over other sets.
fn by_set<'r>(
    record: &'r Record,
    of: &dyn Fn(&str) -> bool,
    (measure, batch): (&str, Option<usize>),
    scale: impl Fn(&Row) -> f64,
) -> Option<Vec<(&'r str, f64)>> {
    let least = |set: &'r Row| {
        let set = set.set.as_str();
        let rows = record.rows.iter().filter(|row| row.set == set && row.measure == measure && row.batch == batch);
        let medians = rows.filter(|row| of(&row.engine)).filter_map(|row| Some(row.median? * scale(row)));
        Some((set, medians.reduce(f64::min)?))
    };
    View::new(&record.rows).sets.into_iter().map(least).collect()
}

/// Returns the geometric mean; for example, 10 ns and 40 ns on two sets give 20 ns.
fn mean(by_set: &[(&str, f64)]) -> Option<f64> {
    geometric_mean(&by_set.iter().map(|(_, value)| *value).collect::<Vec<_>>())
}
