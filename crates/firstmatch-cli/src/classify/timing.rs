//! CPU time of the classifier without reading and parsing, by thread.
//!
//! Only stretches of at least 1,024 classified packets and passes of at least 4,096 are timed, because reading the
//! clock takes as long as several packets.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Number of packets of a stretch, up to four times as many in a capture.
pub(super) const STRETCH: usize = 4096;

/// Returns the CPU time of this thread.
pub(super) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Time of the stretches of a stream that were long enough.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    packets: u64,
    time: Duration,
}

impl Streamed {
    /// Adds a stretch that began at `start`, unless it is too short to be timed.
    pub(super) fn add(&mut self, packets: usize, start: Duration) {
        if packets >= STRETCH / 4 {
            self.time += cpu_time().saturating_sub(start);
            self.packets += packets as u64;
        }
    }

    /// Adds the time of another thread.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.packets += other.packets;
        self.time += other.time;
    }

    pub(super) fn any(&self) -> bool {
        self.packets > 0
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    pub(super) fn nanos_per_packet(&self) -> Option<f64> {
        self.any().then(|| self.time.as_nanos() as f64 / self.packets as f64)
    }
}

pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length.is_multiple_of(2) => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}
