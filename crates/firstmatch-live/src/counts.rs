//! Sums of decided packets.

use firstmatch::core::live::Count;
use firstmatch::{Basis, Decision, Outcome, Verdict};

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
}

impl Counts {
    /// Counts a packet of `bytes` on the wire.
    #[inline]
    pub(crate) fn add(&mut self, decision: &Decision, bytes: u32) {
        let one = Count { packets: 1, bytes: bytes.into() };
        add(&mut self.outcomes[decision.outcome.index()], one);
        if decision.basis == Basis::Rule {
            add(&mut self.matched, one);
        }
        self.add_verdict(decision.verdict, one);
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
