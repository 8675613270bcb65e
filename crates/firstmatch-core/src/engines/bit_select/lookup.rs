//! Lookups of batches: chunks of keys pass all trees in lock step.

use super::block::{self, NONE};
use super::columns::{CHUNK, Columns, Entries, Kind, TOGETHER, rank_of, step};
use super::layout::{EMPTY, Entry, LEAF, Tree};
use super::single::{One, Single, one};
use super::structure::{BitSelect, Marks};
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::steps::StepCounter;
use crate::engine::tombstones::LiveRules;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, dispatch, dispatch_scalar, dispatch_vectors, words};

/// Batches of at most this many keys are looked up one by one.
const ALONE: usize = 3;
/// Minimum number of hits and of misses in a chunk for which hits are found by bits.
///
/// The hit/miss branch is then unpredictable. With fewer hits or misses, the branch takes less time.
const MIXED: usize = 4;
/// Number of keys that are listed at once.
const EIGHT: usize = 8;

/// Improves the match of each key where there is a better one.
#[inline]
pub(super) fn lookup(engine: &BitSelect, live_rules: impl LiveRules, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    if let [best] = best {
        return one(engine, live_rules, keys.words(), best);
    }
    if best.len() > ALONE {
        return many(&mut Lookup { engine, live_rules, keys, best });
    }
    few(engine, live_rules, keys, best);
}

/// Improves the match of each key over the live rules alone.
///
/// Only keys whose answer has been removed are looked up in this way. They are few, so one kernel for all columns is
/// enough.
pub(super) fn lookup_live(engine: &BitSelect, live_rules: Marks<'_>, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    dispatch(engine.level, Many(&mut Lookup { engine, live_rules, keys, best }, &engine.shape));
}

/// Improves the match of each key, and counts the steps.
///
/// The steps are those of [`lookup`], whatever the columns and the level.
pub(super) fn counted(engine: &BitSelect, counter: &StepCounter, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    let (live_rules, columns) = (counter, &engine.shape);
    if best.len() > ALONE {
        return dispatch_scalar(Many(&mut Lookup { engine, live_rules, keys, best }, columns));
    }
    for (best, key) in best.iter_mut().zip(keys.words().chunks_exact(keys.stride())) {
        dispatch_scalar(One(&mut Single { engine, columns, live_rules, key, best }));
    }
}

/// Looks up a few keys one by one.
///
/// It is not inlined, so that a single key pays for no preparation.
#[inline(never)]
fn few(engine: &BitSelect, live_rules: impl LiveRules, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    let keys = keys.words().chunks_exact(keys.stride());
    best.iter_mut().zip(keys).for_each(|(best, key)| one(engine, live_rules, key, best));
}

/// Keys and answers of a lookup.
///
/// Kernels borrow it, as it borrows the keys. A copy may be read in wider pieces than it has just been written in;
/// without store forwarding such a load waits for the stores.
struct Lookup<'a, A> {
    engine: &'a BitSelect,
    live_rules: A,
    keys: &'a Keys<'a>,
    best: &'a mut [Option<Match>],
}

/// Kernel for any number of keys.
struct Many<'l, 'a, C, A>(&'l mut Lookup<'a, A>, C);

/// Looks up any number of keys, with a separate kernel for each form of columns.
///
/// One kernel for all forms would be a function of 400 KB, which takes long to compile.
#[inline(always)]
fn many(lookup: &mut Lookup<'_, impl LiveRules>) {
    let Lookup { engine: &BitSelect { level, columns, ref shape, .. }, .. } = *lookup;
    match columns {
        Kind::Plain4(columns) => dispatch_vectors(Many(lookup, columns)),
        Kind::Wide4(columns) => dispatch_vectors(Many(lookup, columns)),
        Kind::Plain6(columns) => dispatch_vectors(Many(lookup, columns)),
        Kind::Any => dispatch(level, Many(lookup, shape)),
    }
}

impl<C: Columns, A: LiveRules> Kernel for Many<'_, '_, C, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        self.0.many(isa, self.1);
    }
}

