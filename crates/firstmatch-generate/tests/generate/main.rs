//! Tests of the crate: what is generated is as its profile says, and the same bytes for the same seed.
//!
//! `rules`, `core`, `profiles` and `classbench` are about rules, `attack` about hostile ones, `write` about their text.
//! `policy` is about rules on groups. `keys`, `packets` and `trace` are about packets. `churn` changes generated rules, and `cached` does so beside rule
//! caches.

use firstmatch_testkit::counter::Counting;

mod attack;
mod cached;
mod churn;
mod classbench;
mod common;
mod core;
mod keys;
mod packets;
mod policy;
mod profiles;
mod rules;
mod trace;
mod write;

#[global_allocator]
static COUNTING: Counting = Counting;
