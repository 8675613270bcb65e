//! Locality: how often rules, and the same headers, repeat.

use crate::random::Random;

/// Locality of reference.
///
/// With complete coverage every rule first gets one header; the locality applies to the rest of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Locality {
    /// Each rule is equally likely, and each header is drawn anew.
    Uniform,
    /// Bursts of the same header with Pareto-distributed lengths, each of a uniformly drawn rule.
    ///
    /// This is ClassBench's trace generator (Taylor and Turner 2007): a burst has `⌈b / (1 − u)^(1/a)⌉` headers for a
    /// uniform *u* in [0, 1), or one if `b` is 0. For example, `a` 1 and `b` 1 give bursts longer than 10 headers in
    /// one of 10 cases. Bursts do not mix, and the last is cut at the end of the trace.
    Pareto {
        /// Shape, above 0: the smaller, the longer the longest bursts.
        a: f64,
        /// Scale, 0 or more: the length of the shortest bursts.
        b: f64,
    },
    /// The k-th most popular rule is drawn in proportion to `1 / k^s`, each header anew.
    ///
    /// The popularity of rules is random.
    Zipf {
        /// Exponent, 0 to 16; 0 is uniform, 1 the usual.
        s: f64,
    },
    /// Zipf's law with the exponent that gives a rule's popularity this entropy, each header anew.
    ///
    /// The entropy says how predictable the next rule is. For example, 5 bits are those of 32 rules of equal
    /// popularity.
    Entropy {
        /// Entropy in bits, 0 to the logarithm of the number of rules.
        bits: f64,
    },
    /// Flows: each repeats a header over some time, and overlapping flows mix.
    ///
    /// Sizes and durations are as measured on public traces (Shaikot, PhD dissertation, Washington State University
    /// 2012, 5.2.1 and Figure 5.1). 60 % of the flows have three packets or fewer. 20 % have ten or more, and carry
    /// 70 % of the traffic. 20 % of the flows, with 60 % of the traffic, last five seconds or longer.
    ///
    /// The values between these figures are this crate's: Pareto tails of shape 1.55 for sizes from ten, and of shape
    /// 1.5 for durations from five seconds.
    Flows {
        /// Exponent of Zipf's law by which flows choose rules, 0 to 16.
        s: f64,
        /// Number of flows that start per second, above 0: the larger, the more of them overlap.
        rate: f64,
    },
}

