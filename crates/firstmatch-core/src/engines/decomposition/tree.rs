//! Search trees over the starts of intervals, of 32 or 64 bits.

use crate::raw::{Isa, LINE_WORDS, Line, word, words_mut};

/// Implicit tree whose nodes are cache lines of starts.
///
/// The last level has all starts, 16 of 32 bits or 8 of 64 bits per line. A node above it has 17 or 9 children, and
/// holds the first start of each child but the first. Unused places have the largest value.
#[derive(Debug)]
pub(super) struct Tree {
    is_wide: bool,
    starts: usize,
    /// First line and number of lines of each level, from the root.
    levels: Box<[(usize, usize)]>,
    lines: Box<[Line]>,
    /// Value of each interval: first of the interval before the first start, then of the interval from each start on.
    pub(super) values: Box<[u32]>,
}

impl Tree {
    /// Builds a tree over ascending starts of intervals and one value more than starts.
    pub(super) fn new(is_wide: bool, starts: &[u64], values: Vec<u32>) -> Self {
        debug_assert_eq!(values.len(), starts.len() + 1);
        let fan = if is_wide { LINE_WORDS / 2 } else { LINE_WORDS };
        // Levels from the last to the root, each a list of lines.
        let mut below: Vec<u64> = starts.iter().copied().step_by(fan).collect();
        let mut made = vec![starts.chunks(fan).map(|keys| line(is_wide, keys)).collect::<Vec<_>>()];
        while below.len() > 1 {
            made.push(below.chunks(fan + 1).map(|firsts| line(is_wide, &firsts[1..])).collect());
            below = below.into_iter().step_by(fan + 1).collect();
        }
        let mut next = 0;
        let of_level = |level: &Vec<Line>| {
            next += level.len();
            (next - level.len(), level.len())
        };
        made.retain(|level| !level.is_empty());
        made.reverse();
        let levels = made.iter().map(of_level).collect();
        Self { is_wide, starts: starts.len(), levels, lines: made.concat().into(), values: values.into() }
    }

    /// Number of levels.
    pub(super) fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Number of bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.levels[..]) + size_of_val(&self.lines[..]) + size_of_val(&self.values[..])
    }

    /// Writes the value of each key's interval to `found`; all keys go through a level together.
    #[inline(always)]
    pub(super) fn find<I: Isa>(&self, isa: I, keys: &[u64], found: &mut [u32]) {
        found.fill(0);
        let fan = if self.is_wide { LINE_WORDS / 2 } else { LINE_WORDS };
        for (depth, &(first, count)) in self.levels.iter().enumerate() {
            let is_last = depth + 1 == self.levels.len();
            let below = if is_last { None } else { self.levels.get(depth + 1) };
            for (&key, node) in keys.iter().zip(&mut *found) {
                let line = &self.lines[first + *node as usize].0;
                let at_most = if self.is_wide {
                    let starts = line.as_chunks::<2>().0.iter();
                    starts.map(|&start| usize::from(word(start) <= key)).sum()
                } else {
                    isa.count_at_most(line, 0xFFFF, key as u32)
                };
                debug_assert!((*node as usize) < count);
                *node = match below {
                    // Unused places count, too, if the key has the largest value.
                    Some(&(first, count)) => {
                        let next = (*node as usize * (fan + 1) + at_most).min(count - 1);
                        isa.prefetch(&self.lines[first + next]);
                        next as u32
                    }
                    None => (*node as usize * fan + at_most).min(self.starts) as u32,
                };
            }
        }
        found.iter_mut().for_each(|found| *found = self.values[*found as usize]);
    }
}

/// Returns a line of keys, filled up with the largest value.
fn line(is_wide: bool, keys: &[u64]) -> Line {
    let mut line = [Line([u32::MAX; LINE_WORDS])];
    let words = words_mut(&mut line);
    for (at, &key) in keys.iter().enumerate() {
        if is_wide {
            (words[2 * at], words[2 * at + 1]) = (key as u32, (key >> 32) as u32);
        } else {
            words[at] = key as u32;
        }
    }
    line[0]
}
