//! Tables of figures on the terminal.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use crate::definition::{Definition, Instructions, Lookup, UnderUpdates};
use crate::measure::lookup;
use crate::measure::round::Cell;
use crate::measure::subject::{Built, Role};
use crate::measure::under_updates::FIGURES;
use crate::measure::{Line, Report, updates_a_second};
use crate::record::{self, yardsticks};
use crate::statistics::{Summary, Verdict, geometric_mean, is_void, wider};

/// Prints all figures of one set.
pub(crate) fn print(out: &mut dyn Write, definition: &Definition, report: &Report) -> io::Result<()> {
    let Report { set, rules, regions, keys, rule_bytes, region_bytes, .. } = report;
    writeln!(
        out,
        "\n{set}: {rules} rules ({}), {regions} regions ({}), {keys} keys",
        bytes(*rule_bytes),
        bytes(*region_bytes)
    )?;
    if let Some(lookup) = &definition.lookup {
        noise(out, lookup, report)?;
        writeln!(out, "{}", lookups(lookup, report))?;
    }
    if let Some(counted) = &definition.instructions {
        writeln!(out, "{}", instructions(counted, report))?;
    }
    writeln!(out, "{}", sizes(definition, report))?;
    if let Some(updates) = &definition.under_updates {
        writeln!(out, "{}", under_updates(updates, report))?;
    }
    report.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    for line in &report.lines {
        if let Err(error) = &line.built {
            writeln!(out, "{}: {error:#}", line.name)?;
        }
    }
    Ok(())
}

fn noise(out: &mut dyn Write, lookup: &Lookup, report: &Report) -> io::Result<()> {
    let floors = lookup::cells(lookup).into_iter().zip(&report.floors);
    let floors: Vec<String> = floors.map(|(cell, floor)| format!("{} {}", title(cell), percent(*floor))).collect();
    let drifts = lookup::cells(lookup).into_iter().enumerate().filter_map(|(index, cell)| {
        let drifts = report.lines.iter().filter_map(|line| line.figures.drift(index));
        Some(format!("{} {}", title(cell), percent(drifts.reduce(f64::max)?)))
    });
    let drifts: Vec<String> = drifts.collect();
    let void = if report.floors.iter().any(|floor| is_void(*floor)) { "; above 8.0 % the run is void (?)" } else { "" };
    writeln!(out, "noise floor: {}{void}", floors.join(", "))?;
    let peers = lookup::cells(lookup).into_iter().zip(&report.peer_floors);
    let peers = peers.filter_map(|(cell, floor)| Some(format!("{} {}", title(cell), percent((*floor)?))));
    let peers: Vec<String> = peers.collect();
    if !peers.is_empty() {
        writeln!(out, "noise floor of rte_acl: {}", peers.join(", "))?;
    }
    if !drifts.is_empty() {
        writeln!(out, "between sittings at most: {}", drifts.join(", "))?;
    }
    Ok(())
}

fn title(cell: Cell) -> String {
    match cell {
        Cell::Batch(batch) => batch.to_string(),
        Cell::Dependent => "1 dependent".to_owned(),
        Cell::Frames(batch) => format!("{batch} from frames"),
    }
}

