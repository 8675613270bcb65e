//! Waiting of threads: a bounded spin, then a block that another thread ends.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Number of looks at a condition before a thread blocks, if every thread has a core.
const SPINS: u32 = 256;
/// Number of looks before a thread blocks if threads share cores, each after giving the core away.
const YIELDS: u32 = 4;

/// Manner of waiting before a thread blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spin {
    /// Looks again at once, because the awaited thread runs on another core.
    Loop,
    /// Gives the core away first, because the awaited thread may need it.
    Yield,
}

impl Spin {
    /// Returns the manner for `threads` threads on `cores` cores.
    pub(super) fn of(threads: usize, cores: usize) -> Self {
        if threads > cores { Self::Yield } else { Self::Loop }
    }
}

/// Place where one thread waits until a condition holds, and where others tell it to look again.
///
/// # Invariants
/// - No wake-up is lost. The waiting thread sets `asleep` before it looks at the condition for the last time. The
///   waking thread changes the condition before it looks at `asleep`. A sequentially consistent fence stands between
///   the two steps on both sides, so at least one thread sees the other's step (`tests::nobody_sleeps_for_ever`).
#[derive(Debug, Default)]
pub(super) struct Bell {
    asleep: AtomicBool,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Bell {
    /// Waits until `ready` returns true.
    ///
    /// Returns whether the thread blocked. Every change of the condition must be followed by [`Bell::ring`].
    pub(super) fn wait(&self, spin: Spin, mut ready: impl FnMut() -> bool) -> bool {
        let looks = if spin == Spin::Loop { SPINS } else { YIELDS };
        for _ in 0..looks {
            if ready() {
                return false;
            }
            match spin {
                Spin::Loop => spin_loop(),
                Spin::Yield => thread::yield_now(),
            }
        }
        let mut guard = lock(&self.lock);
        loop {
            self.asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if ready() {
                self.asleep.store(false, Ordering::Relaxed);
                return true;
            }
            guard = self.woken.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes the waiting thread look again, if there is one.
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            // With the lock the thread is either before its last look, or waits to be woken.
            let _guard = lock(&self.lock);
            self.asleep.store(false, Ordering::Relaxed);
            self.woken.notify_all();
        }
    }
}

/// Locks a mutex, also after a panic of another holder, because no panic of ours leaves data half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Two threads hand a number back and forth; a lost wake-up would hang the test.
    #[test]
    fn nobody_sleeps_for_ever() {
        for spin in [Spin::Loop, Spin::Yield] {
            let (number, bells) = (AtomicU64::new(0), [Bell::default(), Bell::default()]);
            let play = |side: u64| {
                for turn in (side..20_000).step_by(2) {
                    bells[side as usize].wait(spin, || number.load(Ordering::Acquire) == turn);
                    number.store(turn + 1, Ordering::Release);
                    bells[1 - side as usize].ring();
                }
            };
            thread::scope(|scope| {
                scope.spawn(|| play(0));
                scope.spawn(|| play(1));
            });
            assert_eq!(number.into_inner(), 20_000);
        }
    }

    #[test]
    fn threads_yield_where_cores_are_fewer() {
        assert_eq!([Spin::of(2, 2), Spin::of(3, 2), Spin::of(1, 2)], [Spin::Loop, Spin::Yield, Spin::Loop]);
    }
}
