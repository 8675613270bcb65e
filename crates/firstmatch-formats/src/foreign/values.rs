//! Sets of values of one field, with *absent* as one more value.

use firstmatch_core::rule::Test;
use firstmatch_core::schema::{Family, Source};

use crate::native::INET;

/// Largest number of ranges that a value under a mask may become.
const MAX_RANGES: u32 = 16;

/// Field of IP networks, as an index into [`INET`].
pub(crate) type FieldIndex = usize;

pub(crate) const SRC: FieldIndex = 0;
pub(crate) const DST: FieldIndex = 1;
pub(crate) const SPORT: FieldIndex = 2;
pub(crate) const DPORT: FieldIndex = 3;
pub(crate) const PROTO: FieldIndex = 4;
pub(crate) const ICMP_TYPE: FieldIndex = 5;
pub(crate) const ICMP_CODE: FieldIndex = 6;
pub(crate) const TCP_FLAGS: FieldIndex = 7;
pub(crate) const EXT_HEADERS: FieldIndex = 8;
pub(crate) const ROUTING_TYPE: FieldIndex = 9;
pub(crate) const FRAGMENT: FieldIndex = 11;
pub(crate) const DSCP: FieldIndex = 12;
pub(crate) const TTL: FieldIndex = 13;
pub(crate) const LENGTH: FieldIndex = 14;

/// Largest value of a field.
pub(crate) fn max_of(field: FieldIndex, family: Family) -> u128 {
    u128::MAX >> (128 - INET[field].width(family))
}

/// Whether IP packets may lack a field.
///
/// Every IP packet shows whether it is a fragment, and has a DSCP, a TTL and a length.
fn may_be_absent(field: FieldIndex) -> bool {
    INET[field].is_optional() && !matches!(field, FRAGMENT | DSCP | TTL | LENGTH)
}

/// Set of values of a field: disjoint ranges in order, none of which touches the next, and whether absent is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    ranges: Vec<(u128, u128)>,
    absent: bool,
}

impl Values {
    /// Builds the set of the values in some ranges, both ends included.
    pub(crate) fn of(ranges: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut all: Vec<(u128, u128)> = ranges.into_iter().collect();
        all.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (lo, hi) in all {
            match ranges.last_mut() {
                Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
                _ => ranges.push((lo, hi)),
            }
        }
        Self { ranges, absent: false }
    }

    /// Builds the set of one value.
    pub(crate) fn one(value: u128) -> Self {
        Self::of([(value, value)])
    }

    /// Builds the set of all values of a field, without absent.
    pub(crate) fn present(field: FieldIndex, family: Family) -> Self {
        Self::of([(0, max_of(field, family))])
    }

    /// Builds the set of the values `v` with `v & mask == value`; `None` if it has too many ranges.
    pub(crate) fn masked(value: u128, mask: u128, max: u128) -> Option<Self> {
        let free = !mask & max;
        let low = u128::MAX.checked_shr(128 - free.trailing_ones()).unwrap_or(0);
        let high = free & !low;
        if high.count_ones() > MAX_RANGES {
            return None;
        }
        let mut ranges = Vec::with_capacity(1 << high.count_ones());
        let mut part = 0;
        loop {
            ranges.push((value | part, value | part | low));
            // The next number whose ones are among those of `high`.
            part = (part | !high).wrapping_add(1) & high;
            if part == 0 {
                return Some(Self::of(ranges));
            }
        }
    }

