//! Verdicts: whether a claim's shape holds.

use super::Measured;
use super::claims::{Claim, Shape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Fails,
    /// No experiment measures the claim.
    NotRun,
}

impl Verdict {
    pub(super) fn of(claim: &Claim, measured: &Measured) -> Self {
        let holds = match (measured, &claim.shape) {
            (Measured::Wins { holds, .. }, _) => *holds,
            (Measured::Text(text), _) => claim.text.as_ref().is_some_and(|claimed| words(claimed) == words(text)),
            (Measured::Numbers(numbers), shape) => {
                let claimed = claim.numbers();
                numbers.len() == claimed.len()
                    && numbers.iter().zip(&claimed).all(|(&number, &claimed)| has_shape(shape, number, claimed))
                    && wins(shape, numbers)
            }
        };
        if holds { Self::Holds } else { Self::Fails }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "FAILS",
            Self::NotRun => "not run",
        }
    }
}

fn has_shape(shape: &Shape, number: f64, claimed: f64) -> bool {
    match shape {
        Shape::Exactly(_) => number == claimed,
        Shape::Within(factor) => number <= claimed * factor && number * factor >= claimed,
        Shape::AtLeast(_) => number >= claimed,
        Shape::AtMost(_) => number <= claimed,
        Shape::Wins(_) => true,
    }
}

/// Returns whether the first engine wins, by two numbers or one.
///
/// The smaller of two numbers is better, because they are times, memory or tables. One number is the advantage of the
/// first engine in per cent.
fn wins(shape: &Shape, numbers: &[f64]) -> bool {
    match (shape, numbers) {
        (Shape::Wins(_), [first, second]) => first < second,
        (Shape::Wins(_), [more]) => *more > 0.0,
        (Shape::Wins(_), _) => false,
        _ => true,
    }
}

/// Splits a text into words, because blanks do not count.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

pub(super) fn shown(measured: &Measured) -> String {
    match measured {
        Measured::Numbers(numbers) => joined(numbers),
        Measured::Text(text) | Measured::Wins { what: text, .. } => text.clone(),
    }
}

/// Returns measured over claimed, number by number.
pub(super) fn ratio(claim: &Claim, measured: &Measured) -> String {
    let Measured::Numbers(numbers) = measured else { return String::new() };
    let ratios: Vec<f64> = numbers.iter().zip(claim.numbers()).map(|(number, claimed)| number / claimed).collect();
    joined(&ratios)
}

pub(super) fn joined(numbers: &[f64]) -> String {
    let number = |number: &f64| {
        let text = format!("{number:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    numbers.iter().map(number).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(value: &str, shape: &str, measured: Measured) -> Verdict {
        let text = format!("id = 'i'\nentry = 'e'\nclaim = 'c'\nwhere = 'w'\n{value}\nshape = {{ {shape} }}");
        Verdict::of(&toml::from_str(&text).expect("a claim"), &measured)
    }

    #[test]
    fn shapes_hold_or_fail() {
        let one = |number| Measured::Numbers(vec![number]);
        for (value, shape, good, bad) in [
            ("value = 30", "within = 2.0", one(15.0), one(14.9)),
            ("value = 30", "within = 2.0", one(60.0), one(60.1)),
            ("value = 30", "exactly = true", one(30.0), one(30.1)),
            ("value = 30", "at_least = true", one(31.0), one(29.0)),
            ("value = 30", "at_most = true", one(29.0), one(31.0)),
            ("values = [1, 2]", "within = 1.5", Measured::Numbers(vec![1.4, 2.0]), Measured::Numbers(vec![1.4, 3.1])),
            ("values = [1, 2]", "within = 1.5", Measured::Numbers(vec![1.0, 2.0]), one(1.0)),
            (
                "values = [1, 2]",
                "wins = ['a', 'b']",
                Measured::Numbers(vec![7.0, 8.0]),
                Measured::Numbers(vec![8.0, 7.0]),
            ),
            ("value = 34", "wins = ['a', 'b']", one(0.5), one(-0.5)),
            ("text = 'a  b'", "exactly = true", Measured::Text("a b".into()), Measured::Text("ab".into())),
        ] {
            assert_eq!(verdict(value, shape, good), Verdict::Holds, "{value} {shape}");
            assert_eq!(verdict(value, shape, bad), Verdict::Fails, "{value} {shape}");
        }
    }
}
