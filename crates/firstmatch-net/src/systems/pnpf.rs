//! Pnpf: a pipeline over [`Npf`], with a stage for each key word and a number of workers that follows the queues.
//!
//! ```text
//!                ┌ word 1 ┐   ┌ word 2 ┐         ┌ word 5 ┐
//! caller ▸ rows ─┼ word 1 ┼ ✕ ┼ word 2 ┼ ✕ … ✕ ─┼ word 5 ┼▸ decide ▸ caller
//!                └ word 1 ┘   └ word 2 ┘         └ word 5 ┘
//!                    ▴            ▴                   ▴
//!                    └────────────┴─ controller ──────┘
//! ```
//!
//! The stage `rows` takes messages and fills the rows of keys. Each stage of a word searches only that word, so its
//! workers have trees of that word only. The stage `decide` intersects the sets that were found. The 5-tuple makes the
//! seven stages of the thesis.
//!
//! All workers are started with the plane, and workers that are not active are blocked. A [`QueueController`] changes
//! the number of active workers by the packets queued before each stage.
//!
//! # Layout in memory
//! Beside rows and matches, a message carries the handle of each set, 4 bytes per packet and word. Two handles share
//! one of the words that steps pass on, the first in the lower half. For example, five words of a key take [`width`] =
//! 3 words of 64 bits, and half of the last one is unused.
//!
//! # Order
//! Messages go to the workers of a stage in turn, and come out in order of arrival.
//!
//! # Paper
//! N. Shaikot, dissertation (2012), section 5.6. [`Config::paper`] has its numbers.
//!
//! # Deviations
//! - The thesis hands on lists of rules. Here a handle stands for each list.
//! - Each worker owns its tree, because workers that share a tree would wait for each other when it turns. Copies that
//!   share trees, which the thesis compares its pipeline with, are [`shared`].
//! - Threads are not made at run time. A stage begins with one active worker.
//! - A worker is removed after its stage had no packets in five ticks, because messages go to workers in turn, so no
//!   active worker is idle for long.
//! - There is a ring for each pair of workers, not a queue for each stage. The rings of active workers share the
//!   packets, so that a single ring can call for another worker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstmatch_core::Engine;
use firstmatch_core::engines::interval_tree::{Npf, WordTree};

use super::step::{self, LookupMessage, LookupView, Step};
use crate::plane::{Control, Controller, Dispatch, Link, Message, PlaneBuilder, StageId};

/// Maximum number of messages that a worker takes from a ring at once, so that a worker just added finds some left.
const CHUNK: usize = 2;

/// Configuration of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Number of workers of the stage `rows`.
    pub rows: usize,
    /// Number of workers of the stage of each word.
    pub word: usize,
    /// Number of workers of the stage `decide`.
    pub decide: usize,
    /// Maximum number of packets in all rings between two stages together.
    pub queued: u64,
    /// Maximum number of messages between the entrance and the exit.
    pub window: usize,
    /// Rule by which stages get and lose active workers.
    pub scaling: Scaling,
    /// Time between two ticks of the controller.
    pub period: Duration,
}

impl Config {
    /// Returns the thesis's numbers: one worker for input and output, queues of 1,000 packets, one tick per second.
    ///
    /// Numbers that it does not state are ours: three workers for each word, and a window that has room for the queues
    /// of seven stages in messages of 20 packets.
    ///
    /// ```
    /// use firstmatch_net::systems::pnpf::Config;
    ///
    /// let config = Config::paper();
    /// assert_eq!((config.queued, config.scaling.more_above, config.scaling.fewer_after), (1000, 100, 5));
    /// assert_eq!(config.workers(7), [1, 3, 3, 3, 3, 3, 1]);
    /// ```
    pub fn paper() -> Self {
        Self {
            rows: 1,
            word: 3,
            decide: 1,
            queued: 1000,
            window: 400,
            scaling: Scaling::paper(),
            period: Duration::from_secs(1),
        }
    }

    /// Returns the number of workers of each of `stages` stages.
    ///
    /// # Panics
    /// If there are fewer than two.
    pub fn workers(&self, stages: usize) -> Vec<usize> {
        let mut workers = vec![self.word; stages];
        (workers[0], workers[stages - 1]) = (self.rows, self.decide);
        workers
    }

    /// Returns the link between two stages, which also suits the links from the caller and to it.
    ///
    /// For example, of 1,000 packets a single ring gets all while each stage has one active worker, and nine rings get
    /// 111 each.
    pub fn link(&self) -> Link {
        // Each message has at least one packet, so packets bound a ring, not messages.
        Link::new().capacity(self.queued as usize).packets_in_all(self.queued).dispatch(Dispatch::RoundRobin)
    }
}

