//! Timing of candidates side by side, on keys that come from the rules alone.

use std::ops::{Range, RangeInclusive};
use std::time::Instant;

use super::config::Config;
use super::traffic::Sample;
use crate::engine::Match;
use crate::engine::base::Build;
use crate::engine::budget::Visits;
use crate::engines::registry::{AnyBase, Kind, Scratch};
use crate::engines::shared::wide::{GOLDEN, share};
use crate::error::BuildError;
use crate::key::KeyBuf;
use crate::rule::{Lowered, Priority, RuleId};

/// Number of rounds, in each of which every candidate has its turns.
const ROUNDS: usize = 3;
const TURNS: usize = 3;
/// Number of keys in a batch.
const BATCH: usize = 256;
/// Maximum number of keys in a turn, and the minimum for timing a candidate at all.
const TURN: usize = 4 * BATCH;
const LEAST: usize = BATCH / 8;
/// Number of keys of each sort of traffic: as many as regions, within this range.
///
/// Few rules have few packets that differ.
const KEYS: RangeInclusive<usize> = 4 * BATCH..=16 * BATCH;

/// Returns the maximum bytes that comparing takes beside the candidates.
pub(crate) fn bytes(set: &Lowered) -> usize {
    // Keys of each sort and those tried for the unmatched ones, their answers, the first region of each rule, and a
    // TupleMerge without rules.
    let key = set.schema().stride() * size_of::<u32>();
    18 * keys(set) * (key + 1) + set.regions().len() * size_of::<u32>() + (16 << 10)
}

/// Returns the number of keys of each sort of traffic.
pub(crate) fn keys(set: &Lowered) -> usize {
    set.regions().len().clamp(*KEYS.start(), *KEYS.end())
}

/// Number of regions of a base that is built as a sample.
const PROBE: usize = 1024;

/// Builds a base of 1,024 of the regions, evenly spread; returns it with them.
///
/// It returns `None` if there are fewer regions.
pub(crate) fn probe(kind: Kind, set: &Lowered, config: &Config) -> Result<Option<(AnyBase, Lowered)>, BuildError> {
    let regions = set.regions().len();
    if regions < PROBE {
        return Ok(None);
    }
    let mut probe = Lowered::empty(set.schema());
    for at in 0..PROBE {
        // Regions of one rule need not be neighbours here, so each is a rule.
        let rule = Match { rule: RuleId::new(at as u32, 0), priority: Priority(at as u64) };
        probe.push(rule, set.regions().get(at * regions / PROBE));
    }
    let &Config { simd, seed, .. } = config;
    let how = Build { run_bytes: usize::MAX, simd, seed, is_forced: false, visits: &Visits::default(), like: None };
    Ok(Some((kind.build(&probe, &how)?, probe)))
}

/// Times of candidates.
pub(crate) struct Timed {
    /// Nanoseconds a packet of each candidate on each sample.
    pub(crate) nanos: Vec<Vec<f64>>,
    /// Region visits by all lookups together, in the worst case.
    pub(crate) visits: usize,
}

/// Times each candidate on each sample: the least of nine turns.
///
/// The least counts, because whatever else runs on the machine only adds to a time. All lookups together make at most
/// `visits` region visits in the worst case, and each candidate at most its share. A candidate that can be made to
/// visit many looks up fewer keys. The times of one whose share is too small even for a few keys are infinite.
///
/// Before its turns a candidate looks up as many keys as there are. So the memory that fits a cache is there, as in an
/// endless stream of packets. Otherwise a candidate would be measured with a cache that another one has filled, which
/// makes it several times slower.
pub(crate) fn time(candidates: &[&AnyBase], samples: &[Sample], visits: usize) -> Timed {
    let share = visits / (ROUNDS * (candidates.len() * samples.len()).max(1));
    // Returns the number of keys before the turns of a round, and in each turn.
    let looked_up = |base: &&AnyBase| {
        let (affordable, keys) = (share / base.visits(), samples.first()?.keys.len());
        let timed = match (affordable / (2 * TURNS)).min(keys).min(TURN) {
            ..LEAST => return None,
            few @ ..BATCH => few,
            many => many / BATCH * BATCH,
        };
        Some(((affordable - TURNS * timed).min(keys), timed))
    };
    let looked_up: Vec<Option<(usize, usize)>> = candidates.iter().map(looked_up).collect();
    let mut nanos = vec![vec![f64::INFINITY; samples.len()]; candidates.len()];
    let mut scratch = samples.first().map(|sample| Scratch::new(sample.keys.schema()));
    for (number, Sample { keys, .. }) in samples.iter().enumerate() {
        for round in 0..ROUNDS {
            for turn in 0..candidates.len() {
                let at = (turn + round) % candidates.len();
                let (Some((before, timed)), Some(scratch)) = (looked_up[at], &mut scratch) else { continue };
                let first = round * (keys.len() + TURNS * TURN);
                pass(candidates[at], scratch, keys, first..first + before);
                for turn in 0..TURNS {
                    let (first, start) = (first + keys.len() + turn * TURN, Instant::now());
                    pass(candidates[at], scratch, keys, first..first + timed);
                    let taken = start.elapsed().as_secs_f64() * 1e9 / timed as f64;
                    nanos[at][number] = nanos[at][number].min(taken);
                }
            }
        }
    }
    let of_each = candidates.iter().zip(looked_up.iter()).filter_map(|(base, looked_up)| Some((base, (*looked_up)?)));
    let visits =
        of_each.map(|(base, (before, timed))| ROUNDS * (before + TURNS * timed) * base.visits()).sum::<usize>();
    Timed { nanos, visits: visits * samples.len() }
}

fn pass(base: &AnyBase, scratch: &mut Scratch, keys: &KeyBuf, lookups: Range<usize>) {
    let mut best = [None::<Match>; BATCH];
    for batch in lookups.clone().step_by(BATCH) {
        let best = &mut best[..BATCH.min(lookups.end - batch)];
        // No two batches begin alike, so that no branch predictor learns them.
        let start = share((batch as u64).wrapping_mul(GOLDEN), keys.len() - BATCH + 1);
        best.fill(None);
        base.improve(scratch, &keys.keys().slice(start, start + best.len()), best);
        std::hint::black_box(&best);
    }
}
