//! Which bits a node selects.

use super::block::BLOCK;
use crate::engine::fixed_bits;
use crate::rule::Regions;

/// Every region as a value and the bits of it that are fixed, lane by lane. The cube may hold more than the region.
pub(super) struct Cubes {
    lanes: usize,
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

    /// The value and the fixed bits of each lane of a region.
    pub(super) fn of(&self, region: u32) -> &[(u32, u32)] {
        &self.words[region as usize * self.lanes..][..self.lanes]
    }
}

/// Bits of at most two lanes.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    /// The lanes, and the bits of each that are selected.
    pub(super) lanes: Vec<(usize, u32)>,
}

impl Bits {
    pub(super) fn count(&self) -> u32 {
        self.lanes.iter().map(|(_, bits)| bits.count_ones()).sum()
    }

    /// How many of the selected bits a region leaves open: in so many entries of the node it stands, as a power of two.
    pub(super) fn open(&self, cube: &[(u32, u32)]) -> u32 {
        self.lanes.iter().map(|&(lane, bits)| (bits & !cube[lane].1).count_ones()).sum()
    }

    fn add(&mut self, lane: usize, bit: u32) {
        match self.lanes.iter_mut().find(|(of, _)| *of == lane) {
            Some((_, bits)) => *bits |= 1 << bit,
            None => self.lanes.push((lane, 1 << bit)),
        }
    }

    /// The bits of a lane that can be added.
    fn addable(&self, lane: usize) -> u32 {
        match self.lanes.iter().find(|(of, _)| *of == lane) {
            Some((_, bits)) => !bits,
            None if self.lanes.len() < 2 => u32::MAX,
            None => 0,
        }
    }
}

/// Which bits may be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many.
    pub(super) bits: u32,
    /// How many a region may leave open; one that leaves more goes to another tree. `None` is no limit.
    pub(super) open: Option<u32>,
    /// How often regions may stand in all entries together, as a multiple of their number.
    pub(super) growth: f64,
}

/// Longer lists are judged by every n-th region.
const SAMPLE: usize = 2048;
/// How much copies weigh against a shorter search, as an exponent.
const COPIES: f64 = 0.35;
/// What a region costs that goes to another tree: a search as long as this share of those that go there, and at least
/// two blocks.
const ELSEWHERE: f64 = 1.0 / 16.0;
/// The least share by which a bit must better the cost.
const GAIN: f64 = 0.01;

/// Chooses bits one by one: each time the one after which the search is shortest for the copies it makes.
pub(super) fn choose(cubes: &Cubes, list: &[u32], limits: Limits) -> Bits {
    let mut lists = Lists::new(cubes, list, limits);
    let mut bits = Bits::default();
    let mut cost = lists.cost(lists.entries.len(), lists.length(lists.entries.len()), 0.0);
    while bits.count() < limits.bits && !lists.are_short() {
        match lists.best(&bits) {
            Some(best) if best.cost < cost * (1.0 - GAIN) => {
                cost = best.cost;
                bits.add(best.lane, best.bit);
                lists.split(best.lane, best.bit);
            }
            _ => break,
        }
    }
    bits
}

/// A region in a list.
struct Entry {
    region: u32,
    /// How many of the bits so far it leaves open.
    open: u32,
}

/// The lists that the bits chosen so far make of one.
struct Lists<'a> {
    cubes: &'a Cubes,
    limits: Limits,
    /// Of every so many regions one is looked at.
    step: usize,
    /// How many are.
    regions: usize,
    /// List after list; where each ends.
    entries: Vec<Entry>,
    ends: Vec<usize>,
    /// Regions that have gone to another tree.
    gone: f64,
}

struct Best {
    lane: usize,
    bit: u32,
    cost: f64,
}

/// What each bit of a lane would make of all lists.
#[derive(Clone, Copy)]
struct Tally {
    /// Entries, and their sum weighted by the length of their list.
    copies: [u32; 32],
    lengths: [f64; 32],
    /// Entries that go to another tree.
    gone: [u32; 32],
    /// The bits that part some list.
    parting: u32,
}

impl<'a> Lists<'a> {
    fn new(cubes: &'a Cubes, list: &[u32], limits: Limits) -> Self {
        let step = list.len().div_ceil(SAMPLE).max(1);
        let entries: Vec<Entry> = list.iter().step_by(step).map(|&region| Entry { region, open: 0 }).collect();
        let (regions, ends) = (entries.len(), vec![entries.len()]);
        Self { cubes, limits, step, regions, entries, ends, gone: 0.0 }
    }

