//! Something that exists twice: readers take one copy, the writer changes the other, then they change places.
//!
//! A reader has a [`Seat`] of its own, which keeps the copy it used last. To read it locks its own seat, which nobody
//! else wants but for moments, sees by one number that no flip has happened since, and is there: no word that other
//! readers write to is touched. The writer takes idle copies out of the seats of readers that are not reading, so
//! nobody has to say that he stops. A lock is never waited for by a reader: what it finds taken, it goes around.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};
use std::time::Duration;
use std::{hint, thread};

/// Two copies, and which of them readers take.
#[derive(Debug)]
pub(super) struct Twin<T> {
    /// Tells twins apart.
    id: u64,
    /// Readers hold a lock on one only to take what is in it.
    copies: [Apart<RwLock<Arc<T>>>; 2],
    /// How often the copies changed places; the lowest bit is the copy that readers take.
    flips: Apart<AtomicU64>,
    seats: Mutex<Vec<Weak<Seat<T>>>>,
}

/// A reader's place.
#[derive(Debug)]
pub(super) struct Seat<T> {
    twin: u64,
    /// The copy used last, and the number of flips then.
    held: Apart<Mutex<Option<Held<T>>>>,
}

type Held<T> = (u64, Arc<T>);
type Taken<'a, T> = TryLockError<MutexGuard<'a, Option<Held<T>>>>;

/// On a cache line of its own, so that who looks at it does not wait for what others write beside it.
#[derive(Debug)]
#[repr(align(64))]
struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A batch is in progress on the copy that would be changed.
#[derive(Debug)]
pub(super) struct Busy;

/// Batches take microseconds: so often the writer looks again at once, so as not to lose its core to another thread for
/// milliseconds. A batch that takes longer is itself held up, and must not cost a core.
const SPINS: u32 = 1024;
const YIELDS: u32 = SPINS + 100;
/// Between two looks at the readers' seats.
const LOOK: u32 = 32;

static TWINS: AtomicU64 = AtomicU64::new(0);

impl<T: Clone> Twin<T> {
    /// Bytes that it takes behind an `Arc`.
    pub(super) const SHARED: usize = ARC.next_multiple_of(align_of::<Self>()) + size_of::<Self>();

    pub(super) fn new(of: T) -> Self {
        let copies = [of.clone(), of].map(|of| Apart(RwLock::new(Arc::new(of))));
        let id = TWINS.fetch_add(1, Ordering::Relaxed);
        Self { id, copies, flips: Apart(AtomicU64::new(0)), seats: Mutex::new(Vec::new()) }
    }

    pub(super) fn seat(&self) -> Arc<Seat<T>> {
        let seat = Arc::new(Seat { twin: self.id, held: Apart(Mutex::new(None)) });
        let mut seats = lock(&self.seats);
        seats.retain(|seat| seat.strong_count() > 0);
        seats.push(Arc::downgrade(&seat));
        seat
    }

    pub(super) fn has(&self, seat: &Seat<T>) -> bool {
        seat.twin == self.id
    }

    /// Hands out the copy of now, the same from start to end. The seat must be of this twin.
    #[inline(always)]
    pub(super) fn read<R>(&self, seat: &Seat<T>, read: impl FnOnce(&T) -> R) -> R {
        debug_assert!(self.has(seat));
        match seat.held.try_lock() {
            Ok(mut held) => {
                let flips = self.flips.load(Ordering::Acquire);
                let copy = match &mut *held {
                    Some((at, copy)) if *at == flips => copy,
                    old => self.renewed(old),
                };
                read(copy)
            }
            Err(taken) => read(&self.apart(seat, &taken)),
        }
    }

    /// The copy of now where the seat was not to be had: the writer is looking whether it can have what that keeps back, or
    /// a batch was stopped that had it. What it keeps is whole, whatever stopped that.
    #[cold]
    #[inline(never)]
    fn apart(&self, seat: &Seat<T>, taken: &Taken<'_, T>) -> Arc<T> {
        if let TryLockError::Poisoned(_) = taken {
            seat.held.clear_poison();
        }
        self.now().1
    }

