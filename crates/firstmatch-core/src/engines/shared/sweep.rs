//! Elementary intervals of a key word.

use crate::engine::budget::Visits;
use crate::error::BuildError;

/// Value of a word, or of several concatenated words.
pub(crate) trait Value: Copy + Ord {
    const FIRST: Self;

    /// Returns the next larger value; this one must not be the largest.
    fn next(self) -> Self;
}

impl Value for u32 {
    const FIRST: Self = 0;

    fn next(self) -> Self {
        self + 1
    }
}

impl Value for u64 {
    const FIRST: Self = 0;

    fn next(self) -> Self {
        self + 1
    }
}

/// Value of a word, and a product that enters or leaves there.
pub(crate) type Change<V> = (V, usize);

/// Cuts a word into elementary intervals; returns the start of each but the first, and the class of each.
///
/// `class_of` gets the products that enter or leave where an interval starts, and returns the class of the products
/// that hold the interval. Neighbours of one class become one interval. `most` is the largest value of the word. A
/// product whose intervals touch leaves and enters at the same value.
///
/// For example, the intervals 2 to 4 of product 0 and 4 to 9 of product 1 give, for a word up to 9, the changes none,
/// 0 enters at 2, 1 enters at 4 and 0 leaves at 5.
///
/// # Errors
/// If `class_of` fails.
pub(crate) fn sweep<V: Value>(
    intervals: &[(usize, (V, V))],
    most: V,
    visits: &Visits,
    mut class_of: impl FnMut(&[Change<V>]) -> Result<u32, BuildError>,
) -> Result<(Vec<V>, Vec<u32>), BuildError> {
    // A product enters at `lo` and leaves at `hi + 1`, or never if its interval ends with the word.
    let mut changes: Vec<Change<V>> = Vec::with_capacity(2 * intervals.len());
    for &(product, (lo, hi)) in intervals {
        changes.push((lo, product));
        changes.extend((hi < most).then(|| (hi.next(), product)));
    }
    changes.sort_unstable();
    visits.add(changes.len());
    let (first, later) = changes.split_at(changes.partition_point(|&(value, _)| value == V::FIRST));
    let (mut starts, mut classes) = (Vec::new(), vec![class_of(first)?]);
    for changes in later.chunk_by(|a, b| a.0 == b.0) {
        let class = class_of(changes)?;
        if classes.last() != Some(&class) {
            starts.push(changes[0].0);
            classes.push(class);
        }
    }
    Ok((starts, classes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_in_order_and_neighbours_of_one_class_are_one_interval() {
        let mut seen = Vec::new();
        let intervals = [(0, (2, 4)), (1, (4, 9)), (2, (0, 3u32))];
        let found = sweep(&intervals, 9, &Visits::default(), |changes| {
            seen.push(changes.to_vec());
            Ok([0, 1, 2, 2][seen.len() - 1])
        });
        assert_eq!(found.expect("no limit"), (vec![2, 4], vec![0, 1, 2]));
        assert_eq!(seen, [vec![(0, 2)], vec![(2, 0)], vec![(4, 1), (4, 2)], vec![(5, 0)]]);
    }
}
