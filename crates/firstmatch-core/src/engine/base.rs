//! The trait of engines that the choice of a base may take.

use std::ops::Range;

use super::cost::Work;
use super::tombstones::Dead;
use super::traits::Engine;
use crate::key::Keys;
use crate::rule::{Match, RuleId};

/// Engine whose rules can be marked as removed.
///
/// It keeps the rules that others shadow, so that a removal brings the next match to light. For example, if rule 3
/// shadows rule 5, a packet of both matches rule 5 once rule 3 has a tombstone.
///
/// Tombstones are found by place. Each engine decides what a place is, because a lookup that finds a region must have
/// its place at hand. In `linear` it is the index of the region, in `bit_select` the rank of its rule, in `tuple` the
/// rule's slot.
pub(crate) trait Base: Engine {
    /// Number of places.
    fn places(&self) -> usize;

    /// Returns the places of a rule of the build, its regions being `regions`.
    ///
    /// `rank` rules come before the rule in order of priority.
    fn places_of(&self, rule: RuleId, rank: usize, regions: Range<usize>) -> Range<usize>;

    /// Counts what lookups of `keys` cost.
    fn work(&self, keys: Keys<'_>) -> Work;

    /// Improves `best` as [`Engine::improve`] does, over the live rules alone.
    fn improve_alive(&self, scratch: &mut Self::Scratch, keys: &Keys<'_>, dead: &Dead, best: &mut [Option<Match>]);
}
