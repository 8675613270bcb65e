//! One table: a hash table from keys under the tuple to groups of entries.
//!
//! Eight slots a bucket, a bucket a cache line: eight tags (the hash), eight groups. A key that finds its bucket full
//! goes to the next one. Slots fill from the lowest, so a bucket is full exactly when its last tag is not [`EMPTY`];
//! only a full bucket, which a later one may continue, keeps a tombstone where a slot is freed.

use super::pool::Pool;
use crate::rule::Priority;

/// Tags of slots that hold no group.
pub(super) const EMPTY: u32 = 0;
const FREED: u32 = 1;

const SLOTS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) tags: [u32; SLOTS],
    pub(super) groups: [u32; SLOTS],
}

impl Bucket {
    /// Whether a key of this bucket may stand in the next one.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.tags[SLOTS - 1] != EMPTY
    }
}

/// A place in a table.
pub(super) type Slot = (usize, usize);

#[derive(Clone, Debug)]
pub(super) struct Table {
    tuple: Box<[u32]>,
    buckets: Box<[Bucket]>,
    groups: usize,
    /// Tombstones.
    freed: usize,
    /// Entries removed since the candidates were last told of all that are here.
    gone: usize,
    entries: usize,
    /// No entry has a smaller priority. Removals leave it where it is until `tighten`.
    best: Priority,
    /// Removals since `best` may have become too small.
    loose: usize,
}

/// The bucket and the tag of a hash.
#[inline(always)]
pub(super) fn place(hash: u32, buckets: usize) -> (usize, u32) {
    (hash as usize & (buckets - 1), hash.max(FREED + 1))
}

impl Table {
    pub(super) fn new(tuple: &[u32]) -> Self {
        Self {
            tuple: tuple.into(),
            buckets: vec![Bucket::default()].into(),
            groups: 0,
            freed: 0,
            gone: 0,
            entries: 0,
            best: Priority(u64::MAX),
            loose: 0,
        }
    }

    /// The tuple, one mask a lane, padded to the stride.
    #[inline(always)]
    pub(super) fn tuple(&self) -> &[u32] {
        &self.tuple
    }

    #[inline(always)]
    pub(super) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    #[inline(always)]
    pub(super) fn best(&self) -> Priority {
        self.best
    }

