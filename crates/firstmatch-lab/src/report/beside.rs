//! Plots of a paper's numbers beside ours, on one axis in the paper's unit.

use plotters::element::{PathElement, Text};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use super::plot::{AXIS, FONT, Look, MARK, Svg, TEXT, draw, ink, mark, mesh, plane, shape, text};
use super::scale::{Scale, short};

/// Number of the paper and ours, either of which may be missing.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// Name of the contestant; empty if there is only one.
    pub(crate) name: String,
    pub(crate) paper: Option<f64>,
    pub(crate) ours: Option<f64>,
}

/// Claim with its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) label: String,
    /// Look of our numbers: that of the verdict.
    pub(crate) look: Look,
    pub(crate) pairs: Vec<Pair>,
}

/// Width of the plot in units of half a pixel on a phone.
const WIDTH: u32 = 720;
/// Most characters of a line.
const LINE: usize = 40;
/// Height of a line of text, and of the space for marks.
const TEXT_HEIGHT: f64 = 36.0;
const MARKS_HEIGHT: f64 = 34.0;
/// Least ratio of two numbers that makes the axis logarithmic.
const LOG: f64 = 20.0;

/// Draws the numbers of claims, each below its whole text.
pub(crate) fn beside(title: &str, unit: &str, claims: &[Claimed]) -> anyhow::Result<Svg> {
    let numbers: Vec<f64> = claims
        .iter()
        .flat_map(|claim| &claim.pairs)
        .flat_map(|pair| [pair.paper, pair.ours])
        .flatten()
        .filter(|number| number.is_finite())
        .collect();
    let x = scale(&numbers);
    let (from, to) = (x.from(), x.to());
    let blocks: Vec<Vec<String>> = claims.iter().map(|claim| lines(&claim.label)).collect();
    let pair_height = TEXT_HEIGHT + MARKS_HEIGHT;
    let height = |(lines, claim): (&Vec<String>, &Claimed)| {
        TEXT_HEIGHT * lines.len() as f64 + pair_height * claim.pairs.len() as f64 + 16.0
    };
    let all: f64 = blocks.iter().zip(claims).map(height).sum();
    draw(title, (WIDTH, 100 + all as u32), |area| {
        let mut plane = plane(area, (x, Scale::rows(all as usize)), 32)?;
        mesh(&mut plane, unit, "")?;
        let style = || text(FONT, TEXT, HPos::Left, VPos::Bottom);
        let mut top = 0.0;
        for (lines, claim) in blocks.iter().zip(claims) {
            for line in lines {
                top += TEXT_HEIGHT;
                shape(&plane, Text::new(line.clone(), (from, top), style()))?;
            }
            for pair in &claim.pairs {
                top += TEXT_HEIGHT;
                shape(&plane, Text::new(said(pair), (from, top), text(FONT * 0.9, AXIS, HPos::Left, VPos::Bottom)))?;
                let at = top + MARKS_HEIGHT / 2.0;
                let on = |number: Option<f64>| number.filter(|number| (from..=to).contains(number));
                if let (Some(one), Some(other)) = (on(pair.paper), on(pair.ours)) {
                    let between = vec![(one, at), (other, at)];
                    shape(&plane, PathElement::new(between, ink(AXIS).stroke_width(3)))?;
                }
                if let Some(paper) = on(pair.paper) {
                    mark(&plane, (paper, at), Look::paper(), (MARK, 1.0))?;
                }
                if let Some(ours) = on(pair.ours) {
                    mark(&plane, (ours, at), claim.look, (MARK, 1.0))?;
                }
                top += MARKS_HEIGHT;
            }
            top += 16.0;
        }
        Ok(())
    })
}

/// Returns a scale around numbers: logarithmic if all are positive and far apart, otherwise with 0.
fn scale(numbers: &[f64]) -> Scale {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if least > 0.0 && most / least >= LOG {
        return Scale::around(&super::scale::Axis::log(""), numbers.iter().copied());
    }
    Scale::signed(numbers.iter().copied())
}

/// Returns the numbers of a pair in words.
fn said(pair: &Pair) -> String {
    let name = if pair.name.is_empty() { String::new() } else { format!("{}: ", pair.name) };
    let number = |number: Option<f64>| number.map_or("–".to_owned(), short);
    format!("{name}paper {}, here {}", number(pair.paper), number(pair.ours))
}

/// Breaks a text into lines between words.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LINE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_label_is_kept() {
        let text = "how much faster TupleMerge classifies than PartitionSort, mean of ratios over all seeds and sizes";
        let lines = lines(text);
        assert_eq!(lines.join(" "), text);
        assert!(lines.len() == 3 && lines.iter().all(|line| line.chars().count() <= LINE), "{lines:?}");
    }

    #[test]
    fn axes_are_logarithmic_where_numbers_are_far_apart() {
        assert!((scale(&[1.0, 30.0]).from() - 0.5).abs() < 1e-9);
        assert_eq!(scale(&[2.0, 30.0]).from(), 0.0);
        let signed = scale(&[-7.5, 68.0]);
        assert_eq!((signed.from(), signed.to()), (-20.0, 80.0));
        assert_eq!(scale(&[-7.5, -2.0]).to(), 0.0);
    }
}
