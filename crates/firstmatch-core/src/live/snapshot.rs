//! State that has two replicas: base, tombstones and overlay of each schema.
//!
//! It also defines how a change is applied to a replica. Both replicas get the same changes.

use std::borrow::Cow;
use std::sync::Arc;

use super::attached::Attachments;
use super::filter::{CHUNK, Filter};
use super::front::FrontEngine;
use super::gather::Gather;
use super::left_right::ARC;
use super::log::Changes;
use super::sets::SetRules;
use super::store::Store;
use crate::engine::base::InPlace;
use crate::engine::tombstones::{Tombstones, slots};
use crate::engine::{self, Engine, Match, NamedCounts, Stats, Updatable};
use crate::engines::registry::{AnyBase, Kind, Overlay, Scratch};
use crate::engines::shared::RegionList;
use crate::error::UpdateError;
use crate::key::Keys;
use crate::raw::Level;
use crate::rule::{Lowered, Regions};
use crate::select::Candidate;
use crate::select::choice::Choice;
use crate::select::limits::Limits;

/// Maximum number of memory parts that a base may name in its statistics.
pub(super) const MOST_PARTS: usize = 8;
/// Bytes of the candidates of a choice.
const CANDIDATES: usize = Kind::ALL.len() * size_of::<Candidate>();

/// Facts recorded when the base was built.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) choice: Choice,
    pub(super) kind: Kind,
    /// Engine that answers before the base.
    pub(super) front: Option<Arc<FrontEngine>>,
    /// Statistics of the base at that time.
    pub(super) base: Stats,
    /// One more than the largest slot of its rules.
    slots: usize,
    /// Heap bytes of this struct and the base together.
    pub(super) bytes: usize,
    /// Heap bytes of the base.
    base_bytes: usize,
    /// Whether the budget has room for two replicas at their largest size.
    changes_in_place: bool,
}

impl Built {
    /// Records the facts of `base`, and decides whether it changes in place.
    ///
    /// It does if two replicas at their largest size need at most `allowed` bytes more than the base now, and if
    /// lookups keep `limits` whatever is inserted.
    pub(super) fn new(
        base: &AnyBase,
        choice: Choice,
        front: Option<Arc<FrontEngine>>,
        set: &Lowered,
        allowed: usize,
        limits: &Limits,
    ) -> Self {
        let base_stats = base.stats();
        debug_assert!(base_stats.bytes.capacity() <= MOST_PARTS);
        debug_assert_eq!(base.in_place().is_some(), base.kind().changes_in_place());
        let base_bytes = Self::bytes_of(&base_stats);
        let changes_in_place = base.in_place().map(InPlace::most).is_some_and(|most| {
            let more = 2 * (ARC + size_of::<AnyBase>() + most.bytes) - base_bytes;
            more <= allowed && limits.check(most.lines, most.tests).is_ok()
        });
        let bytes = Self::own_bytes(&base_stats) + base_bytes;
        let (kind, slots) = (base.kind(), slots(set));
        Self { choice, kind, front, base: base_stats, slots, bytes, base_bytes, changes_in_place }
    }

    /// Returns the heap bytes of a base behind an `Arc`, with statistics `base`.
    pub(super) fn bytes_of(base: &Stats) -> usize {
        ARC + size_of::<AnyBase>() + base.total_bytes()
    }

    /// Returns the heap bytes of a `Built` behind an `Arc`, for a base with statistics `base`.
    pub(super) fn own_bytes(base: &Stats) -> usize {
        ARC + size_of::<Self>() + CANDIDATES + base.bytes.capacity() * size_of::<(&str, usize)>()
    }

    /// Maximum of [`Built::own_bytes`] over all bases.
    pub(super) const MOST_OWN_BYTES: usize =
        ARC + size_of::<Self>() + CANDIDATES + MOST_PARTS * size_of::<(&str, usize)>();
}

