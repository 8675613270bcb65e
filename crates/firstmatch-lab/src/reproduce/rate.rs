//! Highest rates without loss of planes, by workers of each stage: measured, or projected beyond the cores there are.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use firstmatch_core::rule::Lowered;
use firstmatch_generate::trace::{self, Coverage};
use firstmatch_net::plane::highest_rate;
use serde::Deserialize;

use super::lists::{Bias, Lists};
use super::{Emit, Measured, NEARBY, Outcome, Reach};
use crate::definition::Engine;
use crate::digest::Running;
use crate::planes::costs::{self, Effort};
use crate::planes::measure::{Form, Load, Lookups, Service, Setup, WARM_UP};
use crate::planes::simulate::{Costs, simulate};
use crate::table::table;
use crate::workload;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    profile: String,
    rules: usize,
    #[serde(default)]
    smoothing: u8,
    /// Bytes of a packet, for rates in Gbps.
    #[serde(default = "packet_bytes")]
    packet_bytes: u32,
    /// Packets of a message.
    #[serde(default = "batch")]
    batch: usize,
    /// Messages that each ring holds.
    #[serde(default = "capacity")]
    capacity: usize,
    /// Seconds for which each rate is tried.
    #[serde(default = "seconds")]
    seconds: f64,
    planes: Vec<Plane>,
    pub(super) claims: Vec<About>,
}

fn packet_bytes() -> u32 {
    64
}

fn batch() -> usize {
    32
}

fn capacity() -> usize {
    64
}

fn seconds() -> f64 {
    0.2
}

/// Plane behind a paced source.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plane {
    name: String,
    form: Form,
    /// Number of workers of each stage.
    workers: Vec<usize>,
    /// Engine of the lookup or of its parts.
    engine: Engine,
    /// Cores for the source and all workers; by default one for each.
    cores: Option<usize>,
}

/// Subject of a claim about planes by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    of: Of,
    planes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Rate of each plane in millions of packets a second.
    Mpps,
    /// Rate of each plane in gigabits a second, by the size of a packet.
    Gbps,
    /// Rate of the first plane over that of the second, and so on in pairs.
    Ratio,
    /// The same in per cent more.
    Percent,
}

/// Number of packets in memory.
const PACKETS: usize = 20_000;
/// Runs of a rate; one without loss is enough, because other programs may hold a plane up.
const TRIES: usize = 3;
/// A rate is found to one part in this many.
const PRECISION: u64 = 50;
/// Share of a rate that a source reaches if it keeps that rate.
const KEPT: f64 = 0.95;
/// Packets of the run that measures service times.
const TRIAL: u64 = 200_000;
/// Nanoseconds for which each rate is simulated.
const SIMULATED: f64 = 2e7;

/// Highest rate without loss, in millions of packets a second, and whether a simulation projected it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    mpps: f64,
    is_projected: bool,
}

