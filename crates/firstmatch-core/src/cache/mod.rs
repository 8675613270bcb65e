//! Caches in front of any classifier, which keep its answers in the scratch of a thread.
//!
//! A built engine stays immutable: all that a cache learns from traffic lies in a [`Scratch`](crate::Scratch) of fixed
//! size. A cache never changes an answer.
//!
//! # Which cache pays
//! It depends on which packets come again. The definition `caches` of the lab measures both before three engines.
//!
//! | traffic | [flow cache](flow) | [rule cache](rule) |
//! |---|---|---|
//! | the same keys come again, as in flows | hits | hits where few rules have them |
//! | new keys of few rules, as in a scan of one network | misses | hits |
//! | new keys of many rules | misses | misses |
//! | many commits | misses after each | has to make its boxes anew after each |
//!
//! A hit saves the more, the slower the engine is and the fewer packets a call has. A cache that does not pay steps
//! aside. The table has the ns of a lookup in 1,000 rules, in batches of 32: of the engine alone, behind 24 boxes, and
//! behind a flow cache. Each pass begins with an empty cache, so it includes the cost of learning, and the noise floor
//! is up to 24 % (definition `caches`).
//!
//! | traffic | `bit_select` | tree, one by one | `linear` |
//! |---|---|---|---|
//! | uniform over the rules | 9, 18, 10 | 47, 56, 51 | 209, 209, 187 |
//! | Zipf 1.0 over the rules, new keys | 13, 20, 13 | 54, 64, 52 | 202, 263, 189 |
//! | Zipf 1.4 | 13, 20, 14 | 51, 42, 53 | 236, 137, 184 |
//! | Zipf 2.0 | 9, 16, 12 | 46, 26, 50 | 277, 88, 183 |
//! | flows | 12, 19, 13 | 50, 58, 25 | 196, 256, 65 |
//!
//! So boxes pay before an engine slower than some 30 ns, if few rules match most packets; before `bit_select` they do
//! not.
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
