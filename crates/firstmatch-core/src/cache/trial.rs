//! Trials of whether a cache pays: which path batches take, and for how long.
//!
//! A cache that has to learn is first weighed: the engine alone is timed from the first packet on, then the least that a
//! lookup in the cache takes. If the engine is too fast for it, the cache steps aside and learns nothing. Otherwise it
//! learns, at a small share of the engine's time.
//!
//! A verdict holds for a time, then there is another trial. First the batches go past the cache. For a quarter of a
//! window, the cache counts how many of their keys would hit, and it steps aside if these are too few. For example, of
//! 512 noted keys at least 8 must hit a flow cache of 16,384 entries.
//!
//! Otherwise the engine alone is timed, then the engine with the cache in front, window by window. The cache stays as
//! soon as a window with it is faster. It steps aside if a window takes far longer, or if it has been tried for as many
//! lookups as it takes to fill it.

use std::time::Instant;

/// Counts of lookups by their path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lookups answered by the cache.
    pub hits: u64,
    /// Lookups that the cache could not answer.
    pub misses: u64,
    /// Lookups past the cache, because it had stepped aside or the engine alone was on trial.
    pub passed_by: u64,
}

/// Numbers of lookups that set the course of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Whether the cache may step aside; if not, all packets go through it.
    pub(super) steps_aside: bool,
    /// Lookups before the first trial, in which a cache learns beside the engine.
    pub(super) learned: usize,
    /// Number of times that the least of a lookup in a cache that learns must fit into the time of the engine alone.
    pub(super) least_gain: usize,
    /// Lookups of a window, over which hits are counted and times taken.
    pub(super) window: usize,
    /// Keys that are noted, and how many of them have to hit.
    pub(super) noted: usize,
    pub(super) enough: usize,
    /// Lookups after which the cache is full.
    pub(super) full: usize,
    /// Lookups for which a verdict holds, at first and at most.
    pub(super) shortest_pause: usize,
    pub(super) longest_pause: usize,
}

/// Path of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Past the cache.
    Straight,
    /// Past the cache, whose least time is measured with the keys.
    Weighed,
    /// Past the cache, with at most this many of its keys noted.
    Noted(usize),
    /// Through the cache.
    Cached,
}

/// Number of windows of the engine alone that are timed; the fastest counts.
///
/// The first ones are slow, because other lines have taken the place of the engine's in the caches of the machine.
const ALONE: usize = 4;
/// Maximum number of nanoseconds that may be spent at once on learning.
const MOST_CREDIT: f64 = 20_000.0;
/// Number of batches with which the least time of the cache is measured; the fastest counts.
const WEIGHED: usize = 8;
/// Ratio to the time of the engine alone above which a window of the cache ends its trial.
///
/// It is not lower, because caches that pay in the end are slow while they fill.
const HOPELESS: f64 = 3.0;
/// Minimum number of lookups that are timed together; one group in `ONE_IN` is timed.
///
/// A group goes from the start of a batch to the end of the same or a later one. Timed one by one, small batches would
/// take longer than in a row.
const GROUP: usize = 64;
const ONE_IN: usize = 4;
/// Maximum number of groups of a window that count.
const GROUPS: usize = 15;

