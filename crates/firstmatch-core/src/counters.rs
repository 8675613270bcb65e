//! Packets and bytes by rule: each worker has its own counts, and a query adds them up.
//!
//! A worker may count a packet for a rule that is already removed, after its slot was given to another rule. So each
//! count of a slot is kept with the reuse number of its rule. A count for a newer rule of the slot starts anew, and the
//! old count goes to the removed rules. A count for an older rule goes to the removed rules, too.
//!
//! For example, slot 3 has counted 7 packets for reuse number 0. The first packet for reuse number 1 moves these 7 to
//! the removed rules and starts again at 1. A late packet for number 0 then makes the removed rules 8.
//!
//! # Invariants
//! - The counts of all slots and of removed rules are, together, everything ever counted, whatever is committed
//!   meanwhile (`what_is_counted_stays_with_its_rule`, and the harness with readers beside commits).
//! - A count belongs to the very rule that it was counted for (`what_is_counted_stays_with_its_rule`).
//! - A query neither waits for commits and counting workers nor delays them, and gets packets and bytes of one moment
//!   (`a_count_is_read_whole`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::rule::RuleId;

/// Number of slots in the first chunk.
///
/// Each further chunk has twice as many, and no slot ever moves.
const FIRST: usize = 1024;
/// Number of chunks that is enough for every slot.
const CHUNKS: usize = 23;

/// Count of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes in these packets.
    pub bytes: u64,
}

impl Count {
    fn plus(self, more: Self) -> Self {
        Self { packets: self.packets.wrapping_add(more.packets), bytes: self.bytes.wrapping_add(more.bytes) }
    }
}

/// Growing array with an entry for each slot, made in chunks when first used.
#[derive(Debug)]
struct Slots<T>([OnceLock<Box<[T]>>; CHUNKS]);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

/// Returns the chunk of a slot, and the index there.
fn place(slot: usize) -> (usize, usize) {
    let chunk = (slot / FIRST + 1).ilog2() as usize;
    (chunk, slot - FIRST * ((1 << chunk) - 1))
}

impl<T: Default> Slots<T> {
    fn get(&self, slot: usize) -> Option<&T> {
        let (chunk, at) = place(slot);
        self.0[chunk].get()?.get(at)
    }

    fn get_or_make(&self, slot: usize) -> &T {
        let (chunk, at) = place(slot);
        &self.0[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| T::default()).collect())[at]
    }

    /// Returns the entries made so far, with their slots.
    fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let chunks = self.0.iter().enumerate().filter_map(|(chunk, made)| Some((chunk, made.get()?)));
        chunks.flat_map(|(chunk, made)| (FIRST as u32 * ((1 << chunk) - 1)..).zip(made.iter()))
    }
}

/// Count that one worker writes and anyone reads.
///
/// It has two copies; the worker writes the one that nobody reads.
#[derive(Debug, Default)]
struct Cell {
    /// Number of changes in the low 32 bits, reuse number of the rule in the high 32 bits.
    ///
    /// The lowest bit is the index of the copy to read. The number is 0 only before the first change.
    head: AtomicU64,
    copies: [[AtomicU64; 2]; 2],
}

impl Cell {
    /// Returns the reuse number of the rule, if anything was counted, and the count.
    fn read(&self) -> (Option<u32>, Count) {
        loop {
            let head = self.head.load(Ordering::Acquire);
            let [packets, bytes] = [0, 1].map(|i| self.copies[(head & 1) as usize][i].load(Ordering::Acquire));
            // The worker writes this copy again only after it has stored another head.
            if self.head.load(Ordering::Acquire) == head {
                return ((head as u32 != 0).then_some((head >> 32) as u32), Count { packets, bytes });
            }
        }
    }

