//! Claims of a paper: `expected.toml`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// All claims of a paper, and its figures and tables without a claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claims {
    pub(super) claims: Vec<Claim>,
    #[serde(default)]
    pub(super) setup: Vec<Setup>,
    #[serde(default)]
    pub(super) unclaimed: Vec<Unclaimed>,
}

/// Figure or table that nothing can be compared with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unclaimed {
    pub(super) entry: String,
    pub(super) why: String,
}

/// Fact of the paper's set-up, which no measurement shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Setup {
    id: String,
    pub(super) entry: String,
    claim: String,
    #[serde(rename = "where")]
    #[expect(dead_code, reason = "for readers of the file")]
    place: String,
    value: Option<f64>,
    values: Option<Vec<f64>>,
    text: Option<String>,
    unit: Option<String>,
    #[expect(dead_code, reason = "for readers of the file")]
    reading: Option<toml::Value>,
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
    /// Test of the repository that shows it, with the paper's numbers; it fails there if it has a reason.
    pub(super) tested: Option<String>,
    /// Reason why it fails, is undecided or is not run here.
    pub(super) reason: Option<String>,
    pub(super) shape: Shape,
    /// The better of two measured figures.
    pub(super) better: Option<Better>,
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
    /// Each contestant is better than the next.
    Wins(Vec<String>),
    /// Nothing has to hold: the figure is an absolute time or rate of the paper's machine.
    Stated(bool),
}

/// Direction of the better figure.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    More,
    Less,
}

impl Better {
    /// Returns whether `first` is better than `second`; equal figures and NaN are not.
    pub(super) fn wins(self, first: f64, second: f64) -> bool {
        match self {
            Self::More => first > second,
            Self::Less => first < second,
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
        for claim in &self.claims {
            ensure!(ids.insert(&claim.id), "there are two claims `{}`", claim.id);
            claim.check().with_context(|| format!("claim `{}`", claim.id))?;
        }
        for setup in &self.setup {
            ensure!(ids.insert(&setup.id), "there are two claims `{}`", setup.id);
            said(setup.value, setup.values.as_ref(), setup.text.as_ref())
                .with_context(|| format!("set-up `{}`", setup.id))?;
        }
        let mut entries = BTreeSet::new();
        for Unclaimed { entry, why } in &self.unclaimed {
            ensure!(entries.insert(entry), "unclaimed: `{entry}` is listed twice");
            ensure!(!why.trim().is_empty(), "unclaimed: `{entry}` has no `why`");
            let claimed = self.entries().any(|other| other == entry);
            ensure!(!claimed, "unclaimed: there is a claim about `{entry}`");
        }
        Ok(())
    }

    /// Returns the entry of each claim and of each fact of the set-up.
    pub(super) fn entries(&self) -> impl Iterator<Item = &str> {
        let claimed = self.claims.iter().map(|claim| claim.entry.as_str());
        claimed.chain(self.setup.iter().map(|setup| setup.entry.as_str()))
    }

    pub(super) fn get(&self, id: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.id == id)
    }
}

/// Checks that one of the ways to state a claim is taken.
fn said(value: Option<f64>, values: Option<&Vec<f64>>, text: Option<&String>) -> anyhow::Result<()> {
    let said = usize::from(value.is_some()) + usize::from(values.is_some()) + usize::from(text.is_some());
    ensure!(said == 1, "expected one of `value`, `values` and `text`");
    Ok(())
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<f64> = self.value.into_iter().chain(self.values.iter().flatten().copied()).collect();
        let said = self.text.clone().unwrap_or_else(|| super::verdict::joined(&numbers));
        write!(f, "{}: {said}", self.claim)?;
        self.unit.iter().try_for_each(|unit| write!(f, " {unit}"))
    }
}

