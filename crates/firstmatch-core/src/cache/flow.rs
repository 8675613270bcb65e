//! Flow cache: keeps a classifier's answers by key, for later packets with the same key.
//!
//! # Idea
//! Packets come in flows, and all packets of a flow have the same key. [`FlowCache`] keeps whole keys, each with the
//! answer of the classifier behind it. A key that it has is answered from the cache, so that a hit is exact. A cache of
//! rules would not be exact, because a rule that matched one packet may be the wrong one for the next (section III-D2).
//!
//! Entries belong to a generation. Every change of the rules begins a new one, and an entry of an older one is a miss.
//! The cache notices changes made through it, and changes that the classifier reports by its
//! [`version`](crate::Engine::version), which is read once per batch.
//!
//! So in front of a [`live::Engine`](crate::live::Engine) the caller need not report commits. Every batch that starts
//! after a commit has returned gets answers from after the commit. A batch during which a commit comes may have answers
//! from before and after it, key by key.
//!
//! Traffic whose keys do not come again gains nothing and pays for every miss. An engine may also be faster than the
//! cache in front of it. So the cache may *step aside*: lookups bypass it, apart from a trial now and then. In a trial
//! the hashes of some keys show at little cost whether keys come again. If they do, stretches of lookups are timed
//! without the cache and with it, and the cache stays if it is faster.
//!
//! A verdict holds for a while, twice as long each time it is confirmed. A cache that stays goes on trial at once when
//! far fewer keys hit. Answers are the same with and without the cache.
//!
//! # Layout in memory
//! All of it is in the scratch of a thread; the engine itself has only the classifier behind it.
//! - *Sets*: a cache line each, with the hashes of up to eight keys and a bit for each that was used recently.
//! - *Entries*: the words of a key, the number of its generation and the match. They take whole cache lines, one for
//!   keys of up to 11 words (the 5-tuples of IPv4 and of IPv6).
//!
//! For example, the default 16,384 entries of one line and 2,048 sets take 1.1 MiB per thread.
//!
//! # Cost
//! A hit touches two cache lines. 64 keys are taken together in three stages: hash, compare tags, compare keys. Each
//! stage prefetches the memory of the next. Misses are gathered and go to the classifier in batches of up to 128, each
//! with its match to beat. So a miss costs the classifier's own lookup, two or three cache lines, one comparison and
//! the copy of a key, whatever the packets are.
//!
//! A full set replaces a key that was not used recently. A new generation costs nothing by itself, but every key misses
//! once afterwards, whatever the change was. After 2^32 generations the cache is emptied. So it pays only if rules stay
//! unchanged for many times more packets than it has entries. Otherwise it turns itself off.
//!
//! Keys that come again are fast in any engine, because the engine's memory is in the first caches by then. In front of
//! [`tuple`](mod@crate::engines::tuple), a hit takes less than half of a lookup. But a lookup in
//! [`bit_select`](crate::engines::bit_select) costs little more than a hit, so that the cache makes it slower above one
//! miss in six packets. A cache that has turned itself off costs a branch and a call per batch, some 4 ns (definition
//! `cached`). A trial that ends with the hashes looks at 512 packets.
//!
//! # Paper
//! Daly, Bruschi, Linguaglossa, Pontarelli, Rossi, Tollet, Torng and Yourtchenko, "TupleMerge: Fast Software Packet
//! Processing for Online Packet Classification", IEEE/ACM Transactions on Networking 27(4), 2019, section III-D2.
//!
//! # Deviations
//! - A change does not flush the cache but begins a generation, which is the same to every lookup and costs O(1).
//! - The paper stores "the most frequently seen flows" and does not say how they are found. Here a flow stays if it
//!   comes again before its set is full of newer ones.
//! - The paper's cache is always asked, as ours is with [`Config::paper`]. On some traffic the authors' lookups are
//!   slower with it than without (Table V).

mod config;
#[cfg(test)]
mod tests;

use std::fmt::{self, Debug};
use std::time::Instant;

