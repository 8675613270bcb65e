//! Pool of entries: every region of the tables, in groups that share a key.
//!
//! An entry over n words is padded to whole cache lines: one for the IPv4 5-tuple, two for IPv6.
//!
//! ```text
//! word    0     n     2n         2n+2   2n+4
//!         lo    hi    priority   id     tail   padding
//! ```
//!
//! A group is a run of entries in order of priority; a flag in the tail of the last entry ends it. Runs come in sizes
//! 1, 2, 3, 4, 6, 8, 12, 16, … up to [`LONGEST`]. For example, a fifth entry moves a group of four to a run of six.
//!
//! The memory grows by chunks, so that no growth moves all entries. Each size has a free list: a free run's first word
//! is the next free run. If no run of a size is free, a larger one is cut. Adjacent free runs are joined from time to
//! time.
//!
//! A group of more than [`SHARED`] entries has its own chunk, as long as its run, because long runs are seldom free
//! among short ones. A region's ternary part takes one more entry: `value` of every word, then `mask` of every word.

use crate::engine::Match;
use crate::engines::shared::{match_of, match_words, priority_of, vec_growth, with_room};
use crate::raw::{Isa, LINE_WORDS, Line, words, words_mut};
use crate::rule::{Priority, Region};

/// Flag of a tail: the group ends here.
///
/// The other bits are 1 + the number of the ternary part's entry, or 0.
const LAST: u32 = 1 << 31;
/// No run.
const NONE: u32 = u32::MAX;

/// Number of low bits of an entry's number that are its position in its chunk.
///
/// The others are the chunk.
const PLACE_BITS: u32 = 10;
/// Number of entries in the smallest chunk, and in the longest run that shares its chunk with others.
pub(super) const SHARED: usize = 16;
/// Number of entries in the largest chunk, and in the longest group.
pub(super) const LONGEST: usize = 1 << PLACE_BITS;
/// Number of sizes of runs.
const CLASSES: usize = 2 * PLACE_BITS as usize;

#[derive(Debug)]
pub(super) struct Pool {
    key_words: usize,
    lines_per_entry: usize,
    chunks: Vec<Box<[Line]>>,
    /// Length of the group that has a chunk to itself, by chunk; 0 where groups share it.
    alone: Vec<u32>,
    /// Number of lines of all chunks.
    lines: usize,
    /// Number of chunks without entries.
    vacant: usize,
    /// Entries of the newest shared chunk that were never used.
    fresh: std::ops::Range<u32>,
    /// Head of the free list of each class of sizes.
    free: [u32; CLASSES],
    /// Number of runs released since adjacent free runs were last joined.
    released: usize,
}

/// Entry outside the pool: a region with the rule it belongs to.
pub(super) type Entry = Vec<u32>;

impl Clone for Pool {
    fn clone(&self) -> Self {
        Self { chunks: with_room(&self.chunks), alone: with_room(&self.alone), fresh: self.fresh.clone(), ..*self }
    }
}

impl Pool {
    pub(super) fn new(key_words: usize) -> Self {
        Self {
            key_words,
            lines_per_entry: Self::lines_for(key_words),
            chunks: vec![],
            alone: vec![],
            lines: 0,
            vacant: 0,
            fresh: 0..0,
            free: [NONE; CLASSES],
            released: 0,
        }
    }

    /// Number of lines of an entry over `key_words` words.
    #[inline(always)]
    pub(super) const fn lines_for(key_words: usize) -> usize {
        (2 * key_words + 5).div_ceil(LINE_WORDS)
    }

    pub(super) fn bytes(&self) -> usize {
        let chunks = self.chunks.capacity() * size_of::<Box<[Line]>>() + self.alone.capacity() * size_of::<u32>();
        self.lines * size_of::<Line>() + chunks
    }

    /// Maximum bytes that adding an entry takes, and moving `moving` others.
    ///
    /// The entry goes to a group of at most `longest` entries.
    pub(super) fn growth(&self, longest: usize, moving: usize) -> usize {
        // One chunk is for the run, and one for the ternary part if there is one.
        let (now, run) = (self.lines / self.lines_per_entry, size_of_run(class_of((longest + 1).min(LONGEST))));
        let mut entries = run.max(self.chunk_size(now)) + self.chunk_size(now + run);
        if moving > 0 {
            // A group that grows leaves a run of every size behind it, less than four times its length in all. Less
            // than the next run may be left over in a chunk.
            entries += 8 * moving + self.chunk_size(now + entries + 8 * moving);
        }
        let more = entries.div_ceil(SHARED);
        let chunks = vec_growth(self.chunks.len(), self.chunks.capacity(), more) * size_of::<Box<[Line]>>();
        let alone = vec_growth(self.alone.len(), self.alone.capacity(), more) * size_of::<u32>();
        entries * self.lines_per_entry * size_of::<Line>() + chunks + alone
    }

