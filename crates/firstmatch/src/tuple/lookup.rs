//! Lookups: a batch goes table by table, each in stages that ask early for the memory of the next.

use super::TupleMerge;
use super::pool::{is_last, match_of, priority_of};
use super::table::{Table, filter_place, place};
use crate::engine::Match;
use crate::key::Keys;
use crate::simd::{Isa, Kernel, words};

/// Keys taken through the tables together: enough to hide a miss of the second-level cache behind the others.
const CHUNK: usize = 64;

/// What a lookup writes to; of a fixed size.
#[derive(Debug)]
pub struct Scratch {
    /// The lanes of the keys still looking, `CHUNK` words a lane.
    columns: Box<[u32]>,
    /// Which keys of the chunk those are.
    ids: [u8; CHUNK],
    /// For each key of the chunk the priority to beat or equal.
    bound: [u64; CHUNK],
    /// For each key still looking the hash under the table's tuple.
    hashes: [u32; CHUNK],
    hits: [Hit; CHUNK],
}

/// A key that may find something in a table.
#[derive(Clone, Copy, Debug, Default)]
struct Hit {
    hash: u32,
    /// The first group of its tag, or `NONE`.
    group: u32,
    key: u8,
    /// Whether its walk may have to go on behind that group.
    more: bool,
}

/// No group: the pool never has this many entries, since each has 64 bytes.
const NONE: u32 = u32::MAX;

impl Scratch {
    pub(super) fn new(stride: usize) -> Self {
        Self {
            columns: vec![0; stride * CHUNK].into(),
            ids: [0; CHUNK],
            bound: [0; CHUNK],
            hashes: [0; CHUNK],
            hits: [Hit::default(); CHUNK],
        }
    }

    pub(super) fn fits(&self, stride: usize) -> bool {
        self.columns.len() == stride * CHUNK
    }
}

pub(super) struct Lookup<'a> {
    pub(super) engine: &'a TupleMerge,
    pub(super) scratch: &'a mut Scratch,
    pub(super) keys: Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, scratch, keys, best } = self;
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = keys.slice(index * CHUNK, index * CHUNK + best.len());
            Chunk { isa, engine, scratch, keys, best }.classify();
        }
    }
}

struct Chunk<'a, I> {
    isa: I,
    engine: &'a TupleMerge,
    scratch: &'a mut Scratch,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
}

