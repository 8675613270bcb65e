//! Choice of the bits that a node selects.

use std::ops::Range;

use super::block::BLOCK;
use crate::engine::budget::Visits;
use crate::engine::selector::Selector;
use crate::raw::{Isa, Kernel, Level, dispatch, word};
use crate::rule::Regions;
use crate::rule::fixed_bits;
use crate::schema::Schema;

/// Every region as a value and its fixed bits, word by word. A cube may exceed its region.
pub(super) struct Cubes<'a> {
    /// Instruction set of the build.
    pub(super) level: Level,
    /// Counter of region visits.
    ///
    /// A region is visited once for each word whenever a bit is chosen, and when it is put into a list or compared
    /// with a key.
    pub(super) visits: &'a Visits,
    /// Field of each word.
    fields: Vec<usize>,
    /// Bit of each word that is set if the field is absent, or 0.
    absent: Vec<u32>,
    words: Vec<(u32, u32)>,
}

impl<'a> Cubes<'a> {
    pub(super) fn new(schema: &Schema, regions: &Regions, level: Level, visits: &'a Visits) -> Self {
        let fields: Vec<usize> = schema.words().iter().map(|word| word.field).collect();
        let absent = schema.words().iter().map(|word| word.absent.unwrap_or(0)).collect();
        let key_words = fields.len();
        let mut words = Vec::with_capacity(regions.len() * key_words);
        for region in regions.iter() {
            words.extend((0..key_words).map(|word| {
                let fixed = fixed_bits(&region, word);
                (region.lo[word] & fixed, fixed)
            }));
        }
        Self { level, visits, fields, absent, words }
    }

    /// Returns the number of words of a key.
    pub(super) fn key_words(&self) -> usize {
        self.fields.len()
    }

    /// Returns the value and the fixed bits of each word of a region.
    pub(super) fn of(&self, region: u32) -> &[(u32, u32)] {
        &self.words[region as usize * self.fields.len()..][..self.fields.len()]
    }
}

/// Selected bits of at most two pairs of neighbouring key words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    /// Words, each with a mask of its selected bits.
    pub(super) words: Vec<(usize, u32)>,
}

impl Bits {
    /// Returns the bits that a node selects.
    pub(super) fn of(node: Selector) -> Self {
        let word =
            |pair: u16, mask: u64| [(usize::from(pair), mask as u32), (usize::from(pair) + 1, (mask >> 32) as u32)];
        let words = node.pairs.into_iter().zip(node.masks).flat_map(|(pair, mask)| word(pair, mask));
        Self { words: words.filter(|&(_, bits)| bits != 0).collect() }
    }

    /// Converts the bits into the form that a node stores, for keys of `key_words` words.
    pub(super) fn selector(&self, key_words: usize) -> Selector {
        // Both words of a pair are words of the key, if it has two.
        let most = key_words.saturating_sub(2);
        let [first, last] = pairs(self.words.iter().map(|&(word, _)| word)).map(|first| first.min(most));
        let mut masks = [0; 2];
        for &(word, bits) in &self.words {
            let which = usize::from(word > first + 1);
            masks[which] |= u64::from(bits) << (32 * (word - [first, last][which]));
        }
        Selector { masks, pairs: [first as u16, last as u16] }
    }

    pub(super) fn count(&self) -> u32 {
        self.words.iter().map(|(_, bits)| bits.count_ones()).sum()
    }

    /// Returns the number of selected bits that a region leaves open.
    ///
    /// A region with `n` open bits stands in 2^n entries of the node.
    pub(super) fn open(&self, cube: &[(u32, u32)]) -> u32 {
        self.words.iter().map(|&(word, bits)| (bits & !cube[word].1).count_ones()).sum()
    }

    /// Adds the absent bit of the field that most regions of a list require, if a majority requires it.
    ///
    /// Otherwise keys without the field would be tested against regions that require it.
    pub(super) fn add_absent(&mut self, cubes: &Cubes<'_>, list: &[u32]) {
        let require = |word: usize| {
            let absent = cubes.absent[word];
            list.iter().filter(|&&region| cubes.of(region)[word].1 & absent != 0).count()
        };
        let words = (0..cubes.key_words()).filter(|&word| cubes.absent[word] != 0 && self.fit_with(word));
        let most = words.map(|word| (require(word), word)).max();
        if let Some((count, word)) = most
            && 2 * count >= list.len()
        {
            self.add(word, cubes.absent[word].trailing_zeros());
        }
    }

    /// Returns the bits without the absent bits.
    pub(super) fn without_absent(&self, cubes: &Cubes<'_>) -> Self {
        let words = self.words.iter().map(|&(word, bits)| (word, bits & !cubes.absent[word]));
        Self { words: words.filter(|&(_, bits)| bits != 0).collect() }
    }