    /// Number of entries in the next chunk, when there are `entries`.
    ///
    /// It is a sixteenth of them, so that little is ever unused.
    fn chunk_size(&self, entries: usize) -> usize {
        (entries / 16).next_power_of_two().clamp(SHARED, LONGEST)
    }

    #[inline(always)]
    pub(super) fn lines_per_entry(&self) -> usize {
        self.lines_per_entry
    }

    /// Returns the lines of an entry and those behind it in its chunk: at least its group's.
    ///
    /// `key_words` must be the pool's.
    #[inline(always)]
    pub(super) fn lines_from(&self, entry: u32, key_words: usize) -> &[Line] {
        let (chunk, place) = (entry >> PLACE_BITS, entry as usize & (LONGEST - 1));
        &self.chunks[chunk as usize][place * Self::lines_for(key_words)..]
    }

    /// Prefetches an entry, if it exists. `key_words` must be the pool's.
    #[inline(always)]
    pub(super) fn prefetch<I: Isa>(&self, isa: I, entry: u32, key_words: usize) {
        let place = (entry as usize & (LONGEST - 1)) * Self::lines_for(key_words);
        if let Some(line) = self.chunks.get((entry >> PLACE_BITS) as usize).and_then(|chunk| chunk.get(place)) {
            isa.prefetch(line);
        }
    }

    #[inline]
    fn entry(&self, entry: u32) -> &[u32] {
        words(&self.lines_from(entry, self.key_words)[..self.lines_per_entry])
    }

    fn entry_mut(&mut self, entry: u32) -> &mut [u32] {
        let (chunk, place) = (entry >> PLACE_BITS, entry as usize & (LONGEST - 1));
        words_mut(&mut self.chunks[chunk as usize][place * self.lines_per_entry..][..self.lines_per_entry])
    }

