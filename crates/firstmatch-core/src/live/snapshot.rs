//! State that has two replicas: base, tombstones and overlay of each schema.
//!
//! It also says how a replica changes, and how the other one follows.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::attached::Attachments;
use super::filter::{CHUNK, Filter};
use super::gather::Gather;
use super::left_right::ARC;
use super::log::Changes;
use super::store::Store;
use crate::engine::tombstones::{Tombstones, slots};
use crate::engine::{Engine, Match, Stats, Updatable};
use crate::engines::registry::{AnyBase, Kind, Overlay, Scratch};
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
    /// Statistics of the base at that time.
    pub(super) base: Stats,
    /// One more than the largest slot of its rules.
    slots: usize,
    /// Heap bytes of this struct and the base together.
    pub(super) bytes: usize,
    /// Heap bytes of the base.
    base_bytes: usize,
    /// Whether two such bases fit the budget with everything that may be inserted.
    changes_in_place: bool,
}

impl Built {
    /// Records the facts of `base`, and decides whether it changes in place.
    ///
    /// It does if it and its second replica, grown to their largest, need at most `allowed` more bytes, and if lookups
    /// keep `limits` whatever is inserted.
    pub(super) fn new(base: &AnyBase, choice: Choice, set: &Lowered, allowed: usize, limits: &Limits) -> Self {
        let base_stats = base.stats();
        debug_assert!(base_stats.bytes.capacity() <= MOST_PARTS);
        let base_bytes = Self::bytes_of(&base_stats);
        let changes_in_place = base.most().is_some_and(|most| {
            let more = 2 * (ARC + size_of::<AnyBase>() + most.bytes) - base_bytes;
            more <= allowed && limits.check(most.lines, most.tests).is_ok()
        });
        let bytes = Self::own_bytes(&base_stats) + base_bytes;
        Self { choice, kind: base.kind(), base: base_stats, slots: slots(set), bytes, base_bytes, changes_in_place }
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

/// Rules of one schema: base, tombstones, overlay and filter.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) built: Arc<Built>,
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
}

impl Part {
    /// Builds a part with nothing changed; the filters of both replicas may take `allowed` bytes.
    pub(super) fn new(
        base: AnyBase,
        built: Built,
        overlay: Overlay,
        most: usize,
        level: Level,
        allowed: usize,
    ) -> Self {
        let dead = Tombstones::none(base.places(), built.slots);
        let filter = Filter::of(&*base, level, allowed / 2);
        Self { built: Arc::new(built), base: Arc::new(base), dead, dead_regions: 0, overlay, most, filter }
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
            return self.base.improve(scratch, keys, best);
        }
        self.improve_changed(scratch, gather, keys, best);
    }

    /// Improves keys where something has changed.
    ///
    /// Not inlined, so that lookups without changes do not set up its stack frame.
    #[inline(never)]
    fn improve_changed(&self, scratch: &mut Scratch, gather: &mut Gather, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let (base, Gather { before, lists, few }) = (&self.base, gather);
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = &keys.slice(index * CHUNK, index * CHUNK + best.len());
            before[..best.len()].copy_from_slice(best);
            base.improve(scratch, keys, best);
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
        let base = self.base.changed_rules().unwrap_or(self.built.base.rules);
        base - self.dead.rules() + self.overlay.rules()
    }

