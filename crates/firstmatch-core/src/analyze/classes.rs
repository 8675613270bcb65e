//! Key space in classes: all values of a field that no set of the rules tells apart have one number.
//!
//! A rule on long lists has far more regions than classes. For example, one rule of 2,000 sources and 2,000
//! destinations has four million regions. Its sources are one class and all other addresses another, so that it is one
//! region of classes.
//!
//! # Layout
//! Numbers ascend by the least value of each class. The last number goes on to the largest value of its word, so that
//! every key stands for values. Of a field of several words one word has the number, and the others are open. For
//! example, over a field of 4 bits with the sets {1, 4–7} and {4, 5}:
//!
//! | values | 0 | 1 | 2, 3 | 4, 5 | 6, 7 | 8–15 |
//! |---|---|---|---|---|---|---|
//! | class | 0 | 1 | 0 | 2 | 1 | 0 |
//!
//! The set {1, 4–7} is the classes 1 to 15, of which 2 to 15 all are class 2.
//!
//! Fields whose values decide which keys packets have keep their values, and so do fields with masks. An absent value
//! keeps its number.
//!
//! # Invariants
//! - Two values of one class lie in the same sets, and answers over classes are those over values
//!   (`classes_agree_with_values` in `tests/harness/classes.rs`).

use std::collections::HashMap;
use std::ops::Range;

use super::piece::{Piece, push_region};
use crate::rule::{FieldSets, Region, RuleProducts};
use crate::schema::{Schema, Source};

/// Most intervals that all sets of a field may cover together while its classes are found.
const MOST_COVERED: usize = 1 << 28;

/// Classes of the values of each field; `None` for fields that keep their values.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    schema: Schema,
    fields: Vec<Option<FieldClasses>>,
}

#[derive(Clone, Debug)]
struct FieldClasses {
    /// Word that has the number of the class.
    word: usize,
    /// Number of the class of absent values, which is that value.
    absent: Option<u32>,
    /// Largest number that stands for present values.
    max: u32,
    /// First value of each interval, ascending.
    starts: Vec<u128>,
    /// Class of each interval.
    numbers: Vec<u32>,
    /// Intervals of the classes, one class behind the other; the first is the one with the least value.
    intervals: Vec<u32>,
    /// Number of intervals before those of each class of present values, then of all.
    firsts: Vec<u32>,
}

/// Boxes of a set over the words of its field.
pub(super) type SetBoxes = Vec<Vec<Piece>>;

impl Classes {
    /// Finds the classes that the sets of all these rules leave.
    pub(super) fn of(schema: &Schema, all: &[&RuleProducts]) -> Self {
        let fields = (0..schema.fields().len()).map(|field| {
            let sets: Vec<&FieldSets> = all.iter().map(|products| &products.sets()[field]).collect();
            FieldClasses::of(schema, field, &sets)
        });
        Self { schema: schema.clone(), fields: fields.collect() }
    }

    /// Returns the boxes of each set of each field, over classes.
    pub(super) fn boxes(&self, products: &RuleProducts) -> Vec<Vec<SetBoxes>> {
        let of_field = |(field, sets): (usize, &FieldSets)| {
            let of_set = |number: u32| match &self.fields[field] {
                Some(classes) => classes.boxes(&self.schema, self.schema.words_of(field), sets.of(number)),
                None => {
                    let pieces = |region: Region<'_>| {
                        let mut pieces = Vec::new();
                        push_region(&mut pieces, &region);
                        pieces
                    };
                    sets.of(number).map(pieces).collect()
                }
            };
            (0..sets.len() as u32).map(of_set).collect()
        };
        products.sets().iter().enumerate().map(of_field).collect()
    }

    /// Returns a key with values in place of numbers; `draw` chooses among those of a class by a number.
    pub(super) fn values(&self, key: &[u32], mut draw: impl FnMut() -> u64) -> Vec<u32> {
        let mut out = key.to_vec();
        for (field, classes) in self.fields.iter().enumerate() {
            let Some(classes) = classes.as_ref().filter(|classes| classes.absent != Some(key[classes.word])) else {
                continue;
            };
            let value = classes.value(key[classes.word], draw());
            let words = self.schema.words_of(field);
            out[words.clone()]
                .iter_mut()
                .zip(&self.schema.words()[words])
                .for_each(|(out, word)| *out = word.part(value));
        }
        out
    }

    /// Returns a box over classes as boxes over values; `None` if there are more than `most`, or a field has several
    /// words.
    pub(super) fn value_boxes(&self, of: &[Piece], most: usize) -> Option<Vec<Vec<Piece>>> {
        let mut out = vec![of.to_vec()];
        for (field, classes) in self.fields.iter().enumerate() {
            let Some(classes) = classes else { continue };
            let (word, words) = (classes.word, self.schema.words_of(field));
            if of[word] == Piece::interval(0, self.schema.words()[word].max) {
                continue;
            }
            let spans = classes.spans(of[word]);
            if words.len() > 1 || out.len().saturating_mul(spans.len()) > most {
                return None;
            }
            let with = |before: Vec<Piece>| {
                spans.iter().map(move |&span| {
                    let mut other = before.clone();
                    other[word] = span;
                    other
                })
            };
            out = out.into_iter().flat_map(with).collect();
        }
        Some(out)
    }
}

