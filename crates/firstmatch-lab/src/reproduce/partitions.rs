//! Number of tables or partitions that rule sets take, by size.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use comfy_table::{CellAlignment, Table, presets};
use firstmatch_core::rule::{ExpansionLimits, lower};
use firstmatch_core::{Match, RuleId, RuleSet};
use firstmatch_generate::rules::Scope;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use serde::Deserialize;

use super::counted::Counted;
use super::lists::{Bias, Plan};
use super::{Emit, Measured, Outcome, mean};
use crate::definition::Engine;
use crate::digest::Running;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Partitions {
    profiles: Vec<String>,
    sizes: Vec<usize>,
    /// Number of rule sets of each profile and size, each with its own seed.
    lists: u64,
    /// Smoothing of prefix lengths, in bits.
    #[serde(default)]
    smoothing: u8,
    /// Scopes of prefix lengths and of port classes, each -1 to 1.
    #[serde(default)]
    scope: [f64; 2],
    engines: Vec<Engine>,
    /// Further methods of partitioning rules that are only counted.
    #[serde(default)]
    counted: Vec<Counted>,
    pub(super) claims: Vec<About>,
}

/// Subject of a claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    engine: String,
    /// Size of the rule sets; two engines are compared at all sizes.
    rules: Option<usize>,
    of: Of,
    /// Profiles that do not count, or the only ones that do.
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    profiles: Vec<String>,
    /// Other engine, or method that is only counted.
    against: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Mean over profiles.
    Mean,
    /// Most over profiles.
    Most,
    /// Number for each of `profiles`.
    Each,
    /// Whether there are fewer than with the engine `against`, at every size.
    Fewer,
    /// Ratio to the engine `against`, the mean over profiles and sizes.
    Times,
    /// The same in per cent more.
    More,
}

/// Numbers of tables by profile and size: the mean over the lists.
struct Counts<'a> {
    run: &'a Partitions,
    /// Numbers by engine, then by counted method, each by profile and size.
    means: Vec<Vec<Vec<f64>>>,
}

/// Counts the tables of rule sets of profiles, or of the parameter files of the same names.
pub(super) fn run(run: &Partitions, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    let [addresses, applications] = run.scope;
    let bias = Bias { smoothing: run.smoothing, scope: Scope { addresses, applications } };
    let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: run.lists, bias, seeds };
    let mut counts = Counts { run, means: vec![plan.zeros(); run.engines.len() + run.counted.len()] };
    let mut digest = Running::default();
    plan.each(|place, set| {
        digest.add_rules(&set);
        for (e, tables) in tables(run, &set, place.seed)?.into_iter().enumerate() {
            counts.means[e][place.profile][place.size] += tables as f64 / run.lists as f64;
        }
        Ok(())
    })?;
    counts.print(out)?;
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| emit(Outcome::exact(&about.id, counts.about(about)?, &digest)))
}

/// Returns the number of tables of each engine, then of each counted method, for one list.
///
/// The engines take the rules one by one in random order.
fn tables(run: &Partitions, set: &RuleSet, seed: u64) -> anyhow::Result<Vec<usize>> {
    let schema = &set.schemas()[0];
    let mut order: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
    order.shuffle(&mut Pcg64::seed_from_u64(seed));
    let lowered = lower(set, schema, &ExpansionLimits::default())?;
    let mut places = vec![0..0; set.slots()];
    lowered.by_rule().for_each(|(rule, range)| places[rule.rule.slot()] = range);
    let tables = run.engines.iter().map(|engine| {
        let empty = engine.recipe()?.empty.with_context(|| format!("{} takes no updates", engine.name()))?;
        let mut built = empty(schema)?;
        let mut regions = firstmatch_core::rule::Regions::new(schema.words().len());
        for &id in &order {
            regions.clear();
            places[id.slot()].clone().for_each(|at| regions.push(lowered.regions().get(at)));
            let priority = set.get(id).map(|rule| rule.priority).context("a rule of the set")?;
            built.insert(Match { rule: id, priority }, &regions)?;
        }
        Ok(built.stats().tables)
    });
    tables.chain(run.counted.iter().map(|counted| counted.partitions(&lowered))).collect()
}

