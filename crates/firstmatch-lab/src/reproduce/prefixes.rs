//! Prefixes that cover a range.

use std::io::Write;
use std::path::Path;

use anyhow::ensure;
use serde::Deserialize;

use super::{Emit, Measured, Outcome};
use crate::transform::prefixes;

/// Claim that a whole run is about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
}

/// Experiment that lists the prefixes of one range.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prefixes {
    /// Smallest and largest value.
    range: [u32; 2],
    /// Number of bits of a value.
    width: u32,
    pub(super) claims: [About; 1],
}

pub(super) fn run(run: &Prefixes, _: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
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
    emit(Outcome::exact(&run.claims[0].id, Measured::Text(text), ""))
}