    /// Whether two pairs of neighbouring words can hold both these bits and bits of `word`.
    fn fit_with(&self, word: usize) -> bool {
        let mut words = self.words.iter().map(|&(word, _)| word).chain([word]);
        let [first, last] = pairs(words.clone());
        words.all(|word| word <= first + 1 || (last..last + 2).contains(&word))
    }

    fn add(&mut self, word: usize, bit: u32) {
        match self.words.iter_mut().find(|(of, _)| *of == word) {
            Some((_, bits)) => *bits |= 1 << bit,
            None => self.words.push((word, 1 << bit)),
        }
    }
}

/// Returns the first words of two pairs of neighbouring words that hold `words`, if two pairs can.
fn pairs(words: impl Iterator<Item = usize> + Clone) -> [usize; 2] {
    let first = words.clone().min().unwrap_or(0);
    [first, words.filter(|&word| word > first + 1).min().unwrap_or(first)]
}

/// Limits on the choice of bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest number of bits.
    pub(super) bits: u32,
    /// Largest number of bits that a region may leave open; `None` is no limit.
    ///
    /// A region that leaves more bits open goes to another tree.
    pub(super) open: Option<u32>,
    /// Largest number of copies per region, in all entries together.
    pub(super) growth: f64,
}

/// Largest sample of a list; a longer list is judged by every n-th region.
const SAMPLE: usize = 2048;
/// Exponent that weighs copies against a shorter search, see [`Cost`].
const COPIES: f64 = 0.35;
/// Cost of a region that goes to another tree, as a share of all regions that go there.
///
/// The cost is a search of this length, and of two blocks at least.
const ELSEWHERE: f64 = 1.0 / 16.0;
/// Smallest share by which a bit must reduce the cost.
const GAIN: f64 = 0.01;

/// Chooses bits one by one: each time the bit with the least [`Cost`] afterwards.
pub(super) fn choose(cubes: &Cubes<'_>, list: &[u32], limits: Limits) -> Bits {
    let mut lists = Lists::new(cubes, list, limits);
    let mut bits = Bits::default();
    let mut cost = lists.cost(lists.regions, lists.length(lists.regions as i32), 0.0);
    while bits.count() < limits.bits && !lists.ends.is_empty() && !cubes.visits.are_too_many() {
        let Some(best) = lists.best(&bits, cost) else { break };
        cost = best.cost;
        bits.add(best.word, best.bit);
        lists.split(best.word, best.bit);
    }
    bits
}

/// Region in a list.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// Number of the region in the sample.
    at: u32,
    /// Number of the bits chosen so far that the region leaves open.
    open: u32,
}

/// Entries of lists: `free` ones may leave another bit open, `full` ones may not.
///
/// Values beyond `len` are overwritten.
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

    /// Empties the entries, with room for a split of `split` entries.
    ///
    /// Both sides may keep all entries, and one more is written that is not kept.
    fn clear(&mut self, split: usize) {
        let most = (2 * split + 1).max(self.free.len());
        self.free.resize(most, Entry::default());
        self.full.resize(most, 0);
        self.len = [0; 2];
    }

    /// Moves all entries from the positions `from` on to the end of `to`.
    fn part(&mut self, from: [usize; 2], to: &mut Self) {
        let ends = [0, 1].map(|i| to.len[i] + self.len[i] - from[i]);
        to.free[to.len[0]..ends[0]].copy_from_slice(&self.free[from[0]..self.len[0]]);
        to.full[to.len[1]..ends[1]].copy_from_slice(&self.full[from[1]..self.len[1]]);
        (self.len, to.len) = (from, ends);
    }
}

/// Lists into which the chosen bits divide one list.
struct Lists<'a> {
    cubes: &'a Cubes<'a>,
    limits: Limits,
    /// Distance between the regions of the sample.
    step: usize,
    /// Number of regions in the sample.
    regions: usize,
    /// Value of each region of the sample with its fixed bits above it, word by word.
    words: Vec<u64>,
    /// Entries, list by list, and the end of each list.
    entries: Entries,
    ends: Vec<[usize; 2]>,
    /// Entries of all lists that fit one block: no bit makes their search shorter.
    short: Entries,
    /// Buffers into which a split writes `entries` and `short`.
    next: [Entries; 2],
    /// Number of regions that have gone to another tree.
    ///
    /// A full entry counts as `share` of a region, because its region stands in several lists. For example, a region
    /// with two open bits stands in four lists, so each of its entries counts as a quarter.
    removed: f64,
    share: f64,
    /// For each word, the bits that may split a list.
    ///
    /// A bit that splits no list also splits no list into which other bits divide these.
    layout: Vec<u32>,
}

