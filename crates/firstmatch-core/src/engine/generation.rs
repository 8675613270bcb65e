//! Numbers for states of rules, which tell whether a scratch was made for the present rules.

use std::sync::atomic::{AtomicU64, Ordering};

/// Returns a number that no other engine, and no other state of an engine's rules, has had.
///
/// An engine whose scratch keeps something of its rules takes a number when it is built, and notes it in each scratch
/// that it makes. Its [`fits`](crate::Engine::fits) compares the two, so that a scratch of other rules is renewed.
pub(crate) fn fresh_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // A thread that takes a later number sees the changes that an earlier one was taken for.
    NEXT.fetch_add(1, Ordering::AcqRel)
}
