//! Tables chosen with all rules at hand (section III-C5).

use super::tuple::{Shape, is_within};
use crate::raw::Hasher;
use crate::rule::Regions;

/// Regions in order of priority, as rows.
struct Rows {
    stride: usize,
    /// Bits that each region fixes.
    nominal: Vec<u32>,
    /// Lower bounds of each region.
    lo: Vec<u32>,
}

impl Rows {
    fn nominal(&self, region: u32) -> &[u32] {
        &self.nominal[region as usize * self.stride..][..self.stride]
    }

    fn lo(&self, region: u32) -> &[u32] {
        &self.lo[region as usize * self.stride..][..self.stride]
    }
}

/// Number of regions of a table that share each key.
///
/// Keys with equal hashes count as one.
struct Counts {
    /// Hash, number, and the round in which that was counted.
    slots: Vec<(u32, u32, u32)>,
    round: u32,
}

impl Counts {
    /// Counts one more of this hash; returns whether there are at most `limit`.
    fn admit(&mut self, hash: u32, limit: usize) -> bool {
        let mut at = hash as usize & (self.slots.len() - 1);
        loop {
            let slot = &mut self.slots[at];
            if slot.2 != self.round {
                *slot = (hash, 1, self.round);
                return true;
            }
            if slot.0 == hash {
                slot.1 += 1;
                return slot.1 as usize <= limit;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

/// Chooses tables for regions in order of priority: the tuple of each and its regions.
///
/// `limit` is at least 1.
pub(super) fn tables(shape: &Shape, hasher: &Hasher, regions: &Regions, limit: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
    let stride = shape.stride();
    let mut rows = Rows { stride, nominal: vec![0; regions.len() * stride], lo: vec![0; regions.len() * stride] };
    for (index, region) in regions.iter().enumerate() {
        shape.nominal(&region, &mut rows.nominal[index * stride..][..stride]);
        rows.lo[index * stride..][..region.lo.len()].copy_from_slice(region.lo);
    }
    let mut counts = Counts { slots: vec![(0, 0, 0); (regions.len() * 2).next_power_of_two()], round: 0 };
    let mut left: Vec<u32> = (0..regions.len() as u32).collect();
    let mut tables = Vec::new();
    while let Some(tuple) = choose(&rows, hasher, &mut counts, &left, limit) {
        let (inside, outside) = divide(&rows, hasher, &mut counts, &left, &tuple, limit);
        tables.push((tuple, inside));
        left = outside;
    }
    tables
}

/// Returns the tuple whose table takes the longest run of regions from the start of `left`.
///
/// Candidates are the bits that the first `i` regions share, for each `i`. Ties go to the table with the most regions.
///
/// For example, take the paper's Table I and a limit of 1. A table of lengths (3, 3) takes all rules before rule 4.
/// One of (2, 2) takes all before rule 3, which collides with rule 2. One of (3, 2) takes all before rule 5, so that
/// it is chosen.
fn choose(rows: &Rows, hasher: &Hasher, counts: &mut Counts, left: &[u32], limit: usize) -> Option<Vec<u32>> {
    let mut tuples: Vec<Vec<u32>> = vec![rows.nominal(*left.first()?).to_vec()];
    for &region in left {
        let last = &tuples[tuples.len() - 1];
        if !is_within(last, rows.nominal(region)) {
            tuples.push(last.iter().zip(rows.nominal(region)).map(|(a, b)| a & b).collect());
        }
    }
    let mut best: Vec<Vec<u32>> = Vec::new();
    let mut latest = 0;
    for tuple in tuples {
        counts.round += 1;
        let mut admit = |&region: &u32| {
            is_within(&tuple, rows.nominal(region)) && counts.admit(hasher.hash(rows.lo(region), &tuple), limit)
        };
        let missing = left.iter().take_while(|region| admit(region)).count();
        if missing > latest {
            best.clear();
            latest = missing;
        }
        if missing == latest {
            best.push(tuple);
        }
    }
    if best.len() > 1 && latest < left.len() {
        let size = |tuple: &Vec<u32>| divide(rows, hasher, counts, left, tuple, limit).0.len();
        // Of tables of equal size the first is chosen, because its tuple has most bits.
        let sizes: Vec<usize> = best.iter().map(size).collect();
        let most = sizes.iter().copied().max();
        return best.into_iter().zip(sizes).find(|(_, size)| Some(*size) == most).map(|(tuple, _)| tuple);
    }
    best.into_iter().next()
}

/// Divides `left` into the regions that a table of this tuple takes, and the others.
fn divide(
    rows: &Rows,
    hasher: &Hasher,
    counts: &mut Counts,
    left: &[u32],
    tuple: &[u32],
    limit: usize,
) -> (Vec<u32>, Vec<u32>) {
    counts.round += 1;
    left.iter().partition(|&&region| {
        is_within(tuple, rows.nominal(region)) && counts.admit(hasher.hash(rows.lo(region), tuple), limit)
    })
}