pub(super) fn run(run: &Rate, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    run.check()?;
    let set = Lists::of(&run.profile, seeds)?.list(run.rules, Bias::smoothed(run.smoothing), 1)?;
    let trace = trace::Config { headers: PACKETS, seed: 1, coverage: Coverage::Drawn, ..Default::default() };
    let work = workload::drawn(&set, &trace)?;
    let keys = Arc::new(work.keys.clone());
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let answers = work.answers(&set)?;
    let mut costs: Option<Costs> = None;
    let mut all = Vec::new();
    for plane in &run.planes {
        let recipe = plane.engine.recipe()?;
        let build = |lowered: &Lowered| Ok((recipe.build)(lowered)?);
        let lookups = Lookups::build(plane.form, &set, &keys, plane.workers.len(), &build);
        let lookups = lookups.with_context(|| plane.name.clone())?;
        let cores = plane.cores.unwrap_or_else(|| plane.threads());
        let load = Load::Full { packets: 1 };
        let workers = plane.workers.clone();
        let setup = Setup { workers, batch: run.batch, capacity: run.capacity, cores: cores.min(here), load };
        ensure!(lookups.answers(&setup)? == answers, "{} gives other answers", plane.name);
        let full = Setup { load: Load::Full { packets: TRIAL }, ..setup.clone() };
        let services = lookups.run(&full)?.services;
        let high = most(&plane.workers, &services, cores, run.batch);
        let found = if cores <= here {
            let found = highest_rate((high / 1000).max(1), high, PRECISION, |rate| {
                (0..TRIES).any(|_| run.is_lossless(&lookups, &setup, rate).unwrap_or(false))
            });
            Found { mpps: found.unwrap_or(0) as f64 / 1e6, is_projected: false }
        } else {
            let effort = Effort { rounds: 3, seconds: run.seconds.min(0.1) };
            let costs = match &costs {
                Some(costs) => costs,
                None => costs.insert(costs::fit(&keys, here, effort)?.0),
            };
            let setup = Setup { cores, ..setup };
            Found { mpps: projected(costs, &lookups, &setup, &services, high), is_projected: true }
        };
        all.push(found);
    }
    run.print(&all, here, out)?;
    let mut digest = Running::default();
    digest.add_rules(&set);
    digest.add_answers(&set, &work, &answers);
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let of = |all: &[Found]| run.measured(all, about).with_context(|| format!("claim `{}`", about.id));
        let nearby = nearby(&all).map(|other| Ok((of(&other)?, Reach::Whole))).collect::<anyhow::Result<_>>()?;
        emit(Outcome { nearby, ..Outcome::exact(&about.id, of(&all)?, &digest) })
    })
}

/// Returns rates of which that of one plane is another, within the noise.
fn nearby(all: &[Found]) -> impl Iterator<Item = Vec<Found>> {
    (0..all.len()).flat_map(|at| NEARBY.map(|factor| (at, factor))).map(|(at, factor)| {
        let mut other = all.to_vec();
        other[at].mpps *= factor;
        other
    })
}

/// Returns a rate that no plane reaches: half more than all cores can do, or all workers of a stage.
fn most(workers: &[usize], services: &[Service], cores: usize, batch: usize) -> u64 {
    let steps = services[1..].iter().zip(workers).map(|(service, &workers)| workers as f64 / service.mean);
    let all = cores as f64 / services.iter().map(|service| service.mean).sum::<f64>();
    (steps.fold(all, f64::min) * batch as f64 * 1.5e9) as u64
}

/// Returns the highest rate without loss of a simulated plane, in millions of packets a second.
fn projected(costs: &Costs, lookups: &Lookups, setup: &Setup, services: &[Service], high: u64) -> f64 {
    let found = highest_rate((high / 1000).max(1), high, PRECISION, |rate| {
        let setup = Setup { load: Load::Paced { packets: 0, rate }, ..setup.clone() };
        let outcome = simulate(&costs::model(costs, lookups, &setup, services), SIMULATED);
        outcome.dropped == 0.0 && outcome.mpps * 1e6 >= KEPT * rate as f64
    });
    found.unwrap_or(0) as f64 / 1e6
}

impl Plane {
    /// Returns the number of threads: the source and the workers.
    fn threads(&self) -> usize {
        self.workers.iter().sum::<usize>() + 1
    }
}

