//! Lookups of single keys: a key is taken through the tables it may match in, one after the other.
//!
//! A candidate is hashed only once those before it have failed, because most keys match in the first.

use super::candidates::PLANE;
use super::probe::{Fixed, Rows, Sought, walk};
use super::structure::TupleMerge;
use super::table::place;
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, dispatch};

/// Improves the match of a single key.
#[inline(always)]
pub(super) fn one(engine: &TupleMerge, live_rules: impl LiveRules, key: &Keys<'_>, best: &mut Option<Match>) {
    if engine.overflow.len() > 0 {
        return one_beside_overflow(engine, live_rules, key, best);
    }
    in_tables(engine, live_rules, key, best);
}

/// Does the same for an engine that has an overflow list.
///
/// It is not inlined, because most engines have none.
#[inline(never)]
fn one_beside_overflow(engine: &TupleMerge, live_rules: impl LiveRules, key: &Keys<'_>, best: &mut Option<Match>) {
    in_tables(engine, live_rules, key, best);
    dispatch(engine.level, InOverflow { engine, live_rules, key: *key, best });
}

/// Improves the match of a single key by the regions of tables.
///
/// Each length of rows has a kernel of its own, because a kernel for all of them sets up the stack frame of the largest.
#[inline(always)]
fn in_tables(engine: &TupleMerge, live_rules: impl LiveRules, key: &Keys<'_>, best: &mut Option<Match>) {
    let words = key.words();
    match key.key_words() {
        5 => dispatch(engine.level, InTables { engine, live_rules, rows: Fixed::<5, 8>(words.as_chunks().0), best }),
        11 => dispatch(engine.level, InTables { engine, live_rules, rows: Fixed::<11, 12>(words.as_chunks().0), best }),
        _ => dispatch(engine.level, InTables { engine, live_rules, rows: *key, best }),
    }
}

/// Kernel for the tables and a single key.
struct InTables<'a, R, A> {
    engine: &'a TupleMerge,
    live_rules: A,
    /// The row of the key.
    rows: R,
    best: &'a mut Option<Match>,
}

impl<R: Rows, A: LiveRules> Kernel for InTables<'_, R, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, live_rules, rows, best } = self;
        let mut bound = best.map_or(u64::MAX, |best| best.priority.0);
        let mut sought = Sought { row: rows.row(0), key_words: rows.key_words(), bound: &mut bound, best };
        for (plane, bounds) in engine.bounds.as_chunks::<PLANE>().0.iter().enumerate() {
            if bounds[0].best.min(bounds[0].after) > *sought.bound {
                return;
            }
            live_rules.saw(Step::Plane);
            let mut open = engine.candidates.plane(plane).of(isa, sought.row);
            while open != 0 {
                let t = open.trailing_zeros() as usize % PLANE;
                open &= open - 1;
                let Some(Some(table)) = engine.tables.get(plane * PLANE + t) else { continue };
                if bounds[t].best <= *sought.bound {
                    live_rules.saw(Step::Bucket);
                    let hash = isa.hash(&engine.hasher, sought.row, &table.tuple()[..sought.row.len()]);
                    let (at, tag) = place(hash, table.buckets().len());
                    let equal = isa.equal8(&table.buckets()[at].tags, tag);
                    walk(isa, live_rules, &engine.pool, table, hash, equal, &mut sought);
                }
                if bounds[t].after > *sought.bound {
                    return;
                }
            }
        }
    }
}

/// Kernel for the overflow list and a single key.
struct InOverflow<'a, A> {
    engine: &'a TupleMerge,
    live_rules: A,
    key: Keys<'a>,
    best: &'a mut Option<Match>,
}

impl<A: LiveRules> Kernel for InOverflow<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let mut bound = [self.best.map_or(u64::MAX, |best| best.priority.0)];
        let best = std::slice::from_mut(self.best);
        self.engine.overflow.improve(isa, self.live_rules, self.key, &mut bound, best);
    }
}
