//! Changes of rules: a writer beside readers, or an owner that both reads and writes.

use std::mem;
use std::sync::Arc;

use super::attached::{Attached, Attachments};
use super::commit::Changer;
use super::config::Config;
use super::handle::Handle;
use super::reader::{Engine, Reader};
use super::rebuild::{InstallError, RebuildJob, Rebuilt, Retired};
use crate::counters::{Count, CounterShard, RuleCounters};
use crate::engine::{self, Match, NamedCounts, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::rule::{ExpansionLimits, Lowered, Regions, Rule, RuleId, RuleSet, RuleSpec, lower, lower_rule};
use crate::schema::Schema;

/// Opens a rule set for readers and one writer, with an engine for each schema, in order.
///
/// The engines share ids, priorities, transactions and generations.
///
/// # Errors
/// If a rule has too many regions, no base fits the budget, or this machine lacks the forced instruction set.
pub fn open(rules: RuleSet, config: &Config) -> Result<(Vec<Engine>, Writer), BuildError> {
    let mut attached = Attachments::default();
    if config.attachments {
        rules.iter().for_each(|rule| attached.set(rule.id.slot(), Attached::of(rule)));
    }
    let changer = Changer::new(lower_all(&rules, &config.expansion)?, attached, config)?;
    let each =
        |(part, schema): (usize, &Schema)| Engine { shared: Arc::clone(&changer.shared), part, schema: schema.clone() };
    let engines = rules.schemas().iter().enumerate().map(each).collect();
    let counters = RuleCounters::default();
    rules.iter().for_each(|rule| counters.give(rule.id));
    Ok((engines, Writer { rules, changer, counters, undo: Vec::new() }))
}

/// Writer: changes the rules that engines look up.
#[derive(Debug)]
pub struct Writer {
    rules: RuleSet,
    changer: Changer,
    counters: RuleCounters,
    /// Undo list of the open transaction.
    undo: Vec<Undo>,
}

impl Writer {
    /// Returns the rules of the last commit.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Begins a transaction; readers see its changes only once it is committed.
    ///
    /// Without a commit it leaves nothing behind. A transaction that was forgotten ([`std::mem::forget`]) is undone by
    /// this call, or by any other call that changes the writer. Until then [`Writer::rules`] has its changes.
    pub fn begin(&mut self) -> Transaction<'_> {
        self.abandon();
        Transaction { writer: self }
    }

    /// Continues the transaction that [`Transaction::keep`] left open, or begins one.
    pub fn resume(&mut self) -> Transaction<'_> {
        Transaction { writer: self }
    }

    /// Returns read access to the rules of all schemas; each batch sees one generation.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::clone(&self.changer.shared), schemas: self.rules.schemas().into() }
    }

    /// Undoes the open transaction.
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

    /// Returns the counters of one worker thread; counts survive rebuilds.
    pub fn counter_shard(&self) -> CounterShard {
        self.counters.counter_shard()
    }

    /// Returns the counts of all workers for a rule, added up; `None` for a stale id.
    pub fn count(&self, rule: RuleId) -> Option<Count> {
        self.rules.get(rule).map(|rule| self.counters.count(rule.id))
    }

    /// Returns the counts of removed rules, from before and after their removal.
    ///
    /// Takes O(slots) for each worker.
    pub fn removed_count(&self) -> Count {
        self.counters.removed(|rule| self.rules.get(rule).is_some())
    }

    /// Returns a handle to the counts of rules, for other threads.
    pub fn counters(&self) -> RuleCounters {
        self.counters.clone()
    }

    /// Whether it is time to rebuild, by counts, and no rebuild is under way.
    ///
    /// A rebuild is due in any of these cases:
    /// - An overlay has as many rules as [`Config::due`] says.
    /// - A base has as many dead rules as [`Config::dead`] says.
    /// - A base has had as many changes in place as [`Config::in_place`] says, or has little room left for more.
    /// - Fewer than half of a base's rules are left, or a wide rule that its choice rested on is gone.
    ///
    /// A rebuild is under way from [`Writer::begin_rebuild`] until it is installed, or until its job or result is
    /// dropped.
    pub fn rebuild_is_due(&self) -> bool {
        self.changer.rebuild_is_due()
    }

    /// Number of batches in progress that a commit would wait for.
    ///
    /// They began before the last commit. If one stays, its thread was stopped inside the batch, or ended there without
    /// unwinding. No commit can succeed before it goes on, and [`Transaction::try_commit`] reports that it is
    /// [busy](UpdateError::is_busy).
    pub fn blocking_batches(&self) -> usize {
        self.changer.shared.replicas.blocking()
    }

    /// Begins a rebuild of all bases whose rules have changed.
    ///
    /// Any thread may run it, while transactions go on. A rebuild that was begun before and not installed is forgotten.
    pub fn begin_rebuild(&mut self) -> RebuildJob {
        self.abandon();
        self.changer.begin_rebuild()
    }

    /// Installs the new bases, with the changes committed since the rebuild was run.
    ///
    /// It may wait for batches in progress. The caller gets the replaced bases, so that any thread can free their
    /// memory.
    ///
    /// # Errors
    /// If another rebuild was begun since ([`UpdateError::is_overtaken`]), or a commit built new bases, or the budget or an overlay has no room for the changes since its run
    /// ([`UpdateError::needs_rebuild`]). The new bases are then gone, and everything else is as it was.
    pub fn install(&mut self, rebuilt: Rebuilt) -> Result<Retired, UpdateError> {
        self.abandon();
        self.changer.install(rebuilt, true)
    }

    /// Does the same as [`Writer::install`] without waiting.
    ///
    /// If earlier batches keep the older bases, the next commit of changes has to copy everything beside the new ones. It then
    /// also frees the memory of the old ones.
    ///
    /// # Errors
    /// As [`Writer::install`], and if a batch in progress is in the way ([`UpdateError::is_busy`]). In that case
    /// nothing is changed, and the rebuild is handed back to be installed later.
    pub fn try_install(&mut self, rebuilt: Rebuilt) -> Result<Retired, InstallError> {
        self.abandon();
        if self.changer.is_busy() {
            return Err(InstallError { error: UpdateError::busy(), rebuilt: Some(Box::new(rebuilt)) });
        }
        self.changer.install(rebuilt, false).map_err(|error| InstallError { error, rebuilt: None })
    }

    /// Gives all rules the priorities of lines 1, 2, 3 and so on, in their order.
    ///
    /// This makes room between any two rules. It is a transaction of its own, and rebuilds all bases at once, on this
    /// thread. Ids and counts stay, and a rebuild that was begun before is forgotten.
    ///
    /// # Errors
    /// If no base fits the budget any more. Nothing is changed then.
    pub fn renumber(&mut self) -> Result<Retired, UpdateError> {
        self.renumber_with(true)
    }

    /// Does the same as [`Writer::renumber`] without waiting, as [`Writer::try_install`] does.
    ///
    /// # Errors
    /// As [`Writer::renumber`], and if a batch in progress is in the way ([`UpdateError::is_busy`]). Nothing is changed
    /// then.
    pub fn try_renumber(&mut self) -> Result<Retired, UpdateError> {
        self.renumber_with(false)
    }

    fn renumber_with(&mut self, wait: bool) -> Result<Retired, UpdateError> {
        self.abandon();
        let mut rules = self.rules.clone();
        rules.renumber();
        let sets = lower_all(&rules, &self.changer.config.expansion).map_err(UpdateError::lowering)?;
        let retired = self.changer.replace(sets, wait)?;
        self.rules = rules;
        Ok(retired)
    }
}

