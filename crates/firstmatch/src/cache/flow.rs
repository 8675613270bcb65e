//! The flow cache: what a classifier answered for a key, for the next packet with this very key.
//!
//! # Idea
//! Packets come in flows, and all packets of a flow have the same key. [`FlowCache`] keeps keys, each whole, with the
//! match that the classifier behind it gave, or that it gave none; a key that is there is answered from there. So a
//! hit is exact, which a cache of rules would not be: a rule that matched one packet may be the wrong one for the next
//! (section III-D2).
//!
//! Entries belong to a generation. Every change of the rules begins a new one, and an entry of another is a miss: changes
//! made through the cache, and those that the classifier itself tells by its [`version`](crate::Engine::version), which is
//! read once a batch. So in front of a [`meta::Engine`](crate::meta::Engine) nobody need say anything: every batch that
//! starts after a commit has returned answers by it. A batch during which a commit comes may have answers from before and
//! after it, key by key.
//!
//! Traffic whose keys do not come again gains nothing and pays for every miss, and an engine may be faster than the cache
//! in front of it. So the cache steps aside and goes on trial now and then. The hashes of some keys tell whether they come
//! again, which costs little; if so, a clock tells what stretches of lookups take without the cache and with it, and it
//! stays where it is faster. A verdict holds for a while, twice as long each time it is confirmed; a cache that stays goes
//! on trial at once when far fewer keys hit. Answers are the same on either way.
//!
//! # Layout in memory
//! All of it is in the scratch of a thread; the engine itself has only the classifier behind it.
//! - *Sets*: a cache line each, with the hashes of up to eight keys and a bit for each of these that was used of late.
//! - *Entries*: the lanes of a key, the number of its generation and the match: whole cache lines, one for keys of up to
//!   11 lanes (the 5-tuples of IPv4 and of IPv6).
//!
//! # Cost
//! A hit touches two cache lines. 64 keys are taken together in three stages, each asking early for the memory of the
//! next: hash, compare tags, compare keys. Misses are put side by side and go to the classifier in batches of up to
//! 128, each with its match to beat; so a miss costs the classifier's own lookup, two or three cache lines, one
//! comparison and the copy of a key, whatever the packets are. Of a full set a key is replaced that was not used of late.
//! A new generation costs nothing by itself, but every key misses once afterwards, whatever the change was; after 2^32 of
//! them the cache is emptied. So it is of use where rules stay for many times as many packets as it holds keys, and where
//! they do not, it steps aside.
//!
//! What comes again is fast in any engine, since its memory is in the first caches by then. In front of
//! [`tuple`](mod@crate::tuple) a hit takes less than half of a lookup; [`bit_select`](crate::bit_select) is so near to it
//! that it is faster alone where one packet in six misses. A cache that has stepped aside is a branch and a
//! call a batch, some 4 ns (definition `cached`); a trial that ends with the hashes looks at 512 packets.
//!
//! # Paper
//! Daly, Bruschi, Linguaglossa, Pontarelli, Rossi, Tollet, Torng and Yourtchenko, "TupleMerge: Fast Software Packet
//! Processing for Online Packet Classification", IEEE/ACM Transactions on Networking 27(4), 2019, section III-D2.
//!
//! # Deviations
//! - A change does not flush the cache but begins a generation, which is the same to whoever looks up and costs O(1).
//! - The paper stores "the most frequently seen flows" and does not say how they are found; here those stay that come
//!   again before their set is full of newer ones.
//! - The paper's cache is always asked; it found itself slower with it on some traffic (Table V).

