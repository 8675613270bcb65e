//! Claims of a paper: `expected.toml`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// All claims of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claims {
    pub(super) claims: Vec<Claim>,
}

/// Number, row or structure that the text states.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) id: String,
    /// Figure, table or section.
    pub(super) entry: String,
    pub(super) claim: String,
    /// Place in the text.
    #[serde(rename = "where")]
    #[expect(dead_code, reason = "for readers of the file")]
    place: String,
    value: Option<f64>,
    values: Option<Vec<f64>>,
    pub(super) text: Option<String>,
    pub(super) unit: Option<String>,
    /// Reading of a text that is wrong or vague.
    #[expect(dead_code, reason = "for readers of the file")]
    reading: Option<toml::Value>,
    pub(super) shape: Shape,
}

/// Property of a claim that must hold on another machine.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    Exactly(bool),
    /// Equal within this factor.
    Within(f64),
    AtLeast(bool),
    AtMost(bool),
    /// The first engine is better than the second.
    Wins([String; 2]),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(_) => f.write_str("exactly"),
            Self::Within(factor) => write!(f, "within a factor of {factor}"),
            Self::AtLeast(_) => f.write_str("at least"),
            Self::AtMost(_) => f.write_str("at most"),
            Self::Wins([first, second]) => write!(f, "{first} before {second}"),
        }
    }
}

impl Claims {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let claims: Self = toml::from_str(&text).with_context(|| path.display().to_string())?;
        claims.check().with_context(|| path.display().to_string())?;
        Ok(claims)
    }

    fn check(&self) -> anyhow::Result<()> {
        let mut ids = BTreeSet::new();
        for Claim { id, value, values, text, shape, .. } in &self.claims {
            ensure!(ids.insert(id), "there are two claims `{id}`");
            let said = usize::from(value.is_some()) + usize::from(values.is_some()) + usize::from(text.is_some());
            ensure!(said == 1, "claim `{id}`: expected one of `value`, `values` and `text`");
            if let Shape::Within(factor) = shape {
                ensure!(*factor >= 1.0, "claim `{id}`: within {factor}; expected a factor of at least 1");
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, id: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.id == id)
    }
}

impl Claim {
    /// Returns the claimed numbers; none for a structure.
    pub(super) fn numbers(&self) -> Vec<f64> {
        self.value.into_iter().chain(self.values.iter().flatten().copied()).collect()
    }

    /// Returns the claim as text.
    pub(super) fn claimed(&self) -> String {
        self.text.clone().unwrap_or_else(|| super::verdict::joined(&self.numbers()))
    }
}