fn lower_all(rules: &RuleSet, expansion: &ExpansionLimits) -> Result<Vec<Lowered>, BuildError> {
    rules.schemas().iter().map(|schema| lower(rules, schema, expansion)).collect()
}

/// Transaction: changes that are committed together, or undone when it is dropped.
///
/// ```
/// use firstmatch_core::live::{self, Config};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let (engines, mut writer) = live::open(rules, &Config::default())?;
/// let first = writer.rules().iter().next().expect("two rules").id;
///
/// // Dropped without a commit, it changes nothing.
/// let mut transaction = writer.begin();
/// transaction.remove(first)?;
/// drop(transaction);
/// assert!(writer.rules().get(first).is_some());
///
/// let mut transaction = writer.begin();
/// transaction.remove(first)?;
/// assert_eq!(transaction.commit()?, engines[0].generation());
/// assert!(writer.rules().get(first).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Returns the rules as the commit will make them.
    pub fn rules(&self) -> &RuleSet {
        &self.writer.rules
    }

    /// Inserts a rule.
    ///
    /// # Errors
    /// If its priority is taken, a condition does not fit the schema, or it has too many regions. The transaction is
    /// then as it was.
    pub fn insert(&mut self, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let Writer { rules, changer, counters, undo } = &mut *self.writer;
        let rule = Match { priority: spec.priority, rule: rules.insert(spec)? };
        undo.push(Undo::Insert(rule.rule));
        counters.give(rule.rule);
        let expansion = changer.config.expansion;
        let lowered = changer.next.insert(rule, |part, regions| match rules.get(rule.rule) {
            Some(spec) => lower_rule(&rules.schemas()[part], spec, &expansion, regions).map(drop),
            None => Ok(()),
        });
        if let Err(error) = lowered {
            self.writer.undo_last();
            return Err(UpdateError::lowering(error.with_rule(rule.rule)));
        }
        if changer.config.attachments
            && let Some(spec) = rules.get(rule.rule)
        {
            changer.next.attach(rule.rule, Attached::of(spec));
        }
        Ok(rule.rule)
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// If the id is stale. The transaction is then as it was.
    pub fn remove(&mut self, id: RuleId) -> Result<(), UpdateError> {
        let rule = self.writer.rules.remove(id)?;
        self.writer.changer.next.remove(Match { rule: id, priority: rule.priority });
        self.writer.undo.push(Undo::Remove(rule));
        Ok(())
    }

    /// Replaces a rule by another one, which gets a new id.
    ///
    /// # Errors
    /// As [`Transaction::remove`] and [`Transaction::insert`]. The transaction is then as it was.
    pub fn replace(&mut self, id: RuleId, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        self.remove(id)?;
        self.insert(spec).inspect_err(|_| {
            self.writer.changer.next.undo_remove();
            self.writer.undo_last();
        })
    }

    /// Makes all changes visible at once, and returns the new generation.
    ///
    /// Every batch that starts after this returns sees them. It may wait for batches in progress. Without changes there
    /// is no new generation: it does nothing, and returns the current one.
    ///
    /// A transaction that inserts more rules than an overlay can hold ([`Config::overlay`]) is committed over new
    /// bases, as one generation and one rebuild. This thread builds them, so the commit takes as long as a rebuild;
    /// readers go on meanwhile. A rebuild that was begun before is forgotten.
    ///
    /// # Errors
    /// If an overlay has no room before a rebuild is installed ([`UpdateError::needs_rebuild`]), or the budget has
    /// none, or no new base fits the budget and the limits. Nothing is changed then.
    pub fn commit(mut self) -> Result<u64, UpdateError> {
        self.finish(true)
    }

    /// Does the same as [`Transaction::commit`] without waiting for batches, and may be called again.
    ///
    /// It builds new bases where a commit would, unless a batch is in the way; this is found out before.
    ///
    /// # Errors
    /// As [`Transaction::commit`], and if a batch in progress is in the way ([`UpdateError::is_busy`]). Nothing is
    /// changed, and the transaction is as it was.
    pub fn try_commit(&mut self) -> Result<u64, UpdateError> {
        self.finish(false)
    }

    /// Commits as [`Transaction::commit`] does; if that fails, the transaction is as it was and may be tried again.
    ///
    /// # Errors
    /// As for [`Transaction::commit`].
    pub fn commit_open(&mut self) -> Result<u64, UpdateError> {
        self.finish(true)
    }

    /// Leaves the transaction open, for [`Writer::resume`].
    pub fn keep(self) {
        mem::forget(self);
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

/// Owned engine: rules of one schema for an owner that both looks up and changes them.
///
/// Rules change one by one, and the change that makes a rebuild due runs it.
#[derive(Debug)]
pub struct Owned {
    engine: Engine,
    changer: Changer,
    /// Live rules, indexed by slot.
    live: Vec<Option<Match>>,
    /// Whether the last rebuild found no room.
    is_cramped: bool,
}

impl Owned {
    /// Builds an engine without rules.
    ///
    /// # Errors
    /// If this machine lacks the forced instruction set, or the budget has no room for an engine without rules.
    pub fn new(schema: &Schema, config: &Config) -> Result<Self, BuildError> {
        Self::build(&Lowered::empty(schema), config)
    }

    /// Builds an engine with the rules of a lowered set.
    ///
    /// # Errors
    /// If no base fits the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let changer = Changer::new(vec![set.clone()], Attachments::default(), config)?;
        let engine = Engine { shared: Arc::clone(&changer.shared), part: 0, schema: set.schema().clone() };
        let slots = set.rules().iter().chain(set.unmatchable()).map(|rule| rule.rule.slot() + 1).max().unwrap_or(0);
        let mut live = vec![None; slots];
        set.rules().iter().chain(set.unmatchable()).for_each(|&rule| live[rule.rule.slot()] = Some(rule));
        Ok(Self { engine, changer, live, is_cramped: false })
    }

    /// Returns the engine, for lookups by others.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Commits the next changes, with the rebuilds that they need.
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
            // Without room for a new base, the old one stays until the overlay is full.
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

impl engine::Engine for Owned {
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

    fn count(&self, reader: &mut Reader, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        self.engine.count(reader, keys, best)
    }
}

impl Updatable for Owned {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        let (key_words, slot) = (self.engine.schema.words().len(), rule.rule.slot());
        if regions.key_words() != key_words {
            return Err(UpdateError::key_words(regions.key_words(), key_words));
        }
        if self.live.get(slot).copied().flatten().is_some() {
            return Err(UpdateError::present(rule.rule));
        }
        // Clears the remains of an insertion that panicked.
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

    /// A full overlay is rebuilt into the base at the next insertion, although no rebuild was due before.
    #[test]
    fn an_owner_rebuilds_when_the_overlay_is_full() {
        let config = Config { overlay: Some(4), due: Some(1000), in_place: Some(0), ..Config::default() };
        let mut owner = Owned::new(&Schema::ipv4(), &config).expect("no budget");
        for slot in 0..23u32 {
            let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
            let mut regions = Regions::new(5);
            regions.push(Region { lo: &[slot, 0, 0, 0, 0], hi: &[slot, 0, 7, 0, 0], ternary: None });
            owner.insert(rule, &regions).expect("a rebuild makes room");
            let state = owner.changer.shared.replicas.now().1;
            let [part] = &state.parts[..] else { panic!("one schema") };
            assert_eq!((part.rules(), part.overlay.rules()), (slot as usize + 1, slot as usize % 4 + 1));
        }
    }

    /// An insertion that the budget has no room for is refused, and the rule is not there.
    #[test]
    fn an_owner_refuses_what_the_budget_has_no_room_for() {
        let schema = Schema::ipv4();
        let bytes = |owner: &Owned| owner.engine.explain().bytes;
        let free = bytes(&Owned::new(&schema, &Config::default()).expect("no budget"));
        let budget = crate::Budget { run_bytes: free + 20_000 };
        let mut owner = Owned::new(&schema, &Config { budget, ..Config::default() }).expect("it fits");
        let (mut rules, mut refused) = (0, 0);
        for slot in 0..1000u32 {
            let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
            let mut regions = Regions::new(5);
            regions.push(Region { lo: &[slot, 0, 0, 0, 0], hi: &[slot, slot, 7, 0, 0], ternary: None });
            let inserted = owner.insert(rule, &regions);
            rules += usize::from(inserted.is_ok());
            refused += usize::from(inserted.is_err());
            assert_eq!(Engine::stats(&owner).rules, rules, "rule {slot}: {inserted:?}");
            assert!(inserted.is_ok() || owner.remove(rule.rule).is_err_and(|error| error.is_stale()));
        }
        assert!(rules > 20 && refused > 500, "{rules} came, {refused} were refused");
    }

    /// A change that panicked is not done later.
    #[test]
    fn an_owner_goes_on_after_a_panic() {
        let rule = |slot: u32| Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
        let lowered = {
            let mut set = Lowered::empty(&Schema::ipv4());
            set.push(rule(1), Region { lo: &[0; 5], hi: &[0, 0, 7, 0, 0], ternary: None });
            set
        };
        let mut owner = Owned::build(&lowered, &Config::default()).expect("no budget");
        let mut regions = Regions::new(5);
        regions.push(lowered.regions().get(0));
        for (round, slot) in (0..).zip([5, 6]) {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let same = |_, to: &mut Regions| {
                    to.push(regions.get(0));
                    Ok::<_, ()>(())
                };
                owner.changer.next.insert(rule(slot), same).expect("it is noted");
                let replicas = &owner.changer.shared.replicas;
                replicas.publish(true, |_, _| panic!("inside a commit"))
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
