//! View of a record by set, engine and measure.

use crate::record::Row;
use crate::statistics::geometric_mean;

/// Lines that engines are compared with.
pub(crate) const YARDSTICKS: [&str; 3] = ["limit", "rte_acl", "linear"];

/// Returns the yardstick that a line of a record belongs to.
fn yardstick(engine: &str) -> Option<&'static str> {
    YARDSTICKS.into_iter().find(|&name| match name {
        // The second tables of `rte_acl` are left out, because the least of twice as many lines would be less.
        "rte_acl" => engine.split(' ').next() == Some(name) && !engine.ends_with(" again"),
        _ => engine == name,
    })
}

/// Selection of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct What<'a> {
    pub(crate) measure: &'a str,
    pub(crate) batch: Option<usize>,
    pub(crate) threads: Option<usize>,
}

impl<'a> What<'a> {
    pub(crate) fn measure(measure: &'a str) -> Self {
        Self { measure, batch: None, threads: None }
    }

    pub(crate) fn lookup(batch: usize) -> Self {
        Self { batch: Some(batch), ..Self::measure("lookup") }
    }

    pub(crate) fn is(&self, row: &Row) -> bool {
        row.measure == self.measure
            && (self.batch.is_none() || row.batch == self.batch)
            && self.threads.is_none_or(|threads| row.threads == threads)
    }
}

/// Mean of a figure over sets: the geometric mean, the least and the most.
///
/// For one set it is the median with the quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Record with the names of its sets and engines.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub(crate) rows: &'a [Row],
    /// One row of each set.
    pub(crate) sets: Vec<&'a Row>,
    /// Engines without the yardsticks and without the second build of the first.
    pub(crate) engines: Vec<&'a str>,
    /// Yardsticks that have figures.
    pub(crate) yardsticks: Vec<&'static str>,
}

impl<'a> View<'a> {
    pub(crate) fn new(rows: &'a [Row]) -> Self {
        let mut view = Self { rows, sets: Vec::new(), engines: Vec::new(), yardsticks: Vec::new() };
        let mut found = Vec::new();
        for row in rows {
            let name = row.engine.as_str();
            if !view.sets.iter().any(|set| set.set == row.set) {
                view.sets.push(row);
            }
            let again = name.strip_suffix(" again").is_some_and(|first| rows.iter().any(|row| row.engine == first));
            match yardstick(name) {
                Some(yardstick) => found.push(yardstick),
                None if !again && !view.engines.contains(&name) => view.engines.push(name),
                None => {}
            }
        }
        view.yardsticks = YARDSTICKS.into_iter().filter(|name| found.contains(name)).collect();
        view
    }

    /// Returns the engines, then those of `yardsticks` that have figures.
    pub(crate) fn names(&self, yardsticks: &[&'static str]) -> Vec<&'a str> {
        let yardsticks = self.yardsticks.iter().copied().filter(|name| yardsticks.contains(name));
        self.engines.iter().copied().chain(yardsticks).collect()
    }

    /// Returns the row of an engine, or of the best line of a yardstick; `None` without a median.
    pub(crate) fn row(&self, set: &str, name: &str, what: What<'_>) -> Option<&'a Row> {
        let is = |row: &&Row| {
            let by_name = if name == "rte_acl" { yardstick(&row.engine) == Some(name) } else { row.engine == name };
            row.set == set && by_name && what.is(row)
        };
        let with = self.rows.iter().filter(is).filter(|row| row.median.is_some_and(f64::is_finite));
        with.min_by(|one, other| one.median.unwrap_or(0.0).total_cmp(&other.median.unwrap_or(0.0)))
    }

    /// Returns the line of an engine, even if it has only ratios.
    pub(crate) fn line(&self, set: &str, name: &str, what: What<'_>) -> Option<&'a Row> {
        self.rows.iter().find(|row| row.set == set && row.engine == name && what.is(row))
    }

    /// Returns the names of all lines of a set.
    pub(crate) fn lines(&self, set: &Row) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| row.set == set.set) {
            if !names.contains(&row.engine.as_str()) {
                names.push(&row.engine);
            }
        }
        names
    }

    /// Returns the numbers of threads of lookups by several threads.
    pub(crate) fn threads(&self) -> Vec<usize> {
        let rows = self.rows.iter().filter(|row| row.measure == "lookup, all threads");
        let mut threads: Vec<usize> = rows.map(|row| row.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// Returns the sets for which some engine has the figure.
    pub(crate) fn sets_with(&self, what: What<'_>) -> Vec<&'a str> {
        let has = |set: &&str| self.engines.iter().any(|name| self.row(set, name, what).is_some());
        self.sets.iter().map(|row| row.set.as_str()).filter(has).collect()
    }

    /// Returns the [mean](Self::mean_of) over [all sets](Self::sets_with) of the figure.
    pub(crate) fn mean(&self, name: &str, what: What<'_>, scaled: &dyn Fn(&Row, f64) -> f64) -> Option<Mean> {
        self.mean_of(&self.sets_with(what), name, what, scaled)
    }

    /// Returns the mean of the figure over `sets`, after `scaled` has changed each figure.
    ///
    /// It is `None` if one is missing, because the mean would be over other sets.
    pub(crate) fn mean_of(
        &self,
        sets: &[&str],
        name: &str,
        what: What<'_>,
        scaled: &dyn Fn(&Row, f64) -> f64,
    ) -> Option<Mean> {
        let rows = sets.iter().map(|set| self.row(set, name, what)).collect::<Option<Vec<_>>>()?;
        let of = |row: &Row, figure: Option<f64>| figure.map(|figure| scaled(row, figure));
        let medians = rows.iter().map(|row| of(row, row.median)).collect::<Option<Vec<f64>>>()?;
        let value = geometric_mean(&medians).filter(|value| value.is_finite())?;
        let mut ends = match &rows[..] {
            [row] => [of(row, row.lower_quartile).unwrap_or(value), of(row, row.upper_quartile).unwrap_or(value)],
            _ => [medians.iter().copied().fold(value, f64::min), medians.iter().copied().fold(value, f64::max)],
        };
        ends.sort_unstable_by(f64::total_cmp);
        Some(Mean { value, low: ends[0], high: ends[1] })
    }

    /// Returns the batches of lookups, from the smallest.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.batches_of("lookup")
    }

    /// Returns the batches of a measure, from the smallest.
    pub(crate) fn batches_of(&self, measure: &str) -> Vec<usize> {
        let of_lookup = self.rows.iter().filter(|row| row.measure == measure);
        let mut batches: Vec<usize> = of_lookup.filter_map(|row| row.batch).collect();
        batches.sort_unstable();
        batches.dedup();
        batches
    }

    /// Returns the selection of lookups in the largest batches.
    pub(crate) fn largest(&self) -> Option<What<'static>> {
        self.batches().last().map(|&batch| What::lookup(batch))
    }

    /// Returns the largest noise floor of a figure over the sets.
    pub(crate) fn floor(&self, what: What<'_>) -> f64 {
        let floors = self.rows.iter().filter(|row| what.is(row)).filter_map(|row| row.noise_floor);
        floors.fold(0.0, |most, floor| if floor.is_nan() || most.is_nan() { f64::NAN } else { floor.max(most) })
    }
}

/// Returns the figure unchanged.
pub(crate) fn as_is(_: &Row, figure: f64) -> f64 {
    figure
}

/// Returns the figure divided by the number of rules.
pub(crate) fn a_rule(row: &Row, figure: f64) -> f64 {
    figure / row.rules.max(1) as f64
}