/// Returns the number of 64-bit words that the steps of an engine need for each packet: two handles each.
pub fn width(engine: &Npf) -> usize {
    engine.schema().words().len().div_ceil(2)
}

/// Returns the step `rows`, a step for each key word, `word 1` and so on, and the step `decide`.
///
/// After `rows`, a message must have the row of each packet, a best match of `None`, and [`width`] words.
pub fn steps<T: LookupMessage>(engine: &Arc<Npf>, rows: Step<T>) -> Vec<Step<T>> {
    let words = 0..engine.schema().words().len();
    [rows].into_iter().chain(words.map(|word| searching(engine, word))).chain([deciding(engine)]).collect()
}

/// Returns the step that searches key word `word`. Each worker has a tree of its own.
fn searching<T: LookupMessage>(engine: &Arc<Npf>, word: usize) -> Step<T> {
    let engine = Arc::clone(engine);
    Step::on_packets(format!("word {}", word + 1), move || {
        let (engine, width) = (Arc::clone(&engine), width(&engine));
        let mut tree = engine.word_tree(word);
        move |view: LookupView<'_>| {
            for at in 0..view.best.len() {
                let handle = engine.find(&mut tree, view.keys.row(at)[word]);
                put(&mut view.words[at * width..][..width], word, handle);
            }
        }
    })
}

/// Returns the step that takes the first rule of the sets found.
fn deciding<T: LookupMessage>(engine: &Arc<Npf>) -> Step<T> {
    let engine = Arc::clone(engine);
    Step::on_packets("decide", move || {
        let (engine, width) = (Arc::clone(&engine), width(&engine));
        let (mut decider, mut handles) = (engine.decider(), vec![0; engine.schema().words().len()]);
        move |view: LookupView<'_>| {
            for (at, best) in view.best.iter_mut().enumerate() {
                take(&view.words[at * width..][..width], &mut handles);
                *best = engine.decide(&mut decider, &handles, view.keys.row(at));
            }
        }
    })
}

/// Returns the one step of copies that share a tree of each word, the alternative of section 5.6.2.
///
/// Each worker searches the words one after another and intersects. It locks a tree while it searches and turns it.
pub fn shared<T: LookupMessage>(engine: &Arc<Npf>) -> Step<T> {
    let words = 0..engine.schema().words().len();
    let trees: Arc<[Mutex<WordTree>]> = words.map(|word| Mutex::new(engine.word_tree(word))).collect();
    let engine = Arc::clone(engine);
    Step::on_packets("shared trees", move || {
        let (engine, trees) = (Arc::clone(&engine), Arc::clone(&trees));
        let (mut decider, mut handles) = (engine.decider(), vec![0; trees.len()]);
        move |view: LookupView<'_>| {
            for (at, best) in view.best.iter_mut().enumerate() {
                let row = view.keys.row(at);
                for ((tree, handle), &value) in trees.iter().zip(&mut handles).zip(row) {
                    *handle = engine.find(&mut tree.lock().unwrap_or_else(PoisonError::into_inner), value);
                }
                *best = engine.decide(&mut decider, &handles, row);
            }
        }
    })
}

/// Puts the handle of key word `word` into the words of a packet.
fn put(words: &mut [u64], word: usize, handle: u32) {
    let (own, shift) = (&mut words[word / 2], 32 * (word % 2));
    *own = *own & !(u64::from(u32::MAX) << shift) | u64::from(handle) << shift;
}

/// Takes the handles of all key words out of the words of a packet.
fn take(words: &[u64], handles: &mut [u32]) {
    for (word, handle) in handles.iter_mut().enumerate() {
        *handle = (words[word / 2] >> (32 * (word % 2))) as u32;
    }
}

/// Adds a stage for each of [`steps`], links them, and lets messages leave to the caller in order of arrival.
///
/// The caller must let messages enter at the first stage, by a link of [`Config::link`], or link a source to it that
/// numbers them.
///
/// # Panics
/// If there are fewer than two steps.
pub fn stages<T: Message>(builder: &mut PlaneBuilder<T>, steps: &[Step<T>], config: &Config) -> Vec<StageId> {
    let workers = config.workers(steps.len());
    let stages: Vec<StageId> =
        steps.iter().zip(&workers).map(|(step, &workers)| step::stage(builder, step, workers)).collect();
    for pair in stages.windows(2) {
        builder.link(pair[0], pair[1], config.link());
    }
    let last = stages[stages.len() - 1];
    builder.leave(last, config.link()).in_order_of_arrival(config.window).chunk(CHUNK);
    stages
}

