//! Searches of single fields, whose bit vectors are merged: the stages of a field-pipelined plane.

use anyhow::ensure;
use firstmatch_core::rule::Lowered;

/// Most regions of a rule set that is searched field by field.
const MOST_REGIONS: usize = 8192;

/// Bit vectors of the regions by the value of one key word.
///
/// The ends of all intervals cut the values into elementary intervals. Each has a vector with one bit a region, set if
/// the region's interval holds it. For example, the intervals 0 to 9 and 5 to 9 make the starts 0, 5, 10 and the
/// vectors `01`, `11`, `00`, where the first region is the right-hand bit.
#[derive(Debug)]
pub(super) struct FieldSearch {
    /// First value of each elementary interval; the first is 0.
    starts: Vec<u32>,
    /// Vectors, one after another.
    vectors: Vec<u64>,
    /// Number of 64-bit words of a vector.
    width: usize,
}

/// Returns the number of 64-bit words of a vector with a bit for each region.
///
/// # Errors
/// If there are more than 8,192 regions, or a region has values under masks.
pub(super) fn width(lowered: &Lowered) -> anyhow::Result<usize> {
    let regions = lowered.regions();
    ensure!(regions.len() <= MOST_REGIONS, "{} regions; expected at most {MOST_REGIONS}", regions.len());
    ensure!(regions.ternary_words().is_empty(), "the rules have values under masks; expected intervals");
    Ok(regions.len().div_ceil(64))
}

impl FieldSearch {
    /// Builds the search of key word `word`.
    pub(super) fn build(lowered: &Lowered, word: usize, width: usize) -> Self {
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

    /// Keeps in `vector` the bits of the regions whose interval holds `value`.
    pub(super) fn keep(&self, value: u32, vector: &mut [u64]) {
        let interval = self.starts.partition_point(|&start| start <= value) - 1;
        let own = &self.vectors[interval * self.width..][..self.width];
        vector.iter_mut().zip(own).for_each(|(bits, own)| *bits &= own);
    }
}

/// Returns the index of the first bit that is set.
pub(super) fn first(vector: &[u64]) -> Option<usize> {
    let word = vector.iter().position(|&bits| bits != 0)?;
    Some(word * 64 + vector[word].trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_keeps_the_regions_that_hold_a_value() {
        let text = "family ipv4\npermit dport 0-9\npermit dport 5-9\npermit dport 7-65535\n";
        let set = firstmatch_formats::parse(text, &Default::default()).expect("good rules").rules;
        let schema = set.schemas()[0].clone();
        let lowered = firstmatch_core::rule::lower(&set, &schema, &Default::default()).expect("few regions");
        let width = width(&lowered).expect("few regions");
        let search = FieldSearch::build(&lowered, 3, width);
        for (value, expected) in [(0, 0b001), (5, 0b011), (9, 0b111), (10, 0b100), (65_535, 0b100), (65_536, 0)] {
            let mut vector = vec![u64::MAX; width];
            search.keep(value, &mut vector);
            assert_eq!(vector, [expected], "{value}");
        }
        assert_eq!((first(&[0, 0b1000]), first(&[0, 0]), first(&[1, 1])), (Some(67), None, Some(0)));
    }
}
