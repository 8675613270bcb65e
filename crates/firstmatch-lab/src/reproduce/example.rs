//! Worked examples: what engines make of a few rules, or answer for a few packets, as text.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use firstmatch_core::rule::{ExpansionLimits, FieldValues, lower};
use firstmatch_core::{Classifier, KeyBuf, Match, RuleSet};
use firstmatch_formats::Options;
use serde::Deserialize;

use super::bench::count_of;
use super::verdict::shown;
use super::{Emit, Measured, Outcome, mean};
use crate::definition::Engine;
use crate::digest::Running;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    /// Text of a rule file.
    rules: String,
    pub(super) claims: Vec<About>,
}

/// Claim about an engine over the rules.
#[derive(Debug, Deserialize)]
pub(super) struct About {
    pub(super) id: String,
    /// Packets, each with a value for every field, whose answers are claimed; without any, the structure is.
    #[serde(default)]
    packets: Vec<Vec<u64>>,
    /// Counts that are claimed instead: of the steps of the packets' lookups or, without packets, of the structure.
    #[serde(default)]
    counts: Vec<String>,
    /// Quantity that is claimed instead.
    of: Option<Of>,
    /// Fields whose conditions are meant; by default all.
    #[serde(default)]
    fields: Vec<String>,
    #[serde(flatten)]
    engine: Engine,
}

/// Quantity of a claim that is neither structure, answers nor counts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Distinct conditions in each field.
    Distinct,
    /// Mean of these.
    Mean,
    /// Their cross product.
    Product,
    /// Fields that the root of a tree cuts, and the number of its children.
    Root,
}

pub(super) fn run(run: &Example, _: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    let file = firstmatch_formats::parse(&run.rules, &Options::default()).context("rules")?;
    let schema = &file.rules.schemas()[0];
    let lowered = lower(&file.rules, schema, &ExpansionLimits::default())?;
    let mut digest = Running::default();
    digest.add_rules(&file.rules);
    let digest = digest.finish();
    for About { id, packets, counts: names, of, fields, engine } in &run.claims {
        let here = || format!("claim `{id}`");
        let built = (engine.recipe()?.build)(&lowered)?;
        let mut keys = KeyBuf::new(schema);
        for values in packets {
            let (given, fields) = (values.len(), schema.fields().len());
            ensure!(given == fields, "{}: a packet has {given} values; expected {fields}", here());
            let values = values.iter().map(|&value| Some(value.into())).collect();
            keys.push_values(&FieldValues { family: schema.family(), values });
        }
        if let Some(of) = of {
            let measured = match of {
                Of::Distinct => Measured::Numbers(conditions(&file.rules, fields).with_context(here)?),
                Of::Mean => {
                    Measured::Numbers(vec![mean(conditions(&file.rules, fields).with_context(here)?.into_iter())])
                }
                Of::Product => {
                    Measured::Numbers(vec![conditions(&file.rules, fields).with_context(here)?.iter().product()])
                }
                Of::Root => {
                    let text =
                        built.structure().with_context(|| format!("{} describes no structure", engine.name()))?;
                    Measured::Text(root(&text).with_context(here)?)
                }
            };
            writeln!(out, "{id}: {}", shown(&measured))?;
            emit(Outcome::exact(id, measured, &digest))?;
            continue;
        }
        let mut answers = vec![None; packets.len()];
        let steps = built.count_batch(&mut built.scratch(), &keys.keys(), &mut answers);
        let measured = if !names.is_empty() {
            let counts = if packets.is_empty() { built.stats().counts } else { steps };
            let numbers = names.iter().map(|name| count_of(&counts, name)).collect::<anyhow::Result<_>>();
            Measured::Numbers(numbers.with_context(here)?)
        } else if packets.is_empty() {
            let text = built.structure().with_context(|| format!("{} describes no structure", engine.name()))?;
            Measured::Text(text.lines().collect::<Vec<_>>().join(", "))
        } else {
            let rule =
                |found: &Option<Match>| found.map_or("none".into(), |found| format!("r{}", found.rule.slot() + 1));
            Measured::Text(answers.iter().map(rule).collect::<Vec<_>>().join(", "))
        };
        writeln!(out, "{id}: {}", shown(&measured))?;
        emit(Outcome::exact(id, measured, &digest))?;
    }
    Ok(())
}