#[cfg(test)]
mod tests;
mod trial;

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::engine::{Classifier, Engine, Match, Scratch, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::rule::{Priority, Regions, RuleId};
use crate::schema::Schema;
use crate::simd::{Hasher, Isa, Kernel, LINE_WORDS, Level, Line, dispatch, secrets, words, words_mut};
use trial::{Trial, Way};

/// How to build [`FlowCache`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How many keys a thread keeps, rounded up to whole sets; at least one. 72 bytes each, for keys of up to 11 lanes.
    pub entries: usize,
    /// How many keys share a set, 1 to 8.
    pub ways: usize,
    /// Whether the cache steps aside where it does not pay.
    pub steps_aside: bool,
    /// The lookups of a window, over which hits are counted and times taken; at least one.
    pub window: usize,
    /// How long a verdict holds at the most, in windows. The first holds for a 32nd of that, and each that confirms it
    /// twice as long as the one before.
    pub longest_pause: usize,
    /// The instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// The seed of the hash; `None` takes a random one of this process.
    pub seed: Option<u64>,
}

impl Default for Config {
    /// 16,384 keys in sets of 8. The cache steps aside, upon trials of windows of 2,048 lookups, for up to 4,096 times as
    /// many.
    fn default() -> Self {
        Self {
            entries: 1 << 14,
            ways: WAYS,
            steps_aside: true,
            window: 1 << 11,
            longest_pause: 1 << 12,
            simd: None,
            seed: None,
        }
    }
}

impl Config {
    fn ways(&self) -> usize {
        self.ways.clamp(1, WAYS)
    }

    fn sets(&self) -> usize {
        self.entries.clamp(1, 1 << 31).div_ceil(self.ways())
    }

    fn window(&self) -> usize {
        self.window.clamp(1, 1 << 31)
    }

    /// The keys of a trial whose hashes are noted.
    fn noted(&self) -> usize {
        self.window().div_ceil(4)
    }

    fn longest_pause(&self) -> usize {
        self.longest_pause.saturating_mul(self.window())
    }

    /// What a scratch is made for, in one number, as every batch compares it: how many sets of how many ways, for how many
    /// lanes, and whether the cache steps aside.
    fn shape(&self, lanes: usize) -> u64 {
        let rest = lanes << 5 | self.ways() << 1 | usize::from(self.steps_aside);
        self.sets() as u64 | (rest as u64) << 32
    }

    fn shortest_pause(&self) -> usize {
        self.longest_pause().div_ceil(32)
    }
}

/// Keys that share a set at the most: as many tags as one comparison takes.
const WAYS: usize = 8;
/// Keys taken through the cache together, as the engines do: enough to hide the misses of the second-level cache.
const CHUNK: usize = 64;
/// Misses that are handed on together at the most: no chunk begins unless all its keys have room.
const MISSES: usize = 2 * CHUNK;
/// What an entry holds beside its key: its generation, the rule and its priority.
const REST: usize = 5;

/// A number that no other engine, and no other state of the rules of one, has had.
fn fresh_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Whoever takes a later one sees the changes that an earlier one was taken for.
    NEXT.fetch_add(1, Ordering::AcqRel)
}

/// Any classifier with a flow cache in front of it.
///
/// It is an [`Engine`] itself, and [`Updatable`] where the classifier is.
pub struct FlowCache<C> {
    inner: C,
    schema: Schema,
    shape: u64,
    level: Level,
    config: Config,
    generation: AtomicU64,
}

