//! Build of one tree: a list of regions becomes a root, nodes and leaves.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::bits::{self, Bits, Cubes, Limits};
use super::block::BLOCK;
use super::config::Shape;
use super::layout::{Node, Tree};
use crate::engine::selector::{Selector, pair};
use crate::raw::{Isa, Kernel, dispatch, secrets, word};

/// Largest number of regions that are not divided further among trees.
///
/// The root of their tree selects no bits.
pub(super) const FEW: usize = 2 * BLOCK;
/// Largest number of bits that a node selects.
const MOST_BITS: u32 = 16;

/// Tree whose leaves are not packed yet.
#[derive(Default)]
pub(super) struct Draft {
    /// Nodes; each stands behind the nodes to which it leads, so that the root is last.
    pub(super) nodes: Vec<Node>,
    pub(super) table: Vec<Option<DraftEntry>>,
    pub(super) leaves: Leaves,
    /// Number of the root's bits that a region of the tree may leave open; `None` is no limit.
    pub(super) open: Option<u32>,
}

/// Lists of regions in order of rank, stored back to back.
#[derive(Default)]
pub(super) struct Leaves {
    ends: Vec<usize>,
    regions: Vec<u32>,
}

impl Leaves {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, leaf: u32) -> &[u32] {
        let leaf = leaf as usize;
        let start = leaf.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.regions[start..self.ends[leaf]]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len() as u32).map(|leaf| self.get(leaf))
    }

    /// Appends a list and returns its number.
    fn push(&mut self, list: &[u32]) -> u32 {
        self.regions.extend_from_slice(list);
        self.ends.push(self.regions.len());
        self.len() as u32 - 1
    }
}

/// Target of a table entry with the best region behind it.
#[derive(Clone, Copy)]
pub(super) struct DraftEntry {
    pub(super) to: DraftTarget,
    pub(super) best: u32,
}

/// Number of a node or leaf.
#[derive(Clone, Copy)]
pub(super) enum DraftTarget {
    Node(u32),
    Leaf(u32),
}

impl Draft {
    /// Builds the tree of a root.
    pub(super) fn new(cubes: &Cubes<'_>, shape: &Shape, root: &Root) -> Self {
        let Root { bits, here: list, .. } = root;
        let copies = (list.len() as f64 * shape.growth) as usize;
        let draft = Self { open: root.open, ..Self::default() };
        let mut secret = secrets(None);
        let key = u64::from(secret()) << 32 | u64::from(secret()) | 1;
        let mut builder =
            Builder { shape, cubes, copies, draft, parted: Leaves::default(), key, known: Known::default() };
        let lists = builder.lists(list, bits);
        builder.node(bits, &lists, shape.levels.max(1) - 1);
        builder.draft
    }

    /// Returns the largest number of blocks of a leaf.
    pub(super) fn longest(&self) -> usize {
        self.leaves.iter().map(|list| list.len().div_ceil(BLOCK)).max().unwrap_or(0)
    }

    /// Returns the largest number of nodes on a walk.
    pub(super) fn levels(&self) -> usize {
        let mut levels = vec![0; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let ways = self.table[node.base as usize..][..1 << node.bits.count()].iter().flatten();
            let of = |way: &DraftEntry| if let DraftTarget::Node(node) = way.to { levels[node as usize] } else { 0 };
            levels[index] = 1 + ways.map(of).max().unwrap_or(0);
        }
        levels.last().copied().unwrap_or(0)
    }

    /// Returns where a node leads a key.
    #[inline(always)]
    pub(super) fn step<I: Isa>(&self, isa: I, node: &Node, key: &[u32]) -> Option<DraftEntry> {
        self.table[node.base as usize + node.bits.select_with(isa, |at| pair(key, at)) as usize]
    }
}

/// Root of a tree with the regions of its list divided.
#[derive(PartialEq, Eq)]
pub(super) struct Root {
    pub(super) bits: Bits,
    /// Regions that the tree holds, and the rest, which leave more than `open` bits open.
    pub(super) here: Vec<u32>,
    pub(super) rest: Vec<u32>,
    open: Option<u32>,
}

impl Root {
    pub(super) fn new(cubes: &Cubes<'_>, shape: &Shape, list: &[u32], open: Option<u32>) -> Self {
        let limits = Limits { bits: most_bits(shape, list.len()), open, growth: shape.growth };
        let mut bits = bits::choose(cubes, list, limits);
        bits.add_absent(cubes, list);
        Self::of(cubes, bits, list, open)
    }

    /// Returns the root without its bits for absent, if it has any.
    pub(super) fn without_absent(&self, cubes: &Cubes<'_>, list: &[u32]) -> Option<Self> {
        let bits = self.bits.without_absent(cubes);
        (bits != self.bits).then(|| Self::of(cubes, bits, list, self.open))
    }

    /// Returns a root for `list` that selects the bits of another tree's root.
    pub(super) fn like(cubes: &Cubes<'_>, tree: &Tree, list: &[u32]) -> Self {
        Self::of(cubes, Bits::of(tree.root.bits), list, tree.open)
    }

    fn of(cubes: &Cubes<'_>, bits: Bits, list: &[u32], open: Option<u32>) -> Self {
        let fits = |region: &u32| open.is_none_or(|open| bits.open(cubes.of(*region)) <= open);
        let (here, rest): (Vec<u32>, Vec<u32>) = list.iter().copied().partition(fits);
        // The bits decide which regions belong to the tree. They are not needed if all do.
        let bits = if here.len() <= FEW && open.is_none() { Bits::default() } else { bits };
        Self { bits, here, rest, open }
    }
}

fn most_bits(shape: &Shape, regions: usize) -> u32 {
    (regions * shape.fan_out).max(2).ilog2().min(MOST_BITS)
}

