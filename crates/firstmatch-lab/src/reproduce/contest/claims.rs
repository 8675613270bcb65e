//! Evaluation of claims about the figures of a contest.

use std::io::Write;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::{Figures, Measure, Traffic};
use crate::reproduce::verdict::joined;
use crate::reproduce::{Measured, Outcome, mean};
use crate::table::table;

/// Subject of a claim; engines are given by name, and less is better.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::reproduce) struct About {
    pub(in crate::reproduce) id: String,
    /// Measure; by default the first of the entry.
    pub(super) measure: Option<Measure>,
    /// Traffic; by default the first of the entry.
    pub(super) traffic: Option<Traffic>,
    of: Of,
    engines: Vec<String>,
    /// Size of the rule sets; by default all sizes.
    rules: Option<usize>,
    /// Profiles that count; by default all but `without`.
    #[serde(default)]
    profiles: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Mean of each engine.
    Means,
    /// Figure of the second engine over the first's, the mean over profiles and sizes.
    Ratio,
    /// The same in per cent more.
    Percent,
    /// Ratio at each size, the mean over profiles; then the mean of all.
    Ratios,
    /// Number of pairs of profile and size on which the first engine is better than the second.
    Won,
    /// Whether the first engine is better than the second on every profile and size.
    Everywhere,
    /// Whether the mean of each engine is better than that of the next.
    Ordered,
    /// Least, mean and most over the profiles and sizes.
    Range,
    /// Size from which the first engine's mean is the best.
    From,
    /// Size up to which the first engine's mean is the best, or equal to the best.
    Until,
    /// Best mean of the other engines over the first's.
    Lead,
    /// Millions of lookups or updates per second where the first engine is slowest.
    Slowest,
    /// Power of the size with which the mean of each engine grows.
    ///
    /// It is the least-squares slope of the logarithms. For example, a mean that doubles with each doubling of the size
    /// has the exponent 1.
    Exponents,
    /// For each kind of engines, the number of the one with the best mean.
    ///
    /// Engines of a kind have names that are equal up to a number at their end.
    Best,
    /// For each kind, the most per cent by which its first engine exceeds its best on a profile.
    Cost,
    /// Least number whose engine of the first kind is worse than its one of the second kind.
    Crossover,
}

