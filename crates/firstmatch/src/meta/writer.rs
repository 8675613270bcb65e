//! Who changes the rules: a writer beside readers, or an owner who is both.

use std::sync::Arc;

use super::change::Changer;
use super::counters::{Count, Ledger, RuleCounters};
use super::{Config, Engine, InstallError, Reader, RebuildJob, Rebuilt, Retired};
use crate::engine::{self, Match, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::rule::{Caps, Lowered, Regions, Rule, RuleId, RuleSet, RuleSpec, lower, lower_rule};
use crate::schema::Schema;

/// Opens a rule set for readers and one writer: an engine for each of its schemas, in their order. They share ids,
/// priorities, transactions and generations.
///
/// # Errors
/// When a rule has too many regions, no base fits the budget, or this machine lacks the forced instruction set.
pub fn open(rules: RuleSet, config: &Config) -> Result<(Vec<Engine>, Writer), BuildError> {
    let changer = Changer::new(lower_all(&rules, &config.caps)?, config)?;
    let each =
        |(part, schema): (usize, &Schema)| Engine { shared: Arc::clone(&changer.shared), part, schema: schema.clone() };
    let engines = rules.schemas().iter().enumerate().map(each).collect();
    let counters = RuleCounters::default();
    rules.iter().for_each(|rule| counters.give(rule.id));
    Ok((engines, Writer { rules, changer, counters, undo: Vec::new() }))
}

/// Changes the rules that engines look up.
#[derive(Debug)]
pub struct Writer {
    rules: RuleSet,
    changer: Changer,
    counters: RuleCounters,
    /// Of the transaction that is open.
    undo: Vec<Undo>,
}

impl Writer {
    /// The rules of the last commit.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Begins a transaction. Readers see nothing of it before it is committed, and nothing is left of it where it is not.
    /// One that was forgotten ([`std::mem::forget`]) before it was committed or dropped is undone here, and by whatever
    /// else changes the writer; until then [`Writer::rules`] has its changes.
    pub fn begin(&mut self) -> Transaction<'_> {
        self.abandon();
        Transaction { writer: self }
    }

    /// Undoes the transaction that is open.
    fn abandon(&mut self) {
        while self.undo_last() {}
        self.changer.next.clear();
    }

    fn undo_last(&mut self) -> bool {
        match self.undo.pop() {
            Some(Undo::Insert(id)) => self.rules.undo_insert(id),
            Some(Undo::Remove(rule)) => self.rules.undo_remove(rule),
            None => return false,
        }
        true
    }

    /// What a worker counts packets with, one a thread. Counts survive rebuilds.
    pub fn ledger(&self) -> Ledger {
        self.counters.ledger()
    }

    /// What all workers have counted for a rule since it was inserted; `None` for a stale id.
    pub fn count(&self, rule: RuleId) -> Option<Count> {
        self.rules.get(rule).map(|rule| self.counters.count(rule.id))
    }

    /// Returns what was counted for rules that were removed, before their removal and after it. Takes O(slots) a worker.
    pub fn removed_count(&self) -> Count {
        self.counters.removed(|rule| self.rules.get(rule).is_some())
    }

    /// Returns a handle to the counts of rules, for other threads.
    pub fn counters(&self) -> RuleCounters {
        self.counters.clone()
    }

    /// Whether it is time to rebuild: an overlay has as many rules as [`Config::due`] says, a base as many dead ones as
    /// [`Config::dead`] or as many that came or went in place as [`Config::in_place`], or it has little room left for more;
    /// and no rebuild has been begun that is not installed yet.
    pub fn rebuild_is_due(&self) -> bool {
        self.changer.rebuild_is_due()
    }

    /// Number of batches in progress that a commit would wait for: those that began before the last commit. One that stays
    /// there belongs to a thread that was stopped, or that ended without unwinding, inside a batch; no commit can succeed
    /// before it goes on, and [`Transaction::try_commit`] says that it is [busy](UpdateError::is_busy).
    pub fn blocking_batches(&self) -> usize {
        self.changer.shared.twin.blocking()
    }

    /// Begins a rebuild of all bases whose rules have changed. It may be run anywhere, while transactions go on; one that
    /// was begun before and not installed is forgotten.
    pub fn begin_rebuild(&mut self) -> RebuildJob {
        self.abandon();
        self.changer.begin_rebuild()
    }

    /// Puts the new bases in place, with what has changed since the rebuild was run. It may wait for batches in progress.
    /// What they replace is handed back: whoever drops it gives back its memory.
    ///
    /// # Errors
    /// When another rebuild was begun since, or the budget or an overlay has no room for what has changed meanwhile
    /// ([`UpdateError::needs_rebuild`]): the new bases are gone then, and everything else is as it was.
    pub fn install(&mut self, rebuilt: Rebuilt) -> Result<Retired, UpdateError> {
        self.abandon();
        self.changer.install(rebuilt, true)
    }

    /// The same without waiting. Where batches that began before it keep the older bases, the next commit has to copy what
    /// is beside the new ones, and gives back the memory of the old ones.
    ///
    /// # Errors
    /// As [`Writer::install`], and where a batch in progress is in the way ([`UpdateError::is_busy`]): then nothing is
    /// changed, and the rebuild is handed back to be installed later.
    pub fn try_install(&mut self, rebuilt: Rebuilt) -> Result<Retired, InstallError> {
        self.abandon();
        if self.changer.is_busy() {
            return Err(InstallError { error: UpdateError::busy(), rebuilt: Some(Box::new(rebuilt)) });
        }
        self.changer.install(rebuilt, false).map_err(|error| InstallError { error, rebuilt: None })
    }

    /// Gives all rules the priorities of lines 1, 2, 3 and so on in the order they have, where there is no room between
    /// two any more: a transaction of its own, that rebuilds all bases here and now. Ids and counts stay; a rebuild that
    /// was begun before is forgotten.
    ///
    /// # Errors
    /// When no base fits the budget any more; nothing is changed.
    pub fn renumber(&mut self) -> Result<Retired, UpdateError> {
        self.renumber_with(true)
    }

    /// The same without waiting for batches in progress, as [`Writer::try_install`].
    ///
    /// # Errors
    /// As [`Writer::renumber`], and where a batch in progress is in the way ([`UpdateError::is_busy`]); nothing is changed.
    pub fn try_renumber(&mut self) -> Result<Retired, UpdateError> {
        self.renumber_with(false)
    }

    fn renumber_with(&mut self, wait: bool) -> Result<Retired, UpdateError> {
        self.abandon();
        let mut rules = self.rules.clone();
        rules.renumber();
        let sets = lower_all(&rules, &self.changer.config.caps).map_err(UpdateError::lowering)?;
        let retired = self.changer.replace(sets, wait)?;
        self.rules = rules;
        Ok(retired)
    }
}