struct Best {
    word: usize,
    bit: u32,
    cost: Cost,
}

/// Cost of lookups: the mean search length, times the entries to the power of [`COPIES`].
///
/// For example, one list of 64 regions costs 64 · 64^0.35 = 274. A bit that half of them leave open, and that splits
/// the others evenly, makes two lists of 48. Their 96 entries cost 48 · 96^0.35 = 237, so that the bit pays in spite
/// of its copies.
#[derive(Clone, Copy)]
struct Cost {
    /// Sum of the search lengths of all entries.
    lengths: f64,
    entries: f64,
}

impl Cost {
    /// Whether this cost is less than `than`: `lengths / entries * entries.powf(COPIES)`.
    fn is_less(self, than: Self) -> bool {
        let (power, more) = (1.0 - COPIES, self.entries / than.entries);
        // The tangent lies above the power everywhere, so that it rules out most candidates cheaply.
        self.lengths < than.lengths * (1.0 + power * (more - 1.0)) && self.lengths < than.lengths * more.powf(power)
    }
}

/// Effect that each bit of a word would have on all lists.
struct Tally {
    /// Number of entries, and their sum weighted by the length of their list.
    copies: [i32; 32],
    lengths: [f32; 32],
    /// Number of entries that would go to another tree.
    removed: [i32; 32],
    /// Not 0 if the bit splits some list.
    layout: [i32; 32],
}

/// Number of regions in which each bit of a word is 1, and in which it is fixed.
struct Counts {
    ones: [i32; 32],
    fixed: [i32; 32],
}

impl Counts {
    /// Counts over the words of a list.
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
        let (regions, key_words) = (list.len().div_ceil(step), cubes.fields.len());
        let mut words = vec![0; regions * key_words];
        for (at, &region) in list.iter().step_by(step).enumerate() {
            for (at_word, &(value, fixed)) in cubes.of(region).iter().enumerate() {
                words[at_word * regions + at] = word([value, fixed]);
            }
        }
        let all = 0..regions as u32;
        let entries = match limits.open {
            Some(0) => Entries { full: all.collect(), len: [0, regions], ..Entries::default() },
            _ => {
                Entries { free: all.map(|at| Entry { at, open: 0 }).collect(), len: [regions, 0], ..Entries::default() }
            }
        };
        let (ends, layout) = (vec![entries.len], vec![u32::MAX; key_words]);
        let (short, next) = Default::default();
        let share = limits.open.map_or(0.0, |open| 0.5f64.powi(open as i32));
        Self { cubes, limits, step, regions, words, entries, ends, short, next, removed: 0.0, share, layout }
    }

    fn words(&self, word: usize) -> &[u64] {
        &self.words[word * self.regions..][..self.regions]
    }

    #[inline(always)]
    fn each(&self) -> impl Iterator<Item = (&[Entry], &[u32])> {
        let mut start = [0; 2];
        self.ends.iter().map(move |&end| {
            let start = std::mem::replace(&mut start, end);
            self.entries.of([0, 1].map(|i| start[i]..end[i]))
        })
    }

    /// Returns the search lengths of all entries of a list; a list is at least one block long.
    #[inline(always)]
    fn length(&self, entries: i32) -> f32 {
        let entries = entries as f32;
        entries * (entries * self.step as f32).max(BLOCK as f32)
    }

    fn cost(&self, copies: usize, lengths: f32, removed: f64) -> Cost {
        let elsewhere = (removed * self.step as f64 * ELSEWHERE).max(2.0 * BLOCK as f64);
        Cost { lengths: f64::from(lengths) + removed * elsewhere, entries: copies as f64 + removed }
    }

    /// Returns the bit with the least cost, if it reduces `cost`.
    fn best(&mut self, bits: &Bits, cost: Cost) -> Option<Best> {
        let mut best = None;
        let mut least = Cost { lengths: cost.lengths * (1.0 - GAIN), ..cost };
        for word in 0..self.layout.len() {
            let addable = self.addable(bits, word);
            if self.layout[word] & addable == 0 {
                continue;
            }
            if self.cubes.visits.are_too_many() {
                return None;
            }
            let tally = self.tally(word);
            let mut layout = 0;
            // Among bits of equal cost, the one lowest in its byte wins.
            let bits = (0..32).map(|at| at % 4 * 8 + at / 4);
            for bit in bits.filter(|&bit| tally.layout[bit] != 0) {
                layout |= 1 << bit;
                let copies = tally.copies[bit];
                if addable >> bit & 1 == 0 || f64::from(copies) > self.limits.growth * self.regions as f64 {
                    continue;
                }
                let removed = self.removed + f64::from(tally.removed[bit]) * self.share;
                let cost = self.cost(copies as usize, tally.lengths[bit], removed);
                if cost.is_less(least) {
                    (best, least) = (Some(Best { word, bit: bit as u32, cost }), cost);
                }
            }
            self.layout[word] = layout;
        }
        best
    }

    /// Returns the bits of a word that can be added: bits of at most two fields in all, and absent bits.
    ///
    /// With more fields, the choice would take longer and was no better. Two pairs of words must hold all the bits.
    fn addable(&self, bits: &Bits, word: usize) -> u32 {
        let Cubes { fields, absent, .. } = self.cubes;
        if !bits.fit_with(word) {
            return 0;
        }
        let selected = |&&(of, mask): &&(usize, u32)| mask & !absent[of] != 0;
        let mut others = bits.words.iter().filter(selected).map(|&(of, _)| fields[of]).filter(|&of| of != fields[word]);
        let first = others.next();
        let is_third = others.any(|of| Some(of) != first);
        let used = bits.words.iter().find(|(of, _)| *of == word).map_or(0, |(_, mask)| *mask);
        !used & if is_third { absent[word] } else { u32::MAX }
    }

    fn tally(&self, word: usize) -> Tally {
        self.cubes.visits.add(self.entries.len() + self.short.len());
        let mut tally = Tally { copies: [0; 32], lengths: [0.0; 32], removed: [0; 32], layout: [0; 32] };
        dispatch(self.cubes.level, Count { lists: self, word, tally: &mut tally });
        tally
    }

    /// Splits every list by a bit.
    fn split(&mut self, word: usize, bit: u32) {
        self.cubes.visits.add(self.entries.len() + self.short.len());
        let [mut entries, mut short] = std::mem::take(&mut self.next);
        entries.clear(self.entries.len());
        // All entries may end in short lists.
        short.clear(self.entries.len() + self.short.len());
        let mut split = Split { words: self.words(word), bit, most: self.limits.open, removed: 0 };
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
        // An entry was counted once for each side.
        self.removed += split.removed as f64 * self.share / 2.0;
        self.next = [std::mem::replace(&mut self.entries, entries), std::mem::replace(&mut self.short, short)];
        self.ends = ends;
    }
}

