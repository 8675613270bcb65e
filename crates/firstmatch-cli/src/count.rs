//! Command `firstmatch engines RULES --count TRACE`.

use std::io::Write;
use std::path::Path;

use firstmatch_core::engines::registry::Settings;
use firstmatch_core::{Budget, Classifier, NamedCounts};

use crate::args::EnginesArgs;
use crate::{End, classify, engines, rules};

/// Maximum number of bytes of each engine, because all are built and some multiply the rules.
const MOST_BYTES: usize = 1 << 30;

/// Prints the steps that lookups of the packets of a trace take in each engine, as means per packet.
pub(crate) fn run(path: &Path, trace: &Path, args: &EnginesArgs, out: &mut dyn Write) -> anyhow::Result<End> {
    let Some(loaded) = rules::load(path, args.reading())? else { return Ok(End::BadInput) };
    let Some(lowered) = loaded.lower() else { return Ok(End::BadInput) };
    let keys = match classify::keys_of(&loaded, trace)? {
        Ok(keys) => keys,
        Err(end) => return Ok(end),
    };
    for (index, (rules, keys)) in lowered.iter().zip(&keys).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        if let Some(family) = rules.schema().family() {
            write!(out, "{family}, ")?;
        }
        writeln!(out, "{} packets, steps a packet", keys.len())?;
        let width = engines::names().map(str::len).max().unwrap_or(0);
        for engine in engines::all() {
            let mut settings = match engine.name {
                engines::DEFAULT => engines::settings(engine, &args.choice, &[])?,
                _ => Settings::default(),
            };
            settings.budget = Budget { run_bytes: MOST_BYTES };
            let line = match (engine.build)(rules, &settings) {
                Ok(built) => {
                    let mut answers = vec![None; keys.len()];
                    shown(&built.count_batch(&mut built.scratch(), &keys.keys(), &mut answers), keys.len())
                }
                Err(error) => format!("not built: {error}"),
            };
            writeln!(out, "{:width$}  {line}", engine.name)?;
        }
    }
    Ok(End::Done)
}

/// Returns counted steps as means per packet.
pub(crate) fn shown(counts: &NamedCounts, packets: usize) -> String {
    if counts.is_empty() {
        return "counts nothing".to_owned();
    }
    let mean = |count: u64| count as f64 / packets.max(1) as f64;
    counts.iter().map(|(name, count)| format!("{name} {:.2}", mean(count))).collect::<Vec<_>>().join(", ")
}
