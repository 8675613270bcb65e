//! Optimal static search trees.

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

#[cfg(test)]
mod tests {
    use super::edges;

    #[test]
    fn small_trees_are_worked_out_by_hand() {
        assert_eq!(edges(&[3.0]), 0.0);
        // Seven equal nodes have one root, two nodes below it and four below these.
        assert!((edges(&[2.0; 7]) - 10.0 / 7.0).abs() < 1e-12);
        // The root is the last, then the first with the second below it.
        assert!((edges(&[4.0, 1.0, 10.0]) - (4.0 + 2.0) / 15.0).abs() < 1e-12);
    }
}
