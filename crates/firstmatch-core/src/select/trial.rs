//! Timing of candidates side by side, on keys that come from the rules alone.

use std::ops::{Range, RangeInclusive};
use std::time::Instant;

use super::strategy::Calls;
use super::traffic::Sample;
use crate::engine::Match;
use crate::engines::registry::{AnyBase, Scratch};
use crate::engines::shared::wide::{GOLDEN, share};
use crate::key::KeyBuf;
use crate::rule::Lowered;

/// Number of rounds, in each of which every candidate has its turns.
const ROUNDS: usize = 3;
const TURNS: usize = 3;
/// Number of keys in a batch.
const BATCH: usize = 256;
/// Maximum number of keys in a turn, the minimum for several rounds, and the minimum for timing a candidate at all.
const TURN: usize = 4 * BATCH;
const LEAST: usize = BATCH / 8;
const FEWEST: usize = 4;
/// Number of keys of each sort of traffic whose steps are counted.
const COUNTED: usize = 64;
/// A candidate is far slower than another if its worst ratio is above this many times the least worst ratio.
const FAR: f64 = 4.0;
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

/// Times of candidates.
pub(crate) struct Timed {
    /// Nanoseconds per packet of each candidate on each sample.
    pub(crate) nanos: Vec<Vec<f64>>,
    /// Region visits by all lookups together, in the worst case.
    pub(crate) visits: usize,
}

/// Times each candidate on each sample: the least of nine turns.
///
/// The least counts, because whatever else runs on the machine only adds to a time. All lookups together make at most
/// `visits` region visits in the worst case, and each candidate at most its share. A candidate that may visit many
/// regions looks up fewer keys, and only in the first round if these are few. If its share is too small for four keys
/// at a time, its times are infinite.
///
/// For example, with 2^26 visits, four candidates and five samples, a candidate that may visit 200,000 regions looks up
/// four keys in each of three turns.
///
/// A candidate that is [`FAR`] slower has turns in the first round alone, because timing it would take most of the
/// time. For example, if one candidate takes at most 1.5 times as long as the fastest on every sample, a candidate that
/// takes over 6 times as long on some sample is timed no further.
///
/// Before its turns a candidate looks up as many keys as there are. So its memory is in the caches as far as it fits,
/// as in an endless stream of packets. Otherwise it would be measured with caches that another candidate has filled,
/// which makes it several times slower.
pub(crate) fn time(candidates: &[&AnyBase], samples: &[Sample], calls: Calls, visits: usize) -> Timed {
    let mut timed = Timed { nanos: vec![vec![f64::INFINITY; samples.len()]; candidates.len()], visits: 0 };
    let Some(Sample { keys, .. }) = samples.first() else { return timed };
    let share = visits / (candidates.len() * samples.len()).max(1);
    let lookups = |base: &&AnyBase| Lookups::of(share / base.visits(), keys.len());
    let mut looked_up: Vec<Option<Lookups>> = candidates.iter().map(lookups).collect();
    let mut scratch = Scratch::new(keys.schema());
    for round in 0..ROUNDS {
        for (number, Sample { keys, .. }) in samples.iter().enumerate() {
            for turn in 0..candidates.len() {
                let at = (turn + round) % candidates.len();
                let Some(Lookups { before, count, rounds }) = looked_up[at] else { continue };
                if round >= rounds {
                    continue;
                }
                let first = round * (keys.len() + TURNS * TURN);
                pass(candidates[at], &mut scratch, keys, calls, first..first + before);
                for turn in 0..TURNS {
                    let (first, start) = (first + keys.len() + turn * TURN, Instant::now());
                    pass(candidates[at], &mut scratch, keys, calls, first..first + count);
                    let taken = start.elapsed().as_secs_f64() * 1e9 / count as f64;
                    timed.nanos[at][number] = timed.nanos[at][number].min(taken);
                }
                timed.visits += (before + TURNS * count) * candidates[at].visits();
            }
        }
        if round == 0 {
            leave_far(&timed.nanos, &mut looked_up);
        }
    }
    timed
}

/// Numbers of lookups of a candidate on one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lookups {
    /// Number before the turns of a round.
    before: usize,
    /// Number in each turn.
    count: usize,
    rounds: usize,
}

impl Lookups {
    /// Shares out `affordable` lookups over `keys` keys; `None` if they are too few to time any.
    fn of(affordable: usize, keys: usize) -> Option<Self> {
        let of_round = affordable / ROUNDS;
        match (of_round / (2 * TURNS)).min(keys).min(TURN) {
            ..LEAST => {
                let count = (affordable / (1 + TURNS)).min(LEAST);
                (count >= FEWEST).then_some(Self { before: count, count, rounds: 1 })
            }
            few => {
                let count = if few < BATCH { few } else { few / BATCH * BATCH };
                Some(Self { before: (of_round - TURNS * count).min(keys), count, rounds: ROUNDS })
            }
        }
    }
}

