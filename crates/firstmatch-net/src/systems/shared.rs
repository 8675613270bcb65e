//! Copies that share boxes: workers do whole lookups, and one updater makes the boxes of a rule cache for all of them.
//!
//! Each worker compares its packets with the [boxes](firstmatch_core::cache::rule), and looks up the packets in none.
//! It leaves one key of each batch in a slot of its own. The updater takes the keys from the slots, looks them up and
//! publishes the heaviest boxes. For example, with two workers:
//!
//! ```text
//!            ┌──────── newest key of each ────────┐
//! worker 0 ──┤ pull ▸ boxes ▸ misses ▸ whole      ▾
//! worker 1 ──┤ pull ▸ boxes ▸ misses ▸ whole    updater
//!            └──────── Arc of the newest boxes ◂──┘
//! ```
//!
//! No worker waits for the updater or another worker, because workers only try the locks of slots and boxes. A worker
//! that finds the newest boxes locked keeps its old ones for this batch.
//!
//! Threads of the caller may do the same without a plane:
//!
//! ```
//! use std::sync::Arc;
//!
//! use firstmatch_core::cache::rule::{BoxUpdater, Config};
//! use firstmatch_core::engines::linear::{self, Linear};
//! use firstmatch_core::{Classifier, KeyBuf};
//! use firstmatch_net::systems::shared::{SharedBoxes, SharedLookup};
//!
//! let text = "family ipv4\ndeny tcp dport 23\npermit udp\n";
//! let rules = firstmatch_formats::parse(text, &Default::default())?.rules;
//! let lowered = firstmatch_core::rule::lower(&rules, &rules.schemas()[0], &Default::default())?;
//! let engine: Arc<dyn Classifier> = Arc::new(Linear::build(&lowered, &linear::Config::default())?);
//! let shared = SharedBoxes::new(BoxUpdater::over(engine, &lowered, &Config::default())?, 1);
//!
//! let mut keys = KeyBuf::new(lowered.schema());
//! keys.push()[..5].copy_from_slice(&[1, 2, 53, 53, 17]);
//! let mut worker = SharedLookup::new(&shared, 0);
//! for _ in 0..2 {
//!     let mut best = [None];
//!     worker.improve(&keys.keys(), &mut best);
//!     assert_eq!(best[0].map(|found| found.rule.slot()), Some(1));
//!     shared.update(); // on another thread, again and again
//! }
//! // The second lookup found the packet in the box that the first one was a sample for.
//! assert_eq!(shared.counts().hits, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! - Boxes answer only batches that saw the boxes' version of the rules at their start
//!   (`boxes_of_an_old_version_answer_nothing` in `tests/net/systems/shared.rs`).
//! - A lookup neither allocates nor frees, because the updater keeps all boxes that it made
//!   (`lookups_by_shared_boxes_allocate_nothing` in `tests/net/allocation.rs`).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use firstmatch_core::cache::rule::{AnswerBoxes, BoxSearch, BoxUpdater};
use firstmatch_core::{Classifier, KeyBuf, Keys, Match, Schema, Scratch};

use super::step::{LookupMessage, LookupView, Step};
use crate::plane::{Control, Controller, Message, Outputs, PlaneBuilder, Pulled, StageId, lock};

/// Maximum number of misses that are looked up together.
const MOST_MISSES: usize = 128;
/// Minimum pause of an updater that has found no key.
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// Boxes that one updater makes for the workers of one plane.
pub struct SharedBoxes {
    slots: Box<[Slot]>,
    /// Number of publications.
    stamp: AtomicU64,
    published: Mutex<Arc<AnswerBoxes>>,
    updating: Mutex<Updating>,
    engine: Arc<dyn Classifier>,
}

/// Slot of one worker, alone on its cache lines.
#[repr(align(128))]
struct Slot {
    sample: Mutex<Sample>,
    hits: AtomicU64,
    lookups: AtomicU64,
    is_closed: AtomicBool,
}

/// Newest key of a worker.
struct Sample {
    /// One row.
    key: KeyBuf,
    is_new: bool,
}

/// State of the updater.
struct Updating {
    updater: BoxUpdater,
    /// All boxes that were made. Boxes that no worker holds any more are filled again.
    made: Vec<Arc<AnswerBoxes>>,
    /// Row that is swapped with the row of a slot.
    key: KeyBuf,
}

/// Counts of all workers of a plane, and of their updater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedCounts {
    /// Packets that were looked up.
    pub lookups: u64,
    /// Packets that boxes answered.
    pub hits: u64,
    /// Samples that the updater took.
    pub samples: u64,
    /// Number of times that boxes were published.
    pub published: u64,
}

