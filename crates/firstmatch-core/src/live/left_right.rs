//! Left-right concurrency control: readers use one replica, the writer changes the other.
//!
//! The writer then publishes the changed replica: from then on readers use that one. Each reader has a reader slot
//! ([`ReaderSlot`]), which keeps the replica that it used last. To read, it locks its own slot, which another thread wants
//! only briefly, and compares the publish count. If that has not changed, the replica is current, and the reader has
//! touched no word that other readers write to.
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

use super::sync::{Arc, AtomicU64, LOOK, Mutex, MutexGuard, RwLock, clear_poison, pause};

/// Two replicas of a value, and a count that says which of them readers use.
#[derive(Debug)]
pub(super) struct LeftRight<T> {
    /// Number that no other pair of replicas in this process has.
    id: usize,
    /// The replicas; readers lock one only while they clone its `Arc`.
    copies: [Apart<RwLock<Arc<T>>>; 2],
    /// Number of publishes; its lowest bit is the index of the replica that readers use.
    publish_count: Apart<AtomicU64>,
    /// Facts about each replica.
    facts: [Facts; 2],
    /// All reader slots; one that only this list holds has lost its reader.
    reader_slots: Mutex<Vec<OwnSlot<T>>>,
}

/// Reader slot: keeps the replica that one reader used last.
#[derive(Debug)]
pub(super) struct ReaderSlot<T> {
    replicas: usize,
    /// Replica used last, with the publish count at that time.
    held: Apart<Mutex<Option<Held<T>>>>,
}

/// Reader slot, as its reader owns it.
pub(super) type OwnSlot<T> = Arc<ReaderSlot<T>>;

type Held<T> = (u64, Arc<T>);
type Taken<'a, T> = TryLockError<MutexGuard<'a, Option<Held<T>>>>;

/// Numbers about a replica, for queries.
///
/// The writer sets those of the idle replica. A query that reads them meanwhile may see two states mixed; it notices
/// because the publish count has changed.
#[derive(Debug)]
pub(super) struct Facts(Box<[AtomicU64]>);

