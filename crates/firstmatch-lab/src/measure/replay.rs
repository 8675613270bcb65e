//! Timed loops: passes of one thread over keys.

use std::time::Instant;

use firstmatch_core::{Classifier, Keys, Match, Schema, Scratch};
use firstmatch_net::wire::{self, Batch, LinkType};

use crate::clock::{Taken, timed};
use crate::workload::FRAME;

/// One thread's keys, in the form that its engine takes, and the buffer for the answers.
pub(crate) trait Replay {
    /// Looks up the keys `from..to`.
    fn classify(&mut self, from: usize, to: usize);

    /// Returns one bit of the answer to the key at `at`, for [`Run::dependent`].
    fn bit(&self, at: usize) -> usize;
}

/// Passes over the first keys of a replay.
///
/// The trait is object safe and is compiled for each kind of replay. A pass is therefore one virtual call, and its
/// lookups are none.
pub(crate) trait Run {
    /// Looks up all keys in batches; the keys of a batch are known from its start.
    fn batched(&mut self, keys: usize, batch: usize) -> Taken;

    /// Makes `keys` lookups, one by one, where each answer chooses between the two next keys.
    ///
    /// For example, after the key at 5 comes the key at 6 or 7, by the lowest bit of the rule's slot.
    fn dependent(&mut self, keys: usize) -> Taken;

    /// Returns the wall time of each batch in nanoseconds, with one reading of the clock; sorted.
    fn latencies(&mut self, keys: usize, batch: usize) -> Vec<f64>;
}

/// Replay of any classifier over rows of keys.
pub(crate) struct Rows<'a> {
    classifier: &'a dyn Classifier,
    scratch: Scratch,
    keys: Keys<'a>,
    pub(crate) answers: Vec<Option<Match>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(classifier: &'a dyn Classifier, keys: Keys<'a>) -> Self {
        Self { classifier, scratch: classifier.scratch(), keys, answers: vec![None; keys.len()] }
    }
}

impl Replay for Rows<'_> {
    #[inline(always)]
    fn classify(&mut self, from: usize, to: usize) {
        let keys = self.keys.slice(from, to);
        self.classifier.classify_batch(&mut self.scratch, keys, &mut self.answers[from..to]);
    }

    #[inline(always)]
    fn bit(&self, at: usize) -> usize {
        bit(&self.answers[at])
    }
}

/// Replay of any classifier over frames in memory, as in a program that uses `firstmatch-net`.
///
/// A batch of frames is parsed into rows, the rows are looked up, and the answers are put in the order of the
/// frames.
pub(crate) struct FromFrames<'a> {
    classifier: &'a dyn Classifier,
    scratch: Scratch,
    batch: Batch,
    frames: &'a [[u8; FRAME]],
    /// Answers of a batch by row, where not every frame has one.
    by_row: Vec<Option<Match>>,
    pub(crate) answers: Vec<Option<Match>>,
}

impl<'a> FromFrames<'a> {
    pub(crate) fn new(
        classifier: &'a dyn Classifier,
        schema: &Schema,
        frames: &'a [[u8; FRAME]],
        config: &wire::Config,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            classifier,
            scratch: classifier.scratch(),
            batch: Batch::new(config, std::slice::from_ref(schema))?,
            frames,
            by_row: Vec::new(),
            answers: vec![None; frames.len()],
        })
    }
}

impl Replay for FromFrames<'_> {
    #[inline(always)]
    fn classify(&mut self, from: usize, to: usize) {
        self.batch.clear();
        self.batch.push_frames(LinkType::Ethernet, &self.frames[from..to]);
        let Self { classifier, scratch, batch, by_row, answers, .. } = self;
        let classify = |keys: Keys<'_>, found: &mut [Option<Match>]| classifier.classify_batch(scratch, keys, found);
        batch.look_up(0, by_row, &mut answers[from..to], classify);
    }

    #[inline(always)]
    fn bit(&self, at: usize) -> usize {
        bit(&self.answers[at])
    }
}

/// Returns the lowest bit of the rule's slot; 0 if no rule matches.
fn bit(answer: &Option<Match>) -> usize {
    answer.map_or(0, |found| found.rule.slot() & 1)
}

impl<L: Replay> Run for L {
    fn batched(&mut self, keys: usize, batch: usize) -> Taken {
        let pass = || {
            for from in (0..keys).step_by(batch) {
                self.classify(from, keys.min(from + batch));
            }
        };
        timed(pass).1
    }

    fn dependent(&mut self, keys: usize) -> Taken {
        let pass = || {
            let mut at = 0;
            for _ in 0..keys {
                self.classify(at, at + 1);
                at = next(at, self.bit(at), keys);
            }
        };
        timed(pass).1
    }

    fn latencies(&mut self, keys: usize, batch: usize) -> Vec<f64> {
        let mut nanos = Vec::with_capacity(keys.div_ceil(batch));
        for from in (0..keys).step_by(batch) {
            let start = Instant::now();
            self.classify(from, keys.min(from + batch));
            nanos.push(start.elapsed().as_nanos() as f64);
        }
        // The last batch may be shorter, so it is left out.
        if !keys.is_multiple_of(batch) && nanos.len() > 1 {
            nanos.pop();
        }
        nanos.sort_unstable_by(f64::total_cmp);
        nanos
    }
}

#[inline(always)]
fn next(at: usize, bit: usize, keys: usize) -> usize {
    let next = at + 1 + bit;
    if next >= keys { next - keys } else { next }
}

/// Iterates over the keys that [`Run::dependent`] looks up, given their answers.
pub(crate) fn path(answers: &[Option<Match>], keys: usize) -> impl Iterator<Item = usize> {
    let mut at = 0;
    (0..keys).map(move |_| {
        let here = at;
        at = next(at, bit(&answers[at]), keys);
        here
    })
}

/// Returns the least of the sorted values that at least `share` of them do not exceed.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1).min(last)).copied().unwrap_or(0.0)
}