#[derive(Debug)]
pub(super) struct Trial {
    pace: Pace,
    /// Counts, without the lookups of the current pause.
    counts: Counts,
    phase: Phase,
    /// Lookups to the end of the window; 0 while the cache has stepped aside.
    left: usize,
    /// Lookups to the end of the pause, and its length; 0 unless the cache has stepped aside.
    pause: usize,
    paused: usize,
    /// Lookups of the window that hit, or would have.
    hit: usize,
    times: Times,
    /// Time of the engine alone, in nanoseconds per lookup.
    alone: f64,
    /// Least time of a lookup in the cache, in nanoseconds; infinite until it is measured.
    least: f64,
    /// Whether the cache learns, and the nanoseconds that it may spend on it.
    learns: bool,
    credit: f64,
    /// Time of the engine alone when the cache was weighed; infinite if it never was.
    weighed: f64,
    verdict: Verdict,
    /// Lookups for which the next verdict holds if it is the same.
    hold: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The engine alone is timed for this many more windows, before anything is learned.
    First(usize),
    /// The least time of the cache is measured with this many more batches.
    Weighed(usize),
    /// Hashes of keys are noted.
    Notes,
    /// The engine alone is timed for this many more windows.
    Alone(usize),
    /// The cache is timed; this many lookups were made with it.
    Cached(usize),
    /// The cache has stepped aside.
    Aside,
    /// The cache stays for `more` lookups; in the window that decided, `hit` lookups hit.
    Stays { more: usize, hit: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    None,
    Aside,
    Stays,
}

impl Trial {
    pub(super) fn new(pace: Pace) -> Self {
        // A stay without end sends all packets through the cache.
        let (phase, left) = match pace.steps_aside {
            true if pace.learned > 0 => (Phase::First(ALONE), pace.window),
            true => (Phase::Notes, pace.noted),
            false => (Phase::Stays { more: usize::MAX, hit: 0 }, usize::MAX),
        };
        let (counts, times, verdict) = (Counts::default(), Times::default(), Verdict::None);
        let (alone, least, hold) = (f64::INFINITY, f64::INFINITY, pace.shortest_pause);
        let learns = !matches!(phase, Phase::First(_));
        Self {
            pace,
            counts,
            phase,
            left,
            pause: 0,
            paused: 0,
            hit: 0,
            times,
            alone,
            least,
            learns,
            credit: 0.0,
            weighed: f64::INFINITY,
            verdict,
            hold,
        }
    }

    /// Begins anew, because the cache has forgotten everything; a pause goes on.
    pub(super) fn learns_anew(&mut self) {
        if self.pace.steps_aside && self.pause == 0 {
            self.counts = self.counts();
            (self.phase, self.left, self.paused, self.hit) = (Phase::Aside, self.pace.learned.max(1), 0, 0);
            self.times = Times::default();
            if self.pace.learned > 0 {
                self.weigh();
            }
        }
    }

    /// Begins to weigh the cache.
    fn weigh(&mut self) {
        (self.phase, self.left, self.learns) = (Phase::First(ALONE), self.pace.window, false);
        (self.alone, self.least) = (f64::INFINITY, f64::INFINITY);
    }

    /// Whether the cache is to learn from the batches: in a pause, only from the last quarter.
    #[inline(always)]
    pub(super) fn learns(&self) -> bool {
        self.learns && self.pause <= self.paused / 4
    }

    /// Whether there is time to learn from a batch: an eighth of the time of the engine alone, less what was spent.
    #[inline]
    pub(super) fn affords(&mut self, lookups: usize) -> bool {
        // Where the engine was not timed, because the cache need not step aside, the time is infinite.
        self.credit = (self.credit + lookups as f64 * self.weighed / 8.0).min(MOST_CREDIT);
        self.credit > 0.0
    }

    /// Notes that learning took so many nanoseconds.
    pub(super) fn spent(&mut self, nanos: f64) {
        self.credit -= nanos;
    }

    /// Notes the time of a lookup in an empty cache, in nanoseconds.
    pub(super) fn takes_at_least(&mut self, nanos: f64) {
        self.least = self.least.min(nanos);
    }

    pub(super) fn counts(&self) -> Counts {
        let passed_by = self.counts.passed_by + (self.paused - self.pause) as u64;
        Counts { passed_by, ..self.counts }
    }

    /// Counts a batch towards the pause; returns whether nothing else is to be done for it.
    #[inline(always)]
    pub(super) fn passes_by(&mut self, lookups: usize) -> bool {
        let passes = lookups < self.pause;
        if passes {
            self.pause -= lookups;
        }
        passes
    }

    /// Returns the path of a batch for which `passes_by` is false.
    #[inline]
    pub(super) fn way(&self) -> Way {
        match self.phase {
            Phase::Notes => Way::Noted(self.left),
            Phase::Weighed(_) => Way::Weighed,
            Phase::First(_) | Phase::Alone(_) | Phase::Aside => Way::Straight,
            Phase::Cached(_) | Phase::Stays { .. } => Way::Cached,
        }
    }

