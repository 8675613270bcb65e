//! Members of a live set: addresses and ranges of one family, which may overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::address::Address;

/// Members of one family, in order.
///
/// Single addresses and ranges are kept apart, because sets of single addresses are the largest.
///
/// # Invariants
/// - `depths` has, from each of its values to the next one, the number of ranges that hold these addresses. Neighbours
///   differ, and the first is not 0 (`members_are_what_a_list_says`).
#[derive(Clone, Debug)]
pub(crate) struct Members<T> {
    single: BTreeSet<T>,
    ranges: BTreeSet<(T, T)>,
    depths: BTreeMap<T, u32>,
}

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self { single: BTreeSet::new(), ranges: BTreeSet::new(), depths: BTreeMap::new() }
    }
}

impl<T: Address> Members<T> {
    /// Number of members.
    pub(crate) fn len(&self) -> usize {
        self.single.len() + self.ranges.len()
    }

    /// Adds the member from `lo` to `hi`; returns whether it is new.
    pub(crate) fn insert(&mut self, lo: T, hi: T) -> bool {
        if lo == hi {
            return self.single.insert(lo);
        }
        let is_new = self.ranges.insert((lo, hi));
        if is_new {
            self.change_depths(lo, hi, |depth| depth + 1);
        }
        is_new
    }

    /// Removes the member from `lo` to `hi`; returns whether it was one.
    pub(crate) fn remove(&mut self, lo: T, hi: T) -> bool {
        if lo == hi {
            return self.single.remove(&lo);
        }
        let was = self.ranges.remove(&(lo, hi));
        if was {
            self.change_depths(lo, hi, |depth| depth - 1);
        }
        was
    }

    /// Changes the number of ranges that hold each address from `lo` to `hi`.
    fn change_depths(&mut self, lo: T, hi: T, change: impl Fn(u32) -> u32) {
        let behind = hi.next();
        for edge in [Some(lo), behind].into_iter().flatten() {
            let depth = self.depth(edge);
            self.depths.entry(edge).or_insert(depth);
        }
        let end = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.depths.range_mut((Bound::Included(lo), end)).for_each(|(_, depth)| *depth = change(*depth));
        for edge in [Some(lo), behind].into_iter().flatten() {
            let before = edge.previous().map_or(0, |before| self.depth(before));
            if self.depths.get(&edge) == Some(&before) {
                self.depths.remove(&edge);
            }
        }
    }

    /// Number of ranges that hold an address.
    fn depth(&self, address: T) -> u32 {
        self.depths.range(..=address).next_back().map_or(0, |(_, &depth)| depth)
    }

    /// Whether `lo` to `hi` is a member.
    pub(crate) fn has(&self, lo: T, hi: T) -> bool {
        if lo == hi { self.single.contains(&lo) } else { self.ranges.contains(&(lo, hi)) }
    }

    /// Whether some member holds an address.
    pub(crate) fn holds(&self, address: T) -> bool {
        self.single.contains(&address) || self.depth(address) > 0
    }

    /// Returns a member that holds an address: the address itself, or else the shortest range of those that begin last.
    pub(crate) fn member_with(&self, address: T) -> Option<(T, T)> {
        if self.single.contains(&address) {
            return Some((address, address));
        }
        if self.depth(address) == 0 {
            return None;
        }
        let &(lo, _) = self.ranges.range(..=(address, T::ENDS[1])).rev().find(|&&(_, hi)| address <= hi)?;
        self.ranges.range((lo, address)..).next().copied()
    }

