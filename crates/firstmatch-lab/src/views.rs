//! Tables of a record: one list, which the terminal and the report show.
//!
//! Every table is made of the rows of the record alone, so that what `measure` prints is what its record has.

use crate::leads;
use crate::record::{FRAME_TO_DECISION, INSTRUCTIONS, Row, UNDER_UPDATES};
use crate::statistics::{Verdict, is_void, wider};
use crate::table::{Table, bytes, number, or_dash, percent, short};
use crate::view::{View, What, YARDSTICKS, a_rule, as_is};

/// Table with its title.
pub(crate) type Titled = (&'static str, Table);

/// Returns the tables of one set that have figures.
pub(crate) fn of_set(view: &View<'_>, set: &Row) -> Vec<Titled> {
    let all = [
        ("Lookups", lookups(view, set)),
        ("Noise", noise(view, set)),
        ("Instructions a lookup, by Callgrind", instructions(view, set)),
        ("Builds, memory and updates", costs(view, set)),
        ("Updates beside a reader", under_updates(view, set)),
    ];
    all.into_iter().filter(|(_, table)| !table.rows.is_empty()).collect()
}

/// Returns the tables over all sets that have figures.
pub(crate) fn of_record(view: &View<'_>) -> Vec<Titled> {
    let all = [
        ("Geometric means over the sets", means(view)),
        ("Least lead of each engine over rte_acl", leads::table(view.rows)),
    ];
    all.into_iter().filter(|(_, table)| !table.rows.is_empty()).collect()
}

/// Cell of a line by name.
type Cell<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;
/// Column of a table with its heading.
type Column<'a> = (String, Cell<'a>);

/// Returns a table with a row for each name; rows and columns without a figure are left out.
fn filled(head: &str, names: &[&str], columns: Vec<Column<'_>>) -> Table {
    let of = |(head, cell): Column<'_>| (head, names.iter().map(|name| cell(name)).collect::<Vec<_>>());
    let mut columns: Vec<(String, Vec<Option<String>>)> = columns.into_iter().map(of).collect();
    columns.retain(|(_, cells)| cells.iter().any(Option::is_some));
    let mut table = Table::new(&[head]);
    table.head.extend(columns.iter().map(|(head, _)| head.clone()));
    for (at, name) in names.iter().enumerate() {
        let cells: Vec<Option<String>> = columns.iter().map(|(_, cells)| cells[at].clone()).collect();
        if cells.iter().any(Option::is_some) {
            table.rows.push(std::iter::once((*name).to_owned()).chain(cells.into_iter().map(or_dash)).collect());
        }
    }
    table
}

/// Returns the ways to look up that have figures, with their headings.
fn cells(view: &View<'_>) -> Vec<(String, What<'static>)> {
    let of = |measure: &'static str, end: &str| -> Vec<(String, What<'static>)> {
        let batches = view.batches_of(measure).into_iter();
        batches.map(|batch| (format!("{batch}{end}"), What { batch: Some(batch), ..What::measure(measure) })).collect()
    };
    [of("lookup", ""), of("lookup, dependent", " dependent"), of(FRAME_TO_DECISION, " from frames")].concat()
}

/// Returns every line of a set: times by batch, then figures of the largest batch.
fn lookups(view: &View<'_>, set: &Row) -> Table {
    let row = |name: &str, what: What<'_>| view.line(&set.set, name, what);
    let mut columns: Vec<Column<'_>> = Vec::new();
    for (head, what) in cells(view) {
        columns.push((head, Box::new(move |name| row(name, what)?.median.map(number))));
    }
    let Some(what) = view.largest() else { return filled("ns a prepared key, batch of", &view.lines(set), columns) };
    columns.push((
        "spread".to_owned(),
        Box::new(move |name| {
            let row = row(name, what)?;
            Some(percent((row.upper_quartile? - row.lower_quartile?) / 2.0 / row.median?))
        }),
    ));
    columns.push(("M keys/s".to_owned(), Box::new(move |name| Some(number(1000.0 / row(name, what)?.median?)))));
    columns.push((
        "p50/p99 µs".to_owned(),
        Box::new(move |name| {
            let of = |measure| row(name, What { measure, ..what })?.median.map(|nanos| nanos / 1000.0);
            Some(format!("{:.1}/{:.1}", of("latency, p50")?, of("latency, p99")?))
        }),
    ));
    for threads in view.threads() {
        let what = What { threads: Some(threads), ..What::measure("lookup, all threads") };
        let cell = move |name: &str| Some(number(1000.0 / row(name, what)?.wall_median?));
        columns.push((format!("M keys/s, {threads} threads"), Box::new(cell)));
    }
    let limit = move |name: &str| marked(view, set, row(name, what)?, what, |row| row.of_limit, false);
    let peer = move |name: &str| marked(view, set, row(name, what)?, what, |row| row.of_rte_acl, true);
    let linear = move |name: &str| marked(view, set, row(name, what)?, what, |row| row.of_linear, false);
    columns.push(("× limit".to_owned(), Box::new(limit)));
    columns.push(("× rte_acl".to_owned(), Box::new(peer)));
    columns.push(("× linear".to_owned(), Box::new(linear)));
    if let Some(&batch) = view.batches_of(FRAME_TO_DECISION).last() {
        let what = What { batch: Some(batch), ..What::measure(FRAME_TO_DECISION) };
        let cell = move |name: &str| marked(view, set, row(name, what)?, what, |row| row.of_rte_acl, true);
        columns.push(("from frames × rte_acl".to_owned(), Box::new(cell)));
    }
    filled("ns a prepared key, batch of", &view.lines(set), columns)
}