impl<C: Classifier + 'static> FlowCache<C> {
    /// Puts a cache in front of a classifier.
    ///
    /// # Errors
    /// When this machine lacks the forced instruction set.
    pub fn new(inner: C, config: &Config) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        let schema = inner.schema().clone();
        let shape = config.shape(schema.lanes().len());
        Ok(Self { inner, schema, shape, level, config: config.clone(), generation: AtomicU64::new(fresh_generation()) })
    }

    /// The classifier behind the cache.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// The classifier behind the cache, to be changed, but for its schema: what is cached is of no use afterwards.
    pub fn inner_mut(&mut self) -> &mut C {
        self.begin_generation();
        &mut self.inner
    }

    /// The number of the generation whose entries count. No two states of rules in this process share one.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Begins a new generation: batches that start when this has returned use nothing that was cached before. For
    /// owners who change the rules of a classifier behind the cache's back that does not say so by its
    /// [version](crate::Engine::version): change first, then begin.
    pub fn begin_generation(&self) {
        // The thread with the smaller number may come last.
        self.generation.fetch_max(fresh_generation(), Ordering::AcqRel);
    }

    #[inline(never)]
    fn look_up(&self, scratch: &mut Flows, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let (way, lookups, mut hits) = (scratch.trial.way(), best.len(), 0);
        if let Way::Noted(most) = way {
            let keys = keys.slice(0, lookups.min(most));
            dispatch(self.level, Note { flows: scratch, keys, hits: &mut hits });
        }
        scratch.trial.begins(&self.config, Instant::now);
        if way == Way::Cached {
            // Read before the lookups: what they answer is at least as new.
            scratch.begin((self.generation(), self.inner.version()));
            let lookup = Lookup { inner: &self.inner, flows: scratch, keys: *keys, best, hits: &mut hits };
            dispatch(self.level, lookup);
        } else {
            self.inner.improve_batch(&mut scratch.inner, keys, best);
        }
        scratch.trial.went(&self.config, way, lookups, hits, Instant::now);
    }

    /// What became of the lookups with this scratch. Zeros where it is of another kind of engine.
    pub fn counts(scratch: &Scratch) -> Counts {
        scratch.of::<Self>().map_or(Counts::default(), |flows| flows.trial.counts())
    }
}

impl<C: Debug> Debug for FlowCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowCache").field("inner", &self.inner).field("entries", &self.config.entries).finish()
    }
}

/// What became of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered by the cache.
    pub hits: u64,
    /// Asked of the cache in vain.
    pub misses: u64,
    /// Not asked of the cache, which had stepped aside.
    pub passed_by: u64,
}

impl<C: Classifier + 'static> Engine for FlowCache<C> {
    type Scratch = Flows;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Flows {
        Flows::new(&self.config, &self.schema, self.inner.scratch())
    }

    /// One of other rules does too: what it holds is of another generation.
    fn fits(&self, scratch: &Flows) -> bool {
        scratch.shape == self.shape
    }

    fn version(&self) -> u64 {
        // A generation never goes back. The classifier's version may, in a later generation, where another classifier was
        // put behind the cache: so generations are as far apart as versions of one classifier go.
        (self.generation() << 32).wrapping_add(self.inner.version())
    }

    /// Those of the classifier, with the worst case of a miss. What the cache itself takes is in each thread's scratch.
    fn stats(&self) -> Stats {
        let stats = self.inner.stats();
        let lines = lines_per_entry(self.schema.lanes().len());
        // The set and an entry to look, and another entry to replace.
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

/// What a thread has cached, with the scratch of the classifier behind the cache; of a fixed size.
#[derive(Debug)]
pub struct Flows {
    inner: Scratch,
    /// What it was made for.
    shape: u64,
    hasher: Hasher,
    /// Every bit of a row.
    whole: Box<[u32]>,
    ways: u32,
    sets: Box<[Set]>,
    /// Entry by entry, `ways` of each set.
    entries: Box<[Line]>,
    /// What `era` stands for: the cache's generation and the classifier's version.
    generation: (u64, u64),
    /// The generation in 32 bits, which count those of this scratch; never 0.
    era: u32,
    trial: Trial,
    waiting: Waiting,
}

/// Up to eight keys whose hashes lead to the same place.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Set {
    /// The hash of the key of each entry. In a set each hash stands once at the most, or the first counts.
    tags: [u32; WAYS],
    /// A bit for each entry that was used of late; never all.
    recent: u32,
}

/// Misses that were not handed on yet.
#[derive(Debug)]
struct Waiting {
    count: usize,
    /// The keys, row after row.
    rows: Box<[Line]>,
    hashes: [u32; MISSES],
    /// The place of each in the batch.
    places: [u32; MISSES],
    best: [Option<Match>; MISSES],
}

fn lines_per_entry(lanes: usize) -> usize {
    (lanes + REST).div_ceil(LINE_WORDS)
}