    #[cold]
    #[inline(never)]
    fn renewed<'h>(&self, held: &'h mut Option<Held<T>>) -> &'h Arc<T> {
        &held.insert(self.now()).1
    }

    /// How often the copies changed places.
    pub(super) fn flips(&self) -> u64 {
        self.flips.load(Ordering::Acquire)
    }

    /// The copy of now, and the number of flips.
    pub(super) fn now(&self) -> (u64, Arc<T>) {
        self.now_after(|| ())
    }

    /// The same, with something done between the look at the flips and at the copy.
    #[inline(always)]
    fn now_after(&self, mut between: impl FnMut()) -> (u64, Arc<T>) {
        loop {
            let flips = self.flips.load(Ordering::Acquire);
            between();
            // Taken only if the writer has flipped since and works on this copy: then the other one is free.
            let copy = match self.copies[(flips & 1) as usize].try_read() {
                Ok(copy) => Arc::clone(&copy),
                Err(TryLockError::Poisoned(copy)) => Arc::clone(&copy.into_inner()),
                Err(TryLockError::WouldBlock) => continue,
            };
            // If it has flipped since, this copy may have been changed and not be that of now yet.
            if self.flips.load(Ordering::Acquire) == flips {
                return (flips, copy);
            }
        }
    }

    /// Changes the copy that no reader takes and, unless that fails, has readers take it from then on. One caller at a time.
    ///
    /// # Errors
    /// [`Busy`] where a batch in progress has the copy and `wait` is false. Those of the change: it has to have left the
    /// copy fit to be changed again.
    pub(super) fn flip<R, E>(
        &self,
        wait: bool,
        change: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> Result<Result<R, E>, Busy> {
        let flips = self.flips.load(Ordering::Acquire);
        let mut idle = self.copies[(flips & 1 ^ 1) as usize].write().unwrap_or_else(PoisonError::into_inner);
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
            match rounds {
                ..SPINS => hint::spin_loop(),
                SPINS..YIELDS => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(50)),
            }
        }
        let Some(copy) = Arc::get_mut(&mut idle) else { return Err(Busy) };
        let result = change(copy);
        // First, so that nobody finds the copy of now locked, wherever the writer is stopped.
        drop(idle);
        if result.is_ok() {
            self.flips.store(flips + 1, Ordering::Release);
        }
        Ok(result)
    }

    /// Takes an idle copy from the seats whose readers are not reading.
    fn take_back(&self, idle: &Arc<T>) {
        let mut seats = lock(&self.seats);
        seats.retain(|seat| {
            let Some(seat) = seat.upgrade() else { return false };
            let held = match seat.held.try_lock() {
                Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
                held => held.ok(),
            };
            if let Some(mut held) = held
                && held.as_ref().is_some_and(|(_, copy)| Arc::ptr_eq(copy, idle))
            {
                *held = None;
            }
            true
        });
    }

    /// Both copies, the one that readers take first; waits for a change that is being made.
    pub(super) fn copies(&self) -> [Arc<T>; 2] {
        let copies = [0, 1].map(|at| Arc::clone(&self.copies[at].read().unwrap_or_else(PoisonError::into_inner)));
        let [a, b] = copies;
        if self.flips.load(Ordering::Acquire) & 1 == 0 { [a, b] } else { [b, a] }
    }

    /// Bytes on the heap, but for what is in the copies themselves, and the list of seats: that is the readers'.
    pub(super) fn bytes(&self) -> usize {
        2 * (ARC + size_of::<T>())
    }
}

