//! `meta`, the engine to take: picks a base for the rules, which change beside readers.
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
//! The *base* is the engine that most answers come from. Every kind of [`Kind::ALL`] that budget and limits have room
//! for is built. The candidates are compared on several sorts of [`Traffic`], because the packets to come are not
//! known. These are keys from the rules, from their edges, behind the widest rules, uniform keys and keys that no rule
//! holds.
//!
//! For each sort, the work of its lookups is counted, and a model predicts their time on a [`Machine`]. A candidate's
//! *worst ratio* is its time to that of the fastest candidate, on the sort where this is largest. Candidates with a
//! predicted worst ratio of at most four times the least are timed side by side. The least measured ratio wins; within
//! 5 % of it, the first by order does. A few regions get `linear` without a comparison.
//!
//! For example, with `permit` before 10,000 rules every lookup of `linear` ends at the first region. A key behind that
//! rule, however, costs it all of them. [`Engine::explain`] says what was predicted and timed, and what was refused and
//! why.
//!
//! The worst case counts, too. By default a base of at most 4,096 tests and 8,192 lines is preferred. A base with a
//! hundred times another's tests has to be twice as fast on every sort ([`Limits`]). Memory counts as well: a base
//! above 1 MiB with four times another's bytes has to be more than twice as fast on some sort.
//!
//! A rebuild keeps the kind until the number of regions has more than doubled or halved since the choice. It also
//! chooses anew if a wide rule that the choice rested on is gone, or if a new rule holds most keys. A kind can be
//! [asked for](Config::kind), the [prediction alone](Config::margin) can decide, and [`Config::trial`] turns both off.
//!
//! The model is a sum. Nodes, blocks, probes and so on count with weights that `firstmatch-lab calibrate` has fitted on
//! generated sets. A line of memory counts with its time among the engine's bytes. `firstmatch-lab calibrate` also
//! reports the error on sets that the fit does not see.
//!
//! ## Changes
//! `bit_select` changes *in place*, in the idle replica. Rules that it cannot take, and rules inserted into another
//! base, go to the *overlay*, a TupleMerge of bounded size. Rules that cannot be taken out of a base get a tombstone.
//! In a base that stays as it was built, the very rule that was removed comes back by losing its tombstone.
//!
//! A lookup asks the base as it is. A key whose answer has a tombstone is looked up again, past rules with tombstones,
//! so that the rules they hid are found.
//!
//! Then the overlay is asked for the keys that it may have a match for. A *filter* finds them. It has a bit for each
//! value of the bits that the base's own trees select, set where a region of the overlay lies. Both kinds of keys are
//! few, so changes cost lookups little.
//!
//! A *rebuild* makes a new base from the current rules. Counts say when it is due, never a clock:
//! - The overlay holds a few per cent of the rules ([`Config::due`]).
//! - Too many rules of the base are dead ([`Config::dead`]).
//! - Half as many rules as the base has were inserted or removed in place ([`Config::in_place`]), or it has little room
//!   left.
//! - Fewer than half of the rules are left, or a wide rule that the choice rested on is gone.
//!
//! The owner runs the [`RebuildJob`] on any thread, while changes go on. The job starts from the old rules and a log of
//! changes, both shared and not copied. Before it ends, it applies the changes made meanwhile to the new base and a new
//! overlay. So installing them has only the last few changes left to apply, and the old base is handed back to be
//! dropped elsewhere. An overlay thus grows by the updates of one or two rebuilds; at its cap, updates are refused
//! until a rebuild is installed.
//!
//! A [flow cache](crate::cache::flow) or other keeper of answers notices a commit by
//! [`Engine::version`](engine::Engine::version).
//!
//! ## Replicas
//! Tombstones, filter, overlay and the base's handle have two replicas; the base itself has a second one once something
//! in it changes. Readers use one replica. A commit changes the other, publishes it, and keeps a backlog of the same
//! changes for the first. A batch uses one replica from start to end, hence one generation.
//!
//! Queries ([`Engine::explain`], statistics, generation) hold no replica, because the writer publishes their numbers
//! with each replica. So they neither wait for the writer nor delay it.
//!
//! # Layout in memory
//! Readers share, each in two replicas:
//! - the base, whose second replica exists once it has changed in place, if the budget has room for that;
//! - tombstones: one bit a slot, and one a position in the base (a rule of `bit_select`, a region of `linear` and
//!   `bit_vector`, a slot of TupleMerge);
//! - a filter and an overlay.
//!
//! The writer keeps the rules as they were written, the regions that the base was built from, and the log. If rules
//! stay, the writer can be dropped, and its memory is freed.
//!
//! # Cost
//! A batch takes a lock that another thread wants only briefly, and reads one number. Where nothing has changed since
//! the base was built, nothing else is added. Otherwise a lookup visits at most twice what the base visits, and what
//! the overlay at its cap does. [`Engine::stats`](crate::Classifier::stats) has both.
//!
//! A commit makes each change once in place, and copies the few dirty blocks of the commit before. Changes of a
//! TupleMerge and of tombstones are made twice, once for each replica. The first commit after a rebuild copies a base
//! that changes in place. Working memory is used again, so only the rule itself takes more. A commit never rebuilds.
//!
//! A commit waits for batches in progress that still use the older replica; [`Transaction::try_commit`] reports them
//! instead. If the budget has no room, the commit is refused after it has made the changes. It then copies tombstones,
//! filter and overlay of the current replica over the idle one.
//!
//! Beginning a rebuild costs O(changes / 256). Installing it costs as much as the changes since the job looked last.
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
mod commit;
mod explain;
mod facts;
mod filter;
mod gather;
mod handle;
mod left_right;
mod log;
mod rebuild;
mod snapshot;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;

