//! Planting prefixes in a tree, all at once from the root (Taylor and Turner 2007, III-C).

use super::tree::{Node, Plan};
use crate::profile::{Level, Tree};
use crate::random::Random;

/// Sources that destinations follow, and for each level the probability that they do.
pub(crate) type Leaders<'a> = (&'a [Node], &'a [f64; 32]);

/// Plants prefixes of the given lengths and returns their nodes, in the same order.
///
/// `growth` is the size of the set relative to the one that the tree's figures were taken from.
pub(crate) fn plant(
    tree: &Tree,
    plan: &Plan,
    growth: f64,
    lengths: &[u8],
    leaders: Option<Leaders<'_>>,
    random: &mut Random,
) -> Vec<Node> {
    let most = tree.nesting.map_or(u32::MAX, u32::from);
    let nodes = lengths.iter().map(|&steps| Node { way: 0, steps }).collect();
    let follows = vec![leaders.is_some(); lengths.len()];
    let sides = vec![Side::Open; lengths.len()];
    let mut items: Vec<u32> = (0..lengths.len() as u32).collect();
    let mut planting =
        Planting { plan, levels: grown(tree.levels, growth), most, leaders, follows, sides, nodes, random };
    planting.grow(Node::ROOT, Nested::default(), &mut items);
    planting.nodes
}

/// Returns a random node of `steps` steps below `from`.
pub(crate) fn stray(plan: &Plan, from: Node, steps: u8, random: &mut Random) -> Node {
    let bits = random.bits();
    (from.steps..steps).fold(from, |node, step| node.child(plan.forced(node).unwrap_or(bits >> step & 1 == 1)))
}

/// Returns the levels of a tree for a set that is `growth` times larger.
fn grown(mut levels: [Level; 32], growth: f64) -> [Level; 32] {
    if growth <= 1.0 {
        return levels;
    }
    let mut left = growth;
    for level in &mut levels {
        let imbalance = 2.0 * (1.0 - level.branching + level.skew * level.branching);
        if imbalance > left {
            if imbalance - 2.0 * level.skew > left {
                level.branching = (1.0 - (imbalance - left) / 2.0) / (1.0 - level.skew);
            } else {
                *level = Level { branching: 1.0, skew: (level.skew - left / 2.0).max(0.0) };
            }
            break;
        }
        left -= imbalance;
        *level = Level { branching: 1.0, skew: 0.0 };
    }
    levels
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Zero,
    /// Not decided yet.
    Open,
    One,
}

/// Number of distinct prefixes that end on the way to a node.
///
/// `following` counts those of destinations that have gone where their sources went.
#[derive(Clone, Copy, Debug, Default)]
struct Nested {
    all: u32,
    following: u32,
}

impl From<bool> for Side {
    fn from(one: bool) -> Self {
        if one { Self::One } else { Self::Zero }
    }
}

struct Planting<'a> {
    plan: &'a Plan,
    levels: [Level; 32],
    most: u32,
    leaders: Option<Leaders<'a>>,
    /// Whether a rule's destination has gone where its source went.
    follows: Vec<bool>,
    sides: Vec<Side>,
    /// Resulting nodes; until its node is reached, a prefix has the way 0.
    nodes: Vec<Node>,
    random: &'a mut Random,
}

