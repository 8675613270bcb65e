//! `firstmatch-lab planes`: measured planes beside simulated ones, then more cores than there are.

use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use firstmatch_core::rule::{ExpansionLimits, lower};
use firstmatch_core::{KeyBuf, Match, RuleSet};
use firstmatch_generate::trace::{self, Coverage};
use firstmatch_generate::{Profile, rules};

use super::costs::{self, CAPACITY, Effort, Planned, Sample, settings};
use super::measure::{Form, Lookups, Service, Setup};
use super::simulate::Costs;
use crate::definition::Engine;
use crate::machine::Machine;
use crate::table::table;
use crate::workload;

#[derive(Debug, Args)]
pub(crate) struct PlanesArgs {
    /// Rounds of measurements, in which all planes take turns
    #[arg(long, default_value = "5")]
    rounds: NonZeroUsize,
    /// Seconds of one run of a plane
    #[arg(long, default_value = "0.2")]
    seconds: f64,
    /// Share of the rules of each set, in per cent
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rules: u32,
    /// Most cores to project to, by doubling
    #[arg(long, default_value = "64", value_parser = clap::value_parser!(u32).range(1..=256))]
    project: u32,
}

/// Plane that no cost is fitted on.
struct Case {
    name: &'static str,
    form: Form,
    stages: usize,
    profile: &'static str,
    rules: usize,
    /// Engine of the stages; for fields, of the answers alone.
    engine: &'static str,
}

const CASES: [Case; 3] = [
    Case { name: "replicated", form: Form::Replicated, stages: 1, profile: "fw1", rules: 1000, engine: "tuplemerge" },
    Case { name: "parts", form: Form::Parts, stages: 3, profile: "acl1", rules: 3000, engine: "bit_select" },
    Case { name: "fields", form: Form::Fields, stages: 6, profile: "ipc1", rules: 500, engine: "linear" },
];
const PACKETS: usize = 10_000;
const BATCH: usize = 32;

/// Measures planes and simulates them, and prints both; then projects them to more cores.
pub(crate) fn planes(args: &PlanesArgs, machine: &Machine, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    ensure!(args.seconds > 0.0 && args.seconds <= 60.0, "--seconds {}: expected more than 0, up to 60", args.seconds);
    let effort = Effort { rounds: args.rounds.get(), seconds: args.seconds };
    writeln!(out, "{}, {} cores; commit {}; {}", machine.cpu, machine.cores, machine.commit, machine.date)?;
    let cases = CASES.iter().map(|case| case.prepared(args).with_context(|| case.name));
    let cases = cases.collect::<anyhow::Result<Vec<_>>>()?;
    let (costs, relays) = costs::fit(&cases[0].keys, machine.cores, effort)?;
    writeln!(
        out,
        "\nmeasured, ns: a look {:.0}, a change of threads {:.0}, waking {:.0}, until a woken thread runs {:.0}, looks \
         before blocking {:.0}",
        costs.look, costs.switch, costs.wake, costs.latency, costs.spin
    )?;
    writeln!(
        out,
        "fitted on relays, ns: {:.0} a message for both ends, and between two cores {:.0} more to send a message and {:.0} \
         more to take any number out of a ring",
        costs.send + costs.receive,
        costs.send_far,
        costs.take_far
    )?;
    writeln!(out, "\nPlanes that costs are fitted on:")?;
    compare(&relays, &costs, out)?;
    let mut planned: Vec<Planned> = Vec::new();
    for case in &cases {
        for (workers, cores) in settings(machine.cores) {
            let setup = case.setup(vec![workers; case.lookups.names().count()], cores);
            ensure!(case.lookups.answers(&setup)? == case.answers, "{}: the plane gives other answers", case.name);
            planned.push((case.name.to_owned(), case.lookups.clone(), setup));
        }
    }
    let samples = Sample::all(planned, effort)?;
    writeln!(out, "\nPlanes that no cost is fitted on, whose answers are those of the engine called directly:")?;
    compare(&samples, &costs, out)?;
    writeln!(out, "\nService times, measured with a worker a stage on most cores, ns a message of {BATCH} packets:")?;
    for case in &cases {
        let times = case.service_times(&samples)?;
        let steps = case.lookups.names().zip(&times[1..]).map(|(name, time)| format!("{name} {:.0}", time.mean));
        writeln!(out, "{}: source {:.0}, {}", case.name, times[0].mean, steps.collect::<Vec<_>>().join(", "))?;
    }
    project(args, machine, &cases, &samples, &costs, out)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints measured and simulated throughput side by side.
fn compare(samples: &[Sample], costs: &Costs, out: &mut dyn Write) -> anyhow::Result<()> {
    let head = ["plane", "cores", "workers a stage", "measured, Mpps", "spread, %", "simulated, Mpps", "error, %"];
    let mut table = table(head);
    let mut worst = 0.0f64;
    for sample in samples {
        let measured = sample.median().mpps;
        let ratio = sample.ratio(costs, 1e8);
        let error = (ratio - 1.0) * 100.0;
        worst = worst.max(error.abs());
        table.add_row([
            sample.name.clone(),
            sample.setup.cores.to_string(),
            sample.setup.workers[0].to_string(),
            format!("{measured:.3}"),
            format!("{:.1}", sample.spread() * 100.0),
            format!("{:.3}", measured * ratio),
            format!("{error:+.1}"),
        ]);
    }
    writeln!(out, "{table}\nlargest error, measured against simulated: {worst:.1} %")?;
    Ok(())
}

/// Prints throughput by the number of cores: measured as far as there are cores, then projected.
fn project(
    args: &PlanesArgs,
    machine: &Machine,
    cases: &[Prepared],
    samples: &[Sample],
    costs: &Costs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "\nThroughput by cores. Projections assume that more cores slow one another down no more than those that were \
         measured."
    )?;
    let head = ["plane", "cores", "workers by stage", "measured or projected", "Mpps"];
    let mut table = table(head);
    for case in cases {
        let services = case.service_times(samples)?;
        let nanos: Vec<f64> = services.iter().map(|service| service.mean).collect();
        let all = std::iter::successors(Some(1), |cores| Some(cores * 2)).take_while(|&cores| cores <= args.project);
        for cores in all.map(|cores| cores as usize) {
            // A source takes a core as well.
            let own = if case.lookups.takes() { cores } else { cores - 1 };
            let workers = shared_out(own, &nanos[1..]);
            let is_this = |sample: &&Sample| {
                sample.name == case.name && sample.setup.cores == cores && sample.setup.workers == workers
            };
            let measured = samples.iter().find(is_this);
            let (how, mpps) = match measured {
                Some(sample) => ("measured", sample.median().mpps),
                // Few threads on the cores of this machine were not measured either.
                None => {
                    let setup = case.setup(workers.clone(), cores);
                    let model = costs::model(costs, &case.lookups, &setup, services);
                    ("projected", super::simulate::simulate(&model, 1e7).mpps)
                }
            };
            let workers = workers.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
            table.add_row([case.name.to_owned(), cores.to_string(), workers, how.to_owned(), format!("{mpps:.3}")]);
        }
    }
    writeln!(out, "{table}\n{} cores were there to measure on", machine.cores)?;
    Ok(())
}

