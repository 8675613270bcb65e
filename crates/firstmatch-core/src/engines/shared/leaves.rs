//! Leaves: searches from the value of a whole field to a number, over all elementary intervals of the field.
//!
//! Unlike a search for each word, they find lists of long prefixes, whose words depend on each other.

use std::ops::Range;

use crate::key::Keys;
use crate::raw::{Isa, LINE_WORDS, Line, Pages};
use crate::rule::{Region, unite_intervals};
use crate::schema::Schema;

/// Largest number of keys of one call of [`Leaves::find`].
pub(crate) const MOST_KEYS: usize = 32;
/// Number of values below which a field of one word may have pages.
const PAGED: u128 = 1 << 17;
/// Number of bytes of pages that are better than a tree.
const MOST_PAGES: usize = 64 << 10;
/// Number of halves of wide values in a line.
const HALVES: usize = 8;

/// Field of a key as one number.
///
/// A field of one word has the values of the word, so that an absent value is the largest. In a field of several words
/// an absent value stands apart.
#[derive(Clone, Debug)]
pub(crate) struct FieldWords {
    /// Index of the first word, and the number of bits to the right of each word.
    first: usize,
    shifts: Box<[u32]>,
    /// Value of the first word if the field is absent, in an optional field of several words.
    absent: Option<u32>,
    /// Largest value.
    most: u128,
}

/// Values of a set: intervals in order, none of which touch, and whether it holds an absent value that stands apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(crate) intervals: Box<[(u128, u128)]>,
    pub(crate) absent: bool,
}

impl FieldWords {
    pub(crate) fn new(schema: &Schema, field: usize) -> Self {
        let range = schema.words_of(field);
        let words = &schema.words()[range.clone()];
        let is_wide = words.len() > 1;
        let absent = words[0].absent.filter(|_| is_wide);
        let most = if is_wide { schema.fields()[field].max() } else { u128::from(words[0].max) };
        Self { first: range.start, shifts: words.iter().map(|word| word.shift).collect(), absent, most }
    }

    /// Returns the largest value.
    pub(crate) fn most(&self) -> u128 {
        self.most
    }

    /// Whether an absent value stands apart.
    pub(crate) fn has_absent(&self) -> bool {
        self.absent.is_some()
    }

    /// Returns the indices of the words.
    pub(crate) fn words(&self) -> Range<usize> {
        self.first..self.first + self.shifts.len()
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.shifts[..])
    }

    /// Returns the value of the field in a key; `None` if it is absent and stands apart.
    #[inline(always)]
    pub(crate) fn value(&self, key: &[u32]) -> Option<u128> {
        let words = &key[self.first..][..self.shifts.len()];
        if self.absent == Some(words[0]) { None } else { Some(joined(words, &self.shifts)) }
    }

    /// Returns the values of boxes over the field's words; `None` if a box is no interval of whole values.
    pub(crate) fn set<'a>(&self, boxes: impl Iterator<Item = Region<'a>>) -> Option<FieldSet> {
        let (mut intervals, mut absent) = (Vec::new(), false);
        for of in boxes {
            if of.ternary.is_some_and(|(_, mask)| mask.iter().any(|&mask| mask != 0)) {
                return None;
            }
            self.interval(of.lo, of.hi, &mut intervals, &mut absent)?;
        }
        Some(FieldSet { intervals: unite_intervals(intervals).into(), absent })
    }

    /// Adds the values of a box.
    fn interval(
        &self,
        lo: &[u32],
        hi: &[u32],
        intervals: &mut Vec<(u128, u128)>,
        holds_absent: &mut bool,
    ) -> Option<()> {
        let full = |at: usize| u32::MAX >> (32 - (self.shifts[at - 1] - self.shifts[at]).min(32));
        let mut is_open = false;
        for at in 0..lo.len() {
            if is_open && (lo[at], hi[at]) != (0, full(at)) {
                return None;
            }
            is_open |= lo[at] != hi[at];
        }
        let mut top = hi[0];
        if let Some(absent) = self.absent
            && hi[0] >= absent
        {
            // The lower words of an absent value are 0.
            *holds_absent |= lo[1..].iter().all(|&lo| lo == 0);
            if lo[0] >= absent {
                return Some(());
            }
            top = absent - 1;
        }
        let mut end = hi.to_vec();
        if top != hi[0] {
            end[0] = top;
            (1..end.len()).for_each(|at| end[at] = full(at));
        }
        intervals.push((joined(lo, &self.shifts), joined(&end, &self.shifts)));
        Some(())
    }

    /// Whether a set holds every value, absent ones included.
    pub(crate) fn is_open(&self, set: &FieldSet) -> bool {
        *set.intervals == [(0, self.most)] && set.absent == self.has_absent()
    }
}

