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
use crate::table::{number, percent};

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
/// Definition with changes beside a reader, for all columns.
const CHANGES: &str = "updates-under-load";
/// Engines with a row of lookups each, then those of the other rows.
const ENGINES: [&str; 3] = ["bit_select", "bit_vector", "meta"];
const NAMED: [&str; 2] = ["bit_select", "meta"];
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
    let text = Table::of(&of_machine).text(&args.machine);
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

/// Returns the heads of the table's columns and its rows, without the marks of Markdown.
pub(crate) fn cells(records: &[&Record]) -> (Vec<String>, Vec<Vec<String>>) {
    let table = Table::of(records);
    let head = std::iter::once(String::new()).chain(table.heads()).collect();
    let plain = |cell: Option<&str>| cell.unwrap_or("–").replace('`', "");
    let row = |(name, cells): &(String, [Option<String>; COLUMNS.len()])| {
        let cells = cells.iter().map(|cell| plain(cell.as_deref()));
        std::iter::once(plain(Some(name))).chain(cells).collect()
    };
    (head, table.rows.iter().map(row).collect())
}

/// Records of a machine by column, and the rows made from them.
struct Table<'a> {
    lookups: [Option<&'a Record>; COLUMNS.len()],
    frames: [Option<&'a Record>; COLUMNS.len()],
    changes: Option<&'a Record>,
    rows: Vec<(String, [Option<String>; COLUMNS.len()])>,
}

impl<'a> Table<'a> {
    fn of(records: &[&'a Record]) -> Self {
        let named = |name: &str| records.iter().copied().find(|record| record.definition == name);
        let lookups = COLUMNS.map(|(_, definition)| named(definition));
        let mut table = Self { lookups, frames: FRAMES.map(named), changes: named(CHANGES), rows: Vec::new() };
        table.times();
        table.leads();
        table.frames_to_decisions();
        table.sizes();
        table.beside_changes();
        table
    }

    /// Adds a row with a cell for each record of lookups, unless all cells are empty.
    fn row(&mut self, name: String, of: impl Fn(&Record) -> Option<String>) {
        self.row_of(self.lookups, name, of);
    }

    /// Adds a row with a cell for each of `records`, unless all cells are empty.
    fn row_of(
        &mut self,
        records: [Option<&Record>; COLUMNS.len()],
        name: String,
        of: impl Fn(&Record) -> Option<String>,
    ) {
        let cells = records.map(|record| of(record?));
        if cells.iter().any(Option::is_some) {
            self.rows.push((name, cells));
        }
    }

    fn times(&mut self) {
        let nanos = |name: &str, of: &dyn Fn(&str) -> bool, batch: usize, table: &mut Self| {
            table.row(name.to_owned(), |record| mean(record, of, ("lookup", Some(batch)), |_| 1.0).map(number));
        };
        for engine in ENGINES {
            nanos(&format!("`{engine}`, ns a prepared key"), &|name| name == engine, BATCH, self);
        }
        nanos(
            "DPDK's `rte_acl` up to AVX2, its faster configuration on each set",
            &|name| Peer::Avx2.is(name),
            BATCH,
            self,
        );
        nanos("`rte_acl` with AVX-512, which firstmatch does not use", &|name| Peer::Any.is(name), BATCH, self);
        nanos("`linear`", &|name| name == "linear", BATCH, self);
        nanos("an exact-match table of as many keys: the floor", &|name| name == "limit", BATCH, self);
        for engine in NAMED {
            nanos(&format!("one key a call: `{engine}`"), &|name| name == engine, 1, self);
        }
        nanos("one key a call: `rte_acl`", &|name| Peer::Any.is(name), 1, self);
    }

    fn leads(&mut self) {
        for (peer, over) in [(Peer::Avx2, "`rte_acl` up to AVX2"), (Peer::Any, "`rte_acl` with AVX-512")] {
            for engine in ENGINES {
                self.row(format!("least lead of `{engine}` over {over}, times"), |record| {
                    let lead = least(&record.rows, engine, ("lookup", BATCH), peer)?;
                    Some(format!("{} (`{}`)", number(lead.ratio), lead.set))
                });
            }
        }
        let floor = |is: &dyn Fn(&Row) -> bool, record: &Record| {
            let rows = record.rows.iter().filter(|row| row.measure == "lookup" && row.batch == Some(BATCH) && is(row));
            rows.filter(|row| row.median.is_some()).filter_map(|row| row.noise_floor).reduce(f64::max).map(percent)
        };
        let ours = |row: &Row| !Peer::Any.is(&row.engine);
        self.row("noise floor at most: two builds of one engine".to_owned(), |record| floor(&ours, record));
        // The noise floor is its own only if it has a second table.
        let twice = |record: &Record| {
            record.rows.iter().any(|row| row.engine.starts_with("rte_acl") && row.engine.ends_with(" again"))
        };
        self.row("noise floor at most: two tables of `rte_acl`".to_owned(), |record| {
            twice(record).then(|| floor(&|row| Peer::Any.is(&row.engine), record)).flatten()
        });
    }

    /// Adds the times from a frame in memory to the answer, over the sets of the frame records.
    fn frames_to_decisions(&mut self) {
        let records = self.frames;
        let nanos =
            |records: [Option<&Record>; COLUMNS.len()], name: &str, of: &dyn Fn(&str) -> bool, table: &mut Self| {
                table.row_of(records, name.to_owned(), |record| {
                    let nanos = mean(record, of, (FRAME_TO_DECISION, Some(BATCH)), |_| 1.0)?;
                    Some(format!("{} ({} sets)", number(nanos), sets(record)))
                });
            };
        for engine in NAMED {
            nanos(records, &format!("from a frame to a decision, ns: `{engine}`"), &|name| name == engine, self);
        }
        for (peer, over) in [(Peer::Avx2, "`rte_acl` up to AVX2"), (Peer::Any, "`rte_acl` with AVX-512")] {
            // A machine without AVX-512 has no figures of it.
            let is_avx512 = |row: &Row| row.engine.contains("avx512");
            let has_lines = |record: &&Record| peer == Peer::Avx2 || record.rows.iter().any(is_avx512);
            let records = records.map(|record| record.filter(has_lines));
            let acl = format!("from a frame to a decision, ns: {over}, reading the frame in place");
            nanos(records, &acl, &|name| peer.is(name), self);
            for engine in NAMED {
                self.row_of(records, format!("least lead of `{engine}` from frames over {over}, times"), |record| {
                    let lead = least(&record.rows, engine, (FRAME_TO_DECISION, BATCH), peer)?;
                    Some(format!("{} (`{}`)", number(lead.ratio), lead.set))
                });
            }
        }
    }

    fn sizes(&mut self) {
        let acl = |name: &'static str| move |engine: &str| engine == format!("{name} avx2");
        let mut both = |name: &str, of: &dyn Fn(&str) -> bool| {
            let bytes =
                |record: &Record| mean(record, of, ("run", None), |row| 1.0 / row.rules.max(1) as f64).map(number);
            let millis = |record: &Record| mean(record, of, ("build", None), |_| 1000.0).map(number);
            self.row(format!("bytes a rule in all: {name}"), bytes);
            self.row(format!("ms to build: {name}"), millis);
        };
        for engine in NAMED {
            both(&format!("`{engine}`"), &|name| name == engine);
        }
        both("`rte_acl`", &acl("rte_acl"));
        both("`rte_acl`, tables of up to 2 GiB", &acl("rte_acl max"));
    }

    /// Adds the figures of `meta` beside a reader, on the least favourable set of each size.
    fn beside_changes(&mut self) {
        let Some(record) = self.changes else { return };
        let least = |measure: &str, size: &str| {
            let of_size = |row: &&Row| row.set.rsplit_once('_').is_some_and(|(_, end)| end == size);
            let rows = record.rows.iter().filter(of_size).filter(|row| row.engine == "meta" && row.measure == measure);
            rows.filter_map(|row| row.median).reduce(f64::min)
        };
        let thousands = |rate: f64| format!("{:.0},000", rate / 1000.0);
        let rates = COLUMNS.map(|(size, _)| least("under updates, as many as can be: updates", size).map(thousands));
        let share = "under updates, 100000/s: reader, share with the writer stopped";
        let shares = COLUMNS.map(|(size, _)| least(share, size).map(|share| format!("{:.0} %", share * 100.0)));
        let rows = [
            ("`meta`: changes a second beside a reader, at least", rates),
            ("what a reader keeps of its lookups beside 100,000 changes a second, at least", shares),
        ];
        self.rows.extend(
            rows.map(|(name, cells)| (name.to_owned(), cells))
                .into_iter()
                .filter(|(_, cells)| cells.iter().any(Option::is_some)),
        );
    }

    /// Returns the heads of the columns behind the first.
    fn heads(&self) -> Vec<String> {
        let heads = COLUMNS.iter().zip(self.lookups);
        let head = |((size, _), record): (&(&str, &str), Option<&Record>)| match record {
            Some(record) => format!("{size} rules, {} sets", sets(record)),
            None => format!("{size} rules"),
        };
        heads.map(head).collect()
    }

    fn text(&self, machine: &str) -> String {
        let mut text = format!("{BEGIN}{machine} -->\n| | {} |\n|---|---|---|---|\n", self.heads().join(" | "));
        for (name, cells) in &self.rows {
            let cells: Vec<&str> = cells.iter().map(|cell| cell.as_deref().unwrap_or("–")).collect();
            text += &format!("| {name} | {} |\n", cells.join(" | "));
        }
        let records = self.lookups.into_iter().chain(self.frames).chain([self.changes]).flatten();
        let links = records.map(|record| {
            let file = record.path.file_name().unwrap_or_default().to_string_lossy();
            let head = record.head.first().map_or("", String::as_str);
            format!("- [{}](benchmarks/record/{machine}/{file}): {head}\n", record.definition)
        });
        text + "\n" + &links.collect::<String>() + END + "\n"
    }
}

/// Returns the number of sets of a record.
fn sets(record: &Record) -> usize {
    let mut sets: Vec<&str> = record.rows.iter().map(|row| row.set.as_str()).collect();
    sets.dedup();
    sets.len()
}

/// Returns the geometric mean over a record's sets of the least median of some engines.
///
/// Medians are scaled by `scale`. The mean is `None` if a set has no such median, because the mean would be over other
/// sets. For example, medians of 10 ns and 40 ns on two sets give 20 ns.
fn mean(
    record: &Record,
    of: &dyn Fn(&str) -> bool,
    (measure, batch): (&str, Option<usize>),
    scale: impl Fn(&Row) -> f64,
) -> Option<f64> {
    let mut sets: Vec<&str> = record.rows.iter().map(|row| row.set.as_str()).collect();
    sets.dedup();
    let least = |set: &&str| {
        let rows = record.rows.iter().filter(|row| row.set == *set && row.measure == measure && row.batch == batch);
        rows.filter(|row| of(&row.engine)).filter_map(|row| Some(row.median? * scale(row))).reduce(f64::min)
    };
    geometric_mean(&sets.iter().map(least).collect::<Option<Vec<_>>>()?)
}
