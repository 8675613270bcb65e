//! Expansion of ranges into prefixes.

use std::io::Write;
use std::path::Path;

use anyhow::ensure;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;

use super::lists::{Bias, Lists};
use super::{Emit, Measured, Outcome};
use crate::digest::Running;
use crate::transform::{Transform, prefixes};

/// Experiment that lists the prefixes of one range.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prefixes {
    /// Smallest and largest value.
    range: [u32; 2],
    /// Number of bits of a value.
    width: u32,
    pub(super) claim: String,
}

pub(super) fn prefixes_of(run: &Prefixes, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    let ([lo, hi], width) = (run.range, run.width as usize);
    ensure!((1..=32).contains(&width), "`width` is {width}; expected a number from 1 to 32");
    ensure!(lo <= hi && u64::from(hi) < 1 << width, "`range`: expected two numbers of {width} bits in order");
    let bits = |(value, len): (u128, u32)| {
        let open = width - len as usize;
        let leading = format!("{value:0width$b}").chars().take(len as usize).collect::<String>();
        leading + &"*".repeat(open)
    };
    let text: Vec<String> = prefixes(lo.into(), hi.into(), run.width).into_iter().map(bits).collect();
    let text = text.join(", ");
    writeln!(out, "[{lo}:{hi}]: {text}")?;
    emit(Outcome::exact(&run.claim, Measured::Text(text), ""))
}

/// Experiment that measures how much rule sets grow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expansion {
    /// Groups of profiles; the claim is about the mean of each group.
    profiles: Vec<Vec<String>>,
    rules: usize,
    /// Number of rule sets of each profile, each with its own seed.
    lists: u64,
    pub(super) claim: String,
}

pub(super) fn growth(run: &Expansion, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    ensure!(run.rules > 0 && run.lists > 0, "there is no rule set");
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["profile", "rules", "as prefixes", "growth"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let (mut means, mut digest) = (Vec::new(), Running::default());
    for group in &run.profiles {
        ensure!(!group.is_empty(), "a group has no profile");
        let mut sum = 0.0;
        for name in group {
            let lists = Lists::of(name, seeds)?;
            let (mut before, mut after) = (0, 0);
            for seed in 1..=run.lists {
                let set = lists.list(run.rules, Bias::default(), seed)?;
                digest.add_rules(&set);
                before += set.len();
                after += Transform::Prefixes.apply(&set)?.len();
            }
            let growth = (after as f64 / before as f64 - 1.0) * 100.0;
            sum += growth;
            table.add_row([name.clone(), before.to_string(), after.to_string(), format!("{growth:.0} %")]);
        }
        means.push(sum / group.len() as f64);
    }
    writeln!(out, "{table}")?;
    emit(Outcome::exact(&run.claim, Measured::Numbers(means), &digest.finish()))
}
