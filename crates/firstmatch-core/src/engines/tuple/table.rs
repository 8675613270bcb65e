//! Hash table from keys under a tuple to groups of entries.
//!
//! A bucket is a cache line of eight slots: eight tags (the hash), eight groups. A group whose bucket is full goes to
//! the next one, and the full bucket is marked. A walk for a key goes on behind a bucket only if the bucket is marked.
//! When a slot becomes free, a group that had gone past it moves in.
//!
//! For example, bucket 5 is full, so a ninth group goes to bucket 6 and bucket 5 is marked. Once a slot of bucket 5 is
//! free, the ninth group moves back and the mark goes.
//!
//! # Invariants
//! - A bucket is marked exactly if some group behind it belongs to it or to an earlier bucket (`check`).
//! - A walk that starts at the bucket of a group's hash finds the group (`check`).

use super::pool::Pool;
use crate::rule::Priority;

/// Tag of a slot that holds no group.
const EMPTY: u32 = 0;
/// Flag of the first group word of a bucket: some groups have gone on to the next bucket.
const MARK: u32 = 1 << 31;

const SLOTS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) tags: [u32; SLOTS],
    groups: [u32; SLOTS],
}

impl Bucket {
    /// Whether a walk through this bucket goes on to the next one.
    #[inline(always)]
    pub(super) fn goes_on(&self) -> bool {
        self.groups[0] & MARK != 0
    }

    /// Returns the group of a slot. For an unused slot this is 0 or a former group.
    #[inline(always)]
    pub(super) fn group(&self, slot: usize) -> u32 {
        self.groups[slot % SLOTS] & !MARK
    }

    fn set(&mut self, slot: usize, group: u32) {
        self.groups[slot] = self.groups[slot] & MARK | group;
    }
}

/// Position in a table: bucket and slot.
pub(super) type Slot = (usize, usize);

#[derive(Clone, Debug)]
pub(super) struct Table {
    tuple: Box<[u32]>,
    buckets: Box<[Bucket]>,
    groups: usize,
    /// Entries removed since the candidate bits of all entries were last set.
    gone: usize,
    entries: usize,
    /// Lower bound of the priorities; removals leave it where it is until `tighten`.
    best: Priority,
    /// Removals since `best` may have become too small.
    loose: usize,
    /// Upper bounds: entries of a group, and buckets that a walk visits.
    ///
    /// Removals leave them where they are until `refreshed`.
    longest: usize,
    walk: usize,
}

/// Returns the bucket and the tag of a hash, among `buckets` buckets.
///
/// For example, the hash 2<sup>31</sup> belongs to bucket 3 of 6.
#[inline(always)]
pub(super) fn place(hash: u32, buckets: usize) -> (usize, u32) {
    (((u64::from(hash) * buckets as u64) >> 32) as usize, hash.max(EMPTY + 1))
}

/// Returns the number of buckets to grow to.
fn more(buckets: usize) -> usize {
    buckets + buckets.div_ceil(2)
}

/// Whether `groups` groups have room in `buckets` buckets.
///
/// At most 9 of 16 slots are in use, because fuller tables have many full buckets, so that walks that find nothing go
/// on.
fn has_room(groups: usize, buckets: usize) -> bool {
    groups * 16 <= buckets * SLOTS * 9
}

impl Table {
    pub(super) fn new(tuple: &[u32]) -> Self {
        Self {
            tuple: tuple.into(),
            buckets: vec![Bucket::default()].into(),
            groups: 0,
            gone: 0,
            entries: 0,
            best: Priority(u64::MAX),
            loose: 0,
            longest: 0,
            walk: 1,
        }
    }

    /// Returns the tuple: one mask a key word, padded to the stride.
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

    /// Number of bytes of a table of one group.
    pub(super) fn least_bytes(stride: usize) -> usize {
        stride * size_of::<u32>() + size_of::<Bucket>()
    }

