//! Contests of engines over generated rule sets, by profile and size of the sets.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_core::Classifier;
use serde::Deserialize;

use super::Emit;
use super::bench::{Scale, Traffic, Workbench};
use super::figures::{About, Figures, Measure};
use super::lists::{Bias, Plan};
use crate::clock::timed;
use crate::definition::Engine;
use crate::digest::Running;
use crate::memory::counted;
use crate::transform::single_ports;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contest {
    measures: Vec<Measure>,
    profiles: Vec<String>,
    sizes: Vec<usize>,
    lists: u64,
    #[serde(default)]
    smoothing: u8,
    /// Whether a single port takes the place of each range.
    #[serde(default)]
    single_ports: bool,
    #[serde(default = "synthetic")]
    traffics: Vec<Traffic>,
    /// Number of headers per rule, from which synthetic packets are drawn.
    headers_a_rule: Option<usize>,
    /// Numbers of packets and updates of a list and of rounds of lookups, where they are not the usual ones.
    packets: Option<usize>,
    updates: Option<usize>,
    rounds: Option<usize>,
    /// Number of keys per call.
    #[serde(default = "one")]
    batch: usize,
    engines: Vec<Engine>,
    pub(super) claims: Vec<About>,
}

fn synthetic() -> Vec<Traffic> {
    vec![Traffic::Synthetic]
}

fn one() -> usize {
    1
}

/// Takes all measures of one rule set after the other, and judges the claims at the end.
pub(super) fn run(run: &Contest, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    ensure!(!run.engines.is_empty() && run.batch > 0, "there is no engine, or no packet in a batch");
    let Scale { packets, updates, rounds } = run.scale();
    ensure!(packets > 0 && updates > 0 && rounds > 0, "`packets`, `updates` and `rounds`: expected numbers from 1");
    let first = run.measures.first().zip(run.traffics.first()).context("there is no measure, or no traffic")?;
    let named = |about: &About| (about.measure.as_ref().unwrap_or(first.0).clone(), about.traffic.unwrap_or(*first.1));
    for about in &run.claims {
        let (measure, traffic) = named(about);
        let has = run.measures.contains(&measure) && run.traffics.contains(&traffic);
        ensure!(has, "claim `{}`: the entry has no such measure or traffic", about.id);
        let is_own = about.part.is_none() && about.per.is_none();
        ensure!(is_own, "claim `{}`: `part` and `per` are for what was built", about.id);
    }
    let bias = Bias::smoothed(run.smoothing);
    let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: run.lists, bias, seeds };
    // By measure: figures of the first traffic, and with those of each further one.
    let mut together: Vec<Figures> = Vec::new();
    for &traffic in &run.traffics {
        let (all, digest) = run.figures(&plan, traffic)?;
        for (m, (measure, figures)) in run.measures.iter().zip(&all).enumerate() {
            figures.print(out)?;
            let of_one = |about: &&About| !about.across && named(about) == (measure.clone(), traffic);
            run.claims.iter().filter(of_one).try_for_each(|about| {
                let Some(by) = &about.by else { return emit(figures.about(about, &digest)?) };
                let from = run.measures.iter().position(|measure| measure == by).context("`by` is no measure here")?;
                emit(figures.predicted(&all[from], about, &digest)?)
            })?;
            match together.get_mut(m) {
                None => together.push(figures.clone()),
                Some(together) => together.join(figures, &format!("{traffic:?}").to_lowercase()),
            }
            if run.traffics.last() == Some(&traffic) {
                let across = |about: &&About| about.across && named(about).0 == *measure;
                run.claims.iter().filter(across).try_for_each(|about| emit(together[m].about(about, &digest)?))?;
            }
        }
    }
    Ok(())
}

impl Contest {
    /// Returns the figures of each measure, by engine, profile and size, and the digest of the lists.
    fn figures(&self, plan: &Plan<'_>, traffic: Traffic) -> anyhow::Result<(Vec<Figures>, String)> {
        let packets = match traffic {
            Traffic::Synthetic => "",
            Traffic::Default => ", default rule",
            Traffic::New => ", default rule, new headers",
        };
        let none = |measure: &Measure| {
            let unit = match measure {
                Measure::Lookup => "us a packet",
                Measure::Update => "us an update",
                Measure::Memory => "MiB",
                Measure::Build => "ms to build",
                Measure::Tables => "tables",
                Measure::Lines => "lines in a table",
                Measure::Count(name) => &format!("{name} a packet"),
            };
            let is_timed = matches!(measure, Measure::Lookup | Measure::Update | Measure::Build);
            Figures::new(format!("{unit}{packets}"), is_timed, self.engines.iter().map(Engine::name), plan)
        };
        let mut all: Vec<Figures> = self.measures.iter().map(none).collect();
        let mut digest = Running::default();
        plan.each(|place, mut set| {
            if self.single_ports {
                set = single_ports(&set)?;
            }
            let bench = Workbench::new(set, traffic, self.headers_a_rule, place.seed, self.scale())?;
            let measured = self.measured(&bench, &mut digest)?;
            for (figures, by_engine) in all.iter_mut().zip(measured) {
                by_engine.into_iter().enumerate().for_each(|(e, one)| figures.add(e, place, one / self.lists as f64));
            }
            Ok(())
        })?;
        Ok((all, digest.finish()))
    }