use crate::engine::{Classifier, Engine, Match, Scratch, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::raw::{Hasher, Isa, Kernel, LINE_WORDS, Level, Line, dispatch, secrets, words, words_mut};
use crate::rule::{Priority, Regions, RuleId};
use crate::schema::Schema;

use super::generation::Generation;
use super::misses::{MOST_MISSES, Misses};
pub use super::trial::Counts;
use super::trial::{Trial, Way};
pub use config::Config;
use config::WAYS;

/// Number of keys taken through the cache together, enough to hide second-level cache misses.
const CHUNK: usize = 64;
/// Number of words of an entry beside its key: its generation, the rule and its priority.
const REST: usize = 5;

/// Any classifier with a flow cache in front of it.
///
/// It is an [`Engine`] itself, and [`Updatable`] where the classifier is.
///
/// ```
/// use firstmatch_core::cache::flow::{Config, FlowCache};
/// use firstmatch_core::engines::linear::{self, Linear};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let cache = FlowCache::new(Linear::build(&rules, &linear::Config::default())?, &Config::default())?;
/// let mut keys = KeyBuf::new(cache.schema());
/// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, 443, 6]);
/// let mut scratch = cache.scratch(); // it holds the entries, so each thread has its own
/// let answers = [(); 3].map(|()| cache.classify(&mut scratch, keys.keys()));
/// assert!(answers.iter().all(|found| found.is_some_and(|found| found.rule.slot() == 1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FlowCache<C> {
    inner: C,
    schema: Schema,
    shape: u64,
    level: Level,
    config: Config,
    generation: Generation,
}

impl<C: Classifier + 'static> FlowCache<C> {
    /// Puts a cache in front of the classifier `inner`.
    ///
    /// # Errors
    /// If this machine lacks the forced instruction set.
    pub fn new(inner: C, config: &Config) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        let schema = inner.schema().clone();
        let shape = config.shape(schema.words().len());
        Ok(Self { inner, schema, shape, level, config: config.clone(), generation: Generation::new() })
    }

    /// Returns the classifier behind the cache.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// Returns the classifier behind the cache for changes; its schema has to stay the same.
    ///
    /// It begins a generation, so that nothing cached before is used afterwards.
    pub fn inner_mut(&mut self) -> &mut C {
        self.begin_generation();
        &mut self.inner
    }

    /// Returns the number of the current generation, whose entries count.
    ///
    /// No two states of rules in this process have the same number.
    pub fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Begins a generation: batches that start after this has returned use nothing cached before.
    ///
    /// The owner of the classifier has to call it after each change that is not made through the cache and that the
    /// classifier's [version](crate::Engine::version) does not report.
    pub fn begin_generation(&self) {
        self.generation.begin();
    }

    #[inline(never)]
    fn look_up(&self, scratch: &mut Flows, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let (way, lookups, mut hits) = (scratch.trial.way(), best.len(), 0);
        if let Way::Noted(most) = way {
            let keys = keys.slice(0, lookups.min(most));
            dispatch(self.level, Note { flows: scratch, keys, hits: &mut hits });
        }
        scratch.trial.begins(Instant::now);
        if way == Way::Cached {
            // Read before the lookups, so that their answers are at least as new.
            scratch.begin(self.generation.state(&self.inner));
            let lookup = Lookup { inner: &self.inner, flows: scratch, keys: *keys, best, hits: &mut hits };
            dispatch(self.level, lookup);
        } else {
            self.inner.improve_batch(&mut scratch.inner, keys, best);
        }
        scratch.trial.went(way, lookups, hits, Instant::now);
    }

    /// Returns the counts of a scratch; zeros if it is of another kind of engine.
    pub fn counts(scratch: &Scratch) -> Counts {
        scratch.of::<Self>().map_or(Counts::default(), |flows| flows.trial.counts())
    }
}

impl<C: Debug> Debug for FlowCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowCache").field("inner", &self.inner).field("entries", &self.config.entries).finish()
    }
}

