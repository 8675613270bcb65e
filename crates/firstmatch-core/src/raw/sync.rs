//! Types of which [`try_lock`](super::try_lock) is made; its model uses the types of `loom`.

pub(super) use std::cell::UnsafeCell;
pub(super) use std::sync::atomic::AtomicBool;
