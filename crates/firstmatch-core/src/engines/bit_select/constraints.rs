//! Constraints that regions put on key words, as far as the form of columns depends on them.

use super::prefixes::Prefixes;
use crate::rule::{Region, Regions};
use crate::schema::Schema;

/// Properties of key words that hold for every region.
pub(super) struct Constraints {
    /// For each word, whether every region accepts all its values or rejects the one for absent.
    pub(super) all_or_required: Vec<bool>,
    /// For each word, whether some region constrains it.
    pub(super) any: Vec<bool>,
    /// For each word, whether [`is_single`] holds for every region.
    pub(super) single: Vec<bool>,
    /// Fields that are prefixes in every region.
    pub(super) prefixes: Vec<Prefixes>,
    /// Words for which some region has a value under a mask.
    pub(super) ternary: Vec<usize>,
}

impl Constraints {
    /// Collects the constraints in one pass over the regions.
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

/// Byte of a column that stands for all values.
pub(super) const ANY: u32 = 0xFF;

/// Whether a region accepts one value of a word, below [`ANY`], or all values up to `most`.
pub(super) fn is_single(region: &Region<'_>, (lane, most): (usize, u32)) -> bool {
    let (lo, hi) = (region.lo[lane], region.hi[lane]);
    (lo == hi && lo < ANY) || (lo == 0 && hi >= most)
}
