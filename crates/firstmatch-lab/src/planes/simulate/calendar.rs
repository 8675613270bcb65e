//! Calendar of coming events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events by time; those of one time come in the order in which they were added.
///
/// Times are kept as bits, because those of numbers from 0 on have the order of the numbers.
#[derive(Debug)]
pub(super) struct Calendar<E> {
    events: BinaryHeap<Reverse<(u64, u64, E)>>,
    added: u64,
}

impl<E: Ord> Calendar<E> {
    pub(super) fn new() -> Self {
        Self { events: BinaryHeap::new(), added: 0 }
    }

    /// Adds an event at a time from 0 on.
    pub(super) fn add(&mut self, time: f64, event: E) {
        self.events.push(Reverse((time.to_bits(), self.added, event)));
        self.added += 1;
    }

    /// Returns the next event with its time.
    pub(super) fn next(&mut self) -> Option<(f64, E)> {
        self.events.pop().map(|Reverse((time, _, event))| (f64::from_bits(time), event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_order() {
        let mut calendar = Calendar::new();
        for (time, event) in [(2.0, 'c'), (1.0, 'a'), (2.0, 'd'), (1.5, 'b')] {
            calendar.add(time, event);
        }
        let order: String = std::iter::from_fn(|| calendar.next()).map(|(_, event)| event).collect();
        assert_eq!(order, "abcd");
    }
}