/// Result of a round over the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// Number of keys that were taken.
    pub samples: usize,
    /// Whether boxes were published.
    pub is_published: bool,
}

impl fmt::Debug for SharedBoxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBoxes").field("workers", &self.slots.len()).field("engine", &self.engine).finish()
    }
}

impl SharedBoxes {
    /// Returns boxes for `workers` workers, which `updater` makes; those that it has already are published.
    pub fn new(mut updater: BoxUpdater, workers: usize) -> Arc<Self> {
        let engine = Arc::clone(updater.engine());
        let slot = || Slot {
            sample: Mutex::new(Sample { key: one_row(engine.schema()), is_new: false }),
            hits: AtomicU64::new(0),
            lookups: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        };
        let slots = (0..workers).map(|_| slot()).collect();
        let (mut boxes, key) = (updater.boxes(), one_row(engine.schema()));
        updater.publish(&mut boxes);
        let boxes = Arc::new(boxes);
        let updating = Mutex::new(Updating { made: vec![Arc::clone(&boxes)], key, updater });
        Arc::new(Self { slots, stamp: AtomicU64::new(0), published: Mutex::new(boxes), updating, engine })
    }

    /// Takes the newest key of each worker that left one, and publishes boxes if they have changed.
    ///
    /// One thread should call it again and again; a second thread would wait for the first.
    pub fn update(&self) -> Updated {
        let Updating { updater, made, key } = &mut *lock(&self.updating);
        let (mut samples, mut is_new) = (0, false);
        for slot in &self.slots {
            let Ok(mut sample) = slot.sample.try_lock() else { continue };
            if !std::mem::take(&mut sample.is_new) {
                continue;
            }
            std::mem::swap(&mut sample.key, key);
            drop(sample);
            is_new |= updater.sample(key.keys());
            samples += 1;
        }
        if is_new {
            let free = made.iter_mut().position(|boxes| Arc::get_mut(boxes).is_some());
            let at = free.unwrap_or_else(|| {
                made.push(Arc::new(updater.boxes()));
                made.len() - 1
            });
            if let Some(boxes) = Arc::get_mut(&mut made[at]) {
                updater.publish(boxes);
            }
            *lock(&self.published) = Arc::clone(&made[at]);
            self.stamp.fetch_add(1, Ordering::Release);
        }
        Updated { samples, is_published: is_new }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> SharedCounts {
        let sum =
            |count: fn(&Slot) -> &AtomicU64| self.slots.iter().map(|slot| count(slot).load(Ordering::Relaxed)).sum();
        SharedCounts {
            hits: sum(|slot| &slot.hits),
            lookups: sum(|slot| &slot.lookups),
            samples: lock(&self.updating).updater.samples(),
            published: self.stamp.load(Ordering::Relaxed),
        }
    }

    /// Whether every worker has had its [`BoxReader`] and dropped it.
    pub fn is_ended(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_closed.load(Ordering::Acquire))
    }
}

fn one_row(schema: &Schema) -> KeyBuf {
    let mut key = KeyBuf::new(schema);
    key.push();
    key
}

/// Reader of shared boxes on the thread of one worker.
#[derive(Debug)]
pub struct BoxReader {
    shared: Arc<SharedBoxes>,
    worker: usize,
    boxes: Arc<AnswerBoxes>,
    /// Number of publications when the reader took its boxes.
    stamp: u64,
    search: BoxSearch,
    /// Number of batches, so that samples come from all places of a batch.
    batches: usize,
}

impl BoxReader {
    /// Returns the reader of a worker, counted from 0.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn new(shared: &Arc<SharedBoxes>, worker: usize) -> Self {
        let workers = shared.slots.len();
        assert!(worker < workers, "there is no worker {worker}, the boxes are for {workers}");
        let boxes = Arc::clone(&lock(&shared.published));
        let (shared, search) = (Arc::clone(shared), BoxSearch::new(MOST_MISSES));
        Self { shared, worker, boxes, stamp: 0, search, batches: 0 }
    }

    /// Improves the matches of keys in a box, and returns the indices of all other keys, in order.
    ///
    /// These are all keys if the boxes are not of the current version of the rules.
    ///
    /// # Panics
    /// If `best` does not have as many elements as `keys`.
    pub fn improve(&mut self, keys: &Keys<'_>, best: &mut [Option<Match>]) -> &[u32] {
        let slot = &self.shared.slots[self.worker];
        let count = |count: &AtomicU64, more: usize| {
            // No other thread writes it.
            count.store(count.load(Ordering::Relaxed) + more as u64, Ordering::Relaxed);
        };
        // Read before the boxes, so that these are no older than the batch.
        let version = self.shared.engine.version();
        if !keys.is_empty()
            && let Ok(mut sample) = slot.sample.try_lock()
        {
            sample.key.row_mut(0).copy_from_slice(keys.row(self.batches % keys.len()));
            sample.is_new = true;
        }
        self.batches = self.batches.wrapping_add(1);
        count(&slot.lookups, best.len());
        let stamp = self.shared.stamp.load(Ordering::Acquire);
        if stamp != self.stamp
            && let Ok(published) = self.shared.published.try_lock()
        {
            (self.boxes, self.stamp) = (Arc::clone(&published), stamp);
        }
        let open = self.boxes.improve(version, &mut self.search, keys, best);
        count(&slot.hits, best.len() - open.len());
        open
    }
}