impl<A: LiveRules> Lookup<'_, A> {
    #[inline(always)]
    fn many<I: Isa, C: Columns>(&mut self, isa: I, columns: C) {
        let &mut Self { engine, live_rules, keys, ref mut best } = self;
        let stride = columns.stride(keys.stride());
        for (best, words) in best.chunks_mut(CHUNK).zip(keys.words().chunks(CHUNK * stride)) {
            let (count, keys) = (words.len() / stride, columns.chunk(words, stride));
            let (ranks, leaves, nodes) = ([NONE; CHUNK], List::NONE, List::NONE);
            let mut chunk = Chunk { engine, live_rules, columns, keys, count, ranks, leaves, nodes };
            for (group, trees) in engine.trees.chunks(TOGETHER).enumerate() {
                let is_first = group == 0;
                match trees.len() {
                    1 if C::EACH_COUNT => chunk.search::<I, 1>(isa, &trees[..1], is_first),
                    2 if C::EACH_COUNT => chunk.search::<I, 2>(isa, &trees[..2], is_first),
                    3 if C::EACH_COUNT => chunk.search::<I, 3>(isa, &trees[..3], is_first),
                    _ if C::EACH_COUNT => chunk.search::<I, TOGETHER>(isa, &trees[..TOGETHER], is_first),
                    _ => chunk.search::<I, TOGETHER>(isa, trees, is_first),
                }
            }
            let mut found = 0;
            for (group, ranks) in chunk.ranks.as_chunks::<EIGHT>().0.iter().enumerate() {
                found |= isa.below8(ranks, &[NONE; EIGHT]).0 << (group * EIGHT);
            }
            let count = found.count_ones() as usize;
            let is_mixed = count.min(best.len().saturating_sub(count)) >= MIXED;
            improve_all(best, engine, &chunk.ranks, if is_mixed { found } else { 0 });
        }
    }
}

/// Improves the matches of a chunk by the ranks found.
///
/// If `mixed` is not 0, it has a bit for each key whose value is a rank. The function is not inlined, so that loop
/// constants stay in registers.
#[inline(never)]
fn improve_all(best: &mut [Option<Match>], engine: &BitSelect, ranks: &[u32; CHUNK], mut mixed: u32) {
    let layout = engine.layout;
    if engine.inserted.rules() != 0 {
        return improve_changed(best, engine, ranks);
    }
    if mixed == 0 {
        for (best, &rank) in best.iter_mut().zip(ranks) {
            // For a value that is no rank the position is beyond all rules.
            if let Some(&found) = engine.matches.get(layout.last_place(rank)) {
                found.improve(best);
            }
        }
    }
    while mixed != 0 {
        let i = mixed.trailing_zeros() as usize & (CHUNK - 1);
        mixed &= mixed - 1;
        if let (Some(best), Some(&found)) = (best.get_mut(i), engine.matches.get(layout.last_place(ranks[i]))) {
            found.improve(best);
        }
    }
}

/// Does the same if rules have been inserted.
#[inline(never)]
fn improve_changed(best: &mut [Option<Match>], engine: &BitSelect, ranks: &[u32; CHUNK]) {
    let layout = engine.layout;
    // Whether a rule is built or inserted is unpredictable, so keys are listed by this without a branch.
    let (mut first, mut came) = (List::NONE, List::NONE);
    for (i, &rank) in (0..best.len() as u8).zip(ranks) {
        let (is_rank, is_first) = (block::is_rank(rank), layout.place(rank).is_some());
        first.add(i, is_rank & is_first);
        came.add(i, is_rank & !is_first);
    }
    for at in 0..first.count {
        let i = usize::from(first.get(at)) & (CHUNK - 1);
        if let (Some(best), Some(&found)) = (best.get_mut(i), engine.matches.get(layout.last_place(ranks[i]))) {
            found.improve(best);
        }
    }
    for at in 0..came.count {
        let i = usize::from(came.get(at)) & (CHUNK - 1);
        if let (Some(best), Some(found)) = (best.get_mut(i), engine.inserted.of(ranks[i], layout)) {
            found.improve(best);
        }
    }
}

/// List of pending entries of a chunk, with room for eight more.
///
/// An item is the number of the key plus [`CHUNK`] times the number of the tree.
struct List {
    items: [u8; TOGETHER * CHUNK + EIGHT],
    count: usize,
}

impl List {
    const NONE: Self = Self { items: [0; TOGETHER * CHUNK + EIGHT], count: 0 };

    /// Appends an item if `listed`, without a branch.
    #[inline(always)]
    fn add(&mut self, item: u8, listed: bool) {
        self.items[self.count & (TOGETHER * CHUNK - 1)] = item;
        self.count += usize::from(listed);
    }

    /// Appends the items `from` to `from + 7` whose bits are set in `which`.
    #[inline(always)]
    fn add_eight(&mut self, from: usize, which: u32) {
        let places = PLACES[which as usize & 0xFF].wrapping_add(from as u64 * 0x0101_0101_0101_0101);
        if let Some(items) = self.items[self.count & (TOGETHER * CHUNK - 1)..].first_chunk_mut() {
            *items = places.to_le_bytes();
        }
        self.count += which.count_ones() as usize;
    }

    #[inline(always)]
    fn get(&self, at: usize) -> u8 {
        self.items[at & (TOGETHER * CHUNK - 1)]
    }
}

/// Positions of the set bits of each byte, ascending, a byte each.
///
/// For example, the byte `0b1010` has the positions 1 and 3, stored as `0x0301`.
const PLACES: [u64; 256] = {
    let mut places = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                places[byte] |= bit << (8 * count);
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    places
};

