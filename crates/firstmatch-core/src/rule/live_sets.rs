//! Live sets of a rule set, and what they mean at one moment.

use std::sync::Arc;

use super::condition::{Condition, Test};
use super::conditions::{ConditionRef, Conditions};
use super::id::SetId;
use super::member::{LiveSet, Member};
use super::spec::RuleSpec;
use crate::error::UpdateError;
use crate::schema::{Family, Schema};

/// Test that no address passes, although the condition is for its family.
pub(super) const NONE: Test = Test::Range { lo: 1, hi: 0 };

/// Live sets by number.
///
/// A clone shares the members until one of both changes them.
#[derive(Clone, Debug, Default)]
pub struct LiveSets {
    sets: Vec<Arc<LiveSet>>,
    /// Number of members of all sets.
    members: usize,
}

impl LiveSets {
    /// Number of sets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there is no set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Returns the sets with their ids, in order.
    pub fn iter(&self) -> impl Iterator<Item = (SetId, &LiveSet)> {
        (0..).map(SetId::new).zip(self.sets.iter().map(|set| &**set))
    }

    /// Returns a set; `None` for an unknown id.
    pub fn get(&self, id: SetId) -> Option<&LiveSet> {
        self.sets.get(id.index()).map(|set| &**set)
    }

    /// Returns the id of the set with a name.
    pub fn find(&self, name: &str) -> Option<SetId> {
        self.iter().find(|(_, set)| set.name() == name).map(|(id, _)| id)
    }

    /// Number of members of all sets.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Adds an empty set.
    ///
    /// # Errors
    /// If a set has the name already.
    pub fn add(&mut self, name: &str) -> Result<SetId, UpdateError> {
        if self.find(name).is_some() {
            return Err(UpdateError::bad_member(format!("there is already a set `{name}`")));
        }
        self.sets.push(Arc::new(LiveSet::new(name)));
        Ok(SetId::new((self.sets.len() - 1) as u32))
    }

    /// Undoes the change of a member, which came or went.
    pub(crate) fn undo(&mut self, id: SetId, member: Member, came: bool) {
        _ = if came { self.remove(id, member) } else { self.insert(id, member) };
    }

    /// Takes the set that was added last away again.
    pub(crate) fn undo_add(&mut self) {
        self.members -= self.sets.pop().map_or(0, |set| set.len());
    }

    /// Adds a member; returns whether it is new.
    ///
    /// # Errors
    /// If the id is unknown.
    pub fn insert(&mut self, id: SetId, member: Member) -> Result<bool, UpdateError> {
        let is_new = self.get_mut(id)?.insert(member);
        self.members += usize::from(is_new);
        Ok(is_new)
    }

    /// Removes a member; returns whether it was one.
    ///
    /// # Errors
    /// If the id is unknown.
    pub fn remove(&mut self, id: SetId, member: Member) -> Result<bool, UpdateError> {
        let was = self.get_mut(id)?.remove(member);
        self.members -= usize::from(was);
        Ok(was)
    }

    fn get_mut(&mut self, id: SetId) -> Result<&mut LiveSet, UpdateError> {
        self.sets.get_mut(id.index()).map(Arc::make_mut).ok_or_else(|| UpdateError::no_set(id))
    }

    /// Returns the sets in the order of `other`, then those that `other` lacks, with the new id of each.
    ///
    /// A set of `other` that is not here is empty.
    pub(super) fn ordered_as(&self, other: &Self) -> (Self, Vec<SetId>) {
        let of_other = other.sets.iter().map(|set| match self.find(set.name()) {
            Some(own) => Arc::clone(&self.sets[own.index()]),
            None => Arc::new(LiveSet::new(set.name())),
        });
        let new = self.sets.iter().filter(|set| other.find(set.name()).is_none()).cloned();
        let sets: Vec<_> = of_other.chain(new).collect();
        let all = Self { sets, members: self.members };
        let ids = self.sets.iter().filter_map(|set| all.find(set.name())).collect();
        (all, ids)
    }

    /// Returns the conditions with the members of now in place of sets.
    pub(super) fn resolved(&self, conditions: &Conditions, schemas: &[Schema]) -> Conditions {
        let tests = |condition: ConditionRef<'_>| {
            let mut out = Vec::new();
            for (family, test) in condition.tests() {
                let Test::Set(id) = test else {
                    out.push((family, test));
                    continue;
                };
                let Some(set) = self.get(id) else { continue };
                for family in schemas.iter().filter_map(Schema::family).filter(|&of| set.count(of) == 0) {
                    out.push((Some(family), NONE));
                }
                let has = |family: Family| schemas.iter().any(|schema| schema.family() == Some(family));
                let members = set.members().filter(|member| has(member.family()));
                out.extend(members.map(|member| (Some(member.family()), member.test())));
            }
            Condition { field: condition.field, negated: condition.negated, tests: out }
        };
        conditions.iter().map(tests).collect()
    }
}

impl RuleSpec {
    /// Whether a condition tests a live set.
    pub fn tests_live_sets(&self) -> bool {
        self.conditions.iter().any(ConditionRef::tests_live_sets)
    }
}

impl ConditionRef<'_> {
    /// Whether one of the tests is a live set.
    pub fn tests_live_sets(self) -> bool {
        self.tests().any(|(_, test)| matches!(test, Test::Set(_)))
    }
}
