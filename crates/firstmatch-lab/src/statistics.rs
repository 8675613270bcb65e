//! Medians, spread, and the significance of ratios.

/// Summary of the figures of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) min: f64,
    pub(crate) lower_quartile: f64,
    pub(crate) median: f64,
    pub(crate) upper_quartile: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Summarises the figures; `None` if there is none.
    pub(crate) fn of(figures: &[f64]) -> Option<Self> {
        let mut sorted = figures.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        // Interpolates between two figures if the position is not an integer.
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        (!sorted.is_empty()).then(|| Self {
            min: at(0.0),
            lower_quartile: at(0.25),
            median: at(0.5),
            upper_quartile: at(0.75),
            max: at(1.0),
        })
    }

    /// Summarises a figure that has no spread.
    pub(crate) fn exactly(figure: f64) -> Self {
        Self { min: figure, lower_quartile: figure, median: figure, upper_quartile: figure, max: figure }
    }

    /// Returns half the interquartile range over the median.
    pub(crate) fn spread(&self) -> f64 {
        (self.upper_quartile - self.lower_quartile) / 2.0 / self.median
    }
}

/// Noise floor above which a run is void.
const VOID: f64 = 0.08;

/// Returns whether a noise floor voids a run; NaN does.
pub(crate) fn is_void(floor: f64) -> bool {
    floor.is_nan() || floor > VOID
}

/// Returns the noise floor of two figures of one engine: their distance over the smaller.
///
/// For example, 100 ns and 105 ns give 5 %.
pub(crate) fn noise_floor(one: f64, other: f64) -> f64 {
    (one - other).abs() / one.min(other)
}

/// Returns the wider of two noise floors, for a ratio of figures that have one each.
///
/// It is NaN if either is.
pub(crate) fn wider(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() { f64::NAN } else { one.max(other) }
}

/// Result of comparing a ratio of medians with a noise floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Less,
    /// Closer to 1 than the noise floor.
    Same,
    More,
    /// The noise is too large to tell.
    Void,
}

impl Verdict {
    pub(crate) fn of(ratio: f64, floor: f64) -> Self {
        match ratio {
            _ if is_void(floor) => Self::Void,
            // A ratio and its inverse are equally far from 1.
            _ if ratio.max(1.0 / ratio) - 1.0 <= floor => Self::Same,
            _ if ratio < 1.0 => Self::Less,
            _ => Self::More,
        }
    }

    /// Returns the mark behind a ratio that is no win.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Less | Self::More => "",
            Self::Same => " ≈",
            Self::Void => " ?",
        }
    }
}

/// Returns the geometric mean; `None` without figures.
pub(crate) fn geometric_mean(figures: &[f64]) -> Option<f64> {
    let logs: f64 = figures.iter().map(|figure| figure.ln()).sum();
    (!figures.is_empty()).then(|| (logs / figures.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_quartiles() {
        let summary = Summary::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).expect("figures");
        assert_eq!(summary, Summary { min: 1.0, lower_quartile: 2.0, median: 3.0, upper_quartile: 4.0, max: 5.0 });
        assert!((summary.spread() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(Summary::of(&[1.0, 2.0]).map(|s| s.median), Some(1.5));
        assert_eq!((Summary::of(&[]), geometric_mean(&[])), (None, None));
        assert!((geometric_mean(&[1.0, 4.0]).expect("figures") - 2.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_within_the_noise_is_a_win() {
        assert!((noise_floor(100.0, 105.0) - 0.05).abs() < 1e-12);
        assert_eq!(noise_floor(105.0, 100.0), noise_floor(100.0, 105.0));
        assert_eq!(Verdict::of(0.96, 0.05), Verdict::Same);
        assert_eq!(Verdict::of(1.04, 0.05), Verdict::Same);
        assert_eq!(Verdict::of(0.90, 0.05), Verdict::Less);
        assert_eq!(Verdict::of(1.10, 0.05), Verdict::More);
        assert_eq!(Verdict::of(0.10, 0.09), Verdict::Void);
        assert_eq!(Verdict::of(0.10, f64::NAN), Verdict::Void);
    }
}
