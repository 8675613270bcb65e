//! Parts of classes, and the table of their pairs.

use super::cut::{Cut, Room};
use super::lists::Lists;
use super::{Bucket, LENGTH, LONG, MOST_PARTS};
use crate::engines::shared::Classes;
use crate::error::BuildError;

/// Part of each of four levels, from wide to narrow, for each way to cut.
const CUTS: [[usize; 4]; 7] =
    [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 2]];
/// Number of pairs for ten places of the table.
const FILLED: usize = 6;

/// Parts of the classes of an axis.
pub(super) struct Parts {
    /// Numbers of the parts of each class of the cut; 0 for none.
    pub(super) of_class: Vec<[u32; 3]>,
    /// Sets of each part; the first is empty.
    sets: Classes,
    /// Parts that have each set: indices before the first of each set, then the parts.
    firsts: Vec<u32>,
    by_set: Vec<u32>,
}

impl Parts {
    /// Divides the classes of a cut.
    fn of(cut: &Cut, parts: [usize; 4], room: &Room<'_>) -> Result<Self, BuildError> {
        let (mut sets, mut of_class) = (Classes::default(), Vec::with_capacity(cut.rows.len()));
        room.intern(&mut sets, &[])?;
        let mut own = [Vec::new(), Vec::new(), Vec::new()];
        for class in 0..cut.rows.len() {
            own.iter_mut().for_each(Vec::clear);
            for &label in cut.rows.row(class) {
                own[parts[label as usize & 3]].push(label >> 2);
            }
            let mut numbers = [0; 3];
            for (number, own) in numbers.iter_mut().zip(&mut own) {
                *number = room.intern(&mut sets, own)?;
            }
            // Classes of the same parts are one, whatever levels they are on.
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            of_class.push(numbers);
        }
        let last = (0..sets.len()).filter_map(|part| sets.row(part).last()).max();
        let mut firsts = vec![0; last.map_or(0, |&last| last as usize + 1) + 1];
        sets.rows().iter().for_each(|&set| firsts[set as usize + 1] += 1);
        (1..firsts.len()).for_each(|set| firsts[set] += firsts[set - 1]);
        let (mut next, mut by_set) = (firsts.clone(), vec![0; sets.rows().len()]);
        for part in 0..sets.len() {
            for &set in sets.row(part) {
                by_set[next[set as usize] as usize] = part as u32;
                next[set as usize] += 1;
            }
        }
        Ok(Self { of_class, sets, firsts, by_set })
    }

    /// Returns the parts that have a set.
    fn with(&self, set: u32) -> &[u32] {
        match self.firsts.get(set as usize + 1) {
            Some(&end) => &self.by_set[self.firsts[set as usize] as usize..end as usize],
            None => &[],
        }
    }

    /// Number of parts that are not empty.
    pub(super) fn len(&self) -> usize {
        self.sets.len() - 1
    }
}

/// Divides the classes of both axes in the way that has the fewest pairs, or hardly more and fewer parts.
pub(super) fn choose(cuts: &[Cut], closed: &[[Option<u32>; 2]], room: &Room<'_>) -> Result<Vec<Parts>, BuildError> {
    let divided = |parts| cuts.iter().map(|cut| Parts::of(cut, parts, room)).collect::<Result<Vec<_>, _>>();
    let has_pairs = closed.iter().any(|own| own.iter().all(Option::is_some));
    if !has_pairs {
        return divided(CUTS[0]);
    }
    let mut counted = Vec::new();
    for parts in CUTS {
        let taken = room.taken();
        let all = divided(parts)?;
        counted.push((entries(closed, &all), all.iter().map(Parts::len).sum::<usize>(), parts));
        drop(all);
        room.give_back(taken);
    }
    let least = counted.iter().map(|&(entries, ..)| entries).min().unwrap_or(0);
    let near = counted.iter().filter(|&&(entries, ..)| entries <= least.saturating_add(least / 10));
    let best = near.min_by_key(|&&(entries, parts, _)| (parts, entries));
    divided(best.map_or(CUTS[0], |&(.., parts)| parts))
}

/// Returns the number of products of all pairs.
fn entries(closed: &[[Option<u32>; 2]], parts: &[Parts]) -> usize {
    let of = |own: &[Option<u32>; 2]| match (own, parts) {
        (&[Some(first), Some(second)], [a, b]) => a.with(first).len().saturating_mul(b.with(second).len()),
        _ => 0,
    };
    closed.iter().fold(0, |sum: usize, own| sum.saturating_add(of(own)))
}

