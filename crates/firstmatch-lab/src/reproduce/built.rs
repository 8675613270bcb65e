//! What engines are built of, by the number of rules: memory by part, tables and other counts.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_core::rule::{ExpansionLimits, lower};
use serde::Deserialize;

use super::Emit;
use super::bench::built_of;
use super::counted::Counted;
use super::figures::{About, Figures};
use super::lists::{Bias, Plan};
use crate::definition::Engine;
use crate::digest::Running;
use crate::memory::counted;
use crate::table::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Structures {
    profiles: Vec<String>,
    sizes: Vec<usize>,
    lists: u64,
    /// Smoothing of prefix lengths, in bits.
    #[serde(default)]
    smoothing: u8,
    /// Unit of the figures that claims are about.
    #[serde(default)]
    unit: Unit,
    engines: Vec<Engine>,
    /// Further methods of partitioning rules, which claims name like engines. Only their tables are counted.
    #[serde(default)]
    counted: Vec<Counted>,
    pub(super) claims: Vec<About>,
}

/// Name of the number of tables or partitions among the counts.
const TABLES: &str = "number of tables";

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Unit {
    #[default]
    MiB,
    /// Millions of bytes.
    MB,
    #[serde(rename = "bytes")]
    Bytes,
}

impl Unit {
    fn bytes(self) -> f64 {
        match self {
            Self::MiB => f64::from(1 << 20),
            Self::MB => 1e6,
            Self::Bytes => 1.0,
        }
    }
}

/// Memory of every engine: of each part by its name, and of all parts as the allocator counts them.
///
/// Beside them are the counts of what was built, and the number of tables.
struct Parts {
    all: Figures,
    by_name: BTreeMap<&'static str, Figures>,
    counts: BTreeMap<&'static str, Figures>,
}

/// Builds the engines as a contest does, without packets, and counts what they keep.
pub(super) fn run(run: &Structures, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    ensure!(!run.engines.is_empty(), "there is no engine");
    let bias = Bias::smoothed(run.smoothing);
    let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: run.lists, bias, seeds };
    let none = || Figures::new(format!("{:?}", run.unit), false, run.names(), &plan);
    let mut parts = Parts { all: none(), by_name: BTreeMap::new(), counts: BTreeMap::new() };
    let mut rules = vec![0.0; run.sizes.len()];
    let mut digest = Running::default();
    let lists = (run.lists * run.profiles.len() as u64) as f64;
    plan.each(|place, set| {
        digest.add_rules(&set);
        rules[place.size] += set.len() as f64 / lists;
        let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default())?;
        for (e, engine) in run.engines.iter().enumerate() {
            let (built, memory) = counted(|| built_of(&lowered, engine, place.seed));
            let share = |bytes: usize| bytes as f64 / run.unit.bytes() / run.lists as f64;
            parts.all.add(e, place, share(memory.kept));
            let stats = built?.stats();
            for (name, bytes) in stats.bytes {
                parts.by_name.entry(name).or_insert_with(none).add(e, place, share(bytes));
            }
            for (name, count) in stats.counts.iter().chain([(TABLES, stats.tables as u64)]) {
                let counts = parts.counts.entry(name).or_insert_with(none);
                counts.add(e, place, count as f64 / run.lists as f64);
            }
        }
        for (c, counted) in run.counted.iter().enumerate() {
            let tables = counted.partitions(&lowered)? as f64 / run.lists as f64;
            parts.counts.entry(TABLES).or_insert_with(none).add(run.engines.len() + c, place, tables);
        }
        Ok(())
    })?;
    parts.print(run, &rules, out)?;
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let measured = parts.of(about).with_context(|| format!("claim `{}`", about.id))?;
        emit(measured.about(about, &digest)?)
    })
}

impl Structures {
    /// Returns the names of the engines, then of the methods that are only counted.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.engines.iter().map(Engine::name).chain(self.counted.iter().map(|counted| counted.name()))
    }
}

