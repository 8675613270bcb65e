//! Configuration of the cache.

use crate::cache::trial::Pace;
use crate::raw::Level;

/// Maximum number of keys that share a set: as many tags as one comparison takes.
pub(super) const WAYS: usize = 8;
/// Configuration of [`FlowCache`](super::FlowCache).
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of keys that a thread keeps, rounded up to whole sets; at least one.
    ///
    /// For keys of up to 11 words, each takes one line of 64 bytes and its share of a set of 64 bytes: 72 bytes with 8
    /// `ways`, 80 with 4 and 128 with 1.
    pub entries: usize,
    /// Number of keys that share a set, 1 to 8.
    pub ways: usize,
    /// Whether the cache steps aside if it does not pay.
    pub steps_aside: bool,
    /// Number of lookups of a window, over which hits are counted and times taken; at least one.
    pub window: usize,
    /// Maximum number of windows for which a verdict holds.
    ///
    /// The first verdict holds for a 32nd of that, and each verdict that confirms it for twice as long as the one
    /// before. For example, the default of 4,096 windows is reached in six steps: 128, 256, 512, 1,024, 2,048 and
    /// 4,096.
    pub longest_pause: usize,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Seed of the hash; `None` takes a random one of this process.
    pub seed: Option<u64>,
}

impl Default for Config {
    /// Returns 16,384 keys in sets of 8, with trials of windows of 2,048 lookups.
    ///
    /// The cache steps aside for up to 4,096 windows.
    fn default() -> Self {
        Self {
            entries: 1 << 14,
            ways: WAYS,
            steps_aside: true,
            window: 1 << 11,
            longest_pause: 1 << 12,
            simd: None,
            seed: None,
        }
    }
}

impl Config {
    /// Returns the paper's cache, which never steps aside (section III-D2); its size is ours.
    pub fn paper() -> Self {
        Self { steps_aside: false, ..Self::default() }
    }

    pub(super) fn ways(&self) -> usize {
        self.ways.clamp(1, WAYS)
    }

    pub(super) fn sets(&self) -> usize {
        self.entries.clamp(1, 1 << 31).div_ceil(self.ways())
    }

    pub(super) fn window(&self) -> usize {
        self.window.clamp(1, 1 << 31)
    }

    /// Returns the pace of trials, in which hashes of keys are noted.
    pub(in crate::cache) fn pace(&self) -> Pace {
        let (window, longest_pause) = (self.window(), self.longest_pause.saturating_mul(self.window()));
        let noted = window.div_ceil(4);
        // With `e` equally likely flows, n²/2e of the first n packets are not the first of their flow.
        let enough = (noted as u128 * noted as u128).div_ceil(2 * self.entries.max(2 * noted) as u128) as usize;
        let (steps_aside, shortest_pause) = (self.steps_aside, longest_pause.div_ceil(32));
        Pace {
            steps_aside,
            learned: 0,
            least_gain: 0,
            window,
            noted,
            enough,
            full: self.entries,
            shortest_pause,
            longest_pause,
        }
    }

    /// Returns one number for all properties that a scratch depends on, because every batch compares it.
    ///
    /// They are the number of sets and of their ways, the words of a key, and whether the cache steps aside.
    pub(super) fn shape(&self, key_words: usize) -> u64 {
        let rest = key_words << 5 | self.ways() << 1 | usize::from(self.steps_aside);
        self.sets() as u64 | (rest as u64) << 32
    }
}
