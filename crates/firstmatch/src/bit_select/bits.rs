//! Which bits a node selects.

use super::block::BLOCK;
use crate::engine::fixed_bits;
use crate::rule::Regions;

/// Every region as a value under a mask on each lane: what is fixed of it. It may hold more than the region.
pub(super) struct Cubes {
    lanes: usize,
    /// For each region and lane the value and which of its bits are fixed.
    words: Vec<(u32, u32)>,
}

impl Cubes {
    pub(super) fn new(regions: &Regions) -> Self {
        let lanes = regions.lanes();
        let mut words = Vec::with_capacity(regions.len() * lanes);
        for region in regions.iter() {
            words.extend((0..lanes).map(|lane| {
                let fixed = fixed_bits(&region, lane);
                (region.lo[lane] & fixed, fixed)
            }));
        }
        Self { lanes, words }
    }

    pub(super) fn of(&self, region: u32) -> &[(u32, u32)] {
        &self.words[region as usize * self.lanes..][..self.lanes]
    }
}

/// Bits of at most two lanes.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    /// The lanes and the bits of each that are selected.
    pub(super) lanes: Vec<(usize, u32)>,
}

impl Bits {
    pub(super) fn count(&self) -> u32 {
        self.lanes.iter().map(|(_, bits)| bits.count_ones()).sum()
    }

    fn add(&mut self, lane: usize, bit: u32) {
        match self.lanes.iter_mut().find(|(of, _)| *of == lane) {
            Some((_, bits)) => *bits |= 1 << bit,
            None => self.lanes.push((lane, 1 << bit)),
        }
    }

    fn allows(&self, lane: usize, bit: u32) -> bool {
        match self.lanes.iter().find(|(of, _)| *of == lane) {
            Some((_, bits)) => bits & 1 << bit == 0,
            None => self.lanes.len() < 2,
        }
    }

    /// How many of the selected bits a region leaves open.
    pub(super) fn open(&self, cube: &[(u32, u32)]) -> u32 {
        self.lanes.iter().map(|&(lane, bits)| (bits & !cube[lane].1).count_ones()).sum()
    }
}

/// What bits may be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many.
    pub(super) bits: u32,
    /// How many a region may leave open; a region that leaves more goes to another tree. `None` is no limit.
    pub(super) open: Option<u32>,
    /// How many entries may stand in all lists together for each region of the list.
    pub(super) copies: f64,
}

/// Lists longer than this are judged by a part of them.
const SAMPLE: usize = 2048;
/// How much a copy of a region weighs against a shorter leaf.
const COPIES: f64 = 0.35;
/// The least a bit must better the score, as a share.
const GAIN: f64 = 0.01;

struct Entry {
    region: u32,
    open: u32,
}

/// Chooses bits one by one, each time the one that makes the leaves shortest for their copies.
pub(super) fn choose(cubes: &Cubes, list: &[u32], limits: Limits) -> Bits {
    let step = list.len().div_ceil(SAMPLE).max(1);
    let mut entries: Vec<Entry> = list.iter().step_by(step).map(|&region| Entry { region, open: 0 }).collect();
    let all = entries.len();
    let mut ends = vec![entries.len()];
    let mut bits = Bits::default();
    let mut spilled = 0usize;
    let mut score = rate(all as f64, (all as f64) * length(all, step), 0.0, step);
    while bits.count() < limits.bits {
        let Some((lane, bit, new)) = best_bit(cubes, &entries, &ends, &bits, limits, step, all, spilled) else { break };
        if new > score * (1.0 - GAIN) {
            break;
        }
        score = new;
        bits.add(lane, bit);
        spilled += split(cubes, &mut entries, &mut ends, limits, lane, bit);
        if ends_are_short(&ends, step) {
            break;
        }
    }
    bits
}

/// What a list of this many sampled regions costs a lookup: whole blocks.
fn length(count: usize, step: usize) -> f64 {
    (count * step).max(BLOCK) as f64
}

/// `copies` entries, whose lists' lengths come to `sum`, and `spilled` regions.
fn rate(copies: f64, sum: f64, spilled: f64, step: usize) -> f64 {
    let other = (spilled * step as f64 / 16.0).max(BLOCK as f64 * 2.0);
    let expected = (sum + spilled * other) / (copies + spilled).max(1.0);
    expected * (copies + spilled).powf(COPIES)
}

