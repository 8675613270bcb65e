//! Every id that a writer ever committed, to see that none is given again.

use std::collections::BTreeSet;

use firstmatch_core::rule::{RuleId, RuleSet};

/// Ids of committed rules, live and removed.
#[derive(Default)]
pub struct Ids {
    live: BTreeSet<RuleId>,
    removed: BTreeSet<RuleId>,
}

impl Ids {
    /// Takes the rules after a commit, and returns the ids that are new.
    ///
    /// # Panics
    /// If the id of a removed rule is live again.
    pub fn see(&mut self, rules: &RuleSet) -> Vec<RuleId> {
        let live: BTreeSet<RuleId> = rules.iter().map(|rule| rule.id).collect();
        self.removed.extend(self.live.difference(&live));
        let again: Vec<&RuleId> = live.intersection(&self.removed).collect();
        assert!(again.is_empty(), "ids of removed rules are live again: {again:?}");
        let new = live.difference(&self.live).copied().collect();
        self.live = live;
        new
    }

    /// Takes the id that a transaction gives to a rule.
    ///
    /// # Panics
    /// If another rule was committed with this id.
    pub fn give(&self, id: RuleId) {
        assert!(!self.live.contains(&id) && !self.removed.contains(&id), "{id} is given to another rule");
    }

    /// Returns the ids of removed rules.
    pub fn removed(&self) -> impl Iterator<Item = RuleId> {
        self.removed.iter().copied()
    }
}
