//! Rule sets: live rules in one order of priority, each in a slot of its own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU32;
use std::ops::Bound;

use super::condition::{Condition, NamedCondition, Test};
use super::conditions::{ConditionRef, Conditions, pack};
use super::id::{Priority, RuleId};
use super::live_sets::LiveSets;
use super::spec::{Rule, RuleSpec};
use crate::error::UpdateError;
use crate::schema::{Family, Field, Schema};

/// Set of rules in one order of priority, over one schema or over both of a dual-stack set.
///
/// Exact duplicates are kept. The slot of a removed rule is used again, under another id. For example, if rule `3` is
/// removed, the next rule inserted gets the id `3.1`.
///
/// ```
/// use firstmatch_core::{RuleSet, Schema};
///
/// let text = "family ipv4\npermit dst 192.0.2.0/24\ndeny tcp dport 23\n";
/// let mut rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let lines: Vec<_> = rules.iter().map(|rule| rule.line.map_or(0, u32::from)).collect();
/// assert_eq!(lines, [2, 3]); // in order of priority
/// let first = rules.iter().next().expect("two rules").id;
/// rules.remove(first)?;
/// assert!(rules.get(first).is_none() && rules.len() == 1);
/// # assert!(RuleSet::new(Schema::ipv4()).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RuleSet {
    schemas: Vec<Schema>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    order: BTreeMap<Priority, u32>,
    live_sets: LiveSets,
    /// Reuse counts of slots whose live rule came back after later rules of the slot were undone.
    ///
    /// The count is that of the next rule that takes the slot; `None` if every count is spent. Both ways to free the
    /// slot use it (`next_reuse`): a removal and an undone insertion.
    passed: BTreeMap<u32, Option<u32>>,
}

#[derive(Clone, Debug)]
enum Slot {
    Live(Rule),
    /// Free slot with the reuse count of the next rule that takes it.
    ///
    /// `None` if every count is spent, or if the slot was passed over, so that its counts are unknown. The slot then
    /// stays free, because an id must not come back.
    Free(Option<u32>),
}

impl Slot {
    fn rule(&self) -> Option<&Rule> {
        match self {
            Self::Live(rule) => Some(rule),
            Self::Free(_) => None,
        }
    }
}

impl RuleSet {
    /// Builds an empty set over one schema.
    pub fn new(schema: Schema) -> Self {
        Self::over(vec![schema])
    }

