//! Comparison of generated sets with the original generator's, by parameter file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use firstmatch_core::RuleSet;
use firstmatch_generate::profile::{PortClass, Profile, classbench};
use firstmatch_generate::{Statistics, rules};
use firstmatch_net::source;
use maud::{Markup, html};

use super::page::{Figure, Table, figures, table};
use super::plot::{Look, columns};
use super::scale::{Axis, short};

/// Names of the port classes in the ClassBench paper.
const CLASSES: [(PortClass, &str); 5] = [
    (PortClass::Wildcard, "WC"),
    (PortClass::Low, "LO"),
    (PortClass::High, "HI"),
    (PortClass::Exact, "EM"),
    (PortClass::Range, "AR"),
];
const SEED: u64 = 1;

/// Original and generated set of one parameter file.
struct Pair {
    /// Name of the original.
    set: String,
    ours: Statistics,
    theirs: Statistics,
}

/// Compares sets (`<name>_<size>.rules`) with generated ones of the same size.
///
/// The parameter files (`<name>_seed`) lie in `folder` or in its `seeds/`.
pub(crate) fn section(folder: &Path) -> anyhow::Result<Markup> {
    let profiles = profiles(folder)?;
    if profiles.is_empty() {
        return Err(anyhow!("{}: expected parameter files, named like acl1_seed", folder.display()));
    }
    let mut distances = Table::new(&[
        "set",
        "source lengths",
        "destination lengths",
        "pairs of lengths",
        "port classes",
        "protocols",
        "rules, original",
        "ours",
        "copies, original",
        "ours",
    ]);
    let mut parts = Vec::new();
    for (name, profile) in &profiles {
        let mut pairs = Vec::new();
        for path in sets(folder, name)? {
            pairs.push(pair(&path, profile)?);
        }
        pairs.sort_by_key(|pair| pair.theirs.rules);
        distances.rows.extend(pairs.iter().map(distance));
        if let Some(largest) = pairs.last() {
            let rules = largest.theirs.rules;
            parts.push((format!("{name}: {}, {rules} rules", largest.set), figures(&histograms(largest)?)?));
        }
    }
    Ok(html! {
        p {
            "Rule sets of the original ClassBench generator beside ours, from the same parameter file and of the same
            size. The distance of two histograms is the share of rules that they put elsewhere."
        }
        (table(&distances))
        @for (number, (title, body)) in parts.iter().enumerate() {
            details open[number == 0] { summary { (title) } (body) }
        }
    })
}

fn files(folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = entries.with_context(|| folder.display().to_string())?;
    paths.sort_unstable();
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(paths.into_iter().map(|path| (name(&path), path)).collect())
}

fn profiles(folder: &Path) -> anyhow::Result<BTreeMap<String, Profile>> {
    let below = folder.join("seeds");
    let mut all = files(folder)?;
    all.extend(if below.is_dir() { files(&below)? } else { Vec::new() });
    let mut profiles = BTreeMap::new();
    for (file, path) in all {
        if let Some(name) = file.strip_suffix("_seed") {
            let text = source::read_text(&path)?;
            profiles.insert(name.to_owned(), classbench::parse(&path.display().to_string(), &text)?);
        }
    }
    Ok(profiles)
}

fn sets(folder: &Path, name: &str) -> anyhow::Result<Vec<PathBuf>> {
    let is_set = |file: &str| {
        let file = file.strip_suffix(".zst").or(file.strip_suffix(".gz")).unwrap_or(file);
        file.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')) && file.ends_with(".rules")
    };
    Ok(files(folder)?.into_iter().filter(|(file, _)| is_set(file)).map(|(_, path)| path).collect())
}

fn pair(path: &Path, profile: &Profile) -> anyhow::Result<Pair> {
    let named = || path.display().to_string();
    let file = firstmatch_formats::parse(&source::read_text(path)?, &firstmatch_formats::Options::default())
        .with_context(named)?;
    let theirs: RuleSet = file.rules;
    let config =
        rules::Config { rules: theirs.len(), seed: SEED, profile: profile.clone(), fewer: true, ..Default::default() };
    let ours = rules::generate(&config).with_context(named)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let set = name.split('.').next().unwrap_or_default().to_owned();
    Ok(Pair { set, ours: Statistics::of(&ours), theirs: Statistics::of(&theirs) })
}

