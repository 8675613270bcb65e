//! Lookups: chunks of keys go through leaves, filters, open rules, buckets and candidates together.

use super::pairs::home;
use super::{ALWAYS, Bucket, Candidate, Class, LENGTH, LONG, MOST_VALUE, NONE, OpenList, SetPairs};
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::engines::shared::leaves::MOST_KEYS;
use crate::key::Keys;
use crate::raw::{Isa, Kernel};

/// Number of keys in flight.
const CHUNK: usize = MOST_KEYS;
/// Number of pairs of parts of a key.
const NINE: usize = 9;
/// Number of candidates that wait for their test.
const WAITING: usize = 512;
/// Number of candidates that are named at a time, whether a list has as many or not.
const NAMED: usize = 8;
/// Number of open rules of a line that are named at a time.
const PICKED: usize = 4;
/// Number of open rules of a line.
const TWELVE: usize = 12;

/// What the stages of a lookup pass on.
#[derive(Debug)]
pub struct Queues {
    classes: [[u32; CHUNK]; 2],
    third_classes: [u32; CHUNK],
    /// Value and bits of each key in the third and fourth field, and start of its row.
    values: [u16; CHUNK],
    bits: [u8; CHUNK],
    rows: [u32; CHUNK],
    ranks: [u32; CHUNK],
    /// Pairs that passed the filters, and their keys.
    pairs: [u32; CHUNK * NINE + 1],
    pair_keys: [u8; CHUNK * NINE + 1],
    waiting: Waiting,
}

/// Candidates that wait for their test, and their keys.
#[derive(Debug)]
struct Waiting {
    count: usize,
    places: [u32; WAITING + TWELVE],
    keys: [u8; WAITING + TWELVE],
}

impl Default for Queues {
    fn default() -> Self {
        let waiting = Waiting { count: 0, places: [0; WAITING + TWELVE], keys: [0; WAITING + TWELVE] };
        Self {
            classes: [[0; CHUNK]; 2],
            third_classes: [0; CHUNK],
            values: [0; CHUNK],
            bits: [u8::MAX; CHUNK],
            rows: [0; CHUNK],
            ranks: [NONE; CHUNK],
            pairs: [0; CHUNK * NINE + 1],
            pair_keys: [0; CHUNK * NINE + 1],
            waiting,
        }
    }
}

/// Lookup of a batch.
pub(super) struct Lookup<'a, A> {
    pub(super) engine: &'a SetPairs,
    pub(super) queues: &'a mut Queues,
    pub(super) live_rules: A,
    pub(super) keys: &'a Keys<'a>,
    pub(super) best: &'a mut [Option<Match>],
}

impl<A: LiveRules> Kernel for Lookup<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, queues, live_rules, keys, best } = self;
        for (chunk, best) in best.chunks_mut(CHUNK).enumerate() {
            let keys = keys.slice(chunk * CHUNK, chunk * CHUNK + best.len());
            let mut chunk = Chunk { isa, engine, live_rules, keys, count: best.len(), queues: &mut *queues };
            chunk.leaves();
            let pairs = chunk.filter();
            chunk.open();
            chunk.probe(pairs);
            chunk.test();
            for (best, &rank) in best.iter_mut().zip(&queues.ranks) {
                if let Some(found) = engine.matches.get(rank as usize) {
                    found.improve(best);
                }
            }
        }
    }
}

/// Lookup of a chunk of keys.
struct Chunk<'a, I, A> {
    isa: I,
    engine: &'a SetPairs,
    live_rules: A,
    keys: Keys<'a>,
    count: usize,
    queues: &'a mut Queues,
}

