//! Sets of values of a field as closed intervals.

use crate::rule::condition::Test;
use crate::schema::Field;

/// Number of intervals for each additional part that splitting their union into prefixes may make.
const SPLIT: usize = 8;

/// Returns the interval of the values that pass a test.
///
/// `None` if these values are no interval, as for a mask that is no prefix's, or if no value passes.
pub(super) fn interval(test: Test, field: &Field) -> Option<(u128, u128)> {
    match test {
        Test::Value(value) => Some((value, value)),
        Test::Range { lo, hi } => (lo <= hi).then_some((lo, hi)),
        Test::Prefix { value, len } => Some((value, value | low_bits(field.width() - len))),
        Test::Mask { value, mask } => {
            let free = !mask & field.max();
            (free & free.wrapping_add(1) == 0).then_some((value, value | free))
        }
        Test::Absent | Test::Set(_) => None,
    }
}

pub(super) fn low_bits(count: u32) -> u128 {
    u128::MAX.checked_shr(128 - count).unwrap_or(0)
}

/// Returns the union of intervals as sorted intervals that neither overlap nor touch.
pub(crate) fn unite(mut intervals: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    intervals.sort_unstable();
    let mut out: Vec<(u128, u128)> = Vec::with_capacity(intervals.len());
    for (lo, hi) in intervals {
        match out.last_mut() {
            Some(last) if last.1 == u128::MAX || lo <= last.1 + 1 => last.1 = last.1.max(hi),
            _ => out.push((lo, hi)),
        }
    }
    out
}

/// Splits intervals into prefixes, if that adds at most one part per [`SPLIT`] intervals.
///
/// For example, 100 single values are prefixes already. The interval 3 to 12 is not split, because its prefixes 3, 4 to
/// 7, 8 to 11 and 12 would be three parts more.
pub(super) fn prefixes_if_near(intervals: &[(u128, u128)]) -> Option<Vec<(u128, u128)>> {
    let most = intervals.len() + intervals.len() / SPLIT;
    let prefixes = || intervals.iter().flat_map(|&(lo, hi)| prefixes(lo, hi));
    (prefixes().take(most + 1).count() <= most).then(|| prefixes().collect())
}

/// Returns the fewest prefixes that an interval consists of, in order.
///
/// For example, `1..=6` is 1, 2 to 3, 4 to 5, and 6.
pub(super) fn prefixes(lo: u128, hi: u128) -> impl Iterator<Item = (u128, u128)> {
    let mut next = Some(lo);
    std::iter::from_fn(move || {
        let first = next?;
        let open = (0..=first.trailing_zeros()).rev().find(|&open| first | low_bits(open) <= hi)?;
        let last = first | low_bits(open);
        next = last.checked_add(1).filter(|&after| after <= hi);
        Some((first, last))
    })
}

/// Returns the gaps that sorted, separate intervals leave in `0..=max`.
pub(super) fn complement(intervals: &[(u128, u128)], max: u128) -> Vec<(u128, u128)> {
    let mut out = Vec::with_capacity(intervals.len() + 1);
    let mut next = Some(0);
    for &(lo, hi) in intervals {
        if let Some(from) = next.filter(|&from| from < lo) {
            out.push((from, lo - 1));
        }
        next = hi.checked_add(1);
    }
    out.extend(next.filter(|&from| from <= max).map(|from| (from, max)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of prefixes that `lo..=hi` needs within an aligned block of `1 << open` values.
    fn fewest(lo: u128, hi: u128, block: u128, open: u32) -> usize {
        let (first, last) = (block << open, (block << open) + low_bits(open));
        match (lo <= first && last <= hi, last < lo || hi < first) {
            (true, _) => 1,
            (_, true) => 0,
            _ => (0..2).map(|half| fewest(lo, hi, 2 * block + half, open - 1)).sum(),
        }
    }

    #[test]
    fn prefixes_are_the_fewest() {
        assert_eq!(prefixes(1, 6).collect::<Vec<_>>(), [(1, 1), (2, 3), (4, 5), (6, 6)]);
        assert_eq!(prefixes(0, u128::MAX).collect::<Vec<_>>(), [(0, u128::MAX)]);
        for lo in 0..32 {
            for hi in lo..32 {
                let all: Vec<_> = prefixes(lo, hi).take(100).collect();
                assert_eq!(all.iter().flat_map(|&(lo, hi)| lo..=hi).collect::<Vec<_>>(), (lo..=hi).collect::<Vec<_>>());
                assert!(all.iter().all(|&(lo, hi)| (hi - lo + 1).is_power_of_two() && lo % (hi - lo + 1) == 0));
                assert_eq!(all.len(), fewest(lo, hi, 0, 5), "{lo} to {hi}");
            }
        }
    }

    #[test]
    fn intervals_are_split_if_it_costs_little() {
        let singles: Vec<_> = (0..100).map(|value| (2 * value, 2 * value)).collect();
        assert_eq!(prefixes_if_near(&singles), Some(singles.clone()));
        assert_eq!(prefixes_if_near(&[(3, 12)]), None);
        let with_two = |at: u128| [&singles[..], &[(at, at + 3)]].concat();
        assert_eq!(prefixes_if_near(&with_two(400)).map(|all| all.len()), Some(101));
        let split = prefixes_if_near(&with_two(402)).expect("one prefix more");
        assert_eq!(split[100..], [(402, 403), (404, 405)]);
    }
}
