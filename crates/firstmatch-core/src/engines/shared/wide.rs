//! Wide regions: regions that hold many keys of later regions.

use std::cmp::Reverse;

use crate::engine::budget::Visits;
use crate::rule::Regions;

/// Number of keys that regions are compared with.
const KEYS: usize = 32;
/// Minimum number of keys, drawn from later regions, that a wide region holds.
const HELD: usize = KEYS / 8;
/// Largest number of wide regions.
pub(crate) const MOST: usize = 8;

/// Region that holds many keys of later regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wide {
    /// Index of the region.
    pub(crate) region: usize,
    /// Whether the region holds at least 16 of the keys, half of `KEYS`.
    pub(crate) is_most: bool,
}

/// Returns the wide regions in order.
///
/// Compares each region with 32 keys, which counts as one visit, because most comparisons end at the first word. Half
/// of the keys take words that their own region leaves open from another region, because packets have the values that
/// rules ask for. For example, `permit udp` is wide above rules for UDP and rules for any protocol, because keys of the
/// latter often get UDP too.
pub(crate) fn wide(regions: &Regions, visits: &Visits) -> Vec<Wide> {
    visits.add(regions.len());
    let mut random = Random(0);
    let mut keys: Vec<(usize, Vec<u32>)> = Vec::with_capacity(KEYS);
    for _ in 0..KEYS.min(regions.len()) {
        let at = random.below(regions.len());
        let mut key = vec![0; regions.key_words()];
        random.inside(regions, at, &mut key);
        if random.next() & 1 == 1 {
            let other = random.below(regions.len());
            random.narrow(regions, at, other, &mut key);
        }
        keys.push((at, key));
    }
    let held = |index: usize| {
        let region = regions.get(index);
        keys.iter().filter(|(at, key)| index < *at && region.contains(key)).count()
    };
    let counted = (0..regions.len()).map(|index| (held(index), index));
    let mut most: Vec<(usize, usize)> = counted.filter(|&(held, _)| held >= HELD).collect();
    most.sort_by_key(|&(held, index)| (Reverse(held), index));
    most.truncate(MOST);
    most.sort_by_key(|&(_, index)| index);
    most.into_iter().map(|(held, region)| Wide { region, is_most: 2 * held >= KEYS }).collect()
}

/// Random number generator SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
///
/// The same seed gives the same numbers every time.
pub(crate) struct Random(pub(crate) u64);

/// 2⁶⁴ divided by the golden ratio.
///
/// Any number of its first multiples are spread evenly modulo 2⁶⁴.
pub(crate) const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Returns a random number below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        share(self.next(), count)
    }

    /// Returns a random number from `lo` to `hi`, both included.
    pub(crate) fn between(&mut self, lo: u32, hi: u32) -> u32 {
        lo + (((self.next() >> 32) * (u64::from(hi - lo) + 1)) >> 32) as u32
    }

    /// Moves `key`, a point of region `index`, into region `other` where that one is narrower.
    ///
    /// A word changes if its interval in `other` lies within its interval in the region.
    fn narrow(&mut self, regions: &Regions, index: usize, other: usize, key: &mut [u32]) {
        let [region, other] = [index, other].map(|index| regions.get(index));
        if region.ternary.is_some() || other.ternary.is_some() {
            return;
        }
        for (word, value) in key.iter_mut().enumerate().take(regions.key_words()) {
            let (lo, hi) = (other.lo[word], other.hi[word]);
            if region.lo[word] <= lo && hi <= region.hi[word] {
                *value = self.between(lo, hi);
            }
        }
    }

    /// Fills `key` with a random point of a region, ternary words included.
    pub(crate) fn inside(&mut self, regions: &Regions, index: usize, key: &mut [u32]) {
        let region = regions.get(index);
        for (word, value) in key.iter_mut().enumerate().take(regions.key_words()) {
            let any = self.between(region.lo[word], region.hi[word]);
            *value = region.ternary.map_or(any, |(under, mask)| any & !mask[word] | under[word]);
        }
    }
}

/// Maps `number`, from the range of 64 bits, in proportion to a number below `count`.
///
/// For example, 2⁶³ of a count of 10 gives 5.
pub(crate) fn share(number: u64, count: usize) -> usize {
    ((u128::from(number) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Region, Test};
    use crate::schema::Schema;
    use crate::test_rules::set;

    /// A key takes a word of another region that lies within its own, unless either region has values under masks.
    #[test]
    fn keys_take_words_of_narrower_regions() {
        let mut regions = Regions::new(1);
        regions.push(Region { lo: &[0], hi: &[255], ternary: None });
        regions.push(Region { lo: &[7], hi: &[7], ternary: None });
        regions.push(Region { lo: &[1], hi: &[255], ternary: Some((&[1], &[1])) });
        regions.push(Region { lo: &[8], hi: &[8], ternary: Some((&[8], &[8])) });
        regions.push(Region { lo: &[255], hi: &[255], ternary: None });
        regions.push(Region { lo: &[0], hi: &[0], ternary: None });
        for (index, other, expected) in
            [(0, 1, 7), (0, 4, 255), (0, 5, 0), (2, 1, 3), (0, 3, 3), (2, 3, 3), (1, 0, 3), (1, 4, 3), (1, 5, 3)]
        {
            let mut key = [3];
            Random(1).narrow(&regions, index, other, &mut key);
            assert_eq!(key, [expected], "region {index} and region {other}");
        }
    }

    /// A rule for a protocol is wide above rules for any protocol if other rules name that protocol.
    #[test]
    fn a_rule_for_a_protocol_of_others_is_wide() {
        let net = |at: u128| (0, Test::Prefix { value: at << 12, len: 20 });
        let of = |protocol: u128| (4, Test::Value(protocol));
        let rules = (0..1000).map(|at| if at % 2 == 0 { vec![net(at)] } else { vec![net(at), of(17)] });
        let all = set(&Schema::ipv4(), [vec![of(17)], vec![of(6)]].into_iter().chain(rules));
        let wide = wide(all.regions(), &Visits::default());
        assert_eq!(wide.iter().map(|wide| wide.region).collect::<Vec<_>>(), [0]);
    }
}
