//! Lookups: a batch is taken through the tables its keys may match in, a table a key and round, in stages that ask
//! early for the memory of the next.

use super::TupleMerge;
use super::candidates::PLANE;
use super::pool::{Pool, is_last};
use super::table::{Table, place};
use crate::alive::Alive;
use crate::engine::Match;
use crate::key::Keys;
use crate::parts::{match_of, priority_of};
use crate::simd::{Isa, Kernel, words};

/// Keys taken through the tables together: enough to hide a miss of the second-level cache behind the others.
const CHUNK: usize = 64;

/// What a lookup writes to; of a fixed size.
#[derive(Debug)]
pub struct Scratch {
    /// For each key of the chunk the priority to beat or equal.
    bound: [u64; CHUNK],
    /// For each key the tables it has yet to be looked up in.
    open: [u64; CHUNK],
    /// The keys for which there may be something better in some of those.
    live: [u32; CHUNK],
    /// The probes of a round.
    keys: [u32; CHUNK],
    tables: [u32; CHUNK],
    hashes: [u32; CHUNK],
    /// For each probe the first group of its tag, or `NONE`.
    groups: [u32; CHUNK],
}

/// No group.
const NONE: u32 = u32::MAX;
/// In a table of a probe: its walk may have to go on behind the group.
const MORE: u32 = 1 << 31;

impl Scratch {
    pub(super) fn new() -> Self {
        let (words, numbers) = ([0; CHUNK], [0; CHUNK]);
        let (live, keys, tables, hashes, groups) = (words, words, words, words, words);
        Self { bound: numbers, open: numbers, live, keys, tables, hashes, groups }
    }
}

pub(super) struct Lookup<'a, A> {
    pub(super) engine: &'a TupleMerge,
    pub(super) alive: A,
    pub(super) scratch: &'a mut Scratch,
    pub(super) keys: Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl<A: Alive> Kernel for Lookup<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        // Loops over the lanes of a row are half of the time where their number is not known to the compiler.
        match self.keys.lanes() {
            5 => self.run_over::<I, 5>(isa),
            11 => self.run_over::<I, 11>(isa),
            _ => self.run_over::<I, 0>(isa),
        }
    }
}

impl<A: Alive> Lookup<'_, A> {
    #[inline(always)]
    fn run_over<I: Isa, const LANES: usize>(self, isa: I) {
        let Self { engine, alive, scratch, keys, best } = self;
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = keys.slice(index * CHUNK, index * CHUNK + best.len());
            Chunk::<I, A, LANES> { isa, alive, engine, pool: &engine.pool, scratch, keys, best }.classify();
        }
    }
}

/// Keys of so many lanes, or of any number where that is 0.
struct Chunk<'a, I, A, const LANES: usize> {
    isa: I,
    alive: A,
    engine: &'a TupleMerge,
    pool: &'a Pool,
    scratch: &'a mut Scratch,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
}

