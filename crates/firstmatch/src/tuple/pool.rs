//! The pool of entries: every region an engine holds, in groups that share a key.
//!
//! An entry is `lo` of every lane, `hi` of every lane, the priority, the rule's id and a tail word, padded to whole
//! cache lines: one line for the IPv4 5-tuple, two for IPv6. A group is a run of entries in order of priority; the tail
//! of its last entry says so. Runs come in sizes 1, 2, 3, 4, 6, 8, 12, 16, …; freed runs are kept by size.

use crate::engine::Match;
use crate::rule::{Priority, Region, RuleId};
use crate::simd::{LINE_WORDS, Line, words, words_mut};

/// In a tail: the group ends here. The other bits are 1 + the place of the ternary part, or 0.
const LAST: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Pool {
    lanes: usize,
    lines_per_entry: usize,
    lines: Vec<Line>,
    /// Free runs by class.
    free: Vec<Vec<u32>>,
    /// Ternary parts: `value` of every lane, then `mask` of every lane.
    ternary: Vec<u32>,
    free_ternary: Vec<u32>,
}

/// A region with the rule it belongs to, outside the pool.
pub(super) type Entry = Vec<u32>;

impl Pool {
    pub(super) fn new(lanes: usize) -> Self {
        let lines_per_entry = (2 * lanes + 5).div_ceil(LINE_WORDS);
        Self { lanes, lines_per_entry, lines: vec![], free: vec![], ternary: vec![], free_ternary: vec![] }
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    pub(super) fn bytes(&self) -> usize {
        let free =
            self.free.capacity() * size_of::<Vec<u32>>() + self.free.iter().map(|f| f.capacity() * 4).sum::<usize>();
        self.lines.capacity() * size_of::<Line>() + (self.ternary.capacity() + self.free_ternary.capacity()) * 4 + free
    }

    /// At most how many bytes adding an entry takes, where no group is longer than `longest`, and moving others.
    pub(super) fn growth(&self, longest: usize, moving: usize) -> usize {
        let grown = |used: usize, capacity: usize, more: usize| {
            if used + more > capacity { capacity.max(used + more - capacity).max(4) } else { 0 }
        };
        // A group that grows or shrinks leaves a run of every size behind it: less than four times its length in all.
        let runs = size_of_run(class_of(longest + 1)) + 8 * moving;
        let lines = grown(self.lines.len(), self.lines.capacity(), runs * self.lines_per_entry) * size_of::<Line>();
        let words = grown(self.ternary.len(), self.ternary.capacity(), 2 * self.lanes) * 4;
        let classes = grown(self.free.len(), self.free.capacity(), class_of(longest + 1) + 4);
        // Removals may list every entry and every ternary part as free, and are never refused.
        let listed = self.lines.len() / self.lines_per_entry + runs + self.ternary.len() / (2 * self.lanes) + 1;
        let lists = 8 * listed + 16 * (self.free.len() + classes + 1);
        lines + words + classes * size_of::<Vec<u32>>() + lists
    }

    pub(super) fn lines_per_entry(&self) -> usize {
        self.lines_per_entry
    }

    /// All lines, for lookups: entry `e` is `lines_per_entry` of them from `e * lines_per_entry`.
    #[inline(always)]
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    #[inline]
    fn entry(&self, entry: u32) -> &[u32] {
        words(&self.lines[entry as usize * self.lines_per_entry..][..self.lines_per_entry])
    }

    fn entry_mut(&mut self, entry: u32) -> &mut [u32] {
        words_mut(&mut self.lines[entry as usize * self.lines_per_entry..][..self.lines_per_entry])
    }

    pub(super) fn region(&self, entry: u32) -> Region<'_> {
        region_of(self.entry(entry), self.lanes, &self.ternary)
    }

    #[inline]
    pub(super) fn found(&self, entry: u32) -> Option<Match> {
        match_of(self.entry(entry), self.lanes)
    }

    #[inline]
    pub(super) fn priority(&self, entry: u32) -> Priority {
        priority_of(self.entry(entry), self.lanes)
    }

