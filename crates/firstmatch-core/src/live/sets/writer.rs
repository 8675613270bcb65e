//! Writer of live sets: applies changes of members and rules to the idle replica, and logs the steps for the other.
//!
//! Changes are applied as they come out in the end. Where a member came and went in one transaction, its addresses are
//! in the set exactly if a member holds them afterwards. So a commit that is refused is undone by the same code, with
//! the members as they were.

use std::collections::HashMap;
use std::sync::Arc;

use super::compiled::{Compiled, CompiledPart, SetCondition};
use super::field::{Field, Target, TooManyClasses};
use super::leaf::{Leaf, Step};
use super::replica::{PartRules, RulesOf, SetRule, SetRules};
use super::rows::MOST_RULES;
use super::tree::Start;
use crate::engine::Match;
use crate::error::UpdateError;
use crate::live::config::SetLimits;
use crate::raw::Level;
use crate::rule::{LiveSet, LiveSets, Member, Members, Priority, RuleId, SetId};
use crate::schema::{Family, Schema};

/// Number of steps and changes whose memory is kept.
const KEPT: usize = 1 << 14;

/// Priority of a rule of live sets, and its compiled form.
pub(in crate::live) type Ranked = (Priority, Arc<Compiled>);

/// Changes of members and of rules of live sets that a commit applies.
#[derive(Debug, Default)]
pub(in crate::live) struct SetChanges {
    /// Members that came or went, in order, with whether they came.
    pub(in crate::live) members: Vec<(SetId, Member, bool)>,
    /// Rules that came, moved to another priority or went (`None`), in order.
    pub(in crate::live) rules: Vec<(RuleId, Option<Ranked>)>,
}

impl SetChanges {
    pub(in crate::live) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.rules.is_empty()
    }

    pub(in crate::live) fn clear(&mut self) {
        self.members.clear();
        // A large transaction does not keep its memory.
        self.members.shrink_to(KEPT);
        self.rules.clear();
    }

    /// Whether a commit of the changes may take memory.
    pub(in crate::live) fn grow(&self) -> bool {
        self.members.iter().any(|&(.., came)| came) || self.rules.iter().any(|(_, rule)| rule.is_some())
    }
}

/// Writer's part of the live sets of all schemas.
#[derive(Debug)]
pub(in crate::live) struct SetWriter {
    limits: SetLimits,
    level: Level,
    parts: Vec<PartWriter>,
    rules: HashMap<RuleId, (u16, Ranked)>,
    free_bits: Vec<u16>,
    bits: u16,
    /// Rules as they were before the changes of the last [`Self::apply`], in order.
    before: Vec<(RuleId, Option<Ranked>)>,
    /// Whether a panic may have left the idle replica unfinished.
    is_torn: bool,
}

#[derive(Debug)]
enum PartWriter {
    Ipv4(WriterOf<u32>),
    Ipv6(WriterOf<u128>),
}

#[derive(Debug)]
struct WriterOf<T> {
    fields: Vec<FieldWriter<T>>,
    log: Vec<(u16, Option<SetRule>)>,
}

#[derive(Debug)]
struct FieldWriter<T> {
    field: Field,
    /// Number in the field, and number of rules, of each live set that rules test.
    named: HashMap<SetId, (u32, usize)>,
    /// Number in the field of the intervals of a rule, by its bit.
    fixed: HashMap<u16, u32>,
    /// Sets that lost a rule.
    unused: Vec<SetId>,
    log: Vec<Step<T>>,
}

/// Calls an expression with the writer and the replica of each schema.
macro_rules! each_part {
    ($writer:expr, $state:expr, $number:pat, |$own:ident, $rules:ident| $do:expr) => {
        for ($number, (own, rules)) in $writer.parts.iter_mut().zip(&mut $state.parts).enumerate() {
            match (own, rules) {
                (PartWriter::Ipv4($own), PartRules::Ipv4($rules)) => $do,
                (PartWriter::Ipv6($own), PartRules::Ipv6($rules)) => $do,
                _ => unreachable!("both are of the same schemas"),
            }
        }
    };
}

impl SetWriter {
    /// Builds the writer of rules without live sets, which takes no memory.
    pub(in crate::live) fn new(limits: SetLimits, level: Level) -> Self {
        let (rules, free_bits, before) = (HashMap::new(), Vec::new(), Vec::new());
        Self { limits, level, parts: Vec::new(), rules, free_bits, bits: 0, before, is_torn: false }
    }

    /// Prepares for the first rules of live sets.
    fn begin(&mut self, schemas: &[Schema]) -> SetRules {
        let state = SetRules::new(schemas, self.level);
        let part = |part: &PartRules| match part {
            PartRules::Ipv4(part) => PartWriter::Ipv4(WriterOf::new(part)),
            PartRules::Ipv6(part) => PartWriter::Ipv6(WriterOf::new(part)),
        };
        self.parts = state.parts.iter().map(part).collect();
        state
    }