    /// Whether it counts for rules of this reuse number; for its worker only.
    #[inline]
    fn is_of(&self, reuse: u32) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        (head >> 32) as u32 == reuse && head as u32 != 0
    }

    /// Adds `more` to the count; for its worker only.
    #[inline]
    fn add(&self, reuse: u32, more: Count) {
        let head = self.head.load(Ordering::Relaxed);
        let [packets, bytes] = [0, 1].map(|i| self.copies[(head & 1) as usize][i].load(Ordering::Relaxed));
        self.set(reuse, Count { packets, bytes }.plus(more));
    }

    #[inline]
    fn set(&self, reuse: u32, count: Count) {
        // 0 means that nothing was counted, so 2 follows instead, which selects the same copy.
        let changes = match (self.head.load(Ordering::Relaxed) as u32).wrapping_add(1) {
            0 => 2,
            changes => changes,
        };
        let [packets, bytes] = &self.copies[(changes & 1) as usize];
        // A thread that sees one of these also sees the head before.
        packets.store(count.packets, Ordering::Release);
        bytes.store(count.bytes, Ordering::Release);
        self.head.store(u64::from(reuse) << 32 | u64::from(changes), Ordering::Release);
    }
}

/// Everything that one worker has ever counted.
///
/// A new worker continues the counts of one that has gone.
#[derive(Debug, Default)]
struct Shard {
    is_used: AtomicBool,
    slots: Slots<Cell>,
    /// Count for removed rules and for ids that no rule ever had.
    removed: Cell,
}

#[derive(Debug, Default)]
struct Books {
    shards: Mutex<Vec<Arc<Shard>>>,
    /// Number of rules that each slot was given to: one more than the largest reuse number.
    given: Slots<AtomicU64>,
}

impl Books {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Shard>>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a rule ever had this id.
    fn knows(&self, rule: RuleId) -> bool {
        let given = self.given.get(rule.slot()).map_or(0, |given| given.load(Ordering::Acquire));
        u64::from(rule.reuse()) < given
    }
}

/// Packets and bytes by rule, for any thread beside the writer; clones share everything.
///
/// The counts of live rules and [`Writer::removed_count`](crate::live::Writer::removed_count) are, together, everything
/// that was [counted](CounterShard::add).
///
/// ```
/// use firstmatch_core::live::{self, Config};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let (_, writer) = live::open(rules, &Config::default())?;
/// let telnet = writer.rules().iter().next().expect("two rules").id;
/// let mut shard = writer.counter_shard(); // one per worker
/// shard.add(telnet, 2, 120);
/// let count = writer.counters().count(telnet); // any thread may ask
/// assert_eq!((count.packets, count.bytes), (2, 120));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RuleCounters(Arc<Books>);

impl RuleCounters {
    /// Returns the counts of all workers for the rule of this very id, live or removed, added up.
    ///
    /// A worker's count for a removed rule is left out once that worker counts for a later rule of the slot. The call
    /// waits neither for the writer nor for workers.
    pub fn count(&self, rule: RuleId) -> Count {
        let of_shard = |shard: &Arc<Shard>| {
            let (reuse, count) = shard.slots.get(rule.slot())?.read();
            (reuse == Some(rule.reuse())).then_some(count)
        };
        self.0.lock().iter().filter_map(of_shard).fold(Count::default(), Count::plus)
    }

    /// Records that a rule has this id, before any worker counts for it.
    pub(crate) fn give(&self, rule: RuleId) {
        self.0.given.get_or_make(rule.slot()).fetch_max(u64::from(rule.reuse()) + 1, Ordering::Release);
    }

    /// Returns everything that was counted for rules that are not live.
    pub(crate) fn removed(&self, is_live: impl Fn(RuleId) -> bool) -> Count {
        let shards = self.0.lock().clone();
        let of_slot = |(slot, cell): (u32, &Cell)| {
            let (reuse, count) = cell.read();
            reuse.filter(|&reuse| !is_live(RuleId::new(slot, reuse))).map(|_| count)
        };
        let of_shard =
            |shard: &Arc<Shard>| shard.slots.iter().filter_map(of_slot).fold(shard.removed.read().1, Count::plus);
        shards.iter().map(of_shard).fold(Count::default(), Count::plus)
    }