fn ends_are_short(ends: &[usize], step: usize) -> bool {
    let mut start = 0;
    ends.iter().all(|&end| (end - std::mem::replace(&mut start, end)) * step <= BLOCK)
}

#[expect(clippy::too_many_arguments, reason = "prototype")]
fn best_bit(
    cubes: &Cubes,
    entries: &[Entry],
    ends: &[usize],
    bits: &Bits,
    limits: Limits,
    step: usize,
    _all: usize,
    spilled: usize,
) -> Option<(usize, u32, f64)> {
    let lanes: Vec<usize> = (0..cubes.lanes).filter(|&lane| (0..32).any(|bit| bits.allows(lane, bit))).collect();
    let mut sums = vec![[0f64; 32]; lanes.len()];
    let mut copies = vec![[0u32; 32]; lanes.len()];
    let mut lost = vec![[0f64; 32]; lanes.len()];
    let mut useful = vec![0u32; lanes.len()];
    let mut start = 0;
    for &end in ends {
        let bucket = &entries[start..end];
        start = end;
        for (at, &lane) in lanes.iter().enumerate() {
            let (mut ones, mut zeros, mut out) = ([0u32; 32], [0u32; 32], [0f64; 32]);
            for entry in bucket {
                let (value, fixed) = cubes.of(entry.region)[lane];
                for bit in 0..32 {
                    ones[bit] += value >> bit & 1;
                    zeros[bit] += (!value & fixed) >> bit & 1;
                }
                if limits.open == Some(entry.open) {
                    let weight = 1.0 / f64::from(1u32 << entry.open);
                    for (bit, out) in out.iter_mut().enumerate() {
                        *out += f64::from(!fixed >> bit & 1) * weight;
                    }
                }
            }
            for bit in 0..32 {
                let gone = if limits.open.is_some() {
                    bucket.iter().filter(|e| limits.open == Some(e.open) && cubes.of(e.region)[lane].1 >> bit & 1 == 0).count() as u32
                } else {
                    0
                };
                let open = bucket.len() as u32 - ones[bit] - zeros[bit] - gone;
                let (a, b) = ((ones[bit] + open) as usize, (zeros[bit] + open) as usize);
                sums[at][bit] += a as f64 * length(a, step) + b as f64 * length(b, step);
                copies[at][bit] += (a + b) as u32;
                lost[at][bit] += out[bit];
                if ones[bit] > 0 && zeros[bit] > 0 {
                    useful[at] |= 1 << bit;
                }
            }
        }
    }
    let mut best: Option<(usize, u32, f64)> = None;
    for (at, &lane) in lanes.iter().enumerate() {
        for bit in (0..32).filter(|&bit| useful[at] >> bit & 1 == 1 && bits.allows(lane, bit)) {
            let b = bit as usize;
            if f64::from(copies[at][b]) > limits.copies * _all as f64 {
                continue;
            }
            let score = rate(f64::from(copies[at][b]), sums[at][b], spilled as f64 + lost[at][b], step);
            if best.is_none_or(|(.., least)| score < least) {
                best = Some((lane, bit, score));
            }
        }
    }
    best
}

/// Splits every list by a bit; how many regions leave the tree.
fn split(cubes: &Cubes, entries: &mut Vec<Entry>, ends: &mut Vec<usize>, limits: Limits, lane: usize, bit: u32) -> usize {
    let (mut new, mut new_ends) = (Vec::with_capacity(entries.len() * 2), Vec::with_capacity(ends.len() * 2));
    let mut lost = 0.0;
    let mut start = 0;
    for &end in &*ends {
        let bucket = &entries[start..end];
        start = end;
        for side in 0..2 {
            for entry in bucket {
                let (value, fixed) = cubes.of(entry.region)[lane];
                let is_open = fixed >> bit & 1 == 0;
                if is_open && limits.open == Some(entry.open) {
                    lost += 0.5 / f64::from(1u32 << entry.open);
                } else if is_open || value >> bit & 1 == side {
                    new.push(Entry { region: entry.region, open: entry.open + u32::from(is_open) });
                }
            }
            if new_ends.last() != Some(&new.len()) && !new.is_empty() {
                new_ends.push(new.len());
            }
        }
    }
    (*entries, *ends) = (new, new_ends);
    lost as usize
}