/// Rule by which a stage gets and loses active workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Number of packets queued before a stage above which it gets one more worker.
    pub more_above: u64,
    /// Number of consecutive ticks without a queued packet after which a stage has one worker fewer.
    pub fewer_after: u32,
}

impl Scaling {
    /// Returns the thesis's rule: one worker more above 100 packets, one fewer after five ticks (5 s) without any.
    pub fn paper() -> Self {
        Self { more_above: 100, fewer_after: 5 }
    }

    /// Returns the number of workers that a stage with `active` workers should have, at a tick with `queued` packets.
    ///
    /// `empty` counts the consecutive ticks without a packet.
    ///
    /// ```
    /// use firstmatch_net::systems::pnpf::Scaling;
    ///
    /// let (by, mut empty) = (Scaling::paper(), 0);
    /// assert_eq!([100, 101].map(|queued| by.choose(queued, 2, &mut empty)), [2, 3]);
    /// assert_eq!([0; 6].map(|queued| by.choose(queued, 3, &mut empty)), [3, 3, 3, 3, 2, 3]);
    /// ```
    pub fn choose(&self, queued: u64, active: usize, empty: &mut u32) -> usize {
        *empty = if queued == 0 { *empty + 1 } else { 0 };
        if queued > self.more_above {
            return active + 1;
        }
        if queued > 0 || *empty < self.fewer_after {
            return active;
        }
        *empty = 0;
        active.saturating_sub(1).max(1)
    }
}

/// Controller that changes the number of active workers of stages by their queues.
///
/// [`Plane::control_by`](crate::plane::Plane::control_by) ticks it once per [`Config::period`]. Its decisions depend
/// only on counts.
#[derive(Clone, Debug)]
pub struct QueueController {
    scaling: Scaling,
    /// Index of each stage, and its consecutive ticks without a packet.
    stages: Vec<(usize, u32)>,
}

impl QueueController {
    /// Leaves one worker of each stage active, and returns the controller of these stages.
    ///
    /// # Panics
    /// If a stage belongs to another plane that has more stages.
    pub fn start(stages: &[StageId], scaling: Scaling, control: &Control) -> Self {
        stages.iter().for_each(|stage| control.set_active(stage.index(), 1));
        Self { scaling, stages: stages.iter().map(|stage| (stage.index(), 0)).collect() }
    }
}

impl Controller for QueueController {
    fn tick(&mut self, control: &Control) {
        for (stage, empty) in &mut self.stages {
            let (queued, active) = (control.queued(*stage).packets, control.active(*stage));
            let next = self.scaling.choose(queued, active, empty);
            if next != active {
                control.set_active(*stage, next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles of all words are next to each other, whatever the words held before.
    #[test]
    fn handles_keep_their_places() {
        for count in 1..=11usize {
            let wanted: Vec<u32> =
                (0..count as u32).map(|word| word.wrapping_sub(1).wrapping_mul(0x9E37_79B9)).collect();
            let mut words = vec![0xA5A5_A5A5_A5A5_A5A5; count.div_ceil(2)];
            for pass in 0..2 {
                wanted.iter().enumerate().for_each(|(word, &handle)| put(&mut words, word, handle ^ pass));
            }
            let mut handles = vec![7; count];
            take(&words, &mut handles);
            assert!(handles.iter().zip(&wanted).all(|(handle, wanted)| *handle == wanted ^ 1), "{count} words");
        }
    }

    /// A stage grows by one worker per tick, shrinks by one after five empty ticks in a row, and keeps at least one.
    #[test]
    fn workers_follow_made_up_counts() {
        let (by, mut empty, mut active) = (Scaling::paper(), 0, 1);
        let mut seen = Vec::new();
        let queues = [500, 101, 100, 1].into_iter().chain([0; 4]).chain([1]).chain([0; 12]).chain([101, 0, 0]);
        for queued in queues {
            active = by.choose(queued, active, &mut empty);
            seen.push(active);
        }
        let wanted = [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2];
        assert_eq!(seen, wanted);
        let at_once = Scaling { fewer_after: 0, ..by };
        assert_eq!([5, 0].map(|queued| at_once.choose(queued, 3, &mut 0)), [3, 2]);
    }
}
