//! Commits: all changes of a transaction, or none, applied to the idle replica and published.

use std::mem;
use std::sync::Arc;

use super::attached::Attachments;
use super::build::build;
use super::config::Config;
use super::facts::{Shared, publish_facts};
use super::left_right::{ARC, Busy};
use super::log::{Changes, Log, Mark, changed};
use super::rebuild::{Feed, RebuildJob, Rebuilt, Renewed, Retired, Running, Source, catch_up};
use super::sets::{SetChanges, SetRules, SetWriter};
use super::snapshot::{Part, State};
use super::store::Store;
use crate::error::{BuildError, UpdateError};
use crate::raw::Level;
use crate::rule::{LiveSets, Lowered, Regions};
use crate::select::FEW;
use crate::select::choice::Before;

/// The writer's state for all schemas: commits, rebuilds and their inputs.
#[derive(Debug)]
pub(super) struct Changer {
    pub(super) shared: Arc<Shared>,
    pub(super) config: Config,
    /// Rules of each schema's base.
    stores: Box<[Arc<Store>]>,
    /// Changes that the next commit applies.
    pub(super) next: Changes,
    /// Changes of live sets and their rules that the next commit applies.
    pub(super) next_sets: SetChanges,
    pub(super) sets: SetWriter,
    backlog: Backlog,
    /// Changes of all commits since the bases were built.
    log: Log,
    /// Working memory for the regions of one rule, by part.
    regions: Box<[Regions]>,
    generation: u64,
    /// Amount of change in each part.
    sizes: Box<[Sizes]>,
    running: Option<Running>,
}

/// Backlog: changes that the idle replica lacks.
#[derive(Debug)]
struct Backlog {
    changes: Changes,
    /// Whether the idle replica is to be copied from the other one.
    copy: bool,
}

/// Amount of change in a part since its base was built, in rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    base: usize,
    overlay: usize,
    most: usize,
    dead: usize,
    /// Number of rules inserted into the base and removed from it in place.
    in_place: usize,
    is_short_of_room: bool,
    /// Whether another base may suit the rules better: most rules are gone, or a wide rule is.
    ///
    /// That is, fewer than half of the rules that the base was built from are left, or one of its wide rules is gone.
    /// It is always false for a base of at most [`FEW`] rules.
    is_other: bool,
}

impl Sizes {
    fn of(part: &Part) -> Self {
        Self {
            base: part.built.base.rules,
            overlay: part.overlay.rules(),
            most: part.most,
            dead: part.dead.rules(),
            in_place: part.in_place(),
            is_short_of_room: part.is_short_of_room(),
            is_other: part.built.base.rules > FEW && (2 * part.rules() < part.built.base.rules || part.has_lost_wide()),
        }
    }
}

impl Backlog {
    /// Replays the backlog on `state`, the idle replica.
    ///
    /// `copy` is set meanwhile. So if a panic leaves the replica unfinished, the next replay copies the other one over
    /// it.
    fn replay(&mut self, now: &State, state: &mut State, stores: &[Arc<Store>], regions: &mut [Regions]) {
        if mem::replace(&mut self.copy, true) || state.change(&self.changes, stores, regions).is_err() {
            state.restore(now);
        }
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.copy = false;
    }

    fn bytes(&self) -> usize {
        self.changes.bytes()
    }
}

impl Changer {
    /// Builds the first base of every schema; `attached` is the data that the rules attach to decisions.
    ///
    /// `first` has the generation and the epoch to begin with.
    pub(super) fn new(
        sets: Vec<Lowered>,
        live: (&SetChanges, &LiveSets),
        attached: Attachments,
        config: &Config,
        first: [u64; 2],
    ) -> Result<Self, BuildError> {
        let sets = matchable(sets);
        let mut state = build(&refs(&sets), attached, config, &[])?;
        let schemas = || sets.iter().flatten().map(|set| set.schema().clone()).collect();
        let mut writer = SetWriter::new(config.sets, Level::best(config.simd));
        // Both replicas are copies of this one.
        writer
            .apply(live.0, live.1, &mut state.sets, schemas)
            .map_err(|error| BuildError::refused(error.to_string()))?;
        writer.forget_log();
        [state.generation, state.epoch] = first;
        let key_words = || state.parts.iter().map(Part::key_words);
        Ok(Self {
            config: config.clone(),
            next: Changes::new(key_words()),
            next_sets: SetChanges::default(),
            sets: writer,
            backlog: Backlog { changes: Changes::new(key_words()), copy: false },
            log: Log::new(key_words()),
            regions: key_words().map(Regions::new).collect(),
            generation: first[0],
            sizes: state.parts.iter().map(Sizes::of).collect(),
            running: None,
            shared: Arc::new(Shared::new(state)),
            stores: sets.into_iter().flatten().map(|set| Arc::new(Store::new(set))).collect(),
        })
    }

