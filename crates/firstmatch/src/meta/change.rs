//! Commits: what is asked for, done to the copy that no reader takes, all of it or nothing.

use std::mem;
use std::sync::Arc;

use super::Config;
use super::choose::{self, Choice};
use super::rebuild::{RebuildJob, Rebuilt, Running, Source};
use super::state::{Built, Change, Part, Request, State, Step};
use super::twin::{ARC, Busy, Twin};
use crate::error::{BuildError, UpdateError};
use crate::rule::Lowered;
use crate::tuple::{self, TupleMerge};

/// Fewer rules than these never fill an overlay, and never are too many dead ones.
const LEAST: usize = 1024;
/// The share of a base's rules that an overlay holds.
const OVERLAY_SHARE: usize = 50;
/// The share of a base's rules that may be dead.
const DEAD_SHARE: usize = 4;

/// Changes the rules of all schemas.
#[derive(Debug)]
pub(super) struct Changer {
    pub(super) twin: Arc<Twin<State>>,
    pub(super) config: Config,
    /// For each schema the rules of its base.
    pub(super) stores: Box<[Arc<Lowered>]>,
    pub(super) owed: Owed,
    pub(super) running: Option<Running>,
}

/// What the copy that no reader takes lacks.
#[derive(Debug)]
pub(super) enum Owed {
    Steps(Vec<(usize, Step)>),
    /// It is to be made anew from the other.
    Copy,
}

impl Owed {
    fn settle(&self, state: &mut State, active: &State) {
        match self {
            Self::Steps(steps) => state.apply(steps),
            Self::Copy => *state = active.clone(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Steps(steps) => {
                steps.capacity() * size_of::<(usize, Step)>() + steps.iter().map(|(_, s)| s.bytes()).sum::<usize>()
            }
            Self::Copy => 0,
        }
    }
}

impl Changer {
    /// Builds the first base of every schema.
    pub(super) fn new(mut sets: Vec<Lowered>, config: &Config) -> Result<Self, BuildError> {
        sets.iter_mut().for_each(Lowered::forget_nowhere);
        let twin = Arc::new(Twin::new(first(&sets, config)?));
        let stores = sets.into_iter().map(Arc::new).collect();
        Ok(Self { twin, config: config.clone(), stores, owed: Owed::Steps(Vec::new()), running: None })
    }

    /// The rules an overlay may hold.
    fn most_in_overlay(&self, part: &Part) -> usize {
        self.config.overlay.unwrap_or((part.built.rules / OVERLAY_SHARE).max(LEAST))
    }

    fn most_dead(&self, part: &Part) -> usize {
        self.config.dead.unwrap_or((part.built.rules / DEAD_SHARE).max(LEAST)).max(1)
    }

    /// Whether an overlay is half full or a base has too many dead rules, and no rebuild is running.
    pub(super) fn rebuild_is_due(&self) -> bool {
        let is_due = |part: &Part| {
            2 * part.overlay.rules() >= self.most_in_overlay(part).max(1) || part.dead.rules() >= self.most_dead(part)
        };
        !self.running.as_ref().is_some_and(Running::is_alive) && self.twin.now().1.parts.iter().any(is_due)
    }

