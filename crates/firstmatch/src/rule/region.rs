//! Regions: what rules lower to and engines search.

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
    /// When its lanes are not as many as this set's.
    pub fn push(&mut self, region: Region<'_>) {
        assert!(region.lo.len() == self.lanes && region.hi.len() == self.lanes);
        self.bounds.extend_from_slice(region.lo);
        self.bounds.extend_from_slice(region.hi);
        self.count += 1;
        let Some((value, mask)) = region.ternary else { return };
        assert!(value.len() == self.lanes && mask.len() == self.lanes);
        self.ternary.resize(self.count - 1, NOT_TERNARY);
        // Fewer than 2^24 regions are ever lowered: the index fits.
        self.ternary.push((self.masks.len() / (2 * self.lanes)) as u32);
        self.masks.extend_from_slice(value);
        self.masks.extend_from_slice(mask);
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