impl Rate {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.planes.is_empty(), "there is no plane");
        ensure!((1..=PACKETS).contains(&self.batch), "a batch of {}; expected 1 to {PACKETS}", self.batch);
        ensure!(self.seconds > 0.0 && self.seconds <= 60.0, "`seconds`: expected a number above 0, up to 60");
        for plane in &self.planes {
            let fits = !plane.workers.is_empty() && plane.workers.iter().all(|&workers| workers > 0);
            ensure!(fits, "plane `{}`: expected a worker of each stage at least", plane.name);
            ensure!(plane.cores != Some(0), "plane `{}`: expected a core at least", plane.name);
        }
        Ok(())
    }

    /// Returns whether a plane takes all packets of a rate, and its source keeps it.
    fn is_lossless(&self, lookups: &Lookups, setup: &Setup, rate: u64) -> anyhow::Result<bool> {
        let packets = ((rate as f64 * self.seconds) as u64).max(1);
        let ran = lookups.run(&Setup { load: Load::Paced { packets, rate }, ..setup.clone() })?;
        let seconds = ran.wall.saturating_sub(WARM_UP).as_secs_f64();
        Ok(ran.dropped == 0 && packets as f64 / seconds >= KEPT * rate as f64)
    }

    fn print(&self, all: &[Found], here: usize, out: &mut dyn Write) -> anyhow::Result<()> {
        let head = ["plane", "workers by stage", "cores", "measured or projected", "Mpps", "Gbps"];
        let mut table = table(head.map(str::to_owned).into());
        for (plane, found) in self.planes.iter().zip(all) {
            let workers: Vec<String> = plane.workers.iter().map(usize::to_string).collect();
            let how = if found.is_projected { "projected" } else { "measured" };
            table.add_row([
                plane.name.clone(),
                workers.join("-"),
                plane.cores.unwrap_or_else(|| plane.threads()).to_string(),
                how.to_owned(),
                format!("{:.3}", found.mpps),
                format!("{:.3}", self.gbps(found.mpps)),
            ]);
        }
        writeln!(out, "highest rates without loss; {here} cores were there to measure on\n{table}")?;
        Ok(())
    }

    fn gbps(&self, mpps: f64) -> f64 {
        mpps * f64::from(self.packet_bytes) * 8.0 / 1000.0
    }

    fn measured(&self, all: &[Found], about: &About) -> anyhow::Result<Measured> {
        let place = |name: &String| {
            let place = self.planes.iter().position(|plane| plane.name == *name);
            place.with_context(|| format!("there is no plane `{name}` in this entry"))
        };
        let found = about.planes.iter().map(|name| Ok(all[place(name)?])).collect::<anyhow::Result<Vec<Found>>>()?;
        let enough = !matches!(about.of, Of::Ratio | Of::Percent) || found.len().is_multiple_of(2);
        ensure!(enough && !found.is_empty(), "{} planes; expected two for a ratio, else one at least", found.len());
        let ratios = || found.chunks(2).map(|pair| pair[0].mpps / pair[1].mpps);
        let numbers = match about.of {
            Of::Mpps => found.iter().map(|found| found.mpps).collect(),
            Of::Gbps => found.iter().map(|found| self.gbps(found.mpps)).collect(),
            Of::Ratio => ratios().collect(),
            Of::Percent => ratios().map(|ratio| (ratio - 1.0) * 100.0).collect(),
        };
        let is_projected = found.iter().any(|found| found.is_projected);
        Ok(if is_projected { Measured::Projected(numbers) } else { Measured::Numbers(numbers) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANES: &str = "
[[planes]]
name = 'one'
form = 'replicated'
workers = [1]
engine = { engine = 'tuplemerge' }
cores = 1
[[planes]]
name = 'many'
form = 'replicated'
workers = [4]
engine = { engine = 'tuplemerge' }
cores = 10000
[[planes]]
name = 'row'
form = 'parts'
workers = [4, 2]
engine = { engine = 'linear' }
cores = 10000
";

    fn rate(more: &str, claims: &str) -> Rate {
        let claim = |line: &str| format!("[[claims]]\n{line}\n");
        let claims: String = claims.lines().map(claim).collect();
        let text = format!("profile = 'acl1'\nrules = 40\nseconds = 0.005\n{more}\n{PLANES}\n{claims}");
        toml::from_str(&text.replace("; ", "\n")).expect("an experiment")
    }

    const CLAIMS: &str = "id = 'mpps'; of = 'mpps'; planes = ['one']
id = 'gbps'; of = 'gbps'; planes = ['one', 'many']
id = 'ratio'; of = 'ratio'; planes = ['many', 'one']
id = 'percent'; of = 'percent'; planes = ['many', 'row']";

    #[test]
    fn claims_are_about_rates() {
        let run = rate("packet_bytes = 125", CLAIMS);
        let all = [(2.0, false), (8.0, true), (5.0, true)].map(|(mpps, is_projected)| Found { mpps, is_projected });
        let of = |claim: usize| run.measured(&all, &run.claims[claim]).expect("numbers");
        assert_eq!(of(0), Measured::Numbers(vec![2.0]));
        assert_eq!(of(1), Measured::Projected(vec![2.0, 8.0]));
        assert_eq!(of(2), Measured::Projected(vec![4.0]));
        let Measured::Projected(percent) = of(3) else { panic!("a projection") };
        assert!((percent[0] - 60.0).abs() < 1e-9, "{percent:?}");
        let rates: Vec<f64> = nearby(&all).map(|other| other[1].mpps).collect();
        assert_eq!(rates, [8.0, 8.0, 8.0 * NEARBY[0], 8.0 * NEARBY[1], 8.0, 8.0]);
        for (claim, expected) in [
            ("id = 'i'; of = 'mpps'; planes = ['none']", "there is no plane `none`"),
            ("id = 'i'; of = 'ratio'; planes = ['one']", "expected two for a ratio"),
            ("id = 'i'; of = 'mpps'; planes = []", "one at least"),
        ] {
            let run = rate("", claim);
            let error = run.measured(&all, &run.claims[0]).expect_err("a bad claim");
            assert!(format!("{error:#}").contains(expected), "{claim}: {error:#}");
        }
    }

    /// Twice the service time halves a rate that a stage limits; the source limits one of many workers.
    #[test]
    fn a_projected_rate_is_that_of_the_slowest_stage() {
        let keys = Arc::new(firstmatch_core::KeyBuf::new(&firstmatch_core::Schema::ipv4()));
        let relay = Lookups::relay(&keys, 2, 1, 0);
        let costs = Costs::NONE;
        let of = |workers: [usize; 2], nanos: [f64; 3]| {
            let (workers, load) = (workers.to_vec(), Load::Full { packets: 1 });
            let setup = Setup { cores: workers.iter().sum::<usize>() + 1, workers, batch: 32, capacity: 64, load };
            let services = nanos.map(Service::fixed);
            let high = most(&setup.workers, &services, setup.cores, 32);
            projected(&costs, &relay, &setup, &services, high)
        };
        for (workers, nanos, expected) in [
            ([1, 1], [100.0, 1600.0, 800.0], 20.0),
            ([1, 1], [100.0, 1600.0, 3200.0], 10.0),
            ([4, 2], [100.0, 1600.0, 1600.0], 40.0),
        ] {
            let found = of(workers, nanos);
            assert!((found / expected - 1.0).abs() < 0.04, "{workers:?} {nanos:?}: {found}, expected {expected}");
        }
    }

    /// One plane is measured on a single core, and no machine has 10,000.
    #[test]
    fn a_small_rate_is_run() {
        let (mut out, mut outcomes) = (Vec::new(), Vec::new());
        run(&rate("", CLAIMS), None, &mut out, &mut |outcome| {
            outcomes.push(outcome);
            Ok(())
        })
        .expect("a run");
        let out = String::from_utf8(out).expect("text");
        let how: Vec<&str> = out.lines().filter_map(|line| line.split('|').nth(4)).map(str::trim).collect();
        assert_eq!(how[2..], ["measured", "projected", "projected"], "{out}");
        assert!(matches!(outcomes[0].measured, Measured::Numbers(_)) && outcomes[0].digest.len() == 32, "{outcomes:?}");
        let Measured::Projected(percent) = &outcomes[3].measured else { panic!("{outcomes:?}") };
        assert!(percent[0].is_finite(), "{outcomes:?}");
    }

    #[test]
    fn bad_planes_are_refused() {
        for (wrong, right, expected) in [
            ("workers = [1]", "workers = [0]", "a worker of each stage"),
            ("workers = [1]", "workers = [1, 1]", "2 stages; expected one"),
            ("cores = 1", "cores = 0", "a core at least"),
            ("seconds = 0.005", "seconds = 0.0", "a number above 0"),
        ] {
            let text = format!("profile = 'acl1'\nrules = 40\nseconds = 0.005\nclaims = []\n{PLANES}");
            let rate: Rate = toml::from_str(&text.replacen(wrong, right, 1)).expect("an experiment");
            let error = run(&rate, None, &mut Vec::new(), &mut |_| Ok(())).expect_err("a bad plane");
            assert!(format!("{error:#}").contains(expected), "{right}: {error:#}");
        }
    }
}