impl Parts {
    /// Prints a table for each engine: KiB of its parts, of all together, and bytes a rule, by the number of rules;
    /// then its counts. With several profiles, tables are printed for each of them, too.
    fn print(&self, run: &Structures, rules: &[f64], out: &mut dyn Write) -> anyhow::Result<()> {
        for (e, engine) in run.engines.iter().enumerate() {
            let mut head = vec![format!("{}, KiB", engine.name())];
            head.extend(rules.iter().map(|rules| format!("{rules:.0} rules")));
            let mut table = table(head);
            let mut row = |name: &str, figures: Vec<f64>| {
                table.add_row([name.to_owned()].into_iter().chain(figures.iter().map(|figure| format!("{figure:.1}"))));
            };
            let bytes = run.unit.bytes();
            let scaled = |means: Vec<f64>| means.iter().map(|mean| mean * bytes / 1024.0).collect();
            let is_there = |means: &[f64]| means.iter().any(|&mean| mean > 0.0);
            for (name, means) in self.by_name.iter().map(|(name, part)| (name, part.means(e))) {
                if is_there(&means) {
                    row(name, scaled(means));
                }
            }
            let all = self.all.means(e);
            row("bytes a rule", all.iter().zip(rules).map(|(mean, rules)| mean * bytes / rules).collect());
            row("all", scaled(all));
            for (name, means) in self.counts.iter().map(|(name, counts)| (name, counts.means(e))) {
                if is_there(&means) {
                    row(&format!("count of {name}"), means);
                }
            }
            writeln!(out, "{table}")?;
        }
        let tables = self.counts.get(TABLES).filter(|_| run.profiles.len() > 1);
        tables.map_or(Ok(()), |tables| tables.clone().in_unit(TABLES).print(out))
    }

    fn of(&self, about: &About) -> anyhow::Result<Figures> {
        ensure!(about.measure.is_none() && about.traffic.is_none(), "`measure` and `traffic` are for contests");
        let part = about.part.as_ref().map_or_else(|| Ok(self.all.clone()), |names| self.sum(names))?;
        let Some(per) = &about.per else { return Ok(part) };
        Ok(part.combined(&self.sum(per)?, |part, per| part / per))
    }

    /// Returns the sum of parts and counts whose names are joined by `+`.
    fn sum(&self, names: &str) -> anyhow::Result<Figures> {
        let known = || self.by_name.keys().chain(self.counts.keys()).copied().collect::<Vec<_>>().join(", ");
        let one = |name: &str| {
            let found = self.by_name.get(name).or_else(|| self.counts.get(name)).cloned();
            found.with_context(|| format!("there is no part `{name}`; expected one of {}", known()))
        };
        let mut names = names.split('+');
        let first = one(names.next().unwrap_or_default())?;
        names.try_fold(first, |sum, name| Ok(sum.combined(&one(name)?, |sum, part| sum + part)))
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::reproduce::testing::{numbers, ran};
    use crate::reproduce::{Outcome, Reach};

    fn outcomes(claims: &str) -> anyhow::Result<(String, Vec<Outcome>)> {
        let text = format!(
            "profiles = ['acl1', 'fw1']\nsizes = [50, 400]\nlists = 2\ncounted = ['tss_addresses']\n\
             [[engines]]\nengine = 'tuplemerge'\n[[engines]]\nengine = 'linear'\n{claims}"
        );
        ran(run, &text)
    }

    /// Other tests allocate meanwhile, so that only parts are compared, which the engines state.
    #[test]
    fn parts_grow_with_the_rules() {
        let claim =
            |id: &str, more: &str| format!("[[claims]]\nid = '{id}'\nof = 'means'\nengines = ['linear']\n{more}");
        let claims =
            claim("small", "rules = 50\npart = 'blocks'\n") + &claim("large", "rules = 400\npart = 'blocks'\n");
        let per = "part = 'blocks+blocks'\nper = 'blocks'\n";
        let tables = claim("tables", "part = 'number of tables'\nrules = 400\n").replace("linear", "tss_addresses");
        let claims = claims + &claim("twice", per) + &claim("size", per).replace("'means'", "'exceeds'\nlimit = 1.5");
        let claims = claims + &tables;
        let (out, both) = outcomes(&claims).expect("a run");
        for expected in [
            "| tuplemerge, KiB ",
            "50 rules",
            "400 rules",
            "| blocks ",
            "| all ",
            "| bytes a rule ",
            "| tss_addresses, number of tables ",
        ] {
            assert!(out.contains(expected), "{expected}: {out}");
        }
        let number = |outcome: &Outcome| numbers(outcome)[0];
        assert!(number(&both[1]) > 4.0 * number(&both[0]), "{both:?}");
        assert!(both[0].digest.len() == 32 && both[0].digest == both[1].digest);
        assert_eq!((number(&both[2]), number(&both[3])), (2.0, 50.0));
        assert!(number(&both[4]) > 10.0, "{both:?}");
        assert_eq!(both[3].reach, Reach::Edge, "smaller sets may exceed the limit, too");
        for (more, expected) in
            [("part = 'nothing'\n", "there is no part `nothing`"), ("measure = 'lookup'\n", "for contests")]
        {
            let error = outcomes(&claim("bad", more)).expect_err("a bad claim");
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }
}