fn lower_all(rules: &RuleSet, caps: &Caps) -> Result<Vec<Lowered>, BuildError> {
    rules.schemas().iter().map(|schema| lower(rules, schema, caps)).collect()
}

/// Changes that are committed together. What is not committed is undone when it is dropped.
#[derive(Debug)]
pub struct Transaction<'w> {
    writer: &'w mut Writer,
}

#[derive(Debug)]
enum Undo {
    Insert(RuleId),
    Remove(Rule),
}

impl Transaction<'_> {
    /// The rules as they will be.
    pub fn rules(&self) -> &RuleSet {
        &self.writer.rules
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// When its priority is taken, a condition does not fit the schema or it has too many regions; the transaction is then
    /// as it was.
    pub fn insert(&mut self, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let Writer { rules, changer, counters, undo } = &mut *self.writer;
        let rule = Match { priority: spec.priority, rule: rules.insert(spec)? };
        undo.push(Undo::Insert(rule.rule));
        counters.give(rule.rule);
        let caps = changer.config.caps;
        let lowered = changer.next.insert(rule, |part, regions| match rules.get(rule.rule) {
            Some(spec) => lower_rule(&rules.schemas()[part], spec, &caps, regions).map(drop),
            None => Ok(()),
        });
        if let Err(error) = lowered {
            self.writer.undo_last();
            return Err(UpdateError::lowering(error.with_rule(rule.rule)));
        }
        Ok(rule.rule)
    }

    /// Takes a rule out.
    ///
    /// # Errors
    /// When the id is stale; the transaction is then as it was.
    pub fn remove(&mut self, id: RuleId) -> Result<(), UpdateError> {
        let rule = self.writer.rules.remove(id)?;
        self.writer.changer.next.remove(Match { rule: id, priority: rule.priority });
        self.writer.undo.push(Undo::Remove(rule));
        Ok(())
    }

    /// Puts another rule in a rule's place. Its id is new, as any other rule's.
    ///
    /// # Errors
    /// As for [`Transaction::remove`] and [`Transaction::insert`]; the transaction is then as it was.
    pub fn replace(&mut self, id: RuleId, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        self.remove(id)?;
        self.insert(spec).inspect_err(|_| {
            self.writer.changer.next.undo_remove();
            self.writer.undo_last();
        })
    }

    /// Makes all of it visible at once; the generation. Every batch that starts after this returns sees it. It may wait
    /// for batches in progress.
    ///
    /// # Errors
    /// When an overlay has no room before a rebuild is installed ([`UpdateError::needs_rebuild`]), or the budget has none;
    /// nothing is changed.
    pub fn commit(mut self) -> Result<u64, UpdateError> {
        self.finish(true)
    }

    /// The same without waiting: where a batch in progress is in the way it says so ([`UpdateError::is_busy`]), and may be
    /// tried again.
    ///
    /// # Errors
    /// As for [`Transaction::commit`]. Nothing is changed, the transaction is as it was.
    pub fn try_commit(&mut self) -> Result<u64, UpdateError> {
        self.finish(false)
    }

    fn finish(&mut self, wait: bool) -> Result<u64, UpdateError> {
        let Writer { changer, undo, .. } = &mut *self.writer;
        let generation = changer.commit(wait)?;
        undo.clear();
        Ok(generation)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.writer.abandon();
    }
}