impl<I: Isa, A: LiveRules> Chunk<'_, I, A> {
    /// Finds the classes of all keys, and prefetches them.
    #[inline(always)]
    fn leaves(&mut self) {
        let Self { isa, engine, ref keys, count, ref mut queues, .. } = *self;
        for (axis, found) in engine.axes.iter().zip(&mut queues.classes) {
            axis.leaves.find(isa, keys, &mut found[..count]);
            found[..count].iter().for_each(|&class| isa.prefetch(&axis.classes[class as usize]));
        }
        if let Some(third) = &engine.third {
            third.leaves.find(isa, keys, &mut queues.third_classes[..count]);
            for at in 0..count {
                let value = keys.row(at)[third.word];
                queues.values[at] = if value <= MOST_VALUE { value as u16 } else { 0 };
                queues.rows[at] = queues.third_classes[at] * third.width as u32;
                isa.prefetch(&third.rows[queues.rows[at] as usize]);
            }
        } else {
            queues.third_classes[..count].fill(0);
            queues.values[..count].fill(0);
        }
        match &engine.fourth {
            Some(fourth) => (0..count).for_each(|at| queues.bits[at] = fourth.bits[keys.row(at)[fourth.word] as usize]),
            None => queues.bits[..count].fill(u8::MAX),
        }
        queues.ranks[..count].fill(NONE);
        queues.waiting.count = 0;
    }

    /// Queues the pairs of parts that pass the filters of both, prefetches their buckets, and returns their number.
    #[inline(always)]
    fn filter(&mut self) -> usize {
        let Self { isa, engine, count, ref mut queues, .. } = *self;
        let [first, second] = &*engine.axes else { return 0 };
        if engine.buckets.is_empty() {
            return 0;
        }
        let mut pairs = 0;
        for at in 0..count {
            let a: &Class = &first.classes[queues.classes[0][at] as usize];
            let b: &Class = &second.classes[queues.classes[1][at] as usize];
            isa.prefetch_lines(&engine.open, a.open.first as usize, 1);
            isa.prefetch_lines(&engine.open, b.open.first as usize, 1);
            for x in 0..3 {
                for y in 0..3 {
                    let passes = a.partners[x] >> (b.own[y] & 63) & b.partners[y] >> (a.own[x] & 63) & 1;
                    // The entry is overwritten by the next one unless the pair passes.
                    queues.pairs[pairs] = a.parts[x] << 16 | b.parts[y];
                    queues.pair_keys[pairs] = at as u8;
                    pairs += passes as usize;
                }
            }
        }
        for &pair in &queues.pairs[..pairs] {
            isa.prefetch(&engine.buckets[home(pair, engine.buckets.len())]);
        }
        pairs
    }

    /// Queues the open rules of all keys whose third and fourth field match.
    #[inline(always)]
    fn open(&mut self) {
        for at in 0..self.count {
            for axis in 0..self.engine.axes.len() {
                let class = self.queues.classes[axis][at] as usize;
                self.open_of(at, self.engine.axes[axis].classes[class].open);
            }
            let class = self.queues.third_classes[at] as usize;
            self.open_of(at, self.engine.anywhere[class]);
        }
    }

    #[inline(always)]
    fn open_of(&mut self, at: usize, list: OpenList) {
        let Self { isa, engine, live_rules, .. } = *self;
        let (value, bits) = (self.queues.values[at], self.queues.bits[at]);
        for line in &engine.open[list.first as usize..][..list.lines as usize] {
            live_rules.saw(Step::Group);
            if self.queues.waiting.count > WAITING - TWELVE {
                self.test();
            }
            let mut found = isa.spans12(line, value, bits);
            let waiting = &mut self.queues.waiting;
            let (first, count) = (line.0[15], found.count_ones() as usize);
            isa.prefetch(&engine.candidates[first as usize + found.trailing_zeros() as usize % TWELVE]);
            let mut named = 0;
            // Four are named always, because their number is unpredictable.
            loop {
                for place in 0..PICKED {
                    waiting.places[waiting.count + named + place] = first + found.trailing_zeros();
                    waiting.keys[waiting.count + named + place] = at as u8;
                    found &= found.wrapping_sub(1);
                }
                named += PICKED;
                if named >= count {
                    break;
                }
            }
            waiting.count += count;
        }
    }

    /// Looks up the pairs of the queue, and queues their candidates.
    #[inline(always)]
    fn probe(&mut self, pairs: usize) {
        let Self { isa, engine, live_rules, .. } = *self;
        let buckets = &engine.buckets;
        for at in 0..pairs {
            let (pair, key) = (self.queues.pairs[at], self.queues.pair_keys[at]);
            let mut place = home(pair, buckets.len());
            let found = loop {
                live_rules.saw(Step::Bucket);
                let Bucket { pairs, lists } = &buckets[place];
                let hits = isa.equal8(pairs, pair);
                if hits != 0 || pairs[7] == 0 {
                    break if hits == 0 { 0 } else { lists[hits.trailing_zeros() as usize & 7] };
                }
                place = if place + 1 == buckets.len() { 0 } else { place + 1 };
            };
            let (first, length) = (found >> LENGTH, found & LONG);
            if self.queues.waiting.count > WAITING - NAMED {
                self.test();
            }
            let waiting = &mut self.queues.waiting;
            for next in 0..NAMED {
                waiting.places[waiting.count + next] = first + next as u32;
                waiting.keys[waiting.count + next] = key;
            }
            waiting.count += (length as usize).min(NAMED);
            isa.prefetch(&engine.candidates[first as usize]);
            isa.prefetch(&engine.candidates[first as usize + NAMED / 2]);
            if length as usize > NAMED {
                self.test_rest(first as usize + NAMED, length, key);
            }
        }
    }

    /// Tests the candidates of a list behind the first eight, up to the first that passes.
    #[inline(never)]
    fn test_rest(&mut self, from: usize, length: u32, key: u8) {
        let Self { engine, live_rules, .. } = *self;
        let rest = &engine.candidates[from..];
        let rest = if length < LONG { &rest[..length as usize - NAMED] } else { rest };
        let best = self.queues.ranks[key as usize];
        for candidate in rest.iter().take_while(|candidate| candidate.rank < best) {
            live_rules.saw(Step::Entry);
            if self.passes(candidate, key as usize) && self.holds(candidate, key as usize, best) {
                self.queues.ranks[key as usize] = candidate.rank;
                return;
            }
        }
    }

    /// Tests all candidates that wait.
    #[inline(always)]
    fn test(&mut self) {
        let engine = self.engine;
        for at in 0..self.queues.waiting.count {
            self.live_rules.saw(Step::Entry);
            let (place, key) = (self.queues.waiting.places[at], self.queues.waiting.keys[at] as usize);
            let candidate = &engine.candidates[place as usize];
            let best = self.queues.ranks[key];
            let passes = self.passes(candidate, key);
            let rank = if passes { candidate.rank } else { NONE };
            if (candidate.residue != 0 || !A::ALL) && rank < best {
                if self.holds(candidate, key, best) {
                    self.queues.ranks[key] = rank;
                }
            } else {
                self.queues.ranks[key] = rank.min(best);
            }
        }
        self.queues.waiting.count = 0;
    }

    /// Whether a key has the value, the row bit and a bit of a candidate.
    #[inline(always)]
    fn passes(&self, candidate: &Candidate, key: usize) -> bool {
        let Queues { values, bits, rows, .. } = &*self.queues;
        let row_bit = usize::from(candidate.row_bit);
        let has_bit = match &self.engine.third {
            Some(third) => third.rows[rows[key] as usize + row_bit / 32] >> (row_bit % 32) & 1 != 0,
            None => candidate.row_bit == ALWAYS,
        };
        let within = values[key].wrapping_sub(candidate.first) <= candidate.span;
        within & has_bit & (bits[key] & candidate.bits != 0)
    }

    /// Whether a candidate that passes is live, better than `best`, and passes its residual tests.
    #[inline(never)]
    fn holds(&self, candidate: &Candidate, key: usize, best: u32) -> bool {
        if candidate.rank >= best || !self.live_rules.is_live(candidate.rank as usize) {
            return false;
        }
        if candidate.residue == 0 {
            return true;
        }
        let at = candidate.residue as usize;
        let residue = &self.engine.residue;
        let tests = residue.firsts[at] as usize..residue.firsts[at + 1] as usize;
        let row = self.keys.row(key);
        residue.tests[tests].iter().all(|&set| residue.sets[set as usize].holds(row))
    }
}
