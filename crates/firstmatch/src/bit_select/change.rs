//! Changes in place, of a copy that nobody reads.
//!
//! A region that comes goes to the leaves it reaches, at most a few: into their block where that has room, else they get
//! a block of their own with what is theirs in it. An entry's promise is lowered. One that leaves is taken out of the
//! blocks it is found in; promises stay, at the price of a look in vain. A region that comes and reaches more leaves than
//! a few goes to a list apart, that of a tree whose root selects nothing.
//!
//! Blocks that are left keep what is in them, even what is taken out elsewhere later. It is never found: only entries that
//! the region does not reach lead there. So no tree's entries lead to another tree's blocks, and lists share a block only
//! as long as every entry that led to it does.
//!
//! What is touched is noted, so that another copy follows by taking over just that: each place is known at once, and the
//! cache misses of all of them overlap.

use super::block::{BLOCK, Shape};
use super::tree::each;
use super::{BitSelect, EMPTY, LEAF, Node, Tree};
use crate::engine::Match;
use crate::rule::{Region, Regions};
use crate::simd::{LINE_WORDS, Line, words, words_mut};

/// The most entries that a region may reach: as many as a word has bits.
const MOST_REACHED: usize = 32;
/// The most blocks that one list may have.
const MOST_BLOCKS: usize = 4;
/// Blocks that there is always room for.
const LEAST_ROOM: usize = 64;

/// How many blocks so many may come to be.
pub(super) fn room(blocks: usize) -> usize {
    2 * blocks + LEAST_ROOM
}

/// What a change may have touched, by number: blocks, entries of the table, words of the marks of first rules, and what
/// [`Added`](super::added::Added) has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Block(u32),
    Entry(u32),
    Gone(u32),
    Bucket(u32),
    Rule(u32),
    Row(u32),
}

/// The entries that a region reaches.
struct Reached {
    entries: [Way; MOST_REACHED],
    count: usize,
}

/// An entry.
#[derive(Clone, Copy)]
struct Way {
    /// Its place in the table.
    at: u32,
    /// Which of its node's it is.
    index: u32,
    node: Node,
}

/// Where an entry leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Nowhere,
    Node(usize),
    Block(usize),
}

impl Reached {
    fn new() -> Self {
        let none = Way { at: 0, index: 0, node: Node { bits: super::Selector::default(), base: 0 } };
        Self { entries: [none; MOST_REACHED], count: 0 }
    }

    fn ways(&self) -> &[Way] {
        &self.entries[..self.count]
    }
}

impl BitSelect {
    /// Adds a rule that so many of those it was built with come before; whether it could. If not nothing is changed.
    pub(crate) fn insert(&mut self, rule: Match, before: usize, regions: &Regions) -> bool {
        let Some(rank) = self.added.free_rank(before as u32, rule.priority, self.parting) else { return false };
        for (index, region) in regions.iter().enumerate() {
            if !self.put(rank, &region) {
                regions.iter().take(index).for_each(|region| self.take(rank, &region));
                return false;
            }
        }
        self.added.insert((before as u32, self.matches.len()), rank, rule, regions, &mut self.touched);
        true
    }

    /// Takes out a rule that was added, which so many of those it was built with come before; whether it was there.
    pub(crate) fn remove_added(&mut self, rule: Match, before: usize) -> bool {
        let Some(rank) = self.added.rank_of(rule.rule, before as u32) else { return false };
        let mut regions = Regions::new(self.schema.lanes().len());
        self.added.remove(before as u32, rank, &mut self.touched, |region| regions.push(*region));
        regions.iter().for_each(|region| self.take(rank, &region));
        true
    }

