//! Regions: what rules lower to and engines search.

use crate::error::UpdateError;

/// One region: a closed interval a lane and, where a lane is ternary, a value under a mask; both must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// The smallest value of each lane.
    pub lo: &'a [u32],
    /// The largest value of each lane.
    pub hi: &'a [u32],
    /// `(value, mask)` of each lane where some lane is ternary. The intervals are then already the hull: no value
    /// outside them passes the masks.
    pub ternary: Option<(&'a [u32], &'a [u32])>,
}

impl Region<'_> {
    /// Whether a row of keys lies inside.
    pub fn contains(&self, key: &[u32]) -> bool {
        let inside = self.lo.iter().zip(self.hi).zip(key).all(|((lo, hi), k)| lo <= k && k <= hi);
        inside
            && self.ternary.is_none_or(|(value, mask)| {
                value.iter().zip(mask).zip(key).all(|((value, mask), k)| k & mask == *value)
            })
    }
}

/// Regions over the same lanes, in a flat array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    lanes: usize,
    /// For each region `lo` of every lane, then `hi` of every lane.
    bounds: Vec<u32>,
    count: usize,
    /// For each region its place in `masks`, or `NOT_TERNARY`; those behind the last ternary one are left out.
    ternary: Vec<u32>,
    /// For each ternary region `value` of every lane, then `mask` of every lane.
    masks: Vec<u32>,
}

const NOT_TERNARY: u32 = u32::MAX;

impl Regions {
    /// No region yet, over this many lanes.
    pub fn new(lanes: usize) -> Self {
        Self { lanes, ..Self::default() }
    }

    /// How many lanes a region has.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// How many regions there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The regions of one index.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self, index: usize) -> Region<'_> {
        let (lo, hi) = self.bounds[index * 2 * self.lanes..][..2 * self.lanes].split_at(self.lanes);
        let ternary = self.ternary.get(index).filter(|&&place| place != NOT_TERNARY);
        let ternary =
            ternary.map(|&place| self.masks[place as usize * 2 * self.lanes..][..2 * self.lanes].split_at(self.lanes));
        Region { lo, hi, ternary }
    }

    /// The regions in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Region<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Adds a region.
    ///
    /// # Panics
    /// If [`Regions::try_push`] refuses it.
    pub fn push(&mut self, region: Region<'_>) {
        if let Err(error) = self.try_push(region) {
            panic!("{error}");
        }
    }

    /// Adds a region that may be malformed.
    ///
    /// # Errors
    /// If its lanes are not as many as this set's, an interval is empty (`lo > hi`), or an end of an interval does not
    /// pass the mask of its lane. Nothing is added then.
    pub fn try_push(&mut self, region: Region<'_>) -> Result<(), UpdateError> {
        let Region { lo, hi, ternary } = region;
        let parts = ternary.map_or([lo, hi, lo, hi], |(value, mask)| [lo, hi, value, mask]);
        if let Some(part) = parts.into_iter().find(|part| part.len() != self.lanes) {
            return Err(UpdateError::bad_region(format!("it has {} lanes instead of {}", part.len(), self.lanes)));
        }
        if let Some(lane) = (0..self.lanes).find(|&lane| lo[lane] > hi[lane]) {
            let what = format!("lane {lane} goes from {} to {}", lo[lane], hi[lane]);
            return Err(UpdateError::bad_region(what));
        }
        if let Some((value, mask)) = ternary
            && let Some(lane) = (0..self.lanes).find(|&at| [lo, hi].map(|end| end[at] & mask[at]) != [value[at]; 2])
        {
            let what = format!("the ends of lane {lane} do not have the value {} under its mask", value[lane]);
            return Err(UpdateError::bad_region(what));
        }
        self.bounds.extend_from_slice(lo);
        self.bounds.extend_from_slice(hi);
        self.count += 1;
        let Some((value, mask)) = ternary else { return Ok(()) };
        self.ternary.resize(self.count - 1, NOT_TERNARY);
        // At most 2^24 regions are lowered: the index fits.
        self.ternary.push((self.masks.len() / (2 * self.lanes)) as u32);
        self.masks.extend_from_slice(value);
        self.masks.extend_from_slice(mask);
        Ok(())
    }

    /// Makes room for `count` more regions of intervals.
    pub(super) fn reserve(&mut self, count: usize) {
        self.bounds.reserve(count * 2 * self.lanes);
    }

    /// Adds a region of intervals: those of the lanes from 0 on, each as `(lo, hi)`.
    pub(super) fn push_intervals(&mut self, intervals: impl Iterator<Item = (u32, u32)> + Clone) {
        self.bounds.extend(intervals.clone().map(|(lo, _)| lo));
        self.bounds.extend(intervals.map(|(_, hi)| hi));
        self.count += 1;
        debug_assert_eq!(self.bounds.len(), self.count * 2 * self.lanes);
    }

    /// The intervals of one lane of the last region, as `(lo, hi)`.
    pub(super) fn last_interval(&mut self, lane: usize) -> (&mut u32, &mut u32) {
        let start = self.bounds.len() - 2 * self.lanes;
        let (lo, hi) = self.bounds[start..].split_at_mut(self.lanes);
        (&mut lo[lane], &mut hi[lane])
    }

    /// Forgets the last region, which must not be ternary.
    pub(super) fn pop_intervals(&mut self) {
        self.bounds.truncate(self.bounds.len() - 2 * self.lanes);
        self.count -= 1;
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        (self.bounds.capacity() + self.ternary.capacity() + self.masks.capacity()) * size_of::<u32>()
    }

    /// Forgets every region and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.bounds.clear();
        self.ternary.clear();
        self.masks.clear();
    }

    /// The lanes on which some region is ternary.
    pub fn ternary_lanes(&self) -> Vec<usize> {
        let any = |lane| self.iter().any(|r| r.ternary.is_some_and(|(_, mask)| mask[lane] != 0));
        if self.masks.is_empty() { Vec::new() } else { (0..self.lanes).filter(|&lane| any(lane)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_region_is_refused_and_changes_nothing() {
        let mut regions = Regions::new(2);
        regions.push(Region { lo: &[1, 2], hi: &[1, 3], ternary: Some((&[1, 0], &[1, 0])) });
        let before = regions.clone();
        let refused = [
            Region { lo: &[0, 4], hi: &[9, 3], ternary: None },
            Region { lo: &[0], hi: &[9, 3], ternary: None },
            Region { lo: &[0, 0], hi: &[9, 3, 1], ternary: None },
            Region { lo: &[0, 0], hi: &[9, 9], ternary: Some((&[0, 0], &[0])) },
            Region { lo: &[0, 0], hi: &[9, 9], ternary: Some((&[0, 1], &[0, 1])) },
            Region { lo: &[0, 1], hi: &[9, 8], ternary: Some((&[0, 1], &[0, 1])) },
            Region { lo: &[0, 1], hi: &[9, 9], ternary: Some((&[0, 3], &[0, 1])) },
        ];
        let errors = refused.map(|region| regions.try_push(region).expect_err("malformed").to_string());
        assert_eq!(errors[0], "the region is malformed: lane 1 goes from 4 to 3");
        assert_eq!(errors[1], "the region is malformed: it has 1 lanes instead of 2");
        assert_eq!(regions, before);
    }
}