impl FieldClasses {
    fn of(schema: &Schema, field: usize, all: &[&FieldSets]) -> Option<Self> {
        use Source::{Dst, DstPort, Src, SrcPort, TpDst, TpSrc};
        let words = schema.words_of(field);
        let absent = schema.words()[words.start].absent;
        let source = schema.fields()[field].source();
        let keeps_values = !matches!(source, None | Some(Src | Dst | SrcPort | DstPort | TpSrc | TpDst));
        let has_masks = || all.iter().any(|sets| !sets.boxes().ternary_words().is_empty());
        if keeps_values || absent.is_some() && words.len() > 1 || has_masks() {
            return None;
        }
        // Numbers stand in the widest word.
        let word = words.clone().max_by_key(|&word| schema.words()[word].max)?;
        let max = absent.map_or(schema.words()[word].max, |absent| absent - 1);
        let spans = |sets: &&FieldSets| -> Option<Vec<Vec<(u128, u128)>>> {
            let of_set = |number: u32| sets.of(number).map(|region| span(schema, &words, region)).collect();
            (0..sets.len() as u32).map(of_set).collect()
        };
        let sets: Vec<Vec<(u128, u128)>> = all.iter().map(spans).collect::<Option<Vec<_>>>()?.concat();
        let (_, last) = span(schema, &words, whole(schema, &words).region())?;
        let mut starts: Vec<u128> = vec![0];
        starts.extend(absent.map(u128::from));
        for &(lo, hi) in sets.iter().flatten() {
            starts.push(lo);
            starts.extend((hi < last).then(|| hi + 1));
        }
        starts.sort_unstable();
        starts.dedup();
        let mut numbers = refined(&starts, &sets)?;
        // The absent value is the last one.
        let present = starts.len() - usize::from(absent.is_some());
        let mut known: HashMap<u32, u32> = HashMap::new();
        for number in &mut numbers[..present] {
            let next = known.len() as u32;
            *number = *known.entry(*number).or_insert(next);
        }
        numbers[present..].iter_mut().zip(absent).for_each(|(number, absent)| *number = absent);
        if known.len() as u64 > u64::from(max) + 1 {
            return None;
        }
        let mut intervals: Vec<u32> = (0..present as u32).collect();
        intervals.sort_by_key(|&interval| numbers[interval as usize]);
        let firsts = (0..=known.len() as u32)
            .map(|class| intervals.partition_point(|&interval| numbers[interval as usize] < class) as u32);
        Some(Self { word, absent, max, firsts: firsts.collect(), starts, numbers, intervals })
    }

    fn classes(&self) -> u32 {
        self.firsts.len() as u32 - 1
    }

