//! Events of lookups by decomposition that Callgrind counts: loads and misses of caches beside the equations of Qu, Zhou
//! and Prasanna, and the instructions of single steps.

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use serde::Deserialize;

use super::figures::growth;
use super::verdict::joined;
use super::{Emit, Measured, Outcome};
use crate::definition::{Definition, Engine};
use crate::measure::instructions::{Events, events};
use crate::table::table;
use crate::valgrind::{self, Job};
use crate::workload;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Callgrind {
    engine: Engine,
    /// Loads of whole lookups; without them the instructions of single steps are counted.
    loads: Option<Loads>,
    pub(super) claims: Vec<About>,
}

/// Lookups among OpenFlow rules whose loads are counted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Loads {
    /// Two sizes of rule sets, from which factor and constant follow.
    sizes: [usize; 2],
    /// Bits of a load (Γ).
    width: usize,
    /// Hash functions of an exact superfield (M).
    functions: usize,
    /// Share of the merge that is not left early (μ).
    merged: f64,
    /// Bits of each superfield that is searched by range (w), and its distinct values per rule (q / N).
    ranges: Vec<(usize, f64)>,
    /// Bits of each exact superfield.
    exact: Vec<usize>,
    /// Caches of each processor, from the first level on: bytes, and lines of 64 bytes in a set.
    caches: Vec<[(usize, usize); 3]>,
}

/// Subject of a claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    of: Of,
    /// Size of the rule set, for what has one.
    rules: Option<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Instructions of a tree level, a hash search and a merge.
    Steps,
    /// Whether instructions grow more slowly than the number of exact fields, as text.
    Fields,
    /// Equation 1 without factor and constant, once for each processor.
    Theory,
    /// Loads of data a packet, once for each processor.
    Loads,
    /// Factor of Equation 1, the slope through both sizes, once for each processor.
    Factor,
    /// Constant of Equation 1, once for each processor.
    Constant,
    /// Loads that reach the second cache, the third and memory, over all loads, of each processor, among the fewer rules.
    Levels,
}

/// Lookups that are counted.
const LOOKUPS: usize = 4096;
/// Vectors of the merge that is claimed.
const VECTORS: f64 = 9.0;
/// Fields of the rules whose steps are counted, in the order in which they are used.
const FIELDS: [&str; 4] = ["dport", "sport", "src", "dst"];

/// Rules with conditions on some fields of the 5-tuple, which are all different.
#[derive(Clone, Copy, Debug)]
struct Rules {
    count: usize,
    fields: usize,
    /// Whether conditions are ranges, which trees search, or single values, which hash tables do.
    ranges: bool,
    /// How often each rule is there: vectors get longer, and searches do not change.
    copies: usize,
}

/// Folder for the inputs of Callgrind.
struct Counter<'a> {
    engine: &'a Engine,
    folder: PathBuf,
}

pub(super) fn run(run: &Callgrind, _: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    valgrind::find()?;
    let folder = std::env::temp_dir().join(format!("firstmatch-lab-{}.counted", std::process::id()));
    fs::create_dir_all(&folder)?;
    let counter = Counter { engine: &run.engine, folder };
    let Some(loads) = &run.loads else {
        let (steps, fields) = (counter.steps()?, counter.fields()?);
        writeln!(out, "instructions of a tree level, a hash search, a merge: {}", joined(&steps))?;
        writeln!(
            out,
            "instructions of lookups of one to four exact fields: {}",
            joined(&fields.map(|(_, count)| count))
        )?;
        return run.claims.iter().try_for_each(|about| {
            let measured = match about.of {
                Of::Steps => Measured::Numbers(steps.to_vec()),
                Of::Fields => growth(&fields, "W")?,
                _ => bail!("claim `{}`: expected `steps` or `fields` without `loads`", about.id),
            };
            emit(Outcome::exact(&about.id, measured, ""))
        });
    };
    let counted = loads.count(&counter)?;
    loads.print(&counted, out)?;
    run.claims.iter().try_for_each(|about| {
        let numbers = loads.measured(about, &counted).with_context(|| format!("claim `{}`", about.id))?;
        emit(Outcome::exact(&about.id, Measured::Numbers(numbers), ""))
    })
}

/// Loads a packet at both sizes; of the fewer rules, the shares that miss each cache of each processor.
struct Counted {
    loads: [f64; 2],
    levels: Vec<[f64; 3]>,
}

impl Loads {
    /// Returns the loads of a lookup among `rules` rules by Equation 1, without factor and constant.
    ///
    /// Logarithms are rounded up.
    fn equation(&self, rules: usize) -> f64 {
        let of = |bits: usize| bits.div_ceil(self.width) as f64;
        let vector = of(rules);
        let ranges = self.ranges.iter().map(|&(bits, ratio)| {
            let values = ratio * rules as f64;
            vector + of(bits) * values.log2().ceil()
        });
        let exact = self.exact.iter().map(|&bits| self.functions as f64 * of(bits) + vector);
        let merged = self.merged * (self.ranges.len() + self.exact.len()) as f64 * vector;
        ranges.sum::<f64>() + exact.sum::<f64>() + merged
    }