    pub(crate) fn counter_shard(&self) -> CounterShard {
        let mut shards = self.0.lock();
        // It also makes everything visible that the last owner wrote.
        let idle = shards.iter().find(|shard| !shard.is_used.swap(true, Ordering::Acquire)).map(Arc::clone);
        let shard = idle.unwrap_or_else(|| {
            let shard = Arc::new(Shard { is_used: AtomicBool::new(true), ..Shard::default() });
            shards.push(Arc::clone(&shard));
            shard
        });
        CounterShard { shard, shards: Arc::clone(&self.0) }
    }
}

/// Counters of one worker.
///
/// It shares no word with another worker's, so counting takes no lock.
#[derive(Debug)]
pub struct CounterShard {
    shard: Arc<Shard>,
    shards: Arc<Books>,
}

impl Drop for CounterShard {
    fn drop(&mut self) {
        self.shard.is_used.store(false, Ordering::Release);
    }
}

impl CounterShard {
    /// Adds `packets` packets of `bytes` bytes in total to a rule.
    ///
    /// The first count in a chunk of slots allocates the chunk, 40 bytes per slot. A count for a removed rule goes to
    /// the removed rules. So does one for an id that no rule ever had, without allocating.
    #[inline]
    pub fn add(&mut self, rule: RuleId, packets: u64, bytes: u64) {
        let count = Count { packets, bytes };
        match self.shard.slots.get(rule.slot()) {
            Some(cell) if cell.is_of(rule.reuse()) => cell.add(rule.reuse(), count),
            _ => self.add_first(rule, count),
        }
    }