/// Rules of one schema: front, base, tombstones, overlay, filter and, if searches for overlaps need it, the list of
/// regions.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) built: Arc<Built>,
    /// The front of `built`, once more for lookups: a load less. Both replicas share it.
    pub(super) front: Option<Arc<FrontEngine>>,
    /// The base; both replicas share it until something in it changes.
    pub(super) base: Arc<AnyBase>,
    /// Tombstones of the base's rules, and the number of regions that these rules have.
    pub(super) dead: Tombstones,
    pub(super) dead_regions: usize,
    /// Rules inserted since the base was built, except those inserted into the base in place.
    pub(super) overlay: Overlay,
    /// Maximum number of rules in the overlay.
    pub(super) most: usize,
    filter: Filter,
    /// Regions of all live rules, if [`Config::overlaps`](super::config::Config::overlaps) asks for them.
    pub(super) list: Option<Box<RegionList>>,
}

impl Part {
    /// Builds a part with nothing changed; the filters of both replicas may take `allowed` bytes.
    pub(super) fn new(
        base: AnyBase,
        built: Built,
        overlay: Overlay,
        most: usize,
        list: Option<Box<RegionList>>,
        level: Level,
        allowed: usize,
    ) -> Self {
        let dead = Tombstones::none(base.places(), built.slots);
        let filter = Filter::of(&*base, level, allowed / 2);
        let (front, built, base) = (built.front.clone(), Arc::new(built), Arc::new(base));
        Self { built, front, base, dead, dead_regions: 0, overlay, most, filter, list }
    }

    #[inline(always)]
    pub(super) fn improve(
        &self,
        scratch: &mut Scratch,
        gather: &mut Gather,
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
    ) {
        if self.dead.rules() == 0 && self.overlay.rules() == 0 {
            return self.ask(scratch, &mut gather.front, keys, best);
        }
        self.improve_changed(scratch, gather, keys, best);
    }

    /// Improves `best` by the front, or by the base if there is no front.
    #[inline(always)]
    fn ask(
        &self,
        scratch: &mut Scratch,
        of_front: &mut Option<engine::Scratch>,
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
    ) {
        match &self.front {
            None => self.base.improve(scratch, keys, best),
            Some(front) => front.improve(of_front, keys, best),
        }
    }

    /// Improves `best`, and returns the steps of the front or the base if nothing has changed.
    pub(super) fn count(
        &self,
        scratch: &mut Scratch,
        gather: &mut Gather,
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
    ) -> NamedCounts {
        if self.dead.rules() == 0 && self.overlay.rules() == 0 {
            return match &self.front {
                None => self.base.count(scratch, keys, best),
                Some(front) => front.count(&mut gather.front, keys, best),
            };
        }
        self.improve_changed(scratch, gather, keys, best);
        NamedCounts::default()
    }

