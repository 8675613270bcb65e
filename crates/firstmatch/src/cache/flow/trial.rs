//! Whether the cache pays: which way batches go, and for how long.
//!
//! A verdict holds for a time, then there is another trial. First the engine is alone: for a quarter of a window, hashes of
//! keys tell how many would hit, and where these are too few that is the verdict. Else its time a lookup is taken, then that
//! with the cache in front, window by window, until one of them is clearly the shorter or as many lookups have been made
//! as there are entries.

use std::time::Instant;

use super::{Config, Counts};

/// Which way a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Straight on.
    Straight,
    /// Straight on, with so many of its keys noted.
    Noted(usize),
    /// Through the cache.
    Cached,
}

/// Windows of the engine alone that are timed, of which the fastest counts: while packets went through the cache, others'
/// lines took the place of the engine's in the caches of the machine.
const ALONE: usize = 4;
/// A window of the cache that takes so many times as long as the engine alone is the last one. Measured, caches that pay in
/// the end have taken two to three times as long while they filled.
const HOPELESS: f64 = 3.0;
/// Lookups that are timed together, at least, from the start of a batch to the end of the same or a later one: apart, small
/// batches would take longer than they do one behind the other. Of four such groups one is timed.
const GROUP: usize = 64;
const ONE_IN: usize = 4;
/// Groups of a window that count, at most.
const GROUPS: usize = 15;

#[derive(Debug)]
pub(super) struct Trial {
    /// Without those of the pause.
    counts: Counts,
    phase: Phase,
    /// Lookups to the end of the window; none while the cache has stepped aside.
    left: usize,
    /// Lookups to the end of the pause, and how many it had; none unless the cache has stepped aside.
    pause: usize,
    paused: usize,
    /// How many lookups of the window hit, or would have.
    hit: usize,
    times: Times,
    /// What the engine takes alone, in nanoseconds a lookup.
    alone: f64,
    verdict: Verdict,
    /// Lookups for which the next verdict holds if it is the same.
    hold: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Hashes of keys are noted.
    Notes,
    /// The engine alone is timed for so many more windows.
    Alone(usize),
    /// The cache is timed, and so many lookups were made with it.
    Cached(usize),
    /// The cache has stepped aside.
    Aside,
    /// The cache stays for so many more lookups; in the window that decided so many hit.
    Stays { more: usize, hit: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    None,
    Aside,
    Stays,
}

impl Trial {
    pub(super) fn new(config: &Config) -> Self {
        // A pause that never ends is of packets that always go through the cache.
        let (phase, left) = match config.steps_aside {
            true => (Phase::Notes, config.noted()),
            false => (Phase::Stays { more: usize::MAX, hit: 0 }, usize::MAX),
        };
        let (counts, times, verdict) = (Counts::default(), Times::default(), Verdict::None);
        let (alone, hold) = (f64::INFINITY, config.shortest_pause());
        Self { counts, phase, left, pause: 0, paused: 0, hit: 0, times, alone, verdict, hold }
    }

    pub(super) fn counts(&self) -> Counts {
        let passed_by = self.counts.passed_by + (self.paused - self.pause) as u64;
        Counts { passed_by, ..self.counts }
    }

    /// Whether a batch of so many goes straight on and nothing else is to be done.
    #[inline(always)]
    pub(super) fn passes_by(&mut self, lookups: usize) -> bool {
        let passes = lookups < self.pause;
        if passes {
            self.pause -= lookups;
        }
        passes
    }

    /// Which way a batch goes that does not.
    #[inline]
    pub(super) fn way(&self) -> Way {
        match self.phase {
            Phase::Notes => Way::Noted(self.left),
            Phase::Alone(_) | Phase::Aside => Way::Straight,
            Phase::Cached(_) | Phase::Stays { .. } => Way::Cached,
        }
    }

