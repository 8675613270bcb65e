//! Rules that were inserted since the trees were built.

use super::layout::EntryLayout;
use crate::engine::Match;
use crate::rule::{Priority, Region, Regions, RuleId};

/// Largest number of inserted rules between two built neighbours.
const MOST_BETWEEN: usize = 32;
/// Number of bucket sizes: powers of two. The largest leaves every second place empty.
const SIZES: usize = 7;
/// Stands for no row or no bucket.
const NONE: u32 = u32::MAX;

/// Inserted rules by rank, and their regions.
///
/// The rules between the same two built rules share a bucket, and the low bits of a rank are the rule's place in it.
/// For example, if ranks are 1,024 apart, the rank 5 · 1,024 + 513 belongs to the bucket behind the fifth built rule.
/// In a bucket of four places it has place 1. A lookup thus compares nothing, and no branch depends on what it reads.
#[derive(Clone, Debug)]
pub(super) struct Inserted {
    /// Buckets by the number of built rules before them; empty until a rule is inserted.
    buckets: Box<[Bucket]>,
    /// Places of all buckets. The first is always empty and serves all buckets without rules.
    rules: Vec<Rule>,
    /// Free list of each bucket size, by its first bucket.
    free: [u32; SIZES],
    count: usize,
    regions: usize,
    rows: Rows,
}

/// Start of a bucket, with the binary logarithm of its size in the low bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket(u32);

#[derive(Clone, Copy, Debug)]
struct Rule {
    rank: u32,
    /// Row of the rule's first region; at the start of a free bucket the next free one.
    first: u32,
    rule: Option<Match>,
}

impl Rule {
    const NONE: Self = Self { rank: 0, first: NONE, rule: None };
}

impl Bucket {
    const BITS: u32 = SIZES.ilog2() + 1;

    fn new(start: usize, size: usize) -> Self {
        Self((start as u32) << Self::BITS | size as u32)
    }

    #[inline(always)]
    fn size(self) -> u32 {
        self.0 & ((1 << Self::BITS) - 1)
    }

    fn places(self) -> std::ops::Range<usize> {
        let start = (self.0 >> Self::BITS) as usize;
        start..start + (1 << self.size())
    }

    #[inline(always)]
    fn place(self, rank: u32) -> usize {
        (self.0 >> Self::BITS) as usize + (rank & ((1 << self.size()) - 1)) as usize
    }
}

impl Inserted {
    pub(super) fn new(key_words: usize) -> Self {
        let rows = Rows { key_words, words: Vec::new(), free: NONE };
        Self { buckets: Box::default(), rules: Vec::new(), free: [NONE; SIZES], count: 0, regions: 0, rows }
    }

    pub(super) fn rules(&self) -> usize {
        self.count
    }