impl Counts<'_> {
    fn names(&self) -> impl Iterator<Item = String> {
        let engines = self.run.engines.iter().map(|engine| engine.name().to_owned());
        engines.chain(self.run.counted.iter().map(|counted| counted.name().to_owned()))
    }

    fn engine(&self, name: &str) -> anyhow::Result<&[Vec<f64>]> {
        let index = self.names().position(|known| known == name);
        Ok(&self.means[index.with_context(|| format!("there is no engine `{name}` in this entry"))?])
    }

    fn print(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        for (name, profiles) in self.names().zip(&self.means) {
            let mut table = Table::new();
            table.load_style(presets::ASCII_MARKDOWN);
            let mut head = vec![format!("tables of {name}")];
            head.extend(self.run.sizes.iter().map(usize::to_string));
            table.set_header(head);
            table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
            let row = |name: &str, sizes: Vec<f64>| {
                let mut row = vec![name.to_owned()];
                row.extend(sizes.iter().map(|count| format!("{count:.1}")));
                row
            };
            for (profile, sizes) in self.run.profiles.iter().zip(profiles) {
                table.add_row(row(profile, sizes.clone()));
            }
            let mean = (0..self.run.sizes.len()).map(|s| mean(profiles.iter().map(|sizes| sizes[s]))).collect();
            table.add_row(row("mean", mean));
            writeln!(out, "{table}")?;
        }
        Ok(())
    }

    fn about(&self, about: &About) -> anyhow::Result<Measured> {
        let engine = self.engine(&about.engine)?;
        let at = |rules: Option<usize>| {
            let found = self.run.sizes.iter().position(|size| Some(*size) == rules);
            found.with_context(|| format!("claim `{}`: `rules` is none of the sizes", about.id))
        };
        let counts = |size: usize| {
            let profiles = self.run.profiles.iter().zip(engine);
            profiles.filter(|(name, _)| !about.without.contains(name)).map(move |(_, sizes)| sizes[size])
        };
        Ok(match (about.of, &about.against) {
            (Of::Mean, None) => Measured::Numbers(vec![mean(counts(at(about.rules)?))]),
            (Of::Most, None) => Measured::Numbers(vec![counts(at(about.rules)?).fold(0.0, f64::max)]),
            (Of::Each, None) => {
                let size = at(about.rules)?;
                let of = |name: &String| {
                    let profile = self.run.profiles.iter().position(|profile| profile == name);
                    Ok(engine[profile.with_context(|| format!("there is no profile `{name}` in this entry"))?][size])
                };
                Measured::Numbers(about.profiles.iter().map(of).collect::<anyhow::Result<_>>()?)
            }
            (Of::Fewer, Some(other)) => {
                let other = self.engine(other)?;
                let sums = |engine: &[Vec<f64>], size: usize| mean(engine.iter().map(|sizes| sizes[size]));
                let pairs: Vec<(f64, f64)> =
                    (0..self.run.sizes.len()).map(|size| (sums(engine, size), sums(other, size))).collect();
                let shown: Vec<String> = pairs.iter().map(|(a, b)| format!("{a:.1} of {b:.1}")).collect();
                Measured::Pairs { pairs, what: shown.join(", ") }
            }
            (Of::Times | Of::More, Some(other)) => {
                let other = self.engine(other)?;
                let ratios = engine.iter().flatten().zip(other.iter().flatten()).map(|(a, b)| a / b);
                let times = mean(ratios);
                Measured::Numbers(vec![if about.of == Of::More { (times - 1.0) * 100.0 } else { times }])
            }
            _ => bail!("claim `{}`: `fewer`, `times` and `more` need `against`, nothing else takes it", about.id),
        })
    }
}