/// Returns the number of distinct conditions in each of some fields, or in all if none is named.
fn conditions(rules: &RuleSet, fields: &[String]) -> anyhow::Result<Vec<f64>> {
    let all = rules.schemas()[0].fields();
    let of = |field: usize| {
        let conditions = rules.iter().map(|rule| {
            rule.conditions.on(field).map(|condition| (condition.negated, condition.tests().collect::<Vec<_>>()))
        });
        conditions.collect::<HashSet<_>>().len() as f64
    };
    if fields.is_empty() {
        return Ok((0..all.len()).map(of).collect());
    }
    let place = |name: &String| all.iter().position(|field| field.name() == name);
    let one = |name: &String| place(name).map(of).with_context(|| format!("there is no field `{name}`"));
    fields.iter().map(one).collect()
}

/// Returns the fields that the root of a tree cuts, and the number of its children, from the tree as text.
fn root(structure: &str) -> anyhow::Result<String> {
    let cuts = structure.strip_prefix('[').and_then(|text| text.split_once(':')).context("the root is a leaf")?.0;
    let (mut names, mut children) = (Vec::new(), 1);
    for cut in cuts.split(' ').filter(|cut| !cut.contains(['{', '}'])) {
        let (name, parts) = cut.split_once('/').with_context(|| format!("`{cut}` is no cut"))?;
        names.push(name.to_uppercase());
        children *= parts.parse::<usize>()?;
    }
    Ok(format!("{}; {children} children", names.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::ran;

    #[test]
    fn roots_are_read_from_structures() {
        assert_eq!(root("[f2/4 f4/2: {r1} {r2}]").expect("a root"), "F2 and F4; 8 children");
        assert_eq!(root("[src/16 {r3 r4}: {r1} {r2}]").expect("a root"), "SRC; 16 children");
        assert!(root("{r1 r2}").is_err_and(|error| error.to_string() == "the root is a leaf"));
    }

    fn texts(claims: &str) -> anyhow::Result<Vec<Measured>> {
        let rules = "schema {\n x 3 prefix\n y 3 range\n}\nmatch x 4/1 y 2-3\nmatch y 3\n";
        let (_, outcomes) = ran(run, &format!("rules = '''\n{rules}'''\n{claims}"))?;
        Ok(outcomes.into_iter().map(|outcome| outcome.measured).collect())
    }

    fn claim(more: &str) -> String {
        format!("[[claims]]\nid = 'a'\n{more}\n")
    }

    #[test]
    fn conditions_of_a_field_are_counted_once() {
        let of = |of: &str, fields: &str| claim(&format!("engine = 'linear'\nof = '{of}'\nfields = [{fields}]"));
        let claims = of("distinct", "'y', 'x'") + &of("distinct", "") + &of("mean", "") + &of("product", "'x', 'y'");
        let numbers = |numbers: &[f64]| Measured::Numbers(numbers.to_vec());
        let expected = [numbers(&[2.0, 2.0]), numbers(&[2.0, 2.0]), numbers(&[2.0]), numbers(&[4.0])];
        assert_eq!(texts(&claims).expect("a run"), expected);
        let error = format!("{:#}", texts(&of("distinct", "'z'")).expect_err("a bad claim"));
        assert!(error.contains("claim `a`: there is no field `z`"), "{error}");
    }

    #[test]
    fn answers_and_structures_are_text() {
        let packets = "packets = [[4, 3], [3, 3], [7, 1]]";
        let both = claim(&format!("engine = 'linear'\n{packets}")) + &claim("engine = 'tss'");
        let both = both + &claim("engine = 'linear'\ncounts = ['tests']\npackets = [[4, 3], [3, 3]]");
        let [answers, structure, count] = &texts(&both).expect("a run")[..] else { panic!("three claims") };
        assert_eq!(*answers, Measured::Text("r1, r2, none".into()));
        assert_eq!(*structure, Measured::Text("(1,2){r1}, (0,3){r2}".into()));
        // Blocks of eight regions are tested at once.
        assert_eq!(*count, Measured::Numbers(vec![16.0]));
        for (bad, expected) in [
            ("engine = 'linear'", "linear describes no structure"),
            ("engine = 'linear'\ncounts = ['hops']\npackets = [[4, 3]]", "nothing counts `hops`; expected one of "),
            ("engine = 'linear'\npackets = [[4]]", "a packet has 1 values; expected 2"),
            ("engine = 'nothing'", "there is no engine `nothing`"),
            ("engine = 'tss'\nconfig = { speed = 1 }", "no option `speed`"),
        ] {
            let error = format!("{:#}", texts(&claim(bad)).expect_err("a bad claim"));
            assert!(error.contains(expected), "{error}");
        }
    }
}
