//! Packets and bytes by rule: each worker counts for itself, the writer adds up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::rule::RuleId;

/// Slots of the first chunk; each further one has twice as many, and what is in never moves.
const FIRST: usize = 1024;
/// So many chunks hold every slot.
const CHUNKS: usize = 23;

/// What was counted for a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Everything one worker has ever counted, by slot. It only grows: a worker that comes later goes on where one that went
/// has stopped.
#[derive(Debug, Default)]
struct Book {
    chunks: [OnceLock<Box<[[AtomicU64; 2]]>>; CHUNKS],
}

/// The chunk of a slot, and the place there.
fn place(slot: usize) -> (usize, usize) {
    let chunk = (slot / FIRST + 1).ilog2() as usize;
    (chunk, slot - FIRST * ((1 << chunk) - 1))
}

impl Book {
    fn pair(&self, slot: usize) -> &[AtomicU64; 2] {
        let (chunk, at) = place(slot);
        let new = || (0..FIRST << chunk).map(|_| Default::default()).collect();
        &self.chunks[chunk].get_or_init(new)[at]
    }

    fn count(&self, slot: usize) -> Count {
        let (chunk, at) = place(slot);
        let Some(pairs) = self.chunks[chunk].get() else { return Count::default() };
        let [packets, bytes] = [0, 1].map(|i| pairs[at][i].load(Ordering::Relaxed));
        Count { packets, bytes }
    }
}

/// The books of all workers.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Those in use are held by a ledger too.
    books: Mutex<Vec<Arc<Book>>>,
    /// By slot: what had been counted when it was given to its rule.
    baselines: Vec<Count>,
}

impl Counters {
    /// With room for so many slots.
    pub(super) fn for_slots(slots: usize) -> Self {
        Self { baselines: vec![Count::default(); slots], ..Self::default() }
    }

    fn books(&self) -> MutexGuard<'_, Vec<Arc<Book>>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ledger(&self) -> Ledger {
        let mut books = self.books();
        // This also sees to it that all its last owner wrote is seen.
        if let Some(idle) = books.iter_mut().find_map(|book| Arc::get_mut(book).is_some().then_some(book)) {
            return Ledger(Arc::clone(idle));
        }
        let book = Arc::new(Book::default());
        books.push(Arc::clone(&book));
        Ledger(book)
    }

    /// A rule has been given its slot.
    pub(super) fn start(&mut self, rule: RuleId) {
        let slot = rule.slot();
        if self.baselines.len() <= slot {
            self.baselines.resize(slot + 1, Count::default());
        }
        self.baselines[slot] = self.sum(slot);
    }

    pub(super) fn count(&self, rule: RuleId) -> Count {
        let (sum, base) = (self.sum(rule.slot()), self.baselines.get(rule.slot()).copied().unwrap_or_default());
        Count { packets: sum.packets.wrapping_sub(base.packets), bytes: sum.bytes.wrapping_sub(base.bytes) }
    }

    fn sum(&self, slot: usize) -> Count {
        self.books().iter().map(|book| book.count(slot)).fold(Count::default(), |a, b| Count {
            packets: a.packets.wrapping_add(b.packets),
            bytes: a.bytes.wrapping_add(b.bytes),
        })
    }
}

/// What one worker counts with. It shares no word with another worker's, so counting takes no lock.
#[derive(Debug)]
pub struct Ledger(Arc<Book>);

impl Ledger {
    /// Adds packets of so many bytes in all to a rule. The first of a stretch of slots takes its memory, 16 bytes a slot.
    #[inline]
    pub fn add(&mut self, rule: RuleId, packets: u64, bytes: u64) {
        for (sum, more) in self.0.pair(rule.slot()).iter().zip([packets, bytes]) {
            // Nobody else writes it.
            sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for slot in 0..100_000 {
            assert_eq!(place(slot), next);
            next = if next.1 + 1 == FIRST << next.0 { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
        let (chunk, at) = place(u32::MAX as usize);
        assert!(chunk < CHUNKS && at < FIRST << chunk);
    }

    #[test]
    fn workers_come_and_go_and_nothing_is_lost() {
        let mut counters = Counters::default();
        let rules = [RuleId::new(3, 0), RuleId::new(5_000, 0)];
        rules.iter().for_each(|&rule| counters.start(rule));
        for round in 1..=3 {
            let ledgers: Vec<_> = (0..4).map(|_| counters.ledger()).collect();
            std::thread::scope(|scope| {
                for (worker, mut ledger) in ledgers.into_iter().enumerate() {
                    scope.spawn(move || (0..1000).for_each(|i| ledger.add(rules[(i + worker) % 2], 1, 60)));
                }
            });
            for rule in rules {
                assert_eq!(counters.count(rule), Count { packets: round * 2000, bytes: round * 120_000 });
            }
        }
        assert_eq!(counters.books().len(), 4, "books are used again");
        // Another rule of the same slot starts from nothing.
        let next = RuleId::new(3, 1);
        counters.start(next);
        assert_eq!(counters.count(next), Count::default());
        counters.ledger().add(next, 2, 100);
        assert_eq!(counters.count(next), Count { packets: 2, bytes: 100 });
        assert_eq!(counters.count(rules[1]).packets, 6000);
    }
}
