//! `meta`, the recommended engine: picks a base for the rules, which may change while readers look up.
//!
//! ```
//! use firstmatch_core::live::{self, Config};
//! use firstmatch_core::rule::{Priority, RuleSpec};
//! use firstmatch_core::{Classifier, KeyBuf};
//! use firstmatch_formats as format;
//!
//! let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
//! let rules = format::parse(text, &format::Options::default())?.rules;
//! let (engines, mut writer) = live::open(rules, &Config::default())?;
//! let engine = engines[0].clone(); // one a schema; clones go to the threads that look up
//!
//! // What changes together is committed together.
//! let spec = writer.rules().iter().next().expect("two rules").spec.clone();
//! let between = Priority::between(Priority::of_line(2), Priority::of_line(3)).expect("there is room");
//! let mut transaction = writer.begin();
//! let id = transaction.insert(RuleSpec { priority: between, ..spec })?;
//! let generation = transaction.commit()?;
//! assert_eq!((generation, engine.generation()), (1, 1));
//!
//! // Now and then the base is built anew, by any thread.
//! if writer.rebuild_is_due() {
//!     let rebuilt = writer.begin_rebuild().run()?;
//!     let _old = writer.install(rebuilt)?; // to be dropped on that thread too
//! }
//! # assert!(writer.rules().get(id).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Idea
//! The *base* is the engine that gives most answers. Every kind of [`Kind::ALL`] that fits the budget and the limits is
//! built. The candidates are compared on several sorts of [`Traffic`], because the packets to come are not known. These
//! are keys from the rules, from their edges, behind the widest rules, uniform keys and keys that no rule holds.
//!
//! All candidates are timed side by side on each sort, in batches of 256 keys. A base chosen in this way may take twice
//! as long as another for single packets. Callers that look up one packet at a time should set [`Config::calls`], so
//! that single keys are timed.
//!
//! After one round, candidates far slower are timed no further. A candidate's *worst ratio* is its time divided by the
//! time of the fastest candidate, on the sort where this quotient is largest. The least worst ratio wins; among
//! candidates within 5 % of it, the first by order. A few regions get `linear` without a comparison.
//!
//! For example, with `permit tcp` before 10,000 rules, `linear` ends at the first region for a TCP packet, but may test
//! all regions for another packet. [`Engine::explain`] lists the times, and the refused candidates with the reasons.
//!
//! The worst case counts, too. By default a base of at most 4,096 tests and 8,192 lines is preferred. A base with a
//! hundred times another's tests has to be twice as fast on every sort ([`Limits`]); if its lookups touch fewer lines
//! than they make tests, the lines count instead. Memory counts as well: a base above 1 MiB with four times another's
//! bytes has to be more than twice as fast on some sort.
//!
//! A rebuild keeps the kind until the number of regions has more than doubled or halved since the choice. It also
//! chooses anew if a wide rule that the choice rested on is gone, or if a new rule holds most keys. A kind can be
//! [forced](Strategy::Force), or [nothing](Strategy::FirstFit) is compared at all, so that the same rules always have
//! the same base.
//!
//! A [`Front`] may answer before the base: an engine of the caller's choice, built over the same rules. The base is
//! then asked only for keys whose answer has a tombstone.
//!
//! ## Changes
//! `bit_select` changes *in place*, in the idle replica. Rules that it cannot take, and rules inserted into another
//! base, go to the *overlay*, a TupleMerge of bounded size. Rules that cannot be taken out of a base get a tombstone.
//! In a base that stays as it was built, the very rule that was removed comes back by losing its tombstone.
//!
//! A lookup asks the base as it is. A key whose answer has a tombstone is looked up again, past rules with tombstones,
//! so that the rules they hid are found.
//!
//! Then the overlay is asked for the keys that it may have a match for. A *filter* finds these keys. It has a bit for
//! each value of the bits that the base's own trees select; the bit is set if a region of the overlay has keys with
//! that value. Keys of both kinds are few, so changes cost lookups little.
//!
//! A *rebuild* makes a new base from the current rules. Counts decide when it is due, never a clock:
//! - The overlay holds a few per cent of the rules ([`Config::due`]).
//! - Too many rules of the base are dead ([`Config::dead`]).
//! - Half as many rules as the base has were inserted or removed in place ([`Config::in_place`]), or it has little room
//!   left.
//! - Fewer than half of the rules are left, or a wide rule that the choice rested on is gone.
//!
//! The owner runs the [`RebuildJob`] on any thread, while changes go on. The job starts from the old rules and a log of
//! changes, both shared and not copied. Before it ends, it applies the changes made meanwhile to the new base and a new
//! overlay. So only the last few changes are left to apply when it is installed, and the old base is handed back to be
//! dropped elsewhere. An overlay thus grows by the updates made during one or two rebuilds; once it is full, insertions
//! into it are refused until a rebuild is installed.
//!
//! A transaction of more insertions than an overlay can ever hold is committed over new bases instead, which the commit
//! builds. For example, 6,000 rules appended to 1,000 at once are one generation and one rebuild, because an overlay
//! over 1,000 rules holds 1,024. A family whose rules the transaction leaves as they were built keeps its base.
//!
//! Rules that test [live sets](crate::rule::LiveSets) are in no base. They are looked up last, in trees of addresses
//! that a change of a member alters where the member is, in both replicas (`sets`). A lookup skips them if its match
//! comes before all of them.
//!
//! A [flow cache](crate::cache::flow) or another cache of answers notices a commit by
//! [`Engine::version`](crate::Engine::version).
//!
//! ## Replicas
//! Tombstones, filter, overlay and the base's handle have two replicas; the base itself has a second one once something
//! in it changes. Readers use one replica. A commit changes the other, publishes it, and keeps the changes as a backlog
//! for the first. Replicas stay alike, because a change depends on nothing but the replica and the change. A batch uses
//! one replica from start to end, hence one generation.
//!
//! Queries ([`Engine::explain`], statistics, generation) hold no replica, because the writer publishes their numbers
//! with each replica. So they neither wait for the writer nor delay it.
//!
//! # Layout in memory
//! Readers share the front, if there is one, and in two replicas:
//! - the base, whose second replica exists once it has changed in place, if the budget has room for that;
//! - tombstones: one bit per slot, and one per position in the base (a rule of `bit_select`, a region of `linear`, a
//!   product of `bit_vector`, a slot of TupleMerge);
//! - a filter and an overlay;
//! - for each address field that rules of live sets test, a tree from address to class, and a row of rules for each
//!   class.
//!
//! The writer keeps the rules as they were written, the regions that the base was built from, and the log. If the rules
//! do not change any more, the writer can be dropped, which frees this memory. [`Engine::frozen`] then returns the base
//! alone, for example to put a cache in front of it.
//!
//! # Cost
//! A batch takes the lock of its reader's own slot, which another thread wants only briefly, and reads one number. If
//! nothing has changed since the base was built, there is no other cost. Otherwise a lookup asks the base at most
//! twice, and the overlay once. [`Engine::stats`](crate::Classifier::stats) has the sum.
//!
//! A commit applies its own changes and, before them, the changes of the commit before, which its replica lacks. So
//! each change is made twice, once for each replica. The first commit after a rebuild copies a base that changes in
//! place. Working memory is reused, so only the rule itself takes more memory. A commit rebuilds only if an overlay could
//! not hold its insertions after a rebuild either.
//!
//! A commit waits for batches in progress that still use the older replica; [`Transaction::try_commit`] reports them
//! instead. If the budget has no room, the commit is refused after it has made the changes. It then copies tombstones,
//! filter and overlay of the current replica over the idle one.
//!
//! Beginning a rebuild costs O(changes / 256). Installing it costs as much as the changes since the job last took some.
//!
//! # Paper
//! None. The two replicas are Ramalhete and Correia's left-right ("Left-Right: A Concurrency Control Technique with
//! Wait-Free Population Oblivious Reads", 2015).
//!
//! # Deviations
//! - Left-right counts readers as they come and go, in words they share. Here each reader keeps the replica that it
//!   used last, and the writer takes it back when it is idle. So readers share no word that any of them writes, and
//!   need not announce that they stop.

mod attached;
mod build;
mod commit;
mod config;
mod entry;
mod explain;
mod facts;
mod filter;
mod front;
mod frozen;
mod gather;
mod handle;
mod left_right;
mod log;
mod members;
mod overlaps;
mod owned;
mod reader;
mod rebuild;
mod sets;
mod snapshot;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod writer;

pub use attached::Attached;
pub use config::{Config, SetLimits};
pub use entry::META;
pub use explain::Explanation;
pub use front::Front;
pub use frozen::Frozen;
pub use handle::{BatchReader, Handle, Snapshot};
pub use owned::Owned;
pub use reader::{Engine, Reader};
pub use rebuild::{InstallError, RebuildJob, Rebuilt, Retired};
pub use writer::{Transaction, Writer, open, reopen};

pub use crate::counters::{Count, CounterShard, RuleCounters};
pub use crate::select::{Calls, Candidate, Cap, Kind, Limits, Outcome, Strategy, Traffic, UnknownKind};
