//! Service times, measured in the run of a plane.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Number of messages of which one is timed, because reading a clock takes time as well.
const EVERY: usize = 16;
/// Multiple of the median from which on a time is left out: the worker was off its core meanwhile.
const LONGEST: f64 = 20.0;

/// Service times of a step in one run, in nanoseconds a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Service {
    /// Mean time; NaN if none was measured.
    pub(crate) mean: f64,
    /// Each time as a multiple of the mean.
    pub(crate) shape: Arc<[f64]>,
}

impl Service {
    /// Returns the service times of a step that always takes the same time.
    #[cfg(test)]
    pub(crate) fn fixed(mean: f64) -> Self {
        Self { mean, shape: Arc::new([1.0]) }
    }

    pub(super) fn of(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let longest = times.get(times.len() / 2).map_or(0.0, |median| median * LONGEST);
        times.retain(|time| *time <= longest);
        let reading = reading();
        times.iter_mut().for_each(|time| *time = (*time - reading).max(1.0));
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        Self { mean, shape: times.iter().map(|time| time / mean).collect() }
    }
}

/// Times of all workers of a step, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Times(Mutex<Vec<f64>>);

impl Times {
    /// Takes the times out; the reading of the clock and the longest times are left out.
    pub(super) fn take(&self) -> Service {
        Service::of(std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Stopwatch of one worker.
#[derive(Debug)]
pub(super) struct Stopwatch {
    /// Number of messages so far.
    count: usize,
    own: Vec<f64>,
    all: Arc<Times>,
}

impl Stopwatch {
    pub(super) fn new(all: &Arc<Times>) -> Self {
        // Room for a run of a few seconds, so that nothing is allocated while it is timed.
        Self { count: 0, own: Vec::with_capacity(1 << 16), all: Arc::clone(all) }
    }

    /// Does the work on a message, and times it if it is its turn.
    #[inline]
    pub(super) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.count += 1;
        if self.count % EVERY != 1 {
            return work();
        }
        let start = Instant::now();
        let done = work();
        self.own.push(start.elapsed().as_nanos() as f64);
        done
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.own);
    }
}

/// Returns the time between two readings of the clock, in nanoseconds.
fn reading() -> f64 {
    let mut all: Vec<u128> = (0..64).map(|_| Instant::now().elapsed().as_nanos()).collect();
    all.sort_unstable();
    all[all.len() / 2] as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_longest_times_are_left_out() {
        let service = Service::of((1..=98).map(|at| if at % 2 == 0 { 1e6 } else { 3e6 }).chain([1e9, 1e9]).collect());
        assert!((service.mean - 2e6).abs() < 1e4, "{service:?}");
        assert_eq!(service.shape.len(), 98);
        assert!((service.shape.iter().sum::<f64>() - 98.0).abs() < 1e-6);
        assert!(Service::of(Vec::new()).mean.is_nan());
    }

    #[test]
    fn one_message_in_sixteen_is_timed() {
        let all: Arc<Times> = Arc::default();
        let mut watch = Stopwatch::new(&all);
        for message in 0..40 {
            let pause = Duration::from_micros(if message % 16 == 0 { 300 } else { 0 });
            watch.time(|| std::thread::sleep(pause));
        }
        drop(watch);
        let service = all.take();
        assert!(service.shape.len() == 3 && service.mean > 250e3, "{service:?}");
    }
}