    /// A batch begins.
    #[inline]
    pub(super) fn begins(&mut self, config: &Config, now: impl FnOnce() -> Instant) {
        let is_timed = matches!(self.phase, Phase::Alone(_) | Phase::Cached(_));
        if is_timed && self.times.since.is_none() && ((config.window() - self.left) / GROUP).is_multiple_of(ONE_IN) {
            self.times.since = Some(now());
        }
    }

    /// A batch of so many went `way`, of which so many hit or would have.
    #[inline]
    pub(super) fn went(
        &mut self,
        config: &Config,
        way: Way,
        lookups: usize,
        hits: usize,
        now: impl FnOnce() -> Instant,
    ) {
        match way {
            Way::Cached => {
                self.counts.hits += hits as u64;
                self.counts.misses += (lookups - hits) as u64;
            }
            Way::Straight | Way::Noted(_) => self.counts.passed_by += lookups as u64,
        }
        self.hit += hits;
        self.times.add(lookups, GROUP.min(config.window()), now);
        self.left = self.left.saturating_sub(lookups);
        if self.left == 0 {
            self.window_ends(config);
        }
    }

    #[cold]
    fn window_ends(&mut self, config: &Config) {
        let (window, noted, hit) = (config.window(), config.noted(), std::mem::take(&mut self.hit));
        let nanos = std::mem::take(&mut self.times).median();
        self.counts = self.counts();
        (self.left, self.pause, self.paused) = (window, 0, 0);
        self.phase = match self.phase {
            // Of as many flows as there are entries, each as likely as another, n²/2e of the first n packets are not the
            // first of theirs.
            Phase::Notes if hit.saturating_mul(2 * config.entries.max(2 * noted)) < noted.saturating_mul(noted) => {
                self.holds(config, Verdict::Aside, 0)
            }
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
                    self.holds(config, Verdict::Stays, hit)
                } else if nanos > HOPELESS * self.alone || made >= config.entries {
                    self.holds(config, Verdict::Aside, 0)
                } else {
                    Phase::Cached(made)
                }
            }
            // Other packets have come: far fewer hit than when the cache was timed.
            Phase::Stays { more, hit: then } if more > window && hit >= then / 2 => {
                Phase::Stays { more: more - window, hit: then }
            }
            Phase::Stays { .. } | Phase::Aside => {
                self.left = noted;
                Phase::Notes
            }
        };
    }

    /// A verdict, which holds the longer the more often it has been the same.
    fn holds(&mut self, config: &Config, verdict: Verdict, hit: usize) -> Phase {
        if self.verdict != verdict {
            (self.verdict, self.hold) = (verdict, config.shortest_pause());
        }
        let hold = self.hold;
        self.hold = hold.saturating_mul(2).min(config.longest_pause());
        match verdict {
            Verdict::Stays => Phase::Stays { more: hold, hit },
            _ => {
                (self.left, self.pause, self.paused) = (0, hold, hold);
                Phase::Aside
            }
        }
    }
}

/// Times a lookup, group by group.
#[derive(Debug, Default)]
struct Times {
    groups: [f64; GROUPS],
    count: usize,
    /// When the group began that is being timed, and its lookups.
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

    /// In nanoseconds: of few groups whatever else the machine does is in one or two. No time at all where there is none.
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

    const BATCH: usize = 100;

    fn config() -> Config {
        Config { entries: 2000, window: 500, longest_pause: 64, ..Config::default() }
    }

    /// A batch that takes so many nanoseconds a lookup.
    fn batch(trial: &mut Trial, config: &Config, hits: usize, nanos: u64) {
        let (way, start) = (trial.way(), Instant::now());
        trial.begins(config, || start);
        let hits = if way == Way::Straight { 0 } else { hits };
        trial.went(config, way, BATCH, hits, || start + Duration::from_nanos(nanos * BATCH as u64));
    }