impl<C: Classifier + 'static> Engine for FlowCache<C> {
    type Scratch = Flows;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Flows {
        Flows::new(&self.config, &self.schema, self.inner.scratch())
    }

    /// Whether a scratch is made for this configuration.
    ///
    /// A scratch of other rules fits, too, because its entries are of another generation.
    fn fits(&self, scratch: &Flows) -> bool {
        scratch.shape == self.shape
    }

    fn version(&self) -> u64 {
        self.generation.version(&self.inner)
    }

    /// Returns the statistics of the classifier, with the worst case of a miss.
    ///
    /// The memory of the cache itself is in each thread's scratch.
    fn stats(&self) -> Stats {
        let stats = self.inner.stats();
        let lines = lines_per_entry(self.schema.words().len());
        // The set and an entry to compare, and another entry to replace.
        Stats { worst_tests: stats.worst_tests + 1, worst_lines: stats.worst_lines + 1 + 2 * lines, ..stats }
    }

    #[inline(always)]
    fn improve(&self, scratch: &mut Flows, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        if scratch.trial.passes_by(best.len()) {
            return self.inner.improve_batch(&mut scratch.inner, keys, best);
        }
        self.look_up(scratch, keys, best);
    }
}

impl<C: Updatable + 'static> Updatable for FlowCache<C> {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        self.inner.insert(rule, regions)?;
        self.begin_generation();
        Ok(())
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        self.inner.remove(rule)?;
        self.begin_generation();
        Ok(())
    }
}

/// Cache of a thread, with the scratch of the classifier behind it; of fixed size.
#[derive(Debug)]
pub struct Flows {
    inner: Scratch,
    /// Configuration it was made for, see `Config::shape`.
    shape: u64,
    hasher: Hasher,
    /// Mask of every bit of a row.
    whole: Box<[u32]>,
    ways: u32,
    sets: Box<[Set]>,
    /// Entries, `ways` for each set.
    entries: Box<[Line]>,
    /// State that `era` stands for: the cache's generation and the classifier's version.
    generation: (u64, u64),
    /// Number of that state in this scratch, in 32 bits; never 0.
    era: u32,
    trial: Trial,
    misses: Misses,
    /// Hash of each miss.
    hashes: [u32; MOST_MISSES],
}

/// Up to eight keys whose hashes lead to the same set.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Set {
    /// Hash of each entry's key. If two were equal, only the first would be found.
    tags: [u32; WAYS],
    /// Bit for each entry that was used recently; never all, so that one can be replaced.
    recent: u32,
}

fn lines_per_entry(key_words: usize) -> usize {
    (key_words + REST).div_ceil(LINE_WORDS)
}

impl Flows {
    fn new(config: &Config, schema: &Schema, inner: Scratch) -> Self {
        let (key_words, stride) = (schema.words().len(), schema.stride());
        let (sets, ways) = (config.sets(), config.ways());
        // Writing the memory makes its pages present. Otherwise the first packet of each page would cost a page fault,
        // which takes far longer than a lookup.
        let touched = Line([1; LINE_WORDS]);
        let mut entries = vec![touched; sets * ways * lines_per_entry(key_words)].into_boxed_slice();
        entries.fill(Line::default());
        Self {
            inner,
            shape: config.shape(key_words),
            hasher: Hasher::new(stride, secrets(config.seed)),
            whole: vec![u32::MAX; stride].into_boxed_slice(),
            ways: (1 << ways) - 1,
            sets: vec![Set { tags: [u32::MAX; WAYS], recent: 0 }; sets].into_boxed_slice(),
            entries,
            generation: (0, 0),
            era: 0,
            trial: Trial::new(config.pace()),
            misses: Misses::new(stride),
            hashes: [0; MOST_MISSES],
        }
    }

    /// Switches to the generation `generation`.
    #[inline]
    fn begin(&mut self, generation: (u64, u64)) {
        if self.generation == generation {
            return;
        }
        (self.generation, self.era) = (generation, self.era.wrapping_add(1));
        if self.era == 0 {
            // Era numbers start over, so entries that still bear one must go.
            self.entries.fill(Line::default());
            self.era = 1;
        }
    }
}

