//! Order of generated rules.
//!
//! Rules are ordered by a measure of what they match, the smallest first. The measure is the product of random
//! measures, one on the values of each field. A rule that holds another has the larger measure, whatever the measures
//! are.
//!
//! The parameter `disorder` says how random the measures are. With 0 they are uniform, and rules are sorted by how much
//! they match. With 1 most of the measure is where a few steps of the trees lead, so that some wider rules stand before
//! narrower ones (test `disorder_is_a_knob`).
//!
//! # Invariants
//! - **No rule stands behind one that holds it**, by construction and for any number of rules (test
//!   `no_rule_stands_behind_one_that_holds_it`).
//! - All measures are logarithms as integers, in units of 2^-32 bits, so their sums are exact. If a rule is strictly
//!   smaller in one field and no larger in the others, it is strictly smaller (tests
//!   `a_range_in_another_has_the_smaller_measure` and
//!   `an_ancestor_s_prefix_holds_the_node_s_and_has_the_larger_measure`).

use super::tree::spread;
use crate::profile::Flags;
use crate::random::mix2;

/// Random measures on ports, protocols and flags.
#[derive(Debug)]
pub(crate) struct Measures {
    disorder: u64,
    salt: u64,
    /// For source and destination ports, the measure of all ports below each port.
    ports: [Vec<u64>; 2],
}

impl Measures {
    /// Draws the measures; `disorder` is in units of 2^-16.
    pub(crate) fn new(seed: u64, disorder: u64) -> Self {
        let salt = mix2(seed, 0x006F_7264_6572);
        let ports = [0u64, 1].map(|which| {
            let mut sum = 0;
            let below = (0..=65536u64).map(|port| {
                let here = sum;
                sum += spread(mix2(salt ^ which, port), disorder).unsigned_abs();
                here
            });
            below.collect()
        });
        Self { disorder, salt, ports }
    }

    /// Returns `disorder`, in units of 2^-16, for the measures of trees.
    pub(crate) fn disorder(&self) -> u64 {
        self.disorder
    }

    /// Returns the measure of a range of source ports (`which` is 0) or destination ports (1).
    pub(crate) fn ports(&self, which: usize, (lo, hi): (u16, u16)) -> i64 {
        let below = &self.ports[which];
        let share = below[usize::from(hi) + 1] - below[usize::from(lo)];
        // A port has at least a sixth of the mean, so nested ranges differ by at least 2^-19 of the whole. That is
        // thousands of units, while rounding to a double moves a sum by 2^-53 of itself.
        bits(share) - bits(below[65536])
    }

    /// Returns the measure of a protocol; the wildcard has all.
    pub(crate) fn protocol(&self, number: Option<u8>) -> i64 {
        number.map_or(0, |number| -8 * spread(mix2(self.salt ^ 2, number.into()), self.disorder))
    }

    /// Returns the measure of flags under a mask, to which each compared bit contributes.
    pub(crate) fn flags(&self, flags: Flags) -> i64 {
        let bits = (0..16u64).filter(|bit| flags.mask >> bit & 1 == 1);
        -bits
            .map(|bit| spread(mix2(self.salt ^ 3, bit << 1 | u64::from(flags.value >> bit & 1)), self.disorder))
            .sum::<i64>()
    }
}

/// Returns the logarithm to base 2, in units of 2^-32.
fn bits(of: u64) -> i64 {
    (libm::log2(of as f64) * (1u64 << 32) as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each compared bit makes the measure of flags smaller, as much as it does alone.
    #[test]
    fn every_compared_flag_counts() {
        for disorder in [0, 1 << 15, 1 << 16] {
            let measures = Measures::new(3, disorder);
            let of = |value, mask| measures.flags(Flags { value, mask });
            for value in [0, 0x0200, 0xFFFF] {
                assert!((0..16).all(|bit| of(value & 1 << bit, 1 << bit) < 0));
                for mask in [0, 1, 0x0200, 0x1200, 0x8001, 0xFFFF] {
                    let bits = (0..16).map(|bit| 1 << bit & mask).filter(|&bit| bit != 0);
                    let sum: i64 = bits.map(|bit| of(value & bit, bit)).sum();
                    assert_eq!(of(value & mask, mask), sum, "{value:#06x}/{mask:#06x}");
                }
            }
        }
    }

    #[test]
    fn a_range_in_another_has_the_smaller_measure() {
        for disorder in [0, 1 << 15, 1 << 16] {
            let measures = Measures::new(3, disorder);
            for which in [0, 1] {
                assert_eq!(measures.ports(which, (0, u16::MAX)), 0);
                for port in 1..u16::MAX {
                    assert!(measures.ports(which, (port, u16::MAX)) < measures.ports(which, (port - 1, u16::MAX)));
                    assert!(measures.ports(which, (0, port)) < measures.ports(which, (0, port + 1)));
                    assert!(measures.ports(which, (port, port)) < measures.ports(which, (port, port + 1)));
                }
            }
            assert_eq!(measures.protocol(None), 0);
            assert!((0..=255).all(|number| measures.protocol(Some(number)) < 0));
        }
    }
}
