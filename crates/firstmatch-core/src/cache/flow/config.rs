//! Configuration of the cache, and counts of what it does.

use crate::raw::Level;

/// Maximum number of keys that share a set: as many tags as one comparison takes.
pub(super) const WAYS: usize = 8;
/// Configuration of [`FlowCache`](super::FlowCache).
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of keys that a thread keeps, rounded up to whole sets; at least one.
    ///
    /// Each takes 72 bytes, for keys of up to 11 words.
    pub entries: usize,
    /// Number of keys that share a set, 1 to 8.
    pub ways: usize,
    /// Whether the cache steps aside where it does not pay.
    pub steps_aside: bool,
    /// Number of lookups of a window, over which hits are counted and times taken; at least one.
    pub window: usize,
    /// Maximum number of windows for which a verdict holds.
    ///
    /// The first verdict holds for a 32nd of that, and each that confirms it twice as long as the one before. For
    /// example, the default of 4,096 windows is reached in six steps: 128, 256, 512, 1,024, 2,048 and 4,096.
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

    /// Number of keys of a trial whose hashes are noted.
    pub(super) fn noted(&self) -> usize {
        self.window().div_ceil(4)
    }

    pub(super) fn longest_pause(&self) -> usize {
        self.longest_pause.saturating_mul(self.window())
    }

    /// Returns in one number what a scratch is made for, because every batch compares it.
    ///
    /// That is the number of sets and of their ways, the words of a key, and whether the cache steps aside.
    pub(super) fn shape(&self, key_words: usize) -> u64 {
        let rest = key_words << 5 | self.ways() << 1 | usize::from(self.steps_aside);
        self.sets() as u64 | (rest as u64) << 32
    }

    pub(super) fn shortest_pause(&self) -> usize {
        self.longest_pause().div_ceil(32)
    }
}

/// Counts of lookups by their path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lookups answered by the cache.
    pub hits: u64,
    /// Lookups that the cache was asked in vain.
    pub misses: u64,
    /// Lookups past the cache, because it had stepped aside or the engine alone was on trial.
    pub passed_by: u64,
}