use attached::Attachments;
use facts::Shared;
use gather::Aside;
use left_right::Place;
use snapshot::State;

pub use attached::Attached;
pub use explain::Explanation;
pub use handle::{BatchReader, Handle, Snapshot};
pub use rebuild::{InstallError, RebuildJob, Rebuilt, Retired};
pub use writer::{Exclusive, Transaction, Writer, open};

pub use crate::counters::{Count, Ledger, RuleCounters};
use crate::engine::budget::Budget;
use crate::engine::{self, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::Level;
use crate::rule::{Caps, Lowered};
use crate::schema::Schema;
use crate::select;
use crate::select::choose::Scratch;
pub use crate::select::{
    BadMachine, Candidate, Cap, Kind, Limits, Lookups, Machine, Outcome, Prediction, Traffic, UnknownKind,
};

/// Configuration of [`meta`](self).
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Maximum bytes of everything that readers share, in both replicas.
    ///
    /// That is bases, tombstones, filters and overlays of all schemas. Memory that only the writer keeps is not
    /// counted.
    pub budget: Budget,
    /// Instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// Caps on a base while it is built and in the worst case.
    pub limits: Limits,
    /// Kind of base; `None` chooses.
    ///
    /// If the kind does not fit the first rules under budget and limits, that is an error. If it no longer fits rules
    /// that have changed, a rebuild takes the first kind by order that fits. A later rebuild returns to this kind as
    /// soon as it fits.
    pub kind: Option<Kind>,
    /// Maximum region visits to predict and time all candidates, in the worst case.
    ///
    /// A 16th of them predicts each candidate. `None` is 2²⁶. With 0 nothing is predicted or timed and the first kind
    /// by order is taken, so that the same rules always have the same base.
    pub trial: Option<usize>,
    /// Factor of the least predicted worst ratio up to which candidates are timed.
    ///
    /// The ratio is to the fastest, over all sorts of [`Traffic`]. `None` is 4, or 6 where lookups are not compiled for
    /// AVX2, because predictions were fitted with that instruction set. With 1 or less the prediction alone decides, so
    /// that the same rules have the same base by the same machine description. With infinity all candidates are timed
    /// that may be.
    pub margin: Option<f64>,
    /// Machine that predictions are for.
    ///
    /// The default is one fixed description, whatever the machine. Nothing is measured unless the caller calls
    /// [`Machine::probe`].
    pub machine: Machine,
    /// Maximum number of rules in an overlay; more are refused before a rebuild is installed.
    ///
    /// `None` is half of the base's rules, at least 1,024.
    pub overlay: Option<usize>,
    /// Number of rules in an overlay that makes a rebuild due.
    ///
    /// `None` is 2 % of the base's rules, at least 128, or half of the overlay's maximum if that is less. For example,
    /// that is 128 for 1,000 rules and 2,000 for 100,000.
    pub due: Option<usize>,
    /// Number of dead rules in a base that makes a rebuild due.
    ///
    /// `None` is a quarter of its rules, at least 1,024.
    pub dead: Option<usize>,
    /// Number of insertions into a base and removals in place that makes a rebuild due.
    ///
    /// `None` is half of its rules, at least 1,024. With 0 bases stay as they were built. Otherwise a rebuild prefers a
    /// base that changes in place, if that takes at most twice as long on every sort of traffic.
    pub in_place: Option<usize>,
    /// Seed of hashes; `None` takes a random one of this process.
    pub seed: Option<u64>,
    /// Limits on the regions that a rule is lowered to.
    ///
    /// They apply to [`open`], [`Transaction::insert`] and [`Writer::renumber`].
    pub caps: Caps,
    /// Whether readers of a [`Handle`] find action, line and value of the rule that matched ([`Snapshot::attached`]).
    /// It takes 24 bytes a rule and replica.
    pub attachments: bool,
}

