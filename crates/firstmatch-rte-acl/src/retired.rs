//! Log of the contexts whose tables were replaced, so that threads let go of old tables.
//!
//! A thread remembers the number of replacements that it has seen. At its next call it drops its own references to the
//! tables replaced since. Each replacement costs a thread one step, however many contexts it uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of replacements that are kept. A thread that has missed more looks at every table of its own once.
pub(crate) const ROOM: usize = 1024;

/// Cache line of its own, because each lookup reads it and other numbers beside it would be written.
#[repr(align(64))]
struct Line(AtomicU64);

/// Number of replacements so far.
static COUNT: Line = Line(AtomicU64::new(0));
/// Slots of the contexts of the last replacements: the one of number `n` is at `n % ROOM`.
static SLOTS: Mutex<[usize; ROOM]> = Mutex::new([0; ROOM]);

/// Returns the number of replacements so far, which may lag behind for other threads.
#[inline]
pub(crate) fn count() -> u64 {
    COUNT.0.load(Ordering::Relaxed)
}

/// Adds the slot of a context whose old table was marked as retired.
pub(crate) fn push(slot: usize) {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = count();
    slots[number as usize % ROOM] = slot;
    COUNT.0.store(number + 1, Ordering::Relaxed);
}

/// Returns the number of replacements, and the slots of those behind number `seen`; `None` if there were too many.
pub(crate) fn since(seen: u64) -> (u64, Option<Vec<usize>>) {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let now = count();
    let is_kept = now - seen <= ROOM as u64;
    (now, is_kept.then(|| (seen..now).map(|number| slots[number as usize % ROOM]).collect()))
}
