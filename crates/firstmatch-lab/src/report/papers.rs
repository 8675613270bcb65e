//! Claims of papers beside the measurements.

use std::fs;
use std::path::Path;

use anyhow::Context;
use maud::{Markup, html};
use serde::Deserialize;

use super::page::{Figure, Table, details, figures, table};
use super::plot::{Bar, Look, bars};
use super::records;
use super::scale::{Axis, short};

/// Claim of a paper: a line of `<paper>/record.csv`, whose figures may be words.
#[derive(Clone, Debug, Deserialize)]
struct Claim {
    paper: String,
    /// Table, figure or section.
    entry: String,
    claim: String,
    unit: String,
    claimed: String,
    measured: String,
    /// Measured over claimed: a number, or several with commas between them.
    ratio: String,
    /// Shape of the claim beside its figure: an order, a slope.
    shape: String,
    verdict: String,
}

/// Returns all papers that have a record below a folder; `None` without any.
pub(crate) fn section(folder: &Path) -> anyhow::Result<Option<Markup>> {
    if !folder.exists() {
        return Ok(None);
    }
    let named = || folder.display().to_string();
    let entries = fs::read_dir(folder).with_context(named)?.map(|entry| Ok(entry?.path().join("record.csv")));
    let mut paths = entries.collect::<std::io::Result<Vec<_>>>().with_context(named)?;
    paths.retain(|path| path.exists());
    paths.sort_unstable();
    let mut parts = Vec::new();
    for path in &paths {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let claims: Vec<Claim> = records::rows(path, &text)?;
        parts.push(paper(path, &text, &claims)?);
    }
    Ok((!parts.is_empty()).then(|| {
        html! {
            p { "Each claim beside what was measured here. Bars: measured by claimed; at 1 they are equal." }
            @for part in parts { (part) }
        }
    }))
}

fn paper(path: &Path, text: &str, claims: &[Claim]) -> anyhow::Result<Markup> {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = claims.first().map_or(folder.as_ref(), |claim| claim.paper.as_str());
    let verdicts = verdicts(claims);
    let mut entries: Vec<&str> = claims.iter().map(|claim| claim.entry.as_str()).collect();
    entries.dedup();
    let mut all = Vec::new();
    for entry in entries {
        let claims: Vec<&Claim> = claims.iter().filter(|claim| claim.entry == entry).collect();
        all.extend(figure(name, entry, &claims, &verdicts)?);
    }
    let head = text.lines().map_while(|line| line.strip_prefix('#'));
    let tally =
        |verdict: &&str| format!("{verdict}: {}", claims.iter().filter(|claim| claim.verdict == **verdict).count());
    Ok(html! {
        h3 { (name) }
        p { (claims.len()) " claims. " (verdicts.iter().map(tally).collect::<Vec<_>>().join(", ")) }
        ul.notes { @for line in head { li { (line.trim()) } } li { code { (path.display()) } } }
        @if !all.is_empty() { (figures(&all)?) }
        (details("All claims", &table(&claims_table(claims.iter()))))
    })
}

fn verdicts(claims: &[Claim]) -> Vec<&str> {
    let mut verdicts: Vec<&str> = claims.iter().map(|claim| claim.verdict.as_str()).collect();
    verdicts.sort_unstable();
    verdicts.dedup();
    verdicts
}

fn claims_table<'a>(claims: impl Iterator<Item = &'a Claim>) -> Table {
    let mut table = Table::new(&["entry", "claim", "unit", "claimed", "measured", "ratio", "shape", "verdict"]);
    table.words = true;
    for claim in claims {
        let Claim { entry, claim, unit, claimed, measured, ratio, shape, verdict, .. } = claim;
        table.rows.push([entry, claim, unit, claimed, measured, ratio, shape, verdict].map(Clone::clone).into());
    }
    table
}

/// Draws the claims of an entry that are numbers.
fn figure(paper: &str, entry: &str, claims: &[&Claim], verdicts: &[&str]) -> anyhow::Result<Option<Figure>> {
    let look = |claim: &Claim| Look::engine(verdicts.iter().position(|name| *name == claim.verdict).unwrap_or(0));
    let bars_of = |claim: &&Claim| {
        let ratios = claim.ratio.split(',').filter_map(|ratio| ratio.trim().parse().ok());
        let ratios = ratios.filter(|ratio: &f64| ratio.is_finite() && *ratio > 0.0);
        ratios.map(|ratio| bar(claim, ratio, look(claim))).collect::<Vec<_>>()
    };
    let all: Vec<Bar> = claims.iter().flat_map(bars_of).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let axis = Axis::log("measured by claimed (log scale)").with_base(1.0);
    Ok(Some(Figure {
        title: entry.to_owned(),
        caption: String::new(),
        svg: bars(&format!("{paper}, {entry}"), &axis, &all, &[])?,
        legend: Vec::new(),
        table: claims_table(claims.iter().copied()),
    }))
}

fn bar(claim: &Claim, ratio: f64, look: Look) -> Bar {
    let note = format!("× {}, {}", short(ratio), claim.verdict);
    // A line has room for about 44 characters.
    let room = 44_usize.saturating_sub(note.chars().count());
    let label = match claim.claim.char_indices().nth(room) {
        Some((end, _)) => format!("{}…", claim.claim[..end].trim_end()),
        None => claim.claim.clone(),
    };
    Bar { label, note, value: ratio, spread: None, look, hollow: false }
}
