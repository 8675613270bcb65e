//! Lookups: many walks at a time, each a key in a partition, one node a round.

use super::PartitionSort;
use super::arena::Arena;
use super::node::{ENTRY, WIDE, is_entry, line_of};
use super::update::Head;
use crate::engine::Match;
use crate::key::Keys;
use crate::parts::{PIECE, PLANE, match_of, priority_of};
use crate::simd::{Isa, Kernel};

/// Keys taken through a partition together: enough to hide a miss of the second-level cache behind the others.
const CHUNK: usize = 64;
/// Where there are fewer keys than these, so many walks are under way: partitions are begun before it is known whether
/// they still can improve the match.
const FEW: usize = 8;

/// What a lookup writes to; of a fixed size.
#[derive(Debug)]
pub struct Scratch {
    /// For each key of the chunk the priority to beat or equal.
    bound: [u64; CHUNK],
    /// For each key the partitions it has yet to be looked up in.
    open: [u64; CHUNK],
    /// The keys for which there may be something better in some of those.
    live: [u32; CHUNK],
    /// For each walk its key, and the node or entry it is at.
    keys: [u32; CHUNK],
    handles: [u32; CHUNK],
    /// The walks that are at an entry: the key, and the entry.
    found_keys: [u32; CHUNK],
    found: [u32; CHUNK],
}

impl Scratch {
    pub(super) fn new() -> Self {
        let (words, numbers) = ([0; CHUNK], [0; CHUNK]);
        let (live, keys, handles, found_keys, found) = (words, words, words, words, words);
        Self { bound: numbers, open: numbers, live, keys, handles, found_keys, found }
    }
}

pub(super) struct Lookup<'a> {
    pub(super) engine: &'a PartitionSort,
    pub(super) scratch: &'a mut Scratch,
    pub(super) keys: Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        // Loops over the lanes of a row take long where their number is not known to the compiler.
        match self.keys.lanes() {
            5 => self.run_over::<I, 5>(isa),
            11 => self.run_over::<I, 11>(isa),
            _ => self.run_over::<I, 0>(isa),
        }
    }
}

impl Lookup<'_> {
    #[inline(always)]
    fn run_over<I: Isa, const LANES: usize>(self, isa: I) {
        let Self { engine, scratch, keys, best } = self;
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = keys.slice(index * CHUNK, index * CHUNK + best.len());
            Chunk::<I, LANES> { isa, engine, arena: &engine.arena, scratch, keys, best }.classify();
        }
    }
}

/// Keys of so many lanes, or of any number where that is 0.
struct Chunk<'a, I, const LANES: usize> {
    isa: I,
    engine: &'a PartitionSort,
    arena: &'a Arena,
    scratch: &'a mut Scratch,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
}

