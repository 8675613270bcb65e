//! `limit`: exact match, in batches, with prefetches: what no classifier over the same keys passes.
//!
//! As many entries as rules, entry *i* a key at a corner of rule *i*. It is asked for the trace with every packet
//! replaced by the entry of the rule it matches, so what it does is find that rule, once somebody has said where.
//!
//! This file is frozen: figures of years are multiples of it. A test holds the digest of its text.

use std::cmp::Reverse;
use std::collections::HashSet;

use firstmatch_core::raw::prefetch;
use firstmatch_core::rule::Priority;
use firstmatch_core::{Engine, Keys, Match, RuleId, Schema, Stats};

/// Keys that are hashed and prefetched before the first of them is compared.
const AHEAD: usize = 32;
/// Keys that share a multiplier, on the average.
const GROUP: usize = 4;

/// An entry: the key's words, at the end the number of the rule, from 1; all zero where there is none. Half a cache line
/// for an IPv4 5-tuple, one for IPv6.
#[repr(align(32))]
#[derive(Clone, Copy, Debug)]
struct Entry<const WORDS: usize>([u32; WORDS]);

/// The table, for keys of `KEY_WORDS` words. No two keys have the same place (Belazzougui, Botelho and Dietzfelbinger,
/// *Hash, displace, and compress*, ESA 2009, without the compression), so that no branch depends on a key that is there.
#[derive(Debug)]
pub(crate) struct Limit<const KEY_WORDS: usize, const WORDS: usize> {
    schema: Schema,
    entries: Box<[Entry<WORDS>]>,
    /// For each group of keys the multiplier that leads them to places of their own.
    multipliers: Box<[u16]>,
    /// How far a product is shifted to give a place.
    shift: u32,
    rules: usize,
}

impl<const KEY_WORDS: usize, const WORDS: usize> Limit<KEY_WORDS, WORDS> {
    /// Enters the keys, a key that is there already not again.
    pub(crate) fn build(schema: &Schema, keys: Keys<'_>) -> Self {
        assert!(KEY_WORDS < WORDS && keys.key_words() == KEY_WORDS);
        let mut places = (keys.len() + keys.len() / 4).next_power_of_two().max(2);
        let groups = keys.len().div_ceil(GROUP).next_power_of_two();
        let mut seen = HashSet::new();
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); groups];
        for index in 0..keys.len() {
            let key = first::<KEY_WORDS>(keys.row(index));
            if seen.insert(key) {
                members[hash(key) as usize & (groups - 1)].push(index);
            }
        }
        loop {
            let mut table = Self {
                schema: schema.clone(),
                entries: vec![Entry([0; WORDS]); places].into_boxed_slice(),
                multipliers: vec![0; groups].into_boxed_slice(),
                shift: 64 - places.trailing_zeros(),
                rules: keys.len(),
            };
            if table.fill(keys, &members) {
                return table;
            }
            places *= 2;
        }
    }

    /// Finds a multiplier for every group, the largest first; false where there is none for some group.
    fn fill(&mut self, keys: Keys<'_>, members: &[Vec<usize>]) -> bool {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&group| Reverse(members[group].len()));
        for group in order {
            let key = |index: usize| first::<KEY_WORDS>(keys.row(index));
            let fits = |multiplier: &u16| {
                let mut places: Vec<usize> =
                    members[group].iter().map(|&index| self.place(hash(key(index)), *multiplier)).collect();
                places.sort_unstable();
                places.windows(2).all(|pair| pair[0] != pair[1])
                    && places.iter().all(|&place| self.entries[place].0[WORDS - 1] == 0)
            };
            let Some(multiplier) = (0..u16::MAX).find(fits) else { return false };
            self.multipliers[group] = multiplier;
            for &index in &members[group] {
                let place = self.place(hash(key(index)), multiplier);
                let entry = &mut self.entries[place].0;
                entry[..KEY_WORDS].copy_from_slice(key(index));
                entry[WORDS - 1] = index as u32 + 1;
            }
        }
        true
    }

    #[inline(always)]
    fn place(&self, hash: u64, multiplier: u16) -> usize {
        (hash.wrapping_mul(2 * u64::from(multiplier) + 0x9FB2_1C65_1E98_DF25) >> self.shift) as usize
    }

    #[inline(always)]
    fn place_of(&self, key: &[u32; KEY_WORDS]) -> usize {
        let hash = hash(key);
        self.place(hash, self.multipliers[hash as usize & (self.multipliers.len() - 1)])
    }

    #[inline(always)]
    fn find(&self, place: usize, key: &[u32; KEY_WORDS]) -> Option<Match> {
        let entry = &self.entries[place].0;
        let differ = (0..KEY_WORDS).fold(0, |bits, word| bits | (entry[word] ^ key[word]));
        let index = entry[WORDS - 1].checked_sub(1).filter(|_| differ == 0)?;
        Some(Match { rule: RuleId::new(index, 0), priority: Priority(u64::from(index)) })
    }
}

/// Every bit depends on every bit of the key.
#[inline(always)]
fn hash<const KEY_WORDS: usize>(key: &[u32; KEY_WORDS]) -> u64 {
    let mut hash = 0x9E37_79B9_7F4A_7C15;
    for part in key.chunks(4) {
        let word = |at: usize| part.get(at).map_or(0, |&word| u64::from(word));
        let (a, b) = (hash ^ word(0) ^ word(1) << 32, 0xD6E8_FEB8_6659_FD93 ^ word(2) ^ word(3) << 32);
        let product = u128::from(a) * u128::from(b);
        hash = product as u64 ^ (product >> 64) as u64;
    }
    hash
}

#[inline(always)]
fn first<const KEY_WORDS: usize>(row: &[u32]) -> &[u32; KEY_WORDS] {
    row.first_chunk().expect("a row has the words of a key")
}

impl<const KEY_WORDS: usize, const WORDS: usize> Engine for Limit<KEY_WORDS, WORDS> {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        Stats {
            rules: self.rules,
            regions: self.rules,
            bytes: vec![
                ("entries", size_of_val(&self.entries[..])),
                ("multipliers", size_of_val(&self.multipliers[..])),
            ],
            tables: 1,
            ..Stats::default()
        }
    }

    fn improve(&self, (): &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let (words, stride) = (keys.words(), keys.stride());
        let mut places = [0; AHEAD];
        for (rows, best) in words.chunks(AHEAD * stride).zip(best.chunks_mut(AHEAD)) {
            for (place, row) in places.iter_mut().zip(rows.chunks_exact(stride)) {
                *place = self.place_of(first(row));
                prefetch(&self.entries[*place]);
            }
            for ((place, row), best) in places.iter().zip(rows.chunks_exact(stride)).zip(best) {
                let found = self.find(*place, first(row));
                if let Some(found) = found.filter(|found| Match::wins(found.priority, best)) {
                    *best = Some(found);
                }
            }
        }
    }
}