    /// Returns the statistics of the base.
    ///
    /// A base that stays as it was built does not compute them again.
    pub(super) fn base_stats(&self) -> Cow<'_, Stats> {
        match self.base.changed_rules() {
            Some(_) => Cow::Owned(self.base.stats()),
            None => Cow::Borrowed(&self.built.base),
        }
    }

    /// Number of rules inserted into the base and removed from it in place.
    pub(super) fn in_place(&self) -> usize {
        self.base.changes()
    }

    /// Whether the base soon has no room for more insertions in place.
    pub(super) fn is_short_of_room(&self) -> bool {
        self.base.is_short_of_room()
    }

    /// Whether a wide rule has been removed that the base was chosen with.
    pub(super) fn has_lost_wide(&self) -> bool {
        let mut wide = self.built.choice.wide.iter().flatten();
        wide.any(|&(rule, rank)| self.dead.is_marked(rule) || !self.base.has_built(rank))
    }

    /// Whether the rules are exactly those that the base was built from.
    pub(super) fn is_unchanged(&self) -> bool {
        self.dead.rules() == 0 && self.overlay.rules() == 0 && self.in_place() == 0
    }

    /// Returns the base for changes in place, if it allows them.
    ///
    /// A base that is still shared with the other replica is copied first.
    fn own(&mut self) -> Option<&mut AnyBase> {
        if !self.built.changes_in_place {
            return None;
        }
        if Arc::get_mut(&mut self.base).is_none() {
            self.base = Arc::new(self.base.replica()?);
        }
        Arc::get_mut(&mut self.base)
    }

    /// Clears the base's dirty list, because no other replica is to follow it.
    pub(super) fn leads_none(&mut self) {
        if let Some(base) = Arc::get_mut(&mut self.base) {
            base.leads_none();
        }
    }

    /// Makes the base follow the other replica's, by copying what is dirty there.
    fn follow(&mut self, other: &Self) {
        if !Arc::ptr_eq(&self.base, &other.base)
            && let Some(base) = self.own()
        {
            base.follow(&other.base);
        }
    }

    /// Inserts `rule` with the regions `inserted`, or removes it where that is `None`.
    ///
    /// Returns the step that the other replica has to repeat. That is `None` where the base changed in place, and where
    /// `inserted` is empty, because a rule without regions is in no engine. `store` has the rules that the base was
    /// built from.
    pub(super) fn change(
        &mut self,
        rule: Match,
        inserted: Option<&Regions>,
        store: &Store,
    ) -> Result<Option<Step>, UpdateError> {
        match inserted {
            Some(regions) if regions.is_empty() => Ok(None),
            Some(regions) => self.insert(rule, regions, store),
            None => Ok(self.remove(rule, store)),
        }
    }

    fn insert(&mut self, rule: Match, regions: &Regions, store: &Store) -> Result<Option<Step>, UpdateError> {
        if let Some(base) = self.own() {
            if base.insert_in_place(rule, store.before(rule.priority), regions) {
                return Ok(None);
            }
        } else if self.dead.is_marked(rule.rule)
            && let Some((rank, range)) = store.find(rule)
            && store.has(range.clone(), regions)
        {
            // The rule that was removed comes back unchanged.
            let places = self.base.places_of(rule.rule, rank, range);
            let step = Step::Unmark { rule, places, regions: regions.len() };
            self.apply(&step, None);
            return Ok(Some(step));
        }
        self.put(rule, regions)?;
        Ok(Some(Step::Put))
    }

    fn remove(&mut self, rule: Match, store: &Store) -> Option<Step> {
        if let Some((rank, range)) = store.find(rule)
            && !self.dead.is_marked(rule.rule)
            && self.base.has_built(rank)
        {
            if self.own().is_some_and(|base| base.remove_built(rank, store.set.regions(), range.clone())) {
                return None;
            }
            let regions = range.len();
            let mark = Step::Mark { rule, places: self.base.places_of(rule.rule, rank, range), regions };
            self.apply(&mark, None);
            return Some(mark);
        }
        if self.in_place() > 0
            && let Some(base) = self.own()
            && base.remove_inserted(rule, store.before(rule.priority))
        {
            return None;
        }
        let take = Step::Take(rule);
        self.apply(&take, None).then_some(take)
    }

    fn put(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        self.overlay.insert(rule, regions)?;
        self.filter.add(rule, regions);
        Ok(())
    }

    /// Applies `step`, with the rule and regions that it inserts; returns whether it could.
    ///
    /// A step that one replica has done can be done to the other.
    pub(super) fn apply(&mut self, step: &Step, inserted: Option<(Match, &Regions)>) -> bool {
        match (step, inserted) {
            (Step::Put, Some((rule, regions))) => self.put(rule, regions).is_ok(),
            (Step::Put, None) => false,
            (Step::Take(rule), _) => self.overlay.remove(rule.rule).is_ok(),
            (Step::Mark { rule, places, regions }, _) => {
                self.dead.mark(rule.rule, places.clone());
                self.dead_regions += regions;
                true
            }
            (Step::Unmark { rule, places, regions }, _) => {
                self.dead.unmark(rule.rule, places.clone());
                self.dead_regions -= regions;
                true
            }
        }
    }

    /// Returns the heap bytes that each replica has of its own.
    pub(super) fn bytes(&self) -> usize {
        self.dead.bytes() + self.overlay.bytes() + self.filter.bytes()
    }

    /// Returns the bytes of the base and its `Built`, over both replicas.
    pub(super) fn base_bytes(&self) -> usize {
        match self.in_place() {
            0 => self.built.bytes,
            _ => {
                self.built.bytes - self.built.base_bytes + 2 * Built::bytes_of(&self.base_stats())
                    - self.base.shared_bytes()
            }
        }
    }

    pub(super) fn filter_bytes(&self) -> usize {
        self.filter.bytes()
    }
}

/// Step of a change that the other replica repeats.
///
/// Changes of the base in place are no steps, because the other replica's base follows them.
#[derive(Debug)]
pub(super) enum Step {
    /// Inserts the rule into the overlay.
    Put,
    /// Removes the rule from the overlay.
    Take(Match),
    /// Gives a rule of the base a tombstone.
    Mark { rule: Match, places: Range<usize>, regions: usize },
    /// Takes the tombstone off a rule of the base.
    Unmark { rule: Match, places: Range<usize>, regions: usize },
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
}

/// Steps of a commit, each with the index of its change and of its part.
pub(super) type Steps = Vec<(u32, u32, Step)>;

impl State {
    /// Applies `changes` and appends their steps; on an error some of them may be done.
    ///
    /// `regions` is working memory.
    pub(super) fn change(
        &mut self,
        changes: &Changes,
        stores: &[Arc<Store>],
        steps: &mut Steps,
        regions: &mut [Regions],
    ) -> Result<(), UpdateError> {
        for at in 0..changes.len() {
            for (number, ((part, store), to)) in self.parts.iter_mut().zip(stores).zip(&mut *regions).enumerate() {
                let (rule, inserted) = changes.get(at, number, to);
                if let Some(step) = part.change(rule, inserted, store)? {
                    steps.push((at as u32, number as u32, step));
                }
            }
        }
        self.attach(changes);
        Ok(())
    }

    /// Records what inserted rules attach to decisions.
    fn attach(&mut self, changes: &Changes) {
        changes.attached().for_each(|(slot, attached)| self.attached.set(slot, attached));
    }

    /// Replays the changes that were done to `other`, the other replica.
    pub(super) fn apply(&mut self, other: &Self, changes: &Changes, steps: &Steps, regions: &mut [Regions]) {
        self.parts.iter_mut().zip(&other.parts).for_each(|(part, other)| part.follow(other));
        self.attach(changes);
        for (at, part, step) in steps {
            let part = *part as usize;
            let put = match step {
                Step::Put => {
                    let (rule, regions) = changes.get(*at as usize, part, &mut regions[part]);
                    regions.map(|regions| (rule, regions))
                }
                _ => None,
            };
            let done = self.parts[part].apply(step, put);
            debug_assert!(done, "{step:?}");
        }
    }
}
