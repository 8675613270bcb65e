//! Addresses and a random measure of the nodes of a prefix tree, both hashes of the nodes.

use firstmatch_core::schema::Family;

use crate::random::{mix, mix2};

/// Returns the IPv6 prefix length, in bits, for an IPv4 `length` of 0 to 32; above, as 32.
///
/// It grows strictly, so prefixes nest as in IPv4. Its anchors are lengths that are routed and assigned. For example,
/// /16 becomes a provider's /32, /24 (the longest routed) a site's /48, /28 a network's /64, and /32 a host's /128.
pub fn stretch(length: u8) -> u8 {
    STRETCH[usize::from(length.min(32))]
}

const STRETCH: [u8; 33] = [
    0, 4, 6, 8, 10, 12, 14, 16, 20, 22, 24, 26, 28, 29, 30, 31, 32, 34, 36, 38, 40, 42, 44, 46, 48, 52, 56, 60, 64, 80,
    96, 112, 128,
];

/// Level whose nodes are networks of hosts: /28, in IPv6 /64.
const NETWORK: u8 = 28;

/// Node of the tree: its path from the top bit down, and its length.
///
/// Bits below the path are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) way: u32,
    pub(crate) steps: u8,
}

impl Node {
    pub(crate) const ROOT: Self = Self { way: 0, steps: 0 };

    /// Returns the ancestor after the first `steps` steps, which must not exceed the node's.
    pub(crate) fn ancestor(self, steps: u8) -> Self {
        let kept = u32::MAX.checked_shl(32 - u32::from(steps)).unwrap_or(0);
        Self { way: self.way & kept, steps }
    }

    /// Returns whether the node lies in `other` or is equal to it.
    #[cfg(test)]
    pub(crate) fn is_in(self, other: Self) -> bool {
        other.steps <= self.steps && self.ancestor(other.steps) == other
    }

    /// Returns a number that no other node has.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.way) << 8 | u64::from(self.steps)
    }

    pub(crate) fn child(self, side: bool) -> Self {
        Self { way: self.way | u32::from(side) << (31 - self.steps), steps: self.steps + 1 }
    }

    /// Returns the side taken at `step`, counted from 0.
    pub(crate) fn side(self, step: u8) -> bool {
        self.way >> (31 - step) & 1 == 1
    }
}

/// Address plan of one family.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    family: Family,
    salt: u64,
}

impl Plan {
    pub(crate) fn new(family: Family, salt: u64) -> Self {
        Self { family, salt: mix2(salt, family as u64) }
    }

    /// Returns the logarithm of a node's share of traffic, in units of 2^-32 bits, at most 0.
    ///
    /// It is a random measure on sources (`side` 0) or destinations (1), fixed by the seed. A node's measure is
    /// strictly above that of every node below it.
    ///
    /// With `disorder` 0 (in units of 2^-16, up to 2^16) each step takes one bit. With more, each takes a random part:
    /// some many bits, most few.
    pub(crate) fn measure(&self, side: usize, node: Node, disorder: u64) -> i64 {
        let salt = MEASURE ^ side as u64;
        let taken = (1..=node.steps).map(|steps| spread(self.hash(node.ancestor(steps)) ^ salt, disorder));
        -taken.sum::<i64>()
    }

    /// Returns the address of a node, in the low bits of the family's width, and its length.
    pub(crate) fn address(&self, node: Node) -> (u128, u32) {
        match self.family {
            Family::Ipv4 => (node.way.into(), node.steps.into()),
            Family::Ipv6 => (self.stretched(node), stretch(node.steps).into()),
        }
    }

    /// Returns the IPv6 address of a node.
    ///
    /// A step is several bits: the last is the step's side, the others are derived from the node. The first step stays
    /// in 2000::/3. The hosts of half of the networks are numbered from 0, those of the others at random.
    fn stretched(&self, node: Node) -> u128 {
        let mut address = 0u128;
        let mut numbered = false;
        for steps in 0..node.steps {
            let width = u32::from(stretch(steps + 1) - stretch(steps));
            let hash = self.hash(node.ancestor(steps)) ^ FILLER;
            if steps == NETWORK {
                numbered = mix(hash) & 1 == 0;
            }
            let filler = match steps {
                0 => 0b001,
                _ if numbered => 0,
                _ => u128::from(mix(hash) >> 8) & ((1 << (width - 1)) - 1),
            };
            let side = u128::from(node.way >> (31 - steps) & 1);
            address = address << width | filler << 1 | side;
        }
        address.checked_shl(128 - u32::from(stretch(node.steps))).unwrap_or(0)
    }

