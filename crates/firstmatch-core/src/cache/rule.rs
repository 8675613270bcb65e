//! Rule cache: a few boxes of keys with one answer each, which are proved from the rules.
//!
//! # Idea
//! Skewed traffic goes to few rules. A *box* is an interval for each key word, all of whose keys have the same first
//! rule. [`RuleCache`] compares a packet with some boxes before it asks the classifier behind it. So unlike a
//! [flow cache](crate::cache::flow), it may answer a packet whose key it has never seen.
//!
//! Boxes come from samples of the traffic. A sample that lies in no box makes one: the region of its rule, from which
//! the regions of better rules are cut away ([`Growth::Carve`]). For example, rule 1 is ports 1 to 9 and the better
//! rule 0 is ports 4 to 5. A sample of port 7 makes the box 6 to 9, and every packet to ports 6 to 9 then has rule 1.
//!
//! Each box has a weight: how many of the last 1,024 samples lay in it. The heaviest boxes are *published*, which means
//! that packets are compared with them. A block of eight is left out if it would answer too few of the packets that
//! reach it ([`Config::least_share`]).
//!
//! The cache asks only one thing of the rules, by [`Overlaps`]: which regions a box meets. It searches a list of its
//! own ([`RuleCache::over`]), or another structure over the same rules ([`RuleCache::new`]). If the rules change while
//! other threads look up, it searches the lists of [`live::Engine::overlaps`](crate::live::Engine::overlaps).
//!
//! The work for a box is cut in slices: a batch tests 16 regions for each of its packets at most ([`Config::tests`]).
//! So the time of a batch is bounded whatever the traffic is. Only the search for the region of the sample's own rule
//! is not cut: it goes through all regions of that rule.
//!
//! A cache that does not pay steps aside. The engine alone is timed from the first packet on, and if it answers faster
//! than a packet is compared with all boxes, nothing is learned. With the default 24 boxes that is so for engines of up
//! to 15 to 30 ns a packet. Otherwise an eighth of the engine's time goes to learning. Once enough of some noted packets
//! would have hit, trials with a clock decide as for a flow cache. During a pause, it learns in the last quarter alone.
//!
//! # Layout in memory
//! All but the list of regions is in the scratch of a thread.
//! - *Published boxes*: each block of eight has a cache line per key word, with eight `lo` and eight `hi`, and nine
//!   answers.
//! - *Evolving boxes*: bounds, answer and weight, at most one for each sample of the window. For the 5-tuple of IPv4
//!   each takes some 64 bytes.
//! - *Regions*: blocks of eight as in the overflow list of [`tuple`](mod@crate::engines::tuple), some 113 bytes each
//!   for the 5-tuple of IPv4.
//!
//! # Cost
//! A block takes a comparison of eight intervals per key word for each packet that reaches it, without a branch. Keys
//! that are in no box are gathered and go to the classifier in batches of up to 128.
//!
//! Every change of the rules forgets all boxes, so the cache suits rules that seldom change.
//!
//! # Invariants
//! - Every key of a box has the box's answer (`tests::boxes_hold_keys_of_one_answer`).
//! - A box of other rules answers nothing: generation and version are read before the boxes, and a change of either
//!   forgets boxes, samples and the work for a box (`tests::boxes_of_other_rules_are_forgotten`, and beside a writer
//!   `tests::live::commits_at_any_moment_are_noticed`).
//!
//! # Paper
//! Y. Ma, S. Banerjee, S. Lu and C. Estan, *Leveraging Parallelism for Multi-dimensional Packet Classification on
//! Software Routers* (SIGMETRICS 2010). [`Config::paper`] has its boxes, which grow to the hull of their samples. Over a
//! view [`ByAction`] with a tree of HyperCuts as its search they are of one action (Algorithm 1, line 7) and proved as
//! in section 3.2.3.
//!
//! # Deviations
//! - Boxes are carved by default. [`Growth::Grow`] is the paper's Algorithm 1.
//! - The cache is per thread, and samples are packets of that thread. In the paper one thread updates the cache of all
//!   threads; [`BoxUpdater`] is for that.
//! - Boxes of a [`RuleCache`] are of one rule, so that matches and counts of rules stay true. In the paper they are of
//!   one action ([`ByAction`]), so that fewer of them hold more packets.
//! - A [`RuleCache`] proves boxes over a list of regions, which follows changes, is searched in slices and allocates
//!   nothing in a lookup. [`BoxUpdater::new`] takes any search, such as the paper's tree
//!   ([`CutTree`](crate::engines::cut_tree::CutTree)), which takes fewer steps.
//! - The paper's search ends at the first box that holds a packet; ours ends with the block.