impl<I: Isa, A: Alive, const LANES: usize> Chunk<'_, I, A, LANES> {
    #[inline(always)]
    fn classify(&mut self) {
        for (bound, best) in self.scratch.bound.iter_mut().zip(&*self.best) {
            // Priorities are distinct: to equal the bound is to find the same rule again, which changes nothing.
            *bound = best.map_or(u64::MAX, |best| best.priority.0);
        }
        let planes = self.engine.tables.chunks(PLANE).zip(self.engine.bounds.as_chunks::<PLANE>().0);
        for (plane, (tables, bounds)) in planes.enumerate() {
            let (mut live, mut probes) = self.open(plane, bounds);
            while live + probes > 0 {
                self.hash(tables, probes);
                let hits = self.compare(tables, probes);
                for hit in 0..hits.min(CHUNK) {
                    let s = &*self.scratch;
                    let (key, group, more) = (s.keys[hit] as usize, s.groups[hit], s.tables[hit] & MORE != 0);
                    let found = group != NONE && self.test_group(group, key);
                    // A region that holds the key has its bits under the tuple: no other group can.
                    if more && !found {
                        self.walk_on(tables, hit);
                    }
                }
                (live, probes) = self.next(live, bounds);
            }
        }
        let bound = &mut self.scratch.bound[..self.best.len()];
        self.engine.rest.improve(self.isa, self.alive, self.keys, bound, self.best);
    }

    #[inline(always)]
    fn lanes(&self) -> usize {
        if LANES == 0 { self.pool.lanes() } else { LANES }
    }

    #[inline(always)]
    fn row(&self, key: usize) -> &[u32] {
        let stride = self.lanes().next_multiple_of(4);
        &self.keys.words()[key * stride..][..stride]
    }

    /// Finds the candidates of every key in a plane, and takes up the first of each: how many keys have more, and how
    /// many probes that makes.
    #[inline(always)]
    fn open(&mut self, plane: usize, bounds: &[Bounds; PLANE]) -> (usize, usize) {
        let (mut left, mut probes) = (0, 0);
        for key in 0..self.best.len().min(CHUNK) {
            if plane > 0 && bounds[0].best.min(bounds[0].after) > self.scratch.bound[key] {
                continue;
            }
            let open = self.engine.candidates.of(self.isa, plane, self.row(key));
            let rest = open & open.wrapping_sub(1);
            let s = &mut *self.scratch;
            (s.keys[probes % CHUNK], s.tables[probes % CHUNK]) = (key as u32, open.trailing_zeros());
            probes += usize::from(open != 0);
            s.open[key] = rest;
            s.live[left % CHUNK] = key as u32;
            left += usize::from(rest != 0);
        }
        (left, probes)
    }

    /// Takes up the next candidate that may improve a key, of each of so many keys: how many keys may have more, and how
    /// many probes that makes. No branch depends on the answers.
    #[inline(always)]
    fn next(&mut self, live: usize, bounds: &[Bounds; PLANE]) -> (usize, usize) {
        let s = &mut *self.scratch;
        let (mut left, mut probes) = (0, 0);
        for i in 0..live.min(CHUNK) {
            let key = s.live[i];
            let (open, bound) = (s.open[key as usize % CHUNK], s.bound[key as usize % CHUNK]);
            let rest = open & open.wrapping_sub(1);
            let t = open.trailing_zeros();
            let bounds = &bounds[t as usize % PLANE];
            (s.keys[probes % CHUNK], s.tables[probes % CHUNK]) = (key, t);
            probes += usize::from(bounds.best <= bound);
            s.open[key as usize % CHUNK] = rest;
            s.live[left % CHUNK] = key;
            left += usize::from((rest != 0) & (bounds.after <= bound));
        }
        (left, probes)
    }

    /// Hashes the keys of the probes, and asks for their buckets.
    #[inline(always)]
    fn hash(&mut self, tables: &[Option<Table>], probes: usize) {
        for i in 0..probes.min(CHUNK) {
            let (key, t) = (self.scratch.keys[i] as usize, self.scratch.tables[i] as usize);
            let Some(Some(table)) = tables.get(t) else { continue };
            let row = self.row(key);
            let hash = self.isa.hash(&self.engine.hasher, row, &table.tuple()[..row.len()]);
            self.isa.prefetch(&table.buckets()[place(hash, table.buckets().len()).0]);
            self.scratch.hashes[i] = hash;
        }
    }

    /// Compares tags, and asks for the groups; how many probes have one. No branch depends on the answers.
    #[inline(always)]
    fn compare(&mut self, tables: &[Option<Table>], probes: usize) -> usize {
        let s = &mut *self.scratch;
        let mut hits = 0;
        for i in 0..probes.min(CHUNK) {
            let (key, t, hash) = (s.keys[i], s.tables[i], s.hashes[i]);
            let Some(Some(table)) = tables.get(t as usize) else { continue };
            let (at, tag) = place(hash, table.buckets().len());
            let bucket = &table.buckets()[at];
            let equal = self.isa.equal8(&bucket.tags, tag);
            // Of a slot that is not in use this is the group 0, or a past one.
            let group = bucket.groups[equal.trailing_zeros() as usize % 8];
            self.pool.prefetch(self.isa, group);
            // A full bucket without the tag still has to go on: it is a hit without a group.
            let (none, full) = (equal == 0, bucket.is_full());
            let more = full | (equal & equal.wrapping_sub(1) != 0);
            let at = hits % CHUNK;
            (s.keys[at], s.hashes[at]) = (key, hash);
            s.groups[at] = if none { NONE } else { group };
            s.tables[at] = t | if more { MORE } else { 0 };
            hits += usize::from(!none | full);
        }
        hits
    }

    /// Tests every group of this tag, over all buckets of the walk.
    #[inline(always)]
    fn walk_on(&mut self, tables: &[Option<Table>], probe: usize) {
        let s = &mut *self.scratch;
        let (key, hash) = (s.keys[probe] as usize, s.hashes[probe]);
        let Some(Some(table)) = tables.get((s.tables[probe] & !MORE) as usize) else { return };
        let buckets = table.buckets();
        let (mut at, tag) = place(hash, buckets.len());
        for _ in 0..buckets.len() {
            let bucket = &buckets[at];
            let mut equal = self.isa.equal8(&bucket.tags, tag);
            while equal != 0 {
                if self.test_group(bucket.groups[equal.trailing_zeros() as usize % 8], key) {
                    return;
                }
                equal &= equal - 1;
            }
            if !bucket.is_full() {
                return;
            }
            at = (at + 1) & (buckets.len() - 1);
        }
    }

    /// Whether some entry of a group holds the key and improves it; the first that does is taken.
    #[inline(always)]
    fn test_group(&mut self, group: u32, key: usize) -> bool {
        let (lanes, bound) = (self.lanes(), self.scratch.bound[key % CHUNK]);
        let mut lines = self.pool.lines_from(group);
        while let Some((entry, rest)) = lines.split_at_checked(Pool::lines_for(lanes)) {
            lines = rest;
            let entry = words(entry);
            let priority = priority_of(entry, lanes).0;
            let row = self.row(key);
            if (priority <= bound) & self.isa.inside(entry, row, lanes)
                && self.pool.passes_ternary(entry, row)
                && (A::ALL || match_of(entry, lanes).is_some_and(|found| self.alive.is_alive(found.rule.slot())))
            {
                self.scratch.bound[key % CHUNK] = priority;
                self.best[key] = match_of(entry, lanes);
                return true;
            }
            if is_last(entry, lanes) | (priority > bound) {
                return false;
            }
        }
        false
    }
}

/// What a table may improve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// It has no better priority.
    pub(super) best: u64,
    /// No table of a higher number has.
    pub(super) after: u64,
}

impl Bounds {
    pub(super) const NONE: Self = Self { best: u64::MAX, after: u64::MAX };
}