    /// Maximum bytes of buckets that `groups` groups, added to a new table, take.
    pub(super) fn buckets_bytes(groups: usize) -> usize {
        let mut buckets = usize::from(groups > 0);
        while !has_room(groups, buckets) {
            buckets = more(buckets);
        }
        buckets * size_of::<Bucket>()
    }

    /// Maximum bytes that one more group takes.
    pub(super) fn growth(&self) -> usize {
        let now = self.buckets.len();
        if has_room(self.groups + 1, now) { 0 } else { (more(now) - now) * size_of::<Bucket>() }
    }

    /// Returns the groups and their slots.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Slot, u32)> + Clone {
        self.buckets.iter().enumerate().flat_map(|(b, bucket)| {
            let used = (0..SLOTS).filter(|&s| bucket.tags[s] != EMPTY);
            used.map(move |s| ((b, s), bucket.group(s)))
        })
    }

    /// Returns the slots of this hash and their groups, the probable one first.
    ///
    /// The walk ends at the first bucket without a mark.
    pub(super) fn find(&self, hash: u32) -> impl Iterator<Item = (Slot, u32)> {
        let (start, tag) = place(hash, self.buckets.len());
        let mut done = false;
        let walk = (start..self.buckets.len()).chain(0..start);
        let walk = walk.take_while(move |&b| !std::mem::replace(&mut done, !self.buckets[b].goes_on()));
        walk.flat_map(move |b| {
            let bucket = &self.buckets[b];
            (0..SLOTS).filter(move |&s| bucket.tags[s] == tag).map(move |s| ((b, s), bucket.group(s)))
        })
    }

    /// Adds a new group.
    pub(super) fn add_group(&mut self, hash: u32, group: u32) {
        if !has_room(self.groups + 1, self.buckets.len()) {
            let buckets = vec![Bucket::default(); more(self.buckets.len())].into();
            self.walk = 1;
            for bucket in std::mem::replace(&mut self.buckets, buckets) {
                for slot in (0..SLOTS).filter(|&slot| bucket.tags[slot] != EMPTY) {
                    self.put(bucket.tags[slot], bucket.group(slot));
                }
            }
        }
        self.put(hash, group);
        self.groups += 1;
    }

    /// Puts a group into the first free slot from its bucket on. `hash` may also be the group's tag.
    fn put(&mut self, hash: u32, group: u32) {
        let (start, tag) = place(hash, self.buckets.len());
        let (mut b, mut is_longer) = (start, false);
        loop {
            let bucket = &mut self.buckets[b];
            if let Some(s) = bucket.tags.iter().position(|&tag| tag == EMPTY) {
                bucket.tags[s] = tag;
                bucket.set(s, group);
                break;
            }
            is_longer |= !bucket.goes_on();
            bucket.groups[0] |= MARK;
            b = self.behind(b);
        }
        if is_longer {
            self.walk = self.walk.max(self.walk_through(start));
        }
    }

    /// Number of buckets that the longest walk through bucket `b` visits.
    fn walk_through(&self, b: usize) -> usize {
        let all = self.buckets.len();
        let before = (1..all).take_while(|far| self.buckets[(b + all - far) % all].goes_on()).count();
        let behind = (0..all).take_while(|far| self.buckets[(b + far) % all].goes_on()).count();
        (before + behind + 1).min(all)
    }

    fn behind(&self, b: usize) -> usize {
        if b + 1 == self.buckets.len() { 0 } else { b + 1 }
    }

    /// Number of buckets from `from` to `to`, where the first bucket follows the last.
    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.buckets.len() - from }
    }

    /// Returns the slot of the first group behind bucket `b` that belongs to `b` or to an earlier bucket.
    fn displaced(&self, b: usize) -> Option<Slot> {
        let mut at = b;
        while self.buckets[at].goes_on() {
            at = self.behind(at);
            if at == b {
                break;
            }
            let far = self.distance(b, at);
            let is_displaced = |&tag: &u32| tag != EMPTY && self.distance(place(tag, self.buckets.len()).0, at) >= far;
            if let Some(slot) = self.buckets[at].tags.iter().position(is_displaced) {
                return Some((at, slot));
            }
        }
        None
    }

    /// Panics unless walks find every group, and exactly the buckets that need a mark have one.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for ((b, s), group) in self.groups() {
            assert!(self.find(self.buckets[b].tags[s]).any(|found| found == ((b, s), group)), "a group is found");
        }
        for b in 0..self.buckets.len() {
            assert_eq!(self.buckets[b].goes_on(), self.displaced(b).is_some(), "bucket {b}");
        }
    }

    pub(super) fn group_at(&self, (b, s): Slot) -> u32 {
        self.buckets[b].group(s)
    }

    /// Number of buckets that the longest walk visits: one more than the longest run of marks.
    pub(super) fn longest_walk(&self) -> usize {
        let mut run = 0;
        let around = self.buckets.iter().chain(&self.buckets);
        let runs = around.map(|bucket| {
            run = if bucket.goes_on() { run + 1 } else { 0 };
            run
        });
        (runs.max().unwrap_or(0) + 1).min(self.buckets.len())
    }

    pub(super) fn set_group(&mut self, (b, s): Slot, group: u32) {
        self.buckets[b].set(s, group);
    }

    /// Takes a group out, and moves displaced ones back.
    pub(super) fn drop_group(&mut self, (mut b, mut s): Slot) {
        let home = place(self.buckets[b].tags[s], self.buckets.len()).0;
        self.groups -= 1;
        while let Some((from, slot)) = self.displaced(b) {
            let (tag, group) = (self.buckets[from].tags[slot], self.group_at((from, slot)));
            self.buckets[b].tags[s] = tag;
            self.set_group((b, s), group);
            (b, s) = (from, slot);
        }
        self.buckets[b].tags[s] = EMPTY;
        for far in (0..=self.distance(home, b)).rev() {
            let at = (home + far) % self.buckets.len();
            if self.buckets[at].goes_on() && self.displaced(at).is_none() {
                self.buckets[at].groups[0] &= !MARK;
            }
        }
    }

    /// Returns upper bounds: entries of a group, and buckets that a walk visits.
    pub(super) fn bound(&self) -> (usize, usize) {
        (self.longest, self.walk)
    }

    /// Records that a group now has `entries` entries.
    pub(super) fn grew(&mut self, entries: usize) {
        self.longest = self.longest.max(entries);
    }

    /// Counts an entry in; returns whether it is now the best.
    pub(super) fn count_in(&mut self, priority: Priority) -> bool {
        self.entries += 1;
        let better = priority < self.best || self.entries == 1;
        if better {
            self.best = priority;
        }
        better
    }

    /// Counts an entry out; returns whether it is time to look for the best again.
    ///
    /// That takes as many steps as there are groups, so it waits for half as many removals as there are entries.
    pub(super) fn count_out(&mut self, priority: Priority) -> bool {
        self.entries -= 1;
        self.gone += 1;
        self.loose += usize::from(priority == self.best || self.loose > 0);
        self.loose * 2 > self.entries
    }

    /// Number of entries removed since the candidate bits were last set.
    pub(super) fn gone(&self) -> usize {
        self.gone
    }

    /// Whether the removed entries outnumber the remaining ones by more than `least`.
    ///
    /// It is then time to set the candidate bits anew, which takes a step for each entry and a number of steps in
    /// proportion to `least`.
    pub(super) fn is_stale(&self, least: usize) -> bool {
        self.gone > self.entries + least
    }

    /// Records that the candidate bits of all entries were set, and that no group has more than `longest` entries.
    pub(super) fn refreshed(&mut self, longest: usize) {
        (self.gone, self.longest, self.walk) = (0, longest, self.longest_walk());
    }

    /// Finds the best priority anew.
    pub(super) fn tighten(&mut self, pool: &Pool) {
        self.loose = 0;
        self.best = self.groups().map(|(_, g)| pool.priority(g)).min().unwrap_or(Priority(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each added group takes as many bytes as `growth` says, and `buckets_bytes` is exact for any number of groups.
    #[test]
    fn growth_is_what_a_table_grows_by() {
        let mut table = Table::new(&[0; 8]);
        assert_eq!(table.bytes(), Table::least_bytes(8));
        assert_eq!(Table::buckets_bytes(0), 0);
        let (mut hash, mut times) = (1u32, 0);
        for group in 0..2000 {
            let (before, growth) = (table.bytes(), table.growth());
            hash = hash.wrapping_mul(0x9E37_79B1).wrapping_add(1);
            table.add_group(hash, group);
            assert_eq!(table.bytes(), before + growth, "group {group}");
            assert_eq!(
                table.bytes() - size_of::<[u32; 8]>(),
                Table::buckets_bytes(group as usize + 1),
                "group {group}"
            );
            // At most 9 of 16 places are in use.
            assert!((group as usize + 1) * 16 <= table.buckets().len() * 9 * 8);
            times += usize::from(growth > 0);
        }
        assert!((12..20).contains(&times), "{times} times");
    }

    /// A table whose groups come and go takes no more memory than its largest number of groups at one time needs.
    #[test]
    fn groups_that_come_and_go_take_no_more_room() {
        let mut table = Table::new(&[0; 8]);
        (0..4).for_each(|group| table.add_group(77 * group, group));
        let bytes = table.bytes() + table.growth();
        for round in 0..100_000u32 {
            let hash = round.wrapping_mul(0x9E37_79B1);
            table.add_group(hash, 9);
            let slot = table.find(hash).find(|(_, group)| *group == 9).expect("it is there").0;
            table.drop_group(slot);
        }
        assert_eq!(table.bytes(), bytes);
        assert_eq!(table.groups().count(), 4);
    }

    /// While groups are only added, the bound on walks equals the length of the longest one.
    #[test]
    fn the_bound_on_walks_is_the_longest() {
        let mut most = 0;
        for stride in [1u32, 3, 0x0100_0000, 0x1000_0001] {
            let mut table = Table::new(&[0; 8]);
            for group in 0..300u32 {
                table.add_group(u32::MAX.wrapping_sub(stride.wrapping_mul(group / 2)), group);
                assert_eq!(table.bound().1, table.longest_walk(), "{group} groups {stride} apart");
            }
            most = most.max(table.bound().1);
        }
        assert!(most > 10, "{most} buckets");
    }

    /// Walks that begin in the last bucket go on in the first and find their groups there.
    ///
    /// The bound on walks holds after all groups are added, and after each removal.
    #[test]
    fn walks_go_on_from_the_last_bucket_to_the_first() {
        for count in [9u32, 20, 60] {
            let mut table = Table::new(&[0; 8]);
            let hash = |group: u32| u32::MAX - 3 * (group / 2);
            (0..count).for_each(|group| table.add_group(hash(group), group));
            let mut left: Vec<u32> = (0..count).collect();
            loop {
                table.check();
                for group in 0..count {
                    let found: Vec<u32> = table.find(hash(group)).map(|(_, group)| group).collect();
                    assert_eq!(found.contains(&group), left.contains(&group), "{group} of {left:?}");
                }
                let buckets = table.buckets().len();
                let longest = (left.len().div_ceil(SLOTS)).max(1);
                assert!(table.longest_walk() >= longest && table.longest_walk() <= table.bound().1, "{left:?}");
                assert!(table.bound().1 <= buckets, "{left:?}");
                if left.is_empty() {
                    break;
                }
                let gone = left.remove(left.len() * 2 / 5);
                let slot = table.find(hash(gone)).find(|(_, group)| *group == gone).expect("it is there").0;
                table.drop_group(slot);
            }
            table.refreshed(0);
            assert_eq!(table.bound(), (0, 1), "nothing is left");
        }
    }
}