impl Config {
    /// Returns what the choice of a base is made with.
    fn selection(&self) -> select::Config {
        select::Config {
            kind: self.kind,
            trial: self.trial,
            margin: self.margin,
            machine: self.machine,
            limits: self.limits,
            simd: self.simd,
            seed: self.seed,
            changes_in_place: self.in_place != Some(0),
        }
    }

    /// Returns the maximum number of rules in the overlay of a base with `base` rules.
    fn most_in_overlay(&self, base: usize) -> usize {
        self.overlay.unwrap_or((base / 2).max(1024))
    }

    fn overlay_due(&self, base: usize) -> usize {
        let half = self.most_in_overlay(base).div_ceil(2).max(1);
        self.due.unwrap_or((base / 50).max(128).min(half))
    }

    fn in_place_due(&self, base: usize) -> usize {
        self.in_place.unwrap_or((base / 2).max(1024)).max(1)
    }

    fn dead_due(&self, base: usize) -> usize {
        self.dead.unwrap_or((base / 4).max(1024)).max(1)
    }
}

/// Engine for lookups in the rules of one schema; clones share everything.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    part: usize,
    schema: Schema,
}

impl Engine {
    /// Builds an engine for rules that stay.
    ///
    /// # Errors
    /// If no base fits the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let shared =
            Arc::new(Shared::new(commit::first(std::slice::from_ref(set), Attachments::default(), config, &[])?));
        Ok(Self { shared, part: 0, schema: set.schema().clone() })
    }

    /// Returns the number of commits; batches that start now are of this generation or later.
    pub fn generation(&self) -> u64 {
        self.shared.facts(self.part).generation
    }

    /// Returns the number of rules in the overlay, and its maximum.
    pub fn overlay(&self) -> (usize, usize) {
        let facts = self.shared.facts(self.part).part;
        (facts.overlay_rules, facts.most)
    }

    /// Replaces another engine's reader by one of this engine.
    #[cold]
    #[inline(never)]
    fn renew(&self, reader: &mut Reader) {
        *reader = engine::Engine::new_scratch(self);
    }

    /// Returns the number of rebuilds installed.
    pub fn epoch(&self) -> u64 {
        self.shared.facts(self.part).epoch
    }
}

/// Scratch of one thread: its reader slot, and memory for bases and overlays.
#[derive(Debug)]
pub struct Reader {
    seat: Place<State>,
    /// Index of the schema that it is for.
    part: usize,
    scratch: Scratch,
    aside: Aside,
}

impl engine::Engine for Engine {
    type Scratch = Reader;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Reader {
        let now = self.shared.twin.now();
        let part = &now.1.parts[self.part];
        let scratch = Scratch::new(&part.overlay);
        Reader { seat: self.shared.twin.seat(), part: self.part, scratch, aside: Aside::new(&self.schema) }
    }

    fn fits(&self, reader: &Reader) -> bool {
        self.shared.twin.has(&reader.seat) && reader.part == self.part
    }

    /// Returns statistics of everything that readers share, in both replicas.
    ///
    /// Memory that only the writer keeps is not counted.
    fn stats(&self) -> Stats {
        self.shared_stats()
    }

    /// Returns a number that changes with every commit, every rebuild and some refused commits.
    ///
    /// It costs one load of a number that only the writer writes.
    fn version(&self) -> u64 {
        self.shared.twin.flips()
    }

    #[inline(always)]
    fn improve(&self, reader: &mut Reader, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        if !engine::Engine::fits(self, reader) {
            self.renew(reader);
        }
        let Reader { seat, scratch, aside, .. } = reader;
        self.shared.twin.read(seat, |state| state.parts[self.part].improve(scratch, aside, keys, best));
    }
}
