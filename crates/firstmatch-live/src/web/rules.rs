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

/// Counts of rules now, and their rates since about a second ago.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) rules: Arc<RuleList>,
    /// By rule.
    pub(super) counts: Vec<Count>,
    /// Packets a second, by rule.
    pub(super) rates: Vec<f64>,
    /// Counts at two earlier times at least [`SPAN`] apart, the older first. Rates are since the younger one that is old
    /// enough.
    earlier: [(Instant, Vec<Count>); 2],
}

impl Rates {
    /// Returns rates of rules that have just begun to count.
    pub(super) fn new(rules: Arc<RuleList>) -> Self {
        let len = rules.rules.len();
        let none = vec![Count::default(); len];
        let earlier = [(Instant::now(), none.clone()), (Instant::now(), none.clone())];
        Self { rules, counts: none, rates: vec![0.0; len], earlier }
    }

    /// Takes the counts of now, by rule in the order of `rules`.
    pub(super) fn refresh(&mut self, rules: &Arc<RuleList>, counts: Vec<Count>) {
        if !Arc::ptr_eq(&self.rules, rules) {
            let ids = self.rules.rules.iter().map(|rule| rule.id);
            let places: HashMap<RuleId, usize> = ids.zip(0..).collect();
            for (_, counts) in &mut self.earlier {
                let known = |rule: &ListedRule| places.get(&rule.id).map_or_else(Count::default, |&at| counts[at]);
                *counts = rules.rules.iter().map(known).collect();
            }
            self.rules = Arc::clone(rules);
        }
        self.counts = counts;
        let now = Instant::now();
        if now.duration_since(self.earlier[1].0) >= SPAN {
            self.earlier.swap(0, 1);
            self.earlier[1] = (now, self.counts.clone());
        }
        let (at, before) = &self.earlier[0];
        let seconds = now.duration_since(*at).as_secs_f64().max(f64::EPSILON);
        let rate = |(now, before): (&Count, &Count)| now.packets.saturating_sub(before.packets) as f64 / seconds;
        self.rates = self.counts.iter().zip(before).map(rate).collect();
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