/// Creates a table whose first column is text and whose others are figures.
pub(crate) fn table(head: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Returns the table of nanoseconds per key by batch, then figures of the largest batch.
fn lookups(lookup: &Lookup, report: &Report) -> Table {
    let cells = lookup::cells(lookup);
    let largest = (0..cells.len()).max_by_key(|&index| match cells[index] {
        Cell::Batch(batch) => batch,
        Cell::Dependent | Cell::Frames(_) => 0,
    });
    let batch_of_frames = |index: usize| match cells[index] {
        Cell::Frames(batch) => Some(batch),
        _ => None,
    };
    let with_frames = (0..cells.len()).filter(|&index| batch_of_frames(index).is_some());
    let largest_frames = with_frames.max_by_key(|&index| batch_of_frames(index));
    let mut head = vec!["ns a prepared key, batch of".to_owned()];
    head.extend(cells.iter().map(|cell| title(*cell)));
    head.extend(["spread", "M keys/s", "p50/p99 µs"].map(str::to_owned));
    head.extend(lookup.threads.iter().map(|threads| format!("M keys/s, {threads} threads")));
    head.extend(["× limit", "× rte_acl", "× linear"].map(str::to_owned));
    head.extend(largest_frames.map(|_| "from frames × rte_acl".to_owned()));
    let mut table = table(head);
    for line in report.lines.iter().filter(|line| line.built.is_ok()) {
        let of = |cell: usize| move |line: &Line| line.figures.cpu(cell);
        let mut row = vec![line.name.clone()];
        row.extend((0..cells.len()).map(|cell| figure(of(cell)(line).map(|s| number(s.median)))));
        let best = largest.and_then(|cell| of(cell)(line));
        row.push(figure(best.map(|s| percent(s.spread()))));
        row.push(figure(best.map(|s| number(1000.0 / s.median))));
        let latency = lookup::latency_batches(lookup).count().checked_sub(1).and_then(|at| line.figures.latency(at));
        row.push(figure(latency.map(|(p50, p99)| format!("{:.1}/{:.1}", p50.median / 1000.0, p99.median / 1000.0))));
        let threads = (0..lookup.threads.len()).map(|at| line.figures.threads(at));
        row.extend(threads.map(|figures| figure(figures.map(|(_, wall)| number(1000.0 / wall.median)))));
        let floor = largest.map_or(f64::NAN, |cell| report.floors[cell]);
        let yardsticks = largest.map_or([None; 3], |cell| yardsticks(report, of(cell)));
        let peer = largest.and_then(|cell| report.peer_floors[cell]).map_or(floor, |peer| wider(floor, peer));
        let of = |(by, floor): (Option<f64>, f64)| figure(best.zip(by).map(|(s, by)| ratio(s.median / by, floor)));
        row.extend(yardsticks.into_iter().zip([floor, peer, floor]).map(of));
        row.extend(largest_frames.map(|cell| {
            let nanos = |line: &Line| line.figures.cpu(cell);
            let [_, peer, _] = record::yardsticks(report, nanos);
            let floor = report.peer_floors[cell].map_or(report.floors[cell], |peer| wider(report.floors[cell], peer));
            figure(nanos(line).zip(peer).map(|(own, peer)| ratio(own.median / peer, floor)))
        }));
        table.add_row(row);
    }
    table
}

/// Returns the table of instructions a lookup that Callgrind counted.
fn instructions(counted: &Instructions, report: &Report) -> Table {
    let mut head = vec!["instructions a prepared key, batch of".to_owned()];
    head.extend(counted.batches.iter().map(usize::to_string));
    let mut table = table(head);
    for line in report.lines.iter().filter(|line| !line.instructions.is_empty()) {
        let figures = line.instructions.iter().map(|&figure| format!("{figure:.2}"));
        table.add_row(std::iter::once(line.name.clone()).chain(figures));
    }
    table
}

/// Returns the table of updates beside a reader.
fn under_updates(updates: &UnderUpdates, report: &Report) -> Table {
    let mut head = vec!["updates/s, asked for".to_owned()];
    head.extend(FIGURES.iter().map(|(measure, unit)| format!("{measure} ({unit})")));
    let mut table = table(head);
    for line in &report.lines {
        for (rate, figures) in updates.rates.iter().zip(&line.under_updates) {
            let rate = if *rate == 0 { "all".to_owned() } else { rate.to_string() };
            let mut row = vec![format!("{}, {rate}", line.name)];
            row.extend(figures.iter().map(|figure| match figure.median {
                large if large >= 100.0 => format!("{large:.0}"),
                small => number(small),
            }));
            table.add_row(row);
        }
    }
    table
}

/// Returns the table of builds, memory and updates.
fn sizes(definition: &Definition, report: &Report) -> Table {
    let head = ["", "build", "run", "a rule", "scratch", "build peak", "worst lines/tests", "instructions"];
    let mut head = head.map(str::to_owned).to_vec();
    if let Some(updates) = &definition.updates {
        head.push(format!("updates/s{}", floor_of(report.update_floors[0])));
        if updates.readers > 0 {
            head.push(format!("with {} reader(s){}", updates.readers, floor_of(report.update_floors[1])));
        }
    }
    let columns = head.len();
    let mut table = table(head);
    let mut table_before = None;
    for (line, built) in report.lines.iter().filter_map(|line| Some((line, line.built.as_ref().ok()?))) {
        // One table of `rte_acl` serves all its algorithms.
        let (name, algorithm) = line.name.rsplit_once(' ').unwrap_or((&line.name, ""));
        if line.role == Role::RteAclAgain {
            continue;
        }
        let is_acl = line.role == Role::RteAcl;
        if is_acl && table_before.replace(name) == Some(name) {
            continue;
        }
        let name = if is_acl && !algorithm.is_empty() { name } else { &line.name };
        let Built { stats, seconds, run_bytes, scratch_bytes, peak_bytes, .. } = built;
        let worst = (stats.worst_tests > 0).then(|| format!("{}/{}", stats.worst_lines, stats.worst_tests));
        let mut row = vec![
            name.to_owned(),
            format!("{} ms", number(seconds.median * 1000.0)),
            bytes(*run_bytes),
            format!("{:.0} B", *run_bytes as f64 / report.rules.max(1) as f64),
            bytes(*scratch_bytes),
            bytes(*peak_bytes),
            figure(worst),
            figure(line.figures.instructions.map(number)),
        ];
        row.extend([0, 1].map(|readers| figure(updates_a_second(line, readers).map(rate))));
        row.truncate(columns);
        table.add_row(row);
    }
    table
}

fn rate(updates: Summary) -> String {
    match updates.median {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate => format!("{:.0} k", rate / 1e3),
    }
}

fn floor_of(floor: Option<f64>) -> String {
    floor.map_or(String::new(), |floor| {
        format!(" (noise {}{})", percent(floor), if is_void(floor) { ", void" } else { "" })
    })
}

/// Prints geometric means over the sets, for engines that have figures on all of them.
pub(crate) fn means(out: &mut dyn Write, lookup: &Lookup, reports: &[Report]) -> io::Result<()> {
    let Some(first) = reports.first().filter(|_| reports.len() > 1) else { return Ok(()) };
    let cells = lookup::cells(lookup);
    let mut head = vec![format!("{} sets, geometric means", reports.len())];
    head.extend(cells.iter().map(|cell| title(*cell)));
    head.push("bytes a rule".to_owned());
    let mut table = table(head);
    for name in
        first.lines.iter().filter(|line| !matches!(line.role, Role::Again | Role::RteAclAgain)).map(|line| &line.name)
    {
        let lines = || reports.iter().map(|report| report.lines.iter().find(|line| line.name == *name));
        let mean = |of: &dyn Fn(&Line, &Report) -> Option<f64>| {
            let figures = lines().zip(reports).map(|(line, report)| of(line?, report)).collect::<Option<Vec<_>>>();
            figure(figures.and_then(|figures| geometric_mean(&figures)).map(number))
        };
        let mut row = vec![name.clone()];
        row.extend((0..cells.len()).map(|cell| mean(&|line, _| line.figures.cpu(cell).map(|s| s.median))));
        row.push(mean(&|line, report| {
            line.built.as_ref().ok().map(|built| built.run_bytes as f64 / report.rules.max(1) as f64)
        }));
        table.add_row(row);
    }
    writeln!(out, "\n{table}")
}

fn figure(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// Formats up to three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value < 9.95 => format!("{value:.2}"),
        value if value < 99.5 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn ratio(value: f64, floor: f64) -> String {
    let mark = if value == 1.0 { "" } else { Verdict::of(value, floor).mark() };
    format!("{}{mark}", number(value))
}

pub(crate) fn percent(share: f64) -> String {
    if share.is_nan() { "–".to_owned() } else { format!("{:.1} %", share * 100.0) }
}

pub(crate) fn bytes(number: usize) -> String {
    match number as f64 {
        bytes if bytes < 1e3 => format!("{bytes:.0} B"),
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes => format!("{:.2} MB", bytes / 1e6),
    }
}
