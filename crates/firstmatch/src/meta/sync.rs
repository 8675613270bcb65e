//! What [`twin`](super::twin) synchronizes with: the standard library's types, or `loom`'s, which explore every order of
//! their operations.

#[cfg(all(loom, test))]
pub(super) use explored::*;
#[cfg(not(all(loom, test)))]
pub(super) use standard::*;

#[cfg(not(all(loom, test)))]
mod standard {
    pub(in crate::meta) use std::sync::atomic::AtomicU64;
    pub(in crate::meta) use std::sync::{Arc, Mutex, MutexGuard, RwLock};
    use std::time::Duration;
    use std::{hint, thread};

    /// Between two looks at the readers' seats.
    pub(in crate::meta) const LOOK: u32 = 32;
    /// Batches take microseconds: so often the writer looks again at once, so as not to lose its core to another thread
    /// for milliseconds. A batch that takes longer is itself held up, and must not cost a core.
    const SPINS: u32 = 1024;
    const YIELDS: u32 = SPINS + 100;

    /// Waits a little, from some round on longer.
    pub(in crate::meta) fn pause(round: u32) {
        match round {
            ..SPINS => hint::spin_loop(),
            SPINS..YIELDS => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(50)),
        }
    }

    pub(in crate::meta) fn clear_poison<T>(mutex: &Mutex<T>) {
        mutex.clear_poison();
    }
}

#[cfg(all(loom, test))]
mod explored {
    pub(in crate::meta) use loom::sync::atomic::AtomicU64;
    pub(in crate::meta) use loom::sync::{Arc, Mutex, MutexGuard, RwLock};

    pub(in crate::meta) const LOOK: u32 = 1;

    pub(in crate::meta) fn pause(_round: u32) {
        loom::thread::yield_now();
    }

    /// A model does not go on after a panic.
    pub(in crate::meta) fn clear_poison<T>(_mutex: &Mutex<T>) {}
}
