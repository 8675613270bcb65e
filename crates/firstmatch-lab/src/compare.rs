//! `firstmatch-lab compare`: compares two records of one definition.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;

use crate::record::{FRAME_TO_DECISION, Row};
use crate::report::records;
use crate::statistics::noise_floor;
use crate::table::{number, percent, table};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Record, as `measure` writes it
    before: PathBuf,
    /// Another record of the same definition
    after: PathBuf,
}

/// Column of a table: set, measure, batch and threads.
type Column = (String, String, Option<usize>, usize);

fn column(row: &Row) -> Column {
    (row.set.clone(), row.measure.clone(), row.batch, row.threads)
}

/// Prints each lookup whose two figures differ by more than the noise of their column.
///
/// The noise is the larger one of the two records. The exit code is 0 in any case.
pub(crate) fn compare(args: &CompareArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let [before, after] = [read(&args.before)?, read(&args.after)?];
    let noise = [noise(&before), noise(&after)];
    let figures: BTreeMap<_, f64> =
        before.iter().filter_map(|row| Some(((column(row), &row.engine), row.median?))).collect();
    let mut apart = table(["", "engine", "before", "after", "apart", "noise"]);
    let (mut both, mut agree) = (0, 0);
    for row in &after {
        let Some((is, was)) = row.median.zip(figures.get(&(column(row), &row.engine)).copied()) else { continue };
        let allowed = noise.iter().filter_map(|noise| noise.get(&column(row))).fold(0.0, |most: f64, &n| most.max(n));
        both += 1;
        if noise_floor(was, is) <= allowed {
            agree += 1;
            continue;
        }
        let name = format!("{}, {}, batch {}", row.set, row.measure, row.batch.unwrap_or(1));
        let far = percent(is / was - 1.0);
        apart.add_row(vec![name, row.engine.clone(), number(was), number(is), far, percent(allowed)]);
    }
    ensure!(both > 0, "the two records have no figure of a lookup in common");
    writeln!(out, "{agree} of {both} figures agree within the noise that their records state")?;
    if agree < both {
        writeln!(out, "{apart}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the lookups of a record.
fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut rows: Vec<Row> = records::rows(path, &text)?;
    rows.retain(|row| row.measure.starts_with("lookup") || row.measure == FRAME_TO_DECISION);
    Ok(rows)
}

/// Returns the noise of each column: the largest noise floor or drift of any engine.
fn noise(rows: &[Row]) -> BTreeMap<Column, f64> {
    let mut noise: BTreeMap<Column, f64> = BTreeMap::new();
    for row in rows {
        let most = noise.entry(column(row)).or_default();
        *most = [row.noise_floor, row.drift].into_iter().flatten().fold(*most, f64::max);
    }
    noise
}