    pub(super) fn regions(&self) -> usize {
        self.regions
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.buckets[..])
            + self.rules.capacity() * size_of::<Rule>()
            + self.rows.words.capacity() * size_of::<u32>()
    }

    /// Returns the inserted rule of a rank.
    #[inline(always)]
    pub(super) fn of(&self, rank: u32, layout: EntryLayout) -> Option<Match> {
        let bucket = self.buckets.get(layout.before(rank) as usize)?;
        self.rules.get(bucket.place(rank))?.rule
    }

    /// Returns the inserted rules that follow `before` built ones.
    fn bucket(&self, before: u32) -> impl Iterator<Item = (&Rule, Match)> {
        let bucket = self.buckets.get(before as usize).map_or(0..0, |bucket| bucket.places());
        self.rules[bucket].iter().filter_map(|of| of.rule.map(|rule| (of, rule)))
    }

    /// Returns the rank of an inserted rule that follows `before` built ones.
    pub(super) fn rank_of(&self, rule: RuleId, before: u32) -> Option<u32> {
        self.bucket(before).find(|(_, of)| of.rule == rule).map(|(of, _)| of.rank)
    }

    /// Returns a free rank near the middle between the neighbours' ranks, if there is one.
    pub(super) fn free_rank(&self, before: u32, priority: Priority, layout: EntryLayout) -> Option<u32> {
        let (mut lo, mut hi) = (layout.rank(before), layout.rank(before + 1));
        let mut count = 0;
        for (of, rule) in self.bucket(before) {
            count += 1;
            if rule.priority < priority { lo = lo.max(of.rank) } else { hi = hi.min(of.rank) }
        }
        if count == MOST_BETWEEN {
            return None;
        }
        let middle = lo + (hi - lo) / 2;
        let first = self.buckets.get(before as usize).map_or(0, |bucket| bucket.size());
        (first..SIZES as u32).find_map(|size| {
            let others = (middle..hi).chain((lo + 1..middle).rev()).take(2 << size);
            others.filter(|&rank| rank > lo).find(|rank| self.is_free(before, *rank, size))
        })
    }

    /// Whether no rule of the bucket would share the place of `rank` if the bucket had this size.
    fn is_free(&self, before: u32, rank: u32, size: u32) -> bool {
        self.bucket(before).all(|(of, _)| (of.rank ^ rank) & ((1 << size) - 1) != 0)
    }

    /// Inserts a rule with a free rank that follows `before` of `old` built rules.
    pub(super) fn insert(&mut self, (before, old): (u32, usize), rank: u32, rule: Match, regions: &Regions) {
        if self.buckets.is_empty() {
            self.buckets = vec![Bucket::default(); old + 1].into();
            self.rules.push(Rule::NONE);
        }
        let bucket = self.buckets[before as usize];
        let least = if bucket == Bucket::default() { 0 } else { bucket.size() };
        let size = (least..SIZES as u32 - 1).find(|&size| self.is_free(before, rank, size)).unwrap_or(SIZES as u32 - 1);
        let mut to = bucket;
        if bucket == Bucket::default() || size > bucket.size() {
            to = self.take(size as usize);
            for at in bucket.places() {
                let of = self.rules[at];
                if of.rule.is_some() {
                    self.rules[to.place(of.rank)] = of;
                }
            }
            self.give_back(bucket);
            self.buckets[before as usize] = to;
        }
        let first = self.rows.keep(regions);
        self.rules[to.place(rank)] = Rule { rank, first, rule: Some(rule) };
        self.count += 1;
        self.regions += regions.len();
    }

    /// Returns an empty bucket.
    fn take(&mut self, size: usize) -> Bucket {
        let mut start = self.free[size] as usize;
        match self.rules.get(start) {
            Some(free) => self.free[size] = free.first,
            None => {
                start = self.rules.len();
                self.rules.resize(start + (1 << size), Rule::NONE);
            }
        }
        let bucket = Bucket::new(start, size);
        self.rules[bucket.places()].fill(Rule::NONE);
        bucket
    }

    fn give_back(&mut self, bucket: Bucket) {
        if bucket == Bucket::default() {
            return;
        }
        let (start, free) = (bucket.places().start, &mut self.free[bucket.size() as usize]);
        self.rules[start] = Rule { first: std::mem::replace(free, start as u32), ..Rule::NONE };
    }

    /// Removes a rule and calls `each` with its regions.
    pub(super) fn remove(&mut self, before: u32, rank: u32, mut each: impl FnMut(&Region<'_>)) {
        let Some(&bucket) = self.buckets.get(before as usize) else { return };
        let at = bucket.place(rank);
        let Rule { first, .. } = std::mem::replace(&mut self.rules[at], Rule::NONE);
        self.regions -= self.rows.forget(first, &mut each);
        self.count -= 1;
        if self.bucket(before).next().is_none() {
            self.give_back(bucket);
            self.buckets[before as usize] = Bucket::default();
        }
    }
}

/// Regions, a row each: the number of the next row, then `lo`, `hi`, value and mask.
///
/// The next row is the row of the rule's next region, or the next row of the free list.
#[derive(Clone, Debug)]
struct Rows {
    key_words: usize,
    words: Vec<u32>,
    free: u32,
}

impl Rows {
    fn width(&self) -> usize {
        1 + 4 * self.key_words
    }

    fn row(&self, row: usize) -> std::ops::Range<usize> {
        row * self.width()..(row + 1) * self.width()
    }

