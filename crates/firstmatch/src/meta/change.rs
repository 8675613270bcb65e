//! Commits: what is asked for, done to the copy that no reader takes, all of it or nothing.

use std::mem;
use std::sync::Arc;

use super::Config;
use super::changes::{Changes, Log};
use super::choose::{self, Before, Chosen};
use super::rebuild::{Feed, RebuildJob, Rebuilt, Renewed, Retired, Running, Source, catch_up};
use super::state::{Built, Part, State, Step, Steps, slots};
use super::store::Store;
use super::twin::{ARC, Busy, Twin};
use crate::alive::Dead;
use crate::error::{BuildError, UpdateError};
use crate::rule::{Lowered, Regions};
use crate::simd::Level;
use crate::tuple::{self, TupleMerge};

/// Changes the rules of all schemas.
#[derive(Debug)]
pub(super) struct Changer {
    pub(super) twin: Arc<Twin<State>>,
    pub(super) config: Config,
    /// For each schema the rules of its base.
    stores: Box<[Arc<Store>]>,
    /// What the next commit is to do.
    pub(super) next: Changes,
    owed: Owed,
    /// All commits since the bases were built.
    log: Log,
    /// Memory for the regions of one rule, by part.
    regions: Box<[Regions]>,
    generation: u64,
    /// For each part what it has come to.
    sizes: Box<[Sizes]>,
    running: Option<Running>,
}

/// What the copy that no reader takes lacks.
#[derive(Debug)]
struct Owed {
    changes: Changes,
    steps: Steps,
    /// It is to be made anew from the other.
    copy: bool,
}

/// How much of a part is not its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    base: usize,
    overlay: usize,
    most: usize,
    dead: usize,
    /// Rules that have come to the base or gone from it.
    in_place: usize,
    is_short_of_room: bool,
}

impl Sizes {
    fn of(part: &Part) -> Self {
        Self {
            base: part.built.rules,
            overlay: part.overlay.rules(),
            most: part.most,
            dead: part.dead.rules(),
            in_place: part.in_place(),
            is_short_of_room: part.is_short_of_room(),
        }
    }
}

impl Owed {
    /// Gives it to the copy. Should whatever is done next panic, the copy is made anew, so one that was not made whole
    /// says so until it is.
    fn settle(&mut self, twin: &Twin<State>, state: &mut State, regions: &mut [Regions]) {
        let now = twin.now().1;
        if mem::replace(&mut self.copy, true) {
            *state = State::clone(&now);
        } else {
            state.apply(&now, &self.changes, &self.steps, regions);
        }
        self.steps.clear();
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.steps.clear();
        self.copy = false;
    }

    fn bytes(&self) -> usize {
        self.changes.bytes() + self.steps.capacity() * size_of::<(u32, u32, Step)>()
    }
}

impl Changer {
    /// Builds the first base of every schema.
    pub(super) fn new(mut sets: Vec<Lowered>, config: &Config) -> Result<Self, BuildError> {
        sets.iter_mut().for_each(Lowered::forget_nowhere);
        let state = first(&sets, config, &[])?;
        let lanes = || sets.iter().map(|set| set.schema().lanes().len());
        Ok(Self {
            config: config.clone(),
            next: Changes::new(lanes()),
            owed: Owed { changes: Changes::new(lanes()), steps: Vec::new(), copy: false },
            log: Log::new(lanes()),
            regions: lanes().map(Regions::new).collect(),
            generation: 0,
            sizes: state.parts.iter().map(Sizes::of).collect(),
            running: None,
            twin: Arc::new(Twin::new(state)),
            stores: stores(sets),
        })
    }

    /// Whether an overlay has so many rules or a base so many dead ones that it is time, and no rebuild is running.
    pub(super) fn rebuild_is_due(&self) -> bool {
        let is_due = |sizes: &Sizes| {
            sizes.is_short_of_room
                || sizes.overlay >= self.config.overlay_due(sizes.base)
                || sizes.dead >= self.config.dead_due(sizes.base)
                || sizes.in_place >= self.config.in_place_due(sizes.base)
        };
        self.sizes.iter().any(is_due) && !self.running.as_ref().is_some_and(Running::is_alive)
    }

