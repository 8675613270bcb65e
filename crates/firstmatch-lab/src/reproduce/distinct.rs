//! Distinct conditions of rules, field by field.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_core::RuleSet;
use firstmatch_formats::Options;
use serde::Deserialize;

use super::lists::{Bias, Plan};
use super::verdict::joined;
use super::{Emit, Measured, Outcome};
use crate::digest::Running;
use crate::table::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Distinct {
    /// Text of a rule file.
    rules: Option<String>,
    /// Profiles and sizes of generated rule sets, whose conditions are printed per rule.
    #[serde(default)]
    profiles: Vec<String>,
    #[serde(default)]
    sizes: Vec<usize>,
    /// Claims about the rule file.
    #[serde(default)]
    pub(super) claims: Vec<About>,
}

/// Subject of a claim: the distinct conditions in each of some fields. No condition counts as one, too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    fields: Vec<String>,
    /// Whether their cross product is meant.
    #[serde(default)]
    product: bool,
}

pub(super) fn run(run: &Distinct, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    if let Some(text) = &run.rules {
        let rules = firstmatch_formats::parse(text, &Options::default()).context("rules")?.rules;
        let (names, counts) = counts(&rules);
        print(&names, &[("distinct conditions", counts.clone())], out)?;
        let mut digest = Running::default();
        digest.add_rules(&rules);
        let digest = digest.finish();
        for About { id, fields, product } in &run.claims {
            let count = |field: &String| {
                let at = names.iter().position(|name| name == field);
                at.map(|at| counts[at]).with_context(|| format!("claim `{id}`: there is no field `{field}`"))
            };
            let numbers = fields.iter().map(count).collect::<anyhow::Result<Vec<f64>>>()?;
            let numbers = if *product { vec![numbers.iter().product()] } else { numbers };
            emit(Outcome::exact(id, Measured::Numbers(numbers), &digest))?;
        }
    }
    ensure!(run.rules.is_some() || run.claims.is_empty(), "claims are about `rules`, and there are none");
    if run.profiles.is_empty() {
        return Ok(());
    }
    let (profiles, sizes) = (&run.profiles, &run.sizes);
    Plan { profiles, sizes, lists: 1, bias: Bias::default(), seeds }.each(|place, rules| {
        let (names, counts) = counts(&rules);
        let said = format!("{} {}, conditions per rule", profiles[place.profile], sizes[place.size]);
        let ratios = counts.iter().map(|count| count / rules.len() as f64).collect();
        print(&names, &[(&said, ratios)], out)
    })
}

/// Returns the names of the fields and the number of distinct conditions in each.
pub(super) fn counts(rules: &RuleSet) -> (Vec<String>, Vec<f64>) {
    let fields = rules.schemas()[0].fields();
    let of = |field: usize| {
        let conditions = rules.iter().map(|rule| {
            rule.conditions.on(field).map(|condition| (condition.negated, condition.tests().collect::<Vec<_>>()))
        });
        conditions.collect::<HashSet<_>>().len() as f64
    };
    (fields.iter().map(|field| field.name().to_owned()).collect(), (0..fields.len()).map(of).collect())
}

fn print(names: &[String], rows: &[(&str, Vec<f64>)], out: &mut dyn Write) -> anyhow::Result<()> {
    let head = [String::new()].into_iter().chain(names.iter().cloned());
    let mut table = table(head.collect());
    for (said, numbers) in rows {
        table.add_row([(*said).to_owned()].into_iter().chain(numbers.iter().map(|&number| joined(&[number]))));
    }
    writeln!(out, "{table}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(lines: &str) -> anyhow::Result<(String, Vec<Measured>)> {
        let (mut out, mut measured) = (Vec::new(), Vec::new());
        run(&toml::from_str(lines)?, None, &mut out, &mut |outcome| {
            measured.push(outcome.measured);
            Ok(())
        })?;
        Ok((String::from_utf8(out)?, measured))
    }

    #[test]
    fn conditions_of_a_field_are_counted_once() {
        let rules = "rules = '''\nfamily ipv4\npermit src 10.0.0.0/8 tcp\npermit src 10.0.0.0/8\npermit udp\n'''\n";
        let claims = "[[claims]]\nid = 'a'\nfields = ['src', 'proto']\n\
                      [[claims]]\nid = 'b'\nfields = ['src', 'proto', 'dst']\nproduct = true\n";
        let numbers = |numbers: &[f64]| Measured::Numbers(numbers.to_vec());
        let (_, found) = measured(&format!("{rules}{claims}")).expect("a run");
        assert_eq!(found, [numbers(&[2.0, 3.0]), numbers(&[6.0])]);
        let (out, _) = measured("profiles = ['openflow']\nsizes = [200]").expect("a run");
        assert!(out.contains("| openflow 200, conditions per rule |    0.02 |") && out.contains(" eth_type "), "{out}");
        for (bad, expected) in [
            (format!("{rules}{}", claims.replace("'dst'", "'to'")), "claim `b`: there is no field `to`"),
            (claims.to_owned(), "claims are about `rules`"),
        ] {
            let error = format!("{:#}", measured(&bad).expect_err("a bad claim"));
            assert!(error.contains(expected), "{error}");
        }
    }
}
