//! Searches: which tables a key probes, and in which order.
//!
//! [`ByCandidates`] leaves out tables that cannot match a key. [`InOrder`] is the paper's classification (section
//! III-C1): one table after the other.

use super::candidates::PLANE;
use super::probe::{Rows, Sought, probe_one};
use super::round::{CHUNK, Scratch, probe};
use super::structure::{Bounds, TupleMerge};
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::raw::Isa;

/// Choice of the tables that a key probes, and of their order.
pub(super) trait Search: Copy {
    /// Takes a chunk of keys through the tables; `s.bound` has the priorities to beat or equal.
    fn chunk<I: Isa>(
        self,
        isa: I,
        live_rules: impl LiveRules,
        engine: &TupleMerge,
        s: &mut Scratch,
        rows: &impl Rows,
        best: &mut [Option<Match>],
    );

    /// Takes a single key through the tables.
    fn one<I: Isa>(self, isa: I, live_rules: impl LiveRules, engine: &TupleMerge, sought: &mut Sought<'_>);
}

/// Search by candidates: tables that cannot match a key are not probed.
#[derive(Clone, Copy)]
pub(super) struct ByCandidates;

impl Search for ByCandidates {
    #[inline(always)]
    fn chunk<I: Isa>(
        self,
        isa: I,
        live_rules: impl LiveRules,
        engine: &TupleMerge,
        s: &mut Scratch,
        rows: &impl Rows,
        best: &mut [Option<Match>],
    ) {
        let planes = engine.tables.chunks(PLANE).zip(engine.bounds.as_chunks::<PLANE>().0);
        for (plane, (tables, bounds)) in planes.enumerate() {
            let (mut live, mut probes) = open(isa, live_rules, engine, s, rows, best.len(), plane);
            while live + probes > 0 {
                probe(isa, live_rules, engine, s, rows, tables, probes, best);
                (live, probes) = next(s, live, bounds);
            }
        }
    }

    #[inline(always)]
    fn one<I: Isa>(self, isa: I, live_rules: impl LiveRules, engine: &TupleMerge, sought: &mut Sought<'_>) {
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
                    probe_one(isa, live_rules, engine, table, sought);
                }
                if bounds[t].after > *sought.bound {
                    return;
                }
            }
        }
    }
}

/// Finds the candidates of every key in a plane, and makes a probe of the first candidate of each key.
///
/// Returns the number of keys with more candidates, and the number of probes.
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

/// Makes a probe of the next candidate of each of the `live` keys that this candidate may improve.
///
/// Returns the number of keys that later candidates may improve, and the number of probes. No branch depends on the
/// answers.
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

/// Search by the order of the tables' best priorities.
///
/// A key stops before the first table whose best priority cannot improve its match, because no later table can either.
#[derive(Clone, Copy)]
pub(super) struct InOrder;

impl Search for InOrder {
    /// Probes each table with all keys that it may improve, so that a key's misses hide behind those of the others.
    #[inline(always)]
    fn chunk<I: Isa>(
        self,
        isa: I,
        live_rules: impl LiveRules,
        engine: &TupleMerge,
        s: &mut Scratch,
        rows: &impl Rows,
        best: &mut [Option<Match>],
    ) {
        let mut live = best.len().min(CHUNK);
        for (key, live) in (0..).zip(&mut s.live[..live]) {
            *live = key;
        }
        for &t in &engine.order {
            let first = engine.bounds[t as usize].best;
            let mut left = 0;
            for i in 0..live {
                let key = s.live[i];
                (s.keys[left % CHUNK], s.tables[left % CHUNK]) = (key, t);
                s.live[left % CHUNK] = key;
                left += usize::from(first <= s.bound[key as usize % CHUNK]);
            }
            live = left.min(CHUNK);
            if live == 0 {
                return;
            }
            probe(isa, live_rules, engine, s, rows, &engine.tables, live, best);
        }
    }

    #[inline(always)]
    fn one<I: Isa>(self, isa: I, live_rules: impl LiveRules, engine: &TupleMerge, sought: &mut Sought<'_>) {
        for &t in &engine.order {
            if engine.bounds[t as usize].best > *sought.bound {
                return;
            }
            if let Some(table) = &engine.tables[t as usize] {
                probe_one(isa, live_rules, engine, table, sought);
            }
        }
    }
}
