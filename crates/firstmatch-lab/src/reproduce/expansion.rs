//! Expansion of ranges into prefixes.

use std::io::Write;
use std::path::Path;

use anyhow::ensure;
use serde::Deserialize;

use super::lists::{Bias, Lists};
use super::prefixes::About;
use super::{Emit, Measured, Outcome};
use crate::digest::Running;
use crate::table::table;
use crate::transform::Transform;

/// Experiment that measures how much rule sets grow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expansion {
    /// Groups of profiles; the claim is about the mean of each group.
    profiles: Vec<Vec<String>>,
    rules: usize,
    /// Number of rule sets of each profile, each with its own seed.
    lists: u64,
    pub(super) claims: [About; 1],
}

pub(super) fn run(run: &Expansion, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    ensure!(run.rules > 0 && run.lists > 0, "there is no rule set");
    let mut table = table(["profile", "rules", "as prefixes", "growth"]);
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
    emit(Outcome::exact(&run.claims[0].id, Measured::Numbers(means), &digest.finish()))
}
