//! Fields of which a block has one bound.

use std::ops::Range;

use crate::engine::containing_prefix;
use crate::rule::Region;
use crate::schema::Schema;

/// A field that is a prefix in every region: its lanes take a word each, and all together a byte for how many of the last
/// bits are open, where every lane counts 32.
#[derive(Clone, Debug)]
pub(super) struct Prefixes {
    pub(super) lanes: Range<usize>,
    /// The most of each lane.
    pub(super) most: Box<[u32]>,
}

impl Prefixes {
    /// The most lanes that eight bits are enough for.
    const LANES: usize = u8::MAX as usize / 32;

    /// The fields that can be, as far as their lanes go.
    pub(super) fn possible(schema: &Schema) -> impl Iterator<Item = Self> {
        let fields = (0..schema.fields().len()).map(|field| Self {
            lanes: schema.lanes_of(field),
            most: schema.lanes()[schema.lanes_of(field)].iter().map(|lane| lane.max).collect(),
        });
        // A lane of 16 bits, and a value for absent, is as narrow with two bounds.
        fields.filter(|of| (1..=Self::LANES).contains(&of.lanes.len()) && (of.lanes.len() > 1 || of.most[0] >> 17 != 0))
    }

    /// How many bits a region's prefix leaves open; `None` where it is none.
    pub(super) fn open(&self, region: &Region<'_>) -> Option<u32> {
        let (mut open, mut is_open) = (0, false);
        for (lane, &most) in self.lanes.clone().zip(&self.most) {
            let (lo, hi) = (region.lo[lane], region.hi[lane]);
            let fixed = containing_prefix(lo, hi);
            if lo == 0 && hi >= most {
                open += u32::BITS;
                is_open = true;
            } else if is_open || (lo & !fixed, hi & !fixed) != (0, !fixed) {
                return None;
            } else {
                open += fixed.count_zeros();
                is_open = fixed != u32::MAX;
            }
        }
        Some(open)
    }

    /// Some lane of a prefix that leaves so many bits open.
    pub(super) fn bounds(&self, lane: usize, value: u32, open: u32) -> (u32, u32) {
        let at = lane - self.lanes.start;
        let behind = u32::BITS * (self.lanes.len() - 1 - at) as u32;
        match open.saturating_sub(behind).min(u32::BITS) {
            u32::BITS => (0, self.most[at]),
            open => (value, value | ((1 << open) - 1)),
        }
    }
}
