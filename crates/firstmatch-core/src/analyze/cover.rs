//! The one question of the analysis: is a box of packets covered by some rules?
//!
//! A few points of the box are tried first: a point that matches no rule is the answer. Then a single region that holds
//! all of the box is looked for. Only then the box is searched: a region is cut out of it, which leaves disjoint boxes,
//! each with the regions that overlap it. This goes on until a box has no region left, or one region holds every box.

use super::piece::{Piece, contains, holds, overlap};

/// Answer to the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// Every packet of the box matches a rule.
    Covered,
    /// This packet matches none.
    Free(Vec<u32>),
    /// The work exceeded its cap.
    Undecided,
}

/// Work that searches may do, in regions looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Work of all questions so far.
    pub(super) done: u64,
    pub(super) most: u64,
    /// Maximum work of one question.
    pub(super) most_each: u64,
}

impl Work {
    /// Returns the work that the next question may do.
    fn allowed(&self) -> u64 {
        self.most_each.min(self.most.saturating_sub(self.done))
    }
}

/// Box that is still to be covered, with its entries as a range of the list of all.
struct Rest {
    of: Vec<Piece>,
    entries: Vec<u32>,
}

/// Searches a box for a key outside all entries, which are flat pieces.
///
/// It ends, because every step leaves an entry out of the lists of all boxes that it makes.
pub(super) fn search(of: &[Piece], entries: &[Piece], work: &mut Work) -> Cover {
    let words = of.len();
    let entry = |index: u32| &entries[index as usize * words..][..words];
    let all = (0..(entries.len() / words.max(1)) as u32).collect();
    let mut stack = vec![Rest { of: of.to_vec(), entries: all }];
    let allowed = work.allowed();
    let mut own = 0;
    while let Some(Rest { of, entries }) = stack.pop() {
        own += entries.len() as u64 + 1;
        if own > allowed {
            work.done += own;
            return Cover::Undecided;
        }
        if entries.iter().any(|&index| holds(entry(index), &of)) {
            continue;
        }
        let ends = [of.iter().map(|piece| piece.lo).collect::<Vec<_>>(), of.iter().map(|piece| piece.hi).collect()];
        if let Some(free) = ends.into_iter().find(|key| entries.iter().all(|&index| !contains(entry(index), key))) {
            work.done += own;
            return Cover::Free(free);
        }
        // The entry with the largest part of the box leaves the least to do.
        let share =
            |index: u32| of.iter().zip(entry(index)).map(|(a, b)| a.and(*b).map_or(0.0, Piece::size)).sum::<f64>();
        let shares = entries.iter().map(|&index| (share(index), index));
        let Some((_, largest)) = shares.max_by(|one, other| one.0.total_cmp(&other.0)) else { continue };
        let mut pieces = cut(&of, entry(largest));
        pieces.sort_by(|one, other| size(one).total_cmp(&size(other)));
        for piece in pieces {
            let own = entries.iter().copied().filter(|&index| index != largest && overlap(entry(index), &piece));
            let entries = own.collect();
            stack.push(Rest { of: piece, entries });
        }
    }
    work.done += own;
    Cover::Covered
}

/// Returns disjoint boxes that cover the part of `of` outside `entry`.
///
/// Words in which most of `of` lies outside `entry` are cut first, because the later boxes are then smaller.
pub(super) fn cut(of: &[Piece], entry: &[Piece]) -> Vec<Vec<Piece>> {
    let mut words: Vec<(f64, usize)> = Vec::with_capacity(of.len());
    for (word, (own, cut)) in of.iter().zip(entry).enumerate() {
        let left = own.size() - own.and(*cut).map_or(0.0, Piece::size);
        words.push((left, word));
    }
    words.sort_by(|one, other| other.0.total_cmp(&one.0));
    let (mut rest, mut out) = (of.to_vec(), Vec::new());
    for (_, word) in words {
        let shared = rest[word].without(entry[word], |piece| {
            let mut other = rest.clone();
            other[word] = piece;
            out.push(other);
        });
        match shared {
            Some(shared) => rest[word] = shared,
            None => return vec![of.to_vec()],
        }
    }
    out
}

fn size(of: &[Piece]) -> f64 {
    of.iter().map(|piece| piece.size()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        Work { done: 0, most: u64::MAX, most_each: u64::MAX }
    }

    /// Boxes with intervals and masks over two words of three bits: the search and all 64 keys agree.
    #[test]
    fn the_search_agrees_with_all_keys() {
        let mut state = 7u64;
        let mut below = |most: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % most
        };
        let mut piece = || loop {
            let (a, b) = (below(8), below(8));
            let mask = if below(2) == 0 { 0 } else { below(8) };
            if let Some(piece) = Piece::new(a.min(b), a.max(b), below(8) & mask, mask) {
                return piece;
            }
        };
        let mut covered = 0;
        for round in 0..20_000 {
            let of = [piece(), piece()];
            let mut entries = Vec::new();
            for _ in 0..1 + round % 12 {
                let entry = [piece(), piece()];
                if overlap(&entry, &of) {
                    entries.extend(entry);
                }
            }
            let keys = (0..64u32).map(|key| [key / 8, key % 8]).filter(|key| contains(&of, key));
            let is_free = |key: &[u32; 2]| entries.chunks(2).all(|entry| !contains(entry, key));
            let expected = keys.clone().any(|key| is_free(&key));
            match search(&of, &entries, &mut work()) {
                Cover::Free(key) => assert!(is_free(&[key[0], key[1]]) && contains(&of, &key), "{of:?} {entries:?}"),
                Cover::Covered => {
                    assert!(!expected, "{of:?} {entries:?}");
                    covered += 1;
                }
                Cover::Undecided => panic!("there is no cap"),
            }
        }
        assert!((2_000..18_000).contains(&covered), "{covered}");
    }

    /// Two stripes per word leave one key free among 2^40: a cap ends the search, and more work finds it.
    #[test]
    fn a_cap_leaves_the_question_undecided() {
        let full = [Piece::interval(0, 255); 5];
        let mut entries = Vec::new();
        for word in 0..5 {
            for other in (0..256).filter(|&value| value != 77) {
                let mut entry = full;
                entry[word] = Piece::interval(other, other);
                entries.extend(entry);
            }
        }
        let mut few = Work { done: 0, most: u64::MAX, most_each: 100 };
        assert_eq!(search(&full, &entries, &mut few), Cover::Undecided);
        assert!(few.done > 100);
        assert_eq!(search(&full, &entries, &mut work()), Cover::Free(vec![77; 5]));
        let mut spent = Work { done: 50, most: 60, most_each: u64::MAX };
        assert_eq!(search(&full, &entries, &mut spent), Cover::Undecided);
        let mut none = entries;
        none.extend([Piece::interval(77, 77); 5]);
        assert_eq!(search(&full, &none, &mut work()), Cover::Covered);
    }
}