/// Returns the mean number of cache lines that a lookup touches on the sample where that is largest, and the visits.
///
/// Lookups of a few keys of each sample are counted. They make at most `visits` region visits in the worst case. If
/// these are too few for a key of each sample, it returns the worst case of a lookup.
pub(crate) fn lines(base: &AnyBase, samples: &[Sample], visits: usize) -> (usize, usize) {
    let count = (visits / base.visits() / samples.len().max(1)).min(COUNTED);
    if count == 0 {
        return (base.stats().worst_lines, 0);
    }
    let of = |Sample { keys, .. }: &Sample| {
        let (mut scratch, mut best) = (Scratch::new(keys.schema()), [None::<Match>; COUNTED]);
        let count = count.min(keys.len());
        let counts = base.count(&mut scratch, &keys.keys().slice(0, count), &mut best[..count]);
        counts.get("lines").map_or(0, |lines| lines as usize / count.max(1))
    };
    (samples.iter().map(of).max().unwrap_or(0), count * samples.len() * base.visits())
}

/// Gives no more lookups to candidates whose worst ratio is above [`FAR`] times the least.
fn leave_far<T>(nanos: &[Vec<f64>], looked_up: &mut [Option<T>]) {
    let ratios: Vec<f64> = (0..nanos.len()).map(|at| worst_ratio(nanos, at, 0.0)).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    looked_up.iter_mut().zip(ratios).filter(|(_, ratio)| *ratio > FAR * least).for_each(|(of, _)| *of = None);
}

/// Returns a candidate's worst ratio: the largest ratio of its time to the least time, over all samples.
///
/// A time at most `slack` nanoseconds above the least has ratio 1. For example, 3 ns against 2 ns is a ratio of 1.5,
/// but 1 with a slack of 2.
pub(crate) fn worst_ratio(nanos: &[Vec<f64>], at: usize, slack: f64) -> f64 {
    let ratio = |(sample, &own): (usize, &f64)| {
        let least = nanos.iter().map(|nanos| nanos[sample]).fold(own, f64::min);
        if own <= least + slack { 1.0 } else { own / least }
    };
    nanos[at].iter().enumerate().map(ratio).fold(1.0, f64::max)
}

fn pass(base: &AnyBase, scratch: &mut Scratch, keys: &KeyBuf, calls: Calls, lookups: Range<usize>) {
    let mut best = [None::<Match>; BATCH];
    for batch in lookups.clone().step_by(BATCH) {
        let best = &mut best[..BATCH.min(lookups.end - batch)];
        // No two batches begin alike, so that no branch predictor learns them.
        let start = share((batch as u64).wrapping_mul(GOLDEN), keys.len() - BATCH + 1);
        best.fill(None);
        for (call, best) in best.chunks_mut(calls.packets(BATCH)).enumerate() {
            let start = start + call * calls.packets(BATCH);
            base.improve(scratch, &keys.keys().slice(start, start + best.len()), best);
        }
        std::hint::black_box(&best);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_ratio_is_over_all_traffic() {
        let nanos = [vec![10.0, 30.0], vec![20.0, 10.0], vec![10.5, 12.0]];
        let ratio = |at, slack| worst_ratio(&nanos, at, slack);
        assert_eq!([ratio(0, 0.0), ratio(1, 0.0), ratio(2, 0.0)], [3.0, 2.0, 1.2]);
        // A time within the slack of the least has ratio 1; a longer time has its true ratio.
        assert_eq!([ratio(2, 0.5), ratio(2, 2.0), ratio(2, 1.99)], [1.2, 1.0, 1.2]);
    }

    /// Many lookups are shared out to rounds, few have one round, and fewer than four at a time are none.
    #[test]
    fn few_lookups_have_one_round() {
        let of = |affordable| Lookups::of(affordable, 4096).map(|of| [of.before, of.count, of.rounds]);
        assert_eq!(of(usize::MAX), Some([4096, TURN, ROUNDS]));
        assert_eq!(of(3 * 6 * LEAST), Some([3 * LEAST, LEAST, ROUNDS]));
        assert_eq!(of(3 * 6 * LEAST - 1), Some([LEAST, LEAST, 1]));
        assert_eq!([of(19), of(16), of(15)], [Some([4, 4, 1]), Some([4, 4, 1]), None]);
        for affordable in 0..20_000 {
            let made = Lookups::of(affordable, 4096).map_or(0, |of| of.rounds * (of.before + TURNS * of.count));
            assert!(made <= affordable, "{made} of {affordable}");
        }
    }

    /// A candidate far slower than another in its worst ratio gets no more lookups; two that are about as slow do.
    #[test]
    fn far_slower_candidates_have_one_round() {
        let left = |nanos: &[[f64; 2]]| {
            let nanos: Vec<Vec<f64>> = nanos.iter().map(|nanos| nanos.to_vec()).collect();
            let mut looked_up = vec![Some(()); nanos.len()];
            leave_far(&nanos, &mut looked_up);
            looked_up.iter().map(Option::is_some).collect::<Vec<_>>()
        };
        assert_eq!(left(&[[10.0, 10.0], [40.0, 40.0], [40.1, 10.0], [10.0, 41.0]]), [true, true, false, false]);
        // Each is the fastest on one sort, so that neither is far slower overall.
        assert_eq!(left(&[[1.0, 100.0], [100.0, 1.0]]), [true, true]);
        assert_eq!(left(&[[5.0, 5.0], [f64::INFINITY; 2]]), [true, false]);
        assert_eq!(left(&[[5.0, 5.0]]), [true]);
    }
}
