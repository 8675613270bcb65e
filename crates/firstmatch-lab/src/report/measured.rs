//! Plots of one record.

use maud::{Markup, html};

use super::looks::Looks;
use super::page::{Figure, details, figures, table};
use super::plot::{Bar, Form, Reference, Series, bars, chart};
use super::records::Record;
use super::scale::Axis;
use crate::record::Row;
use crate::statistics::Verdict;
use crate::table::{Table, number, or_dash, percent, short};
use crate::view::{Mean, View, What, YARDSTICKS, a_rule, as_is};
use crate::views::{self, Titled};

/// Ratio of figures above which bars have a logarithmic axis.
const FAR_APART: f64 = 20.0;

const WITH_READERS: &str = "updates with readers";

/// Returns the section of one record; `shows` is the text of its definition.
pub(crate) fn section(record: &Record, shows: Option<&str>, looks: &Looks) -> anyhow::Result<Markup> {
    let view = View::new(&record.rows);
    if record.rows.is_empty() {
        return Ok(html! { (head(record, shows)) p { "The record has no figures." } });
    }
    // All sets share one kind of axis.
    let places = || view.sets.iter().flat_map(|set| view.engines.iter().map(move |name| (&set.set, name)));
    let medians = places().filter_map(|(set, name)| view.row(set, name, view.largest()?)?.median);
    let axis = axis_of("ns a prepared key", medians);
    let (mut by_set, mut without) = (Vec::new(), Vec::new());
    for set in &view.sets {
        match lookups(&view, set, &axis, looks)? {
            Some(figure) => by_set.push(figure),
            None => without.push((&set.set, views::of_set(&view, set))),
        }
    }
    let all = [
        super::pareto::updates(&view, looks)?,
        super::pareto::memory(&view, looks)?,
        growth_by_batch(&view, looks)?,
        distribution(&view, looks)?,
        threads(&view, looks)?,
        latencies(&view, looks)?,
        memory(&view, looks)?,
        builds(&view, looks)?,
        updates(&view, looks, "updates")?,
        updates(&view, looks, WITH_READERS)?,
    ];
    let all: Vec<Figure> = all.into_iter().flatten().collect();
    Ok(html! {
        (head(record, shows))
        @if !all.is_empty() { h3 { "All sets" } (figures(&all)?) }
        @for (title, of_title) in &views::of_record(&view) { (details(title, &table(of_title))) }
        @if !by_set.is_empty() { h3 { "Lookups by set" } (figures(&by_set)?) }
        @for (set, tables) in &without {
            h3 { (set) }
            @for (title, of_title) in tables { (details(title, &table(of_title))) }
        }
    })
}

fn head(record: &Record, shows: Option<&str>) -> Markup {
    html! {
        @if let Some(shows) = shows {
            p {
                @for (number, part) in shows.trim().split('`').enumerate() {
                    @if number % 2 == 1 { code { (part) } } @else { (part) }
                }
            }
        }
        dl {
            @if let Some(machine) = record.head.first() { dt { "Machine" } dd { (machine) } }
            dt { "Command" } dd { code { "firstmatch-lab measure " (record.definition) } }
            dt { "Record" } dd { code { (record.path.display()) } }
        }
        @if record.head.len() > 2 {
            ul.notes { @for note in &record.head[2..] { li { (note) } } }
        }
    }
}

/// Returns the caption's explanation of bars, lines and whiskers of means.
pub(crate) fn of_means(view: &View<'_>, what: What<'_>) -> String {
    match view.sets_with(what).len() {
        1 => "Medians of the rounds; whiskers: the quartiles.".to_owned(),
        count if count < view.sets.len() => {
            format!(
                "Geometric means of {count} of {} sets; whiskers: the least and the most of a set.",
                view.sets.len()
            )
        }
        count => format!("Geometric means of {count} sets; whiskers: the least and the most of a set."),
    }
}

/// Returns an axis from 0, or a logarithmic one if the figures are far apart.
fn axis_of(title: &str, values: impl IntoIterator<Item = f64>) -> Axis {
    let (least, most) =
        values.into_iter().fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
    if most > FAR_APART * least { Axis::log(&format!("{title} (log scale)")) } else { Axis::linear(title) }
}

