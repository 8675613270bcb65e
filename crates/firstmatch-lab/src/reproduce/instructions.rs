//! Instructions of the steps of a decomposition, by differences of lookups that Callgrind counts.

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::verdict::joined;
use super::{Emit, Measured, Outcome};
use crate::definition::{Definition, Engine};
use crate::measure::instructions;
use crate::valgrind::{self, Job};
use crate::workload;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Instructions {
    engine: Engine,
    pub(super) claims: Vec<About>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    /// Numbers of tree levels, hash searches and merges to add up; without them each step is claimed by itself.
    total: Option<[f64; 3]>,
    /// Instructions of each step, where they are not the counted ones.
    steps: Option<[f64; 3]>,
}

/// Lookups that are counted.
const LOOKUPS: usize = 4096;
/// Vectors of the merge that is claimed.
const VECTORS: f64 = 9.0;
/// Fields of the rules, in the order in which they are used.
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

/// Instructions a lookup of some rules, by Callgrind.
struct Counter<'a> {
    engine: &'a Engine,
    folder: PathBuf,
}

pub(super) fn run(run: &Instructions, _: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    valgrind::find()?;
    let folder = std::env::temp_dir().join(format!("firstmatch-lab-{}.instructions", std::process::id()));
    fs::create_dir_all(&folder)?;
    let counter = Counter { engine: &run.engine, folder };
    let rules = |count, fields, ranges, copies| counter.count(Rules { count, fields, ranges, copies });
    // Up to 15 starts of ranges are a tree of one level, 273 to 4,912 one of three.
    let level = (rules(300, 1, true, 1)? - rules(7, 1, true, 1)?) / 2.0;
    let [one, four] = [rules(300, 1, false, 1)?, rules(300, 4, false, 1)?];
    // Twice as many rules have vectors of one more line.
    let [line_of_one, line_of_four] = [rules(300, 1, false, 2)? - one, rules(300, 4, false, 2)? - four];
    let vector = (line_of_four - line_of_one) / 3.0;
    let hash = (four - one) / 3.0 - vector;
    let counted = [level, hash, line_of_one + (VECTORS - 1.0) * vector];
    writeln!(out, "instructions of a tree level, a hash search, a merge: {}", joined(&counted))?;
    run.claims.iter().try_for_each(|about| {
        let steps = about.steps.unwrap_or(counted);
        let total = about.total.map(|total| total.iter().zip(steps).map(|(count, step)| count * step).sum());
        let numbers = total.map_or(steps.to_vec(), |total| vec![total]);
        emit(Outcome::exact(&about.id, Measured::Numbers(numbers), ""))
    })
}

impl Counter<'_> {
    /// Counts the instructions a lookup, one key at a time.
    fn count(&self, rules: Rules) -> anyhow::Result<f64> {
        let (mut text, mut trace) = ("family ipv4\n".to_owned(), String::new());
        for number in 0..rules.count {
            let (rule, packet) = rules.rule(number);
            text.extend(std::iter::repeat_n(rule, rules.copies));
            trace.push_str(&packet);
        }
        fs::write(self.folder.join("a.rules"), text)?;
        fs::write(self.folder.join("a.trace"), trace)?;
        let config = toml::Value::from(self.engine.config.clone());
        let path = self.folder.join("a.toml");
        let (set, engine) = ("name = 'a'\nrules = 'a.rules'\ntrace = 'a.trace'", &self.engine.engine);
        let of_engine = format!("engine = '{engine}'\nname = 'a'\nconfig = {config}");
        fs::write(&path, format!("shows = 'a'\n[[sets]]\n{set}\n[[engines]]\n{of_engine}\n"))?;
        let definition = Definition::read(&path)?;
        let set = &definition.sets[0];
        let loaded = match definition.origin(set, None) {
            Ok(origin) => workload::load(set, &origin, false)?,
            Err(missing) => anyhow::bail!("{missing:?}"),
        };
        let right = loaded.workloads[0].answers(&loaded.rules)?;
        ensure!(right.iter().all(Option::is_some), "{rules:?}: a packet matches no rule");
        let (definition, batch, lookups) = (&definition, 1, LOOKUPS);
        let job = Job { definition, sets: None, set: "a", index: 0, engine: "a", batch, lookups };
        let expected = job.expected(&loaded.workloads[0], &right);
        instructions::one(&job, &expected).map_err(|fault| anyhow::anyhow!("{fault:?}")).context("callgrind")
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        // A folder that is left behind hurts nobody.
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

impl Rules {
    /// Returns rule `number` and a line of a trace with a packet that it matches.
    fn rule(self, number: usize) -> (String, String) {
        let value = 40 * (number + 1);
        let mut rule = "permit".to_owned();
        for field in &FIELDS[..self.fields] {
            rule += &match *field {
                "src" | "dst" => format!(" {field} {}", Ipv4Addr::from(value as u32)),
                _ if self.ranges => format!(" {field} {value}-{}", value + 20),
                _ => format!(" {field} {value}"),
            };
        }
        (rule + "\n", format!("{value}\t{value}\t{value}\t{value}\t6\t1\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_conditions_of_both_kinds() {
        let of = |fields, ranges| Rules { count: 2, fields, ranges, copies: 1 }.rule(1);
        assert_eq!(of(1, true), ("permit dport 80-100\n".into(), "80\t80\t80\t80\t6\t1\n".into()));
        assert_eq!(of(4, false).0, "permit dport 80 sport 80 src 0.0.0.80 dst 0.0.0.80\n");
    }
}
