//! Wide regions: those that decide about many keys which lie in regions behind them.

use std::cmp::Reverse;

use crate::budget::Visits;
use crate::rule::Regions;

/// Keys that regions are held against.
const KEYS: usize = 32;
/// A region is wide that holds at least this many of the keys drawn from regions behind it.
const HELD: usize = KEYS / 8;
/// The most regions that are wide.
pub(crate) const MOST: usize = 8;

/// A region that holds many keys of regions behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wide {
    /// The region's index.
    pub(crate) region: usize,
    /// Whether it holds at least half of the keys that were drawn.
    pub(crate) is_most: bool,
}

/// Returns the wide regions in order. Compares each region with 32 keys, which counts as one visit: most differ in the
/// first lane. Half of the keys take a lane that their region leaves open from another region, because packets have what
/// rules ask for: `permit tcp` is wide above rules for any protocol.
pub(crate) fn wide(regions: &Regions, visits: &Visits) -> Vec<Wide> {
    visits.add(regions.len());
    let mut random = Random(0);
    let mut keys: Vec<(usize, Vec<u32>)> = Vec::with_capacity(KEYS);
    for _ in 0..KEYS.min(regions.len()) {
        let at = random.below(regions.len());
        let mut key = vec![0; regions.lanes()];
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

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers every time.
pub(crate) struct Random(pub(crate) u64);

/// 2⁶⁴ by the golden ratio: its multiples are spread over all numbers, however many there are.
pub(crate) const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Returns a number below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        share(self.next(), count)
    }

    /// Returns a number from `lo` to `hi`.
    pub(crate) fn between(&mut self, lo: u32, hi: u32) -> u32 {
        lo + (((self.next() >> 32) * (u64::from(hi - lo) + 1)) >> 32) as u32
    }

    /// Moves a key of a region into another in each lane where the other lies in the region.
    fn narrow(&mut self, regions: &Regions, index: usize, other: usize, key: &mut [u32]) {
        let [region, other] = [index, other].map(|index| regions.get(index));
        if region.ternary.is_some() || other.ternary.is_some() {
            return;
        }
        for (lane, word) in key.iter_mut().enumerate().take(regions.lanes()) {
            let (lo, hi) = (other.lo[lane], other.hi[lane]);
            if region.lo[lane] <= lo && hi <= region.hi[lane] {
                *word = self.between(lo, hi);
            }
        }
    }

    /// Fills a key with a point anywhere in a region, ternary lanes included.
    pub(crate) fn inside(&mut self, regions: &Regions, index: usize, key: &mut [u32]) {
        let region = regions.get(index);
        for (lane, word) in key.iter_mut().enumerate().take(regions.lanes()) {
            let any = self.between(region.lo[lane], region.hi[lane]);
            *word = region.ternary.map_or(any, |(value, mask)| any & !mask[lane] | value[lane]);
        }
    }
}

/// Returns the number below `count` that is as far up as `number` is among all of 64 bits.
pub(crate) fn share(number: u64, count: usize) -> usize {
    ((u128::from(number) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Test;
    use crate::schema::Schema;
    use crate::test_rules::set;

    /// Rules for any protocol lie behind a rule for one of them, because packets have the protocols of rules.
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