/// Value aligned to a cache line, because a wide load that spans two lines takes longer.
#[repr(align(64))]
struct Aligned<T>(T);

/// Chunk of keys on their way through the trees.
#[repr(align(64))]
struct Chunk<'a, C: Columns, A> {
    engine: &'a BitSelect,
    live_rules: A,
    columns: C,
    keys: C::Chunk<'a>,
    /// Number of keys.
    count: usize,
    /// Best rank found for each key.
    ranks: [u32; CHUNK],
    leaves: List,
    nodes: List,
}

impl<'a, C: Columns, A: LiveRules> Chunk<'a, C, A> {
    /// Takes every key through the roots of at most `MOST` trees, then to leaves.
    ///
    /// In the first group of trees each key follows the entry with the lowest bound. Afterwards, in every group, it
    /// follows the entries whose bounds permit a better rank than the one found so far.
    #[inline(always)]
    fn search<I: Isa, const MOST: usize>(&mut self, isa: I, trees: &[Tree], is_first: bool) {
        let (engine, columns) = (self.engine, self.columns);
        let (mut entries, mut first) = (Aligned([[EMPTY; CHUNK]; MOST]), Aligned([EMPTY; CHUNK]));
        let (entries, first) = (&mut entries.0, &mut first.0);
        for (entries, tree) in entries.iter_mut().zip(trees) {
            let table = &engine.table[tree.root.base as usize..][..1 << tree.root.bits.count()];
            columns.entries(isa, self.keys, tree, table, entries);
            *first = std::array::from_fn(|i| first[i].min(entries[i]));
        }
        if is_first {
            self.first(isa, first);
            if trees.len() == 1 {
                return;
            }
        } else {
            *first = [EMPTY; CHUNK];
        }
        let second = self.second(isa, &entries[..trees.len()], first);
        if trees.len() > 2 || !is_first {
            self.rest(isa, entries, trees.len(), &second);
        }
    }

    /// Takes every key to the leaf of its best entry and tests the leaf.
    #[inline(always)]
    fn first<I: Isa>(&mut self, isa: I, first: &Entries) {
        let Self { engine, live_rules, columns, .. } = *self;
        let limits = engine.limits();
        let mut at = Aligned(*first);
        let at = &mut at.0;
        for (index, entries) in first.as_chunks::<EIGHT>().0.iter().enumerate().take(self.groups()) {
            self.nodes.add_eight(index * EIGHT, isa.odd8(entries) ^ 0xFF);
        }
        if engine.is_large {
            first.iter().take(self.count).for_each(|&entry| self.prefetch(isa, entry));
        }
        self.walk(isa, at, false);
        let blocks = words(&engine.blocks);
        for (i, ((at, best), key)) in at.iter_mut().zip(&mut self.ranks).zip(columns.keys(self.keys)).enumerate() {
            let Some(block) = columns.block(blocks, limits.index(*at)) else { continue };
            live_rules.saw(Step::Block);
            let rank = rank_of(columns, block, columns.hits(isa, block, key), live_rules);
            *best = rank;
            if let Some(more) = block::goes_on(rank) {
                *at = limits.leaf(more);
                self.leaves.add(i as u8, true);
            }
        }
        self.test(isa, at);
    }

    /// Takes every key to the leaf of its next entry if that may hold a better rank.
    ///
    /// Returns that entry for each key.
    #[inline(always)]
    fn second<I: Isa>(&mut self, isa: I, entries: &[Entries], first: &Entries) -> Entries {
        let limits = self.engine.limits();
        let mut second = [EMPTY; CHUNK];
        let mut nodes = 0;
        for group in 0..self.groups() {
            let [ranks, first] = [&self.ranks, first].map(|all| &all.as_chunks::<EIGHT>().0[group]);
            let mut least = [EMPTY; EIGHT];
            for entries in entries {
                let entries = &entries.as_chunks::<EIGHT>().0[group];
                least = std::array::from_fn(|i| least[i].min(if entries[i] == first[i] { EMPTY } else { entries[i] }));
            }
            second.as_chunks_mut().0[group] = least;
            let (goes_on, odd) = isa.below8(&least, &ranks.map(|rank| limits.of(rank)));
            self.leaves.add_eight(group * EIGHT, goes_on);
            nodes |= goes_on & !odd;
        }
        let mut at = second;
        self.follow(isa, &mut at, nodes != 0);
        second
    }