    /// Returns the ids of all rules of live sets, each as it is now.
    pub(in crate::live) fn rules(&self) -> impl Iterator<Item = (RuleId, &Ranked)> {
        self.rules.iter().map(|(&id, (_, rule))| (id, rule))
    }

    /// Replays the steps of the commit before on the idle replica, which lacks them.
    pub(in crate::live) fn replay(&mut self, now: &SetRules, state: &mut SetRules) {
        if std::mem::replace(&mut self.is_torn, true) {
            *state = now.clone();
            self.forget_log();
        }
        if state.parts.len() != now.parts.len() {
            *state = now.without_rules();
        }
        each_part!(self, state, _, |own, rules| own.replay(rules));
        self.is_torn = false;
    }

    /// Forgets the steps, because the other replica is copied from this one.
    pub(in crate::live) fn forget_log(&mut self) {
        for part in &mut self.parts {
            match part {
                PartWriter::Ipv4(part) => part.forget_log(),
                PartWriter::Ipv6(part) => part.forget_log(),
            }
        }
    }

    /// Applies changes to the idle replica; `sets` has the members after them.
    ///
    /// `schemas` is called when the first rule of live sets comes.
    ///
    /// # Errors
    /// If there would be too many classes or rules; some changes may have been applied then, for [`Self::undo`].
    pub(in crate::live) fn apply(
        &mut self,
        changes: &SetChanges,
        sets: &LiveSets,
        state: &mut SetRules,
        schemas: impl FnOnce() -> Vec<Schema>,
    ) -> Result<(), UpdateError> {
        self.before.clear();
        if self.parts.is_empty() {
            if changes.rules.is_empty() {
                return Ok(());
            }
            *state = self.begin(&schemas());
        }
        self.is_torn = true;
        let done = self.apply_changes(changes, sets, state);
        self.is_torn = false;
        done
    }

    fn apply_changes(
        &mut self,
        changes: &SetChanges,
        sets: &LiveSets,
        state: &mut SetRules,
    ) -> Result<(), UpdateError> {
        let most = self.limits.classes;
        self.refresh(changes, sets, most, state)?;
        for (id, rule) in &changes.rules {
            let old = self.set_rule(*id, rule.clone(), sets, most, state)?;
            self.before.push((*id, old));
        }
        self.unload(sets, state);
        Ok(())
    }

    /// Undoes the changes that the last [`Self::apply`] made; `sets` has the members before them.
    pub(in crate::live) fn undo(
        &mut self,
        changes: &SetChanges,
        after: &LiveSets,
        before: &LiveSets,
        state: &mut SetRules,
    ) {
        self.is_torn = true;
        let rules = std::mem::take(&mut self.before);
        let mut done = Ok(());
        for (id, rule) in rules.into_iter().rev() {
            done = done.and(self.set_rule(id, rule, after, usize::MAX, state).map(drop));
        }
        self.unload(after, state);
        done = done.and(self.refresh(changes, before, usize::MAX, state));
        debug_assert!(done.is_ok(), "what was there fits again");
        self.is_torn = false;
    }

    /// Puts the addresses of changed members into their sets, or takes them out.
    fn refresh(
        &mut self,
        changes: &SetChanges,
        sets: &LiveSets,
        most: usize,
        state: &mut SetRules,
    ) -> Result<(), UpdateError> {
        for &(id, member, _) in &changes.members {
            let Some(set) = sets.get(id) else { continue };
            for (own, rules) in self.parts.iter_mut().zip(&mut state.parts) {
                let done = match (own, rules, member.family()) {
                    (PartWriter::Ipv4(own), PartRules::Ipv4(rules), Family::Ipv4) => {
                        own.refresh(id, &set.ipv4, member, most, rules)
                    }
                    (PartWriter::Ipv6(own), PartRules::Ipv6(rules), Family::Ipv6) => {
                        own.refresh(id, &set.ipv6, member, most, rules)
                    }
                    _ => Ok(()),
                };
                done.map_err(|TooManyClasses| UpdateError::set_limit("classes of addresses", most))?;
            }
        }
        Ok(())
    }