    /// The lower bounds of an entry. What stands behind them is no bound: a tuple's mask is 0 there.
    pub(super) fn lo(&self, entry: u32) -> &[u32] {
        self.entry(entry)
    }

    /// The entries of a group.
    pub(super) fn group(&self, first: u32) -> impl Iterator<Item = u32> {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let entry = next?;
            next = (!is_last(self.entry(entry), self.lanes)).then_some(entry + 1);
            Some(entry)
        })
    }

    pub(super) fn group_len(&self, first: u32) -> usize {
        self.group(first).count()
    }

    /// An entry for a region, its ternary part stored.
    pub(super) fn make(&mut self, rule: Match, region: &Region<'_>) -> Entry {
        let mut out = Vec::with_capacity(self.lines_per_entry * LINE_WORDS);
        out.extend_from_slice(region.lo);
        out.extend_from_slice(region.hi);
        let (priority, id) = (rule.priority.0, rule.rule.get());
        let tail = region.ternary.map_or(0, |(value, mask)| self.store_ternary(value, mask) + 1);
        out.extend([priority as u32, (priority >> 32) as u32, id as u32, (id >> 32) as u32, tail]);
        out.resize(self.lines_per_entry * LINE_WORDS, 0);
        out
    }

    fn store_ternary(&mut self, value: &[u32], mask: &[u32]) -> u32 {
        let at = self.free_ternary.pop().unwrap_or_else(|| {
            self.ternary.resize(self.ternary.len() + 2 * self.lanes, 0);
            (self.ternary.len() / (2 * self.lanes) - 1) as u32
        });
        let place = &mut self.ternary[at as usize * 2 * self.lanes..][..2 * self.lanes];
        place[..self.lanes].copy_from_slice(value);
        place[self.lanes..].copy_from_slice(mask);
        at
    }

    /// Takes the ternary part of an entry out of the pool, before the entry is dropped for good.
    pub(super) fn forget(&mut self, entry: &Entry) {
        if let Some(at) = ternary_of(entry, self.lanes) {
            self.free_ternary.push(at);
        }
    }

    /// Puts an entry into a group (or makes one) at its place in the order; where the group now starts.
    pub(super) fn add(&mut self, group: Option<u32>, entry: &Entry) -> u32 {
        let Some(first) = group else {
            let start = self.allocate(class_of(1));
            self.write(start, entry, true);
            return start;
        };
        let len = self.group_len(first);
        let priority = priority_of(entry, self.lanes);
        let at = self.group(first).position(|e| priority < self.priority(e)).unwrap_or(len) as u32;
        let (old, new) = (class_of(len), class_of(len + 1));
        let start = if old == new { first } else { self.allocate(new) };
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
        start
    }

    /// Takes an entry out of its group: the entry, and where the group now starts unless it is empty.
    pub(super) fn take(&mut self, first: u32, entry: u32) -> (Entry, Option<u32>) {
        let (len, at) = (self.group_len(first), entry - first);
        let mut out = self.entry(entry).to_vec();
        out[2 * self.lanes + 4] &= !LAST;
        if len == 1 {
            self.release(first, class_of(1));
            return (out, None);
        }
        let (old, new) = (class_of(len), class_of(len - 1));
        let smaller = if old == new { None } else { self.free.get_mut(new).and_then(Vec::pop) };
        let start = smaller.unwrap_or(first);
        if start != first {
            self.copy(first, start, at);
        }
        self.copy(entry + 1, start + at, len as u32 - at - 1);
        self.mark_last(start + len as u32 - 2, true);
        if start != first {
            self.release(first, old);
        } else if old != new {
            // No run of the smaller size is free, and a removal must not take memory: give the end of this one back.
            let (kept, whole) = (size_of_run(new), size_of_run(old));
            self.release(first + kept as u32, class_of(whole - kept));
        }
        (out, Some(start))
    }

    fn copy(&mut self, from: u32, to: u32, count: u32) {
        let k = self.lines_per_entry;
        let (from, to, count) = (from as usize * k, to as usize * k, count as usize * k);
        self.lines.copy_within(from..from + count, to);
    }

    fn write(&mut self, at: u32, entry: &Entry, last: bool) {
        self.entry_mut(at).copy_from_slice(entry);
        self.mark_last(at, last);
    }

    fn mark_last(&mut self, entry: u32, last: bool) {
        let at = 2 * self.lanes + 4;
        let tail = &mut self.entry_mut(entry)[at];
        *tail = if last { *tail | LAST } else { *tail & !LAST };
    }

    fn allocate(&mut self, class: usize) -> u32 {
        if let Some(start) = self.free.get_mut(class).and_then(Vec::pop) {
            return start;
        }
        let start = self.lines.len() / self.lines_per_entry;
        self.lines.resize(self.lines.len() + size_of_run(class) * self.lines_per_entry, Line::default());
        start as u32
    }

    fn release(&mut self, start: u32, class: usize) {
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(start);
    }
}

