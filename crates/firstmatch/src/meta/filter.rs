//! Which keys the overlay can have something for.

use super::choose::Chosen;
use crate::engine::{Match, fixed_bits};
use crate::key::Keys;
use crate::rule::{Priority, Regions};
use crate::simd::{Isa, Kernel, Level, dispatch, gather};

/// Keys that are asked about at a time.
pub(super) const CHUNK: usize = 64;

/// A region that would set more entries than this, as a power of two, is for every key.
const MOST_OPEN: u32 = 8;

/// Bit maps over bits that tell the rules of the base apart: a key whose entries are all 0 is in no region of the overlay.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    level: Level,
    maps: Box<[Map]>,
    bits: Box<[u64]>,
    /// The best priority of a region that is for every key.
    wide: Priority,
}

/// One bit map.
#[derive(Clone, Copy, Debug)]
struct Map {
    /// Over the first lane's word in the upper half and the second's in the lower.
    mask: u64,
    lanes: [usize; 2],
    /// Its first word.
    start: usize,
}

impl Map {
    fn entry(&self, index: u64) -> (usize, u64) {
        (self.start + index as usize / 64, 1 << (index % 64))
    }
}

/// No region is for every key: no priority is worse.
const NONE: Priority = Priority(u64::MAX);

impl Filter {
    /// For no region yet, in so many bytes. Where a base says nothing, or the bytes are too few, every region is for
    /// every key.
    pub(super) fn of(base: &Chosen, level: Level, allowed: usize) -> Self {
        let mut words = 0;
        let mut maps: Vec<Map> = Vec::new();
        if let Chosen::BitSelect(base) = base {
            for (mask, lanes) in base.roots() {
                maps.push(Map { mask, lanes, start: words });
                words += (1usize << mask.count_ones()).div_ceil(64);
            }
        }
        if size_of_val(&maps[..]) + words * size_of::<u64>() > allowed {
            (words, maps) = (0, Vec::new());
        }
        Self { level, maps: maps.into(), bits: vec![0; words].into(), wide: NONE }
    }

    /// Adds the regions of a rule. They are never taken out.
    pub(super) fn add(&mut self, rule: Match, regions: &Regions) {
        for region in regions.iter() {
            let fixed = |map: &Map| {
                let [a, b] = map.lanes.map(|lane| u64::from(fixed_bits(&region, lane)));
                a << 32 | b
            };
            let open = |map: &Map| (map.mask & !fixed(map)).count_ones();
            let Some(map) = self.maps.iter().min_by_key(|map| open(map)).filter(|map| open(map) <= MOST_OPEN) else {
                self.wide = self.wide.min(rule.priority);
                continue;
            };
            let [a, b] = map.lanes.map(|lane| u64::from(region.lo[lane]));
            let fixed = fixed(map);
            let value = gather((a << 32 | b) & fixed, map.mask);
            let open = gather(!fixed, map.mask);
            // Every value of the open bits.
            let mut some = 0u64;
            loop {
                let (word, bit) = map.entry(value | some);
                self.bits[word] |= bit;
                some = some.wrapping_sub(open) & open;
                if some == 0 {
                    break;
                }
            }
        }
    }

    /// The keys of a chunk that may be in some region: their places, in `list`, and how many they are.
    pub(super) fn ask(&self, keys: Keys<'_>, best: &[Option<Match>], list: &mut [u8; CHUNK]) -> usize {
        let mut count = 0;
        dispatch(self.level, Ask { filter: self, keys, best, list, count: &mut count });
        count
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.maps[..]) + size_of_val(&self.bits[..])
    }
}

struct Ask<'a> {
    filter: &'a Filter,
    keys: Keys<'a>,
    best: &'a [Option<Match>],
    list: &'a mut [u8; CHUNK],
    count: &'a mut usize,
}

impl Kernel for Ask<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { filter, keys, best, list, count } = self;
        let mut left = 0;
        for (i, best) in best.iter().enumerate().take(CHUNK) {
            let row = keys.row(i);
            let mut some = filter.wide < best.map_or(NONE, |best| best.priority);
            for map in &filter.maps {
                let [a, b] = map.lanes.map(|lane| u64::from(row[lane]));
                let (word, bit) = map.entry(isa.gather(a << 32 | b, map.mask));
                some |= filter.bits.get(word).is_none_or(|word| word & bit != 0);
            }
            list[left % CHUNK] = i as u8;
            left += usize::from(some);
        }
        *count = left;
    }
}