/// Returns words as one number.
#[inline(always)]
fn joined(words: &[u32], shifts: &[u32]) -> u128 {
    words.iter().zip(shifts).fold(0, |sum, (&word, &shift)| sum | u128::from(word).checked_shl(shift).unwrap_or(0))
}

impl FieldSet {
    /// Number of values, at most `u128::MAX`.
    pub(crate) fn count(&self) -> u128 {
        self.intervals.iter().fold(0, |sum: u128, &(lo, hi)| sum.saturating_add(hi - lo).saturating_add(1))
    }

    /// Whether a value, or none, is in the set.
    pub(crate) fn contains(&self, value: Option<u128>) -> bool {
        match value {
            None => self.absent,
            Some(value) => {
                let behind = self.intervals.partition_point(|&(lo, _)| lo <= value);
                behind > 0 && value <= self.intervals[behind - 1].1
            }
        }
    }
}

/// Search from the values of a field to numbers.
#[derive(Debug)]
pub(crate) struct Leaves {
    words: FieldWords,
    search: Search,
}

#[derive(Debug)]
enum Search {
    /// Table for a field of few values, in pages.
    Paged(Pages),
    /// Tree of the starts of all intervals, for a field of one word.
    Narrow { starts: Levels<Line>, numbers: Box<[u32]> },
    /// Tree of the upper halves of all starts, and the lower halves and numbers behind each.
    Wide {
        /// Number of bits of a lower half.
        shift: u32,
        highs: Levels<Halves>,
        /// Number of starts before the first of each upper half, then the number of all starts.
        firsts: Box<[u32]>,
        lows: Box<[u64]>,
        numbers: Box<[u32]>,
        absent: u32,
    },
}

/// Line of upper halves.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Halves([u64; HALVES]);

/// Node of a search tree: one line of starts, the last ones repeated to fill it.
trait Node: Copy {
    type Start: Copy + Ord;
    /// Number of starts.
    const WAYS: usize;

    fn of(starts: &[Self::Start]) -> Self;

    /// Returns the index of the last start that is at most `value`; 0 if all are larger.
    fn last<I: Isa>(&self, isa: I, value: Self::Start) -> usize;
}

impl Node for Line {
    type Start = u32;
    const WAYS: usize = LINE_WORDS;

    fn of(starts: &[u32]) -> Self {
        Self(std::array::from_fn(|at| starts.get(at).copied().unwrap_or(u32::MAX)))
    }

    #[inline(always)]
    fn last<I: Isa>(&self, isa: I, value: u32) -> usize {
        isa.count_at_most(&self.0, 0xFFFF, value).saturating_sub(1)
    }
}

impl Node for Halves {
    type Start = u64;
    const WAYS: usize = HALVES;

    fn of(starts: &[u64]) -> Self {
        Self(std::array::from_fn(|at| starts.get(at).copied().unwrap_or(u64::MAX)))
    }

    #[inline(always)]
    fn last<I: Isa>(&self, _isa: I, value: u64) -> usize {
        let mut count = 0;
        for &start in &self.0 {
            count += usize::from(start <= value);
        }
        count.saturating_sub(1)
    }
}

/// Search tree over starts: each node has the first starts of as many nodes of the next level.
#[derive(Debug)]
struct Levels<N> {
    nodes: Box<[N]>,
    /// Index of the first node of each level, and its last child: a node of the next level or a start.
    levels: Box<[(u32, u32)]>,
}

