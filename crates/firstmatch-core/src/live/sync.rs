//! Locks and atomics of [`left_right`](super::left_right): the standard library's or `loom`'s.
//!
//! `loom`'s types explore every order of their operations.

#[cfg(all(loom, test))]
pub(super) use explored::*;
#[cfg(not(all(loom, test)))]
pub(super) use standard::*;

#[cfg(not(all(loom, test)))]
mod standard {
    pub(in crate::live) use std::sync::atomic::AtomicU64;
    pub(in crate::live) use std::sync::{Arc, Mutex, MutexGuard, RwLock};
    use std::time::Duration;
    use std::{hint, thread};

    /// Number of waiting rounds between two scans of the reader slots.
    pub(in crate::live) const LOOK: u32 = 32;
    /// Number of waiting rounds in which the writer spins.
    ///
    /// Batches take microseconds, and a writer that yields may lose its core to another thread for milliseconds. A
    /// batch that takes longer was itself interrupted, so the writer must not burn a core on it.
    const SPINS: u32 = 1024;
    const YIELDS: u32 = SPINS + 100;

    /// Waits briefly: spins in early rounds, then yields, then sleeps.
    pub(in crate::live) fn pause(round: u32) {
        match round {
            ..SPINS => hint::spin_loop(),
            SPINS..YIELDS => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(50)),
        }
    }

    pub(in crate::live) fn clear_poison<T>(mutex: &Mutex<T>) {
        mutex.clear_poison();
    }
}

#[cfg(all(loom, test))]
mod explored {
    pub(in crate::live) use loom::sync::atomic::AtomicU64;
    pub(in crate::live) use loom::sync::{Arc, Mutex, MutexGuard, RwLock};

    pub(in crate::live) const LOOK: u32 = 1;

    pub(in crate::live) fn pause(_round: u32) {
        loom::thread::yield_now();
    }

    /// Does nothing, because a model ends at a panic.
    pub(in crate::live) fn clear_poison<T>(_mutex: &Mutex<T>) {}
}
