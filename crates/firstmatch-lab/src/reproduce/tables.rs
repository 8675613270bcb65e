//! Tables that a tuple algorithm makes of a few rules.

use std::io::Write;

use anyhow::{Context, ensure};
use firstmatch_core::Schema;
use firstmatch_core::engines::tuple::TupleMerge;
use firstmatch_core::rule::{ExpansionLimits, lower};
use firstmatch_formats::Options;
use serde::Deserialize;

use super::{Emit, Measured, Outcome};
use crate::definition::Engine;
use crate::digest::Running;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    /// Text of a rule file.
    rules: String,
    pub(super) builds: Vec<Build>,
}

/// Engine that builds the tables, and its claim.
#[derive(Debug, Deserialize)]
pub(super) struct Build {
    pub(super) claim: String,
    #[serde(flatten)]
    engine: Engine,
}

pub(super) fn run(run: &Tables, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    let file = firstmatch_formats::parse(&run.rules, &Options::default()).context("rules")?;
    let schema = &file.rules.schemas()[0];
    let lowered = lower(&file.rules, schema, &ExpansionLimits::default())?;
    let mut digest = Running::default();
    digest.add_rules(&file.rules);
    let digest = digest.finish();
    for Build { claim, engine } in &run.builds {
        let built = TupleMerge::build(&lowered, &engine.tuple_config()?)?;
        let mut tables = Vec::new();
        for (masks, rules) in built.tables() {
            let lengths: Vec<String> = (0..schema.fields().len()).map(|field| length(schema, field, &masks)).collect();
            let mut numbers: Vec<usize> = rules.iter().map(|rule| rule.slot() + 1).collect();
            numbers.sort_unstable();
            let names: Vec<String> = numbers.iter().map(|number| format!("r{number}")).collect();
            tables.push((numbers, format!("({}){{{}}}", lengths.join(","), names.join(" "))));
        }
        ensure!(!tables.is_empty(), "there is no table");
        // Sorted by their first rules, as the paper prints them.
        tables.sort();
        let text = tables.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ");
        writeln!(out, "{claim}: {text}")?;
        emit(Outcome::exact(claim, Measured::Text(text), &digest))?;
    }
    Ok(())
}

/// Returns the number of leading bits of a field in a table's mask, or else the mask.
fn length(schema: &Schema, field: usize, masks: &[u32]) -> String {
    let words = schema.words_of(field);
    let parts = words.clone().map(|word| (u128::from(masks[word] & schema.words()[word].bits), &schema.words()[word]));
    let mask = parts.fold(0u128, |mask, (bits, word)| mask | bits << word.shift);
    let width = schema.fields()[field].width();
    let leading = mask.count_ones() == (mask << (128 - width)).leading_ones();
    if leading { mask.count_ones().to_string() } else { format!("{mask:#x}") }
}
