//! Vectors of rules in their three forms, and their merges.

use super::config::{LINE_BITS, MOST_SUB_VECTOR, Stop};
use crate::engine::tombstones::LiveRules;
use crate::raw::{LINE_WORDS, Line, word, words, words_mut};

/// Number of bits of a word of a vector, and of the lines or words that one word of a summary covers.
const WORD_BITS: usize = 64;

/// Form of the vectors of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Flat,
    Summed,
    Sparse,
}

/// Observer of the lines of vectors that merges read.
pub(super) trait Watch {
    /// Records that line `line` of the `slot`-th vector is read.
    ///
    /// In the form `Summed`, summaries have slots of their own behind those of the vectors.
    fn line(&mut self, slot: usize, line: usize);
}

/// Observer of lookups in use, which ignores everything.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)]
    fn line(&mut self, _: usize, _: usize) {}
}

/// All vectors of an engine.
///
/// A vector is found by its *place*: its number if it has all bits, or its first line if it is sparse.
#[derive(Debug)]
pub(super) struct Vectors {
    pub(super) form: Form,
    /// Lines of a vector with all bits.
    pub(super) row_lines: usize,
    /// 64-bit words of a summary.
    pub(super) groups: usize,
    pub(super) lines: Box<[Line]>,
    pub(super) summaries: Box<[u64]>,
}

/// Sizes of vectors of some products.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) form: Form,
    pub(super) row_lines: usize,
    pub(super) groups: usize,
}

impl Shape {
    pub(super) fn new(form: Form, products: usize) -> Self {
        let bits = if form == Form::Sparse { WORD_BITS } else { LINE_BITS };
        Self { form, row_lines: products.div_ceil(LINE_BITS), groups: products.div_ceil(bits * WORD_BITS) }
    }

    /// Number of 32-bit words before the values of a sparse vector.
    fn head(self) -> usize {
        head(self.groups)
    }

    /// Number of lines of a vector with this set of products, 64 bits a word.
    pub(super) fn lines(self, row: &[u64]) -> usize {
        match self.form {
            Form::Flat | Form::Summed => self.row_lines,
            Form::Sparse => {
                let values = row.iter().filter(|&&word| word != 0).count();
                (self.head() + 2 * values).div_ceil(LINE_WORDS)
            }
        }
    }

    /// Writes a vector into its lines, and appends its summary if that is stored apart.
    pub(super) fn write(self, row: &[u64], lines: &mut [Line], summaries: &mut Vec<u64>) {
        let out = words_mut(lines);
        if self.form != Form::Sparse {
            out.as_chunks_mut::<2>().0.iter_mut().zip(row).for_each(|(two, &word)| *two = halves(word));
            if self.form == Form::Summed {
                let lines: Vec<bool> =
                    row.chunks(LINE_BITS / WORD_BITS).map(|line| line.iter().any(|&word| word != 0)).collect();
                summaries.extend(lines.chunks(WORD_BITS).map(bits));
            }
            return;
        }
        let (head, mut at) = (self.head(), 0);
        for (group, own) in row.chunks(WORD_BITS).enumerate() {
            let there: Vec<bool> = own.iter().map(|&word| word != 0).collect();
            let summary = bits(&there);
            [out[2 * group], out[2 * group + 1]] = halves(summary);
            if self.groups > 1 {
                out[2 * self.groups + group / 2] |= (at as u32) << (16 * (group % 2));
            }
            for &word in own.iter().filter(|&&word| word != 0) {
                [out[head + 2 * at], out[head + 2 * at + 1]] = halves(word);
                at += 1;
            }
        }
    }
}

/// Number of 32-bit words before the values of a sparse vector of `groups` summary words.
///
/// They are the summary and, for each of its words, the number of values before it.
#[inline(always)]
fn head(groups: usize) -> usize {
    if groups > 1 { 2 * groups + groups.div_ceil(4) * 2 } else { 2 * groups }
}

fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

fn bits(flags: &[bool]) -> u64 {
    flags.iter().enumerate().fold(0, |bits, (at, &flag)| bits | u64::from(flag) << at)
}

impl Vectors {
    /// Returns the first live product that all vectors have.
    #[inline(always)]
    pub(super) fn first<A: LiveRules>(
        &self,
        live_rules: A,
        places: &[u32],
        stop: Stop,
        sub_vector: usize,
        watch: &mut impl Watch,
    ) -> Option<usize> {
        match (self.form, stop) {
            (Form::Flat, Stop::Zero) => self.first_leaving(live_rules, places, sub_vector / LINE_BITS, watch),
            (Form::Flat, _) => self.first_whole(live_rules, places, sub_vector / LINE_BITS, stop == Stop::Hit, watch),
            (Form::Summed, _) => self.first_summed(live_rules, places, watch),
            (Form::Sparse, _) => self.first_sparse(live_rules, places, watch),
        }
    }

    #[inline(always)]
    fn line(&self, place: u32, line: usize) -> &[u32; LINE_WORDS] {
        &self.lines[place as usize * self.row_lines + line].0
    }

    /// Reads all vectors to their end or, if `ends`, to the first sub-vector with a hit.
    #[inline(always)]
    fn first_whole<A: LiveRules>(
        &self,
        live_rules: A,
        places: &[u32],
        sub_lines: usize,
        ends: bool,
        watch: &mut impl Watch,
    ) -> Option<usize> {
        let mut hit = None;
        for from in (0..self.row_lines).step_by(sub_lines) {
            for line in from..(from + sub_lines).min(self.row_lines) {
                let mut all = [u32::MAX; LINE_WORDS];
                for (slot, &place) in places.iter().enumerate() {
                    watch.line(slot, line);
                    all.iter_mut().zip(self.line(place, line)).for_each(|(all, own)| *all &= own);
                }
                if hit.is_none() {
                    hit = first_bit(live_rules, &all, line);
                }
            }
            if ends && hit.is_some() {
                break;
            }
        }
        hit
    }

