//! Denied packets of late, each with the decision at its time.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError, TryLockError};

use firstmatch::{Outcome, RuleId};

/// Maximum number of bytes of a packet that are kept.
pub const SNAP: usize = 512;
/// Maximum number of packets that a lane keeps.
pub const KEPT: usize = 32;

/// First part of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    time: (u32, u32),
    data: Vec<u8>,
    bytes: u32,
}

impl Sample {
    /// Keeps at most [`SNAP`] bytes of a frame that was `bytes` long on the wire.
    pub fn new(time: (u32, u32), frame: &[u8], bytes: u32) -> Self {
        Self { time, data: frame[..frame.len().min(SNAP)].to_vec(), bytes }
    }

    /// Returns the time of receipt: seconds since 1970 and nanoseconds.
    pub fn time(&self) -> (u32, u32) {
        self.time
    }

    /// Returns the first part of the packet, at most [`SNAP`] bytes.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the length on the wire in bytes.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }
}

/// Denied packet with the decision at its time. The rules may be other ones by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// First part of the packet.
    pub sample: Sample,
    /// Reason at its time.
    pub decided: Decided,
}

/// Reason for which a packet was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The rule that matched; `None` if the policy has denied the packet.
    pub rule: Option<RuleId>,
    /// Line of the rule file that the rule was on, if the lane knows it.
    pub line: Option<NonZeroU32>,
    /// How much of the headers could be read.
    pub outcome: Outcome,
    /// Generation of the rules.
    pub generation: u64,
}

/// The last denied packets that one lane has sampled.
#[derive(Debug, Default)]
pub struct Recent(Mutex<VecDeque<Denied>>);

impl Recent {
    /// Keeps a packet in place of the oldest, or drops it if another thread is reading: a lane never waits.
    pub(crate) fn keep(&self, denied: Denied) {
        let mut kept = match self.0.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(denied);
    }

    /// Returns the packets, the oldest first.
    pub fn list(&self) -> Vec<Denied> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Sampler;

    /// The last packets stay, with their reasons; a reader costs packets, and no lane waits for it.
    #[test]
    fn the_last_packets_stay() {
        let decided = Decided { rule: None, line: None, outcome: Outcome::NotIp, generation: 0 };
        let sampler = Sampler::default().keeping().of_lane();
        let recent = sampler.recent().expect("it keeps packets");
        let take = |sampler: &Sampler, number: u8| {
            let decided = Decided { generation: number.into(), ..decided };
            assert!(sampler.take(Sample::new((0, 0), &[number; 60], 60), decided));
        };
        (0..40).for_each(|number| take(&sampler, number));
        let generations =
            |recent: &Recent| recent.list().iter().map(|denied| denied.decided.generation).collect::<Vec<_>>();
        assert_eq!(generations(&recent), (8..40).collect::<Vec<_>>());
        assert!(recent.list().iter().all(|denied| denied.sample.data() == [denied.decided.generation as u8; 60]));
        let reading = recent.0.lock().expect("no panic");
        take(&sampler, 40);
        drop(reading);
        assert_eq!(generations(&recent).last(), Some(&39));
        // Another lane has packets of its own.
        assert!(sampler.of_lane().recent().is_some_and(|other| other.list().is_empty()));
    }
}