/// Returns a ratio to a yardstick, with the mark of one that is no win.
fn marked(
    view: &View<'_>,
    set: &Row,
    row: &Row,
    what: What<'_>,
    of: fn(&Row) -> Option<f64>,
    is_peer: bool,
) -> Option<String> {
    let (ratio, floor) = (of(row)?, row.noise_floor.unwrap_or(f64::NAN));
    let peer = view.row(&set.set, "rte_acl", what).and_then(|row| row.noise_floor).filter(|_| is_peer);
    let floor = peer.map_or(floor, |peer| wider(floor, peer));
    let mark = if ratio == 1.0 { "" } else { Verdict::of(ratio, floor).mark() };
    Some(format!("{}{mark}", short(ratio)))
}

/// Returns the noise floors of a set by way to look up, and how far its sittings are apart.
fn noise(view: &View<'_>, set: &Row) -> Table {
    let lines = ["noise floor", "noise floor of rte_acl", "between sittings at most"];
    let cell = |what: What<'static>| {
        move |line: &str| match line {
            "noise floor" => {
                let floor = view.row(&set.set, view.engines.first()?, what)?.noise_floor?;
                Some(format!("{}{}", percent(floor), if is_void(floor) { " ?" } else { "" }))
            }
            "noise floor of rte_acl" => view.row(&set.set, "rte_acl", what)?.noise_floor.map(percent),
            _ => {
                let drifts =
                    view.rows.iter().filter(|row| row.set == set.set && what.is(row)).filter_map(|row| row.drift);
                drifts.reduce(f64::max).map(percent)
            }
        }
    };
    let columns = cells(view).into_iter().map(|(head, what)| -> Column<'_> { (head, Box::new(cell(what))) });
    filled("lookups, batch of", &lines, columns.collect())
}

fn instructions(view: &View<'_>, set: &Row) -> Table {
    let column = |batch: usize| -> Column<'_> {
        let what = What { batch: Some(batch), ..What::measure(INSTRUCTIONS) };
        let cell = move |name: &str| Some(format!("{:.2}", view.line(&set.set, name, what)?.median?));
        (batch.to_string(), Box::new(cell))
    };
    let columns = view.batches_of(INSTRUCTIONS).into_iter().map(column);
    filled("instructions a prepared key, batch of", &view.lines(set), columns.collect())
}

