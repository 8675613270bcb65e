//! Fits the weights of `meta`'s predictions to times of candidates on generated sets.
//!
//! `meta` itself builds and times each set, with every candidate and on every kind of traffic, in several rounds over
//! all sets. A round records the least of a candidate's turns. The fit takes the lower quartile of the rounds, because
//! other programs, and other machines that share the last-level cache, only add to a time. No weight is below 0. The
//! fit minimises the sum of relative errors, so that a disturbed time counts no more than another.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use firstmatch_core::RuleSet;
use firstmatch_core::live::{Config, Engine, Kind, Machine, Prediction, Strategy, Traffic};
use firstmatch_core::rule::{ExpansionLimits, Lowered, lower};
use firstmatch_core::schema::Family;
use firstmatch_generate::attack::{self, Attack};
use firstmatch_generate::openflow;
use firstmatch_generate::rules::{self, Families};
use firstmatch_net::source;
use indicatif::ProgressBar;

use crate::statistics::Summary;

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Number of times each set is built and timed
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Rule files that only check the fit, plain or compressed
    #[arg(value_name = "RULES")]
    check: Vec<PathBuf>,
    /// File to write machine and weights to, as constants for the folders of the core's engines
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// File to write all counts and times to, as CSV
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
}

const PROFILES: [&str; 12] =
    ["acl1", "acl2", "acl3", "acl4", "acl5", "fw1", "fw2", "fw3", "fw4", "fw5", "ipc1", "ipc2"];
/// Numbers of rules, each with the seed of its first set; no reference set has these seeds.
const SIZES: [(usize, u64); 8] =
    [(50, 1100), (150, 1200), (300, 1300), (1000, 1400), (1700, 1500), (3000, 1600), (10_000, 1700), (30_000, 1800)];
/// Sizes and seeds for other families and schemas.
const OTHERS: [(usize, u64); 3] = [(300, 2100), (1000, 2200), (4000, 2300)];
/// Number of reweighted fits, because reweighting makes least squares minimise plain errors.
const WEIGHED: usize = 60;
const TERMS: usize = Prediction::TERMS;

/// Rule set with its samples.
struct Set {
    name: String,
    rules: Lowered,
    seen: Vec<Sample>,
}

/// Times and counts of a candidate for a set, on one kind of traffic.
struct Sample {
    kind: Kind,
    traffic: Traffic,
    terms: [f64; TERMS],
    predicted: f64,
    nanos: Vec<f64>,
}

impl Sample {
    fn measured(&self) -> f64 {
        Summary::of(&self.nanos).map_or(f64::NAN, |nanos| nanos.lower_quartile)
    }
}