/// What is allocated beside the value of an `Arc`: two counts.
pub(super) const ARC: usize = 2 * size_of::<usize>();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn set(twin: &Twin<u32>, wait: bool, to: u32) -> bool {
        twin.flip(wait, |value| {
            *value = to;
            Ok::<_, ()>(())
        })
        .is_ok()
    }

    /// The writer stands still inside a change, and readers go on.
    #[test]
    fn readers_never_wait() {
        let twin = &Twin::new(1);
        let (go, stopped) = mpsc::channel::<()>();
        let (inside, is_inside) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                twin.flip(true, |value| {
                    *value = 2;
                    inside.send(()).map_err(drop)?;
                    stopped.recv().map_err(drop)
                })
            });
            is_inside.recv().expect("the writer comes there");
            let reader = || {
                let seat = twin.seat();
                (0..500_000).filter(|_| twin.read(&seat, |&value| value == 1)).count()
            };
            let readers = [scope.spawn(reader), scope.spawn(reader)];
            assert_eq!(readers.map(|reader| reader.join().expect("no panic")), [500_000; 2]);
            go.send(()).expect("the writer waits");
        });
        assert_eq!(twin.read(&twin.seat(), |&value| value), 2);
    }

    /// A reader stands still inside a batch: one change finds the other copy free, the next has to wait or says so.
    #[test]
    fn a_batch_keeps_its_copy() {
        let twin = &Twin::new(1);
        let (go, stopped) = mpsc::channel::<()>();
        let (inside, is_inside) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let seat = twin.seat();
                let first = twin.read(&seat, |&value| {
                    inside.send(()).expect("the test waits");
                    stopped.recv().expect("the test goes on");
                    value
                });
                (first, twin.read(&seat, |&value| value))
            });
            is_inside.recv().expect("the reader comes there");
            assert!(set(twin, false, 2));
            assert!(!set(twin, false, 3) && !set(twin, false, 4));
            assert_eq!(twin.read(&twin.seat(), |&value| value), 2);
            let writer = scope.spawn(move || set(twin, true, 5));
            thread::sleep(Duration::from_millis(20));
            assert!(!writer.is_finished(), "the copy is in use");
            go.send(()).expect("the reader waits");
            assert!(writer.join().expect("no panic"));
            let (first, second) = reader.join().expect("no panic");
            assert!(first == 1 && (second == 2 || second == 5), "{first}, {second}");
        });
    }

    /// Readers that are not reading are in nobody's way, and leave nothing behind when they go.
    #[test]
    fn idle_readers_hold_nothing_up() {
        let twin = Twin::new(0);
        let seats: Vec<_> = (0..5).map(|_| twin.seat()).collect();
        for round in 1..20 {
            assert!(set(&twin, false, round));
            let read = seats.iter().skip(round as usize % 3).map(|seat| twin.read(seat, |&value| value));
            assert!(read.into_iter().all(|value| value == round));
        }
        drop(seats);
        let _last = twin.seat();
        assert_eq!(lock(&twin.seats).len(), 1);
    }

    /// Whatever happens between a reader's look at the flips and at the copy, it has the copy of now and its number: after
    /// a flip, after two, and while the writer changes the very copy that it was going to take.
    #[test]
    fn a_flip_between_two_looks_is_noticed() {
        for flips in 0..5 {
            let twin = Twin::new(0);
            let mut looks = 0;
            let (at, copy) = twin.now_after(|| {
                looks += 1;
                (1..=flips).filter(|_| looks == 1).for_each(|to| assert!(set(&twin, false, to)));
            });
            assert_eq!((at, *copy, looks), (u64::from(flips), flips, 1 + u64::from(flips > 0)));
            drop(copy);
            // Flips at every look but the last.
            let mut left = 3;
            let (at, copy) = twin.now_after(|| {
                left -= 1;
                assert!(left == 0 || set(&twin, false, 10 + left));
            });
            assert_eq!((at, *copy), (u64::from(flips) + 2, 11));
        }
        let twin = &Twin::new(0);
        let (go, stopped) = mpsc::channel::<()>();
        let (inside, is_inside) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (mut looks, mut stopped) = (0, Some(stopped));
            let (at, copy) = twin.now_after(|| {
                looks += 1;
                if let Some(stopped) = stopped.take() {
                    assert!(set(twin, false, 1));
                    let inside = inside.clone();
                    scope.spawn(move || {
                        twin.flip(true, |value| {
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
        assert_eq!(twin.now(), (2, Arc::new(2)));
    }

    #[test]
    fn a_change_that_fails_is_not_seen() {
        let twin = Twin::new(1);
        let failed = twin.flip(true, |value| {
            *value = 7;
            *value = *twin.now().1;
            Err::<(), _>("no")
        });
        assert_eq!(failed.map_err(|Busy| ()), Ok(Err("no")));
        assert_eq!(twin.read(&twin.seat(), |&value| value), 1);
    }

    /// What a panic leaves behind is neither seen nor in the way.
    #[test]
    fn panics_do_not_spread() {
        let twin = Twin::new(1);
        let seat = twin.seat();
        let panics = |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
        assert!(panics(&|| twin.read(&seat, |_| panic!("a reader"))));
        assert!(panics(&|| drop(twin.flip(true, |_| -> Result<(), ()> { panic!("the writer") }))));
        for to in 2..6 {
            assert!(set(&twin, false, to));
            assert_eq!(twin.read(&seat, |&value| value), to);
        }
    }
}