    /// Returns the boxes of a set, given by its boxes over values.
    fn boxes<'r>(&self, schema: &Schema, words: Range<usize>, set: impl Iterator<Item = Region<'r>>) -> SetBoxes {
        let mut classes: Vec<u32> = Vec::new();
        for (lo, hi) in set.filter_map(|region| span(schema, &words, region)) {
            let from = self.starts.partition_point(|&start| start < lo);
            let to = self.starts.partition_point(|&start| start <= hi);
            classes.extend(&self.numbers[from..to]);
        }
        classes.sort_unstable();
        classes.dedup();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for class in classes {
            let hi = if class + 1 == self.classes() { self.max } else { class };
            match runs.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(class) => *last = hi,
                _ => runs.push((class, hi)),
            }
        }
        let all = whole(schema, &words).0;
        let of_run = |(lo, hi): (u32, u32)| {
            let mut pieces = all.clone();
            pieces[self.word - words.start] = Piece::interval(lo, hi);
            pieces
        };
        runs.into_iter().map(of_run).collect()
    }

    /// Returns the indices of the intervals of the class of a number.
    fn intervals(&self, number: u32) -> &[u32] {
        let class = number.min(self.classes() - 1) as usize;
        &self.intervals[self.firsts[class] as usize..self.firsts[class + 1] as usize]
    }

    /// Returns a value of the class of a number; the least one if `draw` is 0.
    fn value(&self, number: u32, draw: u64) -> u128 {
        let intervals = self.intervals(number);
        let interval = intervals[(draw >> 1) as usize % intervals.len()] as usize;
        let last = self.starts.get(interval + 1).map_or(self.starts[interval], |next| next - 1);
        if draw & 1 == 0 { self.starts[interval] } else { last }
    }

    /// Returns the values of numbers of a field of one word, as merged intervals.
    fn spans(&self, numbers: Piece) -> Vec<Piece> {
        let mut found: Vec<u32> = Vec::new();
        for class in
            (numbers.lo..=numbers.hi.min(self.classes() - 1)).chain([numbers.lo]).filter(|_| numbers.lo <= self.max)
        {
            found.extend(self.intervals(class));
        }
        found.sort_unstable();
        found.dedup();
        let absent = self.absent.filter(|absent| numbers.contains(*absent));
        found.extend(absent.map(|_| self.starts.len() as u32 - 1));
        let mut spans: Vec<Piece> = Vec::new();
        for interval in found {
            let lo = self.starts[interval as usize] as u32;
            let largest = self.absent.unwrap_or(self.max);
            let hi = self.starts.get(interval as usize + 1).map_or(largest, |next| (next - 1) as u32);
            match spans.last_mut() {
                Some(last) if last.hi.checked_add(1) == Some(lo) => last.hi = hi,
                _ => spans.push(Piece::interval(lo, hi)),
            }
        }
        spans
    }
}

/// Returns a number for each interval; intervals in the same sets have the same one.
///
/// Each set splits every class that it holds in part. `None` if the sets cover more than [`MOST_COVERED`] intervals.
fn refined(starts: &[u128], sets: &[Vec<(u128, u128)>]) -> Option<Vec<u32>> {
    let (mut numbers, mut count, mut covered) = (vec![0; starts.len()], 0u32, 0usize);
    for set in sets {
        let mut split: HashMap<u32, u32> = HashMap::new();
        for &(lo, hi) in set {
            let from = starts.partition_point(|&start| start < lo);
            let to = starts.partition_point(|&start| start <= hi);
            covered += to - from;
            if covered > MOST_COVERED {
                return None;
            }
            for number in &mut numbers[from..to] {
                *number = *split.entry(*number).or_insert_with(|| {
                    count += 1;
                    count
                });
            }
        }
    }
    Some(numbers)
}

/// Pieces of all values of a field's words.
struct Whole(Vec<Piece>, Vec<u32>, Vec<u32>);

impl Whole {
    fn region(&self) -> Region<'_> {
        Region { lo: &self.1, hi: &self.2, ternary: None }
    }
}

fn whole(schema: &Schema, words: &Range<usize>) -> Whole {
    let max: Vec<u32> = schema.words()[words.clone()].iter().map(|word| word.max).collect();
    Whole(max.iter().map(|&max| Piece::interval(0, max)).collect(), vec![0; max.len()], max)
}

/// Returns the first and the last value of a box; `None` if it is no interval of whole values.
///
/// It is one if the words before the first open one have one value each, and those behind it have all.
fn span(schema: &Schema, words: &Range<usize>, region: Region<'_>) -> Option<(u128, u128)> {
    let of = &schema.words()[words.clone()];
    let open = region.lo.iter().zip(region.hi).position(|(lo, hi)| lo != hi).map_or(of.len(), |open| open + 1);
    let is_whole = (open..of.len()).all(|word| region.lo[word] == 0 && region.hi[word] == of[word].max);
    let value = |ends: &[u32]| ends.iter().zip(of).fold(0, |all, (&end, word)| all | u128::from(end) << word.shift);
    is_whole.then(|| (value(region.lo), value(region.hi)))
}