    /// Adds, moves or removes a rule; returns it as it was.
    fn set_rule(
        &mut self,
        id: RuleId,
        rule: Option<Ranked>,
        sets: &LiveSets,
        most: usize,
        state: &mut SetRules,
    ) -> Result<Option<Ranked>, UpdateError> {
        let old = self.rules.get(&id).cloned();
        let (bit, compiled) = match (&old, &rule) {
            (None, None) => return Ok(None),
            (Some((bit, (_, compiled))), _) => (*bit, Arc::clone(compiled)),
            (None, Some((_, compiled))) => (self.new_bit()?, Arc::clone(compiled)),
        };
        let record = rule.as_ref().map(|&(priority, _)| Match { rule: id, priority });
        let (is_new, mut done) = (old.is_none(), Ok(()));
        each_part!(self, state, number, |own, rules| {
            if let Some(part) = &compiled.parts[number] {
                if is_new {
                    done = done.and(own.add(bit, part, sets, most, rules));
                } else if record.is_none() {
                    own.remove(bit, part, rules);
                }
                own.record(bit, record.map(|rule| SetRule { rule, rest: part.rest.clone() }), rules);
            }
        });
        match rule {
            Some(rule) => _ = self.rules.insert(id, (bit, rule)),
            None => {
                self.rules.remove(&id);
                self.free_bits.push(bit);
            }
        }
        if done.is_err() {
            // It is noted, so that it is undone with the others.
            self.before.push((id, old.map(|(_, rule)| rule)));
            return Err(UpdateError::set_limit("classes of addresses", most));
        }
        Ok(old.map(|(_, rule)| rule))
    }

    fn new_bit(&mut self) -> Result<u16, UpdateError> {
        if let Some(bit) = self.free_bits.pop() {
            return Ok(bit);
        }
        let most = self.limits.rules.min(MOST_RULES);
        if usize::from(self.bits) >= most {
            return Err(UpdateError::set_limit("rules", most));
        }
        self.bits += 1;
        Ok(self.bits - 1)
    }

    /// Takes sets that no rule tests any more out of the trees.
    fn unload(&mut self, sets: &LiveSets, state: &mut SetRules) {
        for (own, rules) in self.parts.iter_mut().zip(&mut state.parts) {
            match (own, rules) {
                (PartWriter::Ipv4(own), PartRules::Ipv4(rules)) => {
                    own.unload(rules, |id| sets.get(id).map(|of| &of.ipv4));
                }
                (PartWriter::Ipv6(own), PartRules::Ipv6(rules)) => {
                    own.unload(rules, |id| sets.get(id).map(|of| &of.ipv6));
                }
                _ => unreachable!("both are of the same schemas"),
            }
        }
    }

    /// Returns about the heap bytes.
    pub(in crate::live) fn bytes(&self) -> usize {
        let part = |part: &PartWriter| match part {
            PartWriter::Ipv4(part) => part.bytes(),
            PartWriter::Ipv6(part) => part.bytes(),
        };
        self.parts.capacity() * size_of::<PartWriter>()
            + self.parts.iter().map(part).sum::<usize>()
            + self.rules.capacity() * size_of::<(RuleId, (u16, Ranked))>()
    }
}

/// Family of addresses, with the members that a set has of it.
trait Own: Start {
    fn members(set: &LiveSet) -> &Members<Self>;
}

impl Own for u32 {
    fn members(set: &LiveSet) -> &Members<Self> {
        &set.ipv4
    }
}

impl Own for u128 {
    fn members(set: &LiveSet) -> &Members<Self> {
        &set.ipv6
    }
}

impl<T: Own> WriterOf<T> {
    fn new(part: &RulesOf<T>) -> Self {
        let field = |_| FieldWriter {
            field: Field::new(),
            named: HashMap::new(),
            fixed: HashMap::new(),
            unused: Vec::new(),
            log: Vec::new(),
        };
        Self { fields: part.fields.iter().map(field).collect(), log: Vec::new() }
    }

    fn replay(&mut self, rules: &mut RulesOf<T>) {
        for (own, of) in self.fields.iter_mut().zip(&mut rules.fields) {
            own.log.drain(..).for_each(|step| of.leaf.apply(step));
            own.log.shrink_to(KEPT);
        }
        self.log.drain(..).for_each(|(bit, rule)| rules.set(bit, rule));
    }

    fn forget_log(&mut self) {
        self.fields.iter_mut().for_each(|own| own.log = Vec::new());
        self.log.clear();
    }

    fn record(&mut self, bit: u16, rule: Option<SetRule>, rules: &mut RulesOf<T>) {
        rules.set(bit, rule.clone());
        self.log.push((bit, rule));
    }

