//! Counters of stages and rings, which threads write and anyone reads while a plane runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of samples of its occupancy that a ring keeps.
const SAMPLES: usize = 256;
/// Number of bars of the histogram of a ring's occupancy.
const BARS: usize = 11;

/// Value alone on its cache lines, so that its writer does not slow down another.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);

/// Counter with one writer at a time.
#[derive(Debug, Default)]
pub(super) struct Tally(AtomicU64);

impl Tally {
    /// Adds `more`. Only the thread that owns the counter may call it.
    pub(super) fn add(&self, more: u64) {
        // No read-modify-write is needed, because no other thread writes.
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Number of messages and of the packets in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flux {
    /// Number of messages.
    pub messages: u64,
    /// Number of packets in the messages.
    pub packets: u64,
}

impl std::ops::Add for Flux {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { messages: self.messages + other.messages, packets: self.packets + other.packets }
    }
}

impl std::ops::Sub for Flux {
    type Output = Self;

    /// Returns the difference, or 0 if counters were read while they changed.
    fn sub(self, other: Self) -> Self {
        let messages = self.messages.saturating_sub(other.messages);
        Self { messages, packets: self.packets.saturating_sub(other.packets) }
    }
}

impl std::iter::Sum for Flux {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}

/// [`Flux`] with one writer at a time.
#[derive(Debug, Default)]
pub(super) struct FluxTally {
    messages: Tally,
    packets: Tally,
}

impl FluxTally {
    pub(super) fn add(&self, packets: u64) {
        self.messages.add(1);
        self.packets.add(packets);
    }

    pub(super) fn add_packets(&self, packets: u64) {
        self.packets.add(packets);
    }

    pub(super) fn get(&self) -> Flux {
        Flux { messages: self.messages.get(), packets: self.packets.get() }
    }
}

/// Counters of one worker, which no other thread writes.
#[derive(Debug, Default)]
pub(super) struct WorkerTally {
    pub(super) taken: FluxTally,
    pub(super) sent: FluxTally,
    pub(super) lost: FluxTally,
    pub(super) blocks: Tally,
}

/// Counters of one worker of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerCounters {
    /// Messages taken from rings; for a source, its calls and the packets that they brought in.
    pub taken: Flux,
    /// Messages that the worker put into rings.
    pub sent: Flux,
    /// Messages in hand when a fault ended the plane, or when no receiver was left to take them.
    pub lost: Flux,
    /// Number of waits, for input or for room in a ring, that blocked the thread.
    pub blocks: u64,
}

impl WorkerTally {
    pub(super) fn get(&self) -> WorkerCounters {
        WorkerCounters {
            taken: self.taken.get(),
            sent: self.sent.get(),
            lost: self.lost.get(),
            blocks: self.blocks.get(),
        }
    }
}

/// Counters of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageCounters {
    /// Name of the stage.
    pub name: String,
    /// Counters of each worker.
    pub workers: Vec<WorkerCounters>,
}

impl StageCounters {
    /// Returns the sum of the counters of all workers.
    pub fn sum(&self) -> WorkerCounters {
        self.workers.iter().fold(WorkerCounters::default(), |sum, one| WorkerCounters {
            taken: sum.taken + one.taken,
            sent: sum.sent + one.sent,
            lost: sum.lost + one.lost,
            blocks: sum.blocks + one.blocks,
        })
    }
}

/// End of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEnd {
    /// The caller, who sends messages into the plane or receives them.
    Caller,
    /// Worker of a stage.
    Worker {
        /// Index of the stage, in the order in which stages were added.
        stage: usize,
        /// Index of the worker in its stage.
        worker: usize,
    },
}

/// Counters of one ring.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingCounters {
    /// Sender of the messages.
    pub from: RingEnd,
    /// Receiver of the messages.
    pub to: RingEnd,
    /// Whether a full ring drops messages.
    pub is_lossy: bool,
    /// Number of messages that fit.
    pub capacity: usize,
    /// Maximum number of packets that may be queued now, if [`Link::most_packets`](super::Link::most_packets) or
    /// [`Link::packets_in_all`](super::Link::packets_in_all) set it.
    pub most_packets: Option<u64>,
    /// Messages put into the ring.
    pub sent: Flux,
    /// Messages that the receiver has begun to work on.
    pub received: Flux,
    /// Messages dropped because the ring was full, or its receiver had ended.
    pub dropped: Flux,
    /// Number of messages that found the ring full and had to wait.
    pub waits: u64,
    /// Occupancy of the ring when each message was sent.
    pub occupancy: Occupancy,
}

impl RingCounters {
    /// Returns the messages that were sent and not yet received.
    pub fn queued(&self) -> Flux {
        self.sent - self.received
    }
}

/// Occupancy of a ring over time, in messages.
///
/// It is sampled when a message is sent, before the message is put in; so an empty ring gives 0. Time is counted in
/// messages, because a clock would make the samples depend on load.
///
/// For example, a ring of capacity 8 that was found with 0, 4, 8 and 8 messages has a mean of 5.0 and a maximum of 8.
/// Its histogram has 1 sample in bar 0, 1 in bar 5 and 2 in bar 10.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    histogram: [u64; BARS],
    sum: u64,
    most: usize,
    series: Vec<u32>,
    /// Number of messages between two samples of the series; 0 before the first.
    every: u64,
}

