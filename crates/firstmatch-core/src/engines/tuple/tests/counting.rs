//! Cost of lookups, counted: keys go through tables as `lookup` takes them.

use crate::engine::cost::Cost;
use crate::engines::tuple::candidates::PLANE;
use crate::engines::tuple::structure::TupleMerge;
use crate::engines::tuple::table::{Table, place};
use crate::key::Keys;
use crate::raw::{Isa, Kernel, dispatch};

/// Number of keys that go together.
const CHUNK: usize = 64;

#[derive(Default)]
struct Counts {
    /// Planes asked for candidates.
    planes: usize,
    probes: usize,
    /// Entries that were tested.
    entries: usize,
    /// Buckets that a walk went on to.
    more: usize,
}

pub(in crate::engines::tuple) fn of(engine: &TupleMerge, keys: Keys<'_>) -> Cost {
    let mut counts = Counts::default();
    dispatch(engine.level, Walk { engine, keys, counts: &mut counts });
    let Counts { planes, probes, entries, more } = counts;
    let lines = planes * engine.lines_per_plane() + probes + more + entries * engine.pool.lines_per_entry();
    Cost::of(keys.len(), lines, entries + keys.len() * engine.overflow.len())
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
                for (key, bound) in here.clone().zip(&mut bound) {
                    if bounds[0].best.min(bounds[0].after) > *bound {
                        continue;
                    }
                    counts.planes += 1;
                    let row = keys.row(key);
                    let (mut open, mut is_first) = (engine.candidates.plane(plane).of(isa, row), true);
                    while open != 0 {
                        let t = open.trailing_zeros() as usize;
                        open &= open - 1;
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
                }
            }
        }
    }
}

/// Goes through the groups of a hash.
fn probe(engine: &TupleMerge, table: &Table, hash: u32, row: &[u32], bound: &mut u64, counts: &mut Counts) {
    let (start, tag) = place(hash, table.buckets().len());
    for at in (start..table.buckets().len()).chain(0..start) {
        let bucket = &table.buckets()[at];
        for slot in (0..bucket.tags.len()).filter(|&slot| bucket.tags[slot] == tag) {
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
