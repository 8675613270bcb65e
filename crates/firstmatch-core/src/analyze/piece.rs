//! Boxes of the key space: for each word the values of an interval that pass a mask.

use crate::rule::{Region, Regions};

/// Values of one word: those of a closed interval that agree with `value` under `mask`.
///
/// The ends are values of the piece themselves, so that it is never empty. For example, of the interval 1 to 6 the mask
/// 1 with the value 0 leaves 2, 4 and 6, whose ends are 2 and 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Piece {
    pub(super) lo: u32,
    pub(super) hi: u32,
    pub(super) value: u32,
    pub(super) mask: u32,
}

impl Piece {
    /// Returns the piece of these bounds; `None` if it is empty.
    pub(super) fn new(lo: u32, hi: u32, value: u32, mask: u32) -> Option<Self> {
        let lo = first_from(lo, value, mask)?;
        // The greatest value up to `hi` is the least from the complement of `hi` on, with all bits inverted.
        let hi = !first_from(!hi, !value & mask, mask)?;
        (lo <= hi).then_some(Self { lo, hi, value, mask })
    }

    /// Returns the piece of an interval, which is not empty.
    pub(super) fn interval(lo: u32, hi: u32) -> Self {
        Self { lo, hi, value: 0, mask: 0 }
    }

    /// Whether a value lies inside.
    pub(super) fn contains(self, key: u32) -> bool {
        self.lo <= key && key <= self.hi && key & self.mask == self.value
    }

    /// Returns the values of both pieces; `None` if there are none.
    pub(super) fn and(self, other: Self) -> Option<Self> {
        let (lo, hi) = (self.lo.max(other.lo), self.hi.min(other.hi));
        if lo > hi || (self.value ^ other.value) & self.mask & other.mask != 0 {
            return None;
        }
        Self::new(lo, hi, self.value | other.value, self.mask | other.mask)
    }

    /// Whether all values of `other` lie inside; if both have masks, it may miss this.
    pub(super) fn holds(self, other: Self) -> bool {
        // Bits above the highest one in which the ends differ are the same in all values between.
        let common = !(u32::MAX.checked_shr((other.lo ^ other.hi).leading_zeros()).unwrap_or(0));
        let fixed = other.mask | common;
        self.lo <= other.lo && other.hi <= self.hi && self.mask & !fixed == 0 && other.lo & self.mask == self.value
    }

    /// Logarithm of the number of values, for comparisons only: mask bits count as if the interval began at 0.
    pub(super) fn size(self) -> f64 {
        (f64::from(self.hi - self.lo) + 1.0).log2() - f64::from(self.mask.count_ones())
    }

    /// Calls `out` with disjoint pieces that together are `self` without `cut`; returns what both share.
    pub(super) fn without(self, cut: Self, mut out: impl FnMut(Self)) -> Option<Self> {
        let shared = self.and(cut)?;
        let Self { value, mask, .. } = self;
        let mut part = |lo: u32, hi: u32, value: u32, mask: u32| {
            if let Some(piece) = Self::new(lo, hi, value, mask) {
                out(piece);
            }
        };
        if cut.lo > self.lo {
            part(self.lo, cut.lo - 1, value, mask);
        }
        if cut.hi < self.hi {
            part(cut.hi + 1, self.hi, value, mask);
        }
        // Inside the interval of `cut`: for each bit of its mask the values that first disagree there.
        let (lo, hi) = (self.lo.max(cut.lo), self.hi.min(cut.hi));
        let (mut value, mut mask) = (value, mask);
        let mut left = cut.mask & !mask;
        while left != 0 {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            part(lo, hi, value | (!cut.value & bit), mask | bit);
            (value, mask) = (value | cut.value & bit, mask | bit);
        }
        Some(shared)
    }
}

/// Returns the least value from `from` on that agrees with `value` under `mask`.
fn first_from(from: u32, value: u32, mask: u32) -> Option<u32> {
    let differ = (from ^ value) & mask;
    if differ == 0 {
        return Some(from);
    }
    let top = 31 - differ.leading_zeros();
    let below = |bit: u32| (1u32 << bit) - 1;
    // Where the wanted bit is 1, the bits above stay and the ones below begin anew. Otherwise a free bit above is
    // raised.
    let raised = if value >> top & 1 == 1 {
        top
    } else {
        let free = !mask & !from & !(below(top) | 1 << top);
        if free == 0 {
            return None;
        }
        free.trailing_zeros()
    };
    let kept = from & !(below(raised) | 1 << raised);
    let bit = if value >> top & 1 == 1 { 0 } else { 1 << raised };
    Some(kept | bit | value & (below(raised) | 1 << raised))
}