impl Occupancy {
    /// Notes the occupancy when one message was sent.
    pub(super) fn note(&mut self, messages: usize, capacity: usize) {
        let number = self.samples();
        self.histogram[messages * (BARS - 1) / capacity] += 1;
        self.sum += messages as u64;
        self.most = self.most.max(messages);
        self.every = self.every.max(1);
        if number.is_multiple_of(self.every) {
            self.series.push(messages as u32);
        }
        if self.series.len() == SAMPLES {
            // The number of messages to come is unknown, so the series is thinned out whenever it is full.
            let mut even = false;
            self.series.retain(|_| {
                even = !even;
                even
            });
            self.every *= 2;
        }
    }

    /// Returns the number of messages that were sampled.
    pub fn samples(&self) -> u64 {
        self.histogram.iter().sum()
    }

    /// Returns the number of samples by tenths of the capacity: bar 0 is below one tenth, bar 10 is full.
    pub fn histogram(&self) -> &[u64; BARS] {
        &self.histogram
    }

    /// Returns the mean of all samples in messages, or 0 without samples.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.samples().max(1) as f64
    }

    /// Returns the largest sample in messages.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns at most 256 samples in messages, [`Occupancy::every`] messages apart, the oldest first.
    pub fn series(&self) -> &[u32] {
        &self.series
    }

    /// Returns the distance between two samples of the series, in messages; it is a power of two.
    pub fn every(&self) -> u64 {
        self.every
    }
}

/// Counters of a whole plane.
///
/// While a plane runs, the numbers are read one after another, so sums may differ by the messages on their way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlaneCounters {
    /// Packets that came in: sent by the caller and taken, or pulled by sources.
    pub accepted: u64,
    /// Packets that the caller sent and that were dropped, because the plane was full.
    pub dropped: u64,
    /// Packets that the caller received.
    pub delivered: u64,
    /// Packets on their way when the plane ended; 0 while it runs and after a stop without fault.
    pub lost: u64,
    /// Counters of each stage, in the order in which stages were added.
    pub stages: Vec<StageCounters>,
    /// Counters of each ring.
    pub rings: Vec<RingCounters>,
}

impl PlaneCounters {
    /// Returns the messages queued before a stage, over all its rings.
    pub fn queued(&self, stage: usize) -> Flux {
        self.rings_before(stage).map(RingCounters::queued).sum()
    }

    /// Returns how full the rings before a stage were when messages were sent, on average, from 0 to 1.
    ///
    /// For example, two rings of 8 messages that equally many messages found with 2 and 4 on average give 0.375.
    /// Without messages it is 0.
    pub fn fullness(&self, stage: usize) -> f64 {
        let samples: u64 = self.rings_before(stage).map(|ring| ring.occupancy.samples()).sum();
        let share = |ring: &RingCounters| ring.occupancy.sum as f64 / ring.capacity.max(1) as f64;
        self.rings_before(stage).map(share).sum::<f64>() / samples.max(1) as f64
    }

    fn rings_before(&self, stage: usize) -> impl Iterator<Item = &RingCounters> {
        let is_here = move |ring: &&RingCounters| matches!(ring.to, RingEnd::Worker { stage: to, .. } if to == stage);
        self.rings.iter().filter(is_here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_bounded_and_even() {
        let mut occupancy = Occupancy::default();
        for number in 0..100_000 {
            occupancy.note(number % 1000, 1000);
            assert!(occupancy.series.len() < SAMPLES && occupancy.series.capacity() <= SAMPLES);
        }
        assert_eq!((occupancy.samples(), occupancy.most(), occupancy.every()), (100_000, 999, 512));
        let expected: Vec<u32> = (0..100_000).step_by(512).map(|number| number % 1000).collect();
        assert_eq!(occupancy.series(), expected);
        assert!((occupancy.mean() - 499.5).abs() < 1e-9);
        assert_eq!(
            occupancy.histogram(),
            &[10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 0]
        );
    }

    #[test]
    fn bars_are_tenths_and_the_last_is_full() {
        let mut occupancy = Occupancy::default();
        for messages in [0, 4, 8, 8] {
            occupancy.note(messages, 8);
        }
        assert_eq!(occupancy.histogram(), &[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2]);
        assert_eq!((occupancy.mean(), occupancy.most()), (5.0, 8));
    }

    #[test]
    fn fullness_is_of_the_rings_before_a_stage() {
        let ring = |stage, found: &[usize]| {
            let mut occupancy = Occupancy::default();
            found.iter().for_each(|&messages| occupancy.note(messages, 8));
            RingCounters {
                from: RingEnd::Caller,
                to: RingEnd::Worker { stage, worker: 0 },
                is_lossy: false,
                capacity: 8,
                most_packets: None,
                sent: Flux::default(),
                received: Flux::default(),
                dropped: Flux::default(),
                waits: 0,
                occupancy,
            }
        };
        let rings = vec![ring(1, &[0, 4]), ring(1, &[4, 4]), ring(2, &[8])];
        let counters = PlaneCounters { accepted: 0, dropped: 0, delivered: 0, lost: 0, stages: Vec::new(), rings };
        assert_eq!([0, 1, 2].map(|stage| counters.fullness(stage)), [0.0, 0.375, 1.0]);
    }
}
