//! Changes of rules by a writer beside readers.

use std::mem;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::attached::{Attached, Attachments};
use super::commit::Changer;
use super::config::Config;
use super::handle::Handle;
use super::reader::Engine;
use super::rebuild::{InstallError, RebuildJob, Rebuilt, Retired};
use super::sets::{Compiled, SetChanges};
use crate::counters::{Count, CounterShard, RuleCounters};
use crate::engine::Match;
use crate::error::{BuildError, UpdateError};
use crate::rule::{
    ExpansionLimits, Lowered, Place, Placed, Priority, Rule, RuleId, RuleSet, RuleSpec, lower_fixed, lower_rule,
};
use crate::schema::Schema;

/// Opens a rule set for readers and one writer, with an engine for each schema, in order.
///
/// The engines share ids, priorities, transactions and generations.
///
/// # Errors
/// If a rule has too many regions, no base fits the budget, or this machine lacks the forced instruction set.
pub fn open(rules: RuleSet, config: &Config) -> Result<(Vec<Engine>, Writer), BuildError> {
    open_at(rules, config, RuleCounters::default(), [0; 2])
}

/// Opens a rule set in place of another one, whose schemas may differ.
///
/// Rules that have an id of the old set ([`RuleSet::insert_as`]) go on with its counts, and counters of worker threads
/// count for both. The first generation is the one behind the last of `old`. Readers of the old set stay with it; its
/// writer is not changed.
///
/// # Errors
/// As [`open`].
pub fn reopen(rules: RuleSet, config: &Config, old: &Writer) -> Result<(Vec<Engine>, Writer), BuildError> {
    open_at(rules, config, old.counters.clone(), old.changer.next_generation())
}

fn open_at(
    rules: RuleSet,
    config: &Config,
    counters: RuleCounters,
    first: [u64; 2],
) -> Result<(Vec<Engine>, Writer), BuildError> {
    let mut attached = Attachments::default();
    if config.attachments {
        rules.iter().for_each(|rule| attached.set(rule.id.slot(), Attached::of(rule)));
    }
    let mut live = SetChanges::default();
    for rule in rules.iter().filter(|rule| rule.tests_live_sets()) {
        check_rule(&rule.spec, config).map_err(|error| BuildError::refused(error.to_string()).with_rule(rule.id))?;
        let compiled =
            Compiled::new(rules.schemas(), rule, &config.expansion).map_err(|error| error.with_rule(rule.id))?;
        live.rules.push((rule.id, Some((rule.priority, Arc::new(compiled)))));
    }
    let (members, most) = (rules.live_sets().members(), config.sets.members);
    if members > most {
        return Err(BuildError::refused(UpdateError::set_limit("members", most).to_string()));
    }
    let live = (&live, rules.live_sets());
    let changer = Changer::new(lower_all(&rules, &config.expansion)?, live, attached, config, first)?;
    let each =
        |(part, schema): (usize, &Schema)| Engine { shared: Arc::clone(&changer.shared), part, schema: schema.clone() };
    let engines = rules.schemas().iter().enumerate().map(each).collect();
    rules.iter().for_each(|rule| counters.give(rule.id));
    Ok((engines, Writer { rules, changer, counters, undo: Vec::new(), placed: None }))
}

/// Writer: changes the rules that engines look up.
#[derive(Debug)]
pub struct Writer {
    pub(super) rules: RuleSet,
    pub(super) changer: Changer,
    counters: RuleCounters,
    /// Undo list of the open transaction.
    pub(super) undo: Vec<Undo>,
    /// Rule that was put at a place last; the next one beside it continues a run.
    placed: Option<Placed>,
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
        let Self { rules, changer, .. } = self;
        let members = changer.next_sets.members.iter().rev();
        members.for_each(|&(id, member, came)| rules.live_sets_mut().undo(id, member, came));
        while self.undo_last() {}
        self.changer.next.clear();
        self.changer.next_sets.clear();
    }

    fn undo_last(&mut self) -> bool {
        match self.undo.pop() {
            Some(Undo::Insert(id)) => self.rules.undo_insert(id),
            Some(Undo::Remove(rule)) => self.rules.undo_remove(rule),
            Some(Undo::Move(old)) => _ = self.rules.move_to(&old),
            // The rule is live: later changes of it were undone before.
            Some(Undo::Line(id, line)) => _ = self.rules.set_line(id, line),
            Some(Undo::Set) => self.rules.live_sets_mut().undo_add(),
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
        let moved = self
            .changer
            .sets
            .rules()
            .filter_map(|(id, (_, compiled))| Some((id, Some((rules.get(id)?.priority, Arc::clone(compiled))))));
        self.changer.next_sets.rules = moved.collect();
        let retired = self.changer.replace(sets, wait, rules.live_sets_mut())?;
        self.rules = rules;
        Ok(retired)
    }
}

