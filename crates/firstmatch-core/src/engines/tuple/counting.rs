//! Cost of lookups, counted: keys go through tables as [`lookup`](super::lookup) takes them.

use super::candidates::PLANE;
use super::structure::TupleMerge;
use super::table::{Table, place};
use crate::engine::cost::Cost;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, dispatch};

/// Number of keys that go together.
const CHUNK: usize = 64;

#[derive(Default)]
struct Counts {
    /// Planes asked for candidates.
    planes: usize,
    probes: usize,
    /// Groups whose tag was the key's, and their entries that were tested.
    groups: usize,
    entries: usize,
    /// Buckets that a walk went on to.
    more: usize,
    /// Probes of the key that had most, chunk by chunk and plane by plane.
    rounds: usize,
    /// Regions of the overflow list that keys were tested against.
    overflow: usize,
}

pub(super) fn of(engine: &TupleMerge, keys: Keys<'_>) -> Cost {
    let mut counts = Counts::default();
    dispatch(engine.level, Walk { engine, keys, counts: &mut counts });
    let Counts { planes, probes, groups, entries, more, rounds, overflow } = counts;
    let lines = engine.pool.lines_per_entry();
    let done = [planes, probes, probes * keys.lanes(), groups, entries * lines, rounds, overflow.div_ceil(8) + more];
    let bytes = engine.pool.bytes() + engine.table_bytes + engine.candidates.bytes();
    Cost::each(keys.len(), done, 6 * planes + probes + more + entries * lines, bytes).visiting(entries + overflow)
}

struct Walk<'a> {
    engine: &'a TupleMerge,
    keys: Keys<'a>,
    counts: &'a mut Counts,
}

impl Kernel for Walk<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, keys, counts } = self;
        for from in (0..keys.len()).step_by(CHUNK) {
            let here = from..keys.len().min(from + CHUNK);
            let mut bound = [u64::MAX; CHUNK];
            let planes = engine.tables.chunks(PLANE).zip(engine.bounds.as_chunks::<PLANE>().0);
            for (plane, (tables, bounds)) in planes.enumerate() {
                let mut deepest = 0;
                for (key, bound) in here.clone().zip(&mut bound) {
                    if bounds[0].best.min(bounds[0].after) > *bound {
                        continue;
                    }
                    counts.planes += 1;
                    let row = keys.row(key);
                    let (mut open, mut rounds, mut is_first) = (engine.candidates.plane(plane).of(isa, row), 0, true);
                    while open != 0 {
                        let t = open.trailing_zeros() as usize;
                        open &= open - 1;
                        rounds += 1;
                        if (is_first || bounds[t].best <= *bound)
                            && let Some(Some(table)) = tables.get(t)
                        {
                            counts.probes += 1;
                            let hash = isa.hash(&engine.hasher, row, &table.tuple()[..row.len()]);
                            probe(engine, table, hash, row, bound, counts);
                        }
                        if !is_first && bounds[t].after > *bound {
                            break;
                        }
                        is_first = false;
                    }
                    deepest = rounds.max(deepest);
                }
                counts.rounds += deepest;
            }
            counts.overflow += here.len() * engine.overflow.len();
        }
    }
}

/// Goes through the groups of a hash.
fn probe(engine: &TupleMerge, table: &Table, hash: u32, row: &[u32], bound: &mut u64, counts: &mut Counts) {
    let (start, tag) = place(hash, table.buckets().len());
    for at in (start..table.buckets().len()).chain(0..start) {
        let bucket = &table.buckets()[at];
        for slot in (0..bucket.tags.len()).filter(|&slot| bucket.tags[slot] == tag) {
            counts.groups += 1;
            for entry in engine.pool.group(bucket.group(slot)) {
                counts.entries += 1;
                let priority = engine.pool.priority(entry).0;
                if priority > *bound {
                    break;
                }
                if engine.pool.region(entry).contains(row) {
                    *bound = priority;
                    return;
                }
            }
        }
        if !bucket.goes_on() {
            return;
        }
        counts.more += 1;
    }
}
