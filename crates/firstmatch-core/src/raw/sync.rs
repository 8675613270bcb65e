//! Types that [`try_lock`](super::try_lock) is made of; its model has those of `loom`.

pub(super) use std::cell::UnsafeCell;
pub(super) use std::sync::atomic::AtomicBool;
