//! Sweeps of a value of engines' configurations: lookups and statistics by the value.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use firstmatch_core::Stats;
use serde::Deserialize;

use super::bench::{Scale, Traffic, Workbench};
use super::figures::growth;
use super::lists::{Bias, Place, Plan};
use super::{Emit, Measured, NEARBY, Outcome, Reach, mean};
use crate::definition::Engine;
use crate::digest::Running;
use crate::table::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    profiles: Vec<String>,
    sizes: Vec<usize>,
    lists: u64,
    #[serde(default)]
    smoothing: u8,
    /// Name of the value in the configurations, or [`BATCH`].
    key: String,
    /// Numbers that it takes, in ascending order.
    values: Vec<toml::Value>,
    /// Smallest number that is possible: an optimum there is not on the edge of the grid.
    least: Option<f64>,
    /// Number of keys per call.
    #[serde(default = "one")]
    batch: usize,
    engines: Vec<Engine>,
    pub(super) claims: Vec<About>,
}

fn one() -> usize {
    1
}

/// Key whose value is the number of keys per call.
const BATCH: &str = "batch";

/// Subject of a claim about the times of lookups; there is a number for each engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    of: Of,
    /// For each engine, the value whose cost is measured.
    #[serde(default)]
    fixed: Vec<f64>,
    /// Millions of packets a second that are to be reached.
    limit: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Value with the best mean.
    Best,
    /// The same among the smallest sets and among the largest, engine by engine.
    Sizes,
    /// Largest error, in per cent, of a straight line for the time of as many packets as the value says.
    ///
    /// The line goes through the two values `fixed`, and the packets are those in flight, so that this is their latency.
    Line,
    /// Rate of the first engine with the value `fixed` over that with the least value.
    Gain,
    /// Millions of packets a second of the first engine with the least value, for each size.
    Rates,
    /// Least value with which the first engine reaches the `limit`, for each size.
    Reaches,
    /// The most per cent by which the value `fixed` exceeds the best value of a profile.
    Cost,
    /// Least value at which the first engine is slower than the second.
    Crossover,
    /// Whether the rate of the first engine grows more slowly than the value P, as text.
    Sublinear,
}

type Statistic = fn(&Stats) -> f64;

/// Statistics that a sweep shows, and how each is called.
const STATS: [(&str, Statistic); 4] = [
    ("tables", |stats| stats.tables as f64),
    ("worst tests", |stats| stats.worst_tests as f64),
    ("worst lines", |stats| stats.worst_lines as f64),
    ("KiB", |stats| stats.total_bytes() as f64 / 1024.0),
];

/// Figures of an engine with one value, by profile and size: the mean over the lists.
#[derive(Clone)]
struct Cell {
    micros: Vec<Vec<f64>>,
    stats: [Vec<Vec<f64>>; STATS.len()],
}

/// Figures by engine and value.
#[derive(Clone)]
struct Grid<'a> {
    run: &'a Sweep,
    values: Vec<f64>,
    cells: Vec<Vec<Cell>>,
}