/// Sizes of runs: 1, 2, 3, 4, 6, 8, 12, 16, 24, …
fn size_of_run(class: usize) -> usize {
    match class {
        0 => 1,
        odd if odd % 2 == 1 => 2 << (odd / 2),
        even => 3 << (even / 2 - 1),
    }
}

/// The smallest class that holds a run of `len` entries.
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
pub(super) fn priority_of(entry: &[u32], lanes: usize) -> Priority {
    Priority(u64::from(entry[2 * lanes + 1]) << 32 | u64::from(entry[2 * lanes]))
}

#[inline(always)]
pub(super) fn match_of(entry: &[u32], lanes: usize) -> Option<Match> {
    let id = u64::from(entry[2 * lanes + 3]) << 32 | u64::from(entry[2 * lanes + 2]);
    RuleId::from_u64(id).map(|rule| Match { rule, priority: priority_of(entry, lanes) })
}

#[inline(always)]
pub(super) fn is_last(entry: &[u32], lanes: usize) -> bool {
    entry[2 * lanes + 4] & LAST != 0
}

#[inline(always)]
fn ternary_of(entry: &[u32], lanes: usize) -> Option<u32> {
    (entry[2 * lanes + 4] & !LAST).checked_sub(1)
}

pub(super) fn region_of<'a>(entry: &'a [u32], lanes: usize, ternary: &'a [u32]) -> Region<'a> {
    let part = |at: u32| ternary[at as usize * 2 * lanes..][..2 * lanes].split_at(lanes);
    Region { lo: &entry[..lanes], hi: &entry[lanes..2 * lanes], ternary: ternary_of(entry, lanes).map(part) }
}

impl Pool {
    /// The region of an entry outside the pool.
    pub(super) fn region_outside<'a>(&'a self, entry: &'a Entry) -> Region<'a> {
        region_of(entry, self.lanes, &self.ternary)
    }

    /// Whether the ternary part of an entry, if it has one, holds a key.
    #[inline(always)]
    pub(super) fn passes_ternary(&self, entry: &[u32], key: &[u32]) -> bool {
        let Some(at) = ternary_of(entry, self.lanes) else { return true };
        let (value, mask) = self.ternary[at as usize * 2 * self.lanes..][..2 * self.lanes].split_at(self.lanes);
        value.iter().zip(mask).zip(key).all(|((value, mask), k)| k & mask == *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_the_sizes_the_documentation_states() {
        let sizes: Vec<_> = (0..9).map(size_of_run).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 6, 8, 12, 16, 24]);
        for len in 1..5000 {
            let class = class_of(len);
            assert!(size_of_run(class) >= len && (class == 0 || size_of_run(class - 1) < len), "{len}");
        }
    }

    #[test]
    fn a_group_stays_in_order_through_any_adding_and_taking() {
        let mut pool = Pool::new(5);
        let lanes = [7u32; 5];
        let region = Region { lo: &lanes, hi: &lanes, ternary: Some((&lanes, &lanes)) };
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
        }
    }
}