    fn scale(&self) -> Scale {
        let usual = Scale::default();
        Scale {
            packets: self.packets.unwrap_or(usual.packets),
            updates: self.updates.unwrap_or(usual.updates),
            rounds: self.rounds.unwrap_or(usual.rounds),
        }
    }

    /// Returns the figure of each engine on one rule set, measure by measure.
    fn measured(&self, bench: &Workbench, digest: &mut Running) -> anyhow::Result<Vec<Vec<f64>>> {
        let (mut engines, mut costs) = (Vec::new(), Vec::new());
        for engine in &self.engines {
            let ((built, taken), memory) = counted(|| timed(|| bench.build(engine)));
            engines.push((engine.name(), built?));
            costs.push((taken.cpu.as_secs_f64() * 1e3, memory.kept as f64 / f64::from(1 << 20)));
        }
        let mut answers = None;
        let mut of = |measure: &Measure| {
            let stats = engines.iter().map(|(_, engine)| engine.stats());
            Ok(match measure {
                Measure::Lookup => {
                    let lookups = bench.lookups(&engines, &[self.batch])?;
                    answers = Some(lookups.answers);
                    lookups.micros
                }
                Measure::Update => bench.updates(&self.engines)?,
                Measure::Memory => costs.iter().map(|&(_, mib)| mib).collect(),
                Measure::Build => costs.iter().map(|&(millis, _)| millis).collect(),
                Measure::Tables => stats.map(|stats| stats.tables as f64).collect(),
                Measure::Lines => stats.map(|stats| stats.worst_lines as f64 / stats.tables.max(1) as f64).collect(),
                Measure::Count(name) => {
                    let of = |(said, engine): &(&str, Box<dyn Classifier>)| {
                        bench.count(&**engine, name).with_context(|| (*said).to_owned())
                    };
                    engines.iter().map(of).collect::<anyhow::Result<_>>()?
                }
            })
        };
        let figures = self.measures.iter().map(&mut of).collect::<anyhow::Result<_>>()?;
        bench.add_to(digest, &answers.unwrap_or_else(|| bench.answers(&*engines[0].1)));
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Outcome;
    use crate::reproduce::testing::{numbers, ran};

    fn outcomes(lines: &str, claims: &str) -> (String, Vec<Outcome>) {
        let text = format!(
            "profiles = ['acl1', 'fw1']\nsizes = [20, 60]\nlists = 1\n{lines}\n\
             [[engines]]\nengine = 'tuplemerge'\n[[engines]]\nengine = 'linear'\n{claims}"
        );
        ran(run, &text).expect("a run")
    }

    /// The digest depends on rules, keys and answers, not on the measure or the engines.
    #[test]
    fn every_measure_has_the_digest_of_its_sets() {
        let first = "[[claims]]\nid = 'a'\nof = 'means'\nengines = ['tuplemerge']\n";
        let claims = &format!("{first}{}measure = 'tables'\n", first.replace("'a'", "'b'"));
        let (out, warm) = outcomes("measures = ['lookup', 'tables']\nbatch = 16", claims);
        assert!(out.contains("| tuplemerge, us a packet ") && out.contains("| tuplemerge, tables "), "{out}");
        assert_eq!(warm.iter().map(|outcome| outcome.claim.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(warm[0].digest.len(), 32);
        assert_eq!(warm[0].digest, warm[1].digest);
        let (out, counted) =
            outcomes("measures = [{ count = 'tests' }]", &first.replace("'a'", "'c'").replace("tuplemerge", "linear"));
        assert!(out.contains("| linear, tests a packet ") && counted[0].digest == warm[0].digest, "{out}");
        assert!(numbers(&counted[0])[0] >= 1.0, "{counted:?}");
        let (_, others) = outcomes("measures = ['tables']\ntraffics = ['default']", first);
        assert_ne!(others[0].digest, warm[0].digest);
        let engines = "['tuplemerge', 'tuplemerge, default', 'linear', 'linear, default']";
        let across = format!("[[claims]]\nid = 'a'\nof = 'gained'\nacross = true\nengines = {engines}\n");
        let (_, across) = outcomes("measures = ['tables']\ntraffics = ['synthetic', 'default']", &across);
        let [tuples, linear] = numbers(&across[0])[..] else { panic!("{across:?}") };
        assert!(tuples > 1.0 && linear == 1.0, "the default rule has a table of its own: {across:?}");
    }
}