    pub(super) fn region(&self, entry: u32) -> Region<'_> {
        self.region_of(self.entry(entry))
    }

    #[inline]
    pub(super) fn found(&self, entry: u32) -> Option<Match> {
        match_of(self.entry(entry), self.key_words)
    }

    #[inline]
    pub(super) fn priority(&self, entry: u32) -> Priority {
        priority_of(self.entry(entry), self.key_words)
    }

    /// Returns the lower bounds of an entry, then its other words.
    ///
    /// Callers may treat these as bounds, too, because a tuple's mask is 0 there.
    pub(super) fn lo(&self, entry: u32) -> &[u32] {
        self.entry(entry)
    }

    /// Returns the entries of a group.
    pub(super) fn group(&self, first: u32) -> impl Iterator<Item = u32> + Clone {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let entry = next?;
            next = (!is_last(self.entry(entry), self.key_words)).then_some(entry + 1);
            Some(entry)
        })
    }

    /// Number of entries of a group, found by a walk over at most [`SHARED`] entries.
    pub(super) fn group_len(&self, first: u32) -> usize {
        match self.alone[(first >> PLACE_BITS) as usize] {
            0 => self.group(first).count(),
            len => len as usize,
        }
    }

    /// Number of entries of a group of `len` entries that come before `priority`.
    fn place_in_group(&self, first: u32, len: usize, priority: Priority) -> u32 {
        let (mut low, mut high) = (first, first + len as u32);
        while low < high {
            let middle = low.midpoint(high);
            if self.priority(middle) <= priority { low = middle + 1 } else { high = middle }
        }
        low - first
    }

    /// Returns an entry for a region, and stores the ternary part in the pool.
    pub(super) fn make(&mut self, rule: Match, region: &Region<'_>) -> Entry {
        let mut out = Vec::with_capacity(self.lines_per_entry * LINE_WORDS);
        out.extend_from_slice(region.lo);
        out.extend_from_slice(region.hi);
        let tail = region.ternary.map_or(0, |(value, mask)| self.store_ternary(value, mask) + 1);
        out.extend(match_words(rule));
        out.push(tail);
        out.resize(self.lines_per_entry * LINE_WORDS, 0);
        out
    }

    fn store_ternary(&mut self, value: &[u32], mask: &[u32]) -> u32 {
        let (at, key_words) = (self.allocate(class_of(1)), self.key_words);
        let words = self.entry_mut(at);
        words[..key_words].copy_from_slice(value);
        words[key_words..2 * key_words].copy_from_slice(mask);
        at
    }

    /// Takes the ternary part of an entry out of the pool, before the entry is dropped for good.
    pub(super) fn forget(&mut self, entry: &Entry) {
        if let Some(at) = ternary_of(entry, self.key_words) {
            self.release(at, class_of(1));
        }
    }

    /// Puts an entry into a group (or makes one) in order; returns where the group starts.
    pub(super) fn add(&mut self, group: Option<u32>, entry: &Entry) -> u32 {
        let Some(first) = group else {
            let start = self.allocate(class_of(1));
            self.write(start, entry, true);
            return start;
        };
        let len = self.group_len(first);
        let priority = priority_of(entry, self.key_words);
        let at = self.place_in_group(first, len, priority);
        let (old, new) = (class_of(len), class_of(len + 1));
        let start = match len {
            _ if old == new => first,
            ..SHARED => self.allocate(new),
            SHARED => self.new_chunk(size_of_run(new)),
            _ => {
                self.resize_chunk(first, size_of_run(new));
                first
            }
        };
        if start != first {
            self.copy(first, start, at);
        }
        self.copy(first + at, start + at + 1, len as u32 - at);
        let last = at as usize == len;
        if last {
            self.mark_last(start + at - 1, false);
        }
        self.write(start + at, entry, last);
        if start != first {
            self.release(first, old);
        }
        self.note_length(start, len + 1);
        start
    }

    /// Takes an entry out of its group.
    ///
    /// Returns the entry, and where the group now starts unless it is empty.
    pub(super) fn take(&mut self, first: u32, entry: u32) -> (Entry, Option<u32>) {
        let (len, at) = (self.group_len(first), entry - first);
        let mut out = self.entry(entry).to_vec();
        out[2 * self.key_words + 4] &= !LAST;
        if len == 1 {
            self.release(first, class_of(1));
            return (out, None);
        }
        let (old, new) = (class_of(len), class_of(len - 1));
        let smaller = if old == new || len - 1 > SHARED { None } else { self.pop_free(new) };
        let start = smaller.unwrap_or(first);
        if start != first {
            self.copy(first, start, at);
        }
        self.copy(entry + 1, start + at, len as u32 - at - 1);
        self.mark_last(start + len as u32 - 2, true);
        let (kept, whole) = (size_of_run(new), size_of_run(old));
        match start == first {
            true if old == new => {}
            // If 16 entries remain, the chunk is a shared one from now on.
            true if len > SHARED => self.resize_chunk(first, kept),
            // No run of the smaller size is free, and a removal must not take memory, so the end of this one is given
            // back.
            true => self.release_all(first + kept as u32..first + whole as u32),
            false if len > SHARED => self.resize_chunk(first, 0),
            false => self.release(first, old),
        }
        self.note_length(start, len - 1);
        (out, Some(start))
    }

    /// Records the length of a group that has its chunk to itself.
    fn note_length(&mut self, start: u32, len: usize) {
        if len >= SHARED {
            self.alone[(start >> PLACE_BITS) as usize] = if len > SHARED { len as u32 } else { 0 };
        }
    }

    fn copy(&mut self, from: u32, to: u32, count: u32) {
        let k = self.lines_per_entry;
        let place = |entry: u32| entry as usize % LONGEST * k;
        let (source, target) = ((from >> PLACE_BITS) as usize, (to >> PLACE_BITS) as usize);
        let (from, to, count) = (place(from), place(to), count as usize * k);
        if source == target {
            self.chunks[source].copy_within(from..from + count, to);
        } else if let Ok([source, target]) = self.chunks.get_disjoint_mut([source, target]) {
            target[to..to + count].copy_from_slice(&source[from..from + count]);
        }
    }

    fn write(&mut self, at: u32, entry: &Entry, last: bool) {
        self.entry_mut(at).copy_from_slice(entry);
        self.mark_last(at, last);
    }

    fn mark_last(&mut self, entry: u32, last: bool) {
        let at = 2 * self.key_words + 4;
        let tail = &mut self.entry_mut(entry)[at];
        *tail = if last { *tail | LAST } else { *tail & !LAST };
    }

    fn allocate(&mut self, class: usize) -> u32 {
        if let Some(start) = self.pop_free(class) {
            return start;
        }
        let (size, entries) = (size_of_run(class), self.lines / self.lines_per_entry);
        if self.fresh.len() < size {
            // Joining takes as many steps as there are entries, so it is spread over the releases, a few for each.
            if self.released > entries / 8 {
                self.join_free();
            }
            let larger = (class..CLASSES).find_map(|from| Some((self.pop_free(from)?, size_of_run(from))));
            if let Some((start, whole)) = larger {
                self.release_all(start + size as u32..start + whole as u32);
                return start;
            }
            self.release_all(self.fresh.clone());
            let entries = self.chunk_size(entries);
            let start = self.new_chunk(entries);
            self.fresh = start..start + entries as u32;
        }
        let start = self.fresh.start;
        self.fresh.start += size as u32;
        start
    }

    /// Makes a chunk of `entries` entries; returns the number of its first entry.
    fn new_chunk(&mut self, entries: usize) -> u32 {
        let vacant = if self.vacant > 0 { self.chunks.iter().position(|chunk| chunk.is_empty()) } else { None };
        self.vacant -= usize::from(vacant.is_some());
        let chunk = vacant.unwrap_or_else(|| {
            self.chunks.push(Box::default());
            self.alone.push(0);
            self.chunks.len() - 1
        });
        let start = (chunk as u32) << PLACE_BITS;
        self.resize_chunk(start, entries);
        start
    }

    /// Resizes a chunk to `entries` entries. With 0 entries, its number is free for another chunk.
    fn resize_chunk(&mut self, start: u32, entries: usize) {
        let (chunk, lines) = (&mut self.chunks[(start >> PLACE_BITS) as usize], entries * self.lines_per_entry);
        self.lines = self.lines - chunk.len() + lines;
        self.vacant += usize::from(entries == 0);
        if entries == 0 {
            self.alone[(start >> PLACE_BITS) as usize] = 0;
        }
        let mut resized = std::mem::take(chunk).into_vec();
        resized.reserve_exact(lines.saturating_sub(resized.len()));
        resized.resize(lines, Line::default());
        *chunk = resized.into_boxed_slice();
    }

    /// Joins adjacent free runs.
    fn join_free(&mut self) {
        let mut free = vec![0u64; self.chunks.len() * (LONGEST / 64)];
        for class in 0..CLASSES {
            while let Some(start) = self.pop_free(class) {
                (start as usize..start as usize + size_of_run(class)).for_each(|at| free[at / 64] |= 1 << (at % 64));
            }
        }
        for (chunk, free) in (0u32..).zip(free.chunks(LONGEST / 64)) {
            let is_free = |place: u32| free.get(place as usize / 64).is_some_and(|bits| bits >> (place % 64) & 1 == 1);
            let mut place = 0;
            while place < LONGEST as u32 {
                let end = (place..).find(|&end| !is_free(end)).unwrap_or(place);
                let base = chunk << PLACE_BITS;
                self.release_all(base + place..base + end);
                place = end + 1;
            }
        }
        self.released = 0;
    }

    fn pop_free(&mut self, class: usize) -> Option<u32> {
        let start = Some(self.free[class]).filter(|&start| start != NONE)?;
        self.free[class] = self.entry(start)[0];
        Some(start)
    }

    fn release(&mut self, start: u32, class: usize) {
        self.entry_mut(start)[0] = self.free[class];
        self.free[class] = start;
        self.released += 1;
    }

    /// Panics unless each entry belongs to exactly one of these: the run of a group, a ternary part, a free run, or the
    /// entries that were never used.
    #[cfg(test)]
    pub(super) fn check(&self, groups: impl Iterator<Item = u32>) {
        let entries = |chunk: &[Line]| chunk.len() / self.lines_per_entry;
        let mut seen: Vec<Vec<bool>> = self.chunks.iter().map(|chunk| vec![false; entries(chunk)]).collect();
        let mut see = |start: u32, count: usize, what: &str| {
            for entry in start..start + count as u32 {
                let (chunk, place) = ((entry >> PLACE_BITS) as usize, entry as usize % LONGEST);
                assert!(
                    !std::mem::replace(&mut seen[chunk][place], true),
                    "entry {entry} is {what} and something else"
                );
            }
        };
        see(self.fresh.start, self.fresh.len(), "unused");
        for group in groups {
            see(group, size_of_run(class_of(self.group_len(group))), "in a group");
            for part in self.group(group).filter_map(|entry| ternary_of(self.entry(entry), self.key_words)) {
                see(part, 1, "a ternary part");
            }
        }
        for class in 0..CLASSES {
            let mut next = self.free[class];
            while next != NONE {
                see(next, size_of_run(class), "free");
                next = self.entry(next)[0];
            }
        }
        let lost = seen.iter().flatten().filter(|&&is_seen| !is_seen).count();
        assert_eq!(lost, 0, "entries are neither used nor free");
        assert_eq!(self.lines, self.chunks.iter().map(|chunk| chunk.len()).sum::<usize>());
        assert_eq!(self.vacant, self.chunks.iter().filter(|chunk| chunk.is_empty()).count());
    }

    /// Releases a stretch of entries, whatever its length, in the largest runs that fit.
    fn release_all(&mut self, mut stretch: std::ops::Range<u32>) {
        while !stretch.is_empty() {
            let exact = class_of(stretch.len());
            let class = if size_of_run(exact) > stretch.len() { exact - 1 } else { exact };
            self.release(stretch.start, class);
            stretch.start += size_of_run(class) as u32;
        }
    }
}

