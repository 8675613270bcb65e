//! Probes: the part of a lookup that is the same for a single key and for a batch.

use super::pool::{Pool, is_last};
use super::structure::TupleMerge;
use super::table::{Bucket, Table, place};
use crate::engine::Match;
use crate::engine::observer::Step;
use crate::engine::tombstones::LiveRules;
use crate::engines::shared::{match_of, priority_of};
use crate::key::Keys;
use crate::raw::{Isa, words};

/// Keys of a lookup, by index.
pub(super) trait Rows {
    fn key_words(&self) -> usize;
    fn row(&self, key: u32) -> &[u32];
}

/// Keys whose number of words and stride are known to the compiler.
pub(super) struct Fixed<'a, const KEY_WORDS: usize, const STRIDE: usize>(pub(super) &'a [[u32; STRIDE]]);

impl<const KEY_WORDS: usize, const STRIDE: usize> Rows for Fixed<'_, KEY_WORDS, STRIDE> {
    #[inline(always)]
    fn key_words(&self) -> usize {
        KEY_WORDS
    }

    #[inline(always)]
    fn row(&self, key: u32) -> &[u32] {
        &self.0[key as usize]
    }
}

impl Rows for Keys<'_> {
    #[inline(always)]
    fn key_words(&self) -> usize {
        Self::key_words(self)
    }

    #[inline(always)]
    fn row(&self, key: u32) -> &[u32] {
        Self::row(self, key as usize)
    }
}

/// Key that is looked up, and the match to beat.
pub(super) struct Sought<'a> {
    pub(super) row: &'a [u32],
    pub(super) key_words: usize,
    /// Priority to beat or equal.
    ///
    /// Priorities are distinct: to equal it is to find the same rule again, which changes nothing.
    pub(super) bound: &'a mut u64,
    pub(super) best: &'a mut Option<Match>,
}

/// Probes a table with a single key.
#[inline(always)]
pub(super) fn probe_one<I: Isa>(
    isa: I,
    live_rules: impl LiveRules,
    engine: &TupleMerge,
    table: &Table,
    sought: &mut Sought<'_>,
) {
    live_rules.saw(Step::Bucket);
    let hash = isa.hash(&engine.hasher, sought.row, &table.tuple()[..sought.row.len()]);
    let (at, tag) = place(hash, table.buckets().len());
    let equal = isa.equal8(&table.buckets()[at].tags, tag);
    walk(isa, live_rules, &engine.pool, table, hash, equal, sought);
}

/// Tests the groups of a hash in a table, bucket by bucket, until one improves the key.
///
/// `equal` has a bit for each slot of the first bucket that has the tag and is still to be tested.
#[inline(always)]
pub(super) fn walk<I: Isa>(
    isa: I,
    live_rules: impl LiveRules,
    pool: &Pool,
    table: &Table,
    hash: u32,
    equal: u32,
    sought: &mut Sought<'_>,
) {
    let buckets = table.buckets();
    let (start, tag) = place(hash, buckets.len());
    // All regions that hold the key agree with it under the tuple, so they are in one group.
    let first = &buckets[start];
    if test_groups(isa, live_rules, pool, first, equal, sought) || !first.goes_on() {
        return;
    }
    for at in (start + 1..buckets.len()).chain(0..start) {
        live_rules.saw(Step::Bucket);
        let bucket = &buckets[at];
        let equal = isa.equal8(&bucket.tags, tag);
        if test_groups(isa, live_rules, pool, bucket, equal, sought) || !bucket.goes_on() {
            return;
        }
    }
}

/// Tests the groups of some slots of a bucket; returns whether one improves the key.
#[inline(always)]
fn test_groups(
    isa: impl Isa,
    live_rules: impl LiveRules,
    pool: &Pool,
    bucket: &Bucket,
    mut slots: u32,
    sought: &mut Sought<'_>,
) -> bool {
    while slots != 0 {
        if test_group(isa, live_rules, pool, bucket.group(slots.trailing_zeros() as usize), sought) {
            return true;
        }
        slots &= slots - 1;
    }
    false
}

/// Takes the first live entry of a group that improves a key; returns whether there is one.
#[inline(always)]
pub(super) fn test_group<A: LiveRules>(
    isa: impl Isa,
    live_rules: A,
    pool: &Pool,
    group: u32,
    sought: &mut Sought<'_>,
) -> bool {
    let (row, key_words, bound) = (sought.row, sought.key_words, *sought.bound);
    let mut lines = pool.lines_from(group, key_words);
    while let Some((entry, rest)) = lines.split_at_checked(Pool::lines_for(key_words)) {
        lines = rest;
        live_rules.saw(Step::Entry);
        let entry = words(entry);
        let priority = priority_of(entry, key_words).0;
        let holds =
            (priority <= bound) & isa.inside(entry, row, key_words) && pool.passes_ternary(entry, row, key_words);
        if holds && (A::ALL || match_of(entry, key_words).is_some_and(|found| live_rules.is_live(found.rule.slot()))) {
            *sought.bound = priority;
            *sought.best = match_of(entry, key_words);
            return true;
        }
        if is_last(entry, key_words) | (priority > bound) {
            return false;
        }
    }
    false
}
