//! Lookups of batches: a batch is taken through the tables its keys may match in.
//!
//! A [`Search`] chooses the tables, and probes them in rounds. A single key is taken through its tables without rounds.

use super::probe::{Fixed, Rows};
use super::round::{CHUNK, Scratch};
use super::search::{ByCandidates, InOrder, Search};
use super::single::one;
use super::structure::TupleMerge;
use crate::engine::Match;
use crate::engine::observer::dispatch_for;
use crate::engine::tombstones::LiveRules;
use crate::key::Keys;
use crate::raw::{Isa, Kernel};

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
fn several<A: LiveRules>(
    engine: &TupleMerge,
    live_rules: A,
    scratch: &mut Scratch,
    keys: &Keys<'_>,
    best: &mut [Option<Match>],
) {
    let keys = *keys;
    if engine.candidates.are_asked() {
        dispatch_for::<A>(engine.level, Lookup { search: ByCandidates, engine, live_rules, scratch, keys, best });
    } else {
        dispatch_for::<A>(engine.level, Lookup { search: InOrder, engine, live_rules, scratch, keys, best });
    }
}

struct Lookup<'a, S, A> {
    search: S,
    engine: &'a TupleMerge,
    live_rules: A,
    scratch: &'a mut Scratch,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
}

impl<S: Search, A: LiveRules> Kernel for Lookup<'_, S, A> {
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

impl<'a, S: Search, A: LiveRules> Lookup<'a, S, A> {
    #[inline(always)]
    fn run_over<I: Isa, R: Rows>(self, isa: I, rows: impl Fn(Keys<'a>) -> R) {
        let Self { search, engine, live_rules, scratch, keys, best } = self;
        for (index, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = keys.slice(index * CHUNK, index * CHUNK + best.len());
            for (bound, best) in scratch.bound.iter_mut().zip(&*best) {
                // Priorities are distinct: to equal the bound is to find the same rule again, which changes nothing.
                *bound = best.map_or(u64::MAX, |best| best.priority.0);
            }
            search.chunk(isa, live_rules, engine, scratch, &rows(keys), best);
            engine.overflow.improve(isa, live_rules, keys, &mut scratch.bound[..best.len()], best);
        }
    }
}
