//! Fields of which a block has one bound.

use std::ops::Range;

use crate::engine::containing_prefix;
use crate::rule::{Region, Regions};
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

    /// Of the fields that can be; those of one lane only where that is asked for, and not where it has 16 bits or fewer.
    pub(super) fn of(schema: &Schema, regions: &Regions, is_narrow: bool) -> Vec<Self> {
        let ternary = regions.ternary_lanes();
        let fields = (0..schema.fields().len()).map(|field| Self {
            lanes: schema.lanes_of(field),
            most: schema.lanes()[schema.lanes_of(field)].iter().map(|lane| lane.max).collect(),
        });
        let is_one = |of: &Self| {
            (1..=Self::LANES).contains(&of.lanes.len())
                && (of.lanes.len() > 1 || (is_narrow && of.most[0] >> 17 != 0))
                && !ternary.iter().any(|lane| of.lanes.contains(lane))
                && regions.iter().all(|region| of.open(&region).is_some())
        };
        fields.filter(is_one).collect()
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