    /// Returns the generation and the epoch that a changer for other schemas begins with: the next ones.
    pub(super) fn next_generation(&self) -> [u64; 2] {
        [self.generation + 1, self.shared.replicas.now().1.epoch + 1]
    }

    /// Returns a mark of the next changes, for [`Self::truncate`].
    pub(super) fn mark(&self) -> (Mark, [usize; 2]) {
        (self.next.mark(), [self.next_sets.members.len(), self.next_sets.rules.len()])
    }

    /// Removes the changes that came after `mark`.
    pub(super) fn truncate(&mut self, (mark, [members, rules]): (Mark, [usize; 2])) {
        self.next.truncate(mark);
        self.next_sets.members.truncate(members);
        self.next_sets.rules.truncate(rules);
    }

    /// Whether a rebuild is due and none is running.
    ///
    /// A rebuild is due when the overlay, the dead rules or the changes in place of a part reach a set number. It is
    /// also due when a base has little room left, or when another base may suit the rules better.
    pub(super) fn rebuild_is_due(&self) -> bool {
        let is_due = |sizes: &Sizes| {
            sizes.is_short_of_room
                || sizes.is_other
                || sizes.overlay >= self.config.overlay_due(sizes.base)
                || sizes.dead >= self.config.dead_due(sizes.base)
                || sizes.in_place >= self.config.in_place_due(sizes.base)
        };
        self.sizes.iter().any(is_due) && !self.running.as_ref().is_some_and(Running::is_live)
    }

    /// Applies everything in `next` in order, or nothing, and returns the new generation.
    ///
    /// Without changes there is no new generation: it returns the current one, and does nothing.
    ///
    /// Inserted rules must have free slots and priorities, and removed rules must be live. Afterwards `next` is empty.
    ///
    /// # Errors
    /// If an overlay or the budget has no room, or if a batch in progress uses the idle replica and `wait` is false.
    /// `next` is then as it was.
    pub(super) fn commit(&mut self, wait: bool, live: &mut LiveSets) -> Result<u64, UpdateError> {
        if self.next.is_empty() && self.next_sets.is_empty() {
            return Ok(self.generation);
        }
        self.next.shorten();
        let done = match self.commit_changes(wait, live) {
            Err(error) if error.needs_rebuild() && self.is_too_large() => self.commit_anew(wait, live),
            done => done,
        };
        if done.is_ok() {
            self.next_sets.clear();
        }
        done
    }

    /// Whether `next` inserts more rules than an overlay could hold after a rebuild.
    fn is_too_large(&self) -> bool {
        let now = self.shared.replicas.now().1;
        let most = now.parts.iter().map(|part| self.config.most_in_overlay(part.rules()));
        most.enumerate().any(|(number, most)| self.next.puts_left(number) > most)
    }

    /// Commits `next` by building new bases from the rules as they will be.
    fn commit_anew(&mut self, wait: bool, live: &mut LiveSets) -> Result<u64, UpdateError> {
        let (now, next) = (self.shared.replicas.now().1, &self.next);
        let pieces: Vec<&Changes> = self.log.since(0).chain([next]).collect();
        let is_changed = |number: usize, store: &Store| {
            let mut changes = next.rules().enumerate();
            changes.any(
                |(at, (rule, inserts))| {
                    if inserts { next.is_put(at, number) } else { store.find(rule).is_some() }
                },
            )
        };
        let set = |(number, (part, store)): (usize, (&Part, &Arc<Store>))| {
            (!part.is_unchanged() || is_changed(number, store)).then(|| changed(&store.set, &pieces, number))
        };
        let sets = now.parts.iter().zip(&self.stores).enumerate().map(set).collect();
        let mut attached = now.attached.clone();
        next.attached().for_each(|(slot, of)| attached.set(slot, of));
        drop(now);
        self.renew(sets, attached, wait, live)?;
        self.next.clear();
        Ok(self.generation)
    }

