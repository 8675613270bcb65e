//! Figures as rows, and rows as CSV.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::machine::Machine;
use crate::measure::lookup;
use crate::measure::round::Cell;
use crate::measure::subject::{Built, Role};
use crate::measure::under_updates::FIGURES;
use crate::measure::{Line, Report, between_twins, from_itself, median};
use crate::statistics::{Summary, is_void};

/// Measure of lookups from frames in memory, parsing included.
pub(crate) const FRAME_TO_DECISION: &str = "frame to decision";

/// Measure of instructions that Callgrind counts.
pub(crate) const INSTRUCTIONS: &str = "instructions, callgrind";

/// Start of the measures of updates beside a reader; the rate and the figure follow.
pub(crate) const UNDER_UPDATES: &str = "under updates, ";

/// Row with one figure of one engine on one set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) set: String,
    pub(crate) rules: usize,
    pub(crate) keys: usize,
    pub(crate) engine: String,
    /// Name of the measure.
    pub(crate) measure: String,
    pub(crate) batch: Option<usize>,
    pub(crate) threads: usize,
    pub(crate) unit: String,
    pub(crate) median: Option<f64>,
    pub(crate) min: Option<f64>,
    pub(crate) lower_quartile: Option<f64>,
    pub(crate) upper_quartile: Option<f64>,
    pub(crate) max: Option<f64>,
    /// Median of wall time; the others are of CPU time.
    pub(crate) wall_median: Option<f64>,
    /// Noise floor of the first engine in this measure; for a line of `rte_acl`, its own.
    pub(crate) noise_floor: Option<f64>,
    /// Relative distance between the medians of the sittings.
    #[serde(default)]
    pub(crate) drift: Option<f64>,
    /// Whether the noise floor voids the figure.
    pub(crate) void: bool,
    /// Median as a multiple of each yardstick's.
    pub(crate) of_limit: Option<f64>,
    pub(crate) of_rte_acl: Option<f64>,
    pub(crate) of_linear: Option<f64>,
}

/// Returns the medians of the yardsticks, in the order of the columns.
fn yardsticks(report: &Report, of: impl Fn(&Line) -> Option<Summary>) -> [Option<f64>; 3] {
    [Role::Limit, Role::RteAcl, Role::Linear].map(|role| median(&report.lines, role, &of))
}

/// Returns every figure of a report.
pub(crate) fn rows(definition: &Definition, report: &Report) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in &report.lines {
        if let Ok(built) = &line.built {
            let mut of_line = OfLine { report, line, rows: &mut rows };
            of_line.lookups(definition);
            of_line.instructions(definition);
            of_line.updates(definition);
            of_line.under_updates(definition);
            of_line.size(built);
        }
    }
    rows
}

struct OfLine<'a> {
    report: &'a Report,
    line: &'a Line,
    rows: &'a mut Vec<Row>,
}