impl Planting<'_> {
    fn steps(&self, item: u32) -> u8 {
        self.nodes[item as usize].steps
    }

    /// Plants the prefixes `items`, all of which lie in `node`.
    fn grow(&mut self, node: Node, above: Nested, items: &mut [u32]) {
        let ended = partition(items, |item| self.steps(item) == node.steps);
        let (ended, rest) = items.split_at_mut(ended);
        let following = ended.iter().any(|&item| self.follows[item as usize]);
        let nested =
            Nested { all: above.all + u32::from(!ended.is_empty()), following: above.following + u32::from(following) };
        for &item in &*ended {
            self.nodes[item as usize] = node;
        }
        match rest {
            [] => {}
            &mut [one] if !self.follows[one as usize] => {
                self.nodes[one as usize] = stray(self.plan, node, self.steps(one), self.random);
            }
            _ => {
                let zero = self.share_out(node, nested, rest);
                let (zero, one) = rest.split_at_mut(zero);
                if !zero.is_empty() {
                    self.grow(node.child(false), nested, zero);
                }
                if !one.is_empty() {
                    self.grow(node.child(true), nested, one);
                }
            }
        }
    }

    /// Reorders `items` so that those of side 0 come first, and returns their number.
    fn share_out(&mut self, node: Node, nested: Nested, items: &mut [u32]) -> usize {
        if let Some(side) = self.plan.forced(node) {
            for &item in &*items {
                self.follows[item as usize] &= self.leader(item, node.steps).is_some_and(|(_, leads)| leads == side);
            }
            return if side { 0 } else { items.len() };
        }
        let next = node.steps + 1;
        let full = |nested: u32, count: usize| nested.saturating_add(1) >= self.most && next < 32 && count > 1;
        if self.leaders.is_some() {
            let following = || items.iter().filter(|&&item| self.follows[item as usize]);
            if full(nested.following, following().count()) && following().any(|&item| self.steps(item) == next) {
                items.iter().for_each(|&item| self.follows[item as usize] = false);
            }
        }
        let full = full(nested.all, 2);
        for &item in &*items {
            self.sides[item as usize] = self.follow(item, node.steps);
        }
        let sides = &self.sides;
        let zeros = partition(items, |item| sides[item as usize] == Side::Zero);
        let count = partition(&mut items[zeros..], |item| sides[item as usize] == Side::Open);
        let ones = items.len() - zeros - count;
        let open = &mut items[zeros..zeros + count];
        let heavy = if zeros == ones { self.random.coin() } else { ones > zeros };
        let to_zero = if full && count > 1 && open.iter().any(|&item| self.steps(item) == next) {
            self.part(next, heavy, open)
        } else {
            self.open_to_zero(self.levels[usize::from(node.steps)], heavy, zeros, count, ones)
        };
        zeros + to_zero
    }

    /// Separates prefixes that end at `next` from the others; returns how many go to side 0.
    ///
    /// This keeps the bound on nesting, because an ending prefix then holds no other. The larger part goes to the
    /// heavier side.
    fn part(&self, next: u8, heavy: bool, items: &mut [u32]) -> usize {
        let ending = partition(items, |item| self.steps(item) == next);
        let others = items.len() - ending;
        if heavy == (ending > others) {
            items.rotate_left(ending);
            return others;
        }
        ending
    }

    /// Returns a rule's source and the side it takes at `level`; `None` if it has ended.
    fn leader(&self, item: u32, level: u8) -> Option<(Node, bool)> {
        let (nodes, _) = self.leaders?;
        let leader = nodes[item as usize];
        (leader.steps > level).then(|| (leader, leader.side(level)))
    }

    /// Returns the side of a rule that has followed its source so far, if its source decides it.
    fn follow(&mut self, item: u32, level: u8) -> Side {
        if !self.follows[item as usize] {
            return Side::Open;
        }
        let (Some((leader, side)), Some((_, correlation))) = (self.leader(item, level), self.leaders) else {
            self.follows[item as usize] = false;
            return Side::Open;
        };
        // Where the source ends, the destination goes beside it, because one would lie in the other otherwise.
        if leader.steps == level + 1 || !self.random.chance(correlation[usize::from(level)]) {
            self.follows[item as usize] = false;
            return Side::from(!side);
        }
        Side::from(side)
    }

    /// Returns how many of the `open` items go to side 0.
    fn open_to_zero(&mut self, level: Level, heavy: bool, zeros: usize, open: usize, ones: usize) -> usize {
        if open == 0 {
            return 0;
        }
        let branches = self.random.chance(level.branching) || zeros > 0 && ones > 0;
        let light = if branches {
            let total = open + zeros + ones;
            let goal = (total as f64 / (2.0 - level.skew)) as usize;
            let lighter = if heavy { zeros } else { ones };
            (total - goal).saturating_sub(lighter).min(open)
        } else {
            0
        };
        if heavy { light } else { open - light }
    }
}

