//! Lookups of single keys: a key is taken through the tables it may match in, one after the other.
//!
//! A candidate is hashed only once those before it have failed, because most keys match in the first.

use super::probe::{Fixed, Rows, Sought};
use super::search::{ByCandidates, InOrder, Search};
use super::structure::TupleMerge;
use crate::engine::Match;
use crate::engine::observer::dispatch_for;
use crate::engine::tombstones::LiveRules;
use crate::key::Keys;
use crate::raw::{Isa, Kernel};

/// Improves the match of a single key.
#[inline(always)]
pub(super) fn one(engine: &TupleMerge, live_rules: impl LiveRules, key: &Keys<'_>, best: &mut Option<Match>) {
    if engine.overflow.len() > 0 || !engine.candidates.are_asked() {
        return one_otherwise(engine, live_rules, key, best);
    }
    in_tables(ByCandidates, engine, live_rules, key, best);
}

/// Does the same for an engine that has an overflow list, or whose lookups use no candidates.
///
/// It is not inlined, because most engines have neither.
#[inline(never)]
fn one_otherwise<A: LiveRules>(engine: &TupleMerge, live_rules: A, key: &Keys<'_>, best: &mut Option<Match>) {
    if engine.candidates.are_asked() {
        in_tables(ByCandidates, engine, live_rules, key, best);
    } else {
        in_tables(InOrder, engine, live_rules, key, best);
    }
    if engine.overflow.len() > 0 {
        dispatch_for::<A>(engine.level, InOverflow { engine, live_rules, key: *key, best });
    }
}

/// Improves the match of a single key by the regions of tables.
///
/// Each length of rows has its own kernel, because a kernel for all lengths sets up the stack frame of the largest.
#[inline(always)]
fn in_tables<A: LiveRules>(
    search: impl Search,
    engine: &TupleMerge,
    live_rules: A,
    key: &Keys<'_>,
    best: &mut Option<Match>,
) {
    let words = key.words();
    match key.key_words() {
        5 => {
            let rows = Fixed::<5, 8>(words.as_chunks().0);
            dispatch_for::<A>(engine.level, InTables { search, engine, live_rules, rows, best });
        }
        11 => {
            let rows = Fixed::<11, 12>(words.as_chunks().0);
            dispatch_for::<A>(engine.level, InTables { search, engine, live_rules, rows, best });
        }
        _ => dispatch_for::<A>(engine.level, InTables { search, engine, live_rules, rows: *key, best }),
    }
}

/// Kernel for the tables and a single key.
struct InTables<'a, S, R, A> {
    search: S,
    engine: &'a TupleMerge,
    live_rules: A,
    /// The row of the key.
    rows: R,
    best: &'a mut Option<Match>,
}

impl<S: Search, R: Rows, A: LiveRules> Kernel for InTables<'_, S, R, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { search, engine, live_rules, rows, best } = self;
        let mut bound = best.map_or(u64::MAX, |best| best.priority.0);
        let mut sought = Sought { row: rows.row(0), key_words: rows.key_words(), bound: &mut bound, best };
        search.one(isa, live_rules, engine, &mut sought);
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