pub(super) fn run(run: &Sweep, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    let bias = Bias::smoothed(run.smoothing);
    let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: run.lists, bias, seeds };
    let mut grid = Grid::new(run, &plan)?;
    let mut digest = Running::default();
    let with = |engine: &Engine, value: &toml::Value| {
        let mut engine = engine.clone();
        if run.key != BATCH {
            engine.config.insert(run.key.clone(), value.clone());
        }
        engine
    };
    let batches =
        if run.key == BATCH { grid.values.iter().map(|&value| value as usize).collect() } else { vec![run.batch] };
    // By engine, then by value.
    let all: Vec<Engine> =
        run.engines.iter().flat_map(|engine| run.values.iter().map(move |value| with(engine, value))).collect();
    plan.each(|place, set| {
        let bench = Workbench::new(set, Traffic::Synthetic, None, place.seed, Scale::default())?;
        let built = all.iter().map(|engine| anyhow::Ok((engine.name(), bench.build(engine)?)));
        let built = built.collect::<anyhow::Result<Vec<_>>>()?;
        let lookups = bench.lookups(&built, &batches)?;
        bench.add_to(&mut digest, &lookups.answers);
        for (index, (_, engine)) in built.iter().enumerate() {
            let (e, v) = (index / run.values.len(), index % run.values.len());
            grid.cells[e][v].add(place, lookups.micros[index], &engine.stats(), run.lists as f64);
        }
        Ok(())
    })?;
    grid.print(out)?;
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let of = |grid: &Grid<'_>| grid.about(about).with_context(|| format!("claim `{}`", about.id));
        let nearby = grid.nearby().map(|grid| of(&grid)).collect::<anyhow::Result<_>>()?;
        let (measured, reach) = of(&grid)?;
        emit(Outcome { reach, nearby, ..Outcome::exact(&about.id, measured, &digest) })
    })
}

impl Cell {
    fn add(&mut self, Place { profile, size, .. }: Place, micros: f64, stats: &Stats, lists: f64) {
        self.micros[profile][size] += micros / lists;
        for ((_, of), all) in STATS.iter().zip(&mut self.stats) {
            all[profile][size] += of(stats) / lists;
        }
    }
}

/// Returns the mean over profiles and sizes.
fn overall(figures: &[Vec<f64>]) -> f64 {
    mean(figures.iter().map(|sizes| mean(sizes.iter().copied())))
}

