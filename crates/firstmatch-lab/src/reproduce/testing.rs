//! Runs of experiments in tests.

use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::{Emit, Measured, Outcome};

/// Runs an experiment that is given as TOML, and returns what it prints and its outcomes.
///
/// # Errors
///
/// If the text is no such experiment, or the run fails.
pub(super) fn ran<T: DeserializeOwned>(
    run: impl Fn(&T, Option<&Path>, &mut dyn Write, Emit<'_>) -> anyhow::Result<()>,
    text: &str,
) -> anyhow::Result<(String, Vec<Outcome>)> {
    let (mut out, mut outcomes) = (Vec::new(), Vec::new());
    run(&toml::from_str(text)?, None, &mut out, &mut |outcome| {
        outcomes.push(outcome);
        Ok(())
    })?;
    Ok((String::from_utf8(out)?, outcomes))
}

/// Returns the numbers of an outcome, measured or projected.
///
/// # Panics
///
/// If it has none.
#[track_caller]
pub(super) fn numbers(outcome: &Outcome) -> &[f64] {
    match &outcome.measured {
        Measured::Numbers(numbers) | Measured::Projected(numbers) => numbers,
        other => panic!("{other:?}"),
    }
}
