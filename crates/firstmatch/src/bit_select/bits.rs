//! Which bits a node selects.

use super::Selector;
use super::block::BLOCK;
use crate::budget::Visits;
use crate::engine::fixed_bits;
use crate::rule::Regions;
use crate::schema::Schema;
use crate::simd::{Isa, Kernel, Level, dispatch};

/// Every region as a value and the bits of it that are fixed, lane by lane. The cube may hold more than the region.
pub(super) struct Cubes<'a> {
    /// The instruction set to count with.
    level: Level,
    /// How often regions have been looked at: once for each lane each time a bit is chosen, and whenever one is put into
    /// a list or compared with a key.
    pub(super) visits: &'a Visits,
    /// The field of each lane.
    fields: Vec<usize>,
    words: Vec<(u32, u32)>,
}

impl<'a> Cubes<'a> {
    pub(super) fn new(schema: &Schema, regions: &Regions, level: Level, visits: &'a Visits) -> Self {
        let fields: Vec<usize> = schema.lanes().iter().map(|lane| lane.field).collect();
        let lanes = fields.len();
        let mut words = Vec::with_capacity(regions.len() * lanes);
        for region in regions.iter() {
            words.extend((0..lanes).map(|lane| {
                let fixed = fixed_bits(&region, lane);
                (region.lo[lane] & fixed, fixed)
            }));
        }
        Self { level, visits, fields, words }
    }

    /// The value and the fixed bits of each lane of a region.
    pub(super) fn of(&self, region: u32) -> &[(u32, u32)] {
        &self.words[region as usize * self.fields.len()..][..self.fields.len()]
    }
}

/// Bits of at most two pairs of neighbouring lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    /// The lanes, and the bits of each that are selected.
    pub(super) lanes: Vec<(usize, u32)>,
}

impl Bits {
    /// Those of a node.
    pub(super) fn of(node: Selector) -> Self {
        let lane = |pair: u16, mask: u64| {
            [(2 * usize::from(pair), mask as u32), (2 * usize::from(pair) + 1, (mask >> 32) as u32)]
        };
        let lanes = node.pairs.into_iter().zip(node.masks).flat_map(|(pair, mask)| lane(pair, mask));
        Self { lanes: lanes.filter(|&(_, bits)| bits != 0).collect() }
    }

    /// As a node has them.
    pub(super) fn selector(&self) -> Selector {
        let pairs = || self.lanes.iter().map(|(lane, _)| lane / 2);
        let (first, last) = (pairs().min().unwrap_or(0), pairs().max().unwrap_or(0));
        let mut masks = [0; 2];
        for &(lane, bits) in &self.lanes {
            masks[usize::from(lane / 2 > first)] |= u64::from(bits) << (32 * (lane % 2));
        }
        Selector { masks, pairs: [first as u16, last as u16] }
    }

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
pub(super) fn choose(cubes: &Cubes<'_>, list: &[u32], limits: Limits) -> Bits {
    let mut lists = Lists::new(cubes, list, limits);
    let mut bits = Bits::default();
    let mut cost = lists.cost(lists.regions, lists.length(lists.regions as u32), 0.0);
    while bits.count() < limits.bits && !lists.entries.is_empty() && !cubes.visits.are_too_many() {
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
    cubes: &'a Cubes<'a>,
    limits: Limits,
    /// Of every so many regions one is looked at.
    step: usize,
    /// How many are.
    regions: usize,
    /// List after list; where each ends.
    entries: Vec<Entry>,
    ends: Vec<usize>,
    /// Those of lists that fit one block, together: no bit makes their search shorter.
    short: Vec<Entry>,
    /// Regions that have gone to another tree.
    gone: f64,
}

struct Best {
    lane: usize,
    bit: u32,
    cost: f64,
}

/// What each bit of a lane would make of all lists, at the place [`Counts`] has for it.
struct Tally {
    /// Entries, and their sum weighted by the length of their list.
    copies: [u32; 32],
    lengths: [f32; 32],
    /// Entries that go to another tree.
    gone: [u32; 32],
    /// Whether it parts some list.
    parting: [bool; 32],
}

/// Counts how often each of 32 bits is set: the counters of every eighth bit share a word, a byte each.
#[derive(Clone, Copy, Default)]
struct Counts([u32; 8]);

impl Counts {
    /// So many words leave no byte that flows over.
    const MOST: usize = u8::MAX as usize;

    /// The bit whose counter is at a place.
    fn bit(place: usize) -> u32 {
        (place as u32 & 3) << 3 | place as u32 >> 2
    }

    #[inline(always)]
    fn add(&mut self, word: u32) {
        let bits: [u32; 8] = std::array::from_fn(|bit| word >> bit & 0x0101_0101);
        self.0 = std::array::from_fn(|bit| self.0[bit] + bits[bit]);
    }

    #[inline(always)]
    fn add_to(self, counts: &mut [u32; 32]) {
        for (at, count) in counts.iter_mut().enumerate() {
            *count += self.0[at / 4] >> (at % 4 * 8) & 0xFF;
        }
    }
}

impl<'a> Lists<'a> {
    fn new(cubes: &'a Cubes<'_>, list: &[u32], limits: Limits) -> Self {
        let step = list.len().div_ceil(SAMPLE).max(1);
        let entries: Vec<Entry> = list.iter().step_by(step).map(|&region| Entry { region, open: 0 }).collect();
        let (regions, ends) = (entries.len(), vec![entries.len()]);
        Self { cubes, limits, step, regions, entries, ends, short: Vec::new(), gone: 0.0 }
    }

    #[inline(always)]
    fn each(&self) -> impl Iterator<Item = &[Entry]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.entries[std::mem::replace(&mut start, end)..end])
    }

