//! Loads of a lookup by decomposition: Qu, Zhou and Prasanna's Equation 1 beside the words that the engine reads.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::bench::{Scale, Traffic, Workbench};
use super::lists::{Bias, Plan};
use super::{Emit, Measured, Outcome};
use crate::definition::Engine;
use crate::digest::Running;
use crate::table::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Loads {
    profiles: Vec<String>,
    /// Two sizes of rule sets, from which factor and constant follow.
    sizes: [usize; 2],
    #[serde(flatten)]
    equation: Equation,
    engine: Engine,
    pub(super) claims: Vec<About>,
}

/// Parameters of Equation 1.
#[derive(Clone, Debug, Deserialize)]
struct Equation {
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
}

/// Subject of a claim. Each number is given twice, because the claims have one for each of two processors.
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
    /// Equation 1 without factor and constant.
    Theory,
    /// Words of 64 bits that the engine reads a packet.
    Measured,
    /// Factor of Equation 1, the slope through both sizes.
    Factor,
    /// Constant of Equation 1.
    Constant,
}

impl Equation {
    /// Returns the loads of a lookup among `rules` rules, without factor and constant; logarithms are rounded up.
    fn loads(&self, rules: usize) -> f64 {
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
}

pub(super) fn run(run: &Loads, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    ensure!(run.profiles.len() == 1 && run.sizes[0] != run.sizes[1], "expected one profile, and two different sizes");
    let theory = run.sizes.map(|rules| run.equation.loads(rules));
    let (mut measured, mut digest) = ([0.0; 2], Running::default());
    let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: 1, bias: Bias::default(), seeds };
    plan.each(|place, set| {
        let bench = Workbench::new(set, Traffic::Synthetic, None, place.seed, Scale::default())?;
        let engine = bench.build(&run.engine)?;
        measured[place.size] = bench.count(&*engine, "words")?;
        bench.add_to(&mut digest, &bench.answers(&*engine));
        Ok(())
    })?;
    let factor = (measured[1] - measured[0]) / (theory[1] - theory[0]);
    let constant = measured[0] - factor * theory[0];
    let mut table = table(["rules", "Equation 1", "words read"]);
    for ((rules, theory), measured) in run.sizes.iter().zip(theory).zip(measured) {
        table.add_row([rules.to_string(), format!("{theory:.0}"), format!("{measured:.1}")]);
    }
    writeln!(out, "{table}\nfactor {factor:.2}, constant {constant:.0}")?;
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let of_size = |numbers: [f64; 2]| {
            let at = run.sizes.iter().position(|&size| Some(size) == about.rules);
            at.map(|at| numbers[at]).with_context(|| format!("claim `{}`: `rules` is none of the sizes", about.id))
        };
        let number = match about.of {
            Of::Theory => of_size(theory)?,
            Of::Measured => of_size(measured)?,
            Of::Factor => factor,
            Of::Constant => constant,
        };
        emit(Outcome::exact(&about.id, Measured::Numbers(vec![number; 2]), &digest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::{numbers, ran};

    const PAPER: &str = "width = 64\nfunctions = 2\nmerged = 0.5\nexact = [64, 48, 48]\n\
                         ranges = [[45, 1.0], [62, 1.0], [32, 0.25], [32, 0.25], [16, 0.1], [16, 0.1]]\n";

    /// The second figure is the one of Table V.
    #[test]
    fn equation_1_gives_the_printed_loads() {
        let equation: Equation = toml::from_str(PAPER).expect("parameters");
        let sizes = [1, 2, 4, 8, 16, 32].map(|thousands| equation.loads(thousands << 10));
        assert_eq!(sizes, [272.0, 494.0, 932.0, 1802.0, 3536.0, 6998.0]);
    }

    #[test]
    fn words_read_give_factor_and_constant() {
        let claims = ["theory", "measured", "factor", "constant"].map(|of| {
            let rules = if matches!(of, "theory" | "measured") { "rules = 300" } else { "" };
            format!("[[claims]]\nid = '{of}'\nof = '{of}'\n{rules}\n")
        });
        let of = |claims: &str| {
            let engine = "[engine]\nengine = 'decomposition'\nconfig = { plain = true }\n";
            let text = format!("profiles = ['openflow']\nsizes = [300, 600]\n{PAPER}{engine}{claims}");
            anyhow::Ok(ran(run, &text)?.1.iter().map(|outcome| numbers(outcome)[0]).collect::<Vec<f64>>())
        };
        let found = of(&claims.concat()).expect("a run");
        let [theory, measured, factor, constant] = found[..] else { panic!("four claims") };
        assert!(measured > 100.0 && (factor * theory + constant - measured).abs() < 1e-9, "{found:?}");
        assert!(of(&claims[0].replace("300", "301")).is_err());
    }
}
