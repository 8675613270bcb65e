//! Building: the longest list is cut first, under a cap on memory and on work.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;

use super::boxes::{Ranges, Side};
use super::choose::{Cut, MOST_BITS, MOST_CUTS, MOST_WORDS, Node, cells, reached};
use super::config::{Config, MOST_TREES, NODE_BYTES};
use crate::engine::budget::Visits;
use crate::engines::shared::BLOCK;
use crate::schema::Source;

/// Bytes that the engine keeps for a root in addition to its node.
pub(super) const ROOT_BYTES: usize = size_of::<u32>();
/// Cutting ends after the cuts of more than this many nodes in a row found no room.
const REFUSED_IN_A_ROW: usize = 256;
/// Classes of fewer regions get no tree of their own.
const LEAST_CLASS: usize = 64;
/// Maximum number of regions of a list that may cover later ones; no more are compared.
const COVERING: usize = 64;
/// Number of references per region above which regions are separated into several trees.
const COPIED: usize = 8;

/// Node of a tree in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) cuts: Vec<Cut>,
    /// Bits of each cut word of the box below the cut.
    pub(super) shifts: Vec<u32>,
    /// List of the node's own, by number.
    pub(super) list: Option<u32>,
    /// Group of its children.
    pub(super) group: Option<u32>,
    /// Earlier node of the same group whose subtree this node shares.
    pub(super) alias: Option<u32>,
}

/// Children of one node, which follow one another.
#[derive(Clone, Debug)]
pub(super) struct Siblings {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// Trees of a build.
#[derive(Default)]
pub(super) struct Grown {
    pub(super) nodes: Vec<Draft>,
    /// Children of each cut node, the roots first.
    pub(super) groups: Vec<Siblings>,
    pub(super) lists: Lists,
    /// Number of cuts that found no room.
    pub(super) refused: usize,
    /// Whether the build ended because it had made as many visits as allowed.
    pub(super) is_cut_short: bool,
}

/// Lists of regions, equal ones once.
#[derive(Default)]
pub(super) struct Lists {
    numbers: HashMap<Rc<[u32]>, u32>,
    /// Each list, by number, with its number of users. A list without users is empty.
    of: Vec<(Rc<[u32]>, usize)>,
    free: Vec<u32>,
    /// Number of blocks of all lists.
    blocks: usize,
    /// Number of regions in all lists.
    references: usize,
}

impl Lists {
    pub(super) fn get(&self, number: u32) -> &Rc<[u32]> {
        &self.of[number as usize].0
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    pub(super) fn references(&self) -> usize {
        self.references
    }

    /// Number of lists that have a user.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the number of a list, with one user more; `None` for an empty list.
    fn add(&mut self, list: &[u32]) -> Option<u32> {
        if list.is_empty() {
            return None;
        }
        if let Some(&number) = self.numbers.get(list) {
            self.of[number as usize].1 += 1;
            return Some(number);
        }
        let list: Rc<[u32]> = list.into();
        self.blocks += list.len().div_ceil(BLOCK);
        self.references += list.len();
        let number = self.free.pop().unwrap_or(self.of.len() as u32);
        self.numbers.insert(Rc::clone(&list), number);
        if number as usize == self.of.len() {
            self.of.push((list, 1));
        } else {
            self.of[number as usize] = (list, 1);
        }
        Some(number)
    }

    /// Gives up one use of a list, and frees the list after its last use.
    fn release(&mut self, number: Option<u32>) {
        let Some(number) = number else { return };
        let (list, users) = &mut self.of[number as usize];
        *users -= 1;
        if *users == 0 {
            let list = std::mem::replace(list, Rc::new([]));
            self.numbers.remove(&list);
            self.blocks -= list.len().div_ceil(BLOCK);
            self.references -= list.len();
            self.free.push(number);
        }
    }
}

/// Leaf that may be cut, the longest first.
struct Waiting {
    length: usize,
    node: Reverse<u32>,
    sides: Box<[Side]>,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.length, self.node).cmp(&(other.length, other.node))
    }
}