impl<'a> Grid<'a> {
    fn new(run: &'a Sweep, plan: &Plan<'_>) -> anyhow::Result<Self> {
        ensure!(!run.engines.is_empty() && run.batch > 0, "there is no engine, or no packet in a batch");
        let number = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|value| value as f64));
        let values: Option<Vec<f64>> = run.values.iter().map(number).collect();
        let values = values.filter(|values| values.len() > 1 && values.is_sorted_by(|a, b| a < b));
        let values = values.context("`values`: expected two numbers at least, in ascending order")?;
        let cell = || Cell { micros: plan.zeros(), stats: std::array::from_fn(|_| plan.zeros()) };
        let cells = run.engines.iter().map(|_| values.iter().map(|_| cell()).collect()).collect();
        Ok(Self { run, values, cells })
    }

    fn print(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        for (engine, cells) in self.run.engines.iter().zip(&self.cells) {
            let mut head = vec![format!("{}, {}", engine.name(), self.run.key), "us a packet".to_owned()];
            head.extend(STATS.iter().map(|(name, _)| (*name).to_owned()));
            let mut table = table(head);
            for (value, cell) in self.values.iter().zip(cells) {
                let stats = cell.stats.iter().map(|all| format!("{:.1}", overall(all)));
                let micros = format!("{:.3}", overall(&cell.micros));
                table.add_row([value.to_string(), micros].into_iter().chain(stats));
            }
            writeln!(out, "{table}")?;
        }
        Ok(())
    }

    /// Returns grids in which the times of one engine with one value are others, within the noise.
    fn nearby(&self) -> impl Iterator<Item = Self> {
        let cells = (0..self.cells.len()).flat_map(|e| (0..self.values.len()).map(move |v| (e, v)));
        cells.flat_map(|(e, v)| NEARBY.map(|factor| (e, v, factor))).map(|(e, v, factor)| {
            let mut other = self.clone();
            other.cells[e][v].micros.iter_mut().flatten().for_each(|micros| *micros *= factor);
            other
        })
    }

    /// Returns whether a better value than the one at `index` may lie beyond the grid.
    fn is_edge(&self, index: usize) -> bool {
        index + 1 == self.values.len() || (index == 0 && self.run.least != Some(self.values[0]))
    }

    fn about(&self, about: &About) -> anyhow::Result<(Measured, Reach)> {
        ensure!(
            matches!(about.of, Of::Cost | Of::Line | Of::Gain) != about.fixed.is_empty(),
            "a cost needs the value `fixed` of each engine, a gain one and a line two; nothing else takes it"
        );
        let least = |figures: &[f64]| (0..figures.len()).min_by(|&a, &b| figures[a].total_cmp(&figures[b]));
        let means: Vec<Vec<f64>> =
            self.cells.iter().map(|cells| cells.iter().map(|cell| overall(&cell.micros)).collect()).collect();
        let rate = |v: usize, s: usize| 1.0 / mean(self.cells[0][v].micros.iter().map(|sizes| sizes[s]));
        let (numbers, reach) = match about.of {
            Of::Best => {
                let best: Vec<usize> = means.iter().filter_map(|means| least(means)).collect();
                let edge = best.iter().any(|&index| self.is_edge(index));
                (best.iter().map(|&v| self.values[v]).collect(), if edge { Reach::Edge } else { Reach::Whole })
            }
            Of::Sizes => {
                let at = |cells: &Vec<Cell>, size: usize| {
                    let of = |cell: &Cell| mean(cell.micros.iter().map(|sizes| sizes[size]));
                    least(&cells.iter().map(of).collect::<Vec<_>>())
                };
                let ends = [0, self.run.sizes.len() - 1];
                let best: Vec<usize> =
                    self.cells.iter().flat_map(|cells| ends.map(|size| at(cells, size))).flatten().collect();
                let edge = best.iter().any(|&index| self.is_edge(index));
                (best.iter().map(|&v| self.values[v]).collect(), if edge { Reach::Edge } else { Reach::Whole })
            }
            Of::Gain => {
                let place = self.values.iter().position(|value| *value == about.fixed[0]);
                let place = place.context("`fixed` is none of the values")?;
                (vec![means[0][0] / means[0][place]], Reach::Whole)
            }
            Of::Rates => ((0..self.run.sizes.len()).map(|s| rate(0, s)).collect(), Reach::Whole),
            Of::Reaches => {
                let limit = about.limit.context("expected a `limit`")?;
                let first = |s: usize| self.values.iter().enumerate().find(|&(v, _)| rate(v, s) >= limit);
                let found = (0..self.run.sizes.len()).map(|s| first(s).map_or(f64::NAN, |(_, &value)| value));
                (found.collect(), Reach::Whole)
            }
            Of::Line => {
                let points = self.values.iter().zip(&means[0]).map(|(&value, micros)| (value, value * micros));
                let (known, others): (Vec<_>, Vec<_>) = points.partition(|point| about.fixed.contains(&point.0));
                let &[first, second] = &known[..] else { bail!("`fixed`: expected two of the values") };
                let each = (second.1 - first.1) / (second.0 - first.0);
                let error = |point: &(f64, f64)| ((first.1 + each * (point.0 - first.0)) / point.1 - 1.0).abs() * 100.0;
                (vec![others.iter().map(error).fold(0.0, f64::max)], Reach::Whole)
            }
            Of::Cost => {
                ensure!(about.fixed.len() == self.cells.len(), "`fixed`: expected a value for each engine");
                let mut reach = Reach::Whole;
                let mut costs = Vec::new();
                for (fixed, cells) in about.fixed.iter().zip(&self.cells) {
                    let place = self.values.iter().position(|value| value == fixed);
                    let place = place.with_context(|| format!("`fixed`: {fixed} is none of the values"))?;
                    let mut most = 1.0f64;
                    for profile in 0..self.run.profiles.len() {
                        let times: Vec<f64> =
                            cells.iter().map(|cell| mean(cell.micros[profile].iter().copied())).collect();
                        let best = least(&times).context("there is no value")?;
                        if self.is_edge(best) {
                            reach = Reach::LowerBound;
                        }
                        most = most.max(times[place] / times[best]);
                    }
                    costs.push((most - 1.0) * 100.0);
                }
                (costs, reach)
            }
            Of::Crossover => {
                let [first, second] = &means[..] else { bail!("a crossover is of two engines") };
                let found = first.iter().zip(second).position(|(first, second)| first > second);
                let edge = found == Some(0) && self.is_edge(0);
                let value = found.map_or(f64::NAN, |index| self.values[index]);
                (vec![value], if edge { Reach::Edge } else { Reach::Whole })
            }
            Of::Sublinear => {
                let rates = means[0].iter().map(|micros| 1.0 / micros);
                let points: Vec<(f64, f64)> = self.values.iter().copied().zip(rates).collect();
                return Ok((growth(&points, "P")?, Reach::Whole));
            }
        };
        Ok((Measured::Numbers(numbers), reach))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::{numbers, ran};

    fn sweep(least: &str, claims: &str) -> String {
        format!(
            "profiles = ['acl1', 'fw1']\nsizes = [60]\nlists = 1\nkey = 'collision_limit'\nvalues = [1, 4, 16]\n{least}\n\
             [[engines]]\nengine = 'tuplemerge'\nname = 'online'\nconfig = {{ spill = false }}\n\
             [[engines]]\nengine = 'tuplemerge_offline'\n{claims}"
        )
    }

    /// Returns what a claim says of given times, by engine, value and profile.
    fn about(least: &str, times: [[[f64; 2]; 3]; 2], claim: &str) -> anyhow::Result<(Vec<f64>, Reach)> {
        let run: Sweep = toml::from_str(&sweep(least, &format!("[[claims]]\nid = 'i'\n{claim}")))?;
        let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: 1, bias: Bias::default(), seeds: None };
        let mut grid = Grid::new(&run, &plan)?;
        for (cells, times) in grid.cells.iter_mut().zip(times) {
            for (cell, times) in cells.iter_mut().zip(times) {
                for (profile, micros) in times.into_iter().enumerate() {
                    cell.add(Place { profile, size: 0, seed: 1 }, micros, &Stats::default(), 1.0);
                }
            }
        }
        let (measured, reach) = grid.about(&run.claims[0])?;
        let Measured::Numbers(numbers) = measured else { bail!("{measured:?}") };
        Ok((numbers, reach))
    }

    #[test]
    fn an_optimum_on_the_edge_is_marked() {
        let inside = [[2.0, 2.0], [1.0, 1.0], [3.0, 1.5]];
        let last = [[2.0, 2.0], [1.5, 1.5], [1.0, 1.0]];
        let first = [[1.0, 1.0], [1.5, 1.5], [2.0, 2.0]];
        let best = |least: &str, times| about(least, times, "of = 'best'").expect("a value");
        assert_eq!(best("", [inside, inside]), (vec![4.0, 4.0], Reach::Whole));
        assert_eq!(best("", [inside, last]), (vec![4.0, 16.0], Reach::Edge));
        assert_eq!(best("", [first, inside]), (vec![1.0, 4.0], Reach::Edge));
        assert_eq!(best("least = 1", [first, inside]), (vec![1.0, 4.0], Reach::Whole));

        let cost = |times| about("least = 1", times, "of = 'cost'\nfixed = [16, 4]").expect("a cost");
        assert_eq!(cost([inside, inside]), (vec![200.0, 0.0], Reach::Whole));
        assert_eq!(cost([first, last]), (vec![100.0, 50.0], Reach::LowerBound));

        let crossover = |least: &str, times| about(least, times, "of = 'crossover'").expect("a value");
        assert_eq!(crossover("", [first, last]), (vec![16.0], Reach::Whole));
        assert_eq!(crossover("", [last, first]), (vec![1.0], Reach::Edge));
        assert_eq!(crossover("least = 1", [last, first]), (vec![1.0], Reach::Whole));
        assert!(crossover("", [inside, inside]).0[0].is_nan(), "none is slower");

        // Packets in flight take 2, 4 and 16 us: a line through the last two is at 1 where 2 was measured.
        let times = [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0]];
        assert_eq!(about("", [times, times], "of = 'line'\nfixed = [4, 16]").expect("an error").0, [50.0]);
        assert_eq!(about("", [times, times], "of = 'gain'\nfixed = [16]").expect("a gain").0, [2.0]);
        assert_eq!(about("", [times, times], "of = 'reaches'\nlimit = 1.0").expect("a value").0, [4.0]);
        assert_eq!(about("", [times, times], "of = 'rates'").expect("a rate").0, [0.5]);
        assert!(about("", [times, times], "of = 'reaches'\nlimit = 3").expect("none").0[0].is_nan());
        assert_eq!(about("", [inside, last], "of = 'sizes'").expect("values").0, [4.0, 4.0, 16.0, 16.0]);

        for (claim, expected) in [
            ("of = 'reaches'", "expected a `limit`"),
            ("of = 'line'\nfixed = [1]", "expected two of the values"),
            ("of = 'cost'", "needs the value `fixed`"),
            ("of = 'best'\nfixed = [1, 1]", "nothing else takes it"),
            ("of = 'cost'\nfixed = [1]", "a value for each engine"),
            ("of = 'cost'\nfixed = [1, 5]", "5 is none of the values"),
        ] {
            let error = about("", [inside, inside], claim).expect_err("a bad claim");
            assert!(format!("{error:#}").contains(expected), "{claim}: {error:#}");
        }
    }

    /// Of two values that are 5 % apart either may be the best; of two that are 50 % apart one is.
    #[test]
    fn grids_nearby_have_other_optima_where_times_are_close() {
        let run: Sweep = toml::from_str(&sweep("least = 1", "[[claims]]\nid = 'i'\nof = 'best'")).expect("a sweep");
        let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: 1, bias: Bias::default(), seeds: None };
        let mut grid = Grid::new(&run, &plan).expect("a grid");
        for (cells, times) in grid.cells.iter_mut().zip([[1.0, 1.05, 2.0], [2.0, 1.0, 1.5]]) {
            for (cell, micros) in cells.iter_mut().zip(times) {
                (0..2).for_each(|profile| {
                    cell.add(Place { profile, size: 0, seed: 1 }, micros, &Stats::default(), 1.0);
                });
            }
        }
        let best = |grid: &Grid<'_>| match grid.about(&run.claims[0]).expect("values").0 {
            Measured::Numbers(numbers) => numbers,
            other => panic!("{other:?}"),
        };
        assert_eq!(best(&grid), [1.0, 4.0]);
        let mut nearby: Vec<Vec<f64>> = grid.nearby().map(|grid| best(&grid)).collect();
        assert_eq!(nearby.len(), 12);
        nearby.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        nearby.dedup();
        assert_eq!(nearby, [[1.0, 4.0], [4.0, 4.0]]);
    }

    /// With a limit of 1 there are more tables than with 16, and fewer tests in one.
    #[test]
    fn a_small_sweep_is_run() {
        let sweep = sweep("least = 1", "[[claims]]\nid = 'cost'\nof = 'cost'\nfixed = [4, 4]\n");
        let (out, outcomes) = ran(run, &sweep).expect("a run");
        let tables: Vec<f64> = out
            .lines()
            .skip_while(|line| !line.starts_with("| online, collision_limit"))
            .take(5)
            .filter_map(|line| line.split('|').nth(3)?.trim().parse().ok())
            .collect();
        assert!(tables.len() == 3 && tables[0] > tables[2], "{out}");
        assert!(out.contains("| tuplemerge_offline, collision_limit"), "{out}");
        let costs = numbers(&outcomes[0]);
        assert!(costs.len() == 2 && costs.iter().all(|cost| *cost >= 0.0) && outcomes[0].digest.len() == 32);
    }
}