    /// Notes the time when a batch begins, if its group is timed.
    #[inline]
    pub(super) fn begins(&mut self, now: impl FnOnce() -> Instant) {
        let is_timed = matches!(self.phase, Phase::First(_) | Phase::Alone(_) | Phase::Cached(_));
        if is_timed && self.times.since.is_none() && ((self.pace.window - self.left) / GROUP).is_multiple_of(ONE_IN) {
            self.times.since = Some(now());
        }
    }

    /// Counts a batch that took the path `way`, of which `hits` lookups hit or would have.
    #[inline]
    pub(super) fn went(&mut self, way: Way, lookups: usize, hits: usize, now: impl FnOnce() -> Instant) {
        match way {
            Way::Cached => {
                self.counts.hits += hits as u64;
                self.counts.misses += (lookups - hits) as u64;
            }
            Way::Straight | Way::Weighed | Way::Noted(_) => self.counts.passed_by += lookups as u64,
        }
        self.hit += hits;
        self.times.add(lookups, GROUP.min(self.pace.window), now);
        self.left = self.left.saturating_sub(lookups);
        if self.left == 0 {
            self.window_ends();
        }
    }

    #[cold]
    fn window_ends(&mut self) {
        let (Pace { window, noted, full, .. }, hit) = (self.pace, std::mem::take(&mut self.hit));
        let nanos = std::mem::take(&mut self.times).median();
        self.counts = self.counts();
        (self.left, self.pause, self.paused) = (window, 0, 0);
        self.phase = match self.phase {
            Phase::First(more) => {
                self.alone = self.alone.min(nanos);
                if more > 1 {
                    Phase::First(more - 1)
                } else {
                    // Each batch is a window of its own.
                    self.left = 1;
                    Phase::Weighed(WEIGHED)
                }
            }
            Phase::Weighed(more) if more > 1 => {
                self.left = 1;
                Phase::Weighed(more - 1)
            }
            Phase::Weighed(_) => {
                self.weighed = self.alone;
                self.learns = self.least * (self.pace.least_gain as f64) < self.weighed;
                self.left = self.pace.learned;
                if self.learns { Phase::Aside } else { self.holds(Verdict::Aside, 0) }
            }
            Phase::Aside if !self.learns => {
                self.weigh();
                return;
            }
            Phase::Notes if hit < self.enough() => self.holds(Verdict::Aside, 0),
            Phase::Notes => {
                self.alone = f64::INFINITY;
                Phase::Alone(ALONE)
            }
            Phase::Alone(more) => {
                self.alone = self.alone.min(nanos);
                if more > 1 { Phase::Alone(more - 1) } else { Phase::Cached(0) }
            }
            Phase::Cached(made) => {
                let made = made + window;
                if nanos < self.alone {
                    self.holds(Verdict::Stays, hit)
                } else if nanos > HOPELESS * self.alone || made >= full {
                    self.holds(Verdict::Aside, 0)
                } else {
                    Phase::Cached(made)
                }
            }
            // The stay ends early if far fewer hit than when the cache was timed, because other packets have come.
            Phase::Stays { more, hit: then } if more > window && hit >= then / 2 => {
                Phase::Stays { more: more - window, hit: then }
            }
            Phase::Stays { .. } | Phase::Aside => {
                self.left = noted;
                Phase::Notes
            }
        };
    }

    /// Returns how many of the noted keys have to hit: the more, the faster the engine was when the cache was weighed.
    fn enough(&self) -> usize {
        let Pace { noted, enough, least_gain, .. } = self.pace;
        // With this share of hits, a search of all boxes takes half of what the hits save.
        let share = 2.0 * least_gain as f64 * self.least / self.weighed;
        if self.weighed.is_finite() { enough.min((noted as f64 * share) as usize).max(1) } else { enough }
    }

