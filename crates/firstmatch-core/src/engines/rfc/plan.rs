//! Choice of the tree of tables.

use std::collections::{HashMap, HashSet};

use super::join::{Joining, join};
use super::lists::Part;
use super::prune::Cover;
use super::table::bytes_of;
use crate::engines::shared::Room;
use crate::error::BuildError;

/// Number of products of the larger sample.
const SAMPLE: usize = 1000;
/// Number of products of the smaller sample.
const SMALL: usize = SAMPLE / 4;
/// Number of products of the sample with which pairs of slots are tried.
const TINY: usize = 64;
/// Maximum number of slots whose subsets are all compared.
const MOST_SLOTS: usize = 7;
/// Number of classes at which a subset is given up.
const MOST_CLASSES: usize = 1 << 16;
/// Number of pairs of classes at which a subset is given up without counting its classes.
const MOST_PAIRS: u64 = 1 << 21;
/// Factor by which a plan that is not exact may exceed the budget before it is refused.
pub(super) const SLACK: u64 = 2;
/// First cap on the bytes of the trees that are compared.
const FIRST_CAP: u64 = 1 << 12;

/// Tables in the order in which they are built and looked up.
pub(super) struct Planned {
    pub(super) tables: Vec<Operands>,
    /// Estimated number of bytes of all tables.
    pub(super) bytes: u64,
    /// Whether all classes were counted, so that `bytes` is exact.
    pub(super) is_exact: bool,
}

impl Planned {
    /// Estimated number of bytes of all tables, or `usize::MAX` if it does not fit.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }
}

/// Slots that a table joins; leaves are numbered first, then the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operands {
    pub(super) slots: [usize; 2],
    pub(super) third: Option<usize>,
}

/// Facts about the tables of earlier plans, each of which had a table that exceeded the budget.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Number of classes of each set of leaves; a set has one bit per leaf.
    classes: HashMap<u128, u64>,
    /// Pairs of sets of leaves whose table exceeded the budget.
    refused: HashSet<[u128; 2]>,
    /// Whether a pair was added since the last plan.
    is_new: bool,
}

impl Known {
    /// Adds the numbers of classes of the tables before `at`, and that this one exceeded the budget.
    pub(super) fn add(
        &mut self,
        tables: &[Operands],
        leaves: usize,
        mut classes: impl Iterator<Item = u32>,
        at: usize,
    ) {
        if leaves > u128::BITS as usize {
            return;
        }
        let mut sets: Vec<u128> = (0..leaves).map(|leaf| 1 << leaf).collect();
        for Operands { slots, third } in &tables[..at] {
            let set = slots.iter().chain(third).fold(0, |set, &slot| set | sets[slot]);
            sets.push(set);
            self.classes.extend(classes.next().map(|classes| (set, u64::from(classes))));
        }
        let mut pair = tables[at].slots.map(|slot| sets[slot]);
        pair.sort_unstable();
        self.is_new = self.refused.insert(pair);
    }

    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether a pair was added since the last call, so that another plan makes sense.
    pub(super) fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    fn refuses(&self, mut pair: [u128; 2]) -> bool {
        pair.sort_unstable();
        self.refused.contains(&pair)
    }
}

/// Input of a plan.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) products: usize,
    pub(super) rules: usize,
    /// Bytes that the tables may take.
    pub(super) allowed: usize,
    /// Sets by which lists are pruned, if they are.
    pub(super) cover: Option<&'a Cover>,
    pub(super) known: &'a Known,
    pub(super) room: &'a Room<'a>,
}

/// Tree of tables over leaves.
#[derive(Clone)]
enum Node {
    Leaf(usize),
    Join(Box<[Self; 2]>),
}

/// Leaf, or leaves that are already joined.
struct Slot {
    /// Number that no other slot has had.
    number: usize,
    node: Node,
    /// Leaves, one bit each; leaves beyond the bits are left out.
    leaves: u128,
    field: Option<usize>,
    /// Bytes of the tables below.
    bytes: u64,
    /// Classes of the products of each sample.
    tiny: Part,
    small: Part,
    large: Part,
    /// Number of classes with all products, if they were counted.
    classes: Option<u64>,
}

