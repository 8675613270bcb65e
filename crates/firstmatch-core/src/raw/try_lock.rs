//! Lock that no thread waits for.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use super::sync::{AtomicBool, UnsafeCell};

/// Value for one thread at a time; a thread that finds it locked does something else.
///
/// Locking is one atomic exchange and unlocking a store. A mutex takes two exchanges, because it has to wake waiting
/// threads. If the holder of a lock panics, the value is unlocked as it is.
///
/// # Invariants
///
/// - At most one guard exists at a time (`tests/harness/model.rs`).
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
        Some(TryLockGuard { lock: self, access: PhantomData })
    }
}

/// Exclusive access to the value of a [`TryLock`].
///
/// It holds no reference to the value, because the reference would outlive the release of the lock.
#[derive(Debug)]
pub(crate) struct TryLockGuard<'a, T> {
    lock: &'a TryLock<T>,
    /// Makes the guard `Send` and `Sync` under the same conditions as an exclusive reference.
    access: PhantomData<&'a mut T>,
}

impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this is the only guard, and it is shared as long as the reference lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for TryLockGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only guard, and it is borrowed as long as the reference lives.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.is_locked.store(false, Ordering::Release);
    }
}