    /// A list of so many entries as often as it is searched; a block is tested whole.
    #[inline(always)]
    fn length(&self, entries: u32) -> f32 {
        let entries = entries as f32;
        entries * (entries * self.step as f32).max(BLOCK as f32)
    }

    /// What lookups cost: the mean length of a search, and more for more copies.
    fn cost(&self, copies: usize, lengths: f32, gone: f64) -> f64 {
        let elsewhere = (gone * self.step as f64 * ELSEWHERE).max(2.0 * BLOCK as f64);
        let all = copies as f64 + gone;
        (f64::from(lengths) + gone * elsewhere) / all.max(1.0) * all.powf(COPIES)
    }

    /// The bit after which lookups cost least.
    fn best(&self, bits: &Bits) -> Option<Best> {
        let mut best: Option<Best> = None;
        // An entry at the limit stands in so many lists for one region.
        let share = self.limits.open.map_or(0.0, |open| 0.5f64.powi(open as i32));
        for lane in (0..self.cubes.fields.len()).filter(|&lane| self.addable(bits, lane) != 0) {
            let tally = self.tally(lane);
            for at in (0..32).filter(|&at| tally.parting[at]) {
                let bit = Counts::bit(at);
                if self.addable(bits, lane) >> bit & 1 == 0 {
                    continue;
                }
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

    /// The bits of a lane that can be added. Lanes of a pair that belong to one field count as one: to choose among the
    /// bits of more than two fields takes longer and was no better.
    fn addable(&self, bits: &Bits, lane: usize) -> u32 {
        if let Some((_, bits)) = bits.lanes.iter().find(|(of, _)| *of == lane) {
            return !bits;
        }
        let unit = |lane: usize| (lane / 2, self.cubes.fields[lane]);
        let mut units = bits.lanes.iter().map(|(of, _)| unit(*of));
        let first = units.next();
        let second = units.find(|&of| Some(of) != first);
        let is_free = second.is_none() || [first, second].contains(&Some(unit(lane)));
        if is_free { u32::MAX } else { 0 }
    }

    fn tally(&self, lane: usize) -> Tally {
        self.cubes.visits.add(self.entries.len() + self.short.len());
        let mut tally = Tally { copies: [0; 32], lengths: [0.0; 32], gone: [0; 32], parting: [false; 32] };
        dispatch(self.cubes.level, Count { lists: self, lane, tally: &mut tally });
        tally
    }

    /// What each bit of a lane would make of a list.
    #[inline(always)]
    fn sides<const LIMITED: bool>(&self, list: &[Entry], lane: usize) -> Sides {
        let most = self.limits.open.unwrap_or(u32::MAX);
        let mut sides = Sides { ones: [0; 32], zeros: [0; 32], gone: [0; 32] };
        for part in list.chunks(Counts::MOST) {
            let [mut ones, mut zeros, mut gone] = [Counts::default(); 3];
            for entry in part {
                let (value, fixed) = self.cubes.of(entry.region)[lane];
                let stays = if entry.open == most { 0 } else { !fixed };
                ones.add(value | stays);
                zeros.add(!value & fixed | stays);
                if LIMITED {
                    gone.add(!fixed & !stays);
                }
            }
            ones.add_to(&mut sides.ones);
            zeros.add_to(&mut sides.zeros);
            if LIMITED {
                gone.add_to(&mut sides.gone);
            }
        }
        sides
    }

    /// Splits every list by a bit.
    fn split(&mut self, lane: usize, bit: u32) {
        self.cubes.visits.add(self.entries.len() + self.short.len());
        let (mut entries, mut ends) = (Vec::with_capacity(self.entries.len() * 2), Vec::new());
        let mut short = Vec::with_capacity(self.short.len() * 2);
        let mut gone = 0.0;
        let mut put = |entry: &Entry, side: u32, to: &mut Vec<Entry>| {
            let (value, fixed) = self.cubes.of(entry.region)[lane];
            let is_open = fixed >> bit & 1 == 0;
            if is_open && self.limits.open == Some(entry.open) {
                // Counted on both sides of every list it stands in.
                gone += 0.5f64.powi(entry.open as i32 + 1);
            } else if is_open || value >> bit & 1 == side {
                to.push(Entry { region: entry.region, open: entry.open + u32::from(is_open) });
            }
        };
        for side in 0..2 {
            self.short.iter().for_each(|entry| put(entry, side, &mut short));
        }
        for list in self.each() {
            for side in 0..2 {
                let start = entries.len();
                list.iter().for_each(|entry| put(entry, side, &mut entries));
                if (entries.len() - start) * self.step <= BLOCK {
                    short.extend(entries.drain(start..));
                } else {
                    ends.push(entries.len());
                }
            }
        }
        (self.entries, self.ends, self.short) = (entries, ends, short);
        self.gone += gone;
    }
}

/// Counts what each bit of a lane would make of all lists.
struct Count<'a> {
    lists: &'a Lists<'a>,
    lane: usize,
    tally: &'a mut Tally,
}

impl Kernel for Count<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, _isa: I) {
        if self.lists.limits.open.is_some() { self.count::<true>() } else { self.count::<false>() }
    }
}

impl Count<'_> {
    #[inline(always)]
    fn count<const LIMITED: bool>(self) {
        let Self { lists, lane, tally } = self;
        for list in lists.each() {
            let Sides { ones, zeros, gone } = lists.sides::<LIMITED>(list, lane);
            let all = list.len() as u32;
            for at in 0..32 {
                tally.lengths[at] += lists.length(ones[at]) + lists.length(zeros[at]);
                tally.copies[at] += ones[at] + zeros[at];
                tally.gone[at] += gone[at];
                tally.parting[at] |= ones[at].max(zeros[at]) + gone[at] < all;
            }
        }
        let Sides { ones, zeros, gone } = lists.sides::<LIMITED>(&lists.short, lane);
        for at in 0..32 {
            let both = ones[at] + zeros[at];
            tally.lengths[at] += both as f32 * BLOCK as f32;
            tally.copies[at] += both;
            tally.gone[at] += gone[at];
        }
    }
}

/// What each bit of a lane would make of a list: entries where it is 1, those where it is 0, and those that go to
/// another tree.
struct Sides {
    ones: [u32; 32],
    zeros: [u32; 32],
    gone: [u32; 32],
}