/// One schema's rules for an owner who both looks up and changes them, rule by rule. He pays for rebuilds himself, when
/// one is due.
#[derive(Debug)]
pub struct Exclusive {
    engine: Engine,
    changer: Changer,
    /// By slot.
    live: Vec<Option<Match>>,
    /// The last rebuild found no room.
    is_cramped: bool,
}

impl Exclusive {
    /// Without rules.
    ///
    /// # Errors
    /// When this machine lacks the forced instruction set, or the budget has no room for an engine without rules.
    pub fn new(schema: &Schema, config: &Config) -> Result<Self, BuildError> {
        Self::build(&Lowered::empty(schema), config)
    }

    /// With the rules of a lowered set.
    ///
    /// # Errors
    /// When no base fits the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let changer = Changer::new(vec![set.clone()], config)?;
        let engine = Engine { shared: Arc::clone(&changer.shared), part: 0, schema: set.schema().clone() };
        let slots = set.rules().iter().chain(set.nowhere()).map(|rule| rule.rule.slot() + 1).max().unwrap_or(0);
        let mut live = vec![None; slots];
        set.rules().iter().chain(set.nowhere()).for_each(|&rule| live[rule.rule.slot()] = Some(rule));
        Ok(Self { engine, changer, live, is_cramped: false })
    }

    /// What others look up.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Commits what is next.
    fn commit(&mut self) -> Result<(), UpdateError> {
        let done = match self.changer.commit(true) {
            Err(error) if error.needs_rebuild() => self.rebuild().and_then(|()| {
                self.is_cramped = false;
                self.changer.commit(true)
            }),
            done => done,
        };
        self.changer.next.clear();
        done?;
        if self.changer.rebuild_is_due() && !self.is_cramped {
            // Without room for a new base the old one serves on, until the overlay is full.
            let rebuilt = self.rebuild();
            self.is_cramped = rebuilt.is_err();
        }
        Ok(())
    }

    fn rebuild(&mut self) -> Result<(), UpdateError> {
        let rebuilt = self.changer.begin_rebuild().run().map_err(UpdateError::lowering);
        let installed = rebuilt.and_then(|rebuilt| self.changer.install(rebuilt, true));
        self.changer.forget_rebuild();
        installed.map(drop)
    }
}

