//! Number of partitions that SAX-PAC makes of a rule set.
//!
//! In a partition no two rules share a packet, either on all fields or on two of them. The source is Kogan, Nikolenko,
//! Rottenstreich, Culhane and Eugster, "SAX-PAC (Scalable And eXpressive PAcket Classification)", SIGCOMM 2014.
//!
//! Partitions are chosen greedily, because the least number cannot be found in reasonable time. A partition takes, in
//! order, each remaining rule that shares no packet with the rules it has. That test is exact, by an index of boxes.
//! For example, the ranges 1–5, 3–9 and 7–8 give two partitions: 1–5 with 7–8, and 3–9. If only two fields count, every
//! pair is tried, and the pair that takes the most rules is chosen.

use firstmatch_core::rule::Lowered;
use rstar::primitives::Rectangle;
use rstar::{AABB, RTree};

/// Number of fields of the IPv4 5-tuple, one word each.
const FIELDS: usize = 5;
/// Closed box over `N` fields; 32-bit words and their comparisons are exact as doubles.
type Cuboid<const N: usize> = Rectangle<[f64; N]>;

/// Returns the number of partitions of rules of one region each, over the IPv4 5-tuple.
///
/// Rules of a partition are apart in two fields if `by_two` is set, otherwise in all fields together.
pub(super) fn partitions(rules: &Lowered, by_two: bool) -> usize {
    let mut left: Vec<usize> = (0..rules.regions().len()).collect();
    let mut count = 0;
    while !left.is_empty() {
        left = if by_two {
            let pairs = (0..FIELDS).flat_map(|a| (0..a).map(move |b| [a, b]));
            pairs.map(|pair| rest(rules, &left, pair)).min_by_key(Vec::len).unwrap_or_default()
        } else {
            rest(rules, &left, std::array::from_fn::<_, FIELDS, _>(|field| field))
        };
        count += 1;
    }
    count
}

/// Returns the rules that do not fit a partition separated by `fields`.
fn rest<const N: usize>(rules: &Lowered, left: &[usize], fields: [usize; N]) -> Vec<usize> {
    let mut partition: RTree<Cuboid<N>> = RTree::new();
    let mut left = left.to_vec();
    left.retain(|&index| {
        let region = rules.regions().get(index);
        let corner = |bounds: &[u32]| fields.map(|field| f64::from(bounds[field]));
        let (lo, hi) = (corner(region.lo), corner(region.hi));
        let shares = partition.locate_in_envelope_intersecting(AABB::from_corners(lo, hi)).next().is_some();
        if !shares {
            partition.insert(Rectangle::from_corners(lo, hi));
        }
        shares
    });
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstmatch_core::rule::{ExpansionLimits, lower};
    use firstmatch_generate::rules;

    /// Computes the same by comparing every rule with every other.
    fn slowly(rules: &Lowered, left: &[usize], fields: &[usize]) -> Vec<usize> {
        let mut taken: Vec<usize> = Vec::new();
        let mut left = left.to_vec();
        left.retain(|&index| {
            let region = rules.regions().get(index);
            let shares = taken.iter().any(|&other| {
                let other = rules.regions().get(other);
                fields.iter().all(|&f| region.lo[f] <= other.hi[f] && other.lo[f] <= region.hi[f])
            });
            if !shares {
                taken.push(index);
            }
            shares
        });
        left
    }

    #[test]
    fn the_index_finds_whatever_shares_a_packet() {
        for profile in ["acl1", "fw1", "ipc1"] {
            let profile = profile.parse().expect("a profile");
            let config = rules::Config { rules: 600, seed: 1, profile, ..rules::Config::default() };
            let set = rules::generate(&config).expect("rules");
            let rules = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
            let all: Vec<usize> = (0..rules.regions().len()).collect();
            let mut left = all.clone();
            let mut count = 0;
            while !left.is_empty() {
                let after = rest(&rules, &left, [0, 1, 2, 3, 4]);
                assert_eq!(after, slowly(&rules, &left, &[0, 1, 2, 3, 4]));
                (left, count) = (after, count + 1);
            }
            assert_eq!(rest(&rules, &all, [1, 0]), slowly(&rules, &all, &[0, 1]));
            assert_eq!(partitions(&rules, false), count);
            assert!(partitions(&rules, true) >= count);
        }
    }
}