/// Split of lists by a bit.
struct Split<'a> {
    words: &'a [u64],
    bit: u32,
    /// Largest number of bits that an entry may leave open.
    most: Option<u32>,
    /// Number of entries that went to another tree, counted once for each side.
    removed: usize,
}

impl Split<'_> {
    /// Returns whether a region leaves the bit open, and the bit's value otherwise.
    #[inline(always)]
    fn side(&self, at: u32) -> (bool, u64) {
        let word = self.words[at as usize] >> self.bit;
        (word >> 32 & 1 == 0, word & 1)
    }

    /// Appends the entries whose bit is `side` or open to `to`.
    ///
    /// Each entry is written first and then kept or not, so that there is no branch.
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
            self.removed += usize::from(is_open);
        }
    }
}

/// Count of the effect that each bit of a word would have on all lists.
struct Count<'a> {
    lists: &'a Lists<'a>,
    word: usize,
    tally: &'a mut Tally,
}

impl Kernel for Count<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { lists, word, tally } = self;
        let words = lists.words(word);
        for (free, full) in lists.each() {
            let frees = Counts::of(isa, free, |entry| words[entry.at as usize]);
            let fulls = Counts::of(isa, full, |&at| words[at as usize]);
            let (few, all) = (free.len() as i32, (free.len() + full.len()) as i32);
            for bit in 0..32 {
                // An open bit counts for both sides, but a full entry goes to another tree.
                let ones = few - frees.fixed[bit] + frees.ones[bit] + fulls.ones[bit];
                let zeros = few - frees.ones[bit] + fulls.fixed[bit] - fulls.ones[bit];
                let removed = all - few - fulls.fixed[bit];
                tally.lengths[bit] += lists.length(ones) + lists.length(zeros);
                tally.copies[bit] += ones + zeros;
                tally.removed[bit] += removed;
                tally.layout[bit] |= i32::from(ones.max(zeros) + removed < all);
            }
        }
        let (free, full) = lists.short.all();
        let frees = Counts::of(isa, free, |entry| words[entry.at as usize]);
        let fulls = Counts::of(isa, full, |&at| words[at as usize]);
        for bit in 0..32 {
            let both = 2 * free.len() as i32 - frees.fixed[bit] + fulls.fixed[bit];
            tally.lengths[bit] += both as f32 * BLOCK as f32;
            tally.copies[bit] += both;
            tally.removed[bit] += full.len() as i32 - fulls.fixed[bit];
        }
    }
}