    pub(super) fn len(&self) -> usize {
        self.entries
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.tuple[..]) + size_of_val(&self.buckets[..])
    }

    /// The bytes of a table of one group.
    pub(super) fn least_bytes(stride: usize) -> usize {
        stride * size_of::<u32>() + size_of::<Bucket>()
    }

    /// The bytes of the buckets that so many groups, added to a new table, may take.
    pub(super) fn buckets_bytes(groups: usize) -> usize {
        let buckets = (groups * 16).div_ceil(SLOTS * 11).next_power_of_two();
        if groups == 0 { 0 } else { buckets * size_of::<Bucket>() }
    }

    /// At most how many bytes one more group may take.
    pub(super) fn growth(&self) -> usize {
        if self.has_room() { 0 } else { size_of_val(&self.buckets[..]) }
    }

    /// The groups and where they stand.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Slot, u32)> {
        self.buckets.iter().enumerate().flat_map(|(b, bucket)| {
            let used = (0..SLOTS).filter(|&s| bucket.tags[s] > FREED);
            used.map(move |s| ((b, s), bucket.groups[s]))
        })
    }

    /// The slots of this hash, the probable one first; the walk ends at the first bucket that is not full.
    pub(super) fn find(&self, hash: u32) -> impl Iterator<Item = (Slot, u32)> {
        let (start, tag) = place(hash, self.buckets.len());
        let mut done = false;
        let walk = (0..self.buckets.len()).map(move |step| (start + step) & (self.buckets.len() - 1));
        let walk = walk.take_while(move |&b| !std::mem::replace(&mut done, !self.buckets[b].is_full()));
        walk.flat_map(move |b| {
            let bucket = &self.buckets[b];
            (0..SLOTS).filter(move |&s| bucket.tags[s] == tag).map(move |s| ((b, s), bucket.groups[s]))
        })
    }

    /// Puts a new group in; `hash_of` gives the hash of a group that is in.
    pub(super) fn add_group(&mut self, hash: u32, group: u32, hash_of: impl Fn(u32, &[u32]) -> u32) {
        if !self.has_room() {
            // Twice the buckets, unless tombstones alone were in the way.
            let crowded = (self.groups + 1) * 32 > self.buckets.len() * SLOTS * 11;
            let buckets = self.buckets.len() << u32::from(crowded);
            let old = std::mem::replace(&mut self.buckets, vec![Bucket::default(); buckets].into());
            self.freed = 0;
            for bucket in old {
                for (_, group) in bucket.tags.iter().zip(bucket.groups).filter(|(tag, _)| **tag > FREED) {
                    self.put(hash_of(group, &self.tuple), group);
                }
            }
        }
        self.put(hash, group);
        self.groups += 1;
    }

    /// At most 11 of 16 slots are in use, tombstones included: an unsuccessful walk stays short and always ends.
    fn has_room(&self) -> bool {
        (self.groups + self.freed + 1) * 16 <= self.buckets.len() * SLOTS * 11
    }

    fn put(&mut self, hash: u32, group: u32) {
        let (mut b, tag) = place(hash, self.buckets.len());
        loop {
            let bucket = &mut self.buckets[b];
            if let Some(s) = bucket.tags.iter().position(|&t| t <= FREED) {
                self.freed -= usize::from(bucket.tags[s] == FREED);
                (bucket.tags[s], bucket.groups[s]) = (tag, group);
                return;
            }
            b = (b + 1) & (self.buckets.len() - 1);
        }
    }

    pub(super) fn group_at(&self, (b, s): Slot) -> u32 {
        self.buckets[b].groups[s]
    }

    /// The most buckets one walk visits: one more than the longest run of full ones.
    pub(super) fn longest_walk(&self) -> usize {
        let mut run = 0;
        let around = self.buckets.iter().chain(&self.buckets);
        let runs = around.map(|bucket| {
            run = if bucket.is_full() { run + 1 } else { 0 };
            run
        });
        runs.max().unwrap_or(0) + 1
    }

    pub(super) fn set_group(&mut self, (b, s): Slot, group: u32) {
        self.buckets[b].groups[s] = group;
    }

    /// Takes a group out.
    pub(super) fn drop_group(&mut self, (b, s): Slot) {
        let bucket = &mut self.buckets[b];
        if bucket.is_full() {
            bucket.tags[s] = FREED;
            self.freed += 1;
        } else {
            let last = bucket.tags.iter().rposition(|&tag| tag != EMPTY).unwrap_or(s);
            (bucket.tags[s], bucket.groups[s]) = (bucket.tags[last], bucket.groups[last]);
            bucket.tags[last] = EMPTY;
        }
        self.groups -= 1;
    }

    /// Counts an entry in; whether it is now the best.
    pub(super) fn count_in(&mut self, priority: Priority) -> bool {
        self.entries += 1;
        let better = priority < self.best || self.entries == 1;
        if better {
            self.best = priority;
        }
        better
    }

    /// Counts an entry out; whether it is time to look for the best again. That takes as many steps as there are
    /// groups, so it waits for half as many removals as there are entries.
    pub(super) fn count_out(&mut self, priority: Priority) -> bool {
        self.entries -= 1;
        self.gone += 1;
        self.loose += usize::from(priority == self.best || self.loose > 0);
        self.loose * 2 > self.entries
    }

    /// Whether as many entries are gone as are here, so that it is time to tell the candidates anew. That takes as many
    /// steps as there are entries, and as `least`.
    pub(super) fn is_stale(&self, least: usize) -> bool {
        self.gone > self.entries + least
    }

    pub(super) fn refreshed(&mut self) {
        self.gone = 0;
    }

    /// Finds the best priority anew.
    pub(super) fn tighten(&mut self, pool: &Pool) {
        self.loose = 0;
        self.best = self.groups().map(|(_, g)| pool.priority(g)).min().unwrap_or(Priority(u64::MAX));
    }
}
