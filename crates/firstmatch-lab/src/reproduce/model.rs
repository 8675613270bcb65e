//! Models: times predicted from what an engine states, beside measured ones.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_core::Stats;
use serde::Deserialize;

use super::bench::{Scale, Traffic, Workbench};
use super::figures::slope;
use super::lists::{Bias, Plan};
use super::{Emit, Measured, NEARBY, Outcome, Reach, mean};
use crate::definition::Engine;
use crate::digest::Running;
use crate::table::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    profiles: Vec<String>,
    sizes: Vec<usize>,
    lists: u64,
    #[serde(default)]
    smoothing: u8,
    /// Number of keys per call.
    #[serde(default = "one")]
    batch: usize,
    /// Statistic from which times are predicted.
    from: Count,
    /// Sizes that the model is fitted to; it predicts the others.
    fitted: Vec<usize>,
    engines: Vec<Engine>,
    pub(super) claims: Vec<About>,
}

fn one() -> usize {
    1
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Count {
    /// Tables or partitions.
    Tables,
    /// Most regions that a lookup tests.
    Tests,
    /// Most cache lines that a lookup touches.
    Lines,
}

impl Count {
    fn name(self) -> &'static str {
        match self {
            Self::Tables => "tables",
            Self::Tests => "tests",
            Self::Lines => "lines",
        }
    }

    fn of(self, stats: &Stats) -> f64 {
        let count = match self {
            Self::Tables => stats.tables,
            Self::Tests => stats.worst_tests,
            Self::Lines => stats.worst_lines,
        };
        count as f64
    }
}

/// Subject of a claim: errors of the predictions of each engine, in per cent of the measured time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    of: Of,
    /// Engine that it is about; by default there is a number for each.
    engine: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Mean of the errors, each without its sign.
    Mean,
    /// Largest error without its sign.
    Most,
}

/// Straight line: a time without any table, and the time that each one adds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    base: f64,
    each: f64,
}

impl Line {
    /// Fits a line to counts with their times by least squares.
    ///
    /// # Errors
    ///
    /// If there are not two different counts.
    fn fit(points: &[(f64, f64)]) -> anyhow::Result<Self> {
        let differ = points.iter().any(|point| point.0 != points[0].0);
        ensure!(differ, "a model is fitted to two different counts at least");
        let each = slope(points);
        let of = |get: fn(&(f64, f64)) -> f64| mean(points.iter().map(get));
        Ok(Self { base: of(|point| point.1) - each * of(|point| point.0), each })
    }

    fn at(self, count: f64) -> f64 {
        self.base + self.each * count
    }
}

/// Counts and times of one engine, by profile and size: the mean over the lists.
struct Cells {
    counts: Vec<Vec<f64>>,
    micros: Vec<Vec<f64>>,
}

pub(super) fn run(run: &Model, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    ensure!(!run.engines.is_empty() && run.batch > 0, "there is no engine, or no packet in a batch");
    let others = run.sizes.iter().filter(|size| !run.fitted.contains(size)).count();
    let known = run.fitted.iter().all(|size| run.sizes.contains(size));
    ensure!(known && !run.fitted.is_empty() && others > 0, "`fitted`: expected some of the sizes, not all");
    let bias = Bias::smoothed(run.smoothing);
    let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: run.lists, bias, seeds };
    let mut all: Vec<Cells> =
        run.engines.iter().map(|_| Cells { counts: plan.zeros(), micros: plan.zeros() }).collect();
    let mut digest = Running::default();
    plan.each(|place, set| {
        let bench = Workbench::new(set, Traffic::Synthetic, None, place.seed, Scale::default())?;
        let built = run.engines.iter().map(|engine| anyhow::Ok((engine.name(), bench.build(engine)?)));
        let built = built.collect::<anyhow::Result<Vec<_>>>()?;
        let lookups = bench.lookups(&built, &[run.batch])?;
        bench.add_to(&mut digest, &lookups.answers);
        for ((cells, (_, engine)), micros) in all.iter_mut().zip(&built).zip(&lookups.micros) {
            let (profile, size) = (place.profile, place.size);
            cells.counts[profile][size] += run.from.of(&engine.stats()) / run.lists as f64;
            cells.micros[profile][size] += micros / run.lists as f64;
        }
        Ok(())
    })?;
    let mut lines = Vec::new();
    for (engine, cells) in run.engines.iter().zip(&all) {
        let line = Line::fit(&run.points(cells, true)).with_context(|| engine.name().to_owned())?;
        run.print(engine.name(), cells, line, out)?;
        lines.push(line);
    }
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let meant = |engine: &Engine| about.engine.as_ref().is_none_or(|name| name == engine.name());
        let meant: Vec<usize> = (0..all.len()).filter(|&at| meant(&run.engines[at])).collect();
        ensure!(!meant.is_empty(), "claim `{}`: there is no such engine", about.id);
        // Of predictions by times that are others by a factor: those of the sizes that the line is fitted to.
        let measured = |by: f64| {
            let errors = meant.iter().map(|&at| {
                let points = run.points(&all[at], false);
                let errors = points.iter().map(|point| error(lines[at].at(point.0) * by, point.1).abs());
                match about.of {
                    Of::Mean => mean(errors),
                    Of::Most => errors.fold(0.0, f64::max),
                }
            });
            Measured::Numbers(errors.collect())
        };
        let nearby = NEARBY.map(|factor| (measured(factor), Reach::Whole)).into();
        emit(Outcome { nearby, ..Outcome::exact(&about.id, measured(1.0), &digest) })
    })
}