    /// Batches go on as long as they go this way: how many did. `nanos` says what a lookup takes, alone and cached.
    fn goes(trial: &mut Trial, config: &Config, hits: usize, nanos: [u64; 2]) -> (Way, usize) {
        let kind = |way| if let Way::Noted(_) = way { Way::Noted(0) } else { way };
        let (first, mut batches) = (kind(trial.way()), 0);
        while kind(trial.way()) == first && batches < 10_000 {
            batches += 1;
            let (cached, passed_by) = (trial.way() == Way::Cached, trial.counts().passed_by);
            if !trial.passes_by(BATCH) {
                batch(trial, config, hits, nanos[usize::from(cached)]);
            }
            let passes = if cached { 0 } else { BATCH as u64 };
            assert_eq!(trial.counts().passed_by, passed_by + passes);
        }
        (first, batches * BATCH)
    }

    #[test]
    fn few_that_come_again_are_no_trial() {
        let (config, mut trial) = (config(), Trial::new(&config()));
        // Of 125 packets of 2,000 flows 4 come again.
        for pause in [1000, 2000, 4000, 8000, 16_000, 32_000, 32_000] {
            assert_eq!(goes(&mut trial, &config, 1, [100, 1]), (Way::Noted(0), 200));
            assert_eq!(goes(&mut trial, &config, 1, [100, 1]), (Way::Straight, pause));
        }
        assert_eq!(goes(&mut trial, &config, 2, [100, 1]), (Way::Noted(0), 200));
        assert_eq!(goes(&mut trial, &config, 2, [100, 1]), (Way::Straight, 2000));
        assert_eq!(trial.way(), Way::Cached);
    }

    /// A faster cache stays, one that is far slower goes at once, another when it must be full.
    #[test]
    fn times_decide() {
        for (cached, tried, stays) in [(99, 500, true), (101, 2000, false), (299, 2000, false), (301, 500, false)] {
            let (config, mut trial) = (config(), Trial::new(&config()));
            assert_eq!(goes(&mut trial, &config, 40, [100, cached]), (Way::Noted(0), 200));
            assert_eq!(goes(&mut trial, &config, 40, [100, cached]), (Way::Straight, 2000));
            let hold = 1000;
            assert_eq!(
                goes(&mut trial, &config, 40, [100, cached]),
                (Way::Cached, if stays { tried + hold } else { tried }),
                "{cached}"
            );
            let next = (Way::Straight, hold);
            assert_eq!(stays, trial.way() != Way::Straight || goes(&mut trial, &config, 40, [100, cached]) != next);
        }
    }

    /// The fastest window of the engine counts, and of a window the median: neither what is not in the machine's caches
    /// nor another thread makes an engine slow.
    #[test]
    fn what_disturbs_does_not_decide() {
        let config = Config { window: 8 * BATCH, entries: 8 * BATCH, ..config() };
        let mut trial = Trial::new(&config);
        assert_eq!(goes(&mut trial, &config, 40, [1, 1]).0, Way::Noted(0));
        for window in 0..ALONE as u64 {
            for number in 0..8 {
                batch(&mut trial, &config, 0, if number == 0 { 1_000_000 } else { 400 - 100 * window });
            }
        }
        assert_eq!((trial.alone, trial.way()), (100.0, Way::Cached));
    }

    /// A cache that stays goes on trial again when far fewer hit.
    #[test]
    fn other_packets_end_a_stay() {
        let config = config();
        let stays = |hits| {
            let mut trial = Trial::new(&config);
            (0..2).for_each(|_| _ = goes(&mut trial, &config, 40, [100, 50]));
            (0..5).for_each(|_| batch(&mut trial, &config, 40, 50));
            assert!(matches!(trial.phase, Phase::Stays { .. }), "{trial:?}");
            goes(&mut trial, &config, hits, [100, 50])
        };
        assert_eq!(stays(20), (Way::Cached, 1000));
        assert_eq!(stays(19), (Way::Cached, 500));
    }

    #[test]
    fn it_need_not_step_aside() {
        let config = Config { steps_aside: false, ..config() };
        assert_eq!(goes(&mut Trial::new(&config), &config, 0, [1, 1000]), (Way::Cached, 10_000 * BATCH));
    }
}
