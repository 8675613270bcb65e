//! Configuration of the cache.

use super::boxes::BLOCK;
use crate::cache::trial::Pace;
use crate::engine::budget::Budget;
use crate::raw::Level;

/// Maximum number of boxes that are published.
pub(super) const MOST_BOXES: usize = 256;
/// Maximum number of samples in the window.
pub(super) const MOST_WINDOW: usize = 1 << 15;

/// Configuration of [`RuleCache`](super::RuleCache).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Limit on the memory of the list of regions that [`RuleCache::over`](super::RuleCache::over) makes.
    pub budget: Budget,
    /// Maximum number of boxes that packets are compared with, 1 to 256.
    pub boxes: usize,
    /// Least weight of a block of eight boxes, as a share of the weight of this block and all later ones.
    ///
    /// A block costs every packet that reaches it. For example, with 1/8 a block that answers fewer than one in eight
    /// of these packets is left out.
    pub least_share: f64,
    /// Number of samples from which boxes have their weights, 1 to 32,768.
    pub window: usize,
    /// Way in which boxes are made.
    pub growth: Growth,
    /// Maximum number of boxes that a sample tries to join, if boxes grow.
    pub tries: usize,
    /// Whether a box that would leave the region of its sample's rule is refused without a search, if boxes grow.
    pub home_first: bool,
    /// Number of regions that are tested for boxes per packet of a batch, at most 4,096 per batch.
    ///
    /// A cache that may step aside waits with them where they would take more than an eighth of the engine's time.
    pub tests: usize,
    /// Numbers of lookups from one sample to the next: for the first 256 samples, and afterwards.
    ///
    /// While boxes hold fewer than half of the samples, a cache that may step aside waits for up to 16 times as many
    /// lookups.
    pub sample: [usize; 2],
    /// Whether packets that no rule matches have boxes, too.
    pub unmatched: bool,
    /// Whether the cache steps aside if it does not pay.
    ///
    /// It then learns nothing in front of an engine that answers faster than a packet is compared with all boxes.
    pub steps_aside: bool,
    /// Number of lookups of a window of a trial; at least one.
    pub trial_window: usize,
    /// Maximum number of windows of a trial for which a verdict holds.
    pub longest_pause: usize,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
}

/// Way in which boxes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Growth {
    /// A box is the region of a sample's rule, from which regions of better rules are cut away.
    Carve,
    /// A box grows to the hull of its samples, as far as no other rule is in the way (Algorithm 1).
    Grow,
}

/// Number of samples that are taken more often.
pub(super) const WARM: usize = 256;
/// Binary logarithm of the largest factor on the lookups between samples.
pub(super) const MOST_SPARSE: u32 = 4;
/// Number of samples from one publication to the next, after the first 64 samples.
pub(super) const PUBLISHED: usize = 32;

impl Default for Config {
    /// Returns 24 boxes at most, carved, with weights by 1,024 samples.
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            boxes: 24,
            least_share: 0.125,
            window: 1024,
            growth: Growth::Carve,
            tries: 32,
            home_first: true,
            tests: 16,
            sample: [32, 4096],
            unmatched: true,
            steps_aside: true,
            trial_window: 1 << 11,
            longest_pause: 1 << 12,
            simd: None,
        }
    }
}

impl Config {
    /// Returns the paper's cache: 20 boxes that grow, and no limit on the search for each (sections 3 and 5).
    ///
    /// Boxes are of one action over a view [`ByAction`](super::ByAction), as in the paper, and of one rule over any
    /// other classifier; the view brings the search that proves them, the paper's being a tree of HyperCuts. Every
    /// hundredth packet is a sample, while the paper's updater takes as many as it can.
    ///
    /// ```
    /// use firstmatch_core::cache::rule::{Config, Growth};
    ///
    /// let config = Config::paper();
    /// assert_eq!((config.boxes, config.growth), (20, Growth::Grow));
    /// ```
    pub fn paper() -> Self {
        Self {
            boxes: 20,
            least_share: 0.0,
            growth: Growth::Grow,
            tries: usize::MAX,
            home_first: false,
            tests: usize::MAX,
            sample: [100, 100],
            unmatched: false,
            steps_aside: false,
            ..Self::default()
        }
    }

    pub(super) fn boxes(&self) -> usize {
        self.boxes.clamp(1, MOST_BOXES)
    }

    pub(super) fn window(&self) -> usize {
        self.window.clamp(1, MOST_WINDOW)
    }

    /// Returns one number for all properties that a scratch depends on, because every batch compares it.
    pub(super) fn shape(&self, key_words: usize) -> u64 {
        let sizes = self.boxes() as u64 | (self.window() as u64) << 16 | (key_words as u64) << 32;
        sizes << 1 | u64::from(self.steps_aside)
    }

    /// Returns the pace of trials: half of the noted packets have to hit, or fewer if the engine is slow.
    pub(super) fn pace(&self) -> Pace {
        let window = self.trial_window.clamp(1, 1 << 31);
        let (noted, longest_pause) = (window.div_ceil(4), self.longest_pause.saturating_mul(window));
        let learned = self.sample[0].max(1).saturating_mul(WARM);
        Pace {
            steps_aside: self.steps_aside,
            learned,
            // A packet that no box holds is compared with all of them.
            least_gain: self.boxes().div_ceil(BLOCK),
            window,
            noted,
            enough: noted.div_ceil(2),
            full: window.saturating_mul(4),
            shortest_pause: longest_pause.div_ceil(32),
            longest_pause,
        }
    }
}
