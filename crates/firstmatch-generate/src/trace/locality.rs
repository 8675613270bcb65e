//! How often rules come, and how often the same header comes again.

use crate::random::Random;

/// Locality of reference.
///
/// Where coverage is complete every rule first gets one header; what follows is for the rest of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Locality {
    /// Each rule is as likely as any other, each header drawn anew.
    Uniform,
    /// Bursts of the same header, of Pareto-distributed length, each of a rule drawn uniformly. This is that of
    /// ClassBench's generator of traces (Taylor and Turner 2007): a burst has `⌈b / (1 − u)^(1/a)⌉` headers for a
    /// uniform *u* in [0, 1), one where `b` is 0. Bursts do not mix, and are cut where the trace ends.
    Pareto {
        /// The shape, above 0: the smaller, the longer the longest bursts.
        a: f64,
        /// The scale, 0 or more: the length of the shortest bursts.
        b: f64,
    },
    /// The k-th most popular rule is drawn in proportion to `1 / k^s`, each header anew. Which rules are popular is
    /// random.
    Zipf {
        /// The exponent, 0 to 16; 0 is uniform, 1 the usual.
        s: f64,
    },
}

impl Locality {
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Self::Uniform => Ok(()),
            Self::Pareto { a, .. } if !(a.is_finite() && a > 0.0) => Err(format!("a is {a}, not a number above 0")),
            Self::Pareto { b, .. } if !(b.is_finite() && b >= 0.0) => Err(format!("b is {b}, not a number from 0")),
            Self::Zipf { s } if !(0.0..=16.0).contains(&s) => Err(format!("s is {s}, not a number from 0 to 16")),
            Self::Pareto { .. } | Self::Zipf { .. } => Ok(()),
        }
    }
}

/// The same header a number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    /// An index into what headers are drawn from.
    pub(crate) of: u32,
    pub(crate) copies: u32,
}

/// Bursts of `headers` headers in all, drawn from `pool` things; with `each`, of each thing one burst at least. The
/// caller has seen to it that there are things and as many headers as it takes.
pub(crate) fn bursts(locality: Locality, pool: usize, headers: usize, each: bool, random: &mut Random) -> Vec<Burst> {
    let mut popular: Vec<u32> = (0..pool as u32).collect();
    random.shuffle(&mut popular);
    let first = if each { pool.min(headers) } else { 0 };
    // Headers that are not yet given to a burst, beyond one for each of the first bursts.
    let mut left = headers - first;
    let mut plan = Vec::new();
    let copies = |left: usize, random: &mut Random| match locality {
        Locality::Pareto { a, b } => pareto(a, b, random).min(left as u64) as u32,
        Locality::Uniform | Locality::Zipf { .. } => left.min(1) as u32,
    };
    for &of in &popular[..first] {
        let copies = copies(left + 1, random);
        left -= copies as usize - 1;
        plan.push(Burst { of, copies });
    }
    let zipf = match locality {
        Locality::Zipf { s } if left > 0 => Some(Zipf::new(pool, s)),
        _ => None,
    };
    while left > 0 {
        let rank = match &zipf {
            Some(zipf) => zipf.draw(random),
            None => random.index(pool),
        };
        let copies = copies(left, random);
        left -= copies as usize;
        plan.push(Burst { of: popular[rank], copies });
    }
    plan
}

/// A length, at least 1.
fn pareto(a: f64, b: f64, random: &mut Random) -> u64 {
    // Conversion saturates: what overflows is as long as can be.
    libm::ceil(b / libm::pow(1.0 - random.unit(), 1.0 / a)).max(1.0) as u64
}

/// Ranks by Zipf's law, in units of 2^-32 of the weight of the first.
struct Zipf {
    /// For each rank the sum of the weights up to its own.
    ends: Vec<u64>,
}

impl Zipf {
    fn new(ranks: usize, s: f64) -> Self {
        let mut end = 0;
        let ends = (1..=ranks).map(|rank| {
            // Even the rarest can be drawn.
            end += ((1u64 << 32) as f64 / libm::pow(rank as f64, s)).max(1.0) as u64;
            end
        });
        Self { ends: ends.collect() }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.below(self.ends.last().copied().unwrap_or(0));
        self.ends.partition_point(|&end| end <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    fn total(plan: &[Burst]) -> usize {
        plan.iter().map(|burst| burst.copies as usize).sum()
    }

    #[test]
    fn every_count_is_met_and_everything_comes() {
        let localities = [
            Locality::Uniform,
            Locality::Zipf { s: 1.2 },
            Locality::Zipf { s: 0.0 },
            Locality::Zipf { s: 16.0 },
            Locality::Pareto { a: 1.0, b: 0.0 },
            Locality::Pareto { a: 1.0, b: 1.0 },
            Locality::Pareto { a: 0.01, b: 1e300 },
        ];
        for (seed, locality) in (0..).zip(localities) {
            for (pool, headers) in [(1, 1), (1, 10), (10, 10), (10, 11), (100, 5000)] {
                let mut random = Random::new(seed, Purpose::Headers);
                let plan = bursts(locality, pool, headers, true, &mut random);
                assert_eq!(total(&plan), headers, "{locality:?}");
                assert!((0..pool as u32).all(|of| plan.iter().any(|burst| burst.of == of && burst.copies > 0)));
                assert_eq!(total(&bursts(locality, pool, headers, false, &mut random)), headers);
            }
            assert!(bursts(locality, 5, 0, false, &mut Random::new(1, Purpose::Headers)).is_empty());
            assert!(bursts(locality, 0, 0, true, &mut Random::new(1, Purpose::Headers)).is_empty());
        }
    }

    #[test]
    fn zipf_s_shares_are_those_of_the_law() {
        let mut random = Random::new(3, Purpose::Headers);
        let plan = bursts(Locality::Zipf { s: 1.0 }, 100, 200_000, false, &mut random);
        let mut counts = [0u32; 100];
        plan.iter().for_each(|burst| counts[burst.of as usize] += 1);
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        let sum: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for (rank, tolerance) in [(1, 0.02), (2, 0.03), (10, 0.06)] {
            let share = f64::from(counts[rank - 1]) / 200_000.0 * sum * rank as f64;
            assert!((share - 1.0).abs() < tolerance, "rank {rank}: {share}");
        }
    }

    #[test]
    fn pareto_s_bursts_have_the_tail_of_the_law() {
        let mut random = Random::new(4, Purpose::Headers);
        let drawn: Vec<u64> = (0..100_000).map(|_| pareto(1.0, 1.0, &mut random)).collect();
        for longer in [1u64, 2, 10, 100] {
            // P(⌈b/(1-u)⌉ > k) = P(1/(1-u) > k) = 1/k.
            let share = drawn.iter().filter(|&&copies| copies > longer).count() as f64 / 1e5 * longer as f64;
            assert!((share - 1.0).abs() < 0.1, "longer than {longer}: {share}");
        }
    }
}
