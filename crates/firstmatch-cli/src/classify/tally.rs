//! Counters of packets by outcome and by rule.

use firstmatch::Decision;
use firstmatch_core::cache::rule;
use firstmatch_core::rule::RuleId;
use firstmatch_net::wire::{Outcome, Record};

/// Number of packets and of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets of flows, where each flow counts as one of `packets`.
    pub(super) in_flows: u64,
}

impl Count {
    pub(super) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.in_flows += other.in_flows;
    }
}

#[derive(Debug)]
pub(super) struct Tally {
    pub(super) outcomes: [Count; Outcome::ALL.len()],
    /// Classified packets that no rule matched.
    pub(super) unmatched: Count,
    /// Packets by the slot of the rule that matched.
    hits: Vec<Count>,
    /// Counts of rule caches, if there are any.
    pub(super) rule_cache: rule::Counts,
}

impl Tally {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            outcomes: Default::default(),
            unmatched: Count::default(),
            hits: vec![Count::default(); slots],
            rule_cache: rule::Counts::default(),
        }
    }

    /// Counts a packet, which stands for `one`.
    #[inline]
    pub(super) fn add(&mut self, record: &Record, decision: &Decision, one: Count) {
        self.outcomes[record.outcome.index()].add(one);
        match decision.rule {
            Some(rule) => self.hits[rule.slot()].add(one),
            None if record.outcome.is_classified() => self.unmatched.add(one),
            None => {}
        }
    }

    /// Adds the counts of another thread, over the same rules.
    pub(super) fn add_all(&mut self, other: &Self) {
        let counts = |all: &mut [Count], more: &[Count]| {
            all.iter_mut().zip(more).for_each(|(count, more)| count.add(*more));
        };
        counts(&mut self.outcomes, &other.outcomes);
        counts(&mut self.hits, &other.hits);
        self.unmatched.add(other.unmatched);
        self.rule_cache.add(&other.rule_cache);
    }

    pub(super) fn of_rule(&self, rule: RuleId) -> Count {
        self.hits[rule.slot()]
    }

    pub(super) fn all(&self) -> Count {
        sum(self.outcomes.iter())
    }

    pub(super) fn matched(&self) -> Count {
        sum(self.hits.iter())
    }

    /// Returns the packets that could not be classified.
    pub(super) fn unknown(&self) -> Count {
        sum(self
            .outcomes
            .iter()
            .zip(Outcome::ALL)
            .filter(|(_, outcome)| !outcome.is_classified())
            .map(|(count, _)| count))
    }
}

fn sum<'c>(counts: impl Iterator<Item = &'c Count>) -> Count {
    counts.fold(Count::default(), |mut all, count| {
        all.add(*count);
        all
    })
}
