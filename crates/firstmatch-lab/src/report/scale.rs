//! Axes: linear or logarithmic, with round ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::table::short;

/// Description of an axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Title with the unit.
    pub(crate) title: String,
    pub(crate) log: bool,
    /// Positions of the ticks, if not at round numbers.
    pub(crate) ticks: Option<Vec<f64>>,
}

impl Axis {
    pub(crate) fn log(title: &str) -> Self {
        Self { title: title.to_owned(), log: true, ticks: None }
    }

    /// Creates an axis from 0.
    pub(crate) fn linear(title: &str) -> Self {
        Self { title: title.to_owned(), log: false, ticks: None }
    }

    pub(crate) fn with_ticks(self, ticks: Vec<f64>) -> Self {
        Self { ticks: Some(ticks), ..self }
    }

    /// Returns whether a value can be drawn.
    pub(crate) fn has(&self, value: f64) -> bool {
        value.is_finite() && if self.log { value > 0.0 } else { value >= 0.0 }
    }
}

/// Axis with its ends.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    log: bool,
    ticks: Vec<f64>,
}

/// Most ticks whose labels do not touch.
const MOST_TICKS: usize = 7;

impl Scale {
    /// Creates a scale around values that the axis [has](Axis::has); from 0 if it is linear.
    pub(crate) fn around(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 1.0) };
        let (from, to, round) = if axis.log { log_ends(least, most) } else { linear_ends(most) };
        let ticks = match &axis.ticks {
            Some(ticks) => ticks.iter().copied().filter(|tick| (from..=to).contains(tick)).collect(),
            None => round,
        };
        Self { from, to, log: axis.log, ticks }
    }

    /// Creates rows `0..count` without ticks; the first is at the upper end.
    pub(crate) fn rows(count: usize) -> Self {
        Self { from: count as f64, to: 0.0, log: false, ticks: Vec::new() }
    }

    /// Creates a scale from 0 to 1 without ticks.
    pub(crate) fn unit() -> Self {
        Self { from: 0.0, to: 1.0, log: false, ticks: Vec::new() }
    }

    pub(crate) fn from(&self) -> f64 {
        self.from
    }

    pub(crate) fn to(&self) -> f64 {
        self.to
    }
}

/// Returns the n-th number of the form 1, 2 or 5 times a power of ten.
fn round_number(number: i32) -> f64 {
    [1.0, 2.0, 5.0][number.rem_euclid(3) as usize] * 10_f64.powi(number.div_euclid(3))
}

fn log_ends(least: f64, most: f64) -> (f64, f64, Vec<f64>) {
    let below = |value: f64| {
        let start = value.log10().floor() as i32 * 3;
        (start..start + 4).rev().find(|&n| round_number(n) <= value).unwrap_or(start)
    };
    let first = below(least / 1.1);
    let last = below(most * 1.1) + 1;
    let all = |step: i32| (first..=last).filter(move |n| n.rem_euclid(step) == 0).map(round_number);
    let step = [1, 3, 6, 9, 12].into_iter().find(|&step| all(step).count() <= MOST_TICKS).unwrap_or(18);
    (round_number(first), round_number(last), all(step).collect())
}

fn linear_ends(most: f64) -> (f64, f64, Vec<f64>) {
    let start = (most / MOST_TICKS as f64).log10().floor() as i32 * 3;
    let steps = (start..start + 9).map(round_number);
    let step = steps.into_iter().find(|step| most / step <= (MOST_TICKS - 2) as f64).unwrap_or(most);
    let count = (most / step - 1e-9).ceil();
    (0.0, count * step, (0..=count as usize).map(|tick| tick as f64 * step).collect())
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let place = |value: f64| if self.log { value.ln() } else { value };
        let share = (place(*value) - place(self.from)) / (place(self.to) - place(self.from));
        low + (f64::from(high - low) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Scale {
    fn format(value: &f64) -> String {
        short(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(axis: &Axis, values: &[f64]) -> (f64, f64, Vec<f64>) {
        let scale = Scale::around(axis, values.iter().copied());
        (scale.from, scale.to, scale.ticks)
    }

    #[test]
    fn ticks_are_round_and_few() {
        let log = Axis::log("");
        assert_eq!(around(&log, &[4.0, 37.0]), (2.0, 50.0, vec![2.0, 5.0, 10.0, 20.0, 50.0]));
        let (from, to, ticks) = around(&log, &[0.03, 8e6]);
        assert!((from - 0.02).abs() < 1e-12 && to == 1e7, "{from} {to}");
        assert!(ticks.len() <= MOST_TICKS && ticks.contains(&100.0), "{ticks:?}");
        assert_eq!(around(&Axis::linear(""), &[3.0, 43.0]), (0.0, 50.0, vec![0.0, 10.0, 20.0, 30.0, 40.0, 50.0]));
        assert_eq!(around(&Axis::linear(""), &[100.0]).1, 100.0);
        assert_eq!(around(&log.clone().with_ticks(vec![1.0, 8.0, 900.0]), &[1.0, 8.0]).2, [1.0, 8.0]);
        for axis in [log, Axis::linear("")] {
            let (from, to, ticks) = around(&axis, &[]);
            assert!(from < to && !ticks.is_empty(), "nothing to draw has an axis all the same");
        }
    }

    #[test]
    fn every_value_lies_between_the_ends() {
        for axis in [Axis::log(""), Axis::linear("")] {
            for value in [1e-9, 0.3, 1.0, 9.99, 10.0, 123.0, 5e11] {
                let scale = Scale::around(&axis, [value].into_iter());
                assert!((1..=1000).contains(&scale.map(&value, (0, 1000))), "{value} {scale:?}");
                assert!(scale.ticks.len() <= MOST_TICKS + 1);
            }
        }
        assert_eq!(Scale::rows(4).map(&1.0, (400, 0)), 300 - 200);
    }
}
