//! Boxes for several threads: one makes them, the others search them.

use std::fmt;
use std::sync::Arc;

use super::boxes::{Boxes, CHUNK, Found};
use super::config::Config;
use super::rules;
use super::updater::Updater;
use crate::engine::{Classifier, Match, Overlaps, Scratch};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, Level, dispatch};
use crate::rule::Lowered;

/// Boxes as they were published, for threads that only search them.
///
/// Their answers are those of one [version](Classifier::version) of the classifier.
#[derive(Debug)]
pub struct AnswerBoxes {
    boxes: Boxes,
    level: Level,
    version: u64,
}

impl AnswerBoxes {
    /// Returns the version of the classifier that all answers belong to.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of boxes that a key is compared with one by one, the heaviest first, and whether the last of
    /// them holds it.
    ///
    /// For a key in none, copies of the last box in its block count, too.
    pub fn compared(&self, key: &[u32]) -> (usize, bool) {
        let position = self.boxes.position(key);
        (position.map_or(self.boxes.len(), |at| at + 1), position.is_some())
    }

    /// Improves the matches of keys that lie in a box, and returns the indices of all other keys, in order.
    ///
    /// `version` must be that of the classifier, read when the batch began. Boxes of another version hold no key. It
    /// allocates only for a batch that is longer than any before it in `search`.
    ///
    /// # Panics
    /// If `best` does not have as many elements as `keys`.
    pub fn improve<'a>(
        &self,
        version: u64,
        search: &'a mut BoxSearch,
        keys: &Keys<'_>,
        best: &mut [Option<Match>],
    ) -> &'a [u32] {
        assert_eq!(keys.len(), best.len(), "a match for each key");
        let BoxSearch { found, open } = search;
        open.clear();
        open.reserve(best.len());
        if self.boxes.is_empty() || self.version != version {
            open.extend(0..best.len() as u32);
        } else {
            dispatch(self.level, Search { boxes: &self.boxes, found, keys: *keys, best, open });
        }
        open
    }
}

/// Memory of one thread for searches of [`AnswerBoxes`].
#[derive(Debug)]
pub struct BoxSearch {
    found: Found,
    open: Vec<u32>,
}

impl BoxSearch {
    /// Builds the memory for batches of up to `batch` keys.
    pub fn new(batch: usize) -> Self {
        Self { found: Found::new(), open: Vec::with_capacity(batch) }
    }
}

struct Search<'a> {
    boxes: &'a Boxes,
    found: &'a mut Found,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
    open: &'a mut Vec<u32>,
}

impl Kernel for Search<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        match self.keys.key_words() {
            5 => self.run_over::<I, 5>(isa),
            11 => self.run_over::<I, 11>(isa),
            _ => self.run_over::<I, 0>(isa),
        }
    }
}

impl Search<'_> {
    #[inline(always)]
    fn run_over<I: Isa, const KEY_WORDS: usize>(self, isa: I) {
        let Self { boxes, found, keys, best, open } = self;
        for (from, best) in (0..).step_by(CHUNK).zip(best.chunks_mut(CHUNK)) {
            let left = boxes.find::<I, KEY_WORDS>(isa, keys.slice(from, from + best.len()), found);
            found.improve(best);
            open.extend(found.open[..left].iter().map(|&key| from as u32 + u32::from(key)));
        }
    }
}

