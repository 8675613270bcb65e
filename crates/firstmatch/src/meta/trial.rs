//! Candidates timed side by side, on keys that come from the rules alone.

use std::ops::{Range, RangeInclusive};
use std::time::Instant;

use super::Config;
use super::choose::{Chosen, Scratch};
use crate::engine::{Engine as _, Match};
use crate::error::BuildError;
use crate::key::KeyBuf;
use crate::rule::{Lowered, Priority, Region, Regions, RuleId};
use crate::schema::Schema;
use crate::tuple::{self, TupleMerge};

/// Rounds, in each of which every candidate has its turns, one behind the other.
const ROUNDS: usize = 3;
const TURNS: usize = 3;
/// Keys of a batch.
const BATCH: usize = 256;
/// Keys of a turn, at most, and at least where a candidate is to be timed at all.
const TURN: usize = 8 * BATCH;
const LEAST: usize = BATCH / 8;
/// Keys in all: as many as there are regions, within these. Few rules have few packets that differ.
const KEYS: RangeInclusive<usize> = 4 * BATCH..=32 * BATCH;
/// 2⁶⁴ by the golden ratio: its multiples are spread over all numbers, however many there are.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The most bytes that timing takes beside the candidates.
pub(super) fn bytes(set: &Lowered) -> usize {
    // The keys, the first region of each rule, and a TupleMerge without rules.
    keys(set) * set.schema().stride() * size_of::<u32>() + set.regions().len() * size_of::<u32>() + (16 << 10)
}

fn keys(set: &Lowered) -> usize {
    set.regions().len().clamp(*KEYS.start(), *KEYS.end())
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

/// What timing says.
pub(super) struct Timed {
    /// Nanoseconds a packet of each candidate.
    pub(super) nanos: Vec<f64>,
    /// Visits of regions by all lookups together, in the worst case.
    pub(super) visits: usize,
}

/// Nanoseconds a packet of each candidate: the medians over nine turns. In the worst case they make `visits` visits of
/// regions together, and none more than its share: one that can be made to visit many looks up fewer keys. `None` where
/// one has not even a share for a few.
///
/// Before its turns a candidate looks up as many keys as there are, so that what fits a cache is there, as it is where
/// packets come without end. Measured, of 10,000 rules `bit_select` takes three to five times as long after lookups of
/// another candidate.
pub(super) fn time(set: &Lowered, candidates: &[&Chosen], visits: usize) -> Option<Timed> {
    let share = visits / (ROUNDS * candidates.len().max(1));
    // How many keys before the turns of a round, and how many in each.
    let looked_up = |base: &&Chosen| {
        let affordable = share / base.visits();
        let timed = match (affordable / (2 * TURNS)).min(keys(set)).min(TURN) {
            ..LEAST => return None,
            few @ ..BATCH => few,
            many => many / BATCH * BATCH,
        };
        Some(((affordable - TURNS * timed).min(keys(set)), timed))
    };
    let looked_up = candidates.iter().map(looked_up).collect::<Option<Vec<_>>>()?;
    // Any TupleMerge's serves every base.
    let overlay = TupleMerge::new(set.schema(), &tuple::Config::default()).ok()?;
    let mut scratch = Scratch::new(&overlay, None);
    let keys = drawn(set, keys(set));
    let mut taken = vec![Vec::with_capacity(ROUNDS * TURNS); candidates.len()];
    for round in 0..ROUNDS {
        for turn in 0..candidates.len() {
            let at = (turn + round) % candidates.len();
            let (before, timed) = looked_up[at];
            let first = round * (keys.len() + TURNS * TURN);
            pass(candidates[at], &mut scratch, &keys, first..first + before);
            for turn in 0..TURNS {
                let (first, start) = (first + keys.len() + turn * TURN, Instant::now());
                pass(candidates[at], &mut scratch, &keys, first..first + timed);
                taken[at].push(start.elapsed().as_secs_f64() * 1e9 / timed as f64);
            }
        }
    }
    let median = |mut of: Vec<f64>| {
        of.sort_unstable_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let of_each = candidates.iter().zip(&looked_up);
    let visits = of_each.map(|(base, (before, timed))| ROUNDS * (before + TURNS * timed) * base.visits()).sum();
    Some(Timed { nanos: taken.into_iter().map(median).collect(), visits })
}

fn pass(base: &Chosen, scratch: &mut Scratch, keys: &KeyBuf, lookups: Range<usize>) {
    let mut best = [None::<Match>; BATCH];
    for batch in lookups.clone().step_by(BATCH) {
        let best = &mut best[..BATCH.min(lookups.end - batch)];
        // No two begin alike, so that no branch predictor learns them.
        let start = below((batch as u64).wrapping_mul(GOLDEN), keys.len() - BATCH + 1);
        best.fill(None);
        base.improve(scratch, &keys.keys().slice(start, start + best.len()), best);
        std::hint::black_box(&best);
    }
}

/// Keys in regions: every rule as likely as another.
pub(super) fn drawn(set: &Lowered, count: usize) -> KeyBuf {
    let mut firsts = Vec::with_capacity(set.regions().len());
    // Fewer than 2^24 regions are ever lowered.
    firsts.extend(set.by_rule().map(|(_, regions)| regions.start as u32));
    let mut draw = Draw { schema: set.schema(), regions: set.regions(), firsts, random: 1 };
    let mut keys = KeyBuf::new(set.schema());
    keys.reserve(count);
    (0..count).for_each(|_| draw.key(keys.push()));
    keys
}

/// Draws keys.
struct Draw<'a> {
    schema: &'a Schema,
    regions: &'a Regions,
    /// Of each rule the first region.
    firsts: Vec<u32>,
    random: u64,
}

impl<'a> Draw<'a> {
    /// A key in a region of a rule: anywhere or, as often, each field at one of its ends. A field that the region says
    /// nothing about is in a region of another rule or, as often, anywhere: what packets have there is not known.
    fn key(&mut self, row: &mut [u32]) {
        let [own, other] = [(); 2].map(|()| self.region());
        let is_corner = self.next() & 1 == 1;
        for field in 0..self.schema.fields().len() {
            let other = (self.next() & 1 == 1).then_some(other);
            let region = [Some(own), other].into_iter().flatten().find(|region| self.says(region, field));
            let is_high = is_corner && self.next() & 1 == 1;
            for lane in self.schema.lanes_of(field) {
                row[lane] = match region {
                    Some(region) if is_high => region.hi[lane],
                    Some(region) if is_corner => region.lo[lane],
                    Some(region) => self.between(region.lo[lane], region.hi[lane]),
                    None => self.present(lane),
                };
                if let Some((value, mask)) = region.and_then(|region| region.ternary) {
                    row[lane] = row[lane] & !mask[lane] | value[lane];
                }
            }
        }
    }

    /// A region of any rule.
    fn region(&mut self) -> Region<'a> {
        let rule = self.below(self.firsts.len());
        let first = self.firsts[rule] as usize;
        let end = self.firsts.get(rule + 1).map_or(self.regions.len(), |&next| next as usize);
        self.regions.get(first + self.below(end - first))
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

    fn between(&mut self, lo: u32, hi: u32) -> u32 {
        lo + (((self.next() >> 32) * (u64::from(hi - lo) + 1)) >> 32) as u32
    }

    fn below(&mut self, count: usize) -> usize {
        below(self.next(), count)
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same keys for the same rules.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(GOLDEN);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

/// A number below `count`: as far up as the other is among all of 64 bits.
fn below(number: u64, count: usize) -> usize {
    ((u128::from(number) * count as u128) >> 64) as usize
}