    /// Stores the regions of a rule and returns the row of the first.
    fn keep(&mut self, regions: &Regions) -> u32 {
        let (width, mut next) = (self.width(), NONE);
        for region in regions.iter() {
            let row = self.free;
            let row = if row == NONE {
                self.words.resize(self.words.len() + width, 0);
                (self.words.len() / width - 1) as u32
            } else {
                self.free = self.words[row as usize * width];
                row
            };
            let place = self.row(row as usize);
            let words = &mut self.words[place];
            words[0] = next;
            next = row;
            let none = (&[][..], &[][..]);
            let (value, mask) = region.ternary.unwrap_or(none);
            words[1..].fill(0);
            for (at, part) in [region.lo, region.hi, value, mask].into_iter().enumerate() {
                words[1 + at * self.key_words..][..part.len()].copy_from_slice(part);
            }
        }
        next
    }

    /// Frees the rows of a rule and returns their number.
    fn forget(&mut self, first: u32, each: &mut impl FnMut(&Region<'_>)) -> usize {
        let (mut row, mut count) = (first, 0);
        while row != NONE {
            let place = self.row(row as usize);
            let words = &mut self.words[place];
            let next = words[0];
            words[0] = self.free;
            self.free = row;
            let mut parts = words[1..].chunks_exact(self.key_words.max(1));
            let mut part = || parts.next().unwrap_or(&[]);
            let (lo, hi, value, mask) = (part(), part(), part(), part());
            each(&Region { lo, hi, ternary: mask.iter().any(|&bits| bits != 0).then_some((value, mask)) });
            (row, count) = (next, count + 1);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::shared::wide::Random;

    /// Returns the layout of the ranks of 100 rules.
    fn layout() -> EntryLayout {
        EntryLayout::new(1000, 100, false)
    }

    fn rule(slot: u32, priority: u64) -> Match {
        Match { rule: RuleId::new(slot, 0), priority: Priority(priority) }
    }

    /// Returns `count` regions of two words that contain `number`, some of them with masks.
    fn regions(count: u32, number: u32) -> Regions {
        let mut regions = Regions::new(2);
        for at in 0..count {
            let (value, mask) = ([0, at & 3], [1, 3]);
            let ternary = (at % 2 == number % 2).then_some((&value[..], &mask[..]));
            regions.push(Region { lo: &[2 * number, at], hi: &[2 * number + 4, at], ternary });
        }
        regions
    }

    /// Panics unless `there` are the rules behind `before` built ones, with distinct ranks in order of priority.
    ///
    /// The rank of each rule must also lead to the rule.
    fn check(inserted: &Inserted, before: u32, there: &[Match]) {
        let layout = layout();
        let mut sorted = there.to_vec();
        sorted.sort_by_key(|rule| rule.priority);
        let ranks: Vec<u32> =
            sorted.iter().map(|rule| inserted.rank_of(rule.rule, before).expect("it has a rank")).collect();
        let within = ranks.iter().all(|rank| (layout.rank(before) + 1..layout.rank(before + 1)).contains(rank));
        assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]) && within, "{ranks:?}");
        for (rule, &rank) in sorted.iter().zip(&ranks) {
            assert_eq!(inserted.of(rank, layout), Some(*rule), "rank {rank}");
        }
        assert_eq!(inserted.bucket(before).count(), there.len());
    }

    fn insert(inserted: &mut Inserted, before: u32, of: Match, count: u32) -> bool {
        let Some(rank) = inserted.free_rank(before, of.priority, layout()) else { return false };
        inserted.insert((before, 100), rank, of, &regions(count, of.rule.slot() as u32));
        true
    }

    /// Between two rules there is room for 32 that halve the gaps, and for no other until one of them is removed.
    ///
    /// Ranks stay distinct and in order.
    #[test]
    fn there_is_room_for_32_between_two() {
        for before in [0, 1, 50, 100] {
            let mut inserted = Inserted::new(2);
            // By halves: the last bits of a number first.
            let priority = |at: u64| at.reverse_bits() >> 59;
            let mut there: Vec<Match> = (0..32).map(|at| rule(at as u32, 10 * priority(at))).collect();
            for count in 0..32 {
                assert!(insert(&mut inserted, before, there[count], 1), "rule {count}");
                check(&inserted, before, &there[..=count]);
            }
            assert!(!insert(&mut inserted, before, rule(99, 155), 1), "the 33rd");
            assert_eq!((inserted.rules(), inserted.regions()), (32, 32));
            let removed = there.remove(11);
            let rank = inserted.rank_of(removed.rule, before).expect("it has a rank");
            inserted.remove(before, rank, |_| {});
            check(&inserted, before, &there);
            assert!(insert(&mut inserted, before, removed, 1), "its room is free");
        }
    }

