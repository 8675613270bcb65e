//! Highest rates without loss of planes, by workers of each stage: measured, or projected beyond the cores there are.

mod claims;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use firstmatch_core::cache::rule::ByAction;
use firstmatch_core::engines::cut_tree::{self, CutTree, Method};
use firstmatch_core::rule::{ExpansionLimits, Lowered, lower};
use firstmatch_core::{KeyBuf, Match, RuleSet, Verdict};
use firstmatch_generate::trace::{self, Coverage, Locality};
use firstmatch_net::plane::highest_rate;
use firstmatch_net::systems::pnpf;
use firstmatch_net::systems::storm::{Assignment, Dynamic, Partition};
use serde::Deserialize;

use super::lists::{Bias, Lists};
use super::{Emit, Outcome, Reach};
use crate::definition::Engine;
use crate::digest::Running;
use crate::planes::costs::{self, Effort};
use crate::planes::measure::{self, Form, Lookups, Ran, Setup, StormTimes};
use crate::planes::simulate::{Costs, Outcome as SimulatedPlane, simulate};
use crate::planes::validate::shared_out;
use crate::table::table;
use crate::workload;
use claims::{About, nearby};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    profile: String,
    /// Further profiles, of the same sizes.
    #[serde(default)]
    further: Vec<String>,
    /// Sizes of the sets.
    sizes: Vec<usize>,
    /// Share of the rules that deny, where boxes are of one action.
    #[serde(default)]
    deny: f64,
    #[serde(default)]
    smoothing: u8,
    /// Exponent of Zipf's law over the rules, with new headers; without it headers are uniform.
    zipf: Option<f64>,
    /// Bytes of a packet, for rates in Gbps.
    #[serde(default = "packet_bytes")]
    packet_bytes: u32,
    /// Packets of a message.
    #[serde(default = "batch")]
    batch: usize,
    /// Messages that each ring holds.
    #[serde(default = "capacity")]
    capacity: usize,
    /// Tenth of the seconds for which a plane runs.
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
    #[serde(default)]
    workers: Vec<usize>,
    /// Numbers of cores, each of which makes a plane named after it, such as `copies, 4`. It has a thread for each
    /// core, or for each stage where those are more, and workers go where most is to do.
    #[serde(default)]
    by_cores: Vec<usize>,
    /// Number of stages with `by_cores`.
    stages: Option<usize>,
    /// Whether threads share cores: each stage has workers for its share of the work on all cores, rounded up.
    #[serde(default)]
    shares_cores: bool,
    /// Workers of both stages of Storm's form while their rings are full.
    when_full: Option<[usize; 2]>,
    /// Engine of the lookup or of its parts.
    engine: Engine,
    /// Cores for the source and all workers; by default one for each.
    cores: Option<usize>,
}

/// Number of packets in memory.
const PACKETS: usize = 20_000;
/// Number of packets with new headers.
const NEW_PACKETS: usize = 200_000;
/// Runs of a plane, of which the fastest counts, because other programs may hold a plane up.
const TRIES: usize = 20;
/// Multiple of the seconds for which they go on at most.
const LONGEST: f64 = 10.0;
/// A rate is found to one part in this many.
const PRECISION: u64 = 50;
/// Share of a rate that a source reaches if it keeps that rate.
const KEPT: f64 = 0.95;
/// Packets of the run that measures service times.
const TRIAL: u64 = 200_000;
/// Nanoseconds for which each rate is simulated at least.
const SIMULATED: f64 = 2e7;
/// Packets that come in that time at least, because the number of a few messages says little.
const ENOUGH: f64 = 2e5;

/// Highest rate without loss of a plane, in millions of packets a second, and whether a simulation projected it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    name: String,
    workers: Vec<usize>,
    cores: usize,
    mpps: f64,
    is_projected: bool,
    /// Rate that the simulation has for a measured plane of `by_cores`.
    simulated: Option<f64>,
    /// Mean share to which the rings before each further stage were filled, where packets lie in memory.
    full: Vec<f64>,
    /// Figures of Storm's form.
    storm: Option<StormFound>,
    /// CPU nanoseconds a packet of a plane that ran beside planes with boxes, measured and simulated.
    cpu: Option<[f64; 2]>,
}