/// Maker of boxes on a thread of its own, for any number of threads that search them.
///
/// It looks samples up by itself, so a sample is a key alone. It takes samples as they come: [`Config::sample`] and
/// [`Config::tests`] are for caches that share a thread with lookups.
///
/// ```
/// use std::sync::Arc;
///
/// use firstmatch_core::cache::rule::{BoxSearch, BoxUpdater, Config};
/// use firstmatch_core::engines::linear::{self, Linear};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "family ipv4\ndeny src 10.1.0.0/16\npermit src 10.0.0.0/8\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let lowered = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine: Arc<dyn Classifier> = Arc::new(Linear::build(&lowered, &linear::Config::default())?);
/// let mut updater = BoxUpdater::over(Arc::clone(&engine), &lowered, &Config::default())?;
///
/// let mut keys = KeyBuf::new(lowered.schema());
/// [0x0A02_0001, 0x0A03_0001, 0x0A01_0001].into_iter().for_each(|address| keys.push()[0] = address);
/// let mut boxes = updater.boxes();
/// if updater.sample(keys.keys()) {
///     updater.publish(&mut boxes);
/// }
/// // The first two keys have the second rule and are in one box, from which the third key's rule is cut away.
/// let mut best = [None; 3];
/// let mut search = BoxSearch::new(3);
/// assert_eq!(boxes.improve(engine.version(), &mut search, &keys.keys(), &mut best), [2]);
/// assert!(best[0].is_some() && best[1] == best[0] && best[2].is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BoxUpdater {
    engine: Arc<dyn Classifier>,
    rules: Arc<dyn Overlaps>,
    config: Config,
    level: Level,
    scratch: Scratch,
    /// Version of the classifier that all boxes belong to.
    version: u64,
    updater: Updater,
}

impl fmt::Debug for BoxUpdater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxUpdater").field("engine", &self.engine).field("version", &self.version).finish()
    }
}

impl BoxUpdater {
    /// Builds an updater of boxes for `engine`, with a list of the regions of its rules, which must not change.
    ///
    /// # Errors
    /// If the list would exceed the budget, or this machine lacks the forced instruction set.
    pub fn over(engine: Arc<dyn Classifier>, rules: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::new(engine, Arc::new(rules::list(rules, config)?), config)
    }

    /// Builds an updater of boxes for `engine`, proved by `rules`, which must always be those of the engine's version.
    ///
    /// # Errors
    /// If this machine lacks the forced instruction set.
    pub fn new(engine: Arc<dyn Classifier>, rules: Arc<dyn Overlaps>, config: &Config) -> Result<Self, BuildError> {
        let mut updater = Updater::new(config, engine.schema().words().len());
        updater.prepare(&*rules);
        let (level, scratch, version) = (Level::choose(config.simd)?, engine.scratch(), engine.version());
        Ok(Self { engine, rules, config: config.clone(), level, scratch, version, updater })
    }

    /// Returns the classifier whose answers the boxes have.
    pub fn engine(&self) -> &Arc<dyn Classifier> {
        &self.engine
    }

    /// Returns empty boxes, which [`BoxUpdater::publish`] fills.
    pub fn boxes(&self) -> AnswerBoxes {
        let boxes = Boxes::new(self.engine.schema().words().len(), self.config.boxes());
        AnswerBoxes { boxes, level: self.level, version: self.version }
    }

    /// Takes the first key of `keys` as a sample, with all the work for its box; returns whether boxes are to be
    /// published.
    ///
    /// # Panics
    /// If there is no key, or it is not of the classifier's schema.
    pub fn sample(&mut self, keys: Keys<'_>) -> bool {
        let (engine, rules) = (&self.engine, &*self.rules);
        let version = engine.version();
        if version != self.version {
            self.version = version;
            self.updater.clear();
        }
        let answer = engine.classify(&mut self.scratch, keys);
        let mut is_new = self.updater.take(keys.row(0), answer);
        is_new |= self.updater.go_on(rules, engine.schema().words(), usize::MAX);
        if engine.version() != version {
            // Answer and regions may be of different rules.
            self.updater.clear();
            return false;
        }
        is_new
    }

    /// Fills `boxes`, which [`BoxUpdater::boxes`] made, with the heaviest boxes.
    pub fn publish(&mut self, boxes: &mut AnswerBoxes) {
        self.updater.publish(&mut boxes.boxes);
        boxes.version = self.version;
    }

    /// Returns the number of samples that were taken.
    pub fn samples(&self) -> u64 {
        self.updater.samples()
    }

    /// Returns the number of boxes with a sample in the window.
    pub fn evolving(&self) -> usize {
        self.updater.evolving()
    }

    /// Returns the numbers of nodes that were visited and of regions that were tested for boxes so far.
    pub fn proved_by(&self) -> [u64; 2] {
        self.updater.proved_by()
    }
}