    /// Improves keys where something has changed.
    ///
    /// Not inlined, so that lookups without changes do not set up its stack frame.
    #[inline(never)]
    fn improve_changed(&self, scratch: &mut Scratch, gather: &mut Gather, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let (base, Gather { front, before, lists, few }) = (&self.base, gather);
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = &keys.slice(index * CHUNK, index * CHUNK + best.len());
            before[..best.len()].copy_from_slice(best);
            self.ask(scratch, front, keys, best);
            // Few rules have tombstones, so checking answers and repeating some lookups costs less than checking every
            // rule that a lookup meets.
            match self.overlay.rules() {
                0 => lists.of_dead(&self.dead, best),
                _ => self.filter.look(&self.dead, *keys, best, lists),
            }
            if !lists.dead().is_empty() {
                lists.dead().iter().map(|&i| usize::from(i)).for_each(|i| best[i] = before[i]);
                few.improve(lists.dead(), keys, best, |keys, best| base.improve_live(scratch, keys, &self.dead, best));
            }
            few.improve(lists.asked(), keys, best, |keys, best| self.overlay.improve(scratch.overlay(), keys, best));
        }
    }

    /// Number of words of a key.
    pub(super) fn key_words(&self) -> usize {
        self.overlay.schema().words().len()
    }

    pub(super) fn rules(&self) -> usize {
        let base = self.base.in_place().map_or(self.built.base.rules, InPlace::changed_rules);
        base - self.dead.rules() + self.overlay.rules()
    }

    /// Returns the statistics of the base.
    ///
    /// A base that stays as it was built does not compute them again.
    pub(super) fn base_stats(&self) -> Cow<'_, Stats> {
        match self.base.in_place() {
            Some(_) => Cow::Owned(self.base.stats()),
            None => Cow::Borrowed(&self.built.base),
        }
    }

    /// Number of rules inserted into the base and removed from it in place.
    pub(super) fn in_place(&self) -> usize {
        self.base.in_place().map_or(0, InPlace::changes)
    }

    /// Whether the base soon has no room for more insertions in place.
    pub(super) fn is_short_of_room(&self) -> bool {
        self.base.in_place().is_some_and(InPlace::is_short_of_room)
    }

    /// Whether a wide rule that the choice of the base rested on was removed.
    pub(super) fn has_lost_wide(&self) -> bool {
        let mut wide = self.built.choice.wide.iter().flatten();
        wide.any(|&(rule, rank)| self.dead.is_marked(rule) || !self.has_built(rank))
    }

    /// Whether the rule that the base was built with at `rank` is still in it.
    fn has_built(&self, rank: usize) -> bool {
        self.base.in_place().is_none_or(|base| base.has_built(rank))
    }

    /// Whether the rules are exactly those that the base was built from.
    pub(super) fn is_unchanged(&self) -> bool {
        self.dead.rules() == 0 && self.overlay.rules() == 0 && self.in_place() == 0
    }

    /// Returns the base for changes in place, if it allows them.
    ///
    /// A base that is still shared with the other replica is copied first.
    fn own(&mut self) -> Option<&mut dyn InPlace> {
        if !self.built.changes_in_place {
            return None;
        }
        if Arc::get_mut(&mut self.base).is_none() {
            self.base = Arc::new(self.base.replica()?);
        }
        Arc::get_mut(&mut self.base)?.in_place_mut()
    }

    /// Inserts `rule` with the regions `inserted`, or removes it if `inserted` is `None`.
    ///
    /// Two equal parts are equal afterwards, too. `store` has the rules that the base was built from.
    ///
    /// # Errors
    /// If the rule must go to the overlay, and the overlay has no room. Lookups find everything unchanged then.
    pub(super) fn change(&mut self, rule: Match, inserted: Option<&Regions>, store: &Store) -> Result<(), UpdateError> {
        match inserted {
            // A rule without regions is in no engine.
            Some(regions) if regions.is_empty() => {}
            Some(regions) => {
                self.insert(rule, regions, store)?;
                self.list.iter_mut().for_each(|list| regions.iter().for_each(|region| list.add(rule, &region)));
            }
            None => {
                self.remove(rule, store);
                self.list.iter_mut().for_each(|list| list.remove(rule.rule));
            }
        }
        Ok(())
    }

    fn insert(&mut self, rule: Match, regions: &Regions, store: &Store) -> Result<(), UpdateError> {
        if let Some(base) = self.own() {
            if base.insert_in_place(rule, store.before(rule.priority), regions) {
                return Ok(());
            }
        } else if self.dead.is_marked(rule.rule)
            && let Some((rank, range)) = store.find(rule)
            && store.has(rule, range.clone(), regions)
        {
            // The rule that was removed comes back unchanged.
            self.dead.unmark(rule.rule, self.base.places_of(rule.rule, rank, range));
            self.dead_regions -= regions.len();
            return Ok(());
        }
        self.overlay.insert(rule, regions)?;
        self.filter.add(rule, regions);
        Ok(())
    }

    fn remove(&mut self, rule: Match, store: &Store) {
        if let Some((rank, range)) = store.find(rule)
            && !self.dead.is_marked(rule.rule)
            && self.has_built(rank)
        {
            if !self.own().is_some_and(|base| base.remove_built(rank, store.set.regions(), range.clone())) {
                self.dead_regions += range.len();
                self.dead.mark(rule.rule, self.base.places_of(rule.rule, rank, range));
            }
            return;
        }
        let is_removed = self.in_place() > 0
            && self.own().is_some_and(|base| base.remove_inserted(rule, store.before(rule.priority)));
        if !is_removed {
            // A rule without regions is not in the overlay either.
            _ = self.overlay.remove(rule.rule);
        }
    }

    /// Returns the heap bytes that each replica has of its own.
    pub(super) fn bytes(&self) -> usize {
        self.dead.bytes() + self.overlay.bytes() + self.filter.bytes() + self.list_bytes()
    }

    /// Returns the bytes of the base and its `Built`, over both replicas.
    pub(super) fn base_bytes(&self) -> usize {
        match self.in_place() {
            0 => self.built.bytes,
            _ => {
                self.built.bytes - self.built.base_bytes + 2 * Built::bytes_of(&self.base_stats()) - self.shared_bytes()
            }
        }
    }

    /// Returns the bytes that a rebuild keeps if no rule has changed, over both replicas.
    pub(super) fn kept_bytes(&self) -> usize {
        let each = self.dead.bytes() + self.filter_bytes() + self.list_bytes();
        self.front_bytes() + self.built.bytes + 2 * each
    }

    /// Returns the bytes that the bases of both replicas share.
    pub(super) fn shared_bytes(&self) -> usize {
        self.base.in_place().map_or(0, InPlace::shared_bytes)
    }

    /// Returns the bytes of the front, which both replicas share.
    pub(super) fn front_bytes(&self) -> usize {
        self.front.as_deref().map_or(0, FrontEngine::bytes)
    }

    pub(super) fn filter_bytes(&self) -> usize {
        self.filter.bytes()
    }

    pub(super) fn list_bytes(&self) -> usize {
        self.list.as_ref().map_or(0, |list| size_of_val(&**list) + list.bytes())
    }
}