/// Nanoseconds a packet of one worker of each stage, milliseconds of the warm-up, and workers at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StormFound {
    stages: [f64; 2],
    warm_up: f64,
    last: [usize; 2],
}

pub(super) fn run(run: &Rate, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    run.check()?;
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut costs, mut all, mut digest) = (None, Vec::new(), Running::default());
    for (profile, rules) in run.sets() {
        let bias = Bias { deny: run.deny, ..Bias::smoothed(run.smoothing) };
        let set = Lists::of(profile, seeds)?.list(rules, bias, 1)?;
        let locality = run.zipf.map_or(Locality::Uniform, |s| Locality::Zipf { s });
        let headers = if run.zipf.is_some() { NEW_PACKETS } else { PACKETS };
        let trace = trace::Config { headers, seed: 1, coverage: Coverage::Drawn, locality, ..Default::default() };
        let work = workload::drawn(&set, &trace)?;
        let answers = work.answers(&set)?;
        let keys = Arc::new(work.keys.clone());
        let mut bench = Bench { run, set: &set, keys, answers: &answers, here, costs: &mut costs, storm: None };
        let found = run.planes.iter().map(|plane| bench.find(plane)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut found = found.concat();
        bench.warm_up(&mut found);
        run.print(&found, &format!("{profile}, {rules} rules"), here, out)?;
        if let Some(costs) = costs {
            let near = costs.send + costs.receive;
            let far = near + costs.send_far + costs.take_far;
            writeln!(out, "a hop of a message: {near:.0} ns on one core, up to {far:.0} ns between two\n")?;
        }
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
    /// View of the rules by action with the verdicts of all packets, and times of Storm's stages.
    storm: Option<(ByAction, Vec<Option<Verdict>>, StormTimes)>,
}

impl Bench<'_> {
    fn costs(&mut self) -> anyhow::Result<Costs> {
        if self.costs.is_none() {
            let effort = Effort { rounds: 3, seconds: self.run.seconds.min(0.1) };
            *self.costs = Some(costs::fit(&self.keys, self.here, effort)?.0);
        }
        Ok(self.costs.unwrap_or(Costs::NONE))
    }

    fn find(&mut self, plane: &Plane) -> anyhow::Result<Vec<Found>> {
        if matches!(plane.form, Form::Storm | Form::Shared) {
            return Ok(vec![self.find_storm(plane).with_context(|| plane.name.clone())?]);
        }
        let recipe = plane.engine.recipe()?;
        let build = |lowered: &Lowered| Ok((recipe.build)(lowered)?);
        let stages = plane.stages.unwrap_or(plane.workers.len());
        let lookups = Lookups::build(plane.form, self.set, &self.keys, stages, &build);
        let lookups = lookups.with_context(|| plane.name.clone())?;
        let (run, here) = (self.run, self.here);
        let cores = plane.cores.unwrap_or_else(|| plane.threads());
        let workers = if plane.workers.is_empty() { vec![1; stages] } else { plane.workers.clone() };
        // All workers of a pipeline's stages answer, also those that a controller adds.
        let workers = if plane.form == Form::Pnpf { pnpf::Config::paper().workers(stages) } else { workers };
        let setup = Setup { workers, batch: run.batch, capacity: run.capacity, cores: cores.min(here), packets: 1 };
        ensure!(lookups.answers(&setup)? == self.answers, "{} gives other answers", plane.name);
        let full = Setup { packets: TRIAL, ..setup.clone() };
        self.find_full(plane, &lookups, &full, cores)
    }

    /// Finds the rates of a plane whose first stage reads packets from memory, so that none are lost.
    ///
    /// Rates of `by_cores` are simulated, even if they are also measured. Service times for simulations come from a run
    /// with one worker per stage, because workers beyond the number of cores would delay each other.
    fn find_full(
        &mut self,
        plane: &Plane,
        lookups: &Lookups,
        setup: &Setup,
        cores: usize,
    ) -> anyhow::Result<Vec<Found>> {
        let stages = setup.workers.len();
        let one = Setup { workers: vec![1; stages], cores: stages.min(self.here), ..setup.clone() };
        let timed = fastest(lookups, &one, LONGEST * self.run.seconds)?;
        let nanos: Vec<f64> = timed.services[1..].iter().map(|service| service.mean).collect();
        let held = if plane.form == Form::Locked { self.held(&one)? } else { 0.0 };
        let most =
            if plane.form == Form::Pnpf { pnpf::Config::paper().workers(stages) } else { vec![usize::MAX; stages] };
        let mut all: Vec<Found> = Vec::new();
        let named = plane.by_cores.iter().map(|&cores| (format!("{}, {cores}", plane.name), cores));
        let named = if plane.by_cores.is_empty() { vec![(plane.name.clone(), cores)] } else { named.collect() };
        for (name, cores) in named {
            let sum: f64 = nanos.iter().sum();
            let own = |nanos: &f64| (cores as f64 * nanos / sum).ceil() as usize;
            let workers = match (plane.by_cores.is_empty(), plane.shares_cores) {
                (true, _) => plane.workers.clone(),
                (false, true) => nanos.iter().map(own).zip(&most).map(|(own, &most)| own.min(most)).collect(),
                (false, false) => shared_out(cores, &nanos),
            };
            let is_projected = cores > self.here;
            let setup = Setup { workers: workers.clone(), cores, ..setup.clone() };
            let mut found = Found { name, workers, cores, is_projected, ..Found::default() };
            if plane.form == Form::Locked {
                // Each core adds what it did on those measured, as long as no tree is locked all the time.
                let last = all.iter().rfind(|last| !last.is_projected);
                let by_core = last.map_or(0.0, |last| last.mpps / last.cores as f64);
                found.mpps = (by_core * cores as f64).min(1e3 / held);
            } else if is_projected || !plane.by_cores.is_empty() {
                let model = costs::model(&self.costs()?, lookups, &setup, &timed.services);
                found.mpps = simulate(&model, SIMULATED).mpps;
            }
            if !is_projected {
                found.simulated = Some(found.mpps).filter(|mpps| *mpps > 0.0);
                let ran = if plane.form == Form::Pnpf {
                    let packets = (timed.mpps() * 1e6 * LONGEST * self.run.seconds) as u64;
                    lookups.run(&Setup { workers: most.clone(), packets, ..setup })?
                } else {
                    fastest(lookups, &setup, LONGEST * self.run.seconds)?
                };
                found.mpps = ran.mpps();
                if ran.active.is_empty() {
                    found.full = (1..stages).map(|stage| ran.counters.fullness(stage)).collect();
                } else {
                    found.workers = ran.active;
                }
            }
            all.push(found);
        }
        Ok(all)
    }

    /// Returns the nanoseconds for which the tree of the slowest key word is searched for a packet.
    fn held(&self, one: &Setup) -> anyhow::Result<f64> {
        let stages = self.keys.schema().words().len() + 2;
        let lookups = Lookups::build(Form::Pnpf, self.set, &self.keys, stages, &|_| bail!("the form has its engine"))?;
        let setup = Setup { workers: vec![1; stages], cores: stages.min(self.here), ..one.clone() };
        let ran = fastest(&lookups, &setup, LONGEST * self.run.seconds)?;
        let words = &ran.services[2..stages];
        Ok(words.iter().map(|service| service.mean / one.batch as f64).fold(0.0, f64::max))
    }

    /// Projects a plane in Storm's form, or runs one whose workers share boxes. The times of the stages are taken once,
    /// so that planes differ by their workers. Planes that this machine has cores for run, too.
    fn find_storm(&mut self, plane: &Plane) -> anyhow::Result<Found> {
        let costs = self.costs()?;
        if self.storm.is_none() {
            let build = plane.engine.recipe()?.build;
            let lowered = lower(self.set, self.keys.schema(), &ExpansionLimits::default())?;
            let tree = Arc::new(CutTree::build(&lowered, &cut_tree::Config::paper(Method::HyperCuts))?);
            let view = ByAction::new(build(&lowered)?.into(), tree, self.set);
            let verdict = |found: Match| self.set.get(found.rule).map(|rule| rule.action.into());
            let verdicts: Vec<_> = self.answers.iter().map(|found| found.and_then(verdict)).collect();
            let times = StormTimes::take(&view, &self.keys, self.run.batch, &verdicts)?;
            self.storm = Some((view, verdicts, times));
        }
        let Some((view, verdicts, times)) = &self.storm else { unreachable!("taken just now") };
        let (run, workers) = (self.run, plane.workers.clone());
        let found = Found { name: plane.name.clone(), workers, ..Found::default() };
        let runs = plane.workers.iter().sum::<usize>() <= self.here && plane.when_full.is_none();
        let cpu = runs.then(|| {
            let ran = measure::cpu(view, &self.keys, (run.batch, &plane.workers), verdicts)?;
            anyhow::Ok([ran, times.simulated_cpu(&costs, &plane.workers, self.here)])
        });
        let found = Found { cpu: cpu.transpose()?, ..found };
        if plane.form == Form::Shared {
            ensure!(runs, "{:?} workers; expected a core for each", plane.workers);
            return Ok(Found { cores: self.here, ..found });
        }
        let partition = plane.partition();
        let stages = times.stages();
        let high = (stages.mpps(partition) * 1.5e6) as u64;
        let mpps = highest(high, |rate, nanos| simulate(&times.model(&costs, plane.assignment(), rate, false), nanos));
        Ok(Found {
            cores: plane.cores.unwrap_or_else(|| plane.threads()),
            mpps,
            is_projected: true,
            storm: Some(StormFound { stages: [stages.cache, stages.full], warm_up: 0.0, last: [0; 2] }),
            ..found
        })
    }

    /// Starts planes in Storm's form without boxes, at 0.9 of the highest rate that all of them keep with boxes.
    fn warm_up(&self, all: &mut [Found]) {
        let Some((_, _, times)) = &self.storm else { return };
        let least = all.iter().filter(|found| found.storm.is_some()).map(|found| found.mpps);
        let rate = 0.9e6 * least.fold(f64::INFINITY, f64::min);
        let costs = self.costs.unwrap_or(Costs::NONE);
        for plane in self.run.planes.iter().filter(|plane| plane.form == Form::Storm) {
            let own = all.iter_mut().find(|found| found.name == plane.name);
            let Some(storm) = own.and_then(|found| found.storm.as_mut()) else { continue };
            let model = times.model(&costs, plane.assignment(), rate, true);
            let outcome = simulate(&model, times.warm_up() + SIMULATED);
            (storm.warm_up, storm.last) = (outcome.last_drop / 1e6, [outcome.active[0], outcome.active[1]]);
        }
    }
}