impl Claim {
    fn check(&self) -> anyhow::Result<()> {
        let Self { value, values, text, shape, better, .. } = self;
        said(*value, values.as_ref(), text.as_ref())?;
        match shape {
            Shape::Exactly(yes) | Shape::AtLeast(yes) | Shape::AtMost(yes) | Shape::Stated(yes) => {
                ensure!(*yes, "the shape is false; expected true, or another shape");
            }
            Shape::Within(factor) => ensure!(*factor >= 1.0, "within {factor}; expected a factor of at least 1"),
            Shape::Wins(names) => {
                ensure!(names.len() > 1, "`wins` has {} name; expected two at least", names.len());
                if self.gain().is_some() {
                    ensure!(names.len() == 2, "a gain is of one contestant over one other; expected two names");
                } else {
                    ensure!(better.is_some(), "expected `better = \"more\"` or `better = \"less\"`");
                    let numbers = self.numbers().len();
                    ensure!(
                        numbers.is_multiple_of(names.len()),
                        "{numbers} numbers of {} contestants; expected one of each in every group",
                        names.len()
                    );
                }
            }
        }
        ensure!(self.reason.as_ref().is_none_or(|reason| !reason.trim().is_empty()), "`reason` is empty");
        let takes_better = matches!(shape, Shape::Wins(_)) && self.gain().is_none();
        ensure!(better.is_none() || takes_better, "`better` is for `wins` alone, and not for gains");
        Ok(())
    }

    /// Returns the gain that makes no difference, if the numbers are gains: 0 per cent, or a factor of 1.
    pub(super) fn gain(&self) -> Option<f64> {
        match self.unit.as_deref() {
            Some("%") => Some(0.0),
            Some("x") => Some(1.0),
            _ => None,
        }
    }

    /// Returns the claimed numbers; none for a structure.
    pub(super) fn numbers(&self) -> Vec<f64> {
        self.value.into_iter().chain(self.values.iter().flatten().copied()).collect()
    }

    /// Returns the claim as text.
    pub(super) fn claimed(&self) -> String {
        self.text.clone().unwrap_or_else(|| super::verdict::joined(&self.numbers()))
    }

    /// Returns the shape as text, such as `tss before tuplemerge, less is better`.
    pub(super) fn shape_text(&self) -> String {
        match self.better {
            Some(Better::More) => format!("{}, more is better", self.shape),
            Some(Better::Less) => format!("{}, less is better", self.shape),
            None => self.shape.to_string(),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(_) => f.write_str("exactly"),
            Self::Within(factor) => write!(f, "within a factor of {factor}"),
            Self::AtLeast(_) => f.write_str("at least"),
            Self::AtMost(_) => f.write_str("at most"),
            Self::Wins(names) => f.write_str(&names.join(" before ")),
            Self::Stated(_) => f.write_str("stated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(lines: &str) -> String {
        let text = format!("[[claims]]\nid = 'i'\nentry = 'fig1'\nclaim = 'c'\nwhere = 'w'\n{lines}");
        let claims: Result<Claims, _> = toml::from_str(&text);
        match claims.map(|claims| claims.check()) {
            Ok(Ok(())) => String::new(),
            Ok(Err(error)) => format!("{error:#}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn bad_claims_are_refused() {
        let wins = "shape = { wins = ['a', 'b'] }";
        for (lines, expected) in [
            (format!("values = [1, 2]\n{wins}\nbetter = 'less'"), ""),
            (format!("value = 3\nunit = '%'\n{wins}"), ""),
            (format!("values = [1, 2]\n{wins}"), "expected `better"),
            (format!("text = 't'\n{wins}"), "expected `better"),
            (format!("value = 3\n{wins}\nbetter = 'less'"), "1 numbers of 2 contestants"),
            (format!("value = 3\nunit = '%'\n{wins}\nbetter = 'less'"), "not for gains"),
            ("value = 3\nunit = 'x'\nshape = { wins = ['a', 'b', 'c'] }".into(), "expected two names"),
            ("value = 3\nshape = { at_most = true }\nbetter = 'less'".into(), "for `wins` alone"),
            ("value = 3\nshape = { stated = false }".into(), "expected true"),
            ("value = 3\nshape = { within = 0.5 }".into(), "a factor of at least 1"),
            ("value = 3\ntext = 't'\nshape = { stated = true }".into(), "expected one of"),
            (
                "value = 3\nshape = { stated = true }\n[[unclaimed]]\nentry = 'fig1'\nwhy = 'w'".into(),
                "there is a claim about `fig1`",
            ),
            ("value = 3\nshape = { stated = true }\n[[unclaimed]]\nentry = 'fig2'\nwhy = ' '".into(), "has no `why`"),
        ] {
            let error = error(&lines);
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{lines}: {error}");
        }
    }
}