    /// Does everything in `next`, in its order, or nothing; the generation it makes. Rules to be inserted have free slots
    /// and priorities, those to be removed are live. What was done is in [`Changer::last`], and `next` is empty.
    ///
    /// # Errors
    /// When an overlay or the budget has no room; when a batch in progress has the copy and `wait` is false. `next` is as
    /// it was.
    pub(super) fn commit(&mut self, wait: bool) -> Result<u64, UpdateError> {
        let inserts = self.next.rules().any(|(_, insert)| insert);
        if inserts {
            self.check_overlays()?;
        }
        let Self { twin, config, stores, next, owed, regions, generation, sizes, .. } = self;
        let now = *generation + 1;
        let done = twin.flip(wait, |state| {
            owed.settle(twin, state, regions);
            let changed = state.change(next, stores, &mut owed.steps, regions);
            // Removals take no memory, and are never refused.
            let has_room = || if inserts { check_room(twin, config, state.parts.iter()) } else { Ok(()) };
            if let Err(error) = changed.and_then(|()| has_room()) {
                *state = State::clone(&twin.now().1);
                owed.clear();
                return Err(error);
            }
            state.generation = now;
            sizes.iter_mut().zip(&state.parts).for_each(|(sizes, part)| *sizes = Sizes::of(part));
            Ok(())
        });
        done.map_err(|Busy| UpdateError::busy())??;
        self.generation = now;
        self.owed.copy = false;
        mem::swap(&mut self.owed.changes, &mut self.next);
        self.next.clear();
        self.note();
        Ok(now)
    }

    /// What the last commit has done.
    pub(super) fn last(&self) -> &Changes {
        &self.owed.changes
    }

    /// Adds the last commit to the log.
    fn note(&mut self) {
        let whole = self.log.append(&self.owed.changes);
        let feed = self.running.as_ref().and_then(Running::feed);
        match feed {
            Some(feed) if whole > 0 => feed.put(self.log.last_whole(whole)),
            None if self
                .log
                .is_long(self.sizes.iter().map(|sizes| sizes.overlay + sizes.dead + sizes.in_place).sum()) =>
            {
                self.log.shorten();
            }
            _ => {}
        }
    }

    /// Refuses early what no overlay can have room for, however many of its rules are removed.
    fn check_overlays(&self) -> Result<(), UpdateError> {
        let removed = self.next.rules().filter(|(_, insert)| !insert).count();
        for (number, sizes) in self.sizes.iter().enumerate() {
            let puts = (0..self.next.len()).filter(|&at| self.next.is_put(at, number)).count();
            check_overlay((sizes.overlay + puts).saturating_sub(removed), sizes.most)?;
        }
        Ok(())
    }

    /// Begins a rebuild of every base whose rules have changed; one that is running is forgotten.
    pub(super) fn begin_rebuild(&mut self) -> RebuildJob {
        let state = self.twin.now().1;
        let pieces = self.log.pieces();
        let source = |(part, store): (&Part, &Arc<Store>)| {
            let is_unchanged = part.is_unchanged();
            Source {
                before: Before::of(&part.base, &part.built.choice),
                store: Arc::clone(store),
                changes: if is_unchanged { Vec::new() } else { pieces.clone() },
                unchanged: is_unchanged.then(|| part.built.bytes + 2 * (part.dead.bytes() + part.filter_bytes())),
            }
        };
        let sources = state.parts.iter().zip(&self.stores).map(source).collect();
        let each = |part: &Part| 2 * (size_of::<Part>() + part.overlay.bytes());
        let reserved = fixed_bytes(&self.twin) + state.parts.iter().map(each).sum::<usize>();
        let feed = Arc::new(Feed::default());
        self.running = Some(Running::new(&feed, pieces.len()));
        RebuildJob { feed, config: self.config.clone(), sources, reserved }
    }

    /// Forgets the rebuild that is running.
    pub(super) fn forget_rebuild(&mut self) {
        self.running = None;
    }

