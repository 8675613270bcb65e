//! Distinct conditions of rules, field by field.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use firstmatch_core::RuleSet;
use serde::Deserialize;

use super::Emit;
use super::lists::{Bias, Plan};
use super::prefixes::About;
use super::verdict::joined;
use crate::table::table;

/// Experiment that prints the conditions per rule of generated sets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Distinct {
    profiles: Vec<String>,
    sizes: Vec<usize>,
    /// No claim is about them.
    #[serde(default)]
    pub(super) claims: [About; 0],
}

pub(super) fn run(run: &Distinct, seeds: Option<&Path>, out: &mut dyn Write, _: Emit<'_>) -> anyhow::Result<()> {
    let (profiles, sizes) = (&run.profiles, &run.sizes);
    Plan { profiles, sizes, lists: 1, bias: Bias::default(), seeds }.each(|place, rules| {
        let (names, counts): (Vec<String>, Vec<f64>) = counts(&rules).into_iter().unzip();
        let mut table = table([String::new()].into_iter().chain(names));
        let said = format!("{} {}, conditions per rule", profiles[place.profile], sizes[place.size]);
        let ratios = counts.iter().map(|count| joined(&[count / rules.len() as f64]));
        table.add_row([said].into_iter().chain(ratios));
        writeln!(out, "{table}")?;
        Ok(())
    })
}

/// Returns the name of each field with the number of distinct conditions; no condition counts as one, too.
pub(super) fn counts(rules: &RuleSet) -> Vec<(String, f64)> {
    let of = |field: usize| {
        let conditions = rules.iter().map(|rule| {
            rule.conditions.on(field).map(|condition| (condition.negated, condition.tests().collect::<Vec<_>>()))
        });
        conditions.collect::<HashSet<_>>().len() as f64
    };
    let fields = rules.schemas()[0].fields().iter().enumerate();
    fields.map(|(at, field)| (field.name().to_owned(), of(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::ran;

    #[test]
    fn conditions_per_rule_are_printed() {
        let (out, _) = ran(run, "profiles = ['openflow']\nsizes = [200]").expect("a run");
        assert!(out.contains("| openflow 200, conditions per rule |    0.02 |") && out.contains(" eth_type "), "{out}");
    }
}