    /// Reads line `line` of one vector after another, and stops once they have no common bit.
    #[inline(always)]
    fn first_of_line<A: LiveRules>(
        &self,
        live_rules: A,
        places: &[u32],
        line: usize,
        watch: &mut impl Watch,
    ) -> Option<usize> {
        let mut all = [u32::MAX; LINE_WORDS];
        for (slot, &place) in places.iter().enumerate() {
            watch.line(slot, line);
            all.iter_mut().zip(self.line(place, line)).for_each(|(all, own)| *all &= own);
            if all.iter().fold(0, |any, word| any | word) == 0 {
                return None;
            }
        }
        first_bit(live_rules, &all, line)
    }

    /// Reads each sub-vector of one vector after another, and goes on to the next once they have no common bit.
    #[inline(always)]
    fn first_leaving<A: LiveRules>(
        &self,
        live_rules: A,
        places: &[u32],
        sub_lines: usize,
        watch: &mut impl Watch,
    ) -> Option<usize> {
        if sub_lines == 1 {
            return (0..self.row_lines).find_map(|line| self.first_of_line(live_rules, places, line, watch));
        }
        let mut all = [[0u32; LINE_WORDS]; MOST_SUB_VECTOR / LINE_BITS];
        for from in (0..self.row_lines).step_by(sub_lines) {
            let count = sub_lines.min(self.row_lines - from);
            let all = &mut all[..count];
            all.fill([u32::MAX; LINE_WORDS]);
            let mut is_left = true;
            for (slot, &place) in places.iter().enumerate() {
                let mut any = 0;
                for (line, all) in (from..).zip(&mut *all) {
                    watch.line(slot, line);
                    all.iter_mut().zip(self.line(place, line)).for_each(|(all, own)| *all &= own);
                    any |= all.iter().fold(0, |any, word| any | word);
                }
                is_left = any != 0;
                if !is_left {
                    break;
                }
            }
            if is_left {
                let found = (from..).zip(&*all).find_map(|(line, all)| first_bit(live_rules, all, line));
                if A::ALL || found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Reads the lines whose bit is set in the summaries of all vectors.
    #[inline(always)]
    fn first_summed<A: LiveRules>(&self, live_rules: A, places: &[u32], watch: &mut impl Watch) -> Option<usize> {
        for group in 0..self.groups {
            let mut left = u64::MAX;
            for (slot, &place) in places.iter().enumerate() {
                let at = place as usize * self.groups + group;
                watch.line(places.len() + slot, at / (LINE_WORDS / 2));
                left &= self.summaries[at];
            }
            while left != 0 {
                let line = group * WORD_BITS + left.trailing_zeros() as usize;
                left &= left - 1;
                let found = self.first_of_line(live_rules, places, line, watch);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Reads the words whose bit is set in the summaries of all vectors.
    #[inline(always)]
    fn first_sparse<A: LiveRules>(&self, live_rules: A, places: &[u32], watch: &mut impl Watch) -> Option<usize> {
        let (all, head) = (words(&self.lines), head(self.groups));
        let of = |place: u32, at: usize| {
            let start = place as usize * LINE_WORDS + at;
            word([all[start], all[start + 1]])
        };
        for group in 0..self.groups {
            let mut left = u64::MAX;
            for (slot, &place) in places.iter().enumerate() {
                watch.line(slot, 2 * group / LINE_WORDS);
                left &= of(place, 2 * group);
            }
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let mut common = u64::MAX;
                for (slot, &place) in places.iter().enumerate() {
                    let before = if self.groups > 1 {
                        let at = 2 * self.groups + group / 2;
                        watch.line(slot, at / LINE_WORDS);
                        all[place as usize * LINE_WORDS + at] >> (16 * (group % 2)) & 0xFFFF
                    } else {
                        0
                    };
                    let below = of(place, 2 * group) & ((1 << bit) - 1);
                    let at = head + 2 * (before + below.count_ones()) as usize;
                    watch.line(slot, at / LINE_WORDS);
                    common &= of(place, at);
                    if common == 0 {
                        break;
                    }
                }
                let at = group * WORD_BITS + bit as usize;
                if !A::ALL && common != 0 {
                    let eights = (0..8).map(|eight| u64::from(live_rules.of_eight(8 * at + eight)) << (8 * eight));
                    common &= eights.fold(0, |live, eight| live | eight);
                }
                if common != 0 {
                    return Some(at * WORD_BITS + common.trailing_zeros() as usize);
                }
            }
        }
        None
    }
}

/// Returns the first live product of line number `line` of a vector.
#[inline(always)]
fn first_bit<A: LiveRules>(live_rules: A, words: &[u32; LINE_WORDS], line: usize) -> Option<usize> {
    if A::ALL {
        let at = words.iter().position(|&word| word != 0)?;
        return Some(line * LINE_BITS + at * 32 + words[at].trailing_zeros() as usize);
    }
    words.iter().enumerate().find_map(|(at, &word)| {
        let first = line * LINE_BITS + at * 32;
        let live = (0..4).fold(0, |live, eight| live | live_rules.of_eight(first / 8 + eight) << (8 * eight));
        (word & live != 0).then(|| first + (word & live).trailing_zeros() as usize)
    })
}
