//! Least lead of each engine over `rte_acl`, from the rows of a record.

use crate::record::Row;
use crate::table::{Table, number};

/// Lines of `rte_acl` that an engine is compared with; for each set the fastest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// All algorithms of the machine.
    Any,
    /// Lines that use no more than AVX2, as firstmatch does.
    Avx2,
}

impl Peer {
    const ALL: [Self; 2] = [Self::Avx2, Self::Any];

    fn name(self) -> &'static str {
        match self {
            Self::Any => "rte_acl",
            Self::Avx2 => "rte_acl up to AVX2",
        }
    }

    /// Returns whether a line of a record is one of these lines.
    pub(crate) fn is(self, engine: &str) -> bool {
        let is_first = engine.split(' ').next() == Some("rte_acl") && !engine.ends_with(" again");
        is_first && (self == Self::Any || !engine.contains("avx512"))
    }
}

/// Least lead of an engine, with its set.
///
/// For example, 36 ns against 24 ns on one set and 48 ns against 10 ns on another give 1.5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lead<'a> {
    /// Time of `rte_acl` over that of the engine; below 1 the engine is slower.
    pub(crate) ratio: f64,
    pub(crate) set: &'a str,
}

/// Returns the least lead of an engine over `rte_acl`; `None` if no set has times of both.
pub(crate) fn least<'a>(
    rows: &'a [Row],
    engine: &str,
    (measure, batch): (&str, usize),
    peer: Peer,
) -> Option<Lead<'a>> {
    let of_measure = || rows.iter().filter(|row| row.measure == measure && row.batch == Some(batch));
    let of_engine = of_measure().filter(|row| row.engine == engine);
    let leads = of_engine.filter_map(|row| {
        let peers = of_measure().filter(|other| other.set == row.set && peer.is(&other.engine));
        let fastest = peers.filter_map(|other| other.median).reduce(f64::min)?;
        Some(Lead { ratio: fastest / row.median?, set: &row.set })
    });
    leads.min_by(|one, other| one.ratio.total_cmp(&other.ratio))
}

/// Returns the table of the least leads of all engines, which is empty if `rte_acl` has no times.
///
/// Each engine has a row for AVX2 and one for every algorithm, and a column for each measure and batch.
pub(crate) fn table(rows: &[Row]) -> Table {
    let timed = || rows.iter().filter(|row| row.unit.starts_with("ns/") && row.threads == 1 && row.batch.is_some());
    let mut columns: Vec<(&str, usize)> = Vec::new();
    for row in timed().filter(|row| Peer::Any.is(&row.engine) && !row.measure.starts_with("latency")) {
        let column = (row.measure.as_str(), row.batch.unwrap_or(1));
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let mut engines: Vec<&str> = Vec::new();
    for row in timed() {
        let name = row.engine.as_str();
        let is_engine = !Peer::Any.is(name) && !name.ends_with(" again") && name != "limit" && name != "linear";
        if is_engine && !engines.contains(&name) {
            engines.push(name);
        }
    }
    let mut table = Table::new(&["least lead", "over"]);
    table.head.extend(columns.iter().map(|(measure, batch)| format!("{measure}, batch of {batch}")));
    let cell =
        |lead: Option<Lead<'_>>| lead.map_or("–".to_owned(), |lead| format!("{} ({})", number(lead.ratio), lead.set));
    let row = |engine: &str, peer: Peer| {
        let leads = columns.iter().map(|&column| cell(least(rows, engine, column, peer)));
        [engine.to_owned(), peer.name().to_owned()].into_iter().chain(leads).collect()
    };
    if !columns.is_empty() {
        table.rows = engines.iter().flat_map(|engine| Peer::ALL.map(|peer| row(engine, peer))).collect();
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::records;

    /// Different engines are faster on two sets, so each engine has its own least lead.
    #[test]
    fn each_engine_has_a_least_lead_of_its_own() {
        let head = "set,rules,keys,engine,measure,batch,threads,unit,median,min,lower_quartile,upper_quartile,max,\
                    wall_median,noise_floor,drift,void,of_limit,of_rte_acl,of_linear\n";
        let line = |set: &str, engine: &str, median: &str| {
            format!("{set},9,9,{engine},lookup,32,1,ns/key,{median},1,1,1,1,1,0.01,,false,,,\n")
        };
        let figures = [("one", "10", "20"), ("two", "24", "12")];
        let mut text = head.to_owned();
        for (set, first, second) in figures {
            text += &line(set, "first", first);
            text += &line(set, "first again", "1000");
            text += &line(set, "second", second);
            text += &line(set, "limit", "1");
            text += &line(set, "rte_acl avx2", "48");
            text += &line(set, "rte_acl avx2 again", "2");
            text += &line(set, "rte_acl max avx512x16", "36");
        }
        let rows: Vec<Row> = records::rows(std::path::Path::new("x.csv"), &text).expect("rows");
        let of = |engine, peer| least(&rows, engine, ("lookup", 32), peer);
        assert_eq!(of("first", Peer::Avx2), Some(Lead { ratio: 2.0, set: "two" }));
        assert_eq!(of("second", Peer::Avx2), Some(Lead { ratio: 2.4, set: "one" }));
        assert_eq!(of("first", Peer::Any), Some(Lead { ratio: 1.5, set: "two" }));
        assert_eq!(of("nobody", Peer::Any), None);
        let Table { head, rows, .. } = table(&rows);
        assert_eq!(head, ["least lead", "over", "lookup, batch of 32"]);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0], ["first", "rte_acl up to AVX2", "2.00 (two)"]);
    }
}
