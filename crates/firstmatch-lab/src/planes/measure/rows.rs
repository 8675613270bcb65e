//! Messages of planes: ranges of packets in memory, with buffers that come back.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use firstmatch_core::{KeyBuf, Match};
use firstmatch_net::plane::Message;
use firstmatch_net::systems::{LookupMessage, LookupView};

/// Packets of a range, with their answers so far.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Number of the message, from 0. Workers take turns by it.
    pub(super) number: u64,
    pub(super) rows: Range<usize>,
    pub(super) buffers: Buffers,
    /// Index of the slot that the buffers are from, if they are from one.
    slot: Option<usize>,
}

/// Buffers of a message.
#[derive(Debug)]
pub(super) struct Buffers {
    /// All packets in memory.
    keys: Arc<KeyBuf>,
    /// Best match of each packet so far.
    pub(super) best: Vec<Option<Match>>,
    /// Words that steps pass on.
    words: Vec<u64>,
}

impl Buffers {
    fn new(keys: &Arc<KeyBuf>) -> Self {
        Self { keys: Arc::clone(keys), best: Vec::new(), words: Vec::new() }
    }
}

/// Slots for the buffers of one source's messages, empty while a message has them.
///
/// Each slot has a lock of its own, because one lock for all would make the workers of the last stage wait for one
/// another and for the source. The buffers of a message that a ring drops are lost, and new ones take their place.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    keys: Arc<KeyBuf>,
    /// Number of 64-bit words of a packet that steps pass on.
    width: usize,
}

#[derive(Debug)]
#[repr(align(128))]
struct Slot(Mutex<Option<Buffers>>);

impl Slots {
    /// Makes `count` slots, which should be as many as there may be messages at once.
    pub(super) fn new(count: usize, keys: &Arc<KeyBuf>, width: usize) -> Self {
        let slots = (0..count).map(|_| Slot(Mutex::new(Some(Buffers::new(keys))))).collect();
        Self { slots, keys: Arc::clone(keys), width }
    }

    /// Makes a message without answers.
    ///
    /// Slots are looked for from `next` on, which moves behind the slot that was found.
    pub(super) fn rows(&self, next: &mut usize, number: u64, rows: Range<usize>) -> Rows {
        let mut turn = (*next..self.slots.len()).chain(0..*next);
        let slot = turn.find_map(|at| Some((at, self.slots[at].0.try_lock().ok()?.take()?)));
        let (slot, mut buffers) = slot.map_or((None, Buffers::new(&self.keys)), |(at, buffers)| (Some(at), buffers));
        *next = slot.map_or(0, |at| (at + 1) % self.slots.len());
        buffers.best.clear();
        buffers.best.resize(rows.len(), None);
        buffers.words.resize(rows.len() * self.width, 0);
        Rows { number, rows, buffers, slot }
    }

    /// Takes the buffers of a message back.
    pub(super) fn give_back(&self, rows: Rows) {
        if let Some(slot) = rows.slot {
            *self.slots[slot].0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rows.buffers);
        }
    }
}

impl Message for Rows {
    fn packets(&self) -> usize {
        self.rows.len()
    }

    fn flow(&self) -> u64 {
        self.number
    }
}

impl LookupMessage for Rows {
    fn view(&mut self) -> LookupView<'_> {
        let Buffers { keys, best, words } = &mut self.buffers;
        LookupView { keys: keys.keys().slice(self.rows.start, self.rows.end), best, words }
    }
}

#[cfg(test)]
mod tests {
    use firstmatch_core::Schema;
    use firstmatch_core::rule::{Priority, RuleId};

    use super::*;

    #[test]
    fn buffers_come_back_to_their_slots() {
        let mut keys = KeyBuf::new(&Schema::ipv4());
        (0..7).for_each(|number| keys.push()[0] = number);
        let (slots, mut next) = (Slots::new(2, &Arc::new(keys), 2), 0);
        let mut first = slots.rows(&mut next, 0, 0..3);
        assert_eq!((first.buffers.best.len(), first.buffers.words.len(), first.slot), (3, 6, Some(0)));
        let mut second = slots.rows(&mut next, 1, 3..5);
        assert_eq!((second.view().keys.row(0)[0], second.view().keys.len()), (3, 2));
        first.buffers.best[0] =
            Some(Match { rule: RuleId::from_u64(1).expect("an id"), priority: Priority::of_line(1) });
        let beyond = slots.rows(&mut next, 2, 5..6);
        assert_eq!((second.slot, beyond.slot), (Some(1), None));
        let place = first.buffers.words.as_ptr();
        slots.give_back(first);
        slots.give_back(beyond);
        let third = slots.rows(&mut next, 3, 6..7);
        assert_eq!((third.slot, third.buffers.words.as_ptr()), (Some(0), place), "the same memory");
        assert_eq!(third.buffers.best, [None], "nothing of the former message");
    }
}
