//! Rules in service as they were listed last, their counts and their rates.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firstmatch::core::live::Count;
use firstmatch::{Firewall, ListedRule, RuleId};

/// Minimum time over which rates are taken.
const SPAN: Duration = Duration::from_millis(900);

/// Rules in order, and which of them have metrics of their own.
#[derive(Debug)]
pub(super) struct RuleList {
    pub(super) rules: Vec<ListedRule>,
    /// By rule. A rule that has metrics of its own keeps them, and one that has none gets none, so that no sum of the
    /// others falls.
    pub(super) has_metrics: Vec<bool>,
}

impl RuleList {
    /// Gives metrics of their own to rules that had them, and to the first of those that were not in the list `before`,
    /// to at most `limit` rules in all.
    pub(super) fn new(rules: Vec<ListedRule>, before: Option<&Self>, limit: usize) -> Self {
        let known = before.map_or_else(HashMap::new, |before| {
            let ids = before.rules.iter().map(|rule| rule.id);
            ids.zip(before.has_metrics.iter().copied()).collect::<HashMap<RuleId, bool>>()
        });
        let had = rules.iter().filter(|rule| known.get(&rule.id) == Some(&true)).count();
        let mut room = limit.saturating_sub(had);
        let has = |rule: &ListedRule| match known.get(&rule.id) {
            Some(&had) => had,
            None => room.checked_sub(1).inspect(|less| room = *less).is_some(),
        };
        Self { has_metrics: rules.iter().map(has).collect(), rules }
    }

    /// Returns the counts of all rules, in order.
    pub(super) fn counts(&self, firewall: &Firewall) -> Vec<Count> {
        self.rules.iter().map(|rule| firewall.count(rule.id).unwrap_or_default()).collect()
    }
}

/// Counts of rules at two times.
#[derive(Debug)]
pub(super) struct Rates {
    at: Instant,
    pub(super) rules: Arc<RuleList>,
    /// By rule.
    pub(super) counts: Vec<Count>,
    /// Packets a second, by rule.
    pub(super) rates: Vec<f64>,
}

impl Rates {
    /// Returns rates of rules that have just begun to count.
    pub(super) fn new(rules: Arc<RuleList>) -> Self {
        let len = rules.rules.len();
        Self { at: Instant::now(), rules, counts: vec![Count::default(); len], rates: vec![0.0; len] }
    }

    /// Takes the counts of now, unless the last ones are younger than [`SPAN`] and of the same rules.
    pub(super) fn refresh(&mut self, rules: &Arc<RuleList>, firewall: &Firewall) {
        let (is_same, now) = (Arc::ptr_eq(&self.rules, rules), Instant::now());
        let seconds = now.duration_since(self.at).as_secs_f64();
        if is_same && now.duration_since(self.at) < SPAN {
            return;
        }
        let counts = rules.counts(firewall);
        if !is_same {
            let ids = self.rules.rules.iter().map(|rule| rule.id);
            let known: HashMap<RuleId, Count> = ids.zip(self.counts.iter().copied()).collect();
            self.counts = rules.rules.iter().map(|rule| known.get(&rule.id).copied().unwrap_or_default()).collect();
        }
        let rate = |(now, before): (&Count, &Count)| {
            now.packets.saturating_sub(before.packets) as f64 / seconds.max(f64::EPSILON)
        };
        self.rates = counts.iter().zip(&self.counts).map(rate).collect();
        (self.at, self.counts, self.rules) = (now, counts, Arc::clone(rules));
    }

    /// Returns the places of the `top` busiest rules: by rate, then by packets, then in order.
    pub(super) fn busiest(&self, top: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.rates.len()).filter(|&at| self.counts[at].packets > 0).collect();
        let order = |&one: &usize, &other: &usize| {
            let key = |at: usize| (self.rates[at], self.counts[at].packets);
            let ((rate, packets), (other_rate, other_packets)) = (key(one), key(other));
            other_rate.total_cmp(&rate).then(other_packets.cmp(&packets)).then(one.cmp(&other))
        };
        if top < places.len() {
            places.select_nth_unstable_by(top, order);
            places.truncate(top);
        }
        places.sort_unstable_by(order);
        places
    }
}