/// Returns the size of a run: 1, 2, 3, 4, 6, 8, 12, 16, 24, …
fn size_of_run(class: usize) -> usize {
    match class {
        0 => 1,
        odd if odd % 2 == 1 => 2 << (odd / 2),
        even => 3 << (even / 2 - 1),
    }
}

/// Returns the smallest class that holds a run of `len` entries.
fn class_of(len: usize) -> usize {
    let below = len.max(1).ilog2() as usize;
    match len {
        0 | 1 => 0,
        _ if len == 1 << below => 2 * below - 1,
        _ if len <= 3 << (below - 1) => 2 * below,
        _ => 2 * below + 1,
    }
}

#[inline(always)]
pub(super) fn is_last(entry: &[u32], key_words: usize) -> bool {
    entry[2 * key_words + 4] & LAST != 0
}

#[inline(always)]
fn ternary_of(entry: &[u32], key_words: usize) -> Option<u32> {
    (entry[2 * key_words + 4] & !LAST).checked_sub(1)
}

impl Pool {
    /// Returns the region of an entry in the pool or outside.
    pub(super) fn region_of<'a>(&'a self, entry: &'a [u32]) -> Region<'a> {
        let part = |at| self.entry(at)[..2 * self.key_words].split_at(self.key_words);
        let (lo, hi) = entry[..2 * self.key_words].split_at(self.key_words);
        Region { lo, hi, ternary: ternary_of(entry, self.key_words).map(part) }
    }