mod boxes;
mod by_action;
mod carve;
mod check;
mod config;
mod evolving;
mod grow;
mod published;
mod rules;
mod step;
#[cfg(test)]
mod tests;
mod updater;

use std::fmt::{self, Debug};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use super::generation::Generation;
use super::misses::{MOST_MISSES, Misses};
use super::trial::{self, Trial, Way};
use crate::engine::{Classifier, Engine, Match, NamedCounts, Overlaps, Scratch, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::raw::{Isa, Kernel, Level, dispatch};
use crate::rule::{Lowered, Regions, RuleId};
use crate::schema::Schema;
use boxes::{BLOCK, Boxes, CHUNK, Found};
pub use by_action::{ByAction, ByActionScratch};
pub use check::BoxCheck;
pub use config::{Config, Growth};
pub use evolving::EvolvedBox;
pub use published::{AnswerBoxes, BoxSearch, BoxUpdater};
use rules::Rules;
use updater::Updater;

/// Maximum number of regions that a batch tests for boxes.
const MOST_TESTS: usize = 4096;

/// Any classifier with a rule cache in front of it.
///
/// It is an [`Engine`] itself, and [`Updatable`] where the classifier is.
pub struct RuleCache<C> {
    inner: C,
    rules: Rules,
    schema: Schema,
    shape: u64,
    level: Level,
    config: Config,
    generation: Generation,
}

/// Counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Lookups by their path.
    pub lookups: trial::Counts,
    /// Samples that were taken.
    pub samples: u64,
    /// Boxes with a sample in the window.
    pub boxes: usize,
}

impl Counts {
    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        self.lookups.hits += other.lookups.hits;
        self.lookups.misses += other.lookups.misses;
        self.lookups.passed_by += other.lookups.passed_by;
        self.samples += other.samples;
        self.boxes += other.boxes;
    }
}

