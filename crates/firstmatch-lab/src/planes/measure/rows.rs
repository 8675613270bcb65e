//! Messages of planes: ranges of packets in memory, with buffers that come back.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use firstmatch_core::Match;
use firstmatch_net::plane::Message;

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
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Best match of each packet so far.
    pub(super) best: Vec<Option<Match>>,
    /// Bits of the regions that match each packet so far, if lookups go field by field.
    pub(super) bits: Vec<u64>,
}

/// Slots for the buffers of one source's messages, empty while a message has them.
///
/// Each slot has a lock of its own, because one lock for all would make the workers of the last stage wait for one
/// another and for the source. The buffers of a message that a ring drops are lost, and new ones take their place.
#[derive(Debug)]
pub(super) struct Slots(Box<[Slot]>);

#[derive(Debug)]
#[repr(align(128))]
struct Slot(Mutex<Option<Buffers>>);

impl Slots {
    /// Makes `count` slots, which should be as many as there may be messages at once.
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| Slot(Mutex::new(Some(Buffers::default())))).collect())
    }

    /// Makes a message without answers; `width` is the number of 64-bit words of a packet's bits.
    ///
    /// Slots are looked for from `next` on, which moves behind the slot that was found.
    pub(super) fn rows(&self, next: &mut usize, number: u64, rows: Range<usize>, width: usize) -> Rows {
        let mut turn = (*next..self.0.len()).chain(0..*next);
        let slot = turn.find_map(|at| Some((at, self.0[at].0.try_lock().ok()?.take()?)));
        let (slot, mut buffers) = slot.map_or((None, Buffers::default()), |(at, buffers)| (Some(at), buffers));
        *next = slot.map_or(0, |at| (at + 1) % self.0.len());
        buffers.best.clear();
        buffers.best.resize(rows.len(), None);
        buffers.bits.clear();
        buffers.bits.resize(rows.len() * width, u64::MAX);
        Rows { number, rows, buffers, slot }
    }

    /// Takes the buffers of a message back.
    pub(super) fn give_back(&self, rows: Rows) {
        if let Some(slot) = rows.slot {
            *self.0[slot].0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rows.buffers);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_to_their_slots() {
        let (slots, mut next) = (Slots::new(2), 0);
        let first = slots.rows(&mut next, 0, 0..3, 2);
        assert_eq!((first.buffers.best.len(), first.buffers.bits.len(), first.slot), (3, 6, Some(0)));
        let mut second = slots.rows(&mut next, 1, 3..5, 1);
        second.buffers.bits[0] = 7;
        let beyond = slots.rows(&mut next, 2, 5..6, 1);
        assert_eq!((second.slot, beyond.slot), (Some(1), None));
        let place = second.buffers.bits.as_ptr();
        slots.give_back(second);
        slots.give_back(beyond);
        let third = slots.rows(&mut next, 3, 6..7, 2);
        assert_eq!((third.slot, third.buffers.bits.as_ptr()), (Some(1), place), "the same memory");
        assert_eq!(third.buffers.bits, [u64::MAX; 2], "nothing of the former message");
    }
}