impl Locality {
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Self::Uniform => Ok(()),
            Self::Pareto { a, .. } if !(a.is_finite() && a > 0.0) => Err(format!("a is {a}, not a number above 0")),
            Self::Pareto { b, .. } if !(b.is_finite() && b >= 0.0) => Err(format!("b is {b}, not a number from 0")),
            Self::Zipf { s } | Self::Flows { s, .. } if !(0.0..=16.0).contains(&s) => {
                Err(format!("s is {s}, not a number from 0 to 16"))
            }
            Self::Flows { rate, .. } if !(1e-6..=1e12).contains(&rate) => {
                Err(format!("the rate is {rate}, not a number from 10^-6 to 10^12 flows a second"))
            }
            Self::Entropy { bits } if !(0.0..=32.0).contains(&bits) => {
                Err(format!("the entropy is {bits}, not a number of bits from 0 to 32"))
            }
            Self::Pareto { .. } | Self::Zipf { .. } | Self::Entropy { .. } | Self::Flows { .. } => Ok(()),
        }
    }

    /// Checks that the popularity of `pool` things can have the entropy.
    pub(crate) fn check_pool(self, pool: usize) -> Result<(), String> {
        let most = libm::log2(pool.max(1) as f64);
        match self {
            Self::Entropy { bits } if bits > most => {
                Err(format!("the entropy is {bits} bits, but {pool} rules that can be hit have {most:.3} at most"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the exponent of Zipf's law for `pool` things; `None` if popularity does not follow it.
    ///
    /// ```
    /// use firstmatch_generate::trace::Locality;
    ///
    /// let exponent = Locality::Entropy { bits: 5.345 }.exponent(1024).expect("it follows the law");
    /// assert!((1.0..1.5).contains(&exponent));
    /// ```
    pub fn exponent(self, pool: usize) -> Option<f64> {
        match self {
            Self::Zipf { s } | Self::Flows { s, .. } => Some(s),
            Self::Entropy { bits } => Some(exponent_of(bits, pool)),
            Self::Uniform | Self::Pareto { .. } => None,
        }
    }
}

/// Bursts of headers that are least expected, as of an attack on classifiers that adapt to traffic.
///
/// Each header of a burst is for another of the rarest rules of its phase: the last in the order of popularity, at
/// least one of a hundred. A classifier that keeps popular rules or values near searches longest for these. For
/// example, `npf` (Shaikot 2012) has the values that came often near the roots of its trees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hostile {
    /// Share of the headers that match a rule, 0 to 1.
    ///
    /// With [`Coverage::Complete`](super::Coverage::Complete) the others must suffice to hit every rule once.
    pub share: f64,
    /// Number of headers of a burst, 1 or more; the last of a phase may be shorter.
    pub burst: u32,
}

impl Hostile {
    pub(crate) fn check(self) -> Result<(), String> {
        if self.burst == 0 {
            return Err("a burst of hostile headers has 1 or more, not 0".to_owned());
        }
        super::check::share("the share of hostile headers", self.share)
    }

    /// Returns the number of hostile headers among `headers` that match a rule.
    pub(crate) fn count(self, headers: usize) -> usize {
        ((headers as f64 * self.share + 0.5) as usize).min(headers)
    }
}

/// Returns the exponent, 0 to 16, with which Zipf's law over `pool` ranks has an entropy of `bits`.
///
/// The entropy falls with the exponent, so halving an interval finds it.
fn exponent_of(bits: f64, pool: usize) -> f64 {
    let (mut low, mut high) = (0.0, 16.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if entropy(middle, pool) > bits { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Returns the entropy, in bits, of Zipf's law with the exponent `s` over `pool` ranks.
fn entropy(s: f64, pool: usize) -> f64 {
    let (mut sum, mut weighed) = (0.0, 0.0);
    for rank in 1..=pool {
        let bits = libm::log2(rank as f64);
        let weight = libm::exp2(-s * bits);
        sum += weight;
        weighed += weight * bits;
    }
    libm::log2(sum) + s * weighed / sum
}

/// Repetitions of one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    /// Index into the pool that headers are drawn from.
    pub(crate) of: u32,
    pub(crate) copies: u32,
    pub(crate) phase: u32,
    /// Whether it comes right behind the one before.
    pub(crate) follows: bool,
}

/// Bursts of a trace.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) bursts: Vec<Burst>,
    locality: Locality,
    phases: u32,
}

/// Way in which headers repeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) locality: Locality,
    /// Number of equal parts, each with its own popular things.
    pub(crate) phases: u32,
    pub(crate) hostile: Option<Hostile>,
}

/// Plans bursts of `headers` headers in all, drawn from a pool of `pool` things.
///
/// With `each`, each thing gets at least one burst. The caller ensures that `pool` is positive and, with `each`, that
/// `headers` suffices.
pub(crate) fn plan(traffic: Traffic, pool: usize, headers: usize, each: bool, random: &mut Random) -> Plan {
    let Traffic { locality, phases, hostile } = traffic;
    let mut popular: Vec<u32> = (0..pool as u32).collect();
    random.shuffle(&mut popular);
    let first = if each { pool.min(headers) } else { 0 };
    let once = popular[..first].to_vec();
    let zipf = locality.exponent(pool).filter(|_| headers > first).map(|s| Zipf::new(pool, s));
    let copies = |left: usize, random: &mut Random| match locality {
        Locality::Pareto { a, b } => pareto(a, b, random).min(left as u64) as u32,
        Locality::Flows { .. } => flow_size(random).min(left as u64) as u32,
        Locality::Uniform | Locality::Zipf { .. } | Locality::Entropy { .. } => left.min(1) as u32,
    };
    let mut bursts = Vec::new();
    let part = |of: usize, phase: u32| (of as u128 * u128::from(phase) / u128::from(phases)) as usize;
    for phase in 0..phases {
        if phase > 0 {
            random.shuffle(&mut popular);
        }
        let once = &once[part(first, phase)..part(first, phase + 1)];
        // Headers not yet in a burst, beyond one for each of the first bursts.
        let mut left = part(headers - first, phase + 1) - part(headers - first, phase);
        if let Some(hostile) = hostile {
            let count = hostile.count(left + once.len()).min(left);
            add_hostile(hostile, &popular, count, phase, &mut bursts);
            left -= count;
        }
        for &of in once {
            let copies = copies(left + 1, random);
            left -= copies as usize - 1;
            bursts.push(Burst { of, copies, phase, follows: false });
        }
        while left > 0 {
            let rank = match &zipf {
                Some(zipf) => zipf.draw(random),
                None => random.index(pool),
            };
            let copies = copies(left, random);
            left -= copies as usize;
            bursts.push(Burst { of: popular[rank], copies, phase, follows: false });
        }
    }
    Plan { bursts, locality, phases }
}

/// Adds the `count` hostile headers of a phase.
fn add_hostile(hostile: Hostile, popular: &[u32], count: usize, phase: u32, bursts: &mut Vec<Burst>) {
    let rarest = popular.len().div_ceil(100).max(popular.len().min(hostile.burst as usize));
    for at in 0..count {
        let of = popular[popular.len() - 1 - at % rarest];
        bursts.push(Burst { of, copies: 1, phase, follows: at % hostile.burst as usize > 0 });
    }
}

impl Plan {
    /// Adds bursts of one header each, in random phases, for headers outside the pool.
    pub(crate) fn add_singles(&mut self, count: usize, random: &mut Random) {
        let phases = u64::from(self.phases);
        let single = |_| Burst { of: 0, copies: 1, phase: random.below(phases) as u32, follows: false };
        self.bursts.extend((0..count).map(single));
    }

    /// Returns the index of the burst of each header, in order.
    ///
    /// Bursts are in random order, phase by phase. Packets of flows are ordered by their times, which are returned too,
    /// in seconds.
    pub(crate) fn order(&self, random: &mut Random) -> (Vec<u32>, Option<Vec<f64>>) {
        if let Locality::Flows { rate, .. } = self.locality {
            let (order, times) = self.flows(rate, random);
            return (order, Some(times));
        }
        let all = &self.bursts;
        let mut leading: Vec<u32> = (0..all.len() as u32).filter(|&burst| !all[burst as usize].follows).collect();
        random.shuffle(&mut leading);
        leading.sort_by_key(|&burst| all[burst as usize].phase);
        let order = leading.into_iter().flat_map(|first| {
            let following = all[first as usize + 1..].iter().take_while(|burst| burst.follows).count() as u32;
            let together = first..=first + following;
            together.flat_map(|burst| std::iter::repeat_n(burst, all[burst as usize].copies as usize))
        });
        (order.collect(), None)
    }

    fn flows(&self, rate: f64, random: &mut Random) -> (Vec<u32>, Vec<f64>) {
        let mut lasting = vec![0.0; self.phases as usize];
        self.bursts.iter().for_each(|burst| lasting[burst.phase as usize] += 1.0 / rate);
        let starts: Vec<f64> = lasting
            .iter()
            .scan(0.0, |sum, &part| {
                *sum += part;
                Some(*sum - part)
            })
            .collect();
        let mut packets = Vec::new();
        let mut start = 0.0;
        for (index, burst) in (0u32..).zip(&self.bursts) {
            let phase = burst.phase as usize;
            // Packets of one time keep their order.
            if !burst.follows {
                start = starts[phase] + random.unit() * lasting[phase];
            }
            let duration = flow_duration(burst.copies, random);
            packets.push((start, index));
            // The last packet ends the flow exactly after its duration.
            for left in (1..burst.copies).rev() {
                let at = if left == 1 { 1.0 } else { random.unit() };
                packets.push((start + at * duration, index));
            }
        }
        packets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        packets.into_iter().map(|(time, index)| (index, time)).unzip()
    }
}

/// Returns a random number of packets of a flow.
fn flow_size(random: &mut Random) -> u64 {
    match random.below(100) {
        0..25 => 1,
        25..45 => 2,
        45..60 => 3,
        60..80 => random.between(4, 9).into(),
        // The conversion drops the fraction: sizes are 10 or more.
        _ => (10.0 / libm::pow(1.0 - random.unit(), 1.0 / 1.55)).min(1e5) as u64,
    }
}

/// Returns a random duration, in seconds, of a flow of `packets` packets.
fn flow_duration(packets: u32, random: &mut Random) -> f64 {
    let long = match packets {
        ..2 => return 0.0,
        2..10 => 0.058,
        _ => 0.84,
    };
    let (lasts, u) = (random.chance(long), random.unit());
    if lasts { (5.0 / libm::pow(1.0 - u, 1.0 / 1.5)).min(3600.0) } else { 5.0 * u * u * u }
}

/// Returns a random burst length, at least 1.
fn pareto(a: f64, b: f64, random: &mut Random) -> u64 {
    // The conversion saturates, so an overflow gives the largest length.
    libm::ceil(b / libm::pow(1.0 - random.unit(), 1.0 / a)).max(1.0) as u64
}

/// Zipf's law over ranks, in units of 2^-32 of the weight of the first rank.
struct Zipf {
    /// For each rank, the sum of the weights up to and including its own.
    ends: Vec<u64>,
}

impl Zipf {
    fn new(ranks: usize, s: f64) -> Self {
        let mut end = 0;
        let ends = (1..=ranks).map(|rank| {
            // A weight of at least 1 lets even the rarest rank be drawn.
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

    fn bursts(locality: Locality, pool: usize, headers: usize, each: bool, random: &mut Random) -> Vec<Burst> {
        plan(traffic(locality, 1), pool, headers, each, random).bursts
    }

    fn traffic(locality: Locality, phases: u32) -> Traffic {
        Traffic { locality, phases, hostile: None }
    }

    fn total(plan: &[Burst]) -> usize {
        plan.iter().map(|burst| burst.copies as usize).sum()
    }

    /// A rank of weight 1 is drawn, and as often as another one.
    #[test]
    fn ranks_come_by_their_weights() {
        let zipf = Zipf { ends: vec![1, 2, 4] };
        let mut random = Random::new(1, Purpose::Headers);
        let mut counts = [0; 3];
        (0..4000).for_each(|_| counts[zipf.draw(&mut random)] += 1);
        for (count, share) in counts.into_iter().zip([1000, 1000, 2000]) {
            assert!(i32::abs(count - share) < 150, "{counts:?}");
        }
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
            Locality::Flows { s: 1.0, rate: 100.0 },
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

    #[test]
    fn flows_are_as_measured() {
        let mut random = Random::new(5, Purpose::Headers);
        let plan = plan(traffic(Locality::Flows { s: 0.0, rate: 1000.0 }, 1), 50, 1_000_000, false, &mut random);
        let flows = plan.bursts.len() as f64;
        let share = |of: &dyn Fn(u32) -> bool| plan.bursts.iter().filter(|b| of(b.copies)).count() as f64 / flows;
        assert!((share(&|size| size <= 3) - 0.6).abs() < 0.01);
        assert!((share(&|size| size >= 10) - 0.2).abs() < 0.01);
        let long: usize = plan.bursts.iter().filter(|b| b.copies >= 10).map(|b| b.copies as usize).sum();
        assert!((long as f64 / 1e6 - 0.7).abs() < 0.05, "{long}");
        let (order, times) = plan.order(&mut random);
        let times = times.expect("flows have times");
        assert!(order.len() == 1_000_000 && times.is_sorted());
        let mut spans = vec![(f64::MAX, 0.0f64); plan.bursts.len()];
        for (&flow, &time) in order.iter().zip(&times) {
            let span = &mut spans[flow as usize];
            *span = (span.0.min(time), span.1.max(time));
        }
        let lasting: Vec<bool> = spans.iter().map(|span| span.1 - span.0 >= 4.999_999).collect();
        let count = lasting.iter().filter(|&&lasts| lasts).count() as f64;
        assert!((count / flows - 0.2).abs() < 0.01, "{}", count / flows);
        let traffic = plan.bursts.iter().zip(&lasting).filter(|(_, lasts)| **lasts).map(|(b, _)| b.copies as usize);
        let traffic = traffic.sum::<usize>() as f64 / 1e6;
        assert!((traffic - 0.6).abs() < 0.06, "{traffic}");
        // Flows are mixed: two consecutive packets are seldom of one flow.
        assert!(order.windows(2).filter(|pair| pair[0] == pair[1]).count() < 100_000);
    }

    #[test]
    fn in_each_phase_other_things_are_popular() {
        for locality in [Locality::Zipf { s: 1.5 }, Locality::Flows { s: 1.5, rate: 1e6 }] {
            let mut random = Random::new(9, Purpose::Headers);
            let plan = plan(traffic(locality, 4), 1000, 40_003, true, &mut random);
            let (order, _) = plan.order(&mut random);
            assert_eq!(order.len(), 40_003);
            assert!(
                order.is_sorted_by_key(|&burst| plan.bursts[burst as usize].phase)
                    || locality != Locality::Zipf { s: 1.5 }
            );
            let most = |phase| {
                let mut counts = vec![0u32; 1000];
                let own = plan.bursts.iter().filter(|burst| burst.phase == phase);
                own.for_each(|burst| counts[burst.of as usize] += 1);
                (0..1000).max_by_key(|&of| counts[of])
            };
            let favourites: std::collections::BTreeSet<_> = (0..4).map(most).collect();
            assert_eq!(favourites.len(), 4);
            assert!((0..1000).all(|of| plan.bursts.iter().any(|burst| burst.of == of)));
        }
    }

    /// The popularity that is drawn has the entropy that was asked for.
    #[test]
    fn entropy_is_what_was_asked_for() {
        for bits in [0.5, 2.0, 5.345, 9.0, libm::log2(1000.0)] {
            let locality = Locality::Entropy { bits };
            assert_eq!(locality.check_pool(1000), Ok(()));
            let s = exponent_of(bits, 1000);
            assert!((entropy(s, 1000) - bits).abs() < 1e-6, "{bits}: {s}");
            let plan = bursts(locality, 1000, 400_000, false, &mut Random::new(6, Purpose::Headers));
            let mut counts = [0u32; 1000];
            plan.iter().for_each(|burst| counts[burst.of as usize] += 1);
            let shares = counts.iter().filter(|&&count| count > 0).map(|&count| f64::from(count) / 400_000.0);
            let found: f64 = shares.map(|share| -share * share.log2()).sum();
            assert!((found - bits).abs() < 0.02, "{bits}: {found}");
        }
        assert!(Locality::Entropy { bits: 10.0 }.check_pool(1000).is_err_and(|error| error.contains("9.966 at most")));
        assert!(Locality::Entropy { bits: f64::NAN }.check().is_err() && entropy(0.0, 8) == 3.0);
    }

    #[test]
    fn hostile_headers_come_in_bursts_of_the_rarest_rules() {
        for locality in [Locality::Zipf { s: 1.0 }, Locality::Flows { s: 1.0, rate: 1e6 }] {
            let hostile = Some(Hostile { share: 0.2, burst: 50 });
            let mut random = Random::new(8, Purpose::Headers);
            let plan = plan(Traffic { locality, phases: 2, hostile }, 2000, 20_000, false, &mut random);
            assert_eq!(plan.bursts.iter().map(|burst| burst.copies).sum::<u32>(), 20_000);
            let (order, _) = plan.order(&mut random);
            for phase in 0..2 {
                let own = || plan.bursts.iter().enumerate().filter(|(_, burst)| burst.phase == phase);
                let leading: Vec<usize> = own()
                    .filter(|(at, burst)| !burst.follows && plan.bursts.get(at + 1).is_some_and(|next| next.follows))
                    .map(|(at, _)| at)
                    .collect();
                // A fifth of 10,000 headers is 40 bursts.
                assert_eq!(leading.len(), 40);
                let mut others = vec![0; 2000];
                own().filter(|(at, _)| *at >= leading[39] + 50).for_each(|(_, burst)| others[burst.of as usize] += 1);
                let rare: u32 = leading.iter().map(|&at| others[plan.bursts[at].of as usize]).sum();
                assert!(rare < 200, "{rare}");
                for &first in &leading {
                    let place = order.iter().position(|&at| at as usize == first).expect("it is there");
                    let run: Vec<u32> = (first as u32..first as u32 + 50).collect();
                    assert_eq!(order[place..place + 50], run, "a burst stays together");
                    let rules: std::collections::BTreeSet<u32> =
                        run.iter().map(|&at| plan.bursts[at as usize].of).collect();
                    assert_eq!(rules.len(), 50);
                }
            }
        }
    }
}