    /// Does everything that is asked for, in this order, or nothing; the generation it makes. Rules to be inserted have
    /// free slots and priorities, those to be removed are live.
    ///
    /// # Errors
    /// When an overlay or the budget has no room; when a batch in progress has the copy and `wait` is false.
    pub(super) fn commit(&mut self, requests: &[Request], wait: bool) -> Result<u64, UpdateError> {
        let inserts = requests.iter().any(|request| matches!(request, Request::Insert(..)));
        if inserts {
            self.check_overlays(requests)?;
        }
        // Should the change panic, the copy is made anew.
        let owed = mem::replace(&mut self.owed, Owed::Copy);
        let done = self.twin.flip(wait, |state, active| {
            owed.settle(state, active);
            let mut steps = Vec::new();
            let mut change = || -> Result<(), UpdateError> {
                requests.iter().try_for_each(|request| state.change(request, &self.stores, &mut steps))?;
                // Removals take no memory, and are never refused.
                if inserts { self.check_room(state) } else { Ok(()) }
            };
            if let Err(error) = change() {
                *state = active.clone();
                return Err(error);
            }
            state.generation = active.generation + 1;
            Ok((state.generation, steps))
        });
        match done {
            Err(Busy) => {
                self.owed = owed;
                Err(UpdateError::busy())
            }
            Ok(Err(error)) => {
                self.owed = Owed::Steps(Vec::new());
                Err(error)
            }
            Ok(Ok((generation, steps))) => {
                if let Some(running) = self.running.as_mut().filter(|running| running.is_alive()) {
                    for (part, step) in &steps {
                        match step.change {
                            Change::Put(_) => {}
                            Change::Take => running.removed(*part, step.rule, false),
                            Change::Mark { .. } => running.removed(*part, step.rule, true),
                        }
                    }
                }
                self.owed = Owed::Steps(steps);
                Ok(generation)
            }
        }
    }

    /// Refuses early what no overlay can have room for, however many of its rules are removed.
    fn check_overlays(&self, requests: &[Request]) -> Result<(), UpdateError> {
        let removed = requests.iter().filter(|request| matches!(request, Request::Remove(_))).count();
        for (at, part) in self.twin.now().1.parts.iter().enumerate() {
            let is_put = |request: &&Request| matches!(request, Request::Insert(_, regions) if !regions[at].is_empty());
            let needed = (part.overlay.rules() + requests.iter().filter(is_put).count()).saturating_sub(removed);
            let most = self.most_in_overlay(part);
            if needed > most {
                return Err(UpdateError::overlay(needed, most));
            }
        }
        Ok(())
    }

    /// Refuses a state whose overlays hold too many rules or that takes too many bytes, both copies together.
    pub(super) fn check_room(&self, state: &State) -> Result<(), UpdateError> {
        for part in &state.parts {
            let (needed, most) = (part.overlay.rules(), self.most_in_overlay(part));
            if needed > most {
                return Err(UpdateError::overlay(needed, most));
            }
        }
        let allowed = self.config.budget.run_bytes;
        if allowed == usize::MAX {
            return Ok(());
        }
        let bases: usize = state.parts.iter().map(|part| part.built.bytes).sum();
        let needed = self.fixed_bytes() + 2 * state.bytes() + bases;
        if needed > allowed { Err(UpdateError::bytes(needed, allowed)) } else { Ok(()) }
    }

    /// Begins a rebuild of every base whose rules have changed; one that is running is forgotten.
    pub(super) fn begin_rebuild(&mut self) -> RebuildJob {
        let state = self.twin.now().1;
        let sources: Vec<Source> =
            state.parts.iter().zip(&self.stores).map(|(part, store)| Source::new(part, Arc::clone(store))).collect();
        let each = |part: &Part| 2 * (size_of::<Part>() + part.overlay.bytes());
        let reserved = self.fixed_bytes() + state.parts.iter().map(each).sum::<usize>();
        let token = Arc::new(());
        self.running = Some(Running::new(&token, &sources));
        RebuildJob { token, config: self.config.clone(), sources, reserved }
    }

