//! Parts of a box outside some regions, as merged boxes.

use super::cover::cut;
use super::piece::{Piece, and, holds, overlap};

/// Returns disjoint boxes that together are `of` without `entries`, which are flat pieces, merged where two make one.
///
/// The result is `None` if there are more than `most` before they are merged.
pub(super) fn leftover(of: &[Piece], entries: &[Piece], most: usize) -> Option<Vec<Vec<Piece>>> {
    let mut left = vec![of.to_vec()];
    for entry in entries.chunks_exact(of.len().max(1)) {
        let mut next = Vec::with_capacity(left.len());
        for of in left {
            if !overlap(&of, entry) {
                next.push(of);
            } else if !holds(entry, &of) {
                let pieces = cut(&of, entry).into_iter();
                // If an entry has masks, it may hold a box although `holds` does not tell.
                next.extend(pieces.filter(|piece| and(piece, entry).is_none()));
            }
        }
        left = next;
        if left.len() > most {
            return None;
        }
    }
    merge(&mut left);
    Some(left)
}

/// Merges pairs of boxes that differ in one word alone and are neighbours there, until there is no such pair.
pub(super) fn merge(boxes: &mut Vec<Vec<Piece>>) {
    loop {
        let before = boxes.len();
        let words = boxes.first().map_or(0, Vec::len);
        for word in 0..words {
            // Boxes that are equal but for this word are neighbours then.
            let others = |of: &[Piece]| {
                let other = |at: usize| (at, of[at].lo, of[at].hi, of[at].value, of[at].mask);
                (0..words).filter(|&at| at != word).map(other).collect::<Vec<_>>()
            };
            boxes.sort_by_cached_key(|of| (others(of), of[word].mask, of[word].lo));
            let mut merged: Vec<Vec<Piece>> = Vec::with_capacity(boxes.len());
            for of in boxes.drain(..) {
                match merged.last_mut() {
                    Some(last)
                        if last[word].mask | of[word].mask == 0
                            && last[word].hi.checked_add(1) == Some(of[word].lo)
                            && (0..words).all(|at| at == word || last[at] == of[at]) =>
                    {
                        last[word].hi = of[word].hi;
                    }
                    _ => merged.push(of),
                }
            }
            *boxes = merged;
        }
        if boxes.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(lo: u32, hi: u32) -> Piece {
        Piece::interval(lo, hi)
    }

    #[test]
    fn a_frame_is_left_of_a_square() {
        let left = leftover(&[piece(0, 9), piece(0, 9)], &[piece(3, 6), piece(3, 6)], 10).expect("few boxes");
        let size = |of: &Vec<Piece>| of.iter().map(|piece| piece.hi - piece.lo + 1).product::<u32>();
        assert_eq!((left.len(), left.iter().map(size).sum::<u32>()), (4, 84));
        assert_eq!(leftover(&[piece(0, 9)], &[piece(3, 6)], 1), None);
        assert_eq!(leftover(&[piece(2, 5)], &[piece(0, 9)], 1), Some(vec![]));
    }

    #[test]
    fn four_quarters_are_one_box() {
        let mut boxes: Vec<Vec<Piece>> =
            [(0, 0), (0, 5), (5, 5), (5, 0)].map(|(x, y)| vec![piece(x, x + 4), piece(y, y + 4)]).to_vec();
        merge(&mut boxes);
        assert_eq!(boxes, [vec![piece(0, 9), piece(0, 9)]]);
    }
}
