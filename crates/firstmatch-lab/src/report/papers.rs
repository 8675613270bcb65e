//! Claims of papers beside the measurements: verdicts, reasons of failures, and figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use maud::{Markup, html};
use serde::Deserialize;

use super::page::{Figure, details, figures, table};
use super::plot::{Form, Look, Series, chart};
use super::records;
use super::scale::Axis;
use crate::reproduce::Verdict;
use crate::table::Table;

/// Claim of a paper: a line of `<paper>/record.csv`, whose figures may be words.
#[derive(Clone, Debug, Deserialize)]
struct Claim {
    paper: String,
    /// Table, figure or section.
    entry: String,
    #[serde(default)]
    id: String,
    claim: String,
    unit: String,
    claimed: String,
    measured: String,
    /// Measured over claimed: a number, or several with commas between them.
    ratio: String,
    /// Shape of the claim beside its figure: an order, a slope.
    shape: String,
    verdict: Verdict,
}

/// Part of `expected.toml` that a page shows.
#[derive(Debug, Deserialize)]
struct Expected {
    claims: Vec<Reasoned>,
}

#[derive(Debug, Deserialize)]
struct Reasoned {
    id: String,
    reason: Option<String>,
}

/// Record of a paper, with the reasons of its claims by id.
#[derive(Debug)]
pub(crate) struct Paper {
    name: String,
    path: PathBuf,
    /// Comments at the head of the record.
    head: Vec<String>,
    claims: Vec<Claim>,
    reasons: BTreeMap<String, String>,
    courses: Vec<Course>,
}

/// Figures over time: `<entry>.csv` beside the record.
#[derive(Debug)]
struct Course {
    entry: String,
    /// Names of the columns; the first is the packets so far.
    head: Vec<String>,
    rows: Vec<Vec<f64>>,
}

/// Columns that stand for no engine.
const YARDSTICKS: [&str; 2] = ["optimal static", "balanced"];

impl Course {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut csv = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let head = csv.headers()?.iter().map(str::to_owned).collect();
        let rows =
            csv.deserialize().collect::<Result<Vec<Vec<f64>>, _>>().with_context(|| path.display().to_string())?;
        let entry = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { entry, head, rows })
    }

    /// Draws edges a packet over the packets; a point is a window of them.
    fn figure(&self, paper: &str) -> anyhow::Result<Figure> {
        let (mut series, mut legend) = (Vec::new(), Vec::new());
        for (column, name) in self.head.iter().enumerate().skip(1) {
            let yardstick = YARDSTICKS.iter().position(|yardstick| yardstick == name);
            let look = yardstick.map_or_else(|| Look::engine(column - 1), Look::yardstick);
            let form = if yardstick.is_some() { Form::Front } else { Form::Line };
            let points = self.rows.iter().map(|row| (row[0], row[column])).collect();
            series.push(Series { look, form, points });
            legend.push((look, name.clone()));
        }
        let (x, y) = (Axis::linear("packets"), Axis::linear("edges a packet"));
        let cells = |row: &Vec<f64>| row.iter().map(ToString::to_string).collect();
        Ok(Figure {
            title: format!("{}, over time", self.entry),
            caption: String::new(),
            svg: chart(&format!("{paper}, {}, over time", self.entry), &x, &y, &series)?,
            legend,
            tables: vec![(
                "Figures",
                Table { head: self.head.clone(), rows: self.rows.iter().map(cells).collect(), words: false },
            )],
        })
    }
}

/// Reads all papers that have a record below a folder.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Vec<Paper>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let named = || folder.display().to_string();
    let entries = fs::read_dir(folder).with_context(named)?.map(|entry| Ok(entry?.path().join("record.csv")));
    let mut paths = entries.collect::<std::io::Result<Vec<_>>>().with_context(named)?;
    paths.retain(|path| path.exists());
    paths.sort_unstable();
    paths.into_iter().map(Paper::read).collect()
}