    /// Applies everything in `next` to the replicas as they are.
    fn commit_changes(&mut self, wait: bool, live: &mut LiveSets) -> Result<u64, UpdateError> {
        let inserts = self.next.rules().any(|(_, insert)| insert) || self.next_sets.grow();
        if inserts {
            self.check_overlays()?;
        }
        let Self { shared, config, stores, next, next_sets, sets, backlog, regions, generation, sizes, .. } = self;
        let generation = *generation + 1;
        let done = shared.replicas.publish(wait, |state, facts| {
            let now = shared.replicas.now().1;
            backlog.replay(&now, state, stores, regions);
            sets.replay(&now.sets, &mut state.sets);
            let changed = state.change(next, stores, regions);
            let done = changed.and_then(|()| {
                change_sets(sets, next_sets, live, stores, &mut state.sets, |bytes| match inserts {
                    true => check_room(shared, config, state.parts.iter(), &state.attached, bytes),
                    // Removals take no memory and are never refused.
                    false => Ok(()),
                })
            });
            if done.is_ok() {
                state.generation = generation;
                sizes.iter_mut().zip(&state.parts).for_each(|(sizes, part)| *sizes = Sizes::of(part));
            } else {
                // It is published all the same, because its memory may have changed; readers find the same rules in it.
                state.restore(&now);
                backlog.clear();
            }
            publish_facts(facts, state, &now);
            done
        });
        done.map_err(|Busy| UpdateError::busy())??;
        self.generation = generation;
        self.backlog.copy = false;
        mem::swap(&mut self.backlog.changes, &mut self.next);
        self.next.clear();
        self.note();
        Ok(generation)
    }

