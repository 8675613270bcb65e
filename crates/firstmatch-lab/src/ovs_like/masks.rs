//! Conversion of regions to values under masks.

use firstmatch_core::rule::Region;
use firstmatch_core::{Match, Schema};

use crate::transform::prefixes;

/// Rule, or part of one, that compares bits under a mask; words as in a row, padding zero.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Masked {
    pub(super) mask: Vec<u32>,
    pub(super) value: Vec<u32>,
    pub(super) found: Match,
}

/// Appends a region as masked rules.
///
/// An interval of a word becomes the fewest prefixes that cover it exactly, and a region becomes all combinations of
/// them. For example, ports 1 to 3 become the prefixes 1 and 2–3, so two such words give four masked rules.
pub(super) fn of_region(schema: &Schema, region: &Region<'_>, found: Match, out: &mut Vec<Masked>) {
    let from = out.len();
    out.push(Masked { mask: vec![0; schema.stride()], value: vec![0; schema.stride()], found });
    for (word, about) in schema.words().iter().enumerate() {
        let ternary = region.ternary.map_or((0, 0), |(value, mask)| (value[word], mask[word]));
        let parts = of_word(region.lo[word], region.hi[word], about.max);
        // A combination that requires two values of one bit matches no key and is dropped.
        let parts: Vec<(u32, u32)> = parts
            .into_iter()
            .filter(|(value, mask)| (value ^ ternary.0) & mask & ternary.1 == 0)
            .map(|(value, mask)| (value | ternary.0, mask | ternary.1))
            .collect();
        let before = out.split_off(from);
        for masked in before {
            for &(value, mask) in &parts {
                let mut masked = masked.clone();
                (masked.value[word], masked.mask[word]) = (value, mask);
                out.push(masked);
            }
        }
    }
}

/// Returns the values and masks that cover an interval of a word with values up to `max`.
fn of_word(lo: u32, hi: u32, max: u32) -> Vec<(u32, u32)> {
    // No key exceeds the largest value, so a larger interval holds the same keys with fewer prefixes.
    let hi = match (lo, hi == max) {
        (0, true) => u32::MAX,
        (_, true) => u32::MAX >> max.leading_zeros(),
        _ => hi,
    };
    let prefix = |(value, len): (u128, u32)| (value as u32, u32::MAX.checked_shl(32 - len).unwrap_or(0));
    prefixes(lo.into(), hi.into(), 32).into_iter().map(prefix).collect()
}
