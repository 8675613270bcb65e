//! Fields of several lanes of which a block has one bound.

use std::ops::Range;

use crate::engine::containing_prefix;
use crate::rule::{Region, Regions};
use crate::schema::Schema;

/// A field of several lanes that is a prefix in every region: its lanes take a word each, and all together a byte for the
/// length, where every lane before the last counts 32 bits.
#[derive(Clone, Debug)]
pub(super) struct Prefixes {
    pub(super) lanes: Range<usize>,
    /// The most of each lane.
    pub(super) most: Box<[u32]>,
}

impl Prefixes {
    /// The most lanes that a length of eight bits is enough for.
    const LANES: usize = u8::MAX as usize / 32;

    /// Of the fields that can be.
    pub(super) fn of(schema: &Schema, regions: &Regions) -> Vec<Self> {
        let ternary = regions.ternary_lanes();
        let fields = (0..schema.fields().len()).map(|field| Self {
            lanes: schema.lanes_of(field),
            most: schema.lanes()[schema.lanes_of(field)].iter().map(|lane| lane.max).collect(),
        });
        let is_one = |of: &Self| {
            (2..=Self::LANES).contains(&of.lanes.len())
                && !ternary.iter().any(|lane| of.lanes.contains(lane))
                && regions.iter().all(|region| of.len(&region).is_some())
        };
        fields.filter(is_one).collect()
    }

    /// The length of a region's prefix; `None` where it is none.
    pub(super) fn len(&self, region: &Region<'_>) -> Option<u32> {
        let (mut len, mut is_open) = (0, false);
        for (lane, &most) in self.lanes.clone().zip(&self.most) {
            let (lo, hi) = (region.lo[lane], region.hi[lane]);
            let fixed = containing_prefix(lo, hi);
            if lo == 0 && hi >= most {
                is_open = true;
            } else if is_open || (lo & !fixed, hi & !fixed) != (0, !fixed) {
                return None;
            } else {
                len += fixed.count_ones();
                is_open = fixed != u32::MAX;
            }
        }
        Some(len)
    }

    /// Some lane of a prefix.
    pub(super) fn bounds(&self, lane: usize, value: u32, len: u32) -> (u32, u32) {
        let at = lane - self.lanes.start;
        match len.saturating_sub(32 * at as u32) {
            0 => (0, self.most[at]),
            fixed => (value, value | u32::MAX.checked_shr(fixed).unwrap_or(0)),
        }
    }
}
