//! Rows of bits: for each class the rules whose condition on the field its addresses meet.

use crate::raw::Isa;

/// Largest number of rules with a bit.
pub(super) const MOST_RULES: usize = 4096;
/// Number of words of a whole row.
pub(super) const WORDS: usize = MOST_RULES / 64;
/// Number of words that a line holds.
const SHORT: usize = 7;

/// Row of a class in one cache line.
///
/// | bytes | content |
/// |---|---|
/// | 0–7 | a bit for each word of the row that is not 0 |
/// | 8–63 | these words, if they are at most seven; otherwise the first is the index of a whole row |
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line {
    summary: u64,
    words: [u64; SHORT],
}

/// Rows by class.
#[derive(Debug, Default)]
pub(super) struct Rows {
    lines: Vec<Line>,
    whole: Vec<[u64; WORDS]>,
    free: Vec<u32>,
}

/// Bits of rules, not compressed.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    pub(super) summary: u64,
    pub(super) words: [u64; WORDS],
}

impl Default for Bits {
    fn default() -> Self {
        Self { summary: 0, words: [0; WORDS] }
    }
}

impl Bits {
    pub(super) fn set(&mut self, bit: u16, on: bool) {
        let (word, bit) = (usize::from(bit / 64), 1u64 << (bit % 64));
        if on {
            self.words[word] |= bit;
        } else {
            self.words[word] &= !bit;
        }
        self.summary = self.summary & !(1 << word) | u64::from(self.words[word] != 0) << word;
    }

    /// Returns the bits that are set, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> {
        ones(self.summary).flat_map(|word| ones(self.words[word]).map(move |bit| (word * 64 + bit) as u16))
    }
}

/// Returns the places of the bits that are set, in order.
#[inline(always)]
pub(super) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

impl Clone for Rows {
    fn clone(&self) -> Self {
        let mut lines = Vec::with_capacity(self.lines.capacity());
        lines.extend_from_slice(&self.lines);
        let mut whole = Vec::with_capacity(self.whole.capacity());
        whole.extend_from_slice(&self.whole);
        Self { lines, whole, free: self.free.clone() }
    }
}

impl Rows {
    /// Returns the heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
            + self.whole.capacity() * size_of::<[u64; WORDS]>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// Returns a bit for each word of a class that is not 0.
    #[inline(always)]
    pub(super) fn summary(&self, class: u32) -> u64 {
        self.lines.get(class as usize).map_or(0, |line| line.summary)
    }

    /// Returns a word of a class.
    #[inline(always)]
    pub(super) fn word(&self, class: u32, word: usize) -> u64 {
        let Some(line) = self.lines.get(class as usize) else { return 0 };
        if line.summary >> word & 1 == 0 {
            return 0;
        }
        if line.summary.count_ones() as usize > SHORT {
            return self.whole[line.words[0] as usize][word];
        }
        let place = (line.summary & ((1 << word) - 1)).count_ones() as usize;
        line.words[place % SHORT]
    }

    /// Prefetches the row of a class.
    #[inline(always)]
    pub(super) fn prefetch<I: Isa>(&self, isa: I, class: u32) {
        if let Some(line) = self.lines.get(class as usize) {
            isa.prefetch(line);
        }
    }

    /// Clears all bits of a class.
    pub(super) fn clear(&mut self, class: u32) {
        if self.lines.len() <= class as usize {
            if self.lines.capacity() <= class as usize {
                self.lines.reserve_exact((class as usize + 1 - self.lines.len()).max(self.lines.len() / 4 + 4));
            }
            self.lines.resize(class as usize + 1, Line::default());
        }
        let line = &mut self.lines[class as usize];
        if line.summary.count_ones() as usize > SHORT {
            self.free.push(line.words[0] as u32);
        }
        *line = Line::default();
    }

    /// Sets a bit of a class.
    pub(super) fn set(&mut self, class: u32, bit: u16, on: bool) {
        let at = usize::from(bit / 64);
        let old = self.word(class, at);
        let new = if on { old | 1 << (bit % 64) } else { old & !(1 << (bit % 64)) };
        if new == old {
            return;
        }
        let mut all = [0; WORDS];
        let line = self.lines[class as usize];
        let was_whole = line.summary.count_ones() as usize > SHORT;
        let summary = line.summary & !(1 << at) | u64::from(new != 0) << at;
        let is_whole = summary.count_ones() as usize > SHORT;
        if was_whole && is_whole {
            self.whole[line.words[0] as usize][at] = new;
            self.lines[class as usize].summary = summary;
            return;
        }
        ones(line.summary).for_each(|word| all[word] = self.word(class, word));
        all[at] = new;
        let mut words = [0; SHORT];
        if is_whole {
            words[0] = u64::from(self.new_whole(all));
        } else {
            words.iter_mut().zip(ones(summary)).for_each(|(to, word)| *to = all[word]);
            if was_whole {
                self.free.push(line.words[0] as u32);
            }
        }
        self.lines[class as usize] = Line { summary, words };
    }

    fn new_whole(&mut self, words: [u64; WORDS]) -> u32 {
        if let Some(free) = self.free.pop() {
            self.whole[free as usize] = words;
            return free;
        }
        self.whole.push(words);
        // There are fewer classes than 2^32.
        (self.whole.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of few and of many words equal arrays of bits, while they grow, shrink and are cleared.
    #[test]
    fn rows_are_arrays_of_bits() {
        let mut state = 5u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) as u32 % below
        };
        let (mut rows, mut all) = (Rows::default(), vec![Bits::default(); 40]);
        (0..40).for_each(|class| rows.clear(class));
        for step in 0..60_000 {
            let class = random(40);
            let own = &mut all[class as usize];
            // Some classes have bits in few words.
            let bit = random([64, 512, 4096][class as usize % 3]) as u16;
            let on = random(100) < if step / 5000 % 2 == 0 { 70 } else { 20 };
            rows.set(class, bit, on);
            own.set(bit, on);
            if random(300) == 0 {
                rows.clear(class);
                *own = Bits::default();
            }
            assert_eq!(rows.summary(class), own.summary);
            assert!((0..WORDS).all(|word| rows.word(class, word) == own.words[word]), "step {step}");
        }
        assert!(!rows.whole.is_empty() && rows.whole.len() <= 40);
        assert_eq!((rows.summary(99), rows.word(99, 3)), (0, 0));
        let mut bits = Bits::default();
        [4095, 3, 64].iter().for_each(|&bit| bits.set(bit, true));
        bits.set(64, false);
        assert!(bits.iter().eq([3, 4095]));
    }
}
