//! Caches in front of any classifier: what it answered is kept in the scratch of a thread and given again.
//!
//! A built engine stays immutable: whatever a cache learns from traffic lies in a [`Scratch`](crate::Scratch), of a fixed
//! size. A cache never changes an answer.

pub mod flow;
