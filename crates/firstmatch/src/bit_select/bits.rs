//! Which bits a node selects.

use std::ops::Range;

use super::Selector;
use super::block::BLOCK;
use crate::budget::Visits;
use crate::engine::fixed_bits;
use crate::rule::Regions;
use crate::schema::Schema;
use crate::simd::{Isa, Kernel, Level, dispatch, word};

/// Every region as a value and the bits of it that are fixed, lane by lane. The cube may hold more than the region.
pub(super) struct Cubes<'a> {
    /// The instruction set to build with.
    pub(super) level: Level,
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
    let mut cost = lists.cost(lists.regions, lists.length(lists.regions as i32), 0.0);
    while bits.count() < limits.bits && !lists.ends.is_empty() && !cubes.visits.are_too_many() {
        let Some(best) = lists.best(&bits, cost) else { break };
        cost = best.cost;
        bits.add(best.lane, best.bit);
        lists.split(best.lane, best.bit);
    }
    bits
}

/// A region in a list.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// Its number among those that are looked at.
    at: u32,
    /// How many of the bits so far it leaves open.
    open: u32,
}

/// Entries of one or more lists, parted by whether they may leave another bit open. What stands behind `len` of them is
/// written over.
#[derive(Default)]
struct Entries {
    free: Vec<Entry>,
    full: Vec<u32>,
    len: [usize; 2],
}

impl Entries {
    fn len(&self) -> usize {
        self.len[0] + self.len[1]
    }

    #[inline(always)]
    fn of(&self, [free, full]: [Range<usize>; 2]) -> (&[Entry], &[u32]) {
        (&self.free[free], &self.full[full])
    }

    #[inline(always)]
    fn all(&self) -> (&[Entry], &[u32]) {
        self.of(self.len.map(|len| 0..len))
    }

    /// Leaves none, and room for what a split makes of so many and one that is not kept.
    fn clear(&mut self, split: usize) {
        let most = (2 * split + 1).max(self.free.len());
        self.free.resize(most, Entry::default());
        self.full.resize(most, 0);
        self.len = [0; 2];
    }

    /// Moves all from a place on behind those of another.
    fn part(&mut self, from: [usize; 2], to: &mut Self) {
        let ends = [0, 1].map(|i| to.len[i] + self.len[i] - from[i]);
        to.free[to.len[0]..ends[0]].copy_from_slice(&self.free[from[0]..self.len[0]]);
        to.full[to.len[1]..ends[1]].copy_from_slice(&self.full[from[1]..self.len[1]]);
        (self.len, to.len) = (from, ends);
    }
}

/// The lists that the bits chosen so far make of one.
struct Lists<'a> {
    cubes: &'a Cubes<'a>,
    limits: Limits,
    /// Of every so many regions one is looked at.
    step: usize,
    /// How many are.
    regions: usize,
    /// The value of each of them and, above it, the bits that are fixed, lane after lane.
    words: Vec<u64>,
    /// List after list; where each ends.
    entries: Entries,
    ends: Vec<[usize; 2]>,
    /// Those of lists that fit one block, together: no bit makes their search shorter.
    short: Entries,
    /// What both become when they are split.
    next: [Entries; 2],
    /// Regions that have gone to another tree; what an entry that may leave no more bits open is of one, since it stands in
    /// so many lists.
    gone: f64,
    share: f64,
    /// The bits of each lane that may part a list. One that parts none will part none that others make of it.
    parting: Vec<u32>,
}

struct Best {
    lane: usize,
    bit: u32,
    cost: Cost,
}

/// What lookups cost: the mean length of a search, and more for more copies.
#[derive(Clone, Copy)]
struct Cost {
    /// The lengths of the searches of all entries, together.
    lengths: f64,
    entries: f64,
}

impl Cost {
    /// Whether `lengths` / `entries` · `entries` to the power of [`COPIES`] is less.
    fn is_less(self, than: Self) -> bool {
        let (power, more) = (1.0 - COPIES, self.entries / than.entries);
        // The tangent is above the power everywhere, and tells of most that they are not.
        self.lengths < than.lengths * (1.0 + power * (more - 1.0)) && self.lengths < than.lengths * more.powf(power)
    }
}

/// What each bit of a lane would make of all lists.
struct Tally {
    /// Entries, and their sum weighted by the length of their list.
    copies: [i32; 32],
    lengths: [f32; 32],
    /// Entries that go to another tree.
    gone: [i32; 32],
    /// Not 0 where it parts some list.
    parting: [i32; 32],
}