fn lower_all(rules: &RuleSet, expansion: &ExpansionLimits) -> Result<Vec<Lowered>, BuildError> {
    rules.schemas().iter().map(|schema| lower_fixed(rules, schema, expansion)).collect()
}

/// Checks that a rule of live sets may be among rules of this configuration.
fn check_rule(rule: &RuleSpec, config: &Config) -> Result<(), UpdateError> {
    if config.overlaps && rule.tests_live_sets() {
        return Err(UpdateError::bad_rule("it tests a live set, whose regions no rule cache finds".to_owned()));
    }
    Ok(())
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
    pub(super) writer: &'w mut Writer,
}

#[derive(Debug)]
pub(super) enum Undo {
    Insert(RuleId),
    Remove(Rule),
    /// Priorities that rules had before they moved.
    Move(Vec<(RuleId, Priority)>),
    /// Line that a rule had.
    Line(RuleId, Option<NonZeroU32>),
    /// A live set came.
    Set,
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
        let Writer { rules, changer, counters, undo, .. } = &mut *self.writer;
        check_rule(&spec, &changer.config)?;
        let rule = Match { priority: spec.priority, rule: rules.insert(spec)? };
        undo.push(Undo::Insert(rule.rule));
        counters.give(rule.rule);
        self.lower(rule).inspect_err(|_| _ = self.writer.undo_last())?;
        let Writer { rules, changer, .. } = &mut *self.writer;
        if changer.config.attachments
            && let Some(spec) = rules.get(rule.rule)
        {
            changer.next.attach(rule.rule, Attached::of(spec));
        }
        Ok(rule.rule)
    }

    /// Notes the insertion of a live rule for the commit.
    fn lower(&mut self, rule: Match) -> Result<(), UpdateError> {
        let Writer { rules, changer, .. } = &mut *self.writer;
        let expansion = changer.config.expansion;
        let spec = rules.get(rule.rule).filter(|spec| spec.tests_live_sets());
        if let Some(spec) = spec {
            let compiled = Compiled::new(rules.schemas(), spec, &expansion);
            let compiled = compiled.map_err(|error| UpdateError::lowering(error.with_rule(rule.rule)))?;
            // The base has no region of it.
            let none: Result<(), std::convert::Infallible> = changer.next.insert(rule, |_, _| Ok(()));
            none.unwrap_or_else(|never| match never {});
            changer.next_sets.rules.push((rule.rule, Some((rule.priority, Arc::new(compiled)))));
            return Ok(());
        }
        let lowered = changer.next.insert(rule, |part, regions| match rules.get(rule.rule) {
            Some(spec) => lower_rule(&rules.schemas()[part], spec, &expansion, regions).map(drop),
            None => Ok(()),
        });
        lowered.map_err(|error| UpdateError::lowering(error.with_rule(rule.rule)))
    }

    /// Inserts a rule directly before another one, whatever the priority in `spec`.
    ///
    /// It gets a priority between its neighbours. If there is none left, rules nearby get other priorities, in the same
    /// order. Their ids and counts stay. For the commit, each such rule is a removal and an insertion.
    ///
    /// ```
    /// use firstmatch_core::live::{self, Config};
    ///
    /// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
    /// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let (_, mut writer) = live::open(rules, &Config::default())?;
    /// let last = writer.rules().iter().next_back().expect("two rules").clone();
    /// let mut transaction = writer.begin();
    /// let ids = (0..100).map(|_| transaction.insert_before(last.id, last.spec.clone()));
    /// let ids = ids.collect::<Result<Vec<_>, _>>()?;
    /// transaction.commit()?;
    /// let order: Vec<_> = writer.rules().iter().map(|rule| rule.id).collect();
    /// assert_eq!((&order[1..101], order[101]), (&ids[..], last.id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`], and if `next` is stale. The transaction is then as it was.
    pub fn insert_before(&mut self, next: RuleId, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let next = self.priority_of(next)?;
        self.put(self.rules().place_before(next), spec)
    }

    /// Inserts a rule directly behind another one, as [`Transaction::insert_before`] does before it.
    ///
    /// # Errors
    /// As [`Transaction::insert_before`].
    pub fn insert_after(&mut self, previous: RuleId, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let previous = self.priority_of(previous)?;
        self.put(self.rules().place_after(previous), spec)
    }

    /// Inserts a rule before all others, as [`Transaction::insert_before`] does.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn prepend(&mut self, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let first = self.rules().iter().next().map(|rule| rule.priority);
        self.put(first.map_or(Place::NOWHERE, |first| self.rules().place_before(first)), spec)
    }

    /// Inserts a rule behind all others, as [`Transaction::insert_before`] does.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn append(&mut self, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let last = self.rules().iter().next_back().map(|rule| rule.priority);
        self.put(last.map_or(Place::NOWHERE, |last| self.rules().place_after(last)), spec)
    }

    fn priority_of(&self, id: RuleId) -> Result<Priority, UpdateError> {
        self.rules().get(id).map(|rule| rule.priority).ok_or_else(|| UpdateError::stale(id))
    }

    /// Inserts a rule at a place, and makes room there if it has none.
    fn put(&mut self, place: Place, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let id = match place.free(self.writer.placed) {
            Some(priority) => self.insert(RuleSpec { priority, ..spec })?,
            None => {
                let (undo, mark) = (self.writer.undo.len(), self.writer.changer.mark());
                self.put_apart(place, spec).inspect_err(|_| {
                    while self.writer.undo.len() > undo && self.writer.undo_last() {}
                    self.writer.changer.truncate(mark);
                })?
            }
        };
        self.writer.placed = Some(place.placed(id, self.writer.placed));
        Ok(id)
    }

    /// Moves the rules around a place apart, and inserts a rule there.
    fn put_apart(&mut self, place: Place, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let Writer { rules, changer, undo, .. } = &mut *self.writer;
        let room = rules.room(place);
        let old = rules.move_to(&room.moves);
        old.iter().for_each(|&(rule, priority)| changer.next.remove(Match { rule, priority }));
        undo.push(Undo::Move(old));
        for (rule, priority) in room.moves {
            self.lower(Match { rule, priority })?;
        }
        self.insert(RuleSpec { priority: room.free, ..spec })
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// If the id is stale. The transaction is then as it was.
    pub fn remove(&mut self, id: RuleId) -> Result<(), UpdateError> {
        let rule = self.writer.rules.remove(id)?;
        self.writer.changer.next.remove(Match { rule: id, priority: rule.priority });
        if rule.tests_live_sets() {
            self.writer.changer.next_sets.rules.push((id, None));
        }
        self.writer.undo.push(Undo::Remove(rule));
        Ok(())
    }

    /// Sets the line that a rule was read from, which its decisions carry.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    ///
    /// use firstmatch_core::live::{self, Config};
    ///
    /// let text = "family ipv4\ndeny tcp dport 23\n";
    /// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let (_, mut writer) = live::open(rules, &Config { attachments: true, ..Config::default() })?;
    /// let telnet = writer.rules().iter().next().expect("a rule").id;
    /// let mut transaction = writer.begin();
    /// transaction.set_line(telnet, NonZeroU32::new(7))?; // a comment was put before it
    /// transaction.commit()?;
    /// let attached = writer.handle().reader().read(|snapshot| snapshot.attached(telnet));
    /// assert_eq!(attached.line.map(u32::from), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the id is stale. The transaction is then as it was.
    pub fn set_line(&mut self, id: RuleId, line: Option<NonZeroU32>) -> Result<(), UpdateError> {
        let Writer { rules, changer, undo, .. } = &mut *self.writer;
        let old = rules.set_line(id, line)?;
        undo.push(Undo::Line(id, old));
        if changer.config.attachments
            && let Some(rule) = rules.get(id)
        {
            changer.next.attach(id, Attached::of(rule));
        }
        Ok(())
    }

    /// Replaces a rule by another one, which gets a new id.
    ///
    /// # Errors
    /// As [`Transaction::remove`] and [`Transaction::insert`]. The transaction is then as it was.
    pub fn replace(&mut self, id: RuleId, spec: RuleSpec) -> Result<RuleId, UpdateError> {
        let mark = self.writer.changer.mark();
        self.remove(id)?;
        self.insert(spec).inspect_err(|_| {
            self.writer.changer.truncate(mark);
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
        let Writer { rules, changer, undo, .. } = &mut *self.writer;
        let generation = changer.commit(wait, rules.live_sets_mut())?;
        undo.clear();
        Ok(generation)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.writer.abandon();
    }
}
