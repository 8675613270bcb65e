//! Figures over time: packets a second through a rule set that changes.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use firstmatch_core::Updatable;
use indicatif::ProgressBar;
use serde::Deserialize;

use super::bench::{Scale, Traffic, Workbench};
use super::lists::{Bias, Lists};
use super::{Emit, Measured, Outcome, mean};
use crate::clock::cpu_time;
use crate::definition::{Engine, Updates};
use crate::digest::Running;
use crate::measure::Pace;
use crate::measure::updates::Plan;
use crate::table::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Series {
    profile: String,
    rules: usize,
    #[serde(default)]
    smoothing: u8,
    /// Number of keys per call.
    #[serde(default = "batch")]
    batch: usize,
    /// Seconds between two figures.
    interval: f64,
    phases: Vec<Phase>,
    engines: Vec<Engine>,
    pub(super) claims: Vec<About>,
}

fn batch() -> usize {
    32
}

/// Time during which rules change at one rate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Phase {
    seconds: f64,
    /// Updates per second, half of them insertions, half removals.
    updates: f64,
}

/// Subject of a claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    engine: String,
    of: Of,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Mean rate of each phase, in millions of packets per second.
    Rates,
    /// Mean rate of each phase but the first, in per cent of the first's.
    Kept,
    /// Least rate of an interval, in millions of packets per second.
    Floor,
}

/// Figures of one engine in one interval.
#[derive(Clone, Copy, Debug)]
struct Point {
    phase: usize,
    /// End of the interval, in seconds from the start.
    end: f64,
    /// Millions of packets per second of CPU time, which updates share.
    rate: f64,
    /// Updates made per second of wall time.
    updates: f64,
    tables: usize,
}

/// Most updates that a series draws for its phases.
const MOST_UPDATES: f64 = 1e8;

pub(super) fn run(run: &Series, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    run.check()?;
    let set = Lists::of(&run.profile, seeds)?.list(run.rules, Bias::smoothed(run.smoothing), 1)?;
    let bench = Workbench::new(set, Traffic::Synthetic, None, 1, Scale::default())?;
    let count: f64 = run.phases.iter().map(|phase| (phase.seconds * phase.updates).ceil()).sum();
    ensure!(count <= MOST_UPDATES, "the phases have {count} updates; expected at most {MOST_UPDATES}");
    let updates = Updates { count: (count as usize).max(2), readers: 0, rounds: 1 };
    let pace = Pace { brief: false, bar: ProgressBar::hidden() };
    let plan = Plan::draw(&updates, &bench.work, &pace).context("there are fewer than two rules")?;
    let mut all = Vec::new();
    for engine in &run.engines {
        all.push(run.points(&bench, &plan, engine).with_context(|| engine.name().to_owned())?);
    }
    run.print(&all, out)?;
    let mut digest = Running::default();
    bench.add_to(&mut digest, &bench.answers(&*bench.build(&run.engines[0])?));
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let measured = Measured::Numbers(run.measured(&all, about)?);
        emit(Outcome::exact(&about.id, measured, &digest))
    })
}