    /// Takes out a rule that it was built with, and its regions; whether it could. If not nothing is changed.
    pub(crate) fn remove_first<'r>(&mut self, place: usize, regions: impl Iterator<Item = Region<'r>> + Clone) -> bool {
        if !regions.clone().all(|region| self.reach(&region).is_some()) {
            return false;
        }
        let rank = self.parting.rank(place as u32 + 1);
        for region in regions {
            self.take(rank, &region);
            self.gone_regions += 1;
        }
        self.gone_rules += 1;
        if self.gone.is_empty() {
            self.gone = vec![0; self.matches.len().div_ceil(64)].into();
        }
        self.gone[place / 64] |= 1 << (place % 64);
        self.touched.push(Place::Gone((place / 64) as u32));
        true
    }

    /// Does to this copy what was done to another since they were alike or one of them last followed the other. What is
    /// noted here is forgotten.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.touched.clear();
        self.blocks.resize(other.blocks.len(), Line::default());
        self.trees.clone_from(&other.trees);
        self.has_wide = other.has_wide;
        if self.gone.len() < other.gone.len() {
            self.gone = vec![0; other.gone.len()].into();
        }
        (self.gone_rules, self.gone_regions) = (other.gone_rules, other.gone_regions);
        self.added.follow(&other.added);
        let lines = self.shape.lines();
        for place in &other.touched {
            match *place {
                Place::Block(at) => {
                    let lines = at as usize * lines..(at as usize + 1) * lines;
                    self.blocks[lines.clone()].copy_from_slice(&other.blocks[lines]);
                }
                Place::Entry(at) => self.table[at as usize] = other.table[at as usize],
                Place::Gone(at) => self.gone[at as usize] = other.gone[at as usize],
                Place::Bucket(at) => self.added.follow_bucket(&other.added, at as usize),
                Place::Rule(at) => self.added.follow_rule(&other.added, at as usize),
                Place::Row(at) => self.added.follow_row(&other.added, at as usize),
            }
        }
    }

    /// Forgets what is noted: the other copy is one of this.
    pub(crate) fn leads_none(&mut self) {
        self.touched = Vec::new();
    }

    /// Whether a rule that it was built with has not been taken out.
    pub(crate) fn has_first(&self, place: usize) -> bool {
        self.gone.get(place / 64).is_none_or(|word| word >> (place % 64) & 1 == 0)
    }

    /// How many rules have come, and how many of the first have gone.
    pub(crate) fn changes(&self) -> usize {
        self.added.rules() + self.gone_rules
    }

    /// The most cache lines and regions of a lookup, whatever comes.
    pub(crate) fn most_work(&self) -> (usize, usize) {
        let (lines, tests) = self.worst(MOST_BLOCKS);
        let wide = usize::from(!self.has_wide);
        (lines + wide * (MOST_BLOCKS * self.shape.lines() + 2), tests + wide * MOST_BLOCKS * BLOCK)
    }

    /// The most bytes that it and all that may come take.
    pub(crate) fn most_bytes(&self) -> usize {
        let blocks = self.blocks.len() / self.shape.lines();
        let more = (self.room - blocks.min(self.room)) * self.shape.lines() * size_of::<Line>();
        let now: usize = self.bytes().iter().map(|(_, bytes)| bytes).sum();
        // A vector that grows may take twice what it needs.
        now + 2 * more
    }

    /// The tree that a region belongs to, and the entries that it reaches there, if they are few.
    fn reach(&self, region: &Region<'_>) -> Option<(usize, Reached)> {
        let is_home =
            |tree: &Tree| tree.open.is_none_or(|most| tree.root.bits.of_region(region).1.count_ones() <= most);
        let tree = self.homes().iter().position(is_home)?;
        let mut reached = Reached::new();
        self.reach_from(self.trees[tree].root, region, &mut reached).then_some((tree, reached))
    }

    /// The same for a region that comes, or has come: where they are not few, the tree that has no other and its entry.
    /// Nodes stay, so it is always the same one.
    fn reach_any(&self, region: &Region<'_>) -> Option<(usize, Reached)> {
        self.reach(region).or_else(|| {
            let tree = self.trees.len().checked_sub(1).filter(|_| self.has_wide)?;
            let mut reached = Reached::new();
            self.reach_from(self.trees[tree].root, region, &mut reached).then_some((tree, reached))
        })
    }

    /// Makes the tree for regions that reach many entries of all others: the last entry of the table is left for it.
    fn widen(&mut self) {
        if !self.has_wide {
            let root = Node { bits: super::Selector::default(), base: self.table.len() as u32 - 1 };
            let wide = Tree { root, levels: 1, longest: 0, open: None, filling: None };
            self.trees = self.trees.iter().copied().chain([wide]).collect();
            self.has_wide = true;
        }
    }

    fn reach_from(&self, node: Node, region: &Region<'_>, reached: &mut Reached) -> bool {
        let (value, open) = node.bits.of_region(region);
        let start = reached.count;
        if start + (1 << open.count_ones().min(31)) > MOST_REACHED {
            return false;
        }
        each((value as usize, open as usize), |index| {
            reached.entries[reached.count] = Way { at: node.base + index as u32, index: index as u32, node };
            reached.count += 1;
        });
        for way in start..reached.count {
            if let To::Node(below) = self.to(&reached.entries[way])
                && let below = self.nodes[below]
                && !reached.ways().iter().any(|of| of.node.base == below.base)
                && !self.reach_from(below, region, reached)
            {
                return false;
            }
        }
        true
    }

    fn to(&self, way: &Way) -> To {
        match self.table[way.at as usize] {
            EMPTY => To::Nowhere,
            entry if entry & LEAF == 0 => To::Node(self.limits().index(entry)),
            entry => To::Block(self.limits().index(entry)),
        }
    }

    /// Puts a region into every leaf it reaches; whether it could. If not nothing is changed.
    fn put(&mut self, rank: u32, region: &Region<'_>) -> bool {
        if !self.shape.holds(region) {
            return false;
        }
        if self.reach(region).is_none() {
            self.widen();
        }
        let Some((tree, reached)) = self.reach_any(region) else { return false };
        let is_new = |at: usize, to: To| !reached.ways()[..at].iter().any(|way| self.to(way) == to);
        let mut needed = 0;
        for (at, way) in reached.ways().iter().enumerate() {
            let to = self.to(way);
            if matches!(to, To::Node(_)) || !is_new(at, to) {
                continue;
            }
            let len = self.len(to);
            if len >= MOST_BLOCKS * BLOCK {
                return false;
            }
            // One more than the list takes: others may come to share its block while it waits for its turn.
            needed += len / BLOCK + 2;
        }
        if self.blocks.len() / self.shape.lines() + needed > self.room {
            return false;
        }
        // Entries whose list has the region lead to where they will lead to.
        let mut done = 0u32;
        for (at, way) in reached.ways().iter().enumerate() {
            if done >> at & 1 == 1 {
                continue;
            }
            let to = self.to(way);
            let mut here = Reached::new();
            for (other, way) in reached.ways().iter().enumerate().skip(at) {
                if done >> other & 1 == 0 && self.to(way) == to {
                    here.entries[here.count] = *way;
                    here.count += 1;
                    done |= 1 << other;
                }
            }
            let promise = match to {
                To::Node(node) => self.parting.entry(rank, node as u32, false),
                _ => {
                    let (block, blocks) = self.with(tree, to, here.ways(), rank, region);
                    self.trees[tree].longest = self.trees[tree].longest.max(blocks);
                    self.parting.entry(rank, block as u32, true)
                }
            };
            // The better of both promises, and where to.
            let low = 1 << (self.parting.index + 1);
            for way in here.ways() {
                let old = &mut self.table[way.at as usize];
                let new = (*old & !(low - 1)).min(promise & !(low - 1)) | promise & (low - 1);
                if new != *old {
                    *old = new;
                    self.touched.push(Place::Entry(way.at));
                }
            }
        }
        true
    }

    /// The list of some entries with one more region: its first block, and how many it has.
    fn with(&mut self, tree: usize, to: To, here: &[Way], rank: u32, region: &Region<'_>) -> (usize, usize) {
        if let To::Block(block) = to {
            let words = self.block(block);
            if self.shape.len(words) < BLOCK && self.more(block).is_none() {
                self.touched.push(Place::Block(block as u32));
                self.add(block, rank, region);
                return (block, 1);
            }
            // Those who lead to it are others from now on.
            self.trees[tree].filling.take_if(|filling| *filling as usize == block);
        }
        let mut theirs = [(0, 0); MOST_BLOCKS * BLOCK];
        let mut count = 0;
        let mut next = if let To::Block(block) = to { Some(block) } else { None };
        while let Some(block) = next {
            for i in 0..self.shape.len(self.block(block)) {
                let is_theirs = |way: &Way| {
                    let (value, open) = self.shape.selected(self.block(block), i, &way.node);
                    (value ^ u64::from(way.index)) & !open == 0
                };
                if here.iter().any(is_theirs) {
                    theirs[count] = (block, i);
                    count += 1;
                }
            }
            next = self.more(block);
        }
        let with = count + 1;
        let first = match self.trees[tree].filling {
            Some(block) if self.shape.len(self.block(block as usize)) + with <= BLOCK => block as usize,
            _ => {
                let first = self.blocks.len() / self.shape.lines();
                (0..with.div_ceil(BLOCK)).for_each(|_| self.grow());
                if with <= BLOCK {
                    self.trees[tree].filling = Some(first as u32);
                }
                first
            }
        };
        let before = theirs[..count].partition_point(|&(block, i)| self.block(block)[i] < rank);
        let block_of = |place: usize| first + place / BLOCK;
        for (place, &(from, i)) in theirs[..count].iter().enumerate() {
            let to = block_of(place + usize::from(place >= before));
            let start = |block: usize| block * self.shape.lines() * LINE_WORDS;
            self.shape.add_copy(words_mut(&mut self.blocks), (start(from), i), start(to));
        }
        self.add(block_of(before), rank, region);
        let blocks = with.div_ceil(BLOCK);
        self.touched.extend((first..first + blocks).map(|block| Place::Block(block as u32)));
        for next in first + 1..first + blocks {
            self.go_on(next - 1, Some(next));
        }
        (first, blocks)
    }

    /// Takes a rule's regions out of every leaf that one of them reaches.
    fn take(&mut self, rank: u32, region: &Region<'_>) {
        let Some((_, reached)) = self.reach_any(region) else { return };
        let mut last = To::Nowhere;
        for way in reached.ways() {
            let to = self.to(way);
            if let To::Block(first) = to
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
            let Self { blocks, shape, touched, .. } = self;
            touched.push(Place::Block(block as u32));
            shape.take(block_mut(blocks, shape, block), rank);
            next = self.more(block);
            match before {
                // A block without regions ends a list, so only the last may be one.
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

    fn block(&self, block: usize) -> &[u32] {
        let len = self.shape.lines() * LINE_WORDS;
        &words(&self.blocks)[block * len..][..len]
    }

    fn more(&self, block: usize) -> Option<usize> {
        self.shape.more(self.block(block))
    }

    fn go_on(&mut self, block: usize, next: Option<usize>) {
        self.shape.go_on(block_mut(&mut self.blocks, &self.shape, block), next);
    }

    /// Another block without regions.
    fn grow(&mut self) {
        let block = self.blocks.len() / self.shape.lines();
        self.blocks.resize(self.blocks.len() + self.shape.lines(), Line::default());
        self.shape.write(&[], None, block_mut(&mut self.blocks, &self.shape, block));
    }

    fn add(&mut self, block: usize, rank: u32, region: &Region<'_>) {
        self.shape.add(block_mut(&mut self.blocks, &self.shape, block), rank, region);
    }

    /// How many regions a list has.
    fn len(&self, to: To) -> usize {
        let (mut len, mut next) = (0, if let To::Block(block) = to { Some(block) } else { None });
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
