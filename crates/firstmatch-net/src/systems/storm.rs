//! Storm's arrangement of threads: a stage of boxes, a stage of whole lookups for packets in none, and an updater.
//!
//! ```text
//!        ┌ cache ┐ ── packets in a box ─────────────────▸ caller
//! pull ──┼ cache ┼ ── others, gathered ──▸ full, full ──▸ caller
//!        └ cache ┘ ── newest key of each ──▸ updater ──▸ boxes for each cache
//! ```
//!
//! Few packets of a message miss the boxes. So a worker of `cache` gathers them until they are as many as a message to
//! `full` should have, or until no packets come. For example, of 32 packets at 95 % hits 1.6 are left, so twenty
//! messages make one for `full`.
//!
//! Hits overtake misses of their flow, so no order is kept. Copies that share boxes ([`shared`]) do the same work
//! without rings and keep flows in order; this form is for comparison with them. Storm's data-parallel form is
//! [`copies::whole`](super::copies::whole) over a [`RuleCache`](firstmatch_core::cache::rule::RuleCache), with one
//! cache per worker.
//!
//! # Paper
//! Y. Ma, S. Banerjee, S. Lu and C. Estan, *Leveraging Parallelism for Multi-dimensional Packet Classification on
//! Software Routers* (SIGMETRICS 2010), sections 3.1 and 4.
//!
//! # Deviations
//! - The paper moves workers by the "available" buffer. If that means free space, `full` gets more workers when its
//!   rings are empty (`free_space_drives_workers_the_wrong_way`). So [`Dynamic`] uses the occupancy.
//! - A dynamic plane starts with the partition for empty rings, not with all workers.
//! - The updater looks samples up by itself, so a worker leaves only a key.

use std::sync::Arc;
use std::time::Duration;

use super::shared::{self, BoxReader, SharedBoxes};
use super::step::{self, LookupMessage, LookupView, Step};
use crate::plane::{Control, Controller, Dispatch, Link, Message, Outputs, PlaneBuilder, StageId, Work};

/// Message whose packets can be divided between two messages.
pub trait SplitMessage: LookupMessage {
    /// Returns a message without packets, for packets like those of this one.
    fn empty(&self) -> Self;

    /// Moves the packets at `indices`, which must rise, to the end of `into`, with their best matches so far.
    ///
    /// The packets that stay keep their order.
    fn split_off(&mut self, indices: &[u32], into: &mut Self);
}

/// Numbers of workers of the stages `cache` and `full`. The updater is one more thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Number of workers that search boxes.
    pub cache: usize,
    /// Number of workers that do whole lookups.
    pub full: usize,
}

impl Partition {
    /// Returns a partition; for example, `new(4, 2)` with the updater is Storm's 4-2-1.
    pub fn new(cache: usize, full: usize) -> Self {
        Self { cache, full }
    }
}

/// Partition that changes with the occupancy of the rings before `full`, after each publication of boxes.
///
/// If the rings hold more than the share `most` of their packets, `more_full` is used; below `least`, `more_cache`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dynamic {
    /// Partition for full rings.
    pub more_full: Partition,
    /// Partition for empty rings, and for the start.
    pub more_cache: Partition,
    /// Share below which the rings count as empty.
    pub least: f64,
    /// Share above which the rings count as full.
    pub most: f64,
}

impl Dynamic {
    /// Returns the paper's assignment on eight cores: 2-4 or 4-2 workers, at 0.2 and 0.8 of the packets.
    pub fn paper() -> Self {
        Self { more_full: Partition::new(2, 4), more_cache: Partition::new(4, 2), least: 0.2, most: 0.8 }
    }

    /// Returns the partition for `queued` packets in rings that hold `all`; `None` if it should not change.
    ///
    /// ```
    /// use firstmatch_net::systems::storm::{Dynamic, Partition};
    ///
    /// let by = Dynamic::paper();
    /// assert_eq!(by.choose(801, 1000), Some(Partition::new(2, 4)));
    /// assert_eq!(by.choose(500, 1000), None);
    /// assert_eq!(by.choose(199, 1000), Some(Partition::new(4, 2)));
    /// ```
    pub fn choose(&self, queued: u64, all: u64) -> Option<Partition> {
        let share = queued as f64 / all as f64;
        let fitting = [(share > self.most, self.more_full), (share < self.least, self.more_cache)];
        fitting.into_iter().find(|(fits, _)| *fits).map(|(_, partition)| partition)
    }
}