impl<C: Classifier + 'static> RuleCache<C> {
    /// Puts a cache in front of the classifier `inner`, with a list of the regions of its rules.
    ///
    /// ```
    /// use firstmatch_core::cache::rule::{Config, RuleCache};
    /// use firstmatch_core::engines::linear::{self, Linear};
    /// use firstmatch_core::rule::{ExpansionLimits, lower};
    /// use firstmatch_core::{Classifier, KeyBuf};
    ///
    /// let text = "family ipv4\npermit src 10.0.0.0/8\ndeny src 10.1.0.0/16\n";
    /// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let lowered = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
    /// let mut config = Config::default();
    /// (config.sample, config.steps_aside) = ([100; 2], false);
    /// let cache = RuleCache::over(Linear::build(&lowered, &linear::Config::default())?, &lowered, &config)?;
    ///
    /// // Packets of ever new addresses, all of the first rule: from the first sample on a box answers.
    /// let mut keys = KeyBuf::new(lowered.schema());
    /// (0..1000).for_each(|address| keys.push()[0] = 0x0A02_0000 + address);
    /// let (mut scratch, mut answers) = (cache.scratch(), vec![None; 1000]);
    /// for at in (0..1000).step_by(50) {
    ///     cache.classify_batch(&mut scratch, keys.keys().slice(at, at + 50), &mut answers[at..at + 50]);
    /// }
    /// assert!(answers.iter().all(|answer| answer.is_some_and(|found| found.rule.slot() == 0)));
    /// assert!(RuleCache::<Linear>::counts(&scratch).lookups.hits > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the list would exceed the budget, or this machine lacks the forced instruction set.
    pub fn over(inner: C, rules: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::with(inner, Rules::Own(rules::list(rules, config)?), config)
    }

    /// Puts a cache in front of the classifier `inner`, which proves boxes by `rules`.
    ///
    /// `rules` must have the regions of the classifier's rules, and the [version](crate::Engine::version) of the
    /// classifier must report every change. [`live::Engine::overlaps`](crate::live::Engine::overlaps) is one such
    /// search. A search that allocates, such as that of a [`CutTree`](crate::engines::cut_tree::CutTree), does so in
    /// the lookups that make boxes.
    ///
    /// # Errors
    /// If this machine lacks the forced instruction set.
    pub fn new(inner: C, rules: Arc<dyn Overlaps>, config: &Config) -> Result<Self, BuildError> {
        Self::with(inner, Rules::Shared(rules), config)
    }

    fn with(inner: C, rules: Rules, config: &Config) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        let schema = inner.schema().clone();
        let shape = config.shape(schema.words().len());
        let (config, generation) = (config.clone(), Generation::new());
        Ok(Self { inner, rules, schema, shape, level, config, generation })
    }

    /// Returns the classifier behind the cache.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// Returns the counts of a scratch; zeros if it is of another kind of engine.
    pub fn counts(scratch: &Scratch) -> Counts {
        scratch.of::<Self>().map_or(Counts::default(), |own| Counts {
            lookups: own.trial.counts(),
            samples: own.updater.samples(),
            boxes: own.updater.evolving(),
        })
    }

    /// Returns the boxes with a sample in the window of a scratch, the oldest first; none if it is of another kind of
    /// engine.
    ///
    /// The published boxes are among them.
    pub fn boxes(scratch: &Scratch) -> Vec<EvolvedBox> {
        scratch.of::<Self>().map_or(Vec::new(), |own| own.updater.boxes())
    }

    #[inline(never)]
    fn look_up(&self, scratch: &mut Sampled, keys: &Keys<'_>, best: &mut [Option<Match>], is_aside: bool) {
        let lookups = best.len();
        // Read before the boxes, and before answers and regions are found for new ones, which are thus at least as new.
        // Because a version never comes again, all boxes that give answers are of the rules of this state.
        scratch.begin(self.generation.state(&self.inner));
        let learns = scratch.trial.learns();
        let sample = if learns { scratch.updater.sample_of(lookups).map(|at| (at, best[at])) } else { None };
        if is_aside {
            self.inner.improve_batch(&mut scratch.inner, keys, best);
        } else {
            let (way, mut hits) = (scratch.trial.way(), 0);
            if let Way::Noted(most) = way {
                let keys = keys.slice(0, lookups.min(most));
                let Sampled { published: boxes, found, .. } = scratch;
                dispatch(self.level, Note { boxes, found, keys, hits: &mut hits });
            }
            if way == Way::Weighed {
                self.weigh(scratch, keys);
            }
            scratch.trial.begins(Instant::now);
            if way == Way::Cached && !scratch.published.is_empty() {
                let lookup = Lookup { inner: &self.inner, sampled: scratch, keys: *keys, best, hits: &mut hits };
                dispatch(self.level, lookup);
            } else {
                self.inner.improve_batch(&mut scratch.inner, keys, best);
            }
            scratch.trial.went(way, lookups, hits, Instant::now);
        }
        // The clock takes as long as a packet, so it is read only if there is something to learn.
        let affords = learns && scratch.trial.affords(lookups);
        if affords && (sample.is_some() || scratch.updater.is_at_work()) {
            let start = self.config.steps_aside.then(Instant::now);
            self.learn(scratch, keys, best, sample);
            start.into_iter().for_each(|start| scratch.trial.spent(start.elapsed().as_nanos() as f64));
        }
    }

    /// Measures the least time of a lookup in the cache: the search of one block, in which no packet is.
    #[cold]
    fn weigh(&self, scratch: &mut Sampled, keys: &Keys<'_>) {
        let Sampled { published: boxes, found, trial, .. } = scratch;
        boxes.clear();
        boxes.push_zero();
        // Short batches are measured together, because a clock takes longer than one of them.
        let (times, start) = (CHUNK.div_ceil(keys.len()), Instant::now());
        for _ in 0..times {
            let mut hits = 0;
            dispatch(self.level, Note { boxes, found, keys: *keys, hits: &mut hits });
            black_box(hits);
        }
        trial.takes_at_least(start.elapsed().as_nanos() as f64 / (times * keys.len()) as f64);
        boxes.clear();
    }

    /// Takes the sample of a batch, and continues the work for its box.
    fn learn(
        &self,
        scratch: &mut Sampled,
        keys: &Keys<'_>,
        best: &[Option<Match>],
        sample: Option<(usize, Option<Match>)>,
    ) {
        let updater = &mut scratch.updater;
        let mut is_new = false;
        if let Some((at, before)) = sample {
            // If it beat nothing, its own answer is unknown: it is only known to be no better.
            if before.is_none() || best[at] != before {
                is_new |= updater.take(keys.row(at), best[at]);
            }
        }
        let tests = self.config.tests.max(1).saturating_mul(best.len());
        let tests = if self.config.tests == usize::MAX { tests } else { tests.min(MOST_TESTS) };
        is_new |= updater.go_on(self.rules.overlaps(), self.schema.words(), tests);
        if is_new {
            updater.publish(&mut scratch.published);
        }
    }
}

