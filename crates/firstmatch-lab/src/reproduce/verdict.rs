//! Verdicts: whether a claim's shape holds.

use super::claims::{Claim, Shape};
use super::{Measured, Outcome, Reach};

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Verdict {
    Holds,
    Fails,
    /// The claim is an absolute figure of the paper's machine, which stands beside ours.
    Stated,
    /// The optimum lies on the edge of the grid, or the verdict turns within the noise.
    Undecided,
    /// No experiment measures the claim, and no test shows it.
    NotRun,
}

impl Verdict {
    /// In the order of tables.
    pub(crate) const ALL: [Self; 5] = [Self::Holds, Self::Fails, Self::Stated, Self::Undecided, Self::NotRun];

    pub(super) fn of(claim: &Claim, outcome: &Outcome) -> Self {
        if matches!(claim.shape, Shape::Stated(_)) {
            return Self::Stated;
        }
        let verdict = Self::by(claim, &outcome.measured, outcome.reach);
        let is_stable = outcome.nearby.iter().all(|(measured, reach)| Self::by(claim, measured, *reach) == verdict);
        if is_stable { verdict } else { Self::Undecided }
    }

    /// Returns the verdict on a claim that no experiment measures.
    pub(super) fn without_run(claim: &Claim) -> Self {
        match (&claim.tested, &claim.reason) {
            (None, _) => Self::NotRun,
            (Some(_), None) => Self::Holds,
            (Some(_), Some(_)) => Self::Fails,
        }
    }

    fn by(claim: &Claim, measured: &Measured, reach: Reach) -> Self {
        match reach {
            Reach::Whole if holds(claim, measured) => Self::Holds,
            Reach::Whole => Self::Fails,
            // A lower bound above the largest number allowed is enough.
            Reach::LowerBound if claim.shape == Shape::AtMost(true) && !holds(claim, measured) => Self::Fails,
            Reach::LowerBound | Reach::Edge => Self::Undecided,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "FAILS",
            Self::Stated => "stated",
            Self::Undecided => "undecided",
            Self::NotRun => "not run",
        }
    }
}

impl TryFrom<String> for Verdict {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|verdict| verdict.name() == name).ok_or(format!("expected one of {names}"))
    }
}

fn holds(claim: &Claim, measured: &Measured) -> bool {
    match measured {
        Measured::Pairs { pairs, .. } => {
            let better = claim.better.filter(|_| matches!(claim.shape, Shape::Wins(_)) && !pairs.is_empty());
            better.is_some_and(|better| pairs.iter().all(|&(first, second)| better.wins(first, second)))
        }
        Measured::Text(text) => claim.text.as_ref().is_some_and(|claimed| words(claimed) == words(text)),
        Measured::Numbers(numbers) | Measured::Projected(numbers) => {
            let claimed = claim.numbers();
            let as_many = claim.text.is_some() || numbers.len() == claimed.len();
            as_many
                && match &claim.shape {
                    Shape::Wins(names) => wins(claim, names.len(), numbers),
                    shape => {
                        claim.text.is_none() && numbers.iter().zip(&claimed).all(|(&n, &c)| has_shape(shape, n, c))
                    }
                }
        }
    }
}

fn has_shape(shape: &Shape, number: f64, claimed: f64) -> bool {
    match shape {
        Shape::Exactly(_) => number == claimed,
        Shape::Within(factor) => number <= claimed * factor && number * factor >= claimed,
        Shape::AtLeast(_) => number >= claimed,
        Shape::AtMost(_) => number <= claimed,
        Shape::Wins(_) | Shape::Stated(_) => true,
    }
}

/// Returns whether each contestant is better than the next, in every group of numbers.
///
/// Each gain has to be one: more than 0 per cent, or a factor of more than 1.
fn wins(claim: &Claim, contestants: usize, numbers: &[f64]) -> bool {
    if let Some(none) = claim.gain() {
        return !numbers.is_empty() && numbers.iter().all(|&gain| gain > none);
    }
    let better = claim.better.filter(|_| !numbers.is_empty() && numbers.len().is_multiple_of(contestants));
    better.is_some_and(|better| {
        let mut pairs = numbers.chunks(contestants).flat_map(|group| group.windows(2));
        pairs.all(|pair| better.wins(pair[0], pair[1]))
    })
}

/// Splits a text into words, because blanks do not count.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