    /// Whether the ternary part of an entry, if it has one, holds a key.
    #[inline(always)]
    pub(super) fn passes_ternary(&self, entry: &[u32], key: &[u32], key_words: usize) -> bool {
        let Some(at) = ternary_of(entry, key_words) else { return true };
        let (value, mask) = words(self.lines_from(at, key_words))[..2 * key_words].split_at(key_words);
        value.iter().zip(mask).zip(key).all(|((value, mask), k)| k & mask == *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::RuleId;

    #[test]
    fn runs_have_the_sizes_the_documentation_states() {
        let sizes: Vec<_> = (0..9).map(size_of_run).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 6, 8, 12, 16, 24]);
        for len in 1..=LONGEST {
            let class = class_of(len);
            assert!(class < CLASSES);
            assert!(size_of_run(class) >= len && (class == 0 || size_of_run(class - 1) < len), "{len}");
        }
    }

    #[test]
    fn a_group_stays_in_order_through_any_adding_and_taking() {
        let mut pool = Pool::new(5);
        let values = [7u32; 5];
        let region = Region { lo: &values, hi: &values, ternary: Some((&values, &values)) };
        let (mut group, mut want) = (None, Vec::<u64>::new());
        let mut state = 1u64;
        for step in 0..4000u32 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let grow = (step / 500) % 2 == 0;
            if want.is_empty() || (state >> 33) % 10 < if grow { 7 } else { 3 } {
                let rule = Match { rule: RuleId::new(step, 0), priority: Priority(state) };
                let entry = pool.make(rule, &region);
                group = Some(pool.add(group, &entry));
                want.push(state);
                want.sort_unstable();
            } else {
                let at = (state >> 40) as usize % want.len();
                let first = group.expect("not empty");
                let (entry, rest) = pool.take(first, first + at as u32);
                assert_eq!(priority_of(&entry, 5), Priority(want.remove(at)));
                pool.forget(&entry);
                group = rest;
            }
            let got: Vec<u64> = group.iter().flat_map(|&g| pool.group(g)).map(|e| pool.priority(e).0).collect();
            assert_eq!(got, want);
            assert_eq!(group.map_or(0, |g| pool.group_len(g)), want.len());
            pool.check(group.into_iter());
        }
    }
}
