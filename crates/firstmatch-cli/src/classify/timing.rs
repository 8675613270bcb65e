//! CPU time of the classifier alone, by thread.
//!
//! Only stretches of at least 1,024 classified packets and passes of at least 4,096 are timed, because reading the clock
//! takes as long as several packets.

use std::hint::black_box;
use std::time::Duration;

use firstmatch_core::{KeyBuf, Match};
use rustix::time::{ClockId, clock_gettime};

use super::stretch::{Engines, STRETCH};

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

/// Number of packets below which the branch predictor learns a trace in a fixed order.
const LEARNT: usize = 100_000;

/// Returns the nanoseconds per packet of each of `count` passes over all keys, sorted.
///
/// The result is empty if there are no keys, and has one pass if `stopped` from the beginning. Below [`LEARNT`] keys
/// each pass takes them in a new order, because otherwise branches would be predicted that real traffic leaves
/// unpredictable.
pub(super) fn passes(engines: &mut Engines, keys: &[KeyBuf], count: u32, stopped: &dyn Fn() -> bool) -> Vec<f64> {
    let total: usize = keys.iter().map(KeyBuf::len).sum();
    if total == 0 {
        return Vec::new();
    }
    let mut answers: Vec<Vec<Option<Match>>> = keys.iter().map(|keys| vec![None; keys.len()]).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15;
    let mut shuffled = Vec::new();
    // Short passes are joined until they are long enough for the clock. For example, 500 keys are taken in 9 rounds.
    let rounds = STRETCH.div_ceil(total);
    let mut pass = || {
        let mut time = Duration::ZERO;
        if total < LEARNT {
            shuffled.resize_with(rounds, || keys.to_vec());
            for order in &mut shuffled {
                for (keys, to) in keys.iter().zip(order) {
                    shuffle(keys, to, &mut random);
                }
            }
        }
        let start = cpu_time();
        for round in 0..rounds {
            let order = shuffled.get(round).map_or(keys, |order: &Vec<KeyBuf>| order);
            for (schema, (keys, answers)) in order.iter().zip(&mut answers).enumerate() {
                engines.classify_keys(schema, keys.keys(), answers);
            }
            black_box(&answers);
        }
        time += cpu_time().saturating_sub(start);
        time.as_nanos() as f64 / (total * rounds) as f64
    };
    let wanted = (0..count).take_while(|&number| number == 0 || !stopped());
    let mut times: Vec<f64> = wanted.map(|_| pass()).collect();
    times.sort_by(f64::total_cmp);
    times
}

pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length.is_multiple_of(2) => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

/// Copies the rows of `from` into `to`, in a new order.
pub(super) fn shuffle(from: &KeyBuf, to: &mut KeyBuf, random: &mut u64) {
    let rows = from.keys();
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    for last in (1..order.len()).rev() {
        // xorshift64*: any order will do, as long as it is a new one each time.
        *random ^= *random >> 12;
        *random ^= *random << 25;
        *random ^= *random >> 27;
        let number = random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        order.swap(last, ((number * (last as u64 + 1)) >> 32) as usize);
    }
    to.clear();
    for row in order {
        to.push().copy_from_slice(rows.row(row as usize));
    }
}