pub(super) fn shown(measured: &Measured) -> String {
    match measured {
        Measured::Numbers(numbers) => joined(numbers),
        Measured::Projected(numbers) => format!("{} (projected)", joined(numbers)),
        Measured::Text(text) | Measured::Pairs { what: text, .. } => text.clone(),
    }
}

/// Returns measured over claimed, number by number; nothing if the claim has other numbers.
pub(super) fn ratio(claim: &Claim, measured: &Measured) -> String {
    let (Measured::Numbers(numbers) | Measured::Projected(numbers)) = measured else { return String::new() };
    let claimed = claim.numbers();
    if numbers.len() != claimed.len() {
        return String::new();
    }
    let ratios: Vec<f64> = numbers.iter().zip(claimed).map(|(number, claimed)| number / claimed).collect();
    joined(&ratios)
}

/// Returns numbers as text: two decimals, or three digits of what is below 0.1.
pub(super) fn joined(numbers: &[f64]) -> String {
    let number = |&number: &f64| {
        if number.is_nan() {
            return "none".to_owned();
        }
        let leading = if number == 0.0 { 0.0 } else { -number.abs().log10().floor() };
        let decimals = if leading > 1.0 { leading as usize + 2 } else { 2 };
        let text = format!("{number:.decimals$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    numbers.iter().map(number).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &str, measured: Measured, reach: Reach) -> Verdict {
        let text = format!("id = 'i'\nentry = 'e'\nclaim = 'c'\nwhere = 'w'\n{lines}");
        let claim: Claim = toml::from_str(&text).expect("a claim");
        Verdict::of(&claim, &Outcome { reach, ..Outcome::exact("i", measured, "") })
    }

    fn numbers(numbers: &[f64]) -> Measured {
        Measured::Numbers(numbers.to_vec())
    }

    fn pairs(pairs: &[(f64, f64)]) -> Measured {
        Measured::Pairs { pairs: pairs.to_vec(), what: "w".into() }
    }

    #[test]
    fn shapes_hold_or_fail() {
        let row = "value = 30\nshape = ";
        let wins = "shape = { wins = ['a', 'b'] }\nbetter = ";
        let three = "shape = { wins = ['a', 'b', 'c'] }\nbetter = ";
        for (lines, good, bad) in [
            (format!("{row}{{ within = 2.0 }}"), numbers(&[15.0]), numbers(&[14.9])),
            (format!("{row}{{ within = 2.0 }}"), numbers(&[60.0]), numbers(&[60.1])),
            (format!("{row}{{ exactly = true }}"), numbers(&[30.0]), numbers(&[30.1])),
            (format!("{row}{{ at_least = true }}"), numbers(&[31.0]), numbers(&[29.0])),
            (format!("{row}{{ at_most = true }}"), numbers(&[29.0]), numbers(&[31.0])),
            (format!("{row}{{ at_most = true }}"), numbers(&[29.0]), numbers(&[f64::NAN])),
            ("values = [1, 2]\nshape = { within = 1.5 }".into(), numbers(&[1.4, 2.0]), numbers(&[1.4, 3.1])),
            ("values = [1, 2]\nshape = { within = 1.5 }".into(), numbers(&[1.0, 2.0]), numbers(&[1.0])),
            // The claim says which of two is better.
            (format!("values = [1, 2]\n{wins}'less'"), numbers(&[7.0, 8.0]), numbers(&[8.0, 7.0])),
            (format!("values = [2, 1]\n{wins}'more'"), numbers(&[8.0, 7.0]), numbers(&[7.0, 8.0])),
            (format!("values = [2, 1]\n{wins}'more'"), numbers(&[8.0, 7.0]), numbers(&[8.0, 8.0])),
            // Every group of contestants is judged.
            (
                format!("values = [2, 1, 4, 3]\n{wins}'more'"),
                numbers(&[8.0, 7.0, 2.0, 1.0]),
                numbers(&[8.0, 7.0, 1.0, 2.0]),
            ),
            (format!("text = 't'\n{three}'less'"), numbers(&[1.0, 2.0, 3.0]), numbers(&[1.0, 3.0, 2.0])),
            (format!("text = 't'\n{three}'less'"), numbers(&[1.0, 2.0, 3.0]), numbers(&[1.0, 2.0])),
            // Gains.
            ("value = 34\nunit = '%'\nshape = { wins = ['a', 'b'] }".into(), numbers(&[0.5]), numbers(&[-0.5])),
            (
                "values = [30, 29]\nunit = '%'\nshape = { wins = ['a', 'b'] }".into(),
                numbers(&[0.5, 1.0]),
                numbers(&[30.0, 0.0]),
            ),
            ("value = 3\nunit = 'x'\nshape = { wins = ['a', 'b'] }".into(), numbers(&[1.1]), numbers(&[0.9])),
            (format!("text = 't'\n{wins}'less'"), pairs(&[(1.0, 2.0), (3.0, 4.0)]), pairs(&[(1.0, 2.0), (4.0, 3.0)])),
            (format!("text = 't'\n{wins}'more'"), pairs(&[(2.0, 1.0)]), pairs(&[])),
            (
                "text = 'a  b'\nshape = { exactly = true }".into(),
                Measured::Text("a b".into()),
                Measured::Text("ab".into()),
            ),
        ] {
            assert_eq!(verdict(&lines, good, Reach::Whole), Verdict::Holds, "{lines}");
            assert_eq!(verdict(&lines, bad, Reach::Whole), Verdict::Fails, "{lines}");
        }
    }

    #[test]
    fn absolute_figures_are_stated_and_edges_decide_nothing() {
        let stated = "value = 30\nunit = 'ns'\nshape = { stated = true }";
        assert_eq!(verdict(stated, numbers(&[3000.0]), Reach::Whole), Verdict::Stated);
        let within = "value = 30\nshape = { within = 2.0 }";
        for number in [30.0, 3000.0] {
            assert_eq!(verdict(within, numbers(&[number]), Reach::Edge), Verdict::Undecided);
            assert_eq!(verdict(within, numbers(&[number]), Reach::LowerBound), Verdict::Undecided);
        }
        let at_most = "value = 30\nshape = { at_most = true }";
        assert_eq!(verdict(at_most, numbers(&[29.0]), Reach::LowerBound), Verdict::Undecided);
        assert_eq!(verdict(at_most, numbers(&[31.0]), Reach::LowerBound), Verdict::Fails);
        assert_eq!(verdict(at_most, numbers(&[31.0]), Reach::Edge), Verdict::Undecided);
    }

    #[test]
    fn verdicts_that_turn_within_the_noise_are_undecided() {
        let claim = "value = 30\nunit = '%'\nshape = { wins = ['a', 'b'] }";
        let claim: Claim =
            toml::from_str(&format!("id = 'i'\nentry = 'e'\nclaim = 'c'\nwhere = 'w'\n{claim}")).expect("a claim");
        let of = |gain: f64, nearby: &[f64]| {
            let nearby = nearby.iter().map(|&gain| (numbers(&[gain]), Reach::Whole)).collect();
            Verdict::of(&claim, &Outcome { nearby, ..Outcome::exact("i", numbers(&[gain]), "") })
        };
        assert_eq!(of(20.0, &[9.0, 32.0]), Verdict::Holds);
        assert_eq!(of(5.0, &[-4.5, 15.5]), Verdict::Undecided);
        assert_eq!(of(-5.0, &[-13.6, 4.5]), Verdict::Undecided);
        assert_eq!(of(-20.0, &[-12.0, -27.3]), Verdict::Fails);
    }

    #[test]
    fn projections_are_judged_and_say_what_they_are() {
        let projected = Measured::Projected(vec![12.0, 3.25]);
        assert_eq!(shown(&projected), "12, 3.25 (projected)");
        let lines = "values = [20, 4]\nshape = { wins = ['a', 'b'] }\nbetter = ";
        assert_eq!(verdict(&format!("{lines}'more'"), projected.clone(), Reach::Whole), Verdict::Holds);
        assert_eq!(verdict(&format!("{lines}'less'"), projected, Reach::Whole), Verdict::Fails);
    }

    #[test]
    fn small_numbers_keep_three_digits() {
        assert_eq!(
            joined(&[0.0, 1.0, 2.345, 0.5, 0.0543, -0.00146, f64::NAN]),
            "0, 1, 2.35, 0.5, 0.0543, -0.00146, none"
        );
        assert_eq!(joined(&[1234.5, -7.541, 0.1, 0.02]), "1234.5, -7.54, 0.1, 0.02");
    }
}
