//! `firstmatch-lab report`: shows all records on one page of plots and tables.

mod looks;
mod measured;
mod overview;
mod page;
mod papers;
mod pareto;
mod plot;
pub(crate) mod records;
mod scale;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use maud::{Markup, html};

use crate::definition::Definition;
use crate::machine::Machine;
use crate::table::Table;
use looks::Looks;
use page::{Section, details, table};
use records::{Other, Record, Records};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Folder of the records
    #[arg(long, value_name = "DIR", default_value = "benchmarks/record")]
    record: PathBuf,
    /// Folder of the papers with their records, a folder each
    #[arg(long, value_name = "DIR", default_value = "papers")]
    papers: PathBuf,
    /// README whose table opens the page, made anew from the records
    #[arg(long, value_name = "FILE", default_value = "README.md")]
    readme: PathBuf,
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "target/report.html")]
    out: PathBuf,
}

/// Writes the page and returns its path; writes nothing if something cannot be read.
pub(crate) fn write<'a>(args: &'a ReportArgs, definitions: &Path) -> anyhow::Result<&'a Path> {
    let records = Records::read(&args.record)?;
    let looks = Looks::of(&records.measured);
    let here = Machine::here();
    let papers = papers::read(&args.papers)?;
    let mut sections = Vec::new();
    if let Some(body) = claimed(&args.readme, &records)? {
        sections.push(Section { title: "What the README claims".to_owned(), body });
    }
    if let Some(body) = papers::verdicts(&papers) {
        sections.push(Section { title: "Verdicts on the papers' claims".to_owned(), body });
    }
    if let Some(machine) = machine(&records, &here.folder()) {
        let of_machine: Vec<&Record> = records.measured.iter().filter(|record| record.machine == machine).collect();
        let body = match overview::newest(&of_machine) {
            Some(newest) => overview::trade(newest, &looks)?,
            None => html! { p { "No record has times of lookups." } },
        };
        sections.push(Section { title: "Lookups against updates and memory".to_owned(), body });
        if let Some(body) = overview::growth(&of_machine, &looks)? {
            sections.push(Section { title: "Growth".to_owned(), body });
        }
    }
    let several = records.machines().len() > 1;
    for record in &records.measured {
        let shows = shows(definitions, &record.definition)?;
        let body = measured::section(record, shows.as_deref(), &looks)?;
        let title =
            if several { format!("{} ({})", record.definition, record.machine) } else { record.definition.clone() };
        sections.push(Section { title, body });
    }
    if let Some(body) = papers::section(&papers)? {
        sections.push(Section { title: "Papers".to_owned(), body });
    }
    if !records.others.is_empty() {
        sections.push(Section { title: "Other records".to_owned(), body: others(&records.others) });
    }
    let page = page::page("firstmatch: measurements", &lead(args, &records, &here), &sections);
    if let Some(folder) = args.out.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(&args.out, page).with_context(|| args.out.display().to_string())?;
    Ok(&args.out)
}

/// Returns the table of the README, made from the records of the machine that it names; `None` without either.
fn claimed(readme: &Path, records: &Records) -> anyhow::Result<Option<Markup>> {
    if !readme.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(readme).with_context(|| readme.display().to_string())?;
    let Some(machine) = crate::readme::machine(&text) else { return Ok(None) };
    let of_machine: Vec<&Record> = records.measured.iter().filter(|record| record.machine == machine).collect();
    if of_machine.is_empty() {
        return Ok(None);
    }
    let claims = crate::readme::table(&of_machine);
    Ok(Some(html! {
        p { "The table of " code { (readme.display()) } ", from the newest records of " code { (machine) } "." }
        (table(&claims))
    }))
}

/// Returns this machine's folder, or, if it has no record, that of the newest record.
fn machine<'a>(records: &'a Records, here: &'a str) -> Option<&'a str> {
    match records.machines().contains(&here) {
        true => Some(here),
        false => records.measured.iter().max_by_key(|record| &record.date).map(|record| record.machine.as_str()),
    }
}

/// Returns the text of a definition, if the definition still exists.
fn shows(definitions: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let path = definitions.join(format!("{name}.toml"));
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(Definition::read(&path)?.shows))
}

fn lead(args: &ReportArgs, records: &Records, here: &Machine) -> Markup {
    html! {
        @if records.measured.is_empty() {
            p { "There is no record in " code { (args.record.display()) } ". " code { "firstmatch-lab measure" } " makes them." }
        }
        p {
            "Of each definition and machine the newest record. Engines are timed in one run, in interleaved rounds, and
            their answers compared. Lookups are of prepared keys: what it takes to parse a packet comes on top. Beside them stand " strong { "limit" } ", an exact-match table that no classifier can
            beat, " strong { "rte_acl" } " of DPDK where it was built in, and " strong { "linear" } ", one rule after the
            other. How far the first engine is from itself in the same run is the noise floor: " strong { "≈" } " marks
            ratios within it, which are no difference, and " strong { "?" } ", with hollow bars, what is void because it is
            above 8 %."
        }
        dl {
            dt { "Page made at" } dd { "commit " (here.commit) ", " (here.date) }
            dt { "Command" } dd { code { "firstmatch-lab report" } }
        }
    }
}

/// Returns tables of programs whose records have no plots.
fn others(others: &[Other]) -> Markup {
    let shown = |other: &Other| Table { head: other.columns.clone(), rows: other.rows.clone(), words: false };
    html! {
        @for other in others {
            h3 { (other.path.file_stem().unwrap_or_default().to_string_lossy()) }
            ul.notes { @for line in &other.head { li { (line) } } }
            (details(&format!("{} rows, {}, {}", other.rows.len(), other.machine, other.date), &table(&shown(other))))
        }
    }
}
