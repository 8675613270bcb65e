//! Which answers of the base do not stand, and which keys the overlay can have something for.

use super::choose::Chosen;
use crate::alive::Dead;
use crate::bit_select::{Selector, pair};
use crate::engine::Match;
use crate::key::Keys;
use crate::rule::{Priority, Regions};
use crate::simd::{Isa, Kernel, Level, dispatch};

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
    /// The best priority of a region that is for every key, if there is one.
    wide: Priority,
    any_wide: bool,
}

/// One bit map.
#[derive(Clone, Copy, Debug)]
struct Map {
    selector: Selector,
    /// Its first word.
    start: usize,
}

impl Map {
    fn entry(&self, index: u64) -> (usize, u64) {
        (self.start + index as usize / 64, 1 << (index % 64))
    }
}

impl Filter {
    /// For no region yet, in so many bytes. Where a base says nothing, or the bytes are too few, every region is for
    /// every key.
    pub(super) fn of(base: &Chosen, level: Level, allowed: usize) -> Self {
        let mut words = 0;
        let mut maps: Vec<Map> = Vec::new();
        if let Chosen::BitSelect(base) = base {
            for bits in base.roots().selected() {
                maps.push(Map { selector: bits, start: words });
                words += (1usize << bits.count()).div_ceil(64);
            }
        }
        if size_of_val(&maps[..]) + words * size_of::<u64>() > allowed {
            (words, maps) = (0, Vec::new());
        }
        Self { level, maps: maps.into(), bits: vec![0; words].into(), wide: Priority(u64::MAX), any_wide: false }
    }

    /// Adds the regions of a rule. They are never taken out.
    pub(super) fn add(&mut self, rule: Match, regions: &Regions) {
        for region in regions.iter() {
            let open = |map: &Map| map.selector.of_region(&region).1.count_ones();
            let Some(map) = self.maps.iter().min_by_key(|map| open(map)).filter(|map| open(map) <= MOST_OPEN) else {
                (self.wide, self.any_wide) = (self.wide.min(rule.priority), true);
                continue;
            };
            let (value, open) = map.selector.of_region(&region);
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

    /// Looks at the answers of the base to a chunk of keys.
    pub(super) fn look(&self, dead: &Dead, keys: Keys<'_>, best: &[Option<Match>], lists: &mut Lists) {
        dispatch(self.level, Look { filter: self, dead, keys, best, lists });
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.maps[..]) + size_of_val(&self.bits[..])
    }
}

/// Keys of a chunk by their places.
#[derive(Debug)]
pub(super) struct Lists {
    /// Those that were answered with a rule that is marked.
    dead: [u8; CHUNK],
    dead_len: usize,
    /// Those that may be in a region of the overlay.
    asked: [u8; CHUNK],
    asked_len: usize,
}

impl Lists {
    pub(super) fn new() -> Self {
        Self { dead: [0; CHUNK], dead_len: 0, asked: [0; CHUNK], asked_len: 0 }
    }

    /// Lists the keys that were answered with a rule that is marked, and none for an overlay.
    pub(super) fn of_dead(&mut self, dead: &Dead, best: &[Option<Match>]) {
        (self.dead_len, self.asked_len) = (0, 0);
        for (i, best) in best.iter().enumerate().take(CHUNK) {
            self.dead[self.dead_len % CHUNK] = i as u8;
            self.dead_len += usize::from(best.is_some_and(|found| dead.is_marked(found.rule)));
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
    dead: &'a Dead,
    keys: Keys<'a>,
    best: &'a [Option<Match>],
    lists: &'a mut Lists,
}

impl Kernel for Look<'_> {
    /// No branch depends on the answers.
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { filter, dead, keys, best, lists } = self;
        let (words, stride) = (keys.words(), keys.stride());
        let (mut dead_len, mut asked_len) = (0, 0);
        for (i, best) in best.iter().enumerate().take(CHUNK) {
            let row = &words[i * stride..][..stride];
            let is_dead = best.is_some_and(|found| dead.is_marked(found.rule));
            lists.dead[dead_len % CHUNK] = i as u8;
            dead_len += usize::from(is_dead);
            // Another rule than a dead one may be better than a region for every key.
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