/// Shares workers out among stages: one each, then more where a worker has most to do.
///
/// For example, 7 workers and the times 100 and 300 of two stages give 2 and 5 workers.
pub(crate) fn shared_out(workers: usize, nanos: &[f64]) -> Vec<usize> {
    let mut shared = vec![1; nanos.len()];
    while shared.iter().sum::<usize>() < workers {
        let load = |at: &usize| nanos[*at] / shared[*at] as f64;
        let Some(most) = (0..nanos.len()).max_by(|a, b| load(a).total_cmp(&load(b))) else { break };
        shared[most] += 1;
    }
    shared
}

/// Plane with its packets and right answers.
struct Prepared {
    name: &'static str,
    lookups: Lookups,
    keys: Arc<KeyBuf>,
    answers: Vec<Option<Match>>,
}

impl Prepared {
    /// Returns the service times of a message with a worker a stage, on as many cores as were measured.
    fn service_times<'a>(&self, samples: &'a [Sample]) -> anyhow::Result<&'a [Service]> {
        let own = |sample: &&Sample| sample.name == self.name && sample.setup.workers[0] == 1;
        let most = samples.iter().filter(own).max_by_key(|sample| sample.setup.cores);
        Ok(&most.context("every plane is measured")?.median().services)
    }

    fn setup(&self, workers: Vec<usize>, cores: usize) -> Setup {
        Setup { workers, batch: BATCH, capacity: CAPACITY, cores, packets: 1 }
    }
}

impl Case {
    fn prepared(&self, args: &PlanesArgs) -> anyhow::Result<Prepared> {
        let profile: Profile = self.profile.parse()?;
        let rules = (self.rules * args.rules as usize / 100).max(self.stages);
        let set: RuleSet =
            rules::generate(&rules::Config { rules, seed: 1, profile, fewer: true, ..Default::default() })?;
        let trace = trace::Config { headers: PACKETS, seed: 1, coverage: Coverage::Drawn, ..Default::default() };
        let keys = Arc::new(workload::drawn(&set, &trace)?.keys);
        let engine = Engine::plain(self.engine).recipe()?;
        let build = |lowered: &firstmatch_core::rule::Lowered| Ok((engine.build)(lowered)?);
        let lookups = Lookups::build(self.form, &set, &keys, self.stages, &build)?;
        let whole = build(&lower(&set, keys.schema(), &ExpansionLimits::default())?)?;
        let mut answers = vec![None; keys.len()];
        whole.classify_batch(&mut whole.scratch(), keys.keys(), &mut answers);
        Ok(Prepared { name: self.name, lookups, keys, answers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_go_where_most_is_to_do() {
        assert_eq!(shared_out(7, &[100.0, 300.0]), [2, 5]);
        assert_eq!(shared_out(1, &[100.0, 300.0]), [1, 1]);
        assert_eq!(shared_out(64, &[100.0]), [64]);
    }

    /// A run in small: every plane has the right answers, measured and projected figures are told apart.
    #[test]
    fn small_planes_are_measured_and_projected() {
        let args = PlanesArgs { rounds: NonZeroUsize::MIN, seconds: 0.002, rules: 5, project: 8 };
        let machine = Machine::here();
        let mut out = Vec::new();
        planes(&args, &machine, &mut out).expect("a run");
        let out = String::from_utf8(out).expect("text");
        for expected in ["fitted on relays, ns: ", "largest error, measured against simulated: ", "fields: source "] {
            assert!(out.contains(expected), "{expected}: {out}");
        }
        let of = |how: &str| out.lines().filter(|line| line.contains(&format!("| {how:>21} |"))).count();
        let (measured, projected) = (of("measured"), of("projected"));
        assert_eq!(measured + projected, 3 * 4, "{out}");
        assert!(measured >= 3 && (machine.cores >= 4 || projected >= 6), "{out}");
    }
}
