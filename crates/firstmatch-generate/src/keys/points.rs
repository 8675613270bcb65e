//! Points of boxes over lanes.

use std::ops::Range;

use firstmatch::Schema;
use firstmatch::rule::Region;

use crate::random::Random;

/// Where in a rule a key lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// Anywhere in it.
    Interior,
    /// Each field at one of its ends.
    Corners,
    /// Half of them corners, half a corner with one field moved one step out of the rule, below its low end or above
    /// its high one, where there is room.
    Edges,
    /// Anywhere at all, each field uniformly: rules play no part.
    Uniform,
}

/// The lanes of a schema, ready to draw points over.
pub(super) struct Cells<'s> {
    schema: &'s Schema,
    /// The largest value of each lane that is not absence.
    max: Vec<u32>,
}

impl<'s> Cells<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        let max = schema.lanes().iter().map(|lane| lane.absent.map_or(lane.max, |absent| absent - 1));
        Self { schema, max: max.collect() }
    }

    /// Fills a row with a point of a region, or of [`Points::Uniform`] whatever the region.
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
            for lane in self.schema.lanes_of(field) {
                // Where only absence is left, that it is.
                let lo = region.lo[lane];
                let hi = region.hi[lane].min(self.max[lane]).max(lo);
                row[lane] = match points {
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
            beside(self.schema.lanes_of(field), region, &self.max, random, row);
        }
    }
}

/// Moves the field of these lanes one step outside a region, where there is room.
pub(crate) fn beside(field: Range<usize>, region: Region<'_>, max: &[u32], random: &mut Random, row: &mut [u32]) {
    for lane in field.rev() {
        let (lo, hi) = (region.lo[lane], region.hi[lane].min(max[lane]));
        match random.coin() {
            true if hi < max[lane] => return row[lane] = hi + 1,
            _ if lo > 0 => return row[lane] = lo - 1,
            _ => {}
        }
    }
}
