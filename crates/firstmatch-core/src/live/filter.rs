//! Filter: finds dead answers of the base and keys that the overlay may have a match for.

use crate::engine::Match;
use crate::engine::base::Base;
use crate::engine::selector::{Selector, pair};
use crate::engine::tombstones::Tombstones;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, Level, dispatch};
use crate::rule::{Priority, Regions};

/// Number of keys that the filter looks at together.
pub(super) const CHUNK: usize = 64;

/// Maximum number of open bits of a region; a region with more counts for every key.
///
/// An open bit doubles the entries that a region sets: 8 open bits set 256.
const MOST_OPEN: u32 = 8;

/// Bit maps that say which keys may lie in a region of the overlay.
///
/// Each map has an entry for every value of the bits that a root of the base selects, because these bits tell the
/// base's rules apart. A key whose entry is 0 in every map is in no region of the overlay, unless that region is wide.
///
/// For example, a root that selects 10 bits gets a map of 1,024 entries. An overlay region that leaves 2 of these bits
/// open sets 4 entries, and a key finds its entry by its own 10 bits.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    level: Level,
    maps: Box<[Map]>,
    bits: Box<[u64]>,
    /// Best priority of the regions that count for every key, if there are any.
    wide: Priority,
    any_wide: bool,
}

/// One bit map.
#[derive(Clone, Copy, Debug)]
struct Map {
    selector: Selector,
    /// Index of its first word.
    start: usize,
}

impl Map {
    fn entry(&self, index: u64) -> (usize, u64) {
        (self.start + index as usize / 64, 1 << (index % 64))
    }
}

impl Filter {
    /// Builds a filter without regions, in at most `allowed` bytes.
    ///
    /// If the base offers no selected bits, or the bytes are too few, every region counts for every key.
    pub(super) fn of(base: &dyn Base, level: Level, allowed: usize) -> Self {
        let mut words = 0;
        let mut maps: Vec<Map> = Vec::new();
        for selector in base.selectors() {
            maps.push(Map { selector, start: words });
            words += (1usize << selector.count()).div_ceil(64);
        }
        if size_of_val(&maps[..]) + words * size_of::<u64>() > allowed {
            (words, maps) = (0, Vec::new());
        }
        Self { level, maps: maps.into(), bits: vec![0; words].into(), wide: Priority(u64::MAX), any_wide: false }
    }

    /// Adds the regions of a rule; they are never removed.
    pub(super) fn add(&mut self, rule: Match, regions: &Regions) {
        for region in regions.iter() {
            let open = |map: &Map| map.selector.of_region(self.level, &region).1.count_ones();
            let Some(map) = self.maps.iter().min_by_key(|map| open(map)).filter(|map| open(map) <= MOST_OPEN) else {
                (self.wide, self.any_wide) = (self.wide.min(rule.priority), true);
                continue;
            };
            let (value, open) = map.selector.of_region(self.level, &region);
            // Goes through every value of the open bits.
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

    /// Looks at the base's answers `best` to a chunk of keys, and fills `lists`.
    pub(super) fn look(&self, tombstones: &Tombstones, keys: Keys<'_>, best: &[Option<Match>], lists: &mut Lists) {
        dispatch(self.level, Look { filter: self, tombstones, keys, best, lists });
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.maps[..]) + size_of_val(&self.bits[..])
    }
}

/// Keys of a chunk, by index, that need another lookup.
#[derive(Debug)]
pub(super) struct Lists {
    /// Keys whose answer is a rule with a tombstone.
    dead: [u8; CHUNK],
    dead_len: usize,
    /// Keys that may lie in a region of the overlay.
    asked: [u8; CHUNK],
    asked_len: usize,
}

impl Lists {
    pub(super) fn new() -> Self {
        Self { dead: [0; CHUNK], dead_len: 0, asked: [0; CHUNK], asked_len: 0 }
    }

    /// Lists the keys whose answer is a rule with a tombstone, and no key for the overlay.
    pub(super) fn of_dead(&mut self, tombstones: &Tombstones, best: &[Option<Match>]) {
        (self.dead_len, self.asked_len) = (0, 0);
        for (i, best) in best.iter().enumerate().take(CHUNK) {
            self.dead[self.dead_len % CHUNK] = i as u8;
            self.dead_len += usize::from(best.is_some_and(|found| tombstones.is_marked(found.rule)));
        }
    }

    pub(super) fn dead(&self) -> &[u8] {
        &self.dead[..self.dead_len.min(CHUNK)]
    }

    pub(super) fn asked(&self) -> &[u8] {
        &self.asked[..self.asked_len.min(CHUNK)]
    }
}

struct Look<'a> {
    filter: &'a Filter,
    tombstones: &'a Tombstones,
    keys: Keys<'a>,
    best: &'a [Option<Match>],
    lists: &'a mut Lists,
}

impl Kernel for Look<'_> {
    /// Fills the lists without a branch on answers, because it would be unpredictable.
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { filter, tombstones, keys, best, lists } = self;
        let (words, stride) = (keys.words(), keys.stride());
        let (mut dead_len, mut asked_len) = (0, 0);
        for (i, best) in best.iter().enumerate().take(CHUNK) {
            let row = &words[i * stride..][..stride];
            let is_dead = best.is_some_and(|found| tombstones.is_marked(found.rule));
            lists.dead[dead_len % CHUNK] = i as u8;
            dead_len += usize::from(is_dead);
            // Behind a dead answer a wide region may be the best match, so the overlay is asked in any case.
            let mut some = is_dead | best.map_or(filter.any_wide, |best| filter.wide < best.priority);
            for map in &filter.maps {
                let (word, bit) = map.entry(map.selector.select_with(isa, |at| pair(row, at)));
                some |= filter.bits.get(word).is_none_or(|word| word & bit != 0);
            }
            lists.asked[asked_len % CHUNK] = i as u8;
            asked_len += usize::from(some);
        }
        (lists.dead_len, lists.asked_len) = (dead_len, asked_len);
    }
}
