//! Search for the regions that overlap a box. Caches of answers use it.

use std::any::Any;
use std::sync::Arc;

use crate::rule::{Match, Region};

/// Box of the key space, and a bound on the priorities of the regions to find.
///
/// A search for overlapping regions passes it to its caller with each region found. The caller may shrink the box and
/// lower the bound, so that the rest of the search finds less.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// Smallest value of each key word.
    pub lo: Vec<u32>,
    /// Largest value of each key word.
    pub hi: Vec<u32>,
    /// Priority that a region has to beat; `None` takes every region.
    pub below: Option<u64>,
    /// Number of regions that searches have tested so far.
    ///
    /// If eight are tested at once, all eight count.
    pub tested: u64,
    /// Number of nodes that searches have visited so far, in a tree.
    pub visited: u64,
    /// Bitmap of the ranks of visited regions, for searches that meet a region more than once.
    pub(crate) seen: Vec<u64>,
    /// Bounds and masks of the current region.
    pub(crate) row: Vec<u32>,
    /// Reader slot of the thread, for rules that a writer may change meanwhile.
    pub(crate) slot: Option<Arc<dyn Any + Send + Sync>>,
}

impl Probe {
    /// Builds a probe for the box of these bounds, without a bound on priorities.
    pub fn new(lo: &[u32], hi: &[u32]) -> Self {
        Self { lo: lo.to_vec(), hi: hi.to_vec(), below: None, tested: 0, visited: 0, ..Self::default() }
    }

    /// Whether a region of this priority is still to be found.
    #[inline]
    pub fn takes(&self, priority: u64) -> bool {
        self.below.is_none_or(|below| priority < below)
    }

    /// Makes the box the largest one around `key` in a region that holds the key.
    ///
    /// Under a mask, a word may only vary below the mask's lowest bit. For example, the value 4 under the mask 1100
    /// gives the interval 4 to 7, and under the mask 0101 it gives 4 alone.
    pub(crate) fn become_home(&mut self, region: &Region<'_>, key: &[u32]) {
        self.lo.clear();
        self.lo.extend_from_slice(region.lo);
        self.hi.clear();
        self.hi.extend_from_slice(region.hi);
        let Some((_, masks)) = region.ternary else { return };
        for (word, &mask) in masks.iter().enumerate().filter(|(_, mask)| **mask != 0) {
            let free = (1 << mask.trailing_zeros()) - 1;
            self.lo[word] = self.lo[word].max(key[word] & !free);
            self.hi[word] = self.hi[word].min(key[word] | free);
        }
    }

    /// Whether the bounds of a region and the box have a key in common.
    ///
    /// Masks do not count, so that a ternary region may be reported although it has no key in the box.
    #[inline]
    pub fn overlaps(&self, region: &Region<'_>) -> bool {
        let bounds = self.lo.iter().zip(&self.hi).zip(region.lo.iter().zip(region.hi));
        bounds.into_iter().all(|((lo, hi), (from, to))| lo <= to && from <= hi)
    }
}

/// Search for the regions that overlap a box.
///
/// ```
/// use firstmatch_core::engines::linear::{Config, Linear};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Overlaps, Probe};
///
/// let text = "family ipv4\npermit src 10.0.0.0/8\ndeny src 10.1.0.0/16\npermit src 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let lowered = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine = Linear::build(&lowered, &Config::default())?;
///
/// // All packets from 10.1.2.0/24.
/// let largest: Vec<u32> = lowered.schema().words().iter().map(|word| word.max).collect();
/// let mut probe = Probe::new(&[0x0A01_0200, 0, 0, 0, 0], &[&[0x0A01_02FF], &largest[1..]].concat());
/// let mut found = Vec::new();
/// engine.visit(&mut probe, 0, usize::MAX, &mut |_, rule, _| found.push(rule.rule.slot()));
/// assert_eq!(found, [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Overlaps: Send + Sync {
    /// Gives `probe` the memory that searches of this engine need beside the box.
    ///
    /// Otherwise the first search with the probe allocates that memory.
    fn prepare(&self, _probe: &mut Probe) {}

    /// Calls `visit` for the regions that overlap `probe` and beat its bound, in any order, each once.
    ///
    /// It tests about `most` regions from `cursor` on, which is 0 at first. It returns the next cursor, or `None` at
    /// the end. A search that cannot be continued, such as a walk down a tree, ignores `most` and goes to the end.
    /// `visit` may shrink the box of the probe and lower its bound.
    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64>;

    /// Makes the box of `probe` one around `key` in a region of `rule`; returns whether a region holds the key.
    ///
    /// The box is the whole region, unless some word of the region is under a mask.
    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool;
}