/// Assignment of workers to the stages.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Assignment {
    /// The same workers all the time.
    Static(Partition),
    /// Workers that move between the stages. Workers that are idle block.
    Dynamic(Dynamic),
}

impl Assignment {
    /// Returns the number of workers that are started for each stage.
    pub fn workers(&self) -> Partition {
        match self {
            Self::Static(partition) => *partition,
            Self::Dynamic(Dynamic { more_full: a, more_cache: b, .. }) => {
                Partition { cache: a.cache.max(b.cache), full: a.full.max(b.full) }
            }
        }
    }
}

/// Plan of Storm's stages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StormPlan {
    /// Workers of the stages.
    pub assignment: Assignment,
    /// Number of packets at which a message is sent to `full`.
    pub batch: usize,
    /// Maximum number of packets in all rings before `full` together, in each partition.
    pub queued: u64,
    /// Whether full rings before `full` drop packets and count them; otherwise `cache` waits.
    pub is_lossy: bool,
    /// Pause of the updater after each round over the newest keys.
    pub pause: Duration,
    /// Link from `cache` and from `full` to the caller.
    pub exit: Link,
}

impl StormPlan {
    /// Returns the paper's plan: rings for 1,000 packets, and an updater that never pauses. Full rings make `cache`
    /// wait.
    pub fn new(assignment: Assignment) -> Self {
        Self { assignment, batch: 32, queued: 1000, is_lossy: false, pause: Duration::ZERO, exit: Link::new() }
    }

    /// Returns the link between the stages.
    ///
    /// If the numbers allow it, each worker of `cache` sends to one worker of `full`; otherwise it sends to each in
    /// turn. The rings in use divide the packets. For example, 4-2 uses four rings of 250 packets each, and 2-4 uses
    /// eight of 125.
    fn link(&self) -> Link {
        let in_turn = |by: Partition| by.cache * by.full;
        let (dispatch, rings) = match &self.assignment {
            Assignment::Static(by) if by.cache.is_multiple_of(by.full) => (Dispatch::Lane, by.cache),
            Assignment::Static(by) => (Dispatch::RoundRobin, in_turn(*by)),
            Assignment::Dynamic(by) => (Dispatch::RoundRobin, in_turn(by.more_full).max(in_turn(by.more_cache))),
        };
        let packets = (self.queued / rings.max(1) as u64).max(1);
        // Each message has at least one packet, so packets bound a ring, not messages.
        let link = if self.is_lossy { Link::lossy() } else { Link::new() };
        link.capacity(packets as usize).most_packets(packets).dispatch(dispatch)
    }
}

/// Stages of a plane in Storm's form.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StormStages {
    /// Stage that messages enter at.
    pub cache: StageId,
    /// Stage of whole lookups.
    pub full: StageId,
    /// Stage of the updater.
    pub updater: StageId,
}

/// Adds the stages `cache` and `updater` and the stage of the step `full`, and lets packets leave to the caller.
///
/// `boxes` must be for as many workers as `cache` has ([`Assignment::workers`]). The caller must let messages enter, or
/// link a source to `cache`. The plane cannot keep the order of arrival.
///
/// # Panics
/// If the plane is started and `boxes` are for fewer workers.
pub fn stages<T: SplitMessage>(
    builder: &mut PlaneBuilder<T>,
    boxes: &Arc<SharedBoxes>,
    full: &Step<T>,
    plan: &StormPlan,
) -> StormStages {
    let (workers, batch) = (plan.assignment.workers(), plan.batch);
    let own = Arc::clone(boxes);
    let cache = builder.stage("cache", workers.cache, move |seat| Cache {
        boxes: BoxReader::new(&own, seat.worker),
        misses: None,
        batch,
    });
    let full = step::stage(builder, full, workers.full);
    builder.link(cache, full, plan.link()).leave(cache, plan.exit).leave(full, plan.exit);
    let assigns = Assigns { assignment: plan.assignment, cache: cache.index(), full: full.index(), all: plan.queued };
    let updater = shared::controlling(builder, boxes, plan.pause, assigns);
    StormStages { cache, full, updater }
}

/// Link of `cache` to `full`, and to the caller.
const MISSES: usize = 0;
const HITS: usize = 1;

/// Work of the stage `cache`.
struct Cache<T> {
    boxes: BoxReader,
    /// Packets in no box that are not sent on yet.
    misses: Option<T>,
    batch: usize,
}

impl<T: SplitMessage> Cache<T> {
    fn flush(&mut self, out: &mut Outputs<T>) {
        if let Some(misses) = self.misses.take() {
            out.send_to(MISSES, misses);
        }
    }
}

