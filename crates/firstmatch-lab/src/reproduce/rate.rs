//! Highest rates without loss of planes, by workers of each stage: measured, or projected beyond the cores there are.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use firstmatch_core::rule::{ExpansionLimits, Lowered, lower};
use firstmatch_core::{KeyBuf, Match, RuleSet};
use firstmatch_generate::trace::{self, Coverage, Locality};
use firstmatch_net::plane::highest_rate;
use firstmatch_net::systems::storm::{Assignment, Dynamic, Partition};
use serde::Deserialize;

use super::lists::{Bias, Lists};
use super::{Emit, Measured, NEARBY, Outcome, Reach};
use crate::definition::Engine;
use crate::digest::Running;
use crate::planes::costs::{self, Effort};
use crate::planes::measure::{Form, Load, Lookups, Service, Setup, StormTimes, WARM_UP};
use crate::planes::simulate::{Costs, Outcome as SimulatedPlane, simulate};
use crate::table::table;
use crate::workload;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    profile: String,
    /// Sizes of the sets.
    sizes: Vec<usize>,
    #[serde(default)]
    smoothing: u8,
    /// Exponent of Zipf's law over the rules, with new headers; without it headers are uniform.
    zipf: Option<f64>,
    /// Whether the packets of each worker of the first stage lie ready in memory, in place of a source before it.
    #[serde(default)]
    is_split: bool,
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
    /// Workers of both stages of Storm's form while their rings are full.
    when_full: Option<[usize; 2]>,
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
    /// Size of the set, if not all sizes one after another.
    rules: Option<usize>,
    /// Whether the least and the most of all numbers are claimed.
    #[serde(default)]
    ends: bool,
    /// Factor on the numbers.
    #[serde(default = "one")]
    scale: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Of {
    /// Rate of each plane in millions of packets a second.
    Mpps,
    /// Rate of each plane in gigabits a second, by the size of a packet.
    Gbps,
    /// Rate of the first plane over that of the second, and so on in pairs.
    Ratio,
    /// The same in per cent more.
    Percent,
    /// Nanoseconds from packet to packet of each plane.
    Nanos,
    /// The same of the stage of boxes of each plane in Storm's form.
    Cache,
    /// Milliseconds until the last loss after a cold start of each plane in Storm's form.
    WarmUp,
    /// Partition of the first plane at the end of that, with an updater, for the largest set.
    Partition,
}

/// Number of packets in memory.
const PACKETS: usize = 20_000;
/// Number of packets with new headers.
const NEW_PACKETS: usize = 200_000;
/// Runs of a rate; one without loss is enough, because other programs may hold a plane up.
const TRIES: usize = 3;
/// Runs of copies without a source, of which the fastest counts for the same reason.
const SPLIT_TRIES: usize = 20;
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
    /// Figures of Storm's form.
    storm: Option<StormFound>,
}

/// Nanoseconds from packet to packet of the stage of boxes, milliseconds of the warm-up, and workers at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StormFound {
    cache: f64,
    warm_up: f64,
    last: [usize; 2],
}

pub(super) fn run(run: &Rate, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    run.check()?;
    let lists = Lists::of(&run.profile, seeds)?;
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut costs, mut all, mut digest) = (None, Vec::new(), Running::default());
    for &rules in &run.sizes {
        let set = lists.list(rules, Bias::smoothed(run.smoothing), 1)?;
        let locality = run.zipf.map_or(Locality::Uniform, |s| Locality::Zipf { s });
        let headers = if run.zipf.is_some() { NEW_PACKETS } else { PACKETS };
        let trace = trace::Config { headers, seed: 1, coverage: Coverage::Drawn, locality, ..Default::default() };
        let work = workload::drawn(&set, &trace)?;
        let answers = work.answers(&set)?;
        let keys = Arc::new(work.keys.clone());
        let mut bench = Bench { run, set: &set, keys, answers: &answers, here, costs: &mut costs, storm: None };
        let mut found = run.planes.iter().map(|plane| bench.find(plane)).collect::<anyhow::Result<Vec<_>>>()?;
        bench.warm_up(&mut found);
        run.print(&found, rules, here, out)?;
        all.push(found);
        digest.add_rules(&set);
        digest.add_answers(&set, &work, &answers);
    }
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let of = |all: &[Vec<Found>]| run.measured(all, about).with_context(|| format!("claim `{}`", about.id));
        let nearby = nearby(&all).map(|other| Ok((of(&other)?, Reach::Whole))).collect::<anyhow::Result<_>>()?;
        emit(Outcome { nearby, ..Outcome::exact(&about.id, of(&all)?, &digest) })
    })
}

