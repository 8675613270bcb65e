//! Changes in place, on a replica that no reader uses.
//!
//! An inserted region is added to the leaves that it reaches, through at most 128 table slots. If the block of a leaf
//! is full, the slots get a block of their own with their regions of the old one. Their bounds are lowered to the new
//! rank if that is better. A removed region is taken out of its blocks; bounds stay, so that a lookup may test a block
//! in vain.
//! A region that reaches more slots goes to the overflow tree, whose root selects nothing.
//!
//! A block that slots have left may keep stale copies of their regions. For example, the slots 4 and 5 of a node lead
//! to a full block, and an inserted region reaches only slot 4. Slot 4 moves to another block, with the inserted
//! region and the regions of the old block that reach slot 4. Slot 5 keeps the old block, where regions that only
//! reach slot 4 are stale from now on. If there is no room for more blocks, blocks to which no slot leads are reused.
//!
//! Equal engines stay equal after equal changes, even if some are refused. So two replicas stay equal if each gets
//! every change, in the same order.
//!
//! # Invariants
//!
//! - No slot that a stale region reaches leads to its copy, so that no lookup finds it (`left` in the tests).
//! - No two trees lead to one block (`check_invariants`: debug builds call it after each change, as long as there are
//!   few blocks).
//! - New lists share a block only if their slots belong to one node, and only while every slot that ever led to the
//!   block still does (`left`). In such a block, the bits that the node selects say which regions belong to which slot.
//!   For slots of two nodes they do not: a region of one node could be taken for a region of the other, and would stay
//!   in the block when it is removed.

mod invariants;
#[cfg(test)]
mod tests;

use super::block::{BLOCK, Shape};
use super::layout::{EMPTY, Entry, LEAF, Node, Tree};
use super::structure::BitSelect;
use super::tree::each;
use super::writing::{FreeBlocks, NO_BLOCK};
use crate::engine::Match;
use crate::engine::selector::Selector;
use crate::raw::{LINE_WORDS, Line, words, words_mut};
use crate::rule::{Region, Regions};

/// Largest number of slots that a region may reach: the bits of the largest integer.
const MOST_REACHED: usize = 128;
/// Largest number of blocks to which a change may extend a list.
const MOST_BLOCKS: usize = 4;
/// Returns the number of blocks that `blocks` built blocks may grow to.
///
/// The room is ample, because rules that must go elsewhere for want of room cost lookups more than further blocks do.
pub(super) fn room(blocks: usize) -> usize {
    2 * blocks + blocks.min(512) + 64
}

/// Slots that a region reaches.
struct Reached {
    entries: [Slot; MOST_REACHED],
    count: usize,
}

/// Slot: a table entry and its place in a node.
#[derive(Clone, Copy)]
struct Slot {
    /// Position in the table.
    at: u32,
    /// Index among the entries of its node.
    index: u32,
    /// Number of the node; the roots of trees are counted behind the nodes.
    node: u32,
}

/// Target of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Nothing,
    Node(usize),
    Block(usize),
}

/// Region that is being added to blocks.
struct Added<'r> {
    rank: u32,
    region: &'r Region<'r>,
    /// Last block that got the region, and its position there: copying it takes less time than writing it anew.
    last: Option<(usize, usize)>,
}

impl Reached {
    fn new() -> Self {
        Self { entries: [Slot { at: 0, index: 0, node: 0 }; MOST_REACHED], count: 0 }
    }

    fn slots(&self) -> &[Slot] {
        &self.entries[..self.count]
    }

    /// Returns the slots whose bits are set.
    fn of(&self, mut bits: u128) -> impl Iterator<Item = &Slot> + Clone {
        std::iter::from_fn(move || {
            let slot = self.entries.get(bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(slot)
        })
    }
}

impl BitSelect {
    /// Inserts a rule that follows `before` built rules, and returns whether it could.
    ///
    /// If not, its regions are taken out again and no answer changes.
    pub(super) fn insert_rule(&mut self, rule: Match, before: usize, regions: &Regions) -> bool {
        let Some(rank) = self.inserted.free_rank(before as u32, rule.priority, self.layout) else { return false };
        for (index, region) in regions.iter().enumerate() {
            if !self.put(rank, &region) {
                regions.iter().take(index).for_each(|region| self.take(rank, &region));
                return false;
            }
        }
        self.inserted.insert((before as u32, self.matches.len()), rank, rule, regions);
        true
    }