/// Appends the pieces of a region to a flat list.
pub(super) fn push_region(out: &mut Vec<Piece>, region: &Region<'_>) {
    for (word, (&lo, &hi)) in region.lo.iter().zip(region.hi).enumerate() {
        let (value, mask) = region.ternary.map_or((0, 0), |(value, mask)| (value[word], mask[word]));
        out.push(Piece { lo, hi, value, mask });
    }
}

/// Appends a box to a list of regions.
pub(super) fn push_box(out: &mut Regions, of: &[Piece]) {
    let words = |word: fn(&Piece) -> u32| of.iter().map(word).collect::<Vec<_>>();
    let (lo, hi) = (words(|piece| piece.lo), words(|piece| piece.hi));
    let (value, mask) = (words(|piece| piece.value), words(|piece| piece.mask));
    let ternary = mask.iter().any(|&mask| mask != 0).then_some((&value[..], &mask[..]));
    out.push(Region { lo: &lo, hi: &hi, ternary });
}

/// Whether two boxes have a key in common.
pub(super) fn overlap(one: &[Piece], other: &[Piece]) -> bool {
    one.iter().zip(other).all(|(a, b)| a.lo <= b.hi && b.lo <= a.hi && (a.mask | b.mask == 0 || a.and(*b).is_some()))
}

/// Whether all keys of `inner` lie in `outer`; if both have masks, it may miss this.
pub(super) fn holds(outer: &[Piece], inner: &[Piece]) -> bool {
    outer.iter().zip(inner).all(|(outer, inner)| outer.holds(*inner))
}

/// Whether a key lies in a box.
pub(super) fn contains(of: &[Piece], key: &[u32]) -> bool {
    of.iter().zip(key).all(|(piece, key)| piece.contains(*key))
}

/// Returns the keys that lie in both boxes; `None` if there are none.
pub(super) fn and(one: &[Piece], other: &[Piece]) -> Option<Vec<Piece>> {
    one.iter().zip(other).map(|(a, b)| a.and(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pieces over words of four bits: sets of values, by brute force.
    fn all() -> Vec<(Piece, u16)> {
        let mut all = Vec::new();
        for lo in 0..16 {
            for hi in lo..16 {
                for mask in [0, 1, 2, 5, 8, 12, 15] {
                    for value in (0..16).filter(|value| value & !mask == 0) {
                        let keys = (lo..=hi).filter(|key| key & mask == value).fold(0, |all, key| all | 1 << key);
                        match Piece::new(lo, hi, value, mask) {
                            Some(piece) => all.push((piece, keys)),
                            None => assert_eq!(keys, 0, "{lo} {hi} {value} {mask}"),
                        }
                    }
                }
            }
        }
        all
    }

    fn keys(piece: Piece) -> u16 {
        (0..16).filter(|&key| piece.contains(key)).fold(0, |all, key| all | 1 << key)
    }

    #[test]
    fn pieces_are_the_sets_that_they_stand_for() {
        let all = all();
        for &(piece, expected) in &all {
            assert_eq!(keys(piece), expected, "{piece:?}");
            assert!(piece.contains(piece.lo) && piece.contains(piece.hi), "{piece:?}");
        }
        for (at, &(one, keys_of_one)) in all.iter().enumerate() {
            for &(other, keys_of_other) in all.iter().skip(at % 7).step_by(7) {
                assert_eq!(one.and(other).map_or(0, keys), keys_of_one & keys_of_other, "{one:?} {other:?}");
                assert!(!one.holds(other) || keys_of_other & !keys_of_one == 0, "{one:?} {other:?}");
                let is_exact = one.mask == 0 || other.mask == 0 && other.lo == other.hi;
                assert!(!is_exact || one.holds(other) == (keys_of_other & !keys_of_one == 0), "{one:?} {other:?}");
                let mut left = 0;
                let shared = one.without(other, |piece| {
                    assert_eq!(left & keys(piece), 0, "{one:?} {other:?}: {piece:?} comes twice");
                    left |= keys(piece);
                });
                assert_eq!(shared.map_or(0, keys), keys_of_one & keys_of_other);
                assert!(shared.is_none() || left == keys_of_one & !keys_of_other, "{one:?} {other:?}: {left:016b}");
            }
        }
    }
}