impl<N: Node> Levels<N> {
    /// Builds the tree of some starts, which ascend.
    fn new(starts: &[N::Start]) -> Self {
        let mut levels = vec![starts.to_vec()];
        while let Some(last) = levels.last()
            && last.len() > N::WAYS
        {
            levels.push(last.iter().step_by(N::WAYS).copied().collect());
        }
        let (mut nodes, mut places) = (Vec::new(), Vec::new());
        for starts in levels.iter().rev() {
            places.push((nodes.len() as u32, starts.len().saturating_sub(1) as u32));
            nodes.extend(starts.chunks(N::WAYS).map(N::of));
        }
        Self { nodes: nodes.into(), levels: places.into() }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.levels[..])
    }

    /// Finds the index of the last start that is at most each value. The first start must be.
    ///
    /// All values go down a level together, so that their loads overlap.
    #[inline(always)]
    fn find<I: Isa>(&self, isa: I, values: &[N::Start], found: &mut [u32]) {
        found.fill(0);
        for &(first, last) in &self.levels {
            let nodes = &self.nodes[first as usize..];
            for (found, &value) in found.iter_mut().zip(values) {
                let at = *found as usize;
                // Padding may equal a value, therefore the limit.
                *found = ((at * N::WAYS + nodes[at].last(isa, value)) as u32).min(last);
            }
        }
    }
}

impl Leaves {
    /// Builds the search of a field.
    ///
    /// `starts` are those of all intervals, the first of which is 0, with a number each. `absent` is the number of an
    /// absent value that stands apart.
    pub(crate) fn new(schema: &Schema, field: usize, starts: &[u128], numbers: &[u32], absent: u32) -> Self {
        let words = FieldWords::new(schema, field);
        let search = match words.shifts.len() {
            1 => paged(&words, starts, numbers).unwrap_or_else(|| {
                let starts: Vec<u32> = starts.iter().map(|&start| start as u32).collect();
                Search::Narrow { starts: Levels::new(&starts), numbers: numbers.into() }
            }),
            _ => {
                let shift = (u128::BITS - words.most.leading_zeros()).saturating_sub(u64::BITS);
                let high = |&start: &u128| (start >> shift) as u64;
                let (mut highs, mut firsts) = (Vec::new(), vec![0]);
                for of in starts.chunk_by(|a, b| high(a) == high(b)) {
                    highs.push(high(&of[0]));
                    firsts.push(firsts[firsts.len() - 1] + of.len() as u32);
                }
                let lows = starts.iter().map(|&start| low(start, shift)).collect();
                let (highs, firsts) = (Levels::new(&highs), firsts.into());
                Search::Wide { shift, highs, firsts, lows, numbers: numbers.into(), absent }
            }
        };
        Self { words, search }
    }

    /// Returns the index of the first word of the field.
    pub(crate) fn first_word(&self) -> usize {
        self.words.first
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes()
            + match &self.search {
                Search::Paged(pages) => pages.bytes(),
                Search::Narrow { starts, numbers } => starts.bytes() + size_of_val(&numbers[..]),
                Search::Wide { highs, firsts, lows, numbers, .. } => {
                    let behind = size_of_val(&firsts[..]) + size_of_val(&lows[..]);
                    highs.bytes() + behind + size_of_val(&numbers[..])
                }
            }
    }

    /// Number of cache lines that a search reads in the worst case.
    pub(crate) fn lines(&self) -> usize {
        match &self.search {
            Search::Paged(_) => 2,
            Search::Narrow { starts, .. } => starts.levels.len() + 1,
            Search::Wide { highs, firsts, .. } => {
                let longest = firsts.windows(2).map(|of| of[1] - of[0]).max().unwrap_or(0);
                highs.levels.len() + 3 + longest.max(1).ilog2() as usize
            }
        }
    }