    /// Does the same if the slot's last count was for another rule, or there was none.
    #[cold]
    fn add_first(&self, rule: RuleId, count: Count) {
        let Shard { slots, removed, .. } = &*self.shard;
        if !self.shards.knows(rule) {
            return removed.add(0, count);
        }
        let cell = slots.get_or_make(rule.slot());
        match cell.read() {
            (Some(reuse), _) if reuse > rule.reuse() => removed.add(0, count),
            (Some(reuse), _) if reuse == rule.reuse() => cell.add(reuse, count),
            (_, before) => {
                cell.set(rule.reuse(), count);
                removed.add(0, before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(packets: u64) -> Count {
        Count { packets, bytes: 60 * packets }
    }

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for slot in 0..100_000 {
            assert_eq!(place(slot), next);
            next = if next.1 + 1 == FIRST << next.0 { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
        let (chunk, at) = place(u32::MAX as usize);
        assert!(chunk < CHUNKS && at < FIRST << chunk);
        let slots = Slots::<AtomicU64>::default();
        [5, 5_000].iter().for_each(|&slot| slots.get_or_make(slot).store(slot as u64, Ordering::Relaxed));
        let made: Vec<_> =
            slots.iter().filter(|(_, of)| of.load(Ordering::Relaxed) > 0).map(|(slot, _)| slot).collect();
        assert_eq!(made, [5, 5_000]);
        // Each slot of a chunk that is made, and of no other chunk.
        assert!(slots.iter().map(|(slot, _)| slot).eq((0..1024).chain(3072..7168)));
    }

    #[test]
    fn workers_come_and_go_and_nothing_is_lost() {
        let counters = RuleCounters::default();
        let rules = [RuleId::new(3, 0), RuleId::new(5_000, 0)];
        rules.iter().for_each(|&rule| counters.give(rule));
        for round in 1..=3 {
            let counter_shards: Vec<_> = (0..4).map(|_| counters.counter_shard()).collect();
            std::thread::scope(|scope| {
                for (worker, mut counter_shard) in counter_shards.into_iter().enumerate() {
                    scope.spawn(move || (0..1000).for_each(|i| counter_shard.add(rules[(i + worker) % 2], 1, 60)));
                }
            });
            rules.iter().for_each(|&rule| assert_eq!(counters.count(rule), count(round * 2000)));
        }
        assert_eq!(counters.0.lock().len(), 4, "books are used again");
    }

    /// Late and early counts of two workers go to the right rule or to the removed rules.
    #[test]
    fn what_is_counted_stays_with_its_rule() {
        let counters = RuleCounters::default();
        let [old, new] = [RuleId::new(3, 0), RuleId::new(3, 1)];
        [old, new].into_iter().for_each(|rule| counters.give(rule));
        let (mut first, mut second) = (counters.counter_shard(), counters.counter_shard());
        first.add(old, 5, 300);
        second.add(old, 2, 120);
        assert_eq!((counters.count(old), counters.removed(|rule| rule == old)), (count(7), count(0)));
        // The slot has been given to another rule.
        let removed = || counters.removed(|rule| rule == new);
        assert_eq!(removed(), count(7));
        first.add(new, 1, 60);
        assert_eq!((counters.count(old), counters.count(new), removed()), (count(2), count(1), count(7)));
        // Packets of an earlier generation.
        [&mut first, &mut second].into_iter().for_each(|counter_shard| counter_shard.add(old, 10, 600));
        assert_eq!((counters.count(old), counters.count(new), removed()), (count(12), count(1), count(27)));
        second.add(new, 1, 60);
        assert_eq!((counters.count(old), counters.count(new), removed()), (count(0), count(2), count(27)));
    }

    #[test]
    fn the_number_of_changes_starts_again() {
        let cell = Cell::default();
        cell.add(7, count(1));
        cell.head.store(7 << 32 | u64::from(u32::MAX - 1), Ordering::Relaxed);
        cell.copies[0].iter().zip([1, 60]).for_each(|(of, value)| of.store(value, Ordering::Relaxed));
        for packets in 2..6 {
            cell.add(7, count(1));
            assert_eq!((cell.is_of(7), cell.read()), (true, (Some(7), count(packets))));
        }
    }

    #[test]
    fn ids_that_no_rule_had_take_no_memory() {
        let counters = RuleCounters::default();
        counters.give(RuleId::new(3, 1));
        let mut counter_shard = counters.counter_shard();
        for rule in [RuleId::new(3, 2), RuleId::new(4, 0), RuleId::new(u32::MAX - 1, 0)] {
            counter_shard.add(rule, 1, 60);
            assert_eq!(counters.count(rule), Count::default());
        }
        assert_eq!((counter_shard.shard.slots.iter().count(), counters.removed(|_| true)), (0, count(3)));
        counter_shard.add(RuleId::new(3, 1), 1, 60);
        // They neither restart another rule's count nor begin one.
        [RuleId::new(3, 2), RuleId::new(4, 0)].into_iter().for_each(|rule| counter_shard.add(rule, 1, 60));
        assert_eq!((counters.count(RuleId::new(3, 1)), counters.removed(|_| true)), (count(1), count(5)));
        counters.give(RuleId::new(4, 0));
        assert_eq!(counters.count(RuleId::new(4, 0)), count(0));
    }

    /// A count has packets and bytes of one moment, and never fewer than before.
    #[test]
    fn a_count_is_read_whole() {
        let counters = RuleCounters::default();
        let rules = [0, 1, 2, 3].map(|reuse| RuleId::new(0, reuse));
        rules.into_iter().for_each(|rule| counters.give(rule));
        let mut counter_shard = counters.counter_shard();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut last = 0;
                while last < rules.len() as u64 * 100_000 {
                    let all = rules.map(|rule| counters.count(rule));
                    all.iter().for_each(|of| assert_eq!(of.bytes, 60 * of.packets));
                    // The sum may lack a count that is on its way to the removed rules.
                    last = counters.removed(|_| false).packets.max(last);
                }
            });
            scope.spawn(move || rules.map(|rule| (0..100_000).for_each(|_| counter_shard.add(rule, 1, 60))));
            reader.join().expect("no panic");
        });
        assert_eq!(counters.removed(|rule| rule == rules[3]), count(300_000));
    }
}