    /// Puts new bases in place of the old ones, with the changes made since they were begun.
    ///
    /// # Errors
    /// When they are not those begun last, or the budget or an overlay has no room; they are gone then, nothing else is
    /// changed.
    pub(super) fn install(&mut self, rebuilt: Rebuilt) -> Result<Retired, UpdateError> {
        let running = self.running.take_if(|running| running.is_of(&rebuilt)).ok_or_else(UpdateError::old_rebuild)?;
        let Rebuilt { mut parts, caught_up, sources, .. } = rebuilt;
        for (number, part) in parts.iter_mut().enumerate() {
            let Some(Renewed { copies: [a, b], store }) = part else { continue };
            let mut left = self.log.since(running.pieces + caught_up);
            left.try_for_each(|piece| catch_up(&mut [a, b], store, piece, number)).map_err(UpdateError::lowering)?;
        }
        let Self { twin, config, stores, owed, regions, generation, sizes, .. } = self;
        let state = twin.now().1;
        let new = parts.iter().zip(&state.parts).map(|(new, old)| new.as_ref().map_or(old, |new| &new.copies[0]));
        check_room(twin, config, new)?;
        let epoch = state.epoch + 1;
        drop(state);
        for copy in 0..2 {
            let done = twin.flip(true, |state| {
                if copy == 0 {
                    owed.settle(twin, state, regions);
                }
                for (part, new) in state.parts.iter_mut().zip(&mut parts) {
                    new.iter_mut().for_each(|new| mem::swap(part, &mut new.copies[copy]));
                }
                (state.generation, state.epoch) = (*generation, epoch);
                sizes.iter_mut().zip(&state.parts).for_each(|(sizes, part)| *sizes = Sizes::of(part));
                Ok::<_, UpdateError>(())
            });
            debug_assert!(matches!(done, Ok(Ok(()))), "it waits");
            owed.clear();
        }
        for (store, new) in stores.iter_mut().zip(&mut parts) {
            new.iter_mut().for_each(|new| mem::swap(store, &mut new.store));
        }
        self.log.forget(running.pieces);
        Ok(Retired { epoch, _parts: parts.into_iter().flatten().collect(), _sources: sources, _states: Vec::new() })
    }

    /// Puts other rules in place of all there are, as one commit and a rebuild. One that is running is forgotten.
    ///
    /// # Errors
    /// When no base fits the budget; nothing is changed then.
    pub(super) fn replace(&mut self, mut sets: Vec<Lowered>) -> Result<Retired, BuildError> {
        sets.iter_mut().for_each(Lowered::forget_nowhere);
        let now = self.twin.now().1;
        let mut new = first(&sets, &self.config, &now.parts)?;
        let lanes = sets.iter().map(|set| set.schema().lanes().len());
        (new.generation, new.epoch) = (self.generation + 1, now.epoch + 1);
        drop(now);
        let epoch = new.epoch;
        self.sizes = new.parts.iter().map(Sizes::of).collect();
        self.log = Log::new(lanes);
        let mut states = vec![new.clone(), new];
        for state in &mut states {
            let done = self.twin.flip(true, |copy| {
                mem::swap(copy, state);
                Ok::<_, UpdateError>(())
            });
            debug_assert!(matches!(done, Ok(Ok(()))), "it waits");
            self.owed.clear();
        }
        self.generation += 1;
        self.stores = stores(sets);
        self.running = None;
        Ok(Retired { epoch, _states: states, ..Retired::default() })
    }

    /// Bytes on the heap beside the twin's: the rules that rebuilds start from, what has changed since, and memory for
    /// changes.
    pub(super) fn bytes(&self) -> usize {
        let store = |store: &Arc<Store>| ARC + size_of::<Store>() + store.bytes();
        size_of_val(&self.stores[..])
            + self.stores.iter().map(store).sum::<usize>()
            + self.next.bytes()
            + self.owed.bytes()
            + self.log.bytes()
            + size_of_val(&self.regions[..])
            + self.regions.iter().map(Regions::bytes).sum::<usize>()
            + size_of_val(&self.sizes[..])
    }
}

