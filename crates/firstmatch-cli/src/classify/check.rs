//! `--check`: compares the engine's answers with the oracle's.

use std::panic::resume_unwind;
use std::thread;

use firstmatch_core::rule::{RuleId, RuleSet, first_match};
use firstmatch_net::wire::Batch;

use super::stretch::{Packet, Stretch};
use crate::args::Check;
use crate::diagnostics;
use crate::format::{clip, counted};
use crate::rules::Loaded;

/// Maximum number of differences that are shown.
const SHOWN: usize = 10;
/// Minimum number of packets that are worth a thread of their own.
const WORTH: usize = 64;
const THREADS: usize = 2;

/// Comparison of the engine's answers with the oracle's.
///
/// It compares all packets as they come, or at the end a sample from all over the input.
#[derive(Debug)]
pub(super) struct Checker {
    mode: Check,
    samples: Vec<Sample>,
    /// Number of classified packets offered so far.
    seen: u64,
    /// One packet in this many is kept.
    every: u64,
    pub(super) checked: u64,
    pub(super) different: u64,
    differences: Vec<Difference>,
}

#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) number: u64,
    pub(super) packet: Packet,
    pub(super) answer: Option<RuleId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Difference {
    number: u64,
    engine: Option<RuleId>,
    oracle: Option<RuleId>,
}

impl Checker {
    pub(super) fn new(mode: Check) -> Self {
        Self { mode, samples: Vec::new(), seen: 0, every: 1, checked: 0, different: 0, differences: Vec::new() }
    }

    /// Takes the packets of a stretch that are to be checked.
    pub(super) fn offer(&mut self, stretch: &Stretch) {
        for at in stretch.classified() {
            let number = stretch.first + at as u64;
            self.offer_one(Sample { number, packet: stretch.packets[at].clone(), answer: stretch.decisions[at].rule });
        }
    }

    pub(super) fn offer_one(&mut self, sample: Sample) {
        let wanted = self.seen.is_multiple_of(self.every);
        self.seen += 1;
        if !wanted {
            return;
        }
        self.samples.push(sample);
        // The number of packets to come is unknown. When twice the sample is kept, every second packet is dropped. For
        // example, a sample of 100 keeps every packet up to the 200th, every second one up to the 400th, then every
        // fourth.
        if let Check::Sample(count) = self.mode
            && self.samples.len() >= 2 * count
        {
            let mut even = false;
            self.samples.retain(|_| {
                even = !even;
                even
            });
            self.every *= 2;
        }
    }

    /// Compares the packets offered, if all are to be compared.
    pub(super) fn compare_all(&mut self, rules: &RuleSet, batch: &Batch) {
        if self.mode == Check::All {
            let samples = std::mem::take(&mut self.samples);
            self.compare(rules, batch, &samples);
            self.samples = samples;
            self.samples.clear();
        }
    }

    /// Compares the sample, if one was asked for.
    pub(super) fn compare_sample(&mut self, rules: &RuleSet, batch: &Batch) {
        if let Check::Sample(count) = self.mode {
            let kept = std::mem::take(&mut self.samples);
            let count = count.min(kept.len());
            let spread: Vec<_> = (0..count).map(|i| kept[i * kept.len() / count].clone()).collect();
            self.compare(rules, batch, &spread);
        }
    }

    pub(super) fn compare(&mut self, rules: &RuleSet, batch: &Batch, samples: &[Sample]) {
        let part = |samples: &[Sample]| -> Vec<Difference> {
            samples.iter().filter_map(|sample| difference(rules, batch, sample)).collect()
        };
        let found: Vec<Difference> = if samples.len() < THREADS * WORTH {
            part(samples)
        } else {
            thread::scope(|scope| {
                let chunks = samples.chunks(samples.len().div_ceil(THREADS));
                let running: Vec<_> = chunks.map(|chunk| scope.spawn(|| part(chunk))).collect();
                running
                    .into_iter()
                    .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                    .collect()
            })
        };
        self.checked += samples.len() as u64;
        self.different += found.len() as u64;
        self.differences.extend(found.into_iter().take(SHOWN.saturating_sub(self.differences.len())));
    }

    /// Returns the numbers of the packets whose differences are shown.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.differences.iter().map(|difference| difference.number).collect()
    }

    /// Shows the differences on standard error.
    pub(super) fn show(&self, loaded: &Loaded) {
        let describe = |answer: Option<RuleId>| match answer.map(|id| loaded.rule(id)) {
            None => "no rule".to_owned(),
            Some(None) => "a rule that is not there".to_owned(),
            Some(Some(rule)) => format!("{}: {}", loaded.place(rule), clip(&loaded.text_of(rule), 100)),
        };
        for difference in &self.differences {
            let (engine, oracle) = (describe(difference.engine), describe(difference.oracle));
            let number = difference.number;
            diagnostics::error(&format!(
                "packet {number} is classified wrongly\n  engine: {engine}\n  oracle: {oracle}"
            ));
        }
        if self.different > self.differences.len() as u64 {
            diagnostics::error(&format!("{} differ in all", counted(self.different, "packet")));
        }
    }
}

fn difference(rules: &RuleSet, batch: &Batch, sample: &Sample) -> Option<Difference> {
    let oracle = sample.packet.values(batch).and_then(|values| first_match(rules, &values)).map(|rule| rule.id);
    let Sample { number, answer: engine, .. } = *sample;
    (oracle != engine).then_some(Difference { number, engine, oracle })
}
