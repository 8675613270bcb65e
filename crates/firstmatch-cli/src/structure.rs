//! Command `firstmatch engines RULES --structure NAME`.

use std::io::Write;
use std::path::Path;

use anyhow::anyhow;
use firstmatch_core::{Classifier, KeyBuf};

use crate::args::EnginesArgs;
use crate::format::thousands;
use crate::{End, classify, count, engines, rules};

/// Prints what an engine builds for rules and, with a trace, the steps of lookups of its packets.
pub(crate) fn run(path: &Path, name: &str, args: &EnginesArgs, out: &mut dyn Write) -> anyhow::Result<End> {
    let engine = engines::named(name).ok_or_else(|| anyhow!("there is no engine {name}"))?;
    let settings = engines::settings(engine, &args.choice, &args.option)?;
    let Some(loaded) = rules::load(path, args.reading())? else { return Ok(End::BadInput) };
    let Some(lowered) = loaded.lower() else { return Ok(End::BadInput) };
    let keys: Option<Vec<KeyBuf>> = match &args.count {
        None => None,
        Some(trace) => match classify::keys_of(&loaded, trace)? {
            Ok(keys) => Some(keys),
            Err(end) => return Ok(end),
        },
    };
    for (index, rules) in lowered.iter().enumerate() {
        let built = match engines::alone(engine, &settings, rules) {
            Ok(built) => built,
            Err(error) => {
                loaded.build_error(&error, engines::how_to_raise(name, &error));
                return Ok(End::BadInput);
            }
        };
        if let Some(family) = rules.schema().family() {
            writeln!(out, "{}{family}", if index > 0 { "\n" } else { "" })?;
        }
        match built.structure() {
            Some(text) => writeln!(out, "{}", text.trim_end())?,
            None => writeln!(out, "{name} has no description of its structure")?,
        }
        if let Some(keys) = keys.as_ref().and_then(|keys| keys.get(index)).filter(|keys| !keys.is_empty()) {
            let mut answers = vec![None; keys.len()];
            let counts = built.count_batch(&mut built.scratch(), &keys.keys(), &mut answers);
            match keys.len() {
                1 => writeln!(out, "{name}: {counts}")?,
                packets => {
                    let means = count::shown(&counts, packets);
                    writeln!(out, "{name}: {means}, a packet of {}", thousands(packets as u64))?;
                }
            }
        }
    }
    Ok(End::Done)
}
