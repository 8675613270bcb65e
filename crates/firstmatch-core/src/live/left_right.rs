//! Left-right concurrency control: readers use one replica, the writer changes the other.
//!
//! The writer then publishes the changed replica: from then on readers use that one. Each reader has a reader slot
//! ([`ReaderSlot`]), which keeps the replica that it used last. To read, it locks its own slot, which another thread
//! wants only briefly, and compares the publish count. If that has not changed, the replica is current, and the reader
//! has touched no word that other readers write to.
//!
//! For example, at publish count 6 readers use replica 0, because the lowest bit is 0. The writer changes replica 1 and
//! sets the count to 7. A reader that finds 7 where its slot says 6 fetches replica 1.
//!
//! The writer takes the idle replica back from the slots of readers that are between batches. So readers need not
//! announce that they stop. A reader never waits for a lock: if its slot is locked, it fetches the current replica
//! without the slot.
//!
//! A query reads [`Facts`], numbers that the writer publishes with each replica, and holds no replica. So it keeps no
//! replica from the writer, and it waits for no lock that the writer holds.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, TryLockError};

use super::sync::{Arc, AtomicU64, LOOK, Mutex, MutexGuard, RwLock, TryLock, pause};

/// Two replicas of a value, and a count that says which of them readers use.
#[derive(Debug)]
pub(super) struct LeftRight<T> {
    /// Number that no other pair of replicas in this process has.
    id: usize,
    /// The replicas; readers lock one only while they clone its `Arc`.
    pub(super) copies: [Apart<RwLock<Arc<T>>>; 2],
    /// Number of publishes; its lowest bit is the index of the replica that readers use.
    publish_count: Apart<AtomicU64>,
    /// Facts about each replica.
    facts: [Facts; 2],
    /// All reader slots; a slot that only this list holds has lost its reader.
    pub(super) reader_slots: Mutex<Vec<OwnSlot<T>>>,
}

/// Reader slot: keeps the replica that one reader used last.
#[derive(Debug)]
pub(super) struct ReaderSlot<T> {
    replicas: usize,
    /// Replica used last, with the publish count at that time.
    held: Apart<TryLock<Option<Held<T>>>>,
}

/// Reader slot, as its reader owns it.
pub(super) type OwnSlot<T> = Arc<ReaderSlot<T>>;

type Held<T> = (u64, Arc<T>);

/// Numbers about a replica, for queries.
///
/// The writer sets the facts of the idle replica. A query that reads them meanwhile may mix two states; it notices
/// because the publish count has changed.
#[derive(Debug)]
pub(super) struct Facts(Box<[AtomicU64]>);

impl Facts {
    fn new(words: usize) -> Self {
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets the words from index `at` on.
    ///
    /// A thread that reads one of these words then sees every publish before it was set.
    pub(super) fn set(&self, at: usize, words: &[u64]) {
        self.0[at..].iter().zip(words).for_each(|(to, &word)| to.store(word, Ordering::Release));
    }

    /// Returns `N` words from index `at` on.
    pub(super) fn get<const N: usize>(&self, at: usize) -> [u64; N] {
        std::array::from_fn(|i| self.0[at + i].load(Ordering::Acquire))
    }
}

/// Value on a cache line of its own, so that writes beside it do not delay its readers.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Error: a batch in progress uses the replica that would be changed.
#[derive(Debug)]
pub(super) struct Busy;

static TWINS: AtomicUsize = AtomicUsize::new(0);

impl<T: Clone> LeftRight<T> {
    /// Builds two replicas of `of`, each with `words` words of facts, which `publish` sets.
    pub(super) fn new(of: T, words: usize, publish: impl Fn(&Facts, &T)) -> Self {
        let facts = [(); 2].map(|()| Facts::new(words));
        facts.iter().for_each(|facts| publish(facts, &of));
        let copies = [of.clone(), of].map(|of| Apart(RwLock::new(Arc::new(of))));
        let id = TWINS.fetch_add(1, Ordering::Relaxed);
        Self { id, copies, publish_count: Apart(AtomicU64::new(0)), facts, reader_slots: Mutex::new(Vec::new()) }
    }

    pub(super) fn reader_slot(&self) -> OwnSlot<T> {
        let reader_slot = Arc::new(ReaderSlot { replicas: self.id, held: Apart(TryLock::new(None)) });
        let mut reader_slots = lock(&self.reader_slots);
        reader_slots.retain(is_used);
        reader_slots.push(Arc::clone(&reader_slot));
        reader_slot
    }

    pub(super) fn has(&self, reader_slot: &ReaderSlot<T>) -> bool {
        reader_slot.replicas == self.id
    }

    /// Calls `read` with the current replica, the same from start to end.
    ///
    /// The slot must belong to this pair.
    #[inline(always)]
    pub(super) fn read<R>(&self, reader_slot: &ReaderSlot<T>, read: impl FnOnce(&T) -> R) -> R {
        debug_assert!(self.has(reader_slot));
        match reader_slot.held.try_lock() {
            Some(mut held) => {
                let publish_count = self.publish_count.load(Ordering::Acquire);
                let copy = match &mut *held {
                    Some((at, copy)) if *at == publish_count => copy,
                    old => self.renewed(old),
                };
                read(copy)
            }
            // The writer is checking whether it can take back the slot's replica.
            None => read(&self.apart()),
        }
    }