fn lookups(view: &View<'_>, set: &Row, axis: &Axis, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let Some(what) = view.largest() else { return Ok(None) };
    let rows: Vec<&Row> = view.engines.iter().filter_map(|name| view.row(&set.set, name, what)).collect();
    let Some(first) = rows.first() else { return ratios(view, set, what, looks) };
    let one = |row: &&Row| {
        let (value, low, high) = (row.median?, row.lower_quartile?, row.upper_quartile?);
        let void = if row.void { " ?" } else { "" };
        let note = format!("{} ns ± {}{void}", number(value), percent((high - low) / 2.0 / value));
        let (label, look) = (row.engine.clone(), looks.get(&row.engine));
        Some(Bar { label, note, value, spread: Some((low, high)), look, hollow: row.void })
    };
    let all: Vec<Bar> = rows.iter().filter_map(one).collect();
    let mut references = Vec::new();
    let mut legend = Vec::new();
    for &name in &view.yardsticks {
        if let Some(value) = view.row(&set.set, name, what).and_then(|row| row.median) {
            references.push(Reference { value, look: looks.get(name) });
            legend.push((looks.get(name), format!("{name} {} ns", number(value))));
        }
    }
    let batch = what.batch.unwrap_or(1);
    let title = format!("{}: {} rules", set.set, set.rules);
    Ok(Some(Figure {
        svg: bars(&format!("Lookups in {}", set.set), axis, &all, &references)?,
        caption: format!(
            "CPU time a prepared key in batches of {batch}: medians; whiskers and ±: the quartiles. {} Yardsticks beyond the axis are in the legend only.",
            fastest(&rows, first.noise_floor.unwrap_or(f64::NAN))
        ),
        title,
        legend,
        tables: views::of_set(view, set),
    }))
}

/// Draws lookups as multiples of `limit`, for a set whose times an earlier lab withheld.
fn ratios(view: &View<'_>, set: &Row, what: What<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let bar = |name: &&str| {
        let row = view.line(&set.set, name, what)?;
        let value = row.of_limit?;
        let note = format!("× {}{}", short(value), if row.void { " ?" } else { "" });
        let look = looks.get(name);
        Some(Bar { label: (*name).to_owned(), note, value, spread: None, look, hollow: row.void })
    };
    let all: Vec<Bar> = view.engines.iter().filter_map(bar).collect();
    let title = format!("{}: {} rules", set.set, set.rules);
    let caption = "Times were withheld from this record: it has only ratios to limit.".to_owned();
    bar_figure(title, "CPU time of lookups by that of limit", caption, &all, views::of_set(view, set))
}

/// Returns a sentence on the engine that is faster than all others beyond the noise.
fn fastest(rows: &[&Row], floor: f64) -> String {
    let of = |row: &Row| row.median.unwrap_or(f64::INFINITY);
    let Some(best) = rows.iter().min_by(|one, other| of(one).total_cmp(&of(other))) else { return String::new() };
    let verdict = |row: &Row| Verdict::of(of(best) / of(row), floor);
    let others = || rows.iter().filter(|row| row.engine != best.engine);
    if Verdict::of(1.0, floor) == Verdict::Void {
        return format!("The noise floor is {}: the run is void.", percent(floor));
    }
    let same: Vec<&str> = others().filter(|row| verdict(row) == Verdict::Same).map(|row| row.engine.as_str()).collect();
    match (others().count(), &same[..]) {
        (0, _) => format!("Noise floor {}.", percent(floor)),
        (_, []) => format!("Fastest: {} (noise floor {}).", best.engine, percent(floor)),
        _ => {
            format!("No difference beyond the noise floor of {}: {}, {}.", percent(floor), best.engine, same.join(", "))
        }
    }
}

/// Returns lines of some engines, their legend, and a table with a row for each engine.
fn lines_of(
    (head, form): (&str, Form),
    looks: &Looks,
    all: Vec<(&str, Vec<(f64, f64)>)>,
) -> (Vec<Series>, Vec<(super::plot::Look, String)>, Table) {
    let all: Vec<_> = all.into_iter().filter(|(_, points)| !points.is_empty()).collect();
    let mut places: Vec<f64> = all.iter().flat_map(|(_, points)| points.iter().map(|point| point.0)).collect();
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    let mut table = Table::new(&[head]);
    table.head.extend(places.iter().map(|&place| short(place)));
    for (name, points) in &all {
        let at = |place: f64| points.iter().find(|point| point.0 == place).map(|point| short(point.1));
        let cells = places.iter().map(|&place| or_dash(at(place)));
        table.rows.push(std::iter::once((*name).to_owned()).chain(cells).collect());
    }
    let legend = all.iter().map(|(name, _)| (looks.get(name), (*name).to_owned())).collect();
    let series = all.into_iter().map(|(name, points)| Series { look: looks.get(name), form, points });
    (series.collect(), legend, table)
}