impl Series {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.engines.is_empty() && self.batch > 0, "there is no engine, or no packet in a batch");
        ensure!(self.interval > 0.0 && self.interval <= 60.0, "`interval`: expected a number of seconds up to 60");
        ensure!(!self.phases.is_empty(), "there is no phase");
        for Phase { seconds, updates } in &self.phases {
            let fits = (self.interval..=3600.0).contains(seconds);
            ensure!(fits, "a phase of {seconds} s; expected an interval at least, and 3600 s at most");
            ensure!(*updates >= 0.0 && updates.is_finite(), "{updates} updates a second; expected a number from 0");
        }
        Ok(())
    }

    /// Looks up packets and changes rules in turns on one thread, and returns a point for each interval.
    ///
    /// Lookups go round the packets in batches. Before each batch the updates are made that are due by then, so an
    /// engine that cannot keep up makes fewer. The scratch lives through the series. At the end the answers are
    /// compared with those of `linear` over the live rules.
    fn points(&self, bench: &Workbench, plan: &Plan, engine: &Engine) -> anyhow::Result<Vec<Point>> {
        let mut built = plan.started(&engine.recipe()?, &bench.work)?;
        let mut scratch = built.scratch();
        let keys = bench.work.keys.keys();
        let mut answers = vec![None; self.batch.min(keys.len())];
        let (mut points, mut step, mut from) = (Vec::new(), 0, 0);
        let mut lookup = |built: &dyn Updatable| {
            let to = keys.len().min(from + answers.len());
            built.classify_batch(&mut scratch, keys.slice(from, to), &mut answers[..to - from]);
            let count = to - from;
            from = if to == keys.len() { 0 } else { to };
            count
        };
        // One round of the packets warms up.
        let mut warm = 0;
        while warm < keys.len() {
            warm += lookup(&*built);
        }
        let mut before = 0.0;
        for (phase, Phase { seconds, updates }) in self.phases.iter().enumerate() {
            let first = step;
            let start = Instant::now();
            let intervals = (seconds / self.interval).round().max(1.0) as usize;
            for interval in 0..intervals {
                let (since, cpu, steps) = (start.elapsed(), cpu_time(), step);
                let until = Duration::from_secs_f64(self.interval * (interval + 1) as f64);
                let mut packets = 0;
                // An interval that was used up by the one before has a batch all the same.
                while packets == 0 || start.elapsed() < until {
                    let due = first + (start.elapsed().as_secs_f64().min(*seconds) * updates) as usize;
                    // Lookups go on even if updates take longer than the time between two.
                    for _ in 0..due.saturating_sub(step).min(self.batch) {
                        plan.step(&mut *built, step)?;
                        step += 1;
                    }
                    packets += lookup(&*built);
                }
                let cpu = (cpu_time() - cpu).as_secs_f64();
                let taken = (start.elapsed() - since).as_secs_f64();
                points.push(Point {
                    phase,
                    end: before + start.elapsed().as_secs_f64(),
                    rate: packets as f64 / cpu / 1e6,
                    updates: (step - steps) as f64 / taken,
                    tables: built.stats().tables,
                });
            }
            before += start.elapsed().as_secs_f64();
        }
        bench.compare(plan, &*built, step)?;
        Ok(points)
    }

    fn print(&self, all: &[Vec<Point>], out: &mut dyn Write) -> anyhow::Result<()> {
        for (engine, points) in self.engines.iter().zip(all) {
            let name = format!("{}, s", engine.name());
            let mut table = table(vec![name, "Mpackets/s".into(), "updates/s".into(), "tables".into()]);
            for Point { end, rate, updates, tables, .. } in points {
                table.add_row([format!("{end:.2}"), format!("{rate:.3}"), format!("{updates:.0}"), tables.to_string()]);
            }
            writeln!(out, "{table}")?;
        }
        Ok(())
    }

    fn measured(&self, all: &[Vec<Point>], about: &About) -> anyhow::Result<Vec<f64>> {
        let place = self.engines.iter().position(|engine| engine.name() == about.engine);
        let place = place
            .with_context(|| format!("claim `{}`: there is no engine `{}` in this entry", about.id, about.engine))?;
        let points = &all[place];
        let of_phase = |phase: usize| mean(points.iter().filter(|point| point.phase == phase).map(|point| point.rate));
        let rates: Vec<f64> = (0..self.phases.len()).map(of_phase).collect();
        Ok(match about.of {
            Of::Rates => rates,
            Of::Kept => rates[1..].iter().map(|rate| rate / rates[0] * 100.0).collect(),
            Of::Floor => vec![points.iter().map(|point| point.rate).fold(f64::INFINITY, f64::min)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::{numbers, ran};

    fn series(engine: &str, phases: &str) -> String {
        format!(
            "profile = 'fw1'\nrules = 60\nbatch = 8\ninterval = 0.02\nphases = [{phases}]\n\
             [[engines]]\nengine = '{engine}'\n\
             [[claims]]\nid = 'rates'\nengine = '{engine}'\nof = 'rates'\n\
             [[claims]]\nid = 'kept'\nengine = '{engine}'\nof = 'kept'\n\
             [[claims]]\nid = 'floor'\nengine = '{engine}'\nof = 'floor'\n"
        )
    }

    #[test]
    fn claims_are_about_phases() {
        let text = series("tuplemerge", "{ seconds = 0.04, updates = 0 }, { seconds = 0.02, updates = 10 }");
        let run: Series = toml::from_str(&text).expect("a series");
        let point = |phase, rate| Point { phase, end: 0.0, rate, updates: 0.0, tables: 1 };
        let all = [vec![point(0, 3.0), point(0, 5.0), point(1, 1.0)]];
        let of = |claim: usize| run.measured(&all, &run.claims[claim]).expect("numbers");
        assert_eq!((of(0), of(1), of(2)), (vec![4.0, 1.0], vec![25.0], vec![1.0]));
    }

    /// Packets are looked up, and updates are made in the second phase alone. A busy machine may have fewer intervals.
    #[test]
    fn a_small_series_is_run() {
        let series = series("tuplemerge", "{ seconds = 0.04, updates = 0 }, { seconds = 0.1, updates = 2000 }");
        let (out, outcomes) = ran(run, &series).expect("a run");
        let rows: Vec<Vec<f64>> = out
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect())
            .filter(|row: &Vec<f64>| row.len() == 4)
            .collect();
        assert!((2..=2 + 5).contains(&rows.len()) && rows.is_sorted_by(|a, b| a[0] <= b[0]), "{out}");
        assert!(rows.iter().any(|row| row[1] > 0.0), "{out}");
        assert!(rows[0][2] == 0.0 && rows.iter().any(|row| row[2] > 0.0), "{out}");
        assert!(numbers(&outcomes[0]).len() == 2 && outcomes[0].digest.len() == 32, "{outcomes:?}");
    }

    #[test]
    fn engines_without_updates_and_bad_phases_are_refused() {
        for (engine, phases, expected) in [
            ("linear", "{ seconds = 0.02, updates = 0 }", "takes no updates"),
            ("tuplemerge", "", "there is no phase"),
            ("tuplemerge", "{ seconds = 0.01, updates = 0 }", "expected an interval at least"),
            ("tuplemerge", "{ seconds = 1.0, updates = -1 }", "expected a number from 0"),
        ] {
            let error = format!("{:#}", ran(run, &series(engine, phases)).expect_err("a bad series"));
            assert!(error.contains(expected), "{engine} {phases}: {error}");
        }
    }
}
