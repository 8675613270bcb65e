//! The tables that a tuple algorithm makes of a few rules.

use std::io::Write;

use anyhow::{Context, ensure};
use firstmatch::format::{self, Options};
use firstmatch::rule::{Caps, lower};
use firstmatch::tuple::TupleMerge;
use serde::Deserialize;

use super::{Measured, Outcome};
use crate::engines;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    /// A rule file.
    rules: String,
    pub(super) builds: Vec<Build>,
}

/// One way to build them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Build {
    pub(super) claim: String,
    config: toml::Table,
}

pub(super) fn run(run: &Tables, out: &mut dyn Write) -> anyhow::Result<Vec<Outcome>> {
    let file = format::parse(&run.rules, &Options::default()).context("rules")?;
    let schema = &file.rules.schemas()[0];
    let lowered = lower(&file.rules, schema, &Caps::default())?;
    let mut outcomes = Vec::new();
    for Build { claim, config } in &run.builds {
        let built = TupleMerge::build(&lowered, &engines::tuple_config(config.clone()).context("config")?)?;
        let mut tables = Vec::new();
        for (lengths, rules) in built.tables() {
            let lengths: Vec<String> = lengths.iter().map(u32::to_string).collect();
            let mut numbers: Vec<usize> = rules.iter().map(|rule| rule.slot() + 1).collect();
            numbers.sort_unstable();
            let names: Vec<String> = numbers.iter().map(|number| format!("r{number}")).collect();
            tables.push((numbers, format!("({}){{{}}}", lengths.join(","), names.join(" "))));
        }
        ensure!(!tables.is_empty(), "there is no table");
        // By their first rules, as the paper prints them.
        tables.sort();
        let text = tables.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ");
        writeln!(out, "{claim}: {text}")?;
        outcomes.push(Outcome { claim: claim.clone(), measured: Measured::Text(text) });
    }
    Ok(outcomes)
}