fn stores(sets: Vec<Lowered>) -> Box<[Arc<Store>]> {
    sets.into_iter().map(|set| Arc::new(Store::new(set))).collect()
}

/// Bytes of the twin but for what is in its copies.
fn fixed_bytes(twin: &Twin<State>) -> usize {
    Twin::<State>::SHARED + twin.bytes()
}

fn check_overlay(needed: usize, most: usize) -> Result<(), UpdateError> {
    if needed > most { Err(UpdateError::overlay(needed, most)) } else { Ok(()) }
}

/// Refuses parts whose overlays hold too many rules or that take too many bytes, both copies together.
fn check_room<'a>(
    twin: &Twin<State>,
    config: &Config,
    parts: impl Iterator<Item = &'a Part> + Clone,
) -> Result<(), UpdateError> {
    parts.clone().try_for_each(|part| check_overlay(part.overlay.rules(), part.most))?;
    let allowed = config.budget.run_bytes;
    if allowed == usize::MAX {
        return Ok(());
    }
    let each = |part: &Part| part.base_bytes() + 2 * (size_of::<Part>() + part.bytes());
    let needed = fixed_bytes(twin) + parts.map(each).sum::<usize>();
    if needed > allowed { Err(UpdateError::bytes(needed, allowed)) } else { Ok(()) }
}

/// The first generation, in place of what was before.
pub(super) fn first(sets: &[Lowered], config: &Config, before: &[Part]) -> Result<State, BuildError> {
    let overlays = sets.iter().map(|set| new_overlay(set, config)).collect::<Result<Vec<_>, _>>()?;
    let mut reserved = Twin::<State>::SHARED + 2 * (ARC + size_of::<State>());
    for (set, overlay) in sets.iter().zip(&overlays) {
        reserved += 2 * (size_of::<Part>() + overlay.bytes() + marks_bytes(set));
    }
    let parts = sets.iter().enumerate().map(|(number, set)| {
        let before = before.get(number).map(|part| Before::of(&part.base, &part.built.choice));
        new_part(set, config, &mut reserved, before.as_ref())
    });
    let parts = parts.collect::<Result<_, _>>()?;
    Ok(State { generation: 0, epoch: 0, parts })
}

fn new_overlay(set: &Lowered, config: &Config) -> Result<TupleMerge, BuildError> {
    let config = tuple::Config { simd: config.simd, seed: config.seed, ..Default::default() };
    TupleMerge::new(set.schema(), &config)
}

/// Builds a base where so many bytes are taken by all else, its marks and overlay included, and what belongs to it. What
/// it takes is added; `before` is that of the base it replaces.
pub(super) fn new_part(
    set: &Lowered,
    config: &Config,
    reserved: &mut usize,
    before: Option<&Before>,
) -> Result<Part, BuildError> {
    let needed = *reserved + ARC + size_of::<Built>() + ARC + size_of::<Chosen>();
    let most = config.budget.run_bytes;
    let allowed = most.checked_sub(needed).ok_or_else(|| BuildError::bytes(needed, most))?;
    let allowed = if most == usize::MAX { usize::MAX } else { allowed };
    let (base, choice) = choose::choose(set, config, allowed, before)?;
    let bytes = ARC + size_of::<Built>() + Built::bytes_of(&base);
    *reserved += bytes;
    let left = if config.in_place == Some(0) { 0 } else { most.saturating_sub(*reserved) / 2 };
    let built = Built::new(&base, choice, set, left, &config.limits);
    let (overlay, held) = (new_overlay(set, config)?, config.most_in_overlay(built.rules));
    let part = Part::new(base, built, overlay, held, Level::choose(config.simd)?, most.saturating_sub(*reserved) / 4);
    *reserved += 2 * part.filter_bytes();
    Ok(part)
}

/// What the marks of a base over these rules take at most: one a region or a slot, and one a slot.
pub(super) fn marks_bytes(set: &Lowered) -> usize {
    let slots = slots(set);
    Dead::bytes_for(set.regions().len().max(slots), slots)
}