    /// Removes an inserted rule that follows `before` built rules; returns whether it was there.
    pub(super) fn remove_inserted_rule(&mut self, rule: Match, before: usize) -> bool {
        let Some(rank) = self.inserted.rank_of(rule.rule, before as u32) else { return false };
        let mut regions = Regions::new(self.schema.words().len());
        self.inserted.remove(before as u32, rank, |region| regions.push(*region));
        regions.iter().for_each(|region| self.take(rank, &region));
        true
    }

    /// Removes a built rule with its regions, and returns whether it could.
    ///
    /// If not, nothing changes.
    pub(super) fn remove_built_rule<'r>(
        &mut self,
        place: usize,
        regions: impl Iterator<Item = Region<'r>> + Clone,
    ) -> bool {
        let reached = &mut Reached::new();
        if !regions.clone().all(|region| self.reach(&region, reached).is_some()) {
            return false;
        }
        let rank = self.layout.rank(place as u32 + 1);
        // The reach of a single region is known already.
        let is_single = regions.clone().nth(1).is_none();
        for region in regions {
            if is_single || self.reach(&region, reached).is_some() {
                self.take_out(rank, reached);
            }
            self.removed_regions += 1;
        }
        self.removed_rules += 1;
        if self.removed.is_empty() {
            self.removed = vec![0; self.matches.len().div_ceil(64)].into();
        }
        self.removed[place / 64] |= 1 << (place % 64);
        true
    }

    /// Whether a built rule has not been removed.
    pub(super) fn has_built_rule(&self, place: usize) -> bool {
        self.removed.get(place / 64).is_none_or(|word| word >> (place % 64) & 1 == 0)
    }

    /// Returns the most cache lines and region tests of a lookup, whatever is inserted.
    pub(super) fn most_cost(&self) -> (usize, usize) {
        let (lines, tests) = self.worst(MOST_BLOCKS);
        let wide = usize::from(!self.has_overflow_tree);
        (lines + wide * (MOST_BLOCKS * self.shape.lines() + 2), tests + wide * MOST_BLOCKS * BLOCK)
    }

    /// Returns the most bytes of the engine once it has as many blocks as it may get.
    ///
    /// Records of inserted rules count as they are now. A commit checks the budget with those that it adds.
    pub(super) fn most_bytes(&self) -> usize {
        let blocks = self.blocks.capacity() / self.shape.lines();
        let more = (self.room - blocks.min(self.room)) * self.shape.lines() * size_of::<Line>();
        let now: usize = self.bytes().iter().map(|(_, bytes)| bytes).sum();
        let append_block = if self.append_block.is_empty() { self.append_block_count() } else { 0 };
        // All blocks may be free.
        now - self.free_blocks.bytes() + more + (self.room + append_block) * size_of::<u32>()
    }

    /// Lists the slots that a region reaches and returns its built tree; `None` if the slots are too many.
    fn reach(&self, region: &Region<'_>, reached: &mut Reached) -> Option<usize> {
        let is_home = |tree: &Tree| {
            tree.open.is_none_or(|most| tree.root.bits.of_region(self.level, region).1.count_ones() <= most)
        };
        let tree = self.built_trees().iter().position(is_home)?;
        self.reach_in(tree, region, reached)
    }

    fn reach_in(&self, tree: usize, region: &Region<'_>, reached: &mut Reached) -> Option<usize> {
        reached.count = 0;
        self.reach_from(self.nodes.len() + tree, region, reached).then_some(tree)
    }

    /// Lists the slots of a region and returns its tree, which is the overflow tree if these are too many.
    ///
    /// Nodes do not change, so that the answer for a region is always the same.
    fn reach_any(&self, region: &Region<'_>, reached: &mut Reached) -> Option<usize> {
        self.reach(region, reached).or_else(|| {
            let tree = self.trees.len().checked_sub(1).filter(|_| self.has_overflow_tree)?;
            self.reach_in(tree, region, reached)
        })
    }

