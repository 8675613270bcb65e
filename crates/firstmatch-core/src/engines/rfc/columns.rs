//! Columns of a key: whole words, and halves of words.

use std::collections::BTreeMap;

use crate::engine::budget::Visits;
use crate::engines::shared::{Interval, Masks, Products, unite};
use crate::error::BuildError;
use crate::schema::Schema;

/// Bits of a word that are looked up together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) word: usize,
    /// Number of bits to the right of the column.
    pub(super) shift: u32,
    /// Mask of the bits that are left after the shift.
    pub(super) bits: u32,
    /// Largest value.
    pub(super) max: u32,
}

/// Number of bits of the lower half of a word.
const HALF: u32 = 16;
/// Largest value of a half.
const MOST: u32 = (1 << HALF) - 1;

impl Column {
    fn whole(word: usize, max: u32) -> Self {
        Self { word, shift: 0, bits: u32::MAX, max }
    }

    /// Returns the value of a word in this column.
    #[inline(always)]
    pub(super) fn of(&self, word: u32) -> u32 {
        word >> self.shift & self.bits
    }
}

/// Returns the columns of a schema, and the products over them.
///
/// A word for which `is_split` is true has two columns, the upper half first. An interval of such a word is up to three
/// products. For example, 10.0.255.254 to 10.3.0.1 is the lower half 255.254 to 255.255 under 10.0, every lower half
/// under 10.1 to 10.2, and 0.0 to 0.1 under 10.3.
///
/// # Errors
/// If there were too many visits.
pub(super) fn columns(
    schema: &Schema,
    products: Products,
    is_split: &[bool],
    visits: &Visits,
) -> Result<(Vec<Column>, Products), BuildError> {
    let mut columns = Vec::new();
    for (word, (of, &is_split)) in schema.words().iter().zip(is_split).enumerate() {
        if is_split {
            columns.push(Column { word, shift: HALF, bits: MOST, max: of.max >> HALF });
            columns.push(Column { word, shift: 0, bits: MOST, max: MOST });
        } else {
            columns.push(Column::whole(word, of.max));
        }
    }
    if columns.len() == is_split.len() {
        return Ok((columns, products));
    }
    let mut all = Products {
        matches: Vec::new(),
        firsts: vec![0],
        intervals: vec![Vec::new(); columns.len()],
        masks: Vec::new(),
    };
    let mut next = vec![0; is_split.len()];
    for rule in products.firsts.windows(2) {
        for product in rule[0] as usize..rule[1] as usize {
            let mut of_words = Vec::new();
            for (word, next) in next.iter_mut().enumerate() {
                let rest = &products.intervals[word][*next..];
                let own = rest.iter().take_while(|(of, _)| *of == product).map(|&(_, interval)| interval);
                let own: Vec<Interval> = own.collect();
                *next += own.len();
                let max = schema.words()[word].max;
                of_words.push(if is_split[word] { halves(&own, max) } else { vec![vec![own]] });
            }
            let count = of_words.iter().fold(1usize, |count, pieces| count.saturating_mul(pieces.len()));
            visits.add(count.saturating_mul(columns.len()));
            visits.check()?;
            let masks = split_masks(&products.masks[product], is_split);
            for mut at in 0..count {
                let mut column = 0;
                for pieces in &of_words {
                    for set in &pieces[at % pieces.len()] {
                        all.intervals[column].extend(set.iter().map(|&interval| (all.matches.len(), interval)));
                        column += 1;
                    }
                    at /= pieces.len();
                }
                all.masks.push(masks.clone());
                all.matches.push(products.matches[product]);
            }
        }
        all.firsts.push(all.matches.len() as u32);
    }
    Ok((columns, all))
}

/// Returns intervals of a word as pairs of sets: intervals of the upper half, and intervals of the lower half.
fn halves(intervals: &[Interval], max: u32) -> Vec<Vec<Vec<Interval>>> {
    let mut by_lower: BTreeMap<Interval, Vec<Interval>> = BTreeMap::new();
    for &(lo, hi) in intervals {
        // No key has values beyond the largest, so an interval that ends there may include them.
        let hi = if hi == max { hi | MOST } else { hi };
        let (mut first, mut last) = (i64::from(lo >> HALF), i64::from(hi >> HALF));
        let (lower, upper) = (lo & MOST, hi & MOST);
        if first == last {
            by_lower.entry((lower, upper)).or_default().push((first as u32, first as u32));
            continue;
        }
        if lower != 0 {
            by_lower.entry((lower, MOST)).or_default().push((first as u32, first as u32));
            first += 1;
        }
        if upper != MOST {
            by_lower.entry((0, upper)).or_default().push((last as u32, last as u32));
            last -= 1;
        }
        if first <= last {
            by_lower.entry((0, MOST)).or_default().push((first as u32, last as u32));
        }
    }
    by_lower.into_iter().map(|(lower, upper)| vec![unite(upper), vec![lower]]).collect()
}

fn split_masks(masks: &Masks, is_split: &[bool]) -> Masks {
    let halves = masks.iter().zip(is_split).flat_map(|(&(value, mask), &is_split)| {
        let upper = is_split.then_some((value >> HALF, mask >> HALF));
        let kept = if is_split { MOST } else { u32::MAX };
        upper.into_iter().chain([(value & kept, mask & kept)])
    });
    halves.collect()
}
