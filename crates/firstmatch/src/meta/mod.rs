//! `meta`, the engine to take: the base that suits the rules, and changes while readers never wait.
//!
//! ```
//! use firstmatch::meta::{self, Config};
//! use firstmatch::rule::{Priority, RuleSpec};
//! use firstmatch::{Classifier, KeyBuf, format};
//!
//! let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
//! let rules = format::parse(text, &format::Options::default())?.rules;
//! let (engines, mut writer) = meta::open(rules, &Config::default())?;
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
//! The *base* is the engine that most answers come from. Those of [`Kind::ALL`] that budget and limits have room for
//! are built. They are compared on several sorts of [`Traffic`], because the packets to come are not known: keys from
//! the rules, from their edges, behind the widest rules, uniform keys and keys that no rule holds. What the keys of a
//! sort meet is counted, and a model says what a lookup will take on a [`Machine`]. A candidate's *worst ratio* is the
//! largest, over all sorts, of what it takes to what the fastest takes there. Those whose worst ratio is predicted to be
//! at most four times the least are timed side by side, and the least worst ratio is taken, or the first by order of
//! those within 5 % of it; `linear` where there are only a few regions. For example, with `permit` before 10,000 rules
//! every lookup of `linear` ends at the first region, but a key behind that rule costs it all of them.
//! [`Engine::explain`] says what was predicted and timed and what was refused and why.
//!
//! A worst case counts, too. By default a base of at most 4,096 tests and 8,192 lines is preferred, and one with a
//! hundred times the tests of another has to be twice as fast on every sort ([`Limits`]). Memory counts as well: above
//! 1 MiB a base with four times the bytes of another has to be twice as fast on some sort. A rebuild keeps the kind until
//! the regions have become twice or half as many as they were when it was chosen, or a wide rule that it rested on has
//! gone. A kind can be [asked for](Config::kind), the [prediction alone](Config::margin) can decide, and
//! [`Config::trial`] turns both off.
//!
//! The model is a sum: nodes, blocks, probes and so on, each times what `firstmatch-lab calibrate` has fitted on
//! generated sets, and lines of memory times what a line takes among so many bytes. On the ClassBench sets of 1,000 and
//! 10,000 rules, which the fit does not see, it is off by at most 13 % for `bit_select`, 6 % for `bit_vector` and 14 %
//! for `tuplemerge`.
//!
//! `bit_select` takes changes *in place*, in the copy that nobody reads. What it cannot take, and what comes to another
//! base, goes to the *overlay*, a TupleMerge of bounded size; what cannot be taken out is marked. A lookup asks the
//! base as it is. A key whose answer is marked is looked up again, past marked rules, so what they hid comes to light.
//! Then the overlay is asked for those keys that it can have something for: a *filter* knows, a bit for each value of
//! the bits that the base's own trees select, set where a region of the overlay lies. Both are few, so that changes
//! cost lookups little. To a base that stays as it was built the very rule that was removed comes back by taking its
//! mark off.
//!
//! When the overlay holds a few per cent of the rules, too many rules of the base are dead, half as many as it has have
//! come to it or gone from it, fewer than half are left, or a wide rule that the choice rested on has gone, a *rebuild*
//! is due: a new base of the rules there are, built from a
//! [`RebuildJob`] on whatever thread the owner gives it, while changes go on. Counts say when, never a clock. The job
//! starts from the old rules and a log of what has changed, both shared and not copied; before it ends it does to the
//! new base and a new overlay what was changed meanwhile, so that installing them has only the last few changes left
//! to do, and what they replace is handed back to be dropped elsewhere. So an overlay is as large as updates come in
//! during one or two rebuilds; at its cap they are refused until one is installed.
//!
//! Who keeps answers, as a [flow cache](crate::cache::flow) does, sees by [`Engine::version`](engine::Engine::version)
//! that there was a commit.
//!
//! Marks, filter, overlay and the base's handle exist twice, the base itself once until something in it changes.
//! Readers take one copy; a commit changes the other, has readers take it, and owes the first the same. A batch has
//! one copy from start to end, so one generation. Queries ([`Engine::explain`], statistics, generation) hold no copy:
//! the writer publishes with each what they ask for, in numbers, so they neither wait for it nor keep it waiting.
//!
//! # Layout in memory
//! That of the base, twice once it has changed in place, where the budget has room for that; one bit a place of the
//! base (a rule, of `linear` a region, of TupleMerge a slot), one a slot, a filter and an overlay, each twice. The
//! writer keeps the rules: as they were written, the regions that the base was built from, and the log. Who drops the
//! writer keeps rules that stay, at the price of the base.
//!
//! # Cost
//! A batch takes a lock that no other thread wants but for moments and reads one number: some ten nanoseconds. Where
//! nothing has changed since the base was built, nothing else is added. Where something has, a lookup visits at most
//! twice what the base visits, and what the overlay at its cap does; [`Engine::stats`](crate::Classifier::stats) has
//! both.
//!
//! A commit does each change once in place and copies what the last one touched there, a few blocks of `bit_select`
//! each; an insertion or removal of TupleMerge and a mark are done twice, once for each copy. The first after a rebuild
//! copies a base that changes in place. What memory that takes is used again, beside the rule itself. It waits for the
//! batches in progress that still have the older copy; [`Transaction::try_commit`] says so instead. It never rebuilds.
//! One that is refused for want of room takes as long, and keeps nothing.
//! To begin a rebuild costs O(changes / 256), to install it as much as the changes since the job has looked last.
//!
//! # Paper
//! None. Two copies that change places are Ramalhete and Correia's left-right ("Left-Right: A Concurrency Control
//! Technique with Wait-Free Population Oblivious Reads", 2015).
//!
//! # Deviations
//! - Left-right counts readers as they come and go, in words they share. Here each reader keeps the copy it used last,
//!   and the writer takes it back where it is idle: readers share no word that any of them writes, and need not say
//!   that they stop.