/// Returns what engines and yardsticks cost beside lookups.
fn costs(view: &View<'_>, set: &Row) -> Table {
    let of = |name: &str, measure: &str| view.row(&set.set, name, What::measure(measure));
    let median = |name: &str, measure: &str| of(name, measure)?.median;
    let size = |measure: &'static str| move |name: &str| Some(bytes(median(name, measure)? as usize));
    let own =
        |name: &str| -> Vec<&Row> { view.rows.iter().filter(|row| row.set == set.set && row.engine == name).collect() };
    let parts = |name: &str| {
        let part = |row: &&Row| {
            let part = row.measure.strip_prefix("run: ").filter(|part| !part.contains("scratch"))?;
            Some(format!("{part} {}", bytes(row.median? as usize)))
        };
        let parts: Vec<String> = own(name).iter().filter_map(part).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    let worst = |name: &str| {
        let rows = own(name);
        let of = |unit: &str| rows.iter().find(|row| row.measure == "worst case" && row.unit == unit)?.median;
        Some(format!("{:.0}/{:.0}", of("lines")?, of("tests")?))
    };
    // A thread that waits for a lock takes no CPU time, so with readers the wall time counts.
    let rate = |measure: &'static str, of_row: fn(&Row) -> Option<f64>| {
        move |name: &str| {
            let row = of(name, measure)?;
            let rate = match of_row(row)? {
                rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
                rate => format!("{:.0} k", rate / 1e3),
            };
            Some(format!("{rate}{}", if row.void { " ?" } else { "" }))
        }
    };
    let columns: [(&str, Cell<'_>); 10] = [
        ("build", Box::new(|name| Some(format!("{} ms", number(median(name, "build")? * 1000.0))))),
        ("run", Box::new(size("run"))),
        ("a rule", Box::new(|name| Some(format!("{:.0} B", a_rule(set, median(name, "run")?))))),
        ("scratch", Box::new(size("run: a thread's scratch"))),
        ("build peak", Box::new(size("build peak: the engine"))),
        ("parts", Box::new(parts)),
        ("worst lines/tests", Box::new(worst)),
        ("instructions a packet", Box::new(|name| median(name, "instructions a packet").map(number))),
        ("updates/s", Box::new(rate("updates", |row| row.median))),
        ("with readers", Box::new(rate("updates with readers", |row| row.wall_median))),
    ];
    filled("", &view.names(&YARDSTICKS), columns.map(|(head, cell)| (head.to_owned(), cell)).into())
}

/// Returns the figures of updates beside a reader, with a row for each engine and rate.
fn under_updates(view: &View<'_>, set: &Row) -> Table {
    let mut table = Table::new(&["updates/s, asked for"]);
    for row in view.rows.iter().filter(|row| row.set == set.set) {
        let parts = row.measure.strip_prefix(UNDER_UPDATES).and_then(|rest| rest.split_once(": "));
        let (Some((rate, figure)), Some(median)) = (parts, row.median) else { continue };
        let line = format!("{}, {rate}", row.engine);
        if table.rows.last().is_none_or(|last| last[0] != line) {
            table.rows.push(vec![line]);
        }
        if table.rows.len() == 1 {
            table.head.push(format!("{figure} ({})", row.unit));
        }
        table.rows.iter_mut().last().into_iter().for_each(|cells| cells.push(number(median)));
    }
    table
}

/// Returns geometric means over the sets, for engines that have figures on all of them.
fn means(view: &View<'_>) -> Table {
    if view.sets.len() < 2 {
        return Table::default();
    }
    let mean = |what, scaled: fn(&Row, f64) -> f64| {
        move |name: &str| view.mean(name, what, &scaled).map(|mean| number(mean.value))
    };
    let times = cells(view).into_iter().map(|(head, what)| -> Column<'_> { (head, Box::new(mean(what, as_is))) });
    let run: Column<'_> = ("bytes a rule".to_owned(), Box::new(mean(What::measure("run"), a_rule)));
    filled(&format!("{} sets", view.sets.len()), &view.names(&YARDSTICKS), times.chain([run]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::records;

    const HEAD: &str = "set,rules,keys,engine,measure,batch,threads,unit,median,min,lower_quartile,upper_quartile,max,\
                        wall_median,noise_floor,drift,void,of_limit,of_rte_acl,of_linear\n";

    fn tables(lines: &[&str]) -> Vec<String> {
        let lines = lines.iter().map(|line| format!("one,9,9,{line}\n")).collect::<String>();
        let rows: Vec<Row> = records::rows(std::path::Path::new("x.csv"), &format!("{HEAD}{lines}")).expect("rows");
        let view = View::new(&rows);
        views_of(&view)
    }

    fn views_of(view: &View<'_>) -> Vec<String> {
        of_set(view, view.sets[0]).into_iter().map(|(title, table)| format!("{title}\n{table}")).collect()
    }

    /// A ratio to `rte_acl` is no win within the noise floor of its fastest line, which is wider than the engine's
    /// here.
    #[test]
    fn figures_have_the_marks_of_their_noise() {
        let all = tables(&[
            "own,lookup,32,1,ns/key,20,1,19,21,1,1,0.01,0.03,false,2,0.92,",
            "own again,lookup,32,1,ns/key,21,1,19,21,1,1,0.01,0.04,false,2.1,1.1,",
            "rte_acl avx2,lookup,32,1,ns/key,21.7,1,1,1,1,1,0.1,,false,2,1,",
            "rte_acl sse,lookup,32,1,ns/key,30,1,1,1,1,1,0.5,,false,2,1.4,",
            "own,updates,,1,updates/s,2000000,1,1,1,1,1,,,true,,,",
            "own,run,,1,bytes,1800,1,1,1,1,,,,false,,,",
        ]);
        let [lookups, noise, costs] = &all[..] else { panic!("{all:?}") };
        assert!(
            lookups.contains("| own                         | 20.0 |  5.0 % |     50.0 |       2 |    0.92 ? |"),
            "{lookups}"
        );
        assert!(lookups.contains("| rte_acl sse "), "{lookups}");
        for expected in
            ["| noise floor              |  1.0 % |", "| noise floor of rte_acl   | 10.0 % |", "at most |  4.0 % |"]
        {
            assert!(noise.contains(expected), "{expected}: {noise}");
        }
        assert!(
            costs.contains("|     |    run | a rule | updates/s |")
                && costs.contains("| own | 1.8 kB |  200 B |  2.00 M ? |"),
            "{costs}"
        );
    }

    #[test]
    fn updates_beside_a_reader_have_a_line_for_each_rate() {
        let line = |rate: &str, figure: &str, median: &str| {
            format!("meta,\"under updates, {rate}: {figure}\",32,2,us,{median},1,1,1,1,,,,false,,,")
        };
        let lines = [
            line("9/s", "reader", "2.5"),
            line("9/s", "\"\"max\"\", of all", "31"),
            line("as many as can be", "reader", "300"),
            line("as many as can be", "\"\"max\"\", of all", "4"),
        ];
        let all = tables(&lines.each_ref().map(String::as_str));
        let text = &all[0];
        for expected in [
            "| updates/s, asked for    | reader (us) | \"max\", of all (us) |",
            "| meta, 9/s               |        2.50 |               31.0 |",
            "| meta, as many as can be |         300 |               4.00 |",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