impl<C: Debug> Debug for RuleCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleCache").field("inner", &self.inner).field("boxes", &self.config.boxes).finish()
    }
}

impl<C: Classifier + 'static> Engine for RuleCache<C> {
    type Scratch = Sampled;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Sampled {
        let mut sampled = Sampled::new(&self.config, &self.schema, self.inner.scratch());
        sampled.updater.prepare(self.rules.overlaps());
        sampled
    }

    /// Whether a scratch is made for this configuration.
    ///
    /// A scratch of other rules fits, too, because its boxes are of another generation.
    fn fits(&self, scratch: &Sampled) -> bool {
        scratch.shape == self.shape
    }

    fn version(&self) -> u64 {
        self.generation.version(&self.inner)
    }

    /// Returns the statistics of the classifier with the list of regions, and with the worst case of a miss.
    ///
    /// The memory of the boxes is in each thread's scratch.
    fn stats(&self) -> Stats {
        let mut stats = self.inner.stats();
        stats.bytes.push(match &self.rules {
            Rules::Own(list) => ("regions", list.bytes()),
            // The search itself with two reference counts; the engine or the live rules that it searches count the
            // rest.
            Rules::Shared(search) => ("search", 2 * size_of::<usize>() + size_of_val(&**search)),
        });
        let blocks = self.config.boxes().div_ceil(BLOCK);
        stats.worst_tests += blocks * BLOCK;
        // A block takes one line per word and three lines of answers.
        stats.worst_lines += blocks * (self.schema.words().len() + 3);
        stats
    }

    /// Counts hits and misses of the boxes, and comparisons as if they went box by box, the heaviest first.
    ///
    /// For a key in no box, copies of the last box in its block count, too.
    fn count(&self, scratch: &mut Sampled, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        scratch.begin(self.generation.state(&self.inner));
        let (mut hits, mut compared) = (0, 0);
        for row in 0..keys.len() {
            let position = scratch.published.position(keys.row(row));
            hits += u64::from(position.is_some());
            compared += position.map_or(scratch.published.len(), |at| at + 1) as u64;
        }
        let misses = keys.len() as u64 - hits;
        self.improve(scratch, keys, best);
        NamedCounts::from([("hits", hits), ("misses", misses), ("boxes compared", compared)])
    }

    #[inline(always)]
    fn improve(&self, scratch: &mut Sampled, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let is_aside = scratch.trial.passes_by(best.len());
        if is_aside && !(scratch.trial.learns() && scratch.updater.is_due(best.len())) {
            if scratch.trial.learns() {
                scratch.updater.passes(best.len());
            }
            return self.inner.improve_batch(&mut scratch.inner, keys, best);
        }
        if !best.is_empty() {
            self.look_up(scratch, keys, best, is_aside);
        }
    }
}

