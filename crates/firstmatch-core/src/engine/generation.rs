//! Numbers for states of rules, which tell whether a scratch was made for the present rules.

use std::sync::atomic::{AtomicU64, Ordering};

/// Returns a number that no other engine, and no other state of an engine's rules, has had.
///
/// An engine whose scratch holds data of its rules takes a number when it is built, and stores it in each scratch that
/// it makes. Its [`fits`](crate::Engine::fits) compares the two, so that a scratch of other rules is renewed.
pub(crate) fn fresh_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // A thread that takes a number sees all changes that other threads made before they took earlier ones.
    NEXT.fetch_add(1, Ordering::AcqRel)
}
