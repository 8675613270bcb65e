//! A lookup by fields: each step searches one key word, and the bit vectors found are merged.

use std::fmt;
use std::sync::Arc;

use firstmatch_core::Match;
use firstmatch_core::rule::Lowered;

use super::step::{LookupMessage, LookupView, Step};

/// Maximum number of regions of a rule set that is searched field by field.
pub const MOST_REGIONS: usize = 8192;

/// Reason why rules cannot be searched field by field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldsError(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Regions(usize),
    Masks,
}

impl fmt::Display for FieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Regions(count) => write!(f, "{count} regions; expected at most {MOST_REGIONS}"),
            Kind::Masks => f.write_str("the rules have values under masks; expected intervals"),
        }
    }
}

impl std::error::Error for FieldsError {}

/// Returns the number of 64-bit words that the steps of these rules need for each packet: one bit per region.
///
/// # Errors
/// If there are more than [`MOST_REGIONS`] regions, or a region has values under masks.
pub fn width(lowered: &Lowered) -> Result<usize, FieldsError> {
    let regions = lowered.regions();
    if regions.len() > MOST_REGIONS {
        return Err(FieldsError(Kind::Regions(regions.len())));
    }
    if !regions.ternary_words().is_empty() {
        return Err(FieldsError(Kind::Masks));
    }
    Ok(regions.len().div_ceil(64))
}

/// Returns a step for each key word, `word 1` and so on, and the step `first`, which takes the first match.
///
/// A message must have [`width`] words per packet.
///
/// # Errors
/// As [`width`].
pub fn steps<T: LookupMessage>(lowered: &Lowered) -> Result<Vec<Step<T>>, FieldsError> {
    let width = width(lowered)?;
    let words = 0..lowered.schema().words().len();
    let mut steps: Vec<Step<T>> = words.map(|word| searching(lowered, word, width)).collect();
    let rules: Arc<[Match]> = lowered.rules().into();
    steps.push(Step::on_packets("first", move || {
        let rules = Arc::clone(&rules);
        move |view: LookupView<'_>| {
            for (at, best) in view.best.iter_mut().enumerate() {
                *best = first(&view.words[at * width..][..width]).and_then(|at| rules.get(at).copied());
            }
        }
    }));
    Ok(steps)
}

/// Returns the step that searches key word `word`; the step of the first word sets bits, the others clear some.
fn searching<T: LookupMessage>(lowered: &Lowered, word: usize, width: usize) -> Step<T> {
    let search = Arc::new(FieldSearch::build(lowered, word, width));
    Step::on_packets(format!("word {}", word + 1), move || {
        let search = Arc::clone(&search);
        move |view: LookupView<'_>| {
            for at in 0..view.best.len() {
                let bits = &mut view.words[at * width..][..width];
                let found = search.find(view.keys.row(at)[word]);
                match word {
                    0 => bits.copy_from_slice(found),
                    _ => bits.iter_mut().zip(found).for_each(|(bits, found)| *bits &= found),
                }
            }
        }
    })
}

/// Bit vectors of the regions by the value of one key word.
///
/// The ends of all intervals cut the values into elementary intervals. Each has a vector with one bit per region, set
/// if the region's interval holds it. For example, the intervals 0 to 9 and 5 to 9 make the starts 0, 5, 10 and the
/// vectors `01`, `11`, `00`, where the first region is the right-hand bit.
#[derive(Debug)]
struct FieldSearch {
    /// First value of each elementary interval; the first is 0.
    starts: Vec<u32>,
    /// Vectors, one after another.
    vectors: Vec<u64>,
    /// Number of 64-bit words of a vector.
    width: usize,
}

impl FieldSearch {
    /// Builds the search of key word `word`.
    fn build(lowered: &Lowered, word: usize, width: usize) -> Self {
        let regions = lowered.regions();
        let mut starts = vec![0];
        for region in regions.iter() {
            starts.push(region.lo[word]);
            starts.extend(region.hi[word].checked_add(1));
        }
        starts.sort_unstable();
        starts.dedup();
        let mut vectors = vec![0; starts.len() * width];
        for (at, region) in regions.iter().enumerate() {
            let from = starts.partition_point(|&start| start < region.lo[word]);
            let to = starts.partition_point(|&start| start <= region.hi[word]);
            (from..to).for_each(|interval| vectors[interval * width + at / 64] |= 1 << (at % 64));
        }
        Self { starts, vectors, width }
    }

    /// Returns the vector of the regions whose interval holds `value`.
    fn find(&self, value: u32) -> &[u64] {
        let interval = self.starts.partition_point(|&start| start <= value) - 1;
        &self.vectors[interval * self.width..][..self.width]
    }
}

/// Returns the index of the first bit that is set.
fn first(vector: &[u64]) -> Option<usize> {
    let word = vector.iter().position(|&bits| bits != 0)?;
    Some(word * 64 + vector[word].trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_the_regions_that_hold_a_value() {
        let text = "family ipv4\npermit dport 0-9\npermit dport 5-9\npermit dport 7-65535\n";
        let set = firstmatch_formats::parse(text, &Default::default()).expect("good rules").rules;
        let schema = set.schemas()[0].clone();
        let lowered = firstmatch_core::rule::lower(&set, &schema, &Default::default()).expect("few regions");
        let width = width(&lowered).expect("few regions");
        let search = FieldSearch::build(&lowered, 3, width);
        for (value, expected) in [(0, 0b001), (5, 0b011), (9, 0b111), (10, 0b100), (65_535, 0b100), (65_536, 0)] {
            assert_eq!(search.find(value), [expected], "{value}");
        }
        assert_eq!((first(&[0, 0b1000]), first(&[0, 0]), first(&[1, 1])), (Some(67), None, Some(0)));
    }
}
