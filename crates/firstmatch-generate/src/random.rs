//! Random numbers that are the same on every machine and in every version of this crate.
//!
//! The bits come from PCG XSL RR 128/64 (O'Neill 2014; `rand_pcg::Pcg64`). Its state is the seed passed through
//! SplitMix64's finaliser. Its stream is a constant of the purpose, so that draws for one purpose change nothing for
//! another.
//!
//! Everything above the bits is integer arithmetic, additions, products and divisions of IEEE doubles, or functions of
//! `libm`, which consist of those. No logarithm of the platform is ever called, because platforms differ in the last
//! bits.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// Purpose of random numbers; each has a stream of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Rules = 1,
    Copies = 2,
    Actions = 3,
    Witnesses = 4,
    Headers = 5,
    Order = 6,
    Unmatched = 7,
    Sources = 8,
    Destinations = 9,
    Fields = 10,
}

/// Stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg64);

impl Random {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        let high = u128::from(mix(seed));
        Self(Pcg64::new(high << 64 | u128::from(mix(!seed)), purpose as u128))
    }

    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `n`, each equally likely (Lemire 2019); 0 if `n` is 0.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        loop {
            let wide = u128::from(self.bits()) * u128::from(n);
            // The low word is below `2^64 mod n` exactly where the draw would favour small numbers.
            if wide as u64 >= n || wide as u64 >= n.wrapping_neg() % n.max(1) {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Returns an index of a slice of length `len`.
    #[inline]
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a number from `lo` to `hi`, both included.
    #[inline]
    pub(crate) fn between(&mut self, lo: u32, hi: u32) -> u32 {
        lo + self.below(u64::from(hi - lo) + 1) as u32
    }

    /// Returns a number in `[0, 1)`, a multiple of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Shuffles `items`, with every order equally likely (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.index(end + 1));
        }
    }
}

/// SplitMix64's finaliser: a bijection whose every output bit depends on every input bit.
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// Mixes two words into one.
#[inline]
pub(crate) fn mix2(a: u64, b: u64) -> u64 {
    mix(mix(a).wrapping_add(0x9E37_79B9_7F4A_7C15) ^ b)
}

/// Items drawn by weight, with weights in units of 2^-48 of their sum.
#[derive(Clone, Debug)]
pub(crate) struct Weighted<T> {
    items: Vec<T>,
    /// For each item, the sum of the weights up to and including its own; strictly ascending.
    ends: Vec<u64>,
}

impl<T: Copy> Weighted<T> {
    /// Builds the table; items without weight are left out.
    ///
    /// Weights are finite and not negative, because configurations are validated before.
    pub(crate) fn new(items: impl IntoIterator<Item = (T, f64)>) -> Self {
        let items: Vec<(T, f64)> = items.into_iter().filter(|(_, weight)| *weight > 0.0).collect();
        let sum: f64 = items.iter().map(|(_, weight)| weight).sum();
        let mut end = 0;
        let ends = items.iter().map(|(_, weight)| {
            end += ((weight / sum * (1u64 << 48) as f64) as u64).max(1);
            end
        });
        Self { ends: ends.collect(), items: items.into_iter().map(|(item, _)| item).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// Draws an item; `None` if there is none.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> Option<T> {
        let at = random.below(*self.ends.last()?);
        self.items.get(self.ends.partition_point(|&end| end <= at)).copied()
    }

    /// Draws an item with a bias to the first items (up to 1) or to the last (down to -1).
    ///
    /// A uniform draw `u` counts as `u · (bias · u − bias + 1)` (Taylor and Turner 2007, III-E). For example, with bias
    /// 1 the first of two equal items is drawn in 71 % of the cases, because u² < 1/2 for u < 0.71.
    pub(crate) fn draw_biased(&self, bias: f64, random: &mut Random) -> Option<T> {
        if bias == 0.0 {
            return self.draw(random);
        }
        let u = random.unit();
        let end = *self.ends.last()?;
        let at = ((u * (bias * u - bias + 1.0) * end as f64) as u64).min(end - 1);
        self.items.get(self.ends.partition_point(|&end| end <= at)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_never_change() {
        let mut random = Random::new(1, Purpose::Rules);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        let mut again = Random::new(1, Purpose::Rules);
        assert_eq!(first, (0..3).map(|_| again.bits()).collect::<Vec<_>>());
        // The numbers are from another implementation of PCG and SplitMix64, written from their papers.
        assert_eq!(first, [13082398249650251981, 16362431021209908341, 9591675941408060786]);
    }

    #[test]
    fn draws_stay_in_bounds_and_reach_them() {
        let mut random = Random::new(7, Purpose::Headers);
        assert_eq!(random.below(0), 0);
        for n in [1, 2, 3, 10] {
            let mut seen = vec![0u32; n as usize];
            (0..3000).for_each(|_| seen[random.below(n) as usize] += 1);
            let fair = 3000.0 / n as f64;
            assert!(seen.iter().all(|&count| (f64::from(count) - fair).abs() < 5.0 * fair.sqrt()), "{seen:?}");
        }
        let mut ends: Vec<u32> = (0..200).map(|_| random.between(5, 8)).collect();
        ends.sort_unstable();
        assert_eq!((ends[0], ends[199]), (5, 8));
        assert_eq!(random.between(u32::MIN, u32::MIN), 0);
    }

    /// No number is likelier than another where the numbers do not divide the range of 64 bits.
    ///
    /// Without rejection every third number below 3 * 2^62 would be twice as likely as the others.
    #[test]
    fn large_bounds_favour_no_number() {
        let mut random = Random::new(7, Purpose::Headers);
        let mut seen = [0u32; 3];
        (0..3000).for_each(|_| seen[(random.below(3 << 62) % 3) as usize] += 1);
        assert!(seen.iter().all(|count| (900..1100).contains(count)), "{seen:?}");
    }

    #[test]
    fn weights_are_kept() {
        let weighted = Weighted::new([('a', 1.0), ('b', 0.0), ('c', 3.0)]);
        let mut random = Random::new(5, Purpose::Rules);
        let drawn: Vec<char> = (0..4000).filter_map(|_| weighted.draw(&mut random)).collect();
        let a = drawn.iter().filter(|&&c| c == 'a').count();
        assert!(drawn.len() == 4000 && !drawn.contains(&'b') && (850..1150).contains(&a), "{a}");
        assert!(Weighted::<char>::new([]).draw(&mut random).is_none());
    }

    #[test]
    fn a_bias_favours_one_end() {
        let weighted = Weighted::new([('a', 1.0), ('b', 1.0)]);
        let mut random = Random::new(5, Purpose::Rules);
        // An item of the first half is drawn if u (x u - x + 1) < 1/2: for x = 1 u² < 1/2, for x = -1 2u - u² < 1/2.
        for (bias, share) in [(1.0, 0.707), (0.0, 0.5), (-1.0, 0.293)] {
            let a = (0..4000).filter(|_| weighted.draw_biased(bias, &mut random) == Some('a')).count();
            assert!((a as f64 / 4000.0 - share).abs() < 0.03, "{bias}: {a}");
        }
    }
}
