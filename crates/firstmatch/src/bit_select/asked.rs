//! What regions ask of lanes, as far as columns depend on it.

use super::prefixes::Prefixes;
use crate::rule::{Region, Regions};
use crate::schema::Schema;

/// What holds for every region.
pub(super) struct Asked {
    /// Of each lane whether every region lets everything through or does not take the value for absent.
    pub(super) all_or_required: Vec<bool>,
    /// For each lane whether some region does not let everything through.
    pub(super) any: Vec<bool>,
    /// Of each lane whether [`is_single`] says so.
    pub(super) single: Vec<bool>,
    /// The fields that are prefixes.
    pub(super) prefixes: Vec<Prefixes>,
    /// The lanes that some region has a value under a mask for.
    pub(super) ternary: Vec<usize>,
}

impl Asked {
    /// Looks at every region once.
    pub(super) fn of(schema: &Schema, regions: &Regions) -> Self {
        let ternary = regions.ternary_lanes();
        let is_ternary = |of: &Prefixes| ternary.iter().any(|lane| of.lanes.contains(lane));
        let mut prefixes: Vec<Prefixes> = Prefixes::possible(schema).filter(|of| !is_ternary(of)).collect();
        let [mut all_or_required, mut single] = [(); 2].map(|()| vec![true; schema.lanes().len()]);
        let mut any = vec![false; schema.lanes().len()];
        ternary.iter().for_each(|&lane| any[lane] = true);
        for region in regions.iter() {
            for (index, lane) in schema.lanes().iter().enumerate() {
                let (lo, hi) = (region.lo[index], region.hi[index]);
                any[index] |= (lo, hi) != (0, lane.max);
                all_or_required[index] &= hi < lane.max || (lo == 0 && hi == lane.max);
                single[index] &= is_single(&region, (index, lane.max.min(ANY)));
            }
            if !prefixes.iter().all(|of| of.open(&region).is_some()) {
                prefixes.retain(|of| of.open(&region).is_some());
            }
        }
        Self { all_or_required, any, single, prefixes, ternary }
    }
}

/// What a byte has for all values.
pub(super) const ANY: u32 = 0xFF;

/// Whether a region takes one value of a lane that does not stand for all, or all up to the most.
pub(super) fn is_single(region: &Region<'_>, (lane, most): (usize, u32)) -> bool {
    let (lo, hi) = (region.lo[lane], region.hi[lane]);
    (lo == hi && lo < ANY) || (lo == 0 && hi >= most)
}