/// Moves the items that satisfy `is` to the front and returns their number.
fn partition(items: &mut [u32], is: impl Fn(u32) -> bool) -> usize {
    let mut front = 0;
    for at in 0..items.len() {
        if is(items[at]) {
            items.swap(front, at);
            front += 1;
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;
    use firstmatch_core::schema::Family;
    use std::collections::BTreeSet;

    fn planted(tree: &Tree, growth: f64, lengths: &[u8], leaders: Option<Leaders<'_>>) -> Vec<Node> {
        let plan = Plan::new(Family::Ipv6, 3);
        let nodes = plant(tree, &plan, growth, lengths, leaders, &mut Random::new(5, Purpose::Rules));
        assert!(nodes.iter().zip(lengths).all(|(node, &steps)| node.steps == steps && node.ancestor(steps) == *node));
        nodes
    }

    #[test]
    fn a_branch_shares_out_by_its_skew() {
        let heads = |skew, lengths: &[u8]| {
            let nodes = planted(&Tree::of_levels(&[(0, 1.0, skew)]), 1.0, lengths, None);
            let ones = nodes.iter().filter(|node| node.side(0)).count();
            (ones.min(lengths.len() - ones), nodes.iter().collect::<BTreeSet<_>>().len())
        };
        assert_eq!(heads(0.0, &[20; 64]), (32, 64), "each is alone after six levels");
        assert_eq!(heads(0.5, &[20; 900]).0, 300);
        assert_eq!(heads(1.0, &[20; 900]), (0, 1));
        assert_eq!(planted(&Tree::of_levels(&[]), 1.0, &[9; 50], None).iter().collect::<BTreeSet<_>>().len(), 1);
    }

    #[test]
    fn trees_grow_from_the_root() {
        let levels = Tree::of_levels(&[(0, 0.5, 0.5)]).levels;
        assert_eq!(grown(levels, 1.0), levels);
        // Each level has the imbalance 2 (1 - 1/2 + 1/4) = 1.5.
        let of = |growth| grown(levels, growth).map(|level| (level.branching, level.skew));
        assert_eq!(of(3.25)[..3], [(1.0, 0.0), (1.0, 0.0), (0.75, 0.5)]);
        assert_eq!(of(3.5)[2], (1.0, 0.25));
        assert_eq!(of(3.5)[3], (0.5, 0.5));
        assert!(of(1e9).iter().all(|&level| level == (1.0, 0.0)));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut random = Random::new(2, Purpose::Rules);
        for most in 1..=4u8 {
            let lengths: Vec<u8> = (0..400).map(|_| random.between(1, 32) as u8).collect();
            let tree = Tree::of_levels(&[(0, 0.3, 0.5)]).with_nesting(most);
            let nodes: BTreeSet<Node> = planted(&tree, 1.0, &lengths, None).into_iter().collect();
            let deepest = nodes.iter().map(|node| nodes.iter().filter(|other| node.is_in(**other)).count()).max();
            assert_eq!(deepest, Some(usize::from(most)));
        }
    }

    #[test]
    fn destinations_follow_their_sources_as_often_as_asked() {
        let full = Tree::of_levels(&[(0, 1.0, 0.0)]);
        let sources = planted(&full, 1.0, &[24; 4000], None);
        let agree = |correlation: f64| {
            let nodes = planted(&full, 1.0, &[16; 4000], Some((&sources, &[correlation; 32])));
            let same = |bits| nodes.iter().zip(&sources).filter(|(a, b)| a.ancestor(bits) == b.ancestor(bits)).count();
            (same(1), same(16))
        };
        assert_eq!(agree(1.0), (4000, 4000));
        let (first, all) = agree(0.9);
        assert!((3500..3700).contains(&first) && (600..900).contains(&all), "{first} {all}");
        assert_eq!(agree(0.0).0, 0, "those that do not follow go the other way");
        // A destination that would lie in its source stands beside it.
        let nodes = planted(&full, 1.0, &[32; 4000], Some((&sources, &[1.0; 32])));
        assert!(nodes.iter().zip(&sources).all(|(node, source)| node.ancestor(23) == source.ancestor(23)));
        assert!(nodes.iter().zip(&sources).all(|(node, source)| !node.is_in(*source)));
    }
}