    /// Rules that each come before, or each behind, all others halve the room until none is left.
    ///
    /// No rank equals that of a neighbour.
    #[test]
    fn ranks_end_before_the_neighbours() {
        for is_rising in [false, true] {
            let (mut inserted, mut there) = (Inserted::new(2), Vec::new());
            for at in 0..32u64 {
                let of = rule(at as u32, if is_rising { at } else { 100 - at });
                if insert(&mut inserted, 7, of, 1) {
                    there.push(of);
                }
                check(&inserted, 7, &there);
            }
            // Ranks are 1,024 apart.
            assert!((8..=11).contains(&there.len()), "{} came", there.len());
        }
    }

    /// Directly behind a built rule, and directly behind an inserted one, there is no rank for another.
    #[test]
    fn no_rank_is_a_neighbours() {
        let (mut inserted, parting) = (Inserted::new(2), layout());
        let of_built = parting.rank(7);
        for (slot, more) in [(0, 1), (1, 2), (2, 5)] {
            let regions = regions(1, slot);
            let (rank, rule) = (of_built + more, rule(slot, u64::from(10 * more)));
            inserted.insert((7, 100), rank, rule, &regions);
        }
        let free = |priority| inserted.free_rank(7, Priority(priority), parting).map(|rank| rank - of_built);
        assert_eq!((free(5), free(15)), (None, None));
        assert!(free(30).is_some_and(|rank| rank == 3 || rank == 4), "{:?}", free(30));
        assert!(free(60).is_some_and(|rank| rank > 5 && rank < 1 << parting.between), "{:?}", free(60));
    }

    /// Rules come and go between many pairs of others. Each gives back exactly its regions, counts are right, and freed
    /// memory is reused.
    #[test]
    fn what_comes_is_given_back() {
        let (mut inserted, mut random) = (Inserted::new(2), Random(3));
        let mut there: Vec<(u32, Match, u32)> = Vec::new();
        let mut sizes = Vec::new();
        for round in 0..12 {
            for at in 0..120u32 {
                let (before, count) = (random.below(9) as u32, random.below(5) as u32);
                let of = rule(round * 200 + at, random.next() >> 8);
                if insert(&mut inserted, before, of, count) {
                    there.push((before, of, count));
                }
            }
            let total: u32 = there.iter().map(|(.., count)| count).sum();
            assert_eq!((inserted.rules(), inserted.regions()), (there.len(), total as usize));
            for before in 0..9 {
                let here = there.iter().filter(|(at, ..)| *at == before).map(|(_, rule, _)| *rule);
                check(&inserted, before, &here.collect::<Vec<_>>());
            }
            while !there.is_empty() {
                let (before, of, count) = there.swap_remove(random.below(there.len()));
                let rank = inserted.rank_of(of.rule, before).expect("it has a rank");
                let mut given = Vec::new();
                inserted.remove(before, rank, |region| {
                    let ternary = region.ternary.map(|(value, mask)| (value.to_vec(), mask.to_vec()));
                    given.push((region.lo.to_vec(), region.hi.to_vec(), ternary));
                });
                // Regions are given back in reverse order.
                given.reverse();
                let want: Vec<_> = regions(count, of.rule.slot() as u32)
                    .iter()
                    .map(|region| {
                        let ternary = region.ternary.map(|(value, mask)| (value.to_vec(), mask.to_vec()));
                        (region.lo.to_vec(), region.hi.to_vec(), ternary)
                    })
                    .collect();
                assert_eq!(given, want);
                assert_eq!((inserted.rank_of(of.rule, before), inserted.of(rank, layout())), (None, None));
            }
            assert_eq!((inserted.rules(), inserted.regions()), (0, 0));
            sizes.push((inserted.rules.len(), inserted.rows.words.len()));
        }
        // Buckets of each size, and as many rows as regions there were at a time.
        let most = sizes[..3].iter().fold((0, 0), |most, of| (most.0.max(of.0), most.1.max(of.1)));
        let last = sizes[11];
        assert!(2 * last.0 <= 3 * most.0 && 4 * last.1 <= 5 * most.1, "{sizes:?}");
    }
}
