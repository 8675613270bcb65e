//! Caches in front of any classifier, which keep its answers in the scratch of a thread.
//!
//! A built engine stays immutable: all that a cache learns from traffic lies in a [`Scratch`](crate::Scratch) of fixed
//! size. A cache never changes an answer.
//!
//! # Which cache pays
//! It depends on what comes again. The definition `caches` of the lab has a table of both before three engines.
//!
//! | traffic | [flow cache](flow) | [rule cache](rule) |
//! |---|---|---|
//! | the same keys come again, as in flows | hits | hits where few rules have them |
//! | new keys of few rules, as in a scan of one network | misses | hits |
//! | new keys of many rules | misses | misses |
//! | many commits | misses after each | has to make its boxes anew after each |
//!
//! A hit saves the more, the slower the engine is and the fewer packets a call has. A cache that does not pay steps aside.
//! For example, 20 boxes hold 94 % of packets whose rules follow Zipf's law with exponent 2, in the median of 21 sets
//! (record of the paper Storm), and few of packets that are uniform over the rules.
//!
//! Before [live](crate::live) rules, a rule cache proves its boxes by
//! [`live::Engine::overlaps`](crate::live::Engine::overlaps).

pub mod flow;
mod generation;
mod misses;
pub mod rule;
mod trial;
