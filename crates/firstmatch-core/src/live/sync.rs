//! Locks and atomics of [`left_right`](super::left_right); its model uses the ones of `loom` instead.

pub(super) use std::sync::atomic::AtomicU64;
pub(super) use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;
use std::{hint, thread};

pub(super) use crate::raw::TryLock;

/// Number of waiting rounds between two scans of the reader slots.
pub(super) const LOOK: u32 = 32;
/// Number of waiting rounds in which the writer spins.
///
/// Batches take microseconds, and a writer that yields may lose its core to another thread for milliseconds. A
/// batch that takes longer was itself interrupted, so the writer must not burn a core on it.
const SPINS: u32 = 1024;
const YIELDS: u32 = SPINS + 100;

/// Waits briefly: spins in early rounds, then yields, then sleeps.
pub(super) fn pause(round: u32) {
    match round {
        ..SPINS => hint::spin_loop(),
        SPINS..YIELDS => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(50)),
    }
}