    /// Puts new bases in place of the old ones, with the changes made since they were begun; the number of rebuilds.
    ///
    /// # Errors
    /// When they are not those begun last, or the budget has no room; they are gone then, nothing else is changed.
    pub(super) fn install(&mut self, rebuilt: Rebuilt) -> Result<u64, UpdateError> {
        let running = self.running.take_if(|running| running.is_of(&rebuilt)).ok_or_else(UpdateError::old_rebuild)?;
        let mut stores = self.stores.clone();
        let mut new = Vec::with_capacity(rebuilt.bases.len());
        let state = self.twin.now().1;
        for (at, base) in rebuilt.bases.into_iter().enumerate() {
            let old = &state.parts[at];
            let Some((built, store)) = base else {
                new.push(old.clone());
                continue;
            };
            let overlay = new_overlay(&store, &self.config).map_err(UpdateError::lowering)?;
            new.push(running.changed_since(at, old, Part::new(Arc::new(built), overlay), &store)?);
            stores[at] = Arc::new(store);
        }
        let new = State { generation: state.generation, epoch: state.epoch + 1, parts: new.into() };
        drop(state);
        self.check_room(&new)?;
        let owed = mem::replace(&mut self.owed, Owed::Copy);
        let epoch = new.epoch;
        let done = self.twin.flip(true, |state, _| {
            *state = new;
            Ok::<_, UpdateError>(epoch)
        });
        debug_assert!(done.is_ok(), "it waits");
        drop(owed);
        self.stores = stores;
        // The old bases go at once if nobody has them, else with the next commit.
        let settled = self.twin.flip(false, |state, active| {
            *state = active.clone();
            Ok::<_, UpdateError>(())
        });
        if settled.is_ok() {
            self.owed = Owed::Steps(Vec::new());
        }
        Ok(epoch)
    }

    /// Bytes of the twin but for what is in its copies.
    fn fixed_bytes(&self) -> usize {
        ARC + size_of::<Twin<State>>() + self.twin.bytes()
    }

    /// Bytes on the heap beside the twin's: the rules that rebuilds start from, and what one copy lacks.
    pub(super) fn bytes(&self) -> usize {
        let store = |store: &Arc<Lowered>| ARC + size_of::<Lowered>() + store.bytes();
        size_of_val(&self.stores[..]) + self.stores.iter().map(store).sum::<usize>() + self.owed.bytes()
    }
}

/// The first generation.
pub(super) fn first(sets: &[Lowered], config: &Config) -> Result<State, BuildError> {
    let overlays = sets.iter().map(|set| new_overlay(set, config)).collect::<Result<Vec<_>, _>>()?;
    let mut reserved = size_of::<Twin<State>>() + ARC + 2 * (ARC + size_of::<State>());
    for (set, overlay) in sets.iter().zip(&overlays) {
        reserved += 2 * (size_of::<Part>() + overlay.bytes() + marks_bytes(set));
    }
    let mut parts = Vec::with_capacity(sets.len());
    for (set, overlay) in sets.iter().zip(overlays) {
        let built = build(set, config, reserved, None)?;
        reserved += built.bytes;
        parts.push(Part::new(Arc::new(built), overlay));
    }
    Ok(State { generation: 0, epoch: 0, parts: parts.into() })
}

fn new_overlay(set: &Lowered, config: &Config) -> Result<TupleMerge, BuildError> {
    let config = tuple::Config { simd: config.simd, seed: config.seed, ..Default::default() };
    TupleMerge::new(set.schema(), &config)
}

/// Builds a base where so many bytes are taken by all else; `before` is what was chosen for the one it replaces.
pub(super) fn build(
    set: &Lowered,
    config: &Config,
    reserved: usize,
    before: Option<&Choice>,
) -> Result<Built, BuildError> {
    let reserved = reserved + ARC + size_of::<Built>();
    let Some(allowed) = config.budget.run_bytes.checked_sub(reserved) else {
        return Err(BuildError::bytes(reserved, config.budget.run_bytes));
    };
    let allowed = if config.budget.run_bytes == usize::MAX { usize::MAX } else { allowed };
    let (base, choice) = choose::choose(set, config, allowed, before)?;
    Ok(Built::new(base, choice))
}

/// What the marks of a base over these rules take at most: one a region or a slot.
pub(super) fn marks_bytes(set: &Lowered) -> usize {
    let rules = set.rules().iter().chain(set.nowhere());
    let slots = rules.map(|rule| rule.rule.slot() + 1).max().unwrap_or(0);
    set.regions().len().max(slots).div_ceil(64) * size_of::<u64>()
}