type Histogram = BTreeMap<usize, usize>;

/// Returns a histogram of one part of the keys of another.
fn part<K>(whole: &BTreeMap<K, usize>, of: impl Fn(&K) -> usize) -> Histogram {
    let mut part = Histogram::new();
    whole.iter().for_each(|(key, count)| *part.entry(of(key)).or_default() += count);
    part
}

fn lengths(of: &Statistics) -> [Histogram; 2] {
    [part(&of.length_pairs, |pair| pair.0 as usize), part(&of.length_pairs, |pair| pair.1 as usize)]
}

fn classes(of: &Statistics) -> [Histogram; 2] {
    let place = |class: PortClass| CLASSES.iter().position(|(other, _)| *other == class).unwrap_or(0);
    [part(&of.port_classes, |pair| place(pair.source)), part(&of.port_classes, |pair| place(pair.destination))]
}

fn distance(pair: &Pair) -> Vec<String> {
    let Pair { set, ours, theirs } = pair;
    let ([source, destination], [their_source, their_destination]) = (lengths(ours), lengths(theirs));
    let apart = [
        Statistics::apart(&source, &their_source),
        Statistics::apart(&destination, &their_destination),
        Statistics::apart(&ours.length_pairs, &theirs.length_pairs),
        Statistics::apart(&ours.port_classes, &theirs.port_classes),
        Statistics::apart(&ours.protocols, &theirs.protocols),
    ];
    let counts = [theirs.rules, ours.rules, theirs.copies, ours.copies].map(|count| count.to_string());
    let apart = apart.map(|share| format!("{:.1} %", share * 100.0));
    std::iter::once(set.clone()).chain(apart).chain(counts).collect()
}

fn histograms(pair: &Pair) -> anyhow::Result<Vec<Figure>> {
    let bits: Vec<String> = (0..=32).map(|bits| bits.to_string()).collect();
    let names: Vec<String> = CLASSES.iter().map(|(_, name)| (*name).to_owned()).collect();
    let eighths = vec![0, 8, 16, 24, 32];
    let (ours, theirs) = (lengths(&pair.ours), lengths(&pair.theirs));
    let mut all = Vec::new();
    for (which, title) in ["Source prefixes", "Destination prefixes"].into_iter().enumerate() {
        all.push(histogram(title, "bits", (&bits, eighths.clone()), [&ours[which], &theirs[which]])?);
    }
    let (ours, theirs) = (classes(&pair.ours), classes(&pair.theirs));
    for (which, title) in ["Source ports", "Destination ports"].into_iter().enumerate() {
        let mut figure = histogram(title, "class", (&names, (0..5).collect()), [&ours[which], &theirs[which]])?;
        figure.caption = "WC any port, LO 0 to 1023, HI 1024 to 65535, EM one port, AR another range.".to_owned();
        all.push(figure);
    }
    Ok(all)
}

fn histogram(
    title: &str,
    axis: &str,
    (categories, ticks): (&[String], Vec<usize>),
    counts: [&Histogram; 2],
) -> anyhow::Result<Figure> {
    let shares = counts.map(|counts| {
        let sum = counts.values().sum::<usize>().max(1) as f64;
        let share = |at| 100.0 * counts.get(&at).copied().unwrap_or(0) as f64 / sum;
        (0..categories.len()).map(share).collect::<Vec<f64>>()
    });
    let mut table = Table::new(&[axis, "ours, %", "original, %"]);
    for (place, name) in categories.iter().enumerate() {
        let cells = [shares[0][place], shares[1][place]];
        if cells != [0.0, 0.0] {
            table.rows.push(std::iter::once(name.clone()).chain(cells.map(short)).collect());
        }
    }
    let [ours, theirs] = [Look::column(0), Look::column(1)];
    let [our_shares, their_shares] = shares;
    let series = [(ours, our_shares), (theirs, their_shares)];
    Ok(Figure {
        title: title.to_owned(),
        caption: String::new(),
        svg: columns(title, axis, (categories, ticks), &Axis::linear("% of the rules"), &series)?,
        legend: vec![(ours, "ours".to_owned()), (theirs, "original".to_owned())],
        table,
    })
}
