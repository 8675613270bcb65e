//! Distribution of the times of single packets.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use firstmatch_generate::trace::{self, Coverage};
use serde::Deserialize;

use super::lists::{Bias, Lists};
use super::{Emit, Measured, NEARBY, Outcome, Reach};
use crate::definition::Engine;
use crate::digest::Running;
use crate::measure::replay::{Rows, Run, percentile};
use crate::table::table;
use crate::workload;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Distribution {
    profile: String,
    sizes: Vec<usize>,
    /// Smoothing of prefix lengths, in bits.
    #[serde(default)]
    smoothing: u8,
    /// Whether each pass gets a new scratch.
    #[serde(default)]
    cold: bool,
    engines: Vec<Engine>,
    pub(super) claims: Vec<About>,
}

/// Subject of a claim: times of an engine from the 1st to the 99th percentile, at all sizes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    engine: String,
    /// Engine whose median must be less at every size.
    below: Option<String>,
}

const PACKETS: usize = 100_000;
/// Number of rounds, in which the engines take turns; one more warms up.
const ROUNDS: usize = 5;
const SHARES: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

/// Nanoseconds of single packets of an engine at one size, sorted.
type Times = Vec<f64>;

pub(super) fn run(run: &Distribution, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    ensure!(!run.sizes.is_empty() && !run.engines.is_empty(), "there is no rule set, or no engine");
    let lists = Lists::of(&run.profile, seeds)?;
    let shares = SHARES.iter().map(|share| format!("{} %", share * 100.0));
    let mut shown = table(["ns a packet".to_owned(), "rules".to_owned()].into_iter().chain(shares));
    let row = |name: &str, size: String, times: &Times| {
        let shares = SHARES.iter().map(|&share| format!("{:.0}", percentile(times, share)));
        [name.to_owned(), size].into_iter().chain(shares).collect::<Vec<_>>()
    };
    shown.add_row(row("(the clock alone)", String::new(), &clock()));
    let mut all: Vec<Vec<Times>> = vec![Vec::new(); run.engines.len()];
    let mut digest = Running::default();
    for &size in &run.sizes {
        for (e, times) in of_list(run, &lists, size, &mut digest)?.into_iter().enumerate() {
            all[e].push(times);
        }
    }
    for (engine, sizes) in run.engines.iter().zip(&all) {
        for (size, times) in run.sizes.iter().zip(sizes) {
            shown.add_row(row(engine.name(), size.to_string(), times));
        }
    }
    writeln!(out, "{shown}")?;
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let measured = about.measured(run, &all)?;
        let nearby = NEARBY.map(|factor| (scaled(&measured, factor), Reach::Whole)).into();
        emit(Outcome { nearby, ..Outcome::exact(&about.id, measured, &digest) })
    })
}

/// Returns a measurement as if the first of two engines had taken longer by a factor.
fn scaled(measured: &Measured, factor: f64) -> Measured {
    match measured {
        Measured::Pairs { pairs, what } => {
            let pairs = pairs.iter().map(|&(first, second)| (first * factor, second)).collect();
            Measured::Pairs { pairs, what: what.clone() }
        }
        other => other.clone(),
    }
}

/// Returns the times between two readings of the clock, which are part of every time.
fn clock() -> Times {
    let mut nanos: Times = (0..PACKETS).map(|_| Instant::now().elapsed().as_nanos() as f64).collect();
    nanos.sort_unstable_by(f64::total_cmp);
    nanos
}

/// Returns the times of each engine over uniform headers of the rules, one packet per call.
fn of_list(run: &Distribution, lists: &Lists, size: usize, digest: &mut Running) -> anyhow::Result<Vec<Times>> {
    let set = lists.list(size, Bias::smoothed(run.smoothing), 1)?;
    let trace = trace::Config { headers: PACKETS, seed: 1, coverage: Coverage::Drawn, ..trace::Config::default() };
    let work = workload::drawn(&set, &trace)?;
    let build = |engine: &Engine| anyhow::Ok((engine.recipe()?.build)(&work.lowered)?);
    let engines = run.engines.iter().map(build).collect::<anyhow::Result<Vec<_>>>()?;
    let mut replays: Vec<Rows<'_>> = engines.iter().map(|engine| Rows::new(&**engine, work.keys.keys())).collect();
    let mut all = vec![Times::new(); replays.len()];
    for round in 0..=ROUNDS {
        for turn in 0..replays.len() {
            let which = (turn + round) % replays.len();
            if run.cold {
                replays[which] = Rows::new(&*engines[which], work.keys.keys());
            }
            let times = replays[which].latencies(work.keys.len(), 1);
            if round > 0 {
                all[which].extend(times);
            }
        }
    }
    for (replay, engine) in replays.iter().zip(&run.engines) {
        ensure!(replay.answers == replays[0].answers, "{} gives other answers", engine.name());
    }
    digest.add_rules(&set);
    digest.add_answers(&set, &work, &replays[0].answers);
    all.iter_mut().for_each(|times| times.sort_unstable_by(f64::total_cmp));
    Ok(all)
}

impl About {
    fn measured(&self, run: &Distribution, all: &[Vec<Times>]) -> anyhow::Result<Measured> {
        let of = |name: &String| {
            let place = run.engines.iter().position(|engine| engine.name() == name);
            ensure!(place.is_some(), "claim `{}`: there is no engine `{name}` in this entry", self.id);
            Ok(&all[place.unwrap_or_default()])
        };
        let sizes = of(&self.engine)?;
        let micros = |share: f64| sizes.iter().map(move |times| percentile(times, share) / 1e3);
        let range = [micros(0.01).fold(f64::INFINITY, f64::min), micros(0.99).fold(0.0, f64::max)];
        Ok(match &self.below {
            None => Measured::Numbers(range.to_vec()),
            Some(below) => {
                let median = |times: &Times| percentile(times, 0.5);
                let pairs = of(below)?.iter().zip(sizes).map(|(first, second)| (median(first), median(second)));
                Measured::Pairs { pairs: pairs.collect(), what: super::verdict::joined(&range) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_about_hundredths_and_medians() {
        let run: Distribution = toml::from_str(
            "profile = 'acl1'\nsizes = [1, 2]\nclaims = []\nengines = [{ engine = 'tuplemerge' }, { engine = 'linear' }]",
        )
        .expect("a distribution");
        let times = |median: f64| -> Times { (0..200).map(|i| median + f64::from(i - 99)).collect() };
        let outcome = |below: Option<&str>, all: &[Vec<Times>]| {
            let about = About { id: "i".into(), engine: "linear".into(), below: below.map(Into::into) };
            about.measured(&run, all)
        };
        let all = [vec![times(1000.0), times(2000.0)], vec![times(1500.0), times(2500.0)]];
        assert_eq!(outcome(None, &all).expect("a range"), Measured::Numbers(vec![1.402, 2.598]));
        let below = outcome(Some("tuplemerge"), &all).expect("a comparison");
        let pairs = vec![(1000.0, 1500.0), (2000.0, 2500.0)];
        assert_eq!(below, Measured::Pairs { pairs, what: "1.4, 2.6".into() });
        let pairs = vec![(2000.0, 1500.0), (4000.0, 2500.0)];
        assert_eq!(scaled(&below, 2.0), Measured::Pairs { pairs, what: "1.4, 2.6".into() });
        assert!(outcome(Some("nobody"), &all).is_err());
    }
}