impl Paper {
    fn read(path: PathBuf) -> anyhow::Result<Self> {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let claims: Vec<Claim> = records::rows(&path, &text)?;
        let head = text.lines().map_while(|line| line.strip_prefix('#')).map(|line| line.trim().to_owned()).collect();
        let expected = path.with_file_name("expected.toml");
        let mut reasons = BTreeMap::new();
        if expected.exists() {
            let named = || expected.display().to_string();
            let Expected { claims } =
                toml::from_str(&fs::read_to_string(&expected).with_context(named)?).with_context(named)?;
            reasons.extend(claims.into_iter().filter_map(|claim| Some((claim.id, claim.reason?))));
        }
        let beside = fs::read_dir(path.parent().unwrap_or(&path)).with_context(|| path.display().to_string())?;
        let mut beside = beside.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        beside.retain(|other| *other != path && other.extension().is_some_and(|extension| extension == "csv"));
        beside.sort_unstable();
        let courses = beside.iter().map(|path| Course::read(path)).collect::<anyhow::Result<_>>()?;
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let name = claims.first().map_or(folder, |claim| claim.paper.clone());
        Ok(Self { name, path, head, claims, reasons, courses })
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }
}

/// Returns the table of verdicts by paper, then each claim that fails or is undecided, with its reason.
pub(crate) fn verdicts(papers: &[Paper]) -> Option<Markup> {
    let mut counts = Table::new(&["paper", "claims"]);
    counts.head.extend(Verdict::ALL.map(|verdict| verdict.name().to_owned()));
    let mut failing = Table::new(&["claim", "place", "claimed", "here", "verdict", "reason"]);
    failing.words = true;
    for paper in papers {
        let numbers = Verdict::ALL.map(|verdict| paper.count(verdict));
        let numbers = std::iter::once(paper.claims.len()).chain(numbers).map(|number| number.to_string());
        counts.rows.push(std::iter::once(paper.name.clone()).chain(numbers).collect());
        for claim in paper.claims.iter().filter(|claim| matches!(claim.verdict, Verdict::Fails | Verdict::Undecided)) {
            let Claim { entry, id, claim, unit, claimed, measured, verdict, .. } = claim;
            let reason = paper.reasons.get(id).cloned().unwrap_or_else(|| "not known".to_owned());
            let place = format!("{}, {entry}", paper.name);
            let of_unit = |number: &str| if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") };
            let row = [claim.clone(), place, of_unit(claimed), of_unit(measured), verdict.name().to_owned(), reason];
            failing.rows.push(row.into());
        }
    }
    (!papers.is_empty()).then(|| {
        html! {
            p {
                "Claims of the papers that firstmatch follows, judged by the shape that has to carry over to another
                machine. " strong { "stated" } " are times and rates of the paper's machine, which stand beside ours.
                " strong { "undecided" } " is an optimum on the edge of the grid, or a verdict that turns within the noise."
            }
            (table(&counts))
            @if !failing.rows.is_empty() { h3 { "Claims that do not hold, with the reason" } (table(&failing)) }
        }
    })
}

/// Returns the figures and claims of all papers; `None` without any.
pub(crate) fn section(papers: &[Paper]) -> anyhow::Result<Option<Markup>> {
    let parts = papers.iter().map(of_paper).collect::<anyhow::Result<Vec<_>>>()?;
    Ok((!parts.is_empty()).then(|| {
        html! {
            p {
                "The numbers that each paper states of a figure, table or section, in its unit, and beside them what
                was measured here."
            }
            @for part in parts { (part) }
        }
    }))
}

fn of_paper(paper: &Paper) -> anyhow::Result<Markup> {
    let all = paper.courses.iter().map(|course| course.figure(&paper.name)).collect::<anyhow::Result<Vec<_>>>()?;
    let tally = Verdict::ALL.map(|verdict| format!("{}: {}", verdict.name(), paper.count(verdict)));
    Ok(html! {
        h3 { (paper.name) }
        p { (paper.claims.len()) " claims. " (tally.join(", ")) }
        ul.notes { @for line in &paper.head { li { (line) } } li { code { (paper.path.display()) } } }
        @if !all.is_empty() { (figures(&all)?) }
        (details("All claims", &table(&claims_table(&paper.claims))))
    })
}

fn claims_table(claims: &[Claim]) -> Table {
    let mut table = Table::new(&["entry", "claim", "unit", "claimed", "measured", "ratio", "shape", "verdict"]);
    table.words = true;
    for claim in claims {
        let Claim { entry, claim, unit, claimed, measured, ratio, shape, verdict, .. } = claim;
        let row = [entry, claim, unit, claimed, measured, ratio, shape, verdict.name()];
        table.rows.push(row.map(str::to_owned).into());
    }
    table
}