/// One set with its packets, and what is known of the machine.
struct Bench<'a> {
    run: &'a Rate,
    set: &'a RuleSet,
    keys: Arc<KeyBuf>,
    answers: &'a [Option<Match>],
    here: usize,
    costs: &'a mut Option<Costs>,
    /// Times of Storm's stages.
    storm: Option<StormTimes>,
}

impl Bench<'_> {
    fn costs(&mut self) -> anyhow::Result<Costs> {
        if self.costs.is_none() {
            let effort = Effort { rounds: 3, seconds: self.run.seconds.min(0.1) };
            *self.costs = Some(costs::fit(&self.keys, self.here, effort)?.0);
        }
        Ok(self.costs.unwrap_or(Costs::NONE))
    }

    fn find(&mut self, plane: &Plane) -> anyhow::Result<Found> {
        if plane.form == Form::Storm {
            return self.find_storm(plane);
        }
        let recipe = plane.engine.recipe()?;
        let build = |lowered: &Lowered| Ok((recipe.build)(lowered)?);
        let lookups = Lookups::build(plane.form, self.set, &self.keys, plane.workers.len(), &build);
        let lookups = lookups.with_context(|| plane.name.clone())?;
        let (run, here) = (self.run, self.here);
        let cores = plane.cores.unwrap_or_else(|| plane.threads());
        let load = Load::Full { packets: 1 };
        let workers = plane.workers.clone();
        let setup = Setup { workers, batch: run.batch, capacity: run.capacity, cores: cores.min(here), load };
        ensure!(lookups.answers(&setup)? == self.answers, "{} gives other answers", plane.name);
        let full = Setup { load: Load::Full { packets: TRIAL }, ..setup.clone() };
        if run.is_split {
            return self.find_split(&lookups, &full, cores);
        }
        let services = lookups.run(&full)?.services;
        let high = most(&plane.workers, &services, cores, run.batch);
        if cores <= here {
            let found = highest_rate((high / 1000).max(1), high, PRECISION, |rate| {
                (0..TRIES).any(|_| run.is_lossless(&lookups, &setup, rate).unwrap_or(false))
            });
            return Ok(Found { mpps: found.unwrap_or(0) as f64 / 1e6, is_projected: false, storm: None });
        }
        let (costs, setup) = (self.costs()?, Setup { cores, ..setup });
        Ok(Found { mpps: projected(&costs, &lookups, &setup, &services, high), is_projected: true, storm: None })
    }

    /// Finds the rate of copies that take packets from memory, none of which is lost.
    fn find_split(&mut self, lookups: &Lookups, setup: &Setup, cores: usize) -> anyhow::Result<Found> {
        let is_projected = cores > self.here;
        // One worker is timed for a projection, because more than there are cores would hold each other up.
        let workers = if is_projected { vec![1] } else { setup.workers.clone() };
        let timed = Setup { workers, cores: setup.cores.min(cores), ..setup.clone() };
        let ran = (0..SPLIT_TRIES).map(|_| lookups.run(&timed)).collect::<anyhow::Result<Vec<_>>>()?;
        let Some(ran) = ran.into_iter().max_by(|a, b| a.mpps().total_cmp(&b.mpps())) else { unreachable!("tried") };
        let mut mpps = ran.mpps();
        if is_projected {
            let setup = Setup { cores, ..setup.clone() };
            mpps = simulate(&costs::model(&self.costs()?, lookups, &setup, &ran.services), SIMULATED).mpps;
        }
        Ok(Found { mpps, is_projected, storm: None })
    }

    /// Projects a plane in Storm's form. The times of its stages are taken once, so that planes differ by their workers.
    fn find_storm(&mut self, plane: &Plane) -> anyhow::Result<Found> {
        let costs = self.costs()?;
        if self.storm.is_none() {
            let build = plane.engine.recipe()?.build;
            let lowered = lower(self.set, self.keys.schema(), &ExpansionLimits::default())?;
            let (times, answers) = StormTimes::take(build(&lowered)?, &lowered, &self.keys, self.run.batch)?;
            ensure!(answers == self.answers, "{} gives other answers", plane.name);
            self.storm = Some(times);
        }
        let Some(times) = &self.storm else { unreachable!("taken just now") };
        let partition = plane.partition();
        let stages = times.stages();
        let high = (stages.mpps(partition) * 1.5e6) as u64;
        let found = highest(high, |rate| simulate(&times.model(&costs, plane.assignment(), rate, false), SIMULATED));
        let cache = stages.cache / partition.cache as f64;
        Ok(Found { mpps: found, is_projected: true, storm: Some(StormFound { cache, warm_up: 0.0, last: [0; 2] }) })
    }

    /// Starts planes in Storm's form without boxes, at 0.9 of the highest rate that all of them keep with boxes.
    fn warm_up(&self, all: &mut [Found]) {
        let Some(times) = &self.storm else { return };
        let least = all.iter().filter(|found| found.storm.is_some()).map(|found| found.mpps);
        let rate = 0.9e6 * least.fold(f64::INFINITY, f64::min);
        let costs = self.costs.unwrap_or(Costs::NONE);
        for (plane, found) in self.run.planes.iter().zip(all) {
            let Some(storm) = &mut found.storm else { continue };
            let model = times.model(&costs, plane.assignment(), rate, true);
            let outcome = simulate(&model, times.warm_up() + SIMULATED);
            (storm.warm_up, storm.last) = (outcome.last_drop / 1e6, [outcome.active[0], outcome.active[1]]);
        }
    }
}