impl<T: SplitMessage> Work<T> for Cache<T> {
    fn work(&mut self, mut message: T, out: &mut Outputs<T>) {
        let LookupView { keys, best, .. } = message.view();
        let open = self.boxes.improve(&keys, best);
        if open.len() == message.packets() && open.len() >= self.batch {
            out.send_to(MISSES, message);
            return;
        }
        if !open.is_empty() {
            let misses = self.misses.get_or_insert_with(|| message.empty());
            message.split_off(open, misses);
        }
        if message.packets() > 0 {
            out.send_to(HITS, message);
        }
        if self.kept() >= self.batch {
            self.flush(out);
        }
    }

    fn idle(&mut self, out: &mut Outputs<T>) {
        self.flush(out);
    }

    fn kept(&self) -> usize {
        self.misses.as_ref().map_or(0, Message::packets)
    }

    fn end(&mut self, out: &mut Outputs<T>) {
        self.flush(out);
    }
}

/// Controller that assigns workers to the stages of these indices.
#[derive(Clone)]
struct Assigns {
    assignment: Assignment,
    cache: usize,
    full: usize,
    /// Number of packets that the rings before `full` hold together.
    all: u64,
}

impl Controller for Assigns {
    fn tick(&mut self, control: &Control) {
        let Assignment::Dynamic(by) = &self.assignment else { return };
        if let Some(partition) = by.choose(control.queued(self.full).packets, self.all) {
            control.set_active(self.cache, partition.cache);
            control.set_active(self.full, partition.full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the results for a plane whose hits rise to 97 % in 200 of 2,000 ticks: partitions and dropped packets.
    ///
    /// `reading` turns the packets in the rings into the number that decides the assignment.
    fn driven(reading: impl Fn(f64) -> f64) -> (Partition, Vec<Partition>, f64) {
        let (by, all) = (Dynamic::paper(), 1000.0);
        let (mut partition, mut seen, mut queued, mut dropped) = (by.more_cache, Vec::new(), 0.0_f64, 0.0);
        for tick in 0..2000 {
            // Ticks of 10 µs: 200 ns per search, 2,000 ns per whole lookup, and 15 Mpps coming in.
            let missed = 1.0 - 0.97 * (f64::from(tick) / 200.0).min(1.0);
            let searched = (partition.cache as f64 * 50.0).min(150.0);
            queued += searched * missed;
            queued -= queued.min(partition.full as f64 * 5.0);
            dropped += (queued - all).max(0.0) + 150.0 - searched;
            queued = queued.min(all);
            if let Some(next) = by.choose(reading(queued) as u64, 1000).filter(|next| *next != partition) {
                partition = next;
                seen.push(next);
            }
        }
        (partition, seen, dropped)
    }

    /// By occupancy a plane helps `full` while boxes are few, and ends with more workers in `cache`, as in section 5.1.
    #[test]
    fn free_space_drives_workers_the_wrong_way() {
        let (last, seen, dropped) = driven(|queued| queued);
        assert_eq!(seen, [Partition::new(2, 4), Partition::new(4, 2)]);
        assert_eq!(last, Partition::new(4, 2));
        let (last, _, more) = driven(|queued| 1000.0 - queued);
        assert_eq!(last, Partition::new(2, 4), "empty rings, and yet more workers behind them");
        assert!(more > 2.0 * dropped, "{more} packets dropped, {dropped} by occupancy");
    }

    #[test]
    fn rings_hold_all_packets_together() {
        let plan = |assignment| StormPlan { queued: 1000, ..StormPlan::new(assignment) };
        let link = |assignment| plan(assignment).link();
        let ring = |packets: u64| Link::new().capacity(packets as usize).most_packets(packets);
        let fixed = |cache, full| Assignment::Static(Partition::new(cache, full));
        assert_eq!(link(fixed(4, 2)), ring(250).dispatch(Dispatch::Lane));
        assert_eq!(link(fixed(3, 3)), ring(333).dispatch(Dispatch::Lane));
        assert_eq!(link(fixed(2, 4)), ring(125).dispatch(Dispatch::RoundRobin));
        assert_eq!(link(Assignment::Dynamic(Dynamic::paper())), ring(125).dispatch(Dispatch::RoundRobin));
        let few = StormPlan { queued: 3, is_lossy: true, ..plan(fixed(5, 1)) };
        assert_eq!(few.link(), Link::lossy().capacity(1).most_packets(1).dispatch(Dispatch::Lane));
        assert_eq!(Assignment::Dynamic(Dynamic::paper()).workers(), Partition::new(4, 4));
    }
}
