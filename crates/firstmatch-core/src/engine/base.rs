//! The trait of engines that the choice of a base may take.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::budget::Visits;
use super::tombstones::Tombstones;
use super::traits::Engine;
use crate::engine::selector::Selector;
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::Level;
use crate::rule::{Lowered, Match, Regions, RuleId};
use crate::schema::Schema;

/// Inputs of the build of a base.
#[derive(Debug)]
pub(crate) struct Build<'a> {
    /// Bytes on the heap that the base may hold.
    pub(crate) run_bytes: usize,
    pub(crate) simd: Option<Level>,
    pub(crate) seed: Option<u64>,
    /// Whether the caller asked for this engine by name, so that limits on its use do not apply.
    pub(crate) is_forced: bool,
    pub(crate) visits: &'a Visits,
    /// Choices of an earlier base of the same engine, see [`Base::choices`].
    pub(crate) like: Option<&'a Choices>,
}

/// Choices of a build that a later build over similar rules may keep. Only the engine knows the type behind it.
pub(crate) type Choices = Arc<dyn Any + Send + Sync>;

/// Maximum memory and worst-case lookup of a base after any changes in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) bytes: usize,
    pub(crate) lines: usize,
    pub(crate) tests: usize,
}

/// Engine that can be a base, apart from its scratch: object safe.
///
/// It must keep rules that other rules shadow, so that the next match is found after a removal. For example, if rule 3
/// shadows rule 5, a packet of both matches rule 5 once rule 3 has a tombstone.
///
/// Tombstones are found by place. Each engine decides what a place is, because a lookup that finds a region must have
/// its place at hand. In `linear` it is the index of the region, in `bit_select` the rank of its rule, in `tuple` the
/// rule's slot.
pub(crate) trait Base {
    /// Number of places.
    fn places(&self) -> usize;

    /// Returns the places of a built rule. By default these are `regions`, the indices of its regions.
    ///
    /// `rank` rules come before the rule in order of priority.
    fn places_of(&self, _rule: RuleId, _rank: usize, regions: Range<usize>) -> Range<usize> {
        regions
    }

    /// Returns the maximum region visits of a lookup, in whole blocks of eight.
    fn visits(&self) -> usize;

    /// Returns the choices of the build, for a later build.
    fn choices(&self) -> Option<Choices> {
        None
    }

    /// Returns the selected bits that separate its rules, if there are any.
    ///
    /// For nearly every region, some selector has only a few bits that the region leaves open.
    fn selectors(&self) -> Vec<Selector> {
        Vec::new()
    }

    /// Returns the base as one that changes in place, if it is one.
    fn in_place(&self) -> Option<&dyn InPlace> {
        None
    }

    /// Returns the base as one that changes in place, to change it.
    fn in_place_mut(&mut self) -> Option<&mut dyn InPlace> {
        None
    }
}

/// Base that takes changes in place.
///
/// The effect of a change must depend only on the engine and the arguments, so that two equal engines stay equal if
/// both get the same changes.
pub(crate) trait InPlace {
    /// Returns the maximum memory and the worst-case lookup after any changes.
    fn most(&self) -> Most;

    /// Returns the bytes that a replica shares with its original.
    fn shared_bytes(&self) -> usize;

    /// Inserts a rule that follows `before` built rules; returns whether it could.
    fn insert_in_place(&mut self, rule: Match, before: usize, regions: &Regions) -> bool;

    /// Removes a rule that was inserted behind `before` built rules; returns whether it was there.
    fn remove_inserted(&mut self, rule: Match, before: usize) -> bool;

    /// Removes the built rule of a rank, whose regions are `range` of `regions`; returns whether it could.
    fn remove_built(&mut self, rank: usize, regions: &Regions, range: Range<usize>) -> bool;

    /// Whether the built rule of a rank has not been removed.
    fn has_built(&self, rank: usize) -> bool;

    /// Returns the number of rules after the changes.
    fn changed_rules(&self) -> usize;

    /// Number of rules inserted and removed.
    fn changes(&self) -> usize;

    /// Whether little room is left for more insertions.
    fn is_short_of_room(&self) -> bool;
}

/// Engine that can be a base, with its scratch and the facts that a choice needs before the build.
pub(crate) trait BaseEngine: Engine + Base + Sized {
    /// Name by which a caller asks for this kind of base.
    const NAME: &'static str;
    /// Whether it is a plain list, because a few regions need no more.
    const IS_LIST: bool = false;
    /// Whether it takes changes in place.
    const CHANGES_IN_PLACE: bool = false;
    /// Whether it is built from products of sets, so that the number of regions does not matter.
    const TAKES_PRODUCTS: bool = false;
    /// Number of cache lines that lookups of every other candidate must touch on average to make this one worth building.
    ///
    /// It saves the build of an engine that is only of use if no other is good.
    const WORTH_LINES: usize = 0;
    /// Number of bytes that every other candidate must take to make this one worth building.
    const WORTH_BYTES: usize = 0;

    /// Builds the base.
    ///
    /// # Errors
    /// If it would exceed the bytes or the visits, or if this machine lacks the forced instruction set.
    fn build_base(set: &Lowered, how: &Build<'_>) -> Result<Self, BuildError>;

    /// Returns a bound on the heap bytes of a build, including the base itself.
    fn build_bytes(set: &Lowered, is_forced: bool) -> usize;

    /// Returns the region visits that a build beside another candidate may take.
    fn build_visits(_set: &Lowered) -> usize {
        usize::MAX
    }

    /// Returns the worst-case region tests of a lookup, if they are known before the build.
    fn tests_of(_set: &Lowered) -> Option<usize> {
        None
    }

    /// Returns a scratch that serves every engine of this type over a schema.
    fn largest_scratch(schema: &Schema) -> Self::Scratch;

    /// Improves `best` as [`Engine::improve`] does, but only by live rules.
    fn improve_live(
        &self,
        scratch: &mut Self::Scratch,
        keys: &Keys<'_>,
        tombstones: &Tombstones,
        best: &mut [Option<Match>],
    );

    /// Returns a copy for the other replica, if the base changes in place.
    fn replica(&self) -> Option<Self> {
        None
    }
}

/// Returns the region visits of a lookup of at most `tests` tests, in whole blocks of eight.
pub(crate) fn visits_of(tests: usize) -> usize {
    tests.next_multiple_of(8).max(8)
}