/// Table of pairs, and what classes know of it.
pub(super) struct Pairs {
    pub(super) buckets: Box<[Bucket]>,
    /// Number of pairs, candidates of the longest list, and buckets of the longest probe.
    pub(super) count: usize,
    pub(super) longest: usize,
    pub(super) chain: usize,
    /// For each part of each axis, bits of the hashes of its partners.
    pub(super) partners: [Vec<u64>; 2],
}

impl Lists<'_> {
    /// Builds the table of the pairs that have products.
    pub(super) fn pairs(&mut self, closed: &[[Option<u32>; 2]], parts: &[Parts]) -> Result<Pairs, BuildError> {
        let room = self.room();
        let mut all = Pairs { buckets: Box::default(), count: 0, longest: 0, chain: 0, partners: Default::default() };
        let [a, b] = parts else { return Ok(all) };
        if let Some(most) = [a.len(), b.len()].into_iter().max().filter(|&most| most >= MOST_PARTS) {
            return Err(BuildError::own_limit(most * size_of::<Bucket>(), MOST_PARTS * size_of::<Bucket>()));
        }
        let count = entries(closed, parts);
        room.take(count.saturating_mul(size_of::<u64>()))?;
        let mut entries: Vec<u64> = crate::engine::budget::with_room(count)?;
        for (product, own) in (0..).zip(closed) {
            if let &[Some(first), Some(second)] = own {
                for &x in a.with(first) {
                    room.visits.add(b.with(second).len());
                    room.visits.check()?;
                    entries.extend(b.with(second).iter().map(|&y| u64::from(x << 16 | y) << 32 | product));
                }
            }
        }
        entries.sort_unstable();
        all.partners = [a, b].map(|parts| vec![0; parts.sets.len()]);
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for alike in entries.chunk_by(|a, b| a >> 32 == b >> 32) {
            let (pair, list): (u32, Vec<u32>) = ((alike[0] >> 32) as u32, alike.iter().map(|&of| of as u32).collect());
            let (x, y) = (pair >> 16, pair & 0xFFFF);
            all.partners[0][x as usize] |= 1 << hash_of(y);
            all.partners[1][y as usize] |= 1 << hash_of(x);
            room.take(size_of::<(u32, u32)>())?;
            all.longest = all.longest.max(list.len());
            pairs.push((pair, self.closed(&list)? << LENGTH | (list.len() as u32).min(LONG)));
        }
        all.count = pairs.len();
        drop(entries);
        (all.buckets, all.chain) = table(&pairs, room)?;
        Ok(all)
    }
}

/// Builds the hash table of pairs with their lists; returns the length of the longest probe, too.
fn table(pairs: &[(u32, u32)], room: &Room<'_>) -> Result<(Box<[Bucket]>, usize), BuildError> {
    if pairs.is_empty() {
        return Ok((Box::default(), 0));
    }
    let count = (10 * pairs.len()).div_ceil(8 * FILLED) + 1;
    room.take(count * size_of::<Bucket>())?;
    let mut buckets = vec![Bucket::default(); count];
    for &(pair, list) in pairs {
        let mut at = home(pair, count);
        loop {
            if let Some(free) = buckets[at].pairs.iter().position(|&of| of == 0) {
                (buckets[at].pairs[free], buckets[at].lists[free]) = (pair, list);
                break;
            }
            at = if at + 1 == count { 0 } else { at + 1 };
        }
    }
    // A probe ends in the first bucket that is not full.
    let is_full = |at: usize| buckets[at].pairs[7] != 0;
    let (mut chain, mut run) = (1, 1);
    for at in (0..2 * count).map(|at| at % count) {
        run = if is_full(at) { run + 1 } else { 1 };
        chain = chain.max(run);
    }
    Ok((buckets.into(), chain.min(count)))
}

/// Returns the bucket where the probe for a pair begins.
#[inline(always)]
pub(super) fn home(pair: u32, buckets: usize) -> usize {
    ((u64::from(mix(pair)) * buckets as u64) >> 32) as usize
}

/// Returns the hash of a part, below 64.
pub(super) fn hash_of(part: u32) -> u8 {
    (mix(part) >> 26) as u8
}

/// Finalizer of MurmurHash3 (Austin Appleby, in the public domain).
#[inline(always)]
fn mix(mut word: u32) -> u32 {
    word = (word ^ word >> 16).wrapping_mul(0x85EB_CA6B);
    word = (word ^ word >> 13).wrapping_mul(0xC2B2_AE35);
    word ^ word >> 16
}