/// How often each bit of a lane is 1, and how often fixed.
struct Counts {
    ones: [i32; 32],
    fixed: [i32; 32],
}

impl Counts {
    /// Over the words of a list.
    #[inline(always)]
    fn of<I: Isa, T>(isa: I, list: &[T], word: impl Fn(&T) -> u64) -> Self {
        let (mut ones, mut fixed) = ([0; 32], [0; 32]);
        for part in list.chunks(usize::from(u8::MAX)) {
            let counts = isa.count_ones64(part, &word);
            let add = |to: &mut [i32; 32], counts: &[u8]| {
                to.iter_mut().zip(counts).for_each(|(to, &count)| *to += i32::from(count));
            };
            add(&mut ones, &counts[..32]);
            add(&mut fixed, &counts[32..]);
        }
        Self { ones, fixed }
    }
}

impl<'a> Lists<'a> {
    fn new(cubes: &'a Cubes<'_>, list: &[u32], limits: Limits) -> Self {
        let step = list.len().div_ceil(SAMPLE).max(1);
        let (regions, lanes) = (list.len().div_ceil(step), cubes.fields.len());
        let mut words = vec![0; regions * lanes];
        for (at, &region) in list.iter().step_by(step).enumerate() {
            for (lane, &(value, fixed)) in cubes.of(region).iter().enumerate() {
                words[lane * regions + at] = word([value, fixed]);
            }
        }
        let all = 0..regions as u32;
        let entries = match limits.open {
            Some(0) => Entries { full: all.collect(), len: [0, regions], ..Entries::default() },
            _ => {
                Entries { free: all.map(|at| Entry { at, open: 0 }).collect(), len: [regions, 0], ..Entries::default() }
            }
        };
        let (ends, parting) = (vec![entries.len], vec![u32::MAX; lanes]);
        let (short, next) = Default::default();
        let share = limits.open.map_or(0.0, |open| 0.5f64.powi(open as i32));
        Self { cubes, limits, step, regions, words, entries, ends, short, next, gone: 0.0, share, parting }
    }

    fn words(&self, lane: usize) -> &[u64] {
        &self.words[lane * self.regions..][..self.regions]
    }

    #[inline(always)]
    fn each(&self) -> impl Iterator<Item = (&[Entry], &[u32])> {
        let mut start = [0; 2];
        self.ends.iter().map(move |&end| {
            let start = std::mem::replace(&mut start, end);
            self.entries.of([0, 1].map(|i| start[i]..end[i]))
        })
    }

    /// A list of so many entries as often as it is searched; a block is tested whole.
    #[inline(always)]
    fn length(&self, entries: i32) -> f32 {
        let entries = entries as f32;
        entries * (entries * self.step as f32).max(BLOCK as f32)
    }

    fn cost(&self, copies: usize, lengths: f32, gone: f64) -> Cost {
        let elsewhere = (gone * self.step as f64 * ELSEWHERE).max(2.0 * BLOCK as f64);
        Cost { lengths: f64::from(lengths) + gone * elsewhere, entries: copies as f64 + gone }
    }