/// Kernel that notes hashes of keys and counts the hashes that were noted before.
struct Note<'a> {
    flows: &'a mut Flows,
    keys: Keys<'a>,
    hits: &'a mut usize,
}

impl Kernel for Note<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { flows, keys, hits } = self;
        for from in (0..keys.len()).step_by(CHUNK) {
            let count = (keys.len() - from).min(CHUNK);
            let mut hashes = [0; CHUNK];
            for (i, hash) in hashes.iter_mut().enumerate().take(count) {
                *hash = isa.hash(&flows.hasher, keys.row(from + i), &flows.whole);
                isa.prefetch(&flows.sets[place(*hash, flows.sets.len())]);
            }
            for &hash in &hashes[..count] {
                let at = place(hash, flows.sets.len());
                let set = &mut flows.sets[at];
                let way = set.way(isa, hash, flows.ways);
                let tag = &mut set.tags[way as usize % WAYS];
                *hits += usize::from(*tag == hash);
                *tag = hash;
                set.used(way, flows.ways);
            }
        }
    }
}

struct Lookup<'a> {
    inner: &'a dyn Classifier,
    flows: &'a mut Flows,
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
        for from in (0..self.best.len()).step_by(CHUNK) {
            if self.flows.misses.len() > MOST_MISSES - CHUNK {
                self.resolve::<I, KEY_WORDS>(isa);
            }
            self.chunk::<I, KEY_WORDS>(isa, from);
        }
        if self.flows.misses.len() > 0 {
            self.resolve::<I, KEY_WORDS>(isa);
        }
    }

    #[inline(always)]
    fn key_words<const KEY_WORDS: usize>(&self) -> usize {
        if KEY_WORDS == 0 { self.keys.key_words() } else { KEY_WORDS }
    }

    #[inline(always)]
    fn row<const KEY_WORDS: usize>(&self, key: usize) -> &[u32] {
        let stride = self.key_words::<KEY_WORDS>().next_multiple_of(4);
        &self.keys.words()[key * stride..][..stride]
    }

    /// Takes the keys from `from` on through the cache; misses wait.
    #[inline(always)]
    fn chunk<I: Isa, const KEY_WORDS: usize>(&mut self, isa: I, from: usize) {
        let count = (self.best.len() - from).min(CHUNK);
        let (mut hashes, mut ways) = ([0; CHUNK], [0u32; CHUNK]);
        for (i, hash) in hashes.iter_mut().enumerate().take(count) {
            *hash = isa.hash(&self.flows.hasher, self.row::<KEY_WORDS>(from + i), &self.flows.whole);
            isa.prefetch(&self.flows.sets[place(*hash, self.flows.sets.len())]);
        }
        let lines = lines_per_entry(self.key_words::<KEY_WORDS>());
        for (hash, way) in hashes.iter().zip(&mut ways).take(count) {
            let at = place(*hash, self.flows.sets.len());
            *way = self.flows.sets[at].way(isa, *hash, self.flows.ways);
            for line in self.flows.entry(at, *way, lines) {
                isa.prefetch(line);
            }
        }
        for i in 0..count {
            let (hash, way, at) = (hashes[i], ways[i], place(hashes[i], self.flows.sets.len()));
            let entry = words(self.flows.entry(at, way, lines));
            let row = self.row::<KEY_WORDS>(from + i);
            match found(entry, row, self.key_words::<KEY_WORDS>(), self.flows.era) {
                Some(answer) => {
                    let best = &mut self.best[from + i];
                    if let Some(found) = answer.filter(|found| Match::wins(found.priority, best)) {
                        *best = Some(found);
                    }
                    *self.hits += 1;
                    self.flows.sets[at].used(way, self.flows.ways);
                }
                None => self.wait::<KEY_WORDS>(from + i, hash),
            }
        }
    }

    /// Adds a key to the misses that the classifier is to be asked for.
    #[inline(always)]
    fn wait<const KEY_WORDS: usize>(&mut self, key: usize, hash: u32) {
        let stride = self.key_words::<KEY_WORDS>().next_multiple_of(4);
        let row = &self.keys.words()[key * stride..][..stride];
        let at = self.flows.misses.push(row, key as u32, self.best[key]);
        self.flows.hashes[at] = hash;
    }

    /// Asks the classifier for the waiting keys, and keeps its answers.
    #[inline(always)]
    fn resolve<I: Isa, const KEY_WORDS: usize>(&mut self, isa: I) {
        let key_words = self.key_words::<KEY_WORDS>();
        let (stride, lines) = (key_words.next_multiple_of(4), lines_per_entry(key_words));
        let Flows { inner, sets, entries, misses, hashes, ways, era, .. } = &mut *self.flows;
        misses.ask(self.inner, inner, key_words);
        for ((row, key, answer), hash) in misses.take(stride).zip(&*hashes) {
            let (before, hash) = (&mut self.best[key as usize], *hash);
            // If it beat nothing, its own answer is unknown: it is only known to be no better.
            let keep = before.is_none() | (answer != *before);
            *before = answer;
            if keep {
                let at = place(hash, sets.len());
                let way = sets[at].way(isa, hash, *ways);
                sets[at].tags[way as usize % WAYS] = hash;
                sets[at].used(way, *ways);
                let per_set = ways.count_ones() as usize;
                let entry = &mut entries[(at * per_set + way as usize) * lines..][..lines];
                write(words_mut(entry), &row[..key_words], *era, &answer);
            }
        }
    }
}

