//! Lock that no thread waits for.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use super::sync::{AtomicBool, UnsafeCell};

/// Value for one thread at a time; a thread that finds it locked does something else.
///
/// Locking is one atomic exchange and unlocking a store. A mutex takes two exchanges, because it has to wake those who
/// wait. If the holder of a lock panics, the value is unlocked as it is.
///
/// # Invariants
///
/// - At most one guard exists at a time (`tests/model.rs`).
#[derive(Debug)]
pub(crate) struct TryLock<T> {
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: threads get the value one after the other, as from a mutex, and `Acquire` and `Release` order their accesses.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { is_locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Returns the value until the guard is dropped; `None` if it is locked.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<TryLockGuard<'_, T>> {
        self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: it was not locked, and only the guard's drop unlocks it, so that there is no other reference.
        let value = unsafe { &mut *self.value.get() };
        Some(TryLockGuard { is_locked: &self.is_locked, value })
    }
}

/// Exclusive access to the value of a [`TryLock`].
#[derive(Debug)]
pub(crate) struct TryLockGuard<'a, T> {
    is_locked: &'a AtomicBool,
    value: &'a mut T,
}

impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for TryLockGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.is_locked.store(false, Ordering::Release);
    }
}
