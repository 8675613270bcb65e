//! Caches in front of any classifier, which keep its answers in the scratch of a thread.
//!
//! A built engine stays immutable: all that a cache learns from traffic lies in a [`Scratch`](crate::Scratch) of fixed
//! size. A cache never changes an answer.

pub mod flow;
mod generation;
mod misses;
pub mod rule;
mod trial;
