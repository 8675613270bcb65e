//! Compares a generated rule set with a published one.
//!
//!     cargo run --release -p firstmatch-generate --example compare -- PARAMETERS ORIGINAL
//!     cargo run --release -p firstmatch-generate --example compare -- profile=acl1 ORIGINAL
//!
//! PARAMETERS is a ClassBench parameter file, ORIGINAL a filter set (plain or compressed) that ClassBench's own
//! generator made from it. As many rules are generated as ORIGINAL has, because ClassBench's generator drops duplicates
//! from the number requested; `rules=N` overrides that. `seed=N` sets the seed, and `out=FILE` writes the generated
//! rules.
//!
//! One line per pair shows original/generated: rules, copies, unique values of each field, the deepest nesting of sources
//! and destinations, distinct pairs of addresses, tuples of address lengths and of all fields, and the mean number of
//! rules that match a header of either set's own trace. Then come distances between histograms, from 0 to 1: pairs of
//! prefix lengths, pairs of port classes, and protocols. The test `classbench.rs` holds the figures of the originals.
//! `repeats` keeps copies and rules that match everything, as in profiles whose names end in `-full`.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use firstmatch_core::{Policy, RuleSet};
use firstmatch_generate::profile::{Profile, Repeats, classbench};
use firstmatch_generate::rules::{self, Config};
use firstmatch_generate::statistics::Statistics;
use firstmatch_generate::trace::{self, Coverage};
use firstmatch_net::source::read_text;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [profile, original, more @ ..] = &args[..] else {
        return Err("compare PARAMETERS ORIGINAL [rules=N] [seed=N] [out=FILE] [repeats]".into());
    };
    let mut profile = match profile.strip_prefix("profile=") {
        Some(name) => name.parse::<Profile>()?,
        None => classbench::parse(profile, &read_text(Path::new(profile))?)?,
    };
    if more.iter().any(|word| word == "repeats") {
        profile.repeats = Repeats::ByFlags;
    }
    let original =
        firstmatch_formats::parse(&read_text(Path::new(original))?, &firstmatch_formats::Options::default())?.rules;
    let word = |name: &str| more.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let rules = word("rules").map_or(Ok(original.len()), str::parse)?;
    let config =
        Config { rules, seed: word("seed").map_or(Ok(1), str::parse)?, profile, fewer: true, ..Config::default() };
    let set = rules::generate(&config)?;
    if let Some(file) = word("out") {
        let mut text = String::new();
        firstmatch_formats::write::classbench(&set, &Policy::default(), &mut text)?;
        std::fs::write(file, text)?;
    }
    let (theirs, ours) = (Statistics::of(&original), Statistics::of(&set));
    let mut out = std::io::stdout().lock();
    write!(out, "{:<5} {}/{} copies {}/{}", config.profile.name, theirs.rules, ours.rules, theirs.copies, ours.copies)?;
    for (one, other) in theirs.fields.iter().zip(&ours.fields) {
        write!(out, "  {} {}/{}", one.name, one.unique, other.unique)?;
    }
    let deepest = |of: &Statistics, field: usize| of.fields[field].deepest;
    for field in [0, 1] {
        write!(out, "  deep {}/{}", deepest(&theirs, field), deepest(&ours, field))?;
    }
    let (matched, matching) = (matches(&original)?, matches(&set)?);
    write!(out, "  pairs {}/{}", theirs.address_pairs, ours.address_pairs)?;
    write!(out, "  lengths {}/{}", theirs.length_pairs.len(), ours.length_pairs.len())?;
    write!(out, "  tuples {}/{}  matches {matched:.2}/{matching:.2}", theirs.tuples, ours.tuples)?;
    writeln!(
        out,
        "  apart: lengths {:.3} classes {:.3} protocols {:.3}",
        Statistics::apart(&theirs.length_pairs, &ours.length_pairs),
        Statistics::apart(&theirs.port_classes, &ours.port_classes),
        Statistics::apart(&theirs.protocols, &ours.protocols)
    )?;
    Ok(())
}

/// Returns the mean number of rules that match a header drawn from a rule.
fn matches(set: &RuleSet) -> Result<f64, Box<dyn Error>> {
    let config = trace::Config { headers: 4000, coverage: Coverage::Drawn, ..trace::Config::default() };
    let headers = trace::generate(set, &config)?;
    let matches = trace::matches(set, headers.iter().copied())?;
    Ok(matches.iter().map(|&matches| f64::from(matches)).sum::<f64>() / matches.len() as f64)
}
