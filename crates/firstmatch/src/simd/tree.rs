//! A search tree of nine ways over intervals of words.

use super::{LINE_WORDS, Line, words_mut};

/// Bounds of a node.
pub(super) const NODE: usize = 8;
/// Ways that lead on from it.
pub(super) const WAYS: usize = NODE + 1;
/// So that unsigned words compare as signed ones.
pub(super) const SIGN: u32 = 1 << 31;
/// Below no word.
const PADDING: u32 = i32::MAX as u32;

/// What each interval of words stands for. The levels are complete, so that no search, whatever the bounds are, comes to
/// a place that is not there: `WAYS` to the power of the level nodes on each, one behind the other, then so many values.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Box<[Line]>,
    /// By interval; intervals that are not there repeat the last one's.
    values: Box<[u32]>,
    depth: usize,
}

/// The most levels of a tree.
pub(crate) const MOST_LEVELS: usize = 5;

impl Tree {
    /// Of the words at which an interval starts, ascending and without the first one's 0, and the value of each
    /// interval; `None` where these are too many for [`MOST_LEVELS`].
    ///
    /// # Panics
    /// When there is not one value more than starts.
    pub(crate) fn new(starts: &[u32], values: &[u32]) -> Option<Self> {
        assert_eq!(starts.len() + 1, values.len(), "a value an interval");
        let depth = (1..=MOST_LEVELS).find(|&depth| WAYS.pow(depth as u32) > starts.len())?;
        let mut lines = vec![Line::default(); (first_of(depth) * NODE).div_ceil(LINE_WORDS)];
        let mut nodes = words_mut(&mut lines).as_chunks_mut::<NODE>().0.iter_mut();
        for level in 0..depth {
            // A way of this level leads to so many intervals.
            let way = WAYS.pow((depth - level - 1) as u32);
            for (index, node) in nodes.by_ref().take(WAYS.pow(level as u32)).enumerate() {
                let start = |i: usize| starts.get(index * way * WAYS + (i + 1) * way - 1);
                *node = std::array::from_fn(|i| start(i).map_or(PADDING, |start| start.wrapping_sub(1) ^ SIGN));
            }
        }
        let mut values = values.to_vec();
        values.resize(WAYS.pow(depth as u32), values.last().copied().unwrap_or(0));
        Some(Self { nodes: lines.into(), values: values.into(), depth })
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.values[..])
    }

    /// Its nodes and values, which are those of a depth.
    ///
    /// # Panics
    /// When it has another depth.
    #[inline(always)]
    pub(super) fn parts<const DEPTH: usize>(&self) -> (&[Line], &[u32]) {
        assert!(self.depth == DEPTH, "a search is as deep as its tree");
        (&self.nodes, &self.values)
    }
}

/// The first node of a level, counted from the first of all.
#[inline(always)]
pub(super) const fn first_of(level: usize) -> usize {
    (WAYS.pow(level as u32) - 1) / NODE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Isa, Kernel, Level, dispatch};

    /// Finds values around all starts, in trees of every depth up to four.
    struct Search;

    impl Kernel for Search {
        fn run<I: Isa>(self, isa: I) {
            for count in [0usize, 1, 7, 8, 9, 79, 80, 81, 700, 728, 729, 2000] {
                for step in [1, 3, u32::MAX / 2500] {
                    let starts: Vec<u32> = (1..=count as u32).map(|i| i * step).collect();
                    let values: Vec<u32> = (0..=count as u32).map(|i| i * 7 + 1).collect();
                    let tree = Tree::new(&starts, &values).expect("few enough");
                    let words = starts.iter().flat_map(|&s| [s - 1, s, s + 1]).chain([0, 1 << 31, u32::MAX]);
                    for word in words {
                        let want = values[starts.partition_point(|&start| start <= word)];
                        let found = match tree.depth() {
                            1 => isa.find::<1, 1>(&tree, [word])[0],
                            2 => isa.find::<2, 1>(&tree, [word])[0],
                            3 => isa.find::<3, 1>(&tree, [word])[0],
                            _ => isa.find::<4, 1>(&tree, [word])[0],
                        };
                        assert_eq!(found, want, "{word} among {count} by {step}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_search_finds_the_interval() {
        Level::available().for_each(|level| dispatch(level, Search));
    }

    #[test]
    fn there_is_an_end_to_depth() {
        let starts: Vec<u32> = (1..=WAYS.pow(MOST_LEVELS as u32) as u32).collect();
        let values = vec![0; starts.len() + 1];
        assert!(Tree::new(&starts, &values).is_none());
        assert!(Tree::new(&starts[1..], &values[1..]).is_some_and(|tree| tree.depth() == MOST_LEVELS));
    }
}
