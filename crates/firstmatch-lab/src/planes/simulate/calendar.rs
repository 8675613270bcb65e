//! Calendar of coming events.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Events by time; those of one time come in the order in which they were added.
#[derive(Debug)]
pub(super) struct Calendar<E> {
    events: BinaryHeap<Reverse<Coming<E>>>,
    added: u64,
}

#[derive(Debug)]
struct Coming<E> {
    time: f64,
    number: u64,
    event: E,
}

impl<E> Ord for Coming<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.time.total_cmp(&other.time).then(self.number.cmp(&other.number))
    }
}

impl<E> PartialOrd for Coming<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Coming<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Coming<E> {}

impl<E> Calendar<E> {
    pub(super) fn new() -> Self {
        Self { events: BinaryHeap::new(), added: 0 }
    }

    pub(super) fn add(&mut self, time: f64, event: E) {
        self.events.push(Reverse(Coming { time, number: self.added, event }));
        self.added += 1;
    }

    /// Returns the next event with its time.
    pub(super) fn next(&mut self) -> Option<(f64, E)> {
        self.events.pop().map(|Reverse(Coming { time, event, .. })| (time, event))
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