impl<I: Isa> Chunk<'_, I> {
    #[inline(always)]
    fn classify(&mut self) {
        let mut looking = self.best.len();
        for (i, best) in self.best.iter().enumerate() {
            self.scratch.ids[i] = i as u8;
            // Priorities are distinct: to equal the bound is to find the same rule again, which changes nothing.
            self.scratch.bound[i] = best.map_or(u64::MAX, |best| best.priority.0);
            let columns = self.scratch.columns.as_chunks_mut::<CHUNK>().0;
            // What stands in the columns of the padding does not count: tuples have no bits there.
            for (column, &word) in columns.iter_mut().zip(self.keys.row(i)).take(self.engine.pool.lanes()) {
                column[i % CHUNK] = word;
            }
        }
        let all = u64::MAX >> (CHUNK - looking);
        let engine = self.engine;
        for &t in &engine.order {
            let Some(table) = &engine.tables[t as usize] else { continue };
            // A rule of this table, and hence of a later one, can improve these keys only.
            let open = self.isa.at_least64(&self.scratch.bound, table.best().0) & all;
            if open == 0 {
                return;
            }
            // Packing costs about as much as taking a few keys through a table.
            if open.count_ones() as usize * 4 <= looking * 3 {
                looking = self.pack(looking, open);
            }
            let s = &mut *self.scratch;
            self.isa.hash64(table.hasher(), &s.columns, looking, &mut s.hashes);
            let hits = self.filter(table, looking);
            let hits = self.compare(table, hits);
            for hit in 0..hits {
                let hit = self.scratch.hits[hit % CHUNK];
                let found = hit.group != NONE && self.test_group(hit.group, hit.key as usize);
                // A region that holds the key has its bits under the tuple: no other group can.
                if hit.more && !found {
                    self.walk_on(table, hit);
                }
            }
        }
    }

    /// Keeps the columns of the open keys; how many there are.
    #[inline(always)]
    fn pack(&mut self, looking: usize, open: u64) -> usize {
        let lanes = self.engine.pool.lanes();
        let s = &mut *self.scratch;
        let mut kept = 0;
        for i in 0..looking.min(CHUNK) {
            let id = s.ids[i];
            s.ids[kept] = id;
            for column in s.columns.as_chunks_mut::<CHUNK>().0.iter_mut().take(lanes) {
                column[kept % CHUNK] = column[i];
            }
            kept += (open >> (id as usize % CHUNK) & 1) as usize;
        }
        kept
    }

    /// Asks the filter, and for the buckets of those that pass. No branch depends on the answers.
    #[inline(always)]
    fn filter(&mut self, table: &Table, looking: usize) -> usize {
        let s = &mut *self.scratch;
        let (filter, buckets) = (table.filter(), table.buckets());
        let mut hits = 0;
        for i in 0..looking.min(CHUNK) {
            let hash = s.hashes[i];
            let (word, bit) = filter_place(hash, filter.len());
            s.hits[hits % CHUNK] = Hit { hash, key: s.ids[i], ..Hit::default() };
            hits += (filter[word] >> bit & 1) as usize;
        }
        for hit in &s.hits[..hits.min(CHUNK)] {
            self.isa.prefetch(&buckets[place(hit.hash, buckets.len()).0]);
        }
        hits
    }

    /// Compares tags, and asks for the groups. Keys without a group fall out.
    #[inline(always)]
    fn compare(&mut self, table: &Table, candidates: usize) -> usize {
        let s = &mut *self.scratch;
        let (buckets, lines) = (table.buckets(), self.engine.pool.lines());
        let per_entry = self.engine.pool.lines_per_entry();
        let mut hits = 0;
        for i in 0..candidates.min(CHUNK) {
            let hit = s.hits[i];
            let (at, tag) = place(hit.hash, buckets.len());
            let bucket = &buckets[at];
            let equal = self.isa.equal8(&bucket.tags, tag);
            let group = bucket.groups[equal.trailing_zeros() as usize % 8];
            if let Some(line) = lines.get(group as usize * per_entry) {
                self.isa.prefetch(line);
            }
            // A full bucket without the tag still has to go on: it is a hit without a group.
            let (none, full) = (equal == 0, bucket.is_full());
            let more = full | (equal & equal.wrapping_sub(1) != 0);
            s.hits[hits % CHUNK] = Hit { group: if none { NONE } else { group }, more, ..hit };
            hits += usize::from(!none | full);
        }
        hits
    }

    /// Tests every group of this tag, over all buckets of the walk.
    #[inline(always)]
    fn walk_on(&mut self, table: &Table, hit: Hit) {
        let buckets = table.buckets();
        let (mut at, tag) = place(hit.hash, buckets.len());
        for _ in 0..buckets.len() {
            let bucket = &buckets[at];
            let mut equal = self.isa.equal8(&bucket.tags, tag);
            while equal != 0 {
                if self.test_group(bucket.groups[equal.trailing_zeros() as usize % 8], hit.key as usize) {
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
        let pool = &self.engine.pool;
        let (lanes, per_entry) = (pool.lanes(), pool.lines_per_entry());
        let row = self.keys.row(key);
        for entry in pool.lines()[group as usize * per_entry..].chunks_exact(per_entry) {
            let entry = words(entry);
            if priority_of(entry, lanes).0 > self.scratch.bound[key % CHUNK] {
                return false;
            }
            if self.isa.inside(entry, row, lanes) && pool.passes_ternary(entry, row) {
                self.scratch.bound[key % CHUNK] = priority_of(entry, lanes).0;
                self.best[key] = match_of(entry, lanes);
                return true;
            }
            if is_last(entry, lanes) {
                return false;
            }
        }
        false
    }
}