impl<C: Updatable + 'static> Updatable for RuleCache<C> {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        if let Rules::Own(list) = &self.rules {
            let (needed, most) = (list.bytes_with(rule.rule.slot(), regions.len()), self.config.budget.run_bytes);
            if needed > most {
                return Err(UpdateError::bytes(needed, most));
            }
        }
        self.inner.insert(rule, regions)?;
        if let Rules::Own(list) = &mut self.rules {
            (0..regions.len()).for_each(|at| list.add(rule, &regions.get(at)));
        }
        self.generation.begin();
        Ok(())
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        self.inner.remove(rule)?;
        if let Rules::Own(list) = &mut self.rules {
            list.remove(rule);
        }
        self.generation.begin();
        Ok(())
    }
}

/// Boxes of a thread, with the scratch of the classifier behind them; of fixed size.
#[derive(Debug)]
pub struct Sampled {
    inner: Scratch,
    /// Configuration it was made for, see `Config::shape`.
    shape: u64,
    /// State of the rules that the boxes belong to.
    state: (u64, u64),
    published: Boxes,
    found: Found,
    updater: Updater,
    trial: Trial,
    misses: Misses,
}

impl Sampled {
    fn new(config: &Config, schema: &Schema, inner: Scratch) -> Self {
        let key_words = schema.words().len();
        Self {
            inner,
            shape: config.shape(key_words),
            state: (0, 0),
            published: Boxes::new(key_words, config.boxes()),
            found: Found::new(),
            updater: Updater::new(config, key_words),
            trial: Trial::new(config.pace()),
            misses: Misses::new(schema.stride()),
        }
    }

    /// Switches to the state `state` of the rules.
    #[inline]
    fn begin(&mut self, state: (u64, u64)) {
        if self.state != state {
            self.state = state;
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.published.clear();
        self.updater.clear();
        self.trial.learns_anew();
    }
}

/// Kernel that counts keys that the boxes hold.
struct Note<'a> {
    boxes: &'a Boxes,
    found: &'a mut Found,
    keys: Keys<'a>,
    hits: &'a mut usize,
}

impl Kernel for Note<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { boxes, found, keys, hits } = self;
        for from in (0..keys.len()).step_by(CHUNK) {
            let keys = keys.slice(from, keys.len().min(from + CHUNK));
            *hits += keys.len() - boxes.find::<I, 0>(isa, keys, found);
        }
    }
}

struct Lookup<'a> {
    inner: &'a dyn Classifier,
    sampled: &'a mut Sampled,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
    hits: &'a mut usize,
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        // Loops over the words of a row are slow unless the compiler knows their number.
        match self.keys.key_words() {
            5 => self.run_over::<I, 5>(isa),
            11 => self.run_over::<I, 11>(isa),
            _ => self.run_over::<I, 0>(isa),
        }
    }
}

impl Lookup<'_> {
    #[inline(always)]
    fn run_over<I: Isa, const KEY_WORDS: usize>(mut self, isa: I) {
        let key_words = if KEY_WORDS == 0 { self.keys.key_words() } else { KEY_WORDS };
        let stride = key_words.next_multiple_of(4);
        for from in (0..self.best.len()).step_by(CHUNK) {
            if self.sampled.misses.len() > MOST_MISSES - CHUNK {
                self.resolve(key_words);
            }
            let to = self.best.len().min(from + CHUNK);
            let Sampled { published, found, misses, .. } = &mut *self.sampled;
            let left = published.find::<I, KEY_WORDS>(isa, self.keys.slice(from, to), found);
            *self.hits += to - from - left;
            found.improve(&mut self.best[from..to]);
            for &key in &found.open[..left] {
                let at = from + usize::from(key);
                let row = &self.keys.words()[at * stride..][..stride];
                misses.push(row, at as u32, self.best[at]);
            }
        }
        if self.sampled.misses.len() > 0 {
            self.resolve(key_words);
        }
    }

    /// Asks the classifier for the keys that no box holds.
    #[inline(always)]
    fn resolve(&mut self, key_words: usize) {
        let Sampled { inner, misses, .. } = &mut *self.sampled;
        misses.ask(self.inner, inner, key_words);
        for (_, place, answer) in misses.take(key_words.next_multiple_of(4)) {
            self.best[place as usize] = answer;
        }
    }
}
