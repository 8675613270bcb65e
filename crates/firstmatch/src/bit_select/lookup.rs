//! Lookups: chunks of keys taken through all trees in lock step.

use super::block::{self, NONE};
use super::columns::{Columns, Kind};
use super::single::one;
use super::{BitSelect, EMPTY, Entry, LEAF, Node, Tree};
use crate::alive::Alive;
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, dispatch, words};

/// Keys in flight.
pub(super) const CHUNK: usize = 32;
/// Trees whose roots are passed together.
pub(super) const TOGETHER: usize = 4;
/// So few keys are gone through one by one.
const ALONE: usize = 3;
/// Where so many keys of a chunk find a rule and so many do not, those that do are known by bits: a branch would be
/// foreseen for neither. Fewer take less time with it.
const MIXED: usize = 4;
/// Keys that are listed at once.
const EIGHT: usize = 8;

/// For each key a better match than the one given, or none.
#[inline]
pub(super) fn lookup(engine: &BitSelect, alive: impl Alive, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    if let [best] = best {
        return one(engine, alive, keys.words(), best);
    }
    if best.len() > ALONE {
        return dispatch(engine.level, Many(&mut Lookup { engine, alive, keys, best }));
    }
    few(engine, alive, keys, best);
}

/// Apart, so that nothing is made ready for them where there is one key.
#[inline(never)]
fn few(engine: &BitSelect, alive: impl Alive, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    let keys = keys.words().chunks_exact(keys.stride());
    best.iter_mut().zip(keys).for_each(|(best, key)| one(engine, alive, key, best));
}

/// What is looked up. Kernels borrow it, as it does the keys: what is copied may be read in wider pieces than it has just
/// been written in, and a load that takes from several stores waits until all before it is done.
struct Lookup<'a, A> {
    engine: &'a BitSelect,
    alive: A,
    keys: &'a Keys<'a>,
    best: &'a mut [Option<Match>],
}

/// Any number of keys.
struct Many<'l, 'a, A>(&'l mut Lookup<'a, A>);

impl<A: Alive> Kernel for Many<'_, '_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let shape = &self.0.engine.shape;
        match shape.kind() {
            Kind::Plain4(columns) => self.0.many(isa, columns),
            Kind::Wide4(columns) => self.0.many(isa, columns),
            Kind::Plain6(columns) => self.0.many(isa, columns),
            Kind::Any => self.0.many(isa, shape),
        }
    }
}