/// Returns the paper's tree: the operands of each table.
///
/// `is_five_tuple` says whether the leaves are the chunks of two addresses, two ports and perhaps a protocol.
pub(super) fn of_paper(leaves: usize, is_five_tuple: bool) -> Option<Vec<Operands>> {
    let of = |slots: [usize; 2], third: Option<usize>| Operands { slots, third };
    let (x, y) = (of([0, 1], Some(4)), of([2, 3], Some(5)));
    match (leaves, is_five_tuple) {
        (6, true) => Some(vec![x, y, of([6, 7], None)]),
        (7, true) => Some(vec![x, y, of([8, 6], None), of([7, 9], None)]),
        (2, _) => Some(vec![of([0, 1], None)]),
        (3, _) => Some(vec![of([0, 1], Some(2))]),
        _ => None,
    }
}

/// Returns the tree of the fewest bytes over at least two leaves.
///
/// Up to [`SAMPLE`] products it counts the classes of every subset of the leaves. Beyond, it counts them for two
/// samples, and extrapolates the growth between the samples to all products. For example, 300 classes of 250 products
/// and 600 of 1,000 grow with the square root of the products, so 2,400 classes are expected of 16,000 products.
///
/// # Errors
/// If even the smallest tree exceeds `allowed` bytes by far, or there were too many visits.
pub(super) fn fewest(parts: &[&Part], fields: &[usize], asked: &Asked<'_>) -> Result<Planned, BuildError> {
    let &Asked { products, room, .. } = asked;
    let sizes = [SMALL.min(products), SAMPLE.min(products)];
    let kept = |size: usize| -> Vec<u32> { (0..size).map(|at| (at * products / size) as u32).collect() };
    let kept = [TINY.min(products), sizes[0], sizes[1]].map(kept);
    let mut slots = Vec::new();
    for (leaf, (part, &field)) in parts.iter().zip(fields).enumerate() {
        let [tiny, small] = [part.sampled(&kept[0], room)?, part.sampled(&kept[1], room)?];
        let large = part.sampled(&kept[2], room)?;
        let (node, classes) = (Node::Leaf(leaf), Some(part.len() as u64));
        let leaves = u32::try_from(leaf).ok().and_then(|leaf| 1u128.checked_shl(leaf)).unwrap_or(0);
        slots.push(Slot { number: leaf, node, leaves, field: Some(field), bytes: 0, tiny, small, large, classes });
    }
    let covers = kept.map(|kept| asked.cover.map(|cover| cover.sampled(&kept)));
    let counted = Counted { asked, sizes, covers };
    let mut scores = HashMap::new();
    while slots.len() > MOST_SLOTS {
        counted.reduce(&mut slots, &mut scores)?;
    }
    let (node, bytes, is_exact) = counted.best(&slots)?;
    let mut tables = Vec::new();
    emit(&node, parts.len(), &mut tables);
    Ok(Planned { tables, bytes, is_exact: is_exact && products <= SAMPLE })
}

/// Appends the tables of a tree, and returns the slot of its root.
fn emit(node: &Node, leaves: usize, tables: &mut Vec<Operands>) -> usize {
    match node {
        Node::Leaf(leaf) => *leaf,
        Node::Join(of) => {
            let slots = [&of[0], &of[1]].map(|node| emit(node, leaves, tables));
            tables.push(Operands { slots, third: None });
            leaves + tables.len() - 1
        }
    }
}

/// Input from which numbers of classes are extrapolated.
struct Counted<'a> {
    asked: &'a Asked<'a>,
    /// Number of products of both samples.
    sizes: [usize; 2],
    /// Sets of the products of each sample, from the smallest on.
    covers: [Option<Cover>; 3],
}

/// Part of each sample over some slots; `None` from [`MOST_CLASSES`] on.
type Sampled = [Option<Part>; 2];