    /// Returns the ranges of the values, absent apart.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u128, u128)> + use<'_> {
        self.ranges.iter().copied()
    }

    /// Whether a value is in the set; `None` is absent.
    #[cfg(test)]
    pub(crate) fn holds(&self, value: Option<u128>) -> bool {
        value.map_or(self.absent, |value| self.ranges.iter().any(|&(lo, hi)| lo <= value && value <= hi))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.absent
    }

    /// Returns the values that are in both sets.
    pub(crate) fn meet(&self, other: &Self) -> Self {
        let (mut ranges, mut at, mut with) = (Vec::new(), 0, 0);
        while let (Some(&(a, b)), Some(&(c, d))) = (self.ranges.get(at), other.ranges.get(with)) {
            if a.max(c) <= b.min(d) {
                ranges.push((a.max(c), b.min(d)));
            }
            if b < d { at += 1 } else { with += 1 }
        }
        Self { ranges, absent: self.absent && other.absent }
    }

    /// Returns the values of the field that are not in the set, without absent: what a negated condition holds for.
    pub(crate) fn negated(&self, field: FieldIndex, family: Family) -> Self {
        let (mut ranges, mut next) = (Vec::new(), Some(0));
        for &(lo, hi) in &self.ranges {
            if let Some(first) = next.filter(|&first| first < lo) {
                ranges.push((first, lo - 1));
            }
            next = hi.checked_add(1);
        }
        let max = max_of(field, family);
        ranges.extend(next.filter(|&first| first <= max).map(|first| (first, max)));
        Self { ranges, absent: false }
    }

    /// Returns everything that is not in the set, absent included.
    pub(crate) fn complement(&self, field: FieldIndex, family: Family) -> Self {
        Self { absent: !self.absent && may_be_absent(field), ..self.negated(field, family) }
    }

    /// Returns the tests of a condition for the set, and whether it is negated; `None` if everything is in the set.
    pub(crate) fn tests(&self, field: FieldIndex, family: Family) -> Option<(bool, Vec<Test>)> {
        let others = self.negated(field, family);
        let tests = |values: &Self| {
            values.as_mask(max_of(field, family)).map_or_else(|| values.each(field, family), |mask| vec![mask])
        };
        if others.ranges.is_empty() {
            let is_all = self.absent || !may_be_absent(field);
            return (!is_all).then(|| (false, vec![Test::Prefix { value: 0, len: 0 }]));
        }
        let (own, other) = (tests(self), tests(&others));
        if !self.absent && other.len() < own.len() {
            return Some((true, other));
        }
        Some((false, own.into_iter().chain(self.absent.then_some(Test::Absent)).collect()))
    }

    /// Returns a test for each range.
    fn each(&self, field: FieldIndex, family: Family) -> Vec<Test> {
        let is_address = matches!(INET[field], Source::Src | Source::Dst);
        let test = |&(lo, hi): &(u128, u128)| {
            let free = lo ^ hi;
            let is_prefix = free & free.wrapping_add(1) == 0 && lo & free == 0;
            match is_prefix && is_address {
                _ if lo == hi => Test::Value(lo),
                true => Test::Prefix { value: lo, len: INET[field].width(family) - free.count_ones() },
                false => Test::Range { lo, hi },
            }
        };
        self.ranges.iter().map(test).collect()
    }

    /// Returns the one test under a mask that several ranges are, if they are one.
    fn as_mask(&self, max: u128) -> Option<Test> {
        let &[(value, _), _, ..] = &self.ranges[..] else { return None };
        let differing = |bits: u128| u128::MAX.checked_shr(bits.leading_zeros()).unwrap_or(0);
        let free = self.ranges.iter().fold(0, |free, &(lo, hi)| free | lo ^ value | differing(lo ^ hi));
        // All values of the set are equal outside the free bits, so that it is the mask if it has as many values.
        let count: u128 = self.ranges.iter().map(|(lo, hi)| hi - lo + 1).sum();
        let is_mask = 1u128.checked_shl(free.count_ones()) == Some(count);
        is_mask.then_some(Test::Mask { value: value & !free, mask: max & !free })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Family = Family::Ipv4;

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(Values::of([(5, 7), (0, 1), (2, 3), (7, 9)]).ranges, [(0, 3), (5, 9)]);
        assert_eq!(Values::of([(0, u128::MAX), (3, 4)]).ranges, [(0, u128::MAX)]);
        assert!(Values::default().is_empty());
    }

    /// Sets of a field of 8 bits against one bit a value.
    #[test]
    fn operations_are_those_of_sets_of_values() {
        let holds = |values: &Values, value: u128| values.ranges.iter().any(|&(lo, hi)| lo <= value && value <= hi);
        let sets: Vec<Values> =
            [vec![], vec![(0, 255)], vec![(3, 9), (20, 20)], vec![(9, 30), (255, 255)], vec![(0, 0)]]
                .into_iter()
                .flat_map(|ranges| [false, true].map(|absent| Values { absent, ..Values::of(ranges.clone()) }))
                .collect();
        for one in &sets {
            let outside = one.complement(TCP_FLAGS, V4);
            assert_eq!(outside.complement(TCP_FLAGS, V4), *one);
            for value in 0..256 {
                assert_ne!(holds(one, value), holds(&outside, value), "{one:?} {value}");
            }
            for other in &sets {
                let both = one.meet(other);
                assert_eq!(both.absent, one.absent && other.absent);
                assert!((0..256).all(|v| holds(&both, v) == (holds(one, v) && holds(other, v))), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn masks_are_the_values_that_pass_and_come_back_as_masks() {
        for mask in 0..=255 {
            for value in [0, 0x5A, 0xFF].map(|bits| bits & mask) {
                let values = Values::masked(value, mask, 255).expect("few ranges");
                let passes: Vec<u128> = (0..=255).filter(|v| v & mask == value).collect();
                let held: Vec<u128> = values.ranges.iter().flat_map(|&(lo, hi)| lo..=hi).collect();
                assert_eq!(held, passes);
                let Some((negated, tests)) = values.tests(TCP_FLAGS, V4) else { panic!("absent is outside") };
                assert_eq!(tests.len(), 1, "{value} {mask}: {tests:?}");
                assert!((0..=255).all(|v| (tests[0].passes(v, 8) != negated) == (v & mask == value)), "{tests:?}");
            }
        }
        assert_eq!(Values::masked(0, 1, max_of(SRC, V4)), None);
        let address = Values::masked(0x0A00_0007, 0xFF00_00FF, max_of(SRC, V4)).expect("65,536 ranges");
        let mask = Test::Mask { value: 0x0A00_0007, mask: 0xFF00_00FF };
        assert_eq!(address.tests(SRC, V4), Some((false, vec![mask])));
    }

    #[test]
    fn conditions_take_the_shorter_form() {
        let tests = |values: &Values, field| values.tests(field, V4);
        let port = Values::one(443);
        assert_eq!(tests(&port, DPORT), Some((false, vec![Test::Value(443)])));
        assert_eq!(tests(&port.negated(DPORT, V4), DPORT), Some((true, vec![Test::Value(443)])));
        let outside = vec![Test::Range { lo: 0, hi: 442 }, Test::Range { lo: 444, hi: 65535 }, Test::Absent];
        assert_eq!(tests(&port.complement(DPORT, V4), DPORT), Some((false, outside)));
        let any = vec![Test::Prefix { value: 0, len: 0 }];
        assert_eq!(tests(&Values::present(DPORT, V4), DPORT), Some((false, any)));
        assert_eq!(tests(&Values::present(PROTO, V4), PROTO), None);
        assert_eq!(tests(&Values { absent: true, ..Values::present(DPORT, V4) }, DPORT), None);
        let ten = Values::of([(0x0A00_0000, 0x0AFF_FFFF)]);
        assert_eq!(tests(&ten, SRC), Some((false, vec![Test::Prefix { value: 0x0A00_0000, len: 8 }])));
    }
}