    /// Finds the number of each key, at most [`MOST_KEYS`] of them.
    #[inline(always)]
    pub(crate) fn find<I: Isa>(&self, isa: I, keys: &Keys<'_>, found: &mut [u32]) {
        match &self.search {
            Search::Paged(pages) => {
                let pages = pages.view();
                for (at, found) in found.iter_mut().enumerate() {
                    *found = u32::from(pages.get(isa, keys.row(at)[self.words.first]));
                }
            }
            Search::Narrow { starts, numbers } => {
                let mut values = [0; MOST_KEYS];
                for (at, value) in values[..found.len()].iter_mut().enumerate() {
                    *value = keys.row(at)[self.words.first];
                }
                starts.find(isa, &values[..found.len()], found);
                found.iter_mut().for_each(|found| *found = numbers[*found as usize]);
            }
            Search::Wide { shift, highs, firsts, lows, numbers, absent } => {
                let (mut values, mut upper) = ([None; MOST_KEYS], [0; MOST_KEYS]);
                for (at, (value, upper)) in values[..found.len()].iter_mut().zip(&mut upper).enumerate() {
                    *value = self.words.value(keys.row(at));
                    *upper = (value.unwrap_or(0) >> shift) as u64;
                }
                highs.find(isa, &upper[..found.len()], found);
                for (found, value) in found.iter_mut().zip(values) {
                    *found = value.map_or(*absent, |value| {
                        let at = *found as usize;
                        let of = firsts[at] as usize..firsts[at + 1] as usize;
                        // A start is the number of its upper half, then of its lower half.
                        let is_equal = (value >> shift) as u64 == self.high_of(highs, at);
                        let low = if is_equal { low(value, *shift) } else { u64::MAX };
                        let behind = of.start + lows[of].partition_point(|&start| start <= low);
                        numbers[behind.saturating_sub(1)]
                    });
                }
            }
        }
    }

    /// Returns an upper half by its index.
    #[inline(always)]
    fn high_of(&self, highs: &Levels<Halves>, at: usize) -> u64 {
        let first = highs.levels[highs.levels.len() - 1].0 as usize;
        highs.nodes[first + at / HALVES].0[at % HALVES]
    }
}

/// Returns the lower half of a value, which has `shift` bits.
#[inline(always)]
fn low(value: u128, shift: u32) -> u64 {
    (value & ((1 << shift) - 1)) as u64
}