/// State of all schemas in one generation.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Number of commits so far.
    pub(super) generation: u64,
    /// Number of rebuilds so far.
    pub(super) epoch: u64,
    pub(super) parts: Box<[Part]>,
    pub(super) attached: Attachments,
    /// Rules that test live sets, which have steps of their own for both replicas.
    pub(super) sets: SetRules,
}

impl State {
    /// Becomes a copy of `now`, except for the rules of live sets.
    pub(super) fn restore(&mut self, now: &Self) {
        (self.generation, self.epoch) = (now.generation, now.epoch);
        self.parts = now.parts.clone();
        self.attached = now.attached.clone();
    }

    /// Improves `best` by all rules of a schema.
    #[inline(always)]
    pub(super) fn improve(
        &self,
        part: usize,
        scratch: &mut Scratch,
        gather: &mut Gather,
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
    ) {
        self.parts[part].improve(scratch, gather, keys, best);
        self.sets.improve(part, keys, best);
    }

    /// Applies `changes`; on an error, some of them may have been applied.
    ///
    /// Two equal states are equal afterwards, too. `regions` is working memory.
    pub(super) fn change(
        &mut self,
        changes: &Changes,
        stores: &[Arc<Store>],
        regions: &mut [Regions],
    ) -> Result<(), UpdateError> {
        for at in 0..changes.len() {
            for (number, ((part, store), to)) in self.parts.iter_mut().zip(stores).zip(&mut *regions).enumerate() {
                let (rule, inserted) = changes.get(at, number, to);
                part.change(rule, inserted, store)?;
            }
        }
        changes.attached().for_each(|(slot, attached)| self.attached.set(slot, attached));
        Ok(())
    }
}