    /// Appends the last commit to the log.
    fn note(&mut self) {
        let whole = self.log.append(&self.backlog.changes);
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

    /// Refuses the commit early if an overlay would have no room even if all removed rules were in it.
    fn check_overlays(&self) -> Result<(), UpdateError> {
        let removed = self.next.rules().filter(|(_, insert)| !insert).count();
        for (number, sizes) in self.sizes.iter().enumerate() {
            let puts = (0..self.next.len()).filter(|&at| self.next.is_put(at, number)).count();
            check_overlay((sizes.overlay + puts).saturating_sub(removed), sizes.most)?;
        }
        Ok(())
    }

    /// Begins a rebuild of every base whose rules have changed; forgets one that is running.
    pub(super) fn begin_rebuild(&mut self) -> RebuildJob {
        let state = self.shared.replicas.now().1;
        let pieces = self.log.pieces();
        let source = |(part, store): (&Part, &Arc<Store>)| {
            let is_unchanged = part.is_unchanged();
            Source {
                before: Before::of(&part.base, &part.built.choice),
                store: Arc::clone(store),
                changes: if is_unchanged { Vec::new() } else { pieces.clone() },
                unchanged: is_unchanged.then(|| part.kept_bytes()),
            }
        };
        let sources = state.parts.iter().zip(&self.stores).map(source).collect();
        let each = |part: &Part| 2 * (size_of::<Part>() + part.overlay.bytes());
        let reserved = self.shared.bytes()
            + 2 * (state.attached.bytes() + state.sets.bytes())
            + state.parts.iter().map(each).sum::<usize>();
        let feed = Arc::new(Feed::default());
        self.running = Some(Running::new(&feed, pieces.len()));
        RebuildJob { feed, config: self.config.clone(), sources, reserved }
    }

    /// Forgets the running rebuild.
    pub(super) fn forget_rebuild(&mut self) {
        self.running = None;
    }

    /// Whether a batch in progress uses the replica that would be changed.
    pub(super) fn is_busy(&self) -> bool {
        self.shared.replicas.blocking() > 0
    }

    /// Installs new bases, after applying to them every change committed since their rebuild was begun.
    ///
    /// If `wait` is false and batches use the second replica, the next commit changes that one.
    ///
    /// # Errors
    /// If the bases are not those of the rebuild begun last, or the budget or an overlay has no room. The new bases are
    /// then gone, and nothing else has changed.
    pub(super) fn install(&mut self, rebuilt: Rebuilt, wait: bool) -> Result<Retired, UpdateError> {
        let running = self.running.take_if(|running| running.is_of(&rebuilt)).ok_or_else(UpdateError::old_rebuild)?;
        let Rebuilt { mut parts, caught_up, sources, .. } = rebuilt;
        for (number, part) in parts.iter_mut().enumerate() {
            let Some(Renewed { copies: [a, b], store }) = part else { continue };
            let mut left = self.log.since(running.pieces + caught_up);
            left.try_for_each(|piece| catch_up(&mut [a, b], store, piece, number)).map_err(UpdateError::lowering)?;
        }
        let state = self.shared.replicas.now().1;
        let new = || parts.iter().zip(&state.parts).map(|(new, old)| new.as_ref().map_or(old, |new| &new.copies[0]));
        check_room(&self.shared, &self.config, new(), &state.attached, state.sets.bytes())?;
        let epoch = state.epoch + 1;
        self.shared.announce(epoch, new());
        drop(state);
        let generation = self.generation;
        self.change_both(wait, None, |copy, state| {
            for (part, new) in state.parts.iter_mut().zip(&mut parts) {
                new.iter_mut().for_each(|new| mem::swap(part, &mut new.copies[copy]));
            }
            (state.generation, state.epoch) = (generation, epoch);
        })?;
        for (store, new) in self.stores.iter_mut().zip(&mut parts) {
            new.iter_mut().for_each(|new| mem::swap(store, &mut new.store));
        }
        self.log.forget(running.pieces);
        Ok(Retired { epoch, _parts: parts.into_iter().flatten().collect(), _sources: sources, _states: Vec::new() })
    }

    /// Replaces all rules by `sets`, as one commit and one rebuild; forgets a running rebuild.
    ///
    /// # Errors
    /// If no base fits the budget, or if a batch in progress uses the idle replica and `wait` is false. Nothing has
    /// changed then.
    pub(super) fn replace(
        &mut self,
        sets: Vec<Lowered>,
        wait: bool,
        live: &mut LiveSets,
    ) -> Result<Retired, UpdateError> {
        let attached = self.shared.replicas.now().1.attached.clone();
        let retired = self.renew(matchable(sets), attached, wait, live);
        self.next_sets.clear();
        retired
    }

    /// Does the same as [`Self::replace`]; a part without a set stays, and its rules must be unchanged.
    fn renew(
        &mut self,
        sets: Vec<Option<Lowered>>,
        attached: Attachments,
        wait: bool,
        live: &mut LiveSets,
    ) -> Result<Retired, UpdateError> {
        // Checked before the bases are built: after that, no reader can take the idle replica.
        if !wait && self.is_busy() {
            return Err(UpdateError::busy());
        }
        let now = self.shared.replicas.now().1;
        let mut new = build(&refs(&sets), attached, &self.config, &now.parts).map_err(UpdateError::lowering)?;
        let (generation, epoch) = (self.generation + 1, now.epoch + 1);
        drop(now);
        (new.generation, new.epoch) = (generation, epoch);
        self.shared.announce(epoch, new.parts.iter());
        let mut states = vec![new.clone(), new];
        self.change_both(wait, Some(live), |copy, state| {
            mem::swap(state, &mut states[copy]);
            mem::swap(&mut state.sets, &mut states[copy].sets);
        })?;
        self.log = Log::new(self.regions.iter().map(Regions::key_words));
        self.generation = generation;
        for (store, set) in self.stores.iter_mut().zip(sets) {
            set.into_iter().for_each(|set| *store = Arc::new(Store::new(set)));
        }
        self.running = None;
        Ok(Retired { epoch, _states: states, ..Retired::default() })
    }

    /// Applies `change` to both replicas, one after the other, to install the announced bases.
    ///
    /// If `wait` is false and batches use the second replica, the next commit copies the first one over it. With `live`,
    /// the changes of live sets come with it.
    ///
    /// # Errors
    /// If the changes of live sets are refused. Nothing is changed then.
    fn change_both(
        &mut self,
        wait: bool,
        mut live: Option<&mut LiveSets>,
        mut change: impl FnMut(usize, &mut State),
    ) -> Result<(), UpdateError> {
        let Self { shared, stores, next_sets, sets, backlog, regions, sizes, .. } = self;
        let replicas = &shared.replicas;
        for copy in 0..2 {
            if copy == 1 && !wait && replicas.blocking() > 0 {
                backlog.copy = true;
                break;
            }
            let done = replicas.publish(true, |state, facts| {
                let now = replicas.now().1;
                if copy == 0 {
                    backlog.replay(&now, state, stores, regions);
                }
                sets.replay(&now.sets, &mut state.sets);
                let live = live.take();
                let done =
                    live.map_or(Ok(()), |live| change_sets(sets, next_sets, live, stores, &mut state.sets, |_| Ok(())));
                if done.is_ok() {
                    change(copy, state);
                }
                sizes.iter_mut().zip(&state.parts).for_each(|(sizes, part)| *sizes = Sizes::of(part));
                publish_facts(facts, state, &now);
                done
            });
            debug_assert!(done.is_ok(), "it waits");
            backlog.clear();
            if let Ok(Err(error)) = done {
                shared.forget_announced();
                return Err(error);
            }
        }
        shared.settle();
        Ok(())
    }

    /// Returns the heap bytes outside the replicas.
    ///
    /// They are the rules that rebuilds start from, the log, the backlog and working memory.
    pub(super) fn bytes(&self) -> usize {
        let store = |store: &Arc<Store>| ARC + size_of::<Store>() + store.bytes();
        size_of_val(&self.stores[..])
            + self.stores.iter().map(store).sum::<usize>()
            + self.next.bytes()
            + self.sets.bytes()
            + self.backlog.bytes()
            + self.log.bytes()
            + size_of_val(&self.regions[..])
            + self.regions.iter().map(Regions::bytes).sum::<usize>()
            + size_of_val(&self.sizes[..])
    }
}

fn refs(sets: &[Option<Lowered>]) -> Vec<Option<&Lowered>> {
    sets.iter().map(Option::as_ref).collect()
}

/// Returns the sets without the rules that match nothing.
fn matchable(mut sets: Vec<Lowered>) -> Vec<Option<Lowered>> {
    sets.iter_mut().for_each(Lowered::forget_unmatchable);
    sets.into_iter().map(Some).collect()
}

/// Applies the changes of live sets to the idle replica, or nothing.
///
/// `check` is called with the bytes that the rules of live sets take in a replica.
fn change_sets(
    sets: &mut SetWriter,
    changes: &SetChanges,
    live: &mut LiveSets,
    stores: &[Arc<Store>],
    state: &mut SetRules,
    check: impl FnOnce(usize) -> Result<(), UpdateError>,
) -> Result<(), UpdateError> {
    let schemas = || stores.iter().map(|store| store.set.schema().clone()).collect();
    let done = sets.apply(changes, live, state, schemas).and_then(|()| check(state.bytes()));
    if done.is_err() {
        let mut before = live.clone();
        changes.members.iter().rev().for_each(|&(id, member, came)| before.undo(id, member, came));
        sets.undo(changes, live, &before, state);
    }
    done
}

fn check_overlay(needed: usize, most: usize) -> Result<(), UpdateError> {
    if needed > most { Err(UpdateError::overlay(needed, most)) } else { Ok(()) }
}

/// Checks that each overlay keeps its maximum and that both replicas fit the budget.
fn check_room<'a>(
    shared: &Shared,
    config: &Config,
    parts: impl Iterator<Item = &'a Part> + Clone,
    attached: &Attachments,
    sets: usize,
) -> Result<(), UpdateError> {
    parts.clone().try_for_each(|part| check_overlay(part.overlay.rules(), part.most))?;
    let allowed = config.budget.run_bytes;
    if allowed == usize::MAX {
        return Ok(());
    }
    let each = |part: &Part| part.front_bytes() + part.base_bytes() + 2 * (size_of::<Part>() + part.bytes());
    let needed = shared.bytes() + 2 * (attached.bytes() + sets) + parts.map(each).sum::<usize>();
    if needed > allowed { Err(UpdateError::bytes(needed, allowed)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::engine::Match;
    use crate::rule::{Priority, Region, RuleId};
    use crate::schema::Schema;

    /// A replica that a replay left unfinished is copied from the other one, so the next commit does not replay again.
    #[test]
    fn a_replay_that_panicked_is_not_done_again() {
        let schemas = [Schema::ipv4(), Schema::ipv6()];
        let key_words = || schemas.iter().map(|schema| schema.words().len());
        let sets = schemas.iter().map(Lowered::empty).collect();
        let none = (&SetChanges::default(), &LiveSets::default());
        let mut changer =
            Changer::new(sets, none, Attachments::default(), &Config::default(), [0; 2]).expect("no budget");
        let insert = |changes: &mut Changes, slot: u32| {
            let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
            let everything = |part: usize, to: &mut Regions| {
                let words = key_words().nth(part).expect("a part");
                to.push(Region { lo: &vec![0; words], hi: &vec![slot; words], ternary: None });
                Ok::<_, ()>(())
            };
            changes.insert(rule, everything).expect("it does not fail");
        };
        insert(&mut changer.next, 1);
        changer.commit(true, &mut LiveSets::default()).expect("no budget");
        // A change for the first part only: it does nothing there, and panics at the second part.
        changer.backlog.changes = Changes::new(key_words().take(1));
        let rule = Match { rule: RuleId::new(1, 0), priority: Priority(1) };
        changer.backlog.changes.insert(rule, |_, _| Ok::<_, ()>(())).expect("it does not fail");
        insert(&mut changer.next, 2);
        assert!(catch_unwind(AssertUnwindSafe(|| changer.commit(true, &mut LiveSets::default()))).is_err());
        for slot in 3..6 {
            changer.commit(true, &mut LiveSets::default()).expect("no budget");
            let state = changer.shared.replicas.now().1;
            assert!(state.parts.iter().all(|part| part.rules() == slot as usize - 1), "before rule {slot}");
            changer.next = Changes::new(key_words());
            insert(&mut changer.next, slot);
        }
    }
}
