//! Rounds of probes for a batch: one table per key, in stages that each prefetch the memory of the next.

use super::pool::Pool;
use super::probe::{Rows, Sought, test_group, walk};
use super::structure::TupleMerge;
use super::table::{Table, place};
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::raw::{Hasher, Isa};

/// Number of keys taken through the tables together.
///
/// With this many, the work for the other keys hides a miss of the second-level cache.
pub(super) const CHUNK: usize = 64;

/// Scratch of a lookup, of fixed size.
#[derive(Debug)]
pub struct Scratch {
    /// Priority to beat or equal, for each key of the chunk.
    pub(super) bound: [u64; CHUNK],
    /// Tables still to be probed for each key, one bit per table of a plane.
    pub(super) open: [u64; CHUNK],
    /// Keys that a later table may still improve.
    pub(super) live: [u32; CHUNK],
    /// Keys of a round's probes, later of its hits; `tables` has the table of each.
    pub(super) keys: [u32; CHUNK],
    pub(super) tables: [u32; CHUNK],
    hashes: [u32; CHUNK],
    /// First group with the key's tag for each hit, or `NONE`.
    groups: [u32; CHUNK],
}

/// No group.
const NONE: u32 = u32::MAX;
/// Flag of a probe's table: its walk may have to go on behind the group.
const MORE: u32 = 1 << 31;

impl Scratch {
    pub(super) fn new() -> Self {
        let (words, numbers) = ([0; CHUNK], [0; CHUNK]);
        let (live, keys, tables, hashes, groups) = (words, words, words, words, words);
        Self { bound: numbers, open: numbers, live, keys, tables, hashes, groups }
    }
}

// The stages take separate references, not a struct of references. So the compiler knows that they do not write to the
// engine, and does not load its fields again for every key.

/// Makes the probes of a round: for each `i` below `probes`, key `s.keys[i]` in table `tables[s.tables[i]]`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the stages take references, see above")]
pub(super) fn probe<I: Isa>(
    isa: I,
    live_rules: impl LiveRules,
    engine: &TupleMerge,
    s: &mut Scratch,
    rows: &impl Rows,
    tables: &[Option<Table>],
    probes: usize,
    best: &mut [Option<Match>],
) {
    hash(isa, &engine.hasher, s, rows, tables, probes);
    let hits = compare(isa, live_rules, &engine.pool, s, rows, tables, probes);
    for hit in 0..hits.min(CHUNK) {
        let (key, group, t) = (s.keys[hit], s.groups[hit], s.tables[hit]);
        let mut sought = Sought {
            row: rows.row(key),
            key_words: rows.key_words(),
            bound: &mut s.bound[key as usize % CHUNK],
            best: &mut best[key as usize],
        };
        let found = group != NONE && test_group(isa, live_rules, &engine.pool, group, &mut sought);
        // All regions that hold the key agree with it under the tuple, so they are in one group.
        if t & MORE != 0
            && !found
            && let Some(Some(table)) = tables.get((t & !MORE) as usize)
        {
            let hash = s.hashes[hit];
            let (at, tag) = place(hash, table.buckets().len());
            let equal = isa.equal8(&table.buckets()[at].tags, tag);
            // The first group has been tested.
            walk(isa, live_rules, &engine.pool, table, hash, equal & equal.wrapping_sub(1), &mut sought);
        }
    }
}

/// Hashes the keys of the probes, and prefetches their buckets.
#[inline(always)]
fn hash<I: Isa>(isa: I, hasher: &Hasher, s: &mut Scratch, rows: &impl Rows, tables: &[Option<Table>], probes: usize) {
    for i in 0..probes.min(CHUNK) {
        let Some(Some(table)) = tables.get(s.tables[i] as usize) else { continue };
        let row = rows.row(s.keys[i]);
        let hash = isa.hash(hasher, row, &table.tuple()[..row.len()]);
        isa.prefetch(&table.buckets()[place(hash, table.buckets().len()).0]);
        s.hashes[i] = hash;
    }
}

/// Compares tags, and prefetches the groups; returns the number of hits.
///
/// No branch depends on the answers.
#[inline(always)]
fn compare<I: Isa>(
    isa: I,
    live_rules: impl LiveRules,
    pool: &Pool,
    s: &mut Scratch,
    rows: &impl Rows,
    tables: &[Option<Table>],
    probes: usize,
) -> usize {
    let mut hits = 0;
    for i in 0..probes.min(CHUNK) {
        let (key, t, hash) = (s.keys[i], s.tables[i], s.hashes[i]);
        let Some(Some(table)) = tables.get(t as usize) else { continue };
        live_rules.saw(Step::Bucket);
        let (at, tag) = place(hash, table.buckets().len());
        let bucket = &table.buckets()[at];
        let equal = isa.equal8(&bucket.tags, tag);
        // Without an equal tag this is the group of slot 0, which may be 0 or a former one.
        let group = bucket.group(equal.trailing_zeros() as usize);
        pool.prefetch(isa, group, rows.key_words());
        // The walk goes on behind a marked bucket even without an equal tag, so this is a hit without a group.
        let (none, on) = (equal == 0, bucket.goes_on());
        let more = on | (equal & equal.wrapping_sub(1) != 0);
        let at = hits % CHUNK;
        (s.keys[at], s.hashes[at]) = (key, hash);
        s.groups[at] = if none { NONE } else { group };
        s.tables[at] = t | u32::from(more) << 31;
        hits += usize::from(!none | on);
    }
    hits
}