/// Returns rates of which that of one plane is another, within the noise.
fn nearby(all: &[Vec<Found>]) -> impl Iterator<Item = Vec<Vec<Found>>> {
    let planes = all.first().map_or(0, Vec::len);
    (0..planes).flat_map(|at| NEARBY.map(|factor| (at, factor))).map(|(at, factor)| {
        let mut other = all.to_vec();
        for sizes in &mut other {
            sizes[at].mpps *= factor;
            if let Some(storm) = &mut sizes[at].storm {
                storm.warm_up *= factor;
            }
        }
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
    highest(high, |rate| {
        let setup = Setup { load: Load::Paced { packets: 0, rate: rate as u64 }, ..setup.clone() };
        simulate(&costs::model(costs, lookups, &setup, services), SIMULATED)
    })
}

/// Returns the highest rate without loss below `high` packets a second, in millions.
fn highest(high: u64, simulated: impl Fn(f64) -> SimulatedPlane) -> f64 {
    // At a far lower rate so few messages come that their number says little.
    let found = highest_rate((high / 100).max(1), high, PRECISION, |rate| {
        let outcome = simulated(rate as f64);
        outcome.dropped == 0.0 && outcome.mpps * 1e6 >= KEPT * rate as f64
    });
    found.unwrap_or(0) as f64 / 1e6
}

impl Plane {
    /// Returns the number of threads: the source and the workers.
    fn threads(&self) -> usize {
        self.workers.iter().sum::<usize>() + 1
    }

    /// Returns the workers of the two stages of Storm's form.
    fn partition(&self) -> Partition {
        Partition::new(self.workers[0], self.workers[1])
    }

    fn assignment(&self) -> Assignment {
        let more_cache = self.partition();
        self.when_full.map_or(Assignment::Static(more_cache), |[cache, full]| {
            Assignment::Dynamic(Dynamic { more_full: Partition { cache, full }, more_cache, ..Dynamic::paper() })
        })
    }
}

impl Rate {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.planes.is_empty() && !self.sizes.is_empty(), "there is no plane or no set");
        ensure!((1..=PACKETS).contains(&self.batch), "a batch of {}; expected 1 to {PACKETS}", self.batch);
        ensure!(self.seconds > 0.0 && self.seconds <= 60.0, "`seconds`: expected a number above 0, up to 60");
        for plane in &self.planes {
            let fits = !plane.workers.is_empty() && plane.workers.iter().all(|&workers| workers > 0);
            ensure!(fits, "plane `{}`: expected a worker of each stage at least", plane.name);
            let (is_storm, stages) = (plane.form == Form::Storm, plane.workers.len());
            ensure!(!is_storm || stages == 2, "plane `{}`: {stages} stages; expected boxes and lookups", plane.name);
            let fits = if self.is_split { is_storm || plane.form == Form::Replicated } else { !is_storm };
            ensure!(fits, "plane `{}`: `is_split` is for copies and Storm's form, which needs it", plane.name);
            let moves = plane.when_full.is_none_or(|workers| is_storm && workers.iter().all(|&workers| workers > 0));
            ensure!(moves, "plane `{}`: `when_full` is of two stages in Storm's form", plane.name);
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

    fn print(&self, all: &[Found], rules: usize, here: usize, out: &mut dyn Write) -> anyhow::Result<()> {
        let head = ["plane", "workers by stage", "cores", "measured or projected", "Mpps", "Gbps", "ms until warm"];
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
                found.storm.map(|storm| format!("{:.3}", storm.warm_up)).unwrap_or_default(),
            ]);
        }
        writeln!(out, "highest rates without loss, {rules} rules; {here} cores were there to measure on\n{table}")?;
        Ok(())
    }

    fn gbps(&self, mpps: f64) -> f64 {
        mpps * f64::from(self.packet_bytes) * 8.0 / 1000.0
    }

    fn measured(&self, all: &[Vec<Found>], about: &About) -> anyhow::Result<Measured> {
        let place = |name: &String| {
            let place = self.planes.iter().position(|plane| plane.name == *name);
            place.with_context(|| format!("there is no plane `{name}` in this entry"))
        };
        let places = about.planes.iter().map(place).collect::<anyhow::Result<Vec<usize>>>()?;
        let count = places.len();
        let enough = !matches!(about.of, Of::Ratio | Of::Percent) || count.is_multiple_of(2);
        ensure!(enough && count > 0, "{count} planes; expected two for a ratio, else one at least");
        let sizes = self.sizes.iter().zip(all).filter(|(size, _)| about.rules.is_none_or(|only| only == **size));
        let found: Vec<Found> = sizes.flat_map(|(_, all)| places.iter().map(|&at| all[at])).collect();
        ensure!(!found.is_empty(), "there is no set of this size");
        let ratios = || found.chunks(2).map(|pair| pair[0].mpps / pair[1].mpps);
        let storm = |number: fn(StormFound) -> f64| -> anyhow::Result<Vec<f64>> {
            let all = found.iter().map(|found| found.storm.map(number));
            all.collect::<Option<_>>().context("expected planes in Storm's form")
        };
        let mut numbers: Vec<f64> = match about.of {
            Of::Mpps => found.iter().map(|found| found.mpps).collect(),
            Of::Gbps => found.iter().map(|found| self.gbps(found.mpps)).collect(),
            Of::Ratio => ratios().collect(),
            Of::Percent => ratios().map(|ratio| (ratio - 1.0) * 100.0).collect(),
            Of::Nanos => found.iter().map(|found| 1e3 / found.mpps).collect(),
            Of::Cache => storm(|storm| storm.cache)?,
            Of::WarmUp => storm(|storm| storm.warm_up)?,
            Of::Partition => {
                let last = found[found.len() - count].storm.context("expected a plane in Storm's form")?.last;
                return Ok(Measured::Text(format!("{}-{}-1", last[0], last[1])));
            }
        };
        numbers.iter_mut().for_each(|number| *number *= about.scale);
        if about.ends {
            numbers.sort_unstable_by(f64::total_cmp);
            numbers = vec![numbers[0], numbers[numbers.len() - 1]];
        }
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
        let text = format!("profile = 'acl1'\nsizes = [40]\nseconds = 0.005\n{more}\n{PLANES}\n{claims}");
        toml::from_str(&text.replace("; ", "\n")).expect("an experiment")
    }

    const CLAIMS: &str = "id = 'mpps'; of = 'mpps'; planes = ['one']