pub(crate) fn calibrate(args: &CalibrateArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let machine = Machine::probe();
    write!(out, "{machine}")?;
    let mut fitted = generated()?;
    let mut checked = args.check.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let bar = ProgressBar::new((args.rounds * (fitted.len() + checked.len())) as u64);
    for _ in 0..args.rounds {
        for set in fitted.iter_mut().chain(&mut checked) {
            time(set, &machine)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let mut text = head(&machine);
    for &kind in Kind::ALL {
        let of = |sets: &[Set]| -> Vec<([f64; TERMS], f64)> {
            let all = sets.iter().flat_map(|set| &set.seen).filter(|sample| sample.kind == kind);
            all.map(|sample| (sample.terms, sample.measured())).collect()
        };
        let (fit, check) = (of(&fitted), of(&checked));
        let weights = weights(&fit);
        errors(out, &format!("{kind}, fitted"), &fit, &weights)?;
        errors(out, &format!("{kind}, not seen"), &check, &weights)?;
        let old = fitted.iter().chain(&checked).flat_map(|set| &set.seen).filter(|sample| sample.kind == kind);
        show(out, &format!("{kind}, as it is"), old.map(|sample| sample.predicted / sample.measured() - 1.0))?;
        let weights: Vec<String> = weights.iter().map(|weight| format!("{weight:.3}")).collect();
        text.push_str(&format!("\n// {kind}\nconst WEIGHTS: Weights = [{}];\n", weights.join(", ")));
    }
    if let Some(path) = &args.samples {
        samples(path, fitted.iter().chain(&checked))?;
    }
    match &args.write {
        Some(path) => fs::write(path, text).with_context(|| path.display().to_string())?,
        None => write!(out, "\n{text}")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the first lines of what is printed: the machine, for `select/machine.rs` of the core.
fn head(machine: &Machine) -> String {
    let lines: Vec<String> = machine.lines.iter().map(|nanos| format!("{nanos:.3}")).collect();
    let lines = lines.join(", ");
    format!(
        "// select/machine.rs\nconst FITTED: Machine = Machine {{ step: {:.3}, lines: [{lines}] }};\n",
        machine.step
    )
}

fn generated() -> anyhow::Result<Vec<Set>> {
    let mut sets = Vec::new();
    let mut add = |name: String, rules: RuleSet| {
        let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
        sets.push(Set { name, rules, seen: Vec::new() });
        anyhow::Ok(())
    };
    for (sizes, families) in [(&SIZES[..], Families::Ipv4), (&OTHERS, Families::Ipv6)] {
        for &(size, seed) in sizes {
            for (index, name) in PROFILES.into_iter().enumerate() {
                let (profile, seed) = (name.parse()?, seed + index as u64);
                let config = rules::Config { rules: size, seed, profile, families, fewer: true, ..Default::default() };
                add(format!("{name}_{families:?}_{size}"), rules::generate(&config)?)?;
            }
        }
    }
    for (size, seed) in OTHERS {
        for attack in Attack::ALL {
            add(format!("{}_{size}", attack.name()), attack::generate(attack, Family::Ipv4, size.min(1000), seed)?)?;
        }
        let config = openflow::Config { rules: 2 * size, seed, ..openflow::Config::default() };
        add(format!("openflow_{size}"), openflow::generate(&config)?)?;
    }
    Ok(sets)
}

fn read(path: &Path) -> anyhow::Result<Set> {
    let name = path.display().to_string();
    let text = source::read_text(path)?;
    let rules =
        firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).with_context(|| name.clone())?.rules;
    let schema = rules.schemas().first().cloned().with_context(|| format!("{name}: no rules"))?;
    let rules = lower(&rules, &schema, &ExpansionLimits::default())?;
    Ok(Set { name, rules, seen: Vec::new() })
}

/// Builds and times all candidates of a set once.
fn time(set: &mut Set, machine: &Machine) -> anyhow::Result<()> {
    let all = Config {
        machine: *machine,
        strategy: Strategy::Measure { margin: Some(f64::INFINITY) },
        trial: Some(usize::MAX),
        seed: Some(1),
        ..Config::default()
    };
    let explained = Engine::build(&set.rules, &all)?.explain();
    for candidate in explained.candidates {
        for (traffic, on) in Traffic::ALL.into_iter().zip(candidate.on) {
            let (Some(predicted), Some(nanos)) = (on.predicted, on.nanos) else { continue };
            let is_it = |sample: &&mut Sample| (sample.kind, sample.traffic) == (candidate.kind, traffic);
            match set.seen.iter_mut().find(is_it) {
                Some(sample) => sample.nanos.push(nanos),
                None => set.seen.push(Sample {
                    kind: candidate.kind,
                    traffic,
                    terms: predicted.terms,
                    predicted: predicted.nanos,
                    nanos: vec![nanos],
                }),
            }
        }
    }
    Ok(())
}

/// Returns the weights, none below 0, with the least sum of relative errors.
fn weights(samples: &[([f64; TERMS], f64)]) -> [f64; TERMS] {
    let mut weights = [0.0; TERMS];
    let mut worth = vec![1.0; samples.len()];
    for _ in 0..WEIGHED {
        // Weighted least squares by coordinate descent: one weight at a time, while the others stay.
        let mut products = [[0.0; TERMS + 1]; TERMS];
        for ((terms, nanos), worth) in samples.iter().zip(&worth) {
            for (row, a) in products.iter_mut().zip(terms) {
                for (sum, b) in row.iter_mut().zip(terms.iter().chain([nanos])) {
                    *sum += worth * (a / nanos) * (b / nanos);
                }
            }
        }
        for _ in 0..20_000 {
            for at in 0..TERMS {
                let own = products[at][at];
                let all: f64 = products[at].iter().zip(&weights).map(|(product, weight)| product * weight).sum();
                let best = weights[at] + (products[at][TERMS] - all) / own;
                weights[at] = if own > 0.0 { best.max(0.0) } else { 0.0 };
            }
        }
        for ((terms, nanos), worth) in samples.iter().zip(&mut worth) {
            *worth = 1.0 / error(terms, *nanos, &weights).abs().max(0.01);
        }
    }
    weights
}

/// Returns the relative error of a prediction.
fn error(terms: &[f64; TERMS], nanos: f64, weights: &[f64; TERMS]) -> f64 {
    terms.iter().zip(weights).map(|(term, weight)| term * weight).sum::<f64>() / nanos - 1.0
}

fn errors(
    out: &mut dyn Write,
    name: &str,
    samples: &[([f64; TERMS], f64)],
    weights: &[f64; TERMS],
) -> anyhow::Result<()> {
    show(out, name, samples.iter().map(|(terms, nanos)| error(terms, *nanos, weights)))
}

fn show(out: &mut dyn Write, name: &str, errors: impl Iterator<Item = f64>) -> anyhow::Result<()> {
    let mut errors: Vec<f64> = errors.map(|error| 100.0 * error.abs()).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| errors.get((share * errors.len() as f64) as usize).or(errors.last());
    if let [Some(median), Some(most), Some(worst)] = [at(0.5), at(0.9), at(1.0)] {
        writeln!(
            out,
            "{name:24} {:4} times: median {median:5.1} %, 90th {most:5.1} %, worst {worst:5.1} %",
            errors.len()
        )?;
    }
    Ok(())
}

fn samples<'a>(path: &Path, sets: impl Iterator<Item = &'a Set>) -> anyhow::Result<()> {
    let mut file = csv::Writer::from_path(path).with_context(|| path.display().to_string())?;
    for set in sets {
        for sample in &set.seen {
            let mut row = vec![
                format!("{} {}", set.name, sample.traffic),
                sample.kind.to_string(),
                format!("{:.3}", sample.measured()),
            ];
            row.extend(sample.terms.iter().map(|term| format!("{term:.4}")));
            row.push(set.rules.regions().len().to_string());
            file.write_record(&row)?;
        }
    }
    Ok(file.flush()?)
}