impl Flows {
    fn new(config: &Config, schema: &Schema, inner: Scratch) -> Self {
        let (lanes, stride) = (schema.lanes().len(), schema.stride());
        let (sets, ways) = (config.sets(), config.ways());
        // Memory that is written here is there when lookups come: pages that have only been promised would cost the first
        // packet of each a fault, which takes as long as dozens of lookups.
        let touched = Line([1; LINE_WORDS]);
        let mut entries = vec![touched; sets * ways * lines_per_entry(lanes)].into_boxed_slice();
        entries.fill(Line::default());
        Self {
            inner,
            shape: config.shape(lanes),
            hasher: Hasher::new(stride, secrets(config.seed)),
            whole: vec![u32::MAX; stride].into_boxed_slice(),
            ways: (1 << ways) - 1,
            sets: vec![Set { tags: [u32::MAX; WAYS], recent: 0 }; sets].into_boxed_slice(),
            entries,
            generation: (0, 0),
            era: 0,
            trial: Trial::new(config),
            waiting: Waiting {
                count: 0,
                rows: vec![Line::default(); (MISSES * stride).div_ceil(LINE_WORDS)].into_boxed_slice(),
                hashes: [0; MISSES],
                places: [0; MISSES],
                best: [None; MISSES],
            },
        }
    }

    /// Goes over to a generation.
    #[inline]
    fn begin(&mut self, generation: (u64, u64)) {
        if self.generation == generation {
            return;
        }
        (self.generation, self.era) = (generation, self.era.wrapping_add(1));
        if self.era == 0 {
            // The numbers come again: what still bears one must go.
            self.entries.fill(Line::default());
            self.era = 1;
        }
    }
}

/// Notes hashes of keys, and counts those that were there.
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
        // As in the engines: loops over lanes are slow where their number is not known to the compiler.
        match self.keys.lanes() {
            5 => self.run_over::<I, 5>(isa),
            11 => self.run_over::<I, 11>(isa),
            _ => self.run_over::<I, 0>(isa),
        }
    }
}

impl Lookup<'_> {
    #[inline(always)]
    fn run_over<I: Isa, const LANES: usize>(mut self, isa: I) {
        for from in (0..self.best.len()).step_by(CHUNK) {
            if self.flows.waiting.count > MISSES - CHUNK {
                self.resolve::<I, LANES>(isa);
            }
            self.chunk::<I, LANES>(isa, from);
        }
        if self.flows.waiting.count > 0 {
            self.resolve::<I, LANES>(isa);
        }
    }

    #[inline(always)]
    fn lanes<const LANES: usize>(&self) -> usize {
        if LANES == 0 { self.keys.lanes() } else { LANES }
    }

    #[inline(always)]
    fn row<const LANES: usize>(&self, key: usize) -> &[u32] {
        let stride = self.lanes::<LANES>().next_multiple_of(4);
        &self.keys.words()[key * stride..][..stride]
    }

    /// Takes the keys from a place of the batch through the cache; those that are not there wait.
    #[inline(always)]
    fn chunk<I: Isa, const LANES: usize>(&mut self, isa: I, from: usize) {
        let count = (self.best.len() - from).min(CHUNK);
        let (mut hashes, mut ways) = ([0; CHUNK], [0u32; CHUNK]);
        for (i, hash) in hashes.iter_mut().enumerate().take(count) {
            *hash = isa.hash(&self.flows.hasher, self.row::<LANES>(from + i), &self.flows.whole);
            isa.prefetch(&self.flows.sets[place(*hash, self.flows.sets.len())]);
        }
        let lines = lines_per_entry(self.lanes::<LANES>());
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
            let row = self.row::<LANES>(from + i);
            match found(entry, row, self.lanes::<LANES>(), self.flows.era) {
                Some(answer) => {
                    let best = &mut self.best[from + i];
                    if let Some(found) = answer.filter(|found| Match::wins(found.priority, best)) {
                        *best = Some(found);
                    }
                    *self.hits += 1;
                    self.flows.sets[at].used(way, self.flows.ways);
                }
                None => self.wait::<LANES>(from + i, hash),
            }
        }
    }

    /// Puts a key with those that the classifier is to be asked for.
    #[inline(always)]
    fn wait<const LANES: usize>(&mut self, key: usize, hash: u32) {
        let stride = self.lanes::<LANES>().next_multiple_of(4);
        let row = &self.keys.words()[key * stride..][..stride];
        let waiting = &mut self.flows.waiting;
        let at = waiting.count;
        words_mut(&mut waiting.rows)[at * stride..][..stride].copy_from_slice(row);
        (waiting.hashes[at], waiting.places[at], waiting.best[at]) = (hash, key as u32, self.best[key]);
        waiting.count += 1;
    }

    /// Asks the classifier for the keys that wait, and keeps what it says.
    #[inline(always)]
    fn resolve<I: Isa, const LANES: usize>(&mut self, isa: I) {
        let lanes = self.lanes::<LANES>();
        let (stride, lines) = (lanes.next_multiple_of(4), lines_per_entry(lanes));
        let Flows { inner, sets, entries, waiting, ways, era, .. } = &mut *self.flows;
        let rows = &words(&waiting.rows)[..waiting.count * stride];
        let Some(keys) = Keys::new(rows, lanes) else { unreachable!("whole rows from the start of a line") };
        let answers = &mut waiting.best[..waiting.count];
        self.inner.improve_batch(inner, &keys, answers);
        for (i, answer) in answers.iter().enumerate() {
            let (before, hash) = (&mut self.best[waiting.places[i] as usize], waiting.hashes[i]);
            // Where it beat nothing, all that is known is that its own answer is no better than what was there.
            let keep = before.is_none() | (answer != before);
            *before = *answer;
            if keep {
                let at = place(hash, sets.len());
                let way = sets[at].way(isa, hash, *ways);
                sets[at].tags[way as usize % WAYS] = hash;
                sets[at].used(way, *ways);
                let per_set = ways.count_ones() as usize;
                let entry = &mut entries[(at * per_set + way as usize) * lines..][..lines];
                write(words_mut(entry), &rows[i * stride..][..lanes], *era, answer);
            }
        }
        waiting.count = 0;
    }
}