    /// Counts loads; Callgrind knows a first and a last cache, so that the third one is the last of a second run.
    fn count(&self, counter: &Counter<'_>) -> anyhow::Result<Counted> {
        ensure!(self.sizes[0] < self.sizes[1] && !self.caches.is_empty(), "expected two sizes in order, and caches");
        let of = |rules: usize, first: (usize, usize), last: (usize, usize)| {
            let cache = |(bytes, ways): (usize, usize)| format!("{bytes},{ways},64");
            let (d1, ll) = (cache(first), cache(last));
            let options = ["--cache-sim=yes".to_owned(), format!("--D1={d1}"), format!("--LL={ll}")];
            let set = format!("generate = {{ profile = 'openflow', rules = {rules}, seed = 1, headers = {LOOKUPS} }}");
            counter.count(&set, &options)
        };
        let mut levels = Vec::new();
        for &[first, second, third] in &self.caches {
            let near = of(self.sizes[0], first, second)?;
            let far = of(self.sizes[0], first, third)?;
            levels.push([near.of("D1mr")?, near.of("DLmr")?, far.of("DLmr")?]);
        }
        let [first, second, _] = self.caches[0];
        let few = of(self.sizes[0], first, second)?.of("Dr")?;
        let many = of(self.sizes[1], first, second)?.of("Dr")?;
        levels.iter_mut().flatten().for_each(|misses| *misses /= few);
        Ok(Counted { loads: [few, many], levels })
    }

    /// Returns the factor and the constant of Equation 1.
    fn fitted(&self, loads: [f64; 2]) -> (f64, f64) {
        let theory = self.sizes.map(|rules| self.equation(rules));
        let factor = (loads[1] - loads[0]) / (theory[1] - theory[0]);
        (factor, loads[0] - factor * theory[0])
    }

    fn print(&self, counted: &Counted, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut shown = table(["rules", "Equation 1", "loads a packet"]);
        for (rules, loads) in self.sizes.iter().zip(counted.loads) {
            shown.add_row([rules.to_string(), format!("{:.0}", self.equation(*rules)), format!("{loads:.1}")]);
        }
        let (factor, constant) = self.fitted(counted.loads);
        writeln!(out, "{shown}\nfactor {factor:.2}, constant {constant:.0}")?;
        let mut shown = table(["caches, KiB", "reach the second", "the third", "memory"]);
        for (caches, levels) in self.caches.iter().zip(&counted.levels) {
            let sizes = caches.map(|(bytes, _)| (bytes / 1024).to_string()).join(", ");
            shown.add_row([sizes].into_iter().chain(levels.map(|share| format!("{share:.6}"))));
        }
        writeln!(out, "{shown}")?;
        Ok(())
    }

    fn measured(&self, about: &About, counted: &Counted) -> anyhow::Result<Vec<f64>> {
        let place = || {
            let at = self.sizes.iter().position(|&size| Some(size) == about.rules);
            at.context("`rules` is none of the sizes")
        };
        let (factor, constant) = self.fitted(counted.loads);
        let number = match about.of {
            Of::Steps | Of::Fields => bail!("`steps` and `fields` are counted without `loads`"),
            Of::Levels => return Ok(counted.levels.concat()),
            Of::Theory => self.equation(self.sizes[place()?]),
            Of::Loads => counted.loads[place()?],
            Of::Factor => factor,
            Of::Constant => constant,
        };
        Ok(vec![number; self.caches.len()])
    }
}