    /// Returns the phase of a verdict, which holds the longer the more often it was the same.
    fn holds(&mut self, verdict: Verdict, hit: usize) -> Phase {
        if self.verdict != verdict {
            (self.verdict, self.hold) = (verdict, self.pace.shortest_pause);
        }
        let hold = self.hold;
        self.hold = hold.saturating_mul(2).min(self.pace.longest_pause);
        match verdict {
            Verdict::Stays => Phase::Stays { more: hold, hit },
            _ => {
                (self.left, self.pause, self.paused) = (0, hold, hold);
                Phase::Aside
            }
        }
    }
}

/// Times of lookups, group by group.
#[derive(Debug, Default)]
struct Times {
    groups: [f64; GROUPS],
    count: usize,
    /// Start of the group that is being timed, and its lookups.
    since: Option<Instant>,
    lookups: usize,
}

impl Times {
    #[inline]
    fn add(&mut self, lookups: usize, group: usize, now: impl FnOnce() -> Instant) {
        let Some(since) = self.since else { return };
        self.lookups += lookups;
        if self.lookups >= group {
            if let Some(group) = self.groups.get_mut(self.count) {
                *group = now().duration_since(since).as_nanos() as f64 / self.lookups as f64;
                self.count += 1;
            }
            (self.since, self.lookups) = (None, 0);
        }
    }

