//! Packet classification: finds, for every packet, the first rule that matches it.
//!
//! Lookups are as fast as memory allows while the rules change, and the library can explain each answer.
//!
//! ```
//! use firstmatch_core::rule::{ExpansionLimits, FieldValues, first_match, lower};
//! use firstmatch_core::engines::tuple::{Config, TupleMerge};
//! use firstmatch_core::{Classifier, KeyBuf};
//! use firstmatch_formats as format;
//!
//! // Text becomes rules on whole fields …
//! let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24 dport { 80, 443 }\n";
//! let file = format::parse(text, &format::Options::default())?;
//! // … rules become regions over words, and an engine is built from those.
//! let schema = &file.rules.schemas()[0];
//! let engine = TupleMerge::build(&lower(&file.rules, schema, &ExpansionLimits::default())?, &Config::default())?;
//!
//! // Packets are rows of words. Fill them yourself, or take the crate `firstmatch-net`.
//! let packet = FieldValues {
//!     family: schema.family(), // src, dst, sport, dport, proto
//!     values: vec![Some(0x0A00_0001), Some(0xC000_0207), Some(50_000), Some(443), Some(6)],
//! };
//! let mut keys = KeyBuf::new(schema);
//! keys.push_values(&packet);
//!
//! // One virtual call per batch; nothing is allocated once a thread has its scratch.
//! let mut scratch = engine.scratch();
//! let mut matches = vec![None; keys.len()];
//! engine.classify_batch(&mut scratch, keys.keys(), &mut matches);
//!
//! let found = matches[0].expect("the second rule");
//! assert_eq!(file.rules.get(found.rule).and_then(|rule| rule.line).map(u32::from), Some(3));
//! // The oracle says the same: it walks the rules, and every engine is tested against it.
//! assert_eq!(first_match(&file.rules, &packet).map(|rule| rule.id), Some(found.rule));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which engine when
//!
//! Take [`live`], because it chooses among the others, explains its choice, and takes changes beside readers that never
//! wait. Take another engine to make that choice yourself.
//!
//! | engine | lookup | rules change | take it for |
//! |---|---|---|---|
//! | [`live`] | that of the engine it has chosen | [`live::Writer`]: transactions, beside readers | everything |
//! | [`linear`](engines::linear) | every region, eight at a time | rebuild | a few dozen rules; memory to the byte |
//! | [`bit_select`](engines::bit_select) | one step and one block of eight regions in each of a few trees, in batches | rebuild | rules that do not change: fast, and little memory |
//! | [`bit_vector`](engines::bit_vector) | one search per key word, and the first bit of a few vectors | rebuild | up to a thousand or two rules of any kind |
//! | [`cut_tree`](engines::cut_tree) (HiCuts, HyperCuts) | one walk to a short list in each of up to four trees | rebuild | comparison with the classics, within memory that you set |
//! | [`rfc`](mod@engines::rfc) | one search per key word, and a fixed number of table reads | rebuild | rules that do not change, where speed is worth much memory |
//! | [`bitmap_rfc`](engines::rfc::Config::bitmap) | the same, with runs of equal entries under bitmaps | rebuild | as `rfc`, in a fraction of its memory |
//! | [`decomposition`](mod@engines::decomposition) | one search per field, and the first rule that all have in common | rebuild | comparison with the paper, over many fields |
//! | [`set_pairs`](mod@engines::set_pairs) | one search in each of two fields, and a probe for each pair of groups | rebuild | policies of thousands of rules on groups |
//! | [`interval_tree`](engines::interval_tree) (Npf) | one search per key word, in trees that turn with the traffic | rebuild | comparison with the thesis; skewed traffic, few packets at a time |
//! | [`tuple`](mod@engines::tuple) (TupleMerge, Tuple Space Search) | probes of the tables that can match, in batches | [`Updatable`]: insert and remove | rules that change |
//! | [`partition_sort`](engines::partition_sort) (PartitionSort) | one walk down a tree in each of a few partitions | [`Updatable`]: insert and remove | rules of ranges, which single bits hardly tell apart |
//!
//! [`cache::flow`] goes in front of any of them, for traffic whose keys come again. For example, the later packets of a
//! flow are answered from the cache.
//!
//! # The themes
//!
//! - **Rules**: [`schema`] (fields and their key words), [`rule`] (rules, sets, lowering, the oracle),
//!   [`policy`] (verdicts for packets that no rule decides).
//! - **Looking up**: [`KeyBuf`] and [`Keys`] (batches of rows), [`Classifier`] (any engine, object safe), [`Scratch`]
//!   (state that a thread's lookups write to), [`Match`], [`Stats`].
//! - **Changing rules beside readers**: [`live::open`] gives an engine for each schema, whose clones go to the threads
//!   that look up, and one [`live::Writer`]. Its [`live::Transaction`] inserts, removes and replaces rules, all or
//!   nothing, and a commit begins a new generation. Any thread can run a [`live::RebuildJob`]. The
//!   [`live::CounterShard`] counts packets and bytes by rule. An [`Updatable`] engine has one owner and is not shared.
//! - **Writing an engine**: implement [`Engine`]; [`Classifier`] comes with it.
//!
//! # The standard library
//!
//! The crate needs `std`: `live` has locks, `select` times candidates by a clock, hash functions get their seeds from
//! the system, and instruction sets are detected at run time. Engines alone could do with `alloc`, but each of these
//! would then be built in two ways.
//!
//! # Unsafe code
//!
//! Unsafe code is in [`raw`] alone: vector instructions behind tokens that prove the machine has them, prefetches,
//! casts from cache lines to words and to known types, and a lock that no thread waits for. Everything is compiled and
//! tested without vector instructions too.
#![deny(unsafe_code)]

pub mod analyze;
pub mod cache;
mod counters;
mod engine;
pub mod engines;
mod error;
mod key;
pub mod live;
pub mod policy;
pub mod raw;
mod records;
pub mod rule;
pub mod schema;
pub mod select;
#[cfg(test)]
mod test_rules;

pub use engine::budget::Budget;
pub use engine::{Classifier, Engine, Match, NamedCounts, Overlaps, Probe, Scratch, Stats, Updatable};
pub use error::{BuildError, Diagnostic, UpdateError};
pub use key::{KeyBuf, Keys};
pub use policy::{Policy, Verdict};
pub use records::{LayoutError, Location, RecordLayout, ShortRecordError};
pub use rule::{RuleId, RuleSet};
pub use schema::Schema;