    /// Builds an empty dual-stack set.
    ///
    /// The two schemas have the same fields in the same order; widths may differ.
    ///
    /// # Panics
    /// If the names of the fields differ, or the families are not IPv4 and IPv6.
    pub fn dual(ipv4: Schema, ipv6: Schema) -> Self {
        assert_eq!((ipv4.family(), ipv6.family()), (Some(Family::Ipv4), Some(Family::Ipv6)));
        let names = |schema: &Schema| schema.fields().iter().map(|f| f.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&ipv4), names(&ipv6), "the fields of a dual-stack set are the same in both families");
        Self::over(vec![ipv4, ipv6])
    }

    fn over(schemas: Vec<Schema>) -> Self {
        Self {
            schemas,
            slots: Vec::new(),
            free: Vec::new(),
            order: BTreeMap::new(),
            live_sets: LiveSets::default(),
            passed: BTreeMap::new(),
        }
    }

    /// Returns the schemas: one, or those of IPv4 and IPv6.
    pub fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    /// Returns the schema for packets of this family, if the set classifies them.
    pub fn schema(&self, family: Option<Family>) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.family() == family)
    }

    /// Returns the live sets, which rules test by their ids.
    pub fn live_sets(&self) -> &LiveSets {
        &self.live_sets
    }

    /// Returns the live sets, to add sets or change members.
    pub fn live_sets_mut(&mut self) -> &mut LiveSets {
        &mut self.live_sets
    }

    /// Returns the rules with the members that live sets have now, and without live sets.
    ///
    /// Ids and priorities stay, so that answers are those of this set as long as no member changes.
    ///
    /// ```
    /// use firstmatch_core::rule::{FieldValues, first_match};
    ///
    /// let text = "family ipv4\nlive set bad = { 192.0.2.0/24 }\ndeny src $bad\n";
    /// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let resolved = rules.resolved();
    /// assert!(resolved.live_sets().is_empty());
    /// let values = [0xC000_0207, 1, 2, 3, 6].map(Some).to_vec();
    /// let packet = FieldValues { family: rules.schemas()[0].family(), values };
    /// assert_eq!(first_match(&resolved, &packet).map(|rule| rule.id), first_match(&rules, &packet).map(|rule| rule.id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resolved(&self) -> Self {
        let mut out = self.clone();
        for slot in &mut out.slots {
            if let Slot::Live(rule) = slot
                && rule.tests_live_sets()
            {
                *rule = self.resolve(rule);
            }
        }
        out.live_sets = LiveSets::default();
        out
    }

    /// Returns a rule with the members that live sets have now.
    pub(super) fn resolve(&self, rule: &Rule) -> Rule {
        let mut rule = rule.clone();
        rule.spec.conditions = self.live_sets.resolved(&rule.conditions, &self.schemas);
        self.bind_indices(&mut rule.spec.conditions);
        rule
    }

    /// Gives the live sets the ids that `other` has for sets of these names; other sets come behind them.
    ///
    /// Sets that only `other` has come, too, without members.
    pub fn number_live_sets_as(&mut self, other: &Self) {
        let (sets, ids) = self.live_sets.ordered_as(&other.live_sets);
        self.live_sets = sets;
        for slot in &mut self.slots {
            if let Slot::Live(rule) = slot
                && rule.tests_live_sets()
            {
                let binding = rule.conditions.binding();
                let renumber = |(family, test)| match test {
                    Test::Set(id) => (family, Test::Set(ids.get(id.index()).copied().unwrap_or(id))),
                    test => (family, test),
                };
                let renumbered = rule.conditions.iter().map(|of| Condition {
                    field: of.field,
                    negated: of.negated,
                    tests: of.tests().map(renumber).collect(),
                });
                rule.spec.conditions = renumbered.collect();
                rule.spec.conditions.bind(binding);
            }
        }
    }

    /// Number of live rules.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no rule is live.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Length of an array by slot: one more than the largest slot in use so far.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the live rules, the first to match first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Rule> {
        self.order.values().filter_map(|&slot| self.slots[slot as usize].rule())
    }

    /// Returns the live rule of this id; `None` for a stale id.
    pub fn get(&self, id: RuleId) -> Option<&Rule> {
        self.slots.get(id.slot())?.rule().filter(|rule| rule.id == id)
    }

    /// Returns the live rule of this priority.
    pub fn at(&self, priority: Priority) -> Option<&Rule> {
        self.slots[*self.order.get(&priority)? as usize].rule()
    }

    /// Returns the last live rule before a priority.
    pub fn before(&self, priority: Priority) -> Option<&Rule> {
        let (_, &slot) = self.order.range(..priority).next_back()?;
        self.slots[slot as usize].rule()
    }

    /// Returns the first live rule behind a priority.
    pub fn after(&self, priority: Priority) -> Option<&Rule> {
        let behind = (Bound::Excluded(priority), Bound::Unbounded);
        let (_, &slot) = self.order.range(behind).next()?;
        self.slots[slot as usize].rule()
    }

    /// Builds conditions on fields of these names, bound to this set.
    ///
    /// ```
    /// use firstmatch_core::rule::{NamedCondition, Test};
    /// use firstmatch_core::{RuleSet, Schema};
    ///
    /// let set = RuleSet::new(Schema::ipv4());
    /// let telnet = set.bind([NamedCondition::new("dport", [Test::Value(23)])])?;
    /// assert_eq!(set.unbind(&telnet)?, [NamedCondition::new("dport", [Test::Value(23)])]);
    /// assert!(set.bind([NamedCondition::new("vlan_vid", [Test::Value(23)])]).is_err());
    /// # Ok::<(), firstmatch_core::UpdateError>(())
    /// ```
    ///
    /// # Errors
    /// If the set has no field of a name; the error lists its fields.
    pub fn bind(&self, conditions: impl IntoIterator<Item = NamedCondition>) -> Result<Conditions, UpdateError> {
        let mut packed = Vec::new();
        for NamedCondition { field, negated, tests } in conditions {
            let Some(index) = self.schemas[0].index_of(&field) else {
                let all = self.schemas[0].fields().iter().map(Field::name).collect::<Vec<_>>().join(", ");
                return Err(UpdateError::bad_rule(format!("there is no field {field} in this set, which has {all}")));
            };
            pack(index, negated, &tests, &mut packed);
        }
        let mut bound = Conditions::from_packed(&packed);
        bound.bind(self.binding(&bound));
        Ok(bound)
    }

    /// Returns conditions of this set with the names of their fields, for a rule of another set.
    ///
    /// # Errors
    /// If the conditions are bound to another set's fields, or name a field that this set lacks.
    pub fn unbind(&self, conditions: &Conditions) -> Result<Vec<NamedCondition>, UpdateError> {
        self.check_binding(conditions)?;
        let named = |condition: ConditionRef<'_>| NamedCondition {
            field: self.schemas[0].fields()[condition.field].name().to_owned(),
            negated: condition.negated,
            tests: condition.tests().collect(),
        };
        Ok(conditions.iter().map(named).collect())
    }

    /// Binds conditions on fields of this set, unless they are bound.
    ///
    /// # Panics
    /// If the set has no field of an index.
    pub fn bind_indices(&self, conditions: &mut Conditions) {
        if conditions.binding() == 0 {
            conditions.bind(self.binding(conditions));
        }
    }

    /// Returns the binding of conditions on fields of this set, a number that is not 0.
    ///
    /// It is a sum of hashes, over the families of the set and the fields that have a condition.
    fn binding(&self, conditions: &Conditions) -> u32 {
        let families = self.schemas.iter().map(|schema| schema.family().map_or(0, |family| 1 + family as u32));
        let families = families.fold(1, |all, family| all << 2 | family);
        let identity = |condition: ConditionRef<'_>| {
            let each = self.schemas.iter().map(|schema| schema.identity_of(condition.field));
            each.fold(0u32, |all, one| all.rotate_left(7) ^ one)
        };
        conditions.iter().map(identity).fold(families, u32::wrapping_add).max(1)
    }

    /// Checks that conditions are on fields of this set and, if bound, bound to these.
    fn check_binding(&self, conditions: &Conditions) -> Result<(), UpdateError> {
        let fields = self.schemas[0].fields().len();
        let unknown = conditions.iter().find(|condition| condition.field >= fields);
        match (conditions.binding(), unknown) {
            (0, Some(condition)) => Err(UpdateError::bad_rule(format!("there is no field {}", condition.field))),
            (0, None) => Ok(()),
            (bound, None) if bound == self.binding(conditions) => Ok(()),
            _ => Err(UpdateError::other_fields()),
        }
    }

    /// Adds a rule, and binds its conditions to the fields of this set.
    ///
    /// # Errors
    /// If its priority is taken, a condition does not fit the schema, or its conditions are bound to fields of another
    /// name, width, source or family than this set's ([`RuleSet::bind`] binds by name). Nothing is changed then.
    pub fn insert(&mut self, mut spec: RuleSpec) -> Result<RuleId, UpdateError> {
        self.check(&spec)?;
        self.bind_indices(&mut spec.conditions);
        let Entry::Vacant(place) = self.order.entry(spec.priority) else {
            return Err(UpdateError::priority_taken(spec.priority));
        };
        let (slot, reuse) = match self.free.pop() {
            Some(slot) => match self.slots[slot as usize] {
                Slot::Free(Some(reuse)) => (slot, reuse),
                // The free list has only free slots with a count left.
                _ => unreachable!("slot {slot} is free"),
            },
            None => {
                let slot = u32::try_from(self.slots.len()).ok().filter(|&s| s < u32::MAX);
                let slot = slot.ok_or_else(UpdateError::full)?;
                self.slots.push(Slot::Free(Some(0)));
                (slot, 0)
            }
        };
        let id = RuleId::new(slot, reuse);
        place.insert(slot);
        self.slots[slot as usize] = Slot::Live(Rule { id, spec });
        Ok(id)
    }

    /// Adds a rule under the id it had elsewhere, as when a set is restored from a file.
    ///
    /// Slots that are passed over are never used, because rules that were removed elsewhere may have had them. The
    /// caller must make sure that they are not absurdly many. [`RuleSet::pass_slots`] passes over slots behind the last
    /// rule.
    ///
    /// # Errors
    /// As [`RuleSet::insert`], or if the id's slot is not larger than all slots in use so far. Nothing is changed then.
    pub fn insert_as(&mut self, id: RuleId, mut spec: RuleSpec) -> Result<(), UpdateError> {
        self.check(&spec)?;
        self.bind_indices(&mut spec.conditions);
        if self.order.contains_key(&spec.priority) {
            return Err(UpdateError::priority_taken(spec.priority));
        }
        if id.slot() < self.slots.len() {
            return Err(UpdateError::present(id));
        }
        self.pass_slots(id.slot());
        self.order.insert(spec.priority, id.slot() as u32);
        self.slots.push(Slot::Live(Rule { id, spec }));
        Ok(())
    }

    /// Passes over all slots below `slots` that were not in use so far: no rule gets an id in them.
    ///
    /// A set that is restored with [`RuleSet::insert_as`] passes over [`RuleSet::slots`] of the old set. Otherwise a new
    /// rule could get the id of a rule that was removed from the old set.
    ///
    /// ```
    /// use firstmatch_core::RuleSet;
    ///
    /// let text = "family ipv4\npermit dst 192.0.2.0/24\ndeny tcp dport 23\n";
    /// let mut old = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let last = old.iter().next_back().expect("two rules").id;
    /// let removed = old.remove(last)?;
    /// let mut new = RuleSet::new(old.schemas()[0].clone());
    /// for rule in old.iter() {
    ///     new.insert_as(rule.id, rule.spec.clone())?; // slots ascend: only the last rule was removed
    /// }
    /// new.pass_slots(old.slots());
    /// assert_ne!(new.insert(removed.spec)?, last);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pass_slots(&mut self, slots: usize) {
        self.slots.resize(slots.max(self.slots.len()), Slot::Free(None));
    }

    /// Removes a rule and returns it.
    ///
    /// # Errors
    /// If the id is stale. Nothing is changed then.
    pub fn remove(&mut self, id: RuleId) -> Result<Rule, UpdateError> {
        if self.get(id).is_none() {
            return Err(UpdateError::stale(id));
        }
        let next = self.next_reuse(id);
        let Slot::Live(rule) = std::mem::replace(&mut self.slots[id.slot()], Slot::Free(next)) else {
            unreachable!("rule {id} is live");
        };
        self.order.remove(&rule.priority);
        self.free.extend(next.map(|_| id.slot() as u32));
        Ok(rule)
    }

    /// Returns the reuse count of the rule that takes the slot after rule `id`, and forgets it in `passed`.
    fn next_reuse(&mut self, id: RuleId) -> Option<u32> {
        self.passed.remove(&(id.slot() as u32)).unwrap_or(id.reuse().checked_add(1))
    }

    /// Sets the line that a rule was read from, and returns the one that it had.
    ///
    /// # Errors
    /// If the id is stale. Nothing is changed then.
    pub fn set_line(&mut self, id: RuleId, line: Option<NonZeroU32>) -> Result<Option<NonZeroU32>, UpdateError> {
        match self.slots.get_mut(id.slot()) {
            Some(Slot::Live(rule)) if rule.id == id => Ok(std::mem::replace(&mut rule.spec.line, line)),
            _ => Err(UpdateError::stale(id)),
        }
    }

    /// Undoes the last insertion, of rule `id`. The id does not come back.
    pub(crate) fn undo_insert(&mut self, id: RuleId) {
        let next = self.next_reuse(id);
        let Slot::Live(rule) = std::mem::replace(&mut self.slots[id.slot()], Slot::Free(next)) else {
            unreachable!("rule {id} is live");
        };
        self.order.remove(&rule.priority);
        // A new slot goes to the free list, too, like one that was used before.
        self.free.extend(next.map(|_| id.slot() as u32));
    }

    /// Undoes the last removal, of `rule`.
    pub(crate) fn undo_remove(&mut self, rule: Rule) {
        let slot = rule.id.slot();
        if self.free.last() == Some(&(slot as u32)) {
            self.free.pop();
        }
        self.order.insert(rule.priority, slot as u32);
        let next = rule.id.reuse().checked_add(1);
        // Rules that had the slot in between were undone before.
        if let Slot::Free(later) = std::mem::replace(&mut self.slots[slot], Slot::Live(rule))
            && later != next
        {
            self.passed.insert(slot as u32, later);
        }
    }

    /// Returns the live rules of the priorities from `first` to `last`, both included.
    pub(super) fn within(&self, first: Priority, last: Priority) -> impl Iterator<Item = &Rule> {
        self.order.range(first..=last).filter_map(|(_, &slot)| self.slots[slot as usize].rule())
    }

    /// Gives rules other priorities, all at once; returns those that they had.
    ///
    /// The rules must be live, and no other rule may have one of the priorities.
    pub(crate) fn move_to(&mut self, to: &[(RuleId, Priority)]) -> Vec<(RuleId, Priority)> {
        let old: Vec<_> = to.iter().filter_map(|&(id, _)| Some((id, self.get(id)?.priority))).collect();
        old.iter().for_each(|(_, priority)| _ = self.order.remove(priority));
        for &(id, priority) in to {
            if let Slot::Live(rule) = &mut self.slots[id.slot()] {
                rule.spec.priority = priority;
                self.order.insert(priority, id.slot() as u32);
            }
        }
        old
    }

    /// Gives the rules the priorities of lines 1, 2, 3 and so on, in their order.
    ///
    /// After that there is room between any two again. Ids stay. A set of more rules than there are lines keeps its
    /// priorities.
    pub fn renumber(&mut self) {
        if u32::try_from(self.order.len()).is_err() {
            return;
        }
        let slots = std::mem::take(&mut self.order).into_values();
        self.order = (1u32..).map(Priority::of_line).zip(slots).collect();
        for (&priority, &slot) in &self.order {
            if let Slot::Live(rule) = &mut self.slots[slot as usize] {
                rule.spec.priority = priority;
            }
        }
    }

    /// Gives back memory that insertions in a row leave unused, like those of a rule file.
    pub fn shrink_to_fit(&mut self) {
        self.slots.shrink_to_fit();
        self.free.shrink_to_fit();
        // A map that is collected has full nodes; one that grew at its end has half-full nodes.
        self.order = std::mem::take(&mut self.order).into_iter().collect();
    }

    fn check(&self, spec: &RuleSpec) -> Result<(), UpdateError> {
        let bad = |what: String| Err(UpdateError::bad_rule(what));
        if let Some(family) = spec.family
            && self.schema(Some(family)).is_none()
        {
            return bad(format!("it is confined to {}, which this set has not", family.pretty()));
        }
        self.check_binding(&spec.conditions)?;
        let mut seen = 0u64;
        for condition in spec.conditions.iter() {
            let field = &self.schemas[0].fields()[condition.field];
            if seen & 1 << condition.field != 0 {
                return bad(format!("there are two conditions on {}", field.name()));
            }
            seen |= 1 << condition.field;
            if condition.count() == 0 {
                return bad(format!("the condition on {} has no test", field.name()));
            }
            if condition.tests_live_sets() {
                self.check_live_sets(condition)?;
            }
            for (family, test) in condition.tests() {
                self.check_test(condition, family, test)?;
            }
        }
        Ok(())
    }

    /// Checks that a condition with live sets is on addresses, and that its other tests are intervals.
    fn check_live_sets(&self, condition: ConditionRef<'_>) -> Result<(), UpdateError> {
        for schema in &self.schemas {
            let field = &schema.fields()[condition.field];
            if !schema.has_addresses(condition.field) {
                let what = format!("{} is no address, and live sets have addresses", field.name());
                return Err(UpdateError::bad_rule(what));
            }
        }
        for (family, test) in condition.tests() {
            match test {
                Test::Set(id) if self.live_sets.get(id).is_none() => return Err(UpdateError::no_set(id)),
                Test::Set(_) if family.is_some() => {
                    return Err(UpdateError::bad_rule("a live set is for both families".to_owned()));
                }
                Test::Mask { .. } => {
                    return Err(UpdateError::bad_rule("a value under a mask stands beside a live set".to_owned()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_test(&self, condition: ConditionRef<'_>, family: Option<Family>, test: Test) -> Result<(), UpdateError> {
        let mut fits = self.schemas.iter().filter(|s| family.is_none() || s.family() == family).peekable();
        if fits.peek().is_none() {
            let (field, family) =
                (self.schemas[0].fields()[condition.field].name(), family.map_or("no family", Family::pretty));
            return Err(UpdateError::bad_rule(format!("the test of {field} is for {family}, which this set has not")));
        }
        for schema in fits {
            let field = &schema.fields()[condition.field];
            let max = field.max();
            let ok = match test {
                Test::Value(value) => value <= max,
                Test::Prefix { value, len } => {
                    len <= field.width() && value <= max && value & max.checked_shr(len).unwrap_or(0) == 0
                }
                Test::Range { lo, hi } => lo <= hi && hi <= max,
                Test::Mask { value, mask } => mask <= max && value & !mask == 0,
                Test::Absent if !field.is_optional() => {
                    return Err(UpdateError::bad_rule(format!(
                        "{} is never absent: every packet has it",
                        field.name()
                    )));
                }
                Test::Absent | Test::Set(_) => true,
            };
            if !ok {
                let what = format!("{test:?} does not fit {} of {} bits", field.name(), field.width());
                return Err(UpdateError::bad_rule(what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
