//! Advice on how many workers each stage of Storm's form should have.
//!
//! `t1` of `threads` workers search boxes for `d1` ns per packet, and `t2` workers look up the share `1 - r` of the
//! packets, for `d2` ns each. The stages run side by side, so the slower one bounds the rate:
//! `min(t1 / d1, t2 / (d2 (1 - r)))`. At its best split that is `threads / (d1 + d2 (1 - r))`, which is the rate of as
//! many copies of the whole lookup. So no split is faster than copies, even without the costs of rings. Storm's form
//! could win only if `d1` or `d2` were smaller because each stage has cores of its own.
//!
//! Misses go to rare rules, whose memory is cold, so measure `d2` on misses.

use super::storm::Partition;

/// Times of the stages, and the share of packets that boxes answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageTimes {
    /// Nanoseconds per packet of the search of boxes.
    pub cache: f64,
    /// Nanoseconds per packet of a whole lookup.
    pub full: f64,
    /// Share of packets that boxes answer, from 0 to 1.
    pub hits: f64,
}

impl StageTimes {
    /// Returns the highest rate of a partition, in millions of packets per second.
    pub fn mpps(&self, partition: Partition) -> f64 {
        let searched = partition.cache as f64 / self.cache;
        let looked_up = partition.full as f64 / (self.full * (1.0 - self.hits));
        searched.min(looked_up) * 1e3
    }

    /// Returns the fastest partition of at most `threads` workers; `None` if `threads` is less than two.
    ///
    /// One number of workers is a multiple of the other, so that each ring has one sender and one receiver. Of equally
    /// fast partitions it takes the one with more workers for boxes, then the one with more for lookups.
    ///
    /// ```
    /// use firstmatch_net::systems::advice::StageTimes;
    /// use firstmatch_net::systems::storm::Partition;
    ///
    /// let times = StageTimes { cache: 200.0, full: 2000.0, hits: 0.95 };
    /// assert_eq!(times.advise(7), Some(Partition::new(4, 2)));
    /// assert_eq!(times.mpps(Partition::new(4, 2)).round(), 20.0);
    /// ```
    pub fn advise(&self, threads: usize) -> Option<Partition> {
        let pairs = (1..threads).flat_map(|cache| (1..=threads - cache).map(move |full| Partition::new(cache, full)));
        let even = pairs.filter(|by| by.cache.is_multiple_of(by.full) || by.full.is_multiple_of(by.cache));
        // Of equal rates, the last one is taken.
        even.max_by(|a, b| self.mpps(*a).total_cmp(&self.mpps(*b)))
    }

    /// Returns the number of cache workers by equation 1 of the paper, which need not be whole.
    ///
    /// It minimises the *sum* of both stages' times per packet, although the stages run side by side. For example, of
    /// 15 workers at 200 and 2,000 ns and 95 % hits it gives 8.7, while 10 and 5 have the highest rate.
    pub fn equation_1(&self, threads: usize) -> f64 {
        let (cache, full) = ((self.cache * self.hits).sqrt(), (self.full * (1.0 - self.hits)).sqrt());
        threads as f64 * cache / (full + cache)
    }

    /// Returns the number of cache workers with which both stages are equally fast, which need not be whole.
    pub fn balanced(&self, threads: usize) -> f64 {
        threads as f64 * self.cache / (self.cache + self.full * (1.0 - self.hits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(hits: f64) -> StageTimes {
        StageTimes { cache: 200.0, full: 2000.0, hits }
    }

    #[test]
    fn equation_1_gives_the_worked_values() {
        let is_near = |found: f64, expected: f64| assert!((found - expected).abs() < 5e-4, "{found}, not {expected}");
        is_near(times(0.95).equation_1(7), 4.057);
        is_near(times(0.95).equation_1(15), 8.693);
        is_near(times(0.95).balanced(7), 4.667);
        // "Between 3 and 4", as the paper states, holds for fewer hits.
        assert!((times(0.849).equation_1(7) - 3.0).abs() < 0.01 && (times(0.947).equation_1(7) - 4.0).abs() < 0.01);
    }

    #[test]
    fn the_best_partition_follows_the_hits() {
        let of = |hits, threads| times(hits).advise(threads).map(|by| (by.cache, by.full));
        for (least, most, expected) in
            [(0.61, 0.849, (2, 4)), (0.851, 0.933, (3, 3)), (0.934, 0.974, (4, 2)), (0.976, 1.0, (6, 1))]
        {
            assert_eq!([of(least, 7), of(most, 7)], [Some(expected); 2], "{least} to {most}");
        }
        assert_eq!((of(0.95, 15), of(0.95, 2), of(0.95, 1)), (Some((10, 5)), Some((1, 1)), None));
    }

    /// No partition is faster than as many copies of the whole lookup.
    #[test]
    fn copies_are_no_slower() {
        for threads in 2..20 {
            for percent in 0..100 {
                let times = times(f64::from(percent) / 100.0);
                let copies = threads as f64 * 1e3 / (200.0 + 2000.0 * (1.0 - times.hits));
                let best = times.mpps(times.advise(threads).expect("two workers at least"));
                assert!(best <= copies * (1.0 + 1e-9), "{threads} workers, {percent} % hits: {best}, {copies}");
            }
        }
    }
}