/// Build of the trees over some regions.
struct Builder<'a> {
    ranges: &'a Ranges<'a>,
    config: &'a Config,
    visits: &'a Visits,
    /// Bytes that nodes and blocks may take, and the bytes of a block.
    cap: usize,
    block_bytes: usize,
    grown: Grown,
    waiting: BinaryHeap<Waiting>,
}

/// Builds trees over all regions: one, or several over regions that are separated by their wide words.
pub(super) fn grow(ranges: &Ranges<'_>, config: &Config, cap: usize, block_bytes: usize, visits: &Visits) -> Grown {
    let all: Vec<u32> = (0..ranges.len() as u32).collect();
    let build = |roots: &[Vec<u32>]| {
        let grown = Grown::default();
        let waiting = BinaryHeap::new();
        // The cap has one root in it.
        let cap = cap.saturating_sub((roots.len() - 1) * ROOT_BYTES);
        Builder { ranges, config, visits, cap, block_bytes, grown, waiting }.run(roots)
    };
    let one = build(std::slice::from_ref(&all));
    let is_copied = one.refused > 0 || one.lists.references() > COPIED * ranges.len();
    if config.trees < 2 || !is_copied {
        return one;
    }
    let classes = separated(ranges, &all, config.trees.min(MOST_TREES));
    // The blocks of several lists may not fit although those of one list do.
    let blocks: usize = classes.iter().map(|class| class.len().div_ceil(BLOCK)).sum();
    let nodes = (classes.len() * NODE_BYTES).next_multiple_of(64) + (classes.len() - 1) * ROOT_BYTES;
    let fits = blocks * block_bytes + nodes <= cap;
    if classes.len() < 2 || !fits || visits.are_too_many() {
        return one;
    }
    let several = build(&classes);
    // Trees that were cut short may be worse than one that was not.
    if several.is_cut_short { one } else { several }
}

/// Separates regions by whether two words are wide, and returns the classes in order of their best ranks.
///
/// The words are the first ones of source and destination address or, without addresses, the two words with the most
/// different intervals. A word is wide if it leaves more than three quarters of its bits open. Small classes join the
/// smallest other class.
fn separated(ranges: &Ranges<'_>, all: &[u32], trees: usize) -> Vec<Vec<u32>> {
    let schema = ranges.set.schema();
    let address = |source| schema.index_of_source(source).map(|field| schema.words_of(field).start);
    let words = match (address(Source::Src), address(Source::Dst)) {
        (Some(src), Some(dst)) => [src, dst],
        _ => {
            let unique = |word: usize| {
                let mut intervals: Vec<_> = all.iter().map(|&rank| ranges.of(rank, word)).collect();
                intervals.sort_unstable();
                intervals.dedup();
                intervals.len()
            };
            let mut by_unique: Vec<(usize, usize)> = (0..ranges.words()).map(|word| (unique(word), word)).collect();
            by_unique.sort_by_key(|&(unique, word)| (Reverse(unique), word));
            [by_unique[0].1, by_unique[by_unique.len().min(2) - 1].1]
        }
    };
    let is_wide = |rank: u32, word: usize| {
        let (lo, hi) = ranges.of(rank, word);
        let bits = 32 - ranges.caps[word].leading_zeros();
        u64::from(hi - lo) > 1 << (bits * 3 / 4)
    };
    let mut classes = vec![Vec::new(); 4];
    for &rank in all {
        classes[words.iter().fold(0, |class, &word| class << 1 | usize::from(is_wide(rank, word)))].push(rank);
    }
    classes.retain(|class| !class.is_empty());
    loop {
        classes.sort_by_key(Vec::len);
        let is_small = classes.len() > trees || classes.first().is_some_and(|class| class.len() < LEAST_CLASS);
        if classes.len() < 2 || !is_small {
            break;
        }
        let small = classes.remove(0);
        classes[0].extend(small);
        classes[0].sort_unstable();
    }
    classes.sort_by_key(|class| class[0]);
    classes
}

