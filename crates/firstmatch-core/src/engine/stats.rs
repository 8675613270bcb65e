//! Statistics of engines.

use super::counts::NamedCounts;

/// Statistics of an engine, for people and for tests.
///
/// ```
/// use firstmatch_core::Stats;
///
/// let stats = Stats { rules: 7, bytes: vec![("blocks", 192), ("matches", 112)], ..Stats::default() };
/// assert_eq!(stats.total_bytes(), 304);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of rules with at least one region.
    pub rules: usize,
    /// Number of regions.
    pub regions: usize,
    /// Bytes on the heap by part; their sum is what the allocator counts.
    pub bytes: Vec<(&'static str, usize)>,
    /// Numbers that only some engines have, such as nodes, height or shared vectors.
    pub counts: NamedCounts,
    /// Number of hash tables, trees or partitions that a lookup may visit; 1 without any.
    pub tables: usize,
    /// Largest number of regions that one lookup can be made to test.
    pub worst_tests: usize,
    /// Largest number of cache lines that one lookup can be made to touch.
    pub worst_lines: usize,
    /// Number of regions in the largest bucket.
    ///
    /// It exceeds the limit in the engine's configuration if splitting could not keep that limit.
    pub longest_bucket: usize,
    /// Number of regions in the overflow list, outside the tables.
    ///
    /// They would need more tables, or longer groups, than allowed. A lookup tests them if they can improve its match.
    pub overflow: usize,
    /// Whether rules that other rules shadow wholly are kept, so that they match again after a removal.
    pub keeps_shadowed: bool,
}

impl Stats {
    /// Number of bytes in all.
    pub fn total_bytes(&self) -> usize {
        self.bytes.iter().map(|(_, bytes)| bytes).sum()
    }
}