impl Flows {
    #[inline(always)]
    fn entry(&self, set: usize, way: u32, lines: usize) -> &[Line] {
        &self.entries[(set * self.ways.count_ones() as usize + way as usize) * lines..][..lines]
    }
}

impl Set {
    /// Returns the way of a hash or, where there is none, the way to replace.
    #[inline(always)]
    fn way<I: Isa>(&self, isa: I, hash: u32, ways: u32) -> u32 {
        let equal = isa.equal8(&self.tags, hash) & ways;
        let idle = !self.recent & ways;
        (if equal != 0 { equal } else { idle }).trailing_zeros() % WAYS as u32
    }

    #[inline(always)]
    fn used(&mut self, way: u32, ways: u32) {
        let recent = self.recent | 1 << way;
        // If all were used recently, only the last one counts. A single way must stay replaceable.
        self.recent = match ways {
            1 => 0,
            _ if recent == ways => 1 << way,
            _ => recent,
        };
    }
}

#[inline(always)]
fn place(hash: u32, sets: usize) -> usize {
    ((u64::from(hash) * sets as u64) >> 32) as usize
}

/// Returns the answer that an entry holds, if it is of this key and era.
#[inline(always)]
fn found(entry: &[u32], row: &[u32], key_words: usize, era: u32) -> Option<Option<Match>> {
    let (key, rest) = entry.split_at(key_words);
    let [of, rule_low, rule_high, low, high, ..] = *rest else { return None };
    let differ = key.iter().zip(row).fold(of ^ era, |differ, (a, b)| differ | (a ^ b));
    (differ == 0).then(|| {
        let rule = RuleId::from_u64(u64::from(rule_high) << 32 | u64::from(rule_low))?;
        Some(Match { rule, priority: Priority(u64::from(high) << 32 | u64::from(low)) })
    })
}

/// Fills an entry. The number 0, which no rule has, stands for no match.
#[inline(always)]
fn write(entry: &mut [u32], key: &[u32], era: u32, answer: &Option<Match>) {
    let (rule, priority) = answer.map_or((0, 0), |found| (found.rule.get(), found.priority.0));
    let (key_words, rest) = entry.split_at_mut(key.len());
    key_words.copy_from_slice(key);
    rest[..REST].copy_from_slice(&[era, rule as u32, (rule >> 32) as u32, priority as u32, (priority >> 32) as u32]);
}
