//! First sections: lookups against updates and memory, and growth with the size of sets.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::looks::Looks;
use super::page::{Figure, details, figures};
use super::pareto;
use super::plot::{Form, Series, chart};
use super::records::Record;
use super::scale::Axis;
use crate::record::Row;
use crate::table::{Table, or_dash, short};
use crate::view::{View, What, YARDSTICKS, a_rule, as_is};

/// Returns the newest record of a machine, preferably one with both lookups and updates.
///
/// If several have that date, it is the one with the most engines, sets and rules.
pub(crate) fn newest<'a>(records: &[&'a Record]) -> Option<&'a Record> {
    let has =
        |record: &Record, measure: &str| record.rows.iter().any(|row| row.measure == measure && row.median.is_some());
    let rank = |record: &&&Record| {
        let both = has(record, "lookup") && has(record, "updates");
        let view = View::new(&record.rows);
        let rules: usize = view.sets.iter().map(|set| set.rules).sum();
        (both, record.date.clone(), view.engines.len(), view.sets.len(), rules)
    };
    records.iter().filter(|record| has(record, "lookup")).max_by_key(rank).copied()
}

/// Draws the plots of the newest record.
pub(crate) fn trade(record: &Record, looks: &Looks) -> anyhow::Result<Markup> {
    let view = View::new(&record.rows);
    let both: Vec<Figure> =
        [pareto::updates(&view, looks)?, pareto::memory(&view, looks)?].into_iter().flatten().collect();
    Ok(html! {
        p {
            "Every engine of " code { (record.definition) } ", measured on " (record.date) " in one run: "
            (record.head.first().map_or(record.machine.as_str(), String::as_str)) "."
        }
        div.large { (figures(&both)?) }
    })
}

/// Returns the family and the size of a set; for example, `acl1_10k` is `acl1` and 10,000.
fn family(set: &str) -> Option<(&str, usize)> {
    let (family, size) = set.rsplit_once('_')?;
    let (digits, unit) = match size.strip_suffix('k') {
        Some(thousands) => (thousands, 1000),
        None => size.strip_suffix('m').map_or((size, 1), |millions| (millions, 1_000_000)),
    };
    Some((family, digits.parse::<usize>().ok()? * unit))
}

/// Draws the figures of families of sets in several sizes; `None` if no family has two sizes.
pub(crate) fn growth(records: &[&Record], looks: &Looks) -> anyhow::Result<Option<Markup>> {
    let views: Vec<View<'_>> = records.iter().map(|record| View::new(&record.rows)).collect();
    let mut families: BTreeMap<&str, BTreeMap<usize, (usize, &View<'_>, &Row)>> = BTreeMap::new();
    for view in &views {
        let sizes =
            |of: &str| view.sets.iter().filter(|set| family(&set.set).is_some_and(|(name, _)| name == of)).count();
        let mut own: BTreeMap<&str, usize> = BTreeMap::new();
        for &set in &view.sets {
            if let Some((name, size)) = family(&set.set) {
                // If several records have a set, the one with the most sizes counts, because it is one run.
                let count = *own.entry(name).or_insert_with(|| sizes(name));
                let known = families.entry(name).or_default().entry(size).or_insert((count, view, set));
                if known.0 < count {
                    *known = (count, view, set);
                }
            }
        }
    }
    families.retain(|_, sizes| sizes.len() > 1);
    // Families with the most sizes are shown; the others can be opened.
    let most = families.values().map(BTreeMap::len).max().unwrap_or(0);
    let (mut shown, mut more) = (Vec::new(), Vec::new());
    for (name, sizes) in &families {
        let sets: Vec<(&View<'_>, &Row)> = sizes.values().map(|&(_, view, set)| (view, set)).collect();
        let figures = [
            of_family(&format!("{name}: lookups"), "ns a prepared key", &sets, looks, &|view, set, name| {
                view.row(&set.set, name, view.largest()?)?.median
            })?,
            of_family(&format!("{name}: memory"), "bytes a rule", &sets, looks, &|view, set, name| {
                Some(a_rule(set, view.row(&set.set, name, What::measure("run"))?.median?))
            })?,
            of_family(&format!("{name}: build"), "ms of CPU time", &sets, looks, &|view, set, name| {
                Some(as_is(set, 1000.0 * view.row(&set.set, name, What::measure("build"))?.median?))
            })?,
        ];
        if sizes.len() == most { &mut shown } else { &mut more }.extend(figures.into_iter().flatten());
    }
    if shown.is_empty() {
        return Ok(None);
    }
    Ok(Some(html! {
        p { "Sets of one kind in several sizes. Sizes may be runs of their own: the slope is to be read, not small differences." }
        (figures(&shown)?)
        @if !more.is_empty() { (details("Families of fewer sizes", &figures(&more)?)) }
    }))
}

type Of<'a> = &'a dyn Fn(&View<'_>, &Row, &str) -> Option<f64>;

fn of_family(
    title: &str,
    axis: &str,
    sets: &[(&View<'_>, &Row)],
    looks: &Looks,
    of: Of<'_>,
) -> anyhow::Result<Option<Figure>> {
    let mut names: Vec<&str> = Vec::new();
    for name in sets.iter().flat_map(|(view, _)| view.names(&YARDSTICKS)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // The yardsticks come last.
    names.sort_by_key(|name| YARDSTICKS.contains(name));
    let mut table = Table::new(&[axis]);
    table.head.extend(sets.iter().map(|(_, set)| format!("{} rules", set.rules)));
    let (mut series, mut legend) = (Vec::new(), Vec::new());
    for name in names {
        let figures: Vec<Option<f64>> = sets.iter().map(|(view, set)| of(view, set, name)).collect();
        let points: Vec<(f64, f64)> =
            sets.iter().zip(&figures).filter_map(|((_, set), figure)| Some((set.rules as f64, (*figure)?))).collect();
        if points.len() > 1 {
            let cells = figures.iter().map(|figure| or_dash(figure.map(short)));
            table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
            series.push(Series { look: looks.get(name), form: Form::Line, points });
            legend.push((looks.get(name), name.to_owned()));
        }
    }
    let (x, y) = (Axis::log("rules"), Axis::log(axis));
    let svg = chart(title, &x, &y, &series)?;
    let figure =
        || Figure { title: title.to_owned(), caption: String::new(), svg, legend, tables: vec![("Figures", table)] };
    Ok((!series.is_empty()).then(figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_what_stands_before_the_size() {
        assert_eq!(family("acl1_10k"), Some(("acl1", 10_000)));
        assert_eq!(family("fw_v6_1k"), Some(("fw_v6", 1000)));
        assert_eq!((family("fw_100"), family("fw_1m")), (Some(("fw", 100)), Some(("fw", 1_000_000))));
        for set in ["edge", "acl1_10k skewed", "acl_10k_zipf", "acl_k"] {
            assert_eq!(family(set), None, "{set}");
        }
    }
}