impl Facts {
    fn new(words: usize) -> Self {
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets the words from index `at` on.
    ///
    /// A thread that reads one of them then sees every publish before it.
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
struct Apart<T>(T);

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
        let reader_slot = Arc::new(ReaderSlot { replicas: self.id, held: Apart(Mutex::new(None)) });
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
            Ok(mut held) => {
                let publish_count = self.publish_count.load(Ordering::Acquire);
                let copy = match &mut *held {
                    Some((at, copy)) if *at == publish_count => copy,
                    old => self.renewed(old),
                };
                read(copy)
            }
            Err(taken) => read(&self.apart(reader_slot, &taken)),
        }
    }

    /// Returns the current replica where the reader's slot could not be locked.
    ///
    /// Either the writer is checking whether it can take back the slot's replica, or a batch that held the slot
    /// panicked. The slot's content is intact in both cases.
    #[cold]
    #[inline(never)]
    fn apart(&self, reader_slot: &ReaderSlot<T>, taken: &Taken<'_, T>) -> Arc<T> {
        if let TryLockError::Poisoned(_) = taken {
            clear_poison(&reader_slot.held);
        }
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

    /// Returns what `read` makes of facts that all belong to one moment.
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
    fn now_after(&self, mut between: impl FnMut()) -> (u64, Arc<T>) {
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
        // Unlocked first, so that no reader finds the current replica locked, wherever the writer is stopped.
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
            let held = match reader_slot.held.try_lock() {
                Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
                held => held.ok(),
            };
            if let Some(mut held) = held
                && held.as_ref().is_some_and(|(_, copy)| Arc::ptr_eq(copy, idle))
            {
                *held = None;
            }
            is_used(reader_slot)
        });
    }

    /// Returns the heap bytes of a pair with `words` words of facts.
    ///
    /// Not counted are the heap bytes inside the replicas, and the list of slots, which belongs to the readers.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn replicas_of(value: u32) -> LeftRight<u32> {
        LeftRight::new(value, 1, |facts, &value| facts.set(0, &[value.into()]))
    }

    fn set(replicas: &LeftRight<u32>, wait: bool, to: u32) -> bool {
        let change = |value: &mut u32, facts: &Facts| {
            *value = to;
            facts.set(0, &[to.into()]);
        };
        replicas.publish(wait, change).is_ok()
    }

    /// Readers go on while the writer stands still inside a change.
    #[test]
    fn readers_never_wait() {
        let replicas = &replicas_of(1);
        let (go, stopped) = mpsc::channel::<()>();
        let (inside, is_inside) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                replicas.publish(true, |value, _| {
                    *value = 2;
                    inside.send(()).map_err(drop)?;
                    stopped.recv().map_err(drop)
                })
            });
            is_inside.recv().expect("the writer comes there");
            // So do queries.
            assert_eq!(replicas.query(|facts| facts.get(0)), [1]);
            let reader = || {
                let reader_slot = replicas.reader_slot();
                (0..500_000).filter(|_| replicas.read(&reader_slot, |&value| value == 1)).count()
            };
            let readers = [scope.spawn(reader), scope.spawn(reader)];
            assert_eq!(readers.map(|reader| reader.join().expect("no panic")), [500_000; 2]);
            go.send(()).expect("the writer waits");
        });
        assert_eq!(replicas.read(&replicas.reader_slot(), |&value| value), 2);
    }

    /// A batch keeps its replica: one change finds the other free, the next waits or is busy.
    #[test]
    fn a_batch_keeps_its_copy() {
        let replicas = &replicas_of(1);
        let (go, stopped) = mpsc::channel::<()>();
        let (inside, is_inside) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let reader_slot = replicas.reader_slot();
                let first = replicas.read(&reader_slot, |&value| {
                    inside.send(()).expect("the test waits");
                    stopped.recv().expect("the test goes on");
                    value
                });
                (first, replicas.read(&reader_slot, |&value| value))
            });
            is_inside.recv().expect("the reader comes there");
            assert!(set(replicas, false, 2));
            assert!(!set(replicas, false, 3) && !set(replicas, false, 4));
            assert_eq!(replicas.read(&replicas.reader_slot(), |&value| value), 2);
            let writer = scope.spawn(move || set(replicas, true, 5));
            thread::sleep(Duration::from_millis(20));
            assert!(!writer.is_finished(), "the copy is in use");
            go.send(()).expect("the reader waits");
            assert!(writer.join().expect("no panic"));
            let (first, second) = reader.join().expect("no panic");
            assert!(first == 1 && (second == 2 || second == 5), "{first}, {second}");
        });
    }

    /// While a reader looks at the idle replica, a change waits or is busy, as the caller asked.
    #[test]
    fn a_look_at_the_idle_copy_is_waited_for_or_not() {
        for wait in [false, true] {
            let replicas = &replicas_of(1);
            thread::scope(|scope| {
                let looking = replicas.copies[1].read().expect("no panic");
                let writer = scope.spawn(move || set(replicas, wait, 2));
                let limit = Duration::from_millis(if wait { 20 } else { 10_000 });
                let start = std::time::Instant::now();
                while !writer.is_finished() && start.elapsed() < limit {
                    thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(writer.is_finished(), !wait);
                drop(looking);
                assert_eq!(writer.join().expect("no panic"), wait);
            });
            assert_eq!(replicas.read(&replicas.reader_slot(), |&value| value), if wait { 2 } else { 1 });
        }
    }

    /// Idle readers block nobody, and leave no slot behind when they are dropped.
    #[test]
    fn idle_readers_hold_nothing_up() {
        let replicas = replicas_of(0);
        let reader_slots: Vec<_> = (0..5).map(|_| replicas.reader_slot()).collect();
        for round in 1..20 {
            assert!(set(&replicas, false, round));
            let read = reader_slots
                .iter()
                .skip(round as usize % 3)
                .map(|reader_slot| replicas.read(reader_slot, |&value| value));
            assert!(read.into_iter().all(|value| value == round));
        }
        drop(reader_slots);
        let _last = replicas.reader_slot();
        assert_eq!(lock(&replicas.reader_slots).len(), 1);
    }

    /// A reader gets the current replica and its count, whatever happens between its two looks.
    ///
    /// Tried are up to four publishes in between, and a writer that changes the very replica that the reader was to
    /// take.
    #[test]
    fn a_flip_between_two_looks_is_noticed() {
        for publish_count in 0..5 {
            let replicas = replicas_of(0);
            let mut looks = 0;
            let (at, copy) = replicas.now_after(|| {
                looks += 1;
                (1..=publish_count).filter(|_| looks == 1).for_each(|to| assert!(set(&replicas, false, to)));
            });
            assert_eq!((at, *copy, looks), (u64::from(publish_count), publish_count, 1 + u64::from(publish_count > 0)));
            drop(copy);
            // Publishes at every look but the last.
            let mut left = 3;
            let (at, copy) = replicas.now_after(|| {
                left -= 1;
                assert!(left == 0 || set(&replicas, false, 10 + left));
            });
            assert_eq!((at, *copy), (u64::from(publish_count) + 2, 11));
        }
        let replicas = &replicas_of(0);
        let (go, stopped) = mpsc::channel::<()>();
        let (inside, is_inside) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (mut looks, mut stopped) = (0, Some(stopped));
            let (at, copy) = replicas.now_after(|| {
                looks += 1;
                if let Some(stopped) = stopped.take() {
                    assert!(set(replicas, false, 1));
                    let inside = inside.clone();
                    scope.spawn(move || {
                        replicas.publish(true, |value, _| {
                            *value = 2;
                            inside.send(()).map_err(drop)?;
                            stopped.recv().map_err(drop)
                        })
                    });
                    is_inside.recv().expect("the writer comes there");
                }
            });
            assert_eq!((at, *copy, looks), (1, 1, 2));
            go.send(()).expect("the writer waits");
        });
        assert_eq!(replicas.now(), (2, Arc::new(2)));
    }

    /// Facts belong to one replica, whatever the writer does while they are read.
    #[test]
    fn facts_are_of_one_moment() {
        let replicas = LeftRight::new(0u32, 2, |_, _| {});
        let change = |to: u32| {
            let change = |_: &mut u32, facts: &Facts| facts.set(0, &[to.into(), to.into()]);
            replicas.publish(false, change).expect("nobody reads");
        };
        for publish_count in 0..5 {
            let mut looks = 0;
            let facts = replicas.query(|facts| {
                let [first] = facts.get(0);
                looks += 1;
                (1..=publish_count).filter(|_| looks == 1).for_each(change);
                let [second] = facts.get(1);
                (first, second)
            });
            let last = u64::from(if looks > 1 { publish_count } else { publish_count.saturating_sub(1) });
            assert_eq!((facts, looks), ((last, last), 1 + u32::from(publish_count > 0)));
        }
    }

    /// A batch that does not end is counted; readers between batches are not.
    #[test]
    fn batches_that_keep_a_copy_are_counted() {
        let replicas = &replicas_of(0);
        let idle = replicas.reader_slot();
        assert_eq!(replicas.read(&idle, |&value| value), 0);
        let reader_slot = replicas.reader_slot();
        replicas.read(&reader_slot, |_| {
            assert!(set(replicas, false, 1));
            assert_eq!((replicas.blocking(), set(replicas, false, 2)), (1, false));
        });
        assert_eq!((replicas.blocking(), set(replicas, false, 2)), (0, true));
    }

    /// A panic leaves nothing behind that others see or that blocks them.
    #[test]
    fn panics_do_not_spread() {
        let replicas = replicas_of(1);
        let reader_slot = replicas.reader_slot();
        let panics = |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
        assert!(panics(&|| replicas.read(&reader_slot, |_| panic!("a reader"))));
        assert!(panics(&|| drop(replicas.publish(true, |_, _| panic!("the writer")))));
        for to in 2..6 {
            assert!(set(&replicas, false, to));
            assert_eq!(replicas.read(&reader_slot, |&value| value), to);
        }
    }
}

#[cfg(all(test, loom))]
mod model;