id = 'gbps'; of = 'gbps'; planes = ['one', 'many']
id = 'ratio'; of = 'ratio'; planes = ['many', 'one']
id = 'percent'; of = 'percent'; planes = ['many', 'row']";

    #[test]
    fn claims_are_about_rates() {
        let run = rate("packet_bytes = 125", CLAIMS);
        let all = [(2.0, false), (8.0, true), (5.0, true)];
        let all = [all.map(|(mpps, is_projected)| Found { mpps, is_projected, storm: None }).to_vec()];
        let of = |claim: usize| run.measured(&all, &run.claims[claim]).expect("numbers");
        assert_eq!(of(0), Measured::Numbers(vec![2.0]));
        assert_eq!(of(1), Measured::Projected(vec![2.0, 8.0]));
        assert_eq!(of(2), Measured::Projected(vec![4.0]));
        let Measured::Projected(percent) = of(3) else { panic!("a projection") };
        assert!((percent[0] - 60.0).abs() < 1e-9, "{percent:?}");
        let rates: Vec<f64> = nearby(&all).map(|other| other[0][1].mpps).collect();
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
        let keys = Arc::new(KeyBuf::new(&firstmatch_core::Schema::ipv4()));
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

    /// Planes in Storm's form are projected from one measurement of their stages.
    #[test]
    fn storm_is_projected_from_its_stages() {
        let plane = |name: &str, more: &str| {
            let engine = "engine = { engine = 'hypercuts' }";
            format!("[[planes]]\nname = '{name}'\nform = 'storm'\n{engine}\n{more}\n")
        };
        let planes = plane("fixed", "workers = [2, 1]") + &plane("moving", "workers = [4, 2]\nwhen_full = [2, 4]");
        let copies = "[[planes]]\nname = 'copies'\nform = 'replicated'\nworkers = [8]\ncores = 10000
engine = { engine = 'hypercuts' }\n";
        let claims = ["mpps", "nanos", "cache", "warm_up", "partition"];
        let of = |of: &&str| format!("[[claims]]\nid = '{of}'\nof = '{of}'\nplanes = ['moving', 'fixed']\n");
        let ends = "[[claims]]\nid = 'ends'\nof = 'mpps'\nplanes = ['moving']\nrules = 40\nscale = 2.0\nends = true\n";
        let claims: String = claims.iter().map(of).collect::<String>() + ends;
        let text = format!(
            "profile = 'acl1'\nsizes = [40, 60]\nseconds = 0.005\nzipf = 2.0\nis_split = true\n{planes}{copies}{claims}"
        );
        let rate: Rate = toml::from_str(&text).expect("an experiment");
        let mut found = Vec::new();
        run(&rate, None, &mut Vec::new(), &mut |outcome| {
            found.push(outcome.measured);
            Ok(())
        })
        .expect("a run");
        let numbers = |at: usize| match &found[at] {
            Measured::Projected(numbers) => numbers.clone(),
            other => panic!("{other:?}"),
        };
        let [mpps, nanos, cache, warm_up, ends] = [0, 1, 2, 3, 5].map(numbers);
        for (mpps, nanos) in mpps.iter().zip(&nanos) {
            assert!(*mpps > 0.0 && (mpps * nanos / 1e3 - 1.0).abs() < 1e-9, "{found:?}");
        }
        assert!((cache[1] / cache[0] - 2.0).abs() < 1e-9 && nanos[1] >= 0.9 * cache[1], "{found:?}");
        assert!(warm_up.len() == 4 && warm_up.iter().all(|ms| *ms >= 0.0), "{found:?}");
        assert!(matches!(&found[4], Measured::Text(text) if ["4-2-1", "2-4-1"].contains(&text.as_str())), "{found:?}");
        assert_eq!(ends, [2.0 * mpps[0]; 2]);
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
            ("'replicated'", "'storm'", "1 stages; expected boxes and lookups"),
            ("'replicated'\nworkers = [1]", "'storm'\nworkers = [2, 1]", "Storm's form, which needs it"),
            ("workers = [1]", "workers = [1]\nwhen_full = [2, 2]", "`when_full` is of two stages"),
            ("seconds = 0.005", "seconds = 0.0", "a number above 0"),
        ] {
            let text = format!("profile = 'acl1'\nsizes = [40]\nseconds = 0.005\nclaims = []\n{PLANES}");
            let rate: Rate = toml::from_str(&text.replacen(wrong, right, 1)).expect("an experiment");
            let error = run(&rate, None, &mut Vec::new(), &mut |_| Ok(())).expect_err("a bad plane");
            assert!(format!("{error:#}").contains(expected), "{right}: {error:#}");
        }
    }
}
