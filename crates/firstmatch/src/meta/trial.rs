//! Candidates timed side by side, on keys that come from the rules alone.

use std::time::Instant;

use super::Config;
use super::choose::{Chosen, Scratch};
use crate::engine::{Engine as _, Match};
use crate::error::BuildError;
use crate::key::KeyBuf;
use crate::rule::{Lowered, Priority, Region, Regions, RuleId};
use crate::schema::Schema;
use crate::tuple::{self, TupleMerge};

/// Rounds, in each of which every candidate has its turn.
const ROUNDS: usize = 9;
/// Keys of a batch.
const BATCH: usize = 256;
/// Keys of a round: as many as there are regions, within these.
const KEYS: std::ops::RangeInclusive<usize> = 4 * BATCH..=32 * BATCH;

/// The most bytes that timing takes beside the candidates.
pub(super) fn bytes(set: &Lowered) -> usize {
    // The keys, and a TupleMerge without rules.
    2 * keys(set) * set.schema().stride() * size_of::<u32>() + (16 << 10)
}

fn keys(set: &Lowered) -> usize {
    set.regions().len().next_multiple_of(BATCH).clamp(*KEYS.start(), *KEYS.end())
}

/// Whether TupleMerge takes long to build: of 1,024 of the regions, evenly spread, more than 128 share a bucket.
/// How many do. Measured, 10,000 regions that differ in ranges of ports alone take 50 to 70 µs each, where others take
/// 0.4 µs, and the more the longer; lookups are slow there too.
pub(super) fn long_buckets(set: &Lowered, config: &Config) -> Result<Option<usize>, BuildError> {
    const PROBE: usize = 1024;
    const CROWDED: usize = 128;
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
    let config = tuple::Config { simd: config.simd, seed: config.seed, ..Default::default() };
    let longest = TupleMerge::build(&probe, &config)?.stats().longest_bucket;
    Ok((longest > CROWDED).then_some(longest))
}

/// Nanoseconds a packet of each candidate: the medians over nine rounds. `None` where, in the worst case, even a batch a
/// round would take more than `tests` region tests in all.
///
/// Each round has keys of its own, so that no branch predictor learns them; a pass over others brings a candidate back
/// into the caches first.
pub(super) fn time(set: &Lowered, candidates: &[&Chosen], tests: usize) -> Option<Vec<f64>> {
    let worst: usize = candidates.iter().map(|base| base.stats().worst_tests.max(1)).sum();
    let affordable = tests / (2 * ROUNDS * worst.max(1)) / BATCH * BATCH;
    let count = keys(set).min(affordable);
    if count == 0 {
        return None;
    }
    // Any TupleMerge's serves every base.
    let overlay = TupleMerge::new(set.schema(), &tuple::Config::default()).ok()?;
    let mut scratch = overlay.new_scratch();
    let mut corners = Corners { schema: set.schema(), regions: set.regions(), random: 1 };
    let mut keys = KeyBuf::new(set.schema());
    keys.reserve(2 * count);
    let mut taken = vec![Vec::with_capacity(ROUNDS); candidates.len()];
    for round in 0..ROUNDS {
        keys.clear();
        (0..2 * count).for_each(|_| corners.draw(keys.push()));
        for turn in 0..candidates.len() {
            let at = (turn + round) % candidates.len();
            pass(candidates[at], &mut scratch, &keys, 0, count);
            let start = Instant::now();
            pass(candidates[at], &mut scratch, &keys, count, 2 * count);
            taken[at].push(start.elapsed().as_secs_f64() * 1e9 / count as f64);
        }
    }
    let median = |mut of: Vec<f64>| {
        of.sort_unstable_by(f64::total_cmp);
        of[ROUNDS / 2]
    };
    Some(taken.into_iter().map(median).collect())
}

fn pass(base: &Chosen, scratch: &mut Scratch, keys: &KeyBuf, from: usize, to: usize) {
    let mut best = [None::<Match>; BATCH];
    for start in (from..to).step_by(BATCH) {
        let end = (start + BATCH).min(to);
        let best = &mut best[..end - start];
        best.fill(None);
        base.improve(scratch, keys.keys().slice(start, end), best);
        std::hint::black_box(best);
    }
}

/// Keys at corners of regions.
struct Corners<'a> {
    schema: &'a Schema,
    regions: &'a Regions,
    random: u64,
}

impl Corners<'_> {
    /// A corner of a region: each field at one of its ends. A field that it says nothing about is at an end of another's,
    /// or anywhere where that says nothing either: real packets do not crowd at the ends of what there is.
    fn draw(&mut self, row: &mut [u32]) {
        let [own, other] = [(); 2].map(|()| self.regions.get(self.below(self.regions.len())));
        for field in 0..self.schema.fields().len() {
            let region = [own, other].into_iter().find(|region| self.says(region, field));
            let high = self.next() & 1 == 1;
            for lane in self.schema.lanes_of(field) {
                row[lane] = match region {
                    Some(region) if high => region.hi[lane],
                    Some(region) => region.lo[lane],
                    None => self.present(lane),
                };
                if let Some((value, mask)) = region.and_then(|region| region.ternary) {
                    row[lane] = row[lane] & !mask[lane] | value[lane];
                }
            }
        }
    }

    /// Whether a region asks for anything in a field.
    fn says(&self, region: &Region<'_>, field: usize) -> bool {
        self.schema.lanes_of(field).any(|lane| {
            let is_ternary = region.ternary.is_some_and(|(_, mask)| mask[lane] != 0);
            region.lo[lane] > 0 || region.hi[lane] < self.schema.lanes()[lane].max || is_ternary
        })
    }

    /// Any value of a lane but absence.
    fn present(&mut self, lane: usize) -> u32 {
        let lane = self.schema.lanes()[lane];
        self.next() as u32 & lane.absent.map_or(lane.max, |absent| absent - 1)
    }

    fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same keys for the same rules.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}