    fn refresh(
        &mut self,
        id: SetId,
        members: &Members<T>,
        member: Member,
        most: usize,
        rules: &mut RulesOf<T>,
    ) -> Result<(), TooManyClasses> {
        let range = member.ends().map(T::of);
        for (own, of) in self.fields.iter_mut().zip(&mut rules.fields) {
            if let Some(&(set, _)) = own.named.get(&id) {
                let mut target = Target { leaf: &mut of.leaf, log: &mut own.log };
                own.field.refresh(members, range, set, most, &mut target)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        bit: u16,
        part: &CompiledPart,
        sets: &LiveSets,
        most: usize,
        rules: &mut RulesOf<T>,
    ) -> Result<(), TooManyClasses> {
        let mut done = Ok(());
        for ((own, of), condition) in self.fields.iter_mut().zip(&mut rules.fields).zip(&part.fields) {
            match condition {
                Some(condition) => done = done.and(own.add(bit, condition, sets, most, &mut of.leaf)),
                None => own.target(&mut of.leaf).apply(Step::Open(bit, true)),
            }
        }
        done
    }

    fn remove(&mut self, bit: u16, part: &CompiledPart, rules: &mut RulesOf<T>) {
        for ((own, of), condition) in self.fields.iter_mut().zip(&mut rules.fields).zip(&part.fields) {
            match condition {
                Some(condition) => own.remove(bit, condition, &mut of.leaf),
                None => own.target(&mut of.leaf).apply(Step::Open(bit, false)),
            }
        }
    }

    fn unload<'s>(&mut self, rules: &mut RulesOf<T>, members: impl Fn(SetId) -> Option<&'s Members<T>>) {
        for (own, of) in self.fields.iter_mut().zip(&mut rules.fields) {
            own.unload(&mut of.leaf, &members);
        }
    }

    fn bytes(&self) -> usize {
        let field = |own: &FieldWriter<T>| own.field.bytes() + own.log.capacity() * size_of::<Step<T>>();
        self.fields.iter().map(field).sum::<usize>() + self.log.capacity() * size_of::<(u16, Option<SetRule>)>()
    }
}

impl<T: Own> FieldWriter<T> {
    fn target<'a>(&'a mut self, leaf: &'a mut Leaf<T>) -> Target<'a, T> {
        Target { leaf, log: &mut self.log }
    }

    /// Adds a rule with a condition on the field, and the addresses of its sets if no rule tested them before.
    fn add(
        &mut self,
        bit: u16,
        condition: &SetCondition,
        sets: &LiveSets,
        most: usize,
        leaf: &mut Leaf<T>,
    ) -> Result<(), TooManyClasses> {
        let Self { field, named, fixed, log, .. } = self;
        let mut target = Target { leaf, log };
        let (mut own, mut done) = (Vec::new(), Ok(()));
        for &id in &condition.sets {
            let is_new = !named.contains_key(&id);
            let (set, rules) = named.entry(id).or_insert_with(|| (field.new_set(), 0));
            *rules += 1;
            own.push(*set);
            if let Some(of) = sets.get(id).filter(|_| is_new) {
                let mut load = |(lo, hi)| field.toggle([lo, hi], *set, true, most, &mut target);
                done = done.and_then(|()| T::members(of).iter().try_for_each(&mut load));
            }
        }
        if !condition.fixed.is_empty() {
            let set = field.new_set();
            fixed.insert(bit, set);
            own.push(set);
            let mut load = |&(lo, hi): &(u128, u128)| field.toggle([lo, hi].map(T::of), set, true, most, &mut target);
            done = done.and_then(|()| condition.fixed.iter().try_for_each(&mut load));
        }
        field.add_rule(bit, &own, condition.negated, &mut target);
        done
    }

    fn remove(&mut self, bit: u16, condition: &SetCondition, leaf: &mut Leaf<T>) {
        let Self { field, named, fixed, unused, log } = self;
        let mut target = Target { leaf, log };
        let fixed = fixed.remove(&bit);
        let own = condition.sets.iter().filter_map(|id| named.get(id)).map(|&(set, _)| set);
        let own: Vec<u32> = own.chain(fixed).collect();
        field.remove_rule(bit, &own, condition.negated, &mut target);
        for id in &condition.sets {
            if let Some((_, rules)) = named.get_mut(id) {
                *rules -= 1;
                unused.extend((*rules == 0).then_some(*id));
            }
        }
        if let Some(set) = fixed {
            // Taking addresses out of a set makes no class that was not there before it.
            let mut take =
                |&(lo, hi): &(u128, u128)| field.toggle([lo, hi].map(T::of), set, false, usize::MAX, &mut target);
            let done = condition.fixed.iter().try_for_each(&mut take);
            debug_assert!(done.is_ok(), "there is no cap");
            field.free_set(set);
        }
    }

    /// Takes the sets that no rule tests any more out of the tree.
    fn unload<'s>(&mut self, leaf: &mut Leaf<T>, members: impl Fn(SetId) -> Option<&'s Members<T>>) {
        let Self { field, named, unused, log, .. } = self;
        let mut target = Target { leaf, log };
        for id in unused.drain(..) {
            let Some(&(set, 0)) = named.get(&id) else { continue };
            let mut take = |(lo, hi)| field.toggle([lo, hi], set, false, usize::MAX, &mut target);
            let done = members(id).map_or(Ok(()), |members| members.iter().try_for_each(&mut take));
            debug_assert!(done.is_ok(), "there is no cap");
            field.free_set(set);
            named.remove(&id);
        }
    }
}