    /// The bit after which lookups cost least, if that betters what they cost.
    fn best(&mut self, bits: &Bits, cost: Cost) -> Option<Best> {
        let mut best = None;
        let mut least = Cost { lengths: cost.lengths * (1.0 - GAIN), ..cost };
        for lane in 0..self.parting.len() {
            let addable = self.addable(bits, lane);
            if self.parting[lane] & addable == 0 {
                continue;
            }
            let tally = self.tally(lane);
            let mut parting = 0;
            // Of bits that cost the same the one lowest in its byte.
            let bits = (0..32).map(|at| at % 4 * 8 + at / 4);
            for bit in bits.filter(|&bit| tally.parting[bit] != 0) {
                parting |= 1 << bit;
                let copies = tally.copies[bit];
                if addable >> bit & 1 == 0 || f64::from(copies) > self.limits.growth * self.regions as f64 {
                    continue;
                }
                let gone = self.gone + f64::from(tally.gone[bit]) * self.share;
                let cost = self.cost(copies as usize, tally.lengths[bit], gone);
                if cost.is_less(least) {
                    (best, least) = (Some(Best { lane, bit: bit as u32, cost }), cost);
                }
            }
            self.parting[lane] = parting;
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
        let mut tally = Tally { copies: [0; 32], lengths: [0.0; 32], gone: [0; 32], parting: [0; 32] };
        dispatch(self.cubes.level, Count { lists: self, lane, tally: &mut tally });
        tally
    }

    /// Splits every list by a bit.
    fn split(&mut self, lane: usize, bit: u32) {
        self.cubes.visits.add(self.entries.len() + self.short.len());
        let [mut entries, mut short] = std::mem::take(&mut self.next);
        entries.clear(self.entries.len());
        // What is short now may be all of both.
        short.clear(self.entries.len() + self.short.len());
        let mut split = Split { words: self.words(lane), bit, most: self.limits.open, gone: 0 };
        let mut ends = Vec::with_capacity(2 * self.ends.len());
        for side in 0..2 {
            split.put(self.short.all(), side, &mut short);
        }
        for list in self.each() {
            for side in 0..2 {
                let start = entries.len;
                split.put(list, side, &mut entries);
                if (entries.len() - start[0] - start[1]) * self.step <= BLOCK {
                    entries.part(start, &mut short);
                } else {
                    ends.push(entries.len);
                }
            }
        }
        // Each was counted on both sides of every list it stands in.
        self.gone += split.gone as f64 * self.share / 2.0;
        self.next = [std::mem::replace(&mut self.entries, entries), std::mem::replace(&mut self.short, short)];
        self.ends = ends;
    }
}

/// Splits lists by a bit.
struct Split<'a> {
    words: &'a [u64],
    bit: u32,
    /// How many bits an entry may leave open.
    most: Option<u32>,
    /// Entries that went to another tree, once for each side.
    gone: usize,
}

impl Split<'_> {
    /// Whether the bit of an entry is open, and what it is where it is not.
    #[inline(always)]
    fn side(&self, at: u32) -> (bool, u64) {
        let word = self.words[at as usize] >> self.bit;
        (word >> 32 & 1 == 0, word & 1)
    }

    /// Puts the entries of a list where the bit is 0 or 1, behind others: written first, and then kept or not.
    fn put(&mut self, (free, full): (&[Entry], &[u32]), side: u64, to: &mut Entries) {
        for entry in free {
            let (is_open, of) = self.side(entry.at);
            let is_here = is_open | (of == side);
            let open = entry.open + u32::from(is_open);
            let is_full = self.most == Some(open);
            to.free[to.len[0]] = Entry { at: entry.at, open };
            to.full[to.len[1]] = entry.at;
            to.len[0] += usize::from(is_here & !is_full);
            to.len[1] += usize::from(is_here & is_full);
        }
        for &at in full {
            let (is_open, of) = self.side(at);
            to.full[to.len[1]] = at;
            to.len[1] += usize::from(!is_open & (of == side));
            self.gone += usize::from(is_open);
        }
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
    fn run<I: Isa>(self, isa: I) {
        let Self { lists, lane, tally } = self;
        let words = lists.words(lane);
        for (free, full) in lists.each() {
            let frees = Counts::of(isa, free, |entry| words[entry.at as usize]);
            let fulls = Counts::of(isa, full, |&at| words[at as usize]);
            let (few, all) = (free.len() as i32, (free.len() + full.len()) as i32);
            for bit in 0..32 {
                // An open bit is both; but an entry that may leave no more open goes to another tree.
                let ones = few - frees.fixed[bit] + frees.ones[bit] + fulls.ones[bit];
                let zeros = few - frees.ones[bit] + fulls.fixed[bit] - fulls.ones[bit];
                let gone = all - few - fulls.fixed[bit];
                tally.lengths[bit] += lists.length(ones) + lists.length(zeros);
                tally.copies[bit] += ones + zeros;
                tally.gone[bit] += gone;
                tally.parting[bit] |= i32::from(ones.max(zeros) + gone < all);
            }
        }
        let (free, full) = lists.short.all();
        let frees = Counts::of(isa, free, |entry| words[entry.at as usize]);
        let fulls = Counts::of(isa, full, |&at| words[at as usize]);
        for bit in 0..32 {
            let both = 2 * free.len() as i32 - frees.fixed[bit] + fulls.fixed[bit];
            tally.lengths[bit] += both as f32 * BLOCK as f32;
            tally.copies[bit] += both;
            tally.gone[bit] += full.len() as i32 - fulls.fixed[bit];
        }
    }
}