impl<A: Alive> Lookup<'_, A> {
    #[inline(always)]
    fn many<I: Isa>(&mut self, isa: I, columns: impl Columns) {
        let &mut Self { engine, alive, keys, ref mut best } = self;
        let stride = columns.stride(keys.stride());
        for (best, words) in best.chunks_mut(CHUNK).zip(keys.words().chunks(CHUNK * stride)) {
            let (count, keys) = (words.len() / stride, columns.chunk(words, stride));
            let (ranks, leaves, nodes) = ([NONE; CHUNK], List::NONE, List::NONE);
            let mut chunk = Chunk { engine, columns, keys, count, ranks, leaves, nodes };
            for (group, trees) in engine.trees.chunks(TOGETHER).enumerate() {
                let is_first = group == 0;
                match trees {
                    [a] => chunk.search(isa, alive, [a], is_first),
                    [a, b] => chunk.search(isa, alive, [a, b], is_first),
                    [a, b, c] => chunk.search(isa, alive, [a, b, c], is_first),
                    [a, b, c, d, ..] => chunk.search(isa, alive, [a, b, c, d], is_first),
                    [] => {}
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

/// Where it is not 0, `mixed` has a bit for each key whose rank is one. Apart, so that what is the same for all stays in
/// registers.
#[inline(never)]
fn improve_all(best: &mut [Option<Match>], engine: &BitSelect, ranks: &[u32; CHUNK], mut mixed: u32) {
    let parting = engine.parting;
    if engine.added.rules() != 0 {
        return improve_changed(best, engine, ranks);
    }
    if mixed == 0 {
        for (best, &rank) in best.iter_mut().zip(ranks) {
            // What is no rank has no place either.
            if let Some(&found) = engine.matches.get(parting.last_place(rank)) {
                take(best, found);
            }
        }
    }
    while mixed != 0 {
        let i = mixed.trailing_zeros() as usize & (CHUNK - 1);
        mixed &= mixed - 1;
        if let (Some(best), Some(&found)) = (best.get_mut(i), engine.matches.get(parting.last_place(ranks[i]))) {
            take(best, found);
        }
    }
}

/// The same where rules have come.
#[inline(never)]
fn improve_changed(best: &mut [Option<Match>], engine: &BitSelect, ranks: &[u32; CHUNK]) {
    let parting = engine.parting;
    // Whether a rule has come since is anybody's guess: keys are listed by that, and no branch depends on it.
    let (mut first, mut came) = (List::NONE, List::NONE);
    for (i, &rank) in (0..best.len() as u8).zip(ranks) {
        let (is_rank, is_first) = (block::is_rank(rank), parting.place(rank).is_some());
        first.add(i, is_rank & is_first);
        came.add(i, is_rank & !is_first);
    }
    for at in 0..first.count {
        let i = usize::from(first.get(at)) & (CHUNK - 1);
        if let (Some(best), Some(&found)) = (best.get_mut(i), engine.matches.get(parting.last_place(ranks[i]))) {
            take(best, found);
        }
    }
    for at in 0..came.count {
        let i = usize::from(came.get(at)) & (CHUNK - 1);
        if let (Some(best), Some(found)) = (best.get_mut(i), engine.added.of(ranks[i], parting)) {
            take(best, found);
        }
    }
}

/// Takes what is better.
#[inline(always)]
pub(super) fn take(best: &mut Option<Match>, found: Match) {
    if Match::wins(found.priority, best) {
        *best = Some(found);
    }
}

/// Entries of a chunk, each tree's behind those of the one before, and room for eight more.
struct List {
    items: [u8; TOGETHER * CHUNK + EIGHT],
    count: usize,
}

impl List {
    const NONE: Self = Self { items: [0; TOGETHER * CHUNK + EIGHT], count: 0 };

    /// Lists an entry if it is to be, without a branch.
    #[inline(always)]
    fn add(&mut self, item: u8, listed: bool) {
        self.items[self.count & (TOGETHER * CHUNK - 1)] = item;
        self.count += usize::from(listed);
    }

    /// Lists those of eight entries that `which` has bits for.
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

/// The places of the bits of a byte, ascending, each a byte.
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

/// From the start of a cache line on: what is read in wide pieces takes longer where these lie in two. Measured, the place
/// of the stack alone made a difference of 7 %.
#[repr(align(64))]
struct Aligned<T>(T);

/// Keys on their way through trees.
#[repr(align(64))]
struct Chunk<'a, C: Columns> {
    engine: &'a BitSelect,
    columns: C,
    keys: C::Chunk<'a>,
    /// How many.
    count: usize,
    /// The best rank found for each.
    ranks: [u32; CHUNK],
    leaves: List,
    nodes: List,
}

impl<'a, C: Columns> Chunk<'a, C> {
    /// Takes every key through the roots of all trees: of the first ones to that which promises the best rank, then to
    /// those that may hold a better one than was found so far.
    #[inline(always)]
    fn search<I: Isa, const TREES: usize>(&mut self, isa: I, alive: impl Alive, trees: [&Tree; TREES], is_first: bool) {
        let (engine, columns) = (self.engine, self.columns);
        let (mut entries, mut first) = (Aligned([[EMPTY; CHUNK]; TREES]), Aligned([EMPTY; CHUNK]));
        let (entries, first) = (&mut entries.0, &mut first.0);
        for (entries, tree) in entries.iter_mut().zip(trees) {
            let table = &engine.table[tree.root.base as usize..][..1 << tree.root.bits.count()];
            columns.entries(isa, self.keys, tree, table, entries);
            *first = std::array::from_fn(|i| first[i].min(entries[i]));
        }
        if is_first {
            self.first(isa, alive, first);
            if TREES == 1 {
                return;
            }
        } else {
            *first = [EMPTY; CHUNK];
        }
        let second = self.second(isa, alive, entries, first);
        if TREES > 2 || !is_first {
            self.rest(isa, alive, entries, &second);
        }
    }

    /// Takes every key to its leaf and tests its first block.
    #[inline(always)]
    fn first<I: Isa>(&mut self, isa: I, alive: impl Alive, first: &[Entry; CHUNK]) {
        let (engine, columns) = (self.engine, self.columns);
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
            let rank = block::rank_of(columns, block, columns.hits(isa, block, key), alive);
            *best = rank;
            if let Some(more) = block::goes_on(rank) {
                *at = limits.leaf(more);
                self.leaves.add(i as u8, true);
            }
        }
        self.test(isa, alive, at);
    }

    /// Takes every key to the leaf that the second of its trees promises, which may hold a better rank. Returns where that
    /// tree's root led.
    #[inline(always)]
    fn second<I: Isa, const TREES: usize>(
        &mut self,
        isa: I,
        alive: impl Alive,
        entries: &[[Entry; CHUNK]; TREES],
        first: &[Entry; CHUNK],
    ) -> [Entry; CHUNK] {
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
        self.follow(isa, alive, &mut at, nodes != 0);
        second
    }

    /// Takes every key to the leaves of all other trees that may hold a better rank.
    #[inline(always)]
    fn rest<I: Isa, const TREES: usize>(
        &mut self,
        isa: I,
        alive: impl Alive,
        entries: &mut [[Entry; CHUNK]; TREES],
        second: &[Entry; CHUNK],
    ) {
        let limits = self.engine.limits();
        let mut nodes = 0;
        for group in 0..self.groups() {
            let [ranks, second] = [&self.ranks, second].map(|all| &all.as_chunks::<EIGHT>().0[group]);
            let most = ranks.map(|rank| limits.of(rank));
            for (tree, entries) in entries.iter().enumerate() {
                let entries = &entries.as_chunks::<EIGHT>().0[group];
                let left = std::array::from_fn(|i| if entries[i] <= second[i] { EMPTY } else { entries[i] });
                let (goes_on, odd) = isa.below8(&left, &most);
                self.leaves.add_eight(tree * CHUNK + group * EIGHT, goes_on);
                nodes |= goes_on & !odd;
            }
        }
        self.follow(isa, alive, entries.as_flattened_mut(), nodes != 0);
    }

    /// Takes what is listed to leaves, where nodes are among them, and tests these.
    #[inline(always)]
    fn follow<I: Isa>(&mut self, isa: I, alive: impl Alive, at: &mut [Entry], nodes: bool) {
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
        self.test(isa, alive, at);
    }

    /// Takes the entries that are listed for it through nodes, and lists those that come to leaves where that is asked
    /// for: then only those that may lead to better ranks go on.
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

    /// Tests the first block of every listed leaf, then the next one of those that have more that may be better.
    #[inline(always)]
    fn test<I: Isa>(&mut self, isa: I, alive: impl Alive, at: &mut [Entry]) {
        let (engine, columns) = (self.engine, self.columns);
        let limits = engine.limits();
        let blocks = words(&engine.blocks);
        while self.leaves.count > 0 {
            let listed = std::mem::take(&mut self.leaves.count);
            for index in 0..listed {
                let item = self.leaves.get(index);
                let i = usize::from(item) & (CHUNK - 1);
                let Some(at) = place(at, item) else { continue };
                let Some(block) = columns.block(blocks, limits.index(*at)) else { continue };
                let rank = block::rank_of(columns, block, columns.hits(isa, block, self.key(i)), alive);
                self.ranks[i] = self.ranks[i].min(rank);
                if let Some(more) = block::goes_on(rank) {
                    *at = limits.leaf(more);
                    let next = columns.block(blocks, more);
                    self.leaves.add(item, next.is_some_and(|next| columns.rank(next, 0) < self.ranks[i]));
                }
            }
        }
    }

    /// Asks for the block that an entry leads to, where that is not near anyway. What a node's entry would lead to if it
    /// were a leaf's is asked for in vain: that costs less than a branch.
    #[inline(always)]
    fn prefetch<I: Isa>(&self, isa: I, entry: Entry) {
        let engine = self.engine;
        if engine.is_large {
            let lines = self.columns.lines();
            isa.prefetch_lines(&engine.blocks, engine.limits().index(entry) * lines, lines);
        }
    }

    /// Groups of eight keys.
    #[inline(always)]
    fn groups(&self) -> usize {
        self.count.div_ceil(EIGHT).min(CHUNK / EIGHT)
    }

    #[inline(always)]
    fn key(&self, i: usize) -> &'a [u32] {
        self.columns.key(self.keys, i)
    }
}

/// The entry that is listed, if there is one.
#[inline(always)]
fn place(at: &mut [Entry], item: u8) -> Option<&mut Entry> {
    // Nothing is left to be checked where the length is a power of two that the compiler knows.
    let mask = at.len().next_power_of_two() - 1;
    at.get_mut(usize::from(item) & mask)
}

impl Node {
    /// The bits that it selects of a key.
    #[inline(always)]
    pub(super) fn index<I: Isa>(&self, isa: I, columns: impl Columns, key: &[u32]) -> usize {
        self.bits.select_with(
            isa,
            #[inline(always)]
            |at| columns.pair(key, at),
        ) as usize
    }
}

#[inline(always)]
pub(super) fn step<I: Isa>(isa: I, columns: impl Columns, node: &Node, table: &[Entry], key: &[u32]) -> Entry {
    table.get(node.base as usize + node.index(isa, columns, key)).copied().unwrap_or(EMPTY)
}