    /// Calls `each` with every longest run of addresses from `lo` to `hi` that no member holds, in order.
    pub(crate) fn gaps<E>(&self, lo: T, hi: T, mut each: impl FnMut(T, T) -> Result<(), E>) -> Result<(), E> {
        if lo == hi {
            return if self.holds(lo) { Ok(()) } else { each(lo, lo) };
        }
        let mut at = lo;
        let mut is_covered = self.depth(lo) > 0;
        let mut edges = self.depths.range((Bound::Excluded(lo), Bound::Included(hi)));
        loop {
            let edge = edges.next();
            let end = edge.and_then(|(&edge, _)| edge.previous()).unwrap_or(hi);
            if !is_covered {
                self.gaps_of_single(at, end, &mut each)?;
            }
            let Some((&edge, &depth)) = edge else { return Ok(()) };
            (at, is_covered) = (edge, depth > 0);
        }
    }

    fn gaps_of_single<E>(&self, lo: T, hi: T, each: &mut impl FnMut(T, T) -> Result<(), E>) -> Result<(), E> {
        let mut from = Some(lo);
        for &address in self.single.range(lo..=hi) {
            if let (Some(from), Some(before)) = (from, address.previous())
                && from <= before
            {
                each(from, before)?;
            }
            from = address.next();
        }
        from.filter(|&from| from <= hi).map_or(Ok(()), |from| each(from, hi))
    }

    /// Returns the members in order of their first address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (T, T)> + use<'_, T> {
        let mut single = self.single.iter().map(|&address| (address, address)).peekable();
        let mut ranges = self.ranges.iter().copied().peekable();
        std::iter::from_fn(move || match (single.peek(), ranges.peek()) {
            (Some(one), Some(range)) if range < one => ranges.next(),
            (Some(_), _) => single.next(),
            (None, _) => ranges.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members, what they hold and their gaps equal those of a plain list, at both ends of the space and inside.
    #[test]
    fn members_are_what_a_list_says() {
        let mut state = 3u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) as u32 % below
        };
        for start in [0, 1 << 20, u32::MAX - 63] {
            let (mut members, mut list) = (Members::default(), BTreeSet::new());
            for step in 0..4000 {
                let lo = random(64);
                let hi = if random(2) == 0 { lo } else { lo + random(64 - lo) };
                let (lo, hi) = (start + lo, start + hi);
                match random(2) {
                    0 => assert_eq!(members.insert(lo, hi), list.insert((lo, hi))),
                    _ => assert_eq!(members.remove(lo, hi), list.remove(&(lo, hi))),
                }
                if random(8) == 0 {
                    list.clear();
                    members = Members::default();
                }
                assert_eq!((members.len(), members.has(lo, hi)), (list.len(), list.contains(&(lo, hi))));
                let of = |address: u32| list.iter().any(|&(lo, hi)| lo <= address && address <= hi);
                for address in start..=start + 63 {
                    assert_eq!(members.holds(address), of(address), "step {step}");
                    let member = members.member_with(address);
                    assert_eq!(member.is_some(), of(address));
                    assert!(member.is_none_or(|(lo, hi)| list.contains(&(lo, hi)) && lo <= address && address <= hi));
                    let around = list.iter().filter(|&&(lo, hi)| lo < hi && lo <= address && address <= hi);
                    let best = around.max_by_key(|&&(lo, hi)| (lo, std::cmp::Reverse(hi))).copied();
                    assert!(member.is_none_or(|(lo, hi)| lo == hi || Some((lo, hi)) == best));
                }
                assert!(members.iter().eq(list.iter().copied()));
                let mut gaps = Vec::new();
                let done: Result<(), ()> = members.gaps(lo, hi, |lo, hi| {
                    gaps.push((lo, hi));
                    Ok(())
                });
                assert!(done.is_ok() && gaps.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
                let in_gap = |address: u32| gaps.iter().any(|&(lo, hi)| lo <= address && address <= hi);
                assert!((start..=start + 63).all(|at| in_gap(at) == (lo <= at && at <= hi && !of(at))));
                let depths: Vec<u32> = members.depths.values().copied().collect();
                assert!(depths.windows(2).all(|pair| pair[0] != pair[1]) && depths.first() != Some(&0));
            }
        }
    }
}