/// Returns how much the predicted time exceeds the measured one, in per cent.
fn error(predicted: f64, measured: f64) -> f64 {
    (predicted / measured - 1.0) * 100.0
}

impl Model {
    /// Returns counts with their times, of the sizes that are fitted or of the others.
    fn points(&self, cells: &Cells, fitted: bool) -> Vec<(f64, f64)> {
        let sizes = (0..self.sizes.len()).filter(|&size| self.fitted.contains(&self.sizes[size]) == fitted);
        sizes.flat_map(|size| cells.of_size(size)).collect()
    }

    fn print(&self, engine: &str, cells: &Cells, line: Line, out: &mut dyn Write) -> anyhow::Result<()> {
        let count = self.from.name();
        writeln!(out, "{engine}: {:.4} us + {:.4} us for each of the {count}", line.base, line.each)?;
        let head = ["rules", count, "measured, us", "predicted, us", "least error, %", "largest error, %"];
        let mut table = table(head);
        for (size, rules) in self.sizes.iter().enumerate() {
            let fitted = if self.fitted.contains(rules) { " (fitted)" } else { "" };
            let points: Vec<(f64, f64)> = cells.of_size(size).collect();
            let errors = || points.iter().map(|point| error(line.at(point.0), point.1));
            let mean_of = |of: &dyn Fn(&(f64, f64)) -> f64| mean(points.iter().map(of));
            table.add_row([
                format!("{rules}{fitted}"),
                format!("{:.1}", mean_of(&|point| point.0)),
                format!("{:.3}", mean_of(&|point| point.1)),
                format!("{:.3}", mean_of(&|point| line.at(point.0))),
                format!("{:.1}", errors().fold(f64::INFINITY, f64::min)),
                format!("{:.1}", errors().fold(f64::NEG_INFINITY, f64::max)),
            ]);
        }
        writeln!(out, "{table}")?;
        Ok(())
    }
}

impl Cells {
    fn of_size(&self, size: usize) -> impl Iterator<Item = (f64, f64)> {
        self.counts.iter().zip(&self.micros).map(move |(counts, micros)| (counts[size], micros[size]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::{numbers, ran};

    #[test]
    fn a_line_predicts_what_lies_on_it() {
        let line = Line::fit(&[(1.0, 5.0), (3.0, 9.0), (2.0, 7.0)]).expect("a line");
        assert!((line.base - 3.0).abs() < 1e-12 && (line.each - 2.0).abs() < 1e-12, "{line:?}");
        assert!(error(line.at(10.0), 23.0).abs() < 1e-9);
        assert!((error(line.at(10.0), 20.0) - 15.0).abs() < 1e-9, "23 is 15 % more than 20");
        assert!(Line::fit(&[(2.0, 5.0), (2.0, 9.0)]).is_err());
    }

    fn model(lines: &str) -> anyhow::Result<(String, Vec<Outcome>)> {
        let text = format!(
            "profiles = ['acl1', 'fw1']\nsizes = [20, 100, 300]\nlists = 1\nbatch = 32\nfrom = 'tables'\n{lines}\n\
             [[engines]]\nengine = 'tss'\n[[claims]]\nid = 'mean'\nof = 'mean'\n[[claims]]\nid = 'most'\nof = 'most'\n"
        );
        ran(run, &text)
    }

    #[test]
    fn a_small_model_is_run() {
        let (out, outcomes) = model("fitted = [20, 300]").expect("a run");
        for expected in ["tss: ", "for each of the tables", "| 20 (fitted) ", "| 100 ", "| 300 (fitted) "] {
            assert!(out.contains(expected), "{expected}: {out}");
        }
        assert!(numbers(&outcomes[0])[0] <= numbers(&outcomes[1])[0] && outcomes[1].digest.len() == 32, "{outcomes:?}");
        for fitted in ["fitted = [20, 100, 300]", "fitted = []", "fitted = [20, 50]"] {
            let error = model(fitted).expect_err("nothing to predict");
            assert!(format!("{error:#}").contains("some of the sizes"), "{fitted}: {error:#}");
        }
    }
}