impl Drop for BoxReader {
    fn drop(&mut self) {
        self.shared.slots[self.worker].is_closed.store(true, Ordering::Release);
    }
}

/// Whole lookups of one worker: by shared boxes, then by the engine for keys in none.
#[derive(Debug)]
pub struct SharedLookup {
    engine: Arc<dyn Classifier>,
    scratch: Scratch,
    reader: BoxReader,
    misses: KeyBuf,
    best: Vec<Option<Match>>,
}

impl SharedLookup {
    /// Returns the lookups of a worker, counted from 0.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn new(shared: &Arc<SharedBoxes>, worker: usize) -> Self {
        let engine = Arc::clone(&shared.engine);
        let (scratch, reader) = (engine.scratch(), BoxReader::new(shared, worker));
        let mut misses = KeyBuf::new(engine.schema());
        misses.reserve(MOST_MISSES);
        Self { engine, scratch, reader, misses, best: Vec::with_capacity(MOST_MISSES) }
    }

    /// Replaces each match if there is a better one.
    ///
    /// While the rules change, answers of the engine may be of newer rules than answers of boxes.
    ///
    /// # Panics
    /// If `best` does not have as many elements as `keys`.
    pub fn improve(&mut self, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let Self { engine, scratch, reader, misses, best: found } = self;
        let open = reader.improve(keys, best);
        if open.len() == best.len() {
            return engine.improve_batch(scratch, keys, best);
        }
        for open in open.chunks(MOST_MISSES) {
            misses.clear();
            found.clear();
            for (row, &at) in misses.push_rows(open.len()).chunks_exact_mut(keys.stride()).zip(open) {
                row.copy_from_slice(keys.row(at as usize));
                found.push(best[at as usize]);
            }
            engine.improve_batch(scratch, &misses.keys(), found);
            open.iter().zip(&*found).for_each(|(&at, found)| best[at as usize] = *found);
        }
    }
}

/// Returns a step that looks packets up in the shared boxes and, on a miss, in the engine.
///
/// Its stage must have as many workers as the boxes were made for.
pub fn step<T: LookupMessage>(shared: &Arc<SharedBoxes>) -> Step<T> {
    let shared = Arc::clone(shared);
    Step::new("boxes, whole", move |seat| {
        let mut lookup = SharedLookup::new(&shared, seat.worker);
        move |mut message: T| {
            let LookupView { keys, best, .. } = message.view();
            lookup.improve(&keys, best);
            Some(message)
        }
    })
}

/// Adds the stage `updater` of one worker, which updates shared boxes until all their workers have ended.
///
/// It sleeps for `pause` after each round over the slots, and for at least a millisecond if they were empty.
pub fn updater<T: Message>(builder: &mut PlaneBuilder<T>, shared: &Arc<SharedBoxes>, pause: Duration) -> StageId {
    controlling(builder, shared, pause, |_: &Control| ())
}

/// Adds an updater like [`updater`], which ticks a copy of `controller` at its start and after each publication.
pub(super) fn controlling<T: Message>(
    builder: &mut PlaneBuilder<T>,
    shared: &Arc<SharedBoxes>,
    pause: Duration,
    controller: impl Controller + Clone + Sync + 'static,
) -> StageId {
    let shared = Arc::clone(shared);
    builder.source("updater", 1, move |seat| {
        let (shared, mut controller, control) = (Arc::clone(&shared), controller.clone(), seat.control.clone());
        controller.tick(&control);
        move |_: &mut Outputs<T>| {
            if shared.is_ended() {
                return Pulled::End;
            }
            let Updated { samples, is_published } = shared.update();
            if is_published {
                controller.tick(&control);
            }
            thread::sleep(if samples == 0 { pause.max(LEAST_PAUSE) } else { pause });
            Pulled::Packets(0)
        }
    })
}