impl Builder<'_> {
    fn run(mut self, roots: &[Vec<u32>]) -> Grown {
        for root in roots {
            let list = self.grown.lists.add(root);
            self.wait(self.ranges.whole(), list);
        }
        self.grown.groups.push(Siblings { first: 0, count: roots.len() as u32 });
        let mut in_a_row = 0;
        while let Some(next) = self.waiting.pop() {
            if self.visits.are_too_many() {
                break;
            }
            let is_cut = self.cut(next);
            in_a_row = if is_cut { 0 } else { in_a_row + 1 };
            if in_a_row > REFUSED_IN_A_ROW {
                break;
            }
        }
        self.grown.is_cut_short = self.visits.are_too_many();
        self.grown
    }

    /// Adds a leaf, which waits to be cut if its list is long.
    fn wait(&mut self, sides: Box<[Side]>, list: Option<u32>) {
        let node = self.grown.nodes.len() as u32;
        self.grown.nodes.push(Draft { list, ..Draft::default() });
        let length = list.map_or(0, |list| self.grown.lists.get(list).len());
        if length > self.config.binth {
            self.waiting.push(Waiting { length, node: Reverse(node), sides });
        }
    }

    /// Returns the bytes of the trees with `more` further nodes.
    fn bytes_with(&self, more: usize) -> usize {
        let nodes = self.grown.nodes.len() + more;
        (nodes * self.config.layout_bytes()).next_multiple_of(64) + self.grown.lists.blocks() * self.block_bytes
    }

    /// Cuts a leaf; returns false if no cut has room.
    fn cut(&mut self, Waiting { node: Reverse(node), sides, .. }: Waiting) -> bool {
        let Some(own) = self.grown.nodes[node as usize].list else { return true };
        let list = Rc::clone(self.grown.lists.get(own));
        let sides = if self.config.compact { self.ranges.compacted(&list, &sides) } else { sides };
        let (ranges, config, visits) = (self.ranges, self.config, self.visits);
        // The roots are a group without a cut.
        let mut cuts = match config.cuts.get(self.grown.groups.len() - 1) {
            Some(given) => possible(given, &sides),
            None => Node { ranges, list: &list, sides: &sides, config, visits }.cuts(),
        };
        if cuts.is_empty() {
            return true;
        }
        while !cuts.is_empty() && !self.visits.are_too_many() {
            if self.try_cut(node, own, &list, &sides, &cuts) {
                return true;
            }
            // Once more with a bit less.
            let Some(most) = (0..cuts.len()).max_by_key(|&at| cuts[at].bits) else { break };
            cuts[most].bits -= 1;
            cuts.retain(|cut| cut.bits > 0);
        }
        self.grown.refused += 1;
        false
    }

    /// Cuts a leaf into cells; returns false and changes nothing if they have no room.
    fn try_cut(&mut self, node: u32, own: u32, list: &[u32], sides: &[Side], cuts: &[Cut]) -> bool {
        let count = cells(cuts);
        if self.bytes_with(count) > self.cap + self.block_bytes * list.len().div_ceil(BLOCK) {
            return false;
        }
        let (kept, spread) = self.pushed(list, sides, cuts);
        if spread.is_empty() {
            return true;
        }
        let mut lists = vec![Vec::new(); count];
        for &rank in &spread {
            reached(self.ranges, rank, sides, cuts, |cell| lists[cell].push(rank));
        }
        self.visits.add(lists.iter().map(Vec::len).sum::<usize>() + count);
        if self.config.remove_covered {
            for (cell, list) in lists.iter_mut().enumerate() {
                self.remove_covered(list, &cell_sides(sides, cuts, cell));
            }
        }
        // The new lists are added before the old one is released, so that an equal list is kept.
        let numbers: Vec<Option<u32>> = lists.iter().map(|list| self.grown.lists.add(list)).collect();
        let kept = self.grown.lists.add(&kept);
        self.grown.lists.release(Some(own));
        if self.bytes_with(count) > self.cap {
            let again = self.grown.lists.add(list);
            numbers.into_iter().chain([kept]).for_each(|number| self.grown.lists.release(number));
            self.grown.nodes[node as usize].list = again;
            return false;
        }
        let first = self.grown.nodes.len() as u32;
        let mut earlier: HashMap<u32, Vec<usize>> = HashMap::new();
        for (cell, number) in numbers.into_iter().enumerate() {
            let own_sides = cell_sides(sides, cuts, cell);
            let is_long = self.config.merge && lists[cell].len() > self.config.binth;
            let twin = number.filter(|_| is_long).and_then(|number| {
                let others = earlier.entry(number).or_default();
                let is_alike =
                    |&other: &usize| self.is_alike(&lists[cell], &own_sides, &cell_sides(sides, cuts, other));
                let found = others.iter().copied().find(is_alike);
                others.extend(found.is_none().then_some(cell));
                found
            });
            if let Some(other) = twin {
                self.grown.lists.release(number);
                self.grown.nodes.push(Draft { alias: Some(first + other as u32), ..Draft::default() });
            } else {
                self.wait(own_sides, number);
            }
        }
        let group = Some(self.grown.groups.len() as u32);
        self.grown.groups.push(Siblings { first, count: count as u32 });
        let shifts = cuts.iter().map(|cut| sides[cut.word].bits - cut.bits).collect();
        self.grown.nodes[node as usize] = Draft { cuts: cuts.to_vec(), shifts, list: kept, group, alias: None };
        true
    }

    /// Returns the regions that stay at the node, and those that go to its cells.
    fn pushed(&self, list: &[u32], sides: &[Side], cuts: &[Cut]) -> (Vec<u32>, Vec<u32>) {
        let fills = |&rank: &u32| cuts.iter().all(|cut| self.ranges.fills(rank, cut.word, sides[cut.word]));
        let (kept, spread): (Vec<u32>, Vec<u32>) = list.iter().partition(|rank| self.config.push && fills(rank));
        if kept.len() < self.config.min_push { (Vec::new(), list.to_vec()) } else { (kept, spread) }
    }

    /// Removes regions that one of the first regions of the cell covers there.
    fn remove_covered(&self, list: &mut Vec<u32>, sides: &[Side]) {
        let mut kept: Vec<u32> = Vec::with_capacity(list.len());
        for &rank in &*list {
            let first = &kept[..kept.len().min(COVERING)];
            self.visits.add(first.len());
            if !first.iter().any(|&other| self.ranges.covers(other, rank, sides)) {
                kept.push(rank);
            }
        }
        *list = kept;
    }

    /// Whether the regions lie in both boxes in the same way, so that both get the same subtree.
    fn is_alike(&self, list: &[u32], sides: &[Side], others: &[Side]) -> bool {
        self.visits.add(list.len());
        sides.iter().zip(others).enumerate().all(|(word, (side, other))| {
            let relative = |rank: u32, side: Side| {
                let (lo, hi) = side.clip(self.ranges.of(rank, word));
                (lo - side.base, hi - side.base)
            };
            let cap = self.ranges.caps[word];
            // Packets without the field take the path of the largest value, where other regions may be covered.
            let same_end = !self.config.remove_covered || (side.last() >= cap) == (other.last() >= cap);
            let is_same = side == other || list.iter().all(|&rank| relative(rank, *side) == relative(rank, *other));
            side.bits == other.bits && same_end && is_same
        })
    }
}

/// Returns the given cuts that a box has words and bits for.
fn possible(given: &[(usize, u32)], sides: &[Side]) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    for &(word, bits) in given {
        let most = sides.get(word).filter(|_| word < MOST_WORDS).map_or(0, |side| side.bits.min(MOST_BITS));
        let is_new = cuts.iter().all(|cut| cut.word != word) && cuts.len() < MOST_CUTS;
        cuts.extend((is_new && bits.min(most) > 0).then_some(Cut { word, bits: bits.min(most) }));
    }
    cuts
}

/// Returns the box of a cell.
fn cell_sides(sides: &[Side], cuts: &[Cut], mut cell: usize) -> Box<[Side]> {
    let mut own: Box<[Side]> = sides.into();
    for cut in cuts.iter().rev() {
        let at = cell & ((1 << cut.bits) - 1);
        own[cut.word] = sides[cut.word].part(cut.bits, at as u32);
        cell >>= cut.bits;
    }
    own
}
