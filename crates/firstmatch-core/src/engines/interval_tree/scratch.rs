//! Scratch of a worker: its shapes, and room for its lookups.

use super::shape::{Sampler, Shape};
use super::structure::{NODE_BYTES, Npf};

/// Number of keys that are searched side by side.
pub(super) const BATCH: usize = 32;

/// Trees of a worker, which turn with its traffic, and buffers of its lookups.
#[derive(Debug)]
pub struct Shapes {
    /// Number of the engine.
    pub(super) number: u64,
    /// Tree of each word; none if trees do not turn.
    pub(super) shapes: Vec<Shape>,
    pub(super) sampler: Sampler,
    /// Sums of weights, for the reconstruction of any tree.
    pub(super) sums: Vec<u64>,
    /// Blocks of the intersection so far, each with its number.
    pub(super) pairs: Vec<(u32, u64)>,
    pub(super) found: FoundSets,
}

/// Sets that were found for the keys of a batch, and room for their intersection.
#[derive(Debug)]
pub(super) struct FoundSets {
    /// Sets of the keys, for each word that some product constrains.
    pub(super) sets: Vec<[u32; BATCH]>,
    /// Place of the next block of the set of each of these words, or places in its list and in its open products.
    pub(super) places: Vec<[usize; 2]>,
}

impl FoundSets {
    pub(super) fn new(engine: &Npf) -> Self {
        let words = engine.read.len();
        Self { sets: vec![[0; BATCH]; words], places: vec![[0; 2]; words] }
    }
}

impl Shapes {
    pub(super) fn new(engine: &Npf) -> Self {
        let config = &engine.config;
        let shape = |word: &super::structure::Word| Shape::new(&word.starts, config);
        let shapes: Vec<Shape> = if config.adapts { engine.words.iter().map(shape).collect() } else { Vec::new() };
        let pairs = engine.pairs();
        Self {
            number: engine.number,
            shapes,
            sampler: Sampler::new(config),
            sums: vec![0; sums(engine)],
            pairs: Vec::with_capacity(pairs),
            found: FoundSets::new(engine),
        }
    }

    /// Returns the tree of a word; `None` if the trees of the engine do not turn.
    ///
    /// ```
    /// use firstmatch_core::engines::interval_tree::{Config, Npf};
    /// use firstmatch_core::rule::Lowered;
    /// use firstmatch_core::{Engine, Schema};
    ///
    /// let engine = Npf::build(&Lowered::empty(&Schema::ipv4()), &Config::default())?;
    /// let scratch = engine.new_scratch();
    /// let tree = scratch.shape(0).expect("it turns by default");
    /// assert_eq!((tree.nodes(), tree.height(), tree.counters().rotations), (1, 0, 0));
    /// # Ok::<(), firstmatch_core::BuildError>(())
    /// ```
    pub fn shape(&self, word: usize) -> Option<&Shape> {
        self.shapes.get(word)
    }

    /// Rebuilds the tree of a word by a weight for each interval, in order.
    ///
    /// A root is the first node at which the sum of the weights exceeds half, so the tree is nearly optimal. Each
    /// weight is raised by 1, which keeps the depth logarithmic.
    ///
    /// The thesis compares its trees with trees that are rebuilt at intervals and do not count in between
    /// ([`freeze`](Self::freeze), Figure 4.10).
    ///
    /// # Panics
    /// If trees do not turn, the schema has no such word, or there is not one weight for each interval.
    pub fn rebuild(&mut self, word: usize, weights: &[u32]) {
        let shape = &mut self.shapes[word];
        assert_eq!(weights.len(), shape.nodes(), "a weight for each interval");
        let mut sums: Vec<u64> = weights.iter().map(|&weight| weight.into()).collect();
        sums.push(0);
        shape.rebuild(&mut sums, 1);
    }

    /// Stops counting hits, so that no tree turns; `false` counts the next packet again.
    ///
    /// A tree whose walks are long is still reconstructed ([`Config::reconstruct`](super::Config::reconstruct)).
    pub fn freeze(&mut self, is_frozen: bool) {
        self.sampler.freeze(is_frozen);
    }
}

/// Number of sums that a reconstruction needs.
fn sums(engine: &Npf) -> usize {
    let needs = engine.config.adapts && engine.config.reconstruct.is_some();
    let most = engine.words.iter().map(|word| word.starts.len() + 1).max().unwrap_or(0);
    if needs { most } else { 0 }
}

/// Returns the bytes of a scratch on the heap.
pub(super) fn bytes(engine: &Npf) -> usize {
    let pairs = engine.pairs();
    let words = engine.words.len();
    let nodes: usize = engine.words.iter().map(|word| word.starts.len()).sum();
    let trees = if engine.config.adapts { nodes * NODE_BYTES + words * size_of::<Shape>() } else { 0 };
    let of_lookups = pairs * size_of::<(u32, u64)>() + engine.read.len() * (size_of::<[u32; BATCH]>() + 16);
    trees + 8 * sums(engine) + of_lookups
}
