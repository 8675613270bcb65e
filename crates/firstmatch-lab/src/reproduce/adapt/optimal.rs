//! Optimal static trees: search trees, and Huffman trees.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the mean edges of a walk in the optimal static search tree over nodes of these weights.
///
/// The weights are in the order of the keys. Knuth (1971): O(n²) steps and bytes.
pub(super) fn edges(weights: &[f64]) -> f64 {
    let count = weights.len();
    let side = count + 1;
    let mut before = vec![0.0];
    weights.iter().for_each(|weight| before.push(before[before.len() - 1] + weight));
    // Cost and root of the tree over the nodes from `from` up to `to`, at `from · side + to`.
    let (mut costs, mut roots) = (vec![0.0; side * side], vec![0u32; side * side]);
    for at in 0..count {
        costs[at * side + at + 1] = weights[at];
        roots[at * side + at + 1] = at as u32;
    }
    for length in 2..=count {
        for from in 0..=count - length {
            let to = from + length;
            let (mut best, mut root) = (f64::INFINITY, 0);
            for at in roots[from * side + to - 1]..=roots[(from + 1) * side + to] {
                let cost = costs[from * side + at as usize] + costs[(at as usize + 1) * side + to];
                if cost < best {
                    (best, root) = (cost, at);
                }
            }
            costs[from * side + to] = best + before[to] - before[from];
            roots[from * side + to] = root;
        }
    }
    // A node counts as often as there are nodes on the way to it, so once more than edges.
    costs[count] / before[count] - 1.0
}

/// Returns the edges to each leaf of the Huffman tree over leaves of these weights. Of equal weights the older join first.
pub(super) fn huffman(weights: &[u32]) -> Vec<u32> {
    let mut left: BinaryHeap<_> =
        weights.iter().enumerate().map(|(at, &weight)| Reverse((u64::from(weight), at))).collect();
    let mut parents = vec![0; 2 * weights.len()];
    let mut next = weights.len();
    while left.len() > 1 {
        let mut sum = 0;
        for Reverse((weight, at)) in [left.pop(), left.pop()].into_iter().flatten() {
            (sum, parents[at]) = (sum + weight, next);
        }
        left.push(Reverse((sum, next)));
        next += 1;
    }
    let mut depths = vec![0; next];
    // A parent is younger than its children, and the youngest is the root.
    (0..next.saturating_sub(1)).rev().for_each(|at| depths[at] = depths[parents[at]] + 1);
    depths.truncate(weights.len());
    depths
}

#[cfg(test)]
mod tests {
    use super::{edges, huffman};

    #[test]
    fn leaves_are_as_deep_as_their_weights_ask() {
        assert_eq!(huffman(&[7]), [0]);
        assert_eq!(huffman(&[0, 0, 0, 0]), [2; 4]);
        // The two least join first, then the next with them.
        assert_eq!(huffman(&[8, 1, 4, 2]), [1, 3, 2, 3]);
        assert_eq!(huffman(&[3, 3, 2, 2, 2]), [2, 2, 3, 3, 2]);
    }

    #[test]
    fn small_trees_are_worked_out_by_hand() {
        assert_eq!(edges(&[3.0]), 0.0);
        // Seven equal nodes have one root, two nodes below it and four below these.
        assert!((edges(&[2.0; 7]) - 10.0 / 7.0).abs() < 1e-12);
        // The root is the last, then the first with the second below it.
        assert!((edges(&[4.0, 1.0, 10.0]) - (4.0 + 2.0) / 15.0).abs() < 1e-12);
    }
}