impl Counted<'_> {
    /// Joins the two slots that grow least; slots of the same field first.
    ///
    /// `scores` has the growth of pairs that were tried before, by the numbers of their slots.
    fn reduce(&self, slots: &mut Vec<Slot>, scores: &mut HashMap<[usize; 2], u64>) -> Result<(), BuildError> {
        let is_of_field = |a: &Slot, b: &Slot| a.field.is_some() && a.field == b.field;
        let mut best = None;
        for of_field in [true, false] {
            let all = (0..slots.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
            for (a, b) in all.filter(|&(a, b)| !of_field || is_of_field(&slots[a], &slots[b])) {
                let numbers = [slots[a].number, slots[b].number];
                let is_refused = self.asked.known.refuses([slots[a].leaves, slots[b].leaves]);
                let score = match scores.get(&numbers) {
                    Some(&score) => score,
                    None if is_refused => u64::MAX,
                    None => self.score(&slots[a].tiny, &slots[b].tiny)?,
                };
                scores.insert(numbers, score);
                if best.is_none_or(|(least, _)| score < least) {
                    best = Some((score, (a, b)));
                }
            }
            if best.is_some() {
                break;
            }
        }
        let Some((_, (a, b))) = best else { return Ok(()) };
        let (second, first) = (slots.remove(b), slots.remove(a));
        let tiny = self.joined_whole(&first.tiny, &second.tiny, 0)?;
        let small = self.joined_whole(&first.small, &second.small, 1)?;
        let large = self.joined_whole(&first.large, &second.large, 2)?;
        let classes = self.is_whole().then_some(large.len() as u64);
        let [of_first, of_second] = [&first, &second].map(|slot| self.classes_of(slot));
        let own = bytes_of(of_first.saturating_mul(of_second) as usize, large.len() - 1) as u64;
        let bytes = first.bytes + second.bytes + own;
        let field = first.field.filter(|_| first.field == second.field);
        let node = Node::Join(Box::new([first.node, second.node]));
        let number = first.number.max(second.number).max(slots.iter().map(|slot| slot.number).max().unwrap_or(0)) + 1;
        let leaves = first.leaves | second.leaves;
        slots.push(Slot { number, node, leaves, field, bytes, tiny, small, large, classes });
        Ok(())
    }

    /// Returns the number of classes that a pair has more than its larger slot, plus 1/64 of its table's entries.
    fn score(&self, a: &Part, b: &Part) -> Result<u64, BuildError> {
        let product = (a.len() * b.len()) as u64;
        let part = self.joined(Some(a), Some(b), 0)?;
        let classes = part.map_or(product, |part| part.len() as u64);
        Ok(classes.saturating_sub(a.len().max(b.len()) as u64) + product / 64)
    }

    /// Whether all products are in the larger sample.
    fn is_whole(&self) -> bool {
        self.sizes[1] == self.asked.products
    }

    /// Number of classes of a slot with all products, counted or extrapolated.
    fn classes_of(&self, slot: &Slot) -> u64 {
        slot.classes.unwrap_or_else(|| self.extended(slot.small.len() as u64, slot.large.len() as u64))
    }

    /// Extrapolates the number of classes of all products from the numbers of both samples.
    fn extended(&self, small: u64, large: u64) -> u64 {
        if self.is_whole() {
            return large;
        }
        let grown = (large as f64 / small.max(1) as f64).log(4.0).clamp(0.0, 2.0);
        (large as f64 * (self.asked.products as f64 / self.sizes[1] as f64).powf(grown)) as u64
    }

    /// Returns the products of a sample, with limits; sample 0 is the smallest.
    fn joining(&self, sample: usize) -> Joining<'_> {
        let products = [TINY.min(self.asked.products), self.sizes[0], self.sizes[1]][sample];
        Joining { products, cover: self.covers[sample].as_ref(), room: self.asked.room }
    }

    /// Returns the classes of pairs, or `None` if they are too many.
    fn joined(&self, a: Option<&Part>, b: Option<&Part>, sample: usize) -> Result<Option<Part>, BuildError> {
        let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
        if a.len() as u64 * b.len() as u64 > MOST_PAIRS {
            return Ok(None);
        }
        join(a, b, MOST_CLASSES, self.joining(sample), &mut |_, _| Ok(()))
    }

    /// Returns the classes of pairs, however many they are.
    fn joined_whole(&self, a: &Part, b: &Part, sample: usize) -> Result<Part, BuildError> {
        let joined = join(a, b, usize::MAX, self.joining(sample), &mut |_, _| Ok(()))?;
        Ok(joined.expect("no limit on classes"))
    }

    /// Returns the best tree over some slots, its bytes, and whether all classes were counted.
    ///
    /// Trees are compared up to a cap that grows, so that few classes of subsets in larger trees are counted.
    fn best(&self, slots: &[Slot]) -> Result<(Node, u64, bool), BuildError> {
        let all = (1usize << slots.len()) - 1;
        let leaves_of = |set: usize| slots.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
        let leaves = (0..=all).map(|set| leaves_of(set).fold(0, |leaves, (_, slot)| leaves | slot.leaves)).collect();
        let mut subsets = Subsets { leaves, sampled: HashMap::new(), counts: vec![None; all + 1], is_exact: true };
        for (at, slot) in slots.iter().enumerate() {
            subsets.counts[1 << at] = Some(self.classes_of(slot));
        }
        let mut cap = FIRST_CAP;
        loop {
            let (bytes, halves) = self.within(cap, slots, &mut subsets)?;
            if bytes <= cap && halves[all] != 0 {
                return Ok((tree(all, &halves, slots), bytes, subsets.is_exact));
            }
            // Without a tree, every pair that is left was refused.
            if cap / SLACK > self.asked.allowed as u64 || cap == u64::MAX {
                return Err(BuildError::bytes(cap as usize, self.asked.allowed).in_part("tables, at least".to_owned()));
            }
            cap = cap.saturating_mul(2);
        }
    }

    /// Returns the bytes of the best tree of at most `cap` bytes, and the first half of each subset of the slots.
    ///
    /// The bytes are `u64::MAX` if there is no such tree.
    fn within(&self, cap: u64, slots: &[Slot], subsets: &mut Subsets) -> Result<(u64, Vec<usize>), BuildError> {
        let all = (1usize << slots.len()) - 1;
        let (mut bytes, mut halves) = (vec![u64::MAX; all + 1], vec![0; all + 1]);
        for set in 1..=all {
            if set.is_power_of_two() {
                bytes[set] = slots[set.ilog2() as usize].bytes;
                continue;
            }
            let halved = |most: u64, subsets: &Subsets| {
                let (counts, leaves) = (&subsets.counts, &subsets.leaves);
                let lowest = set & set.wrapping_neg();
                let mut best = (u64::MAX, 0);
                for half in (lowest..set).filter(|half| half & !set == 0 && half & lowest != 0) {
                    let other = set & !half;
                    let (Some(of_half), Some(of_other)) = (counts[half], counts[other]) else { continue };
                    if self.asked.known.refuses([leaves[half], leaves[other]]) {
                        continue;
                    }
                    let own = bytes_of(of_half.saturating_mul(of_other) as usize, most as usize) as u64;
                    let sum = bytes[half].saturating_add(bytes[other]).saturating_add(own);
                    best = if sum < best.0 || best.1 == 0 { (sum, half) } else { best };
                }
                best
            };
            let most = if set == all { self.asked.rules as u64 } else { 0 };
            let mut best = halved(most, subsets);
            if best.1 == 0 || best.0 > cap {
                continue;
            }
            if set != all {
                let classes = self.count(set, best.1, slots, subsets)?;
                best = halved(classes - 1, subsets);
            }
            if best.0 <= cap {
                (bytes[set], halves[set]) = best;
            }
        }
        Ok((bytes[all], halves))
    }

    /// Returns the number of classes of a subset of the slots, by joining `half` and the rest of the subset.
    fn count(&self, set: usize, half: usize, slots: &[Slot], subsets: &mut Subsets) -> Result<u64, BuildError> {
        if let Some(classes) = subsets.counts[set] {
            return Ok(classes);
        }
        let of = |set: usize| match set.is_power_of_two() {
            true => [&slots[set.ilog2() as usize]].map(|slot| [Some(&slot.small), Some(&slot.large)])[0],
            false => subsets.sampled[&set].each_ref().map(Option::as_ref),
        };
        let (a, b) = (of(half), of(set & !half));
        // The classes of the smaller sample say nothing where all products are in the larger one.
        let small = if self.is_whole() { None } else { self.joined(a[0], b[0], 1)? };
        let large = self.joined(a[1], b[1], 2)?;
        let classes = if let (true, Some(large)) = (self.is_whole(), &large) {
            large.len() as u64
        } else if let (Some(small), Some(large)) = (&small, &large) {
            self.extended(small.len() as u64, large.len() as u64)
        } else {
            subsets.is_exact = false;
            let of = |set: usize| subsets.counts[set].unwrap_or(u64::MAX);
            of(half).saturating_mul(of(set & !half))
        };
        let classes = self.asked.known.classes.get(&subsets.leaves[set]).copied().unwrap_or(classes);
        subsets.counts[set] = Some(classes);
        subsets.sampled.insert(set, [small, large]);
        Ok(classes)
    }
}

/// Subsets of the slots whose classes are counted.
struct Subsets {
    /// Leaves of each subset.
    leaves: Vec<u128>,
    sampled: HashMap<usize, Sampled>,
    counts: Vec<Option<u64>>,
    /// Whether no subset was given up.
    is_exact: bool,
}

/// Returns the tree over a set of slots.
fn tree(set: usize, halves: &[usize], slots: &[Slot]) -> Node {
    if set.is_power_of_two() {
        return slots[set.ilog2() as usize].node.clone();
    }
    Node::Join(Box::new([halves[set], set & !halves[set]].map(|half| tree(half, halves, slots))))
}