impl Flows {
    #[inline(always)]
    fn entry(&self, set: usize, way: u32, lines: usize) -> &[Line] {
        &self.entries[(set * self.ways.count_ones() as usize + way as usize) * lines..][..lines]
    }
}

impl Set {
    /// The entry of a hash; where there is none, the one to replace.
    #[inline(always)]
    fn way<I: Isa>(&self, isa: I, hash: u32, ways: u32) -> u32 {
        let equal = isa.equal8(&self.tags, hash) & ways;
        let idle = !self.recent & ways;
        (if equal != 0 { equal } else { idle }).trailing_zeros() % WAYS as u32
    }

    #[inline(always)]
    fn used(&mut self, way: u32, ways: u32) {
        let recent = self.recent | 1 << way;
        // Where all were used of late, only the last one was. A single one is never kept from being replaced.
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

/// The answer that an entry holds for a key, if it is of this key and era.
#[inline(always)]
fn found(entry: &[u32], row: &[u32], lanes: usize, era: u32) -> Option<Option<Match>> {
    let (key, rest) = entry.split_at(lanes);
    let [of, rule_low, rule_high, low, high, ..] = *rest else { return None };
    let differ = key.iter().zip(row).fold(of ^ era, |differ, (a, b)| differ | (a ^ b));
    (differ == 0).then(|| {
        let rule = RuleId::from_u64(u64::from(rule_high) << 32 | u64::from(rule_low))?;
        Some(Match { rule, priority: Priority(u64::from(high) << 32 | u64::from(low)) })
    })
}

/// Fills an entry. No rule has the number 0.
#[inline(always)]
fn write(entry: &mut [u32], key: &[u32], era: u32, answer: &Option<Match>) {
    let (rule, priority) = answer.map_or((0, 0), |found| (found.rule.get(), found.priority.0));
    let (lanes, rest) = entry.split_at_mut(key.len());
    lanes.copy_from_slice(key);
    rest[..REST].copy_from_slice(&[era, rule as u32, (rule >> 32) as u32, priority as u32, (priority >> 32) as u32]);
}
