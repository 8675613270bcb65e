//! Messages of packets that lie in memory, for runs of a system over all of them.

use std::thread;

use firstmatch_core::{KeyBuf, Match};

use super::step::{LookupMessage, LookupView};
use super::storm::SplitMessage;
use crate::plane::{Message, Plane, PlaneError};

/// Packets with keys of their own, and their answers so far.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Number by which messages are dealt out: of a flow, or of the message.
    pub flow: u64,
    /// Key of each packet.
    pub keys: KeyBuf,
    /// Number of the packet of each row.
    pub numbers: Vec<u32>,
    /// Best match of each row so far.
    pub best: Vec<Option<Match>>,
    /// Words that steps pass on, as many for each row.
    pub words: Vec<u64>,
}

impl Rows {
    /// Returns packets as messages of at most `batch` packets, with `width` words for each.
    ///
    /// # Panics
    /// If `batch` is 0.
    pub fn of(keys: &KeyBuf, batch: usize, width: usize) -> Vec<Self> {
        let rows = |(flow, from): (u64, usize)| {
            let to = keys.len().min(from + batch);
            let mut own = KeyBuf::new(keys.schema());
            own.push_rows(to - from).copy_from_slice(keys.keys().slice(from, to).words());
            let (best, words) = (vec![None; to - from], vec![0; (to - from) * width]);
            Self { flow, keys: own, numbers: (from as u32..to as u32).collect(), best, words }
        };
        (0..).zip((0..keys.len()).step_by(batch)).map(rows).collect()
    }

    /// Sends messages through a running plane from a thread of its own, and returns the answers of all packets once
    /// they have come back. Packets are numbered from 0 on.
    ///
    /// # Errors
    /// The fault of the plane if it ended before, or `None` if it was stopped.
    pub fn carry(plane: &Plane<Self>, messages: Vec<Self>) -> Result<Vec<Option<Match>>, Option<PlaneError>> {
        let packets = messages.iter().map(Message::packets).sum();
        let (mut answers, mut came) = (vec![None; packets], 0);
        thread::scope(|scope| {
            scope.spawn(|| messages.into_iter().all(|message| plane.send(message).is_ok()));
            while came < packets {
                let Some(rows) = plane.recv() else { break };
                rows.numbers.iter().zip(&rows.best).for_each(|(&number, best)| answers[number as usize] = *best);
                came += rows.numbers.len();
            }
        });
        match plane.fault() {
            None if came == packets => Ok(answers),
            fault => Err(fault),
        }
    }
}

impl Message for Rows {
    fn packets(&self) -> usize {
        self.numbers.len()
    }

    fn flow(&self) -> u64 {
        self.flow
    }
}

impl LookupMessage for Rows {
    fn view(&mut self) -> LookupView<'_> {
        LookupView { keys: self.keys.keys(), best: &mut self.best, words: &mut self.words }
    }
}

/// Packets that are divided lose their words.
impl SplitMessage for Rows {
    fn empty(&self) -> Self {
        let keys = KeyBuf::new(self.keys.schema());
        Self { flow: self.flow, keys, numbers: Vec::new(), best: Vec::new(), words: Vec::new() }
    }

    fn split_off(&mut self, indices: &[u32], into: &mut Self) {
        let (stride, mut next, mut left) = (self.keys.stride(), 0, 0);
        for at in 0..self.numbers.len() {
            if indices.get(next) == Some(&(at as u32)) {
                into.keys.push().copy_from_slice(self.keys.keys().row(at));
                into.numbers.push(self.numbers[at]);
                into.best.push(self.best[at]);
                next += 1;
            } else {
                // Packets that stay close ranks.
                if next > 0 {
                    self.keys.words_mut().copy_within(at * stride..(at + 1) * stride, left * stride);
                    (self.numbers[left], self.best[left]) = (self.numbers[at], self.best[at]);
                }
                left += 1;
            }
        }
        self.keys.truncate(left);
        self.numbers.truncate(left);
        self.best.truncate(left);
        self.words.clear();
    }
}

#[cfg(test)]
mod tests {
    use firstmatch_core::Schema;

    use super::*;

    #[test]
    fn packets_are_divided_in_order() {
        let mut keys = KeyBuf::new(&Schema::ipv4());
        (0..7).for_each(|number| keys.push()[0] = 10 + number);
        let mut messages = Rows::of(&keys, 5, 2);
        assert_eq!((messages.len(), messages[1].numbers.len(), messages[0].words.len()), (2, 2, 10));
        for (indices, stay) in [(&[1, 2, 4][..], &[0, 3][..]), (&[], &[0, 1, 2, 3, 4]), (&[0, 1, 2, 3, 4], &[])] {
            let mut whole = messages[0].clone();
            let mut off = whole.empty();
            whole.split_off(indices, &mut off);
            assert_eq!((&*whole.numbers, &*off.numbers), (stay, indices));
            for rows in [&mut whole, &mut off] {
                let numbers: Vec<u32> = (0..rows.keys.len()).map(|row| rows.keys.keys().row(row)[0] - 10).collect();
                assert_eq!((numbers, rows.best.len()), (rows.numbers.clone(), rows.numbers.len()));
            }
        }
        assert_eq!(messages[0].view().best.len(), 5);
    }
}
