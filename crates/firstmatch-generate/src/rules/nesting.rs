//! The bound on how many prefixes lie one in another.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::tree::Node;
use crate::random::mix;

/// The prefixes a tree has given out, and how deep they nest.
#[derive(Debug)]
pub(crate) struct Nesting {
    most: u8,
    /// The lengths prefixes can have, ascending, without 0: the wildcard does not count.
    lengths: Vec<u8>,
    nodes: HashMap<u64, State, BuildHasherDefault<Mixed>>,
    /// By length the prefixes given out.
    used: [Vec<Node>; 33],
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    used: bool,
    /// The most prefixes, one in another, that lie strictly in this node.
    below: u8,
}

impl Nesting {
    pub(crate) fn new(most: u8, mut lengths: Vec<u8>) -> Self {
        lengths.sort_unstable();
        lengths.dedup();
        lengths.retain(|&length| length > 0);
        Self { most, lengths, nodes: HashMap::default(), used: std::array::from_fn(|_| Vec::new()) }
    }

    /// Whether a prefix may be given out.
    pub(crate) fn allows(&self, node: Node) -> bool {
        if node.steps == 0 {
            return true;
        }
        let state = self.state(node);
        state.used || self.above(node) + 1 + u32::from(state.below) <= u32::from(self.most)
    }

    /// Notes a prefix that is given out.
    pub(crate) fn add(&mut self, node: Node) {
        if node.steps == 0 || self.state(node).used {
            return;
        }
        let state = self.nodes.entry(node.number()).or_default();
        state.used = true;
        let mut chain = state.below + 1;
        self.used[usize::from(node.steps)].push(node);
        // From the node upwards: what lies in an ancestor is at least the chain that has come so far.
        for &length in self.lengths.iter().rev().filter(|&&length| length < node.steps) {
            let state = self.nodes.entry(node.ancestor(length).number()).or_default();
            state.below = state.below.max(chain);
            chain += u8::from(state.used);
        }
    }

    /// The prefixes of this length given out so far.
    pub(crate) fn used(&self, steps: u8) -> &[Node] {
        self.used.get(usize::from(steps)).map_or(&[], |used| used)
    }

    fn above(&self, node: Node) -> u32 {
        let shorter = self.lengths.iter().filter(|&&length| length < node.steps);
        shorter.map(|&length| u32::from(self.state(node.ancestor(length)).used)).sum()
    }

    fn state(&self, node: Node) -> State {
        self.nodes.get(&node.number()).copied().unwrap_or_default()
    }
}

/// A hash of one word. Keys are the generator's own: nobody chooses them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// The most prefixes one in another, by trying all.
    fn deepest(nodes: &[Node]) -> usize {
        nodes.iter().map(|node| nodes.iter().filter(|other| node.is_in(**other)).count()).max().unwrap_or(0)
    }

    #[test]
    fn what_is_allowed_is_what_keeps_the_bound() {
        for most in 1..=4 {
            let mut random = Random::new(most.into(), Purpose::Rules);
            let mut nesting = Nesting::new(most, (0..=8).collect());
            let mut given: Vec<Node> = Vec::new();
            let mut refused = 0;
            for _ in 0..300 {
                let node = Node { way: (random.bits() as u32) & 0xFF00_0000, steps: 8 };
                let node = node.ancestor(random.between(0, 8) as u8);
                let mut with = given.clone();
                if node.steps > 0 && !given.contains(&node) {
                    with.push(node);
                }
                let fits = deepest(&with) <= most.into();
                assert_eq!(nesting.allows(node), fits, "{node:?} among {given:?}");
                refused += usize::from(!fits);
                if fits {
                    nesting.add(node);
                    given = with;
                }
            }
            assert!(refused > 10 && deepest(&given) == usize::from(most));
            assert_eq!((0..=32).map(|steps| nesting.used(steps).len()).sum::<usize>(), given.len());
        }
    }
}
