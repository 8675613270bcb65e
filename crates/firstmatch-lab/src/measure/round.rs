//! Rounds: the keys of a workload in an order of their own, with the right answers.

use firstmatch_core::{KeyBuf, Keys, Match, Schema};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::Pace;
use crate::workload::{Frames, Workload};

/// Way to look up, timed in a cell of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cell {
    /// In batches of this many keys.
    Batch(usize),
    /// One by one, where each answer chooses the next key.
    Dependent,
    /// From frames in memory to answers by frame, in batches of this many.
    Frames(usize),
}

/// Least number of keys of a round.
///
/// A shorter trace is repeated in several orders, because the branch predictor would learn one order.
const LEARNT: usize = 100_000;

/// Keys of one round, in an order of its own; a trace in order only starts elsewhere.
pub(crate) struct Round {
    keys: KeyBuf,
    right: Vec<Option<Match>>,
    /// Frames of these keys, if there are any.
    frames: Option<Frames>,
    /// Keys and answers for `limit`, if it takes part.
    limit: Option<(KeyBuf, Vec<Option<Match>>)>,
}

impl Round {
    pub(crate) fn new(
        work: &Workload,
        right: &[Option<Match>],
        limit: Option<(&KeyBuf, &[Option<Match>])>,
        pace: &Pace,
        random: &mut Pcg64,
    ) -> Self {
        let mut order: Vec<usize> = Vec::new();
        while order.is_empty() || (order.len() < LEARNT && !pace.brief) {
            let mut again: Vec<usize> = (0..work.keys.len()).collect();
            match work.in_order {
                true => again.rotate_left(random.random_range(0..work.keys.len())),
                false => again.shuffle(random),
            }
            order.extend(again);
        }
        let in_order = |keys: &KeyBuf, right: &[Option<Match>]| {
            let mut out = KeyBuf::new(keys.schema());
            out.reserve(order.len());
            order.iter().for_each(|&row| out.push().copy_from_slice(keys.keys().row(row)));
            (out, order.iter().map(|&row| right[row]).collect::<Vec<_>>())
        };
        let (keys, right) = in_order(&work.keys, right);
        let frames = work.frames.as_ref().map(|frames| {
            let all = order.iter().map(|&row| frames.all[row]).collect();
            Frames { all, config: frames.config }
        });
        Self { keys, right, frames, limit: limit.map(|(keys, right)| in_order(keys, right)) }
    }

    /// Returns the keys with the right answers: those of the trace, or those of `limit`.
    pub(crate) fn of(&self, limit: bool) -> (Keys<'_>, &[Option<Match>]) {
        match &self.limit {
            Some((keys, right)) if limit => (keys.keys(), right),
            _ => (self.keys.keys(), &self.right),
        }
    }

    pub(crate) fn schema(&self) -> &Schema {
        self.keys.schema()
    }

    /// Returns the frames of the keys, in the same order.
    pub(crate) fn frames(&self) -> Option<&Frames> {
        self.frames.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.right.len()
    }
}