mod aside;
mod candidate;
mod change;
mod changes;
mod choose;
mod counters;
mod explain;
mod facts;
mod filter;
mod limits;
mod machine;
mod model;
mod rebuild;
mod state;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod traffic;
mod trial;
mod trials;
mod twin;
mod weights;
mod writer;

use std::sync::Arc;

use aside::Aside;
use choose::Scratch;
use facts::Shared;
use state::State;
use twin::Place;

pub use candidate::{Candidate, Kind, Lookups, Outcome, UnknownKind};
pub use counters::{Count, Ledger, RuleCounters};
pub use explain::Explanation;
pub use limits::{Cap, Limits};
pub use machine::{BadMachine, Machine};
pub use model::Prediction;
pub use rebuild::{InstallError, RebuildJob, Rebuilt, Retired};
pub use traffic::Traffic;
pub use writer::{Exclusive, Transaction, Writer, open};

use crate::budget::Budget;
use crate::engine::{self, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::{Caps, Lowered};
use crate::schema::Schema;
use crate::simd::Level;

/// How to open [`meta`](self).
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What bases, marks, filters and overlays of all schemas may take together, both copies counted. What only the
    /// writer keeps is not in it.
    pub budget: Budget,
    /// The instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// What a base may take while it is built and in the worst case.
    pub limits: Limits,
    /// The kind of base; `None` chooses. Where the first rules are too many for it under budget and limits, that is an
    /// error; where rules that have changed since are, a rebuild takes the first by order that fits, and goes back as
    /// soon as it can.
    pub kind: Option<Kind>,
    /// How many visits of regions lookups may make, in the worst case, to predict and to time the candidates, all
    /// together; a 16th of them predicts each. `None`: 2²⁶. With 0 nothing is predicted or timed and the first kind by
    /// order is taken, so that the same rules always have the same base.
    pub trial: Option<usize>,
    /// Candidates are timed whose worst ratio to the fastest, over all sorts of [`Traffic`], is predicted to be up to
    /// this many times the least. `None`: 4, or 6 where lookups are not compiled for the instruction set that
    /// predictions were fitted with, AVX2. With 1 or less the prediction alone decides, so that the same rules have the
    /// same base by the same machine description; with infinity all are timed that may be.
    pub margin: Option<f64>,
    /// The machine that predictions are for. The default is one fixed description, whatever the machine: nothing is
    /// measured unless [`Machine::probe`] is called for.
    pub machine: Machine,
    /// How many rules an overlay may hold; what has no room before a rebuild is installed is refused. `None`: as many
    /// as half of the base's rules, at least 1,024.
    pub overlay: Option<usize>,
    /// So many rules in an overlay make a rebuild due. `None`: 2 % of the base's rules, at least 128, but half of what
    /// it may hold where that is less.
    pub due: Option<usize>,
    /// So many dead rules in a base make a rebuild due. `None`: a quarter of its rules, at least 1,024.
    pub dead: Option<usize>,
    /// So many rules that have come to a base in place or gone from it make a rebuild due; with 0 bases stay as they
    /// were built. `None`: half of its rules, at least 1,024. Else a rebuild takes a base that changes in place instead
    /// of one that does not and was less than twice as fast.
    pub in_place: Option<usize>,
    /// The seed of hashes; `None` takes a random one of this process.
    pub seed: Option<u64>,
    /// Limits on the regions of rules that [`open`], [`Transaction::insert`] and [`Writer::renumber`] lower.
    pub caps: Caps,
}

impl Config {
    /// How many rules the overlay of so large a base may hold.
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

/// The rules of one schema, for those who look up. Clones share everything.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    part: usize,
    schema: Schema,
}

impl Engine {
    /// Rules that stay.
    ///
    /// # Errors
    /// When no base fits the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let shared = Arc::new(Shared::new(change::first(std::slice::from_ref(set), config, &[])?));
        Ok(Self { shared, part: 0, schema: set.schema().clone() })
    }

    /// How many commits there were: every batch that starts now is in this generation or a later one.
    pub fn generation(&self) -> u64 {
        self.shared.facts(self.part).generation
    }

    /// How many rules the overlay holds, and how many it may.
    pub fn overlay(&self) -> (usize, usize) {
        let facts = self.shared.facts(self.part).part;
        (facts.overlay_rules, facts.most)
    }

    /// Makes another engine's reader one of this.
    #[cold]
    #[inline(never)]
    fn renew(&self, reader: &mut Reader) {
        *reader = engine::Engine::new_scratch(self);
    }

    /// How many rebuilds were installed.
    pub fn epoch(&self) -> u64 {
        self.shared.facts(self.part).epoch
    }
}

/// What a thread's lookups write to: its place among the readers, and what bases and overlays need.
#[derive(Debug)]
pub struct Reader {
    seat: Place<State>,
    /// Which schema's rules it is for.
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

    /// Of everything that readers share, both copies; what only the writer keeps is not in it.
    fn stats(&self) -> Stats {
        self.shared_stats()
    }

    /// Another one after every commit, refused ones included, and rebuild; one load of a number that only the writer writes.
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