fn growth_by_batch(view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let batches = view.batches();
    if batches.len() < 2 {
        return Ok(None);
    }
    let point = |name: &str, batch: usize| Some((batch as f64, view.mean(name, What::lookup(batch), &as_is)?.value));
    let of = |name| (name, batches.iter().filter_map(|&batch| point(name, batch)).collect());
    let all = view.names(&["limit", "rte_acl"]).into_iter().map(of).collect();
    let (series, legend, table) = lines_of(("ns a prepared key, batch of", Form::Line), looks, all);
    let x = Axis::log("packets a batch").with_ticks(batches.iter().map(|&batch| batch as f64).collect());
    let title = "Lookups by batch".to_owned();
    Ok((!series.is_empty()).then_some(Figure {
        svg: chart(&title, &x, &Axis::log("ns a prepared key"), &series)?,
        caption: "CPU time. Packets of a batch are independent of each other.".to_owned(),
        title,
        legend,
        tables: vec![("Figures", table)],
    }))
}

/// Draws for what share of the sets each engine is at least as fast as a given time.
fn distribution(view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let Some(what) = view.largest().filter(|&what| view.sets_with(what).len() >= 3) else { return Ok(None) };
    let sets = view.sets_with(what);
    let mut table = Table::new(&["ns a prepared key"]);
    table.head.extend(sets.iter().map(|&set| set.to_owned()));
    let (mut series, mut legend) = (Vec::new(), Vec::new());
    for name in view.names(&["limit", "rte_acl"]) {
        let figures: Vec<Option<f64>> = sets.iter().map(|set| view.row(set, name, what)?.median).collect();
        let cells = figures.iter().map(|&figure| or_dash(figure.map(number)));
        table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        let mut sorted: Vec<f64> = figures.into_iter().flatten().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let share = |(place, nanos): (usize, f64)| (nanos, 100.0 * (place + 1) as f64 / sets.len() as f64);
        let start = sorted.first().map(|&nanos| (nanos, 0.0));
        let points = start.into_iter().chain(sorted.iter().copied().enumerate().map(share)).collect();
        series.push(Series { look: looks.get(name), form: Form::Steps, points });
        legend.push((looks.get(name), name.to_owned()));
    }
    let title = "Distribution over the sets".to_owned();
    Ok(Some(Figure {
        svg: chart(&title, &Axis::log("ns a prepared key, at most"), &Axis::linear("% of the sets"), &series)?,
        caption: "For how many of the sets lookups take no longer.".to_owned(),
        title,
        legend,
        tables: vec![("Figures", table)],
    }))
}

fn latencies(view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let Some(batch) = view.batches().last().copied().filter(|&batch| batch > 1) else { return Ok(None) };
    let micros = |_: &Row, nanos: f64| nanos / 1000.0;
    let mut all = Vec::new();
    for name in view.names(&["limit", "rte_acl"]) {
        let of = |measure| view.mean(name, What { batch: Some(batch), ..What::measure(measure) }, &micros);
        let (Some(p50), Some(p99)) = (of("latency, p50"), of("latency, p99")) else { continue };
        let note = format!("{} µs, p99 {} µs", number(p50.value), number(p99.value));
        let spread = Some((p50.value, p99.value));
        all.push(Bar { label: name.to_owned(), note, value: p50.value, spread, look: looks.get(name), hollow: false });
    }
    let title = format!("Latency of batches of {batch}");
    let caption = "Wall time until all answers are there: bars the median, whiskers the 99th percentile.".to_owned();
    bar_figure(title, "µs a batch", caption, &all, Vec::new())
}

/// Returns a figure of bars; without other tables it has one of the bars.
fn bar_figure(
    title: String,
    axis: &str,
    caption: String,
    all: &[Bar],
    mut tables: Vec<Titled>,
) -> anyhow::Result<Option<Figure>> {
    if all.is_empty() {
        return Ok(None);
    }
    if tables.is_empty() {
        let mut table = Table::new(&["", axis, "whisker from", "to"]);
        let ends = |bar: &Bar| bar.spread.map_or([bar.value; 2], |(low, high)| [low, high]);
        let cells = |bar: &Bar| [bar.value].into_iter().chain(ends(bar)).map(short).collect::<Vec<_>>();
        table.rows.extend(all.iter().map(|bar| [vec![bar.label.clone()], cells(bar)].concat()));
        tables.push(("Figures", table));
    }
    let axis = axis_of(axis, all.iter().map(|bar| bar.value));
    Ok(Some(Figure { svg: bars(&title, &axis, all, &[])?, title, caption, legend: Vec::new(), tables }))
}