impl OfLine<'_> {
    fn push(&mut self, measure: &str, unit: &str, batch: Option<usize>, figures: Summary) -> &mut Row {
        self.rows.push(Row {
            set: self.report.set.clone(),
            rules: self.report.rules,
            keys: self.report.keys,
            engine: self.line.name.clone(),
            measure: measure.to_owned(),
            batch,
            threads: 1,
            unit: unit.to_owned(),
            median: Some(figures.median),
            min: Some(figures.min),
            lower_quartile: Some(figures.lower_quartile),
            upper_quartile: Some(figures.upper_quartile),
            max: Some(figures.max),
            ..Row::default()
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    fn lookups(&mut self, definition: &Definition) {
        let Some(lookup) = &definition.lookup else { return };
        let (report, line) = (self.report, self.line);
        for (index, cell) in lookup::cells(lookup).into_iter().enumerate() {
            let (Some(cpu), Some(wall)) = (line.figures.cpu(index), line.figures.wall(index)) else { continue };
            let (measure, unit, batch) = match cell {
                Cell::Batch(batch) => ("lookup", "ns/key", batch),
                Cell::Dependent => ("lookup, dependent", "ns/key", 1),
                Cell::Frames(batch) => (FRAME_TO_DECISION, "ns/frame", batch),
            };
            let yardsticks = yardsticks(report, |line| line.figures.cpu(index)).map(|by| by.map(|by| cpu.median / by));
            let floor = match line.role {
                Role::RteAcl | Role::RteAclAgain => from_itself(&report.lines, line, |line| line.figures.cpu(index)),
                _ => report.floors[index],
            };
            let row = self.push(measure, unit, Some(batch), cpu);
            row.wall_median = Some(wall.median);
            row.noise_floor = Some(floor);
            row.drift = line.figures.drift(index);
            row.void = is_void(floor);
            [row.of_limit, row.of_rte_acl, row.of_linear] = yardsticks;
        }
        for (index, batch) in lookup::latency_batches(lookup).enumerate() {
            let Some((p50, p99)) = line.figures.latency(index) else { continue };
            self.push("latency, p50", "ns/batch", Some(batch), p50);
            self.push("latency, p99", "ns/batch", Some(batch), p99);
        }
        let largest = lookup.batches.iter().copied().max();
        for (index, &threads) in lookup.threads.iter().enumerate() {
            let Some((cpu, wall)) = line.figures.threads(index) else { continue };
            let row = self.push("lookup, all threads", "ns/key", largest, cpu);
            (row.threads, row.wall_median) = (threads, Some(wall.median));
        }
        if let Some(instructions) = line.figures.instructions {
            self.push("instructions a packet", "instructions", largest, Summary::exactly(instructions));
        }
    }

    fn instructions(&mut self, definition: &Definition) {
        let Some(instructions) = &definition.instructions else { return };
        let report = self.report;
        for (index, &batch) in instructions.batches.iter().enumerate() {
            let of = |line: &Line| line.instructions.get(index).copied().map(Summary::exactly);
            let Some(own) = of(self.line) else { continue };
            let floor = between_twins(&report.lines, of);
            let yardsticks = yardsticks(report, of).map(|by| by.map(|by| own.median / by));
            let row = self.push(INSTRUCTIONS, "instructions/key", Some(batch), own);
            (row.noise_floor, row.void) = (Some(floor), is_void(floor));
            [row.of_limit, row.of_rte_acl, row.of_linear] = yardsticks;
        }
    }

    fn updates(&mut self, definition: &Definition) {
        let readers = definition.updates.as_ref().map_or(0, |updates| updates.readers);
        for (which, (measure, threads)) in [("updates", 1), ("updates with readers", 1 + readers)].iter().enumerate() {
            let Some((cpu, wall)) = self.line.updates[which] else { continue };
            let floor = self.report.update_floors[which];
            let row = self.push(measure, "updates/s", None, cpu);
            (row.threads, row.wall_median, row.noise_floor) = (*threads, Some(wall.median), floor);
            row.void = floor.is_none_or(is_void);
        }
    }

    fn under_updates(&mut self, definition: &Definition) {
        let Some(updates) = &definition.under_updates else { return };
        let line = self.line;
        for (rate, figures) in updates.rates.iter().zip(&line.under_updates) {
            let rate = if *rate == 0 { "as many as can be".to_owned() } else { format!("{rate}/s") };
            for ((measure, unit), figure) in FIGURES.iter().zip(figures) {
                let row = self.push(&format!("{UNDER_UPDATES}{rate}: {measure}"), unit, Some(updates.batch), *figure);
                row.threads = 2;
            }
        }
    }

    fn size(&mut self, built: &Built) {
        let bytes = |bytes: usize| Summary::exactly(bytes as f64);
        self.push("build", "s", None, built.seconds);
        self.push("run", "bytes", None, bytes(built.run_bytes));
        for (part, size) in &built.stats.bytes {
            self.push(&format!("run: {part}"), "bytes", None, bytes(*size));
        }
        self.push("run: a thread's scratch", "bytes", None, bytes(built.scratch_bytes));
        self.push("build peak: the engine", "bytes", None, bytes(built.peak_bytes));
        self.push("build peak: regions", "bytes", None, bytes(self.report.region_bytes));
        self.push("rules", "bytes", None, bytes(self.report.rule_bytes));
        if built.stats.worst_tests > 0 {
            self.push("worst case", "lines", None, bytes(built.stats.worst_lines));
            self.push("worst case", "tests", None, bytes(built.stats.worst_tests));
        }
    }
}

/// Writes the rows of a definition to `<cpu>/<date>-<definition>.csv` below a folder.
pub(crate) fn write(
    folder: &Path,
    machine: &Machine,
    definition: &Definition,
    notes: &[String],
    rows: &[Row],
) -> anyhow::Result<PathBuf> {
    let folder = folder.join(machine.folder());
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let path = folder.join(format!("{}-{}.csv", machine.date, definition.name));
    let mut out = Vec::new();
    let Machine { cpu, cores, commit, date } = machine;
    writeln!(out, "# {cpu}, {cores} cores; commit {commit}; {date}")?;
    writeln!(out, "# firstmatch-lab measure {}", definition.name)?;
    for note in notes {
        writeln!(out, "# {note}")?;
    }
    let mut csv = csv::Writer::from_writer(&mut out);
    rows.iter().try_for_each(|row| csv.serialize(row))?;
    csv.flush()?;
    drop(csv);
    fs::write(&path, out).with_context(|| path.display().to_string())?;
    Ok(path)
}