/// Builds pages of a field's numbers, if it has few values and its numbers have 16 bits.
fn paged(words: &FieldWords, starts: &[u128], numbers: &[u32]) -> Option<Search> {
    if words.most >= PAGED || numbers.iter().any(|&number| number > u32::from(u16::MAX)) {
        return None;
    }
    let ends = starts[1..].iter().copied().chain([words.most + 1]);
    let mut each = Vec::with_capacity(words.most as usize + 1);
    ends.zip(numbers).for_each(|(end, &number)| each.resize(end as usize, number as u16));
    Pages::new(&each).filter(|pages| pages.bytes() <= MOST_PAGES).map(Search::Paged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyBuf;
    use crate::raw::{Kernel, Level, dispatch};
    use crate::rule::{
        Action, Condition, ExpansionLimits, FieldValues, Priority, RuleSet, RuleSpec, Test, first_match, lower,
    };
    use crate::schema::{Field, Kind};

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            self.0 >> 31 ^ self.0 << 40
        }
    }

    /// Kernel that finds the interval of values around each start.
    struct Find<'a> {
        leaves: &'a Leaves,
        schema: &'a Schema,
        values: &'a [Option<u128>],
        want: &'a [u32],
    }

    impl Kernel for Find<'_> {
        fn run<I: Isa>(self, isa: I) {
            for (values, want) in self.values.chunks(MOST_KEYS).zip(self.want.chunks(MOST_KEYS)) {
                let mut keys = KeyBuf::new(self.schema);
                for &value in values {
                    keys.push_values(&FieldValues { family: None, values: vec![value] });
                }
                let mut found = vec![9; values.len()];
                self.leaves.find(isa, &keys.keys(), &mut found);
                assert_eq!(found, want, "{values:?} of {:?}", self.schema);
            }
        }
    }

    /// Every width finds the interval of each value, next to every start and at both ends, absent ones included.
    #[test]
    fn leaves_find_the_interval_of_every_value() {
        let mut random = Random(3);
        for (width, word_bits) in [(3, 32), (9, 32), (16, 32), (17, 32), (31, 32), (32, 32), (40, 32), (64, 32)]
            .into_iter()
            .chain([(65, 32), (128, 32), (8, 2), (9, 3)])
        {
            for optional in [false, true] {
                let field = Field::new("field", width, Kind::Range, None);
                let field = if optional { field.optional() } else { field };
                let schema = Schema::with_word_bits(None, vec![field], word_bits);
                let is_wide = schema.words().len() > 1;
                let most = FieldWords::new(&schema, 0).most();
                for count in [0, 1, 7, 8, 15, 16, 17, 300, 5000] {
                    let mut starts: Vec<u128> = (0..count)
                        .map(|at| {
                            let any = u128::from(random.next()) << 64 | u128::from(random.next());
                            // A third of the starts share their upper half.
                            let near = if at % 3 == 0 { any & 0xFFFF } else { any };
                            if most == u128::MAX { near } else { near % (most + 1) }
                        })
                        .chain([0, most])
                        .collect();
                    starts.sort_unstable();
                    starts.dedup();
                    let numbers: Vec<u32> = (0..starts.len() as u32).map(|at| at * 13 + 1).collect();
                    let leaves = Leaves::new(&schema, 0, &starts, &numbers, 7);
                    let max = schema.fields()[0].max();
                    let near = |&start: &u128| [start.saturating_sub(1), start, start.saturating_add(1)];
                    let values = starts.iter().flat_map(near).chain([max]).filter(|&value| value <= max);
                    let mut values: Vec<Option<u128>> = values.map(Some).collect();
                    if optional {
                        values.push(None);
                    }
                    let of = |&value: &Option<u128>| match value {
                        Some(value) => numbers[starts.partition_point(|&start| start <= value) - 1],
                        None if is_wide => 7,
                        None => numbers[numbers.len() - 1],
                    };
                    let want: Vec<u32> = values.iter().map(of).collect();
                    for level in Level::available() {
                        dispatch(level, Find { leaves: &leaves, schema: &schema, values: &values, want: &want });
                    }
                }
            }
        }
    }

    /// Boxes of a field are its values, whatever the width of the words; boxes that are no interval are none.
    #[test]
    fn boxes_are_intervals_of_whole_values() {
        let all = [
            (vec![Test::Range { lo: 0, hi: 255 }], true),
            (vec![Test::Range { lo: 0, hi: 255 }, Test::Absent], true),
            (vec![Test::Absent], true),
            (vec![Test::Value(3), Test::Range { lo: 9, hi: 70 }, Test::Value(4)], true),
            (vec![Test::Range { lo: 5, hi: 199 }, Test::Value(255), Test::Absent], true),
            (vec![Test::Mask { value: 0x01, mask: 0x0F }], false),
        ];
        for word_bits in [2, 3, 8, 32] {
            let schema = Schema::with_word_bits(None, vec![Field::new("f", 8, Kind::Mask, None).optional()], word_bits);
            let words = FieldWords::new(&schema, 0);
            for ((tests, is_interval), negated) in all.iter().flat_map(|of| [(of, false), (of, true)]) {
                let tests = tests.iter().map(|&test| (None, test)).collect();
                let conditions = vec![Condition { field: 0, negated, tests }].into();
                let (priority, action) = (Priority(1), Action::Permit);
                let mut set = RuleSet::new(schema.clone());
                set.insert(RuleSpec { priority, action, conditions, family: None, line: None, value: 0 })
                    .expect("it fits");
                let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the limits");
                let found = words.set(lowered.regions().iter());
                assert!(found.is_some() || !is_interval, "{set:?}, {word_bits} bits");
                let Some(found) = found else { continue };
                for value in (0..256).map(Some).chain([None]) {
                    let want = first_match(&set, &FieldValues { family: None, values: vec![value] }).is_some();
                    // In one word an absent value is the largest.
                    let of = if schema.words().len() == 1 { Some(value.unwrap_or(256)) } else { value };
                    assert_eq!(found.contains(of), want, "{value:?}, {word_bits} bits, {found:?}");
                }
            }
        }
    }
}