struct Builder<'a> {
    shape: &'a Shape,
    cubes: &'a Cubes<'a>,
    /// Number of copies that nodes below the root may still make.
    copies: usize,
    draft: Draft,
    /// Lists that have become nodes.
    parted: Leaves,
    /// Key of the hash over lists.
    key: u64,
    /// Targets of lists by hash, with the number in `parted` of those that became nodes.
    ///
    /// If lists have equal hashes, only the first is known.
    known: Known,
}

type Known = HashMap<u64, (DraftTarget, u32), BuildHasherDefault<Hashed>>;

/// Hasher of keys that are hashes already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0 << 8 | u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Builder<'_> {
    /// Returns the target of a list with `levels` levels left; equal lists share it.
    fn subtree(&mut self, list: &[u32], levels: usize) -> DraftTarget {
        let hash = list.iter().fold(self.key, |hash, &region| {
            let product = u128::from(hash ^ u64::from(region)) * u128::from(self.key);
            product as u64 ^ (product >> 64) as u64
        });
        let mut is_new = true;
        if let Some(&(to, number)) = self.known.get(&hash) {
            let known = match to {
                DraftTarget::Node(_) => self.parted.get(number),
                DraftTarget::Leaf(leaf) => self.draft.leaves.get(leaf),
            };
            if known == list {
                return to;
            }
            is_new = false;
        }
        let found = match self.parted(list, levels) {
            Some(node) => (DraftTarget::Node(node as u32), self.parted.push(list)),
            None => (DraftTarget::Leaf(self.draft.leaves.push(list)), 0),
        };
        if is_new {
            self.known.insert(hash, found);
        }
        found.0
    }

    /// Makes a node of a list, if the list needs one and the copies permit it.
    fn parted(&mut self, list: &[u32], levels: usize) -> Option<usize> {
        if list.len() <= BLOCK || levels == 0 || self.cubes.visits.are_too_many() {
            return None;
        }
        let limits = Limits { bits: most_bits(self.shape, list.len()), open: None, growth: self.shape.growth };
        let bits = bits::choose(self.cubes, list, limits);
        if bits.count() == 0 {
            return None;
        }
        let lists = self.lists(list, &bits);
        self.copies = self.copies.checked_sub(lists.regions.len().saturating_sub(list.len()))?;
        Some(self.node(&bits, &lists, levels - 1))
    }

    fn node(&mut self, bits: &Bits, lists: &Lists, levels: usize) -> usize {
        let base = self.draft.table.len();
        let entries = lists.starts.len() - 1;
        self.draft.table.resize(base + entries, None);
        let mut last: Option<(&[u32], DraftEntry)> = None;
        for entry in 0..entries {
            let list = lists.of(entry);
            let Some(&best) = list.first() else { continue };
            let way = match last {
                Some((earlier, way)) if earlier == list => way,
                _ => DraftEntry { to: self.subtree(list, levels), best },
            };
            last = Some((list, way));
            self.draft.table[base + entry] = Some(way);
        }
        self.draft.nodes.push(Node { bits: bits.selector(self.cubes.key_words()), base: base as u32 });
        self.draft.nodes.len() - 1
    }

    /// Returns the list of every entry of a node.
    fn lists(&self, list: &[u32], bits: &Bits) -> Lists {
        let (cubes, mut places) = (self.cubes, Vec::with_capacity(list.len()));
        let selector = bits.selector(cubes.key_words());
        dispatch(cubes.level, Places { cubes, bits: selector, list, places: &mut places });
        let mut starts = vec![0usize; (1 << bits.count()) + 1];
        places.iter().for_each(|&place| each(place, |entry| starts[entry + 1] += 1));
        for entry in 1..starts.len() {
            starts[entry] += starts[entry - 1];
        }
        cubes.visits.add(list.len() + starts[starts.len() - 1]);
        let mut next = starts.clone();
        let mut regions = vec![0; starts[starts.len() - 1]];
        for (&region, &place) in list.iter().zip(&places) {
            each(place, |entry| {
                regions[next[entry]] = region;
                next[entry] += 1;
            });
        }
        Lists { starts, regions }
    }
}

/// Kernel that finds the selected bits of each region: their value, and a mask of the open bits.
struct Places<'a> {
    cubes: &'a Cubes<'a>,
    bits: Selector,
    list: &'a [u32],
    places: &'a mut Vec<(usize, usize)>,
}

impl Kernel for Places<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { cubes, bits, list, places } = self;
        for &region in list {
            let cube = cubes.of(region);
            let part = |at: usize| cube.get(at).copied().unwrap_or((0, u32::MAX));
            let both = |of: fn((u32, u32)) -> u32, at: usize| word([at, at + 1].map(|at| of(part(at))));
            let value = bits.select_with(isa, |at| both(|(value, _)| value, at));
            let open = bits.select_with(isa, |at| both(|(_, fixed)| !fixed, at));
            places.push((value as usize, open as usize));
        }
    }
}

/// Calls `put` with every index that the selected bits can have, given the open ones.
///
/// For example, the value `0b100` with the open bits `0b011` stands in the entries 4, 5, 6 and 7.
pub(super) fn each((value, open): (usize, usize), mut put: impl FnMut(usize)) {
    let mut some = 0usize;
    loop {
        put(value | some);
        some = some.wrapping_sub(open) & open;
        if some == 0 {
            return;
        }
    }
}

/// Lists of a node's entries, stored back to back.
struct Lists {
    starts: Vec<usize>,
    regions: Vec<u32>,
}

impl Lists {
    fn of(&self, entry: usize) -> &[u32] {
        &self.regions[self.starts[entry]..self.starts[entry + 1]]
    }
}