    /// Takes every key to the leaves of all other trees that may hold a better rank.
    #[inline(always)]
    fn rest<I: Isa>(&mut self, isa: I, entries: &mut [Entries], trees: usize, second: &Entries) {
        let limits = self.engine.limits();
        let mut nodes = 0;
        for group in 0..self.groups() {
            let [ranks, second] = [&self.ranks, second].map(|all| &all.as_chunks::<EIGHT>().0[group]);
            let most = ranks.map(|rank| limits.of(rank));
            for (tree, entries) in entries.iter().enumerate().take(trees) {
                let entries = &entries.as_chunks::<EIGHT>().0[group];
                let left = std::array::from_fn(|i| if entries[i] <= second[i] { EMPTY } else { entries[i] });
                let (goes_on, odd) = isa.below8(&left, &most);
                self.leaves.add_eight(tree * CHUNK + group * EIGHT, goes_on);
                nodes |= goes_on & !odd;
            }
        }
        self.follow(isa, entries.as_flattened_mut(), nodes != 0);
    }

    /// Takes the listed entries to leaves, if some are nodes, and tests the leaves.
    #[inline(always)]
    fn follow<I: Isa>(&mut self, isa: I, at: &mut [Entry], nodes: bool) {
        if nodes {
            let listed = std::mem::take(&mut self.leaves.count);
            for index in 0..listed {
                let item = self.leaves.get(index);
                let is_leaf = at.get(usize::from(item)).is_some_and(|entry| entry & LEAF != 0);
                self.leaves.add(item, is_leaf);
                self.nodes.add(item, !is_leaf);
            }
            self.walk(isa, at, true);
        }
        self.test(isa, at);
    }

    /// Takes the entries of the node list through nodes until they are leaves.
    ///
    /// With `lists` it drops the entries that no longer permit a better rank, and lists the leaves.
    #[inline(always)]
    fn walk<I: Isa>(&mut self, isa: I, at: &mut [Entry], lists: bool) {
        let engine = self.engine;
        let limits = engine.limits();
        while self.nodes.count > 0 {
            let listed = std::mem::take(&mut self.nodes.count);
            for index in 0..listed {
                let item = self.nodes.get(index);
                let i = usize::from(item) & (CHUNK - 1);
                let Some(at) = place(at, item) else { continue };
                let Some(node) = engine.nodes.get(limits.index(*at)) else { continue };
                self.live_rules.saw(Step::Node);
                let entry = step(isa, self.columns, node, &engine.table, self.key(i));
                *at = entry;
                self.prefetch(isa, entry);
                let goes_on = !lists || entry < limits.of(self.ranks[i]);
                let is_leaf = entry & LEAF != 0;
                if lists {
                    self.leaves.add(item, goes_on & is_leaf);
                }
                self.nodes.add(item, goes_on & !is_leaf);
            }
        }
    }

    /// Tests the block of each listed leaf, then the next one if that may hold a better rank.
    #[inline(always)]
    fn test<I: Isa>(&mut self, isa: I, at: &mut [Entry]) {
        let Self { engine, live_rules, columns, .. } = *self;
        let limits = engine.limits();
        let blocks = words(&engine.blocks);
        while self.leaves.count > 0 {
            let listed = std::mem::take(&mut self.leaves.count);
            for index in 0..listed {
                let item = self.leaves.get(index);
                let i = usize::from(item) & (CHUNK - 1);
                let Some(at) = place(at, item) else { continue };
                let Some(block) = columns.block(blocks, limits.index(*at)) else { continue };
                live_rules.saw(Step::Block);
                let rank = rank_of(columns, block, columns.hits(isa, block, self.key(i)), live_rules);
                self.ranks[i] = self.ranks[i].min(rank);
                if let Some(more) = block::goes_on(rank) {
                    *at = limits.leaf(more);
                    let next = columns.block(blocks, more);
                    self.leaves.add(item, next.is_some_and(|next| columns.rank(next, 0) < self.ranks[i]));
                }
            }
        }
    }

    /// Prefetches the block that an entry leads to, unless the blocks are few.
    ///
    /// The index of a node is used as if it were that of a block, because a useless prefetch costs less than a branch.
    #[inline(always)]
    fn prefetch<I: Isa>(&self, isa: I, entry: Entry) {
        let engine = self.engine;
        if engine.is_large {
            let lines = self.columns.lines();
            isa.prefetch_lines(&engine.blocks, engine.limits().index(entry) * lines, lines);
        }
    }

    /// Returns the number of groups of eight keys.
    #[inline(always)]
    fn groups(&self) -> usize {
        self.count.div_ceil(EIGHT).min(CHUNK / EIGHT)
    }

    #[inline(always)]
    fn key(&self, i: usize) -> &'a [u32] {
        self.columns.key(self.keys, i)
    }
}

/// Returns the entry of a listed item.
#[inline(always)]
fn place(at: &mut [Entry], item: u8) -> Option<&mut Entry> {
    // If the compiler knows that the length is a power of two, no bounds check is left.
    let mask = at.len().next_power_of_two() - 1;
    at.get_mut(usize::from(item) & mask)
}
