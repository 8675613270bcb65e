//! Common rules of two lists: a common subsequence, which is long but not always the longest.

use std::collections::HashMap;
use std::ops::Range;

/// Returns which entries of two lists are common, in the same order in both.
///
/// Equal beginnings and ends are common. Between them, entries that stand once in each list are anchors, as far as they
/// are in order (patience diff), and the parts between anchors are compared in the same way. The entries are hashes, so
/// whoever compares other things confirms that common ones are equal.
///
/// ```
/// use firstmatch_core::analyze::align;
///
/// let [before, after] = align(&[1, 2, 3, 4], &[1, 3, 9, 4]);
/// assert_eq!((before, after), (vec![true, false, true, true], vec![true, true, false, true]));
/// ```
pub fn align(one: &[u64], other: &[u64]) -> [Vec<bool>; 2] {
    let mut common = [vec![false; one.len()], vec![false; other.len()]];
    let mut parts = vec![(0..one.len(), 0..other.len())];
    while let Some((mut a, mut b)) = parts.pop() {
        while !a.is_empty() && !b.is_empty() && one[a.start] == other[b.start] {
            (common[0][a.start], common[1][b.start]) = (true, true);
            (a.start, b.start) = (a.start + 1, b.start + 1);
        }
        while !a.is_empty() && !b.is_empty() && one[a.end - 1] == other[b.end - 1] {
            (a.end, b.end) = (a.end - 1, b.end - 1);
            (common[0][a.end], common[1][b.end]) = (true, true);
        }
        let anchors = increasing(&anchors(&one[a.clone()], &other[b.clone()]));
        let (mut from, mut to) = (a.start, b.start);
        for (at, place) in anchors {
            let (at, place) = (a.start + at, b.start + place);
            (common[0][at], common[1][place]) = (true, true);
            push(&mut parts, from..at, to..place);
            (from, to) = (at + 1, place + 1);
        }
        if (from, to) != (a.start, b.start) {
            push(&mut parts, from..a.end, to..b.end);
        }
    }
    common
}

fn push(parts: &mut Vec<(Range<usize>, Range<usize>)>, one: Range<usize>, other: Range<usize>) {
    if !one.is_empty() && !other.is_empty() {
        parts.push((one, other));
    }
}

/// Returns the places of entries that stand once in each list, in order of the first.
fn anchors(one: &[u64], other: &[u64]) -> Vec<(usize, usize)> {
    let places = |list: &[u64]| {
        let mut places: HashMap<u64, Option<usize>> = HashMap::new();
        for (at, &entry) in list.iter().enumerate() {
            places.entry(entry).and_modify(|place| *place = None).or_insert(Some(at));
        }
        places
    };
    let (first, second) = (places(one), places(other));
    let mut both: Vec<(usize, usize)> =
        first.iter().filter_map(|(entry, at)| Some(((*at)?, second.get(entry).copied()??))).collect();
    both.sort_unstable();
    both
}

/// Returns a longest subsequence whose second numbers increase.
fn increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length the pair that ends a subsequence of it with the least number, and before each pair its
    // predecessor.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::with_capacity(pairs.len()));
    for (at, &(_, number)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < number);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let mut chain: Vec<(usize, usize)> = Vec::new();
    let mut next = ends.last().copied();
    while let Some(at) = next {
        chain.push(pairs[at]);
        next = before[at];
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_entries_are_in_the_same_order_in_both() {
        let numbers = |text: &str| text.bytes().map(u64::from).collect::<Vec<_>>();
        for (one, other, expected) in [
            ("abcd", "abcd", 4),
            ("abcd", "xbcy", 2),
            ("abcdef", "abXdef", 5),
            ("ab", "ba", 1),
            ("aXbYc", "aYbXc", 3),
            ("", "a", 0),
            ("aab", "ab", 2),
        ] {
            let (one, other) = (numbers(one), numbers(other));
            let [first, second] = align(&one, &other);
            let common = |list: &[u64], of: &[bool]| {
                list.iter().zip(of).filter(|(_, common)| **common).map(|(entry, _)| *entry).collect::<Vec<_>>()
            };
            assert_eq!(common(&one, &first), common(&other, &second));
            assert_eq!(common(&one, &first).len(), expected, "{one:?} {other:?}");
        }
    }
}
