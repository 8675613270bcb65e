//! Lookups of batches: a batch is taken through the tables its keys may match in.
//!
//! Each round probes a table a key, in stages that prefetch the memory of the next. A single key is taken through its
//! tables without rounds.

use super::candidates::PLANE;
use super::pool::Pool;
use super::probe::{Fixed, Rows, Sought, test_group, walk};
use super::single::one;
use super::structure::{Bounds, TupleMerge};
use super::table::{Table, place};
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::key::Keys;
use crate::raw::{Hasher, Isa, Kernel, dispatch};

/// Number of keys taken through the tables together.
///
/// They are enough to hide a miss of the second-level cache behind the others.
const CHUNK: usize = 64;

/// Scratch of a lookup, of fixed size.
#[derive(Debug)]
pub struct Scratch {
    /// Priority to beat or equal, for each key of the chunk.
    bound: [u64; CHUNK],
    /// Tables that each key has yet to be looked up in.
    open: [u64; CHUNK],
    /// Keys for which some of these tables may have something better.
    live: [u32; CHUNK],
    /// Probes of a round, then the hits among them.
    keys: [u32; CHUNK],
    tables: [u32; CHUNK],
    hashes: [u32; CHUNK],
    /// First group of the tag for each hit, or `NONE`.
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

/// Improves `best` for each key, by the rules of `live_rules`.
///
/// A single key has a path of its own, because the stages of a round would hide no miss behind another key.
#[inline(always)]
pub(super) fn improve(
    engine: &TupleMerge,
    live_rules: impl LiveRules,
    scratch: &mut Scratch,
    keys: &Keys<'_>,
    best: &mut [Option<Match>],
) {
    match best {
        [best] => one(engine, live_rules, keys, best),
        _ => several(engine, live_rules, scratch, keys, best),
    }
}

/// Improves a batch.
///
/// It is not inlined, so that a single key pays for no preparation.
#[inline(never)]
fn several(
    engine: &TupleMerge,
    live_rules: impl LiveRules,
    scratch: &mut Scratch,
    keys: &Keys<'_>,
    best: &mut [Option<Match>],
) {
    dispatch(engine.level, Lookup { engine, live_rules, scratch, keys: *keys, best });
}

struct Lookup<'a, A> {
    engine: &'a TupleMerge,
    live_rules: A,
    scratch: &'a mut Scratch,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
}

impl<A: LiveRules> Kernel for Lookup<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        // Loops over the words of a row take long where their number is not known to the compiler.
        match self.keys.key_words() {
            5 => self.run_over(isa, |keys| Fixed::<5, 8>(keys.words().as_chunks().0)),
            11 => self.run_over(isa, |keys| Fixed::<11, 12>(keys.words().as_chunks().0)),
            _ => self.run_over(isa, |keys| keys),
        }
    }
}

impl<'a, A: LiveRules> Lookup<'a, A> {
    #[inline(always)]
    fn run_over<I: Isa, R: Rows>(self, isa: I, rows: impl Fn(Keys<'a>) -> R) {
        let Self { engine, live_rules, scratch, keys, best } = self;
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = keys.slice(index * CHUNK, index * CHUNK + best.len());
            classify(isa, live_rules, engine, scratch, &rows(keys), best);
            engine.overflow.improve(isa, live_rules, keys, &mut scratch.bound[..best.len()], best);
        }
    }
}

// The stages are functions of references, not methods of a struct of references. So the compiler knows that they write
// nothing of the engine's, and does not load its parts again for every key.

#[inline(always)]
fn classify<I: Isa>(
    isa: I,
    live_rules: impl LiveRules,
    engine: &TupleMerge,
    s: &mut Scratch,
    rows: &impl Rows,
    best: &mut [Option<Match>],
) {
    for (bound, best) in s.bound.iter_mut().zip(&*best) {
        // Priorities are distinct: to equal the bound is to find the same rule again, which changes nothing.
        *bound = best.map_or(u64::MAX, |best| best.priority.0);
    }
    let planes = engine.tables.chunks(PLANE).zip(engine.bounds.as_chunks::<PLANE>().0);
    for (plane, (tables, bounds)) in planes.enumerate() {
        let (mut live, mut probes) = open(isa, live_rules, engine, s, rows, best.len(), plane);
        while live + probes > 0 {
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
                // A region that holds the key has its bits under the tuple, so no other group can.
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
            (live, probes) = next(s, live, bounds);
        }
    }
}

/// Finds the candidates of every key in a plane, and takes up the first of each.
///
/// Returns how many keys have more, and the number of probes that makes.
#[inline(always)]
fn open<I: Isa>(
    isa: I,
    live_rules: impl LiveRules,
    engine: &TupleMerge,
    s: &mut Scratch,
    rows: &impl Rows,
    count: usize,
    plane: usize,
) -> (usize, usize) {
    let (mut left, mut probes) = (0, 0);
    let first = engine.bounds[plane * PLANE];
    let best = first.best.min(first.after);
    let plane = engine.candidates.plane(plane);
    for key in 0..count.min(CHUNK) {
        if best > s.bound[key] {
            continue;
        }
        live_rules.saw(Step::Plane);
        let open = plane.of(isa, rows.row(key as u32));
        let rest = open & open.wrapping_sub(1);
        (s.keys[probes % CHUNK], s.tables[probes % CHUNK]) = (key as u32, open.trailing_zeros());
        probes += usize::from(open != 0);
        s.open[key] = rest;
        s.live[left % CHUNK] = key as u32;
        left += usize::from(rest != 0);
    }
    (left, probes)
}

/// Takes up the next candidate that may improve each of `live` keys.
///
/// Returns how many keys may have more, and the number of probes that makes. No branch depends on the answers.
#[inline(always)]
fn next(s: &mut Scratch, live: usize, bounds: &[Bounds; PLANE]) -> (usize, usize) {
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
        // A marked bucket without the tag still has to be gone past, so it is a hit without a group.
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