    /// Returns the median of the groups in nanoseconds per lookup; 0 without any group.
    ///
    /// The reason is that the rest of the machine disturbs one or two of the few groups.
    fn median(mut self) -> f64 {
        let groups = &mut self.groups[..self.count];
        groups.sort_unstable_by(f64::total_cmp);
        groups.get(groups.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cache::flow::Config;

    const BATCH: usize = 100;

    fn config() -> Config {
        Config { entries: 2000, window: 500, longest_pause: 64, ..Config::default() }
    }

    fn trial(config: &Config) -> Trial {
        Trial::new(config.pace())
    }

    /// Runs a batch that takes `nanos` nanoseconds per lookup.
    fn batch(trial: &mut Trial, hits: usize, nanos: u64) {
        let (way, start) = (trial.way(), Instant::now());
        trial.begins(|| start);
        let hits = if way == Way::Straight { 0 } else { hits };
        trial.went(way, BATCH, hits, || start + Duration::from_nanos(nanos * BATCH as u64));
    }

    /// Runs batches as long as they take one path; returns the path and the number of lookups.
    ///
    /// `nanos` is the time of a lookup, alone and cached.
    fn goes(trial: &mut Trial, hits: usize, nanos: [u64; 2]) -> (Way, usize) {
        let kind = |way| if let Way::Noted(_) = way { Way::Noted(0) } else { way };
        let (first, mut batches) = (kind(trial.way()), 0);
        while kind(trial.way()) == first && batches < 10_000 {
            batches += 1;
            let (cached, passed_by) = (trial.way() == Way::Cached, trial.counts().passed_by);
            if !trial.passes_by(BATCH) {
                batch(trial, hits, nanos[usize::from(cached)]);
            }
            let passes = if cached { 0 } else { BATCH as u64 };
            assert_eq!(trial.counts().passed_by, passed_by + passes);
        }
        (first, batches * BATCH)
    }

    #[test]
    fn few_that_come_again_are_no_trial() {
        let mut trial = trial(&config());
        // About 4 of 125 packets of 2,000 flows come again.
        for pause in [1000, 2000, 4000, 8000, 16_000, 32_000, 32_000] {
            assert_eq!(goes(&mut trial, 1, [100, 1]), (Way::Noted(0), 200));
            assert_eq!(goes(&mut trial, 1, [100, 1]), (Way::Straight, pause));
        }
        assert_eq!(goes(&mut trial, 2, [100, 1]), (Way::Noted(0), 200));
        assert_eq!(goes(&mut trial, 2, [100, 1]), (Way::Straight, 2000));
        assert_eq!(trial.way(), Way::Cached);
    }

    /// A faster cache stays; one that is far slower goes at once, another when it must be full.
    #[test]
    fn times_decide() {
        for (cached, tried, stays) in [(99, 500, true), (101, 2000, false), (299, 2000, false), (301, 500, false)] {
            let mut trial = trial(&config());
            assert_eq!(goes(&mut trial, 40, [100, cached]), (Way::Noted(0), 200));
            assert_eq!(goes(&mut trial, 40, [100, cached]), (Way::Straight, 2000));
            let hold = 1000;
            assert_eq!(
                goes(&mut trial, 40, [100, cached]),
                (Way::Cached, if stays { tried + hold } else { tried }),
                "{cached}"
            );
            let next = (Way::Straight, hold);
            assert_eq!(stays, trial.way() != Way::Straight || goes(&mut trial, 40, [100, cached]) != next);
        }
    }

    /// The time of a window is the median of its groups, that of the engine is the time of its fastest window.
    ///
    /// So neither cold caches of the machine nor another thread make an engine slow.
    #[test]
    fn what_disturbs_does_not_decide() {
        let config = Config { window: 8 * BATCH, entries: 8 * BATCH, ..config() };
        let mut trial = trial(&config);
        assert_eq!(goes(&mut trial, 40, [1, 1]).0, Way::Noted(0));
        for window in 0..ALONE as u64 {
            for number in 0..8 {
                batch(&mut trial, 0, if number == 0 { 1_000_000 } else { 400 - 100 * window });
            }
        }
        assert_eq!((trial.alone, trial.way()), (100.0, Way::Cached));
    }

    /// A cache that stays goes on trial again when far fewer keys hit.
    #[test]
    fn other_packets_end_a_stay() {
        let config = config();
        let stays = |hits| {
            let mut trial = trial(&config);
            (0..2).for_each(|_| _ = goes(&mut trial, 40, [100, 50]));
            (0..5).for_each(|_| batch(&mut trial, 40, 50));
            assert!(matches!(trial.phase, Phase::Stays { .. }), "{trial:?}");
            goes(&mut trial, hits, [100, 50])
        };
        assert_eq!(stays(20), (Way::Cached, 1000));
        assert_eq!(stays(19), (Way::Cached, 500));
    }

    /// A cache that has to learn is weighed first; it learns only in front of an engine that is slow enough, for an
    /// eighth of its time.
    #[test]
    fn a_fast_engine_is_left_alone() {
        for (alone, learns) in [(14, false), (16, true), (1000, true)] {
            let pace = Pace { learned: 1000, least_gain: 3, enough: 100, ..config().pace() };
            let mut trial = Trial::new(pace);
            let mut lookups = 0;
            while trial.way() != Way::Weighed {
                assert!(!trial.learns());
                batch(&mut trial, 0, alone);
                lookups += BATCH;
            }
            assert_eq!(lookups, ALONE * 500);
            for _ in 0..WEIGHED {
                trial.takes_at_least(5.0);
                batch(&mut trial, 0, alone);
            }
            assert_eq!((trial.learns(), trial.phase), (learns, Phase::Aside), "{alone}");
            if !learns {
                // It is weighed once more after the pause.
                while trial.passes_by(BATCH) {}
                assert_eq!(trial.way(), Way::Straight);
                batch(&mut trial, 0, alone);
                assert_eq!((trial.phase, trial.learns()), (Phase::First(ALONE), false));
                continue;
            }
            assert!(trial.affords(BATCH) && trial.credit == (100 * alone) as f64 / 8.0);
            trial.spent(trial.credit + 1.0);
            assert!(
                trial.affords(1)
                    && !{
                        trial.spent(1e6);
                        trial.affords(BATCH)
                    }
            );
            // The slower the engine, the fewer hits are enough: 2 × 3 × 5 / 1000 of 125.
            assert_eq!(trial.enough(), if alone == 1000 { 3 } else { 100 });
        }
    }

    #[test]
    fn it_need_not_step_aside() {
        let config = Config { steps_aside: Config::paper().steps_aside, ..config() };
        assert_eq!(goes(&mut trial(&config), 0, [1, 1000]), (Way::Cached, 10_000 * BATCH));
    }
}