fn threads(view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let Some(alone) = view.largest() else { return Ok(None) };
    let counts = view.threads();
    if counts.is_empty() {
        return Ok(None);
    }
    let packets = |row: &Row, _: f64| 1000.0 / row.wall_median.unwrap_or(f64::NAN);
    let together = |threads| What { threads: Some(threads), ..What::measure("lookup, all threads") };
    let plans: Vec<(usize, What<'_>)> =
        std::iter::once((1, alone)).chain(counts.iter().map(|&threads| (threads, together(threads)))).collect();
    let point =
        |name: &str, (threads, what): (usize, What<'_>)| Some((threads as f64, view.mean(name, what, &packets)?.value));
    let of = |name| (name, plans.iter().filter_map(|&plan| point(name, plan)).collect());
    let all = view.names(&["rte_acl"]).into_iter().map(of).collect();
    let (series, legend, table) = lines_of(("million keys a second, threads", Form::Line), looks, all);
    let x = Axis::linear("threads").with_ticks(plans.iter().map(|plan| plan.0 as f64).collect());
    let title = "Threads".to_owned();
    Ok((!series.is_empty()).then_some(Figure {
        svg: chart(&title, &x, &Axis::linear("million keys/s"), &series)?,
        caption: "All threads together, wall time, the largest batch.".to_owned(),
        title,
        legend,
        tables: vec![("Figures", table)],
    }))
}

fn memory(view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let what = What::measure("run");
    let bar = |name: &str| {
        let Mean { value, low, high } = view.mean(name, what, &a_rule)?;
        let (label, note) = (name.to_owned(), format!("{} B", number(value)));
        Some(Bar { label, note, value, spread: Some((low, high)), look: looks.get(name), hollow: false })
    };
    let all: Vec<Bar> = view.names(&YARDSTICKS).into_iter().filter_map(bar).collect();
    let caption = match view.sets.len() {
        1 => "What is allocated once it is built.".to_owned(),
        _ => format!("What is allocated once it is built. {}", of_means(view, what)),
    };
    bar_figure("Memory at run time".to_owned(), "bytes a rule", caption, &all, Vec::new())
}

fn builds(view: &View<'_>, looks: &Looks) -> anyhow::Result<Option<Figure>> {
    let millis = |_: &Row, seconds: f64| seconds * 1000.0;
    let shown = |value: f64| format!("{} ms", short(value));
    rates(view, looks, ("Build", "ms of CPU time"), What::measure("build"), &millis, &shown)
}

fn updates(view: &View<'_>, looks: &Looks, measure: &str) -> anyhow::Result<Option<Figure>> {
    // A thread that waits for a lock takes no CPU time, so with readers the wall time counts.
    let readers = measure == WITH_READERS;
    let of = |row: &Row, rate: f64| if readers { row.wall_median.unwrap_or(f64::NAN) } else { rate };
    let (title, axis) = match readers {
        false => ("Updates", "updates a second of CPU time"),
        true => ("Updates with readers", "updates a second"),
    };
    rates(view, looks, (title, axis), What::measure(measure), &of, &short)
}

/// Draws bars of the means of a figure.
fn rates(
    view: &View<'_>,
    looks: &Looks,
    (title, axis): (&str, &str),
    what: What<'_>,
    scaled: &dyn Fn(&Row, f64) -> f64,
    shown: &dyn Fn(f64) -> String,
) -> anyhow::Result<Option<Figure>> {
    let void = view.rows.iter().any(|row| row.measure == what.measure && row.void);
    let names = view.names(&YARDSTICKS);
    let bar = |name: &&str| {
        let Mean { value, low, high } = view.mean(name, what, scaled)?;
        let note = format!("{}{}", shown(value), if void { " ?" } else { "" });
        let look = looks.get(name);
        Some(Bar { label: (*name).to_owned(), note, value, spread: Some((low, high)), look, hollow: void })
    };
    let all: Vec<Bar> = names.iter().filter_map(bar).collect();
    let floor = view.floor(what);
    let noise = match floor {
        0.0 => String::new(),
        _ if void => format!(" The noise floor is {}: figures are void (?).", percent(floor)),
        _ => format!(" Noise floor {}.", percent(floor)),
    };
    bar_figure(title.to_owned(), axis, of_means(view, what) + &noise, &all, Vec::new())
}