    /// Returns the current replica without a slot.
    #[cold]
    #[inline(never)]
    fn apart(&self) -> Arc<T> {
        self.now().1
    }

    #[cold]
    #[inline(never)]
    fn renewed<'h>(&self, held: &'h mut Option<Held<T>>) -> &'h Arc<T> {
        &held.insert(self.now()).1
    }

    /// Returns the number of publishes so far.
    pub(super) fn publish_count(&self) -> u64 {
        self.publish_count.load(Ordering::Acquire)
    }

    /// Returns the result of `read`, called with facts that all belong to one moment.
    ///
    /// It neither waits for the writer nor keeps the writer waiting: if there was a publish meanwhile, it reads again.
    pub(super) fn query<R>(&self, mut read: impl FnMut(&Facts) -> R) -> R {
        loop {
            let publish_count = self.publish_count.load(Ordering::Acquire);
            let result = read(&self.facts[(publish_count & 1) as usize]);
            // The writer sets these facts again only after a publish.
            if self.publish_count.load(Ordering::Acquire) == publish_count {
                return result;
            }
        }
    }

    /// Returns the publish count and the current replica.
    pub(super) fn now(&self) -> (u64, Arc<T>) {
        self.now_after(|| ())
    }

    /// Does the same as [`Self::now`]; calls `between` after it has loaded the publish count.
    #[inline(always)]
    pub(super) fn now_after(&self, mut between: impl FnMut()) -> (u64, Arc<T>) {
        loop {
            let publish_count = self.publish_count.load(Ordering::Acquire);
            between();
            // Locked only if the writer has published since and works on this replica: then the other one is free.
            let copy = match self.copies[(publish_count & 1) as usize].try_read() {
                Ok(copy) => Arc::clone(&copy),
                Err(TryLockError::Poisoned(copy)) => Arc::clone(&copy.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    pause(0);
                    continue;
                }
            };
            // After another publish, this replica may have been changed and not be current yet.
            if self.publish_count.load(Ordering::Acquire) == publish_count {
                return (publish_count, copy);
            }
        }
    }

    /// Changes the idle replica and its facts with `change`, then publishes it.
    ///
    /// Only one caller at a time. If `change` panics, nothing is published; it must leave the replica fit to be changed
    /// again.
    ///
    /// # Errors
    /// If a batch in progress uses the idle replica and `wait` is false ([`Busy`]).
    pub(super) fn publish<R>(&self, wait: bool, change: impl FnOnce(&mut T, &Facts) -> R) -> Result<R, Busy> {
        let publish_count = self.publish_count.load(Ordering::Acquire);
        let at = (publish_count & 1 ^ 1) as usize;
        let mut idle = match self.copies[at].try_write() {
            Ok(idle) => idle,
            Err(TryLockError::Poisoned(idle)) => idle.into_inner(),
            // A reader is about to notice that this is not the current replica.
            Err(TryLockError::WouldBlock) if !wait => return Err(Busy),
            Err(TryLockError::WouldBlock) => self.copies[at].write().unwrap_or_else(PoisonError::into_inner),
        };
        let mut rounds = 0u32;
        while Arc::get_mut(&mut idle).is_none() {
            if rounds.is_multiple_of(LOOK) {
                self.take_back(&idle);
                if Arc::get_mut(&mut idle).is_some() {
                    break;
                }
            }
            if !wait {
                return Err(Busy);
            }
            rounds += 1;
            pause(rounds);
        }
        let Some(copy) = Arc::get_mut(&mut idle) else { return Err(Busy) };
        let result = change(copy, &self.facts[at]);
        // Unlocked first, so that no reader finds the current replica locked, wherever the writer's thread is stopped.
        drop(idle);
        self.publish_count.store(publish_count + 1, Ordering::Release);
        Ok(result)
    }

    /// Number of batches in progress that keep the idle replica from the writer.
    pub(super) fn blocking(&self) -> usize {
        let at = (self.publish_count.load(Ordering::Acquire) & 1 ^ 1) as usize;
        let idle = self.copies[at].read().unwrap_or_else(PoisonError::into_inner);
        self.take_back(&idle);
        Arc::strong_count(&idle) - 1
    }

    /// Takes `idle` back from the slots whose readers are between batches; drops unused slots.
    fn take_back(&self, idle: &Arc<T>) {
        let mut reader_slots = lock(&self.reader_slots);
        reader_slots.retain(|reader_slot| {
            if let Some(mut held) = reader_slot.held.try_lock()
                && held.as_ref().is_some_and(|(_, copy)| Arc::ptr_eq(copy, idle))
            {
                *held = None;
            }
            is_used(reader_slot)
        });
    }

    /// Returns the heap bytes of a pair with `words` words of facts.
    ///
    /// The heap bytes inside the replicas and the list of slots, which belongs to the readers, are not counted.
    pub(super) fn bytes(words: usize) -> usize {
        2 * (ARC + size_of::<T>() + words * size_of::<AtomicU64>())
    }
}

/// Whether a reader still owns the slot.
fn is_used<T>(reader_slot: &OwnSlot<T>) -> bool {
    Arc::strong_count(reader_slot) > 1
}

/// Bytes that an `Arc` allocates beside its value: two reference counts.
pub(super) const ARC: usize = 2 * size_of::<usize>();

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
