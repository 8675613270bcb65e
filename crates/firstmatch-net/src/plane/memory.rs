//! Packets from memory: shared among workers, and paced.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::counters::Padded;

/// Dealer of ranges of packets in memory, from which any number of workers take the next range.
///
/// The workers share one counter, so a fast worker takes more. Packets of one flow may go to different workers;
/// [`RowHash::split`](super::RowHash::split) gives each worker a fixed share by flow instead.
///
/// ```
/// use firstmatch_net::plane::Deal;
///
/// let deal = Deal::new(10, 4, 2); // 10 packets, at most 4 at once, two rounds over them
/// let ranges: Vec<_> = std::iter::from_fn(|| deal.next()).collect();
/// assert_eq!(ranges, [0..4, 4..8, 8..10, 0..4, 4..8, 8..10]);
/// ```
#[derive(Debug)]
pub struct Deal {
    packets: usize,
    batch: usize,
    /// Number of ranges of one round, and of all rounds.
    ranges: u64,
    all: u64,
    next: Padded<AtomicU64>,
}

impl Deal {
    /// Returns a dealer of `packets` packets, `rounds` times over, in ranges of `batch` packets.
    ///
    /// # Panics
    /// If `batch` is 0.
    pub fn new(packets: usize, batch: usize, rounds: u64) -> Self {
        let ranges = packets.div_ceil(batch) as u64;
        Self { packets, batch, ranges, all: ranges.saturating_mul(rounds), next: Padded::default() }
    }

    /// Returns the next range, or `None` after the last.
    pub fn next(&self) -> Option<Range<usize>> {
        let number = self.next.0.fetch_add(1, Ordering::Relaxed);
        if number >= self.all {
            // The counter must not overflow, however often the end is asked for.
            self.next.0.store(self.all, Ordering::Relaxed);
            return None;
        }
        let from = (number % self.ranges) as usize * self.batch;
        Some(from..self.packets.min(from + self.batch))
    }
}

/// Longest wait of [`Pace::take`], so that a source notices a stop in time.
const LONGEST_WAIT: Duration = Duration::from_millis(10);
/// Last part of a wait, which is spent yielding, because a sleep may end later than it should.
const YIELDED: Duration = Duration::from_micros(150);

/// Pace of a source, in packets per second.
///
/// The schedule is fixed when the first packets are taken: packet *k* (from 1) is due after *k* / rate seconds. A
/// source that was held up catches up at once, and [`Pace::late`] says by how much it was behind.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: u64,
    start: Option<Instant>,
    taken: u64,
    late: Duration,
}

impl Pace {
    /// Returns a pace of `packets_per_second`.
    ///
    /// # Panics
    /// If the rate is 0.
    pub fn new(packets_per_second: u64) -> Self {
        assert!(packets_per_second > 0, "a rate of 0 packets a second never sends");
        Self { rate: packets_per_second, start: None, taken: 0, late: Duration::ZERO }
    }

    /// Takes the packets that are due and returns their number, at most `most`.
    ///
    /// It waits until `most` packets are due, but no longer than 10 ms; the number may then be 0.
    pub fn take(&mut self, most: usize) -> usize {
        let start = *self.start.get_or_insert_with(Instant::now);
        let called = start.elapsed();
        let wanted = time_of(self.taken + most as u64, self.rate);
        let until = wanted.min(called + LONGEST_WAIT);
        self.late = self.late.max(called.saturating_sub(wanted));
        loop {
            let now = start.elapsed();
            let Some(rest) = until.checked_sub(now).filter(|rest| !rest.is_zero()) else {
                let due = due_at(now, self.rate).saturating_sub(self.taken);
                let count = due.min(most as u64);
                self.taken += count;
                return count as usize;
            };
            match rest.checked_sub(YIELDED) {
                Some(rest) => thread::sleep(rest),
                None => thread::yield_now(),
            }
        }
    }

    /// Returns the longest time by which packets were taken too late.
    ///
    /// If it grows with the length of a run, the source cannot keep the rate.
    pub fn late(&self) -> Duration {
        self.late
    }

    /// Returns the number of packets taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

/// Returns the time at which the first `packets` packets are due.
fn time_of(packets: u64, rate: u64) -> Duration {
    let nanos = (u128::from(packets) * 1_000_000_000).div_ceil(rate.into());
    Duration::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
}

/// Returns the number of packets due after some time.
fn due_at(elapsed: Duration, rate: u64) -> u64 {
    (elapsed.as_nanos() * u128::from(rate) / 1_000_000_000).try_into().unwrap_or(u64::MAX)
}

/// Searches for the highest rate without loss between `low` and `high` packets per second.
///
/// `is_lossless` tries a rate. The search halves the range, by ratio, until its ends are within one part in
/// `precision`. It returns the highest rate that was tried without loss, or `None` if there is loss at `low`.
///
/// ```
/// use firstmatch_net::plane::highest_rate;
///
/// let found = highest_rate(1_000, 100_000_000, 100, |rate| rate <= 7_000_000).expect("1,000 are few");
/// assert!((6_930_000..=7_000_000).contains(&found), "{found}");
/// assert_eq!(highest_rate(1_000, 2_000, 100, |_| false), None);
/// assert_eq!(highest_rate(1_000, 2_000, 100, |_| true), Some(2_000));
/// ```
pub fn highest_rate(low: u64, high: u64, precision: u64, mut is_lossless: impl FnMut(u64) -> bool) -> Option<u64> {
    if is_lossless(high) {
        return Some(high);
    }
    if !is_lossless(low) {
        return None;
    }
    let (mut good, mut bad) = (low, high);
    while bad > good + 1 && (bad - good) as f64 * precision as f64 > good as f64 {
        let middle = ((good as f64 * bad as f64).sqrt() as u64).clamp(good + 1, bad - 1);
        if is_lossless(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_exact_over_days() {
        for rate in [1, 3, 1000, 999_983, 148_809_523] {
            for packets in [1, 2, 1000, 1 << 30] {
                let time = time_of(packets, rate);
                assert!(due_at(time, rate) >= packets, "{packets} at {rate} are due by then");
                assert!(due_at(time - Duration::from_nanos(1), rate) < packets, "and not before");
            }
        }
        assert_eq!(time_of(148_809_523 * 3600, 148_809_523), Duration::from_secs(3600));
    }

    /// No packet is early, and none is left out, whatever the load.
    #[test]
    fn packets_come_no_earlier_than_due() {
        let mut pace = Pace::new(1_000_000);
        let start = Instant::now();
        let mut all = 0;
        while all < 5000 {
            all += pace.take(64.min(5000 - all));
            assert!(start.elapsed() >= time_of(all as u64, 1_000_000));
        }
        assert_eq!(pace.taken(), 5000);
    }

    /// A slow source returns without packets, so that a stop need not wait for it.
    #[test]
    fn a_slow_pace_returns_without_packets() {
        let mut pace = Pace::new(1);
        assert_eq!((pace.take(64), pace.taken()), (0, 0));
    }

    #[test]
    fn each_range_is_dealt_once_among_threads() {
        let deal = Deal::new(1001, 10, 50);
        let part = || std::iter::from_fn(|| deal.next()).map(|range| range.len() as u64).sum::<u64>();
        let sums =
            thread::scope(|scope| [(); 3].map(|()| scope.spawn(part)).map(|part| part.join().expect("no panic")));
        assert_eq!(sums.iter().sum::<u64>(), 1001 * 50);
        assert_eq!((deal.next(), deal.next()), (None, None));
        assert_eq!(Deal::new(0, 10, 5).next(), None);
    }
}