impl Counter<'_> {
    /// Counts the instructions of each step, as differences between lookups of rules that differ in one of them.
    fn steps(&self) -> anyhow::Result<[f64; 3]> {
        let rules = |count, fields, ranges, copies| self.instructions(Rules { count, fields, ranges, copies });
        // Up to 15 starts of ranges are a tree of one level, 273 to 4,912 one of three.
        let level = (rules(300, 1, true, 1)? - rules(7, 1, true, 1)?) / 2.0;
        let [one, four] = [rules(300, 1, false, 1)?, rules(300, 4, false, 1)?];
        // Twice as many rules have vectors of one more line.
        let [line_of_one, line_of_four] = [rules(300, 1, false, 2)? - one, rules(300, 4, false, 2)? - four];
        let vector = (line_of_four - line_of_one) / 3.0;
        let hash = (four - one) / 3.0 - vector;
        Ok([level, hash, line_of_one + (VECTORS - 1.0) * vector])
    }

    /// Counts the instructions of lookups of rules with one to four exact fields.
    fn fields(&self) -> anyhow::Result<[(f64, f64); 4]> {
        let mut all = [(0.0, 0.0); 4];
        for (fields, point) in (1..).zip(&mut all) {
            let count = self.instructions(Rules { count: 300, fields, ranges: false, copies: 1 })?;
            *point = (fields as f64, count);
        }
        Ok(all)
    }

    fn instructions(&self, rules: Rules) -> anyhow::Result<f64> {
        let (text, trace) = rules.files();
        fs::write(self.folder.join("a.rules"), text)?;
        fs::write(self.folder.join("a.trace"), trace)?;
        self.count("rules = 'a.rules'\ntrace = 'a.trace'", &[])?.of("Ir")
    }

    /// Counts events of lookups among the rules of a set, one key at a time.
    fn count(&self, set: &str, options: &[String]) -> anyhow::Result<Events> {
        let config = toml::Value::from(self.engine.config.clone());
        let path = self.folder.join("a.toml");
        let of_engine = format!("engine = '{}'\nname = 'a'\nconfig = {config}", self.engine.engine);
        fs::write(&path, format!("shows = 'a'\n[[sets]]\nname = 'a'\n{set}\n[[engines]]\n{of_engine}\n"))?;
        let definition = Definition::read(&path)?;
        let from = &definition.sets[0];
        let origin = definition.origin(from, None).map_err(|missing| anyhow!("{missing:?}"))?;
        let loaded = workload::load(from, &origin, false)?;
        let right = loaded.workloads[0].answers(&loaded.rules)?;
        ensure!(right.iter().all(Option::is_some), "{set}: a packet matches no rule");
        let (definition, batch, lookups) = (&definition, 1, LOOKUPS);
        let job = Job { definition, sets: None, set: "a", index: 0, engine: "a", batch, lookups };
        let expected = job.expected(&loaded.workloads[0], &right);
        events(&job, &expected, options).map_err(|fault| anyhow!("{fault:?}")).context("callgrind")
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        // A folder that is left behind hurts nobody.
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

impl Rules {
    /// Returns a rule file, and a trace with a packet of each rule.
    fn files(self) -> (String, String) {
        let (mut text, mut trace) = ("family ipv4\n".to_owned(), String::new());
        for value in (1..=self.count).map(|number| 40 * number) {
            let conditions = FIELDS[..self.fields].iter().map(|field| match *field {
                "src" | "dst" => format!(" {field} {}", Ipv4Addr::from(value as u32)),
                _ if self.ranges => format!(" {field} {value}-{}", value + 20),
                _ => format!(" {field} {value}"),
            });
            let rule = format!("permit{}\n", conditions.collect::<String>());
            text.extend(std::iter::repeat_n(rule, self.copies));
            trace += &format!("{value}\t{value}\t{value}\t{value}\t6\t1\n");
        }
        (text, trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_conditions_of_both_kinds() {
        let of = |fields, ranges| Rules { count: 1, fields, ranges, copies: 1 }.files();
        assert_eq!(of(1, true), ("family ipv4\npermit dport 40-60\n".into(), "40\t40\t40\t40\t6\t1\n".into()));
        assert_eq!(of(4, false).0, "family ipv4\npermit dport 40 sport 40 src 0.0.0.40 dst 0.0.0.40\n");
    }

    const PAPER: &str = "sizes = [1024, 2048]\nwidth = 64\nfunctions = 2\nmerged = 0.5\nexact = [64, 48, 48]\n\
                         ranges = [[45, 1.0], [62, 1.0], [32, 0.25], [32, 0.25], [16, 0.1], [16, 0.1]]\n\
                         caches = [[[16384, 4], [2097152, 16], [6291456, 48]]]\n";

    /// The second figure is the one of Table V.
    #[test]
    fn equation_1_gives_the_printed_loads() {
        let loads: Loads = toml::from_str(PAPER).expect("parameters");
        let sizes = [1, 2, 4, 8, 16, 32].map(|thousands| loads.equation(thousands << 10));
        assert_eq!(sizes, [272.0, 494.0, 932.0, 1802.0, 3536.0, 6998.0]);
        let (factor, constant) = loads.fitted([300.0, 522.0]);
        assert!((factor - 1.0).abs() < 1e-9 && (constant - 28.0).abs() < 1e-9, "{factor} {constant}");
        let counted = Counted { loads: [300.0, 522.0], levels: vec![[0.1, 0.01, 0.0]] };
        let of = |of, rules| loads.measured(&About { id: "a".into(), of, rules }, &counted);
        assert_eq!(of(Of::Loads, Some(2048)).expect("loads"), [522.0]);
        assert_eq!(of(Of::Levels, None).expect("levels"), [0.1, 0.01, 0.0]);
        assert!(of(Of::Loads, Some(7)).is_err() && of(Of::Steps, None).is_err());
    }
}
