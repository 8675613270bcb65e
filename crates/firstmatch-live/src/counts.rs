//! Sums of decided packets.

use std::time::Duration;

use firstmatch::core::live::Count;
use firstmatch::{Basis, Outcome, Verdict};

use crate::path::{Frame, Sent};

/// Upper bounds of the classes of [`Batches`], in nanoseconds: 3 µs to 30 ms. The last class has no bound.
pub const BATCH_BOUNDS: [u64; 9] =
    [3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];

/// Packets that a lane has decided, and their bytes on the wire.
///
/// Counts by rule are those of the [`Firewall`](firstmatch::Firewall::count).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By outcome, in the order of [`Outcome::ALL`].
    pub outcomes: [Count; Outcome::ALL.len()],
    /// By verdict, for the verdicts that occurred.
    pub verdicts: Vec<(Verdict, Count)>,
    /// Those that a rule decided.
    pub matched: Count,
    /// Frames longer than the part of them that was captured.
    pub cut: u64,
    /// Frames whose checksum the sender has left to the network card.
    pub unfinished: u64,
    /// Samples of denied packets that were dropped, because the writer was behind.
    pub samples_dropped: u64,
    /// Frames sent on to another interface.
    pub sent: u64,
    /// Frames that were to be sent on, and that the kernel has refused.
    pub unsent: u64,
    /// Frames sent on without any rule, after a panic of the lane ([`OnPanic::Open`](crate::OnPanic::Open)).
    pub undecided: u64,
    /// Times that batches took.
    pub batches: Batches,
}

/// Number of batches by the time from their receipt until they were decided and sent on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// By the classes of [`BATCH_BOUNDS`]; a batch counts in the first class whose bound is not below its time.
    pub by_time: [u64; BATCH_BOUNDS.len() + 1],
    /// Sum of all times in nanoseconds.
    pub nanoseconds: u64,
}

impl Batches {
    pub(crate) fn add(&mut self, time: Duration) {
        let nanoseconds = time.as_nanos() as u64;
        self.by_time[BATCH_BOUNDS.partition_point(|bound| *bound < nanoseconds)] += 1;
        self.nanoseconds += nanoseconds;
    }
}

impl Counts {
    /// Counts a frame.
    #[inline]
    pub(crate) fn add(&mut self, verdict: Verdict, basis: Basis, outcome: Outcome, frame: &Frame) {
        let one = Count { packets: 1, bytes: frame.bytes.into() };
        self.cut += u64::from(frame.is_cut());
        self.unfinished += u64::from(frame.is_unfinished);
        add(&mut self.outcomes[outcome.index()], one);
        if basis == Basis::Rule {
            add(&mut self.matched, one);
        }
        self.add_verdict(verdict, one);
    }

    pub(crate) fn add_sent(&mut self, sent: Sent) {
        self.sent += sent.sent;
        self.unsent += sent.lost;
    }

    fn add_verdict(&mut self, verdict: Verdict, more: Count) {
        // Few verdicts occur, and the first of them most often.
        match self.verdicts.iter_mut().find(|(of, _)| *of == verdict) {
            Some((_, count)) => add(count, more),
            None => self.verdicts.push((verdict, more)),
        }
    }

    /// Adds the counts of another lane.
    pub fn add_all(&mut self, other: &Self) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(count, more)| add(count, more));
        other.verdicts.iter().for_each(|&(verdict, more)| self.add_verdict(verdict, more));
        add(&mut self.matched, other.matched);
        self.cut += other.cut;
        self.unfinished += other.unfinished;
        self.samples_dropped += other.samples_dropped;
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.undecided += other.undecided;
        self.batches.by_time.iter_mut().zip(other.batches.by_time).for_each(|(count, more)| *count += more);
        self.batches.nanoseconds += other.batches.nanoseconds;
    }

    /// Returns the frames that the lane has taken from its ring.
    pub fn taken(&self) -> u64 {
        self.all().packets + self.undecided
    }

    /// Returns all packets.
    pub fn all(&self) -> Count {
        sum(self.outcomes.iter())
    }

    /// Returns the packets that could not be classified.
    pub fn unknown(&self) -> Count {
        let unknown = self.outcomes.iter().zip(Outcome::ALL).filter(|(_, outcome)| !outcome.is_classified());
        sum(unknown.map(|(count, _)| count))
    }

    /// Returns the packets of a verdict.
    pub fn of(&self, verdict: Verdict) -> Count {
        self.verdicts.iter().find(|(of, _)| *of == verdict).map_or_else(Count::default, |(_, count)| *count)
    }
}

fn add(count: &mut Count, more: Count) {
    count.packets += more.packets;
    count.bytes += more.bytes;
}

fn sum<'c>(counts: impl Iterator<Item = &'c Count>) -> Count {
    counts.fold(Count::default(), |mut all, count| {
        add(&mut all, *count);
        all
    })
}