/// Runs a plane several times, about `seconds` in all, and returns the fastest run.
fn fastest(lookups: &Lookups, setup: &Setup, seconds: f64) -> anyhow::Result<Ran> {
    let (mut best, start) = (lookups.run(setup)?, Instant::now());
    for _ in 1..TRIES {
        if start.elapsed().as_secs_f64() > seconds {
            break;
        }
        let ran = lookups.run(setup)?;
        if ran.mpps() > best.mpps() {
            best = ran;
        }
    }
    Ok(best)
}

/// Returns the highest rate without loss below `high` packets a second, in millions, of a plane simulated at a rate for
/// some nanoseconds.
fn highest(high: u64, simulated: impl Fn(f64, f64) -> SimulatedPlane) -> f64 {
    let found = highest_rate((high / 1000).max(1), high, PRECISION, |rate| {
        let outcome = simulated(rate as f64, SIMULATED.max(ENOUGH * 1e9 / rate as f64));
        outcome.dropped == 0.0 && outcome.mpps * 1e6 >= KEPT * rate as f64
    });
    found.unwrap_or(0) as f64 / 1e6
}

impl Plane {
    /// Returns the number of threads: a source and the workers.
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
            let is_shared_out = !plane.by_cores.is_empty();
            let fits = plane.workers.is_empty() == is_shared_out && plane.workers.iter().all(|&workers| workers > 0);
            ensure!(fits, "plane `{}`: expected a worker of each stage at least, or `by_cores`", plane.name);
            let fits = plane.stages.is_some() == is_shared_out && !plane.by_cores.contains(&0);
            ensure!(fits, "plane `{}`: `by_cores` needs `stages` and a core each", plane.name);
            let (is_storm, stages) = (plane.form == Form::Storm, plane.workers.len());
            let takes = match plane.form {
                Form::Replicated => true,
                Form::Shared => stages == 1,
                Form::Pnpf | Form::Locked => plane.engine.is_paper("npf"),
                Form::Classes => plane.engine.is_paper("bitmap_rfc"),
                _ => false,
            };
            let is_pipeline = matches!(plane.form, Form::Pnpf | Form::Locked | Form::Classes);
            ensure!(takes || !is_pipeline, "plane `{}`: expected the form's engine, with `paper = true`", plane.name);
            ensure!(!is_storm || stages == 2, "plane `{}`: {stages} stages; expected boxes and lookups", plane.name);
            ensure!(is_storm || takes, "plane `{}`: expected copies, or a form of the papers", plane.name);
            let moves = plane.when_full.is_none_or(|workers| is_storm && workers.iter().all(|&workers| workers > 0));
            ensure!(moves, "plane `{}`: `when_full` is of two stages in Storm's form", plane.name);
            ensure!(plane.cores != Some(0), "plane `{}`: expected a core at least", plane.name);
        }
        Ok(())
    }

    /// Returns the sets by profile and size.
    fn sets(&self) -> impl Iterator<Item = (&str, usize)> {
        let profiles = std::iter::once(&self.profile).chain(&self.further);
        profiles.flat_map(|profile| self.sizes.iter().map(move |&rules| (profile.as_str(), rules)))
    }

    fn print(&self, all: &[Found], set: &str, here: usize, out: &mut dyn Write) -> anyhow::Result<()> {
        let head = ["plane", "workers by stage", "cores", "measured or projected", "Mpps", "Gbps", "ms until warm"];
        let more = ["error of the simulation, %", "rings full, %", "CPU ns a packet", "simulated over it"];
        let mut table = table(head.into_iter().chain(more));
        let rate = |rate: f64| if rate > 0.0 { format!("{rate:.3}") } else { String::new() };
        for found in all {
            let workers: Vec<String> = found.workers.iter().map(usize::to_string).collect();
            let how = if found.is_projected { "projected" } else { "measured" };
            let [cpu, error] = found
                .cpu
                .map(|[ran, simulated]| [ran, simulated / ran])
                .map_or_else(Default::default, |cpu| cpu.map(|number| format!("{number:.2}")));
            let full: Vec<String> = found.full.iter().map(|share| format!("{:.0}", share * 100.0)).collect();
            table.add_row([
                found.name.clone(),
                workers.join("-"),
                found.cores.to_string(),
                how.to_owned(),
                rate(found.mpps),
                rate(self.gbps(found.mpps)),
                found.storm.map(|storm| format!("{:.3}", storm.warm_up)).unwrap_or_default(),
                found.simulated.map(|mpps| format!("{:+.0}", (mpps / found.mpps - 1.0) * 100.0)).unwrap_or_default(),
                full.join(" "),
                cpu,
                error,
            ]);
        }
        writeln!(out, "highest rates without loss, {set}; {here} cores were there to measure on\n{table}")?;
        Ok(())
    }

    fn gbps(&self, mpps: f64) -> f64 {
        mpps * f64::from(self.packet_bytes) * 8.0 / 1000.0
    }
}

#[cfg(test)]
mod tests;