    /// Creates the overflow tree, whose table is the last entry.
    fn widen(&mut self) {
        if !self.has_overflow_tree {
            let root = Node { bits: Selector::default(), base: self.table.len() as u32 - 1 };
            let wide = Tree { root, levels: 1, longest: 0, open: None };
            self.trees = self.trees.iter().copied().chain([wide]).collect();
            self.has_overflow_tree = true;
        }
    }

    /// Returns a node, or a root by the number behind the nodes.
    fn node(&self, number: usize) -> &Node {
        self.nodes.get(number).unwrap_or_else(|| &self.trees[number - self.nodes.len()].root)
    }

    fn reach_from(&self, number: usize, region: &Region<'_>, reached: &mut Reached) -> bool {
        let node = self.node(number);
        let (value, open) = node.bits.of_region(self.level, region);
        let start = reached.count;
        if start + (1 << open.count_ones().min(31)) > MOST_REACHED {
            return false;
        }
        each((value as usize, open as usize), |index| {
            let slot = Slot { at: node.base + index as u32, index: index as u32, node: number as u32 };
            reached.entries[reached.count] = slot;
            reached.count += 1;
        });
        for slot in start..reached.count {
            if let Target::Node(below) = self.to(&reached.entries[slot])
                && !reached.slots().iter().any(|of| of.node as usize == below)
                && !self.reach_from(below, region, reached)
            {
                return false;
            }
        }
        true
    }

    fn to(&self, slot: &Slot) -> Target {
        self.target(self.table[slot.at as usize])
    }

    fn target(&self, entry: Entry) -> Target {
        match entry {
            EMPTY => Target::Nothing,
            entry if entry & LEAF == 0 => Target::Node(self.limits().index(entry)),
            entry => Target::Block(self.limits().index(entry)),
        }
    }

    /// Adds a region to every leaf that it reaches, and returns whether it could.
    ///
    /// If not, all lists are unchanged.
    fn put(&mut self, rank: u32, region: &Region<'_>) -> bool {
        if !self.shape.holds(region) {
            return false;
        }
        let reached = &mut Reached::new();
        let Some(tree) = self.reach(region, reached).or_else(|| {
            self.widen();
            self.reach_any(region, reached)
        }) else {
            return false;
        };
        // Slots by target, which an entry names behind its bound. Slots with the same target keep a common target.
        let low = (1 << (self.layout.index + 1)) - 1;
        let mut together: Vec<(Entry, u128)> = Vec::new();
        for (at, slot) in reached.slots().iter().enumerate() {
            let entry = self.table[slot.at as usize];
            let to = if entry == EMPTY { EMPTY } else { entry & low };
            match together.iter_mut().find(|(of, _)| *of == to) {
                Some((_, slots)) => *slots |= 1 << at,
                None => together.push((to, 1 << at)),
            }
        }
        let mut needed = 0;
        for to in together.iter().map(|&(to, _)| self.target(to)).filter(|to| !matches!(to, Target::Node(_))) {
            let len = self.len(to);
            if len >= MOST_BLOCKS * BLOCK {
                return false;
            }
            // One block more than the list takes, because others may come to share its block while it waits for its
            // turn.
            needed += len / BLOCK + 2;
        }
        if !self.has_room(needed) {
            return false;
        }
        let added = &mut Added { rank, region, last: None };
        for (to, slots) in together {
            let slots = reached.of(slots);
            let bound = match self.target(to) {
                Target::Node(node) => self.layout.entry(rank, node as u32, false),
                to => {
                    let (block, blocks) = self.with(to, slots.clone(), added);
                    self.trees[tree].longest = self.trees[tree].longest.max(blocks);
                    self.layout.entry(rank, block as u32, true)
                }
            };
            // The lower of both bounds, and the new target.
            for slot in slots {
                let entry = &mut self.table[slot.at as usize];
                *entry = (*entry & !low).min(bound & !low) | bound & low;
            }
        }
        true
    }