impl engine::Engine for Exclusive {
    type Scratch = Reader;

    fn schema(&self) -> &Schema {
        engine::Engine::schema(&self.engine)
    }

    fn new_scratch(&self) -> Reader {
        self.engine.new_scratch()
    }

    fn fits(&self, reader: &Reader) -> bool {
        self.engine.fits(reader)
    }

    fn stats(&self) -> Stats {
        let mut stats = engine::Engine::stats(&self.engine);
        let live = self.live.capacity() * size_of::<Option<Match>>();
        stats.bytes.push(("rules for rebuilds", self.changer.bytes() + live));
        stats
    }

    fn version(&self) -> u64 {
        self.engine.version()
    }

    fn improve(&self, reader: &mut Reader, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.engine.improve(reader, keys, best);
    }
}

impl Updatable for Exclusive {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        let (lanes, slot) = (self.engine.schema.lanes().len(), rule.rule.slot());
        if regions.lanes() != lanes {
            return Err(UpdateError::lanes(regions.lanes(), lanes));
        }
        if self.live.get(slot).copied().flatten().is_some() {
            return Err(UpdateError::present(rule.rule));
        }
        // What an insertion that panicked was about to do is not done now.
        self.changer.next.clear();
        self.changer.next.insert(rule, |_, to| {
            regions.iter().for_each(|region| to.push(region));
            Ok::<_, UpdateError>(())
        })?;
        self.commit()?;
        if self.live.len() <= slot {
            self.live.resize(slot + 1, None);
        }
        self.live[slot] = Some(rule);
        Ok(())
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        let live = self.live.get(rule.slot()).copied().flatten().filter(|live| live.rule == rule);
        let live = live.ok_or_else(|| UpdateError::stale(rule))?;
        self.changer.next.clear();
        self.changer.next.remove(live);
        self.commit()?;
        self.live[rule.slot()] = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::engine::Engine;
    use crate::rule::{Priority, Region};

    /// The work of a change that panicked is not done later.
    #[test]
    fn an_owner_goes_on_after_a_panic() {
        let rule = |slot: u32| Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
        let lowered = {
            let mut set = Lowered::empty(&Schema::ipv4());
            set.push(rule(1), Region { lo: &[0; 5], hi: &[0, 0, 7, 0, 0], ternary: None });
            set
        };
        let mut owner = Exclusive::build(&lowered, &Config::default()).expect("no budget");
        let mut regions = Regions::new(5);
        regions.push(lowered.regions().get(0));
        for (round, slot) in (0..).zip([5, 6]) {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let same = |_, to: &mut Regions| {
                    to.push(regions.get(0));
                    Ok::<_, ()>(())
                };
                owner.changer.next.insert(rule(slot), same).expect("it is noted");
                let twin = &owner.changer.shared.twin;
                twin.flip(true, |_, _| panic!("inside a commit"))
            }));
            assert!(panicked.is_err());
            // The same rule, then another one.
            let inserted = rule([5, 7][round]);
            owner.insert(inserted, &regions).expect("nothing is in the way");
            assert_eq!(Engine::stats(&owner).rules, 2 + round);
            assert!(owner.remove(rule(6).rule).is_err_and(|error| error.is_stale()));
        }
        assert!(owner.remove(rule(5).rule).is_ok() && owner.remove(rule(7).rule).is_ok());
        assert_eq!(Engine::stats(&owner).rules, 1);
    }
}