    fn each(&self) -> impl Iterator<Item = &[Entry]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.entries[std::mem::replace(&mut start, end)..end])
    }

    /// Whether every list fits one block.
    fn are_short(&self) -> bool {
        self.each().all(|list| list.len() * self.step <= BLOCK)
    }

    /// A list of so many entries as often as it is searched; a block is tested whole.
    fn length(&self, entries: usize) -> f64 {
        (entries * (entries * self.step).max(BLOCK)) as f64
    }

    /// What lookups cost: the mean length of a search, and more for more copies.
    fn cost(&self, copies: usize, lengths: f64, gone: f64) -> f64 {
        let elsewhere = (gone * self.step as f64 * ELSEWHERE).max(2.0 * BLOCK as f64);
        let all = copies as f64 + gone;
        (lengths + gone * elsewhere) / all.max(1.0) * all.powf(COPIES)
    }

    /// The bit after which lookups cost least.
    fn best(&self, bits: &Bits) -> Option<Best> {
        let mut best: Option<Best> = None;
        // An entry at the limit stands in so many lists for one region.
        let share = self.limits.open.map_or(0.0, |open| 0.5f64.powi(open as i32));
        for lane in (0..self.cubes.lanes).filter(|&lane| bits.addable(lane) != 0) {
            let tally = self.tally(lane);
            for bit in (0..32).filter(|bit| tally.parting & bits.addable(lane) & 1 << bit != 0) {
                let at = bit as usize;
                if f64::from(tally.copies[at]) > self.limits.growth * self.regions as f64 {
                    continue;
                }
                let gone = self.gone + f64::from(tally.gone[at]) * share;
                let cost = self.cost(tally.copies[at] as usize, tally.lengths[at], gone);
                if best.as_ref().is_none_or(|best| cost < best.cost) {
                    best = Some(Best { lane, bit, cost });
                }
            }
        }
        best
    }

    fn tally(&self, lane: usize) -> Tally {
        let mut tally = Tally { copies: [0; 32], lengths: [0.0; 32], gone: [0; 32], parting: 0 };
        for list in self.each() {
            // Entries that fix a bit to 1, to 0, and those at the limit that leave it open.
            let (mut ones, mut zeros, mut gone) = ([0u32; 32], [0u32; 32], [0u32; 32]);
            for entry in list {
                let (value, fixed) = self.cubes.of(entry.region)[lane];
                for bit in 0..32 {
                    ones[bit] += value >> bit & 1;
                    zeros[bit] += (!value & fixed) >> bit & 1;
                }
                if self.limits.open == Some(entry.open) {
                    gone.iter_mut().enumerate().for_each(|(bit, gone)| *gone += !fixed >> bit & 1);
                }
            }
            for bit in 0..32 {
                let both = list.len() as u32 - ones[bit] - zeros[bit] - gone[bit];
                let (one, zero) = ((ones[bit] + both) as usize, (zeros[bit] + both) as usize);
                tally.lengths[bit] += self.length(one) + self.length(zero);
                tally.copies[bit] += (one + zero) as u32;
                tally.gone[bit] += gone[bit];
                tally.parting |= u32::from(ones[bit] > 0 && zeros[bit] > 0) << bit;
            }
        }
        tally
    }

    /// Splits every list by a bit.
    fn split(&mut self, lane: usize, bit: u32) {
        let (mut entries, mut ends) = (Vec::with_capacity(self.entries.len() * 2), Vec::new());
        let mut gone = 0.0;
        for list in self.each() {
            for side in 0..2 {
                let start = entries.len();
                for &Entry { region, open } in list {
                    let (value, fixed) = self.cubes.of(region)[lane];
                    let is_open = fixed >> bit & 1 == 0;
                    if is_open && self.limits.open == Some(open) {
                        // Counted on both sides of every list it stands in.
                        gone += 0.5f64.powi(open as i32 + 1);
                    } else if is_open || value >> bit & 1 == side {
                        entries.push(Entry { region, open: open + u32::from(is_open) });
                    }
                }
                if entries.len() > start {
                    ends.push(entries.len());
                }
            }
        }
        (self.entries, self.ends) = (entries, ends);
        self.gone += gone;
    }
}
