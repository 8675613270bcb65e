//! Who changes the rules: a writer beside readers, or an owner who is both.

use std::sync::Arc;

use super::change::Changer;
use super::counters::{Count, Counters, Ledger};
use super::{Config, Engine, Reader, RebuildJob, Rebuilt, Retired};
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
    let changer = Changer::new(lower_all(&rules)?, config)?;
    let each =
        |(part, schema): (usize, &Schema)| Engine { twin: Arc::clone(&changer.twin), part, schema: schema.clone() };
    let engines = rules.schemas().iter().enumerate().map(each).collect();
    let counters = Counters::for_slots(rules.slots());
    Ok((engines, Writer { rules, changer, counters, undo: Vec::new() }))
}

/// Changes the rules that engines look up.
#[derive(Debug)]
pub struct Writer {
    rules: RuleSet,
    changer: Changer,
    counters: Counters,
    /// Of the transaction that is open.
    undo: Vec<Undo>,
}

impl Writer {
    /// The rules of the last commit.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Begins a transaction. Readers see nothing of it before it is committed, and nothing is left of it where it is not.
    pub fn begin(&mut self) -> Transaction<'_> {
        Transaction { writer: self }
    }

    /// What a worker counts packets with, one a thread. Counts survive rebuilds.
    pub fn ledger(&self) -> Ledger {
        self.counters.ledger()
    }

    /// What all workers have counted for a rule since it was inserted; `None` for a stale id.
    pub fn count(&self, rule: RuleId) -> Option<Count> {
        self.rules.get(rule).map(|rule| self.counters.count(rule.id))
    }

    /// Whether it is time to rebuild: an overlay has as many rules as [`Config::due`] says, a base as many dead ones as
    /// [`Config::dead`] or as many that came or went in place as [`Config::in_place`], or it has little room left for more;
    /// and no rebuild has been begun that is not installed yet.
    pub fn rebuild_is_due(&self) -> bool {
        self.changer.rebuild_is_due()
    }

    /// Begins a rebuild of all bases whose rules have changed. It may be run anywhere, while transactions go on; one that
    /// was begun before and not installed is forgotten.
    pub fn begin_rebuild(&mut self) -> RebuildJob {
        self.changer.begin_rebuild()
    }

    /// Puts the new bases in place, with what has changed since the rebuild was run. It may wait for batches in progress.
    /// What they replace is handed back: whoever drops it gives back its memory.
    ///
    /// # Errors
    /// When another rebuild was begun since, or the budget or an overlay has no room for what has changed meanwhile
    /// ([`UpdateError::needs_rebuild`]): the new bases are gone then, and everything else is as it was.
    pub fn install(&mut self, rebuilt: Rebuilt) -> Result<Retired, UpdateError> {
        self.changer.install(rebuilt)
    }

    /// Gives all rules the priorities of lines 1, 2, 3 and so on in the order they have, where there is no room between
    /// two any more: a transaction of its own, that rebuilds all bases here and now. Ids and counts stay; a rebuild that
    /// was begun before is forgotten.
    ///
    /// # Errors
    /// When no base fits the budget any more; nothing is changed.
    pub fn renumber(&mut self) -> Result<Retired, UpdateError> {
        let mut rules = self.rules.clone();
        rules.renumber();
        let retired = lower_all(&rules).and_then(|sets| self.changer.replace(sets)).map_err(UpdateError::lowering)?;
        self.rules = rules;
        Ok(retired)
    }
}

fn lower_all(rules: &RuleSet) -> Result<Vec<Lowered>, BuildError> {
    rules.schemas().iter().map(|schema| lower(rules, schema, &Caps::default())).collect()
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
        let Writer { rules, changer, undo, .. } = &mut *self.writer;
        let rule = Match { priority: spec.priority, rule: rules.insert(spec)? };
        undo.push(Undo::Insert(rule.rule));
        let lowered = changer.next.insert(rule, |part, regions| match rules.get(rule.rule) {
            Some(spec) => lower_rule(&rules.schemas()[part], spec, &Caps::default(), regions).map(drop),
            None => Ok(()),
        });
        if let Err(error) = lowered {
            self.undo_last();
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
            self.undo_last();
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
        let Writer { changer, counters, undo, .. } = &mut *self.writer;
        let generation = changer.commit(wait)?;
        changer.last().rules().filter(|(_, insert)| *insert).for_each(|(rule, _)| counters.start(rule.rule));
        undo.clear();
        Ok(generation)
    }

    fn undo_last(&mut self) -> bool {
        let Writer { rules, undo, .. } = &mut *self.writer;
        match undo.pop() {
            Some(Undo::Insert(id)) => rules.undo_insert(id),
            Some(Undo::Remove(rule)) => rules.undo_remove(rule),
            None => return false,
        }
        true
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        while self.undo_last() {}
        self.writer.changer.next.clear();
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
        let engine = Engine { twin: Arc::clone(&changer.twin), part: 0, schema: set.schema().clone() };
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
        let installed = rebuilt.and_then(|rebuilt| self.changer.install(rebuilt));
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
        self.changer.next.remove(live);
        self.commit()?;
        self.live[rule.slot()] = None;
        Ok(())
    }
}