impl<I: Isa, const LANES: usize> Chunk<'_, I, LANES> {
    #[inline(always)]
    fn classify(&mut self) {
        for (bound, best) in self.scratch.bound.iter_mut().zip(&*self.best) {
            // Priorities are distinct: to equal the bound is to find the same rule again, which changes nothing.
            *bound = best.map_or(u64::MAX, |best| best.priority.0);
        }
        for (plane, heads) in self.engine.heads.as_chunks::<PLANE>().0.iter().enumerate() {
            let mut live = self.open(plane, heads);
            while live > 0 {
                let (left, walks, found) = self.next(live, heads);
                self.finish(walks, found);
                live = left;
            }
        }
        let bound = &mut self.scratch.bound[..self.best.len()];
        self.engine.rest.improve(self.isa, self.keys, bound, self.best);
    }

    /// Finds the candidates of every key in a plane: how many keys have any.
    #[inline(always)]
    fn open(&mut self, plane: usize, heads: &[Head; PLANE]) -> usize {
        let (best, mut live, stride) = (heads[0].best.min(heads[0].after), 0, self.stride());
        for key in 0..self.best.len().min(CHUNK) {
            let row = &self.keys.words()[key * stride..][..stride];
            // No closure here: what is not inlined is compiled without the vector instructions.
            let open = match &self.engine.candidates {
                Some(candidates) => candidates.of(self.isa, plane, row),
                None => self.engine.numbers[plane],
            };
            let s = &mut *self.scratch;
            s.open[key] = open;
            s.live[live] = key as u32;
            live += usize::from((open != 0) & (best <= s.bound[key]));
        }
        live
    }

    /// Begins a walk in the next partition that may improve a key, of each of so many keys; in more than one where the
    /// keys are few. How many keys may have more, how many walks there are and how many end where they begin.
    #[inline(always)]
    fn next(&mut self, live: usize, heads: &[Head; PLANE]) -> (usize, usize, usize) {
        let (mut left, mut walks, mut found) = (0, 0, 0);
        for i in 0..live.min(CHUNK) {
            let key = self.scratch.live[i];
            let bound = self.scratch.bound[key as usize % CHUNK];
            let mut open = self.scratch.open[key as usize % CHUNK];
            let mut more = true;
            for _ in 0..(FEW / live).max(1) {
                let head = &heads[open.trailing_zeros() as usize % PLANE];
                let begins = more & (open != 0) & (head.best <= bound);
                let ends = is_entry(head.root);
                self.prefetch(head.root);
                let s = &mut *self.scratch;
                (s.keys[walks % CHUNK], s.handles[walks % CHUNK]) = (key, head.root);
                (s.found_keys[found % CHUNK], s.found[found % CHUNK]) = (key, head.root);
                walks += usize::from(begins & !ends);
                found += usize::from(begins & ends);
                open &= open.wrapping_sub(1);
                more &= (open != 0) & (head.after <= bound);
            }
            let s = &mut *self.scratch;
            s.open[key as usize % CHUNK] = open;
            s.live[left] = key;
            left += usize::from(more);
        }
        (left, walks, found)
    }

    /// Takes so many walks to their ends, and tests the entries there.
    #[inline(always)]
    fn finish(&mut self, mut walks: usize, mut found: usize) {
        while walks > 0 {
            (walks, found) = self.step(walks, found);
        }
        for i in 0..found.min(CHUNK) {
            self.test(self.scratch.found_keys[i] as usize, line_of(self.scratch.found[i]));
        }
    }

    /// Takes each walk one node further: how many still are under way, and how many are at an entry. No branch depends
    /// on the keys.
    #[inline(always)]
    fn step(&mut self, walks: usize, mut found: usize) -> (usize, usize) {
        let (words, stride) = (self.keys.words(), self.stride());
        let mut left = 0;
        for i in 0..walks.min(CHUNK) {
            let (key, handle) = (self.scratch.keys[i], self.scratch.handles[i]);
            let (is_wide, line) = ((handle >> WIDE.ilog2()) as usize, line_of(handle) as usize);
            let Some(piece) = self.arena.lines.piece(line) else { continue };
            let keys = &piece[line % PIECE].0;
            let word = words[key as usize * stride + (keys[0] & 0xFFFF) as usize];
            // All words of a wide node but the first are keys; of a small one seven.
            let among = 0xFFFF >> (8 - 8 * is_wide) & !1;
            let at = self.isa.count_at_most(keys, among, word);
            let child = piece[(line + is_wide) % PIECE].0[(8 - 8 * is_wide + at) % 16];
            self.prefetch(child);
            let s = &mut *self.scratch;
            let ends = usize::from(is_entry(child));
            (s.keys[left], s.handles[left]) = (key, child);
            (s.found_keys[found % CHUNK], s.found[found % CHUNK]) = (key, child);
            found += ends;
            left += 1 - ends;
        }
        (left, found)
    }

    #[inline(always)]
    fn prefetch(&self, handle: u32) {
        let line = line_of(handle) as usize;
        let Some(piece) = self.arena.lines.piece(line) else { return };
        self.isa.prefetch(&piece[line % PIECE]);
        if handle & WIDE != 0 || (handle & ENTRY != 0 && Arena::lines_for(self.lanes()) > 1) {
            self.isa.prefetch(&piece[(line + 1) % PIECE]);
        }
    }

    #[inline(always)]
    fn lanes(&self) -> usize {
        if LANES == 0 { self.arena.lanes() } else { LANES }
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        self.lanes().next_multiple_of(4)
    }

    /// Tests a group; the first entry that holds the key is its best.
    #[inline(always)]
    fn test(&mut self, key: usize, first: u32) {
        let (lanes, stride) = (self.lanes(), self.stride());
        let row = &self.keys.words()[key * stride..][..stride];
        let mut next = Some(first);
        while let Some(at) = next {
            let entry = self.arena.run(at);
            let priority = priority_of(entry, lanes).0;
            if priority > self.scratch.bound[key % CHUNK] || !self.isa.inside(entry, row, lanes) {
                return;
            }
            if self.arena.passes_ternary(entry, lanes, row) {
                self.scratch.bound[key % CHUNK] = priority;
                self.best[key] = match_of(entry, lanes);
                return;
            }
            next = self.arena.next(at);
        }
    }
}
