//! Lookups of one thread in the rules, with the time that they take.

use std::hint::black_box;

use firstmatch::{Decision, Firewall, Worker};
use firstmatch_core::cache::rule;
use firstmatch_net::wire::{Batch, Record};

use super::timing::{STRETCH, Streamed, cpu_time};
use crate::engines;

/// Reason why batches have the fields of the rules.
const NOT_RELOADED: &str = "this command does not reload rules";

/// Rules in service, and a worker for one thread.
pub(super) struct Lookups {
    firewall: Firewall,
    worker: Worker,
    at_once: usize,
}

impl Lookups {
    /// Returns lookups of at most `at_once` packets each.
    pub(super) fn new(firewall: Firewall, at_once: usize) -> Self {
        Self { worker: firewall.worker().packets_per_lookup(at_once), firewall, at_once }
    }

    /// Returns a function that makes such lookups for other threads.
    pub(super) fn maker(&self) -> impl Fn() -> Self + Send + Sync + 'static {
        let (firewall, at_once) = (self.firewall.clone(), self.at_once);
        move || Self::new(firewall.clone(), at_once)
    }

    pub(super) fn firewall(&self) -> &Firewall {
        &self.firewall
    }

    /// Returns the counts of the rule caches, if there are any.
    pub(super) fn rule_cache_counts(&self) -> rule::Counts {
        let mut all = rule::Counts::default();
        self.worker.front_scratches().flatten().for_each(|scratch| all.add(&engines::rule_cache_counts(scratch)));
        all
    }

    /// Decides every packet of a batch, passes on the decisions, and adds the time that this takes.
    pub(super) fn decide(&mut self, batch: &Batch, timing: &mut Streamed, each: impl FnMut(&Record, Decision)) {
        let start = cpu_time();
        self.worker.classify_batch(batch, each).expect(NOT_RELOADED);
        timing.add(classified(batch), start);
    }

    /// Decides a short batch repeatedly, until all rounds together can be timed.
    pub(super) fn replay(&mut self, batch: &Batch, timing: &mut Streamed) {
        let once = classified(batch);
        if once == 0 {
            return;
        }
        let times = STRETCH.div_ceil(once);
        let start = cpu_time();
        for _ in 0..times {
            let decided = self.worker.classify_batch(batch, |_, decision| _ = black_box(decision.verdict));
            decided.expect(NOT_RELOADED);
        }
        timing.add(once * times, start);
    }
}

/// Returns the number of packets of a batch that are looked up.
fn classified(batch: &Batch) -> usize {
    (0..batch.schemas()).map(|schema| batch.packets(schema).len()).sum()
}