    #[inline]
    fn hash(&self, node: Node) -> u64 {
        mix(self.salt.wrapping_add(node.number().wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Returns the side that keeps IPv4 addresses out of 0/8, 127/8 and 224/3, if a node has one.
    pub(crate) fn forced(&self, node: Node) -> Option<bool> {
        match (self.family, node.steps, node.way) {
            (Family::Ipv4, 2, 0xC000_0000) | (Family::Ipv4, 7, 0x7E00_0000) => Some(false),
            (Family::Ipv4, 7, 0) => Some(true),
            _ => None,
        }
    }
}

const MEASURE: u64 = 0x6D65_6173_7572_6500;
const FILLER: u64 = 0x6669_6C6C_6572_0000;

/// Returns a positive random number with mean 2^32.
///
/// It is a constant plus `disorder` parts (of 2^16) of a heavy-tailed number: at least a sixth of the mean, at most 171
/// times as much.
pub(crate) fn spread(hash: u64, disorder: u64) -> i64 {
    let hash = mix(hash);
    // 2^k has probability 2^-(k+1) up to k = 9, and 2^10 the rest: the mean is 6, the standard deviation 39.
    let heavy = 1u64 << hash.trailing_zeros().min(10);
    let random = (heavy << 32) / 6;
    ((((1 << 16) - disorder) << 16) + (random >> 16) * disorder).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    fn node(random: &mut Random, plan: &Plan) -> Node {
        (0..32).fold(Node::ROOT, |node, _| node.child(plan.forced(node).unwrap_or_else(|| random.coin())))
    }

    #[test]
    fn lengths_grow_strictly() {
        assert!((0..32).all(|length| stretch(length) < stretch(length + 1)));
        assert_eq!((stretch(0), stretch(32), stretch(255)), (0, 128, 128));
    }

    #[test]
    fn an_ancestor_s_prefix_holds_the_node_s_and_has_the_larger_measure() {
        let mut random = Random::new(1, Purpose::Rules);
        for plan in [Family::Ipv4, Family::Ipv6].map(|family| Plan::new(family, 9)) {
            let width = plan.family.address_bits();
            for _ in 0..200 {
                let node = node(&mut random, &plan);
                for steps in 0..32 {
                    let (below, above) = (node.ancestor(steps + 1), node.ancestor(steps));
                    assert!(below.is_in(above) && !above.is_in(below));
                    assert_eq!(above.child(node.side(steps)), below);
                    let ((address, _), (prefix, len)) = (plan.address(below), plan.address(above));
                    let shift = width - len;
                    let cut = |a: u128| a.checked_shr(shift).unwrap_or(0);
                    assert_eq!(cut(address), cut(prefix), "{below:?} in {above:?}");
                    assert_eq!(prefix & !(u128::MAX.checked_shl(shift).unwrap_or(0)), 0);
                    for disorder in [0, 1 << 15, 1 << 16] {
                        assert!((0..2).all(|s| plan.measure(s, below, disorder) < plan.measure(s, above, disorder)));
                    }
                }
            }
        }
    }

    #[test]
    fn addresses_are_those_that_hosts_have() {
        let mut random = Random::new(2, Purpose::Rules);
        let [four, six] = [Family::Ipv4, Family::Ipv6].map(|family| Plan::new(family, 4));
        for _ in 0..20_000 {
            let (address, _) = four.address(node(&mut random, &four));
            let first = address >> 24;
            assert!(first != 0 && first != 127 && first < 224, "{first}");
            let (address, _) = six.address(node(&mut random, &six));
            assert_eq!(address >> 125, 1, "{address:x}");
        }
    }
}
