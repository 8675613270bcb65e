//! Lookups: a batch goes table by table, each in stages that ask early for the memory of the next.

use super::TupleMerge;
use super::pool::{is_last, match_of, priority_of};
use super::table::{EMPTY, Table, place};
use crate::engine::Match;
use crate::key::Keys;
use crate::rule::Priority;
use crate::simd::{Isa, Kernel, Line, words};

/// Keys taken through the tables together: enough to hide a miss of the second-level cache behind the others.
pub(super) const CHUNK: usize = 64;

/// What a lookup writes to; of a fixed size.
#[derive(Debug)]
pub struct Scratch {
    /// The keys still looking, as indices into the chunk.
    active: [u8; CHUNK],
    /// For each key of the chunk the priority to beat or equal.
    bound: [u64; CHUNK],
    /// For each active key where its walk starts, and its tag.
    bucket: [u32; CHUNK],
    tag: [u32; CHUNK],
    /// Groups to test.
    hits: [Hit; CHUNK],
}

#[derive(Clone, Copy, Debug, Default)]
struct Hit {
    group: u32,
    bucket: u32,
    tag: u32,
    key: u8,
    /// Whether the walk may have to go on behind the first group of this tag.
    more: bool,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            active: [0; CHUNK],
            bound: [0; CHUNK],
            bucket: [0; CHUNK],
            tag: [0; CHUNK],
            hits: [Hit::default(); CHUNK],
        }
    }
}

/// The two halves of a product, one on the other: every bit of both factors reaches every bit of it.
#[inline(always)]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The keyed hash of the bits of a row that a tuple has. Row and tuple are padded with zeros to a multiple of 4.
#[inline(always)]
pub(super) fn hash(row: &[u32], tuple: &[u32], keys: &[u64]) -> u64 {
    let pair = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
    let (rows, tuples) = (row.as_chunks::<4>().0, tuple.as_chunks::<4>().0);
    let mut hash = keys[0];
    for ((k, t), key) in rows.iter().zip(tuples).zip(&keys[1..]) {
        hash = fold(pair(k[0] & t[0], k[1] & t[1]) ^ hash, pair(k[2] & t[2], k[3] & t[3]) ^ key);
    }
    hash
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
        let mut active = self.best.len();
        for (i, best) in self.best.iter().enumerate() {
            self.scratch.active[i] = i as u8;
            // Priorities are distinct: to equal the bound is to find the same rule again, which changes nothing.
            self.scratch.bound[i] = best.map_or(u64::MAX, |best| best.priority.0);
        }
        let engine = self.engine;
        for &t in &engine.order {
            let Some(table) = &engine.tables[t as usize] else { continue };
            active = self.prune(table, active);
            if active == 0 {
                return;
            }
            self.ask(table, active);
            let hits = self.compare(table, active);
            for hit in 0..hits {
                self.test(table, self.scratch.hits[hit]);
            }
        }
    }

    /// Keeps the keys that a rule of this table, and hence of a later one, could still improve.
    #[inline(always)]
    fn prune(&mut self, table: &Table, active: usize) -> usize {
        let s = &mut *self.scratch;
        let mut kept = 0;
        for i in 0..active.min(CHUNK) {
            let key = s.active[i];
            s.active[kept] = key;
            kept += usize::from(table.best().0 <= s.bound[key as usize % CHUNK]);
        }
        kept
    }

    /// Hashes, and asks for the buckets.
    #[inline(always)]
    fn ask(&mut self, table: &Table, active: usize) {
        let s = &mut *self.scratch;
        let buckets = table.buckets();
        for i in 0..active.min(CHUNK) {
            let row = self.keys.row(s.active[i] as usize);
            let (bucket, tag) = place(hash(row, table.tuple(), &self.engine.hash_keys), buckets.len());
            self.isa.prefetch(&buckets[bucket]);
            (s.bucket[i], s.tag[i]) = (bucket as u32, tag);
        }
    }

    /// Compares tags, and asks for the groups. Keys without a group fall out, and no branch depends on that.
    #[inline(always)]
    fn compare(&mut self, table: &Table, active: usize) -> usize {
        let s = &mut *self.scratch;
        let (buckets, lines) = (table.buckets(), self.engine.pool.lines());
        let per_entry = self.engine.pool.lines_per_entry();
        let mut hits = 0;
        for i in 0..active.min(CHUNK) {
            let (at, tag) = (s.bucket[i], s.tag[i]);
            let bucket = &buckets[at as usize];
            let equal = self.isa.equal8(&bucket.tags, tag);
            let full = bucket.is_full();
            let group = bucket.groups[equal.trailing_zeros() as usize % 8];
            let more = full | (equal & equal.wrapping_sub(1) != 0);
            // A full bucket without the tag still has to go on: it is a hit without a group.
            let none = equal == 0;
            s.hits[hits % CHUNK] =
                Hit { group: if none { NONE } else { group }, bucket: at, tag, key: s.active[i], more };
            if let Some(line) = lines.get(group as usize * per_entry) {
                self.isa.prefetch(line);
            }
            hits += usize::from(!none | full);
        }
        hits
    }

    /// Tests the regions of a group until one holds the key.
    #[inline(always)]
    fn test(&mut self, table: &Table, hit: Hit) {
        let found = hit.group != NONE && self.test_group(hit.group, hit.key as usize);
        // A region that holds the key has its bits under the tuple: no other group can.
        if hit.more && !found {
            self.walk_on(table, hit);
        }
    }

    /// Tests every group of this tag, over all buckets of the walk.
    #[inline(always)]
    fn walk_on(&mut self, table: &Table, hit: Hit) {
        let buckets = table.buckets();
        let mut at = hit.bucket as usize;
        for _ in 0..buckets.len() {
            let bucket = &buckets[at];
            let mut equal = self.isa.equal8(&bucket.tags, hit.tag);
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

    /// Whether the best entry of a group that could improve the key holds it, or the key's bits make a search further
    /// on pointless.
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

/// No group: the pool never has this many entries, since a line is 64 bytes.
const NONE: u32 = u32::MAX;

const _: () = assert!(EMPTY == 0 && size_of::<Line>() == 64 && size_of::<Priority>() == 8);
