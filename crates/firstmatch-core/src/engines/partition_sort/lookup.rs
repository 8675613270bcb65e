//! Lookups: many walks at a time, each of one key in one partition, one node per round.

use super::arena::Arena;
use super::node::{ENTRY, WIDE, is_entry, line_of};
use super::structure::PartitionSort;
use crate::engine::Match;
use crate::engine::tombstones::All;
use crate::engines::shared::{PIECE, match_of, priority_of};
use crate::key::Keys;
use crate::raw::{Isa, Kernel};

/// Number of keys taken through a partition together.
///
/// With this many, the work for the other keys hides a miss of the second-level cache.
const CHUNK: usize = 64;
/// Number of walks below which the next partition is begun early.
///
/// The walks of the next partition then begin before those of this one have found matches that rule keys out.
const FEW: usize = 8;
/// Room for the walks of a chunk and the few walks of the partition before.
///
/// It is a power of two, because remainders are taken of it.
const WALKS: usize = 2 * CHUNK;

/// Scratch of a lookup, of fixed size.
#[derive(Debug)]
pub struct Scratch {
    /// Priority to beat or equal, for each key of the chunk.
    bound: [u64; CHUNK],
    /// Key of each walk; `handles` has the node or entry that the walk has reached.
    keys: [u32; WALKS],
    handles: [u32; WALKS],
    /// Key of each walk that has reached an entry; `found` has the entry.
    found_keys: [u32; WALKS],
    found: [u32; WALKS],
}

impl Scratch {
    pub(super) fn new() -> Self {
        let words = [0; WALKS];
        Self { bound: [0; CHUNK], keys: words, handles: words, found_keys: words, found: words }
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
        // Loops over the words of a row take long where their number is not known to the compiler.
        match self.keys.key_words() {
            5 => self.run_over::<I, 5>(isa),
            11 => self.run_over::<I, 11>(isa),
            _ => self.run_over::<I, 0>(isa),
        }
    }
}

impl Lookup<'_> {
    #[inline(always)]
    fn run_over<I: Isa, const KEY_WORDS: usize>(self, isa: I) {
        let Self { engine, scratch, keys, best } = self;
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = keys.slice(index * CHUNK, index * CHUNK + best.len());
            Chunk::<I, KEY_WORDS> { isa, engine, arena: &engine.arena, scratch, keys, best }.classify();
        }
    }
}

/// Keys of `KEY_WORDS` words, or of any number of words if that is 0.
struct Chunk<'a, I, const KEY_WORDS: usize> {
    isa: I,
    engine: &'a PartitionSort,
    arena: &'a Arena,
    scratch: &'a mut Scratch,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
}

impl<I: Isa, const KEY_WORDS: usize> Chunk<'_, I, KEY_WORDS> {
    #[inline(always)]
    fn classify(&mut self) {
        for (bound, best) in self.scratch.bound.iter_mut().zip(&*self.best) {
            // Priorities are distinct: to equal the bound is to find the same rule again, which changes nothing.
            *bound = best.map_or(u64::MAX, |best| best.priority.0);
        }
        let (mut walks, mut found, count) = (0, 0, self.best.len().min(CHUNK));
        for (index, partition) in self.engine.partitions.iter().enumerate() {
            let (before, at_entry) = (walks + found, is_entry(partition.root));
            self.prefetch(partition.root);
            let s = &mut *self.scratch;
            let (keys, handles, to) = if at_entry {
                (&mut s.found_keys, &mut s.found, &mut found)
            } else {
                (&mut s.keys, &mut s.handles, &mut walks)
            };
            for key in 0..count {
                (keys[*to % WALKS], handles[*to % WALKS]) = (key as u32, partition.root);
                *to += usize::from(partition.best <= s.bound[key]);
            }
            if walks + found == before {
                break; // No later partition is better.
            }
            if walks + found >= FEW || index + 1 == self.engine.partitions.len() {
                self.finish(walks, found);
                (walks, found) = (0, 0);
            }
        }
        self.finish(walks, found);
        let bound = &mut self.scratch.bound[..self.best.len()];
        self.engine.overflow.improve(self.isa, All, self.keys, bound, self.best);
    }

    /// Takes `walks` walks to their ends, and tests the entries there.
    #[inline(always)]
    fn finish(&mut self, mut walks: usize, mut found: usize) {
        while walks > 0 {
            (walks, found) = self.step(walks, found);
        }
        for i in 0..found.min(WALKS) {
            self.test(self.scratch.found_keys[i] as usize, line_of(self.scratch.found[i]));
        }
    }

    /// Takes each walk one node further.
    ///
    /// Returns the number of walks that go on, and the number that have reached an entry. No branch depends on keys.
    #[inline(always)]
    fn step(&mut self, walks: usize, mut found: usize) -> (usize, usize) {
        let (words, stride) = (self.keys.words(), self.stride());
        let mut left = 0;
        for i in 0..walks.min(WALKS) {
            let (key, handle) = (self.scratch.keys[i], self.scratch.handles[i]);
            let (is_wide, line) = ((handle >> WIDE.ilog2()) as usize, line_of(handle) as usize);
            let Some(piece) = self.arena.lines.piece(line) else { continue };
            let keys = &piece[line % PIECE].0;
            let word = words[key as usize * stride + (keys[0] & 0xFFFF) as usize];
            // All words of a wide node but the first are keys; seven of a small one are.
            let among = 0xFFFF >> (8 - 8 * is_wide) & !1;
            let at = self.isa.count_at_most(keys, among, word);
            let child = piece[(line + is_wide) % PIECE].0[(8 - 8 * is_wide + at) % 16];
            self.prefetch(child);
            let s = &mut *self.scratch;
            let ends = usize::from(is_entry(child));
            (s.keys[left], s.handles[left]) = (key, child);
            (s.found_keys[found % WALKS], s.found[found % WALKS]) = (key, child);
            found += ends;
            left += 1 - ends;
        }
        (left, found)
    }

    /// Prefetches the first two lines of a handle's run, or its only line twice.
    ///
    /// It does not branch on the length, because that branch would be mispredicted.
    #[inline(always)]
    fn prefetch(&self, handle: u32) {
        let is_long = u32::from(Arena::lines_for(self.key_words()) > 1);
        let (line, more) = (line_of(handle) as usize, handle >> WIDE.ilog2() | (handle >> ENTRY.ilog2() & is_long));
        let Some(piece) = self.arena.lines.piece(line) else { return };
        self.isa.prefetch(&piece[line % PIECE]);
        self.isa.prefetch(&piece[(line + more as usize) % PIECE]);
    }

    #[inline(always)]
    fn key_words(&self) -> usize {
        if KEY_WORDS == 0 { self.arena.key_words() } else { KEY_WORDS }
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        self.key_words().next_multiple_of(4)
    }

    /// Tests a group; the first entry that holds the key is the best of the group.
    #[inline(always)]
    fn test(&mut self, key: usize, first: u32) {
        let (key_words, stride) = (self.key_words(), self.stride());
        let row = &self.keys.words()[key * stride..][..stride];
        let mut next = Some(first);
        while let Some(at) = next {
            let entry = self.arena.run(at);
            let priority = priority_of(entry, key_words).0;
            // One branch, because most walks end at a region that does not hold the key.
            if (priority > self.scratch.bound[key % CHUNK]) | !self.isa.inside(entry, row, key_words) {
                return;
            }
            if self.arena.passes_ternary(entry, key_words, row) {
                self.scratch.bound[key % CHUNK] = priority;
                self.best[key] = match_of(entry, key_words);
                return;
            }
            next = self.arena.next(at);
        }
    }
}