impl Figures<'_> {
    pub(super) fn print(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let unit = match self.measure {
            Measure::Lookup => "us a packet",
            Measure::Update => "us an update",
            Measure::Memory => "MiB",
            Measure::Build => "ms to build",
            Measure::Tables => "tables",
            Measure::Lines => "lines in a table",
        };
        for (engine, profiles) in self.run.engines.iter().zip(&self.means) {
            let traffic = match self.traffic {
                Traffic::Synthetic => "",
                Traffic::Default => ", default rule",
                Traffic::New => ", default rule, new headers",
            };
            let mut head = vec![format!("{}, {unit}{traffic}", engine.name())];
            head.extend(self.run.sizes.iter().map(usize::to_string));
            let mut table = table(head);
            let mean = (0..self.run.sizes.len()).map(|s| mean(profiles.iter().map(|sizes| sizes[s]))).collect();
            let named = self.run.profiles.iter().map(String::as_str).zip(profiles);
            for (profile, sizes) in named.chain([("mean", &mean)]) {
                let row = sizes.iter().map(|figure| format!("{figure:.3}"));
                table.add_row([profile.to_owned()].into_iter().chain(row));
            }
            writeln!(out, "{table}")?;
        }
        Ok(())
    }

    pub(super) fn about(&self, about: &About) -> anyhow::Result<Outcome> {
        let measured = self.measured(about).with_context(|| format!("claim `{}`", about.id))?;
        Ok(Outcome { claim: about.id.clone(), measured })
    }

    fn measured(&self, about: &About) -> anyhow::Result<Measured> {
        let place = |name: &String| {
            let place = self.run.engines.iter().position(|engine| engine.name() == name);
            place.with_context(|| format!("there is no engine `{name}` in this entry"))
        };
        let engines = about.engines.iter().map(place).collect::<anyhow::Result<Vec<_>>>()?;
        let all = &self.run.profiles;
        if let Some(name) = about.profiles.iter().chain(&about.without).find(|name| !all.contains(name)) {
            bail!("there is no profile `{name}` in this entry");
        }
        let counts = |name: &String| {
            (about.profiles.is_empty() || about.profiles.contains(name)) && !about.without.contains(name)
        };
        let profiles: Vec<usize> = (0..all.len()).filter(|&index| counts(&all[index])).collect();
        let sizes: Vec<usize> =
            (0..self.run.sizes.len()).filter(|&s| about.rules.is_none_or(|rules| rules == self.run.sizes[s])).collect();
        ensure!(!sizes.is_empty() && !profiles.is_empty(), "it is about no profile, or about none of the sizes");
        let enough = match about.of {
            Of::Means | Of::Range | Of::Slowest | Of::Exponents => 1,
            _ => 2,
        };
        ensure!(engines.len() >= enough, "expected {enough} engines at least");

        let figure = |e: usize, p: usize, s: usize| self.means[engines[e]][p][s];
        let over = |s: usize, of: &dyn Fn(usize, usize) -> f64| mean(profiles.iter().map(|&p| of(p, s)));
        let mean_of = |e: usize| mean(sizes.iter().map(|&s| over(s, &|p, s| figure(e, p, s))));
        let ratio = |s: usize| over(s, &|p, s| figure(1, p, s) / figure(0, p, s));
        let cells = || sizes.iter().flat_map(|&s| profiles.iter().map(move |&p| (p, s)));
        let best_of_others = |s: usize| {
            let others = (1..engines.len()).map(|e| over(s, &|p, s| figure(e, p, s)));
            others.fold(f64::INFINITY, f64::min)
        };
        let first_wins = |s: usize| over(s, &|p, s| figure(0, p, s)) <= best_of_others(s);
        let (kinds, numbers): (Vec<&str>, Vec<f64>) = about.engines.iter().map(|name| kind_and_number(name)).unzip();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for e in 0..engines.len() {
            match groups.iter_mut().find(|group| kinds[group[0]] == kinds[e]) {
                Some(group) => group.push(e),
                None => groups.push(vec![e]),
            }
        }
        let size = |found: Option<&usize>| found.map_or(f64::NAN, |&s| self.run.sizes[s] as f64);
        Ok(Measured::Numbers(match about.of {
            Of::Means => (0..engines.len()).map(mean_of).collect(),
            Of::Ratio => vec![mean(sizes.iter().map(|&s| ratio(s)))],
            Of::Percent => vec![(mean(sizes.iter().map(|&s| ratio(s))) - 1.0) * 100.0],
            Of::Ratios => {
                let ratios: Vec<f64> = sizes.iter().map(|&s| ratio(s)).collect();
                let all = mean(ratios.iter().copied());
                ratios.into_iter().chain([all]).collect()
            }
            Of::Won => vec![cells().filter(|&(p, s)| figure(0, p, s) < figure(1, p, s)).count() as f64],
            Of::Everywhere => {
                let lost = cells().filter(|&(p, s)| figure(0, p, s) >= figure(1, p, s));
                let lost: Vec<String> = lost.map(|(p, s)| format!("{} {}", all[p], self.run.sizes[s])).collect();
                let what =
                    if lost.is_empty() { "everywhere".to_owned() } else { format!("not on {}", lost.join(", ")) };
                return Ok(Measured::Wins { holds: lost.is_empty(), what });
            }
            Of::Ordered => {
                let means: Vec<f64> = (0..engines.len()).map(mean_of).collect();
                return Ok(Measured::Wins { holds: means.is_sorted_by(|a, b| a < b), what: joined(&means) });
            }
            Of::Range => {
                let figures = || cells().map(|(p, s)| figure(0, p, s));
                vec![figures().fold(f64::INFINITY, f64::min), mean(figures()), figures().fold(0.0, f64::max)]
            }
            Of::From => vec![size(sizes.iter().rev().take_while(|&&s| first_wins(s)).last())],
            Of::Until => vec![size(sizes.iter().take_while(|&&s| first_wins(s)).last())],
            Of::Lead => vec![mean(sizes.iter().map(|&s| best_of_others(s) / over(s, &|p, s| figure(0, p, s))))],
            Of::Slowest => vec![1.0 / cells().map(|(p, s)| figure(0, p, s)).fold(0.0, f64::max)],
            Of::Exponents => {
                ensure!(sizes.len() > 1, "expected two sizes at least");
                let slope = |e: usize| {
                    let sizes =
                        sizes.iter().map(|&s| ((self.run.sizes[s] as f64).ln(), over(s, &|p, s| figure(e, p, s)).ln()));
                    slope(&sizes.collect::<Vec<_>>())
                };
                (0..engines.len()).map(slope).collect()
            }
            Of::Best => {
                let best = |group: &[usize]| group.iter().copied().min_by(|&a, &b| mean_of(a).total_cmp(&mean_of(b)));
                groups.iter().filter_map(|group| best(group)).map(|e| numbers[e]).collect()
            }
            Of::Cost => {
                let of = |e: usize, p: usize| mean(sizes.iter().map(|&s| figure(e, p, s)));
                let cost = |group: &[usize], p: usize| {
                    of(group[0], p) / group.iter().map(|&e| of(e, p)).fold(f64::INFINITY, f64::min)
                };
                let most = |group: &Vec<usize>| profiles.iter().map(|&p| cost(group, p)).fold(1.0, f64::max);
                groups.iter().map(|group| (most(group) - 1.0) * 100.0).collect()
            }
            Of::Crossover => {
                let [first, second] = &groups[..] else { bail!("expected engines of two kinds") };
                let other = |e: usize| second.iter().copied().find(|&other| numbers[other] == numbers[e]);
                let worse = |e: usize| other(e).is_some_and(|other| mean_of(e) > mean_of(other));
                let found = first.iter().copied().filter(|&e| worse(e)).map(|e| numbers[e]);
                vec![found.reduce(f64::min).unwrap_or(f64::NAN)]
            }
        }))
    }
}

/// Splits a name: `online 40` is of the kind `online`, with the number 40.
fn kind_and_number(name: &str) -> (&str, f64) {
    let parts = name.rsplit_once(' ').and_then(|(kind, number)| Some((kind, number.parse().ok()?)));
    parts.unwrap_or((name, f64::NAN))
}

/// Returns the slope of the least-squares line through points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let (x, y) = (mean(points.iter().map(|point| point.0)), mean(points.iter().map(|point| point.1)));
    let over = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>();
    over / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_line_of_least_squares() {
        assert!((slope(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]) - 2.0).abs() < 1e-12);
        // By hand: deviations -1, 0, 1 and -1, 2, -1.
        assert!(slope(&[(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]).abs() < 1e-12);
        let cubes = [1.0f64, 2.0, 8.0].map(|size| (size.ln(), (7.0 * size.powi(3)).ln()));
        assert!((slope(&cubes) - 3.0).abs() < 1e-12);
    }
}
