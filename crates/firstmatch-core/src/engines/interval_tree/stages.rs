//! Steps of a lookup, each for a thread of its own: the search of one word, and the intersection.

use super::lookup::{Unwatched, first};
use super::scratch::FoundSets;
use super::shape::{Sampler, Shape};
use super::structure::Npf;
use crate::engine::Match;
use crate::raw::{Isa, Kernel, dispatch, halve};

/// Tree of one word, which one worker searches and turns.
///
/// Each tree samples by itself. So with [`Config::sample`](super::Config::sample) above 1, trees may count different
/// packets.
#[derive(Debug)]
pub struct WordTree {
    /// Number of the engine.
    number: u64,
    word: usize,
    /// The tree; `None` if trees do not turn.
    shape: Option<Shape>,
    sampler: Sampler,
    /// Sums of weights, for reconstructions.
    sums: Vec<u64>,
}

impl WordTree {
    /// Returns the shape of the tree; `None` if the trees of the engine do not turn.
    pub fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }
}

/// Buffers of one worker for intersections.
#[derive(Debug)]
pub struct Decider {
    /// Number of the engine.
    number: u64,
    found: FoundSets,
}

impl Npf {
    /// Returns a balanced tree of a word, for [`find`](Self::find).
    ///
    /// ```
    /// use firstmatch_core::Schema;
    /// use firstmatch_core::engines::interval_tree::{Config, Npf};
    /// use firstmatch_core::rule::Lowered;
    ///
    /// let engine = Npf::build(&Lowered::empty(&Schema::ipv4()), &Config::paper())?;
    /// let (mut tree, mut decider) = (engine.word_tree(0), engine.decider());
    /// let handle = engine.find(&mut tree, 0x0A00_0001);
    /// assert_eq!(engine.decide(&mut decider, &[handle; 5], &[0x0A00_0001, 1, 2, 3, 6]), None);
    /// assert_eq!(tree.shape().map(|tree| tree.counters().lookups), Some(1));
    /// # Ok::<(), firstmatch_core::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If the schema has no such word.
    pub fn word_tree(&self, word: usize) -> WordTree {
        let (starts, config) = (&self.words[word].starts, &self.config);
        let sums = if config.adapts && config.reconstruct.is_some() { starts.len() + 1 } else { 0 };
        let shape = config.adapts.then(|| Shape::new(starts, config));
        WordTree { number: self.number, word, shape, sampler: Sampler::new(config), sums: vec![0; sums] }
    }

    /// Finds the set of the rules that hold `value` in the word of `tree`, and turns the tree if it is configured to.
    ///
    /// Returns the handle of the set, which only [`decide`](Self::decide) of this engine reads.
    ///
    /// # Panics
    /// If the tree is of another engine.
    pub fn find(&self, tree: &mut WordTree, value: u32) -> u32 {
        assert_eq!(tree.number, self.number, "the tree is of another engine");
        let (word, WordTree { shape, sampler, sums, .. }) = (&self.words[tree.word], tree);
        let Some(shape) = shape else { return word.sets[halve(&word.starts, &[value])[0] as usize] };
        let before = shape.counters().reconstructions;
        let walked = shape.find(&word.starts, value, sampler.counts(), sums);
        if shape.counters().reconstructions != before {
            sampler.restart();
        }
        sampler.add(walked.edges);
        word.sets[walked.interval as usize]
    }

    /// Returns the buffers of one worker for [`decide`](Self::decide).
    pub fn decider(&self) -> Decider {
        Decider { number: self.number, found: FoundSets::new(self) }
    }

    /// Returns the first match of a key: the first rule that is in all sets.
    ///
    /// `handles` has the handle of each word's set, in the order of the words.
    ///
    /// # Panics
    /// If `decider` is of another engine, `handles` or `key` is shorter than the schema, or a handle is of no set.
    pub fn decide(&self, decider: &mut Decider, handles: &[u32], key: &[u32]) -> Option<Match> {
        assert_eq!(decider.number, self.number, "the room is of another engine");
        for (set, &word) in decider.found.sets.iter_mut().zip(&self.read) {
            set[0] = handles[word];
        }
        let mut product = None;
        dispatch(self.level, Decide { engine: self, found: &mut decider.found, key, product: &mut product });
        product.map(|product| self.matches[product])
    }
}

/// Intersection of the sets of one key.
struct Decide<'a> {
    engine: &'a Npf,
    found: &'a mut FoundSets,
    key: &'a [u32],
    product: &'a mut Option<usize>,
}

impl Kernel for Decide<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, _isa: I) {
        *self.product = first(self.engine, self.found, self.key, 0, &mut Unwatched);
    }
}