    /// Adds a region to the list of some slots; returns its first block and number of blocks.
    fn with<'w>(
        &mut self,
        to: Target,
        here: impl Iterator<Item = &'w Slot> + Clone,
        added: &mut Added<'_>,
    ) -> (usize, usize) {
        if let Target::Block(block) = to {
            let words = self.block(block);
            if self.shape.len(words) < BLOCK && self.more(block).is_none() {
                self.add(block, added);
                return (block, 1);
            }
        }
        // The node of all slots, if they have one node.
        let mut nodes = here.clone().map(|slot| slot.node as usize);
        let node = nodes.next().filter(|node| nodes.all(|other| other == *node));
        let mut append_block = node.and_then(|node| self.append_block(node));
        if let Some(node) = node
            && append_block.map(Target::Block) == Some(to)
        {
            // Some slots leave the block, so that it can be the append block no longer.
            self.fill(node, None);
            append_block = None;
        }
        let mut theirs = [(0, 0); MOST_BLOCKS * BLOCK];
        let mut count = 0;
        let mut next = if let Target::Block(block) = to { Some(block) } else { None };
        while let Some(block) = next {
            let words = self.block(block);
            for i in 0..self.shape.len(words) {
                // Slots of one node come one after another.
                let mut of = (u32::MAX, (0, 0));
                let is_theirs = |slot: &Slot| {
                    if slot.node != of.0 {
                        let node = self.node(slot.node as usize);
                        of = (slot.node, self.shape.selected(self.level, words, i, node));
                    }
                    let (value, open) = of.1;
                    (value ^ u64::from(slot.index)) & !open == 0
                };
                if here.clone().any(is_theirs) {
                    theirs[count] = (block, i);
                    count += 1;
                }
            }
            next = self.more(block);
        }
        let with = count + 1;
        let mut list = [0; MOST_BLOCKS];
        let list = &mut list[..with.div_ceil(BLOCK)];
        match append_block {
            Some(block) if self.shape.len(self.block(block)) + with <= BLOCK => list[0] = block,
            _ => {
                list.fill_with(|| self.another());
                if let ([block], Some(node)) = (&*list, node) {
                    self.fill(node, Some(*block));
                }
            }
        }
        let before = theirs[..count].partition_point(|&(block, i)| self.shape.rank(self.block(block), i) < added.rank);
        let block_of = |place: usize| list[place / BLOCK];
        for (place, &from) in theirs[..count].iter().enumerate() {
            self.add_copy(from, block_of(place + usize::from(place >= before)));
        }
        self.add(block_of(before), added);
        list.windows(2).for_each(|pair| self.go_on(pair[0], Some(pair[1])));
        (list[0], list.len())
    }

    /// Returns the append block of a node. A block stops being one once a slot has left it.
    fn append_block(&self, node: usize) -> Option<usize> {
        self.append_block.get(node).filter(|&&block| block != NO_BLOCK).map(|&block| block as usize)
    }

    fn fill(&mut self, node: usize, block: Option<usize>) {
        if self.append_block.is_empty() {
            self.append_block = vec![NO_BLOCK; self.append_block_count()].into();
        }
        self.append_block[node] = block.map_or(NO_BLOCK, |block| block as u32);
    }

    /// Returns the number of nodes and roots, including the root of the overflow tree.
    fn append_block_count(&self) -> usize {
        self.nodes.len() + self.built_trees().len() + 1
    }

    /// Takes a rule out of every leaf that one of its regions reaches.
    fn take(&mut self, rank: u32, region: &Region<'_>) {
        let reached = &mut Reached::new();
        if self.reach_any(region, reached).is_some() {
            self.take_out(rank, reached);
        }
    }

    fn take_out(&mut self, rank: u32, reached: &Reached) {
        let mut last = Target::Nothing;
        for slot in reached.slots() {
            let to = self.to(slot);
            if let Target::Block(first) = to
                && to != last
            {
                self.take_from(first, rank);
            }
            last = to;
        }
    }

    fn take_from(&mut self, first: usize, rank: u32) {
        let (mut before, mut next) = (None, Some(first));
        while let Some(block) = next {
            let Self { blocks, shape, .. } = self;
            shape.take(block_mut(blocks, shape, block), rank);
            next = self.more(block);
            match before {
                // A block without regions ends a list, so that only the last block may be empty.
                Some(before) if self.shape.len(self.block(block)) == 0 => self.go_on(before, next),
                _ => before = Some(block),
            }
        }
        if self.shape.len(self.block(first)) == 0
            && let Some(next) = self.more(first)
        {
            let words = self.shape.lines() * LINE_WORDS;
            words_mut(&mut self.blocks).copy_within(next * words..(next + 1) * words, first * words);
        }
    }

    pub(super) fn block(&self, block: usize) -> &[u32] {
        let len = self.shape.lines() * LINE_WORDS;
        &words(&self.blocks)[block * len..][..len]
    }

    fn more(&self, block: usize) -> Option<usize> {
        self.shape.more(self.block(block))
    }

    fn go_on(&mut self, block: usize, next: Option<usize>) {
        self.shape.go_on(block_mut(&mut self.blocks, &self.shape, block), next);
    }

    /// Returns a block without regions, free or new.
    fn another(&mut self) -> usize {
        self.free_blocks.taken += 1;
        let block = self.free_blocks.take().unwrap_or_else(|| {
            let block = self.blocks.len() / self.shape.lines();
            self.grow(block + 1);
            block
        });
        self.shape.write(&[], None, block_mut(&mut self.blocks, &self.shape, block));
        block
    }

    /// Extends the blocks to `blocks`, in memory that doubles up to `room`.
    fn grow(&mut self, blocks: usize) {
        let lines = blocks * self.shape.lines();
        if lines > self.blocks.capacity() {
            let most = (2 * lines).min(self.room * self.shape.lines()).max(lines);
            self.blocks.reserve_exact(most - self.blocks.len());
        }
        self.blocks.resize(lines, Line::default());
    }

    /// Whether there is room for `needed` more blocks.
    ///
    /// A search for free blocks takes as long as there are entries and blocks. It is done only if a quarter of `room`
    /// has been taken since the last one.
    /// If fewer were found than that, there is no other search: a refusal then says that there is little room.
    fn has_room(&mut self, needed: usize) -> bool {
        if self.room_left() < needed && self.free_blocks.taken >= self.room / 4 {
            self.look_for_free_blocks();
        }
        let has_room = self.room_left() >= needed;
        self.free_blocks.was_little |= !has_room && self.room_left() < self.room / 8;
        has_room
    }

    fn room_left(&self) -> usize {
        self.room.saturating_sub(self.blocks.len() / self.shape.lines()) + self.free_blocks.left
    }

    fn look_for_free_blocks(&mut self) {
        let mut is_used = vec![false; self.blocks.len() / self.shape.lines()];
        let leaves = self.table.iter().filter(|&&entry| entry != EMPTY && entry & LEAF != 0);
        let leaves = leaves.map(|&entry| self.limits().index(entry));
        for first in leaves {
            let mut next = Some(first);
            while let Some(block) = next.filter(|&block| !is_used[block]) {
                is_used[block] = true;
                next = self.more(block);
            }
        }
        let free_blocks = (0..).zip(is_used).filter_map(|(block, is_used)| (!is_used).then_some(block));
        self.free_blocks = FreeBlocks::of(free_blocks);
        self.free_blocks.was_little = self.room_left() < self.room / 4;
    }

    fn add(&mut self, block: usize, added: &mut Added<'_>) {
        let at = match added.last {
            Some(last) if last.0 != block => self.add_copy(last, block),
            _ => self.shape.add(block_mut(&mut self.blocks, &self.shape, block), added.rank, added.region),
        };
        added.last = Some((block, at));
    }

    /// Adds region `i` of the block `from` to another block; returns its position there.
    fn add_copy(&mut self, (from, i): (usize, usize), to: usize) -> usize {
        let len = self.shape.lines() * LINE_WORDS;
        let both = [from, to].map(|block| block * len..(block + 1) * len);
        let [from, to] = words_mut(&mut self.blocks).get_disjoint_mut(both).expect("the blocks differ");
        self.shape.add_copy(from, i, to)
    }

    /// Returns the number of regions in a list.
    fn len(&self, to: Target) -> usize {
        let (mut len, mut next) = (0, if let Target::Block(block) = to { Some(block) } else { None });
        while let Some(block) = next {
            len += self.shape.len(self.block(block));
            next = self.more(block);
        }
        len
    }
}

fn block_mut<'b>(blocks: &'b mut [Line], shape: &Shape, block: usize) -> &'b mut [u32] {
    let len = shape.lines() * LINE_WORDS;
    &mut words_mut(blocks)[block * len..][..len]
}
