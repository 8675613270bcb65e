//! Points of regions.

use std::ops::Range;

use firstmatch_core::Schema;
use firstmatch_core::rule::Region;

use crate::random::Random;

/// Where in a rule a key lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// Anywhere in the rule.
    Interior,
    /// Each field at one of its ends.
    Corners,
    /// A corner in half of the cases, else a corner with one field moved out of the rule.
    ///
    /// The move is one step, below the field's low end or above its high end, where there is room.
    Edges,
    /// Anywhere at all, each field uniformly, regardless of the rules.
    Uniform,
}

/// Words of a schema, prepared for drawing points.
pub(super) struct Cells<'s> {
    schema: &'s Schema,
    /// Largest value of each word that does not mean absence.
    max: Vec<u32>,
}

impl<'s> Cells<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        let max = schema.words().iter().map(|word| word.absent.map_or(word.max, |absent| absent - 1));
        Self { schema, max: max.collect() }
    }

    /// Fills `row` with a point of `region`; for [`Points::Uniform`] the region plays no part.
    pub(super) fn point(&self, region: Region<'_>, points: Points, random: &mut Random, row: &mut [u32]) {
        if points == Points::Uniform {
            for (word, &max) in row.iter_mut().zip(&self.max) {
                *word = random.between(0, max);
            }
            return;
        }
        let fields = self.schema.fields().len();
        for field in 0..fields {
            let high = random.coin();
            for word in self.schema.words_of(field) {
                // If the region holds only absence, the value is absence.
                let lo = region.lo[word];
                let hi = region.hi[word].min(self.max[word]).max(lo);
                row[word] = match points {
                    Points::Interior => random.between(lo, hi),
                    _ if high => hi,
                    _ => lo,
                };
            }
        }
        if let Some((value, mask)) = region.ternary {
            for ((word, value), mask) in row.iter_mut().zip(value).zip(mask) {
                *word = *word & !mask | value;
            }
        }
        if points == Points::Edges && random.coin() {
            let field = random.index(fields);
            beside(self.schema.words_of(field), region, &self.max, random, row);
        }
    }
}

/// Moves the field with the words `field` one step out of `region`, where there is room.
pub(crate) fn beside(field: Range<usize>, region: Region<'_>, max: &[u32], random: &mut Random, row: &mut [u32]) {
    for word in field.rev() {
        let (lo, hi) = (region.lo[word], region.hi[word].min(max[word]));
        match random.coin() {
            true if hi < max[word] => return row[word] = hi + 1,
            _ if lo > 0 => return row[word] = lo - 1,
            _ => {}
        }
    }
}
